/*
 * The calls of liblockbroker: their requests, their use of answers, deadlines, forks, and
 * connecting.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/clock.h"
#include "client/lockbroker.h"
#include "tests/unit/client_rig.h"
#include "tests/unit/unit.h"

START_TEST(acquire_verify_release)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *lock = NULL;

	options.timeout_ms = 1500;
	options.why = "na\xc3\xafve";
	options.who = "\xff";
	say(GRANT("1", "a-1"));
	ck_assert_int_eq(lb_acquire(lb, "db", &options, &lock), LB_OK);
	ck_assert_str_eq(heard(),
	    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"acquire\",\"params\":{\"name\":\"db\","
	    "\"lease\":true,\"timeout\":1.5,\"who\":\"\xef\xbf\xbd\",\"why\":\"na\xc3\xafve\"}}\n");
	ck_assert_str_eq(lb_lock_id(lock), "a-1");
	ck_assert_str_eq(lb_lock_name(lock), "db");
	ck_assert_int_eq(lb_lock_slot(lock), 2);
	ck_assert_int_eq(lb_lock_waited(lock), 250);
	ck_assert_int_eq(lb_lock_heartbeat(lock), 10000);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_HELD);
	ck_assert_ptr_nonnull(strstr(lb_lock_json(lock), "\"margin\":2"));
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"lock\":\"a-1\",\"slot\":2}}");
	ck_assert_int_eq(lb_verify(lock, 1000), LB_OK);
	ck_assert_str_eq(lb_result_json(lb), "{\"lock\":\"a-1\",\"slot\":2}");
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"lock\":\"a-1\"}}");
	ck_assert_int_eq(lb_release(lock, 1000), LB_OK);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_RELEASED);
	heard();
	ck_assert_int_eq(lb_release(lock, 1000), LB_NOT_HELD);
	ck_assert_int_eq(lb_verify(lock, 1000), LB_NOT_HELD);
	ck_assert_str_eq(heard(), "");
	lb_lock_free(lock);
}
END_TEST

static int
acquired_with(const char *fence, struct lb_lock **ret)
{
	char line[256];

	snprintf(line, sizeof(line),
	    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lock\":\"a-1\",\"name\":\"db\","
	    "\"slot\":2,\"fence\":%s}}",
	    fence);
	say(line);
	return lb_acquire(lb, "db", NULL, ret);
}

/*
 * Other processes of the program write with the number of the grant. The store would refuse them if this one
 * wrote with a larger one.
 */
START_TEST(the_fence_is_that_of_the_grant)
{
	struct lb_lock *lock = NULL, *without = NULL;

	/* The largest number, and digits that a double with 15 of them would print as 1.8e+15. */
	ck_assert_int_eq(acquired_with("1868000000000000", &lock), LB_OK);
	ck_assert_uint_eq(lb_lock_fence(lock), UINT64_C(1868000000000000));
	ck_assert_ptr_nonnull(strstr(lb_lock_json(lock), "\"fence\":1868000000000000}"));
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"lock\":\"a-1\",\"slot\":2,"
	    "\"fence\":9007199254740991}}");
	ck_assert_int_eq(lb_verify(lock, 1000), LB_OK);
	ck_assert_uint_eq(lb_lock_fence(lock), UINT64_C(1868000000000000));
	ck_assert_ptr_nonnull(strstr(lb_result_json(lb), "\"fence\":9007199254740991}"));
	/* A daemon of version 0.1.0 has no such member. */
	say(GRANT("3", "a-3"));
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &without), LB_OK);
	ck_assert_uint_eq(lb_lock_fence(without), 0);
}
END_TEST

/* The daemon makes the slot free when the program has stopped. */
START_TEST(a_lock_by_quorum_is_released_after_its_loss)
{
	struct lb_lock *lock = NULL;

	ck_assert_int_eq(acquired_with("17", &lock), LB_OK);
	say("{\"jsonrpc\":\"2.0\",\"method\":\"lost\",\"params\":{\"lock\":\"a-1\","
	    "\"reason\":\"lost\",\"why\":\"cut\"}}");
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
	heard();
	ck_assert_int_eq(lb_release(lock, LB_FOREVER), LB_LOST);
	ck_assert_ptr_nonnull(strstr(heard(), "\"release\",\"params\":{\"lock\":\"a-1\"}}"));
	ck_assert_int_eq(lb_release(lock, LB_FOREVER), LB_LOST);
	ck_assert_str_eq(heard(), "");
}
END_TEST

