/*
 * Costs and volume over RabbitMQ: flushes, methods and channels of the broker layer, and many
 * messages. Only a RabbitMQ has queues of other types.
 */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

/* A durable holder queue. */
static void
declare(struct rig_broker *rig, const char *queue)
{
	uint64_t channel = rig_take(rig, BROKER_AUXILIARY);

	rig_want(rig, broker_declare_holder, channel, queue, BROKER_OK);
	rig_put(rig, channel);
}

static const struct rig_answer *
want_answer(unsigned number, enum broker_answer wanted)
{
	const struct rig_answer *answer = rig_answer(number);

	ck_assert_msg(answer->reply.answer == wanted, "answer %d, not %d: %d: %s",
	    answer->reply.answer, wanted, answer->reply.code, answer->text);
	return answer;
}

/* The cost of an acquire according to the design: one flight of claims and checks alone. */
START_TEST(test_one_flush)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	struct amqp_counts before, after;
	unsigned claim, check;

	rig_want(one, rig_claim, channel, "flush-1-A", BROKER_OK);
	rig_put(one, channel);
	channel = rig_take(one, BROKER_LOCKS);
	before = rig_counts(one, BROKER_LOCKS);
	claim = rig_ask(one, rig_claim, channel, "flush-1-B");
	check = rig_ask(one, broker_check, channel, "flush-1-A");
	ck_assert_int_eq(rig_answer(claim)->reply.answer, BROKER_OK);
	ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_OK);
	after = rig_counts(one, BROKER_LOCKS);
	ck_assert_uint_eq(after.flushes - before.flushes, 1);
	ck_assert_uint_eq(after.sent_methods - before.sent_methods, 2);
	ck_assert_uint_eq(after.received_methods - before.received_methods, 2);
	ck_assert_uint_eq(after.channels_opened - before.channels_opened, 0);
	ck_assert_uint_eq(after.sent_publishes, 0);
	ck_assert_uint_eq(after.sent_consumes, 0);
	ck_assert_int_eq(rig_info(one).auxiliary, BROKER_DOWN);
}
END_TEST

/* Opened with the first request, not with a round trip of its own; never used, never opened. */
START_TEST(test_open_goes_with_the_first_request)
{
	struct rig_broker *one = rig_open_up();
	struct amqp_counts before = rig_counts(one, BROKER_LOCKS), after;

	rig_put(one, rig_take(one, BROKER_LOCKS));
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).sent_methods, before.sent_methods);
	ck_assert_uint_eq(rig_info(one).channels, 0);
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "open-1-B", BROKER_OK);
	after = rig_counts(one, BROKER_LOCKS);
	ck_assert_uint_eq(after.flushes - before.flushes, 1);
	ck_assert_uint_eq(after.sent_methods - before.sent_methods, 2);
}
END_TEST

/* One flight, whose answers come in the order of the requests. A loaded machine mixes them more. */
START_TEST(test_one_flight)
{
	enum { ROUNDS = 200 };
	struct rig_broker *one = rig_open_up();
	struct amqp_counts before, after;
	uint64_t channel;

	declare(one, "flown-1-B");
	declare(one, "flown-1-A");
	channel = rig_take(one, BROKER_LOCKS);
	rig_want(one, rig_consume, channel, "flown-1-B", BROKER_OK);
	rig_want(one, rig_cancel, channel, "flown-1-B", BROKER_OK);
	before = rig_counts(one, BROKER_LOCKS);
	for (int i = 0; i < ROUNDS; i++) {
		unsigned consume = rig_ask(one, rig_consume, channel, "flown-1-B"),
			 check = rig_ask(one, broker_check, channel, "flown-1-A");

		ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_OK);
		ck_assert_int_eq(rig_answers[consume].reply.answer, BROKER_OK);
		ck_assert_uint_lt(rig_answers[consume].order, rig_answers[check].order);
		rig_want(one, rig_cancel, channel, "flown-1-B", BROKER_OK);
	}
	after = rig_counts(one, BROKER_LOCKS);
	ck_assert_uint_eq(after.flushes - before.flushes, 2 * ROUNDS);
	ck_assert_uint_eq(after.sent_methods - before.sent_methods, 3 * ROUNDS);
	ck_assert_uint_eq(after.channels_opened - before.channels_opened, 0);
	ck_assert_uint_eq(after.sent_publishes, 0);
}
END_TEST

