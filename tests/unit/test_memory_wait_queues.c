/*
 * Wait queues over the server in memory, as broker.h promises them.
 */
#include <stdio.h>

#include "daemon/broker/setup.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

/* As daemon/broker/wait_queue.c has them. */
#define LINE_AGAIN (100 * MSEC)
#define LINE_RARELY (30 * NSEC_PER_SEC)

/* Both wait in wait queue w with priority 5. */
static void
setup(void)
{
	rig_channels_of_one = 2047;
	rig_setup();
	join(one, "w", 5, 1);
	pass(0);
	ck_saw("auxiliary:up joined:w/5");
	join(two, "w", 5, 1);
	pass(0);
	ck_saw("two.auxiliary:up two.joined:w/5");
}

START_TEST(consumers_of_one_priority_take_turns)
{
	for (int slot = 1; slot <= 4; slot++) {
		wake(slot % 2 == 0 ? one : two, "w", slot);
		pass(0);
	}
	ck_saw("hint:w/5=1 two.hint:w/5=2 hint:w/5=3 two.hint:w/5=4");
	ck_assert_uint_eq(memory_world_hints(world, "w"), 0);
}
END_TEST

/* By priority, not by arrival. The next consumer gets hints only if those have no credit left. */
START_TEST(priority_goes_first)
{
	join(one, "w", 9, 2);
	join(two, "w", 1, 1);
	pass(10 * MSEC);
	ck_saw("joined:w/9 two.joined:w/1");
	wake(one, "w", 1);
	pass(0);
	wake(one, "w", 2);
	pass(0);
	ck_saw("hint:w/9=1 hint:w/9=2");
	/* All at once: two are unread when the third comes. */
	for (int slot = 1; slot <= 6; slot++)
		memory_world_publish(world, "w", "7");
	ck_assert_uint_eq(memory_world_hints(world, "w"), 1);
	pass(0);
	ck_saw("hint:w/9=7 hint:w/9=7 hint:w/5=7 two.hint:w/5=7 two.hint:w/1=7 hint:w/9=7");
}
END_TEST

START_TEST(a_hint_is_there_for_two_seconds)
{
	/* Consumers without credit: their one hint takes long. */
	for (size_t i = 0; i < 2; i++)
		rig.delays[rig.delays_used + i] = 10 * NSEC_PER_SEC;
	memory_world_publish(world, "w", "1");
	memory_world_publish(world, "w", "2");
	wake(one, "w", 3);
	pass(0);
	ck_assert_uint_eq(memory_world_hints(world, "w"), 1);
	pass(BROKER_HINT_TTL - MSEC);
	ck_assert_uint_eq(memory_world_hints(world, "w"), 1);
	pass(MSEC);
	ck_assert_uint_eq(memory_world_hints(world, "w"), 0);
	pass(10 * NSEC_PER_SEC);
	ck_saw("hint:w/5=1 two.hint:w/5=2");
}
END_TEST

/* The wait queue ends with its last member, and is made again at once. */
START_TEST(a_member_that_is_back_at_once_hears)
{
	leave(two, "w", 5);
	pass(0);
	leave(one, "w", 5);
	if (_i == 1)
		pass(0);
	join(one, "w", 5, 1);
	pass(0);
	ck_saw("joined:w/5");
	wake(two, "w", 1);
	pass(0);
	ck_saw("hint:w/5=1");
}
END_TEST

START_TEST(at_most_so_many_and_the_oldest_go)
{
	for (size_t i = 0; i < 2; i++)
		rig.delays[rig.delays_used + i] = NSEC_PER_SEC;
	for (int i = 0; i < 2 + 64 + 3; i++) {
		char body[16];

		snprintf(body, sizeof(body), "%d", i);
		memory_world_publish(world, "w", body);
	}
	ck_assert_uint_eq(memory_world_hints(world, "w"), 64);
	leave(two, "w", 5);
	pass(NSEC_PER_SEC);
	rig.seen[strlen("hint:w/5=0 hint:w/5=1 hint:w/5=6")] = '\0';
	/*
	 * Hints that two had not read come again when two has sent them back, and replace no other.
	 */
	ck_saw("hint:w/5=0 hint:w/5=5 hint:w/5=1");
}
END_TEST

