#include "daemon/lock/hold.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/reclaim.h"
#include "daemon/broker/way.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/lease.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/registry.h"
#include "daemon/state/state.h"

/*
 * Contents:
 *	1. Hints that are sent. hint_announce() sends one, now or later.
 *	   hint_came_back(): nobody took it, and it is sent again. hint_removed(): if its A is back.
 *	   hint_freed(): a slot is free. hint_reclaimed(): a grace is over. hint_changed(): slots were added.
 *	2. Lost holds by quorum: lost_told() keeps one, and lost_released() is its client's word of its stop.
 *	3. The life of a hold: lifecycle_start() begins with a second check of B.
 *	   lifecycle_vanish(): B was gone, and is claimed again or lost. lifecycle_revoke(): A is gone.
 *	   send_drop() sends the drop, on_dropped() judges its answer, lifecycle_freed() ends the hold.
 *	   lifecycle_end_lost() and lifecycle_all_lost(): the ends without a release.
 *	   lifecycle_channel_closed(): the channel died under it.
 */

/* 1. Hints that are sent. */

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
hint_question_new(struct lock_engine *engine, const char *name, int first, int last)
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
hint_question_free(struct lock_engine *engine, struct hint_question *question)
{
	HASH_DELETE(by_id, engine->hint_questions, question);
	free(question->name);
	free(question);
}

ENGINE_FIND(hint_question_find, struct hint_question, hint_questions, by_id)

/* ---- a slot is freed ---- */

static void
hint_tell_wait_queue(struct lock_engine *engine, const char *name, bool mutex, int slot)
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
late_hint_due(void *ctx, uint64_t id)
{
	struct late_hint *late = ctx;
	struct lock_engine *engine = late->engine;
	bool is_held = hold_find_queue(&engine->holds, late->b.text) != NULL;

	(void)id;
	if (!is_held && (!late->told || late->back))
		hint_tell_wait_queue(engine, late->name, late->mutex, late->slot);
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
	timer_init(&late->due, late_hint_due, late, 0);
	HASH_ADD_KEYPTR(hh, engine->late_hints, late->b.text, strlen(late->b.text), late);
	return late;
}

/*
 * A slot is freed. The hint waits if the last one has just come back. It does not wait if waiters of
 * this daemon would take the slot unannounced. Neither does it if the slot was never granted, as
 * another daemon's hint may have been about it.
 */
static void
hint_announce(struct lock_engine *engine, const struct hold *hold)
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
		hint_tell_wait_queue(engine, hold->name, mutex, slot);
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
		late_hint_due(late, 0);
	}
}

static void
hint_on_a_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct hint_question *question = hint_question_find(engine, id);

	if (question == NULL)
		return;
	/* A waiter of this daemon may have been faster. */
	if (registry_is_reserved(engine, question->name, LOCK_KIND_SEMAPHORE, question->first)) {
		hint_question_free(engine, question);
		return;
	}
	if (seen->answers[0] != BROKER_ABSENT)
		hint_tell_wait_queue(engine, question->name, false, question->first);
	else if (question->leaves_b)
		removed_delete_holder(engine, question->name, question->first);
	hint_question_free(engine, question);
}

