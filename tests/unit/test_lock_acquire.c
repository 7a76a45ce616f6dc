/*
 * Acquire and release over the server in memory: granted and refused requests, and the queues that
 * are left.
 */
#include "daemon/lock/engine.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

START_TEST(a_free_slot_is_granted_and_its_b_is_ours)
{
	const struct said *answer;

	world_make(world, "db", 3);
	answer = acquire(0, 1, 1, "db", TRY);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_uint_ne(answer->lock, 0);
	ck_assert(world_b(world, "db", 1, 0));
	answer = acquire(1, 1, 1, "db", TRY);
	ck_assert_int_eq(answer->slot, 2);
	ck_assert(world_b(world, "db", 2, 1));
}
END_TEST

START_TEST(a_name_without_slots_is_no_lock)
{
	ck_assert_int_eq(acquire(0, 1, 1, "nix", TRY)->reason, REASON_NO_SUCH_LOCK);
	ck_assert_int_eq(acquire(0, 1, 2, "nix", 5 * SECOND)->reason, REASON_NO_SUCH_LOCK);
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

START_TEST(slots_above_a_gap_do_not_exist)
{
	world_make(world, "db", 3);
	ck_assert(memory_world_remove(world->memory, "db-2-A"));
	ck_assert_int_eq(acquire(0, 1, 1, "db", TRY)->slot, 1);
	ck_assert_int_eq(acquire(0, 1, 2, "db", TRY)->reason, REASON_WOULD_BLOCK);
}
END_TEST

START_TEST(full_is_said_with_size_and_busy_slots)
{
	const struct said *answer;

	world_make(world, "db", 2);
	acquire(0, 1, 1, "db", TRY);
	acquire(1, 1, 1, "db", TRY);
	answer = acquire(0, 2, 1, "db", TRY);
	ck_assert_int_eq(answer->reason, REASON_WOULD_BLOCK);
	ck_assert_int_eq(answer->slots, 2);
	ck_assert_int_eq(answer->busy, 2);
	ck_assert_int_eq(answer->waiting, 0);
}
END_TEST

START_TEST(more_slots_than_one_window_are_all_found)
{
	world_make(world, "big", 60);
	for (uint64_t i = 1; i <= 60; i++)
		ck_assert_int_eq(acquire(0, i, 1, "big", TRY)->reason, REASON_NONE);
	ck_assert_int_eq(acquire(0, 61, 1, "big", TRY)->reason, REASON_WOULD_BLOCK);
	ck_assert_int_eq(world_b_count(world), 60);
	/* ... and by a daemon that scans them all at once */
	for (uint64_t i = 1; i <= 60; i++)
		lock_peer_gone(engine(0), i);
	world_pass(world, SECOND);
	for (uint64_t i = 1; i <= 61; i++)
		world_acquire(world, 1, i, 1, "big", TRY);
	for (uint64_t i = 1; i <= 60; i++)
		ck_assert_int_eq(world_await(world, 1, i, 1)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 1, 61, 1)->reason, REASON_WOULD_BLOCK);
}
END_TEST

START_TEST(release_is_answered_when_b_is_gone)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	lock_release(engine(0), 1, 2, lock);
	while (world_answer(world, 0, 1, 2) == NULL) {
		ck_assert(world_step(world, SECOND));
	}
	ck_assert_int_eq(world_answer(world, 0, 1, 2)->reason, REASON_NONE);
	ck_assert(!world_b(world, "db", 1, -1));
	lock_release(engine(0), 1, 3, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NOT_HELD);
}
END_TEST

START_TEST(only_the_holder_releases)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	lock_release(engine(0), 2, 1, lock);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NOT_HELD);
	ck_assert(world_b(world, "db", 1, 0));
}
END_TEST

START_TEST(two_clients_of_one_daemon_never_share_a_slot)
{
	int granted = 0;

	/* RabbitMQ lets the link declare its own B twice: only the reservation keeps them apart. */
	world_make(world, "db", 1);
	for (uint64_t peer = 1; peer <= 5; peer++)
		world_acquire(world, 0, peer, 1, "db", TRY);
	for (uint64_t peer = 1; peer <= 5; peer++)
		granted += world_await(world, 0, peer, 1)->reason == REASON_NONE;
	ck_assert_int_eq(granted, 1);
}
END_TEST

