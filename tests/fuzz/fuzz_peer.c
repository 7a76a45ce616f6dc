/*
 * Fuzz target: a script of three clients, the clock and the broker, one action in each line. It runs
 * over the real peer room, the engine and the broker in memory, in virtual time:
 *
 *	A{"id":1,...}	client A sends the rest of the line and LF; B and C too
 *	a{"id":		the same without LF
 *	!A  /A  <A	A hangs up, ends its sending side, reads its input
 *	+500		half a second passes
 *	~h  ~s		the lock, the auxiliary connection ends; it is back 100 ms later
 *	~b  ~u		an alarm begins, ends
 *	%text		a hostile user of the vhost publishes the text to each queue: as a hint, as an
 *			entry of the directory, as a daemon message, to a holder
 *	^  ^!A		a successor takes over, if the daemon is still within 2 s. The other action is
 *			done while the daemon is frozen
 *	*		the daemon is told to stop
 *
 * An @ in sent bytes stands for the last lock that was read. It must not crash. A client gets only
 * messages. When all clients have hung up, the engine comes to rest and holds no queue.
 *
 *	make fuzz FUZZ=peer
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/broker/setup.h"
#include "daemon/memory/memory.h"
#include "daemon/peer/dispatch.h"
#include "daemon/state/state.h"
#include "protocol/line.h"
#include "protocol/message.h"
#include "protocol/methods.h"
#include "tests/fuzz/daemon.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lock_settings.h"

enum { PEERS = 3 };

static struct event_base *base;
static struct timers *timers;
static struct memory_world *world;
static struct broker *broker;
static struct lock_engine *engine;
static struct view *view;
static struct dispatch *dispatch;
static struct peers *peers;
static struct config *config;
static struct conn_handler dispatch_handler;
static bool draining, replaced;
static char last_lock[METHODS_LOCK_MAX + 1];

static struct {
	int fd; /* -1 = not connected */
	bool half_closed;
	struct line_reader *reader;
} ends[PEERS];

/* ---- the daemon ---- */

static bool
line_came(void *ctx, struct conn *conn, const char *line, size_t len)
{
	(void)ctx;
	return dispatch_handler.line(dispatch_handler.ctx, conn, line, len);
}

static void
peer_gone(void *ctx, struct conn *conn)
{
	(void)ctx;
	if (!replaced)
		dispatch_handler.gone(dispatch_handler.ctx, conn);
}

static void
peer_left(void *ctx, struct conn *conn)
{
	(void)ctx;
	if (!replaced)
		dispatch_handler.left(dispatch_handler.ctx, conn);
}

static void
daemon_make(void)
{
	const struct conn_handler handler = {
	    .line = line_came, .gone = peer_gone, .left = peer_left};
	const struct lock_settings settings = {
	    TEST_LOCK_SETTINGS,
	    .max_locks_per_connection = 3,
	    .max_waits_per_connection = 3,
	};
	const struct account_limits limits = {
	    .most = {100, 6, 2, 2, (size_t)4 * 1024 * 1024}, .all_bytes = SIZE_MAX};
	const struct view_settings looks = {
	    .host = "fuzz", .naming = "amqp-locks", .timeout = NSEC_PER_SEC / 2};
	struct lock_events events;
	struct view_events seen;

	replaced = false;
	broker = memory_broker_new(world, 10, 8);
	dispatch = dispatch_new(&virtual_clock, &(struct dispatch_past){.run = 0}, config);
	dispatch_handler = dispatch_peers_handler(dispatch);
	events = dispatch_lock_events(dispatch);
	peers = peers_new(base, &handler);
	engine = lock_engine_new(broker, timers, 1, &settings, &events);
	seen = dispatch_view_events(dispatch);
	view = view_new(engine, broker, timers, &looks, &seen);
	dispatch_wire(dispatch, peers, engine, view, broker);
	peers_set_limits(peers, 2, &limits);
}

static void
daemon_free(void)
{
	peers_free(peers);
	dispatch_unwire(dispatch);
	view_free(view);
	broker_stop(broker);
	lock_engine_free(engine);
	dispatch_free(dispatch);
	broker_free(broker);
}

static void
begin(void)
{
	now = NSEC_PER_SEC;
	draining = false;
	last_lock[0] = '\0';
	base = event_base_new();
	timers = timers_new(&virtual_clock);
	world = memory_world_new(timers, NULL);
	daemon_make();
	broker_start(broker);
	for (int i = 0; i < PEERS; i++)
		ends[i].fd = -1;
}

