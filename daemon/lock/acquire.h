/*
 * The life of an acquire (seeds/000, "Acquiring a Lock"), from the request to its one answer
 * (invariant 3): it joins the line of its name, in which serve.h finds out what it may claim, and by
 * which it is claimed here, in one flight (claim.h):
 *
 *	the slot is ours	-> granted
 *	somebody was faster	-> rest a random moment, back to the line; at most max_races times
 *	there is no such slot	-> the same
 *
 * Where there are no slots to wait for it is granted without one.
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include "daemon/lock/engine.h"

void acquire_start(struct lock_engine *engine, uint64_t peer, uint64_t request,
    const struct lock_acquire *acquire);
/*
 * Claims a slot that is not reserved for the waiter, or answers it when its peer has no room for that. A
 * channel must be left, and the waiter's user must be able to take one; if none can be had all the same,
 * nothing is done.
 */
void acquire_claim(struct lock_engine *engine, struct waiter *waiter, int slot);
/* The same, of the slot that is next where probes cannot be had (serve.h). */
void acquire_claim_unseen(struct lock_engine *engine, struct waiter *waiter, int slot);
/*
 * The first of those in the line whose user may take another channel, or gives one up for it (`giver`);
 * NULL: nobody.
 */
struct waiter *acquire_who_wants(
    const struct semaphore *semaphore, int slot, const struct share *giver);
/*
 * The hold, which is nobody's now, becomes the waiter's. False: its peer has no room for it, and the waiter
 * is gone.
 */
bool acquire_take_over(struct lock_engine *engine, struct waiter *waiter, struct hold *hold);
/* Leaves what is free to those who were told of it: the waiter, which was looked for, rests a moment. */
void acquire_yield(struct lock_engine *engine, struct waiter *waiter);
/* A waiter that rests, and all of the name's: they are back in the line. Others are left alone. */
void acquire_rest_ends(struct lock_engine *engine, struct waiter *waiter);
void acquire_rests_end(struct lock_engine *engine, struct semaphore *semaphore);
/*
 * Grants the lock without a slot, whatever the waiter's state; nothing on the broker stands for it.
 * `granted`: by an administrator, who has seen that its peer has room for it.
 */
void acquire_grant_slotless(struct lock_engine *engine, struct waiter *waiter, bool granted);
/* There is no such lock: has it made as the waiter asked for (its `create` is not 0). */
void acquire_create(struct lock_engine *engine, struct waiter *waiter);
/* Answers the waiter, which is gone then; text: NULL = the reason's own. */
void acquire_refuse(
    struct lock_engine *engine, struct waiter *waiter, enum reason reason, const char *text);
/* Ends every acquire that waits, with the same answer. */
void acquire_end_all(struct lock_engine *engine, const struct lock_answer *answer);
/* The hold link's state changed: those who cannot go on are answered, the others wait or go on. */
void acquire_link_changed(struct lock_engine *engine, const char *why);
/*
 * A create or a change of `name` is over: those who stand behind it (`behind` is its number) go on, or,
 * when it was theirs (admin_create_missing()) and failed for good, are refused. Everybody else in the
 * line is looked for. text: NULL = the reason's own.
 */
void acquire_admin_done(struct lock_engine *engine, const char *name, uint64_t admin,
    enum reason reason, const char *text);

#endif
