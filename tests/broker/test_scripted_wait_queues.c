/*
 * Wait queues and daemon messages on a scripted server: behaviour that RabbitMQ shows rarely, or
 * must not show.
 */
#include <stdio.h>
#include <string.h>

#include "tests/broker/evil_server.h"

static struct rig_broker *one;

static void
setup(void)
{
	evil_setup();
	put_friendly(evil.greeting);
	one = evil_open();
}

static unsigned
told(enum broker_wait_queue_news news)
{
	return rig_wait_queue_told(one, "w", news);
}

/* The consume of w has come, for the first time or once more. */
static void
asked(unsigned times)
{
	rig_wait(evil_saw(AMQP_BASIC_CONSUME_METHOD) == times);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(evil.bytes, 1, AMQP_QUEUE_DECLARE_OK_METHOD);
	put_bare(evil.bytes, 1, AMQP_BASIC_QOS_OK_METHOD);
}

static void
joined(void)
{
	rig_join(one, "w", 5, 1);
	asked(1);
	put_consume_ok(evil.bytes, 1, "l1");
	evil_say();
	rig_wait(told(BROKER_WAIT_QUEUE_JOINED) == 1);
}

START_TEST(test_the_wait_queue_is_deleted_between_declare_and_consume)
{
	rig_join(one, "w", 5, 1);
	for (unsigned i = 1; i <= 3; i++) {
		asked(i);
		put_channel_close(
		    evil.bytes, 1, 404, "NOT_FOUND - no queue 'w'", AMQP_BASIC_CONSUME_METHOD);
		evil_say();
	}
	asked(4);
	put_consume_ok(evil.bytes, 1, "l4");
	evil_say();
	rig_wait(told(BROKER_WAIT_QUEUE_JOINED) == 1);
	ck_assert_uint_eq(one->line_count, 1);
	ck_assert_uint_eq(one->channels_closed, 0);
}
END_TEST

START_TEST(test_cancelled_with_a_hint_on_its_way)
{
	joined();
	put_deliver(evil.bytes, 1, "l1", 1);
	put_header(evil.bytes, 1, 0, "3");
	put_cancel(evil.bytes, 1, "l1");
	evil_say();
	rig_wait(told(BROKER_WAIT_QUEUE_LEFT) == 1);
	ck_assert_uint_eq(told(BROKER_WAIT_QUEUE_HINT), 1);
	ck_assert_int_eq(one->lines[1].slot, 3);
}
END_TEST

/* A close for another cause is no refusal: the next hint goes out on another channel. */
START_TEST(test_hints_on_a_channel_that_is_closed)
{
	rig_wake(one, "w", 7);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_channel_close(evil.bytes, 1, 406, "PRECONDITION_FAILED - a test", 0);
	evil_say();
	rig_wait(evil_saw(AMQP_CHANNEL_CLOSE_OK_METHOD) == 1);
	rig_wake(one, "w", 8);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 2);
}
END_TEST

/* The same of an inbox: it is opened again at once. */
START_TEST(test_an_inbox_on_a_channel_that_is_closed)
{
	rig_inbox(one, true);
	for (unsigned i = 1; i <= 3; i++) {
		asked(i);
		put_channel_close(evil.bytes, 1, 406, "PRECONDITION_FAILED - a test", 0);
		evil_say();
	}
	asked(4);
	put_consume_ok(evil.bytes, 1, "amq.ctag-1");
	evil_say();
	rig_ask_all(one, "who?", 4);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 1);
}
END_TEST

/* The broker knows the user by another name: daemon messages go without one. */
START_TEST(test_the_user_has_another_name)
{
	rig_inbox(one, true);
	rig_ask_all(one, "who?", 4);
	asked(1);
	put_consume_ok(evil.bytes, 1, "amq.ctag-1");
	evil_say();
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 1);
	put_channel_close(evil.bytes, 1, 406,
	    "PRECONDITION_FAILED - user_id property set to 'guest' but authenticated user was 'x'",
	    AMQP_BASIC_PUBLISH_METHOD);
	evil_say();
	asked(2);
	put_consume_ok(evil.bytes, 1, "amq.ctag-2");
	evil_say();
	rig_ask_all(one, "who?", 4);
	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 2);
}
END_TEST

/* Few channels: half of them are left for probes and administration. */
START_TEST(test_consumers_leave_channels_to_others)
{
	static const char *const queue = "a";
	enum { FEW = 8, MANY = 20 };
	char name[16];

	evil_greet(FEW, 10);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		rig_join(one, name, 0, 1);
	}
	rig_wait(evil_saw(AMQP_BASIC_CONSUME_METHOD) == FEW / 2);
	rig_ask_probe(one, &queue, 1);
	rig_wait(evil_saw(AMQP_CONFIRM_SELECT_METHOD) == 1);
	ck_assert_uint_eq(evil_saw(AMQP_BASIC_CONSUME_METHOD), FEW / 2);
}
END_TEST

static void
lie_header_alone(void)
{
	put_header(evil.bytes, 1, 0, "1");
}

static void
lie_ok_of_another(void)
{
	put_consume_ok(evil.bytes, 1, "l2");
}

static void
lie_ok_twice(void)
{
	put_consume_ok(evil.bytes, 1, "l1");
}

static void
lie_method_in_a_message(void)
{
	put_deliver(evil.bytes, 1, "l1", 1);
	put_deliver(evil.bytes, 1, "l1", 1);
}

static void
lie_declare_ok(void)
{
	put_bare(evil.bytes, 1, AMQP_QUEUE_DECLARE_OK_METHOD);
}

static void
lie_return(void)
{
	put_bare(evil.bytes, 1, AMQP_BASIC_RETURN_METHOD);
}

static void (*const lies[])(void) = {lie_header_alone, lie_ok_of_another, lie_ok_twice,
    lie_method_in_a_message, lie_declare_ok, lie_return};

START_TEST(test_lies)
{
	joined();
	lies[_i]();
	evil_say();
	rig_wait(told(BROKER_WAIT_QUEUE_LEFT) == 1);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_DOWN);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
}
END_TEST

Suite *
scripted_wait_queues_suite(void)
{
	Suite *suite = suite_create("scripted wait queues");
	TCase *tcase = tcase_create("scripted wait queues");

	tcase_add_checked_fixture(tcase, setup, evil_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, test_the_wait_queue_is_deleted_between_declare_and_consume);
	tcase_add_test(tcase, test_cancelled_with_a_hint_on_its_way);
	tcase_add_test(tcase, test_hints_on_a_channel_that_is_closed);
	tcase_add_test(tcase, test_an_inbox_on_a_channel_that_is_closed);
	tcase_add_test(tcase, test_the_user_has_another_name);
	tcase_add_test(tcase, test_consumers_leave_channels_to_others);
	tcase_add_loop_test(tcase, test_lies, 0, (int)(sizeof(lies) / sizeof(lies[0])));
	suite_add_tcase(suite, tcase);
	return suite;
}
