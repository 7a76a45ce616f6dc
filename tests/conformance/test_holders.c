/*
 * Slots and mutexes held by consumers: claims, the loss of a holder queue, messages for it, its
 * probes, its deletion and its expiry.
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

	ck_assert_int_eq(answer->reply.answer, wanted);
	ck_assert_int_eq(answer->reply.code, code);
	ck_assert(!answer->reply.channel_open);
	ck_assert_msg(strstr(answer->text, words) != NULL, "%s", answer->text);
}

START_TEST(a_claim_is_checked_and_dropped)
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

/* A does not exist: the channel closes, and B is free at once, whatever the claim was answered. */
START_TEST(a_claim_without_a)
{
	struct rig_broker *one = rig_open_up();

	declare(one, "no-a-1-B");
	for (int i = 0; i < 50; i++) {
		uint64_t channel = rig_take(one, BROKER_LOCKS);
		unsigned consume = rig_ask(one, rig_consume, channel, "no-a-1-B"),
			 check = rig_ask(one, broker_check, channel, "no-a-1-A");

		ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_ABSENT);
		ck_assert_int_eq(rig_answers[check].reply.code, 404);
		ck_assert_uint_lt(rig_answers[consume].order, rig_answers[check].order);
		ck_assert(rig_answers[consume].reply.answer == BROKER_SKIPPED ||
			  rig_answers[consume].reply.answer == BROKER_OK);
	}
	(void)claim(one, "no-a-1-B");
	ck_assert_uint_eq(one->cancelled, 0);
}
END_TEST

/* Clients that declare B exclusively, and the consumers, refuse each other. */
START_TEST(both_ways_refuse_each_other)
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
START_TEST(an_exclusive_b_is_made_durable)
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

/* ---- the end of a consumer ---- */

/* Claims it as soon as it is free. */
static uint64_t
claim_when_free(struct rig_broker *rig, const char *queue)
{
	for (int64_t end = rig_now() + 10 * NSEC_PER_SEC;;) {
		uint64_t channel = rig_take(rig, BROKER_LOCKS);

		if (rig_answer(rig_ask(rig, rig_consume, channel, queue))->reply.answer ==
		    BROKER_OK)
			return channel;
		ck_assert_int_lt(rig_now(), end);
	}
}

/* Unlike an exclusive queue, B is free when its channel ends. */
START_TEST(the_end_of_the_channel_frees)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct client *client = client_new();
	uint64_t channel;

	declare(one, "end-1-B");
	channel = claim(one, "end-1-B");
	rig_want(one, broker_check, channel, "end-none", BROKER_ABSENT);
	(void)claim(two, "end-1-B");
	refused(one, rig_consume, "end-1-B", BROKER_LOCKED, 403, "in exclusive use");
	broker_stop(two->broker);
	channel = claim_when_free(one, "end-1-B");
	rig_want(one, rig_cancel, channel, "end-1-B", BROKER_OK);
	client_want(client_consume(client, "end-1-B", CLIENT_ALONE, 0), "ok");
	refused(one, rig_consume, "end-1-B", BROKER_LOCKED, 403, "in exclusive use");
	if (_i == 0)
		client_close(client);
	else
		client_end(client);
	(void)claim_when_free(one, "end-1-B");
}
END_TEST

START_TEST(b_is_deleted_by_hand)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	uint64_t channel;

	declare(one, "hand-1-B");
	channel = claim(one, "hand-1-B");
	client_want(client_delete(client, "hand-1-B", 0), "ok");
	rig_wait(one->cancelled == 1);
	ck_assert_uint_eq(one->cancelled_channel, channel);
	/* A consumer that is gone can be cancelled. */
	rig_want(one, rig_cancel, channel, "hand-1-B", BROKER_OK);
	declare(one, "hand-1-B");
	rig_want(one, rig_consume, channel, "hand-1-B", BROKER_OK);
	rig_want(one, rig_check_consumer, channel, "hand-1-B", BROKER_OK);
	client_want(client_delete(client, "hand-1-B", 0), "ok");
	rig_wait(one->cancelled == 2);
	rig_want(one, rig_check_consumer, channel, "hand-1-B", BROKER_ABSENT);
	ck_assert_uint_eq(one->channels_closed, 1);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
}
END_TEST

