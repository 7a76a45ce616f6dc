/*
 * The directory of names in memory, markers, and possible changes of both by foreign clients.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

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
	ck_saw("auxiliary:up 1=ok 2=ok");
	ck_assert(!exists("d"));
	enter_name(one, "d", "x", 3);
	pass(0);
	enter_name(two, "d", "y", 103);
	pass(0);
	enter_name(one, "d", "x", 4);
	pass(0);
	ck_saw("3=ok(x) two.auxiliary:up 103=ok(y) 4=ok(x)");
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
	pass(0);
	ck_saw("auxiliary:up 1=ok(a)");
	leave_name(one, "d", "a", 2);
	pass(0);
	leave_name(one, "d", "b", 3);
	pass(0);
	ck_saw("2=ok(a) 3=ok");
	ck_assert_ptr_nonnull(strstr(messages("d"), "\303\244 b\n nnn"));
	ck_assert_int_ne(messages("d")[1], 'a');
}
END_TEST

/* It has names, which nobody can read there. */
START_TEST(unreachable_while_its_home_is_down)
{
	enter_name(one, "d", "x", 1);
	pass(0);
	ck_saw("auxiliary:up 1=ok(x)");
	ck_assert(memory_world_set_home(world, "d", 1));
	memory_world_set_reach(world, 0, 1, MEMORY_DOWN);
	read_names(one, "d", 2);
	pass(0);
	leave_name(one, "d", "x", 3);
	pass(0);
	enter_name(one, "d", "y", 4);
	pass(0);
	ck_saw("2=unreachable 3=unreachable 4=unreachable");
	memory_world_set_reach(world, 0, 1, MEMORY_REACHED);
	read_names(one, "d", 5);
	pass(0);
	ck_saw("5=ok(x)");
}
END_TEST

START_TEST(refused_where_the_queue_is_another)
{
	uint64_t channel = take(two, BROKER_AUXILIARY);

	memory_world_put(world, "theirs", true);
	memory_world_put(world, "slot", false);
	memory_world_put_transient(world, "short");
	read_names(two, "theirs", 1);
	leave_name(two, "theirs", "a", 2);
	enter_name(two, "theirs", "a", 3);
	enter_name(two, "slot", "a", 4);
	enter_name(two, "amq.d", "a", 5);
	enter_name(two, "short", "a", 6);
	pass(0);
	/* Each had a channel of its own: no other one is closed. */
	ck_saw("two.auxiliary:up 1=refused 2=refused 3=refused 4=refused 5=refused 6=refused");
	ck_assert_str_eq(messages("slot"), "");
	enter_name(two, "d", "a", 7);
	declare_slot(two, channel, "d", 8);
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
	const struct memory_behaviour behaviour = {.refuses = refuses};

	rig_new(&behaviour);
	rig_start();
	enter_name(one, "d", "a", 1);
	pass(0);
	ck_saw("auxiliary:up 1=refused");
	ck_assert_str_ne(rig.text, "");
	ck_assert(!exists("d"));
	rig_free();
}
END_TEST

/* The daemon loses the link before the broker does: requests on the way are still performed. */
START_TEST(unknown_when_the_link_dies)
{
	rig.delays[0] = 10 * MSEC;
	rig.delays[1] = 10 * MSEC;
	rig.delays[2] = 10 * MSEC;
	enter_name(one, "d", "a", 1);
	read_names(one, "d", 2);
	pass(1 * MSEC);
	memory_broker_cut(one, BROKER_AUXILIARY, 20 * MSEC, 0, "cut");
	ck_saw("auxiliary:up 1=unknown 2=unknown auxiliary:down:cut");
	ck_assert_str_eq(messages("d"), "");
	pass(100 * MSEC);
	ck_assert_str_eq(messages("d"), "a");
	/* And before it is up: waiting requests are sent then, or answered if it does not come. */
	memory_broker_cut(one, BROKER_AUXILIARY, 0, -1, "away");
	read_names(one, "d", 3);
	pass(0);
	ck_saw("3=unknown auxiliary:down:away");
	read_names(one, "d", 4);
	memory_broker_restore(one, BROKER_AUXILIARY);
	pass(0);
	ck_saw("auxiliary:up 4=ok(a)");
}
END_TEST

