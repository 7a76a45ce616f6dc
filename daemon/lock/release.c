#include "daemon/lock/release.h"

#include <assert.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/keepalive.h"
#include "daemon/lock/lease.h"
#include "daemon/lock/registry.h"
#include "daemon/lock/scan.h"
#include "protocol/json.h"

/*
 * Contents:
 *	release_next_waiter() is the one to whom a slot may be handed off.
 *	release_count() asks for the consumers of other daemons, and release_on_counted() keeps the answer.
 *	The hand-off: release_go_on() decides, step by step. release_is_certain(): no question is needed.
 *	release_check() asks about A or B first. release_pass() gives the hold to the waiter.
 *	lock_release() and release_peer(): the holder releases, or hangs up. release_let_go() hands off or drops.
 *	lock_evict(): an administrator ends a hold. evict_due() is its deadline.
 *	lock_abandon(): the daemon stops.
 */

/* The interval at which a slot is freed for clients that poll. */
#define OPEN_AGAIN (250 * NSEC_PER_MSEC)
/* An older answer is requested again. */
#define FRESH (1 * NSEC_PER_SEC)

static void release_go_on(struct lock_engine *engine, struct hold *hold, struct waiter *waiter);

/* ---- the next waiter ---- */

static struct semaphore *
release_semaphore(const struct lock_engine *engine, const struct hold *hold)
{
	return engine_semaphore_find(engine, hold->name, hold->kind == LOCK_KIND_MUTEX);
}

/* NULL: no client of this daemon waits, or hand-off is not allowed. */
static struct waiter *
release_next_waiter(const struct lock_engine *engine, const struct hold *hold)
{
	const struct semaphore *semaphore = release_semaphore(engine, hold);

	if (semaphore == NULL || engine->draining || engine->settings.max_local_handoffs == 0)
		return NULL;
	/* Before each grant the broker is asked whether the mutex is a semaphore's. */
	if (scan_is_guarded(engine, semaphore))
		return NULL;
	return local_queue_who_wants(&semaphore->local_queue, hold->slot, hold->share);
}

/* ---- the consumers of other daemons ---- */

static void
release_on_counted(void *ctx, uint64_t id, int members)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);
	const struct semaphore *semaphore;

	if (hold == NULL)
		return;
	semaphore = release_semaphore(engine, hold);
	hold->others = members - (semaphore != NULL ? wait_queue_count(semaphore) : 0);
	hold->others_at = engine_now(engine);
	if (hold->state == HOLD_COUNTING)
		release_go_on(engine, hold, release_next_waiter(engine, hold));
}

/* Without an answer no hint can be delivered, either. */
static void
release_count_late(void *ctx, uint64_t id)
{
	release_on_counted(ctx, id, -1);
}

static void
release_count(struct lock_engine *engine, struct hold *hold)
{
	const struct semaphore *semaphore = release_semaphore(engine, hold);

	hold->others_asked = engine_now(engine);
	hold->others_at = 0;
	broker_wait_queue_count(engine->broker, semaphore->wait_queue_name.text,
	    (struct broker_count_done){release_on_counted, engine, hold->id});
}

static bool
is_counted(const struct lock_engine *engine, const struct hold *hold)
{
	return hold->others_at != 0 && engine_now(engine) - hold->others_at < FRESH;
}

/* ---- the hand-off ---- */

static void
release_pass(struct lock_engine *engine, struct hold *hold, struct waiter *waiter)
{
	uint64_t releasing = hold->releasing, lock = hold->lock;

	hold->releasing = 0;
	/* A waiter whose peer may have no more holds is refused. The next one is tried. */
	while (waiter != NULL && !grant_passed(engine, waiter, hold))
		waiter = release_next_waiter(engine, hold);
	if (waiter == NULL) {
		hold->releasing = releasing;
		FAULT(PASSED_TO_NOBODY, hold->releasing = 0;
		      lifecycle_passed(engine, hold, releasing, lock));
		lifecycle_drop(engine, hold);
		return;
	}
	lifecycle_passed(engine, hold, releasing, lock);
	if (++hold->passes >= engine->settings.max_local_handoffs && hint_can_be_heard(engine))
		release_count(engine, hold);
}

/* By a fresh clock. A hold with little lease left is not handed off. */
static bool
lease_is_long(const struct lock_engine *engine, const struct hold *hold)
{
	int64_t least = hold_lease(hold) == HOLD_LEASE_TIMED ? lease_length(engine, hold) / 2
							     : lease_heartbeat(engine) / 2;

	return lease_is_good(engine, hold) &&
	       lease_until(engine, hold) - engine_now(engine) > least;
}

