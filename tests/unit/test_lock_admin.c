/*
 * Creating, destroying and sizing semaphores over the server in memory.
 */
#include "protocol/methods.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <stdio.h>
#include <string.h>

static const struct said *
create(int daemon, uint64_t request, const char *name, int slots, bool exist_ok)
{
	lock_create(engine(daemon), 1, request,
	    &(struct lock_change){
		.name = name, .kind = LOCK_KIND_SEMAPHORE, .slots = slots, .exist_ok = exist_ok});
	return world_await(world, daemon, 1, request);
}

static int
count_slots(const char *name)
{
	char queue[256];
	int count = 0;

	do
		snprintf(queue, sizeof(queue), "%s-%d-A", name, ++count);
	while (memory_world_has(world->memory, queue, NULL));
	return count - 1;
}

START_TEST(create_size_destroy)
{
	ck_assert_int_eq(create(0, 1, "db", 200, false)->reason, REASON_NONE);
	ck_assert_int_eq(count_slots("db"), 200);
	lock_size(engine(1), 1, 1, "db");
	ck_assert_int_eq(world_await(world, 1, 1, 1)->slots, 200);
	lock_destroy(engine(1), 1, 2, &(struct lock_change){.name = "db"});
	ck_assert_int_eq(world_await(world, 1, 1, 2)->reason, REASON_NONE);
	ck_assert_int_eq(count_slots("db"), 0);
	lock_size(engine(0), 1, 2, "db");
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NO_SUCH_LOCK);
	lock_destroy(engine(0), 1, 3, &(struct lock_change){.name = "db"});
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NO_SUCH_LOCK);
	ck_assert_msg(!memory_world_has(world->memory, "db", NULL), "the admin mutex is left");
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(an_existing_lock_is_not_created_again)
{
	create(0, 1, "db", 3, false);
	ck_assert_int_eq(create(1, 1, "db", 3, false)->reason, REASON_ALREADY_EXISTS);
	ck_assert_int_eq(world_answer(world, 1, 1, 1)->slots, 3);
	ck_assert_int_eq(create(1, 2, "db", 3, true)->reason, REASON_NONE);
	ck_assert_int_eq(create(1, 3, "db", 4, true)->reason, REASON_ALREADY_EXISTS);
	ck_assert_int_eq(count_slots("db"), 3);
}
END_TEST

