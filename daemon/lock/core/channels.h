/*
 * The channels of the lock connection, and the waiters that lack one (invariant 19).
 *
 * A hold takes a channel from its claim until its B is known to be gone, with a holder or without.
 * The hold is charged to the share of its user (share.h). One user leaves `channels_reserve`
 * channels to the others. A claim for an exempt client is charged to no share. After a hand-off the
 * hold is charged to the new holder's share.
 *
 * A waiter that lacks a channel keeps its place in the local queue, and is passed over when a slot
 * is free. Its name starves: the name joins the queue of its user's share, or the queue for any
 * channel. A channel that becomes free wakes the first name of each of these two queues. The woken
 * name is scanned and served. If the channel is still free, the next name is woken. A name that got
 * a channel and lacks another goes to the end of the queue. The cost of a channel that becomes free
 * therefore does not grow with the number of waiters.
 */
#ifndef LOCK_CHANNELS_H
#define LOCK_CHANNELS_H

#include "daemon/lock/core/engine.h"

void channels_init(struct lock_engine *engine);
void channels_done(struct lock_engine *engine);
void channels_settings_changed(struct lock_engine *engine);
/* The lock connection's state changed. No name starves any more: the caller scans all names. */
void channels_link_changed(struct lock_engine *engine);

/* A new waiter's share, created if there is none. */
struct share *channels_share(struct lock_engine *engine, uid_t uid);
/* The waiter's end; share: NULL is fine. Frees a share that is not used any more. */
void channels_waiter_gone(struct lock_engine *engine, struct share *share);
/*
 * Charges the hold to that share instead of the one before. NULL: to no share. Nothing else counts.
 */
void channels_charge(struct lock_engine *engine, struct hold *hold, struct share *share);
/* Charges a hold of an earlier engine, even above the limit of its user. */
void channels_charge_again(struct lock_engine *engine, struct hold *hold, uid_t uid);
/* A hold has ended, and its channel was given back. */
void channels_hold_ended(struct lock_engine *engine);

/* Whether a channel is free, whatever the shares. */
bool channels_are_left(const struct lock_engine *engine);
/*
 * The broker layer gave no channel, though one should be free. The engine asks again in a moment.
 */
void channels_not_given(struct lock_engine *engine);
/* Why no channel can be charged to the share, in words; NULL: one can. */
const char *channels_lacking(
    const struct lock_engine *engine, const struct share *share, char text[LOCK_LACKING_MAX]);

/*
 * A slot is free, but waiters in one of `states` lack a channel for it: their name starves. If no
 * waiter of the queue can have a channel, the daemon leaves the wait queue, so that hints go to
 * other daemons.
 */
void channels_starve(struct lock_engine *engine, struct semaphore *semaphore, unsigned states);
/* Whether a waiter of the queue can have a channel. */
bool channels_can_serve(const struct lock_engine *engine, const struct semaphore *semaphore);
/* Whether the waiter's name starves. The channel that it lacks may be free by now. */
bool channels_is_starving(const struct waiter *waiter);
/*
 * A channel was taken for the waiter. If its name was woken and starves again, it joins at the end.
 */
void channels_claimed(struct waiter *waiter);
/* The name was served. If it had been woken for that, the next name is woken. */
void channels_served(struct lock_engine *engine, struct semaphore *semaphore);
/* The name no longer waits for any channel. */
void channels_forget(struct lock_engine *engine, struct semaphore *semaphore);

#endif
