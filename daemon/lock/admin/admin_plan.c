#include "daemon/lock/admin/admin_plan.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/lock/admin/full_scan.h"

/* ---- orders ---- */

struct plan_order
plan_order(enum plan_work work, const struct lock_change *change, enum lock_claim setting, int most)
{
	struct plan_order order = {.work = work,
	    .by = PLAN_TO,
	    .slots = work == PLAN_DESTROY ? 0 : change->slots,
	    .claim = work == PLAN_DESTROY ? LOCK_CLAIM_UNKNOWN : change->claim,
	    .setting = setting,
	    .exist_ok = change->exist_ok,
	    .ascending = change->ascending && (work == PLAN_RESIZE || work == PLAN_DESTROY),
	    .overshoot = change->overshoot,
	    .most = most};

	if (work != PLAN_RESIZE)
		return order;
	switch (change->by) {
	case LOCK_SLOTS_TO:
		break;
	case LOCK_SLOTS_ADD:
		order.by = PLAN_ADD;
		break;
	case LOCK_SLOTS_REMOVE:
		order.by = PLAN_REMOVE;
		break;
	}
	return order;
}

const char *
plan_nonsense(const struct plan_order *order, enum lock_kind kind, const char **ret_parameter)
{
	bool create = order->work == PLAN_CREATE;

	*ret_parameter = "kind";
	if (create && kind == LOCK_KIND_MUTEX)
		return "a mutex is not created";
	*ret_parameter = "overshoot";
	if (order->overshoot < 0)
		return "it is below 0";
	*ret_parameter = "slots";
	if (create && kind == LOCK_KIND_PERSISTENT_MUTEX && order->slots != 1)
		return "a persistent mutex has one slot";
	if (order->by == PLAN_TO && order->slots == LOCK_UNLIMITED)
		return NULL;
	if (order->by == PLAN_TO && order->slots > order->most)
		return "it is more than the maximum";
	if (order->by != PLAN_TO)
		*ret_parameter = order->by == PLAN_ADD ? "add" : "remove";
	return order->slots < 0 ? "it is below 0" : NULL;
}

void
plan_words(const struct plan_order *order, char *ret_text, size_t size)
{
	switch (order->work) {
	case PLAN_CREATE:
		snprintf(ret_text, size, "a create");
		return;
	case PLAN_CREATE_MISSING:
		snprintf(ret_text, size, "a create on first use");
		return;
	case PLAN_DESTROY:
		snprintf(ret_text, size, "a destroy");
		return;
	case PLAN_RESIZE:
		break;
	}
	if (order->by != PLAN_TO)
		snprintf(ret_text, size, "a resize by %s%d", order->by == PLAN_ADD ? "+" : "-",
		    order->slots);
	else if (order->slots == LOCK_UNLIMITED)
		snprintf(ret_text, size, "a resize to unlimited");
	else
		snprintf(ret_text, size, "a resize to %d", order->slots);
}

const char *
plan_warning(const struct plan_order *order, const struct plan_found *found)
{
	bool all = order->by == PLAN_TO ? order->slots == 0
					: order->by == PLAN_REMOVE && order->slots >= found->slots;

	/* seeds/000, "Swiss Cheese Semaphores" */
	if (order->ascending && order->overshoot == 0)
		return "slots were removed in ascending order; an interruption would have left "
		       "uncounted slots (see overshoot)";
	if (order->work == PLAN_RESIZE && all && found->slots > 0 && found->claim != order->setting)
		return "a gate does not remember how its slots were held; give claim when you add "
		       "slots again";
	return NULL;
}

/* ---- steps ---- */

static void
add_slots(struct plan *plan, enum step_kind kind, int first, int last)
{
	assert(plan->count < PLAN_STEPS_MAX);
	plan->steps[plan->count++] = (struct step){kind, first, last};
}

static void
add(struct plan *plan, enum step_kind kind)
{
	add_slots(plan, kind, 0, 0);
}

static void
add_sweep_of(struct plan *plan, enum step_kind kind, const struct plan_order *order, int size)
{
	int window = order->overshoot > PLAN_SWEEP_LEAST ? order->overshoot : PLAN_SWEEP_LEAST;

	if (window > order->most - size)
		window = order->most - size;
	FAULT(UNCOUNTED_LEFT, return;);
	if (window > 0)
		add_slots(plan, kind, size + 1, size + window);
}

