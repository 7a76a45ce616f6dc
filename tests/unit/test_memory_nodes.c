/*
 * The nodes of the server in memory: a durable queue whose home cannot be reached. The clients are
 * raw links.
 */
#include <stdio.h>

#include "daemon/amqp/link.h"
#include "daemon/broker/setup.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

static struct raw *a, *b;

/* `a` is connected to node 0, `b` to node 1, the home of the durable B "s". */
static void
setup(void)
{
	rig_setup();
	a = raw_new(0);
	b = raw_new(1);
	raw_open(a, 2);
	raw_declare(b, 1, "s", RAW_HOLDER);
	run();
	ck_saw("b1:declared(0,0)");
}

static void
reach(enum memory_reach state)
{
	memory_world_set_reach(world, 0, 1, state);
}

static void
question(int method)
{
	switch (method) {
	case 0:
		raw_declare(a, 1, "s", RAW_PASSIVE);
		break;
	case 1:
		raw_declare(a, 1, "s", RAW_HOLDER);
		break;
	case 2:
		raw_consume(a, 1, "s", true);
		break;
	case 3:
		raw_get(a, 1, "s");
		break;
	default:
		raw_delete(a, 1, "s", RAW_IF_UNUSED);
	}
}
#define METHODS 5

static const char *const answers[METHODS] = {
    "a1:declared(0,0)", "a1:declared(0,0)", "a1:consuming", "a1:empty", "a1:deleted"};

/* The methods behind it on its channel wait, too, but no other channel does. */
START_TEST(a_silent_home_is_waited_for)
{
	char both[64];

	reach(MEMORY_SILENT);
	question(_i);
	raw_declare(a, 1, "x", RAW_HOLDER);
	raw_declare(a, 2, "y", RAW_HOLDER);
	raw_declare(b, 1, "s", RAW_PASSIVE);
	pass(100 * NSEC_PER_SEC);
	ck_saw("a2:declared(0,0) b1:declared(0,0)");
	ck_assert(exists("s"));
	reach(MEMORY_REACHED);
	run();
	snprintf(both, sizeof(both), "%s a1:declared(0,0)", answers[_i]);
	ck_saw(both);
}
END_TEST

START_TEST(a_wait_ends_with_the_timeout)
{
	reach(MEMORY_SILENT);
	question(_i);
	pass(NSEC_PER_SEC);
	ck_saw("");
	reach(MEMORY_TIMED_OUT);
	run();
	/* A delete is forced. */
	ck_saw(_i == METHODS - 1 ? "a1:deleted" : "a1:closed:404");
	ck_assert(exists("s") == (_i != METHODS - 1));
	if (_i == METHODS - 1)
		return;
	ck_assert_str_eq(rig.text, "NOT_FOUND - failed to perform operation on queue 's' in vhost "
				   "'/' due to timeout");
	/* The state lasts. */
	question(_i);
	run();
	ck_saw("a1:closed:404");
}
END_TEST

START_TEST(a_home_that_is_down)
{
	reach(MEMORY_DOWN);
	question(_i);
	run();
	ck_saw("a1:closed:404");
	ck_assert_str_eq(rig.text, "NOT_FOUND - home node 'n1' of durable queue 's' in vhost '/' "
				   "is down or inaccessible");
	ck_assert(exists("s"));
	reach(MEMORY_REACHED);
	question(_i);
	run();
	ck_saw(answers[_i]);
}
END_TEST

static void
count_silent(void *ctx, uint64_t channel, bool silent)
{
	(void)channel;
	*(unsigned *)ctx += silent;
}

/* A daemon's channel, too, and it counts as one that stays unanswered. */
START_TEST(a_daemon_waits)
{
	uint64_t channel = take(one, BROKER_LOCKS);
	unsigned silent = 0;

	reach(MEMORY_SILENT);
	check(one, channel, "s", 1);
	run();
	memory_broker_each_channel(one, BROKER_LOCKS, count_silent, &silent);
	ck_assert_uint_eq(silent, 1);
	ck_saw("");
	/* If the server closes it, it is read again. */
	if (_i == 0)
		memory_broker_close_channel(one, channel, 406, "PRECONDITION_FAILED - test");
	else
		reach(MEMORY_REACHED);
	run();
	ck_saw(_i == 0 ? "1=skipped! closed:406" : "1=ok");
	memory_broker_each_channel(one, BROKER_LOCKS, count_silent, &silent);
	ck_assert_uint_eq(silent, 1);
	channel = take(one, BROKER_LOCKS);
	reach(MEMORY_REACHED);
	check(one, channel, "s", 2);
	run();
	ck_saw("2=ok");
}
END_TEST

