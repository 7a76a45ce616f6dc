/*
 * The lease over the server in memory: renewed by the keepalive, suspect, restored, over. No use of
 * a hold trusts a timer (invariant 7). Heartbeat 10 s, margin 2 s.
 */
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <string.h>

#define HEARTBEAT (10 * SECOND)
#define MARGIN (2 * SECOND)

static void
setup(void)
{
	struct lock_settings settings = world_settings;

	world_begin();
	world_make(world, "db", 3);
	settings.margin = MARGIN;
	lock_engine_set(engine(0), &settings);
}

/* A claim is waited for longer than its lease lasts. */
static void
be_patient(void)
{
	struct lock_settings settings = world_settings;

	settings.margin = MARGIN;
	settings.request_timeout = 60 * SECOND;
	lock_engine_set(engine(0), &settings);
}

static const struct said *
take(uint64_t peer, int64_t timeout)
{
	struct lock_acquire wanted = {.name = "db",
	    .kind = LOCK_KIND_SEMAPHORE,
	    .timeout = timeout,
	    .lease = true,
	    .uid = 1000};

	lock_acquire(engine(0), peer, 1, &wanted);
	return world_await(world, 0, peer, 1);
}

static int
notices(uint64_t peer, enum lock_notice_kind kind)
{
	return world_notices(world, 0, peer, kind);
}

/* Nothing that is sent from now on is answered. */
static void
fall_silent(void)
{
	world->silent = true;
}

START_TEST(a_grant_says_until_when_it_is_safe)
{
	int64_t before = world->now;
	const struct said *answer = take(1, 0);

	/* Counted from the sending of the claim, not from its answer. */
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_gt(answer->safe_until, before + 2 * HEARTBEAT - MARGIN);
	ck_assert_int_lt(answer->safe_until, answer->at + 2 * HEARTBEAT - MARGIN);
	lock_verify(engine(0), 1, 2, answer->lock, 1000);
	ck_assert_int_gt(world_await(world, 0, 1, 2)->safe_until, answer->safe_until);
}
END_TEST

/* One that was set for a longer heartbeat than the broker's: half of what there is remains. */
START_TEST(the_margin_is_at_most_a_heartbeat)
{
	struct lock_settings settings = world_settings;
	const struct said *answer;

	settings.margin = 2 * HEARTBEAT;
	lock_engine_set(engine(0), &settings);
	ck_assert_int_eq(lock_margin(engine(0)), HEARTBEAT);
	answer = take(1, 0);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_gt(answer->safe_until, answer->at + HEARTBEAT - SECOND);
	ck_assert_int_lt(answer->safe_until, answer->at + HEARTBEAT);
	world_pass(world, 10 * HEARTBEAT);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(the_keepalive_keeps_it_going)
{
	take(1, 0);
	world_pass(world, 10 * HEARTBEAT);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_SUSPECT), 0);
	ck_assert_int_ge(notices(1, LOCK_NOTICE_LEASE), 28);
	ck_assert_int_le(notices(1, LOCK_NOTICE_LEASE), 31);
	ck_assert_int_gt(world->said[world->said_count - 1].safe_until,
	    world->now + 2 * HEARTBEAT - MARGIN - HEARTBEAT / 3 - SECOND);
}
END_TEST

START_TEST(the_keepalive_goes_round_all_held_bs)
{
	take(1, 0);
	take(2, 0);
	take(3, 0);
	for (int slot = 1; slot <= 3; slot++) {
		char queue[16] = "db-?-B";

		queue[3] = (char)('0' + slot);
		ck_assert(memory_world_remove(world->memory, queue));
	}
	world_pass(world, HEARTBEAT + SECOND);
	ck_assert_int_eq(world_b_count(world), 3);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_VANISHED), 1);
	ck_assert_int_eq(notices(3, LOCK_NOTICE_VANISHED), 1);
}
END_TEST

START_TEST(nothing_is_sent_while_nothing_is_held)
{
	lock_release(engine(0), 1, 2, take(1, 0)->lock);
	world_await(world, 0, 1, 2);
	world_pass(world, HEARTBEAT);
	ck_assert_msg(timers_next(world->timers) - world->now > HEARTBEAT, "something is to come");
}
END_TEST

