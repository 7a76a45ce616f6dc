/*
 * Holders and waiters as rows, and an administrator's grant and deny.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

/* An answer takes a millisecond, and a scan one. A rescan follows within five seconds. */
#define SOON (50 * NSEC_PER_MSEC)

/* Asks as the client of that number, whose word is a character: A for client 1. */
static void
ask(uint64_t peer, enum lock_kind kind, int priority)
{
	char who[2] = {(char)('A' + peer - 1), '\0'}, why[] = "because", command[] = "true";
	struct lock_acquire wanted = {.name = "db",
	    .kind = kind,
	    .timeout = DURATION_FOREVER,
	    .priority = priority,
	    .uid = 1000 + (uid_t)peer,
	    .pid = 70 + (pid_t)peer,
	    .who = who,
	    .why = why,
	    .command = command};

	lock_acquire(engine(0), peer, 1, &wanted);
	/* The rows have copies. */
	memset(who, 'x', 1);
	memset(why, 'x', sizeof(why) - 1);
	memset(command, 'x', sizeof(command) - 1);
	world_pass(world, SOON);
}

static void
ask_semaphore(uint64_t peer)
{
	ask(peer, LOCK_KIND_SEMAPHORE, 0);
}

static const struct said *
answer(uint64_t peer)
{
	return world_answer(world, 0, peer, 1);
}

static void
add_row(void *ctx, const struct lock_row *row)
{
	char *text = ctx, place[32] = "";
	size_t len = strlen(text);

	if (row->position != 0)
		snprintf(place, sizeof(place), "@%d", row->position);
	else if (row->slot != 0)
		snprintf(place, sizeof(place), "/%d", row->slot);
	snprintf(text + len, 512 - len, "%s%s:%s%s%s", len > 0 ? " " : "", row->who,
	    lock_row_word(row->state), place, row->revoked ? "!" : "");
	ck_assert_str_eq(row->name, "db");
	ck_assert_str_eq(row->why, "because");
	ck_assert_str_eq(row->command, "true");
	ck_assert_int_eq(row->uid, 1000 + row->who[0] - 'A' + 1);
	ck_assert_int_eq(row->pid, 70 + row->who[0] - 'A' + 1);
	ck_assert_int_eq(row->lock != 0, row->state != LOCK_ROW_WAITING);
	ck_assert(row->since > 0 && row->since <= world->now);
}

/* "A:busy/1 B:waiting@1" */
static const char *
rows(const char *name)
{
	static char text[512];

	text[0] = '\0';
	lock_each(engine(0), name, add_row, text);
	return text;
}

struct finder {
	const char *who;
	uint64_t waiter;
};

static void
find(void *ctx, const struct lock_row *row)
{
	struct finder *finder = ctx;

	if (strcmp(row->who, finder->who) == 0)
		finder->waiter = row->waiter;
}

/* The waiter id of a row. */
static uint64_t
waiter(const char *who)
{
	struct finder finder = {.who = who};

	lock_each(engine(0), NULL, find, &finder);
	ck_assert_uint_ne(finder.waiter, 0);
	return finder.waiter;
}

static void
give_back(uint64_t peer)
{
	lock_release(engine(0), peer, 9, answer(peer)->lock);
	ck_assert_int_eq(world_await(world, 0, peer, 9)->reason, REASON_NONE);
	world_pass(world, SOON);
}

/* ---- rows ---- */

START_TEST(rows_are_holders_and_waiters)
{
	world_make(world, "db", 1);
	ck_assert_str_eq(rows(NULL), "");
	ask_semaphore(1);
	ask_semaphore(2);
	ask(3, LOCK_KIND_SEMAPHORE, 5);
	ck_assert_str_eq(rows("db"), "A:busy/1 C:waiting@1 B:waiting@2");
	ck_assert_str_eq(rows(NULL), "A:busy/1 C:waiting@1 B:waiting@2");
	ck_assert_str_eq(rows("other"), "");
	give_back(1);
	ck_assert_str_eq(rows("db"), "C:busy/1 B:waiting@1");
	lock_peer_gone(engine(0), 3);
	lock_peer_gone(engine(0), 2);
	world_pass(world, SOON);
	ck_assert_str_eq(rows(NULL), "");
	ck_assert_str_eq(world->changes,
	    "A:waiting A:busy B:waiting C:waiting A:gone C:busy C:gone B:busy B:gone");
}
END_TEST

