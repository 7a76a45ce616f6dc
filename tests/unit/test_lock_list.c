/*
 * Scans of every semaphore, and of one as an acquire would find it, in virtual time over the server
 * in memory.
 */
#include "daemon/lock/engine.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static uint64_t last_request;

static void
setup(void)
{
	world_begin();
	last_request = 100;
}

static void
teardown(void)
{
	for (int i = 0; i < DAEMONS; i++)
		ck_assert_ptr_null(engine(i)->listings);
	world_end();
}

static void
put(const char *queue, bool exclusive)
{
	ck_assert(memory_world_put(world->memory, queue, exclusive));
}

static void
enter(const char *name)
{
	memory_world_publish(
	    world->memory, queue_name_directory(&queue_naming_amqp_locks).text, name);
}

static void
take(int daemon, const char *name, enum lock_kind kind, int64_t timeout)
{
	lock_acquire(engine(daemon), 2, ++last_request,
	    &(struct lock_acquire){.name = name, .kind = kind, .timeout = timeout});
	world_pass(world, SECOND);
}

static int counted_of_busy;

static void
note_counted(void *ctx, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	(void)ctx;
	(void)peer;
	(void)request;
	counted_of_busy = answer->counted;
}

static void
check_list(const char *rows)
{
	lock_list(engine(1), 1, ++last_request);
	ck_assert_int_eq(world_await(world, 1, 1, last_request)->reason, REASON_NONE);
	ck_assert_str_eq(world_answer(world, 1, 1, last_request)->detail, rows);
}

static void
check_explain(const char *name, enum lock_kind kind, const char *what)
{
	lock_explain(engine(0), 1, ++last_request, name, kind);
	ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_NONE);
	ck_assert_str_eq(world_answer(world, 0, 1, last_request)->detail, what);
}

/* As explain has it: verdict, slots/busy, of these here, waiting here, uncounted slots. */
static void
check_semaphore(const char *what)
{
	check_explain("db", LOCK_KIND_SEMAPHORE, what);
}

static void
release_all(void)
{
	lock_peer_gone(engine(0), 2);
	lock_peer_gone(engine(1), 2);
	world_pass(world, SECOND);
}

START_TEST(all_are_listed_with_their_size_and_holders)
{
	check_list("");
	enter("stage");
	enter("db");
	enter("free");
	enter("closed");
	enter("gone");
	enter("db"); /* twice, as after a link that died */
	world_make(world, "db", 3);
	world_make(world, "stage", 1);
	world_make(world, "free", 2);
	put("free-U", false);
	put("closed-G", false);
	put("db-2-B", true);
	put("db-4-B", true); /* of no slot that counts */
	take(0, "db", LOCK_KIND_SEMAPHORE, 0);
	check_list("closed=0/0 db=3/2 (+1) free=-2/0 gone=0/0- stage=1/0");
	release_all();
}
END_TEST

static void
check_busy(const char *slots, int counted)
{
	lock_busy(engine(1), 1, ++last_request, "db");
	world_await(world, 1, 1, last_request);
	ck_assert_str_eq(world_answer(world, 1, 1, last_request)->detail, slots);
	ck_assert_int_eq(counted_of_busy, counted);
}

/* The holders of slots that were removed. Of these a foreign program has one. */
START_TEST(a_gate_does_not_hide_its_holders)
{
	enter("db");
	world_make(world, "db", 3);
	world->daemon[1].also.answer = note_counted;
	take(0, "db", LOCK_KIND_SEMAPHORE, 0);
	put("db-40-B", true);
	check_list("db=3/1");
	check_busy("1", 3);
	/* Those that are too far above are seen by a request about one semaphore alone. */
	check_semaphore("free 3/1 here 1 waiting 0 uncounted 0 extra 1");
	put("db-9-B", true);
	check_list("db=3/1 (+1)");
	check_busy("1 9", 3);
	lock_resize(engine(0), 1, ++last_request,
	    &(struct lock_change){.name = "db", .slots = 0, .overshoot = 1});
	ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_NONE);
	check_list("db=0/0 (+2)");
	check_busy("1 9", 0);
	check_semaphore("gate 0/0 here 0 waiting 0 uncounted 0 extra 3");
	release_all();
	check_list("db=0/0 (+1)");
}
END_TEST

/* The first window of a list ends with the last slot, so that it asks once more. */
START_TEST(slots_just_above_the_first_window_are_asked_for)
{
	enter("db");
	world_make(world, "db", 31);
	put("db-33-B", true);
	check_list("db=31/0 (+1)");
}
END_TEST

