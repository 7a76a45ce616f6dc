#include "daemon/lock/admin_work.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/directory.h"
#include "daemon/lock/mutex.h"

/* Slots of one more window of a sweep, where the one before had strays. */
#define SWEEP_MORE 256

static const struct step *
step_of(const struct admin *admin)
{
	return &admin->plan.steps[admin->step];
}

void
admin_work_say(const struct admin *admin, const char *why, char *ret_text, size_t size)
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

static void
fail(struct lock_engine *engine, struct admin *admin, enum reason reason, const char *why)
{
	char text[sizeof(admin->text)];

	admin_work_say(admin, why, text, sizeof(text));
	admin_unlock(engine, admin, reason, text);
}

static void
end_step(struct admin *admin)
{
	admin->step++;
	admin->done = 0;
	free(admin->sweep.slots);
	admin->sweep = (struct admin_sweep){0};
}

/* ---- answers ---- */

/* The step asked for this slot, and it is so. */
static void
count_slot(struct admin *admin, int slot)
{
	switch (step_of(admin)->kind) {
	case STEP_DECLARE_SLOTS:
		admin->declared++;
		return;
	case STEP_DELETE_SLOTS:
		admin->deleted++;
		break;
	case STEP_SWEEP:
		admin->sweep.count--;
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

/* The slot of a step that goes from one to another, after so many. */
static int
slot_after(const struct step *step, int count)
{
	return step->first <= step->last ? step->first + count : step->first - count;
}

/* The slot that is awaited first. */
static int
slot_awaited(const struct admin *admin)
{
	if (step_of(admin)->kind == STEP_SWEEP)
		return admin->sweep.slots[admin->sweep.count - 1];
	return slot_after(step_of(admin), admin->done);
}

/* Everything that was asked is answered, and not everything with yes: false when that ends the work. */
static bool
may_go_on(struct lock_engine *engine, struct admin *admin)
{
	enum broker_answer wrong = admin->wrong;
	struct broker_info info;

	if (admin->lane_gone)
		mutex_lane_gone(engine, admin->op);
	admin->lane_gone = false;
	admin->wrong = BROKER_OK;
	broker_get_info(engine->broker, &info);
	switch (wrong) {
	case BROKER_OK:
		return true;
	case BROKER_UNKNOWN:
		/* The link died, and the mutex with it: MUTEX_LOST comes. */
		if (info.side != BROKER_UP)
			return false;
		/* fall through */
	case BROKER_SKIPPED:
		/* Its lane alone died. What was asked may be asked again: it says what is to be. */
		if (++admin->skips <= engine->settings.max_races)
			return true;
		fail(engine, admin, REASON_BROKER_UNAVAILABLE,
		    "no channel to the broker stayed open long enough");
		return false;
	case BROKER_ABSENT:
	case BROKER_LOCKED:
	case BROKER_REFUSED:
		fail(engine, admin, REASON_BROKER_DENIED, admin->wrong_text);
		return false;
	}
	abort();
}

static void
on_answer(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);

	assert(admin != NULL && admin->state == ADMIN_WORKING && admin->unanswered > 0);
	admin->unanswered--;
	admin->lane_gone |= !reply->lane_open;
	if (reply->answer == BROKER_OK) {
		count_slot(admin, slot_awaited(admin));
		admin->done++;
		admin->skips = 0;
	} else if (admin->wrong == BROKER_OK) {
		admin->wrong = reply->answer;
		snprintf(admin->wrong_text, sizeof(admin->wrong_text), "%s", reply->text);
	}
	/* One that failed closed the lane: those behind it will say that they were skipped. */
	if ((admin->lane_gone || admin->wrong != BROKER_OK) &&
	    (admin->unanswered > 0 || !may_go_on(engine, admin)))
		return;
	admin_work_go_on(engine, admin);
}

static void
on_directory(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct admin *admin = admin_find(engine, id);

	(void)names;
	if (admin == NULL)
		return; /* the mutex went with the link meanwhile */
	admin->unanswered--;
	if (reason != REASON_NONE) {
		fail(engine, admin, reason, text);
		return;
	}
	admin->removed |= step_of(admin)->kind == STEP_LEAVE && count > 0;
	admin->done++;
	admin_work_go_on(engine, admin);
}

/* ---- a sweep ---- */

/* The first slot of the next window; 0: enough was looked at. */
static int
next_window(const struct admin *admin, int *ret_count)
{
	const struct admin_sweep *sweep = &admin->sweep;
	int first = sweep->looked == 0 ? step_of(admin)->first : sweep->looked + 1;
	int last = step_of(admin)->last;

	if (first > last) {
		last = sweep->looked + SWEEP_MORE;
		if (last > admin->order.most)
			last = admin->order.most;
		if (sweep->clean || first > last)
			return 0;
	}
	*ret_count = last - first + 1;
	if (*ret_count > BROKER_PROBE_MAX)
		*ret_count = BROKER_PROBE_MAX;
	return first;
}

static void
fail_unknown(struct lock_engine *engine, struct admin *admin, int slot)
{
	struct lock_answer unknown;
	char why[96];

	snprintf(why, sizeof(why), "the broker did not say whether slot %d exists", slot);
	unknown = engine_refusal_unknown(engine, why);
	fail(engine, admin, unknown.reason, unknown.text);
}

static void
on_swept(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);
	struct admin_sweep *sweep;
	int first, window;

	assert(admin != NULL && admin->state == ADMIN_WORKING);
	first = next_window(admin, &window);
	sweep = &admin->sweep;
	admin->unanswered--;
	sweep->clean = true;
	sweep->slots = mem_grow(sweep->slots, sweep->count + count, sizeof(*sweep->slots));
	for (int i = 0; i < window; i++) {
		if (answers[i] == BROKER_UNKNOWN) {
			fail_unknown(engine, admin, first + i);
			return;
		}
		if (answers[i] == BROKER_OK) {
			sweep->slots[sweep->count++] = first + i;
			sweep->clean = false;
		}
	}
	sweep->looked = first + window - 1;
	admin_work_go_on(engine, admin);
}

