/*
 * Notices to waiters about their position and the holders.
 */
#include <stdio.h>

#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#define SOON (50 * NSEC_PER_MSEC)

static void
setup(void)
{
	world_begin_with_db();
	world_acquire(world, 0, 1, 1, "db", 0);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
}

static void
stand(uint64_t peer, int priority)
{
	const struct lock_acquire wanted = {
	    .name = "db", .timeout = DURATION_FOREVER, .priority = priority, .progress = true};

	lock_acquire(engine(0), peer, 1, &wanted);
	world_pass(world, SOON);
}

static int
notices(uint64_t peer)
{
	return world_notices(world, 0, peer, LOCK_NOTICE_WAITING);
}

/* The last position that a client got; 0: none. */
static int
position(uint64_t peer)
{
	int position = 0;

	for (size_t i = 0; i < world->said_count; i++) {
		const struct said *said = &world->said[i];

		if (said->notice && said->kind == LOCK_NOTICE_WAITING && said->peer == peer)
			position = said->position;
	}
	return position;
}

/* The holders of the last notice, those of removed slots included. */
static int
holders(uint64_t peer)
{
	int holders = 0;

	for (size_t i = 0; i < world->said_count; i++) {
		const struct said *said = &world->said[i];

		if (said->notice && said->kind == LOCK_NOTICE_WAITING && said->peer == peer)
			holders = said->busy + said->extra;
	}
	return holders;
}

/* A gate. Of the slots that were removed one has a holder here, at any place. The other is another's. */
START_TEST(holders_of_removed_slots_are_notified)
{
	static const char *const others[] = {"db-2-B", "db-300-B"};
	const struct said *mine = world_answer(world, 0, 1, 1);

	memory_world_put(world->memory, others[_i], true);
	lock_resize(
	    engine(0), 3, 1, &(struct lock_change){.name = "db", .slots = 0, .overshoot = 1});
	ck_assert_int_eq(world_await(world, 0, 3, 1)->reason, REASON_NONE);
	stand(2, 0);
	ck_assert_int_eq(holders(2), _i == 0 ? 2 : 1);
	lock_release(engine(0), 1, 2, mine->lock);
	world_pass(world, SOON);
	ck_assert_int_eq(holders(2), _i == 0 ? 1 : 0);
	memory_world_remove(world->memory, others[_i]);
	world_pass(world, world_settings.rescan_interval + SECOND);
	ck_assert_int_eq(holders(2), 0);
	ck_assert_int_eq(position(2), 1);
}
END_TEST

START_TEST(a_changed_position_is_notified)
{
	for (uint64_t peer = 2; peer <= 4; peer++)
		stand(peer, 0);
	for (uint64_t peer = 2; peer <= 4; peer++)
		ck_assert_int_eq(position(peer), (int)peer - 1);
	lock_peer_gone(engine(0), 2);
	world_pass(world, SOON);
	ck_assert_int_eq(position(3), 1);
	ck_assert_int_eq(position(4), 2);
	/* A waiter that goes before them. */
	stand(5, 1);
	ck_assert_int_eq(position(5), 1);
	ck_assert_int_eq(position(3), 2);
	ck_assert_int_eq(position(4), 3);
	world_pass(world, 60 * NSEC_PER_SEC);
	ck_assert_int_eq(notices(3), 3);
	ck_assert_int_eq(notices(5), 1);
}
END_TEST

START_TEST(positions_are_notified_while_the_broker_is_away)
{
	stand(2, 0);
	stand(3, 0);
	broker_reset(world->daemon[0].broker, BROKER_LOCKS, "for the test");
	world_pass(world, 1);
	lock_peer_gone(engine(0), 2);
	world_pass(world, NSEC_PER_MSEC);
	ck_assert_int_eq(position(3), 1);
}
END_TEST

START_TEST(waiters_far_behind_are_notified_once_a_second)
{
	for (uint64_t peer = 2; peer <= 41; peer++)
		stand(peer, 0);
	world_pass(world, 2 * NSEC_PER_SEC);
	for (uint64_t peer = 2; peer <= 6; peer++) {
		lock_peer_gone(engine(0), peer);
		world_pass(world, SOON);
	}
	ck_assert_int_eq(position(22), 16);
	ck_assert_int_eq(position(41), 40);
	world_pass(world, NSEC_PER_SEC);
	ck_assert_int_eq(position(41), 35);
	ck_assert_int_eq(notices(41), 2);
}
END_TEST

static int
notices_of_all(void)
{
	int sum = 0;

	for (size_t i = 0; i < world->said_count; i++)
		sum += world->said[i].notice && world->said[i].kind == LOCK_NOTICE_WAITING;
	return sum;
}

/* The clock runs: others are served in between. Changes meanwhile are notified in the end. */
START_TEST(waiters_far_behind_are_notified_in_slices)
{
	int before, slices = 0;

	for (uint64_t peer = 2; peer <= 401; peer++)
		stand(peer, 0);
	world_pass(world, 2 * NSEC_PER_SEC);
	lock_peer_gone(engine(0), 2);
	world_pass(world, SOON);
	world->tick = 10000;
	for (int steps = 0; steps < 1000 && position(401) != 399; steps++) {
		before = notices_of_all();
		ck_assert(world_step(world, 2 * NSEC_PER_SEC));
		ck_assert_int_le(notices_of_all() - before, 30);
		slices += notices_of_all() > before;
	}
	ck_assert_int_ge(slices, 10);
	lock_peer_gone(engine(0), 3);
	world_step(world, 2 * NSEC_PER_SEC);
	world_step(world, 2 * NSEC_PER_SEC);
	lock_peer_gone(engine(0), 4);
	world->tick = 0;
	world_pass(world, 3 * NSEC_PER_SEC);
	for (uint64_t peer = 5; peer <= 401; peer++)
		ck_assert_int_eq(position(peer), (int)peer - 4);
}
END_TEST

START_TEST(a_waiter_that_did_not_ask_gets_no_notices)
{
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_acquire(world, 0, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, SOON);
	lock_peer_gone(engine(0), 2);
	world_pass(world, 2 * NSEC_PER_SEC);
	ck_assert_int_eq(notices(2) + notices(3), 0);
}
END_TEST

Suite *
suite_lock_progress(void)
{
	Suite *suite = suite_create("lock: progress");
	TCase *tcase = tcase_create("standing");

	tcase_add_checked_fixture(tcase, setup, world_end);
	tcase_add_test(tcase, a_changed_position_is_notified);
	tcase_add_loop_test(tcase, holders_of_removed_slots_are_notified, 0, 2);
	tcase_add_test(tcase, positions_are_notified_while_the_broker_is_away);
	tcase_add_test(tcase, waiters_far_behind_are_notified_once_a_second);
	tcase_add_test(tcase, waiters_far_behind_are_notified_in_slices);
	tcase_add_test(tcase, a_waiter_that_did_not_ask_gets_no_notices);
	suite_add_tcase(suite, tcase);
	return suite;
}