START_TEST(a_slot_is_reserved_until_delete_ok)
{
	uint64_t lock;
	const struct said *answer;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	/*
	 * The delete takes its time; a claim of the same slot on another channel would overtake it.
	 */
	world->delay = 100 * NSEC_PER_MSEC;
	lock_release(engine(0), 1, 2, lock);
	world->delay = NSEC_PER_MSEC;
	world_acquire(world, 0, 2, 1, "db", 30 * SECOND);
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_ptr_nonnull(world_answer(world, 0, 1, 2));
	ck_assert_int_ge(answer->at, world_answer(world, 0, 1, 2)->at);
	ck_assert_msg(world_b(world, "db", 1, 0), "granted, and no B");
	world_pass(world, SECOND);
	ck_assert_msg(world_b(world, "db", 1, 0), "granted, and B is gone");
}
END_TEST

START_TEST(a_waiter_gets_what_is_released_here)
{
	uint64_t lock;
	const struct said *answer;

	world_make(world, "db", 1);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 2, 1));
	lock_release(engine(0), 1, 2, lock);
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_lt(answer->at - world_answer(world, 0, 1, 2)->at, SECOND / 10);
}
END_TEST

START_TEST(a_waiter_gets_what_is_released_elsewhere)
{
	uint64_t lock;
	int64_t released;

	world_make(world, "db", 1);
	lock = acquire(1, 1, 1, "db", TRY)->lock;
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	lock_release(engine(1), 1, 2, lock);
	released = world_await(world, 1, 1, 2)->at;
	ck_assert_int_lt(
	    world_await(world, 0, 2, 1)->at - released, world_settings.rescan_interval + SECOND);
}
END_TEST

START_TEST(waiters_go_in_order_within_priority)
{
	uint64_t lock, order[4];
	size_t count = 0;

	world_make(world, "db", 1);
	lock = acquire(0, 9, 1, "db", TRY)->lock;
	for (uint64_t peer = 1; peer <= 4; peer++) {
		struct lock_acquire wanted = {.name = "db",
		    .kind = LOCK_KIND_SEMAPHORE,
		    .timeout = DURATION_FOREVER,
		    .priority = peer >= 3 ? 10 : 0};

		lock_acquire(engine(0), peer, 1, &wanted);
	}
	world_pass(world, SECOND);
	lock_release(engine(0), 9, 2, lock);
	while (count < 4) {
		ck_assert(world_step(world, 60 * SECOND));
		for (uint64_t peer = 1; peer <= 4; peer++) {
			const struct said *answer = world_answer(world, 0, peer, 1);
			bool seen = answer == NULL;

			for (size_t i = 0; i < count; i++)
				seen |= order[i] == peer;
			if (seen)
				continue;
			order[count++] = peer;
			lock_release(engine(0), peer, 2, answer->lock);
		}
	}
	ck_assert_uint_eq(order[0], 3);
	ck_assert_uint_eq(order[1], 4);
	ck_assert_uint_eq(order[2], 1);
	ck_assert_uint_eq(order[3], 2);
}
END_TEST

START_TEST(a_wait_ends_at_its_deadline)
{
	const struct said *answer;

	world_make(world, "db", 1);
	acquire(0, 1, 1, "db", TRY);
	answer = acquire(0, 2, 1, "db", 3 * SECOND);
	ck_assert_int_eq(answer->reason, REASON_TIMEOUT);
	ck_assert_int_eq(answer->slots, 1);
	ck_assert_int_eq(answer->busy, 1);
	ck_assert_int_eq(answer->at, world->now);
}
END_TEST

/*
 * The daemon does not know whether the slot is busy. That is no timeout, which a caller may take for a
 * conflict.
 */
