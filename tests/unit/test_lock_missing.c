/*
 * Acquires that have a missing semaphore made.
 */
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#define STEP (20 * NSEC_PER_MSEC)

static void
ask(int daemon, uint64_t peer, uint64_t request, int create, int64_t timeout)
{
	struct lock_acquire wanted = {.name = "db",
	    .kind = LOCK_KIND_SEMAPHORE,
	    .timeout = timeout,
	    .create = create,
	    .uid = 1000};

	lock_acquire(engine(daemon), peer, request, &wanted);
}

static enum reason
reason_of(int daemon, uint64_t peer, uint64_t request)
{
	return world_await(world, daemon, peer, request)->reason;
}

static bool
has(const char *queue)
{
	return memory_world_has(world->memory, queue, NULL);
}

START_TEST(a_missing_semaphore_is_made_once_for_all_waiters)
{
	ask(0, 1, 1, 2, TRY);
	ask(0, 2, 1, 5, TRY);
	ask(0, 3, 1, 2, TRY);
	ask(0, 4, 1, 0, TRY);
	ask(0, 5, 1, 0, DURATION_FOREVER);
	ck_assert_int_eq(reason_of(0, 1, 1), REASON_NONE);
	ck_assert_int_eq(reason_of(0, 2, 1), REASON_NONE);
	ck_assert_int_eq(reason_of(0, 3, 1), REASON_WOULD_BLOCK);
	ck_assert_int_eq(reason_of(0, 4, 1), REASON_NO_SUCH_LOCK);
	ck_assert_int_eq(reason_of(0, 5, 1), REASON_NO_SUCH_LOCK);
	ck_assert(has("db-2-A") && !has("db-3-A") && !has("db-G"));
	/* Now it is there, and `create` says nothing. */
	ask(0, 6, 1, 9, TRY);
	ck_assert_int_eq(reason_of(0, 6, 1), REASON_WOULD_BLOCK);
	ck_assert(!has("db-3-A"));
	world_pass(world, SECOND);
	ck_assert(!has("db"));
}
END_TEST

START_TEST(the_right_to_create_is_needed_only_to_create)
{
	struct lock_acquire wanted = {.name = "db",
	    .kind = LOCK_KIND_SEMAPHORE,
	    .timeout = TRY,
	    .create = 2,
	    .may_not_create = "no"};

	lock_acquire(engine(0), 1, 1, &wanted);
	ck_assert_int_eq(reason_of(0, 1, 1), REASON_PERMISSION_DENIED);
	ck_assert_str_eq(world_answer(world, 0, 1, 1)->text, "no");
	ck_assert(!has("db-1-A"));
	ask(0, 2, 1, 1, TRY);
	ck_assert_int_eq(reason_of(0, 2, 1), REASON_NONE);
	lock_acquire(engine(0), 3, 1, &wanted);
	ck_assert_int_eq(reason_of(0, 3, 1), REASON_WOULD_BLOCK);
	/* It waits while another user creates it. */
	wanted.name = "other";
	lock_acquire(
	    engine(0), 4, 1, &(struct lock_acquire){.name = "other", .timeout = TRY, .create = 2});
	while (!has("other"))
		ck_assert(world_step(world, SECOND));
	lock_acquire(engine(0), 5, 1, &wanted);
	ck_assert_int_eq(reason_of(0, 5, 1), REASON_NONE);
}
END_TEST

START_TEST(a_newcomer_waits_while_it_is_made)
{
	ask(0, 1, 1, 1, DURATION_FOREVER);
	while (!has("db"))
		ck_assert(world_step(world, SECOND));
	ask(0, 2, 1, 1, DURATION_FOREVER);
	ck_assert_int_eq(reason_of(0, 1, 1), REASON_NONE);
	lock_peer_gone(engine(0), 1);
	ck_assert_int_eq(reason_of(0, 2, 1), REASON_NONE);
}
END_TEST

/*
 * A client creates a semaphore, and after so many steps another one tries to acquire it. The scan
 * of the try is performed soon and answered late. False: the semaphore existed before.
 */
