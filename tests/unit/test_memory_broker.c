/*
 * The AMQP code over the server in memory: whose queues are whose, channels, the order and time of
 * answers, probes.
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

/* ---- ownership ---- */

START_TEST(exclusive_queues_belong_to_the_link)
{
	uint64_t channel = take(one, BROKER_LOCKS), other = take(one, BROKER_LOCKS);
	uint64_t rival = take(two, BROKER_LOCKS), side = take(one, BROKER_AUXILIARY);

	claim(one, channel, "q", 1);
	run();
	ck_saw("auxiliary:up 1=ok");
	ck_assert_ptr_eq(owner_of("q"), one);
	/*
	 * Again, on another channel of the same link: still ours, so the link alone does not
	 * arbitrate.
	 */
	claim(one, other, "q", 2);
	check(one, other, "q", 3);
	claim(two, rival, "q", 101);
	/* The auxiliary connection is another connection. */
	check(one, side, "q", 4);
	run();
	ck_saw("2=ok 3=ok 101=locked! closed:405 4=locked! closed:405");
	ck_assert_ptr_eq(owner_of("q"), one);
}
END_TEST

START_TEST(putting_a_channel_back_frees_nothing)
{
	uint64_t channel = take(one, BROKER_LOCKS);

	claim(one, channel, "q", 1);
	run();
	broker_channel_put(one, channel);
	broker_channel_put(one, channel); /* gone: fine */
	run();
	ck_assert_ptr_eq(owner_of("q"), one);
	channel = take(one, BROKER_LOCKS);
	drop(one, channel, "q", 2);
	run();
	ck_assert(!exists("q"));
	drop(one, channel, "q", 3);
	run();
	ck_saw("1=ok 2=ok 3=ok");
}
END_TEST

START_TEST(drop_of_anothers_queue_is_locked)
{
	uint64_t channel = take(one, BROKER_LOCKS), rival = take(two, BROKER_LOCKS);

	claim(one, channel, "q", 1);
	run();
	drop(two, rival, "q", 101);
	run();
	ck_saw("1=ok 101=locked! closed:405");
	ck_assert_uint_eq(rig.closed_channel, rival);
	ck_assert_ptr_eq(owner_of("q"), one);
}
END_TEST

START_TEST(foreign_clients_have_queues_too)
{
	uint64_t channel = take(one, BROKER_LOCKS), other = take(one, BROKER_LOCKS);

	ck_assert(memory_world_put(world, "plain", false));
	ck_assert(memory_world_put(world, "taken", true));
	ck_assert(!memory_world_put(world, "plain", true));
	ck_assert_ptr_null(owner_of("plain"));
	ck_assert_ptr_nonnull(owner_of("taken"));
	ck_assert(owner_of("taken") != one && owner_of("taken") != two);
	check(one, channel, "plain", 1);
	claim(one, channel, "taken", 2);
	/* A queue that is not exclusive cannot be declared so. */
	claim(one, other, "plain", 3);
	run();
	ck_saw("1=ok 2=locked! closed:405 3=locked! closed:405");
	ck_assert(memory_world_remove(world, "taken"));
	ck_assert(!memory_world_remove(world, "taken"));
	channel = take(one, BROKER_LOCKS);
	claim(one, channel, "taken", 4);
	claim(one, channel, "amq.mine", 5);
	run();
	ck_saw("4=ok 5=refused! closed:403");
}
END_TEST

/* ---- channels ---- */

START_TEST(a_failing_request_closes_its_channel_and_skips_what_follows)
{
	uint64_t channel = take(one, BROKER_LOCKS), other = take(one, BROKER_LOCKS);

	check(one, channel, "none", 1);
	claim(one, channel, "q", 2);
	claim(one, channel, "r", 3);
	claim(one, other, "s", 4);
	run();
	ck_saw("1=absent! 2=skipped! 3=skipped! closed:404 4=ok");
	ck_assert_uint_eq(rig.closed_channel, channel);
	ck_assert(!exists("q"));
	ck_assert(!exists("r"));
	/* The channel is gone; its link is not. */
	claim(one, channel, "q", 5);
	run();
	ck_saw("5=skipped!");
	ck_assert(!exists("q"));
}
END_TEST

