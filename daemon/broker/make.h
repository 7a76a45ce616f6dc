/*
 * The quorum queues that this daemon declares, and the jobs that make, delete and look into the Bs of slots. It
 * owns these jobs and their channels. It knows no claims and no holds.
 */
#ifndef BROKER_MAKE_H
#define BROKER_MAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/broker.h"
#include "daemon/broker/channel.h"

struct amqp_makers;
struct broker;

/*
 * A job that makes a B declares the queue, and publishes a set of beads unless there is one (docs/QUORUM.md,
 * rules 1 and 2). A repair is the same, where the messages are damaged (beads_look()). Each job has a channel
 * of its own on the auxiliary connection, which carries no hold.
 *
 *	us:      declare        qos consume, mark                  1 3 2            reject 3          close
 *	broker:         ok             mark: nobody else is active       1 3 2             3 (clean)
 *
 * A consumer is not active when it hears consume-ok. So a message of its own, the mark, tells: if it is
 * delivered, and was never returned, nobody else was active since it was published. Beads that were not
 * delivered before it were not there. A look ends there: it acknowledges all marks, also those of
 * other jobs, and closes its channel. The other messages return in their order.
 *
 * If the queue shows neither a message nor a consumer, a job first publishes another mark, and waits for its
 * confirm.
 *
 * A slot is removed under a claim. If it is held, the removal (AMQP_REMOVAL_TEXT) stays in its queue.
 */

struct amqp_makers *amqp_makers_new(struct broker *broker); /* broker: borrowed */
void amqp_makers_free(struct amqp_makers *makers);          /* before its channels */
bool amqp_makers_in_use(const struct amqp_makers *makers);
/* After amqp_channels_attach(): begins the waiting jobs. */
void amqp_makers_go(struct amqp_makers *makers);
/* After amqp_channels_fail(): answers all jobs UNKNOWN. */
void amqp_makers_fail(struct amqp_makers *makers);

/*
 * A quorum queue with a single active consumer, for a slot or for the records (records.h). Here are its
 * arguments, a channel's consumer, and its messages, among them removals and marks. A mark is a message with
 * a random number. Its publisher knows that the queue took it, or that older messages were delivered before
 * it. These functions keep no state.
 */

/*
 * The rest after the declare. A node that is killed within a second of it loses the first messages,
 * although they were confirmed (RabbitMQ 4.0.5 and 4.3.6).
 */
#define AMQP_QUORUM_QUEUE_REST (2 * NSEC_PER_SEC)

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