/* The server's cancel and ours cross: one event at most, and not after the answer. */
START_TEST(cancels_cross)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	uint64_t channel = rig_take(one, BROKER_LOCKS);

	for (int i = 0; i < 50; i++) {
		unsigned before, cancel;

		declare(one, "cross-1-B");
		rig_want(one, rig_consume, channel, "cross-1-B", BROKER_OK);
		before = one->cancelled;
		cancel = i % 2 == 0 ? rig_ask(one, rig_cancel, channel, "cross-1-B") : 0;
		client_want(client_delete(client, "cross-1-B", 0), "ok");
		if (i % 2 != 0)
			cancel = rig_ask(one, rig_cancel, channel, "cross-1-B");
		ck_assert_int_eq(rig_answer(cancel)->reply.answer, BROKER_OK);
		ck_assert_uint_le(one->cancelled - before, 1);
		before = one->cancelled;
		/* All that the broker sent before this is read. */
		rig_want(one, rig_claim, channel, "cross-2-B", BROKER_OK);
		ck_assert_uint_eq(one->cancelled, before);
	}
	ck_assert_uint_eq(one->channels_closed, 0);
}
END_TEST

/* ---- consumers of other programs ---- */

#define IN_USE(queue) "403 ACCESS_REFUSED - queue '" queue "' in vhost '/' in exclusive use"

START_TEST(an_exclusive_consumer_is_alone)
{
	struct client *a = client_new(), *twin = client_twin(a), *b = client_new();

	client_want(client_declare(a, "alone-1-B", CLIENT_HOLDER), "ok 0 0");
	client_want(client_consume(a, "alone-1-B", CLIENT_ALONE, 0), "ok");
	client_want(client_consume(twin, "alone-1-B", CLIENT_ALONE, 0), IN_USE("alone-1-B"));
	client_want(client_consume(b, "alone-1-B", CLIENT_ALONE, 0), IN_USE("alone-1-B"));
	client_want(client_consume(b, "alone-1-B", 0, 0), IN_USE("alone-1-B"));
	client_want(client_declare(b, "alone-1-B", CLIENT_PASSIVE), "ok 0 1");
	/* It is free before the cancel is answered, and each cancel is answered. */
	client_want(client_cancel(a), "ok");
	client_want(client_consume(b, "alone-1-B", 0, 0), "ok");
	client_want(client_cancel(a), "ok");
	client_want(client_consume(a, "alone-1-B", CLIENT_ALONE, 0), IN_USE("alone-1-B"));
	client_want(client_consume(a, "alone-1-B", 0, 0), "ok");
	client_want(client_declare(twin, "alone-1-B", CLIENT_PASSIVE), "ok 0 2");
	client_want(client_delete(twin, "alone-1-B", 0), "ok");
	rig_wait(client_cancels(a) == 1 && client_cancels(b) == 1);
	/* The tag of a cancelled consumer is free again. */
	client_want(client_declare(twin, "alone-1-B", CLIENT_HOLDER), "ok 0 0");
	client_want(client_consume(a, "alone-1-B", CLIENT_ALONE, 0), "ok");
	client_want(client_delete(twin, "alone-1-B", 0), "ok");
}
END_TEST

START_TEST(a_tag_is_used_once_on_a_channel)
{
	struct client *a = client_new(), *b = client_new();

	client_want(client_declare(b, "tag-1-B", CLIENT_HOLDER), "ok 0 0");
	client_want(client_consume(a, "tag-1-B", CLIENT_ALONE, 0), "ok");
	client_want(client_consume(a, "tag-1-B", CLIENT_ALONE, 0),
	    "dead NOT_ALLOWED - attempt to reuse consumer tag 'h'");
	client_want(client_consume(b, "tag-1-B", CLIENT_ALONE, 0), "ok");
	client_want(client_delete(b, "tag-1-B", 0), "ok");
}
END_TEST

