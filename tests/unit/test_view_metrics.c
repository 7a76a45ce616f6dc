/*
 * metrics: which names have counts of their own, and the text that a client gets.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/view/scrape.h"
#include "protocol/json.h"
#include "tests/unit/test_view.h"
#include "tests/unit/view_rig.h"

#define MINUTE (60 * NSEC_PER_SEC)

static struct view_rig *rig;
static struct metrics *metrics;

static void
setup(void)
{
	rig = rig_new();
	world_make(rig->world, "db", 1);
	metrics = metrics_new(rig->world->daemon[0].engine);
}

static void
teardown(void)
{
	metrics_free(metrics);
	rig_free(rig);
}

/* ---- histograms ---- */

START_TEST(a_time_on_a_bound_is_below_it)
{
	struct histogram one = {.sum = 0}, other = {.sum = 0};
	size_t last = histogram_clients.count;

	histogram_add(&one, &histogram_clients, 0);
	histogram_add(&one, &histogram_clients, NSEC_PER_MSEC);
	histogram_add(&one, &histogram_clients, NSEC_PER_MSEC + 1);
	histogram_add(&other, &histogram_clients, histogram_clients.bound[last - 1]);
	histogram_add(&other, &histogram_clients, INT64_MAX / 4);
	histogram_merge(&one, &other);
	ck_assert_uint_eq(one.counts[0], 2);
	ck_assert_uint_eq(one.counts[1], 1);
	ck_assert_uint_eq(one.counts[last - 1], 1);
	ck_assert_uint_eq(one.counts[last], 1);
	ck_assert_int_eq(
	    one.sum, 2 * NSEC_PER_MSEC + 1 + histogram_clients.bound[last - 1] + INT64_MAX / 4);
	for (size_t i = 1; i < last; i++)
		ck_assert_int_lt(histogram_clients.bound[i - 1], histogram_clients.bound[i]);
}
END_TEST

/* ---- places ---- */

static void
grant(int64_t now, const char *name)
{
	const struct lock_answer answer = {.reason = REASON_NONE, .waited = NSEC_PER_SEC};

	metrics_acquired(metrics, now, name, &answer);
}

/* The names n0, n1, ... are used a second after each other, from `now` on. */
static void
fill(int64_t now, size_t count)
{
	char name[32];

	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "n%zu", i);
		grant(now + (int64_t)i * NSEC_PER_SEC, name);
	}
}

static const struct metrics_place *
place(const char *name)
{
	return metrics_at(metrics, metrics_find(metrics, name));
}

START_TEST(a_name_gives_up_its_place_after_an_hour)
{
	fill(0, METRICS_NAMES);
	grant(METRICS_IDLE - 1, "late");
	ck_assert_uint_eq(metrics_find(metrics, "late"), METRICS_OTHERS);
	ck_assert_uint_eq(metrics_at(metrics, METRICS_OTHERS)->granted, 1);
	grant(METRICS_IDLE, "n0");
	/* n1 is the oldest now. */
	grant(METRICS_IDLE + NSEC_PER_SEC - 1, "late");
	ck_assert_uint_eq(metrics_find(metrics, "late"), METRICS_OTHERS);
	grant(METRICS_IDLE + NSEC_PER_SEC, "late");
	ck_assert_uint_eq(place("late")->granted, 1);
	ck_assert_uint_eq(place("late")->waits.counts[3], 1);
	ck_assert_uint_eq(metrics_find(metrics, "n1"), METRICS_OTHERS);
	ck_assert_uint_eq(place("n0")->granted, 2);
	/* The counts of n1 are not those of all others. */
	ck_assert_uint_eq(metrics_at(metrics, METRICS_OTHERS)->granted, 2);
}
END_TEST

START_TEST(a_name_that_is_held_keeps_its_place)
{
	rig_acquire(rig, 0, 1);
	grant(0, "db");
	fill(NSEC_PER_SEC, METRICS_NAMES - 1);
	grant(METRICS_IDLE + MINUTE, "late");
	ck_assert_uint_eq(metrics_find(metrics, "late"), METRICS_OTHERS);
	ck_assert_uint_eq(place("db")->granted, 1);
	/* The next one finds another. */
	grant(METRICS_IDLE + MINUTE, "later");
	ck_assert_uint_eq(place("later")->granted, 1);
	ck_assert_uint_eq(metrics_find(metrics, "n0"), METRICS_OTHERS);
	ck_assert_uint_eq(place("db")->granted, 1);
}
END_TEST

