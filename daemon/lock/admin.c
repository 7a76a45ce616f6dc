#include "daemon/lock/admin.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/beads.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/holders.h"
#include "daemon/lock/list.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/plan.h"
#include "daemon/lock/registry.h"
#include "daemon/lock/scan.h"
#include "daemon/lock/work.h"

/*
 * Contents:
 *	1. Changes. admin_tell_outcome() answers, or waits for holders first. admin_say_late() answers at the
 *	   deadline.
 *	   admin_judge() judges the answers to the steps, and admin_perform_plan() performs these.
 *	   admin_undo() leaves no entry without a semaphore. admin_work_ended() gives the mutex back.
 *	   admin_on_counted() makes the plan from the state that was found. admin_begin() takes the mutex.
 *	   change_start() checks a request: lock_create(), lock_resize() and lock_destroy().
 *	   admin_create_missing() creates for an acquire. lock_size() tells the size.
 *	2. The first use of a true mutex: make_mutex_judge() judges the answers, make_mutex_begin_work() lists
 *	   the steps.
 *	   make_mutex() takes the administration mutex, and make_mutex_finish() lets the waiters go on.
 */

/* 1. create, resize, destroy, size. */

enum admin_state {
	ADMIN_QUEUED,   /* behind an older request of its peer on the name (engine.h) */
	ADMIN_LOCKING,  /* waits for the mutex */
	ADMIN_COUNTING, /* owns the mutex, or needs none; the maximum is being determined */
	ADMIN_WORKING,  /* performs the plan */
	ADMIN_UNLOCKING /* the mutex is being dropped, then the outcome is answered */
};

/* The first holder queue (B) that could not be deleted. Zeroed: none. */
struct holder_stays {
	int slot;
	enum reason reason;
	char text[352]; /* ours, and the broker's, which are at most 255 bytes */
};

struct admin {
	uint64_t op; /* the request, which may have been answered by its deadline; the key */
	enum admin_state state;
	bool size_only; /* a size request: no mutex, no plan */
	struct plan_order order;
	uint64_t peer;
	char *name;          /* owned */
	char what[48];       /* in words: "a resize to 5" */
	enum lock_kind kind; /* create: as requested */
	int64_t wait;        /* for the holders of removed slots; see lock_change */
	bool progress;
	uid_t uid;
	int found;  /* the size before; -1: not known */
	int target; /* the requested size; -1: not known, or none */
	struct plan plan;
	const char *warning;   /* of its success; static */
	bool has_holders;      /* a slot found has a durable B, or may have one */
	struct work work;      /* the steps of the plan, as requests */
	bool refused;          /* the broker refused a declare */
	int declared, deleted; /* slots so far */
	struct holder_stays stays;
	bool removed; /* a queue or a directory entry was removed */
	int highest;  /* highest removed slot; 0: none */
	enum reason outcome;
	char text[352]; /* of the outcome; "" = the reason's own */
	UT_hash_handle by_op;
	struct peer_order peer_order;
};

/* How often a request is repeated if another connection has its queue. */
#define LOCKED_TRIES 4

ENGINE_FIND(admin_find, struct admin, admins, by_op)

/* From each state, those that may be next. */
static const unsigned admin_changes[] = {
    [ADMIN_QUEUED] = 1U << ADMIN_LOCKING | 1U << ADMIN_COUNTING,
    [ADMIN_LOCKING] = 1U << ADMIN_COUNTING,
    [ADMIN_COUNTING] = 1U << ADMIN_WORKING | 1U << ADMIN_UNLOCKING,
    [ADMIN_WORKING] = 1U << ADMIN_UNLOCKING,
    [ADMIN_UNLOCKING] = 0,
};

static void
admin_set_state(struct admin *admin, enum admin_state state)
{
	assert((admin_changes[admin->state] & 1U << state) != 0);
	admin->state = state;
}

static void
admin_free(struct lock_engine *engine, struct admin *admin)
{
	HASH_DELETE(by_op, engine->admins, admin);
	work_clear(engine, &admin->work);
	free(admin->name);
	free(admin);
}

/* ---- the end of a change ---- */

static void
admin_set_outcome(struct admin *admin, enum reason reason, const char *text)
{
	admin->outcome = reason;
	snprintf(admin->text, sizeof(admin->text), "%s", text != NULL ? text : "");
}

