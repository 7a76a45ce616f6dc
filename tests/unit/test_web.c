/*
 * The limits of lockbroker-web that are longer than a test may last: the clock is this program's. A daemon in
 * this process answers, and clients of it ask.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client/tool/watch.h"
#include "client/web/feed.h"
#include "client/web/http.h"
#include "client/web/stream.h"
#include "tests/unit/unit.h"

/* As in feed.c, http.c and stream.c. */
#define SILENCE_LAST_MS 30000
#define ASK_MS 60000
#define ANSWER_MS 30000
#define READ_MS 60000
#define UNREAD_MOST ((size_t)32 << 20)

/* Bytes of a word in a row. */
#define WORD_SIZE 8000

static char folder[32], daemon_path[64], web_path[64];
static int daemon_listener, daemon_fd;
/* Lines that the daemon has read, and bytes that it has not written. */
static char *heard, *unsent;
static size_t heard_size, unsent_len, unsent_at;
static FILE *hearing;
static unsigned rows; /* that a watch tells */
static bool mute;
static struct http_settings settings;
static struct web_feed *feed;
static struct streams *streams;
static struct http *http;
static int64_t ahead; /* of the clock */

int64_t __real_watch_now(void);
int64_t __wrap_watch_now(void);

int64_t
__wrap_watch_now(void)
{
	return __real_watch_now() + ahead;
}

static int
socket_at(const char *path, bool listens)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	strcpy(name.sun_path, path);
	if (listens)
		ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	ck_assert_int_eq(
	    listens ? listen(fd, 8) : connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* ---- the daemon ---- */

static void
daemon_answer(const char *line)
{
	const char *id = strstr(line, "\"id\":");
	size_t len;
	FILE *out = open_memstream(&unsent, &len);
	long long number = id != NULL ? strtoll(id + 5, NULL, 10) : 0;

	if (strstr(line, "\"watch\"") != NULL) {
		for (unsigned i = 0; i < rows; i++)
			fprintf(out,
			    "{\"jsonrpc\":\"2.0\",\"method\":\"row\",\"params\":{\"id\":%lld,"
			    "\"row\":{\"waiter\":\"w-%u\",\"state\":\"busy\",\"why\":\"%0*d\"}}}\n",
			    number, i, WORD_SIZE, 0);
		fprintf(out,
		    "{\"jsonrpc\":\"2.0\",\"method\":\"synced\",\"params\":{\"id\":%lld}}\n",
		    number);
	} else if (strstr(line, "\"ping\"") != NULL || strstr(line, "\"show\"") != NULL) {
		fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"word\":\"%0*d\"}}\n",
		    number, strstr(line, "\"show\"") != NULL ? 2000000 : 1, 0);
	}
	ck_assert_int_eq(fclose(out), 0);
	unsent_len = len;
	unsent_at = 0;
}

static void
daemon_turn(void)
{
	static char line[65536];
	static size_t len;
	ssize_t sent;

	if (daemon_fd < 0) {
		daemon_fd = accept4(daemon_listener, NULL, NULL, SOCK_NONBLOCK);
		len = 0;
	}
	if (unsent != NULL) {
		sent = send(daemon_fd, unsent + unsent_at, unsent_len - unsent_at, MSG_NOSIGNAL);
		unsent_at += sent > 0 ? (size_t)sent : 0;
		if (unsent_at < unsent_len)
			return;
		free(unsent);
		unsent = NULL;
	}
	while (daemon_fd >= 0 && !mute && unsent == NULL && read(daemon_fd, line + len, 1) == 1) {
		if (line[len++] != '\n')
			continue;
		line[len - 1] = '\0';
		fprintf(hearing, "%s\n", line);
		fflush(hearing);
		daemon_answer(line);
		len = 0;
	}
}

/* ---- the program ---- */

static void
turn(void)
{
	struct pollfd clients = {.fd = http_fd(http), .events = POLLIN};
	int64_t now = watch_now();

	daemon_turn();
	(void)lb_dispatch(feed_handle(feed));
	feed_turn(feed, now);
	streams_turn(streams, now);
	http_turn(http, now);
	(void)lb_dispatch(feed_handle(feed));
	poll(&clients, 1, 1);
}

/* Check ends a test that takes too long. */
#define TURN_UNTIL(condition)                                                                      \
	while (!(condition))                                                                       \
	turn()

/* Some turns, in which nothing must happen that ends a wait. */
static void
turn_often(void)
{
	for (int i = 0; i < 50; i++)
		turn();
}

