/*
 * The AMQP code over the server in memory: few channels, the time of answers, silence, and probes that
 * are not confirmed.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/amqp/link.h"
#include "daemon/base/backoff.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/setup.h"
#include "daemon/memory/memory.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

/* ---- channels ---- */

START_TEST(the_lock_connection_has_channels_max)
{
	struct broker_info info;
	uint64_t first = take(one, BROKER_LOCKS), second = take(one, BROKER_LOCKS);

	ck_assert_uint_ne(first, 0);
	ck_assert_uint_ne(second, first);
	ck_assert_uint_ne(take(one, BROKER_LOCKS), 0);
	ck_assert_uint_eq(take(one, BROKER_LOCKS), 0);
	broker_get_info(one, &info);
	ck_assert_uint_eq(info.channels, 3);
	ck_assert_uint_eq(info.channels_max, 3);
	ck_assert_uint_ne(take(one, BROKER_AUXILIARY), 0);
	broker_channel_put(one, first);
	second = take(one, BROKER_LOCKS);
	ck_assert_uint_ne(second, 0);
	ck_assert_uint_ne(second, first);
	run();
	ck_saw("auxiliary:up");
	/* Each link has its own number. */
	memory_broker_set_channels_max(one, BROKER_LOCKS, 1);
	memory_broker_cut(one, BROKER_LOCKS, 0, 0, "cut");
	pass(MSEC);
	ck_saw("locks:down:cut locks:up");
	broker_get_info(one, &info);
	ck_assert_uint_eq(info.channels_max, 1);
	ck_assert_uint_ne(take(one, BROKER_AUXILIARY), 0);
	broker_get_info(two, &info);
	ck_assert_uint_eq(info.channels_max, 2047);
}
END_TEST

/* Administration needs a channel, and then a probe does. */
START_TEST(idle_channels_are_used_for_probes)
{
	static const char *const queues[] = {"a"};
	uint64_t channels[3];

	for (int i = 0; i < 3; i++) {
		channels[i] = take(one, BROKER_AUXILIARY);
		declare_slot(one, channels[i], "a", (uint64_t)i + 1);
	}
	run();
	ck_saw("auxiliary:up 1=ok 2=ok 3=ok");
	for (int i = 0; i < 3; i++)
		broker_channel_put(one, channels[i]);
	probe(one, queues, 1, 4);
	run();
	ck_saw("p4=ok");
	/* The others are still idle. */
	channels[0] = take(one, BROKER_AUXILIARY);
	delete_slot(one, channels[0], "a", 5);
	run();
	ck_saw("5=ok");
}
END_TEST

START_TEST(idle_channels_do_not_keep_waiters_from_hints)
{
	uint64_t channel = take(one, BROKER_AUXILIARY);

	declare_slot(one, channel, "a", 1);
	run();
	broker_channel_put(one, channel);
	join(one, "w", 0, 1);
	run();
	ck_saw("auxiliary:up 1=ok joined:w/0");
}
END_TEST

START_TEST(a_channel_that_waits_gets_the_number_of_one_that_is_put_back)
{
	uint64_t channels[4];

	for (int i = 0; i < 4; i++) {
		channels[i] = take(one, BROKER_AUXILIARY);
		declare_slot(one, channels[i], "a", (uint64_t)i + 1);
	}
	run();
	ck_saw("auxiliary:up 1=ok 2=ok 3=ok");
	broker_channel_put(one, channels[1]);
	run();
	ck_saw("4=ok");
}
END_TEST

START_TEST(the_broker_closes_a_channel)
{
	uint64_t channel = take(one, BROKER_LOCKS);

	rig.delays[0] = 10 * MSEC; /* performed at 5 */
	rig.delays[1] = 20 * MSEC; /* performed at 10 */
	claim(one, channel, "q", 1);
	claim(one, channel, "r", 2);
	pass(7 * MSEC);
	rig.in_call = true;
	memory_broker_close_channel(one, channel, 406, "PRECONDITION_FAILED - timeout");
	rig.in_call = false;
	claim(one, channel, "s", 3);
	pass(0);
	ck_saw("");
	pass(20 * MSEC);
	/* Requests that were performed are answered first. */
	ck_saw("1=ok 2=skipped! 3=skipped! closed:406");
	ck_assert_ptr_eq(owner_of("q"), one);
	ck_assert(!exists("r"));
	ck_assert(!exists("s"));
}
END_TEST

