/*
 * A waiter needs two things beside a free slot: a channel of the lock connection, and a consumer in the wait
 * queue. This module owns both (channels_*, wait_queue_*). The daemon leaves a wait queue if no waiter there
 * can have a channel. The module must not know how a slot is claimed.
 */
#ifndef LOCK_CHANNELS_H
#define LOCK_CHANNELS_H

#include "daemon/lock/engine.h"

/*
 * The channels of the lock connection, and the waiters that lack one (invariant 19).
 *
 * A hold takes a channel from its claim until its B is known to be gone, with a holder or without.
 * The hold is charged to the share of its user (objects.h). One user leaves `channels_reserve`
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

/*
 * This daemon's consumers in the wait queues at the broker (broker.h). There is one for each name
 * and priority that has waiters here, so that a thousand waiters cost the broker one consumer. In
 * this file, such a consumer is a *member* of the wait queue.
 *
 * A member stays for a while after its last waiter. A member without waiters leaves before the
 * daemon sends a hint, which could otherwise come back to it. All members leave while the lock
 * connection is down or the engine is frozen, as no claim begins then.
 *
 *	AWAY --- waiters can claim, link up, not frozen ---> ASKED <--- joined, left ---> JOINED
 *
 * Hints of slots that were freed before JOINED went to others. The daemon therefore scans once more
 * after JOINED.
 */

/*
 * The waiter's wait has begun; its member counts it until the wait ends. A second call does
 * nothing.
 */
void wait_queue_add(struct lock_engine *engine, struct waiter *waiter);
/* The waiter's wait ends. A waiter that was not counted is fine. */
void wait_queue_remove(struct lock_engine *engine, struct waiter *waiter);
/* The broker's event of a member. False: the event's priority has no member here. */
bool wait_queue_news(struct lock_engine *engine, struct semaphore *semaphore,
    const struct broker_wait_queue_event *event);
/* The lock connection's state changed, or the engine was frozen or goes on. */
void wait_queue_join_or_leave(struct lock_engine *engine);
/* How many members of this daemon have joined, by the broker's last events. */
int wait_queue_count(const struct semaphore *semaphore);
/* All members join again after wait_queue_out(). Without it, does nothing. */
void wait_queue_back(struct lock_engine *engine, struct semaphore *semaphore);
/* Whether a member has joined or asked to join, so that hints may come. */
bool wait_queue_has_place(const struct semaphore *semaphore);
/* Members without waiters leave. */
void wait_queue_shrink(struct lock_engine *engine, struct semaphore *semaphore);
/* All members leave. The name must have no waiters. */
void wait_queue_end(struct lock_engine *engine, struct semaphore *semaphore);

#endif
