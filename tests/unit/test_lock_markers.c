/*
 * Acquiring where markers say something: a gate, no limit, a mutex that is an administration mutex.
 */
#include <string.h>

#include "daemon/broker/setup.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

/* An answer takes a millisecond, and a scan one. A rescan follows within five seconds. */
#define SOON (50 * NSEC_PER_MSEC)

static void
put(const char *queue)
{
	ck_assert(memory_world_put(world->memory, queue, false));
}

static void
take_away(const char *queue)
{
	ck_assert(memory_world_remove(world->memory, queue));
}

static void
ask(uint64_t peer, uint64_t request, enum lock_kind kind, int64_t timeout)
{
	struct lock_acquire wanted = {
	    .name = "db", .kind = kind, .timeout = timeout, .lease = true, .uid = 1000};

	lock_acquire(engine(0), peer, request, &wanted);
}

static const struct said *
take(uint64_t peer, uint64_t request, enum lock_kind kind, int64_t timeout)
{
	ask(peer, request, kind, timeout);
	return world_await(world, 0, peer, request);
}

static const struct said *
semaphore(uint64_t peer, uint64_t request, int64_t timeout)
{
	return take(peer, request, LOCK_KIND_SEMAPHORE, timeout);
}

static void
check_slotless(const struct said *answer)
{
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_ne(answer->lock, 0);
	ck_assert_int_eq(answer->slot, 0);
	ck_assert_int_eq(answer->safe_until, 0);
}

/* ---- the gate ---- */

START_TEST(at_a_gate_all_wait)
{
	const struct said *answer;

	put("db-G");
	answer = semaphore(1, 1, TRY);
	ck_assert_int_eq(answer->reason, REASON_WOULD_BLOCK);
	ck_assert_int_eq(answer->slots, 0);
	ck_assert_int_eq(answer->busy, 0);
	answer = take(1, 2, LOCK_KIND_PERSISTENT_MUTEX, TRY);
	ck_assert_int_eq(answer->reason, REASON_WOULD_BLOCK);
	ck_assert_int_eq(semaphore(1, 3, 7 * SECOND)->reason, REASON_TIMEOUT);
	ask(1, 4, LOCK_KIND_SEMAPHORE, DURATION_FOREVER);
	ask(1, 5, LOCK_KIND_PERSISTENT_MUTEX, DURATION_FOREVER);
	world_pass(world, 60 * SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 1, 4));
	/* It opens: slots first, then the marker goes. */
	world_make(world, "db", 2);
	world_pass(world, world_settings.rescan_interval + SECOND);
	ck_assert_int_eq(world_answer(world, 0, 1, 4)->reason, REASON_NONE);
	ck_assert_int_eq(world_b_count(world), 1 + (world_answer(world, 0, 1, 5) != NULL));
	take_away("db-G");
	ck_assert_int_eq(semaphore(2, 1, TRY)->slot, 2);
}
END_TEST

