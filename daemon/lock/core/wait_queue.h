/*
 * This daemon's places in the broker's wait queues (broker.h): one for each name and priority for which
 * somebody here waits, so that thousands who wait cost the broker one consumer. A place is kept for a
 * while after the last of them, but not while a slot is freed here, of which it would be told; and given up
 * while the lock connection is away, as nothing can be claimed then.
 *
 *	AWAY --- somebody waits and can claim, the lock connection is up ---> ASKED <--- joined, left ---> JOINED
 *
 * Whatever was freed between the scan that began a wait and the place in the queue was told to others:
 * after JOINED the daemon scans once more.
 */
#ifndef LOCK_WAIT_QUEUE_H
#define LOCK_WAIT_QUEUE_H

#include "daemon/lock/core/engine.h"

/* The waiter's wait has begun; it is counted until its end. Again is fine. */
void wait_queue_add(struct lock_engine *engine, struct waiter *waiter);
/* Its end, whether it was counted or not. */
void wait_queue_remove(struct lock_engine *engine, struct waiter *waiter);
/* The broker's event of the queue. False: it is of no place of ours; a hint goes to hint_receive.h. */
bool wait_queue_news(struct lock_engine *engine, struct semaphore *semaphore,
    const struct broker_wait_queue_event *event);
/* The lock connection's state changed. */
void wait_queue_link_changed(struct lock_engine *engine);
/* How many of the queue's members are ours, as far as we have heard. */
int wait_queue_count(const struct semaphore *semaphore);
/*
 * Gives up all places for as long as nobody here can have a channel: what others are told of goes to them.
 * And asks for them again, when somebody can (nothing, while they were not given up).
 */
void wait_queue_out(struct lock_engine *engine, struct semaphore *semaphore);
void wait_queue_back(struct lock_engine *engine, struct semaphore *semaphore);
/* Whether a hint may come to one of ours. */
bool wait_queue_has_place(const struct semaphore *semaphore);
/* Gives up the places for which nobody waits. */
void wait_queue_shrink(struct lock_engine *engine, struct semaphore *semaphore);
/* Gives up every place of the name. Nobody may wait for it. */
void wait_queue_end(struct lock_engine *engine, struct semaphore *semaphore);

#endif