START_TEST(a_row_keeps_its_waiter_when_it_holds)
{
	uint64_t before;

	world_make(world, "db", 1);
	ask_semaphore(1);
	ask_semaphore(2);
	before = waiter("B");
	ck_assert_uint_ne(before, waiter("A"));
	give_back(1);
	ck_assert_uint_eq(waiter("B"), before);
	ck_assert_uint_ne(answer(2)->lock, before);
}
END_TEST

START_TEST(a_mutex_has_rows_of_the_same_name)
{
	ask(1, LOCK_KIND_MUTEX, 0);
	ask(2, LOCK_KIND_MUTEX, 0);
	ck_assert_str_eq(rows("db"), "A:busy B:waiting@1");
	ck_assert_uint_eq(lock_deny_all(engine(0), "db"), 1);
	ck_assert_str_eq(rows("db"), "A:busy");
}
END_TEST

START_TEST(a_revoked_hold_is_shown_as_such)
{
	const struct lock_change none = {.name = "db", .by = LOCK_SLOTS_TO, .slots = 0};

	world_make(world, "db", 1);
	ask_semaphore(1);
	world->changes[0] = '\0';
	lock_resize(engine(0), 8, 1, &none);
	world_pass(world, SECOND);
	ck_assert_str_eq(rows("db"), "A:busy/1!");
	ck_assert_str_eq(world->changes, "A:busy");
}
END_TEST

static void
count_slot(void *ctx, int slot)
{
	*(int *)ctx += slot;
}

START_TEST(a_slot_of_a_pending_drop_has_no_holder)
{
	int passing = 0;

	world_make(world, "db", 1);
	ask_semaphore(1);
	lock_each_passing(engine(0), "db", count_slot, &passing);
	ck_assert_int_eq(passing, 0);
	world->delay = SECOND;
	lock_peer_gone(engine(0), 1);
	ck_assert_str_eq(rows("db"), "");
	lock_each_passing(engine(0), "db", count_slot, &passing);
	ck_assert_int_eq(passing, 1);
}
END_TEST

/* The next waiter of a walk; "": none. */
static const char *
meets(struct lock_place *place)
{
	static char who[8];
	struct lock_row row;

	who[0] = '\0';
	if (lock_next_waiting(engine(0), "db", place, &row))
		snprintf(who, sizeof(who), "%s#%d", row.who, row.position);
	return who;
}

START_TEST(a_walk_goes_on_though_its_last_waiter_has_gone)
{
	struct lock_place place = {.newest = 0}, again = {.newest = 0};

	world_make(world, "db", 1);
	for (uint64_t peer = 1; peer <= 5; peer++)
		ask_semaphore(peer);
	ck_assert_str_eq(meets(&place), "B#1");
	lock_peer_gone(engine(0), 2);
	lock_peer_gone(engine(0), 3);
	ask_semaphore(6);
	ck_assert_str_eq(meets(&place), "D#1");
	ck_assert_str_eq(meets(&place), "E#2");
	/* A newcomer is not part of it, or it might never end. */
	ck_assert_str_eq(meets(&place), "");
	ck_assert_str_eq(meets(&again), "D#1");
	ck_assert_str_eq(meets(&again), "E#2");
	ck_assert_str_eq(meets(&again), "F#3");
	ck_assert_str_eq(meets(&again), "");
}
END_TEST

static void
count_use(void *ctx, const struct lock_use *use)
{
	struct lock_use *sum = ctx;

	ck_assert_str_eq(use->name, "db");
	sum[use->mutex].waiting += use->waiting;
	sum[use->mutex].busy += use->busy;
}

/* "1, 2 3": waiters for the semaphore db; waiters for, and holders of, the mutex db. */
static const char *
uses(void)
{
	static char text[64];
	struct lock_use sum[2] = {{.busy = 0}, {.busy = 0}};

	lock_each_use(engine(0), count_use, sum);
	ck_assert_uint_eq(sum[false].busy, 0);
	snprintf(text, sizeof(text), "%zu, %zu %zu", sum[0].waiting, sum[1].waiting, sum[1].busy);
	return text;
}

