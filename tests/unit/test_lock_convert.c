/*
 * fsck of semaphores whose slots are held by consumers, and conversion from one way to the other.
 */
#include "daemon/lock/engine.h"
#include "daemon/lock/fsck.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define QUEUE LOCK_CLAIM_BY_QUEUE
#define CONSUMER LOCK_CLAIM_BY_CONSUMER

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
		ck_assert(lock_quiet(engine(i)));
	}
	world_end();
}

static const char *
queue(char part, int slot)
{
	static char text[64];

	snprintf(text, sizeof(text), "db-%d-%c", slot, part);
	return text;
}

static bool
is_durable(int slot)
{
	return memory_world_durable(world->memory, queue('B', slot));
}

/* "cq": slot 1 by consumer, slot 2 by queue. */
static const char *
ways(void)
{
	static char text[64];
	int slot;

	for (slot = 1; memory_world_has(world->memory, queue('A', slot), NULL); slot++)
		text[slot - 1] = is_durable(slot) ? 'c' : 'q';
	text[slot - 1] = '\0';
	return text;
}

static void
make(const char *each)
{
	world_make(world, "db", (int)strlen(each));
	memory_world_publish(
	    world->memory, queue_name_directory(&queue_naming_amqp_locks).text, "db");
	for (int slot = 1; each[slot - 1] != '\0'; slot++) {
		if (each[slot - 1] == 'c')
			ck_assert(memory_world_put_holder(world->memory, queue('B', slot)));
	}
	ck_assert_str_eq(ways(), each);
}

static void
ask(enum lock_claim convert, int64_t wait)
{
	lock_fsck(engine(0), 1, ++last_request,
	    &(struct lock_check){
		.name = "db", .repair = true, .convert = convert, .wait = wait, .progress = true});
}

static const struct said *
answered(void)
{
	return world_await(world, 0, 1, last_request);
}

static void
check_fsck(bool repair, const char *findings)
{
	lock_fsck(
	    engine(0), 1, ++last_request, &(struct lock_check){.name = "db", .repair = repair});
	ck_assert_msg(answered()->reason == REASON_NONE, "%s", answered()->text);
	ck_assert_str_eq(answered()->detail, findings);
}

static void
check_convert(enum lock_claim convert, int converted, const char *findings, const char *result)
{
	ask(convert, 0);
	ck_assert_msg(answered()->reason == REASON_NONE, "%s", answered()->text);
	ck_assert_int_eq(answered()->converted, converted);
	ck_assert_str_eq(answered()->detail, findings);
	ck_assert_str_eq(ways(), result);
}

/* ---- findings ---- */

START_TEST(a_sound_semaphore_is_clean)
{
	make("ccc");
	ck_assert(memory_world_hold(world->memory, "db-2-B"));
	check_fsck(false, "");
	check_fsck(true, "");
	ck_assert_int_eq(answered()->claim, CONSUMER);
	ck_assert_str_eq(ways(), "ccc");
}
END_TEST

START_TEST(a_left_holder_queue_is_deleted)
{
	make("cc");
	ck_assert(memory_world_put_holder(world->memory, "db-4-B"));
	ck_assert(memory_world_put_holder(world->memory, "db-5-B"));
	ck_assert(memory_world_hold(world->memory, "db-5-B"));
	check_fsck(false, "leftover:4 orphan:5");
	ck_assert(is_durable(4));
	check_fsck(true, "leftover:4! orphan:5");
	ck_assert(!is_durable(4) && is_durable(5));
	ck_assert(memory_world_let_go(world->memory, "db-5-B"));
	check_fsck(true, "leftover:5!");
	check_fsck(false, "");
}
END_TEST

START_TEST(an_uncounted_slot_goes_with_its_holder_queue)
{
	make("cc");
	ck_assert(memory_world_put(world->memory, "db-4-A", false));
	ck_assert(memory_world_put_holder(world->memory, "db-4-B"));
	check_fsck(true, "gap:3! uncounted:4!");
	ck_assert(!is_durable(4));
}
END_TEST

