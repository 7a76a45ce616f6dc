/*
 * Evictions: an administrator ends a hold at a deadline.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/quorum_fixture.h"
#include "tests/unit/test_lock.h"

#define GRACE (10 * SECOND)

struct finder {
	uint64_t lock, waiter;
	bool evicted;
};

static void
find(void *ctx, const struct lock_row *row)
{
	struct finder *finder = ctx;

	if (row->lock != finder->lock)
		return;
	finder->waiter = row->waiter;
	finder->evicted = row->evicted;
}

/* The row of a hold of daemon 0. */
static struct finder
row_of(uint64_t lock)
{
	struct finder finder = {.lock = lock};

	lock_each_holding(engine(0), NULL, find, &finder);
	return finder;
}

static struct lock_eviction
in(int64_t grace)
{
	return (struct lock_eviction){
	    .deadline = world->now + grace, .uid = 0, .host = "admin", .why = "too long"};
}

static enum reason
evict(uint64_t waiter, int64_t grace)
{
	struct lock_eviction eviction = in(grace);

	return lock_evict(engine(0), waiter, &eviction);
}

static const struct said *
newest(uint64_t peer, enum lock_notice_kind kind)
{
	const struct said *found = NULL;

	for (size_t i = 0; i < world->said_count; i++) {
		const struct said *said = &world->said[i];

		if (said->notice && said->peer == peer && said->kind == kind)
			found = said;
	}
	ck_assert_ptr_nonnull(found);
	return found;
}

static int
told(uint64_t peer, enum lock_notice_kind kind)
{
	return world_notices(world, 0, peer, kind);
}

static uint64_t
hold(uint64_t peer)
{
	return acquire(0, peer, 1, "db", TRY)->lock;
}

/* ---- the deadline ---- */

START_TEST(a_holder_that_does_not_end_is_lost_at_the_deadline)
{
	uint64_t lock = hold(1);
	int64_t deadline = world->now + GRACE;

	ck_assert_int_eq(evict(row_of(lock).waiter, GRACE), REASON_NONE);
	ck_assert_int_eq(told(1, LOCK_NOTICE_EVICTED), 1);
	ck_assert_int_eq(newest(1, LOCK_NOTICE_EVICTED)->at, world->now);
	ck_assert(row_of(lock).evicted);
	wait_for(1, 2, 1);
	world_pass(world, deadline - world->now - 1);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 0);
	ck_assert(world_b(world, "db", 1, 0));
	world_pass(world, 1);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 1);
	ck_assert_str_eq(newest(1, LOCK_NOTICE_LOST)->text, "uid 0 on admin evicted it: too long");
	ck_assert_int_eq(world_await(world, 1, 2, 1)->reason, REASON_NONE);
	ck_assert_int_ge(now(1, 2, 1)->at, deadline);
	/* Its late release has nothing to release. */
	lock_release(engine(0), 1, 2, lock);
	ck_assert_int_eq(now(0, 1, 2)->reason, REASON_NOT_HELD);
}
END_TEST

START_TEST(a_hold_is_never_safe_beyond_the_deadline)
{
	uint64_t lock = hold(1);
	int64_t deadline = world->now + 5 * SECOND;

	evict(row_of(lock).waiter, 5 * SECOND);
	world_pass(world, SECOND);
	lock_verify(engine(0), 1, 2, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->safe_until, deadline);
}
END_TEST

/* The daemon was stopped, and neither its timer nor the answer has come when it goes on. */
START_TEST(a_verify_compares_the_deadline_with_a_fresh_clock)
{
	uint64_t lock = hold(1);

	evict(row_of(lock).waiter, 5 * SECOND);
	lock_verify(engine(0), 1, 2, lock, 0);
	world->now += 5 * SECOND;
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_LOST);
	world_pass(world, SECOND);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 1);
}
END_TEST

