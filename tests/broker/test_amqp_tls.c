/*
 * TLS to RabbitMQ: accepted and rejected servers, and the client's own certificate. The harness
 * made the certificates. The server's is for localhost and 127.0.0.1; the client's has CN=client.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/ssl.h>

#include "tests/broker/amqp_rig.h"

static char ca[512], cert[512], key[512];
static struct amqp_host host;

static void
setup(void)
{
	const char *dir = getenv("LOCKBROKER_RABBIT_DIR"), *url = getenv("LOCKBROKER_AMQPS_URL");

	rig_setup();
	ck_assert_msg(dir != NULL && url != NULL, "the node does not listen for TLS");
	snprintf(ca, sizeof(ca), "%s/tls/ca.pem", dir);
	snprintf(cert, sizeof(cert), "%s/tls/client.pem", dir);
	snprintf(key, sizeof(key), "%s/tls/client.key", dir);
	host = (struct amqp_host){
	    .tls = true,
	    .host = "localhost",
	    .port = atoi(strrchr(url, ':') + 1),
	    .vhost = "/",
	    .user = "guest",
	    .password = "guest",
	};
}

static struct rig_broker *
open_tls(void)
{
	struct amqp_settings settings = rig_settings(&host, 1);

	settings.tls_ca = ca;
	return rig_open(&settings);
}

/* The link does not come up, and says why. */
static void
refused(struct rig_broker *one, const char *words)
{
	rig_wait(one->events[BROKER_LOCKS] == 1);
	ck_assert_int_ne(one->state[BROKER_LOCKS], BROKER_UP);
	ck_assert_msg(strstr(one->why[BROKER_LOCKS], words) != NULL, "%s", one->why[BROKER_LOCKS]);
}

START_TEST(test_by_name_and_by_address)
{
	static const char *const names[] = {"localhost", "127.0.0.1"};
	struct rig_broker *one;
	static const char *const queues[] = {"tls-1-B", "tls-none"};
	const enum broker_answer *answers;

	host.host = names[_i];
	one = open_tls();
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "tls-1-B", BROKER_OK);
	answers = rig_probe(one, queues, 2);
	ck_assert_int_eq(answers[0], BROKER_OK);
	ck_assert_int_eq(answers[1], BROKER_ABSENT);
}
END_TEST

/* More than one record each way, in one flush. */
START_TEST(test_much_at_once)
{
	static char names[BROKER_PROBE_MAX][200];
	static const char *queues[BROKER_PROBE_MAX];
	const enum broker_answer *answers;
	struct rig_broker *one = open_tls();

	for (size_t i = 0; i < BROKER_PROBE_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "tls-%0150zu", i);
		queues[i] = names[i];
	}
	answers = rig_probe(one, queues, BROKER_PROBE_MAX);
	for (size_t i = 0; i < BROKER_PROBE_MAX; i++)
		ck_assert_int_eq(answers[i], BROKER_ABSENT);
}
END_TEST

START_TEST(test_stop_says_goodbye)
{
	struct rig_broker *one = open_tls(), *two = open_tls();

	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP && two->state[BROKER_LOCKS] == BROKER_UP);
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "tls-stop-B", BROKER_OK);
	broker_stop(one->broker);
	for (int64_t end = rig_now() + NSEC_PER_SEC;;) {
		uint64_t channel = rig_take(two, BROKER_LOCKS);
		const struct rig_answer *answer =
		    rig_answer(rig_ask(two, rig_claim, channel, "tls-stop-B"));

		if (answer->reply.answer == BROKER_OK)
			break;
		ck_assert_int_lt(rig_now(), end);
	}
}
END_TEST

/* No authority that the machine trusts has signed it. */
START_TEST(test_unknown_ca)
{
	struct amqp_settings settings = rig_settings(&host, 1);

	refused(rig_open(&settings), "TLS: the certificate of localhost is rejected: ");
}
END_TEST

