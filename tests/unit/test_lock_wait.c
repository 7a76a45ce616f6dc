/*
 * Waiting across daemons: places in the broker's wait queue, hints and who gets them, and the
 * moment for which a slot is left to others.
 */
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

/* An answer takes 1 ms: a delete, a hint, a claim, and the addition of a loop's pass. */
#define SOON (8 * MS)
/* The delete, one hint, the claim, and the addition of a loop's pass. */
#define ONE_HINT (4 * MS)

/* ---- hints ---- */

START_TEST(waiters_elsewhere_are_woken_in_order)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	for (uint64_t peer = 1; peer <= 3; peer++) {
		wait_for(1, peer, 1);
		world_pass(world, SECOND / 10);
	}
	release(0, 1, 2, lock);
	for (uint64_t peer = 1; peer <= 3; peer++) {
		int64_t released = world->now;
		const struct said *answer = world_await(world, 1, peer, 1);

		ck_assert_int_eq(answer->reason, REASON_NONE);
		ck_assert_int_le(answer->at - released, SOON);
		ck_assert(peer == 3 || is_waiting(1, peer + 1, 1));
		release(1, peer, 2, answer->lock);
	}
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 0);
}
END_TEST

/* The first hint comes back, as nobody waits. */
static uint64_t
release_in_vain_and_acquire(void)
{
	world_make(world, "db", 1);
	release(0, 1, 2, acquire(0, 1, 1, "db", TRY)->lock);
	world_pass(world, SOON);
	return acquire(0, 1, 3, "db", TRY)->lock;
}

START_TEST(a_hint_after_one_that_came_back_is_late)
{
	uint64_t lock = release_in_vain_and_acquire();
	int64_t released = world->now, got;

	wait_for(1, 1, 1);
	world_pass(world, SOON);
	release(0, 1, 4, lock);
	got = world_await(world, 1, 1, 1)->at;
	ck_assert_int_gt(got - released, SOON);
	ck_assert_int_le(got - released, 20 * MS + SOON);
}
END_TEST

START_TEST(a_hint_that_is_late_is_sent_when_the_daemon_stops_or_freezes)
{
	uint64_t lock = release_in_vain_and_acquire();
	int64_t stopped;

	wait_for(1, 1, 1);
	world_pass(world, SOON);
	release(0, 1, 4, lock);
	stopped = world->now;
	if (_i == 0)
		lock_drain(engine(0));
	else
		lock_freeze(engine(0), true);
	ck_assert_int_lt(world_await(world, 1, 1, 1)->at - stopped, ONE_HINT);
}
END_TEST

/* This client has the lock again before a hint is due, again and again. */
START_TEST(a_client_that_comes_again_and_again_lets_a_waiter_in)
{
	uint64_t lock = release_in_vain_and_acquire(), request = 3;
	int64_t began = world->now;

	wait_for(1, 1, 1);
	while (is_waiting(1, 1, 1)) {
		const struct said *again;

		world_pass(world, SOON);
		release(0, 1, ++request, lock);
		again = acquire(0, 1, ++request, "db", TRY);
		lock = again->lock;
		if (again->reason != REASON_NONE)
			break;
	}
	ck_assert_int_eq(world_await(world, 1, 1, 1)->reason, REASON_NONE);
	ck_assert_int_le(world->now - began, 20 * MS + 3 * SOON);
}
END_TEST

START_TEST(one_place_for_each_priority_however_many_wait)
{
	world_make(world, "db", 1);
	acquire(0, 1, 1, "db", TRY);
	for (uint64_t i = 0; i < 1000; i++)
		wait_as(1, 1 + i, 1, LOCK_KIND_SEMAPHORE, i % 2 == 0 ? 0 : 5);
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 2);
	for (uint64_t i = 0; i < 1000; i++)
		lock_peer_gone(engine(1), 1 + i);
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 0);
}
END_TEST

START_TEST(the_highest_priority_is_woken_first_across_daemons)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	wait_as(1, 1, 1, LOCK_KIND_SEMAPHORE, 0);
	world_pass(world, SECOND);
	wait_as(2, 1, 1, LOCK_KIND_SEMAPHORE, 7);
	world_pass(world, SECOND);
	release(0, 1, 2, lock);
	lock = world_await(world, 2, 1, 1)->lock;
	ck_assert(is_waiting(1, 1, 1));
	release(2, 1, 2, lock);
	ck_assert_uint_ne(world_await(world, 1, 1, 1)->lock, 0);
}
END_TEST

