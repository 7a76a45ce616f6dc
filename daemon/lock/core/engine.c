#include "daemon/lock/core/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

uint64_t
engine_id(struct lock_engine *engine)
{
	return ++engine->last_id;
}

enum broker_way
engine_way_unseen(const struct lock_engine *engine)
{
	enum broker_way way = engine->settings.claim;

	return way_row(way)->by_beads ? BROKER_BY_QUEUE : way;
}

int64_t
engine_now(const struct lock_engine *engine)
{
	return clock_now(timers_clock(engine->timers));
}

/* ---- objects by number ---- */

struct lock_peer *
engine_peer_find(const struct lock_engine *engine, uint64_t id)
{
	struct lock_peer *peer;

	HASH_FIND(by_id, engine->peers, &id, sizeof(id), peer);
	return peer;
}

struct waiter *
engine_waiter_find(const struct lock_engine *engine, uint64_t id)
{
	struct waiter *waiter;

	HASH_FIND(by_id, engine->waiters, &id, sizeof(id), waiter);
	return waiter;
}

struct semaphore *
engine_semaphore_find(const struct lock_engine *engine, const char *name, bool mutex)
{
	struct semaphore_key key = semaphore_key(name, mutex);
	struct semaphore *semaphore;

	HASH_FIND(by_key, engine->semaphores, key.text, strlen(key.text), semaphore);
	return semaphore;
}

/* ---- answers and notices ---- */

void
engine_tell(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	assert(!engine->telling);
	engine->telling = true;
	engine->events.answer(engine->events.ctx, peer, request, answer);
	engine->telling = false;
}

void
engine_notice(struct lock_engine *engine, uint64_t peer, const struct lock_notice *notice)
{
	assert(!engine->telling);
	FAULT_IF(NOT_TOLD, notice->kind == LOCK_NOTICE_LOST, return;);
	engine->telling = true;
	engine->events.notice(engine->events.ctx, peer, notice);
	engine->telling = false;
}

void
engine_tell_broker(struct lock_engine *engine, uint64_t peer)
{
	struct broker_info info;
	struct lock_notice notice = {.kind = LOCK_NOTICE_BROKER};

	broker_get_info(engine->broker, &info);
	notice.state = info.locks;
	notice.text = info.why;
	engine_notice(engine, peer, &notice);
}

struct lock_answer
engine_refusal(enum reason reason, const char *text)
{
	return (struct lock_answer){
	    .reason = reason, .text = text, .slots = -1, .target = -1, .busy = -1, .waiting = -1};
}

struct lock_answer
engine_refusal_unknown(const struct lock_engine *engine, const char *text)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	if (info.probes_refused[0] != '\0')
		return engine_refusal(REASON_BROKER_REFUSED, info.probes_refused);
	return engine_refusal(
	    info.auxiliary_blocked ? REASON_BROKER_BLOCKED : REASON_BROKER_UNAVAILABLE, text);
}

bool
engine_refusal_for_link(const struct lock_engine *engine, struct lock_answer *ret_refusal)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	if (engine->link != BROKER_UP)
		*ret_refusal =
		    engine_refusal(info.locks == BROKER_LOGIN_REFUSED ? REASON_BROKER_REFUSED
								      : REASON_BROKER_UNAVAILABLE,
			info.why);
	else if (info.auxiliary_blocked)
		*ret_refusal = engine_refusal(REASON_BROKER_BLOCKED, NULL);
	else
		return false;
	return true;
}

/* The slot by quorum whose grace ends next. */
static void
see_graces(const struct semaphore *semaphore, struct lock_answer *answer)
{
	const struct lock_engine *engine = semaphore->engine;
	int64_t free_at = INT64_MAX;

	for (int slot = 1; semaphore->by_quorum && slot <= semaphore->size; slot++) {
		struct queue_name b =
		    queue_name_quorum(semaphore->name, semaphore->mutex ? 0 : slot);
		const struct hold *hold = hold_find_queue(&engine->holds, b.text);
		int64_t its = hold == NULL         ? 0
			      : hold->free_at != 0 ? hold->free_at
						   : hold->crowded_until;

		if (its == 0 || its >= free_at)
			continue;
		free_at = its;
		answer->slot = slot;
	}
	if (free_at == INT64_MAX)
		return;
	answer->free_in = free_at - engine_now(engine);
	if (answer->free_in < 1)
		answer->free_in = 1;
}

