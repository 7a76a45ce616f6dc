#include "daemon/lock/fsck.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin.h"
#include "daemon/lock/fsck_quorum.h"
#include "daemon/lock/list.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/registry.h"
#include "protocol/duration.h"

/*
 * Contents:
 *	The repair: fsck_repair() lists the requests for all findings, and judge_repair() their answers.
 *	The conversion between the two ways with As: fsck_convert_ways() and judge_conversion().
 *	The examination: fsck_examine() asks how each queue was declared, and fsck_examined() takes the findings.
 *	fsck_scan() begins a pass: the full scan, the directory, then what follows.
 *	fsck_rest() waits for busy slots. fsck_stop_waiting() and fsck_cancel() end that.
 *	lock_fsck() is the request. fsck_begin() takes the mutex.
 */

/*
 * Maximum busy slots that a pass of a wait tries to convert. A refusal closes a channel. Each pass that converts
 * nothing tries half as many as the one before.
 */
#define TRIES_MOST 64

static void
fsck_free(struct lock_engine *engine, struct fsck *fsck)
{
	HASH_DELETE(by_op, engine->fscks, fsck);
	if (fsck->waiting)
		awaited_end(engine, &fsck->awaited);
	work_clear(engine, &fsck->work);
	free(fsck->left);
	fsck_seen_done(&fsck->seen);
	fsck_quorum_done(&fsck->quorum);
	fsck_findings_done(&fsck->findings);
	free(fsck->name);
	free(fsck);
}

static bool
not_performed(const struct broker_reply *reply)
{
	return reply->answer == BROKER_SKIPPED || reply->answer == BROKER_UNKNOWN;
}

/* The answer now: the findings, repaired or not. */
static void
fsck_report(struct lock_engine *engine, struct fsck *fsck)
{
	bool exists = full_scan_exists(&fsck->seen.full_scan);

	fsck_quorum_tell(engine, fsck);
	fsck_unlock(engine, fsck,
	    exists || fsck->findings.count > 0 ? REASON_NONE : REASON_NO_SUCH_LOCK, NULL);
}

static void fsck_scan(struct lock_engine *engine, struct fsck *fsck);

/* ---- repair ---- */

/*
 * A transient slot is deleted and declared, if it is free. A scan meanwhile sees a gap. Both requests
 * therefore go out together, and the gap lasts only from one method to the next on one channel.
 */
static void
fsck_renew_slot(struct fsck *fsck, int slot)
{
	struct work_request *declare;

	work_add(&fsck->work, WORK_ASK_HOLDER, slot);
	work_add(&fsck->work, WORK_DELETE_SLOT, slot)->depends = true;
	declare = work_add(&fsck->work, WORK_DECLARE_SLOT, slot);
	declare->depends = declare->flows = true;
}

/*
 * A durable B above the slots that count, or one with other arguments. The latter can look busy for
 * ever. A scan sees it as a slot that is held by queue until it is declared.
 */
static void
clear_holder(struct fsck *fsck, int slot)
{
	work_add(&fsck->work, WORK_DELETE_HOLDER, slot);
	FAULT(HOLDER_NOT_REMADE, return;);
	if (fsck->seen.odd[slot - 1] && slot <= fsck->seen.full_scan.slots)
		work_add(&fsck->work, WORK_MAKE_HOLDER, slot)->depends = true;
}

/* A queue that could not be deleted stays. The scan after the repair finds it again. */
static enum work_verdict
judge_repair(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_reply *reply)
{
	bool gone = reply->answer == BROKER_OK || reply->answer == BROKER_ABSENT;
	bool deletes = request->kind == WORK_DELETE_UNCOUNTED || request->kind == WORK_DELETE_GATE;

	if (reply->answer == BROKER_REFUSED || (deletes && reply->answer == BROKER_UNREACHABLE))
		return work_fail(work, REASON_BROKER_REFUSED, reply->text);
	switch (request->kind) {
	case WORK_ASK_HOLDER: /* busy, or unknown: it stays as it is */
		if (reply->answer == BROKER_ABSENT &&
		    !registry_is_reserved(engine, work->name, LOCK_KIND_SEMAPHORE, request->slot))
			return WORK_DONE;
		FAULT(BUSY_SLOT_RENEWED, return WORK_DONE);
		return WORK_LEFT;
	case WORK_DELETE_SLOT:
		/* Unknown: perhaps deleted, so it is declared in any case. */
		return reply->answer == BROKER_SKIPPED || reply->answer == BROKER_LOCKED
			   ? WORK_LEFT
			   : WORK_DONE;
	case WORK_DELETE_HOLDER:
		return not_performed(reply) ? work_again(engine, work)
		       : gone               ? WORK_DONE
					    : WORK_LEFT;
	case WORK_RECORD:
		return fsck_quorum_judge(engine, work, request, reply);
	default:
		return not_performed(reply) ? work_again(engine, work) : WORK_DONE;
	}
}

