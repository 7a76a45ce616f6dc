#include "daemon/lock/registry.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/engine.h"

/*
 * Contents:
 *	1. Rows: a row is a waiter or a hold, as others see it. rows_*() tell each change.
 *	   lock_each_holding(), lock_next_waiting(), lock_each() and lock_row_find() walk through them.
 *	   lock_each_use() tells which locks are in use, for metrics.
 *	2. Peers: registry_peer() and registry_hold_attach() give a hold to a peer.
 *	   Watches: registry_hold_watch() and registry_hold_unwatch().
 *	   Waiters: registry_waiter_attach(), _set_state(), and _end(), which alone answers an acquire.
 *	   Semaphores: registry_semaphore(), and registry_admin_done(), after which waiters go on.
 *	   Reservations: registry_is_reserved(), and registry_hold_end(), which frees a hold and wakes its name.
 */

/* 1. Rows. */

static struct lock_row
row_of(const struct requester *requester, enum lock_row_state state)
{
	return (struct lock_row){.state = state,
	    .waiter = requester->waiter,
	    .uid = requester->uid,
	    .pid = requester->pid,
	    .who = requester->who,
	    .why = requester->why,
	    .command = requester->command};
}

static struct lock_row
row_of_waiter(const struct waiter *waiter, enum lock_row_state state, int position)
{
	struct lock_row row = row_of(waiter->requester, state);

	row.name = waiter->semaphore->name;
	row.kind = waiter->kind;
	row.priority = waiter->priority;
	row.position = position;
	row.since = waiter->started;
	return row;
}

static struct lock_row
row_of_hold(const struct hold *hold, enum lock_row_state state)
{
	struct lock_row row = row_of(hold->requester, state);

	row.lock = hold->lock;
	row.name = hold->name;
	row.kind = hold->kind;
	row.slot = hold->slot;
	row.since = hold->since;
	row.revoked = hold->revoked;
	row.evicted = hold->eviction != NULL;
	row.fence = hold->granted_fence;
	return row;
}

/* Whether the hold is a row: its client was told, and has not gone. */
static bool
is_row(const struct hold *hold)
{
	return hold->peer != 0 && hold->requester != NULL;
}

static enum lock_row_state
row_state_of(const struct hold *hold)
{
	return hold->admitted ? LOCK_ROW_ADMITTED : LOCK_ROW_BUSY;
}

/* ---- as they change ---- */

static void
rows_tell(struct lock_engine *engine, const struct lock_row *row)
{
	bool telling = engine->telling;

	if (engine->events.changed == NULL)
		return;
	engine->telling = true;
	engine->events.changed(engine->events.ctx, row);
	engine->telling = telling;
}

/* The waiter has joined its local queue. */
static void
rows_waits(struct lock_engine *engine, const struct waiter *waiter)
{
	struct lock_row row;

	if (engine->events.changed == NULL)
		return;
	row = row_of_waiter(waiter, LOCK_ROW_WAITING,
	    local_queue_position(&waiter->semaphore->local_queue, waiter));
	rows_tell(engine, &row);
}

/*
 * The waiter ends. Does nothing if its row has passed to a hold. Before the waiter leaves the
 * queue.
 */
static void
rows_cancelled(struct lock_engine *engine, const struct waiter *waiter)
{
	struct lock_row row;

	if (waiter->requester == NULL)
		return; /* it holds */
	row = row_of_waiter(waiter, LOCK_ROW_CANCELLED, 0);
	rows_tell(engine, &row);
	row.state = LOCK_ROW_GONE;
	rows_tell(engine, &row);
}

void
rows_pass(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	assert(waiter->requester != NULL && hold->requester == NULL && hold->peer != 0);
	hold->requester = waiter->requester;
	waiter->requester = NULL;
	hold->since = engine_now(engine);
	hold->granted_fence = hold_fence(hold);
	rows_holds(engine, hold);
}

void
rows_holds(struct lock_engine *engine, const struct hold *hold)
{
	struct lock_row row;

	if (!is_row(hold))
		return;
	row = row_of_hold(hold, row_state_of(hold));
	rows_tell(engine, &row);
}

/* The peer has the hold no more. A hold that never was a row is fine. */
static void
rows_gone(struct lock_engine *engine, const struct hold *hold)
{
	struct lock_row row;

	if (!is_row(hold))
		return;
	row = row_of_hold(hold, LOCK_ROW_GONE);
	rows_tell(engine, &row);
}

/* ---- all of them ---- */