static void
add_sweep(struct plan *plan, const struct plan_order *order, int size)
{
	add_sweep_of(plan, STEP_SWEEP, order, size);
}

static void __attribute__((format(printf, 3, 4)))
refuse(struct plan *plan, enum reason reason, const char *format, ...)
{
	va_list args;

	plan->refusal = reason;
	va_start(args, format);
	vsnprintf(plan->text, sizeof(plan->text), format, args);
	va_end(args);
}

static bool
exists(const struct plan_found *found)
{
	return found->unlimited || found->gate || found->slots > 0;
}

/*
 * From `from` slots to `to`, and none above. The sweep before removes uncounted slots, which would
 * count beside new ones. If the broker does not answer it, nothing is changed. The sweep after
 * finds slots of an administrator that died in its work.
 */
static void
add_change(struct plan *plan, const struct plan_order *order, int from, int to)
{
	if (from != to)
		add_sweep(plan, order, from < to ? to : from);
	if (from < to) {
		add_slots(plan, STEP_DECLARE_SLOTS, from + 1, to);
		FAULT(DECLARED_DESCENDING,
		    plan->steps[plan->count - 1] = (struct step){STEP_DECLARE_SLOTS, to, from + 1});
	}
	if (from > to && order->ascending)
		add_slots(plan, STEP_DELETE_SLOTS, to + 1, from);
	else if (from > to)
		add_slots(plan, STEP_DELETE_SLOTS, from, to + 1);
	add_sweep(plan, order, to);
}

/* The same of slots by quorum. The records let no second administrator make one meanwhile. */
static void
add_quorum_change(struct plan *plan, const struct plan_order *order, int from, int to)
{
	add_sweep_of(plan, STEP_SWEEP_BEADS, order, from < to ? to : from);
	if (from > to)
		add_slots(plan, STEP_REMOVE_SLOTS, from, to + 1);
	add_slots(plan, STEP_RECORD, to, from < to ? from + 1 : 0);
	if (from < to)
		add_slots(plan, STEP_MAKE_SLOTS, from + 1, to);
}

static bool
is_by_quorum(const struct plan *plan)
{
	return full_scan_is_by_beads(plan->claim);
}

/*
 * A gate does not remember how its slots were held. If the first ones by quorum were deleted by hand, others can
 * be left behind it.
 */
static void
sweep_behind_gate(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	if (found->gate && found->slots == 0 && found->has_records)
		add_sweep_of(plan, STEP_SWEEP_BEADS, order, 0);
}

/* False: slots by quorum cannot be unlimited, as a gate stands at the place of their As. */
static bool
may_be_unlimited(struct plan *plan)
{
	if (!is_by_quorum(plan) || plan->target != LOCK_UNLIMITED)
		return true;
	plan->parameter = "slots";
	refuse(plan, REASON_INVALID_PARAMS, "a semaphore held by quorum cannot be unlimited");
	return false;
}

/* Only fsck knows which of its slots go. */
static bool
is_being_converted(struct plan *plan, const struct plan_found *found)
{
	if (!found->beside)
		return false;
	refuse(plan, REASON_WOULD_BLOCK, "its conversion is not complete; complete it, see fsck");
	return true;
}

/* Whether the existing slots are held otherwise than requested. */
static bool
claims_differ(const struct plan_order *order, const struct plan_found *found)
{
	return order->claim != LOCK_CLAIM_UNKNOWN && found->claim != LOCK_CLAIM_UNKNOWN &&
	       order->claim != found->claim;
}

/* ---- create ---- */

static void
refuse_existing(
    struct plan *plan, const struct plan_order *order, const struct plan_found *found, bool same)
{
	if (same && claims_differ(order, found))
		refuse(plan, REASON_ALREADY_EXISTS, "it exists already, and its slots are held %s",
		    lock_claim_how(found->claim));
	else if (found->unlimited)
		refuse(plan, REASON_ALREADY_EXISTS, "it exists already, and is unlimited");
	else if (found->slots == 0)
		refuse(plan, REASON_ALREADY_EXISTS, "it exists already, with 0 slots");
	else
		refuse(plan, REASON_ALREADY_EXISTS, "it exists already, with %d slot%s",
		    found->slots, found->slots == 1 ? "" : "s");
}

