/*
 * Serving the line of one name. Whoever changes what a line may depend on pokes its semaphore
 * (engine_poke), and this goes as far as it can now:
 *
 *	is a slot known to be free?  -> it is claimed for the first who can use it (acquire.h)
 *	else look			-> probe A and B of a growing window, in one flush on the side link
 *		free slots		-> claim them, for the first in the line
 *		all taken		-> would-block, or wait: look again after a jittered interval
 *		no A[1]			-> no-such-lock
 *	no probes to be had		-> claim slot after slot unseen
 *
 * A newcomer goes behind the line. A line may have very many in it: what is done here costs by those who
 * move, not by those who wait.
 */
#ifndef LOCK_SERVE_H
#define LOCK_SERVE_H

#include "daemon/lock/engine.h"

/* Moves the line of a semaphore as far as it goes now. Called by the serve timer alone. */
void serve_line(struct lock_engine *engine, struct semaphore *semaphore);

#endif
