/*
 * Words about holder queues (B) for administrators.
 */
#ifndef LOCK_HOLDER_QUEUE_H
#define LOCK_HOLDER_QUEUE_H

#include <stddef.h>

#include "daemon/broker/broker.h"

/* Why the B of that slot stays, after a reply to broker_delete_holder() that is a failure. */
void holder_queue_stays(char *ret_text, size_t size, int slot, const struct broker_reply *reply);

#endif
