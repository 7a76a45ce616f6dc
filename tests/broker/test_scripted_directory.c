/*
 * A directory on a scripted server: behaviour that RabbitMQ shows rarely, or must not show.
 */
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

static void
put_declare_ok(uint32_t count)
{
	amqp_queue_declare_ok_t ok = {.queue = amqp_cstring_bytes("dir"), .message_count = count};

	put_method(evil.bytes, 1, AMQP_QUEUE_DECLARE_OK_METHOD, &ok);
}

static void
put_get_ok(uint64_t delivery, uint32_t left)
{
	amqp_basic_get_ok_t ok = {.delivery_tag = delivery,
	    .routing_key = amqp_cstring_bytes("dir"),
	    .message_count = left};

	put_method(evil.bytes, 1, AMQP_BASIC_GET_OK_METHOD, &ok);
}

static void
put_get_empty(void)
{
	amqp_basic_get_empty_t empty = {0};

	put_method(evil.bytes, 1, AMQP_BASIC_GET_EMPTY_METHOD, &empty);
}

static void
put_body(const char *body)
{
	put_raw(evil.bytes, AMQP_FRAME_BODY, 1, body, strlen(body));
}

static void
put_message(uint64_t delivery, uint32_t left, const char *body)
{
	put_get_ok(delivery, left);
	put_header(evil.bytes, 1, strlen(body), NULL);
	put_body(body);
}

/* A request is out on channel 1, and `count` messages are said to be there. */
static unsigned
begun(unsigned number, uint32_t count)
{
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_declare_ok(count);
	evil_say();
	rig_wait(evil_saw(AMQP_BASIC_GET_METHOD) == count + 1);
	return number;
}

static void
want_unknown(unsigned number, const char *why)
{
	ck_assert_int_eq(rig_answer(number)->reply.answer, BROKER_UNKNOWN);
	ck_assert_uint_eq(rig_answer(number)->names.count, 0);
	rig_wait(one->events[BROKER_AUXILIARY] >= 2);
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_AUXILIARY], why));
}

/* A body in pieces, with another channel's frames between them; one that is too long for a name. */
START_TEST(test_pieces)
{
	unsigned read = begun(rig_read(one, "dir"), 3), check;
	static const char much[4000] = "much";
	uint64_t channel = rig_take(one, BROKER_AUXILIARY);

	check = rig_ask(one, broker_check, channel, "b");
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 2);
	put_get_ok(1, 2);
	put_bare(evil.bytes, 2, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_header(evil.bytes, 1, 6, NULL);
	put_body("ab");
	put_bare(evil.bytes, 2, AMQP_QUEUE_DECLARE_OK_METHOD);
	put_body("cde");
	put_body("f");
	put_get_ok(2, 1);
	put_header(evil.bytes, 1, 3 * sizeof(much), NULL);
	for (int i = 0; i < 3; i++)
		put_raw(evil.bytes, AMQP_FRAME_BODY, 1, much, sizeof(much));
	put_message(3, 0, "g");
	put_get_empty();
	evil_say();
	ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_OK);
	rig_wait(evil_saw(AMQP_CHANNEL_CLOSE_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_CLOSE_OK_METHOD);
	evil_say();
	ck_assert_int_eq(rig_answer(read)->reply.answer, BROKER_OK);
	ck_assert_uint_eq(rig_answers[read].names.count, 2);
	ck_assert_str_eq(rig_answers[read].names.all[0], "abcdef");
	ck_assert_str_eq(rig_answers[read].names.all[1], "g");
}
END_TEST

/* Empty, and yet another one behind it: it came meanwhile, and counts. */
START_TEST(test_entry_that_came_meanwhile_counts)
{
	unsigned read = begun(rig_read(one, "dir"), 1);

	put_get_empty();
	put_message(1, 0, "late");
	evil_say();
	rig_wait(evil_saw(AMQP_CHANNEL_CLOSE_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_CLOSE_OK_METHOD);
	evil_say();
	ck_assert_int_eq(rig_answer(read)->reply.answer, BROKER_OK);
	ck_assert_str_eq(rig_answers[read].names.all[0], "late");
}
END_TEST

/* The queue goes while it is read: nothing was done, in the broker's words. */
START_TEST(test_closed_while_reading)
{
	unsigned leave = begun(rig_leave(one, "dir", "a"), 5);

	put_message(1, 4, "a");
	put_channel_close(evil.bytes, 1, 404, "NOT_FOUND - no queue 'dir'", AMQP_BASIC_GET_METHOD);
	evil_say();
	ck_assert_int_eq(rig_answer(leave)->reply.answer, BROKER_REFUSED);
	ck_assert_int_eq(rig_answers[leave].reply.code, 404);
	ck_assert_str_eq(rig_answers[leave].text, "NOT_FOUND - no queue 'dir'");
	ck_assert_uint_eq(rig_answers[leave].names.count, 0);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
}
END_TEST

/*
 * The broker's close crosses the daemon's close, which follows the acks. It is unknown whether the
 * broker read them.
 */
START_TEST(test_closes_cross)
{
	unsigned leave = begun(rig_leave(one, "dir", "a"), 1), check;

	check = rig_ask(one, broker_check, rig_take(one, BROKER_AUXILIARY), "b");
	put_message(1, 0, "a");
	put_get_empty();
	evil_say();
	rig_wait(evil_saw(AMQP_CHANNEL_CLOSE_METHOD) == 1);
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 2);
	put_channel_close(
	    evil.bytes, 1, 403, "ACCESS_REFUSED - in exclusive use", AMQP_BASIC_CONSUME_METHOD);
	evil_say();
	ck_assert_int_eq(rig_answer(leave)->reply.answer, BROKER_UNKNOWN);
	ck_assert_int_eq(rig_answers[leave].reply.code, 403);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_CLOSE_OK_METHOD);
	put_bare(evil.bytes, 2, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(evil.bytes, 2, AMQP_QUEUE_DECLARE_OK_METHOD);
	evil_say();
	ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_OK);
	ck_assert_uint_eq(one->channels_closed, 0);
}
END_TEST

