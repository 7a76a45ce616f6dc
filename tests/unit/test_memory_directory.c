/*
 * The directory of names in memory, markers, and what foreign clients may have done to both.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/memory_rig.h"
#include "tests/unit/unit.h"

static char found[256];

static void
on_message(void *ctx, const char *body)
{
	size_t used = strlen(found);

	(void)ctx;
	snprintf(found + used, sizeof(found) - used, "%s%s", used > 0 ? " " : "", body);
}

static const char *
messages(const char *queue)
{
	found[0] = '\0';
	memory_world_each_message(world, queue, on_message, NULL);
	return found;
}

START_TEST(entered_read_and_left)
{
	read_names(one, "d", 1);
	leave_name(one, "d", "x", 2);
	pass(0);
	ck_saw("side:up 1=ok 2=ok");
	ck_assert(!exists("d"));
	enter_name(one, "d", "x", 3);
	pass(0);
	enter_name(two, "d", "y", 103);
	pass(0);
	enter_name(one, "d", "x", 4);
	pass(0);
	ck_saw("3=ok(x) two.side:up 103=ok(y) 4=ok(x)");
	read_names(two, "d", 104);
	pass(0);
	leave_name(two, "d", "x", 105);
	pass(0);
	read_names(one, "d", 5);
	pass(0);
	ck_saw("104=ok(x,y,x) 105=ok(x,x) 5=ok(y)");
	ck_assert_str_eq(messages("d"), "y");
}
END_TEST

START_TEST(messages_of_others_are_no_names_and_stay)
{
	char longest[BROKER_NAME_MAX + 2];

	memset(longest, 'n', sizeof(longest));
	longest[BROKER_NAME_MAX + 1] = '\0';
	memory_world_publish(world, "d", "");
	memory_world_publish(world, "d", "a");
	memory_world_publish(world, "d", "\303\244");
	memory_world_publish(world, "d", "b\n");
	memory_world_publish(world, "d", longest);
	read_names(one, "d", 1);
	leave_name(one, "d", "a", 2);
	leave_name(one, "d", "b", 3);
	pass(0);
	ck_saw("side:up 1=ok(a) 2=ok(a) 3=ok");
	ck_assert_ptr_nonnull(strstr(messages("d"), "\303\244 b\n nnn"));
	ck_assert_int_ne(messages("d")[1], 'a');
}
END_TEST

START_TEST(more_than_may_be_is_refused)
{
	for (int i = 0; i < BROKER_DIRECTORY_MAX; i++)
		memory_world_publish(world, "d", i == 0 ? "first" : "");
	read_names(one, "d", 1);
	pass(0);
	enter_name(one, "d", "last", 2);
	pass(0);
	read_names(one, "d", 3);
	leave_name(one, "d", "last", 4);
	pass(0);
	ck_saw("side:up 1=ok(first) 2=ok(last) 3=refused 4=refused");
}
END_TEST

START_TEST(refused_where_the_queue_is_another)
{
	uint64_t lane = take(one, BROKER_SIDE);

	memory_world_put(world, "theirs", true);
	memory_world_put(world, "slot", false);
	memory_world_put_transient(world, "short");
	read_names(one, "theirs", 1);
	leave_name(one, "theirs", "a", 2);
	enter_name(one, "theirs", "a", 3);
	enter_name(one, "slot", "a", 4);
	enter_name(one, "amq.d", "a", 5);
	enter_name(one, "short", "a", 6);
	pass(0);
	/* Each had a lane of its own: nobody else's is closed. */
	ck_saw("side:up 1=refused 2=refused 3=refused 4=refused 5=refused 6=refused");
	ck_assert_str_eq(messages("slot"), "");
	enter_name(one, "d", "a", 7);
	declare_slot(one, lane, "d", 8);
	pass(0);
	ck_saw("7=ok(a) 8=ok! closed:406");
}
END_TEST

static bool
refuses(void *ctx)
{
	(void)ctx;
	return true;
}

START_TEST(refused_by_the_broker)
{
	const struct memory_nature nature = {.refuses = refuses};

	rig_new(&nature);
	rig_start();
	enter_name(one, "d", "a", 1);
	pass(0);
	ck_saw("side:up 1=refused");
	ck_assert_str_ne(rig.text, "");
	ck_assert(!exists("d"));
	rig_free();
}
END_TEST

