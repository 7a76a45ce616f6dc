#include "daemon/lock/flight.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/keep.h"

static struct unsent_line *
line_of(const struct hold *hold)
{
	return hold->state == HOLD_DROPPING ? &hold->share->drops : &hold->share->claims;
}

static bool
has_room(const struct lock_engine *engine, const struct share *share)
{
	return share == NULL || share->flights < engine->settings.flights_most;
}

static void
send(struct lock_engine *engine, struct hold *hold)
{
	hold->flight = FLIGHT_SENT;
	if (hold->share != NULL)
		hold->share->flights++;
	if (hold->state == HOLD_DROPPING)
		keep_send_drop(engine, hold);
	else
		claim_send(engine, hold);
}

static void
send_next(struct lock_engine *engine, struct share *share)
{
	struct hold *hold;

	while (engine->link == BROKER_UP && has_room(engine, share)) {
		hold = TAILQ_FIRST(&share->drops);
		if (hold == NULL)
			hold = TAILQ_FIRST(&share->claims);
		if (hold == NULL)
			return;
		TAILQ_REMOVE(line_of(hold), hold, of_unsent);
		send(engine, hold);
	}
}

void
flight_start(struct lock_engine *engine, struct hold *hold)
{
	assert(hold->flight == FLIGHT_NONE);
	if (has_room(engine, hold->share)) {
		send(engine, hold);
		return;
	}
	hold->flight = FLIGHT_UNSENT;
	TAILQ_INSERT_TAIL(line_of(hold), hold, of_unsent);
}

void
flight_end(struct lock_engine *engine, struct hold *hold)
{
	enum hold_flight flight = hold->flight;

	hold->flight = FLIGHT_NONE;
	if (hold->share == NULL || flight == FLIGHT_NONE)
		return;
	if (flight == FLIGHT_UNSENT) {
		TAILQ_REMOVE(line_of(hold), hold, of_unsent);
		return;
	}
	if (!FAULT(FLIGHT_UNCOUNTED))
		hold->share->flights--;
	send_next(engine, hold->share);
}
