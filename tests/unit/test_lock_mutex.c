/*
 * The administration mutex over the server in memory: among the administrators of one daemon,
 * between two, and when channels and links die.
 */
#include "daemon/lock/mutex.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define TAKERS 8

/* The events of a taker, in order: H(eld), F(ree), L(ost), R(efused). */
struct taker {
	struct lock_engine *engine;
	uint64_t id;
	char told[8];
	enum reason reason;
	char text[128];
};

static struct taker takers[TAKERS];

static void
setup(void)
{
	world_begin();
	memset(takers, 0, sizeof(takers));
}

static void
told(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	static const char messages[] = {'H', 'F', 'L', 'R'};

	for (int i = 0; i < TAKERS; i++) {
		struct taker *taker = &takers[i];

		if (taker->engine != engine || taker->id != id)
			continue;
		taker->told[strlen(taker->told)] = messages[news];
		taker->reason = reason;
		snprintf(taker->text, sizeof(taker->text), "%s", text != NULL ? text : "");
		return;
	}
	ck_abort_msg("a stranger was told");
}

static void
take_with(int number, int daemon, uint64_t id)
{
	takers[number].engine = engine(daemon);
	takers[number].id = id;
	mutex_take(engine(daemon), "db", &(struct mutex_order){id, "test", told});
}

static void
take(int number, int daemon)
{
	take_with(number, daemon, engine_id(engine(daemon)));
}

static void
drop(int number)
{
	mutex_drop(takers[number].engine, takers[number].id);
}

static void
leave(int number)
{
	mutex_leave(takers[number].engine, takers[number].id);
}

static void
check_told(int number, const char *what)
{
	ck_assert_str_eq(takers[number].told, what);
}

static void
check_gone(void)
{
	world_pass(world, 2 * SECOND);
	ck_assert(!memory_world_has(world->memory, "db", NULL));
	ck_assert(lock_quiet(engine(0)) && lock_quiet(engine(1)));
}

START_TEST(takers_of_one_daemon_go_in_their_order)
{
	for (int i = 0; i < 4; i++)
		take(i, 0);
	check_told(0, "");
	for (int i = 0; i < 4; i++) {
		world_pass(world, SECOND);
		for (int other = 0; other < 4; other++)
			check_told(other, other < i ? "HF" : other == i ? "H" : "");
		drop(i);
	}
	check_gone();
	check_told(3, "HF");
}
END_TEST

/* Not that another taker, or another mutex, has the connection. */
START_TEST(only_the_owner_holds_the_mutex)
{
	for (int i = 0; i < 2; i++)
		take(i, 0);
	ck_assert(!mutex_is_held(engine(0), takers[0].id));
	world_pass(world, SECOND);
	ck_assert(mutex_is_held(engine(0), takers[0].id));
	ck_assert(!mutex_is_held(engine(0), takers[1].id));
	ck_assert(!mutex_is_held(engine(0), engine_id(engine(0))));
	drop(0);
	ck_assert(!mutex_is_held(engine(0), takers[0].id));
	world_pass(world, SECOND);
	ck_assert(mutex_is_held(engine(0), takers[1].id));
	drop(1);
	check_gone();
}
END_TEST

START_TEST(takers_of_two_daemons_exclude_each_other)
{
	take(0, 0);
	world_pass(world, SECOND);
	take(1, 1);
	world_pass(world, 5 * SECOND);
	check_told(0, "H");
	check_told(1, "");
	drop(0);
	world_pass(world, SECOND);
	check_told(0, "HF");
	check_told(1, "H");
	leave(1);
	check_gone();
	check_told(1, "H");
}
END_TEST

START_TEST(a_request_that_leaves_lets_the_next_on)
{
	memory_world_put(world->memory, "db", true);
	take(0, 0);
	take(1, 0);
	leave(0); /* while it is claimed for it */
	world_pass(world, SECOND);
	take(2, 0);
	leave(1); /* while another has it */
	world_pass(world, SECOND);
	memory_world_remove(world->memory, "db");
	world_pass(world, SECOND);
	check_told(0, "");
	check_told(1, "");
	check_told(2, "H");
	take(3, 0);
	drop(2);
	leave(2); /* while it is dropped */
	world_pass(world, SECOND);
	check_told(2, "H");
	check_told(3, "H");
	leave(3);
	check_gone();
}
END_TEST

