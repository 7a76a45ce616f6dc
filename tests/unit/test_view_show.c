/*
 * show and list across two daemons. One may be silent, and there are strangers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/view/queries.h"
#include "daemon/view/row.h"
#include "protocol/json.h"
#include "protocol/line.h"
#include "tests/unit/test_view.h"
#include "tests/unit/view_rig.h"

#define MINUTE (60 * NSEC_PER_SEC)

static struct view_rig *rig;

static void
setup(void)
{
	rig = rig_new();
	world_make(rig->world, "db", 2);
}

static void
teardown(void)
{
	rig_free(rig);
}

/* How long the last answer took. */
static int64_t
show_takes(int daemon, uint64_t request)
{
	int64_t begin = rig->world->now;

	rig_show(rig, daemon, request);
	return rig->world->now - begin;
}

START_TEST(show_has_the_rows_of_all_hosts)
{
	rig_acquire(rig, 1, 1);
	rig_acquire(rig, 0, 2);
	rig_acquire(rig, 1, 3);
	rig_acquire(rig, 1, 4);
	rig_acquire(rig, 0, 5);
	ck_assert_str_eq(rig_show(rig, 0, 1),
	    "slots 2 busy 2 waiting 3 [A@host1/1] [B@host0/2] [E@host0#1] [C@host1#1] "
	    "[D@host1#2] more 0");
	ck_assert_str_eq(rig_show(rig, 1, 2),
	    "slots 2 busy 2 waiting 3 [A@host1/1] [B@host0/2] [C@host1#1] [D@host1#2] "
	    "[E@host0#1] more 0");
	ck_assert_uint_eq(rig->warnings, 0);
}
END_TEST

START_TEST(the_first_show_waits_for_all_and_the_next_for_those_that_are_known)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	ck_assert_int_ge(show_takes(0, 1), RIG_TIMEOUT);
	ck_assert_int_lt(show_takes(0, 2), RIG_TIMEOUT / 5);
	world_pass(rig->world, MINUTE);
	ck_assert_int_ge(show_takes(0, 3), RIG_TIMEOUT);
}
END_TEST

START_TEST(a_daemon_that_comes_says_so_and_is_waited_for)
{
	rig_acquire(rig, 0, 1);
	ck_assert_str_eq(rig_show(rig, 0, 1), "slots 2 busy 1 waiting 0 [A@host0/1] more 0");
	rig_acquire(rig, 1, 2);
	ck_assert_str_eq(
	    rig_show(rig, 0, 2), "slots 2 busy 2 waiting 0 [A@host0/1] [B@host1/2] more 0");
	ck_assert_int_lt(show_takes(0, 3), RIG_TIMEOUT / 5);
}
END_TEST

/* Its auxiliary connection was away when the other said so. */
START_TEST(a_daemon_that_came_unheard_is_waited_for)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 0, 2);
	rig_show(rig, 0, 1);
	memory_broker_cut(rig->world->daemon[0].broker, BROKER_AUXILIARY, 0, NSEC_PER_SEC, "cut");
	rig_acquire(rig, 1, 3);
	world_pass(rig->world, 5 * NSEC_PER_SEC);
	ck_assert_str_eq(rig_show(rig, 0, 2),
	    "slots 2 busy 2 waiting 1 [A@host0/1] [B@host0/2] [C@host1#1] more 0");
	ck_assert_int_lt(show_takes(0, 3), RIG_TIMEOUT / 5);
}
END_TEST

START_TEST(a_silent_host_is_named_for_a_minute_and_its_slot_has_an_unknown_holder)
{
	rig_acquire(rig, 1, 1);
	rig_acquire(rig, 0, 2);
	rig_show(rig, 0, 1);
	rig->daemon[1].deaf = true;
	ck_assert_str_eq(rig_show(rig, 0, 2),
	    "slots 2 busy 2 waiting 0 [-@-?/1] [B@host0/2] more 0 unknown host1");
	world_pass(rig->world, MINUTE + NSEC_PER_SEC);
	rig_show(rig, 0, 3);
	ck_assert_str_eq(
	    rig_show(rig, 0, 4), "slots 2 busy 2 waiting 0 [-@-?/1] [B@host0/2] more 0");
	rig->daemon[1].deaf = false;
	world_pass(rig->world, MINUTE);
	ck_assert_str_eq(
	    rig_show(rig, 0, 5), "slots 2 busy 2 waiting 0 [A@host1/1] [B@host0/2] more 0");
}
END_TEST

