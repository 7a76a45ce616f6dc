#include "daemon/lock/lease.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/base/margin.h"
#include "daemon/broker/beads.h"

/*
 * Contents:
 *	from_of() and lease_length() are the beginning and the length of the lease of a hold.
 *	lease_until() and lease_suspect_at() are its end, and the time from which it is suspect.
 *	lease_is_good() compares it with a fresh clock.
 *	lease_set_state() changes the lease of the connection, and tells all its holders.
 *	lease_answered() and lease_b_answered() extend a lease, and tell_peers() tells those who asked for it.
 *	lease_end() and lease_recover() are the end of the lock connection.
 *	lock_takeover() and lock_is_recovering() tell operators how long a death goes unnoticed.
 */

int64_t
lease_heartbeat(const struct lock_engine *engine)
{
	return broker_heartbeat(engine->broker) * NSEC_PER_SEC;
}

/* Maximum ns until the broker notices that a connection is dead. */
static int64_t
notice_time(const struct lock_engine *engine)
{
	return 3 * lease_heartbeat(engine);
}

int64_t
lock_margin(const struct lock_engine *engine)
{
	return margin_of(lease_heartbeat(engine), engine->settings.margin);
}

/* Clock time at which the lease began. */
static int64_t
from_of(const struct lock_engine *engine, const struct hold *hold)
{
	FAULT(LEASE_OF_LINK_FOR_ALL, return engine->lease.from);
	return hold != NULL && hold_lease(hold) != HOLD_LEASE_SHARED ? hold->from
								     : engine->lease.from;
}

static bool
is_timed(const struct hold *hold)
{
	return hold != NULL && hold_lease(hold) == HOLD_LEASE_TIMED;
}

int64_t
lease_length(const struct lock_engine *engine, const struct hold *hold)
{
	if (is_timed(hold))
		return bead_lease(hold->grace);
	FAULT(LEASE_WITHOUT_MARGIN, return 2 * lease_heartbeat(engine));
	return 2 * lease_heartbeat(engine) - lock_margin(engine);
}

int64_t
lease_until(const struct lock_engine *engine, const struct hold *hold)
{
	if (engine->lease.state == LEASE_NONE && !is_timed(hold))
		return INT64_MIN;
	return from_of(engine, hold) + lease_length(engine, hold);
}

int64_t
lease_safe_until(const struct lock_engine *engine, const struct hold *hold)
{
	int64_t until = lease_until(engine, hold);

	if (hold == NULL || hold->eviction == NULL || until < hold->eviction->by.deadline)
		return until;
	return hold->eviction->by.deadline;
}

int64_t
lease_suspect_at(const struct lock_engine *engine, const struct hold *hold)
{
	return from_of(engine, hold) +
	       (is_timed(hold) ? lease_length(engine, hold) / 2 : lease_heartbeat(engine));
}

bool
lease_is_good(const struct lock_engine *engine, const struct hold *hold)
{
	return (engine->link == BROKER_UP || is_timed(hold)) &&
	       engine_now(engine) < lease_safe_until(engine, hold);
}

/* From each state, those that may be next. */
static const unsigned lease_changes[] = {
    [LEASE_NONE] = 1U << LEASE_GOOD,
    [LEASE_GOOD] = 1U << LEASE_SUSPECT | 1U << LEASE_NONE,
    [LEASE_SUSPECT] = 1U << LEASE_GOOD | 1U << LEASE_NONE,
};

/*
 * Holders that came while the lease was suspect were not told so. They get no `restored` either.
 * After `restored` the lease is told again, as the client has not heard of it meanwhile.
 */
static void
tell_holder(struct lock_engine *engine, struct hold *hold, bool suspect)
{
	struct lock_notice notice = {
	    .kind = suspect ? LOCK_NOTICE_SUSPECT : LOCK_NOTICE_RESTORED,
	    .lock = hold->lock,
	    .name = hold->name,
	    .slot = hold->slot,
	};

	if (hold->peer == 0 || hold->state == HOLD_SLOTLESS)
		return;
	FAULT(SUSPECT_UNKNOWN, hold->suspect = !suspect);
	if (hold->suspect == suspect)
		return;
	hold->suspect = suspect;
	if (!suspect)
		engine_peer_find(engine, hold->peer)->lease_told = 0;
	engine_notice(engine, hold->peer, &notice);
}

static void
tell_holders(struct lock_engine *engine, bool suspect)
{
	for (struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (suspect ||
		    (!hold->suspended && engine_now(engine) < lease_suspect_at(engine, hold)))
			tell_holder(engine, hold, suspect);
	}
}

/*
 * A peer that wants to know is told of the earliest lease of its holds, once for all of them. Holds
 * that it knows to be suspect do not count. Not each of many answers is told.
 */
