/*
 * fsck: finds what is wrong with the queues of a semaphore, and repairs it. Both run under the
 * administration mutex, so that fsck does not see a change half done.
 *
 *	take the mutex		(mutex.h)
 *	scan			(full_scan.h, all slots; the directory; a declare of each slot
 *				tells how it was declared. An unknown answer: nothing is changed)
 *	repair			delete uncounted slots, the highest first; declare free transient
 *				slots anew; delete a gate beside slots or N-U; enter the name
 *				into the directory, or remove it
 *	scan again		findings that are gone were repaired
 *	drop the mutex, answer
 *
 * If a repair is interrupted, the next fsck completes it: each step leaves fewer findings.
 */
#ifndef LOCK_FSCK_H
#define LOCK_FSCK_H

#include "daemon/lock/core/engine.h"

/* Frees all that is left at the engine's end. */
void fsck_free_all(struct lock_engine *engine);

#endif
