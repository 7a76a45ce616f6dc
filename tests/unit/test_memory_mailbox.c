/*
 * Messages between daemons over the server in memory: exact times, an inbox that is deleted, limits,
 * and observers that call back. tests/conformance/ has the rest.
 */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/broker/publish.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

/* As daemon/broker/publish.c has them. */
#define MAILBOX_AGAIN (100 * MSEC)

/* Both hear messages. */
static void
setup(void)
{
	rig_channels_of_one = 2047;
	rig_setup();
	broker_inbox_open(one);
	broker_inbox_open(two);
	pass(0);
	ck_saw("auxiliary:up two.auxiliary:up");
}

START_TEST(a_late_reply_is_dropped)
{
	ask(one, "who?");
	pass(0);
	ck_saw("two.asked:who?");
	pass(BROKER_MESSAGE_TTL - MSEC);
	reply(two, rig.from, "me");
	pass(0);
	ck_saw("replied:1=me");
	pass(MSEC);
	reply(two, rig.from, "still me");
	pass(0);
	ck_saw("");
}
END_TEST

START_TEST(a_question_waits_for_its_inbox_so_long_at_most)
{
	memory_broker_cut(one, BROKER_AUXILIARY, 0, BROKER_MESSAGE_TTL, "cut");
	ck_saw("auxiliary:down:cut");
	ask(one, "late");
	pass(1);
	ask(one, "later");
	pass(BROKER_MESSAGE_TTL);
	ck_saw("auxiliary:up two.asked:later");
}
END_TEST

static char inbox[128];

static void
find_inbox(void *ctx, const char *queue, const struct broker *owner)
{
	(void)ctx;
	(void)owner;
	if (strncmp(queue, MAILBOX_INBOX, strlen(MAILBOX_INBOX)) == 0)
		snprintf(inbox, sizeof(inbox), "%s", queue);
}

START_TEST(the_inbox_is_deleted)
{
	broker_inbox_close(two);
	pass(0);
	memory_world_each(world, find_inbox, NULL);
	ck_assert(memory_world_remove(world, inbox));
	broker_inbox_open(two);
	pass(2 * MAILBOX_AGAIN);
	ask(two, "there?");
	pass(0);
	ck_saw("asked:there?");
}
END_TEST

static void
answer_at_once(const struct broker_message *message)
{
	if (message->from != 0)
		broker_reply_to(two, message->from, "here", 4);
}

static void
close_both(const struct broker_message *message)
{
	(void)message;
	broker_inbox_close(one);
	broker_inbox_close(two);
}

static void
stop_two(const struct broker_message *message)
{
	(void)message;
	broker_stop(two);
}

START_TEST(its_observer_may_call_back)
{
	rig.message_heard = answer_at_once;
	ask(one, "there?");
	pass(0);
	ck_saw("two.asked:there? replied:1=here");
	rig.message_heard = close_both;
	ask(one, "there?");
	pass(0);
	ck_saw("two.asked:there?");
	ask(one, "there?");
	pass(0);
	ck_saw("");
	broker_inbox_open(two);
	pass(0);
	rig.message_heard = stop_two;
	ask(one, "there?");
	pass(MSEC);
	ck_saw("two.asked:there?");
	ck_assert_uint_eq(ask(two, "there?"), 0);
	reply(two, rig.from, "me");
	broker_inbox_open(two);
	broker_inbox_close(two);
	pass(MSEC);
}
END_TEST

static void
count_channel(void *ctx, uint64_t channel, bool silent)
{
	(void)channel;
	(void)silent;
	++*(int *)ctx;
}

START_TEST(no_channel_is_left_behind)
{
	int channels = 0;

	ask(one, "a");
	ask(one, "b");
	pass(0);
	ck_saw("two.asked:a two.asked:b");
	reply(two, rig.from, "c");
	pass(0);
	ck_saw("replied:2=c");
	broker_inbox_close(two);
	pass(0);
	memory_broker_each_channel(two, BROKER_AUXILIARY, count_channel, &channels);
	ck_assert_int_eq(channels, 0);
	memory_broker_each_channel(one, BROKER_AUXILIARY, count_channel, &channels);
	ck_assert_int_eq(channels, 1);
}
END_TEST

START_TEST(the_oldest_senders_are_forgotten)
{
	uint64_t first;

	ask(one, "first?");
	pass(0);
	first = rig.from;
	rig.seen[0] = '\0';
	for (int i = 1; i < MAILBOX_SENDERS_MAX; i++) {
		ask(one, "next?");
		pass(0);
		ck_saw("two.asked:next?");
	}
	reply(two, first, "yes");
	pass(0);
	ck_saw("replied:1=yes");
	ask(one, "last?");
	pass(0);
	ck_saw("two.asked:last?");
	reply(two, first, "yes");
	reply(two, rig.from + 1, "never asked");
	reply(two, rig.from, "no");
	pass(0);
	ck_saw("replied:257=no");
}
END_TEST

Suite *
suite_memory_mailbox(void)
{
	Suite *suite = suite_create("memory messages");
	TCase *tc = tcase_create("messages");

	tcase_add_checked_fixture(tc, setup, rig_teardown);
	tcase_add_test(tc, a_late_reply_is_dropped);
	tcase_add_test(tc, a_question_waits_for_its_inbox_so_long_at_most);
	tcase_add_test(tc, the_inbox_is_deleted);
	tcase_add_test(tc, its_observer_may_call_back);
	tcase_add_test(tc, no_channel_is_left_behind);
	tcase_add_test(tc, the_oldest_senders_are_forgotten);
	suite_add_tcase(suite, tc);
	return suite;
}
