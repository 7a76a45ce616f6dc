/*
 * The limits of acquiring over the server in memory: locks and waits of a client, channels of the
 * link, and long local queues.
 */
#include "protocol/methods.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

/* An old version served a queue of 100,000 waiters in ten seconds, and sent no heartbeat meanwhile. */
START_TEST(a_long_local_queue_costs_no_more_than_its_length)
{
	struct lock_acquire wanted = {.name = "db",
	    .kind = LOCK_KIND_SEMAPHORE,
	    .timeout = DURATION_FOREVER,
	    .progress = true};
	const uint64_t silent = 100000;
	struct lock_counts counts;

	world_make(world, "db", 1);
	acquire(0, 1, 1, "db", TRY);
	for (uint64_t i = 0; i < silent; i++)
		world_acquire(world, 0, 2 + i / 1000, 1 + i % 1000, "db", DURATION_FOREVER);
	lock_acquire(engine(0), 200, 1, &wanted);
	wanted.priority = 1;
	lock_acquire(engine(0), 201, 1, &wanted);
	world_acquire(world, 0, 202, 1, "db", TRY);
	lock_acquire(engine(0), 203, 1, &wanted);
	ck_assert_int_eq(world_await(world, 0, 202, 1)->reason, REASON_WOULD_BLOCK);
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.waiting, silent + 3);
	for (size_t i = 0; i < world->said_count; i++) {
		const struct said *said = &world->said[i];

		if (said->notice && said->kind == LOCK_NOTICE_WAITING)
			ck_assert_int_eq(said->position, said->peer == 200   ? (int)silent + 3
							 : said->peer == 201 ? 1
									     : 2);
	}
	for (uint64_t peer = 200; peer <= 203; peer++)
		ck_assert_int_eq(
		    world_notices(world, 0, peer, LOCK_NOTICE_WAITING), peer != 202 ? 1 : 0);
}
END_TEST

/* Each of the second half went past the whole first half to find its place. */
START_TEST(a_long_local_queue_is_passed_at_once)
{
	struct lock_acquire wanted = {
	    .name = "db", .kind = LOCK_KIND_SEMAPHORE, .timeout = DURATION_FOREVER};
	const uint64_t each = 60000;
	uint64_t lock, first = 2 + each / 1000;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	for (uint64_t i = 0; i < 2 * each; i++) {
		wanted.priority = i < each ? -METHODS_PRIORITY_MOST : METHODS_PRIORITY_MOST;
		lock_acquire(engine(0), 2 + i / 1000, 1 + i % 1000, &wanted);
	}
	/* In order all the same, also when the last of a priority has left. */
	ck_assert(lock_cancel(engine(0), 1 + 2 * each / 1000, 1000));
	wanted.priority = METHODS_PRIORITY_MOST - 1;
	lock_acquire(engine(0), 1000, 1, &wanted);
	for (uint64_t peer = first; peer < 2 + 2 * each / 1000; peer++) {
		lock_release(engine(0), peer == first ? 1 : peer - 1, 2000, lock);
		lock = world_await(world, 0, peer, 1)->lock;
		ck_assert_uint_ne(lock, 0);
		for (uint64_t request = 2; request <= 1000; request++)
			lock_cancel(engine(0), peer, request);
		world->said_count = 0;
	}
	lock_release(engine(0), 1 + 2 * each / 1000, 2000, lock);
	ck_assert_int_eq(world_await(world, 0, 1000, 1)->reason, REASON_NONE);
	lock_release(engine(0), 1000, 2, world_answer(world, 0, 1000, 1)->lock);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(limits_are_kept_and_said)
{
	struct lock_settings settings = world_settings;

	settings.max_locks_per_connection = 2;
	settings.max_waits_per_connection = 2;
	lock_engine_set(engine(0), &settings);
	world_make(world, "db", 3);
	acquire(0, 1, 1, "db", TRY);
	acquire(0, 1, 2, "db", TRY);
	ck_assert_int_eq(acquire(0, 1, 3, "db", TRY)->reason, REASON_TOO_MANY_LOCKS);
	acquire(1, 1, 1, "db", TRY);
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_acquire(world, 0, 2, 2, "db", DURATION_FOREVER);
	ck_assert_int_eq(acquire(0, 2, 3, "db", TRY)->reason, REASON_TOO_MANY_WAITERS);
}
END_TEST

START_TEST(the_limit_of_locks_holds_for_acquires_sent_at_once)
{
	struct lock_settings settings = world_settings;
	int granted = 0, refused = 0;

	settings.max_locks_per_connection = 2;
	lock_engine_set(engine(0), &settings);
	world_make(world, "db", 9);
	for (uint64_t request = 1; request <= 6; request++)
		world_acquire(world, 0, 1, request, "db", request % 2 ? TRY : DURATION_FOREVER);
	for (uint64_t request = 1; request <= 6; request++) {
		enum reason reason = world_await(world, 0, 1, request)->reason;

		granted += reason == REASON_NONE;
		refused += reason == REASON_TOO_MANY_LOCKS;
	}
	ck_assert_int_eq(granted, 2);
	ck_assert_int_eq(refused, 4);
	ck_assert_int_eq(world_b_count(world), 2);
}
END_TEST

START_TEST(no_channel_left_is_too_many_locks)
{
	world_make(world, "big", 101);
	for (uint64_t i = 1; i <= 100; i++)
		ck_assert_int_eq(acquire(0, i, 1, "big", TRY)->reason, REASON_NONE);
	ck_assert_int_eq(acquire(0, 101, 1, "big", TRY)->reason, REASON_TOO_MANY_LOCKS);
	ck_assert_int_eq(world_b_count(world), 100);
}
END_TEST

START_TEST(a_newcomer_does_not_get_the_channel_of_a_hold_whose_channel_died)
{
	uint64_t lock;

	world_make(world, "big", 101);
	lock = acquire(0, 1, 1, "big", TRY)->lock;
	for (uint64_t i = 2; i <= 100; i++)
		ck_assert_int_eq(acquire(0, i, 1, "big", TRY)->reason, REASON_NONE);
	/* The verify that finds A gone costs the first hold its channel. */
	memory_world_remove(world->memory, "big-1-A");
	lock_verify(engine(0), 1, 2, lock, 1000);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_REVOKED);
	memory_world_put(world->memory, "big-1-A", false);
	ck_assert_int_eq(acquire(0, 101, 1, "big", TRY)->reason, REASON_TOO_MANY_LOCKS);
	lock_release(engine(0), 1, 3, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NONE);
}
END_TEST

Suite *
suite_lock_limits(void)
{
	Suite *suite = suite_create("lock: limits");
	TCase *tc = tcase_create("limits");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, a_long_local_queue_costs_no_more_than_its_length);
	tcase_add_test(tc, a_long_local_queue_is_passed_at_once);
	tcase_add_test(tc, limits_are_kept_and_said);
	tcase_add_test(tc, the_limit_of_locks_holds_for_acquires_sent_at_once);
	tcase_add_test(tc, no_channel_left_is_too_many_locks);
	tcase_add_test(tc, a_newcomer_does_not_get_the_channel_of_a_hold_whose_channel_died);
	suite_add_tcase(suite, tc);
	return suite;
}
