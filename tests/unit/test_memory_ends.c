/*
 * The AMQP code over the server in memory. The daemon does not notice that a link has ended. The
 * world reports on itself.
 */
#include "daemon/broker/broker.h"
#include "tests/memory/controls.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

START_TEST(a_frozen_link_does_and_answers_nothing_and_keeps_its_queues)
{
	const char *const queues[] = {"q"};
	uint64_t channel = take(one, BROKER_LOCKS), rival = take(two, BROKER_LOCKS);

	claim(one, channel, "q", 1);
	pass(0);
	rig.delays[1] = 10 * MSEC;
	claim(one, channel, "r", 2);
	pass(6 * MSEC);
	ck_saw("1=ok");
	memory_broker_freeze(one, BROKER_LOCKS);
	claim(one, channel, "s", 3);
	claim(two, rival, "q", 101);
	pass(100 * MSEC);
	/* "r" was performed, and its answer is lost with what came after it. */
	ck_assert_ptr_eq(owner_of("r"), one);
	ck_assert(!exists("s"));
	memory_broker_close_channel(one, channel, 406, "timeout");
	pass(100 * MSEC);
	ck_saw("101=locked! closed:405");
	memory_broker_cut(one, BROKER_LOCKS, 50 * MSEC, -1, "no heartbeat");
	ck_saw("2=unknown! 3=unknown! locks:down:no heartbeat");
	ck_assert(exists("q"));
	pass(50 * MSEC);
	ck_assert(!exists("q"));
	ck_assert(!exists("s"));
	/* A probe on a frozen auxiliary connection is unknown at its deadline. */
	probe(two, queues, 1, 102);
	pass(0);
	ck_saw("two.auxiliary:up p102=absent");
	memory_broker_freeze(two, BROKER_AUXILIARY);
	probe(two, queues, 1, 103);
	memory_world_block(world, true);
	memory_world_block(world, false);
	pass(MEMORY_PROBE_TIMEOUT - 1);
	ck_saw("");
	pass(1);
	ck_saw("p103=unknown");
}
END_TEST

START_TEST(a_forsaken_link_has_lost_its_queues_before_it_knows)
{
	uint64_t channel = take(one, BROKER_LOCKS), rival = take(two, BROKER_LOCKS);

	claim(one, channel, "q", 1);
	pass(0);
	memory_broker_forsake(one, BROKER_LOCKS);
	claim(two, rival, "q", 101);
	check(one, channel, "q", 2);
	pass(MSEC);
	ck_saw("1=ok 101=ok");
	ck_assert_ptr_eq(owner_of("q"), two);
	/* Its end, when it is noticed, does not touch what is another's now. */
	memory_broker_cut(one, BROKER_LOCKS, 10 * MSEC, 0, "reset");
	pass(20 * MSEC);
	ck_saw("2=unknown! locks:down:reset locks:up");
	ck_assert_ptr_eq(owner_of("q"), two);
	/* A link that is not up cannot part. */
	memory_broker_forsake(one, BROKER_AUXILIARY);
	memory_broker_freeze(one, BROKER_AUXILIARY);
}
END_TEST

static void
count_channel(void *ctx, uint64_t channel, bool silent)
{
	unsigned *counts = ctx;

	ck_assert_uint_ne(channel, 0);
	counts[silent]++;
}

START_TEST(channels_and_connections_are_known)
{
	uint64_t channel, other, first = memory_broker_connection(one, BROKER_LOCKS);
	unsigned counts[2] = {0, 0};

	ck_assert_uint_ne(first, 0);
	ck_assert_uint_ne(first, memory_broker_connection(two, BROKER_LOCKS));
	ck_assert_uint_eq(memory_broker_connection(one, BROKER_AUXILIARY), 0);
	channel = take(one, BROKER_LOCKS);
	other = take(one, BROKER_LOCKS);
	rig.silences[2] = true;
	claim(one, channel, "q", 1);
	claim(one, other, "r", 3);
	pass(0);
	ck_assert_uint_eq(memory_world_owner(world, "q"), first);
	ck_assert_uint_eq(memory_world_owner(world, "none"), 0);
	check(one, channel, "q", 2);
	pass(0);
	memory_broker_each_channel(one, BROKER_LOCKS, count_channel, counts);
	memory_broker_each_channel(one, BROKER_AUXILIARY, count_channel, counts);
	ck_assert_uint_eq(counts[false], 1);
	ck_assert_uint_eq(counts[true], 1);
	memory_broker_cut(one, BROKER_LOCKS, 0, 0, "reset");
	ck_assert_uint_eq(memory_broker_connection(one, BROKER_LOCKS), 0);
	pass(0);
	ck_assert_uint_gt(memory_broker_connection(one, BROKER_LOCKS), first);
	ck_saw("1=ok 3=ok 2=unknown! locks:down:reset locks:up");
}
END_TEST