/* A trusted signature for another host, by name and by address. */
START_TEST(test_wrong_host)
{
	static const char *const wrong[][2] = {
	    {"localhost", "TLS: the certificate of localhost is rejected: hostname mismatch"},
	    {"127.0.0.1", "TLS: the certificate of 127.0.0.1 is rejected: IP address mismatch"},
	};

	host.host = wrong[_i][0];
	host.port = atoi(getenv("LOCKBROKER_TLS_ELSEWHERE_PORT"));
	refused(open_tls(), wrong[_i][1]);
}
END_TEST

START_TEST(test_old_version)
{
	host.port = atoi(getenv("LOCKBROKER_TLS_OLD_PORT"));
	refused(open_tls(), "TLS: ");
}
END_TEST

/* A TCP port without TLS, and the other way round. */
START_TEST(test_plain_and_tls_mixed_up)
{
	struct amqp_host plain = rig_host(), mixed = host;
	struct amqp_settings settings = rig_settings(&mixed, 1);

	settings.tls_ca = ca;
	mixed.port = plain.port;
	refused(rig_open(&settings), "TLS: ");
	mixed = host;
	mixed.tls = false;
	refused(rig_open(&settings), "");
}
END_TEST

/* The certificate is the login (SASL EXTERNAL). */
START_TEST(test_external)
{
	struct amqp_settings settings = rig_settings(&host, 1);
	struct rig_broker *one;

	settings.tls_ca = ca;
	settings.tls_cert = cert;
	settings.tls_key = key;
	settings.external = true;
	refused(rig_open(&settings),
	    "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL");
	rig_rabbit("ctl add_user client irrelevant");
	rig_rabbit("ctl set_permissions client '.*' '.*' '.*'");
	one = rig_open(&settings);
	rig_wait(one->state[BROKER_LOCKS] == BROKER_UP);
	rig_want(one, rig_claim, rig_take(one, BROKER_LOCKS), "external-1-B", BROKER_OK);
	rig_rabbit("ctl delete_user client");
	/* Without a certificate there is nothing to log in with. */
	settings.tls_cert = settings.tls_key = NULL;
	refused(rig_open(&settings), "");
}
END_TEST

/* ---- files ---- */

static void
unusable(const struct amqp_settings *settings, const char *words)
{
	struct amqp_dialer dialer;
	char *error = NULL;

	ck_assert(!amqp_tcp_dialer(rig_base, settings, &dialer, &error));
	ck_assert_msg(strstr(error, words) != NULL, "%s", error);
	free(error);
}

START_TEST(test_files)
{
	struct amqp_settings settings = rig_settings(&host, 1);

	settings.tls_ca = "/nonexistent/ca.pem";
	unusable(&settings, "CA file /nonexistent/ca.pem: No such file or directory");
	settings.tls_ca = key;
	unusable(&settings, "CA file ");
	settings.tls_ca = ca;
	settings.tls_cert = "/nonexistent/cert.pem";
	unusable(&settings, "certificate /nonexistent/cert.pem: No such file or directory");
	settings.tls_cert = cert;
	unusable(&settings, "private key ");
	settings.tls_key = "/nonexistent/key.pem";
	unusable(&settings, "private key /nonexistent/key.pem: No such file or directory");
	settings.tls_cert = ca;
	settings.tls_key = key;
	unusable(&settings, "private key ");
	/* The key is not read if no host wants TLS. */
	host.tls = false;
	{
		struct amqp_dialer dialer;
		char *error = NULL;

		ck_assert(amqp_tcp_dialer(rig_base, &settings, &dialer, &error));
		dialer.free(dialer.ctx);
	}
}
END_TEST

Suite *
tls_suite(void)
{
	Suite *suite = suite_create("tls");
	TCase *tcase = tcase_create("tls");

	tcase_add_checked_fixture(tcase, setup, rig_teardown);
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, test_by_name_and_by_address, 0, 2);
	tcase_add_test(tcase, test_much_at_once);
	tcase_add_test(tcase, test_stop_says_goodbye);
	tcase_add_test(tcase, test_unknown_ca);
	tcase_add_loop_test(tcase, test_wrong_host, 0, 2);
	tcase_add_test(tcase, test_old_version);
	tcase_add_test(tcase, test_plain_and_tls_mixed_up);
	tcase_add_test(tcase, test_external);
	tcase_add_test(tcase, test_files);
	suite_add_tcase(suite, tcase);
	return suite;
}
