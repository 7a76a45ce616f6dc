/*
 * Limits the claims and drops (deletes, cancels) that one user has at the broker at once (invariant 20). RabbitMQ
 * performs them one after the other, an exclusive declare in 1.5 ms, and a consume in 0.05 ms.
 * Without a limit, a client that asks for one lock would wait behind a user that asks for a
 * thousand. The others of a share wait here in order, drops before claims, because each drop
 * frees something.
 *
 * An unsent claim or drop keeps its reservation and its channel. One that is not answered in time
 * counts no more, because a stuck channel would otherwise stop its user. Exempt users have no
 * limit.
 */
#ifndef LOCK_FLIGHT_H
#define LOCK_FLIGHT_H

#include "daemon/lock/core/engine.h"

/* Enough to keep RabbitMQ busy, with one on its way there and one on its way back. */
#define FLIGHTS_MOST 4
/* One by queue, or the claim of a mutex, counts as much as so many others by consumer. */
#define FLIGHT_BY_QUEUE 16

/*
 * Asks to send the claim (CLAIMING) or the drop (DROPPING) of the hold. True: the caller sends it
 * now. False: the hold's timer fires when it may be sent.
 */
bool flight_start(struct lock_engine *engine, struct hold *hold);
/*
 * Ends the hold's flight, if it has one, and lets the next one of the share start. The hold must
 * still be charged to its share.
 */
void flight_end(struct lock_engine *engine, struct hold *hold);

#endif
