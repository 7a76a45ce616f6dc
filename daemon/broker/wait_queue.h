/*
 * Wait queues: members are consumers, many on a channel of the auxiliary connection's (consumers.h).
 *
 *	us:      declare  qos 2  consume 1            ack      qos 4  consume 2               cancel 1
 *	broker:  declare-ok  qos-ok  consume-ok 1  deliver        qos-ok  consume-ok 2
 *
 *	READY ---- its wait queue's turn ----> JOINING ---- consume-ok: JOINED ----> ON
 *	  ^                                 |                                  |
 *	  +--- RESTING <--- refused --------+-- put out, or the channel went --+-- LEFT (LOST)
 *
 *	ON ---- another credit ----> RAISES ---- its channel's turn ----> RAISING ---- consume-ok ----> ON
 *
 * The wait queue may go with its last member between declare and consume: 404, and tried again. A refusal
 * closes the channel, and puts out all who are on it: they join again at once, and the one who was refused
 * joins on a channel without others from then on, until that was answered. Another credit takes another
 * consumer, before the old one goes, lest the wait queue does. What comes for a consumer that was cancelled is
 * rejected, and goes to others. Tags are "l" and a number.
 *
 * Two limits. While no channel without others can be had, a refused member stays out, and tries again every
 * second: its daemon finds free slots by looking alone. The channels that are left to others (wait queue.c) are not
 * lent to it, as several such members would leave none to probe on. And the first join of a member goes to a
 * shared channel: if the broker refuses it, up to 63 others are put out for some 5 ms, once a member.
 */
#ifndef BROKER_WAIT_QUEUE_H
#define BROKER_WAIT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/backoff.h"
#include "daemon/broker/channel.h"

struct amqp_wait_queues;

struct amqp_wait_queues_config {
	struct timers *timers;          /* borrowed, as all here */
	struct amqp_channels *channels; /* the auxiliary connection's */
	struct jitter *jitter;
	/* broker.h, wait_queue; any of the operations below may be called from inside. */
	void (*news)(void *ctx, const struct broker_wait_queue_event *event);
	void *ctx;
};

struct amqp_wait_queues *amqp_wait_queues_new(const struct amqp_wait_queues_config *config);
void amqp_wait_queues_free(
    struct amqp_wait_queues *wait_queues); /* before channels; NULL is fine */
/* From now on nobody is told anything, and nothing is sent. */
void amqp_wait_queues_silence(struct amqp_wait_queues *wait_queues);

/* As in broker.h. */
void amqp_wait_queues_join(
    struct amqp_wait_queues *wait_queues, const char *queue, int priority, unsigned credit);
void amqp_wait_queues_leave(struct amqp_wait_queues *wait_queues, const char *queue, int priority);
bool amqp_wait_queues_any(const struct amqp_wait_queues *wait_queues);
size_t amqp_wait_queues_count(const struct amqp_wait_queues *wait_queues);

/* After amqp_channels_attach: members join. */
void amqp_wait_queues_go(struct amqp_wait_queues *wait_queues);
/* After amqp_channels_fail. */
void amqp_wait_queues_fail(struct amqp_wait_queues *wait_queues);

#endif
