/*
 * A claim: this daemon takes a slot for a waiter, in one flight on one channel of the lock
 * connection:
 *
 *	-> declare B[slot], exclusive		<- declare-ok, or 405: lost the race
 *	-> declare A[slot], passive		<- declare-ok, or 404: no such slot
 *
 * By consumer:
 *
 *	-> consume B[slot], exclusive		<- consume-ok, or 403: lost the race
 *	-> declare A[slot], passive		<- declare-ok, or 404: no such slot
 *
 * Both requests go out together, and their answers come in order. An A that is seen therefore
 * existed after this daemon got B (invariant 2). Of a true mutex there is only the first queue. The
 * slot decides how it is held (invariant 21). The results for the waiter:
 *
 *	the slot is claimed	-> granted (grant.h)
 *	the race is lost	-> a random rest, then waits again; at most max_races times
 *	there is no such slot	-> the same
 *	the node is down	-> the same: the slot may be held
 *	it is held another way	-> claims again, the other way
 *	no answer in time	-> waits again; the slot stays reserved until an answer comes
 *
 * If the race is lost, a waiter with a consumer in the wait queue does not rest: it waits for a
 * hint. If the waiter is gone when the answer comes, a claimed B is dropped (invariant 3).
 */
#ifndef LOCK_CLAIM_H
#define LOCK_CLAIM_H

#include "daemon/lock/core/engine.h"

/*
 * Claims for the waiter a slot that no hold reserves. If the peer may have no more holds, the
 * waiter is refused. A channel must be free, and the waiter's share must have room. If the broker
 * layer gives no channel nevertheless, the call does nothing. flight.h decides when the claim is
 * sent.
 */
void claim_start(struct lock_engine *engine, struct waiter *waiter, int slot);

/* The broker ended the consumer of a claim whose A is being checked: the race is lost. */
void claim_cancelled(struct lock_engine *engine, struct hold *hold);
/*
 * By quorum: the last hold of the slot did not end cleanly, and the claim will be answered after `until`
 * (clock time). Its waiter goes on. The slot is reserved until then, and free after it. False: there are too
 * many graces, and the claim ends.
 */
bool claim_unclean(struct lock_engine *engine, struct hold *hold, int64_t until);
/*
 * The hold is CLAIMING, with a channel: a claim in its grace goes on that an earlier program has begun. False: it
 * is not there.
 */
bool claim_resume(struct lock_engine *engine, struct hold *hold);

#endif
