/*
 * Users with many connections: turns, and common limits.
 */
#include "tests/unit/conn_rig.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/mem.h"
#include "daemon/peer/requests.h"

/*
 * By so much the account may be off. Without AddressSanitizer, glibc's malloc rounds a large block
 * up to pages, and takes a small one from what it had before.
 */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDED 0
#define SLACK 256
#else
#define ROUNDED 8192
#define SLACK 8192
#endif

/* Answers the first scan of a client. */
static void
answer(uint64_t peer, uint64_t request)
{
	struct conn *conn = peers_find(rig.peers, peer);

	requests_remove(conn->requests, request);
	conn_send(conn, mem_strdup("answer\n"));
	conn_make_due(conn);
}

START_TEST(a_visit_ends_in_time)
{
	int one = peer_new(), other = peer_new();

	rig.slow = 2 * NSEC_PER_MSEC;
	for (int i = 0; i < CONN_LINES_A_VISIT; i++)
		say(one, "x\n");
	say(other, "other\n");
	/* A pass does not take all that there is, but something. */
	ck_assert(pass());
	ck_assert_int_ge(rig.lines, 1);
	ck_assert_int_le(rig.lines, 2);
	/* A newcomer has a turn before the first client continues. */
	ck_assert(pass());
	ck_assert(rig.order[1] != rig.order[2] || rig.order[2] != rig.order[3]);
	while (rig.lines < CONN_LINES_A_VISIT + 1)
		pass();
	close(one);
	close(other);
}
END_TEST

/* A client of another user, if the test may change its user. */
static int
stranger_new(void)
{
	int fd;

	ck_assert_int_eq(seteuid(65534), 0);
	fd = peer_new();
	ck_assert_int_eq(seteuid(0), 0);
	return fd;
}

START_TEST(users_have_turns_and_not_their_clients)
{
	enum { MANY = 30 };
	int fds[MANY], fd;

	if (geteuid() != 0) {
		printf("# SKIP users_have_turns_and_not_their_clients: only root can be somebody "
		       "else\n");
		return;
	}
	for (int i = 0; i < MANY; i++)
		say(fds[i] = stranger_new(), "x\n");
	fd = peer_new();
	rig.slow = 2 * NSEC_PER_MSEC;
	pass();
	say(fd, "mine\n");
	for (int i = 0; i < 3; i++)
		pass();
	ck_assert_int_lt(rig.lines, MANY / 2);
	ck_assert(rig.order[2] == MANY + 1 || rig.order[3] == MANY + 1 || rig.order[4] == MANY + 1);
	/* And all of the others in the end. */
	while (rig.lines < MANY + 1)
		pass();
	/* The bytes of one user do not stop the other. */
	rig.slow = 0;
	set_limit(ACCOUNT_BYTES, 1, 10);
	account_add(peers_find(rig.peers, 1)->account, ACCOUNT_BYTES, 2);
	for (int i = 0; i < MANY; i++)
		say(fds[i], "y\n");
	say(fd, "mine\n");
	passes();
	ck_assert_int_eq(rig.lines, MANY + 2);
	ck_assert_uint_eq(rig.last_peer, MANY + 1);
	account_remove(peers_find(rig.peers, 1)->account, ACCOUNT_BYTES, 2);
	while (rig.lines < 2 * MANY + 2)
		pass();
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	close(fd);
}
END_TEST

START_TEST(nothing_is_read_while_the_user_has_no_room)
{
	int one = peer_new(), other = peer_new();
	char *line = mem_alloc(1024 * 1024 + 1), buf[65536];
	size_t got = 0;
	ssize_t n;

	set_limit(ACCOUNT_BYTES, (size_t)256 * 1024, 10);
	memset(line, 'x', 1024 * 1024 - 1);
	line[1024 * 1024 - 1] = '\n';
	say(one, "a\n");
	passes();
	conn_send(peers_find(rig.peers, rig.last_peer), mem_strdup(line));
	passes();
	say(one, "b\n");
	say(other, "c\n");
	passes();
	ck_assert_int_eq(rig.lines, 1);
	ck_assert_ptr_nonnull(strstr(rig.logged, "pauses reading"));
	/* Nothing is to be done until it reads. */
	ck_assert(!pass());
	/* A client that has read all its output gets the news. A client that has not is closed. */
	conn_send(peers_find(rig.peers, 2), mem_strdup("news\n"));
	conn_send(peers_find(rig.peers, 2), mem_strdup("news\n"));
	passes();
	ck_assert_ptr_nonnull(peers_find(rig.peers, 2));
	while (got < 1024 * 1024) {
		pass();
		while ((n = read(one, buf, sizeof(buf))) > 0)
			got += (size_t)n;
	}
	passes();
	ck_assert_int_eq(rig.lines, 3);
	conn_send(peers_find(rig.peers, 1), mem_strdup(line));
	pass();
	conn_send(peers_find(rig.peers, 1), mem_strdup("news\n"));
	ck_assert_ptr_null(peers_find(rig.peers, 1));
	ck_assert_ptr_nonnull(strstr(rig.logged, "does not read"));
	free(line);
	close(one);
	close(other);
}
END_TEST