START_TEST(an_unwanted_mutex_is_not_kept)
{
	take(0, 0);
	leave(0);
	check_gone();
	memory_world_put(world->memory, "db", true);
	take(1, 0);
	leave(1); /* its claim is lost */
	world_pass(world, SECOND);
	ck_assert(lock_quiet(engine(0)));
	take(2, 0);
	world_pass(world, SECOND);
	leave(2); /* between two claims */
	ck_assert(lock_quiet(engine(0)));
	leave(2); /* gone already */
	memory_world_remove(world->memory, "db");
	check_gone();
	check_told(0, "");
	check_told(1, "");
	check_told(2, "");
}
END_TEST

START_TEST(the_death_of_the_link_ends_it)
{
	take(0, 0);
	world_pass(world, SECOND);
	take(1, 0);
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	world_pass(world, SECOND);
	check_told(0, "HL");
	ck_assert_str_eq(takers[0].text, "cut");
	ck_assert_int_eq(takers[0].reason, REASON_BROKER_UNAVAILABLE);
	check_told(1, "H"); /* on the new one */
	drop(1);
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	check_gone();
	check_told(1, "HF");
	world->delay = SECOND;
	take(2, 0);
	world_pass(world, SECOND / 2); /* it was declared, but not answered */
	ck_assert(memory_world_has(world->memory, "db", NULL));
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	check_gone();
	check_told(2, "R");
	ck_assert_int_eq(takers[2].reason, REASON_BROKER_UNAVAILABLE);
}
END_TEST

START_TEST(the_death_of_its_channel_does_not)
{
	uint64_t channel;

	take(0, 0);
	world_pass(world, SECOND);
	channel = mutex_channel(engine(0), takers[0].id);
	memory_broker_close_channel(world->daemon[0].broker, channel, 406, "timeout");
	world_pass(world, SECOND);
	ck_assert(memory_world_has(world->memory, "db", NULL));
	ck_assert_uint_ne(mutex_channel(engine(0), takers[0].id), channel);
	memory_broker_close_channel(
	    world->daemon[0].broker, mutex_channel(engine(0), takers[0].id), 406, "timeout");
	drop(0); /* not performed: sent again */
	check_gone();
	check_told(0, "HF");
}
END_TEST

START_TEST(a_mutex_whose_drop_was_lost_is_free_when_the_link_dies)
{
	take(0, 0);
	world_pass(world, SECOND);
	take(1, 0);
	memory_broker_close_channel(
	    world->daemon[0].broker, mutex_channel(engine(0), takers[0].id), 406, "timeout");
	drop(0);
	world_pass(world, 10 * NSEC_PER_MSEC); /* it was not performed, and is not sent again yet */
	check_told(0, "H");
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	world_pass(world, 20 * NSEC_PER_MSEC);
	check_told(0, "HF");
	check_told(1, "H");
	leave(1);
	check_gone();
}
END_TEST

START_TEST(a_refusal_of_the_broker_is_reported)
{
	world->refuses = true;
	take(0, 0);
	take(1, 0);
	check_gone();
	check_told(0, "R");
	check_told(1, "R");
	ck_assert_int_eq(takers[0].reason, REASON_BROKER_REFUSED);
	ck_assert_ptr_nonnull(strstr(takers[0].text, "ACCESS_REFUSED"));
}
END_TEST

/* Other uses may keep the link up for ever: then no other daemon could have the mutex. */
START_TEST(a_mutex_that_cannot_be_dropped_ends_with_its_link)
{
	uint64_t before;

	take(0, 0);
	world_pass(world, SECOND);
	before = memory_broker_connection(world->daemon[0].broker, BROKER_AUXILIARY);
	take(1, 0);
	broker_watch(world->daemon[0].broker, "db-1-A");
	if (_i == 0)
		world->refuses = true;
	else
		ck_assert(memory_world_hang(world->memory, "db", true));
	drop(0);
	world_pass(world,
	    3 * world->delay / 4); /* the world has answered, and the daemon has not read it */
	world->refuses = false;
	world_pass(world, SECOND);
	check_told(0, "HF");
	check_told(1, "H");
	ck_assert_uint_ne(
	    memory_broker_connection(world->daemon[0].broker, BROKER_AUXILIARY), before);
	leave(1);
	check_gone();
}
END_TEST