void
hint_removed(struct lock_engine *engine, const char *name, int slot, enum broker_way way)
{
	struct hint_question *question = hint_question_new(engine, name, slot, slot);

	question->leaves_b = way_is_durable(way);
	FAULT(HOLDER_LEFT_BEHIND, question->leaves_b = false);
	probe_one(engine, queue_name_a(engine->settings.naming, name, slot), BROKER_ASK_EXISTENCE,
	    hint_on_a_probed, question->id);
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
		hint_announce(engine, hold);
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
hint_reclaimed(void *ctx, const char *queue)
{
	struct lock_engine *engine = ctx;
	struct semaphore *semaphore;
	char name[QUEUE_NAME_SIZE];
	int slot = queue_name_quorum_slot(queue, name);
	bool mutex;

	if (slot < 0 || hold_find_queue(&engine->holds, queue) != NULL)
		return;
	mutex = slot == 0;
	hint_tell_wait_queue(engine, name, mutex, mutex ? 1 : slot);
	semaphore = engine_semaphore_find(engine, name, mutex);
	if (semaphore != NULL)
		engine_scan(engine, semaphore);
}

/* ---- an administrator has changed a semaphore ---- */

static void
hint_on_counted(void *ctx, uint64_t id, int members)
{
	struct lock_engine *engine = ctx;
	struct hint_question *question = hint_question_find(engine, id);
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
	hint_question_free(engine, question);
}

void
hint_changed(struct lock_engine *engine, const char *name, int from, int to)
{
	struct hint_question *question;

	FAULT(ADDED_UNTOLD, return;);
	if (from == LOCK_UNLIMITED)
		return; /* an unlimited semaphore has no waiters */
	if (to == LOCK_UNLIMITED || to < 0)
		question = hint_question_new(engine, name, 0, 0);
	else if (to > from)
		question = hint_question_new(engine, name, from > 0 ? from + 1 : 1, to);
	else
		return;
	broker_wait_queue_count(engine->broker,
	    queue_name_wait(engine->settings.naming, name, false).text,
	    (struct broker_count_done){hint_on_counted, engine, question->id});
}

/* 2. Holds by quorum whose clients were told `lost`. */

/* After so long, ns, the broker layer has forgotten the hold, too. */
#define LOST_KEPT (600 * NSEC_PER_SEC)
_Static_assert(LOST_KEPT == AMQP_RECLAIM_KEPT, "both layers forget a hold at the same time");

struct lost_hold {
	TAILQ_ENTRY(lost_hold) entry;
	struct lock_engine *engine; /* borrowed */
	uint64_t peer, lock, channel;
	int64_t at;       /* clock time of the loss */
	int64_t until;    /* clock time at which its lease was over */
	struct timer due; /* its connection has ended: at `until` */
};

static void
lost_forget(struct lost_hold *lost)
{
	timers_cancel(lost->engine->timers, &lost->due);
	TAILQ_REMOVE(&lost->engine->lost_holds, lost, entry);
	free(lost);
}

static void
lost_has_stopped(struct lost_hold *lost)
{
	broker_holder_stopped(lost->engine->broker, lost->channel);
	lost_forget(lost);
}

static void
lost_due(void *ctx, uint64_t id)
{
	(void)id;
	lost_has_stopped(ctx);
}

static struct lost_hold *
lost_new(struct lock_engine *engine, uint64_t peer, uint64_t lock, uint64_t channel)
{
	struct lost_hold *lost = mem_alloc(sizeof(*lost));

	lost->engine = engine;
	lost->peer = peer;
	lost->lock = lock;
	lost->channel = channel;
	timer_init(&lost->due, lost_due, lost, 0);
	TAILQ_INSERT_TAIL(&engine->lost_holds, lost, entry);
	return lost;
}

/* The client of this hold is told. Holds in other ways are ignored. */
static void
lost_told(struct lock_engine *engine, const struct hold *hold)
{
	struct lost_hold *lost;

	while ((lost = TAILQ_FIRST(&engine->lost_holds)) != NULL &&
	       engine_now(engine) - lost->at >= LOST_KEPT)
		lost_forget(lost);
	if (!way_row(hold->way)->by_beads || hold->state == HOLD_SLOTLESS)
		return;
	lost = lost_new(
	    engine, hold->peer, hold->lock, hold->channel != 0 ? hold->channel : hold->ended);
	lost->at = engine_now(engine);
	lost->until = lease_until(engine, hold);
}

void
lost_released(struct lock_engine *engine, uint64_t peer, uint64_t lock)
{
	struct lost_hold *lost, *next;

	TAILQ_FOREACH_SAFE (lost, &engine->lost_holds, entry, next) {
		if (lost->peer == peer && lost->lock == lock)
			lost_has_stopped(lost);
	}
}

void
lost_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	struct lost_hold *lost;

	TAILQ_FOREACH (lost, &engine->lost_holds, entry) {
		if (lost->peer != peer)
			continue;
		FAULT(LOST_PEER_HAS_STOPPED, lost->until = 0);
		timers_set(engine->timers, &lost->due, lost->until);
	}
}