START_TEST(a_line_without_end_is_charged_until_it_is_whole)
{
	int fd = peer_new();
	const struct account *account = peers_find(rig.peers, 1)->account;

	say(fd, "unfinished");
	passes();
	ck_assert_uint_ge(account->used[ACCOUNT_BYTES], 10);
	say(fd, " no more\n");
	passes();
	ck_assert_uint_eq(account->used[ACCOUNT_BYTES], 0);
	close(fd);
}
END_TEST

/* AddressSanitizer's; NULL without it. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t
memory(void)
{
	struct mallinfo2 info = mallinfo2();

	return __sanitizer_get_current_allocated_bytes != NULL
		   ? __sanitizer_get_current_allocated_bytes()
		   : info.uordblks + info.hblkhd;
}

/* The memory of the client's connection is charged, except for a small constant. */
static void
check_charged(const struct account *account, size_t before)
{
	size_t kept = memory() - before, charged = account->used[ACCOUNT_BYTES];

	ck_assert_uint_le(kept, charged + SLACK);
	ck_assert_uint_le(charged, kept + SLACK);
}

START_TEST(the_memory_of_a_connection_is_charged_and_not_the_length_of_its_lines)
{
	enum { LONG = 60000, MUCH = 1024 * 1024 };
	int fd = peer_new();
	const struct account *account = peers_find(rig.peers, 1)->account;
	static char line[LONG + 3], buf[4096];
	char *news;
	size_t before, got;

	say(fd, "x\n");
	passes();
	before = memory();
	/* A long line, and the begin of the next. */
	memset(line, 'x', LONG);
	memcpy(line + LONG, "\ny", 3);
	say(fd, line);
	passes();
	ck_assert_int_eq(rig.lines, 2);
	check_charged(account, before);
	say(fd, "\n");
	passes();
	ck_assert_uint_eq(account->used[ACCOUNT_BYTES], 0);
	/* A long answer that is nearly read, and many short ones. */
	news = mem_alloc(MUCH + 1);
	memset(news, 'x', MUCH);
	conn_send(peers_find(rig.peers, 1), news);
	passes();
	check_charged(account, before);
	for (got = 0; conn_unread(peers_find(rig.peers, 1)) > 100000; passes())
		got += (size_t)read(fd, buf, sizeof(buf));
	check_charged(account, before);
	for (int i = 0; i < 1000; i++)
		conn_send(peers_find(rig.peers, 1), mem_strdup("news\n"));
	passes();
	ck_assert_uint_ge(account->used[ACCOUNT_BYTES] + ROUNDED, memory() - before);
	for (; got < MUCH + 5000; passes())
		got += (size_t)read(fd, buf, sizeof(buf));
	ck_assert_uint_eq(account->used[ACCOUNT_BYTES], 0);
	close(fd);
}
END_TEST

START_TEST(a_scan_above_the_limit_waits_for_its_turn)
{
	int one = peer_new(), other = peer_new();

	set_limit(ACCOUNT_SCANS, 2, 10);
	rig.scans = true;
	say(one, "a\r\nb\nc\nd\n");
	passes();
	say(other, "e\n");
	passes();
	ck_assert_int_eq(rig.lines, 2);
	ck_assert(!pass());
	answer(1, 1);
	passes();
	/* The one that came first, and once. */
	ck_assert_int_eq(rig.lines, 3);
	ck_assert_str_eq(rig.last_line, "c");
	answer(1, 2);
	passes();
	ck_assert_int_eq(rig.lines, 4);
	ck_assert_str_eq(rig.last_line, "e");
	answer(2, 1);
	passes();
	ck_assert_int_eq(rig.lines, 5);
	ck_assert_str_eq(rig.last_line, "d");
	close(one);
	close(other);
}
END_TEST

START_TEST(other_requests_are_taken_while_one_scan_waits_and_not_behind_two)
{
	int one = peer_new(), other = peer_new();

	set_limit(ACCOUNT_SCANS, 1, 10);
	rig.scans = true;
	say(one, "a\n");
	passes();
	say(other, "b\nping\n");
	passes();
	ck_assert_int_eq(rig.lines, 2);
	ck_assert_str_eq(rig.last_line, "ping");
	say(other, "c\nping\n");
	passes();
	ck_assert_int_eq(rig.lines, 2);
	ck_assert(!pass());
	answer(1, 1);
	passes();
	/* The first of the two, and the lines behind the second, which waits now. */
	ck_assert_int_eq(rig.lines, 4);
	ck_assert_str_eq(rig.last_line, "ping");
	answer(2, 1);
	passes();
	ck_assert_str_eq(rig.last_line, "c");
	close(one);
	close(other);
}
END_TEST