START_TEST(a_true_mutex_knows_no_gate)
{
	put("db-G");
	ck_assert_int_eq(take(1, 1, LOCK_KIND_MUTEX, TRY)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_slot_counts_more_than_a_gate)
{
	put("db-G");
	world_make(world, "db", 1);
	ck_assert_int_eq(semaphore(1, 1, TRY)->slot, 1);
	ck_assert_int_eq(semaphore(1, 2, TRY)->reason, REASON_WOULD_BLOCK);
}
END_TEST

START_TEST(a_gate_that_goes_leaves_no_such_lock)
{
	put("db-G");
	ask(1, 1, LOCK_KIND_SEMAPHORE, DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 1, 1));
	take_away("db-G");
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

/* ---- changes in the middle of a scan ---- */

struct change {
	const char *before[2], *made, *ended[2];
};

/* Each as an administrator does it: the new state is made before the old one ends. */
static const struct change changes[] = {
    {{"db-G"}, "db-1-A", {"db-G"}},
    {{"db-1-A"}, "db-G", {"db-1-A"}},
    {{"db-G"}, "db-U", {"db-G"}},
    {{"db-U"}, "db-G", {"db-U"}},
    {{"db-U"}, "db-1-A", {"db-U"}},
    {{"db-1-A"}, "db-U", {NULL}},
    {{"db-U", "db-1-A"}, "db-G", {"db-1-A", "db-U"}},
};
#define CHANGES ((int)(sizeof(changes) / sizeof(changes[0])))
static const struct change *change; /* the one that goes on */
static int probes;                  /* left before it does */

static void
change_between(struct lock_world *the_world)
{
	if (probes-- != 0)
		return;
	ck_assert(memory_world_put(the_world->memory, change->made, false));
	for (int i = 0; i < 2 && change->ended[i] != NULL; i++)
		ck_assert(memory_world_remove(the_world->memory, change->ended[i]));
}

static enum reason
try_it(void)
{
	return semaphore(1, 1, TRY)->reason;
}

static enum reason
ask_its_size(void)
{
	lock_size(engine(0), 1, 1, "db");
	return world_await(world, 0, 1, 1)->reason;
}

/* Asks while one change is made, after each number of probes in turn. */
static void check_never_missing(enum reason (*request)(void))
{
	bool changed = true;

	for (int after = 0; changed; after++) {
		enum reason reason;

		world_free(world);
		world_begin();
		for (int i = 0; i < 2 && change->before[i] != NULL; i++)
			put(change->before[i]);
		probes = after;
		world->on_probe = change_between;
		reason = request();
		ck_assert_msg(reason == REASON_NONE || reason == REASON_WOULD_BLOCK,
		    "%d after %d probes: %s", (int)(change - changes), after, reason_word(reason));
		changed = probes < 0;
		ck_assert_int_lt(after, 100);
	}
}

START_TEST(a_lock_that_is_changed_meanwhile_is_never_missing)
{
	change = &changes[_i];
	check_never_missing(try_it);
	check_never_missing(ask_its_size);
}
END_TEST

/* ---- unlimited ---- */

START_TEST(unlimited_takes_no_slot)
{
	struct lock_counts counts;

	put("db-U");
	world_make(world, "db", 1);
	check_slotless(semaphore(1, 1, TRY));
	check_slotless(semaphore(1, 2, DURATION_FOREVER));
	check_slotless(take(2, 1, LOCK_KIND_PERSISTENT_MUTEX, TRY));
	world_pass(world, SECOND);
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert_uint_eq(broker_watched(world->daemon[0].broker), 0);
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.holds, 3);
	ck_assert_uint_eq(counts.granted, 3);
}
END_TEST

