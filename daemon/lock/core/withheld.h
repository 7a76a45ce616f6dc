/*
 * Slots that were freed here and are left alone for a moment (hint_grace): whoever was told of them, or
 * polls, has a turn before those who wait or come here. Kept by the semaphore, which stays meanwhile.
 */
#ifndef LOCK_WITHHELD_H
#define LOCK_WITHHELD_H

#include "daemon/lock/core/engine.h"

enum withheld_for {
	WITHHELD_FOR_LINE,   /* somebody in it was told */
	WITHHELD_FOR_POLLERS /* nobody was: whoever looks by himself may have it */
};

/* slot: of a mutex 1. Again: the moment begins anew. */
void withheld_begin(
    struct lock_engine *engine, struct semaphore *semaphore, int slot, enum withheld_for whom);
bool withheld_has(const struct semaphore *semaphore, int slot);
/* Nobody was told of it who wants it: it is anybody's. One that is not withheld is fine. */
void withheld_to_nobody(struct lock_engine *engine, struct semaphore *semaphore, int slot);
void withheld_end_all(struct lock_engine *engine, struct semaphore *semaphore);

#endif
