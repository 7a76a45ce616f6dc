/*
 * Probes, administration, and the coming and going of the auxiliary connection.
 */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

START_TEST(a_probe_tells_which_queues_exist)
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

/* Requests on the auxiliary connection before it is up are sent when it is up. */
START_TEST(the_auxiliary_connection_comes_up_when_it_is_needed)
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
START_TEST(the_auxiliary_connection_waits_for_the_lock_connection)
{
	const struct amqp_host host = rig_host();
	const struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *one = rig_open(&settings);

	ck_assert_uint_eq(rig_take(one, BROKER_LOCKS), 0);
	rig_want(one, broker_check, rig_take(one, BROKER_AUXILIARY), "none", BROKER_ABSENT);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
}
END_TEST

/* The broker layer closes it when it is idle, and opens it on demand. A taken channel keeps it. */
START_TEST(the_auxiliary_connection_rests)
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

/* Nothing of it on the lock connection, and no channel is closed. */
START_TEST(a_probe_of_a_thousand)
{
	enum { MANY = 1000 };
	struct rig_broker *one = rig_open_up();
	static char names[MANY][32];
	static const char *queues[MANY];
	const enum broker_answer *answers;
	unsigned asked[MANY];

	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "thousand-%d-B", i);
		queues[i] = names[i];
		if (i % 3 == 0)
			asked[i] = rig_ask(one, rig_claim, rig_take(one, BROKER_LOCKS), names[i]);
	}
	for (int i = 0; i < MANY; i += 3)
		ck_assert_int_eq(rig_answer(asked[i])->reply.answer, BROKER_OK);
	answers = rig_probe(one, queues, MANY);
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(answers[i], i % 3 == 0 ? BROKER_OK : BROKER_ABSENT);
	ck_assert_uint_eq(rig_counts(one, BROKER_AUXILIARY).channels_closed_by_broker, 0);
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).sent_publishes, 0);
}
END_TEST

/* A probe is dropped at once, and a queue that keeps no message still confirms it. */
START_TEST(a_probe_leaves_no_message)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	static const char *const queues[] = {"leave-1-A", "leave-2", "leave-3-W"};
	static const enum client_queue kinds[] = {CLIENT_SLOT, CLIENT_PLAIN, CLIENT_TRANSIENT};

	for (int i = 0; i < 3; i++)
		client_want(client_declare(client, queues[i], kinds[i]), "ok 0 0");
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(rig_probe(one, queues, 3)[i], BROKER_OK);
	for (int i = 0; i < 3; i++) {
		client_want(client_declare(client, queues[i], CLIENT_PASSIVE), "ok 0 0");
		client_want(client_delete(client, queues[i], 0), "ok");
		ck_assert_int_eq(rig_probe(one, queues, 3)[i], BROKER_ABSENT);
	}
}
END_TEST

/* ---- administration ---- */

/* Queues of administration that others declared are used as they are. The channel is the price. */
START_TEST(slots_and_markers_of_others)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	static const struct {
		rig_operation *declare;
		const char *queue;
		enum client_queue there;
		const char *argument;
	} tries[] = {
	    {broker_declare_slot, "odd-1-A", CLIENT_PLAIN, "'x-max-length'"},
	    {broker_declare_slot, "odd-2-A", CLIENT_TRANSIENT, "'durable'"},
	    {broker_declare_marker, "odd-G", CLIENT_PLAIN, "'x-max-length'"},
	    {broker_declare_holder, "odd-1-B", CLIENT_SLOT, "'x-overflow'"},
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		uint64_t channel = rig_take(one, BROKER_AUXILIARY);
		const struct rig_answer *answer;
		unsigned behind;

		rig_want(one, tries[i].declare, channel, tries[i].queue, BROKER_OK);
		rig_want(one, tries[i].declare, channel, tries[i].queue, BROKER_OK);
		rig_want(one, broker_check, channel, tries[i].queue, BROKER_OK);
		rig_want(one, broker_delete_slot, channel, tries[i].queue, BROKER_OK);
		rig_want(one, broker_delete_slot, channel, tries[i].queue, BROKER_OK);
		client_want(client_declare(client, tries[i].queue, tries[i].there), "ok 0 0");
		answer = rig_answer(rig_ask(one, tries[i].declare, channel, tries[i].queue));
		behind = rig_ask(one, broker_declare_slot, channel, "odd-none");
		ck_assert_int_eq(answer->reply.answer, BROKER_OK);
		ck_assert(!answer->reply.channel_open);
		ck_assert_int_eq(answer->reply.code, 406);
		ck_assert_msg(strstr(answer->text, "inequivalent arg") != NULL &&
				  strstr(answer->text, tries[i].argument) != NULL,
		    "%s", answer->text);
		ck_assert_int_eq(rig_answer(behind)->reply.answer, BROKER_SKIPPED);
		client_want(client_delete(client, tries[i].queue, 0), "ok");
	}
}
END_TEST

Suite *
probes_suite(void)
{
	Suite *suite = suite_create("probes");
	TCase *tcase = server_tcase(suite, "probes");

	tcase_add_test(tcase, a_probe_tells_which_queues_exist);
	tcase_add_test(tcase, the_auxiliary_connection_comes_up_when_it_is_needed);
	tcase_add_test(tcase, the_auxiliary_connection_waits_for_the_lock_connection);
	tcase_add_test(tcase, the_auxiliary_connection_rests);
	tcase_add_test(tcase, a_probe_of_a_thousand);
	tcase_add_test(tcase, a_probe_leaves_no_message);
	tcase_add_test(tcase, slots_and_markers_of_others);
	return suite;
}
