/*
 * The AMQP code over the server in memory: links whose death the server notices late, or that do not
 * come up, and troubles at random. tests/conformance/ has the rest.
 */
#include "daemon/base/backoff.h"
#include "daemon/broker/broker.h"
#include "tests/memory/controls.h"
#include "tests/unit/memory_rig.h"
#include "tests/unit/test_memory.h"

/* ---- links ---- */

START_TEST(a_channel_with_much_to_do_does_not_hold_up_another)
{
	struct raw *raw = raw_new(0);
	size_t before;

	raw_open(raw, 2);
	raw_declare(raw, 1, "s", RAW_DURABLE);
	run();
	ck_saw("a1:declared(0,0)");
	for (int count = 0; count < 300; count++)
		raw_get(raw, 1, "s");
	raw_declare(raw, 2, "s", RAW_PASSIVE);
	run();
	before = strcspn(rig.seen, "2");
	ck_assert_uint_lt(before, 70 * strlen("a1:empty "));
	ck_assert_uint_gt(strlen(rig.seen + before), 230 * strlen("a1:empty "));
	rig.seen[0] = '\0';
}
END_TEST

START_TEST(a_cut_noticed_late_keeps_the_queues_till_then)
{
	uint64_t channel = take(one, BROKER_LOCKS), rival = take(two, BROKER_LOCKS);

	claim(one, channel, "q", 1);
	run();
	memory_broker_cut(one, BROKER_LOCKS, 500 * MSEC, 0, "timed out");
	pass(0);
	ck_saw("1=ok locks:down:timed out locks:up");
	/* Our own old queue looks like another holder. */
	channel = take(one, BROKER_LOCKS);
	claim(one, channel, "q", 2);
	claim(two, rival, "q", 101);
	pass(499 * MSEC);
	ck_saw("2=locked! closed:405 101=locked! closed:405");
	ck_assert_ptr_eq(owner_of("q"), one);
	pass(1 * MSEC);
	ck_assert(!exists("q"));
}
END_TEST

START_TEST(requests_sent_before_the_cut_may_still_be_performed)
{
	uint64_t channel = take(one, BROKER_LOCKS), other = take(one, BROKER_LOCKS);

	rig.delays[0] = 20 * MSEC;
	rig.delays[1] = 20 * MSEC;
	rig.delays[2] = 20 * MSEC;
	claim(one, channel, "late", 1);
	check(one, other, "none", 2);
	claim(one, other, "skipped", 3);
	memory_broker_cut(one, BROKER_LOCKS, 500 * MSEC, -1, "timed out");
	ck_saw("1=unknown! 2=unknown! 3=unknown! locks:down:timed out");
	ck_assert(!exists("late"));
	pass(10 * MSEC);
	ck_assert_ptr_eq(owner_of("late"), one);
	ck_assert(!exists("skipped"));
	pass(490 * MSEC);
	ck_assert(!exists("late"));
	ck_saw("");
}
END_TEST

START_TEST(a_killed_daemon_leaves_its_queues_until_noticed)
{
	uint64_t channel = take(one, BROKER_LOCKS);

	claim(one, channel, "q", 1);
	run();
	memory_broker_cut(one, BROKER_LOCKS, 500 * MSEC, -1, "killed");
	ck_saw("1=ok locks:down:killed");
	broker_free(one);
	ck_assert_ptr_nonnull(owner_of("q"));
	ck_assert_ptr_ne(owner_of("q"), one);
	pass(500 * MSEC);
	ck_assert(!exists("q"));
	one = rig_broker_new(3);
	/* And a world may end before it has noticed. */
	channel = take(two, BROKER_LOCKS);
	claim(two, channel, "q", 101);
	run();
	memory_broker_cut(two, BROKER_LOCKS, 500 * MSEC, -1, "killed");
	ck_saw("101=ok two.locks:down:killed");
}
END_TEST

START_TEST(out_of_reach_from_the_start)
{
	struct broker_info info;

	memory_broker_cut(one, BROKER_LOCKS, 0, -1, "refused");
	broker_start(one);
	ck_saw("");
	run();
	ck_saw("locks:down:refused");
	ck_assert_uint_eq(take(one, BROKER_LOCKS), 0);
	memory_broker_deny(one, BROKER_LOCKS, "ACCESS_REFUSED");
	ck_saw("locks:refused:ACCESS_REFUSED");
	broker_get_info(one, &info);
	ck_assert_int_eq(info.locks, BROKER_LOGIN_REFUSED);
	ck_assert_str_eq(info.why, "ACCESS_REFUSED");
	memory_broker_restore(one, BROKER_LOCKS);
	run();
	ck_saw("locks:up");
}
END_TEST

/* ---- anything goes ---- */

#define ASKED_MAX 400

static struct asked {
	uint64_t channel; /* 0: a probe */
	int answers;
} asked[ASKED_MAX];
static uint64_t asked_count;
static struct jitter chance;

static void
count_answer(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	(void)ctx;
	ck_assert(!rig.in_call);
	ck_assert_int_eq(asked[id].answers++, 0);
	/* All that was asked before on that channel has been answered. */
	for (uint64_t i = 0; i < id; i++)
		ck_assert(asked[i].channel != asked[id].channel || asked[i].answers == 1);
	/* Neither answer leaves a channel behind. */
	if (reply->answer == BROKER_SKIPPED || reply->answer == BROKER_UNKNOWN)
		ck_assert(!reply->channel_open);
}

