#include "daemon/broker/consumers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/internal.h"
#include "daemon/broker/reconnector.h"
#include "daemon/broker/setup.h"

/*
 * Contents:
 *	Channels: what each has.
 *	Channels, consumers: amqp_consumers_consume() places one. An auto-delete queue that just ended on a
 *	   channel is used on others: consumers_has_ended(). amqp_consumers_cancel() ends a consumer.
 *	Channels, deliveries: consumers_ack_later() acknowledges those that nobody reads.
 *	Channels, frames: consumers_on_method() tells the owner of the set.
 *	Channels, life: amqp_consumers_find() chooses a channel, or opens one.
 *	Watches: what each has.
 *	Watches, states: the lists, and the news to the listener.
 *	Watches, placing: amqp_watches_place() gives waiting watches their turns and pauses after refusals.
 *	Watches, events: a consumer was placed, cancelled or refused, or its channel went.
 *	Watches, outside: broker_watch() and broker_unwatch(). The link comes and goes.
 *	Watches, life: with the broker.
 */

/* ---- channels ---- */

/* The maximum number of consumers on one channel. If one is refused, so many are placed again. */
#define CONSUMERS_ROOM 64
/* The maximum number of unanswered consumes of a set, each on its own channel. */
#define CONSUMERS_PLACING 4
/* The maximum of unacknowledged deliveries. If there are more, the oldest is acknowledged early. */
#define CONSUMERS_UNACKED_MAX 1024
/*
 * An auto-delete queue ends with its last consumer. RabbitMQ's channel forgets the queue of that
 * name when it hears of the end. If there is a new queue of the same name by then, the channel drops
 * its messages, and its consumers hear nothing. With 4.0.5 and 4.3.6 this was so in 60 of 60 cases
 * when cancel, declare and consume were one write. When the declare came 0.1 ms later, it was 1 of
 * 60. With 3.10.8 it never was. For so long such a queue is used on other channels.
 */
#define END_REST (1 * NSEC_PER_SEC)

/* An auto-delete queue that perhaps ended with a consumer of the channel. */
struct amqp_consumers_end {
	char *queue; /* owned; the key */
	int64_t at;  /* clock time */
	TAILQ_ENTRY(amqp_consumers_end) entry;
	UT_hash_handle by_queue;
};

struct ack {
	TAILQ_ENTRY(ack) entry;
	uint64_t delivery;
	int64_t due;
};

/* ---- channels, consumers ---- */

void
amqp_consumers_declare(struct amqp_consumers *channel, amqp_queue_declare_t *declare)
{
	assert(channel->unanswered == 0);
	channel->declares++;
	amqp_raw_channel_send(&channel->raw, AMQP_QUEUE_DECLARE_METHOD, declare);
}

uint64_t
amqp_consumers_consume(
    struct amqp_consumers *channel, const char *queue, unsigned prefetch, int priority)
{
	struct amqp_consumers_set *set = channel->set;
	struct amqp_raw_channel_tag tag = amqp_raw_channel_tag(set->letter, ++set->consumer);
	/* for each consumer: not global */
	amqp_basic_qos_t qos = {.prefetch_count = (uint16_t)prefetch};
	amqp_table_entry_t argument = amqp_entry_number("x-priority", priority);
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	    .arguments = {.num_entries = priority != 0, .entries = &argument},
	};

	assert(channel->unanswered == 0 && prefetch != 0);
	if (channel->prefetch != prefetch)
		amqp_raw_channel_send(&channel->raw, AMQP_BASIC_QOS_METHOD, &qos);
	channel->prefetch = prefetch;
	channel->unanswered = set->consumer;
	channel->consumers++;
	amqp_raw_channel_send(&channel->raw, AMQP_BASIC_CONSUME_METHOD, &consume);
	return channel->unanswered;
}

static void
end_forget(struct amqp_consumers *channel, struct amqp_consumers_end *end)
{
	HASH_DELETE(by_queue, channel->ends, end);
	TAILQ_REMOVE(&channel->newest_last, end, entry);
	free(end->queue);
	free(end);
}

static struct amqp_consumers_end *
end_find(const struct amqp_consumers *channel, const char *queue)
{
	struct amqp_consumers_end *end;

	HASH_FIND(by_queue, channel->ends, queue, strlen(queue), end);
	return end;
}

static bool
consumers_has_ended(struct amqp_consumers *channel, const char *queue)
{
	struct amqp_consumers_end *first;

	while ((first = TAILQ_FIRST(&channel->newest_last)) != NULL &&
	       first->at + END_REST <= broker_now(channel->set->broker))
		end_forget(channel, first);
	return queue != NULL && end_find(channel, queue) != NULL;
}

