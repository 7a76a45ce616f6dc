/*
 * The life of an acquire (seeds/000, "Acquiring a Lock"), from lock_acquire() to its one answer
 * (invariant 3). The acquire joins the local queue of its name as a waiter. The queue runner finds
 * the slots that a waiter may claim, and claims them (claim.h). An unlimited semaphore is granted
 * without a slot.
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include "daemon/lock/core/engine.h"

/* Ends all acquires with the same answer. */
void acquire_end_all(struct lock_engine *engine, const struct lock_answer *answer);
/* The lock connection's state changed: acquires that cannot go on are refused, the others go on. */
void acquire_link_changed(struct lock_engine *engine, const char *why);

#endif
