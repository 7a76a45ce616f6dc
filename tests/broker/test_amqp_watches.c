/*
 * Watches over RabbitMQ: deletions are reported. Probes cost no more than a delivery now and then.
 * A watch that is refused or ends is placed again, but not at once.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "tests/broker/amqp_rig.h"

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

START_TEST(test_deletion_is_heard)
{
	enum { TRIES = 9, SLOW = TRIES / 2 };
	unsigned slow = 0;

	open_plain();
	for (unsigned i = 0; i < TRIES; i++) {
		int64_t before;

		watched("heard-1-A");
		before = rig_now();
		delete ("heard-1-A");
		rig_wait(told("heard-1-A", BROKER_HINT) == i + 1);
		slow += watcher->news[watcher->news_count - 1].at - before > 50 * NSEC_PER_MSEC;
	}
	ck_assert_msg(slow <= SLOW, "%u of %d took more than 50 ms", slow, TRIES);
	ck_assert_uint_eq(told(NULL, BROKER_UNWATCHED), 0);
	/* Nothing of it on the lock connection. */
	ck_assert_uint_eq(rig_counts(watcher, BROKER_LOCKS).sent_consumes, 0);
	ck_assert_uint_eq(rig_counts(watcher, BROKER_LOCKS).received_methods,
	    rig_counts(admin, BROKER_LOCKS).received_methods);
}
END_TEST

START_TEST(test_five_hundred)
{
	enum { MANY = 500 };
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
START_TEST(test_deleted_and_made_again)
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
START_TEST(test_absent)
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

START_TEST(test_unwatched_at_any_time)
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

/* Probes of others to a watched queue, during more than consumer_timeout. */
START_TEST(test_probes_are_few_deliveries)
{
	enum { FLUSHES = 60, EACH = 50 };
	const struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	static const char *queues[EACH];
	uint64_t deliveries;
	int64_t began;

	rig_rabbit("ctl eval 'application:set_env(rabbit, consumer_timeout, 2500),"
		   " application:set_env(rabbit, channel_tick_interval, 300).'");
	settings.ack_after = 500 * NSEC_PER_MSEC;
	open_with(&settings);
	watched("probed-1-A");
	for (int i = 0; i < EACH; i++)
		queues[i] = "probed-1-A";
	began = rig_now();
	for (int i = 0; i < FLUSHES; i++) {
		const enum broker_answer *answers = rig_probe(admin, queues, EACH);

		for (int j = 0; j < EACH; j++)
			ck_assert_int_eq(answers[j], BROKER_OK);
		rig_pass_for(60 * NSEC_PER_MSEC);
	}
	deliveries = rig_counts(watcher, BROKER_AUXILIARY).deliveries;
	ck_assert_uint_ge(deliveries, 3);
	/* One for each acknowledgement, however many are sent. */
	ck_assert_uint_le(deliveries, (uint64_t)((rig_now() - began) / settings.ack_after) + 2);
	ck_assert_uint_eq(rig_counts(watcher, BROKER_AUXILIARY).channels_closed_by_broker, 0);
	ck_assert_uint_eq(told(NULL, BROKER_UNWATCHED), 0);
	/* A delivered message must be acknowledged even if the watch is over. */
	(void)rig_probe(admin, queues, EACH);
	rig_unwatch(watcher, "probed-1-A");
	watched("probed-2-A");
	rig_pass_for(3 * NSEC_PER_SEC);
	ck_assert_uint_eq(rig_counts(watcher, BROKER_AUXILIARY).channels_closed_by_broker, 0);
	delete ("probed-1-A");
	delete ("probed-2-A");
	rig_wait(told("probed-2-A", BROKER_HINT) == 1);
	rig_rabbit("ctl eval 'application:unset_env(rabbit, consumer_timeout),"
		   " application:set_env(rabbit, channel_tick_interval, 60000).'");
}
END_TEST

/*
 * From 4.3 on RabbitMQ takes nothing back from a consumer of a classic queue, however long it is
 * not acknowledged (rabbitmq-server issue 16983).
 */
static bool
has_timeout_of_classic_queues(const char *version)
{
	int major = 0, minor = 0;

	(void)sscanf(version, "%d.%d", &major, &minor);
	return major < 4 || (major == 4 && minor < 3);
}

/* Never acknowledged: the broker closes the channel, and they are placed anew. */
START_TEST(test_consumer_timeout)
{
	const struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	static const char *const queue = "timeout-1-A";

	rig_rabbit("ctl eval 'application:set_env(rabbit, consumer_timeout, 500),"
		   " application:set_env(rabbit, channel_tick_interval, 100).'");
	settings.ack_after = 60 * NSEC_PER_SEC;
	open_with(&settings);
	watched(queue);
	(void)rig_probe(admin, &queue, 1);
	if (has_timeout_of_classic_queues(rig_info(watcher).version)) {
		rig_wait(told(queue, BROKER_UNWATCHED) == 1);
		rig_wait(told(queue, BROKER_WATCHED) == 2);
		ck_assert_uint_eq(
		    rig_counts(watcher, BROKER_AUXILIARY).channels_closed_by_broker, 1);
	} else {
		rig_pass_for(2 * NSEC_PER_SEC);
		ck_assert_uint_eq(told(queue, BROKER_UNWATCHED), 0);
	}
	delete (queue);
	rig_wait(told(queue, BROKER_HINT) == 1);
	rig_rabbit("ctl eval 'application:unset_env(rabbit, consumer_timeout),"
		   " application:set_env(rabbit, channel_tick_interval, 60000).'");
}
END_TEST

START_TEST(test_auxiliary_connection_dies)
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
	rig_rabbit("ctl close_all_connections 'a test'");
	rig_wait(told("side-2-A", BROKER_UNWATCHED) == 2);
	rig_wait_for(30, told("side-2-A", BROKER_WATCHED) >= 3);
	ck_assert_uint_eq(told("side-1-A", BROKER_HINT), 1);
	admin_channel = rig_take(admin, BROKER_AUXILIARY);
	delete ("side-2-A");
	rig_wait(told("side-2-A", BROKER_HINT) == 1);
}
END_TEST

