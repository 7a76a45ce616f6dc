/*
 * Slots held by consumers, over a scripted server. It shows orders of answers that RabbitMQ does not
 * show on demand.
 */
#include <string.h>

#include "tests/broker/evil_server.h"

#define TAG "h"

static void
put_declare_ok(uint16_t channel, uint32_t consumers)
{
	amqp_queue_declare_ok_t ok = {
	    .queue = amqp_cstring_bytes("b"), .consumer_count = consumers};

	put_method(evil.bytes, channel, AMQP_QUEUE_DECLARE_OK_METHOD, &ok);
}

static void
put_cancel_ok(uint16_t channel)
{
	amqp_basic_cancel_ok_t ok = {.consumer_tag = amqp_cstring_bytes(TAG)};

	put_method(evil.bytes, channel, AMQP_BASIC_CANCEL_OK_METHOD, &ok);
}

/* ---- a claim and the check of A behind it ---- */

static struct rig_broker *one;
static uint64_t channel;
static unsigned claim, check; /* their numbers */

static void
send_flight(rig_operation *operation)
{
	one = evil_open_up();
	channel = rig_take(one, BROKER_LOCKS);
	claim = rig_ask(one, operation, channel, "b");
	check = rig_ask(one, broker_check, channel, "a");
	rig_wait(evil_saw(AMQP_BASIC_CONSUME_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
}

static void
want_flight(enum broker_answer claimed, enum broker_answer checked)
{
	ck_assert_int_eq(rig_answer(check)->reply.answer, checked);
	ck_assert_int_eq(rig_answer(claim)->reply.answer, claimed);
	ck_assert_uint_lt(rig_answers[claim].order, rig_answers[check].order);
}

/* Nothing may happen now. */
static void
some_passes(void)
{
	for (int i = 0; i < 3; i++)
		rig_pass();
}

static void
want_alive(void)
{
	some_passes();
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
}

START_TEST(test_check_overtakes_claim)
{
	send_flight(rig_consume);
	put_declare_ok(1, 0);
	evil_say();
	some_passes();
	ck_assert_uint_eq(rig_answers[check].times, 0);
	put_consume_ok(evil.bytes, 1, TAG);
	evil_say();
	want_flight(BROKER_OK, BROKER_OK);
	ck_assert(rig_answers[claim].reply.channel_open);
}
END_TEST

START_TEST(test_check_overtakes_refused_claim)
{
	send_flight(rig_consume);
	put_declare_ok(1, 0);
	put_channel_close(evil.bytes, 1, 403, "ACCESS_REFUSED - queue 'b' in exclusive use",
	    AMQP_BASIC_CONSUME_METHOD);
	evil_say();
	want_flight(BROKER_LOCKED, BROKER_SKIPPED);
	ck_assert_uint_eq(one->channels_closed, 1);
}
END_TEST

/* The end of the channel undoes the claim, which was perhaps performed. */
START_TEST(test_refused_check_overtakes_claim)
{
	send_flight(rig_consume);
	put_channel_close(
	    evil.bytes, 1, 404, "NOT_FOUND - no queue 'a'", AMQP_QUEUE_DECLARE_METHOD);
	evil_say();
	want_flight(BROKER_SKIPPED, BROKER_ABSENT);
}
END_TEST

START_TEST(test_mutex_refused)
{
	static const struct {
		int code;
		const char *text;
		amqp_method_number_t blamed;
		unsigned declared;
		enum broker_answer claimed, checked;
	} refusals[] = {
	    {406, "PRECONDITION_FAILED - inequivalent arg", AMQP_QUEUE_DECLARE_METHOD, 0,
		BROKER_REFUSED, BROKER_SKIPPED},
	    {405, "RESOURCE_LOCKED", AMQP_QUEUE_DECLARE_METHOD, 0, BROKER_LOCKED, BROKER_SKIPPED},
	    {403, "ACCESS_REFUSED - queue 'b' in vhost", AMQP_BASIC_CONSUME_METHOD, 1,
		BROKER_LOCKED, BROKER_SKIPPED},
	    {403, "ACCESS_REFUSED - queue 'b' in vhost", AMQP_BASIC_CONSUME_METHOD, 2,
		BROKER_LOCKED, BROKER_SKIPPED},
	    {404, "NOT_FOUND - no queue 'a'", AMQP_QUEUE_DECLARE_METHOD, 1, BROKER_SKIPPED,
		BROKER_ABSENT},
	    {406, "PRECONDITION_FAILED - timeout", 0, 1, BROKER_SKIPPED, BROKER_SKIPPED},
	};

	send_flight(rig_consume_mutex);
	for (unsigned i = 0; i < refusals[_i].declared; i++)
		put_declare_ok(1, 0);
	put_channel_close(evil.bytes, 1, refusals[_i].code, refusals[_i].text, refusals[_i].blamed);
	evil_say();
	want_flight(refusals[_i].claimed, refusals[_i].checked);
}
END_TEST

/* The broker has read the check. It has not answered the drop, so its sending time proves nothing. */
START_TEST(test_drop_behind_a_failed_check)
{
	unsigned drop;

	one = evil_open_up();
	channel = rig_take(one, BROKER_LOCKS);
	check = rig_ask(one, rig_check_queue, channel, "b");
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 1);
	drop = rig_ask(one, rig_drop, channel, "b");
	rig_wait(evil_saw(AMQP_QUEUE_DELETE_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_declare_ok(1, 1);
	evil_say();
	ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_LOCKED);
	ck_assert_int_eq(rig_answer(drop)->reply.answer, BROKER_LOCKED);
	ck_assert_int_eq(rig_answer(drop)->reply.sent_at, rig_answer(check)->reply.sent_at);
}
END_TEST

/* ---- the server's cancel ---- */

static void
put_message(void)
{
	put_deliver(evil.bytes, 1, TAG, 1);
	put_header(evil.bytes, 1, 6, NULL);
	put_raw(evil.bytes, AMQP_FRAME_BODY, 1, "abc", 3);
	put_raw(evil.bytes, AMQP_FRAME_BODY, 1, "def", 3);
}

static unsigned cancelled_before[2];

static void
note_cancelled(unsigned number)
{
	cancelled_before[number] = one->cancelled;
}

START_TEST(test_cancel_between_the_answers)
{
	send_flight(rig_consume);
	rig_reaction = note_cancelled;
	put_consume_ok(evil.bytes, 1, TAG);
	put_cancel(evil.bytes, 1, TAG);
	put_declare_ok(1, 0);
	evil_say();
	want_flight(BROKER_OK, BROKER_OK);
	ck_assert_uint_eq(cancelled_before[claim], 0);
	ck_assert_uint_eq(cancelled_before[check], 1);
	ck_assert_uint_eq(one->cancelled_channel, channel);
	want_alive();
}
END_TEST

/* A channel that never had a consumer. */
START_TEST(test_cancel_of_nothing)
{
	unsigned asked;

	one = evil_open_up();
	channel = rig_take(one, BROKER_LOCKS);
	asked = rig_ask(one, broker_check, channel, "a");
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_cancel(evil.bytes, 1, TAG);
	put_declare_ok(1, 0);
	put_cancel(evil.bytes, 1, TAG);
	evil_say();
	ck_assert_int_eq(rig_answer(asked)->reply.answer, BROKER_OK);
	want_alive();
	ck_assert_uint_eq(one->cancelled, 0);
}
END_TEST

static void
put_cancel_too_early(void)
{
	put_cancel(evil.bytes, 1, TAG);
}

static void
put_cancel_ok_unasked(void)
{
	put_cancel_ok(1);
}

static void
put_third_answer(void)
{
	put_declare_ok(1, 0);
	put_declare_ok(1, 0);
}

static void
put_second_consume_ok(void)
{
	put_consume_ok(evil.bytes, 1, TAG);
	put_consume_ok(evil.bytes, 1, TAG);
}

static void (*const lies[])(void) = {
    put_cancel_too_early, put_cancel_ok_unasked, put_third_answer, put_second_consume_ok};

/* Answers that cannot be: nothing on this link can be believed. */
START_TEST(test_lies)
{
	send_flight(rig_consume);
	lies[_i]();
	evil_say();
	rig_wait(one->events[BROKER_LOCKS] == 2);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_DOWN);
	ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_UNKNOWN);
	ck_assert_uint_eq(one->cancelled, 0);
}
END_TEST

