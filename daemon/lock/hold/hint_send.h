/*
 * The hints that this daemon sends. After a slot's B is known to be free, it sends one hint to the
 * name's wait queue (broker.h). A daemon that gets a hint claims the slot, and the claim decides
 * (invariant 15).
 *
 * The daemon then withholds the slot for hint_grace, because its own newcomers would always be
 * faster than the daemon that gets the hint. The time ends early if the hint comes back, or if the
 * broker returns it because no client waits (hint_receive.h). While the auxiliary connection is
 * away, the broker layer keeps the hints for later, and no slot is withheld.
 *
 * If the last hint of a name has just come back, the next one is sent a moment later. It is not sent if
 * the slot is held again. A client that takes and releases a lock again and again sends few hints.
 *
 * By quorum, a hint that has come back is sent again a moment later. The broker needs some time to free the
 * slot after its release, and a waiter that probes meanwhile finds it busy.
 *
 * After many hand-offs of a slot, while no other daemon waits, the slot is sometimes freed without
 * a hint, and withheld for the same time. Clients that poll can get it then.
 */
#ifndef LOCK_HINT_SEND_H
#define LOCK_HINT_SEND_H

#include "daemon/lock/core/engine.h"

/* The hold's B is known to be free: sends a hint as hold->drop says, and withholds the slot. */
void hint_freed(struct lock_engine *engine, const struct hold *hold);
/*
 * A removed slot has no holder any more, which helps no waiter, unless the slot has come back. Else
 * its durable B is deleted (removed.h).
 */
void hint_removed(struct lock_engine *engine, const char *name, int slot, enum broker_way way);
/*
 * The slot by quorum with that B is free now. A hint was sent when its hold ended. A daemon that came too
 * early took the slot for busy.
 */
void hint_reclaimed(struct lock_engine *engine, const char *queue);
/* Whether such a B may be deleted, as the broker has not said yet that the slot is gone. */
bool hint_asks_about_removed(const struct lock_engine *engine);
/* Whether a hint that is sent now is delivered now. */
bool hint_can_be_heard(const struct lock_engine *engine);
/*
 * An administrator has changed the size of the semaphore. A size may be LOCK_UNLIMITED, or -1: not
 * known, or destroyed. Sends hints to daemons with waiters, if the change may matter to them.
 */
void hint_changed(struct lock_engine *engine, const char *name, int from, int to);
/* A hint about that slot has come back: nobody waited. */
void hint_came_back(struct lock_engine *engine, const struct semaphore *semaphore, int slot);
/* The daemon stops: the hints that were to be sent a moment later are sent now. */
void hint_send_all(struct lock_engine *engine);
/* Frees all questions to the broker, and all unsent hints, at the engine's end. */
void hint_free_all(struct lock_engine *engine);

#endif
