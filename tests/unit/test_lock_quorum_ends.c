/*
 * Unclean ends of holds by quorum, over the server in memory: reclaims, many graces at once, channels that do not
 * close, and rotations. T is 20 s.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/broker/beads.h"
#include "tests/unit/quorum_fixture.h"
#include "tests/unit/test_lock.h"

#define HEARTBEAT (10 * SECOND)
#define MANY 1000

static const char b[] = "lockbroker=q=db=1";

static struct broker_quorum_info
info(int daemon)
{
	struct broker_quorum_info info;

	broker_get_quorum(world->daemon[daemon].broker, &info);
	return info;
}

/* ---- reclaims (rule 8) ---- */

/* Daemon 1 gets the slot by a try, within a second and without a grace. Its number is larger. */
static void
assert_clean(uint64_t fence)
{
	const struct said *answer;

	world_pass(world, SECOND);
	answer = take(1, 70, TRY);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_gt(answer->fence, fence);
}

START_TEST(a_slot_is_reclaimed_when_its_holder_stops)
{
	const struct said *answer;
	uint64_t fence, lock;

	make_slots(1);
	answer = take(0, 1, TRY);
	fence = answer->fence;
	lock = answer->lock;
	abandon(0);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
	world_pass(world, 3 * SECOND);
	/* It releases what it has lost. Or it hangs up, and perhaps works on up to the end of its lease. */
	if (_i == 0) {
		lock_release(engine(0), 1, 2, lock);
	} else {
		lock_peer_gone(engine(0), 1);
		world_pass(world, LEASE - 5 * SECOND);
		ck_assert_uint_eq(info(0).reclaimed, 0);
		world_pass(world, 2 * SECOND);
	}
	assert_clean(fence);
	ck_assert_uint_eq(info(0).reclaimed, 1);
}
END_TEST

static void
set_links(int daemon, bool up)
{
	for (int link = BROKER_LOCKS; link < BROKER_QUORUM + 2; link++) {
		if (up)
			memory_broker_restore(world->daemon[daemon].broker, link);
		else
			memory_broker_cut(world->daemon[daemon].broker, link, 0, -1, "restart");
	}
}

/* The server keeps the beads, and returns them. It is away for a while. */
START_TEST(a_restart_of_the_broker_costs_no_grace)
{
	uint64_t fence;

	make_slots(2);
	fence = take(0, 1, TRY)->fence;
	ck_assert_int_eq(take(0, 2, TRY)->slot, 2);
	memory_world_restart(world->memory);
	set_links(0, false);
	set_links(1, false);
	world_pass(world, LEASE + SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 1);
	lock_peer_gone(engine(0), 1);
	lock_peer_gone(engine(0), 2);
	world_pass(world, 90 * SECOND);
	set_links(0, true);
	set_links(1, true);
	world_pass(world, 60 * SECOND);
	assert_clean(fence);
	ck_assert_int_eq(take(1, 71, TRY)->slot, 2);
}
END_TEST

START_TEST(a_waiter_here_is_granted_when_the_holder_stops)
{
	const struct said *answer;
	uint64_t lock;
	int64_t began;

	make_slots(1);
	lock = take(0, 1, TRY)->lock;
	world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	abandon(0);
	world_pass(world, 3 * SECOND);
	ck_assert_ptr_null(world_answer(world, 0, 2, 1));
	ck_assert_uint_eq(info(0).graces, 1);
	began = world->now;
	lock_release(engine(0), 1, 2, lock);
	answer = world_await(world, 0, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_le(waited(answer, began), SECOND);
	ck_assert_uint_eq(info(0).graces, 0);
}
END_TEST

/* Somebody else held it, and perhaps still does. */
START_TEST(a_slot_that_was_used_since_is_not_reclaimed)
{
	uint64_t lock;
	int64_t began;

	make_slots(1);
	lock = take(0, 1, TRY)->lock;
	abandon(0);
	ck_assert_int_eq(take(1, 2, DURATION_FOREVER)->reason, REASON_NONE);
	world_kill(world, 1);
	began = world->now;
	lock_release(engine(0), 1, 2, lock);
	ck_assert_int_ge(waited(take(2, 3, DURATION_FOREVER), began), T - SOON);
}
END_TEST

/* The answer to the flip is late, so that the release is not proved. Or the flip itself is lost. */
START_TEST(a_release_without_a_proof_is_reclaimed)
{
	const struct said *answer;
	uint64_t fence;

	make_slots(1);
	answer = take(0, 1, TRY);
	fence = answer->fence;
	if (_i == 0)
		memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_LOST);
	else
		memory_world_delay_deliveries(world->memory, b, true);
	lock_release(engine(0), 1, 2, answer->lock);
	world_pass(world, SOON);
	ck_assert_ptr_null(world_answer(world, 0, 1, 2));
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_TAKEN);
	memory_world_delay_deliveries(world->memory, b, false);
	assert_clean(fence);
}
END_TEST

