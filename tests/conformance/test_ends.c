/*
 * Refusals for a missing permission, alarms, and the ends of connections: by the server, by the
 * daemon, and with the node.
 */
#include <string.h>

#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

/* ---- permissions ---- */

static void
want_no_permission(struct rig_broker *rig, rig_operation *operation, const char *queue)
{
	enum broker_link link = operation == broker_declare_slot ||
					operation == broker_delete_slot ||
					operation == broker_delete_holder
				    ? BROKER_AUXILIARY
				    : BROKER_LOCKS;
	const struct rig_answer *answer =
	    rig_answer(rig_ask(rig, operation, rig_take(rig, link), queue));

	ck_assert_msg(
	    answer->reply.answer == BROKER_REFUSED, "%d: %s", answer->reply.answer, answer->text);
	ck_assert_int_eq(answer->reply.code, 403);
	ck_assert(!answer->reply.channel_open);
	ck_assert_msg(strstr(answer->text, "access to queue '") != NULL &&
			  strstr(answer->text, queue) != NULL &&
			  strstr(answer->text, "' in vhost '/' refused for user '") != NULL,
	    "%s", answer->text);
}

/* A missing permission is no lock. */
START_TEST(a_missing_permission)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_AUXILIARY), held = rig_take(one, BROKER_LOCKS);

	rig_want(one, broker_declare_holder, channel, "poor-1-B", BROKER_OK);
	rig_want(one, broker_declare_holder, channel, "poor-2-B", BROKER_OK);
	rig_want(one, rig_consume, held, "poor-2-B", BROKER_OK);
	server->permit(false);
	want_no_permission(two, rig_claim, "poor-3-B");
	want_no_permission(two, rig_consume, "poor-1-B");
	want_no_permission(two, rig_consume_mutex, "poor-4-B");
	want_no_permission(two, broker_declare_slot, "poor-1-A");
	want_no_permission(two, broker_delete_slot, "poor-1-A");
	want_no_permission(two, broker_delete_holder, "poor-1-B");
	/* Of the two refusals the server says that of the permission. */
	want_no_permission(two, rig_consume, "poor-2-B");
	server->permit(true);
	rig_want(one, rig_cancel, held, "poor-2-B", BROKER_OK);
	rig_want(two, rig_consume, rig_take(two, BROKER_LOCKS), "poor-2-B", BROKER_OK);
	rig_want(two, rig_claim, rig_take(two, BROKER_LOCKS), "poor-3-B", BROKER_OK);
	ck_assert_uint_eq(two->events[BROKER_LOCKS], 1);
}
END_TEST

START_TEST(a_directory_without_permission)
{
	struct rig_broker *one = rig_open_up();
	const struct rig_answer *answer;

	server->permit(false);
	answer = rig_answer(rig_enter(one, "dir-poor", "a"));
	server->permit(true);
	ck_assert_int_eq(answer->reply.answer, BROKER_REFUSED);
	ck_assert_int_eq(answer->reply.code, 403);
	ck_assert_uint_eq(rig_answer(rig_read(one, "dir-poor"))->names.count, 0);
}
END_TEST

/* ---- alarms ---- */

static struct rig_broker *prober;

static void
probe_again(unsigned number)
{
	static const char *const queue = "alarm-again";

	(void)number;
	rig_reaction = NULL;
	rig_ask_probe(prober, &queue, 1);
}

/*
 * The first publish during an alarm is confirmed. Later probes are unknown, at once. The lock
 * connection never publishes, and nothing holds it back.
 */
START_TEST(an_alarm_holds_probes_back)
{
	struct rig_broker *one = prober = rig_open_up();
	static const char *const queue = "alarm-none";
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	uint64_t published;

	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_ABSENT);
	server->alarm(true);
	(void)rig_probe(one, &queue, 1);
	rig_wait(rig_info(one).auxiliary_blocked);
	published = rig_counts(one, BROKER_AUXILIARY).sent_publishes;
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_UNKNOWN);
	rig_want(one, rig_claim, channel, "alarm-1-B", BROKER_OK);
	rig_want(one, rig_drop, channel, "alarm-1-B", BROKER_OK);
	rig_reaction = probe_again;
	rig_want(one, rig_claim, channel, "alarm-1-B", BROKER_OK);
	rig_wait(rig_probes_answered() == 4);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_UNKNOWN);
	ck_assert_uint_eq(rig_counts(one, BROKER_AUXILIARY).sent_publishes, published);
	server->alarm(false);
	rig_wait(!rig_info(one).auxiliary_blocked);
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_ABSENT);
	ck_assert_uint_eq(one->events[BROKER_AUXILIARY], 1);
}
END_TEST

