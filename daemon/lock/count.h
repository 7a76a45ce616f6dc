/*
 * Determining the maximum number of slots (seeds/000): the A queues are probed in order, in windows,
 * each in one flush on the side link; the first that is absent ends it. Slots above a gap do not
 * count, nor do those above the most there may be (METHODS_SLOTS_MAX).
 */
#ifndef LOCK_COUNT_H
#define LOCK_COUNT_H

#include "daemon/lock/engine.h"

/*
 * slots: how many there are; -1: an answer was unknown, and `unknown_slot` is the slot. name: whose,
 * borrowed for the call.
 */
typedef void count_done_fn(struct lock_engine *engine, uint64_t id, int slots, int unknown_slot);

/* `done` is called once, later, with `id`. */
void count_start(struct lock_engine *engine, const char *name, count_done_fn *done, uint64_t id);
/* Frees what is left; the engine goes. */
void count_free_all(struct lock_engine *engine);

#endif
