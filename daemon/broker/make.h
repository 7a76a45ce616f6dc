/*
 * Makes, deletes and looks into the Bs of slots by quorum. A job that makes one declares the queue, and
 * publishes a set of beads unless there is one (docs/QUORUM.md, rules 1 and 2). A repair is the same, where
 * the messages are damaged (beads_look.h). Each job has a channel of its own on the auxiliary connection,
 * which carries no hold.
 *
 *	us:      declare        qos consume, mark                  1 3 2            reject 3          close
 *	broker:         ok             mark: nobody else is active       1 3 2             3 (clean)
 *
 * A consumer is not active when it hears consume-ok. So a message of its own, the mark, tells: if it is
 * delivered, and was never returned, nobody else was active since it was published. Beads that were not
 * delivered before it were not there. A look ends there: it closes its channel, and all messages return in
 * their order.
 *
 * A slot is removed under a claim. If it is held, the removal (quorum_queue.h) stays in its queue.
 */
#ifndef BROKER_MAKE_H
#define BROKER_MAKE_H

#include <stdbool.h>

#include "daemon/broker/broker.h"

struct amqp_makers;

struct amqp_makers *amqp_makers_new(struct broker *broker); /* broker: borrowed */
void amqp_makers_free(struct amqp_makers *makers);          /* before its channels */
bool amqp_makers_in_use(const struct amqp_makers *makers);
/* After amqp_channels_attach(): begins the waiting jobs. */
void amqp_makers_go(struct amqp_makers *makers);
/* After amqp_channels_fail(): answers all jobs UNKNOWN. */
void amqp_makers_fail(struct amqp_makers *makers);

#endif