START_TEST(slots_are_converted_on_request_alone)
{
	make("cqcq");
	check_fsck(false, "claim:2 claim:4");
	ck_assert_int_eq(answered()->claim, LOCK_CLAIM_MIXED);
	check_fsck(true, "claim:2 claim:4");
	ck_assert_int_eq(answered()->converted, 0);
	ck_assert_str_eq(ways(), "cqcq");
	check_convert(CONSUMER, 2, "", "cccc");
	/* Somebody deleted the holder queue of slot 1. */
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	ck_assert(memory_world_put_holder(world->memory, "db-6-B"));
	check_fsck(true, "claim:2 claim:3 claim:4 leftover:6!");
	ck_assert_str_eq(ways(), "qccc");
	lock_resize(engine(0), 1, 50, &(struct lock_change){.name = "db", .slots = 5});
	ck_assert_int_eq(world_await(world, 0, 1, 50)->reason, REASON_NONE);
	ck_assert_str_eq(ways(), "qcccc");
	lock_resize(
	    engine(0), 1, 51, &(struct lock_change){.name = "db", .slots = 6, .claim = CONSUMER});
	ck_assert_str_eq(
	    world_await(world, 0, 1, 51)->text, "its slots are held in different ways, see fsck");
	check_convert(CONSUMER, 1, "", "ccccc");
	check_fsck(false, "");
}
END_TEST

START_TEST(a_holder_queue_declared_otherwise_is_made_again)
{
	make("cq");
	ck_assert(memory_world_put_otherwise(world->memory, "db-2-B"));
	ck_assert(memory_world_hold(world->memory, "db-2-B"));
	check_fsck(true, "arguments:2");
	ck_assert(memory_world_let_go(world->memory, "db-2-B"));
	/* Nobody holds it, and it looks busy. */
	lock_acquire(
	    engine(1), 2, 1, &(struct lock_acquire){.name = "db", .timeout = DURATION_FOREVER});
	lock_acquire(
	    engine(1), 2, 2, &(struct lock_acquire){.name = "db", .timeout = DURATION_FOREVER});
	world_pass(world, 20 * SECOND);
	ck_assert(world_answer(world, 1, 2, 1) != NULL);
	ck_assert(world_answer(world, 1, 2, 2) == NULL);
	check_fsck(false, "arguments:2");
	check_fsck(true, "arguments:2!");
	world_pass(world, 20 * SECOND);
	ck_assert_int_eq(world_answer(world, 1, 2, 2)->reason, REASON_NONE);
	ck_assert_str_eq(ways(), "cc");
	lock_peer_gone(engine(1), 2);
	world_pass(world, SECOND);
	check_fsck(false, "");
	/* An exclusive queue that is gone after the scan does not come back durable. */
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	ck_assert(memory_world_remove(world->memory, "db-2-B"));
	ck_assert(memory_world_put(world->memory, "db-2-B", true));
	lock_fsck(engine(0), 1, ++last_request, &(struct lock_check){.name = "db"});
	for (int i = 0; i < 3; i++)
		world_step(world, SECOND);
	ck_assert(memory_world_remove(world->memory, "db-2-B"));
	ck_assert_str_eq(answered()->detail, "");
	ck_assert_str_eq(ways(), "qq");
}
END_TEST

START_TEST(a_holder_queue_that_cannot_be_reached_is_told)
{
	make("ccc");
	ck_assert(memory_world_put_holder(world->memory, "db-5-B"));
	ck_assert(memory_world_set_home(world->memory, "db-2-B", 1));
	ck_assert(memory_world_set_home(world->memory, "db-5-B", 1));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
	check_fsck(true, "unreachable:2 unreachable:5");
	check_convert(QUEUE, 2, "claim:2 unreachable:2 unreachable:5", "qcq");
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	check_convert(QUEUE, 1, "leftover:5!", "qqq");
}
END_TEST

/* ---- conversion ---- */

START_TEST(all_free_slots_are_converted)
{
	make("qqqqqqqqqq");
	check_convert(CONSUMER, 10, "", "cccccccccc");
	check_convert(CONSUMER, 0, "", "cccccccccc");
	check_convert(QUEUE, 10, "", "qqqqqqqqqq");
	ck_assert_int_eq(answered()->claim, QUEUE);
}
END_TEST

START_TEST(busy_slots_stay_as_they_are)
{
	make("qqq");
	ck_assert(memory_world_put(world->memory, "db-2-B", true));
	check_convert(CONSUMER, 2, "claim:2", "cqc");
	ck_assert(memory_world_remove(world->memory, "db-2-B"));
	check_convert(CONSUMER, 1, "", "ccc");
	ck_assert(memory_world_hold(world->memory, "db-3-B"));
	check_convert(QUEUE, 2, "claim:3", "qqc");
	ck_assert(memory_world_let_go(world->memory, "db-3-B"));
	check_convert(QUEUE, 1, "", "qqq");
}
END_TEST

