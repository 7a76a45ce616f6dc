/*
 * Removed slots that nobody holds any more: their Bs are deleted; durable ones under the administration
 * mutex of the name. An administrator that adds the slot again declares B before A. Without the mutex,
 * the delete could come between the two, and the slot would have no B.
 */
#ifndef LOCK_REMOVED_H
#define LOCK_REMOVED_H

#include "daemon/lock/core/engine.h"

/* Deletes the B, unless A is there again, or B is held. fsck finds a B that stays. */
void removed_delete_holder(struct lock_engine *engine, const char *name, int slot);
/*
 * An administrator of this daemon removed the slot while B was in use. A holder that hears of that
 * before its release deletes B. B is also deleted here, after a moment, unless it is still held
 * then. A holder whose auxiliary connection is down hears of it late: fsck finds a B that it leaves.
 */
void removed_holder_in_use(struct lock_engine *engine, const char *name, int slot);
/*
 * The same of a slot by quorum with a removal in it: claims it, and deletes it with its B. Without a mutex: an
 * administrator that makes the slot again takes the removal out, as its only active consumer.
 */
void removed_delete_beads(struct lock_engine *engine, const char *name, int slot);
/* Nothing is in work. */
bool removed_is_quiet(const struct lock_engine *engine);
/* Frees all at the engine's end. */
void removed_free_all(struct lock_engine *engine);

#endif