/* Repairs all findings that can be repaired. The way that slots are held stays. */
static void
fsck_repair(struct lock_engine *engine, struct fsck *fsck)
{
	const struct full_scan *full_scan = &fsck->seen.full_scan;
	bool exists = full_scan_exists(full_scan); /* uncounted slots never counted */

	fsck_work_new(engine, fsck, judge_repair, fsck_scan);
	for (int slot = fsck_seen_highest(&fsck->seen); slot > full_scan->slots; slot--) {
		FAULT_IF(FSCK_FILLS_GAP, fsck_seen_slot(&fsck->seen, slot),
			 work_add(&fsck->work, WORK_DECLARE_SLOT, full_scan->slots + 1);
			 continue);
		if (fsck_seen_slot(&fsck->seen, slot))
			work_add(&fsck->work, WORK_DELETE_UNCOUNTED, slot);
	}
	for (int slot = 1; slot <= full_scan->seen; slot++) {
		if (fsck_seen_leftover(&fsck->seen, slot) || fsck->seen.odd[slot - 1])
			clear_holder(fsck, slot);
	}
	for (int slot = 1; slot <= full_scan->slots; slot++) {
		if (fsck->seen.make[slot - 1] == FSCK_MAKE_TRANSIENT)
			fsck_renew_slot(fsck, slot);
	}
	if (fsck_convert_is_record_left(fsck))
		fsck_convert_add_record_left(fsck);
	/* A gate has no effect beside slots, or beside N-U. */
	if (FAULT_ELSE(GATE_LEFT, false, full_scan->gate) &&
	    (full_scan->unlimited || full_scan->slots > 0))
		work_add(&fsck->work, WORK_DELETE_GATE, 0);
	FAULT(REPAIRED_NOT_LISTED, exists = fsck->seen.listed);
	if (exists != fsck->seen.listed)
		work_add(&fsck->work, exists ? WORK_ENTER : WORK_LEAVE, 0);
	work_start(engine, &fsck->work);
}

/*
 * ---- conversion ---- Claims of both ways go on meanwhile, and no slot gets two holders. At each
 * time the B of a slot is one of three, and the broker serves all requests about it in some order:
 *
 * - An exclusive queue, which one connection holds. Our declare and a consume get 405.
 * - A durable queue with an exclusive consumer, which holds the slot. A claim of either way gets
 *   405 or 403. Our delete is refused: it has if-unused, and B's own node performs it
 *   (broker_delete_holder()). So a partition cannot hide a consumer.
 * - Nothing, or a durable queue without a consumer. Nobody holds the slot. If a claim and our
 *   request come together, the broker performs one of them first. The other one then finds one of
 *   the cases above. A claim by consumer that finds no B gets 404, and claims by queue.
 *
 * A stays as it is. A conversion that is cut leaves slots of both ways, which work, and which the
 * next fsck finds.
 */

/*
 * Where clients wait for the slots, a slot is free only for a moment. Therefore a wait also tries
 * some of the slots that were busy just now, in turns.
 */
static bool
fsck_may_try(struct fsck *fsck, int slot)
{
	if (!fsck->waiting || fsck->tries == 0 || slot <= fsck->tried)
		return false;
	fsck->tried = --fsck->tries > 0 ? fsck->tried : slot;
	return true;
}

