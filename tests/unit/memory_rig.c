#include "tests/unit/memory_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/link.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/setup.h"
#include "tests/unit/unit.h"

#define CHANNELS_OF_ONE 3

struct rig rig;
unsigned rig_channels_of_one = CHANNELS_OF_ONE;
struct memory_world *world;
struct broker *one, *two;

static int64_t
rig_now(void *ctx)
{
	(void)ctx;
	return rig.now;
}

static const struct clock rig_clock = {.now = rig_now};

void
see(const char *what)
{
	size_t used = strlen(rig.seen);

	ck_assert(!rig.in_call);
	ck_assert_uint_lt(used + strlen(what) + 2, sizeof(rig.seen));
	snprintf(rig.seen + used, sizeof(rig.seen) - used, "%s%s", used == 0 ? "" : " ", what);
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
	case BROKER_UNREACHABLE:
		return "unreachable";
	case BROKER_REFUSED:
		return "refused";
	case BROKER_SKIPPED:
		return "skipped";
	case BROKER_UNKNOWN:
		return "unknown";
	}
	return "?";
}

static void
react(uint64_t id)
{
	if (id == rig.react_to && rig.reaction != NULL) {
		rig.react_to = 0;
		rig.reaction();
	}
}

static void
answered(uint64_t id, const struct broker_reply *reply)
{
	rig.sent_at[id] = reply->sent_at;
	ck_assert_ptr_nonnull(reply->text);
	snprintf(rig.text, sizeof(rig.text), "%s", reply->text);
	react(id);
}

static void
on_done(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	char text[64];

	(void)ctx;
	snprintf(text, sizeof(text), "%d=%s%s", (int)id, answer_word(reply->answer),
	    reply->channel_open ? "" : "!");
	see(text);
	answered(id, reply);
}

static void
on_names(void *ctx, uint64_t id, const struct broker_reply *reply, const char *const *names,
    size_t count)
{
	char text[256];
	size_t used =
	    (size_t)snprintf(text, sizeof(text), "%d=%s", (int)id, answer_word(reply->answer));

	(void)ctx;
	ck_assert(reply->answer == BROKER_OK || count == 0);
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(
		    text + used, sizeof(text) - used, "%c%s", i == 0 ? '(' : ',', names[i]);
	snprintf(text + used, sizeof(text) - used, "%s", count > 0 ? ")" : "");
	see(text);
	answered(id, reply);
}

static void
on_probe(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	char text[256];
	size_t used = (size_t)snprintf(text, sizeof(text), "p%d", (int)id);

	(void)ctx;
	for (size_t i = 0; i < seen->count; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%c%s",
		    i == 0 ? '=' : ',', answer_word(seen->answers[i]));
	}
	see(text);
	react(id);
}

static void
on_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	const struct broker *broker = ctx;
	char text[64];

	snprintf(text, sizeof(text), "%s%s:%s%s%s", broker == two ? "two." : "",
	    link == BROKER_LOCKS ? "locks" : "auxiliary",
	    state == BROKER_UP     ? "up"
	    : state == BROKER_DOWN ? "down"
				   : "refused",
	    *why != '\0' ? ":" : "", why);
	see(text);
}

static void
on_channel_closed(void *ctx, uint64_t channel, int code, const char *text)
{
	char what[64];

	(void)ctx;
	ck_assert_str_ne(text, "");
	rig.closed_channel = channel;
	snprintf(what, sizeof(what), "closed:%d", code);
	see(what);
}

static void
on_records_lost(void *ctx, uint64_t session, const char *why)
{
	ck_assert_uint_ne(session, 0);
	snprintf(rig.text, sizeof(rig.text), "%s", why);
	see(ctx == two ? "two.lost:records" : "lost:records");
}

static void
on_watch(void *ctx, const char *queue, enum broker_news news)
{
	char what[64];

	snprintf(what, sizeof(what), "%s%s:%s", ctx == two ? "two." : "",
	    news == BROKER_WATCHED ? "watched"
	    : news == BROKER_HINT  ? "hint"
				   : "unwatched",
	    queue);
	see(what);
	if (rig.heard != NULL)
		rig.heard(queue, news);
}

