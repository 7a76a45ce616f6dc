/*
 * Slots that are held by exclusive consumers, over the server in memory.
 */
#include "daemon/amqp/link.h"
#include "daemon/broker/setup.h"
#include "daemon/lock/engine.h"
#include "tests/unit/consumer_fixture.h"
#include "tests/unit/test_lock.h"

#include <stdio.h>
#include <string.h>

static bool
exists(const char *queue)
{
	const struct broker *owner;

	return memory_world_has(world->memory, queue, &owner);
}

START_TEST(is_taken_and_released)
{
	const struct said *answer;

	consumer_make(1, 2);
	answer = consumer_take(1, TRY);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_eq(answer->slot, 1);
	ck_assert(is_consumed("db-1-B"));
	ck_assert_int_eq(consumer_take(2, TRY)->slot, 2);
	ck_assert_int_eq(consumer_take(3, TRY)->reason, REASON_WOULD_BLOCK);
	release(0, 1, 2, answer->lock);
	ck_assert(!is_consumed("db-1-B"));
	ck_assert(exists("db-1-B"));
	ck_assert_int_eq(acquire(1, 4, 1, "db", 10 * SECOND)->slot, 1);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(each_slot_is_held_its_own_way)
{
	world_make(world, "db", 1);
	consumer_make(2, 2);
	ck_assert_int_eq(consumer_take(1, TRY)->slot, 1);
	ck_assert_int_eq(consumer_take(2, TRY)->slot, 2);
	ck_assert(world_b(world, "db", 1, 0));
	ck_assert(!is_consumed("db-1-B"));
	ck_assert(is_consumed("db-2-B"));
	ck_assert_int_eq(consumer_take(3, TRY)->reason, REASON_WOULD_BLOCK);
}
END_TEST

START_TEST(a_foreign_consumer_is_a_holder)
{
	consumer_make(1, 1);
	ck_assert(memory_world_hold(world->memory, "db-1-B"));
	ck_assert_int_eq(consumer_take(1, TRY)->reason, REASON_WOULD_BLOCK);
	wait_for(0, 2, 1);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 2, 1));
	ck_assert(memory_world_let_go(world->memory, "db-1-B"));
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
}
END_TEST

/* A slot is made the other way while nobody holds it. */
START_TEST(a_converted_slot_is_found)
{
	bool to_consumer = _i == 0;
	const struct said *answer;

	if (to_consumer)
		world_make(world, "db", 1);
	else
		consumer_make(1, 1);
	answer = consumer_take(1, TRY);
	release(0, 1, 2, answer->lock);
	if (to_consumer)
		ck_assert(memory_world_put_holder(world->memory, "db-1-B"));
	else
		ck_assert(memory_world_remove(world->memory, "db-1-B"));
	answer = consumer_take(2, 10 * SECOND);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert_int_eq(is_consumed("db-1-B"), to_consumer);
	ck_assert_int_eq(world_b(world, "db", 1, 0), !to_consumer);
}
END_TEST

/* The same while a client waits, which gets a hint. */
START_TEST(a_hint_of_a_converted_slot_is_of_use)
{
	world_make(world, "db", 1);
	release(0, 1, 2, consumer_take(1, TRY)->lock);
	ck_assert_int_eq(acquire(1, 2, 1, "db", TRY)->slot, 1);
	wait_for(0, 1, 3);
	world_pass(world, 200 * MS);
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	ck_assert(memory_world_put_holder(world->memory, "db-1-B"));
	memory_world_publish(world->memory, "db-W", "1");
	world_pass(world, 100 * MS);
	ck_assert_int_eq(world_answer(world, 0, 1, 3)->reason, REASON_NONE);
	ck_assert(is_consumed("db-1-B"));
}
END_TEST

/*
 * A hint led to a claim of slot 2, which has to be repeated the other way. Before a scan has seen slot 2, a hint
 * of slot 1 comes. Both are free then, and two daemons wait for them.
 */
