/*
 * Resizing, markers, uncounted slots, and the texts about them, over the server in memory.
 */
#include "daemon/lock/admin.h"
#include "protocol/methods.h"
#include "tests/unit/admin_state.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define U LOCK_UNLIMITED

static uint64_t last_request;

static void
setup(void)
{
	world_begin();
	last_request = 0;
}

static const struct said *
create(int slots, bool exist_ok)
{
	lock_create(engine(0), 1, ++last_request,
	    &(struct lock_change){.name = "db", .slots = slots, .exist_ok = exist_ok});
	return world_await(world, 0, 1, last_request);
}

static const struct said *
resize_with(struct lock_change change)
{
	change.name = "db";
	lock_resize(engine(0), 1, ++last_request, &change);
	return world_await(world, 0, 1, last_request);
}

static const struct said *
resize(int slots)
{
	return resize_with((struct lock_change){.slots = slots});
}

static const struct said *
destroy_with(struct lock_change change)
{
	change.name = "db";
	lock_destroy(engine(0), 1, ++last_request, &change);
	return world_await(world, 0, 1, last_request);
}

static const struct said *
size_of(int daemon)
{
	lock_size(engine(daemon), 1, ++last_request, "db");
	return world_await(world, daemon, 1, last_request);
}

static void
expect(const struct said *said, enum reason reason, int slots, int target)
{
	ck_assert_msg(said->reason == reason, "%s: %s", reason_word(said->reason), said->text);
	ck_assert_int_eq(said->slots, slots);
	ck_assert_int_eq(said->target, target);
}

START_TEST(from_one_size_to_another)
{
	expect(create(3, false), REASON_NONE, 3, 3);
	expect(resize(5), REASON_NONE, 5, 5);
	ck_assert_str_eq(admin_state(world, "db"), "5 listed");
	expect(resize(0), REASON_NONE, 0, 0);
	ck_assert_str_eq(admin_state(world, "db"), "0 G listed");
	expect(size_of(1), REASON_NONE, 0, -1);
	expect(resize(2), REASON_NONE, 2, 2);
	ck_assert_str_eq(admin_state(world, "db"), "2 listed");
	expect(resize(U), REASON_NONE, U, U);
	ck_assert_str_eq(admin_state(world, "db"), "2 U listed");
	expect(size_of(1), REASON_NONE, U, -1);
	expect(resize(1), REASON_NONE, 1, 1);
	ck_assert_str_eq(admin_state(world, "db"), "1 listed");
	expect(destroy_with((struct lock_change){0}), REASON_NONE, 0, -1);
	ck_assert_str_eq(admin_state(world, "db"), "0");
	expect(resize(3), REASON_NO_SUCH_LOCK, -1, 3);
	expect(size_of(0), REASON_NO_SUCH_LOCK, -1, -1);
}
END_TEST

START_TEST(created_as_a_gate_or_unlimited)
{
	expect(create(0, false), REASON_NONE, 0, 0);
	expect(create(0, true), REASON_NONE, 0, 0);
	expect(create(U, true), REASON_ALREADY_EXISTS, 0, U);
	destroy_with((struct lock_change){0});
	expect(create(U, false), REASON_NONE, U, U);
	ck_assert_str_eq(admin_state(world, "db"), "0 U listed");
	expect(create(U, true), REASON_NONE, U, U);
	expect(create(3, true), REASON_ALREADY_EXISTS, U, 3);
	expect(create(U, false), REASON_ALREADY_EXISTS, U, U);
}
END_TEST

START_TEST(a_relative_change_becomes_a_size)
{
	struct lock_change add = {.by = LOCK_SLOTS_ADD, .slots = 2};
	struct lock_change less = {.by = LOCK_SLOTS_REMOVE, .slots = 4};

	expect(resize_with(add), REASON_NO_SUCH_LOCK, -1, -1);
	create(3, false);
	expect(resize_with(add), REASON_NONE, 5, 5);
	expect(resize_with(less), REASON_NONE, 1, 1);
	expect(resize_with(less), REASON_NONE, 0, 0);
	ck_assert_str_eq(admin_state(world, "db"), "0 G listed");
	expect(resize_with(add), REASON_NONE, 2, 2);
	add.slots = METHODS_SLOTS_MAX - 1;
	expect(resize_with(add), REASON_INVALID_PARAMS, 2, METHODS_SLOTS_MAX + 1);
	resize(U);
	expect(resize_with(add), REASON_INVALID_PARAMS, U, -1);
	expect(resize_with(less), REASON_INVALID_PARAMS, U, -1);
	ck_assert_str_eq(admin_state(world, "db"), "2 U listed");
}
END_TEST

