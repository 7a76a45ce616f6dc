/*
 * The lives of peers, waiters, semaphores and holds (registry_*), and their rows (rows_*). The registry keeps
 * all tables of the engine in step. Of the broker it asks only what ends with them: a watch, the place in a wait
 * queue, and the channel of a hold.
 */
#ifndef LOCK_REGISTRY_H
#define LOCK_REGISTRY_H

#include "daemon/lock/engine.h"

/*
 * Each life has one beginning and one end here. Reservations are here too (invariant 1).
 */

/* The peer's entry, created if there is none. */
struct lock_peer *registry_peer(struct lock_engine *engine, uint64_t id);
/* Frees the entry if the peer neither holds nor waits. */
void registry_peer_let_go(struct lock_engine *engine, struct lock_peer *peer);

/* The semaphore (or mutex) of a name, created if there is none. */
struct semaphore *registry_semaphore(struct lock_engine *engine, const char *name, bool mutex);
/* Forgets a name. It must have no waiters and no scan in progress. */
void registry_semaphore_end(struct lock_engine *engine, struct semaphore *semaphore);

void registry_waiter_attach(struct lock_engine *engine, struct waiter *waiter);
/* The one way in which a waiter's state changes (objects.h). */
void registry_waiter_set_state(
    struct lock_engine *engine, struct waiter *waiter, enum waiter_state state);
/* The waiter rests for `wait` ns. */
void registry_waiter_rest(struct lock_engine *engine, struct waiter *waiter, int64_t wait);
/* Ends a rest: the waiter is NEW. One that does not rest stays as it is. */
void registry_waiter_wake(struct lock_engine *engine, struct waiter *waiter);
/* Whether the time of the acquire is over. That of a try always is. */
bool registry_waiter_is_over(const struct lock_engine *engine, const struct waiter *waiter);
/* Frees the waiter without an answer: its client is gone. */
void registry_waiter_free(struct lock_engine *engine, struct waiter *waiter);
/* Frees the waiter and answers its acquire. No other function answers an acquire. */
void registry_waiter_end(
    struct lock_engine *engine, struct waiter *waiter, const struct lock_answer *answer);
/* The same, with a refusal; text: NULL = the reason's own. */
void registry_waiter_refuse(
    struct lock_engine *engine, struct waiter *waiter, enum reason reason, const char *text);
/*
 * The create or change with number `admin` of `name` is over. Waiters that were behind it go on. If
 * it was their own create (admin_create_missing()) and failed for good, they are refused. All other
 * waiters of the name are scanned for again. text: NULL = the reason's own.
 */
void registry_admin_done(struct lock_engine *engine, const char *name, bool mutex, uint64_t admin,
    enum reason reason, const char *text);

/* The B that a claim of this slot would take. slot is ignored for a true mutex. */
struct queue_name registry_slot_queue(const struct semaphore *semaphore, int slot);
/*
 * Whether this daemon reserves the slot (invariant 1). It is then busy, even if the broker has no
 * B.
 */
bool registry_is_reserved(
    const struct lock_engine *engine, const char *name, enum lock_kind kind, int slot);
/* Gives the hold to the peer. The hold must have none. */
void registry_hold_attach(struct lock_engine *engine, struct hold *hold, uint64_t peer);
/* Takes the hold from its peer, and ends its row. */
void registry_hold_detach(struct lock_engine *engine, struct hold *hold);
/* Cancels the eviction of the hold, if there is one. */
void registry_hold_spare(struct lock_engine *engine, struct hold *hold);
/* Sets the state of the hold's watch. The caller tells the broker. */
void registry_hold_watch(struct lock_engine *engine, struct hold *hold, enum hold_watch watch);
/* Ends the watch of the hold's A, here and at the broker. */
void registry_hold_unwatch(struct lock_engine *engine, struct hold *hold);
/*
 * The hold's B is known to be gone: ends the reservation, frees the hold and marks its semaphore
 * dirty. free_now: B was dropped, so the slot is free as far as the daemon knows. Else another
 * holder has it, or nothing is known.
 */
void registry_hold_end(struct lock_engine *engine, struct hold *hold, bool free_now);

/*
 * The rows of holders and waiters (lock.h, struct lock_row). The caller can walk through them, and
 * is told of each change. A row begins with an acquire and passes to the hold that the acquire
 * becomes. It ends when the hold is released or lost, or when the acquire ends without a hold.
 */
/* Moves the waiter's row to the hold. */
void rows_pass(struct lock_engine *engine, struct waiter *waiter, struct hold *hold);
/* The hold has changed. */
void rows_holds(struct lock_engine *engine, const struct hold *hold);

#endif
