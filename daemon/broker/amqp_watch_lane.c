#include "daemon/broker/amqp_watch_lane.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

/* Unacknowledged deliveries; of more, the oldest is acknowledged early. */
#define UNACKED_MAX 1024
/* Of its tags. */
#define TAG 'w'

struct ack {
	TAILQ_ENTRY(ack) entry;
	uint64_t delivery;
	int64_t due;
};

static int64_t
now(const struct amqp_watch_lane *lane)
{
	return clock_now(timers_clock(lane->timers));
}

/* ---- consumers ---- */

void
amqp_watch_lane_consume(struct amqp_watch_lane *lane, uint64_t consumer, const char *queue)
{
	struct amqp_tapped_tag tag = amqp_tapped_tag(TAG, consumer);
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	};

	assert(lane->unanswered == 0 && consumer != 0);
	lane->unanswered = consumer;
	lane->consumers++;
	amqp_tapped_send(&lane->tapped, AMQP_BASIC_CONSUME_METHOD, &consume);
}

static void
send_cancel(struct amqp_watch_lane *lane, uint64_t consumer)
{
	assert(lane->consumers > 0);
	lane->consumers--;
	amqp_tapped_cancel(&lane->tapped, TAG, consumer);
}

/*
 * Never before consume-ok: RabbitMQ 3.10 passes that through the channel's own queue of messages, and a
 * cancel that is read before it makes the channel crash (badkey in consumer_monitor) and ends the link
 * with 541.
 */
void
amqp_watch_lane_cancel(struct amqp_watch_lane *lane, uint64_t consumer)
{
	FAULT(CANCELLED_TOO_EARLY, send_cancel(lane, consumer); return;);
	if (consumer == lane->unanswered)
		lane->unwanted = true;
	else
		send_cancel(lane, consumer);
}

/* ---- deliveries ---- */

static void
ack_first(struct amqp_watch_lane *lane)
{
	struct ack *ack = TAILQ_FIRST(&lane->acks);

	amqp_tapped_ack(&lane->tapped, ack->delivery);
	TAILQ_REMOVE(&lane->acks, ack, entry);
	lane->ack_count--;
	free(ack);
}

static void
on_ack(void *ctx, uint64_t id)
{
	struct amqp_watch_lane *lane = ctx;
	const struct ack *ack;

	(void)id;
	while ((ack = TAILQ_FIRST(&lane->acks)) != NULL && ack->due <= now(lane))
		ack_first(lane);
	if (ack != NULL)
		timers_set(lane->timers, &lane->ack, ack->due);
}

static void
ack_later(struct amqp_watch_lane *lane, uint64_t delivery)
{
	struct ack *ack = mem_alloc(sizeof(*ack));

	ack->delivery = delivery;
	ack->due = now(lane) + lane->ack_after;
	TAILQ_INSERT_TAIL(&lane->acks, ack, entry);
	if (++lane->ack_count > UNACKED_MAX)
		ack_first(lane);
	if (!timer_is_set(&lane->ack))
		timers_set(lane->timers, &lane->ack, ack->due);
}

/* ---- frames ---- */

static bool
take_consume_ok(struct amqp_watch_lane *lane, uint64_t consumer)
{
	if (consumer == 0 || consumer != lane->unanswered)
		return false;
	lane->unanswered = 0;
	if (lane->unwanted)
		send_cancel(lane, consumer);
	lane->unwanted = false;
	lane->events.placed(lane->events.ctx, consumer);
	return true;
}

static bool
on_method(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_watch_lane *lane = ctx;

	switch (frame->method) {
	case AMQP_BASIC_QOS_OK_METHOD:
		return true;
	case AMQP_BASIC_CONSUME_OK_METHOD: {
		const amqp_basic_consume_ok_t *ok = frame->fields;

		return take_consume_ok(lane, amqp_tapped_consumer(TAG, ok->consumer_tag));
	}
	case AMQP_BASIC_CANCEL_METHOD: {
		const amqp_basic_cancel_t *cancel = frame->fields;

		lane->events.cancelled(
		    lane->events.ctx, amqp_tapped_consumer(TAG, cancel->consumer_tag));
		return true;
	}
	case AMQP_BASIC_DELIVER_METHOD: {
		const amqp_basic_deliver_t *deliver = frame->fields;

		ack_later(lane, deliver->delivery_tag);
		return amqp_tapped_announce(&lane->tapped, deliver->delivery_tag);
	}
	default:
		return false;
	}
}

static void
on_closed(void *ctx, int code, const char *text)
{
	struct amqp_watch_lane *lane = ctx;

	lane->events.closed(lane->events.ctx, lane, lane->unanswered, code, text);
}

/* ---- life ---- */

struct amqp_watch_lane *
amqp_watch_lane_new(struct timers *timers, struct amqp_lanes *lanes, int64_t ack_after,
    const struct amqp_watch_lane_events *events)
{
	static const struct amqp_tapped_events tapped_events = {
	    .method = on_method, .closed = on_closed};
	struct amqp_watch_lane *lane = mem_alloc(sizeof(*lane));
	amqp_basic_qos_t qos = {.prefetch_count = 1}; /* of each consumer: not global */

	lane->timers = timers;
	lane->ack_after = ack_after;
	lane->events = *events;
	amqp_tapped_init(&lane->tapped, lanes, &tapped_events, lane);
	TAILQ_INIT(&lane->acks);
	timer_init(&lane->ack, on_ack, lane, 0);
	if (!amqp_tapped_open(&lane->tapped, 0)) {
		free(lane);
		return NULL;
	}
	amqp_tapped_send(&lane->tapped, AMQP_BASIC_QOS_METHOD, &qos);
	return lane;
}

void
amqp_watch_lane_free(struct amqp_watch_lane *lane)
{
	struct ack *ack;

	while ((ack = TAILQ_FIRST(&lane->acks)) != NULL) {
		TAILQ_REMOVE(&lane->acks, ack, entry);
		free(ack);
	}
	timers_cancel(lane->timers, &lane->ack);
	amqp_tapped_forget(&lane->tapped);
	free(lane);
}

void
amqp_watch_lane_close(struct amqp_watch_lane *lane)
{
	amqp_tapped_close(&lane->tapped);
	amqp_watch_lane_free(lane);
}