static const struct {
	const char *text;
	int code;
	uint64_t fence;
} fences[] = {
    {"null", LB_OK, 0},
    {"1", LB_OK, 1},
    {"9007199254740991", LB_OK, UINT64_C(9007199254740991)},
    {"9007199254740992", LB_BAD_ANSWER, 0},
    {"0", LB_BAD_ANSWER, 0},
    {"-1", LB_BAD_ANSWER, 0},
    {"1.5", LB_BAD_ANSWER, 0},
    {"\"7\"", LB_BAD_ANSWER, 0},
    {"true", LB_BAD_ANSWER, 0},
    {"{}", LB_BAD_ANSWER, 0},
};

START_TEST(a_fence_that_is_no_number_is_not_taken_for_none)
{
	struct lb_lock *lock = NULL;

	ck_assert_int_eq(acquired_with(fences[_i].text, &lock), fences[_i].code);
	if (fences[_i].code == LB_OK)
		ck_assert_uint_eq(lb_lock_fence(lock), fences[_i].fence);
	else
		ck_assert_int_eq(lb_fd(lb), -1);
}
END_TEST

START_TEST(create_is_sent_with_the_acquire)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *lock = NULL;

	options.create = 3;
	say(GRANT("1", "a-1"));
	ck_assert_int_eq(lb_acquire(lb, "db", &options, &lock), LB_OK);
	ck_assert_ptr_nonnull(
	    strstr(heard(), "\"params\":{\"name\":\"db\",\"lease\":true,\"create\":3}}\n"));
}
END_TEST

/*
 * The options of a program that was compiled before there was `create`. The members behind are not
 * read.
 */
START_TEST(options_of_an_earlier_header)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *lock = NULL;

	options.size = offsetof(struct lb_options, create);
	options.why = "old";
	options.create = 4711;
	say(GRANT("1", "a-1"));
	ck_assert_int_eq(lb_acquire(lb, "db", &options, &lock), LB_OK);
	ck_assert_ptr_nonnull(
	    strstr(heard(), "\"params\":{\"name\":\"db\",\"lease\":true,\"why\":\"old\"}}\n"));
}
END_TEST

/* Every number of the wire is its own code, with the daemon's words; unknown ones are internal. */
static const struct {
	int code;
	const char *word;
	int expected;
} refusals[] = {
    {1, "would-block", LB_WOULD_BLOCK},
    {2, "timeout", LB_TIMEOUT},
    {3, "contended", LB_CONTENDED},
    {4, "cancelled", LB_CANCELLED},
    {5, "no-such-lock", LB_NO_SUCH_LOCK},
    {6, "already-exists", LB_ALREADY_EXISTS},
    {7, "not-held", LB_NOT_HELD},
    {8, "lost", LB_LOST},
    {9, "revoked", LB_REVOKED},
    {10, "permission-denied", LB_PERMISSION_DENIED},
    {11, "too-many-requests", LB_TOO_MANY_REQUESTS},
    {12, "too-many-locks", LB_TOO_MANY_LOCKS},
    {13, "too-many-waiters", LB_TOO_MANY_WAITERS},
    {14, "draining", LB_DRAINING},
    {15, "broker-unavailable", LB_BROKER_UNAVAILABLE},
    {16, "broker-blocked", LB_BROKER_BLOCKED},
    {17, "broker-refused", LB_BROKER_REFUSED},
    {-32601, "method-not-found", LB_METHOD_NOT_FOUND},
    {-32602, "invalid-params", LB_INVALID_PARAMS},
    {-32603, "internal", LB_INTERNAL},
    {4711, "internal", LB_INTERNAL},
};