/* A broker that does not answer for a slot that does not count leaves the rest known. */
START_TEST(an_unknown_answer_above_the_size_is_no_matter)
{
	enter("db");
	world_make(world, "db", 2);
	put("db-5-B", true);
	/* The mutex, the markers, A and B of three slots, A and B[4]. */
	world->daemon[1].also.answer = note_counted;
	world->nacks = 1 + 2 + 2 * 3 + 2;
	check_busy("5", 2);
}
END_TEST

/* More than are scanned at once, some with more slots than one flush shows. */
START_TEST(hundreds_are_listed_in_order)
{
	char name[16];
	int before;

	for (int i = 299; i >= 0; i--) {
		snprintf(name, sizeof(name), "s%03d", i);
		enter(name);
		world_make(world, name, i % 100);
	}
	lock_list(engine(0), 1, 1);
	before = (int)world->asked;
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_gt((int)world->asked, before);
	ck_assert_uint_eq(world_answer(world, 0, 1, 1)->rows, 300);
	ck_assert_int_eq(
	    strncmp(world_answer(world, 0, 1, 1)->detail, "s000=0/0- s001=1/0 s002=2/0", 27), 0);
}
END_TEST

START_TEST(a_nacked_probe_leaves_the_size_unknown)
{
	enter("a");
	enter("b");
	enter("c");
	world_make(world, "a", 1);
	world_make(world, "b", 1);
	world_make(world, "c", 1);
	world->nacks = 66 + 3; /* behind two markers: the first slot of the second */
	check_list("a=1/0 b=-1/-1 c=1/0");
}
END_TEST

START_TEST(a_list_that_takes_too_long_is_given_up)
{
	enter("a");
	memory_world_put(
	    world->memory, queue_name_directory_mutex(&queue_naming_amqp_locks).text, true);
	lock_list(engine(0), 1, 1);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_TIMEOUT);
	memory_world_remove(
	    world->memory, queue_name_directory_mutex(&queue_naming_amqp_locks).text);
	/* In the middle of its rows. */
	lock_list(engine(0), 1, 2);
	while (engine(0)->full_scans == NULL)
		ck_assert(world_step(world, SECOND));
	world->silent = true;
	lock_list(engine(0), 1, 3);
	ck_assert_int_ne(world_await(world, 0, 1, 3)->reason, REASON_NONE);
	world_await(world, 0, 1, 2);
	world->silent = false;
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	world_pass(world, 20 * SECOND);
	check_list("a=0/0-");
}
END_TEST

START_TEST(without_the_broker_nothing_is_probed)
{
	world_make(world, "db", 1);
	check_semaphore("free 1/0 here 0 waiting 0 uncounted 0");
	world_alarm(world);
	lock_list(engine(0), 1, 1);
	ck_assert_int_eq(world_answer(world, 0, 1, 1)->reason, REASON_BROKER_BLOCKED);
	lock_explain(engine(0), 1, 2, "db", LOCK_KIND_SEMAPHORE);
	ck_assert_int_eq(world_answer(world, 0, 1, 2)->reason, REASON_BROKER_BLOCKED);
	memory_world_block(world->memory, false);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "gone fishing");
	lock_list(engine(0), 1, 3);
	ck_assert_str_eq(world_answer(world, 0, 1, 3)->text, "gone fishing");
	lock_explain(engine(0), 1, 4, "db", LOCK_KIND_MUTEX);
	ck_assert_int_eq(world_answer(world, 0, 1, 4)->reason, REASON_BROKER_UNAVAILABLE);
}
END_TEST

START_TEST(the_link_dies_at_every_step)
{
	enter("a");
	enter("b");
	world_make(world, "a", 2);
	for (int steps = 0; steps < 20; steps++) {
		lock_list(engine(0), 1, 1);
		lock_explain(engine(0), 1, 2, "a", LOCK_KIND_SEMAPHORE);
		lock_explain(engine(0), 1, 3, "a", LOCK_KIND_MUTEX);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
		for (uint64_t request = 1; request <= 3; request++)
			world_await(world, 0, 1, request);
		world->said_count = 0;
		world_pass(world, 20 * SECOND);
	}
}
END_TEST

