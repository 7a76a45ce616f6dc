#include "daemon/broker/memory_watch.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/memory_connection.h"

enum watch_state {
	WATCH_WAITING, /* the link is not up */
	WATCH_SENT, /* consume sent: performed after half of its delay, answered after all of it */
	WATCH_ON,   /* BROKER_WATCHED was told */
	WATCH_LOST  /* was ON: BROKER_UNWATCHED is still to be told */
};

struct watch {
	struct memory_watches *watches; /* borrowed */
	char *queue;                    /* owned */
	enum watch_state state;
	struct memory_consumer consumer;
	enum broker_answer found; /* SENT: what the consume met */
	struct timer perform, answer;
	struct timer hint; /* a cancel is on its way */
	TAILQ_ENTRY(watch) entry;
	UT_hash_handle hh;
};

struct memory_watches {
	struct memory_world *world;                 /* borrowed */
	struct timers *client;                      /* borrowed */
	struct broker *broker;                      /* borrowed */
	const struct memory_connection *connection; /* borrowed; NULL: the link is not up */
	struct watch *by_queue;                     /* owned */
	TAILQ_HEAD(, watch) in_turn; /* the same, in the order in which they were asked for */
};

static struct timers *
timers_of(const struct watch *watch)
{
	return memory_world_timers(watch->watches->world);
}

static int64_t
now_of(const struct watch *watch)
{
	return clock_now(timers_clock(timers_of(watch)));
}

static void
watch_set_state(struct watch *watch, enum watch_state state)
{
	switch (state) {
	case WATCH_WAITING:
		assert(watch->state != WATCH_ON);
		break;
	case WATCH_SENT:
		assert(watch->state == WATCH_WAITING);
		break;
	case WATCH_ON:
		assert(watch->state == WATCH_SENT);
		break;
	case WATCH_LOST:
		assert(watch->state == WATCH_ON);
		break;
	}
	watch->state = state;
}

/* Whether nothing comes through to the daemon any more, or from it. */
static bool
is_cut_off(const struct watch *watch)
{
	return memory_connection_is_frozen(watch->watches->connection);
}

/* Nothing of it is on its way any more. */
static void
watch_halt(struct watch *watch)
{
	timers_cancel(timers_of(watch), &watch->perform);
	timers_cancel(watch->watches->client, &watch->answer);
	timers_cancel(watch->watches->client, &watch->hint);
	memory_consumer_leave(&watch->consumer);
}

static void
watch_free(struct watch *watch)
{
	watch_halt(watch);
	HASH_DEL(watch->watches->by_queue, watch);
	TAILQ_REMOVE(&watch->watches->in_turn, watch, entry);
	free(watch->queue);
	free(watch);
}

/* ---- news: whoever hears them may remove any watch, or all ---- */

static void
tell(const struct memory_watches *watches, const char *queue, enum broker_news news)
{
	const struct broker_events *events = &((struct broker_base *)watches->broker)->events;

	events->watch(events->ctx, queue, news);
}

static void
watch_tell(const struct watch *watch, enum broker_news news)
{
	char *queue = mem_strdup(watch->queue);

	tell(watch->watches, queue, news);
	free(queue);
}

static void
watch_end(struct watch *watch)
{
	const struct memory_watches *watches = watch->watches;
	char *queue = mem_strdup(watch->queue);

	watch_free(watch);
	tell(watches, queue, BROKER_HINT);
	free(queue);
}

/* ---- a consume, there and back ---- */

static void
on_perform(void *ctx, uint64_t id)
{
	struct watch *watch = ctx;

	(void)id;
	if (is_cut_off(watch))
		return;
	watch->found = memory_consumer_join(watch->watches->world, &watch->consumer, watch->queue);
}

static void
on_answer(void *ctx, uint64_t id)
{
	struct watch *watch = ctx;

	(void)id;
	if (is_cut_off(watch))
		return;
	if (timer_is_set(&watch->perform)) {
		/* The client's timers ran before the world's. */
		timers_set(watch->watches->client, &watch->answer, watch->perform.when);
		return;
	}
	if (watch->found == BROKER_ABSENT) {
		watch_end(watch);
	} else if (watch->found == BROKER_OK) {
		watch_set_state(watch, WATCH_ON);
		watch_tell(watch, BROKER_WATCHED);
	}
	/* One that is refused stays as it is until there is another link. */
}

