/*
 * Slots that are held by quorum, over the server in memory. T is 20 s, so the lease is 18 s.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#define T (20 * SECOND)
#define LEASE (18 * SECOND)
/* For a step of a protocol that needs some answers. */
#define SOON (SECOND / 10)

static enum broker_answer made;

static void
on_made(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	(void)id;
	made = reply->answer;
}

static enum broker_answer
make(int daemon, int slot, uint64_t epoch, int64_t wait)
{
	const struct broker_beads wanted = {.epoch = epoch, .grace = T, .wait = wait};
	char queue[64];

	made = BROKER_SKIPPED;
	snprintf(queue, sizeof(queue), "lockbroker=q=db=%d", slot);
	broker_make_beads(
	    world->daemon[daemon].broker, queue, &wanted, (struct broker_done){.fn = on_made});
	for (int i = 0; i < 600 && made == BROKER_SKIPPED; i++)
		world_pass(world, SOON);
	return made;
}

/* The semaphore db, with that many slots. */
static void
make_slots(int slots)
{
	ck_assert(memory_world_put(world->memory, "db-G", false));
	for (int slot = 1; slot <= slots; slot++)
		ck_assert_int_eq(make(0, slot, 100, 0), BROKER_OK);
}

static const struct said *
take(int daemon, uint64_t peer, int64_t timeout)
{
	return acquire(daemon, peer, 1, "db", timeout);
}

/* The connection of holds by quorum that carries the first one ends. */
static void
cut(int daemon)
{
	broker_reset(world->daemon[daemon].broker, BROKER_QUORUM, "cut");
	broker_reset(world->daemon[daemon].broker, BROKER_QUORUM + 1, "cut");
	world_pass(world, SOON);
}

static int64_t
waited(const struct said *answer, int64_t since)
{
	return answer->at - since;
}

START_TEST(a_slot_is_claimed_and_released)
{
	const struct said *answer;
	uint64_t fence, lock;
	int64_t began;

	make_slots(2);
	answer = take(0, 1, TRY);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_int_le(answer->safe_until, world->now + LEASE);
	ck_assert_int_gt(answer->safe_until, world->now + LEASE - SECOND);
	fence = answer->fence;
	lock = answer->lock;
	ck_assert_uint_ge(fence, UINT64_C(100) << 20);
	ck_assert_int_eq(take(1, 2, TRY)->slot, 2);
	ck_assert_int_eq(take(1, 3, TRY)->reason, REASON_WOULD_BLOCK);
	/* It is renewed. */
	world_pass(world, 5 * LEASE);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 0);
	lock_verify(engine(0), 1, 7, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 7)->reason, REASON_NONE);
	ck_assert_uint_gt(world_answer(world, 0, 1, 7)->fence, fence);
	fence = world_answer(world, 0, 1, 7)->fence;
	release(0, 1, 2, lock);
	began = world->now;
	answer = take(1, 4, SECOND);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_int_lt(waited(answer, began), SECOND);
	ck_assert_uint_gt(answer->fence, fence);
}
END_TEST

enum end { END_CONNECTION, END_DAEMON, ENDS };

/* The next holder is granted after T. Clients that only try once a second get the slot, too. */
START_TEST(after_an_unclean_end_the_next_one_waits)
{
	const struct said *answer;
	uint64_t fence, lock;
	int64_t began;
	int tries = 0;

	make_slots(1);
	answer = take(0, 1, TRY);
	ck_assert_int_eq(answer->slot, 1);
	fence = answer->fence;
	lock = answer->lock;
	if (_i == END_CONNECTION) {
		cut(0);
		ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
		lock_verify(engine(0), 1, 7, lock, 0);
		ck_assert_int_ne(world_await(world, 0, 1, 7)->reason, REASON_NONE);
	} else {
		world_kill(world, 0);
	}
	began = world->now;
	do {
		ck_assert_int_lt(++tries, 40);
		answer = acquire(1, 2, (uint64_t)(10 + tries), "db", TRY);
		world_pass(world, SECOND);
		if (tries == 2)
			ck_assert_int_le(answer->free_in, T);
		if (tries == 2)
			ck_assert_int_gt(answer->free_in, T - 3 * SECOND);
	} while (answer->reason != REASON_NONE);
	ck_assert_int_ge(waited(answer, began), T);
	ck_assert_int_le(waited(answer, began), T + 3 * SECOND);
	ck_assert_uint_gt(answer->fence, fence);
}
END_TEST

