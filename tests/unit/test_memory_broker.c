/*
 * memory_broker over a clock of our own. Whatever comes back is written down in order, in short:
 * "1=ok" is the answer to request 1, "2=locked!" one whose lane is gone with it, "p3=ok,absent" a probe,
 * "lane4:405" a lane closed by the broker, "hold:up" a link.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/base/backoff.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/memory_broker.h"
#include "tests/unit/unit.h"

#define MSEC NSEC_PER_MSEC

static int64_t fake_time;
static struct timers *timers;
static struct memory_world *world;
static struct broker *one, *two; /* two daemons; two's answers are numbered from 100 */
static char seen[4096];
static bool in_call; /* a call of the seam is in progress: nothing may be called back */
static int64_t sent_at[300];

static int64_t
fake_now(void *ctx)
{
	(void)ctx;
	return fake_time;
}

static const struct clock fake_clock = {.now = fake_now};

static void
see(const char *what)
{
	size_t used = strlen(seen);

	ck_assert(!in_call);
	ck_assert_uint_lt(used + strlen(what) + 2, sizeof(seen));
	snprintf(seen + used, sizeof(seen) - used, "%s%s", used == 0 ? "" : " ", what);
}

static const char *
answer_word(enum broker_answer answer)
{
	switch (answer) {
	case BROKER_OK:
		return "ok";
	case BROKER_ABSENT:
		return "absent";
	case BROKER_LOCKED:
		return "locked";
	case BROKER_REFUSED:
		return "refused";
	case BROKER_SKIPPED:
		return "skipped";
	case BROKER_UNKNOWN:
		return "unknown";
	}
	return "?";
}

/* What a test does from inside an answer, once, to the request of that number. */
static uint64_t react_to;
static void (*reaction)(void);

static void
on_done(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	char text[64];

	(void)ctx;
	snprintf(text, sizeof(text), "%d=%s%s", (int)id, answer_word(reply->answer),
	    reply->lane_open ? "" : "!");
	see(text);
	sent_at[id] = reply->sent_at;
	ck_assert_ptr_nonnull(reply->text);
	if (id == react_to && reaction != NULL) {
		react_to = 0;
		reaction();
	}
}

static void
on_probe(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	char text[256];
	size_t used = (size_t)snprintf(text, sizeof(text), "p%d", (int)id);

	(void)ctx;
	for (size_t i = 0; i < count; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%c%s",
		    i == 0 ? '=' : ',', answer_word(answers[i]));
	}
	see(text);
}

static void
on_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	struct broker *broker = ctx;
	char text[64];

	snprintf(text, sizeof(text), "%s%s:%s%s%s", broker == two ? "two." : "",
	    link == BROKER_HOLD ? "hold" : "side",
	    state == BROKER_UP	   ? "up"
	    : state == BROKER_DOWN ? "down"
				   : "denied",
	    *why != '\0' ? ":" : "", why);
	see(text);
}

static uint64_t closed_lane;

static void
on_lane_closed(void *ctx, uint64_t lane, int code, const char *text)
{
	char what[64];

	(void)ctx;
	ck_assert_str_ne(text, "");
	closed_lane = lane;
	snprintf(what, sizeof(what), "closed:%d", code);
	see(what);
}

static void
run(void)
{
	timers_run(timers);
}

/* Runs all that falls due in so many ns, at its own time. */
static void
pass(int64_t ns)
{
	int64_t until = fake_time + ns;

	while (timers_next(timers) <= until) {
		if (timers_next(timers) > fake_time)
			fake_time = timers_next(timers);
		timers_run(timers);
	}
	fake_time = until;
}

/* Compares what was seen since the last call. */
#define ck_saw(wanted)                                                                             \
	do {                                                                                       \
		ck_assert_str_eq(seen, (wanted));                                                  \
		seen[0] = '\0';                                                                    \
	} while (0)

static struct broker_done
done(uint64_t id)
{
	return (struct broker_done){.fn = on_done, .id = id};
}

static void
claim(struct broker *broker, uint64_t lane, const char *queue, uint64_t id)
{
	in_call = true;
	broker_claim(broker, lane, queue, done(id));
	in_call = false;
}

static void
check(struct broker *broker, uint64_t lane, const char *queue, uint64_t id)
{
	in_call = true;
	broker_check(broker, lane, queue, done(id));
	in_call = false;
}

static void
drop(struct broker *broker, uint64_t lane, const char *queue, uint64_t id)
{
	in_call = true;
	broker_drop(broker, lane, queue, done(id));
	in_call = false;
}

static void
probe(struct broker *broker, const char *const *queues, size_t count, uint64_t id)
{
	in_call = true;
	broker_probe(broker, queues, count, (struct broker_probe_done){.fn = on_probe, .id = id});
	in_call = false;
}

