/*
 * Wait queues: the order, age and number of hints, and the creation and deletion of
 * wait queues.
 */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

#define MANY 200

static struct rig_broker *one, *two, *three;

static void
setup(void)
{
	server_setup();
	one = rig_open_up();
	two = rig_open_up();
	three = rig_open_up();
}

static unsigned
hints(const struct rig_broker *rig)
{
	return rig_wait_queue_told(rig, NULL, BROKER_WAIT_QUEUE_HINT);
}

/* Of the last hint. */
static const struct rig_wait_queue_news *
last_hint(const struct rig_broker *rig)
{
	unsigned i = rig->line_count;

	while (i > 0 && rig->lines[i - 1].news != BROKER_WAIT_QUEUE_HINT)
		i--;
	ck_assert_uint_gt(i, 0);
	return &rig->lines[i - 1];
}

static void
joined(struct rig_broker *rig, const char *queue, int priority, unsigned credit)
{
	unsigned before = rig_wait_queue_told(rig, queue, BROKER_WAIT_QUEUE_JOINED);

	rig_join(rig, queue, priority, credit);
	rig_wait(rig_wait_queue_told(rig, queue, BROKER_WAIT_QUEUE_JOINED) == before + 1);
}

START_TEST(consumers_of_one_priority_take_turns)
{
	joined(one, "turns-W", 5, 1);
	joined(two, "turns-W", 5, 1);
	for (int slot = 1; slot <= 40; slot++) {
		const struct rig_broker *next = slot % 2 == 1 ? one : two;

		rig_wake(three, "turns-W", slot);
		rig_wait(hints(one) + hints(two) == (unsigned)slot);
		ck_assert_int_eq(last_hint(next)->slot, slot);
		ck_assert_int_eq(last_hint(next)->priority, 5);
	}
	ck_assert_uint_eq(hints(one), 20);
	ck_assert_uint_eq(rig_wait_queue_told(three, NULL, BROKER_WAIT_QUEUE_NOBODY), 0);
	/* Nothing of it on the lock connection. */
	ck_assert_uint_eq(rig_counts(one, BROKER_LOCKS).sent_consumes, 0);
	ck_assert_uint_eq(rig_counts(three, BROKER_LOCKS).sent_publishes, 0);
}
END_TEST

START_TEST(the_highest_priority_goes_first)
{
	joined(one, "first-W", 1, 4);
	joined(two, "first-W", 9, 4);
	joined(one, "first-W", 5, 4);
	for (unsigned i = 1; i <= 20; i++) {
		rig_wake(three, "first-W", 1);
		rig_wait(hints(two) == i);
	}
	rig_leave_wait_queue(two, "first-W", 9);
	rig_wait(rig_count(three, "first-W") == 2);
	rig_wake(three, "first-W", 1);
	rig_wait(hints(one) == 1);
	ck_assert_int_eq(last_hint(one)->priority, 5);
}
END_TEST

START_TEST(a_wait_queue_comes_and_goes_with_its_consumers)
{
	static const char *const queue = "comes-W";

	ck_assert_int_eq(rig_count(three, queue), 0);
	ck_assert_int_eq(rig_probe(three, &queue, 1)[0], BROKER_ABSENT);
	joined(one, queue, 5, 1);
	joined(one, queue, 7, 1);
	joined(two, queue, 5, 1);
	ck_assert_int_eq(rig_count(three, queue), 3);
	rig_leave_wait_queue(one, queue, 7);
	rig_leave_wait_queue(one, queue, 6);
	rig_leave_wait_queue(one, queue, 5);
	rig_wait(rig_count(three, queue) == 1);
	rig_leave_wait_queue(two, queue, 5);
	rig_wait(rig_count(three, queue) == 0);
	ck_assert_int_eq(rig_probe(three, &queue, 1)[0], BROKER_ABSENT);
	ck_assert_uint_eq(rig_wait_queue_told(one, queue, BROKER_WAIT_QUEUE_LEFT), 0);
}
END_TEST

START_TEST(counts_of_queues_that_are_no_wait_queue)
{
	uint64_t channel = rig_take(two, BROKER_LOCKS);

	rig_want(two, rig_claim, channel, "counts-1-B", BROKER_OK);
	ck_assert_int_eq(rig_count(one, "counts-1-B"), -1);
	ck_assert_int_eq(rig_count(one, "counts-none"), 0);
	joined(one, "counts-W", 5, 1);
	ck_assert_int_eq(rig_count(one, "counts-W"), 1);
}
END_TEST

