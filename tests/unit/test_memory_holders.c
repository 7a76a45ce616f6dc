/*
 * The server in memory, and slots that are held by consumers: a cancel that takes its time, and
 * holders of foreign clients. tests/conformance/ has the rest. The clients are raw links.
 */
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

static struct raw *a, *b;

/* Two connections with channel 1; `a` has a channel 2, too. The durable B "s" is there. */
static void
setup(void)
{
	rig_setup();
	a = raw_new(0);
	b = raw_new(0);
	raw_open(a, 2);
	raw_declare(a, 1, "s", RAW_HOLDER);
	run();
	ck_saw("a1:declared(0,0)");
}

START_TEST(freed_before_the_cancel_is_answered)
{
	raw_consume(a, 1, "s", true);
	run();
	ck_saw("a1:consuming");
	rig.delays[rig.delays_used] = 10 * MSEC;
	raw_cancel(a, 1, "h");
	pass(4 * MSEC);
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), raw_number(a));
	pass(2 * MSEC);
	ck_saw("");
	raw_consume(b, 1, "s", true);
	run();
	ck_saw("b1:consuming");
	pass(4 * MSEC);
	ck_saw("a1:cancelled");
}
END_TEST

START_TEST(held_by_a_foreign_client)
{
	ck_assert(memory_world_put_holder(world, "t"));
	ck_assert(!memory_world_put_holder(world, "t"));
	ck_assert(!memory_world_hold(world, "none"));
	ck_assert(!memory_world_let_go(world, "t"));
	ck_assert(memory_world_hold(world, "t"));
	ck_assert(!memory_world_hold(world, "t"));
	ck_assert_uint_ne(memory_world_holder(world, "t", NULL), 0);
	raw_declare(a, 2, "t", RAW_HOLDER);
	raw_consume(a, 1, "t", true);
	run();
	ck_saw("a2:declared(0,1) a1:closed:403");
	ck_assert(memory_world_let_go(world, "t"));
	raw_consume(a, 1, "t", true);
	run();
	ck_saw("a1:consuming");
	ck_assert(!memory_world_hold(world, "t"));
	/* One that is still there at the end, and after a restart. */
	ck_assert(memory_world_hold(world, "s"));
	memory_world_restart(world);
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
	ck_assert(memory_world_hold(world, "s"));
}
END_TEST

Suite *
suite_memory_holders(void)
{
	Suite *suite = suite_create("memory holders");
	TCase *tc = tcase_create("holders");

	tcase_add_checked_fixture(tc, setup, rig_teardown);
	tcase_add_test(tc, freed_before_the_cancel_is_answered);
	tcase_add_test(tc, held_by_a_foreign_client);
	suite_add_tcase(suite, tc);
	return suite;
}