/* RabbitMQ shortens a reply text to 255 bytes, so the end of a text may be missing. */
START_TEST(a_long_name_shortens_the_words)
{
	struct client *a = client_new(), *b = client_new();
	char name[210] = "";
	const char *words;

	memset(name, 'x', sizeof(name) - 1);
	client_want(client_declare(a, name, CLIENT_HOLDER), "ok 0 0");
	client_want(client_consume(a, name, CLIENT_ALONE, 0), "ok");
	words = client_consume(b, name, CLIENT_ALONE, 0);
	client_want(words, "403 ACCESS_REFUSED - queue 'xxx");
	ck_assert_uint_eq(strlen(words), strlen("403 ") + 255);
	ck_assert_str_eq(words + strlen(words) - 3, "...");
	client_want(client_delete(a, name, 0), "ok");
}
END_TEST

/* ---- messages for a holder queue ---- */

/* A B of our own takes none: a nack, which is neither a return nor a delivery. */
START_TEST(a_holder_queue_rejects_messages)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	static const char *const queues[] = {"reject-1-B", "reject-none"};
	uint64_t channel;

	declare(one, queues[0]);
	client_want(client_publish(client, queues[0], "x"), "nack");
	ck_assert_int_eq(rig_probe(one, queues, 2)[0], BROKER_UNKNOWN);
	channel = claim(one, queues[0]);
	client_want(client_publish(client, queues[0], "x"), "nack");
	ck_assert_int_eq(rig_probe(one, queues, 2)[0], BROKER_UNKNOWN);
	ck_assert_int_eq(rig_probe_answers()[1], BROKER_ABSENT);
	client_want(client_publish(client, queues[1], "x"), "returned");
	client_want(client_declare(client, queues[0], CLIENT_PASSIVE), "ok 0 1");
	rig_want(one, rig_check_consumer, channel, queues[0], BROKER_OK);
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).deliveries, 0);
}
END_TEST

