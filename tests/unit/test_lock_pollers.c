/*
 * Clients that poll are in no wait queue. If a slot is handed off here for long, and there is no
 * other waiter, it is freed for them now and then.
 */
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <string.h>

/* A quarter of a second: no poller waits longer. */
#define TURN (250 * MS)
/* Each holds it for so long. */
#define HELD (5 * MS)
#define WAITERS 500
#define FIRST 1000

static const struct {
	enum lock_kind kind;
	const char *b;
} kinds[] = {{LOCK_KIND_SEMAPHORE, "db-1-B"}, {LOCK_KIND_MUTEX, "db-M"}};
#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static const char *b;
/* The present holder, or the last one. */
static uint64_t holder;

static bool
is_there(void)
{
	return memory_world_has(world->memory, b, NULL);
}

/* A client holds it here, and many wait for it here alone. */
static void
queue_up(int kind)
{
	b = kinds[kind].b;
	for (holder = FIRST; holder < FIRST + WAITERS; holder++)
		wait_as(0, holder, 1, kinds[kind].kind, 0);
	holder = FIRST;
	world_await(world, 0, holder, 1);
	world_pass(world, SECOND / 10);
}

/* The holder releases. Ends when the next one has it, or none. False: there is no holder. */
static bool
goes_on(void)
{
	lock_release(engine(0), holder, 2, now(0, holder, 1)->lock);
	while (is_waiting(0, holder + 1, 1) && is_there())
		ck_assert(world_step(world, SECOND));
	if (is_waiting(0, holder + 1, 1))
		return false;
	holder++;
	world_pass(world, HELD);
	return true;
}

/* Hand-offs from client to client, until the daemon has just withheld the slot. */
static void
until_let_go(void)
{
	int64_t began = world->now;

	while (goes_on())
		ck_assert_int_lt(world->now - began, 2 * TURN);
	ck_assert(!is_there());
}

/* The next one here has it. */
static int64_t
until_taken_again(void)
{
	holder++;
	return world_await(world, 0, holder, 1)->at;
}

START_TEST(a_withheld_slot_goes_to_the_next_waiter_here_after_the_grace)
{
	int64_t let_go;

	queue_up(_i);
	until_let_go();
	let_go = world->now;
	ck_assert_int_ge(until_taken_again() - let_go, world_settings.hint_grace);
	ck_assert_int_le(world->now - let_go, world_settings.hint_grace + 4 * world->delay);
	ck_assert_int_eq(now(0, holder, 1)->reason, REASON_NONE);
	/* Hand-offs go on as before. */
	world_pass(world, HELD);
	ck_assert(goes_on());
	ck_assert(is_there());
}
END_TEST

START_TEST(a_slot_is_withheld_four_times_a_second)
{
	int times = 0, passes = 0;
	int64_t began;

	queue_up(_i);
	until_let_go();
	began = world->now;
	until_taken_again();
	while (world->now - began < 2 * SECOND) {
		if (goes_on()) {
			passes++;
			continue;
		}
		times++;
		until_taken_again();
		world_pass(world, HELD);
	}
	/* At the end of a row only: that is a little later each time. */
	ck_assert_int_ge(times, 5);
	ck_assert_int_le(times, 8);
	ck_assert_int_gt(passes, 200);
}
END_TEST

START_TEST(a_poller_at_that_moment_gets_it)
{
	int64_t left;

	queue_up(_i);
	until_let_go();
	world_pass(world, world_settings.hint_grace / 2);
	ck_assert(memory_world_put(world->memory, b, true));
	world_pass(world, SECOND / 10);
	ck_assert(is_waiting(0, holder + 1, 1));
	/* Such a client sends no hint at its release. */
	memory_world_remove(world->memory, b);
	left = world->now;
	ck_assert_int_le(until_taken_again() - left, world_settings.rescan_interval + SECOND / 10);
	ck_assert_int_eq(now(0, holder, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(so_does_a_poller_at_another_daemon)
{
	struct lock_acquire wanted = {.name = "db", .kind = kinds[_i].kind, .timeout = TRY};

	queue_up(_i);
	until_let_go();
	lock_acquire(engine(1), 1, 1, &wanted);
	ck_assert_int_eq(world_await(world, 1, 1, 1)->reason, REASON_NONE);
	world_pass(world, SECOND / 10);
	ck_assert(is_waiting(0, holder + 1, 1));
	release(1, 1, 2, now(1, 1, 1)->lock);
	ck_assert_int_le(until_taken_again() - now(1, 1, 2)->at, SECOND / 10);
}
END_TEST

START_TEST(a_poller_here_comes_after_the_waiters)
{
	struct lock_acquire wanted = {.name = "db", .kind = kinds[_i].kind, .timeout = TRY};

	queue_up(_i);
	until_let_go();
	lock_acquire(engine(0), 1, 1, &wanted);
	until_taken_again();
	ck_assert_int_eq(now(0, holder, 1)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_WOULD_BLOCK);
}
END_TEST

/*
 * A waiter in the wait queue elsewhere gets the hint as always. The slot is then not for pollers.
 */
START_TEST(a_waiter_elsewhere_gets_a_hint_at_once)
{
	struct lock_acquire wanted = {
	    .name = "db", .kind = kinds[_i].kind, .timeout = DURATION_FOREVER};
	int64_t let_go;

	queue_up(_i);
	lock_acquire(engine(1), 1, 1, &wanted);
	world_pass(world, SECOND);
	/* The first hint comes back: this daemon joined the wait queue first. */
	until_let_go();
	until_taken_again();
	world_pass(world, HELD);
	until_let_go();
	let_go = world->now;
	ck_assert_int_lt(world_await(world, 1, 1, 1)->at - let_go, world_settings.hint_grace);
}
END_TEST

/* No slot is withheld. */
START_TEST(without_a_grace_no_slot_is_withheld)
{
	struct lock_settings settings = world_settings;

	settings.hint_grace = 0;
	lock_engine_set(engine(0), &settings);
	queue_up(_i);
	for (int64_t began = world->now; world->now - began < SECOND;)
		ck_assert(goes_on());
}
END_TEST

Suite *
suite_lock_pollers(void)
{
	Suite *suite = suite_create("lock: pollers");
	TCase *tc = tcase_create("pollers");

	tcase_add_checked_fixture(tc, world_begin_with_db, world_end);
	tcase_add_loop_test(
	    tc, a_withheld_slot_goes_to_the_next_waiter_here_after_the_grace, 0, KINDS);
	tcase_add_loop_test(tc, a_slot_is_withheld_four_times_a_second, 0, KINDS);
	tcase_add_loop_test(tc, a_poller_at_that_moment_gets_it, 0, KINDS);
	tcase_add_loop_test(tc, so_does_a_poller_at_another_daemon, 0, KINDS);
	tcase_add_loop_test(tc, a_poller_here_comes_after_the_waiters, 0, KINDS);
	tcase_add_loop_test(tc, a_waiter_elsewhere_gets_a_hint_at_once, 0, KINDS);
	tcase_add_loop_test(tc, without_a_grace_no_slot_is_withheld, 0, KINDS);
	suite_add_tcase(suite, tc);
	return suite;
}