START_TEST(a_daemon_that_was_killed_and_started_again_is_not_silent)
{
	rig_acquire(rig, 1, 1);
	rig_acquire(rig, 0, 2);
	rig_show(rig, 0, 1);
	lock_peer_gone(rig->world->daemon[1].engine, 1);
	rig->daemon[1].deaf = true;
	rig_write(rig, "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"ask\":\"bye\","
		       "\"run\":\"0000beef\",\"host\":\"host1\",\"stays\":false}");
	ck_assert_str_eq(rig_show(rig, 0, 2), "slots 2 busy 1 waiting 0 [B@host0/2] more 0");
	ck_assert_int_lt(show_takes(0, 3), RIG_TIMEOUT / 5);
	/* One that was not replaced: it answers, and counts again. */
	rig->daemon[1].deaf = false;
	rig_acquire(rig, 1, 3);
	world_pass(rig->world, MINUTE);
	ck_assert_str_eq(
	    rig_show(rig, 0, 4), "slots 2 busy 2 waiting 0 [C@host1/1] [B@host0/2] more 0");
	rig->daemon[1].deaf = true;
	ck_assert_str_eq(rig_show(rig, 0, 5),
	    "slots 2 busy 2 waiting 0 [-@-?/1] [B@host0/2] more 0 unknown host1");
}
END_TEST

START_TEST(a_daemon_without_rows_says_so_and_is_not_waited_for)
{
	rig_acquire(rig, 1, 1);
	rig_acquire(rig, 0, 2);
	rig_show(rig, 0, 1);
	lock_peer_gone(rig->world->daemon[1].engine, 1);
	world_pass(rig->world, MINUTE + NSEC_PER_SEC);
	ck_assert_str_eq(rig_show(rig, 0, 2), "slots 2 busy 1 waiting 0 [B@host0/2] more 0");
	ck_assert_int_lt(show_takes(0, 3), RIG_TIMEOUT / 5);
}
END_TEST

START_TEST(a_newcomer_while_another_goes_is_seen)
{
	rig_acquire(rig, 1, 1);
	rig_show(rig, 0, 1);
	lock_peer_gone(rig->world->daemon[1].engine, 1);
	world_pass(rig->world, MINUTE + NSEC_PER_SEC);
	/* In one pass: one comes, and one that came goes. */
	lock_acquire(rig->world->daemon[1].engine, 2, 1,
	    &(struct lock_acquire){.name = "db", .timeout = DURATION_FOREVER, .who = "B"});
	lock_acquire(rig->world->daemon[1].engine, 3, 1,
	    &(struct lock_acquire){.name = "db", .timeout = DURATION_FOREVER, .who = "C"});
	lock_peer_gone(rig->world->daemon[1].engine, 3);
	world_pass(rig->world, NSEC_PER_SEC);
	ck_assert_str_eq(rig_show(rig, 0, 2), "slots 2 busy 1 waiting 0 [B@host1/1] more 0");
}
END_TEST

START_TEST(a_daemon_that_dies_in_order_says_so)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	rig_show(rig, 0, 1);
	view_free(rig->daemon[1].view);
	rig->daemon[1].view = NULL;
	rig->world->daemon[1].also = (struct lock_events){.ctx = NULL};
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	ck_assert_str_eq(
	    rig_show(rig, 0, 2), "slots 2 busy 2 waiting 0 [A@host0/1] [-@-?/2] more 0");
}
END_TEST

START_TEST(a_slot_released_during_a_show_has_no_unknown_holder)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	rig_show(rig, 0, 1);
	/* It does not answer, and gives its slot back while it is waited for. */
	rig->daemon[1].deaf = true;
	view_show(rig->daemon[0].view, 100, 2, "db");
	world_pass(rig->world, RIG_TIMEOUT / 2);
	ck_assert_ptr_null(rig_answered(rig, 0, 2));
	lock_peer_gone(rig->world->daemon[1].engine, 2);
	ck_assert_int_eq(rig_await(rig, 0, 2)->reason, REASON_NONE);
	ck_assert_ptr_null(
	    json_next(json_first(json_get(rig_answered(rig, 0, 2)->result, "holders"))));
}
END_TEST