static void
tell_peer(struct lock_engine *engine, struct lock_peer *peer)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_LEASE};
	const struct hold *hold, *oldest = NULL;
	bool wanted = false;
	int64_t later;

	TAILQ_FOREACH (hold, &peer->holds, of_peer) {
		FAULT_IF(SUSPECT_UNTOLD_IS_LEFT_OUT,
		    engine_now(engine) >= lease_suspect_at(engine, hold), continue);
		if (FAULT_ELSE(SUSPECT_HOLDS_UP_OTHERS, false, hold->suspect) ||
		    hold->state == HOLD_SLOTLESS)
			continue;
		wanted |= hold->wants_lease;
		FAULT(LEASE_OF_OLDER_ANSWER, peer->lease_told = INT64_MIN / 2);
		/* A lease is told again when it ends at least so much later. */
		later =
		    is_timed(hold) ? lease_length(engine, hold) / 8 : lease_heartbeat(engine) / 3;
		if (lease_until(engine, hold) < peer->lease_told + later)
			return;
		if (oldest == NULL || lease_until(engine, hold) < lease_until(engine, oldest))
			oldest = hold;
	}
	if (!wanted || !lease_is_good(engine, oldest))
		return;
	peer->lease_told = lease_until(engine, oldest);
	notice.safe_until = lease_until(engine, oldest);
	engine_notice(engine, peer->id, &notice);
}

void
lease_suspect(struct lock_engine *engine, struct hold *hold)
{
	bool known = hold->suspect;

	tell_holder(engine, hold, true);
	if (hold->suspect && !known)
		tell_peer(engine, engine_peer_find(engine, hold->peer));
}

/*
 * Any answer counts for the lease of the connection: else a lock with a stuck channel would seem
 * lost while others keep the connection alive.
 */
static void
tell_peers(struct lock_engine *engine)
{
	FAULT(LEASE_OF_OLDER_ANSWER, engine->lease.told = INT64_MIN / 2);
	if (engine->lease.from - engine->lease.told < lease_heartbeat(engine) / 3)
		return;
	engine->lease.told = engine->lease.from;
	for (struct lock_peer *peer = engine->peers; peer != NULL; peer = peer->by_id.next)
		tell_peer(engine, peer);
}

void
lease_set_state(struct lock_engine *engine, enum lease_state state)
{
	enum lease_state old = engine->lease.state;

	assert((lease_changes[old] & 1U << state) != 0);
	engine->lease.state = state;
	if (state == LEASE_SUSPECT)
		tell_holders(engine, true);
	else if (state == LEASE_GOOD && old == LEASE_SUSPECT)
		tell_holders(engine, false);
}

void
lease_answered(struct lock_engine *engine, const struct broker_reply *reply)
{
	if (reply->answer == BROKER_UNKNOWN ||
	    FAULT_ELSE(LEASE_FROM_SKIPPED, false, reply->answer == BROKER_SKIPPED))
		return; /* an answer of the broker layer, not of the broker */
	/* Answers of several channels come in any order: the newest request counts. */
	FAULT(LEASE_OF_OLDER_ANSWER, engine->lease.from = 0);
	if (reply->sent_at > engine->lease.from)
		engine->lease.from = reply->sent_at;
	FAULT(LEASE_FROM_ANSWER, engine->lease.from = engine_now(engine));
	if (engine->lease.state != LEASE_GOOD &&
	    engine_now(engine) < lease_suspect_at(engine, NULL))
		lease_set_state(engine, LEASE_GOOD);
	tell_peers(engine);
}

void
lease_b_answered(struct lock_engine *engine, struct hold *hold, const struct broker_reply *reply)
{
	struct lock_peer *peer;

	if (hold != NULL && reply->answer == BROKER_OK)
		hold_answered(&engine->holds, hold, reply);
	lease_answered(engine, reply);
	if (hold == NULL || reply->answer != BROKER_OK || hold_lease(hold) == HOLD_LEASE_SHARED)
		return;
	if (engine_now(engine) < lease_suspect_at(engine, hold))
		tell_holder(engine, hold, false);
	peer = engine_peer_find(engine, hold->peer);
	if (peer != NULL)
		tell_peer(engine, peer);
}

void
lease_end(struct lock_engine *engine, bool held)
{
	if (engine->lease.state != LEASE_NONE)
		lease_set_state(engine, LEASE_NONE);
	engine->lease.from = 0;
	if (held)
		lease_recover(engine);
}

void
lease_recover(struct lock_engine *engine)
{
	engine->lease.recovered = engine_now(engine) + notice_time(engine);
}

/* ---- queries ---- */

int64_t
lock_takeover(const struct lock_engine *engine)
{
	return notice_time(engine) + engine->settings.rescan_interval;
}

bool
lock_is_recovering(const struct lock_engine *engine)
{
	return engine_now(engine) < engine->lease.recovered;
}
