/*
 * Fuzz target: liblockbroker with a hostile daemon. The input is a script of a program and its
 * daemon, one action in each line, in virtual time. There are no threads: the daemon has sent its
 * bytes before the program calls.
 *
 *	>{"id":1,...}	the daemon sends the rest of the line and LF
 *	<{"id":		the same without LF
 *	!  @		the daemon hangs up; the program connects again
 *	+500		half a second passes
 *	aNAME  ANAME	the program acquires, for up to a second; begins to acquire
 *	v  r  f		it verifies, releases, frees the newest lock
 *	c		it cancels the newest request
 *	d  w  e		it dispatches; waits for up to 100 ms; takes all events
 *	jM {...}	it calls the method M with these parameters; J: begins to call
 *	n N		it calls administration N (of ask()) for the semaphore "db"
 *	s500		it limits the silence of the daemon to 500 ms
 *
 * It must not crash. Each result has a word, and each error a sentence. No lock is held after the
 * end of its lease or of its connection, and a lock is lost once.
 *
 *	make fuzz FUZZ=library
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/clock.h"
#include "client/lib/transport.h"
#include "client/lockbroker.h"
#include "tests/fuzz/fuzz.h"

enum { LOCKS_MOST = 64 };

static int64_t now; /* virtual, ms */
static int daemon_end;
static struct lb *lb;
static int64_t request; /* the newest */

static struct {
	struct lb_lock *lock;
	bool lost;
} known[LOCKS_MOST];
static size_t known_count;

/* ---- the linker replaces the clock and the socket's ends (Makefile.am) ---- */

int64_t __wrap_client_clock_now(void);
int __wrap_transport_connect(const char *path, int64_t deadline, int *ret_fd);
int __wrap_transport_poll(int fd, short events, int64_t deadline);

int64_t
__wrap_client_clock_now(void)
{
	return now;
}

static void
hang_up(void)
{
	if (daemon_end >= 0)
		close(daemon_end);
	daemon_end = -1;
}

int
__wrap_transport_connect(const char *path, int64_t deadline, int *ret_fd)
{
	int pair[2];

	(void)path;
	(void)deadline;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "no socket");
	hang_up();
	daemon_end = pair[0];
	*ret_fd = pair[1];
	return 0;
}

/* A daemon that sends nothing more: the deadline passes. Without a deadline, the daemon hangs up. */
int
__wrap_transport_poll(int fd, short events, int64_t deadline)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};

	if (poll(&poll_fd, 1, 0) > 0)
		return 0;
	if (deadline != TRANSPORT_NEVER) {
		now = deadline > now ? deadline : now;
		return ETIMEDOUT;
	}
	hang_up();
	return 0;
}

/* ---- the program ---- */

static void
check_lock(size_t which)
{
	const struct lb_lock *lock = known[which].lock;
	/* The state first: it may read a new lease. */
	enum lb_lock_state state = lb_lock_state(lock);
	int64_t safe_until = lb_lock_safe_until(lock);
	bool held = state == LB_LOCK_HELD || state == LB_LOCK_REVOKED;

	must(held || state == LB_LOCK_LOST || state == LB_LOCK_RELEASED, "a lock without a state");
	must(!held || safe_until < 0 || now < safe_until, "held after its lease");
	must(!held || !known[which].lost, "lost, and held");
	must(!held || lb_fd(lb) >= 0, "held without a connection");
	must(lb_lock_id(lock)[0] != '\0' && lb_lock_json(lock) != NULL, "a lock without an id");
	must(lb_lock_slot(lock) >= 0 && lb_lock_waited(lock) >= 0 && lb_lock_heartbeat(lock) >= 0 &&
		 lb_lock_margin(lock) >= 0,
	    "a number of a lock is below 0");
	must(lb_lock_name(lock) != NULL, "a lock without a name");
	must(lb_lock_fence(lock) < UINT64_C(1) << 53, "a fencing number is too large");
}

static void
know(struct lb_lock *lock)
{
	must(lock != NULL, "granted, and no lock");
	if (known_count == LOCKS_MOST) {
		lb_lock_free(lock);
		return;
	}
	known[known_count].lock = lock;
	known[known_count++].lost = false;
}

static void
take_event(const struct lb_event *event)
{
	must(event->reason != NULL && event->text != NULL, "an event without texts");
	must(event->json != NULL && event->json[0] == '{', "an event without an object");
	must(lb_code_word(event->code)[0] != '\0', "an event without a code");
	if (event->type == LB_EVENT_GRANTED)
		know(event->lock);
	for (size_t i = 0; event->type == LB_EVENT_LOST && i < known_count; i++) {
		if (known[i].lock != event->lock)
			continue;
		must(!known[i].lost, "lost twice");
		known[i].lost = true;
	}
}

