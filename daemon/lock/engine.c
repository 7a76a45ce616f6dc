#include "daemon/lock/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/drain.h"
#include "daemon/lock/flight.h"
#include "daemon/lock/hint.h"
#include "daemon/lock/rows.h"
#include "daemon/lock/standing.h"
#include "daemon/lock/waitline.h"

uint64_t
engine_id(struct lock_engine *engine)
{
	return ++engine->last_id;
}

int64_t
engine_now(const struct lock_engine *engine)
{
	return clock_now(timers_clock(engine->timers));
}

/* ---- peers ---- */

struct lock_peer *
engine_peer_find(const struct lock_engine *engine, uint64_t id)
{
	struct lock_peer *peer;

	HASH_FIND(by_id, engine->peers, &id, sizeof(id), peer);
	return peer;
}

struct lock_peer *
engine_peer(struct lock_engine *engine, uint64_t id)
{
	struct lock_peer *peer = engine_peer_find(engine, id);

	if (peer == NULL) {
		peer = mem_alloc(sizeof(*peer));
		peer->id = id;
		TAILQ_INIT(&peer->holds);
		TAILQ_INIT(&peer->waiters);
		TAILQ_INIT(&peer->drains);
		HASH_ADD(by_id, engine->peers, id, sizeof(peer->id), peer);
	}
	return peer;
}

void
engine_peer_let_go(struct lock_engine *engine, struct lock_peer *peer)
{
	if (peer->hold_count > 0 || peer->waiter_count > 0 || peer->drain_count > 0)
		return;
	HASH_DELETE(by_id, engine->peers, peer);
	free(peer);
}

void
engine_hold_attach(struct lock_engine *engine, struct hold *hold, uint64_t peer)
{
	struct lock_peer *entry = engine_peer(engine, peer);

	assert(hold->peer == 0);
	hold->peer = peer;
	TAILQ_INSERT_TAIL(&entry->holds, hold, of_peer);
	entry->hold_count++;
}

void
engine_hold_detach(struct lock_engine *engine, struct hold *hold)
{
	struct lock_peer *entry;

	if (hold->peer == 0)
		return;
	rows_gone(engine, hold);
	entry = engine_peer_find(engine, hold->peer);
	TAILQ_REMOVE(&entry->holds, hold, of_peer);
	entry->hold_count--;
	hold->peer = 0;
	engine_peer_let_go(engine, entry);
}

/* ---- watches ---- */

void
engine_hold_watch(struct lock_engine *engine, struct hold *hold, enum hold_watch watch)
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
engine_hold_unwatch(struct lock_engine *engine, struct hold *hold)
{
	timers_cancel(engine->timers, &hold->watch_timer);
	if (hold->watch == HOLD_WATCH_NONE)
		return;
	engine_hold_watch(engine, hold, HOLD_WATCH_NONE);
	if (!FAULT(WATCH_LEAKED))
		broker_unwatch(engine->broker, hold->a.text);
}

/* ---- waiters ---- */

void
engine_waiter_attach(struct lock_engine *engine, struct waiter *waiter)
{
	struct lock_peer *entry = engine_peer(engine, waiter->peer);

	HASH_ADD(by_id, engine->waiters, id, sizeof(waiter->id), waiter);
	TAILQ_INSERT_TAIL(&entry->waiters, waiter, of_peer);
	entry->waiter_count++;
	line_join(&waiter->semaphore->line, waiter);
	rows_waits(engine, waiter);
}

struct waiter *
engine_waiter_find(const struct lock_engine *engine, uint64_t id)
{
	struct waiter *waiter;

	HASH_FIND(by_id, engine->waiters, &id, sizeof(id), waiter);
	return waiter;
}

void
engine_waiter_set_state(struct lock_engine *engine, struct waiter *waiter, enum waiter_state state)
{
	struct lock_peer *entry = engine_peer_find(engine, waiter->peer);

	if (waiter->state == WAITER_CLAIMING)
		entry->claim_count--;
	if (state == WAITER_CLAIMING)
		entry->claim_count++;
	line_set_state(waiter, state);
	if (state != WAITER_CLAIMING) {
		waiter->hold = 0;
		waiter->direct = 0;
	}
	if (state != WAITER_BEHIND)
		waiter->behind = 0;
}

void
engine_waiter_free(struct lock_engine *engine, struct waiter *waiter)
{
	struct lock_peer *entry = engine_peer_find(engine, waiter->peer);
	struct hold *claimed = hold_find(&engine->holds, waiter->hold);

	rows_cancelled(engine, waiter);
	timers_cancel(engine->timers, &waiter->deadline);
	timers_cancel(engine->timers, &waiter->rest);
	standing_end(waiter);
	line_leave(waiter);
	waitline_remove(engine, waiter);
	engine_poke(engine, waiter->semaphore);
	HASH_DELETE(by_id, engine->waiters, waiter);
	TAILQ_REMOVE(&entry->waiters, waiter, of_peer);
	entry->waiter_count--;
	entry->claim_count -= waiter->state == WAITER_CLAIMING;
	engine_peer_let_go(engine, entry);
	channels_waiter_gone(engine, waiter->share);
	party_free(waiter->party);
	free(waiter);
	/* What is in flight for it stays reserved, and is dropped when it turns out to be ours. */
	if (claimed != NULL)
		claim_give_up(engine, claimed);
}