START_TEST(a_hint_whose_claim_is_to_be_repeated_is_not_forgotten)
{
	world_make(world, "db", 1);
	ck_assert(memory_world_put(world->memory, "db-1-B", true));
	wait_for(0, 1, 1);
	wait_for(1, 2, 1);
	world_pass(world, 200 * MS);
	consumer_make(2, 2);
	world->delay = 10 * MS;
	memory_world_publish(world->memory, "db-W", "2");
	world_pass(world, 15 * MS);
	ck_assert_uint_eq(engine(0)->holds.count[HOLD_CLAIMING], 1);
	/* The request that follows takes long: a claim, or a scan that would see slot 2. */
	world->delay = SECOND;
	world_pass(world, 10 * MS);
	world->delay = MS;
	/* The turn of the other daemon, in vain. */
	memory_world_publish(world->memory, "db-W", "1");
	world_pass(world, 100 * MS);
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	memory_world_publish(world->memory, "db-W", "1");
	world_pass(world, 2 * SECOND);
	ck_assert_int_eq(now(0, 1, 1)->slot + now(1, 2, 1)->slot, 1 + 2);
}
END_TEST

/* The scan before the claim has seen how the slot is held, whether the waiter gets hints or not. */
START_TEST(a_race_after_a_scan_costs_one_claim)
{
	struct amqp_counts counts;

	world_make(world, "db", 1);
	ck_assert(memory_world_put(world->memory, "db-1-B", true));
	wait_for(0, 1, 1);
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 1, 1));
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	world->delay = 10 * MS;
	while (engine(0)->holds.count[HOLD_CLAIMING] == 0)
		ck_assert(world_step(world, 20 * SECOND));
	ck_assert(memory_world_put(world->memory, "db-1-B", true));
	world_pass(world, SECOND);
	ck_assert(is_waiting(0, 1, 1));
	ck_assert_uint_eq(engine(0)->holds.count[HOLD_CLAIMING], 0);
	broker_get_counts(world->daemon[0].broker, BROKER_LOCKS, &counts);
	ck_assert_uint_eq(counts.sent_consumes, 0);
}
END_TEST

/* Each hint costs a claim in either way. That is no reason to give up. */
START_TEST(hints_of_a_slot_that_is_taken_are_borne)
{
	uint64_t lock;

	world_make(world, "db", 1);
	release(0, 1, 2, consumer_take(1, TRY)->lock);
	lock = acquire(1, 2, 1, "db", TRY)->lock;
	wait_for(0, 1, 3);
	for (int i = 0; i < 40; i++) {
		world_pass(world, 100 * MS);
		memory_world_publish(world->memory, "db-W", "1");
	}
	world_pass(world, 100 * MS);
	ck_assert(is_waiting(0, 1, 3));
	release(1, 2, 2, lock);
	world_pass(world, 100 * MS);
	ck_assert_int_eq(world_answer(world, 0, 1, 3)->reason, REASON_NONE);
}
END_TEST

/* The exclusive B of a hold was deleted and made durable. */
static uint64_t
take_and_make_durable(void)
{
	uint64_t lock;

	world_make(world, "db", 1);
	lock = consumer_take(1, TRY)->lock;
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	ck_assert(memory_world_put_holder(world->memory, "db-1-B"));
	return lock;
}

/* Then a client elsewhere took it. */
static uint64_t
take_and_have_it_taken(void)
{
	uint64_t lock = take_and_make_durable();

	ck_assert_int_eq(acquire(1, 2, 1, "db", TRY)->slot, 1);
	ck_assert(is_consumed("db-1-B"));
	return lock;
}

START_TEST(a_hold_by_queue_ends_that_another_has_by_consumer)
{
	take_and_have_it_taken();
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
	world_pass(world, HEARTBEAT / 3 + 100 * MS);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 1);
	ck_assert(is_consumed("db-1-B"));
	ck_assert_int_eq(world_notices(world, 1, 2, LOCK_NOTICE_LOST), 0);
	/* Its channel is free, and the number of the next one. */
	consumer_make(2, 2);
	ck_assert_int_eq(consumer_take(1, TRY)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_verify_of_such_a_hold_says_lost)
{
	uint64_t lock = take_and_have_it_taken();

	lock_verify(engine(0), 1, 2, lock, 0);
	lock_verify(engine(0), 1, 3, lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_LOST);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_LOST);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 1);
	ck_assert(is_consumed("db-1-B"));
}
END_TEST

