#include "daemon/lock/plan.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/scan.h"

/*
 * Contents:
 *	1. The steps of a change. plan_order() is the order, plan_nonsense() refuses it, plan_words() names it.
 *	   plan_create_new() and plan_create_again(), plan_resize() and plan_resize_by_quorum(), plan_destroy().
 *	   plan_make() makes the list of steps, plan_undo() what is left to do after a refusal.
 *	   plan_slots() and plan_step_slot() count and number the slots of steps.
 *	2. The findings of fsck. fsck_seen_take() keeps what the scan saw.
 *	   findings_add_whole(), findings_add_gap() and the others find one kind each.
 *	   fsck_findings_make() finds all, and fsck_findings_compare() says which are repaired.
 */

/* 1. The steps of a change. */

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
plan_add_slots(struct plan *plan, enum step_kind kind, int first, int last)
{
	assert(plan->count < PLAN_STEPS_MAX);
	plan->steps[plan->count++] = (struct step){kind, first, last};
}

static void
plan_add(struct plan *plan, enum step_kind kind)
{
	plan_add_slots(plan, kind, 0, 0);
}

static void
plan_add_sweep_of(struct plan *plan, enum step_kind kind, const struct plan_order *order, int size)
{
	int window = order->overshoot > PLAN_SWEEP_LEAST ? order->overshoot : PLAN_SWEEP_LEAST;

	if (window > order->most - size)
		window = order->most - size;
	FAULT(UNCOUNTED_LEFT, return;);
	if (window > 0)
		plan_add_slots(plan, kind, size + 1, size + window);
}

static void
plan_add_sweep(struct plan *plan, const struct plan_order *order, int size)
{
	plan_add_sweep_of(plan, STEP_SWEEP, order, size);
}

static void __attribute__((format(printf, 3, 4)))
plan_refuse(struct plan *plan, enum reason reason, const char *format, ...)
{
	va_list args;

	plan->refusal = reason;
	va_start(args, format);
	vsnprintf(plan->text, sizeof(plan->text), format, args);
	va_end(args);
}

static bool
plan_exists(const struct plan_found *found)
{
	return found->unlimited || found->gate || found->slots > 0;
}

/*
 * From `from` slots to `to`, and none above. The sweep before removes uncounted slots, which would
 * count beside new ones. If the broker does not answer it, nothing is changed. The sweep after
 * finds slots of an administrator that died in its work.
 */
static void
plan_add_change(struct plan *plan, const struct plan_order *order, int from, int to)
{
	if (from != to)
		plan_add_sweep(plan, order, from < to ? to : from);
	if (from < to) {
		plan_add_slots(plan, STEP_DECLARE_SLOTS, from + 1, to);
		FAULT(DECLARED_DESCENDING,
		    plan->steps[plan->count - 1] = (struct step){STEP_DECLARE_SLOTS, to, from + 1});
	}
	if (from > to && order->ascending)
		plan_add_slots(plan, STEP_DELETE_SLOTS, to + 1, from);
	else if (from > to)
		plan_add_slots(plan, STEP_DELETE_SLOTS, from, to + 1);
	plan_add_sweep(plan, order, to);
}

/* The same of slots by quorum. The records let no second administrator make one meanwhile. */
static void
plan_add_quorum_change(struct plan *plan, const struct plan_order *order, int from, int to)
{
	plan_add_sweep_of(plan, STEP_SWEEP_BEADS, order, from < to ? to : from);
	if (from > to)
		plan_add_slots(plan, STEP_REMOVE_SLOTS, from, to + 1);
	plan_add_slots(plan, STEP_RECORD, to, from < to ? from + 1 : 0);
	if (from < to)
		plan_add_slots(plan, STEP_MAKE_SLOTS, from + 1, to);
}

static bool
plan_is_by_quorum(const struct plan *plan)
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
		plan_add_sweep_of(plan, STEP_SWEEP_BEADS, order, 0);
}

/* False: slots by quorum cannot be unlimited, as a gate stands at the place of their As. */
static bool
may_be_unlimited(struct plan *plan)
{
	if (!plan_is_by_quorum(plan) || plan->target != LOCK_UNLIMITED)
		return true;
	plan->parameter = "slots";
	plan_refuse(plan, REASON_INVALID_PARAMS, "a semaphore held by quorum cannot be unlimited");
	return false;
}