/* Adds the facts that every outcome has. Borrows the words of the admin. */
static void
admin_fill_facts(const struct admin *admin, struct lock_answer *answer)
{
	answer->name = admin->name;
	answer->kind = admin->kind;
	answer->slots = admin->found;
	answer->target = admin->target;
	answer->unchanged = !admin->size_only && admin->plan.count == 0;
}

static struct lock_answer
admin_outcome(const struct admin *admin)
{
	struct lock_answer answer =
	    engine_refusal(admin->outcome, admin->text[0] != '\0' ? admin->text : NULL);

	admin_fill_facts(admin, &answer);
	if (admin->outcome == REASON_INVALID_PARAMS)
		answer.parameter = admin->plan.parameter;
	if (admin->outcome != REASON_NONE)
		return answer;
	if (!admin->size_only)
		answer.slots = admin->order.work == PLAN_DESTROY ? 0 : admin->target;
	answer.warning = admin->warning;
	return answer;
}

/* A change to unlimited removes no slots, so it waits for no holders. */
static bool
waits_for_holders(const struct admin *admin)
{
	return admin->outcome == REASON_NONE && admin->wait != 0 && admin->target != LOCK_UNLIMITED;
}

/*
 * Answers the request, once. With a wait for holders, the answer comes when the holders of removed
 * slots are gone. Slots that were removed earlier count, too.
 */
static void
admin_tell_outcome(struct lock_engine *engine, const struct admin *admin)
{
	struct lock_answer answer = admin_outcome(admin);
	struct op *op = engine_op_find(engine, admin->op);
	int size = admin->order.work == PLAN_DESTROY ? 0 : admin->target;
	bool by_quorum = full_scan_is_by_beads(admin->plan.claim);
	/* By quorum, a slot that was removed earlier is counted until its holder has left. */
	int swept = by_quorum ? size + 1 : size + PLAN_SWEEP_LEAST,
	    last = admin->highest > swept ? admin->highest : swept;
	struct holder_wait_order holder_wait = {.name = admin->name,
	    .by_quorum = by_quorum,
	    .first = size + 1,
	    .last = last,
	    .timeout = admin->wait,
	    .progress = admin->progress,
	    .uid = admin->uid,
	    .answer = &answer};

	if (op == NULL)
		return; /* by its deadline */
	if (!waits_for_holders(admin)) {
		engine_op_end(engine, admin->op, &answer);
		return;
	}
	holder_wait.peer = op->peer;
	holder_wait.request = op->request;
	engine_op_leave(engine, op);
	holder_wait_start(engine, &holder_wait);
}

/* No request of it is in flight any more. */
static void
admin_finish(struct lock_engine *engine, struct admin *admin)
{
	if (!admin->size_only)
		registry_admin_done(engine, admin->name, false, admin->op, admin->outcome,
		    admin->text[0] != '\0' ? admin->text : NULL);
	if (!admin->size_only && (admin->outcome == REASON_NONE || admin->stays.slot > 0))
		hint_changed(engine, admin->name, admin->found,
		    admin->order.work == PLAN_DESTROY ? -1 : admin->target);
	else if (admin->order.work == PLAN_RESIZE && admin->declared > 0)
		hint_changed(engine, admin->name, admin->found, admin->found + admin->declared);
	admin_tell_outcome(engine, admin);
	peer_order_end(engine, &admin->peer_order);
	admin_free(engine, admin);
}

static void
admin_unlock(struct lock_engine *engine, struct admin *admin, enum reason reason, const char *text)
{
	struct lock_answer answer;

	if (admin->outcome == REASON_NONE)
		admin_set_outcome(admin, reason, text);
	admin_set_state(admin, ADMIN_UNLOCKING);
	/*
	 * RabbitMQ does not read the delete before the alarm is over. The client need not wait for
	 * that.
	 */
	if (reason == REASON_BROKER_BLOCKED) {
		answer = admin_outcome(admin);
		engine_op_end(engine, admin->op, &answer);
	}
	FAULT_IF(MUTEX_WHILE_WAITING, waits_for_holders(admin), admin_tell_outcome(engine, admin);
		 return;);
	mutex_drop(engine, admin->op);
}

/* Puts the finished part of the work in front of `why`. */
static void
admin_say(const struct admin *admin, const char *why, char *ret_text, size_t size)
{
	int to_declare = plan_slots(&admin->plan, STEP_DECLARE_SLOTS) +
			 plan_slots(&admin->plan, STEP_MAKE_SLOTS);
	int to_delete = plan_slots(&admin->plan, STEP_DELETE_SLOTS) +
			plan_slots(&admin->plan, STEP_REMOVE_SLOTS);

	if (to_declare > 0)
		snprintf(ret_text, size, "declared %d of %d slots, then: %s", admin->declared,
		    to_declare, why);
	else if (to_delete > 0)
		snprintf(ret_text, size, "deleted %d of %d slots, then: %s", admin->deleted,
		    to_delete, why);
	else
		snprintf(ret_text, size, "%s", why);
}

