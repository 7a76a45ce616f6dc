/*
 * Waiting on lock holders, and for a slot to be free or busy, over the server in memory.
 */
#include "daemon/lock/holders.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define FOREVER DURATION_FOREVER

static void
teardown(void)
{
	for (int i = 0; i < DAEMONS; i++) {
		ck_assert_ptr_null(engine(i)->holder_waits);
		ck_assert_ptr_null(engine(i)->awaited);
	}
	world_end();
}

static void
put_b(int slot)
{
	char queue[32];

	snprintf(queue, sizeof(queue), "db-%d-B", slot);
	ck_assert(memory_world_put(world->memory, queue, true));
}

static void
remove_b(int slot)
{
	char queue[32];

	snprintf(queue, sizeof(queue), "db-%d-B", slot);
	ck_assert(memory_world_remove(world->memory, queue));
}

static void
await(int daemon, uint64_t peer, uint64_t request, int slot, bool busy, int64_t timeout)
{
	lock_await(engine(daemon), peer, request,
	    &(struct lock_await){.name = "db", .slot = slot, .busy = busy, .timeout = timeout});
}

/* Slots first to last were removed. The answer is that of a resize to 1. */
static void
holder_wait(uint64_t peer, uint64_t request, int first, int last, int64_t timeout)
{
	struct lock_answer answer = engine_refusal(REASON_NONE, NULL);

	answer.slots = 1;
	answer.target = 1;
	holder_wait_start(engine(0), &(struct holder_wait_order){.peer = peer,
					 .request = request,
					 .name = "db",
					 .first = first,
					 .last = last,
					 .timeout = timeout,
					 .progress = true,
					 .answer = &answer});
}

static const struct said *
answer(uint64_t peer, uint64_t request)
{
	return world_answer(world, 0, peer, request);
}

static void
check_reason(uint64_t peer, uint64_t request, enum reason reason)
{
	ck_assert_ptr_nonnull(answer(peer, request));
	ck_assert_int_eq(answer(peer, request)->reason, reason);
}

/* The holders left in the last notice to the client. */
static const char *
told(uint64_t peer)
{
	for (size_t i = world->said_count; i-- > 0;) {
		if (world->said[i].notice && world->said[i].peer == peer &&
		    world->said[i].kind == LOCK_NOTICE_HOLDERS)
			return world->said[i].detail;
	}
	return "";
}

START_TEST(slots_that_nobody_holds_are_gone_at_once)
{
	int64_t began = world->now;

	holder_wait(1, 1, 2, 5, FOREVER);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_eq(answer(1, 1)->slots, 1);
	ck_assert_int_lt(world->now - began, 50 * MS);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_HOLDERS), 0);
}
END_TEST

START_TEST(holders_are_waited_for_and_told_of)
{
	put_b(2);
	put_b(4);
	holder_wait(1, 1, 2, 5, FOREVER);
	world_pass(world, 5 * SECOND);
	ck_assert_ptr_null(answer(1, 1));
	ck_assert_str_eq(told(1), "2 4");
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_HOLDERS), 1);
	remove_b(2);
	world_pass(world, 5 * SECOND);
	ck_assert_str_eq(told(1), "4");
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_HOLDERS), 2);
	remove_b(4);
	world_pass(world, SECOND);
	check_reason(1, 1, REASON_NONE);
	ck_assert_str_eq(answer(1, 1)->detail, "");
}
END_TEST

/* As the known bug of the server has it: B goes, and its holder claims it again. */
START_TEST(absent_once_is_not_gone)
{
	memory_world_set_deletes_by_name(world->memory, true);
	put_b(1);
	await(0, 1, 1, 1, false, FOREVER);
	holder_wait(1, 2, 1, 1, FOREVER);
	for (int i = 0; i < 20; i++) {
		world_pass(world, SECOND);
		remove_b(1);
		world_pass(world,
		    60 * MS); /* rests are of up to 750 ms: some probes fall into this time */
		put_b(1);
	}
	ck_assert_int_ge(world_notices(world, 0, 1, LOCK_NOTICE_HOLDERS), 1);
	ck_assert_ptr_null(answer(1, 1));
	ck_assert_ptr_null(answer(1, 2));
	remove_b(1);
	world_pass(world, 2 * SECOND);
	check_reason(1, 1, REASON_NONE);
	check_reason(1, 2, REASON_NONE);
}
END_TEST

