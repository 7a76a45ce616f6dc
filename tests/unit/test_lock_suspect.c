/*
 * Leases of holds by consumer, over the server in memory: the node of a holder queue falls silent.
 */
#include "tests/unit/consumer_fixture.h"
#include "tests/unit/test_lock.h"

#include <stdio.h>

/* The home of one B falls silent. Its hold has a lease of its own. */
START_TEST(the_lease_is_that_of_the_hold)
{
	int64_t until;

	consumer_make(1, 2);
	ck_assert(memory_world_set_home(world->memory, "db-2-B", 1));
	consumer_take(1, TRY);
	ck_assert_int_eq(consumer_take(2, TRY)->slot, 2);
	world_pass(world, HEARTBEAT);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	until = world->now + 2 * HEARTBEAT - MARGIN;
	while (consumer_notices(2, LOCK_NOTICE_LOST) == 0)
		world_pass(world, 10 * MS);
	ck_assert_int_eq(consumer_notices(2, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_le(world->now, until);
	ck_assert_int_gt(world->now, until - HEARTBEAT / 3 - SECOND);
	world_pass(world, 5 * HEARTBEAT);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_SUSPECT), 0);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(consumer_notices(2, LOCK_NOTICE_LOST), 1);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	ck_assert_int_eq(consumer_take(3, 20 * SECOND)->slot, 2);
}
END_TEST

static const struct said *
take_leased(uint64_t peer, uint64_t request, bool lease)
{
	struct lock_acquire wanted = {
	    .name = "db", .kind = LOCK_KIND_SEMAPHORE, .lease = lease, .uid = 1000};

	lock_acquire(engine(0), peer, request, &wanted);
	return world_await(world, 0, peer, request);
}

/* The lease that a peer was told last; 0: none. */
static int64_t
lease_told(uint64_t peer)
{
	int64_t told = 0;

	for (size_t i = 0; i < world->said_count; i++) {
		const struct said *said = &world->said[i];

		if (said->notice && said->peer == peer && said->kind == LOCK_NOTICE_LEASE)
			told = said->safe_until;
	}
	return told;
}

/* Two locks of one connection. The home of the second falls silent. */
START_TEST(a_suspect_hold_does_not_hold_up_the_others)
{
	int64_t until;

	consumer_make(1, 2);
	ck_assert(memory_world_set_home(world->memory, "db-2-B", 1));
	take_leased(1, 1, true);
	/* The client applies the lease to each lock of the connection. */
	ck_assert_int_eq(take_leased(1, 2, _i == 0)->slot, 2);
	world_pass(world, HEARTBEAT);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	until = world->now + 2 * HEARTBEAT - MARGIN;
	while (consumer_notices(1, LOCK_NOTICE_SUSPECT) == 0) {
		ck_assert_int_le(lease_told(1), until);
		world_pass(world, 10 * MS);
	}
	ck_assert_int_gt(lease_told(1), until);
	world_pass(world, SECOND);
	/* The lease of the second is told at once, though that of the first is longer. */
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	until = lease_told(1);
	world_pass(world, 10 * MS);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_RESTORED), 1);
	ck_assert_int_lt(lease_told(1), until);
	world_pass(world, HEARTBEAT);
	ck_assert_int_gt(lease_told(1), until);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
}
END_TEST

/* The lease that the client knows does not run out before the suspect lock is left out of it. */
START_TEST(a_large_margin_leaves_time_to_tell_the_others)
{
	consumer_settings.margin = 2 * HEARTBEAT / 3;
	lock_engine_set(engine(0), &consumer_settings);
	consumer_make(1, 2);
	ck_assert(memory_world_set_home(world->memory, "db-2-B", 1));
	take_leased(1, 1, true);
	world_pass(world, 2 * HEARTBEAT + _i * HEARTBEAT / 36);
	ck_assert_int_eq(take_leased(1, 2, true)->slot, 2);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	while (consumer_notices(1, LOCK_NOTICE_SUSPECT) == 0) {
		ck_assert_int_gt(lease_told(1), world->now);
		world_pass(world, 10 * MS);
	}
	ck_assert_int_gt(lease_told(1), world->now);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
}
END_TEST

/* Each reading of the clock takes a moment, so the lease ends between two of them in one case. */
START_TEST(a_claim_whose_lease_ends_costs_no_other_hold)
{
	const struct said *answer;

	consumer_settings.request_timeout = 3 * HEARTBEAT;
	lock_engine_set(engine(0), &consumer_settings);
	consumer_make(1, 2);
	ck_assert(memory_world_set_home(world->memory, "db-2-B", 1));
	consumer_take(1, TRY);
	answer = consumer_take(2, TRY);
	release(0, 2, 2, answer->lock);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	wait_for(0, 3, 1);
	world_pass(world, 2 * HEARTBEAT - MARGIN - _i * MS);
	ck_assert(is_waiting(0, 3, 1));
	world->tick = MS;
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	while (world_step(world, MS))
		;
	world->tick = 0;
	world_pass(world, SECOND);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_await(world, 0, 3, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(silence_for_a_moment_is_suspect_and_restored)
{
	consumer_make(1, 1);
	ck_assert(memory_world_set_home(world->memory, "db-1-B", 1));
	consumer_take(1, TRY);
	world_pass(world, HEARTBEAT);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	world_pass(world, HEARTBEAT + 2 * SECOND);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_SUSPECT), 1);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	world_pass(world, HEARTBEAT);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_RESTORED), 1);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
}
END_TEST

