/*
 * The shipped AMQP code over the server in memory: what the scheme needs of a broker, by two daemons.
 * Whatever they are told is written down in order: "1=ok" the answer to request 1, "p=ok,absent" a probe,
 * "hint:q=3" what a wait line says, and so on; what the second daemon is told begins with "two.".
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/amqp/link.h"
#include "daemon/base/timers.h"
#include "daemon/broker/setup.h"
#include "daemon/memory/memory.h"
#include "tests/unit/test_memory.h"
#include "tests/unit/unit.h"

#define MSEC NSEC_PER_MSEC

static int64_t clock_time;
static struct timers *timers;
static struct memory_world *world;
static struct broker *one, *two;
static char seen[2048];

static int64_t
read_clock(void *ctx)
{
	(void)ctx;
	return clock_time;
}

static const struct clock test_clock = {.now = read_clock};

static void see(const void *who, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
see(const void *who, const char *format, ...)
{
	size_t used = strlen(seen);
	va_list args;

	used += (size_t)snprintf(seen + used, sizeof(seen) - used, "%s%s", used > 0 ? " " : "",
	    who == two ? "two." : "");
	va_start(args, format);
	vsnprintf(seen + used, sizeof(seen) - used, format, args);
	va_end(args);
}

#define ck_saw(wanted)                                                                             \
	do {                                                                                       \
		ck_assert_str_eq(seen, (wanted));                                                  \
		seen[0] = '\0';                                                                    \
	} while (0)

static const char *
word(enum broker_answer answer)
{
	static const char *const words[] = {
	    [BROKER_OK] = "ok",
	    [BROKER_ABSENT] = "absent",
	    [BROKER_LOCKED] = "locked",
	    [BROKER_REFUSED] = "refused",
	    [BROKER_SKIPPED] = "skipped",
	    [BROKER_UNKNOWN] = "unknown",
	};

	return words[answer];
}

static void
on_done(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	see(ctx, "%d=%s%s", (int)id, word(reply->answer), reply->lane_open ? "" : "!");
}

static void
on_probe(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	(void)id;
	for (size_t i = 0; i < count; i++)
		see(ctx, "p=%s", word(answers[i]));
}

static void
on_names(void *ctx, uint64_t id, const struct broker_reply *reply, const char *const *names,
    size_t count)
{
	(void)id;
	see(ctx, "names:%s", word(reply->answer));
	for (size_t i = 0; i < count; i++)
		see(ctx, "%s", names[i]);
}

static void
on_count(void *ctx, uint64_t id, int consumers)
{
	(void)id;
	see(ctx, "count=%d", consumers);
}

static void
on_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	see(ctx, "%s:%s%s%s", link == BROKER_HOLD ? "hold" : "side", broker_state_word(state),
	    *why != '\0' ? ":" : "", why);
}

static void
on_lane_closed(void *ctx, uint64_t lane, int code, const char *text)
{
	(void)lane;
	(void)text;
	see(ctx, "closed:%d", code);
}

static void
on_watch(void *ctx, const char *queue, enum broker_news news)
{
	see(ctx, "%s:%s",
	    news == BROKER_WATCHED ? "watched"
	    : news == BROKER_HINT  ? "gone"
				   : "unwatched",
	    queue);
}

static void
on_line(void *ctx, const struct broker_line_event *event)
{
	static const char *const words[] = {
	    [BROKER_LINE_JOINED] = "joined",
	    [BROKER_LINE_HINT] = "hint",
	    [BROKER_LINE_LEFT] = "left",
	    [BROKER_LINE_NOBODY] = "nobody",
	};

	see(ctx, "%s:%s=%d", words[event->news], event->queue, event->slot);
}

static void
on_asked(void *ctx, const struct broker_letter *letter)
{
	see(ctx, "asked:%s", letter->text);
	broker_reply_to((struct broker *)ctx, letter->from, "fine", strlen("fine"));
}

static void
on_replied(void *ctx, const struct broker_letter *letter)
{
	see(ctx, "replied:%s", letter->text);
}

static struct broker *
daemon_new(void)
{
	struct broker *broker = memory_broker_new(world, 10, 5);
	const struct broker_events events = {.link = on_link,
	    .lane_closed = on_lane_closed,
	    .watch = on_watch,
	    .line = on_line,
	    .asked = on_asked,
	    .replied = on_replied,
	    .ctx = broker};

	broker_set_events(broker, &events);
	return broker;
}

static void
pass(int64_t ns)
{
	int64_t end = clock_time + ns;

	while (timers_next(timers) <= end) {
		if (timers_next(timers) > clock_time)
			clock_time = timers_next(timers);
		timers_run(timers);
	}
	clock_time = end;
}

static int64_t
some_delay(void *ctx)
{
	(void)ctx;
	return MSEC;
}

static bool
holds_acks(void *ctx)
{
	(void)ctx;
	return true;
}

/* Of the methods to come whose silence is drawn, this one is silent; 0: none is. */
static int silent_one;

