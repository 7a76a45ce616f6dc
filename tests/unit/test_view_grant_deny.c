/*
 * Granting and denying waiters, and evicting holders, here and behind another daemon.
 */
#include <stdio.h>
#include <string.h>

#include "protocol/json.h"
#include "tests/unit/test_view.h"
#include "tests/unit/view_rig.h"

static struct view_rig *rig;

static void
setup(void)
{
	rig = rig_new();
	world_make(rig->world, "db", 1);
}

static void
teardown(void)
{
	rig_free(rig);
}

static const struct rig_answer *
grant(int daemon, uint64_t request, const char *waiter)
{
	view_grant(rig->daemon[daemon].view, 100, request, waiter, 1234);
	return rig_await(rig, daemon, request);
}

static const struct rig_answer *
deny(int daemon, uint64_t request, const char *waiter)
{
	view_deny(rig->daemon[daemon].view, 100, request, waiter, 1234);
	return rig_await(rig, daemon, request);
}

static int64_t
number(const struct rig_answer *answer, const char *name)
{
	int64_t found = -1;

	ck_assert(json_integer(json_get(answer->result, name), &found));
	return found;
}

static void
check_granted(const struct rig_answer *answer, const char *host)
{
	const char *text;

	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert(json_string(json_get(answer->result, "host"), &text));
	ck_assert_str_eq(text, host);
	ck_assert(json_string(json_get(answer->result, "name"), &text));
	ck_assert_str_eq(text, "db");
}

/* seeds/004, "Grant", with each process behind another daemon than the one before. */
START_TEST(a_granted_waiter_starts_at_once_at_any_daemon)
{
	for (int asked = 0; asked < DAEMONS; asked++) {
		if (asked > 0) {
			rig_free(rig);
			setup();
		}
		rig_acquire(rig, 0, 1);
		rig_acquire(rig, 1, 2);
		rig_acquire(rig, 0, 3);
		check_granted(grant(asked, 1, rig_waiter(rig, "B")), "host1");
		ck_assert_int_eq(rig_acquired(rig, 1, 2)->reason, REASON_NONE);
		ck_assert_int_eq(rig_acquired(rig, 1, 2)->slot, 0);
		ck_assert_str_eq(rig_show(rig, asked, 2),
		    "slots 1 busy 1 extra 1 waiting 1 [A@host0/1] [B@host1!/0] [C@host0#1] more 0");
		lock_peer_gone(rig->world->daemon[0].engine, 1);
		world_pass(rig->world, 10 * NSEC_PER_SEC);
		ck_assert_str_eq(rig_show(rig, asked, 3),
		    "slots 1 busy 1 extra 1 waiting 0 [C@host0/1] [B@host1!/0] more 0");
	}
}
END_TEST

START_TEST(the_acting_daemon_logs_the_administrator)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	rig_acquire(rig, 1, 3);
	grant(0, 1, rig_waiter(rig, "B"));
	ck_assert_ptr_nonnull(
	    strstr(rig->last_info, "granted db by an administrator: waiter 000000a1-"));
	ck_assert_ptr_nonnull(strstr(rig->last_info, "by uid 1234 of host host0"));
	deny(0, 2, rig_waiter(rig, "C"));
	ck_assert_ptr_nonnull(
	    strstr(rig->last_info, "denied db by an administrator: waiter 000000a1-"));
	ck_assert_ptr_nonnull(strstr(rig->last_info, "by uid 1234 of host host0"));
}
END_TEST

START_TEST(a_denied_waiter_fails_at_any_daemon)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	rig_acquire(rig, 0, 3);
	ck_assert_int_eq(number(deny(0, 1, rig_waiter(rig, "B")), "denied"), 1);
	ck_assert_int_eq(number(deny(0, 2, rig_waiter(rig, "C")), "denied"), 1);
	ck_assert_int_eq(rig_acquired(rig, 1, 2)->reason, REASON_CANCELLED);
	ck_assert(rig_acquired(rig, 1, 2)->denied);
	ck_assert(rig_acquired(rig, 0, 3)->denied);
	ck_assert_str_eq(rig_show(rig, 0, 3), "slots 1 busy 1 waiting 0 [A@host0/1] more 0");
}
END_TEST

