/*
 * Slots held by consumers, over RabbitMQ: claims, the loss of a holder queue, messages for it, its
 * probes and its deletion.
 */
#include <stdio.h>
#include <string.h>

#include "tests/broker/amqp_rig.h"
#include "tests/broker/foreign.h"

/* A durable holder queue. */
static void
declare(struct rig_broker *rig, const char *queue)
{
	uint64_t channel = rig_take(rig, BROKER_AUXILIARY);

	rig_want(rig, broker_declare_holder, channel, queue, BROKER_OK);
	rig_put(rig, channel);
}

static unsigned
delete_holder(struct rig_broker *rig, const char *queue)
{
	return rig_ask(rig, broker_delete_holder, rig_take(rig, BROKER_AUXILIARY), queue);
}

static void
want_deleted(struct rig_broker *rig, const char *queue, enum broker_answer wanted)
{
	const struct rig_answer *answer = rig_answer(delete_holder(rig, queue));

	ck_assert_msg(answer->reply.answer == wanted, "%s: %d, %s", queue,
	    (int)answer->reply.answer, answer->text);
}

/* Claims it on a new channel, which is returned. */
static uint64_t
claim(struct rig_broker *rig, const char *queue)
{
	uint64_t channel = rig_take(rig, BROKER_LOCKS);

	rig_want(rig, rig_consume, channel, queue, BROKER_OK);
	return channel;
}

/* The claim is refused in these words. */
static void
refused(struct rig_broker *rig, rig_operation *operation, const char *queue,
    enum broker_answer wanted, int code, const char *words)
{
	const struct rig_answer *answer =
	    rig_answer(rig_ask(rig, operation, rig_take(rig, BROKER_LOCKS), queue));

	printf("# %d: %s\n", answer->reply.code, answer->text);
	ck_assert_int_eq(answer->reply.answer, wanted);
	ck_assert_int_eq(answer->reply.code, code);
	ck_assert(!answer->reply.channel_open);
	ck_assert_msg(strstr(answer->text, words) != NULL, "%s", answer->text);
}

START_TEST(test_claim_check_drop)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	const struct rig_answer *answer;
	uint64_t mine;

	declare(one, "hold-1-B");
	declare(two, "hold-1-B"); /* it exists: fine */
	mine = claim(one, "hold-1-B");
	rig_want(one, rig_check_consumer, mine, "hold-1-B", BROKER_OK);
	rig_want(one, broker_check, mine, "hold-1-B", BROKER_OK);
	refused(two, rig_consume, "hold-1-B", BROKER_LOCKED, 403,
	    "ACCESS_REFUSED - queue 'hold-1-B' in vhost '/' in exclusive use");
	/* The broker tells the channels of a connection apart. */
	refused(one, rig_consume, "hold-1-B", BROKER_LOCKED, 403, "in exclusive use");
	rig_want(one, rig_check_consumer, mine, "hold-1-B", BROKER_OK);
	rig_want(one, rig_cancel, mine, "hold-1-B", BROKER_OK);
	answer = rig_answer(rig_ask(one, rig_check_consumer, mine, "hold-1-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_ABSENT);
	ck_assert(answer->reply.channel_open);
	/* The channel is used again for another claim. */
	rig_want(one, rig_consume, mine, "hold-1-B", BROKER_OK);
	rig_want(one, rig_cancel, mine, "hold-1-B", BROKER_OK);
	rig_put(one, mine);
	(void)claim(two, "hold-1-B");
	ck_assert_uint_eq(one->cancelled + two->cancelled, 0);
	ck_assert_uint_eq(one->channels_closed, 1);
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
	channel = claim(one, "flown-1-B");
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

/* A does not exist: the channel closes, and B is free at once, whatever the claim was answered. */
START_TEST(test_claim_without_a)
{
	struct rig_broker *one = rig_open_up();
	unsigned skipped = 0;

	declare(one, "no-a-1-B");
	for (int i = 0; i < 50; i++) {
		uint64_t channel = rig_take(one, BROKER_LOCKS);
		unsigned consume = rig_ask(one, rig_consume, channel, "no-a-1-B"),
			 check = rig_ask(one, broker_check, channel, "no-a-1-A");

		ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_ABSENT);
		ck_assert_int_eq(rig_answers[check].reply.code, 404);
		ck_assert_uint_lt(rig_answers[consume].order, rig_answers[check].order);
		skipped += rig_answers[consume].reply.answer == BROKER_SKIPPED;
		ck_assert(rig_answers[consume].reply.answer == BROKER_SKIPPED ||
			  rig_answers[consume].reply.answer == BROKER_OK);
	}
	printf("# of 50 claims in front of a 404, %u were answered SKIPPED\n", skipped);
	(void)claim(one, "no-a-1-B");
	ck_assert_uint_eq(one->cancelled, 0);
}
END_TEST

/* Unlike an exclusive queue, B is free when its channel ends. */
START_TEST(test_end_of_the_channel_frees)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t channel;

	declare(one, "end-1-B");
	channel = claim(one, "end-1-B");
	rig_want(one, broker_check, channel, "end-none", BROKER_ABSENT);
	channel = claim(two, "end-1-B");
	refused(one, rig_consume, "end-1-B", BROKER_LOCKED, 403, "in exclusive use");
	/* So it is when the connection ends. */
	broker_stop(two->broker);
	for (int64_t end = rig_now() + NSEC_PER_SEC;;) {
		channel = rig_take(one, BROKER_LOCKS);
		if (rig_answer(rig_ask(one, rig_consume, channel, "end-1-B"))->reply.answer ==
		    BROKER_OK)
			break;
		ck_assert_int_lt(rig_now(), end);
	}
}
END_TEST