/* ---- messages ---- */

/* At every time from the claim on, even after it ended. */
START_TEST(test_messages_are_discarded)
{
	unsigned drop;

	send_flight(rig_consume);
	put_message();
	put_consume_ok(evil.bytes, 1, TAG);
	put_message();
	put_declare_ok(1, 0);
	evil_say();
	want_flight(BROKER_OK, BROKER_OK);
	drop = rig_ask(one, rig_cancel, channel, "b");
	rig_wait(evil_saw(AMQP_BASIC_CANCEL_METHOD) == 1);
	put_message();
	put_cancel_ok(1);
	put_message();
	evil_say();
	ck_assert_int_eq(rig_answer(drop)->reply.answer, BROKER_OK);
	rig_put(one, channel);
	put_message();
	evil_say();
	rig_wait(rig_counts(one, BROKER_LOCKS).deliveries == 5);
	want_alive();
}
END_TEST

/* ---- probes ---- */

static struct broker_question questions[] = {
    {"b1", BROKER_ASK_CONSUMER}, {"b2", BROKER_ASK_CONSUMER}};

/* A refusal that blames no method, or in other words, tells nothing about the queue. */
START_TEST(test_passive_declare_refused)
{
	one = evil_open_up();
	rig_ask_questions(one, questions, 2);
	for (unsigned i = 1; i <= 2; i++) {
		rig_wait(evil_saw(AMQP_CHANNEL_OPEN_METHOD) == i);
		put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
		put_channel_close(evil.bytes, 1, i == 1 ? 403 : 406, "ACCESS_REFUSED",
		    i == 1 ? AMQP_QUEUE_DECLARE_METHOD : 0);
		evil_say();
	}
	rig_wait(rig_probes_answered() == 1);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_UNKNOWN);
	ck_assert_int_eq(rig_probe_answers()[1], BROKER_UNKNOWN);
}
END_TEST

