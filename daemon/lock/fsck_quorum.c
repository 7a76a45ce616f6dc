#include "daemon/lock/fsck_quorum.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/beads.h"
#include "daemon/lock/admin.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/mutex.h"

/*
 * Contents:
 *	1. One fsck: fsck_set_state(), fsck_tell_outcome(), and fsck_work_new() for a list of requests.
 *	2. The slots that were seen: fsck_quorum_size(), fsck_quorum_is_sound().
 *	   The findings: fsck_quorum_findings(). The repair: fsck_quorum_repair().
 *	   fsck_quorum_wants(), fsck_quorum_saw() and fsck_quorum_saw_look() are asked by work.c, slot by slot.
 *	   fsck_quorum_add_as() claims and deletes slots with As, fsck_quorum_judge() judges that.
 *	   fsck_quorum_examine() reads the record, asks which slots exist, and looks into each.
 *	3. fsck_convert_to_quorum() and fsck_convert_from_quorum() do one pass.
 *	   fsck_convert_add_record_left() completes a conversion that was cut.
 */

/* 1. One fsck. */

/* ---- the state ---- */

ENGINE_FIND(fsck_by_op, struct fsck, fscks, by_op)

/* fsck.c uses it, too, and ENGINE_FIND() makes a static function. */
struct fsck *
fsck_find(const struct lock_engine *engine, uint64_t op)
{
	return fsck_by_op(engine, op);
}

/* From each state, those that may be next. */
static const unsigned fsck_changes[] = {
    [FSCK_QUEUED] = 1U << FSCK_LOCKING,
    [FSCK_LOCKING] = 1U << FSCK_SCANNING,
    [FSCK_SCANNING] = 1U << FSCK_READING | 1U << FSCK_WORKING | 1U << FSCK_UNLOCKING,
    [FSCK_READING] = 1U << FSCK_WORKING | 1U << FSCK_UNLOCKING,
    [FSCK_WORKING] = 1U << FSCK_WORKING | 1U << FSCK_SCANNING | 1U << FSCK_UNLOCKING,
    [FSCK_UNLOCKING] = 1U << FSCK_RESTING,
    [FSCK_RESTING] = 1U << FSCK_LOCKING,
};

void
fsck_set_state(struct fsck *fsck, enum fsck_state state)
{
	assert((fsck_changes[fsck->state] & 1U << state) != 0);
	fsck->state = state;
}

/* ---- the outcome ---- */

void
fsck_set_outcome(struct fsck *fsck, enum reason reason, const char *text)
{
	fsck->outcome = reason;
	snprintf(fsck->text, sizeof(fsck->text), "%s", text != NULL ? text : "");
}

void
fsck_tell_outcome(struct lock_engine *engine, struct fsck *fsck)
{
	struct lock_answer answer = engine_refusal(fsck->outcome, NULL);
	struct fsck_findings *findings = &fsck->findings;

	if (fsck->text[0] != '\0')
		answer.text = fsck->text;
	answer.name = fsck->name;
	if (fsck->outcome == REASON_NONE) {
		if (fsck->left != NULL)
			fsck_findings_converted(
			    findings, &fsck->seen, fsck->convert, fsck->left, fsck->left_count);
		answer.slots = full_scan_size(&fsck->seen.full_scan);
		answer.claim = full_scan_claim(&fsck->seen.full_scan);
		answer.converted = fsck->converted;
		answer.findings = findings->list;
		answer.finding_count = findings->count;
	}
	engine_op_end(engine, fsck->op, &answer);
}

void
fsck_unlock(struct lock_engine *engine, struct fsck *fsck, enum reason reason, const char *text)
{
	if (!fsck->is_cancelled)
		fsck_set_outcome(fsck, reason, text);
	fsck_set_state(fsck, FSCK_UNLOCKING);
	/*
	 * RabbitMQ does not read the delete before the alarm is over. The client need not wait for
	 * that.
	 */
	if (reason == REASON_BROKER_BLOCKED)
		fsck_tell_outcome(engine, fsck);
	mutex_drop(engine, fsck->op);
}

/* ---- the work ---- */

void
fsck_work_new(struct lock_engine *engine, struct fsck *fsck,
    enum work_verdict (*judge)(struct lock_engine *engine, struct work *work,
	const struct work_request *request, const struct broker_reply *reply),
    fsck_step *next)
{
	work_clear(engine, &fsck->work);
	fsck->work.judge = judge;
	fsck->next = next;
	fsck_set_state(fsck, FSCK_WORKING);
}

void
fsck_work_ended(struct lock_engine *engine, struct work *work, enum reason reason, const char *text)
{
	struct fsck *fsck = fsck_find(engine, work->op);

	if (reason != REASON_NONE)
		fsck_unlock(engine, fsck, reason, text);
	else
		fsck->next(engine, fsck);
}

