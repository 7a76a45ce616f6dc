/*
 * The problems of a semaphore and their repair, over the server in memory.
 */
#include "daemon/lock/engine.h"
#include "daemon/lock/fsck.h"
#include "protocol/methods.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static uint64_t last_request;

/* A small maximum of slots, as the tests scan all of them many times. */
static void
setup(void)
{
	struct lock_settings settings = world_settings;

	world_begin();
	settings.slots_most = 40;
	for (int i = 0; i < DAEMONS; i++)
		lock_engine_set(engine(i), &settings);
	last_request = 100;
}

static void
setup_whole(void)
{
	world_begin();
	last_request = 100;
}

static void
teardown(void)
{
	for (int i = 0; i < DAEMONS; i++) {
		ck_assert_ptr_null(engine(i)->fscks);
		ck_assert(lock_quiet(engine(i)));
	}
	world_end();
}

/* A[slot] or B[slot], by `part`. Slot 0: the marker G or U. */
static const char *
queue(char part, int slot)
{
	static char text[64];

	if (slot > 0)
		snprintf(text, sizeof(text), "db-%d-%c", slot, part);
	else
		snprintf(text, sizeof(text), "db-%c", part);
	return text;
}

static void
put(char part, int slot)
{
	ck_assert(memory_world_put(world->memory, queue(part, slot), false));
}

static void
put_b(int slot)
{
	ck_assert(memory_world_put(world->memory, queue('B', slot), true));
}

static void
take_away(char part, int slot)
{
	ck_assert(memory_world_remove(world->memory, queue(part, slot)));
}

static bool
has(char part, int slot)
{
	return memory_world_has(world->memory, queue(part, slot), NULL);
}

static void
enter(const char *name)
{
	memory_world_publish(
	    world->memory, queue_name_directory(&queue_naming_amqp_locks).text, name);
}

/* A semaphore that nothing is wrong with. */
static void
make(int slots)
{
	world_make(world, "db", slots);
	enter("db");
}

static void
ask(uint64_t request, bool repair)
{
	lock_fsck(engine(0), 1, request, &(struct lock_check){.name = "db", .repair = repair});
}

static const struct said *
run(bool repair)
{
	ask(++last_request, repair);
	return world_await(world, 0, 1, last_request);
}

static void
check_run(bool repair, const char *findings)
{
	const struct said *answer = run(repair);

	ck_assert_msg(answer->reason == REASON_NONE, "%s", answer->text);
	ck_assert_str_eq(answer->detail, findings);
}

static int
size(void)
{
	lock_size(engine(1), 1, ++last_request, "db");
	return world_await(world, 1, 1, last_request)->slots;
}

/* Everything there is, in one sum: whether anything was changed. */
static void
add_queue(void *ctx, const char *name, const struct broker *owner)
{
	unsigned long sum = owner != NULL;

	for (; *name != '\0'; name++)
		sum = 31 * sum + (unsigned char)*name;
	*(unsigned long *)ctx += sum;
}

static unsigned long
sum_of_all(void)
{
	unsigned long sum = 0;

	memory_world_each(world->memory, add_queue, &sum);
	return sum;
}

START_TEST(a_sound_semaphore_is_clean)
{
	make(3);
	check_run(false, "");
	check_run(true, "");
	ck_assert_int_eq(size(), 3);
	/* Holders and waiters are nothing wrong. */
	world_acquire(world, 0, 2, 1, "db", 0);
	world_await(world, 0, 2, 1);
	check_run(true, "");
	lock_peer_gone(engine(0), 2);
	world_pass(world, SECOND);
}
END_TEST

START_TEST(a_missing_semaphore_is_refused_but_a_gate_is_not)
{
	ck_assert_int_eq(run(true)->reason, REASON_NO_SUCH_LOCK);
	put('G', 0);
	enter("db");
	ck_assert_int_eq(run(true)->reason, REASON_NONE);
	ck_assert_int_eq(world_answer(world, 0, 1, last_request)->slots, 0);
}
END_TEST

