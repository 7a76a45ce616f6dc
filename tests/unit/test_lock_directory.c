/*
 * The directory of names by virtual time over the server in memory.
 */
#include "daemon/lock/list.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define MOST 32

/* The answer to each, by number. */
struct told {
	int times;
	enum reason reason;
	char text[128];
	char names[256];
};

static struct told told[MOST];

static void
setup(void)
{
	world_begin();
	memset(told, 0, sizeof(told));
}

static void
on_done(struct lock_engine *of, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct told *its = &told[id];
	size_t len = 0;

	ck_assert(of == engine(0) || of == engine(1));
	its->times++;
	its->reason = reason;
	snprintf(its->text, sizeof(its->text), "%s", text != NULL ? text : "");
	its->names[0] = '\0';
	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(
		    its->names + len, sizeof(its->names) - len, "%s%s", i > 0 ? " " : "", names[i]);
}

static struct queue_name
directory(void)
{
	return queue_name_directory(world_settings.naming);
}

static struct queue_name
mutex(void)
{
	return queue_name_directory_mutex(world_settings.naming);
}

static const struct told *
await(uint64_t id)
{
	int64_t end = world->now + 60 * SECOND;

	while (told[id].times == 0)
		ck_assert(world_step(world, end - world->now));
	ck_assert_int_eq(told[id].times, 1);
	return &told[id];
}

static void
expect_names(int daemon, uint64_t id, const char *names)
{
	directory_read(engine(daemon), on_done, id);
	ck_assert_int_eq(told[id].times, 0);
	ck_assert_int_eq(await(id)->reason, REASON_NONE);
	ck_assert_str_eq(told[id].names, names);
}

