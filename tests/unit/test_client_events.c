/*
 * The events of liblockbroker: losses, revokes, waiting; by queue and by callback.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lockbroker.h"
#include "tests/unit/client_rig.h"
#include "tests/unit/unit.h"

static const struct lb_event *
event(enum lb_event_type type)
{
	const struct lb_event *next = lb_event_next(lb);

	ck_assert_ptr_nonnull(next);
	ck_assert_int_eq(next->type, type);
	return next;
}

START_TEST(a_hold_is_lost_once)
{
	struct lb_lock *lock = acquired();
	const struct lb_event *lost;

	say(LOST("a-1"));
	say(LOST("a-1"));
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
	lost = event(LB_EVENT_LOST);
	ck_assert_ptr_eq(lost->lock, lock);
	ck_assert_str_eq(lost->reason, "lost");
	hang_up();
	ck_assert_int_eq(lb_wait(lb, 1000), LB_CLOSED);
	event(LB_EVENT_CLOSED);
	ck_assert_ptr_null(lb_event_next(lb));
	ck_assert_int_eq(lb_release(lock, 1000), LB_LOST);
}
END_TEST

START_TEST(the_end_of_the_connection_is_the_end_of_its_holds)
{
	struct lb_lock *first = acquired(), *second = NULL;

	say(GRANT("2", "a-2"));
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &second), LB_OK);
	say(NOTICE("lost", ""));
	hang_up();
	ck_assert_int_eq(lb_dispatch(lb), LB_CLOSED);
	ck_assert_int_eq(lb_lock_state(first), LB_LOCK_LOST);
	ck_assert_int_eq(lb_lock_state(second), LB_LOCK_LOST);
	ck_assert_ptr_null(event(LB_EVENT_LOST)->lock);
	ck_assert_ptr_eq(event(LB_EVENT_LOST)->lock, first);
	lb_lock_free(second);
	ck_assert_ptr_null(event(LB_EVENT_LOST)->lock);
	ck_assert_int_eq(event(LB_EVENT_CLOSED)->code, LB_CLOSED);
	/* A new connection on the same handle, with ids of its own. */
	ck_assert_int_eq(lb_connect(lb, path, 1000), LB_OK);
	daemon_end = accept(listener, NULL, NULL);
	ck_assert_ptr_nonnull(acquired());
	ck_assert_int_eq(lb_lock_state(first), LB_LOCK_LOST);
}
END_TEST

START_TEST(revoked_is_a_mark)
{
	struct lb_lock *lock = acquired();

	say(NOTICE(
	    "revoked", "\"lock\":\"a-1\",\"name\":\"db\",\"slot\":2,\"reason\":\"revoked\""));
	say(NOTICE(
	    "revoked", "\"lock\":\"a-1\",\"name\":\"db\",\"slot\":2,\"reason\":\"revoked\""));
	say(NOTICE("from-the-future", "\"lock\":\"a-1\""));
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	ck_assert_ptr_eq(event(LB_EVENT_REVOKED)->lock, lock);
	ck_assert_ptr_null(lb_event_next(lb));
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_REVOKED);
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":9,\"message\":\"m\",\"data\":{}}}");
	ck_assert_int_eq(lb_verify(lock, 1000), LB_REVOKED);
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
	ck_assert_int_eq(lb_release(lock, 1000), LB_OK);
}
END_TEST

