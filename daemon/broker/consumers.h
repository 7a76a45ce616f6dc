/*
 * Channels with many consumers each, and watches, which are such consumers. All are on the auxiliary
 * connection. It owns the channels and the watches. It knows nothing of holds, and wait queues are in
 * wait_queue.h.
 */
#ifndef BROKER_CONSUMERS_H
#define BROKER_CONSUMERS_H

#include <stdbool.h>
#include <stdint.h>

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/broker/channel.h"

struct amqp_consumers;
struct amqp_consumers_end;
struct amqp_watches;
struct broker;

/*
 * Channels of the auxiliary connection with many consumers each. A set owns its channels. Consumers
 * have numbers, never used twice in a set, and their tags say the numbers. The sets know
 * neither watches nor wait queues, which use them.
 *
 *	us:      qos 1   consume 1             consume 2            ack, 20 s after the delivery
 *	broker:  qos-ok         consume-ok 1          consume-ok 2 ... deliver 1 ... cancel 2
 *
 * A refusal closes the channel, and ends all its consumers. Only one consume of a channel is
 * unanswered at a time, so that a refusal has one possible cause. There are a few channels, so that
 * a consume that blocks does not stop the others.
 *
 * A prefetch counts for the consumers that are placed after it. Prefetch for the whole channel is
 * deprecated in RabbitMQ 4. RabbitMQ may have it switched off, and then ends the link with 540.
 */

/* The channel may be closed from inside each callback. */
struct amqp_consumers_events {
	void (*placed)(void *ctx, uint64_t consumer);
	/*
	 * The broker cancelled the consumer; its queue may be gone. Also called for a consumer that
	 * was cancelled here meanwhile.
	 */
	void (*cancelled)(void *ctx, uint64_t consumer);
	/*
	 * A whole message is in raw.content. The callback acknowledges or rejects it. Its consumer
	 * may have been cancelled here. NULL: messages are ignored, and acknowledged after
	 * ack_after.
	 */
	void (*message)(void *ctx, struct amqp_consumers *channel, uint64_t consumer);
	/*
	 * The broker closed the channel. unanswered: the consumer that was refused, 0 = none. The
	 * callback frees the channel.
	 */
	void (*closed)(void *ctx, struct amqp_consumers *channel, uint64_t unanswered, int code,
	    const char *text);
	void *ctx;
};

/* The channels of one user: the watches, or the wait queues. */
struct amqp_consumers_set {
	const struct broker *broker; /* borrowed */
	char letter;                 /* first letter of its tags */
	int64_t ack_after;           /* ns; used if the event `message` is NULL */
	struct amqp_consumers_events events;
	TAILQ_HEAD(, amqp_consumers) all; /* owned */
	uint64_t consumer;                /* number of the newest one */
};

struct amqp_consumers {
	TAILQ_ENTRY(amqp_consumers) entry;
	struct amqp_consumers_set *set; /* borrowed */
	struct amqp_raw_channel raw;
	unsigned prefetch;      /* the one sent last */
	unsigned declares;      /* unanswered ones */
	unsigned consumers;     /* placed, or being placed */
	uint64_t unanswered;    /* the consumer without consume-ok yet; 0 = none */
	bool unwanted;          /* cancel it after its consume-ok */
	char *unwanted_queue;   /* owned; its queue, if that is an auto-delete queue; else NULL */
	uint64_t addressee;     /* the consumer of the message that is arriving */
	TAILQ_HEAD(, ack) acks; /* owned; ignored deliveries, oldest first */
	unsigned ack_count;
	struct timer ack;                /* the oldest is due */
	struct amqp_consumers_end *ends; /* owned; of the last moments, also in a list: */
	TAILQ_HEAD(, amqp_consumers_end) newest_last;
};

/*
 * While there is a link. Returns a channel with room and without an unanswered consume. alone: a
 * channel without consumers. queue: an auto-delete queue, which must not have ended on that channel
 * a moment ago; NULL: another queue. If there is none and may_open is set, a channel is opened. NULL: no
 * such channel now. ret_placing: the number of channels with an unanswered consume.
 */
struct amqp_consumers *amqp_consumers_find(struct amqp_consumers_set *set, const char *queue,
    bool alone, bool may_open, unsigned *ret_placing);
/* For a channel that is closed, or whose link ended. */
void amqp_consumers_free(struct amqp_consumers *channel);
/* Closes the idle channels, except one, which stays for the next consumer. */
void amqp_consumers_close_idle(struct amqp_consumers_set *set);

/* Declares a queue. Its consume follows at once. */
void amqp_consumers_declare(struct amqp_consumers *channel, amqp_queue_declare_t *declare);
/* Places a consumer, and returns its number. No consume of the channel may be unanswered. */
uint64_t amqp_consumers_consume(
    struct amqp_consumers *channel, const char *queue, unsigned prefetch, int priority);
/*
 * Ends a consumer that is placed or being placed. Events may still come for it: `placed`,
 * `cancelled` and `message`. queue: its queue, if that is an auto-delete queue; else NULL.
 */
void amqp_consumers_cancel(struct amqp_consumers *channel, uint64_t consumer, const char *queue);

/*
 * Watches: RabbitMQ sends basic.cancel to the consumers of a queue that is deleted. The consumers
 * have raw channels of the auxiliary connection (see above). They are never on the lock
 * connection, because a consume can cost its link.
 *
 *	WAITING ---- its turn ----> PLACING ---- consume-ok: WATCHED ----> ON
 *	  ^  ^                       |  |                                 |  |
 *	  |  +-- ASIDE <-- refused --+  +-- 404: HINT --> gone <-- cancel +  |
 *	  +------- the channel or the link went: UNWATCHED --- (LOST) ----------+
 *
 * A refusal closes the channel, and its other consumers are placed again. The consumers are
 * therefore spread over several channels.
 */

struct amqp_watches *amqp_watches_new(struct broker *broker); /* broker: borrowed */
void amqp_watches_free(struct amqp_watches *watches);         /* before its channels */
bool amqp_watches_any(const struct amqp_watches *watches);

/* After amqp_channels_attach(): places the waiting watches. */
void amqp_watches_place(struct amqp_watches *watches);
/* After amqp_channels_fail(). code: of connection.close, 0 = there was none. */
void amqp_watches_fail(struct amqp_watches *watches, int code);

#endif
