/*
 * Watches over RabbitMQ, its consumer timeout and its permissions. A watch that is refused is placed
 * again, but not at once.
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

Suite *
watches_suite(void)
{
	Suite *suite = suite_create("watches");
	TCase *tcase = tcase_create("watches");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, test_probes_are_few_deliveries);
	tcase_add_test(tcase, test_consumer_timeout);
	tcase_add_test(tcase, test_no_permission_to_read);
	suite_add_tcase(suite, tcase);
	return suite;
}
