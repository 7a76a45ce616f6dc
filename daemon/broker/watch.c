#include "daemon/broker/watch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/auxiliary.h"
#include "daemon/broker/consumers.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/setup.h"

/*
 * A delivery is a probe of some daemon, and is acknowledged late. With an early ack each probe
 * would become a delivery; now prefetch 1 allows one in this time. Without an ack RabbitMQ closes
 * the channel at consumer_timeout, even if the consumer was cancelled.
 */
#define WATCH_ACK_AFTER (20 * NSEC_PER_SEC)
/* First letter of the tags. */
#define WATCH_TAG 'w'
/* The wait of a watch after its refusal (permission, exclusive use). */
#define WATCH_ASIDE_TIME (300 * NSEC_PER_SEC)
/*
 * After each refusal in a row all watches wait, up to so long: a user without permission has it for
 * no queue.
 */
#define WATCH_PAUSE_FIRST (1 * NSEC_PER_SEC)
#define WATCH_PAUSE_MOST (300 * NSEC_PER_SEC)
/*
 * After a consume that ended the link. If a quorum queue has lost its majority, the consume blocks
 * for 65 s. Then the broker ends the connection with 541 (RabbitMQ 3.10).
 */
#define WATCH_PAUSE_BLOCKED (300 * NSEC_PER_SEC)
/* After no channel number was left. */
#define WATCH_PAUSE_NO_CHANNEL (1 * NSEC_PER_SEC)

enum watch_state {
	WATCH_WAITING, /* waits for the link, or for its turn; in `waiting` */
	WATCH_ASIDE,   /* refused; waits until `until`; in `aside`, in that order */
	WATCH_PLACING, /* its consume is the unanswered one of its channel; in `placed` */
	WATCH_ON,      /* BROKER_WATCHED was reported; in `placed` */
	WATCH_LOST     /* was ON; BROKER_UNWATCHED will be reported; in `lost` */
};

struct watch {
	UT_hash_handle hh;
	TAILQ_ENTRY(watch) in_state;  /* in the list of its state */
	struct amqp_watches *watches; /* borrowed */
	char *queue;                  /* owned */
	enum watch_state state;
	struct amqp_consumers *channel; /* borrowed; PLACING, ON */
	uint64_t consumer;              /* its number there; PLACING, ON */
	int64_t until;                  /* ASIDE */
};
TAILQ_HEAD(watch_list, watch);

struct amqp_watches {
	struct broker *broker;  /* borrowed */
	struct watch *by_queue; /* owned */
	struct watch_list waiting, aside, placed, lost;
	struct amqp_consumers_set channels;
	int64_t pause_until; /* clock time; no watch is placed before */
	struct backoff pause;
	struct timer retry; /* the end of a pause, or of the first `until` */
	bool complained;    /* of being refused, on this link */
};

/* ---- watches ---- */

static struct watch_list *
watch_list_of(const struct watch *watch)
{
	switch (watch->state) {
	case WATCH_WAITING:
		return &watch->watches->waiting;
	case WATCH_ASIDE:
		return &watch->watches->aside;
	case WATCH_PLACING:
	case WATCH_ON:
		return &watch->watches->placed;
	case WATCH_LOST:
		return &watch->watches->lost;
	}
	abort();
}

static void
watch_set_state(struct watch *watch, enum watch_state state)
{
	assert(state != WATCH_ON || watch->state == WATCH_PLACING);
	assert(state != WATCH_PLACING || watch->state == WATCH_WAITING);
	assert(state != WATCH_LOST || watch->state == WATCH_ON);
	assert(state != WATCH_ASIDE || watch->state == WATCH_WAITING);
	TAILQ_REMOVE(watch_list_of(watch), watch, in_state);
	watch->state = state;
	TAILQ_INSERT_TAIL(watch_list_of(watch), watch, in_state);
}

static void
watch_free(struct watch *watch)
{
	TAILQ_REMOVE(watch_list_of(watch), watch, in_state);
	HASH_DEL(watch->watches->by_queue, watch);
	free(watch->queue);
	free(watch);
}

/* The callback may add and remove watches, and so open and close channels. */
static void
watches_tell(const struct amqp_watches *watches, const char *queue, enum broker_news news)
{
	const struct broker_events *events = &watches->broker->events;

	if (events->watch != NULL)
		events->watch(events->ctx, queue, news);
}

static void
watch_tell(const struct watch *watch, enum broker_news news)
{
	char *queue = mem_strdup(watch->queue);

	watches_tell(watch->watches, queue, news);
	free(queue);
}

/* The queue may be deleted. The engine watches again if it still needs that. */
static void
watch_end(struct watch *watch)
{
	const struct amqp_watches *watches = watch->watches;
	char *queue = mem_strdup(watch->queue);

	watch_free(watch);
	watches_tell(watches, queue, BROKER_HINT);
	free(queue);
}