/*
 * A node that is silent stops the channel. The deadline covers the nack and the passive declare behind it. The
 * next probe gets another channel.
 */
START_TEST(test_passive_declare_unanswered)
{
	static const struct broker_question holder = {"b1", BROKER_ASK_HOLDER};
	amqp_basic_nack_t nack = {.delivery_tag = 1};
	struct amqp_settings settings = evil_settings();

	settings.probe_timeout = NSEC_PER_SEC;
	put_friendly(evil.greeting);
	one = rig_open(&settings);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	rig_ask_questions(one, &holder, 1);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(evil.bytes, 1, AMQP_CONFIRM_SELECT_OK_METHOD);
	put_method(evil.bytes, 1, AMQP_BASIC_NACK_METHOD, &nack);
	evil_say();
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 1);
	put_bare(evil.bytes, 2, AMQP_CHANNEL_OPEN_OK_METHOD);
	evil_say();
	rig_pass_for(settings.probe_timeout / 2);
	rig_ask_questions(one, questions, 2);
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 3);
	ck_assert_uint_eq(rig_probes_answered(), 0);
	/* The others go out again at once, before their own deadline. */
	rig_wait(rig_probes_answered() == 1);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_UNKNOWN);
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 5);
	put_bare(evil.bytes, 3, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_declare_ok(2, 1); /* too late, on the channel that is closed */
	put_declare_ok(3, 1);
	put_declare_ok(3, 0);
	evil_say();
	rig_wait(rig_probes_answered() == 2);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_OK);
	ck_assert_int_eq(rig_probe_answers()[1], BROKER_ABSENT);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
}
END_TEST

Suite *
scripted_holders_suite(void)
{
	Suite *suite = suite_create("scripted holders");
	TCase *tcase = tcase_create("scripted holders");

	tcase_add_checked_fixture(tcase, evil_setup, evil_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, test_check_overtakes_claim);
	tcase_add_test(tcase, test_check_overtakes_refused_claim);
	tcase_add_test(tcase, test_refused_check_overtakes_claim);
	tcase_add_loop_test(tcase, test_mutex_refused, 0, 6);
	tcase_add_test(tcase, test_drop_behind_a_failed_check);
	tcase_add_test(tcase, test_cancel_between_the_answers);
	tcase_add_test(tcase, test_cancel_of_nothing);
	tcase_add_loop_test(tcase, test_lies, 0, (int)(sizeof(lies) / sizeof(*lies)));
	tcase_add_test(tcase, test_messages_are_discarded);
	tcase_add_test(tcase, test_passive_declare_refused);
	tcase_add_test(tcase, test_passive_declare_unanswered);
	suite_add_tcase(suite, tcase);
	return suite;
}