START_TEST(a_name_that_nobody_knows_is_no_such_lock)
{
	view_show(rig->daemon[0].view, 100, 1, "other");
	ck_assert_int_eq(rig_await(rig, 0, 1)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

START_TEST(a_mutex_has_rows_and_no_slots)
{
	const struct lock_acquire wanted = {
	    .name = "m", .kind = LOCK_KIND_MUTEX, .timeout = DURATION_FOREVER, .who = "A"};
	const struct cJSON *result;

	lock_acquire(rig->world->daemon[1].engine, 1, 1, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	view_show(rig->daemon[0].view, 100, 1, "m");
	result = rig_await(rig, 0, 1)->result;
	ck_assert_ptr_nonnull(result);
	ck_assert(json_is_null(json_get(result, "slots")));
	ck_assert_ptr_nonnull(json_first(json_get(result, "holders")));
}
END_TEST

/* The holders of m, as daemon 0 shows them: "A@host1 unknown@?", in words; NULL: no such lock. */
static const char *
mutex_holders(uint64_t request)
{
	static char text[128];
	const struct rig_answer *answer;
	const struct cJSON *row;
	const char *who, *kind;
	bool unknown;

	view_show(rig->daemon[0].view, 100, request, "m");
	answer = rig_await(rig, 0, request);
	if (answer->reason == REASON_NO_SUCH_LOCK)
		return NULL;
	text[0] = '\0';
	for (row = json_first(json_get(answer->result, "holders")); row != NULL;
	     row = json_next(row)) {
		who = "-";
		json_string(json_get(row, "who"), &who);
		ck_assert(json_string(json_get(row, "kind"), &kind));
		ck_assert(json_bool(json_get(row, "unknown"), &unknown));
		ck_assert(strcmp(kind, "mutex") != 0 || json_is_null(json_get(row, "slot")));
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s%s",
		    text[0] == '\0' ? "" : ", ", who, kind, unknown ? " unknown" : "");
	}
	return text;
}

START_TEST(a_mutex_that_nobody_explains_is_held_by_unknown)
{
	const struct lock_acquire wanted = {
	    .name = "m", .kind = LOCK_KIND_MUTEX, .timeout = DURATION_FOREVER, .who = "A"};
	const struct cJSON *result;
	int64_t busy = -1;

	ck_assert_ptr_null(mutex_holders(1));
	memory_world_put(rig->world->memory, "m-M", true);
	ck_assert_str_eq(mutex_holders(2), "- mutex unknown");
	result = rig_answered(rig, 0, 2)->result;
	ck_assert(json_is_null(json_get(result, "slots")));
	ck_assert(json_is_null(json_get(result, "busy")));
	/* Beside a semaphore of that name it is none of its slots. */
	world_make(rig->world, "m", 2);
	memory_world_put(rig->world->memory, "m-2-B", true);
	ck_assert_str_eq(mutex_holders(3), "- semaphore unknown, - mutex unknown");
	ck_assert(json_integer(json_get(rig_answered(rig, 0, 3)->result, "busy"), &busy));
	ck_assert_int_eq(busy, 1);
	/* A waiter that was granted without a slot does not explain it. */
	lock_acquire(rig->world->daemon[1].engine, 1, 1, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	view_show(rig->daemon[1].view, 100, 4, "m");
	result = rig_await(rig, 1, 4)->result;
	view_grant(
	    rig->daemon[1].view, 100, 5, row_waiter(json_first(json_get(result, "waiters"))), 0);
	ck_assert_int_eq(rig_await(rig, 1, 5)->reason, REASON_NONE);
	ck_assert_str_eq(mutex_holders(6), "- semaphore unknown, A mutex, - mutex unknown");
}
END_TEST

START_TEST(a_mutex_behind_a_daemon_is_explained_by_it)
{
	const struct lock_acquire wanted = {
	    .name = "m", .kind = LOCK_KIND_MUTEX, .timeout = DURATION_FOREVER, .who = "A"};

	lock_acquire(rig->world->daemon[1].engine, 1, 1, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	ck_assert_str_eq(mutex_holders(1), "A mutex");
	rig->daemon[1].deaf = true;
	ck_assert_str_eq(mutex_holders(2), "- mutex unknown");
	rig->daemon[1].deaf = false;
	world_pass(rig->world, MINUTE);
	/* Its drop is not answered yet: it has no holder, and no unknown one. */
	rig->world->delay = 100 * NSEC_PER_MSEC;
	lock_peer_gone(rig->world->daemon[1].engine, 1);
	ck_assert_ptr_null(mutex_holders(3));
	rig->world->delay = 0;
	lock_acquire(rig->world->daemon[0].engine, 1, 1, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	ck_assert_str_eq(mutex_holders(4), "A mutex");
	ck_assert_int_lt(show_takes(0, 5), RIG_TIMEOUT / 5);
}
END_TEST

START_TEST(without_a_broker_show_has_the_rows_of_this_daemon)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 0, 2);
	rig_acquire(rig, 0, 3);
	rig_show(rig, 0, 1);
	broker_stop(rig->world->daemon[0].broker);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	rig_acquire(rig, 0, 4);
	ck_assert_ptr_nonnull(strstr(rig_show(rig, 0, 2), "slots - busy - waiting "));
	ck_assert_ptr_nonnull(strstr(rig_show(rig, 0, 3), "[D@host0#"));
}
END_TEST

START_TEST(slots_that_the_broker_does_not_tell_of_are_not_known)
{
	rig_acquire(rig, 0, 1);
	rig->world->silent = true;
	ck_assert_str_eq(rig_show(rig, 0, 1), "slots - busy - waiting 0 [A@host0/1] more 0");
}
END_TEST

/* A client that asks later how the broker is may hear that it is up again. */
START_TEST(the_answer_says_why_the_slots_are_not_known)
{
	static const char *const reasons[] = {NULL, "no-such-lock", "broker-unavailable"};
	const struct cJSON *reason;
	const char *word;

	rig_acquire(rig, 0, 1);
	for (uint64_t i = 0; i < 3; i++) {
		if (i == 1)
			ck_assert(memory_world_remove(rig->world->memory, "db-1-A"));
		rig->world->silent = i == 2;
		rig_show(rig, 0, i);
		reason = json_get(rig_answered(rig, 0, i)->result, "reason");
		word = NULL;
		ck_assert(json_is_null(reason) || json_string(reason, &word));
		ck_assert_pstr_eq(word, reasons[i]);
	}
}
END_TEST

/*
 * 3,000 rows of the longest kind are more than an answer may have; they are counted all the same.
 */
START_TEST(rows_that_do_not_fit_are_counted)
{
	char words[257];
	struct lock_acquire wanted = {.name = "db",
	    .timeout = DURATION_FOREVER,
	    .who = words,
	    .why = words,
	    .command = words};
	const struct cJSON *result, *row;
	int64_t waiting = 0, more = 0, rows = 0;

	memset(words, 1, 256);
	words[256] = '\0';
	for (uint64_t i = 0; i < 3000; i++)
		lock_acquire(rig->world->daemon[1].engine, 1 + i % 1000, 1 + i / 1000, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	view_show(rig->daemon[0].view, 100, 1, "db");
	result = rig_await(rig, 0, 1)->result;
	ck_assert(json_integer(json_get(result, "waiting"), &waiting));
	ck_assert(json_integer(json_get(result, "more"), &more));
	for (row = json_first(json_get(result, "waiters")); row != NULL; row = json_next(row))
		rows++;
	for (row = json_first(json_get(result, "holders")); row != NULL; row = json_next(row))
		rows++;
	ck_assert_int_eq(waiting, 2998);
	ck_assert_int_gt(rows, 8);
	ck_assert_int_eq(rows + more, 3000);
	ck_assert_uint_eq(rig->warnings, 0);
	/* It can show more rows of its own. The answer stays below the longest line. */
	view_show(rig->daemon[1].view, 100, 1, "db");
	result = rig_await(rig, 1, 1)->result;
	ck_assert(json_integer(json_get(result, "more"), &more));
	ck_assert_int_gt(more, 0);
	ck_assert_int_lt(more, 3000 - rows);
}
END_TEST

/* With clocks that go on: own rows, and those for others, are written a part at a time. */
START_TEST(rows_are_written_in_slices)
{
	struct lock_acquire wanted = {.name = "db", .timeout = DURATION_FOREVER, .who = "w"};
	const struct cJSON *result;
	int64_t waiting = 0;
	int steps = 0;

	for (int daemon = 0; daemon < 2; daemon++) {
		for (uint64_t i = 0; i < 300; i++)
			lock_acquire(rig->world->daemon[daemon].engine, 1 + i, 1, &wanted);
	}
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	rig->world->tick = 10000;
	view_show(rig->daemon[0].view, 100, 1, "db");
	for (; rig_answered(rig, 0, 1) == NULL; steps++)
		ck_assert(world_step(rig->world, NSEC_PER_SEC));
	/* A slice is 25 reads of the clock. */
	ck_assert_int_ge(steps, 2 * 300 / 25);
	result = rig_answered(rig, 0, 1)->result;
	ck_assert(json_integer(json_get(result, "waiting"), &waiting));
	ck_assert_int_eq(waiting, 598);
	rig->world->tick = 0;
}
END_TEST

/* Another request may probe then. */
START_TEST(the_broker_is_done_before_the_others_have_answered)
{
	rig->daemon[1].deaf = true;
	view_show(rig->daemon[0].view, 100, 1, "db");
	world_pass(rig->world, RIG_TIMEOUT / 2);
	ck_assert_ptr_null(rig_answered(rig, 0, 1));
	ck_assert_uint_eq(rig->daemon[0].scanned, 1);
	rig_await(rig, 0, 1);
	ck_assert_uint_eq(rig->daemon[0].scanned, 1);
}
END_TEST

START_TEST(a_client_that_left_is_not_answered)
{
	const struct lock_answer nothing = {.reason = REASON_NONE};

	rig_acquire(rig, 0, 1);
	view_show(rig->daemon[0].view, 100, 1, "db");
	view_show(rig->daemon[0].view, 101, 1, "db");
	view_peer_left(rig->daemon[0].view, 101);
	view_count(rig->daemon[0].view, 100, 2, &nothing, json_new_object(), 0);
	view_peer_left(rig->daemon[0].view, 100);
	world_pass(rig->world, NSEC_PER_SEC);
	ck_assert_uint_eq(rig->answer_count, 0);
}
END_TEST

/* ---- list ---- */

static struct cJSON *
list_of(const char *first, const char *second)
{
	struct cJSON *list = json_new_object(), *rows = json_new_array(), *row;
	const char *const names[] = {first, second};

	for (size_t i = 0; i < 2; i++) {
		row = json_new_object();
		json_add_string(row, "name", names[i]);
		json_append(rows, row);
	}
	json_add(list, "semaphores", rows);
	return list;
}

/* Of the first semaphore the broker has seen one extra holder, in slots 1 to 3. */
static void
count_list(uint64_t request, const char *first, const char *second, uint64_t more)
{
	const struct lock_listed rows[] = {
	    {.name = first, .extra = 1, .asked = 3}, {.name = second, .extra = -1}};
	const struct lock_answer answer = {.rows = rows, .row_count = 2};

	view_count(rig->daemon[0].view, 100, request, &answer, list_of(first, second), more);
}

/* With all of it the client would be closed as one that does not read. */
START_TEST(unread_output_leaves_less_room)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	rig_acquire(rig, 0, 3);
	rig_acquire(rig, 1, 4);
	rig->daemon[0].unread = LINE_MAX_OUT / 4 * 3 - 800;
	ck_assert_str_eq(
	    rig_show(rig, 0, 1), "slots 2 busy 2 waiting 2 [A@host0/1] [B@host1/2] more 2");
	rig->daemon[0].unread = LINE_MAX_OUT;
	ck_assert_str_eq(rig_show(rig, 0, 2), "slots 2 busy 2 waiting 2 more 4");
	/*
	 * The rows of other daemons are charged to the account of the asking user, as long as it
	 * has room.
	 */
	rig->daemon[0].unread = 0;
	ck_assert_uint_gt(rig->daemon[0].kept, 1000);
	rig->daemon[0].full = true;
	ck_assert_str_eq(rig_show(rig, 0, 3), "slots 2 busy 2 waiting 2 more 4");
}
END_TEST

START_TEST(waiters_are_summed_over_hosts)
{
	const struct cJSON *row;
	int64_t waiting = -1;

	for (uint64_t peer = 1; peer <= 3; peer++)
		rig_acquire(rig, 0, peer);
	for (uint64_t peer = 4; peer <= 6; peer++)
		rig_acquire(rig, 1, peer);
	count_list(1, "db", "other", 0);
	row = json_first(json_get(rig_await(rig, 0, 1)->result, "semaphores"));
	ck_assert(json_integer(json_get(row, "waiting"), &waiting));
	ck_assert_int_eq(waiting, 4);
	ck_assert(json_integer(json_get(json_next(row), "waiting"), &waiting));
	ck_assert_int_eq(waiting, 0);
	rig->daemon[1].deaf = true;
	count_list(2, "db", "other", 0);
	row = json_first(json_get(rig_await(rig, 0, 2)->result, "semaphores"));
	ck_assert(json_integer(json_get(row, "waiting"), &waiting));
	ck_assert_int_eq(waiting, 1);
	ck_assert_ptr_nonnull(
	    json_first(json_get(rig_answered(rig, 0, 2)->result, "silent_hosts")));
}
END_TEST

/* "m 1 2, n 0 1": the mutexes of daemon 0's list, with holders and waiters. */
static const char *
mutexes(uint64_t request)
{
	static char text[256];
	const struct cJSON *result, *row;
	const char *name, *kind;
	int64_t busy, waiting;

	count_list(request, "db", "m", 0);
	result = rig_await(rig, 0, request)->result;
	text[0] = '\0';
	for (row = json_first(json_get(result, "mutexes")); row != NULL; row = json_next(row)) {
		ck_assert(json_string(json_get(row, "name"), &name));
		ck_assert(json_string(json_get(row, "kind"), &kind));
		ck_assert_str_eq(kind, "mutex");
		ck_assert(json_integer(json_get(row, "busy"), &busy));
		ck_assert(json_integer(json_get(row, "waiting"), &waiting));
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %d %d",
		    text[0] == '\0' ? "" : ", ", name, (int)busy, (int)waiting);
	}
	/* The semaphore of that name has none of its waiters. */
	row = json_next(json_first(json_get(result, "semaphores")));
	ck_assert(json_integer(json_get(row, "waiting"), &waiting));
	ck_assert_int_eq(waiting, 0);
	return text;
}

static void
acquire_mutex(int daemon, uint64_t peer, const char *name)
{
	const struct lock_acquire wanted = {
	    .name = name, .kind = LOCK_KIND_MUTEX, .timeout = DURATION_FOREVER, .who = "A"};

	lock_acquire(rig->world->daemon[daemon].engine, peer, 1, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
}

START_TEST(mutexes_of_all_hosts_are_listed)
{
	ck_assert_str_eq(mutexes(1), "");
	acquire_mutex(0, 1, "own");
	acquire_mutex(1, 2, "m");
	acquire_mutex(0, 3, "m");
	acquire_mutex(1, 4, "m");
	acquire_mutex(1, 5, "secret");
	ck_assert_str_eq(mutexes(2), "m 1 2, own 1 0");
	lock_peer_gone(rig->world->daemon[0].engine, 1);
	world_pass(rig->world, NSEC_PER_SEC);
	ck_assert_str_eq(mutexes(3), "m 1 2");
	rig->daemon[1].deaf = true;
	ck_assert_str_eq(mutexes(4), "m 0 1");
	ck_assert_ptr_nonnull(
	    json_first(json_get(rig_answered(rig, 0, 4)->result, "silent_hosts")));
}
END_TEST

/* ---- strangers ---- */

START_TEST(invalid_messages_are_skipped_with_one_log_line)
{
	static const char *const messages[] = {"", "x", "{}", "[]", "{\"lockbroker\":2}",
	    "{\"lockbroker\":1,\"ask\":\"rows\"}",
	    "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"ask\":\"dance\",\"run\":\"000000b0\","
	    "\"host\":\"x\",\"stays\":false}"};

	rig_acquire(rig, 0, 1);
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
		rig_write(rig, messages[i]);
	ck_assert_uint_eq(rig->warnings, 1);
	world_pass(rig->world, MINUTE);
	rig_write(rig, "x");
	ck_assert_uint_eq(rig->warnings, 2);
	ck_assert_str_eq(rig_show(rig, 0, 1), "slots 2 busy 1 waiting 0 [A@host0/1] more 0");
}
END_TEST

/* As if it were the answer to everything that was asked so far. */
static void
answer_all(const char *what, const char *run, const char *more)
{
	char text[1024];
	struct broker_message message = {.text = text, .user = "x"};

	message.len = (size_t)snprintf(text, sizeof(text),
	    "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"answer\":\"%s\",\"run\":\"%s\","
	    "\"host\":\"x\",\"stays\":true,%s}",
	    what, run, more);
	for (message.asked = 1; message.asked < 20; message.asked++)
		view_replied(rig->daemon[0].view, &message);
}

/* "db 1, other 0, x 3-": semaphores of daemon 0's list, with their extra holders; - does not exist. */
static const char *
extra_told(uint64_t request)
{
	static char text[256];
	const struct cJSON *row;
	const char *name;
	int64_t extra;
	bool exists;

	row = json_first(json_get(rig_await(rig, 0, request)->result, "semaphores"));
	for (text[0] = '\0'; row != NULL; row = json_next(row)) {
		ck_assert(json_string(json_get(row, "name"), &name));
		extra = -1;
		ck_assert(json_integer(json_get(row, "extra"), &extra) ||
			  json_is_null(json_get(row, "extra")));
		exists = !json_bool(json_get(row, "exists"), &exists) || exists;
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %d%s",
		    text[0] == '\0' ? "" : ", ", name, (int)extra, exists ? "" : "-");
	}
	return text;
}

static const char *
extra_holders(uint64_t request)
{
	count_list(request, "db", "other", 0);
	return extra_told(request);
}

/*
 * The broker has seen one above the size of db, up to slot 3: a daemon that tells of slot 3 means
 * the same holder. Of the second semaphore the broker has seen nothing.
 */
START_TEST(extra_holders_of_all_hosts_are_counted_once)
{
	count_list(1, "db", "other", 0);
	answer_all("waiting", "000000b0",
	    "\"extra\":[[\"db\",0,3,1],[\"db\",0,4,1],[\"db\",0,0,5],[\"other\",0,1,1],"
	    "[\"x\",0,1,1],[\"x\",0,0,2],[\"m\",1,0,1]]");
	ck_assert_str_eq(extra_told(1), "db 7, other 1, x 3-");
}
END_TEST

START_TEST(extra_holders_of_this_host_are_counted)
{
	const struct lock_acquire wanted = {
	    .name = "gone", .timeout = DURATION_FOREVER, .who = "A"};

	memory_world_put(rig->world->memory, "gone-U", false);
	for (uint64_t peer = 1; peer <= 2; peer++)
		lock_acquire(rig->world->daemon[peer - 1].engine, peer, 1, &wanted);
	world_pass(rig->world, 50 * NSEC_PER_MSEC);
	ck_assert_str_eq(extra_holders(1), "db 1, other -1, gone 2-");
}
END_TEST

/* A holder of a removed slot has a row. So has one that no daemon knows. */
START_TEST(holders_of_removed_slots_are_no_busy_slots)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 1, 2);
	memory_world_put(rig->world->memory, "db-5-B", true);
	memory_world_remove(rig->world->memory, "db-2-A");
	world_pass(rig->world, NSEC_PER_SEC);
	ck_assert_str_eq(rig_show(rig, 0, 1),
	    "slots 1 busy 1 extra 2 waiting 0 [A@host0/1] [B@host1/2] [-@-?/5] more 0");
}
END_TEST

