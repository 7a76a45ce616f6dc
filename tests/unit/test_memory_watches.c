/*
 * Watches over the server in memory: deletions that are not heard, and links whose ends
 * have parted. tests/conformance/ has the rest.
 */
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

/* Two watched queues; `one` has nothing else on its auxiliary connection. */
static void
setup(void)
{
	rig_channels_of_one = 2047;
	rig_setup();
	ck_assert(memory_world_put(world, "a", false));
	ck_assert(memory_world_put(world, "b", false));
	watch(one, "a");
	watch(one, "b");
	pass(0);
	ck_saw("auxiliary:up watched:a watched:b");
}

/* Before the consume is performed: absent. After: cancelled, though its answer comes first. */
START_TEST(deleted_while_it_is_placed)
{
	rig.delays[rig.delays_used] = 10 * MSEC;
	rig.delays[rig.delays_used + 1] = 10 * MSEC;
	unwatch(one, "a");
	unwatch(one, "b");
	watch(one, "a");
	watch(one, "b");
	pass(4 * MSEC);
	ck_assert(memory_world_remove(world, "a"));
	pass(2 * MSEC);
	ck_assert(memory_world_remove(world, "b"));
	pass(4 * MSEC);
	ck_saw("hint:a watched:b hint:b");
}
END_TEST

START_TEST(cancelled_without_a_deletion)
{
	ck_assert(memory_world_cancel(world, "a"));
	ck_assert(!memory_world_cancel(world, "a"));
	ck_assert(!memory_world_cancel(world, "none"));
	pass(0);
	ck_saw("hint:a");
	ck_assert(exists("a"));
	watch(one, "a");
	pass(0);
	ck_saw("watched:a");
}
END_TEST

START_TEST(a_deletion_unheard)
{
	rig.deafnesses[0] = true;
	ck_assert(memory_world_remove(world, "a"));
	ck_assert(memory_world_put(world, "a", false));
	ck_assert(memory_world_remove(world, "a"));
	pass(MSEC);
	ck_saw("");
	/* The state that the next link finds. */
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	pass(0);
	ck_saw("unwatched:a unwatched:b auxiliary:down:cut auxiliary:up hint:a watched:b");
}
END_TEST

/* Nothing comes through any more, not even what is on its way, until it is cut. */
START_TEST(a_link_whose_ends_have_parted)
{
	rig.delays[rig.delays_used] = 5 * MSEC;
	rig.delays[rig.delays_used + 1] = 5 * MSEC;
	watch(one, "none");
	ck_assert(memory_world_cancel(world, "a"));
	pass(MSEC);
	if (_i == 0)
		memory_broker_freeze(one, BROKER_AUXILIARY);
	else if (_i == 1)
		memory_broker_forsake(one, BROKER_AUXILIARY);
	else
		memory_world_restart(world);
	ck_assert(memory_world_remove(world, "b"));
	watch(one, "c");
	memory_broker_close_watches(one);
	pass(10 * MSEC);
	/* After the world gave the link up, the earlier messages still arrive. */
	ck_saw(_i == 1 ? "hint:a" : "");
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	ck_saw(_i == 1 ? "unwatched:b auxiliary:down:cut"
		       : "unwatched:a unwatched:b auxiliary:down:cut");
	pass(0);
	ck_saw(_i == 1 ? "auxiliary:up hint:none hint:c hint:b"
		       : "auxiliary:up hint:none hint:c watched:a hint:b");
}
END_TEST

/* Consumer timeout: the channel that they are on is closed, the link stays. */
START_TEST(their_channel_is_closed)
{
	memory_broker_close_watches(one);
	pass(0);
	ck_saw("unwatched:a unwatched:b");
	pass(2 * NSEC_PER_SEC);
	ck_saw("watched:a watched:b");
	memory_broker_close_watches(two);
	ck_assert(memory_world_remove(world, "a"));
	pass(0);
	ck_saw("hint:a");
}
END_TEST

static void
unwatch_both(const char *queue, enum broker_news news)
{
	(void)queue;
	(void)news;
	broker_unwatch(one, "a");
	broker_unwatch(one, "b");
}

static void
watch_again(const char *queue, enum broker_news news)
{
	if (news == BROKER_HINT && exists(queue))
		broker_watch(one, queue);
}

static void
stop_it(const char *queue, enum broker_news news)
{
	(void)queue;
	(void)news;
	broker_stop(one);
}

START_TEST(its_observer_may_call_back)
{
	rig.heard = watch_again;
	ck_assert(memory_world_cancel(world, "a"));
	pass(0);
	ck_saw("hint:a watched:a");
	rig.heard = unwatch_both;
	memory_broker_close_watches(one);
	pass(0);
	ck_saw("unwatched:a");
	rig.heard = NULL;
	watch(one, "a");
	watch(one, "b");
	pass(2 * NSEC_PER_SEC);
	ck_saw("watched:a watched:b");
	rig.heard = stop_it;
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	pass(MSEC);
	ck_saw("unwatched:a");
}
END_TEST

Suite *
suite_memory_watches(void)
{
	Suite *suite = suite_create("memory watches");
	TCase *tc = tcase_create("watches");

	tcase_add_checked_fixture(tc, setup, rig_teardown);
	tcase_add_test(tc, deleted_while_it_is_placed);
	tcase_add_test(tc, cancelled_without_a_deletion);
	tcase_add_test(tc, a_deletion_unheard);
	tcase_add_loop_test(tc, a_link_whose_ends_have_parted, 0, 3);
	tcase_add_test(tc, their_channel_is_closed);
	tcase_add_test(tc, its_observer_may_call_back);
	suite_add_tcase(suite, tc);
	return suite;
}
