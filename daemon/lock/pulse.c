#include "daemon/lock/pulse.h"

#include <assert.h>
#include <stdio.h>

#include "daemon/lock/keep.h"
#include "daemon/lock/lease.h"
#include "protocol/duration.h"

static bool
is_needed(const struct lock_engine *engine)
{
	return engine->holds.count[HOLD_HELD] + engine->holds.count[HOLD_RECLAIMING] > 0;
}

/* ---- the pulse ---- */

static void
schedule_pulse(struct lock_engine *engine)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	timers_set(engine->timers, &engine->lease.pulse,
	    engine_now(engine) + info.heartbeat * NSEC_PER_SEC / 3);
}

static void
on_pulse(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;

	keep_b_answered(engine, hold_find(&engine->holds, id), reply);
}

/* The held B whose turn it is; NULL: none is held. */
static struct hold *
next_in_rotation(struct lock_engine *engine)
{
	struct hold *first = NULL;

	/* The table is in the order of the ids. */
	for (struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->state != HOLD_HELD)
			continue;
		if (hold->id > engine->lease.pulsed)
			return hold;
		if (first == NULL)
			first = hold;
	}
	return first;
}

static void
pulse_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = next_in_rotation(engine);

	(void)id;
	if (!is_needed(engine))
		return;
	schedule_pulse(engine);
	if (hold == NULL || keep_lane(engine, hold) == 0)
		return;
	engine->lease.pulsed = hold->id;
	broker_check(engine->broker, hold->lane, hold->b.text,
	    (struct broker_done){on_pulse, engine, hold->id});
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
		pulse_run_out(engine);
		return;
	}
	if (engine->lease.state == LEASE_GOOD && engine_now(engine) >= lease_suspect_at(engine))
		lease_set_state(engine, LEASE_SUSPECT);
	schedule_watch(engine);
}

void
pulse_run_out(struct lock_engine *engine)
{
	struct hold *hold, *next;
	char why[96];

	if (engine->link != BROKER_UP)
		return; /* done already, or the link's own event did it */
	snprintf(why, sizeof(why), "the lease ran out: no answer from the broker for %.1f s",
	    duration_to_seconds(engine_now(engine) - engine->lease.from));
	engine->link = BROKER_DOWN; /* nothing goes out on it any more */
	lease_recover(engine);      /* when its own event comes, no hold is left to tell by */
	HASH_ITER (by_id, engine->holds.by_id, hold, next) {
		hold->lane = 0; /* it goes with the link */
		if (hold->peer != 0)
			keep_lost(engine, hold, why);
	}
	broker_reset(engine->broker, BROKER_HOLD, why);
}

/* ---- lifecycle ---- */

void
pulse_init(struct lock_engine *engine)
{
	timer_init(&engine->lease.pulse, pulse_due, engine, 0);
	timer_init(&engine->lease.watch, watch_due, engine, 0);
}

void
pulse_done(struct lock_engine *engine)
{
	timers_cancel(engine->timers, &engine->lease.pulse);
	timers_cancel(engine->timers, &engine->lease.watch);
}

void
pulse_start(struct lock_engine *engine)
{
	assert(engine->lease.state != LEASE_NONE);
	if (!timer_is_set(&engine->lease.pulse))
		schedule_pulse(engine);
	if (!timer_is_set(&engine->lease.watch))
		schedule_watch(engine);
}
