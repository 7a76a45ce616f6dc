/*
 * fsck: what is wrong with a semaphore's queues, and repairing it. Both under the admin mutex, so that
 * what is seen is no administrator's work half done.
 *
 *	take the mutex		(mutex.h)
 *	scan			(full_scan.h, whole; the directory; how each slot was declared, which only a
 *				declare tells. Unknown: nothing is changed)
 *	repair			delete uncounted slots, the highest first; make transient slots anew that
 *	nobody holds;
 *				delete a gate beside what counts; enter the name into the directory, or take
 *				it out
 *	scan again		what is not found any more was repaired
 *	drop the mutex, answer
 *
 * What died in the middle is seen by the next: each step alone leaves less to find.
 */
#ifndef LOCK_FSCK_H
#define LOCK_FSCK_H

#include "daemon/lock/core/engine.h"

/* Frees what is left; the engine goes. */
void fsck_free_all(struct lock_engine *engine);

#endif
