#include "daemon/lock/wait/hint_receive.h"

#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/lock/core/channels.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/wait_queue.h"
#include "daemon/lock/core/withheld.h"
#include "daemon/lock/hold/claim.h"
#include "daemon/lock/hold/hint_send.h"
#include "daemon/lock/wait/scan.h"

/* The minimum time between two hints of a name that are passed on. */
#define PASS_ON_AGAIN (50 * NSEC_PER_MSEC)

static void
pass_on(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	int64_t now = engine_now(engine);

	/*
	 * Consumers without waiters would get the hint again. Without consumers it cannot come
	 * back.
	 */
	wait_queue_shrink(engine, semaphore);
	FAULT(HINT_NOT_PASSED_ON, return;);
	if (FAULT_ELSE(HINT_LAPSES, true, wait_queue_has_place(semaphore)) &&
	    now < semaphore->pass_on_from)
		return;
	semaphore->pass_on_from = now + PASS_ON_AGAIN;
	broker_wait_queue_wake(engine->broker, semaphore->wait_queue_name.text, slot);
}

/* The first waiter that wants the slot and can have a channel for it; or NULL. */
static struct waiter *
who_claims(const struct lock_engine *engine, const struct semaphore *semaphore, int slot)
{
	if (engine->link != BROKER_UP || !channels_are_left(engine))
		return NULL;
	return local_queue_who_wants(&semaphore->local_queue, slot, NULL);
}

/* No waiter here can use the slot: this hint, and those that follow, go to other daemons. */
static void
turn_down(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	if (local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_WANTS) > 0 &&
	    engine->link == BROKER_UP) {
		FAULT(STARVED_KEEPS_HINT, return;);
		channels_starve(engine, semaphore, LOCAL_QUEUE_WANTS);
	}
	pass_on(engine, semaphore, slot);
}

/* A mutex that was held in another way is free. Only a scan leads to its way by quorum. */
static bool
is_to_be_made(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	return semaphore->mutex && way_row(engine->settings.claim)->by_beads &&
	       semaphore->asks_quorum && !semaphore->by_quorum && !semaphore->held_otherwise;
}

void
hint_came(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	struct queue_name b;
	struct waiter *waiter;
	struct hold *hold;

	withheld_to_nobody(engine, semaphore, slot);
	FAULT_IF(FROZEN_TAKES_HINTS, engine->frozen, return );
	if (slot < 1 || slot > engine->settings.slots_most || scan_is_guarded(engine, semaphore) ||
	    is_to_be_made(engine, semaphore)) {
		if (local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_WANTS) == 0 ||
		    (slot != 0 && who_claims(engine, semaphore, 1) == NULL)) {
			turn_down(engine, semaphore, slot);
			return;
		}
		/* The semaphore may have changed since it was last scanned. */
		semaphore_forget(semaphore);
		engine_scan(engine, semaphore);
		return;
	}
	b = registry_slot_queue(semaphore, slot);
	hold = hold_find_queue(&engine->holds, b.text);
	if (hold != NULL) {
		/*
		 * This daemon has the slot; its last holder sent the hint. A claim of it may still
		 * fail.
		 */
		hold->hinted = true;
		/* The answer of that claim is too late for its waiter, and may never come. */
		if (hold->state == HOLD_CLAIMING && hold->acquire == 0)
			pass_on(engine, semaphore, slot);
		return;
	}
	/* A waiter whose peer may have no more holds is refused. The next one is tried. */
	while ((hold = hold_find_queue(&engine->holds, b.text)) == NULL) {
		waiter = who_claims(engine, semaphore, slot);
		if (waiter == NULL) {
			turn_down(engine, semaphore, slot);
			return;
		}
		registry_waiter_wake(engine, waiter);
		claim_start(engine, waiter, slot);
	}
	hold->by_hint = true;
}

void
hint_news(void *ctx, const struct broker_wait_queue_event *event)
{
	struct lock_engine *engine = ctx;
	struct semaphore *semaphore;

	HASH_FIND(
	    by_wait_queue, engine->by_wait_queue, event->queue, strlen(event->queue), semaphore);
	if (semaphore == NULL)
		return;
	if (event->news == BROKER_WAIT_QUEUE_NOBODY) {
		semaphore->returned_at = engine_now(engine);
		if (event->slot > 0)
			hint_came_back(engine, semaphore, event->slot);
		withheld_to_nobody(engine, semaphore, event->slot);
	} else if (wait_queue_news(engine, semaphore, event) &&
		   event->news == BROKER_WAIT_QUEUE_HINT)
		hint_came(engine, semaphore, event->slot);
}