/* semaphore: NULL: there are no waiters. */
static void
each_waiter_of(
    const struct semaphore *semaphore, void (*fn)(void *ctx, const struct lock_row *row), void *ctx)
{
	const struct local_queue *line = semaphore == NULL ? NULL : &semaphore->local_queue;
	const struct waiter *waiter =
	    line == NULL ? NULL : local_queue_first(line, LOCAL_QUEUE_ALL);
	struct lock_row row;
	int position = 0;

	for (; waiter != NULL; waiter = local_queue_next(line, waiter, LOCAL_QUEUE_ALL)) {
		row = row_of_waiter(waiter, LOCK_ROW_WAITING, ++position);
		fn(ctx, &row);
	}
}

void
lock_each_holding(const struct lock_engine *engine, const char *name,
    void (*fn)(void *ctx, const struct lock_row *row), void *ctx)
{
	const struct hold *hold;
	struct lock_row row;

	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (!is_row(hold) || (name != NULL && strcmp(name, hold->name) != 0))
			continue;
		row = row_of_hold(hold, row_state_of(hold));
		fn(ctx, &row);
	}
}

/* The next waiter of a semaphore, or mutex, that had come when the walk began. */
static const struct waiter *
next_in_queue(
    const struct lock_engine *engine, const char *name, bool mutex, const struct lock_place *place)
{
	const struct semaphore *semaphore = engine_semaphore_find(engine, name, mutex);
	/* The last waiter may have left the queue since. */
	const struct waiter last = {.priority = place->priority, .id = place->waiter};
	const struct waiter *next =
	    semaphore == NULL ? NULL
			      : local_queue_next(&semaphore->local_queue, &last, LOCAL_QUEUE_ALL);

	while (next != NULL && next->id > place->newest)
		next = local_queue_next(&semaphore->local_queue, next, LOCAL_QUEUE_ALL);
	return next;
}

bool
lock_next_waiting(const struct lock_engine *engine, const char *name, struct lock_place *place,
    struct lock_row *ret)
{
	const struct waiter *next;

	if (place->newest == 0)
		*place = (struct lock_place){.newest = engine->last_id, .priority = INT_MAX};
	next = next_in_queue(engine, name, place->mutex, place);
	if (next == NULL && !place->mutex) {
		place->mutex = true;
		place->priority = INT_MAX;
		next = next_in_queue(engine, name, true, place);
	}
	if (next == NULL)
		return false;
	place->priority = next->priority;
	place->waiter = next->id;
	*ret = row_of_waiter(
	    next, LOCK_ROW_WAITING, local_queue_position(&next->semaphore->local_queue, next));
	return true;
}

void
lock_each(const struct lock_engine *engine, const char *name,
    void (*fn)(void *ctx, const struct lock_row *row), void *ctx)
{
	const struct semaphore *semaphore;

	lock_each_holding(engine, name, fn, ctx);
	if (name != NULL) {
		each_waiter_of(engine_semaphore_find(engine, name, false), fn, ctx);
		each_waiter_of(engine_semaphore_find(engine, name, true), fn, ctx);
		return;
	}
	for (semaphore = engine->semaphores; semaphore != NULL; semaphore = semaphore->by_key.next)
		each_waiter_of(semaphore, fn, ctx);
}

bool
lock_row_find(
    const struct lock_engine *engine, uint64_t waiter, uint64_t lock, struct lock_row *ret)
{
	const struct hold *hold = lock == 0 ? NULL : hold_find_lock(&engine->holds, lock);
	const struct waiter *waits = lock == 0 ? engine_waiter_find(engine, waiter) : NULL;

	if (hold != NULL && is_row(hold)) {
		*ret = row_of_hold(hold, row_state_of(hold));
		return true;
	}
	if (waits == NULL || waits->requester == NULL)
		return false;
	*ret = row_of_waiter(
	    waits, LOCK_ROW_WAITING, local_queue_position(&waits->semaphore->local_queue, waits));
	return true;
}

void
lock_each_busy(
    const struct lock_engine *engine, const char *name, void (*fn)(void *ctx, int slot), void *ctx)
{
	for (const struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->state != HOLD_SLOTLESS && strcmp(name, hold->name) == 0)
			fn(ctx, hold->slot);
	}
}

const char *
lock_waits_for(const struct lock_engine *engine, uint64_t id)
{
	const struct waiter *waiter = engine_waiter_find(engine, id);

	return waiter == NULL ? NULL : waiter->semaphore->name;
}

