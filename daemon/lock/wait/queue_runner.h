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
 *		withheld		-> a try waits for that time (withheld.h), once
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
#ifndef LOCK_QUEUE_RUNNER_H
#define LOCK_QUEUE_RUNNER_H

#include "daemon/lock/core/engine.h"

/* Serves the queue of a dirty semaphore. Only the timer `run_queues` calls it. */
void queue_runner_run(struct lock_engine *engine, struct semaphore *semaphore);

#endif
