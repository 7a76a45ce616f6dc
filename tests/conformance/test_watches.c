/*
 * Watches: deletions are reported, and probes are hardly ever delivered. A watch that is lost is
 * placed again.
 */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/client.h"
#include "tests/conformance/server.h"

#define told(queue, news) rig_told(watcher, (queue), (news))

static struct rig_broker *watcher, *admin;
static uint64_t admin_channel;

static void
open_with(const struct amqp_settings *settings)
{
	watcher = rig_open(settings);
	admin = rig_open_up();
	admin_channel = rig_take(admin, BROKER_AUXILIARY);
	rig_wait(watcher->state[BROKER_LOCKS] == BROKER_UP);
}

static void
open_plain(void)
{
	const struct amqp_host host = rig_host();
	const struct amqp_settings settings = rig_settings(&host, 1);

	open_with(&settings);
}

static void
make(const char *queue)
{
	rig_want(admin, broker_declare_slot, admin_channel, queue, BROKER_OK);
}

static void delete (const char *queue)
{
	rig_want(admin, broker_delete_slot, admin_channel, queue, BROKER_OK);
}

/* Made and watched. */
static void
watched(const char *queue)
{
	unsigned before = told(queue, BROKER_WATCHED);

	make(queue);
	rig_watch(watcher, queue);
	rig_wait(told(queue, BROKER_WATCHED) == before + 1);
}

START_TEST(a_deletion_is_heard)
{
	open_plain();
	for (unsigned i = 0; i < 9; i++) {
		watched("heard-1-A");
		delete ("heard-1-A");
		rig_wait(told("heard-1-A", BROKER_HINT) == i + 1);
	}
	ck_assert_uint_eq(told(NULL, BROKER_UNWATCHED), 0);
	/* Nothing of it on the lock connection. */
	ck_assert_uint_eq(rig_counts(watcher, BROKER_LOCKS).sent_consumes, 0);
}
END_TEST

START_TEST(two_hundred_watches)
{
	enum { MANY = 200 };
	static char names[MANY][32];

	open_plain();
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "many-%d-A", i);
		make(names[i]);
		rig_watch(watcher, names[i]);
	}
	rig_wait(told(NULL, BROKER_WATCHED) == MANY);
	for (int i = 0; i < MANY; i += 10) {
		delete (names[i]);
		rig_wait(told(names[i], BROKER_HINT) == 1);
	}
	ck_assert_uint_eq(told(NULL, BROKER_HINT), MANY / 10);
	for (int i = 1; i < MANY; i++)
		rig_unwatch(watcher, names[i]);
	for (int i = 1; i < MANY; i++)
		delete (names[i]);
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(told(NULL, BROKER_HINT), MANY / 10);
	ck_assert_uint_eq(told(NULL, BROKER_WATCHED), MANY);
	ck_assert_uint_eq(rig_counts(watcher, BROKER_AUXILIARY).channels_closed_by_broker, 0);
}
END_TEST

/* Deleted and made again at once: the watch may miss it, but never misses the next deletion. */
START_TEST(deleted_and_made_again)
{
	enum { ROUNDS = 20 };
	unsigned heard = 0;

	open_plain();
	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned hints = told("again-1-A", BROKER_HINT), gone, back;

		watched("again-1-A");
		gone = rig_ask(admin, broker_delete_slot, admin_channel, "again-1-A");
		back = rig_ask(admin, broker_declare_slot, admin_channel, "again-1-A");
		ck_assert_int_eq(rig_answer(gone)->reply.answer, BROKER_OK);
		ck_assert_int_eq(rig_answer(back)->reply.answer, BROKER_OK);
		for (int64_t end = rig_now() + NSEC_PER_SEC;
		     told("again-1-A", BROKER_HINT) == hints && rig_now() < end;)
			rig_pass();
		heard += told("again-1-A", BROKER_HINT) - hints;
		rig_unwatch(watcher, "again-1-A");
	}
	ck_assert_uint_gt(heard, ROUNDS / 2);
	watched("again-1-A");
	heard = told("again-1-A", BROKER_HINT);
	delete ("again-1-A");
	rig_wait(told("again-1-A", BROKER_HINT) == heard + 1);
}
END_TEST