START_TEST(a_true_mutex_has_a_wait_queue_of_its_own)
{
	struct lock_acquire wanted = {.name = "db", .kind = LOCK_KIND_MUTEX};
	int64_t released;

	world_make(world, "db", 1);
	acquire(1, 9, 1, "db", TRY);
	wait_for(2, 9, 1); /* of the semaphore of that name */
	lock_acquire(engine(0), 1, 1, &wanted);
	world_await(world, 0, 1, 1);
	wait_as(1, 1, 1, LOCK_KIND_MUTEX, 0);
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-M-W"), 1);
	released = world->now;
	release(0, 1, 2, world_answer(world, 0, 1, 1)->lock);
	ck_assert_int_le(world_await(world, 1, 1, 1)->at - released, SOON);
	ck_assert(is_waiting(2, 9, 1));
}
END_TEST

START_TEST(a_hint_to_a_daemon_without_waiters_goes_to_the_next)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	wait_for(1, 1, 1);
	world_pass(world, SECOND);
	wait_for(2, 1, 1);
	world_pass(world, SECOND);
	/* The next waiter has just left, and its daemon keeps the place for a moment. */
	ck_assert(lock_cancel(engine(1), 1, 1));
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 2);
	lock_release(engine(0), 1, 2, lock);
	ck_assert_int_le(world_await(world, 2, 1, 1)->at - world->now, SOON);
	ck_assert_int_eq(world_answer(world, 2, 1, 1)->reason, REASON_NONE);
	ck_assert_int_lt(
	    world_answer(world, 2, 1, 1)->at - world_answer(world, 0, 1, 2)->at, 2 * SOON);
}
END_TEST

/* To and fro, so that each has a place in the wait queue from its last wait. */
START_TEST(the_daemon_that_frees_a_slot_gets_no_hint_of_it)
{
	const struct said *answer;
	int64_t released;

	world_make(world, "db", 1);
	answer = acquire(0, 1, 1, "db", TRY);
	for (uint64_t i = 0; i < 6; i++) {
		int from = (int)(i % 2), to = 1 - from;

		wait_for(to, 1, 10 + 2 * i);
		world_pass(world, SECOND / 20);
		lock_release(engine(from), 1, 11 + 2 * i, answer->lock);
		released = world->now;
		answer = world_await(world, to, 1, 10 + 2 * i);
		ck_assert_int_eq(answer->reason, REASON_NONE);
		ck_assert_int_le(answer->at - released, ONE_HINT);
	}
}
END_TEST

/*
 * A slot goes to and fro between two daemons, faster than a waiting daemon may pass hints on. The
 * daemon between them gets each hint, and has just left.
 */
START_TEST(a_daemon_that_leaves_the_wait_queue_forwards_every_hint)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	for (uint64_t i = 1; i <= 6; i++) {
		int from = i % 2 == 1 ? 0 : 2, to = 2 - from;

		/* It is first in the wait queue. */
		wait_for(1, 1, i);
		world_pass(world, 5 * MS);
		wait_for(to, 1, 10 + i);
		world_pass(world, 5 * MS);
		ck_assert(lock_cancel(engine(1), 1, i));
		release(from, 1, 20 + i, lock);
		lock = world_await(world, to, 1, 10 + i)->lock;
		ck_assert_int_lt(now(to, 1, 10 + i)->at - now(from, 1, 20 + i)->at, SOON);
	}
}
END_TEST

START_TEST(a_hint_is_owed_while_the_auxiliary_connection_is_away)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	wait_for(1, 1, 1);
	world_pass(world, SECOND);
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, -1, "cut");
	release(0, 1, 2, lock);
	world_pass(world, SECOND / 10);
	ck_assert(is_waiting(1, 1, 1));
	memory_broker_restore(world->daemon[0].broker, BROKER_AUXILIARY);
	ck_assert_int_lt(
	    world_await(world, 1, 1, 1)->at - world_answer(world, 0, 1, 2)->at, SECOND / 2);
}
END_TEST

/* A slot that was freed before the consumer was placed has no hint: the daemon scans once more. */
START_TEST(freed_between_the_scan_and_the_place_in_the_wait_queue)
{
	world_make(world, "db", 1);
	for (int steps = 0; steps < 12; steps++) {
		uint64_t lock = acquire(0, 1, 10 + (uint64_t)steps, "db", TRY)->lock;

		wait_for(1, 1, 10 + (uint64_t)steps);
		for (int i = 0; i < steps; i++)
			world_step(world, 10 * MS);
		lock_release(engine(0), 1, 100 + (uint64_t)steps, lock);
		ck_assert_int_lt(world_await(world, 1, 1, 10 + (uint64_t)steps)->at -
				     world_await(world, 0, 1, 100 + (uint64_t)steps)->at,
		    2 * SOON);
		lock_peer_gone(engine(1), 1);
		world_pass(world, SECOND);
		world->said_count = 0;
	}
}
END_TEST

