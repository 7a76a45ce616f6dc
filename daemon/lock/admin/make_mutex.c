#include "daemon/lock/admin/make_mutex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin/admin.h"
#include "daemon/lock/admin/work.h"
#include "daemon/lock/core/mutex.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/hold/fence_floor.h"

struct making {
	uint64_t op; /* the key */
	char *name;  /* owned */
	struct work work;
	bool is_working;          /* the administration mutex is held, and not being dropped */
	bool made;                /* it is free, as far as this daemon knows */
	enum broker_answer beads; /* about its queue, as the scan saw it */
	enum reason outcome;
	char text[352]; /* of the outcome; "" = the reason's own */
	UT_hash_handle by_op;
};

ENGINE_FIND(making_find, struct making, mutex_makings, by_op)

static void
making_free(struct lock_engine *engine, struct making *making)
{
	HASH_DELETE(by_op, engine->mutex_makings, making);
	work_clear(engine, &making->work);
	free(making->name);
	free(making);
}

/* ---- the end ---- */

static void
set_outcome(struct making *making, enum reason reason, const char *text)
{
	making->outcome = reason;
	snprintf(making->text, sizeof(making->text), "%s", text != NULL ? text : "");
}

/* A scan could come before the maker's consumer has ended, and would see a busy mutex. A claim waits for that. */
static void
tell_free(struct lock_engine *engine, const char *name)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, name, true);

	if (semaphore == NULL)
		return;
	semaphore->by_quorum = true;
	semaphore->incomplete_until = 0;
	semaphore->seen = engine_now(engine);
	semaphore_saw_size(semaphore, 1, true);
	semaphore_saw_slot(semaphore, 1, false);
}

/* A consumer of a queue without a leader can end the auxiliary connection. So such queues are tried seldom. */
#define UNLED_REST (15 * NSEC_PER_SEC)

/* No request of it is in flight any more. The waiters go on: they scan, or are refused. */
static void
finish(struct lock_engine *engine, struct making *making)
{
	const struct lock_answer nobody_hears = engine_refusal(making->outcome, NULL);

	if (making->outcome != REASON_NONE)
		engine->unled_until = engine_now(engine) + UNLED_REST;
	registry_admin_done(engine, making->name, true, making->op, making->outcome,
	    making->text[0] != '\0' ? making->text : NULL);
	if (making->made)
		tell_free(engine, making->name);
	engine_op_end(engine, making->op, &nobody_hears);
	making_free(engine, making);
}

static void
unlock(struct lock_engine *engine, struct making *making, enum reason reason, const char *text)
{
	set_outcome(making, reason, text);
	making->is_working = false;
	mutex_drop(engine, making->op);
}

/* The deadline: if the administration mutex is held, requests in flight have no answer. */
static void
on_expired(struct lock_engine *engine, uint64_t op)
{
	struct making *making = making_find(engine, op);

	if (mutex_is_held(engine, op)) {
		set_outcome(making, REASON_BROKER_UNAVAILABLE, "the broker did not answer in time");
		mutex_drop_by(engine, op, engine_now(engine));
	} else if (making->outcome == REASON_NONE && !making->is_working) {
		set_outcome(making, REASON_TIMEOUT, NULL);
		mutex_leave(engine, op);
		finish(engine, making);
	}
}

/* ---- the work ---- */

/* The B of another way is there, or was: the mutex is held in that way until it is gone. */
static enum work_verdict
find_other_way(struct lock_engine *engine, struct work *work)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, work->name, true);

	if (semaphore != NULL)
		semaphore->held_otherwise = true;
	return work_fail(work, REASON_NONE, "");
}