static bool
is_silent(void *ctx)
{
	(void)ctx;
	return silent_one > 0 && --silent_one == 0;
}

static void
setup(void)
{
	static const struct memory_nature nature = {
	    .delay = some_delay, .silent = is_silent, .holds_acks = holds_acks};

	silent_one = 0;
	clock_time = 1000 * NSEC_PER_SEC;
	timers = timers_new(&test_clock);
	world = memory_world_new(timers, &nature);
	one = daemon_new();
	two = daemon_new();
	broker_start(one);
	pass(0);
	ck_saw("hold:up");
	broker_start(two);
	pass(0);
	ck_saw("two.hold:up");
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

static struct broker_done
done(struct broker *broker, uint64_t id)
{
	return (struct broker_done){.fn = on_done, .ctx = broker, .id = id};
}

START_TEST(who_claims_first_has_it)
{
	uint64_t mine = broker_lane_take(one, BROKER_HOLD),
		 other = broker_lane_take(two, BROKER_HOLD);

	broker_claim(one, mine, "a-1-B", done(one, 1));
	broker_check(one, mine, "a-1-B", done(one, 2));
	pass(10 * MSEC);
	ck_saw("1=ok 2=ok");
	broker_claim(two, other, "a-1-B", done(two, 1));
	broker_check(two, other, "a-1-B", done(two, 2));
	pass(10 * MSEC);
	ck_saw("two.1=locked! two.2=skipped! two.closed:405");
	broker_check(one, mine, "a-1-A", done(one, 3));
	pass(10 * MSEC);
	ck_saw("3=absent! closed:404");
	mine = broker_lane_take(one, BROKER_HOLD);
	broker_drop(one, mine, "a-1-B", done(one, 4));
	pass(10 * MSEC);
	ck_saw("4=ok");
	ck_assert(!memory_world_has(world, "a-1-B", NULL));
}
END_TEST

START_TEST(what_a_link_had_is_gone_when_its_death_is_noticed)
{
	uint64_t lane = broker_lane_take(one, BROKER_HOLD);

	broker_claim(one, lane, "a-1-B", done(one, 1));
	pass(10 * MSEC);
	broker_check(one, lane, "a-1-B", done(one, 2));
	memory_broker_cut(one, BROKER_HOLD, NSEC_PER_SEC, 0, "cut");
	pass(MSEC);
	ck_saw("1=ok 2=unknown! hold:down:cut hold:up");
	ck_assert(memory_world_has(world, "a-1-B", NULL));
	pass(NSEC_PER_SEC);
	ck_assert(!memory_world_has(world, "a-1-B", NULL));
}
END_TEST

START_TEST(probes_by_confirms_that_come_together)
{
	const char *const queues[] = {"a", "b", "c"};

	memory_world_put(world, "a", false);
	memory_world_put(world, "c", true);
	broker_probe(one, queues, 3, (struct broker_probe_done){.fn = on_probe, .ctx = one});
	pass(10 * MSEC);
	ck_saw("side:up p=ok p=absent p=ok");
}
END_TEST

START_TEST(a_probe_that_is_never_confirmed_holds_up_no_other)
{
	const char *const queues[] = {"a", "b"};

	broker_probe(one, queues, 2, (struct broker_probe_done){.fn = on_probe, .ctx = one});
	pass(10 * MSEC);
	ck_saw("side:up p=absent p=absent");
	silent_one = 1;
	broker_probe(one, queues, 1, (struct broker_probe_done){.fn = on_probe, .ctx = one});
	pass(10 * MSEC);
	broker_probe(one, queues, 2, (struct broker_probe_done){.fn = on_probe, .ctx = one});
	pass(10 * MSEC);
	ck_saw("p=absent p=absent");
	pass(MEMORY_PROBE_TIMEOUT);
	ck_saw("p=unknown");
}
END_TEST

/* Asks for one more probe when it hears of the first. */
static void
probe_again(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	static const char *const queues[] = {"a"};

	on_probe(ctx, id, answers, count);
	broker_probe(ctx, queues, 1, (struct broker_probe_done){.fn = on_probe, .ctx = ctx});
}

START_TEST(what_is_asked_during_an_alarm_is_not_published_when_a_confirm_comes)
{
	const char *const queues[] = {"a"};
	struct amqp_counts before, after;

	broker_probe(one, queues, 1, (struct broker_probe_done){.fn = on_probe, .ctx = one});
	pass(10 * MSEC);
	ck_saw("side:up p=absent");
	memory_world_block(world, true);
	broker_probe(one, queues, 1, (struct broker_probe_done){.fn = probe_again, .ctx = one});
	broker_get_counts(one, BROKER_SIDE, &before);
	pass(10 * MSEC);
	ck_saw("p=absent p=unknown");
	broker_get_counts(one, BROKER_SIDE, &after);
	ck_assert_uint_eq(after.sent_publishes, before.sent_publishes);
	memory_world_block(world, false);
	pass(10 * MSEC);
}
END_TEST

START_TEST(what_is_ignored_behind_a_failure_cannot_be_silent)
{
	uint64_t lane = broker_lane_take(one, BROKER_HOLD);

	silent_one = 2;
	broker_check(one, lane, "a-1-B", done(one, 1));
	broker_check(one, lane, "a-1-A", done(one, 2));
	pass(10 * MSEC);
	ck_saw("1=absent! 2=skipped! closed:404");
	lane = broker_lane_take(one, BROKER_HOLD);
	broker_claim(one, lane, "a-1-B", done(one, 3));
	pass(10 * MSEC);
	ck_saw("3=ok");
}
END_TEST

START_TEST(each_link_has_its_own_number_of_channels)
{
	struct broker_info info;

	memory_broker_set_lanes_max(one, BROKER_HOLD, 2);
	memory_broker_cut(one, BROKER_HOLD, 0, 0, "cut");
	pass(MSEC);
	ck_saw("hold:down:cut hold:up");
	broker_get_info(one, &info);
	ck_assert_uint_eq(info.lanes_max, 2);
	broker_get_info(two, &info);
	ck_assert_uint_eq(info.lanes_max, 5);
}
END_TEST

START_TEST(a_watch_hears_of_the_deletion)
{
	memory_world_put(world, "a-1-A", false);
	broker_watch(one, "a-1-A");
	broker_watch(one, "b-1-A");
	pass(10 * MSEC);
	ck_saw("side:up watched:a-1-A gone:b-1-A");
	memory_world_remove(world, "a-1-A");
	pass(10 * MSEC);
	ck_saw("gone:a-1-A");
}
END_TEST

START_TEST(a_hint_goes_to_who_is_first)
{
	broker_line_join(one, "a-W", 0, 1);
	pass(10 * MSEC);
	broker_line_join(two, "a-W", 5, 1);
	pass(10 * MSEC);
	ck_saw("side:up joined:a-W=0 two.side:up two.joined:a-W=0");
	broker_line_wake(one, "a-W", 3);
	broker_line_wake(one, "b-W", 1);
	pass(10 * MSEC);
	ck_saw("nobody:b-W=1 two.hint:a-W=3");
	broker_line_count(
	    one, "a-W", (struct broker_count_done){.fn = on_count, .ctx = one, .id = 1});
	pass(10 * MSEC);
	ck_saw("count=2");
	broker_line_leave(one, "a-W", 0);
	broker_line_leave(two, "a-W", 5);
	pass(10 * MSEC);
	ck_assert(!memory_world_has(world, "a-W", NULL));
}
END_TEST

/* Members share a channel; what was on its way to one that leaves goes to the next. */
START_TEST(a_hint_for_who_has_left_goes_to_another)
{
	broker_line_join(one, "a-W", 5, 1);
	broker_line_join(one, "a-W", 4, 1);
	broker_line_join(one, "b-W", 0, 1);
	pass(20 * MSEC);
	ck_saw("side:up joined:a-W=0 joined:b-W=0 joined:a-W=0");
	broker_line_join(two, "a-W", 0, 1);
	pass(20 * MSEC);
	ck_saw("two.side:up two.joined:a-W=0");
	broker_line_wake(two, "a-W", 1);
	pass(MSEC / 2);
	broker_line_leave(one, "a-W", 5);
	broker_line_leave(one, "a-W", 4);
	pass(20 * MSEC);
	ck_saw("two.hint:a-W=1");
	broker_line_wake(two, "b-W", 2);
	pass(20 * MSEC);
	ck_saw("hint:b-W=2");
}
END_TEST

/* Who waits with thousands of priorities keeps nobody out of another line. */
START_TEST(so_many_members_are_placed)
{
	static const int MANY = 2060;
	struct broker *three = memory_broker_new(world, 10, 100);

	broker_start(three);
	for (int priority = 0; priority < MANY; priority++)
		broker_line_join(three, "a-W", priority, 1);
	pass(60 * NSEC_PER_SEC);
	broker_line_join(three, "b-W", 0, 1);
	pass(50 * MSEC);
	broker_line_count(
	    one, "a-W", (struct broker_count_done){.fn = on_count, .ctx = one, .id = 1});
	pass(20 * MSEC);
	broker_line_count(
	    one, "b-W", (struct broker_count_done){.fn = on_count, .ctx = one, .id = 1});
	pass(20 * MSEC);
	ck_saw("side:up count=2049 count=1");
	/* Some leave, and the others have their places. */
	for (int priority = 0; priority < 100; priority++)
		broker_line_leave(three, "a-W", priority);
	pass(5 * NSEC_PER_SEC);
	broker_line_count(
	    one, "a-W", (struct broker_count_done){.fn = on_count, .ctx = one, .id = 1});
	pass(20 * MSEC);
	ck_saw("count=1960");
	broker_free(three);
}
END_TEST

/* A refusal closes the channel: the first one puts out the others, and no later one does. */
START_TEST(who_is_refused_is_refused_alone_from_then_on)
{
	memory_world_put(world, "v-W", true);
	broker_line_join(one, "a-W", 0, 1);
	pass(20 * MSEC);
	ck_saw("side:up joined:a-W=0");
	broker_line_join(one, "v-W", 0, 1);
	pass(50 * MSEC);
	ck_saw("left:a-W=0 joined:a-W=0");
	pass(100 * NSEC_PER_SEC);
	ck_saw("");
	memory_world_remove(world, "v-W");
	pass(50 * NSEC_PER_SEC);
	ck_saw("joined:v-W=0");
	/* It is no worse than others again. */
	broker_line_join(one, "b-W", 0, 1);
	pass(20 * MSEC);
	ck_saw("joined:b-W=0");
}
END_TEST

START_TEST(names_are_entered_read_and_left)
{
	const struct broker_names_done names = {.fn = on_names, .ctx = one};

	broker_directory_enter(one, "dir", "db", names);
	pass(10 * MSEC);
	broker_directory_enter(one, "dir", "cache", names);
	pass(10 * MSEC);
	ck_saw("side:up names:ok db names:ok cache");
	ck_assert_uint_eq(memory_world_copies(world, "dir", "db"), 1);
	broker_directory_leave(one, "dir", "db", names);
	pass(10 * MSEC);
	ck_assert_uint_eq(memory_world_copies(world, "dir", "db"), 0);
	broker_directory_read(one, "dir", names);
	pass(10 * MSEC);
	ck_saw("names:ok db names:ok cache");
}
END_TEST

START_TEST(a_question_is_answered)
{
	broker_inbox_open(two);
	pass(10 * MSEC);
	ck_assert_uint_ne(broker_ask(one, "how?", strlen("how?")), 0);
	pass(20 * MSEC);
	ck_saw("two.side:up side:up two.asked:how? replied:fine");
}
END_TEST

Suite *
suite_memory_server(void)
{
	Suite *suite = suite_create("memory server");
	TCase *tcase = tcase_create("two daemons");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, who_claims_first_has_it);
	tcase_add_test(tcase, what_a_link_had_is_gone_when_its_death_is_noticed);
	tcase_add_test(tcase, probes_by_confirms_that_come_together);
	tcase_add_test(tcase, a_probe_that_is_never_confirmed_holds_up_no_other);
	tcase_add_test(tcase, what_is_asked_during_an_alarm_is_not_published_when_a_confirm_comes);
	tcase_add_test(tcase, what_is_ignored_behind_a_failure_cannot_be_silent);
	tcase_add_test(tcase, each_link_has_its_own_number_of_channels);
	tcase_add_test(tcase, a_watch_hears_of_the_deletion);
	tcase_add_test(tcase, a_hint_goes_to_who_is_first);
	tcase_add_test(tcase, a_hint_for_who_has_left_goes_to_another);
	tcase_add_test(tcase, so_many_members_are_placed);
	tcase_add_test(tcase, who_is_refused_is_refused_alone_from_then_on);
	tcase_add_test(tcase, names_are_entered_read_and_left);
	tcase_add_test(tcase, a_question_is_answered);
	suite_add_tcase(suite, tcase);
	return suite;
}