static void
setup(void)
{
	strcpy(folder, "/tmp/lb-web-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ahead = 0;
	rows = 0;
	mute = false;
	snprintf(daemon_path, sizeof(daemon_path), "%s/d", folder);
	snprintf(web_path, sizeof(web_path), "%s/w", folder);
	daemon_listener = socket_at(daemon_path, true);
	daemon_fd = -1;
	hearing = open_memstream(&heard, &heard_size);
	fflush(hearing);
	settings = (struct http_settings){
	    .visitors = {.user_header = "X-User"}, .hosts = {"localhost"}, .hosts_count = 1};
	feed = feed_new(daemon_path);
	streams = streams_new(feed);
	http = http_new(socket_at(web_path, true), &settings, feed, streams);
	ck_assert_ptr_nonnull(http);
}

static void
teardown(void)
{
	streams_end(streams);
	feed_end(feed);
	http_free(http);
	streams_free(streams);
	feed_free(feed);
	fclose(hearing);
	free(heard);
	free(unsent);
	unsent = NULL;
	close(daemon_fd);
	close(daemon_listener);
	unlink(daemon_path);
	unlink(web_path);
	rmdir(folder);
}

/* A client that has asked for this path. */
static int
client(const char *path)
{
	int fd = socket_at(web_path, false);

	dprintf(fd, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-User: alice\r\n\r\n", path);
	return fd;
}

/* Reads what is there. Returns whether the end was read; *total grows. */
static bool
read_all(int fd, size_t *total)
{
	static char bytes[65536];
	ssize_t len;

	while ((len = read(fd, bytes, sizeof(bytes))) > 0)
		*total += (size_t)len;
	return len == 0;
}

static bool
has_bytes(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	return poll(&one, 1, 0) == 1;
}

/* ---- requests ---- */

static int answer_code;

static void
take_answer(void *ctx, int code, const char *json, const char *text)
{
	(void)ctx;
	(void)json;
	ck_assert_str_ne(text, "");
	answer_code = code;
}

START_TEST(a_request_that_waits_ends_after_a_minute)
{
	answer_code = LB_OK;
	feed_look(feed, 1);
	feed_ask(feed, "resize", "{\"name\":\"db\"}", take_answer, NULL);
	TURN_UNTIL(strstr(heard, "resize") != NULL);
	/* The daemon lives: it answers the pings. */
	for (; ahead < ASK_MS - 5000; ahead += 5000) {
		ck_assert_int_eq(answer_code, LB_OK);
		turn_often();
	}
	ck_assert_ptr_null(strstr(heard, "cancel"));
	ahead = ASK_MS;
	turn();
	ck_assert_int_eq(answer_code, LB_DEADLINE);
	TURN_UNTIL(strstr(heard, "cancel") != NULL);
	feed_look(feed, -1);
}
END_TEST

START_TEST(a_silent_daemon_gets_a_new_connection)
{
	char byte, *text;
	size_t len;

	feed_look(feed, 1);
	TURN_UNTIL(strstr(heard, "ping") != NULL);
	turn_often();
	mute = true;
	ahead = SILENCE_LAST_MS - 5000;
	turn_often();
	while (read(daemon_fd, &byte, 1) == 1)
		;
	ck_assert_int_ne(read(daemon_fd, &byte, 1), 0);
	ahead = SILENCE_LAST_MS;
	turn();
	while (read(daemon_fd, &byte, 1) == 1)
		;
	ck_assert_int_eq(read(daemon_fd, &byte, 1), 0);
	text = feed_patch(feed, true, watch_now(), &len);
	ck_assert_ptr_nonnull(strstr(text, "lockbrokerd does not answer"));
	free(text);
	close(daemon_fd);
	daemon_fd = -1;
	turn_often();
	ck_assert_int_lt(daemon_fd, 0);
	ahead += 1000;
	TURN_UNTIL(daemon_fd >= 0);
	feed_look(feed, -1);
}
END_TEST

/* ---- clients that do not read ---- */

START_TEST(an_answer_must_be_read_in_30_seconds)
{
	int fd = client("/v1/locks/db");
	size_t total = 0;

	TURN_UNTIL(has_bytes(fd));
	ahead = ANSWER_MS - 5000;
	turn_often();
	ahead = ANSWER_MS + 5000;
	turn_often();
	TURN_UNTIL(read_all(fd, &total));
	ck_assert_uint_lt(total, 2000000);
	close(fd);
}
END_TEST

START_TEST(a_page_that_reads_nothing_is_closed_and_one_that_has_read_all_stays)
{
	int good, stuck;
	size_t total = 0, most;

	rows = 200;
	good = client("/v1/events");
	TURN_UNTIL(read_all(good, &total) || total > (size_t)rows * WORD_SIZE);
	stuck = client("/v1/events");
	TURN_UNTIL(has_bytes(stuck));
	for (; ahead < READ_MS + 5000; ahead += 5000) {
		turn_often();
		ck_assert(!read_all(good, &total));
	}
	most = total;
	total = 0;
	TURN_UNTIL(read_all(stuck, &total));
	ck_assert_uint_lt(total, (size_t)rows * WORD_SIZE);
	turn_often();
	ck_assert(!read_all(good, &most));
	close(good);
	close(stuck);
}
END_TEST

START_TEST(pages_that_do_not_read_have_a_limit_together)
{
	int good, stuck, late;
	size_t total = 0;

	rows = UNREAD_MOST / WORD_SIZE + 100;
	good = client("/v1/events");
	TURN_UNTIL(read_all(good, &total) || total > (size_t)rows * WORD_SIZE);
	/* It has read the last bytes, too. */
	for (int i = 0; i < 50; i++, turn())
		ck_assert(!read_all(good, &total));
	stuck = client("/v1/events");
	TURN_UNTIL(has_bytes(stuck));
	late = client("/v1/events");
	turn_often();
	total = 0;
	ck_assert(!read_all(late, &total));
	ck_assert_uint_lt(total, 1000); /* the head */
	close(stuck);
	TURN_UNTIL(read_all(late, &total) || total > UNREAD_MOST);
	close(good);
	close(late);
}
END_TEST

static Suite *
web_suite(void)
{
	Suite *suite = suite_create("web");
	TCase *tcase = tcase_create("limits");

	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_request_that_waits_ends_after_a_minute);
	tcase_add_test(tcase, a_silent_daemon_gets_a_new_connection);
	tcase_add_test(tcase, an_answer_must_be_read_in_30_seconds);
	tcase_add_test(tcase, a_page_that_reads_nothing_is_closed_and_one_that_has_read_all_stays);
	tcase_add_test(tcase, pages_that_do_not_read_have_a_limit_together);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {web_suite};

	return unit_run(makers, 1);
}
