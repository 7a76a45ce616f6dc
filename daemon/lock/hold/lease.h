/*
 * The lease: how long the Bs of the lock connection certainly exist (invariant 7).
 *
 * RabbitMQ closes a silent connection between 2 and 3 heartbeats after the last byte that it *read*
 * (rabbit_heartbeat, 3.10.8). Only an answer proves that it read. If it answers a request that was
 * sent at time s, no heartbeat timeout frees a B of this connection before s + 2*heartbeat. The
 * lease is that time less a margin, in which a client can still react:
 *
 *	s               s + heartbeat          s + 2*heartbeat - margin
 *	|-----------------|----------------------|--- margin ---|
 *	    GOOD               SUSPECT             lost            the broker may free B
 *
 * All holds have one lease, as they are on one connection. keepalive.h extends and ends it.
 */
#ifndef LOCK_LEASE_H
#define LOCK_LEASE_H

#include "daemon/lock/core/engine.h"

/*
 * Every answer on the lock connection passes here first. Extends the lease, and tells clients of it
 * that asked to be told.
 */
void lease_answered(struct lock_engine *engine, const struct broker_reply *reply);
/* The lock connection ended: the lease is NONE. `held`: there were Bs on it. */
void lease_end(struct lock_engine *engine, bool held);
/* The lock connection ends: until the broker notices, this daemon's Bs look like other holders. */
void lease_recover(struct lock_engine *engine);
/* Clock time at which holds are lost if no more answers come; INT64_MIN: no lease. */
int64_t lease_until(const struct lock_engine *engine);
/* ns, as negotiated. */
int64_t lease_heartbeat(const struct lock_engine *engine);
/* Clock time at which the lease becomes SUSPECT if no more answers come. */
int64_t lease_suspect_at(const struct lock_engine *engine);
/* Whether the lease lasts, by a fresh clock, and the lock connection is up. */
bool lease_is_good(const struct lock_engine *engine);
/* The one way in which the state changes. Tells each holder: suspect, restored. */
void lease_set_state(struct lock_engine *engine, enum lease_state state);

#endif
