/*
 * Quorum queues of the server in memory: nodes, connections and requests that fail.
 * tests/conformance has the others. The clients are raw links.
 */
#include <stdio.h>

#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

static struct raw *a, *b;

/* `a` is connected to node 0, the home of the queue "q" with three beads. `b` is on node 1. */
static void
setup(void)
{
	rig_setup();
	a = raw_new(0);
	b = raw_new(1);
	raw_open(a, 2);
	raw_open(b, 2);
}

static void
make(enum raw_declare how)
{
	raw_declare(a, 1, "q", how);
	raw_put(a, 1, "q", "1");
	raw_put(a, 1, "q", "2");
	raw_put(a, 1, "q", "3");
	run();
	ck_saw("a1:declared(0,0)");
}

/* Makes it, and lets `a` hold it, on channel 2. */
static void
hold(void)
{
	make(RAW_QUORUM);
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming a2:got(1) a2:got(2) a2:got(3)");
}

static void
wait_behind(void)
{
	raw_attach(b, 2, "q");
	run();
	ck_saw("b2:consuming");
}

/* Messages and consumers, as `raw` is told them on channel 1. */
#define ck_look(raw, wanted)                                                                       \
	do {                                                                                       \
		raw_declare((raw), 1, "q", RAW_PASSIVE);                                           \
		run();                                                                             \
		ck_saw(wanted);                                                                    \
	} while (0)

static void
reach(enum memory_reach state)
{
	memory_world_set_reach(world, 1, 0, state);
	run();
}

/* ---- suspended consumers ---- */

START_TEST(a_suspended_consumer_is_active_again)
{
	unsigned messages;
	uint64_t channel;

	hold();
	channel = memory_world_active(world, "q", &messages);
	ck_assert_uint_ne(channel, 0);
	ck_assert_uint_eq(messages, 3);
	wait_behind();
	ck_assert(memory_world_suspend(world, "q"));
	run();
	ck_saw("b2:got(1,1) b2:got(2,1) b2:got(3,1)");
	ck_assert_uint_ne(memory_world_active(world, "q", NULL), channel);
	ck_look(a, "a1:declared(0,1)");
	/* The beads are not its own any more. */
	raw_reject(a, 2, 2);
	raw_ack(a, 2, 3);
	run();
	ck_assert(memory_world_resume(world, "q"));
	run();
	ck_saw("");
	/* It is delivered the beads unasked, on its old channel. */
	raw_close(b, 2);
	run();
	ck_saw("a2:got(1,2) a2:got(2,2) a2:got(3,2) b2:close-ok");
	ck_assert_uint_eq(memory_world_active(world, "q", NULL), channel);
	raw_reject(a, 2, 5);
	run();
	ck_saw("a2:got(2,3)");
}
END_TEST

/* From 4.0 on, it goes before those that are younger. */
START_TEST(a_suspended_consumer_goes_first)
{
	const bool old = _i == 0;

	memory_world_set_version(world, old ? 3 : 4, old ? 10 : 0);
	make(old ? RAW_QUORUM_3 : RAW_QUORUM);
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming a2:got(1) a2:got(2) a2:got(3)");
	wait_behind();
	raw_attach(b, 1, "q");
	run();
	ck_saw("b1:consuming");
	memory_world_suspend(world, "q");
	memory_world_resume(world, "q");
	raw_close(b, 2);
	run();
	ck_saw(old ? "b2:got(1,1) b2:got(2,1) b2:got(3,1) b1:got(1,2) b1:got(2,2) b1:got(3,2) "
		     "b2:close-ok"
		   : "b2:got(1,1) b2:got(2,1) b2:got(3,1) a2:got(1,2) a2:got(2,2) a2:got(3,2) "
		     "b2:close-ok");
}
END_TEST

START_TEST(a_suspended_consumer_is_alone)
{
	hold();
	ck_assert(memory_world_suspend(world, "q"));
	ck_assert(!memory_world_suspend(world, "q"));
	ck_assert_uint_eq(memory_world_active(world, "q", NULL), 0);
	ck_look(a, "a1:declared(3,0)");
	if (_i == 0) {
		memory_world_resume(world, "q");
		run();
		ck_saw("a2:got(1,1) a2:got(2,1) a2:got(3,1)");
	} else {
		raw_close(a, 2);
		run();
		memory_world_resume(world, "q");
		run();
		ck_saw("a2:close-ok");
		ck_look(a, "a1:declared(3,0)");
	}
}
END_TEST