/* On such a server the second probe of a wait is 100 ms after its first, whatever other waits probe. */
START_TEST(a_probe_of_another_wait_is_no_second_probe)
{
	memory_world_set_deletes_by_name(world->memory, true);
	put_b(1);
	await(0, 1, 1, 1, false, FOREVER);
	world_pass(world, 10 * SECOND);
	remove_b(1);
	for (uint64_t request = 1; request <= 60; request++) {
		await(0, 2, request, 1, true, 0);
		world_pass(world, MS);
	}
	check_reason(2, 1, REASON_TIMEOUT);
	put_b(1);
	world_pass(world, 2 * SECOND);
	ck_assert_ptr_null(answer(1, 1));
	remove_b(1);
	world_pass(world, 2 * SECOND);
	check_reason(1, 1, REASON_NONE);
}
END_TEST

START_TEST(a_timeout_names_the_remaining_holders)
{
	int64_t began = world->now;

	put_b(2);
	put_b(3);
	holder_wait(1, 1, 2, 3, 3 * SECOND);
	await(0, 1, 2, 2, false, 3 * SECOND);
	await(0, 1, 3, 7, true, 3 * SECOND);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_TIMEOUT);
	ck_assert_int_eq(world->now - began, 3 * SECOND);
	ck_assert_str_eq(answer(1, 1)->detail, "2 3");
	ck_assert_str_eq(answer(1, 1)->text, "2 of the removed slots are still busy");
	ck_assert_int_eq(answer(1, 1)->slots, 1);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_TIMEOUT);
	ck_assert_int_eq(answer(1, 2)->slot, 2);
	ck_assert_str_eq(answer(1, 2)->text, "it is still busy");
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_TIMEOUT);
	ck_assert_str_eq(answer(1, 3)->text, "it is still free");
}
END_TEST

START_TEST(without_time_it_probes_once)
{
	int64_t began = world->now;

	put_b(2);
	holder_wait(1, 1, 2, 3, 0);
	holder_wait(1, 2, 3, 4, 0);
	await(0, 1, 3, 2, true, 0);
	await(0, 1, 4, 2, false, 0);
	await(0, 1, 5, 1, true, 0);
	await(0, 1, 6, 1, false, 0);
	world_pass(world, 100 * MS);
	check_reason(1, 1, REASON_TIMEOUT);
	ck_assert_str_eq(answer(1, 1)->detail, "2");
	check_reason(1, 2, REASON_NONE);
	check_reason(1, 3, REASON_NONE);
	check_reason(1, 4, REASON_TIMEOUT);
	check_reason(1, 5, REASON_TIMEOUT);
	check_reason(1, 6, REASON_NONE);
	ck_assert_int_eq(world->now - began, 100 * MS);
}
END_TEST

/* Two checks take longer. A slot that was absent in the first one has no known holder. */
START_TEST(a_short_wait_names_only_known_holders)
{
	memory_world_set_deletes_by_name(world->memory, true);
	put_b(7);
	await(0, 1, 1, 2, false, 5 * MS);
	holder_wait(1, 2, 2, 5, 5 * MS);
	holder_wait(1, 3, 6, 8, 5 * MS);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_TIMEOUT);
	ck_assert_str_eq(answer(1, 3)->text, "1 of the removed slots is still busy");
	ck_assert_str_eq(answer(1, 3)->detail, "7");
	holder_wait(1, 4, 6, 8, FOREVER);
	ck_assert(lock_cancel(engine(0), 1, 4)); /* nothing was seen yet */
	ck_assert_str_eq(answer(1, 4)->detail, "");
}
END_TEST

START_TEST(a_slot_is_busy_that_was_not_there_yet)
{
	await(0, 1, 1, 2, true, FOREVER);
	world_pass(world, 5 * SECOND);
	world_make(world, "db", 2);
	world_pass(world, 5 * SECOND);
	ck_assert_ptr_null(answer(1, 1));
	put_b(2);
	world_pass(world, SECOND);
	check_reason(1, 1, REASON_NONE);
	ck_assert_int_eq(answer(1, 1)->slot, 2);
}
END_TEST