/* ---- the server ends a connection ---- */

START_TEST(closed_by_an_administrator)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS), side = rig_take(one, BROKER_AUXILIARY);
	unsigned late;

	rig_want(one, rig_claim, channel, "admin-1-B", BROKER_OK);
	rig_want(one, rig_claim, side, "admin", BROKER_OK);
	server->close_connections("maintenance work");
	rig_wait(one->events[BROKER_LOCKS] >= 2 && one->events[BROKER_AUXILIARY] >= 2);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_DOWN);
	ck_assert_ptr_nonnull(
	    strstr(one->why[BROKER_AUXILIARY], "CONNECTION_FORCED - maintenance work (320)"));
	ck_assert_uint_eq(one->channels_closed, 0);
	late = rig_ask(one, broker_check, channel, "admin-1-B");
	ck_assert_int_eq(rig_answer(late)->reply.answer, BROKER_UNKNOWN);
	rig_put(one, channel);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	ck_assert_uint_ge(one->events[BROKER_LOCKS], 3);
	/* Nothing of the old link is left. */
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "admin-1-B", BROKER_ABSENT);
	rig_want(one, rig_claim, rig_take(one, BROKER_AUXILIARY), "admin", BROKER_OK);
}
END_TEST

START_TEST(the_node_restarts)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS), side = rig_take(one, BROKER_AUXILIARY);
	struct client *client = client_new();
	unsigned events = one->events[BROKER_LOCKS];

	rig_want(one, rig_claim, channel, "restart-1-B", BROKER_OK);
	rig_want(one, broker_declare_slot, side, "restart-1-A", BROKER_OK);
	rig_want(one, broker_declare_marker, side, "restart-G", BROKER_OK);
	rig_want(one, broker_declare_holder, side, "restart-2-B", BROKER_OK);
	rig_want(one, rig_consume, channel, "restart-2-B", BROKER_OK);
	ck_assert_int_eq(rig_answer(rig_enter(one, "dir-restart", "a"))->reply.answer, BROKER_OK);
	client_want(client_declare(client, "restart-none", CLIENT_TRANSIENT), "ok 0 0");
	client_end(client);
	rig_watch(one, "restart-1-A");
	rig_join(one, "restart-W", 5, 1);
	rig_inbox(one, true);
	rig_wait(rig_told(one, "restart-1-A", BROKER_WATCHED) == 1);
	rig_wait(rig_wait_queue_told(one, "restart-W", BROKER_WAIT_QUEUE_JOINED) == 1);
	server->restart();
	rig_wait(one->events[BROKER_LOCKS] > events);
	rig_wait_for(60, one->state[BROKER_LOCKS] == BROKER_UP);
	channel = rig_take(one, BROKER_LOCKS);
	rig_want(one, broker_check, channel, "restart-1-A", BROKER_OK);
	rig_want(one, broker_check, channel, "restart-G", BROKER_OK);
	rig_want(one, rig_check_consumer, channel, "restart-2-B", BROKER_ABSENT);
	rig_want(one, rig_consume, channel, "restart-2-B", BROKER_OK);
	rig_want(one, broker_check, channel, "restart-1-B", BROKER_ABSENT);
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "restart-none", BROKER_ABSENT);
	ck_assert_uint_eq(rig_answer(rig_read(one, "dir-restart"))->names.count, 1);
	/* Consumers are placed again. */
	rig_wait(rig_wait_queue_told(one, "restart-W", BROKER_WAIT_QUEUE_JOINED) == 2);
	ck_assert_uint_eq(rig_wait_queue_told(one, "restart-W", BROKER_WAIT_QUEUE_LEFT), 1);
	rig_wait_for(60, two->state[BROKER_LOCKS] == BROKER_UP);
	rig_wake(two, "restart-W", 3);
	rig_wait(rig_wait_queue_told(one, "restart-W", BROKER_WAIT_QUEUE_HINT) == 1);
	rig_wait((
	    rig_ask_all(two, "who?", 4), rig_pass_for(50 * NSEC_PER_MSEC), one->message_count > 0));
	rig_wait(rig_told(one, "restart-1-A", BROKER_WATCHED) == 2);
	side = rig_take(one, BROKER_AUXILIARY);
	rig_want(one, broker_delete_slot, side, "restart-1-A", BROKER_OK);
	rig_wait(rig_told(one, "restart-1-A", BROKER_HINT) == 1);
	rig_want(one, broker_delete_slot, side, "restart-G", BROKER_OK);
	rig_want(one, broker_delete_slot, side, "restart-2-B", BROKER_OK);
	rig_want(one, broker_delete_slot, side, "dir-restart", BROKER_OK);
}
END_TEST