START_TEST(nobody_enters_during_an_alarm)
{
	enter_name(one, "d", "a", 1);
	pass(0);
	memory_world_block(world, true);
	pass(0);
	enter_name(one, "d", "b", 2);
	pass(0);
	ck_assert_str_eq(rig.text, BROKER_ALARM_WORDS);
	read_names(one, "d", 3);
	pass(0);
	leave_name(one, "d", "a", 4);
	pass(0);
	ck_saw("auxiliary:up 1=ok(a) 2=unknown 3=ok(a) 4=ok(a)");
}
END_TEST

START_TEST(durable_ones_survive_a_restart)
{
	uint64_t channel = take(one, BROKER_AUXILIARY);

	memory_world_put_transient(world, "a");
	ck_assert(!memory_world_put_transient(world, "a"));
	declare_slot(one, channel, "a", 1);
	pass(0);
	ck_saw("auxiliary:up 1=ok! closed:406");
	ck_assert_ptr_nonnull(strstr(rig.text, "inequivalent arg 'durable'"));
	channel = take(one, BROKER_AUXILIARY);
	declare_marker(one, channel, "m", 2);
	enter_name(one, "d", "x", 3);
	pass(0);
	ck_saw("2=ok 3=ok(x)");
	memory_world_restart(world);
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "restart");
	ck_saw("auxiliary:down:restart");
	ck_assert(!exists("a"));
	ck_assert(exists("m"));
	read_names(one, "d", 4);
	pass(0);
	ck_saw("auxiliary:up 4=ok(x)");
}
END_TEST

START_TEST(markers)
{
	uint64_t channel = take(one, BROKER_AUXILIARY);
	const char *queue = "m";

	declare_marker(one, channel, "m", 1);
	declare_marker(one, channel, "m", 2);
	pass(0);
	ck_saw("auxiliary:up 1=ok 2=ok");
	probe(one, &queue, 1, 1);
	pass(0);
	ck_saw("p1=ok");
	delete_slot(one, channel, "m", 3);
	delete_slot(one, channel, "m", 4);
	pass(0);
	ck_saw("3=ok 4=ok");
	ck_assert(!exists("m"));
	memory_world_put_otherwise(world, "m");
	declare_marker(one, channel, "m", 5);
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
	if (what->body != NULL)
		snprintf(performed + used, sizeof(performed) - used, "%s:%s:%s ",
		    amqp_method_name(what->method), what->queue, what->body);
}

START_TEST(the_behaviour_hears_of_it)
{
	const struct memory_behaviour behaviour = {.performed = on_performed};

	rig_new(&behaviour);
	rig_start();
	enter_name(one, "d", "a", 1);
	pass(0);
	read_names(one, "d", 2);
	pass(0);
	leave_name(one, "d", "a", 3);
	declare_marker(one, take(one, BROKER_AUXILIARY), "m", 4);
	pass(0);
	ck_saw("auxiliary:up 1=ok(a) 2=ok(a) 4=ok 3=ok(a)");
	ck_assert_str_eq(performed, "AMQP_BASIC_PUBLISH_METHOD:d:a AMQP_BASIC_ACK_METHOD:d:a ");
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
	ck_saw("auxiliary:up 1=ok(a) 2=ok(a)");
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

Suite *
suite_memory_directory(void)
{
	Suite *suite = suite_create("memory directory");
	TCase *tcase = rig_tcase(suite, "started"), *bare = tcase_create("behaviours");

	tcase_add_test(tcase, entered_read_and_left);
	tcase_add_test(tcase, messages_of_others_are_no_names_and_stay);
	tcase_add_test(tcase, unreachable_while_its_home_is_down);
	tcase_add_test(tcase, refused_where_the_queue_is_another);
	tcase_add_test(tcase, unknown_when_the_link_dies);
	tcase_add_test(tcase, nobody_enters_during_an_alarm);
	tcase_add_test(tcase, durable_ones_survive_a_restart);
	tcase_add_test(tcase, markers);
	tcase_add_test(tcase, asked_and_stopped_from_inside_an_answer);
	tcase_add_test(bare, refused_by_the_broker);
	tcase_add_test(bare, the_behaviour_hears_of_it);
	suite_add_tcase(suite, bare);
	return suite;
}