START_TEST(silence_makes_it_suspect_and_then_lost_in_time)
{
	int64_t until = take(1, 0)->safe_until;

	fall_silent();
	world_pass(world, until - MARGIN / 2 - world->now);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 0);
	ck_assert(!lock_is_recovering(engine(0)));
	world_pass(world, until - world->now);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 1);
	/* The broker need not have noticed: our old B may look like that of another daemon. */
	ck_assert(lock_is_recovering(engine(0)));
	/* The link is made anew, and serves again. */
	world->silent = false;
	ck_assert_int_eq(take(2, 60 * SECOND)->reason, REASON_NONE);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 1);
}
END_TEST

START_TEST(an_answer_restores_it)
{
	take(1, 0);
	world->delay = HEARTBEAT + 3 * SECOND; /* of the first keepalive */
	world_pass(world, HEARTBEAT / 3 + SECOND);
	world->delay = NSEC_PER_MSEC; /* the second waits behind it on its channel */
	world_pass(world, 3 * HEARTBEAT);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_RESTORED), 1);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(a_daemon_that_wakes_too_late_grants_nothing_from_the_old_link)
{
	uint64_t lock = take(1, 0)->lock;
	struct lock_settings settings = world_settings;

	settings.max_local_handoffs = 0; /* or nothing would be claimed */
	lock_engine_set(engine(0), &settings);
	take(2, 0);
	take(3, 0);
	world_acquire(world, 0, 4, 1, "db", 60 * SECOND);
	world_pass(world, SECOND);
	/* The first is released and the waiter claims the slot; then the daemon sleeps. */
	lock_release(engine(0), 1, 2, lock);
	while (!world_b(world, "db", 1, 0) || world_answer(world, 0, 1, 2) == NULL)
		ck_assert(world_step(world, SECOND));
	world->now += 3 * HEARTBEAT;
	world_step(world, 0);
	ck_assert_ptr_null(world_answer(world, 0, 4, 1));
	world_pass(world, SECOND);
	ck_assert_int_eq(notices(2, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(notices(3, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(world_await(world, 0, 4, 1)->reason, REASON_NONE);
	ck_assert(world_b(world, "db", world_answer(world, 0, 4, 1)->slot, 0));
}
END_TEST

START_TEST(a_claim_answered_too_late_is_not_granted)
{
	const struct said *answer;

	be_patient();
	take(1, 0);
	lock_peer_gone(engine(0), 1);
	world_pass(world, SECOND);
	world->delay = 2 * HEARTBEAT; /* of the claim and the check of A */
	world_acquire(world, 0, 2, 1, "db", 60 * SECOND);
	world_pass(world, SECOND);
	world->delay = NSEC_PER_MSEC;
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_gt(answer->safe_until, answer->at);
	world_pass(world, SECOND);
	ck_assert_int_eq(world_b_count(world), 1);
}
END_TEST

START_TEST(a_verify_answered_too_late_is_lost)
{
	uint64_t lock = take(1, 0)->lock;

	lock_verify(engine(0), 1, 2, lock, 1000);
	/* The answer is on its way. */
	world_pass(world, world->delay * 3 / 4);
	world->now += 2 * HEARTBEAT;
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_LOST);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 1);
}
END_TEST

static uint64_t
give_back(uint64_t peer, uint64_t lock)
{
	lock_release(engine(0), peer, 2, lock);
	world_await(world, 0, peer, 2);
	return lock;
}

START_TEST(the_keepalive_reaches_an_old_hold_among_many_young_ones)
{
	uint64_t young;

	take(1, 0);
	world_pass(world, HEARTBEAT / 3 + SECOND); /* B was checked once */
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	/* None of these is there for longer than between two keepalives. */
	for (uint64_t peer = 2; peer < 8; peer++) {
		young = take(peer, 0)->lock;
		world_pass(world, HEARTBEAT / 3);
		give_back(peer, young);
	}
	ck_assert_int_eq(notices(1, LOCK_NOTICE_VANISHED), 1);
}
END_TEST

START_TEST(a_newcomer_while_it_was_suspect_is_not_told_restored)
{
	const struct said *answer;

	be_patient();
	take(1, 0);
	world_pass(world, SECOND);
	world->silent = true; /* the first keepalive */
	world_pass(world, HEARTBEAT / 3);
	world->silent = false;
	world->delay = 12 * SECOND; /* of a claim */
	world_acquire(world, 0, 2, 1, "db", 60 * SECOND);
	world_pass(world, SECOND / 10);
	world->delay = NSEC_PER_MSEC;
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_RESTORED), 0);
	world_pass(world, 2 * SECOND); /* the next keepalive */
	ck_assert_int_eq(notices(1, LOCK_NOTICE_RESTORED), 1);
	ck_assert_int_eq(notices(2, LOCK_NOTICE_RESTORED), 0);
}
END_TEST

