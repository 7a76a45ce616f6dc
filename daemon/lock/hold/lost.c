#include "daemon/lock/hold/lost.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/hold/lease.h"
#include "daemon/state/state.h"

/* After so long, ns, the broker layer has forgotten the hold, too. */
#define KEPT (600 * NSEC_PER_SEC)

struct lost_hold {
	TAILQ_ENTRY(lost_hold) entry;
	struct lock_engine *engine; /* borrowed */
	uint64_t peer, lock, channel;
	int64_t at;       /* clock time of the loss */
	int64_t until;    /* clock time at which its lease was over */
	struct timer due; /* its connection has ended: at `until` */
};

static void
forget(struct lost_hold *lost)
{
	timers_cancel(lost->engine->timers, &lost->due);
	TAILQ_REMOVE(&lost->engine->lost_holds, lost, entry);
	free(lost);
}

static void
has_stopped(struct lost_hold *lost)
{
	broker_holder_stopped(lost->engine->broker, lost->channel);
	forget(lost);
}

static void
on_due(void *ctx, uint64_t id)
{
	(void)id;
	has_stopped(ctx);
}

static struct lost_hold *
lost_new(struct lock_engine *engine, uint64_t peer, uint64_t lock, uint64_t channel)
{
	struct lost_hold *lost = mem_alloc(sizeof(*lost));

	lost->engine = engine;
	lost->peer = peer;
	lost->lock = lock;
	lost->channel = channel;
	timer_init(&lost->due, on_due, lost, 0);
	TAILQ_INSERT_TAIL(&engine->lost_holds, lost, entry);
	return lost;
}

void
lost_told(struct lock_engine *engine, const struct hold *hold)
{
	struct lost_hold *lost;

	while ((lost = TAILQ_FIRST(&engine->lost_holds)) != NULL &&
	       engine_now(engine) - lost->at >= KEPT)
		forget(lost);
	if (!way_row(hold->way)->by_beads || hold->state == HOLD_SLOTLESS)
		return;
	lost = lost_new(
	    engine, hold->peer, hold->lock, hold->channel != 0 ? hold->channel : hold->ended);
	lost->at = engine_now(engine);
	lost->until = lease_until(engine, hold);
}

void
lost_released(struct lock_engine *engine, uint64_t peer, uint64_t lock)
{
	struct lost_hold *lost, *next;

	TAILQ_FOREACH_SAFE (lost, &engine->lost_holds, entry, next) {
		if (lost->peer == peer && lost->lock == lock)
			has_stopped(lost);
	}
}

void
lost_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	struct lost_hold *lost;

	TAILQ_FOREACH (lost, &engine->lost_holds, entry) {
		if (lost->peer != peer)
			continue;
		FAULT(LOST_PEER_HAS_STOPPED, lost->until = 0);
		timers_set(engine->timers, &lost->due, lost->until);
	}
}

/* ---- the successor ---- */

struct lost_record {
	uint64_t peer, lock, channel;
	int64_t at, until;
	bool gone; /* its connection has ended */
};

static const struct state_field lost_fields[] = {
    STATE_FIELD(lost_record, peer, STATE_NUMBER),
    STATE_FIELD(lost_record, lock, STATE_NUMBER),
    STATE_FIELD(lost_record, channel, STATE_NUMBER),
    STATE_FIELD(lost_record, at, STATE_SIGNED),
    STATE_FIELD(lost_record, until, STATE_SIGNED),
    STATE_FIELD(lost_record, gone, STATE_BOOL),
    {0},
};

void
lost_save_all(const struct lock_engine *engine, struct state_writer *writer)
{
	const struct lost_hold *lost;

	FAULT(LOST_NOT_SAVED, return;);
	TAILQ_FOREACH (lost, &engine->lost_holds, entry) {
		const struct lost_record record = {
		    .peer = lost->peer,
		    .lock = lost->lock,
		    .channel = lost->channel,
		    .at = lost->at,
		    .until = lost->until,
		    .gone = timer_is_set(&lost->due),
		};

		state_put(writer, "lost-hold", lost_fields, &record);
	}
}

bool
lost_restore_all(struct lock_engine *engine, struct state_reader *reader)
{
	struct lost_record record;
	struct lost_hold *lost;

	while (state_is(reader, "lost-hold")) {
		if (!state_take(reader, "lost-hold", lost_fields, &record))
			return false;
		if (record.at < 0 || record.at > engine_now(engine) || record.until < 0)
			return state_spoil(reader, "invalid record of a lost hold");
		lost = lost_new(engine, record.peer, record.lock, record.channel);
		lost->at = record.at;
		lost->until = record.until;
		if (record.gone)
			timers_set(engine->timers, &lost->due, lost->until);
	}
	return true;
}

void
lost_free_all(struct lock_engine *engine)
{
	struct lost_hold *lost;

	while ((lost = TAILQ_FIRST(&engine->lost_holds)) != NULL)
		forget(lost);
}