START_TEST(waiters_and_holders_of_mutexes_are_counted_by_name)
{
	world_make(world, "db", 1);
	ck_assert_str_eq(uses(), "0, 0 0");
	for (uint64_t peer = 1; peer <= 4; peer++)
		ask_semaphore(peer);
	ck_assert_str_eq(uses(), "3, 0 0");
	for (uint64_t peer = 5; peer <= 7; peer++)
		ask(peer, LOCK_KIND_MUTEX, 0);
	ck_assert_str_eq(uses(), "3, 2 1");
	/* The next waiter gets it. */
	lock_peer_gone(engine(0), 5);
	world_pass(world, SOON);
	ck_assert_str_eq(uses(), "3, 1 1");
	lock_peer_gone(engine(0), 6);
	lock_peer_gone(engine(0), 7);
	world_pass(world, NSEC_PER_SEC);
	ck_assert_str_eq(uses(), "3, 0 0");
}
END_TEST

/* ---- slots that are busy, as the broker says ---- */

START_TEST(busy_slots_are_those_with_a_holder_anywhere)
{
	struct lock_acquire wanted = {
	    .name = "db", .kind = LOCK_KIND_SEMAPHORE, .timeout = DURATION_FOREVER};
	const struct said *said;

	world_make(world, "db", 3);
	ask_semaphore(1);
	lock_acquire(engine(1), 1, 1, &wanted);
	world_pass(world, SOON);
	lock_busy(engine(0), 8, 1, "db");
	said = world_await(world, 0, 8, 1);
	ck_assert_int_eq(said->reason, REASON_NONE);
	ck_assert_int_eq(said->slots, 3);
	ck_assert_str_eq(said->detail, "1 2");
}
END_TEST

START_TEST(busy_says_of_a_mutex_whether_it_is_taken)
{
	world_make(world, "db", 2);
	ck_assert(memory_world_put(world->memory, "db-2-B", true));
	ck_assert(memory_world_put(world->memory, "db-M", true));
	lock_busy(engine(0), 8, 1, "db");
	ck_assert_str_eq(world_await(world, 0, 8, 1)->detail, "0 2");
	ck_assert(memory_world_put(world->memory, "m-M", true));
	lock_busy(engine(0), 8, 2, "m");
	ck_assert_int_eq(world_await(world, 0, 8, 2)->reason, REASON_NO_SUCH_LOCK);
	ck_assert_str_eq(world_await(world, 0, 8, 2)->detail, "0");
}
END_TEST

/* amqp-locks-python: one queue is both. */
START_TEST(busy_knows_a_mutex_from_an_administrator)
{
	world_free(world);
	world = world_new_named(&queue_naming_amqp_locks_python);
	ck_assert(memory_world_put(world->memory, "db", true));
	lock_busy(engine(0), 8, 1, "db");
	ck_assert_str_eq(world_await(world, 0, 8, 1)->detail, "0");
	ck_assert(memory_world_put(world->memory, "db-A-1", false));
	lock_busy(engine(0), 8, 2, "db");
	ck_assert_int_eq(world_await(world, 0, 8, 2)->reason, REASON_NONE);
	ck_assert_str_eq(world_await(world, 0, 8, 2)->detail, "");
}
END_TEST

START_TEST(busy_reports_a_missing_lock_and_a_silent_broker)
{
	const struct said *said;

	lock_busy(engine(0), 8, 1, "db");
	said = world_await(world, 0, 8, 1);
	ck_assert_int_eq(said->reason, REASON_NO_SUCH_LOCK);
	world_make(world, "db", 1);
	world->silent = true;
	lock_busy(engine(0), 8, 2, "db");
	ck_assert_int_eq(world_await(world, 0, 8, 2)->reason, REASON_BROKER_UNAVAILABLE);
}
END_TEST

/* ---- granted ---- */

