/*
 * The rescan, which covers all that is not told; and how slots are claimed while nothing can be
 * seen.
 */
#include <stdio.h>

#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

/* An answer takes 1 ms: a delete, a hint, a claim, and the addition of a loop's pass. */
#define SOON (8 * MS)

START_TEST(a_foreign_holder_that_tells_nobody_is_found)
{
	int64_t left;

	world_make(world, "db", 1);
	ck_assert(memory_world_put(world->memory, "db-1-B", true));
	for (uint64_t peer = 1; peer <= 100; peer++)
		wait_for(0, peer, 1);
	world_pass(world, 3 * SECOND);
	memory_world_remove(world->memory, "db-1-B");
	left = world->now;
	ck_assert_int_le(
	    world_await(world, 0, 1, 1)->at - left, world_settings.rescan_interval + SOON);
}
END_TEST

START_TEST(a_holder_that_is_killed_is_found)
{
	int64_t killed;

	world_make(world, "db", 1);
	acquire(1, 1, 1, "db", TRY);
	wait_for(0, 1, 1);
	world_pass(world, 3 * SECOND);
	killed = world->now;
	world_kill(world, 1);
	ck_assert_int_le(
	    world_await(world, 0, 1, 1)->at - killed, world_settings.rescan_interval + SOON);
}
END_TEST

static unsigned probed;

static void
count_probe(struct lock_world *of)
{
	(void)of;
	probed++;
}

START_TEST(a_thousand_waiters_cost_less_than_a_message_a_second)
{
	static const struct {
		const char *there;
		enum lock_kind kind;
	} of[] = {{"db-1-A", LOCK_KIND_SEMAPHORE}, {"db-G", LOCK_KIND_SEMAPHORE},
	    {"db-1-A", LOCK_KIND_MUTEX}};

	memory_world_put(world->memory, of[_i].there, false);
	memory_world_put(world->memory, "db-1-B", true);
	memory_world_put(world->memory, "db-M", true);
	for (uint64_t peer = 1; peer <= 1000; peer++)
		wait_as(0, peer, 1, of[_i].kind, 0);
	world_pass(world, SECOND);
	world->on_probe = count_probe;
	probed = world->asked = 0;
	world_pass(world, 100 * SECOND);
	ck_assert_uint_gt(probed, 15);
	ck_assert_uint_lt(probed, 100);
	/* Each flush of them is answered once; and nothing else is asked. */
	ck_assert_uint_le(world->asked, probed);
}
END_TEST

START_TEST(a_large_semaphore_is_scanned_in_parts)
{
	int64_t left;
	char b[32];

	world_make(world, "db", 600);
	for (int slot = 1; slot <= 600; slot++) {
		snprintf(b, sizeof(b), "db-%d-B", slot);
		memory_world_put(world->memory, b, true);
	}
	wait_for(0, 1, 1);
	world_pass(world, SECOND);
	world->on_probe = count_probe;
	probed = 0;
	world_pass(world, world_settings.rescan_interval);
	ck_assert_uint_le(probed, 2 * (256 + 2));
	for (int slot = 1; slot <= 600; slot++) {
		snprintf(b, sizeof(b), "db-%d-B", slot);
		memory_world_remove(world->memory, b);
	}
	left = world->now;
	ck_assert_int_le(
	    world_await(world, 0, 1, 1)->at - left, world_settings.rescan_interval + SOON);
}
END_TEST

/* A rescan sees 256 slots, from a random one on. */
START_TEST(any_slot_of_a_large_semaphore_is_found_in_time)
{
	char b[32];

	world_make(world, "db", 600);
	for (int slot = 1; slot <= 600; slot++) {
		snprintf(b, sizeof(b), "db-%d-B", slot);
		memory_world_put(world->memory, b, true);
	}
	wait_for(0, 1, 1);
	world_pass(world, SECOND);
	memory_world_remove(world->memory, "db-500-B");
	/* All of 40 rescans miss it with a probability of less than one in a thousand million. */
	world_pass(world, 40 * world_settings.rescan_interval);
	ck_assert_int_eq(now(0, 1, 1)->slot, 500);
}
END_TEST

START_TEST(a_try_of_a_large_full_semaphore_asks_for_each_slot_once)
{
	char b[32];

	world_make(world, "db", 1000);
	for (int slot = 1; slot <= 1000; slot++) {
		snprintf(b, sizeof(b), "db-%d-B", slot);
		memory_world_put(world->memory, b, true);
	}
	ck_assert_int_eq(acquire(0, 1, 1, "db", TRY)->reason, REASON_WOULD_BLOCK);
	world->on_probe = count_probe;
	probed = 0;
	ck_assert_int_eq(acquire(0, 1, 2, "db", TRY)->reason, REASON_WOULD_BLOCK);
	ck_assert_uint_le(probed, 1000 + 3);
	/* The last slot and the next one are among what it sees. */
	memory_world_remove(world->memory, "db-1000-B");
	ck_assert_int_eq(acquire(0, 1, 3, "db", TRY)->slot, 1000);
	memory_world_put(world->memory, "db-1001-A", false);
	ck_assert_int_eq(acquire(0, 2, 1, "db", TRY)->slot, 1001);
}
END_TEST

START_TEST(a_change_without_a_hint_is_found)
{
	static const char *const there[] = {"db-2-A", "db-U"};
	int64_t done;

	world_make(world, "db", 1);
	memory_world_put(world->memory, "db-1-B", true);
	wait_for(0, 1, 1);
	world_pass(world, SECOND);
	memory_world_put(world->memory, there[_i], false);
	done = world->now;
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_le(world->now - done, world_settings.rescan_interval + 2 * SOON);
}
END_TEST

