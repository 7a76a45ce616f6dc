/*
 * Who waits and who holds, as rows for who looks on (lock.h, struct lock_row): walked when asked for,
 * and told to the caller one by one as they change. A row begins with its acquire, is passed on to the
 * hold that comes of it, and ends when that is released or lost, or the acquire ended without one.
 */
#ifndef LOCK_ROWS_H
#define LOCK_ROWS_H

#include "daemon/lock/core/engine.h"

/* It has come. */
void rows_waits(struct lock_engine *engine, const struct waiter *waiter);
/* It ends without a hold. Before it leaves the line. */
void rows_cancelled(struct lock_engine *engine, const struct waiter *waiter);
/* The row of the acquire is the hold's from now on. */
void rows_pass(struct lock_engine *engine, struct waiter *waiter, struct hold *hold);
/* Something of the hold has changed. */
void rows_holds(struct lock_engine *engine, const struct hold *hold);
/* The hold is its peer's no more. One that never was is fine. */
void rows_gone(struct lock_engine *engine, const struct hold *hold);

#endif
