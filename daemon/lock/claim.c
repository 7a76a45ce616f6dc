#include "daemon/lock/claim.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/flight.h"
#include "daemon/lock/hint.h"
#include "daemon/lock/keep.h"
#include "daemon/lock/lease.h"
#include "daemon/lock/pulse.h"

struct queue_name
claim_queue(const struct lock_engine *engine, const char *name, enum lock_kind kind, int slot)
{
	if (kind == LOCK_KIND_MUTEX)
		return queue_name_mutex(engine->settings.naming, name);
	return queue_name_b(engine->settings.naming, name, slot);
}

bool
claim_is_reserved(const struct lock_engine *engine, const char *name, enum lock_kind kind, int slot)
{
	struct queue_name b = claim_queue(engine, name, kind, slot);

	return hold_find_queue(&engine->holds, b.text) != NULL;
}

/* What became of the hold itself by the time its acquire is told. */
enum claim_end {
	CLAIM_END_GONE,    /* B is not ours: the reservation ends */
	CLAIM_END_DROPPED, /* B is ours and not wanted: it goes back */
	CLAIM_END_NO_SLOT  /* the same, and it is of no use to anybody */
};

/* One of its slots is not there any more, and no waiter is left to be told: it is looked for anew. */
static void
forget(struct lock_engine *engine, const char *name)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, name, false);

	if (semaphore == NULL)
		return;
	semaphore_forget(semaphore);
	hint_look(engine, semaphore);
}

/* The claim came to nothing. */
static void
fail(struct lock_engine *engine, struct hold *hold, enum claim_end end, enum claim_outcome outcome,
    const struct broker_reply *reply)
{
	uint64_t acquire = hold->acquire;
	hold_claimed_fn *claimed = hold->claimed;
	enum lock_kind kind = hold->kind;
	int slot = hold->slot;
	char *hinted = NULL;

	hold->acquire = 0;
	switch (end) {
	case CLAIM_END_GONE:
		/* Of one that goes back it is told when it is free. */
		hinted = hold->hinted ? mem_strdup(hold->name) : NULL;
		engine_hold_end(engine, hold, false);
		break;
	case CLAIM_END_DROPPED:
		keep_drop(engine, hold);
		break;
	case CLAIM_END_NO_SLOT:
		keep_drop_for(engine, hold, HOLD_DROP_NO_SLOT);
		break;
	}
	if (acquire != 0)
		claimed(engine, acquire, slot, outcome, NULL, reply);
	else if (end == CLAIM_END_NO_SLOT)
		forget(engine, hold->name);
	if (hinted != NULL)
		hint_came_before(engine, hinted, kind, slot);
	free(hinted);
}

static void
win(struct lock_engine *engine, struct hold *hold, const struct broker_reply *reply)
{
	timers_cancel(engine->timers, &hold->timer);
	if (FAULT(CLAIM_FORGOTTEN) && hold->acquire == 0) {
		hold->lane = 0; /* which is busy with A */
		engine_hold_end(engine, hold, true);
		return;
	}
	if (hold->acquire == 0)
		keep_drop(engine, hold);
	else
		hold->claimed(engine, hold->acquire, hold->slot, CLAIM_WON, hold, reply);
}

static void
on_claimed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	assert(hold != NULL && hold->state == HOLD_CLAIMING);
	lease_answered(engine, reply);
	if (reply->answer != BROKER_UNKNOWN)
		flight_end(engine, hold);
	switch (reply->answer) {
	case BROKER_OK:
		if (hold->kind == LOCK_KIND_MUTEX || hold->acquire == 0 || FAULT(NO_A_CHECK))
			win(engine, hold, reply);
		else
			hold_set_state(&engine->holds, hold, HOLD_CHECKING);
		break;
	case BROKER_LOCKED:
		if (FAULT(LOCKED_IS_OURS) && hold->kind == LOCK_KIND_MUTEX)
			win(engine, hold, reply);
		else
			fail(engine, hold, CLAIM_END_GONE, CLAIM_LOST, reply);
		break;
	case BROKER_ABSENT:
	case BROKER_REFUSED:
		fail(engine, hold, CLAIM_END_GONE, CLAIM_REFUSED, reply);
		break;
	case BROKER_SKIPPED:
		fail(engine, hold, CLAIM_END_GONE, CLAIM_AGAIN, reply);
		break;
	case BROKER_UNKNOWN: /* the link died; its event ends this hold and sends the acquire back */
		break;
	}
}

