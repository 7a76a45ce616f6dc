#include "daemon/lock/admin/fsck_state.h"

#include <assert.h>
#include <stdio.h>

#include "daemon/lock/core/mutex.h"

#define REPAIRING                                                                                  \
	(1U << FSCK_CLEARING | 1U << FSCK_ASKING | 1U << FSCK_RENEWING | 1U << FSCK_OPENING |      \
	    1U << FSCK_LISTING | 1U << FSCK_SCANNING | 1U << FSCK_UNLOCKING)

/* From each state, those that may be next. */
static const unsigned changes[] = {
    [FSCK_QUEUED] = 1U << FSCK_LOCKING,
    [FSCK_LOCKING] = 1U << FSCK_SCANNING,
    [FSCK_SCANNING] = 1U << FSCK_READING | 1U << FSCK_CONVERTING | 1U << FSCK_UNLOCKING,
    [FSCK_READING] = 1U << FSCK_DECLARING | 1U << FSCK_UNLOCKING,
    [FSCK_DECLARING] = 1U << FSCK_DELETING | 1U << FSCK_CONVERTING | 1U << FSCK_UNLOCKING,
    [FSCK_DELETING] = REPAIRING,
    [FSCK_CLEARING] = REPAIRING,
    [FSCK_ASKING] = REPAIRING,
    [FSCK_RENEWING] = REPAIRING,
    [FSCK_OPENING] = 1U << FSCK_LISTING | 1U << FSCK_SCANNING | 1U << FSCK_UNLOCKING,
    [FSCK_LISTING] = 1U << FSCK_SCANNING | 1U << FSCK_UNLOCKING,
    [FSCK_CONVERTING] = 1U << FSCK_UNLOCKING,
    [FSCK_UNLOCKING] = 1U << FSCK_RESTING,
    [FSCK_RESTING] = 1U << FSCK_LOCKING,
};

void
fsck_set_state(struct fsck *fsck, enum fsck_state state)
{
	assert((changes[fsck->state] & 1U << state) != 0 && fsck->unanswered == 0);
	fsck->state = state;
}

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
	fsck->unanswered = 0; /* later answers have no effect */
	fsck_set_state(fsck, FSCK_UNLOCKING);
	/*
	 * RabbitMQ does not read the delete before the alarm is over. The client need not wait for
	 * that.
	 */
	if (reason == REASON_BROKER_BLOCKED)
		fsck_tell_outcome(engine, fsck);
	mutex_drop(engine, fsck->op);
}

bool
fsck_link_has_died(const struct lock_engine *engine, enum broker_answer answer)
{
	return answer == BROKER_UNKNOWN && !broker_auxiliary_is_up(engine->broker);
}

bool
fsck_take_reply(struct lock_engine *engine, struct fsck *fsck, enum fsck_state state,
    const struct broker_reply *reply)
{
	if (fsck == NULL || fsck->state != state)
		return false;
	fsck->unanswered--;
	if (fsck_link_has_died(engine, reply->answer))
		return false;
	fsck->channel_gone |= !reply->channel_open;
	if (fsck->unanswered == 0 && fsck->channel_gone) {
		mutex_channel_gone(engine, fsck->op);
		fsck->channel_gone = false;
	}
	return true;
}

void
fsck_progress(struct lock_engine *engine, const struct fsck *fsck)
{
	engine_op_progress(engine, engine_op_find(engine, fsck->op));
}