/* ---- the daemon ends a connection ---- */

static struct rig_broker *dying;
static unsigned unknown;

/* The state is set before the answers, and the event comes after them. */
static void
look_at_state(unsigned number)
{
	if (rig_answers[number].reply.answer != BROKER_UNKNOWN)
		return;
	unknown++;
	ck_assert_int_eq(rig_info(dying).locks, BROKER_DOWN);
	ck_assert_uint_eq(rig_info(dying).channels, 0);
	ck_assert_int_eq(dying->state[BROKER_LOCKS], BROKER_UP);
	ck_assert_uint_eq(rig_take(dying, BROKER_LOCKS), 0);
}

START_TEST(requests_of_a_dying_link_end_unknown_in_order)
{
	struct rig_broker *one = dying = rig_open_up();
	uint64_t channels[3];
	unsigned asked[6];

	for (int i = 0; i < 3; i++)
		channels[i] = rig_take(one, BROKER_LOCKS);
	rig_want(one, rig_claim, channels[0], "dying-0-B", BROKER_OK);
	rig_reaction = look_at_state;
	unknown = 0;
	for (int i = 0; i < 6; i++)
		asked[i] = rig_ask(one, rig_claim, channels[(i * 2) % 3], "dying-1-B");
	broker_reset(one->broker, BROKER_LOCKS, "for the test");
	broker_reset(one->broker, BROKER_LOCKS, "again");
	ck_assert_uint_eq(rig_answers[asked[0]].times, 0);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_DOWN);
	ck_assert_uint_eq(unknown, 6);
	for (int i = 0; i < 6; i++) {
		ck_assert_uint_eq(rig_answers[asked[i]].times, 1);
		ck_assert(!rig_answers[asked[i]].reply.channel_open);
		if (i > 0)
			ck_assert_uint_lt(
			    rig_answers[asked[i - 1]].order, rig_answers[asked[i]].order);
	}
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], "for the test"));
	ck_assert_str_eq(rig_info(one).why, one->why[BROKER_LOCKS]);
	ck_assert_uint_eq(one->channels_closed, 0);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	/* Channels of a link that died. */
	rig_reaction = NULL;
	ck_assert_int_eq(
	    rig_answer(rig_ask(one, rig_claim, channels[0], "dying-1-B"))->reply.answer,
	    BROKER_UNKNOWN);
	rig_put(one, channels[1]);
	ck_assert_uint_eq(rig_info(one).channels, 0);
}
END_TEST

/* Holds stay. The auxiliary connection comes back when it is used next. */
START_TEST(the_auxiliary_connection_ends)
{
	struct rig_broker *one = rig_open_up();
	uint64_t hold = rig_take(one, BROKER_LOCKS), side = rig_take(one, BROKER_AUXILIARY);
	static const char *const queue = "side-1-B";
	unsigned check;

	rig_want(one, rig_claim, hold, queue, BROKER_OK);
	rig_want(one, broker_declare_slot, side, "side-1-A", BROKER_OK);
	check = rig_ask(one, broker_check, side, queue);
	rig_ask_probe(one, &queue, 1);
	broker_reset(one->broker, BROKER_AUXILIARY, "for the test");
	rig_wait(one->state[BROKER_AUXILIARY] == BROKER_DOWN);
	ck_assert_int_eq(rig_answers[check].reply.answer, BROKER_UNKNOWN);
	ck_assert_uint_eq(rig_probes_answered(), 1);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_UNKNOWN);
	rig_want(one, broker_check, hold, queue, BROKER_OK);
	rig_pass_for(300 * NSEC_PER_MSEC);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_DOWN);
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_OK);
	rig_want(one, broker_delete_slot, rig_take(one, BROKER_AUXILIARY), "side-1-A", BROKER_OK);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
}
END_TEST