static void
watches_tell_lost(struct amqp_watches *watches)
{
	struct watch *watch;

	while ((watch = TAILQ_FIRST(&watches->lost)) != NULL) {
		watch_set_state(watch, WATCH_WAITING);
		watch_tell(watch, BROKER_UNWATCHED);
	}
}

/* ---- placing ---- */

/* The broker closed the channel: its watches are placed again. */
static void
watches_bury_channel(struct amqp_watches *watches, struct amqp_consumers *channel)
{
	struct watch *watch, *next;

	TAILQ_FOREACH_SAFE (watch, &watches->placed, in_state, next) {
		if (watch->channel == channel)
			watch_set_state(
			    watch, watch->state == WATCH_ON ? WATCH_LOST : WATCH_WAITING);
	}
	amqp_consumers_free(channel);
}

/*
 * A channel with room, and without an unanswered consume. NULL: there is none now. If no number is
 * left, this sets pause_until.
 */
static struct amqp_consumers *
watches_find_channel(struct amqp_watches *watches)
{
	unsigned placing;
	struct amqp_consumers *channel =
	    amqp_consumers_find(&watches->channels, NULL, false, true, &placing);

	if (channel == NULL && placing < AMQP_CONSUMERS_PLACING)
		watches->pause_until = broker_now(watches->broker) + WATCH_PAUSE_NO_CHANNEL;
	return channel;
}

static void
watch_place(struct watch *watch, struct amqp_consumers *channel)
{
	watch->channel = channel;
	watch->consumer = amqp_consumers_consume(channel, watch->queue, 1, 0);
	watch_set_state(watch, WATCH_PLACING);
}

/* Places all watches that can be placed now, and sets the timer for the others. */
static void
watches_place(struct amqp_watches *watches)
{
	struct timers *timers = watches->broker->timers;
	int64_t due = INT64_MAX;
	struct amqp_consumers *channel;
	struct watch *watch;

	timers_cancel(timers, &watches->retry);
	if (watches->broker->stopped || amqp_channels_link(watches->broker->channels) == NULL)
		return;
	while ((watch = TAILQ_FIRST(&watches->aside)) != NULL &&
	       watch->until <= broker_now(watches->broker))
		watch_set_state(watch, WATCH_WAITING);
	while (watches->pause_until <= broker_now(watches->broker) &&
	       (watch = TAILQ_FIRST(&watches->waiting)) != NULL &&
	       (channel = watches_find_channel(watches)) != NULL)
		watch_place(watch, channel);
	amqp_consumers_close_idle(&watches->channels);
	if ((watch = TAILQ_FIRST(&watches->aside)) != NULL)
		due = watch->until;
	if (!TAILQ_EMPTY(&watches->waiting) && watches->pause_until > broker_now(watches->broker) &&
	    watches->pause_until < due)
		due = watches->pause_until;
	if (due != INT64_MAX)
		timers_set(timers, &watches->retry, due);
}

static void
watches_on_retry(void *ctx, uint64_t id)
{
	(void)id;
	watches_place(ctx);
}

/* ---- events ---- */

/* NULL: of no watch any more. */
static struct watch *
watches_find_consumer(const struct amqp_watches *watches, uint64_t consumer)
{
	struct watch *watch;

	TAILQ_FOREACH (watch, &watches->placed, in_state)
		if (watch->consumer == consumer)
			break;
	return watch;
}

static void
watches_on_placed(void *ctx, uint64_t consumer)
{
	struct amqp_watches *watches = ctx;
	struct watch *watch = watches_find_consumer(watches, consumer);

	backoff_reset(&watches->pause);
	if (watch != NULL) {
		watch_set_state(watch, WATCH_ON);
		watch_tell(watch, BROKER_WATCHED);
	}
	watches_place(watches);
}

static void
watches_on_cancelled(void *ctx, uint64_t consumer)
{
	struct amqp_watches *watches = ctx;
	struct watch *watch = watches_find_consumer(watches, consumer);

	FAULT(CANCEL_OF_ANOTHER, watch = TAILQ_FIRST(&watches->placed));
	if (watch == NULL)
		return;
	watch->channel->consumers--;
	watch_end(watch);
	watches_place(watches);
}

/*
 * A refusal for another reason than an absent queue: permission, exclusive use, consumer_timeout.
 */
static void
watch_refused(struct amqp_watches *watches, struct watch *watch, int code, const char *text)
{
	if (watch != NULL) {
		watch->until = broker_now(watches->broker) + WATCH_ASIDE_TIME;
		watch_set_state(watch, WATCH_ASIDE);
	}
	watches->pause_until =
	    broker_now(watches->broker) + backoff_next(&watches->pause, &watches->broker->jitter);
	if (!watches->complained)
		log_warning("%s: %s (%d)",
		    watch != NULL ? "the broker refused to watch a slot queue"
				  : "the broker closed a channel of watches",
		    text, code);
	watches->complained = true;
}