static bool
try_after(int steps, int *ret_told_first)
{
	world->delay = 2 * STEP;
	lock_create(engine(0), 2, 1, &(struct lock_change){.name = "db", .slots = 1});
	for (int i = 0; i < steps; i++)
		world_step(world, SECOND);
	if (world_answer(world, 0, 2, 1) != NULL)
		return false;
	world->delay = 3 * STEP;
	ask(0, 1, 1, 0, TRY);
	world_pass(world, 0);
	world->delay = 2 * STEP;
	while (world_answer(world, 0, 1, 1) == NULL && world_answer(world, 0, 2, 1) == NULL)
		ck_assert(world_step(world, SECOND));
	if (world_answer(world, 0, 1, 1) == NULL) {
		++*ret_told_first;
		ck_assert_int_eq(reason_of(0, 1, 1), REASON_NONE);
	}
	ck_assert_int_eq(reason_of(0, 2, 1), REASON_NONE);
	return true;
}

START_TEST(a_scan_from_before_it_was_made_is_not_reported)
{
	int told_first = 0;

	for (int steps = 0; try_after(steps, &told_first); steps++) {
		world_free(world);
		world_begin();
	}
	ck_assert_int_gt(told_first, 0);
}
END_TEST

START_TEST(a_persistent_mutex_is_made_with_one_slot)
{
	struct lock_acquire wanted = {
	    .name = "db", .kind = LOCK_KIND_PERSISTENT_MUTEX, .timeout = TRY, .create = 5};

	lock_acquire(engine(0), 1, 1, &wanted);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->slot, 1);
	ck_assert(has("db-1-A") && !has("db-2-A"));
}
END_TEST

START_TEST(a_gate_is_not_missing)
{
	memory_world_put(world->memory, "db-G", false);
	ask(0, 1, 1, 2, TRY);
	ck_assert_int_eq(reason_of(0, 1, 1), REASON_WOULD_BLOCK);
	ck_assert(!has("db-1-A"));
}
END_TEST

START_TEST(two_daemons_make_one)
{
	for (uint64_t peer = 1; peer <= 2; peer++) {
		for (int daemon = 0; daemon < 2; daemon++)
			ask(daemon, peer, 1, 4, DURATION_FOREVER);
	}
	for (uint64_t peer = 1; peer <= 2; peer++) {
		for (int daemon = 0; daemon < 2; daemon++)
			ck_assert_int_eq(reason_of(daemon, peer, 1), REASON_NONE);
	}
	ck_assert_int_eq(world_b_count(world), 4);
	ck_assert(has("db-4-A") && !has("db-5-A") && !has("db-G"));
}
END_TEST

/* Another administrator is at work on it, for longer than a request may take. */
START_TEST(a_waiter_without_deadline_outlasts_another_administrator)
{
	memory_world_put(world->memory, "db", true);
	ask(0, 1, 1, 1, DURATION_FOREVER);
	ask(0, 2, 1, 1, TRY);
	ask(0, 3, 1, 1, 15 * SECOND);
	ck_assert_int_eq(reason_of(0, 2, 1), REASON_BROKER_UNAVAILABLE);
	ck_assert_int_eq(reason_of(0, 3, 1), REASON_TIMEOUT);
	ck_assert_ptr_null(world_answer(world, 0, 1, 1));
	memory_world_remove(world->memory, "db");
	ck_assert_int_eq(reason_of(0, 1, 1), REASON_NONE);
}
END_TEST

START_TEST(in_an_alarm_nothing_is_made)
{
	memory_world_block(world->memory, true);
	ask(0, 1, 1, 1, TRY);
	ask(0, 2, 1, 1, DURATION_FOREVER);
	ck_assert_int_eq(reason_of(0, 1, 1), REASON_BROKER_BLOCKED);
	world_pass(world, 30 * SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 2, 1));
	memory_world_block(world->memory, false);
	ck_assert_int_eq(reason_of(0, 2, 1), REASON_NONE);
}
END_TEST