/* Around all of them: the compiler names the one that is missing here (-Wswitch). */
static enum lb_code
next_code(enum lb_code code)
{
	switch (code) {
	case LB_OK:
		return LB_WOULD_BLOCK;
	case LB_WOULD_BLOCK:
		return LB_TIMEOUT;
	case LB_TIMEOUT:
		return LB_CONTENDED;
	case LB_CONTENDED:
		return LB_CANCELLED;
	case LB_CANCELLED:
		return LB_NO_SUCH_LOCK;
	case LB_NO_SUCH_LOCK:
		return LB_ALREADY_EXISTS;
	case LB_ALREADY_EXISTS:
		return LB_NOT_HELD;
	case LB_NOT_HELD:
		return LB_LOST;
	case LB_LOST:
		return LB_REVOKED;
	case LB_REVOKED:
		return LB_PERMISSION_DENIED;
	case LB_PERMISSION_DENIED:
		return LB_TOO_MANY_REQUESTS;
	case LB_TOO_MANY_REQUESTS:
		return LB_TOO_MANY_LOCKS;
	case LB_TOO_MANY_LOCKS:
		return LB_TOO_MANY_WAITERS;
	case LB_TOO_MANY_WAITERS:
		return LB_DRAINING;
	case LB_DRAINING:
		return LB_BROKER_UNAVAILABLE;
	case LB_BROKER_UNAVAILABLE:
		return LB_BROKER_BLOCKED;
	case LB_BROKER_BLOCKED:
		return LB_BROKER_REFUSED;
	case LB_BROKER_REFUSED:
		return LB_NO_MEMORY;
	case LB_NO_MEMORY:
		return LB_BAD_ARGUMENT;
	case LB_BAD_ARGUMENT:
		return LB_NO_DAEMON;
	case LB_NO_DAEMON:
		return LB_NO_ACCESS;
	case LB_NO_ACCESS:
		return LB_DEADLINE;
	case LB_DEADLINE:
		return LB_CLOSED;
	case LB_CLOSED:
		return LB_BAD_ANSWER;
	case LB_BAD_ANSWER:
		return LB_FORKED;
	case LB_FORKED:
		return LB_BUSY;
	case LB_BUSY:
		return LB_SYSTEM;
	case LB_SYSTEM:
		return LB_PARSE_ERROR;
	case LB_PARSE_ERROR:
		return LB_INVALID_REQUEST;
	case LB_INVALID_REQUEST:
		return LB_METHOD_NOT_FOUND;
	case LB_METHOD_NOT_FOUND:
		return LB_INVALID_PARAMS;
	case LB_INVALID_PARAMS:
		return LB_INTERNAL;
	case LB_INTERNAL:
		return LB_OK;
	}
	abort();
}

START_TEST(each_code_has_a_word_of_its_own)
{
	for (enum lb_code code = next_code(LB_OK); code != LB_OK; code = next_code(code)) {
		ck_assert_str_ne(lb_code_word(code), lb_code_word(4711));
		for (enum lb_code other = next_code(code); other != code; other = next_code(other))
			ck_assert_str_ne(lb_code_word(code), lb_code_word(other));
	}
	ck_assert_str_eq(lb_code_word(4711), "unknown");
}
END_TEST

START_TEST(refusals_keep_their_number_and_words)
{
	struct lb_lock *lock = NULL;
	char line[320], error[256];

	snprintf(error, sizeof(error),
	    "{\"code\":%d,\"message\":\"not now\",\"data\":{\"reason\":\"x\",\"retry\":true}}",
	    refusals[_i].code);
	snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":%s}", error);
	say(line);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), refusals[_i].expected);
	ck_assert_ptr_null(lock);
	ck_assert_str_eq(lb_code_word(refusals[_i].expected), refusals[_i].word);
	ck_assert_str_eq(lb_message(lb), "not now");
	ck_assert_str_eq(lb_error_json(lb), error);
	ck_assert_ptr_null(lb_result_json(lb));
	ck_assert_int_ge(lb_fd(lb), 0);
}
END_TEST

static const char *const senseless[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[]}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lock\":\"a-1\",\"name\":\"db\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lock\":7,\"name\":\"db\",\"slot\":1}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lock\":\"\",\"name\":\"db\",\"slot\":1}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lock\":\"a\",\"name\":\"db\",\"slot\":-1}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lock\":\"a\",\"name\":\"db\",\"slot\":1e300}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lock\":\"a\",\"name\":\"db\",\"slot\":\"1\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"slot\":1,\"name\":\"db\",\"lock\":\""
    "0123456789012345678901234567890123456789012345678901234567890123456789\"}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"lost\",\"params\":[]}",
    "garbage",
};

START_TEST(a_senseless_answer_closes)
{
	struct lb_lock *lock = NULL;

	say(senseless[_i]);
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_BAD_ANSWER);
	ck_assert_ptr_null(lock);
	ck_assert_int_eq(lb_fd(lb), -1);
	ck_assert_int_gt(strlen(lb_message(lb)), 0);
	ck_assert_int_eq(lb_ping(lb, 0, 1000), LB_CLOSED);
}
END_TEST