START_TEST(why_an_acquire_would_not_succeed)
{
	check_semaphore("no-such-lock 0/0 here 0 waiting 0 uncounted 0");
	put("db-G", false);
	check_semaphore("gate 0/0 here 0 waiting 0 uncounted 0");
	world_make(world, "db", 2);
	take(0, "db", LOCK_KIND_SEMAPHORE, 0);
	check_semaphore("free 2/1 here 1 waiting 0 uncounted 0");
	take(1, "db", LOCK_KIND_SEMAPHORE, 0);
	take(0, "db", LOCK_KIND_SEMAPHORE, DURATION_FOREVER);
	check_semaphore("full 2/2 here 1 waiting 1 uncounted 0");
	put("db-4-A", false);
	put("db-10000-A", false);
	check_semaphore("full 2/2 here 1 waiting 1 uncounted 2");
	put("db-U", false);
	check_semaphore("unlimited -2/2 here 1 waiting 1 uncounted 2");
	release_all();
}
END_TEST

START_TEST(a_persistent_mutex_is_slot_one_alone)
{
	world_make(world, "db", 3);
	put("db-2-B", true);
	check_explain("db", LOCK_KIND_PERSISTENT_MUTEX, "free 1/0 here 0 waiting 0 uncounted 0");
	put("db-1-B", true);
	check_explain("db", LOCK_KIND_PERSISTENT_MUTEX, "full 1/1 here 0 waiting 0 uncounted 0");
	check_explain(
	    "else", LOCK_KIND_PERSISTENT_MUTEX, "no-such-lock 0/0 here 0 waiting 0 uncounted 0");
}
END_TEST

START_TEST(a_true_mutex_is_one_queue)
{
	world_make(world, "db", 3);
	check_explain("db", LOCK_KIND_MUTEX, "free 1/0 here 0 waiting 0 uncounted 0");
	take(0, "db", LOCK_KIND_MUTEX, 0);
	take(0, "db", LOCK_KIND_MUTEX, DURATION_FOREVER);
	check_explain("db", LOCK_KIND_MUTEX, "full 1/1 here 1 waiting 1 uncounted 0");
	release_all();
	put("db-M", true);
	check_explain("db", LOCK_KIND_MUTEX, "full 1/1 here 0 waiting 0 uncounted 0");
	check_semaphore("free 3/0 here 0 waiting 0 uncounted 0");
}
END_TEST

/* As an acquire finds it: amqp-locks-python has one queue for both. */
START_TEST(a_mutex_is_not_a_semaphore_s)
{
	world_free(world);
	world = world_new_named(&queue_naming_amqp_locks_python);
	check_explain("db", LOCK_KIND_MUTEX, "free 1/0 here 0 waiting 0 uncounted 0");
	put("db-G", false);
	check_explain("db", LOCK_KIND_MUTEX, "already-exists 0/0 here 0 waiting 0 uncounted 0");
	ck_assert(memory_world_remove(world->memory, "db-G"));
	put("db-A-1", false);
	check_explain("db", LOCK_KIND_MUTEX, "already-exists 0/0 here 0 waiting 0 uncounted 0");
	check_explain("db", LOCK_KIND_SEMAPHORE, "free 1/0 here 0 waiting 0 uncounted 0");
	world->nacks = 3;
	check_explain("db", LOCK_KIND_MUTEX, "unknown -1/-1 here 0 waiting 0 uncounted -1");
	ck_assert(memory_world_remove(world->memory, "db-A-1"));
	take(0, "db", LOCK_KIND_MUTEX, 0);
	check_explain("db", LOCK_KIND_MUTEX, "full 1/1 here 1 waiting 0 uncounted 0");
	release_all();
}
END_TEST

START_TEST(an_unknown_answer_is_said)
{
	world_make(world, "db", 2);
	world->nacks = 2 + 3; /* A[2] */
	check_semaphore("unknown -1/-1 here 0 waiting 0 uncounted -1");
	world->silent = true;
	check_explain("db", LOCK_KIND_MUTEX, "unknown 1/-1 here 0 waiting 0 uncounted 0");
	world->silent = false;
}
END_TEST

/* ---- scans: requests about all slots ---- */

static void
ask(uint64_t peer, uint64_t request)
{
	lock_explain(engine(0), peer, request, "db", LOCK_KIND_SEMAPHORE);
}