/* Before the repair nothing was changed, after it all was. */
void
fsck_unlock_unknown(struct lock_engine *engine, struct fsck *fsck, const char *of_what)
{
	char text[sizeof(fsck->text)];
	struct lock_answer unknown;

	if (fsck->scans == 1)
		snprintf(text, sizeof(text),
		    "the broker did not say whether %s; nothing was changed", of_what);
	else
		snprintf(text, sizeof(text),
		    "it was repaired; after that the broker did not say whether %s", of_what);
	unknown = engine_refusal_unknown(engine, text);
	fsck_unlock(engine, fsck, unknown.reason, unknown.text);
}

/* 2. Slots by quorum. */

/* ---- the slots that were seen ---- */

void
fsck_quorum_done(struct fsck_quorum *quorum)
{
	free(quorum->slots);
	*quorum = (struct fsck_quorum){.gate = false};
}

/*
 * Whether the last slot was removed: its queue stays until its holder has left. Of a slot that is held only
 * the record tells.
 */
static bool
fsck_quorum_is_removed(const struct fsck_quorum *quorum, int number)
{
	const struct fsck_slot *slot = &quorum->slots[number - 1];

	if (quorum->record.epoch > 0 && number <= (int)quorum->record.size)
		return false;
	return slot->removed || (quorum->record.epoch > 0 && slot->answer == BROKER_LOCKED);
}

/* The slots without a gap, without removed ones at the end. */
static int
fsck_quorum_counted(const struct fsck_quorum *quorum)
{
	int counted = quorum->counted;

	while (counted > 0 && fsck_quorum_is_removed(quorum, counted))
		counted--;
	return counted;
}

/* The number of slots that should be there. */
static int
fsck_quorum_size(const struct fsck_quorum *quorum)
{
	int size = quorum->record.epoch > 0 ? (int)quorum->record.size : 0;
	int counted = fsck_quorum_counted(quorum);

	return size > counted ? size : counted;
}

static int
fsck_quorum_highest(const struct fsck_quorum *quorum)
{
	int slot = quorum->asked;

	while (slot > 0 && !quorum->slots[slot - 1].exists)
		slot--;
	return slot;
}

/* NULL: it was not asked for, so it does not exist. */
static const struct fsck_slot *
fsck_quorum_slot(const struct fsck_quorum *quorum, int slot)
{
	return slot <= quorum->asked ? &quorum->slots[slot - 1] : NULL;
}

/* It is deleted first: its queue is none that this way makes, or the slot should not be there. */
static bool
is_cleared(const struct fsck_quorum *quorum, int number)
{
	const struct fsck_slot *slot = fsck_quorum_slot(quorum, number);

	return slot != NULL && slot->exists &&
	       (number > fsck_quorum_size(quorum) ||
		   (slot->answer == BROKER_REFUSED && slot->code == BROKER_DIFFERS));
}

static bool
is_made(const struct fsck_quorum *quorum, int number)
{
	const struct fsck_slot *slot = fsck_quorum_slot(quorum, number);

	if (number > fsck_quorum_size(quorum))
		return false;
	if (slot == NULL || !slot->exists)
		return true;
	if (slot->answer == BROKER_REFUSED)
		return slot->code != BROKER_DIFFERS;
	return slot->answer == BROKER_OK && (slot->beads.found != BROKER_BEADS_SOUND ||
						slot->beads.foreign > 0 || slot->removed);
}

/* Whether each slot that should be there can be held. */
static bool
fsck_quorum_is_sound(const struct fsck_quorum *quorum)
{
	for (int number = 1; number <= fsck_quorum_size(quorum); number++) {
		const struct fsck_slot *slot = fsck_quorum_slot(quorum, number);

		if (is_made(quorum, number) || is_cleared(quorum, number) || slot->left ||
		    slot->answer == BROKER_UNREACHABLE)
			return false;
	}
	return true;
}

/* ---- the findings ---- */

static void
fsck_quorum_add_whole(struct fsck_findings *findings, const struct fsck_seen *seen,
    const struct fsck_quorum *quorum, bool has_as)
{
	const struct broker_record *record = &quorum->record;
	int size = fsck_quorum_size(quorum);
	bool exists = quorum->gate || size > 0;

	if (!quorum->gate && size > 0)
		fsck_findings_add(findings, LOCK_PROBLEM_MARKERS, 0,
		    mem_strdup("its gate is gone, so no program finds its slots"));
	else if (has_as)
		fsck_findings_add(findings, LOCK_PROBLEM_MARKERS, 0,
		    mem_strdup("it has slots that are held otherwise, so no program finds the "
			       "others"));
	fsck_findings_add_listing(findings, exists, seen->listed);
	if (record->epoch > 0 && fsck_quorum_counted(quorum) > (int)record->size)
		fsck_findings_add(findings, LOCK_PROBLEM_RECORD, 0,
		    mem_printf("its record says %u slots, but %d exist", record->size,
			fsck_quorum_counted(quorum)));
	else if (record->epoch > 0 && quorum->epoch > quorum->floor)
		fsck_findings_add(findings, LOCK_PROBLEM_RECORD, 0,
		    mem_strdup("the records are older than the messages of its slots"));
	if (record->epoch == 0 && size > 0)
		fsck_findings_add(findings, LOCK_PROBLEM_NO_RECORD, 0,
		    mem_strdup("the record of its slots is missing"));
	if (record->epoch > 0 && !exists)
		fsck_findings_add(findings, LOCK_PROBLEM_STALE_RECORD, 0,
		    mem_strdup("there is a record of it, but it does not exist"));
}