/* A watch keeps the auxiliary connection from resting. */
START_TEST(test_auxiliary_connection_is_kept)
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

static unsigned warnings;

static void
on_log(void *ctx, enum log_level level, const char *line)
{
	(void)ctx;
	warnings += level <= LOG_LEVEL_WARNING && strstr(line, "ACCESS_REFUSED") != NULL;
}

/* Without read permission nothing is watched: said once, tried seldom, and holds go on. */
START_TEST(test_no_permission_to_read)
{
	struct amqp_host host = rig_host();
	char name[32];
	unsigned closed;

	rig_rabbit("ctl add_user blind secret");
	rig_rabbit("ctl set_permissions blind '.*' '.*' '^$'");
	host.user = "blind";
	host.password = "secret";
	{
		const struct amqp_settings settings = rig_settings(&host, 1);

		open_with(&settings);
	}
	warnings = 0;
	log_set_sink(on_log, NULL);
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "blind-%d-A", i);
		make(name);
		rig_watch(watcher, name);
		rig_pass_for(20 * NSEC_PER_MSEC);
	}
	closed = (unsigned)rig_counts(watcher, BROKER_AUXILIARY).channels_closed_by_broker;
	ck_assert_uint_ge(closed, 1);
	ck_assert_uint_le(closed, 10);
	ck_assert_uint_eq(warnings, 1);
	ck_assert_uint_eq(watcher->news_count, 0);
	ck_assert_int_eq(watcher->state[BROKER_AUXILIARY], BROKER_UP);
	rig_want(watcher, rig_claim, rig_take(watcher, BROKER_LOCKS), "blind-1-B", BROKER_OK);
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "blind-%d-A", i);
		rig_unwatch(watcher, name);
		delete (name);
	}
	log_set_sink(NULL, NULL);
	rig_rabbit("ctl delete_user blind");
}
END_TEST

START_TEST(test_unwatched_after_the_stop)
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

Suite *
watches_suite(void)
{
	Suite *suite = suite_create("watches");
	TCase *tcase = tcase_create("watches");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_deletion_is_heard);
	tcase_add_test(tcase, test_five_hundred);
	tcase_add_test(tcase, test_deleted_and_made_again);
	tcase_add_test(tcase, test_absent);
	tcase_add_test(tcase, test_unwatched_at_any_time);
	tcase_add_test(tcase, test_probes_are_few_deliveries);
	tcase_add_test(tcase, test_consumer_timeout);
	tcase_add_test(tcase, test_auxiliary_connection_dies);
	tcase_add_test(tcase, test_auxiliary_connection_is_kept);
	tcase_add_test(tcase, test_no_permission_to_read);
	tcase_add_test(tcase, test_unwatched_after_the_stop);
	suite_add_tcase(suite, tcase);
	return suite;
}
