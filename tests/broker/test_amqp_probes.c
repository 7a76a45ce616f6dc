/*
 * Probes, administration, and the coming and going of the auxiliary connection, over RabbitMQ.
 */
#include <stdio.h>
#include <string.h>

#include "tests/broker/amqp_rig.h"

START_TEST(test_present_and_absent)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	static const char *const queues[] = {"probe-1-B", "probe-none", "probe-2-B", "probe-none"};
	const enum broker_answer *answers;

	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "probe-1-B", BROKER_OK);
	rig_want(two, rig_claim, rig_take(two, BROKER_LOCKS), "probe-2-B", BROKER_OK);
	/* Somebody else's exclusive queue can be probed, too. */
	answers = rig_probe(one, queues, 4);
	ck_assert_int_eq(answers[0], BROKER_OK);
	ck_assert_int_eq(answers[1], BROKER_ABSENT);
	ck_assert_int_eq(answers[2], BROKER_OK);
	ck_assert_int_eq(answers[3], BROKER_ABSENT);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
	ck_assert_int_eq(two->events[BROKER_AUXILIARY], 0);
}
END_TEST

/* A thousand in one flush; nothing of it on the lock connection, no channel closed. */
START_TEST(test_a_thousand)
{
	enum { MANY = 1000 };
	struct rig_broker *one = rig_open_up();
	static char names[MANY][32];
	static const char *queues[MANY];
	const enum broker_answer *answers;
	struct amqp_counts before, after;
	unsigned asked[MANY];

	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "thousand-%d-B", i);
		queues[i] = names[i];
		if (i % 3 == 0)
			asked[i] = rig_ask(one, rig_claim, rig_take(one, BROKER_LOCKS), names[i]);
	}
	for (int i = 0; i < MANY; i += 3)
		ck_assert_int_eq(rig_answer(asked[i])->reply.answer, BROKER_OK);
	(void)rig_probe(one, queues, 1);
	before = rig_counts(one, BROKER_AUXILIARY);
	answers = rig_probe(one, queues, MANY);
	after = rig_counts(one, BROKER_AUXILIARY);
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(answers[i], i % 3 == 0 ? BROKER_OK : BROKER_ABSENT);
	ck_assert_uint_eq(after.flushes - before.flushes, 1);
	ck_assert_uint_eq(after.sent_publishes - before.sent_publishes, MANY);
	ck_assert_uint_eq(after.channels_closed_by_broker, 0);
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).sent_publishes, 0);
}
END_TEST

/* More than the link's output has room for: it was closed as one that is not read. */
START_TEST(test_more_than_fits_at_once)
{
	enum { PROBES = 60 };
	struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *one;
	static char names[BROKER_PROBE_MAX][250];
	static const char *queues[BROKER_PROBE_MAX];

	settings.probe_timeout = 30 * NSEC_PER_SEC;
	one = rig_open(&settings);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	for (int i = 0; i < BROKER_PROBE_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "much-%0240d", i);
		queues[i] = names[i];
	}
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), names[7], BROKER_OK);
	(void)rig_probe(one, queues, 1);
	for (int i = 0; i < PROBES; i++)
		rig_ask_probe(one, queues, BROKER_PROBE_MAX);
	rig_wait_for(30, rig_probes_answered() == PROBES + 1);
	for (int i = 0; i < BROKER_PROBE_MAX; i++)
		ck_assert_int_eq(rig_probe_answers()[i], i == 7 ? BROKER_OK : BROKER_ABSENT);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
	ck_assert_uint_eq(one->events[BROKER_AUXILIARY], 1);
}
END_TEST

/* Requests on the auxiliary connection before it is up are sent when it is up. */
START_TEST(test_auxiliary_connection_on_demand)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_AUXILIARY);

	ck_assert_uint_ne(channel, 0);
	rig_want(one, rig_claim, channel, "mutex", BROKER_OK);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
	rig_want(one, broker_declare_slot, channel, "slots-1-A", BROKER_OK);
	rig_want(one, broker_declare_slot, channel, "slots-1-A", BROKER_OK);
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "slots-1-A", BROKER_OK);
	/* Another link's exclusive queue, though of the same daemon. */
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "mutex", BROKER_LOCKED);
	rig_want(one, broker_delete_slot, channel, "slots-1-A", BROKER_OK);
	rig_want(one, broker_delete_slot, channel, "slots-1-A", BROKER_OK);
	rig_want(one, broker_check, channel, "slots-1-A", BROKER_ABSENT);
}
END_TEST

/* While the lock connection is not up, the auxiliary connection waits for it. */
START_TEST(test_auxiliary_connection_before_the_lock_connection)
{
	const struct amqp_host host = rig_host();
	const struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *one = rig_open(&settings);

	ck_assert_uint_eq(rig_take(one, BROKER_LOCKS), 0);
	rig_want(one, broker_check, rig_take(one, BROKER_AUXILIARY), "none", BROKER_ABSENT);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
}
END_TEST

