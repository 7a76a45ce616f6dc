#include "daemon/lock/admin.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin_work.h"
#include "daemon/lock/directory.h"
#include "daemon/lock/drain.h"
#include "daemon/lock/hint_send.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/survey.h"
#include "daemon/lock/turn.h"
#include "daemon/lock/registry.h"

/* seeds/000, "Swiss Cheese Semaphores" */
static const char ascending_warning[] = "in ascending order: had it failed halfway, the slots "
					"above would have stayed, and their holders "
					"with them, until somebody removes them (overshoot)";

struct admin *
admin_find(const struct lock_engine *engine, uint64_t op)
{
	struct admin *admin;

	HASH_FIND(by_op, engine->admins, &op, sizeof(op), admin);
	return admin;
}

static bool
change_is_allowed(enum admin_state from, enum admin_state to)
{
	switch (from) {
	case ADMIN_QUEUED:
		return to == ADMIN_LOCKING || to == ADMIN_COUNTING;
	case ADMIN_LOCKING:
		return to == ADMIN_COUNTING;
	case ADMIN_COUNTING:
		return to == ADMIN_WORKING || to == ADMIN_UNLOCKING;
	case ADMIN_WORKING:
		return to == ADMIN_UNLOCKING;
	case ADMIN_UNLOCKING:
		return false;
	}
	return false;
}

static void
admin_set_state(struct admin *admin, enum admin_state state)
{
	assert(change_is_allowed(admin->state, state));
	admin->state = state;
}

