/*
 * A hold between its grant and its end, over the server in memory. It is verified, revoked,
 * vanished, lost, or its channel ends. The lock connection ends and returns. The daemon stops in
 * order.
 */
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <string.h>

/* Client 1 of daemon 0 holds db's only slot. */
static uint64_t
held(void)
{
	world_acquire(world, 0, 1, 1, "db", TRY);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	return world_await(world, 0, 1, 1)->lock;
}

static enum reason
verify(uint64_t lock, uint64_t request)
{
	lock_verify(engine(0), 1, request, lock, 1000);
	return world_await(world, 0, 1, request)->reason;
}

START_TEST(verify_says_held_and_to_whom)
{
	uint64_t lock = held();

	ck_assert_int_eq(verify(lock, 2), REASON_NONE);
	ck_assert_int_eq(world_answer(world, 0, 1, 2)->slot, 1);
	ck_assert_int_eq(verify(lock + 1, 3), REASON_NOT_HELD);
	lock_verify(engine(0), 2, 1, lock, 1000); /* another client of the uid */
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	lock_verify(engine(0), 2, 2, lock, 1001);
	ck_assert_int_eq(world_await(world, 0, 2, 2)->reason, REASON_NOT_HELD);
	lock_verify(engine(0), 2, 3, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 2, 3)->reason, REASON_NONE);
}
END_TEST

START_TEST(revoked_is_a_mark_that_stays)
{
	uint64_t lock = held();

	memory_world_remove(world->memory, "db-1-A");
	ck_assert_int_eq(verify(lock, 2), REASON_REVOKED);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	ck_assert(world_b(world, "db", 1, 0));
	world_make(world, "db", 1);
	ck_assert_int_eq(verify(lock, 3), REASON_REVOKED);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	lock_release(engine(0), 1, 4, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 4)->reason, REASON_NONE);
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

START_TEST(a_verify_that_was_asked_before_does_not_undo_revoked)
{
	uint64_t lock = held();

	memory_world_remove(world->memory, "db-1-A");
	lock_verify(engine(0), 1, 2, lock, 1000);
	lock_verify(engine(0), 1, 3, lock, 1000);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_REVOKED);
	/* The 404 closed the channel under the second one, which asks again and sees A. */
	memory_world_put(world->memory, "db-1-A", false);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_REVOKED);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
}
END_TEST

START_TEST(a_vanished_b_is_claimed_again)
{
	uint64_t lock = held();
	struct lock_counts counts;

	memory_world_remove(world->memory, "db-1-B");
	ck_assert_int_eq(verify(lock, 2), REASON_NONE);
	ck_assert(world_b(world, "db", 1, 0));
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.holder_queues_lost, 1);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(a_b_of_another_connection_is_lost)
{
	uint64_t lock = held();

	memory_world_remove(world->memory, "db-1-B");
	memory_world_put(world->memory, "db-1-B", true);
	ck_assert_int_eq(verify(lock, 2), REASON_LOST);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(verify(lock, 3), REASON_NOT_HELD);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(verifies_in_a_row_survive_a_vanished_b)
{
	uint64_t lock = held();

	memory_world_remove(world->memory, "db-1-B");
	for (uint64_t i = 2; i < 8; i++)
		lock_verify(engine(0), 1, i, lock, 1000);
	for (uint64_t i = 2; i < 8; i++)
		ck_assert_int_eq(world_await(world, 0, 1, i)->reason, REASON_NONE);
}
END_TEST

/*
 * With 1,200 connections of 64 verifies each the lock connection was said not to be read, and
 * closed.
 */
START_TEST(many_verifies_are_two_flights)
{
	uint64_t lock = held();
	unsigned before = world->asked;

	for (uint64_t i = 0; i < 1000; i++)
		lock_verify(engine(0), 1, 10 + i, lock, 1000);
	for (uint64_t i = 0; i < 1000; i++)
		ck_assert_int_eq(world_await(world, 0, 1, 10 + i)->reason, REASON_NONE);
	ck_assert_uint_eq(world->asked - before, 4);
	ck_assert_int_eq(verify(lock, 2), REASON_NONE);
}
END_TEST

START_TEST(verifies_before_a_release_are_answered_held)
{
	uint64_t lock = held();

	for (uint64_t i = 2; i < 6; i++)
		lock_verify(engine(0), 1, i, lock, 1000);
	lock_release(engine(0), 1, 6, lock);
	lock_verify(engine(0), 1, 7, lock, 1000);
	for (uint64_t i = 2; i < 7; i++)
		ck_assert_int_eq(world_await(world, 0, 1, i)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 7)->reason, REASON_NOT_HELD);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

/* Verifies that wait for another one are answered, whatever its result is. */
START_TEST(verifies_that_follow_are_all_answered)
{
	enum reason wanted[] = {REASON_LOST, REASON_REVOKED, REASON_LOST, REASON_NOT_HELD};
	uint64_t lock = held();

	for (uint64_t i = 2; i < 6; i++)
		lock_verify(engine(0), 2, i, lock, 1000);
	switch (_i) {
	case 0: /* B is another's */
		memory_world_remove(world->memory, "db-1-B");
		memory_world_put(world->memory, "db-1-B", true);
		break;
	case 1: /* A is gone */
		memory_world_remove(world->memory, "db-1-A");
		break;
	case 2: /* the link dies */
		memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, 0, "cut");
		break;
	case 3: /* the holder hangs up */
		lock_peer_gone(engine(0), 1);
		break;
	}
	ck_assert_int_eq(world_await(world, 0, 2, 2)->reason, _i == 3 ? REASON_NONE : wanted[_i]);
	for (uint64_t i = 3; i < 6; i++)
		ck_assert_int_eq(world_await(world, 0, 2, i)->reason, wanted[_i]);
	ck_assert_int_lt(world->now, 1010 * NSEC_PER_SEC);
}
END_TEST

