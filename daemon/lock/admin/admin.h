/*
 * Lock administration (seeds/000): creates, resizes and destroys a semaphore under its
 * administration mutex, and tells its size. The steps of a change:
 *
 *	take the mutex		(mutex.h: behind other administrators, until the deadline)
 *	determine the maximum	(full_scan.h; if it is unknown, nothing is changed)
 *	make the plan		(admin_plan.h: state found, order -> the steps)
 *	perform its steps	(each begins when all requests of the one before are answered)
 *	drop the mutex
 *	wait for holders	(holder_wait.h, if requested), answer
 *
 * Requests of one peer on one name keep their order (peer_order.h).
 */
#ifndef LOCK_ADMIN_H
#define LOCK_ADMIN_H

#include "daemon/lock/core/engine.h"

/*
 * Creates the semaphore for acquires, unless it exists. Returns a number; registry_admin_done() is
 * called with it once, later. If such a create is in progress, returns the number of that one.
 */
uint64_t admin_create_missing(struct lock_engine *engine, const char *name, int slots);
/* Why that T is none; static. NULL: it is one, or 0, which stands for the default. */
const char *admin_grace_nonsense(int64_t takeover_grace);
/* Why no slots by quorum can be made here; static. NULL: they can. */
const char *admin_quorum_nonsense(const struct lock_engine *engine);
/* The peer's changes are still performed, but do not wait for holders. */
void admin_peer_gone(struct lock_engine *engine, uint64_t peer);
/* Frees all that is left at the engine's end. */
void admin_free_all(struct lock_engine *engine);

#endif