START_TEST(numbers_that_nobody_can_have_are_passed_over)
{
	static const char *const runs[] = {"000000b0", "000000b1"};
	int64_t waiting = -1;

	rig_acquire(rig, 0, 1);
	view_show(rig->daemon[0].view, 100, 1, "db");
	count_list(2, "db", "other", 0);
	view_deny_all(rig->daemon[0].view, 100, 3, "db", 0);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		answer_all("rows", runs[i], "\"waiting\":9007199254740991");
		answer_all("rows", runs[i], "\"more\":9007199254740991");
		answer_all("deny", runs[i], "\"count\":9007199254740991");
		answer_all("waiting", runs[i], "\"counts\":[[\"db\",2147483647]]");
	}
	ck_assert_int_eq(rig_await(rig, 0, 1)->reason, REASON_NONE);
	ck_assert(json_integer(json_get(rig_answered(rig, 0, 1)->result, "waiting"), &waiting));
	ck_assert_int_eq(waiting, 0);
	ck_assert(json_integer(json_get(rig_await(rig, 0, 3)->result, "denied"), &waiting));
	ck_assert_int_eq(waiting, 0);
	ck_assert(json_integer(
	    json_get(json_first(json_get(rig_await(rig, 0, 2)->result, "semaphores")), "waiting"),
	    &waiting));
	ck_assert_int_eq(waiting, 0);
}
END_TEST

