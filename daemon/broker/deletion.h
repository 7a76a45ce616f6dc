/*
 * Deletes durable holder queues that no holder has. Each deletion takes a channel of the auxiliary
 * connection.
 *
 *	us:      declare B (passive)                     delete B if-unused
 *	broker:                       ok, 0 consumers                        delete-ok
 *
 * In a partition, the other side would delete a queue that has a consumer. The first answer says
 * that the home node of the queue can be reached.
 */
#ifndef BROKER_DELETION_H
#define BROKER_DELETION_H

#include "daemon/broker/channel.h"

struct amqp_deletions;

/* channels: of the auxiliary connection, borrowed. */
struct amqp_deletions *amqp_deletions_new(struct amqp_channels *channels);
/* After amqp_channels_silence(); NULL is fine. */
void amqp_deletions_free(struct amqp_deletions *deletions);

/* As broker_delete_holder(). */
void amqp_deletions_ask(
    struct amqp_deletions *deletions, const char *queue, struct broker_done done);

#endif