/* The slots that are still held otherwise are left: busy, or their node cannot be reached. */
static void
fsck_converted(struct lock_engine *engine, struct fsck *fsck)
{
	const struct full_scan *full_scan = &fsck->seen.full_scan;

	/* Behind As, the scan has not seen them. */
	if (full_scan->beside && !full_scan_is_by_beads(fsck->convert))
		fsck_seen_put_quorum(&fsck->seen, fsck->quorum_left);
	free(fsck->left);
	fsck->left = mem_grow(NULL, (size_t)full_scan->slots + 1, sizeof(*fsck->left));
	fsck->left_count = 0;
	for (int slot = 1; slot <= full_scan->slots; slot++) {
		if (fsck_seen_claim(&fsck->seen, slot) != fsck->convert)
			fsck->left[fsck->left_count++] = slot;
	}
	fsck_report(engine, fsck);
}

/* A pass over slots by quorum. The next scan tells what is there now. */
static void
fsck_settle(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->settles = fsck->changed;
	if (fsck->changed)
		fsck_scan(engine, fsck);
	else
		fsck_converted(engine, fsck);
}

static enum work_verdict
judge_conversion(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_reply *reply)
{
	struct fsck *fsck = fsck_find(engine, work->op);
	enum broker_way *way = &fsck->seen.ways[request->slot - 1];
	enum broker_answer answer = reply->answer;
	struct semaphore *semaphore;

	FAULT_IF(REFUSED_IS_CONVERTED, answer == BROKER_LOCKED, answer = BROKER_OK);
	FAULT_IF(SKIPPED_IS_CONVERTED, answer == BROKER_SKIPPED || answer == BROKER_UNKNOWN,
	    answer = BROKER_OK);
	switch (answer) {
	case BROKER_OK:
	case BROKER_ABSENT:
		fsck->converted++;
		fsck->rest = 0;
		fsck->seen.odd[request->slot - 1] = false;
		*way = way_of_word((enum method_claim)(fsck->convert - 1));
		semaphore = engine_semaphore_find(engine, fsck->name, false);
		if (semaphore != NULL)
			semaphore_saw_way(semaphore, request->slot, *way);
		return WORK_DONE;
	case BROKER_LOCKED:
	case BROKER_UNREACHABLE:
		fsck->seen.b[request->slot - 1] =
		    answer == BROKER_LOCKED ? BROKER_OK : BROKER_UNREACHABLE;
		return WORK_LEFT;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		return work_again(engine, work);
	case BROKER_REFUSED:
		break;
	}
	return work_fail(work, REASON_BROKER_REFUSED, reply->text);
}

/* Converts free slots that are held otherwise than wanted. */
static void
fsck_convert_ways(struct lock_engine *engine, struct fsck *fsck)
{
	bool makes = full_scan_way(fsck->convert)->make != NULL;

	fsck->changed = false;
	if (full_scan_is_by_beads(fsck->convert)) {
		fsck_convert_to_quorum(engine, fsck, fsck_settle);
		return;
	}
	if (fsck_convert_is_from_quorum(fsck)) {
		fsck_convert_from_quorum(engine, fsck, fsck_settle);
		return;
	}
	fsck_work_new(engine, fsck, judge_conversion, fsck_converted);
	if (fsck->tries > 0)
		fsck->tried = 0; /* the last pass came to the end */
	fsck->tries = fsck->tries_most;
	for (int slot = 1; slot <= fsck->seen.full_scan.slots; slot++) {
		enum broker_answer b = fsck->seen.b[slot - 1];

		if (fsck_seen_claim(&fsck->seen, slot) != fsck->convert &&
		    (b == BROKER_ABSENT || (b == BROKER_OK && fsck_may_try(fsck, slot))))
			work_add(&fsck->work, makes ? WORK_MAKE_HOLDER : WORK_DELETE_HOLDER, slot);
	}
	work_start(engine, &fsck->work);
}

/* ---- a scan ---- */

/*
 * The last step before the answer. A conversion is on request only: B[1] may be gone, or look so, and
 * exclusive queues are less safe.
 */
static void
fsck_convert_if_asked(struct lock_engine *engine, struct fsck *fsck)
{
	if (fsck->convert == LOCK_CLAIM_UNKNOWN)
		fsck_report(engine, fsck);
	else
		fsck_convert_ways(engine, fsck);
}

