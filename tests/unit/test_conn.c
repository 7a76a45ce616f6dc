/*
 * Connections over a socketpair: lines in, lines out, limits, and all the ways to end.
 */
#include "tests/unit/conn_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/mem.h"
#include "daemon/peer/requests.h"

START_TEST(a_visit_takes_a_limited_number_of_lines_of_a_client)
{
	int one = peer_new(), other = peer_new();

	for (int i = 0; i < 3 * CONN_LINES_A_VISIT; i++)
		say(one, "x\n");
	say(other, "other\n");
	/* On a busy machine the time of a pass may end before the other client has its turn. */
	for (int i = 0; i < 100 && rig.lines <= CONN_LINES_A_VISIT; i++)
		ck_assert(pass());
	ck_assert_int_ge(rig.lines, CONN_LINES_A_VISIT + 1);
	ck_assert_int_le(rig.lines, 2 * CONN_LINES_A_VISIT + 1);
	passes();
	ck_assert_int_eq(rig.lines, 3 * CONN_LINES_A_VISIT + 1);
	ck_assert(!pass());
	close(one);
	close(other);
}
END_TEST

START_TEST(lines_come_in_pieces)
{
	int fd = peer_new();

	say(fd, "on");
	passes();
	ck_assert_int_eq(rig.lines, 0);
	say(fd, "e\r\n\n\ntw");
	passes();
	ck_assert_int_eq(rig.lines, 1);
	ck_assert_str_eq(rig.last_line, "one");
	say(fd, "o\n");
	passes();
	ck_assert_str_eq(rig.last_line, "two");
	close(fd);
}
END_TEST

START_TEST(too_many_requests_being_answered_stop_the_reading)
{
	int fd = peer_new();
	struct conn *conn;

	rig.keeps = true;
	set_limit(ACCOUNT_PEERS, 10, 2);
	say(fd, "a\nb\nc\nd\n");
	passes();
	ck_assert_int_eq(rig.lines, 2);
	conn = peers_find(rig.peers, rig.last_peer);
	requests_remove(conn->requests, 1);
	conn_make_due(conn);
	passes();
	ck_assert_int_eq(rig.lines, 3);
	ck_assert_str_eq(rig.last_line, "c");
	requests_remove(conn->requests, 2);
	requests_remove(conn->requests, 3);
	conn_make_due(conn);
	passes();
	ck_assert_int_eq(rig.lines, 4);
	say(fd, "e\n");
	passes();
	ck_assert_int_eq(rig.lines, 5);
	close(fd);
}
END_TEST

/* Also of a client that hangs up meanwhile. */
START_TEST(a_line_that_is_held_and_those_behind_it_come_later)
{
	bool hangs_up = _i == 1;
	int fd = peer_new(), other = peer_new();

	rig.holds = true;
	peers_hold(rig.peers, true);
	say(fd, "ping\nlist\nping\nlast\n");
	say(other, "ping\n");
	passes();
	ck_assert_int_eq(rig.lines, 2);
	ck_assert_str_eq(rig.last_line, "ping");
	if (hangs_up)
		close(fd);
	passes();
	ck_assert_int_eq(rig.gones, 0);
	rig.holds = false;
	peers_hold(rig.peers, false);
	passes();
	ck_assert_int_eq(rig.lines, 5);
	ck_assert_str_eq(rig.last_line, "last");
	ck_assert_int_eq(rig.gones, hangs_up);
	if (!hangs_up)
		close(fd);
	close(other);
}
END_TEST

START_TEST(waiting_requests_do_not_stop_the_reading)
{
	int fd = peer_new();

	rig.keeps = rig.keeps_waiting = true;
	set_limit(ACCOUNT_PEERS, 10, 2);
	say(fd, "a\nb\nc\nd\n");
	passes();
	ck_assert_int_eq(rig.lines, 4);
	close(fd);
}
END_TEST

START_TEST(a_hang_up_is_seen_while_nothing_is_read)
{
	int fd = peer_new();

	rig.keeps = true;
	set_limit(ACCOUNT_PEERS, 10, 1);
	say(fd, "a\nb\n");
	passes();
	ck_assert_int_eq(rig.lines, 1);
	close(fd);
	passes();
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_uint_eq(peers_count(rig.peers), 0);
	ck_assert_int_eq(rig.lines, 1);
}
END_TEST

START_TEST(a_hang_up_with_unread_bytes_is_seen_while_nothing_is_read)
{
	int fd = peer_new();

	rig.keeps = true;
	set_limit(ACCOUNT_PEERS, 10, 1);
	say(fd, "a\nb\n");
	passes();
	conn_send(peers_find(rig.peers, rig.last_peer), mem_strdup("answer\n"));
	passes();
	close(fd);
	passes();
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_uint_eq(peers_count(rig.peers), 0);
}
END_TEST

