/*
 * From a free slot to an answer: the claim of a slot for a waiter (claim_*), and its grant (grant_*). The
 * module must not know how the slot was found.
 */
#ifndef LOCK_CLAIM_H
#define LOCK_CLAIM_H

#include "daemon/lock/engine.h"

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
 *	the slot is claimed	-> granted
 *	the race is lost	-> a random rest, then waits again; at most max_races times
 *	there is no such slot	-> the same
 *	the node is down	-> the same: the slot may be held
 *	it is held another way	-> claims again, the other way
 *	no answer in time	-> waits again; the slot stays reserved until an answer comes
 *
 * If the race is lost, a waiter with a consumer in the wait queue does not rest: it waits for a
 * hint. If the waiter is gone when the answer comes, a claimed B is dropped (invariant 3).
 */

/*
 * Claims for the waiter a slot that no hold reserves. If the peer may have no more holds, the
 * waiter is refused. A channel must be free, and the waiter's share must have room. If the broker
 * layer gives no channel nevertheless, the call does nothing. engine.h decides when the claim is
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

/*
 * Grants a waiter its lock. The slot was claimed for it, or a holder of this daemon hands
 * it off (release.h), or the hold takes no slot. No other file grants an acquire.
 */

/* The refusal of a peer that may have no more holds. */
extern const char grant_peer_is_full[];
/*
 * Whether the peer may have one more hold, and its user the mutex if it is held that way. A peer can
 * queue many acquires, so the limits are checked at each claim and grant. False: the waiter is refused
 * and freed.
 */
bool grant_has_room(struct lock_engine *engine, struct waiter *waiter, enum broker_way way);
/*
 * Hands the hold, which has no peer now, to the waiter. False: the waiter's peer may have no more
 * holds; the waiter is refused and freed.
 */
bool grant_passed(struct lock_engine *engine, struct waiter *waiter, struct hold *hold);
/*
 * Grants a hold without a slot, in any state of the waiter. If its peer may have no more holds, the
 * waiter is refused. `admitted`: an administrator grants it, and the caller has checked that limit.
 */
void grant_slotless(struct lock_engine *engine, struct waiter *waiter, bool admitted);

#endif
