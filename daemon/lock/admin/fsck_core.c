#include "daemon/lock/admin/fsck_core.h"

#include <assert.h>
#include <stdio.h>

#include "daemon/lock/core/mutex.h"

/* ---- the state ---- */

ENGINE_FIND(find, struct fsck, fscks, by_op)

struct fsck *
fsck_find(const struct lock_engine *engine, uint64_t op)
{
	return find(engine, op);
}

/* From each state, those that may be next. */
static const unsigned changes[] = {
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
	assert((changes[fsck->state] & 1U << state) != 0);
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