/* It was performed, and the server closed the channel before it was answered. */
START_TEST(an_unanswered_request_is_repeated)
{
	world->silent = true;
	take(0, 0);
	world_pass(world, SECOND);
	ck_assert(memory_world_has(world->memory, "db", NULL));
	world_close_channels(world, 0, BROKER_AUXILIARY);
	world->silent = false;
	world_pass(world, SECOND);
	check_told(0, "H");
	world->silent = true;
	drop(0);
	world_pass(world, 10 * NSEC_PER_MSEC);
	world_close_channels(world, 0, BROKER_AUXILIARY);
	world->silent = false;
	world_pass(world, SECOND);
	check_told(0, "HF");
	take(1, 1);
	world_pass(world, SECOND);
	check_told(1, "H");
	leave(1);
	world_pass(world, SECOND);
	world->silent = true;
	take(2, 0);
	world_pass(world, SECOND);
	leave(2);
	world_close_channels(world, 0, BROKER_AUXILIARY);
	world->silent = false;
	world_pass(world, SECOND);
	check_told(2, "");
	check_gone();
}
END_TEST

/* Else nobody of this daemon could have that name as long as the auxiliary connection lives. */
START_TEST(a_claim_that_is_not_answered_ends_with_its_link)
{
	world->stuck = 1;
	take(0, 0);
	world_pass(world, SECOND);
	leave(0);
	take(1, 0);
	world_pass(world, world_settings.request_timeout);
	check_told(1, "R");
	ck_assert_int_eq(takers[1].reason, REASON_BROKER_UNAVAILABLE);
	take(2, 0);
	world_pass(world, SECOND);
	check_told(2, "H");
	drop(2);
	check_gone();
}
END_TEST

START_TEST(a_drop_that_is_not_answered_ends_with_its_link)
{
	take(0, 0);
	world_pass(world, SECOND);
	world->stuck = 1;
	drop(0);
	take(1, 0);
	world_pass(world, world_settings.request_timeout + SECOND);
	check_told(0, "HF");
	check_told(1, "H");
	drop(1);
	check_gone();
}
END_TEST

/*
 * At its deadline a waiter for an administrator is told so. If the administrator is of this daemon,
 * the text names it.
 */
START_TEST(a_timeout_names_the_other_administrator)
{
	take_with(0, 0, engine_op_new(engine(0), 7, 1)->id);
	world_pass(world, SECOND);
	take_with(1, 0, engine_op_new(engine(0), 8, 1)->id);
	ck_assert_int_eq(world_await(world, 0, 8, 1)->reason, REASON_TIMEOUT);
	ck_assert_str_eq(world_answer(world, 0, 8, 1)->text,
	    "another administrator changes it: test, for client 7 of this daemon");
	ck_assert_int_eq(world_await(world, 0, 7, 1)->reason, REASON_BROKER_UNAVAILABLE);
	leave(0);
	leave(1);
	take(2, 1);
	world_pass(world, SECOND);
	take_with(3, 0, engine_op_new(engine(0), 10, 1)->id);
	ck_assert_str_eq(world_await(world, 0, 10, 1)->text, "another administrator changes it");
	leave(2);
	leave(3);
	check_gone();
}
END_TEST

Suite *
suite_lock_mutex(void)
{
	Suite *suite = suite_create("lock: administration mutex");
	TCase *tc = tcase_create("mutex");

	tcase_add_checked_fixture(tc, setup, world_end);
	tcase_add_test(tc, takers_of_one_daemon_go_in_their_order);
	tcase_add_test(tc, only_the_owner_holds_the_mutex);
	tcase_add_test(tc, takers_of_two_daemons_exclude_each_other);
	tcase_add_test(tc, a_request_that_leaves_lets_the_next_on);
	tcase_add_test(tc, an_unwanted_mutex_is_not_kept);
	tcase_add_test(tc, the_death_of_the_link_ends_it);
	tcase_add_test(tc, the_death_of_its_channel_does_not);
	tcase_add_test(tc, a_mutex_whose_drop_was_lost_is_free_when_the_link_dies);
	tcase_add_test(tc, a_refusal_of_the_broker_is_reported);
	tcase_add_loop_test(tc, a_mutex_that_cannot_be_dropped_ends_with_its_link, 0, 2);
	tcase_add_test(tc, an_unanswered_request_is_repeated);
	tcase_add_test(tc, a_claim_that_is_not_answered_ends_with_its_link);
	tcase_add_test(tc, a_drop_that_is_not_answered_ends_with_its_link);
	tcase_add_test(tc, a_timeout_names_the_other_administrator);
	suite_add_tcase(suite, tc);
	return suite;
}