static enum work_verdict
judge(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_reply *reply)
{
	struct making *making = making_find(engine, work->op);

	switch (reply->answer) {
	case BROKER_OK:
		making->made = request->kind == WORK_MAKE_BEADS;
		if (request->kind == WORK_RESERVE_EPOCH) {
			fence_floor_rose(engine, work->beads.epoch + FENCE_EPOCHS);
			/* Perhaps they were purged after an unclean end, and its client works on. */
			work->beads.wait =
			    making->beads == BROKER_UNREACHABLE ? work->beads.grace : 0;
			FAULT(EMPTY_MUTEX_MADE_AT_ONCE, work->beads.wait = 0);
		}
		return WORK_DONE;
	case BROKER_LOCKED:
		if (request->kind == WORK_DECLARE_POST)
			return find_other_way(engine, work);
		/* Somebody else uses the mutex, or makes it, so it is there. */
		if (request->kind == WORK_MAKE_BEADS)
			return WORK_DONE;
		return work_fail(work, REASON_BROKER_UNAVAILABLE, reply->text);
	case BROKER_REFUSED:
		if (request->kind == WORK_DECLARE_POST && reply->code == BROKER_DIFFERS)
			return find_other_way(engine, work);
		return work_fail(work, REASON_BROKER_REFUSED, reply->text);
	case BROKER_UNKNOWN:
	case BROKER_SKIPPED:
		if (strcmp(reply->text, BROKER_ALARM_WORDS) == 0)
			return work_fail(work, REASON_BROKER_BLOCKED, reply->text);
		/* A set was perhaps published, held and lost. Its epoch is of no more use: a scan decides anew. */
		if (request->kind != WORK_MAKE_BEADS)
			return work_again(engine, work);
		break;
	case BROKER_ABSENT:
	case BROKER_UNREACHABLE:
		break;
	}
	return work_fail(work, REASON_BROKER_UNAVAILABLE, reply->text);
}

static void
work_ended(struct lock_engine *engine, struct work *work, enum reason reason, const char *text)
{
	unlock(engine, making_find(engine, work->op), reason, text);
}

/*
 * The records first: without the right to them, no post must stay. Then the post: until it stands, other programs
 * could hold the mutex.
 */
static void
begin_work(struct lock_engine *engine, struct making *making)
{
	making->is_working = true;
	if (making->beads == BROKER_OK || making->beads == BROKER_LOCKED) {
		/* Only the post is missing. */
		work_add(&making->work, WORK_DECLARE_POST, 0);
		work_start(engine, &making->work);
		return;
	}
	work_add(&making->work, WORK_RESERVE_EPOCH, 0);
	FAULT(POST_AFTER_BEADS, work_add(&making->work, WORK_MAKE_BEADS, 1)->last = 1);
	work_add(&making->work, WORK_DECLARE_POST, 0);
	work_add(&making->work, WORK_MAKE_BEADS, 1)->last = 1;
	work_start(engine, &making->work);
}

static void
on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct making *making = making_find(engine, id);
	const char *nonsense = admin_quorum_nonsense(engine);

	switch (news) {
	case MUTEX_HELD:
		if (nonsense == NULL)
			begin_work(engine, making);
		else
			unlock(engine, making, REASON_BROKER_REFUSED, nonsense);
		return;
	case MUTEX_FREE:
		break;
	case MUTEX_LOST:
	case MUTEX_REFUSED:
		set_outcome(making, reason, text);
		break;
	}
	finish(engine, making);
}

/* ---- the doors ---- */

uint64_t
make_mutex(struct lock_engine *engine, const char *name, enum broker_answer beads)
{
	struct queue_name mutex = queue_name_admin(engine->settings.naming, name);
	struct making *making;
	struct op *op;

	for (making = engine->mutex_makings; making != NULL; making = making->by_op.next) {
		if (strcmp(making->name, name) == 0)
			return making->op;
	}
	making = mem_alloc(sizeof(*making));
	op = engine_op_new(engine, 0, 0);
	op->expired = on_expired;
	making->op = op->id;
	making->beads = beads;
	making->name = mem_strdup(name);
	making->work = (struct work){.op = op->id,
	    .name = making->name,
	    .mutex = true,
	    .judge = judge,
	    .ended = work_ended,
	    .beads.expires = BROKER_QUORUM_MUTEX_EXPIRES};
	HASH_ADD(by_op, engine->mutex_makings, op, sizeof(making->op), making);
	mutex_take(engine, mutex.text,
	    &(struct mutex_order){making->op, "the first use of the mutex", on_mutex});
	return making->op;
}

void
make_mutex_free_all(struct lock_engine *engine)
{
	struct making *making, *next;

	HASH_ITER (by_op, engine->mutex_makings, making, next)
		making_free(engine, making);
}