/* An A declared otherwise by somebody else is used as it is. */
START_TEST(test_slot_declared_otherwise)
{
	struct rig_broker *one = rig_open_up();
	const struct rig_answer *answer;
	uint64_t channel;

	rig_rabbit(
	    "ctl eval 'rabbit_amqqueue:declare(rabbit_misc:r(<<\"/\">>, queue, <<\"odd-1-A\">>),"
	    " true, false, [], none, <<\"test\">>).'");
	answer = rig_answer(
	    rig_ask(one, broker_declare_slot, rig_take(one, BROKER_AUXILIARY), "odd-1-A"));
	ck_assert_int_eq(answer->reply.answer, BROKER_OK);
	ck_assert(!answer->reply.channel_open);
	ck_assert_int_eq(answer->reply.code, 406);
	channel = rig_take(one, BROKER_AUXILIARY);
	rig_want(one, broker_delete_slot, channel, "odd-1-A", BROKER_OK);
	rig_want(one, broker_check, channel, "odd-1-A", BROKER_ABSENT);
}
END_TEST

/* The broker layer closes it when it is idle, and opens it on demand. A taken channel keeps it. */
START_TEST(test_auxiliary_connection_rests)
{
	const struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	static const char *const queue = "rest-none";
	struct rig_broker *one;
	uint64_t channel;

	settings.auxiliary_idle = 100 * NSEC_PER_MSEC;
	one = rig_open(&settings);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_ABSENT);
	rig_wait(one->events[BROKER_AUXILIARY] == 2);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_DOWN);
	ck_assert_int_eq(rig_info(one).auxiliary, BROKER_DOWN);
	channel = rig_take(one, BROKER_AUXILIARY);
	rig_want(one, rig_claim, channel, "rest", BROKER_OK);
	rig_pass_for(400 * NSEC_PER_MSEC);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
	rig_want(one, broker_check, channel, "rest", BROKER_OK);
	rig_want(one, rig_drop, channel, "rest", BROKER_OK);
	rig_put(one, channel);
	rig_wait(one->events[BROKER_AUXILIARY] == 4);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_DOWN);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
	/* Politely: the broker's log has no word of a connection that was just cut. */
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_ABSENT);
}
END_TEST

/* A memory alarm: probes are unknown, at once when it is known, and the lock connection goes on. */
START_TEST(test_alarm)
{
	struct rig_broker *one = rig_open_up();
	static const char *const queue = "alarm-none";
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	int64_t before;

	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_ABSENT);
	rig_rabbit("ctl set_vm_memory_high_watermark 0");
	(void)rig_probe(one, &queue, 1);
	rig_wait(rig_info(one).auxiliary_blocked);
	before = rig_now();
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_UNKNOWN);
	ck_assert_int_lt(rig_now() - before, NSEC_PER_SEC);
	rig_want(one, rig_claim, channel, "alarm-1-B", BROKER_OK);
	rig_want(one, rig_drop, channel, "alarm-1-B", BROKER_OK);
	rig_rabbit("ctl set_vm_memory_high_watermark 0.4");
	rig_wait(!rig_info(one).auxiliary_blocked);
	ck_assert_int_eq(rig_probe(one, &queue, 1)[0], BROKER_ABSENT);
}
END_TEST

/* A queue that takes no messages (reject-publish by a policy) is not absent: it is not known. */
START_TEST(test_nack_is_unknown)
{
	struct rig_broker *one = rig_open_up();
	static const char *const queues[] = {"nack-1-A", "nack-none"};
	const enum broker_answer *answers;
	uint64_t channel = rig_take(one, BROKER_AUXILIARY);

	rig_want(one, broker_declare_slot, channel, queues[0], BROKER_OK);
	rig_rabbit("ctl set_policy nack '^nack-' '{\"overflow\":\"reject-publish\"}'");
	rig_wait((answers = rig_probe(one, queues, 2))[0] == BROKER_UNKNOWN);
	ck_assert_int_eq(answers[1], BROKER_ABSENT);
	rig_rabbit("ctl clear_policy nack");
	rig_want(one, broker_delete_slot, channel, queues[0], BROKER_OK);
}
END_TEST

Suite *
probes_suite(void)
{
	Suite *suite = suite_create("probes");
	TCase *tcase = tcase_create("probes");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_present_and_absent);
	tcase_add_test(tcase, test_a_thousand);
	tcase_add_test(tcase, test_more_than_fits_at_once);
	tcase_add_test(tcase, test_auxiliary_connection_on_demand);
	tcase_add_test(tcase, test_auxiliary_connection_before_the_lock_connection);
	tcase_add_test(tcase, test_slot_declared_otherwise);
	tcase_add_test(tcase, test_auxiliary_connection_rests);
	tcase_add_test(tcase, test_alarm);
	tcase_add_test(tcase, test_nack_is_unknown);
	suite_add_tcase(suite, tcase);
	return suite;
}
