/*
 * Administration of semaphores whose slots are held by consumers, over the server in memory.
 */
#include "daemon/lock/engine.h"
#include "tests/unit/admin_state.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static uint64_t last_request;

static void
setup(void)
{
	world_begin();
	last_request = 0;
}

static void
set_claim(enum broker_way claim)
{
	struct lock_settings settings = world_settings;

	settings.claim = claim;
	for (int i = 0; i < DAEMONS; i++)
		lock_engine_set(engine(i), &settings);
}

static const char *
queue(char part, int slot)
{
	static char text[64];

	snprintf(text, sizeof(text), "db-%d-%c", slot, part);
	return text;
}

static bool
has(char part, int slot)
{
	return memory_world_has(world->memory, queue(part, slot), NULL);
}

static int
durable_holder_queues(void)
{
	int count = 0;

	for (int slot = 1; slot <= 100; slot++)
		count += memory_world_durable(world->memory, queue('B', slot));
	return count;
}

static const struct said *
create(int slots, enum lock_claim claim)
{
	lock_create(engine(0), 1, ++last_request,
	    &(struct lock_change){.name = "db", .slots = slots, .claim = claim});
	return world_await(world, 0, 1, last_request);
}

static const struct said *
resize(int slots, enum lock_claim claim)
{
	lock_resize(engine(0), 1, ++last_request,
	    &(struct lock_change){.name = "db", .slots = slots, .claim = claim});
	return world_await(world, 0, 1, last_request);
}

static const struct said *
destroy(void)
{
	lock_destroy(engine(0), 1, ++last_request, &(struct lock_change){.name = "db"});
	return world_await(world, 0, 1, last_request);
}

/* The home of B[slot] goes down for all. */
static void
lose_home(int slot)
{
	ck_assert(memory_world_set_home(world->memory, queue('B', slot), 1));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
}