START_TEST(old_servers_are_checked_twice_after_the_claim)
{
	struct lock_counts counts;

	memory_world_set_deletes_by_name(world->memory, true);
	held();
	/* A dying rival's declare deletes the new B by name (RabbitMQ issue #15276). */
	memory_world_remove(world->memory, "db-1-B");
	world_pass(world, 15 * NSEC_PER_MSEC);
	ck_assert(world_b(world, "db", 1, 0));
	memory_world_remove(world->memory, "db-1-B");
	world_pass(world, 100 * NSEC_PER_MSEC);
	ck_assert(world_b(world, "db", 1, 0));
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.holder_queues_lost, 2);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_VANISHED), 2);
}
END_TEST

START_TEST(on_old_servers_a_b_of_another_client_is_lost_at_once)
{
	memory_world_set_deletes_by_name(world->memory, true);
	held();
	memory_world_remove(world->memory, "db-1-B");
	memory_world_put(world->memory, "db-1-B", true);
	world_pass(world, 15 * NSEC_PER_MSEC);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
}
END_TEST

START_TEST(new_servers_are_not_asked_again)
{
	held();
	memory_world_remove(world->memory, "db-1-B");
	world_pass(world, SECOND);
	ck_assert(!world_b(world, "db", 1, -1));
}
END_TEST

