#include "daemon/lock/admin/admin.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin/admin_plan.h"
#include "daemon/lock/admin/directory.h"
#include "daemon/lock/admin/holder_queue.h"
#include "daemon/lock/admin/holder_wait.h"
#include "daemon/lock/admin/full_scan.h"
#include "daemon/lock/admin/peer_order.h"
#include "daemon/lock/admin/sweep.h"
#include "daemon/lock/core/mutex.h"
#include "daemon/lock/core/probe.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/hold/hint_send.h"
#include "daemon/lock/hold/removed.h"

enum admin_state {
	ADMIN_QUEUED,   /* behind an older request of its peer on the name (peer_order.h) */
	ADMIN_LOCKING,  /* waits for the mutex */
	ADMIN_COUNTING, /* owns the mutex, or needs none; the maximum is being determined */
	ADMIN_WORKING,  /* at `step` of the plan */
	ADMIN_UNLOCKING /* the mutex is being dropped, then the outcome is answered */
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
	int found;  /* the size before; -1: not known */
	int target; /* the requested size; -1: not known, or none */
	struct plan plan;
	const char *warning;      /* of its success; static */
	size_t step;              /* of plan.steps */
	bool has_holders;         /* a slot found has a durable B, or may have one */
	int done;                 /* of the step: requests that succeeded */
	int unanswered;           /* of the step: requests without an answer */
	enum broker_answer wrong; /* the first failure of the step; OK: none yet */
	char wrong_text[256];     /* its words */
	bool channel_gone;        /* an answer of the step said so */
	unsigned skips;           /* channels that died since the last success */
	struct sweep sweep;       /* of the step */
	int declared, deleted;    /* slots so far */
	int holder_due;           /* a removed slot whose durable B is deleted next; 0: none */
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
static const unsigned changes[] = {
    [ADMIN_QUEUED] = 1U << ADMIN_LOCKING | 1U << ADMIN_COUNTING,
    [ADMIN_LOCKING] = 1U << ADMIN_COUNTING,
    [ADMIN_COUNTING] = 1U << ADMIN_WORKING | 1U << ADMIN_UNLOCKING,
    [ADMIN_WORKING] = 1U << ADMIN_UNLOCKING,
    [ADMIN_UNLOCKING] = 0,
};

static void
admin_set_state(struct admin *admin, enum admin_state state)
{
	assert((changes[admin->state] & 1U << state) != 0);
	admin->state = state;
}

static void
admin_free(struct lock_engine *engine, struct admin *admin)
{
	HASH_DELETE(by_op, engine->admins, admin);
	sweep_done(&admin->sweep);
	free(admin->name);
	free(admin);
}

/* ---- the end ---- */

static void
set_outcome(struct admin *admin, enum reason reason, const char *text)
{
	admin->outcome = reason;
	snprintf(admin->text, sizeof(admin->text), "%s", text != NULL ? text : "");
}

/* Adds the facts that every outcome has. Borrows the words of the admin. */
static void
fill(const struct admin *admin, struct lock_answer *answer)
{
	answer->name = admin->name;
	answer->kind = admin->kind;
	answer->slots = admin->found;
	answer->target = admin->target;
	answer->unchanged = !admin->size_only && admin->plan.count == 0;
}

static struct lock_answer
outcome_of(const struct admin *admin)
{
	struct lock_answer answer =
	    engine_refusal(admin->outcome, admin->text[0] != '\0' ? admin->text : NULL);

	fill(admin, &answer);
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
tell_outcome(struct lock_engine *engine, const struct admin *admin)
{
	struct lock_answer answer = outcome_of(admin);
	struct op *op = engine_op_find(engine, admin->op);
	int size = admin->order.work == PLAN_DESTROY ? 0 : admin->target,
	    swept = size + PLAN_SWEEP_LEAST;
	struct holder_wait_order holder_wait = {.name = admin->name,
	    .first = size + 1,
	    .last = admin->highest > swept ? admin->highest : swept,
	    .timeout = admin->wait,
	    .progress = admin->progress,
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
finish(struct lock_engine *engine, struct admin *admin)
{
	if (!admin->size_only)
		registry_admin_done(engine, admin->name, admin->op, admin->outcome,
		    admin->text[0] != '\0' ? admin->text : NULL);
	if (!admin->size_only && (admin->outcome == REASON_NONE || admin->stays.slot > 0))
		hint_changed(engine, admin->name, admin->found,
		    admin->order.work == PLAN_DESTROY ? -1 : admin->target);
	tell_outcome(engine, admin);
	peer_order_end(engine, &admin->peer_order);
	admin_free(engine, admin);
}

static void
admin_unlock(struct lock_engine *engine, struct admin *admin, enum reason reason, const char *text)
{
	struct lock_answer answer;

	if (admin->outcome == REASON_NONE)
		set_outcome(admin, reason, text);
	admin_set_state(admin, ADMIN_UNLOCKING);
	/*
	 * RabbitMQ does not read the delete before the alarm is over. The client need not wait for
	 * that.
	 */
	if (reason == REASON_BROKER_BLOCKED) {
		answer = outcome_of(admin);
		engine_op_end(engine, admin->op, &answer);
	}
	FAULT_IF(MUTEX_WHILE_WAITING, waits_for_holders(admin), tell_outcome(engine, admin);
		 return;);
	mutex_drop(engine, admin->op);
}

/* Puts the finished part of the work in front of `why`. */
static void
say(const struct admin *admin, const char *why, char *ret_text, size_t size)
{
	int to_declare = plan_slots(&admin->plan, STEP_DECLARE_SLOTS);
	int to_delete = plan_slots(&admin->plan, STEP_DELETE_SLOTS);

	if (to_declare > 0)
		snprintf(ret_text, size, "declared %d of %d slots, then: %s", admin->declared,
		    to_declare, why);
	else if (to_delete > 0)
		snprintf(ret_text, size, "deleted %d of %d slots, then: %s", admin->deleted,
		    to_delete, why);
	else
		snprintf(ret_text, size, "%s", why);
}

/* The deadline's answer. */
static void
say_late(const struct lock_engine *engine, uint64_t op, struct lock_answer *answer)
{
	struct admin *admin = admin_find(engine, op);
	char text[sizeof(admin->text)];
	struct holder_stays late = {.slot = 0};
	struct lock_answer unknown;

	switch (admin->state) {
	case ADMIN_UNLOCKING:
		/*
		 * All steps are done. Only the mutex is not released, and the wait for holders
		 * comes after that.
		 */
		*answer = outcome_of(admin);
		FAULT(LATE_MUTEX_ENDS_WAIT, return;);
		if (waits_for_holders(admin)) {
			answer->reason = REASON_BROKER_UNAVAILABLE;
			answer->text = "the change is complete, but the broker did not answer in "
				       "time about the holders";
		}
		return;
	case ADMIN_WORKING:
		if (admin->holder_due > 0) {
			holder_queue_stays(&late, admin->holder_due, NULL);
			answer->text = late.text;
		}
		unknown = engine_refusal_unknown(engine, answer->text);
		say(admin, unknown.text, text, sizeof(text));
		set_outcome(admin, unknown.reason, text);
		break;
	case ADMIN_QUEUED:
	case ADMIN_LOCKING:
	case ADMIN_COUNTING:
		set_outcome(admin, answer->reason, answer->text);
		break;
	}
	answer->reason = admin->outcome;
	answer->text = admin->text;
	fill(admin, answer);
}

/*
 * The deadline has answered it. Further steps are not begun, and requests in flight have no answer.
 */
static void
on_expired(struct lock_engine *engine, uint64_t op)
{
	struct admin *admin = admin_find(engine, op);

	if (admin->state == ADMIN_WORKING)
		mutex_drop_by(engine, op, engine_now(engine));
	if (admin->state == ADMIN_LOCKING)
		mutex_leave(engine, op);
	if (admin->state == ADMIN_QUEUED || admin->state == ADMIN_LOCKING)
		finish(engine, admin);
}

/*
 * ---- the work ---- Each step begins when all of the one before it was answered. Declares of slots
 * go out many at a time, on one channel; all else is awaited one by one.
 */

static void work_on(struct lock_engine *engine, struct admin *admin);

static const struct step *
step_of(const struct admin *admin)
{
	return &admin->plan.steps[admin->step];
}

static void
fail(struct lock_engine *engine, struct admin *admin, enum reason reason, const char *why)
{
	char text[sizeof(admin->text)];

	say(admin, why, text, sizeof(text));
	admin_unlock(engine, admin, reason, text);
}

/* The broker refused a request. A semaphore that was not made leaves the directory first. */
static void
end_refused(struct lock_engine *engine, struct admin *admin, enum reason reason)
{
	char text[sizeof(admin->text)];

	say(admin, admin->wrong_text, text, sizeof(text));
	if (!plan_undo(&admin->plan, admin->step)) {
		admin_unlock(engine, admin, reason, text);
		return;
	}
	set_outcome(admin, reason, text);
	admin->step = 0;
	admin->done = 0;
	work_on(engine, admin);
}

/* ---- answers ---- */

/* The step's request for this slot succeeded. */
static void
count_slot(struct admin *admin, int slot, int per_slot)
{
	switch (step_of(admin)->kind) {
	case STEP_DECLARE_SLOTS:
		admin->declared += (admin->done + 1) % per_slot == 0;
		return;
	case STEP_DELETE_SLOTS:
		admin->deleted++;
		if (admin->has_holders)
			admin->holder_due = slot;
		break;
	case STEP_SWEEP:
		admin->sweep.count--;
		admin->holder_due = slot; /* it is not known how it was held */
		break;
	case STEP_DELETE_GATE:
	case STEP_DELETE_UNLIMITED:
		admin->removed = true;
		return;
	case STEP_ENTER:
	case STEP_LEAVE:
	case STEP_DECLARE_GATE:
	case STEP_DECLARE_UNLIMITED:
		return;
	}
	admin->removed = true;
	if (slot > admin->highest)
		admin->highest = slot;
}

/* The slot of the first unanswered request. */
static int
slot_awaited(const struct admin *admin, int per_slot)
{
	if (step_of(admin)->kind == STEP_SWEEP)
		return admin->sweep.slots[admin->sweep.count - 1];
	return plan_step_slot(step_of(admin), admin->done / per_slot);
}

/* All requests of the step are answered, and one failed. False: this ends the work. */
static bool
may_go_on(struct lock_engine *engine, struct admin *admin)
{
	enum broker_answer wrong = admin->wrong;

	if (admin->channel_gone)
		mutex_channel_gone(engine, admin->op);
	admin->channel_gone = false;
	admin->wrong = BROKER_OK;
	switch (wrong) {
	case BROKER_OK:
		return true;
	case BROKER_UNKNOWN:
		/* The connection died, and the mutex with it: MUTEX_LOST comes. */
		if (!broker_auxiliary_is_up(engine->broker))
			return false;
		/* fall through */
	case BROKER_SKIPPED:
		/* Only its channel died. The request names the wanted state: repeat it. */
		if (++admin->skips <= engine->settings.max_races)
			return true;
		fail(engine, admin, REASON_BROKER_UNAVAILABLE,
		    "the broker closed every channel too soon");
		return false;
	case BROKER_LOCKED:
		/* Perhaps by a claim unseen, for a moment. */
		if (admin->skips++ < LOCKED_TRIES)
			return true;
		end_refused(engine, admin, REASON_WOULD_BLOCK);
		return false;
	case BROKER_UNREACHABLE:
		end_refused(engine, admin, REASON_BROKER_UNAVAILABLE);
		return false;
	case BROKER_ABSENT:
	case BROKER_REFUSED:
		end_refused(engine, admin, REASON_BROKER_REFUSED);
		return false;
	}
	abort();
}

static void
on_answer(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);
	int per_slot;

	if (admin == NULL)
		return; /* the mutex was lost after it was sent, and the command has ended */
	assert(admin->state == ADMIN_WORKING && admin->unanswered > 0);
	per_slot = plan_queues_per_slot(&admin->plan, admin->step);
	admin->unanswered--;
	admin->channel_gone |= !reply->channel_open;
	if (admin->holder_due > 0 && reply->answer != BROKER_SKIPPED &&
	    reply->answer != BROKER_UNKNOWN) {
		/* The durable B of a removed slot. If it stays, the work goes on. */
		holder_queue_stays(&admin->stays, admin->holder_due, reply);
		if (reply->answer == BROKER_LOCKED)
			removed_holder_in_use(engine, admin->name, admin->holder_due);
		admin->holder_due = 0;
		admin->skips = 0;
	} else if (reply->answer == BROKER_OK) {
		count_slot(admin, slot_awaited(admin, per_slot), per_slot);
		admin->done++;
		admin->skips = 0;
	} else if (admin->wrong == BROKER_OK) {
		admin->wrong = reply->answer;
		holder_queue_failed(admin->wrong_text, sizeof(admin->wrong_text),
		    per_slot == 2 && admin->done % 2 == 0 ? slot_awaited(admin, 2) : 0, reply);
	}
	/* A failure closed the channel: the requests behind it are answered as skipped. */
	if ((admin->channel_gone || admin->wrong != BROKER_OK) &&
	    (admin->unanswered > 0 || !may_go_on(engine, admin)))
		return;
	work_on(engine, admin);
}

static void
on_directory(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct admin *admin = admin_find(engine, id);

	(void)names;
	if (admin == NULL)
		return; /* the mutex is gone with the connection meanwhile */
	admin->unanswered--;
	if (reason != REASON_NONE) {
		fail(engine, admin, reason, text);
		return;
	}
	admin->removed |= step_of(admin)->kind == STEP_LEAVE && count > 0;
	admin->done++;
	work_on(engine, admin);
}

/* ---- a sweep ---- */

static void
on_swept(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);
	struct lock_answer unknown;
	int not_known;
	char why[96];

	if (admin == NULL)
		return; /* as in on_answer() */
	not_known = sweep_take(&admin->sweep, step_of(admin)->first, seen);
	admin->unanswered--;
	if (not_known == 0) {
		work_on(engine, admin);
		return;
	}
	snprintf(why, sizeof(why), "the broker did not say whether slot %d exists", not_known);
	unknown = engine_refusal_unknown(engine, why);
	fail(engine, admin, unknown.reason, unknown.text);
}

/* ---- the steps ---- */

typedef void ask_fn(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);

static void
ask(struct lock_engine *engine, struct admin *admin, ask_fn *what, struct queue_name queue)
{
	admin->unanswered++;
	what(engine->broker, mutex_channel(engine, admin->op), queue.text,
	    (struct broker_done){on_answer, engine, admin->op});
}

static struct queue_name
slot_queue(const struct lock_engine *engine, const struct admin *admin, int slot)
{
	return queue_name_a(engine->settings.naming, admin->name, slot);
}

/* Ascending, and answered in that order. If a failure ends it, the finished slots have no gap. */
static void
declare_slots(struct lock_engine *engine, struct admin *admin)
{
	int per_slot = plan_queues_per_slot(&admin->plan, admin->step), place, slot;
	int all = plan_step_slots(step_of(admin)) * per_slot;
	bool holder;

	while ((place = admin->done + admin->unanswered) < all &&
	       admin->unanswered < MUTEX_DECLARES_MOST) {
		slot = plan_step_slot(step_of(admin), place / per_slot);
		/* On one channel, so that an A that exists has its B. */
		holder = per_slot == 2 && place % 2 == 0;
		FAULT(SLOT_BEFORE_HOLDER, holder = per_slot == 2 && place % 2 == 1);
		if (holder)
			ask(engine, admin, broker_declare_holder,
			    queue_name_b(engine->settings.naming, admin->name, slot));
		else
			ask(engine, admin, broker_declare_slot, slot_queue(engine, admin, slot));
	}
}

/* False: the step is done. */
static bool
sweep_on(struct lock_engine *engine, struct admin *admin)
{
	const struct step *step = step_of(admin);
	int window, first = sweep_window(
			&admin->sweep, step->first, step->last, admin->order.most, &window);
	struct probe probe = {.count = 0};

	if (first != 0) {
		for (int i = 0; i < window; i++)
			probe_add(
			    &probe, slot_queue(engine, admin, first + i), BROKER_ASK_EXISTENCE);
		admin->unanswered++;
		probe_send(engine, &probe, on_swept, admin->op);
		return true;
	}
	if (admin->sweep.count > 0)
		ask(engine, admin, broker_delete_slot,
		    slot_queue(engine, admin, slot_awaited(admin, 1)));
	return admin->sweep.count > 0;
}

/* Sends the next requests of the step. False: the step is done. */
static bool
step_on(struct lock_engine *engine, struct admin *admin)
{
	const struct queue_naming *naming = engine->settings.naming;
	const struct step *step = step_of(admin);
	struct queue_name gate = queue_name_gate(naming, admin->name);
	struct queue_name unlimited = queue_name_unlimited(naming, admin->name);

	if (admin->holder_due > 0) {
		ask(engine, admin, broker_delete_holder,
		    queue_name_b(naming, admin->name, admin->holder_due));
		return true;
	}
	if (step->kind == STEP_SWEEP)
		return sweep_on(engine, admin);
	if (admin->done == plan_step_slots(step) * plan_queues_per_slot(&admin->plan, admin->step))
		return false;
	switch (step->kind) {
	case STEP_SWEEP:
		break;
	case STEP_ENTER:
		admin->unanswered++;
		directory_enter(engine, admin->name, on_directory, admin->op);
		break;
	case STEP_LEAVE:
		admin->unanswered++;
		directory_leave(engine, admin->name, on_directory, admin->op);
		break;
	case STEP_DECLARE_GATE:
		ask(engine, admin, broker_declare_marker, gate);
		break;
	case STEP_DELETE_GATE:
		ask(engine, admin, broker_delete_slot, gate);
		break;
	case STEP_DECLARE_UNLIMITED:
		ask(engine, admin, broker_declare_marker, unlimited);
		break;
	case STEP_DELETE_UNLIMITED:
		ask(engine, admin, broker_delete_slot, unlimited);
		break;
	case STEP_DECLARE_SLOTS:
		declare_slots(engine, admin);
		break;
	case STEP_DELETE_SLOTS:
		FAULT_IF(MUTEX_DROPPED_EARLY, admin->done == abs(step->last - step->first),
		    mutex_drop(engine, admin->op));
		ask(engine, admin, broker_delete_slot,
		    slot_queue(engine, admin, plan_step_slot(step, admin->done)));
		break;
	}
	return true;
}

static void
work_on(struct lock_engine *engine, struct admin *admin)
{
	struct op *op = engine_op_find(engine, admin->op);

	if (op == NULL) {
		/* Its deadline has answered it: no further step is begun. */
		if (admin->unanswered == 0)
			fail(engine, admin, REASON_BROKER_UNAVAILABLE,
			    "the broker did not answer in time");
		return;
	}
	while (admin->step < admin->plan.count && !step_on(engine, admin)) {
		admin->step++;
		admin->done = 0;
		sweep_done(&admin->sweep);
	}
	/* Later than its own requests: the directory's deadline comes first, and says more. */
	engine_op_progress(engine, op);
	if (admin->step < admin->plan.count)
		return;
	if (admin->plan.vain && !admin->removed)
		admin_unlock(engine, admin, REASON_NO_SUCH_LOCK, NULL);
	else if (admin->stays.slot > 0)
		admin_unlock(engine, admin, admin->stays.reason, admin->stays.text);
	else
		admin_unlock(engine, admin, REASON_NONE, NULL);
}

/* ---- the way in ---- */

static void
tell_unknown(struct lock_engine *engine, struct admin *admin, int slot)
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
		set_outcome(admin, unknown.reason, unknown.text);
		finish(engine, admin);
		return;
	}
	admin_unlock(engine, admin, unknown.reason, unknown.text);
}