/*
 * Takes the reply to the delete of the B of that slot; NULL: no answer came. Has no effect if B is
 * gone, or if there is one already. A held B is no failure: its holder deletes it after the release.
 */
static void
holder_stays(struct holder_stays *stays, int slot, const struct broker_reply *reply)
{
	bool refused = reply != NULL && reply->answer == BROKER_REFUSED;
	bool unreachable = reply != NULL && reply->answer == BROKER_UNREACHABLE;
	bool absent_node = unreachable && reply->code == 404;

	if (stays->slot > 0 ||
	    (reply != NULL && (reply->answer == BROKER_OK || reply->answer == BROKER_ABSENT ||
				  reply->answer == BROKER_LOCKED)))
		return;
	stays->slot = slot;
	stays->reason = refused ? REASON_BROKER_REFUSED : REASON_BROKER_UNAVAILABLE;
	snprintf(stays->text, sizeof(stays->text), "the holder queue of slot %d stays: %s%s", slot,
	    absent_node              ? "its node cannot be reached: "
	    : refused || unreachable ? ""
				     : "the broker did not answer ",
	    refused || unreachable ? reply->text : "about it");
}

/* The deadline's answer. */
static void
admin_say_late(const struct lock_engine *engine, uint64_t op, struct lock_answer *answer)
{
	struct admin *admin = admin_find(engine, op);
	char text[sizeof(admin->text)];
	struct holder_stays late = {.slot = 0};
	struct lock_answer unknown;
	const struct work_request *awaited = work_awaited(&admin->work);

	switch (admin->state) {
	case ADMIN_UNLOCKING:
		/*
		 * All steps are done. Only the mutex is not released, and the wait for holders
		 * comes after that.
		 */
		*answer = admin_outcome(admin);
		FAULT(LATE_MUTEX_ENDS_WAIT, return;);
		if (waits_for_holders(admin)) {
			answer->reason = REASON_BROKER_UNAVAILABLE;
			answer->text = "the change is complete, but the broker did not answer in "
				       "time about the holders";
		}
		return;
	case ADMIN_WORKING:
		if (awaited != NULL && awaited->kind == WORK_DELETE_HOLDER) {
			holder_stays(&late, awaited->slot, NULL);
			answer->text = late.text;
		}
		unknown = engine_refusal_unknown(engine, answer->text);
		admin_say(admin, unknown.text, text, sizeof(text));
		admin_set_outcome(admin, unknown.reason, text);
		break;
	case ADMIN_QUEUED:
	case ADMIN_LOCKING:
	case ADMIN_COUNTING:
		admin_set_outcome(admin, answer->reason, answer->text);
		break;
	}
	answer->reason = admin->outcome;
	answer->text = admin->text;
	admin_fill_facts(admin, answer);
}

/*
 * The deadline has answered it. Further steps are not begun, and requests in flight have no answer.
 */
static void
admin_on_expired(struct lock_engine *engine, uint64_t op)
{
	struct admin *admin = admin_find(engine, op);

	if (admin->state == ADMIN_WORKING)
		mutex_drop_by(engine, op, engine_now(engine));
	if (admin->state == ADMIN_LOCKING)
		mutex_leave(engine, op);
	if (admin->state == ADMIN_QUEUED || admin->state == ADMIN_LOCKING)
		admin_finish(engine, admin);
}

/* ---- the work of a change ---- */

/* A slot was removed. */
static void
admin_count_removed(struct admin *admin, int slot)
{
	admin->removed = true;
	if (slot > admin->highest)
		admin->highest = slot;
}

static void
admin_count_done(struct admin *admin, const struct work_request *request)
{
	switch (request->kind) {
	case WORK_DECLARE_SLOT:
		admin->declared++;
		break;
	case WORK_DELETE_SLOT:
		admin->deleted++;
		admin_count_removed(admin, request->slot);
		break;
	case WORK_DELETE_UNCOUNTED:
		admin_count_removed(admin, request->slot);
		break;
	case WORK_DELETE_GATE:
	case WORK_DELETE_UNLIMITED:
		admin->removed = true;
		break;
	default:
		break;
	}
}

