#include "daemon/lock/hold/keepalive.h"

#include <assert.h>
#include <stdio.h>

#include "daemon/base/fault.h"
#include "daemon/broker/setup.h"
#include "daemon/lock/hold/lifecycle.h"
#include "daemon/lock/hold/lease.h"
#include "protocol/duration.h"

/* Questions of one pass, and one more if both kinds of leases are rounded up. */
#define ASK_MOST 64

/* Whether somebody relies on the lock connection. */
static bool
is_needed(const struct lock_engine *engine)
{
	return engine->holds.aged[HOLD_LEASE_SHARED] + engine->holds.aged[HOLD_LEASE_OWN] > 0;
}

/* All granted holds with a slot are lost now, and the lock connection is made anew. */
static void
give_up(struct lock_engine *engine, const char *why)
{
	engine->link = BROKER_DOWN; /* no request goes out on it any more */
	lease_recover(engine);      /* when its event comes, no hold is left */
	lifecycle_all_lost(engine, why, true);
	FAULT(LEASE_END_KEEPS_LINK, return;);
	broker_reset(engine->broker, BROKER_LOCKS, why);
}

/* ---- the keepalive ---- */

/* The passes in which all held Bs are asked about once. */
static size_t
passes(const struct lock_engine *engine)
{
	size_t aged = engine->holds.aged[HOLD_LEASE_OWN] + engine->holds.aged[HOLD_LEASE_SHARED];

	return aged == 0 ? 1 : (aged + ASK_MOST - 1) / ASK_MOST;
}

static void
schedule_keepalive(struct lock_engine *engine)
{
	timers_set(engine->timers, &engine->lease.keepalive,
	    engine_now(engine) + lease_heartbeat(engine) / 3 / (int64_t)passes(engine));
}

static void
on_keepalive(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	/* In other states it is the time of another request. */
	if (hold != NULL && (hold->state == HOLD_HELD || hold->state == HOLD_COUNTING))
		hold->asked = 0;
	lifecycle_b_answered(engine, hold, reply);
}

/*
 * A frozen engine asks only where the lease would become suspect. Then fewer requests are
 * unanswered.
 */
static bool
may_wait(const struct lock_engine *engine, const struct hold *hold)
{
	FAULT_IF(FROZEN_ASKS_NOTHING, engine->frozen, return true);
	return engine->frozen && engine_now(engine) - hold->from < lease_heartbeat(engine) / 2;
}

/*
 * Asks about the Bs with a lease of that kind, the oldest first. Without an order, and if locks
 * come and go faster than the keepalive, always young ones would be asked about.
 */
static void
ask_oldest(struct lock_engine *engine, enum hold_lease lease)
{
	size_t most = (engine->holds.aged[lease] + passes(engine) - 1) / passes(engine);
	struct hold *hold;

	FAULT_IF(KEEPALIVE_OF_ONE, most > 1, most = 1);
	TAILQ_FOREACH (hold, &engine->holds.ages[lease], of_ages) {
		if (most == 0 || may_wait(engine, hold))
			return;
		if (hold->state != HOLD_HELD || hold->asked != 0 ||
		    lifecycle_channel(engine, hold) == 0)
			continue;
		most--;
		hold->asked = engine_now(engine);
		broker_check_holder(engine->broker, hold->channel, hold->way, hold->b.text,
		    (struct broker_done){on_keepalive, engine, hold->id});
	}
}

/*
 * A claim or a delete may be performed late, or its channel may be stuck. Its slot stays reserved
 * until this is known (the in-flight rule), and the end of the connection is the only other way to
 * know. Held locks are worth more than one slot, so the connection is closed only if nothing is
 * held. Else LOCK_NOTICE_STUCK tells the operator why the slot cannot be had.
 */
static bool
is_stuck_for_nothing(struct lock_engine *engine)
{
	int64_t long_ago = engine_now(engine) - 2 * lease_heartbeat(engine);
	bool needed = is_needed(engine);

	if (engine_now(engine) < engine->lease.stuck_at)
		return false; /* it was searched for in this third of a heartbeat */
	engine->lease.stuck_at = engine_now(engine) + lease_heartbeat(engine) / 3;
	FAULT(STUCK_CHANNEL_IGNORED, needed = true);
	for (struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		const struct lock_notice notice = {
		    .kind = LOCK_NOTICE_STUCK, .name = hold->name, .slot = hold->slot};

		if (hold->asked == 0 || hold->asked > long_ago || hold->suspended)
			continue;
		if (!needed)
			return true;
		if (hold->peer != 0 || hold->stuck)
			continue;
		hold->stuck = true;
		engine_notice(engine, 0, &notice);
	}
	return false;
}