START_TEST(losses_and_revocations_count_by_name)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_LOST, .name = "db"};

	metrics_noticed(metrics, 0, &notice);
	metrics_noticed(metrics, 0, &notice);
	notice.kind = LOCK_NOTICE_REVOKED;
	metrics_noticed(metrics, 0, &notice);
	notice.kind = LOCK_NOTICE_SUSPECT;
	metrics_noticed(metrics, 0, &notice);
	ck_assert_uint_eq(place("db")->lost, 2);
	ck_assert_uint_eq(place("db")->revoked, 1);
}
END_TEST

START_TEST(each_reason_has_its_count_and_an_unknown_one_is_internal)
{
	struct lock_answer answer = {.reason = REASON_REVOKED};

	for (size_t i = 0; i < METRICS_REASONS; i++) {
		answer.reason = metrics_reasons[i];
		metrics_acquired(metrics, 0, NULL, &answer);
		ck_assert_uint_eq(metrics_at(metrics, METRICS_OTHERS)->refused[i], 1);
	}
	answer.reason = REASON_REVOKED;
	metrics_acquired(metrics, 0, NULL, &answer);
	ck_assert_uint_eq(metrics_at(metrics, METRICS_OTHERS)->refused[METRICS_REASONS - 1], 2);
	ck_assert_int_eq(metrics_reasons[METRICS_REASONS - 1], REASON_INTERNAL);
}
END_TEST

/* ---- the text ---- */

static const struct view_scrape wanted = {.clients = 3};

/* The text of a scrape by client 100. */
static const char *
scrape(uint64_t request)
{
	const char *text = NULL;

	view_metrics(rig->daemon[0].view, 100, request, &wanted);
	ck_assert(json_string(json_get(rig_await(rig, 0, request)->result, "text"), &text));
	return text;
}

static void
assert_line(const char *text, const char *line)
{
	char whole[256];

	snprintf(whole, sizeof(whole), "\n%s\n", line);
	ck_assert_msg(strstr(text, whole) != NULL, "no %s", line);
}

START_TEST(connections_that_end_are_counted)
{
	struct broker *broker = rig->world->daemon[0].broker;
	const char *text = scrape(1);

	assert_line(text, "lockbroker_clients 3");
	assert_line(text, "lockbroker_broker_reconnects_total{connection=\"lock\"} 0");
	memory_broker_cut(broker, BROKER_LOCKS, 0, NSEC_PER_SEC, "cut");
	text = scrape(2);
	assert_line(text, "lockbroker_broker_connection_state{connection=\"lock\",state=\"up\"} 0");
	assert_line(
	    text, "lockbroker_broker_connection_state{connection=\"lock\",state=\"down\"} 1");
	assert_line(text, "lockbroker_broker_reconnects_total{connection=\"lock\"} 0");
	world_pass(rig->world, MINUTE);
	text = scrape(3);
	assert_line(text, "lockbroker_broker_connection_state{connection=\"lock\",state=\"up\"} 1");
	assert_line(text, "lockbroker_broker_reconnects_total{connection=\"lock\"} 1");
	memory_broker_deny(broker, BROKER_LOCKS, "no");
	world_pass(rig->world, MINUTE);
	text = scrape(4);
	assert_line(
	    text, "lockbroker_broker_connection_state{connection=\"lock\",state=\"refused\"} 1");
	memory_broker_restore(broker, BROKER_LOCKS);
	world_pass(rig->world, MINUTE);
	assert_line(scrape(5), "lockbroker_broker_reconnects_total{connection=\"lock\"} 2");
}
END_TEST

