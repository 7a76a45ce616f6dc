/*
 * The requests list, explain and lock_busy(). list tells the current state of each semaphore of the
 * directory. explain tells the state of one semaphore as an acquire would find it. lock_busy()
 * tells its busy slots. None takes an administration mutex; reading the directory takes the
 * directory's.
 */
#ifndef LOCK_LIST_H
#define LOCK_LIST_H

#include "daemon/lock/core/engine.h"

/* Frees all that is left at the engine's end. */
void list_free_all(struct lock_engine *engine);

#endif