START_TEST(a_gate_that_opened_without_a_hint_is_found)
{
	static const char *const there[] = {"db-1-A", "db-U", NULL};
	int64_t done;

	memory_world_put(world->memory, "db-G", false);
	wait_for(0, 1, 1);
	world_pass(world, SECOND);
	if (there[_i] != NULL)
		memory_world_put(world->memory, there[_i], false);
	memory_world_remove(world->memory, "db-G");
	done = world->now;
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason,
	    there[_i] != NULL ? REASON_NONE : REASON_NO_SUCH_LOCK);
	ck_assert_int_le(world->now - done, world_settings.rescan_interval + 2 * SOON);
}
END_TEST

/*
 * Or an auxiliary connection that does not come up: it is not waited for before slots are claimed,
 * whenever freed.
 */
START_TEST(while_nothing_can_be_seen_the_first_alone_claims)
{
	int64_t left;

	world_make(world, "db", 2);
	acquire(1, 1, 1, "db", TRY);
	acquire(1, 1, 2, "db", TRY);
	for (uint64_t peer = 1; peer <= 200; peer++)
		wait_for(0, peer, 1);
	world_pass(world, 3 * SECOND);
	if (_i == 0)
		memory_world_block(world->memory, true);
	else
		memory_broker_cut(
		    world->daemon[0].broker, BROKER_AUXILIARY, 0, 1000 * SECOND, "cut");
	world_pass(world, (10 + _i) * SECOND);
	world->asked = 0;
	world_pass(world, 100 * SECOND);
	/* Each time both slots. */
	ck_assert_uint_gt(world->asked, 2 * 20);
	ck_assert_uint_lt(world->asked, 6 * 30);
	world_kill(world, 1);
	left = world->now;
	for (uint64_t peer = 1; peer <= 2; peer++)
		ck_assert_int_le(world_await(world, 0, peer, 1)->at - left,
		    world_settings.rescan_interval + 2 * SOON);
	ck_assert(is_waiting(0, 3, 1));
}
END_TEST

START_TEST(a_shorter_interval_counts_for_present_waiters)
{
	struct lock_settings settings = world_settings;
	int64_t left;

	world_make(world, "db", 1);
	memory_world_put(world->memory, "db-1-B", true);
	wait_for(0, 1, 1);
	world_pass(world, SECOND / 2);
	settings.rescan_interval = SECOND / 5;
	lock_engine_set(engine(0), &settings);
	world_pass(world, SOON);
	memory_world_remove(world->memory, "db-1-B");
	left = world->now;
	ck_assert_int_le(world_await(world, 0, 1, 1)->at - left, settings.rescan_interval + SOON);
}
END_TEST

/* A scan without an answer has no outdated result. */
START_TEST(a_slot_freed_during_a_blind_scan_is_claimed_after_that_scan)
{
	struct lock_settings settings = world_settings;
	int64_t began = world->now;

	world_make(world, "db", 1);
	settings.max_local_handoffs = 0; /* or the slot would be handed off */
	lock_engine_set(engine(0), &settings);
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, -1, "cut");
	wait_for(0, 1, 1);
	world_pass(world, SECOND);
	wait_for(0, 2, 1);
	world_await(world, 0, 1, 1);
	world_pass(world, SECOND);
	release(0, 1, 2, now(0, 1, 1)->lock);
	ck_assert_int_le(
	    world_await(world, 0, 2, 1)->at - began, 2 * MEMORY_PROBE_TIMEOUT + 2 * SOON);
}
END_TEST

/* A claim in vain deletes the B that it made, which is no reason to claim it again. */
START_TEST(a_slot_that_is_not_there_is_not_claimed_again_and_again)
{
	bool is_there = _i % 2 == 1, is_cut = _i / 2 == 1;

	world_make(world, "db", is_there);
	if (is_there)
		acquire(1, 1, 1, "db", TRY);
	memory_world_block(world->memory, true);
	wait_for(0, 1, 1);
	world_pass(world, MS);
	if (is_cut)
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 100 * MS, "cut");
	world_pass(world, 10 * SECOND);
	ck_assert(is_waiting(0, 1, 1));
	world->asked = 0;
	world_pass(world, 100 * SECOND);
	/* Each time slot 1, its A, and the delete; where slot 1 is there, slot 2, too. */
	ck_assert_uint_gt(world->asked, 2 * 20);
	ck_assert_uint_lt(world->asked, 6 * 30);
}
END_TEST

Suite *
suite_lock_rescan(void)
{
	Suite *suite = suite_create("lock: rescan");
	TCase *tc = tcase_create("rescan");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, a_foreign_holder_that_tells_nobody_is_found);
	tcase_add_test(tc, a_holder_that_is_killed_is_found);
	tcase_add_loop_test(tc, a_thousand_waiters_cost_less_than_a_message_a_second, 0, 3);
	tcase_add_test(tc, a_large_semaphore_is_scanned_in_parts);
	tcase_add_test(tc, any_slot_of_a_large_semaphore_is_found_in_time);
	tcase_add_test(tc, a_try_of_a_large_full_semaphore_asks_for_each_slot_once);
	tcase_add_loop_test(tc, a_change_without_a_hint_is_found, 0, 2);
	tcase_add_loop_test(tc, a_gate_that_opened_without_a_hint_is_found, 0, 3);
	tcase_add_loop_test(tc, while_nothing_can_be_seen_the_first_alone_claims, 0, 10);
	tcase_add_test(tc, a_shorter_interval_counts_for_present_waiters);
	tcase_add_test(tc, a_slot_freed_during_a_blind_scan_is_claimed_after_that_scan);
	tcase_add_loop_test(tc, a_slot_that_is_not_there_is_not_claimed_again_and_again, 0, 4);
	suite_add_tcase(suite, tc);
	return suite;
}
