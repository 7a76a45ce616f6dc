/*
 * Wait queues, from both sides: this daemon's consumers in them, and the hints that it sends to them. It owns the
 * consumers, and the hints that are owed. It knows no waiters and no slots.
 */
#ifndef BROKER_WAIT_QUEUE_H
#define BROKER_WAIT_QUEUE_H

#include <stdbool.h>

struct amqp_hints;
struct amqp_wait_queues;
struct broker;

/*
 * Consumers of wait queues, on channels of the auxiliary connection (consumers.h). A member is one
 * queue and one priority that this daemon joined. It knows no waiters and no slots.
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
 * - If the last consumer leaves between declare and consume, the wait queue is gone. The consume
 *   gets 404, and is tried again.
 * - A refusal closes the channel and ends all its consumers. They join again at once. The refused
 *   member joins on a channel of its own from then on, until a consume succeeds.
 * - Another credit takes another consumer. It is placed before the old one is cancelled, so that
 *   the wait queue always has a consumer.
 * - A hint for a cancelled consumer is rejected, and goes to others.
 * - Tags are "l" and a number.
 *
 * There are two limits. If no channel of its own is left, a refused member tries again each second.
 * Meanwhile its daemon finds free slots only by rescans. The channels that are kept for other
 * modules are not used for it, as several such members would leave none for probes.
 * And the first join of a member uses a shared channel. If the broker refuses it, up to 63 others
 * are put out for some 5 ms, once for each member.
 */

struct amqp_wait_queues *amqp_wait_queues_new(struct broker *broker); /* broker: borrowed */
void amqp_wait_queues_free(struct amqp_wait_queues *wait_queues);     /* before its channels */
bool amqp_wait_queues_any(const struct amqp_wait_queues *wait_queues);

/* After amqp_channels_attach(): members join. */
void amqp_wait_queues_place(struct amqp_wait_queues *wait_queues);
/* After amqp_channels_fail(): members wait for the next link. */
void amqp_wait_queues_fail(struct amqp_wait_queues *wait_queues);

/*
 * Sends hints to wait queues, by mandatory publishes without confirm, on a raw channel of the
 * auxiliary connection. It owns the hints that are owed, because they cannot be published now.
 * After a refusal no hint is sent for 30 s, and the hints of that time are dropped. During an alarm no
 * hint is published, because RabbitMQ would then stop reading the link.
 *
 *	us:      publish 3 to a-W     publish 1 to b-W
 *	broker:                       return of 1 to b-W: no such wait queue
 *
 * The correlation-id says the slot, and a hint has no body. During an alarm RabbitMQ reads nothing
 * more from a connection after the first content header. A body would remain in the socket
 * (RabbitMQ 3.10).
 */

struct amqp_hints *amqp_hints_new(struct broker *broker); /* broker: borrowed */
void amqp_hints_free(struct amqp_hints *hints);           /* before its channels */

/* After amqp_channels_attach(), or an alarm: sends the owed hints. */
void amqp_hints_pay(struct amqp_hints *hints);
/* After amqp_channels_fail(): owed hints stay owed. */
void amqp_hints_fail(struct amqp_hints *hints);

#endif