/* A daemon that stops in order waits for its reclaims. */
START_TEST(a_daemon_is_quiet_after_its_reclaims)
{
	const struct said *answer;
	uint64_t fence;

	make_slots(1);
	answer = take(0, 1, TRY);
	fence = answer->fence;
	abandon(0);
	lock_drain(engine(0));
	lock_release(engine(0), 1, 2, answer->lock);
	ck_assert(!lock_quiet(engine(0)));
	for (int i = 0; i < 100 && !lock_quiet(engine(0)); i++)
		world_pass(world, SOON);
	ck_assert(lock_quiet(engine(0)));
	world_kill(world, 0);
	assert_clean(fence);
}
END_TEST

/* ---- holds that go on (rule 8) ---- */

static int
notices(enum lock_notice_kind kind)
{
	return world_notices(world, 0, 1, kind);
}

/* Nothing was in flight, or a renewal that the server performed, or not. */
START_TEST(a_hold_outlives_its_connection)
{
	const struct said *answer;
	uint64_t fence, lock;

	make_slots(1);
	answer = take(0, 1, TRY);
	fence = answer->fence;
	lock = answer->lock;
	if (_i == 1)
		memory_world_delay_deliveries(world->memory, b, true);
	if (_i == 2)
		memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_LOST);
	lock_verify(engine(0), 1, 2, lock, 0);
	world_pass(world, SOON);
	sever(0);
	memory_world_delay_deliveries(world->memory, b, false);
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_TAKEN);
	ck_assert_int_eq(notices(LOCK_NOTICE_SUSPECT), 1);
	world_pass(world, SECOND);
	ck_assert_int_eq(notices(LOCK_NOTICE_RESTORED), 0);
	join(0);
	world_pass(world, SECOND);
	ck_assert_int_eq(notices(LOCK_NOTICE_RESTORED), 1);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	world_pass(world, 2 * LEASE);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 0);
	lock_verify(engine(0), 1, 3, lock, 0);
	answer = world_await(world, 0, 1, 3);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_uint_gt(answer->fence, fence);
	fence = answer->fence;
	ck_assert_int_eq(take(1, 2, TRY)->reason, REASON_WOULD_BLOCK);
	release(0, 1, 4, lock);
	assert_clean(fence);
}
END_TEST

/* Its channel alone ends. */
START_TEST(a_hold_outlives_its_channel)
{
	uint64_t lock;

	make_slots(1);
	lock = take(0, 1, TRY)->lock;
	memory_broker_close_holds(world->daemon[0].broker);
	world_pass(world, SECOND);
	ck_assert_int_eq(notices(LOCK_NOTICE_SUSPECT), 1);
	ck_assert_int_eq(notices(LOCK_NOTICE_RESTORED), 1);
	world_pass(world, 2 * LEASE);
	lock_verify(engine(0), 1, 3, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NONE);
}
END_TEST