START_TEST(gaps_and_uncounted_slots)
{
	make(10);
	take_away('A', 4);
	take_away('A', 6);
	take_away('A', 7);
	put('A', METHODS_SLOTS_MAX);
	check_run(false,
	    "gap:4 uncounted:5 gap:6 uncounted:8 uncounted:9 uncounted:10 gap:11 uncounted:10000");
	check_run(true, "gap:4! uncounted:5! gap:6! uncounted:8! uncounted:9! uncounted:10! "
			"gap:11! uncounted:10000!");
	ck_assert_int_eq(size(), 3);
	ck_assert(!has('A', 8));
	check_run(false, "");
}
END_TEST

START_TEST(uncounted_slots_alone)
{
	put('A', 2);
	check_run(false, "gap:1 uncounted:2");
	check_run(true, "gap:1! uncounted:2!");
	ck_assert_int_eq(run(false)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

START_TEST(a_holder_of_no_slot_has_to_leave)
{
	make(2);
	put_b(1);
	put_b(5);
	check_run(true, "orphan:5");
	ck_assert(has('B', 5));
	take_away('B', 5);
	check_run(false, "");
}
END_TEST

START_TEST(slots_declared_otherwise_are_used_as_they_are)
{
	make(1);
	for (int slot = 2; slot <= 40; slot++) {
		if (slot % 10 == 0)
			ck_assert(memory_world_put_otherwise(world->memory, queue('A', slot)));
		else
			put('A', slot);
	}
	check_run(false, "arguments:10 arguments:20 arguments:30 arguments:40");
	check_run(true, "arguments:10 arguments:20 arguments:30 arguments:40");
	ck_assert_int_eq(size(), 40);
}
END_TEST

START_TEST(a_slot_that_is_some_connections_own_is_seen)
{
	make(1);
	ck_assert(memory_world_put(world->memory, "db-2-A", true));
	ck_assert(memory_world_put(world->memory, "db-4-A", true));
	put('A', 5);
	check_run(false, "arguments:2 gap:3 uncounted:4 arguments:4 uncounted:5");
	check_run(true, "arguments:2 gap:3 uncounted:4 arguments:4 uncounted:5!");
}
END_TEST

START_TEST(transient_slots_are_made_anew)
{
	make(1);
	ck_assert(memory_world_put_transient(world->memory, "db-2-A"));
	ck_assert(memory_world_put_transient(world->memory, "db-3-A"));
	put('A', 4);
	put_b(3);
	put_b(4);
	check_run(false, "transient:2 transient:3");
	check_run(true, "transient:2! transient:3"); /* that one is held */
	ck_assert_int_eq(size(), 4);
	take_away('B', 3);
	check_run(true, "transient:3!");
	check_run(false, "");
	memory_world_restart(world->memory);
	ck_assert(has('A', 2) && has('A', 3));
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, 0, "restarted");
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "restarted");
}
END_TEST

START_TEST(markers_that_contradict)
{
	make(2);
	put('G', 0);
	check_run(false, "markers:0");
	check_run(true, "markers:0!");
	check_run(false, "");
	ck_assert_int_eq(size(), 2);
	put('U', 0);
	check_run(false, "");
	put('G', 0);
	check_run(true, "markers:0!");
	check_run(false, "");
	ck_assert_int_eq(size(), LOCK_UNLIMITED);
}
END_TEST

