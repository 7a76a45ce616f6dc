/*
 * The life of an acquire (seeds/000, "Acquiring a Lock"), from lock_acquire() to its one answer
 * (invariant 3). The acquire joins the local queue of its name as a waiter. The queue runner finds
 * the slots that a waiter may claim, and claims them (claim.h). An unlimited semaphore is granted
 * without a slot.
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include "daemon/lock/core/engine.h"

/* An acquire of an earlier engine. Strings are borrowed. */
struct acquire_resumed {
	uint64_t id, peer, request;
	struct lock_acquire acquire;
	int64_t started, deadline; /* clock times; no deadline: INT64_MAX */
};
/* The acquire goes on, in the order of the numbers of waiters. The number must be free. */
void acquire_resume(struct lock_engine *engine, const struct acquire_resumed *resumed);
/* The time of the waiter is over, and no slot is free for it: the answer is `timeout`. */
void acquire_time_out(struct lock_engine *engine, struct waiter *waiter);
/* Ends all acquires with the same answer. */
void acquire_end_all(struct lock_engine *engine, const struct lock_answer *answer);
/* The lock connection's state changed: acquires that cannot go on are refused, the others go on. */
void acquire_link_changed(struct lock_engine *engine, const char *why);

#endif
