/*
 * The channels of the lock connection: the limit of one user, and the waiters without a channel.
 * Every daemon of this world has a hundred.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/lock/objects.h"
#include "tests/unit/lock_fixture.h"
#include "tests/unit/test_lock.h"

#define CHANNELS 100
#define RESERVE 40

/* Users; an administrator has the uid of ALICE, too. */
enum user { ALICE = 1000, BOB = 1001, ADMIN = 1 };

static void
send_as(
    int daemon, enum user user, uint64_t peer, uint64_t request, const char *name, int64_t timeout)
{
	const struct lock_acquire acquire = {.name = name,
	    .kind = LOCK_KIND_SEMAPHORE,
	    .timeout = timeout,
	    .uid = user == ADMIN ? ALICE : (uid_t)user,
	    .exempt = user == ADMIN};

	lock_acquire(engine(daemon), peer, request, &acquire);
}

static const struct said *
try_as(int daemon, enum user user, uint64_t peer, uint64_t request, const char *name)
{
	send_as(daemon, user, peer, request, name, TRY);
	return world_await(world, daemon, peer, request);
}

/* So many slots of "big" for the user's peer, by requests 1, 2, ...; returns the first lock. */
static uint64_t
take(int daemon, enum user user, uint64_t peer, unsigned count)
{
	uint64_t first = 0;

	for (unsigned i = 1; i <= count; i++) {
		const struct said *answer = try_as(daemon, user, peer, i, "big");

		ck_assert_int_eq(answer->reason, REASON_NONE);
		if (i == 1)
			first = answer->lock;
	}
	return first;
}

static void
set_reserve(size_t reserve)
{
	struct lock_settings settings = world_settings;

	settings.channels_reserve = reserve;
	for (int i = 0; i < DAEMONS; i++)
		lock_engine_set(engine(i), &settings);
}

static void
begin(void)
{
	world_begin_with_db();
	world_make(world, "big", CHANNELS + 20);
	set_reserve(RESERVE);
}

START_TEST(one_user_leaves_channels_to_others)
{
	unsigned granted = 0;

	for (uint64_t i = 1; i <= CHANNELS; i++) {
		const struct said *answer = try_as(0, ALICE, 1 + i % 2, i, "big");

		granted += answer->reason == REASON_NONE;
		if (answer->reason == REASON_NONE)
			continue;
		ck_assert_int_eq(answer->reason, REASON_TOO_MANY_LOCKS);
		ck_assert_ptr_nonnull(strstr(answer->text, "user 1000 uses 60 channels"));
	}
	ck_assert_uint_eq(granted, CHANNELS - RESERVE);
	ck_assert_int_eq(try_as(0, BOB, 3, 1, "db")->reason, REASON_NONE);
	ck_assert_int_eq(try_as(0, ADMIN, 4, 1, "big")->reason, REASON_NONE);
	/* A lock without a slot takes no channel. */
	ck_assert(memory_world_put(world->memory, "free-U", false));
	ck_assert_int_eq(try_as(0, ALICE, 1, 999, "free")->reason, REASON_NONE);
	/* And where all is busy that is what is said. */
	ck_assert_int_eq(try_as(0, BOB, 3, 2, "db")->reason, REASON_WOULD_BLOCK);
	ck_assert_int_eq(try_as(0, ALICE, 1, 1000, "db")->reason, REASON_WOULD_BLOCK);
}
END_TEST

/* A reserve as large as the broker's limit would leave nothing to anybody. */
START_TEST(a_small_limit_of_the_broker_is_halved_at_most)
{
	set_reserve(256);
	take(0, ALICE, 1, CHANNELS / 2);
	ck_assert_int_eq(try_as(0, ALICE, 1, 999, "big")->reason, REASON_TOO_MANY_LOCKS);
	ck_assert_int_eq(try_as(0, BOB, 2, 1, "big")->reason, REASON_NONE);
}
END_TEST

START_TEST(a_reload_lets_starving_waiters_in)
{
	take(0, ALICE, 1, CHANNELS - RESERVE);
	send_as(0, ALICE, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 2, 1));
	set_reserve(RESERVE - 1);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