/* ---- time ---- */

START_TEST(performed_half_way_answered_at_the_end)
{
	uint64_t channel = take(one, BROKER_LOCKS);
	int64_t start = rig.now;

	rig.delays[0] = 100 * MSEC;
	claim(one, channel, "q", 1);
	pass(49 * MSEC);
	ck_assert(!exists("q"));
	pass(2 * MSEC);
	ck_assert_ptr_eq(owner_of("q"), one);
	pass(48 * MSEC);
	ck_saw("");
	pass(1 * MSEC);
	ck_saw("1=ok");
	ck_assert_int_eq(rig.sent_at[1], start);
}
END_TEST

START_TEST(order_is_kept_on_a_channel_and_not_across)
{
	uint64_t channel = take(one, BROKER_LOCKS), other = take(one, BROKER_LOCKS);

	rig.delays[0] = 100 * MSEC;
	rig.delays[1] = 10 * MSEC;
	rig.delays[2] = 20 * MSEC;
	claim(one, channel, "q", 1);
	drop(one, channel, "q", 2);
	claim(one, other, "r", 3);
	pass(99 * MSEC);
	ck_saw("3=ok");
	pass(1 * MSEC);
	ck_saw("1=ok 2=ok");
	/* The drop was performed behind the claim, though it was the quicker one. */
	ck_assert(!exists("q"));
}
END_TEST

START_TEST(silence_performs_and_holds_its_channel)
{
	uint64_t channel = take(one, BROKER_LOCKS), other = take(one, BROKER_LOCKS);

	rig.silences[1] = true;
	claim(one, channel, "q", 1);
	claim(one, channel, "r", 2);
	claim(one, channel, "s", 3);
	claim(one, other, "t", 4);
	pass(3600 * NSEC_PER_SEC);
	ck_saw("1=ok 4=ok");
	ck_assert_ptr_eq(owner_of("r"), one);
	ck_assert(!exists("s"));
	/* Closing the channel ends the silence. */
	memory_broker_close_channel(one, channel, 406, "PRECONDITION_FAILED - timeout");
	pass(0);
	ck_saw("2=skipped! 3=skipped! closed:406");
}
END_TEST

START_TEST(requests_skipped_after_a_failure_are_answered)
{
	uint64_t channel = take(one, BROKER_LOCKS);

	rig.silences[1] = true;
	check(one, channel, "none", 1);
	check(one, channel, "none", 2);
	run();
	ck_saw("1=absent! 2=skipped! closed:404");
	channel = take(one, BROKER_LOCKS);
	rig.silences[rig.silences_used] = true;
	claim(one, channel, "q", 3);
	run();
	ck_saw("");
	memory_broker_close_channel(one, channel, 406, "PRECONDITION_FAILED - timeout");
	run();
	ck_saw("3=skipped! closed:406");
}
END_TEST

static void
hammer(struct broker *broker, uint64_t *channels, struct jitter *jitter, uint64_t id)
{
	static const char *const queues[] = {"q1", "q2", "q3"};
	uint64_t *channel = &channels[jitter_below(jitter, 3)];
	const char *queue = queues[jitter_below(jitter, 3)];

	broker_channel_put(broker, *channel);
	*channel = broker_channel_take(broker, BROKER_LOCKS);
	if (jitter_below(jitter, 2) == 0)
		broker_claim(broker, *channel, BROKER_BY_QUEUE, queue, done(id));
	else
		broker_drop(broker, *channel, BROKER_BY_QUEUE, queue, done(id));
}

static struct jitter chance;

static int64_t
random_delay(void *ctx)
{
	(void)ctx;
	return jitter_below(&chance, 5 * MSEC);
}