/* The messages of a slot. NULL: they are as they should be. The caller frees the text. */
static char *
beads_words(const struct broker_beads_seen *beads, enum lock_problem *ret_problem)
{
	*ret_problem = LOCK_PROBLEM_ODD_BEADS;
	switch (beads->found) {
	case BROKER_BEADS_SOUND:
		break;
	case BROKER_BEADS_BESIDE:
		return mem_strdup(
		    "it has older messages beside its own; the next claim removes them");
	case BROKER_BEADS_NONE:
		*ret_problem = LOCK_PROBLEM_NO_BEADS;
		return mem_strdup("its messages are gone, so nobody can hold it");
	case BROKER_BEADS_PART:
		*ret_problem = LOCK_PROBLEM_NO_BEADS;
		return mem_strdup("a part of its messages is gone, so nobody can hold it");
	case BROKER_BEADS_ODD:
		return mem_strdup("it has messages twice, or of other sets, so nobody can hold it");
	case BROKER_BEADS_TWO_SETS:
		*ret_problem = LOCK_PROBLEM_TWO_SETS;
		return mem_strdup(
		    "it has two sets of messages of one epoch, so nobody can hold it");
	case BROKER_BEADS_VERSION:
		*ret_problem = LOCK_PROBLEM_VERSION;
		return mem_printf(
		    "its messages are of RabbitMQ %u, so nobody can hold it", beads->major);
	}
	return NULL;
}

static char *
slot_words(const struct fsck_slot *slot, enum lock_problem *ret_problem)
{
	switch (slot->answer) {
	case BROKER_OK:
		return beads_words(&slot->beads, ret_problem);
	case BROKER_UNREACHABLE:
		*ret_problem = LOCK_PROBLEM_UNREACHABLE;
		return mem_strdup("no node leads its queue, so it is not known whether it is busy");
	case BROKER_REFUSED:
		if (slot->code != BROKER_DIFFERS) {
			*ret_problem = LOCK_PROBLEM_FOREIGN;
			return mem_strdup("its queue has more than 1000 messages");
		}
		*ret_problem =
		    slot->classic ? LOCK_PROBLEM_QUEUE_TYPE : LOCK_PROBLEM_QUEUE_ARGUMENTS;
		return mem_strdup(slot->classic
				      ? "its queue is no quorum queue, so nobody can hold it"
				      : "its queue was declared with other arguments");
	default: /* it is in use */
		return NULL;
	}
}

static void
fsck_quorum_add_slot(
    struct fsck_findings *findings, const struct fsck_slot *slot, int number, int size)
{
	enum lock_problem problem;
	char *text = slot_words(slot, &problem);

	if (text != NULL && slot->left && slot->answer != BROKER_UNREACHABLE) {
		char *whole = mem_printf("%s; it is in use now, so try again", text);

		free(text);
		text = whole;
	}
	if (text != NULL)
		fsck_findings_add(findings, problem, number, text);
	if (slot->answer == BROKER_OK && slot->removed && number <= size)
		fsck_findings_add(findings, LOCK_PROBLEM_ODD_BEADS, number,
		    mem_strdup("its removal was interrupted, so nobody can hold it"));
	if (slot->answer == BROKER_OK && slot->beads.foreign > 0)
		fsck_findings_add(findings, LOCK_PROBLEM_FOREIGN, number,
		    mem_printf(
			"%u message%s of other programs in its queue; the next claim removes "
			"%s",
			slot->beads.foreign, slot->beads.foreign == 1 ? " is" : "s are",
			slot->beads.foreign == 1 ? "it" : "them"));
}

bool
fsck_quorum_has_as(const struct fsck_seen *seen)
{
	const struct full_scan *full_scan = &seen->full_scan;

	return full_scan->slots > 0 && !full_scan_is_by_beads(full_scan_claim(full_scan));
}

/* Clients find these alone, and the slots by quorum are as if they did not exist. */
static void
fsck_quorum_add_a(struct fsck_findings *findings, const struct fsck_seen *seen, int number)
{
	fsck_findings_add(findings, LOCK_PROBLEM_CLAIM, number,
	    mem_printf("held by %s, beside the slots held by quorum%s",
		way_row(seen->ways[number - 1])->by_what,
		seen->b[number - 1] == BROKER_OK ? "; it is busy" : ""));
}

