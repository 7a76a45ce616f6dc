/*
 * The test of exclusive queues, and which brokers are used at all, over the server in memory. That
 * server keeps to the scheme. So a hook changes the queue of the test as soon as it is declared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/settings.h"
#include "daemon/base/mem.h"
#include "daemon/broker/setup.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

#define TIMEOUT (3 * NSEC_PER_SEC)

/* As the server treats the queue that the lock connection declares for the test. */
static struct {
	bool shared;    /* it becomes a queue for all */
	bool gone;      /* it is not there */
	int gone_times; /* it is not there for so many passive declares */
	bool refused;   /* declares are refused with 403 */
	char *queue;    /* owned; its name */
	unsigned checks;
	bool inbox; /* it was declared */
} server;
static struct broker *broker;
static char heard[256];

static void
performed(void *ctx, const struct memory_performed *what)
{
	const amqp_queue_declare_t *declare = what->fields;

	(void)ctx;
	server.inbox |= what->broker == broker && what->method == AMQP_QUEUE_BIND_METHOD;
	if (what->broker != broker || what->method != AMQP_QUEUE_DECLARE_METHOD ||
	    strncmp(what->queue, "lockbroker=inbox=test-", 22) != 0)
		return;
	if (declare->passive) {
		server.checks++;
		if (server.gone_times > 0 && --server.gone_times == 0)
			ck_assert(memory_world_put(world, server.queue, true));
		return;
	}
	ck_assert(what->link == BROKER_LOCKS);
	ck_assert_uint_eq(what->connection, memory_broker_connection(broker, BROKER_LOCKS));
	ck_assert_uint_ne(what->channel, 0);
	free(server.queue);
	server.queue = mem_strdup(what->queue);
	if (server.shared || server.gone || server.gone_times > 0)
		ck_assert(memory_world_remove(world, server.queue));
	if (server.shared)
		ck_assert(memory_world_put_transient(world, server.queue));
}

static bool
refuses(void *ctx)
{
	(void)ctx;
	return server.refused;
}

static void
on_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	size_t used = strlen(heard);

	(void)ctx;
	(void)why;
	if (link == BROKER_LOCKS)
		snprintf(heard + used, sizeof(heard) - used, "%s ", broker_state_word(state));
}

static int64_t delay;

static int64_t
delays(void *ctx)
{
	(void)ctx;
	return delay;
}

static const struct memory_behaviour behaviour = {
    .performed = performed, .refuses = refuses, .delay = delays};

static void
make_broker(size_t hosts, bool any)
{
	const struct amqp_host host[2] = {
	    {.host = "a", .vhost = "/", .user = "guest", .password = ""},
	    {.host = "b", .vhost = "/", .user = "guest", .password = ""}};
	const struct amqp_settings settings = {
	    .hosts = host,
	    .host_count = hosts,
	    .heartbeat = 10,
	    .connect_timeout = TIMEOUT,
	    .probe_timeout = TIMEOUT,
	    .auxiliary_idle = INT64_MAX / 4,
	    .any_product = any,
	    .exclusion_timeout = TIMEOUT,
	    .name = "memory",
	    .replays = true,
	};
	const struct broker_events events = {.link = on_link};

	broker = memory_broker_new_as(world, rig.timers, &settings, 10, 7);
	broker_set_events(broker, &events);
}

static void
setup(void)
{
	memset(&server, 0, sizeof(server));
	delay = 0;
	heard[0] = '\0';
	rig_new(&behaviour);
	make_broker(1, true);
}

static void
teardown(void)
{
	broker_free(broker);
	free(server.queue);
	rig_teardown();
}

static struct broker_info
info(void)
{
	struct broker_info ret;

	broker_get_info(broker, &ret);
	return ret;
}

/* Checks the links since the last call. */
static void
ck_heard(const char *wanted)
{
	ck_assert_str_eq(heard, wanted);
	heard[0] = '\0';
}

START_TEST(a_queue_that_is_refused_to_another_connection_passes)
{
	broker_start(broker);
	run();
	ck_heard("up ");
	ck_assert(info().exclusion_tested);
	ck_assert_str_eq(info().exclusion_why, "");
	ck_assert_uint_eq(server.checks, 1);
	/* Nothing is left. */
	ck_assert(!exists(server.queue));
	ck_assert_uint_eq(memory_broker_channels_taken(broker, BROKER_LOCKS), 0);
	ck_assert(broker_is_still(broker));
}
END_TEST

START_TEST(nobody_hears_of_the_connection_before_the_verdict)
{
	delay = 100 * MSEC;
	broker_start(broker);
	pass(199 * MSEC);
	ck_heard("");
	ck_assert_int_eq(info().locks, BROKER_DOWN);
	ck_assert(strstr(info().why, "not answered yet") != NULL);
	ck_assert(!broker_is_still(broker));
	pass(2 * MSEC);
	ck_heard("up ");
	ck_assert_int_eq(info().locks, BROKER_UP);
}
END_TEST

START_TEST(a_shared_queue_is_refused)
{
	server.shared = true;
	broker_start(broker);
	run();
	ck_assert(strstr(heard, "up") == NULL);
	ck_assert_int_eq(info().locks, BROKER_DOWN);
	ck_assert(info().unfit);
	/* The proxy is gone: the next try passes. */
	server.shared = false;
	heard[0] = '\0';
	pass(60 * NSEC_PER_SEC);
	ck_heard("up ");
	ck_assert(!info().unfit);
}
END_TEST

