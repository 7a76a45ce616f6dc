/*
 * fsck: finds what is wrong with the queues of a semaphore, and repairs it. Both run under the
 * administration mutex, so that fsck does not see a change half done.
 *
 *	take the mutex		(mutex.h)
 *	scan			(scan.h, all slots; the directory; a declare of each queue
 *				tells how it was declared. An unknown answer: nothing is changed)
 *	repair			delete uncounted slots, the highest first; delete durable Bs without
 *				slots; delete and declare durable Bs with other arguments, and free
 *				transient slots; delete a gate beside slots or N-U; enter the name
 *				into the directory, or remove it
 *	scan again		findings that are gone were repaired
 *	convert			if requested: declare or delete the B of each free slot that is held
 *				otherwise. To and from slots by quorum: fsck_quorum.h
 *	drop the mutex
 *	rest			while busy slots are left, if requested; then with the mutex again:
 *				scan, convert
 *	answer
 *
 * If a repair is interrupted, the next fsck completes it: each step leaves fewer findings. Slots that are held
 * by quorum are looked into and repaired otherwise (fsck_quorum.h).
 */
#ifndef LOCK_FSCK_H
#define LOCK_FSCK_H

#include "daemon/lock/engine.h"

/* Ends a wait for busy slots with `cancelled`. False: the peer has no such wait. */
bool fsck_cancel(struct lock_engine *engine, uint64_t peer, uint64_t request);
/* The peer's checks and repairs are still performed, but wait for no busy slots. */
void fsck_peer_gone(struct lock_engine *engine, uint64_t peer);
/* Ends all waits for busy slots with `answer`. */
void fsck_end_waits(struct lock_engine *engine, const struct lock_answer *answer);
/* Frees all that is left at the engine's end. */
void fsck_free_all(struct lock_engine *engine);

#endif
