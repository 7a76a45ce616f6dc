/*
 * The removal of slots that are held by quorum, over the server in memory. T is 20 s.
 */
#include <stdio.h>

#include "tests/unit/quorum_fixture.h"
#include "tests/unit/test_lock.h"

/* Daemon 2 is the administrator. */
static const struct said *
change(void (*order)(struct lock_engine *, uint64_t, uint64_t, const struct lock_change *),
    uint64_t request, int slots)
{
	order(engine(2), 9, request,
	    &(struct lock_change){.name = "db", .slots = slots, .claim = LOCK_CLAIM_BY_QUORUM});
	return world_await(world, 2, 9, request);
}

static bool
exists(int slot)
{
	char queue[64];

	snprintf(queue, sizeof(queue), "lockbroker=q=db=%d", slot);
	return memory_world_has(world->memory, queue, NULL);
}

/* Two slots. Peer 1 of daemon 0 has slot 1, peer 2 of daemon 1 slot 2, which is then removed. */
static const struct said *
remove_held(void)
{
	static struct said held;

	ck_assert_int_eq(change(lock_create, 1, 2)->reason, REASON_NONE);
	ck_assert_int_eq(acquire(0, 1, 1, "db", TRY)->slot, 1);
	held = *acquire(1, 2, 1, "db", TRY);
	ck_assert_int_eq(held.slot, 2);
	ck_assert_int_eq(change(lock_resize, 2, 1)->reason, REASON_NONE);
	return &held;
}

START_TEST(its_holder_is_told_and_keeps_the_slot)
{
	const struct said *held = remove_held();

	ck_assert_int_eq(world_notices(world, 1, 2, LOCK_NOTICE_REVOKED), 1);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 0);
	world_pass(world, 3 * T);
	ck_assert_int_eq(world_notices(world, 1, 2, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_notices(world, 1, 2, LOCK_NOTICE_REVOKED), 1);
	ck_assert_int_eq(acquire(0, 3, 1, "db", TRY)->reason, REASON_WOULD_BLOCK);
	ck_assert(exists(2));
	release(1, 2, 2, held->lock);
	world_pass(world, SECOND);
	ck_assert(!exists(2));
	ck_assert(exists(1));
	ck_assert_int_eq(acquire(0, 3, 2, "db", TRY)->reason, REASON_WOULD_BLOCK);
}
END_TEST