/* Passes of the loop until nothing is to be done at this time. */
static void
settle(void)
{
	for (int i = 0; i < 10000; i++) {
		event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		timers_run(timers);
		peers_visit(peers);
		if (!peers_are_due(peers) && timers_next(timers) > now &&
		    event_base_get_num_events(base, EVENT_BASE_COUNT_ACTIVE) == 0 && i > 3)
			return;
	}
	must(false, "the loop does not come to rest");
}

static void
pass_time(int64_t ns)
{
	int64_t until = now + ns;

	settle();
	while (timers_next(timers) <= until) {
		now = timers_next(timers);
		settle();
	}
	now = until;
	settle();
}

/* False: the lock connection has ended. */
static bool
save(struct state_text *ret)
{
	struct state_writer *writer = state_writer_new();
	bool saved;

	peers_push(peers);
	saved = broker_save(broker, writer);
	lock_save_holds(engine, writer);
	dispatch_save(dispatch, writer);
	lock_save_waits(engine, writer);
	*ret = state_finish(writer);
	return saved;
}

/* Another daemon takes over the clients' sockets, which are duplicated first. */
static void
succeed(const struct state_text *text)
{
	int *fds = calloc(text->socket_count + 1, sizeof(*fds));
	struct state_reader *reader;

	must(fds != NULL, "memory");
	for (size_t i = 0; i < text->socket_count; i++)
		fds[i] = dup(text->sockets[i]);
	memory_broker_detach(broker, 0);
	replaced = true;
	daemon_free();
	daemon_make();
	reader = state_reader_new(text->text, text->len, fds, text->socket_count);
	if (!broker_resume(broker, reader) || !lock_restore_holds(engine, reader) ||
	    !dispatch_restore(dispatch, reader) || !lock_restore_waits(engine, reader) ||
	    !state_end(reader))
		must(false, state_error(reader));
	dispatch_restored(dispatch);
	state_reader_free(reader);
	free(fds);
}

static void
remember_lock(const struct message_answer *answer)
{
	const char *lock;

	if (answer->kind == MESSAGE_RESULT && json_string(json_get(answer->content, "lock"), &lock))
		snprintf(last_lock, sizeof(last_lock), "%s", lock);
}

static void
take(int which)
{
	struct message_answer answer;
	char bytes[65536];
	const char *line, *what;
	size_t len;
	ssize_t got;

	while (ends[which].fd >= 0 && (got = read(ends[which].fd, bytes, sizeof(bytes))) > 0) {
		must(line_reader_feed(ends[which].reader, bytes, (size_t)got) == LINE_NONE,
		    "memory");
		while (line_reader_next(ends[which].reader, &line, &len) == LINE_READY) {
			must(message_parse_answer(line, len, &answer, &what), "no message");
			remember_lock(&answer);
			message_answer_done(&answer);
		}
	}
}

static void
hang_up(int which)
{
	if (ends[which].fd < 0)
		return;
	close(ends[which].fd);
	line_reader_free(ends[which].reader);
	ends[which].fd = -1;
}

/* Replaces each @ by the last lock. A text that is too long is cut. */
static size_t
put_lock(char *to, size_t size, const char *text, size_t len)
{
	size_t used = 0;

	for (size_t i = 0; i < len && used + sizeof(last_lock) < size; i++) {
		if (text[i] == '@')
			used += (size_t)snprintf(to + used, size - used, "%s", last_lock);
		else
			to[used++] = text[i];
	}
	return used;
}

static void
say(int which, const char *text, size_t len)
{
	static char bytes[2 * LINE_MAX_IN];
	size_t size = put_lock(bytes, sizeof(bytes), text, len);
	int pair[2];

	if (ends[which].fd < 0) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "no socket");
		peers_add(peers, pair[0]);
		ends[which].fd = pair[1];
		ends[which].half_closed = false;
		ends[which].reader = line_reader_new(LINE_MAX_OUT);
	}
	/* A pipe that is full or shut is the script's bad luck. */
	if (!ends[which].half_closed && write(ends[which].fd, bytes, size) < 0)
		take(which);
}

