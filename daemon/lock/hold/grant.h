/*
 * A waiter gets what it waits for: the slot that was claimed for it (claim.h), one that somebody here hands on
 * (release.h), or the lock without a slot. The one place where an acquire is answered with yes.
 */
#ifndef LOCK_GRANT_H
#define LOCK_GRANT_H

#include "daemon/lock/core/engine.h"

/* The words of the refusal where a peer holds as many as it may. */
extern const char grant_peer_is_full[];
/* Asked for one by one, it was below its limit each time. False: it is not, and the waiter is gone. */
bool grant_has_room(struct lock_engine *engine, struct waiter *waiter);
/* B is ours and A was seen after it. Not after the lease: then the link ends, and the waiter goes on. */
void grant_claimed(struct lock_engine *engine, struct waiter *waiter, struct hold *hold);
/*
 * The hold, which is nobody's now, becomes the waiter's. False: its peer has no room for it, and the waiter
 * is gone.
 */
bool grant_passed(struct lock_engine *engine, struct waiter *waiter, struct hold *hold);
/*
 * Grants the lock without a slot, whatever the waiter's state; nothing on the broker stands for it.
 * `admitted`: by an administrator, who has seen that its peer has room for it.
 */
void grant_slotless(struct lock_engine *engine, struct waiter *waiter, bool admitted);

#endif
