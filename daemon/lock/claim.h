/*
 * One flight for one slot, on one lane of the hold link:
 *
 *	-> declare B[slot], exclusive		<- declare-ok, or 405: lost the race
 *	-> declare A[slot], passive		<- declare-ok, or 404: no such slot
 *
 * Both go out together; the answers come in order, so an A that is seen was there after B was ours
 * (invariant 2). A true mutex is the first line alone. Whoever asked may be gone by the answer: then
 * the B that turns out to be ours is dropped (invariant 3). After the request timeout a waiter is sent
 * back to its line, and the answer is nobody's, too.
 */
#ifndef LOCK_CLAIM_H
#define LOCK_CLAIM_H

#include "daemon/lock/engine.h"

/* The B that a claim of this slot would take. slot is ignored for a true mutex. */
struct queue_name claim_queue(
    const struct lock_engine *engine, const char *name, enum lock_kind kind, int slot);
/* Whether it is reserved here (invariant 1), so that it is taken, whatever the broker says of its B. */
bool claim_is_reserved(
    const struct lock_engine *engine, const char *name, enum lock_kind kind, int slot);
/*
 * Reserves the slot, which must not be reserved, and sends the flight in its turn, on a channel that is charged to
 * the share, which must have room for it. Returns the hold's id, and `claimed` is called once, later; or
 * 0 when no lane could be had after all (channels_not_given()), and nothing was done.
 */
uint64_t claim_start(struct lock_engine *engine, uint64_t acquire, struct share *share,
    const char *name, enum lock_kind kind, int slot, hold_claimed_fn *claimed);
/* Its turn has come (flight.h). */
void claim_send(struct lock_engine *engine, struct hold *hold);
/* Its acquire is gone: a claim that was not sent ends, and the hold with it. */
void claim_give_up(struct lock_engine *engine, struct hold *hold);

#endif