START_TEST(a_scan_that_waits_is_answered_after_a_half_close)
{
	int one = peer_new(), other = peer_new();
	bool end;

	set_limit(ACCOUNT_SCANS, 1, 10);
	rig.scans = true;
	say(one, "a\n");
	passes();
	say(other, "b\nc\n");
	shutdown(other, SHUT_WR);
	passes();
	ck_assert_int_eq(rig.lines, 1);
	answer(1, 1);
	passes();
	ck_assert_str_eq(rig.last_line, "b");
	ck_assert_int_eq(rig.gones, 1);
	answer(2, 1);
	passes();
	ck_assert_str_eq(rig.last_line, "c");
	answer(2, 2);
	passes();
	ck_assert_str_eq(heard(other, &end), "answer\nanswer\n");
	ck_assert(end);
	close(one);
	close(other);
}
END_TEST

START_TEST(a_scan_counts_until_the_broker_has_answered_though_its_client_hung_up)
{
	int one = peer_new(), other = peer_new();

	set_limit(ACCOUNT_SCANS, 1, 10);
	rig.scans = true;
	say(one, "a\n");
	passes();
	say(other, "b\n");
	close(one);
	passes();
	ck_assert_int_eq(rig.lines, 1);
	ck_assert_int_eq(rig.lefts, 1);
	ck_assert_ptr_null(peers_find(rig.peers, 1));
	peers_scanned(rig.peers, 1, 1);
	passes();
	ck_assert_str_eq(rig.last_line, "b");
	ck_assert_uint_eq(peers_count(rig.peers), 1);
	/* One that waits goes with its client, and one that goes on with the daemon. */
	one = peer_new();
	say(one, "c\n");
	passes();
	close(one);
	passes();
	ck_assert_uint_eq(peers_count(rig.peers), 1);
	close(other);
	passes();
	ck_assert_uint_eq(peers_count(rig.peers), 1);
	ck_assert_int_eq(rig.lines, 2);
}
END_TEST

START_TEST(a_hang_up_is_seen_though_the_client_had_half_closed_and_nothing_is_read)
{
	int fd = peer_new();
	struct account *account = peers_find(rig.peers, 1)->account;

	set_limit(ACCOUNT_BYTES, 1, 10);
	account_add(account, ACCOUNT_BYTES, 1);
	say(fd, "a\n");
	passes();
	shutdown(fd, SHUT_WR);
	passes();
	ck_assert(!pass());
	ck_assert_int_eq(rig.gones, 0);
	account_add(account, ACCOUNT_PEERS, 1); /* it outlives the client */
	close(fd);
	passes();
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_uint_eq(peers_count(rig.peers), 0);
	account_remove(account, ACCOUNT_BYTES, 1);
	account_close(account);
}
END_TEST

START_TEST(a_half_closed_client_that_does_not_read_costs_nothing)
{
	enum { MUCH = 1024 * 1024 };
	int fd = peer_new();
	char *line = mem_alloc(MUCH + 1);

	memset(line, 'x', MUCH - 1);
	line[MUCH - 1] = '\n';
	say(fd, "a\n");
	passes();
	conn_send(peers_find(rig.peers, rig.last_peer), line);
	passes();
	shutdown(fd, SHUT_WR);
	passes();
	for (int i = 0; i < 10; i++) {
		rig_loop();
		ck_assert(!peers_find(rig.peers, rig.last_peer)->is_due);
		pass();
	}
	close(fd);
	passes();
	ck_assert_int_eq(rig.gones, 1);
}
END_TEST

Suite *
suite_conn_user(void)
{
	Suite *suite = suite_create("conn user");
	TCase *tcase = tcase_create("users");

	tcase_add_checked_fixture(tcase, conn_rig_setup, conn_rig_teardown);
	tcase_add_test(tcase, a_visit_ends_in_time);
	tcase_add_test(tcase, users_have_turns_and_not_their_clients);
	tcase_add_test(tcase, nothing_is_read_while_the_user_has_no_room);
	tcase_add_test(tcase, a_line_without_end_is_charged_until_it_is_whole);
	tcase_add_test(
	    tcase, the_memory_of_a_connection_is_charged_and_not_the_length_of_its_lines);
	tcase_add_test(tcase, a_scan_above_the_limit_waits_for_its_turn);
	tcase_add_test(tcase, other_requests_are_taken_while_one_scan_waits_and_not_behind_two);
	tcase_add_test(tcase, a_scan_that_waits_is_answered_after_a_half_close);
	tcase_add_test(
	    tcase, a_scan_counts_until_the_broker_has_answered_though_its_client_hung_up);
	tcase_add_test(
	    tcase, a_hang_up_is_seen_though_the_client_had_half_closed_and_nothing_is_read);
	tcase_add_test(tcase, a_half_closed_client_that_does_not_read_costs_nothing);
	suite_add_tcase(suite, tcase);
	return suite;
}