/* ---- the successor ---- */

struct lost_record {
	uint64_t peer, lock, channel;
	int64_t at, until;
	bool gone; /* its connection has ended */
};

static const struct state_field lost_fields[] = {
    STATE_FIELD(lost_record, peer, STATE_NUMBER),
    STATE_FIELD(lost_record, lock, STATE_NUMBER),
    STATE_FIELD(lost_record, channel, STATE_NUMBER),
    STATE_FIELD(lost_record, at, STATE_SIGNED),
    STATE_FIELD(lost_record, until, STATE_SIGNED),
    STATE_FIELD(lost_record, gone, STATE_BOOL),
    {0},
};

void
lost_save_all(const struct lock_engine *engine, struct state_writer *writer)
{
	const struct lost_hold *lost;

	FAULT(LOST_NOT_SAVED, return;);
	TAILQ_FOREACH (lost, &engine->lost_holds, entry) {
		const struct lost_record record = {
		    .peer = lost->peer,
		    .lock = lost->lock,
		    .channel = lost->channel,
		    .at = lost->at,
		    .until = lost->until,
		    .gone = timer_is_set(&lost->due),
		};

		state_put(writer, "lost-hold", lost_fields, &record);
	}
}

bool
lost_restore_all(struct lock_engine *engine, struct state_reader *reader)
{
	struct lost_record record;
	struct lost_hold *lost;

	while (state_is(reader, "lost-hold")) {
		if (!state_take(reader, "lost-hold", lost_fields, &record))
			return false;
		if (record.at < 0 || record.at > engine_now(engine) || record.until < 0)
			return state_spoil(reader, "invalid record of a lost hold");
		lost = lost_new(engine, record.peer, record.lock, record.channel);
		lost->at = record.at;
		lost->until = record.until;
		if (record.gone)
			timers_set(engine->timers, &lost->due, lost->until);
	}
	return true;
}

/* 3. The life of a hold. */

/*
 * When B is checked again on a server that may delete it by name just after its declare: 5 and 50
 * ms after the claim. The deletes came 1 ms, at most 30 ms, after declare-ok (RabbitMQ issue
 * #15276).
 */
static const int64_t recheck_after[] = {5 * NSEC_PER_MSEC, 50 * NSEC_PER_MSEC};
#define RECHECKS (sizeof(recheck_after) / sizeof(recheck_after[0]))

/* The wait before a drop is sent again that could not be sent, or was refused. */
#define DROP_AGAIN (1 * NSEC_PER_SEC)

static void send_recheck(struct lock_engine *engine, struct hold *hold);
static void send_reclaim(struct lock_engine *engine, struct hold *hold);
static void drop_timer_fired(struct lock_engine *engine, struct hold *hold);
static void lifecycle_vanish(struct lock_engine *engine, struct hold *hold);
static void lifecycle_end_lost(struct lock_engine *engine, struct hold *hold, const char *why);

static void
lifecycle_timer_fired(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	assert(hold != NULL);
	switch (hold->state) {
	case HOLD_HELD:
		send_recheck(engine, hold);
		break;
	case HOLD_RECLAIMING:
		send_reclaim(engine, hold);
		break;
	case HOLD_DROPPING:
		drop_timer_fired(engine, hold);
		break;
	case HOLD_CLAIMING:
	case HOLD_CHECKING:
	case HOLD_COUNTING:
	case HOLD_PASSING:
	case HOLD_SLOTLESS:
		assert(!"only a B that was granted is checked again");
		break;
	}
}

static void
lifecycle_timer_in(struct lock_engine *engine, struct hold *hold, int64_t wait)
{
	timers_set(engine->timers, &hold->timer, engine_now(engine) + wait);
}