/* Clients that declare B exclusively, and the consumers, refuse each other. */
START_TEST(test_both_ways)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t channel = rig_take(two, BROKER_LOCKS);

	declare(one, "both-1-B");
	refused(two, rig_claim, "both-1-B", BROKER_LOCKED, 405, "RESOURCE_LOCKED - ");
	(void)claim(one, "both-1-B");
	refused(two, rig_claim, "both-1-B", BROKER_LOCKED, 405, "RESOURCE_LOCKED - ");
	rig_want(two, rig_claim, channel, "both-2-B", BROKER_OK);
	refused(one, rig_consume, "both-2-B", BROKER_LOCKED, 405, "RESOURCE_LOCKED - ");
	refused(one, rig_check_consumer, "both-2-B", BROKER_LOCKED, 405, "RESOURCE_LOCKED - ");
	refused(one, rig_consume_mutex, "both-2-B", BROKER_LOCKED, 405, "RESOURCE_LOCKED - ");
	rig_want(
	    one, broker_declare_holder, rig_take(one, BROKER_AUXILIARY), "both-2-B", BROKER_LOCKED);
	refused(one, rig_consume, "both-none", BROKER_ABSENT, 404,
	    "NOT_FOUND - no queue 'both-none' in vhost '/'");
	refused(one, rig_check_consumer, "both-none", BROKER_ABSENT, 404,
	    "NOT_FOUND - no queue 'both-none' in vhost '/'");
}
END_TEST

