/*
 * Hand-offs inside a daemon: when, to which waiter, how often; and when none is made.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#define HEARTBEAT (10 * SECOND)

static uint64_t
hold(int daemon, uint64_t peer, uint64_t request)
{
	return acquire(daemon, peer, request, "db", TRY)->lock;
}

/* The watch is there, and the link answered just now. */
static void
be_fresh(uint64_t peer, uint64_t request, uint64_t lock)
{
	world_pass(world, SECOND);
	lock_verify(engine(0), peer, request, lock, 0);
	world_await(world, 0, peer, request);
}

START_TEST(a_slot_is_handed_off_at_once_and_b_is_kept)
{
	uint64_t lock = hold(0, 1, 1);
	const struct said *granted, *released;
	unsigned asked;

	wait_for(0, 2, 1);
	be_fresh(1, 2, lock);
	asked = world->asked;
	lock_release(engine(0), 1, 3, lock);
	granted = now(0, 2, 1);
	released = now(0, 1, 3);
	ck_assert_int_eq(granted->reason, REASON_NONE);
	ck_assert_int_eq(granted->slot, 1);
	ck_assert_uint_ne(granted->lock, lock);
	ck_assert_int_gt(granted->safe_until, world->now);
	ck_assert_int_eq(released->reason, REASON_NONE);
	ck_assert_uint_eq(released->lock, lock);
	/* The waiter is answered before the releaser, because other work waits for it. */
	ck_assert(granted < released);
	ck_assert_uint_eq(world->asked, asked);
	ck_assert(world_b(world, "db", 1, 0));
	/* The old number is not held, the new one is. */
	lock_verify(engine(0), 2, 2, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 2, 2)->reason, REASON_NOT_HELD);
	lock_verify(engine(0), 2, 3, granted->lock, 0);
	ck_assert_int_eq(world_await(world, 0, 2, 3)->reason, REASON_NONE);
	lock_release(engine(0), 1, 4, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 4)->reason, REASON_NOT_HELD);
	lock_release(engine(0), 2, 4, granted->lock);
	ck_assert_int_eq(world_await(world, 0, 2, 4)->reason, REASON_NONE);
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(a_hang_up_hands_all_of_it_on)
{
	memory_world_put(world->memory, "db-2-A", false);
	memory_world_put(world->memory, "db-3-A", false);
	for (uint64_t request = 1; request <= 3; request++)
		hold(0, 1, request);
	for (uint64_t peer = 2; peer <= 5; peer++)
		wait_for(0, peer, 1);
	be_fresh(1, 9, world_answer(world, 0, 1, 1)->lock);
	lock_peer_gone(engine(0), 1);
	for (uint64_t peer = 2; peer <= 4; peer++)
		ck_assert_int_eq(now(0, peer, 1)->slot, (int)peer - 1);
	ck_assert(is_waiting(0, 5, 1));
	ck_assert_int_eq(world_b_count(world), 3);
}
END_TEST

START_TEST(a_slot_unseen_for_a_second_is_checked_before_its_hand_off)
{
	uint64_t lock = hold(0, 1, 1);
	int64_t released;

	wait_for(0, 2, 1);
	/* No watch yet: it is placed after a moment. */
	world_pass(world, 3 * MS);
	lock_release(engine(0), 1, 2, lock);
	ck_assert(is_waiting(0, 1, 2) && is_waiting(0, 2, 1));
	released = world->now;
	lock = world_await(world, 0, 2, 1)->lock;
	ck_assert_int_le(world->now - released, world->delay);
	ck_assert_int_eq(now(0, 1, 2)->reason, REASON_NONE);
	/* Watched, but the link was silent for more than a second. */
	wait_for(0, 3, 1);
	world_pass(world, SECOND * 5 / 2);
	lock_release(engine(0), 2, 2, lock);
	ck_assert(is_waiting(0, 3, 1));
	ck_assert_uint_ne(world_await(world, 0, 3, 1)->lock, 0);
}
END_TEST

