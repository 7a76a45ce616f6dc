/*
 * An engine that goes on from the state of another one, and the engine that was frozen for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/lock/engine.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

/* An answer takes a millisecond, and a scan one. */
#define SOON (50 * MS)
#define HEARTBEAT (10 * SECOND)

static void
setup(void)
{
	world_begin();
	world_make(world, "db", 2);
}

static void
freeze(void)
{
	lock_freeze(engine(0), true);
	ck_assert(world_stills(world, 0));
}

/* Frozen: until it is still, and works on no request. */
static void
freeze_idle(void)
{
	int64_t end = world->now + SECOND;

	lock_freeze(engine(0), true);
	while (!lock_is_still(engine(0)) || !lock_is_idle(engine(0)))
		ck_assert(world_step(world, end - world->now));
}

/* The daemon, frozen and still, is replaced. The successor begins `later` ns later. */
static void
succeed(int64_t later)
{
	char why[128], *text = world_save(world, 0);

	world->now += later;
	ck_assert_msg(world_succeed(world, 0, text, why), "%s", why);
	free(text);
}

static void
replace(void)
{
	freeze();
	succeed(0);
}

static void
take(uint64_t peer, uint64_t request, const char *name, enum lock_kind kind, int priority,
    int64_t timeout)
{
	struct lock_acquire wanted = {.name = name,
	    .kind = kind,
	    .timeout = timeout,
	    .priority = priority,
	    .lease = true,
	    .uid = 1000 + (uid_t)peer,
	    .pid = 7,
	    .who = "who",
	    .why = "why"};

	lock_acquire(engine(0), peer, request, &wanted);
	world_pass(world, SOON);
}

static void
add_row(void *ctx, const struct lock_row *row)
{
	char *text = ctx;
	size_t len = strlen(text);

	snprintf(text + len, 4096 - len,
	    "%s %s slot %d lock %" PRIu64 " waiter %" PRIu64 " uid %d pid %d %s %s since %" PRId64
	    "%s\n",
	    row->name, lock_row_word(row->state), row->slot, row->lock, row->waiter, (int)row->uid,
	    (int)row->pid, row->who, row->why, row->since, row->revoked ? " revoked" : "");
}

static void
write_rows(char text[4096])
{
	text[0] = '\0';
	lock_each(engine(0), NULL, add_row, text);
}

static enum reason
verify(uint64_t peer, uint64_t request, uint64_t lock, int64_t *ret_safe_until)
{
	const struct said *answer;

	lock_verify(engine(0), peer, request, lock, 0);
	answer = world_await(world, 0, peer, request);
	*ret_safe_until = answer->safe_until;
	return answer->reason;
}

static uint64_t
lock_of(uint64_t peer)
{
	const struct said *answer = now(0, peer, 1);

	ck_assert_int_eq(answer->reason, REASON_NONE);
	return answer->lock;
}

/* ---- holds ---- */

START_TEST(holds_keep_their_numbers_and_rows)
{
	char before[4096], after[4096];
	int64_t safe, later;

	memory_world_put_holder(world->memory, "file-1-B");
	memory_world_put(world->memory, "file-1-A", false);
	memory_world_put(world->memory, "free-U", false);
	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	take(2, 1, "file", LOCK_KIND_PERSISTENT_MUTEX, 0, TRY);
	take(3, 1, "mx", LOCK_KIND_MUTEX, 0, TRY);
	take(4, 1, "free", LOCK_KIND_SEMAPHORE, 0, TRY);
	ck_assert_int_eq(verify(1, 2, lock_of(1), &safe), REASON_NONE);
	write_rows(before);
	replace();
	write_rows(after);
	ck_assert_str_eq(before, after);
	for (uint64_t peer = 1; peer <= 4; peer++)
		ck_assert_int_eq(verify(peer, 3, lock_of(peer), &later), REASON_NONE);
	ck_assert_int_eq(verify(1, 4, lock_of(1), &later), REASON_NONE);
	ck_assert_int_ge(later, safe);
	/* The keepalive goes on. */
	world_pass(world, 6 * HEARTBEAT);
	for (uint64_t peer = 1; peer <= 4; peer++)
		release(0, peer, 5, lock_of(peer));
	ck_assert(!world_b(world, "db", 1, -1));
	ck_assert_uint_eq(memory_world_holder(world->memory, "file-1-B", NULL), 0);
}
END_TEST

