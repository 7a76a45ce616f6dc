/*
 * A directory of names: a durable queue with a persistent message a name. Each request is a job on a
 * channel of the auxiliary connection's that is there for it alone.
 *
 *	enter	us:      confirm.select  queue.declare  publish				(one flush)
 *		broker:  select-ok  declare-ok  ack
 *	read	us:      declare, passive   get get get ...              consume  channel.close
 *		broker:  declare-ok (n)     get-ok get-ok ... get-empty  close-ok
 *	leave	as read; an ack for each message that is to go stands before the consume
 *
 * Every message is held until all have been seen: nothing is gone before that, and a link that dies puts
 * them back. So does closing the channel; put back, a message stands where it stood. Acks have no answer,
 * and RabbitMQ's close-ok waits for the queues that are consumed from, not for those that were only got
 * from (rabbit_channel, notify_queues): hence the consume, which makes close-ok say that the queue has
 * taken the acks and has the rest again. basic.nack instead takes 10 s for 10,000 messages that were got:
 * the channel passes them on one by one, and the queue goes through itself for each (3.10).
 */
#ifndef BROKER_DIRECTORY_H
#define BROKER_DIRECTORY_H

#include <stdbool.h>

#include "daemon/broker/channel.h"

struct amqp_directory;

/* channels: the auxiliary connection's, borrowed. */
struct amqp_directory *amqp_directory_new(struct timers *timers, struct amqp_channels *channels);
void amqp_directory_free(struct amqp_directory *directory); /* before channels; NULL is fine */
/* From now on nobody is answered. */
void amqp_directory_silence(struct amqp_directory *directory);

/* As in broker.h. Sent at once when attached, else when that happens. */
void amqp_directory_read(
    struct amqp_directory *directory, const char *queue, struct broker_names_done done);
void amqp_directory_leave(struct amqp_directory *directory, const char *queue, const char *name,
    struct broker_names_done done);
/* hopeless: the broker is known not to read what is published. */
void amqp_directory_enter(struct amqp_directory *directory, const char *queue, const char *name,
    bool hopeless, struct broker_names_done done);
bool amqp_directory_in_use(
    const struct amqp_directory *directory); /* somebody waits for an answer */

/* After amqp_channels_attach: sends what waits. */
void amqp_directory_go(struct amqp_directory *directory);
/* After amqp_channels_fail: answers all, unknown. */
void amqp_directory_fail(struct amqp_directory *directory);

#endif