/* seeds/004, "Grant": A is busy, B and C wait; B is granted; A ends; C starts while B runs. */
START_TEST(a_granted_waiter_starts_at_once_and_takes_no_slot)
{
	world_make(world, "db", 1);
	for (uint64_t peer = 1; peer <= 3; peer++)
		ask_semaphore(peer);
	ck_assert_int_eq(lock_admit(engine(0), waiter("B")), REASON_NONE);
	ck_assert_ptr_nonnull(answer(2));
	ck_assert_int_eq(answer(2)->reason, REASON_NONE);
	ck_assert_int_eq(answer(2)->slot, 0);
	ck_assert_int_eq(answer(2)->safe_until, 0);
	ck_assert_str_eq(rows("db"), "A:busy/1 B:granted C:waiting@1");
	give_back(1);
	ck_assert_str_eq(rows("db"), "C:busy/1 B:granted");
	give_back(2);
	ck_assert_str_eq(rows("db"), "C:busy/1");
	ck_assert_str_eq(world->changes, "A:waiting A:busy B:waiting C:waiting B:granted A:gone "
					 "C:busy B:gone");
}
END_TEST

START_TEST(a_claim_in_flight_is_given_back_when_its_acquire_is_granted)
{
	struct lock_acquire wanted = {
	    .name = "db", .kind = LOCK_KIND_SEMAPHORE, .timeout = DURATION_FOREVER, .who = "A"};
	struct lock_counts counts;

	world_make(world, "db", 1);
	lock_acquire(engine(0), 1, 1, &wanted);
	do {
		ck_assert(world_step(world, SECOND));
		lock_get_counts(engine(0), &counts);
	} while (counts.in_flight == 0);
	ck_assert_int_eq(lock_admit(engine(0), waiter("A")), REASON_NONE);
	ck_assert_int_eq(answer(1)->slot, 0);
	world_pass(world, SOON);
	ck_assert_int_eq(world_b_count(world), 0);
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.in_flight, 0);
	ck_assert_uint_eq(counts.holds, 1);
	ask_semaphore(2);
	ck_assert_int_eq(answer(2)->slot, 1);
}
END_TEST

START_TEST(only_waiters_can_be_granted_or_denied)
{
	uint64_t holder;

	world_make(world, "db", 1);
	ask_semaphore(1);
	holder = waiter("A");
	ck_assert_int_eq(lock_admit(engine(0), holder), REASON_NOT_HELD);
	ck_assert_int_eq(lock_deny(engine(0), holder), REASON_NOT_HELD);
	ck_assert_int_eq(lock_admit(engine(0), answer(1)->lock), REASON_NOT_HELD);
	ck_assert_int_eq(lock_deny(engine(0), 0), REASON_NOT_HELD);
	ck_assert_str_eq(rows("db"), "A:busy/1");
}
END_TEST

START_TEST(a_client_with_all_the_locks_it_may_have_is_not_granted_another)
{
	struct lock_settings few = world_settings;

	few.max_locks_per_connection = 1;
	lock_engine_set(engine(0), &few);
	world_make(world, "db", 1);
	ask_semaphore(1);
	ask_semaphore(2);
	lock_acquire(engine(0), 2, 2,
	    &(struct lock_acquire){.name = "db", .timeout = DURATION_FOREVER, .who = "C"});
	world_pass(world, SOON);
	ck_assert_int_eq(lock_admit(engine(0), waiter("B")), REASON_NONE);
	ck_assert_int_eq(lock_admit(engine(0), waiter("C")), REASON_TOO_MANY_LOCKS);
	ck_assert_ptr_null(world_answer(world, 0, 2, 2));
	ck_assert_int_eq(lock_deny(engine(0), waiter("C")), REASON_NONE);
}
END_TEST

START_TEST(a_granted_hold_ends_with_its_client)
{
	struct lock_counts counts;

	world_make(world, "db", 1);
	ask_semaphore(1);
	ask_semaphore(2);
	ck_assert_int_eq(lock_admit(engine(0), waiter("B")), REASON_NONE);
	lock_peer_gone(engine(0), 2);
	ck_assert_str_eq(rows("db"), "A:busy/1");
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.holds, 1);
}
END_TEST

START_TEST(a_waiter_at_a_gate_is_granted_too)
{
	ck_assert(memory_world_put(world->memory, "db-G", false));
	ask_semaphore(1);
	ck_assert_str_eq(rows("db"), "A:waiting@1");
	ck_assert_int_eq(lock_admit(engine(0), waiter("A")), REASON_NONE);
	ck_assert_str_eq(rows("db"), "A:granted");
}
END_TEST

