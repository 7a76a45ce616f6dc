/*
 * What belongs to whom, from beginning to end: peers and what they hold and wait for, waiters, the
 * semaphores that are known, reservations. Each life has one beginning and one end here, in which all the
 * tables and lists that know of it take part.
 */
#ifndef LOCK_REGISTRY_H
#define LOCK_REGISTRY_H

#include "daemon/lock/core/engine.h"

/* The peer's entry, made when there is none. It goes when it neither holds nor waits. */
struct lock_peer *registry_peer(struct lock_engine *engine, uint64_t id);
void registry_peer_let_go(struct lock_engine *engine, struct lock_peer *peer); /* it may go now */

/* The semaphore (or mutex) of a name, made when there is none. */
struct semaphore *registry_semaphore(struct lock_engine *engine, const char *name, bool mutex);
/* Forgets a name: nobody may wait for it, and no scan may be in progress. */
void registry_semaphore_end(struct lock_engine *engine, struct semaphore *semaphore);

void registry_waiter_attach(struct lock_engine *engine, struct waiter *waiter);
/* The one way in which its state changes (line.h). */
void registry_waiter_set_state(
    struct lock_engine *engine, struct waiter *waiter, enum waiter_state state);
/* It rests for so many ns; and one that rests is back in the line. Another is left alone. */
void registry_waiter_rest(struct lock_engine *engine, struct waiter *waiter, int64_t wait);
void registry_waiter_wake(struct lock_engine *engine, struct waiter *waiter);
/* Frees the waiter, unanswered: its peer is gone. */
void registry_waiter_free(struct lock_engine *engine, struct waiter *waiter);
/* The one door for answers to acquires: frees the waiter, and answers. */
void registry_waiter_end(
    struct lock_engine *engine, struct waiter *waiter, const struct lock_answer *answer);
/* The same, with a refusal; text: NULL = the reason's own. */
void registry_waiter_refuse(
    struct lock_engine *engine, struct waiter *waiter, enum reason reason, const char *text);
/*
 * A create or a change of `name` is over: those who stand behind it (`behind` is its number) go on, or,
 * when it was theirs (admin_create_missing()) and failed for good, are refused. Everybody else in the
 * line is looked for. text: NULL = the reason's own.
 */
void registry_admin_done(struct lock_engine *engine, const char *name, uint64_t admin,
    enum reason reason, const char *text);

/* The B that a claim of this slot would take. slot is ignored for a true mutex. */
struct queue_name registry_slot_queue(
    const struct lock_engine *engine, const char *name, enum lock_kind kind, int slot);
/* Whether it is reserved here (invariant 1), so that it is busy, whatever the broker says of its B. */
bool registry_is_reserved(
    const struct lock_engine *engine, const char *name, enum lock_kind kind, int slot);
/* Makes the hold the peer's; and nobody's again. */
void registry_hold_attach(struct lock_engine *engine, struct hold *hold, uint64_t peer);
void registry_hold_detach(struct lock_engine *engine, struct hold *hold);
/* The state of its watch; the broker is told by who changes it. */
void registry_hold_watch(struct lock_engine *engine, struct hold *hold, enum hold_watch watch);
/* Nothing more is to be told of its A. */
void registry_hold_unwatch(struct lock_engine *engine, struct hold *hold);
/*
 * The hold's B is known to be gone: ends the reservation and lets the line of its name move. `free_now`:
 * the slot is free as far as anybody knows (it was deleted); else somebody else has it, or nobody can
 * tell.
 */
void registry_hold_end(struct lock_engine *engine, struct hold *hold, bool free_now);

#endif