START_TEST(a_release_here_is_seen_at_once)
{
	uint64_t lock;
	int64_t released;

	world_make(world, "db", 1);
	world_acquire(world, 0, 1, 1, "db", 0);
	lock = world_await(world, 0, 1, 1)->lock;
	await(0, 2, 1, 1, false, FOREVER);
	holder_wait(3, 1, 1, 1, FOREVER);
	world_pass(world, 10 * SECOND);
	lock_release(engine(0), 1, 2, lock);
	released = world->now;
	world_await(world, 0, 2, 1);
	world_await(world, 0, 3, 1);
	ck_assert_int_lt(world->now - released, 50 * MS);
}
END_TEST

/* Its B is gone, and the daemon claims it again when it notices. */
START_TEST(a_slot_reserved_here_is_busy)
{
	world_make(world, "db", 1);
	world_acquire(world, 0, 1, 1, "db", 0);
	world_await(world, 0, 1, 1);
	remove_b(1);
	await(0, 2, 1, 1, false, 0);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_TIMEOUT);
	ck_assert(!world_b(world, "db", 1, 0));
}
END_TEST

START_TEST(two_clients_wait_for_the_same_slots)
{
	put_b(2);
	holder_wait(1, 1, 2, 3, FOREVER);
	holder_wait(2, 1, 1, 2, FOREVER);
	world_pass(world, 2 * SECOND);
	lock_peer_gone(engine(0), 1);
	world_pass(world, 2 * SECOND);
	remove_b(2);
	world_pass(world, SECOND);
	ck_assert_ptr_null(answer(1, 1));
	check_reason(2, 1, REASON_NONE);
}
END_TEST

START_TEST(waits_can_be_cancelled)
{
	put_b(1);
	await(0, 1, 1, 1, false, FOREVER);
	holder_wait(1, 2, 1, 2, FOREVER);
	ck_assert(!lock_cancel(engine(0), 2, 1));
	ck_assert(!lock_cancel(engine(0), 1, 3));
	ck_assert(lock_cancel(engine(0), 1, 1)); /* with a probe in flight */
	check_reason(1, 1, REASON_CANCELLED);
	world_pass(world, 3 * SECOND);
	ck_assert(lock_cancel(engine(0), 1, 2));
	check_reason(1, 2, REASON_CANCELLED);
	ck_assert_str_eq(answer(1, 2)->detail, "1");
	ck_assert(!lock_cancel(engine(0), 1, 2));
}
END_TEST

START_TEST(waits_of_a_client_are_limited)
{
	struct lock_settings settings = world_settings;

	settings.max_waits_per_connection = 2;
	lock_engine_set(engine(0), &settings);
	world_make(world, "db", 1);
	put_b(1);
	await(0, 1, 1, 1, false, FOREVER);
	holder_wait(1, 2, 1, 1, FOREVER);
	await(0, 1, 3, 1, false, FOREVER);
	check_reason(1, 3, REASON_TOO_MANY_WAITERS);
	holder_wait(1, 4, 1, 1, FOREVER);
	check_reason(1, 4, REASON_TOO_MANY_WAITERS);
	ck_assert_int_eq(answer(1, 4)->slots, 1);
	world_acquire(world, 0, 1, 5, "db", FOREVER);
	check_reason(1, 5, REASON_TOO_MANY_WAITERS);
	await(0, 2, 1, 1, false, FOREVER);
	ck_assert_ptr_null(answer(2, 1));
	lock_cancel(engine(0), 1, 1);
	world_acquire(world, 0, 1, 6, "db", FOREVER);
	await(0, 1, 7, 1, false, FOREVER);
	check_reason(1, 7, REASON_TOO_MANY_WAITERS);
	lock_peer_gone(engine(0), 1);
	lock_peer_gone(engine(0), 2);
}
END_TEST

START_TEST(a_daemon_that_stops_waits_for_nobody)
{
	put_b(1);
	await(0, 1, 1, 1, false, FOREVER);
	holder_wait(1, 2, 1, 1, FOREVER);
	world_pass(world, SECOND);
	ck_assert(lock_quiet(engine(0)));
	lock_drain(engine(0));
	check_reason(1, 1, REASON_DRAINING);
	check_reason(1, 2, REASON_DRAINING);
	ck_assert_str_eq(answer(1, 2)->detail, "1");
	await(0, 1, 3, 1, false, FOREVER);
	check_reason(1, 3, REASON_DRAINING);
	holder_wait(1, 4, 1, 1, FOREVER);
	check_reason(1, 4, REASON_DRAINING);
}
END_TEST

