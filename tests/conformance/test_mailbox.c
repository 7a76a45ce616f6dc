/*
 * Messages between daemons: receivers of a question, routes of replies, and rejected
 * messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

#define LARGE 51200

static struct rig_broker *one, *two, *three;

static uint64_t
ask(struct rig_broker *rig, const char *text)
{
	uint64_t number = rig_ask_all(rig, text, strlen(text));

	ck_assert_uint_ne(number, 0);
	return number;
}

static bool
heard(const struct rig_broker *rig, const char *text)
{
	for (unsigned i = 0; i < rig->message_count; i++)
		if (!strcmp(rig->messages[i].text, text))
			return true;
	return false;
}

/* Each of them reaches both others: all inboxes are open. No question is on its way afterwards. */
static void
meet(void)
{
	rig_wait_for(30, (ask(one, "hello"), rig_pass_for(50 * NSEC_PER_MSEC),
			     heard(two, "hello") && heard(three, "hello")));
	rig_wait_for(
	    30, (ask(two, "and you?"), rig_pass_for(50 * NSEC_PER_MSEC), heard(one, "and you?")));
	ask(one, "well met");
	ask(two, "so are you");
	rig_wait(heard(two, "well met") && heard(three, "well met"));
	rig_wait(heard(one, "so are you") && heard(three, "so are you"));
	one->message_count = two->message_count = three->message_count = 0;
}

static void
setup(void)
{
	server_setup();
	one = rig_open_up();
	two = rig_open_up();
	three = rig_open_up();
	rig_inbox(one, true);
	rig_inbox(two, true);
	rig_inbox(three, true);
	meet();
}

static const struct rig_message *
last_of(const struct rig_broker *rig)
{
	ck_assert_uint_gt(rig->message_count, 0);
	return &rig->messages[rig->message_count - 1];
}

START_TEST(all_others_hear_and_answer)
{
	uint64_t number = ask(one, "who waits?");

	rig_wait(two->message_count == 1 && three->message_count == 1);
	ck_assert_str_eq(last_of(two)->text, "who waits?");
	ck_assert_uint_ne(last_of(two)->from, 0);
	ck_assert_uint_eq(last_of(two)->asked, 0);
	/* Vouched for by the broker. */
	ck_assert_str_eq(last_of(two)->user, rig_host().user);
	rig_reply(two, last_of(two)->from, "two", 3);
	rig_reply(three, last_of(three)->from, "three", 5);
	rig_reply(three, last_of(three)->from, "and more", 8);
	rig_reply(three, last_of(three)->from + 1, "of nothing", 10);
	rig_wait(one->message_count == 3);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(one->messages[i].asked, number);
		ck_assert_uint_eq(one->messages[i].from, 0);
		ck_assert_str_eq(one->messages[i].user, rig_host().user);
	}
	/* No daemon gets its own messages, or those for others. */
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(one->message_count, 3);
	ck_assert_uint_eq(two->message_count, 1);
	ck_assert_uint_eq(three->message_count, 1);
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).sent_publishes, 0);
}
END_TEST

/* In several frames, there and back, between others. */
START_TEST(large_messages)
{
	static const size_t sizes[] = {0, 1, 8183, 8184, 8185, 16368, LARGE, BROKER_MESSAGE_MAX};
	static const unsigned count = sizeof(sizes) / sizeof(sizes[0]);
	char *text = mem_alloc(BROKER_MESSAGE_MAX);

	for (size_t i = 0; i < BROKER_MESSAGE_MAX; i++)
		text[i] = (char)('a' + i * i % 23);
	for (unsigned i = 0; i < count; i++) {
		rig_ask_all(one, text, sizes[i]);
		rig_wait(two->message_count == i + 1 && three->message_count == i + 1);
		ck_assert_uint_eq(last_of(two)->len, sizes[i]);
		ck_assert_uint_eq(last_of(two)->sum, rig_sum(text, sizes[i]));
		rig_reply(two, last_of(two)->from, text, sizes[i]);
		rig_reply(three, last_of(three)->from, text, sizes[i]);
		rig_wait(one->message_count == 2 * i + 2);
		ck_assert_uint_eq(last_of(one)->len, sizes[i]);
		ck_assert_uint_eq(last_of(one)->sum, rig_sum(text, sizes[i]));
	}
	free(text);
}
END_TEST

/* At once, and no more than an inbox has room for: one's own questions come to it, too. */
START_TEST(many_messages)
{
	enum { MANY = 80 };
	static char text[LARGE];

	memset(text, 'x', sizeof(text));
	two->answers = three->answers = true;
	for (unsigned i = 0; i < MANY; i++)
		rig_ask_all(one, text, i % 10 == 0 ? sizeof(text) : 10);
	rig_wait_for(20, one->message_count == 2 * MANY);
	ck_assert_uint_eq(two->message_count, MANY);
	ck_assert_uint_eq(one->events[BROKER_AUXILIARY], 1);
}
END_TEST