START_TEST(a_waiter_without_a_broker_is_granted_too)
{
	broker_stop(world->daemon[0].broker);
	world_pass(world, SOON);
	ask_semaphore(1);
	ck_assert_ptr_null(answer(1));
	ck_assert_int_eq(lock_admit(engine(0), waiter("A")), REASON_NONE);
	ck_assert_int_eq(answer(1)->reason, REASON_NONE);
}
END_TEST

/* ---- denied ---- */

START_TEST(a_denied_waiter_fails_and_the_others_wait_on)
{
	world_make(world, "db", 1);
	for (uint64_t peer = 1; peer <= 3; peer++)
		ask_semaphore(peer);
	ck_assert_int_eq(lock_deny(engine(0), waiter("B")), REASON_NONE);
	ck_assert_int_eq(answer(2)->reason, REASON_CANCELLED);
	ck_assert(answer(2)->denied);
	ck_assert_str_eq(answer(2)->text, "denied by an administrator");
	ck_assert_str_eq(rows("db"), "A:busy/1 C:waiting@1");
	ck_assert_uint_eq(lock_deny_all(engine(0), "db"), 1);
	ck_assert_uint_eq(lock_deny_all(engine(0), "db"), 0);
	ck_assert_int_eq(answer(3)->reason, REASON_CANCELLED);
	ck_assert_str_eq(rows("db"), "A:busy/1");
}
END_TEST

START_TEST(a_cancel_by_the_client_is_no_denial)
{
	world_make(world, "db", 1);
	ask_semaphore(1);
	ask_semaphore(2);
	ck_assert(lock_cancel(engine(0), 2, 1));
	ck_assert_int_eq(answer(2)->reason, REASON_CANCELLED);
	ck_assert(!answer(2)->denied);
	ck_assert_str_eq(world->changes, "A:waiting A:busy B:waiting B:cancelled B:gone");
}
END_TEST

Suite *
suite_lock_rows(void)
{
	Suite *suite = suite_create("lock: rows");
	TCase *tcase = tcase_create("rows");

	tcase_add_checked_fixture(tcase, world_begin, world_end);
	tcase_add_test(tcase, rows_are_holders_and_waiters);
	tcase_add_test(tcase, a_row_keeps_its_waiter_when_it_holds);
	tcase_add_test(tcase, a_mutex_has_rows_of_the_same_name);
	tcase_add_test(tcase, a_revoked_hold_is_shown_as_such);
	tcase_add_test(tcase, a_slot_of_a_pending_drop_has_no_holder);
	tcase_add_test(tcase, a_walk_goes_on_though_its_last_waiter_has_gone);
	tcase_add_test(tcase, waiters_and_holders_of_mutexes_are_counted_by_name);
	tcase_add_test(tcase, busy_slots_are_those_with_a_holder_anywhere);
	tcase_add_test(tcase, busy_says_of_a_mutex_whether_it_is_taken);
	tcase_add_test(tcase, busy_knows_a_mutex_from_an_administrator);
	tcase_add_test(tcase, busy_reports_a_missing_lock_and_a_silent_broker);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("grant and deny");
	tcase_add_checked_fixture(tcase, world_begin, world_end);
	tcase_add_test(tcase, a_granted_waiter_starts_at_once_and_takes_no_slot);
	tcase_add_test(tcase, a_claim_in_flight_is_given_back_when_its_acquire_is_granted);
	tcase_add_test(tcase, only_waiters_can_be_granted_or_denied);
	tcase_add_test(tcase, a_client_with_all_the_locks_it_may_have_is_not_granted_another);
	tcase_add_test(tcase, a_granted_hold_ends_with_its_client);
	tcase_add_test(tcase, a_waiter_at_a_gate_is_granted_too);
	tcase_add_test(tcase, a_waiter_without_a_broker_is_granted_too);
	tcase_add_test(tcase, a_denied_waiter_fails_and_the_others_wait_on);
	tcase_add_test(tcase, a_cancel_by_the_client_is_no_denial);
	suite_add_tcase(suite, tcase);
	return suite;
}