START_TEST(a_conversion_waits_for_busy_slots)
{
	make("qq");
	ck_assert(memory_world_put(world->memory, "db-2-B", true));
	ask(CONSUMER, DURATION_FOREVER);
	world_pass(world, 20 * SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 1, last_request));
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_HOLDERS), 1);
	ck_assert_str_eq(ways(), "cq");
	/* The administration mutex is free, and other requests of the peer are served. */
	lock_resize(engine(0), 1, 50, &(struct lock_change){.name = "db", .slots = 3});
	ck_assert_int_eq(world_await(world, 0, 1, 50)->reason, REASON_NONE);
	ck_assert(memory_world_remove(world->memory, "db-2-B"));
	ck_assert_int_eq(answered()->reason, REASON_NONE);
	ck_assert_str_eq(answered()->detail, "");
	ck_assert_int_eq(answered()->converted, 2);
	ck_assert_str_eq(ways(), "ccc");
}
END_TEST

/* A probe alone cannot tell it from an exclusive queue. */
START_TEST(a_wait_knows_a_holder_queue_that_was_declared_otherwise)
{
	make("qqq");
	ck_assert(memory_world_put_otherwise(world->memory, "db-2-B"));
	ck_assert(memory_world_hold(world->memory, "db-2-B"));
	ck_assert(memory_world_put(world->memory, "db-3-B", true));
	ask(CONSUMER, DURATION_FOREVER);
	world_pass(world, 20 * SECOND);
	ck_assert(memory_world_remove(world->memory, "db-3-B"));
	ck_assert_int_eq(answered()->reason, REASON_NONE);
	ck_assert_int_eq(answered()->converted, 2);
	ck_assert_str_eq(answered()->detail, "arguments:2");
	ck_assert_str_eq(ways(), "ccc");
	ask(QUEUE, DURATION_FOREVER);
	world_pass(world, 20 * SECOND);
	ck_assert_str_eq(ways(), "qcq");
	ck_assert_ptr_null(world_answer(world, 0, 1, last_request));
	ck_assert(memory_world_let_go(world->memory, "db-2-B"));
	ck_assert_int_eq(answered()->reason, REASON_NONE);
	ck_assert_int_eq(answered()->converted, 3);
	ck_assert_str_eq(ways(), "qqq");
}
END_TEST

START_TEST(an_unknown_answer_does_not_end_a_wait)
{
	make("qq");
	ck_assert(memory_world_put(world->memory, "db-2-B", true));
	ask(CONSUMER, _i == 0 ? DURATION_FOREVER : 30 * SECOND);
	world_pass(world, SECOND);
	world->nacks = 1;
	world_pass(world, 5 * SECOND);
	ck_assert_uint_eq(world->nacks, 0);
	if (_i == 0)
		ck_assert(memory_world_remove(world->memory, "db-2-B"));
	ck_assert_int_eq(answered()->reason, REASON_NONE);
	ck_assert_int_eq(answered()->converted, 2 - _i);
	ck_assert_str_eq(answered()->detail, _i == 0 ? "" : "claim:2");
}
END_TEST

/* The mutex is taken once a pass, so 4 times a second at most. */
START_TEST(freed_slots_do_not_make_a_wait_busy)
{
	unsigned scans = 0;
	bool was = false, is;

	make("qqq");
	ck_assert(memory_world_put(world->memory, "db-1-B", true));
	ck_assert(memory_world_put(world->memory, "db-3-B", true));
	ask(CONSUMER, DURATION_FOREVER);
	world_pass(world, 5 * SECOND);
	ck_assert_str_eq(ways(), "qcq");
	for (uint64_t i = 1; i <= 1000; i++) {
		lock_acquire(engine(0), 2, i, &(struct lock_acquire){.name = "db"});
		lock_release(engine(0), 2, 2000 + i, world_await(world, 0, 2, i)->lock);
		for (int64_t end = world->now + 10 * MS; world_step(world, end - world->now);) {
			is = engine(0)->full_scans != NULL;
			scans += is && !was;
			was = is;
		}
		world_pass(world, MS);
		world->said_count = 0;
	}
	ck_assert_uint_ge(scans, 10);
	ck_assert_uint_le(scans, 50);
	lock_peer_gone(engine(0), 2);
	ck_assert(lock_cancel(engine(0), 1, last_request));
}
END_TEST

