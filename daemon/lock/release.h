/*
 * Releasing a hold (seeds/000). B is deleted, and the release is answered after delete-ok
 * (invariant 6), unless the slot is handed off. The seed also allows to close the channel. That
 * frees nothing, because RabbitMQ's exclusive queues belong to the connection.
 *
 * Hand-off (invariant 17): if a holder releases or hangs up while a client waits here, the slot
 * passes to the waiter inside the daemon. B, its channel and the watch on A stay; the hold gets a
 * new number. The release is answered at once, as there is no delete to wait for.
 *
 *	series at its end?		-> count consumers of other daemons. Any: delete B, with a
 *					   hint. None: begin a new series; sometimes delete B all the
 *					   same, for clients that only poll
 *	A exists and B is ours?		-> certain if A is watched, the lock connection has answered
 *					   within a second, and more than half a heartbeat of the
 *					   lease is left
 *	not certain			-> check A (of a true mutex B) on the hold's own channel
 *	then				-> pass the hold to the first waiter that can use it, by a
 *					   fresh clock
 *
 * A series is max_local_handoffs hand-offs of a slot. The count is requested ahead, when the last
 * client of the series gets the slot. A hold is never handed off while it is revoked, verified or
 * claimed again, or while the daemon stops.
 */
#ifndef LOCK_RELEASE_H
#define LOCK_RELEASE_H

#include "daemon/lock/engine.h"

/* Ends all holds and waiters of the peer. A claim in flight is dropped when its B is known. */
void release_peer(struct lock_engine *engine, uint64_t peer);
/* The hold is lost at that deadline, in place of an earlier eviction. Nobody is told. */
void release_evict(struct lock_engine *engine, struct hold *hold, const struct lock_eviction *by);

#endif