START_TEST(a_grant_with_the_end_of_the_connection_is_none)
{
	struct lb_lock *lock = NULL;

	say(GRANT("1", "a-1"));
	hang_up();
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_CLOSED);
	ck_assert_ptr_null(lock);
}
END_TEST

START_TEST(bad_arguments_send_nothing)
{
	struct lb_options options = LB_OPTIONS_INIT;
	struct lb_lock *lock = NULL;

	ck_assert_int_eq(lb_acquire(lb, "a b", NULL, &lock), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_acquire(lb, NULL, NULL, &lock), LB_BAD_ARGUMENT);
	options.create = -1;
	ck_assert_int_eq(lb_acquire(lb, "db", &options, &lock), LB_BAD_ARGUMENT);
	options.create = LB_UNLIMITED;
	ck_assert_int_eq(lb_acquire(lb, "db", &options, &lock), LB_BAD_ARGUMENT);
	options = (struct lb_options){.size = 8};
	ck_assert_int_eq(lb_acquire(lb, "db", &options, &lock), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_call(lb, "ping", "[]", 1000, NULL), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_call(lb, "ping", "{\"a\":1,}", 1000, NULL), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_verify_id(lb, "", 1000, NULL), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_cancel(lb, 1), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_connect(lb, path, 1000), LB_BAD_ARGUMENT);
	ck_assert_ptr_null(lock);
	ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(any_method_can_be_called)
{
	char *json = NULL;

	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"any\":[1,null]}}");
	ck_assert_int_eq(lb_call(lb, "thing", "{\"x\": {\"y\": 1.5}}", 1000, &json), LB_OK);
	ck_assert_str_eq(json, "{\"any\":[1,null]}");
	free(json);
	ck_assert_ptr_nonnull(strstr(heard(), "\"thing\",\"params\":{\"x\":{\"y\":1.5}}}"));
}
END_TEST

START_TEST(a_late_answer_of_a_silent_daemon_is_ignored)
{
	int64_t began = client_clock_now();

	ck_assert_int_eq(lb_ping(lb, 0, 30), LB_DEADLINE);
	ck_assert_int_ge(client_clock_now() - began, 30);
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"late\":1}}");
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"early\":1}}");
	ck_assert_int_eq(lb_ping(lb, 0, 1000), LB_OK);
	ck_assert_str_eq(lb_result_json(lb), "{\"early\":1}");
	ck_assert_ptr_null(lb_event_next(lb));
}
END_TEST

static int pings_heard;

/* The daemon answers pings, and the first request after three of them. */
static void
answer_pings(void)
{
	char line[64];

	if (strstr(heard(), "\"method\":\"ping\"") == NULL)
		return;
	snprintf(
	    line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{}}", 2 + pings_heard);
	say(line);
	if (++pings_heard == 3)
		say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"at\":\"last\"}}");
}

START_TEST(a_daemon_that_answers_pings_has_its_time)
{
	int64_t began = client_clock_now();

	pings_heard = 0;
	client_rig_idle = answer_pings;
	lb_set_silence_limit(lb, 400);
	ck_assert_int_eq(lb_call(lb, "thing", NULL, LB_FOREVER, NULL), LB_OK);
	ck_assert_str_eq(lb_result_json(lb), "{\"at\":\"last\"}");
	ck_assert_int_ge(client_clock_now() - began, 600);
}
END_TEST

START_TEST(a_daemon_that_does_not_even_answer_a_ping_is_given_up)
{
	int64_t began = client_clock_now();

	lb_set_silence_limit(lb, 200);
	ck_assert_int_eq(lb_call(lb, "thing", NULL, LB_FOREVER, NULL), LB_DEADLINE);
	ck_assert_int_ge(client_clock_now() - began, 200);
	ck_assert_ptr_nonnull(strstr(heard(), "\"id\":2,\"method\":\"ping\""));
	/* Each call has the whole time, and a shorter one of its own ends without a ping. */
	began = client_clock_now();
	ck_assert_int_eq(lb_call(lb, "thing", NULL, 20, NULL), LB_DEADLINE);
	ck_assert_ptr_null(strstr(heard(), "ping"));
	ck_assert_int_eq(lb_call(lb, "thing", NULL, LB_FOREVER, NULL), LB_DEADLINE);
	ck_assert_int_ge(client_clock_now() - began, 220);
	lb_set_silence_limit(lb, LB_FOREVER);
	ck_assert_int_eq(lb_call(lb, "thing", NULL, 300, NULL), LB_DEADLINE);
	ck_assert_ptr_null(strstr(heard(), "\"id\":7"));
}
END_TEST