/* The broker refused the request. */
static enum work_verdict
admin_refuse(struct admin *admin, enum reason reason, const struct work_request *request,
    const struct broker_reply *reply)
{
	bool holder = request->kind == WORK_MAKE_HOLDER;
	char text[256];

	admin->refused = holder || request->kind == WORK_DECLARE_SLOT ||
			 request->kind == WORK_DECLARE_GATE ||
			 request->kind == WORK_DECLARE_UNLIMITED;
	if (!holder || reply->answer != BROKER_LOCKED)
		return work_fail(&admin->work, reason, reply->text);
	snprintf(text, sizeof(text),
	    "slot %d is still held by an exclusive queue, from before; try again when it is "
	    "released",
	    request->slot);
	return work_fail(&admin->work, reason, text);
}

static enum work_verdict
admin_judge(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_reply *reply)
{
	struct admin *admin = admin_find(engine, work->op);

	assert(admin->state == ADMIN_WORKING);
	if (request->kind == WORK_MAKE_BEADS)
		admin->declared = work->making.done;
	if (request->kind == WORK_DELETE_BEADS) {
		/* Else they are uncounted. */
		if (request->slot <= admin->found)
			admin->deleted = work->making.done;
		admin->plan.claim = LOCK_CLAIM_BY_QUORUM;
		if (work->making.done > 0)
			admin_count_removed(admin, request->slot);
	}
	if (reply->answer == BROKER_UNKNOWN && strcmp(reply->text, BROKER_ALARM_WORDS) == 0)
		return work_fail(work, REASON_BROKER_BLOCKED, reply->text);
	/* A daemon that may not read the records has made none. */
	if (request->kind == WORK_FORGET_RECORD && reply->answer != BROKER_LOCKED)
		return WORK_DONE;
	if (reply->answer == BROKER_SKIPPED || reply->answer == BROKER_UNKNOWN)
		return work_again(engine, work);
	if (request->kind == WORK_LEAVE) {
		admin->removed |= reply->answer == BROKER_OK;
		return WORK_DONE;
	}
	if (request->kind == WORK_DELETE_HOLDER) {
		/* If the durable B of a removed slot stays, the work goes on. */
		holder_stays(&admin->stays, request->slot, reply);
		if (reply->answer == BROKER_LOCKED)
			removed_holder_in_use(engine, admin->name, request->slot);
		return WORK_DONE;
	}
	switch (reply->answer) {
	case BROKER_OK:
		admin_count_done(admin, request);
		return WORK_DONE;
	case BROKER_LOCKED:
		if (request->kind == WORK_MAKE_BEADS || request->kind == WORK_DELETE_BEADS ||
		    request->kind == WORK_RECORD || request->kind == WORK_FORGET_RECORD)
			return admin_refuse(admin, REASON_WOULD_BLOCK, request, reply);
		/* Perhaps by a claim unseen, for a moment. */
		return work->again < LOCKED_TRIES
			   ? WORK_AGAIN
			   : admin_refuse(admin, REASON_WOULD_BLOCK, request, reply);
	case BROKER_UNREACHABLE:
		return admin_refuse(admin, REASON_BROKER_UNAVAILABLE, request, reply);
	default:
		return admin_refuse(admin, REASON_BROKER_REFUSED, request, reply);
	}
}

static void
admin_add_slots(struct admin *admin, const struct step *step)
{
	bool durable =
	    step->kind == STEP_DECLARE_SLOTS && full_scan_way(admin->plan.claim)->make != NULL;

	for (int i = 0; i < plan_step_slots(step); i++) {
		int slot = plan_step_slot(step, i);

		if (step->kind == STEP_DELETE_SLOTS) {
			work_add(&admin->work, WORK_DELETE_SLOT, slot);
			if (admin->has_holders)
				work_add(&admin->work, WORK_DELETE_HOLDER, slot);
			continue;
		}
		/*
		 * Ascending, so that the slots have no gap if a failure ends it. On one channel, so
		 * that an A that exists has its B.
		 */
		FAULT_IF(SLOT_BEFORE_HOLDER, durable,
		    work_add(&admin->work, WORK_DECLARE_SLOT, slot)->flows = i > 0);
		if (durable)
			work_add(&admin->work, WORK_MAKE_HOLDER, slot)->flows = i > 0;
		work_add(&admin->work, WORK_DECLARE_SLOT, slot)->flows = durable || i > 0;
	}
}