START_TEST(a_channel_that_dies_is_replaced)
{
	uint64_t lock = held();

	/* A verify whose A is gone costs the channel. The next request gets another one. */
	memory_world_remove(world->memory, "db-1-A");
	verify(lock, 2);
	world_pass(world, SECOND);
	lock_release(engine(0), 1, 3, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NONE);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

START_TEST(a_release_behind_a_dying_verify_is_sent_again)
{
	uint64_t lock = held();

	memory_world_remove(world->memory, "db-1-A");
	lock_verify(engine(0), 1, 2, lock, 1000);
	lock_release(engine(0), 1, 3, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_REVOKED);
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

START_TEST(the_link_dies_and_every_hold_is_lost_once)
{
	uint64_t lock = held();

	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_acquire(world, 0, 3, 1, "db", TRY);
	world_pass(world, NSEC_PER_MSEC / 2);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "the cable was cut");
	world_pass(world, SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(world_await(world, 0, 3, 1)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_str_eq(world_await(world, 0, 3, 1)->text, "the cable was cut");
	ck_assert_int_eq(verify(lock, 9), REASON_NOT_HELD);
	/* Newcomers: a try fails at once, a waiter waits for the link. */
	world_acquire(world, 0, 4, 1, "db", TRY);
	ck_assert_int_eq(world_answer(world, 0, 4, 1)->reason, REASON_BROKER_UNAVAILABLE);
	world_acquire(world, 0, 5, 1, "db", DURATION_FOREVER);
	ck_assert_int_eq(world_notices(world, 0, 5, LOCK_NOTICE_BROKER), 1);
	ck_assert_ptr_null(world_answer(world, 0, 2, 1));
	memory_broker_restore(world->daemon[0].broker, BROKER_LOCKS);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	ck_assert(world_b(world, "db", 1, 0));
}
END_TEST

START_TEST(the_link_dies_at_every_step_and_nothing_is_left)
{
	for (int steps = 0; steps < 60; steps++) {
		uint64_t peer = 100 + (uint64_t)steps;
		const struct said *answer;
		bool released = false;

		world_acquire(world, 0, peer, 1, "db", 20 * SECOND);
		for (int i = 0; i < steps; i++) {
			world_step(world, SECOND);
			answer = world_answer(world, 0, peer, 1);
			if (answer == NULL || released || world->now == answer->at)
				continue;
			lock_release(engine(0), peer, 2, answer->lock);
			released = true;
		}
		memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, SECOND, "cut");
		ck_assert_int_eq(world_await(world, 0, peer, 1)->reason, REASON_NONE);
		lock_peer_gone(engine(0), peer);
		world_pass(world, 2 * SECOND);
		ck_assert(lock_quiet(engine(0)));
		ck_assert_int_eq(world_b_count(world), 0);
		world->said_count = 0;
	}
}
END_TEST

START_TEST(a_release_that_the_link_s_death_overtakes_is_lost)
{
	uint64_t lock = held();

	lock_release(engine(0), 1, 2, lock);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "cut");
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_LOST);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
}
END_TEST

/* It still holds the slot for this connection. */
START_TEST(a_b_that_does_not_answer_is_dropped_later)
{
	uint64_t lock = held();

	ck_assert(memory_world_hang(world->memory, "db-1-B", true));
	lock_release(engine(0), 1, 2, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_BROKER_REFUSED);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 1, 2)->text, "due to timeout"));
	world_pass(world, SECOND / 2);
	ck_assert(memory_world_hang(world->memory, "db-1-B", false));
	world_pass(world, SECOND);
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(our_own_old_b_is_waited_for)
{
	held();
	/* The broker notices the death of the old link only 20 s later. */
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 20 * SECOND, 0, "cut");
	world_acquire(world, 0, 2, 1, "db", 60 * SECOND);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_broker_that_denies_is_quoted_at_once)
{
	world_acquire(world, 0, 1, 1, "db", DURATION_FOREVER);
	memory_broker_deny(world->daemon[0].broker, BROKER_LOCKS, "ACCESS_REFUSED - go away");
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_BROKER_REFUSED);
	ck_assert_str_eq(world_await(world, 0, 1, 1)->text, "ACCESS_REFUSED - go away");
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	ck_assert_int_eq(world_answer(world, 0, 2, 1)->reason, REASON_BROKER_REFUSED);
}
END_TEST

/* In the grace of a daemon that has just started, the next host may accept it. */
START_TEST(a_broker_that_denies_is_quoted_when_the_grace_is_over)
{
	bool accepts = _i == 1;

	world_make(world, "big", 1);
	lock_set_grace(engine(0), true);
	world_acquire(world, 0, 1, 1, "big", 30 * SECOND);
	memory_broker_deny(world->daemon[0].broker, BROKER_LOCKS, "ACCESS_REFUSED - go away");
	world_acquire(world, 0, 2, 1, "big", SECOND / 2);
	world_acquire(world, 0, 3, 1, "big", TRY);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_BROKER_REFUSED);
	world_pass(world, SECOND);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_BROKER_REFUSED);
	ck_assert_str_eq(now(0, 2, 1)->text, "ACCESS_REFUSED - go away");
	ck_assert(is_waiting(0, 1, 1));
	if (accepts) {
		memory_broker_restore(world->daemon[0].broker, BROKER_LOCKS);
		ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	}
	lock_set_grace(engine(0), false);
	ck_assert_int_eq(now(0, 1, 1)->reason, accepts ? REASON_NONE : REASON_BROKER_REFUSED);
}
END_TEST