START_TEST(waiting_is_told_and_can_be_withdrawn)
{
	struct lb_options options = LB_OPTIONS_INIT;
	const struct lb_event *next;
	int64_t request = 0;

	options.progress = 1;
	ck_assert_int_eq(lb_acquire_start(lb, "db", &options, &request), LB_OK);
	ck_assert_int_eq(lb_poll_events(lb), POLLIN | POLLOUT);
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	ck_assert_int_eq(lb_poll_events(lb), POLLIN);
	ck_assert_ptr_nonnull(strstr(heard(), "\"progress\":true"));
	say(NOTICE("waiting", "\"id\":1,\"position\":2,\"busy\":3"));
	say(NOTICE("broker", "\"state\":\"down\",\"why\":\"connection refused\""));
	say(NOTICE("waiting", "\"id\":1,\"position\":1,\"busy\":null"));
	say(NOTICE("draining", "\"grace\":2.5"));
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	next = event(LB_EVENT_BROKER);
	ck_assert_str_eq(next->reason, "down");
	ck_assert_str_eq(next->text, "connection refused");
	next = event(LB_EVENT_WAITING);
	ck_assert_int_eq(next->request, request);
	ck_assert_int_eq(next->position, 1);
	ck_assert_int_eq(next->busy, -1);
	ck_assert_str_eq(next->json, "{\"id\":1,\"position\":1,\"busy\":null}");
	ck_assert_int_eq(event(LB_EVENT_DRAINING)->grace_ms, 2500);
	ck_assert_int_eq(lb_cancel(lb, request), LB_OK);
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":4,\"message\":\"m\",\"data\":{}}}");
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"cancelled\":true}}");
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	ck_assert_ptr_nonnull(strstr(heard(), "\"cancel\",\"params\":{\"id\":1}}"));
	next = event(LB_EVENT_REFUSED);
	ck_assert_int_eq(next->code, LB_CANCELLED);
	ck_assert_int_eq(next->request, request);
	ck_assert_int_eq(lb_wait(lb, 20), LB_DEADLINE);
	ck_assert_int_eq(lb_cancel(lb, request), LB_BAD_ARGUMENT);
}
END_TEST

START_TEST(a_started_acquire_ends_in_a_grant)
{
	const struct lb_event *next;
	int64_t request = 0;

	ck_assert_int_eq(lb_acquire_start(lb, "db", NULL, &request), LB_OK);
	say(GRANT("1", "a-1"));
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	next = event(LB_EVENT_GRANTED);
	ck_assert_int_eq(next->request, request);
	ck_assert_str_eq(lb_lock_id(next->lock), "a-1");
	ck_assert_int_eq(lb_lock_state(next->lock), LB_LOCK_HELD);
}
END_TEST

static int told, told_busy;

static void
tell(struct lb *handle, const struct lb_event *next, void *arg)
{
	ck_assert_ptr_eq(arg, &told);
	ck_assert_int_eq(next->type, LB_EVENT_LOST);
	ck_assert_int_eq(lb_lock_state(next->lock), LB_LOCK_LOST);
	told++;
	told_busy += lb_ping(handle, 0, 1000) == LB_BUSY;
	told_busy += lb_release(next->lock, 1000) == LB_BUSY;
	told_busy += lb_event_next(handle) == NULL;
}

START_TEST(a_callback_is_called_in_the_middle_of_a_call)
{
	acquired();
	lb_set_callback(lb, tell, &told);
	say(LOST("a-1"));
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	ck_assert_int_eq(lb_ping(lb, 0, 1000), LB_OK);
	ck_assert_int_eq(told, 1);
	ck_assert_int_eq(told_busy, 3);
	ck_assert_ptr_null(lb_event_next(lb));
}
END_TEST

