/*
 * One channel of the side link's with consumers that wait for the end of their queues. Consumers have
 * numbers, which their tags say. Knows no watches: amqp_watch.c does.
 *
 *	us:      qos 1   consume 1             consume 2            ack, 20 s after the delivery
 *	broker:  qos-ok         consume-ok 1          consume-ok 2 ... deliver 1 ... cancel 2
 *
 * A probe of somebody's to a queue with a consumer may be delivered. What was delivered is acknowledged
 * late: at once, each probe would become a delivery (prefetch 1 is one in so long); never, and
 * RabbitMQ closes the channel at consumer_timeout, even when the consumer was cancelled. One consume at
 * a time is unanswered, so that a refusal, which closes the channel, says whom it is for.
 */
#ifndef BROKER_AMQP_WATCH_LANE_H
#define BROKER_AMQP_WATCH_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/queue.h"
#include "daemon/broker/amqp_tapped.h"

/* Consumers on one channel: as many are placed anew when one of them is refused. */
#define AMQP_WATCH_LANE_ROOM 64

struct amqp_watch_lane;

/* A lane may be closed from inside each of them. */
struct amqp_watch_lane_events {
	void (*placed)(void *ctx, uint64_t consumer);
	/* By the broker: its queue is gone, perhaps. Also of one that was cancelled here meanwhile. */
	void (*cancelled)(void *ctx, uint64_t consumer);
	/* By the broker. unanswered: the consumer that was being placed, 0 = none. The lane is freed. */
	void (*closed)(void *ctx, struct amqp_watch_lane *lane, uint64_t unanswered, int code,
	    const char *text);
	void *ctx;
};

struct amqp_watch_lane {
	TAILQ_ENTRY(amqp_watch_lane) entry; /* its owner's */
	struct timers *timers;              /* borrowed */
	struct amqp_watch_lane_events events;
	struct amqp_tapped tapped; /* what is delivered does not matter */
	unsigned consumers;        /* that are there or being placed */
	uint64_t unanswered;       /* the consumer whose consume-ok is to come; 0 = none */
	bool unwanted;             /* it is to be cancelled then */
	int64_t ack_after;
	TAILQ_HEAD(, ack) acks; /* owned; what was delivered, by age */
	unsigned ack_count;
	struct timer ack; /* the first of them is due */
};

/* While there is a link. NULL: no channel number is left. */
struct amqp_watch_lane *amqp_watch_lane_new(struct timers *timers, struct amqp_lanes *lanes,
    int64_t ack_after, const struct amqp_watch_lane_events *events);
/* The channel is gone, or goes with its link. */
void amqp_watch_lane_free(struct amqp_watch_lane *lane);
/* Closes the channel, and frees. */
void amqp_watch_lane_close(struct amqp_watch_lane *lane);

/* A number never used before. Nothing may be unanswered. */
void amqp_watch_lane_consume(struct amqp_watch_lane *lane, uint64_t consumer, const char *queue);
/* Placed or being placed. Nothing of it comes any more, but for `cancelled`. */
void amqp_watch_lane_cancel(struct amqp_watch_lane *lane, uint64_t consumer);

/* No consumer, and nothing to come or to acknowledge. */
static inline bool
amqp_watch_lane_is_idle(const struct amqp_watch_lane *lane)
{
	return lane->consumers == 0 && lane->unanswered == 0 && lane->ack_count == 0;
}

#endif