void
fsck_quorum_findings(struct fsck_findings *findings, const struct fsck_seen *seen,
    const struct fsck_quorum *quorum, bool tells_as)
{
	int size = fsck_quorum_size(quorum), highest = fsck_quorum_highest(quorum);
	int as = tells_as && fsck_quorum_has_as(seen) ? fsck_seen_highest(seen) : 0;

	fsck_quorum_add_whole(findings, seen, quorum, as > 0);
	if (highest < size)
		highest = size;
	for (int number = 1; number <= (highest > as ? highest : as); number++) {
		const struct fsck_slot *slot = fsck_quorum_slot(quorum, number);
		bool exists = slot != NULL && slot->exists;

		if (!exists && number <= highest)
			fsck_findings_add(findings, LOCK_PROBLEM_GAP, number,
			    mem_printf("slot %d is missing", number));
		if (exists && number > size)
			fsck_findings_add(findings, LOCK_PROBLEM_UNCOUNTED, number,
			    mem_strdup(number <= quorum->counted
					   ? "it was removed, and its queue is left"
					   : "above a missing slot, so it does not count"));
		if (number <= as && fsck_seen_slot(seen, number))
			fsck_quorum_add_a(findings, seen, number);
		if (exists)
			fsck_quorum_add_slot(findings, slot, number, size);
	}
}

bool
fsck_quorum_repairable(const struct fsck_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].problem != LOCK_PROBLEM_UNREACHABLE)
			return true;
	return false;
}

/* ---- the answers about slots ---- */

static enum work_want
fsck_quorum_wants(
    const struct lock_engine *engine, const struct work *work, enum work_kind kind, int number)
{
	const struct fsck_quorum *quorum = &fsck_find(engine, work->op)->quorum;
	const struct fsck_slot *slot = fsck_quorum_slot(quorum, number);

	switch (kind) {
	case WORK_LOOK_AT_BEADS:
		return slot->exists ? WORK_WANTED : WORK_UNWANTED;
	case WORK_CLEAR_BEADS:
		return !is_cleared(quorum, number) ? WORK_UNWANTED
		       : slot->classic             ? WORK_WANTED_CLASSIC
						   : WORK_WANTED;
	default:
		return is_made(quorum, number) ? WORK_WANTED : WORK_UNWANTED;
	}
}

static bool
fsck_quorum_saw_look(struct fsck *fsck, struct fsck_slot *slot, const struct broker_reply *reply)
{
	if (reply->answer == BROKER_UNKNOWN ||
	    (reply->answer == BROKER_REFUSED && reply->code != 0 && reply->code != BROKER_DIFFERS))
		return false;
	/* A slot that the repair left is in use since then. */
	if (slot->left && reply->answer == BROKER_LOCKED)
		return true;
	/* If it looks busy next, a mark of this look is there. */
	slot->left = reply->answer == BROKER_UNREACHABLE;
	slot->answer = reply->answer;
	slot->code = reply->code;
	slot->removed = reply->removed;
	/* RabbitMQ compares these before the arguments that only quorum queues have. */
	slot->classic = strstr(reply->text, "'x-queue-type'") != NULL ||
			strstr(reply->text, "'durable'") != NULL ||
			strstr(reply->text, "'auto_delete'") != NULL;
	slot->beads = reply->beads != NULL ? *reply->beads : (struct broker_beads_seen){0};
	if (slot->beads.epoch > fsck->quorum.epoch)
		fsck->quorum.epoch = slot->beads.epoch;
	if (slot->beads.grace > fsck->quorum.grace)
		fsck->quorum.grace = slot->beads.grace;
	return true;
}

static bool
fsck_quorum_saw(struct lock_engine *engine, struct work *work, enum work_kind kind, int number,
    const struct broker_reply *reply)
{
	struct fsck *fsck = fsck_find(engine, work->op);
	struct fsck_slot *slot =
	    number <= fsck->quorum.asked ? &fsck->quorum.slots[number - 1] : NULL;
	bool done = reply->answer == BROKER_OK ||
		    (kind == WORK_CLEAR_BEADS && reply->answer == BROKER_ABSENT);

	if (kind == WORK_LOOK_AT_BEADS)
		return fsck_quorum_saw_look(fsck, slot, reply);
	if (slot != NULL)
		slot->left = !done;
	if (!done)
		return reply->answer != BROKER_REFUSED || reply->code == 0;
	if (kind == WORK_CLEAR_BEADS) {
		work_saw_fence(work, reply->fence);
		slot->exists = false;
	}
	return true;
}

/* The words of a failure that ends the fsck. AGAIN: the request was not performed. */
static enum work_verdict
fsck_quorum_fail(
    const struct lock_engine *engine, struct work *work, const struct broker_reply *reply)
{
	switch (reply->answer) {
	case BROKER_LOCKED:
		return work_fail(work, REASON_WOULD_BLOCK, reply->text);
	case BROKER_REFUSED:
		return work_fail(work, REASON_BROKER_REFUSED, reply->text);
	case BROKER_UNREACHABLE:
		return work_fail(work, REASON_BROKER_UNAVAILABLE, reply->text);
	default:
		if (strcmp(reply->text, BROKER_ALARM_WORDS) == 0)
			return work_fail(work, REASON_BROKER_BLOCKED, reply->text);
		return work_again(engine, work);
	}
}

/* ---- slots with As ---- */