/* ---- late deliveries, and consumers without any ---- */

START_TEST(deliveries_are_late)
{
	make(RAW_QUORUM);
	memory_world_delay_deliveries(world, "q", true);
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming");
	wait_behind();
	ck_look(a, "a1:declared(0,1)");
	if (_i == 0) {
		memory_world_delay_deliveries(world, "q", false);
		run();
		ck_saw("a2:got(1) a2:got(2) a2:got(3)");
		raw_reject(a, 2, 1);
		run();
		ck_saw("a2:got(1,1)");
	} else {
		/* Meanwhile they are another consumer's. */
		memory_world_suspend(world, "q");
		memory_world_delay_deliveries(world, "q", false);
		run();
		ck_saw("a2:got(1) a2:got(2) a2:got(3) b2:got(1,1) b2:got(2,1) b2:got(3,1)");
		raw_reject(a, 2, 1);
		run();
		ck_saw("");
	}
}
END_TEST

/* They come before the next one. From 3.11 to 4.2 the last one of them comes first. */
START_TEST(lost_deliveries_are_fetched)
{
	static const unsigned versions[][2] = {{3, 10}, {3, 13}, {4, 2}, {4, 3}};
	const unsigned *version = versions[_i];

	memory_world_set_version(world, version[0], version[1]);
	make(version[0] < 4 ? RAW_QUORUM_3 : RAW_QUORUM);
	memory_world_delay_deliveries(world, "q", true);
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming");
	memory_world_fetch_deliveries(world, "q");
	raw_put(a, 1, "q", "m");
	run();
	ck_saw(_i == 1 || _i == 2 ? "a2:got(3) a2:got(2) a2:got(1) a2:got(m)"
				  : "a2:got(1) a2:got(2) a2:got(3) a2:got(m)");
	/* A reject names the message that the consumer means. */
	raw_reject(a, 2, _i == 1 || _i == 2 ? 3 : 1);
	run();
	ck_saw(_i == 3 ? "a2:got(1,1/1)" : "a2:got(1,1)");
}
END_TEST

START_TEST(the_active_consumer_gets_nothing)
{
	make(RAW_QUORUM);
	memory_world_starve(world, "q", true);
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming");
	wait_behind();
	ck_look(a, "a1:declared(3,1)");
	memory_world_starve(world, "q", false);
	run();
	ck_saw("a2:got(1) a2:got(2) a2:got(3)");
}
END_TEST

/* ---- rejects ---- */

START_TEST(a_reject_is_lost)
{
	hold();
	wait_behind();
	memory_world_set_rejects(world, "q", MEMORY_REJECTS_LOST);
	raw_reject(a, 2, 2);
	run();
	ck_saw("");
	memory_world_set_rejects(world, "q", MEMORY_REJECTS_TAKEN);
	memory_world_resend(world, "q");
	raw_reject(a, 2, 3);
	run();
	ck_saw("a2:got(3,1)");
	raw_close(a, 2);
	run();
	ck_saw("b2:got(1,1) b2:got(2,1) b2:got(3,2) a2:close-ok");
}
END_TEST

/* Two that are sent again come in reversed order. */
START_TEST(rejects_are_sent_again)
{
	hold();
	memory_world_set_rejects(world, "q", MEMORY_REJECTS_DELAYED);
	raw_reject(a, 2, 2);
	raw_reject(a, 2, 3);
	run();
	memory_world_set_rejects(world, "q", MEMORY_REJECTS_TAKEN);
	if (_i == 0) {
		raw_reject(a, 2, 1);
		run();
		ck_saw("a2:got(1,1)");
		memory_world_resend(world, "q");
		run();
		ck_saw("a2:got(3,1) a2:got(2,1)");
	} else {
		/* They come too late. */
		wait_behind();
		raw_close(a, 2);
		run();
		ck_saw("b2:got(1,1) b2:got(2,1) b2:got(3,1) a2:close-ok");
	}
	memory_world_resend(world, "q");
	run();
	ck_saw("");
}
END_TEST

