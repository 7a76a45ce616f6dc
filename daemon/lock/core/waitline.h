/*
 * This daemon's places in the broker's wait lines (broker.h): one for each name and priority for which
 * somebody here waits, so that thousands who wait cost the broker one consumer. A place is kept for a
 * while after the last of them, but not while a slot is freed here, of which it would be told; and given up
 * while the lock connection is away, as nothing can be claimed then.
 *
 *	AWAY --- somebody waits and can claim, the lock connection is up ---> ASKED <--- joined, left ---> JOINED
 *
 * Whatever was freed between the scan that began a wait and the place in the line was told to others:
 * after JOINED it is looked once more.
 */
#ifndef LOCK_WAITLINE_H
#define LOCK_WAITLINE_H

#include "daemon/lock/core/engine.h"

/* The waiter's wait has begun; it is counted until its end. Again is fine. */
void waitline_add(struct lock_engine *engine, struct waiter *waiter);
/* Its end, whether it was counted or not. */
void waitline_remove(struct lock_engine *engine, struct waiter *waiter);
/* The broker's event of the line. False: it is of no place of ours; a hint goes to hint_receive.h. */
bool waitline_news(
    struct lock_engine *engine, struct semaphore *semaphore, const struct broker_line_event *event);
/* The lock connection's state changed. */
void waitline_link_changed(struct lock_engine *engine);
/* How many of the line's members are ours, as far as we have heard. */
int waitline_count(const struct semaphore *semaphore);
/*
 * Gives up all places for as long as nobody here can have a channel: what others are told of goes to them.
 * And asks for them again, when somebody can (nothing, while they were not given up).
 */
void waitline_out(struct lock_engine *engine, struct semaphore *semaphore);
void waitline_back(struct lock_engine *engine, struct semaphore *semaphore);
/* Whether a hint may come to one of ours. */
bool waitline_has_place(const struct semaphore *semaphore);
/* Gives up the places for which nobody waits. */
void waitline_shrink(struct lock_engine *engine, struct semaphore *semaphore);
/* Gives up every place of the name. Nobody may wait for it. */
void waitline_end(struct lock_engine *engine, struct semaphore *semaphore);

#endif
