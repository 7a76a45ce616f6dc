/*
 * A look at a semaphore: which of its slots exist, which are taken. Probes go out in windows that
 * double, each in one flush on the side link; slots above a gap do not exist. What was seen goes into
 * the semaphore, and its line is poked after each window: acquire.c says whether it wants another.
 */
#ifndef LOCK_LOOK_H
#define LOCK_LOOK_H

#include "daemon/lock/engine.h"

/* Whether the look has come to an end by itself: a gap, or an answer that is unknown. */
bool look_is_whole(const struct semaphore *semaphore);
/* Begins a look at slot 1. The last one must be over. */
void look_start(struct lock_engine *engine, struct semaphore *semaphore);
/* Probes the next window of a look that was seen and is not whole. */
void look_continue(struct lock_engine *engine, struct semaphore *semaphore);
/* What was seen has been made use of. */
void look_end(struct semaphore *semaphore);
/* Ends those in progress, whose answers do not come any more: the engine goes. */
void look_end_all(struct lock_engine *engine);

#endif