START_TEST(in_vain)
{
	expect(destroy_with((struct lock_change){0}), REASON_NO_SUCH_LOCK, -1, -1);
	/* A destroy that died has left these. */
	admin_make(world, "db", "0 3 4");
	expect(destroy_with((struct lock_change){0}), REASON_NONE, 0, -1);
	ck_assert_str_eq(admin_state(world, "db"), "0");
	admin_make(world, "db", "0 listed");
	expect(destroy_with((struct lock_change){0}), REASON_NONE, 0, -1);
	expect(destroy_with((struct lock_change){0}), REASON_NO_SUCH_LOCK, -1, -1);
}
END_TEST

START_TEST(ascending_warns)
{
	create(5, false);
	ck_assert(!resize(4)->warned);
	ck_assert(resize_with((struct lock_change){.slots = 3, .ascending = true})->warned);
	ck_assert(!resize_with((struct lock_change){.slots = 2, .ascending = true, .overshoot = 9})
		       ->warned);
	ck_assert_str_eq(admin_state(world, "db"), "2 listed");
	ck_assert(destroy_with((struct lock_change){.ascending = true})->warned);
	ck_assert_str_eq(admin_state(world, "db"), "0");
	ck_assert(!destroy_with((struct lock_change){.ascending = true})->warned);
}
END_TEST

/* The lowest slot is removed first: a scan from 1 finds none at once. */
START_TEST(ascending_begins_at_the_bottom)
{
	bool seen = false;

	create(4, false);
	lock_destroy(engine(0), 1, 99, &(struct lock_change){.name = "db", .ascending = true});
	while (world_answer(world, 0, 1, 99) == NULL) {
		seen |= strcmp(admin_state(world, "db"), "0 2 3 4 listed") == 0;
		world_step(world, SECOND);
	}
	ck_assert(seen);
}
END_TEST

START_TEST(uncounted_slots_go_as_far_as_the_scan)
{
	admin_make(world, "db", "2 5 8 200 270 390");
	/* If a window has some, the daemon scans the next window. */
	expect(resize(3), REASON_NONE, 3, 3);
	ck_assert_str_eq(admin_state(world, "db"), "3");
	admin_make(world, "x", "2 390");
	lock_resize(engine(0), 1, 90, &(struct lock_change){.name = "x", .slots = 2});
	ck_assert_int_eq(world_await(world, 0, 1, 90)->reason, REASON_NONE);
	ck_assert_str_eq(admin_state(world, "x"), "2 390");
	lock_resize(engine(0), 1, 91,
	    &(struct lock_change){.name = "x", .slots = 2, .overshoot = METHODS_SLOTS_MAX});
	ck_assert_int_eq(world_await(world, 0, 1, 91)->reason, REASON_NONE);
	ck_assert_str_eq(admin_state(world, "x"), "2");
}
END_TEST

/* ---- when it fails ---- */

START_TEST(an_unknown_answer_about_uncounted_slots_changes_nothing)
{
	create(3, false);
	/* A new auxiliary connection learns of the alarm with its first publish. */
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	world_pass(world, SECOND);
	lock_resize(engine(0), 1, 50, &(struct lock_change){.name = "db", .slots = 1});
	/* After the mutex and the size, before the uncounted slots. */
	for (int i = 0; i < 100 && world->asked < 100; i++) {
		if (memory_world_has(world->memory, "db", NULL))
			break;
		world_step(world, SECOND);
	}
	memory_world_block(world->memory, true);
	ck_assert_int_ne(world_await(world, 0, 1, 50)->reason, REASON_NONE);
	ck_assert_str_eq(admin_state(world, "db"), "3 listed");
	ck_assert_int_eq(world_answer(world, 0, 1, 50)->target, 1);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 1, 50)->text, "slot "));
}
END_TEST

