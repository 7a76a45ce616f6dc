/*
 * Channels of the auxiliary connection's with many consumers each. Consumers have numbers, never used twice
 * in a set of channels, which their tags say. Knows neither watches nor wait queues: watch.c and wait_queue.c do.
 *
 *	us:      qos 1   consume 1             consume 2            ack, 20 s after the delivery
 *	broker:  qos-ok         consume-ok 1          consume-ok 2 ... deliver 1 ... cancel 2
 *
 * A refusal closes the channel, and all its consumers with it. One consume at a time is unanswered, so
 * that a refusal says whom it is for; hence a few channels, so that one that blocks does not stop the others.
 * A prefetch counts for the consumers that come after it. (Prefetch
 * for the whole channel is deprecated in RabbitMQ 4, and may be switched off there with 540, which ends
 * the link.)
 */
#ifndef BROKER_CONSUMERS_H
#define BROKER_CONSUMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/queue.h"
#include "daemon/broker/raw_channel.h"

/* Consumers on one channel: as many are placed anew when one of them is refused. */
#define AMQP_CONSUMERS_ROOM 64
/* Unanswered consumes of a set, each on a channel of its own. */
#define AMQP_CONSUMERS_PLACING 4

struct amqp_consumers;

/* The channel may be closed from inside each of them. */
struct amqp_consumers_events {
	void (*placed)(void *ctx, uint64_t consumer);
	/* By the broker: its queue is gone, perhaps. Also of one that was cancelled here meanwhile. */
	void (*cancelled)(void *ctx, uint64_t consumer);
	/*
	 * A message is whole, in raw.content: acknowledges or rejects it. It may be for a consumer that
	 * was cancelled here. NULL: nobody wants it, and it is acknowledged by and by.
	 */
	void (*message)(void *ctx, struct amqp_consumers *channel, uint64_t consumer);
	/* By the broker. unanswered: the consumer that it refused, 0 = none. To be freed. */
	void (*closed)(void *ctx, struct amqp_consumers *channel, uint64_t unanswered, int code,
	    const char *text);
	void *ctx;
};

/* The channels of one who has consumers. */
struct amqp_consumers_set {
	struct timers *timers;          /* borrowed */
	struct amqp_channels *channels; /* borrowed */
	char letter;                    /* of its tags */
	int64_t ack_after;              /* without the event message */
	struct amqp_consumers_events events;
	TAILQ_HEAD(, amqp_consumers) all; /* owned */
	uint64_t consumer;                /* number of the last one */
};

struct amqp_consumers {
	TAILQ_ENTRY(amqp_consumers) entry;
	struct amqp_consumers_set *set; /* borrowed */
	struct amqp_raw_channel raw;
	unsigned prefetch;      /* as said last */
	unsigned declares;      /* whose declare-ok is to come */
	unsigned consumers;     /* that are there or being placed */
	uint64_t unanswered;    /* the consumer whose consume-ok is to come; 0 = none */
	bool unwanted;          /* it is to be cancelled then */
	uint64_t addressee;     /* the consumer of the message that comes */
	TAILQ_HEAD(, ack) acks; /* owned; what was delivered and nobody wants, by age */
	unsigned ack_count;
	struct timer ack; /* the first of them is due */
};

/*
 * While there is a link. A channel with room (alone: without others) on which nothing is unanswered; opened
 * if there is none, and may_open. NULL: there is none now; ret_placing: of how many others the answers are to
 * come.
 */
struct amqp_consumers *amqp_consumers_find(
    struct amqp_consumers_set *set, bool alone, bool may_open, unsigned *ret_placing);
/* The channel is gone, or goes with its link. */
void amqp_consumers_free(struct amqp_consumers *channel);
/* Closes the channels that nothing is on; but one is kept for the next consumer. */
void amqp_consumers_close_idle(struct amqp_consumers_set *set);

/* Declares a queue for a consumer that follows at once. */
void amqp_consumers_declare(struct amqp_consumers *channel, amqp_queue_declare_t *declare);
/* Its number. Nothing may be unanswered. */
uint64_t amqp_consumers_consume(
    struct amqp_consumers *channel, const char *queue, unsigned prefetch, int priority);
/* Placed or being placed. Nothing of it comes any more, but for `cancelled` and messages. */
void amqp_consumers_cancel(struct amqp_consumers *channel, uint64_t consumer);

#endif
