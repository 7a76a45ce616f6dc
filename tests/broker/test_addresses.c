/*
 * A host name with two addresses: 127.0.0.2, where a server of this file's listens, then 127.0.0.1,
 * where the evil one does. Name lookups come by here (ld, --wrap).
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include <event2/listener.h>

#include "tests/broker/evil_server.h"

#define NAME "two.example"

int __real_getaddrinfo(
    const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(
    const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **ret);

int
__wrap_getaddrinfo(
    const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
	int error;

	if (strcmp(name, NAME) != 0 || (hints->ai_flags & AI_NUMERICHOST) != 0)
		return __real_getaddrinfo(name, port, hints, ret);
	error = __real_getaddrinfo("127.0.0.2", port, hints, ret);
	return error != 0 ? error : __real_getaddrinfo("127.0.0.1", port, hints, &(*ret)->ai_next);
}

/* The server at the first address. */
static struct {
	struct evconnlistener *listener;
	struct evbuffer *greeting;
	bool stays;
	unsigned accepted;
	int client; /* the last that connected, while it stays */
} first;

static struct amqp_host host;
static struct amqp_settings settings;

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address, int len,
    void *ctx)
{
	(void)listener;
	(void)address;
	(void)len;
	(void)ctx;
	first.accepted++;
	(void)evbuffer_write(first.greeting, fd);
	if (first.client >= 0)
		close(first.client);
	first.client = first.stays ? fd : -1;
	if (!first.stays)
		close(fd);
}

static void
setup(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	evil_setup();
	address.sin_port = htons((uint16_t)evil.port);
	ck_assert_int_eq(inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);
	first.listener = evconnlistener_new_bind(rig_base, on_accept, NULL,
	    LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, 16, (struct sockaddr *)&address,
	    sizeof(address));
	ck_assert_ptr_nonnull(first.listener);
	first.greeting = evbuffer_new();
	first.stays = false;
	first.accepted = 0;
	first.client = -1;
	settings = evil_settings();
	host = settings.hosts[0];
	host.host = NAME;
	settings.hosts = &host;
}

static void
teardown(void)
{
	evconnlistener_free(first.listener);
	evbuffer_free(first.greeting);
	if (first.client >= 0)
		close(first.client);
	evil_teardown();
}

/* The link came up at the second address. The failure of the first one is no event. */
static void
want_second(struct rig_broker *one)
{
	rig_wait(one->events[BROKER_LOCKS] > 0);
	ck_assert_uint_eq(one->events[BROKER_LOCKS], 1);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
	ck_assert_uint_eq(first.accepted, 1);
	ck_assert_uint_eq(evil.accepted, 1);
}

START_TEST(test_it_hangs_up)
{
	put_friendly(evil.greeting);
	want_second(rig_open(&settings));
}
END_TEST

START_TEST(test_it_speaks_something_else)
{
	put_friendly(evil.greeting);
	put_http(first.greeting);
	first.stays = true;
	want_second(rig_open(&settings));
}
END_TEST

START_TEST(test_it_says_nothing)
{
	put_friendly(evil.greeting);
	first.stays = true;
	want_second(rig_open(&settings));
}
END_TEST

/* Both links, each by itself. */
START_TEST(test_the_auxiliary_connection)
{
	struct rig_broker *one;

	put_friendly(evil.greeting);
	one = rig_open(&settings);
	want_second(one);
	(void)rig_take(one, BROKER_AUXILIARY);
	rig_wait(one->events[BROKER_AUXILIARY] > 0);
	ck_assert_int_eq(one->state[BROKER_AUXILIARY], BROKER_UP);
	ck_assert_uint_eq(first.accepted, 2);
	ck_assert_uint_eq(evil.accepted, 2);
}
END_TEST

/* Which is not wanted any more when the lock connection is down, at no address. */
START_TEST(test_the_auxiliary_connection_is_given_up)
{
	struct rig_broker *one;

	put_friendly(evil.greeting);
	first.stays = true;
	one = rig_open(&settings);
	want_second(one);
	(void)rig_take(one, BROKER_AUXILIARY);
	rig_wait(first.accepted == 2);
	evil_hang_up();
	rig_wait(one->events[BROKER_LOCKS] == 3);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_UP);
	ck_assert_uint_eq(evil.accepted, 2);
	(void)rig_take(one, BROKER_AUXILIARY);
	rig_wait(one->state[BROKER_AUXILIARY] == BROKER_UP);
	ck_assert_uint_eq(evil.accepted, 3);
}
END_TEST

