#include "daemon/lock/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/registry.h"
#include "daemon/lock/scan.h"
#include "protocol/duration.h"

/*
 * Contents:
 *	1. Acquires: acquire_deadline_passed() ends one by time. lock_acquire() checks a request, and makes it a
 *	   waiter.
 *	   acquire_link_changed() refuses, or begins anew. lock_admit() and lock_deny() are an administrator's.
 *	2. Hints that come: hint_came() claims the slot for a waiter, or passes the hint on.
 *	3. The queue runner. known_free_slot() and unseen_slot() choose a slot.
 *	   queue_end_scan() ends a scan: queue_find_verdict() is its result, and queue_judge() what that means
 *	     for a waiter.
 *	   queue_claim_unseen(): probes fail, so slot after slot is claimed.
 *	   queue_claim_for() claims slots that are known to be free. queue_scan_if_wanted() begins a scan or a
 *	     rescan.
 *	   queue_move() goes as far as it can, and queue_runner_run() visits a dirty semaphore.
 */

/* 1. Acquires. */

/* Refuses an acquire that cannot reach the broker, in the words of the broker or the system. */
static void
acquire_refuse_for_link(struct lock_engine *engine, struct waiter *waiter)
{
	struct lock_answer answer;

	engine_refusal_for_link(engine, &answer);
	registry_waiter_refuse(engine, waiter, answer.reason, answer.text);
}

/* In the grace for the first connection, another try or another host may be accepted. */
static bool
is_login_refused(const struct lock_engine *engine)
{
	return engine->link == BROKER_LOGIN_REFUSED && !engine->grace;
}

/* ---- the beginning, and the end by time ---- */

/* Why the semaphore that the waiter wants to create could not be created; NULL: not known. */
static const char *
why_not_created(const struct waiter *waiter)
{
	return waiter->create != 0 && waiter->member == NULL ? waiter->semaphore->not_created
							     : NULL;
}

/*
 * Whether a scan, a claim or a create for the waiter is on its way, or comes next. The daemon then
 * does not know whether a slot is free. Between two attempts to create the semaphore, nothing is on
 * its way.
 */
static bool
acquire_is_trying(const struct waiter *waiter)
{
	if (waiter->state == WAITER_RESTING && why_not_created(waiter) != NULL)
		return false;
	return waiter->state != WAITER_WAITING || !waiter->begun;
}

/* The time of the waiter is over, and no slot is free for it: the answer is `timeout`. */
static void
acquire_time_out(struct lock_engine *engine, struct waiter *waiter)
{
	struct lock_answer answer = engine_full(waiter->semaphore, REASON_TIMEOUT);
	char text[LOCK_LACKING_MAX];

	if (channels_is_starving(waiter) && channels_lacking(engine, waiter->share, text) != NULL)
		answer.text = text;
	else if (why_not_created(waiter) != NULL)
		answer.text = why_not_created(waiter);
	registry_waiter_end(engine, waiter, &answer);
}

static void
acquire_finish_try(struct lock_engine *engine, struct waiter *waiter, int64_t deadline)
{
	timers_set(engine->timers, &waiter->deadline, deadline);
	/* It has lost races only, and waits for a hint. */
	if (waiter->state == WAITER_WAITING) {
		registry_waiter_set_state(engine, waiter, WAITER_NEW);
		engine_mark_dirty(engine, waiter->semaphore);
	}
}

/*
 * A waiter that is trying goes on as an acquire with timeout 0 does, and has the request timeout
 * for it. A wait is therefore never worse than a try.
 */
static void
acquire_deadline_passed(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct waiter *waiter = engine_waiter_find(engine, id);
	int64_t now = engine_now(engine), left;
	bool trying;

	assert(waiter != NULL);
	trying = acquire_is_trying(waiter);
	FAULT_IF(DEADLINE_ENDS_A_TRY, waiter->timeout != 0, trying = false);
	left = engine->settings.request_timeout - (now - waiter->started - waiter->timeout);
	if (engine->link != BROKER_UP)
		acquire_refuse_for_link(engine, waiter);
	else if (trying && left > 0)
		acquire_finish_try(engine, waiter, now + left);
	/* The change that a waiter is behind may wait for holders, and not for the broker. */
	else if (waiter->timeout == 0 || (trying && waiter->state != WAITER_BEHIND))
		registry_waiter_refuse(
		    engine, waiter, REASON_BROKER_UNAVAILABLE, "the broker did not answer in time");
	else
		acquire_time_out(engine, waiter);
}

