/*
 * Serving the line of one name. Whoever changes what a line may depend on marks its semaphore dirty
 * (engine_mark_dirty), and this goes as far as it can now:
 *
 *	is a slot known to be free?  -> it is claimed for the first who can use it (claim.h)
 *	else scan			-> probe A and B of a growing window, in one flush on the auxiliary
 *	connection
 *		unlimited		-> granted, without a slot
 *		free slots		-> claim them, for the first in the line
 *		all busy, or a gate	-> would-block, or wait: a hint, or a rescan after a jittered
 *					   interval, makes it go on
 *		left to others		-> a try waits for that moment (withheld.h), once
 *		nothing there		-> no-such-lock, or it is made first
 *	no probes to be had		-> claim slot after slot unseen, for the first in the line
 *
 * Unseen, one slot is claimed after the other, each once, however many wait; and again at each interval.
 * Neither gate nor unlimited can be told from a lock that is not there: those who find no slot
 * then wait, or are told that the broker did not say. And a name that is unlimited is held by slot, as
 * far as it has any.
 *
 * A newcomer goes behind the line. A line may have very many in it: what is done here costs by those who
 * move, not by those who wait.
 */
#ifndef LOCK_QUEUE_RUNNER_H
#define LOCK_QUEUE_RUNNER_H

#include "daemon/lock/core/engine.h"

/* Moves the line of a semaphore as far as it goes now. Called by the serve timer alone. */
void queue_runner_run(struct lock_engine *engine, struct semaphore *semaphore);

#endif