static void
broker_does(char what)
{
	if (what == 'h' || what == 's')
		memory_broker_cut(broker, what == 'h' ? BROKER_LOCKS : BROKER_AUXILIARY, 0,
		    100 * NSEC_PER_MSEC, "cut");
	else if (what == 'b' || what == 'u')
		memory_world_block(world, what == 'b');
}

static struct {
	size_t count;
	char names[32][256];
} queues;

static void
note_queue(void *ctx, const char *queue, const struct broker *owner)
{
	(void)ctx;
	(void)owner;
	if (queues.count < sizeof(queues.names) / sizeof(queues.names[0]))
		snprintf(queues.names[queues.count++], sizeof(queues.names[0]), "%s", queue);
}

static void
publish_to_all(const char *text, size_t len)
{
	char *body = strndup(text, len);

	must(body != NULL, "memory");
	queues.count = 0;
	memory_world_each(world, note_queue, NULL);
	for (size_t i = 0; i < queues.count; i++)
		memory_world_publish(world, queues.names[i], body);
	free(body);
}

static void act(char *text, size_t len, bool whole);

/* The client that the action is about. */
static int
client_of(const char *text, size_t len)
{
	return len > 1 && text[1] >= 'A' && text[1] < 'A' + PEERS ? text[1] - 'A' : 0;
}

/*
 * The rest of the line is an action. A client that hangs up does so just before the state is saved.
 */
static void
replace(char *text, size_t len, bool whole)
{
	struct state_text state = {.text = NULL};

	peers_pause(peers, true);
	lock_freeze(engine, true);
	settle();
	if (len > 1 && strchr("!^*", text[1]) == NULL)
		act(text + 1, len - 1, whole);
	for (int i = 0; i < 200 && !lock_is_still(engine); i++)
		pass_time(10 * NSEC_PER_MSEC);
	if (len > 1 && text[1] == '!')
		hang_up(client_of(text + 1, len - 1));
	if (lock_is_still(engine) && save(&state)) {
		succeed(&state);
	} else {
		lock_freeze(engine, false);
		peers_pause(peers, false);
	}
	state_text_done(&state);
}

/* One line of the script. */
static void
act(char *text, size_t len, bool whole)
{
	int which = client_of(text, len);
	char op = len > 0 ? text[0] : ' ';

	if (op >= 'A' && op < 'A' + PEERS) {
		say(op - 'A', text + 1, len - 1 + whole);
	} else if (op >= 'a' && op < 'a' + PEERS) {
		say(op - 'a', text + 1, len - 1);
	} else if (op == '!') {
		hang_up(which);
	} else if (op == '/' && ends[which].fd >= 0) {
		shutdown(ends[which].fd, SHUT_WR);
		ends[which].half_closed = true;
	} else if (op == '<') {
		take(which);
	} else if (op == '+') {
		pass_time(strtoll(text + 1, NULL, 10) % 100000 * NSEC_PER_MSEC);
	} else if (op == '~' && len > 1) {
		broker_does(text[1]);
	} else if (op == '%') {
		publish_to_all(text + 1, len - 1);
	} else if (op == '^' && !draining) {
		replace(text, len, whole);
	} else if (op == '*' && !draining) {
		draining = true;
		dispatch_drain(dispatch, NSEC_PER_SEC);
		lock_drain(engine);
	}
	settle();
}

static void
is_left(void *ctx, const char *queue, const struct broker *owner)
{
	(void)ctx;
	(void)queue;
	must(owner != broker, "an exclusive queue is left behind");
}

static void
end(void)
{
	for (int i = 0; i < PEERS; i++) {
		take(i);
		hang_up(i);
	}
	memory_world_block(world, false);
	pass_time(60 * NSEC_PER_SEC);
	must(peers_count(peers) == 0, "a client is left");
	must(lock_quiet(engine), "the engine does not come to rest");
	memory_world_each(world, is_left, NULL);
	daemon_free();
	memory_world_free(world);
	timers_free(timers);
	event_base_free(base);
}

static void
load_config(void)
{
	char *args[] = {"lockbrokerd", "--config=/dev/null", "--broker=memory:", NULL};
	enum config_action action;
	struct config_error error;

	signal(SIGPIPE, SIG_IGN);
	silence_log();
	config = config_load(3, args, &action, &error);
	must(config != NULL, error.text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (config == NULL)
		load_config();
	begin();
	settle();
	fuzz_each_line(data, size, act);
	end();
	return 0;
}
