/*
 * The directory of the names that exist, which AMQP cannot list: a durable queue (broker.h) under a
 * mutex of its own, as whoever reads it holds all of its messages for a moment. Create enters a name,
 * destroy takes it out; it says what was created, not what is there now: fsck compares.
 *
 *	take the directory's mutex	(mutex.h: behind those of this daemon, and of others)
 *	read, enter or leave		(broker.h)
 *	tell, drop the mutex
 *
 * Each has a deadline of its own, so that whoever waits for it hears why before his passes.
 */
#ifndef LOCK_DIRECTORY_H
#define LOCK_DIRECTORY_H

#include "daemon/lock/core/engine.h"

/*
 * reason: REASON_NONE, or why nothing was done, with words. names, borrowed: read: all that locks
 * can have, each once, in the order of the alphabet; leave: those removed; enter: one.
 */
typedef void directory_done_fn(struct lock_engine *engine, uint64_t id, enum reason reason,
    const char *text, const char *const *names, size_t count);

/* `done` is called once, later, with `id`. */
void directory_read(struct lock_engine *engine, directory_done_fn *done, uint64_t id);
/* Unless it is there already. */
void directory_enter(
    struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id);
void directory_leave(
    struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id);
/*
 * Who asked with `id` has lost the administration mutex under which it did: what has not begun is not
 * done any more, and nobody is told.
 */
void directory_forget(struct lock_engine *engine, uint64_t id);
/* Frees what is left; the engine goes. */
void directory_free_all(struct lock_engine *engine);

#endif
