/*
 * Conversion from slots with As to slots by quorum, and back, and As beside slots by quorum. T is 20 s.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/lock/engine.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#define QUEUE LOCK_CLAIM_BY_QUEUE
#define CONSUMER LOCK_CLAIM_BY_CONSUMER
#define QUORUM LOCK_CLAIM_BY_QUORUM
#define SLOTS 3
#define ADMIN 1

static uint64_t last_request;

static void
setup(void)
{
	struct lock_settings settings = world_settings;

	world_begin();
	settings.slots_most = 40;
	for (int i = 0; i < DAEMONS; i++)
		lock_engine_set(engine(i), &settings);
	last_request = 100;
}

static void
teardown(void)
{
	for (int i = 0; i < DAEMONS; i++) {
		ck_assert_ptr_null(engine(i)->fscks);
		ck_assert_ptr_null(engine(i)->awaited);
	}
	world_end();
}

static bool
has_a(int slot)
{
	char text[64];

	snprintf(text, sizeof(text), "db-%d-A", slot);
	return memory_world_has(world->memory, text, NULL);
}

static bool
has_quorum(int slot)
{
	char text[64];

	snprintf(text, sizeof(text), "lockbroker=q=db=%d", slot);
	return memory_world_has(world->memory, text, NULL);
}

/* "cq+2 G": slot 1 by consumer, slot 2 by queue, two slots by quorum, and a gate. */
static const char *
state(void)
{
	static char text[96];
	char b[64];
	int slot, by_quorum = 0;

	for (slot = 1; has_a(slot); slot++) {
		snprintf(b, sizeof(b), "db-%d-B", slot);
		text[slot - 1] = memory_world_durable(world->memory, b) ? 'c' : 'q';
	}
	while (has_quorum(by_quorum + 1))
		by_quorum++;
	snprintf(text + slot - 1, sizeof(text) - (size_t)slot, "+%d%s", by_quorum,
	    memory_world_has(world->memory, "db-G", NULL) ? " G" : "");
	return text;
}

static const char *
state_of(enum lock_claim claim)
{
	return claim == QUORUM ? "+3 G" : claim == CONSUMER ? "ccc+0" : "qqq+0";
}

static const struct said *
await(int daemon, uint64_t peer, uint64_t request)
{
	for (int i = 0; i < 100 && world_answer(world, daemon, peer, request) == NULL; i++)
		world_pass(world, i < 20 ? SECOND / 2 : 10 * SECOND);
	ck_assert_ptr_nonnull(world_answer(world, daemon, peer, request));
	return world_answer(world, daemon, peer, request);
}

static void
create(enum lock_claim claim, int slots)
{
	lock_create(engine(2), 9, ++last_request,
	    &(struct lock_change){.name = "db", .slots = slots, .claim = claim});
	ck_assert_int_eq(await(2, 9, last_request)->reason, REASON_NONE);
}

static uint64_t
ask(enum lock_claim convert, int64_t wait)
{
	lock_fsck(engine(ADMIN), 1, ++last_request,
	    &(struct lock_check){
		.name = "db", .repair = true, .convert = convert, .wait = wait, .progress = true});
	return last_request;
}

static const struct said *
check_run(const struct lock_check *check, const char *findings)
{
	const struct said *answer;

	lock_fsck(engine(ADMIN), 1, ++last_request, check);
	answer = await(ADMIN, 1, last_request);
	ck_assert_msg(answer->reason == REASON_NONE, "%s", answer->text);
	ck_assert_str_eq(answer->detail, findings);
	return answer;
}

static void
check_convert(enum lock_claim convert, int converted, const char *findings, const char *result)
{
	const struct said *answer = check_run(
	    &(struct lock_check){.name = "db", .repair = true, .convert = convert}, findings);

	ck_assert_int_eq(answer->converted, converted);
	ck_assert_str_eq(state(), result);
}

static void
check_fsck(bool repair, const char *findings)
{
	check_run(&(struct lock_check){.name = "db", .repair = repair}, findings);
}

/* Takes as many slots as there are; returns their number. They are released by leave(). */
static int
take_all(int daemon)
{
	int count = 0;

	while (count < 10 && acquire(daemon, 7, ++last_request, "db", TRY)->reason == REASON_NONE)
		count++;
	return count;
}