static uint64_t
take(struct broker *broker, enum broker_link link)
{
	uint64_t lane;

	in_call = true;
	lane = broker_lane_take(broker, link);
	in_call = false;
	return lane;
}

/* The plan of the nature: delays and silences for the requests to come, in order; then none. */
static int64_t delays[16];
static bool silences[16];
static bool nacked[16];
static size_t delays_used, silences_used, nacks_used;

static int64_t
planned_delay(void *ctx)
{
	(void)ctx;
	return delays_used < 16 ? delays[delays_used++] : 0;
}

static bool
planned_silence(void *ctx)
{
	(void)ctx;
	return silences_used < 16 ? silences[silences_used++] : false;
}

static bool
planned_nack(void *ctx)
{
	(void)ctx;
	return nacks_used < 16 ? nacked[nacks_used++] : false;
}

static struct broker *
broker_new(unsigned lanes_max)
{
	struct broker *broker = memory_broker_new(world, 10, lanes_max);
	struct broker_events events = {
	    .link = on_link, .lane_closed = on_lane_closed, .ctx = broker};

	broker_set_events(broker, &events);
	return broker;
}

static void
setup_unstarted(void)
{
	static const struct memory_nature nature = {
	    .delay = planned_delay, .silent = planned_silence, .nacks = planned_nack};

	fake_time = 1000 * NSEC_PER_SEC;
	timers = timers_new(&fake_clock);
	world = memory_world_new(timers, &nature);
	one = broker_new(3);
	two = broker_new(2047);
}

static void
setup(void)
{
	setup_unstarted();
	in_call = true;
	broker_start(one);
	broker_start(two);
	in_call = false;
	run();
	ck_saw("hold:up two.hold:up");
}

static void
teardown(void)
{
	broker_free(one);
	broker_free(two);
	memory_world_free(world);
	ck_assert_int_eq(timers_next(timers), INT64_MAX);
	timers_free(timers);
	ck_saw("");
}

static const struct broker *
owner_of(const char *queue)
{
	const struct broker *owner = NULL;

	ck_assert(memory_world_has(world, queue, &owner));
	return owner;
}

/* ---- ownership ---- */

START_TEST(exclusive_queues_belong_to_the_link)
{
	uint64_t lane = take(one, BROKER_HOLD), other = take(one, BROKER_HOLD);
	uint64_t rival = take(two, BROKER_HOLD), side = take(one, BROKER_SIDE);

	claim(one, lane, "q", 1);
	run();
	ck_saw("side:up 1=ok");
	ck_assert_ptr_eq(owner_of("q"), one);
	/* Again, on another lane of the same link: still ours (and the trap of invariant 1). */
	claim(one, other, "q", 2);
	check(one, other, "q", 3);
	claim(two, rival, "q", 101);
	/* The side link is another connection. */
	check(one, side, "q", 4);
	run();
	ck_saw("2=ok 3=ok 101=locked! closed:405 4=locked! closed:405");
	ck_assert_ptr_eq(owner_of("q"), one);
}
END_TEST

START_TEST(putting_a_lane_back_frees_nothing)
{
	uint64_t lane = take(one, BROKER_HOLD);

	claim(one, lane, "q", 1);
	run();
	broker_lane_put(one, lane);
	broker_lane_put(one, lane); /* gone: fine */
	run();
	ck_assert_ptr_eq(owner_of("q"), one);
	lane = take(one, BROKER_HOLD);
	drop(one, lane, "q", 2);
	run();
	ck_assert(!memory_world_has(world, "q", NULL));
	drop(one, lane, "q", 3);
	run();
	ck_saw("1=ok 2=ok 3=ok");
}
END_TEST

START_TEST(drop_of_anothers_queue_is_locked)
{
	uint64_t lane = take(one, BROKER_HOLD), rival = take(two, BROKER_HOLD);

	claim(one, lane, "q", 1);
	run();
	drop(two, rival, "q", 101);
	run();
	ck_saw("1=ok 101=locked! closed:405");
	ck_assert_uint_eq(closed_lane, rival);
	ck_assert_ptr_eq(owner_of("q"), one);
}
END_TEST

START_TEST(foreign_clients_have_queues_too)
{
	uint64_t lane = take(one, BROKER_HOLD), other = take(one, BROKER_HOLD);

	ck_assert(memory_world_put(world, "plain", false));
	ck_assert(memory_world_put(world, "taken", true));
	ck_assert(!memory_world_put(world, "plain", true));
	ck_assert_ptr_null(owner_of("plain"));
	ck_assert_ptr_nonnull(owner_of("taken"));
	ck_assert(owner_of("taken") != one && owner_of("taken") != two);
	check(one, lane, "plain", 1);
	claim(one, lane, "taken", 2);
	/* A queue that is not exclusive cannot be declared so. */
	claim(one, other, "plain", 3);
	run();
	ck_saw("1=ok 2=locked! closed:405 3=locked! closed:405");
	ck_assert(memory_world_remove(world, "taken"));
	ck_assert(!memory_world_remove(world, "taken"));
	lane = take(one, BROKER_HOLD);
	claim(one, lane, "taken", 4);
	claim(one, lane, "amq.mine", 5);
	run();
	ck_saw("4=ok 5=refused! closed:403");
}
END_TEST

