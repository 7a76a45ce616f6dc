/*
 * What keeps the lease going, and what ends it. While anything is held: every heartbeat/3 a passive
 * declare of the next held B in rotation, so that every B is seen again and again; and a timer that
 * wakes at the moments drawn in lease.h. The timers only wake: every use of a hold compares a fresh
 * clock with the lease, and calls pulse_run_out() when it finds it over.
 */
#ifndef LOCK_PULSE_H
#define LOCK_PULSE_H

#include "daemon/lock/engine.h"

/* Once. */
void pulse_init(struct lock_engine *engine);
void pulse_done(struct lock_engine *engine);
/* Something is held. */
void pulse_start(struct lock_engine *engine);
/*
 * The lease is over: every hold is lost now, whatever else is on its way, and the link is closed and
 * made anew. Its own event follows, and ends what is in flight.
 */
void pulse_run_out(struct lock_engine *engine);

#endif
