/*
 * Watches: first the present rows, then their changes, here and at another daemon.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/test_view.h"
#include "tests/unit/view_rig.h"

/* Two rounds: changes elsewhere are notified by then. */
#define ROUNDS (2 * NSEC_PER_SEC + RIG_TIMEOUT)

static struct view_rig *rig;

static void
setup(void)
{
	rig = rig_new();
	world_make(rig->world, "db", 1);
}

static void
teardown(void)
{
	rig_free(rig);
}

static void
watch(uint64_t request, const char *name)
{
	view_watch(rig->daemon[0].view, 100, request, name);
	world_pass(rig->world, RIG_TIMEOUT + 100 * NSEC_PER_MSEC);
}

/* The notifications since the last call. Static. */
static const char *
told(void)
{
	static char text[RIG_TOLD];

	memcpy(text, rig->told, sizeof(text));
	rig->told[0] = '\0';
	return text;
}

#define ck_told(wanted)                                                                            \
	do {                                                                                       \
		const char *its = told();                                                          \
		ck_assert_str_eq(its, wanted);                                                     \
	} while (0)

START_TEST(a_watch_begins_with_the_rows_of_all_hosts)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 0, 2);
	rig_acquire(rig, 1, 3);
	watch(1, NULL);
	ck_told("A:busy B:waiting C:waiting synced");
	world_pass(rig->world, 10 * NSEC_PER_SEC);
	ck_told("");
}
END_TEST

/* Changes are notified together, and by then. */
#define SOON (50 * NSEC_PER_MSEC)
/* A round that begins early waits so long after the last one at most. */
#define ROUND_GAP (100 * NSEC_PER_MSEC)

START_TEST(changes_here_are_told_soon)
{
	rig_acquire(rig, 0, 1);
	watch(1, "db");
	ck_told("A:busy synced");
	rig_acquire(rig, 0, 2);
	ck_told("B:waiting");
	lock_peer_gone(rig->world->daemon[0].engine, 1);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	ck_told("gone B:busy");
	rig_acquire(rig, 0, 3);
	view_deny(rig->daemon[0].view, 100, 2, rig_waiter(rig, "C"), 0);
	world_pass(rig->world, SOON);
	ck_told("C:waiting C:cancelled gone");
}
END_TEST

START_TEST(changes_elsewhere_are_told_soon)
{
	rig_acquire(rig, 1, 1);
	watch(1, "db");
	ck_told("A:busy synced");
	rig_acquire(rig, 1, 2);
	world_pass(rig->world, ROUNDS);
	ck_told("B:waiting");
	view_grant(rig->daemon[1].view, 100, 1, rig_waiter(rig, "B"), 0);
	world_pass(rig->world, ROUNDS);
	ck_told("B:granted");
	lock_peer_gone(rig->world->daemon[1].engine, 2);
	world_pass(rig->world, ROUNDS);
	ck_told("gone");
}
END_TEST

START_TEST(a_watch_of_one_name_hears_of_no_other)
{
	const struct lock_acquire other = {
	    .name = "other", .kind = LOCK_KIND_MUTEX, .timeout = DURATION_FOREVER, .who = "X"};

	watch(1, "other");
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	world_pass(rig->world, ROUNDS);
	ck_told("synced");
	lock_acquire(rig->world->daemon[1].engine, 9, 9, &other);
	world_pass(rig->world, ROUNDS);
	ck_told("X:busy");
	/* Another client watches all: the first one gets no news. */
	watch(2, NULL);
	ck_told("A:busy X:busy B:waiting synced");
}
END_TEST

START_TEST(a_watch_of_all_hears_of_no_forbidden_name)
{
	const struct lock_acquire secret = {
	    .name = "secret", .kind = LOCK_KIND_MUTEX, .timeout = DURATION_FOREVER, .who = "X"};

	for (int daemon = 0; daemon < DAEMONS; daemon++)
		lock_acquire(rig->world->daemon[daemon].engine, 9, 9, &secret);
	rig_acquire(rig, 0, 1);
	watch(1, NULL);
	ck_told("A:busy synced");
	lock_peer_gone(rig->world->daemon[0].engine, 9);
	world_pass(rig->world, ROUNDS);
	lock_peer_gone(rig->world->daemon[1].engine, 9);
	world_pass(rig->world, ROUNDS);
	ck_told("");
}
END_TEST