/* Many at once, each other one absent: each answer is to its own question. */
static int counted[MANY];

static void
on_counted(void *ctx, uint64_t id, int consumers)
{
	(void)ctx;
	ck_assert_int_eq(counted[id], -2);
	counted[id] = consumers;
}

START_TEST(many_counts)
{
	joined(one, "many-W", 5, 1);
	for (uint64_t i = 0; i < MANY; i++) {
		counted[i] = -2;
		broker_wait_queue_count(two->broker, i % 3 == 0 ? "many-W" : "many-none",
		    (struct broker_count_done){.fn = on_counted, .id = i});
	}
	rig_wait(counted[MANY - 1] != -2);
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(counted[i], i % 3 == 0);
	for (uint64_t i = 0; i < MANY; i++) {
		counted[i] = -2;
		broker_wait_queue_count(
		    two->broker, "many-W", (struct broker_count_done){.fn = on_counted, .id = i});
	}
	broker_reset(two->broker, BROKER_AUXILIARY, "for the test");
	rig_wait(two->state[BROKER_AUXILIARY] == BROKER_DOWN);
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(counted[i], -1);
}
END_TEST

START_TEST(no_wait_queue_no_waiter)
{
	static const char *const plain = "nobody-1-A";
	uint64_t channel = rig_take(one, BROKER_AUXILIARY);

	for (int slot = 1; slot <= 3; slot++)
		rig_wake(one, "nobody-W", slot);
	rig_wait(rig_wait_queue_told(one, "nobody-W", BROKER_WAIT_QUEUE_NOBODY) == 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(one->lines[i].slot, i + 1);
	/* Such hints are not kept: a later consumer gets none. */
	joined(two, "nobody-W", 5, 1);
	rig_want(one, broker_declare_slot, channel, plain, BROKER_OK);
	rig_wake(one, plain, 1);
	rig_want(one, broker_delete_slot, channel, plain, BROKER_OK);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(hints(two), 0);
	ck_assert_uint_eq(one->line_count, 3);
}
END_TEST

/* A consumer that does not read, like a stopped process. Its hints are requeued in the end. */
START_TEST(a_hint_is_there_for_two_seconds)
{
	static const char *const queue = "ttl-W";
	struct client *client = client_new();
	int64_t until;

	/*
	 * Held by a consumer that reads nothing, and another queue's channel: as foreign as can be.
	 */
	client_want(client_declare(client, queue, CLIENT_WAIT_QUEUE), "ok 0 0");
	client_want(client_consume(client, queue, CLIENT_UNREAD, 9), "ok");
	rig_wake(three, queue, 1); /* unread for good */
	rig_wake(three, queue, 2); /* ready */
	rig_wait(rig_count(three, queue) == 1);
	joined(one, queue, 5, 4);
	rig_wait(hints(one) == 1);
	ck_assert_int_eq(last_hint(one)->slot, 2);
	rig_leave_wait_queue(one, queue, 5);
	rig_wait(rig_count(three, queue) == 1);
	rig_wake(three, queue, 3);
	until = rig_now() + BROKER_HINT_TTL;
	while (rig_now() < until + NSEC_PER_SEC / 2)
		rig_pass();
	joined(one, queue, 5, 4);
	/* Nor is that there which the other had not read. */
	client_end(client);
	rig_wait(rig_count(three, queue) == 1);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(hints(one), 1);
}
END_TEST

/* The old consumer goes after the new one has come: the wait queue is there all the time. */
START_TEST(credit_changes)
{
	static const char *const queue = "credit-W";

	joined(one, queue, 5, 1);
	for (unsigned credit = 2; credit <= 12; credit++) {
		rig_join(one, queue, 5, credit);
		rig_wake(three, queue, (int)credit);
	}
	rig_wait(hints(one) == 11);
	/* Placed once for all those that were wanted while another was being placed. */
	rig_wait(rig_count(three, queue) == 1);
	rig_wake(three, queue, 2);
	rig_wait(hints(one) == 12);
	ck_assert_uint_eq(rig_wait_queue_told(one, queue, BROKER_WAIT_QUEUE_JOINED), 1);
	ck_assert_uint_eq(rig_wait_queue_told(three, queue, BROKER_WAIT_QUEUE_NOBODY), 0);
	rig_leave_wait_queue(one, queue, 5);
	rig_wait(rig_count(three, queue) == 0);
	ck_assert_uint_eq(rig_counts(one, BROKER_AUXILIARY).channels_closed_by_broker, 0);
}
END_TEST

/* The wait queue ends with its last member, and is made again at once (consumers.c, END_REST). */
START_TEST(a_member_that_is_back_at_once_hears)
{
	char queue[32];

	for (unsigned i = 0; i < 20; i++) {
		snprintf(queue, sizeof(queue), "back-%u-W", i);
		joined(one, queue, 5, 1);
		rig_leave_wait_queue(one, queue, 5);
		if (i % 2 == 0)
			rig_pass();
		joined(one, queue, 5, 1);
		rig_wake(three, queue, 1);
		rig_wait(hints(one) == i + 1);
	}
}
END_TEST

/* A wait queue keeps 64 hints, and the newest ones. */
START_TEST(at_most_so_many_and_the_oldest_go)
{
	static const char *const queue = "most-W";
	struct client *client = client_new();
	char number[16];

	client_want(client_declare(client, queue, CLIENT_WAIT_QUEUE), "ok 0 0");
	client_want(client_consume(client, queue, CLIENT_UNREAD, 9), "ok");
	joined(one, queue, 5, 1);
	rig_leave_wait_queue(one, queue, 5);
	rig_wait(rig_count(three, queue) == 1);
	for (int i = 0; i < 1 + 64 + 3; i++) {
		const struct client_message message = {.queue = queue, .number = number};

		snprintf(number, sizeof(number), "%d", i);
		client_want(client_send(client, &message), "ok");
	}
	client_want(client_declare(client, queue, CLIENT_PASSIVE), "ok 64 1");
	joined(one, queue, 5, 1);
	rig_wait(hints(one) == 64);
	ck_assert_int_eq(last_hint(one)->slot, 67);
	ck_assert_int_eq(one->lines[2].slot, 4);
	/* The message that was not acknowledged is put back, and replaces no other. */
	client_close(client);
	rig_wait(hints(one) == 65);
	ck_assert_int_eq(last_hint(one)->slot, 0);
}
END_TEST

/*
 * Joined and left at once, over and over, by two: with 404s between declare and consume, or none.
 */
START_TEST(a_wait_queue_is_deleted_while_others_join)
{
	static const char *const queue = "flicker-W";

	for (int i = 0; i < 100; i++) {
		rig_join(one, queue, 5, 1);
		rig_join(two, queue, 5, 1);
		if (i % 3 == 0)
			rig_pass();
		rig_leave_wait_queue(one, queue, 5);
		if (i % 3 == 1)
			rig_pass();
		rig_leave_wait_queue(two, queue, 5);
		rig_pass();
	}
	joined(one, queue, 5, 1);
	joined(two, queue, 5, 1);
	/*
	 * Consumers that are not wanted any more are cancelled when they are answered. A hint that
	 * went to one of them could expire.
	 */
	rig_wait(rig_count(three, queue) == 2);
	rig_wake(three, queue, 1);
	rig_wait(hints(one) + hints(two) == 1);
	ck_assert_uint_eq(one->events[BROKER_AUXILIARY], 1);
}
END_TEST

START_TEST(the_auxiliary_connection_goes_and_comes)
{
	static const char *const queue = "cut-W";

	joined(one, queue, 5, 1);
	joined(one, queue, 6, 1);
	joined(two, queue, 5, 1);
	broker_reset(one->broker, BROKER_AUXILIARY, "for the test");
	rig_wait(rig_wait_queue_told(one, queue, BROKER_WAIT_QUEUE_LEFT) == 2);
	/* Owed, each once. */
	for (int i = 0; i < 3; i++) {
		rig_wake(one, queue, 1);
		rig_wake(one, queue, 2);
		rig_wake(one, "cut-none-W", 1);
	}
	rig_wait(rig_wait_queue_told(one, queue, BROKER_WAIT_QUEUE_JOINED) == 4);
	rig_wait(hints(one) + hints(two) == 2);
	rig_wait(rig_wait_queue_told(one, "cut-none-W", BROKER_WAIT_QUEUE_NOBODY) == 1);
	ck_assert_int_eq(rig_count(three, queue), 3);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(hints(one) + hints(two), 2);
}
END_TEST

/* Nobody else needs the link. */
START_TEST(the_link_is_brought_up_for_a_hint)
{
	joined(two, "brought-W", 5, 1);
	ck_assert_uint_eq(one->events[BROKER_AUXILIARY], 0);
	rig_wake(one, "brought-W", 4);
	rig_wait(hints(two) == 1);
	ck_assert_int_eq(last_hint(two)->slot, 4);
}
END_TEST

START_TEST(the_wait_queue_is_deleted)
{
	static const char *const queue = "deleted-W";

	joined(one, queue, 5, 1);
	joined(two, queue, 5, 1);
	client_want(client_delete(client_new(), queue, 0), "ok");
	rig_wait(rig_wait_queue_told(one, queue, BROKER_WAIT_QUEUE_JOINED) == 2);
	rig_wait(rig_wait_queue_told(two, queue, BROKER_WAIT_QUEUE_JOINED) == 2);
	ck_assert_uint_eq(rig_wait_queue_told(one, queue, BROKER_WAIT_QUEUE_LEFT), 1);
	rig_wake(three, queue, 1);
	rig_wait(hints(one) + hints(two) == 1);
}
END_TEST

/* Any message that others publish to the wait queue is a hint. */
START_TEST(any_message_is_a_hint)
{
	static const struct {
		const char *says;
		int slot;
	} tries[] = {{NULL, 0}, {"", 0}, {"7", 7}, {"12345678901234567890", 0}, {"x", 0}, {"-1", 0},
	    {"1 ", 0}, {"10000", 10000}};
	static const size_t count = sizeof(tries) / sizeof(tries[0]);
	static char large[20000];
	struct client_message message = {.queue = "foreign-W"};
	struct client *client = client_new();

	joined(one, "foreign-W", 5, 1);
	for (size_t i = 0; i < count; i++) {
		message.number = tries[i].says;
		client_want(client_send(client, &message), "ok");
		rig_wait(hints(one) == i + 1);
		ck_assert_int_eq(last_hint(one)->slot, tries[i].slot);
	}
	memset(large, '1', sizeof(large) - 1);
	client_want(client_publish(client, "foreign-W", large), "ok");
	rig_wait(hints(one) == count + 1);
	ck_assert_int_eq(last_hint(one)->slot, 0);
}
END_TEST

/*
 * A queue of that name that is no wait queue: refused, said once, and no other is the worse for it.
 */
START_TEST(refused_and_tried_rarely)
{
	static const enum client_queue kinds[] = {CLIENT_SLOT, CLIENT_EXCLUSIVE};
	struct client *client = client_new();

	client_want(client_declare(client, "refused-W", kinds[_i]), "ok 0 0");
	rig_join(one, "refused-W", 5, 1);
	joined(one, "refused-not-W", 5, 1);
	rig_wait(rig_counts(one, BROKER_AUXILIARY).channels_closed_by_broker == 1);
	rig_pass_for(200 * NSEC_PER_MSEC);
	ck_assert_uint_eq(rig_wait_queue_told(one, "refused-W", BROKER_WAIT_QUEUE_JOINED), 0);
	ck_assert_uint_eq(rig_counts(one, BROKER_AUXILIARY).channels_closed_by_broker, 1);
	rig_leave_wait_queue(one, "refused-W", 5);
	client_want(client_delete(client, "refused-W", 0), "ok");
	joined(one, "refused-W", 5, 1);
}
END_TEST

START_TEST(many_wait_queues)
{
	static char names[MANY][32];

	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "many-%d-W", i);
		rig_join(one, names[i], 0, 2);
		rig_join(two, names[i], 0, 2);
	}
	rig_wait(rig_wait_queue_told(one, NULL, BROKER_WAIT_QUEUE_JOINED) == MANY);
	rig_wait(rig_wait_queue_told(two, NULL, BROKER_WAIT_QUEUE_JOINED) == MANY);
	for (int i = 0; i < MANY; i++)
		rig_wake(three, names[i], i + 1);
	rig_wait(hints(one) + hints(two) == MANY);
	for (int i = 0; i < MANY; i++) {
		rig_leave_wait_queue(one, names[i], 0);
		rig_leave_wait_queue(two, names[i], 0);
	}
	for (int i = 0; i < MANY; i++)
		rig_wait(rig_count(three, names[i]) == 0);
}
END_TEST