START_TEST(the_last_words_before_a_close_are_heard)
{
	struct lb_lock *lock = NULL;

	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":14,\"message\":\"stopping\","
	    "\"data\":{}}}");
	hang_up();
	/* No SIGPIPE either: it would end this test. */
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_DRAINING);
	ck_assert_str_eq(lb_message(lb), "stopping");
	ck_assert_int_eq(lb_ping(lb, 0, 1000), LB_CLOSED);
	ck_assert_int_eq(lb_fd(lb), -1);
}
END_TEST

static void
interrupted(int signo)
{
	(void)signo;
}

START_TEST(calls_go_on_after_a_signal)
{
	struct sigaction action = {.sa_handler = interrupted};
	pid_t self = getpid(), child, ended;
	int64_t began;
	int status;

	client_rig_is_real = true;
	began = client_clock_now();
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 20; i++) {
			kill(self, SIGUSR1);
			poll(NULL, 0, 2);
		}
		_exit(0);
	}
	ck_assert_int_eq(lb_ping(lb, 0, 60), LB_DEADLINE);
	ck_assert_int_ge(client_clock_now() - began, 60);
	/* On a slow machine it is still at it. */
	do
		ended = waitpid(child, &status, 0);
	while (ended < 0 && errno == EINTR);
	ck_assert_int_eq(ended, child);
}
END_TEST

/* The use of the handle in a forked child. The exit status says whether it was right. */
static int
forked_forget(struct lb_lock *lock)
{
	bool refused = lb_ping(lb, 0, 1000) == LB_FORKED && lb_release(lock, 1000) == LB_FORKED &&
		       lb_dispatch(lb) == LB_FORKED && strlen(lb_message(lb)) > 0;

	lb_forget(lb);
	return refused ? 0 : 1;
}

static int
forked_free(struct lb_lock *lock)
{
	(void)lock;
	lb_free(lb);
	return 0;
}

/* The parent's handle is the child's now: the hold is released there. */
static int
forked_adopt(struct lb_lock *lock)
{
	lb_adopt(lb);
	return lb_release(lock, 1000) == LB_OK ? 0 : 1;
}

static int (*const forked[])(struct lb_lock *) = {forked_forget, forked_free};

START_TEST(a_child_cannot_end_its_parents_hold)
{
	struct lb_lock *lock = acquired();
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(forked[_i](lock));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	ck_assert_int_eq(lb_verify(lock, 1000), LB_OK);
}
END_TEST

