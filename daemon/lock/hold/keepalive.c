#include "daemon/lock/hold/keepalive.h"

#include <assert.h>
#include <stdio.h>

#include "daemon/base/fault.h"
#include "daemon/lock/hold/lifecycle.h"
#include "daemon/lock/hold/lease.h"
#include "protocol/duration.h"

static bool
is_needed(const struct lock_engine *engine)
{
	return engine->holds.count[HOLD_HELD] + engine->holds.count[HOLD_RECLAIMING] > 0;
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

static void
schedule_keepalive(struct lock_engine *engine)
{
	timers_set(engine->timers, &engine->lease.keepalive,
	    engine_now(engine) + lease_heartbeat(engine) / 3);
}

static void
on_keepalive(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	if (hold != NULL && (hold->state == HOLD_HELD || hold->state == HOLD_COUNTING))
		hold->asked = 0;
	lifecycle_b_answered(engine, hold, reply);
}

/*
 * The held B that was checked longest ago, and has a channel; NULL: there is none. The next by
 * number would not do: if locks come and go faster than the keepalive, it would always be a young
 * one.
 */
static struct hold *
next_in_rotation(struct lock_engine *engine)
{
	struct hold *next = NULL;

	for (struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->state == HOLD_HELD && hold->asked == 0 &&
		    (next == NULL || hold->looked < next->looked) &&
		    lifecycle_channel(engine, hold) != 0)
			next = hold;
	}
	return next;
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

	FAULT(STUCK_CHANNEL_IGNORED, needed = true);
	for (struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		const struct lock_notice notice = {
		    .kind = LOCK_NOTICE_STUCK, .name = hold->name, .slot = hold->slot};

		if (hold->asked == 0 || hold->asked > long_ago)
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
	struct hold *hold;

	(void)id;
	if (hold_count_on_link(&engine->holds) == 0 || engine->link != BROKER_UP)
		return;
	schedule_keepalive(engine);
	if (is_stuck_for_nothing(engine)) {
		give_up(engine, "a channel to the broker is stuck: no answer for two heartbeats");
		return;
	}
	hold = next_in_rotation(engine);
	if (hold == NULL)
		return;
	hold->looked = engine_id(engine);
	FAULT(KEEPALIVE_OF_ONE, hold->looked = 1);
	hold->asked = engine_now(engine);
	broker_check(engine->broker, hold->channel, hold->b.text,
	    (struct broker_done){on_keepalive, engine, hold->id});
}

/* ---- the end ---- */

static void
schedule_watch(struct lock_engine *engine)
{
	timers_set(engine->timers, &engine->lease.watch,
	    engine->lease.state == LEASE_GOOD ? lease_suspect_at(engine) : lease_until(engine));
}

static void
watch_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	(void)id;
	if (!is_needed(engine))
		return;
	if (!lease_is_good(engine)) {
		FAULT(LEASE_END_NOT_TOLD, return;);
		keepalive_run_out(engine);
		return;
	}
	if (engine->lease.state == LEASE_GOOD && engine_now(engine) >= lease_suspect_at(engine))
		lease_set_state(engine, LEASE_SUSPECT);
	schedule_watch(engine);
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
keepalive_granted(struct lock_engine *engine, struct hold *hold)
{
	assert(engine->lease.state != LEASE_NONE);
	/* A hold that was handed off is as old as its B. */
	if (hold->looked == 0)
		hold->looked = engine_id(engine);
	if (!timer_is_set(&engine->lease.watch))
		schedule_watch(engine);
}