uint64_t
lifecycle_channel(struct lock_engine *engine, struct hold *hold)
{
	if (hold->channel == 0 &&
	    (hold->state == HOLD_CLAIMING ||
		!FAULT_ELSE(CONSUMER_ON_NEW_CHANNEL, false, way_row(hold->way)->is_channel)))
		hold_set_channel(
		    &engine->holds, hold, broker_channel_take_for(engine->broker, hold->way));
	return hold->channel;
}

/* ---- the second check of B (invariant 10) ---- */

static void
schedule_recheck(struct lock_engine *engine, struct hold *hold)
{
	struct broker_info info;

	FAULT(NO_RECHECK, return;);
	broker_get_info(engine->broker, &info);
	if (!info.deletes_by_name || hold->rechecks >= RECHECKS || !way_row(hold->way)->reclaims)
		return;
	lifecycle_timer_in(engine, hold,
	    recheck_after[hold->rechecks] -
		(hold->rechecks > 0 ? recheck_after[hold->rechecks - 1] : 0));
}

void
lifecycle_start(struct lock_engine *engine, struct hold *hold)
{
	hold->ours_since = engine_now(engine);
	hold->rechecks = 0;
	lifecycle_resume(engine, hold);
}

void
lifecycle_resume(struct lock_engine *engine, struct hold *hold)
{
	assert(hold->state == HOLD_HELD);
	timer_init(&hold->timer, lifecycle_timer_fired, engine, hold->id);
	schedule_recheck(engine, hold);
}

void
lifecycle_b_answered(
    struct lock_engine *engine, struct hold *hold, const struct broker_reply *reply)
{
	bool passing =
	    hold != NULL && (hold->state == HOLD_COUNTING || hold->state == HOLD_PASSING);

	lease_b_answered(engine, hold, reply);
	if (hold == NULL || (hold->state != HOLD_HELD && !passing))
		return;
	switch (reply->answer) {
	case BROKER_ABSENT:
		FAULT_IF(CONSUMER_GONE_IGNORED, way_row(hold->way)->is_channel, break);
		if (passing)
			lifecycle_drop(engine, hold);
		else if (way_row(hold->way)->reclaims)
			lifecycle_vanish(engine, hold);
		else
			lifecycle_lose(engine, hold, "the broker says that nobody holds the slot");
		break;
	case BROKER_LOCKED:
		FAULT(RECHECK_405_IGNORED, break);
		lifecycle_end_lost(engine, hold, "the holder queue belongs to another connection");
		break;
	case BROKER_OK:
	case BROKER_UNREACHABLE: /* by consumer: its channel was closed, and frees the slot */
	case BROKER_REFUSED:
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN: /* the end of the connection has an event of its own */
		break;
	}
}

static void
on_rechecked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold;

	lifecycle_b_answered(engine, hold_find(&engine->holds, id), reply);
	hold = hold_find(&engine->holds, id);
	if (hold == NULL || hold->state != HOLD_HELD || reply->answer == BROKER_UNKNOWN)
		return;
	if (reply->answer == BROKER_OK)
		hold->rechecks++;
	schedule_recheck(engine, hold);
}

static void
send_recheck(struct lock_engine *engine, struct hold *hold)
{
	if (engine->frozen || lifecycle_channel(engine, hold) == 0)
		lifecycle_timer_in(engine, hold, recheck_after[0]);
	else
		broker_check_holder(engine->broker, hold->channel, hold->way, hold->b.text,
		    (struct broker_done){on_rechecked, engine, hold->id});
}

/* ---- B was gone: claim it again ---- */