static void
keepalive_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	(void)id;
	if (hold_count_on_link(&engine->holds) == 0 || engine->link != BROKER_UP)
		return;
	schedule_keepalive(engine);
	if (is_stuck_for_nothing(engine)) {
		give_up(engine, "a channel to the broker is stuck: no answer for two heartbeats");
		return;
	}
	ask_oldest(engine, HOLD_LEASE_OWN);
	ask_oldest(engine, HOLD_LEASE_SHARED);
}

/* ---- a hold whose lease has a length of its own ---- */

/* How often it is extended in that time. */
#define RENEWALS 5

static void on_renewed(void *ctx, uint64_t id, const struct broker_reply *reply);

/* As may_wait(): a frozen engine asks half as often. */
static int64_t
renew_at(const struct lock_engine *engine, const struct hold *hold)
{
	return hold->from + lease_length(engine, hold) / RENEWALS * (engine->frozen ? 2 : 1);
}

/* The next moment at which something is to be done. */
static void
schedule_renewal(struct lock_engine *engine, struct hold *hold)
{
	int64_t now = engine_now(engine), suspect_at = lease_suspect_at(engine, hold);
	int64_t when = now < suspect_at ? suspect_at : lease_until(engine, hold);

	if (hold->asked == 0 && renew_at(engine, hold) < when)
		when = renew_at(engine, hold);
	timers_set(engine->timers, &hold->timer, when);
}

static void
ask(struct lock_engine *engine, struct hold *hold)
{
	hold->asked = engine_now(engine);
	broker_check_holder(engine->broker, hold->channel, hold->way, hold->b.text,
	    (struct broker_done){on_renewed, engine, hold->id});
}

/* The hold's timer. A renewal that is not answered is never sent again: the lease runs out. */
static void
renewal_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);
	int64_t now = engine_now(engine);
	char why[96];

	assert(hold->state == HOLD_HELD && hold_lease(hold) == HOLD_LEASE_TIMED);
	if (now >= lease_until(engine, hold)) {
		snprintf(why, sizeof(why), "the lease ran out: it was not confirmed for %.1f s",
		    duration_to_seconds(now - hold->from));
		lifecycle_lose(engine, hold, why);
		return;
	}
	if (now >= lease_suspect_at(engine, hold))
		lease_suspect(engine, hold);
	if (hold->asked == 0 && hold->channel != 0 && now >= renew_at(engine, hold))
		ask(engine, hold);
	schedule_renewal(engine, hold);
}

static void
on_renewed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold;

	on_keepalive(ctx, id, reply);
	hold = hold_find(&engine->holds, id);
	if (hold != NULL && hold->state == HOLD_HELD)
		schedule_renewal(engine, hold);
}

void
keepalive_suspended(struct lock_engine *engine, struct hold *hold)
{
	/* A hand-off ends. The slot is claimed anew. */
	if (hold->state == HOLD_COUNTING || hold->state == HOLD_PASSING)
		lifecycle_drop(engine, hold);
	if (hold->state != HOLD_HELD)
		return;
	hold->suspended = true;
	lease_suspect(engine, hold);
	if (hold->asked == 0)
		ask(engine, hold);
	schedule_renewal(engine, hold);
}

void
keepalive_await(struct lock_engine *engine, struct hold *hold)
{
	FAULT(RESTORED_PROOF_UNHEARD, return;);
	if (broker_await_proof(
		engine->broker, hold->channel, (struct broker_done){on_renewed, engine, hold->id}))
		hold->asked = engine_now(engine);
}

/* ---- the end ---- */

/* The next moment of a hold with a lease of its own. */
static int64_t
next_moment(const struct lock_engine *engine, const struct hold *hold, int64_t now)
{
	int64_t suspect_at = lease_suspect_at(engine, hold);

	return now < suspect_at ? suspect_at : lease_until(engine, hold);
}

/* Holds have been told what is due by `now`. */
static void
schedule_watch(struct lock_engine *engine, int64_t now)
{
	int64_t when = engine->lease.state == LEASE_GOOD ? lease_suspect_at(engine, NULL)
							 : lease_until(engine, NULL);
	const struct hold *hold;

	TAILQ_FOREACH (hold, &engine->holds.ages[HOLD_LEASE_OWN], of_ages) {
		int64_t next = next_moment(engine, hold, now);

		if (next < when)
			when = next;
		if (now < lease_suspect_at(engine, hold))
			break; /* those behind it are younger */
	}
	timers_set(engine->timers, &engine->lease.watch, when);
}

