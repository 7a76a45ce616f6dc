#include "daemon/lock/admin/fsck.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin/directory.h"
#include "daemon/lock/admin/fsck_repair.h"
#include "daemon/lock/core/mutex.h"
#include "daemon/lock/core/registry.h"
#include "protocol/duration.h"

/*
 * Rests between tries of busy slots that are not converted yet, doubled from the first to the
 * last. Each is jittered by half, up or down. Each pass that converts nothing tries half as many
 * busy slots as the one before.
 */
#define REST_FIRST (20 * NSEC_PER_MSEC)
#define REST_MOST (500 * NSEC_PER_MSEC)
/* Maximum busy slots that a pass of a wait tries to convert. A refusal closes a channel. */
#define TRIES_MOST 64

ENGINE_FIND(fsck_find, struct fsck, fscks, by_op)

static void
fsck_free(struct lock_engine *engine, struct fsck *fsck)
{
	HASH_DELETE(by_op, engine->fscks, fsck);
	if (fsck->waiting)
		awaited_end(engine, &fsck->awaited);
	free(fsck->left);
	fsck_seen_done(&fsck->seen);
	fsck_findings_done(&fsck->findings);
	free(fsck->name);
	free(fsck);
}

static void scan(struct lock_engine *engine, struct fsck *fsck);
static void declare_more(struct lock_engine *engine, struct fsck *fsck);

/* ---- a scan ---- */

/* Before the repair nothing was changed, after it all was. */
static void
unlock_unknown(struct lock_engine *engine, struct fsck *fsck, const char *of_what)
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

/* The answer now: the findings, repaired or not. */
static void
report(struct lock_engine *engine, struct fsck *fsck)
{
	bool exists = full_scan_exists(&fsck->seen.full_scan);

	fsck_unlock(engine, fsck,
	    exists || fsck->findings.count > 0 ? REASON_NONE : REASON_NO_SUCH_LOCK, NULL);
}

/* On request only: B[1] may be gone, or look so, and exclusive queues are less safe. */
static void
convert(struct lock_engine *engine, struct fsck *fsck)
{
	if (fsck->convert == LOCK_CLAIM_UNKNOWN)
		report(engine, fsck);
	else
		fsck_convert_start(engine, fsck, report);
}

static void
scanned(struct lock_engine *engine, struct fsck *fsck)
{
	struct fsck_findings now = {.count = 0};
	enum lock_claim wanted = LOCK_CLAIM_UNKNOWN;

	/* That slots are not converted yet is no problem of the semaphore. */
	if (fsck->convert == LOCK_CLAIM_UNKNOWN && fsck->seen.full_scan.slots > 0)
		wanted = fsck_seen_claim(&fsck->seen, 1);
	fsck_findings_make(&now, &fsck->seen, wanted);
	if (fsck->scans == 2) {
		fsck_findings_compare(&fsck->findings, &now);
		fsck_findings_done(&now);
		convert(engine, fsck);
		return;
	}
	fsck->findings = now;
	if (fsck->repair && fsck_findings_repairable(&fsck->findings, &fsck->seen))
		fsck_repair_start(engine, fsck, scan);
	else
		convert(engine, fsck);
}

/* ---- how each queue was declared ---- */

/* The slot of an item, and whether it is the B. */
static int
slot_of(int item)
{
	return item / 2;
}

static bool
is_holder(int item)
{
	return item % 2 != 0;
}

/* The first item from `item` that exists; behind the last one: one that cannot exist. */
static int
next_there(const struct fsck *fsck, int item)
{
	const struct fsck_seen *seen = &fsck->seen;

	for (; slot_of(item) <= seen->full_scan.seen; item++) {
		enum broker_answer b = seen->b[slot_of(item) - 1];

		if (!fsck_seen_slot(seen, slot_of(item)))
			continue;
		if (!is_holder(item) || b == BROKER_OK ||
		    (b == BROKER_ABSENT &&
			(fsck->hides_queues || way_is_durable(seen->ways[slot_of(item) - 1]))))
			break;
	}
	return item;
}

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

static void
on_declared(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fsck *fsck = fsck_find(engine, id);
	int item;

	if (!fsck_take_reply(engine, fsck, FSCK_DECLARING, reply))
		return;
	/* In the order of sending: after one that closes the channel, none is performed. */
	item = next_there(fsck, fsck->item);
	switch (reply->answer) {
	case BROKER_ABSENT:
	case BROKER_UNREACHABLE:
		if (!is_holder(item)) {
			fsck_unlock(engine, fsck, REASON_BROKER_REFUSED, reply->text);
			return;
		}
		/* fall through */
	case BROKER_OK:
	case BROKER_LOCKED:
		if (is_holder(item))
			saw_holder(fsck, slot_of(item), reply);
		else
			saw_slot(fsck, slot_of(item), reply);
		fsck->item = item + 1;
		/* Each such queue closes the channel, and the requests behind it are skipped. */
		fsck->window = !reply->channel_open                 ? 1
			       : fsck->window < MUTEX_DECLARES_MOST ? 2 * fsck->window
								    : fsck->window;
		fsck_progress(engine, fsck);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		break; /* sent again */
	case BROKER_REFUSED:
		fsck_unlock(engine, fsck, REASON_BROKER_REFUSED, reply->text);
		return;
	}
	declare_more(engine, fsck);
}