static void
on_reclaimed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	lease_b_answered(engine, hold, reply);
	if (hold == NULL || hold->state != HOLD_RECLAIMING)
		return;
	switch (reply->answer) {
	case BROKER_OK:
		hold->asked = 0;
		hold->reclaimed = true;
		FAULT(RECLAIMED_IS_SEEN, hold->reclaimed = false);
		hold_set_state(&engine->holds, hold, HOLD_HELD);
		lifecycle_start(engine, hold);
		break;
	case BROKER_LOCKED:
		lifecycle_end_lost(engine, hold,
		    "the holder queue was deleted, and another connection declared it");
		break;
	case BROKER_ABSENT:
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
		lifecycle_end_lost(engine, hold, reply->text);
		break;
	case BROKER_SKIPPED: /* lifecycle_channel_closed() sends it again */
	case BROKER_UNKNOWN:
		break;
	}
}

static void
send_reclaim(struct lock_engine *engine, struct hold *hold)
{
	if (lifecycle_channel(engine, hold) == 0) {
		hold->asked = 0;
		lifecycle_timer_in(engine, hold, recheck_after[0]);
		return;
	}
	hold->asked = engine_now(engine);
	broker_claim(engine->broker, hold->channel, hold->way, hold->b.text,
	    (struct broker_done){on_reclaimed, engine, hold->id});
}

/* B was answered 404: it is claimed again under the same reservation, or the hold is lost. */
static void
lifecycle_vanish(struct lock_engine *engine, struct hold *hold)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_VANISHED,
	    .lock = hold->lock,
	    .name = hold->name,
	    .slot = hold->slot};

	if (hold->state != HOLD_HELD)
		return;
	engine->total.holder_queues_lost++;
	hold->asked = 0;
	/* The 404 closed the channel: the claim is sent after the channel's closed event. */
	hold_set_state(&engine->holds, hold, HOLD_RECLAIMING);
	engine_notice(engine, hold->peer, &notice);
}

void
lifecycle_revoke(struct lock_engine *engine, struct hold *hold)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_REVOKED,
	    .lock = hold->lock,
	    .name = hold->name,
	    .slot = hold->slot,
	    .reason = REASON_REVOKED};

	if (FAULT_ELSE(REVOKED_TWICE, false, hold->revoked) || hold->state == HOLD_DROPPING)
		return;
	hold_revoke(&engine->holds, hold);
	if (hold->peer == 0)
		return; /* it is in a hand-off, which ends for this */
	rows_holds(engine, hold);
	engine_notice(engine, hold->peer, &notice);
}

/* ---- the end: released ---- */

static void
answer_release(struct lock_engine *engine, uint64_t op, const struct hold *hold, enum reason reason,
    const char *text)
{
	struct lock_answer answer = engine_refusal(reason, text);

	answer.lock = hold->lock;
	answer.name = hold->name;
	answer.slot = hold->slot;
	engine_op_end(engine, op, &answer);
}

void
lifecycle_passed(struct lock_engine *engine, struct hold *hold, uint64_t releasing, uint64_t lock)
{
	struct lock_answer answer = engine_refusal(REASON_NONE, NULL);

	answer.lock = lock;
	answer.name = hold->name;
	answer.slot = hold->slot;
	engine_op_end(engine, releasing, &answer);
}

/* The drop is answered, or will not be answered: ends the wait for it. */
static void
end_drop(struct lock_engine *engine, struct hold *hold)
{
	hold->asked = 0;
	timers_cancel(engine->timers, &hold->timer);
	flight_end(engine, hold);
}

/* B is free. */
static void
lifecycle_freed(struct lock_engine *engine, struct hold *hold)
{
	end_drop(engine, hold);
	FAULT(DROP_IS_RELEASE, engine->total.released++);
	hint_freed(engine, hold);
	if (way_row(hold->way)->by_beads && hold->drop == HOLD_DROP_NO_SLOT)
		removed_delete_beads(engine, hold->name, hold->slot);
	answer_release(engine, hold->releasing, hold, REASON_NONE, NULL);
	registry_hold_end(engine, hold, true);
}

