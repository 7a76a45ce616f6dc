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
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/backoff.h"
#include "daemon/broker/channel.h"

struct amqp_watches;

struct amqp_watches_config {
	struct timers *timers;          /* borrowed, as all pointers here */
	struct amqp_channels *channels; /* of the auxiliary connection */
	struct jitter *jitter;
	int64_t ack_after; /* ns until a delivery is acknowledged; 0: 20 s */
	/* See watch in broker.h. The operations below may be called from inside. */
	void (*news)(void *ctx, const char *queue, enum broker_news news);
	void *ctx;
};

struct amqp_watches *amqp_watches_new(const struct amqp_watches_config *config);
void amqp_watches_free(struct amqp_watches *watches); /* before its channels; NULL is fine */
/* Nothing is sent, and no callback is called, after this. */
void amqp_watches_silence(struct amqp_watches *watches);

/* As in broker.h. */
void amqp_watches_add(struct amqp_watches *watches, const char *queue);
void amqp_watches_remove(struct amqp_watches *watches, const char *queue);
bool amqp_watches_any(const struct amqp_watches *watches);
size_t amqp_watches_count(const struct amqp_watches *watches);

/* After amqp_channels_attach(): places the waiting watches. */
void amqp_watches_go(struct amqp_watches *watches);
/* After amqp_channels_fail(). code: of connection.close, 0 = there was none. */
void amqp_watches_fail(struct amqp_watches *watches, int code);

#endif
