/*
 * A hold from its grant to its end: B is checked. The hold is revoked, lost or dropped.
 *
 * By queue: a B that is gone is claimed again. The channel may die, and is replaced while the hold
 * continues. Closing a channel frees no slot (invariant 6): only a delete does, and delete-ok
 * proves it.
 *
 * By consumer: a B that is gone, a consumer that the broker ended, and a dead channel are a lost
 * hold. Another may have the slot since. Closing a channel frees the slot, so A is never checked on
 * the channel of a granted hold (slot_check.h).
 */
#ifndef LOCK_LIFECYCLE_H
#define LOCK_LIFECYCLE_H

#include "daemon/lock/core/engine.h"

/* The hold was granted just now: starts its checks. */
void lifecycle_start(struct lock_engine *engine, struct hold *hold);
/* The hold was handed off after a time without a peer: its checks go on. */
void lifecycle_resume(struct lock_engine *engine, struct hold *hold);
/* The hold was handed off: answers its release (0: none) under the old number `lock`. */
void lifecycle_passed(
    struct lock_engine *engine, struct hold *hold, uint64_t releasing, uint64_t lock);
/* The hold's channel, replaced if it died (by queue); 0: none is free now. */
uint64_t lifecycle_channel(struct lock_engine *engine, struct hold *hold);
/* The reply to any check of B; hold: NULL if it is gone by now. */
void lifecycle_b_answered(
    struct lock_engine *engine, struct hold *hold, const struct broker_reply *reply);
/* A was answered 404: marks the hold revoked and tells the client, once (invariant 5). */
void lifecycle_revoke(struct lock_engine *engine, struct hold *hold);
/*
 * Gives B back. By queue: sends its delete, and again if the channel dies before the answer. By
 * consumer: cancels the consumer, or its channel is dead. A hold without a slot ends at once.
 */
void lifecycle_drop(struct lock_engine *engine, struct hold *hold);
/* As lifecycle_drop(), with a reason (hold.h); only for a hold with a slot. */
void lifecycle_drop_for(struct lock_engine *engine, struct hold *hold, enum hold_drop why);
/* The broker ended the consumer of a hold that is not CHECKING: see broker.h. */
void lifecycle_cancelled(struct lock_engine *engine, struct hold *hold);
/*
 * By consumer: the hold is lost now, and its consumer is dropped if it still exists. The slot stays
 * reserved until then.
 */
void lifecycle_lose(struct lock_engine *engine, struct hold *hold, const char *why);
/* The daemon stops: the hold is lost now, and its slot is dropped. */
void lifecycle_abandon(struct lock_engine *engine, struct hold *hold);
/*
 * The channel died, after the answers to its requests: unperformed requests go out on a new one. why: of
 * a hold by quorum.
 */
void lifecycle_channel_closed(struct lock_engine *engine, uint64_t channel, const char *why);
/*
 * All holds with a slot are lost and end. held_only: the lock connection is up and is reset next.
 * Then only holds with a peer are lost now, and the event of the connection's end ends the others.
 */
void lifecycle_all_lost(struct lock_engine *engine, const char *why, bool held_only);
/* The lock connection died, and every B with it. */
void lifecycle_link_died(struct lock_engine *engine, const char *why);

#endif
