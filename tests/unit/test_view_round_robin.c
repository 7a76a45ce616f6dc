/*
 * Users take turns: limits of one user's requests to the daemon, the broker and other daemons.
 */
#include <stdlib.h>
#include <string.h>

#include "protocol/json.h"
#include "tests/unit/test_view.h"
#include "tests/unit/view_rig.h"

static struct view_rig *rig;

static void
setup(void)
{
	rig = rig_new();
	world_make(rig->world, "db", 2);
}

static void
teardown(void)
{
	rig_free(rig);
}

/* So many wait for db at a daemon. */
static void
wait_many(int daemon, uint64_t count)
{
	const struct lock_acquire wanted = {.name = "db",
	    .timeout = DURATION_FOREVER,
	    .who = "w",
	    .command = "a command of some length"};

	for (uint64_t i = 0; i < count; i++)
		lock_acquire(rig->world->daemon[daemon].engine, 1 + i, 1, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
}

static size_t
size_of_result(uint64_t request)
{
	char *text = json_print(rig_answered(rig, 0, request)->result);
	size_t size = strlen(text);

	free(text);
	return size;
}

/* One after another: rows of the next one are written when those of the first are with its client. */
START_TEST(the_user_pays_for_own_rows_while_they_are_written)
{
	size_t size;

	wait_many(0, 300);
	rig->world->tick = 10000;
	for (uint64_t request = 1; request <= 10; request++)
		view_show(rig->daemon[0].view, 100, request, "db");
	rig_await(rig, 0, 1);
	rig->world->tick = 0;
	size = size_of_result(1);
	ck_assert_uint_ge(rig->daemon[0].kept, size - 200);
	ck_assert_uint_le(rig->daemon[0].kept, size + size / 2);
}
END_TEST

START_TEST(users_have_their_answers_in_turn)
{
	wait_many(0, 300);
	rig->world->tick = 10000;
	for (uint64_t request = 1; request <= 10; request++)
		view_show(rig->daemon[0].view, 100, request, "db");
	rig->daemon[0].user = 8;
	view_show(rig->daemon[0].view, 100, 11, "db");
	rig_await(rig, 0, 11);
	rig->world->tick = 0;
	ck_assert_uint_le(rig->answer_count, 3);
}
END_TEST

/* Whatever its own users ask for. */
START_TEST(other_daemons_have_their_answers_in_turn)
{
	wait_many(0, 300);
	rig_acquire(rig, 1, 1);
	for (int daemon = 0; daemon < 2; daemon++) {
		view_show(rig->daemon[daemon].view, 100, 100, "db");
		rig_await(rig, daemon, 100);
	}
	rig->world->tick = 10000;
	rig->daemon[1].messages = 0;
	for (uint64_t request = 1; request <= 50; request++)
		view_show(rig->daemon[0].view, 100, request, "db");
	while (rig->daemon[1].messages < 4)
		ck_assert(world_step(rig->world, NSEC_PER_SEC));
	view_show(rig->daemon[1].view, 100, 1, "db");
	rig_await(rig, 1, 1);
	rig->world->tick = 0;
	ck_assert_ptr_null(json_first(json_get(rig_answered(rig, 1, 1)->result, "silent_hosts")));
}
END_TEST

/* Each has to be answered by every daemon. */
START_TEST(a_user_asks_the_others_four_things_at_once)
{
	const struct lock_answer nothing = {.reason = REASON_NONE};

	rig_acquire(rig, 1, 1);
	rig_show(rig, 0, 100);
	rig->daemon[1].deaf = true;
	rig->daemon[1].messages = 0;
	for (uint64_t request = 1; request <= 10; request++)
		view_show(rig->daemon[0].view, 100, request, "db");
	for (uint64_t request = 1; request <= 10; request++)
		view_show(rig->daemon[0].view, 101, request, "db");
	view_count(rig->daemon[0].view, 100, 11, &nothing, json_new_object(), 0);
	view_grant(rig->daemon[0].view, 100, 12, "000000a1-1", rig->daemon[0].user);
	/* A question counts though its client has left. */
	rig->daemon[0].user = 8;
	for (uint64_t request = 13; request <= 20; request++) {
		view_show(rig->daemon[0].view, 102, request, "db");
		view_peer_left(rig->daemon[0].view, 102);
	}
	world_pass(rig->world, RIG_TIMEOUT / 2);
	ck_assert_uint_eq(rig->daemon[1].messages, 8);
	view_peer_left(rig->daemon[0].view, 101);
	rig_await(rig, 0, 11);
	rig_await(rig, 0, 12);
	ck_assert_uint_eq(rig->daemon[1].messages, 8 + 8);
}
END_TEST

/*
 * A slot with an unknown holder is probed twice: the second probe of a user waits for that of
 * another show.
 */
START_TEST(a_user_has_one_second_count_at_a_time)
{
	int64_t at[7];

	memory_world_put(rig->world->memory, "db-2-B", true);
	rig_show(rig, 0, 100);
	rig->world->delay = 100 * NSEC_PER_MSEC;
	for (uint64_t request = 1; request <= 3; request++)
		view_show(rig->daemon[0].view, 100, request, "db");
	rig->daemon[0].user = 8;
	view_show(rig->daemon[0].view, 100, 4, "db");
	for (uint64_t request = 1; request <= 4; request++)
		at[request] = rig_await(rig, 0, request)->at;
	rig->world->delay = 0;
	ck_assert_int_ge(at[2], at[1] + 100 * NSEC_PER_MSEC);
	ck_assert_int_ge(at[3], at[2] + 100 * NSEC_PER_MSEC);
	ck_assert_int_lt(at[4], at[2]);
	/* One that leaves does not keep the others waiting. */
	for (uint64_t request = 5; request <= 6; request++)
		view_show(rig->daemon[0].view, request, request, "db");
	view_show(rig->daemon[0].view, 100, 7, "db");
	rig->world->silent = true;
	world_pass(rig->world, RIG_TIMEOUT + NSEC_PER_MSEC);
	rig->world->silent = false;
	view_peer_left(rig->daemon[0].view, 5);
	view_peer_left(rig->daemon[0].view, 6);
	rig_await(rig, 0, 7);
}
END_TEST

Suite *
suite_view_round_robin(void)
{
	Suite *suite = suite_create("view turns");
	TCase *tcase = tcase_create("turns");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, the_user_pays_for_own_rows_while_they_are_written);
	tcase_add_test(tcase, users_have_their_answers_in_turn);
	tcase_add_test(tcase, other_daemons_have_their_answers_in_turn);
	tcase_add_test(tcase, a_user_asks_the_others_four_things_at_once);
	tcase_add_test(tcase, a_user_has_one_second_count_at_a_time);
	suite_add_tcase(suite, tcase);
	return suite;
}
