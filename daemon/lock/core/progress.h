/*
 * Tells waiters their position and the number of busy slots, if their client asked for it
 * (`progress`). A waiter is told when its wait begins, and when one of the two changes. The first
 * waiters of a queue are told at once. The others are told at most once a second, because one
 * change at the head moves the whole queue. If no waiter asked, it costs nothing.
 */
#ifndef LOCK_PROGRESS_H
#define LOCK_PROGRESS_H

#include "daemon/lock/core/engine.h"

/* The waiter's wait has begun. Calls after the first do nothing. */
void progress_begin(struct lock_engine *engine, struct waiter *waiter);
/* The queue may have moved. */
void progress_tell(struct lock_engine *engine, struct semaphore *semaphore);
/* The waiter ends. Before it is freed. */
void progress_end(struct waiter *waiter);
/* Tells the other waiters; fired by the timer of the semaphore, which is ctx. */
void progress_due(void *ctx, uint64_t id);

#endif