/* queue: NULL, or it perhaps ends. */
static void
consumers_send_cancel(struct amqp_consumers *channel, uint64_t consumer, const char *queue)
{
	struct amqp_consumers_end *end;

	assert(channel->consumers > 0);
	channel->consumers--;
	amqp_raw_channel_cancel(&channel->raw, channel->set->letter, consumer);
	if (queue == NULL)
		return;
	if (consumers_has_ended(channel, queue))
		end_forget(channel, end_find(channel, queue));
	end = mem_alloc(sizeof(*end));
	end->queue = mem_strdup(queue);
	end->at = broker_now(channel->set->broker);
	HASH_ADD_KEYPTR(by_queue, channel->ends, end->queue, strlen(end->queue), end);
	TAILQ_INSERT_TAIL(&channel->newest_last, end, entry);
}

/*
 * A consumer is never cancelled before its consume-ok. RabbitMQ 3.10 passes consume-ok through the
 * channel's own queue of messages. If it reads the cancel first, the channel crashes (badkey in
 * consumer_monitor), and the link ends with 541.
 */
void
amqp_consumers_cancel(struct amqp_consumers *channel, uint64_t consumer, const char *queue)
{
	FAULT(CANCELLED_TOO_EARLY, consumers_send_cancel(channel, consumer, queue); return;);
	if (consumer != channel->unanswered) {
		consumers_send_cancel(channel, consumer, queue);
		return;
	}
	channel->unwanted = true;
	channel->unwanted_queue = queue == NULL ? NULL : mem_strdup(queue);
}

/* ---- channels, deliveries ---- */

static void
consumers_ack_first(struct amqp_consumers *channel)
{
	struct ack *ack = TAILQ_FIRST(&channel->acks);

	amqp_raw_channel_ack(&channel->raw, ack->delivery);
	TAILQ_REMOVE(&channel->acks, ack, entry);
	channel->ack_count--;
	free(ack);
}

static void
consumers_on_ack(void *ctx, uint64_t id)
{
	struct amqp_consumers *channel = ctx;
	const struct ack *ack;

	(void)id;
	while ((ack = TAILQ_FIRST(&channel->acks)) != NULL &&
	       ack->due <= broker_now(channel->set->broker))
		consumers_ack_first(channel);
	if (ack != NULL)
		timers_set(channel->set->broker->timers, &channel->ack, ack->due);
}

static void
consumers_ack_later(struct amqp_consumers *channel, uint64_t delivery)
{
	struct ack *ack = mem_alloc(sizeof(*ack));

	ack->delivery = delivery;
	ack->due = broker_now(channel->set->broker) + channel->set->ack_after;
	TAILQ_INSERT_TAIL(&channel->acks, ack, entry);
	if (++channel->ack_count > CONSUMERS_UNACKED_MAX)
		consumers_ack_first(channel);
	if (!timer_is_set(&channel->ack))
		timers_set(channel->set->broker->timers, &channel->ack, ack->due);
}

/* ---- channels, frames ---- */

static bool
consumers_take_consume_ok(struct amqp_consumers *channel, uint64_t consumer)
{
	if (consumer == 0 || consumer != channel->unanswered)
		return false;
	channel->unanswered = 0;
	if (channel->unwanted)
		consumers_send_cancel(channel, consumer, channel->unwanted_queue);
	channel->unwanted = false;
	free(channel->unwanted_queue);
	channel->unwanted_queue = NULL;
	channel->set->events.placed(channel->set->events.ctx, consumer);
	return true;
}

static bool
consumers_on_method(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_consumers *channel = ctx;

	switch (frame->method) {
	case AMQP_QUEUE_DECLARE_OK_METHOD:
		return channel->declares > 0 && channel->declares-- > 0;
	case AMQP_BASIC_QOS_OK_METHOD:
		return true;
	case AMQP_BASIC_CONSUME_OK_METHOD: {
		const amqp_basic_consume_ok_t *ok = frame->fields;

		return consumers_take_consume_ok(
		    channel, amqp_raw_channel_consumer(channel->set->letter, ok->consumer_tag));
	}
	case AMQP_BASIC_CANCEL_METHOD: {
		const amqp_basic_cancel_t *cancel = frame->fields;

		channel->set->events.cancelled(channel->set->events.ctx,
		    amqp_raw_channel_consumer(channel->set->letter, cancel->consumer_tag));
		return true;
	}
	case AMQP_BASIC_DELIVER_METHOD: {
		const amqp_basic_deliver_t *deliver = frame->fields;

		channel->addressee =
		    amqp_raw_channel_consumer(channel->set->letter, deliver->consumer_tag);
		if (channel->set->events.message == NULL)
			consumers_ack_later(channel, deliver->delivery_tag);
		return amqp_raw_channel_announce(&channel->raw, deliver->delivery_tag);
	}
	default:
		return false;
	}
}