/* Whether the slot can be handed off without asking the broker. */
static bool
release_is_certain(const struct lock_engine *engine, const struct hold *hold)
{
	/* A must be there. */
	if (!FAULT_ELSE(PASSED_UNSEEN, true,
		!hold_has_a(hold) || (hold->watch == HOLD_WATCH_ON && !hold->reclaimed)))
		return false;
	/* The number of the next holder must be larger. A proof makes room for more. */
	if (hold_lease(hold) == HOLD_LEASE_TIMED)
		return lease_is_long(engine, hold) && hold->hand_offs < HOLD_HAND_OFFS_MOST;
	FAULT(PASSED_LATE, return lease_is_good(engine, hold));
	FAULT(PASSED_STALE, return lease_is_long(engine, hold));
	return lease_is_long(engine, hold) && engine_now(engine) - engine->lease.from < FRESH;
}

static void
release_on_checked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	if (hold == NULL || hold->state != HOLD_PASSING)
		return;
	hold->asked = 0;
	switch (reply->answer) {
	case BROKER_OK:
		hold->reclaimed = false;
		if (!hold->revoked && lease_is_long(engine, hold))
			release_pass(engine, hold, release_next_waiter(engine, hold));
		else
			lifecycle_drop(engine, hold);
		break;
	case BROKER_ABSENT:
		/* Of a true mutex B itself is gone. Its delete confirms this. */
		lifecycle_drop_for(
		    engine, hold, hold_has_a(hold) ? HOLD_DROP_NO_SLOT : HOLD_DROP_RELEASED);
		break;
	case BROKER_LOCKED:
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
	case BROKER_SKIPPED: /* by queue the channel died: B is deleted on the next one */
		lifecycle_drop(engine, hold);
		break;
	case BROKER_UNKNOWN: /* the end of the connection has an event of its own */
		break;
	}
}

static void
release_on_b_checked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;

	lease_b_answered(engine, hold_find(&engine->holds, id), reply);
	release_on_checked(ctx, id, reply);
}

/* Checks A, or the B of a true mutex. */
static void
release_check(struct lock_engine *engine, struct hold *hold)
{
	bool asked;

	if (!hold_has_a(hold)) {
		asked = lifecycle_channel(engine, hold) != 0;
		if (asked)
			broker_check_holder(engine->broker, hold->channel, hold->way, hold->b.text,
			    (struct broker_done){release_on_b_checked, engine, hold->id});
	} else {
		asked = slot_check_ask(
		    engine, hold, (struct broker_done){release_on_checked, engine, hold->id});
	}
	if (!asked) {
		lifecycle_drop(engine, hold);
		return;
	}
	hold_set_state(&engine->holds, hold, HOLD_PASSING);
	hold->asked = engine_now(engine);
}

/*
 * Clients that poll (seeds/000) are in no wait queue. Without this they would never see the slot
 * free.
 */
static bool
was_ours_for_long(const struct lock_engine *engine, const struct hold *hold)
{
	FAULT(NEVER_FOR_POLLERS, return false);
	return engine->settings.hint_grace > 0 &&
	       engine_now(engine) - hold->ours_since > OPEN_AGAIN;
}

/* Takes the next steps of the hand-off. Called again when an awaited answer has come. */
static void
release_go_on(struct lock_engine *engine, struct hold *hold, struct waiter *waiter)
{
	bool in_a_row = hold->passes >= engine->settings.max_local_handoffs;

	if (FAULT_ELSE(REVOKED_IS_PASSED, false, hold->revoked) || waiter == NULL) {
		lifecycle_drop(engine, hold);
		return;
	}
	if (in_a_row && hint_can_be_heard(engine) && !is_counted(engine, hold)) {
		/* Awaits the answer, which may have been requested ahead. */
		if (hold->others_asked == 0 || hold->others_at != 0)
			release_count(engine, hold);
		hold_set_state(&engine->holds, hold, HOLD_COUNTING);
		timer_init(&hold->timer, release_count_late, engine, hold->id);
		timers_set(engine->timers, &hold->timer, engine_now(engine) + FRESH);
		return;
	}
	FAULT(PASSED_FOR_EVER, hold->others = 0);
	if (in_a_row && is_counted(engine, hold) && hold->others > 0) {
		lifecycle_drop(engine, hold);
		return;
	}
	if (in_a_row && was_ours_for_long(engine, hold)) {
		lifecycle_drop_for(engine, hold, HOLD_DROP_FOR_POLLERS);
		return;
	}
	if (in_a_row) {
		hold->passes = 0;
		hold->others_asked = hold->others_at = 0;
	}
	if (release_is_certain(engine, hold))
		release_pass(engine, hold, waiter);
	else
		release_check(engine, hold);
}

/* ---- the holder releases, or hangs up ---- */

