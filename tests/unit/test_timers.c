/*
 * daemon/base: timers over a clock of our own, the clock itself, jitter and backoff.
 */
#include <stdint.h>
#include <time.h>

#include "daemon/base/backoff.h"
#include "daemon/base/clock.h"
#include "daemon/base/timers.h"
#include "tests/unit/unit.h"

#define FIRED_MAX 64

static int64_t fake_time;
static uint64_t fired[FIRED_MAX];
static size_t fired_count;

static int64_t
fake_now(void *ctx)
{
	(void)ctx;
	return fake_time;
}

static const struct clock fake_clock = {.now = fake_now};
static struct timers *timers;
static struct timer spare;

static void
note(void *ctx, uint64_t id)
{
	(void)ctx;
	ck_assert_uint_lt(fired_count, FIRED_MAX);
	fired[fired_count++] = id;
}

static void
timers_setup(void)
{
	fake_time = 1000;
	fired_count = 0;
	timers = timers_new(&fake_clock);
}

static void
timers_teardown(void)
{
	timers_free(timers);
}

START_TEST(timers_fire_in_order_of_time)
{
	static const int64_t times[] = {1500, 1100, 1900, 1300, 1000, 1700, 1200, 1050};
	enum { COUNT = sizeof(times) / sizeof(times[0]) };
	struct timer timer[COUNT];

	for (size_t i = 0; i < COUNT; i++) {
		timer_init(&timer[i], note, NULL, (uint64_t)times[i]);
		timers_set(timers, &timer[i], times[i]);
	}
	ck_assert_int_eq(timers_next(timers), 1000);
	fake_time = 1499;
	timers_run(timers);
	ck_assert_uint_eq(fired_count, 5);
	ck_assert_int_eq(timers_next(timers), 1500);
	fake_time = 1900;
	timers_run(timers);
	ck_assert_uint_eq(fired_count, COUNT);
	for (size_t i = 1; i < COUNT; i++)
		ck_assert_uint_lt(fired[i - 1], fired[i]);
	ck_assert_int_eq(timers_next(timers), INT64_MAX);
}
END_TEST

START_TEST(timers_of_one_time_fire_in_order_of_setting)
{
	struct timer timer[20];

	for (uint64_t i = 0; i < 20; i++) {
		timer_init(&timer[i], note, NULL, i);
		timers_set(timers, &timer[i], 1000);
	}
	/* Setting again, though to the same time, sends it to the end. */
	timers_set(timers, &timer[3], 1000);
	timers_run(timers);
	ck_assert_uint_eq(fired_count, 20);
	for (size_t i = 0; i < 19; i++)
		ck_assert_uint_eq(fired[i], i < 3 ? i : i + 1);
	ck_assert_uint_eq(fired[19], 3);
}
END_TEST

START_TEST(timers_agree_with_a_sorted_list)
{
	enum { COUNT = 60 };
	struct timer timer[COUNT];
	int64_t times[COUNT];
	struct jitter jitter;
	size_t set = 0;

	jitter_init(&jitter, 7);
	for (size_t i = 0; i < COUNT; i++)
		timer_init(&timer[i], note, NULL, i);
	for (int round = 0; round < 2000; round++) {
		size_t i = (size_t)jitter_below(&jitter, COUNT);

		if (jitter_below(&jitter, 3) == 0)
			timers_cancel(timers, &timer[i]);
		else
			timers_set(timers, &timer[i], 1000 + jitter_below(&jitter, 500));
	}
	for (size_t i = 0; i < COUNT; i++) {
		set += timer_is_set(&timer[i]) ? 1 : 0;
		times[i] = timer[i].when;
	}
	fake_time = 2000;
	timers_run(timers);
	ck_assert_uint_gt(set, 0);
	ck_assert_uint_eq(fired_count, set);
	for (size_t i = 1; i < fired_count; i++)
		ck_assert_int_le(times[fired[i - 1]], times[fired[i]]);
}
END_TEST

START_TEST(timers_move_both_ways)
{
	struct timer early, late;

	timer_init(&early, note, NULL, 1);
	timer_init(&late, note, NULL, 2);
	timers_set(timers, &early, 1100);
	timers_set(timers, &late, 1200);
	timers_set(timers, &early, 1300);
	ck_assert_int_eq(timers_next(timers), 1200);
	timers_set(timers, &early, 1050);
	ck_assert_int_eq(timers_next(timers), 1050);
	fake_time = 1300;
	timers_run(timers);
	ck_assert_uint_eq(fired_count, 2);
	ck_assert_uint_eq(fired[0], 1);
	ck_assert_uint_eq(fired[1], 2);
}
END_TEST

