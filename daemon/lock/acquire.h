/*
 * Acquiring a slot of a semaphore, the slot of a persistent mutex, or a true mutex (seeds/000,
 * "Acquiring a Lock"). All acquires of one name stand in one line and are served together:
 *
 *	is a slot known to be free?  -> claim it: one flight on the hold link (claim.h)
 *	else look			-> probe A and B of a growing window, in one flush on the side link
 *		free slots		-> claim them, for the first in the line
 *		all taken		-> would-block, or wait: look again after a jittered interval
 *		no A[1]			-> no-such-lock
 *	lost the race for it		-> rest a random moment, look again; at most max_races times
 *	no probes to be had		-> claim slot after slot unseen
 *
 * A newcomer goes behind the line. Every acquire ends exactly once (invariant 3).
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include "daemon/lock/engine.h"

void acquire_start(struct lock_engine *engine, uint64_t peer, uint64_t request,
    const struct lock_acquire *acquire);
/* Moves the line of a semaphore as far as it goes now. Called by the serve timer alone. */
void acquire_serve(struct lock_engine *engine, struct semaphore *semaphore);
/* Ends every acquire that waits, with the same answer. */
void acquire_end_all(struct lock_engine *engine, const struct lock_answer *answer);
/* The hold link's state changed: those who cannot go on are answered, the others wait or go on. */
void acquire_link_changed(struct lock_engine *engine, const char *why);
/*
 * A create or a change of `name` is over: those who stand behind it (`behind` is its number) go on, or,
 * when it was theirs (admin_create_missing()) and failed, are refused. text: NULL = the reason's own.
 */
void acquire_admin_done(struct lock_engine *engine, const char *name, uint64_t admin,
    enum reason reason, const char *text);

#endif
