/*
 * Behaviour that RabbitMQ shows rarely, or never during a test. A scripted server shows it.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/amqp/tcp.h"
#include "tests/broker/evil_server.h"

static struct rig_broker *
open_tuned(int channel_max, int heartbeat)
{
	struct rig_broker *one;

	evil_greet(channel_max, heartbeat);
	one = evil_open();
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	return one;
}

START_TEST(test_heartbeat_is_negotiated)
{
	static const int wishes[][2] = {{3, 3}, {0, 10}, {60, 10}};
	struct rig_broker *one = open_tuned(0, wishes[_i][0]);

	ck_assert_int_eq(rig_info(one).heartbeat, wishes[_i][1]);
	ck_assert_uint_eq(rig_info(one).channels_max, 65535);
}
END_TEST

/* With a margin of 6 s, and with a fifth of the heartbeat. */
START_TEST(test_heartbeat_without_a_lease_is_refused)
{
	static const struct {
		int heartbeat, margin;
		const char *why; /* NULL: it is taken */
	} wishes[] = {
	    {1, 0, "a heartbeat of 1 s: less the margin, 0.200 s, a lease of 1.800 s remains"},
	    {2, 6, "a lease of 2.000 s remains; lockbroker run needs 2.167 s"},
	    {2, 0, NULL},
	    {3, 6, NULL},
	};
	struct amqp_settings settings = evil_settings();
	struct rig_broker *one;

	evil_greet(0, wishes[_i].heartbeat);
	settings.margin = wishes[_i].margin * NSEC_PER_SEC;
	one = rig_open(&settings);
	rig_wait(one->events[BROKER_LOCKS] > 0);
	if (wishes[_i].why == NULL) {
		ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
		return;
	}
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_LOGIN_REFUSED);
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], wishes[_i].why));
	/* Nothing was opened there. */
	ck_assert_uint_eq(evil_saw(AMQP_CONNECTION_OPEN_METHOD), 0);
}
END_TEST

/* Two a heartbeat, while nothing else is sent; then two heartbeats of silence are enough. */
START_TEST(test_heartbeats_are_sent)
{
	struct amqp_settings settings = evil_settings();
	struct rig_broker *one;

	evil_greet(0, 0);
	settings.heartbeat = 1;
	settings.margin = NSEC_PER_SEC / 10;
	one = rig_open(&settings);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	rig_wait(evil_saw(0) == 3);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_DOWN);
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], "no byte from the broker for 2 s"));
}
END_TEST

/* A broker that blames no method for what can have no other cause. */
START_TEST(test_refused_without_blame)
{
	static const struct {
		int code;
		enum broker_answer answer;
	} refusals[] = {{404, BROKER_UNREACHABLE}, {405, BROKER_LOCKED}};
	struct rig_broker *one = evil_open_up();
	unsigned check = rig_ask(one, broker_check, rig_take(one, BROKER_LOCKS), "blame-1-B");

	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_channel_close(evil.bytes, 1, refusals[_i].code, "no", 0);
	evil_say();
	ck_assert_int_eq(rig_answer(check)->reply.answer, refusals[_i].answer);
}
END_TEST

/* If the broker closes an idle channel, no hold is lost. */
START_TEST(test_idle_channel_closed)
{
	struct rig_broker *one = evil_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	unsigned claim = rig_ask(one, rig_claim, channel, "idle-B");

	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(evil.bytes, 1, AMQP_QUEUE_DECLARE_OK_METHOD);
	evil_say();
	ck_assert_int_eq(rig_answer(claim)->reply.answer, BROKER_OK);
	rig_put(one, channel);
	put_channel_close(evil.bytes, 1, 541, "INTERNAL_ERROR", 0);
	evil_say();
	rig_wait(rig_info(one).channels == 0);
	ck_assert_uint_eq(one->channels_closed, 0);
	(void)rig_ask(one, rig_claim, rig_take(one, BROKER_LOCKS), "idle-B");
	rig_wait(evil_saw(AMQP_CHANNEL_OPEN_METHOD) == 2);
}
END_TEST