START_TEST(a_waiter_is_granted_after_the_grace)
{
	const struct said *answer;
	int64_t began;

	make_slots(1);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	world_acquire(world, 1, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	cut(0);
	began = world->now;
	answer = world_await(world, 1, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_ge(waited(answer, began), T - SOON);
	ck_assert_int_le(waited(answer, began), T + 3 * SECOND);
}
END_TEST

START_TEST(a_waiter_takes_another_slot_that_is_clean)
{
	const struct said *answer;
	uint64_t lock;
	int64_t began;

	make_slots(2);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	answer = take(1, 2, TRY);
	ck_assert_int_eq(answer->slot, 2);
	lock = answer->lock;
	world_acquire(world, 2, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	cut(0);
	world_pass(world, 5 * SECOND);
	began = world->now;
	release(1, 2, 2, lock);
	answer = world_await(world, 2, 3, 1);
	ck_assert_int_eq(answer->slot, 2);
	ck_assert_int_le(waited(answer, began), SECOND);
}
END_TEST

/* They are on a connection of their own, with a lease of their own. */
START_TEST(the_lock_connection_costs_no_hold)
{
	const struct said *answer;
	uint64_t lock;

	make_slots(1);
	answer = take(0, 1, TRY);
	ck_assert_int_eq(answer->slot, 1);
	lock = answer->lock;
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, -1, "cut");
	world_pass(world, 3 * LEASE);
	memory_broker_restore(world->daemon[0].broker, BROKER_LOCKS);
	world_pass(world, SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	lock_verify(engine(0), 1, 7, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 7)->reason, REASON_NONE);
	release(0, 1, 2, lock);
}
END_TEST

/* The two holds are on two connections. */
START_TEST(the_end_of_one_connection_costs_its_holds_alone)
{
	make_slots(2);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	ck_assert_int_eq(take(0, 2, TRY)->slot, 2);
	broker_reset(world->daemon[0].broker, BROKER_QUORUM, "cut");
	world_pass(world, SOON);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST) +
			     world_notices(world, 0, 2, LOCK_NOTICE_LOST),
	    1);
}
END_TEST

START_TEST(a_silent_broker_ends_the_hold_at_its_lease)
{
	const struct said *answer;
	int64_t until;

	make_slots(1);
	answer = take(0, 1, TRY);
	until = answer->safe_until;
	memory_world_starve(world->memory, "lockbroker=q=db=1", true);
	world_pass(world, until - world->now - SOON);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	world_pass(world, 2 * SOON);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
}
END_TEST

/* Each hand-off has a larger number, up to 255 of them without a proof of the broker, and more with one. */
START_TEST(a_hand_off_has_a_larger_fence)
{
	const struct said *answer;
	uint64_t fence, lock;

	make_slots(1);
	answer = take(0, 1, TRY);
	for (uint64_t i = 0; i < 300; i++) {
		fence = answer->fence;
		lock = answer->lock;
		world_acquire(world, 0, 2 + i, 1, "db", DURATION_FOREVER);
		world_pass(world, SOON / 10);
		lock_release(engine(0), 1 + i, 2, lock);
		answer = world_await(world, 0, 2 + i, 1);
		ck_assert_int_eq(answer->reason, REASON_NONE);
		ck_assert_uint_gt(answer->fence, fence);
	}
}
END_TEST

START_TEST(a_gate_gets_slots)
{
	const struct said *answer;

	make_slots(0);
	ck_assert_int_eq(take(0, 1, TRY)->reason, REASON_WOULD_BLOCK);
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert_int_eq(make(1, 1, 100, 0), BROKER_OK);
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->slot, 1);
}
END_TEST

/* The client may go on, as it was only told. */
START_TEST(an_abandoned_hold_does_not_end_cleanly)
{
	int64_t began;

	make_slots(1);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	lock_abandon(engine(0));
	world_pass(world, SOON);
	began = world->now;
	ck_assert_int_ge(waited(take(1, 2, DURATION_FOREVER), began), T - SOON);
}
END_TEST