/* It is not passed to a waiter of the same daemon, nor of another one. */
START_TEST(a_waiter_does_not_get_it)
{
	const struct said *held = remove_held();

	world_acquire(world, 1, 3, 1, "db", DURATION_FOREVER);
	world_acquire(world, 0, 4, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(1, 2, 2, held->lock);
	world_pass(world, T);
	ck_assert(!exists(2));
	ck_assert(is_waiting(1, 3, 1));
}
END_TEST

/* The next claim finds the removal, and the slot is deleted after the grace. */
START_TEST(if_its_daemon_dies_the_next_claim_deletes_it)
{
	(void)remove_held();
	world_kill(world, 1);
	ck_assert_int_eq(acquire(0, 3, 1, "db", TRY)->reason, REASON_WOULD_BLOCK);
	world_pass(world, 2 * SECOND);
	ck_assert(exists(2));
	world_pass(world, T + 2 * SECOND);
	ck_assert(!exists(2));
}
END_TEST

/* Its consumer is suspended for a moment, so that the beads and the removal come anew. */
START_TEST(a_removal_that_comes_anew_is_kept)
{
	const char *queue = "lockbroker=q=db=2";

	(void)remove_held();
	ck_assert(memory_world_suspend(world->memory, queue));
	world_pass(world, SOON);
	ck_assert(memory_world_resume(world->memory, queue));
	world_pass(world, 2 * T);
	ck_assert_int_eq(world_notices(world, 1, 2, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(world_notices(world, 1, 2, LOCK_NOTICE_REVOKED), 1);
	ck_assert_uint_eq(memory_world_copies(world->memory, queue, "removed"), 1);
	world_kill(world, 1);
	ck_assert_int_eq(acquire(0, 3, 1, "db", TRY)->reason, REASON_WOULD_BLOCK);
	world_pass(world, T + 4 * SECOND);
	ck_assert(!exists(2));
}
END_TEST

START_TEST(it_is_made_again_after_its_holder_left)
{
	const struct said *held = remove_held(), *answer;

	answer = change(lock_resize, 3, 2);
	ck_assert_int_eq(answer->reason, REASON_WOULD_BLOCK);
	ck_assert_str_eq(answer->text, "slot 2: the slot is held");
	release(1, 2, 2, held->lock);
	world_pass(world, SECOND);
	ck_assert_int_eq(change(lock_resize, 4, 2)->reason, REASON_NONE);
	answer = acquire(1, 2, 3, "db", TRY);
	ck_assert_int_eq(answer->slot, 2);
	ck_assert_uint_gt(answer->fence, held->fence);
}
END_TEST

/*
 * The record counts one slot, and that one was deleted by hand. A resize to three slots makes it, too, and
 * waits until its holder has stopped. So does a create if the gate was deleted, too.
 */
START_TEST(a_missing_slot_that_is_counted_is_made)
{
	const struct lock_change three = {.name = "db", .slots = 3, .claim = LOCK_CLAIM_BY_QUORUM};
	int64_t began;
	uint64_t fence;

	ck_assert_int_eq(change(lock_create, 1, 1)->reason, REASON_NONE);
	fence = acquire(0, 1, 1, "db", TRY)->fence;
	world_kill(world, 0);
	began = world->now;
	ck_assert(memory_world_remove(world->memory, "lockbroker=q=db=1"));
	if (_i == 1)
		ck_assert(memory_world_remove(world->memory, "db-G"));
	(_i == 1 ? lock_create : lock_resize)(engine(2), 9, 2, &three);
	world_pass(world, T + 5 * SECOND);
	ck_assert_int_eq(world_await(world, 2, 9, 2)->reason, REASON_NONE);
	ck_assert(exists(1) && exists(2) && exists(3));
	ck_assert_int_ge(world_answer(world, 2, 9, 2)->at - began, T);
	ck_assert_int_eq(acquire(1, 2, 3, "db", TRY)->slot, 1);
	ck_assert_uint_gt(world_answer(world, 1, 2, 3)->fence, fence);
}
END_TEST

/* Destroy waits for both holders. A create meanwhile finds a slot that is held. */
START_TEST(a_destroy_waits_for_the_holders)
{
	const struct said *one, *two;
	uint64_t locks[2];

	ck_assert_int_eq(change(lock_create, 1, 2)->reason, REASON_NONE);
	one = acquire(0, 1, 1, "db", TRY);
	locks[0] = one->lock;
	two = acquire(1, 2, 1, "db", TRY);
	locks[1] = two->lock;
	lock_destroy(
	    engine(2), 9, 2, &(struct lock_change){.name = "db", .wait = DURATION_FOREVER});
	world_pass(world, 30 * SECOND);
	ck_assert_ptr_null(world_answer(world, 2, 9, 2));
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_REVOKED), 1);
	ck_assert_int_eq(acquire(0, 3, 1, "db", TRY)->reason, REASON_NO_SUCH_LOCK);
	release(0, 1, 2, locks[0]);
	world_pass(world, 5 * SECOND);
	ck_assert_ptr_null(world_answer(world, 2, 9, 2));
	release(1, 2, 2, locks[1]);
	ck_assert_int_eq(world_await(world, 2, 9, 2)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert(!exists(1) && !exists(2));
	/* The floor of the epochs knows the fences of both, although the clock goes back. */
	world->wall_ahead -= 86400 * SECOND;
	ck_assert_int_eq(change(lock_create, 3, 1)->reason, REASON_NONE);
	ck_assert_uint_gt(acquire(0, 1, 5, "db", TRY)->fence, two->fence);
}
END_TEST

static void
await(uint64_t request, int slot, bool busy, int64_t timeout)
{
	lock_await(engine(0), 5, request,
	    &(struct lock_await){.name = "db", .slot = slot, .busy = busy, .timeout = timeout});
}

/* The methods that ask about one slot. */
START_TEST(an_await_knows_slots_by_quorum)
{
	const struct said *held;

	await(1, 1, true, DURATION_FOREVER);
	ck_assert_int_eq(change(lock_create, 1, 2)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 5, 1));
	await(2, 1, false, TRY);
	ck_assert_int_eq(world_await(world, 0, 5, 2)->reason, REASON_NONE);
	held = acquire(1, 2, 1, "db", TRY);
	ck_assert_int_eq(world_await(world, 0, 5, 1)->reason, REASON_NONE);
	await(3, 1, false, TRY);
	ck_assert_int_eq(world_await(world, 0, 5, 3)->reason, REASON_TIMEOUT);
	await(4, 1, false, DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 5, 4));
	release(1, 2, 2, held->lock);
	ck_assert_int_eq(world_await(world, 0, 5, 4)->reason, REASON_NONE);
}
END_TEST

/* Definitions were imported without messages: neither the slots nor the records say anything about epochs. */
START_TEST(slots_without_messages_say_nothing_about_epochs)
{
	ck_assert_int_eq(change(lock_create, 1, 2)->reason, REASON_NONE);
	ck_assert(memory_world_lose(world->memory, "lockbroker=q=db=1"));
	ck_assert(memory_world_lose(world->memory, "lockbroker=q=db=2"));
	ck_assert(memory_world_lose(world->memory, "lockbroker=quorum"));
	(void)change(lock_destroy, 2, 0);
	ck_assert_int_eq(change(lock_create, 3, 2)->reason, REASON_NONE);
	ck_assert_uint_gt(acquire(0, 1, 1, "db", TRY)->fence, 0);
}
END_TEST

