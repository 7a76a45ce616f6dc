/*
 * A waiter claims a slot: one flight, on one channel of the lock connection:
 *
 *	-> declare B[slot], exclusive		<- declare-ok, or 405: lost the race
 *	-> declare A[slot], passive		<- declare-ok, or 404: no such slot
 *
 * Both go out together; the answers come in order, so an A that is seen was there after B was ours
 * (invariant 2). A true mutex is the first queue alone. What becomes of the waiter:
 *
 *	the slot is ours	-> granted (grant.h)
 *	somebody was faster	-> rest a random moment, back to the queue; at most max_races times
 *	there is no such slot	-> the same
 *	no answer in time	-> back to the queue; the slot stays reserved, for nobody, until there is one
 *
 * The waiter may be gone by the answer: then the B that turns out to be ours is dropped (invariant 3).
 */
#ifndef LOCK_CLAIM_H
#define LOCK_CLAIM_H

#include "daemon/lock/core/engine.h"

/*
 * Claims a slot that is not reserved for the waiter, or answers it when its peer has no room for that. A
 * channel must be left, and the waiter's user must be able to take one; if none can be had all the same,
 * nothing is done. It is sent in its turn (flight.h).
 */
void claim_start(struct lock_engine *engine, struct waiter *waiter, int slot);

#endif