START_TEST(a_wait_ends_with_its_connection)
{
	reach(MEMORY_SILENT);
	raw_consume(a, 1, "s", true);
	run();
	raw_end(a);
	reach(MEMORY_REACHED);
	raw_consume(b, 1, "s", true);
	run();
	ck_saw("b1:consuming");
}
END_TEST

/* A declare is compared first, and the home of a queue that is not durable does not matter. */
START_TEST(answered_without_the_home)
{
	raw_declare(a, 1, "mine", RAW_EXCLUSIVE);
	run();
	ck_assert(memory_world_set_home(world, "mine", 1));
	ck_assert(!memory_world_set_home(world, "none", 1));
	memory_world_set_reach(world, 0, 0, _i);
	reach((enum memory_reach)_i);
	raw_declare(a, 1, "mine", RAW_PASSIVE);
	raw_declare(a, 1, "s", RAW_EXCLUSIVE);
	run();
	ck_saw(_i == MEMORY_DOWN ? "a1:declared(0,0) a1:declared(0,0) a1:closed:404"
				 : "a1:declared(0,0) a1:declared(0,0) a1:closed:405");
}
END_TEST

/* ---- consumers ---- */

START_TEST(a_silence_costs_no_consumer)
{
	raw_consume(a, 1, "s", true);
	run();
	reach(MEMORY_SILENT);
	raw_consume(b, 1, "s", true);
	run();
	ck_saw("a1:consuming b1:closed:403");
	raw_cancel(a, 1, "h");
	pass(NSEC_PER_SEC);
	ck_saw("");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), raw_number(a));
	reach(MEMORY_REACHED);
	run();
	ck_saw("a1:cancelled");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
}
END_TEST

/* The home frees the queue, and the holder goes on for a while. */
START_TEST(a_partition_that_only_the_home_noticed)
{
	static const enum memory_reach later[] = {
	    MEMORY_REACHED, MEMORY_TIMED_OUT, MEMORY_DOWN, MEMORY_SILENT};

	raw_consume(a, 1, "s", true);
	run();
	reach(MEMORY_PARTED);
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
	raw_declare(b, 1, "s", RAW_PASSIVE);
	raw_consume(b, 1, "s", true);
	raw_declare(a, 2, "s", RAW_PASSIVE);
	run();
	ck_saw("a1:consuming b1:declared(0,0) b1:consuming");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), raw_number(b));
	ck_assert_uint_eq(memory_world_members(world, "s"), 1);
	reach(later[_i]);
	run();
	ck_saw(_i == 0 ? "a1:cancel a2:declared(0,1)" : _i == 3 ? "" : "a1:cancel a2:closed:404");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), raw_number(b));
	reach(MEMORY_REACHED);
	run();
	ck_saw(_i == 3 ? "a1:cancel a2:declared(0,1)" : "");
}
END_TEST

START_TEST(a_lost_consumer_gets_no_message)
{
	ck_assert(memory_world_put(world, "slot", false));
	ck_assert(memory_world_set_home(world, "slot", 1));
	raw_consume(a, 1, "slot", true);
	run();
	reach(MEMORY_PARTED);
	memory_world_publish(world, "slot", "one");
	raw_consume(b, 1, "slot", true);
	run();
	memory_world_publish(world, "slot", "two");
	run();
	ck_saw("a1:consuming b1:consuming b1:got(two)");
}
END_TEST

START_TEST(both_sides_notice_at_once)
{
	raw_consume(a, 1, "s", true);
	run();
	reach(_i == 0 ? MEMORY_TIMED_OUT : MEMORY_DOWN);
	run();
	ck_saw("a1:consuming a1:cancel");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), 0);
	/* The consumer is gone for the channel: its cancel needs no home. */
	raw_cancel(a, 1, "h");
	raw_consume(b, 1, "s", true);
	run();
	ck_saw("a1:cancelled b1:consuming");
	reach(MEMORY_REACHED);
	raw_declare(a, 1, "s", RAW_PASSIVE);
	run();
	ck_saw("a1:declared(0,1)");
}
END_TEST

START_TEST(a_queue_elsewhere_keeps_its_consumer)
{
	raw_declare(a, 1, "t", RAW_HOLDER); /* at home on node 0 */
	raw_declare(a, 2, "mine", RAW_EXCLUSIVE);
	run();
	ck_assert(memory_world_set_home(world, "mine", 1));
	raw_consume(a, 1, "t", true);
	raw_consume(a, 2, "mine", true);
	run();
	ck_saw("a1:declared(0,0) a2:declared(0,0) a1:consuming a2:consuming");
	reach((enum memory_reach)_i);
	run();
	ck_saw("");
	ck_assert_uint_eq(memory_world_holder(world, "t", NULL), raw_number(a));
	ck_assert_uint_eq(memory_world_holder(world, "mine", NULL), raw_number(a));
}
END_TEST