/* A link between two nodes is reset. The beads come anew on the same channel. A renewal may be unanswered. */
START_TEST(a_hold_outlives_the_suspension_of_its_consumer)
{
	const struct said *granted, *verified;
	uint64_t fence;

	make_slots(1);
	granted = take(0, 1, TRY);
	if (_i == 1) {
		memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_DELAYED);
		lock_verify(engine(0), 1, 7, granted->lock, 0);
		world_pass(world, SOON);
	}
	ck_assert(memory_world_suspend(world->memory, b));
	world_pass(world, SOON);
	ck_assert(memory_world_resume(world->memory, b));
	memory_world_set_rejects(world->memory, b, MEMORY_REJECTS_TAKEN);
	memory_world_resend(world->memory, b);
	world_pass(world, 2 * LEASE);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 0);
	lock_verify(engine(0), 1, 3, granted->lock, 0);
	verified = world_await(world, 0, 1, 3);
	ck_assert_int_eq(verified->reason, REASON_NONE);
	ck_assert_uint_gt(verified->fence, granted->fence);
	fence = verified->fence;
	release(0, 1, 2, granted->lock);
	world_pass(world, SOON);
	ck_assert_uint_gt(take(1, 2, TRY)->fence, fence);
}
END_TEST

/* A rival waits, and has the beads. */
START_TEST(a_hold_with_a_rival_ends_with_its_lease)
{
	const struct said *answer;
	int64_t until, began;

	make_slots(1);
	until = take(0, 1, TRY)->safe_until;
	sever(0);
	began = world->now;
	world_acquire(world, 1, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	join(0);
	world_pass(world, until - world->now - SOON);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 0);
	world_pass(world, 2 * SOON);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 1);
	answer = world_await(world, 1, 2, 1);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_ge(waited(answer, began), T);
	ck_assert_int_eq(notices(LOCK_NOTICE_RESTORED), 0);
}
END_TEST

/* A rival was there, and is gone. */
START_TEST(a_hold_with_other_counts_ends_at_once)
{
	make_slots(1);
	(void)take(0, 1, TRY);
	sever(0);
	world_acquire(world, 1, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	world_kill(world, 1);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 0);
	join(0);
	world_pass(world, SECOND);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(notices(LOCK_NOTICE_RESTORED), 0);
}
END_TEST

/* The connections come back too late. */
START_TEST(a_hold_without_a_connection_ends_with_its_lease)
{
	int64_t until;

	make_slots(1);
	until = take(0, 1, TRY)->safe_until;
	sever(0);
	world_pass(world, until - world->now - SOON);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 0);
	world_pass(world, 2 * SOON);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 1);
	join(0);
	world_pass(world, 2 * LEASE);
	ck_assert_int_eq(notices(LOCK_NOTICE_RESTORED), 0);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 1);
	ck_assert_uint_eq(info(0).reclaimed, 0);
}
END_TEST

/* Nothing is handed off or proved meanwhile. The slot is clean when the connection is back. */
START_TEST(a_suspect_hold_is_released)
{
	const struct said *answer;
	uint64_t fence;

	make_slots(1);
	answer = take(0, 1, TRY);
	fence = answer->fence;
	if (_i == 1)
		world_acquire(world, 0, 2, 1, "db", DURATION_FOREVER);
	world_pass(world, SECOND);
	sever(0);
	lock_release(engine(0), 1, 2, now(0, 1, 1)->lock);
	world_pass(world, SECOND);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	ck_assert_uint_eq(info(0).reclaimed, 0);
	join(0);
	if (_i == 0) {
		assert_clean(fence);
		return;
	}
	ck_assert_ptr_null(world_answer(world, 0, 2, 1));
	world_pass(world, 3 * SECOND);
	ck_assert_uint_gt(now(0, 2, 1)->fence, fence);
}
END_TEST