START_TEST(the_directory_is_put_right)
{
	world_make(world, "db", 2);
	enter("other");
	check_run(false, "not-listed:0");
	check_run(true, "not-listed:0!");
	check_run(false, "");
	take_away('A', 2);
	take_away('A', 1);
	check_run(false, "listed-missing:0");
	check_run(true, "listed-missing:0!");
	ck_assert_int_eq(run(false)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

/* One of everything. */
static void
wreck(void)
{
	world_make(world, "db", 5);
	take_away('A', 4);
	take_away('A', 2);
	ck_assert(memory_world_put_transient(world->memory, "db-2-A"));
	put_b(7);
	put('G', 0);
}

static const char wrecked[] = "markers:0 not-listed:0 transient:2 gap:4 uncounted:5 orphan:7";

START_TEST(without_repair_nothing_is_changed)
{
	unsigned long before;

	wreck();
	before = sum_of_all();
	check_run(false, wrecked);
	world_pass(world, SECOND);
	ck_assert_uint_eq(sum_of_all(), before);
}
END_TEST

START_TEST(all_at_once_is_repaired)
{
	wreck();
	check_run(true, "markers:0! not-listed:0! transient:2! gap:4! uncounted:5! orphan:7");
	check_run(false, "orphan:7");
	ck_assert_int_eq(size(), 3);
}
END_TEST

/* Whatever was begun: the next repair ends with a clean one. */
START_TEST(a_link_that_dies_at_any_step_leaves_what_can_be_repaired)
{
	bool done = false;

	for (int steps = 0; !done; steps++) {
		wreck();
		ask(++last_request, true);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		done = world_answer(world, 0, 1, last_request) != NULL;
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
		world_await(world, 0, 1, last_request);
		world_pass(world, 20 * SECOND);
		ck_assert(lock_quiet(engine(0)));
		ck_assert(!memory_world_has(world->memory, "db", NULL));
		ck_assert_int_eq(run(true)->reason, REASON_NONE);
		check_run(false, "orphan:7");
		take_away('B', 7);
		lock_destroy(engine(0), 1, ++last_request, &(struct lock_change){.name = "db"});
		ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_NONE);
		world->said_count = 0;
		ck_assert_int_lt(steps, 500);
	}
}
END_TEST

START_TEST(the_channel_dies_at_any_step)
{
	const struct said *answer;
	bool done = false;

	for (int steps = 0; !done; steps++) {
		wreck();
		ask(++last_request, true);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		done = world_answer(world, 0, 1, last_request) != NULL;
		world_close_channels(world, 0, BROKER_AUXILIARY);
		answer = world_await(world, 0, 1, last_request);
		/* The directory has a channel of its own. */
		ck_assert(answer->reason == REASON_NONE || strstr(answer->text, "directory"));
		world_pass(world, SECOND);
		ck_assert_int_eq(run(true)->reason, REASON_NONE);
		check_run(false, "orphan:7");
		take_away('B', 7);
		lock_destroy(engine(0), 1, ++last_request, &(struct lock_change){.name = "db"});
		ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_NONE);
		world->said_count = 0;
		ck_assert_int_lt(steps, 500);
	}
}
END_TEST

START_TEST(the_admin_mutex_keeps_others_out)
{
	make(2);
	/* Of the same daemon, which could declare the queue again. */
	for (uint64_t i = 0; i < 3; i++)
		lock_fsck(engine(0), 2 + i, 1, &(struct lock_check){.name = "db", .repair = true});
	lock_resize(engine(0), 9, 1, &(struct lock_change){.name = "db", .slots = 5});
	for (uint64_t i = 0; i < 3; i++) {
		ck_assert_int_eq(world_await(world, 0, 2 + i, 1)->reason, REASON_NONE);
		ck_assert_int_eq(world_answer(world, 0, 2 + i, 1)->slots, 2);
	}
	ck_assert_int_eq(world_await(world, 0, 9, 1)->reason, REASON_NONE);
	/* Of another. */
	memory_world_put(world->memory, "db", true);
	ck_assert_int_eq(run(false)->reason, REASON_TIMEOUT);
	memory_world_remove(world->memory, "db");
	check_run(false, "");
}
END_TEST