void
lock_each_passing(
    const struct lock_engine *engine, const char *name, void (*fn)(void *ctx, int slot), void *ctx)
{
	for (const struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (!is_row(hold) && hold->state != HOLD_SLOTLESS && strcmp(name, hold->name) == 0)
			fn(ctx, hold->slot);
	}
}

/* Whether clients have the mutex, or hand it off. A hold without a slot leaves it free. */
static bool
is_busy_mutex(const struct hold *hold)
{
	return hold->kind == LOCK_KIND_MUTEX &&
	       (hold->state == HOLD_HELD || hold->state == HOLD_RECLAIMING ||
		   hold->state == HOLD_COUNTING || hold->state == HOLD_PASSING);
}

/* The holds without a slot of one lock. */
struct slotless {
	struct lock_use use;
	struct semaphore_key key;
	UT_hash_handle by_key;
};

/* By lock, as an unlimited semaphore may have thousands of them. */
static void
rows_each_slotless(
    const struct lock_engine *engine, void (*fn)(void *ctx, const struct lock_use *use), void *ctx)
{
	struct slotless *all = NULL, *one, *next;
	const struct hold *hold;

	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		bool mutex = hold->kind == LOCK_KIND_MUTEX;
		struct semaphore_key key;

		if (hold->state != HOLD_SLOTLESS)
			continue;
		key = semaphore_key(hold->name, mutex);
		HASH_FIND(by_key, all, key.text, strlen(key.text), one);
		if (one == NULL) {
			one = mem_alloc(sizeof(*one));
			one->use = (struct lock_use){.name = hold->name, .mutex = mutex};
			one->key = key;
			HASH_ADD_KEYPTR(by_key, all, one->key.text, strlen(one->key.text), one);
		}
		one->use.extra++;
	}
	HASH_ITER (by_key, all, one, next) {
		fn(ctx, &one->use);
		HASH_DELETE(by_key, all, one);
		free(one);
	}
}

void
lock_each_use(
    const struct lock_engine *engine, void (*fn)(void *ctx, const struct lock_use *use), void *ctx)
{
	const struct semaphore *semaphore;
	const struct hold *hold;
	struct lock_use use;

	for (int mutex = 0; mutex <= 1; mutex++) {
		for (semaphore = engine->semaphores; semaphore != NULL;
		     semaphore = semaphore->by_key.next) {
			use = (struct lock_use){.name = semaphore->name, .mutex = mutex != 0};
			use.waiting = local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_ALL);
			if (semaphore->mutex == use.mutex && use.waiting > 0)
				fn(ctx, &use);
		}
	}
	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		use = (struct lock_use){.name = hold->name, .mutex = true, .busy = 1};
		if (is_busy_mutex(hold))
			fn(ctx, &use);
		use = (struct lock_use){.name = hold->name, .extra = 1, .slot = hold->slot};
		if (is_row(hold) && hold->revoked)
			fn(ctx, &use);
	}
	rows_each_slotless(engine, fn, ctx);
}

/* 2. The lives of peers, semaphores, waiters and holds. */

#define BEHIND LOCAL_QUEUE_OF(WAITER_BEHIND)

/* ---- peers ---- */

struct lock_peer *
registry_peer(struct lock_engine *engine, uint64_t id)
{
	struct lock_peer *peer = engine_peer_find(engine, id);

	if (peer == NULL) {
		peer = mem_alloc(sizeof(*peer));
		peer->id = id;
		TAILQ_INIT(&peer->holds);
		TAILQ_INIT(&peer->waiters);
		TAILQ_INIT(&peer->holder_waits);
		HASH_ADD(by_id, engine->peers, id, sizeof(peer->id), peer);
	}
	return peer;
}

void
registry_peer_let_go(struct lock_engine *engine, struct lock_peer *peer)
{
	if (peer->hold_count > 0 || peer->waiter_count > 0 || peer->holder_wait_count > 0)
		return;
	HASH_DELETE(by_id, engine->peers, peer);
	free(peer);
}

void
registry_hold_attach(struct lock_engine *engine, struct hold *hold, uint64_t peer)
{
	struct lock_peer *entry = registry_peer(engine, peer);

	assert(hold->peer == 0);
	hold->peer = peer;
	TAILQ_INSERT_TAIL(&entry->holds, hold, of_peer);
	entry->hold_count++;
}