static void
on_counted(struct lock_engine *engine, uint64_t id, const struct full_scan *full_scan)
{
	struct admin *admin = admin_find(engine, id);
	struct broker_info info;
	struct plan_found found = {
	    full_scan->unlimited, full_scan->gate, full_scan->slots, LOCK_CLAIM_UNKNOWN};

	/* The scan may have all that it needs although the mutex is gone with the connection. */
	if (admin == NULL || (!admin->size_only && !mutex_is_held(engine, id)))
		return;
	if (full_scan->unknown >= 0) {
		tell_unknown(engine, admin, full_scan->unknown);
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
		set_outcome(
		    admin, full_scan_exists(full_scan) ? REASON_NONE : REASON_NO_SUCH_LOCK, NULL);
		finish(engine, admin);
		return;
	}
	found.claim = full_scan_claim(full_scan);
	broker_get_info(engine->broker, &info);
	admin->has_holders = info.hides_queues || full_scan_has_durable(full_scan);
	admin->plan = plan_make(&admin->order, &found);
	admin->target = admin->plan.target;
	if (admin->order.by != PLAN_TO)
		engine_op_leads_to(engine, admin->op, admin->target);
	if (admin->plan.claim == LOCK_CLAIM_UNKNOWN)
		admin->plan.claim = full_scan_claim_of(engine->settings.claim);
	admin->warning =
	    plan_warning(&admin->order, &found, full_scan_claim_of(engine->settings.claim));
	if (admin->plan.refusal != REASON_NONE) {
		admin_unlock(engine, admin, admin->plan.refusal, admin->plan.text);
		return;
	}
	admin_set_state(admin, ADMIN_WORKING);
	work_on(engine, admin);
}