/* The B of a foreign program takes messages. They are discarded, and the hold lives. */
START_TEST(test_flood)
{
	enum { MESSAGES = 200, SIZE = 1 << 20 };
	static char body[SIZE];
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	struct client_message message = {.queue = "flood-1-B", .body = body};
	uint64_t channel = rig_take(one, BROKER_LOCKS);

	client_want(client_declare(client, "flood-1-B", CLIENT_SLOT), "ok 0 0");
	rig_want(one, rig_consume, channel, "flood-1-B", BROKER_OK);
	for (int i = 0; i < MESSAGES; i++) {
		message.len = i % 2 == 0 ? SIZE : 0;
		client_want(client_send(client, &message), "ok");
	}
	rig_wait_for(60, rig_counts(one, BROKER_LOCKS).deliveries == MESSAGES);
	rig_want(one, rig_check_consumer, channel, "flood-1-B", BROKER_OK);
	rig_want(one, rig_cancel, channel, "flood-1-B", BROKER_OK);
	rig_put(one, channel);
	ck_assert_uint_ne(rig_take(one, BROKER_LOCKS), 0);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
	ck_assert_uint_eq(one->channels_closed + one->cancelled, 0);
	client_want(client_delete(client, "flood-1-B", 0), "ok");
}
END_TEST

/* Of 1000 durable ones a third is held: one flush, no publish, no channel closed. */
START_TEST(test_a_thousand_consumers)
{
	enum { MANY = 1000 };
	struct rig_broker *one = rig_open_up();
	static char names[MANY][32];
	struct broker_question questions[MANY];
	unsigned declared[MANY], claimed[MANY];
	uint64_t channel = rig_take(one, BROKER_AUXILIARY);
	struct amqp_counts before, after;
	unsigned quick = 0;

	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "crowd-%d-B", i);
		questions[i] = (struct broker_question){names[i], BROKER_ASK_CONSUMER};
		declared[i] = rig_ask(one, broker_declare_holder, channel, names[i]);
	}
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(rig_answer(declared[i])->reply.answer, BROKER_OK);
	for (int i = 0; i < MANY; i += 3)
		claimed[i] = rig_ask(one, rig_consume, rig_take(one, BROKER_LOCKS), names[i]);
	for (int i = 0; i < MANY; i += 3)
		ck_assert_int_eq(rig_answer(claimed[i])->reply.answer, BROKER_OK);
	/* Another channel asks again for each answer that takes a second. */
	for (unsigned tries = 1; quick < 2 && tries < 20; tries++) {
		int64_t end = rig_now() + NSEC_PER_SEC;

		before = rig_counts(one, BROKER_AUXILIARY);
		rig_ask_questions(one, questions, MANY);
		rig_wait(rig_probes_answered() == tries);
		after = rig_counts(one, BROKER_AUXILIARY);
		quick = rig_now() < end ? quick + 1 : 0;
	}
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(rig_probe_answers()[i], i % 3 == 0 ? BROKER_OK : BROKER_ABSENT);
		ck_assert_int_eq(rig_probe_ways()[i], BROKER_BY_CONSUMER);
	}
	ck_assert_uint_eq(after.flushes - before.flushes, 1);
	ck_assert_uint_eq(after.sent_methods - before.sent_methods, MANY);
	ck_assert_uint_eq(after.sent_publishes, 0);
	ck_assert_uint_eq(after.channels_closed_by_broker, 0);
	for (int i = 0; i < MANY; i++)
		declared[i] = rig_ask(one, broker_delete_slot, channel, names[i]);
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(rig_answer(declared[i])->reply.answer, BROKER_OK);
	rig_wait(one->cancelled == (MANY + 2) / 3);
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