/* Performs the plan. */
static void
admin_perform_plan(struct lock_engine *engine, struct admin *admin)
{
	static const enum work_kind kinds[] = {
	    [STEP_SWEEP] = WORK_SWEEP,
	    [STEP_SWEEP_BEADS] = WORK_SWEEP_BEADS,
	    [STEP_ENTER] = WORK_ENTER,
	    [STEP_LEAVE] = WORK_LEAVE,
	    [STEP_RECORD] = WORK_RECORD,
	    [STEP_FORGET_RECORD] = WORK_FORGET_RECORD,
	    [STEP_MAKE_SLOTS] = WORK_MAKE_BEADS,
	    [STEP_REMOVE_SLOTS] = WORK_DELETE_BEADS,
	    [STEP_DECLARE_GATE] = WORK_DECLARE_GATE,
	    [STEP_DELETE_GATE] = WORK_DELETE_GATE,
	    [STEP_DECLARE_UNLIMITED] = WORK_DECLARE_UNLIMITED,
	    [STEP_DELETE_UNLIMITED] = WORK_DELETE_UNLIMITED,
	};

	for (size_t i = 0; i < admin->plan.count; i++) {
		const struct step *step = &admin->plan.steps[i];

		if (step->kind == STEP_DECLARE_SLOTS || step->kind == STEP_DELETE_SLOTS) {
			admin_add_slots(admin, step);
			continue;
		}
		work_add(&admin->work, kinds[step->kind], step->first)->last = step->last;
	}
	work_start(engine, &admin->work);
}

/* A semaphore that was not made leaves the directory first. */
static bool
admin_undo(struct lock_engine *engine, struct admin *admin, enum reason reason, const char *text)
{
	if (!admin->refused || !plan_undo(&admin->plan))
		return false;
	admin->refused = false;
	admin_set_outcome(admin, reason, text);
	work_clear(engine, &admin->work);
	admin_perform_plan(engine, admin);
	return true;
}

static void
admin_work_ended(
    struct lock_engine *engine, struct work *work, enum reason reason, const char *text)
{
	struct admin *admin = admin_find(engine, work->op);
	char said[sizeof(admin->text)];

	if (reason == REASON_INVALID_PARAMS)
		admin->plan.parameter = "force";
	if (reason != REASON_NONE) {
		admin_say(admin, text, said, sizeof(said));
		if (!admin_undo(engine, admin, reason, said))
			admin_unlock(engine, admin, reason, said);
	} else if (admin->plan.vain && !admin->removed) {
		admin_unlock(engine, admin, REASON_NO_SUCH_LOCK, NULL);
	} else if (admin->stays.slot > 0) {
		admin_unlock(engine, admin, admin->stays.reason, admin->stays.text);
	} else {
		admin_unlock(engine, admin, REASON_NONE, NULL);
	}
}

/* ---- the way in ---- */

static void
admin_tell_unknown(struct lock_engine *engine, struct admin *admin, int slot)
{
	char text[sizeof(admin->text)];
	struct lock_answer unknown;

	if (slot > 0)
		snprintf(text, sizeof(text),
		    "the broker did not say whether slot %d exists; nothing was changed", slot);
	else
		snprintf(text, sizeof(text),
		    "the broker did not say whether its markers or slot 1 exist; nothing was "
		    "changed");
	unknown = engine_refusal_unknown(engine, text);
	if (admin->size_only) {
		admin_set_outcome(admin, unknown.reason, unknown.text);
		admin_finish(engine, admin);
		return;
	}
	admin_unlock(engine, admin, unknown.reason, unknown.text);
}

const char *
admin_grace_nonsense(int64_t takeover_grace)
{
	return takeover_grace == 0 ||
		       (takeover_grace >= BEAD_GRACE_LEAST && takeover_grace <= BEAD_GRACE_MOST)
		   ? NULL
		   : "it is not from 5 s to 5 min";
}

const char *
admin_quorum_nonsense(const struct lock_engine *engine)
{
	struct broker_info info;

	if (!queue_naming_has_quorum(engine->settings.naming))
		return "only with naming = amqp-locks can slots be held by quorum";
	broker_get_info(engine->broker, &info);
	if (info.version[0] != '\0' && atoi(info.version) < 4 && !engine->settings.quorum_untested)
		return "slots are held by quorum at RabbitMQ 4.0 or later alone";
	return NULL;
}