START_TEST(a_slot_that_came_back_is_told_when_its_old_holder_is_gone)
{
	uint64_t lock;
	int64_t released;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	world_pass(world, SECOND);
	ck_assert(memory_world_remove(world->memory, "db-1-A"));
	world_pass(world, SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	world_make(world, "db", 1);
	wait_for(1, 1, 1);
	world_pass(world, SECOND);
	ck_assert(is_waiting(1, 1, 1));
	released = world->now;
	release(0, 1, 2, lock);
	ck_assert_int_le(world_await(world, 1, 1, 1)->at - released, 2 * SOON);
}
END_TEST

/* The former holder has sent its hint before this daemon knows of its hold. */
START_TEST(a_hint_before_the_answer_of_a_claim_in_vain_is_not_lost)
{
	bool gone = _i == 1;
	int64_t heard;

	world_make(world, "db", 1);
	ck_assert(memory_world_put(world->memory, "db-1-B", true));
	wait_as(0, 1, 1, LOCK_KIND_SEMAPHORE, 5);
	wait_for(1, 1, 1);
	world_pass(world, SECOND / 5);
	memory_broker_block(world->daemon[0].broker, BROKER_LOCKS, MEMORY_IN);
	broker_wait_queue_wake(world->daemon[2].broker, "db-W", 1);
	world_pass(world, SECOND / 10);
	memory_world_remove(world->memory, "db-1-B");
	broker_wait_queue_wake(world->daemon[2].broker, "db-W", 1);
	world_pass(world, SECOND / 10);
	/* If the waiter is gone, the hint goes to the next daemon. */
	if (gone)
		lock_peer_gone(engine(0), 1);
	memory_broker_block(world->daemon[0].broker, BROKER_LOCKS, 0);
	heard = world->now;
	ck_assert_int_le(world_await(world, gone ? 1 : 0, 1, 1)->at - heard, SOON);
	ck_assert(gone || is_waiting(1, 1, 1));
}
END_TEST

/*
 * Daemon 0 gets the hint, but has given the slot up: its claim was not answered in time, and may
 * never be.
 */
START_TEST(a_hint_of_a_slot_whose_claim_is_late_goes_to_the_next)
{
	uint64_t lock;

	world_make(world, "db", 1);
	release(0, 1, 2, acquire(0, 1, 1, "db", TRY)->lock);
	world_pass(world, SECOND);
	lock = acquire(1, 1, 1, "db", TRY)->lock;
	world->delay = 60 * SECOND;
	wait_for(0, 2, 1);
	world_pass(world, 0);
	world->delay = MS;
	world_pass(world, world_settings.request_timeout + SECOND);
	wait_for(2, 1, 1);
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 2);
	release(1, 1, 2, lock);
	world_pass(world, SOON);
	ck_assert_int_eq(now(2, 1, 1)->reason, REASON_NONE);
	ck_assert(is_waiting(0, 2, 1));
}
END_TEST

/* A hint alone grants nothing: another client holds the slot. */
START_TEST(a_hint_of_a_slot_that_is_taken_grants_nothing)
{
	world_make(world, "db", 1);
	acquire(0, 1, 1, "db", TRY);
	wait_for(1, 1, 1);
	world_pass(world, SECOND);
	broker_wait_queue_wake(world->daemon[2].broker, "db-W", 1);
	broker_wait_queue_wake(world->daemon[2].broker, "db-W", 9);
	broker_wait_queue_wake(world->daemon[2].broker, "db-W", 0);
	world_pass(world, SECOND);
	ck_assert(is_waiting(1, 1, 1));
	ck_assert(world_b(world, "db", 1, 0));
	ck_assert_int_eq(world_b_count(world), 1);
}
END_TEST

/* ---- administrators ---- */

static void
resize(int daemon, uint64_t request, int slots)
{
	struct lock_change change = {.name = "db", .by = LOCK_SLOTS_TO, .slots = slots};

	lock_resize(engine(daemon), 77, request, &change);
	ck_assert_int_eq(world_await(world, daemon, 77, request)->reason, REASON_NONE);
}