START_TEST(a_holder_that_releases_in_time_loses_nothing)
{
	uint64_t lock = hold(1);

	evict(row_of(lock).waiter, GRACE);
	release(0, 1, 2, lock);
	lock = acquire(0, 1, 3, "db", TRY)->lock;
	world_pass(world, 2 * GRACE);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 0);
	ck_assert(!row_of(lock).evicted);
}
END_TEST

START_TEST(a_grace_of_0_ends_the_hold_at_once)
{
	uint64_t lock = hold(1);

	evict(row_of(lock).waiter, 0);
	world_pass(world, 0);
	ck_assert_int_eq(told(1, LOCK_NOTICE_EVICTED), 1);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 1);
	ck_assert(newest(1, LOCK_NOTICE_EVICTED) < newest(1, LOCK_NOTICE_LOST));
}
END_TEST

START_TEST(a_second_eviction_never_puts_the_deadline_off)
{
	uint64_t lock = hold(1), waiter = row_of(lock).waiter;
	int64_t deadline = world->now + 5 * SECOND;

	evict(waiter, GRACE);
	ck_assert_int_eq(evict(waiter, 2 * GRACE), REASON_NONE);
	ck_assert_int_eq(evict(waiter, GRACE), REASON_NONE);
	ck_assert_int_eq(told(1, LOCK_NOTICE_EVICTED), 1);
	evict(waiter, 5 * SECOND);
	ck_assert_int_eq(told(1, LOCK_NOTICE_EVICTED), 2);
	world_pass(world, deadline - world->now - 1);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 0);
	world_pass(world, 3 * GRACE);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 1);
}
END_TEST

/* ---- the right holder ---- */

START_TEST(a_hand_off_ends_an_eviction)
{
	uint64_t lock = hold(1), waiter = row_of(lock).waiter;

	evict(waiter, GRACE);
	wait_for(0, 2, 1);
	world_pass(world, SECOND);
	lock_release(engine(0), 1, 2, lock);
	lock = world_await(world, 0, 2, 1)->lock;
	ck_assert(!row_of(lock).evicted);
	ck_assert_int_eq(evict(waiter, GRACE), REASON_NOT_HELD);
	world_pass(world, 2 * GRACE);
	ck_assert_int_eq(told(2, LOCK_NOTICE_LOST), 0);
	ck_assert(world_b(world, "db", 1, 0));
}
END_TEST

START_TEST(a_waiter_is_no_holder)
{
	struct lock_eviction eviction = in(GRACE);
	struct finder finder = {.lock = 0};

	hold(1);
	wait_for(0, 2, 1);
	lock_each(engine(0), "db", find, &finder);
	ck_assert_ptr_null(lock_holds(engine(0), finder.waiter));
	ck_assert_int_eq(lock_evict(engine(0), finder.waiter, &eviction), REASON_NOT_HELD);
	ck_assert_int_eq(lock_evict(engine(0), 999999, &eviction), REASON_NOT_HELD);
}
END_TEST