/*
 * Adds the requests that delete all As to the work, from the highest down. Each slot is claimed first. One
 * that is held stays, and with it those below.
 */
static void
fsck_quorum_add_as(struct fsck *fsck)
{
	struct work *work = &fsck->work;
	bool first = true;

	for (int slot = fsck_seen_highest(&fsck->seen); slot > 0; slot--) {
		struct work_request *request;

		if (!fsck_seen_slot(&fsck->seen, slot))
			continue;
		FAULT(A_DELETED_UNCLAIMED, work_add(work, WORK_DELETE_SLOT, slot); continue;);
		/* A consume that finds no B is refused, and its client claims as below. */
		if (way_is_durable(fsck->seen.ways[slot - 1])) {
			work_add(work, WORK_DELETE_HOLDER, slot)->depends = !first;
			first = false;
		}
		work_add(work, WORK_CLAIM_HOLDER, slot)->depends = !first;
		first = false;
		/* In one flight: a refused claim closes the channel, and the rest is not performed. */
		request = work_add(work, WORK_DELETE_SLOT, slot);
		request->depends = request->flows = true;
		request = work_add(work, WORK_DROP_HOLDER, slot);
		request->depends = request->flows = true;
	}
}

/* A is gone, or stays because another connection has it, or a permission is missing. */
static enum work_verdict
judge_a(struct fsck *fsck, const struct work_request *request, const struct broker_reply *reply)
{
	fsck->stuck = reply->answer;
	if (reply->answer != BROKER_OK) {
		snprintf(fsck->text, sizeof(fsck->text), "%s", reply->text);
		return WORK_DONE; /* B must be dropped all the same */
	}
	fsck->converted +=
	    fsck->convert != LOCK_CLAIM_UNKNOWN && request->slot <= fsck->seen.full_scan.slots;
	fsck->rest = 0;
	fsck->changed = true;
	return WORK_DONE;
}

static enum work_verdict
judge_dropped(struct fsck *fsck, struct work *work)
{
	enum broker_answer stuck = fsck->stuck;

	fsck->claimed = 0;
	fsck->stuck = BROKER_OK;
	if (stuck == BROKER_OK)
		return WORK_DONE;
	return stuck == BROKER_LOCKED ? WORK_LEFT
				      : work_fail(work, REASON_BROKER_REFUSED, fsck->text);
}

static enum work_verdict
judge_as(struct lock_engine *engine, struct fsck *fsck, const struct work_request *request,
    const struct broker_reply *reply)
{
	struct work *work = &fsck->work;

	/* After an answer that did not come, B is perhaps claimed. */
	if (request->kind == WORK_CLAIM_HOLDER &&
	    (reply->answer == BROKER_OK || reply->answer == BROKER_UNKNOWN))
		fsck->claimed = request->slot;
	if (reply->answer == BROKER_SKIPPED || reply->answer == BROKER_UNKNOWN)
		return work_again(engine, work);
	if (request->kind == WORK_DELETE_SLOT)
		return judge_a(fsck, request, reply);
	if (reply->answer == BROKER_REFUSED)
		return work_fail(work, REASON_BROKER_REFUSED, reply->text);
	if (request->kind == WORK_DROP_HOLDER)
		return judge_dropped(fsck, work);
	return reply->answer == BROKER_OK || reply->answer == BROKER_ABSENT ? WORK_DONE : WORK_LEFT;
}

enum work_verdict
fsck_quorum_judge(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_reply *reply)
{
	switch (request->kind) {
	case WORK_DELETE_HOLDER:
	case WORK_CLAIM_HOLDER:
	case WORK_DELETE_SLOT:
	case WORK_DROP_HOLDER:
		return judge_as(engine, fsck_find(engine, work->op), request, reply);
	default:
		break;
	}
	if (reply->answer == BROKER_OK || reply->answer == BROKER_ABSENT)
		return WORK_DONE;
	return fsck_quorum_fail(engine, work, reply);
}

/* ---- the repair ---- */

/* The first slot that is made, or deleted and made; 0: none is. */
static int
first_made(const struct fsck_quorum *quorum)
{
	for (int number = 1; number <= fsck_quorum_size(quorum); number++)
		if (is_made(quorum, number) || is_cleared(quorum, number))
			return number;
	return 0;
}

static bool
has_cleared(const struct fsck_quorum *quorum)
{
	for (int number = 1; number <= quorum->asked; number++)
		if (is_cleared(quorum, number))
			return true;
	return false;
}

/* A slot that was not looked into, with a T that is not known. */
static bool
has_unseen(const struct fsck_quorum *quorum)
{
	for (int i = 0; i < quorum->asked; i++)
		if (quorum->slots[i].exists && quorum->slots[i].answer != BROKER_OK)
			return true;
	return false;
}