/* One whose own channel is stuck would take itself for lost while others keep the link alive. */
START_TEST(every_answer_moves_the_lease_that_is_told)
{
	take(1, 0);
	world_pass(world, HEARTBEAT / 3 - SECOND);
	world->silent = true; /* the first keepalive */
	world_pass(world, 2 * SECOND);
	world->silent = false;
	for (uint64_t peer = 2; peer < 7; peer++) {
		give_back(peer, take(peer, 0)->lock);
		world_pass(world, HEARTBEAT / 3);
	}
	ck_assert_int_ge(notices(1, LOCK_NOTICE_LEASE), 3);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(a_stuck_channel_ends_the_link_only_when_nothing_is_held)
{
	uint64_t lock = take(1, 0)->lock;

	world->silent = true;
	world_acquire(world, 0, 2, 1, "db", 0); /* its claim is never answered */
	world_pass(world, SECOND);
	world->silent = false;
	world_pass(world, 5 * HEARTBEAT);
	ck_assert_int_eq(world_answer(world, 0, 2, 1)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_b_count(world), 2); /* may be ours, and stays reserved */
	give_back(1, lock);
	world_pass(world, HEARTBEAT);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_b_count(world), 0);
	for (uint64_t peer = 3; peer < 6; peer++)
		ck_assert_int_eq(take(peer, 0)->reason, REASON_NONE);
}
END_TEST

/* The claim, or the check of A behind it. */
START_TEST(a_claim_on_a_stuck_channel_goes_back_to_its_place)
{
	uint64_t lock;

	memory_world_remove(world->memory, "db-3-A");
	lock = take(1, 0)->lock;
	world->stuck = 1 + (unsigned)_i;
	wait_for(0, 2, 1);
	wait_for(0, 3, 1);
	world_pass(world, world_settings.request_timeout + SECOND);
	ck_assert(is_waiting(0, 2, 1) && is_waiting(0, 3, 1));
	/* Its slot stays reserved, and is not asked for again. */
	ck_assert(world_b(world, "db", 2, 0));
	world->asked = 0;
	world_pass(world, 10 * HEARTBEAT);
	ck_assert_uint_lt(world->asked, 100);
	ck_assert_int_eq(notices(0, LOCK_NOTICE_STUCK), 1);
	/* The other slot is for the first of them. */
	lock_release(engine(0), 1, 2, lock);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->slot, 1);
	ck_assert(is_waiting(0, 3, 1));
	lock_release(engine(0), 2, 2, now(0, 2, 1)->lock);
	ck_assert_int_eq(world_await(world, 0, 3, 1)->slot, 1);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(a_claim_that_is_answered_too_late_frees_its_slot)
{
	const struct said *answer;

	memory_world_remove(world->memory, "db-2-A");
	memory_world_remove(world->memory, "db-3-A");
	world_make(world, "other", 1);
	acquire(0, 1, 2, "other", TRY);
	release(0, 2, 2, take(2, 0)->lock);
	world_pass(world, SECOND);
	world->delay = 15 * SECOND; /* of the claims, as the slot is known to be free */
	wait_for(0, 3, 1);
	world_pass(world, 0);
	world->delay = NSEC_PER_MSEC;
	world_pass(world, 14 * SECOND);
	ck_assert(is_waiting(0, 3, 1));
	ck_assert(world_b(world, "db", 1, 0));
	world_pass(world, 2 * SECOND);
	/* Claimed anew, after the first B was deleted. */
	answer = now(0, 3, 1);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_int_gt(answer->safe_until, answer->at + 2 * HEARTBEAT - MARGIN - SECOND);
	ck_assert_int_eq(world_b_count(world), 2);
}
END_TEST