START_TEST(numbers_are_not_used_again)
{
	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	replace();
	take(2, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	ck_assert_uint_gt(lock_of(2), lock_of(1));
}
END_TEST

START_TEST(a_slot_stays_reserved)
{
	take(1, 1, "db", LOCK_KIND_PERSISTENT_MUTEX, 0, TRY);
	replace();
	take(2, 1, "db", LOCK_KIND_PERSISTENT_MUTEX, 0, TRY);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_WOULD_BLOCK);
}
END_TEST

/* The check of the slot closed the channel, and by queue the hold has no other one yet. */
START_TEST(a_revoked_hold_stays_revoked)
{
	int64_t safe;

	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	world_pass(world, SECOND);
	memory_world_remove(world->memory, "db-1-A");
	world_pass(world, SOON);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	replace();
	memory_world_put(world->memory, "db-1-A", false);
	ck_assert_int_eq(verify(1, 2, lock_of(1), &safe), REASON_REVOKED);
	world_pass(world, HEARTBEAT);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	release(0, 1, 3, lock_of(1));
	ck_assert(!world_b(world, "db", 1, -1));
}
END_TEST

START_TEST(a_removed_slot_is_noticed_by_the_successor)
{
	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	freeze();
	memory_world_remove(world->memory, "db-1-A");
	lock_freeze(engine(0), false);
	replace();
	world_pass(world, SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
}
END_TEST

START_TEST(the_lease_goes_on_from_the_same_question)
{
	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	replace();
	world->silent = true;
	world_pass(world, HEARTBEAT + SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 1);
	world_pass(world, HEARTBEAT);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
	for (size_t i = 0; i < world->said_count; i++) {
		if (world->said[i].notice && world->said[i].kind == LOCK_NOTICE_LOST)
			ck_assert_int_le(world->said[i].at, now(0, 1, 1)->safe_until);
	}
}
END_TEST

/* A question was answered, but so late that the hold stays suspect. */
START_TEST(a_suspect_hold_is_restored_by_the_successor)
{
	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	world->delay = HEARTBEAT + SECOND;
	while (world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT) == 0)
		ck_assert(world_step(world, HEARTBEAT));
	lock_freeze(engine(0), true);
	while (!lock_is_still(engine(0)))
		ck_assert(world_step(world, HEARTBEAT));
	world->delay = MS;
	succeed(0);
	world_pass(world, SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_RESTORED), 1);
}
END_TEST

/* The newest answer about the hold is almost a heartbeat old when the successor begins. */
START_TEST(an_old_lease_is_extended_at_once)
{
	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	world_pass(world, HEARTBEAT / 3 - SOON);
	lock_freeze(engine(0), true);
	world_pass(world, 2 * SECOND);
	succeed(3 * SECOND);
	world_pass(world, 5 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 0);
}
END_TEST

/* ---- waiters ---- */

START_TEST(waiters_keep_their_order)
{
	static const uint64_t order[] = {5, 3, 4, 6};

	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	take(2, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	take(3, 1, "db", LOCK_KIND_SEMAPHORE, 0, DURATION_FOREVER);
	take(4, 1, "db", LOCK_KIND_SEMAPHORE, 0, DURATION_FOREVER);
	take(5, 1, "db", LOCK_KIND_SEMAPHORE, 1, DURATION_FOREVER);
	replace();
	take(6, 1, "db", LOCK_KIND_SEMAPHORE, 0, DURATION_FOREVER);
	lock_release(engine(0), 2, 2, lock_of(2));
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		world_pass(world, SOON);
		for (size_t j = i + 1; j < sizeof(order) / sizeof(order[0]); j++)
			ck_assert(is_waiting(0, order[j], 1));
		release(0, order[i], 2, lock_of(order[i]));
	}
}
END_TEST