static void
watches_on_closed(
    void *ctx, struct amqp_consumers *channel, uint64_t unanswered, int code, const char *text)
{
	struct amqp_watches *watches = ctx;
	struct watch *watch = unanswered != 0 ? watches_find_consumer(watches, unanswered) : NULL;

	/* First of all, so that no callback uses the channel. */
	watches_bury_channel(watches, channel);
	if (unanswered == 0 || code != AMQP_NOT_FOUND)
		watch_refused(watches, watch, code, text);
	else if (watch != NULL)
		watch_end(watch);
	watches_tell_lost(watches);
	watches_place(watches);
}

/* ---- outside ---- */

static void
watch_add(struct amqp_watches *watches, const char *queue)
{
	struct watch *watch = mem_alloc(sizeof(*watch));

	watch->watches = watches;
	watch->queue = mem_strdup(queue);
	watch->state = WATCH_WAITING;
	TAILQ_INSERT_TAIL(&watches->waiting, watch, in_state);
	HASH_ADD_KEYPTR(hh, watches->by_queue, watch->queue, strlen(watch->queue), watch);
	watches_place(watches);
}

void
broker_watch(struct broker *broker, const char *queue)
{
	const struct watch *watch;

	if (broker->stopped)
		return;
	assert(strlen(queue) <= UINT8_MAX);
	HASH_FIND_STR(broker->watches->by_queue, queue, watch);
	if (watch == NULL)
		watch_add(broker->watches, queue);
	amqp_auxiliary_need(broker);
}

void
broker_unwatch(struct broker *broker, const char *queue)
{
	struct amqp_watches *watches = broker->watches;
	struct watch *watch;

	amqp_auxiliary_use(broker);
	HASH_FIND_STR(watches->by_queue, queue, watch);
	if (watch == NULL)
		return;
	if (watch->state == WATCH_PLACING || watch->state == WATCH_ON)
		amqp_consumers_cancel(watch->channel, watch->consumer, NULL);
	watch_free(watch);
	watches_place(watches);
}

size_t
broker_watched(const struct broker *broker)
{
	return HASH_COUNT(broker->watches->by_queue);
}

bool
amqp_watches_any(const struct amqp_watches *watches)
{
	return watches->by_queue != NULL;
}

void
amqp_watches_go(struct amqp_watches *watches)
{
	watches_place(watches);
}

void
amqp_watches_fail(struct amqp_watches *watches, int code)
{
	struct amqp_consumers *channel;
	bool placing = false;

	timers_cancel(watches->broker->timers, &watches->retry);
	watches->complained = false;
	while ((channel = TAILQ_FIRST(&watches->channels.all)) != NULL) {
		placing |= channel->unanswered != 0;
		watches_bury_channel(watches, channel);
	}
	if (placing && code == AMQP_INTERNAL_ERROR) {
		log_warning(
		    "the auxiliary connection ended, perhaps by a watch of a slot: no watch is "
		    "placed for %d s",
		    (int)(WATCH_PAUSE_BLOCKED / NSEC_PER_SEC));
		watches->pause_until = broker_now(watches->broker) + WATCH_PAUSE_BLOCKED;
	}
	FAULT(WATCHES_THOUGHT_PLACED, return );
	watches_tell_lost(watches);
}

/* ---- life ---- */

struct amqp_watches *
amqp_watches_new(struct broker *broker)
{
	struct amqp_watches *watches = mem_alloc(sizeof(*watches));
	int64_t ack_after = broker->settings.ack_after;

	watches->broker = broker;
	watches->channels = (struct amqp_consumers_set){
	    .broker = broker,
	    .letter = WATCH_TAG,
	    .ack_after = ack_after != 0 ? ack_after : WATCH_ACK_AFTER,
	    .events = {.placed = watches_on_placed,
		.cancelled = watches_on_cancelled,
		.closed = watches_on_closed,
		.ctx = watches},
	};
	TAILQ_INIT(&watches->waiting);
	TAILQ_INIT(&watches->aside);
	TAILQ_INIT(&watches->placed);
	TAILQ_INIT(&watches->lost);
	TAILQ_INIT(&watches->channels.all);
	backoff_init(&watches->pause, WATCH_PAUSE_FIRST, WATCH_PAUSE_MOST);
	timer_init(&watches->retry, watches_on_retry, watches, 0);
	return watches;
}

void
amqp_watches_free(struct amqp_watches *watches)
{
	struct watch *watch, *next;

	amqp_watches_fail(watches, 0);
	HASH_ITER (hh, watches->by_queue, watch, next) {
		watch_free(watch);
	}
	free(watches);
}