START_TEST(a_child_can_adopt_the_handle)
{
	struct lb_lock *lock = acquired();
	pid_t child;
	int status = -1;

	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	child = fork();
	if (child == 0)
		_exit(forked_adopt(lock));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(the_parents_free_ends_its_hold_whatever_copies_there_are)
{
	struct pollfd end = {.fd = daemon_end, .events = POLLIN};
	int gate[2], status;
	pid_t child;

	acquired();
	heard();
	ck_assert_int_eq(pipe(gate), 0);
	child = fork();
	if (child == 0) {
		char byte;

		close(gate[1]);
		_exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
	}
	lb_free(lb);
	lb = NULL;
	ck_assert_int_eq(poll(&end, 1, 60000), 1);
	ck_assert_int_eq(recv(daemon_end, &status, 1, MSG_DONTWAIT), 0);
	close(gate[0]);
	close(gate[1]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(connecting)
{
	static char endless[200];
	struct lb *other = lb_new();

	memset(endless, 'x', sizeof(endless) - 1);
	ck_assert_int_eq(lb_ping(other, 0, 1000), LB_CLOSED);
	ck_assert_int_eq(lb_connect(other, endless, 1000), LB_BAD_ARGUMENT);
	setenv("LOCKBROKER_SOCKET", "/nonexistent/s", 1);
	ck_assert_int_eq(lb_connect(other, NULL, 1000), LB_NO_DAEMON);
	ck_assert_str_eq(lb_socket_path(other), "/nonexistent/s");
	ck_assert_ptr_nonnull(strstr(lb_message(other), "/nonexistent/s: No such file"));
	close(listener);
	ck_assert_int_eq(lb_connect(other, path, 1000), LB_NO_DAEMON);
	ck_assert_ptr_nonnull(strstr(lb_message(other), "refused"));
	unlink(path);
	rmdir(folder);
	client_rig_listen();
	setenv("LOCKBROKER_SOCKET", path, 1);
	ck_assert_int_eq(lb_connect(other, "", 1000), LB_OK);
	ck_assert_str_eq(lb_socket_path(other), path);
	lb_free(other);
}
END_TEST

START_TEST(a_full_backlog_is_a_deadline)
{
	struct lb *others[16];
	int code = LB_OK, count = 0;

	client_rig_is_real = true;
	while (code == LB_OK && count < 16) {
		others[count] = lb_new();
		code = lb_connect(others[count++], path, 40);
	}
	ck_assert_int_eq(code, LB_DEADLINE);
	while (count > 0)
		lb_free(others[--count]);
}
END_TEST

static int
collect(const char *at, const char *value, void *arg)
{
	char *all = arg;
	size_t len = strlen(all);

	snprintf(all + len, 256 - len, "%s=%s;", at, value);
	return strcmp(at, "stop") == 0 ? 7 : 0;
}

START_TEST(json_is_visited_in_order)
{
	char all[256] = "";

	ck_assert_int_eq(
	    lb_json_each("{\"a\":1,\"b\":{\"c\":\"x\",\"d\":[true,null,{\"e\":1.5}],\"f\":{}},"
			 "\"g\":-9007199254740991}",
		collect, all),
	    0);
	ck_assert_str_eq(all, "a=1;b.c=x;b.d.0=true;b.d.1=;b.d.2.e=1.5;g=-9007199254740991;");
	all[0] = '\0';
	ck_assert_int_eq(lb_json_each("{\"stop\":0,\"after\":1}", collect, all), 7);
	ck_assert_str_eq(all, "stop=0;");
	ck_assert_int_eq(lb_json_each("{", collect, all), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_json_each(NULL, collect, all), LB_BAD_ARGUMENT);
}
END_TEST

static Suite *
calls_suite(void)
{
	Suite *suite = suite_create("calls");
	TCase *tcase = tcase_create("calls");

	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, client_rig_up, client_rig_down);
	tcase_add_test(tcase, acquire_verify_release);
	tcase_add_test(tcase, the_fence_is_that_of_the_grant);
	tcase_add_test(tcase, a_lock_by_quorum_is_released_after_its_loss);
	tcase_add_loop_test(tcase, a_fence_that_is_no_number_is_not_taken_for_none, 0,
	    sizeof(fences) / sizeof(fences[0]));
	tcase_add_test(tcase, create_is_sent_with_the_acquire);
	tcase_add_test(tcase, options_of_an_earlier_header);
	tcase_add_test(tcase, each_code_has_a_word_of_its_own);
	tcase_add_loop_test(
	    tcase, refusals_keep_their_number_and_words, 0, sizeof(refusals) / sizeof(refusals[0]));
	tcase_add_loop_test(
	    tcase, a_senseless_answer_closes, 0, sizeof(senseless) / sizeof(senseless[0]));
	tcase_add_test(tcase, a_grant_with_the_end_of_the_connection_is_none);
	tcase_add_test(tcase, bad_arguments_send_nothing);
	tcase_add_test(tcase, any_method_can_be_called);
	tcase_add_test(tcase, a_late_answer_of_a_silent_daemon_is_ignored);
	tcase_add_test(tcase, a_daemon_that_answers_pings_has_its_time);
	tcase_add_test(tcase, a_daemon_that_does_not_even_answer_a_ping_is_given_up);
	tcase_add_test(tcase, the_last_words_before_a_close_are_heard);
	tcase_add_test(tcase, calls_go_on_after_a_signal);
	tcase_add_loop_test(tcase, a_child_cannot_end_its_parents_hold, 0, 2);
	tcase_add_test(tcase, a_child_can_adopt_the_handle);
	tcase_add_test(tcase, the_parents_free_ends_its_hold_whatever_copies_there_are);
	tcase_add_test(tcase, connecting);
	tcase_add_test(tcase, a_full_backlog_is_a_deadline);
	tcase_add_test(tcase, json_is_visited_in_order);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {calls_suite};

	return unit_run(makers, 1);
}
