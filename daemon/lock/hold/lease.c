#include "daemon/lock/hold/lease.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/base/margin.h"

int64_t
lease_heartbeat(const struct lock_engine *engine)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	return info.heartbeat * NSEC_PER_SEC;
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

int64_t
lease_until(const struct lock_engine *engine)
{
	if (engine->lease.state == LEASE_NONE)
		return INT64_MIN;
	FAULT(LEASE_WITHOUT_MARGIN, return engine->lease.from + 2 * lease_heartbeat(engine));
	return engine->lease.from + 2 * lease_heartbeat(engine) - lock_margin(engine);
}

int64_t
lease_suspect_at(const struct lock_engine *engine)
{
	return engine->lease.from + lease_heartbeat(engine);
}

bool
lease_is_good(const struct lock_engine *engine)
{
	return engine->link == BROKER_UP && engine_now(engine) < lease_until(engine);
}

/* From each state, those that may be next. */
static const unsigned changes[] = {
    [LEASE_NONE] = 1U << LEASE_GOOD,
    [LEASE_GOOD] = 1U << LEASE_SUSPECT | 1U << LEASE_NONE,
    [LEASE_SUSPECT] = 1U << LEASE_GOOD | 1U << LEASE_NONE,
};

/* Holders that came while the lease was suspect were not told so. They get no `restored` either. */
static void
tell_holders(struct lock_engine *engine, enum lock_notice_kind kind)
{
	bool suspect = kind == LOCK_NOTICE_SUSPECT;

	for (struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		struct lock_notice notice = {
		    .kind = kind, .lock = hold->lock, .name = hold->name, .slot = hold->slot};

		if (hold->peer == 0 || hold->state == HOLD_SLOTLESS)
			continue;
		FAULT(SUSPECT_UNKNOWN, hold->suspect = !suspect);
		if (hold->suspect == suspect)
			continue;
		hold->suspect = suspect;
		engine_notice(engine, hold->peer, &notice);
	}
}

/*
 * Each peer that asked for it is told of the new lease, once. Any answer counts: else a lock with a
 * stuck channel would seem lost while others keep the connection alive. Not each of many answers is
 * told.
 */
static void
tell_lease(struct lock_engine *engine)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_LEASE, .safe_until = lease_until(engine)};

	FAULT(LEASE_OF_OLDER_ANSWER, engine->lease.told = INT64_MIN / 2);
	if (engine->lease.from - engine->lease.told < lease_heartbeat(engine) / 3 ||
	    !lease_is_good(engine))
		return;
	engine->lease.told = engine->lease.from;
	for (struct lock_peer *peer = engine->peers; peer != NULL; peer = peer->by_id.next) {
		const struct hold *hold;

		TAILQ_FOREACH (hold, &peer->holds, of_peer) {
			if (hold->wants_lease)
				break;
		}
		if (hold != NULL)
			engine_notice(engine, peer->id, &notice);
	}
}

void
lease_set_state(struct lock_engine *engine, enum lease_state state)
{
	enum lease_state old = engine->lease.state;

	assert((changes[old] & 1U << state) != 0);
	engine->lease.state = state;
	if (state == LEASE_SUSPECT)
		tell_holders(engine, LOCK_NOTICE_SUSPECT);
	else if (state == LEASE_GOOD && old == LEASE_SUSPECT)
		tell_holders(engine, LOCK_NOTICE_RESTORED);
}

void
lease_answered(struct lock_engine *engine, const struct broker_reply *reply)
{
	enum broker_answer answer = reply->answer;

	FAULT_IF(LEASE_FROM_SKIPPED, answer == BROKER_SKIPPED, answer = BROKER_OK);
	if (answer == BROKER_SKIPPED || answer == BROKER_UNKNOWN)
		return; /* an answer of the broker layer, not of the broker */
	/* Answers of several channels come in any order: the newest request counts. */
	FAULT(LEASE_OF_OLDER_ANSWER, engine->lease.from = 0);
	if (reply->sent_at > engine->lease.from)
		engine->lease.from = reply->sent_at;
	FAULT(LEASE_FROM_ANSWER, engine->lease.from = engine_now(engine));
	if (engine->lease.state != LEASE_GOOD && engine_now(engine) < lease_suspect_at(engine))
		lease_set_state(engine, LEASE_GOOD);
	tell_lease(engine);
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
