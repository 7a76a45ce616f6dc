#include "daemon/lock/hold/watch.h"

#include <assert.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/hold/lifecycle.h"
#include "daemon/lock/hold/slot_check.h"

/* Holds that end before this cost the broker no consumer. */
#define WATCH_AFTER (100 * NSEC_PER_MSEC)
/* A watch that ended while its queue exists is not requested again at once. */
#define WATCH_AGAIN (1 * NSEC_PER_SEC)

static void
watch_in(struct lock_engine *engine, struct hold *hold, int64_t wait)
{
	timers_set(engine->timers, &hold->watch_timer, engine_now(engine) + wait);
}

/* ---- checks of A ---- */

static void
on_checked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	if (hold == NULL || hold->state == HOLD_DROPPING)
		return;
	switch (reply->answer) {
	case BROKER_ABSENT:
		lifecycle_revoke(engine, hold);
		break;
	case BROKER_SKIPPED: /* the channel died before its turn */
		watch_in(engine, hold, WATCH_AFTER);
		break;
	case BROKER_OK:
	case BROKER_LOCKED:
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
	case BROKER_UNKNOWN:
		break;
	}
}

static void
check(struct lock_engine *engine, struct hold *hold)
{
	if (FAULT_ELSE(REVOKED_TWICE, false, hold->revoked))
		return;
	if (engine->frozen) {
		hold->reclaimed = true; /* A was not seen since: it is checked before a hand-off */
		watch_in(engine, hold, WATCH_AFTER);
	} else if (!slot_check_ask(
		       engine, hold, (struct broker_done){on_checked, engine, hold->id})) {
		watch_in(engine, hold, WATCH_AGAIN);
	}
}

static void
watch_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	assert(hold != NULL);
	if (hold->watch != HOLD_WATCH_NONE) {
		check(engine, hold);
	} else if (!hold->revoked) {
		registry_hold_watch(engine, hold, HOLD_WATCH_PLACED);
		broker_watch(engine->broker, hold->a.text);
	}
}

/* ---- the doors ---- */

void
watch_start(struct lock_engine *engine, struct hold *hold)
{
	if (!hold_has_a(hold))
		return;
	hold->a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	timer_init(&hold->watch_timer, watch_due, engine, hold->id);
	watch_in(engine, hold, WATCH_AFTER);
}

void
watch_news(void *ctx, const char *queue, enum broker_news news)
{
	struct lock_engine *engine = ctx;
	struct hold *hold;

	HASH_FIND(by_watch, engine->watched, queue, strlen(queue), hold);
	if (hold == NULL)
		return;
	switch (news) {
	case BROKER_WATCHED:
		registry_hold_watch(engine, hold, HOLD_WATCH_ON);
		check(engine, hold);
		break;
	case BROKER_UNWATCHED:
		registry_hold_watch(engine, hold, HOLD_WATCH_PLACED);
		break;
	case BROKER_HINT:
		registry_hold_watch(engine, hold, HOLD_WATCH_NONE);
		watch_in(engine, hold, WATCH_AGAIN);
		FAULT(WATCH_NOT_PLACED_AGAIN, timers_cancel(engine->timers, &hold->watch_timer));
		FAULT(CANCEL_IS_REVOKED, lifecycle_revoke(engine, hold); return;);
		FAULT(HINT_NOT_LOOKED_INTO, break);
		check(engine, hold);
		break;
	}
}