/* ---- lanes ---- */

START_TEST(a_failing_request_closes_its_lane_and_skips_what_follows)
{
	uint64_t lane = take(one, BROKER_HOLD), other = take(one, BROKER_HOLD);

	check(one, lane, "none", 1);
	claim(one, lane, "q", 2);
	claim(one, lane, "r", 3);
	claim(one, other, "s", 4);
	run();
	ck_saw("1=absent! 2=skipped! 3=skipped! closed:404 4=ok");
	ck_assert_uint_eq(closed_lane, lane);
	ck_assert(!memory_world_has(world, "q", NULL));
	ck_assert(!memory_world_has(world, "r", NULL));
	/* The lane is gone; its link is not. */
	claim(one, lane, "q", 5);
	run();
	ck_saw("5=skipped!");
	ck_assert(!memory_world_has(world, "q", NULL));
}
END_TEST

static uint64_t reaction_lane;

static void
put_lane_back(void)
{
	broker_lane_put(one, reaction_lane);
}

START_TEST(no_event_for_a_lane_that_was_put_back)
{
	uint64_t lane = take(one, BROKER_HOLD);

	check(one, lane, "none", 1);
	claim(one, lane, "q", 2);
	reaction_lane = lane;
	reaction = put_lane_back;
	react_to = 1;
	run();
	run();
	ck_saw("1=absent! 2=skipped!");
}
END_TEST

static void
ask_again(void)
{
	broker_claim(one, reaction_lane, "q", done(9));
	reaction_lane = broker_lane_take(one, BROKER_HOLD);
	ck_assert_uint_ne(reaction_lane, 0);
	broker_claim(one, reaction_lane, "q", done(10));
}

START_TEST(an_answer_can_ask_again)
{
	take(one, BROKER_HOLD);
	take(one, BROKER_HOLD);
	reaction_lane = take(one, BROKER_HOLD);
	ck_assert_uint_eq(take(one, BROKER_HOLD), 0);
	check(one, reaction_lane, "none", 1);
	reaction = ask_again;
	react_to = 1;
	run();
	ck_saw("1=absent! closed:404");
	run();
	ck_saw("9=skipped! 10=ok");
}
END_TEST

START_TEST(the_hold_link_has_lanes_max)
{
	struct broker_info info;
	uint64_t first = take(one, BROKER_HOLD), second = take(one, BROKER_HOLD);

	ck_assert_uint_ne(first, 0);
	ck_assert_uint_ne(second, first);
	ck_assert_uint_ne(take(one, BROKER_HOLD), 0);
	ck_assert_uint_eq(take(one, BROKER_HOLD), 0);
	broker_get_info(one, &info);
	ck_assert_uint_eq(info.lanes, 3);
	ck_assert_uint_eq(info.lanes_max, 3);
	ck_assert_uint_ne(take(one, BROKER_SIDE), 0);
	broker_lane_put(one, first);
	second = take(one, BROKER_HOLD);
	ck_assert_uint_ne(second, 0);
	ck_assert_uint_ne(second, first);
	run();
	ck_saw("side:up");
}
END_TEST

START_TEST(the_broker_closes_a_lane)
{
	uint64_t lane = take(one, BROKER_HOLD), idle = take(one, BROKER_HOLD);

	delays[0] = 10 * MSEC; /* performed at 5 */
	delays[1] = 20 * MSEC; /* performed at 10 */
	claim(one, lane, "q", 1);
	claim(one, lane, "r", 2);
	pass(7 * MSEC);
	in_call = true;
	memory_broker_close_lane(one, lane, 406, "PRECONDITION_FAILED - timeout");
	memory_broker_close_lane(one, idle, 406, "PRECONDITION_FAILED - timeout");
	in_call = false;
	claim(one, lane, "s", 3);
	pass(0);
	ck_saw("closed:406");
	ck_assert_uint_eq(closed_lane, idle);
	pass(20 * MSEC);
	/* What had been performed is answered first. */
	ck_saw("1=ok 2=skipped! 3=skipped! closed:406");
	ck_assert_ptr_eq(owner_of("q"), one);
	ck_assert(!memory_world_has(world, "r", NULL));
	ck_assert(!memory_world_has(world, "s", NULL));
}
END_TEST

/* ---- time ---- */