START_TEST(a_waiter_is_granted_when_the_limit_is_gone)
{
	world_make(world, "db", 1);
	ck_assert_int_eq(semaphore(1, 1, TRY)->slot, 1);
	ask(2, 1, LOCK_KIND_SEMAPHORE, DURATION_FOREVER);
	ask(2, 2, LOCK_KIND_PERSISTENT_MUTEX, DURATION_FOREVER);
	world_pass(world, SECOND);
	put("db-U");
	check_slotless(world_await(world, 0, 2, 1));
	check_slotless(world_await(world, 0, 2, 2));
	/* Lowered again: its holders keep it, and no other client gets it so. */
	take_away("db-U");
	ck_assert_int_eq(semaphore(3, 1, TRY)->reason, REASON_WOULD_BLOCK);
	world_pass(world, 30 * SECOND);
	for (uint64_t peer = 1; peer <= 2; peer++)
		ck_assert_int_eq(world_notices(world, 0, peer, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(a_newcomer_gets_a_scan_though_it_was_unlimited_a_moment_ago)
{
	put("db-U");
	check_slotless(semaphore(1, 1, TRY));
	take_away("db-U");
	world_make(world, "db", 1);
	ck_assert_int_eq(semaphore(1, 2, TRY)->slot, 1);
}
END_TEST

START_TEST(without_a_slot_verify_and_release_ask_nobody)
{
	uint64_t lock;
	unsigned asked;

	put("db-U");
	lock = semaphore(1, 1, TRY)->lock;
	asked = world->asked;
	lock_verify(engine(0), 2, 1, lock, 1000);
	check_slotless(world_answer(world, 0, 2, 1));
	ck_assert_uint_eq(world_answer(world, 0, 2, 1)->lock, lock);
	lock_verify(engine(0), 2, 2, lock, 1001);
	ck_assert_int_eq(world_answer(world, 0, 2, 2)->reason, REASON_NOT_HELD);
	lock_release(engine(0), 2, 3, lock);
	ck_assert_int_eq(world_answer(world, 0, 2, 3)->reason, REASON_NOT_HELD);
	lock_release(engine(0), 1, 2, lock);
	ck_assert_int_eq(world_answer(world, 0, 1, 2)->reason, REASON_NONE);
	lock_verify(engine(0), 1, 3, lock, 1000);
	ck_assert_int_eq(world_answer(world, 0, 1, 3)->reason, REASON_NOT_HELD);
	ck_assert(lock_quiet(engine(0)));
	world_pass(world, SECOND);
	ck_assert_uint_eq(world->asked, asked);
}
END_TEST

/* Every notice of a lease, a loss or a suspicion is about what is on the broker. */
START_TEST(without_a_slot_the_links_do_not_matter)
{
	const enum lock_notice_kind never[] = {LOCK_NOTICE_LOST, LOCK_NOTICE_SUSPECT,
	    LOCK_NOTICE_RESTORED, LOCK_NOTICE_LEASE, LOCK_NOTICE_REVOKED};
	uint64_t lock;
	unsigned asked;

	put("db-U");
	lock = semaphore(1, 1, TRY)->lock;
	/* Nothing is asked for its sake ... */
	world_pass(world, SECOND);
	asked = world->asked;
	world_pass(world, 60 * SECOND);
	ck_assert_uint_eq(world->asked, asked);
	/* ... a link that dies, or goes silent, with nothing on it leaves nothing behind ... */
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, SECOND, "cut");
	ck_assert(!lock_is_recovering(engine(0)));
	world_pass(world, SOON);
	lock_verify(engine(0), 1, 2, lock, 1000);
	check_slotless(world_answer(world, 0, 1, 2));
	world_pass(world, 10 * SECOND);
	/* ... and the end of a lease is that of the others. */
	ck_assert_int_eq(take(2, 1, LOCK_KIND_MUTEX, TRY)->reason, REASON_NONE);
	world->silent = true;
	world_pass(world, 60 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 2, LOCK_NOTICE_LOST), 1);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		ck_assert_int_eq(world_notices(world, 0, 1, never[i]), 0);
	lock_release(engine(0), 1, 3, lock);
	ck_assert_int_eq(world_answer(world, 0, 1, 3)->reason, REASON_NONE);
}
END_TEST

START_TEST(without_a_slot_it_ends_with_its_client_and_with_the_daemon)
{
	struct lock_counts counts;

	put("db-U");
	check_slotless(semaphore(1, 1, TRY));
	check_slotless(semaphore(1, 2, TRY));
	lock_peer_gone(engine(0), 1);
	ck_assert(lock_quiet(engine(0)));
	check_slotless(semaphore(2, 1, TRY));
	lock_drain(engine(0));
	world_pass(world, SECOND);
	ck_assert(!lock_quiet(engine(0)));
	lock_abandon(engine(0));
	ck_assert_int_eq(world_notices(world, 0, 2, LOCK_NOTICE_LOST), 1);
	ck_assert(lock_quiet(engine(0)));
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.holds, 0);
	ck_assert_uint_eq(counts.released, 2);
	ck_assert_uint_eq(counts.lost, 1);
}
END_TEST

START_TEST(without_a_slot_it_counts_for_the_client_and_not_for_the_link)
{
	struct lock_settings settings = world_settings;

	put("db-U");
	for (uint64_t peer = 1; peer <= 150; peer++) /* the link has 100 channels */
		check_slotless(semaphore(peer, 1, TRY));
	ck_assert_int_eq(take(200, 1, LOCK_KIND_MUTEX, TRY)->reason, REASON_NONE);
	settings.max_locks_per_connection = 2;
	lock_engine_set(engine(0), &settings);
	for (uint64_t request = 1; request <= 3; request++)
		ask(201, request, LOCK_KIND_SEMAPHORE, TRY);
	check_slotless(world_await(world, 0, 201, 1));
	check_slotless(world_await(world, 0, 201, 2));
	ck_assert_int_eq(world_await(world, 0, 201, 3)->reason, REASON_TOO_MANY_LOCKS);
}
END_TEST

/* ---- amqp-locks-python: a mutex that is the administration mutex ---- */

static void
setup_python(void)
{
	world = world_new_named(&queue_naming_amqp_locks_python);
}

