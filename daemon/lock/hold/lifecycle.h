/*
 * A hold from its grant to its end: B checked again, claimed again when it was gone, revoked, lost,
 * dropped; and its channel, which may die under it and is replaced while the hold goes on. Closing a
 * channel frees nothing (invariant 6): only a delete does, and only its delete-ok says so.
 */
#ifndef LOCK_LIFECYCLE_H
#define LOCK_LIFECYCLE_H

#include "daemon/lock/core/engine.h"

/* The hold was granted just now: from here on it is looked after. */
void lifecycle_start(struct lock_engine *engine, struct hold *hold);
/* It was passed on to somebody else after a while in which it was nobody's. */
void lifecycle_resume(struct lock_engine *engine, struct hold *hold);
/* It was passed on, and the release under its old number, if any (0), is answered. */
void lifecycle_passed(
    struct lock_engine *engine, struct hold *hold, uint64_t releasing, uint64_t lock);
/* The hold's channel, replaced when it died; 0: none is left now. */
uint64_t lifecycle_channel(struct lock_engine *engine, struct hold *hold);
/* What a look at B found, whoever looked; hold: NULL when it is gone by now. */
void lifecycle_b_answered(
    struct lock_engine *engine, struct hold *hold, const struct broker_reply *reply);
/* A was answered 404: the mark, and the notice to the peer, once (invariant 5). */
void lifecycle_revoke(struct lock_engine *engine, struct hold *hold);
/*
 * Gives B back: sends its delete, again when the channel dies before it was answered. What takes no slot
 * ends at once.
 */
void lifecycle_drop(struct lock_engine *engine, struct hold *hold);
/* The same as lifecycle_drop(), for another reason than that nobody here has it any more. */
void lifecycle_drop_for(struct lock_engine *engine, struct hold *hold, enum hold_drop why);
/* The channel died (after the answers to all that was asked on it): what was owed is sent on a new one. */
void lifecycle_channel_closed(struct lock_engine *engine, uint64_t channel);
/*
 * All holds on the link are lost, and end. held_only: the link lives and is about to be reset; only what a
 * peer holds is lost now, the rest ends with the link's own event.
 */
void lifecycle_all_lost(struct lock_engine *engine, const char *why, bool held_only);
/* The lock connection died and every B with it. */
void lifecycle_link_died(struct lock_engine *engine, const char *why);

#endif
