/*
 * The administrative calls of liblockbroker: their requests, their deadlines, and their use of
 * answers. Also the events while a call waits for holders, and grants without a slot.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/clock.h"
#include "client/lockbroker.h"
#include "tests/unit/client_rig.h"
#include "tests/unit/unit.h"

#define RESULT(id, members) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{" members "}}"
#define HOLDERS(left, holders)                                                                     \
	NOTICE("holders", "\"id\":1,\"left\":" left ",\"holders\":[" holders "]")

/* Checks the last request: the method and its params. */
static void
asked(const char *method, const char *params)
{
	char expected[512];
	const char *line = heard(), *at = strstr(line, "\"method\"");

	snprintf(expected, sizeof(expected), "\"method\":\"%s\",\"params\":{\"name\":\"db\"%s}}\n",
	    method, params);
	ck_assert_msg(at != NULL, "nothing was asked: %s", line);
	ck_assert_str_eq(at, expected);
}

START_TEST(create)
{
	struct lb_change how = LB_CHANGE_INIT;

	say(RESULT("1", ""));
	ck_assert_int_eq(lb_create(lb, "db", 3, NULL, 1000), LB_OK);
	asked("create", ",\"slots\":3");
	say(RESULT("2", ""));
	ck_assert_int_eq(lb_create(lb, "db", 0, &how, 1000), LB_OK);
	asked("create", ",\"slots\":0");
	how.exist_ok = 1;
	how.overshoot = 500;
	/* Those are not for create. */
	how.wait_ms = 5;
	how.ascending = 1;
	how.progress = 1;
	say(RESULT("3", "\"slots\":\"unlimited\""));
	ck_assert_int_eq(lb_create(lb, "db", LB_UNLIMITED, &how, 1000), LB_OK);
	asked("create", ",\"slots\":\"unlimited\",\"exist_ok\":true,\"overshoot\":500");
	how = (struct lb_change)LB_CHANGE_INIT;
	how.kind = LB_PERSISTENT_MUTEX;
	say(RESULT("4", ""));
	ck_assert_int_eq(lb_create(lb, "db", 1, &how, 1000), LB_OK);
	asked("create", ",\"kind\":\"persistent-mutex\",\"slots\":1");
	how = (struct lb_change)LB_CHANGE_INIT;
	how.claim = LB_CLAIM_CONSUMER;
	say(RESULT("5", ""));
	ck_assert_int_eq(lb_create(lb, "db", 1, &how, 1000), LB_OK);
	asked("create", ",\"slots\":1,\"claim\":\"consumer\"");
	how.claim = LB_CLAIM_EXCLUSIVE_QUEUE;
	say(RESULT("6", ""));
	ck_assert_int_eq(lb_resize(lb, "db", 1, &how, 1000), LB_OK);
	asked("resize", ",\"slots\":1,\"claim\":\"exclusive-queue\"");
	how.claim = 4;
	ck_assert_int_eq(lb_create(lb, "db", 1, &how, 1000), LB_BAD_ARGUMENT);
}
END_TEST

START_TEST(resize_and_destroy)
{
	struct lb_change how = LB_CHANGE_INIT;

	say(RESULT("1", "\"slots\":0,\"target\":0"));
	ck_assert_int_eq(lb_resize(lb, "db", 0, NULL, 1000), LB_OK);
	asked("resize", ",\"slots\":0");
	say(RESULT("2", ""));
	ck_assert_int_eq(lb_resize(lb, "db", LB_UNLIMITED, &how, 1000), LB_OK);
	asked("resize", ",\"slots\":\"unlimited\"");
	how.wait_ms = 1500;
	how.progress = 1;
	how.ascending = 1;
	how.overshoot = 300;
	say(RESULT("3", ""));
	ck_assert_int_eq(lb_resize(lb, "db", 2, &how, 1000), LB_OK);
	asked("resize", ",\"slots\":2,\"order\":\"ascending\",\"overshoot\":300,\"wait\":1.5,"
			"\"progress\":true");
	say(RESULT("4", ""));
	ck_assert_int_eq(lb_destroy(lb, "db", &how, 1000), LB_OK);
	asked(
	    "destroy", ",\"order\":\"ascending\",\"overshoot\":300,\"wait\":1.5,\"progress\":true");
	how = (struct lb_change)LB_CHANGE_INIT;
	how.wait_ms = LB_FOREVER;
	say(RESULT("5", ""));
	ck_assert_int_eq(lb_destroy(lb, "db", &how, 1000), LB_OK);
	asked("destroy", ",\"wait\":null");
	how.wait_ms = 0;
	how.progress = 1; /* of nothing */
	say(RESULT("6", ""));
	ck_assert_int_eq(lb_destroy(lb, "db", &how, 1000), LB_OK);
	asked("destroy", "");
}
END_TEST