static unsigned answered;

static void
on_answered(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	ck_assert_int_eq(reply->answer, BROKER_OK);
	ck_assert_uint_eq(id, ++answered);
}

/* One reject at a time is in flight. */
START_TEST(questions_at_once_are_asked_one_after_another)
{
	const char *queue = "lockbroker=q=db=1";
	struct broker *broker = world->daemon[0].broker;
	uint64_t channel = broker_channel_take_for(broker, BROKER_BY_QUORUM);

	make_slots(1);
	answered = 0;
	broker_claim(
	    broker, channel, BROKER_BY_QUORUM, queue, (struct broker_done){on_answered, NULL, 1});
	world_pass(world, SOON);
	for (uint64_t id = 2; id <= 4; id++)
		broker_check_holder(broker, channel, BROKER_BY_QUORUM, queue,
		    (struct broker_done){on_answered, NULL, id});
	world_pass(world, SOON);
	ck_assert_uint_eq(answered, 4);
	broker_drop(broker, channel, BROKER_BY_QUORUM, queue, true,
	    (struct broker_done){on_answered, NULL, 5});
	world_pass(world, SOON);
	ck_assert_uint_eq(answered, 5);
}
END_TEST

#define DAY (86400 * SECOND)

/* Nothing can be seen then, not even the gate. A daemon that never saw the semaphore claims it. */
START_TEST(a_slot_is_claimed_unseen_in_an_alarm)
{
	const struct said *answer;
	uint64_t lock;

	make_slots(2);
	world_alarm(world);
	answer = take(1, 1, TRY);
	ck_assert_int_eq(answer->slot, 1);
	lock = answer->lock;
	ck_assert_int_eq(take(1, 2, TRY)->slot, 2);
	ck_assert_int_ne(take(1, 3, TRY)->reason, REASON_NONE);
	ck_assert_int_ne(take(2, 4, TRY)->reason, REASON_NONE);
	release(1, 1, 2, lock);
	answer = take(2, 5, TRY);
	ck_assert_int_eq(answer->slot, 1);
	/* The lock does not exist, as far as is known. */
	ck_assert_int_eq(acquire(1, 6, 1, "nothing", TRY)->reason, REASON_BROKER_BLOCKED);
	memory_world_block(world->memory, false);
	world_pass(world, 10 * SECOND);
	ck_assert_int_eq(acquire(1, 6, 2, "nothing", TRY)->reason, REASON_NO_SUCH_LOCK);
	ck_assert_int_eq(take(1, 7, TRY)->reason, REASON_WOULD_BLOCK);
}
END_TEST