START_TEST(added_slots_an_opened_gate_and_unlimited_are_told)
{
	static const int sizes[] = {3, 3, LOCK_UNLIMITED};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t request = 10 * (i + 1);
		struct lock_change gone = {.name = "db"};
		int64_t done;

		world_make(world, "db", 1);
		acquire(0, 1, request, "db", TRY);
		if (i == 1)
			resize(2, request, 0);
		wait_for(0, 2, request);
		wait_for(1, 2, request);
		world_pass(world, SECOND);
		ck_assert(is_waiting(0, 2, request) && is_waiting(1, 2, request));
		resize(2, request + 1, sizes[i]);
		done = world->now;
		ck_assert_int_le(world_await(world, 0, 2, request)->at - done, 3 * SOON);
		ck_assert_int_le(world_await(world, 1, 2, request)->at - done, 3 * SOON);
		for (uint64_t peer = 1; peer <= 2; peer++) {
			lock_peer_gone(engine(0), peer);
			lock_peer_gone(engine(1), peer);
		}
		lock_destroy(engine(2), 77, request + 2, &gone);
		world_pass(world, SECOND);
		world->said_count = 0;
	}
}
END_TEST

START_TEST(a_waiter_elsewhere_hears_that_it_is_destroyed)
{
	struct lock_change change = {.name = "db"};

	world_make(world, "db", 1);
	acquire(0, 1, 1, "db", TRY);
	wait_for(0, 2, 1);
	wait_for(1, 2, 1);
	world_pass(world, SECOND);
	lock_destroy(engine(2), 77, 1, &change);
	world_await(world, 2, 77, 1);
	world_pass(world, 3 * SOON);
	ck_assert_int_eq(world_answer(world, 0, 2, 1)->reason, REASON_NO_SUCH_LOCK);
	ck_assert_int_eq(world_answer(world, 1, 2, 1)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

/* ---- the moment for which a slot is left to others ---- */

START_TEST(a_newcomer_here_does_not_overtake_a_woken_waiter_elsewhere)
{
	world_make(world, "db", 1);
	world->delay = MS / 2;
	for (uint64_t i = 1; i <= 20; i++) {
		uint64_t lock = acquire(0, 1, 100 * i, "db", DURATION_FOREVER)->lock;

		wait_for(1, 1, 100 * i);
		world_pass(world, SECOND);
		lock_release(engine(0), 1, 100 * i + 1, lock);
		while (is_waiting(0, 1, 100 * i + 1))
			world_step(world, SECOND);
		/* From now on B is free, and a daemon here knows it first. */
		world_acquire(world, 0, 2, 100 * i, "db", i % 2 == 0 ? TRY : DURATION_FOREVER);
		lock = world_await(world, 1, 1, 100 * i)->lock;
		ck_assert_uint_ne(lock, 0);
		if (i % 2 == 0) {
			ck_assert_int_eq(
			    world_await(world, 0, 2, 100 * i)->reason, REASON_WOULD_BLOCK);
			release(1, 1, 100 * i + 1, lock);
		} else {
			release(1, 1, 100 * i + 1, lock);
			ck_assert_uint_ne(world_await(world, 0, 2, 100 * i)->lock, 0);
		}
		lock_peer_gone(engine(0), 2);
		world_pass(world, SECOND);
		world->said_count = 0;
	}
}
END_TEST

/* The same for a slot that was removed and added again. It is probed before. */
START_TEST(nor_of_a_slot_that_has_come_back)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	world_pass(world, SECOND);
	memory_world_remove(world->memory, "db-1-A");
	world_pass(world, SECOND);
	world_make(world, "db", 1);
	wait_for(1, 1, 1);
	world_pass(world, SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	lock_release(engine(0), 1, 2, lock);
	while (is_waiting(0, 1, 2))
		world_step(world, SECOND);
	/* The client waits for its own scan, and learns of the slot then. */
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	ck_assert_uint_ne(world_await(world, 1, 1, 1)->lock, 0);
	ck_assert(is_waiting(0, 2, 1));
}
END_TEST

/*
 * Where nobody waits elsewhere the hint is returned, and a name used by one process is not slowed
 * down.
 */
START_TEST(without_waiters_no_slot_is_withheld)
{
	uint64_t lock;
	int64_t released;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	for (uint64_t i = 1; i <= 10; i++) {
		release(0, 1, 2 * i, lock);
		released = world->now;
		lock = acquire(0, 1, 2 * i + 1, "db", i % 2 == 0 ? TRY : SECOND)->lock;
		ck_assert_uint_ne(lock, 0);
		/* the return of the hint, and the flight */
		ck_assert_int_le(world->now - released, 2 * world->delay + MS / 10);
	}
}
END_TEST

START_TEST(a_slot_that_is_not_claimed_in_time_goes_to_any_waiter)
{
	uint64_t lock;
	int64_t released;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	wait_for(1, 1, 1);
	world_pass(world, SECOND);
	/* It gets the hint, but cannot read it. */
	memory_broker_freeze(world->daemon[1].broker, BROKER_AUXILIARY);
	release(0, 1, 2, lock);
	released = world->now;
	ck_assert_uint_ne(acquire(0, 2, 1, "db", SECOND)->lock, 0);
	ck_assert_int_ge(world->now - released, world_settings.hint_grace - 2 * MS);
	ck_assert_int_le(world->now - released, world_settings.hint_grace + 2 * SOON);
}
END_TEST

/* The daemon that got the hint forwarded it to none. This one does not know of that. */
START_TEST(a_newcomer_in_that_moment_gets_the_unwanted_slot)
{
	uint64_t lock;
	int64_t came;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	/* Long enough that this daemon's knowledge is old. */
	world_pass(world, 2 * world_settings.rescan_interval);
	wait_for(1, 1, 1);
	world_pass(world, SECOND);
	ck_assert(lock_cancel(engine(1), 1, 1));
	lock_release(engine(0), 1, 2, lock);
	world_pass(world, _i * MS / 2);
	wait_for(0, 2, 1);
	came = world->now;
	ck_assert_int_le(world_await(world, 0, 2, 1)->at - came, 3 * SOON);
}
END_TEST

/* ---- the links ---- */

START_TEST(the_wait_queue_is_left_and_joined_anew_with_the_links)
{
	uint64_t lock;
	int64_t released;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	wait_for(1, 1, 1);
	world_pass(world, SECOND);
	memory_broker_cut(world->daemon[1].broker, BROKER_LOCKS, 0, -1, "cut");
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 0);
	memory_broker_restore(world->daemon[1].broker, BROKER_LOCKS);
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 1);
	memory_broker_cut(world->daemon[1].broker, BROKER_AUXILIARY, 0, 100 * MS, "cut");
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 1);
	released = world->now;
	release(0, 1, 2, lock);
	ck_assert_int_le(world_await(world, 1, 1, 1)->at - released, SOON);
}
END_TEST