static void
acquire_rest_is_over(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct waiter *waiter = engine_waiter_find(engine, id);

	assert(waiter != NULL && waiter->state == WAITER_RESTING);
	registry_waiter_wake(engine, waiter);
}

/* Why a new acquire is refused at once; REASON_NONE: it is not. */
static enum reason
acquire_refusal(const struct lock_engine *engine, uint64_t peer, const char **ret_text)
{
	const struct lock_peer *entry = engine_peer_find(engine, peer);

	*ret_text = NULL;
	if (FAULT_ELSE(DRAIN_LETS_IN, false, engine->draining))
		return REASON_DRAINING;
	if (entry == NULL)
		return REASON_NONE;
	if (entry->hold_count >= engine->settings.max_locks_per_connection) {
		*ret_text = grant_peer_is_full;
		return REASON_TOO_MANY_LOCKS;
	}
	if (entry->waiter_count + entry->holder_wait_count >=
	    engine->settings.max_waits_per_connection) {
		*ret_text = "this connection has as many waiting requests as it may have";
		return REASON_TOO_MANY_WAITERS;
	}
	return REASON_NONE;
}

/* The waiter is in no queue yet. */
static struct waiter *
waiter_new(struct lock_engine *engine, uint64_t id, uint64_t peer, uint64_t request,
    const struct lock_acquire *acquire)
{
	struct waiter *waiter = mem_alloc(sizeof(*waiter));

	waiter->id = id;
	waiter->peer = peer;
	waiter->request = request;
	waiter->kind = acquire->kind;
	waiter->semaphore =
	    registry_semaphore(engine, acquire->name, acquire->kind == LOCK_KIND_MUTEX);
	waiter->priority = acquire->priority;
	waiter->timeout = acquire->timeout;
	waiter->create = acquire->kind == LOCK_KIND_PERSISTENT_MUTEX && acquire->create != 0
			     ? 1
			     : acquire->create;
	waiter->may_not_create = mem_strdup(acquire->may_not_create);
	waiter->progress = acquire->progress;
	waiter->lease = acquire->lease;
	waiter->requester = requester_new(waiter->id, acquire);
	if (!acquire->exempt)
		waiter->share = channels_share(engine, acquire->uid);
	timer_init(&waiter->deadline, acquire_deadline_passed, engine, waiter->id);
	timer_init(&waiter->rest, acquire_rest_is_over, engine, waiter->id);
	return waiter;
}

/* The waiter joins the queue, behind an older change by its peer if there is one. */
static void
waiter_join(struct lock_engine *engine, struct waiter *waiter, int64_t deadline)
{
	waiter->behind = waiter->kind == LOCK_KIND_MUTEX
			     ? 0
			     : peer_order_youngest_change(
				   engine, waiter->peer, waiter->semaphore->name, waiter->request);
	waiter->state = waiter->behind != 0 ? WAITER_BEHIND : WAITER_NEW;
	registry_waiter_attach(engine, waiter);
	if (deadline != INT64_MAX)
		timers_set(engine->timers, &waiter->deadline, deadline);
}

void
lock_acquire(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_acquire *acquire)
{
	const char *text;
	enum reason reason = acquire_refusal(engine, peer, &text);
	int64_t now = engine_now(engine), patience = acquire->timeout;
	struct waiter *waiter;

	assert(!engine->telling && peer != 0);
	if (reason != REASON_NONE) {
		struct lock_answer answer = engine_refusal(reason, text);

		engine->total.refused++;
		engine_tell(engine, peer, request, &answer);
		return;
	}
	waiter = waiter_new(engine, engine_id(engine), peer, request, acquire);
	waiter->started = now;
	if (patience == 0)
		patience = engine->settings.request_timeout;
	FAULT(WAIT_WITHOUT_END, patience = DURATION_FOREVER);
	waiter_join(engine, waiter, patience == DURATION_FOREVER ? INT64_MAX : now + patience);
	if (engine->link == BROKER_UP)
		engine_mark_dirty(engine, waiter->semaphore);
	else if (is_login_refused(engine) || acquire->timeout == 0)
		acquire_refuse_for_link(engine, waiter);
	else
		engine_tell_broker(engine, peer);
}

