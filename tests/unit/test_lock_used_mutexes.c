/*
 * The limit of the mutexes that a user has at the broker, over the server in memory. By consumer each
 * of them is a durable queue, which outlives its holder by a minute.
 */
#include "tests/unit/consumer_fixture.h"
#include "tests/unit/test_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 3
#define USER 1000
#define ALIVE (60 * SECOND) /* after its last use */

static bool
exists(const char *queue)
{
	const struct broker *owner;

	return memory_world_has(world->memory, queue, &owner);
}

static void
mutexes_setup(void)
{
	consumer_setup();
	consumer_settings.claim = BROKER_BY_CONSUMER;
	consumer_settings.max_mutexes_per_uid = MOST;
	lock_engine_set(engine(0), &consumer_settings);
}

static void
ask(uint64_t peer, const char *name, uid_t uid, int64_t timeout)
{
	const struct lock_acquire wanted = {
	    .name = name, .kind = LOCK_KIND_MUTEX, .timeout = timeout, .uid = uid};

	lock_acquire(engine(0), peer, 1, &wanted);
}

static const struct said *
take(uint64_t peer, const char *name, uid_t uid)
{
	ask(peer, name, uid, TRY);
	return world_await(world, 0, peer, 1);
}

/* Takes a, b and c, as clients 1 to 3. */
static void
take_all(uid_t uid)
{
	static const char *const names[MOST] = {"a", "b", "c"};

	for (uint64_t i = 0; i < MOST; i++)
		ck_assert_int_eq(take(i + 1, names[i], uid)->reason, REASON_NONE);
}

static void
give_back(uint64_t peer)
{
	release(0, peer, 2, world_answer(world, 0, peer, 1)->lock);
}

static void
refused(const struct said *answer, const char *words)
{
	ck_assert_int_eq(answer->reason, REASON_TOO_MANY_LOCKS);
	ck_assert_str_eq(answer->text, words);
}