static void
look_for_strays(struct lock_engine *engine, struct admin *admin, int first, int window)
{
	struct queue_name *names = mem_alloc((size_t)window * sizeof(*names));
	const char **texts = mem_alloc((size_t)window * sizeof(*texts));

	for (int i = 0; i < window; i++) {
		names[i] = queue_name_a(engine->settings.naming, admin->name, first + i);
		texts[i] = names[i].text;
	}
	admin->unanswered++;
	broker_probe(engine->broker, texts, (size_t)window,
	    (struct broker_probe_done){on_swept, engine, admin->op});
	free(texts);
	free(names);
}

/* ---- the steps ---- */

typedef void ask_fn(
    struct broker *broker, uint64_t lane, const char *queue, struct broker_done done);

static void
ask(struct lock_engine *engine, struct admin *admin, ask_fn *what, struct queue_name queue)
{
	admin->unanswered++;
	what(engine->broker, mutex_lane(engine, admin->op), queue.text,
	    (struct broker_done){on_answer, engine, admin->op});
}

static struct queue_name
slot_queue(const struct lock_engine *engine, const struct admin *admin, int slot)
{
	return queue_name_a(engine->settings.naming, admin->name, slot);
}

/* Ascending, and answered in that order: whatever ends it, these have no gap. */
static void
declare_slots(struct lock_engine *engine, struct admin *admin)
{
	int left = plan_step_slots(step_of(admin)) - admin->done;

	while (admin->unanswered < left && admin->unanswered < MUTEX_DECLARES_MOST)
		ask(engine, admin, broker_declare_slot,
		    slot_queue(engine, admin,
			slot_after(step_of(admin), admin->done + admin->unanswered)));
}

/* False: the step is done. */
static bool
sweep_on(struct lock_engine *engine, struct admin *admin)
{
	int window, first = next_window(admin, &window);

	if (first != 0)
		look_for_strays(engine, admin, first, window);
	else if (admin->sweep.count > 0)
		ask(engine, admin, broker_delete_slot,
		    slot_queue(engine, admin, slot_awaited(admin)));
	else
		return false;
	return true;
}

static void
ask_directory(struct lock_engine *engine, struct admin *admin, bool enter)
{
	admin->unanswered++;
	if (enter)
		directory_enter(engine, admin->name, on_directory, admin->op);
	else
		directory_leave(engine, admin->name, on_directory, admin->op);
}

/* Asks for the next that the step has to do. False: it is done. */
static bool
step_on(struct lock_engine *engine, struct admin *admin)
{
	const struct queue_naming *naming = engine->settings.naming;
	const struct step *step = step_of(admin);
	struct queue_name gate = queue_name_gate(naming, admin->name);
	struct queue_name unlimited = queue_name_unlimited(naming, admin->name);

	if (step->kind == STEP_SWEEP)
		return sweep_on(engine, admin);
	if (admin->done == plan_step_slots(step))
		return false;
	switch (step->kind) {
	case STEP_SWEEP:
		break;
	case STEP_ENTER:
		ask_directory(engine, admin, true);
		break;
	case STEP_LEAVE:
		ask_directory(engine, admin, false);
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
		if (FAULT(MUTEX_DROPPED_EARLY) && admin->done == abs(step->last - step->first))
			mutex_drop(engine, admin->op);
		ask(engine, admin, broker_delete_slot,
		    slot_queue(engine, admin, slot_after(step, admin->done)));
		break;
	}
	return true;
}

void
admin_work_go_on(struct lock_engine *engine, struct admin *admin)
{
	struct op *op = engine_op_find(engine, admin->op);

	if (op == NULL) {
		/* Answered by its deadline meanwhile: nothing more is done. */
		if (admin->unanswered == 0)
			fail(engine, admin, REASON_BROKER_UNAVAILABLE,
			    "the broker did not answer in time");
		return;
	}
	while (admin->step < admin->plan.count && !step_on(engine, admin))
		end_step(admin);
	/* After what was asked: the directory's deadline comes first, and says more. */
	engine_op_progress(engine, op);
	if (admin->step < admin->plan.count)
		return;
	if (admin->plan.vain && !admin->removed)
		admin_unlock(engine, admin, REASON_NO_SUCH_LOCK, NULL);
	else
		admin_unlock(engine, admin, REASON_NONE, NULL);
}