static void
admin_on_counted(struct lock_engine *engine, uint64_t id, const struct full_scan *full_scan)
{
	struct admin *admin = admin_find(engine, id);
	struct broker_info info;
	struct plan_found found = {full_scan->unlimited, full_scan->gate, full_scan->slots,
	    LOCK_CLAIM_UNKNOWN, queue_naming_has_quorum(engine->settings.naming),
	    full_scan->beside};

	/* The scan may have all that it needs although the mutex is gone with the connection. */
	if (admin == NULL || (!admin->size_only && !mutex_is_held(engine, id)))
		return;
	if (full_scan->unknown >= 0) {
		admin_tell_unknown(engine, admin, full_scan->unknown);
		return;
	}
	FAULT_IF(STALE_COUNT,
	    admin->order.by != PLAN_TO &&
		engine_semaphore_find(engine, admin->name, false) != NULL &&
		engine_semaphore_find(engine, admin->name, false)->size > 0,
	    found.slots = engine_semaphore_find(engine, admin->name, false)->size);
	if (full_scan_exists(full_scan))
		admin->found = full_scan_size(full_scan);
	if (admin->size_only) {
		admin_set_outcome(
		    admin, full_scan_exists(full_scan) ? REASON_NONE : REASON_NO_SUCH_LOCK, NULL);
		admin_finish(engine, admin);
		return;
	}
	found.claim = full_scan_claim(full_scan);
	broker_get_info(engine->broker, &info);
	admin->has_holders = info.hides_queues || full_scan_has_durable(full_scan);
	admin->plan = plan_make(&admin->order, &found);
	admin->target = admin->plan.target;
	if (admin->order.by != PLAN_TO)
		engine_op_leads_to(engine, admin->op, admin->target);
	admin->warning = plan_warning(&admin->order, &found);
	if (admin->plan.refusal == REASON_NONE && plan_slots(&admin->plan, STEP_MAKE_SLOTS) > 0 &&
	    admin_quorum_nonsense(engine) != NULL) {
		admin_unlock(engine, admin, REASON_BROKER_REFUSED, admin_quorum_nonsense(engine));
		return;
	}
	if (admin->plan.refusal != REASON_NONE) {
		admin_unlock(engine, admin, admin->plan.refusal, admin->plan.text);
		return;
	}
	admin->work.counted = full_scan->slots;
	admin_set_state(admin, ADMIN_WORKING);
	admin_perform_plan(engine, admin);
}

static void
determine_maximum(struct lock_engine *engine, struct admin *admin)
{
	admin_set_state(admin, ADMIN_COUNTING);
	/* A change has to know how the slots are held. */
	full_scan_start(engine, admin->name, admin->size_only ? FULL_SCAN_SIZE : FULL_SCAN_BUSY,
	    admin_on_counted, admin->op);
}

static void
admin_on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct admin *admin = admin_find(engine, id);
	char said[sizeof(admin->text)];

	switch (news) {
	case MUTEX_HELD:
		determine_maximum(engine, admin);
		break;
	case MUTEX_FREE:
		admin_finish(engine, admin);
		break;
	case MUTEX_LOST:
		admin_say(admin, "the connection to the broker was lost", said, sizeof(said));
		admin_set_outcome(admin, reason, said);
		FAULT(DIRECTORY_OUTLIVES_MUTEX, admin_finish(engine, admin); return;);
		directory_forget(engine, id);
		admin_finish(engine, admin);
		break;
	case MUTEX_REFUSED:
		admin_set_outcome(admin, reason, text);
		admin_finish(engine, admin);
		break;
	}
}

static void
admin_begin(struct lock_engine *engine, uint64_t op)
{
	struct admin *admin = admin_find(engine, op);
	struct queue_name mutex = queue_name_admin(engine->settings.naming, admin->name);

	if (admin->size_only) {
		determine_maximum(engine, admin);
		return;
	}
	admin_set_state(admin, ADMIN_LOCKING);
	plan_words(&admin->order, admin->what, sizeof(admin->what));
	mutex_take(
	    engine, mutex.text, &(struct mutex_order){admin->op, admin->what, admin_on_mutex});
}

static struct admin *
admin_new(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name)
{
	struct admin *admin = mem_alloc(sizeof(*admin));
	struct op *op = engine_op_new(engine, peer, request);

	op->fill = admin_say_late;
	op->expired = admin_on_expired;
	admin->op = op->id;
	admin->state = ADMIN_QUEUED;
	admin->peer = peer;
	admin->name = mem_strdup(name);
	admin->found = admin->target = -1;
	admin->work = (struct work){.op = op->id,
	    .name = admin->name,
	    .judge = admin_judge,
	    .ended = admin_work_ended,
	    .most_slots = engine->settings.slots_most};
	HASH_ADD(by_op, engine->admins, op, sizeof(admin->op), admin);
	return admin;
}