START_TEST(a_wait_that_the_broker_never_answered_is_no_timeout)
{
	const struct said *answer;
	int64_t began = world->now;

	world_make(world, "db", 1);
	world->silent = true;
	answer = acquire(0, 1, 1, "db", SECOND);
	ck_assert_int_eq(answer->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_str_eq(answer->text, "the broker did not answer in time");
	ck_assert_int_gt(answer->at - began, SECOND);
	ck_assert_int_le(answer->at - began, SECOND + world_settings.request_timeout);
}
END_TEST

/* For the first, the daemon probes and claims. For the others, it claims. The last one creates. */
START_TEST(a_wait_shorter_than_an_answer_gets_a_free_slot)
{
	struct lock_acquire made = {
	    .name = "new", .kind = LOCK_KIND_SEMAPHORE, .timeout = 5 * MS, .create = 1};

	world_make(world, "db", 3);
	world->delay = 60 * MS;
	for (uint64_t i = 1; i <= 3; i++)
		ck_assert_int_eq(acquire(0, i, 1, "db", 5 * MS)->reason, REASON_NONE);
	lock_acquire(engine(0), 4, 1, &made);
	ck_assert_int_eq(world_await(world, 0, 4, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_wait_shorter_than_an_answer_ends_when_all_slots_are_seen_busy)
{
	const struct said *answer;

	world_make(world, "db", 1);
	acquire(0, 1, 1, "db", TRY);
	world->delay = 30 * MS;
	for (uint64_t i = 1; i <= 2; i++) {
		int64_t began = world->now;

		answer = acquire(0, 2, i, "db", 20 * MS);
		ck_assert_int_eq(answer->reason, REASON_TIMEOUT);
		ck_assert_int_eq(answer->busy, 1);
		ck_assert_int_le(answer->at - began, 31 * MS);
		ck_assert_int_eq(world_notices(world, 0, 2, LOCK_NOTICE_WAITING), 0);
	}
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 0);
}
END_TEST

/* It may find the slot taken: a hint leads to the claim, and does not count. */
START_TEST(a_claim_that_is_on_its_way_at_the_deadline_is_finished)
{
	bool taken = _i == 1;

	world_make(world, "db", 1);
	memory_world_put(world->memory, "db-1-B", true);
	world_acquire(world, 0, 1, 1, "db", 3 * SECOND);
	world_pass(world, 3 * SECOND - 10 * MS);
	if (!taken)
		memory_world_remove(world->memory, "db-1-B");
	memory_broker_block(world->daemon[0].broker, BROKER_LOCKS, MEMORY_OUT);
	broker_wait_queue_wake(world->daemon[2].broker, "db-W", 1);
	world_pass(world, 20 * MS);
	ck_assert(is_waiting(0, 1, 1));
	memory_broker_block(world->daemon[0].broker, BROKER_LOCKS, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, taken ? REASON_TIMEOUT : REASON_NONE);
}
END_TEST

START_TEST(a_try_of_a_wait_that_is_over_ends_with_the_connection)
{
	world_make(world, "db", 1);
	world->silent = true;
	world_acquire(world, 0, 1, 1, "db", MS);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 1, 1));
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, SECOND, "the cable is cut");
	world_pass(world, MS);
	ck_assert_int_eq(now(0, 1, 1)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(now(0, 1, 1)->text, "the cable is cut"));
}
END_TEST

/* All answers came; now and then a claim is on its way for a moment when the wait is over. */
START_TEST(a_wait_that_ends_just_after_a_hint_is_a_timeout)
{
	world_make(world, "db", 1);
	for (uint64_t i = 1; i <= 10; i++) {
		uint64_t lock = acquire(1, 1, 2 * i, "db", TRY)->lock;
		const struct said *answer;

		world_acquire(world, 0, i, 1, "db", 3 * SECOND);
		world_pass(world, 3 * SECOND - (int64_t)i * 20 * MS);
		world->delay = 40 * MS;
		lock_release(engine(1), 1, 2 * i + 1, lock);
		answer = world_await(world, 0, i, 1);
		ck_assert(answer->reason == REASON_TIMEOUT || answer->reason == REASON_NONE);
		lock_peer_gone(engine(0), i);
		world->delay = 0;
		world_pass(world, 10 * SECOND);
	}
}
END_TEST