/* More gets than are on their way at once; the whole is put back as it was, again and again. */
START_TEST(test_three_thousand_names)
{
	enum { MANY = 3000 };
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct client *client = client_new();
	char name[32];

	client_want(client_declare(client, "dir-many", CLIENT_DIRECTORY), "ok 0 0");
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "name-%d", i);
		client_put(client, "dir-many", name);
	}
	for (int round = 0; round < 4; round++) {
		struct rig_broker *rig = round % 2 == 0 ? one : two;
		const struct rig_answer *all = want_answer(rig_read(rig, "dir-many"), BROKER_OK);
		/* Two of them are gone from the second round on, and one is at the end. */
		int gone = round == 0 ? 0 : 2;

		ck_assert_uint_eq(all->names.count, MANY - gone + round);
		for (int i = 0, at = 0; i < MANY; i++) {
			if (gone != 0 && (i == 0 || i == 1500))
				continue;
			snprintf(name, sizeof(name), "name-%d", i);
			ck_assert_str_eq(all->names.all[at++], name);
		}
		if (round == 0) {
			ck_assert_uint_eq(
			    want_answer(rig_leave(two, "dir-many", "name-1500"), BROKER_OK)
				->names.count,
			    1);
			ck_assert_uint_eq(
			    want_answer(rig_leave(two, "dir-many", "name-0"), BROKER_OK)
				->names.count,
			    1);
		}
		ck_assert_uint_eq(
		    want_answer(rig_enter(rig, "dir-many", "new"), BROKER_OK)->names.count, 1);
	}
}
END_TEST

/* The tenth of a second that it takes was minutes, when it was put back by nacks. */
START_TEST(test_more_than_may_be)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	const struct rig_answer *answer;

	client_want(client_declare(client, "dir-full", CLIENT_DIRECTORY), "ok 0 0");
	for (int i = 0; i < BROKER_DIRECTORY_MAX; i++)
		client_put(client, "dir-full", "a");
	want_answer(rig_enter(one, "dir-full", "b"), BROKER_OK);
	answer = want_answer(rig_read(one, "dir-full"), BROKER_REFUSED);
	ck_assert_str_eq(answer->text, "the queue has more than 20000 messages");
	want_answer(rig_leave(one, "dir-full", "b"), BROKER_REFUSED);
	client_want(client_get(client, "dir-full"), "got a");
	answer = want_answer(rig_read(one, "dir-full"), BROKER_OK);
	ck_assert_uint_eq(answer->names.count, BROKER_DIRECTORY_MAX);
	client_want(client_delete(client, "dir-full", 0), "ok");
}
END_TEST

/* A marker of another type is used as it is, and the words say the difference. */
START_TEST(test_marker_of_another_type)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	const struct rig_answer *answer;

	client_want(client_declare(client, "marker-U", CLIENT_QUORUM), "ok 0 0");
	answer = want_answer(
	    rig_ask(one, broker_declare_marker, rig_take(one, BROKER_AUXILIARY), "marker-U"),
	    BROKER_OK);
	ck_assert(!answer->reply.channel_open);
	ck_assert_int_eq(answer->reply.code, 406);
	/* The declare has a type. */
	ck_assert_ptr_nonnull(strstr(answer->text, "inequivalent arg 'x-queue-type'"));
	ck_assert_ptr_nonnull(strstr(answer->text, "'classic'"));
	client_want(client_delete(client, "marker-U", 0), "ok");
}
END_TEST

Suite *
costs_suite(void)
{
	Suite *suite = suite_create("costs");
	TCase *tcase = server_tcase(suite, "costs");

	tcase_add_test(tcase, test_one_flush);
	tcase_add_test(tcase, test_open_goes_with_the_first_request);
	tcase_add_test(tcase, test_one_flight);
	tcase_add_test(tcase, test_flood);
	tcase_add_test(tcase, test_a_thousand_consumers);
	tcase_add_test(tcase, test_a_thousand);
	tcase_add_test(tcase, test_more_than_fits_at_once);
	tcase_add_test(tcase, test_three_thousand_names);
	tcase_add_test(tcase, test_more_than_may_be);
	tcase_add_test(tcase, test_marker_of_another_type);
	return suite;
}