START_TEST(an_asynchronous_call_is_answered_by_an_event)
{
	int64_t first = 0, second = 0, third = 0;
	const struct lb_event *next;

	ck_assert_int_eq(lb_call_start(lb, "", NULL, &first), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_call_start(lb, "list", "[]", &first), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_call_start(lb, "list", "{", &first), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_call_start(lb, "list", NULL, &first), LB_OK);
	ck_assert_int_eq(lb_call_start(lb, "show", "{\"name\":\"db\"}", &second), LB_OK);
	ck_assert_int_eq(lb_poll_events(lb), POLLIN | POLLOUT);
	ck_assert_ptr_null(lb_event_next(lb));
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":10,\"message\":\"not you\","
	    "\"data\":{\"reason\":\"permission-denied\"}}}");
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"semaphores\":[]}}");
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	ck_assert_ptr_nonnull(strstr(heard(), "\"show\",\"params\":{\"name\":\"db\"}}"));
	next = event(LB_EVENT_ANSWERED);
	ck_assert_int_eq(next->request, second);
	ck_assert_int_eq(next->code, LB_PERMISSION_DENIED);
	ck_assert_str_eq(next->reason, "permission-denied");
	ck_assert_str_eq(next->text, "not you");
	ck_assert_ptr_nonnull(strstr(next->json, "\"code\":10"));
	next = event(LB_EVENT_ANSWERED);
	ck_assert_int_eq(next->request, first);
	ck_assert_int_eq(next->code, LB_OK);
	ck_assert_str_eq(next->json, "{\"semaphores\":[]}");
	ck_assert_int_eq(lb_cancel(lb, first), LB_BAD_ARGUMENT);
	/* It ends with the connection. */
	ck_assert_int_eq(lb_call_start(lb, "list", NULL, &third), LB_OK);
	hang_up();
	ck_assert_int_eq(lb_wait(lb, 1000), LB_CLOSED);
	event(LB_EVENT_CLOSED);
	ck_assert_ptr_null(lb_event_next(lb));
	ck_assert_int_eq(lb_call_start(lb, "list", NULL, &third), LB_CLOSED);
}
END_TEST

START_TEST(a_watch_tells_all_and_is_ended_by_cancel)
{
	const char *told_words[] = {"row", "row", "synced", "gone", "resync"};
	const struct lb_event *next;
	int64_t watch = 0;

	ck_assert_int_eq(lb_call_start(lb, "watch", NULL, &watch), LB_OK);
	say(NOTICE("row", "\"id\":1,\"row\":{\"waiter\":\"a\"}"));
	say(NOTICE("row", "\"id\":1,\"row\":{\"waiter\":\"b\"}"));
	say(NOTICE("synced", "\"id\":1"));
	say(NOTICE("gone", "\"id\":1,\"waiter\":\"a\""));
	say(NOTICE("resync", "\"id\":1"));
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	for (int i = 0; i < 5; i++) {
		next = event(LB_EVENT_WATCH);
		ck_assert_int_eq(next->request, watch);
		ck_assert_str_eq(next->reason, told_words[i]);
		if (i == 1)
			ck_assert_str_eq(next->json, "{\"id\":1,\"row\":{\"waiter\":\"b\"}}");
	}
	ck_assert_int_eq(lb_cancel(lb, watch), LB_OK);
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":4,\"message\":\"m\",\"data\":{}}}");
	ck_assert_int_eq(lb_wait(lb, 1000), LB_OK);
	ck_assert_ptr_nonnull(strstr(heard(), "\"cancel\",\"params\":{\"id\":1}}"));
	next = event(LB_EVENT_ANSWERED);
	ck_assert_int_eq(next->code, LB_CANCELLED);
	ck_assert_int_eq(lb_cancel(lb, watch), LB_BAD_ARGUMENT);
}
END_TEST

static Suite *
events_suite(void)
{
	Suite *suite = suite_create("events");
	TCase *tcase = tcase_create("events");

	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, client_rig_up, client_rig_down);
	tcase_add_test(tcase, a_hold_is_lost_once);
	tcase_add_test(tcase, the_end_of_the_connection_is_the_end_of_its_holds);
	tcase_add_test(tcase, revoked_is_a_mark);
	tcase_add_test(tcase, waiting_is_told_and_can_be_withdrawn);
	tcase_add_test(tcase, a_started_acquire_ends_in_a_grant);
	tcase_add_test(tcase, an_asynchronous_call_is_answered_by_an_event);
	tcase_add_test(tcase, a_watch_tells_all_and_is_ended_by_cancel);
	tcase_add_test(tcase, a_callback_is_called_in_the_middle_of_a_call);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {events_suite};

	return unit_run(makers, 1);
}