/*
 * The name is entered before the semaphore exists, so that the directory always lists it. A[1]
 * comes last: until then the semaphore does not exist, and its slots are uncounted. After an
 * interruption the next create takes them over.
 */
static void
create_new(struct plan *plan, const struct plan_order *order)
{
	int size = order->slots == LOCK_UNLIMITED ? 0 : order->slots;

	plan->is_new = true;
	if (is_by_quorum(plan)) {
		add(plan, STEP_ENTER);
		add(plan, STEP_DECLARE_GATE);
		add_quorum_change(plan, order, 0, size);
		return;
	}
	add_sweep(plan, order, size);
	add(plan, STEP_ENTER);
	FAULT(NOT_LISTED, plan->count--);
	if (order->slots == LOCK_UNLIMITED)
		add(plan, STEP_DECLARE_UNLIMITED);
	else if (size == 0)
		add(plan, STEP_DECLARE_GATE);
	FAULT_IF(FIRST_SLOT_FIRST, size > 0, add_slots(plan, STEP_DECLARE_SLOTS, 1, 1));
	if (size > 1)
		add_slots(plan, STEP_DECLARE_SLOTS, 2, size);
	if (size > 0)
		add_slots(plan, STEP_DECLARE_SLOTS, 1, 1);
	if (size > 0)
		add_sweep(plan, order, size);
}

/*
 * The semaphore exists. With exist_ok, it is fine if it has the requested size. This never opens a
 * gate.
 */
static void
create_again(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	bool same =
	    found->unlimited ? order->slots == LOCK_UNLIMITED : order->slots == found->slots;

	if (!same || claims_differ(order, found)) {
		refuse_existing(plan, order, found, same);
		return;
	}
	if (is_by_quorum(plan)) {
		add(plan, STEP_ENTER);
		return;
	}
	/* A gate beside slots or N-U is left from an interrupted resize. It has no effect. */
	if (found->gate && !found->beside && order->slots != 0)
		add_sweep(plan, order, found->slots);
	add(plan, STEP_ENTER);
	if (found->gate && !found->beside && order->slots != 0)
		add(plan, STEP_DELETE_GATE);
}

static void
plan_create(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	plan->target = order->slots;
	if (!may_be_unlimited(plan))
		return;
	if (!exists(found))
		create_new(plan, order);
	else if (order->work == PLAN_CREATE_MISSING)
		return;
	else if (order->exist_ok)
		create_again(plan, order, found);
	else
		refuse_existing(plan, order, found, false);
}

/* ---- resize ---- */

static void
resize_by_quorum(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	if (!may_be_unlimited(plan))
		return;
	if (found->unlimited) {
		refuse(plan, REASON_INVALID_PARAMS,
		    "it is unlimited; resize it to 0 slots before it is held by quorum");
		return;
	}
	if (!found->gate)
		add(plan, STEP_DECLARE_GATE);
	add_quorum_change(plan, order, found->slots, plan->target);
}

