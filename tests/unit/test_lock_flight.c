/*
 * The claims and deletes that one user has at the broker at once, and those that are not sent yet.
 * Every answer takes a tenth of a second.
 */
#include "daemon/lock/engine.h"

#include <stdio.h>

#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#define ALICE 1000
#define BOB 1001
#define TAKES (100 * MS)
#define MANY (10 * FLIGHTS_MOST)

static void
send_as(int daemon, uid_t uid, uint64_t peer, uint64_t request, const char *name, int64_t timeout)
{
	const struct lock_acquire acquire = {.name = name,
	    .kind = LOCK_KIND_SEMAPHORE,
	    .timeout = timeout,
	    .uid = uid,
	    .exempt = uid == 0};

	lock_acquire(engine(daemon), peer, request, &acquire);
}

/* So many slots of "big", by requests 1, 2, ...; their claims are sent, as far as they may be. */
static void
ask_for(uid_t uid, uint64_t peer, uint64_t count)
{
	for (uint64_t i = 1; i <= count; i++)
		send_as(0, uid, peer, i, "big", TRY);
	/* Until the scan is answered. */
	for (int before = world_b_count(world); world_b_count(world) == before;)
		ck_assert(world_step(world, SECOND));
	world_pass(world, 0);
}

/* The same, granted. */
static void
take(uid_t uid, uint64_t peer, uint64_t count)
{
	world->delay = 0;
	for (uint64_t i = 1; i <= count; i++)
		send_as(0, uid, peer, i, "big", TRY);
	world_pass(world, SECOND);
	ck_assert_int_eq(now(0, peer, count)->reason, REASON_NONE);
	world->delay = TAKES;
}

static void
begin(void)
{
	world_begin_with_db();
	world_make(world, "big", 2 * MANY);
	world->delay = TAKES;
}

START_TEST(one_user_has_few_claims_at_the_broker)
{
	ask_for(ALICE, 1, MANY);
	for (int claimed = FLIGHTS_MOST; claimed <= MANY; claimed += FLIGHTS_MOST) {
		ck_assert_int_eq(world_b_count(world), claimed);
		world_pass(world, TAKES);
	}
	world_pass(world, TAKES);
	ck_assert_int_eq(world_b_count(world), MANY);
	for (uint64_t i = 1; i <= MANY; i++)
		ck_assert_int_eq(now(0, 1, i)->reason, REASON_NONE);
}
END_TEST