void
registry_hold_spare(struct lock_engine *engine, struct hold *hold)
{
	struct eviction *eviction = hold->eviction;

	if (eviction == NULL)
		return;
	hold->eviction = NULL;
	timers_cancel(engine->timers, &eviction->due);
	free(eviction->host);
	free(eviction->why);
	free(eviction);
}

void
registry_hold_detach(struct lock_engine *engine, struct hold *hold)
{
	struct lock_peer *entry;

	if (hold->peer == 0)
		return;
	rows_gone(engine, hold);
	/* It was for this client, and not for the next one. */
	FAULT_ELSE(EVICTS_NEXT_HOLDER, (void)0, registry_hold_spare(engine, hold));
	/* The one place where a hold counts as ended (lock.h, lock_counts). */
	if (hold->lost)
		engine->total.lost++;
	else
		engine->total.released++;
	entry = engine_peer_find(engine, hold->peer);
	TAILQ_REMOVE(&entry->holds, hold, of_peer);
	entry->hold_count--;
	hold->peer = 0;
	registry_peer_let_go(engine, entry);
}

/* ---- watches ---- */

void
registry_hold_watch(struct lock_engine *engine, struct hold *hold, enum hold_watch watch)
{
	bool was_known = hold->watch != HOLD_WATCH_NONE, is_known = watch != HOLD_WATCH_NONE;

	hold->watch = watch;
	if (is_known && !was_known)
		HASH_ADD_KEYPTR(
		    by_watch, engine->watched, hold->a.text, strlen(hold->a.text), hold);
	else if (was_known && !is_known)
		HASH_DELETE(by_watch, engine->watched, hold);
}

void
registry_hold_unwatch(struct lock_engine *engine, struct hold *hold)
{
	timers_cancel(engine->timers, &hold->watch_timer);
	if (hold->watch == HOLD_WATCH_NONE)
		return;
	registry_hold_watch(engine, hold, HOLD_WATCH_NONE);
	FAULT(WATCH_LEAKED, return;);
	broker_unwatch(engine->broker, hold->a.text);
}

/* ---- waiters ---- */

void
registry_waiter_attach(struct lock_engine *engine, struct waiter *waiter)
{
	struct lock_peer *entry = registry_peer(engine, waiter->peer);

	HASH_ADD(by_id, engine->waiters, id, sizeof(waiter->id), waiter);
	TAILQ_INSERT_TAIL(&entry->waiters, waiter, of_peer);
	entry->waiter_count++;
	local_queue_join(&waiter->semaphore->local_queue, waiter);
	rows_waits(engine, waiter);
}

void
registry_waiter_set_state(
    struct lock_engine *engine, struct waiter *waiter, enum waiter_state state)
{
	struct lock_peer *entry = engine_peer_find(engine, waiter->peer);

	if (waiter->state == WAITER_CLAIMING)
		entry->claim_count--;
	if (state == WAITER_CLAIMING)
		entry->claim_count++;
	local_queue_set_state(waiter, state);
	if (state != WAITER_CLAIMING) {
		waiter->hold = 0;
		waiter->direct = 0;
	}
	if (state != WAITER_BEHIND)
		waiter->behind = 0;
}

bool
registry_waiter_is_over(const struct lock_engine *engine, const struct waiter *waiter)
{
	return engine_now(engine) - waiter->started >= waiter->timeout;
}

void
registry_waiter_free(struct lock_engine *engine, struct waiter *waiter)
{
	struct lock_peer *entry = engine_peer_find(engine, waiter->peer);
	struct hold *claimed = hold_find(&engine->holds, waiter->hold);

	rows_cancelled(engine, waiter);
	timers_cancel(engine->timers, &waiter->deadline);
	timers_cancel(engine->timers, &waiter->rest);
	progress_end(waiter);
	local_queue_leave(waiter);
	wait_queue_remove(engine, waiter);
	engine_mark_dirty(engine, waiter->semaphore);
	HASH_DELETE(by_id, engine->waiters, waiter);
	TAILQ_REMOVE(&entry->waiters, waiter, of_peer);
	entry->waiter_count--;
	entry->claim_count -= waiter->state == WAITER_CLAIMING;
	registry_peer_let_go(engine, entry);
	channels_waiter_gone(engine, waiter->share);
	requester_free(waiter->requester);
	free(waiter->may_not_create);
	free(waiter);
	if (claimed == NULL)
		return;
	/* A claim in flight stays reserved, and is dropped if it succeeds. */
	claimed->acquire = 0;
	/* An unsent claim ends at once (claim.h). */
	if (claimed->state == HOLD_CLAIMING && claimed->flight == FLIGHT_UNSENT)
		timers_set(engine->timers, &claimed->timer, engine_now(engine));
}