START_TEST(performed_half_way_answered_at_the_end)
{
	uint64_t lane = take(one, BROKER_HOLD);
	int64_t start = fake_time;

	delays[0] = 100 * MSEC;
	claim(one, lane, "q", 1);
	pass(49 * MSEC);
	ck_assert(!memory_world_has(world, "q", NULL));
	pass(2 * MSEC);
	ck_assert_ptr_eq(owner_of("q"), one);
	pass(48 * MSEC);
	ck_saw("");
	pass(1 * MSEC);
	ck_saw("1=ok");
	ck_assert_int_eq(sent_at[1], start);
}
END_TEST

START_TEST(order_is_kept_on_a_lane_and_not_across)
{
	uint64_t lane = take(one, BROKER_HOLD), other = take(one, BROKER_HOLD);

	delays[0] = 100 * MSEC;
	delays[1] = 10 * MSEC;
	delays[2] = 20 * MSEC;
	claim(one, lane, "q", 1);
	drop(one, lane, "q", 2);
	claim(one, other, "r", 3);
	pass(99 * MSEC);
	ck_saw("3=ok");
	pass(1 * MSEC);
	ck_saw("1=ok 2=ok");
	/* The drop was performed behind the claim, though it was the quicker one. */
	ck_assert(!memory_world_has(world, "q", NULL));
}
END_TEST

START_TEST(a_claim_may_succeed_after_the_asker_gave_up)
{
	uint64_t lane = take(one, BROKER_HOLD);

	delays[0] = 60 * NSEC_PER_SEC;
	claim(one, lane, "q", 1);
	pass(59 * NSEC_PER_SEC);
	ck_saw("");
	ck_assert_ptr_eq(owner_of("q"), one);
	pass(1 * NSEC_PER_SEC);
	ck_saw("1=ok");
}
END_TEST

START_TEST(silence_performs_and_holds_its_lane)
{
	uint64_t lane = take(one, BROKER_HOLD), other = take(one, BROKER_HOLD);

	silences[1] = true;
	claim(one, lane, "q", 1);
	claim(one, lane, "r", 2);
	claim(one, lane, "s", 3);
	claim(one, other, "t", 4);
	pass(3600 * NSEC_PER_SEC);
	ck_saw("1=ok 4=ok");
	ck_assert_ptr_eq(owner_of("r"), one);
	ck_assert(!memory_world_has(world, "s", NULL));
	/* Closing the lane ends the silence: the performed one nobody knows of, the other was skipped. */
	memory_broker_close_lane(one, lane, 406, "PRECONDITION_FAILED - timeout");
	pass(0);
	ck_saw("2=unknown! 3=skipped! closed:406");
}
END_TEST

