/*
 * How many claims and deletes one user has at the broker at once. RabbitMQ performs them one after the other
 * (an exclusive declare takes it 1.5 ms), for everybody: of a user that asks for a thousand locks the
 * last would come before what another user asks for a moment later. So few of a share are sent. The
 * others wait here in order, deletes before claims: each frees something.
 *
 * What is not sent keeps its reservation and its channel. What is not answered in time is not counted any
 * more, or a channel that is stuck would stop its user. Exempt users have no limit.
 */
#ifndef LOCK_FLIGHT_H
#define LOCK_FLIGHT_H

#include "daemon/lock/core/engine.h"

/* So many keep RabbitMQ busy, with one on its way to it and one on its way back; more only wait there. */
#define FLIGHTS_MOST 4

/*
 * The claim (CLAIMING) or the delete (DROPPING) of the hold is to be sent. True: now. False: when the hold's
 * timer fires, which is set when its turn has come.
 */
bool flight_start(struct lock_engine *engine, struct hold *hold);
/* It is over, if there is one; the next one's turn has come. The hold must be charged to its share still. */
void flight_end(struct lock_engine *engine, struct hold *hold);

#endif
