/*
 * A hold from its grant to its end (lifecycle_*). Its end leads to hints for other daemons (hint_*). If the
 * hold was by quorum and is lost, the daemon notices when its client stops (lost_*). The module must not know
 * the timers of the lease (keepalive.h). It must not choose the next holder (queue.h, release.h).
 */
#ifndef LOCK_HOLD_H
#define LOCK_HOLD_H

#include "daemon/lock/engine.h"

/*
 * While a hold lives, B is checked. The hold is revoked, lost or dropped.
 *
 * By queue: a B that is gone is claimed again. The channel may die, and is replaced while the hold
 * continues. Closing a channel frees no slot (invariant 6): only a delete does, and delete-ok
 * proves it.
 *
 * By consumer: a B that is gone, a consumer that the broker ended, and a dead channel are a lost
 * hold. Another may have the slot since. Closing a channel frees the slot, so A is never checked on
 * the channel of a granted hold (keepalive.h).
 */

/* The hold was granted just now: starts its checks. */
void lifecycle_start(struct lock_engine *engine, struct hold *hold);
/* The hold was handed off after a time without a peer: its checks go on. */
void lifecycle_resume(struct lock_engine *engine, struct hold *hold);
/* The hold was handed off: answers its release (0: none) under the old number `lock`. */
void lifecycle_passed(
    struct lock_engine *engine, struct hold *hold, uint64_t releasing, uint64_t lock);
/* The hold's channel, replaced if it died (by queue); 0: none is free now. */
uint64_t lifecycle_channel(struct lock_engine *engine, struct hold *hold);
/* The reply to any check of B; hold: NULL if it is gone by now. */
void lifecycle_b_answered(
    struct lock_engine *engine, struct hold *hold, const struct broker_reply *reply);
/* A was answered 404: marks the hold revoked and tells the client, once (invariant 5). */
void lifecycle_revoke(struct lock_engine *engine, struct hold *hold);
/*
 * Gives B back. By queue: sends its delete, and again if the channel dies before the answer. By
 * consumer: cancels the consumer, or its channel is dead. A hold without a slot ends at once.
 */
void lifecycle_drop(struct lock_engine *engine, struct hold *hold);
/* As lifecycle_drop(), with a reason (objects.h); only for a hold with a slot. */
void lifecycle_drop_for(struct lock_engine *engine, struct hold *hold, enum hold_drop why);
/* The broker ended the consumer of a hold that is not CHECKING: see broker.h. */
void lifecycle_cancelled(struct lock_engine *engine, struct hold *hold);
/*
 * By consumer: the hold is lost now, and its consumer is dropped if it still exists. The slot stays
 * reserved until then.
 */
void lifecycle_lose(struct lock_engine *engine, struct hold *hold, const char *why);
/* Its deadline has come: the hold is lost now, and its slot is dropped. */
void lifecycle_evict(struct lock_engine *engine, struct hold *hold);
/* The daemon stops: the hold is lost now, and its slot is dropped. */
void lifecycle_abandon(struct lock_engine *engine, struct hold *hold);
/*
 * The channel died, after the answers to its requests: unperformed requests go out on a new one. why: of
 * a hold by quorum.
 */
void lifecycle_channel_closed(struct lock_engine *engine, uint64_t channel, const char *why);
/*
 * All holds with a slot are lost and end. held_only: the lock connection is up and is reset next.
 * Then only holds with a peer are lost now, and the event of the connection's end ends the others.
 */
void lifecycle_all_lost(struct lock_engine *engine, const char *why, bool held_only);
/* The lock connection died, and every B with it. */
void lifecycle_link_died(struct lock_engine *engine, const char *why);

/*
 * Holds by quorum whose clients were told `lost`, and may still work. When such a client has stopped, the
 * broker layer is told, which can make the slot clean (rule 8 of docs/QUORUM.md). A client has stopped when it
 * releases the lost lock. It also has when its connection has ended and its lease is over: some clients hang up
 * because of the loss, before their work ends. A timeout is no sign of a stop.
 */
/* The peer releases a lock that it does not hold any more, or never did. */
void lost_released(struct lock_engine *engine, uint64_t peer, uint64_t lock);
void lost_peer_gone(struct lock_engine *engine, uint64_t peer);

struct state_reader;
struct state_writer;

/* For the successor. */
void lost_save_all(const struct lock_engine *engine, struct state_writer *writer);
/* False: the reader has the error. */
bool lost_restore_all(struct lock_engine *engine, struct state_reader *reader)
    __attribute__((warn_unused_result));

/*
 * The hints that this daemon sends. After a slot's B is known to be free, it sends one hint to the
 * name's wait queue (broker.h). A daemon that gets a hint claims the slot, and the claim decides
 * (invariant 15).
 *
 * The daemon then withholds the slot for hint_grace, because its own newcomers would always be
 * faster than the daemon that gets the hint. The time ends early if the hint comes back, or if the
 * broker returns it because no client waits (queue.h). While the auxiliary connection is
 * away, the broker layer keeps the hints for later, and no slot is withheld.
 *
 * If the last hint of a name has just come back, the next one is sent a moment later. It is not sent if
 * the slot is held again. A client that takes and releases a lock again and again sends few hints.
 *
 * By quorum, a hint that has come back is sent again a moment later. The broker needs some time to free the
 * slot after its release, and a waiter that probes meanwhile finds it busy.
 *
 * After many hand-offs of a slot, while no other daemon waits, the slot is sometimes freed without
 * a hint, and withheld for the same time. Clients that poll can get it then.
 */

/* The hold's B is known to be free: sends a hint as hold->drop says, and withholds the slot. */
void hint_freed(struct lock_engine *engine, const struct hold *hold);
/*
 * A removed slot has no holder any more, which helps no waiter, unless the slot has come back. Else
 * its durable B is deleted (mutex.h).
 */
void hint_removed(struct lock_engine *engine, const char *name, int slot, enum broker_way way);
/*
 * The broker's event; ctx: the engine. The slot by quorum with that B is free now. A hint was sent when its
 * hold ended. A daemon that came too early took the slot for busy.
 */
void hint_reclaimed(void *ctx, const char *queue);
/* Whether such a B may be deleted, as the broker has not said yet that the slot is gone. */
bool hint_asks_about_removed(const struct lock_engine *engine);
/* Whether a hint that is sent now is delivered now. */
bool hint_can_be_heard(const struct lock_engine *engine);
/*
 * An administrator has changed the size of the semaphore. A size may be LOCK_UNLIMITED, or -1: not
 * known, or destroyed. Sends hints to daemons with waiters, if the change may matter to them.
 */
void hint_changed(struct lock_engine *engine, const char *name, int from, int to);
/* A hint about that slot has come back: nobody waited. */
void hint_came_back(struct lock_engine *engine, const struct semaphore *semaphore, int slot);
/* The daemon stops: the hints that were to be sent a moment later are sent now. */
void hint_send_all(struct lock_engine *engine);

/* Frees the lost holds and all unsent hints, at the engine's end. */
void lifecycle_done(struct lock_engine *engine);

#endif
