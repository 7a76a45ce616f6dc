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
#ifndef BROKER_MAILBOX_H
#define BROKER_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/backoff.h"

/* So many of the newest queries can be answered. */
#define MAILBOX_SENDERS_MAX 256
/* The beginning of each inbox's name. */
#define MAILBOX_INBOX "lockbroker=inbox="
#define MAILBOX_NAME_MAX 64

struct amqp_mailbox;
struct broker;

struct amqp_mailbox *amqp_mailbox_new(struct broker *broker); /* broker: borrowed */
void amqp_mailbox_free(struct amqp_mailbox *mailbox);         /* before its channels */

/* Makes a name: the prefix, and 32 random hexadecimal digits. replays: the seed decides them. */
void amqp_mailbox_name(
    char ret[MAILBOX_NAME_MAX], const char *prefix, struct jitter *jitter, bool replays);

/* Whether the inbox is open, or to be opened. */
bool amqp_mailbox_any(const struct amqp_mailbox *mailbox);
/* An alarm begins: queries wait, and replies are dropped. Or it ends, and waiting queries are sent. */
void amqp_mailbox_go_on(struct amqp_mailbox *mailbox);

/* After amqp_channels_attach(). user: the login of the link (borrowed); NULL: not known. */
void amqp_mailbox_go(struct amqp_mailbox *mailbox, const char *user);
/* After amqp_channels_fail(). An inbox that is wanted opens again with the next link. */
void amqp_mailbox_fail(struct amqp_mailbox *mailbox);

#endif