/* Also one without a slot, and one whose slot was removed. No other name is meant. */
START_TEST(all_holders_of_a_name_are_evicted)
{
	struct lock_eviction eviction = in(GRACE);
	struct finder finder = {.lock = 0};

	world_make(world, "other", 1);
	ck_assert_uint_ne(acquire(0, 4, 1, "other", TRY)->lock, 0);
	hold(1);
	wait_for(0, 2, 1);
	lock_each(engine(0), "db", find, &finder);
	ck_assert_int_eq(lock_admit(engine(0), finder.waiter), REASON_NONE);
	memory_world_put(world->memory, "db-G", false);
	memory_world_remove(world->memory, "db-1-A");
	world_pass(world, SECOND);
	ck_assert_int_eq(told(1, LOCK_NOTICE_REVOKED), 1);
	ck_assert_uint_eq(lock_evict_all(engine(0), "db", &eviction), 2);
	ck_assert_uint_eq(lock_evict_all(engine(0), "none", &eviction), 0);
	world_pass(world, GRACE + SECOND);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(told(2, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(told(4, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_b_count(world), 1);
}
END_TEST

/* ---- by quorum ---- */

/* A client that released in time costs no grace. One that perhaps works on costs T. */
START_TEST(by_quorum_the_end_is_clean_only_if_the_client_stopped)
{
	const struct said *mine, *next;
	int64_t deadline;

	make_slots(1);
	mine = take(0, 1, TRY);
	deadline = world->now + GRACE;
	ck_assert_int_eq(evict(row_of(mine->lock).waiter, GRACE), REASON_NONE);
	world_acquire(world, 1, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, GRACE - SECOND);
	if (_i == 0)
		lock_release(engine(0), 1, 9, mine->lock);
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), _i);
	ck_assert(_i == 0 || is_waiting(1, 2, 1));
	next = world_await(world, 1, 2, 1);
	ck_assert_uint_gt(next->fence, mine->fence);
	if (_i == 0)
		ck_assert_int_lt(next->at, deadline);
	else
		ck_assert_int_ge(next->at, deadline + T);
}
END_TEST

/* ---- the successor ---- */

START_TEST(the_successor_keeps_the_deadline)
{
	uint64_t lock = hold(1);
	int64_t deadline = world->now + GRACE;
	char why[128], *text;

	evict(row_of(lock).waiter, GRACE);
	ck_assert_int_eq(lock_state_version(engine(0)), 2);
	lock_freeze(engine(0), true);
	ck_assert(world_stills(world, 0));
	text = world_save(world, 0);
	/* The deadline may pass before the successor begins. */
	world->now += _i == 0 ? 0 : GRACE;
	ck_assert_msg(world_succeed(world, 0, text, why), "%s", why);
	free(text);
	ck_assert(row_of(lock).evicted);
	if (_i == 0) {
		world_pass(world, deadline - world->now - 1);
		ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 0);
	}
	world_pass(world, SECOND);
	ck_assert_int_eq(told(1, LOCK_NOTICE_EVICTED), 1);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 1);
}
END_TEST

START_TEST(a_frozen_engine_ends_no_hold)
{
	uint64_t lock = hold(1);

	ck_assert_int_eq(lock_state_version(engine(0)), 1);
	evict(row_of(lock).waiter, SECOND / 2);
	lock_freeze(engine(0), true);
	world_pass(world, SECOND);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 0);
	lock_freeze(engine(0), false);
	world_pass(world, SECOND);
	ck_assert_int_eq(told(1, LOCK_NOTICE_LOST), 1);
}
END_TEST

Suite *
suite_lock_evict(void)
{
	Suite *suite = suite_create("lock: evict");
	TCase *tcase = tcase_create("evict"), *quorum = tcase_create("evict_quorum");

	tcase_add_checked_fixture(tcase, world_begin_with_db, world_end);
	tcase_add_test(tcase, a_holder_that_does_not_end_is_lost_at_the_deadline);
	tcase_add_test(tcase, a_hold_is_never_safe_beyond_the_deadline);
	tcase_add_test(tcase, a_verify_compares_the_deadline_with_a_fresh_clock);
	tcase_add_test(tcase, a_holder_that_releases_in_time_loses_nothing);
	tcase_add_test(tcase, a_grace_of_0_ends_the_hold_at_once);
	tcase_add_test(tcase, a_second_eviction_never_puts_the_deadline_off);
	tcase_add_test(tcase, a_hand_off_ends_an_eviction);
	tcase_add_test(tcase, a_waiter_is_no_holder);
	tcase_add_test(tcase, all_holders_of_a_name_are_evicted);
	tcase_add_loop_test(tcase, the_successor_keeps_the_deadline, 0, 2);
	tcase_add_test(tcase, a_frozen_engine_ends_no_hold);
	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(quorum, world_begin, world_end);
	tcase_add_loop_test(quorum, by_quorum_the_end_is_clean_only_if_the_client_stopped, 0, 2);
	suite_add_tcase(suite, quorum);
	return suite;
}
