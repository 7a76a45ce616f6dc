/*
 * Hints that this daemon sends: whoever frees a slot tells one member of the name's wait queue (broker.h), after
 * delete-ok. A hint means *look*: whoever hears it claims, and the claim decides (invariant 15).
 *
 * Who has sent one leaves the slot alone for a moment (hint_grace): its own newcomers are nearer to the
 * broker than whoever was told, and would always be faster. The moment ends early when the hint comes
 * back, or is returned because nobody waits (hint_receive.h). While the auxiliary connection is away hints
 * are owed by the broker's side of the seam, and nothing is left alone.
 *
 * A slot that was handed on here for long though nobody else stood in the queue is let go now and then
 * without a hint, and left alone for the same moment: clients that poll have a turn, too.
 */
#ifndef LOCK_HINT_SEND_H
#define LOCK_HINT_SEND_H

#include "daemon/lock/core/engine.h"

/* The hold's B is known to be deleted: tells the queue, and leaves the slot alone from now on. */
void hint_freed(struct lock_engine *engine, const struct hold *hold);
/* Whether a hint that is sent now gets there now. */
bool hint_can_be_heard(const struct lock_engine *engine);
/*
 * An administrator has changed the semaphore, from one size to another (LOCK_UNLIMITED; -1: not known, or
 * not there): those who wait elsewhere are told where there is something for them.
 */
void hint_changed(struct lock_engine *engine, const char *name, int from, int to);
/* Frees what is left; the engine goes. */
void hint_free_all(struct lock_engine *engine);

#endif