/* The leases of single holds. */
static void
watch_holds(struct lock_engine *engine, int64_t now)
{
	struct hold *hold, *next;
	char why[96];

	TAILQ_FOREACH_SAFE (hold, &engine->holds.ages[HOLD_LEASE_OWN], of_ages, next) {
		if (now < lease_suspect_at(engine, hold))
			return;
		if (now < lease_until(engine, hold)) {
			lease_suspect(engine, hold);
			continue;
		}
		FAULT(HOLD_LEASE_END_NOT_TOLD, continue);
		snprintf(why, sizeof(why),
		    "the lease ran out: no answer about the holder queue for %.1f s",
		    duration_to_seconds(now - hold->from));
		lifecycle_lose(engine, hold, why);
	}
}

void
keepalive_check(struct lock_engine *engine)
{
	int64_t now;

	if (!lease_is_good(engine, NULL)) {
		FAULT(LEASE_END_NOT_TOLD, return;);
		keepalive_run_out(engine);
		return;
	}
	/* Read once: no moment may pass between what is told and what is scheduled. */
	now = engine_now(engine);
	if (engine->lease.state == LEASE_GOOD && now >= lease_suspect_at(engine, NULL))
		lease_set_state(engine, LEASE_SUSPECT);
	watch_holds(engine, now);
	schedule_watch(engine, now);
}

static void
watch_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	(void)id;
	if (is_needed(engine))
		keepalive_check(engine);
}

void
keepalive_run_out(struct lock_engine *engine)
{
	char why[96];

	if (engine->link != BROKER_UP)
		return; /* done already, or done by the event of the connection */
	snprintf(why, sizeof(why), "the lease ran out: no answer from the broker for %.1f s",
	    duration_to_seconds(engine_now(engine) - engine->lease.from));
	give_up(engine, why);
}

/* ---- queries ---- */

int64_t
lock_silence(const struct lock_engine *engine)
{
	const struct hold *oldest = TAILQ_FIRST(&engine->holds.ages[HOLD_LEASE_OWN]);
	int64_t from = engine->lease.from;
	struct broker_info info;

	if (engine->link != BROKER_UP)
		return -1;
	if (oldest != NULL && oldest->from < from)
		from = oldest->from;
	FAULT(SILENCE_UNSEEN, from = engine_now(engine));
	if (is_needed(engine))
		return engine_now(engine) - from;
	broker_get_info(engine->broker, &info);
	return info.last_read == 0 ? 0 : engine_now(engine) - info.last_read;
}

/* ---- lifecycle ---- */

void
keepalive_init(struct lock_engine *engine)
{
	timer_init(&engine->lease.keepalive, keepalive_due, engine, 0);
	timer_init(&engine->lease.watch, watch_due, engine, 0);
}

void
keepalive_done(struct lock_engine *engine)
{
	timers_cancel(engine->timers, &engine->lease.keepalive);
	timers_cancel(engine->timers, &engine->lease.watch);
}

void
keepalive_start(struct lock_engine *engine)
{
	if (!timer_is_set(&engine->lease.keepalive))
		schedule_keepalive(engine);
}

void
keepalive_resume(struct lock_engine *engine)
{
	timers_set(engine->timers, &engine->lease.keepalive, engine_now(engine));
}

void
keepalive_granted(struct lock_engine *engine, struct hold *hold)
{
	int64_t now = engine_now(engine);

	if (hold_lease(hold) == HOLD_LEASE_TIMED) {
		struct lock_peer *peer = engine_peer_find(engine, hold->peer);

		timers_cancel(engine->timers, &hold->timer);
		timer_init(&hold->timer, renewal_due, engine, hold->id);
		schedule_renewal(engine, hold);
		/* The grant tells a lease that may end before those that were told. */
		if (lease_until(engine, hold) < peer->lease_told)
			peer->lease_told = lease_until(engine, hold);
		return;
	}
	assert(engine->lease.state != LEASE_NONE && hold->aged);
	if (!timer_is_set(&engine->lease.watch))
		schedule_watch(engine, now);
	/* The claim of a young hold may have been sent before the newest question about another. */
	else if (hold_lease(hold) == HOLD_LEASE_OWN &&
		 next_moment(engine, hold, now) < engine->lease.watch.when)
		timers_set(engine->timers, &engine->lease.watch, next_moment(engine, hold, now));
}