/* An exclusive B is deleted by hand and made durable. Its holder finds that when another has it. */
START_TEST(test_made_durable)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t mine = rig_take(one, BROKER_LOCKS), theirs;

	rig_want(one, rig_claim, mine, "made-1-B", BROKER_OK);
	rig_want(one, rig_check_queue, mine, "made-1-B", BROKER_OK);
	rig_want(one, rig_drop, mine, "made-1-B", BROKER_OK);
	declare(two, "made-1-B");
	rig_want(one, rig_check_queue, mine, "made-1-B", BROKER_OK);
	theirs = claim(two, "made-1-B");
	rig_want(one, rig_check_queue, mine, "made-1-B", BROKER_LOCKED);
	rig_wait(one->channels_closed == 1);
	refused(one, rig_drop, "made-1-B", BROKER_LOCKED, 406,
	    "PRECONDITION_FAILED - queue 'made-1-B' in vhost '/' in use");
	rig_want(two, rig_check_consumer, theirs, "made-1-B", BROKER_OK);
	ck_assert_uint_eq(two->cancelled, 0);
	/* The channel that was closed here is free again at the broker. */
	for (int i = 0; i < 3; i++)
		rig_want(
		    one, rig_check_queue, rig_take(one, BROKER_LOCKS), "made-1-B", BROKER_LOCKED);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
}
END_TEST

/* A missing permission is no lock. */
START_TEST(test_no_permission)
{
	struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *one = rig_open_up(), *two;

	rig_rabbit("ctl add_user poorer secret");
	rig_rabbit("ctl set_permissions poorer '^$' '^amq.default$' '^$'");
	host.user = "poorer";
	host.password = "secret";
	two = rig_open(&settings);
	rig_wait(two->state[BROKER_LOCKS] == BROKER_UP);
	declare(one, "poorer-1-B");
	refused(two, rig_consume, "poorer-1-B", BROKER_REFUSED, 403,
	    "access to queue 'poorer-1-B' in vhost '/' refused for user 'poorer'");
	/* Of the two refusals RabbitMQ says that of the permission. */
	(void)claim(one, "poorer-1-B");
	refused(two, rig_consume, "poorer-1-B", BROKER_REFUSED, 403, "refused for user 'poorer'");
	refused(
	    two, rig_consume_mutex, "poorer-2-B", BROKER_REFUSED, 403, "refused for user 'poorer'");
	/* RabbitMQ 4.3.6 does not let a user without any permission for a queue declare it passively. */
	rig_rabbit("ctl set_permissions poorer '^$' '^amq.default$' '.-B$'");
	want_deleted(two, "poorer-1-B", BROKER_REFUSED);
	declare(one, "poorer-2-B");
	want_deleted(two, "poorer-2-B", BROKER_REFUSED);
	rig_rabbit("ctl delete_user poorer");
}
END_TEST

/* ---- the server's cancel ---- */

START_TEST(test_deleted_by_hand)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel;
	int64_t deleted;

	declare(one, "hand-1-B");
	channel = claim(one, "hand-1-B");
	foreign_open();
	foreign_delete("hand-1-B");
	deleted = rig_now();
	rig_wait(one->cancelled == 1);
	printf("# told %.1f ms after delete-ok\n", (double)(one->cancelled_at - deleted) / 1e6);
	ck_assert_uint_eq(one->cancelled_channel, channel);
	/* A consumer that is gone can be cancelled. */
	rig_want(one, rig_cancel, channel, "hand-1-B", BROKER_OK);
	declare(one, "hand-1-B");
	rig_want(one, rig_consume, channel, "hand-1-B", BROKER_OK);
	rig_want(one, rig_check_consumer, channel, "hand-1-B", BROKER_OK);
	foreign_delete("hand-1-B");
	rig_wait(one->cancelled == 2);
	rig_want(one, rig_check_consumer, channel, "hand-1-B", BROKER_ABSENT);
	ck_assert_uint_eq(one->channels_closed, 1);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
	foreign_close();
}
END_TEST

/* The server's cancel and ours cross: one event at most, and not after the answer. */
START_TEST(test_cancels_cross)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	unsigned before;

	foreign_open();
	for (int i = 0; i < 50; i++) {
		declare(one, "cross-1-B");
		rig_want(one, rig_consume, channel, "cross-1-B", BROKER_OK);
		before = one->cancelled;
		foreign_delete("cross-1-B");
		rig_want(one, rig_cancel, channel, "cross-1-B", BROKER_OK);
		ck_assert_uint_le(one->cancelled - before, 1);
		before = one->cancelled;
		/* All that the broker sent before this is read. */
		rig_want(one, rig_claim, channel, "cross-2-B", BROKER_OK);
		ck_assert_uint_eq(one->cancelled, before);
	}
	printf("# of 50 cancels, %u crossed the server's\n", one->cancelled);
	ck_assert_uint_eq(one->channels_closed, 0);
	foreign_close();
}
END_TEST

