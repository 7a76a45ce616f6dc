/*
 * Verifying a hold. seeds/000 checks A alone. This daemon checks its B too, because a B can vanish
 * (broker.h, deletes_by_name), and a missing B is a lost lock:
 *
 *	-> declare B[slot], passive	<- ours; 404: claim it again, ask again; 405: lost
 *	-> declare A[slot], passive	<- held; 404: revoked
 *
 * The first goes out on the channel of the hold, the second as slot_check.h says, both in one
 * flush. By consumer a 404 of B, and no consumer, is a lost lock.
 *
 * A hold without a slot is held as long as the engine has it: no request is sent.
 *
 * A hold has at most one such flight at the broker, and at most one more that follows. The second
 * answers all requests that came during the first. The load of the lock connection does not grow
 * with the number of requests.
 */
#ifndef LOCK_VERIFY_H
#define LOCK_VERIFY_H

#include "daemon/lock/core/engine.h"

/* The hold is released now: requests that came before that are still sent. */
void verify_send(struct lock_engine *engine, struct hold *hold);
/* The channel died, after the answers to its requests: unfinished verifies go out again. */
void verify_channel_closed(struct lock_engine *engine, uint64_t channel);
/* Frees all verifies at the engine's end. */
void verify_free_all(struct lock_engine *engine);

#endif