static void
seeded_run(uint64_t seed, char *ret, size_t size)
{
	static const struct memory_behaviour behaviour = {.delay = random_delay};
	uint64_t channels[2][3] = {{0}};
	struct jitter jitter;

	jitter_init(&chance, seed);
	jitter_init(&jitter, seed);
	rig_new(&behaviour);
	rig_start();
	for (int i = 0; i < 3; i++) {
		channels[0][i] = take(one, BROKER_LOCKS);
		channels[1][i] = take(two, BROKER_LOCKS);
	}
	for (uint64_t id = 1; id < 100; id++) {
		if (id % 2 == 0)
			hammer(one, channels[0], &jitter, id);
		else
			hammer(two, channels[1], &jitter, id + 100);
		pass(5 * MSEC);
	}
	snprintf(ret, size, "%s", rig.seen);
	rig_free();
}

START_TEST(a_seed_replays)
{
	static char first[4096], second[4096], other[4096];

	seeded_run(11, first, sizeof(first));
	seeded_run(11, second, sizeof(second));
	seeded_run(12, other, sizeof(other));
	ck_assert_str_eq(first, second);
	ck_assert_str_ne(first, other);
	ck_assert_ptr_nonnull(strstr(first, "=locked!"));
	ck_assert_ptr_nonnull(strstr(first, "=ok"));
}
END_TEST

/* ---- probes ---- */

/* Also if the server hides no queues, so that no question is asked twice. */
START_TEST(a_probe_is_counted_as_one_round_trip)
{
	static const char *const queues[] = {"a", "b"};
	struct broker_traffic traffic;
	uint64_t count = 0;

	memory_world_set_hides_queues(world, _i == 1);
	probe(one, queues, 2, 1);
	pass(0);
	ck_saw("auxiliary:up p1=absent,absent");
	broker_get_traffic(one, BROKER_AUXILIARY, &traffic);
	for (size_t i = 0; i <= histogram_round_trips.count; i++)
		count += traffic.round_trips.counts[i];
	ck_assert_uint_eq(count, 1);
}
END_TEST

START_TEST(a_probe_does_not_send_everything_at_once)
{
	static const char *const queues[] = {"a", "b", "c"};

	rig.delays[0] = 40 * MSEC;
	probe(one, queues, 3, 1);
	pass(15 * MSEC);
	memory_world_put(world, "a", false);
	memory_world_put(world, "b", false);
	memory_world_put(world, "c", false);
	pass(25 * MSEC);
	ck_saw("auxiliary:up p1=absent,absent,ok");
}
END_TEST

START_TEST(a_nack_is_unknown)
{
	static const char *const queues[] = {"a", "b", "c"};

	rig.nacks[1] = true;
	memory_world_put(world, "b", false);
	probe(one, queues, 3, 1);
	pass(0);
	ck_saw("auxiliary:up p1=absent,unknown,absent");
}
END_TEST

START_TEST(a_silent_probe_is_unknown_at_its_deadline)
{
	static const char *const queues[] = {"a", "b"};

	rig.holds_acks = _i == 1;
	probe(one, queues, 2, 3);
	pass(0);
	ck_saw("auxiliary:up p3=absent,absent");
	/* Publishes sent with it are not confirmed either. Later ones are. */
	rig.silences[rig.silences_used] = true;
	probe(one, queues, 2, 1);
	probe(one, queues, 2, 2);
	pass(MSEC);
	probe(one, queues, 2, 4);
	pass(MEMORY_PROBE_TIMEOUT - MSEC - 1);
	ck_saw("p4=absent,absent");
	pass(1);
	ck_saw("p1=unknown,unknown p2=unknown,unknown");
}
END_TEST

START_TEST(nothing_lasts_in_memory_before_the_link_is_up_either)
{
	struct broker *other = memory_broker_new(world, 10, 4);
	struct broker_info info;

	broker_get_info(other, &info);
	ck_assert_int_eq(info.locks, BROKER_DOWN);
	ck_assert(!info.persistent);
	broker_free(other);
}
END_TEST