/* RabbitMQ delivers a message again if its daemon did not acknowledge it before. */
START_TEST(an_answer_that_comes_twice_counts_once)
{
	int64_t waiting = -1;

	count_list(1, "db", "other", 0);
	for (int i = 0; i < 2; i++)
		answer_all("waiting", "000000b0", "\"counts\":[[\"db\",3]]");
	ck_assert(json_integer(
	    json_get(json_first(json_get(rig_await(rig, 0, 1)->result, "semaphores")), "waiting"),
	    &waiting));
	ck_assert_int_eq(waiting, 3);
}
END_TEST

/* Run 000000b0 of host x sends a row of each of these runs and hosts. */
START_TEST(a_daemon_speaks_for_its_own_clients_alone)
{
	static const struct {
		const char *run, *host;
		bool is_shown;
	} of[] = {{"000000b0", "x", true}, {"000000b1", "x", false}, {"000000b0", "y", false}};
	const struct cJSON *waiters;
	char rows[512];

	snprintf(rows, sizeof(rows),
	    "\"rows\":[{\"waiter\":\"%s-5\",\"lock\":null,\"state\":\"waiting\",\"name\":\"db\","
	    "\"kind\":\"semaphore\",\"slot\":null,\"position\":1,\"priority\":0,\"who\":\"X\","
	    "\"why\":null,\"command\":null,\"host\":\"%s\",\"uid\":0,\"pid\":1,"
	    "\"since\":\"2026-01-31T23:59:59Z\",\"age\":1,\"revoked\":false,\"unknown\":false}]",
	    of[_i].run, of[_i].host);
	view_show(rig->daemon[0].view, 100, 1, "db");
	answer_all("rows", "000000b0", rows);
	waiters = json_get(rig_await(rig, 0, 1)->result, "waiters");
	ck_assert(json_is_array(waiters));
	ck_assert_int_eq(json_first(waiters) != NULL, of[_i].is_shown);
}
END_TEST