static bool
consumers_on_message(void *ctx)
{
	struct amqp_consumers *channel = ctx;

	if (channel->set->events.message != NULL)
		channel->set->events.message(channel->set->events.ctx, channel, channel->addressee);
	return true;
}

static void
consumers_on_closed(void *ctx, int code, const char *text)
{
	struct amqp_consumers *channel = ctx;

	channel->set->events.closed(channel->set->events.ctx, channel,
	    channel->raw.blames ? channel->unanswered : 0, code, text);
}

/* ---- channels, life ---- */

/* NULL: no channel number is left. */
static struct amqp_consumers *
consumers_new(struct amqp_consumers_set *set)
{
	static const struct amqp_raw_channel_events raw_events = {.method = consumers_on_method,
	    .message = consumers_on_message,
	    .closed = consumers_on_closed};
	struct amqp_consumers *channel = mem_alloc(sizeof(*channel));

	channel->set = set;
	amqp_raw_channel_init(&channel->raw, set->broker->channels, &raw_events, channel);
	TAILQ_INIT(&channel->acks);
	TAILQ_INIT(&channel->newest_last);
	timer_init(&channel->ack, consumers_on_ack, channel, 0);
	if (!amqp_raw_channel_open(&channel->raw, 0)) {
		free(channel);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&set->all, channel, entry);
	return channel;
}

struct amqp_consumers *
amqp_consumers_find(struct amqp_consumers_set *set, const char *queue, bool alone, bool may_open,
    unsigned *ret_placing)
{
	struct amqp_consumers *channel;

	*ret_placing = 0;
	TAILQ_FOREACH (channel, &set->all, entry) {
		if (channel->unanswered != 0)
			++*ret_placing;
		else if (channel->consumers < (alone ? 1 : CONSUMERS_ROOM) &&
			 !consumers_has_ended(channel, queue))
			return channel;
	}
	return may_open && *ret_placing < CONSUMERS_PLACING ? consumers_new(set) : NULL;
}

void
amqp_consumers_free(struct amqp_consumers *channel)
{
	struct ack *ack;

	while ((ack = TAILQ_FIRST(&channel->acks)) != NULL) {
		TAILQ_REMOVE(&channel->acks, ack, entry);
		free(ack);
	}
	while (!TAILQ_EMPTY(&channel->newest_last))
		end_forget(channel, TAILQ_FIRST(&channel->newest_last));
	free(channel->unwanted_queue);
	TAILQ_REMOVE(&channel->set->all, channel, entry);
	timers_cancel(channel->set->broker->timers, &channel->ack);
	amqp_raw_channel_forget(&channel->raw);
	free(channel);
}

void
amqp_consumers_close_idle(struct amqp_consumers_set *set)
{
	struct amqp_consumers *channel, *next;

	TAILQ_FOREACH_SAFE (channel, &set->all, entry, next) {
		if (channel->consumers > 0 || channel->unanswered != 0 || channel->ack_count > 0 ||
		    channel == TAILQ_FIRST(&set->all))
			continue;
		amqp_raw_channel_close(&channel->raw);
		amqp_consumers_free(channel);
	}
}

/* ---- watches ---- */

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

struct queue_watch {
	UT_hash_handle hh;
	TAILQ_ENTRY(queue_watch) in_state; /* in the list of its state */
	struct amqp_watches *watches;      /* borrowed */
	char *queue;                       /* owned */
	enum watch_state state;
	struct amqp_consumers *channel; /* borrowed; PLACING, ON */
	uint64_t consumer;              /* its number there; PLACING, ON */
	int64_t until;                  /* ASIDE */
};
TAILQ_HEAD(watch_list, queue_watch);

struct amqp_watches {
	struct broker *broker;        /* borrowed */
	struct queue_watch *by_queue; /* owned */
	struct watch_list waiting, aside, placed, lost;
	struct amqp_consumers_set channels;
	int64_t pause_until; /* clock time; no watch is placed before */
	struct backoff pause;
	struct timer retry; /* the end of a pause, or of the first `until` */
	bool complained;    /* of being refused, on this link */
};

/* ---- watches, states ---- */

static struct watch_list *
watch_list_of(const struct queue_watch *watch)
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
watch_set_state(struct queue_watch *watch, enum watch_state state)
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
watch_free(struct queue_watch *watch)
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
watch_tell(const struct queue_watch *watch, enum broker_news news)
{
	char *queue = mem_strdup(watch->queue);

	watches_tell(watch->watches, queue, news);
	free(queue);
}

/* The queue may be deleted. The engine watches again if it still needs that. */
static void
watch_end(struct queue_watch *watch)
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
	struct queue_watch *watch;

	while ((watch = TAILQ_FIRST(&watches->lost)) != NULL) {
		watch_set_state(watch, WATCH_WAITING);
		watch_tell(watch, BROKER_UNWATCHED);
	}
}