static void
on_line(void *ctx, const struct broker_wait_queue_event *event)
{
	char what[96];

	snprintf(what, sizeof(what), "%s%s:%s/%d", ctx == two ? "two." : "",
	    event->news == BROKER_WAIT_QUEUE_JOINED   ? "joined"
	    : event->news == BROKER_WAIT_QUEUE_HINT   ? "hint"
	    : event->news == BROKER_WAIT_QUEUE_NOBODY ? "nobody"
						      : "left",
	    event->queue, event->priority);
	if (event->news == BROKER_WAIT_QUEUE_HINT || event->news == BROKER_WAIT_QUEUE_NOBODY)
		snprintf(what + strlen(what), sizeof(what) - strlen(what), "=%d", event->slot);
	see(what);
	if (rig.wait_queue_heard != NULL)
		rig.wait_queue_heard(event);
}

static void
on_asked(void *ctx, const struct broker_message *message)
{
	char what[96];

	ck_assert_uint_eq(strlen(message->text), message->len);
	ck_assert_str_eq(message->user, "memory");
	rig.from = message->from;
	snprintf(what, sizeof(what), "%sasked:%.40s", ctx == two ? "two." : "", message->text);
	see(what);
	if (rig.message_heard != NULL)
		rig.message_heard(message);
}

static void
on_replied(void *ctx, const struct broker_message *message)
{
	char what[96];

	snprintf(what, sizeof(what), "%sreplied:%d=%.40s", ctx == two ? "two." : "",
	    (int)message->asked, message->text);
	see(what);
	if (rig.message_heard != NULL)
		rig.message_heard(message);
}

static void
on_count(void *ctx, uint64_t id, int consumers)
{
	char what[32];

	(void)ctx;
	snprintf(what, sizeof(what), "c%d=%d", (int)id, consumers);
	see(what);
}

/* ---- the behaviour's plan ---- */

static int64_t
planned_delay(void *ctx)
{
	(void)ctx;
	return rig.delays_used < RIG_PLAN ? rig.delays[rig.delays_used++] : 0;
}

static bool
planned_silence(void *ctx)
{
	(void)ctx;
	return rig.silences_used < RIG_PLAN && rig.silences[rig.silences_used++];
}

static bool
planned_deafness(void *ctx, const struct broker *broker, const char *queue)
{
	(void)ctx;
	(void)broker;
	(void)queue;
	return rig.deafnesses_used < RIG_PLAN && rig.deafnesses[rig.deafnesses_used++];
}

/* ---- fixtures ---- */

/* One seed gives one name of an inbox, so no two brokers may have the same. */
static uint64_t seeds;

struct broker *
rig_broker_new_at(struct timers *timers, unsigned channels_max)
{
	struct broker *broker = memory_broker_new_at(world, timers, 10, channels_max, ++seeds);
	struct broker_events events = {.link = on_link,
	    .channel_closed = on_channel_closed,
	    .records_lost = on_records_lost,
	    .watch = on_watch,
	    .wait_queue = on_line,
	    .asked = on_asked,
	    .replied = on_replied,
	    .ctx = broker};

	broker_set_events(broker, &events);
	return broker;
}

struct broker *
rig_broker_new(unsigned channels_max)
{
	return rig_broker_new_at(rig.timers, channels_max);
}

void
rig_new(const struct memory_behaviour *behaviour)
{
	static const struct memory_behaviour planned = {
	    .delay = planned_delay, .silent = planned_silence, .unheard = planned_deafness};

	rig = (struct rig){.now = 1000 * NSEC_PER_SEC};
	seeds = 0;
	rig.timers = timers_new(&rig_clock);
	world = memory_world_new(rig.timers, behaviour == NULL ? &planned : behaviour);
	one = rig_broker_new(rig_channels_of_one);
	two = rig_broker_new(2047);
}

void
rig_start(void)
{
	rig.in_call = true;
	broker_start(one);
	broker_start(two);
	rig.in_call = false;
	run();
	ck_saw("locks:up two.locks:up");
}

void
rig_free(void)
{
	raw_end_all();
	broker_free(one);
	broker_free(two);
	memory_world_free(world);
	ck_assert_int_eq(timers_next(rig.timers), INT64_MAX);
	timers_free(rig.timers);
	rig_channels_of_one = CHANNELS_OF_ONE;
}

void
rig_setup(void)
{
	rig_new(NULL);
	rig_start();
}

void
rig_setup_unstarted(void)
{
	rig_new(NULL);
}

void
rig_teardown(void)
{
	rig_free();
	ck_saw("");
}

/* A link is made anew at the earliest a nanosecond after its death. */
#define AT_ONCE 8

void
run(void)
{
	pass(AT_ONCE);
}