/* No callback comes any more, not even for pending requests, and the queues are free. */
START_TEST(stopped)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	static const char *const queue = "stop-1-B";
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	unsigned events = one->events[BROKER_LOCKS], claim, late, probes;

	rig_want(one, rig_claim, channel, queue, BROKER_OK);
	rig_want(one, rig_claim, rig_take(one, BROKER_AUXILIARY), "stop", BROKER_OK);
	claim = rig_ask(one, rig_claim, channel, "stop-2-B");
	rig_ask_probe(one, &queue, 1);
	probes = rig_probes_answered();
	broker_stop(one->broker);
	late = rig_ask(one, rig_claim, channel, "stop-3-B");
	for (int i = 0; i < 200; i++) {
		const struct rig_answer *answer =
		    rig_answer(rig_ask(two, broker_check, rig_take(two, BROKER_LOCKS), queue));

		if (answer->reply.answer == BROKER_ABSENT)
			break;
		ck_assert_int_lt(i, 199);
	}
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], events);
	ck_assert_uint_eq(rig_answers[claim].times + rig_answers[late].times, 0);
	ck_assert_uint_eq(rig_probes_answered(), probes);
}
END_TEST

static void
stop(unsigned number)
{
	(void)number;
	rig_reaction = NULL;
	broker_stop(dying->broker);
}

/* By an answer of the server, or by that of a link that died. */
START_TEST(stopped_by_an_answer)
{
	uint64_t channel;
	unsigned check, claim, events;

	dying = rig_open_up();
	channel = rig_take(dying, BROKER_LOCKS);
	events = dying->events[BROKER_LOCKS];
	rig_reaction = stop;
	check = rig_ask(dying, broker_check, channel, "stopped-none");
	claim = rig_ask(dying, rig_claim, channel, "stopped-1-B");
	if (_i == 1)
		broker_reset(dying->broker, BROKER_LOCKS, "for the test");
	ck_assert_int_eq(rig_answer(check)->reply.answer, _i == 1 ? BROKER_UNKNOWN : BROKER_ABSENT);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(rig_answers[claim].times, 0);
	ck_assert_uint_eq(dying->events[BROKER_LOCKS], events);
	ck_assert_uint_eq(dying->channels_closed, 0);
}
END_TEST

static void
reset(unsigned number)
{
	(void)number;
	rig_reaction = NULL;
	broker_reset(dying->broker, BROKER_LOCKS, "for the test");
}

/* The requests behind it are answered once, and the channel's event may be left out. */
START_TEST(reset_by_an_answer)
{
	uint64_t channel;
	unsigned check, claim;

	dying = rig_open_up();
	channel = rig_take(dying, BROKER_LOCKS);
	rig_reaction = reset;
	check = rig_ask(dying, broker_check, channel, "reset-none");
	claim = rig_ask(dying, rig_claim, channel, "reset-1-B");
	rig_wait(dying->state[BROKER_LOCKS] == BROKER_DOWN);
	ck_assert_int_eq(rig_answers[check].reply.answer, BROKER_ABSENT);
	ck_assert_int_eq(rig_answers[claim].reply.answer, BROKER_SKIPPED);
	rig_wait(dying->state[BROKER_LOCKS] == BROKER_UP);
	rig_want(dying, rig_claim, rig_take(dying, BROKER_LOCKS), "reset-1-B", BROKER_OK);
}
END_TEST

Suite *
ends_suite(void)
{
	Suite *suite = suite_create("ends");
	TCase *tcase = server_tcase(suite, "ends");

	tcase_add_test(tcase, a_missing_permission);
	tcase_add_test(tcase, a_directory_without_permission);
	tcase_add_test(tcase, an_alarm_holds_probes_back);
	tcase_add_test(tcase, closed_by_an_administrator);
	tcase_add_test(tcase, the_node_restarts);
	tcase_add_test(tcase, requests_of_a_dying_link_end_unknown_in_order);
	tcase_add_test(tcase, the_auxiliary_connection_ends);
	tcase_add_test(tcase, stopped);
	tcase_add_loop_test(tcase, stopped_by_an_answer, 0, 2);
	tcase_add_test(tcase, reset_by_an_answer);
	return suite;
}