/* ---- answers and notices ---- */

void
engine_tell(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	assert(!engine->telling);
	engine->telling = true;
	engine->listener.answer(engine->listener.ctx, peer, request, answer);
	engine->telling = false;
}

void
engine_waiter_end(
    struct lock_engine *engine, struct waiter *waiter, const struct lock_answer *answer)
{
	uint64_t peer = waiter->peer, request = waiter->request;

	if (answer->reason == REASON_NONE)
		engine->total.granted++;
	else
		engine->total.refused++;
	engine_waiter_free(engine, waiter);
	engine_tell(engine, peer, request, answer);
}

void
engine_notice(struct lock_engine *engine, uint64_t peer, const struct lock_notice *notice)
{
	assert(!engine->telling);
	if (FAULT(NOT_TOLD) && notice->kind == LOCK_NOTICE_LOST)
		return;
	engine->telling = true;
	engine->listener.notice(engine->listener.ctx, peer, notice);
	engine->telling = false;
}

void
engine_tell_broker(struct lock_engine *engine, uint64_t peer)
{
	struct broker_info info;
	struct lock_notice notice = {.kind = LOCK_NOTICE_BROKER};

	broker_get_info(engine->broker, &info);
	notice.state = info.hold;
	notice.text = info.why;
	engine_notice(engine, peer, &notice);
}

struct lock_answer
engine_refusal(enum reason reason, const char *text)
{
	return (struct lock_answer){.reason = reason,
	    .text = text,
	    .slots = -1,
	    .target = -1,
	    .holders = -1,
	    .waiting = -1};
}

struct lock_answer
engine_refusal_unknown(const struct lock_engine *engine, const char *text)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	if (info.probes_refused[0] != '\0')
		return engine_refusal(REASON_BROKER_DENIED, info.probes_refused);
	return engine_refusal(
	    info.side_blocked ? REASON_BROKER_BLOCKED : REASON_BROKER_UNAVAILABLE, text);
}

bool
engine_refusal_for_link(const struct lock_engine *engine, struct lock_answer *ret_refusal)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	if (engine->link != BROKER_UP)
		*ret_refusal = engine_refusal(
		    info.hold == BROKER_DENIED ? REASON_BROKER_DENIED : REASON_BROKER_UNAVAILABLE,
		    info.why);
	else if (info.side_blocked)
		*ret_refusal = engine_refusal(REASON_BROKER_BLOCKED, NULL);
	else
		return false;
	return true;
}

struct lock_answer
engine_full(const struct semaphore *semaphore, enum reason reason)
{
	struct lock_answer answer = engine_refusal(reason, NULL);

	answer.name = semaphore->name;
	answer.slots = semaphore->complete ? semaphore->size : -1;
	if (answer.slots == 0)
		answer.text =
		    "it has no slots for the time being"; /* which is not "all are taken" */
	answer.holders = semaphore_holders(semaphore);
	/* Without the one that is answered. */
	answer.waiting = (int)line_count(&semaphore->line, LINE_ALL) - 1;
	return answer;
}

/* ---- requests that do not wait by themselves ---- */

void
engine_op_give_up(struct lock_engine *engine, uint64_t id, struct lock_answer *answer)
{
	const struct op *op = engine_op_find(engine, id);
	void (*expired)(struct lock_engine *, uint64_t) = op->expired;

	if (op->fill != NULL)
		op->fill(engine, id, answer);
	engine_op_end(engine, id, answer);
	if (expired != NULL)
		expired(engine, id);
}

static void
op_too_late(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	const struct op *op = engine_op_find(engine, id);
	struct lock_answer answer = engine_refusal(
	    op->late, op->late_text != NULL ? op->late_text : "the broker did not answer in time");

	engine_op_give_up(engine, id, &answer);
}

struct op *
engine_op_new(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct op *op = mem_alloc(sizeof(*op));

	op->id = engine_id(engine);
	op->peer = peer;
	op->request = request;
	op->late = REASON_BROKER_UNAVAILABLE;
	timer_init(&op->deadline, op_too_late, engine, op->id);
	HASH_ADD(by_id, engine->ops, id, sizeof(op->id), op);
	engine_op_progress(engine, op);
	return op;
}

struct op *
engine_op_find(const struct lock_engine *engine, uint64_t id)
{
	struct op *op;

	HASH_FIND(by_id, engine->ops, &id, sizeof(id), op);
	return op;
}