/* The B of a foreign program takes messages. They are discarded, and the hold lives. */
START_TEST(messages_for_a_holder_are_discarded)
{
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	uint64_t channel;

	client_want(client_declare(client, "taken-1-B", CLIENT_PLAIN), "ok 0 0");
	channel = claim(one, "taken-1-B");
	for (int i = 0; i < 20; i++)
		client_want(
		    client_publish(client, "taken-1-B", i % 2 == 0 ? "a message" : ""), "ok");
	rig_wait(rig_counts(one, BROKER_LOCKS).deliveries == 20);
	rig_want(one, rig_check_consumer, channel, "taken-1-B", BROKER_OK);
	rig_want(one, rig_cancel, channel, "taken-1-B", BROKER_OK);
	rig_put(one, channel);
	ck_assert_uint_ne(rig_take(one, BROKER_LOCKS), 0);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
	ck_assert_uint_eq(one->channels_closed + one->cancelled, 0);
	/* They needed no ack, so none comes back when the connection ends. */
	broker_stop(one->broker);
	rig_pass_for(200 * NSEC_PER_MSEC);
	client_want(client_declare(client, "taken-1-B", CLIENT_PASSIVE), "ok 0 0");
	client_want(client_delete(client, "taken-1-B", 0), "ok");
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
START_TEST(questions_about_holders)
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

/* ---- deletion ---- */

START_TEST(b_is_deleted_unless_it_is_held)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct client *client = client_new();
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
	client_want(client_consume(client, "delete-3-B", CLIENT_UNREAD, 0), "ok");
	want_deleted(one, "delete-3-B", BROKER_LOCKED);
	/* One that has messages is not ours. */
	client_want(client_declare(client, "delete-4-B", CLIENT_PLAIN), "ok 0 0");
	client_want(client_publish(client, "delete-4-B", "x"), "ok");
	answer = rig_answer(delete_holder(one, "delete-4-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_UNREACHABLE);
	ck_assert_str_eq(
	    answer->text, "PRECONDITION_FAILED - queue 'delete-4-B' in vhost '/' not empty");
	client_want(client_delete(client, "delete-4-B", 0), "ok");
	ck_assert_uint_eq(two->cancelled, 0);
}
END_TEST

/* Of two conditions that are not met, the words name if-empty. */
START_TEST(deleted_on_conditions)
{
	struct client *a = client_new(), *b = client_new();
	const unsigned both = CLIENT_IF_UNUSED | CLIENT_IF_EMPTY;

	client_want(client_delete(b, "if-1", both), "ok");
	client_want(client_declare(b, "if-1", CLIENT_PLAIN), "ok 0 0");
	client_want(client_publish(b, "if-1", "x"), "ok");
	client_want(client_publish(b, "if-1", "y"), "ok");
	client_want(client_declare(b, "if-1", CLIENT_PLAIN), "ok 2 0");
	client_want(client_consume(a, "if-1", CLIENT_UNREAD, 0), "ok");
	rig_wait(client_deliveries(a) == 1);
	client_want(client_delete(b, "if-1", both),
	    "406 PRECONDITION_FAILED - queue 'if-1' in vhost '/' not empty");
	client_want(client_delete(b, "if-1", CLIENT_IF_UNUSED),
	    "406 PRECONDITION_FAILED - queue 'if-1' in vhost '/' in use");
	client_want(client_delete(b, "if-1", 0), "ok");
	rig_wait(client_cancels(a) == 1);
	client_want(client_declare(b, "if-1", CLIENT_HOLDER), "ok 0 0");
	client_want(client_consume(a, "if-1", CLIENT_ALONE, 0), "ok");
	client_want(client_delete(b, "if-1", both),
	    "406 PRECONDITION_FAILED - queue 'if-1' in vhost '/' in use");
	client_want(client_cancel(a), "ok");
	client_want(client_delete(b, "if-1", both), "ok");
	client_want(client_declare(b, "if-1", CLIENT_PASSIVE),
	    "404 NOT_FOUND - no queue 'if-1' in vhost '/'");
}
END_TEST

/* Both ask at once, fifty times: one deletes, and the holder of a moment later loses nothing. */
START_TEST(a_deletion_races_with_a_claim)
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

/* ---- mutexes, arguments and expiry ---- */

START_TEST(a_mutex_declares_its_b)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	struct client *client = client_new();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	unsigned asked;

	rig_want(one, rig_consume_mutex, channel, "mutex-B", BROKER_OK);
	refused(two, rig_consume_mutex, "mutex-B", BROKER_LOCKED, 403, "in exclusive use");
	refused(one, rig_consume_mutex, "mutex-B", BROKER_LOCKED, 403, "in exclusive use");
	/* The same declare by another client: the server compares all arguments. */
	client_want(client_declare(client, "mutex-B", CLIENT_MUTEX), "ok 0 1");
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
	client_want(client_declare(client, "mutex-3-B", CLIENT_PLAIN), "ok 0 0");
	refused(one, rig_consume_mutex, "mutex-3-B", BROKER_REFUSED, 406,
	    "PRECONDITION_FAILED - inequivalent arg 'x-");
	/* The two kinds of durable holder queues differ in their arguments. */
	ck_assert_int_eq(rig_answer(rig_ask(one, broker_declare_holder,
					rig_take(one, BROKER_AUXILIARY), "mutex-2-B"))
			     ->reply.code,
	    406);
	client_want(client_delete(client, "mutex-3-B", 0), "ok");
}
END_TEST

#define ZERO "the value '0' of type 'signedint'"
#define MINUTE "the value '60000' of type 'signedint'"
#define REJECT "the value 'reject-publish' of type 'longstr'"

START_TEST(declared_with_other_arguments)
{
	static const struct {
		enum client_queue there, declared;
		const char *argument, *received, *current;
	} tries[] = {
	    {CLIENT_SLOT, CLIENT_PLAIN, "x-max-length", "none", ZERO},
	    {CLIENT_PLAIN, CLIENT_SLOT, "x-max-length", ZERO, "none"},
	    {CLIENT_HOLDER, CLIENT_MUTEX, "x-expires", MINUTE, "none"},
	    {CLIENT_MUTEX, CLIENT_HOLDER, "x-expires", "none", MINUTE},
	    {CLIENT_SLOT, CLIENT_HOLDER, "x-overflow", REJECT, "none"},
	    {CLIENT_HOLDER, CLIENT_SLOT, "x-overflow", "none", REJECT},
	    {CLIENT_TRANSIENT, CLIENT_PLAIN, "durable", "'true'", "'false'"},
	    {CLIENT_PLAIN, CLIENT_TRANSIENT, "durable", "'false'", "'true'"},
	    {CLIENT_SLOT, CLIENT_WAIT_QUEUE, "auto_delete", "'true'", "'false'"},
	};
	struct client *client = client_new();
	char words[300];

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		snprintf(words, sizeof(words),
		    "406 PRECONDITION_FAILED - inequivalent arg '%s' for queue 'args-1' in vhost "
		    "'/': received %s but current is %s",
		    tries[i].argument, tries[i].received, tries[i].current);
		client_want(client_declare(client, "args-1", tries[i].there), "ok 0 0");
		client_want(client_declare(client, "args-1", tries[i].declared), words);
		client_want(client_declare(client, "args-1", tries[i].there), "ok 0 0");
		client_want(client_delete(client, "args-1", 0), "ok");
	}
}
END_TEST

