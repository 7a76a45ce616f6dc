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
#ifndef LOCK_WAIT_QUEUE_H
#define LOCK_WAIT_QUEUE_H

#include "daemon/lock/core/engine.h"

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
/* All members leave, as no waiter here can have a channel: hints go to other daemons. */
void wait_queue_out(struct lock_engine *engine, struct semaphore *semaphore);
/* All members join again after wait_queue_out(). Without it, does nothing. */
void wait_queue_back(struct lock_engine *engine, struct semaphore *semaphore);
/* Whether a member has joined or asked to join, so that hints may come. */
bool wait_queue_has_place(const struct semaphore *semaphore);
/* Members without waiters leave. */
void wait_queue_shrink(struct lock_engine *engine, struct semaphore *semaphore);
/* All members leave. The name must have no waiters. */
void wait_queue_end(struct lock_engine *engine, struct semaphore *semaphore);

#endif