START_TEST(a_half_close_while_nothing_is_read_waits_its_turn)
{
	int fd = peer_new();
	struct conn *conn;

	rig.keeps = true;
	set_limit(ACCOUNT_PEERS, 10, 1);
	say(fd, "a\nb\n");
	shutdown(fd, SHUT_WR);
	passes();
	ck_assert_int_eq(rig.gones, 0);
	ck_assert(!pass());
	conn = peers_find(rig.peers, rig.last_peer);
	rig.keeps = false;
	requests_remove(conn->requests, 1);
	conn_make_due(conn);
	passes();
	ck_assert_int_eq(rig.lines, 2);
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_uint_eq(peers_count(rig.peers), 0);
	close(fd);
}
END_TEST

START_TEST(a_half_close_still_gets_its_answers)
{
	int fd = peer_new();
	struct conn *conn;
	bool end;

	rig.keeps = true;
	say(fd, "a\n");
	shutdown(fd, SHUT_WR);
	passes();
	/* Its holds end at once. */
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_int_eq(rig.lines, 1);
	ck_assert_str_eq(heard(fd, &end), "");
	ck_assert(!end);
	conn = peers_find(rig.peers, rig.last_peer);
	ck_assert_ptr_nonnull(conn);
	conn_send(conn, mem_strdup("answer\n"));
	requests_remove(conn->requests, 1);
	conn_make_due(conn);
	passes();
	ck_assert_str_eq(heard(fd, &end), "answer\n");
	ck_assert(end);
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_uint_eq(peers_count(rig.peers), 0);
	close(fd);
}
END_TEST

/* The client waits for an answer, and could not see that its line had no end. */
START_TEST(a_line_without_an_end_is_refused_at_a_half_close)
{
	int fd = peer_new();
	const char *text;
	bool end;

	say(fd, "a\nunfinished");
	shutdown(fd, SHUT_WR);
	passes();
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_int_eq(rig.lines, 1);
	text = heard(fd, &end);
	ck_assert_ptr_nonnull(strstr(text, "-32600"));
	ck_assert_ptr_nonnull(strstr(text, "\"id\":null"));
	ck_assert_ptr_nonnull(strstr(text, "the last line has no LF"));
	ck_assert(end);
	ck_assert_uint_eq(peers_count(rig.peers), 0);
	close(fd);
}
END_TEST

START_TEST(a_full_close_ends_at_once)
{
	int fd = peer_new();

	rig.keeps = true;
	say(fd, "a\n");
	close(fd);
	passes();
	ck_assert_int_eq(rig.lines, 1);
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_uint_eq(peers_count(rig.peers), 0);
	ck_assert_str_eq(rig.logged, "");
}
END_TEST