static int
slots_of(const char *name)
{
	int slots;

	ck_assert_int_eq(sscanf(admin_state(world, name), "%d", &slots), 1);
	return slots;
}

START_TEST(a_refusal_says_how_far_it_came)
{
	const struct said *said;

	create(9, false);
	lock_resize(engine(0), 1, 50, &(struct lock_change){.name = "db", .slots = 2});
	while (slots_of("db") > 5)
		world_step(world, SECOND);
	world->refuses = true;
	world_pass(world, 10 * NSEC_PER_MSEC);
	world->refuses = false;
	said = world_await(world, 0, 1, 50);
	expect(said, REASON_BROKER_REFUSED, 9, 2);
	ck_assert_msg(
	    strncmp(said->text, "deleted 4 of 7 slots, then: ", 28) == 0, "%s", said->text);
	world_pass(world, SECOND);
	expect(resize(2), REASON_NONE, 2, 2);
}
END_TEST

START_TEST(a_change_without_an_answer_says_how_far_it_came)
{
	const struct said *said;

	create(2, false);
	lock_resize(engine(0), 1, 50,
	    &(struct lock_change){.name = "db", .by = LOCK_SLOTS_ADD, .slots = 200});
	while (slots_of("db") < 100)
		world_step(world, SECOND);
	world->silent = true;
	said = world_await(world, 0, 1, 50);
	expect(said, REASON_BROKER_UNAVAILABLE, 2, 202);
	ck_assert_msg(strstr(said->text, " of 200 slots, then: the broker did not answer") != NULL,
	    "%s", said->text);
	world->silent = false;
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	expect(resize(202), REASON_NONE, 202, 202);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

/* After the answer no more work is done. */
START_TEST(answered_too_late_it_stops)
{
	create(9, false);
	lock_resize(engine(0), 1, 50, &(struct lock_change){.name = "db", .slots = 2});
	while (slots_of("db") > 7)
		world_step(world, SECOND);
	world->delay = 2 * world_settings.request_timeout;
	ck_assert_int_eq(world_await(world, 0, 1, 50)->reason, REASON_BROKER_UNAVAILABLE);
	world->delay = NSEC_PER_MSEC;
	world_pass(world, 60 * SECOND);
	ck_assert_int_ge(slots_of("db"), 6);
	ck_assert(lock_quiet(engine(0)));
	ck_assert(!memory_world_has(world->memory, "db", NULL));
}
END_TEST

/* The name is not lost for as long as the auxiliary connection lives. */
START_TEST(work_that_is_never_answered_ends_with_its_link)
{
	create(9, false);
	lock_resize(engine(0), 1, 50, &(struct lock_change){.name = "db", .slots = 2});
	while (slots_of("db") > 7)
		world_step(world, SECOND);
	world->stuck = 1;
	ck_assert_int_eq(world_await(world, 0, 1, 50)->reason, REASON_BROKER_UNAVAILABLE);
	world_pass(world, SECOND);
	expect(resize(2), REASON_NONE, 2, 2);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

/* Each answer is progress. */
START_TEST(a_change_may_take_longer_than_a_request)
{
	int64_t began;

	create(2000, false);
	world->delay = 10 * NSEC_PER_MSEC;
	began = world->now;
	expect(resize(1), REASON_NONE, 1, 1);
	ck_assert_int_gt(world->now - began, world_settings.request_timeout);
}
END_TEST

/* ---- channels that die, queues that are declared otherwise ---- */

static void
close_channel(void *ctx, uint64_t channel, bool silent)
{
	(void)ctx;
	(void)silent;
	memory_broker_close_channel(world->daemon[0].broker, channel, 406, "PRECONDITION_FAILED");
}

START_TEST(a_channel_dies_at_every_step)
{
	for (int steps = 0; steps < 40; steps++) {
		char name[16];

		snprintf(name, sizeof(name), "s%d", steps);
		admin_make(world, name, "2 6");
		lock_resize(engine(0), 1, 1, &(struct lock_change){.name = name, .slots = 4});
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		memory_broker_each_channel(
		    world->daemon[0].broker, BROKER_AUXILIARY, close_channel, NULL);
		ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
		ck_assert_str_eq(admin_state(world, name), "4");
		world_pass(world, SECOND);
		ck_assert(lock_quiet(engine(0)));
		world->said_count = 0;
	}
}
END_TEST

START_TEST(channels_that_never_stay_open_end_it)
{
	create(2, false);
	lock_resize(engine(0), 1, 50, &(struct lock_change){.name = "db", .slots = 90});
	while (slots_of("db") < 4)
		world_step(world, SECOND);
	while (world_answer(world, 0, 1, 50) == NULL) {
		memory_broker_each_channel(
		    world->daemon[0].broker, BROKER_AUXILIARY, close_channel, NULL);
		ck_assert(world_step(world, SECOND));
	}
	expect(world_answer(world, 0, 1, 50), REASON_BROKER_UNAVAILABLE, 2, 90);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 1, 50)->text, "closed every channel"));
	world_pass(world, SECOND);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(slots_declared_otherwise_are_used_as_they_are)
{
	char queue[32];

	for (int slot = 2; slot <= 80; slot += 3) {
		snprintf(queue, sizeof(queue), "db-%d-A", slot);
		memory_world_put_otherwise(world->memory, queue);
	}
	expect(create(90, false), REASON_NONE, 90, 90);
	ck_assert_str_eq(admin_state(world, "db"), "90 listed");
}
END_TEST

