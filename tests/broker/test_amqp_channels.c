/*
 * Channels of the lock connection over RabbitMQ: the answers to claim, check and drop, and the fate
 * of channels.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/amqp/login.h"
#include "daemon/broker/channel.h"
#include "tests/broker/amqp_rig.h"

START_TEST(test_claim_check_drop)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	const struct rig_answer *answer;
	int64_t before = rig_now();

	answer = rig_answer(rig_ask(one, rig_claim, channel, "ccd-1-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_OK);
	ck_assert(answer->reply.channel_open);
	ck_assert_int_eq(answer->reply.code, 0);
	ck_assert_int_ge(answer->reply.sent_at, before);
	ck_assert_int_le(answer->reply.sent_at, rig_now());
	rig_want(one, broker_check, channel, "ccd-1-B", BROKER_OK);
	/* RabbitMQ lets a connection declare its own again. */
	rig_want(one, rig_claim, channel, "ccd-1-B", BROKER_OK);
	rig_want(one, rig_drop, channel, "ccd-1-B", BROKER_OK);
	rig_want(one, rig_drop, channel, "ccd-1-B", BROKER_OK);
	answer = rig_answer(rig_ask(one, broker_check, channel, "ccd-1-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_ABSENT);
	ck_assert(!answer->reply.channel_open);
	ck_assert_int_eq(answer->reply.code, 404);
	ck_assert_ptr_nonnull(strstr(answer->text, "NOT_FOUND - no queue 'ccd-1-B'"));
	ck_assert_uint_eq(one->channels_closed, 1);
	ck_assert_uint_eq(one->closed_channel, channel);
	ck_assert_int_eq(one->closed_code, 404);
}
END_TEST

/* The queue is the connection's, whichever channel declared it. */
START_TEST(test_contended)
{
	struct rig_broker *one = rig_open_up(), *two = rig_open_up();
	uint64_t mine = rig_take(one, BROKER_LOCKS), theirs = rig_take(two, BROKER_LOCKS);
	const struct rig_answer *answer;

	rig_want(one, rig_claim, mine, "contended-1-B", BROKER_OK);
	answer = rig_answer(rig_ask(two, rig_claim, theirs, "contended-1-B"));
	ck_assert_int_eq(answer->reply.answer, BROKER_LOCKED);
	ck_assert_int_eq(answer->reply.code, 405);
	ck_assert(!answer->reply.channel_open);
	theirs = rig_take(two, BROKER_LOCKS);
	rig_want(two, broker_check, theirs, "contended-1-B", BROKER_LOCKED);
	theirs = rig_take(two, BROKER_LOCKS);
	rig_want(two, rig_drop, theirs, "contended-1-B", BROKER_LOCKED);
	/* Gone with its owner, and free for the other within a moment. */
	broker_stop(one->broker);
	for (int64_t end = rig_now() + NSEC_PER_SEC;;) {
		theirs = rig_take(two, BROKER_LOCKS);
		answer = rig_answer(rig_ask(two, rig_claim, theirs, "contended-1-B"));
		if (answer->reply.answer == BROKER_OK)
			break;
		ck_assert_int_lt(rig_now(), end);
	}
}
END_TEST

START_TEST(test_skipped_behind_a_failure)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	unsigned claim = rig_ask(one, rig_claim, channel, "skip-1-B");
	unsigned check = rig_ask(one, broker_check, channel, "skip-1-A");
	unsigned behind = rig_ask(one, rig_drop, channel, "skip-1-B");
	unsigned late;

	ck_assert_int_eq(rig_answer(behind)->reply.answer, BROKER_SKIPPED);
	ck_assert(!rig_answer(behind)->reply.channel_open);
	ck_assert_int_eq(rig_answer(claim)->reply.answer, BROKER_OK);
	ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_ABSENT);
	ck_assert_uint_lt(rig_answer(claim)->order, rig_answer(check)->order);
	ck_assert_uint_lt(rig_answer(check)->order, rig_answer(behind)->order);
	late = rig_ask(one, rig_drop, channel, "skip-1-B");
	ck_assert_int_eq(rig_answer(late)->reply.answer, BROKER_SKIPPED);
	/* The drop was not performed: B is still there, and still ours. */
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), "skip-1-B", BROKER_OK);
}
END_TEST

/*
 * The numbers of channels that were closed are used again: 300 failures need no more than the pool.
 */
START_TEST(test_numbers_are_reused)
{
	struct rig_broker *one = rig_open_up();
	struct amqp_counts counts;

	for (int i = 0; i < 100; i++) {
		uint64_t channels[3];
		unsigned asked[3];

		for (int j = 0; j < 3; j++) {
			channels[j] = rig_take(one, BROKER_LOCKS);
			asked[j] = rig_ask(one, broker_check, channels[j], "reuse-none");
		}
		for (int j = 0; j < 3; j++)
			ck_assert_int_eq(rig_answer(asked[j])->reply.answer, BROKER_ABSENT);
	}
	counts = rig_counts(one, BROKER_LOCKS);
	ck_assert_uint_eq(counts.channels_opened, 300);
	ck_assert_uint_eq(counts.channels_closed_by_broker, 300);
	ck_assert_uint_eq(one->channels_closed, 300);
	ck_assert_uint_eq(rig_info(one).channels, 0);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
}
END_TEST