START_TEST(test_entry_is_rejected)
{
	unsigned enter = rig_enter(one, "dir", "a");
	amqp_basic_nack_t nack = {.delivery_tag = 1};

	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(evil.bytes, 1, AMQP_CONFIRM_SELECT_OK_METHOD);
	put_declare_ok(0);
	put_method(evil.bytes, 1, AMQP_BASIC_NACK_METHOD, &nack);
	evil_say();
	ck_assert_int_eq(rig_answer(enter)->reply.answer, BROKER_UNKNOWN);
	ck_assert_str_eq(rig_answers[enter].text, "the broker did not accept the message");
	ck_assert_uint_eq(rig_answers[enter].names.count, 0);
}
END_TEST

/*
 * Between declare-ok and confirm the message may be in the queue. Before declare-ok it was refused if
 * the broker blames the declare. Else the result is unknown.
 */
START_TEST(test_closed_while_entering)
{
	static const struct {
		bool declared;
		amqp_method_number_t blamed;
		enum broker_answer answer;
	} ends[] = {
	    {true, 0, BROKER_UNKNOWN},
	    {false, AMQP_QUEUE_DECLARE_METHOD, BROKER_REFUSED},
	    {false, 0, BROKER_UNKNOWN},
	};
	unsigned enter = rig_enter(one, "dir", "a");

	rig_wait(evil_saw(AMQP_BASIC_PUBLISH_METHOD) == 1);
	put_bare(evil.bytes, 1, AMQP_CHANNEL_OPEN_OK_METHOD);
	put_bare(evil.bytes, 1, AMQP_CONFIRM_SELECT_OK_METHOD);
	if (ends[_i].declared)
		put_declare_ok(0);
	put_channel_close(evil.bytes, 1, 406, "PRECONDITION_FAILED - a test", ends[_i].blamed);
	evil_say();
	ck_assert_int_eq(rig_answer(enter)->reply.answer, ends[_i].answer);
	ck_assert_int_eq(rig_answers[enter].reply.code, 406);
}
END_TEST

/* There is a channel less than it takes. */
START_TEST(test_no_channel_left)
{
	unsigned read;

	evil_greet(1, 10);
	(void)rig_ask(one, broker_check, rig_take(one, BROKER_AUXILIARY), "b");
	rig_wait(evil_saw(AMQP_QUEUE_DECLARE_METHOD) == 1);
	read = rig_read(one, "dir");
	ck_assert_int_eq(rig_answer(read)->reply.answer, BROKER_UNKNOWN);
	ck_assert_str_eq(rig_answers[read].text, "the auxiliary connection has no channel left");
}
END_TEST

/* Frames that the broker must not send. The link ends with these words. */
static const char *const nonsense[] = {
    "AMQP_BASIC_GET_OK_METHOD",     /* a second one before the content of the first */
    "AMQP_BASIC_GET_EMPTY_METHOD",  /* the same */
    "content on channel 1",         /* more than its header says */
    "content on channel 1",         /* that was not announced */
    "AMQP_BASIC_ACK_METHOD",        /* of nothing */
    "AMQP_QUEUE_DECLARE_OK_METHOD", /* a second one */
};

START_TEST(test_nonsense)
{
	unsigned read = begun(rig_read(one, "dir"), 1);

	switch (_i) {
	case 0:
		put_get_ok(1, 0);
		put_get_ok(2, 0);
		break;
	case 1:
		put_get_ok(1, 0);
		put_get_empty();
		break;
	case 2:
		put_get_ok(1, 0);
		put_header(evil.bytes, 1, 1, NULL);
		put_body("ab");
		break;
	case 3:
		put_header(evil.bytes, 1, 1, NULL);
		break;
	case 4:
		put_bare(evil.bytes, 1, AMQP_BASIC_ACK_METHOD);
		break;
	default:
		put_declare_ok(1);
		break;
	}
	evil_say();
	want_unknown(read, nonsense[_i]);
}
END_TEST

Suite *
scripted_directory_suite(void)
{
	Suite *suite = suite_create("scripted directory");
	TCase *tcase = tcase_create("scripted directory");

	tcase_add_checked_fixture(tcase, setup, evil_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, test_pieces);
	tcase_add_test(tcase, test_entry_that_came_meanwhile_counts);
	tcase_add_test(tcase, test_closed_while_reading);
	tcase_add_test(tcase, test_closes_cross);
	tcase_add_test(tcase, test_entry_is_rejected);
	tcase_add_loop_test(tcase, test_closed_while_entering, 0, 3);
	tcase_add_test(tcase, test_no_channel_left);
	tcase_add_loop_test(tcase, test_nonsense, 0, (int)(sizeof(nonsense) / sizeof(nonsense[0])));
	suite_add_tcase(suite, tcase);
	return suite;
}
