/*
 * The requests that extend the lease, and the timer that ends it.
 *
 * Every heartbeat/3 the daemon asks about each held B, by a passive declare on the channel of the
 * hold. The questions are spread over that time, the oldest B first, about 64 at once. A second
 * timer wakes at the moments that lease.h draws. Timers only wake: each use of a hold compares a
 * fresh clock with its lease. If the lease of the connection is over, all holds are lost
 * (keepalive_run_out()). If only that of one hold is over, this hold is lost.
 *
 * The first timer also looks for a claim or a drop that has been unanswered for two heartbeats. If
 * no slot is held, the lock connection is closed and made anew. Else LOCK_NOTICE_STUCK is sent.
 */
#ifndef LOCK_KEEPALIVE_H
#define LOCK_KEEPALIVE_H

#include "daemon/lock/core/engine.h"

void keepalive_init(struct lock_engine *engine);
void keepalive_done(struct lock_engine *engine);
/* A claim is about to be sent: starts the first timer, so that it is noticed if no answer comes. */
void keepalive_start(struct lock_engine *engine);
/* Holds were restored. Their newest answers may be old: the first timer is due now. */
void keepalive_resume(struct lock_engine *engine);
/*
 * The hold was granted: starts the second timer, or sets it earlier. If the length of its lease is its own
 * (LEASE_TIMED), the timer of the hold extends and ends it.
 */
void keepalive_granted(struct lock_engine *engine, struct hold *hold);
/*
 * The channel of a hold by quorum ended. Its client is told that the lease is suspect. The answer to the next
 * question about it says that it goes on.
 */
void keepalive_suspended(struct lock_engine *engine, struct hold *hold);
/*
 * Before that, for a restored hold by quorum: if the earlier program has asked for a proof, its answer extends the
 * lease. The hold is not asked about before.
 */
void keepalive_await(struct lock_engine *engine, struct hold *hold);
/*
 * The lease of the connection is over: each granted hold with a slot is lost now. The lock
 * connection is closed and made anew, and the event of its end follows, which ends all claims and
 * drops in flight.
 */
void keepalive_run_out(struct lock_engine *engine);
/* Ends what the leases that are over by a fresh clock say: of the connection, or of single holds. */
void keepalive_check(struct lock_engine *engine);

#endif
