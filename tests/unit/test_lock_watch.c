/*
 * Revoked in time: the engine's watches over the server in memory. Every answer takes 1 ms, and so
 * does every cancel.
 */
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

/* A hint, a check, and the watch's own delays. */
#define SOON (5 * MS)

/* Client 1 of daemon 0 holds db, slot 1. */
static void
setup(void)
{
	world_begin_with_db();
	world_acquire(world, 0, 1, 1, "db", 0);
	ck_assert_int_eq(world_await(world, 0, 1, 1)->reason, REASON_NONE);
}

static int
revoked(void)
{
	return world_notices(world, 0, 1, LOCK_NOTICE_REVOKED);
}

static void delete (void)
{
	ck_assert(memory_world_remove(world->memory, "db-1-A"));
}

static enum reason
verify(uint64_t request)
{
	lock_verify(engine(0), 1, request, world_answer(world, 0, 1, 1)->lock, 1000);
	return world_await(world, 0, 1, request)->reason;
}

static void
give_back(uint64_t request)
{
	lock_release(engine(0), 1, request, world_answer(world, 0, 1, 1)->lock);
	ck_assert_int_eq(world_await(world, 0, 1, request)->reason, REASON_NONE);
}

START_TEST(a_deletion_is_told_at_once)
{
	world_pass(world, SECOND);
	ck_assert_int_eq(revoked(), 0);
	delete ();
	world_pass(world, SOON);
	ck_assert_int_eq(revoked(), 1);
	/* A mark, told once, and B stays. */
	world_pass(world, 10 * SECOND);
	ck_assert_int_eq(revoked(), 1);
	ck_assert(world_b(world, "db", 1, 0));
	ck_assert_int_eq(verify(2), REASON_REVOKED);
	give_back(3);
}
END_TEST

/* There is no notification. Every watch begins with a check, which finds it. */
START_TEST(deleted_before_the_watch_is_there)
{
	delete ();
	world_pass(world, 100 * MS + SOON);
	ck_assert_int_eq(revoked(), 1);
}
END_TEST

START_TEST(a_hint_without_a_deletion_changes_nothing)
{
	world_pass(world, SECOND);
	for (int i = 0; i < 5; i++) {
		ck_assert(memory_world_cancel(world->memory, "db-1-A"));
		world_pass(world, SECOND + SOON);
	}
	ck_assert_int_eq(revoked(), 0);
	ck_assert_int_eq(verify(2), REASON_NONE);
	/* It was asked for again each time. */
	delete ();
	world_pass(world, SOON);
	ck_assert_int_eq(revoked(), 1);
}
END_TEST

START_TEST(deleted_while_the_auxiliary_connection_is_away)
{
	world_pass(world, SECOND);
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, -1, "cut");
	delete ();
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(revoked(), 0);
	memory_broker_restore(world->daemon[0].broker, BROKER_AUXILIARY);
	world_pass(world, SOON);
	ck_assert_int_eq(revoked(), 1);
}
END_TEST

START_TEST(deleted_while_their_channel_is_closed)
{
	world_pass(world, SECOND);
	memory_broker_close_watches(world->daemon[0].broker);
	delete ();
	/* They are placed anew after a second. */
	world_pass(world, SECOND + SOON);
	ck_assert_int_eq(revoked(), 1);
}
END_TEST

/* Nearly 100 ms, with no consumer at any time. */
START_TEST(a_short_hold_is_not_watched)
{
	for (int i = 0; i < 99; i++) {
		ck_assert(!memory_world_cancel(world->memory, "db-1-A"));
		world_pass(world, MS);
	}
	give_back(2);
	for (int i = 0; i < 200; i++) {
		ck_assert(!memory_world_cancel(world->memory, "db-1-A"));
		world_pass(world, MS);
	}
	/* A longer one is. */
	world_acquire(world, 0, 1, 3, "db", 0);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NONE);
	world_pass(world, 100 * MS + SOON);
	ck_assert(memory_world_cancel(world->memory, "db-1-A"));
}
END_TEST

START_TEST(a_watch_ends_with_its_hold)
{
	world_pass(world, SECOND);
	give_back(2);
	ck_assert(!memory_world_cancel(world->memory, "db-1-A"));
	delete ();
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(revoked(), 0);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

/* Deleted and made again, and the watch missed both: the hold was never in danger. */
START_TEST(deleted_and_made_again_unheard)
{
	world_pass(world, SECOND);
	world->deaf = 1;
	delete ();
	world_make(world, "db", 1);
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(revoked(), 0);
	ck_assert_int_eq(verify(2), REASON_NONE);
	/* The next watch reports the next deletion. */
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, 0, "cut");
	world_pass(world, SOON);
	delete ();
	world_pass(world, SOON);
	ck_assert_int_eq(revoked(), 1);
}
END_TEST

