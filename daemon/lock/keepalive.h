/*
 * All questions about a hold while a client has it. The keepalive asks about B, and its timers end the lease
 * (keepalive_*). The daemon checks A (slot_check_*), watches A (watch_*), and verifies a hold for its client
 * (verify_*). The module must not know how a slot is claimed or released.
 */
#ifndef LOCK_KEEPALIVE_H
#define LOCK_KEEPALIVE_H

#include "daemon/lock/engine.h"

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

/* A claim is about to be sent: starts the first timer, so that it is noticed if no answer comes. */
void keepalive_start(struct lock_engine *engine);
/* Holds were restored. Their newest answers may be old: the first timer is due now. */
void keepalive_resume(struct lock_engine *engine);
/*
 * The hold was granted: starts the second timer, or sets it earlier. If the length of its lease is its own
 * (HOLD_LEASE_TIMED), the timer of the hold extends and ends it.
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

/*
 * Checks of the slot queue (A) of a granted hold. By queue they go out on the channel of the hold.
 * By consumer all share one channel of the lock connection, because a 404 closes the channel. The
 * end of its own channel would free the slot of a revoked hold while its client works on.
 */

/*
 * Asks whether the A of the hold exists. The answer extends the lease before `done` gets it. By
 * consumer BROKER_SKIPPED means that no channel was free after another A was missing. False: no
 * channel is free now.
 */
bool slot_check_ask(struct lock_engine *engine, struct hold *hold, struct broker_done done);

/*
 * Watches the A of a hold, so that its holder is told `revoked` at once if an administrator removes
 * the slot. The watch is a consumer on the auxiliary connection (broker.h). Its news is only a
 * hint: A is then checked. A hold that lasts only a moment is not watched.
 *
 *	NONE --- the moment is over: broker_watch ---> PLACED --- WATCHED: check A ---> ON
 *	  ^                                              ^-- UNWATCHED (auxiliary connection) --|
 *	  +-- HINT: check A; while it exists, watch again later --------------------------------+
 */

/*
 * The hold was granted just now. Does nothing for a true mutex, which has no A.
 * registry_hold_unwatch() ends the watch.
 */
void watch_start(struct lock_engine *engine, struct hold *hold);
/* The broker's event; ctx: the engine. */
void watch_news(void *ctx, const char *queue, enum broker_news news);

/*
 * Verifying a hold. seeds/000 checks A alone. This daemon checks its B too, because a B can vanish
 * (broker.h, deletes_by_name), and a missing B is a lost lock:
 *
 *	-> declare B[slot], passive	<- ours; 404: claim it again, ask again; 405: lost
 *	-> declare A[slot], passive	<- held; 404: revoked
 *
 * The first goes out on the channel of the hold, the second as a check of A, both in one
 * flush. By consumer a 404 of B, and no consumer, is a lost lock.
 *
 * A hold without a slot is held as long as the engine has it: no request is sent.
 *
 * A hold has at most one such flight at the broker, and at most one more that follows. The second
 * answers all requests that came during the first. The load of the lock connection does not grow
 * with the number of requests.
 */

/* The hold is released now: requests that came before that are still sent. */
void verify_send(struct lock_engine *engine, struct hold *hold);
/* The channel died, after the answers to its requests: unfinished verifies go out again. */
void verify_channel_closed(struct lock_engine *engine, uint64_t channel);

void keepalive_init(struct lock_engine *engine);
/* Frees all at the engine's end. */
void keepalive_done(struct lock_engine *engine);

#endif