void
acquire_resume(struct lock_engine *engine, const struct acquire_resumed *resumed)
{
	struct waiter *waiter =
	    waiter_new(engine, resumed->id, resumed->peer, resumed->request, &resumed->acquire);

	waiter->started = resumed->started;
	waiter_join(engine, waiter, resumed->deadline);
	if (engine->link == BROKER_UP)
		engine_mark_dirty(engine, waiter->semaphore);
}

void
acquire_end_all(struct lock_engine *engine, const struct lock_answer *answer)
{
	struct waiter *waiter;

	while ((waiter = engine->waiters) != NULL) {
		struct lock_answer its = *answer;

		its.name = waiter->semaphore->name;
		registry_waiter_end(engine, waiter, &its);
	}
}

/* The lock connection changed: results and requests in flight are outdated. */
static void
acquire_begin_anew(struct lock_engine *engine, struct waiter *waiter)
{
	switch (waiter->state) {
	case WAITER_CLAIMING:
		FAULT(LINK_FORGETS_WAITER, break);
		if (engine->link == BROKER_UP)
			break;
		registry_waiter_set_state(engine, waiter, WAITER_NEW);
		break;
	case WAITER_SCANNED:
	case WAITER_WAITING:
	case WAITER_UNSEEN:
		FAULT_IF(LINK_DROPS_WAITER, waiter->state == WAITER_WAITING,
			 registry_waiter_set_state(engine, waiter, WAITER_BEHIND);
			 break);
		registry_waiter_set_state(engine, waiter, WAITER_NEW);
		break;
	case WAITER_BEHIND:
	case WAITER_NEW:
	case WAITER_RESTING:
		break;
	}
}

void
acquire_link_changed(struct lock_engine *engine, const char *why)
{
	struct waiter *waiter, *next;

	HASH_ITER (by_id, engine->waiters, waiter, next) {
		acquire_begin_anew(engine, waiter);
		if (is_login_refused(engine))
			registry_waiter_refuse(engine, waiter, REASON_BROKER_REFUSED, why);
		else if (engine->link == BROKER_DOWN && registry_waiter_is_over(engine, waiter))
			registry_waiter_refuse(engine, waiter, REASON_BROKER_UNAVAILABLE, why);
	}
	for (struct semaphore *s = engine->semaphores; s != NULL; s = s->by_key.next) {
		semaphore_forget(s);
		engine_mark_dirty(engine, s);
	}
	channels_link_changed(engine);
	wait_queue_join_or_leave(engine);
}

/* ---- administration of waiters (seeds/004, "Grant", "Cancel") ---- */

enum reason
lock_admit(struct lock_engine *engine, uint64_t id)
{
	struct waiter *waiter = engine_waiter_find(engine, id);
	const struct lock_peer *peer;

	assert(!engine->telling);
	if (waiter == NULL)
		return REASON_NOT_HELD;
	peer = engine_peer_find(engine, waiter->peer);
	/* The waiter's own claim, if it has one, ends with this. */
	if (peer->hold_count + peer->claim_count - (waiter->state == WAITER_CLAIMING) >=
	    engine->settings.max_locks_per_connection)
		return REASON_TOO_MANY_LOCKS;
	grant_slotless(engine, waiter, true);
	return REASON_NONE;
}

static void
acquire_deny(struct lock_engine *engine, struct waiter *waiter)
{
	struct lock_answer answer = engine_refusal(REASON_CANCELLED, "denied by an administrator");

	answer.name = waiter->semaphore->name;
	answer.denied = true;
	registry_waiter_end(engine, waiter, &answer);
}

enum reason
lock_deny(struct lock_engine *engine, uint64_t id)
{
	struct waiter *waiter = engine_waiter_find(engine, id);

	assert(!engine->telling);
	if (waiter == NULL)
		return REASON_NOT_HELD;
	acquire_deny(engine, waiter);
	return REASON_NONE;
}

size_t
lock_deny_all(struct lock_engine *engine, const char *name)
{
	struct waiter *waiter;
	size_t denied = 0;

	assert(!engine->telling);
	for (int mutex = 0; mutex <= 1; mutex++) {
		struct semaphore *semaphore = engine_semaphore_find(engine, name, mutex != 0);

		for (; semaphore != NULL && (waiter = local_queue_first(
						 &semaphore->local_queue, LOCAL_QUEUE_ALL)) != NULL;
		     denied++)
			acquire_deny(engine, waiter);
	}
	return denied;
}

/* 2. Hints that come. */

/* The minimum time between two hints of a name that are passed on. */
#define PASS_ON_AGAIN (50 * NSEC_PER_MSEC)