/* The waiter gets its answer at once: it does not wait for the next scan. */
START_TEST(a_late_answer_to_the_check_of_a_says_that_the_slot_is_gone)
{
	struct lock_settings settings = world_settings;

	settings.margin = MARGIN;
	settings.rescan_interval = 100 * SECOND;
	lock_engine_set(engine(0), &settings);
	memory_world_remove(world->memory, "db-2-A");
	memory_world_remove(world->memory, "db-3-A");
	world_make(world, "other", 1);
	acquire(0, 1, 2, "other", TRY);
	release(0, 2, 2, take(2, 0)->lock);
	world_pass(world, SECOND);
	world->slow = 2; /* behind the claim; it is performed after 15 s */
	wait_for(0, 3, 1);
	world_pass(world, 14 * SECOND);
	memory_world_remove(world->memory, "db-1-A");
	world_pass(world, 16 * SECOND - MS);
	ck_assert(is_waiting(0, 3, 1));
	world_pass(world, SECOND / 10);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

/* The claim is on its way at the deadline, and is given up when a try is. */
START_TEST(a_wait_ends_in_time_though_its_claim_is_not_answered)
{
	take(1, 0);
	world->stuck = 1;
	world_acquire(world, 0, 2, 1, "db", 5 * SECOND);
	world_pass(world, world_settings.request_timeout - MS);
	ck_assert(is_waiting(0, 2, 1));
	world_pass(world, MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_BROKER_UNAVAILABLE);
	world_pass(world, 10 * HEARTBEAT);
	ck_assert_int_eq(take(3, 0)->slot, 3);
}
END_TEST

START_TEST(a_stuck_delete_is_not_waited_for_for_ever)
{
	uint64_t lock = take(1, 0)->lock;

	world->silent = true;
	lock_release(engine(0), 1, 2, lock);
	world_pass(world, SECOND);
	world->silent = false;
	world_pass(world, 3 * HEARTBEAT);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(a_verify_of_a_mutex_that_was_just_lost_is_answered)
{
	struct lock_acquire mutex = {.name = "m", .kind = LOCK_KIND_MUTEX, .timeout = 0};
	uint64_t lock;

	lock_acquire(engine(0), 1, 1, &mutex);
	lock = world_await(world, 0, 1, 1)->lock;
	world_pass(world, HEARTBEAT / 2);
	world->delay = 2 * HEARTBEAT;
	world_pass(world, HEARTBEAT);
	world->delay = HEARTBEAT / 2;
	lock_verify(engine(0), 1, 2, lock, 0);
	/* Woken, the daemon finds its lease over before it reads the answer. */
	world->now += HEARTBEAT - SECOND;
	world_pass(world, 0);
	ck_assert_int_eq(notices(1, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(world_answer(world, 0, 1, 2)->reason, REASON_LOST);
}
END_TEST

Suite *
suite_lock_lease(void)
{
	Suite *suite = suite_create("lock: the lease");
	TCase *tc = tcase_create("lease");

	tcase_add_checked_fixture(tc, setup, world_end);
	tcase_add_test(tc, a_grant_says_until_when_it_is_safe);
	tcase_add_test(tc, the_margin_is_at_most_a_heartbeat);
	tcase_add_test(tc, the_keepalive_keeps_it_going);
	tcase_add_test(tc, the_keepalive_goes_round_all_held_bs);
	tcase_add_test(tc, nothing_is_sent_while_nothing_is_held);
	tcase_add_test(tc, silence_makes_it_suspect_and_then_lost_in_time);
	tcase_add_test(tc, an_answer_restores_it);
	tcase_add_test(tc, a_daemon_that_wakes_too_late_grants_nothing_from_the_old_link);
	tcase_add_test(tc, a_claim_answered_too_late_is_not_granted);
	tcase_add_test(tc, a_verify_answered_too_late_is_lost);
	tcase_add_test(tc, the_keepalive_reaches_an_old_hold_among_many_young_ones);
	tcase_add_test(tc, a_newcomer_while_it_was_suspect_is_not_told_restored);
	tcase_add_test(tc, every_answer_moves_the_lease_that_is_told);
	tcase_add_test(tc, a_stuck_channel_ends_the_link_only_when_nothing_is_held);
	tcase_add_loop_test(tc, a_claim_on_a_stuck_channel_goes_back_to_its_place, 0, 2);
	tcase_add_test(tc, a_claim_that_is_answered_too_late_frees_its_slot);
	tcase_add_test(tc, a_late_answer_to_the_check_of_a_says_that_the_slot_is_gone);
	tcase_add_test(tc, a_wait_ends_in_time_though_its_claim_is_not_answered);
	tcase_add_test(tc, a_stuck_delete_is_not_waited_for_for_ever);
	tcase_add_test(tc, a_verify_of_a_mutex_that_was_just_lost_is_answered);
	suite_add_tcase(suite, tc);
	return suite;
}