/* A B that is perhaps exclusive is not declared: it could be gone, and would come back durable. */
static void
declare(struct lock_engine *engine, struct fsck *fsck, int item)
{
	const struct queue_naming *naming = engine->settings.naming;
	uint64_t channel = mutex_channel(engine, fsck->op);
	struct queue_name b = queue_name_b(naming, fsck->name, slot_of(item));
	struct broker_done done = {on_declared, engine, fsck->op};

	fsck->unanswered++;
	FAULT_IF(FSCK_MAKES_HOLDERS, is_holder(item),
		 broker_declare_holder(engine->broker, channel, b.text, done);
		 return;);
	if (!is_holder(item))
		broker_declare_slot(engine->broker, channel,
		    queue_name_a(naming, fsck->name, slot_of(item)).text, done);
	else if (way_is_durable(fsck->seen.ways[slot_of(item) - 1]))
		broker_declare_holder(engine->broker, channel, b.text, done);
	else
		broker_check(engine->broker, channel, b.text, done);
}

static void
declare_more(struct lock_engine *engine, struct fsck *fsck)
{
	int item = next_there(fsck, fsck->item);

	if (fsck->channel_gone)
		return; /* requests on it are answered first */
	for (int skip = fsck->unanswered; skip > 0; skip--)
		item = next_there(fsck, item + 1);
	for (; fsck->unanswered < fsck->window && slot_of(item) <= fsck->seen.full_scan.seen;
	     item = next_there(fsck, item + 1))
		declare(engine, fsck, item);
	if (fsck->unanswered == 0)
		scanned(engine, fsck);
}

/* ---- a scan, from the beginning ---- */

static void
on_read(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct fsck *fsck = fsck_find(engine, id);
	struct broker_info info;

	if (fsck == NULL || fsck->state != FSCK_READING)
		return;
	if (reason != REASON_NONE) {
		fsck_unlock(engine, fsck, reason, text);
		return;
	}
	for (size_t i = 0; i < count && !fsck->seen.listed; i++)
		fsck->seen.listed = strcmp(names[i], fsck->name) == 0;
	engine_op_progress(engine, engine_op_find(engine, id));
	fsck_set_state(fsck, FSCK_DECLARING);
	broker_get_info(engine->broker, &info);
	fsck->hides_queues = info.hides_queues;
	fsck->item = 2; /* A[1] */
	fsck->window = MUTEX_DECLARES_MOST;
	declare_more(engine, fsck);
}

static void
on_scanned(struct lock_engine *engine, uint64_t id, const struct full_scan *found)
{
	struct fsck *fsck = fsck_find(engine, id);
	int unknown = found->unknown;
	char what[64];

	if (fsck == NULL || fsck->state != FSCK_SCANNING || !mutex_is_held(engine, id))
		return;
	FAULT(FSCK_GUESSES, unknown = -1);
	if (unknown >= 0 && fsck->waiting) {
		report(engine, fsck); /* the next pass asks again */
		return;
	}
	if (unknown > 0) {
		snprintf(what, sizeof(what), "slot %d exists, or is held", unknown);
		unlock_unknown(engine, fsck, what);
		return;
	}
	if (unknown == 0) {
		unlock_unknown(engine, fsck, "its markers exist");
		return;
	}
	fsck_seen_take(&fsck->seen, found, fsck->waiting);
	if (fsck->waiting) {
		fsck_convert_start(engine, fsck, report);
		return;
	}
	fsck_set_state(fsck, FSCK_READING);
	directory_read(engine, on_read, id);
	engine_op_progress(engine, engine_op_find(engine, id)); /* after that one's deadline */
}

static void
scan(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->scans++;
	fsck_set_state(fsck, FSCK_SCANNING);
	full_scan_start(engine, fsck->name, fsck->waiting ? FULL_SCAN_BUSY : FULL_SCAN_ALL_SLOTS,
	    on_scanned, fsck->op);
}

/* Acquires behind it are scanned for, and other requests of its peer begin. */
static void
let_others_begin(struct lock_engine *engine, struct fsck *fsck)
{
	registry_admin_done(engine, fsck->name, fsck->op, REASON_NONE, NULL);
	peer_order_end(engine, &fsck->peer_order);
}

/*
 * The fsck is over and answered. Its requests to the directory that have not begun are dropped, as
 * they need the mutex.
 */
