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
 * An exclusive queue is at home on the node of its connection: all holds by queue have the lease of
 * the connection. A durable B may be at home on another node, which can lose this one without the
 * connection's notice. A hold by consumer therefore has a lease of its own. It begins with the
 * newest answered question about its B, which the process of the queue answers. Such a question is
 * also one of the connection, so this lease is never the longer one. keepalive.h extends and ends
 * both.
 */
#ifndef LOCK_LEASE_H
#define LOCK_LEASE_H

#include "daemon/lock/engine.h"

/*
 * Every answer on the lock connection passes here first, those about a B by the second function.
 * Extends the lease, and tells clients of it that asked to be told. hold: NULL if it is gone.
 */
void lease_answered(struct lock_engine *engine, const struct broker_reply *reply);
void lease_b_answered(
    struct lock_engine *engine, struct hold *hold, const struct broker_reply *reply);
/* The lock connection ended: the lease is NONE. `held`: there were Bs on it. */
void lease_end(struct lock_engine *engine, bool held);
/* The lock connection ends: until the broker notices, this daemon's Bs look like other holders. */
void lease_recover(struct lock_engine *engine);
/*
 * Clock time at which a hold is lost if no more answers come. hold NULL: all holds. INT64_MIN:
 * there is no lease.
 */
int64_t lease_until(const struct lock_engine *engine, const struct hold *hold);
/* The same, but not later than the deadline of an eviction. */
int64_t lease_safe_until(const struct lock_engine *engine, const struct hold *hold);
/* How long it lasts from the question on that extends it, ns. hold NULL: that of the connection. */
int64_t lease_length(const struct lock_engine *engine, const struct hold *hold);
/* ns, as negotiated. */
int64_t lease_heartbeat(const struct lock_engine *engine);
/* Clock time at which the lease becomes SUSPECT if no more answers come. */
int64_t lease_suspect_at(const struct lock_engine *engine, const struct hold *hold);
/*
 * Whether the lease lasts, by a fresh clock, and the lock connection is up. False from the deadline
 * of an eviction on.
 */
bool lease_is_good(const struct lock_engine *engine, const struct hold *hold);
/* The one way in which the state changes. Tells each holder: suspect, restored. */
void lease_set_state(struct lock_engine *engine, enum lease_state state);
/* Tells the holder that the lease of its hold is suspect, unless it knows. */
void lease_suspect(struct lock_engine *engine, struct hold *hold);

#endif