/*
 * Before 4.0, the numbers of a channel's consumer begin anew with its next one, and a reject that
 * comes late takes the wrong message.
 */
START_TEST(a_channel_is_used_again)
{
	const bool old = _i == 0;

	memory_world_set_version(world, old ? 3 : 4, old ? 10 : 0);
	make(old ? RAW_QUORUM_3 : RAW_QUORUM);
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming a2:got(1) a2:got(2) a2:got(3)");
	memory_world_set_rejects(world, "q", MEMORY_REJECTS_DELAYED);
	raw_reject(a, 2, 2);
	run();
	memory_world_suspend(world, "q");
	raw_cancel(a, 2, "h");
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:cancelled a2:consuming a2:got(1,1) a2:got(2,1) a2:got(3,1)");
	memory_world_resend(world, "q");
	run();
	ck_saw(old ? "a2:got(2,2)" : "");
}
END_TEST

/* ---- lost messages, timeouts, refusals ---- */

START_TEST(the_messages_are_lost)
{
	hold();
	raw_put(a, 1, "q", "m");
	run();
	ck_saw("a2:got(m)");
	memory_world_lose(world, "q");
	ck_look(a, "a1:declared(0,1)");
	raw_reject(a, 2, 2);
	run();
	ck_saw("");
	wait_behind();
	raw_close(a, 2);
	raw_put(a, 1, "q", "n");
	run();
	ck_saw("a2:close-ok b2:got(n)");
	raw_cancel(b, 2, "h");
	run();
	ck_saw("b2:cancelled");
	ck_look(a, "a1:declared(0,1)");
	memory_world_lose(world, "q");
	ck_look(a, "a1:declared(0,0)");
}
END_TEST

START_TEST(a_consumer_times_out)
{
	memory_world_set_version(world, 4, 3);
	hold();
	wait_behind();
	ck_assert(memory_world_time_out(world, "q"));
	run();
	/* The others are at the cancelled one. */
	ck_saw("a2:cancel b2:got(1,1)");
	ck_look(a, "a1:declared(0,2)");
	raw_reject(a, 2, 2);
	run();
	ck_saw("b2:got(2,1/1)");
	raw_close(a, 2);
	run();
	ck_saw("b2:got(3,1/1) a2:close-ok");
	ck_look(a, "a1:declared(0,1)");
}
END_TEST

START_TEST(no_node_leads_it)
{
	hold();
	memory_world_refuse_consumers(world, "q", true);
	raw_attach(b, 2, "q");
	run();
	ck_saw("b2:consuming b:dead:541");
	raw_open(a, 3);
	raw_confirm(a, 3);
	raw_publish(a, 3, "q");
	run();
	ck_saw("a3:nack");
	raw_reject(a, 2, 2);
	run();
	ck_saw("a2:got(2,1)");
}
END_TEST

START_TEST(there_is_no_such_queue)
{
	raw_declare(a, 1, "q", RAW_DURABLE);
	run();
	ck_saw("a1:declared(0,0)");
	for (const char *name = "q"; name != NULL; name = *name == 'q' ? "none" : NULL) {
		ck_assert(!memory_world_suspend(world, name));
		ck_assert(!memory_world_resume(world, name));
		ck_assert(!memory_world_delay_deliveries(world, name, true));
		ck_assert(!memory_world_fetch_deliveries(world, name));
		ck_assert(!memory_world_set_rejects(world, name, MEMORY_REJECTS_LOST));
		ck_assert(!memory_world_resend(world, name));
		ck_assert(!memory_world_starve(world, name, true));
		ck_assert(!memory_world_lose(world, name));
		ck_assert(!memory_world_time_out(world, name));
		ck_assert(!memory_world_refuse_consumers(world, name, true));
		ck_assert_uint_eq(memory_world_active(world, name, NULL), 0);
	}
}
END_TEST

/* ---- the time that a request takes ---- */