/* The node of its holder queue is down. Each attempt takes the directory's mutex. */
START_TEST(a_semaphore_that_cannot_be_made_is_tried_rarely)
{
	struct lock_settings settings = world_settings;
	unsigned before;

	settings.claim = BROKER_BY_CONSUMER;
	lock_engine_set(engine(0), &settings);
	ck_assert(memory_world_put_holder(world->memory, "db-1-B"));
	ck_assert(memory_world_set_home(world->memory, "db-1-B", 1));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
	for (uint64_t i = 1; i <= 10; i++)
		ask(0, i, 1, 1, DURATION_FOREVER);
	ask(0, 11, 1, 1, 10 * SECOND);
	ask(0, 12, 1, 1, TRY);
	ck_assert_int_eq(reason_of(0, 12, 1), REASON_BROKER_UNAVAILABLE);
	before = world->asked;
	world_pass(world, 9 * SECOND);
	ck_assert_uint_ge(world->asked, before + 6 * 8);
	ck_assert_uint_le(world->asked, before + 18 * 16);
	ck_assert_int_eq(reason_of(0, 11, 1), REASON_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 11, 1)->text, "could not be created"));
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 11, 1)->text, "is down"));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(now(0, 1, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_waiter_is_refused_if_the_daemon_may_not_make_it)
{
	world->refuses = true;
	ask(0, 1, 1, 1, DURATION_FOREVER);
	ask(0, 2, 1, 1, TRY);
	ck_assert_int_eq(reason_of(0, 1, 1), REASON_BROKER_REFUSED);
	ck_assert_int_eq(reason_of(0, 2, 1), REASON_BROKER_REFUSED);
}
END_TEST

/* Either link ends after every step. The semaphore is created all the same, for its waiters. */
static void
cut_at_every_step(enum broker_link link)
{
	bool done = false;

	for (int steps = 0; !done; steps++) {
		world_free(world);
		world_begin();
		ask(0, 1, 1, 2, DURATION_FOREVER);
		ask(0, 2, 1, 2, DURATION_FOREVER);
		for (int i = 0; i < steps; i++)
			world_step(world, STEP);
		done = world_answer(world, 0, 2, 1) != NULL;
		memory_broker_cut(world->daemon[0].broker, link, 0, STEP, "cut");
		ck_assert_int_eq(reason_of(0, 1, 1), REASON_NONE);
		ck_assert_int_eq(reason_of(0, 2, 1), REASON_NONE);
		ck_assert(has("db-2-A") && !has("db-3-A"));
		world_pass(world, SECOND);
		ck_assert(!has("db"));
	}
}

START_TEST(the_auxiliary_connection_dies_at_every_step)
{
	cut_at_every_step(BROKER_AUXILIARY);
}
END_TEST

START_TEST(the_lock_connection_dies_at_every_step)
{
	cut_at_every_step(BROKER_LOCKS);
}
END_TEST

START_TEST(its_client_hangs_up_at_every_step)
{
	for (int steps = 0; steps < 60; steps++) {
		world_free(world);
		world_begin();
		ask(0, 1, 1, 1, DURATION_FOREVER);
		for (int i = 0; i < steps; i++)
			world_step(world, STEP);
		lock_peer_gone(engine(0), 1);
		world_pass(world, 2 * SECOND);
		ck_assert(lock_quiet(engine(0)));
		ck_assert_int_eq(world_b_count(world), 0);
		ck_assert(!has("db") && !has("db-G"));
	}
}
END_TEST

Suite *
suite_lock_missing(void)
{
	Suite *suite = suite_create("lock: missing");
	TCase *tc = tcase_create("missing");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, a_missing_semaphore_is_made_once_for_all_waiters);
	tcase_add_test(tc, the_right_to_create_is_needed_only_to_create);
	tcase_add_test(tc, a_newcomer_waits_while_it_is_made);
	tcase_add_test(tc, a_scan_from_before_it_was_made_is_not_reported);
	tcase_add_test(tc, a_persistent_mutex_is_made_with_one_slot);
	tcase_add_test(tc, a_gate_is_not_missing);
	tcase_add_test(tc, two_daemons_make_one);
	tcase_add_test(tc, a_waiter_without_deadline_outlasts_another_administrator);
	tcase_add_test(tc, in_an_alarm_nothing_is_made);
	tcase_add_test(tc, a_semaphore_that_cannot_be_made_is_tried_rarely);
	tcase_add_test(tc, a_waiter_is_refused_if_the_daemon_may_not_make_it);
	tcase_add_test(tc, the_auxiliary_connection_dies_at_every_step);
	tcase_add_test(tc, the_lock_connection_dies_at_every_step);
	tcase_add_test(tc, its_client_hangs_up_at_every_step);
	suite_add_tcase(suite, tc);
	return suite;
}