START_TEST(no_wait_queue_no_waiter)
{
	/* One confirm for both. */
	rig.holds_acks = true;
	wake(one, "v", 1);
	wake(one, "w", 9);
	pass(0);
	ck_saw("nobody:v/0=1 hint:w/5=9");
	ck_assert(!exists("v"));
	/* Owed hints, too, but not hints that may have arrived. */
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	ck_saw("left:w/5 auxiliary:down:cut");
	wake(one, "v", 2);
	pass(0);
	ck_saw("auxiliary:up joined:w/5 nobody:v/0=2");
	wake(one, "v", 3);
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	pass(0);
	ck_saw("left:w/5 auxiliary:down:cut auxiliary:up joined:w/5");
	/* Routed, and gone. */
	ck_assert(memory_world_put(world, "plain", false));
	wake(one, "plain", 1);
	pass(0);
	/* It may not be joined, which puts out who is on the same channel. */
	join(one, "plain", 0, 1);
	pass(MSEC);
	ck_saw("left:w/5");
	pass(10 * MSEC);
	ck_saw("joined:w/5");
}
END_TEST

START_TEST(it_goes_with_its_last_member)
{
	leave(one, "w", 5);
	leave(one, "w", 5);
	leave(one, "w", 4);
	leave(one, "none", 5);
	pass(0);
	ck_assert(exists("w"));
	ck_assert_uint_eq(memory_world_members(world, "w"), 1);
	wake(one, "w", 1);
	pass(0);
	ck_saw("two.hint:w/5=1");
	leave(two, "w", 5);
	pass(0);
	ck_assert(!exists("w"));
}
END_TEST

/* A hint to a consumer that has left goes to the others. */
START_TEST(a_consumer_that_leaves_reads_nothing)
{
	rig.delays[rig.delays_used + 1] = 10 * MSEC;
	wake(two, "w", 1);
	pass(MSEC);
	ck_saw("");
	leave(one, "w", 5);
	pass(20 * MSEC);
	ck_saw("two.hint:w/5=1");
}
END_TEST

/* Consumers share a channel: one that leaves does not end the others. */
START_TEST(a_hint_on_its_way_goes_to_the_next_consumer)
{
	leave(two, "w", 5);
	join(two, "w", 0, 1);
	join(one, "w", 4, 1);
	join(one, "v", 0, 1);
	pass(20 * MSEC);
	ck_saw("two.joined:w/0 joined:w/4 joined:v/0");
	rig.delays[rig.delays_used + 1] = 10 * MSEC;
	wake(two, "w", 1);
	pass(MSEC);
	ck_saw("");
	leave(one, "w", 5);
	leave(one, "w", 4);
	pass(20 * MSEC);
	ck_saw("two.hint:w/0=1");
	wake(two, "v", 2);
	pass(0);
	ck_saw("hint:v/0=2");
}
END_TEST

/* A daemon with thousands of priorities does not block other wait queues. */
START_TEST(consumers_of_one_wait_queue_are_limited)
{
	static const int MANY = 2060;
	struct broker *three = memory_broker_new(world, 10, 100);

	broker_start(three);
	for (int priority = 0; priority < MANY; priority++)
		broker_wait_queue_join(three, "a", priority, 1);
	pass(60 * NSEC_PER_SEC);
	broker_wait_queue_join(three, "b", 0, 1);
	pass(50 * MSEC);
	count(one, "a", 1);
	count(one, "b", 2);
	pass(0);
	ck_saw("c1=2049 c2=1");
	/* Some leave, and the others have their places. */
	for (int priority = 0; priority < 100; priority++)
		broker_wait_queue_leave(three, "a", priority);
	pass(5 * NSEC_PER_SEC);
	count(one, "a", 3);
	pass(0);
	ck_saw("c3=1960");
	broker_free(three);
}
END_TEST

START_TEST(any_broker_counts_the_consumers)
{
	join(two, "w", 9, 4);
	pass(0);
	ck_saw("two.joined:w/9");
	count(one, "w", 1);
	count(two, "w", 2);
	count(two, "nobody", 3);
	pass(0);
	ck_saw("c1=3 c2=3 c3=0");
	claim(two, take(two, BROKER_LOCKS), "x", 100);
	pass(0);
	count(one, "x", 4);
	pass(0);
	ck_saw("100=ok c4=-1");
	/* On its way when the link dies, and with a link that does not come. */
	count(one, "w", 5);
	memory_broker_cut(one, BROKER_AUXILIARY, 0, -1, "cut");
	ck_saw("c5=-1 left:w/5 auxiliary:down:cut");
	count(one, "w", 6);
	pass(2 * MEMORY_PROBE_TIMEOUT);
	ck_saw("c6=-1");
}
END_TEST

