/*
 * The first use of a true mutex by quorum: declares its post and its queue, and publishes a set of beads. It
 * does so under the administration mutex of the name. Two makers at once make one set all the same, and a set
 * that another one has left is completed (broker_make_beads()).
 */
#ifndef LOCK_MAKE_MUTEX_H
#define LOCK_MAKE_MUTEX_H

#include "daemon/lock/core/engine.h"

/*
 * beads: the answer to a probe of its queue. UNREACHABLE: perhaps it has no beads, and earlier holders get time to
 * stop. OK and LOCKED: the post alone is missing.
 *
 * Returns a number; registry_admin_done() is called with it once, later. If that mutex is made already, returns
 * the number of that. Takes two seconds at least.
 */
uint64_t make_mutex(struct lock_engine *engine, const char *name, enum broker_answer beads);
/* Frees all that is left at the engine's end. */
void make_mutex_free_all(struct lock_engine *engine);

#endif