/* if-unused does not prevent it, and no client is notified. */
START_TEST(deleted_by_force_from_the_other_side)
{
	raw_consume(b, 1, "s", true);
	run();
	reach(MEMORY_TIMED_OUT);
	raw_delete(a, 1, "s", RAW_IF_UNUSED);
	raw_declare(a, 1, "s", RAW_HOLDER);
	raw_consume(a, 1, "s", true);
	run();
	ck_saw("b1:consuming a1:deleted a1:declared(0,0) a1:consuming");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), raw_number(a));
}
END_TEST

/* rabbit_classic_queue: "The queue may be non-empty. Refusing to force-delete." */
START_TEST(not_deleted_by_force_if_empty)
{
	raw_consume(b, 1, "s", true);
	run();
	reach(MEMORY_TIMED_OUT);
	raw_delete(a, 1, "s", RAW_IF_UNUSED | RAW_IF_EMPTY);
	run();
	ck_saw("b1:consuming a1:closed:406");
	ck_assert_uint_eq(memory_world_holder(world, "s", NULL), raw_number(b));
}
END_TEST

START_TEST(deleted_while_a_consumer_is_lost)
{
	raw_consume(a, 1, "s", true);
	run();
	reach(MEMORY_PARTED);
	raw_delete(b, 1, "s", RAW_IF_UNUSED);
	run();
	ck_saw("a1:consuming b1:deleted");
	reach(MEMORY_REACHED);
	raw_cancel(a, 1, "h");
	run();
	ck_saw("a1:cancelled");
}
END_TEST

/* ---- publishes and expiry ---- */

START_TEST(published_to_a_home_that_cannot_be_reached)
{
	static const char *const seen[] = {"a2:ack", "", "", "a2:nack", "a2:nack"};

	ck_assert(memory_world_put(world, "slot", false));
	ck_assert(memory_world_set_home(world, "slot", 1));
	raw_confirm(a, 2);
	reach((enum memory_reach)_i);
	raw_publish(a, 2, "slot");
	run();
	ck_saw(seen[_i]);
	/* The channel goes on. */
	raw_declare(a, 2, "x", RAW_HOLDER);
	raw_publish(a, 2, "x");
	run();
	ck_saw("a2:declared(0,0) a2:nack");
}
END_TEST

START_TEST(a_node_that_is_down_expires_nothing)
{
	raw_declare(b, 1, "m", RAW_MUTEX);
	run();
	memory_world_set_reach(world, 1, 1, MEMORY_DOWN);
	pass(7 * RAW_EXPIRES * MSEC / 2);
	ck_assert(exists("m"));
	memory_world_set_reach(world, 1, 1, MEMORY_REACHED);
	pass(RAW_EXPIRES * MSEC - MSEC);
	ck_assert(exists("m"));
	pass(2 * MSEC);
	ck_assert(!exists("m"));
	ck_saw("b1:declared(0,0)");
}
END_TEST

/* The queue of a consumer that its home lost is unused there. */
START_TEST(a_queue_expires_without_its_lost_consumer)
{
	raw_declare(b, 1, "m", RAW_MUTEX);
	run();
	raw_consume(a, 1, "m", true);
	run();
	pass(3 * RAW_EXPIRES * MSEC);
	ck_assert(exists("m"));
	reach(MEMORY_PARTED);
	pass(RAW_EXPIRES * MSEC);
	ck_assert(!exists("m"));
	ck_saw("b1:declared(0,0) a1:consuming");
}
END_TEST

START_TEST(a_change_of_state_is_no_use)
{
	raw_declare(b, 1, "m", RAW_MUTEX);
	run();
	pass(RAW_EXPIRES * MSEC - MSEC);
	reach(MEMORY_DOWN);
	reach(MEMORY_REACHED);
	pass(MSEC);
	ck_assert(!exists("m"));
	ck_saw("b1:declared(0,0)");
}
END_TEST

/* ---- counts of consumers ---- */

static void
setup_counts(void)
{
	rig_channels_of_one = 20;
	setup();
}

static void
on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	enum broker_answer *answer = ctx;

	(void)id;
	*answer = seen->answers[0];
}

/* Each check for a second. Then it has a channel of its own, as long as there are some. */
START_TEST(a_silent_home_holds_up_other_checks_for_a_moment)
{
	const struct broker_question question = {"s", BROKER_ASK_CONSUMER};
	enum broker_answer answer[3] = {BROKER_SKIPPED, BROKER_SKIPPED, BROKER_SKIPPED};

	raw_declare(a, 1, "t", RAW_HOLDER);
	count(one, "t", 1);
	run();
	ck_saw("auxiliary:up a1:declared(0,0) c1=0");
	reach(MEMORY_SILENT);
	for (uint64_t i = 0; i < 3; i++) {
		broker_probe(
		    one, &question, 1, (struct broker_probe_done){on_probed, &answer[i], 0});
		count(one, "t", 2 + i);
		pass(900 * MSEC);
		ck_saw("");
		pass(200 * MSEC);
		ck_saw(i == 0 ? "c2=0" : i == 1 ? "c3=0" : "c4=0");
	}
	ck_assert_int_eq(answer[0], BROKER_SKIPPED);
	reach(MEMORY_REACHED);
	run();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(answer[i], BROKER_ABSENT);
}
END_TEST