START_TEST(a_slot_that_is_gone_is_not_handed_off)
{
	uint64_t lock = hold(0, 1, 1);

	wait_for(0, 2, 1);
	world_pass(world, 3 * MS);
	memory_world_remove(world->memory, "db-1-A");
	memory_world_put(world->memory, "db-G", false);
	lock_release(engine(0), 1, 2, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 2, 1));
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 0);
}
END_TEST

START_TEST(a_revoked_hold_is_not_handed_off)
{
	uint64_t lock = hold(0, 1, 1);

	wait_for(0, 2, 1);
	be_fresh(1, 2, lock);
	memory_world_put(world->memory, "db-G", false);
	memory_world_remove(world->memory, "db-1-A");
	world_pass(world, SECOND / 10);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	lock_release(engine(0), 1, 3, lock);
	ck_assert(is_waiting(0, 1, 3));
	world_await(world, 0, 1, 3);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 2, 1));
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

/* A was deleted while B did not exist, and the watch, which is still on, did not report it. */
START_TEST(a_hold_that_was_claimed_again_is_not_handed_off_unseen)
{
	uint64_t lock = hold(0, 1, 1);

	wait_for(0, 2, 1);
	be_fresh(1, 2, lock);
	memory_world_put(world->memory, "db-G", false);
	world->deaf = 1;
	memory_world_remove(world->memory, "db-1-A");
	memory_world_remove(world->memory, "db-1-B");
	while (!world_b(world, "db", 1, 0))
		ck_assert(world_step(world, HEARTBEAT));
	world_pass(world, world->delay);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_VANISHED), 1);
	lock_release(engine(0), 1, 3, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 2, 1));
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

START_TEST(a_hold_whose_lease_is_nearly_over_is_not_handed_off)
{
	uint64_t lock = hold(0, 1, 1);
	struct lock_counts counts;

	wait_for(0, 2, 1);
	be_fresh(1, 2, lock);
	/* The daemon was stopped: its knowledge seems fresh to its timers. */
	world->now += 2 * HEARTBEAT - HEARTBEAT / 5 - HEARTBEAT / 4;
	lock_release(engine(0), 1, 3, lock);
	ck_assert(is_waiting(0, 2, 1));
	ck_assert(is_waiting(0, 1, 3));
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.in_flight, 1);
	/* The broker answers, and the lease is long again. */
	ck_assert_uint_ne(world_await(world, 0, 2, 1)->lock, 0);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(a_hold_whose_lease_is_over_is_not_handed_off)
{
	uint64_t lock = hold(0, 1, 1);

	wait_for(0, 2, 1);
	be_fresh(1, 2, lock);
	world->now += 2 * HEARTBEAT;
	lock_release(engine(0), 1, 3, lock);
	ck_assert(is_waiting(0, 2, 1));
	/* Its slot is claimed anew, whatever became of the old B. */
	ck_assert_uint_ne(world_await(world, 0, 2, 1)->lock, 0);
	ck_assert(world_b(world, "db", 1, 0));
	ck_assert(!is_waiting(0, 1, 3));
}
END_TEST

START_TEST(the_link_dies_while_it_is_on_its_way)
{
	uint64_t lock = hold(0, 1, 1);

	wait_for(0, 2, 1);
	world_pass(world, 3 * MS);
	lock_release(engine(0), 1, 2, lock);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, SECOND, "cut");
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_LOST);
	ck_assert(is_waiting(0, 2, 1));
	ck_assert_uint_ne(world_await(world, 0, 2, 1)->lock, 0);
	ck_assert_int_eq(world_b_count(world), 1);
}
END_TEST

/* At every step between the release and the grant. */
START_TEST(the_next_waiter_leaves_and_the_one_behind_gets_it)
{
	uint64_t lock = hold(0, 1, 1);
	bool cancelled;

	wait_for(0, 2, 1);
	wait_for(0, 3, 1);
	wait_for(0, 4, 1);
	world_pass(world, 3 * MS);
	lock_release(engine(0), 1, 2, lock);
	for (int i = 0; i < _i; i++)
		world_step(world, MS);
	lock_peer_gone(engine(0), 2);
	cancelled = lock_cancel(engine(0), 3, 1);
	world_pass(world, SECOND / 10);
	ck_assert_uint_ne(now(0, cancelled ? 4 : 3, 1)->lock, 0);
	ck_assert_int_eq(now(0, 3, 1)->reason, cancelled ? REASON_CANCELLED : REASON_NONE);
	ck_assert_int_eq(world_b_count(world), 1);
}
END_TEST