void
registry_waiter_end(
    struct lock_engine *engine, struct waiter *waiter, const struct lock_answer *answer)
{
	uint64_t peer = waiter->peer, request = waiter->request;

	if (answer->reason == REASON_NONE)
		engine->total.granted++;
	else
		engine->total.refused++;
	registry_waiter_free(engine, waiter);
	engine_tell(engine, peer, request, answer);
}

void
registry_waiter_refuse(
    struct lock_engine *engine, struct waiter *waiter, enum reason reason, const char *text)
{
	struct lock_answer answer = engine_refusal(reason, text);

	answer.name = waiter->semaphore->name;
	registry_waiter_end(engine, waiter, &answer);
}

void
registry_waiter_rest(struct lock_engine *engine, struct waiter *waiter, int64_t wait)
{
	registry_waiter_set_state(engine, waiter, WAITER_RESTING);
	timers_set(engine->timers, &waiter->rest, engine_now(engine) + wait);
}

void
registry_waiter_wake(struct lock_engine *engine, struct waiter *waiter)
{
	if (waiter->state != WAITER_RESTING)
		return;
	timers_cancel(engine->timers, &waiter->rest);
	registry_waiter_set_state(engine, waiter, WAITER_NEW);
	engine_mark_dirty(engine, waiter->semaphore);
}

/* ---- semaphores ---- */

static void
registry_rescan_due(void *ctx, uint64_t id)
{
	struct semaphore *semaphore = ctx;

	(void)id;
	engine_mark_dirty(semaphore->engine, semaphore);
}

struct semaphore *
registry_semaphore(struct lock_engine *engine, const char *name, bool mutex)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, name, mutex);

	if (semaphore == NULL) {
		semaphore = semaphore_new(name, mutex);
		semaphore->engine = engine;
		semaphore->asks_quorum = mutex && way_row(engine->settings.claim)->by_beads &&
					 queue_naming_has_quorum(engine->settings.naming);
		semaphore->wait_queue_name = queue_name_wait(engine->settings.naming, name, mutex);
		timer_init(&semaphore->rescan, registry_rescan_due, semaphore, 0);
		timer_init(&semaphore->progress, progress_due, semaphore, 0);
		HASH_ADD_KEYPTR(by_key, engine->semaphores, semaphore->key.text,
		    strlen(semaphore->key.text), semaphore);
		HASH_ADD_KEYPTR(by_wait_queue, engine->by_wait_queue,
		    semaphore->wait_queue_name.text, strlen(semaphore->wait_queue_name.text),
		    semaphore);
	}
	return semaphore;
}

void
registry_semaphore_end(struct lock_engine *engine, struct semaphore *semaphore)
{
	timers_cancel(engine->timers, &semaphore->rescan);
	timers_cancel(engine->timers, &semaphore->progress);
	channels_forget(engine, semaphore);
	wait_queue_end(engine, semaphore);
	withheld_end_all(engine, semaphore);
	HASH_DELETE(by_key, engine->semaphores, semaphore);
	HASH_DELETE(by_wait_queue, engine->by_wait_queue, semaphore);
	semaphore_free(semaphore);
}

/*
 * The rest of the waiters for a semaphore that could not be created. Jittered by half, up or down.
 */
#define CREATE_AGAIN (1 * NSEC_PER_SEC)

/*
 * Whether a waiter for a semaphore that could not be created waits on. It does if another attempt
 * may succeed, until its deadline. A try has time for one attempt only.
 */
static bool
may_be_made_yet(const struct lock_engine *engine, const struct waiter *waiter, enum reason reason)
{
	switch (reason) {
	case REASON_NONE:
	case REASON_ALREADY_EXISTS:
	case REASON_TIMEOUT: /* another administrator is at work; not the waiter's own deadline */
		return true;
	case REASON_BROKER_BLOCKED:
	case REASON_BROKER_UNAVAILABLE:
		return !registry_waiter_is_over(engine, waiter);
	default:
		return false;
	}
}