/* Asks for all slots, and returns how long the last answer took. */
static int64_t
acquire_all(int daemon, uint64_t peer, int slots, int64_t most)
{
	int64_t began = world->now;
	int granted = 0;

	for (int i = 1; i <= slots; i++)
		world_acquire(world, daemon, peer, (uint64_t)i, "db", DURATION_FOREVER);
	while (granted < slots) {
		const struct said *answer =
		    world_answer(world, daemon, peer, (uint64_t)granted + 1);

		ck_assert_msg(world->now - began <= most, "%d of %d slots after %lld s", granted,
		    slots, (long long)((world->now - began) / SECOND));
		if (answer == NULL) {
			world_pass(world, SOON);
			continue;
		}
		ck_assert_int_eq(answer->reason, REASON_NONE);
		granted++;
	}
	return world->now - began;
}

#define ROLLED 50

START_TEST(a_short_restart_of_the_broker_costs_no_hold)
{
	make_slots(ROLLED);
	(void)acquire_all(0, 1, ROLLED, 60 * SECOND);
	memory_world_restart(world->memory);
	set_links(0, false);
	set_links(1, false);
	world_pass(world, 4 * SECOND);
	set_links(0, true);
	set_links(1, true);
	world_pass(world, 2 * LEASE);
	ck_assert_int_eq(notices(LOCK_NOTICE_RESTORED), ROLLED);
	ck_assert_int_eq(notices(LOCK_NOTICE_LOST), 0);
}
END_TEST

/* ---- many at once ---- */

/* All connections of the daemon get as many channels as RabbitMQ has. */
static void
raise_limits(int daemon)
{
	struct broker *broker = world->daemon[daemon].broker;

	for (int link = BROKER_LOCKS; link < BROKER_QUORUM + 2; link++)
		if (link != BROKER_AUXILIARY)
			memory_broker_set_channels_max(broker, link, 2047);
	broker_reset(broker, BROKER_LOCKS, "more channels");
	world_pass(world, 5 * SECOND);
}

/* Their daemon is killed, or the broker restarts and their clients stop. */
START_TEST(a_thousand_slots_are_free_after_one_grace)
{
	make_slots(MANY);
	raise_limits(0);
	raise_limits(1);
	(void)acquire_all(0, 1, MANY, 60 * SECOND);
	if (_i == 0) {
		world_kill(world, 0);
		ck_assert_int_ge(acquire_all(1, 2, MANY, T + 5 * SECOND), T - SECOND);
		return;
	}
	memory_world_restart(world->memory);
	set_links(0, false);
	set_links(1, false);
	world_pass(world, SECOND);
	lock_peer_gone(engine(0), 1);
	set_links(0, true);
	set_links(1, true);
	/* They have hung up, so that their leases count. */
	world_pass(world, LEASE + 2 * SECOND);
	ck_assert_uint_eq(info(0).reclaimed, MANY);
	ck_assert_int_le(acquire_all(1, 2, MANY, 5 * SECOND), 5 * SECOND);
}
END_TEST

/* With 100 channels, a user has at most 50 graces, and the others still get what they want. */
START_TEST(the_graces_of_a_user_are_limited)
{
	const struct said *answer = NULL;
	int64_t began;
	size_t most = 0;

	make_slots(60);
	(void)acquire_all(0, 1, 60, 60 * SECOND);
	world_kill(world, 0);
	began = world->now;
	for (uint64_t i = 1; answer == NULL || answer->reason != REASON_NONE; i++) {
		answer = acquire(1, 2, i, "db", TRY);
		if (answer->reason != REASON_NONE && i > 1)
			ck_assert_int_gt(answer->free_in, 0);
		ck_assert_msg(answer->reason == REASON_NONE || answer->reason == REASON_WOULD_BLOCK,
		    "%d %s", answer->reason, answer->text);
		if (info(1).graces > most)
			most = info(1).graces;
		world_pass(world, SECOND);
		ck_assert_int_le(world->now - began, T + 5 * SECOND);
	}
	ck_assert_uint_eq(most, 50);
	(void)acquire_all(1, 3, 59, 2 * T + 5 * SECOND);
}
END_TEST

/* ---- channels that do not close ---- */

static void
on_claimed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	(void)id;
	ck_assert_int_ne(reply->answer, BROKER_OK);
}