static void
take_events(void)
{
	const struct lb_event *event;

	while ((event = lb_event_next(lb)) != NULL)
		take_event(event);
}

static void
ended(int code)
{
	must(lb_code_word(code)[0] != '\0', "a result without a word");
	must(code == LB_OK || lb_message(lb)[0] != '\0', "an error without a sentence");
	(void)lb_result_json(lb);
	(void)lb_error_json(lb);
}

static void
acquire(const char *name)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *lock = NULL;
	int code;

	options.timeout_ms = 1000;
	options.progress = 1;
	code = lb_acquire(lb, name, &options, &lock);
	ended(code);
	if (code == LB_OK)
		know(lock);
}

static void
with_newest(char what)
{
	struct lb_lock *lock;

	if (known_count == 0)
		return;
	lock = known[known_count - 1].lock;
	if (what == 'v') {
		ended(lb_verify(lock, 1000));
	} else if (what == 'r') {
		ended(lb_release(lock, 1000));
	} else {
		known_count--;
		lb_lock_free(lock);
	}
}

static void
call(char what, char *method)
{
	char *params = strchr(method, ' '), *json = NULL;
	int code;

	if (params != NULL)
		*params++ = '\0';
	if (what == 'J') {
		ended(lb_call_start(lb, method, params, &request));
		return;
	}
	code = lb_call(lb, method, params, 1000, &json);
	ended(code);
	must((code == LB_OK) == (json != NULL), "a result without JSON");
	free(json);
}

static void
ask(long which)
{
	struct lb_change how = LB_CHANGE_INIT;
	int slots = 0;

	how.wait_ms = 1000;
	how.progress = 1;
	switch (which % 7) {
	case 0:
		ended(lb_create(lb, "db", 2, &how, 1000));
		break;
	case 1:
		ended(lb_resize(lb, "db", 3, &how, 1000));
		break;
	case 2:
		ended(lb_resize_by(lb, "db", 1, &how, 1000, &slots));
		break;
	case 3:
		ended(lb_destroy(lb, "db", &how, 1000));
		break;
	case 4:
		ended(lb_size(lb, "db", 1000, &slots));
		break;
	case 5:
		ended(lb_await(lb, "db", 1, LB_SLOT_FREE, 1000));
		break;
	default:
		ended(lb_ping(lb, 1, 1000));
		break;
	}
	must(slots >= 0, "a size below 0");
}

static void
say(const char *text, size_t len)
{
	/* Bytes for which the socket has no room are the script's bad luck. */
	if (daemon_end >= 0 && send(daemon_end, text, len, MSG_NOSIGNAL) < 0)
		return;
}

/* One line of the script. */
static void
act(char *text, size_t len, bool whole)
{
	char op = len > 0 ? text[0] : ' ';

	(void)whole;
	text[len] = '\0';
	if (op == '>' || op == '<') {
		say(text + 1, len - 1);
		if (op == '>')
			say("\n", 1);
	} else if (op == '!') {
		hang_up();
	} else if (op == '@') {
		ended(lb_connect(lb, "/", 1000));
	} else if (op == '+') {
		now += llabs(strtoll(text + 1, NULL, 10) % 100000);
	} else if (op == 'a') {
		acquire(text + 1);
	} else if (op == 'A') {
		ended(lb_acquire_start(lb, text + 1, NULL, &request));
	} else if (op == 'v' || op == 'r' || op == 'f') {
		with_newest(op);
	} else if (op == 'c') {
		ended(lb_cancel(lb, request));
	} else if (op == 'd') {
		ended(lb_dispatch(lb));
	} else if (op == 'w') {
		ended(lb_wait(lb, 100));
	} else if (op == 'e') {
		take_events();
	} else if (op == 'j' || op == 'J') {
		call(op, text + 1);
	} else if (op == 'n') {
		ask(labs(strtol(text + 1, NULL, 10) % 7));
	} else if (op == 's') {
		lb_set_silence_limit(lb, strtoll(text + 1, NULL, 10) % 100000);
	}
	must((lb_poll_events(lb) & ~(POLLIN | POLLOUT)) == 0 && lb_timeout(lb) >= -1, "poll");
	for (size_t i = 0; i < known_count; i++)
		check_lock(i);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	now = 1000000;
	request = 0;
	known_count = 0;
	daemon_end = -1;
	lb = lb_new();
	must(lb != NULL, "memory");
	must(lb_connect(lb, "/", 1000) == LB_OK, "no connection");
	fuzz_each_line(data, size, act);
	take_events();
	lb_free(lb);
	hang_up();
	return 0;
}
