#include "daemon/lock/core/flight.h"

#include <assert.h>

#include "daemon/base/fault.h"

static struct unsent_list *
unsent_of(const struct hold *hold)
{
	return hold->state == HOLD_DROPPING ? &hold->share->drops : &hold->share->claims;
}

static bool
is_cheap(const struct hold *hold)
{
	const struct way *way = way_row(hold->way);

	return hold->state == HOLD_DROPPING ? way->drop_is_cheap : way->claim_is_cheap;
}

/* The hold's part of flights_most, which is at most all of it. */
static size_t
cost_of(const struct lock_engine *engine, const struct hold *hold)
{
	size_t most = engine->settings.flights_most, cost = is_cheap(hold) ? 1 : FLIGHT_BY_QUEUE;

	return cost < most ? cost : most;
}

static bool
has_room(const struct lock_engine *engine, const struct hold *hold)
{
	return hold->share->flights + cost_of(engine, hold) <= engine->settings.flights_most;
}

static void
add(const struct lock_engine *engine, struct hold *hold)
{
	hold->flight = FLIGHT_DUE;
	hold->share->flights += cost_of(engine, hold);
}

bool
flight_start(struct lock_engine *engine, struct hold *hold)
{
	assert(hold->flight == FLIGHT_NONE);
	if (hold->share == NULL) {
		hold->flight = FLIGHT_DUE;
		return true;
	}
	/* There may be room for a cheap flight behind one that waits, but drops come first. */
	if (!TAILQ_EMPTY(&hold->share->drops) || !TAILQ_EMPTY(unsent_of(hold)) ||
	    !has_room(engine, hold)) {
		hold->flight = FLIGHT_UNSENT;
		TAILQ_INSERT_TAIL(unsent_of(hold), hold, of_unsent);
		return false;
	}
	add(engine, hold);
	return true;
}

void
flight_end(struct lock_engine *engine, struct hold *hold)
{
	struct share *share = hold->share;
	enum hold_flight flight = hold->flight;
	struct hold *next;

	hold->flight = FLIGHT_NONE;
	if (share == NULL || flight == FLIGHT_NONE)
		return;
	if (flight == FLIGHT_UNSENT) {
		TAILQ_REMOVE(unsent_of(hold), hold, of_unsent);
		return;
	}
	share->flights -= cost_of(engine, hold);
	FAULT(FLIGHT_UNCOUNTED, share->flights += cost_of(engine, hold));
	while (engine->link == BROKER_UP) {
		next = TAILQ_FIRST(&share->drops);
		if (next == NULL)
			next = TAILQ_FIRST(&share->claims);
		if (next == NULL || !has_room(engine, next))
			return;
		TAILQ_REMOVE(unsent_of(next), next, of_unsent);
		add(engine, next);
		timers_set(engine->timers, &next->timer, engine_now(engine));
	}
}