static void
on_dropped(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	lease_answered(engine, reply);
	if (hold == NULL)
		return;
	assert(hold->state == HOLD_DROPPING);
	if (way_row(hold->way)->is_channel && reply->answer != BROKER_UNKNOWN) {
		/*
		 * cancel-ok, or the channel is closed: both free B. A channel that is closed is not
		 * put back, because verifies wait for its event.
		 */
		if (!reply->channel_open)
			hold_set_channel(&engine->holds, hold, 0);
		FAULT(OWN_CANCEL_IS_LOSS, end_drop(engine, hold);
		      lifecycle_end_lost(engine, hold, ""); return );
		lifecycle_freed(engine, hold);
		return;
	}
	/* A skipped delete may be sent again by now. On a dead connection nothing more is sent. */
	if (reply->answer != BROKER_SKIPPED && reply->answer != BROKER_UNKNOWN)
		end_drop(engine, hold);
	switch (reply->answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
		lifecycle_freed(engine, hold);
		break;
	case BROKER_LOCKED:
		lifecycle_end_lost(engine, hold, "the holder queue belongs to another connection");
		break;
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
		/*
		 * The slot stays reserved: B exists until the connection dies or a delete succeeds.
		 */
		answer_release(engine, hold->releasing, hold, REASON_BROKER_REFUSED, reply->text);
		hold->releasing = 0;
		lifecycle_timer_in(engine, hold, DROP_AGAIN);
		break;
	case BROKER_SKIPPED: /* lifecycle_channel_closed() sends it again */
	case BROKER_UNKNOWN: /* lifecycle_link_died() ends it; a drop is never sent on a new link */
		FAULT(DROP_UNKNOWN_IS_DONE,
		    answer_release(engine, hold->releasing, hold, REASON_NONE, NULL));
		break;
	}
}

static void
send_drop(struct lock_engine *engine, struct hold *hold)
{
	hold->flight = FLIGHT_SENT;
	if (lifecycle_channel(engine, hold) == 0) {
		end_drop(engine, hold);
		/* If the channel is the hold, B is free already, which the timer finds. */
		lifecycle_timer_in(engine, hold, way_row(hold->way)->is_channel ? 0 : DROP_AGAIN);
		return;
	}
	hold->asked = engine_now(engine);
	lifecycle_timer_in(engine, hold, engine->settings.request_timeout);
	FAULT(CONSUMER_IS_DELETED,
	      broker_drop(engine->broker, hold->channel, BROKER_BY_QUEUE, hold->b.text, true,
		  (struct broker_done){on_dropped, engine, hold->id});
	      return;);
	broker_drop(engine->broker, hold->channel, hold->way, hold->b.text, !hold->lost,
	    (struct broker_done){on_dropped, engine, hold->id});
}

/* Sends the drop now, or when engine.h allows it. */
static void
start_drop(struct lock_engine *engine, struct hold *hold)
{
	if (flight_start(engine, hold))
		send_drop(engine, hold);
}

static void
drop_timer_fired(struct lock_engine *engine, struct hold *hold)
{
	switch (hold->flight) {
	case FLIGHT_SENT: /* its channel may be stuck; the user's other drops go on */
		flight_end(engine, hold);
		break;
	case FLIGHT_DUE:
		if (engine->link == BROKER_UP)
			send_drop(engine, hold);
		break;
	case FLIGHT_UNSENT: /* engine.h sends it later */
		break;
	case FLIGHT_NONE:
		if (way_row(hold->way)->is_channel && hold->channel == 0)
			lifecycle_freed(engine, hold);
		else
			start_drop(engine, hold);
		break;
	}
}

void
lifecycle_drop(struct lock_engine *engine, struct hold *hold)
{
	if (hold->state != HOLD_SLOTLESS) {
		lifecycle_drop_for(
		    engine, hold, hold->revoked ? HOLD_DROP_NO_SLOT : HOLD_DROP_RELEASED);
		return;
	}
	/* There is no queue to drop. */
	answer_release(engine, hold->releasing, hold, REASON_NONE, NULL);
	registry_hold_end(engine, hold, false);
}