START_TEST(a_broker_that_is_away_is_waited_for)
{
	put_b(1);
	await(0, 1, 1, 1, false, 60 * SECOND);
	holder_wait(1, 2, 1, 1, FOREVER);
	world_pass(world, 2 * SECOND);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "cut");
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, -1, "cut");
	world_pass(world, SECOND);
	await(0, 2, 1, 1, false, 0);
	check_reason(2, 1, REASON_BROKER_UNAVAILABLE);
	await(0, 2, 2, 1, false, 10 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 2, LOCK_NOTICE_BROKER), 1);
	ck_assert_int_eq(world_await(world, 0, 2, 2)->reason, REASON_BROKER_UNAVAILABLE);
	remove_b(1);
	world_pass(world, 10 * SECOND);
	ck_assert_ptr_null(answer(1, 1));
	memory_broker_restore(world->daemon[0].broker, BROKER_LOCKS);
	memory_broker_restore(world->daemon[0].broker, BROKER_AUXILIARY);
	world_pass(world, 10 * SECOND);
	check_reason(1, 1, REASON_NONE);
	check_reason(1, 2, REASON_NONE);
}
END_TEST

START_TEST(without_the_broker_a_known_holder_is_a_timeout)
{
	put_b(1);
	await(0, 1, 1, 1, false, 10 * SECOND);
	await(0, 1, 2, 1, false, 0);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "cut");
	check_reason(1, 2, REASON_BROKER_UNAVAILABLE); /* it does not wait */
	memory_broker_restore(world->daemon[0].broker, BROKER_LOCKS);
	world_pass(world, 2 * SECOND);
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "cut");
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, -1, "cut");
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_TIMEOUT);
}
END_TEST

START_TEST(a_refusal_of_the_broker_is_reported_at_once)
{
	put_b(1);
	await(0, 1, 1, 1, false, FOREVER);
	world_pass(world, SECOND);
	memory_broker_deny(world->daemon[0].broker, BROKER_LOCKS, "no vhost");
	check_reason(1, 1, REASON_BROKER_REFUSED);
	ck_assert_str_eq(answer(1, 1)->text, "no vhost");
	await(0, 1, 2, 1, false, FOREVER);
	check_reason(1, 2, REASON_BROKER_REFUSED);
}
END_TEST

START_TEST(an_alarm_is_waited_for)
{
	put_b(1);
	world_alarm(world);
	await(0, 1, 1, 1, true, FOREVER);
	await(0, 1, 2, 1, true, 0);
	world_pass(world, 20 * SECOND);
	ck_assert_ptr_null(answer(1, 1));
	check_reason(1, 2, REASON_BROKER_BLOCKED);
	memory_world_block(world->memory, false);
	world_pass(world, 6 * SECOND);
	check_reason(1, 1, REASON_NONE);
}
END_TEST

/* More than fit into one probe. */
START_TEST(thousands_of_slots_need_several_probes)
{
	put_b(1);
	put_b(1025);
	put_b(10000);
	holder_wait(1, 1, 1, 10000, FOREVER);
	world_pass(world, 5 * SECOND);
	ck_assert_str_eq(told(1), "1 1025 10000");
	remove_b(1025);
	world_pass(world, 5 * SECOND);
	ck_assert_str_eq(told(1), "1 10000");
	remove_b(1);
	remove_b(10000);
	world_pass(world, SECOND);
	check_reason(1, 1, REASON_NONE);
}
END_TEST

/* A resize to 10,000 also waits for a window of slots above the size. */
START_TEST(impossible_slots_are_not_probed)
{
	holder_wait(1, 1, 10001, 10256, FOREVER);
	check_reason(1, 1, REASON_NONE);
	put_b(10001);
	holder_wait(1, 2, 10000, 10256, FOREVER);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_slot_that_cannot_be_is_refused)
{
	await(0, 1, 1, 0, true, 0);
	check_reason(1, 1, REASON_INVALID_PARAMS);
	await(0, 1, 2, 10001, true, 0);
	check_reason(1, 2, REASON_INVALID_PARAMS);
}
END_TEST

/* Probes become rare: about half a second apart. */
START_TEST(probes_are_at_growing_intervals)
{
	unsigned before;

	put_b(1);
	await(0, 1, 1, 1, false, FOREVER);
	world_pass(world, SECOND);
	before = world->asked;
	world_pass(world, 100 * SECOND);
	ck_assert_uint_ge(world->asked - before, 100 * 1000 / 750);
	ck_assert_uint_le(world->asked - before, 100 * 1000 / 250 + 1);
	lock_peer_gone(engine(0), 1);
}
END_TEST