/* Each try of a busy slot is refused, which RabbitMQ writes to its log. */
START_TEST(a_long_wait_tries_few_busy_slots)
{
	unsigned before;

	make("qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq");
	for (int slot = 1; slot <= 30; slot++)
		ck_assert(memory_world_put(world->memory, queue('B', slot), true));
	ask(CONSUMER, DURATION_FOREVER);
	world_pass(world, 10 * SECOND);
	before = world->asked;
	world_pass(world, 10 * SECOND);
	/* The mutex, two scans and a try, for each of at most 40 passes. */
	ck_assert_uint_ge(world->asked, before + 40);
	ck_assert_uint_le(world->asked, before + 320);
	ck_assert(lock_cancel(engine(0), 1, last_request));
}
END_TEST

START_TEST(a_wait_ends_at_its_deadline)
{
	int64_t before;

	make("cc");
	ck_assert(memory_world_hold(world->memory, "db-2-B"));
	before = world->now;
	ask(QUEUE, 30 * SECOND);
	ck_assert_int_eq(answered()->reason, REASON_NONE);
	ck_assert_int_ge(world->now - before, 30 * SECOND);
	ck_assert_str_eq(answered()->detail, "claim:2");
	ck_assert_str_eq(ways(), "qc");
}
END_TEST

START_TEST(a_wait_is_cancelled_or_ends_with_its_peer_or_the_daemon)
{
	make("cc");
	ck_assert(memory_world_hold(world->memory, "db-2-B"));
	ask(QUEUE, DURATION_FOREVER);
	ck_assert(!lock_cancel(engine(0), 1, last_request)); /* it is at work */
	world_pass(world, SECOND);
	ck_assert(lock_cancel(engine(0), 1, last_request));
	ck_assert(!lock_cancel(engine(0), 1, last_request));
	ck_assert_int_eq(answered()->reason, REASON_CANCELLED);
	ask(QUEUE, DURATION_FOREVER);
	world_pass(world, SECOND);
	lock_peer_gone(engine(0), 1);
	world_pass(world, SECOND);
	ck_assert_ptr_null(engine(0)->fscks);
	ask(QUEUE, DURATION_FOREVER);
	world_pass(world, SECOND);
	lock_drain(engine(0));
	ck_assert_int_eq(answered()->reason, REASON_DRAINING);
}
END_TEST

START_TEST(an_engine_ends_in_the_middle_of_a_wait)
{
	make("cc");
	ck_assert(memory_world_hold(world->memory, "db-2-B"));
	ask(QUEUE, DURATION_FOREVER);
	world_pass(world, SECOND);
	world_kill(world, 0);
}
END_TEST

/* Whatever was begun: the next one completes it. */
START_TEST(a_link_that_dies_at_any_step)
{
	static const char *const from[] = {"qcqc", "cqcq"};

	for (int round = 0; round < 2; round++) {
		make(from[round]);
		for (int steps = 0; steps < 60; steps++) {
			enum lock_claim to = steps % 2 == 0 ? CONSUMER : QUEUE;

			ask(to, 0);
			for (int i = 0; i < steps; i++)
				world_step(world, SECOND);
			memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
			answered();
			world_pass(world, SECOND);
			ask(to, 0);
			ck_assert_int_eq(answered()->reason, REASON_NONE);
			ck_assert_str_eq(ways(), to == CONSUMER ? "cccc" : "qqqq");
			world->said_count = 0;
		}
		lock_destroy(engine(0), 1, 50, &(struct lock_change){.name = "db"});
		world_await(world, 0, 1, 50);
		world_pass(world, SECOND);
		world->said_count = 0;
	}
}
END_TEST

START_TEST(a_channel_that_dies_at_any_step_leaves_no_slot_out)
{
	static const char *const from[] = {"qcqc", "cqcq"};
	enum lock_claim to = _i == 0 ? CONSUMER : QUEUE;

	make(from[_i]);
	for (int steps = 0; steps < 60; steps++) {
		ask(to, 0);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		world_close_channels(world, 0, BROKER_AUXILIARY);
		/* The directory has a channel of its own, whose end ends the fsck. */
		if (answered()->reason == REASON_NONE)
			ck_assert_str_eq(ways(), to == CONSUMER ? "cccc" : "qqqq");
		world_pass(world, SECOND);
		to = to == CONSUMER ? QUEUE : CONSUMER;
		world->said_count = 0;
	}
}
END_TEST

