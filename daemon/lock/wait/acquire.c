#include "daemon/lock/wait/acquire.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin/peer_order.h"
#include "daemon/lock/core/channels.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/wait_queue.h"
#include "daemon/lock/hold/grant.h"
#include "protocol/duration.h"

/* Refuses an acquire that cannot reach the broker, in the words of the broker or the system. */
static void
refuse_for_link(struct lock_engine *engine, struct waiter *waiter)
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
is_trying(const struct waiter *waiter)
{
	if (waiter->state == WAITER_RESTING && why_not_created(waiter) != NULL)
		return false;
	return waiter->state != WAITER_WAITING || !waiter->begun;
}

void
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
finish_try(struct lock_engine *engine, struct waiter *waiter, int64_t deadline)
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
deadline_passed(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct waiter *waiter = engine_waiter_find(engine, id);
	int64_t now = engine_now(engine), left;
	bool trying;

	assert(waiter != NULL);
	trying = is_trying(waiter);
	FAULT_IF(DEADLINE_ENDS_A_TRY, waiter->timeout != 0, trying = false);
	left = engine->settings.request_timeout - (now - waiter->started - waiter->timeout);
	if (engine->link != BROKER_UP)
		refuse_for_link(engine, waiter);
	else if (trying && left > 0)
		finish_try(engine, waiter, now + left);
	/* The change that a waiter is behind may wait for holders, and not for the broker. */
	else if (waiter->timeout == 0 || (trying && waiter->state != WAITER_BEHIND))
		registry_waiter_refuse(
		    engine, waiter, REASON_BROKER_UNAVAILABLE, "the broker did not answer in time");
	else
		acquire_time_out(engine, waiter);
}

static void
rest_is_over(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct waiter *waiter = engine_waiter_find(engine, id);

	assert(waiter != NULL && waiter->state == WAITER_RESTING);
	registry_waiter_wake(engine, waiter);
}

/* Why a new acquire is refused at once; REASON_NONE: it is not. */
static enum reason
refusal_at_the_door(const struct lock_engine *engine, uint64_t peer, const char **ret_text)
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
	timer_init(&waiter->deadline, deadline_passed, engine, waiter->id);
	timer_init(&waiter->rest, rest_is_over, engine, waiter->id);
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
	enum reason reason = refusal_at_the_door(engine, peer, &text);
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
		refuse_for_link(engine, waiter);
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
begin_anew(struct lock_engine *engine, struct waiter *waiter)
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
		begin_anew(engine, waiter);
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
deny(struct lock_engine *engine, struct waiter *waiter)
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
	deny(engine, waiter);
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
			deny(engine, waiter);
	}
	return denied;
}
