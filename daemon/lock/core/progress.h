/*
 * Where those stand who wait, told to those who asked for it (`progress`): when their wait begins, and when
 * their place in the queue or the number of holders has changed. The first few hear of that at once, the rest
 * once a second at most, as whatever moves the head of a queue moves all of it. Where nobody asked it costs
 * nothing.
 */
#ifndef LOCK_PROGRESS_H
#define LOCK_PROGRESS_H

#include "daemon/lock/core/engine.h"

/* The waiter's wait has begun. Told once. */
void progress_begin(struct lock_engine *engine, struct waiter *waiter);
/* The queue may have moved. */
void progress_tell(struct lock_engine *engine, struct semaphore *semaphore);
/* The waiter goes. */
void progress_end(struct waiter *waiter);
/* Those are told who have not been told at once; fired by the semaphore's timer. */
void progress_due(void *ctx, uint64_t id);

#endif