static void
determine_maximum(struct lock_engine *engine, struct admin *admin)
{
	admin_set_state(admin, ADMIN_COUNTING);
	/* A change has to know how the slots are held. */
	full_scan_start(engine, admin->name, admin->size_only ? FULL_SCAN_SIZE : FULL_SCAN_BUSY,
	    on_counted, admin->op);
}

static void
on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct admin *admin = admin_find(engine, id);
	char said[sizeof(admin->text)];

	switch (news) {
	case MUTEX_HELD:
		determine_maximum(engine, admin);
		break;
	case MUTEX_FREE:
		finish(engine, admin);
		break;
	case MUTEX_LOST:
		say(admin, "the connection to the broker was lost", said, sizeof(said));
		set_outcome(admin, reason, said);
		FAULT(DIRECTORY_OUTLIVES_MUTEX, finish(engine, admin); return;);
		directory_forget(engine, id);
		finish(engine, admin);
		break;
	case MUTEX_REFUSED:
		set_outcome(admin, reason, text);
		finish(engine, admin);
		break;
	}
}

static void
begin(struct lock_engine *engine, uint64_t op)
{
	struct admin *admin = admin_find(engine, op);
	struct queue_name mutex = queue_name_admin(engine->settings.naming, admin->name);

	if (admin->size_only) {
		determine_maximum(engine, admin);
		return;
	}
	admin_set_state(admin, ADMIN_LOCKING);
	plan_words(&admin->order, admin->what, sizeof(admin->what));
	mutex_take(engine, mutex.text, &(struct mutex_order){admin->op, admin->what, on_mutex});
}