/* A channel for each hold, the pool keeps some of them. */
START_TEST(test_many_channels)
{
	enum { MANY = 500 };
	struct rig_broker *one = rig_open_up();
	uint64_t channels[MANY];
	unsigned asked[MANY];
	char queue[MANY][32];

	for (int i = 0; i < MANY; i++) {
		snprintf(queue[i], sizeof(queue[i]), "many-%d-B", i);
		channels[i] = rig_take(one, BROKER_LOCKS);
		ck_assert_uint_ne(channels[i], 0);
		asked[i] = rig_ask(one, rig_claim, channels[i], queue[i]);
	}
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(rig_answer(asked[i])->reply.answer, BROKER_OK);
	ck_assert_uint_eq(rig_info(one).channels, MANY);
	ck_assert_uint_ge(rig_info(one).channels_max, 2047);
	for (int i = 0; i < MANY; i++)
		asked[i] = rig_ask(one, rig_drop, channels[i], queue[i]);
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(rig_answer(asked[i])->reply.answer, BROKER_OK);
		rig_put(one, channels[i]);
	}
	rig_wait(rig_info(one).channels == AMQP_CHANNELS_IDLE);
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).channels_opened, MANY);
	rig_want(one, broker_check, rig_take(one, BROKER_LOCKS), queue[0], BROKER_ABSENT);
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).channels_opened, MANY);
	ck_assert_uint_eq(one->channels_closed, 1);
}
END_TEST

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

START_TEST(test_put_of_a_channel_that_is_gone)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channel = rig_take(one, BROKER_LOCKS);
	unsigned check = rig_ask(one, broker_check, channel, "put-none");

	ck_assert_int_eq(rig_answer(check)->reply.answer, BROKER_ABSENT);
	ck_assert_uint_eq(one->channels_closed, 1);
	rig_put(one, channel); /* gone: fine */
	rig_put(one, 4711 << 1);
	ck_assert_uint_ne(rig_take(one, BROKER_LOCKS), channel);
}
END_TEST

START_TEST(test_info)
{
	struct rig_broker *one = rig_open_up();
	struct broker_info info = rig_info(one);

	ck_assert_str_eq(info.product, "RabbitMQ");
	ck_assert_str_ne(info.version, "");
	ck_assert_str_ne(info.cluster, "");
	ck_assert_str_eq(info.why, "");
	ck_assert_int_eq(info.heartbeat, 10);
	ck_assert(info.persistent);
	ck_assert_int_eq(
	    info.deletes_by_name, amqp_server_deletes_by_name(info.product, info.version));
	ck_assert_int_eq(info.hides_queues, amqp_server_hides_queues(info.product, info.version));
}
END_TEST

START_TEST(test_versions_that_delete_by_name)
{
	static const char *const yes[] = {
	    "3.10.8", "3.13.7", "4.0.5", "4.0.99", "4.1.7", "4.2.2", "4.x"};
	static const char *const no[] = {"4.1.8", "4.2.3", "4.3.0", "5.0.0"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		ck_assert_msg(amqp_server_deletes_by_name("RabbitMQ", yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++) {
		ck_assert_msg(!amqp_server_deletes_by_name("RabbitMQ", no[i]), "%s", no[i]);
		ck_assert_msg(amqp_server_deletes_by_name("another", no[i]), "%s", no[i]);
	}
}
END_TEST

START_TEST(test_versions_that_hide_queues)
{
	static const char *const yes[] = {"3.8.0", "3.10.25", "2.9.9", "x"};
	static const char *const no[] = {"3.11.0", "3.13.7", "4.0.5", "5.0.0"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		ck_assert_msg(amqp_server_hides_queues("RabbitMQ", yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++) {
		ck_assert_msg(!amqp_server_hides_queues("RabbitMQ", no[i]), "%s", no[i]);
		ck_assert_msg(amqp_server_hides_queues("another", no[i]), "%s", no[i]);
	}
}
END_TEST

Suite *
channels_suite(void)
{
	Suite *suite = suite_create("channels");
	TCase *tcase = tcase_create("channels");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_claim_check_drop);
	tcase_add_test(tcase, test_contended);
	tcase_add_test(tcase, test_skipped_behind_a_failure);
	tcase_add_test(tcase, test_numbers_are_reused);
	tcase_add_test(tcase, test_many_channels);
	tcase_add_test(tcase, test_one_flush);
	tcase_add_test(tcase, test_open_goes_with_the_first_request);
	tcase_add_test(tcase, test_put_of_a_channel_that_is_gone);
	tcase_add_test(tcase, test_info);
	tcase_add_test(tcase, test_versions_that_delete_by_name);
	tcase_add_test(tcase, test_versions_that_hide_queues);
	suite_add_tcase(suite, tcase);
	return suite;
}