static uint64_t reaction_channel;

static void
put_channel_back(void)
{
	broker_channel_put(one, reaction_channel);
}

START_TEST(no_event_for_a_channel_that_was_put_back)
{
	uint64_t channel = take(one, BROKER_LOCKS);

	check(one, channel, "none", 1);
	claim(one, channel, "q", 2);
	reaction_channel = channel;
	rig.reaction = put_channel_back;
	rig.react_to = 1;
	run();
	run();
	ck_saw("1=absent! 2=skipped!");
}
END_TEST

static void
ask_again(void)
{
	broker_claim(one, reaction_channel, BROKER_BY_QUEUE, "q", done(9));
	reaction_channel = broker_channel_take(one, BROKER_LOCKS);
	ck_assert_uint_ne(reaction_channel, 0);
	broker_claim(one, reaction_channel, BROKER_BY_QUEUE, "q", done(10));
}

START_TEST(an_answer_can_ask_again)
{
	take(one, BROKER_LOCKS);
	take(one, BROKER_LOCKS);
	reaction_channel = take(one, BROKER_LOCKS);
	ck_assert_uint_eq(take(one, BROKER_LOCKS), 0);
	check(one, reaction_channel, "none", 1);
	rig.reaction = ask_again;
	rig.react_to = 1;
	run();
	ck_saw("1=absent! closed:404 9=skipped! 10=ok");
}
END_TEST

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