void
fsck_quorum_repair(struct lock_engine *engine, struct fsck *fsck, fsck_step *then)
{
	const struct fsck_quorum *quorum = &fsck->quorum;
	struct work *work = &fsck->work;
	int size = fsck_quorum_size(quorum), first = first_made(quorum);
	bool exists = quorum->gate || size > 0, has_record = quorum->record.epoch > 0;

	fsck_work_new(engine, fsck, fsck_quorum_judge, then);
	work->beads = (struct broker_beads){.repairs = true};
	/* The sets keep the T that they had. */
	if (!has_record)
		work->beads.grace = quorum->grace;
	work->grace_seen = !has_record && has_unseen(quorum) ? BEAD_GRACE_MOST : quorum->grace;
	work->epoch_below = quorum->epoch + 1;
	/* Slots that are deleted, and not made again, are missing then. */
	if (exists && has_record)
		work_add(work, WORK_RECORD, size);
	if (has_cleared(quorum))
		work_add(work, WORK_CLEAR_BEADS, 1)->last = quorum->asked;
	if (first > 0) {
		work_add(work, WORK_RESERVE_EPOCH, 0)->last = first;
		work_add(work, WORK_MAKE_BEADS, 1)->last = size;
	}
	/* At last, as without a record the next fsck waits for the longest T. */
	if (exists && !has_record && size > 0)
		work_add(work, WORK_RECORD, size);
	else if (!exists)
		work_add(work, WORK_RECORD, -1);
	if (exists && !quorum->gate)
		work_add(work, WORK_DECLARE_GATE, 0);
	if (exists != fsck->seen.listed)
		work_add(work, exists ? WORK_ENTER : WORK_LEAVE, 0);
	work_start(engine, work);
}

void
fsck_quorum_tell(struct lock_engine *engine, const struct fsck *fsck)
{
	if (fsck->changed)
		hint_changed(engine, fsck->name, 0, full_scan_size(&fsck->seen.full_scan));
	else if (fsck->quorum.is_meant && !fsck->waiting)
		hint_changed(engine, fsck->name, 0, fsck_quorum_size(&fsck->quorum));
}

/* ---- the scan ---- */

bool
fsck_quorum_may_be(const struct lock_engine *engine, const struct fsck_seen *seen)
{
	return queue_naming_has_quorum(engine->settings.naming) && !seen->full_scan.unlimited;
}

/* The slots of the scan are held so. Else it has seen As, a gate, or nothing. */
static bool
fsck_quorum_is_certain(const struct fsck *fsck)
{
	return fsck->seen.full_scan.slots > 0 && !fsck_quorum_has_as(&fsck->seen);
}

/*
 * Beside As, such slots are meant if the first one is there, or the record counts them. A record alone is left
 * from a conversion to As (fsck_quorum.h).
 */
static bool
fsck_quorum_are_meant(const struct fsck *fsck)
{
	const struct fsck_quorum *quorum = &fsck->quorum;
	bool has_record = quorum->record.epoch > 0;

	if (fsck_quorum_has_as(&fsck->seen))
		return quorum->counted > 0 || (has_record && fsck_quorum_highest(quorum) > 0);
	return fsck_quorum_is_certain(fsck) || fsck_quorum_highest(quorum) > 0 || has_record;
}

static void
fsck_quorum_look(struct lock_engine *engine, struct fsck *fsck)
{
	struct fsck_quorum *quorum = &fsck->quorum;

	while (quorum->counted < quorum->asked && quorum->slots[quorum->counted].exists)
		quorum->counted++;
	quorum->is_meant = fsck_quorum_are_meant(fsck);
	if (!quorum->is_meant) {
		quorum->then(engine, fsck);
		return;
	}
	fsck_work_new(engine, fsck, fsck_quorum_judge, quorum->then);
	fsck->work.wants = fsck_quorum_wants;
	fsck->work.saw = fsck_quorum_saw;
	work_add(&fsck->work, WORK_LOOK_AT_BEADS, 1)->last = quorum->asked;
	work_start(engine, &fsck->work);
}

/*
 * The last slot to ask for: some above all that are, or should be. Each that is missing costs a channel.
 */
static int
fsck_quorum_last_to_ask(const struct lock_engine *engine, const struct fsck *fsck, int highest)
{
	const struct broker_record *record = &fsck->quorum.record;
	int last = highest, most = engine->settings.slots_most;

	if (record->epoch > 0 && last < (int)record->size)
		last = (int)record->size;
	last += last > 0 || fsck_quorum_is_certain(fsck) ||
			(fsck->quorum.has_records && !fsck_quorum_has_as(&fsck->seen))
		    ? FULL_SCAN_ABOVE
		    : 1;
	return last < most ? last : most;
}

static void fsck_quorum_ask(struct lock_engine *engine, struct fsck *fsck);

static void
fsck_quorum_on_asked(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);
	struct fsck_quorum *quorum;
	char what[32];

	if (fsck == NULL || fsck->state != FSCK_WORKING || !mutex_is_held(engine, id))
		return;
	quorum = &fsck->quorum;
	engine_op_progress(engine, engine_op_find(engine, id));
	for (size_t i = 0; i < seen->count; i++) {
		if (seen->answers[i] == BROKER_UNKNOWN) {
			snprintf(what, sizeof(what), "slot %d exists", quorum->asked + 1);
			fsck_unlock_unknown(engine, fsck, what);
			return;
		}
		quorum->slots[quorum->asked++].exists = seen->answers[i] != BROKER_ABSENT;
	}
	fsck_quorum_ask(engine, fsck);
}