/* Each priority of a wait queue has a consumer of its own. They share channels. */
START_TEST(many_priorities)
{
	static const char *const queue = "priorities-W";

	for (int priority = 0; priority < MANY; priority++)
		rig_join(one, queue, priority, 1);
	rig_wait(rig_wait_queue_told(one, queue, BROKER_WAIT_QUEUE_JOINED) == MANY);
	ck_assert_int_eq(rig_count(three, queue), MANY);
	for (int priority = MANY - 1; priority >= 0; priority--) {
		rig_wake(three, queue, 1);
		rig_wait(hints(one) == (unsigned)(MANY - priority));
		ck_assert_int_eq(last_hint(one)->priority, priority);
		rig_leave_wait_queue(one, queue, priority);
		if (priority % 50 == 0)
			rig_wait(rig_count(three, queue) == priority);
	}
	ck_assert_uint_eq(rig_counts(one, BROKER_AUXILIARY).channels_closed_by_broker, 0);
}
END_TEST

/* A hint to a consumer that has just left is not lost: the next one gets it. */
START_TEST(a_hint_for_a_consumer_that_leaves_goes_to_the_next)
{
	static const char *const queue = "leaves-W";

	joined(two, queue, 0, 4);
	for (unsigned i = 1; i <= 50; i++) {
		joined(one, queue, 5, 1);
		rig_wake(three, queue, (int)i);
		if (i % 2 == 0)
			rig_pass();
		rig_leave_wait_queue(one, queue, 5);
		rig_wait(hints(one) + hints(two) == i);
	}
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(hints(one) + hints(two), 50);
	ck_assert_int_eq(rig_count(three, queue), 1);
}
END_TEST