static void
admin_start(struct lock_engine *engine, struct admin *admin)
{
	admin->peer_order = (struct peer_order){
	    .op = admin->op,
	    .work = admin->size_only ? PEER_ORDER_READS : PEER_ORDER_CHANGES,
	    .begin = admin_begin,
	};
	if (peer_order_take(engine, &admin->peer_order, admin->peer, admin->name))
		admin_begin(engine, admin->op);
}

/* ---- the doors of a change ---- */

static void
change_start(struct lock_engine *engine, uint64_t peer, uint64_t request, enum plan_work work,
    const struct lock_change *change)
{
	struct plan_order order = plan_order(
	    work, change, full_scan_claim_of(engine->settings.claim), engine->settings.slots_most);
	struct lock_answer answer = engine_refusal(REASON_INVALID_PARAMS, NULL);
	int target = work != PLAN_DESTROY && order.by == PLAN_TO ? order.slots : -1;
	struct admin *admin;

	assert(!engine->telling);
	answer.text = plan_nonsense(&order, change->kind, &answer.parameter);
	if (answer.text == NULL && full_scan_is_by_beads(order.claim)) {
		answer.text = admin_quorum_nonsense(engine);
		answer.parameter = "claim";
	}
	if (answer.text == NULL) {
		answer.text = admin_grace_nonsense(change->takeover_grace);
		if (answer.text != NULL)
			answer.parameter = "takeover_grace";
	}
	answer.target = target;
	if (answer.text != NULL) {
		engine_tell(engine, peer, request, &answer);
		return;
	}
	if (engine_refusal_for_link(engine, &answer)) {
		answer.target = target;
		answer.unchanged = true;
		engine_tell(engine, peer, request, &answer);
		return;
	}
	admin = admin_new(engine, peer, request, change->name);
	admin->order = order;
	admin->target = target;
	admin->kind = change->kind;
	admin->wait = work == PLAN_CREATE ? 0 : change->wait;
	admin->progress = change->progress;
	admin->uid = change->uid;
	admin->work.beads.grace = change->takeover_grace;
	admin->work.force = change->force;
	admin_start(engine, admin);
}

void
lock_create(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change)
{
	change_start(engine, peer, request, PLAN_CREATE, change);
}

void
lock_resize(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change)
{
	change_start(engine, peer, request, PLAN_RESIZE, change);
}

void
lock_destroy(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change)
{
	change_start(engine, peer, request, PLAN_DESTROY, change);
}

uint64_t
admin_create_missing(struct lock_engine *engine, const char *name, int slots)
{
	struct admin *admin;

	for (admin = engine->admins; admin != NULL; admin = admin->by_op.next) {
		if (!admin->size_only && admin->order.work == PLAN_CREATE_MISSING &&
		    strcmp(admin->name, name) == 0)
			return admin->op;
	}
	admin = admin_new(engine, 0, 0, name);
	admin->order = plan_order(PLAN_CREATE_MISSING, &(struct lock_change){.slots = slots},
	    full_scan_claim_of(engine->settings.claim), engine->settings.slots_most);
	admin->target = slots;
	admin_start(engine, admin);
	return admin->op;
}

void
lock_size(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name)
{
	struct lock_answer answer;
	struct admin *admin;

	assert(!engine->telling);
	if (engine_refusal_for_link(engine, &answer)) {
		engine_tell(engine, peer, request, &answer);
		return;
	}
	admin = admin_new(engine, peer, request, name);
	admin->size_only = true;
	admin_start(engine, admin);
}

void
admin_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	struct admin *admin;

	for (admin = engine->admins; admin != NULL; admin = admin->by_op.next) {
		if (admin->peer == peer)
			admin->wait = 0;
	}
}

/* 2. The first use of a true mutex by quorum. */

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

/* ---- the end of a first use ---- */

static void
make_mutex_set_outcome(struct making *making, enum reason reason, const char *text)
{
	making->outcome = reason;
	snprintf(making->text, sizeof(making->text), "%s", text != NULL ? text : "");
}