/* ---- messages for a holder queue ---- */

/* The B of a foreign program takes messages. They are discarded, and the hold lives. */
START_TEST(test_flood)
{
	enum { MESSAGES = 200, SIZE = 1 << 20 };
	static char body[SIZE];
	struct rig_broker *one = rig_open_up();
	uint64_t channel;

	foreign_open();
	foreign_declare("flood-1-B", true, "classic", true);
	channel = claim(one, "flood-1-B");
	for (int i = 0; i < MESSAGES; i++) {
		foreign_publish("flood-1-B", body, i % 2 == 0 ? SIZE : 0);
		rig_pass();
	}
	rig_wait_for(60, rig_counts(one, BROKER_LOCKS).deliveries == MESSAGES);
	rig_want(one, rig_check_consumer, channel, "flood-1-B", BROKER_OK);
	/* Into the middle of the messages. */
	for (int i = 0; i < 10; i++)
		foreign_publish("flood-1-B", body, SIZE);
	rig_want(one, rig_cancel, channel, "flood-1-B", BROKER_OK);
	rig_put(one, channel);
	ck_assert_uint_eq(rig_take(one, BROKER_LOCKS) != 0, true);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
	ck_assert_uint_eq(one->channels_closed + one->cancelled, 0);
	foreign_delete("flood-1-B");
	foreign_close();
}
END_TEST

/* A B of our own takes none: a nack, which is neither a return nor a delivery. */
START_TEST(test_reject_publish)
{
	struct rig_broker *one = rig_open_up();
	static const char *const queues[] = {"reject-1-B", "reject-none"};
	static char body[1 << 20];
	uint64_t channel;

	declare(one, queues[0]);
	ck_assert_int_eq(rig_probe(one, queues, 2)[0], BROKER_UNKNOWN);
	channel = claim(one, queues[0]);
	ck_assert_int_eq(rig_probe(one, queues, 2)[0], BROKER_UNKNOWN);
	ck_assert_int_eq(rig_probe_answers()[1], BROKER_ABSENT);
	foreign_open();
	for (int i = 0; i < 20; i++)
		foreign_publish(queues[0], body, sizeof(body));
	ck_assert_uint_eq(foreign_count(queues[0]), 0);
	rig_want(one, rig_check_consumer, channel, queues[0], BROKER_OK);
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).deliveries, 0);
	foreign_close();
}
END_TEST

/* ---- probes ---- */

static const struct {
	const char *queue;
	enum broker_answer answer;
	enum broker_way way;
} probed[] = {
    {"kind-held-B", BROKER_OK, BROKER_BY_CONSUMER},
    {"kind-none-B", BROKER_ABSENT, BROKER_BY_QUEUE},
    {"kind-free-B", BROKER_ABSENT, BROKER_BY_CONSUMER},
    {"kind-mine-B", BROKER_OK, BROKER_BY_QUEUE},
    {"kind-none-B", BROKER_ABSENT, BROKER_BY_QUEUE},
    {"kind-theirs-B", BROKER_OK, BROKER_BY_QUEUE},
    {"kind-held-B", BROKER_OK, BROKER_BY_CONSUMER},
};
enum { PROBED = sizeof(probed) / sizeof(*probed) };

