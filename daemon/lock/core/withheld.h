/*
 * Withheld slots: freed here, and not claimed here for `hint_grace`. Waiters of other daemons that
 * got the hint, or clients that poll, have a turn before waiters and newcomers of this daemon. The
 * semaphore owns the records, and is not forgotten while it has any.
 */
#ifndef LOCK_WITHHELD_H
#define LOCK_WITHHELD_H

#include "daemon/lock/core/engine.h"

enum withheld_for {
	WITHHELD_FOR_WAIT_QUEUE, /* a hint went to the wait queue */
	WITHHELD_FOR_POLLERS     /* no hint was sent: a client that polls may get the slot */
};

/* slot: of a mutex 1. If the slot is withheld already, the time begins anew. */
void withheld_begin(
    struct lock_engine *engine, struct semaphore *semaphore, int slot, enum withheld_for whom);
bool withheld_has(const struct semaphore *semaphore, int slot);
/*
 * No other daemon wants the slot: it may be claimed here at once. One that is not withheld is fine.
 */
void withheld_to_nobody(struct lock_engine *engine, struct semaphore *semaphore, int slot);
void withheld_end_all(struct lock_engine *engine, struct semaphore *semaphore);

#endif