START_TEST(one_user_has_few_deletes_at_the_broker)
{
	take(ALICE, 1, MANY);
	lock_peer_gone(engine(0), 1);
	world_pass(world, TAKES);
	for (int left = MANY - FLIGHTS_MOST; left >= 0; left -= FLIGHTS_MOST) {
		ck_assert_int_eq(world_b_count(world), left);
		world_pass(world, TAKES);
	}
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

static int
held_by_consumer(int slots)
{
	int held = 0;

	for (int slot = 1; slot <= slots; slot++) {
		char queue[32];

		snprintf(queue, sizeof(queue), "fast-%d-B", slot);
		held += memory_world_members(world->memory, queue) > 0;
	}
	return held;
}

START_TEST(by_consumer_they_are_many_more)
{
	const int most = FLIGHTS_MOST * FLIGHT_BY_QUEUE, slots = most + 1;

	world->delay = 0;
	lock_create(engine(0), 9, 1,
	    &(struct lock_change){.name = "fast", .slots = slots, .claim = LOCK_CLAIM_BY_CONSUMER});
	ck_assert_int_eq(world_await(world, 0, 9, 1)->reason, REASON_NONE);
	for (uint64_t i = 1; i <= (uint64_t)slots; i++)
		send_as(0, ALICE, 1, i, "fast", TRY);
	world_pass(world, SECOND);
	ck_assert_int_eq(held_by_consumer(slots), slots);
	world->delay = TAKES;
	lock_peer_gone(engine(0), 1);
	world_pass(world, TAKES);
	ck_assert_int_eq(held_by_consumer(slots), slots - most);
	world_pass(world, TAKES);
	ck_assert_int_eq(held_by_consumer(slots), 0);
}
END_TEST

static int
mutexes_held(int count)
{
	int held = 0;

	for (int i = 1; i <= count; i++) {
		char queue[32];

		snprintf(queue, sizeof(queue), "mx%d-M", i);
		held += memory_world_members(world->memory, queue) > 0;
	}
	return held;
}

/* Its claim is not: it declares the queue. */
START_TEST(a_cancel_of_a_mutex_is_cheap)
{
	const int count = 3 * FLIGHTS_MOST;
	struct lock_settings settings = world_settings;
	char name[32];

	settings.claim = BROKER_BY_CONSUMER;
	lock_engine_set(engine(0), &settings);
	for (int i = 1; i <= count; i++) {
		const struct lock_acquire acquire = {
		    .name = name, .kind = LOCK_KIND_MUTEX, .timeout = 60 * SECOND, .uid = ALICE};

		snprintf(name, sizeof(name), "mx%d", i);
		lock_acquire(engine(0), 1, (uint64_t)i, &acquire);
	}
	while (mutexes_held(count) == 0)
		ck_assert(world_step(world, SECOND));
	world_pass(world, 0);
	ck_assert_int_eq(mutexes_held(count), FLIGHTS_MOST);
	world_pass(world, SECOND);
	ck_assert_int_eq(mutexes_held(count), count);
	lock_peer_gone(engine(0), 1);
	world_pass(world, TAKES);
	ck_assert_int_eq(mutexes_held(count), 0);
}
END_TEST

START_TEST(cheap_claims_do_not_overtake_a_delete)
{
	const int most = FLIGHTS_MOST * FLIGHT_BY_QUEUE, first = most - FLIGHT_BY_QUEUE + 2;

	world->delay = 0;
	lock_create(engine(0), 9, 1,
	    &(struct lock_change){.name = "fast", .slots = most, .claim = LOCK_CLAIM_BY_CONSUMER});
	ck_assert_int_eq(world_await(world, 0, 9, 1)->reason, REASON_NONE);
	/* So that the slots are known. */
	for (uint64_t i = 1; i <= (uint64_t)most; i++)
		send_as(0, ALICE, 3, i, "fast", TRY);
	world_pass(world, SECOND);
	lock_peer_gone(engine(0), 3);
	world_pass(world, SECOND);
	take(ALICE, 1, 1);
	world->delay = TAKES;
	for (uint64_t i = 1; i <= (uint64_t)first; i++)
		send_as(0, ALICE, 2, i, "fast", TRY);
	world_pass(world, TAKES / 2);
	lock_peer_gone(engine(0), 1);
	for (uint64_t i = (uint64_t)first + 1; i <= (uint64_t)most; i++)
		send_as(0, ALICE, 2, i, "fast", TRY);
	/* The first ones have not been answered yet. */
	world_pass(world, TAKES * 3 / 4);
	ck_assert_int_eq(held_by_consumer(most), first);
	ck_assert(memory_world_has(world->memory, "big-1-B", NULL));
	world_pass(world, TAKES / 2);
	ck_assert(!memory_world_has(world->memory, "big-1-B", NULL));
	ck_assert_int_eq(held_by_consumer(most), most);
}
END_TEST

START_TEST(administrators_have_many)
{
	take(0, 1, MANY);
	lock_peer_gone(engine(0), 1);
	world_pass(world, TAKES);
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

START_TEST(another_user_does_not_wait_for_them)
{
	ask_for(ALICE, 1, MANY);
	send_as(0, BOB, 2, 1, "db", TRY);
	world_pass(world, 2 * TAKES);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
	ck_assert(is_waiting(0, 1, MANY));
}
END_TEST

START_TEST(a_claim_that_is_unsent_at_the_deadline_is_still_sent)
{
	take(ALICE, 1, 1); /* so that the name is known */
	for (uint64_t i = 1; i <= MANY; i++)
		send_as(0, ALICE, 2, i, "big", 4 * TAKES);
	world_pass(world, 5 * TAKES);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
	ck_assert(is_waiting(0, 2, MANY));
	ck_assert_int_eq(world_await(world, 0, 2, MANY)->reason, REASON_NONE);
}
END_TEST

START_TEST(deletes_go_before_claims)
{
	take(ALICE, 1, 1);
	ask_for(ALICE, 2, MANY);
	lock_release(engine(0), 1, 2, now(0, 1, 1)->lock);
	world_pass(world, 2 * TAKES);
	ck_assert_int_eq(now(0, 1, 2)->reason, REASON_NONE);
	ck_assert(is_waiting(0, 2, MANY));
}
END_TEST

/* The waiter elsewhere got no hint, or its hint came here. */
START_TEST(an_unclaimed_slot_goes_to_another_daemons_waiter)
{
	uint64_t lock = acquire(2, 9, 1, "db", TRY)->lock;

	send_as(0, ALICE, 1, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	send_as(1, BOB, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	ask_for(ALICE, 3, MANY);
	/* The waiter at daemon 0 came first, and its daemon gets the hint. */
	lock_release(engine(2), 9, 2, lock);
	world_pass(world, 2 * TAKES);
	ck_assert(is_waiting(0, 1, 1) && is_waiting(1, 2, 1));
	ck_assert(!world_b(world, "db", 1, -1));
	ck_assert(lock_cancel(engine(0), 1, 1));
	world_pass(world, 3 * TAKES);
	ck_assert_int_eq(now(1, 2, 1)->reason, REASON_NONE);
	ck_assert(is_waiting(0, 3, MANY));
}
END_TEST

START_TEST(an_unclaimed_slot_goes_to_the_next_waiter_here)
{
	ask_for(ALICE, 1, MANY);
	send_as(0, ALICE, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, 2 * TAKES);
	send_as(0, BOB, 3, 1, "db", DURATION_FOREVER);
	ck_assert(!world_b(world, "db", 1, -1) && is_waiting(0, 2, 1));
	lock_peer_gone(engine(0), 2);
	world_pass(world, 4 * TAKES);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NONE);
	ck_assert(is_waiting(0, 1, MANY));
}
END_TEST

/* A channel may be stuck for ever; and the time that a claim may take begins when it is sent. */
START_TEST(a_claim_that_is_not_answered_in_time_does_not_count)
{
	for (uint64_t i = 1; i <= 2 * FLIGHTS_MOST; i++)
		send_as(0, ALICE, 1, i, "big", DURATION_FOREVER);
	world_pass(world, TAKES);
	world->silent = true;
	world_pass(world, TAKES + world_settings.request_timeout);
	ck_assert_int_eq(world_b_count(world), 2 * FLIGHTS_MOST);
}
END_TEST

START_TEST(a_delete_that_is_not_answered_in_time_does_not_count)
{
	take(ALICE, 1, 2 * FLIGHTS_MOST);
	world->silent = true;
	lock_peer_gone(engine(0), 1);
	world_pass(world, TAKES);
	ck_assert_int_eq(world_b_count(world), FLIGHTS_MOST);
	world_pass(world, world_settings.request_timeout);
	ck_assert_int_eq(world_b_count(world), 0);
}
END_TEST

/* Of a slot that was claimed and has no A, B is deleted after its waiter was answered. */
START_TEST(a_delete_that_waits_for_its_turn_does_not_end_with_its_waiter)
{
	struct lock_settings settings = world_settings;
	char queue[16];

	settings.max_races = 0;
	lock_engine_set(engine(0), &settings);
	ask_for(ALICE, 1, MANY);
	for (int slot = 1; slot <= 2 * MANY; slot++) {
		snprintf(queue, sizeof(queue), "big-%d-A", slot);
		ck_assert(memory_world_remove(world->memory, queue));
	}
	world_pass(world, SECOND);
	ck_assert_int_eq(now(0, 1, 2 * FLIGHTS_MOST)->reason, REASON_CONTENDED);
	lock_peer_gone(engine(0), 1);
	world_pass(world, 30 * SECOND);
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

/* A delete that is not sent when its channel is closed is sent on another. */
START_TEST(channels_close_while_deletes_wait)
{
	take(ALICE, 1, MANY);
	for (uint64_t i = 1; i <= MANY; i++)
		lock_release(engine(0), 1, 100 + i, now(0, 1, i)->lock);
	world_close_channels(world, 0, BROKER_LOCKS);
	/* Until the daemon knows of the close and of the deletes. */
	world_pass(world, 11 * TAKES);
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(channels_close_while_claims_wait)
{
	ask_for(ALICE, 1, MANY);
	world_close_channels(world, 0, BROKER_LOCKS);
	world_pass(world, 20 * TAKES);
	for (uint64_t i = 1; i <= MANY; i++)
		ck_assert_int_eq(now(0, 1, i)->reason, REASON_NONE);
	ck_assert_int_eq(world_b_count(world), MANY);
}
END_TEST

START_TEST(the_link_dies_while_claims_and_deletes_wait)
{
	take(ALICE, 1, MANY);
	lock_peer_gone(engine(0), 1);
	for (uint64_t i = 1; i <= MANY; i++)
		send_as(0, ALICE, 2, i, "big", DURATION_FOREVER);
	world_pass(world, TAKES);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, SECOND, "cut");
	world_pass(world, 10 * SECOND);
	for (uint64_t i = 1; i <= MANY; i++)
		ck_assert_int_eq(now(0, 2, i)->reason, REASON_NONE);
	ck_assert_int_eq(world_b_count(world), MANY);
}
END_TEST

START_TEST(a_stop_ends_claims_that_wait_and_sends_all_deletes)
{
	take(ALICE, 1, MANY);
	ask_for(ALICE, 2, MANY);
	lock_drain(engine(0));
	ck_assert_int_eq(now(0, 2, MANY)->reason, REASON_DRAINING);
	lock_abandon(engine(0));
	world_pass(world, (MANY / FLIGHTS_MOST + 3) * TAKES);
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

Suite *
suite_lock_flight(void)
{
	Suite *suite = suite_create("lock: flight");
	TCase *tc = tcase_create("flight");

	tcase_add_checked_fixture(tc, begin, world_end);
	tcase_add_test(tc, one_user_has_few_claims_at_the_broker);
	tcase_add_test(tc, one_user_has_few_deletes_at_the_broker);
	tcase_add_test(tc, by_consumer_they_are_many_more);
	tcase_add_test(tc, a_cancel_of_a_mutex_is_cheap);
	tcase_add_test(tc, cheap_claims_do_not_overtake_a_delete);
	tcase_add_test(tc, administrators_have_many);
	tcase_add_test(tc, another_user_does_not_wait_for_them);
	tcase_add_test(tc, a_claim_that_is_unsent_at_the_deadline_is_still_sent);
	tcase_add_test(tc, deletes_go_before_claims);
	tcase_add_test(tc, an_unclaimed_slot_goes_to_another_daemons_waiter);
	tcase_add_test(tc, an_unclaimed_slot_goes_to_the_next_waiter_here);
	tcase_add_test(tc, a_claim_that_is_not_answered_in_time_does_not_count);
	tcase_add_test(tc, a_delete_that_is_not_answered_in_time_does_not_count);
	tcase_add_test(tc, a_delete_that_waits_for_its_turn_does_not_end_with_its_waiter);
	tcase_add_test(tc, channels_close_while_deletes_wait);
	tcase_add_test(tc, channels_close_while_claims_wait);
	tcase_add_test(tc, the_link_dies_while_claims_and_deletes_wait);
	tcase_add_test(tc, a_stop_ends_claims_that_wait_and_sends_all_deletes);
	suite_add_tcase(suite, tc);
	return suite;
}