/* Credit is how many may be unread. */
START_TEST(joined_again_with_another_credit)
{
	join(one, "w", 5, 3);
	join(one, "w", 5, 3);
	pass(0);
	ck_saw("");
	ck_assert_uint_eq(memory_world_members(world, "w"), 2);
	leave(two, "w", 5);
	pass(0);
	for (size_t i = 0; i < 4; i++)
		memory_world_publish(world, "w", "7");
	ck_assert_uint_eq(memory_world_hints(world, "w"), 1);
	pass(0);
	ck_saw("hint:w/5=7 hint:w/5=7 hint:w/5=7 hint:w/5=7");
	join(one, "w", 5, 1);
	pass(0);
	memory_world_publish(world, "w", "8");
	memory_world_publish(world, "w", "9");
	ck_assert_uint_eq(memory_world_hints(world, "w"), 1);
	pass(0);
	ck_saw("hint:w/5=8 hint:w/5=9");
}
END_TEST

START_TEST(the_auxiliary_connection_goes_and_comes)
{
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 20 * MSEC, "cut");
	ck_saw("left:w/5 auxiliary:down:cut");
	ck_assert_uint_eq(memory_world_members(world, "w"), 1);
	ck_assert_uint_eq(broker_joined(one), 1);
	/* Owed, each once; others are there for it meanwhile. */
	wake(one, "w", 1);
	wake(one, "w", 2);
	wake(one, "w", 1);
	wake(two, "w", 3);
	pass(20 * MSEC - 1);
	ck_saw("two.hint:w/5=3");
	pass(1);
	ck_saw("auxiliary:up joined:w/5 hint:w/5=2 two.hint:w/5=1");
}
END_TEST

/* The link comes up for hints, though no client waits here. */
START_TEST(an_owed_hint_brings_the_link_up)
{
	leave(one, "w", 5);
	pass(0);
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	pass(0);
	ck_saw("auxiliary:down:cut");
	wake(one, "w", 1);
	pass(0);
	ck_saw("auxiliary:up two.hint:w/5=1");
}
END_TEST

/* Broker one is told of an alarm. RabbitMQ tells only connections that have published. */
static void
begin_alarm(void)
{
	wake(one, "w", 9);
	pass(0);
	rig.seen[0] = '\0';
	memory_world_block(world, true);
	pass(0);
}

START_TEST(owed_during_an_alarm)
{
	begin_alarm();
	wake(one, "w", 1);
	wake(one, "w", 1);
	pass(NSEC_PER_SEC);
	ck_saw("");
	memory_world_block(world, false);
	pass(0);
	ck_saw("two.hint:w/5=1");
}
END_TEST

START_TEST(owed_hints_are_limited)
{
	begin_alarm();
	leave(two, "w", 5);
	for (int slot = 0; slot <= BROKER_OWED_MAX; slot++)
		wake(one, "w", slot);
	pass(0);
	memory_world_block(world, false);
	pass(0);
	ck_assert_ptr_nonnull(strstr(rig.seen, "hint:w/5=1 "));
	ck_assert_ptr_null(strstr(rig.seen, "hint:w/5=0"));
	rig.seen[0] = '\0';
}
END_TEST

/*
 * A death that the world has not noticed: hints go to the dead until it does, then to the others.
 */
START_TEST(dead_consumers_get_hints_until_the_broker_notices)
{
	bool late = _i == 1;

	memory_broker_cut(one, BROKER_AUXILIARY, late ? 3 * NSEC_PER_SEC : NSEC_PER_SEC, -1, "cut");
	ck_saw("left:w/5 auxiliary:down:cut");
	wake(two, "w", 1);
	pass(0);
	ck_saw("");
	ck_assert_uint_eq(memory_world_members(world, "w"), 2);
	pass(3 * NSEC_PER_SEC);
	ck_saw(late ? "" : "two.hint:w/5=1");
	ck_assert_uint_eq(memory_world_members(world, "w"), 1);
}
END_TEST

START_TEST(a_link_whose_ends_have_parted)
{
	if (_i == 0)
		memory_broker_freeze(one, BROKER_AUXILIARY);
	else
		memory_broker_forsake(one, BROKER_AUXILIARY);
	wake(two, "w", 1);
	wake(one, "w", 2);
	join(one, "v", 0, 1);
	join(one, "w", 5, 2);
	count(one, "w", 3);
	pass(900 * MSEC);
	ck_saw(_i == 0 ? "" : "two.hint:w/5=1");
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	ck_saw("c3=-1 left:w/5 auxiliary:down:cut");
	pass(10 * MSEC);
	/* Another consumer gets the unread one. */
	ck_saw(_i == 0 ? "two.hint:w/5=1 auxiliary:up joined:v/0 joined:w/5"
		       : "auxiliary:up joined:v/0 joined:w/5");
}
END_TEST

