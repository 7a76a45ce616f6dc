/*
 * A holder queue (B) that an administrator could not delete, in words.
 */
#ifndef LOCK_HOLDER_QUEUE_H
#define LOCK_HOLDER_QUEUE_H

#include "daemon/broker/broker.h"
#include "protocol/reason.h"

/* The first one of a change. Zeroed: none. */
struct holder_stays {
	int slot;
	enum reason reason;
	char text[160];
};

/*
 * The B of that slot stays. reply: of broker_delete_holder(), a failure; NULL: no answer came. Has
 * no effect if there is one already.
 */
void holder_queue_stays(struct holder_stays *stays, int slot, const struct broker_reply *reply);

#endif