START_TEST(each_slot_gets_its_holder_queue_first)
{
	lock_create(engine(0), 1, 1,
	    &(struct lock_change){.name = "db", .slots = 70, .claim = LOCK_CLAIM_BY_CONSUMER});
	while (world_answer(world, 0, 1, 1) == NULL) {
		ck_assert(world_step(world, SECOND));
		for (int slot = 1; slot <= 70; slot++)
			ck_assert(!has('A', slot) || has('B', slot));
	}
	ck_assert_int_eq(world_answer(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 70);
	ck_assert_str_eq(admin_state(world, "db"), "70 listed");
}
END_TEST

START_TEST(the_setting_decides_unless_the_request_does)
{
	create(2, LOCK_CLAIM_UNKNOWN);
	ck_assert_int_eq(durable_holder_queues(), 0);
	destroy();
	set_claim(BROKER_BY_CONSUMER);
	create(2, LOCK_CLAIM_UNKNOWN);
	ck_assert_int_eq(durable_holder_queues(), 2);
	destroy();
	create(2, LOCK_CLAIM_BY_QUEUE);
	ck_assert_int_eq(durable_holder_queues(), 0);
	destroy();
	lock_acquire(engine(0), 1, 99, &(struct lock_acquire){.name = "db", .create = 3});
	ck_assert_int_eq(world_await(world, 0, 1, 99)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 3);
	lock_peer_gone(engine(0), 1);
}
END_TEST

START_TEST(a_semaphore_grows_the_way_its_slots_are)
{
	create(1, LOCK_CLAIM_BY_CONSUMER);
	ck_assert_int_eq(resize(5, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 5);
	ck_assert_int_eq(resize(6, LOCK_CLAIM_BY_CONSUMER)->reason, REASON_NONE);
	destroy();
	create(1, LOCK_CLAIM_BY_QUEUE);
	set_claim(BROKER_BY_CONSUMER);
	ck_assert_int_eq(resize(5, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 0);
}
END_TEST

START_TEST(the_first_slots_of_a_gate_are_as_requested)
{
	create(0, LOCK_CLAIM_BY_CONSUMER);
	ck_assert_int_eq(resize(2, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 0);
	ck_assert_int_eq(resize(0, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert_int_eq(resize(2, LOCK_CLAIM_BY_CONSUMER)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 2);
	/* The setting is the other way. */
	ck_assert(resize(0, LOCK_CLAIM_UNKNOWN)->warned);
	ck_assert(!resize(0, LOCK_CLAIM_UNKNOWN)->warned);
	ck_assert(!resize(2, LOCK_CLAIM_BY_QUEUE)->warned);
	ck_assert(!resize(0, LOCK_CLAIM_UNKNOWN)->warned);
}
END_TEST

START_TEST(a_change_converts_nothing)
{
	const struct said *answer;

	create(2, LOCK_CLAIM_BY_QUEUE);
	answer = resize(3, LOCK_CLAIM_BY_CONSUMER);
	ck_assert_int_eq(answer->reason, REASON_INVALID_PARAMS);
	ck_assert_str_eq(answer->parameter, "claim");
	ck_assert_str_eq(answer->text, "its slots are held by exclusive queues, see fsck");
	lock_create(engine(0), 1, 50,
	    &(struct lock_change){
		.name = "db", .slots = 2, .exist_ok = true, .claim = LOCK_CLAIM_BY_CONSUMER});
	answer = world_await(world, 0, 1, 50);
	ck_assert_int_eq(answer->reason, REASON_ALREADY_EXISTS);
	ck_assert_str_eq(
	    answer->text, "it exists already, and its slots are held by exclusive queues");
	lock_create(engine(0), 1, 51,
	    &(struct lock_change){
		.name = "db", .slots = 2, .exist_ok = true, .claim = LOCK_CLAIM_BY_QUEUE});
	ck_assert_int_eq(world_await(world, 0, 1, 51)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_removed_slot_takes_its_holder_queue_along)
{
	create(6, LOCK_CLAIM_BY_CONSUMER);
	ck_assert_int_eq(resize(4, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 4);
	ck_assert_int_eq(resize(LOCK_UNLIMITED, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 4); /* the slots stay, too */
	ck_assert_int_eq(resize(0, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 0);
	ck_assert_int_eq(resize(3, LOCK_CLAIM_BY_CONSUMER)->reason, REASON_NONE);
	/* An uncounted slot. */
	ck_assert(memory_world_put(world->memory, queue('A', 9), false));
	ck_assert(memory_world_put_holder(world->memory, queue('B', 9)));
	ck_assert_int_eq(destroy()->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 0);
	ck_assert_str_eq(admin_state(world, "db"), "0");
}
END_TEST

START_TEST(a_holder_queue_in_use_stays_until_the_wait_is_over)
{
	create(2, LOCK_CLAIM_BY_CONSUMER);
	ck_assert(memory_world_hold(world->memory, "db-2-B"));
	ck_assert_int_eq(resize(1, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert(has('B', 2) && !has('A', 2));
	lock_resize(engine(0), 1, 50,
	    &(struct lock_change){.name = "db", .slots = 1, .wait = DURATION_FOREVER});
	world_pass(world, SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 1, 50));
	ck_assert(memory_world_let_go(world->memory, "db-2-B"));
	ck_assert_int_eq(world_await(world, 0, 1, 50)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert_int_eq(durable_holder_queues(), 1);
}
END_TEST

START_TEST(a_slot_that_is_back_keeps_its_holder_queue)
{
	create(2, LOCK_CLAIM_BY_CONSUMER);
	ck_assert(memory_world_hold(world->memory, "db-2-B"));
	lock_resize(engine(0), 1, 50,
	    &(struct lock_change){.name = "db", .slots = 1, .wait = DURATION_FOREVER});
	world_pass(world, SECOND);
	ck_assert_int_eq(resize(2, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert(memory_world_let_go(world->memory, "db-2-B"));
	ck_assert_int_eq(world_await(world, 0, 1, 50)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert_int_eq(durable_holder_queues(), 2);
}
END_TEST

START_TEST(a_holder_deletes_the_queue_of_its_removed_slot)
{
	const struct said *hold;

	create(1, LOCK_CLAIM_BY_CONSUMER);
	hold = acquire(1, 2, 1, "db", TRY);
	ck_assert_int_eq(hold->reason, REASON_NONE);
	ck_assert_int_eq(destroy()->reason, REASON_NONE);
	ck_assert(has('B', 1));
	/* Until its daemon knows that the slot is removed. */
	world_pass(world, SECOND);
	release(1, 2, 2, hold->lock);
	world_pass(world, SECOND);
	ck_assert(!has('B', 1));
}
END_TEST

/* The mutex is taken, A is probed, B is deleted, and the mutex is dropped. */
START_TEST(a_deletion_that_is_not_answered_ends_with_its_link)
{
	const struct said *hold;

	for (unsigned stuck = 1; stuck <= 6; stuck++) {
		create(1, LOCK_CLAIM_BY_CONSUMER);
		hold = acquire(1, 2, stuck, "db", TRY);
		ck_assert_int_eq(hold->reason, REASON_NONE);
		ck_assert_int_eq(destroy()->reason, REASON_NONE);
		release(1, 2, 10 + stuck, hold->lock);
		world->stuck = stuck;
		world_pass(world, 60 * SECOND);
		world->stuck = 0;
		ck_assert_ptr_null(engine(1)->removed_slots);
		if (has('B', 1))
			ck_assert(memory_world_remove(world->memory, "db-1-B"));
	}
}
END_TEST

/* Another administrator has the mutex for a moment. The deadline of requests is short. */
START_TEST(a_deletion_tries_its_mutex_again)
{
	struct lock_settings settings = world_settings;
	const struct said *hold;

	create(1, LOCK_CLAIM_BY_CONSUMER);
	hold = acquire(1, 2, 1, "db", TRY);
	ck_assert_int_eq(destroy()->reason, REASON_NONE);
	world_pass(world, SECOND);
	settings.request_timeout = 40 * MS;
	lock_engine_set(engine(1), &settings);
	ck_assert(memory_world_put(world->memory, "db", true));
	lock_release(engine(1), 2, 2, hold->lock);
	world_pass(world, 20 * MS);
	ck_assert(memory_world_remove(world->memory, "db"));
	world_pass(world, SECOND);
	ck_assert(!has('B', 1));
}
END_TEST

START_TEST(a_left_holder_queue_decides_how_its_slot_is_held)
{
	ck_assert(memory_world_put_holder(world->memory, "db-1-B"));
	if (_i == 1) {
		lock_fsck(engine(0), 1, ++last_request,
		    &(struct lock_check){.name = "db", .repair = true});
		ck_assert_str_eq(world_await(world, 0, 1, last_request)->detail, "leftover:1!");
	}
	ck_assert_int_eq(create(1, LOCK_CLAIM_BY_QUEUE)->reason, REASON_NONE);
	ck_assert_int_eq(acquire(1, 2, 1, "db", TRY)->slot, 1);
	ck_assert_int_eq(memory_world_durable(world->memory, "db-1-B"), _i == 0);
}
END_TEST

START_TEST(a_stop_waits_for_the_deletion)
{
	const struct said *hold;

	create(1, LOCK_CLAIM_BY_CONSUMER);
	hold = acquire(1, 2, 1, "db", TRY);
	ck_assert_int_eq(destroy()->reason, REASON_NONE);
	world_pass(world, SECOND);
	lock_drain(engine(1));
	lock_release(engine(1), 2, 2, hold->lock);
	while (!lock_quiet(engine(1)))
		ck_assert(world_step(world, SECOND));
	ck_assert(!has('B', 1));
}
END_TEST

/* An alarm holds up the first deletion for longer than the deadline. */
START_TEST(a_late_deletion_does_not_end_the_link_of_the_next)
{
	uint64_t connection, locks[4];
	unsigned asked;

	create(3, LOCK_CLAIM_BY_CONSUMER);
	for (int slot = 1; slot <= 3; slot++)
		locks[slot] = acquire(1, 2, (uint64_t)slot, "db", TRY)->lock;
	ck_assert_int_eq(resize(1, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	world_pass(world, SECOND);
	connection = memory_broker_connection(world->daemon[1].broker, BROKER_AUXILIARY);
	ck_assert_uint_ne(connection, 0);
	for (int slot = 2; slot <= 3; slot++)
		lock_release(engine(1), 2, 10 + (uint64_t)slot, locks[slot]);
	/* The mutex is held, and the probe before the first deletion is sent. */
	while (engine(1)->mutexes == NULL)
		ck_assert(world_step(world, SECOND));
	world->delay = 2 * SECOND;
	asked = world->asked;
	while (world->asked < asked + 2)
		ck_assert(world_step(world, 10 * SECOND));
	memory_world_block(world->memory, true);
	memory_broker_block(world->daemon[1].broker, BROKER_AUXILIARY, MEMORY_OUT);
	world_pass(world, 27 * SECOND);
	world->delay = 0;
	memory_world_block(world->memory, false);
	world_pass(world, MS);
	world->delay = 2 * SECOND;
	memory_broker_block(world->daemon[1].broker, BROKER_AUXILIARY, 0);
	world_pass(world, 30 * SECOND);
	ck_assert_uint_eq(
	    memory_broker_connection(world->daemon[1].broker, BROKER_AUXILIARY), connection);
	ck_assert(!has('B', 2) && !has('B', 3));
}
END_TEST

/* The slot comes back while its last holder deletes its holder queue. */
START_TEST(a_slot_that_comes_back_at_any_time_has_its_holder_queue)
{
	const struct said *hold;
	uint64_t request = 0;

	create(1, LOCK_CLAIM_BY_CONSUMER);
	for (int steps = 0; steps < 60; steps++) {
		ck_assert_int_eq(resize(2, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
		ck_assert(memory_world_hold(world->memory, "db-1-B"));
		hold = acquire(1, 2, ++request, "db", TRY);
		ck_assert_int_eq(hold->slot, 2);
		ck_assert(memory_world_let_go(world->memory, "db-1-B"));
		ck_assert_int_eq(resize(1, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
		world_pass(world, SECOND);
		ck_assert(has('B', 2));
		lock_resize(
		    engine(0), 1, ++last_request, &(struct lock_change){.name = "db", .slots = 2});
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		lock_release(engine(1), 2, ++request, hold->lock);
		ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_NONE);
		world_pass(world, SECOND);
		ck_assert(has('A', 2));
		ck_assert_msg(has('B', 2), "after %d steps", steps);
	}
}
END_TEST

/* Another program keeps the administration mutex. The B is left to fsck. */
START_TEST(a_mutex_that_another_program_keeps_is_given_up)
{
	const struct said *hold;

	create(2, LOCK_CLAIM_BY_CONSUMER);
	ck_assert(memory_world_hold(world->memory, "db-1-B"));
	hold = acquire(1, 2, 1, "db", TRY);
	ck_assert_int_eq(hold->slot, 2);
	ck_assert_int_eq(resize(1, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert(memory_world_put(
	    world->memory, queue_name_admin(world_settings.naming, "db").text, true));
	lock_release(engine(1), 2, 2, hold->lock);
	world_pass(world, 31 * SECOND);
	ck_assert(has('B', 2));
	lock_drain(engine(1));
	world_pass(world, SECOND);
	ck_assert(lock_quiet(engine(1)));
}
END_TEST

/*
 * Each deletion takes a channel, and other work of the auxiliary connection needs some, too. The
 * holder's daemon deletes them if it knows of the removal at the release. Otherwise the
 * administrator's daemon does, whose last mutex is dropped meanwhile.
 */
START_TEST(few_holder_queues_are_deleted_at_once)
{
	enum { NAMES = 40 };
	const struct said *holds[NAMES];
	char name[16];
	unsigned most = 0, now;

	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "db%d", i);
		lock_create(engine(1), 1, (uint64_t)i + 1,
		    &(struct lock_change){
			.name = name, .slots = 1, .claim = LOCK_CLAIM_BY_CONSUMER});
		ck_assert_int_eq(world_await(world, 1, 1, (uint64_t)i + 1)->reason, REASON_NONE);
		holds[i] = acquire(1, 2, (uint64_t)i + 1, name, TRY);
		ck_assert_int_eq(holds[i]->reason, REASON_NONE);
		lock_destroy(engine(0), 1, (uint64_t)i + 1, &(struct lock_change){.name = name});
		ck_assert_int_eq(world_await(world, 0, 1, (uint64_t)i + 1)->reason, REASON_NONE);
	}
	if (_i == 0)
		world_pass(world, SECOND);
	lock_peer_gone(engine(1), 2);
	do {
		now = 0;
		for (int i = 0; i < NAMES; i++) {
			snprintf(name, sizeof(name), "db%d", i);
			now += memory_world_has(world->memory,
			    queue_name_admin(world_settings.naming, name).text, NULL);
		}
		most = now > most ? now : most;
	} while (world_step(world, SECOND));
	ck_assert_uint_ge(most, 8);
	ck_assert_uint_le(most, 8 + (unsigned)_i);
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "db%d-1-B", i);
		ck_assert(!memory_world_has(world->memory, name, NULL));
	}
}
END_TEST

START_TEST(a_holder_queue_that_cannot_be_reached_stays_and_is_named)
{
	const struct said *answer;

	create(3, LOCK_CLAIM_BY_CONSUMER);
	lose_home(2);
	answer = resize(1, LOCK_CLAIM_UNKNOWN);
	ck_assert_int_eq(answer->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(answer->text, "the holder queue of slot 2 stays: its node"));
	ck_assert_ptr_nonnull(strstr(answer->text, "db-2-B"));
	ck_assert(has('B', 2) && !has('A', 2) && !has('A', 3) && !has('B', 3));
	/* It is not declared anew. */
	answer = resize(2, LOCK_CLAIM_UNKNOWN);
	ck_assert_int_eq(answer->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(answer->text, "db-2-B"));
	ck_assert(!has('A', 2));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	ck_assert_int_eq(resize(2, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 2);
}
END_TEST

START_TEST(a_holder_queue_without_an_answer_stays_and_is_named)
{
	const struct said *answer;

	create(2, LOCK_CLAIM_BY_CONSUMER);
	ck_assert(memory_world_set_home(world->memory, "db-2-B", 1));
	lock_resize(engine(0), 1, 50, &(struct lock_change){.name = "db", .slots = 1});
	while (has('A', 2))
		ck_assert(world_step(world, SECOND));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	answer = world_await(world, 0, 1, 50);
	ck_assert_int_eq(answer->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(answer->text, "the holder queue of slot 2"));
	ck_assert(has('B', 2));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	world_pass(world, 20 * SECOND);
}
END_TEST

static bool
asked(uint64_t peer)
{
	return world_answer(world, 1, peer, 1) != NULL;
}

/* RabbitMQ before 3.11 says of the queues of a node that is down that they do not exist. */
START_TEST(a_semaphore_whose_node_is_down_is_not_missing)
{
	create(2, _i == 0 ? LOCK_CLAIM_BY_QUEUE : LOCK_CLAIM_BY_CONSUMER);
	memory_world_set_hides_queues(world->memory, true);
	for (int slot = 1; slot <= 2; slot++) {
		ck_assert(memory_world_set_home(world->memory, queue('A', slot), 1));
		if (_i == 1)
			ck_assert(memory_world_set_home(world->memory, queue('B', slot), 1));
	}
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
	ck_assert_int_eq(destroy()->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_int_eq(resize(1, LOCK_CLAIM_UNKNOWN)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_int_eq(resize(3, LOCK_CLAIM_UNKNOWN)->reason, REASON_BROKER_UNAVAILABLE);
	lock_busy(engine(0), 1, ++last_request, "db");
	ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_BROKER_UNAVAILABLE);
	lock_fsck(engine(0), 1, ++last_request, &(struct lock_check){.name = "db", .repair = true});
	ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_BROKER_UNAVAILABLE);
	world_acquire(world, 1, 2, 1, "db", 40 * SECOND);
	world_pass(world, 2 * SECOND);
	ck_assert(!asked(2));
	/* A name without a semaphore is still told. */
	ck_assert_int_eq(acquire(1, 3, 1, "other", SECOND)->reason, REASON_NO_SUCH_LOCK);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	world_pass(world, 20 * SECOND);
	ck_assert_int_eq(world_answer(world, 1, 2, 1)->reason, REASON_NONE);
	lock_peer_gone(engine(1), 2);
	world_pass(world, SECOND);
	ck_assert_int_eq(destroy()->reason, REASON_NONE);
	ck_assert_int_eq(durable_holder_queues(), 0);
}
END_TEST

/*
 * The node falls silent after each step of a try. The first question finds no slot, and the second
 * one is not answered.
 */
START_TEST(a_semaphore_whose_node_falls_silent_is_not_missing)
{
	create(2, LOCK_CLAIM_BY_QUEUE);
	memory_world_set_hides_queues(world->memory, true);
	for (int slot = 1; slot <= 2; slot++)
		ck_assert(memory_world_set_home(world->memory, queue('A', slot), 1));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
	world_acquire(world, 1, 2, 1, "db", TRY);
	world_pass(world, _i * world->delay / 2);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	ck_assert_int_eq(world_await(world, 1, 2, 1)->reason, REASON_BROKER_UNAVAILABLE);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	world_pass(world, 20 * SECOND);
}
END_TEST

/* The node of the first slot is down and that of the second one silent, so the probe has no end. */
START_TEST(half_of_the_answers_do_not_make_it_missing)
{
	create(2, LOCK_CLAIM_BY_QUEUE);
	memory_world_set_hides_queues(world->memory, true);
	for (unsigned slot = 1; slot <= 2; slot++)
		ck_assert(memory_world_set_home(world->memory, queue('A', (int)slot), slot));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
	memory_world_set_reach(world->memory, 0, 2, MEMORY_SILENT);
	world_acquire(world, 1, 2, 1, "db", TRY);
	world_pass(world, 10 * world->delay);
	ck_assert(!asked(2));
	if (_i == 1)
		memory_broker_cut(world->daemon[1].broker, BROKER_AUXILIARY, 0, SECOND, "cut");
	ck_assert_int_eq(world_await(world, 1, 2, 1)->reason, REASON_BROKER_UNAVAILABLE);
	memory_world_set_reach(world->memory, 0, 2, MEMORY_REACHED);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	world_pass(world, 20 * SECOND);
}
END_TEST

/* A gate, or an unlimited semaphore. Its marker is there, but hidden. */
START_TEST(a_marker_whose_node_is_down_is_not_missing)
{
	const char *marker = _i == 0 ? "db-G" : "db-U";

	create(_i == 0 ? 0 : LOCK_UNLIMITED, LOCK_CLAIM_UNKNOWN);
	memory_world_set_hides_queues(world->memory, true);
	ck_assert(memory_world_set_home(world->memory, marker, 1));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
	world_acquire(world, 1, 2, 1, "db", 40 * SECOND);
	world_pass(world, 2 * SECOND);
	ck_assert(!asked(2));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	if (_i == 0)
		lock_peer_gone(engine(1), 2);
	else
		ck_assert_int_eq(world_await(world, 1, 2, 1)->reason, REASON_NONE);
	world_pass(world, SECOND);
}
END_TEST

/* The first slot is missing, and need not be asked for again. */
START_TEST(a_marker_that_is_there_costs_no_more)
{
	unsigned costs[3];

	create(_i == 0 ? 0 : LOCK_UNLIMITED, LOCK_CLAIM_UNKNOWN);
	for (int i = 0; i < 3; i++) {
		memory_world_set_hides_queues(world->memory, i == 2);
		costs[i] = world->asked;
		ck_assert_int_eq(acquire(1, 3, 1 + (uint64_t)i, "db", TRY)->reason,
		    _i == 0 ? REASON_WOULD_BLOCK : REASON_NONE);
		costs[i] = world->asked - costs[i];
		lock_peer_gone(engine(1), 3);
		world_pass(world, 10 * SECOND);
	}
	ck_assert_uint_eq(costs[2], costs[1]);
}
END_TEST

/* Only the holder queue is at that node. */
START_TEST(a_hidden_holder_queue_stays_and_is_named)
{
	const struct said *answer;

	create(2, LOCK_CLAIM_BY_CONSUMER);
	memory_world_set_hides_queues(world->memory, true);
	lose_home(2);
	lock_fsck(engine(0), 1, ++last_request, &(struct lock_check){.name = "db"});
	ck_assert_str_eq(world_await(world, 0, 1, last_request)->detail, "unreachable:2");
	answer = destroy();
	ck_assert_int_eq(answer->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(answer->text, "the holder queue of slot 2 stays: its node"));
	ck_assert(has('B', 2) && !has('A', 1) && !has('B', 1));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
}
END_TEST

/* The uncounted slots that it leaves are there for the next create. */
START_TEST(a_refused_create_leaves_no_entry)
{
	ck_assert(memory_world_put(world->memory, _i == 0 ? "db-1-B" : "db-3-B", true));
	ck_assert_int_eq(create(3, LOCK_CLAIM_BY_CONSUMER)->reason, REASON_WOULD_BLOCK);
	ck_assert_str_eq(admin_state(world, "db"), _i == 0 ? "0 2 3" : "0 2");
	ck_assert(memory_world_remove(world->memory, _i == 0 ? "db-1-B" : "db-3-B"));
	ck_assert_int_eq(create(3, LOCK_CLAIM_BY_CONSUMER)->reason, REASON_NONE);
	ck_assert_str_eq(admin_state(world, "db"), "3 listed");
}
END_TEST

/* The holder is of a semaphore that was destroyed. */
START_TEST(a_create_names_the_slot_that_an_exclusive_queue_still_holds)
{
	static const char *const words = "slot 1 is still held by an exclusive queue, from before; "
					 "try again when it is released";
	const struct said *hold, *answer;

	create(1, LOCK_CLAIM_BY_QUEUE);
	hold = acquire(1, 2, 1, "db", TRY);
	ck_assert_int_eq(hold->reason, REASON_NONE);
	ck_assert_int_eq(destroy()->reason, REASON_NONE);
	answer = create(1, LOCK_CLAIM_BY_CONSUMER);
	ck_assert_int_eq(answer->reason, REASON_WOULD_BLOCK);
	ck_assert_ptr_nonnull(strstr(answer->text, words));
	ck_assert_str_eq(admin_state(world, "db"), "0");
	set_claim(BROKER_BY_CONSUMER);
	lock_acquire(engine(0), 1, 99, &(struct lock_acquire){.name = "db", .create = 1});
	answer = world_await(world, 0, 1, 99);
	ck_assert_int_eq(answer->reason, REASON_WOULD_BLOCK);
	ck_assert_ptr_nonnull(strstr(answer->text, words));
	release(1, 2, 2, hold->lock);
	ck_assert_int_eq(create(1, LOCK_CLAIM_BY_CONSUMER)->reason, REASON_NONE);
}
END_TEST

/* Such as the claim of a daemon that does not know yet how the slots are held. */
START_TEST(a_short_exclusive_queue_does_not_end_a_growth)
{
	create(1, LOCK_CLAIM_BY_CONSUMER);
	for (int pass = 0; pass < 9; pass++) {
		ck_assert(memory_world_put(world->memory, "db-2-B", true));
		lock_resize(
		    engine(0), 1, ++last_request, &(struct lock_change){.name = "db", .slots = 2});
		world_pass(world, pass * MS);
		ck_assert(memory_world_remove(world->memory, "db-2-B"));
		ck_assert_msg(world_await(world, 0, 1, last_request)->reason == REASON_NONE,
		    "after %d ms", pass);
		ck_assert_int_eq(durable_holder_queues(), 2);
		ck_assert_int_eq(resize(1, LOCK_CLAIM_UNKNOWN)->reason, REASON_NONE);
	}
}
END_TEST

START_TEST(a_wait_says_that_a_node_cannot_be_reached)
{
	const struct said *answer;

	create(2, LOCK_CLAIM_BY_CONSUMER);
	lose_home(2);
	lock_await(engine(0), 1, 50, &(struct lock_await){.name = "db", .slot = 2});
	answer = world_await(world, 0, 1, 50);
	ck_assert_int_eq(answer->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(answer->text, "the holder queue of slot 2 cannot be reached"));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
}
END_TEST

static void
check_explain(const char *what)
{
	lock_explain(engine(1), 1, ++last_request, "db", LOCK_KIND_SEMAPHORE);
	ck_assert_str_eq(world_await(world, 1, 1, last_request)->detail, what);
}

static void
check_list(const char *what)
{
	lock_list(engine(1), 1, ++last_request);
	ck_assert_str_eq(world_await(world, 1, 1, last_request)->detail, what);
}

START_TEST(explain_list_and_busy_say_how_slots_are_held)
{
	create(2, LOCK_CLAIM_BY_CONSUMER);
	ck_assert(memory_world_hold(world->memory, "db-1-B"));
	check_explain("free 2/1 here 0 waiting 0 uncounted 0 consumer");
	check_list("db=2/1 consumer");
	lock_busy(engine(1), 1, ++last_request, "db");
	ck_assert_int_eq(world_await(world, 1, 1, last_request)->claim, LOCK_CLAIM_BY_CONSUMER);
	ck_assert_str_eq(world_answer(world, 1, 1, last_request)->detail, "1");
	lose_home(2);
	check_explain("full 2/2 here 0 waiting 0 uncounted 0 unreachable 1 consumer");
	check_list("db=2/2 consumer");
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	ck_assert(memory_world_remove(world->memory, "db-2-B"));
	check_list("db=2/1 mixed");
}
END_TEST

START_TEST(a_missing_permission_is_said_in_the_brokers_words)
{
	const struct said *answer;

	create(1, LOCK_CLAIM_BY_CONSUMER);
	world->refuses = true; /* 403, as for a user without the permission to read B */
	answer = acquire(1, 2, 1, "db", 5 * SECOND);
	ck_assert_int_eq(answer->reason, REASON_BROKER_REFUSED);
	ck_assert_ptr_nonnull(strstr(answer->text, "db-1-B"));
	world->refuses = false;
	ck_assert_int_eq(acquire(1, 2, 2, "db", 5 * SECOND)->reason, REASON_NONE);
	lock_peer_gone(engine(1), 2);
	world_pass(world, SECOND);
}
END_TEST

Suite *
suite_lock_claims(void)
{
	Suite *suite = suite_create("lock: slots by consumers");
	TCase *tc = tcase_create("claims");

	tcase_add_checked_fixture(tc, setup, world_end);
	tcase_add_test(tc, each_slot_gets_its_holder_queue_first);
	tcase_add_test(tc, the_setting_decides_unless_the_request_does);
	tcase_add_test(tc, a_semaphore_grows_the_way_its_slots_are);
	tcase_add_test(tc, the_first_slots_of_a_gate_are_as_requested);
	tcase_add_test(tc, a_change_converts_nothing);
	tcase_add_test(tc, a_removed_slot_takes_its_holder_queue_along);
	tcase_add_test(tc, a_holder_queue_in_use_stays_until_the_wait_is_over);
	tcase_add_test(tc, a_slot_that_is_back_keeps_its_holder_queue);
	tcase_add_test(tc, a_holder_deletes_the_queue_of_its_removed_slot);
	tcase_add_test(tc, a_deletion_that_is_not_answered_ends_with_its_link);
	tcase_add_test(tc, a_deletion_tries_its_mutex_again);
	tcase_add_loop_test(tc, a_left_holder_queue_decides_how_its_slot_is_held, 0, 2);
	tcase_add_test(tc, a_stop_waits_for_the_deletion);
	tcase_add_test(tc, a_late_deletion_does_not_end_the_link_of_the_next);
	tcase_add_test(tc, a_slot_that_comes_back_at_any_time_has_its_holder_queue);
	tcase_add_test(tc, a_mutex_that_another_program_keeps_is_given_up);
	tcase_add_loop_test(tc, few_holder_queues_are_deleted_at_once, 0, 2);
	tcase_add_test(tc, a_holder_queue_that_cannot_be_reached_stays_and_is_named);
	tcase_add_test(tc, a_holder_queue_without_an_answer_stays_and_is_named);
	tcase_add_loop_test(tc, a_semaphore_whose_node_is_down_is_not_missing, 0, 2);
	tcase_add_loop_test(tc, a_semaphore_whose_node_falls_silent_is_not_missing, 0, 8);
	tcase_add_loop_test(tc, half_of_the_answers_do_not_make_it_missing, 0, 2);
	tcase_add_loop_test(tc, a_marker_whose_node_is_down_is_not_missing, 0, 2);
	tcase_add_loop_test(tc, a_marker_that_is_there_costs_no_more, 0, 2);
	tcase_add_test(tc, a_hidden_holder_queue_stays_and_is_named);
	tcase_add_loop_test(tc, a_refused_create_leaves_no_entry, 0, 2);
	tcase_add_test(tc, a_create_names_the_slot_that_an_exclusive_queue_still_holds);
	tcase_add_test(tc, a_short_exclusive_queue_does_not_end_a_growth);
	tcase_add_test(tc, a_wait_says_that_a_node_cannot_be_reached);
	tcase_add_test(tc, explain_list_and_busy_say_how_slots_are_held);
	tcase_add_test(tc, a_missing_permission_is_said_in_the_brokers_words);
	suite_add_tcase(suite, tc);
	return suite;
}