/* ---- how each queue was declared ---- */

static void
saw_slot(struct fsck *fsck, int slot, const struct broker_reply *reply)
{
	/* RabbitMQ: "inequivalent arg 'durable' for queue". It checks this before other arguments. */
	fsck->seen.make[slot - 1] = reply->answer == BROKER_LOCKED ? FSCK_MAKE_EXCLUSIVE
				    : reply->code == 0             ? FSCK_MAKE_OURS
				    : strstr(reply->text, "'durable'") != NULL
					? FSCK_MAKE_TRANSIENT
					: FSCK_MAKE_OTHERWISE;
}

/* A durable B was declared, another one was checked: it may be durable and not refuse probes. */
static void
saw_holder(struct fsck *fsck, int slot, const struct broker_reply *reply)
{
	bool durable = way_is_durable(fsck->seen.ways[slot - 1]);

	if (reply->answer == BROKER_UNREACHABLE) {
		fsck->seen.b[slot - 1] = BROKER_UNREACHABLE;
		fsck->seen.ways[slot - 1] = BROKER_BY_CONSUMER;
	}
	if (reply->answer != BROKER_OK || (durable && reply->code == 0))
		return;
	fsck->seen.odd[slot - 1] = true;
	fsck->seen.ways[slot - 1] = BROKER_BY_CONSUMER;
}

static enum work_verdict
judge_examination(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_reply *reply)
{
	struct fsck *fsck = fsck_find(engine, work->op);
	bool slot = request->kind == WORK_DECLARE_SLOT;

	if (not_performed(reply))
		return work_again(engine, work);
	if (reply->answer == BROKER_REFUSED ||
	    (slot && (reply->answer == BROKER_ABSENT || reply->answer == BROKER_UNREACHABLE)))
		return work_fail(work, REASON_BROKER_REFUSED, reply->text);
	if (slot)
		saw_slot(fsck, request->slot, reply);
	else
		saw_holder(fsck, request->slot, reply);
	return WORK_DONE;
}

/* As beside slots by quorum go when these are repaired. False: there are none, or they were tried. */
static bool
removes_as(struct lock_engine *engine, struct fsck *fsck)
{
	if (fsck->as_tried || fsck->convert != LOCK_CLAIM_UNKNOWN || !fsck->quorum.is_meant ||
	    !fsck_quorum_has_as(&fsck->seen))
		return false;
	fsck->as_tried = true;
	fsck_convert_to_quorum(engine, fsck, fsck_scan);
	return true;
}

static void
fsck_examined(struct lock_engine *engine, struct fsck *fsck)
{
	struct fsck_findings now = {.count = 0};
	enum lock_claim wanted = LOCK_CLAIM_UNKNOWN;

	/* That slots are not converted yet is no problem of the semaphore. */
	if (fsck->convert == LOCK_CLAIM_UNKNOWN && fsck->seen.full_scan.slots > 0)
		wanted = fsck_seen_claim(&fsck->seen, 1);
	if (fsck->quorum.is_meant)
		fsck_quorum_findings(
		    &now, &fsck->seen, &fsck->quorum, fsck->convert == LOCK_CLAIM_UNKNOWN);
	else
		fsck_findings_make(&now, &fsck->seen, wanted, fsck_convert_is_record_left(fsck));
	if (fsck->scans > 1) {
		fsck_findings_compare(&fsck->findings, &now);
		fsck_findings_done(&now);
		if (!removes_as(engine, fsck))
			fsck_convert_if_asked(engine, fsck);
		return;
	}
	fsck->findings = now;
	if (fsck->repair && fsck->quorum.is_meant && fsck_quorum_repairable(&fsck->findings))
		fsck_quorum_repair(engine, fsck, fsck_scan);
	else if (fsck->repair && !fsck->quorum.is_meant &&
		 fsck_findings_repairable(&fsck->findings, &fsck->seen))
		fsck_repair(engine, fsck);
	else
		fsck_convert_if_asked(engine, fsck);
}