START_TEST(nothing_arrives_for_a_while)
{
	memory_broker_block(one, BROKER_AUXILIARY, MEMORY_IN);
	wake(one, "w", 1);
	pass(NSEC_PER_SEC);
	ck_saw("");
	memory_broker_block(one, BROKER_AUXILIARY, 0);
	pass(1);
	ck_saw("hint:w/5=1");
	memory_broker_block(one, BROKER_AUXILIARY, MEMORY_OUT);
	wake(one, "w", 2);
	pass(NSEC_PER_SEC);
	ck_saw("");
	memory_broker_block(one, BROKER_AUXILIARY, 0);
	pass(1);
	ck_saw("two.hint:w/5=2");
}
END_TEST

START_TEST(the_node_restarts)
{
	memory_world_restart(world);
	ck_assert(!exists("w"));
	pass(MSEC);
	ck_saw("");
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	memory_broker_cut(two, BROKER_AUXILIARY, 0, 0, "cut");
	pass(0);
	ck_saw("left:w/5 auxiliary:down:cut two.left:w/5 two.auxiliary:down:cut "
	       "auxiliary:up two.auxiliary:up joined:w/5 two.joined:w/5");
}
END_TEST

static void
close_channel(void *ctx, uint64_t channel, bool silent)
{
	(void)ctx;
	(void)silent;
	memory_broker_close_channel(one, channel, 406, "PRECONDITION_FAILED - timeout");
}

/* By a closed channel, or by the deletion of the queue. */
START_TEST(cancelled_by_the_broker)
{
	if (_i == 0)
		memory_broker_each_channel(one, BROKER_AUXILIARY, close_channel, NULL);
	else
		ck_assert(memory_world_remove(world, "w"));
	pass(0);
	ck_saw(_i == 0 ? "left:w/5" : "left:w/5 two.left:w/5");
	pass(LINE_AGAIN);
	ck_saw(_i == 0 ? "joined:w/5" : "joined:w/5 two.joined:w/5");
	wake(one, "w", 1);
	pass(0);
	ck_saw(_i == 0 ? "two.hint:w/5=1" : "hint:w/5=1");
}
END_TEST

/* With 406, or with 405. */
/*
 * Closed channels without a refusal: a consumer that is joining tries again as soon as the others.
 */
START_TEST(cancelled_by_the_broker_while_joining)
{
	rig.delays[rig.delays_used] = 10 * MSEC;
	join(one, "v", 0, 1);
	pass(MSEC);
	memory_broker_each_channel(one, BROKER_AUXILIARY, close_channel, NULL);
	pass(10 * MSEC);
	ck_saw("left:w/5");
	pass(2 * LINE_AGAIN);
	ck_saw("joined:v/0 joined:w/5");
}
END_TEST

START_TEST(refused_and_tried_rarely)
{
	ck_assert(memory_world_put(world, "v", _i == 1));
	join(one, "v", 0, 1);
	pass(4 * LINE_RARELY - MSEC);
	ck_assert(memory_world_remove(world, "v"));
	/* Once; from then on it tries on a channel of its own. */
	ck_saw("left:w/5 joined:w/5");
	pass(LINE_RARELY);
	ck_saw("joined:v/0");
	/* It is no worse than others again. */
	join(one, "u", 0, 1);
	pass(20 * MSEC);
	ck_saw("joined:u/0");
}
END_TEST

/* Channels that are left behind would add up. */
static void
count_channel(void *ctx, uint64_t channel, bool silent)
{
	(void)channel;
	ck_assert(!silent);
	++*(int *)ctx;
}

START_TEST(no_channel_is_left_behind)
{
	int channels = 0;

	join(one, "v", 1, 1);
	leave(one, "v", 1);
	join(one, "v", 1, 1);
	join(one, "v", 1, 2);
	wake(one, "v", 1);
	count(one, "v", 1);
	ck_assert(memory_world_remove(world, "w"));
	leave(one, "v", 1);
	pass(MSEC);
	/* Its consumers were on their way to v when it left. */
	ck_saw("left:w/5 two.left:w/5 c1=2");
	pass(LINE_AGAIN);
	ck_saw("joined:w/5 two.joined:w/5");
	memory_broker_each_channel(one, BROKER_AUXILIARY, count_channel, &channels);
	ck_assert_int_eq(channels, 1);
	leave(one, "w", 5);
	pass(0);
	ck_assert_uint_eq(broker_joined(one), 0);
	channels = 0;
	memory_broker_each_channel(one, BROKER_AUXILIARY, count_channel, &channels);
	ck_assert_int_eq(channels, 0);
}
END_TEST

