/*
 * What an administrator does to who waits (seeds/004, "Grant", "Cancel"): lets it in without a slot,
 * whatever it was doing, or turns it away.
 */
#ifndef LOCK_GRANT_H
#define LOCK_GRANT_H

#include "daemon/lock/engine.h"

/* NONE; NOT_HELD: nobody waits under that number; TOO_MANY_LOCKS: its peer, which waits on. */
enum reason grant_slotless(struct lock_engine *engine, uint64_t waiter);
enum reason grant_deny(struct lock_engine *engine, uint64_t waiter);
/* All who wait for that name; how many. */
size_t grant_deny_all(struct lock_engine *engine, const char *name);

#endif
