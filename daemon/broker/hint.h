/*
 * Sends hints to wait queues, by mandatory publishes without confirm, on a raw channel of the
 * auxiliary connection. It owns the hints that are owed, because they cannot be published now.
 * After a refusal no hint is sent for 30 s, and the hints of that time are dropped.
 *
 *	us:      publish 3 to a-W     publish 1 to b-W
 *	broker:                       return of 1 to b-W: no such wait queue
 *
 * The correlation-id says the slot, and a hint has no body. During an alarm RabbitMQ reads nothing
 * more from a connection after the first content header. A body would remain in the socket
 * (RabbitMQ 3.10).
 */
#ifndef BROKER_HINT_H
#define BROKER_HINT_H

#include <stdbool.h>

#include "daemon/broker/channel.h"

struct amqp_hints;

struct amqp_hints_config {
	struct timers *timers;          /* borrowed, as all pointers here */
	struct amqp_channels *channels; /* of the auxiliary connection */
	/* BROKER_WAIT_QUEUE_NOBODY */
	void (*news)(void *ctx, const struct broker_wait_queue_event *event);
	void *ctx;
};

struct amqp_hints *amqp_hints_new(const struct amqp_hints_config *config);
void amqp_hints_free(struct amqp_hints *hints); /* before its channels; NULL is fine */
/* Nothing is sent, and no callback is called, after this. */
void amqp_hints_silence(struct amqp_hints *hints);

void amqp_hints_send(struct amqp_hints *hints, const char *queue, int slot);
/* Whether hints are owed. */
bool amqp_hints_any(const struct amqp_hints *hints);
/* connection.blocked: no hint is published, because RabbitMQ would then stop reading the link. */
void amqp_hints_block(struct amqp_hints *hints, bool blocked);

/* After amqp_channels_attach(): sends the owed hints. */
void amqp_hints_go(struct amqp_hints *hints);
/* After amqp_channels_fail(): owed hints stay owed. */
void amqp_hints_fail(struct amqp_hints *hints);

#endif
