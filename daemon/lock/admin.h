/*
 * Changes of a semaphore: create, resize, destroy and size (admin_*), and the first use of a true mutex by
 * quorum (make_mutex()). Both take the administration mutex, and perform a list of steps with work.h. The
 * module must not know fsck.
 */
#ifndef LOCK_ADMIN_H
#define LOCK_ADMIN_H

#include "daemon/lock/engine.h"

/*
 * Lock administration (seeds/000): creates, resizes and destroys a semaphore under its
 * administration mutex, and tells its size. The steps of a change:
 *
 *	take the mutex		(mutex.h: behind other administrators, until the deadline)
 *	determine the maximum	(scan.h; if it is unknown, nothing is changed)
 *	make the plan		(plan.h: state found, order -> the steps)
 *	perform its steps	(each begins when all requests of the one before are answered)
 *	drop the mutex
 *	wait for holders	(holders.h, if requested), answer
 *
 * Requests of one peer on one name keep their order (engine.h).
 */

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

/*
 * The first use of a true mutex by quorum: declares its post and its queue, and publishes a set of beads. It
 * does so under the administration mutex of the name. Two makers at once make one set all the same, and a set
 * that another one has left is completed (broker_make_beads()).
 */

/*
 * beads: the answer to a probe of its queue. UNREACHABLE: perhaps it has no beads, and earlier holders get time to
 * stop. OK and LOCKED: the post alone is missing.
 *
 * Returns a number; registry_admin_done() is called with it once, later. If that mutex is made already, returns
 * the number of that. Takes two seconds at least.
 */
uint64_t make_mutex(struct lock_engine *engine, const char *name, enum broker_answer beads);

/* Frees all that is left at the engine's end. */
void admin_free_all(struct lock_engine *engine);

#endif