/* ---- many who await ---- */

#define MANY 20000

static unsigned probed;

static void
count_probes(struct lock_world *of)
{
	(void)of;
	probed++;
}

static void
await_as(uid_t uid, uint64_t peer, uint64_t request, const char *name, int slot)
{
	lock_await(engine(0), peer, request,
	    &(struct lock_await){
		.uid = uid, .name = name, .slot = slot, .busy = true, .timeout = FOREVER});
}

/* A user awaits as many slots as it may, and all stay free. */
static void
await_many(uid_t uid)
{
	char name[16];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many-%d", i / 1000);
		await_as(uid, 100 + (uint64_t)i / 1000, (uint64_t)i % 1000 + 1, name, i % 1000 + 1);
	}
}

static void
hang_up_many(void)
{
	for (uint64_t peer = 100; peer < 100 + MANY / 1000; peer++)
		lock_peer_gone(engine(0), peer);
}

/* A thousand cost the broker no more than a few, and all are answered by one probe. */
START_TEST(waits_for_one_slot_share_its_probes)
{
	for (uint64_t peer = 1; peer <= 1000; peer++) {
		await_as((uid_t)peer % 3, peer, 1, "db", 1);
		world_pass(world, MS);
	}
	world_pass(world, SECOND);
	probed = 0;
	world->on_probe = count_probes;
	world_pass(world, 10 * SECOND);
	world->on_probe = NULL;
	ck_assert_uint_ge(probed, 10 * 1000 / 750);
	ck_assert_uint_le(probed, 10 * 1000 / 250 + 2);
	put_b(1);
	world_pass(world, SECOND);
	for (uint64_t peer = 1; peer <= 1000; peer++)
		check_reason(peer, 1, REASON_NONE);
}
END_TEST

START_TEST(so_many_awaited_slots_are_probed_a_second)
{
	await_many(1);
	world->on_probe = count_probes;
	probed = 0;
	world_pass(world, 20 * SECOND);
	world->on_probe = NULL;
	ck_assert_uint_ge(probed, 5 * MANY);
	ck_assert_uint_le(probed, 7 * MANY);
	hang_up_many();
	probed = 0;
	world->on_probe = count_probes;
	world_pass(world, 20 * SECOND);
	world->on_probe = NULL;
	ck_assert_uint_le(probed, 512); /* pending requests */
}
END_TEST

/* Also of a slot that the other user awaits, too, and was the first to await. */
START_TEST(a_wait_for_one_slot_does_not_wait_for_another_s_thousands)
{
	int64_t began;
	char queue[32];

	await_many(1);
	await_as(1, 1, 1, "db", 1);
	await_as(2, 2, 1, "db", 1);
	await_as(2, 2, 2, "db", 2);
	world_pass(world, 10 * SECOND);
	put_b(1);
	put_b(2);
	began = world->now;
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	ck_assert_int_eq(world_await(world, 0, 2, 2)->reason, REASON_NONE);
	ck_assert_int_le(world->now - began, SECOND);
	check_reason(1, 1, REASON_NONE);
	/* Nor of one of the thousands. */
	ck_assert(memory_world_put(world->memory, "many-5-500-B", true));
	began = world->now;
	await_as(2, 2, 3, "many-5", 500);
	ck_assert_int_eq(world_await(world, 0, 2, 3)->reason, REASON_NONE);
	ck_assert_int_le(world->now - began, 100 * MS);
	/* The first probe is before the others' next. */
	began = world->now;
	await_as(1, 1, 2, "db", 2);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	ck_assert_int_le(world->now - began, 100 * MS);
	/* Also where that user awaits the slot already. */
	for (int slot = 100; slot < 110; slot++) {
		snprintf(queue, sizeof(queue), "many-7-%d-B", slot);
		ck_assert(memory_world_put(world->memory, queue, true));
		began = world->now;
		await_as(1, 1, (uint64_t)slot, "many-7", slot);
		ck_assert_int_eq(world_await(world, 0, 1, (uint64_t)slot)->reason, REASON_NONE);
		ck_assert_int_le(world->now - began, 100 * MS);
	}
	hang_up_many();
	world_pass(world, SECOND);
}
END_TEST