/* A 404 closes the channel on which others are: they are placed anew. */
START_TEST(an_absent_queue_is_a_hint)
{
	open_plain();
	watched("absent-1-A");
	watched("absent-2-A");
	rig_watch(watcher, "absent-none");
	rig_wait(told("absent-none", BROKER_HINT) == 1);
	rig_wait(told(NULL, BROKER_WATCHED) == 4);
	ck_assert_uint_eq(told("absent-1-A", BROKER_UNWATCHED), 1);
	ck_assert_uint_eq(told("absent-2-A", BROKER_UNWATCHED), 1);
	ck_assert_uint_eq(rig_counts(watcher, BROKER_AUXILIARY).channels_closed_by_broker, 1);
	/* It is no event of a channel of the engine. */
	ck_assert_uint_eq(watcher->channels_closed, 0);
	delete ("absent-2-A");
	delete ("absent-1-A");
	rig_wait(told(NULL, BROKER_HINT) == 3);
	ck_assert_uint_eq(told("absent-none", BROKER_HINT), 1);
}
END_TEST

START_TEST(unwatched_at_any_time)
{
	open_plain();
	make("un-1-A");
	/*
	 * While the auxiliary connection is made; while its consume is on its way; while it is
	 * there.
	 */
	rig_watch(watcher, "un-1-A");
	rig_unwatch(watcher, "un-1-A");
	rig_watch(watcher, "un-1-A");
	rig_watch(watcher, "un-1-A");
	rig_wait(told("un-1-A", BROKER_WATCHED) == 1);
	for (int i = 0; i < 100; i++) {
		rig_unwatch(watcher, "un-1-A");
		rig_watch(watcher, "un-1-A");
	}
	rig_wait(told("un-1-A", BROKER_WATCHED) == 2);
	rig_unwatch(watcher, "un-1-A");
	rig_watch(watcher, "un-1-A");
	rig_unwatch(watcher, "un-1-A");
	rig_unwatch(watcher, "un-1-A");
	delete ("un-1-A");
	rig_pass_for(200 * NSEC_PER_MSEC);
	ck_assert_uint_eq(watcher->news_count, 2);
	ck_assert_uint_eq(watcher->events[BROKER_AUXILIARY], 1);
}
END_TEST

START_TEST(the_auxiliary_connection_dies)
{
	unsigned events;

	open_plain();
	watched("side-1-A");
	watched("side-2-A");
	events = watcher->events[BROKER_LOCKS];
	broker_reset(watcher->broker, BROKER_AUXILIARY, "a test");
	rig_wait(told(NULL, BROKER_UNWATCHED) == 2);
	/* Whether it goes before or after its watch is there again. */
	delete ("side-1-A");
	rig_wait(told("side-1-A", BROKER_HINT) == 1 && told("side-2-A", BROKER_WATCHED) == 2);
	ck_assert_int_eq(watcher->state[BROKER_AUXILIARY], BROKER_UP);
	ck_assert_uint_eq(watcher->events[BROKER_LOCKS], events);
	/* With the lock connection, and both by the broker's own doing. */
	server->close_connections("a test");
	rig_wait(told("side-2-A", BROKER_UNWATCHED) == 2);
	rig_wait_for(30, told("side-2-A", BROKER_WATCHED) >= 3);
	ck_assert_uint_eq(told("side-1-A", BROKER_HINT), 1);
	admin_channel = rig_take(admin, BROKER_AUXILIARY);
	delete ("side-2-A");
	rig_wait(told("side-2-A", BROKER_HINT) == 1);
}
END_TEST