START_TEST(a_user_has_so_many_and_no_more)
{
	struct lock_acquire wanted = {.name = "e", .kind = LOCK_KIND_MUTEX, .uid = USER};

	take_all(USER);
	refused(take(4, "d", USER), "user 1000 uses 3 mutexes, and may use 3; each counts until 60 "
				    "s after its release, or 3600 s by quorum");
	ck_assert(!exists("d-M"));
	/* Others are not concerned, nor are administrators. */
	ck_assert_int_eq(take(5, "d", USER + 1)->reason, REASON_NONE);
	wanted.exempt = true;
	lock_acquire(engine(0), 6, 1, &wanted);
	ck_assert_int_eq(world_await(world, 0, 6, 1)->reason, REASON_NONE);
	/* A reload. */
	consumer_settings.max_mutexes_per_uid = MOST + 1;
	lock_engine_set(engine(0), &consumer_settings);
	ck_assert_int_eq(take(7, "f", USER)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_mutex_counts_until_its_queue_has_ended)
{
	take_all(USER);
	give_back(1);
	world_pass(world, 10 * SECOND);
	refused(take(4, "d", USER),
	    "user 1000 uses 3 mutexes, and may use 3; each counts until 60 s "
	    "after its release, or 3600 s by quorum: another one in 50.0 s");
	give_back(2);
	world_pass(world, 49 * SECOND);
	ck_assert(exists("a-M"));
	ck_assert_int_eq(take(5, "d", USER)->reason, REASON_TOO_MANY_LOCKS);
	world_pass(world, 2 * SECOND);
	ck_assert(!exists("a-M"));
	ck_assert_int_eq(take(6, "d", USER)->reason, REASON_NONE);
	ck_assert_int_eq(take(7, "e", USER)->reason, REASON_TOO_MANY_LOCKS);
}
END_TEST

/* Without this, a user could keep all that it makes, and make more each minute. */
START_TEST(one_that_exists_costs_nothing_and_counts_on)
{
	uint64_t peer = 10;

	take_all(USER);
	for (uint64_t i = 1; i <= MOST; i++)
		give_back(i);
	for (int i = 0; i < 20; i++) {
		static const char *const names[MOST] = {"a", "b", "c"};

		world_pass(world, 15 * SECOND);
		ck_assert_int_eq(take(++peer, names[i % MOST], USER)->reason, REASON_NONE);
		give_back(peer);
		ck_assert_int_eq(take(++peer, "d", USER)->reason, REASON_TOO_MANY_LOCKS);
	}
	world_pass(world, ALIVE + SECOND);
	ck_assert_int_eq(take(++peer, "d", USER)->reason, REASON_NONE);
}
END_TEST

/* Nobody can use up what another user may have. */
START_TEST(one_that_another_user_keeps_counts_for_that_user_alone)
{
	uint64_t peer = 10;

	ck_assert_int_eq(take(1, "a", USER)->reason, REASON_NONE);
	give_back(1);
	for (int i = 0; i < 3; i++) {
		world_pass(world, 30 * SECOND);
		ck_assert_int_eq(take(++peer, "a", USER + 1)->reason, REASON_NONE);
		give_back(peer);
	}
	for (uint64_t i = 2; i < 2 + MOST; i++)
		ck_assert_int_eq(take(i,
				     i == 2   ? "b"
				     : i == 3 ? "c"
					      : "d",
				     USER)
				     ->reason,
		    REASON_NONE);
	/* And it is not the user's to keep. */
	refused(take(5, "a", USER), "user 1000 uses 3 mutexes, and may use 3; each counts until 60 "
				    "s after its release, or 3600 s by quorum");
	ck_assert_int_eq(take(6, "a", USER + 1)->reason, REASON_NONE);
}
END_TEST

/* A hand-off would let two users have any number of them. */
START_TEST(one_is_not_handed_off_to_a_user_with_too_many)
{
	take_all(USER);
	ck_assert_int_eq(take(4, "d", USER + 1)->reason, REASON_NONE);
	ask(5, "d", USER, DURATION_FOREVER);
	ask(6, "d", USER + 2, DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 5, 1) && is_waiting(0, 6, 1));
	give_back(4);
	ck_assert_int_eq(world_await(world, 0, 5, 1)->reason, REASON_TOO_MANY_LOCKS);
	ck_assert_int_eq(world_await(world, 0, 6, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_hand_off_counts_it_for_the_new_holder)
{
	ck_assert_int_eq(take(1, "a", USER + 1)->reason, REASON_NONE);
	ask(2, "a", USER, DURATION_FOREVER);
	world_pass(world, SECOND);
	give_back(1);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	ck_assert_int_eq(take(3, "b", USER)->reason, REASON_NONE);
	ck_assert_int_eq(take(4, "c", USER)->reason, REASON_NONE);
	ck_assert_int_eq(take(5, "d", USER)->reason, REASON_TOO_MANY_LOCKS);
}
END_TEST

START_TEST(a_waiter_is_refused_when_its_turn_comes)
{
	struct lock_acquire wanted = {.name = "d", .kind = LOCK_KIND_MUTEX, .uid = USER};

	take_all(USER);
	lock_acquire(engine(1), 9, 1, &wanted);
	ck_assert_int_eq(world_await(world, 1, 9, 1)->reason, REASON_NONE);
	ask(4, "d", USER, DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 4, 1));
	release(1, 9, 2, world_answer(world, 1, 9, 1)->lock);
	ck_assert_int_eq(world_await(world, 0, 4, 1)->reason, REASON_TOO_MANY_LOCKS);
}
END_TEST

/* It ends with its holder. */
START_TEST(by_queue_there_is_no_limit)
{
	consumer_settings.claim = BROKER_BY_QUEUE;
	lock_engine_set(engine(0), &consumer_settings);
	take_all(USER);
	ck_assert_int_eq(take(4, "d", USER)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_successor_counts_those_that_are_held)
{
	char why[128], *text;

	take_all(USER);
	lock_freeze(engine(0), true);
	ck_assert(world_stills(world, 0));
	text = world_save(world, 0);
	ck_assert_msg(world_succeed(world, 0, text, why), "%s", why);
	free(text);
	lock_engine_set(engine(0), &consumer_settings);
	ck_assert_int_eq(take(4, "d", USER)->reason, REASON_TOO_MANY_LOCKS);
	give_back(1);
	world_pass(world, ALIVE + SECOND);
	ck_assert_int_eq(take(5, "d", USER)->reason, REASON_NONE);
}
END_TEST

Suite *
suite_lock_used_mutexes(void)
{
	Suite *suite = suite_create("lock: used mutexes");
	TCase *tc = tcase_create("used_mutexes");

	tcase_add_checked_fixture(tc, mutexes_setup, world_end);
	tcase_add_test(tc, a_user_has_so_many_and_no_more);
	tcase_add_test(tc, a_mutex_counts_until_its_queue_has_ended);
	tcase_add_test(tc, one_that_exists_costs_nothing_and_counts_on);
	tcase_add_test(tc, one_that_another_user_keeps_counts_for_that_user_alone);
	tcase_add_test(tc, one_is_not_handed_off_to_a_user_with_too_many);
	tcase_add_test(tc, a_hand_off_counts_it_for_the_new_holder);
	tcase_add_test(tc, a_waiter_is_refused_when_its_turn_comes);
	tcase_add_test(tc, by_queue_there_is_no_limit);
	tcase_add_test(tc, a_successor_counts_those_that_are_held);
	suite_add_tcase(suite, tc);
	return suite;
}
