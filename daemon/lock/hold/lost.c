#include "daemon/lock/hold/lost.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/hold/lease.h"

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

void
lost_told(struct lock_engine *engine, const struct hold *hold)
{
	struct lost_hold *lost;

	while ((lost = TAILQ_FIRST(&engine->lost_holds)) != NULL &&
	       engine_now(engine) - lost->at >= KEPT)
		forget(lost);
	if (!way_row(hold->way)->by_beads || hold->state == HOLD_SLOTLESS)
		return;
	lost = mem_alloc(sizeof(*lost));
	lost->engine = engine;
	lost->peer = hold->peer;
	lost->lock = hold->lock;
	lost->channel = hold->channel != 0 ? hold->channel : hold->ended;
	lost->at = engine_now(engine);
	lost->until = lease_until(engine, hold);
	timer_init(&lost->due, on_due, lost, 0);
	TAILQ_INSERT_TAIL(&engine->lost_holds, lost, entry);
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

void
lost_free_all(struct lock_engine *engine)
{
	struct lost_hold *lost;

	while ((lost = TAILQ_FIRST(&engine->lost_holds)) != NULL)
		forget(lost);
}
