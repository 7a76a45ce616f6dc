#include "daemon/lock/hold/lost.h"

#include <stdlib.h>

#include "daemon/base/mem.h"

/* After so long, ns, the broker layer has forgotten the hold, too. */
#define KEPT (600 * NSEC_PER_SEC)

struct lost_hold {
	TAILQ_ENTRY(lost_hold) entry;
	uint64_t peer, lock, channel;
	int64_t at; /* clock time */
};

static void
forget(struct lock_engine *engine, struct lost_hold *lost)
{
	TAILQ_REMOVE(&engine->lost_holds, lost, entry);
	free(lost);
}

/* lock NULL: all locks of the peer. */
static void
stopped(struct lock_engine *engine, uint64_t peer, const uint64_t *lock)
{
	struct lost_hold *lost, *next;

	TAILQ_FOREACH_SAFE (lost, &engine->lost_holds, entry, next) {
		if (lost->peer != peer || (lock != NULL && lost->lock != *lock))
			continue;
		broker_holder_stopped(engine->broker, lost->channel);
		forget(engine, lost);
	}
}

void
lost_told(struct lock_engine *engine, const struct hold *hold)
{
	struct lost_hold *lost;

	while ((lost = TAILQ_FIRST(&engine->lost_holds)) != NULL &&
	       engine_now(engine) - lost->at >= KEPT)
		forget(engine, lost);
	if (!way_row(hold->way)->by_beads || hold->state == HOLD_SLOTLESS)
		return;
	lost = mem_alloc(sizeof(*lost));
	lost->peer = hold->peer;
	lost->lock = hold->lock;
	lost->channel = hold->channel != 0 ? hold->channel : hold->ended;
	lost->at = engine_now(engine);
	TAILQ_INSERT_TAIL(&engine->lost_holds, lost, entry);
}

void
lost_released(struct lock_engine *engine, uint64_t peer, uint64_t lock)
{
	stopped(engine, peer, &lock);
}

void
lost_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	stopped(engine, peer, NULL);
}

void
lost_free_all(struct lock_engine *engine)
{
	struct lost_hold *lost;

	while ((lost = TAILQ_FIRST(&engine->lost_holds)) != NULL)
		forget(engine, lost);
}
