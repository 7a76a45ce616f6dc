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
#ifndef BROKER_HINT_H
#define BROKER_HINT_H

#include <stdbool.h>

struct amqp_hints;
struct broker;

struct amqp_hints *amqp_hints_new(struct broker *broker); /* broker: borrowed */
void amqp_hints_free(struct amqp_hints *hints);           /* before its channels */
bool amqp_hints_any(const struct amqp_hints *hints);      /* hints are owed */

/* After amqp_channels_attach(), or an alarm: sends the owed hints. */
void amqp_hints_go(struct amqp_hints *hints);
/* After amqp_channels_fail(): owed hints stay owed. */
void amqp_hints_fail(struct amqp_hints *hints);

#endif