START_TEST(all_are_denied_everywhere)
{
	const struct rig_answer *answer;

	for (uint64_t peer = 1; peer <= 3; peer++)
		rig_acquire(rig, 0, peer);
	for (uint64_t peer = 4; peer <= 6; peer++)
		rig_acquire(rig, 1, peer);
	view_deny_all(rig->daemon[1].view, 100, 1, "db", 1234);
	answer = rig_await(rig, 1, 1);
	ck_assert_int_eq(number(answer, "denied"), 5);
	ck_assert_ptr_null(json_first(json_get(answer->result, "silent_hosts")));
	ck_assert_str_eq(rig_show(rig, 0, 1), "slots 1 busy 1 waiting 0 [A@host0/1] more 0");
	rig->daemon[0].deaf = true;
	view_deny_all(rig->daemon[1].view, 100, 2, "db", 1234);
	answer = rig_await(rig, 1, 2);
	ck_assert_int_eq(number(answer, "denied"), 0);
	ck_assert_ptr_nonnull(json_first(json_get(answer->result, "silent_hosts")));
}
END_TEST

START_TEST(ids_under_which_nobody_waits_are_not_held)
{
	static const char *const nobody[] = {"x", "000000a0-0", "000000a0-99999", "000000a1-99999",
	    "000000a1-0", "000000ff-1", "000000A1-1", "-1"};

	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++) {
		ck_assert_int_eq(grant(0, 1 + 2 * i, nobody[i])->reason, REASON_NOT_HELD);
		ck_assert_int_eq(deny(0, 2 + 2 * i, nobody[i])->reason, REASON_NOT_HELD);
	}
	/* A holder is no waiter. */
	ck_assert_int_eq(grant(1, 1, rig_waiter(rig, "A"))->reason, REASON_NOT_HELD);
	ck_assert_uint_eq(rig->warnings, 0);
}
END_TEST

START_TEST(a_forbidden_request_is_refused_before_anything_is_done)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 0, 2);
	rig_acquire(rig, 1, 3);
	rig->daemon[0].forbids = true;
	ck_assert_int_eq(grant(0, 1, rig_waiter(rig, "B"))->reason, REASON_PERMISSION_DENIED);
	ck_assert_int_eq(deny(0, 2, rig_waiter(rig, "B"))->reason, REASON_PERMISSION_DENIED);
	ck_assert_int_eq(grant(0, 3, rig_waiter(rig, "C"))->reason, REASON_PERMISSION_DENIED);
	ck_assert_int_eq(deny(0, 4, rig_waiter(rig, "C"))->reason, REASON_PERMISSION_DENIED);
	ck_assert_ptr_null(rig_acquired(rig, 0, 2));
	ck_assert_ptr_null(rig_acquired(rig, 1, 3));
}
END_TEST

START_TEST(a_known_daemon_that_does_not_answer_is_a_timeout)
{
	char waiter[64];

	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	rig_show(rig, 0, 1);
	snprintf(waiter, sizeof(waiter), "%s", rig_waiter(rig, "B"));
	rig->daemon[1].deaf = true;
	ck_assert_int_eq(grant(0, 2, waiter)->reason, REASON_TIMEOUT);
	ck_assert_ptr_null(rig_acquired(rig, 1, 2));
}
END_TEST

/* ---- evict ---- */

#define GRACE (5 * NSEC_PER_SEC)

static const struct rig_answer *
evict(int daemon, uint64_t request, const char *holder, const char *name)
{
	const struct view_eviction eviction = {
	    .holder = holder, .name = name, .uid = 1234, .grace = GRACE, .why = "up\x1bgrade"};

	view_evict(rig->daemon[daemon].view, 100, request, &eviction);
	return rig_await(rig, daemon, request);
}

static int
lost(int daemon, uint64_t peer)
{
	return world_notices(rig->world, daemon, peer, LOCK_NOTICE_LOST);
}

START_TEST(a_holder_is_evicted_at_any_daemon)
{
	rig_acquire(rig, 1, 1);
	rig_acquire(rig, 0, 2);
	ck_assert_int_eq(number(evict(_i, 1, rig_waiter(rig, "A"), NULL), "evicted"), 1);
	ck_assert_int_eq(world_notices(rig->world, 1, 1, LOCK_NOTICE_EVICTED), 1);
	ck_assert_int_eq(lost(1, 1), 0);
	ck_assert_ptr_null(rig_acquired(rig, 0, 2));
	world_pass(rig->world, GRACE + NSEC_PER_SEC);
	ck_assert_int_eq(lost(1, 1), 1);
	ck_assert_int_eq(rig_acquired(rig, 0, 2)->reason, REASON_NONE);
	/* Foreign text is clean. */
	for (size_t i = 0; i < rig->world->said_count; i++)
		ck_assert_ptr_null(strchr(rig->world->said[i].text, 0x1b));
}
END_TEST