/* The daemon loses the link before the broker does: what was sent is done all the same. */
START_TEST(unknown_when_the_link_dies)
{
	rig.delays[0] = 10 * MSEC;
	rig.delays[1] = 10 * MSEC;
	enter_name(one, "d", "a", 1);
	read_names(one, "d", 2);
	pass(1 * MSEC);
	memory_broker_cut(one, BROKER_SIDE, 20 * MSEC, 0, "cut");
	ck_saw("side:up 1=unknown 2=unknown side:down:cut");
	ck_assert_str_eq(messages("d"), "");
	pass(100 * MSEC);
	ck_assert_str_eq(messages("d"), "a");
	/* And before it is up: what waits is sent then, or answered when it does not come. */
	memory_broker_cut(one, BROKER_SIDE, 0, -1, "away");
	read_names(one, "d", 3);
	pass(MEMORY_PROBE_TIMEOUT - 1);
	ck_saw("");
	pass(1);
	ck_saw("3=unknown side:down:away");
	read_names(one, "d", 4);
	memory_broker_restore(one, BROKER_SIDE);
	pass(0);
	ck_saw("side:up 4=ok(a)");
}
END_TEST

START_TEST(late_silent_and_frozen)
{
	rig.delays[0] = 100 * MSEC;
	rig.silences[1] = true;
	enter_name(one, "d", "a", 1);
	enter_name(one, "d", "b", 2);
	pass(49 * MSEC);
	ck_saw("side:up");
	ck_assert_str_eq(messages("d"), "b");
	pass(2 * MSEC);
	ck_assert_str_eq(messages("d"), "b a");
	pass(49 * MSEC);
	ck_saw("1=ok(a)");
	memory_broker_freeze(one, BROKER_SIDE);
	enter_name(one, "d", "c", 3);
	pass(100 * MSEC);
	ck_assert_str_eq(messages("d"), "b a");
	memory_broker_cut(one, BROKER_SIDE, 0, 0, "cut");
	ck_saw("2=unknown 3=unknown side:down:cut");
}
END_TEST

static void
find_lane(void *ctx, uint64_t lane, bool silent)
{
	(void)silent;
	*(uint64_t *)ctx = lane;
}

/* Its lane is the broker's to close as any other; nobody hears of it but who asked. */
START_TEST(its_lane_is_closed)
{
	uint64_t lane = 0;

	rig.delays[0] = 10 * MSEC;
	rig.delays[1] = 10 * MSEC;
	enter_name(one, "d", "a", 1);
	pass(1 * MSEC);
	memory_broker_each_lane(one, BROKER_SIDE, find_lane, &lane);
	memory_broker_close_lane(one, lane, 406, "PRECONDITION_FAILED - timeout");
	pass(20 * MSEC);
	ck_saw("side:up 1=refused");
	ck_assert(!exists("d"));
	enter_name(one, "d", "a", 2);
	pass(6 * MSEC);
	memory_broker_each_lane(one, BROKER_SIDE, find_lane, &lane);
	memory_broker_close_lane(one, lane, 406, "PRECONDITION_FAILED - timeout");
	pass(20 * MSEC);
	ck_saw("2=ok(a)");
}
END_TEST

START_TEST(nobody_enters_during_an_alarm)
{
	enter_name(one, "d", "a", 1);
	pass(0);
	memory_world_block(world, true);
	enter_name(one, "d", "b", 2);
	pass(0);
	ck_assert_str_eq(rig.text, BROKER_ALARM_WORDS);
	read_names(one, "d", 3);
	leave_name(one, "d", "a", 4);
	pass(0);
	ck_saw("side:up 1=ok(a) 2=unknown 3=ok(a) 4=ok(a)");
}
END_TEST