/* A scan could come before the maker's consumer has ended, and would see a busy mutex. A claim waits for that. */
static void
make_mutex_tell_free(struct lock_engine *engine, const char *name)
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
make_mutex_finish(struct lock_engine *engine, struct making *making)
{
	const struct lock_answer nobody_hears = engine_refusal(making->outcome, NULL);

	if (making->outcome != REASON_NONE)
		engine->unled_until = engine_now(engine) + UNLED_REST;
	registry_admin_done(engine, making->name, true, making->op, making->outcome,
	    making->text[0] != '\0' ? making->text : NULL);
	if (making->made)
		make_mutex_tell_free(engine, making->name);
	engine_op_end(engine, making->op, &nobody_hears);
	making_free(engine, making);
}

static void
make_mutex_unlock(
    struct lock_engine *engine, struct making *making, enum reason reason, const char *text)
{
	make_mutex_set_outcome(making, reason, text);
	making->is_working = false;
	mutex_drop(engine, making->op);
}

/* The deadline: if the administration mutex is held, requests in flight have no answer. */
static void
make_mutex_on_expired(struct lock_engine *engine, uint64_t op)
{
	struct making *making = making_find(engine, op);

	if (mutex_is_held(engine, op)) {
		make_mutex_set_outcome(
		    making, REASON_BROKER_UNAVAILABLE, "the broker did not answer in time");
		mutex_drop_by(engine, op, engine_now(engine));
	} else if (making->outcome == REASON_NONE && !making->is_working) {
		make_mutex_set_outcome(making, REASON_TIMEOUT, NULL);
		mutex_leave(engine, op);
		make_mutex_finish(engine, making);
	}
}

/* ---- the work of a first use ---- */

/* The B of another way is there, or was: the mutex is held in that way until it is gone. */
static enum work_verdict
make_mutex_find_other_way(struct lock_engine *engine, struct work *work)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, work->name, true);

	if (semaphore != NULL)
		semaphore->held_otherwise = true;
	return work_fail(work, REASON_NONE, "");
}

static enum work_verdict
make_mutex_judge(struct lock_engine *engine, struct work *work, const struct work_request *request,
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
			return make_mutex_find_other_way(engine, work);
		/* Somebody else uses the mutex, or makes it, so it is there. */
		if (request->kind == WORK_MAKE_BEADS)
			return WORK_DONE;
		return work_fail(work, REASON_BROKER_UNAVAILABLE, reply->text);
	case BROKER_REFUSED:
		if (request->kind == WORK_DECLARE_POST && reply->code == BROKER_DIFFERS)
			return make_mutex_find_other_way(engine, work);
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
make_mutex_work_ended(
    struct lock_engine *engine, struct work *work, enum reason reason, const char *text)
{
	make_mutex_unlock(engine, making_find(engine, work->op), reason, text);
}

/*
 * The records first: without the right to them, no post must stay. Then the post: until it stands, other programs
 * could hold the mutex.
 */
static void
make_mutex_begin_work(struct lock_engine *engine, struct making *making)
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
make_mutex_on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news,
    enum reason reason, const char *text)
{
	struct making *making = making_find(engine, id);
	const char *nonsense = admin_quorum_nonsense(engine);

	switch (news) {
	case MUTEX_HELD:
		if (nonsense == NULL)
			make_mutex_begin_work(engine, making);
		else
			make_mutex_unlock(engine, making, REASON_BROKER_REFUSED, nonsense);
		return;
	case MUTEX_FREE:
		break;
	case MUTEX_LOST:
	case MUTEX_REFUSED:
		make_mutex_set_outcome(making, reason, text);
		break;
	}
	make_mutex_finish(engine, making);
}

/* ---- the doors of a first use ---- */

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
	op->expired = make_mutex_on_expired;
	making->op = op->id;
	making->beads = beads;
	making->name = mem_strdup(name);
	making->work = (struct work){.op = op->id,
	    .name = making->name,
	    .mutex = true,
	    .judge = make_mutex_judge,
	    .ended = make_mutex_work_ended,
	    .beads.expires = BROKER_QUORUM_MUTEX_EXPIRES};
	HASH_ADD(by_op, engine->mutex_makings, op, sizeof(making->op), making);
	mutex_take(engine, mutex.text,
	    &(struct mutex_order){making->op, "the first use of the mutex", make_mutex_on_mutex});
	return making->op;
}

/* ---- the engine's end ---- */

void
admin_free_all(struct lock_engine *engine)
{
	struct admin *admin, *next;
	struct making *making, *next_making;

	HASH_ITER (by_op, engine->admins, admin, next)
		admin_free(engine, admin);
	HASH_ITER (by_op, engine->mutex_makings, making, next_making)
		making_free(engine, making);
}