/* ---- one after the other ---- */

START_TEST(a_timeout_names_the_other_administrator)
{
	const struct said *said;

	create(2000, false);
	world->delay = 20 * NSEC_PER_MSEC;
	lock_resize(engine(0), 7, 1, &(struct lock_change){.name = "db", .slots = 1});
	lock_resize(engine(0), 8, 1, &(struct lock_change){.name = "db", .slots = 3});
	said = world_await(world, 0, 8, 1);
	expect(said, REASON_TIMEOUT, -1, 3);
	ck_assert_str_eq(said->text,
	    "another administrator changes it: a resize to 1, for client 7 of this daemon");
	ck_assert_int_eq(world_await(world, 0, 7, 1)->reason, REASON_NONE);
	ck_assert_str_eq(admin_state(world, "db"), "1 listed");
	admin_create_missing(engine(0), "x", 600);
	lock_resize(engine(0), 8, 2, &(struct lock_change){.name = "x", .slots = 3});
	world->silent = true;
	ck_assert_str_eq(world_await(world, 0, 8, 2)->text,
	    "another administrator changes it: a create on first use, by this daemon");
}
END_TEST

START_TEST(two_daemons_at_once)
{
	struct jitter dice;

	jitter_init(&dice, 4);
	create(3, false);
	for (int round = 0; round < 100; round++) {
		int asked[2];

		world->said_count = 0;
		for (int i = 0; i < 2; i++) {
			asked[i] = (int)jitter_below(&dice, 20);
			lock_resize(engine(i), 2, 1,
			    &(struct lock_change){.name = "db", .slots = asked[i]});
			world_pass(world, jitter_below(&dice, 5 * NSEC_PER_MSEC));
		}
		for (int i = 0; i < 2; i++)
			ck_assert_int_eq(world_await(world, i, 2, 1)->reason, REASON_NONE);
		ck_assert_msg(slots_of("db") == asked[0] || slots_of("db") == asked[1],
		    "%s, not %d or %d", admin_state(world, "db"), asked[0], asked[1]);
		ck_assert_ptr_null(strpbrk(admin_state(world, "db") + 2, "0123456789"));
	}
}
END_TEST

/* The mutex is let go before holders are waited for. */
START_TEST(waiting_for_holders_keeps_nobody_out)
{
	create(3, false);
	world_acquire(world, 1, 5, 1, "db", 0);
	world_acquire(world, 1, 5, 2, "db", 0);
	world_await(world, 1, 5, 1);
	world_await(world, 1, 5, 2);
	lock_resize(engine(0), 1, 50,
	    &(struct lock_change){.name = "db", .slots = 1, .wait = DURATION_FOREVER});
	world_pass(world, 20 * SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 1, 50));
	ck_assert_str_eq(admin_state(world, "db"), "1 listed");
	expect(resize(3), REASON_NONE, 3, 3);
	lock_release(engine(1), 5, 3, world_answer(world, 1, 5, 2)->lock);
	expect(world_await(world, 0, 1, 50), REASON_NONE, 1, 1);
}
END_TEST