/* Slots 1 to 1000 are held, and many requests wait for all of them. */
static void
wait_for_many(uint64_t requests)
{
	for (int slot = 1; slot <= 1000; slot++)
		put_b(slot);
	for (uint64_t request = 1; request <= requests; request++)
		holder_wait(1, request, 1, 1000, FOREVER);
}

/* Each wait alone would ask for its thousand slots twice a second. */
START_TEST(so_many_removed_slots_are_probed_a_second)
{
	wait_for_many(20);
	world_pass(world, SECOND);
	probed = 0;
	world->on_probe = count_probes;
	world_pass(world, 10 * SECOND);
	world->on_probe = NULL;
	ck_assert_uint_ge(probed, 10 * 6000);
	ck_assert_uint_le(probed, 10 * 7000);
	for (int slot = 1; slot <= 1000; slot++)
		remove_b(slot);
	for (uint64_t request = 1; request <= 20; request++)
		ck_assert_int_eq(world_await(world, 0, 1, request)->reason, REASON_NONE);
}
END_TEST

/* Waits for removed slots and for one slot share the limit, in which users take turns. */
START_TEST(a_wait_for_one_slot_does_not_wait_for_removed_ones)
{
	int64_t began;

	wait_for_many(100);
	put_b(2000);
	world_pass(world, SECOND);
	began = world->now;
	await_as(1000, 2, 1, "db", 2000);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	ck_assert_int_le(world->now - began, 100 * MS);
	/* Nor they for others' thousands. */
	lock_peer_gone(engine(0), 1);
	await_many(1000);
	world_pass(world, 10 * SECOND);
	began = world->now;
	holder_wait(3, 1, 3000, 3255, FOREVER);
	ck_assert_int_eq(world_await(world, 0, 3, 1)->reason, REASON_NONE);
	ck_assert_int_le(world->now - began, SECOND);
	hang_up_many();
	world_pass(world, SECOND);
}
END_TEST

/* A change has the turns of its own user. Both rounds of its probes are before the thousands of uid 0. */
START_TEST(a_change_waits_in_the_line_of_its_user)
{
	int64_t began;

	world_make(world, "db", 16);
	await_many(0);
	world_pass(world, 10 * SECOND);
	began = world->now;
	lock_destroy(
	    engine(0), 1, 1, &(struct lock_change){.name = "db", .wait = FOREVER, .uid = 1000});
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
	ck_assert_int_le(world->now - began, SECOND);
	hang_up_many();
	world_pass(world, SECOND);
}
END_TEST

/* It takes longer than a second to ask for so many slots twice. */
START_TEST(a_short_wait_for_ten_thousand_slots_asks_for_all_of_them_twice)
{
	holder_wait(1, 1, 1, 10000, 10 * MS);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
}
END_TEST

/* The questions of such a wait may be in flight or in line. */
START_TEST(a_wait_for_many_slots_can_end_at_any_moment)
{
	for (int steps = 0; steps < 60; steps++) {
		holder_wait(1, 1, 1, 1000, FOREVER);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		if (answer(1, 1) == NULL)
			ck_assert(lock_cancel(engine(0), 1, 1));
		world->said_count = 0;
	}
	holder_wait(1, 1, 1, 1000, FOREVER); /* the engine ends with questions in flight */
	lock_peer_gone(engine(0), 1);
}
END_TEST

/* An answer that was on its way when the wait began does not count for it. */
START_TEST(a_newcomer_while_a_slot_is_probed_probes_for_itself)
{
	world->delay = 100 * MS;
	put_b(1);
	await(0, 1, 1, 1, true, FOREVER);
	world_pass(world, 160 * MS); /* the first answer is about the gate */
	remove_b(1);
	await(0, 2, 1, 1, true, FOREVER);
	world_pass(world, 10 * SECOND);
	check_reason(1, 1, REASON_NONE);
	ck_assert_ptr_null(answer(2, 1));
	put_b(1);
	world_pass(world, 2 * SECOND);
	check_reason(2, 1, REASON_NONE);
}
END_TEST

static void
destroy_and_wait(uint64_t peer, uint64_t request)
{
	lock_destroy(engine(0), peer, request,
	    &(struct lock_change){.name = "db", .wait = FOREVER, .progress = true});
}