START_TEST(a_queue_that_stays_unseen_is_refused)
{
	server.gone = true;
	broker_start(broker);
	pass(TIMEOUT - 1 * MSEC);
	ck_heard("");
	ck_assert(!info().unfit);
	ck_assert_uint_gt(server.checks, 10);
	pass(2 * MSEC);
	ck_assert(strstr(heard, "up") == NULL);
	ck_assert(info().unfit);
}
END_TEST

START_TEST(a_queue_that_is_seen_late_passes)
{
	server.gone_times = 3;
	broker_start(broker);
	pass(TIMEOUT - 1 * MSEC);
	ck_heard("up ");
	ck_assert(info().exclusion_tested);
	ck_assert_uint_eq(server.checks, 4);
	ck_assert(memory_world_remove(world, server.queue));
}
END_TEST

START_TEST(without_the_permission_it_is_not_tested)
{
	server.refused = true;
	broker_start(broker);
	run();
	ck_heard("up ");
	ck_assert(!info().exclusion_tested);
	ck_assert(strstr(info().exclusion_why, "ACCESS_REFUSED") != NULL);
	ck_assert_uint_eq(memory_broker_channels_taken(broker, BROKER_LOCKS), 0);
}
END_TEST

START_TEST(without_an_answer_it_is_not_tested_yet)
{
	delay = TIMEOUT;
	broker_start(broker);
	pass(TIMEOUT - 1 * MSEC);
	ck_heard("");
	pass(2 * MSEC);
	ck_heard("up ");
	ck_assert(!info().exclusion_tested);
	ck_assert(strstr(info().exclusion_why, "did not answer") != NULL);
	/* A late answer counts nevertheless. */
	pass(3 * TIMEOUT);
	ck_heard("");
	ck_assert(info().exclusion_tested);
	ck_assert_str_eq(info().exclusion_why, "");
}
END_TEST

START_TEST(a_late_answer_can_still_refuse)
{
	server.shared = true;
	delay = TIMEOUT;
	broker_start(broker);
	pass(TIMEOUT + 1 * MSEC);
	ck_heard("up ");
	pass(2 * TIMEOUT - 1 * MSEC);
	ck_heard("down ");
}
END_TEST

START_TEST(without_an_auxiliary_connection_it_is_not_tested)
{
	memory_broker_cut(broker, BROKER_AUXILIARY, 0, -1, "no more connections");
	broker_start(broker);
	pass(TIMEOUT);
	ck_heard("up ");
	ck_assert(!info().exclusion_tested);
	/* It is tested when that one comes. */
	memory_broker_restore(broker, BROKER_AUXILIARY);
	broker_inbox_open(broker);
	pass(TIMEOUT);
	ck_assert(info().exclusion_tested);
}
END_TEST

START_TEST(the_end_of_the_lock_connection_ends_the_test)
{
	delay = 100 * MSEC;
	broker_start(broker);
	pass(150 * MSEC);
	memory_broker_cut(broker, BROKER_LOCKS, 0, 0, "reset");
	pass(1);
	ck_assert(strstr(heard, "up") == NULL);
	ck_assert(!info().unfit);
	/* That of the next connection passes. */
	heard[0] = '\0';
	pass(60 * NSEC_PER_SEC);
	ck_heard("up ");
	ck_assert(info().exclusion_tested);
}
END_TEST

START_TEST(the_inbox_waits_for_the_verdict)
{
	delay = 100 * MSEC;
	broker_start(broker);
	broker_inbox_open(broker);
	pass(199 * MSEC);
	ck_assert_uint_eq(server.checks, 1);
	ck_assert(!server.inbox);
	pass(2 * MSEC);
	ck_heard("up ");
	pass(200 * MSEC);
	ck_assert(server.inbox);
}
END_TEST

START_TEST(another_brand_is_refused)
{
	broker_free(broker);
	make_broker(1, false);
	broker_start(broker);
	pass(1);
	ck_assert(strstr(heard, "up") == NULL);
	ck_assert(info().unfit);
	ck_assert(strstr(info().why, "\"memory\", not RabbitMQ") != NULL);
}
END_TEST

START_TEST(several_hosts_must_name_their_cluster)
{
	broker_free(broker);
	make_broker(2, true);
	broker_start(broker);
	pass(1);
	ck_assert(strstr(heard, "up") == NULL);
	ck_assert(info().unfit);
	ck_assert(strstr(info().why, "names no cluster") != NULL);
}
END_TEST

Suite *
suite_memory_exclusion(void)
{
	Suite *suite = suite_create("memory: exclusion");
	TCase *tcase = tcase_create("exclusion");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_queue_that_is_refused_to_another_connection_passes);
	tcase_add_test(tcase, nobody_hears_of_the_connection_before_the_verdict);
	tcase_add_test(tcase, a_shared_queue_is_refused);
	tcase_add_test(tcase, a_queue_that_stays_unseen_is_refused);
	tcase_add_test(tcase, a_queue_that_is_seen_late_passes);
	tcase_add_test(tcase, without_the_permission_it_is_not_tested);
	tcase_add_test(tcase, without_an_answer_it_is_not_tested_yet);
	tcase_add_test(tcase, a_late_answer_can_still_refuse);
	tcase_add_test(tcase, without_an_auxiliary_connection_it_is_not_tested);
	tcase_add_test(tcase, the_end_of_the_lock_connection_ends_the_test);
	tcase_add_test(tcase, the_inbox_waits_for_the_verdict);
	tcase_add_test(tcase, another_brand_is_refused);
	tcase_add_test(tcase, several_hosts_must_name_their_cluster);
	suite_add_tcase(suite, tcase);
	return suite;
}