/* A declare of each queue that exists tells how it was declared. */
static void
fsck_examine(struct lock_engine *engine, struct fsck *fsck)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	fsck_work_new(engine, fsck, judge_examination, fsck_examined);
	for (int slot = 1; slot <= fsck->seen.full_scan.seen; slot++) {
		enum broker_answer b = fsck->seen.b[slot - 1];
		bool durable = way_is_durable(fsck->seen.ways[slot - 1]);

		if (!fsck_seen_slot(&fsck->seen, slot))
			continue;
		work_add(&fsck->work, WORK_DECLARE_SLOT, slot)->flows = true;
		if (b != BROKER_OK && (b != BROKER_ABSENT || !(durable || info.hides_queues)))
			continue;
		/* A B that is perhaps exclusive is not declared: it could be gone, and would come back durable. */
		FAULT(FSCK_MAKES_HOLDERS, durable = true);
		work_add(&fsck->work, durable ? WORK_MAKE_HOLDER : WORK_CHECK_HOLDER, slot)->flows =
		    true;
	}
	work_start(engine, &fsck->work);
}

/* The queues behind a gate, or of a name that is gone, were asked for. */
static void
fsck_looked(struct lock_engine *engine, struct fsck *fsck)
{
	if (fsck->quorum.is_meant)
		fsck_examined(engine, fsck);
	else
		fsck_examine(engine, fsck);
}

/* ---- a scan, from the beginning ---- */

static void
fsck_on_read(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct fsck *fsck = fsck_find(engine, id);

	if (fsck == NULL || fsck->state != FSCK_READING)
		return;
	if (reason != REASON_NONE) {
		fsck_unlock(engine, fsck, reason, text);
		return;
	}
	for (size_t i = 0; i < count && !fsck->seen.listed; i++)
		fsck->seen.listed = strcmp(names[i], fsck->name) == 0;
	engine_op_progress(engine, engine_op_find(engine, id));
	if (fsck_quorum_may_be(engine, &fsck->seen))
		fsck_quorum_examine(engine, fsck, fsck_looked);
	else
		fsck_examine(engine, fsck);
}

static void
fsck_on_scanned(struct lock_engine *engine, uint64_t id, const struct full_scan *found)
{
	struct fsck *fsck = fsck_find(engine, id);
	int unknown = found->unknown;
	char what[64];

	if (fsck == NULL || fsck->state != FSCK_SCANNING || !mutex_is_held(engine, id))
		return;
	FAULT(FSCK_GUESSES, unknown = -1);
	if (unknown >= 0 && fsck->waiting) {
		fsck_report(engine, fsck); /* the next pass asks again */
		return;
	}
	if (unknown > 0) {
		snprintf(what, sizeof(what), "slot %d exists, or is held", unknown);
		fsck_unlock_unknown(engine, fsck, what);
		return;
	}
	if (unknown == 0) {
		fsck_unlock_unknown(engine, fsck, "its markers exist");
		return;
	}
	fsck_seen_take(&fsck->seen, found, fsck->waiting);
	if (fsck->settles) {
		fsck->settles = false;
		fsck_converted(engine, fsck);
		return;
	}
	if (fsck->waiting) {
		fsck_convert_ways(engine, fsck);
		return;
	}
	fsck_set_state(fsck, FSCK_READING);
	directory_read(engine, fsck_on_read, id);
	engine_op_progress(engine, engine_op_find(engine, id)); /* after that one's deadline */
}

static void
fsck_scan(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->scans++;
	fsck_set_state(fsck, FSCK_SCANNING);
	full_scan_start(engine, fsck->name,
	    fsck->waiting || fsck->settles ? FULL_SCAN_BUSY : FULL_SCAN_ALL_SLOTS, fsck_on_scanned,
	    fsck->op);
}

/* Acquires behind it are scanned for, and other requests of its peer begin. */
static void
fsck_let_others_begin(struct lock_engine *engine, struct fsck *fsck)
{
	registry_admin_done(engine, fsck->name, false, fsck->op, REASON_NONE, NULL);
	peer_order_end(engine, &fsck->peer_order);
}

/*
 * The fsck is over and answered. Its requests to the directory that have not begun are dropped, as
 * they need the mutex.
 */
