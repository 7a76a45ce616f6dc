#include "daemon/broker/consumers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/internal.h"

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

struct ack {
	TAILQ_ENTRY(ack) entry;
	uint64_t delivery;
	int64_t due;
};

/* ---- consumers ---- */

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

/* ---- deliveries ---- */

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

/* ---- frames ---- */

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

/* ---- life ---- */

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
		else if (channel->consumers < (alone ? 1 : AMQP_CONSUMERS_ROOM) &&
			 !consumers_has_ended(channel, queue))
			return channel;
	}
	return may_open && *ret_placing < AMQP_CONSUMERS_PLACING ? consumers_new(set) : NULL;
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

/* No consumer, no unanswered consume, and no delivery to acknowledge. */
static bool
consumers_are_idle(const struct amqp_consumers *channel)
{
	return channel->consumers == 0 && channel->unanswered == 0 && channel->ack_count == 0;
}

void
amqp_consumers_close_idle(struct amqp_consumers_set *set)
{
	struct amqp_consumers *channel, *next;

	TAILQ_FOREACH_SAFE (channel, &set->all, entry, next) {
		if (!consumers_are_idle(channel) || channel == TAILQ_FIRST(&set->all))
			continue;
		amqp_raw_channel_close(&channel->raw);
		amqp_consumers_free(channel);
	}
}