/* In the order of a connection's requests, whatever they are. */
START_TEST(it_keeps_its_place_among_the_requests_of_its_peer)
{
	put('A', 2);
	ask(1, true); /* takes the uncounted slot away */
	lock_create(engine(0), 1, 2, &(struct lock_change){.name = "db", .slots = 2});
	ask(3, false);
	lock_size(engine(0), 1, 4, "db");
	take_away('A', 2);
	lock_resize(engine(0), 1, 5, &(struct lock_change){.name = "db", .slots = 3});
	ask(6, false);
	world_acquire(world, 0, 1, 7, "db", 0);
	world_await(world, 0, 1, 7);
	for (uint64_t request = 1; request < 7; request++) {
		ck_assert_ptr_nonnull(world_answer(world, 0, 1, request));
		ck_assert_ptr_nonnull(world_answer(world, 0, 1, request + 1));
		ck_assert(
		    world_answer(world, 0, 1, request) < world_answer(world, 0, 1, request + 1));
	}
	ck_assert_int_eq(world_answer(world, 0, 1, 4)->slots, 2);
	lock_peer_gone(engine(0), 1);
	world_pass(world, SECOND);
}
END_TEST

START_TEST(an_unknown_answer_changes_nothing)
{
	unsigned long before;

	wreck();
	world_pass(world, SECOND);
	before = sum_of_all();
	world->nacks = 1;
	ck_assert_int_eq(run(true)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(
	    strstr(world_answer(world, 0, 1, last_request)->text, "markers exist; nothing was"));
	world->nacks = 1 + 2 + 2; /* markers, slot 1 */
	ck_assert_int_eq(run(true)->reason, REASON_BROKER_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 1, last_request)->text,
	    "slot 2 exists, or is held; nothing was"));
	world_pass(world, SECOND);
	ck_assert_uint_eq(sum_of_all(), before);
}
END_TEST

static void
release_before_b(const struct memory_performed *what)
{
	const amqp_queue_declare_t *declare = what->fields;

	if (what->method == AMQP_QUEUE_DECLARE_METHOD && !declare->passive &&
	    strcmp(what->queue, "db-1-A") == 0)
		(void)memory_world_remove(world->memory, "db-1-B");
}

/* The slot was held by queue during the scan. Its B must not come back as a durable queue. */
START_TEST(a_holder_may_leave_after_the_scan)
{
	make(1);
	put_b(1);
	world->on_performed = release_before_b;
	ask(++last_request, true);
	ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_NONE);
	world->on_performed = NULL;
	ck_assert(!has('B', 1));
}
END_TEST

/* The lock connection may come back to a node of another version. */
START_TEST(the_server_may_change_during_a_scan)
{
	make(2);
	memory_world_set_hides_queues(world->memory, true);
	world->delay = SECOND / 10;
	ask(++last_request, false);
	while (engine(0)->works == NULL)
		ck_assert(world_step(world, SECOND));
	world_pass(world, 0);
	memory_world_set_hides_queues(world->memory, false);
	ck_assert_str_eq(world_await(world, 0, 1, last_request)->text, "");
	ck_assert_str_eq(now(0, 1, last_request)->detail, "");
}
END_TEST

START_TEST(a_refusal_of_the_broker_is_reported)
{
	make(2);
	world->refuses = true;
	ck_assert_int_eq(run(true)->reason, REASON_BROKER_REFUSED);
	world->refuses = false;
	check_run(true, "");
}
END_TEST

/* It stops in the middle, and leaves nothing in flight behind its mutex. */
START_TEST(it_stops_after_a_late_answer)
{
	bool done = false;

	for (int steps = 0; !done; steps++) {
		wreck();
		ask(++last_request, true);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		done = world_answer(world, 0, 1, last_request) != NULL;
		world->delay = 3 * world_settings.request_timeout;
		world_await(world, 0, 1, last_request);
		world->delay = NSEC_PER_MSEC;
		world_pass(world, 10 * world_settings.request_timeout);
		ck_assert(lock_quiet(engine(0)));
		ck_assert(!memory_world_has(world->memory, "db", NULL));
		ck_assert_int_eq(run(true)->reason, REASON_NONE);
		check_run(false, "orphan:7");
		take_away('B', 7);
		lock_destroy(engine(0), 1, ++last_request, &(struct lock_change){.name = "db"});
		ck_assert_int_eq(world_await(world, 0, 1, last_request)->reason, REASON_NONE);
		world->said_count = 0;
		ck_assert_int_lt(steps, 500);
	}
}
END_TEST

