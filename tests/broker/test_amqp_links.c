/*
 * Links to RabbitMQ that end: the events and their order, and the new links.
 */
#include <stdio.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/broker/amqp_rig.h"

/* A port where nobody listens. */
static int
dead_port(void)
{
	struct sockaddr_in address = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	close(fd);
	return ntohs(address.sin_port);
}

/*
 * Requests that are on their way end unknown, in the order of their sending, the state set before.
 */
START_TEST(test_node_killed_in_flight)
{
	struct rig_broker *one = rig_open_up();
	uint64_t channels[3];
	unsigned asked[6];

	for (int i = 0; i < 3; i++)
		channels[i] = rig_take(one, BROKER_LOCKS);
	rig_want(one, rig_claim, channels[0], "flight-0-B", BROKER_OK);
	rig_rabbit("freeze");
	for (int i = 0; i < 6; i++)
		asked[i] = rig_ask(one, rig_claim, channels[(i * 2) % 3], "flight-1-B");
	for (int i = 0; i < 10; i++)
		rig_pass();
	rig_rabbit("kill");
	for (int i = 0; i < 6; i++) {
		ck_assert_int_eq(rig_answer(asked[i])->reply.answer, BROKER_UNKNOWN);
		ck_assert(!rig_answer(asked[i])->reply.channel_open);
		if (i > 0)
			ck_assert_uint_lt(
			    rig_answer(asked[i - 1])->order, rig_answer(asked[i])->order);
	}
	rig_wait(one->state[BROKER_LOCKS] == BROKER_DOWN);
	ck_assert_str_ne(rig_info(one).why, "");
	ck_assert_uint_eq(rig_take(one, BROKER_LOCKS), 0);
	ck_assert_uint_eq(one->channels_closed, 0);
	rig_rabbit("start");
	rig_wait_for(30, one->state[BROKER_LOCKS] == BROKER_UP);
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "flight-0-B", BROKER_OK);
}
END_TEST

/* Silence is death after two heartbeats, as seen by this end. */
START_TEST(test_frozen_node)
{
	const struct amqp_host host = rig_host();
	struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *one;
	int64_t before;

	settings.heartbeat = 1;
	settings.margin = NSEC_PER_SEC / 10;
	settings.connect_timeout = NSEC_PER_SEC;
	one = rig_open(&settings);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	/* Alive for longer than the broker would bear without our heartbeats. */
	rig_pass_for(4 * NSEC_PER_SEC);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
	rig_rabbit("freeze");
	before = rig_now();
	rig_wait(one->state[BROKER_LOCKS] == BROKER_DOWN);
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], "no byte from the broker for 2 s"));
	ck_assert_int_lt(rig_now() - before, 3 * NSEC_PER_SEC);
	/* The kernel still accepts connections for it. */
	rig_wait(strstr(one->why[BROKER_LOCKS], "no connection within 1 s (waiting for") != NULL);
	rig_rabbit("thaw");
	rig_wait_for(30, one->state[BROKER_LOCKS] == BROKER_UP);
}
END_TEST

START_TEST(test_second_host)
{
	struct amqp_host hosts[2] = {rig_host(), rig_host()};
	const struct amqp_settings settings = rig_settings(hosts, 2);
	struct rig_broker *one;
	char expected[64];

	hosts[0].port = dead_port();
	one = rig_open(&settings);
	rig_wait(one->events[BROKER_LOCKS] == 1);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_DOWN);
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], "Connection refused"));
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	snprintf(expected, sizeof(expected), "127.0.0.1:%d", hosts[1].port);
	ck_assert_str_eq(rig_info(one).host, expected);
	/* The auxiliary connection goes where the lock connection is. */
	rig_want(one, broker_check, rig_take(one, BROKER_AUXILIARY), "none", BROKER_ABSENT);
}
END_TEST

START_TEST(test_names_of_hosts)
{
	static const char *const names[] = {"localhost", "127.0.0.1"};
	struct amqp_host host = rig_host();
	const struct amqp_settings settings = rig_settings(&host, 1);

	for (size_t i = 0; i < 2; i++) {
		struct rig_broker *one;

		host.host = names[i];
		one = rig_open(&settings);
		rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	}
	host.host = "no-such-host.invalid";
	{
		struct rig_broker *one = rig_open(&settings);

		rig_wait_for(30, one->events[BROKER_LOCKS] == 1);
		ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_DOWN);
		ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], "no-such-host.invalid"));
	}
}
END_TEST

/*
 * A user's limit of channels ends the link. The new link keeps to the limit. RabbitMQ counts
 * channels a little later than it opens them, so a few more may open.
 */
START_TEST(test_limit_of_channels)
{
	struct rig_broker *one;
	unsigned had = 0;
	uint64_t channel;

	rig_rabbit("ctl eval 'ok = rabbit_auth_backend_internal:set_user_limits(<<\"guest\">>,"
		   " <<\"{\\\"max-channels\\\": 5}\">>, <<\"test\">>).'");
	one = rig_open_up();
	for (;;) {
		enum broker_answer answer;

		channel = rig_take(one, BROKER_LOCKS);
		ck_assert_uint_ne(channel, 0);
		answer = rig_answer(rig_ask(one, rig_claim, channel, "limit-1-B"))->reply.answer;
		if (answer == BROKER_UNKNOWN)
			break;
		ck_assert_int_eq(answer, BROKER_OK);
		ck_assert_uint_lt(++had, 1000);
	}
	rig_rabbit("ctl eval 'ok = rabbit_auth_backend_internal:clear_user_limits(<<\"guest\">>,"
		   " <<\"all\">>, <<\"test\">>).'");
	ck_assert_uint_ge(had, 5);
	rig_wait(one->events[BROKER_LOCKS] >= 2 && one->state[BROKER_LOCKS] == BROKER_UP);
	ck_assert_uint_eq(rig_info(one).channels_max, had);
	for (unsigned i = 0; i < had; i++)
		ck_assert_uint_ne(channel = rig_take(one, BROKER_LOCKS), 0);
	ck_assert_uint_eq(rig_take(one, BROKER_LOCKS), 0);
	rig_put(one, channel);
	ck_assert_uint_ne(rig_take(one, BROKER_LOCKS), 0);
}
END_TEST

Suite *
links_suite(void)
{
	Suite *suite = suite_create("links");
	TCase *tcase = tcase_create("links");

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	tcase_set_timeout(tcase, 90);
	tcase_add_test(tcase, test_node_killed_in_flight);
	tcase_add_test(tcase, test_frozen_node);
	tcase_add_test(tcase, test_second_host);
	tcase_add_test(tcase, test_names_of_hosts);
	tcase_add_test(tcase, test_limit_of_channels);
	suite_add_tcase(suite, tcase);
	return suite;
}