START_TEST(a_mutex_is_not_a_semaphore_s)
{
	static const char *const signs[] = {"db-A-1", "db-G", "db-U"};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		put(signs[i]);
		ck_assert_int_eq(
		    take(1, 1 + i, LOCK_KIND_MUTEX, TRY)->reason, REASON_ALREADY_EXISTS);
		ck_assert_int_eq(take(1, 11 + i, LOCK_KIND_MUTEX, DURATION_FOREVER)->reason,
		    REASON_ALREADY_EXISTS);
		take_away(signs[i]);
	}
	ck_assert_int_eq(take(1, 20, LOCK_KIND_MUTEX, TRY)->reason, REASON_NONE);
	ck_assert(memory_world_has(world->memory, "db", NULL));
	ck_assert_int_eq(take(2, 20, LOCK_KIND_MUTEX, TRY)->reason, REASON_WOULD_BLOCK);
}
END_TEST

START_TEST(a_mutex_that_was_seen_free_is_probed_again)
{
	uint64_t lock = take(1, 1, LOCK_KIND_MUTEX, TRY)->lock;

	lock_release(engine(0), 1, 2, lock);
	world_await(world, 0, 1, 2);
	put("db-A-1");
	ck_assert_int_eq(take(1, 3, LOCK_KIND_MUTEX, TRY)->reason, REASON_ALREADY_EXISTS);
}
END_TEST

START_TEST(a_waiter_for_a_mutex_that_becomes_a_semaphore_s_is_told)
{
	ck_assert_int_eq(take(1, 1, LOCK_KIND_MUTEX, TRY)->reason, REASON_NONE);
	ask(2, 1, LOCK_KIND_MUTEX, DURATION_FOREVER);
	world_pass(world, SECOND);
	put("db-A-1");
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_ALREADY_EXISTS);
}
END_TEST

START_TEST(such_a_mutex_is_not_claimed_unseen)
{
	memory_world_block(world->memory, true);
	ck_assert_int_eq(take(1, 1, LOCK_KIND_MUTEX, TRY)->reason, REASON_BROKER_BLOCKED);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 1, 1)->text, "semaphore"));
	ask(1, 2, LOCK_KIND_MUTEX, DURATION_FOREVER);
	world_pass(world, 30 * SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 1, 2));
	ck_assert(!memory_world_has(world->memory, "db", NULL));
	memory_world_block(world->memory, false);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
}
END_TEST

START_TEST(semaphores_are_as_elsewhere)
{
	put("db-A-1");
	ck_assert_int_eq(semaphore(1, 1, TRY)->slot, 1);
	ck_assert_int_eq(semaphore(1, 2, TRY)->reason, REASON_WOULD_BLOCK);
	put("db-U");
	check_slotless(semaphore(1, 3, TRY));
}
END_TEST

Suite *
suite_lock_markers(void)
{
	Suite *suite = suite_create("lock: markers");
	TCase *tc = tcase_create("markers"), *python = tcase_create("python");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, at_a_gate_all_wait);
	tcase_add_test(tc, a_true_mutex_knows_no_gate);
	tcase_add_test(tc, a_slot_counts_more_than_a_gate);
	tcase_add_test(tc, a_gate_that_goes_leaves_no_such_lock);
	tcase_add_loop_test(tc, a_lock_that_is_changed_meanwhile_is_never_missing, 0, CHANGES);
	tcase_add_test(tc, unlimited_takes_no_slot);
	tcase_add_test(tc, a_waiter_is_granted_when_the_limit_is_gone);
	tcase_add_test(tc, a_newcomer_gets_a_scan_though_it_was_unlimited_a_moment_ago);
	tcase_add_test(tc, without_a_slot_verify_and_release_ask_nobody);
	tcase_add_test(tc, without_a_slot_the_links_do_not_matter);
	tcase_add_test(tc, without_a_slot_it_ends_with_its_client_and_with_the_daemon);
	tcase_add_test(tc, without_a_slot_it_counts_for_the_client_and_not_for_the_link);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(python, setup_python, world_end);
	tcase_add_test(python, a_mutex_is_not_a_semaphore_s);
	tcase_add_test(python, a_mutex_that_was_seen_free_is_probed_again);
	tcase_add_test(python, a_waiter_for_a_mutex_that_becomes_a_semaphore_s_is_told);
	tcase_add_test(python, such_a_mutex_is_not_claimed_unseen);
	tcase_add_test(python, semaphores_are_as_elsewhere);
	suite_add_tcase(suite, python);
	return suite;
}