/* A daemon without an open inbox can ask, too: the question is sent when there is one. */
START_TEST(query_opens_an_inbox)
{
	struct rig_broker *four = rig_open_up();
	unsigned threes, fours;

	ck_assert_int_eq(four->state[BROKER_AUXILIARY], BROKER_DOWN);
	two->answers = true;
	ask(four, "who?");
	rig_wait(four->message_count == 1);
	ck_assert_str_eq(last_of(four)->text, "here");
	/* And hears others. */
	ask(one, "who?");
	rig_wait(four->message_count == 2);
	/* Its inbox can be closed, as it alone of the three has asked nothing. */
	rig_wait(three->message_count == 2);
	rig_inbox(three, false);
	rig_wait((threes = three->message_count, fours = four->message_count, ask(one, "who?"),
	    rig_pass_for(100 * NSEC_PER_MSEC),
	    three->message_count == threes && four->message_count == fours + 1));
}
END_TEST

/* It says where its reply is to go. None goes anywhere but to an inbox. */
START_TEST(forged)
{
	static const char *const queue = "forged-1-B";
	static char large[BROKER_MESSAGE_MAX + 1];
	struct client *client = client_new(), *other = client_new();
	struct client_message message = {.exchange = "lockbroker=ask", .body = "who?", .len = 4};
	static const struct {
		const char *number, *reply_to;
	} wrong[] = {{"7", queue}, {"7", NULL}, {"x", "lockbroker=inbox=mine"},
	    {NULL, "lockbroker=inbox=mine"}};

	client_want(client_declare(client, queue, CLIENT_TRANSIENT), "ok 0 0");
	client_want(client_declare(client, "lockbroker=inbox=mine", CLIENT_TRANSIENT), "ok 0 0");
	one->answers = two->answers = three->answers = true;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		message.number = wrong[i].number;
		message.reply_to = wrong[i].reply_to;
		client_want(client_send(client, &message), "ok");
	}
	message.number = "7";
	message.reply_to = "lockbroker=inbox=mine";
	memset(large, 'x', sizeof(large));
	message.body = large;
	message.len = sizeof(large);
	client_want(client_send(client, &message), "ok");
	message.body = "who?";
	message.len = 4;
	client_want(client_send(client, &message), "ok");
	rig_wait(one->message_count > 0 && two->message_count > 0 && three->message_count > 0);
	ck_assert_uint_eq(one->message_count, 1);
	/* The server vouches for no user. */
	ck_assert_str_eq(last_of(one)->user, "");
	for (int i = 0; i < 3; i++)
		rig_wait(strcmp(client_get(client, "lockbroker=inbox=mine"), "got here") == 0);
	client_want(client_get(client, "lockbroker=inbox=mine"), "empty");
	client_want(client_get(client, queue), "empty");
	/* Nor can one say to be another. */
	message.user = "somebody else";
	client_want(client_send(other, &message),
	    "406 PRECONDITION_FAILED - user_id property set to 'somebody else' but authenticated "
	    "user was '");
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(one->message_count, 1);
	client_want(client_delete(client, "lockbroker=inbox=mine", 0), "ok");
	client_want(client_delete(client, queue, 0), "ok");
}
END_TEST

START_TEST(the_auxiliary_connection_goes_and_comes)
{
	uint64_t number;

	three->answers = true;
	broker_reset(one->broker, BROKER_AUXILIARY, "for the test");
	rig_wait(one->state[BROKER_AUXILIARY] == BROKER_DOWN);
	number = ask(one, "late");
	rig_wait(one->message_count == 1);
	ck_assert_uint_eq(last_of(one)->asked, number);
	/* The sender is gone: a reply has no effect. */
	ask(two, "who?");
	rig_wait(one->message_count == 2);
	broker_reset(two->broker, BROKER_AUXILIARY, "for the test");
	rig_wait(two->state[BROKER_AUXILIARY] == BROKER_DOWN);
	rig_wait(two->state[BROKER_AUXILIARY] == BROKER_UP);
	rig_reply(one, last_of(one)->from, "me", 2);
	two->message_count = 0;
	meet();
	ck_assert_uint_eq(rig_counts(one, BROKER_AUXILIARY).channels_closed_by_broker, 0);
}
END_TEST

START_TEST(nobody_asks_in_an_alarm)
{
	ask(one, "who?");
	rig_wait(two->message_count == 1);
	server->alarm(true);
	rig_ask_all(one, "who?", 4);
	rig_wait(rig_info(one).auxiliary_blocked);
	ck_assert_uint_eq(rig_ask_all(one, "who?", 4), 0);
	server->alarm(false);
	rig_wait(!rig_info(one).auxiliary_blocked);
	meet();
}
END_TEST

Suite *
mailbox_suite(void)
{
	Suite *suite = suite_create("messages");
	TCase *tcase = tcase_create("messages");

	tcase_add_checked_fixture(tcase, setup, server_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, all_others_hear_and_answer);
	tcase_add_test(tcase, large_messages);
	tcase_add_test(tcase, many_messages);
	tcase_add_test(tcase, query_opens_an_inbox);
	tcase_add_test(tcase, forged);
	tcase_add_test(tcase, the_auxiliary_connection_goes_and_comes);
	tcase_add_test(tcase, nobody_asks_in_an_alarm);
	suite_add_tcase(suite, tcase);
	return suite;
}
