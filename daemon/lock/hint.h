/*
 * Hints: whoever frees a slot tells one member of the name's wait line (broker.h), after delete-ok.
 * A hint means *look*: the slot is claimed for the first in the line here who can use it, and the claim
 * decides; nothing is ever granted by a hint alone (invariant 15).
 *
 * Who has sent one leaves the slot alone for a moment (hint_grace): its own newcomers are nearer to the
 * broker than whoever was told, and would always be faster. The moment ends early when the hint comes
 * back, or is returned because nobody waits. While the side link is away hints are owed by the broker's
 * side of the seam, and nothing is left alone.
 *
 * A slot that was handed on here for long though nobody else stood in the line is let go now and then
 * without a hint, and left alone for the same moment: clients that poll have a turn, too.
 *
 * A hint for which there is no use here is passed on; while there is a place in the line, not more than one
 * in a while for a name, as it may come back at once. What is lost by that is found by the re-probe.
 */
#ifndef LOCK_HINT_H
#define LOCK_HINT_H

#include "daemon/lock/engine.h"

/* The hold's B is known to be deleted: tells the line, and leaves the slot alone from now on. */
void hint_freed(struct lock_engine *engine, const struct hold *hold);
/* Whether a hint that is sent now gets there now. */
bool hint_can_be_heard(const struct lock_engine *engine);
/* Whether a slot, by its B, is left alone for the moment. */
bool hint_is_spared(const struct lock_engine *engine, const char *b);
/* A hint; slot: from 1; 0 = of none in particular. */
void hint_came(struct lock_engine *engine, struct semaphore *semaphore, int slot);
/* The same of a slot of which a hint came while a claim of it was on its way, and that came to nothing. */
void hint_came_before(struct lock_engine *engine, const char *name, enum lock_kind kind, int slot);
/* What was sent to that line found nobody. */
void hint_unheard(struct lock_engine *engine, const char *queue, int slot);
/* Something may have changed: whoever waits is looked for, whatever a look in progress finds. */
void hint_look(struct lock_engine *engine, struct semaphore *semaphore);
/*
 * An administrator has changed the semaphore, from one size to another (LOCK_UNLIMITED; -1: not known, or
 * not there): those who wait elsewhere are told where there is something for them.
 */
void hint_changed(struct lock_engine *engine, const char *name, int from, int to);
/* Frees what is left; the engine goes. */
void hint_free_all(struct lock_engine *engine);

#endif
