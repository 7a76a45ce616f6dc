/*
 * Wait queues over the server in memory: limits, exact times, and observers that call back.
 * tests/conformance/ has the rest.
 */
#include <stdio.h>

#include "daemon/broker/internal.h"
#include "daemon/broker/setup.h"
#include "daemon/broker/wait_queue.h"
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

static void
close_channel(void *ctx, uint64_t channel, bool silent)
{
	(void)ctx;
	(void)silent;
	memory_broker_close_channel(one, channel, 406, "PRECONDITION_FAILED - timeout");
}

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
	ck_assert(!amqp_wait_queues_any(one->wait_queues));
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
	tcase_add_test(tc, consumers_of_one_wait_queue_are_limited);
	tcase_add_test(tc, owed_hints_are_limited);
	tcase_add_test(tc, cancelled_by_the_broker_while_joining);
	tcase_add_loop_test(tc, refused_and_tried_rarely, 0, 2);
	tcase_add_test(tc, no_channel_is_left_behind);
	tcase_add_test(tc, its_observer_may_call_back);
	tcase_add_test(tc, stopped_by_a_hint);
	suite_add_tcase(suite, tc);
	return suite;
}