static void
on_hint(void *ctx, uint64_t id)
{
	(void)id;
	if (!is_cut_off(ctx))
		watch_end(ctx);
}

static void
on_cancelled(struct memory_consumer *consumer)
{
	struct watch *watch =
	    (struct watch *)(void *)((char *)consumer - offsetof(struct watch, consumer));
	int64_t when = now_of(watch) + memory_world_delay(watch->watches->world);

	/* Silent: what comes behind on its lane is not heard either. */
	if (watch->state == WATCH_SENT && !timer_is_set(&watch->answer))
		return;
	/* On one lane: not before the consume's own answer. */
	if (timer_is_set(&watch->answer) && watch->answer.when > when)
		when = watch->answer.when;
	timers_set(watch->watches->client, &watch->hint, when);
}

static void
watch_send(struct watch *watch)
{
	int64_t delay = memory_world_delay(watch->watches->world), now = now_of(watch);

	watch_set_state(watch, WATCH_SENT);
	timers_set(timers_of(watch), &watch->perform, now + delay / 2);
	if (!memory_world_silent(watch->watches->world))
		timers_set(watch->watches->client, &watch->answer, now + delay);
}

/* ---- outside ---- */

static struct watch *
watch_find(const struct memory_watches *watches, const char *queue)
{
	struct watch *watch;

	HASH_FIND_STR(watches->by_queue, queue, watch);
	return watch;
}

size_t
memory_watches_count(const struct memory_watches *watches)
{
	return HASH_COUNT(watches->by_queue);
}

bool
memory_watches_any(const struct memory_watches *watches)
{
	return watches->by_queue != NULL;
}

void
memory_watches_add(struct memory_watches *watches, const char *queue)
{
	struct watch *watch;

	if (watch_find(watches, queue) != NULL)
		return;
	watch = mem_alloc(sizeof(*watch));
	watch->watches = watches;
	watch->queue = mem_strdup(queue);
	watch->consumer.cancelled = on_cancelled;
	watch->consumer.broker = watches->broker;
	timer_init(&watch->perform, on_perform, watch, 0);
	timer_init(&watch->answer, on_answer, watch, 0);
	timer_init(&watch->hint, on_hint, watch, 0);
	HASH_ADD_KEYPTR(hh, watches->by_queue, watch->queue, strlen(watch->queue), watch);
	TAILQ_INSERT_TAIL(&watches->in_turn, watch, entry);
	if (watches->connection != NULL)
		watch_send(watch);
}

void
memory_watches_remove(struct memory_watches *watches, const char *queue)
{
	struct watch *watch = watch_find(watches, queue);

	if (watch != NULL)
		watch_free(watch);
}

void
memory_watches_up(struct memory_watches *watches, const struct memory_connection *connection)
{
	struct watch *watch;

	watches->connection = connection;
	TAILQ_FOREACH (watch, &watches->in_turn, entry)
		watch_send(watch);
}

static struct watch *
first_lost(const struct memory_watches *watches)
{
	struct watch *watch;

	TAILQ_FOREACH (watch, &watches->in_turn, entry) {
		if (watch->state == WATCH_LOST)
			break;
	}
	return watch;
}

void
memory_watches_down(struct memory_watches *watches)
{
	struct watch *watch;

	watches->connection = NULL;
	TAILQ_FOREACH (watch, &watches->in_turn, entry) {
		watch_halt(watch);
		watch_set_state(watch, watch->state == WATCH_ON ? WATCH_LOST : WATCH_WAITING);
	}
	while ((watch = first_lost(watches)) != NULL) {
		watch_set_state(watch, WATCH_WAITING);
		watch_tell(watch, BROKER_UNWATCHED);
	}
}

struct memory_watches *
memory_watches_new(struct memory_world *world, struct timers *timers, struct broker *broker)
{
	struct memory_watches *watches = mem_alloc(sizeof(*watches));

	watches->world = world;
	watches->client = timers;
	watches->broker = broker;
	TAILQ_INIT(&watches->in_turn);
	return watches;
}

void
memory_watches_clear(struct memory_watches *watches)
{
	struct watch *watch;

	watches->connection = NULL;
	while ((watch = TAILQ_FIRST(&watches->in_turn)) != NULL)
		watch_free(watch);
}

void
memory_watches_free(struct memory_watches *watches)
{
	memory_watches_clear(watches);
	free(watches);
}
