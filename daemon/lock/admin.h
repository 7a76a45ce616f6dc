/*
 * Lock administration (seeds/000): creating and destroying a semaphore under its administration mutex,
 * which lives on the side link like the operations that it guards; and asking its size.
 *
 *	claim the mutex		(405: another administrator; tried again until the deadline)
 *	determine the maximum	(count.h; unknown: nothing is changed)
 *	create: declare A[1] .. A[C], ascending, in flights
 *	destroy: delete A[C] .. A[1], descending, each after the delete-ok of the one before
 *	drop the mutex, answer
 *
 * Between administrators of one daemon RabbitMQ does not arbitrate (they share the side link): here
 * they go one by one, in the order in which they came. Requests of one peer on one name keep their
 * order, whatever they are (PROTOCOL.md).
 */
#ifndef LOCK_ADMIN_H
#define LOCK_ADMIN_H

#include "daemon/lock/engine.h"

void admin_create(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
void admin_resize(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
void admin_destroy(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
/*
 * For acquires that want the semaphore to be there: creates it unless it exists. Returns a number, with
 * which acquire_admin_done() is called once, later.
 */
uint64_t admin_create_missing(struct lock_engine *engine, const char *name, int slots);
void admin_size(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name);
/* The youngest create or destroy of the peer on the name that is not done; 0: none. */
uint64_t admin_of_peer(const struct lock_engine *engine, uint64_t peer, const char *name);
void admin_lane_closed(struct lock_engine *engine, uint64_t lane);
/* Frees what is left; the engine goes. */
void admin_free_all(struct lock_engine *engine);

#endif