void
pass(int64_t ns)
{
	int64_t until = rig.now + (ns > 0 ? ns : AT_ONCE);

	while (timers_next(rig.timers) <= until) {
		if (timers_next(rig.timers) > rig.now)
			rig.now = timers_next(rig.timers);
		timers_run(rig.timers);
	}
	rig.now = until;
}

/* ---- calls of the seam ---- */

struct broker_done
done(uint64_t id)
{
	return (struct broker_done){.fn = on_done, .id = id};
}

void
claim(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_claim(broker, channel, BROKER_BY_QUEUE, queue, done(id));
	rig.in_call = false;
}

void
check(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_check(broker, channel, queue, done(id));
	rig.in_call = false;
}

void
drop(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_drop(broker, channel, BROKER_BY_QUEUE, queue, true, done(id));
	rig.in_call = false;
}

void
declare_slot(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_declare_slot(broker, channel, queue, done(id));
	rig.in_call = false;
}

void
delete_slot(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_delete_slot(broker, channel, queue, done(id));
	rig.in_call = false;
}

void
declare_marker(struct broker *broker, uint64_t channel, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_declare_marker(broker, channel, queue, done(id));
	rig.in_call = false;
}

static struct broker_names_done
names_done(uint64_t id)
{
	return (struct broker_names_done){.fn = on_names, .id = id};
}

void
read_names(struct broker *broker, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_directory_read(broker, queue, names_done(id));
	rig.in_call = false;
}

void
enter_name(struct broker *broker, const char *queue, const char *name, uint64_t id)
{
	rig.in_call = true;
	broker_directory_enter(broker, queue, name, names_done(id));
	rig.in_call = false;
}

void
leave_name(struct broker *broker, const char *queue, const char *name, uint64_t id)
{
	rig.in_call = true;
	broker_directory_leave(broker, queue, name, names_done(id));
	rig.in_call = false;
}

void
probe(struct broker *broker, const char *const *queues, size_t count, uint64_t id)
{
	struct broker_question questions[BROKER_PROBE_MAX];

	for (size_t i = 0; i < count; i++)
		questions[i] = (struct broker_question){queues[i], BROKER_ASK_EXISTENCE};
	rig.in_call = true;
	broker_probe(
	    broker, questions, count, (struct broker_probe_done){.fn = on_probe, .id = id});
	rig.in_call = false;
}

uint64_t
take(struct broker *broker, enum broker_link link)
{
	uint64_t channel;

	rig.in_call = true;
	channel = broker_channel_take(broker, link);
	rig.in_call = false;
	return channel;
}

void
watch(struct broker *broker, const char *queue)
{
	rig.in_call = true;
	broker_watch(broker, queue);
	rig.in_call = false;
}

void
unwatch(struct broker *broker, const char *queue)
{
	rig.in_call = true;
	broker_unwatch(broker, queue);
	rig.in_call = false;
}

void
join(struct broker *broker, const char *queue, int priority, unsigned credit)
{
	rig.in_call = true;
	broker_wait_queue_join(broker, queue, priority, credit);
	rig.in_call = false;
}

void
leave(struct broker *broker, const char *queue, int priority)
{
	rig.in_call = true;
	broker_wait_queue_leave(broker, queue, priority);
	rig.in_call = false;
}

void
wake(struct broker *broker, const char *queue, int slot)
{
	rig.in_call = true;
	broker_wait_queue_wake(broker, queue, slot);
	rig.in_call = false;
}

void
count(struct broker *broker, const char *queue, uint64_t id)
{
	rig.in_call = true;
	broker_wait_queue_count(
	    broker, queue, (struct broker_count_done){.fn = on_count, .id = id});
	rig.in_call = false;
}

uint64_t
ask(struct broker *broker, const char *text)
{
	uint64_t number;

	rig.in_call = true;
	number = broker_ask(broker, text, strlen(text));
	rig.in_call = false;
	return number;
}

void
reply(struct broker *broker, uint64_t from, const char *text)
{
	rig.in_call = true;
	broker_reply_to(broker, from, text, strlen(text));
	rig.in_call = false;
}

bool
exists(const char *queue)
{
	return memory_world_has(world, queue, NULL);
}

const struct broker *
owner_of(const char *queue)
{
	const struct broker *owner = NULL;

	ck_assert(memory_world_has(world, queue, &owner));
	return owner;
}

TCase *
rig_tcase(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
	suite_add_tcase(suite, tcase);
	return tcase;
}