/* Asks which slots exist, window by window. */
static void
fsck_quorum_ask(struct lock_engine *engine, struct fsck *fsck)
{
	struct fsck_quorum *quorum = &fsck->quorum;
	int last = fsck_quorum_last_to_ask(engine, fsck, fsck_quorum_highest(quorum));
	struct probe_batch batch = {.count = 0};

	if (last <= quorum->asked) {
		fsck_quorum_look(engine, fsck);
		return;
	}
	if (last > quorum->asked + BROKER_PROBE_MAX)
		last = quorum->asked + BROKER_PROBE_MAX;
	if (last > quorum->room)
		quorum->slots = mem_grow(quorum->slots, (size_t)last, sizeof(*quorum->slots));
	for (int number = quorum->asked + 1; number <= last; number++) {
		if (number > quorum->room || !quorum->slots[number - 1].left)
			quorum->slots[number - 1] = (struct fsck_slot){.exists = false};
		probe_add(&batch, queue_name_quorum(fsck->name, number), BROKER_ASK_BEADS);
	}
	if (last > quorum->room)
		quorum->room = last;
	probe_send(engine, &batch, fsck_quorum_on_asked, fsck->op);
}

/* A daemon that may not read the records has made no such slots, so that it may still check others. */
static enum work_verdict
judge_record(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_reply *reply)
{
	struct fsck *fsck = fsck_find(engine, work->op);

	(void)request;
	fsck->quorum.has_records = reply->answer == BROKER_OK;
	if (reply->answer == BROKER_OK || reply->answer == BROKER_ABSENT)
		return WORK_DONE;
	if (!fsck_quorum_is_certain(fsck) &&
	    (reply->answer == BROKER_REFUSED || reply->text[0] == '\0'))
		return WORK_DONE;
	return fsck_quorum_fail(engine, work, reply);
}

static void
fsck_quorum_read_record(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->quorum.record = fsck->work.record;
	fsck->quorum.floor = fsck->work.floor;
	fsck_quorum_ask(engine, fsck);
}

void
fsck_quorum_examine(struct lock_engine *engine, struct fsck *fsck, fsck_step *then)
{
	struct fsck_quorum *quorum = &fsck->quorum;

	quorum->then = then;
	quorum->gate = fsck->seen.full_scan.gate;
	quorum->asked = quorum->counted = 0;
	quorum->epoch = 0;
	quorum->grace = 0;
	fsck_work_new(engine, fsck, judge_record, fsck_quorum_read_record);
	fsck->work.record = (struct broker_record){.epoch = 0};
	fsck->work.floor = 0;
	work_add(&fsck->work, WORK_READ_RECORD, 0);
	work_start(engine, &fsck->work);
}

/* 3. Conversions to and from slots by quorum. */

/* ---- to quorum ---- */

void
fsck_convert_to_quorum(struct lock_engine *engine, struct fsck *fsck, fsck_step *then)
{
	const struct full_scan *full_scan = &fsck->seen.full_scan;
	bool makes = !fsck->waiting && !fsck->quorum.is_meant;
	const char *nonsense = makes ? admin_quorum_nonsense(engine) : NULL;
	struct work *work = &fsck->work;

	if (!fsck_quorum_has_as(&fsck->seen)) {
		then(engine, fsck);
		return;
	}
	if (nonsense != NULL || full_scan->unlimited) {
		fsck_unlock(engine, fsck,
		    nonsense != NULL ? REASON_BROKER_REFUSED : REASON_INVALID_PARAMS,
		    nonsense != NULL ? nonsense
				     : "it is unlimited; resize it before it is held by quorum");
		return;
	}
	/*
	 * Somebody changed it meanwhile, and perhaps there are no slots by quorum any more. Or they cannot be
	 * held: while there are As, the semaphore can be used.
	 */
	if (fsck->waiting ? !full_scan->beside
			  : fsck->quorum.is_meant && !fsck_quorum_is_sound(&fsck->quorum)) {
		fsck->wait = 0;
		then(engine, fsck);
		return;
	}
	fsck_work_new(engine, fsck, fsck_quorum_judge, then);
	if (makes) {
		work->wants = NULL;
		work->saw = NULL;
		work->beads = (struct broker_beads){.grace = fsck->takeover_grace};
		work->grace_seen = 0;
		work_add(work, WORK_RECORD, full_scan->slots)->last = 1;
		work_add(work, WORK_MAKE_BEADS, 1)->last = full_scan->slots;
	}
	FAULT(GATE_AFTER_AS, fsck_quorum_add_as(fsck));
	if (!full_scan->gate)
		work_add(work, WORK_DECLARE_GATE, 0);
	fsck_quorum_add_as(fsck);
	work_start(engine, work);
}

