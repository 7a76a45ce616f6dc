#include "daemon/lock/hold/grant.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/lock/core/channels.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/rows.h"
#include "daemon/lock/core/used_mutexes.h"
#include "daemon/lock/hold/fence_floor.h"
#include "daemon/lock/hold/lifecycle.h"
#include "daemon/lock/hold/lease.h"
#include "daemon/lock/hold/keepalive.h"
#include "daemon/lock/hold/mutex_post.h"
#include "daemon/lock/hold/watch.h"

const char grant_peer_is_full[] = "this connection holds as many locks as it may hold";

bool
grant_has_room(struct lock_engine *engine, struct waiter *waiter, enum broker_way way)
{
	const struct lock_peer *peer = engine_peer_find(engine, waiter->peer);
	const char *why = NULL;
	char text[LOCK_LACKING_MAX];

	if (peer->hold_count + peer->claim_count >= engine->settings.max_locks_per_connection)
		why = grant_peer_is_full;
	else if (waiter->kind == LOCK_KIND_MUTEX && way_row(way)->leaves_b > 0)
		why = used_mutexes_lacking(engine, waiter->share, waiter->semaphore->name, text);
	if (why != NULL)
		registry_waiter_refuse(engine, waiter, REASON_TOO_MANY_LOCKS, why);
	return why == NULL;
}

static void
tell_granted(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	struct lock_answer answer = engine_refusal(REASON_NONE, NULL);

	hold_sane(hold);
	rows_pass(engine, waiter, hold);
	fence_floor_granted(engine, hold);
	mutex_post_granted(engine, hold);
	answer.safe_until = hold->state == HOLD_SLOTLESS ? 0 : lease_until(engine, hold);
	answer.lock = hold->lock;
	answer.name = hold->name;
	answer.kind = hold->kind;
	answer.slot = hold->slot;
	answer.fence = hold_fence(hold);
	answer.grace = hold->grace;
	answer.lease = hold->grace == 0 ? 0 : lease_length(engine, hold);
	answer.waited = engine_now(engine) - waiter->started;
	registry_waiter_end(engine, waiter, &answer);
}

bool
grant_claimed(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	if (!FAULT_ELSE(GRANT_BY_TIMER, true, lease_is_good(engine, hold))) {
		/* The broker may have freed B since. */
		if (hold_lease(hold) == HOLD_LEASE_TIMED || lease_is_good(engine, NULL))
			return false;
		/* The end of the connection makes the waiter NEW. */
		keepalive_run_out(engine);
		return true;
	}
	hold->acquire = 0;
	hold->asked = 0;
	hold->wants_lease = waiter->lease;
	registry_hold_attach(engine, hold, waiter->peer);
	hold_set_state(&engine->holds, hold, HOLD_HELD);
	lifecycle_start(engine, hold);
	keepalive_granted(engine, hold);
	watch_start(engine, hold);
	waiter->hold = 0;
	tell_granted(engine, waiter, hold);
	return true;
}

bool
grant_passed(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	assert(hold->peer == 0);
	if (!grant_has_room(
		engine, waiter, FAULT_ELSE(PASSED_MUTEX_UNLIMITED, BROKER_BY_QUEUE, hold->way)))
		return false;
	hold_renumber(&engine->holds, hold,
	    FAULT_ELSE(PASSED_UNDER_OLD_NUMBER, hold->lock, engine_id(engine)));
	channels_charge(engine, hold, FAULT_ELSE(PASSED_UNCOUNTED, hold->share, waiter->share));
	hold->kind = waiter->kind;
	hold->hand_offs++;
	FAULT(FENCE_KEPT, hold->hand_offs--);
	hold->wants_lease = waiter->lease;
	hold->suspect = hold->stuck = false;
	requester_free(hold->requester);
	hold->requester = NULL;
	registry_hold_attach(engine, hold, waiter->peer);
	if (hold->state != HOLD_HELD) {
		hold_set_state(&engine->holds, hold, HOLD_HELD);
		lifecycle_resume(engine, hold);
	}
	keepalive_granted(engine, hold);
	tell_granted(engine, waiter, hold);
	return true;
}

void
grant_slotless(struct lock_engine *engine, struct waiter *waiter, bool admitted)
{
	struct hold *hold;

	/* lock_admit() has checked this, and reports it to the administrator. */
	if (!admitted && !grant_has_room(engine, waiter, BROKER_BY_QUEUE))
		return;
	hold = hold_new_slotless(
	    &engine->holds, engine_id(engine), waiter->semaphore->name, waiter->kind);
	hold->admitted = admitted;
	FAULT(GRANTED_TAKES_SLOT, hold->slot = admitted);
	registry_hold_attach(engine, hold, waiter->peer);
	tell_granted(engine, waiter, hold);
}
