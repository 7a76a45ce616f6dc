/*
 * The queues in which daemons leave messages: the mailbox, for each other, and the directory, for the names that
 * exist. It owns the raw channels of both, on the auxiliary connection. It knows neither locks nor what the
 * messages say.
 */
#ifndef BROKER_PUBLISH_H
#define BROKER_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/backoff.h"

struct amqp_directory;
struct amqp_mailbox;
struct broker;

/* A list that owns its texts: names of a directory, bodies of messages. A zeroed list is empty. */
struct name_list {
	char **all; /* the array and each text are owned */
	size_t count, room;
};

void name_list_add(struct name_list *list, const char *name);
void name_list_done(struct name_list *list); /* the list is empty after this */

/*
 * Daemon messages: queries and replies, on one raw channel of the auxiliary connection with an
 * inbox. It owns the channel, the waiting queries, and the addresses of the newest senders. It does
 * not know what the messages say.
 *
 *	us:      declare ask, inbox   bind   qos   consume      publish 7 to ask          ack
 *	broker:  ok ...                         consume-ok             deliver "7" (default exchange)
 *
 * The inbox has a new name on each link. If the broker had not noticed the death of the old link,
 * that link would get a part of the messages. A daemon's own query also arrives in its inbox, and
 * is ignored. A message is acknowledged when it is read. If a daemon is stopped, its queue drops
 * the oldest messages (x-max-length), and the broker's memory does not grow.
 *
 *	CLOSED ---- wanted ----> WAITING ---- link, and its time ----> OPENING ----> OPEN
 *	   ^                      ^    |                                  |            |
 *	   |                      +----)---- lost, refused, the link went +------------+
 *	   +---- not wanted any more --+----------------------------------+------------+
 */

/* So many of the newest queries can be answered. */
#define MAILBOX_SENDERS_MAX 256
/* The beginning of each inbox's name. */
#define MAILBOX_INBOX "lockbroker=inbox="
#define MAILBOX_NAME_MAX 64

struct amqp_mailbox *amqp_mailbox_new(struct broker *broker); /* broker: borrowed */
void amqp_mailbox_free(struct amqp_mailbox *mailbox);         /* before its channels */

/* Makes a name: the prefix, and 32 random hexadecimal digits. replays: the seed decides them. */
void amqp_mailbox_name(
    char ret[MAILBOX_NAME_MAX], const char *prefix, struct jitter *jitter, bool replays);

/* Whether the inbox is open, or to be opened. */
bool amqp_mailbox_any(const struct amqp_mailbox *mailbox);
/* An alarm begins: queries wait, and replies are dropped. Or it ends, and waiting queries are sent. */
void amqp_mailbox_send_waiting(struct amqp_mailbox *mailbox);

/* After amqp_channels_attach(). user: the login of the link (borrowed); NULL: not known. */
void amqp_mailbox_go(struct amqp_mailbox *mailbox, const char *user);
/* After amqp_channels_fail(). An inbox that is wanted opens again with the next link. */
void amqp_mailbox_fail(struct amqp_mailbox *mailbox);

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

struct amqp_directory *amqp_directory_new(struct broker *broker);   /* broker: borrowed */
void amqp_directory_free(struct amqp_directory *directory);         /* before its channels */
bool amqp_directory_in_use(const struct amqp_directory *directory); /* a request is unanswered */

/* After amqp_channels_attach(): sends the waiting requests. */
void amqp_directory_go(struct amqp_directory *directory);
/* After amqp_channels_fail(): answers all requests BROKER_UNKNOWN. */
void amqp_directory_fail(struct amqp_directory *directory);

#endif