/* With a check on its way, too. */
START_TEST(the_release_of_such_a_hold_deletes_nothing)
{
	uint64_t lock = take_and_have_it_taken();

	if (_i == 1)
		lock_verify(engine(0), 1, 3, lock, 0);
	lock_release(engine(0), 1, 2, lock);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_LOST);
	world_pass(world, SECOND);
	ck_assert(is_consumed("db-1-B"));
	ck_assert_int_eq(world_notices(world, 1, 2, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(consumer_take(3, TRY)->reason, REASON_WOULD_BLOCK);
}
END_TEST

/* An exclusive queue is on the node of its connection, so an unreachable B is another's. */
START_TEST(a_hold_by_queue_ends_whose_node_is_down)
{
	uint64_t lock = take_and_make_durable();

	ck_assert(memory_world_set_home(world->memory, "db-1-B", 1));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
	if (_i == 0) {
		world_pass(world, HEARTBEAT / 3 + 100 * MS);
		ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 1);
	} else {
		lock_release(engine(0), 1, 2, lock);
		ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_LOST);
	}
	world_pass(world, SECOND);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	world_pass(world, SECOND);
	ck_assert(exists("db-1-B"));
}
END_TEST

START_TEST(the_brokers_cancel_is_a_loss)
{
	consumer_make(1, 1);
	consumer_take(1, TRY);
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	world_pass(world, 100 * MS);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_VANISHED), 0);
	/* B is gone: the slot is now one that is held by queue. */
	ck_assert_int_eq(consumer_take(2, 10 * SECOND)->reason, REASON_NONE);
}
END_TEST

/* RabbitMQ's cancel does not arrive. B is gone, or another one is there without a consumer. */
START_TEST(a_consumer_that_is_gone_is_a_loss_without_a_cancel)
{
	consumer_make(1, 1);
	consumer_take(1, TRY);
	world->deaf = 1;
	ck_assert(memory_world_remove(world->memory, "db-1-B"));
	if (_i == 1)
		ck_assert(memory_world_put_holder(world->memory, "db-1-B"));
	world_pass(world, 100 * MS);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
	world_pass(world, HEARTBEAT / 3);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 1);
}
END_TEST

START_TEST(a_cancel_that_crosses_the_release_is_no_loss)
{
	const struct said *answer;

	consumer_make(1, 1);
	answer = consumer_take(1, TRY);
	lock_release(engine(0), 1, 2, answer->lock);
	ck_assert(memory_world_cancel(world->memory, "db-1-B"));
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
	ck_assert_int_eq(consumer_take(2, TRY)->reason, REASON_NONE);
}
END_TEST

/* Its B stays consumed until the release: an administrator can wait for that. */
START_TEST(a_revoked_hold_keeps_its_slot)
{
	const struct said *answer;

	consumer_make(1, 2);
	answer = consumer_take(1, TRY);
	world_pass(world, SECOND); /* the watch is on */
	ck_assert(memory_world_remove(world->memory, "db-1-A"));
	world_pass(world, SECOND);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_REVOKED), 1);
	ck_assert(is_consumed("db-1-B"));
	lock_verify(engine(0), 1, 2, answer->lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_REVOKED);
	world_pass(world, 3 * HEARTBEAT);
	ck_assert(is_consumed("db-1-B"));
	release(0, 1, 3, answer->lock);
	world_pass(world, SECOND);
	ck_assert(!exists("db-1-B"));
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 0);
}
END_TEST

START_TEST(is_verified)
{
	const struct said *answer;

	consumer_make(1, 1);
	answer = consumer_take(1, TRY);
	lock_verify(engine(0), 1, 2, answer->lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	/* A is gone, and the watch has not said so. */
	world->deaf = 1;
	ck_assert(memory_world_remove(world->memory, "db-1-A"));
	lock_verify(engine(0), 1, 3, answer->lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_REVOKED);
	ck_assert(is_consumed("db-1-B"));
}
END_TEST

START_TEST(a_verify_of_a_lost_hold_says_lost)
{
	const struct said *answer;

	consumer_make(1, 1);
	answer = consumer_take(1, TRY);
	world->deaf = 1;
	ck_assert(memory_world_cancel(world->memory, "db-1-B"));
	lock_verify(engine(0), 1, 2, answer->lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_LOST);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 1);
}
END_TEST