void
lifecycle_drop_for(struct lock_engine *engine, struct hold *hold, enum hold_drop why)
{
	registry_hold_unwatch(engine, hold);
	registry_hold_detach(engine, hold);
	hold->acquire = 0;
	hold->drop = why;
	FAULT(DROPPED_UNCOUNTED, channels_charge(engine, hold, NULL));
	hold_set_state(&engine->holds, hold, HOLD_DROPPING);
	timer_init(&hold->timer, lifecycle_timer_fired, engine, hold->id);
	hold->asked = 0;
	start_drop(engine, hold);
	FAULT(HINT_EARLY, hint_freed(engine, hold));
	FAULT(RELEASED_EARLY, answer_release(engine, hold->releasing, hold, REASON_NONE, NULL));
	FAULT_IF(FREED_BEFORE_CANCEL, way_row(hold->way)->is_channel, hint_freed(engine, hold);
		 answer_release(engine, hold->releasing, hold, REASON_NONE, NULL));
	FAULT_IF(CONSUMER_CHANNEL_PUT_EARLY, way_row(hold->way)->is_channel,
	    broker_channel_put(engine->broker, hold->channel));
	FAULT(CHANNEL_PUT_EARLY, broker_channel_put(engine->broker, hold->channel));
}

/* ---- the end: lost ---- */

/*
 * The client is told before a waiter of this daemon gets the slot (invariant 4). In a hand-off or a
 * drop the hold has ended already.
 */
static void
lifecycle_tell_lost(
    struct lock_engine *engine, struct hold *hold, enum reason reason, const char *why)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_LOST,
	    .lock = hold->lock,
	    .name = hold->name,
	    .slot = hold->slot,
	    .reason = reason,
	    .text = why};

	if (hold->eviction != NULL && engine_now(engine) >= hold->eviction->by.deadline)
		notice.eviction = &hold->eviction->by;
	FAULT_IF(DROP_IS_LOSS, hold->state == HOLD_DROPPING, engine->total.lost++);
	if (hold->peer == 0)
		return;
	hold->lost = true;
	FAULT(LOSS_IS_RELEASE, hold->lost = false);
	lost_told(engine, hold);
	engine_notice(engine, hold->peer, &notice);
}

/*
 * Ends the hold without a drop of B, because B belongs to another connection or is gone with its
 * connection. Tells the client, or answers the release that waited for the drop.
 */
static void
lifecycle_end_lost(struct lock_engine *engine, struct hold *hold, const char *why)
{
	lifecycle_tell_lost(engine, hold, REASON_LOST, why);
	answer_release(engine, hold->releasing, hold, REASON_LOST, why);
	registry_hold_end(engine, hold, false);
}

void
lifecycle_lose(struct lock_engine *engine, struct hold *hold, const char *why)
{
	lifecycle_tell_lost(engine, hold, REASON_LOST, why);
	lifecycle_drop(engine, hold);
}

void
lifecycle_evict(struct lock_engine *engine, struct hold *hold)
{
	const struct lock_eviction *by = &hold->eviction->by;
	char why[1024];

	snprintf(why, sizeof(why), "uid %u on %s evicted it%s%s", (unsigned)by->uid, by->host,
	    by->why == NULL ? "" : ": ", by->why == NULL ? "" : by->why);
	lifecycle_lose(engine, hold, why);
}

void
lifecycle_abandon(struct lock_engine *engine, struct hold *hold)
{
	lifecycle_tell_lost(engine, hold, REASON_DRAINING, NULL);
	lifecycle_drop(engine, hold);
}

void
lifecycle_cancelled(struct lock_engine *engine, struct hold *hold)
{
	FAULT(SERVER_CANCEL_IGNORED, return;);
	if (hold->state != HOLD_DROPPING)
		lifecycle_lose(engine, hold,
		    "the broker ended the hold: the holder queue was deleted, or its node went "
		    "down");
}