START_TEST(a_deadline_does_not_begin_anew)
{
	int64_t began;

	take(1, 1, "db", LOCK_KIND_PERSISTENT_MUTEX, 0, TRY);
	began = world->now;
	take(2, 1, "db", LOCK_KIND_PERSISTENT_MUTEX, 0, 5 * SECOND);
	world_pass(world, 3 * SECOND);
	replace();
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_TIMEOUT);
	ck_assert_int_eq(world->now, began + 5 * SECOND);
}
END_TEST

START_TEST(an_await_and_a_wait_for_holders_go_on)
{
	struct lock_await await = {.name = "db", .slot = 1, .timeout = DURATION_FOREVER};
	struct lock_change change = {
	    .name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 1, .wait = DURATION_FOREVER};

	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	take(2, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	lock_await(engine(0), 3, 1, &await);
	lock_resize(engine(0), 4, 1, &change);
	world_pass(world, SECOND);
	ck_assert(lock_saves(engine(0), 3, 1));
	ck_assert(lock_saves(engine(0), 4, 1));
	ck_assert(!lock_saves(engine(0), 4, 2));
	replace();
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 3, 1));
	ck_assert(is_waiting(0, 4, 1));
	for (uint64_t peer = 1; peer <= 2; peer++)
		release(0, peer, 2, lock_of(peer));
	ck_assert_int_eq(world_await(world, 0, 3, 1)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 4, 1)->reason, REASON_NONE);
	ck_assert_int_eq(now(0, 4, 1)->slots, 1);
}
END_TEST

/*
 * The holders of db are clients of another daemon. The deadlines of an await and of a resize pass
 * after the old daemon's end, before the successor's auxiliary connection is up.
 */
static void
pass_deadlines_in_the_takeover(bool released)
{
	struct lock_await await = {.name = "db", .slot = 1, .timeout = 2 * SECOND};
	struct lock_change change = {
	    .name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 1, .wait = 2 * SECOND};
	uint64_t locks[2];

	for (uint64_t i = 0; i < 2; i++)
		locks[i] = acquire(1, 1, 1 + i, "db", TRY)->lock;
	lock_await(engine(0), 3, 1, &await);
	lock_resize(engine(0), 4, 1, &change);
	world_pass(world, SECOND);
	freeze();
	for (uint64_t i = 0; i < 2 && released; i++)
		lock_release(engine(1), 1, 3 + i, locks[i]);
	succeed(2 * SECOND);
	for (uint64_t peer = 3; peer <= 4; peer++)
		world_await(world, 0, peer, 1);
}

START_TEST(a_deadline_that_passed_in_the_takeover_is_a_timeout)
{
	pass_deadlines_in_the_takeover(false);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_TIMEOUT);
	ck_assert_int_eq(now(0, 4, 1)->reason, REASON_TIMEOUT);
	ck_assert_str_eq(now(0, 4, 1)->detail, "2");
}
END_TEST

START_TEST(holders_that_left_in_the_takeover_are_gone)
{
	pass_deadlines_in_the_takeover(true);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NONE);
	ck_assert_int_eq(now(0, 4, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_try_of_an_await_stays_a_try)
{
	struct lock_await await = {.name = "db", .slot = 1, .timeout = TRY};

	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	lock_freeze(engine(0), true);
	lock_await(engine(0), 2, 1, &await);
	succeed(0);
	world_pass(world, SOON);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_TIMEOUT);
}
END_TEST

/* Another administrator is at work on the lock that it creates. */
START_TEST(a_wait_that_is_over_and_still_tries_ends_when_it_would_have)
{
	struct lock_acquire wanted = {
	    .name = "new", .kind = LOCK_KIND_SEMAPHORE, .timeout = SECOND, .create = 1};
	int64_t began = world->now;
	const struct said *answer;

	memory_world_put(world->memory, "new", true);
	lock_acquire(engine(0), 1, 1, &wanted);
	world_pass(world, 4 * SECOND);
	replace();
	ck_assert(is_waiting(0, 1, 1));
	answer = world_await(world, 0, 1, 1);
	ck_assert_int_eq(answer->reason, REASON_TIMEOUT);
	ck_assert_int_eq(answer->at - began, SECOND + world_settings.request_timeout);
}
END_TEST