static void
leave(int daemon)
{
	lock_peer_gone(engine(daemon), 7);
	world_pass(world, SECOND);
	world->said_count = 0;
}

static void
check_slots(int slots)
{
	ck_assert_int_eq(take_all(0), slots);
	leave(0);
}

/* ---- whole conversions ---- */

static const enum lock_claim pairs[][2] = {
    {QUEUE, QUORUM}, {CONSUMER, QUORUM}, {QUORUM, QUEUE}, {QUORUM, CONSUMER}};

#define PAIRS ((int)(sizeof(pairs) / sizeof(pairs[0])))

START_TEST(free_slots_are_converted)
{
	const enum lock_claim *pair = pairs[_i];
	const struct said *answer;

	create(pair[0], SLOTS);
	check_slots(SLOTS);
	check_convert(pair[1], SLOTS, "", state_of(pair[1]));
	answer = world_answer(world, ADMIN, 1, last_request);
	ck_assert_int_eq(answer->slots, SLOTS);
	ck_assert_int_eq(answer->claim, pair[1]);
	check_slots(SLOTS);
	check_fsck(false, "");
	check_convert(pair[1], 0, "", state_of(pair[1]));
	check_convert(pair[0], SLOTS, "", state_of(pair[0]));
	check_slots(SLOTS);
	check_fsck(false, "");
}
END_TEST

/* Slots by quorum are made before the last A goes. So a free slot can be acquired at each time. */
START_TEST(a_conversion_has_no_pause)
{
	uint64_t request;

	create(QUEUE, 1);
	request = ask(QUORUM, DURATION_FOREVER);
	for (int i = 0; world_answer(world, ADMIN, 1, request) == NULL; i++) {
		const struct said *answer;
		uint64_t wish = ++last_request;

		ck_assert_int_lt(i, 1000);
		lock_acquire(engine(0), 7, wish,
		    &(struct lock_acquire){.name = "db", .timeout = SECOND / 2});
		answer = world_await(world, 0, 7, wish);
		ck_assert_msg(answer->reason == REASON_NONE, "%s", answer->text);
		release(0, 7, ++last_request, answer->lock);
		world_pass(world, 150 * MS);
	}
}
END_TEST

/* Fences of slots that are made again are larger. */
START_TEST(fences_grow_over_conversions)
{
	uint64_t last = 0;

	create(QUORUM, 1);
	for (int i = 0; i < 3; i++) {
		const struct said *answer = acquire(0, 7, ++last_request, "db", TRY);

		ck_assert_uint_gt(answer->fence, last);
		last = answer->fence;
		release(0, 7, ++last_request, answer->lock);
		check_convert(QUEUE, 1, "", "q+0");
		answer = acquire(0, 7, ++last_request, "db", TRY);
		ck_assert_uint_eq(answer->fence, 0);
		release(0, 7, ++last_request, answer->lock);
		check_convert(QUORUM, 1, "", "+1 G");
	}
}
END_TEST

START_TEST(unlimited_semaphores_are_refused)
{
	create(QUEUE, LOCK_UNLIMITED);
	ask(QUORUM, 0);
	ck_assert_int_eq(await(ADMIN, 1, last_request)->reason, REASON_NONE);
	ck_assert_int_eq(world_answer(world, ADMIN, 1, last_request)->converted, 0);
	world_make(world, "db", 2);
	ask(QUORUM, 0);
	ck_assert_int_eq(await(ADMIN, 1, last_request)->reason, REASON_INVALID_PARAMS);
}
END_TEST

/* ---- busy slots ---- */