/* 1,500 mutexes: a list has the first thousand, and none that its user has no room for. */
static const char *
invent_mutexes(bool full, uint64_t request)
{
	static char text[64];
	struct broker_message message = {.text = NULL, .user = "x"};
	const struct cJSON *result, *row;
	int64_t more = -1;
	size_t size;
	int count = 0;
	FILE *to;

	count_list(request, "db", "other", 2);
	rig->daemon[0].full = full;
	for (int part = 0; part < 3; part++) {
		to = open_memstream((char **)&message.text, &size);
		fprintf(to,
		    "{\"lockbroker\":1,\"naming\":\"amqp-locks\",\"answer\":\"waiting\",\"run\":"
		    "\"000000b0\",\"host\":\"x\",\"stays\":true,\"last\":%s,\"mutexes\":[[\"m\",0,"
		    "1]",
		    part == 2 ? "true" : "false");
		for (int i = 1; i < 500; i++)
			fprintf(to, ",[\"m%d\",1,0]", 500 * part + i);
		fputs("]}", to);
		fclose(to);
		message.len = size;
		for (message.asked = 1; message.asked < 20; message.asked++)
			view_replied(rig->daemon[0].view, &message);
		free((char *)message.text);
	}
	result = rig_await(rig, 0, request)->result;
	for (row = json_first(json_get(result, "mutexes")); row != NULL; row = json_next(row))
		count++;
	ck_assert(json_integer(json_get(result, "more"), &more));
	snprintf(text, sizeof(text), "%d, %d more", count, (int)more);
	return text;
}