/* Also a wait that confirms is a try when it is saved. */
START_TEST(a_deadline_of_a_try_that_passed_in_the_takeover_is_a_timeout)
{
	struct lock_await await = {.name = "db", .slot = 1, .timeout = TRY};

	acquire(1, 1, 1, "db", TRY);
	lock_freeze(engine(0), true);
	lock_await(engine(0), 2, 1, &await);
	succeed(world_settings.request_timeout + SECOND);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_TIMEOUT);
}
END_TEST

static void
create_and_destroy(struct lock_world *of)
{
	const struct lock_change change = {.name = "new", .kind = LOCK_KIND_SEMAPHORE, .slots = 1};

	lock_create(of->daemon[0].engine, 1, 1, &change);
	lock_destroy(of->daemon[0].engine, 1, 3, &change);
}

/* Create, acquire, destroy: the changes are repeated, and then the waiter is restored. */
START_TEST(a_waiter_stays_between_two_changes)
{
	const struct lock_change change = {.name = "new", .kind = LOCK_KIND_SEMAPHORE, .slots = 1};

	lock_create(engine(0), 1, 1, &change);
	world_acquire(world, 0, 1, 2, "new", TRY);
	lock_destroy(engine(0), 1, 3, &change);
	lock_freeze(engine(0), true);
	world->repeat = create_and_destroy;
	succeed(0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_change_by_a_number_has_a_target)
{
	struct lock_change change = {
	    .name = "db", .kind = LOCK_KIND_SEMAPHORE, .by = LOCK_SLOTS_ADD, .slots = 3};
	struct op *ops;
	int target;

	lock_resize(engine(0), 1, 1, &change);
	ck_assert(!lock_saves(engine(0), 1, 1));
	ck_assert_int_eq(lock_leads_to(engine(0), 1, 1), -1);
	lock_freeze(engine(0), true);
	while (!memory_world_has(world->memory, "db-3-A", NULL))
		ck_assert(world_step(world, SECOND));
	ck_assert(!lock_is_idle(engine(0)));
	ck_assert(!lock_saves(engine(0), 1, 1));
	ck_assert_int_eq(lock_leads_to(engine(0), 1, 1), 5);
	ck_assert_int_eq(lock_leads_to(engine(0), 1, 2), -1);
	ck_assert_int_eq(lock_leads_to(engine(0), 2, 1), -1);
	/* It is asked for each request. The list of all operations, which may be as many, is out of reach. */
	ops = engine(0)->ops;
	engine(0)->ops = NULL;
	target = lock_leads_to(engine(0), 1, 1);
	engine(0)->ops = ops;
	ck_assert_int_eq(target, 5);
	lock_freeze(engine(0), false);
	world_await(world, 0, 1, 1);
	ck_assert_int_eq(lock_leads_to(engine(0), 1, 1), -1);
}
END_TEST

/* ---- slots that are free meanwhile ---- */

START_TEST(waiters_elsewhere_are_told_of_added_slots)
{
	struct lock_change change = {.name = "db", .kind = LOCK_KIND_SEMAPHORE, .slots = 3};

	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	take(2, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	wait_for(1, 1, 1);
	world_pass(world, SOON);
	lock_resize(engine(0), 3, 1, &change);
	freeze_idle();
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NONE);
	succeed(0);
	world_pass(world, SOON);
	ck_assert_int_eq(now(1, 1, 1)->reason, REASON_NONE);
}
END_TEST

/* The first consumer of the wait queue is that of the frozen daemon, which has one waiter. */
static void
free_three_slots_while_frozen(void)
{
	uint64_t locks[3];

	memory_world_put(world->memory, "db-3-A", false);
	for (uint64_t i = 0; i < 3; i++)
		locks[i] = acquire(1, 1, 1 + i, "db", TRY)->lock;
	wait_as(0, 1, 1, LOCK_KIND_SEMAPHORE, 1);
	wait_as(2, 1, 1, LOCK_KIND_SEMAPHORE, 0);
	wait_as(2, 1, 2, LOCK_KIND_SEMAPHORE, 0);
	world_pass(world, SOON);
	freeze();
	for (uint64_t i = 0; i < 3; i++)
		release(1, 1, 11 + i, locks[i]);
	world_pass(world, SOON);
	ck_assert(is_waiting(0, 1, 1));
}

static void
check_all_are_granted(void)
{
	world_pass(world, SOON);
	ck_assert_int_eq(now(0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_eq(now(2, 1, 1)->reason, REASON_NONE);
	ck_assert_int_eq(now(2, 1, 2)->reason, REASON_NONE);
}

START_TEST(hints_go_to_others_while_the_engine_is_frozen)
{
	free_three_slots_while_frozen();
	ck_assert_int_eq(now(2, 1, 1)->reason, REASON_NONE);
	ck_assert_int_eq(now(2, 1, 2)->reason, REASON_NONE);
	lock_freeze(engine(0), false);
	check_all_are_granted();
}
END_TEST

START_TEST(hints_go_to_others_until_the_successor_begins)
{
	free_three_slots_while_frozen();
	succeed(0);
	check_all_are_granted();
}
END_TEST

/* ---- the frozen engine ---- */

START_TEST(a_daemon_without_holds_is_still)
{
	lock_freeze(engine(0), true);
	ck_assert(lock_is_still(engine(0)));
	ck_assert(lock_is_idle(engine(0)));
	lock_freeze(engine(0), false);
	replace();
	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	ck_assert_int_eq(now(0, 1, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_claim_in_flight_is_awaited)
{
	world_acquire(world, 0, 1, 1, "db", DURATION_FOREVER);
	while (!world_b(world, "db", 1, 0))
		ck_assert(world_step(world, SECOND));
	lock_freeze(engine(0), true);
	ck_assert(!lock_is_still(engine(0)));
	ck_assert(world_stills(world, 0));
	ck_assert_int_eq(now(0, 1, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(no_claim_begins)
{
	lock_freeze(engine(0), true);
	world_acquire(world, 0, 1, 1, "db", DURATION_FOREVER);
	world_pass(world, 6 * SECOND);
	ck_assert(is_waiting(0, 1, 1));
	ck_assert(lock_is_still(engine(0)));
	lock_freeze(engine(0), false);
	world_pass(world, SOON);
	ck_assert_int_eq(now(0, 1, 1)->reason, REASON_NONE);
}
END_TEST

/* No hint came meanwhile, and the rescan comes only after seconds. */
START_TEST(waiters_are_scanned_for_when_the_engine_goes_on)
{
	const struct said *held = acquire(1, 1, 1, "db", TRY), *other = acquire(1, 1, 2, "db", TRY);

	wait_for(0, 2, 1);
	world_pass(world, SOON);
	freeze();
	release(1, 1, 3, held->lock);
	release(1, 1, 4, other->lock);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 2, 1));
	lock_freeze(engine(0), false);
	world_pass(world, SOON);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

/* The slot becomes free after the scan. The rescan comes only after seconds. */
START_TEST(hints_come_when_the_engine_goes_on)
{
	const struct said *held = acquire(1, 1, 1, "db", TRY);

	acquire(1, 1, 2, "db", TRY);
	wait_for(0, 2, 1);
	world_pass(world, SOON);
	freeze();
	world_pass(world, SOON);
	lock_freeze(engine(0), false);
	world_pass(world, SOON);
	ck_assert(is_waiting(0, 2, 1));
	release(1, 1, 3, held->lock);
	world_pass(world, SOON);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(leases_do_not_end_while_the_engine_is_frozen)
{
	int64_t safe;

	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	lock_freeze(engine(0), true);
	world_pass(world, 4 * HEARTBEAT);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 0);
	lock_freeze(engine(0), false);
	ck_assert_int_eq(verify(1, 2, lock_of(1), &safe), REASON_NONE);
}
END_TEST

/* ---- states that cannot be ---- */

/* Replaces `what` in the text, where it comes first, and the digits behind it. */
static char *
edited(const char *text, const char *what, const char *by)
{
	const char *at = strstr(text, what), *rest;
	char *result = malloc(strlen(text) + strlen(by) + 1);

	ck_assert_ptr_nonnull(at);
	rest = at + strlen(what);
	rest += strspn(rest, "0123456789");
	sprintf(result, "%.*s%s%s", (int)(at - text), text, by, rest);
	return result;
}

static const struct {
	const char *what, *by;
} wrong[] = {
    {"\"record\":\"hold\"", "\"record\":\"told\""},
    {"\"way\":0", "\"way\":1"},
    {"\"way\":0", "\"way\":3"},
    {"\"slot\":1", "\"slot\":0"},
    {"\"slot\":1", "\"slot\":100001"},
    {"\"name\":\"db\"", "\"name\":\"a b\""},
    {"\"name\":\"db\"", "\"name\":null"},
    {"\"queue\":\"db-1-B\"", "\"queue\":\"db-B-1\""},
    {"\"kind\":0", "\"kind\":1"},
    {"\"kind\":0", "\"kind\":-1"},
    {"\"slotless\":false", "\"slotless\":true"},
    {"\"channel\":\"", "\"channel\":\"98"},
    {"\"channel\":\"2\"", "\"channel\":\"0\""},
    {"\"from\":\"", "\"from\":\"9000000000000"},
    {"\"from\":\"", "\"from\":\"-1"},
    {"\"uid\":\"1001\"", "\"uid\":\"4294967296\""},
    {"\"last_id\":\"", "\"last_id\":\"0"},
    {"\"lease_from\":\"", "\"lease_from\":\"2000000000000"},
    {"\"connection\":\"", "\"connection\":\"99"},
    {"\"host\":\"memory\"", "\"host\":\"other\""},
    {"\"number\":1,", "\"number\":65535,"},
    {"\"consumer\":0", "\"consumer\":2"},
    {"\"serial\":\"", "\"serial\":\"0"},
    {"\"state\":1", "\"state\":3"},
    {"\"timeout\":\"", "\"timeout\":\"9223372036854775806"},
    {"\"records\":", "\"records\":99"},
};

START_TEST(a_wrong_state_is_refused)
{
	const struct lock_await await = {.name = "db", .slot = 1, .timeout = 60 * SECOND};
	char why[128], *text, *its;

	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	lock_await(engine(0), 2, 1, &await);
	freeze();
	text = world_save(world, 0);
	its = edited(text, wrong[_i].what, wrong[_i].by);
	ck_assert_msg(!world_succeed(world, 0, its, why), "%s: accepted", wrong[_i].by);
	ck_assert_int_eq(strncmp(why, "line ", 5), 0);
	free(its);
	free(text);
}
END_TEST

START_TEST(two_holds_with_one_channel_are_refused)
{
	char why[128], *text, *its;

	take(1, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	take(2, 1, "db", LOCK_KIND_SEMAPHORE, 0, TRY);
	freeze();
	text = world_save(world, 0);
	its = edited(text,
	    "\"slot\":2,\"slotless\":false,\"admitted\":false,\"way\":0,\"channel\":\"",
	    "\"slot\":2,\"slotless\":false,\"admitted\":false,\"way\":0,\"channel\":\"2");
	ck_assert(!world_succeed(world, 0, its, why));
	ck_assert_ptr_nonnull(strstr(why, "invalid record of a hold"));
	free(its);
	free(text);
}
END_TEST

/* Version 0.1.0 counted a claim that was never granted as released when it was dropped. */
static const struct {
	const char *what, *by;
	uint64_t granted, released, lost;
} odd_counts[] = {
    {"\"released\":\"", "\"released\":\"5", 3, 1, 0},
    {"\"lost\":\"", "\"lost\":\"9", 3, 0, 1},
    {"\"granted\":\"", "\"granted\":\"1", 2, 0, 0},
    {"\"refused\":\"", "\"refused\":\"4", 3, 1, 0},
};

START_TEST(counts_of_an_older_daemon_add_up)
{
	struct lock_counts counts;
	char why[128], *text, *its;

	for (uint64_t peer = 1; peer <= 3; peer++)
		take(peer, 1, peer < 3 ? "db" : "mx",
		    peer < 3 ? LOCK_KIND_SEMAPHORE : LOCK_KIND_MUTEX, 0, TRY);
	release(0, 2, 2, lock_of(2));
	freeze();
	text = world_save(world, 0);
	its = edited(text, odd_counts[_i].what, odd_counts[_i].by);
	ck_assert_msg(world_succeed(world, 0, its, why), "%s", why);
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.holds, 2);
	ck_assert_uint_eq(counts.granted, odd_counts[_i].granted);
	ck_assert_uint_eq(counts.released, odd_counts[_i].released);
	ck_assert_uint_eq(counts.lost, odd_counts[_i].lost);
	free(its);
	free(text);
}
END_TEST

Suite *
suite_lock_successor(void)
{
	Suite *suite = suite_create("successor");
	TCase *tests = tcase_create("successor");

	tcase_add_checked_fixture(tests, setup, world_end);
	tcase_add_test(tests, holds_keep_their_numbers_and_rows);
	tcase_add_test(tests, numbers_are_not_used_again);
	tcase_add_test(tests, a_slot_stays_reserved);
	tcase_add_test(tests, a_revoked_hold_stays_revoked);
	tcase_add_test(tests, a_removed_slot_is_noticed_by_the_successor);
	tcase_add_test(tests, the_lease_goes_on_from_the_same_question);
	tcase_add_test(tests, a_suspect_hold_is_restored_by_the_successor);
	tcase_add_test(tests, an_old_lease_is_extended_at_once);
	tcase_add_test(tests, waiters_keep_their_order);
	tcase_add_test(tests, a_deadline_does_not_begin_anew);
	tcase_add_test(tests, an_await_and_a_wait_for_holders_go_on);
	tcase_add_test(tests, a_deadline_that_passed_in_the_takeover_is_a_timeout);
	tcase_add_test(tests, a_wait_that_is_over_and_still_tries_ends_when_it_would_have);
	tcase_add_test(tests, holders_that_left_in_the_takeover_are_gone);
	tcase_add_test(tests, a_try_of_an_await_stays_a_try);
	tcase_add_test(tests, a_deadline_of_a_try_that_passed_in_the_takeover_is_a_timeout);
	tcase_add_test(tests, a_waiter_stays_between_two_changes);
	tcase_add_test(tests, a_change_by_a_number_has_a_target);
	tcase_add_test(tests, waiters_elsewhere_are_told_of_added_slots);
	tcase_add_test(tests, hints_go_to_others_while_the_engine_is_frozen);
	tcase_add_test(tests, hints_go_to_others_until_the_successor_begins);
	tcase_add_test(tests, a_daemon_without_holds_is_still);
	tcase_add_test(tests, a_claim_in_flight_is_awaited);
	tcase_add_test(tests, no_claim_begins);
	tcase_add_test(tests, waiters_are_scanned_for_when_the_engine_goes_on);
	tcase_add_test(tests, hints_come_when_the_engine_goes_on);
	tcase_add_test(tests, leases_do_not_end_while_the_engine_is_frozen);
	tcase_add_test(tests, two_holds_with_one_channel_are_refused);
	tcase_add_loop_test(tests, counts_of_an_older_daemon_add_up, 0,
	    (int)(sizeof(odd_counts) / sizeof(odd_counts[0])));
	tcase_add_loop_test(
	    tests, a_wrong_state_is_refused, 0, (int)(sizeof(wrong) / sizeof(wrong[0])));
	suite_add_tcase(suite, tests);
	return suite;
}