START_TEST(a_line_that_is_too_long_ends_the_client_with_an_error)
{
	int fd = peer_new(), flags = fcntl(fd, F_GETFL);
	char *much = mem_alloc(LINE_MAX_IN + 1);
	size_t sent = 0;
	const char *text;
	bool end;

	ck_assert_int_eq(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
	memset(much, 'x', LINE_MAX_IN + 1);
	while (sent < LINE_MAX_IN + 1) {
		ssize_t n = write(fd, much + sent, LINE_MAX_IN + 1 - sent);

		if (n > 0)
			sent += (size_t)n;
		pass();
	}
	passes();
	text = heard(fd, &end);
	ck_assert_ptr_nonnull(strstr(text, "-32600"));
	ck_assert_ptr_nonnull(strstr(text, "\"id\":null"));
	ck_assert(end);
	ck_assert_int_eq(rig.lines, 0);
	ck_assert_int_eq(rig.gones, 1);
	free(much);
	close(fd);
}
END_TEST

START_TEST(a_line_that_is_too_long_is_refused_once)
{
	int fd = peer_new();
	char *much = mem_alloc(LINE_MAX_IN + 2);
	const char *text;
	bool end;

	rig.keeps = true;
	say(fd, "a\n");
	passes();
	memset(much, 'x', LINE_MAX_IN + 1);
	say(fd, much);
	passes();
	ck_assert_int_eq(rig.gones, 1);
	/* Its answer is still to come. */
	conn_make_due(peers_find(rig.peers, 1));
	passes();
	text = strstr(heard(fd, &end), "-32600");
	ck_assert_ptr_nonnull(text);
	ck_assert_ptr_null(strstr(text + 1, "-32600"));
	ck_assert(!end);
	free(much);
	close(fd);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_closed)
{
	int fd = peer_new();
	char *line = mem_alloc(65537);
	struct conn *conn;
	uint64_t id;

	memset(line, 'x', 65535);
	line[65535] = '\n';
	say(fd, "a\n");
	passes();
	id = rig.last_peer;
	for (int i = 0; i < 2 * CONN_OUT_MAX / 65536 && (conn = peers_find(rig.peers, id)) != NULL;
	     i++) {
		conn_send(conn, mem_strdup(line));
		pass();
	}
	ck_assert_ptr_null(peers_find(rig.peers, id));
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_ptr_nonnull(strstr(rig.logged, "does not read"));
	free(line);
	close(fd);
}
END_TEST

START_TEST(output_that_waits_is_sent_when_there_is_room)
{
	int fd = peer_new();
	char *line = mem_alloc(1024 * 1024 + 1), buf[65536];
	size_t got = 0;
	ssize_t n;

	memset(line, 'x', 1024 * 1024 - 1);
	line[1024 * 1024 - 1] = '\n';
	say(fd, "a\n");
	passes();
	conn_send(peers_find(rig.peers, rig.last_peer), mem_strdup(line));
	for (int i = 0; i < 1000 && got < 1024 * 1024; i++) {
		pass();
		while ((n = read(fd, buf, sizeof(buf))) > 0)
			got += (size_t)n;
	}
	ck_assert_uint_eq(got, 1024 * 1024);
	ck_assert_ptr_nonnull(peers_find(rig.peers, rig.last_peer));
	free(line);
	close(fd);
}
END_TEST

/* A later line may contradict it. */
START_TEST(only_the_newest_of_a_run_is_sent)
{
	int fd = peer_new();
	bool end;

	for (const char *line = "aAbBcCd"; *line != '\0'; line++) {
		char text[] = {*line, '\n', '\0'};

		if (*line >= 'a')
			conn_send_newest(peers_find(rig.peers, 1), mem_strdup(text));
		else
			conn_send(peers_find(rig.peers, 1), mem_strdup(text));
	}
	conn_send_newest(peers_find(rig.peers, 1), mem_strdup("e\n"));
	passes();
	ck_assert_str_eq(heard(fd, &end), "a\nA\nb\nB\nc\nC\ne\n");
	close(fd);
}
END_TEST

START_TEST(a_client_may_be_closed_by_its_own_line)
{
	int fd = peer_new();
	bool end;

	rig.kills = true;
	say(fd, "a\nb\n");
	pass();
	ck_assert_int_eq(rig.lines, 1);
	ck_assert_int_eq(rig.gones, 1);
	ck_assert_uint_eq(peers_count(rig.peers), 0);
	ck_assert_ptr_nonnull(strstr(rig.logged, "the test says so"));
	heard(fd, &end);
	ck_assert(read(fd, &(char){0}, 1) <= 0);
	close(fd);
}
END_TEST

START_TEST(clients_of_a_uid_are_bounded)
{
	int first, second, third;
	const char *text;
	bool end;

	set_limit(ACCOUNT_PEERS, 2, 10);
	first = peer_new();
	second = peer_new();
	third = peer_new();
	passes();
	ck_assert_uint_eq(peers_count(rig.peers), 2);
	text = heard(third, &end);
	ck_assert_ptr_nonnull(strstr(text, "too-many-requests"));
	ck_assert(end);
	close(third);
	close(first);
	passes();
	third = peer_new();
	passes();
	ck_assert_uint_eq(peers_count(rig.peers), 2);
	ck_assert_str_eq(heard(third, &end), "");
	ck_assert(!end);
	close(second);
	close(third);
}
END_TEST

static Suite *
conn_suite(void)
{
	Suite *suite = suite_create("conn");
	TCase *tcase = tcase_create("connections");

	tcase_add_checked_fixture(tcase, conn_rig_setup, conn_rig_teardown);
	tcase_add_test(tcase, a_visit_takes_a_limited_number_of_lines_of_a_client);
	tcase_add_test(tcase, lines_come_in_pieces);
	tcase_add_test(tcase, too_many_requests_being_answered_stop_the_reading);
	tcase_add_loop_test(tcase, a_line_that_is_held_and_those_behind_it_come_later, 0, 2);
	tcase_add_test(tcase, waiting_requests_do_not_stop_the_reading);
	tcase_add_test(tcase, a_hang_up_is_seen_while_nothing_is_read);
	tcase_add_test(tcase, a_hang_up_with_unread_bytes_is_seen_while_nothing_is_read);
	tcase_add_test(tcase, a_half_close_while_nothing_is_read_waits_its_turn);
	tcase_add_test(tcase, a_half_close_still_gets_its_answers);
	tcase_add_test(tcase, a_line_without_an_end_is_refused_at_a_half_close);
	tcase_add_test(tcase, a_full_close_ends_at_once);
	tcase_add_test(tcase, a_line_that_is_too_long_ends_the_client_with_an_error);
	tcase_add_test(tcase, a_line_that_is_too_long_is_refused_once);
	tcase_add_test(tcase, a_client_that_does_not_read_is_closed);
	tcase_add_test(tcase, output_that_waits_is_sent_when_there_is_room);
	tcase_add_test(tcase, only_the_newest_of_a_run_is_sent);
	tcase_add_test(tcase, a_client_may_be_closed_by_its_own_line);
	tcase_add_test(tcase, clients_of_a_uid_are_bounded);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {conn_suite, suite_conn_user};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