START_TEST(timers_cancelled_do_not_fire)
{
	struct timer timer[8];

	for (uint64_t i = 0; i < 8; i++) {
		timer_init(&timer[i], note, NULL, i);
		timers_set(timers, &timer[i], 1000 + (int64_t)i);
	}
	timers_cancel(timers, &timer[0]);
	timers_cancel(timers, &timer[5]);
	timers_cancel(timers, &timer[7]);
	ck_assert(!timer_is_set(&timer[5]));
	timers_cancel(timers, &timer[5]); /* not set: nothing happens */
	fake_time = 2000;
	timers_run(timers);
	ck_assert_uint_eq(fired_count, 5);
	ck_assert_uint_eq(fired[0], 1);
	ck_assert_uint_eq(fired[4], 6);
}
END_TEST

static void
note_and_set_spare(void *ctx, uint64_t id)
{
	note(ctx, id);
	timers_set(timers, &spare, 0);
}

START_TEST(timers_set_while_firing_wait_for_the_next_run)
{
	struct timer timer[2];

	timer_init(&spare, note, NULL, 9);
	timer_init(&timer[0], note_and_set_spare, NULL, 1);
	timer_init(&timer[1], note, NULL, 2);
	timers_set(timers, &timer[0], 900);
	timers_set(timers, &timer[1], 950);
	timers_run(timers);
	/* The spare's time has passed and comes before all others, but its turn has not come. */
	ck_assert_uint_eq(fired_count, 2);
	ck_assert_uint_eq(fired[1], 2);
	ck_assert(timer_is_set(&spare));
	ck_assert_int_eq(timers_next(timers), 0);
	timers_run(timers);
	ck_assert_uint_eq(fired_count, 3);
	ck_assert_uint_eq(fired[2], 9);
}
END_TEST

static void
note_and_set_itself(void *ctx, uint64_t id)
{
	note(ctx, id);
	timers_set(timers, &spare, fake_time);
}

START_TEST(timers_that_set_themselves_again_do_not_block_the_run)
{
	timer_init(&spare, note_and_set_itself, NULL, 1);
	timers_set(timers, &spare, 1000);
	timers_run(timers);
	timers_run(timers);
	ck_assert_uint_eq(fired_count, 2);
	timers_cancel(timers, &spare);
}
END_TEST

static struct timer victim, moved;

static void
note_and_disturb(void *ctx, uint64_t id)
{
	note(ctx, id);
	ck_assert(timer_is_set(&victim) && timer_is_set(&moved));
	timers_cancel(timers, &victim);
	timers_set(timers, &moved, 1500);
	ck_assert(!timer_is_set(&victim));
	ck_assert_int_eq(timers_next(timers), 1000);
}

START_TEST(timers_due_can_be_cancelled_and_moved_by_one_that_fires)
{
	struct timer first, last;

	timer_init(&first, note_and_disturb, NULL, 1);
	timer_init(&victim, note, NULL, 2);
	timer_init(&moved, note, NULL, 3);
	timer_init(&last, note, NULL, 4);
	timers_set(timers, &first, 1000);
	timers_set(timers, &victim, 1000);
	timers_set(timers, &moved, 1000);
	timers_set(timers, &last, 1000);
	timers_run(timers);
	ck_assert_uint_eq(fired_count, 2);
	ck_assert_uint_eq(fired[1], 4);
	fake_time = 1500;
	timers_run(timers);
	ck_assert_uint_eq(fired_count, 3);
	ck_assert_uint_eq(fired[2], 3);
}
END_TEST

START_TEST(clock_boottime_goes_forward)
{
	int64_t before = clock_now(&clock_boottime), after;
	struct timespec now;

	ck_assert_int_eq(clock_gettime(CLOCK_BOOTTIME, &now), 0);
	after = clock_now(&clock_boottime);
	ck_assert_int_le(before, now.tv_sec * NSEC_PER_SEC + now.tv_nsec);
	ck_assert_int_le(now.tv_sec * NSEC_PER_SEC + now.tv_nsec, after);
}
END_TEST

