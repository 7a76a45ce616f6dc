/*
 * Fuzz target: a script of three clients, the clock and the broker, one action in each line. It
 * runs over the real peer room, the engine and the broker in memory, in virtual time:
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

#include "protocol/line.h"
#include "protocol/message.h"
#include "protocol/methods.h"
#include "tests/fuzz/daemon.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lock_settings.h"
#include "tests/virtual_time.h"
#include "tests/whole_daemon.h"

enum { PEERS = 3 };

static struct whole_daemon its = {
    .clock = &virtual_clock,
    .locks = {TEST_LOCK_SETTINGS, .max_locks_per_connection = 3, .max_waits_per_connection = 3},
    .limits = {.most = {100, 6, 2, 2, (size_t)4 * 1024 * 1024}, .all_bytes = SIZE_MAX},
    .max_requests = 2,
    .channels_max = 8,
};
static bool draining;
static char last_lock[METHODS_LOCK_MAX + 1];

static struct {
	int fd; /* -1 = not connected */
	bool half_closed;
	struct line_reader *reader;
} ends[PEERS];

/* ---- the daemon ---- */

static void
begin(void)
{
	now = NSEC_PER_SEC;
	draining = false;
	last_lock[0] = '\0';
	whole_daemon_begin(&its, NULL);
	for (int i = 0; i < PEERS; i++)
		ends[i].fd = -1;
}

static void
settle(void)
{
	must(whole_daemon_settle(&its), "the loop does not come to rest");
}

static void
pass_time(int64_t ns)
{
	virtual_time_pass(its.timers, ns, settle);
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
		peers_add(its.peers, pair[0]);
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
		memory_broker_cut(its.broker, what == 'h' ? BROKER_LOCKS : BROKER_AUXILIARY, 0,
		    100 * NSEC_PER_MSEC, "cut");
	else if (what == 'b' || what == 'u')
		memory_world_block(its.world, what == 'b');
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
	memory_world_each(its.world, note_queue, NULL);
	for (size_t i = 0; i < queues.count; i++)
		memory_world_publish(its.world, queues.names[i], body);
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
	char why[128];

	peers_pause(its.peers, true);
	lock_freeze(its.engine, true);
	settle();
	if (len > 1 && strchr("!^*", text[1]) == NULL)
		act(text + 1, len - 1, whole);
	for (int i = 0; i < 200 && !lock_is_still(its.engine); i++)
		pass_time(10 * NSEC_PER_MSEC);
	if (len > 1 && text[1] == '!')
		hang_up(client_of(text + 1, len - 1));
	if (lock_is_still(its.engine) && whole_daemon_save(&its, &state)) {
		must(whole_daemon_succeed(&its, &state, why, sizeof(why)), why);
	} else {
		lock_freeze(its.engine, false);
		peers_pause(its.peers, false);
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
		dispatch_drain(its.dispatch, NSEC_PER_SEC);
		lock_drain(its.engine);
	}
	settle();
}

static void
is_left(void *ctx, const char *queue, const struct broker *owner)
{
	(void)ctx;
	(void)queue;
	must(owner != its.broker, "an exclusive queue is left behind");
}

static void
end(void)
{
	for (int i = 0; i < PEERS; i++) {
		take(i);
		hang_up(i);
	}
	memory_world_block(its.world, false);
	pass_time(60 * NSEC_PER_SEC);
	must(peers_count(its.peers) == 0, "a client is left");
	must(lock_quiet(its.engine), "the engine does not come to rest");
	memory_world_each(its.world, is_left, NULL);
	whole_daemon_end(&its);
}

static void
load_config(void)
{
	char *args[] = {"lockbrokerd", "--config=/dev/null", "--broker=memory:", NULL};
	enum config_action action;
	struct config_errors errors;

	signal(SIGPIPE, SIG_IGN);
	silence_log();
	its.config = config_load(3, args, &action, &errors);
	must(its.config != NULL, errors.texts[0]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (its.config == NULL)
		load_config();
	begin();
	settle();
	fuzz_each_line(data, size, act);
	end();
	return 0;
}