START_TEST(round_trips_take_what_the_broker_takes)
{
	const char *text;

	rig->world->delay = 30 * NSEC_PER_MSEC;
	rig_acquire(rig, 0, 1);
	world_pass(rig->world, NSEC_PER_SEC);
	rig->world->delay = 0;
	text = scrape(1);
	ck_assert_ptr_nonnull(
	    strstr(text, "round_trip_seconds_bucket{connection=\"lock\",le=\"0.02\"} 0\n"));
	ck_assert_ptr_null(
	    strstr(text, "round_trip_seconds_bucket{connection=\"lock\",le=\"0.05\"} 0\n"));
}
END_TEST

START_TEST(holders_and_waiters_have_their_ages)
{
	const char *text;

	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 0, 2);
	world_pass(rig->world, MINUTE);
	rig_acquire(rig, 0, 3);
	text = scrape(1);
	/* Nothing was told of a grant, so the name has no place. */
	assert_line(text, "lockbroker_holds{name=\"(other)\"} 1");
	assert_line(text, "lockbroker_waiters{name=\"(other)\"} 2");
	ck_assert_ptr_nonnull(
	    strstr(text, "lockbroker_longest_wait_seconds{name=\"(other)\"} 60."));
	ck_assert_ptr_nonnull(strstr(text, "lockbroker_oldest_hold_seconds{name=\"(other)\"} 60."));
}
END_TEST

START_TEST(the_text_is_written_in_slices_and_paid_for)
{
	int64_t begin = rig->world->now;

	rig->world->tick = 10000;
	view_metrics(rig->daemon[0].view, 100, 1, &wanted);
	ck_assert_uint_gt(rig->daemon[0].kept, 10000);
	ck_assert_int_ge(rig_await(rig, 0, 1)->at - begin, 20 * NSEC_PER_MSEC);
	rig->world->tick = 0;
}
END_TEST

START_TEST(a_client_that_does_not_read_is_refused)
{
	rig->daemon[0].full = true;
	view_metrics(rig->daemon[0].view, 100, 1, &wanted);
	ck_assert_int_eq(rig_await(rig, 0, 1)->reason, REASON_TOO_MANY_REQUESTS);
	rig->daemon[0].full = false;
	rig->daemon[0].unread = 3 * 1024 * 1024;
	view_metrics(rig->daemon[0].view, 100, 2, &wanted);
	ck_assert_int_eq(rig_await(rig, 0, 2)->reason, REASON_TOO_MANY_REQUESTS);
	rig->daemon[0].unread = 0;
	scrape(3);
}
END_TEST

START_TEST(a_client_that_leaves_gets_no_answer)
{
	rig->world->tick = 10000;
	view_metrics(rig->daemon[0].view, 100, 1, &wanted);
	world_pass(rig->world, 5 * NSEC_PER_MSEC);
	ck_assert_ptr_null(rig_answered(rig, 0, 1));
	view_peer_left(rig->daemon[0].view, 100);
	world_pass(rig->world, NSEC_PER_SEC);
	rig->world->tick = 0;
	ck_assert_ptr_null(rig_answered(rig, 0, 1));
	/* One is in progress when the view ends. */
	view_metrics(rig->daemon[0].view, 100, 2, &wanted);
}
END_TEST

Suite *
suite_view_metrics(void)
{
	Suite *suite = suite_create("view metrics");
	TCase *tcase = tcase_create("metrics");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_time_on_a_bound_is_below_it);
	tcase_add_test(tcase, a_name_gives_up_its_place_after_an_hour);
	tcase_add_test(tcase, a_name_that_is_held_keeps_its_place);
	tcase_add_test(tcase, losses_and_revocations_count_by_name);
	tcase_add_test(tcase, each_reason_has_its_count_and_an_unknown_one_is_internal);
	tcase_add_test(tcase, connections_that_end_are_counted);
	tcase_add_test(tcase, round_trips_take_what_the_broker_takes);
	tcase_add_test(tcase, holders_and_waiters_have_their_ages);
	tcase_add_test(tcase, the_text_is_written_in_slices_and_paid_for);
	tcase_add_test(tcase, a_client_that_does_not_read_is_refused);
	tcase_add_test(tcase, a_client_that_leaves_gets_no_answer);
	suite_add_tcase(suite, tcase);
	return suite;
}