START_TEST(without_probes_slots_are_claimed_unseen)
{
	world_make(world, "big", 3);
	memory_world_block(world->memory, true);
	for (uint64_t peer = 1; peer <= 2; peer++) {
		world_acquire(world, 0, peer, 1, "big", 30 * SECOND);
		ck_assert_int_eq(world_await(world, 0, peer, 1)->reason, REASON_NONE);
	}
	world_acquire(world, 1, 1, 1, "big", 30 * SECOND);
	ck_assert_int_eq(world_await(world, 1, 1, 1)->slot, 3);
	/* Without a slot it may be a gate, or unlimited, and that cannot be seen. */
	world_acquire(world, 1, 2, 1, "nix", TRY);
	ck_assert_int_eq(world_await(world, 1, 2, 1)->reason, REASON_BROKER_BLOCKED);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 1, 2, 1)->text, "gate"));
	world_acquire(world, 1, 2, 2, "nix", 30 * SECOND);
	ck_assert_int_eq(world_await(world, 1, 2, 2)->reason, REASON_TIMEOUT);
	world_acquire(world, 1, 2, 3, "nix", DURATION_FOREVER);
	memory_world_block(world->memory, false);
	ck_assert_int_eq(world_await(world, 1, 2, 3)->reason, REASON_NO_SUCH_LOCK);
	world_pass(world, SECOND);
	ck_assert_int_eq(world_b_count(world), 3);
}
END_TEST

START_TEST(drain_refuses_and_holds_stay_until_abandoned)
{
	uint64_t lock = held();

	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	lock_drain(engine(0));
	ck_assert_int_eq(world_answer(world, 0, 2, 1)->reason, REASON_DRAINING);
	world_acquire(world, 0, 3, 1, "db", TRY);
	ck_assert_int_eq(world_answer(world, 0, 3, 1)->reason, REASON_DRAINING);
	ck_assert(!lock_quiet(engine(0)));
	ck_assert_int_eq(verify(lock, 2), REASON_NONE);
	lock_abandon(engine(0));
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
	ck_assert(!lock_quiet(engine(0)));
	world_pass(world, SECOND);
	ck_assert(lock_quiet(engine(0)));
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

Suite *
suite_lock_lifecycle(void)
{
	Suite *suite = suite_create("lock: from grant to end");
	TCase *tc = tcase_create("keep");

	tcase_add_checked_fixture(tc, world_begin_with_db, world_end);
	tcase_add_test(tc, verify_says_held_and_to_whom);
	tcase_add_test(tc, revoked_is_a_mark_that_stays);
	tcase_add_test(tc, a_verify_that_was_asked_before_does_not_undo_revoked);
	tcase_add_test(tc, a_vanished_b_is_claimed_again);
	tcase_add_test(tc, a_b_of_another_connection_is_lost);
	tcase_add_test(tc, verifies_in_a_row_survive_a_vanished_b);
	tcase_add_test(tc, many_verifies_are_two_flights);
	tcase_add_test(tc, verifies_before_a_release_are_answered_held);
	tcase_add_loop_test(tc, verifies_that_follow_are_all_answered, 0, 4);
	tcase_add_test(tc, old_servers_are_checked_twice_after_the_claim);
	tcase_add_test(tc, on_old_servers_a_b_of_another_client_is_lost_at_once);
	tcase_add_test(tc, new_servers_are_not_asked_again);
	tcase_add_test(tc, a_channel_that_dies_is_replaced);
	tcase_add_test(tc, a_release_behind_a_dying_verify_is_sent_again);
	tcase_add_test(tc, the_link_dies_and_every_hold_is_lost_once);
	tcase_add_test(tc, the_link_dies_at_every_step_and_nothing_is_left);
	tcase_add_test(tc, a_release_that_the_link_s_death_overtakes_is_lost);
	tcase_add_test(tc, a_b_that_does_not_answer_is_dropped_later);
	tcase_add_test(tc, our_own_old_b_is_waited_for);
	tcase_add_test(tc, a_broker_that_denies_is_quoted_at_once);
	tcase_add_loop_test(tc, a_broker_that_denies_is_quoted_when_the_grace_is_over, 0, 2);
	tcase_add_test(tc, without_probes_slots_are_claimed_unseen);
	tcase_add_test(tc, drain_refuses_and_holds_stay_until_abandoned);
	suite_add_tcase(suite, tc);
	return suite;
}
