/*
 * The requests that extend the lease, and the timer that ends it.
 *
 * While a slot is held, the daemon sends a passive declare every heartbeat/3. It takes the held B
 * that was checked longest ago, so that each B is checked again and again. A second timer wakes at
 * the moments that lease.h draws. Timers only wake: each use of a hold compares a fresh clock with
 * the lease, and calls keepalive_run_out() if the lease is over. The first timer also looks for a
 * claim or a delete that has been unanswered for two heartbeats. If no slot is held, the lock
 * connection is closed and made anew. Else LOCK_NOTICE_STUCK is sent.
 */
#ifndef LOCK_KEEPALIVE_H
#define LOCK_KEEPALIVE_H

#include "daemon/lock/core/engine.h"

void keepalive_init(struct lock_engine *engine);
void keepalive_done(struct lock_engine *engine);
/* A claim is about to be sent: starts the first timer, so that it is noticed if no answer comes. */
void keepalive_start(struct lock_engine *engine);
/* The hold was granted: starts the second timer. */
void keepalive_granted(struct lock_engine *engine, struct hold *hold);
/*
 * The lease is over: each granted hold with a slot is lost now. The lock connection is closed and
 * made anew, and the event of its end follows, which ends all claims and deletes in flight.
 */
void keepalive_run_out(struct lock_engine *engine);

#endif