static void
hammer(struct broker *broker, uint64_t *lanes, struct jitter *jitter, uint64_t id)
{
	static const char *const queues[] = {"q1", "q2", "q3"};
	uint64_t *lane = &lanes[jitter_below(jitter, 3)];
	const char *queue = queues[jitter_below(jitter, 3)];

	broker_lane_put(broker, *lane);
	*lane = broker_lane_take(broker, BROKER_HOLD);
	if (jitter_below(jitter, 2) == 0)
		broker_claim(broker, *lane, queue, done(id));
	else
		broker_drop(broker, *lane, queue, done(id));
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
	static const struct memory_nature nature = {.delay = random_delay};
	uint64_t lanes[2][3] = {{0}};
	struct jitter jitter;

	seen[0] = '\0';
	fake_time = 0;
	jitter_init(&chance, seed);
	jitter_init(&jitter, seed);
	timers = timers_new(&fake_clock);
	world = memory_world_new(timers, &nature);
	one = broker_new(10);
	two = broker_new(10);
	broker_start(one);
	broker_start(two);
	pass(0);
	for (int i = 0; i < 3; i++) {
		lanes[0][i] = take(one, BROKER_HOLD);
		lanes[1][i] = take(two, BROKER_HOLD);
	}
	for (uint64_t id = 1; id < 100; id++) {
		if (id % 2 == 0)
			hammer(one, lanes[0], &jitter, id);
		else
			hammer(two, lanes[1], &jitter, id + 100);
		pass(5 * MSEC);
	}
	snprintf(ret, size, "%s", seen);
	seen[0] = '\0';
	broker_free(one);
	broker_free(two);
	memory_world_free(world);
	timers_free(timers);
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

/* ---- links ---- */

START_TEST(a_cut_answers_unknown_in_order_then_tells)
{
	uint64_t lane = take(one, BROKER_HOLD), other = take(one, BROKER_HOLD);
	struct broker_info info;

	delays[0] = 50 * MSEC;
	delays[1] = 10 * MSEC;
	delays[2] = 10 * MSEC;
	claim(one, lane, "q", 1);
	claim(one, other, "r", 2);
	check(one, lane, "q", 3);
	pass(1 * MSEC);
	memory_broker_cut(one, BROKER_HOLD, 0, 100 * MSEC, "reset");
	ck_saw("1=unknown! 2=unknown! 3=unknown! hold:down:reset");
	broker_get_info(one, &info);
	ck_assert_int_eq(info.hold, BROKER_DOWN);
	ck_assert_str_eq(info.why, "reset");
	ck_assert_uint_eq(take(one, BROKER_HOLD), 0);
	/* Lanes of a link that died. */
	claim(one, lane, "q", 4);
	broker_lane_put(one, other);
	pass(99 * MSEC);
	ck_saw("4=unknown!");
	pass(1 * MSEC);
	ck_saw("hold:up");
	claim(one, lane, "q", 5);
	pass(0);
	ck_saw("5=unknown!");
	/* Noticed at once: what had not been performed never is. */
	ck_assert(!memory_world_has(world, "q", NULL));
	ck_assert(!memory_world_has(world, "r", NULL));
}
END_TEST

static void
look_at_state(void)
{
	struct broker_info info;

	broker_get_info(one, &info);
	ck_assert_int_eq(info.hold, BROKER_DOWN);
	ck_assert_uint_eq(info.lanes, 0);
	/* The broker deletes before any client can learn of it. */
	ck_assert(!memory_world_has(world, "held", NULL));
}

START_TEST(a_cut_sets_the_state_first)
{
	uint64_t lane = take(one, BROKER_HOLD);

	claim(one, lane, "held", 1);
	run();
	delays[1] = 10 * MSEC;
	check(one, lane, "held", 2);
	reaction = look_at_state;
	react_to = 2;
	memory_broker_cut(one, BROKER_HOLD, 0, -1, "reset");
	ck_assert_uint_eq(react_to, 0);
	ck_saw("1=ok 2=unknown! hold:down:reset");
}
END_TEST

START_TEST(a_cut_noticed_late_keeps_the_queues_till_then)
{
	uint64_t lane = take(one, BROKER_HOLD), rival = take(two, BROKER_HOLD);

	claim(one, lane, "q", 1);
	run();
	memory_broker_cut(one, BROKER_HOLD, 500 * MSEC, 0, "timed out");
	pass(0);
	ck_saw("1=ok hold:down:timed out hold:up");
	/* Our own old queue looks like another holder. */
	lane = take(one, BROKER_HOLD);
	claim(one, lane, "q", 2);
	claim(two, rival, "q", 101);
	pass(499 * MSEC);
	ck_saw("2=locked! closed:405 101=locked! closed:405");
	ck_assert_ptr_eq(owner_of("q"), one);
	pass(1 * MSEC);
	ck_assert(!memory_world_has(world, "q", NULL));
}
END_TEST

START_TEST(what_was_sent_before_the_cut_may_still_be_performed)
{
	uint64_t lane = take(one, BROKER_HOLD), other = take(one, BROKER_HOLD);

	delays[0] = 20 * MSEC;
	delays[1] = 20 * MSEC;
	delays[2] = 20 * MSEC;
	claim(one, lane, "late", 1);
	check(one, other, "none", 2);
	claim(one, other, "skipped", 3);
	memory_broker_cut(one, BROKER_HOLD, 500 * MSEC, -1, "timed out");
	ck_saw("1=unknown! 2=unknown! 3=unknown! hold:down:timed out");
	ck_assert(!memory_world_has(world, "late", NULL));
	pass(10 * MSEC);
	ck_assert_ptr_eq(owner_of("late"), one);
	ck_assert(!memory_world_has(world, "skipped", NULL));
	pass(490 * MSEC);
	ck_assert(!memory_world_has(world, "late", NULL));
	ck_saw("");
}
END_TEST

START_TEST(a_killed_daemon_leaves_its_queues_until_noticed)
{
	uint64_t lane = take(one, BROKER_HOLD);

	claim(one, lane, "q", 1);
	run();
	memory_broker_cut(one, BROKER_HOLD, 500 * MSEC, -1, "killed");
	ck_saw("1=ok hold:down:killed");
	broker_free(one);
	ck_assert_ptr_nonnull(owner_of("q"));
	ck_assert_ptr_ne(owner_of("q"), one);
	pass(500 * MSEC);
	ck_assert(!memory_world_has(world, "q", NULL));
	one = broker_new(3);
	/* And a world may end before it has noticed. */
	lane = take(two, BROKER_HOLD);
	claim(two, lane, "q", 101);
	run();
	memory_broker_cut(two, BROKER_HOLD, 500 * MSEC, -1, "killed");
	ck_saw("101=ok two.hold:down:killed");
}
END_TEST

START_TEST(a_cut_link_stays_down_until_restored)
{
	memory_broker_cut(one, BROKER_HOLD, 0, -1, "reset");
	ck_saw("hold:down:reset");
	pass(3600 * NSEC_PER_SEC);
	ck_saw("");
	memory_broker_restore(one, BROKER_HOLD);
	run();
	ck_saw("hold:up");
	memory_broker_restore(one, BROKER_HOLD); /* up: nothing happens */
	run();
	ck_saw("");
}
END_TEST

START_TEST(out_of_reach_from_the_start)
{
	struct broker_info info;

	memory_broker_cut(one, BROKER_HOLD, 0, -1, "refused");
	broker_start(one);
	ck_saw("");
	run();
	ck_saw("hold:down:refused");
	ck_assert_uint_eq(take(one, BROKER_HOLD), 0);
	memory_broker_deny(one, BROKER_HOLD, "ACCESS_REFUSED");
	ck_saw("hold:denied:ACCESS_REFUSED");
	broker_get_info(one, &info);
	ck_assert_int_eq(info.hold, BROKER_DENIED);
	ck_assert_str_eq(info.why, "ACCESS_REFUSED");
	memory_broker_restore(one, BROKER_HOLD);
	run();
	ck_saw("hold:up");
}
END_TEST

static void
stop_one(void)
{
	broker_stop(one);
}

START_TEST(stop_is_the_end_of_all_answers)
{
	uint64_t lane = take(one, BROKER_HOLD), side = take(one, BROKER_SIDE);
	static const char *const queues[] = {"q"};

	claim(one, lane, "q", 1);
	run();
	ck_saw("side:up 1=ok");
	delays[1] = 10 * MSEC;
	claim(one, lane, "r", 2);
	check(one, side, "q", 3);
	probe(one, queues, 1, 4);
	claim(one, take(one, BROKER_HOLD), "s", 5);
	broker_stop(one);
	ck_assert(!memory_world_has(world, "q", NULL));
	claim(one, lane, "t", 6);
	broker_lane_put(one, lane);
	ck_assert_uint_eq(take(one, BROKER_SIDE), 0);
	pass(10 * NSEC_PER_SEC);
	ck_saw("");
}
END_TEST

START_TEST(stop_from_inside_an_answer)
{
	uint64_t lane = take(one, BROKER_HOLD);

	check(one, lane, "none", 1);
	claim(one, lane, "q", 2);
	reaction = stop_one;
	react_to = 1;
	run();
	ck_saw("1=absent!");
	lane = take(two, BROKER_HOLD);
	check(two, lane, "none", 101);
	check(two, lane, "none", 102);
	run();
	ck_saw("101=absent! 102=skipped! closed:404");
}
END_TEST

START_TEST(stop_from_inside_an_answer_of_a_dying_link)
{
	uint64_t lane = take(one, BROKER_HOLD);

	delays[0] = delays[1] = 10 * MSEC;
	check(one, lane, "none", 1);
	claim(one, lane, "q", 2);
	reaction = stop_one;
	react_to = 1;
	memory_broker_cut(one, BROKER_HOLD, 500 * MSEC, 0, "reset");
	pass(NSEC_PER_SEC);
	ck_saw("1=unknown!");
}
END_TEST

static void
cut_one(void)
{
	memory_broker_cut(one, BROKER_HOLD, 0, -1, "reset");
}

START_TEST(cut_from_inside_an_answer)
{
	uint64_t lane = take(one, BROKER_HOLD);

	check(one, lane, "none", 1);
	claim(one, lane, "q", 2);
	reaction = cut_one;
	react_to = 1;
	run();
	ck_saw("1=absent! 2=unknown! hold:down:reset");
}
END_TEST

/* ---- the side link ---- */

START_TEST(the_side_link_comes_up_when_it_is_needed)
{
	struct broker_info info;
	uint64_t lane;

	pass(NSEC_PER_SEC);
	broker_get_info(one, &info);
	ck_assert_int_eq(info.side, BROKER_DOWN);
	lane = take(one, BROKER_SIDE);
	in_call = true;
	broker_declare_slot(one, lane, "a", done(1));
	broker_declare_slot(one, lane, "a", done(2));
	broker_delete_slot(one, lane, "a", done(3));
	broker_delete_slot(one, lane, "a", done(4));
	broker_declare_slot(one, lane, "b", done(5));
	in_call = false;
	pass(0);
	ck_saw("side:up 1=ok 2=ok 3=ok 4=ok 5=ok");
	ck_assert(!memory_world_has(world, "a", NULL));
	ck_assert_ptr_null(owner_of("b"));
	/* An exclusive queue cannot be declared otherwise, nor can another's be deleted. */
	claim(one, lane, "m", 6);
	broker_declare_slot(one, lane, "m", done(7));
	pass(0);
	ck_saw("6=ok 7=locked! closed:405");
	ck_assert_ptr_eq(owner_of("m"), one);
}
END_TEST

START_TEST(the_side_link_comes_back_when_it_is_next_used)
{
	uint64_t lane = take(one, BROKER_SIDE), hold = take(one, BROKER_HOLD);
	static const char *const queues[] = {"q"};

	claim(one, hold, "q", 1);
	pass(0);
	ck_saw("side:up 1=ok");
	delays[1] = 10 * MSEC;
	delays[2] = 10 * MSEC;
	check(one, lane, "q", 2);
	probe(one, queues, 1, 3);
	memory_broker_cut(one, BROKER_SIDE, 0, 100 * MSEC, "reset");
	ck_saw("2=unknown! p3=unknown side:down:reset");
	/* Holds stay, and nobody brings it back for nothing. */
	pass(NSEC_PER_SEC);
	ck_saw("");
	ck_assert_ptr_eq(owner_of("q"), one);
	probe(one, queues, 1, 4);
	pass(0);
	ck_saw("side:up p4=ok");
	memory_broker_cut(one, BROKER_SIDE, 0, 100 * MSEC, "reset");
	ck_saw("side:down:reset");
	probe(one, queues, 1, 5);
	pass(99 * MSEC);
	ck_saw("");
	pass(1 * MSEC);
	ck_saw("side:up p5=ok");
}
END_TEST

START_TEST(a_side_link_that_does_not_come_up_is_unknown_in_time)
{
	static const char *const queues[] = {"q"};
	uint64_t lane;

	memory_broker_cut(one, BROKER_SIDE, 0, -1, "unreachable");
	lane = take(one, BROKER_SIDE);
	ck_assert_uint_ne(lane, 0);
	check(one, lane, "q", 1);
	check(one, lane, "q", 2);
	pass(MEMORY_PROBE_TIMEOUT - 1);
	ck_saw("");
	probe(one, queues, 1, 3);
	pass(1);
	ck_saw("1=unknown! 2=unknown! p3=unknown side:down:unreachable");
	check(one, lane, "q", 4);
	probe(one, queues, 1, 5);
	pass(1 * MSEC);
	ck_saw("4=unknown!");
	memory_broker_restore(one, BROKER_SIDE);
	pass(0);
	ck_saw("side:up p5=absent");
}
END_TEST

/* ---- probes ---- */

START_TEST(a_probe_tells_which_queues_exist)
{
	static const char *const queues[] = {"a", "b", "c", "d"};
	uint64_t lane = take(two, BROKER_HOLD);

	memory_world_put(world, "a", false);
	memory_world_put(world, "d", true);
	claim(two, lane, "b", 101);
	run();
	probe(one, queues, 4, 1);
	pass(0);
	/* Somebody else's exclusive queues are seen too. */
	ck_saw("101=ok side:up p1=ok,ok,absent,ok");
}
END_TEST

START_TEST(a_probe_does_not_look_at_everything_at_once)
{
	static const char *const queues[] = {"a", "b"};

	delays[0] = 40 * MSEC;
	probe(one, queues, 2, 1);
	pass(15 * MSEC);
	memory_world_put(world, "a", false);
	memory_world_put(world, "b", false);
	pass(25 * MSEC);
	ck_saw("side:up p1=absent,ok");
}
END_TEST

START_TEST(a_nack_is_unknown)
{
	static const char *const queues[] = {"a", "b", "c"};

	nacked[1] = true;
	memory_world_put(world, "b", false);
	probe(one, queues, 3, 1);
	pass(0);
	ck_saw("side:up p1=absent,unknown,absent");
}
END_TEST

START_TEST(a_silent_probe_is_unknown_at_its_deadline)
{
	static const char *const queues[] = {"a", "b"};

	silences[0] = true;
	probe(one, queues, 2, 1);
	probe(one, queues, 2, 2);
	pass(MEMORY_PROBE_TIMEOUT - 1);
	ck_saw("side:up p2=absent,absent");
	pass(1);
	ck_saw("p1=unknown,unknown");
}
END_TEST

START_TEST(an_alarm_holds_probes_back)
{
	static const char *const queues[] = {"a"};
	uint64_t lane = take(one, BROKER_HOLD);
	struct broker_info info;

	memory_world_block(world, true);
	probe(one, queues, 1, 1);
	claim(one, lane, "q", 2);
	pass(2 * NSEC_PER_SEC);
	/* The hold link never publishes: nothing holds it back. */
	ck_saw("side:up 2=ok");
	broker_get_info(one, &info);
	ck_assert(info.side_blocked);
	probe(one, queues, 1, 3);
	pass(3 * NSEC_PER_SEC);
	ck_saw("p1=unknown");
	memory_world_block(world, false);
	pass(0);
	ck_saw("p3=absent");
	broker_get_info(one, &info);
	ck_assert(!info.side_blocked);
}
END_TEST

START_TEST(info_says_what_it_is)
{
	struct broker_info info;

	broker_get_info(one, &info);
	ck_assert_int_eq(info.hold, BROKER_UP);
	ck_assert_int_eq(info.side, BROKER_DOWN);
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

static void
count_queue(void *ctx, const char *queue, const struct broker *owner)
{
	char *text = ctx;

	strcat(text, queue);
	strcat(text, owner == one ? ":one " : owner == NULL ? ": " : ":foreign ");
}

START_TEST(every_queue_is_told)
{
	char text[100] = "";

	claim(one, take(one, BROKER_HOLD), "q", 1);
	run();
	memory_world_put(world, "a", false);
	memory_world_put(world, "f", true);
	memory_world_each(world, count_queue, text);
	ck_assert_str_eq(text, "q:one a: f:foreign ");
	ck_saw("1=ok");
}
END_TEST

static TCase *
tcase_new(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_add_checked_fixture(tcase, setup, teardown);
	suite_add_tcase(suite, tcase);
	return tcase;
}

static void
add_links(Suite *suite)
{
	TCase *tcase = tcase_new(suite, "links");

	tcase_add_test(tcase, a_cut_answers_unknown_in_order_then_tells);
	tcase_add_test(tcase, a_cut_sets_the_state_first);
	tcase_add_test(tcase, a_cut_noticed_late_keeps_the_queues_till_then);
	tcase_add_test(tcase, what_was_sent_before_the_cut_may_still_be_performed);
	tcase_add_test(tcase, a_killed_daemon_leaves_its_queues_until_noticed);
	tcase_add_test(tcase, a_cut_link_stays_down_until_restored);
	tcase_add_test(tcase, stop_is_the_end_of_all_answers);
	tcase_add_test(tcase, stop_from_inside_an_answer);
	tcase_add_test(tcase, stop_from_inside_an_answer_of_a_dying_link);
	tcase_add_test(tcase, cut_from_inside_an_answer);
	tcase = tcase_create("start");
	tcase_add_checked_fixture(tcase, setup_unstarted, teardown);
	tcase_add_test(tcase, out_of_reach_from_the_start);
	suite_add_tcase(suite, tcase);
}

static Suite *
memory_broker_suite(void)
{
	Suite *suite = suite_create("memory_broker");
	TCase *tcase = tcase_new(suite, "ownership");

	tcase_add_test(tcase, exclusive_queues_belong_to_the_link);
	tcase_add_test(tcase, putting_a_lane_back_frees_nothing);
	tcase_add_test(tcase, drop_of_anothers_queue_is_locked);
	tcase_add_test(tcase, foreign_clients_have_queues_too);
	tcase_add_test(tcase, every_queue_is_told);
	tcase = tcase_new(suite, "lanes");
	tcase_add_test(tcase, a_failing_request_closes_its_lane_and_skips_what_follows);
	tcase_add_test(tcase, no_event_for_a_lane_that_was_put_back);
	tcase_add_test(tcase, an_answer_can_ask_again);
	tcase_add_test(tcase, the_hold_link_has_lanes_max);
	tcase_add_test(tcase, the_broker_closes_a_lane);
	tcase = tcase_new(suite, "time");
	tcase_add_test(tcase, performed_half_way_answered_at_the_end);
	tcase_add_test(tcase, order_is_kept_on_a_lane_and_not_across);
	tcase_add_test(tcase, a_claim_may_succeed_after_the_asker_gave_up);
	tcase_add_test(tcase, silence_performs_and_holds_its_lane);
	tcase = tcase_create("seed");
	tcase_add_test(tcase, a_seed_replays);
	suite_add_tcase(suite, tcase);
	add_links(suite);
	tcase = tcase_new(suite, "side");
	tcase_add_test(tcase, the_side_link_comes_up_when_it_is_needed);
	tcase_add_test(tcase, the_side_link_comes_back_when_it_is_next_used);
	tcase_add_test(tcase, a_side_link_that_does_not_come_up_is_unknown_in_time);
	tcase = tcase_new(suite, "probes");
	tcase_add_test(tcase, a_probe_tells_which_queues_exist);
	tcase_add_test(tcase, a_probe_does_not_look_at_everything_at_once);
	tcase_add_test(tcase, a_nack_is_unknown);
	tcase_add_test(tcase, a_silent_probe_is_unknown_at_its_deadline);
	tcase_add_test(tcase, an_alarm_holds_probes_back);
	tcase_add_test(tcase, info_says_what_it_is);
	return suite;
}

int
main(void)
{
	static Suite *(*const makers[])(void) = {memory_broker_suite};

	return unit_run(makers, sizeof(makers) / sizeof(makers[0]));
}