void
engine_op_progress(struct lock_engine *engine, struct op *op)
{
	if (FAULT(NO_DEADLINE))
		return;
	timers_set(
	    engine->timers, &op->deadline, engine_now(engine) + engine->settings.request_timeout);
}

void
engine_op_leave(struct lock_engine *engine, struct op *op)
{
	timers_cancel(engine->timers, &op->deadline);
	HASH_DELETE(by_id, engine->ops, op);
	free(op);
}

void
engine_op_end(struct lock_engine *engine, uint64_t id, const struct lock_answer *answer)
{
	struct op *op = engine_op_find(engine, id);

	if (op == NULL)
		return;
	timers_cancel(engine->timers, &op->deadline);
	HASH_DELETE(by_id, engine->ops, op);
	if (op->peer != 0)
		engine_tell(engine, op->peer, op->request, answer);
	free(op); /* after the answer, which may borrow its words */
}

/* ---- semaphores ---- */

static void
reprobe_due(void *ctx, uint64_t id)
{
	struct semaphore *semaphore = ctx;

	(void)id;
	engine_poke(semaphore->engine, semaphore);
}

struct semaphore *
engine_semaphore_find(const struct lock_engine *engine, const char *name, bool mutex)
{
	struct semaphore_key key = semaphore_key(name, mutex);
	struct semaphore *semaphore;

	HASH_FIND(by_key, engine->semaphores, key.text, strlen(key.text), semaphore);
	return semaphore;
}

struct semaphore *
engine_semaphore(struct lock_engine *engine, const char *name, bool mutex)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, name, mutex);

	if (semaphore == NULL) {
		semaphore = semaphore_new(name, mutex);
		semaphore->engine = engine;
		semaphore->line_queue = mutex ? queue_name_mutex_line(engine->settings.naming, name)
					      : queue_name_line(engine->settings.naming, name);
		timer_init(&semaphore->reprobe, reprobe_due, semaphore, 0);
		timer_init(&semaphore->standing, standing_due, semaphore, 0);
		HASH_ADD_KEYPTR(by_key, engine->semaphores, semaphore->key.text,
		    strlen(semaphore->key.text), semaphore);
	}
	return semaphore;
}

void
engine_semaphore_end(struct lock_engine *engine, struct semaphore *semaphore)
{
	timers_cancel(engine->timers, &semaphore->reprobe);
	timers_cancel(engine->timers, &semaphore->standing);
	channels_forget(engine, semaphore);
	waitline_end(engine, semaphore);
	HASH_DELETE(by_key, engine->semaphores, semaphore);
	semaphore_free(semaphore);
}

void
engine_poke(struct lock_engine *engine, struct semaphore *semaphore)
{
	if (semaphore->poked)
		return;
	semaphore->poked = true;
	TAILQ_INSERT_TAIL(&engine->poked, semaphore, of_poked);
	if (!timer_is_set(&engine->serve))
		timers_set(engine->timers, &engine->serve, engine_now(engine));
}

/* ---- the end of a reservation ---- */

/*
 * Nobody has had it: it was claimed, and A was not there. What was known of the name was forgotten for that
 * before B was deleted (claim.c, acquire.c). The delete is no news; where nothing can be seen it would lead
 * to the next claim.
 */
static bool
was_in_vain(const struct hold *hold)
{
	return hold->ours_since == 0 && !FAULT(CLAIMED_IN_VAIN_AGAIN);
}

static void
let_line_move(struct lock_engine *engine, const struct hold *hold, bool free_now)
{
	bool mutex = hold->kind == LOCK_KIND_MUTEX;
	struct semaphore *semaphore = engine_semaphore_find(engine, hold->name, mutex);

	if (semaphore == NULL)
		return;
	semaphore_saw_slot(semaphore, mutex ? 1 : hold->slot,
	    !free_now || hold->drop == HOLD_DROP_NO_SLOT || hint_is_spared(engine, hold->b.text));
	/* A was seen gone: it is looked for before anybody claims it. */
	if (free_now && hold->drop == HOLD_DROP_NO_SLOT && !was_in_vain(hold)) {
		semaphore_forget(semaphore);
		timers_cancel(engine->timers, &semaphore->reprobe);
	}
	semaphore->look.overtaken |= free_now;
	engine_poke(engine, semaphore);
}

void
engine_hold_end(struct lock_engine *engine, struct hold *hold, bool free_now)
{
	if (hold->state != HOLD_SLOTLESS)
		let_line_move(engine, hold, free_now);
	if (hold->slot != 0)
		drain_slot_freed(engine, hold->name, hold->slot);
	if (hold->lane != 0 && !FAULT(LANE_LEAKED))
		broker_lane_put(engine->broker, hold->lane);
	timers_cancel(engine->timers, &hold->timer);
	engine_hold_unwatch(engine, hold);
	engine_hold_detach(engine, hold);
	flight_end(engine, hold);
	channels_charge(engine, hold, NULL);
	hold_free(&engine->holds, hold);
	channels_hold_ended(engine);
}
