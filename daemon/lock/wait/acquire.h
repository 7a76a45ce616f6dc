/*
 * The life of an acquire (seeds/000, "Acquiring a Lock"), from the request (lock_acquire) to its one answer
 * (invariant 3): it joins the line of its name, in which queue_runner.h finds out what it may claim, and claims it
 * (claim.h). Where there are no slots to wait for it is granted without one.
 */
#ifndef LOCK_ACQUIRE_H
#define LOCK_ACQUIRE_H

#include "daemon/lock/core/engine.h"

/* Ends every acquire that waits, with the same answer. */
void acquire_end_all(struct lock_engine *engine, const struct lock_answer *answer);
/* The lock connection's state changed: those who cannot go on are answered, the others wait or go on. */
void acquire_link_changed(struct lock_engine *engine, const char *why);

#endif