static struct admin *
admin_new(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name)
{
	struct admin *admin = mem_alloc(sizeof(*admin));
	struct op *op = engine_op_new(engine, peer, request);

	op->fill = say_late;
	op->expired = on_expired;
	admin->op = op->id;
	admin->state = ADMIN_QUEUED;
	admin->peer = peer;
	admin->name = mem_strdup(name);
	admin->found = admin->target = -1;
	HASH_ADD(by_op, engine->admins, op, sizeof(admin->op), admin);
	return admin;
}

static void
start(struct lock_engine *engine, struct admin *admin)
{
	admin->peer_order = (struct peer_order){
	    .op = admin->op,
	    .work = admin->size_only ? PEER_ORDER_READS : PEER_ORDER_CHANGES,
	    .begin = begin,
	};
	if (peer_order_take(engine, &admin->peer_order, admin->peer, admin->name))
		begin(engine, admin->op);
}

/* ---- the doors ---- */

static void
change_start(struct lock_engine *engine, uint64_t peer, uint64_t request, enum plan_work work,
    const struct lock_change *change)
{
	struct plan_order order = plan_order(work, change, engine->settings.slots_most);
	struct lock_answer answer = engine_refusal(REASON_INVALID_PARAMS, NULL);
	int target = work != PLAN_DESTROY && order.by == PLAN_TO ? order.slots : -1;
	struct admin *admin;

	assert(!engine->telling);
	answer.text = plan_nonsense(&order, change->kind, &answer.parameter);
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
	start(engine, admin);
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
	    engine->settings.slots_most);
	admin->target = slots;
	start(engine, admin);
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
	start(engine, admin);
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

void
admin_free_all(struct lock_engine *engine)
{
	struct admin *admin, *next;

	HASH_ITER (by_op, engine->admins, admin, next)
		admin_free(engine, admin);
}
