/*
 * The first use of a true mutex by quorum: declares its post and its queue, and publishes a set of beads. It
 * does so under the administration mutex of the name. Two makers at once make one set all the same, and a set
 * that another one has left is completed (broker_make_beads()).
 */
#ifndef LOCK_MAKE_MUTEX_H
#define LOCK_MAKE_MUTEX_H

#include "daemon/lock/core/engine.h"

/*
 * empty: the queue is there, and no bead was seen in it. Then earlier holders get time to stop.
 *
 * Returns a number; registry_admin_done() is called with it once, later. If that mutex is made already, returns
 * the number of that. Takes two seconds at least.
 */
uint64_t make_mutex(struct lock_engine *engine, const char *name, bool empty);
/* Frees all that is left at the engine's end. */
void make_mutex_free_all(struct lock_engine *engine);

#endif
