/*
 * Lock administration (seeds/000): creating, resizing and destroying a semaphore under its
 * administration mutex, and asking its size.
 *
 *	take the mutex		(mutex.h: behind those of this daemon, and of others, until the deadline)
 *	determine the maximum	(full_scan.h; unknown: nothing is changed)
 *	make the plan		(admin_plan.h: what there is, what is wanted -> the steps)
 *	do its steps		(each begins when all of the one before it was answered)
 *	drop the mutex
 *	wait for holders	(holder_wait.h, when asked to), answer
 *
 * Requests of one peer on one name keep their order (peer_order.h).
 */
#ifndef LOCK_ADMIN_H
#define LOCK_ADMIN_H

#include "daemon/lock/core/engine.h"

/*
 * For acquires that want the semaphore to be there: creates it unless it exists. Returns a number, with
 * which registry_admin_done() is called once, later; of one that is being created so already, its number.
 */
uint64_t admin_create_missing(struct lock_engine *engine, const char *name, int slots);
/* What it asked for is still done; the holders of what that removes are waited for by nobody. */
void admin_peer_gone(struct lock_engine *engine, uint64_t peer);
/* Frees what is left; the engine goes. */
void admin_free_all(struct lock_engine *engine);

#endif