/* Every queue by every question about holders, in one probe and each alone. */
START_TEST(test_questions)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct broker_question questions[2 * PROBED + 1];
	static const char *const other = "kind-none-A";
	unsigned answered;

	declare(one, "kind-held-B");
	declare(one, "kind-free-B");
	(void)claim(two, "kind-held-B");
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "kind-mine-B", BROKER_OK);
	rig_want(two, rig_claim, rig_take(two, BROKER_LOCKS), "kind-theirs-B", BROKER_OK);
	for (int i = 0; i < 2 * PROBED; i++)
		questions[i] = (struct broker_question){probed[i % PROBED].queue,
		    i / 3 % 2 == 0 ? BROKER_ASK_HOLDER : BROKER_ASK_CONSUMER};
	questions[2 * PROBED] = (struct broker_question){other, BROKER_ASK_EXISTENCE};
	rig_ask_questions(one, questions, 2 * PROBED + 1);
	rig_wait(rig_probes_answered() == 1);
	for (int i = 0; i < 2 * PROBED; i++) {
		ck_assert_int_eq(rig_probe_answers()[i], probed[i % PROBED].answer);
		ck_assert_int_eq(rig_probe_ways()[i], probed[i % PROBED].way);
	}
	ck_assert_int_eq(rig_probe_answers()[2 * PROBED], BROKER_ABSENT);
	for (int i = 0; i < 2 * PROBED; i++) {
		questions[0] = (struct broker_question){
		    probed[i % PROBED].queue, i < PROBED ? BROKER_ASK_HOLDER : BROKER_ASK_CONSUMER};
		answered = rig_probes_answered();
		rig_ask_questions(one, questions, 1);
		rig_wait(rig_probes_answered() > answered);
		ck_assert_int_eq(rig_probe_answers()[0], probed[i % PROBED].answer);
		ck_assert_int_eq(rig_probe_ways()[0], probed[i % PROBED].way);
	}
	ck_assert_uint_eq(one->events[BROKER_AUXILIARY], 1);
	ck_assert_uint_eq(rig_counts(two, BROKER_LOCKS).deliveries, 0);
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

/* ---- deletion and mutexes ---- */