/* It waits for the daemon that got the hint, as a try does, and then looks. */
START_TEST(a_wait_that_ends_while_a_slot_is_left_to_others_still_looks)
{
	struct lock_settings settings = world_settings;
	uint64_t lock;

	world_make(world, "db", 1);
	settings.hint_grace = SECOND;
	lock_engine_set(engine(0), &settings);
	lock = acquire(0, 1, 1, "db", TRY)->lock;
	world_acquire(world, 1, 1, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	memory_broker_block(world->daemon[1].broker, BROKER_LOCKS, MEMORY_OUT);
	release(0, 1, 2, lock);
	ck_assert_int_eq(acquire(0, 2, 1, "db", 500 * MS)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_claim_that_comes_late_is_dropped)
{
	world_make(world, "db", 1);
	/*
	 * The name is known, so that the claim is the first thing sent; it takes longer than we
	 * wait for it.
	 */
	acquire(0, 9, 1, "db", TRY);
	lock_peer_gone(engine(0), 9);
	world_pass(world, NSEC_PER_SEC);
	world->delay = 15 * SECOND;
	world_acquire(world, 0, 1, 1, "db", SECOND);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert(!lock_quiet(engine(0)));
	world->delay = NSEC_PER_MSEC;
	world_pass(world, 30 * SECOND);
	ck_assert(lock_quiet(engine(0)));
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

START_TEST(a_client_that_hangs_up_loses_all_in_every_state)
{
	world_make(world, "db", 2);
	/* One client holds, claims and waits; it is gone after every possible number of steps. */
	for (int steps = 0; steps < 40; steps++) {
		world_acquire(world, 0, 7, 1, "db", DURATION_FOREVER);
		world_acquire(world, 0, 7, 2, "db", DURATION_FOREVER);
		world_acquire(world, 0, 7, 3, "db", DURATION_FOREVER);
		for (int i = 0; i < steps; i++)
			world_step(world, 10 * NSEC_PER_MSEC);
		lock_peer_gone(engine(0), 7);
		world_pass(world, SECOND);
		ck_assert_int_eq(world_b_count(world), 0);
		ck_assert(lock_quiet(engine(0)));
		world->said_count = 0;
	}
}
END_TEST

START_TEST(cancel_ends_a_wait_once)
{
	world_make(world, "db", 1);
	acquire(0, 1, 1, "db", TRY);
	world_acquire(world, 0, 2, 5, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert(lock_cancel(engine(0), 2, 5));
	ck_assert(!lock_cancel(engine(0), 2, 5));
	ck_assert(!lock_cancel(engine(0), 1, 1));
	ck_assert_int_eq(world_answer(world, 0, 2, 5)->reason, REASON_CANCELLED);
}
END_TEST

START_TEST(too_many_lost_races_are_contended)
{
	struct lock_settings settings = world_settings;
	struct lock_counts counts;

	settings.max_races = 3;
	lock_engine_set(engine(0), &settings);
	world_make(world, "db", 1);
	world->delay = 10 * NSEC_PER_MSEC;
	world_acquire(world, 0, 1, 1, "db", TRY);
	/* Before each claim arrives, another client takes the slot and then leaves. */
	while (world_answer(world, 0, 1, 1) == NULL) {
		lock_get_counts(engine(0), &counts);
		if (counts.in_flight > 0)
			memory_world_put(world->memory, "db-1-B", true);
		else
			memory_world_remove(world->memory, "db-1-B");
		ck_assert(world_step(world, 60 * SECOND));
	}
	ck_assert_int_eq(world_answer(world, 0, 1, 1)->reason, REASON_CONTENDED);
}
END_TEST

/*
 * The slot was known to be free, and is busy: a waiter without hints would be too late again and
 * again.
 */
START_TEST(a_waiter_that_loses_a_race_joins_the_wait_queue)
{
	world_make(world, "db", 1);
	lock_release(engine(1), 1, 2, acquire(1, 1, 1, "db", TRY)->lock);
	world_pass(world, SECOND / 10);
	acquire(0, 1, 1, "db", TRY);
	world_acquire(world, 1, 1, 3, "db", DURATION_FOREVER);
	/* The claim is refused after 1 ms. A rest and a scan come only then. */
	world_pass(world, 2 * NSEC_PER_MSEC);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 1);
}
END_TEST

START_TEST(a_slot_of_a_known_name_is_one_flight)
{
	struct broker_info before, after;
	const struct said *answer;

	world_make(world, "db", 3);
	acquire(0, 1, 1, "db", TRY);
	/* An answer takes 1 ms: claim and check together, and no probe in front of them. */
	answer = acquire(0, 2, 1, "db", TRY);
	broker_get_info(world->daemon[0].broker, &before);
	world_acquire(world, 0, 3, 1, "db", TRY);
	answer = world_await(world, 0, 3, 1);
	broker_get_info(world->daemon[0].broker, &after);
	ck_assert_int_eq(answer->slot, 3);
	ck_assert_uint_eq(after.channels, before.channels + 1);
}
END_TEST

START_TEST(the_engine_may_end_in_the_middle_of_a_scan)
{
	world_acquire(world, 0, 1, 1, "db", TRY);
	world_pass(world, 0); /* the probes are on their way, and world_end comes */
	ck_assert_ptr_null(world_answer(world, 0, 1, 1));
}
END_TEST

static const struct scan *
scan_until(enum scan_state state)
{
	const struct scan *found;

	do {
		ck_assert(world_step(world, SECOND));
		found = &engine_semaphore_find(engine(0), "db", false)->scan;
	} while (found->state != state);
	return found;
}

/* Else it would probe impossible slots, and take the slots before for busy. */
START_TEST(a_scan_that_was_forgotten_begins_anew)
{
	world_make(world, "db", 1);
	ck_assert(memory_world_put(world->memory, "db-1-B", true));
	world_acquire(world, 0, 1, 1, "db", DURATION_FOREVER);
	scan_until(SCAN_SEEN);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, 0, "cut");
	ck_assert_int_eq(scan_until(SCAN_PROBING)->first, 1);
}
END_TEST

START_TEST(a_mutex_that_is_claimed_unseen_is_claimed_once_a_scan)
{
	struct lock_acquire mutex = {
	    .name = "upgrade", .kind = LOCK_KIND_MUTEX, .timeout = 60 * NSEC_PER_SEC};
	unsigned asked;

	lock_acquire(engine(1), 1, 1, &mutex);
	ck_assert_int_eq(world_await(world, 1, 1, 1)->reason, REASON_NONE);
	memory_world_block(world->memory, true);
	lock_acquire(engine(0), 1, 1, &mutex);
	asked = world->asked;
	world_pass(world, 20 * NSEC_PER_SEC);
	ck_assert_uint_lt(world->asked - asked, 30);
	ck_assert_ptr_null(world_answer(world, 0, 1, 1));
}
END_TEST

static void
close_channel(void *ctx, uint64_t channel, bool silent)
{
	(void)silent;
	*(uint64_t *)ctx = channel;
}

/* A broker that closes every channel as soon as it is used. */
START_TEST(a_claim_whose_channel_dies_is_sent_again_after_a_rest_and_not_for_ever)
{
	struct broker *broker = world->daemon[0].broker;
	unsigned asked;

	world_make(world, "db", 1);
	asked = world->asked;
	world_acquire(world, 0, 1, 1, "db", 60 * NSEC_PER_SEC);
	while (world_answer(world, 0, 1, 1) == NULL) {
		uint64_t channel = 0;

		ck_assert(world_step(world, NSEC_PER_SEC));
		memory_broker_each_channel(broker, BROKER_LOCKS, close_channel, &channel);
		if (channel != 0)
			memory_broker_close_channel(broker, channel, 406, "too bad");
		ck_assert_uint_lt(world->asked - asked, 100);
	}
	ck_assert_int_eq(world_answer(world, 0, 1, 1)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_int_gt(world->now - 1000 * NSEC_PER_SEC, 100 * NSEC_PER_MSEC);
}
END_TEST

START_TEST(mutex_and_persistent_mutex)
{
	struct lock_acquire mutex = {.name = "upgrade", .kind = LOCK_KIND_MUTEX, .timeout = TRY};
	struct lock_acquire persistent = {
	    .name = "db", .kind = LOCK_KIND_PERSISTENT_MUTEX, .timeout = TRY};
	uint64_t lock;

	lock_acquire(engine(0), 1, 1, &mutex);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->slot, 0);
	ck_assert(memory_world_has(world->memory, "upgrade-M", NULL));
	lock_acquire(engine(1), 1, 1, &mutex);
	ck_assert_int_eq(world_await(world, 1, 1, 1)->reason, REASON_WOULD_BLOCK);
	lock_release(engine(0), 1, 2, world_answer(world, 0, 1, 1)->lock);
	world_await(world, 0, 1, 2);
	lock_acquire(engine(1), 1, 2, &mutex);
	ck_assert_int_eq(world_await(world, 1, 1, 2)->reason, REASON_NONE);

	lock_acquire(engine(0), 2, 1, &persistent);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NO_SUCH_LOCK);
	world_make(world, "db", 2);
	lock_acquire(engine(0), 2, 2, &persistent);
	ck_assert_int_eq(world_await(world, 0, 2, 2)->slot, 1);
	lock = world_answer(world, 0, 2, 2)->lock;
	lock_acquire(engine(0), 2, 3, &persistent);
	ck_assert_int_eq(world_await(world, 0, 2, 3)->reason, REASON_WOULD_BLOCK);
	lock_release(engine(0), 2, 4, lock);
	ck_assert_int_eq(world_await(world, 0, 2, 4)->reason, REASON_NONE);
}
END_TEST

Suite *
suite_lock_acquire(void)
{
	Suite *suite = suite_create("lock: acquire and release");
	TCase *tc = tcase_create("acquire");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, a_free_slot_is_granted_and_its_b_is_ours);
	tcase_add_test(tc, a_name_without_slots_is_no_lock);
	tcase_add_test(tc, slots_above_a_gap_do_not_exist);
	tcase_add_test(tc, full_is_said_with_size_and_busy_slots);
	tcase_add_test(tc, more_slots_than_one_window_are_all_found);
	tcase_add_test(tc, release_is_answered_when_b_is_gone);
	tcase_add_test(tc, only_the_holder_releases);
	tcase_add_test(tc, two_clients_of_one_daemon_never_share_a_slot);
	tcase_add_test(tc, a_slot_is_reserved_until_delete_ok);
	tcase_add_test(tc, a_waiter_gets_what_is_released_here);
	tcase_add_test(tc, a_waiter_gets_what_is_released_elsewhere);
	tcase_add_test(tc, waiters_go_in_order_within_priority);
	tcase_add_test(tc, a_wait_ends_at_its_deadline);
	tcase_add_test(tc, a_wait_that_the_broker_never_answered_is_no_timeout);
	tcase_add_test(tc, a_wait_shorter_than_an_answer_gets_a_free_slot);
	tcase_add_test(tc, a_wait_shorter_than_an_answer_ends_when_all_slots_are_seen_busy);
	tcase_add_loop_test(tc, a_claim_that_is_on_its_way_at_the_deadline_is_finished, 0, 2);
	tcase_add_test(tc, a_try_of_a_wait_that_is_over_ends_with_the_connection);
	tcase_add_test(tc, a_wait_that_ends_just_after_a_hint_is_a_timeout);
	tcase_add_test(tc, a_wait_that_ends_while_a_slot_is_left_to_others_still_looks);
	tcase_add_test(tc, a_claim_that_comes_late_is_dropped);
	tcase_add_test(tc, a_client_that_hangs_up_loses_all_in_every_state);
	tcase_add_test(tc, cancel_ends_a_wait_once);
	tcase_add_test(tc, too_many_lost_races_are_contended);
	tcase_add_test(tc, a_waiter_that_loses_a_race_joins_the_wait_queue);
	tcase_add_test(tc, a_slot_of_a_known_name_is_one_flight);
	tcase_add_test(tc, the_engine_may_end_in_the_middle_of_a_scan);
	tcase_add_test(tc, a_scan_that_was_forgotten_begins_anew);
	tcase_add_test(tc, a_mutex_that_is_claimed_unseen_is_claimed_once_a_scan);
	tcase_add_test(tc, a_claim_whose_channel_dies_is_sent_again_after_a_rest_and_not_for_ever);
	tcase_add_test(tc, mutex_and_persistent_mutex);
	suite_add_tcase(suite, tc);
	return suite;
}