/* Deleted without news: a check reports it. */
START_TEST(deleted_unheard)
{
	world_pass(world, SECOND);
	world->deaf = 1;
	delete ();
	world_pass(world, SECOND);
	ck_assert_int_eq(revoked(), 0);
	ck_assert_int_eq(verify(2), REASON_REVOKED);
	ck_assert_int_eq(revoked(), 1);
}
END_TEST

/* The channel of the check of A dies before it, at each step from the deletion on. */
START_TEST(revoked_under_a_dying_channel)
{
	world_pass(world, SECOND);
	delete ();
	for (int i = 0; i < _i; i++)
		world_step(world, SOON);
	/* Channels of the lock connection have even ids; one that is none is left alone. */
	for (uint64_t channel = 2; channel < 20; channel += 2)
		memory_broker_close_channel(
		    world->daemon[0].broker, channel, 406, "PRECONDITION_FAILED - timeout");
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(revoked(), 1);
	ck_assert_int_eq(verify(2), REASON_REVOKED);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
}
END_TEST

/* Its B is free then, and there is no A: nobody claims it, and nobody claims it over and over. */
START_TEST(a_revoked_slot_is_not_offered_when_it_is_released)
{
	unsigned asked;

	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	/* A gate keeps the name: else the waiter would be refused with no-such-lock. */
	memory_world_put(world->memory, "db-G", false);
	delete ();
	world_pass(world, SOON);
	ck_assert_int_eq(revoked(), 1);
	give_back(2);
	asked = world->asked;
	world_pass(world, 20 * SECOND);
	ck_assert_uint_lt(world->asked - asked, 20); /* a scan each rescan interval */
	ck_assert_ptr_null(world_answer(world, 0, 2, 1));
	ck_assert_int_eq(world_b_count(world), 0);
	world_make(world, "db", 1);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->slot, 1);
}
END_TEST

START_TEST(a_slot_that_comes_back_is_nobody_else_s_before_its_old_holder_is_gone)
{
	world_pass(world, SECOND);
	delete ();
	world_pass(world, SOON);
	world_make(world, "db", 1);
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(verify(2), REASON_REVOKED);
	for (int daemon = 0; daemon < DAEMONS; daemon++) {
		world_acquire(world, daemon, 3, 1, "db", 0);
		ck_assert_int_eq(world_await(world, daemon, 3, 1)->reason, REASON_WOULD_BLOCK);
	}
	world_acquire(world, 0, 4, 1, "db", DURATION_FOREVER);
	world_pass(world, 20 * SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 4, 1));
	ck_assert(world_b(world, "db", 1, 0));
	give_back(3);
	/* The daemon scans for the waiter at once. */
	world_pass(world, SOON);
	ck_assert_int_eq(world_answer(world, 0, 4, 1)->slot, 1);
	ck_assert_int_eq(revoked(), 1);
	ck_assert_int_eq(world_notices(world, 0, 4, LOCK_NOTICE_REVOKED), 0);
}
END_TEST

/* Every end of a hold at every step of a watch: nothing is left that could tell of it. */
START_TEST(let_go_at_every_step)
{
	world_pass(world, SECOND);
	delete ();
	for (int i = 0; i < _i; i++)
		world_step(world, SOON);
	lock_peer_gone(engine(0), 1);
	world_pass(world, 5 * SECOND);
	ck_assert_int_le(revoked(), 1);
	ck_assert_int_eq(world_b_count(world), 0);
	ck_assert(lock_quiet(engine(0)));
}
END_TEST

Suite *
suite_lock_watch(void)
{
	Suite *suite = suite_create("watch");
	TCase *tc = tcase_create("watch");

	tcase_add_checked_fixture(tc, setup, world_end);
	tcase_add_test(tc, a_deletion_is_told_at_once);
	tcase_add_test(tc, deleted_before_the_watch_is_there);
	tcase_add_test(tc, a_hint_without_a_deletion_changes_nothing);
	tcase_add_test(tc, deleted_while_the_auxiliary_connection_is_away);
	tcase_add_test(tc, deleted_while_their_channel_is_closed);
	tcase_add_test(tc, a_short_hold_is_not_watched);
	tcase_add_test(tc, a_watch_ends_with_its_hold);
	tcase_add_test(tc, deleted_and_made_again_unheard);
	tcase_add_test(tc, deleted_unheard);
	tcase_add_test(tc, a_revoked_slot_is_not_offered_when_it_is_released);
	tcase_add_test(tc, a_slot_that_comes_back_is_nobody_else_s_before_its_old_holder_is_gone);
	tcase_add_loop_test(tc, revoked_under_a_dying_channel, 0, 8);
	tcase_add_loop_test(tc, let_go_at_every_step, 0, 8);
	suite_add_tcase(suite, tc);
	return suite;
}