/* ---- probes ---- */

static const char *const queues[] = {"a", "b", "c", "d", "e"};

static void
put_confirm(bool ack, uint64_t tag, bool multiple)
{
	amqp_basic_ack_t acked = {.delivery_tag = tag, .multiple = multiple};
	amqp_basic_nack_t nacked = {.delivery_tag = tag, .multiple = multiple};

	if (ack)
		put_method(evil.bytes, 1, AMQP_BASIC_ACK_METHOD, &acked);
	else
		put_method(evil.bytes, 1, AMQP_BASIC_NACK_METHOD, &nacked);
}

/*
 * A broker whose auxiliary connection has been asked so many queues; the channel is open, nothing
 * confirmed.
 */
static struct rig_broker *
probing(size_t count)
{
	struct rig_broker *one = evil_open_up();

	rig_ask_probe(one, queues, count);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == count);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(evil.bytes, 1, AMQP_CONFIRM_SELECT_OK_METHOD);
	return one;
}

/* The outcome of its requests is unknown. The broker refuses probes only if it blames a publish. */
START_TEST(test_probes_on_a_channel_that_is_closed)
{
	struct rig_broker *one = probing(1);

	put_channel_close(evil.bytes, 1, 406, "PRECONDITION_FAILED - a test", 0);
	evil_say();
	rig_wait(rig_probes_answered() == 1);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_UNKNOWN);
	ck_assert_str_eq(rig_info(one).probes_refused, "");
	rig_ask_probe(one, queues, 1);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 2);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_channel_close(evil.bytes, 1, 403, "ACCESS_REFUSED", AMQP_BASIC_PUBLISH_METHOD);
	evil_say();
	rig_wait(rig_probes_answered() == 2);
	ck_assert_str_eq(rig_info(one).probes_refused, "ACCESS_REFUSED");
}
END_TEST

/* Late confirms belong to the probe that was given up, not to the next one. */
START_TEST(test_silence_then_late_confirms)
{
	struct rig_broker *one = probing(2);

	put_confirm(true, 1, false);
	evil_say();
	rig_wait(rig_probes_answered() == 1);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_OK);
	ck_assert_int_eq(rig_probe_answers()[1], BROKER_UNKNOWN);
	rig_ask_probe(one, queues, 1);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 3);
	put_confirm(true, 2, false);
	put_return(evil.bytes, 1, "a", "3");
	put_confirm(true, 3, true);
	evil_say();
	rig_wait(rig_probes_answered() == 2);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_ABSENT);
}
END_TEST

/* A channel full of probes that nobody will confirm is replaced. */
START_TEST(test_silent_channel_is_replaced)
{
	struct rig_broker *one = probing(1);

	evil_say();
	for (unsigned i = 1; i <= 17; i++) {
		rig_wait(rig_probes_answered() == i);
		ck_assert_int_eq(rig_probe_answers()[0], BROKER_UNKNOWN);
		if (i < 17)
			rig_ask_probe(one, queues, 1);
	}
	rig_wait(evil_saw(AMQP_CHANNEL_CLOSE_METHOD) == 1);
	rig_ask_probe(one, queues, 1);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 18);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
}
END_TEST

static void
put_tag_never_sent(void)
{
	put_confirm(true, 3, false);
}

static void
put_tag_0(void)
{
	put_confirm(true, 0, false);
}

static void
put_return_never_sent(void)
{
	put_return(evil.bytes, 1, "a", "3");
}

static void
put_return_of_nothing(void)
{
	put_return(evil.bytes, 1, "a", "");
}

static void
put_return_of_words(void)
{
	put_return(evil.bytes, 1, "a", "1x");
}

static void
put_header_alone(void)
{
	put_header(evil.bytes, 1, 0, NULL);
}

static void (*const lies[])(void) = {put_tag_never_sent, put_tag_0, put_return_never_sent,
    put_return_of_nothing, put_return_of_words, put_header_alone};