START_TEST(all_holders_are_evicted_everywhere)
{
	const struct rig_answer *answer;

	memory_world_put(rig->world->memory, "db-2-A", false);
	memory_world_put(rig->world->memory, "db-3-A", false);
	for (uint64_t peer = 1; peer <= 3; peer++)
		rig_acquire(rig, peer == 3, peer);
	answer = evict(1, 1, NULL, "db");
	ck_assert_int_eq(number(answer, "evicted"), 3);
	ck_assert_ptr_null(json_first(json_get(answer->result, "silent_hosts")));
	rig->daemon[0].deaf = true;
	answer = evict(1, 2, NULL, "db");
	ck_assert_int_eq(number(answer, "evicted"), 1);
	ck_assert_ptr_nonnull(json_first(json_get(answer->result, "silent_hosts")));
	world_pass(rig->world, GRACE + NSEC_PER_SEC);
	for (uint64_t peer = 1; peer <= 3; peer++)
		ck_assert_int_eq(lost(peer == 3, peer), 1);
}
END_TEST

START_TEST(only_holders_are_evicted_and_only_if_it_is_allowed)
{
	char holder[64];

	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	for (int asked = 0; asked < 2; asked++) {
		ck_assert_int_eq(
		    evict(asked, 1, rig_waiter(rig, "B"), NULL)->reason, REASON_NOT_HELD);
		ck_assert_int_eq(evict(asked, 2, "000000a1-99999", NULL)->reason, REASON_NOT_HELD);
		ck_assert_int_eq(evict(asked, 3, "x", NULL)->reason, REASON_NOT_HELD);
		rig->daemon[asked].forbids = true;
		ck_assert_int_eq(
		    evict(asked, 4, rig_waiter(rig, "A"), NULL)->reason, REASON_PERMISSION_DENIED);
		rig->daemon[asked].forbids = false;
	}
	/* A silent daemon, and one of 0.1.0, which does not know the question. */
	rig_show(rig, 1, 5);
	snprintf(holder, sizeof(holder), "%s", rig_waiter(rig, "A"));
	rig->daemon[0].deaf = true;
	ck_assert_int_eq(evict(1, 6, holder, NULL)->reason, REASON_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(rig_await(rig, 1, 6)->text, "nothing was freed"));
	world_pass(rig->world, 2 * GRACE);
	ck_assert_int_eq(lost(0, 1), 0);
}
END_TEST

/* Every user who may publish in the vhost can write that, in any name. */
static void
write_as(const char *user, const char *ask, const char *whom)
{
	char text[512];
	struct broker_message message = {.from = 1, .text = text, .user = user};

	message.len = (size_t)snprintf(text, sizeof(text),
	    "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"ask\":\"%s\",\"run\":\"000000a1\","
	    "\"host\":\"host1\",\"stays\":true,%s,\"uid\":0}",
	    ask, whom);
	view_asked(rig->daemon[0].view, &message);
}

START_TEST(messages_without_the_user_id_of_the_broker_are_ignored)
{
	char whom[96];

	for (uint64_t peer = 1; peer <= 4; peer++)
		rig_acquire(rig, 0, peer);
	snprintf(whom, sizeof(whom), "\"waiter\":\"%s\"", rig_waiter(rig, "B"));
	write_as("", "grant", whom);
	write_as("", "deny", whom);
	write_as("", "deny", "\"name\":\"db\"");
	write_as("", "evict", "\"name\":\"db\",\"grace\":0,\"why\":null");
	ck_assert_int_eq(world_notices(rig->world, 0, 1, LOCK_NOTICE_EVICTED), 0);
	for (uint64_t peer = 2; peer <= 4; peer++)
		ck_assert_ptr_null(rig_acquired(rig, 0, peer));
	ck_assert_uint_eq(rig->warnings, 1);
	write_as("lockbroker", "grant", whom);
	ck_assert_int_eq(rig_acquired(rig, 0, 2)->reason, REASON_NONE);
	write_as("lockbroker", "deny", "\"name\":\"db\"");
	ck_assert_int_eq(rig_acquired(rig, 0, 3)->reason, REASON_CANCELLED);
	ck_assert_int_eq(rig_acquired(rig, 0, 4)->reason, REASON_CANCELLED);
	write_as("lockbroker", "evict", "\"name\":\"db\",\"grace\":86400001");
	write_as("lockbroker", "evict", "\"name\":\"db\",\"why\":null");
	ck_assert_int_eq(world_notices(rig->world, 0, 1, LOCK_NOTICE_EVICTED), 0);
	write_as("lockbroker", "evict", "\"name\":\"db\",\"grace\":0,\"why\":null");
	ck_assert_int_eq(world_notices(rig->world, 0, 1, LOCK_NOTICE_EVICTED), 1);
}
END_TEST