START_TEST(resize_by)
{
	int slots = -1;

	say(RESULT("1", "\"slots\":5,\"target\":5"));
	ck_assert_int_eq(lb_resize_by(lb, "db", 2, NULL, 1000, &slots), LB_OK);
	asked("resize", ",\"add\":2");
	ck_assert_int_eq(slots, 5);
	say(RESULT("2", "\"slots\":0,\"target\":0"));
	ck_assert_int_eq(lb_resize_by(lb, "db", -10000, NULL, 1000, &slots), LB_OK);
	asked("resize", ",\"remove\":10000");
	ck_assert_int_eq(slots, 0);
	say(RESULT("3", ""));
	ck_assert_int_eq(lb_resize_by(lb, "db", 1, NULL, 1000, NULL), LB_OK);
	say(RESULT("4", "\"slots\":null"));
	ck_assert_int_eq(lb_resize_by(lb, "db", 1, NULL, 1000, &slots), LB_BAD_ANSWER);
	/* The error has the target size. */
	say("{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":15,\"message\":\"gone\","
	    "\"data\":{\"reason\":\"broker-unavailable\",\"retry\":true,\"target\":7}}}");
	ck_assert_int_eq(lb_resize_by(lb, "db", 2, NULL, 1000, &slots), LB_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(lb_error_json(lb), "\"target\":7"));
	ck_assert_int_eq(slots, 0);
}
END_TEST

START_TEST(size)
{
	static const char *const wrong[] = {"\"slots\":\"many\"", "\"slots\":-1", "\"slots\":null",
	    "\"slots\":2147483647", "\"slots\":1.5"};
	char line[96];
	int slots = -1;

	say(RESULT("1", "\"name\":\"db\",\"slots\":3"));
	ck_assert_int_eq(lb_size(lb, "db", 1000, &slots), LB_OK);
	asked("size", "");
	ck_assert_int_eq(slots, 3);
	say(RESULT("2", "\"slots\":\"unlimited\""));
	ck_assert_int_eq(lb_size(lb, "db", 1000, &slots), LB_OK);
	ck_assert_int_eq(slots, LB_UNLIMITED);
	say(RESULT("3", "\"slots\":0"));
	ck_assert_int_eq(lb_size(lb, "db", 1000, &slots), LB_OK);
	ck_assert_int_eq(slots, 0);
	for (int i = 0; i < 5; i++) {
		snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{%s}}",
		    i + 4, wrong[i]);
		say(line);
		ck_assert_int_eq(lb_size(lb, "db", 1000, &slots), LB_BAD_ANSWER);
		ck_assert_int_eq(slots, 0);
	}
}
END_TEST

START_TEST(await)
{
	say(RESULT("1", ""));
	ck_assert_int_eq(lb_await(lb, "db", 3, LB_SLOT_FREE, LB_FOREVER), LB_OK);
	asked("await", ",\"slot\":3,\"state\":\"free\"");
	say(RESULT("2", ""));
	ck_assert_int_eq(lb_await(lb, "db", 10000, LB_SLOT_BUSY, 2500), LB_OK);
	asked("await", ",\"slot\":10000,\"state\":\"busy\",\"timeout\":2.5");
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":2,\"message\":\"somebody holds it "
	    "still\","
	    "\"data\":{\"reason\":\"timeout\",\"retry\":true}}}");
	ck_assert_int_eq(lb_await(lb, "db", 1, LB_SLOT_FREE, 0), LB_TIMEOUT);
	asked("await", ",\"slot\":1,\"state\":\"free\",\"timeout\":0");
}
END_TEST

