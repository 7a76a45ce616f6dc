/*
 * The channels of the lock connection. A hold takes one from its claim until its B is known to be gone,
 * whoever has it by then. The hold is charged to the share of its user (share.h), so that one user
 * leaves `channels_reserve` of them to the others; what is claimed for an exempt peer is charged to
 * nobody. A hold that is handed on is charged to the new holder's share.
 *
 * A waiter that lacks a channel stays in its queue as it is, and is passed over when a slot is free. Its
 * name starves: it stands in the queue of its user's share, or in the queue for any channel. When a
 * channel becomes free, the first name of each of both queues is woken: it is looked at, and served. The
 * next name is woken after that, if the channel is still there. A name that got one and lacks another goes
 * behind the others. So a channel that becomes free costs the same,
 * however many waiters there are.
 */
#ifndef LOCK_CHANNELS_H
#define LOCK_CHANNELS_H

#include "daemon/lock/core/engine.h"

void channels_init(struct lock_engine *engine);
void channels_done(struct lock_engine *engine);
/* The settings changed; the lock connection's state changed, after which all names are looked at anyway. */
void channels_settings_changed(struct lock_engine *engine);
void channels_link_changed(struct lock_engine *engine);

/* The share of a waiter, made when there is none; and the end of that waiter. */
struct share *channels_share(struct lock_engine *engine, uid_t uid);
void channels_waiter_gone(struct lock_engine *engine, struct share *share);
/* The one place that counts: the hold is charged to that share, and to no other. NULL: to nobody. */
void channels_charge(struct lock_engine *engine, struct hold *hold, struct share *share);
/* A hold has ended, and its channel was given back. */
void channels_hold_ended(struct lock_engine *engine);

/* Whether a channel is free, for anybody. */
bool channels_are_left(const struct lock_engine *engine);
/* There should be one, and the broker's side of the seam gave none: it is asked again in a moment. */
void channels_not_given(struct lock_engine *engine);
/* Why none can be charged to the share, in words; NULL: one can. */
const char *channels_lacking(
    const struct lock_engine *engine, const struct share *share, char text[LOCK_LACKING_MAX]);

/*
 * A slot is free, and those in one of `states` who lack a channel could have it: their name starves. If
 * nobody in the queue can have a channel, the daemon leaves the broker's wait queue: hints go elsewhere.
 */
void channels_starve(struct lock_engine *engine, struct semaphore *semaphore, unsigned states);
/* Whether somebody in the queue can have a channel. */
bool channels_can_serve(const struct lock_engine *engine, const struct semaphore *semaphore);
/* Whether it is one of those; what it lacks may have come meanwhile. */
bool channels_is_starving(const struct waiter *waiter);
/* A channel was taken for it: its name, if woken, goes behind the others should it lack another. */
void channels_claimed(struct waiter *waiter);
/* The name was served: if that was because it had starved, the next name is woken. */
void channels_served(struct lock_engine *engine, struct semaphore *semaphore);
/* The name is forgotten. */
void channels_forget(struct lock_engine *engine, struct semaphore *semaphore);

#endif