/* consume-ok comes before the registration: the second one may be the active one. */
START_TEST(a_consumer_is_registered_late)
{
	make(RAW_QUORUM);
	rig.delays_used = 0;
	rig.delays[1] = 10 * MSEC;
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming");
	ck_look(b, "b1:declared(3,0)");
	/* Its channel waits. */
	raw_declare(a, 2, "q", RAW_PASSIVE);
	run();
	ck_saw("");
	if (_i == 0) {
		pass(10 * MSEC);
		ck_saw("a2:got(1) a2:got(2) a2:got(3) a2:declared(0,1)");
		return;
	}
	raw_attach(b, 2, "q");
	run();
	ck_saw("b2:consuming b2:got(1) b2:got(2) b2:got(3)");
	pass(10 * MSEC);
	ck_saw("a2:declared(0,1)");
	raw_close(b, 2);
	run();
	ck_saw("a2:got(1,1) a2:got(2,1) a2:got(3,1) b2:close-ok");
}
END_TEST

/* Nothing becomes of a consumer whose channel has ended, or whose queue is deleted. */
START_TEST(a_late_consumer_is_gone)
{
	make(RAW_QUORUM);
	rig.delays_used = 0;
	rig.delays[1] = 10 * MSEC;
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming");
	switch (_i) {
	case 0:
		raw_end(a);
		pass(10 * MSEC);
		ck_look(b, "b1:declared(3,0)");
		raw_attach(b, 2, "q");
		run();
		/* It had the messages for a moment. */
		ck_saw("b2:consuming b2:got(1,1) b2:got(2,1) b2:got(3,1)");
		break;
	case 1:
		raw_delete(b, 1, "q", 0);
		raw_declare(a, 2, "q", RAW_PASSIVE);
		run();
		ck_saw("a2:cancel a2:closed:404 b1:deleted");
		break;
	default:
		memory_world_restart(world);
		pass(10 * MSEC);
		b = raw_new(0);
		ck_look(b, "c1:declared(3,0)");
	}
}
END_TEST

/* Its end does not wait for the queue. */
START_TEST(the_end_of_a_channel_is_noticed_late)
{
	hold();
	wait_behind();
	rig.delays_used = 0;
	rig.delays[0] = 5 * MSEC;  /* the reject */
	rig.delays[1] = 10 * MSEC; /* the end */
	raw_reject(a, 2, 2);
	raw_close(a, 2);
	run();
	ck_saw("a2:close-ok");
	ck_look(b, "b1:declared(0,1)");
	pass(5 * MSEC);
	ck_saw("");
	pass(5 * MSEC);
	ck_saw("b2:got(1,1) b2:got(3,1) b2:got(2,2)");
}
END_TEST

/* ---- nodes ---- */

static void
hold_on_the_other_node(void)
{
	make(RAW_QUORUM);
	raw_attach(b, 2, "q");
	run();
	ck_saw("b2:consuming b2:got(1) b2:got(2) b2:got(3)");
}

/* Requests and deliveries are on their way. */
START_TEST(a_silent_home)
{
	hold_on_the_other_node();
	raw_confirm(b, 1);
	run();
	reach(MEMORY_SILENT);
	raw_reject(b, 2, 2);
	raw_put(a, 1, "q", "m");
	raw_put(b, 1, "q", "n");
	run();
	ck_saw("");
	ck_look(b, "b1:declared(0,0)");
	ck_look(a, "a1:declared(0,1)");
	reach(MEMORY_REACHED);
	ck_saw("b2:got(m) b2:got(2,1) b2:got(n)");
}
END_TEST

/* It has noticed that the node of the active consumer is down. */
START_TEST(a_node_is_down)
{
	static const enum memory_reach states[] = {MEMORY_PARTED, MEMORY_TIMED_OUT, MEMORY_DOWN};

	hold_on_the_other_node();
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming");
	reach(states[_i]);
	ck_saw("a2:got(1,1) a2:got(2,1) a2:got(3,1)");
	raw_reject(b, 2, 2);
	run();
	ck_look(b, "b1:declared(0,0)");
	reach(MEMORY_REACHED);
	ck_saw("");
	raw_close(a, 2);
	run();
	ck_saw("b2:got(1,2) b2:got(2,2) b2:got(3,2) a2:close-ok");
}
END_TEST