START_TEST(entered_read_left)
{
	expect_names(0, 1, "");
	directory_enter(engine(0), "db", on_done, 2);
	ck_assert_str_eq(await(2)->names, "db");
	directory_enter(engine(1), "cache", on_done, 3);
	await(3);
	directory_enter(engine(0), "db", on_done, 4); /* it is there */
	await(4);
	expect_names(1, 5, "cache db");
	directory_leave(engine(1), "db", on_done, 6);
	ck_assert_str_eq(await(6)->names, "db");
	directory_leave(engine(1), "db", on_done, 7);
	ck_assert_int_eq(await(7)->reason, REASON_NONE);
	ck_assert_str_eq(told[7].names, "");
	expect_names(0, 8, "cache");
	world_pass(world, SECOND);
	ck_assert(!memory_world_has(world->memory, mutex().text, NULL));
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

static void
count_db(void *ctx, const char *body)
{
	*(int *)ctx += strcmp(body, "db") == 0;
}

/* As a link that died behind the entry makes it. */
START_TEST(a_name_with_two_entries_is_listed_once)
{
	int times = 0;

	memory_world_publish(world->memory, directory().text, "db");
	memory_world_publish(world->memory, directory().text, "a");
	memory_world_publish(world->memory, directory().text, "db");
	memory_world_publish(world->memory, directory().text, "not a\nname");
	expect_names(0, 1, "a db");
	directory_enter(engine(0), "db", on_done, 2);
	await(2);
	memory_world_each_message(world->memory, directory().text, count_db, &times);
	ck_assert_int_eq(times, 2);
	directory_leave(engine(0), "db", on_done, 3);
	await(3);
	expect_names(0, 4, "a");
}
END_TEST

START_TEST(many_at_once_of_two_daemons)
{
	char name[8];

	for (uint64_t id = 1; id <= 20; id++) {
		snprintf(name, sizeof(name), "n%02d", (int)(id + 1) / 2);
		directory_enter(engine(id % 2 == 0), name, on_done, id);
	}
	for (uint64_t id = 1; id <= 20; id++)
		ck_assert_int_eq(await(id)->reason, REASON_NONE);
	expect_names(0, 21, "n01 n02 n03 n04 n05 n06 n07 n08 n09 n10");
}
END_TEST

START_TEST(a_busy_directory_is_waited_for_then_named)
{
	ck_assert(memory_world_put(world->memory, mutex().text, true));
	directory_enter(engine(0), "db", on_done, 1);
	world_pass(world, SECOND);
	memory_world_remove(world->memory, mutex().text);
	ck_assert_int_eq(await(1)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert(memory_world_put(world->memory, mutex().text, true));
	directory_leave(engine(0), "db", on_done, 2);
	ck_assert_int_eq(await(2)->reason, REASON_TIMEOUT);
	ck_assert_str_eq(told[2].text, "the directory: another administrator changes it");
	world_pass(world, SECOND);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

/* A waiter for it gets the directory's own text. */
START_TEST(a_busy_directory_fails_a_create)
{
	const struct said *said;

	ck_assert(memory_world_put(world->memory, mutex().text, true));
	lock_create(engine(0), 1, 1, &(struct lock_change){.name = "db", .slots = 3});
	said = world_await(world, 0, 1, 1);
	ck_assert_int_eq(said->reason, REASON_TIMEOUT);
	ck_assert_str_eq(said->text,
	    "declared 0 of 3 slots, then: the directory: another administrator changes "
	    "it");
	ck_assert_int_eq(said->target, 3);
	world_pass(world, SECOND);
	ck_assert(!memory_world_has(world->memory, "db", NULL));
	ck_assert(!memory_world_has(world->memory, "db-1-A", NULL));
}
END_TEST

START_TEST(silence_has_an_end)
{
	directory_enter(engine(0), "db", on_done, 1);
	while (!memory_world_has(world->memory, mutex().text, NULL))
		world_step(world, SECOND);
	world->silent = true;
	ck_assert_int_eq(await(1)->reason, REASON_BROKER_UNAVAILABLE);
	world->silent = false;
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	world_pass(world, 10 * SECOND);
	ck_assert_int_eq(told[1].times, 1);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(an_alarm_is_said_so)
{
	directory_enter(engine(0), "db", on_done, 1);
	await(1);
	memory_world_block(world->memory, true);
	directory_enter(engine(0), "other", on_done, 2);
	ck_assert_int_eq(await(2)->reason, REASON_BROKER_BLOCKED);
	memory_world_block(world->memory, false);
	world_pass(world, SECOND);
	expect_names(0, 3, "db");
}
END_TEST

START_TEST(a_refusal_is_reported_as_a_refusal)
{
	world->refuses = true;
	directory_read(engine(0), on_done, 1);
	ck_assert_int_eq(await(1)->reason, REASON_BROKER_REFUSED);
	ck_assert_ptr_nonnull(strstr(told[1].text, "the directory: "));
	world_pass(world, SECOND);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(the_auxiliary_connection_dies_at_every_step)
{
	for (int steps = 0; steps < 24; steps++) {
		memset(told, 0, sizeof(told));
		directory_enter(engine(0), "db", on_done, 1);
		directory_read(engine(0), on_done, 2);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
		await(1);
		await(2);
		world_pass(world, 10 * SECOND);
		ck_assert_int_eq(told[1].times, 1);
		ck_assert_int_eq(told[2].times, 1);
		ck_assert(lock_quiet(engine(0)));
		ck_assert(!memory_world_has(world->memory, mutex().text, NULL));
		directory_enter(engine(0), "db", on_done, 3);
		await(3);
		expect_names(0, 4, "db");
		directory_leave(engine(0), "db", on_done, 5);
		await(5);
	}
}
END_TEST

/* The lock was created again meanwhile, under a mutex that belongs to another now. */
START_TEST(a_destroy_that_lost_its_mutex_takes_nothing_out)
{
	lock_create(engine(0), 1, 1, &(struct lock_change){.name = "db", .slots = 1});
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert(memory_world_put(world->memory, mutex().text, true));
	lock_destroy(engine(0), 1, 2, &(struct lock_change){.name = "db"});
	while (memory_world_has(world->memory, "db-1-A", NULL))
		ck_assert(world_step(world, SECOND));
	world_pass(world, SECOND / 2);
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	memory_world_remove(world->memory, mutex().text);
	lock_create(engine(1), 1, 1, &(struct lock_change){.name = "db", .slots = 1});
	ck_assert_int_eq(world_await(world, 1, 1, 1)->reason, REASON_NONE);
	world_pass(world, 20 * SECOND);
	ck_assert_int_ne(world_answer(world, 0, 1, 2)->reason, REASON_NONE);
	expect_names(0, 1, "db");
}
END_TEST

static void
step_until_asked(unsigned times)
{
	world->asked = 0;
	while (world->asked < times)
		ck_assert(world_step(world, SECOND));
}

/* It is not performed either after the administration mutex was let go. */
START_TEST(an_entry_that_is_not_answered_in_time_is_not_made_later)
{
	lock_create(engine(0), 1, 1, &(struct lock_change){.name = "db", .slots = 1});
	while (!memory_world_has(world->memory, mutex().text, NULL))
		ck_assert(world_step(world, SECOND));
	step_until_asked(1); /* it reads */
	world->delay = 25 * SECOND;
	step_until_asked(1); /* it enters */
	world->delay = MS;
	ck_assert_int_ne(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	world_pass(world, 30 * SECOND);
	expect_names(1, 1, "");
	ck_assert(lock_quiet(engine(0)));
	/* The same command completes it. */
	lock_create(engine(0), 1, 2, &(struct lock_change){.name = "db", .slots = 1});
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
}
END_TEST

/* Nor is one taken out that was made again meanwhile. */
START_TEST(a_name_that_is_not_left_in_time_is_not_left_later)
{
	lock_create(engine(0), 1, 1, &(struct lock_change){.name = "db", .slots = 1});
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	lock_destroy(engine(0), 1, 2, &(struct lock_change){.name = "db"});
	while (!memory_world_has(world->memory, mutex().text, NULL))
		ck_assert(world_step(world, SECOND));
	world->delay = 25 * SECOND;
	step_until_asked(1); /* it leaves */
	world->delay = MS;
	ck_assert_int_ne(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	lock_create(engine(1), 1, 1, &(struct lock_change){.name = "db", .slots = 1});
	ck_assert_int_eq(world_await(world, 1, 1, 1)->reason, REASON_NONE);
	world_pass(world, 30 * SECOND);
	expect_names(1, 1, "db");
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(a_read_that_is_never_answered_leaves_the_directory_to_others)
{
	directory_read(engine(0), on_done, 1);
	while (!memory_world_has(world->memory, mutex().text, NULL))
		ck_assert(world_step(world, SECOND));
	world->stuck = 1;
	step_until_asked(1); /* it reads */
	ck_assert_int_eq(await(1)->reason, REASON_BROKER_UNAVAILABLE);
	world_pass(world, SECOND);
	ck_assert(!memory_world_has(world->memory, mutex().text, NULL));
	expect_names(1, 2, "");
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(an_alarm_during_an_entry_is_said_so)
{
	/* RabbitMQ tells who has published. */
	directory_enter(engine(0), "cache", on_done, 2);
	await(2);
	world_pass(world, SECOND);
	directory_enter(engine(0), "db", on_done, 1);
	while (!memory_world_has(world->memory, mutex().text, NULL))
		ck_assert(world_step(world, SECOND));
	step_until_asked(1); /* it reads */
	world->stuck = 1;
	step_until_asked(1); /* it enters */
	memory_world_block(world->memory, true);
	ck_assert_int_eq(await(1)->reason, REASON_BROKER_BLOCKED);
	memory_world_block(world->memory, false);
	world_pass(world, 10 * SECOND);
	ck_assert_int_eq(told[1].times, 1);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

static void
close_channel(void *ctx, uint64_t channel, bool silent)
{
	(void)ctx;
	(void)silent;
	memory_broker_close_channel(world->daemon[0].broker, channel, 406, "PRECONDITION_FAILED");
}

/* The broker's words about another matter were told as if it had refused this. */
START_TEST(a_channel_dies_at_every_step)
{
	for (int steps = 0; steps < 24; steps++) {
		memset(told, 0, sizeof(told));
		directory_enter(engine(0), "db", on_done, 1);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		memory_broker_each_channel(
		    world->daemon[0].broker, BROKER_AUXILIARY, close_channel, NULL);
		ck_assert_msg(await(1)->reason == REASON_NONE, "%s", told[1].text);
		expect_names(0, 2, "db");
		directory_leave(engine(0), "db", on_done, 3);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		memory_broker_each_channel(
		    world->daemon[0].broker, BROKER_AUXILIARY, close_channel, NULL);
		ck_assert_msg(await(3)->reason == REASON_NONE, "%s", told[3].text);
		expect_names(0, 4, "");
	}
}
END_TEST

/* The same of an fsck, whatever of the directory it waits for. */
START_TEST(an_fsck_that_lost_its_mutex_takes_nothing_out)
{
	struct lock_settings settings = world_settings;

	settings.slots_most = 40; /* as the test scans all of them many times */
	lock_engine_set(engine(0), &settings);
	for (int steps = 0; steps < 200; steps++) {
		memory_world_publish(world->memory, directory().text, "db");
		lock_fsck(engine(0), 1, 1, &(struct lock_check){.name = "db", .repair = true});
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		memory_world_put(world->memory, mutex().text, true);
		world_pass(world, SECOND / 2);
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
		memory_world_remove(world->memory, mutex().text);
		lock_create(engine(1), 1, 1, &(struct lock_change){.name = "db", .slots = 1});
		ck_assert_int_eq(world_await(world, 1, 1, 1)->reason, REASON_NONE);
		world_pass(world, 20 * SECOND);
		memset(told, 0, sizeof(told));
		expect_names(0, 1, "db");
		lock_destroy(engine(1), 1, 2, &(struct lock_change){.name = "db"});
		ck_assert_int_eq(world_await(world, 1, 1, 2)->reason, REASON_NONE);
		world->said_count = 0;
	}
}
END_TEST

Suite *
suite_lock_directory(void)
{
	Suite *suite = suite_create("lock: the directory of names");
	TCase *tc = tcase_create("directory");

	tcase_add_checked_fixture(tc, setup, world_end);
	tcase_add_test(tc, entered_read_left);
	tcase_add_test(tc, a_name_with_two_entries_is_listed_once);
	tcase_add_test(tc, many_at_once_of_two_daemons);
	tcase_add_test(tc, a_busy_directory_is_waited_for_then_named);
	tcase_add_test(tc, a_busy_directory_fails_a_create);
	tcase_add_test(tc, silence_has_an_end);
	tcase_add_test(tc, an_alarm_is_said_so);
	tcase_add_test(tc, a_refusal_is_reported_as_a_refusal);
	tcase_add_test(tc, the_auxiliary_connection_dies_at_every_step);
	tcase_add_test(tc, a_name_that_is_not_left_in_time_is_not_left_later);
	tcase_add_test(tc, a_read_that_is_never_answered_leaves_the_directory_to_others);
	tcase_add_test(tc, an_alarm_during_an_entry_is_said_so);
	tcase_add_test(tc, a_channel_dies_at_every_step);
	tcase_add_test(tc, a_destroy_that_lost_its_mutex_takes_nothing_out);
	tcase_add_test(tc, an_entry_that_is_not_answered_in_time_is_not_made_later);
	tcase_add_test(tc, an_fsck_that_lost_its_mutex_takes_nothing_out);
	suite_add_tcase(suite, tc);
	return suite;
}