/* The slots below a busy one stay, too. So there is no gap. */
START_TEST(a_busy_slot_stays)
{
	const enum lock_claim *pair = pairs[_i];
	const struct said *one, *two;
	uint64_t lock;

	create(pair[0], SLOTS);
	one = acquire(0, 7, ++last_request, "db", TRY);
	lock = one->lock;
	two = acquire(0, 7, ++last_request, "db", TRY);
	ck_assert_int_ne(one->slot, two->slot);
	ck_assert_int_eq(one->slot == 2 || two->slot == 2, 1);
	if (one->slot == 2)
		release(0, 7, ++last_request, two->lock);
	else
		release(0, 7, ++last_request, lock);
	lock = one->slot == 2 ? one->lock : two->lock;
	world_pass(world, SECOND);
	check_convert(pair[1], 1, "claim:1 claim:2",
	    pair[1] == QUORUM ? (pair[0] == QUEUE ? "qq+3 G" : "cc+3 G") : "+2 G");
	/* The other slot can be used. */
	ck_assert_int_eq(take_all(2), 1);
	leave(2);
	release(0, 7, ++last_request, lock);
	world_pass(world, SECOND);
	check_slots(2);
	check_convert(pair[1], pair[1] == QUORUM ? 2 : 3, pair[1] == QUORUM ? "" : "gap:3!",
	    state_of(pair[1]));
	check_slots(SLOTS);
	check_fsck(false, "");
}
END_TEST

START_TEST(a_conversion_waits_for_busy_slots)
{
	const enum lock_claim *pair = pairs[_i];
	uint64_t request;

	create(pair[0], SLOTS);
	ck_assert_int_eq(take_all(0), SLOTS);
	request = ask(pair[1], DURATION_FOREVER);
	world_pass(world, 20 * SECOND);
	ck_assert_ptr_null(world_answer(world, ADMIN, 1, request));
	ck_assert_int_eq(world_notices(world, ADMIN, 1, LOCK_NOTICE_HOLDERS), 1);
	/* No other change is made meanwhile. */
	if (pair[1] == QUORUM) {
		lock_resize(
		    engine(2), 9, ++last_request, &(struct lock_change){.name = "db", .slots = 5});
		ck_assert_int_eq(await(2, 9, last_request)->reason, REASON_WOULD_BLOCK);
		lock_destroy(engine(2), 9, ++last_request, &(struct lock_change){.name = "db"});
		ck_assert_int_eq(await(2, 9, last_request)->reason, REASON_WOULD_BLOCK);
		lock_create(engine(2), 9, ++last_request,
		    &(struct lock_change){.name = "db", .slots = SLOTS, .exist_ok = true});
		ck_assert_int_eq(await(2, 9, last_request)->reason, REASON_NONE);
		ck_assert(memory_world_has(world->memory, "db-G", NULL));
	}
	lock_peer_gone(engine(0), 7);
	ck_assert_int_eq(await(ADMIN, 1, request)->reason, REASON_NONE);
	ck_assert_str_eq(await(ADMIN, 1, request)->detail, "");
	ck_assert_int_eq(await(ADMIN, 1, request)->converted, SLOTS);
	ck_assert_str_eq(state(), state_of(pair[1]));
	check_slots(SLOTS);
	check_fsck(false, "");
}
END_TEST

/* A resize while the conversion waits: its size counts. */
START_TEST(a_resize_meanwhile_counts)
{
	uint64_t request;

	create(QUORUM, SLOTS);
	ck_assert_int_eq(take_all(0), SLOTS);
	request = ask(QUEUE, DURATION_FOREVER);
	world_pass(world, SECOND);
	lock_resize(engine(2), 9, ++last_request, &(struct lock_change){.name = "db", .slots = 4});
	ck_assert_int_eq(await(2, 9, last_request)->reason, REASON_NONE);
	lock_peer_gone(engine(0), 7);
	ck_assert_int_eq(await(ADMIN, 1, request)->reason, REASON_NONE);
	ck_assert_str_eq(state(), "qqqq+0");
	check_fsck(false, "");
}
END_TEST

/* A waiter hears of the first slot of the other kind. */
START_TEST(waiters_go_on)
{
	const enum lock_claim *pair = pairs[_i];
	uint64_t request, waiting;

	create(pair[0], 1);
	ck_assert_int_eq(take_all(0), 1);
	waiting = ++last_request;
	lock_acquire(engine(2), 8, waiting,
	    &(struct lock_acquire){.name = "db", .timeout = DURATION_FOREVER});
	request = ask(pair[1], DURATION_FOREVER);
	world_pass(world, SECOND);
	lock_peer_gone(engine(0), 7);
	await(2, 8, waiting);
	ck_assert_int_eq(world_answer(world, 2, 8, waiting)->reason, REASON_NONE);
	world_pass(world, 5 * SECOND);
	lock_peer_gone(engine(2), 8);
	ck_assert_int_eq(await(ADMIN, 1, request)->reason, REASON_NONE);
	check_slots(1);
}
END_TEST