static void
release_let_go(struct lock_engine *engine, struct hold *hold)
{
	struct waiter *waiter = NULL;

	if (hold->state == HOLD_HELD && !FAULT_ELSE(REVOKED_IS_PASSED, false, hold->revoked) &&
	    hold->verify == 0 && !hold->suspended)
		waiter = release_next_waiter(engine, hold);
	if (waiter == NULL) {
		lifecycle_drop(engine, hold);
		return;
	}
	registry_hold_detach(engine, hold);
	release_go_on(engine, hold, waiter);
}

void
lock_release(struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock)
{
	struct hold *hold = hold_find_lock(&engine->holds, lock);
	struct lock_answer answer = engine_refusal(REASON_NOT_HELD, NULL);

	assert(!engine->telling && peer != 0);
	/* hold->peer is 0 while it is claimed or dropped: only a granted hold can be released. */
	if (hold == NULL || !FAULT_ELSE(RELEASE_BY_ANYBODY, hold->peer != 0, hold->peer == peer)) {
		lost_released(engine, peer, lock);
		engine_tell(engine, peer, request, &answer);
		return;
	}
	verify_send(engine, hold);
	hold->releasing = engine_op_new(engine, peer, request)->id;
	release_let_go(engine, hold);
}

void
release_peer(struct lock_engine *engine, uint64_t peer)
{
	struct lock_peer *entry;

	/* The entry goes with the last of its holds and waiters. */
	while ((entry = engine_peer_find(engine, peer)) != NULL) {
		if (!TAILQ_EMPTY(&entry->waiters))
			registry_waiter_free(engine, TAILQ_FIRST(&entry->waiters));
		else
			release_let_go(engine, TAILQ_FIRST(&entry->holds));
	}
}

/* ---- an administrator evicts a holder ---- */

/* A frozen engine evicts nobody. Its successor has the deadline, too. */
#define FROZEN_AGAIN (100 * NSEC_PER_MSEC)

static void
evict_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	assert(hold != NULL && hold->eviction != NULL);
	if (engine->frozen)
		timers_set(engine->timers, &hold->eviction->due, engine_now(engine) + FROZEN_AGAIN);
	else
		lifecycle_evict(engine, hold);
}

void
release_evict(struct lock_engine *engine, struct hold *hold, const struct lock_eviction *by)
{
	struct eviction *eviction = mem_alloc(sizeof(*eviction));

	registry_hold_spare(engine, hold);
	eviction->host = mem_strdup(by->host);
	eviction->why = by->why == NULL ? NULL : mem_strdup(by->why);
	if (eviction->why != NULL)
		json_clean(eviction->why);
	eviction->by = *by;
	eviction->by.host = eviction->host;
	eviction->by.why = eviction->why;
	timer_init(&eviction->due, evict_due, engine, hold->id);
	hold->eviction = eviction;
	timers_set(engine->timers, &eviction->due,
	    FAULT_ELSE(EVICTED_EARLY, engine_now(engine), by->deadline));
}

/* A client that has an earlier deadline is not told. */
static void
evict(struct lock_engine *engine, struct hold *hold, const struct lock_eviction *by)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_EVICTED,
	    .lock = hold->lock,
	    .name = hold->name,
	    .slot = hold->slot};

	if (FAULT_ELSE(EVICTION_PUT_OFF, false,
		hold->eviction != NULL && hold->eviction->by.deadline <= by->deadline))
		return;
	release_evict(engine, hold, by);
	notice.eviction = &hold->eviction->by;
	rows_holds(engine, hold);
	engine_notice(engine, hold->peer, &notice);
}

static struct hold *
holder_find(const struct lock_engine *engine, uint64_t waiter)
{
	struct hold *hold = engine->holds.by_id;

	while (hold != NULL && (hold->peer == 0 || hold->requester->waiter != waiter))
		hold = hold->by_id.next;
	return hold;
}

const char *
lock_holds(const struct lock_engine *engine, uint64_t waiter)
{
	const struct hold *hold = holder_find(engine, waiter);

	return hold == NULL ? NULL : hold->name;
}

enum reason
lock_evict(struct lock_engine *engine, uint64_t waiter, const struct lock_eviction *eviction)
{
	struct hold *hold = holder_find(engine, waiter);

	assert(!engine->telling);
	if (hold == NULL)
		return REASON_NOT_HELD;
	evict(engine, hold, eviction);
	return REASON_NONE;
}

size_t
lock_evict_all(struct lock_engine *engine, const char *name, const struct lock_eviction *eviction)
{
	size_t evicted = 0;

	assert(!engine->telling);
	for (struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->peer == 0 || strcmp(hold->name, name) != 0)
			continue;
		evict(engine, hold, eviction);
		evicted++;
	}
	return evicted;
}

void
lock_abandon(struct lock_engine *engine)
{
	struct hold *hold, *next;

	assert(!engine->telling);
	HASH_ITER (by_id, engine->holds.by_id, hold, next) {
		if (hold->peer != 0)
			lifecycle_abandon(engine, hold);
	}
}