/* The cancel is answered before the check of A, which goes out on another channel. */
START_TEST(a_verify_that_a_release_overtakes_is_no_loss)
{
	const struct said *answer;

	consumer_make(1, 1);
	ck_assert(memory_world_set_home(world->memory, "db-1-A", 1));
	answer = consumer_take(1, TRY);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	lock_verify(engine(0), 1, 2, answer->lock, 0);
	lock_verify(engine(0), 1, 3, answer->lock, 0);
	release(0, 1, 4, answer->lock);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NOT_HELD);
	ck_assert_int_eq(world_await(world, 0, 1, 3)->reason, REASON_NOT_HELD);
}
END_TEST

/* A is answered first. The answer about B extends the lease nevertheless. */
START_TEST(a_verify_checks_b_even_if_a_is_gone)
{
	const struct said *answer;
	int64_t verified;

	consumer_make(1, 1);
	ck_assert(memory_world_set_home(world->memory, "db-1-B", 1));
	answer = consumer_take(1, TRY);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	world_pass(world, HEARTBEAT / 2);
	world->deaf = 1;
	ck_assert(memory_world_remove(world->memory, "db-1-A"));
	verified = world->now;
	lock_verify(engine(0), 1, 2, answer->lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_REVOKED);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	world_pass(world, MS);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_SILENT);
	world_pass(world, verified + HEARTBEAT - MS - world->now);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_SUSPECT), 0);
	world_pass(world, 2 * MS);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_SUSPECT), 1);
}
END_TEST

/* The node of A is down, and that of B silent. */
START_TEST(many_verifies_leave_one_question_about_b)
{
	enum { MANY = 20 };
	struct amqp_counts before, after;
	const struct said *answer;

	consumer_make(1, 1);
	ck_assert(memory_world_set_home(world->memory, "db-1-A", 1));
	ck_assert(memory_world_set_home(world->memory, "db-1-B", 2));
	answer = consumer_take(1, TRY);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_DOWN);
	memory_world_set_reach(world->memory, 0, 2, MEMORY_SILENT);
	lock_verify(engine(0), 1, 2, answer->lock, 0);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_BROKER_UNAVAILABLE);
	broker_get_counts(world->daemon[0].broker, BROKER_LOCKS, &before);
	for (uint64_t request = 3; request < 3 + MANY; request++) {
		lock_verify(engine(0), 1, request, answer->lock, 0);
		world_pass(world, 10 * MS);
	}
	broker_get_counts(world->daemon[0].broker, BROKER_LOCKS, &after);
	/* The watch of A asked once. */
	ck_assert_uint_lt(after.sent_methods - before.sent_methods, MANY / 2);
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	memory_world_set_reach(world->memory, 0, 2, MEMORY_REACHED);
	for (uint64_t request = 3; request < 3 + MANY; request++)
		ck_assert_int_eq(world_await(world, 0, 1, request)->reason, REASON_NONE);
}
END_TEST

START_TEST(a_revoked_hold_that_is_lost_is_not_released)
{
	struct lock_counts counts;

	consumer_make(1, 1);
	consumer_take(1, TRY);
	world_pass(world, SECOND); /* the watch is on */
	ck_assert(memory_world_remove(world->memory, "db-1-A"));
	world_pass(world, SECOND);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_REVOKED), 1);
	ck_assert(memory_world_cancel(world->memory, "db-1-B"));
	world_pass(world, SECOND);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 1);
	lock_get_counts(engine(0), &counts);
	ck_assert_uint_eq(counts.lost, 1);
	ck_assert_uint_eq(counts.released, 0);
	ck_assert(!exists("db-1-B"));
}
END_TEST