/* It never becomes a link anywhere: in words of both, and from the first one again. */
START_TEST(test_tls_fails_at_both)
{
	struct rig_broker *one;
	const char *at;

	host.tls = true;
	put_http(evil.greeting);
	one = rig_open(&settings);
	rig_wait(one->events[BROKER_LOCKS] > 0);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_DOWN);
	ck_assert_uint_eq(first.accepted, 1);
	ck_assert_uint_eq(evil.accepted, 1);
	at = strstr(one->why[BROKER_LOCKS], "; at another address: TLS: wrong version number");
	ck_assert_msg(at != NULL, "%s", one->why[BROKER_LOCKS]);
	ck_assert_ptr_ne(strstr(one->why[BROKER_LOCKS], ": TLS: "), strstr(at, ": TLS: "));
	rig_wait(first.accepted == 2 && evil.accepted == 2);
}
END_TEST

/* The same error at both addresses is reported once. */
START_TEST(test_the_same_at_both)
{
	struct rig_broker *one;

	put_http(first.greeting);
	put_http(evil.greeting);
	first.stays = true;
	one = rig_open(&settings);
	rig_wait(one->events[BROKER_LOCKS] > 0);
	ck_assert_uint_eq(first.accepted, 1);
	ck_assert_uint_eq(evil.accepted, 1);
	ck_assert_msg(strstr(one->why[BROKER_LOCKS], "another address") == NULL, "%s",
	    one->why[BROKER_LOCKS]);
}
END_TEST

/* A refusal is the broker's, not the address's. */
START_TEST(test_refused_in_words)
{
	amqp_connection_close_t close_words = {.reply_code = AMQP_ACCESS_REFUSED,
	    .reply_text = amqp_cstring_bytes("ACCESS_REFUSED - not you")};
	struct rig_broker *one;

	put_friendly(evil.greeting);
	put_start(first.greeting, "PLAIN", "one");
	put_method(first.greeting, 0, AMQP_CONNECTION_CLOSE_METHOD, &close_words);
	first.stays = true;
	one = rig_open(&settings);
	rig_wait(one->events[BROKER_LOCKS] > 0);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_LOGIN_REFUSED);
	ck_assert_ptr_nonnull(strstr(one->why[BROKER_LOCKS], "not you"));
	ck_assert_uint_eq(first.accepted, 1);
	ck_assert_uint_eq(evil.accepted, 0);
}
END_TEST

/* The same at the second address: the error of the first one is reported, too. */
START_TEST(test_refused_at_the_second)
{
	amqp_connection_close_t close_words = {.reply_code = AMQP_ACCESS_REFUSED,
	    .reply_text = amqp_cstring_bytes("ACCESS_REFUSED - not you")};
	struct rig_broker *one;

	put_http(first.greeting);
	first.stays = true;
	put_start(evil.greeting, "PLAIN", "one");
	put_method(evil.greeting, 0, AMQP_CONNECTION_CLOSE_METHOD, &close_words);
	one = rig_open(&settings);
	rig_wait(one->events[BROKER_LOCKS] > 0);
	ck_assert_int_eq(one->state[BROKER_LOCKS], BROKER_LOGIN_REFUSED);
	ck_assert_msg(
	    strstr(one->why[BROKER_LOCKS], "; at another address: ACCESS_REFUSED") != NULL, "%s",
	    one->why[BROKER_LOCKS]);
	ck_assert_uint_eq(first.accepted, 1);
	ck_assert_uint_eq(evil.accepted, 1);
}
END_TEST

/*
 * A 541 while a watch is placed stops watching for long; one of the first address says nothing of
 * that.
 */
START_TEST(test_a_code_of_the_first_address)
{
	amqp_connection_close_t close_words = {.reply_code = AMQP_INTERNAL_ERROR,
	    .reply_text = amqp_cstring_bytes("INTERNAL_ERROR - the vhost is down")};
	struct rig_broker *one;

	put_friendly(evil.greeting);
	one = rig_open(&settings);
	want_second(one);
	put_start(first.greeting, "PLAIN", "one");
	put_method(first.greeting, 0, AMQP_CONNECTION_CLOSE_METHOD, &close_words);
	first.stays = true;
	broker_watch(one->broker, "A");
	rig_wait(evil_saw(AMQP_BASIC_CONSUME_METHOD) == 1);
	evil_hang_up();
	rig_wait(evil_saw(AMQP_BASIC_CONSUME_METHOD) == 2);
}
END_TEST

Suite *
addresses_suite(void)
{
	Suite *suite = suite_create("addresses");
	TCase *tcase = tcase_create("addresses");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, test_it_hangs_up);
	tcase_add_test(tcase, test_it_speaks_something_else);
	tcase_add_test(tcase, test_it_says_nothing);
	tcase_add_test(tcase, test_the_auxiliary_connection);
	tcase_add_test(tcase, test_the_auxiliary_connection_is_given_up);
	tcase_add_test(tcase, test_tls_fails_at_both);
	tcase_add_test(tcase, test_the_same_at_both);
	tcase_add_test(tcase, test_refused_in_words);
	tcase_add_test(tcase, test_refused_at_the_second);
	tcase_add_test(tcase, test_a_code_of_the_first_address);
	suite_add_tcase(suite, tcase);
	return suite;
}