/* All daemons hear each message, and waiters of two daemons can have one number. */
START_TEST(the_waiter_of_another_daemon_with_the_same_number_is_not_meant)
{
	char whom[96];

	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 0, 2);
	snprintf(
	    whom, sizeof(whom), "\"waiter\":\"000000a1%s\"", strchr(rig_waiter(rig, "B"), '-'));
	write_as("lockbroker", "grant", whom);
	write_as("lockbroker", "deny", whom);
	ck_assert_ptr_null(rig_acquired(rig, 0, 2));
}
END_TEST

START_TEST(without_a_broker_only_waiters_here_can_be_granted)
{
	char here[64], there[64];

	rig_acquire(rig, 1, 1);
	rig_acquire(rig, 0, 2);
	rig_acquire(rig, 1, 3);
	snprintf(here, sizeof(here), "%s", rig_waiter(rig, "B"));
	snprintf(there, sizeof(there), "%s", rig_waiter(rig, "C"));
	memory_world_block(rig->world->memory, true);
	world_pass(rig->world, NSEC_PER_SEC);
	ck_assert_int_eq(grant(0, 1, there)->reason, REASON_BROKER_UNAVAILABLE);
	check_granted(grant(0, 2, here), "host0");
}
END_TEST

/* The daemon does not know then whether the id has a waiter: "no waiter" would be wrong. */
START_TEST(while_the_links_are_down_it_is_said_that_nobody_can_be_asked)
{
	char there[64];

	rig_acquire(rig, 1, 1);
	rig_acquire(rig, 1, 3);
	snprintf(there, sizeof(there), "%s", rig_waiter(rig, "C"));
	memory_broker_cut(
	    rig->world->daemon[0].broker, BROKER_AUXILIARY, 0, 1000 * NSEC_PER_SEC, "cut");
	world_pass(rig->world, NSEC_PER_SEC);
	ck_assert_int_eq(grant(0, 1, there)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_int_eq(deny(0, 2, "00000001-1")->reason, REASON_BROKER_UNAVAILABLE);
}
END_TEST

Suite *
suite_view_grant_deny(void)
{
	Suite *suite = suite_create("view grant and deny");
	TCase *tcase = tcase_create("grant and deny");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_granted_waiter_starts_at_once_at_any_daemon);
	tcase_add_test(tcase, the_acting_daemon_logs_the_administrator);
	tcase_add_test(tcase, a_denied_waiter_fails_at_any_daemon);
	tcase_add_test(tcase, all_are_denied_everywhere);
	tcase_add_test(tcase, ids_under_which_nobody_waits_are_not_held);
	tcase_add_test(tcase, a_forbidden_request_is_refused_before_anything_is_done);
	tcase_add_test(tcase, a_known_daemon_that_does_not_answer_is_a_timeout);
	tcase_add_loop_test(tcase, a_holder_is_evicted_at_any_daemon, 0, 2);
	tcase_add_test(tcase, all_holders_are_evicted_everywhere);
	tcase_add_test(tcase, only_holders_are_evicted_and_only_if_it_is_allowed);
	tcase_add_test(tcase, messages_without_the_user_id_of_the_broker_are_ignored);
	tcase_add_test(tcase, the_waiter_of_another_daemon_with_the_same_number_is_not_meant);
	tcase_add_test(tcase, without_a_broker_only_waiters_here_can_be_granted);
	tcase_add_test(tcase, while_the_links_are_down_it_is_said_that_nobody_can_be_asked);
	suite_add_tcase(suite, tcase);
	return suite;
}