/* The checks of slot queues share a channel, which each missing one closes. */
START_TEST(missing_slots_do_not_refuse_the_verifies_of_others)
{
	uint64_t locks[13];
	char queue[16];

	consumer_make(1, 12);
	for (int slot = 12; slot >= 1; slot--)
		locks[slot] = acquire(0, (uint64_t)slot, 1, "db", TRY)->lock;
	world->deaf = 10;
	for (int slot = 3; slot <= 12; slot++) {
		snprintf(queue, sizeof(queue), "db-%d-A", slot);
		ck_assert(memory_world_remove(world->memory, queue));
	}
	for (uint64_t peer = 1; peer <= 12; peer++)
		lock_verify(engine(0), peer, 2, locks[peer], 0);
	for (uint64_t peer = 1; peer <= 12; peer++) {
		const struct said *answer = world_await(world, 0, peer, 2);

		ck_assert_int_eq(answer->reason, answer->slot <= 2 ? REASON_NONE : REASON_REVOKED);
	}
	/* The channels of the checks were given back. */
	world_pass(world, SECOND);
	ck_assert_uint_eq(memory_broker_channels_taken(world->daemon[0].broker, BROKER_LOCKS), 12);
}
END_TEST

/* Of each slot: the check, which is sent twice, channel.open and close-ok. */
START_TEST(many_missing_slots_cost_a_channel_each)
{
	enum { MANY = 60 };
	struct amqp_counts before, after;
	char queue[16];

	consumer_make(1, MANY);
	for (uint64_t peer = 1; peer <= MANY; peer++)
		consumer_take(peer, TRY);
	world_pass(world, SECOND);
	broker_get_counts(world->daemon[0].broker, BROKER_LOCKS, &before);
	for (int slot = 1; slot <= MANY; slot++) {
		snprintf(queue, sizeof(queue), "db-%d-A", slot);
		ck_assert(memory_world_remove(world->memory, queue));
	}
	world_pass(world, SECOND);
	broker_get_counts(world->daemon[0].broker, BROKER_LOCKS, &after);
	for (uint64_t peer = 1; peer <= MANY; peer++)
		ck_assert_int_eq(consumer_notices(peer, LOCK_NOTICE_REVOKED), 1);
	ck_assert_uint_eq(after.channels_closed_by_broker - before.channels_closed_by_broker, MANY);
	ck_assert_uint_le(after.sent_methods - before.sent_methods, 4 * MANY);
}
END_TEST

START_TEST(another_missing_slot_does_not_end_a_hand_off)
{
	uint64_t locks[3];

	consumer_make(1, 2);
	locks[1] = consumer_take(1, TRY)->lock;
	locks[2] = consumer_take(2, TRY)->lock;
	wait_for(1, 4, 1); /* would get the hint if the slot was freed */
	world_pass(world, SECOND);
	wait_for(0, 3, 1);
	world->deaf = 1;
	ck_assert(memory_world_remove(world->memory, "db-2-A"));
	world_pass(world, 2 * SECOND); /* so long that the hand-off asks the broker */
	lock_verify(engine(0), 2, 2, locks[2], 0);
	lock_release(engine(0), 1, 2, locks[1]);
	ck_assert_int_eq(world_await(world, 0, 2, 2)->reason, REASON_REVOKED);
	ck_assert_int_eq(world_await(world, 0, 1, 2)->reason, REASON_NONE);
	world_pass(world, SECOND);
	ck_assert(is_waiting(1, 4, 1));
	ck_assert_int_eq(now(0, 3, 1)->slot, 1);
}
END_TEST

START_TEST(the_end_of_its_channel_is_a_loss)
{
	consumer_make(1, 1);
	consumer_take(1, TRY);
	world_close_channels(world, 0, BROKER_LOCKS);
	world_pass(world, SECOND);
	ck_assert_int_eq(consumer_notices(1, LOCK_NOTICE_LOST), 1);
	ck_assert_int_eq(consumer_take(2, 10 * SECOND)->reason, REASON_NONE);
}
END_TEST

