/*
 * Watches: RabbitMQ sends basic.cancel to the consumers of a queue that is deleted. The consumers
 * have raw channels of the auxiliary connection (consumers.h). They are never on the lock
 * connection, because a consume can cost its link.
 *
 *	WAITING ---- its turn ----> PLACING ---- consume-ok: WATCHED ----> ON
 *	  ^  ^                       |  |                                 |  |
 *	  |  +-- ASIDE <-- refused --+  +-- 404: HINT --> gone <-- cancel +  |
 *	  +------- the channel or the link went: UNWATCHED --- (LOST) ----------+
 *
 * A refusal closes the channel, and its other consumers are placed again. The consumers are
 * therefore spread over several channels.
 */
#ifndef BROKER_WATCH_H
#define BROKER_WATCH_H

#include <stdbool.h>

struct amqp_watches;
struct broker;

struct amqp_watches *amqp_watches_new(struct broker *broker); /* broker: borrowed */
void amqp_watches_free(struct amqp_watches *watches);         /* before its channels */
bool amqp_watches_any(const struct amqp_watches *watches);

/* After amqp_channels_attach(): places the waiting watches. */
void amqp_watches_go(struct amqp_watches *watches);
/* After amqp_channels_fail(). code: of connection.close, 0 = there was none. */
void amqp_watches_fail(struct amqp_watches *watches, int code);

#endif