START_TEST(an_alarm_is_answered_at_once)
{
	make(2);
	check_run(false, "");
	world_alarm(world);
	ask(1, false);
	ck_assert_int_eq(world_answer(world, 0, 1, 1)->reason, REASON_BROKER_BLOCKED);
	memory_world_block(world->memory, false);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "gone fishing");
	ask(2, false);
	ck_assert_str_eq(world_answer(world, 0, 1, 2)->text, "gone fishing");
}
END_TEST

START_TEST(every_slot_may_be_a_finding)
{
	for (int slot = 2; slot <= METHODS_SLOTS_MAX; slot++)
		put('A', slot);
	ck_assert_int_eq(run(false)->reason, REASON_NONE);
	ck_assert_uint_eq(world_answer(world, 0, 1, last_request)->findings, METHODS_SLOTS_MAX);
	ck_assert_int_eq(run(true)->reason, REASON_NONE);
	ck_assert_int_eq(run(true)->reason, REASON_NO_SUCH_LOCK);
}
END_TEST

START_TEST(the_repair_is_completed_though_its_client_disconnects)
{
	wreck();
	ask(1, true);
	lock_peer_gone(engine(0), 1);
	world_await(world, 0, 1, 1);
	check_run(false, "orphan:7");
}
END_TEST

Suite *
suite_lock_fsck(void)
{
	Suite *suite = suite_create("lock: fsck");
	TCase *tc = tcase_create("fsck"), *whole = tcase_create("of 10,000 slots");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_sound_semaphore_is_clean);
	tcase_add_test(tc, a_missing_semaphore_is_refused_but_a_gate_is_not);
	tcase_add_test(tc, uncounted_slots_alone);
	tcase_add_test(tc, a_holder_of_no_slot_has_to_leave);
	tcase_add_test(tc, slots_declared_otherwise_are_used_as_they_are);
	tcase_add_test(tc, a_slot_that_is_some_connections_own_is_seen);
	tcase_add_test(tc, transient_slots_are_made_anew);
	tcase_add_test(tc, markers_that_contradict);
	tcase_add_test(tc, the_directory_is_put_right);
	tcase_add_test(tc, without_repair_nothing_is_changed);
	tcase_add_test(tc, all_at_once_is_repaired);
	tcase_add_test(tc, a_link_that_dies_at_any_step_leaves_what_can_be_repaired);
	tcase_add_test(tc, the_channel_dies_at_any_step);
	tcase_add_test(tc, the_admin_mutex_keeps_others_out);
	tcase_add_test(tc, it_keeps_its_place_among_the_requests_of_its_peer);
	tcase_add_test(tc, an_unknown_answer_changes_nothing);
	tcase_add_test(tc, a_holder_may_leave_after_the_scan);
	tcase_add_test(tc, the_server_may_change_during_a_scan);
	tcase_add_test(tc, a_refusal_of_the_broker_is_reported);
	tcase_add_test(tc, it_stops_after_a_late_answer);
	tcase_add_test(tc, an_alarm_is_answered_at_once);
	tcase_add_test(tc, the_repair_is_completed_though_its_client_disconnects);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(whole, setup_whole, teardown);
	tcase_add_test(whole, gaps_and_uncounted_slots);
	tcase_add_test(whole, every_slot_may_be_a_finding);
	suite_add_tcase(suite, whole);
	return suite;
}