static void
hint_pass_on(struct lock_engine *engine, struct semaphore *semaphore, int slot)
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
hint_who_claims(const struct lock_engine *engine, const struct semaphore *semaphore, int slot)
{
	if (engine->link != BROKER_UP || !channels_are_left(engine))
		return NULL;
	return local_queue_who_wants(&semaphore->local_queue, slot, NULL);
}

/* No waiter here can use the slot: this hint, and those that follow, go to other daemons. */
static void
hint_turn_down(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	if (local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_WANTS) > 0 &&
	    engine->link == BROKER_UP) {
		FAULT(STARVED_KEEPS_HINT, return;);
		channels_starve(engine, semaphore, LOCAL_QUEUE_WANTS);
	}
	hint_pass_on(engine, semaphore, slot);
}

/* A mutex that was held in another way is free. Only a scan leads to its way by quorum. */
static bool
hint_is_to_be_made(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	return semaphore->mutex && way_row(engine->settings.claim)->by_beads &&
	       semaphore->asks_quorum && !semaphore->by_quorum && !semaphore->held_otherwise;
}

/* A hint. slot: from 1; 0 = no particular one. */
static void
hint_came(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	struct queue_name b;
	struct waiter *waiter;
	struct hold *hold;

	withheld_to_nobody(engine, semaphore, slot);
	FAULT_IF(FROZEN_TAKES_HINTS, engine->frozen, return );
	if (slot < 1 || slot > engine->settings.slots_most || scan_is_guarded(engine, semaphore) ||
	    hint_is_to_be_made(engine, semaphore)) {
		if (local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_WANTS) == 0 ||
		    (slot != 0 && hint_who_claims(engine, semaphore, 1) == NULL)) {
			hint_turn_down(engine, semaphore, slot);
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
			hint_pass_on(engine, semaphore, slot);
		return;
	}
	/* A waiter whose peer may have no more holds is refused. The next one is tried. */
	while ((hold = hold_find_queue(&engine->holds, b.text)) == NULL) {
		waiter = hint_who_claims(engine, semaphore, slot);
		if (waiter == NULL) {
			hint_turn_down(engine, semaphore, slot);
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

/* 3. The queue runner. */

#define NEW LOCAL_QUEUE_OF(WAITER_NEW)
#define SCANNED LOCAL_QUEUE_OF(WAITER_SCANNED)
#define UNSEEN LOCAL_QUEUE_OF(WAITER_UNSEEN)

/* ---- slots that may be claimed ---- */

/* A hold of this daemon reserves the slot, or it is withheld. */
static bool
queue_is_withheld(const struct lock_engine *engine, const struct waiter *waiter, int slot)
{
	struct queue_name b = registry_slot_queue(waiter->semaphore, slot);

	return hold_find_queue(&engine->holds, b.text) != NULL ||
	       withheld_has(waiter->semaphore, slot);
}

/* A slot that is known to be free, for the waiter to claim; 0: none. */
static int
known_free_slot(struct lock_engine *engine, const struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	int count = waiter->kind == LOCK_KIND_SEMAPHORE ? semaphore->size : 1, first = 0;

	FAULT(ANY_SLOT_WILL_DO, count = semaphore->size);
	if (count > semaphore->size || !semaphore_has_free(semaphore))
		return 0;
	/*
	 * From slot 1 up (seeds/000: 1 makes the most sense); after a lost race from a random slot.
	 */
	if (waiter->races > 0)
		first = (int)jitter_below(&engine->jitter, count);
	for (int i = 0; i < count; i++) {
		int slot = 1 + (first + i) % count;

		if (!semaphore->busy[slot - 1] && !queue_is_withheld(engine, waiter, slot))
			return slot;
	}
	return 0;
}

/* The next slot to claim unseen; 0: none is known. */
static int
unseen_slot(struct lock_engine *engine, const struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	int last = waiter->kind == LOCK_KIND_SEMAPHORE
		       ? (semaphore->complete ? semaphore->size : engine->settings.slots_most)
		       : 1;

	for (int slot = semaphore->scan.direct; slot <= last; slot++) {
		if (!queue_is_withheld(engine, waiter, slot))
			return slot;
	}
	return 0;
}

/* ---- the result of a scan ---- */

static void
queue_begin_wait(struct lock_engine *engine, struct waiter *waiter)
{
	registry_waiter_set_state(engine, waiter, WAITER_WAITING);
	wait_queue_add(engine, waiter);
	waiter->begun = true;
	waiter->races = 0;
	progress_begin(engine, waiter);
}

static const char *
what_is_unknown(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (scan_is_guarded(engine, semaphore))
		return "the broker did not say whether a semaphore has that name";
	if (semaphore->mode == SEMAPHORE_UNMADE)
		return "the mutex has not been used for an hour, and its queue cannot be made now";
	if (semaphore->mode == SEMAPHORE_UNKNOWN)
		return "slot 1 does not exist, and the broker did not say whether the lock is a "
		       "gate";
	return "the broker did not say which slots are busy";
}

/* Whether the waiter lacks only a channel: a slot is free, or could not be tried. */
static bool
queue_starves(struct lock_engine *engine, const struct waiter *waiter, char text[LOCK_LACKING_MAX])
{
	return channels_lacking(engine, waiter->share, text) != NULL &&
	       (waiter->state == WAITER_UNSEEN || known_free_slot(engine, waiter) != 0);
}

/* No slot or no channel is free for the waiter: it is refused, or its wait begins. */
static void
queue_find_nothing(struct lock_engine *engine, struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	char text[LOCK_LACKING_MAX];
	struct lock_answer answer;
	bool starving;

	FAULT_IF(STARVED_IS_REFUSED, queue_starves(engine, waiter, text), waiter->timeout = 0);
	if (!registry_waiter_is_over(engine, waiter)) {
		queue_begin_wait(engine, waiter);
		return;
	}
	if (semaphore->scan.withheld && !waiter->yielded && waiter->state == WAITER_SCANNED) {
		waiter->yielded = true;
		registry_waiter_rest(engine, waiter, engine->settings.hint_grace);
		return;
	}
	starving = queue_starves(engine, waiter, text);
	if (waiter->timeout != 0 && (starving || semaphore->complete || waiter->begun)) {
		acquire_time_out(engine, waiter);
		return;
	}
	if (starving)
		answer = engine_refusal(REASON_TOO_MANY_LOCKS, text);
	else if (semaphore->complete)
		answer = engine_full(semaphore, REASON_WOULD_BLOCK);
	else
		answer = engine_refusal_unknown(engine, what_is_unknown(engine, semaphore));
	answer.name = semaphore->name;
	registry_waiter_end(engine, waiter, &answer);
}

enum verdict {
	VERDICT_NOTHING,   /* no slot is free */
	VERDICT_UNLIMITED, /* its holds take no slot */
	VERDICT_MISSING,   /* the lock does not exist */
	VERDICT_NO_MUTEX,  /* the mutex is the administration mutex of a semaphore */
	VERDICT_UNMADE,    /* the mutex has no queue by quorum, or no post */
	VERDICT_OLD,       /* the findings are outdated */
	VERDICT_UNSEEN     /* probes failed: slots are claimed unseen */
};

/* The verdict of a scan that is over, for waiters without a slot. */
static enum verdict
queue_find_verdict(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (semaphore->scan.forgotten)
		return VERDICT_OLD;
	if (semaphore->mode == SEMAPHORE_UNLIMITED)
		return VERDICT_UNLIMITED;
	if (semaphore->mode == SEMAPHORE_NO_MUTEX)
		return VERDICT_NO_MUTEX;
	if (semaphore->mode == SEMAPHORE_UNMADE)
		return VERDICT_UNMADE;
	if (semaphore->mode == SEMAPHORE_PLAIN && semaphore->complete && semaphore->size == 0)
		return VERDICT_MISSING;
	/*
	 * Before `overtaken`: a claim unseen finds slots that are free now, so nothing is outdated.
	 */
	if (semaphore->scan.unknown && !scan_is_guarded(engine, semaphore))
		return VERDICT_UNSEEN;
	return semaphore->scan.overtaken ? VERDICT_OLD : VERDICT_NOTHING;
}

static void
queue_judge(struct lock_engine *engine, struct waiter *waiter, enum verdict verdict)
{
	struct semaphore *semaphore = waiter->semaphore;
	char *words;

	switch (verdict) {
	case VERDICT_NOTHING:
		queue_find_nothing(engine, waiter);
		break;
	case VERDICT_UNLIMITED:
		grant_slotless(engine, waiter, false);
		break;
	case VERDICT_MISSING:
		if (waiter->create == 0) {
			registry_waiter_refuse(engine, waiter, REASON_NO_SUCH_LOCK, NULL);
			break;
		}
		if (semaphore->creating == 0 && waiter->may_not_create != NULL) {
			/* The answer borrows the words, and the waiter is freed before it. */
			words = waiter->may_not_create;
			waiter->may_not_create = NULL;
			registry_waiter_refuse(engine, waiter, REASON_PERMISSION_DENIED, words);
			free(words);
			break;
		}
		if (semaphore->creating == 0)
			semaphore->creating =
			    admin_create_missing(engine, semaphore->name, waiter->create);
		registry_waiter_set_state(engine, waiter, WAITER_BEHIND);
		waiter->behind = semaphore->creating;
		break;
	case VERDICT_UNMADE:
		if (!grant_has_room(engine, waiter, BROKER_BY_QUORUM))
			break;
		if (semaphore->creating == 0)
			semaphore->creating = make_mutex(engine, semaphore->name, semaphore->beads);
		registry_waiter_set_state(engine, waiter, WAITER_BEHIND);
		waiter->behind = semaphore->creating;
		break;
	case VERDICT_NO_MUTEX:
		registry_waiter_refuse(engine, waiter, REASON_ALREADY_EXISTS,
		    "a semaphore has this name and uses the same queue");
		break;
	case VERDICT_OLD:
		registry_waiter_set_state(engine, waiter, WAITER_NEW);
		break;
	case VERDICT_UNSEEN:
		registry_waiter_set_state(engine, waiter, WAITER_UNSEEN);
		break;
	}
}

/*
 * Judges the waiters of the scan. Waiters whose wait had begun before stay as they are, unless the
 * verdict is more than that no slot is free.
 */
static void
queue_end_scan(struct lock_engine *engine, struct semaphore *semaphore)
{
	enum verdict verdict = queue_find_verdict(engine, semaphore);
	unsigned who = SCANNED;
	struct waiter *waiter, *next;

	scan_end(semaphore);
	if (verdict == VERDICT_UNSEEN)
		semaphore->scan.direct = 1;
	else if (verdict != VERDICT_NOTHING && verdict != VERDICT_OLD)
		who |= LOCAL_QUEUE_OF(WAITER_WAITING);
	FAULT_IF(LATECOMER_IS_UNLIMITED, verdict == VERDICT_UNLIMITED, who |= NEW);
	/* The next free channel wakes the name. The daemon then joins the wait queue again. */
	if (verdict == VERDICT_NOTHING && semaphore->out)
		channels_starve(engine, semaphore, LOCAL_QUEUE_WANTS);
	for (waiter = local_queue_first(&semaphore->local_queue, who); waiter != NULL;
	     waiter = next) {
		next = local_queue_next(&semaphore->local_queue, waiter, who);
		queue_judge(engine, waiter, verdict);
	}
}

/* ---- while probes fail ---- */

/*
 * Claims the next slot for the first waiter that can use it. True: an answer is awaited. No scan
 * begins until all slots have been tried.
 */
static bool
queue_claim_unseen(struct lock_engine *engine, struct semaphore *semaphore)
{
	unsigned who = UNSEEN | LOCAL_QUEUE_OF(WAITER_WAITING);
	struct waiter *waiter;
	uint64_t id;
	int slot;

	if (semaphore->scan.direct == 0 && local_queue_count(&semaphore->local_queue, UNSEEN) > 0)
		semaphore->scan.direct = 1; /* earlier results are outdated */
	while (semaphore->scan.direct != 0) {
		waiter = engine_waiter_find(engine, semaphore->scan.claimer);
		if (waiter != NULL && waiter->state == WAITER_CLAIMING && waiter->direct != 0)
			return true;
		waiter = channels_are_left(engine)
			     ? local_queue_first_able(&semaphore->local_queue, who, NULL)
			     : NULL;
		slot = waiter == NULL ? 0 : unseen_slot(engine, waiter);
		/* A persistent mutex needs slot 1; the waiters behind it may use other slots. */
		while (slot == 0 && waiter != NULL && waiter->kind == LOCK_KIND_PERSISTENT_MUTEX) {
			waiter = local_queue_next_able(&semaphore->local_queue, waiter, who, NULL);
			slot = waiter == NULL ? 0 : unseen_slot(engine, waiter);
		}
		if (slot != 0) {
			id = waiter->id;
			semaphore->scan.direct = slot + 1;
			claim_start(engine, waiter, slot);
			waiter = engine_waiter_find(engine, id);
			if (waiter == NULL || waiter->state != WAITER_CLAIMING)
				continue; /* too many holds of its peer, or no channel */
			semaphore->scan.claimer = id;
			waiter->direct = slot;
			return true;
		}
		/*
		 * All slots have been tried, or no waiter is left that wants one and can have a
		 * channel. Waiters without a channel are not woken for this. A failed claim takes a
		 * channel and gives it back, so names would wake each other without end.
		 */
		semaphore->scan.direct = 0;
		while ((waiter = local_queue_first(&semaphore->local_queue, UNSEEN)) != NULL)
			queue_find_nothing(engine, waiter);
	}
	return false;
}

/* ---- the queue ---- */

/* The states of waiters that may claim a slot that is known to be free. */
static unsigned
served_by_knowledge(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (!semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.rescan_interval))
		return 0;
	if (!scan_is_guarded(engine, semaphore))
		return LOCAL_QUEUE_READY;
	/* Without a scan since the waiter came, the name may be a semaphore by now. */
	return semaphore->scan.state == SCAN_PROBING ? 0 : SCANNED | LOCAL_QUEUE_OF(WAITER_WAITING);
}

/* Claims free slots for waiters that can have a channel, in the order of the queue. */
static void
queue_claim_for(struct lock_engine *engine, struct semaphore *semaphore, unsigned who)
{
	struct waiter *waiter = local_queue_first_able(&semaphore->local_queue, who, NULL), *next;

	for (; waiter != NULL && channels_are_left(engine); waiter = next) {
		int slot = known_free_slot(engine, waiter);

		next = local_queue_next_able(&semaphore->local_queue, waiter, who, NULL);
		if (!share_has_room(waiter->share))
			continue; /* the waiter before it took the last channel */
		if (slot != 0)
			claim_start(engine, waiter, slot);
		else if (waiter->kind != LOCK_KIND_PERSISTENT_MUTEX || semaphore->size <= 1)
			return; /* if this waiter finds no slot, the others find none */
	}
}

static void
queue_schedule_rescan(struct lock_engine *engine, struct semaphore *semaphore)
{
	int64_t most = engine->settings.rescan_interval, least = most / 10 * 7;

	FAULT(NO_RESCAN, most = (least = 3600 * NSEC_PER_SEC) + 1);
	FAULT(POLLING, most = (least /= 10) + 1);
	if (semaphore->scan.overtaken)
		timers_cancel(engine->timers, &semaphore->rescan);
	else
		timers_set(engine->timers, &semaphore->rescan,
		    engine_now(engine) + least + jitter_below(&engine->jitter, most - least));
}

/*
 * A slot that was freed here just now is withheld. It is soon known whether its hint reached a
 * waiter. A waiter that has just come waits for that instead of scanning.
 */
static bool
is_about_to_know(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	const struct waiter *waiter = local_queue_first(&semaphore->local_queue, NEW);

	return waiter != NULL && semaphore->withheld != NULL &&
	       engine_now(engine) - waiter->started < engine->settings.hint_grace &&
	       semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.rescan_interval);
}

/*
 * A consumer in the wait queue keeps the auxiliary connection up. If it is down nevertheless, it
 * cannot be connected.
 */
static bool
cannot_probe(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	return (info.auxiliary_blocked ||
		   (info.auxiliary != BROKER_UP && wait_queue_has_place(semaphore))) &&
	       !scan_is_guarded(engine, semaphore);
}

/*
 * If a client waits here already, all slots were busy, and this daemon gets hints of freed slots. A
 * newcomer therefore waits behind it without a scan. A scan would only find slots whose hints went
 * to others.
 */
static void
queue_join_who_wait(struct lock_engine *engine, struct semaphore *semaphore)
{
	const struct waiter *first =
	    local_queue_first(&semaphore->local_queue, LOCAL_QUEUE_OF(WAITER_WAITING));
	struct waiter *waiter, *next;

	if (first == NULL || !rescan_will_do(semaphore) || semaphore->scan.overtaken ||
	    !timer_is_set(&semaphore->rescan) || wait_queue_count(semaphore) == 0)
		return;
	for (waiter = local_queue_first(&semaphore->local_queue, NEW); waiter != NULL;
	     waiter = next) {
		next = local_queue_next(&semaphore->local_queue, waiter, NEW);
		/* A waiter for slot 1 alone says nothing about the other slots. */
		if (!registry_waiter_is_over(engine, waiter) &&
		    (first->kind != LOCK_KIND_PERSISTENT_MUTEX ||
			waiter->kind == LOCK_KIND_PERSISTENT_MUTEX))
			queue_begin_wait(engine, waiter);
	}
}

/* Scans if a waiter came after the last scan began, or if a waiter waits and a rescan is due. */
static void
queue_scan_if_wanted(struct lock_engine *engine, struct semaphore *semaphore)
{
	unsigned who = timer_is_set(&semaphore->rescan) ? NEW : LOCAL_QUEUE_READY;
	struct waiter *waiter;
	bool for_new;

	if (local_queue_count(&semaphore->local_queue, who) == 0 ||
	    is_about_to_know(engine, semaphore))
		return;
	if (local_queue_count(&semaphore->local_queue, NEW) == 0 &&
	    cannot_probe(engine, semaphore)) {
		/* Probes would fail, as is known before they are sent. */
		semaphore->scan.overtaken = false;
		semaphore->scan.direct = 1;
		queue_schedule_rescan(engine, semaphore);
		queue_claim_unseen(engine, semaphore);
		return;
	}
	for_new = local_queue_count(&semaphore->local_queue, NEW) > 0;
	while ((waiter = local_queue_first(&semaphore->local_queue, NEW)) != NULL)
		registry_waiter_set_state(engine, waiter, WAITER_SCANNED);
	if (for_new ? rescan_sees_all(semaphore) : rescan_will_do(semaphore))
		rescan_start(engine, semaphore, for_new);
	else
		scan_start(engine, semaphore);
}

/* The name has no waiters: it is kept while its knowledge is fresh, then forgotten. */
static void
queue_rest_in_peace(struct lock_engine *engine, struct semaphore *semaphore)
{
	int64_t now = engine_now(engine);

	if (semaphore->scan.state == SCAN_SEEN)
		scan_end(semaphore);
	semaphore->scan.direct = 0;
	if (semaphore->scan.state != SCAN_OVER || semaphore->members != NULL ||
	    semaphore->withheld != NULL)
		return; /* it is marked dirty when that is over */
	if (semaphore->size > 0 &&
	    semaphore_is_fresh(semaphore, now, engine->settings.rescan_interval))
		timers_set(engine->timers, &semaphore->rescan,
		    semaphore->seen + engine->settings.rescan_interval);
	else if (now < semaphore->incomplete_until)
		timers_set(
		    engine->timers, &semaphore->rescan, now + engine->settings.rescan_interval);
	else
		registry_semaphore_end(engine, semaphore);
}

static void
queue_move(struct lock_engine *engine, struct semaphore *semaphore)
{
	unsigned who = served_by_knowledge(engine, semaphore);

	queue_claim_for(engine, semaphore, who);
	if (semaphore_has_free(semaphore))
		channels_starve(engine, semaphore, who);
	switch (semaphore->scan.state) {
	case SCAN_PROBING:
		return;
	case SCAN_SEEN:
		if (local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_READY) > 0 &&
		    !scan_is_whole(semaphore)) {
			scan_continue(engine, semaphore);
			return;
		}
		queue_end_scan(engine, semaphore);
		queue_schedule_rescan(engine, semaphore);
		break;
	case SCAN_OVER:
		break;
	}
	queue_join_who_wait(engine, semaphore);
	if (!queue_claim_unseen(engine, semaphore))
		queue_scan_if_wanted(engine, semaphore);
}

void
queue_runner_run(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct waiter *waiter;

	/* The marks of lower files (objects.h). */
	while (semaphore->hinted_count > 0)
		hint_came(engine, semaphore, semaphore->hinted[--semaphore->hinted_count]);
	if (semaphore->rests_over) {
		semaphore->rests_over = false;
		while ((waiter = local_queue_first(
			    &semaphore->local_queue, LOCAL_QUEUE_OF(WAITER_RESTING))) != NULL)
			registry_waiter_wake(engine, waiter);
	}
	semaphore->dirty = false;
	if (local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_ALL) == 0) {
		channels_forget(engine, semaphore);
		wait_queue_back(engine, semaphore);
		queue_rest_in_peace(engine, semaphore);
		return;
	}
	if (semaphore->out && channels_can_serve(engine, semaphore))
		wait_queue_back(engine, semaphore);
	if (engine->link == BROKER_UP)
		queue_move(engine, semaphore);
	channels_served(engine, semaphore);
	progress_tell(engine, semaphore);
}