/* ---- As beside slots by quorum ---- */

/* As a daemon of version 0.1 does it: it takes the slots for a gate. */
static void
open_gate(int slots)
{
	world_make(world, "db", slots);
	ck_assert(memory_world_remove(world->memory, "db-G"));
}

START_TEST(an_opened_gate_is_found_and_repaired)
{
	const struct said *answer;
	uint64_t lock, fence;

	create(QUORUM, SLOTS);
	answer = acquire(0, 7, ++last_request, "db", TRY);
	fence = answer->fence;
	open_gate(2);
	check_fsck(false, "markers:0 claim:1 claim:2");
	/* Somebody holds the second slot that was made. */
	ck_assert(memory_world_put(world->memory, "db-2-B", true));
	check_fsck(true, "markers:0 claim:1 claim:2");
	ck_assert_str_eq(state(), "qq+3 G");
	check_fsck(true, "markers:0 claim:1 claim:2");
	ck_assert(memory_world_remove(world->memory, "db-2-B"));
	check_fsck(true, "markers:0! claim:1! claim:2!");
	ck_assert_str_eq(state(), "+3 G");
	check_fsck(false, "");
	/* The holder by quorum was left alone. */
	ck_assert_int_eq(take_all(2), SLOTS - 1);
	leave(2);
	lock = answer->lock;
	release(0, 7, ++last_request, lock);
	answer = acquire(0, 7, ++last_request, "db", TRY);
	ck_assert_uint_gt(answer->fence, fence);
	release(0, 7, ++last_request, answer->lock);
	check_slots(SLOTS);
}
END_TEST

START_TEST(an_opened_gate_is_converted)
{
	create(QUORUM, SLOTS);
	open_gate(2);
	check_convert(
	    _i == 0 ? QUEUE : QUORUM, _i == 0 ? 3 : 2, "markers:0!", _i == 0 ? "qqq+0" : "+3 G");
	check_slots(SLOTS);
	check_fsck(false, "");
}
END_TEST

/* No node leads the queue of slot 1. The slots with As can be used, and so they stay. */
START_TEST(slots_that_cannot_be_held_replace_none)
{
	const char *b = "lockbroker=q=db=1";

	create(QUORUM, SLOTS);
	open_gate(2);
	ck_assert_uint_eq(memory_world_purge(world->memory, b), 3);
	ck_assert(memory_world_starve(world->memory, b, true));
	check_fsck(true, "markers:0 claim:1 unreachable:1 claim:2");
	memory_world_purge(world->memory, b);
	check_convert(QUORUM, 0, "claim:1 unreachable:1 claim:2", "qq+3 G");
	check_slots(2);
	ck_assert(memory_world_starve(world->memory, b, false));
	check_convert(QUORUM, 2, "no-beads:1!", "+3 G");
	check_slots(SLOTS);
}
END_TEST

/* Without slot 1 and a record, its queues are of no name. */
START_TEST(a_left_queue_is_no_slot)
{
	create(QUEUE, 2);
	ck_assert(memory_world_put_quorum(world->memory, "lockbroker=q=db=2"));
	check_fsck(true, "");
	ck_assert_str_eq(state(), "qq+0");
}
END_TEST

/* ---- accidents ---- */

/* A set that was not made clean yet costs its first holder a grace. */
static void
check_slots_in_time(void)
{
	take_all(0);
	leave(0);
	world_pass(world, 60 * SECOND);
	check_slots(SLOTS);
}

/* After so many timers more, each time. The last cut comes after the end. */
#define CUT_STEPS 4
#define CUTS 66

enum accident { CUT, CHANNELS, DEATH, RESTART };

/* With all that is not durable. */
static void
restart_broker(void)
{
	memory_world_restart(world->memory);
	for (int daemon = 0; daemon < DAEMONS; daemon++)
		for (enum broker_link link = 0; link < BROKER_LINKS; link++)
			memory_broker_cut(world->daemon[daemon].broker, link, 0, MS, "restart");
}