START_TEST(mutexes_that_somebody_invents_are_limited)
{
	size_t kept = rig->daemon[0].kept;

	/* m, m1 to m499, m501 to m999 and m1001: the two semaphores count, too. */
	ck_assert_str_eq(invent_mutexes(false, 1), "1000, 500 more");
	ck_assert_uint_gt(rig->daemon[0].kept - kept, 1000 * 200);
	/* Each mention counts: m three times. */
	ck_assert_str_eq(invent_mutexes(true, 2), "0, 1502 more");
}
END_TEST

START_TEST(invalid_mutexes_are_passed_over)
{
	static const char *const invalid[] = {"7", "[7]", "[[]]", "[[\"m\"]]", "[[\"m\",1]]",
	    "[[\"m\",1,1,1]]", "[[\"m\",1,-1]]", "[[\"m\",1,10000001]]", "[[\"m\",\"1\",1]]",
	    "[[\"a b\",1,1]]", "[[1,1,1]]"};
	char text[64];

	count_list(1, "db", "other", 0);
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
		snprintf(text, sizeof(text), "\"mutexes\":%s", invalid[i]);
		answer_all("waiting", "000000b0", text);
	}
	ck_assert_ptr_null(json_first(json_get(rig_await(rig, 0, 1)->result, "mutexes")));
	ck_assert_uint_eq(rig->warnings, 1);
}
END_TEST