static void
fsck_end(struct lock_engine *engine, struct fsck *fsck)
{
	directory_forget(engine, fsck->op);
	/* Else this connection would hold the slot, whose B is exclusive. */
	if (fsck->claimed > 0 && broker_auxiliary_is_up(engine->broker))
		broker_reset(engine->broker, BROKER_AUXILIARY,
		    "a slot that was claimed for its conversion was not freed");
	if (!fsck->waiting)
		fsck_let_others_begin(engine, fsck);
	fsck_free(engine, fsck);
}

/* ---- waiting for busy slots that are to be held otherwise ---- */

static void fsck_begin(struct lock_engine *engine, uint64_t op);

static void
fsck_rest_is_over(void *ctx, uint64_t id)
{
	fsck_begin(ctx, id);
}

static void
fsck_tell_left(struct lock_engine *engine, struct fsck *fsck)
{
	const struct op *op = engine_op_find(engine, fsck->op);
	const struct lock_notice notice = {.kind = LOCK_NOTICE_HOLDERS,
	    .request = op->request,
	    .name = fsck->name,
	    .held = fsck->left,
	    .held_count = fsck->left_count};

	if (fsck->progress && fsck->left_told != fsck->left_count)
		engine_notice(engine, op->peer, &notice);
	fsck->left_told = fsck->left_count;
}

/* The pass is over, and the mutex free. False: there is nothing to wait for. */
static bool
fsck_rest(struct lock_engine *engine, struct fsck *fsck)
{
	int64_t now = engine_now(engine), ns;

	if (fsck->outcome != REASON_NONE || fsck->left_count == 0 || fsck->wait == 0 ||
	    fsck->is_cancelled || engine_op_find(engine, fsck->op) == NULL)
		return false;
	if (!fsck->waiting) {
		fsck->until = fsck->wait == DURATION_FOREVER ? INT64_MAX : now + fsck->wait;
		fsck->waiting = true;
		awaited_begin(engine, &fsck->awaited, fsck->name);
		timer_init(&fsck->awaited.rest, fsck_rest_is_over, engine, fsck->op);
		fsck_let_others_begin(engine, fsck);
	}
	if (now >= fsck->until)
		return false;
	fsck_set_state(fsck, FSCK_RESTING);
	engine_op_progress(engine, engine_op_find(engine, fsck->op));
	fsck_tell_left(engine, fsck);
	if (fsck->rest == 0) { /* the pass converted slots */
		fsck->rest = AWAITED_REST_FIRST;
		fsck->tries_most = TRIES_MOST;
	} else {
		fsck->rest =
		    fsck->rest > AWAITED_REST_MOST / 2 ? AWAITED_REST_MOST : 2 * fsck->rest;
		fsck->tries_most = (fsck->tries_most + 1) / 2;
	}
	fsck->awaited.first = fsck->left[0];
	fsck->awaited.last = fsck->left[fsck->left_count - 1];
	/* Not sooner, whatever this daemon frees: others need the mutex, too. */
	fsck->awaited.earliest = now + fsck->rest / 2;
	ns = fsck->rest / 2;
	if (!fsck->awaited.freed)
		ns += jitter_below(&engine->jitter, fsck->rest);
	fsck->awaited.freed = false;
	timers_set(
	    engine->timers, &fsck->awaited.rest, ns > fsck->until - now ? fsck->until : now + ns);
	return true;
}

/* Ends a wait. During a pass the answer comes at its end. */
static void
fsck_stop_waiting(
    struct lock_engine *engine, struct fsck *fsck, enum reason reason, const char *text)
{
	fsck_set_outcome(fsck, reason, text);
	fsck->is_cancelled = true;
	if (fsck->state != FSCK_RESTING)
		return;
	fsck_tell_outcome(engine, fsck);
	fsck_end(engine, fsck);
}

bool
fsck_cancel(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct fsck *fsck;
	struct op *op;

	for (fsck = engine->fscks; fsck != NULL; fsck = fsck->by_op.next) {
		op = engine_op_find(engine, fsck->op);
		if (!fsck->waiting || fsck->is_cancelled || op == NULL || op->peer != peer ||
		    op->request != request)
			continue;
		fsck_stop_waiting(engine, fsck, REASON_CANCELLED, NULL);
		return true;
	}
	return false;
}