static void
leave_all(const struct broker_wait_queue_event *event)
{
	(void)event;
	broker_wait_queue_leave(one, "v", 0);
	broker_wait_queue_leave(one, "w", 5);
}

static void
stop_it(const struct broker_wait_queue_event *event)
{
	(void)event;
	broker_stop(one);
}

static void
wake_another(const struct broker_wait_queue_event *event)
{
	if (event->news == BROKER_WAIT_QUEUE_HINT && event->slot < 3)
		broker_wait_queue_wake(one, event->queue, event->slot + 1);
}

START_TEST(its_observer_may_call_back)
{
	rig.wait_queue_heard = wake_another;
	wake(one, "w", 1);
	pass(0);
	ck_saw("hint:w/5=1 two.hint:w/5=2 hint:w/5=3");
	join(one, "v", 0, 1);
	pass(10 * MSEC);
	ck_saw("joined:v/0");
	rig.wait_queue_heard = leave_all;
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	ck_saw("left:w/5 auxiliary:down:cut");
	pass(MSEC);
	ck_saw("");
	join(one, "w", 5, 1);
	join(one, "v", 0, 1);
	rig.wait_queue_heard = NULL;
	pass(10 * MSEC);
	ck_saw("auxiliary:up joined:w/5 joined:v/0");
	rig.wait_queue_heard = stop_it;
	memory_broker_cut(one, BROKER_AUXILIARY, 0, 0, "cut");
	pass(MSEC);
	ck_saw("left:w/5");
}
END_TEST

START_TEST(stopped_by_a_hint)
{
	rig.wait_queue_heard = stop_it;
	wake(two, "w", 1);
	pass(MSEC);
	ck_saw("hint:w/5=1 two.hint:w/5=1");
	join(one, "w", 5, 1);
	leave(one, "w", 5);
	wake(one, "w", 5);
	count(one, "w", 5);
	pass(MSEC);
}
END_TEST

Suite *
suite_memory_wait_queues(void)
{
	Suite *suite = suite_create("memory wait queues");
	TCase *tc = tcase_create("lines");

	tcase_add_checked_fixture(tc, setup, rig_teardown);
	tcase_add_test(tc, consumers_of_one_priority_take_turns);
	tcase_add_test(tc, priority_goes_first);
	tcase_add_test(tc, a_hint_is_there_for_two_seconds);
	tcase_add_loop_test(tc, a_member_that_is_back_at_once_hears, 0, 2);
	tcase_add_test(tc, at_most_so_many_and_the_oldest_go);
	tcase_add_test(tc, no_wait_queue_no_waiter);
	tcase_add_test(tc, it_goes_with_its_last_member);
	tcase_add_test(tc, a_consumer_that_leaves_reads_nothing);
	tcase_add_test(tc, a_hint_on_its_way_goes_to_the_next_consumer);
	tcase_add_test(tc, consumers_of_one_wait_queue_are_limited);
	tcase_add_test(tc, any_broker_counts_the_consumers);
	tcase_add_test(tc, joined_again_with_another_credit);
	tcase_add_test(tc, the_auxiliary_connection_goes_and_comes);
	tcase_add_test(tc, an_owed_hint_brings_the_link_up);
	tcase_add_test(tc, owed_during_an_alarm);
	tcase_add_test(tc, owed_hints_are_limited);
	tcase_add_loop_test(tc, dead_consumers_get_hints_until_the_broker_notices, 0, 2);
	tcase_add_loop_test(tc, a_link_whose_ends_have_parted, 0, 2);
	tcase_add_test(tc, nothing_arrives_for_a_while);
	tcase_add_test(tc, the_node_restarts);
	tcase_add_loop_test(tc, cancelled_by_the_broker, 0, 2);
	tcase_add_test(tc, cancelled_by_the_broker_while_joining);
	tcase_add_loop_test(tc, refused_and_tried_rarely, 0, 2);
	tcase_add_test(tc, no_channel_is_left_behind);
	tcase_add_test(tc, its_observer_may_call_back);
	tcase_add_test(tc, stopped_by_a_hint);
	suite_add_tcase(suite, tc);
	return suite;
}