/* Three slots. The first two are deleted by hand, so that slot 3 does not count. */
static void
make_gap(void)
{
	ck_assert_int_eq(change(lock_create, 1, 3)->reason, REASON_NONE);
	ck_assert(memory_world_remove(world->memory, "lockbroker=q=db=1"));
	ck_assert(memory_world_remove(world->memory, "lockbroker=q=db=2"));
}

/* Daemon 2 is the administrator. Such an order names no claim. */
static enum reason
to_nothing(void (*order)(struct lock_engine *, uint64_t, uint64_t, const struct lock_change *))
{
	order(engine(2), 9, 2, &(struct lock_change){.name = "db"});
	return world_await(world, 2, 9, 2)->reason;
}

static int
size(void)
{
	lock_size(engine(2), 9, 99, "db");
	return world_await(world, 2, 9, 99)->slots;
}

START_TEST(a_resize_to_nothing_finds_a_slot_above_a_gap)
{
	make_gap();
	ck_assert_int_eq(to_nothing(lock_resize), REASON_NONE);
	ck_assert(!exists(3));
	ck_assert_int_eq(change(lock_resize, 3, 2)->reason, REASON_NONE);
	ck_assert_int_eq(size(), 2);
}
END_TEST

START_TEST(a_resize_finds_a_slot_above_a_gap)
{
	make_gap();
	ck_assert_int_eq(change(lock_resize, 3, 2)->reason, REASON_NONE);
	ck_assert(!exists(3));
	ck_assert_int_eq(size(), 2);
}
END_TEST

START_TEST(a_destroy_finds_a_slot_above_a_gap)
{
	make_gap();
	ck_assert_int_eq(to_nothing(lock_destroy), REASON_NONE);
	ck_assert(!exists(3));
}
END_TEST

/* The gate is gone, too, so that nothing of it can be found but by its name. */
START_TEST(a_create_finds_a_slot_above_a_gap)
{
	make_gap();
	ck_assert(memory_world_remove(world->memory, "db-G"));
	ck_assert_int_eq(change(lock_create, 3, 2)->reason, REASON_NONE);
	ck_assert(!exists(3));
	ck_assert_int_eq(size(), 2);
}
END_TEST

/* The client of that slot hears of it, and the administrator can wait for the release. */
START_TEST(a_held_slot_above_a_gap_is_removed_when_it_is_released)
{
	struct said held[3];

	ck_assert_int_eq(change(lock_create, 1, 3)->reason, REASON_NONE);
	for (int i = 0; i < 3; i++)
		held[i] = *acquire(0, (uint64_t)i + 1, 1, "db", TRY);
	ck_assert_int_eq(held[2].slot, 3);
	ck_assert(memory_world_remove(world->memory, "lockbroker=q=db=1"));
	ck_assert(memory_world_remove(world->memory, "lockbroker=q=db=2"));
	lock_destroy(
	    engine(2), 9, 2, &(struct lock_change){.name = "db", .wait = DURATION_FOREVER});
	world_pass(world, 3 * T);
	ck_assert_int_eq(world_notices(world, 0, 3, LOCK_NOTICE_REVOKED), 1);
	ck_assert_int_eq(world_notices(world, 0, 3, LOCK_NOTICE_LOST), 0);
	ck_assert_ptr_null(world_answer(world, 2, 9, 2));
	ck_assert(exists(3));
	release(0, 3, 2, held[2].lock);
	ck_assert_int_eq(world_await(world, 2, 9, 2)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert(!exists(3));
}
END_TEST

Suite *
suite_lock_quorum_removed(void)
{
	Suite *suite = suite_create("lock: removed slots by quorum");
	TCase *tc = tcase_create("removed");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_test(tc, its_holder_is_told_and_keeps_the_slot);
	tcase_add_test(tc, a_waiter_does_not_get_it);
	tcase_add_test(tc, if_its_daemon_dies_the_next_claim_deletes_it);
	tcase_add_test(tc, a_removal_that_comes_anew_is_kept);
	tcase_add_test(tc, it_is_made_again_after_its_holder_left);
	tcase_add_loop_test(tc, a_missing_slot_that_is_counted_is_made, 0, 2);
	tcase_add_test(tc, a_destroy_waits_for_the_holders);
	tcase_add_test(tc, an_await_knows_slots_by_quorum);
	tcase_add_test(tc, slots_without_messages_say_nothing_about_epochs);
	tcase_add_test(tc, a_resize_to_nothing_finds_a_slot_above_a_gap);
	tcase_add_test(tc, a_resize_finds_a_slot_above_a_gap);
	tcase_add_test(tc, a_destroy_finds_a_slot_above_a_gap);
	tcase_add_test(tc, a_create_finds_a_slot_above_a_gap);
	tcase_add_test(tc, a_held_slot_above_a_gap_is_removed_when_it_is_released);
	suite_add_tcase(suite, tc);
	return suite;
}