static void
admin_free(struct lock_engine *engine, struct admin *admin)
{
	HASH_DELETE(by_op, engine->admins, admin);
	free(admin->sweep.slots);
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

/* What is said of it whatever became of it. Borrows the words of the admin. */
static void
fill(const struct admin *admin, struct lock_answer *answer)
{
	answer->name = admin->name;
	answer->kind = admin->kind;
	answer->slots = admin->found;
	answer->target = admin->target;
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
	if (admin->order.ascending && admin->order.overshoot == 0)
		answer.warning = ascending_warning;
	return answer;
}

/* Nothing is removed where there are no slots to wait for. */
static bool
waits_for_holders(const struct admin *admin)
{
	return admin->outcome == REASON_NONE && admin->wait != 0 && admin->target != LOCK_UNLIMITED;
}

/* The slots whose holders are waited for: also of slots that were removed before, by whomever. */
static struct drain_order
drain_of(const struct admin *admin, const struct lock_answer *answer)
{
	int size = admin->order.work == PLAN_DESTROY ? 0 : admin->target,
	    swept = size + PLAN_SWEEP_LEAST;

	return (struct drain_order){.name = admin->name,
	    .first = size + 1,
	    .last = admin->highest > swept ? admin->highest : swept,
	    .timeout = admin->wait,
	    .progress = admin->progress,
	    .answer = answer};
}

/* Once. Whoever wants to wait for the holders of what was removed is answered when they are gone. */
static void
tell_outcome(struct lock_engine *engine, const struct admin *admin)
{
	struct lock_answer answer = outcome_of(admin);
	struct op *op = engine_op_find(engine, admin->op);
	struct drain_order drain = drain_of(admin, &answer);

	if (op == NULL)
		return; /* by its deadline */
	if (!waits_for_holders(admin)) {
		engine_op_end(engine, admin->op, &answer);
		return;
	}
	drain.peer = op->peer;
	drain.request = op->request;
	engine_op_leave(engine, op);
	drain_start(engine, &drain);
}

/* Nothing of it is in flight any more. */
static void
finish(struct lock_engine *engine, struct admin *admin)
{
	if (!admin->size_only)
		registry_admin_done(engine, admin->name, admin->op, admin->outcome,
		    admin->text[0] != '\0' ? admin->text : NULL);
	if (!admin->size_only && admin->outcome == REASON_NONE)
		hint_changed(engine, admin->name, admin->found,
		    admin->order.work == PLAN_DESTROY ? -1 : admin->target);
	tell_outcome(engine, admin);
	turn_end(engine, &admin->turn);
	admin_free(engine, admin);
}

void
admin_unlock(struct lock_engine *engine, struct admin *admin, enum reason reason, const char *text)
{
	struct lock_answer answer;

	set_outcome(admin, reason, text);
	admin_set_state(admin, ADMIN_UNLOCKING);
	/* RabbitMQ does not read the delete before the alarm is over; the peer need not wait for that. */
	if (reason == REASON_BROKER_BLOCKED) {
		answer = outcome_of(admin);
		engine_op_end(engine, admin->op, &answer);
	}
	if (FAULT(MUTEX_WHILE_WAITING) && waits_for_holders(admin))
		tell_outcome(engine, admin);
	else
		mutex_drop(engine, admin->op);
}

/* The deadline's answer. */
static void
say_late(const struct lock_engine *engine, uint64_t op, struct lock_answer *answer)
{
	struct admin *admin = admin_find(engine, op);
	char text[sizeof(admin->text)];
	struct lock_answer unknown;

	switch (admin->state) {
	case ADMIN_UNLOCKING:
		/* All is done but for the mutex, without which nobody waits for holders. */
		*answer = outcome_of(admin);
		if (waits_for_holders(admin) && !FAULT(LATE_MUTEX_ENDS_WAIT)) {
			answer->reason = REASON_BROKER_UNAVAILABLE;
			answer->text = "all was done, but for waiting for holders: "
				       "the broker did not answer in time";
		}
		return;
	case ADMIN_WORKING:
		unknown = engine_refusal_unknown(engine, answer->text);
		admin_work_say(admin, unknown.text, text, sizeof(text));
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

/* Answered by its deadline: what was not begun is not done, and what is in flight has no answer. */
static void
on_expired(struct lock_engine *engine, uint64_t op)
{
	struct admin *admin = admin_find(engine, op);

	if (admin->state == ADMIN_WORKING)
		mutex_overdue(engine, op);
	if (admin->state == ADMIN_LOCKING)
		mutex_leave(engine, op);
	if (admin->state == ADMIN_QUEUED || admin->state == ADMIN_LOCKING)
		finish(engine, admin);
}

/* ---- the way in ---- */

/* The size is all that was asked for. */
static void
tell_size(struct lock_engine *engine, struct admin *admin, const struct survey *survey)
{
	set_outcome(admin, survey_exists(survey) ? REASON_NONE : REASON_NO_SUCH_LOCK, NULL);
	finish(engine, admin);
}

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
on_counted(struct lock_engine *engine, uint64_t id, const struct survey *survey)
{
	struct admin *admin = admin_find(engine, id);
	struct plan_found found = {survey->unlimited, survey->gate, survey->slots};

	if (admin == NULL)
		return; /* the mutex went with the link meanwhile */
	if (survey->unknown >= 0) {
		tell_unknown(engine, admin, survey->unknown);
		return;
	}
	if (FAULT(STALE_COUNT) && engine_semaphore_find(engine, admin->name, false) != NULL &&
	    admin->order.by != PLAN_TO &&
	    engine_semaphore_find(engine, admin->name, false)->size > 0)
		found.slots = engine_semaphore_find(engine, admin->name, false)->size;
	if (survey_exists(survey))
		admin->found = survey_size(survey);
	if (admin->size_only) {
		tell_size(engine, admin, survey);
		return;
	}
	admin->plan = plan_make(&admin->order, &found);
	admin->target = admin->plan.target;
	if (admin->plan.refusal != REASON_NONE) {
		admin_unlock(engine, admin, admin->plan.refusal, admin->plan.text);
		return;
	}
	admin_set_state(admin, ADMIN_WORKING);
	admin_work_go_on(engine, admin);
}

static void
determine_maximum(struct lock_engine *engine, struct admin *admin)
{
	admin_set_state(admin, ADMIN_COUNTING);
	survey_start(engine, admin->name, SURVEY_SIZE, on_counted, admin->op);
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
		if (!FAULT(DIRECTORY_OUTLIVES_MUTEX))
			directory_forget(engine, id);
		admin_work_say(admin, "the connection to the broker was lost", said, sizeof(said));
		set_outcome(admin, reason, said);
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
	admin->turn = (struct turn){
	    .op = admin->op,
	    .work = admin->size_only ? TURN_LOOKS : TURN_CHANGES,
	    .begin = begin,
	};
	if (turn_take(engine, &admin->turn, admin->peer, admin->name))
		begin(engine, admin->op);
}

/* ---- the doors ---- */

/*
 * Nothing can be administered without the broker, or while it takes no messages: true when the peer was
 * told so.
 */
static bool
refused_for_link(struct lock_engine *engine, uint64_t peer, uint64_t request, int target)
{
	struct lock_answer answer;

	if (!engine_refusal_for_link(engine, &answer))
		return false;
	answer.target = target;
	engine_tell(engine, peer, request, &answer);
	return true;
}

static void
change_start(struct lock_engine *engine, uint64_t peer, uint64_t request, enum plan_work work,
    const struct lock_change *change)
{
	struct plan_order order = plan_order(work, change, engine->settings.slots_most);
	struct lock_answer answer = engine_refusal(REASON_INVALID_PARAMS, NULL);
	int target = work != PLAN_DESTROY && order.by == PLAN_TO ? order.slots : -1;
	struct admin *admin;

	answer.text = plan_nonsense(&order, change->kind, &answer.parameter);
	answer.target = target;
	if (answer.text != NULL) {
		engine_tell(engine, peer, request, &answer);
		return;
	}
	if (refused_for_link(engine, peer, request, target))
		return;
	admin = admin_new(engine, peer, request, change->name);
	admin->order = order;
	admin->target = target;
	admin->kind = change->kind;
	admin->wait = work == PLAN_CREATE ? 0 : change->wait;
	admin->progress = change->progress;
	start(engine, admin);
}

void
admin_create(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change)
{
	change_start(engine, peer, request, PLAN_CREATE, change);
}

void
admin_resize(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change)
{
	change_start(engine, peer, request, PLAN_RESIZE, change);
}

void
admin_destroy(
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
admin_size(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name)
{
	struct admin *admin;

	if (refused_for_link(engine, peer, request, -1))
		return;
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