struct lock_answer
engine_full(const struct semaphore *semaphore, enum reason reason)
{
	struct lock_answer answer = engine_refusal(reason, NULL);

	answer.name = semaphore->name;
	answer.slots = semaphore->complete ? semaphore->size : -1;
	if (answer.slots == 0)
		answer.text =
		    "it has 0 slots; a waiter gets one after a resize"; /* not "all are busy" */
	answer.busy = semaphore_busy_count(semaphore);
	/* Without the one that is answered. */
	answer.waiting = (int)local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_ALL) - 1;
	see_graces(semaphore, &answer);
	return answer;
}

/* ---- requests that do not wait by themselves ---- */

/* peer and request */
#define OP_KEY (2 * sizeof(uint64_t))
_Static_assert(
    offsetof(struct op, request) == offsetof(struct op, peer) + sizeof(uint64_t), "OP_KEY");

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
	op->leads_to = -1;
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

static void
op_forget_target(struct lock_engine *engine, struct op *op)
{
	if (op->leads_to >= 0)
		HASH_DELETE(by_request, engine->targeted_ops, op);
	op->leads_to = -1;
}

void
engine_op_leads_to(struct lock_engine *engine, uint64_t id, int size)
{
	struct op *op = engine_op_find(engine, id);

	if (op == NULL || op->peer == 0)
		return;
	op_forget_target(engine, op);
	op->leads_to = size;
	if (size >= 0)
		HASH_ADD(by_request, engine->targeted_ops, peer, OP_KEY, op);
}

const struct op *
engine_op_find_target(const struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	const uint64_t key[] = {peer, request};
	struct op *op;

	HASH_FIND(by_request, engine->targeted_ops, key, OP_KEY, op);
	return op;
}

void
engine_op_progress_in(struct lock_engine *engine, struct op *op, int64_t more)
{
	FAULT(NO_DEADLINE, return;);
	timers_set(engine->timers, &op->deadline,
	    engine_now(engine) + engine->settings.request_timeout + more);
}

void
engine_op_progress(struct lock_engine *engine, struct op *op)
{
	engine_op_progress_in(engine, op, 0);
}

static void
op_forget(struct lock_engine *engine, struct op *op)
{
	timers_cancel(engine->timers, &op->deadline);
	op_forget_target(engine, op);
	HASH_DELETE(by_id, engine->ops, op);
}

void
engine_op_leave(struct lock_engine *engine, struct op *op)
{
	op_forget(engine, op);
	free(op);
}

void
engine_op_end(struct lock_engine *engine, uint64_t id, const struct lock_answer *answer)
{
	struct op *op = engine_op_find(engine, id);

	if (op == NULL)
		return;
	op_forget(engine, op);
	if (op->peer != 0)
		engine_tell(engine, op->peer, op->request, answer);
	free(op); /* after the answer, which may borrow its words */
}

/* ---- marks ---- */

void
engine_mark_dirty(struct lock_engine *engine, struct semaphore *semaphore)
{
	if (semaphore->dirty)
		return;
	semaphore->dirty = true;
	TAILQ_INSERT_TAIL(&engine->dirty, semaphore, of_dirty);
	if (!timer_is_set(&engine->run_queues))
		timers_set(engine->timers, &engine->run_queues, engine_now(engine));
}

void
engine_scan(struct lock_engine *engine, struct semaphore *semaphore)
{
	semaphore->scan.overtaken = true;
	timers_cancel(engine->timers, &semaphore->rescan);
	engine_mark_dirty(engine, semaphore);
}