/* Each use of a queue begins its expiry anew, but a publish is none. A consumer keeps the queue. */
START_TEST(a_queue_expires_after_its_last_use)
{
	enum { DECLARED, ASKED, READ, CANCELLED, CLOSED, CONSUMED, UNUSED, QUEUES };
	static const char *const queues[QUEUES] = {
	    "use-1", "use-2", "use-3", "use-4", "use-5", "use-6", "use-7"};
	struct rig_broker *one = rig_open_up();
	struct client *client = client_new();
	struct client *consumers[] = {client_new(), client_new(), client_new()};
	const enum broker_answer *answers;

	for (int i = 0; i < QUEUES; i++)
		client_want(client_declare(client, queues[i], CLIENT_BRIEF), "ok 0 0");
	for (int i = 0; i < 3; i++)
		client_want(client_consume(consumers[i], queues[CANCELLED + i], 0, 0), "ok");
	rig_pass_for(3 * CLIENT_BRIEF_TIME / 5);
	client_want(client_declare(client, queues[DECLARED], CLIENT_BRIEF), "ok 0 0");
	client_want(client_declare(client, queues[ASKED], CLIENT_PASSIVE), "ok 0 0");
	client_want(client_get(client, queues[READ]), "empty");
	client_want(client_cancel(consumers[0]), "ok");
	client_close(consumers[1]);
	client_want(client_publish(client, queues[UNUSED], "x"), "ok");
	rig_pass_for(3 * CLIENT_BRIEF_TIME / 5);
	answers = rig_probe(one, queues, QUEUES);
	for (int i = 0; i < UNUSED; i++)
		ck_assert_msg(answers[i] == BROKER_OK, "%s: %d", queues[i], answers[i]);
	ck_assert_int_eq(answers[UNUSED], BROKER_ABSENT);
	client_want(client_cancel(consumers[2]), "ok");
	for (int i = 0; i < QUEUES; i++)
		rig_wait((rig_pass_for(100 * NSEC_PER_MSEC),
		    rig_probe(one, queues, QUEUES)[i] == BROKER_ABSENT));
}
END_TEST

Suite *
holders_suite(void)
{
	Suite *suite = suite_create("holders");
	TCase *tcase = server_tcase(suite, "holders");

	tcase_add_test(tcase, a_claim_is_checked_and_dropped);
	tcase_add_test(tcase, a_claim_without_a);
	tcase_add_test(tcase, both_ways_refuse_each_other);
	tcase_add_test(tcase, an_exclusive_b_is_made_durable);
	tcase_add_loop_test(tcase, the_end_of_the_channel_frees, 0, 2);
	tcase_add_test(tcase, b_is_deleted_by_hand);
	tcase_add_test(tcase, cancels_cross);
	tcase_add_test(tcase, an_exclusive_consumer_is_alone);
	tcase_add_test(tcase, a_tag_is_used_once_on_a_channel);
	tcase_add_test(tcase, a_long_name_shortens_the_words);
	tcase_add_test(tcase, a_holder_queue_rejects_messages);
	tcase_add_test(tcase, messages_for_a_holder_are_discarded);
	tcase_add_test(tcase, questions_about_holders);
	tcase_add_test(tcase, b_is_deleted_unless_it_is_held);
	tcase_add_test(tcase, deleted_on_conditions);
	tcase_add_test(tcase, a_deletion_races_with_a_claim);
	tcase_add_test(tcase, a_mutex_declares_its_b);
	tcase_add_test(tcase, declared_with_other_arguments);
	tcase_add_test(tcase, a_queue_expires_after_its_last_use);
	return suite;
}