START_TEST(invalid_creates_are_refused)
{
	struct lock_engine *of = engine(0);

	lock_create(of, 1, 1,
	    &(struct lock_change){
		.name = "m", .kind = LOCK_KIND_MUTEX, .slots = 1, .exist_ok = false});
	ck_assert_int_eq(world_answer(world, 0, 1, 1)->reason, REASON_INVALID_PARAMS);
	lock_create(of, 1, 2,
	    &(struct lock_change){
		.name = "m", .kind = LOCK_KIND_PERSISTENT_MUTEX, .slots = 2, .exist_ok = false});
	ck_assert_int_eq(world_answer(world, 0, 1, 2)->reason, REASON_INVALID_PARAMS);
	lock_create(of, 1, 3,
	    &(struct lock_change){
		.name = "m", .kind = LOCK_KIND_SEMAPHORE, .slots = -1, .exist_ok = false});
	ck_assert_int_eq(world_answer(world, 0, 1, 3)->reason, REASON_INVALID_PARAMS);
	lock_create(of, 1, 4,
	    &(struct lock_change){
		.name = "m", .kind = LOCK_KIND_PERSISTENT_MUTEX, .slots = 1, .exist_ok = false});
	ck_assert_int_eq(world_await(world, 0, 1, 4)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_busy_mutex_is_waited_for_then_named)
{
	int64_t before;

	memory_world_put(world->memory, "db", true);
	before = world->now;
	ck_assert_int_eq(create(0, 1, "db", 1, false)->reason, REASON_TIMEOUT);
	ck_assert_int_ge(world->now - before, world_settings.request_timeout);
	ck_assert_int_eq(count_slots("db"), 0);
	lock_create(engine(0), 1, 2,
	    &(struct lock_change){
		.name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 1, .exist_ok = false});
	world_pass(world, SECOND);
	memory_world_remove(world->memory, "db");
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
}
END_TEST

START_TEST(administrators_of_one_daemon_go_one_by_one)
{
	int made = 0;

	/* They share the auxiliary connection, on which each could declare the mutex again. */
	for (uint64_t request = 1; request <= 4; request++)
		lock_create(engine(0), 1, request,
		    &(struct lock_change){.name = "db",
			.kind = LOCK_KIND_SEMAPHORE,
			.slots = (int)request,
			.exist_ok = false});
	for (uint64_t request = 1; request <= 4; request++)
		made += world_await(world, 0, 1, request)->reason == REASON_NONE;
	ck_assert_int_eq(made, 1);
	ck_assert_int_eq(count_slots("db"), 1);
}
END_TEST

START_TEST(requests_of_one_client_on_one_name_keep_their_order)
{
	struct lock_engine *of = engine(0);

	lock_create(of, 1, 1,
	    &(struct lock_change){
		.name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 2, .exist_ok = false});
	lock_size(of, 1, 2, "db");
	world_acquire(world, 0, 1, 3, "db", 0);
	lock_destroy(of, 1, 4, &(struct lock_change){.name = "db"});
	lock_size(of, 1, 5, "db");
	world_acquire(world, 0, 1, 6, "db", 0);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->slots, 2);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 4)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 5)->reason, REASON_NO_SUCH_LOCK);
	ck_assert_int_eq(world_await(world, 0, 1, 6)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

/* Thousands of sizes at once were compared each with each, again and again, for twenty seconds. */
/* So many that their probes are all on their way together: 16,384 publishes. */
START_TEST(many_sizes_at_once_do_not_wait_for_each_other)
{
	int64_t began;

	create(0, 1, "db", 2, false);
	began = world->now;
	for (uint64_t i = 0; i < 60; i++)
		for (uint64_t request = 2; request < 6; request++)
			lock_size(engine(0), 1 + i, request, "db");
	for (uint64_t i = 0; i < 60; i++)
		ck_assert_int_eq(world_await(world, 0, 1 + i, 5)->slots, 2);
	ck_assert_int_eq(world->now - began, world->delay);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(a_request_that_timed_out_is_not_performed)
{
	world->delay = 2 * world_settings.request_timeout;
	lock_create(engine(0), 1, 1,
	    &(struct lock_change){
		.name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 2, .exist_ok = false});
	lock_create(engine(0), 2, 1,
	    &(struct lock_change){
		.name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 3, .exist_ok = false});
	lock_size(engine(0), 1, 2, "db");
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_TIMEOUT);
	world->delay = NSEC_PER_MSEC;
	/* The mutex is ours only now. */
	world_pass(world, 4 * world_settings.request_timeout);
	ck_assert_int_eq(count_slots("db"), 0);
	ck_assert(!memory_world_has(world->memory, "db", NULL));
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(a_claim_that_timed_out_is_not_repeated_for_ever)
{
	/* The deadline passes during the claim of the mutex, which another client has. */
	memory_world_put(world->memory, "db", true);
	world->delay = 2 * world_settings.request_timeout;
	lock_create(engine(0), 1, 1,
	    &(struct lock_change){
		.name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 1, .exist_ok = false});
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_BROKER_UNAVAILABLE);
	world_pass(world, 2 * world_settings.request_timeout);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

/* As a broker that says yes to every question would have it. */
START_TEST(slots_end_at_the_maximum)
{
	char queue[256];

	world_make(world, "db", METHODS_SLOTS_MAX + 300);
	lock_size(engine(0), 1, 1, "db");
	ck_assert_int_eq(world_await(world, 0, 1, 1)->slots, METHODS_SLOTS_MAX);
	for (int slot = 1; slot <= METHODS_SLOTS_MAX; slot++) {
		snprintf(queue, sizeof(queue), "db-%d-B", slot);
		memory_world_put(world->memory, queue, true);
	}
	world_acquire(world, 0, 1, 2, "db", 0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_WOULD_BLOCK);
	ck_assert_int_eq(world_answer(world, 0, 1, 2)->slots, METHODS_SLOTS_MAX);
}
END_TEST

START_TEST(an_alarm_is_answered_at_once)
{
	int64_t began;

	create(0, 1, "db", 2, false);
	world_alarm(world);
	began = world->now;
	lock_destroy(engine(0), 1, 2, &(struct lock_change){.name = "db"});
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_BROKER_BLOCKED);
	ck_assert_int_eq(world->now, began);
	ck_assert_int_eq(count_slots("db"), 2);
}
END_TEST

START_TEST(an_unknown_answer_changes_nothing)
{
	create(0, 1, "db", 2, false);
	world_pass(world, SECOND);
	/* A new auxiliary connection learns of the alarm with its first publish. */
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	world_pass(world, SECOND);
	memory_world_block(world->memory, true);
	lock_destroy(engine(0), 1, 2, &(struct lock_change){.name = "db"});
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_BROKER_BLOCKED);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 1, 2)->text, "slot 1"));
	ck_assert(world_answer(world, 0, 1, 2)->unchanged);
	ck_assert_int_eq(count_slots("db"), 2);
}
END_TEST

