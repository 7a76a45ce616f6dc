/*
 * The directory of names (directory_*), and the requests list, explain and lock_busy() (list_*). The module
 * changes nothing at the broker but the directory.
 */
#ifndef LOCK_LIST_H
#define LOCK_LIST_H

#include "daemon/lock/engine.h"

/*
 * The directory of semaphores, because AMQP cannot list queues. It is a durable queue (broker.h)
 * under a mutex of its own: a reader takes all of its messages for a moment. Create enters a name,
 * and destroy removes it. An entry says that a semaphore was created, not that it exists now: fsck
 * compares.
 *
 *	take the directory's mutex	(mutex.h: behind other requests)
 *	read, enter or leave		(broker.h)
 *	drop the mutex, call `done`
 *
 * Each request has a deadline of its own, so that its caller gets the reason before the caller's
 * own deadline.
 */

/*
 * reason: REASON_NONE, or the reason of the failure, with words. names are borrowed. Read: all
 * allowed names, sorted, each once. Leave: the removed names. Enter: the name.
 */
typedef void directory_done_fn(struct lock_engine *engine, uint64_t id, enum reason reason,
    const char *text, const char *const *names, size_t count);

/* `done` is called once, later, with `id`. */
void directory_read(struct lock_engine *engine, directory_done_fn *done, uint64_t id);
/* Enters the name, unless it is listed already. */
void directory_enter(
    struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id);
void directory_leave(
    struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id);
/*
 * The caller with `id` has lost its administration mutex. Its requests that have not begun are
 * dropped, and `done` is not called.
 */
void directory_forget(struct lock_engine *engine, uint64_t id);

/*
 * The requests list, explain and lock_busy(). list tells the current state of each semaphore of the
 * directory. explain tells the state of one semaphore as an acquire would find it. lock_busy()
 * tells its busy slots. None takes an administration mutex; reading the directory takes the
 * directory's.
 */

/* Frees all at the engine's end. */
void list_free_all(struct lock_engine *engine);

#endif
