/*
 * Watches on a scripted server: behaviour that RabbitMQ shows rarely, or must not show.
 */
#include "tests/broker/evil_server.h"

static struct rig_broker *one;

/* The consume of "a" has come. */
static void
asked_with(const struct amqp_settings *settings)
{
	put_friendly(evil.greeting);
	one = rig_open(settings);
	rig_watch(one, "a");
	rig_wait(evil_saw(AMQP_BASIC_CONSUME_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(evil.bytes, 1, AMQP_BASIC_QOS_OK_METHOD);
}

static void
asked(void)
{
	const struct amqp_settings settings = evil_settings();

	asked_with(&settings);
}

static void
placed(void)
{
	asked();
	put_consume_ok(evil.bytes, 1, "w1");
	evil_say();
	rig_wait(rig_told(one, "a", BROKER_WATCHED) == 1);
}

/* Acks are owed also when the watch is over. */
START_TEST(test_unwatched_with_a_delivery)
{
	struct amqp_settings settings = evil_settings();

	settings.ack_after = 300 * NSEC_PER_MSEC;
	asked_with(&settings);
	put_consume_ok(evil.bytes, 1, "w1");
	put_deliver(evil.bytes, 1, "w1", 1);
	put_header(evil.bytes, 1, 0, NULL);
	evil_say();
	rig_wait(rig_counts(one, BROKER_AUXILIARY).deliveries == 1);
	rig_unwatch(one, "a");
	rig_wait(evil_saw(AMQP_BASIC_ACK_METHOD) == 1);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
}
END_TEST

/* More than the limit: the oldest are acknowledged early. */
START_TEST(test_too_many_deliveries)
{
	placed();
	for (uint64_t i = 1; i <= 1034; i++) {
		put_deliver(evil.bytes, 1, "w1", i);
		put_header(evil.bytes, 1, 0, NULL);
	}
	evil_say();
	rig_wait(evil_saw(AMQP_BASIC_ACK_METHOD) == 10);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
}
END_TEST

/* A consume that blocks (a quorum queue without majority) costs the link: no haste to try again. */
START_TEST(test_internal_error)
{
	amqp_connection_close_t close = {
	    .reply_code = 541, .reply_text = amqp_cstring_bytes("INTERNAL_ERROR")};
	unsigned accepted;

	asked();
	put_method(evil.bytes, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);
	accepted = evil.accepted;
	evil_say();
	rig_wait(one->events[BROKER_AUXILIARY] >= 2 && one->state[BROKER_AUXILIARY] == BROKER_UP);
	ck_assert_uint_gt(evil.accepted, accepted);
	for (int i = 0; i < 20; i++)
		rig_pass();
	ck_assert_uint_eq(evil_saw(AMQP_BASIC_CONSUME_METHOD), 1);
	ck_assert_uint_eq(one->news_count, 0);
}
END_TEST

static void
put_header_alone(void)
{
	put_header(evil.bytes, 1, 0, NULL);
}

static void
put_ok_of_another(void)
{
	put_consume_ok(evil.bytes, 1, "w7");
}

static void
put_ok_twice(void)
{
	put_consume_ok(evil.bytes, 1, "w1");
	put_consume_ok(evil.bytes, 1, "w1");
}

static void
put_cancel_ok(void)
{
	put_bare(evil.bytes, 1, AMQP_BASIC_CANCEL_OK_METHOD);
}

static void (*const lies[])(void) = {
    put_header_alone, put_ok_of_another, put_ok_twice, put_cancel_ok};

START_TEST(test_lies)
{
	asked();
	lies[_i]();
	evil_say();
	rig_wait(one->events[BROKER_AUXILIARY] >= 2);
	ck_assert_uint_eq(rig_told(one, "a", BROKER_UNWATCHED), rig_told(one, "a", BROKER_WATCHED));
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
}
END_TEST

Suite *
scripted_watches_suite(void)
{
	Suite *suite = suite_create("scripted watches");
	TCase *tcase = tcase_create("scripted watches");

	tcase_add_checked_fixture(tcase, evil_setup, evil_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, test_unwatched_with_a_delivery);
	tcase_add_test(tcase, test_too_many_deliveries);
	tcase_add_test(tcase, test_internal_error);
	tcase_add_loop_test(tcase, test_lies, 0, (int)(sizeof(lies) / sizeof(lies[0])));
	suite_add_tcase(suite, tcase);
	return suite;
}