/* When the node is back, the old consumer is active for a moment, before its end is noticed. */
START_TEST(an_end_is_noticed_when_the_node_is_back)
{
	hold_on_the_other_node();
	reach(MEMORY_PARTED);
	ck_look(a, "a1:declared(3,0)");
	raw_end(b);
	run();
	ck_look(a, "a1:declared(3,0)");
	reach(MEMORY_REACHED);
	ck_look(a, "a1:declared(3,0)");
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming a2:got(1,2) a2:got(2,2) a2:got(3,2)");
}
END_TEST

START_TEST(a_consume_without_the_home)
{
	make(RAW_QUORUM);
	reach(_i == 0 ? MEMORY_DOWN : MEMORY_SILENT);
	raw_attach(b, 2, "q");
	run();
	if (_i != 0) {
		ck_saw("b2:consuming");
		ck_look(b, "b1:declared(0,0)");
		reach(MEMORY_TIMED_OUT);
		ck_saw("b:dead:541");
	} else {
		ck_saw("b2:consuming b:dead:541");
	}
	raw_attach(a, 2, "q");
	run();
	ck_saw("a2:consuming a2:got(1) a2:got(2) a2:got(3)");
}
END_TEST

START_TEST(a_deletion_without_the_home)
{
	hold();
	reach(MEMORY_SILENT);
	raw_delete(b, 1, "q", 0);
	run();
	ck_saw("");
	reach(_i == 0 ? MEMORY_DOWN : MEMORY_REACHED);
	ck_saw("a2:cancel b1:deleted");
	ck_assert(!exists("q"));
}
END_TEST

/* A reject that is on its way is lost with the node. */
START_TEST(a_restart)
{
	hold();
	rig.delays_used = 0;
	rig.delays[0] = _i == 0 ? 0 : 5 * MSEC;
	if (_i == 0)
		memory_world_set_rejects(world, "q", MEMORY_REJECTS_DELAYED);
	raw_reject(a, 2, 2);
	run();
	memory_world_restart(world);
	b = raw_new(0);
	memory_world_resend(world, "q");
	raw_attach(b, 1, "q");
	run();
	ck_saw("c1:consuming c1:got(1,1) c1:got(2,1) c1:got(3,1)");
}
END_TEST

Suite *
suite_memory_quorum(void)
{
	Suite *suite = suite_create("memory quorum");
	TCase *tc = tcase_create("quorum");

	tcase_add_checked_fixture(tc, setup, rig_teardown);
	tcase_add_test(tc, a_suspended_consumer_is_active_again);
	tcase_add_loop_test(tc, a_suspended_consumer_goes_first, 0, 2);
	tcase_add_loop_test(tc, a_suspended_consumer_is_alone, 0, 2);
	tcase_add_loop_test(tc, deliveries_are_late, 0, 2);
	tcase_add_loop_test(tc, lost_deliveries_are_fetched, 0, 4);
	tcase_add_test(tc, the_active_consumer_gets_nothing);
	tcase_add_test(tc, a_reject_is_lost);
	tcase_add_loop_test(tc, rejects_are_sent_again, 0, 2);
	tcase_add_loop_test(tc, a_channel_is_used_again, 0, 2);
	tcase_add_test(tc, the_messages_are_lost);
	tcase_add_test(tc, a_consumer_times_out);
	tcase_add_test(tc, no_node_leads_it);
	tcase_add_test(tc, there_is_no_such_queue);
	tcase_add_loop_test(tc, a_consumer_is_registered_late, 0, 2);
	tcase_add_loop_test(tc, a_late_consumer_is_gone, 0, 3);
	tcase_add_test(tc, the_end_of_a_channel_is_noticed_late);
	tcase_add_test(tc, a_silent_home);
	tcase_add_loop_test(tc, a_node_is_down, 0, 3);
	tcase_add_test(tc, an_end_is_noticed_when_the_node_is_back);
	tcase_add_loop_test(tc, a_consume_without_the_home, 0, 2);
	tcase_add_loop_test(tc, a_deletion_without_the_home, 0, 2);
	tcase_add_loop_test(tc, a_restart, 0, 2);
	suite_add_tcase(suite, tc);
	return suite;
}