/* ---- jitter and backoff ---- */

START_TEST(jitter_replays_from_its_seed)
{
	struct jitter one, two, other;
	int differing = 0;

	jitter_init(&one, 42);
	jitter_init(&two, 42);
	jitter_init(&other, UINT64_C(42) | UINT64_C(1) << 63);
	for (int i = 0; i < 100; i++) {
		int64_t drawn = jitter_below(&one, INT64_MAX);

		ck_assert_int_eq(drawn, jitter_below(&two, INT64_MAX));
		differing += drawn != jitter_below(&other, INT64_MAX);
	}
	ck_assert_int_gt(differing, 90);
}
END_TEST

START_TEST(jitter_stays_below_its_bound_and_reaches_all_of_it)
{
	int seen[10] = {0};
	int64_t most = 0;
	struct jitter jitter;

	jitter_init(&jitter, 1);
	ck_assert_int_eq(jitter_below(&jitter, 0), 0);
	ck_assert_int_eq(jitter_below(&jitter, -5), 0);
	ck_assert_int_eq(jitter_below(&jitter, 1), 0);
	for (int i = 0; i < 10000; i++) {
		int64_t drawn = jitter_below(&jitter, 10);

		ck_assert(drawn >= 0 && drawn < 10);
		seen[drawn]++;
	}
	/* 1000 each; 6 sigma of a fair one are 180. */
	for (int i = 0; i < 10; i++)
		ck_assert(seen[i] > 800 && seen[i] < 1200);
	for (int i = 0; i < 100; i++) {
		int64_t drawn = jitter_below(&jitter, INT64_MAX);

		ck_assert_int_ge(drawn, 0);
		most = drawn > most ? drawn : most;
	}
	ck_assert_int_gt(most, INT64_MAX / 2);
}
END_TEST

START_TEST(backoff_doubles_up_to_its_ceiling)
{
	int64_t ceiling = 100, longest = 0;
	struct backoff backoff;
	struct jitter jitter;

	jitter_init(&jitter, 3);
	backoff_init(&backoff, 100, 750);
	for (int i = 0; i < 200; i++) {
		int64_t wait = backoff_next(&backoff, &jitter);

		ck_assert(wait >= 0 && wait <= ceiling);
		ceiling = ceiling * 2 < 750 ? ceiling * 2 : 750;
		ck_assert_int_eq(backoff.ceiling, ceiling);
		longest = wait > longest ? wait : longest;
	}
	ck_assert_int_gt(longest, 700);
	backoff_reset(&backoff);
	ck_assert_int_le(backoff_next(&backoff, &jitter), 100);
}
END_TEST

START_TEST(backoff_does_not_overflow)
{
	struct backoff backoff;
	struct jitter jitter;

	jitter_init(&jitter, 3);
	backoff_init(&backoff, 1, INT64_MAX - 1);
	for (int i = 0; i < 100; i++)
		ck_assert_int_ge(backoff_next(&backoff, &jitter), 0);
	ck_assert_int_eq(backoff.ceiling, INT64_MAX - 1);
}
END_TEST

static Suite *
timers_suite(void)
{
	Suite *suite = suite_create("timers");
	TCase *tcase = tcase_create("timers");

	tcase_add_checked_fixture(tcase, timers_setup, timers_teardown);
	tcase_add_test(tcase, timers_fire_in_order_of_time);
	tcase_add_test(tcase, timers_of_one_time_fire_in_order_of_setting);
	tcase_add_test(tcase, timers_agree_with_a_sorted_list);
	tcase_add_test(tcase, timers_move_both_ways);
	tcase_add_test(tcase, timers_cancelled_do_not_fire);
	tcase_add_test(tcase, timers_set_while_firing_wait_for_the_next_run);
	tcase_add_test(tcase, timers_that_set_themselves_again_do_not_block_the_run);
	tcase_add_test(tcase, timers_due_can_be_cancelled_and_moved_by_one_that_fires);
	tcase_add_test(tcase, clock_boottime_goes_forward);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("backoff");
	tcase_add_test(tcase, jitter_replays_from_its_seed);
	tcase_add_test(tcase, jitter_stays_below_its_bound_and_reaches_all_of_it);
	tcase_add_test(tcase, backoff_doubles_up_to_its_ceiling);
	tcase_add_test(tcase, backoff_does_not_overflow);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {timers_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