static void
plan_resize(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	if (order->by == PLAN_TO)
		plan->target = order->slots;
	if (!exists(found)) {
		refuse(plan, REASON_NO_SUCH_LOCK, "%s", "");
		return;
	}
	if (is_being_converted(plan, found))
		return;
	plan->parameter = order->by == PLAN_ADD ? "add" : "remove";
	if (order->by != PLAN_TO && found->unlimited) {
		refuse(plan, REASON_INVALID_PARAMS, "it is unlimited; give a number of slots");
		return;
	}
	plan->parameter = "claim";
	if (claims_differ(order, found)) {
		refuse(plan, REASON_INVALID_PARAMS, "its slots are held %s, see fsck",
		    lock_claim_how(found->claim));
		return;
	}
	plan->parameter = order->by == PLAN_ADD ? "add" : "remove";
	/* A relative order becomes a size, which a second run can name. */
	if (order->by == PLAN_ADD)
		plan->target =
		    order->slots > INT_MAX - found->slots ? INT_MAX : found->slots + order->slots;
	else if (order->by == PLAN_REMOVE)
		plan->target = order->slots > found->slots ? 0 : found->slots - order->slots;
	if (plan->target > order->most) {
		refuse(plan, REASON_INVALID_PARAMS, "that makes %d slots, and the maximum is %d",
		    plan->target, order->most);
		return;
	}

	if (is_by_quorum(plan)) {
		resize_by_quorum(plan, order, found);
		return;
	}
	if (plan->target == LOCK_UNLIMITED) {
		if (!found->unlimited)
			add(plan, STEP_DECLARE_UNLIMITED);
		if (found->gate)
			add(plan, STEP_DELETE_GATE);
		return; /* the slots stay, for when it is limited again */
	}
	FAULT_IF(GATE_AFTER_SLOTS, plan->target == 0, add_change(plan, order, found->slots, 0));
	if (plan->target == 0 && !found->gate)
		add(plan, STEP_DECLARE_GATE);
	FAULT_IF(GATE_OPENED_FIRST, plan->target > 0 && found->gate, add(plan, STEP_DELETE_GATE));
	sweep_behind_gate(plan, order, found);
	add_change(plan, order, found->slots, plan->target);
	if (plan->target > 0 && found->gate)
		add(plan, STEP_DELETE_GATE);
	if (found->unlimited)
		add(plan, STEP_DELETE_UNLIMITED);
}

/* ---- destroy ---- */

/*
 * The name leaves the directory after the semaphore is gone, so that the directory always lists it.
 */
static void
plan_destroy(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	struct plan_order its = *order;

	if (is_being_converted(plan, found))
		return;
	FAULT(DESTROY_ASCENDING, its.ascending = true);
	FAULT(LEFT_TOO_EARLY, add(plan, STEP_LEAVE));
	plan->vain = !exists(found); /* unless an interrupted destroy has left queues */
	if (is_by_quorum(plan)) {
		add_sweep_of(plan, STEP_SWEEP_BEADS, order, found->slots);
		add_slots(plan, STEP_REMOVE_SLOTS, found->slots, 1);
		add_slots(plan, STEP_RECORD, -1, 0);
	} else {
		sweep_behind_gate(plan, order, found);
		add_change(plan, &its, found->slots, 0);
	}
	/* A gate does not remember how its slots were held. */
	if (found->gate && found->slots == 0 && found->has_records)
		add(plan, STEP_FORGET_RECORD);
	if (found->gate)
		add(plan, STEP_DELETE_GATE);
	if (found->unlimited)
		add(plan, STEP_DELETE_UNLIMITED);
	add(plan, STEP_LEAVE);
}

struct plan
plan_make(const struct plan_order *order, const struct plan_found *found)
{
	struct plan plan = {.refusal = REASON_NONE, .target = -1};

	/* A semaphore grows the way that its slots are; if they differ, the safer way. */
	plan.claim = found->claim == LOCK_CLAIM_UNKNOWN ? order->claim
		     : found->claim == LOCK_CLAIM_MIXED ? LOCK_CLAIM_BY_CONSUMER
							: found->claim;
	if (plan.claim == LOCK_CLAIM_UNKNOWN && order->slots > 0 && order->by != PLAN_REMOVE)
		plan.claim = order->setting;
	switch (order->work) {
	case PLAN_CREATE:
	case PLAN_CREATE_MISSING:
		plan_create(&plan, order, found);
		break;
	case PLAN_RESIZE:
		plan_resize(&plan, order, found);
		break;
	case PLAN_DESTROY:
		plan_destroy(&plan, order, found);
		break;
	}
	return plan;
}

bool
plan_undo(struct plan *plan)
{
	bool is_new = plan->is_new;

	*plan = is_new ? (struct plan){.is_new = false} : *plan;
	if (is_new)
		add(plan, STEP_LEAVE);
	return is_new;
}

int
plan_step_slots(const struct step *step)
{
	return abs(step->last - step->first) + 1;
}

int
plan_step_slot(const struct step *step, int count)
{
	return step->first <= step->last ? step->first + count : step->first - count;
}

int
plan_slots(const struct plan *plan, enum step_kind kind)
{
	int slots = 0;

	for (size_t i = 0; i < plan->count; i++) {
		const struct step *step = &plan->steps[i];

		if (step->kind == kind)
			slots += plan_step_slots(step);
	}
	return slots;
}