/* ---- watches, placing ---- */

/* The broker closed the channel: its watches are placed again. */
static void
watches_bury_channel(struct amqp_watches *watches, struct amqp_consumers *channel)
{
	struct queue_watch *watch, *next;

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

	if (channel == NULL && placing < CONSUMERS_PLACING)
		watches->pause_until = broker_now(watches->broker) + WATCH_PAUSE_NO_CHANNEL;
	return channel;
}

/* Places all watches that can be placed now, and sets the timer for the others. */
void
amqp_watches_place(struct amqp_watches *watches)
{
	struct timers *timers = watches->broker->timers;
	int64_t due = INT64_MAX;
	struct amqp_consumers *channel;
	struct queue_watch *watch;

	timers_cancel(timers, &watches->retry);
	if (watches->broker->stopped || amqp_channels_link(watches->broker->channels) == NULL)
		return;
	while ((watch = TAILQ_FIRST(&watches->aside)) != NULL &&
	       watch->until <= broker_now(watches->broker))
		watch_set_state(watch, WATCH_WAITING);
	while (watches->pause_until <= broker_now(watches->broker) &&
	       (watch = TAILQ_FIRST(&watches->waiting)) != NULL &&
	       (channel = watches_find_channel(watches)) != NULL) {
		watch->channel = channel;
		watch->consumer = amqp_consumers_consume(channel, watch->queue, 1, 0);
		watch_set_state(watch, WATCH_PLACING);
	}
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
	amqp_watches_place(ctx);
}

/* ---- watches, events ---- */

/* NULL: of no watch any more. */
static struct queue_watch *
watches_find_consumer(const struct amqp_watches *watches, uint64_t consumer)
{
	struct queue_watch *watch;

	TAILQ_FOREACH (watch, &watches->placed, in_state)
		if (watch->consumer == consumer)
			break;
	return watch;
}

static void
watches_on_placed(void *ctx, uint64_t consumer)
{
	struct amqp_watches *watches = ctx;
	struct queue_watch *watch = watches_find_consumer(watches, consumer);

	backoff_reset(&watches->pause);
	if (watch != NULL) {
		watch_set_state(watch, WATCH_ON);
		watch_tell(watch, BROKER_WATCHED);
	}
	amqp_watches_place(watches);
}

static void
watches_on_cancelled(void *ctx, uint64_t consumer)
{
	struct amqp_watches *watches = ctx;
	struct queue_watch *watch = watches_find_consumer(watches, consumer);

	FAULT(CANCEL_OF_ANOTHER, watch = TAILQ_FIRST(&watches->placed));
	if (watch == NULL)
		return;
	watch->channel->consumers--;
	watch_end(watch);
	amqp_watches_place(watches);
}

/*
 * A refusal for another reason than an absent queue: permission, exclusive use, consumer_timeout.
 */
static void
watch_refused(struct amqp_watches *watches, struct queue_watch *watch, int code, const char *text)
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
	struct queue_watch *watch =
	    unanswered != 0 ? watches_find_consumer(watches, unanswered) : NULL;

	/* First of all, so that no callback uses the channel. */
	watches_bury_channel(watches, channel);
	if (unanswered == 0 || code != AMQP_NOT_FOUND)
		watch_refused(watches, watch, code, text);
	else if (watch != NULL)
		watch_end(watch);
	watches_tell_lost(watches);
	amqp_watches_place(watches);
}

/* ---- watches, outside ---- */

static void
watch_add(struct amqp_watches *watches, const char *queue)
{
	struct queue_watch *watch = mem_alloc(sizeof(*watch));

	watch->watches = watches;
	watch->queue = mem_strdup(queue);
	watch->state = WATCH_WAITING;
	TAILQ_INSERT_TAIL(&watches->waiting, watch, in_state);
	HASH_ADD_KEYPTR(hh, watches->by_queue, watch->queue, strlen(watch->queue), watch);
	amqp_watches_place(watches);
}

void
broker_watch(struct broker *broker, const char *queue)
{
	const struct queue_watch *watch;

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
	struct queue_watch *watch;

	amqp_auxiliary_use(broker);
	HASH_FIND_STR(watches->by_queue, queue, watch);
	if (watch == NULL)
		return;
	if (watch->state == WATCH_PLACING || watch->state == WATCH_ON)
		amqp_consumers_cancel(watch->channel, watch->consumer, NULL);
	watch_free(watch);
	amqp_watches_place(watches);
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

/* ---- watches, life ---- */

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
	struct queue_watch *watch, *next;

	amqp_watches_fail(watches, 0);
	HASH_ITER (hh, watches->by_queue, watch, next) {
		watch_free(watch);
	}
	free(watches);
}
