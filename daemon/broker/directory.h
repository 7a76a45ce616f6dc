/*
 * The directory: a durable queue with one persistent message for each name. Each request is a job
 * on its own raw channel of the auxiliary connection.
 *
 *	enter	us:      confirm.select  queue.declare  publish				(one flush)
 *		broker:  select-ok  declare-ok  ack
 *	read	us:      declare, passive   get get get ...              consume  channel.close
 *		broker:  declare-ok (n)     get-ok get-ok ... get-empty  close-ok
 *	leave	as read; an ack for each message to remove stands before the consume
 *
 * The job holds every message until it has seen all of them, and removes none before that. If the
 * link dies or the channel is closed, RabbitMQ puts the messages back where they stood.
 *
 * An ack has no answer. RabbitMQ's close-ok waits only for queues that the channel consumes from,
 * not for queues that it got messages from (rabbit_channel, notify_queues). The job therefore
 * consumes, too: close-ok then means that the queue has processed the acks and has the other
 * messages again.
 *
 * basic.nack is not used: it takes 10 s for 10,000 messages (RabbitMQ 3.10). The channel passes
 * them on one by one, and the queue walks through all its messages for each.
 */
#ifndef BROKER_DIRECTORY_H
#define BROKER_DIRECTORY_H

#include <stdbool.h>

struct amqp_directory;
struct broker;

struct amqp_directory *amqp_directory_new(struct broker *broker);   /* broker: borrowed */
void amqp_directory_free(struct amqp_directory *directory);         /* before its channels */
bool amqp_directory_in_use(const struct amqp_directory *directory); /* a request is unanswered */

/* After amqp_channels_attach(): sends the waiting requests. */
void amqp_directory_go(struct amqp_directory *directory);
/* After amqp_channels_fail(): answers all requests BROKER_UNKNOWN. */
void amqp_directory_fail(struct amqp_directory *directory);

#endif