void
registry_admin_done(struct lock_engine *engine, const char *name, bool mutex, uint64_t admin,
    enum reason reason, const char *text)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, name, mutex);
	struct waiter *waiter, *next;
	int64_t rest = 0;
	bool theirs;

	if (semaphore == NULL)
		return;
	theirs = semaphore->creating == admin;
	if (theirs)
		semaphore->creating = 0;
	free(semaphore->not_created);
	semaphore->not_created = NULL;
	/* The node of a B may be down for long, and each attempt takes the mutex of the directory. */
	if (theirs && (reason == REASON_BROKER_UNAVAILABLE || reason == REASON_BROKER_BLOCKED)) {
		rest = CREATE_AGAIN / 2 + jitter_below(&engine->jitter, CREATE_AGAIN);
		semaphore->not_created = mem_printf(
		    "it could not be created: %s", text != NULL ? text : reason_message(reason));
	}
	for (waiter = local_queue_first(&semaphore->local_queue, BEHIND); waiter != NULL;
	     waiter = next) {
		next = local_queue_next(&semaphore->local_queue, waiter, BEHIND);
		if (waiter->behind != admin)
			continue;
		if (theirs && !may_be_made_yet(engine, waiter, reason))
			registry_waiter_refuse(engine, waiter, reason, text);
		else if (rest > 0)
			registry_waiter_rest(engine, waiter, rest);
		else
			registry_waiter_set_state(engine, waiter, WAITER_NEW);
	}
	/* All knowledge is outdated: waiters whose wait had begun are scanned for, too. */
	semaphore_forget(semaphore);
	timers_cancel(engine->timers, &semaphore->rescan);
	engine_mark_dirty(engine, semaphore);
}

/* ---- reservations ---- */

struct queue_name
registry_slot_queue(const struct semaphore *semaphore, int slot)
{
	const struct queue_naming *naming = semaphore->engine->settings.naming;

	if (semaphore->by_quorum)
		return queue_name_quorum(semaphore->name, semaphore->mutex ? 0 : slot);
	return semaphore->mutex ? queue_name_mutex(naming, semaphore->name)
				: queue_name_b(naming, semaphore->name, slot);
}

bool
registry_is_reserved(
    const struct lock_engine *engine, const char *name, enum lock_kind kind, int slot)
{
	const struct queue_naming *naming = engine->settings.naming;
	struct queue_name b;

	b = kind == LOCK_KIND_MUTEX ? queue_name_mutex(naming, name)
				    : queue_name_b(naming, name, slot);
	if (hold_find_queue(&engine->holds, b.text) != NULL)
		return true;
	b = queue_name_quorum(name, kind == LOCK_KIND_MUTEX ? 0 : slot);
	return engine->holds.elsewhere > 0 && hold_find_queue(&engine->holds, b.text) != NULL;
}

static void
registry_let_queue_move(struct lock_engine *engine, const struct hold *hold, bool free_now)
{
	bool mutex = hold->kind == LOCK_KIND_MUTEX;
	int slot = mutex ? 1 : hold->slot;
	struct semaphore *semaphore = engine_semaphore_find(engine, hold->name, mutex);

	if (semaphore == NULL)
		return;
	semaphore_saw_slot(semaphore, slot,
	    !free_now || hold->drop == HOLD_DROP_NO_SLOT || withheld_has(semaphore, slot));
	/*
	 * A was seen gone: a scan comes before the next claim. If the hold was never granted, it was
	 * claimed, and A did not exist. For that the semaphore was forgotten before B was deleted
	 * (claim.c). The delete changes nothing. If probes fail, it would cause the next claim.
	 */
	if (free_now && hold->drop == HOLD_DROP_NO_SLOT &&
	    FAULT_ELSE(CLAIMED_IN_VAIN_AGAIN, true, hold->ours_since != 0)) {
		semaphore_forget(semaphore);
		timers_cancel(engine->timers, &semaphore->rescan);
	}
	semaphore->scan.overtaken |= free_now;
	engine_mark_dirty(engine, semaphore);
}

void
registry_hold_end(struct lock_engine *engine, struct hold *hold, bool free_now)
{
	if (hold->state != HOLD_SLOTLESS)
		registry_let_queue_move(engine, hold, free_now);
	if (hold->slot != 0)
		awaited_freed(engine, hold->name, hold->slot);
	FAULT(CHANNEL_LEAKED, hold_set_channel(&engine->holds, hold, 0));
	if (hold->channel != 0)
		broker_channel_put(engine->broker, hold->channel);
	registry_hold_unwatch(engine, hold);
	registry_hold_detach(engine, hold);
	flight_end(engine, hold);
	hold_set_grace(&engine->holds, hold, 0);
	channels_charge(engine, hold, NULL);
	hold_free(&engine->holds, hold);
	channels_hold_ended(engine);
}