START_TEST(test_delete_holder)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	const struct rig_answer *answer;
	uint64_t channel;

	want_deleted(one, "delete-1-B", BROKER_ABSENT);
	declare(one, "delete-1-B");
	channel = claim(two, "delete-1-B");
	want_deleted(one, "delete-1-B", BROKER_LOCKED);
	want_deleted(two, "delete-1-B", BROKER_LOCKED);
	rig_want(two, rig_check_consumer, channel, "delete-1-B", BROKER_OK);
	rig_want(two, rig_cancel, channel, "delete-1-B", BROKER_OK);
	want_deleted(one, "delete-1-B", BROKER_OK);
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "delete-1-B", BROKER_ABSENT);
	rig_want(two, rig_claim, channel, "delete-2-B", BROKER_OK);
	answer = rig_answer(delete_holder(one, "delete-2-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_LOCKED);
	ck_assert_int_eq(answer->reply.code, 405);
	/* A consumer that is no holder's uses the queue, too. */
	declare(one, "delete-3-B");
	foreign_open();
	foreign_consume("delete-3-B", 0);
	want_deleted(one, "delete-3-B", BROKER_LOCKED);
	/* One that has messages is not ours. */
	foreign_declare("delete-4-B", true, "classic", false);
	foreign_publish("delete-4-B", "x", 1);
	foreign_flush("delete-4-B");
	answer = rig_answer(delete_holder(one, "delete-4-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_UNREACHABLE);
	ck_assert_str_eq(
	    answer->text, "PRECONDITION_FAILED - queue 'delete-4-B' in vhost '/' not empty");
	foreign_delete("delete-4-B");
	foreign_close();
	ck_assert_uint_eq(two->cancelled, 0);
}
END_TEST

/* Both ask at once, fifty times: one deletes, and the holder of a moment later loses nothing. */
START_TEST(test_delete_races_with_a_claim)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();

	for (int i = 0; i < 50; i++) {
		uint64_t channel = rig_take(two, BROKER_LOCKS);
		unsigned delete, consume;
		enum broker_answer told;

		declare(one, "race-1-B");
		delete = delete_holder(one, "race-1-B");
		consume = rig_ask(two, rig_consume, channel, "race-1-B");
		told = rig_answer(consume)->reply.answer;
		ck_assert_int_eq(rig_answer(delete)->reply.answer,
		    told == BROKER_OK ? BROKER_LOCKED : BROKER_OK);
		if (told != BROKER_OK)
			continue;
		ck_assert_ptr_nonnull(strstr(rig_answers[delete].text,
		    "PRECONDITION_FAILED - queue 'race-1-B' in vhost '/' in use"));
		rig_want(two, rig_check_consumer, channel, "race-1-B", BROKER_OK);
		rig_want(two, rig_cancel, channel, "race-1-B", BROKER_OK);
		rig_put(two, channel);
	}
	ck_assert_uint_eq(two->cancelled, 0);
}
END_TEST

START_TEST(test_mutex)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	unsigned asked;

	rig_want(one, rig_consume_mutex, channel, "mutex-B", BROKER_OK);
	refused(two, rig_consume_mutex, "mutex-B", BROKER_LOCKED, 403, "in exclusive use");
	refused(one, rig_consume_mutex, "mutex-B", BROKER_LOCKED, 403, "in exclusive use");
	/* The same declare by another client: RabbitMQ compares all arguments. */
	foreign_open();
	foreign_mutex_holder("mutex-B");
	rig_want(one, rig_check_consumer, channel, "mutex-B", BROKER_OK);
	rig_want(one, rig_cancel, channel, "mutex-B", BROKER_OK);
	/* It exists: the claim declares it again, in one flight with a check. */
	asked = rig_ask(two, rig_consume_mutex, rig_take(two, BROKER_LOCKS), "mutex-B");
	ck_assert_int_eq(rig_answer(asked)->reply.answer, BROKER_OK);
	channel = rig_take(one, BROKER_LOCKS);
	asked = rig_ask(one, rig_consume_mutex, channel, "mutex-2-B");
	(void)rig_ask(one, broker_check, channel, "mutex-B");
	ck_assert_int_eq(rig_answer(asked + 1)->reply.answer, BROKER_OK);
	ck_assert_int_eq(rig_answers[asked].reply.answer, BROKER_OK);
	/* Declared otherwise, it is not ours to use. */
	foreign_declare("mutex-3-B", true, NULL, false);
	refused(one, rig_consume_mutex, "mutex-3-B", BROKER_REFUSED, 406,
	    "PRECONDITION_FAILED - inequivalent arg 'x-");
	/* The two kinds of durable holder queues differ in their arguments. */
	ck_assert_int_eq(rig_answer(rig_ask(one, broker_declare_holder,
					rig_take(one, BROKER_AUXILIARY), "mutex-2-B"))
			     ->reply.code,
	    406);
	foreign_close();
}
END_TEST

Suite *
holders_suite(void)
{
	Suite *suite = suite_create("holders");
	TCase *tcase = tcase_create("holders");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, test_claim_check_drop);
	tcase_add_test(tcase, test_one_flight);
	tcase_add_test(tcase, test_claim_without_a);
	tcase_add_test(tcase, test_end_of_the_channel_frees);
	tcase_add_test(tcase, test_both_ways);
	tcase_add_test(tcase, test_made_durable);
	tcase_add_test(tcase, test_no_permission);
	tcase_add_test(tcase, test_deleted_by_hand);
	tcase_add_test(tcase, test_cancels_cross);
	tcase_add_test(tcase, test_flood);
	tcase_add_test(tcase, test_reject_publish);
	tcase_add_test(tcase, test_questions);
	tcase_add_test(tcase, test_a_thousand_consumers);
	tcase_add_test(tcase, test_delete_holder);
	tcase_add_test(tcase, test_delete_races_with_a_claim);
	tcase_add_test(tcase, test_mutex);
	suite_add_tcase(suite, tcase);
	return suite;
}