START_TEST(durable_ones_survive_a_restart)
{
	uint64_t lane = take(one, BROKER_SIDE);

	memory_world_put_transient(world, "a");
	ck_assert(!memory_world_put_transient(world, "a"));
	declare_slot(one, lane, "a", 1);
	pass(0);
	ck_saw("side:up 1=ok! closed:406");
	ck_assert_ptr_nonnull(strstr(rig.text, "inequivalent arg 'durable'"));
	lane = take(one, BROKER_SIDE);
	declare_marker(one, lane, "m", 2);
	enter_name(one, "d", "x", 3);
	pass(0);
	ck_saw("2=ok 3=ok(x)");
	memory_world_restart(world);
	memory_broker_cut(one, BROKER_SIDE, 0, 0, "restart");
	ck_saw("side:down:restart");
	ck_assert(!exists("a"));
	ck_assert(exists("m"));
	read_names(one, "d", 4);
	pass(0);
	ck_saw("side:up 4=ok(x)");
}
END_TEST

START_TEST(markers)
{
	uint64_t lane = take(one, BROKER_SIDE);
	const char *queue = "m";

	declare_marker(one, lane, "m", 1);
	declare_marker(one, lane, "m", 2);
	probe(one, &queue, 1, 1);
	delete_slot(one, lane, "m", 3);
	delete_slot(one, lane, "m", 4);
	pass(0);
	ck_saw("side:up 1=ok 2=ok p1=ok 3=ok 4=ok");
	ck_assert(!exists("m"));
	memory_world_put_otherwise(world, "m");
	declare_marker(one, lane, "m", 5);
	pass(0);
	ck_saw("5=ok! closed:406");
}
END_TEST

static char performed[256];

static void
on_performed(void *ctx, const struct memory_performed *what)
{
	size_t used = strlen(performed);

	(void)ctx;
	snprintf(performed + used, sizeof(performed) - used, "%d:%s:%s ", (int)what->method,
	    what->queue, what->name != NULL ? what->name : "-");
}

START_TEST(the_nature_hears_of_it)
{
	const struct memory_nature nature = {.performed = on_performed};
	char wanted[256];

	rig_new(&nature);
	rig_start();
	enter_name(one, "d", "a", 1);
	read_names(one, "d", 2);
	leave_name(one, "d", "a", 3);
	declare_marker(one, take(one, BROKER_SIDE), "m", 4);
	pass(0);
	ck_saw("side:up 1=ok(a) 2=ok(a) 3=ok(a) 4=ok");
	snprintf(wanted, sizeof(wanted), "%d:d:a %d:d:- %d:d:a %d:m:- ", MEMORY_DIRECTORY_ENTER,
	    MEMORY_DIRECTORY_READ, MEMORY_DIRECTORY_LEAVE, MEMORY_DECLARE_MARKER);
	ck_assert_str_eq(performed, wanted);
	rig_free();
}
END_TEST

static void
ask_again(void)
{
	read_names(one, "d", 2);
}

static void
stop(void)
{
	broker_stop(one);
}

START_TEST(asked_and_stopped_from_inside_an_answer)
{
	rig.react_to = 1;
	rig.reaction = ask_again;
	enter_name(one, "d", "a", 1);
	pass(0);
	ck_saw("side:up 1=ok(a) 2=ok(a)");
	rig.react_to = 3;
	rig.reaction = stop;
	read_names(one, "d", 3);
	read_names(one, "d", 4);
	pass(0);
	ck_saw("3=ok(a)");
	read_names(one, "d", 5);
	pass(0);
}
END_TEST

static Suite *
directory_suite(void)
{
	Suite *suite = suite_create("memory directory");
	TCase *tcase = rig_tcase(suite, "started"), *bare = tcase_create("natures");

	tcase_add_test(tcase, entered_read_and_left);
	tcase_add_test(tcase, messages_of_others_are_no_names_and_stay);
	tcase_add_test(tcase, more_than_may_be_is_refused);
	tcase_add_test(tcase, refused_where_the_queue_is_another);
	tcase_add_test(tcase, unknown_when_the_link_dies);
	tcase_add_test(tcase, late_silent_and_frozen);
	tcase_add_test(tcase, its_lane_is_closed);
	tcase_add_test(tcase, nobody_enters_during_an_alarm);
	tcase_add_test(tcase, durable_ones_survive_a_restart);
	tcase_add_test(tcase, markers);
	tcase_add_test(tcase, asked_and_stopped_from_inside_an_answer);
	tcase_add_test(bare, refused_by_the_broker);
	tcase_add_test(bare, the_nature_hears_of_it);
	suite_add_tcase(suite, bare);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {directory_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