/* ---- to As ---- */

bool
fsck_convert_is_from_quorum(const struct fsck *fsck)
{
	const struct full_scan *full_scan = &fsck->seen.full_scan;

	return full_scan_is_by_beads(full_scan_claim(full_scan)) || full_scan->beside ||
	       (!fsck->waiting && fsck->quorum.is_meant);
}

static void
fsck_convert_add_as(struct work *work, enum lock_claim claim, int first, int last)
{
	bool durable = full_scan_way(claim)->make != NULL;

	for (int slot = first; slot <= last; slot++) {
		if (durable)
			work_add(work, WORK_MAKE_HOLDER, slot)->flows = slot > first;
		work_add(work, WORK_DECLARE_SLOT, slot)->flows = durable || slot > first;
	}
}

/* All slots by quorum are gone, and the work has their record. */
static void
fsck_convert_declare_as(struct lock_engine *engine, struct fsck *fsck)
{
	struct work *work = &fsck->work;
	int size = work->record.epoch > 0 ? (int)work->record.size : fsck->whole;
	int as = fsck_quorum_has_as(&fsck->seen) ? fsck->seen.full_scan.slots : 0;

	if (size == 0) {
		fsck->after(engine, fsck);
		return;
	}
	fsck_work_new(engine, fsck, fsck_quorum_judge, fsck->after);
	/* Each of them was claimed, so nobody has to be waited for. */
	work->counted = size;
	FAULT(RECORD_BEFORE_AS, work_add(work, WORK_RECORD, -1));
	fsck_convert_add_as(work, fsck->convert, as + 1, size);
	work_add(work, WORK_RECORD, -1);
	work_add(work, WORK_DELETE_GATE, 0);
	fsck->changed = true;
	work_start(engine, work);
}

static void
fsck_convert_read_record(struct lock_engine *engine, struct fsck *fsck)
{
	if (fsck->quorum_left > 0) {
		fsck->after(engine, fsck);
		return;
	}
	fsck_work_new(engine, fsck, fsck_quorum_judge, fsck_convert_declare_as);
	fsck->work.record = (struct broker_record){.epoch = 0};
	work_add(&fsck->work, WORK_READ_RECORD, 0);
	work_start(engine, &fsck->work);
}

static enum work_verdict
judge_cleared(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_reply *reply)
{
	struct fsck *fsck = fsck_find(engine, work->op);

	if (request->kind != WORK_CONVERT_BEADS)
		return fsck_quorum_judge(engine, work, request, reply);
	switch (reply->answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
		work_saw_fence(work, reply->fence);
		fsck->quorum_left = request->slot - 1;
		fsck->converted++;
		fsck->changed = true;
		fsck->rest = 0;
		return WORK_DONE;
	case BROKER_LOCKED:
	case BROKER_UNREACHABLE:
		return WORK_LEFT;
	default:
		return fsck_quorum_judge(engine, work, request, reply);
	}
}

void
fsck_convert_from_quorum(struct lock_engine *engine, struct fsck *fsck, fsck_step *then)
{
	const struct full_scan *full_scan = &fsck->seen.full_scan;
	struct work *work = &fsck->work;

	if (full_scan_is_by_beads(full_scan_claim(full_scan)))
		fsck->quorum_left = full_scan->slots;
	else if (!fsck->waiting)
		fsck->quorum_left = fsck->quorum.counted;
	if (!fsck->waiting)
		fsck->whole = fsck->quorum_left;
	/* A holder may believe in a slot that is missing, and was not claimed. */
	if (!fsck->waiting && fsck->whole < fsck_quorum_size(&fsck->quorum)) {
		fsck->wait = 0;
		then(engine, fsck);
		return;
	}
	fsck->after = then;
	fsck_work_new(engine, fsck, judge_cleared, fsck_convert_read_record);
	work->wants = NULL;
	work->saw = NULL;
	if (!full_scan->gate)
		work_add(work, WORK_DECLARE_GATE, 0);
	for (int slot = fsck->quorum_left; slot > 0; slot--) {
		struct work_request *request = work_add(work, WORK_CONVERT_BEADS, slot);

		request->last = slot;
		request->depends = slot < fsck->quorum_left;
	}
	work_start(engine, work);
}

/* ---- a record that is left ---- */

bool
fsck_convert_is_record_left(const struct fsck *fsck)
{
	return fsck_quorum_has_as(&fsck->seen) && !fsck->quorum.is_meant &&
	       fsck->quorum.record.epoch > 0;
}

void
fsck_convert_add_record_left(struct fsck *fsck)
{
	const struct full_scan *full_scan = &fsck->seen.full_scan;
	int size = (int)fsck->quorum.record.size;

	fsck->work.counted = 0;
	if (full_scan->gate) {
		fsck_convert_add_as(
		    &fsck->work, fsck_seen_claim(&fsck->seen, 1), full_scan->slots + 1, size);
		fsck->work.counted = size;
	}
	work_add(&fsck->work, WORK_RECORD, -1);
}
