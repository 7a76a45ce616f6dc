#include "daemon/lock/hold/hint_send.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/core/probe.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/wait_queue.h"
#include "daemon/lock/core/withheld.h"
#include "daemon/lock/hold/removed.h"

/* Maximum hints for one change of a semaphore; a queue holds no more (broker.h). */
#define HINTS_MOST 64

/*
 * A release within this time after the return of a hint sends none at once. A client that begins to
 * wait in that time hears of a slot that much later.
 */
#define RETURNED_REST (20 * NSEC_PER_MSEC)

/*
 * By quorum the broker frees a slot some time after its release: when it has closed the channel. Until then a
 * probe finds the slot busy. A waiter that has just probed hears of the slot by a second hint.
 */
#define LOOKS_BUSY (100 * NSEC_PER_MSEC)

/*
 * A slot that was freed while most likely nobody waited, and whose hint is sent later. Or one whose hint has
 * come back, and is sent again.
 */
struct late_hint {
	struct queue_name b; /* its text is the key */
	struct lock_engine *engine;
	char *name; /* owned */
	bool mutex;
	int slot;
	bool twice;      /* a second one follows */
	bool told, back; /* the first one was sent; it has come back */
	struct timer due;
	UT_hash_handle hh;
};

/* A question to the broker before hints are sent. */
struct hint_question {
	uint64_t id;     /* the key */
	char *name;      /* owned */
	int first, last; /* slots; 0: each consumer is to scan */
	bool leaves_b;   /* of a removed slot: its B is durable */
	UT_hash_handle by_id;
};

bool
hint_can_be_heard(const struct lock_engine *engine)
{
	return broker_takes_messages(engine->broker);
}

static struct hint_question *
question_new(struct lock_engine *engine, const char *name, int first, int last)
{
	struct hint_question *question = mem_alloc(sizeof(*question));

	question->id = engine_id(engine);
	question->name = mem_strdup(name);
	question->first = first;
	question->last = last;
	HASH_ADD(by_id, engine->hint_questions, id, sizeof(question->id), question);
	return question;
}

static void
question_free(struct lock_engine *engine, struct hint_question *question)
{
	HASH_DELETE(by_id, engine->hint_questions, question);
	free(question->name);
	free(question);
}

ENGINE_FIND(question_find, struct hint_question, hint_questions, by_id)

/* ---- a slot is freed ---- */

static void
tell_wait_queue(struct lock_engine *engine, const char *name, bool mutex, int slot)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, name, mutex);

	/* Else every second hint would come back to a consumer here without waiters. */
	if (semaphore != NULL) {
		wait_queue_shrink(engine, semaphore);
		semaphore->returned_at = 0;
	}
	broker_wait_queue_wake(
	    engine->broker, queue_name_wait(engine->settings.naming, name, mutex).text, slot);
	if (engine->settings.hint_grace > 0 && hint_can_be_heard(engine))
		withheld_begin(
		    engine, registry_semaphore(engine, name, mutex), slot, WITHHELD_FOR_WAIT_QUEUE);
}

static void
late_hint_free(struct late_hint *late)
{
	timers_cancel(late->engine->timers, &late->due);
	HASH_DEL(late->engine->late_hints, late);
	free(late->name);
	free(late);
}

/* A slot that is held again is told of when it is freed again. */
static void
tell_late(void *ctx, uint64_t id)
{
	struct late_hint *late = ctx;
	struct lock_engine *engine = late->engine;
	bool is_held = hold_find_queue(&engine->holds, late->b.text) != NULL;

	(void)id;
	if (!is_held && (!late->told || late->back))
		tell_wait_queue(engine, late->name, late->mutex, late->slot);
	if (is_held || !late->twice) {
		late_hint_free(late);
		return;
	}
	late->told = true;
	late->twice = false;
	timers_set(engine->timers, &late->due, engine_now(engine) + LOOKS_BUSY);
}

static struct late_hint *
late_hint_new(struct lock_engine *engine, const struct hold *hold)
{
	struct late_hint *late = mem_alloc(sizeof(*late));

	*late = (struct late_hint){
	    .b = hold->b,
	    .engine = engine,
	    .name = mem_strdup(hold->name),
	    .mutex = hold->kind == LOCK_KIND_MUTEX,
	    .slot = hold->kind == LOCK_KIND_MUTEX ? 1 : hold->slot,
	};
	timer_init(&late->due, tell_late, late, 0);
	HASH_ADD_KEYPTR(hh, engine->late_hints, late->b.text, strlen(late->b.text), late);
	return late;
}

/*
 * A slot is freed. The hint waits if the last one has just come back. It does not wait if waiters of
 * this daemon would take the slot unannounced. Neither does it if the slot was never granted, as
 * another daemon's hint may have been about it.
 */
static void
announce(struct lock_engine *engine, const struct hold *hold)
{
	bool mutex = hold->kind == LOCK_KIND_MUTEX;
	int slot = mutex ? 1 : hold->slot;
	bool twice = way_row(hold->way)->by_beads && !engine->draining && !engine->frozen;
	const struct semaphore *semaphore = engine_semaphore_find(engine, hold->name, mutex);
	struct late_hint *late;

	HASH_FIND_STR(engine->late_hints, hold->b.text, late);
	if (late != NULL && late->told) {
		late_hint_free(late);
		late = NULL;
	}
	if (semaphore == NULL || semaphore->returned_at == 0 || engine->draining ||
	    engine->frozen || engine_now(engine) - semaphore->returned_at >= RETURNED_REST ||
	    hold->ours_since == 0 ||
	    local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_ALL) > 0) {
		tell_wait_queue(engine, hold->name, mutex, slot);
		if (late != NULL)
			late_hint_free(late);
		if (!twice)
			return;
		late = late_hint_new(engine, hold);
		late->told = true;
		timers_set(engine->timers, &late->due, engine_now(engine) + LOOKS_BUSY);
		return;
	}
	if (late != NULL)
		return;
	late = late_hint_new(engine, hold);
	late->twice = twice;
	timers_set(engine->timers, &late->due, semaphore->returned_at + RETURNED_REST);
}

