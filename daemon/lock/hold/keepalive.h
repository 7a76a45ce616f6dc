/*
 * What keeps the lease going, and what ends it. While anything is held: every heartbeat/3 a passive
 * declare of the held B that was looked at longest ago, so that every B is seen again and again; and a
 * timer that wakes at the moments drawn in lease.h. The timers only wake: every use of a hold compares a
 * fresh clock with the lease, and calls keepalive_run_out() when it finds it over. And while anything is
 * reserved and nothing held, it sees whether a claim or a delete stays unanswered for two heartbeats.
 */
#ifndef LOCK_KEEPALIVE_H
#define LOCK_KEEPALIVE_H

#include "daemon/lock/core/engine.h"

/* Once. */
void keepalive_init(struct lock_engine *engine);
void keepalive_done(struct lock_engine *engine);
/* Something is asked for on the lock connection: it may not stay unanswered for ever. */
void keepalive_start(struct lock_engine *engine);
/* It is held. */
void keepalive_granted(struct lock_engine *engine, struct hold *hold);
/*
 * The lease is over: every hold is lost now, whatever else is on its way, and the link is closed and
 * made anew. Its own event follows, and ends what is in flight.
 */
void keepalive_run_out(struct lock_engine *engine);

#endif
