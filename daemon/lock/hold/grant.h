/*
 * Grants a waiter its lock. The slot was claimed for it (claim.h), or a holder of this daemon hands
 * it off (release.h), or the hold takes no slot. No other file grants an acquire.
 */
#ifndef LOCK_GRANT_H
#define LOCK_GRANT_H

#include "daemon/lock/core/engine.h"

/* The refusal of a peer that may have no more holds. */
extern const char grant_peer_is_full[];
/*
 * Whether the peer may have one more hold, and its user the mutex if it is held that way. A peer can
 * queue many acquires, so the limits are checked at each claim and grant. False: the waiter is refused
 * and freed.
 */
bool grant_has_room(struct lock_engine *engine, struct waiter *waiter, enum broker_way way);
/*
 * Grants the claimed slot: this daemon has B, and A was seen after it. If the lease of the
 * connection is over, the lock connection is closed instead, and the waiter waits on. False: only
 * the lease of the hold is over, because the answers came late. The caller drops it.
 */
bool grant_claimed(struct lock_engine *engine, struct waiter *waiter, struct hold *hold);
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