void
fsck_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	struct fsck *fsck, *next;
	struct op *op;

	FAULT(CONVERSION_OUTLIVES_CLIENT, return;);
	HASH_ITER (by_op, engine->fscks, fsck, next) {
		op = engine_op_find(engine, fsck->op);
		if (op == NULL || op->peer != peer)
			continue;
		fsck->wait = 0;
		if (fsck->state == FSCK_RESTING)
			fsck_stop_waiting(engine, fsck, REASON_CANCELLED, NULL);
	}
}

void
fsck_end_waits(struct lock_engine *engine, const struct lock_answer *answer)
{
	struct fsck *fsck, *next;

	HASH_ITER (by_op, engine->fscks, fsck, next) {
		fsck->wait = 0;
		if (fsck->waiting)
			fsck_stop_waiting(engine, fsck, answer->reason, answer->text);
	}
}

/* ---- the mutex, and the door ---- */

static void
fsck_on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct fsck *fsck = fsck_find(engine, id);

	switch (news) {
	case MUTEX_HELD:
		fsck_scan(engine, fsck);
		return;
	case MUTEX_FREE:
		if (fsck_rest(engine, fsck))
			return;
		break;
	case MUTEX_LOST:
		fsck_set_outcome(
		    fsck, reason, "the connection to the broker was lost before all was done");
		break;
	case MUTEX_REFUSED:
		fsck_set_outcome(fsck, reason, text);
		break;
	}
	fsck_tell_outcome(engine, fsck);
	fsck_end(engine, fsck);
}

/* Its deadline has answered it: no further step is begun. */
static void
fsck_on_expired(struct lock_engine *engine, uint64_t op)
{
	mutex_leave(engine, op);
	fsck_end(engine, fsck_find(engine, op));
}

static void
fsck_begin(struct lock_engine *engine, uint64_t op)
{
	struct fsck *fsck = fsck_find(engine, op);

	fsck_set_state(fsck, FSCK_LOCKING);
	mutex_take(engine, queue_name_admin(engine->settings.naming, fsck->name).text,
	    &(struct mutex_order){
		.id = op, .what = fsck->repair ? "a repair" : "an fsck", .told = fsck_on_mutex});
}

void
lock_fsck(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_check *check)
{
	struct lock_answer refusal;
	struct fsck *fsck;
	struct op *op;

	assert(!engine->telling);
	refusal = engine_refusal(REASON_INVALID_PARAMS, NULL);
	refusal.text = full_scan_is_by_beads(check->convert) ? admin_quorum_nonsense(engine) : NULL;
	refusal.parameter = "convert";
	if (refusal.text == NULL) {
		refusal.text = admin_grace_nonsense(check->takeover_grace);
		refusal.parameter = "takeover_grace";
	}
	if (refusal.text != NULL) {
		engine_tell(engine, peer, request, &refusal);
		return;
	}
	if (engine_refusal_for_link(engine, &refusal)) {
		engine_tell(engine, peer, request, &refusal);
		return;
	}
	op = engine_op_new(engine, peer, request);
	op->expired = fsck_on_expired;
	fsck = mem_alloc(sizeof(*fsck));
	fsck->op = op->id;
	fsck->state = FSCK_QUEUED;
	fsck->name = mem_strdup(check->name);
	fsck->repair = check->repair;
	fsck->convert = check->repair ? check->convert : LOCK_CLAIM_UNKNOWN;
	fsck->wait = check->repair ? check->wait : 0;
	fsck->takeover_grace = check->takeover_grace;
	fsck->progress = check->progress;
	fsck->work = (struct work){.op = op->id, .name = fsck->name, .ended = fsck_work_ended};
	fsck->peer_order =
	    (struct peer_order){.op = op->id, .work = PEER_ORDER_CHANGES, .begin = fsck_begin};
	HASH_ADD(by_op, engine->fscks, op, sizeof(fsck->op), fsck);
	if (peer_order_take(engine, &fsck->peer_order, peer, check->name))
		fsck_begin(engine, op->id);
}

void
fsck_free_all(struct lock_engine *engine)
{
	struct fsck *fsck, *next;

	HASH_ITER (by_op, engine->fscks, fsck, next)
		fsck_free(engine, fsck);
}