/* ---- under load ---- */

#define CLIENTS 6

struct client {
	enum { IDLE, ASKING, HOLDING } state;
	uint64_t request, lock;
	int slot, steps;
};

/* Each client of daemons 1 and 2 waits for a slot, and holds it for a while. */
static void
client_step(struct client *client, int number, int *owners)
{
	int daemon = 1 + number % 2;
	uint64_t peer = 10 + (uint64_t)number;
	const struct said *answer;

	switch (client->state) {
	case IDLE:
		world_acquire(world, daemon, peer, ++client->request, "db", DURATION_FOREVER);
		client->state = ASKING;
		return;
	case ASKING:
		answer = world_answer(world, daemon, peer, client->request);
		if (answer == NULL)
			return;
		ck_assert_msg(answer->reason == REASON_NONE, "%s", answer->text);
		client->lock = answer->lock;
		client->slot = answer->slot;
		client->steps = 1 + number;
		client->state = HOLDING;
		ck_assert_int_eq(++owners[client->slot], 1);
		return;
	case HOLDING:
		if (--client->steps > 0)
			return;
		owners[client->slot]--;
		lock_release(engine(daemon), peer, ++client->request, client->lock);
		client->state = IDLE;
		return;
	}
}

/* There is no room for all. A hand-off may have answered a client just now. */
static void
forget_answers(const struct client *clients)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (clients[i].state == ASKING &&
		    world_answer(world, 1 + i % 2, 10 + (uint64_t)i, clients[i].request) != NULL)
			return;
	}
	world->said_count = 0;
}

START_TEST(slots_in_use_are_converted)
{
	struct client clients[CLIENTS] = {{0}};
	int owners[8] = {0};

	make("qqqq");
	for (int round = 0; round < 4; round++) {
		ask(round % 2 == 0 ? CONSUMER : QUEUE, DURATION_FOREVER);
		for (int i = 0; world_answer(world, 0, 1, last_request) == NULL; i++) {
			ck_assert_msg(i < 20000, "%s", ways());
			for (int number = 0; number < CLIENTS; number++)
				client_step(&clients[number], number, owners);
			forget_answers(clients);
			world_pass(world, 7 * MS);
		}
		ck_assert_int_eq(answered()->reason, REASON_NONE);
		ck_assert_str_eq(ways(), round % 2 == 0 ? "cccc" : "qqqq");
	}
	for (int number = 0; number < CLIENTS; number++)
		lock_peer_gone(engine(1 + number % 2), 10 + (uint64_t)number);
	world_pass(world, SECOND);
}
END_TEST

Suite *
suite_lock_convert(void)
{
	Suite *suite = suite_create("lock: conversion");
	TCase *tc = tcase_create("convert");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, a_sound_semaphore_is_clean);
	tcase_add_test(tc, a_left_holder_queue_is_deleted);
	tcase_add_test(tc, an_uncounted_slot_goes_with_its_holder_queue);
	tcase_add_test(tc, slots_are_converted_on_request_alone);
	tcase_add_test(tc, a_holder_queue_declared_otherwise_is_made_again);
	tcase_add_test(tc, a_holder_queue_that_cannot_be_reached_is_told);
	tcase_add_test(tc, all_free_slots_are_converted);
	tcase_add_test(tc, busy_slots_stay_as_they_are);
	tcase_add_test(tc, a_conversion_waits_for_busy_slots);
	tcase_add_test(tc, a_wait_knows_a_holder_queue_that_was_declared_otherwise);
	tcase_add_loop_test(tc, an_unknown_answer_does_not_end_a_wait, 0, 2);
	tcase_add_test(tc, freed_slots_do_not_make_a_wait_busy);
	tcase_add_test(tc, a_long_wait_tries_few_busy_slots);
	tcase_add_test(tc, a_wait_ends_at_its_deadline);
	tcase_add_test(tc, a_wait_is_cancelled_or_ends_with_its_peer_or_the_daemon);
	tcase_add_test(tc, an_engine_ends_in_the_middle_of_a_wait);
	tcase_add_test(tc, a_link_that_dies_at_any_step);
	tcase_add_loop_test(tc, a_channel_that_dies_at_any_step_leaves_no_slot_out, 0, 2);
	tcase_add_test(tc, slots_in_use_are_converted);
	suite_add_tcase(suite, tc);
	return suite;
}