START_TEST(a_daemon_that_no_longer_answers_is_forgotten)
{
	rig_acquire(rig, 1, 1);
	watch(1, NULL);
	ck_told("A:busy synced");
	rig->daemon[1].deaf = true;
	world_pass(rig->world, 3 * NSEC_PER_SEC);
	ck_told("");
	world_pass(rig->world, 12 * NSEC_PER_SEC);
	ck_told("gone");
	rig->daemon[1].deaf = false;
	world_pass(rig->world, ROUNDS);
	ck_told("A:busy");
}
END_TEST

START_TEST(a_watch_ends_by_cancel_by_its_client_and_by_the_stop)
{
	watch(1, NULL);
	watch(2, NULL);
	watch(3, NULL);
	told();
	ck_assert(!view_cancel(rig->daemon[0].view, 101, 1));
	ck_assert(view_cancel(rig->daemon[0].view, 100, 1));
	ck_assert(!view_cancel(rig->daemon[0].view, 100, 1));
	ck_assert_int_eq(rig_answered(rig, 0, 1)->reason, REASON_CANCELLED);
	rig_acquire(rig, 0, 1);
	ck_told("A:busy A:busy");
	view_peer_gone(rig->daemon[0].view, 100);
	ck_assert_ptr_null(rig_answered(rig, 0, 2));
	rig_acquire(rig, 0, 2);
	ck_told("");
	watch(4, NULL);
	world_pass(rig->world, ROUNDS);
	ck_told("A:busy B:waiting synced");
	view_drain(rig->daemon[0].view);
	ck_assert_int_eq(rig_answered(rig, 0, 4)->reason, REASON_DRAINING);
}
END_TEST

/* Or the daemon would wait for an end of it. */
START_TEST(a_daemon_that_stops_lets_nobody_watch)
{
	view_drain(rig->daemon[0].view);
	watch(1, NULL);
	ck_told("");
	ck_assert_ptr_nonnull(rig_answered(rig, 0, 1));
	ck_assert_int_eq(rig_answered(rig, 0, 1)->reason, REASON_DRAINING);
}
END_TEST

START_TEST(nobody_is_asked_when_nobody_watches)
{
	unsigned asked;

	rig_acquire(rig, 1, 1);
	watch(1, NULL);
	view_peer_gone(rig->daemon[0].view, 100);
	world_pass(rig->world, ROUNDS);
	asked = rig->world->asked;
	world_pass(rig->world, 2 * NSEC_PER_SEC);
	ck_assert_uint_le(rig->world->asked - asked, 2); /* keepalives */
}
END_TEST

START_TEST(a_slow_reader_begins_anew_when_it_has_read)
{
	rig_acquire(rig, 0, 1);
	watch(1, NULL);
	ck_told("A:busy synced");
	rig->daemon[0].unread = (size_t)3 * 1024 * 1024;
	rig_acquire(rig, 0, 2);
	rig_acquire(rig, 0, 3);
	world_pass(rig->world, ROUNDS);
	ck_told("");
	rig->daemon[0].unread = 1;
	world_pass(rig->world, ROUNDS);
	ck_told("");
	rig->daemon[0].unread = 0;
	world_pass(rig->world, ROUNDS);
	ck_told("resync A:busy B:waiting C:waiting synced");
	rig_acquire(rig, 0, 4);
	ck_told("D:waiting");
}
END_TEST