START_TEST(waiting_for_holders_of_uncounted_slots)
{
	admin_make(world, "db", "1 3");
	memory_world_put(world->memory, "db-3-B", true);
	lock_destroy(engine(0), 1, 50, &(struct lock_change){.name = "db", .wait = SECOND});
	expect(world_await(world, 0, 1, 50), REASON_TIMEOUT, 0, -1);
	ck_assert_str_eq(world_answer(world, 0, 1, 50)->detail, "3");
	ck_assert_str_eq(admin_state(world, "db"), "0");
	/* No slot was removed: there is no holder to wait for. */
	admin_make(world, "db", "2");
	expect(resize_with((struct lock_change){.slots = 4, .wait = DURATION_FOREVER}), REASON_NONE,
	    4, 4);
}
END_TEST

/* ---- for an acquire ---- */

START_TEST(created_on_first_use)
{
	uint64_t first = admin_create_missing(engine(0), "db", 2);

	ck_assert_uint_eq(admin_create_missing(engine(0), "db", 5), first);
	ck_assert_uint_ne(admin_create_missing(engine(0), "other", 1), first);
	world_pass(world, SECOND);
	ck_assert_str_eq(admin_state(world, "db"), "2 listed");
	ck_assert_str_eq(admin_state(world, "other"), "1 listed");
	resize(0);
	ck_assert_uint_ne(admin_create_missing(engine(0), "db", 2), first);
	world_pass(world, SECOND);
	ck_assert_str_eq(admin_state(world, "db"), "0 G listed");
	/* There is no answer: the request has no client. */
	ck_assert_uint_eq(world->said_count, 1);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

START_TEST(created_on_first_use_in_vain)
{
	memory_world_put(world->memory, "db", true);
	admin_create_missing(engine(0), "db", 2);
	world_pass(world, 2 * world_settings.request_timeout);
	ck_assert(lock_quiet(engine(0)));
	memory_world_remove(world->memory, "db");
	world_pass(world, SECOND);
	ck_assert_str_eq(admin_state(world, "db"), "0");
	ck_assert_uint_eq(world->said_count, 0);
}
END_TEST

Suite *
suite_lock_resize(void)
{
	Suite *suite = suite_create("lock: sizes");
	TCase *tc = tcase_create("resize");

	tcase_add_checked_fixture(tc, setup, world_end);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, from_one_size_to_another);
	tcase_add_test(tc, created_as_a_gate_or_unlimited);
	tcase_add_test(tc, a_relative_change_becomes_a_size);
	tcase_add_test(tc, in_vain);
	tcase_add_test(tc, ascending_warns);
	tcase_add_test(tc, ascending_begins_at_the_bottom);
	tcase_add_test(tc, uncounted_slots_go_as_far_as_the_scan);
	tcase_add_test(tc, an_unknown_answer_about_uncounted_slots_changes_nothing);
	tcase_add_test(tc, a_refusal_says_how_far_it_came);
	tcase_add_test(tc, a_change_without_an_answer_says_how_far_it_came);
	tcase_add_test(tc, answered_too_late_it_stops);
	tcase_add_test(tc, work_that_is_never_answered_ends_with_its_link);
	tcase_add_test(tc, a_change_may_take_longer_than_a_request);
	tcase_add_test(tc, a_channel_dies_at_every_step);
	tcase_add_test(tc, channels_that_never_stay_open_end_it);
	tcase_add_test(tc, slots_declared_otherwise_are_used_as_they_are);
	tcase_add_test(tc, a_timeout_names_the_other_administrator);
	tcase_add_test(tc, two_daemons_at_once);
	tcase_add_test(tc, waiting_for_holders_keeps_nobody_out);
	tcase_add_test(tc, waiting_for_holders_of_uncounted_slots);
	tcase_add_test(tc, created_on_first_use);
	tcase_add_test(tc, created_on_first_use_in_vain);
	suite_add_tcase(suite, tc);
	return suite;
}