START_TEST(the_auxiliary_connection_dies_at_every_step)
{
	int unchanged = 0, begun = 0;

	for (int steps = 0; steps < 30; steps++) {
		char name[16];

		snprintf(name, sizeof(name), "s%d", steps);
		lock_create(engine(0), 1, 1,
		    &(struct lock_change){
			.name = name, .kind = LOCK_KIND_SEMAPHORE, .slots = 5, .exist_ok = false});
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
		/* Nobody is told that nothing was changed if something was. */
		if (!world_await(world, 0, 1, 1)->unchanged) {
			begun++;
		} else {
			unchanged++;
			ck_assert_int_eq(count_slots(name), 0);
		}
		world_pass(world, 20 * SECOND);
		ck_assert(lock_quiet(engine(0)));
		ck_assert(!memory_world_has(world->memory, name, NULL));
		world->said_count = 0;
	}
	ck_assert_int_gt(unchanged, 0);
	ck_assert_int_gt(begun, 0);
}
END_TEST

/*
 * The refusal closes the channel, on which the mutex is dropped at once, and again when it is seen
 * closed.
 */
START_TEST(the_auxiliary_connection_dies_behind_a_refused_delete)
{
	for (int steps = 0; steps < 30; steps++) {
		char name[16], a[32];

		snprintf(name, sizeof(name), "s%d", steps);
		snprintf(a, sizeof(a), "%s-1-A", name);
		memory_world_put(world->memory, a, true); /* 405 for all except its owner */
		lock_destroy(engine(0), 1, 1, &(struct lock_change){.name = name});
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
		ck_assert_int_ne(world_await(world, 0, 1, 1)->reason, REASON_NONE);
		world_pass(world, 20 * SECOND);
		ck_assert(lock_quiet(engine(0)));
		ck_assert(!memory_world_has(world->memory, name, NULL));
		world->said_count = 0;
	}
}
END_TEST

START_TEST(nothing_is_administered_without_the_broker)
{
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "gone fishing");
	world_pass(world, SECOND);
	ck_assert_int_eq(create(0, 1, "db", 1, false)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_str_eq(world_answer(world, 0, 1, 1)->text, "gone fishing");
	ck_assert(world_answer(world, 0, 1, 1)->unchanged);
	lock_size(engine(0), 1, 2, "db");
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert(!world_answer(world, 0, 1, 2)->unchanged);
}
END_TEST

Suite *
suite_lock_admin(void)
{
	Suite *suite = suite_create("lock: administration");
	TCase *tc = tcase_create("admin");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, create_size_destroy);
	tcase_add_test(tc, an_existing_lock_is_not_created_again);
	tcase_add_test(tc, invalid_creates_are_refused);
	tcase_add_test(tc, a_busy_mutex_is_waited_for_then_named);
	tcase_add_test(tc, administrators_of_one_daemon_go_one_by_one);
	tcase_add_test(tc, requests_of_one_client_on_one_name_keep_their_order);
	tcase_add_test(tc, many_sizes_at_once_do_not_wait_for_each_other);
	tcase_add_test(tc, a_request_that_timed_out_is_not_performed);
	tcase_add_test(tc, a_claim_that_timed_out_is_not_repeated_for_ever);
	tcase_add_test(tc, slots_end_at_the_maximum);
	tcase_add_test(tc, an_alarm_is_answered_at_once);
	tcase_add_test(tc, an_unknown_answer_changes_nothing);
	tcase_add_test(tc, the_auxiliary_connection_dies_at_every_step);
	tcase_add_test(tc, the_auxiliary_connection_dies_behind_a_refused_delete);
	tcase_add_test(tc, nothing_is_administered_without_the_broker);
	suite_add_tcase(suite, tc);
	return suite;
}
