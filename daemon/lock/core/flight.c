#include "daemon/lock/core/flight.h"

#include <assert.h>

#include "daemon/base/fault.h"

static struct unsent_list *
unsent_of(const struct hold *hold)
{
	return hold->state == HOLD_DROPPING ? &hold->share->drops : &hold->share->claims;
}

static bool
has_room(const struct lock_engine *engine, const struct share *share)
{
	return share == NULL || share->flights < engine->settings.flights_most;
}

bool
flight_start(struct lock_engine *engine, struct hold *hold)
{
	assert(hold->flight == FLIGHT_NONE);
	if (!has_room(engine, hold->share)) {
		hold->flight = FLIGHT_UNSENT;
		TAILQ_INSERT_TAIL(unsent_of(hold), hold, of_unsent);
		return false;
	}
	hold->flight = FLIGHT_DUE;
	if (hold->share != NULL)
		hold->share->flights++;
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
	share->flights--;
	FAULT(FLIGHT_UNCOUNTED, share->flights++);
	while (engine->link == BROKER_UP && has_room(engine, share)) {
		next = TAILQ_FIRST(&share->drops);
		if (next == NULL)
			next = TAILQ_FIRST(&share->claims);
		if (next == NULL)
			return;
		TAILQ_REMOVE(unsent_of(next), next, of_unsent);
		next->flight = FLIGHT_DUE;
		share->flights++;
		timers_set(engine->timers, &next->timer, engine_now(engine));
	}
}