/* A confirm that cannot be: nothing on this link can be believed. */
START_TEST(test_lies)
{
	struct rig_broker *one = probing(2);

	lies[_i]();
	evil_say();
	rig_wait(rig_probes_answered() == 1);
	ck_assert_int_eq(rig_probe_answers()[0], BROKER_UNKNOWN);
	ck_assert_int_eq(rig_probe_answers()[1], BROKER_UNKNOWN);
	rig_wait(one->state[BROKER_AUXILIARY] == BROKER_DOWN && one->events[BROKER_AUXILIARY] == 2);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
}
END_TEST

/*
 * A user's limit of channels counts those of all links: the auxiliary connection may find none
 * left, once. It was left with one for ever, and needs two.
 */
START_TEST(test_auxiliary_connection_without_a_channel)
{
	struct rig_broker *one = evil_open_up();
	amqp_connection_close_t close = {
	    .reply_code = AMQP_NOT_ALLOWED,
	    .reply_text = amqp_cstring_bytes("NOT_ALLOWED - number of channels"),
	};
	unsigned asked = rig_ask(one, rig_claim, rig_take(one, BROKER_AUXILIARY), "mutex");

	rig_wait(evil_saw(AMQP_CHANNEL_OPEN_METHOD) == 1);
	put_method(evil.bytes, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
	evil_say();
	ck_assert_int_eq(rig_answer(asked)->reply.answer, BROKER_UNKNOWN);
	for (int i = 0; i < 2; i++)
		(void)rig_ask(one, rig_claim, rig_take(one, BROKER_AUXILIARY), "mutex");
	rig_wait(evil_saw(AMQP_CHANNEL_OPEN_METHOD) == 3);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
}
END_TEST

/* ---- the successor ---- */

static const struct amqp_link_saved impossible[] = {
    {.fd = -1, .connection = 1, .channel_max = 9, .frame_max = AMQP_FRAME_MAX, .heartbeat = 10},
    {.fd = 0, .channel_max = 9, .frame_max = 0, .heartbeat = 10},
    {.fd = 0, .channel_max = 9, .frame_max = 7, .heartbeat = 10},
};

START_TEST(test_impossible_connection_is_not_resumed)
{
	const struct amqp_settings settings = evil_settings();
	const struct amqp_link_config config = {
	    .timers = rig_timers, .settings = &settings, .host = &settings.hosts[0]};
	const struct amqp_link_events events = {.ctx = NULL};
	struct amqp_dialer dialer;
	char *error = NULL;

	ck_assert(amqp_tcp_dialer(rig_base, &settings, &dialer, &error));
	ck_assert_ptr_null(dialer.resume(dialer.ctx, &config, &events, &impossible[_i]));
	dialer.free(dialer.ctx);
}
END_TEST

Suite *
scripted_suite(void)
{
	Suite *suite = suite_create("scripted");
	TCase *tcase = tcase_create("scripted");

	tcase_add_checked_fixture(tcase, evil_setup, evil_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, test_heartbeat_is_negotiated, 0, 3);
	tcase_add_loop_test(tcase, test_heartbeat_without_a_lease_is_refused, 0, 4);
	tcase_add_test(tcase, test_heartbeats_are_sent);
	tcase_add_loop_test(tcase, test_refused_without_blame, 0, 2);
	tcase_add_test(tcase, test_idle_channel_closed);
	tcase_add_test(tcase, test_probes_on_a_channel_that_is_closed);
	tcase_add_test(tcase, test_silence_then_late_confirms);
	tcase_add_test(tcase, test_silent_channel_is_replaced);
	tcase_add_test(tcase, test_auxiliary_connection_without_a_channel);
	tcase_add_loop_test(tcase, test_impossible_connection_is_not_resumed, 0,
	    (int)(sizeof(impossible) / sizeof(impossible[0])));
	tcase_add_loop_test(tcase, test_lies, 0, (int)(sizeof(lies) / sizeof(lies[0])));
	suite_add_tcase(suite, tcase);
	return suite;
}
