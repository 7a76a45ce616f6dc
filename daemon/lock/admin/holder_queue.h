/*
 * A holder queue (B) that an administrator could not delete or declare, in words.
 */
#ifndef LOCK_HOLDER_QUEUE_H
#define LOCK_HOLDER_QUEUE_H

#include "daemon/broker/broker.h"
#include "protocol/reason.h"

/* The first one of a change. Zeroed: none. */
struct holder_stays {
	int slot;
	enum reason reason;
	char text[352]; /* ours, and the broker's, which are at most 255 bytes */
};

/*
 * Takes the reply of broker_delete_holder() for the B of that slot; NULL: no answer came. Has no
 * effect if B is gone, or if there is one already. A held B is no failure: its holder deletes it
 * after the release.
 */
void holder_queue_stays(struct holder_stays *stays, int slot, const struct broker_reply *reply);
/* Why a declare failed, in words. slot: that of the B; 0: it was another queue. */
void holder_queue_failed(char *ret_text, size_t size, int slot, const struct broker_reply *reply);

#endif