static void
on_checked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	lease_answered(engine, reply);
	if (hold == NULL || hold->state != HOLD_CHECKING)
		return; /* the claim failed, or nobody wanted it any more */
	switch (reply->answer) {
	case BROKER_OK:
		win(engine, hold, reply);
		break;
	case BROKER_ABSENT:
		fail(engine, hold, CLAIM_END_NO_SLOT, CLAIM_NO_SLOT, reply);
		break;
	case BROKER_LOCKED:
	case BROKER_REFUSED:
		fail(engine, hold, CLAIM_END_DROPPED, CLAIM_REFUSED, reply);
		break;
	case BROKER_SKIPPED:
		fail(engine, hold, CLAIM_END_DROPPED, CLAIM_AGAIN, reply);
		break;
	case BROKER_UNKNOWN: /* as above */
		if (FAULT(UNKNOWN_IS_SEEN))
			win(engine, hold, reply);
		break;
	}
}

/*
 * Whether B is ours cannot be known, so the slot stays reserved until there is an answer. The waiter does
 * not stay with it.
 */
static void
late(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);
	uint64_t acquire = hold->acquire;

	assert(hold->state == HOLD_CLAIMING || hold->state == HOLD_CHECKING);
	hold->acquire = 0;
	flight_end(engine, hold);
	if (acquire != 0)
		hold->claimed(engine, acquire, hold->slot, CLAIM_LATE, NULL, NULL);
}

uint64_t
claim_start(struct lock_engine *engine, uint64_t acquire, struct share *share, const char *name,
    enum lock_kind kind, int slot, hold_claimed_fn *claimed)
{
	struct queue_name b = claim_queue(engine, name, kind, slot);
	uint64_t lane = broker_lane_take(engine->broker, BROKER_HOLD);
	struct hold *hold;

	assert(channels_are_left(engine));
	if (lane == 0) {
		channels_not_given(engine);
		return 0;
	}
	hold = hold_new(
	    &engine->holds, engine_id(engine), &b, name, kind, kind == LOCK_KIND_MUTEX ? 0 : slot);
	hold->lane = lane;
	channels_charge(engine, hold, share);
	engine->channels.not_given = 0;
	hold->acquire = acquire;
	hold->claimed = claimed;
	pulse_start(engine);
	flight_start(engine, hold);
	return hold->id;
}

void
claim_send(struct lock_engine *engine, struct hold *hold)
{
	struct broker_done claimed = {on_claimed, engine, hold->id};
	struct queue_name a = {""};

	/* It may have died while the claim waited for its turn. */
	if (keep_lane(engine, hold) == 0) {
		fail(engine, hold, CLAIM_END_GONE, CLAIM_AGAIN, NULL);
		return;
	}
	hold->asked = engine_now(engine);
	timer_init(&hold->timer, late, engine, hold->id);
	if (!FAULT(CLAIM_WITHOUT_TIMEOUT))
		timers_set(
		    engine->timers, &hold->timer, hold->asked + engine->settings.request_timeout);
	if (hold->kind != LOCK_KIND_MUTEX)
		a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	if (FAULT(HINT_TRUSTED) && hold->slot != 0 &&
	    engine_waiter_find(engine, hold->acquire)->member != NULL)
		broker_check(engine->broker, hold->lane, a.text, claimed);
	else
		broker_claim(engine->broker, hold->lane, hold->b.text, claimed);
	if (hold->kind != LOCK_KIND_MUTEX)
		broker_check(engine->broker, hold->lane, a.text,
		    (struct broker_done){on_checked, engine, hold->id});
}

void
claim_give_up(struct lock_engine *engine, struct hold *hold)
{
	hold->acquire = 0;
	if (hold->state != HOLD_CLAIMING || hold->flight != FLIGHT_UNSENT)
		return;
	if (FAULT(UNSENT_IS_LOST)) {
		flight_end(engine, hold);
		return;
	}
	/* It was claimed as it was free, maybe by a hint: somebody else is told, as if it were deleted. */
	hint_freed(engine, hold);
	engine_hold_end(engine, hold, true);
}