START_TEST(bad_arguments_send_nothing)
{
	const int64_t too_long = INT64_C(315360000001);
	struct lb_change how = LB_CHANGE_INIT;
	int slots = -1;

	ck_assert_int_eq(lb_create(lb, "db", -1, NULL, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_create(lb, "db", 10001, NULL, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_create(lb, NULL, 1, NULL, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_resize(lb, "db", INT32_MIN, NULL, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_resize(lb, "db", LB_UNLIMITED - 1, NULL, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_resize(lb, "a b", 1, NULL, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_resize_by(lb, "db", 0, NULL, 1000, &slots), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_resize_by(lb, "db", 10001, NULL, 1000, &slots), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_resize_by(lb, "db", INT32_MIN, NULL, 1000, &slots), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_destroy(lb, "db-1-A", NULL, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_size(lb, "", 1000, &slots), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_await(lb, "db", 0, LB_SLOT_FREE, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_await(lb, "db", 10001, LB_SLOT_FREE, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(lb_await(lb, "db", 1, LB_SLOT_FREE, too_long), LB_BAD_ARGUMENT);
	how.overshoot = -1;
	ck_assert_int_eq(lb_destroy(lb, "db", &how, 1000), LB_BAD_ARGUMENT);
	how.overshoot = 10001;
	ck_assert_int_eq(lb_create(lb, "db", 1, &how, 1000), LB_BAD_ARGUMENT);
	how.overshoot = 0;
	how.wait_ms = too_long;
	ck_assert_int_eq(lb_destroy(lb, "db", &how, 1000), LB_BAD_ARGUMENT);
	how.wait_ms = 0;
	how.kind = LB_MUTEX;
	ck_assert_int_eq(lb_create(lb, "db", 1, &how, 1000), LB_BAD_ARGUMENT);
	how = (struct lb_change){.size = 8};
	ck_assert_int_eq(lb_resize(lb, "db", 1, &how, 1000), LB_BAD_ARGUMENT);
	ck_assert_int_eq(slots, -1);
	ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(words)
{
	ck_assert_str_eq(lb_kind_word(LB_SEMAPHORE), "semaphore");
	ck_assert_str_eq(lb_kind_word(LB_MUTEX), "mutex");
	ck_assert_str_eq(lb_kind_word(LB_PERSISTENT_MUTEX), "persistent-mutex");
	ck_assert_ptr_null(lb_kind_word(3));
	ck_assert_ptr_null(lb_kind_word(-1));
	ck_assert_str_eq(lb_claim_word(LB_CLAIM_EXCLUSIVE_QUEUE), "exclusive-queue");
	ck_assert_str_eq(lb_claim_word(LB_CLAIM_CONSUMER), "consumer");
	ck_assert_ptr_null(lb_claim_word(LB_CLAIM_DEFAULT));
	ck_assert_str_eq(lb_claim_word(LB_CLAIM_QUORUM), "quorum");
	ck_assert_ptr_null(lb_claim_word(4));
	ck_assert_ptr_null(lb_name_error("db/x.y:z_-1"));
	ck_assert_ptr_nonnull(lb_name_error(NULL));
	ck_assert_ptr_nonnull(lb_name_error(""));
	ck_assert_ptr_nonnull(lb_name_error("db-G"));
}
END_TEST

/* The wait for holders comes on top of the time that the work may take. */
START_TEST(patience)
{
	struct lb_change how = LB_CHANGE_INIT;
	int64_t began = client_clock_now();

	how.wait_ms = 60;
	ck_assert_int_eq(lb_destroy(lb, "db", &how, 30), LB_DEADLINE);
	ck_assert_int_ge(client_clock_now() - began, 90);
	began = client_clock_now();
	ck_assert_int_eq(lb_create(lb, "db", 1, &how, 20), LB_DEADLINE);
	ck_assert_int_ge(client_clock_now() - began, 20);
	/* For ever, whatever the rest says: the answer is there already. */
	how.wait_ms = LB_FOREVER;
	say(RESULT("3", ""));
	ck_assert_int_eq(lb_resize(lb, "db", 1, &how, 0), LB_OK);
}
END_TEST

/* ---- events during a call ---- */

struct told {
	int events, busy;
	char json[128];
};

static void
hear_holders(struct lb *from, const struct lb_event *event, void *arg)
{
	struct told *told = arg;

	ck_assert_ptr_eq(from, lb);
	ck_assert_int_eq(event->type, LB_EVENT_HOLDERS);
	ck_assert_ptr_null(event->lock);
	told->events++;
	told->busy = event->busy;
	snprintf(told->json, sizeof(told->json), "%s", event->json);
}

START_TEST(holders_are_told_while_the_call_blocks)
{
	struct lb_change how = LB_CHANGE_INIT;
	struct told told = {.events = 0};

	how.wait_ms = LB_FOREVER;
	how.progress = 1;
	lb_set_callback(lb, hear_holders, &told);
	say(HOLDERS("2", "{\"slot\":4},{\"slot\":5}"));
	say(RESULT("1", ""));
	ck_assert_int_eq(lb_destroy(lb, "db", &how, 1000), LB_OK);
	ck_assert_int_eq(told.events, 1);
	ck_assert_int_eq(told.busy, 2);
	ck_assert_str_eq(
	    told.json, "{\"id\":1,\"left\":2,\"holders\":[{\"slot\":4},{\"slot\":5}]}");
}
END_TEST

START_TEST(of_holders_only_the_newest_is_kept)
{
	const struct lb_event *event;

	for (int i = 0; i < 3; i++)
		say(HOLDERS("3", "{\"slot\":4}"));
	say(HOLDERS("1", "{\"slot\":9}"));
	ck_assert_int_eq(lb_dispatch(lb), LB_OK);
	event = lb_event_next(lb);
	ck_assert_ptr_nonnull(event);
	ck_assert_int_eq(event->type, LB_EVENT_HOLDERS);
	ck_assert_int_eq(event->busy, 1);
	ck_assert_int_eq(event->request, 1);
	ck_assert_ptr_null(lb_event_next(lb));
}
END_TEST

/* ---- a hold without a slot ---- */

START_TEST(a_grant_without_a_lease_is_not_lost_by_the_clock)
{
	struct lb_lock *lock = NULL;

	say(RESULT("1",
	    "\"lock\":\"a-1\",\"name\":\"db\",\"kind\":\"semaphore\",\"slot\":null,\"waited\":0,"
	    "\"safe_for\":null,\"safe_until\":null,\"lease\":null"));
	ck_assert_int_eq(lb_acquire(lb, "db", NULL, &lock), LB_OK);
	ck_assert_int_eq(lb_lock_slot(lock), 0);
	ck_assert_int_eq(lb_lock_safe_until(lock), -1);
	ck_assert_int_eq(lb_lock_heartbeat(lock), 0);
	ck_assert_int_eq(lb_lock_margin(lock), 0);
	ck_assert_int_eq(lb_timeout(lb), -1);
	/* The lease of what else this connection holds is not this one's. */
	say(NOTICE("lease", "\"safe_until\":0.001"));
	say(RESULT("2", "\"lock\":\"a-1\",\"slot\":null,\"safe_for\":null,\"safe_until\":null"));
	ck_assert_int_eq(lb_verify(lock, 1000), LB_OK);
	ck_assert_int_eq(lb_lock_safe_until(lock), -1);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_HELD);
	ck_assert_ptr_null(lb_event_next(lb));
	/* But it is the connection's as any other. */
	hang_up();
	ck_assert_int_eq(lb_wait(lb, 1000), LB_CLOSED);
	ck_assert_int_eq(lb_lock_state(lock), LB_LOCK_LOST);
}
END_TEST

static Suite *
admin_suite(void)
{
	Suite *suite = suite_create("admin");
	TCase *tcase = tcase_create("admin");

	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, client_rig_up, client_rig_down);
	tcase_add_test(tcase, create);
	tcase_add_test(tcase, resize_and_destroy);
	tcase_add_test(tcase, resize_by);
	tcase_add_test(tcase, size);
	tcase_add_test(tcase, await);
	tcase_add_test(tcase, bad_arguments_send_nothing);
	tcase_add_test(tcase, words);
	tcase_add_test(tcase, patience);
	tcase_add_test(tcase, holders_are_told_while_the_call_blocks);
	tcase_add_test(tcase, of_holders_only_the_newest_is_kept);
	tcase_add_test(tcase, a_grant_without_a_lease_is_not_lost_by_the_clock);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {admin_suite};

	return unit_run(makers, 1);
}