/* ---- hooks ---- */

START_TEST(blocked_bytes_arrive_when_the_path_is_free)
{
	uint64_t channel = take(one, BROKER_LOCKS);

	claim(one, channel, "q", 1);
	pass(0);
	ck_saw("1=ok");
	memory_broker_block(one, BROKER_LOCKS, MEMORY_OUT);
	claim(one, channel, "r", 2);
	pass(100 * MSEC);
	ck_saw("");
	ck_assert(!exists("r"));
	memory_broker_block(one, BROKER_LOCKS, MEMORY_IN);
	pass(100 * MSEC);
	ck_saw("");
	ck_assert(exists("r"));
	check(one, channel, "nix", 3);
	pass(100 * MSEC);
	memory_broker_block(one, BROKER_LOCKS, 0);
	pass(MSEC);
	ck_saw("2=ok 3=absent! closed:404");
}
END_TEST

START_TEST(a_daemon_whose_timers_do_not_run_hears_later_what_was_done)
{
	struct timers *its = timers_new(timers_clock(rig.timers));
	uint64_t channel;

	broker_free(one);
	one = rig_broker_new_at(its, 3);
	broker_start(one);
	pass(0);
	ck_saw("");
	timers_run(its);
	ck_saw("locks:up");
	channel = take(one, BROKER_LOCKS);
	claim(one, channel, "q", 1);
	check(one, channel, "q", 2);
	pass(100 * MSEC);
	ck_saw("");
	ck_assert_ptr_eq(owner_of("q"), one);
	timers_run(its);
	ck_saw("1=ok 2=ok");
	broker_stop(one);
	timers_free(its);
}
END_TEST

static int64_t
notice_late(void *ctx, const struct broker *broker, enum broker_link link, const char *broken)
{
	(void)ctx;
	ck_assert_ptr_null(broken);
	return broker == one && link == BROKER_LOCKS ? 10 * MSEC : 0;
}

START_TEST(a_link_that_is_made_anew_is_told_from_the_loop_and_noticed_when_it_is)
{
	struct memory_behaviour behaviour = {.notice = notice_late};

	rig_new(&behaviour);
	rig_start();
	claim(one, take(one, BROKER_LOCKS), "q", 1);
	pass(0);
	ck_saw("1=ok");
	broker_reset(one, BROKER_LOCKS, "no answer");
	broker_reset(one, BROKER_LOCKS, "again");
	ck_saw("");
	pass(0);
	ck_saw("locks:down:no answer locks:up");
	ck_assert(exists("q"));
	pass(10 * MSEC);
	ck_assert(!exists("q"));
	rig_free();
}
END_TEST

Suite *
suite_memory_ends(void)
{
	Suite *suite = suite_create("memory ends of connections and channels");
	TCase *tcase = tcase_create("ends");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_add_test(tcase, a_frozen_link_does_and_answers_nothing_and_keeps_its_queues);
	tcase_add_test(tcase, a_forsaken_link_has_lost_its_queues_before_it_knows);
	tcase_add_test(tcase, channels_and_connections_are_known);
	tcase_add_test(tcase, blocked_bytes_arrive_when_the_path_is_free);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("unstarted");
	tcase_add_checked_fixture(tcase, rig_setup_unstarted, rig_teardown);
	tcase_add_test(tcase, a_daemon_whose_timers_do_not_run_hears_later_what_was_done);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("hooks");
	tcase_add_test(
	    tcase, a_link_that_is_made_anew_is_told_from_the_loop_and_noticed_when_it_is);
	suite_add_tcase(suite, tcase);
	return suite;
}