/* A client that hung up while its slots were removed does not wait for holders. */
START_TEST(a_client_that_hangs_up_before_the_wait_is_told_nothing)
{
	for (int steps = 0; steps < 60; steps++) {
		world_make(world, "db", 1);
		put_b(1);
		destroy_and_wait(1, 1);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		world->said_count = 0;
		lock_peer_gone(engine(0), 1);
		world_pass(world, 2 * SECOND);
		ck_assert_ptr_null(engine(0)->holder_waits);
		ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_HOLDERS), 0);
		world->said_count = 0;
		remove_b(1);
	}
}
END_TEST

/*
 * The answer of a deadline that passes while the mutex is dropped does not say that they are gone.
 */
START_TEST(a_silent_broker_does_not_end_the_wait_for_holders)
{
	for (int steps = 0; steps < 60; steps++) {
		world_make(world, "db", 1);
		put_b(1);
		destroy_and_wait(1, 1);
		for (int i = 0; i < steps; i++)
			world_step(world, SECOND);
		world->silent = true;
		world_pass(world, 3 * world_settings.request_timeout);
		ck_assert(answer(1, 1) == NULL || answer(1, 1)->reason != REASON_NONE);
		world->silent = false;
		lock_peer_gone(engine(0), 1);
		memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
		world_pass(world, 10 * SECOND);
		world->said_count = 0;
		memory_world_remove(world->memory, "db-1-A");
		remove_b(1);
	}
}
END_TEST

Suite *
suite_lock_holder_wait(void)
{
	Suite *suite = suite_create("lock: waiting for holders");
	TCase *tc = tcase_create("holder wait");

	tcase_add_checked_fixture(tc, world_begin, teardown);
	tcase_add_test(tc, slots_that_nobody_holds_are_gone_at_once);
	tcase_add_test(tc, holders_are_waited_for_and_told_of);
	tcase_add_test(tc, absent_once_is_not_gone);
	tcase_add_test(tc, a_probe_of_another_wait_is_no_second_probe);
	tcase_add_test(tc, a_timeout_names_the_remaining_holders);
	tcase_add_test(tc, without_time_it_probes_once);
	tcase_add_test(tc, a_short_wait_names_only_known_holders);
	tcase_add_test(tc, a_slot_is_busy_that_was_not_there_yet);
	tcase_add_test(tc, a_release_here_is_seen_at_once);
	tcase_add_test(tc, a_slot_reserved_here_is_busy);
	tcase_add_test(tc, two_clients_wait_for_the_same_slots);
	tcase_add_test(tc, waits_can_be_cancelled);
	tcase_add_test(tc, waits_of_a_client_are_limited);
	tcase_add_test(tc, a_daemon_that_stops_waits_for_nobody);
	tcase_add_test(tc, a_broker_that_is_away_is_waited_for);
	tcase_add_test(tc, without_the_broker_a_known_holder_is_a_timeout);
	tcase_add_test(tc, a_refusal_of_the_broker_is_reported_at_once);
	tcase_add_test(tc, an_alarm_is_waited_for);
	tcase_add_test(tc, thousands_of_slots_need_several_probes);
	tcase_add_test(tc, impossible_slots_are_not_probed);
	tcase_add_test(tc, a_slot_that_cannot_be_is_refused);
	tcase_add_test(tc, probes_are_at_growing_intervals);
	tcase_add_test(tc, a_client_that_hangs_up_before_the_wait_is_told_nothing);
	tcase_add_test(tc, a_silent_broker_does_not_end_the_wait_for_holders);
	tcase_add_test(tc, waits_for_one_slot_share_its_probes);
	tcase_add_test(tc, so_many_awaited_slots_are_probed_a_second);
	tcase_add_test(tc, a_wait_for_one_slot_does_not_wait_for_another_s_thousands);
	tcase_add_test(tc, so_many_removed_slots_are_probed_a_second);
	tcase_add_test(tc, a_wait_for_one_slot_does_not_wait_for_removed_ones);
	tcase_add_test(tc, a_change_waits_in_the_line_of_its_user);
	tcase_add_test(tc, a_short_wait_for_ten_thousand_slots_asks_for_all_of_them_twice);
	tcase_add_test(tc, a_wait_for_many_slots_can_end_at_any_moment);
	tcase_add_test(tc, a_newcomer_while_a_slot_is_probed_probes_for_itself);
	suite_add_tcase(suite, tc);
	return suite;
}
