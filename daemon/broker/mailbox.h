/*
 * Messages between daemons: one channel of the auxiliary connection's, with an inbox to read and to publish by.
 *
 *	us:      declare ask, inbox   bind   qos   consume      publish 7 to ask          ack
 *	broker:  ok ...                         consume-ok             deliver "7" (default exchange)
 *
 * The inbox has another name on each link: one of a link that the broker does not know to be dead would
 * get part of the messages. What one asks comes to its own inbox, too, and is not heard. Messages are
 * acknowledged when they are read, so that a daemon that is stopped makes the queue drop the oldest
 * (x-max-length) instead of the broker's memory grow.
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
#include "daemon/broker/channel.h"

/* Of the messages that came last, so many can be answered. */
#define MAILBOX_SENDERS_MAX 256
/* What names of inboxes begin with. */
#define MAILBOX_INBOX "lockbroker=inbox="

struct amqp_mailbox;

struct amqp_mailbox_config {
	struct timers *timers;          /* borrowed, as all here */
	struct amqp_channels *channels; /* the auxiliary connection's */
	struct jitter *jitter;
	int64_t idle; /* ns; the inbox of one who asks stays open for so long */
	bool replays; /* the jitter makes the inbox's name, too */
	/* broker.h, asked and replied; any of the operations below may be called from inside. */
	void (*asked)(void *ctx, const struct broker_message *message);
	void (*replied)(void *ctx, const struct broker_message *message);
	void *ctx;
};

struct amqp_mailbox *amqp_mailbox_new(const struct amqp_mailbox_config *config);
void amqp_mailbox_free(struct amqp_mailbox *mailbox); /* before channels; NULL is fine */
/* From now on nobody is told anything, and nothing is sent. */
void amqp_mailbox_silence(struct amqp_mailbox *mailbox);

/* As in broker.h. */
void amqp_mailbox_open(struct amqp_mailbox *mailbox);
void amqp_mailbox_close(struct amqp_mailbox *mailbox);
uint64_t amqp_mailbox_ask(struct amqp_mailbox *mailbox, const char *text, size_t len);
void amqp_mailbox_reply(struct amqp_mailbox *mailbox, uint64_t from, const char *text, size_t len);
/* The inbox is open, or to be opened. */
bool amqp_mailbox_any(const struct amqp_mailbox *mailbox);
void amqp_mailbox_block(struct amqp_mailbox *mailbox, bool blocked);

/* After amqp_channels_attach. user: the name that the link logged in by (borrowed); NULL: not known. */
void amqp_mailbox_go(struct amqp_mailbox *mailbox, const char *user);
/* After amqp_channels_fail. */
void amqp_mailbox_fail(struct amqp_mailbox *mailbox);

#endif