/* Nothing is declared in its place. */
START_TEST(a_slot_whose_node_is_down_is_taken)
{
	consumer_make(1, 1);
	ck_assert(memory_world_set_home(world->memory, "db-1-B", 1));
	memory_world_set_reach(world->memory, 0, 1, _i == 0 ? MEMORY_DOWN : MEMORY_TIMED_OUT);
	ck_assert_int_eq(consumer_take(1, TRY)->reason, REASON_WOULD_BLOCK);
	wait_for(0, 2, 1);
	world_pass(world, 20 * SECOND);
	ck_assert(is_waiting(0, 2, 1));
	memory_world_set_reach(world->memory, 0, 1, MEMORY_REACHED);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	ck_assert(is_consumed("db-1-B"));
}
END_TEST

START_TEST(is_claimed_unseen_in_an_alarm)
{
	if (_i == 0)
		consumer_make(1, 2);
	else
		world_make(world, "db", 2);
	consumer_settings.claim = _i % 2 == 0 ? BROKER_BY_QUEUE : BROKER_BY_CONSUMER;
	lock_engine_set(engine(0), &consumer_settings);
	world_alarm(world);
	ck_assert_int_eq(consumer_take(1, TRY)->slot, 1);
	ck_assert_int_eq(consumer_take(2, TRY)->slot, 2);
	ck_assert_int_ne(consumer_take(3, TRY)->reason, REASON_NONE);
}
END_TEST

/* Each of them is claimed in both ways. That is no race: the slots are busy. */
START_TEST(many_busy_slots_are_no_races)
{
	char queue[16];

	consumer_make(1, _i % 2 == 0 ? 20 : 0);
	if (_i % 2 == 1)
		world_make(world, "db", 20);
	for (int slot = 1; slot <= 20; slot++) {
		snprintf(queue, sizeof(queue), "db-%d-B", slot);
		ck_assert(_i % 2 == 0 ? memory_world_hold(world->memory, queue)
				      : memory_world_put(world->memory, queue, true));
	}
	consumer_settings.claim = _i < 2 ? BROKER_BY_QUEUE : BROKER_BY_CONSUMER;
	lock_engine_set(engine(0), &consumer_settings);
	world_alarm(world);
	ck_assert_int_eq(consumer_take(1, TRY)->reason, REASON_WOULD_BLOCK);
	wait_for(0, 2, 1);
	world_pass(world, 20 * SECOND);
	ck_assert(is_waiting(0, 2, 1));
}
END_TEST

START_TEST(a_slot_that_does_not_exist_is_no_lock)
{
	ck_assert(memory_world_put_holder(world->memory, "db-1-B"));
	ck_assert_int_eq(consumer_take(1, TRY)->reason, REASON_NO_SUCH_LOCK);
	ck_assert(!is_consumed("db-1-B"));
}
END_TEST

START_TEST(a_missing_permission_is_said)
{
	consumer_make(1, 1);
	consumer_take(1, TRY);
	release(0, 1, 2, world_answer(world, 0, 1, 1)->lock);
	world->refuses = true;
	ck_assert_int_eq(consumer_take(2, TRY)->reason, REASON_BROKER_REFUSED);
	ck_assert_ptr_nonnull(strstr(world_answer(world, 0, 2, 1)->text, "refused for user"));
}
END_TEST

/* ---- true mutexes ---- */

START_TEST(a_mutex_is_held_as_the_setting_says)
{
	const struct said *answer;

	consumer_settings.claim = BROKER_BY_CONSUMER;
	lock_engine_set(engine(0), &consumer_settings);
	answer = consumer_take_mutex(0, 1, TRY);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert(is_consumed("mx-M"));
	ck_assert_int_eq(consumer_take_mutex(1, 2, TRY)->reason, REASON_WOULD_BLOCK);
	world_pass(world, 120 * SECOND);
	ck_assert(is_consumed("mx-M"));
	release(0, 1, 2, answer->lock);
	ck_assert(!is_consumed("mx-M"));
	/* A daemon with the other setting takes it in the same way, while it exists. */
	answer = consumer_take_mutex(1, 3, TRY);
	ck_assert_int_eq(answer->reason, REASON_NONE);
	ck_assert(is_consumed("mx-M"));
	release(1, 3, 2, answer->lock);
	world_pass(world, 61 * SECOND);
	ck_assert(!exists("mx-M"));
	ck_assert_int_eq(consumer_take_mutex(1, 4, TRY)->reason, REASON_NONE);
	ck_assert(exists("mx-M") && !is_consumed("mx-M"));
	ck_assert_int_eq(consumer_take_mutex(0, 5, TRY)->reason, REASON_WOULD_BLOCK);
}
END_TEST