/* 3,000 rows of 1.4 kB: the watch gets a megabyte of them, and the number of the others. */
START_TEST(the_first_rows_have_a_limit)
{
	char words[257];
	struct lock_acquire wanted = {
	    .name = "db", .timeout = DURATION_FOREVER, .why = words, .command = words};
	const char *its;
	int rows = 0, more = 0;

	memset(words, '"', 256);
	words[256] = '\0';
	for (uint64_t i = 0; i < 3000; i++)
		lock_acquire(rig->world->daemon[0].engine, 1 + i % 1000, 1 + i / 1000, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	watch(1, NULL);
	its = told();
	for (const char *at = its; (at = strstr(at, "-:")) != NULL; at++)
		rows++;
	ck_assert_int_eq(sscanf(strstr(its, "synced"), "synced+%d", &more), 1);
	ck_assert_int_gt(rows, 300);
	ck_assert_int_lt(rows, 1024);
	ck_assert_int_eq(rows + more, 3000);
}
END_TEST

START_TEST(changes_in_quick_succession_are_notified_once)
{
	watch(1, NULL);
	ck_told("synced");
	rig_acquire(rig, 0, 1);
	ck_told("A:busy");
	/* It comes, gets the slot and goes in a moment. */
	lock_peer_gone(rig->world->daemon[0].engine, 1);
	world_pass(rig->world, 5 * NSEC_PER_MSEC);
	ck_told("");
	lock_acquire(rig->world->daemon[0].engine, 2, 1,
	    &(struct lock_acquire){.name = "db", .timeout = DURATION_FOREVER, .who = "B"});
	world_pass(rig->world, 5 * NSEC_PER_MSEC);
	lock_peer_gone(rig->world->daemon[0].engine, 2);
	world_pass(rig->world, SOON);
	ck_told("gone B:busy gone");
}
END_TEST

/* Rows of 1.4 kB: about 750 are a megabyte. */
static void
acquire_many(uint64_t count)
{
	char words[257];
	struct lock_acquire wanted = {
	    .name = "db", .timeout = DURATION_FOREVER, .why = words, .command = words};

	memset(words, '"', 256);
	words[256] = '\0';
	for (uint64_t i = 0; i < count; i++)
		lock_acquire(rig->world->daemon[0].engine, 1 + i % 1000, 1 + i / 1000, &wanted);
}

/* With a clock that goes on: a part at a time, so that holders are served between them. */
START_TEST(the_first_rows_are_sent_in_slices)
{
	size_t slices = 0, before;

	acquire_many(400);
	world_pass(rig->world, SOON);
	rig->world->tick = 10000;
	view_watch(rig->daemon[0].view, 100, 1, NULL);
	for (int i = 0; i < 1000 && strstr(rig->told, "synced") == NULL; i++) {
		before = rig->told_count;
		world_step(rig->world, NSEC_PER_SEC);
		ck_assert_uint_le(rig->told_count - before, 101);
		slices += rig->told_count > before;
	}
	ck_assert_uint_eq(rig->told_count, 401);
	ck_assert_uint_ge(slices, 4);
	/* So are changes, to one watch after another. */
	for (uint64_t request = 2; request < 12; request++)
		view_watch(rig->daemon[0].view, 100, request, "other");
	while (rig->told_count < 411)
		world_step(rig->world, NSEC_PER_SEC);
	for (uint64_t peer = 1; peer <= 400; peer++)
		lock_peer_gone(rig->world->daemon[0].engine, peer);
	slices = 0;
	for (int i = 0; i < 1000 && rig->told_count < 411 + 800; i++) {
		before = rig->told_count;
		world_step(rig->world, NSEC_PER_SEC);
		ck_assert_uint_le(rig->told_count - before, 102);
		slices += rig->told_count > before;
	}
	/* The waiter was cancelled before its row ended. The holder was not. */
	ck_assert_uint_ge(rig->told_count, 411 + 799);
	ck_assert_uint_ge(slices, 8);
	rig->world->tick = 0;
}
END_TEST

START_TEST(after_too_many_changes_a_watch_begins_anew)
{
	watch(1, NULL);
	ck_told("synced");
	acquire_many(10100);
	world_pass(rig->world, ROUNDS);
	ck_assert_ptr_nonnull(strstr(rig->told, "resync"));
	ck_assert_ptr_nonnull(strstr(strstr(rig->told, "resync"), "synced+"));
}
END_TEST

START_TEST(a_watch_of_a_user_without_room_begins_anew_when_there_is_some)
{
	watch(1, NULL);
	ck_told("synced");
	rig->daemon[0].full = true;
	rig_acquire(rig, 0, 1);
	world_pass(rig->world, ROUNDS);
	ck_told("");
	rig->daemon[0].full = false;
	world_pass(rig->world, ROUNDS);
	ck_told("resync A:busy synced");
}
END_TEST

/* Two seconds of watches that each live for 10 ms. */
static void
watch_and_cancel(void)
{
	for (uint64_t request = 1; request <= 200; request++) {
		view_watch(rig->daemon[0].view, 100, request, NULL);
		world_pass(rig->world, 10 * NSEC_PER_MSEC);
		view_cancel(rig->daemon[0].view, 100, request);
		rig->answer_count = 0;
	}
}

START_TEST(watches_of_one_user_that_come_and_go_ask_the_others_once_a_second)
{
	rig_acquire(rig, 1, 1);
	rig->daemon[1].messages = 0;
	watch_and_cancel();
	ck_assert_uint_le(rig->daemon[1].messages, 3);
}
END_TEST

START_TEST(watches_of_one_user_do_not_delay_the_first_round_of_another)
{
	int64_t began;

	rig_acquire(rig, 1, 1);
	watch_and_cancel();
	rig->told[0] = '\0';
	rig->daemon[0].user = 8;
	began = rig->world->now;
	view_watch(rig->daemon[0].view, 100, 1, NULL);
	while (strstr(rig->told, "synced") == NULL)
		ck_assert(world_step(rig->world, NSEC_PER_SEC));
	ck_told("A:busy synced");
	ck_assert_int_le(rig->world->now - began, ROUND_GAP + RIG_TIMEOUT);
}
END_TEST

/* Three of one user, each with 300 rows, and one of another. */
START_TEST(watches_of_two_users_begin_in_turn)
{
	world_make(rig->world, "other", 1);
	acquire_many(300);
	lock_acquire(rig->world->daemon[0].engine, 999, 999,
	    &(struct lock_acquire){.name = "other", .timeout = DURATION_FOREVER, .who = "X"});
	world_pass(rig->world, SOON);
	rig->world->tick = 10000;
	for (uint64_t request = 1; request <= 3; request++)
		view_watch(rig->daemon[0].view, 100, request, "db");
	rig->daemon[0].user = 8;
	view_watch(rig->daemon[0].view, 101, 1, "other");
	while (strstr(rig->told, "X:busy") == NULL)
		ck_assert(world_step(rig->world, NSEC_PER_SEC));
	ck_assert_uint_le(rig->told_count, 2 * 301);
	rig->world->tick = 0;
}
END_TEST

/* The rows of other daemons are forgotten in slices, while there is a watch again. */
START_TEST(a_watch_begins_while_rows_of_other_daemons_are_forgotten)
{
	for (uint64_t peer = 1; peer <= 20; peer++)
		rig_acquire(rig, 1, peer);
	watch(1, NULL);
	rig->told_count = 0;
	told();
	rig->world->tick = 10 * NSEC_PER_MSEC;
	view_cancel(rig->daemon[0].view, 100, 1);
	lock_peer_gone(rig->world->daemon[1].engine, 20);
	view_watch(rig->daemon[0].view, 100, 2, NULL);
	rig->world->tick = 0;
	world_pass(rig->world, ROUNDS);
	ck_assert_uint_eq(rig->told_count, 20);
	ck_assert_ptr_nonnull(strstr(rig->told, "S:waiting synced"));
	ck_assert_ptr_null(strstr(rig->told, "T:"));
}
END_TEST

Suite *
suite_view_feed(void)
{
	Suite *suite = suite_create("view feed");
	TCase *tcase = tcase_create("watch");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_watch_begins_with_the_rows_of_all_hosts);
	tcase_add_test(tcase, changes_here_are_told_soon);
	tcase_add_test(tcase, changes_elsewhere_are_told_soon);
	tcase_add_test(tcase, a_watch_of_one_name_hears_of_no_other);
	tcase_add_test(tcase, a_watch_of_all_hears_of_no_forbidden_name);
	tcase_add_test(tcase, a_daemon_that_no_longer_answers_is_forgotten);
	tcase_add_test(tcase, a_watch_ends_by_cancel_by_its_client_and_by_the_stop);
	tcase_add_test(tcase, a_daemon_that_stops_lets_nobody_watch);
	tcase_add_test(tcase, nobody_is_asked_when_nobody_watches);
	tcase_add_test(tcase, a_slow_reader_begins_anew_when_it_has_read);
	tcase_add_test(tcase, the_first_rows_have_a_limit);
	tcase_add_test(tcase, changes_in_quick_succession_are_notified_once);
	tcase_add_test(tcase, the_first_rows_are_sent_in_slices);
	tcase_add_test(tcase, after_too_many_changes_a_watch_begins_anew);
	tcase_add_test(tcase, a_watch_of_a_user_without_room_begins_anew_when_there_is_some);
	tcase_add_test(tcase, watches_of_one_user_that_come_and_go_ask_the_others_once_a_second);
	tcase_add_test(tcase, watches_of_one_user_do_not_delay_the_first_round_of_another);
	tcase_add_test(tcase, watches_of_two_users_begin_in_turn);
	tcase_add_test(tcase, a_watch_begins_while_rows_of_other_daemons_are_forgotten);
	suite_add_tcase(suite, tcase);
	return suite;
}