static void
end(struct lock_engine *engine, struct fsck *fsck)
{
	directory_forget(engine, fsck->op);
	if (!fsck->waiting)
		let_others_begin(engine, fsck);
	fsck_free(engine, fsck);
}

/* ---- waiting for busy slots that are to be held otherwise ---- */

static void begin(struct lock_engine *engine, uint64_t op);

static void
rest_is_over(void *ctx, uint64_t id)
{
	begin(ctx, id);
}

static void
tell_left(struct lock_engine *engine, struct fsck *fsck)
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
rest(struct lock_engine *engine, struct fsck *fsck)
{
	int64_t now = engine_now(engine), ns;

	if (fsck->outcome != REASON_NONE || fsck->left_count == 0 || fsck->wait == 0 ||
	    fsck->is_cancelled || engine_op_find(engine, fsck->op) == NULL)
		return false;
	if (!fsck->waiting) {
		fsck->until = fsck->wait == DURATION_FOREVER ? INT64_MAX : now + fsck->wait;
		fsck->waiting = true;
		awaited_begin(engine, &fsck->awaited, fsck->name);
		timer_init(&fsck->awaited.rest, rest_is_over, engine, fsck->op);
		let_others_begin(engine, fsck);
	}
	if (now >= fsck->until)
		return false;
	fsck_set_state(fsck, FSCK_RESTING);
	fsck_progress(engine, fsck);
	tell_left(engine, fsck);
	if (fsck->rest == 0) { /* the pass converted slots */
		fsck->rest = REST_FIRST;
		fsck->tries_most = TRIES_MOST;
	} else {
		fsck->rest = fsck->rest > REST_MOST / 2 ? REST_MOST : 2 * fsck->rest;
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
stop_waiting(struct lock_engine *engine, struct fsck *fsck, enum reason reason, const char *text)
{
	fsck_set_outcome(fsck, reason, text);
	fsck->is_cancelled = true;
	if (fsck->state != FSCK_RESTING)
		return;
	fsck_tell_outcome(engine, fsck);
	end(engine, fsck);
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
		stop_waiting(engine, fsck, REASON_CANCELLED, NULL);
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
			stop_waiting(engine, fsck, REASON_CANCELLED, NULL);
	}
}

void
fsck_end_waits(struct lock_engine *engine, const struct lock_answer *answer)
{
	struct fsck *fsck, *next;

	HASH_ITER (by_op, engine->fscks, fsck, next) {
		fsck->wait = 0;
		if (fsck->waiting)
			stop_waiting(engine, fsck, answer->reason, answer->text);
	}
}

/* ---- the mutex, and the door ---- */

static void
on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct fsck *fsck = fsck_find(engine, id);

	switch (news) {
	case MUTEX_HELD:
		scan(engine, fsck);
		return;
	case MUTEX_FREE:
		if (rest(engine, fsck))
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
	end(engine, fsck);
}

/* Its deadline has answered it: no further step is begun. */
static void
on_expired(struct lock_engine *engine, uint64_t op)
{
	mutex_leave(engine, op);
	end(engine, fsck_find(engine, op));
}

static void
begin(struct lock_engine *engine, uint64_t op)
{
	struct fsck *fsck = fsck_find(engine, op);

	fsck_set_state(fsck, FSCK_LOCKING);
	mutex_take(engine, queue_name_admin(engine->settings.naming, fsck->name).text,
	    &(struct mutex_order){
		.id = op, .what = fsck->repair ? "a repair" : "an fsck", .told = on_mutex});
}

void
lock_fsck(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_check *check)
{
	struct lock_answer refusal;
	struct fsck *fsck;
	struct op *op;

	assert(!engine->telling);
	if (engine_refusal_for_link(engine, &refusal)) {
		engine_tell(engine, peer, request, &refusal);
		return;
	}
	op = engine_op_new(engine, peer, request);
	op->expired = on_expired;
	fsck = mem_alloc(sizeof(*fsck));
	fsck->op = op->id;
	fsck->state = FSCK_QUEUED;
	fsck->name = mem_strdup(check->name);
	fsck->repair = check->repair;
	fsck->convert = check->repair ? check->convert : LOCK_CLAIM_UNKNOWN;
	fsck->wait = check->repair ? check->wait : 0;
	fsck->progress = check->progress;
	fsck->peer_order =
	    (struct peer_order){.op = op->id, .work = PEER_ORDER_CHANGES, .begin = begin};
	HASH_ADD(by_op, engine->fscks, op, sizeof(fsck->op), fsck);
	if (peer_order_take(engine, &fsck->peer_order, peer, check->name))
		begin(engine, op->id);
}

void
fsck_free_all(struct lock_engine *engine)
{
	struct fsck *fsck, *next;

	HASH_ITER (by_op, engine->fscks, fsck, next)
		fsck_free(engine, fsck);
}
