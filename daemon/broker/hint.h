/*
 * Hints to wait queues: mandatory publishes without confirm, on a channel of the auxiliary connection's that is
 * there for nothing else. What cannot be published now is owed.
 *
 *	us:      publish 3 to a-W     publish 1 to b-W
 *	broker:                       return of 1 to b-W: nobody waits there
 *
 * The slot is said by the correlation-id, and there is no body: in an alarm RabbitMQ reads nothing more
 * of a connection from the first content header on, so that a body would be left in the socket (3.10).
 */
#ifndef BROKER_HINT_H
#define BROKER_HINT_H

#include <stdbool.h>

#include "daemon/broker/channel.h"

struct amqp_hints;

struct amqp_hints_config {
	struct timers *timers;          /* borrowed, as all here */
	struct amqp_channels *channels; /* the auxiliary connection's */
	/* BROKER_WAIT_QUEUE_NOBODY */
	void (*news)(void *ctx, const struct broker_wait_queue_event *event);
	void *ctx;
};

struct amqp_hints *amqp_hints_new(const struct amqp_hints_config *config);
void amqp_hints_free(struct amqp_hints *hints); /* before channels; NULL is fine */
/* From now on nobody is told anything, and nothing is sent. */
void amqp_hints_silence(struct amqp_hints *hints);

void amqp_hints_send(struct amqp_hints *hints, const char *queue, int slot);
/* Hints are owed. */
bool amqp_hints_any(const struct amqp_hints *hints);
/* connection.blocked: one more publish, and the broker reads nothing more of the link. */
void amqp_hints_block(struct amqp_hints *hints, bool blocked);

/* After amqp_channels_attach: sends what is owed. */
void amqp_hints_go(struct amqp_hints *hints);
/* After amqp_channels_fail. */
void amqp_hints_fail(struct amqp_hints *hints);

#endif