void
lifecycle_all_lost(struct lock_engine *engine, const char *why, bool held_only)
{
	struct hold *hold, *next;

	HASH_ITER (by_id, engine->holds.by_id, hold, next) {
		if (hold_lease(hold) == HOLD_LEASE_TIMED) {
			/* It is on another connection. The waiter of a claim begins anew. */
			if (hold->state != HOLD_CLAIMING || held_only || hold->crowded_until != 0)
				continue;
			if (hold->flight == FLIGHT_UNSENT || hold->flight == FLIGHT_DUE) {
				registry_hold_end(engine, hold, false);
				continue;
			}
			hold->acquire = 0;
			hold->asked = 0;
			timers_cancel(engine->timers, &hold->timer);
			continue;
		}
		/* Its channel is gone with the connection. */
		hold_set_channel(&engine->holds, hold, 0);
		FAULT_IF(HOLD_OUTLIVES_LINK, hold->state == HOLD_HELD, continue);
		FAULT_IF(DROP_ON_NEW_LINK, hold->state == HOLD_DROPPING, end_drop(engine, hold);
			 lifecycle_timer_in(engine, hold, DROP_AGAIN); continue);
		if (held_only && hold->peer == 0)
			continue;
		switch (hold->state) {
		case HOLD_CLAIMING:
		case HOLD_CHECKING:
			registry_hold_end(engine, hold, false);
			break;
		case HOLD_HELD:
		case HOLD_RECLAIMING:
		case HOLD_COUNTING:
		case HOLD_PASSING:
		case HOLD_DROPPING:
			lifecycle_end_lost(engine, hold, why);
			break;
		case HOLD_SLOTLESS:
			FAULT(SLOTLESS_HAS_LINK, lifecycle_end_lost(engine, hold, why));
			break;
		}
	}
}

void
lifecycle_link_died(struct lock_engine *engine, const char *why)
{
	lease_end(engine, hold_count_on_link(&engine->holds) > 0);
	lifecycle_all_lost(engine, why, false);
}

/* ---- the channel ---- */

void
lifecycle_channel_closed(struct lock_engine *engine, uint64_t channel, const char *why)
{
	struct hold *hold = hold_find_channel(&engine->holds, channel);

	if (hold == NULL)
		return;
	hold_set_channel(&engine->holds, hold, 0);
	if (way_row(hold->way)->by_beads) {
		hold->ended = channel;
		/* It has no client, or the one that it had has released it. */
		if (hold->peer == 0 && !hold->lost)
			broker_holder_stopped(engine->broker, channel);
	}
	if (hold->flight == FLIGHT_UNSENT)
		return; /* it takes another one when it is sent */
	if (hold->state == HOLD_DROPPING && hold->flight == FLIGHT_SENT)
		end_drop(engine, hold);
	if (timer_is_set(&hold->timer) &&
	    (!way_row(hold->way)->is_channel || hold->state == HOLD_DROPPING))
		return; /* the timer goes on with it */
	switch (hold->state) {
	case HOLD_RECLAIMING:
		send_reclaim(engine, hold);
		break;
	case HOLD_DROPPING:
		FAULT(DROP_NOT_RESENT, break);
		start_drop(engine, hold);
		break;
	case HOLD_HELD:
	case HOLD_COUNTING:
	case HOLD_PASSING:
		if (way_row(hold->way)->is_channel)
			lifecycle_lose(engine, hold,
			    way_row(hold->way)->by_beads
				? why
				: "the broker closed the channel of the hold");
		FAULT_IF(CHANNEL_DEATH_IS_LOSS, hold->state == HOLD_HELD,
		    lifecycle_end_lost(engine, hold, ""));
		break;
	case HOLD_CLAIMING:
	case HOLD_CHECKING:
	case HOLD_SLOTLESS:
		break;
	}
}

/* ---- the engine's end ---- */

void
lifecycle_done(struct lock_engine *engine)
{
	struct lost_hold *lost;

	while (engine->hint_questions != NULL)
		hint_question_free(engine, engine->hint_questions);
	while (engine->late_hints != NULL)
		late_hint_free(engine->late_hints);
	while ((lost = TAILQ_FIRST(&engine->lost_holds)) != NULL)
		lost_forget(lost);
}