Suite *
suite_lock_wait(void)
{
	Suite *suite = suite_create("lock: wait");
	TCase *tc = tcase_create("wait");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, waiters_elsewhere_are_woken_in_order);
	tcase_add_test(tc, a_hint_after_one_that_came_back_is_late);
	tcase_add_loop_test(tc, a_hint_that_is_late_is_sent_when_the_daemon_stops_or_freezes, 0, 2);
	tcase_add_test(tc, a_client_that_comes_again_and_again_lets_a_waiter_in);
	tcase_add_test(tc, one_place_for_each_priority_however_many_wait);
	tcase_add_test(tc, the_highest_priority_is_woken_first_across_daemons);
	tcase_add_test(tc, a_true_mutex_has_a_wait_queue_of_its_own);
	tcase_add_test(tc, a_hint_to_a_daemon_without_waiters_goes_to_the_next);
	tcase_add_test(tc, the_daemon_that_frees_a_slot_gets_no_hint_of_it);
	tcase_add_test(tc, a_daemon_that_leaves_the_wait_queue_forwards_every_hint);
	tcase_add_test(tc, a_hint_is_owed_while_the_auxiliary_connection_is_away);
	tcase_add_test(tc, freed_between_the_scan_and_the_place_in_the_wait_queue);
	tcase_add_test(tc, a_slot_that_came_back_is_told_when_its_old_holder_is_gone);
	tcase_add_loop_test(tc, a_hint_before_the_answer_of_a_claim_in_vain_is_not_lost, 0, 2);
	tcase_add_test(tc, a_hint_of_a_slot_whose_claim_is_late_goes_to_the_next);
	tcase_add_test(tc, a_hint_of_a_slot_that_is_taken_grants_nothing);
	tcase_add_test(tc, added_slots_an_opened_gate_and_unlimited_are_told);
	tcase_add_test(tc, a_waiter_elsewhere_hears_that_it_is_destroyed);
	tcase_add_test(tc, a_newcomer_here_does_not_overtake_a_woken_waiter_elsewhere);
	tcase_add_test(tc, nor_of_a_slot_that_has_come_back);
	tcase_add_test(tc, without_waiters_no_slot_is_withheld);
	tcase_add_test(tc, a_slot_that_is_not_claimed_in_time_goes_to_any_waiter);
	tcase_add_loop_test(tc, a_newcomer_in_that_moment_gets_the_unwanted_slot, 0, 16);
	tcase_add_test(tc, the_wait_queue_is_left_and_joined_anew_with_the_links);
	suite_add_tcase(suite, tc);
	return suite;
}