/* Only fsck knows which of its slots go. */
static bool
is_being_converted(struct plan *plan, const struct plan_found *found)
{
	if (!found->beside)
		return false;
	plan_refuse(
	    plan, REASON_WOULD_BLOCK, "its conversion is not complete; complete it, see fsck");
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
plan_refuse_existing(
    struct plan *plan, const struct plan_order *order, const struct plan_found *found, bool same)
{
	if (same && claims_differ(order, found))
		plan_refuse(plan, REASON_ALREADY_EXISTS,
		    "it exists already, and its slots are held %s", lock_claim_how(found->claim));
	else if (found->unlimited)
		plan_refuse(plan, REASON_ALREADY_EXISTS, "it exists already, and is unlimited");
	else if (found->slots == 0)
		plan_refuse(plan, REASON_ALREADY_EXISTS, "it exists already, with 0 slots");
	else
		plan_refuse(plan, REASON_ALREADY_EXISTS, "it exists already, with %d slot%s",
		    found->slots, found->slots == 1 ? "" : "s");
}

/*
 * The name is entered before the semaphore exists, so that the directory always lists it. A[1]
 * comes last: until then the semaphore does not exist, and its slots are uncounted. After an
 * interruption the next create takes them over.
 */
static void
plan_create_new(struct plan *plan, const struct plan_order *order)
{
	int size = order->slots == LOCK_UNLIMITED ? 0 : order->slots;

	plan->is_new = true;
	if (plan_is_by_quorum(plan)) {
		plan_add(plan, STEP_ENTER);
		plan_add(plan, STEP_DECLARE_GATE);
		plan_add_quorum_change(plan, order, 0, size);
		return;
	}
	plan_add_sweep(plan, order, size);
	plan_add(plan, STEP_ENTER);
	FAULT(NOT_LISTED, plan->count--);
	if (order->slots == LOCK_UNLIMITED)
		plan_add(plan, STEP_DECLARE_UNLIMITED);
	else if (size == 0)
		plan_add(plan, STEP_DECLARE_GATE);
	FAULT_IF(FIRST_SLOT_FIRST, size > 0, plan_add_slots(plan, STEP_DECLARE_SLOTS, 1, 1));
	if (size > 1)
		plan_add_slots(plan, STEP_DECLARE_SLOTS, 2, size);
	if (size > 0)
		plan_add_slots(plan, STEP_DECLARE_SLOTS, 1, 1);
	if (size > 0)
		plan_add_sweep(plan, order, size);
}

/*
 * The semaphore exists. With exist_ok, it is fine if it has the requested size. This never opens a
 * gate.
 */
static void
plan_create_again(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	bool same =
	    found->unlimited ? order->slots == LOCK_UNLIMITED : order->slots == found->slots;

	if (!same || claims_differ(order, found)) {
		plan_refuse_existing(plan, order, found, same);
		return;
	}
	if (plan_is_by_quorum(plan)) {
		plan_add(plan, STEP_ENTER);
		return;
	}
	/* A gate beside slots or N-U is left from an interrupted resize. It has no effect. */
	if (found->gate && !found->beside && order->slots != 0)
		plan_add_sweep(plan, order, found->slots);
	plan_add(plan, STEP_ENTER);
	if (found->gate && !found->beside && order->slots != 0)
		plan_add(plan, STEP_DELETE_GATE);
}

static void
plan_create(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	plan->target = order->slots;
	if (!may_be_unlimited(plan))
		return;
	if (!plan_exists(found))
		plan_create_new(plan, order);
	else if (order->work == PLAN_CREATE_MISSING)
		return;
	else if (order->exist_ok)
		plan_create_again(plan, order, found);
	else
		plan_refuse_existing(plan, order, found, false);
}

/* ---- resize ---- */

static void
plan_resize_by_quorum(
    struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	if (!may_be_unlimited(plan))
		return;
	if (found->unlimited) {
		plan_refuse(plan, REASON_INVALID_PARAMS,
		    "it is unlimited; resize it to 0 slots before it is held by quorum");
		return;
	}
	if (!found->gate)
		plan_add(plan, STEP_DECLARE_GATE);
	plan_add_quorum_change(plan, order, found->slots, plan->target);
}

static void
plan_resize(struct plan *plan, const struct plan_order *order, const struct plan_found *found)
{
	if (order->by == PLAN_TO)
		plan->target = order->slots;
	if (!plan_exists(found)) {
		plan_refuse(plan, REASON_NO_SUCH_LOCK, "%s", "");
		return;
	}
	if (is_being_converted(plan, found))
		return;
	plan->parameter = order->by == PLAN_ADD ? "add" : "remove";
	if (order->by != PLAN_TO && found->unlimited) {
		plan_refuse(plan, REASON_INVALID_PARAMS, "it is unlimited; give a number of slots");
		return;
	}
	plan->parameter = "claim";
	if (claims_differ(order, found)) {
		plan_refuse(plan, REASON_INVALID_PARAMS, "its slots are held %s, see fsck",
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
		plan_refuse(plan, REASON_INVALID_PARAMS,
		    "that makes %d slots, and the maximum is %d", plan->target, order->most);
		return;
	}

	if (plan_is_by_quorum(plan)) {
		plan_resize_by_quorum(plan, order, found);
		return;
	}
	if (plan->target == LOCK_UNLIMITED) {
		if (!found->unlimited)
			plan_add(plan, STEP_DECLARE_UNLIMITED);
		if (found->gate)
			plan_add(plan, STEP_DELETE_GATE);
		return; /* the slots stay, for when it is limited again */
	}
	FAULT_IF(
	    GATE_AFTER_SLOTS, plan->target == 0, plan_add_change(plan, order, found->slots, 0));
	if (plan->target == 0 && !found->gate)
		plan_add(plan, STEP_DECLARE_GATE);
	FAULT_IF(
	    GATE_OPENED_FIRST, plan->target > 0 && found->gate, plan_add(plan, STEP_DELETE_GATE));
	sweep_behind_gate(plan, order, found);
	plan_add_change(plan, order, found->slots, plan->target);
	if (plan->target > 0 && found->gate)
		plan_add(plan, STEP_DELETE_GATE);
	if (found->unlimited)
		plan_add(plan, STEP_DELETE_UNLIMITED);
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
	FAULT(LEFT_TOO_EARLY, plan_add(plan, STEP_LEAVE));
	plan->vain = !plan_exists(found); /* unless an interrupted destroy has left queues */
	if (plan_is_by_quorum(plan)) {
		plan_add_sweep_of(plan, STEP_SWEEP_BEADS, order, found->slots);
		plan_add_slots(plan, STEP_REMOVE_SLOTS, found->slots, 1);
		plan_add_slots(plan, STEP_RECORD, -1, 0);
	} else {
		sweep_behind_gate(plan, order, found);
		plan_add_change(plan, &its, found->slots, 0);
	}
	/* A gate does not remember how its slots were held. */
	if (found->gate && found->slots == 0 && found->has_records)
		plan_add(plan, STEP_FORGET_RECORD);
	if (found->gate)
		plan_add(plan, STEP_DELETE_GATE);
	if (found->unlimited)
		plan_add(plan, STEP_DELETE_UNLIMITED);
	plan_add(plan, STEP_LEAVE);
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
		plan_add(plan, STEP_LEAVE);
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

/* 2. The findings of fsck. */

/* ---- the scan's results ---- */

void
fsck_seen_take(struct fsck_seen *seen, const struct full_scan *found, bool keeps_odd)
{
	struct fsck_seen before = *seen;
	size_t slots = (size_t)found->seen, bytes = slots * sizeof(*found->a);
	enum broker_answer *a = mem_alloc(bytes + 1);

	seen->b = mem_alloc(bytes + 1);
	seen->ways = mem_alloc((slots + 1) * sizeof(*seen->ways));
	if (slots > 0) {
		memcpy(a, found->a, bytes);
		memcpy(seen->b, found->b, bytes);
		memcpy(seen->ways, found->ways, slots * sizeof(*seen->ways));
	}
	seen->full_scan = *found;
	seen->full_scan.a = a;
	seen->full_scan.b = seen->b;
	seen->full_scan.ways = seen->ways;
	seen->make = mem_alloc((slots + 1) * sizeof(*seen->make));
	seen->odd = mem_alloc((slots + 1) * sizeof(*seen->odd));
	seen->listed = false;
	/*
	 * A busy B with other arguments does not refuse probes, as an exclusive queue. Only the pass that
	 * declared the queues can tell the two apart.
	 */
	for (int i = 0; keeps_odd && i < found->seen && i < before.full_scan.seen; i++) {
		seen->odd[i] = before.odd[i] && seen->b[i] == BROKER_OK;
		if (seen->odd[i])
			seen->ways[i] = BROKER_BY_CONSUMER;
	}
	fsck_seen_done(&before);
}

void
fsck_seen_put_quorum(struct fsck_seen *seen, int slots)
{
	size_t room = (size_t)slots + 1;

	seen->b = mem_grow(seen->b, room, sizeof(*seen->b));
	seen->ways = mem_grow(seen->ways, room, sizeof(*seen->ways));
	for (int i = 0; i < slots; i++) {
		seen->b[i] = BROKER_OK;
		seen->ways[i] = BROKER_BY_QUORUM;
	}
	seen->full_scan.b = seen->b;
	seen->full_scan.ways = seen->ways;
	seen->full_scan.slots = slots;
}

void
fsck_seen_done(struct fsck_seen *seen)
{
	free((enum broker_answer *)seen->full_scan.a);
	free(seen->b);
	free(seen->ways);
	free(seen->make);
	free(seen->odd);
	*seen = (struct fsck_seen){.listed = false};
}

int
fsck_seen_highest(const struct fsck_seen *seen)
{
	int slot = seen->full_scan.seen;

	while (slot > 0 && !fsck_seen_slot(seen, slot))
		slot--;
	return slot;
}

/* ---- the findings ---- */

const char *
lock_problem_word(enum lock_problem problem)
{
	static const char *const words[] = {
	    [LOCK_PROBLEM_GAP] = "gap",
	    [LOCK_PROBLEM_UNCOUNTED] = "uncounted",
	    [LOCK_PROBLEM_ORPHAN] = "orphan",
	    [LOCK_PROBLEM_ARGUMENTS] = "arguments",
	    [LOCK_PROBLEM_TRANSIENT] = "transient",
	    [LOCK_PROBLEM_MARKERS] = "markers",
	    [LOCK_PROBLEM_NOT_LISTED] = "not-listed",
	    [LOCK_PROBLEM_LISTED_MISSING] = "listed-missing",
	    [LOCK_PROBLEM_LEFTOVER] = "leftover",
	    [LOCK_PROBLEM_CLAIM] = "claim",
	    [LOCK_PROBLEM_UNREACHABLE] = "unreachable",
	    [LOCK_PROBLEM_NO_BEADS] = "no-beads",
	    [LOCK_PROBLEM_ODD_BEADS] = "odd-beads",
	    [LOCK_PROBLEM_TWO_SETS] = "two-sets",
	    [LOCK_PROBLEM_VERSION] = "version",
	    [LOCK_PROBLEM_FOREIGN] = "foreign",
	    [LOCK_PROBLEM_QUEUE_TYPE] = "queue-type",
	    [LOCK_PROBLEM_QUEUE_ARGUMENTS] = "queue-arguments",
	    [LOCK_PROBLEM_RECORD] = "record",
	    [LOCK_PROBLEM_NO_RECORD] = "no-record",
	    [LOCK_PROBLEM_STALE_RECORD] = "stale-record",
	};

	return words[problem];
}

void
fsck_findings_add(struct fsck_findings *findings, enum lock_problem problem, int slot, char *text)
{
	if (findings->count == findings->room) {
		findings->room = findings->room == 0 ? 8 : 2 * findings->room;
		findings->list = mem_grow(findings->list, findings->room, sizeof(*findings->list));
	}
	findings->list[findings->count++] =
	    (struct lock_finding){.problem = problem, .slot = slot, .text = text};
}

void
fsck_findings_add_listing(struct fsck_findings *findings, bool exists, bool listed)
{
	if (exists && !listed)
		fsck_findings_add(findings, LOCK_PROBLEM_NOT_LISTED, 0,
		    mem_strdup("it exists, but is not in the directory"));
	else if (!exists && listed)
		fsck_findings_add(findings, LOCK_PROBLEM_LISTED_MISSING, 0,
		    mem_strdup("it is in the directory, but does not exist"));
}

static void
findings_add_whole(struct fsck_findings *findings, const struct fsck_seen *seen)
{
	const struct full_scan *full_scan = &seen->full_scan;

	if (full_scan->gate && full_scan->unlimited)
		fsck_findings_add(findings, LOCK_PROBLEM_MARKERS, 0,
		    mem_strdup("marked as unlimited and as a gate; it counts as unlimited"));
	else if (full_scan->gate && full_scan->slots > 0)
		fsck_findings_add(findings, LOCK_PROBLEM_MARKERS, 0,
		    mem_strdup("marked as a gate, but it has slots, which count"));
	fsck_findings_add_listing(findings, full_scan_exists(full_scan), seen->listed);
}

/* A run of missing slots below one that exists is one gap. */
static void
findings_add_gap(struct fsck_findings *findings, const struct fsck_seen *seen, int slot)
{
	int last = slot;

	if (slot > 1 && !fsck_seen_slot(seen, slot - 1))
		return; /* reported with the first of them */
	while (!fsck_seen_slot(seen, last + 1))
		last++;
	fsck_findings_add(findings, LOCK_PROBLEM_GAP, slot,
	    last == slot ? mem_printf("slot %d is missing", slot)
			 : mem_printf("slots %d to %d are missing", slot, last));
}

static void
findings_add_make(struct fsck_findings *findings, const struct fsck_seen *seen, int slot)
{
	switch (seen->make[slot - 1]) {
	case FSCK_MAKE_OURS:
		break;
	case FSCK_MAKE_OTHERWISE:
		fsck_findings_add(findings, LOCK_PROBLEM_ARGUMENTS, slot,
		    mem_strdup("declared with other arguments; it works"));
		break;
	case FSCK_MAKE_EXCLUSIVE:
		fsck_findings_add(findings, LOCK_PROBLEM_ARGUMENTS, slot,
		    mem_strdup("an exclusive queue, which ends with its connection"));
		break;
	case FSCK_MAKE_TRANSIENT:
		fsck_findings_add(findings, LOCK_PROBLEM_TRANSIENT, slot,
		    mem_strdup(seen->full_scan.b[slot - 1] == BROKER_OK
				   ? "not durable, so it is gone when the broker restarts; it is "
				     "busy, so it is not repaired now"
				   : "not durable, so it is gone when the broker restarts"));
		break;
	}
}

static void
findings_add_claim(
    struct fsck_findings *findings, const struct fsck_seen *seen, int slot, enum lock_claim wanted)
{
	enum broker_answer b = seen->b[slot - 1];

	fsck_findings_add(findings, LOCK_PROBLEM_CLAIM, slot,
	    mem_printf("held by %s, and not by %s%s", way_row(seen->ways[slot - 1])->by_what,
		full_scan_way(wanted)->by_what,
		b == BROKER_OK            ? "; it is busy"
		: b == BROKER_UNREACHABLE ? "; the node of its holder queue cannot be reached"
					  : ""));
}

/* The holder queue of a slot. */
static void
findings_add_holder(
    struct fsck_findings *findings, const struct fsck_seen *seen, int slot, enum lock_claim wanted)
{
	bool there = fsck_seen_slot(seen, slot);
	enum broker_answer b = seen->b[slot - 1];

	if (seen->odd[slot - 1])
		fsck_findings_add(findings, LOCK_PROBLEM_ARGUMENTS, slot,
		    mem_strdup("its holder queue was declared with other arguments"));
	if (!there && fsck_seen_leftover(seen, slot))
		fsck_findings_add(findings, LOCK_PROBLEM_LEFTOVER, slot,
		    mem_strdup("the slot does not exist, but its holder queue is left"));
	if (there && slot <= seen->full_scan.slots && wanted != LOCK_CLAIM_UNKNOWN &&
	    fsck_seen_claim(seen, slot) != wanted)
		findings_add_claim(findings, seen, slot, wanted);
	if (b == BROKER_UNREACHABLE)
		fsck_findings_add(findings, LOCK_PROBLEM_UNREACHABLE, slot,
		    mem_strdup("the node of its holder queue cannot be reached, so it is not known "
			       "whether it is busy"));
}

void
fsck_findings_make(struct fsck_findings *findings, const struct fsck_seen *seen,
    enum lock_claim wanted, bool has_record)
{
	const struct full_scan *full_scan = &seen->full_scan;
	int highest = fsck_seen_highest(seen);

	findings_add_whole(findings, seen);
	if (has_record)
		fsck_findings_add(findings, LOCK_PROBLEM_STALE_RECORD, 0,
		    mem_strdup("there is a record of slots by quorum, but none is there"));
	for (int slot = 1; slot <= full_scan->seen; slot++) {
		bool there = fsck_seen_slot(seen, slot);

		if (!there && slot < highest)
			findings_add_gap(findings, seen, slot);
		if (there && slot > full_scan->slots)
			fsck_findings_add(findings, LOCK_PROBLEM_UNCOUNTED, slot,
			    mem_strdup("above a missing slot, so it does not count"));
		if (!there && full_scan->b[slot - 1] == BROKER_OK)
			fsck_findings_add(findings, LOCK_PROBLEM_ORPHAN, slot,
			    mem_strdup(
				"busy, but the slot does not exist; its holder must release it"));
		if (there)
			findings_add_make(findings, seen, slot);
		findings_add_holder(findings, seen, slot, wanted);
	}
}

void
fsck_findings_done(struct fsck_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		free((char *)findings->list[i].text);
	free(findings->list);
	*findings = (struct fsck_findings){.count = 0};
}

bool
fsck_findings_repairable(const struct fsck_findings *findings, const struct fsck_seen *seen)
{
	for (size_t i = 0; i < findings->count; i++) {
		switch (findings->list[i].problem) {
		case LOCK_PROBLEM_ARGUMENTS: /* those of A stay */
			if (seen->odd[findings->list[i].slot - 1])
				return true;
			break;
		case LOCK_PROBLEM_ORPHAN:
		case LOCK_PROBLEM_CLAIM: /* converted on request */
		case LOCK_PROBLEM_UNREACHABLE:
			break;
		case LOCK_PROBLEM_LEFTOVER:
		case LOCK_PROBLEM_GAP:
		case LOCK_PROBLEM_UNCOUNTED:
		case LOCK_PROBLEM_TRANSIENT:
		case LOCK_PROBLEM_MARKERS:
		case LOCK_PROBLEM_NOT_LISTED:
		case LOCK_PROBLEM_LISTED_MISSING:
		case LOCK_PROBLEM_STALE_RECORD:
			return true;
		default: /* of slots by quorum (fsck_quorum.h) */
			break;
		}
	}
	return false;
}

/* Below 0: `one` comes before `other`. */
static int
findings_compare(const struct lock_finding *one, const struct lock_finding *other)
{
	return one->slot != other->slot ? one->slot - other->slot
					: (int)one->problem - (int)other->problem;
}

void
fsck_findings_compare(struct fsck_findings *before, struct fsck_findings *after)
{
	struct fsck_findings all = {.count = 0};
	size_t i = 0, j = 0;

	while (i < before->count || j < after->count) {
		int order = i == before->count ? 1
			    : j == after->count
				? -1
				: findings_compare(&before->list[i], &after->list[j]);
		struct lock_finding *from = order < 0 ? &before->list[i] : &after->list[j];

		/* A problem that is still there gets the newer words. */
		fsck_findings_add(&all, from->problem, from->slot, (char *)from->text);
		all.list[all.count - 1].repaired = order < 0;
		from->text = NULL;
		i += order <= 0;
		j += order >= 0;
	}
	fsck_findings_done(before);
	*before = all;
}

void
fsck_findings_converted(struct fsck_findings *findings, const struct fsck_seen *seen,
    enum lock_claim wanted, const int *left, size_t left_count)
{
	struct fsck_findings now = {.count = 0}, all = {.count = 0};
	size_t j = 0;

	for (size_t i = 0; i < left_count; i++)
		findings_add_claim(&now, seen, left[i], wanted);
	for (size_t i = 0; i < findings->count; i++) {
		struct lock_finding *from = &findings->list[i];

		while (j < now.count && findings_compare(&now.list[j], from) < 0) {
			fsck_findings_add(
			    &all, LOCK_PROBLEM_CLAIM, now.list[j].slot, (char *)now.list[j].text);
			now.list[j++].text = NULL;
		}
		fsck_findings_add(&all, from->problem, from->slot, (char *)from->text);
		all.list[all.count - 1].repaired = from->repaired;
		from->text = NULL;
	}
	for (; j < now.count; j++) {
		fsck_findings_add(
		    &all, LOCK_PROBLEM_CLAIM, now.list[j].slot, (char *)now.list[j].text);
		now.list[j].text = NULL;
	}
	fsck_findings_done(&now);
	fsck_findings_done(findings);
	*findings = all;
}