/* A watch keeps the auxiliary connection from resting. */
START_TEST(a_watch_keeps_the_auxiliary_connection)
{
	const struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);

	settings.auxiliary_idle = 100 * NSEC_PER_MSEC;
	open_with(&settings);
	watched("kept-1-A");
	rig_pass_for(400 * NSEC_PER_MSEC);
	ck_assert_int_eq(watcher->state[BROKER_AUXILIARY], BROKER_UP);
	rig_unwatch(watcher, "kept-1-A");
	rig_wait(watcher->state[BROKER_AUXILIARY] == BROKER_DOWN);
	delete ("kept-1-A");
	ck_assert_uint_eq(watcher->news_count, 1);
}
END_TEST

START_TEST(unwatched_after_the_stop)
{
	open_plain();
	watched("stop-1-A");
	broker_stop(watcher->broker);
	rig_unwatch(watcher, "stop-1-A");
	rig_watch(watcher, "stop-1-A");
	delete ("stop-1-A");
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(watcher->news_count, 1);
}
END_TEST

/* Another daemon watches the same queue, and another program deletes it. */
START_TEST(each_watcher_hears)
{
	struct client *client = client_new();

	open_plain();
	watched("each-1-A");
	rig_watch(admin, "each-1-A");
	rig_wait(rig_told(admin, "each-1-A", BROKER_WATCHED) == 1);
	client_want(client_delete(client, "each-1-A", 0), "ok");
	rig_wait(told("each-1-A", BROKER_HINT) == 1);
	rig_wait(rig_told(admin, "each-1-A", BROKER_HINT) == 1);
	/* The watches are over. */
	make("each-1-A");
	delete ("each-1-A");
	rig_pass_for(100 * NSEC_PER_MSEC);
	ck_assert_uint_eq(watcher->news_count, 2);
	ck_assert_uint_eq(admin->news_count, 2);
}
END_TEST

/* Probes of others do not become deliveries: the watch has one, and keeps it for a while. */
START_TEST(probes_are_few_deliveries)
{
	static const char *const queues[] = {"few-1-A", "few-1-A", "few-1-A", "few-1-A"};

	open_plain();
	watched("few-1-A");
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(rig_probe(admin, queues, 4)[i % 4], BROKER_OK);
	ck_assert_uint_le(rig_counts(watcher, BROKER_AUXILIARY).deliveries, 1);
	delete ("few-1-A");
	rig_wait(told("few-1-A", BROKER_HINT) == 1);
}
END_TEST

/* In virtual time: the delivery is acknowledged then, and the next probe is delivered. */
START_TEST(a_delivery_is_acknowledged_after_20_s)
{
	static const char *const queue = "ack-1-A";

	open_plain();
	watched(queue);
	(void)rig_probe(admin, &queue, 1);
	rig_wait(rig_counts(watcher, BROKER_AUXILIARY).deliveries == 1);
	rig_pass_for(19 * NSEC_PER_SEC);
	(void)rig_probe(admin, &queue, 1);
	ck_assert_uint_eq(rig_counts(watcher, BROKER_AUXILIARY).deliveries, 1);
	rig_pass_for(2 * NSEC_PER_SEC);
	(void)rig_probe(admin, &queue, 1);
	rig_wait(rig_counts(watcher, BROKER_AUXILIARY).deliveries == 2);
}
END_TEST

Suite *
watches_suite(void)
{
	Suite *suite = suite_create("watches");
	TCase *tcase = server_tcase(suite, "watches");

	tcase_add_test(tcase, a_deletion_is_heard);
	tcase_add_test(tcase, each_watcher_hears);
	tcase_add_test(tcase, two_hundred_watches);
	tcase_add_test(tcase, deleted_and_made_again);
	tcase_add_test(tcase, an_absent_queue_is_a_hint);
	tcase_add_test(tcase, unwatched_at_any_time);
	tcase_add_test(tcase, probes_are_few_deliveries);
	if (server == &server_memory)
		tcase_add_test(tcase, a_delivery_is_acknowledged_after_20_s);
	tcase_add_test(tcase, the_auxiliary_connection_dies);
	tcase_add_test(tcase, a_watch_keeps_the_auxiliary_connection);
	tcase_add_test(tcase, unwatched_after_the_stop);
	return suite;
}
