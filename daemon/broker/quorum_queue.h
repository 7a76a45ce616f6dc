/*
 * A quorum queue with a single active consumer, for a slot (make.h) or for the records (records.h). The
 * module has its arguments, a channel's consumer, and its messages, among them removals and marks. A mark is
 * a message with a random number: its publisher knows that older messages were delivered before it. The
 * module has no state, and knows neither beads nor records.
 */
#ifndef BROKER_QUORUM_QUEUE_H
#define BROKER_QUORUM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/raw_channel.h"

/*
 * The rest after the declare. A node that is killed within a second of it loses the first messages,
 * although they were confirmed (RabbitMQ 4.0.5 and 4.3.6).
 */
#define AMQP_QUORUM_QUEUE_REST (2 * NSEC_PER_SEC)

struct broker;

struct amqp_quorum_queue {
	bool single; /* with a single active consumer, as all are */
	/*
	 * From 4.3 on, the consumer of a killed node is replaced after a second, and not after a minute. A queue
	 * that 4.0 to 4.2 made has another argument then, and the declare is refused.
	 */
	bool quick;
	int64_t expires; /* ns after its last use at which the server deletes it; 0: never */
};
/* queue.declare, durable. The channel is open, and the server's version decides about further arguments. */
void amqp_quorum_queue_declare(
    const struct amqp_raw_channel *channel, const char *queue, struct amqp_quorum_queue wanted);
/* basic.qos and basic.consume, with acknowledgements. kind: the first character of its tag. */
void amqp_quorum_queue_attach(
    const struct amqp_raw_channel *channel, const char *queue, char kind, uint16_t prefetch);
/* A persistent message. */
void amqp_quorum_queue_publish(
    const struct amqp_raw_channel *channel, const char *queue, const char *text);

/*
 * The text of a message in the B of a slot that is to be removed. A holder that gets it knows that. A
 * claimant that gets it before a grant does not claim the slot. It stays until the slot is deleted, or made again.
 */
#define AMQP_REMOVAL_TEXT "removed"

/* A random number, or one that the broker's seed decides (settings.replays). */
uint64_t amqp_quorum_queue_random(struct broker *broker);
/* Bytes of the text of a mark, with a NUL. */
#define AMQP_MARK_TEXT 22
/* Returns text. */
char *amqp_mark_print(char text[AMQP_MARK_TEXT], uint64_t number);
/* Whether a text is a mark, of any publisher. */
bool amqp_is_mark(const char *text);

#endif