/* Waiters were refused at the moment in which their slot became free. */
START_TEST(a_waiter_waits_while_no_channel_is_free)
{
	uint64_t first = take(0, ADMIN, 1, CHANNELS), theirs = acquire(1, 1, 1, "db", TRY)->lock;

	send_as(0, BOB, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(1, 1, 2, theirs);
	world_pass(world, 20 * SECOND);
	ck_assert(is_waiting(0, 2, 1));
	ck_assert_int_eq(try_as(0, BOB, 3, 1, "db")->reason, REASON_TOO_MANY_LOCKS);
	ck_assert_ptr_nonnull(strstr(now(0, 3, 1)->text, "all 100 channels"));
	release(0, 1, 999, first);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

/* Also when the slot was free all the time, so that nobody tells of it. */
START_TEST(a_newcomer_waits_while_no_channel_is_free)
{
	uint64_t first = take(0, ADMIN, 1, CHANNELS);

	send_as(0, BOB, 2, 1, "db", DURATION_FOREVER);
	send_as(0, BOB, 2, 2, "db", 3 * SECOND);
	world_pass(world, 2 * SECOND);
	ck_assert(is_waiting(0, 2, 1) && is_waiting(0, 2, 2));
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(now(0, 2, 2)->reason, REASON_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(now(0, 2, 2)->text, "all 100 channels"));
	release(0, 1, 999, first);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

/* A slot must not stay free for the sake of a daemon that has no channel for it. */
START_TEST(a_slot_without_a_channel_here_goes_to_another_daemon)
{
	uint64_t first = take(0, ADMIN, 1, CHANNELS), lock = acquire(1, 1, 1, "db", TRY)->lock;

	send_as(0, BOB, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	for (uint64_t i = 1; i <= 4; i++) {
		send_as(2, BOB, 3, i, "db", DURATION_FOREVER);
		world_pass(world, SECOND);
		release(i == 1 ? 1 : 2, i == 1 ? 1 : 3, 100 + i, lock);
		world_pass(world, 100 * MS);
		lock = now(2, 3, i)->lock;
	}
	release(0, 1, 999, first);
	world_pass(world, 100 * MS);
	ck_assert(is_waiting(0, 2, 1));
	release(2, 3, 999, lock);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_starving_waiter_does_not_stop_those_behind)
{
	uint64_t first = take(0, ALICE, 1, CHANNELS - RESERVE);
	uint64_t theirs = acquire(1, 1, 1, "db", TRY)->lock;

	send_as(0, ALICE, 2, 1, "db", DURATION_FOREVER);
	send_as(0, BOB, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(1, 1, 2, theirs);
	world_pass(world, 100 * MS);
	ck_assert(is_waiting(0, 2, 1));
	release(0, 3, 2, now(0, 3, 1)->lock);
	world_pass(world, 100 * MS);
	ck_assert(is_waiting(0, 2, 1));
	release(0, 1, 999, first);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(the_longest_starving_waiter_is_served_first)
{
	uint64_t first = take(0, ALICE, 1, CHANNELS - RESERVE);

	world_make(world, "one", 1);
	world_make(world, "two", 1);
	send_as(0, ALICE, 2, 1, "one", DURATION_FOREVER);
	world_pass(world, 10 * MS);
	send_as(0, ALICE, 2, 2, "two", DURATION_FOREVER);
	send_as(0, ALICE, 2, 3, "db", DURATION_FOREVER);
	world_pass(world, 10 * MS);
	/* The first starving waiter does not need a channel any more. */
	ck_assert(memory_world_put(world->memory, "one-1-B", true));
	release(0, 1, 999, first);
	world_pass(world, 100 * MS);
	ck_assert(is_waiting(0, 2, 1) && is_waiting(0, 2, 3));
	release(0, 2, 999, now(0, 2, 2)->lock);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 2, 3)->reason, REASON_NONE);
	ck_assert(is_waiting(0, 2, 1));
}
END_TEST

/*
 * Without a channel, Alice waits five times for a name with many free slots, and then `other` once
 * for db. Peer 1 holds all channels, the first by that lock, and gives two of them back: each name
 * gets one.
 */
static void
check_that_names_take_turns(uint64_t first, uid_t other)
{
	world_make(world, "many", 10);
	for (uint64_t i = 1; i <= 5; i++)
		send_as(0, ALICE, 2, i, "many", DURATION_FOREVER);
	world_pass(world, 10 * MS);
	send_as(0, other, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, 10 * MS);
	release(0, 1, 999, first);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
	release(0, 1, 1000, now(0, 1, 2)->lock);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NONE);
}

START_TEST(a_name_that_was_served_is_behind_the_others)
{
	check_that_names_take_turns(take(0, ALICE, 1, CHANNELS - RESERVE), ALICE);
	ck_assert(is_waiting(0, 2, 2));
	release(0, 1, 1001, now(0, 1, 3)->lock);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 2, 2)->reason, REASON_NONE);
}
END_TEST

/* The same where there is no channel for anybody. */
START_TEST(a_name_that_had_the_last_channel_is_behind_the_others)
{
	check_that_names_take_turns(take(0, ADMIN, 1, CHANNELS), BOB);
}
END_TEST

/* Its user may have a channel again, there is none, and meanwhile the slot is busy. */
START_TEST(a_waiter_that_gets_a_channel_is_told_of_the_slot)
{
	uint64_t first, theirs;

	take(0, ALICE, 1, CHANNELS - RESERVE);
	first = take(0, ADMIN, 2, RESERVE);
	send_as(0, ALICE, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	theirs = acquire(1, 1, 1, "db", TRY)->lock;
	world_pass(world, 2 * world_settings.rescan_interval);
	set_reserve(RESERVE - 1);
	world_pass(world, SECOND);
	release(0, 2, 999, first);
	world_pass(world, 100 * MS);
	ck_assert(is_waiting(0, 3, 1));
	release(1, 1, 2, theirs);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NONE);
}
END_TEST

/*
 * A daemon without a channel left the wait queue because of a hint, and sent the hint on. It joined
 * again when a scan found all slots busy. So the same hint came back as fast as the broker
 * answered.
 */
START_TEST(a_hint_for_which_no_channel_is_free_comes_once)
{
	uint64_t first = take(0, ALICE, 1, CHANNELS - RESERVE);
	uint64_t theirs = acquire(1, 1, 1, "db", TRY)->lock;

	send_as(0, ALICE, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 1);
	broker_wait_queue_wake(world->daemon[1].broker, "db-W", 1);
	world_pass(world, 10 * MS);
	ck_assert_int_eq(try_as(0, ALICE, 3, 1, "db")->reason, REASON_WOULD_BLOCK);
	world_pass(world, 2 * world_settings.rescan_interval);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 0);
	release(0, 1, 999, first);
	world_pass(world, 10 * MS);
	ck_assert_uint_eq(memory_world_members(world->memory, "db-W"), 1);
	release(1, 1, 2, theirs);
	world_pass(world, 10 * MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

/*
 * Without a place in a wait queue nothing keeps the auxiliary connection up: that it is down says
 * nothing.
 */
START_TEST(a_starving_waiter_sees_that_the_limit_is_gone)
{
	struct lock_acquire mutex = {.kind = LOCK_KIND_MUTEX, .exempt = true};
	char name[16];

	/* Of these nothing is watched. */
	for (uint64_t i = 1; i <= CHANNELS; i++) {
		snprintf(name, sizeof(name), "m%d", (int)i);
		mutex.name = name;
		lock_acquire(engine(0), 1, i, &mutex);
	}
	send_as(0, BOB, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	memory_broker_cut(world->daemon[0].broker, BROKER_AUXILIARY, 0, SECOND, "cut");
	ck_assert(memory_world_put(world->memory, "db-U", false));
	world_pass(world, 2 * world_settings.rescan_interval);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_slot_that_is_handed_off_is_counted_for_its_new_holder)
{
	uint64_t lock = try_as(0, ALICE, 1, 999, "db")->lock;

	take(0, ALICE, 2, CHANNELS - RESERVE - 1);
	/* To the same user: nobody has one more. */
	send_as(0, ALICE, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(0, 1, 1000, lock);
	lock = now(0, 3, 1)->lock;
	ck_assert_int_eq(try_as(0, ALICE, 2, 998, "big")->reason, REASON_TOO_MANY_LOCKS);
	/* To another. */
	send_as(0, BOB, 4, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(0, 3, 2, lock);
	lock = now(0, 4, 1)->lock;
	ck_assert_int_eq(try_as(0, ALICE, 2, 997, "big")->reason, REASON_NONE);
	ck_assert_int_eq(try_as(0, ALICE, 2, 996, "big")->reason, REASON_TOO_MANY_LOCKS);
	/* And back, which the limit forbids, until there is room. */
	send_as(0, ALICE, 5, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(0, 4, 2, lock);
	world_pass(world, 20 * SECOND);
	ck_assert(is_waiting(0, 5, 1));
	ck_assert_int_eq(try_as(0, BOB, 4, 3, "db")->reason, REASON_NONE);
	lock_peer_gone(engine(0), 2);
	world_pass(world, 100 * MS);
	ck_assert(is_waiting(0, 5, 1));
	release(0, 4, 4, now(0, 4, 3)->lock);
	ck_assert_int_eq(now(0, 5, 1)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_hand_off_needs_no_channel)
{
	uint64_t lock = acquire(0, 1, 999, "db", TRY)->lock;

	take(0, ADMIN, 2, CHANNELS - 1);
	send_as(0, BOB, 3, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(0, 1, 1000, lock);
	ck_assert_int_eq(now(0, 3, 1)->reason, REASON_NONE);
}
END_TEST

/* Else a user hangs up and comes again before its channels are free. */
START_TEST(a_hold_counts_until_its_channel_is_free)
{
	take(0, ALICE, 1, CHANNELS - RESERVE);
	lock_peer_gone(engine(0), 1);
	for (uint64_t i = 1; i <= CHANNELS; i++)
		send_as(0, ALICE, 2, i, "big", DURATION_FOREVER);
	while (world_step(world, SECOND))
		ck_assert_int_le(world_b_count(world), CHANNELS - RESERVE);
	ck_assert_int_eq(world_b_count(world), CHANNELS - RESERVE);
}
END_TEST

START_TEST(a_starving_waiter_ends_in_every_way)
{
	uint64_t first = take(0, ALICE, 1, CHANNELS - RESERVE);
	struct lock_counts counts;

	send_as(0, ALICE, 2, 1, "db", DURATION_FOREVER);
	send_as(0, ALICE, 3, 1, "db", DURATION_FOREVER);
	send_as(0, ALICE, 4, 1, "db", 2 * SECOND);
	world_pass(world, SECOND);
	ck_assert(lock_cancel(engine(0), 2, 1));
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_CANCELLED);
	lock_peer_gone(engine(0), 3);
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(now(0, 4, 1)->reason, REASON_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(now(0, 4, 1)->text, "user 1000 uses 60 channels"));
	release(0, 1, 999, first);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 3, 1));
	send_as(0, ALICE, 5, 1, "db", DURATION_FOREVER);
	ck_assert_int_eq(world_await(world, 0, 5, 1)->reason, REASON_NONE);
	/* The link ends with all holds: a starving waiter is served on the next one. */
	send_as(0, ALICE, 6, 1, "big", DURATION_FOREVER);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 6, 1));
	memory_broker_cut(world->daemon[0].broker, BROKER_LOCKS, 0, SECOND, "cut");
	ck_assert_int_eq(world_await(world, 0, 6, 1)->reason, REASON_NONE);
	take(0, ALICE, 7, CHANNELS - RESERVE - 1);
	ck_assert_int_eq(try_as(0, ALICE, 7, 999, "big")->reason, REASON_TOO_MANY_LOCKS);
	for (uint64_t peer = 1; peer <= 7; peer++)
		lock_peer_gone(engine(0), peer);
	world_pass(world, SECOND);
	ck_assert(lock_quiet(engine(0)));
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.waiting + counts.holds + counts.in_flight, 0);
}
END_TEST

/*
 * Nothing can be seen during an alarm: slots are claimed unseen, now and then, as far as there are
 * channels.
 */
START_TEST(a_waiter_starving_in_an_alarm_is_served_in_it)
{
	uint64_t first = take(0, ALICE, 1, CHANNELS - RESERVE);

	memory_world_block(world->memory, true);
	send_as(0, ALICE, 2, 1, "db", DURATION_FOREVER);
	send_as(0, BOB, 3, 1, "db", DURATION_FOREVER);
	release(0, 3, 2, world_await(world, 0, 3, 1)->lock);
	world_pass(world, 20 * SECOND);
	ck_assert(is_waiting(0, 2, 1));
	ck_assert_int_eq(try_as(0, ALICE, 4, 1, "db")->reason, REASON_TOO_MANY_LOCKS);
	release(0, 1, 999, first);
	world_pass(world, world_settings.rescan_interval + 100 * MS);
	ck_assert_int_eq(now(0, 2, 1)->reason, REASON_NONE);
}
END_TEST

static double
cpu(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

/*
 * So many waiters of one user starve before those of another user. The other user's waiters hand
 * slots off in many ways.
 */
static double
pass_by(uint64_t starving)
{
	double began;
	uint64_t lock, last;

	begin();
	last = take(0, ALICE, 1, CHANNELS - RESERVE);
	lock = acquire(1, 1, 1, "db", TRY)->lock;
	for (uint64_t i = 0; i < starving; i++)
		send_as(0, ALICE, 100 + i / 1000, 1 + i % 1000, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	release(1, 1, 2, lock);
	world_pass(world, SECOND);
	began = cpu();
	for (uint64_t i = 0; i < 300; i++) {
		/* Handed off here; then freed at the broker; and a channel comes and goes. */
		lock = try_as(0, BOB, 2, 3 * i + 1, "db")->lock;
		ck_assert_uint_ne(lock, 0);
		send_as(0, BOB, 3, 2 * i + 1, "db", DURATION_FOREVER);
		release(0, 2, 3 * i + 2, lock);
		ck_assert_int_eq(now(0, 3, 2 * i + 1)->reason, REASON_NONE);
		release(0, 1, 1000 + 2 * i, last);
		last = try_as(0, ALICE, 1, 1001 + 2 * i, "big")->lock;
		ck_assert_uint_ne(last, 0);
		release(0, 3, 2 * i + 2, now(0, 3, 2 * i + 1)->lock);
		world->said_count = 0;
	}
	began = cpu() - began;
	world_end();
	return began;
}

START_TEST(starving_waiters_cost_nothing_while_others_are_served)
{
	double few = pass_by(10), many = pass_by(20000);

	for (int i = 0; i < 2 && many > 5 * few; i++)
		many = pass_by(20000);
	ck_assert_msg(many <= 5 * few, "%.3f s with 20000 waiters, %.3f s with 10", many, few);
}
END_TEST

/* Holds by consumer need one channel for the checks of their slot queues. */
START_TEST(all_channels_at_once_leave_one_for_checks)
{
	char queue[20];
	int granted = 0;

	for (int slot = 1; slot <= CHANNELS + 5; slot++) {
		snprintf(queue, sizeof(queue), "many-%d-B", slot);
		ck_assert(memory_world_put_holder(world->memory, queue));
		ck_assert(memory_world_hold(world->memory, queue));
		snprintf(queue, sizeof(queue), "many-%d-A", slot);
		ck_assert(memory_world_put(world->memory, queue, false));
	}
	/* All of them are known after that. */
	ck_assert_int_eq(try_as(0, ADMIN, 1, 1000, "many")->reason, REASON_WOULD_BLOCK);
	for (int slot = 1; slot <= CHANNELS + 5; slot++) {
		snprintf(queue, sizeof(queue), "many-%d-B", slot);
		ck_assert(memory_world_let_go(world->memory, queue));
	}
	for (uint64_t i = 1; i <= CHANNELS + 5; i++)
		send_as(0, ADMIN, 1, i, "many", DURATION_FOREVER);
	world_pass(world, 2 * SECOND);
	for (uint64_t i = 1; i <= CHANNELS + 5; i++)
		granted += !is_waiting(0, 1, i);
	ck_assert_int_eq(granted, CHANNELS - 1);
	lock_verify(engine(0), 1, 1001, now(0, 1, 1)->lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 1001)->reason, REASON_NONE);
}
END_TEST

/* Thousands of channels may close in one moment. */
START_TEST(a_hold_is_found_by_its_channel_without_a_search)
{
	static const struct queue_name b[] = {{"db-1-B"}, {"db-2-B"}};
	struct hold_table table = {.by_id = NULL};
	struct hold *holds[2], *all;

	hold_table_init(&table, NULL);
	for (int i = 0; i < 2; i++)
		holds[i] = hold_new(&table, (uint64_t)i + 1, &b[i], "db", LOCK_KIND_SEMAPHORE,
		    i + 1, BROKER_BY_QUEUE);
	/* The list of all holds is out of reach. */
	all = table.by_id;
	table.by_id = NULL;
	ck_assert_ptr_null(hold_find_channel(&table, 0));
	hold_set_channel(&table, holds[0], 7);
	hold_set_channel(&table, holds[1], 8);
	ck_assert_ptr_eq(hold_find_channel(&table, 7), holds[0]);
	ck_assert_ptr_eq(hold_find_channel(&table, 8), holds[1]);
	hold_set_channel(&table, holds[0], 0);
	ck_assert_ptr_null(hold_find_channel(&table, 7));
	ck_assert_ptr_null(hold_find_channel(&table, 0));
	hold_set_channel(&table, holds[1], 7);
	ck_assert_ptr_null(hold_find_channel(&table, 8));
	table.by_id = all;
	hold_free(&table, holds[1]);
	ck_assert_ptr_null(hold_find_channel(&table, 7));
	hold_free(&table, holds[0]);
}
END_TEST

Suite *
suite_lock_channels(void)
{
	Suite *suite = suite_create("lock: channels");
	TCase *tc = tcase_create("channels"), *costs = tcase_create("costs");

	tcase_add_checked_fixture(tc, begin, world_end);
	tcase_add_test(tc, one_user_leaves_channels_to_others);
	tcase_add_test(tc, a_small_limit_of_the_broker_is_halved_at_most);
	tcase_add_test(tc, a_reload_lets_starving_waiters_in);
	tcase_add_test(tc, a_waiter_waits_while_no_channel_is_free);
	tcase_add_test(tc, a_newcomer_waits_while_no_channel_is_free);
	tcase_add_test(tc, a_slot_without_a_channel_here_goes_to_another_daemon);
	tcase_add_test(tc, a_starving_waiter_does_not_stop_those_behind);
	tcase_add_test(tc, the_longest_starving_waiter_is_served_first);
	tcase_add_test(tc, a_name_that_was_served_is_behind_the_others);
	tcase_add_test(tc, a_name_that_had_the_last_channel_is_behind_the_others);
	tcase_add_test(tc, a_waiter_that_gets_a_channel_is_told_of_the_slot);
	tcase_add_test(tc, a_hint_for_which_no_channel_is_free_comes_once);
	tcase_add_test(tc, a_starving_waiter_sees_that_the_limit_is_gone);
	tcase_add_test(tc, a_slot_that_is_handed_off_is_counted_for_its_new_holder);
	tcase_add_test(tc, a_hand_off_needs_no_channel);
	tcase_add_test(tc, a_hold_counts_until_its_channel_is_free);
	tcase_add_test(tc, a_starving_waiter_ends_in_every_way);
	tcase_add_test(tc, a_waiter_starving_in_an_alarm_is_served_in_it);
	tcase_add_test(tc, all_channels_at_once_leave_one_for_checks);
	tcase_add_test(tc, a_hold_is_found_by_its_channel_without_a_search);
	suite_add_tcase(suite, tc);
	tcase_add_test(costs, starving_waiters_cost_nothing_while_others_are_served);
	suite_add_tcase(suite, costs);
	return suite;
}