START_TEST(a_mutex_is_handed_off)
{
	const struct said *answer;
	struct lock_acquire wanted = {
	    .name = "mx", .kind = LOCK_KIND_MUTEX, .timeout = DURATION_FOREVER, .uid = 1000};

	consumer_settings.claim = BROKER_BY_CONSUMER;
	lock_engine_set(engine(0), &consumer_settings);
	answer = consumer_take_mutex(0, 1, TRY);
	lock_acquire(engine(0), 2, 1, &wanted);
	world_pass(world, SECOND);
	release(0, 1, 2, answer->lock);
	ck_assert_int_eq(world_await(world, 0, 2, 1)->reason, REASON_NONE);
	world_pass(world, 5 * HEARTBEAT);
	ck_assert_int_eq(consumer_notices(2, LOCK_NOTICE_LOST), 0);
}
END_TEST

Suite *
suite_lock_consumer(void)
{
	Suite *suite = suite_create("lock: consumer");
	TCase *tc = tcase_create("consumer");

	tcase_add_checked_fixture(tc, consumer_setup, world_end);
	tcase_add_test(tc, is_taken_and_released);
	tcase_add_test(tc, each_slot_is_held_its_own_way);
	tcase_add_test(tc, a_foreign_consumer_is_a_holder);
	tcase_add_loop_test(tc, a_converted_slot_is_found, 0, 2);
	tcase_add_test(tc, a_hint_of_a_converted_slot_is_of_use);
	tcase_add_test(tc, a_hint_whose_claim_is_to_be_repeated_is_not_forgotten);
	tcase_add_test(tc, a_race_after_a_scan_costs_one_claim);
	tcase_add_test(tc, hints_of_a_slot_that_is_taken_are_borne);
	tcase_add_test(tc, a_hold_by_queue_ends_that_another_has_by_consumer);
	tcase_add_test(tc, a_verify_of_such_a_hold_says_lost);
	tcase_add_loop_test(tc, the_release_of_such_a_hold_deletes_nothing, 0, 2);
	tcase_add_loop_test(tc, a_hold_by_queue_ends_whose_node_is_down, 0, 2);
	tcase_add_test(tc, the_brokers_cancel_is_a_loss);
	tcase_add_loop_test(tc, a_consumer_that_is_gone_is_a_loss_without_a_cancel, 0, 2);
	tcase_add_test(tc, a_cancel_that_crosses_the_release_is_no_loss);
	tcase_add_test(tc, a_revoked_hold_keeps_its_slot);
	tcase_add_test(tc, is_verified);
	tcase_add_test(tc, a_verify_of_a_lost_hold_says_lost);
	tcase_add_test(tc, a_verify_that_a_release_overtakes_is_no_loss);
	tcase_add_test(tc, a_verify_checks_b_even_if_a_is_gone);
	tcase_add_test(tc, many_verifies_leave_one_question_about_b);
	tcase_add_test(tc, a_revoked_hold_that_is_lost_is_not_released);
	tcase_add_test(tc, missing_slots_do_not_refuse_the_verifies_of_others);
	tcase_add_test(tc, many_missing_slots_cost_a_channel_each);
	tcase_add_test(tc, another_missing_slot_does_not_end_a_hand_off);
	tcase_add_test(tc, the_end_of_its_channel_is_a_loss);
	tcase_add_loop_test(tc, a_slot_whose_node_is_down_is_taken, 0, 2);
	tcase_add_loop_test(tc, is_claimed_unseen_in_an_alarm, 0, 4);
	tcase_add_loop_test(tc, many_busy_slots_are_no_races, 0, 4);
	tcase_add_test(tc, a_slot_that_does_not_exist_is_no_lock);
	tcase_add_test(tc, a_missing_permission_is_said);
	tcase_add_test(tc, a_mutex_is_held_as_the_setting_says);
	tcase_add_test(tc, a_mutex_is_handed_off);
	suite_add_tcase(suite, tc);
	return suite;
}