void
hint_came_back(struct lock_engine *engine, const struct semaphore *semaphore, int slot)
{
	struct queue_name b = queue_name_quorum(semaphore->name, semaphore->mutex ? 0 : slot);
	struct late_hint *late;

	HASH_FIND_STR(engine->late_hints, b.text, late);
	if (late != NULL)
		late->back = true;
}

void
hint_send_all(struct lock_engine *engine)
{
	struct late_hint *late, *next;

	HASH_ITER (hh, engine->late_hints, late, next) {
		late->twice = false;
		tell_late(late, 0);
	}
}

static void
on_a_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct hint_question *question = question_find(engine, id);

	if (question == NULL)
		return;
	/* A waiter of this daemon may have been faster. */
	if (registry_is_reserved(engine, question->name, LOCK_KIND_SEMAPHORE, question->first)) {
		question_free(engine, question);
		return;
	}
	if (seen->answers[0] != BROKER_ABSENT)
		tell_wait_queue(engine, question->name, false, question->first);
	else if (question->leaves_b)
		removed_delete_holder(engine, question->name, question->first);
	question_free(engine, question);
}

void
hint_removed(struct lock_engine *engine, const char *name, int slot, enum broker_way way)
{
	struct hint_question *question = question_new(engine, name, slot, slot);

	question->leaves_b = way_is_durable(way);
	FAULT(HOLDER_LEFT_BEHIND, question->leaves_b = false);
	probe_one(engine, queue_name_a(engine->settings.naming, name, slot), BROKER_ASK_EXISTENCE,
	    on_a_probed, question->id);
}

bool
hint_asks_about_removed(const struct lock_engine *engine)
{
	const struct hint_question *question = engine->hint_questions;

	while (question != NULL && !question->leaves_b)
		question = question->by_id.next;
	return question != NULL;
}

void
hint_freed(struct lock_engine *engine, const struct hold *hold)
{
	bool mutex = hold->kind == LOCK_KIND_MUTEX;
	int slot = mutex ? 1 : hold->slot;

	FAULT(NOBODY_TOLD, return;);
	switch (hold->drop) {
	case HOLD_DROP_RELEASED:
		announce(engine, hold);
		break;
	case HOLD_DROP_NO_SLOT:
		hint_removed(engine, hold->name, slot, hold->way);
		break;
	case HOLD_DROP_FOR_POLLERS:
		FAULT(POLLERS_OVERHEARD,
		    broker_wait_queue_wake(engine->broker,
			queue_name_wait(engine->settings.naming, hold->name, mutex).text, slot));
		FAULT(POLLERS_BEATEN, break);
		withheld_begin(engine, registry_semaphore(engine, hold->name, mutex), slot,
		    WITHHELD_FOR_POLLERS);
		break;
	}
}

void
hint_reclaimed(struct lock_engine *engine, const char *queue)
{
	struct semaphore *semaphore;
	char name[QUEUE_NAME_SIZE];
	int slot = queue_name_quorum_slot(queue, name);
	bool mutex;

	if (slot < 0 || hold_find_queue(&engine->holds, queue) != NULL)
		return;
	mutex = slot == 0;
	tell_wait_queue(engine, name, mutex, mutex ? 1 : slot);
	semaphore = engine_semaphore_find(engine, name, mutex);
	if (semaphore != NULL)
		engine_scan(engine, semaphore);
}

/* ---- an administrator has changed a semaphore ---- */

static void
on_counted(void *ctx, uint64_t id, int members)
{
	struct lock_engine *engine = ctx;
	struct hint_question *question = question_find(engine, id);
	struct queue_name queue;
	int hints;

	if (question == NULL)
		return;
	if (question->first > 0)
		hints = members == 0 ? 0 : question->last - question->first + 1;
	else
		hints = members < 0 ? 1 : members;
	queue = queue_name_wait(engine->settings.naming, question->name, false);
	for (int i = 0; i < hints && i < HINTS_MOST; i++)
		broker_wait_queue_wake(
		    engine->broker, queue.text, question->first > 0 ? question->first + i : 0);
	question_free(engine, question);
}

void
hint_changed(struct lock_engine *engine, const char *name, int from, int to)
{
	struct hint_question *question;

	FAULT(ADDED_UNTOLD, return;);
	if (from == LOCK_UNLIMITED)
		return; /* an unlimited semaphore has no waiters */
	if (to == LOCK_UNLIMITED || to < 0)
		question = question_new(engine, name, 0, 0);
	else if (to > from)
		question = question_new(engine, name, from > 0 ? from + 1 : 1, to);
	else
		return;
	broker_wait_queue_count(engine->broker,
	    queue_name_wait(engine->settings.naming, name, false).text,
	    (struct broker_count_done){on_counted, engine, question->id});
}

void
hint_free_all(struct lock_engine *engine)
{
	while (engine->hint_questions != NULL)
		question_free(engine, engine->hint_questions);
	while (engine->late_hints != NULL)
		late_hint_free(engine->late_hints);
}