START_TEST(a_slot_declared_otherwise_is_used_at_the_price_of_the_channel)
{
	uint64_t channel = take(one, BROKER_AUXILIARY);

	ck_assert(memory_world_put_otherwise(world, "a"));
	ck_assert(!memory_world_put_otherwise(world, "a"));
	declare_slot(one, channel, "a", 1);
	declare_slot(one, channel, "b", 2);
	pass(0);
	ck_saw("auxiliary:up 1=ok! 2=skipped! closed:406");
	ck_assert(!exists("b"));
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

START_TEST(a_claim_may_succeed_after_the_asker_gave_up)
{
	uint64_t channel = take(one, BROKER_LOCKS);

	rig.delays[0] = 60 * NSEC_PER_SEC;
	claim(one, channel, "q", 1);
	pass(59 * NSEC_PER_SEC);
	ck_saw("");
	ck_assert_ptr_eq(owner_of("q"), one);
	pass(1 * NSEC_PER_SEC);
	ck_saw("1=ok");
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

/* By a confirm each, or by one for all. */
START_TEST(a_probe_tells_which_queues_exist)
{
	static const char *const queues[] = {"a", "b", "c", "d"};
	uint64_t channel = take(two, BROKER_LOCKS);

	rig.holds_acks = _i == 1;
	memory_world_put(world, "a", false);
	memory_world_put(world, "d", true);
	claim(two, channel, "b", 101);
	run();
	probe(one, queues, 4, 1);
	pass(0);
	/* Exclusive queues of other connections are seen, too. */
	ck_saw("101=ok auxiliary:up p1=ok,ok,absent,ok");
}
END_TEST

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

START_TEST(an_alarm_holds_probes_back)
{
	static const char *const queues[] = {"a"};
	uint64_t channel = take(one, BROKER_LOCKS);
	struct broker_info info;

	memory_world_block(world, true);
	probe(one, queues, 1, 1);
	claim(one, channel, "q", 2);
	pass(2 * NSEC_PER_SEC);
	/*
	 * The first publish is confirmed. The lock connection never publishes: nothing holds it
	 * back.
	 */
	ck_saw("auxiliary:up 2=ok p1=absent");
	broker_get_info(one, &info);
	ck_assert(info.auxiliary_blocked);
	probe(one, queues, 1, 3);
	pass(3 * NSEC_PER_SEC);
	ck_saw("p3=unknown");
	memory_world_block(world, false);
	pass(0);
	probe(one, queues, 1, 4);
	pass(0);
	ck_saw("p4=absent");
	broker_get_info(one, &info);
	ck_assert(!info.auxiliary_blocked);
}
END_TEST

static void
probe_again(void)
{
	static const char *const queues[] = {"a"};

	probe(one, queues, 1, 3);
}

START_TEST(a_probe_during_an_alarm_is_not_published_after_a_confirm)
{
	static const char *const queues[] = {"a"};
	struct amqp_counts before, after;

	probe(one, queues, 1, 1);
	pass(0);
	ck_saw("auxiliary:up p1=absent");
	rig.reaction = probe_again;
	rig.react_to = 2;
	memory_world_block(world, true);
	probe(one, queues, 1, 2);
	broker_get_counts(one, BROKER_AUXILIARY, &before);
	pass(0);
	ck_saw("p2=absent p3=unknown");
	broker_get_counts(one, BROKER_AUXILIARY, &after);
	ck_assert_uint_eq(after.sent_publishes, before.sent_publishes);
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
	TCase *tcase = rig_tcase(suite, "ownership");

	tcase_add_test(tcase, exclusive_queues_belong_to_the_link);
	tcase_add_test(tcase, putting_a_channel_back_frees_nothing);
	tcase_add_test(tcase, drop_of_anothers_queue_is_locked);
	tcase_add_test(tcase, foreign_clients_have_queues_too);
	tcase = rig_tcase(suite, "channels");
	tcase_add_test(tcase, a_failing_request_closes_its_channel_and_skips_what_follows);
	tcase_add_test(tcase, no_event_for_a_channel_that_was_put_back);
	tcase_add_test(tcase, an_answer_can_ask_again);
	tcase_add_test(tcase, the_lock_connection_has_channels_max);
	tcase_add_test(tcase, idle_channels_are_used_for_probes);
	tcase_add_test(tcase, idle_channels_do_not_keep_waiters_from_hints);
	tcase_add_test(tcase, a_channel_that_waits_gets_the_number_of_one_that_is_put_back);
	tcase_add_test(tcase, the_broker_closes_a_channel);
	tcase_add_test(tcase, a_slot_declared_otherwise_is_used_at_the_price_of_the_channel);
	tcase = rig_tcase(suite, "time");
	tcase_add_test(tcase, performed_half_way_answered_at_the_end);
	tcase_add_test(tcase, order_is_kept_on_a_channel_and_not_across);
	tcase_add_test(tcase, a_claim_may_succeed_after_the_asker_gave_up);
	tcase_add_test(tcase, silence_performs_and_holds_its_channel);
	tcase_add_test(tcase, requests_skipped_after_a_failure_are_answered);
	tcase = rig_tcase(suite, "probes");
	tcase_add_loop_test(tcase, a_probe_tells_which_queues_exist, 0, 2);
	tcase_add_loop_test(tcase, a_probe_is_counted_as_one_round_trip, 0, 2);
	tcase_add_test(tcase, a_probe_does_not_send_everything_at_once);
	tcase_add_test(tcase, a_nack_is_unknown);
	tcase_add_loop_test(tcase, a_silent_probe_is_unknown_at_its_deadline, 0, 2);
	tcase_add_test(tcase, an_alarm_holds_probes_back);
	tcase_add_test(tcase, a_probe_during_an_alarm_is_not_published_after_a_confirm);
	tcase_add_test(tcase, nothing_lasts_in_memory_before_the_link_is_up_either);
	tcase_add_test(tcase, info_has_the_states_and_the_server);
	tcase_add_test(tcase, info_remembers_the_server);
	tcase_add_test(tcase, every_queue_is_listed);
	tcase = tcase_create("seed");
	tcase_add_test(tcase, a_seed_replays);
	suite_add_tcase(suite, tcase);
	return suite;
}