START_TEST(with_nobody_left_b_is_deleted)
{
	uint64_t lock = hold(0, 1, 1);

	wait_for(0, 2, 1);
	world_pass(world, 3 * MS);
	lock_release(engine(0), 1, 2, lock);
	lock_peer_gone(engine(0), 2);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(in_order_of_priority_and_kind)
{
	uint64_t lock;

	memory_world_put(world->memory, "db-2-A", false);
	lock = hold(0, 1, 1);
	hold(0, 1, 2);
	wait_for(0, 2, 1);
	wait_as(0, 3, 1, LOCK_KIND_PERSISTENT_MUTEX, 7);
	wait_as(0, 4, 1, LOCK_KIND_SEMAPHORE, 5);
	be_fresh(1, 3, lock);
	/* The one at the head wants slot 1 alone. */
	lock_release(engine(0), 1, 4, world_answer(world, 0, 1, 2)->lock);
	ck_assert_int_eq(now(0, 4, 1)->slot, 2);
	lock_release(engine(0), 1, 5, lock);
	ck_assert_int_eq(now(0, 3, 1)->slot, 1);
	ck_assert(is_waiting(0, 2, 1));
}
END_TEST

START_TEST(a_true_mutex_is_handed_off)
{
	wait_as(0, 1, 1, LOCK_KIND_MUTEX, 0);
	wait_as(0, 2, 1, LOCK_KIND_MUTEX, 0);
	wait_as(0, 3, 1, LOCK_KIND_MUTEX, 0);
	world_pass(world, SECOND);
	be_fresh(1, 2, now(0, 1, 1)->lock);
	lock_release(engine(0), 1, 3, now(0, 1, 1)->lock);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
	/* After a while its B is checked first. */
	world_pass(world, SECOND * 5 / 2);
	lock_release(engine(0), 2, 2, now(0, 2, 1)->lock);
	ck_assert(is_waiting(0, 3, 1));
	ck_assert_int_eq(world_await(world, 0, 3, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_draining_daemon_hands_nothing_off)
{
	uint64_t lock = hold(0, 1, 1);

	wait_for(0, 2, 1);
	world_pass(world, 3 * MS);
	lock_release(engine(0), 1, 2, lock);
	lock_drain(engine(0));
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_DRAINING);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

START_TEST(a_waiter_over_its_limit_is_skipped)
{
	struct lock_settings settings = world_settings;
	uint64_t lock = hold(0, 1, 1);

	memory_world_put(world->memory, "other-1-A", false);
	settings.max_locks_per_connection = 1;
	lock_engine_set(engine(0), &settings);
	wait_for(0, 2, 1);
	wait_for(0, 3, 1);
	world_acquire(world, 0, 2, 2, "other", TRY);
	be_fresh(1, 2, lock);
	lock_release(engine(0), 1, 3, lock);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_TOO_MANY_LOCKS);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NONE);
}
END_TEST

/* The known bug: B is checked again, for the holder at that time. */
START_TEST(b_is_checked_again_for_the_next_waiter)
{
	uint64_t lock;

	memory_world_set_deletes_by_name(world->memory, true);
	lock = hold(0, 1, 1);
	wait_for(0, 2, 1);
	world_pass(world, 12 * MS);
	lock_release(engine(0), 1, 2, lock);
	world_await(world, 0, 2, 1);
	memory_world_remove(world->memory, "db-1-B");
	world_pass(world, SECOND / 10);
	ck_assert_int_eq(world_notices(world, 0, 2, LOCK_NOTICE_VANISHED), 1);
	ck_assert(world_b(world, "db", 1, 0));
}
END_TEST

/* ---- in a row ---- */

/*
 * Hands the slot from client to client of a daemon; returns how many had it until another daemon's turn
 * came.
 */
static int
count_passes(int daemon, int other, int most)
{
	int passes = 0;
	uint64_t holder = 1000;

	lock_release(engine(daemon), 1, 3, now(daemon, 1, 1)->lock);
	while (passes < most) {
		uint64_t next = holder + 1;

		while (is_waiting(daemon, next, 1) && is_waiting(other, 2, 1))
			ck_assert(world_step(world, SECOND));
		if (!is_waiting(other, 2, 1))
			break;
		passes++;
		holder = next;
		world_pass(world, 20 * MS);
		lock_release(engine(daemon), holder, 2, now(daemon, holder, 1)->lock);
	}
	return passes;
}

static void
queue_up(int daemon, int count)
{
	hold(daemon, 1, 1);
	for (int i = 1; i <= count; i++)
		wait_for(daemon, 1000 + (uint64_t)i, 1);
	world_pass(world, SECOND);
}

START_TEST(after_the_limit_of_hand_offs_another_daemon_has_a_turn)
{
	int most = (int)world_settings.max_local_handoffs, passes;

	queue_up(0, 100);
	wait_for(1, 2, 1);
	world_pass(world, SECOND);
	/* The first hint comes back: this daemon joined the wait queue first. */
	passes = count_passes(0, 1, 100);
	ck_assert_int_eq(passes, most + 1 + most);
	ck_assert(world_b(world, "db", 1, 1));
	/* And then it is this daemon's again, in order. */
	lock_release(engine(1), 2, 2, now(1, 2, 1)->lock);
	ck_assert_uint_ne(world_await(world, 0, 1001 + (uint64_t)passes, 1)->lock, 0);
}
END_TEST

START_TEST(hand_offs_go_on_if_no_other_daemon_waits)
{
	queue_up(0, 100);
	ck_assert_int_eq(count_passes(0, 1, 99), 99);
	ck_assert(world_b(world, "db", 1, 0));
}
END_TEST

/*
 * Now and then the daemon withholds the slot, for clients that poll. If none claims it, the next waiter
 * gets it. The semaphore may have been a gate before.
 */
START_TEST(a_withheld_slot_that_no_poller_claims_goes_to_the_next_waiter)
{
	struct lock_change change = {.name = "db", .by = LOCK_SLOTS_TO};
	int opened = 0;

	if (_i == 1)
		lock_resize(engine(1), 77, 1, &change);
	world_pass(world, SECOND / 10);
	for (uint64_t peer = 1; peer <= 60; peer++)
		wait_for(0, peer, 1);
	world_pass(world, SECOND / 2);
	change.slots = 1;
	if (_i == 1)
		lock_resize(engine(1), 77, 2, &change);
	for (uint64_t peer = 1; peer < 60; peer++) {
		int64_t released, took;

		world_pass(world, 20 * MS);
		released = world->now;
		lock_release(engine(0), peer, 2, now(0, peer, 1)->lock);
		took = world_await(world, 0, peer + 1, 1)->at - released;
		ck_assert_int_le(took, world_settings.hint_grace + 8 * MS);
		opened += took >= world_settings.hint_grace;
	}
	ck_assert_int_ge(opened, 2);
}
END_TEST

START_TEST(a_poller_has_a_turn)
{
	uint64_t holder = 1;

	for (uint64_t peer = 1; peer <= 60; peer++)
		wait_for(0, peer, 1);
	world_pass(world, SECOND / 2);
	while (!memory_world_put(world->memory, "db-1-B", true)) {
		if (!is_waiting(0, holder, 1)) {
			lock_release(engine(0), holder, 2, now(0, holder, 1)->lock);
			ck_assert_uint_lt(++holder, 60);
		}
		ck_assert(world_step(world, 20 * MS));
	}
	world_pass(world, SECOND / 10);
	ck_assert(is_waiting(0, holder, 1));
	memory_world_remove(world->memory, "db-1-B");
	ck_assert_int_eq(world_await(world, 0, holder, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_daemon_that_gets_no_hint_is_not_awaited)
{
	queue_up(0, 100);
	wait_for(1, 2, 1);
	world_pass(world, SECOND);
	memory_world_block(world->memory, true);
	ck_assert_int_eq(count_passes(0, 1, 40), 40);
}
END_TEST

START_TEST(a_count_that_does_not_come_is_not_waited_for)
{
	queue_up(0, 100);
	wait_for(1, 2, 1);
	world_pass(world, SECOND);
	memory_broker_freeze(world->daemon[0].broker, BROKER_AUXILIARY);
	ck_assert_int_eq(count_passes(0, 1, 20), 20);
}
END_TEST

/* Two daemons under the same load have the same share. */
START_TEST(both_have_their_share)
{
	uint64_t request[2] = {1, 1};
	int grants[2] = {0, 0};

	world->delay = MS / 2;
	for (int daemon = 0; daemon < 2; daemon++) {
		for (uint64_t peer = 1; peer <= 20; peer++)
			wait_for(daemon, peer, request[daemon]);
	}
	while (grants[0] + grants[1] < 1000) {
		bool found = false;

		for (size_t i = 0; i < world->said_count && !found; i++) {
			const struct said said = world->said[i];

			if (said.notice || said.lock == 0 || said.request >= 1000000)
				continue;
			found = true;
			world->said_count = 0;
			grants[said.daemon]++;
			wait_for(said.daemon, said.peer, ++request[said.daemon]);
			lock_release(engine(said.daemon), said.peer, 1000000 + request[said.daemon],
			    said.lock);
		}
		if (!found)
			ck_assert(world_step(world, SECOND));
	}
	ck_assert_int_lt(abs(grants[0] - grants[1]), 100);
}
END_TEST

Suite *
suite_lock_handoff(void)
{
	Suite *suite = suite_create("lock: handoff");
	TCase *tc = tcase_create("handoff");

	tcase_add_checked_fixture(tc, world_begin_with_db, world_end);
	tcase_add_test(tc, a_slot_is_handed_off_at_once_and_b_is_kept);
	tcase_add_test(tc, a_hang_up_hands_all_of_it_on);
	tcase_add_test(tc, a_slot_unseen_for_a_second_is_checked_before_its_hand_off);
	tcase_add_test(tc, a_slot_that_is_gone_is_not_handed_off);
	tcase_add_test(tc, a_revoked_hold_is_not_handed_off);
	tcase_add_test(tc, a_hold_that_was_claimed_again_is_not_handed_off_unseen);
	tcase_add_test(tc, a_hold_whose_lease_is_nearly_over_is_not_handed_off);
	tcase_add_test(tc, a_hold_whose_lease_is_over_is_not_handed_off);
	tcase_add_test(tc, the_link_dies_while_it_is_on_its_way);
	tcase_add_loop_test(tc, the_next_waiter_leaves_and_the_one_behind_gets_it, 0, 3);
	tcase_add_test(tc, with_nobody_left_b_is_deleted);
	tcase_add_test(tc, in_order_of_priority_and_kind);
	tcase_add_test(tc, a_true_mutex_is_handed_off);
	tcase_add_test(tc, a_draining_daemon_hands_nothing_off);
	tcase_add_test(tc, a_waiter_over_its_limit_is_skipped);
	tcase_add_test(tc, b_is_checked_again_for_the_next_waiter);
	tcase_add_test(tc, after_the_limit_of_hand_offs_another_daemon_has_a_turn);
	tcase_add_test(tc, hand_offs_go_on_if_no_other_daemon_waits);
	tcase_add_loop_test(
	    tc, a_withheld_slot_that_no_poller_claims_goes_to_the_next_waiter, 0, 2);
	tcase_add_test(tc, a_poller_has_a_turn);
	tcase_add_test(tc, a_daemon_that_gets_no_hint_is_not_awaited);
	tcase_add_test(tc, a_count_that_does_not_come_is_not_waited_for);
	tcase_add_test(tc, both_have_their_share);
	suite_add_tcase(suite, tc);
	return suite;
}