/* Its consumer keeps the slot until its connection ends. */
START_TEST(a_channel_that_does_not_close_ends_with_its_connection)
{
	struct broker *broker = world->daemon[0].broker;

	make_slots(1);
	world->stuck = 1;
	broker_claim(broker, broker_channel_take_for(broker, BROKER_BY_QUORUM), BROKER_BY_QUORUM, b,
	    (struct broker_done){.fn = on_claimed});
	/* It is given up after a while. */
	world_pass(world, 10 * SECOND);
	ck_assert_int_eq(take(1, 3, TRY)->reason, REASON_WOULD_BLOCK);
	world_pass(world, 2 * HEARTBEAT);
	ck_assert_int_eq(take(1, 4, TRY)->slot, 1);
}
END_TEST

/* Its other holds do not keep it for ever. */
START_TEST(a_connection_with_holds_ends_later_for_a_silent_channel)
{
	struct broker *broker = world->daemon[0].broker;
	const struct said *answer;

	make_slots(3);
	ck_assert_int_eq(take(0, 1, TRY)->slot, 1);
	world->stuck = 1;
	broker_claim(broker, broker_channel_take_for(broker, BROKER_BY_QUORUM), BROKER_BY_QUORUM,
	    "lockbroker=q=db=2", (struct broker_done){.fn = on_claimed});
	/* It is given up after a while. */
	world_pass(world, 10 * SECOND);
	/* This one goes to the same connection. Later ones do not. */
	answer = take(0, 2, TRY);
	ck_assert_int_eq(answer->slot, 3);
	world_pass(world, 200 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 2, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(take(1, 3, TRY)->reason, REASON_WOULD_BLOCK);
	world_pass(world, 200 * SECOND);
	ck_assert_int_eq(world_notices(world, 0, 1, LOCK_NOTICE_LOST), 0);
	/* It goes on at the other connection. */
	ck_assert_int_eq(world_notices(world, 0, 2, LOCK_NOTICE_RESTORED), 1);
	ck_assert_int_eq(world_notices(world, 0, 2, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(take(1, 4, TRY)->slot, 2);
}
END_TEST

/* ---- rotations (rule 5) ---- */

#define HOLDS 2000

static unsigned long qos;

static void
on_performed(const struct memory_performed *what)
{
	qos += what->method == AMQP_BASIC_QOS_METHOD && what->link >= BROKER_QUORUM;
}

static void
on_answered(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)id;
	ck_assert_int_eq(reply->answer, BROKER_OK);
	*(bool *)ctx = true;
}

static void
await(bool *answered)
{
	for (int i = 0; i < 100 && !*answered; i++)
		world_pass(world, SOON / 20);
	ck_assert(*answered);
	*answered = false;
}

/* One in 500 short holds before 4.3, none since. Each has its barrier. All holds go on. */
START_TEST(few_short_holds_rotate)
{
	struct broker *broker;
	bool answered = false;
	const struct broker_done done = {on_answered, &answered, 1};

	memory_world_set_version(world->memory, 4, _i == 0 ? 2 : 3);
	for (int i = 0; i < DAEMONS; i++)
		world_kill(world, i);
	world_pass(world, 5 * SECOND);
	make_slots(1);
	broker = world->daemon[1].broker;
	qos = 0;
	world->on_performed = on_performed;
	for (int i = 0; i < HOLDS; i++) {
		uint64_t channel = broker_channel_take_for(broker, BROKER_BY_QUORUM);

		broker_claim(broker, channel, BROKER_BY_QUORUM, b, done);
		await(&answered);
		broker_check_holder(broker, channel, BROKER_BY_QUORUM, b, done);
		await(&answered);
		broker_drop(broker, channel, BROKER_BY_QUORUM, b, true, done);
		await(&answered);
	}
	/* Each claim has two: with the consume, and when it has the beads. */
	if (_i == 0) {
		ck_assert_uint_gt(qos, 2 * HOLDS);
		ck_assert_uint_lt(qos, 2 * HOLDS + 25);
	} else {
		ck_assert_uint_eq(qos, 2 * HOLDS);
	}
}
END_TEST

/* The beads come with a foreign message, which stands behind them in the queue: before 4.2.6 in reversed order. */
static void
claim_with_lost_deliveries(int daemon, uint64_t peer)
{
	memory_world_delay_deliveries(world->memory, b, true);
	world_acquire(world, daemon, peer, 1, "db", DURATION_FOREVER);
	world_pass(world, SOON);
	memory_world_fetch_deliveries(world->memory, b);
	memory_world_publish(world->memory, b, "foreign");
}

/* Its holder hears nothing, and believes in its hold. */
START_TEST(a_dirty_order_in_reverse_is_not_clean)
{
	int64_t began;

	memory_world_set_version(world->memory, 4, 1);
	make_slots(1);
	ck_assert_int_eq(take(0, 1, TRY)->reason, REASON_NONE);
	memory_world_suspend(world->memory, b);
	began = world->now;
	claim_with_lost_deliveries(1, 2);
	ck_assert_int_ge(waited(world_await(world, 1, 2, 1), began), T - SOON);
}
END_TEST

/* Read as dirty, it would be clean while it is held. */
START_TEST(a_clean_order_in_reverse_is_not_dirty)
{
	int64_t began;

	memory_world_set_version(world->memory, 4, 1);
	make_slots(1);
	began = world->now;
	claim_with_lost_deliveries(1, 2);
	ck_assert_int_lt(waited(world_await(world, 1, 2, 1), began), SECOND);
	world_kill(world, 1);
	began = world->now;
	ck_assert_int_ge(waited(take(2, 3, DURATION_FOREVER), began), T - SOON);
}
END_TEST

Suite *
suite_lock_quorum_ends(void)
{
	Suite *suite = suite_create("lock: quorum ends");
	TCase *tc = tcase_create("ends");

	tcase_add_checked_fixture(tc, world_begin, world_end);
	tcase_add_loop_test(tc, a_slot_is_reclaimed_when_its_holder_stops, 0, 2);
	tcase_add_test(tc, a_restart_of_the_broker_costs_no_grace);
	tcase_add_test(tc, a_waiter_here_is_granted_when_the_holder_stops);
	tcase_add_test(tc, a_slot_that_was_used_since_is_not_reclaimed);
	tcase_add_loop_test(tc, a_release_without_a_proof_is_reclaimed, 0, 2);
	tcase_add_test(tc, a_daemon_is_quiet_after_its_reclaims);
	tcase_add_loop_test(tc, a_hold_outlives_its_connection, 0, 3);
	tcase_add_test(tc, a_hold_outlives_its_channel);
	tcase_add_loop_test(tc, a_hold_outlives_the_suspension_of_its_consumer, 0, 2);
	tcase_add_test(tc, a_hold_with_a_rival_ends_with_its_lease);
	tcase_add_test(tc, a_hold_with_other_counts_ends_at_once);
	tcase_add_test(tc, a_hold_without_a_connection_ends_with_its_lease);
	tcase_add_loop_test(tc, a_suspect_hold_is_released, 0, 2);
	tcase_add_test(tc, a_short_restart_of_the_broker_costs_no_hold);
	tcase_add_loop_test(tc, a_thousand_slots_are_free_after_one_grace, 0, 2);
	tcase_add_test(tc, the_graces_of_a_user_are_limited);
	tcase_add_test(tc, a_channel_that_does_not_close_ends_with_its_connection);
	tcase_add_test(tc, a_connection_with_holds_ends_later_for_a_silent_channel);
	tcase_add_loop_test(tc, few_short_holds_rotate, 0, 2);
	tcase_add_test(tc, a_dirty_order_in_reverse_is_not_clean);
	tcase_add_test(tc, a_clean_order_in_reverse_is_not_dirty);
	suite_add_tcase(suite, tc);
	return suite;
}