/* Holds whose leases begin a few ms apart. Each reading of the clock takes 1 ms. */
START_TEST(each_hold_is_told_suspect)
{
	consumer_make(1, 3);
	for (int slot = 1; slot <= 2; slot++) {
		char queue[16];

		snprintf(queue, sizeof(queue), "db-%d-B", slot);
		ck_assert(memory_world_set_home(world->memory, queue, 1));
	}
	ck_assert_int_eq(consumer_take(1, TRY)->slot, 1);
	world_pass(world, _i * MS);
	ck_assert_int_eq(consumer_take(2, TRY)->slot, 2);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	ck_assert_int_eq(consumer_take(3, TRY)->slot, 3);
	world_pass(world, HEARTBEAT - SECOND);
	world->tick = MS;
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(consumer_notices(2, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(consumer_notices(3, LOCK_NOTICE_SUSPECT), 0);
}
END_TEST

/* The daemon is late: it grants a lock after another hold became suspect, and before it knows. */
START_TEST(a_grant_does_not_hide_a_suspect_hold)
{
	struct lock_acquire wanted = {
	    .name = "mx", .kind = LOCK_KIND_MUTEX, .timeout = DURATION_FOREVER, .uid = 1000};
	int64_t suspect_at;

	consumer_settings.claim = BROKER_BY_CONSUMER;
	lock_engine_set(engine(0), &consumer_settings);
	consumer_make(1, 1);
	ck_assert(memory_world_set_home(world->memory, "db-1-B", 1));
	suspect_at = consumer_take(1, TRY)->safe_until + MARGIN - HEARTBEAT;
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	world_pass(world, HEARTBEAT - SECOND);
	release(0, 2, 2, consumer_take_mutex(0, 2, TRY)->lock);
	world->delay = 4 * MS;
	world_pass(world, suspect_at - 5 * MS - world->now);
	lock_acquire(engine(0), 3, 1, &wanted);
	world_pass(world, 3 * MS);
	world->now += 3 * MS;
	timers_run(world->timers);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_SUSPECT), 1);
}
END_TEST

/* The node of one holder queue, or the whole broker. */
START_TEST(a_silent_broker_is_suspect_after_a_heartbeat)
{
	consumer_make(1, 2);
	ck_assert(memory_world_set_home(world->memory, "db-2-B", 1));
	consumer_take(1, TRY);
	ck_assert_int_eq(consumer_take(2, TRY)->slot, 2);
	world_pass(world, HEARTBEAT);
	ck_assert_int_lt(lock_silence(engine(0)), HEARTBEAT / 2);
	if (_i == 0)
		memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	else
		world->silent = true;
	while (consumer_notices(2, LOCK_NOTICE_SUSPECT) == 0) {
		ck_assert_int_lt(lock_silence(engine(0)), HEARTBEAT);
		ck_assert(world_step(world, HEARTBEAT));
	}
	ck_assert_int_ge(lock_silence(engine(0)), HEARTBEAT);
	while (consumer_notices(2, LOCK_NOTICE_LOST) == 0)
		ck_assert(world_step(world, HEARTBEAT));
	/* The lost one does not count. Without the broker there is no connection. */
	ck_assert_int_lt(lock_silence(engine(0)), HEARTBEAT);
	ck_assert_int_eq(lock_silence(engine(0)) < 0, _i == 1);
	world->silent = false;
}
END_TEST

START_TEST(without_holds_the_broker_is_silent_if_no_byte_comes)
{
	world_pass(world, 5 * HEARTBEAT);
	/* Over memory no bytes come, and that is no silence. */
	ck_assert_int_eq(lock_silence(engine(0)), 0);
	release(0, 1, 2, consumer_take_mutex(0, 1, TRY)->lock);
	world_pass(world, 5 * HEARTBEAT);
	ck_assert_int_lt(lock_silence(engine(0)), HEARTBEAT);
}
END_TEST

Suite *
suite_lock_suspect(void)
{
	Suite *suite = suite_create("lock: suspect");
	TCase *tc = tcase_create("suspect");

	tcase_add_checked_fixture(tc, consumer_setup, world_end);
	tcase_add_test(tc, the_lease_is_that_of_the_hold);
	tcase_add_loop_test(tc, a_suspect_hold_does_not_hold_up_the_others, 0, 2);
	tcase_add_loop_test(tc, a_large_margin_leaves_time_to_tell_the_others, 0, 13);
	tcase_add_loop_test(tc, a_claim_whose_lease_ends_costs_no_other_hold, 0, 20);
	tcase_add_test(tc, silence_for_a_moment_is_suspect_and_restored);
	tcase_add_loop_test(tc, each_hold_is_told_suspect, 0, 20);
	tcase_add_test(tc, a_grant_does_not_hide_a_suspect_hold);
	tcase_add_loop_test(tc, a_silent_broker_is_suspect_after_a_heartbeat, 0, 2);
	tcase_add_test(tc, without_holds_the_broker_is_silent_if_no_byte_comes);
	suite_add_tcase(suite, tc);
	return suite;
}