/*
 * Owed during an alarm. The lock connection continues, and so do connections that do not publish.
 */
START_TEST(hints_are_owed_during_an_alarm)
{
	static const char *const queue = "alarm-W";

	joined(two, queue, 5, 1);
	rig_wake(one, queue, 1);
	rig_wait(hints(two) == 1);
	server->alarm(true);
	/* The first publish after it comes through, and says so. */
	rig_wake(one, queue, 2);
	rig_wait(rig_info(one).auxiliary_blocked);
	rig_wait(hints(two) == 2);
	rig_wake(one, queue, 3);
	rig_wake(one, queue, 3);
	joined(three, queue, 4, 1);
	rig_pass_for(200 * NSEC_PER_MSEC);
	ck_assert_uint_eq(hints(two), 2);
	server->alarm(false);
	rig_wait(hints(two) == 3);
	ck_assert_int_eq(last_hint(two)->slot, 3);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(hints(two) + hints(three), 3);
}
END_TEST

Suite *
wait_queues_suite(void)
{
	Suite *suite = suite_create("wait queues");
	TCase *tcase = tcase_create("wait queues");

	tcase_add_checked_fixture(tcase, setup, server_teardown);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, consumers_of_one_priority_take_turns);
	tcase_add_test(tcase, the_highest_priority_goes_first);
	tcase_add_test(tcase, a_wait_queue_comes_and_goes_with_its_consumers);
	tcase_add_test(tcase, counts_of_queues_that_are_no_wait_queue);
	tcase_add_test(tcase, many_counts);
	tcase_add_test(tcase, no_wait_queue_no_waiter);
	tcase_add_test(tcase, a_hint_is_there_for_two_seconds);
	tcase_add_test(tcase, credit_changes);
	tcase_add_test(tcase, at_most_so_many_and_the_oldest_go);
	tcase_add_test(tcase, a_member_that_is_back_at_once_hears);
	tcase_add_test(tcase, a_wait_queue_is_deleted_while_others_join);
	tcase_add_test(tcase, the_auxiliary_connection_goes_and_comes);
	tcase_add_test(tcase, the_link_is_brought_up_for_a_hint);
	tcase_add_test(tcase, the_wait_queue_is_deleted);
	tcase_add_test(tcase, any_message_is_a_hint);
	tcase_add_loop_test(tcase, refused_and_tried_rarely, 0, 2);
	tcase_add_test(tcase, many_wait_queues);
	tcase_add_test(tcase, many_priorities);
	tcase_add_test(tcase, a_hint_for_a_consumer_that_leaves_goes_to_the_next);
	tcase_add_test(tcase, hints_are_owed_during_an_alarm);
	suite_add_tcase(suite, tcase);
	return suite;
}
