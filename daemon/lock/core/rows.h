/*
 * The rows of holders and waiters (lock.h, struct lock_row). The caller can walk through them, and
 * is told of each change. A row begins with an acquire and passes to the hold that the acquire
 * becomes. It ends when the hold is released or lost, or when the acquire ends without a hold.
 */
#ifndef LOCK_ROWS_H
#define LOCK_ROWS_H

#include "daemon/lock/core/engine.h"

/* The waiter has joined its local queue. */
void rows_waits(struct lock_engine *engine, const struct waiter *waiter);
/*
 * The waiter ends. Does nothing if its row has passed to a hold. Before the waiter leaves the
 * queue.
 */
void rows_cancelled(struct lock_engine *engine, const struct waiter *waiter);
/* Moves the waiter's row to the hold. */
void rows_pass(struct lock_engine *engine, struct waiter *waiter, struct hold *hold);
/* The hold has changed. */
void rows_holds(struct lock_engine *engine, const struct hold *hold);
/* The peer has the hold no more. A hold that never was a row is fine. */
void rows_gone(struct lock_engine *engine, const struct hold *hold);

#endif
