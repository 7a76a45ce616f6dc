/*
 * From a request to a claim: the life of an acquire (acquire_*), and the hints that come to this daemon
 * (hint_*). The queue runner serves the local queue of a name (queue_runner_run()). The module must not know
 * how a claim ends.
 */
#ifndef LOCK_QUEUE_H
#define LOCK_QUEUE_H

#include "daemon/lock/engine.h"

/*
 * Serves the local queue of one name. When a fact changes on which a queue may depend, its
 * semaphore is marked dirty (engine_mark_dirty). The queue runner then goes as far as it can:
 *
 *	a slot is known to be free?	-> claim it for the first waiter that can use it (claim.h)
 *	else scan			-> probe A and B of a growing window, in one flush
 *		unlimited		-> grant without a slot
 *		free slots		-> claim them, for the first waiters
 *		all busy, or a gate	-> would-block, or wait for a hint, or for a rescan after
 *					   a jittered interval
 *		withheld		-> a try waits for that time (engine.h), once
 *		nothing there		-> no-such-lock, or create it first
 *	probes fail			-> claim slot after slot unseen, for the first waiter
 *
 * Unseen, the daemon claims one slot after the other, each once for all waiters, and again at each
 * interval. It cannot tell a gate or an unlimited semaphore from a missing lock then. Waiters that
 * get no slot wait, or are told that the broker did not answer. An unlimited semaphore is held by
 * slot, as far as it has slots.
 *
 * A newcomer joins behind the queue. A queue may be very long: the cost here grows with the waiters
 * that move, not with those that wait.
 */

/* Serves the queue of a dirty semaphore. Only run_queues() in lock.c calls it. */
void queue_runner_run(struct lock_engine *engine, struct semaphore *semaphore);

/*
 * The life of an acquire (seeds/000, "Acquiring a Lock"), from lock_acquire() to its one answer
 * (invariant 3). The acquire joins the local queue of its name as a waiter. The queue runner finds
 * the slots that a waiter may claim, and claims them (claim.h). An unlimited semaphore is granted
 * without a slot.
 */

/* An acquire of an earlier engine. Strings are borrowed. */
struct acquire_resumed {
	uint64_t id, peer, request;
	struct lock_acquire acquire;
	int64_t started, deadline; /* clock times; no deadline: INT64_MAX */
};
/* The acquire goes on, in the order of the numbers of waiters. The number must be free. */
void acquire_resume(struct lock_engine *engine, const struct acquire_resumed *resumed);
/* Ends all acquires with the same answer. */
void acquire_end_all(struct lock_engine *engine, const struct lock_answer *answer);
/* The lock connection's state changed: acquires that cannot go on are refused, the others go on. */
void acquire_link_changed(struct lock_engine *engine, const char *why);

/*
 * The hints that come to this daemon's consumers in a wait queue (channels.h). The slot is
 * claimed for the first waiter that can use it. A hint alone grants nothing: the claim decides
 * (invariant 15).
 *
 * If no waiter here can use the slot, the daemon passes the hint on. While it has consumers in that
 * wait queue, the hint may come back at once. It therefore passes on only one hint in a time for
 * each name. A rescan finds a slot whose hint is dropped for that reason.
 */

/* The broker's event of a wait queue; ctx: the engine. */
void hint_news(void *ctx, const struct broker_wait_queue_event *event);

#endif