/* The first count of a queue, however many queues are silent. Then its counts are given up. */
START_TEST(a_silent_home_holds_up_other_counts_for_a_moment)
{
	raw_declare(a, 1, "t", RAW_HOLDER);
	count(one, "t", 1);
	run();
	ck_saw("auxiliary:up a1:declared(0,0) c1=0");
	reach(MEMORY_SILENT);
	for (int i = 0; i < 9; i++) {
		count(one, "s", 2);
		count(one, "t", 3);
		count(one, "s", 4);
		pass(900 * MSEC);
		ck_saw("");
		pass(200 * MSEC);
		ck_saw("c2=-1 c4=-1 c3=0");
	}
	count(one, "s", 5);
	memory_broker_cut(one, BROKER_AUXILIARY, 0, -1, "cut");
	ck_saw("c5=-1 auxiliary:down:cut");
}
END_TEST

static void
on_count(void *ctx, uint64_t id, int consumers)
{
	unsigned *counted = ctx;

	(void)id;
	ck_assert_int_eq(consumers, 0);
	++*counted;
}

/* Each refusal closes the channel. Few requests stand behind it and are sent again. */
START_TEST(many_refusals_cost_a_channel_each)
{
	enum { MANY = 200 };
	struct amqp_counts before, after;
	unsigned counted = 0;

	count(one, "s", 1);
	run();
	ck_saw("auxiliary:up c1=0");
	broker_get_counts(one, BROKER_AUXILIARY, &before);
	for (int i = 0; i < MANY; i++)
		broker_wait_queue_count(
		    one, "missing", (struct broker_count_done){on_count, &counted, 0});
	run();
	ck_assert_uint_eq(counted, MANY);
	broker_get_counts(one, BROKER_AUXILIARY, &after);
	ck_assert_uint_eq(after.channels_closed_by_broker - before.channels_closed_by_broker, MANY);
	/* Of each: the declare, which was sent twice, channel.open and close-ok. */
	ck_assert_uint_le(after.sent_methods - before.sent_methods, 4 * MANY);
}
END_TEST

Suite *
suite_memory_nodes(void)
{
	Suite *suite = suite_create("memory nodes");
	TCase *tc = tcase_create("nodes");

	tcase_add_checked_fixture(tc, setup, rig_teardown);
	tcase_add_loop_test(tc, a_silent_home_is_waited_for, 0, METHODS);
	tcase_add_loop_test(tc, a_wait_ends_with_the_timeout, 0, METHODS);
	tcase_add_loop_test(tc, a_home_that_is_down, 0, METHODS);
	tcase_add_loop_test(tc, a_daemon_waits, 0, 2);
	tcase_add_test(tc, a_wait_ends_with_its_connection);
	tcase_add_loop_test(tc, answered_without_the_home, 0, MEMORY_DOWN + 1);
	tcase_add_test(tc, a_silence_costs_no_consumer);
	tcase_add_loop_test(tc, a_partition_that_only_the_home_noticed, 0, 4);
	tcase_add_test(tc, a_lost_consumer_gets_no_message);
	tcase_add_loop_test(tc, both_sides_notice_at_once, 0, 2);
	tcase_add_loop_test(tc, a_queue_elsewhere_keeps_its_consumer, 0, MEMORY_DOWN + 1);
	tcase_add_test(tc, deleted_by_force_from_the_other_side);
	tcase_add_test(tc, not_deleted_by_force_if_empty);
	tcase_add_test(tc, deleted_while_a_consumer_is_lost);
	tcase_add_loop_test(tc, published_to_a_home_that_cannot_be_reached, 0, MEMORY_DOWN + 1);
	tcase_add_test(tc, a_node_that_is_down_expires_nothing);
	tcase_add_test(tc, a_queue_expires_without_its_lost_consumer);
	tcase_add_test(tc, a_change_of_state_is_no_use);
	suite_add_tcase(suite, tc);
	tc = tcase_create("counts");
	tcase_add_checked_fixture(tc, setup_counts, rig_teardown);
	tcase_add_test(tc, a_silent_home_holds_up_other_checks_for_a_moment);
	tcase_add_test(tc, a_silent_home_holds_up_other_counts_for_a_moment);
	tcase_add_test(tc, many_refusals_cost_a_channel_each);
	suite_add_tcase(suite, tc);
	return suite;
}