/*
 * However a conversion ends: there are never more holders than slots, fsck finds what is left, and a repair
 * or the same command completes it.
 */
static void
check_cut(const enum lock_claim *pair, int steps, enum accident accident, bool same)
{
	uint64_t request;
	int taken;

	create(pair[0], SLOTS);
	request = ask(pair[1], 0);
	for (int step = 0; step < steps; step++)
		if (!world_step(world, SECOND))
			world_pass(world, SECOND);
	if (steps == CUT_STEPS * (CUTS - 1))
		ck_assert_ptr_nonnull(world_answer(world, ADMIN, 1, request));
	if (accident == CUT)
		broker_reset(world->daemon[ADMIN].broker, BROKER_AUXILIARY, "cut");
	else if (accident == CHANNELS)
		world_close_channels(world, ADMIN, BROKER_AUXILIARY);
	else if (accident == DEATH)
		world_kill(world, ADMIN);
	else
		restart_broker();
	world_pass(world, accident == CHANNELS  ? 100 * MS
			  : accident == RESTART ? 60 * SECOND
						: SECOND);
	taken = take_all(0);
	ck_assert_int_le(taken + take_all(2), SLOTS);
	lock_peer_gone(engine(0), 7);
	lock_peer_gone(engine(2), 7);
	world_pass(world, 200 * SECOND);
	lock_fsck(engine(2), 1, ++last_request,
	    &(struct lock_check){
		.name = "db", .repair = true, .convert = same ? pair[1] : LOCK_CLAIM_UNKNOWN});
	ck_assert_msg(await(2, 1, last_request)->reason == REASON_NONE, "%s",
	    await(2, 1, last_request)->text);
	if (same)
		ck_assert_str_eq(state(), state_of(pair[1]));
	else if (strcmp(state(), state_of(pair[0])) != 0)
		ck_assert_str_eq(state(), state_of(pair[1]));
	world->said_count = 0;
	lock_fsck(engine(2), 1, ++last_request, &(struct lock_check){.name = "db"});
	ck_assert_str_eq(await(2, 1, last_request)->detail, "");
	check_slots_in_time();
}

/* A process for each cut would take long. */
static void
check_cuts(const enum lock_claim *pair, enum accident accident)
{
	for (int cut = 0; cut < CUTS; cut++) {
		if (cut > 0) {
			teardown();
			setup();
		}
		/* A channel that ends does not end the conversion. */
		check_cut(pair, cut * CUT_STEPS, accident, accident == CHANNELS || cut % 2 == 0);
	}
}

START_TEST(a_connection_that_ends_at_any_step)
{
	check_cuts(pairs[_i], CUT);
}
END_TEST

START_TEST(channels_that_end_at_any_step)
{
	check_cuts(pairs[_i], CHANNELS);
}
END_TEST

START_TEST(a_daemon_that_dies_at_any_step)
{
	check_cuts(pairs[_i], DEATH);
}
END_TEST

START_TEST(a_broker_that_restarts_at_any_step)
{
	check_cuts(pairs[_i], RESTART);
}
END_TEST

START_TEST(an_alarm_ends_it)
{
	const enum lock_claim *pair = pairs[_i];

	create(pair[0], SLOTS);
	memory_world_block(world->memory, true);
	world_pass(world, SECOND);
	ask(pair[1], 0);
	ck_assert_int_ne(await(ADMIN, 1, last_request)->reason, REASON_NONE);
	memory_world_block(world->memory, false);
	world_pass(world, 60 * SECOND);
	check_slots(SLOTS);
	ask(pair[1], 0);
	ck_assert_int_eq(await(ADMIN, 1, last_request)->reason, REASON_NONE);
	ck_assert_str_eq(state(), state_of(pair[1]));
}
END_TEST

/* ---- under load ---- */

#define CLIENTS 6

struct client {
	enum { IDLE, ASKING, HOLDING } state;
	uint64_t request, lock;
	int steps;
};