START_TEST(info_has_the_states_and_the_server)
{
	struct broker_info info;

	broker_get_info(one, &info);
	ck_assert_int_eq(info.locks, BROKER_UP);
	ck_assert_int_eq(info.auxiliary, BROKER_DOWN);
	ck_assert_str_eq(info.host, "memory:");
	ck_assert_str_eq(info.product, "memory");
	ck_assert_str_eq(info.why, "");
	ck_assert_int_eq(info.heartbeat, 10);
	ck_assert(!info.persistent);
	ck_assert(!info.deletes_by_name);
	memory_world_set_deletes_by_name(world, true);
	broker_get_info(one, &info);
	ck_assert(info.deletes_by_name);
}
END_TEST

/* An administrator's work goes on without the lock connection. */
START_TEST(info_remembers_the_server)
{
	struct broker_info info;
	struct broker *other = rig_broker_new(3);

	broker_get_info(other, &info);
	ck_assert(info.hides_queues);
	broker_free(other);
	memory_world_set_hides_queues(world, true);
	for (int i = 0; i < 2; i++) {
		memory_broker_cut(one, BROKER_LOCKS, 0, -1, "test");
		run();
		broker_get_info(one, &info);
		ck_assert_int_eq(info.locks, BROKER_DOWN);
		ck_assert_int_eq(info.hides_queues, i > 0);
		memory_broker_restore(one, BROKER_LOCKS);
		run();
	}
	ck_saw("locks:down:test locks:up locks:down:test locks:up");
}
END_TEST

static void
count_queue(void *ctx, const char *queue, const struct broker *owner)
{
	char *text = ctx;

	strcat(text, queue);
	strcat(text, owner == one ? ":one " : owner == NULL ? ": " : ":foreign ");
}

START_TEST(every_queue_is_listed)
{
	char text[100] = "";

	claim(one, take(one, BROKER_LOCKS), "q", 1);
	run();
	memory_world_put(world, "a", false);
	memory_world_put(world, "f", true);
	memory_world_each(world, count_queue, text);
	ck_assert_str_eq(text, "q:one a: f:foreign ");
	ck_saw("1=ok");
}
END_TEST

Suite *
suite_memory_broker(void)
{
	Suite *suite = suite_create("memory broker");
	TCase *tcase = rig_tcase(suite, "channels");

	tcase_add_test(tcase, the_lock_connection_has_channels_max);
	tcase_add_test(tcase, idle_channels_are_used_for_probes);
	tcase_add_test(tcase, idle_channels_do_not_keep_waiters_from_hints);
	tcase_add_test(tcase, a_channel_that_waits_gets_the_number_of_one_that_is_put_back);
	tcase_add_test(tcase, the_broker_closes_a_channel);
	tcase = rig_tcase(suite, "time");
	tcase_add_test(tcase, performed_half_way_answered_at_the_end);
	tcase_add_test(tcase, order_is_kept_on_a_channel_and_not_across);
	tcase_add_test(tcase, silence_performs_and_holds_its_channel);
	tcase_add_test(tcase, requests_skipped_after_a_failure_are_answered);
	tcase = rig_tcase(suite, "probes");
	tcase_add_loop_test(tcase, a_probe_is_counted_as_one_round_trip, 0, 2);
	tcase_add_test(tcase, a_probe_does_not_send_everything_at_once);
	tcase_add_test(tcase, a_nack_is_unknown);
	tcase_add_loop_test(tcase, a_silent_probe_is_unknown_at_its_deadline, 0, 2);
	tcase_add_test(tcase, nothing_lasts_in_memory_before_the_link_is_up_either);
	tcase_add_test(tcase, info_has_the_states_and_the_server);
	tcase_add_test(tcase, info_remembers_the_server);
	tcase_add_test(tcase, every_queue_is_listed);
	tcase = tcase_create("seed");
	tcase_add_test(tcase, a_seed_replays);
	suite_add_tcase(suite, tcase);
	return suite;
}