START_TEST(a_daemon_with_a_waiter_answers_though_a_client_leaves_in_the_same_pass)
{
	const struct lock_acquire wanted = {
	    .name = "db", .timeout = DURATION_FOREVER, .uid = 7, .pid = 8, .who = "A"};
	struct lock_engine *engine = rig->world->daemon[1].engine;

	rig_acquire(rig, 0, 2);
	lock_acquire(engine, 1, 1, &wanted);
	lock_acquire(engine, 3, 1, &wanted);
	lock_peer_gone(engine, 3);
	world_pass(rig->world, NSEC_PER_SEC);
	ck_assert_str_eq(
	    rig_show(rig, 0, 1), "slots 2 busy 2 waiting 0 [B@host0/1] [A@host1/2] more 0");
}
END_TEST

START_TEST(daemons_that_name_their_queues_in_another_way_are_left_alone)
{
	rig_acquire(rig, 0, 1);
	rig_acquire(rig, 0, 2);
	rig_acquire(rig, 0, 3);
	rig_write(rig, "{\"lockbroker\":1,\"naming\":\"amqp-locks-python\",\"ask\":\"deny\","
		       "\"run\":\"000000b0\",\"host\":\"x\",\"stays\":true,\"name\":\"db\"}");
	ck_assert_uint_eq(rig->warnings, 0);
	ck_assert_ptr_null(rig_acquired(rig, 0, 3));
	ck_assert_str_eq(rig_show(rig, 0, 1),
	    "slots 2 busy 2 waiting 1 [A@host0/1] [B@host0/2] [C@host0#1] more 0");
}
END_TEST

Suite *
suite_view_show(void)
{
	Suite *suite = suite_create("view show");
	TCase *tcase = tcase_create("show");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, show_has_the_rows_of_all_hosts);
	tcase_add_test(tcase, the_first_show_waits_for_all_and_the_next_for_those_that_are_known);
	tcase_add_test(tcase, a_daemon_that_comes_says_so_and_is_waited_for);
	tcase_add_test(tcase, a_daemon_that_came_unheard_is_waited_for);
	tcase_add_test(
	    tcase, a_silent_host_is_named_for_a_minute_and_its_slot_has_an_unknown_holder);
	tcase_add_test(tcase, a_daemon_that_was_killed_and_started_again_is_not_silent);
	tcase_add_test(tcase, a_daemon_without_rows_says_so_and_is_not_waited_for);
	tcase_add_test(tcase, a_newcomer_while_another_goes_is_seen);
	tcase_add_test(tcase, a_daemon_that_dies_in_order_says_so);
	tcase_add_test(tcase, a_slot_released_during_a_show_has_no_unknown_holder);
	tcase_add_test(tcase, a_name_that_nobody_knows_is_no_such_lock);
	tcase_add_test(tcase, a_mutex_has_rows_and_no_slots);
	tcase_add_test(tcase, a_mutex_that_nobody_explains_is_held_by_unknown);
	tcase_add_test(tcase, a_mutex_behind_a_daemon_is_explained_by_it);
	tcase_add_test(tcase, without_a_broker_show_has_the_rows_of_this_daemon);
	tcase_add_test(tcase, slots_that_the_broker_does_not_tell_of_are_not_known);
	tcase_add_test(tcase, the_answer_says_why_the_slots_are_not_known);
	tcase_add_test(tcase, rows_that_do_not_fit_are_counted);
	tcase_add_test(tcase, unread_output_leaves_less_room);
	tcase_add_test(tcase, rows_are_written_in_slices);
	tcase_add_test(tcase, the_broker_is_done_before_the_others_have_answered);
	tcase_add_test(tcase, a_client_that_left_is_not_answered);
	tcase_add_test(tcase, waiters_are_summed_over_hosts);
	tcase_add_test(tcase, mutexes_of_all_hosts_are_listed);
	tcase_add_test(tcase, extra_holders_of_all_hosts_are_counted_once);
	tcase_add_test(tcase, extra_holders_of_this_host_are_counted);
	tcase_add_test(tcase, holders_of_removed_slots_are_no_busy_slots);
	tcase_add_test(tcase, invalid_messages_are_skipped_with_one_log_line);
	tcase_add_test(tcase, numbers_that_nobody_can_have_are_passed_over);
	tcase_add_test(tcase, an_answer_that_comes_twice_counts_once);
	tcase_add_loop_test(tcase, a_daemon_speaks_for_its_own_clients_alone, 0, 3);
	tcase_add_test(tcase, mutexes_that_somebody_invents_are_limited);
	tcase_add_test(tcase, invalid_mutexes_are_passed_over);
	tcase_add_test(
	    tcase, a_daemon_with_a_waiter_answers_though_a_client_leaves_in_the_same_pass);
	tcase_add_test(tcase, daemons_that_name_their_queues_in_another_way_are_left_alone);
	suite_add_tcase(suite, tcase);
	return suite;
}
