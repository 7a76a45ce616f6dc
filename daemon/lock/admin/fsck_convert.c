#include "daemon/lock/admin/fsck_convert.h"

#include "daemon/base/fault.h"
#include "daemon/lock/admin/admin.h"

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
add_as(struct work *work, enum lock_claim claim, int first, int last)
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
declare_as(struct lock_engine *engine, struct fsck *fsck)
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
	add_as(work, fsck->convert, as + 1, size);
	work_add(work, WORK_RECORD, -1);
	work_add(work, WORK_DELETE_GATE, 0);
	fsck->changed = true;
	work_start(engine, work);
}

static void
read_record(struct lock_engine *engine, struct fsck *fsck)
{
	if (fsck->quorum_left > 0) {
		fsck->after(engine, fsck);
		return;
	}
	fsck_work_new(engine, fsck, fsck_quorum_judge, declare_as);
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
	fsck_work_new(engine, fsck, judge_cleared, read_record);
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
		add_as(&fsck->work, fsck_seen_claim(&fsck->seen, 1), full_scan->slots + 1, size);
		fsck->work.counted = size;
	}
	work_add(&fsck->work, WORK_RECORD, -1);
}
