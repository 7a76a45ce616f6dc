/*
 * Tests whether the broker keeps exclusive queues to one connection. The whole scheme stands on
 * that. A proxy that shares connections breaks it. The channels of two daemons are then one
 * connection of the broker, and both get the same holder queue. AMQProxy pools connections
 * (https://github.com/cloudamqp/amqproxy).
 *
 * The lock connection declares an exclusive queue. A passive declare on the auxiliary connection must
 * then be refused with 405. Nobody is told that the lock connection is up before the verdict. The
 * auxiliary connection is made anew for it, and publishes nothing before: RabbitMQ does not read a
 * connection that publishes during an alarm. One verdict counts for the life of the lock connection. It owns the
 * test, and knows no locks.
 */
#ifndef BROKER_EXCLUSION_H
#define BROKER_EXCLUSION_H

#include <stdbool.h>

#include "daemon/base/backoff.h"
#include "daemon/broker/channel.h"

enum amqp_exclusion_verdict {
	AMQP_EXCLUSION_KEPT,   /* 405 */
	AMQP_EXCLUSION_BROKEN, /* the auxiliary connection has the queue, too, or cannot see it */
	AMQP_EXCLUSION_NOT_TESTED /* not yet, or not allowed: another verdict may follow */
};

struct amqp_exclusion_config {
	struct timers *timers;                   /* borrowed, as all pointers here */
	struct amqp_channels *locks, *auxiliary; /* the two connections */
	struct jitter *jitter;
	bool replays;    /* the seed decides the queue's name, too */
	int64_t timeout; /* ns; of the test */
	/* why: the reason, for people; "" if it is kept. */
	void (*verdict)(void *ctx, enum amqp_exclusion_verdict verdict, const char *why);
	void *ctx;
};

struct amqp_exclusion;

struct amqp_exclusion *amqp_exclusion_new(const struct amqp_exclusion_config *config);
void amqp_exclusion_free(struct amqp_exclusion *exclusion); /* before its channels; NULL is fine */

/* The lock connection is up: a verdict comes within the timeout. The test waits for the other one. */
void amqp_exclusion_begin(struct amqp_exclusion *exclusion);
/* The auxiliary connection is up. Returns whether the test goes on, and its verdict will come. */
bool amqp_exclusion_go(struct amqp_exclusion *exclusion);
/* The auxiliary connection ended, or does not come up. The verdict is NOT_TESTED if it is missing. */
void amqp_exclusion_fail(struct amqp_exclusion *exclusion, const char *why);
/* The lock connection ended. No verdict comes. */
void amqp_exclusion_stop(struct amqp_exclusion *exclusion);
/* Whether a channel of the lock connection is in use for the test. */
bool amqp_exclusion_is_running(const struct amqp_exclusion *exclusion);

#endif