/* The queue has a consumer timeout of 30 days. */
START_TEST(a_hold_ends_before_the_consumer_timeout)
{
	const struct broker_beads wanted = {.epoch = 100, .grace = BEAD_GRACE_MOST};

	ck_assert(memory_world_put(world->memory, "db-G", false));
	broker_make_beads(world->daemon[0].broker, "lockbroker=q=db=1", &wanted,
	    (struct broker_done){.fn = on_made});
	world_pass(world, 10 * SECOND);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	world_pass(world, 29 * DAY - 3600 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	world_pass(world, 2 * 3600 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
}
END_TEST

/* ---- administration ---- */

static const struct said *
change(void (*order)(struct lock_engine *, uint64_t, uint64_t, const struct lock_change *),
    uint64_t request, int slots)
{
	const struct lock_change wanted = {
	    .name = "db", .slots = slots, .claim = LOCK_CLAIM_BY_QUORUM};

	order(engine(2), 9, request, &wanted);
	return world_await(world, 2, 9, request);
}

/* The clock goes back each time: the floor of the records alone makes the epochs grow. */
START_TEST(fences_grow_over_destroy_and_create)
{
	uint64_t fence = 0;

	for (uint64_t i = 0; i < 4; i++) {
		const struct said *answer;

		ck_assert_int_eq(change(lock_create, 10 * i + 1, 2)->reason, REASON_NONE);
		for (uint64_t j = 0; j < 3; j++) {
			answer = acquire(0, 1, 100 * i + 2 * j + 1, "db", TRY);
			ck_assert_int_eq(answer->slot, 1);
			ck_assert_uint_gt(answer->fence, fence);
			fence = answer->fence;
			release(0, 1, 100 * i + 2 * j + 2, answer->lock);
		}
		ck_assert_int_eq(change(lock_resize, 10 * i + 2, 0)->reason, REASON_NONE);
		ck_assert_int_eq(change(lock_resize, 10 * i + 3, 1)->reason, REASON_NONE);
		answer = acquire(1, 2, 100 * i + 1, "db", TRY);
		ck_assert_uint_gt(answer->fence, fence);
		fence = answer->fence;
		release(1, 2, 100 * i + 2, answer->lock);
		ck_assert_int_eq(change(lock_destroy, 10 * i + 5, 0)->reason, REASON_NONE);
		world->wall_ahead -= DAY;
	}
}
END_TEST

/* A clock that is far ahead would raise the floor for good. */
START_TEST(a_clock_far_ahead_needs_force)
{
	struct lock_change wanted = {.name = "db", .slots = 2, .claim = LOCK_CLAIM_BY_QUORUM};
	const struct said *answer;

	ck_assert_int_eq(change(lock_create, 1, 1)->reason, REASON_NONE);
	world->wall_ahead = 364 * DAY;
	ck_assert_int_eq(change(lock_resize, 2, 2)->reason, REASON_NONE);
	world->wall_ahead += 366 * DAY;
	answer = change(lock_resize, 3, 3);
	ck_assert_int_eq(answer->reason, REASON_INVALID_PARAMS);
	ck_assert_str_eq(answer->parameter, "force");
	ck_assert_str_eq(answer->text,
	    "declared 0 of 1 slots, then: the clock of this host is 366 days ahead of the newest "
	    "epoch; if it is right, repeat with force");
	ck_assert_int_eq(acquire(0, 1, 1, "db", TRY)->slot, 1);
	wanted.slots = 3;
	wanted.force = true;
	lock_resize(engine(2), 9, 4, &wanted);
	ck_assert_int_eq(world_await(world, 2, 9, 4)->reason, REASON_NONE);
	/* That is the newest epoch now. */
	ck_assert_int_eq(change(lock_resize, 5, 4)->reason, REASON_NONE);
}
END_TEST

/* Without a way in the request, the setting decides. */
START_TEST(the_setting_makes_slots_by_quorum)
{
	struct lock_settings settings = world_settings;
	struct lock_change wanted = {.name = "db", .slots = 2};
	const struct said *answer;

	settings.claim = BROKER_BY_QUORUM;
	settings.wall_clock = &world->wall;
	for (int i = 0; i < 3; i++)
		lock_engine_set(engine(i), &settings);
	lock_create(engine(0), 9, 1, &wanted);
	ck_assert_int_eq(world_await(world, 0, 9, 1)->reason, REASON_NONE);
	ck_assert_uint_gt(acquire(1, 1, 1, "db", TRY)->fence, 0);
	/* A gate and an unlimited one have no slots. */
	wanted = (struct lock_change){.name = "gate", .slots = 0};
	lock_create(engine(0), 9, 2, &wanted);
	ck_assert_int_eq(world_await(world, 0, 9, 2)->reason, REASON_NONE);
	wanted.slots = 1;
	lock_resize(engine(0), 9, 3, &wanted);
	ck_assert_int_eq(world_await(world, 0, 9, 3)->reason, REASON_NONE);
	ck_assert_uint_gt(acquire(1, 1, 2, "gate", TRY)->fence, 0);
	wanted = (struct lock_change){.name = "all", .slots = LOCK_UNLIMITED};
	lock_create(engine(0), 9, 4, &wanted);
	ck_assert_int_eq(world_await(world, 0, 9, 4)->reason, REASON_NONE);
	/* A missing semaphore is made so, and a mutex is an exclusive queue. */
	lock_acquire(engine(1), 1, 3,
	    &(struct lock_acquire){.name = "new", .timeout = DURATION_FOREVER, .create = 1});
	ck_assert_uint_gt(world_await(world, 1, 1, 3)->fence, 0);
	lock_acquire(engine(1), 1, 4,
	    &(struct lock_acquire){.name = "mutex", .kind = LOCK_KIND_MUTEX, .timeout = TRY});
	answer = world_await(world, 1, 1, 4);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_eq(answer->fence, 0);
}
END_TEST

/* ---- how a slot is made ---- */

START_TEST(a_held_slot_is_not_made_again)
{
	const struct said *answer;

	make_slots(1);
	answer = take(0, 1, TRY);
	ck_assert_int_eq(make(1, 1, 200, 0), BROKER_LOCKED);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	release(0, 1, 2, answer->lock);
	/* It is as it was: its set remains. */
	ck_assert_int_eq(make(1, 1, 200, 0), BROKER_OK);
	answer = take(0, 3, TRY);
	ck_assert_uint_lt(answer->fence, UINT64_C(200) << 20);
}
END_TEST

/* An earlier holder of the name may believe in its hold for T. */
START_TEST(a_lost_set_is_made_anew)
{
	int64_t began;
	const struct said *answer;

	make_slots(1);
	answer = take(0, 1, TRY);
	ck_assert(memory_world_lose(world->memory, "lockbroker=q=db=1"));
	world_kill(world, 0);
	began = world->now;
	ck_assert_int_eq(make(1, 1, 200, T), BROKER_OK);
	ck_assert_int_ge(world->now, began + T);
	answer = take(1, 3, TRY);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert_uint_ge(answer->fence, UINT64_C(200) << 20);
}
END_TEST

START_TEST(a_new_set_is_published_in_dirty_order)
{
	int64_t began;

	ck_assert(memory_world_put(world->memory, "db-G", false));
	/* Its publisher dies before it makes the set clean. */
	const struct broker_beads wanted = {.epoch = 100, .grace = T};

	broker_make_beads(world->daemon[1].broker, "lockbroker=q=db=1", &wanted,
	    (struct broker_done){.fn = on_made});
	memory_world_set_rejects(world->memory, "lockbroker=q=db=1", MEMORY_REJECTS_LOST);
	for (int i = 0; i < 30; i++) {
		world_pass(world, SOON);
		memory_world_set_rejects(world->memory, "lockbroker=q=db=1", MEMORY_REJECTS_LOST);
	}
	world_kill(world, 1);
	memory_world_set_rejects(world->memory, "lockbroker=q=db=1", MEMORY_REJECTS_TAKEN);
	began = world->now;
	ck_assert_int_ge(waited(take(0, 1, DURATION_FOREVER), began), T - SOON);
}
END_TEST

Suite *
suite_lock_quorum(void)
{
	Suite *suite = suite_create("lock: quorum");
	TCase *tc = tcase_create("quorum");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, a_slot_is_claimed_and_released);
	tcase_add_loop_test(tc, after_an_unclean_end_the_next_one_waits, 0, ENDS);
	tcase_add_test(tc, a_waiter_is_granted_after_the_grace);
	tcase_add_test(tc, a_waiter_takes_another_slot_that_is_clean);
	tcase_add_test(tc, the_lock_connection_costs_no_hold);
	tcase_add_test(tc, the_end_of_one_connection_costs_its_holds_alone);
	tcase_add_test(tc, a_silent_broker_ends_the_hold_at_its_lease);
	tcase_add_test(tc, a_hand_off_has_a_larger_fence);
	tcase_add_test(tc, a_gate_gets_slots);
	tcase_add_test(tc, an_abandoned_hold_does_not_end_cleanly);
	tcase_add_test(tc, questions_at_once_are_asked_one_after_another);
	tcase_add_test(tc, a_slot_is_claimed_unseen_in_an_alarm);
	tcase_add_test(tc, a_hold_ends_before_the_consumer_timeout);
	tcase_add_test(tc, fences_grow_over_destroy_and_create);
	tcase_add_test(tc, a_clock_far_ahead_needs_force);
	tcase_add_test(tc, the_setting_makes_slots_by_quorum);
	tcase_add_test(tc, a_held_slot_is_not_made_again);
	tcase_add_test(tc, a_lost_set_is_made_anew);
	tcase_add_test(tc, a_new_set_is_published_in_dirty_order);
	suite_add_tcase(suite, tc);
	return suite;
}
