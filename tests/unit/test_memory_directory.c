/*
 * The directory of names in memory: a home that is down, a link that dies, and the hooks of the
 * behaviour. tests/conformance/ has the rest.
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

Suite *
suite_memory_directory(void)
{
	Suite *suite = suite_create("memory directory");
	TCase *tcase = rig_tcase(suite, "started"), *bare = tcase_create("behaviours");

	tcase_add_test(tcase, unreachable_while_its_home_is_down);
	tcase_add_test(tcase, unknown_when_the_link_dies);
	tcase_add_test(bare, the_behaviour_hears_of_it);
	suite_add_tcase(suite, bare);
	return suite;
}
