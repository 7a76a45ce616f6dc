/*
 * The lease: how long the lock connection's Bs are certainly there (invariant 7).
 *
 * RabbitMQ drops a silent connection between 2 and 3 heartbeats after the last byte that it *read*
 * (rabbit_heartbeat, 3.10.8), and only an answer proves that it read. So when a request that was sent at
 * time s has been answered, no B of the link is freed by heartbeat timeout before s + 2*heartbeat. Less
 * a margin, for what a peer still has to do by then, that is the lease:
 *
 *	s               s + heartbeat          s + 2*heartbeat - margin
 *	|-----------------|----------------------|--- margin ---|
 *	    GOOD               SUSPECT             lost            the broker may free B
 *
 * One lease for all holds: they are of one link. keepalive.h keeps it going and ends it.
 */
#ifndef LOCK_LEASE_H
#define LOCK_LEASE_H

#include "daemon/lock/core/engine.h"

/* Every answer that came over the lock connection passes here first. Tells who asked for it of the new lease. */
void lease_answered(struct lock_engine *engine, const struct broker_reply *reply);
/* The link died: the next one earns a lease of its own. `held`: with something on it. */
void lease_end(struct lock_engine *engine, bool held);
/* From now on, until the broker has noticed, Bs of ours look like somebody else's. */
void lease_recover(struct lock_engine *engine);
/* Clock time at which holds are lost unless the broker answers meanwhile; INT64_MIN: no lease. */
int64_t lease_until(const struct lock_engine *engine);
/* ns; as negotiated. */
int64_t lease_heartbeat(const struct lock_engine *engine);
/* Clock time at which it becomes suspect unless the broker answers meanwhile. */
int64_t lease_suspect_at(const struct lock_engine *engine);
/* By a fresh clock. */
bool lease_is_good(const struct lock_engine *engine);
/* Tells every holder (suspect, restored). */
void lease_set_state(struct lock_engine *engine, enum lease_state state);

#endif