START_TEST(nobody_waits_for_more_than_two_scans)
{
	unsigned before;

	world_make(world, "db", 2);
	world_make(world, "other", 1);
	world->delay = SECOND / 100;
	for (uint64_t peer = 1; peer <= 10; peer++)
		ask(peer, 1);
	world_acquire(world, 0, 50, 1, "other", DURATION_FOREVER);
	before = world->asked;
	ck_assert_int_eq(world_await(world, 0, 50, 1)->reason, REASON_NONE);
	/* Its own questions, and until they are answered windows of two. */
	ck_assert_uint_lt(world->asked - before, 16);
	ck_assert_ptr_null(world_answer(world, 0, 1, 1));
	for (uint64_t peer = 1; peer <= 10; peer++)
		ck_assert_int_eq(world_await(world, 0, peer, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_client_with_many_scans_leaves_room_for_others)
{
	world_make(world, "db", 2);
	world->delay = SECOND / 1000;
	for (uint64_t request = 1; request <= 10; request++)
		ask(1, request);
	ask(2, 1);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	ck_assert_ptr_null(world_answer(world, 0, 1, 2));
	for (uint64_t request = 1; request <= 10; request++)
		ck_assert_int_eq(world_await(world, 0, 1, request)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_scan_has_its_time_from_its_turn_on)
{
	int64_t began = world->now;

	world_make(world, "db", 2);
	world->delay = SECOND / 4; /* of its 22 windows */
	for (uint64_t request = 1; request <= 3; request++)
		ask(1, request);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	/* A request whose turn does not come in time is refused, and the next one gets the turn. */
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_int_eq(world->now - began, world_settings.request_timeout);
	ask(1, 4);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	ck_assert_int_gt(world->now - began, world_settings.request_timeout);
	ck_assert_int_eq(world_await(world, 0, 1, 4)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_client_that_left_needs_no_turn)
{
	world_make(world, "db", 2);
	for (uint64_t request = 1; request <= 10; request++)
		ask(1, request);
	for (uint64_t request = 11; request <= 20; request++)
		lock_fsck(engine(0), 1, request,
		    &(struct lock_check){.name = "db", .repair = request % 2 == 0});
	lock_fsck(engine(0), 1, 21, &(struct lock_check){.name = "else", .repair = false});
	world_pass(world, 0);
	ask(2, 1);
	lock_peer_gone(engine(0), 1);
	lock_peer_left(engine(0), 1);
	ck_assert_ptr_null(world_answer(world, 0, 1, 1));
	for (uint64_t request = 2; request <= 10; request++)
		ck_assert_ptr_nonnull(world_answer(world, 0, 1, request));
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	world_pass(world, 20 * SECOND);
	ck_assert(lock_quiet(engine(0)));
	ck_assert_int_eq(world_answer(world, 0, 1, 1)->reason, REASON_NONE);
	for (uint64_t request = 1; request <= 21; request++)
		ck_assert_ptr_nonnull(world_answer(world, 0, 1, request));
}
END_TEST

START_TEST(an_engine_goes_in_the_middle_of_scans)
{
	for (uint64_t request = 1; request <= 4; request++)
		ask(1, request);
	lock_fsck(engine(0), 2, 1, &(struct lock_check){.name = "db", .repair = false});
	for (int i = 0; i < 5; i++)
		world_step(world, SECOND);
	world_kill(world, 0);
}
END_TEST

Suite *
suite_lock_list(void)
{
	Suite *suite = suite_create("lock: list and explain");
	TCase *tc = tcase_create("list");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, all_are_listed_with_their_size_and_holders);
	tcase_add_test(tc, a_gate_does_not_hide_its_holders);
	tcase_add_test(tc, slots_just_above_the_first_window_are_asked_for);
	tcase_add_test(tc, an_unknown_answer_above_the_size_is_no_matter);
	tcase_add_test(tc, hundreds_are_listed_in_order);
	tcase_add_test(tc, a_nacked_probe_leaves_the_size_unknown);
	tcase_add_test(tc, a_list_that_takes_too_long_is_given_up);
	tcase_add_test(tc, without_the_broker_nothing_is_probed);
	tcase_add_test(tc, the_link_dies_at_every_step);
	tcase_add_test(tc, why_an_acquire_would_not_succeed);
	tcase_add_test(tc, a_persistent_mutex_is_slot_one_alone);
	tcase_add_test(tc, a_true_mutex_is_one_queue);
	tcase_add_test(tc, a_mutex_is_not_a_semaphore_s);
	tcase_add_test(tc, an_unknown_answer_is_said);
	suite_add_tcase(suite, tc);
	tc = tcase_create("scans");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, nobody_waits_for_more_than_two_scans);
	tcase_add_test(tc, a_client_with_many_scans_leaves_room_for_others);
	tcase_add_test(tc, a_scan_has_its_time_from_its_turn_on);
	tcase_add_test(tc, a_client_that_left_needs_no_turn);
	tcase_add_test(tc, an_engine_goes_in_the_middle_of_scans);
	suite_add_tcase(suite, tc);
	return suite;
}