static void
count_probe(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	(void)ctx;
	ck_assert(!rig.in_call);
	ck_assert_uint_eq(seen->count, 2);
	ck_assert_int_eq(asked[id].answers++, 0);
}

static void
ask_something(uint64_t *channels)
{
	static const struct broker_question both[] = {
	    {"q", BROKER_ASK_EXISTENCE}, {"r", BROKER_ASK_EXISTENCE}};
	const char *queue = both[jitter_below(&chance, 2)].queue;
	uint64_t which = (uint64_t)jitter_below(&chance, 4), id = asked_count++;
	struct broker_done counted = {.fn = count_answer, .id = id};

	ck_assert_uint_lt(id, ASKED_MAX);
	asked[id] = (struct asked){.channel = channels[which]};
	switch (channels[which] == 0 ? 3 : jitter_below(&chance, 4)) {
	case 0:
		broker_claim(two, channels[which], BROKER_BY_QUEUE, queue, counted);
		break;
	case 1:
		broker_check(two, channels[which], queue, counted);
		break;
	case 2:
		broker_drop(two, channels[which], BROKER_BY_QUEUE, queue, true, counted);
		break;
	default:
		asked[id].channel = 0;
		broker_probe(two, both, 2, (struct broker_probe_done){.fn = count_probe, .id = id});
		break;
	}
}

static void
trouble(const uint64_t *channels)
{
	enum broker_link link = jitter_below(&chance, 2) == 0 ? BROKER_LOCKS : BROKER_AUXILIARY;
	uint64_t channel = channels[jitter_below(&chance, 4)];

	switch (jitter_below(&chance, 5)) {
	case 0:
		memory_broker_cut(two, link, jitter_below(&chance, 20 * MSEC),
		    jitter_below(&chance, 20 * MSEC), "reset");
		break;
	case 1:
		memory_broker_deny(two, link, "ACCESS_REFUSED");
		break;
	case 2:
		if (channel != 0)
			memory_broker_close_channel(two, channel, 406, "PRECONDITION_FAILED");
		break;
	case 3:
		memory_world_block(world, jitter_below(&chance, 2) == 0);
		break;
	case 4:
		if (!memory_world_remove(world, "q"))
			memory_world_put(world, "q", true);
		break;
	}
}

static int64_t
any_delay(void *ctx)
{
	(void)ctx;
	return jitter_below(&chance, 10 * MSEC);
}

static bool
seldom(void *ctx)
{
	(void)ctx;
	return jitter_below(&chance, 20) == 0;
}

/* Channels that were closed or died are asked on, too: 4 of them, replaced now and then. */
static void
random_step(uint64_t *channels)
{
	static const enum broker_link links[] = {
	    BROKER_LOCKS, BROKER_LOCKS, BROKER_LOCKS, BROKER_AUXILIARY};
	int64_t which = jitter_below(&chance, 4);

	rig.in_call = true;
	if (jitter_below(&chance, 4) == 0)
		channels[which] = broker_channel_take(two, links[which]);
	ask_something(channels);
	rig.in_call = false;
	if (jitter_below(&chance, 10) == 0)
		trouble(channels);
	if (jitter_below(&chance, 20) == 0) {
		memory_broker_restore(two, BROKER_LOCKS);
		memory_broker_restore(two, BROKER_AUXILIARY);
	}
	pass(jitter_below(&chance, 4 * MSEC));
	rig.seen[0] = '\0';
}

START_TEST(whatever_happens_each_request_is_answered_once_and_in_order)
{
	static const struct memory_behaviour behaviour = {
	    .delay = any_delay, .silent = seldom, .nacks = seldom};
	uint64_t channels[4] = {0};

	jitter_init(&chance, (uint64_t)_i);
	asked_count = 0;
	rig_new(&behaviour);
	rig_start();
	for (int step = 0; step < 300; step++)
		random_step(channels);
	memory_broker_cut(two, BROKER_LOCKS, 0, -1, "end");
	memory_broker_cut(two, BROKER_AUXILIARY, 0, -1, "end");
	pass(MEMORY_PROBE_TIMEOUT);
	for (uint64_t id = 0; id < asked_count; id++)
		ck_assert_msg(asked[id].answers == 1, "request %d", (int)id);
	rig_free();
}
END_TEST

Suite *
suite_memory_links(void)
{
	Suite *suite = suite_create("memory_links");
	TCase *tcase = rig_tcase(suite, "links");

	tcase_add_test(tcase, a_channel_with_much_to_do_does_not_hold_up_another);
	tcase_add_test(tcase, a_cut_noticed_late_keeps_the_queues_till_then);
	tcase_add_test(tcase, requests_sent_before_the_cut_may_still_be_performed);
	tcase_add_test(tcase, a_killed_daemon_leaves_its_queues_until_noticed);
	tcase = tcase_create("start");
	tcase_add_checked_fixture(tcase, rig_setup_unstarted, rig_teardown);
	tcase_add_test(tcase, out_of_reach_from_the_start);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("anything");
	tcase_add_loop_test(
	    tcase, whatever_happens_each_request_is_answered_once_and_in_order, 0, 20);
	suite_add_tcase(suite, tcase);
	return suite;
}