/* Each client of daemons 0 and 2 polls for a slot, and holds it for a while. Returns the change of holders. */
static int
client_step(struct client *client, int number)
{
	int daemon = number % 2 == 0 ? 0 : 2;
	uint64_t peer = 10 + (uint64_t)number;
	const struct said *answer;

	switch (client->state) {
	case IDLE:
		world_acquire(world, daemon, peer, ++client->request, "db", TRY);
		client->state = ASKING;
		return 0;
	case ASKING:
		answer = world_answer(world, daemon, peer, client->request);
		if (answer == NULL)
			return 0;
		client->state = answer->reason == REASON_NONE ? HOLDING : IDLE;
		client->lock = answer->lock;
		client->steps = 1 + number;
		return client->state == HOLDING;
	case HOLDING:
		if (--client->steps > 0)
			return 0;
		lock_release(engine(daemon), peer, ++client->request, client->lock);
		client->state = IDLE;
		return -1;
	}
	return 0;
}

static void
forget_answers(const struct client *clients)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (clients[i].state == ASKING && world_answer(world, i % 2 == 0 ? 0 : 2,
						      10 + (uint64_t)i, clients[i].request) != NULL)
			return;
	}
	world->said_count = 0;
}

START_TEST(slots_in_use_are_converted)
{
	struct client clients[CLIENTS] = {{0}};
	int holders = 0;

	create(QUEUE, SLOTS);
	for (int round = 0; round < 4; round++) {
		uint64_t request = ask(round % 2 == 0 ? QUORUM : CONSUMER, DURATION_FOREVER);

		for (int i = 0; world_answer(world, ADMIN, 1, request) == NULL; i++) {
			ck_assert_msg(i < 100000, "%s", state());
			for (int number = 0; number < CLIENTS; number++)
				holders += client_step(&clients[number], number);
			ck_assert_int_le(holders, SLOTS);
			forget_answers(clients);
			world_pass(world, 7 * MS);
		}
		ck_assert_int_eq(world_answer(world, ADMIN, 1, request)->reason, REASON_NONE);
		ck_assert_str_eq(state(), state_of(round % 2 == 0 ? QUORUM : CONSUMER));
	}
	for (int number = 0; number < CLIENTS; number++)
		lock_peer_gone(engine(number % 2 == 0 ? 0 : 2), 10 + (uint64_t)number);
	world_pass(world, SECOND);
}
END_TEST

Suite *
suite_lock_convert_quorum(void)
{
	Suite *suite = suite_create("lock: conversion and quorum");
	TCase *tc = tcase_create("convert_quorum"), *cut = tcase_create("convert_quorum_cut");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, free_slots_are_converted, 0, PAIRS);
	tcase_add_test(tc, a_conversion_has_no_pause);
	tcase_add_test(tc, fences_grow_over_conversions);
	tcase_add_test(tc, unlimited_semaphores_are_refused);
	tcase_add_loop_test(tc, a_busy_slot_stays, 0, PAIRS);
	tcase_add_loop_test(tc, a_conversion_waits_for_busy_slots, 0, PAIRS);
	tcase_add_test(tc, a_resize_meanwhile_counts);
	tcase_add_loop_test(tc, waiters_go_on, 0, PAIRS);
	tcase_add_test(tc, an_opened_gate_is_found_and_repaired);
	tcase_add_loop_test(tc, an_opened_gate_is_converted, 0, 2);
	tcase_add_test(tc, slots_that_cannot_be_held_replace_none);
	tcase_add_test(tc, a_left_queue_is_no_slot);
	tcase_add_loop_test(tc, an_alarm_ends_it, 0, PAIRS);
	tcase_add_test(tc, slots_in_use_are_converted);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(cut, setup, teardown);
	tcase_set_timeout(cut, 120);
	tcase_add_loop_test(cut, a_connection_that_ends_at_any_step, 0, PAIRS);
	tcase_add_loop_test(cut, channels_that_end_at_any_step, 0, PAIRS);
	tcase_add_loop_test(cut, a_daemon_that_dies_at_any_step, 0, PAIRS);
	tcase_add_loop_test(cut, a_broker_that_restarts_at_any_step, 0, PAIRS);
	suite_add_tcase(suite, cut);
	return suite;
}
