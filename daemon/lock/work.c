#include "daemon/lock/work.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/beads.h"
#include "daemon/broker/records.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/list.h"
#include "daemon/lock/mutex.h"

/*
 * Contents:
 *	The list: work_add(). Its deadline: work_be_patient().
 *	A sweep: sweep_on() probes window by window and puts the deletes behind itself.
 *	Records: open_records(), then on_records(), which decides the epoch and the grace: decide_beads().
 *	Slots by quorum: make_more() makes, looks at or deletes several at once, on_made() judges one.
 *	work_send() turns a request into a call of the broker layer. work_send_more() fills the window.
 *	Answers: work_answered() asks the owner, and work_settle() follows its verdict. work_on() goes on.
 *	work_start() begins, work_fail() and work_again() are verdicts for the owner.
 */

/*
 * Maximum declares of the owner in flight: enough to keep the broker busy, few enough to stop soon
 * after an error.
 */
#define DECLARES_MOST 64

/* Slots of a further window, after one with uncounted slots. */
#define SWEEP_MORE 256

ENGINE_FIND(work_find, struct work, works, by_op)

/* ---- the list ---- */

static struct work_request *
work_insert(struct work *work, size_t place, enum work_kind kind, int slot)
{
	struct work_request *request;

	if (work->count == work->room) {
		work->room = work->room == 0 ? 16 : 2 * work->room;
		work->list = mem_grow(work->list, work->room, sizeof(*work->list));
	}
	request = &work->list[place];
	memmove(request + 1, request, (work->count - place) * sizeof(*request));
	*request = (struct work_request){.kind = kind, .slot = slot};
	work->count++;
	return request;
}

struct work_request *
work_add(struct work *work, enum work_kind kind, int slot)
{
	return work_insert(work, work->count, kind, slot);
}

const struct work_request *
work_awaited(const struct work *work)
{
	return work->unanswered > 0 && work->at < work->count ? &work->list[work->at] : NULL;
}

/* How much longer than others the awaited request may take, ns. */
static int64_t
work_patience(const struct work *work)
{
	const struct work_request *awaited = work_awaited(work);

	/* A record is behind another administrator, and a slot can be in a grace. */
	return awaited != NULL && awaited->kind >= WORK_BY_QUORUM
		   ? work->beads.wait + BEAD_GRACE_MOST
		   : 0;
}

/* The deadline begins anew. */
static void
work_be_patient(struct lock_engine *engine, const struct work *work)
{
	struct op *op = engine_op_find(engine, work->op);

	if (op != NULL)
		engine_op_progress_in(engine, op, work_patience(work));
}

/* ---- a sweep ---- */

/*
 * The first slot of the next window; 0: the sweep has probed enough. It probes first to last, and on
 * while any slot exists, at most up to `most`.
 */
static int
sweep_window(const struct sweep *sweep, int first, int last, int most, int *ret_count)
{
	if (sweep->probed > 0)
		first = sweep->probed + 1;
	if (first > last) {
		last = sweep->probed + SWEEP_MORE;
		if (last > most)
			last = most;
		if (sweep->clean || first > last)
			return 0;
	}
	*ret_count = last - first + 1;
	if (*ret_count > BROKER_PROBE_MAX)
		*ret_count = BROKER_PROBE_MAX;
	return first;
}

/* The answers for that window; `first` as there. Returns the slot whose answer is not known; 0: none. */
static int
sweep_take(struct sweep *sweep, int first, const struct broker_seen *seen)
{
	if (sweep->probed > 0)
		first = sweep->probed + 1;
	sweep->clean = true;
	sweep->slots = mem_grow(sweep->slots, sweep->count + seen->count, sizeof(*sweep->slots));
	for (size_t i = 0; i < seen->count; i++) {
		int slot = first + (int)i;

		if (seen->answers[i] != BROKER_OK && seen->answers[i] != BROKER_ABSENT)
			return slot;
		if (seen->answers[i] == BROKER_OK) {
			sweep->slots[sweep->count++] = slot;
			sweep->clean = false;
		}
	}
	sweep->probed = first + (int)seen->count - 1;
	return 0;
}

static void
sweep_done(struct sweep *sweep)
{
	free(sweep->slots);
	*sweep = (struct sweep){.probed = 0};
}

/* ---- sending ---- */

static void work_on(struct lock_engine *engine, struct work *work);
static void work_answered(
    struct lock_engine *engine, struct work *work, const struct broker_reply *reply);

static void
work_on_answer(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct work *work = work_find(ctx, id);

	if (work != NULL) /* else the mutex was lost after the request, and the owner has ended */
		work_answered(ctx, work, reply);
}

static void
work_on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct broker_reply reply = {.answer = seen->answers[0], .channel_open = true, .text = ""};

	work_on_answer(ctx, id, &reply);
}

static void
work_on_directory(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct broker_reply reply = {
	    .answer = count > 0 ? BROKER_OK : BROKER_ABSENT, .channel_open = true, .text = ""};
	struct work *work = work_find(engine, id);

	(void)names;
	if (work == NULL)
		return;
	if (reason != REASON_NONE)
		work->verdict = work_fail(work, reason, text);
	work_answered(engine, work, &reply);
}

static void
work_on_swept(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct work *work = work_find(engine, id);
	struct lock_answer unknown;
	int not_known;
	char why[96];

	if (work == NULL)
		return;
	work->unanswered--;
	not_known = sweep_take(&work->sweep, work->list[work->at].slot, seen);
	if (not_known > 0) {
		snprintf(
		    why, sizeof(why), "the broker did not say whether slot %d exists", not_known);
		unknown = engine_refusal_unknown(engine, why);
		work->verdict = work_fail(work, unknown.reason, unknown.text);
	}
	work_on(engine, work);
}

/* Those between that do not exist count as removed. */
static void
delete_swept_beads(struct work *work)
{
	const struct sweep *sweep = &work->sweep;

	if (sweep->count == 0)
		return;
	(void)work_insert(work, work->at + 1, WORK_RESERVE_EPOCH, 0);
	work_insert(work, work->at + 1, WORK_DELETE_BEADS, sweep->slots[sweep->count - 1])->last =
	    sweep->slots[0];
}

/* Probes the next window. False: there is none, and the slots found are to be deleted. */
static bool
sweep_on(struct lock_engine *engine, struct work *work)
{
	const struct work_request *request = &work->list[work->at];
	bool by_quorum = request->kind == WORK_SWEEP_BEADS;
	int window, first = sweep_window(
			&work->sweep, request->slot, request->last, work->most_slots, &window);
	struct probe_batch batch = {.count = 0};

	if (first == 0) {
		if (by_quorum)
			delete_swept_beads(work);
		for (size_t i = 0; !by_quorum && i < work->sweep.count; i++) {
			(void)work_insert(
			    work, work->at + 1, WORK_DELETE_HOLDER, work->sweep.slots[i]);
			(void)work_insert(
			    work, work->at + 1, WORK_DELETE_UNCOUNTED, work->sweep.slots[i]);
		}
		sweep_done(&work->sweep);
		work->sent = ++work->at;
		return false;
	}
	for (int i = 0; i < window; i++)
		probe_add(&batch,
		    by_quorum ? queue_name_quorum(work->name, first + i)
			      : queue_name_a(engine->settings.naming, work->name, first + i),
		    BROKER_ASK_EXISTENCE);
	work->unanswered++;
	probe_send(engine, &batch, work_on_swept, work->op);
	return true;
}

typedef void ask_fn(
    struct broker *broker, uint64_t channel, const char *queue, struct broker_done done);

/* ---- records (rule 9 of docs/QUORUM.md) ---- */

/* T if nobody says otherwise, ns. */
#define GRACE_DEFAULT (20 * NSEC_PER_SEC)
/* Set beside a slot that should exist, and was not claimed: its epochs may be so much larger, in s. */
#define EPOCH_STRIDE 86400
/* A clock that is further ahead of the floor is perhaps wrong, and would raise it for good; s. */
#define CLOCK_AHEAD_MOST (365 * EPOCH_STRIDE)

static void
on_recorded(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct work *work = work_find(engine, id);

	broker_records_close(engine->broker, work->records);
	work->records = 0;
	work_answered(engine, work, reply);
}

/*
 * The slots are there, or should be, and nobody has claimed them. A holder may believe in one, with a number
 * that nobody knows. Without a record its T is not known.
 */
static void
decide_repair(
    struct broker_beads *beads, const struct broker_record *old, uint64_t floor, int64_t grace_seen)
{
	int64_t wait = old == NULL ? BEAD_GRACE_MOST : old->grace;

	if (old == NULL && beads->epoch > floor)
		floor = beads->epoch;
	if (beads->epoch < floor + EPOCH_STRIDE)
		beads->epoch = floor + EPOCH_STRIDE;
	if (wait < beads->grace)
		wait = beads->grace;
	beads->wait = wait > grace_seen ? wait : grace_seen;
	FAULT(REPAIR_WITHOUT_WAIT, beads->wait = 0);
	FAULT_IF(REPAIR_EPOCH_KEPT, old != NULL, beads->epoch = old->epoch);
}

/* The set that will be published at that time. old: the record so far; NULL: there is none. */
static void
decide_beads(struct work *work, const struct work_request *request, uint64_t seconds,
    const struct broker_record *old, uint64_t floor)
{
	struct broker_beads *beads = &work->beads;
	bool lost = request->last > 0 &&
		    (beads->repairs || (old != NULL && request->last <= (int)old->size));

	if (beads->grace == 0)
		beads->grace = old != NULL ? old->grace : GRACE_DEFAULT;
	if (work->epoch_below > floor)
		floor = work->epoch_below - 1;
	beads->epoch = seconds;
	if (beads->epoch <= floor)
		beads->epoch = FAULT_ELSE(FLOOR_IGNORED, seconds, floor + 1);
	beads->wait = 0;
	if (lost)
		decide_repair(beads, old, floor, work->grace_seen);
}

static void
read_record(struct lock_engine *engine, struct work *work)
{
	const struct broker_record *record =
	    broker_records_find(engine->broker, work->records, work->name);

	work->record = record != NULL ? *record : (struct broker_record){.epoch = 0};
	work->floor = broker_records_floor(engine->broker, work->records);
	broker_records_close(engine->broker, work->records);
	work->records = 0;
}

/* A forged message, or a clock that was far ahead. Fences must stay below 2^53. */
static void
refuse_epoch(struct lock_engine *engine, struct work *work)
{
	const struct broker_reply reply = {.answer = BROKER_REFUSED,
	    .channel_open = true,
	    .text = "the epochs are near their limit; delete the queue of a slot with forged "
		    "messages by hand"};

	broker_records_close(engine->broker, work->records);
	work->records = 0;
	work_answered(engine, work, &reply);
}

static void on_records(void *ctx, uint64_t id, const struct broker_reply *reply);

static void
open_records(struct lock_engine *engine, struct work *work)
{
	work->records =
	    broker_records_open(engine->broker, (struct broker_done){on_records, engine, work->op});
}

static void
on_pause_over(void *ctx, uint64_t id)
{
	struct work *work = work_find(ctx, id);

	work->has_paused = true;
	open_records(ctx, work);
}

/*
 * Slots that the record counts, and that are missing, can have holders that believe in them. If the record
 * forgets these slots, nobody waits before they are made again. So this waits, without the records.
 */
static bool
work_pauses(struct lock_engine *engine, struct work *work, const struct work_request *request,
    const struct broker_record *old)
{
	int size = request->kind == WORK_FORGET_RECORD || request->slot < 0 ? 0 : request->slot;

	if (old == NULL || size >= (int)old->size || work->counted >= (int)old->size ||
	    work->has_paused || request->kind == WORK_RESERVE_EPOCH)
		return false;
	FAULT(MISSING_SLOT_FORGOTTEN, return false);
	timer_init(&work->pause, on_pause_over, engine, work->op);
	timers_set(engine->timers, &work->pause, engine_now(engine) + old->grace);
	broker_records_close(engine->broker, work->records);
	work->records = 0;
	return true;
}

/*
 * The time for new sets, in seconds since 1970. 0: the clock is perhaps wrong, and the work has failed. A repair
 * needs no clock, as its sets are above the floor.
 */
static uint64_t
seconds_now(const struct lock_engine *engine, struct work *work, const struct work_request *request,
    uint64_t floor)
{
	uint64_t seconds = (uint64_t)(clock_now(engine->settings.wall_clock) / NSEC_PER_SEC);
	char text[128];

	if (floor == 0 || seconds <= floor + CLOCK_AHEAD_MOST || work->force)
		return seconds;
	if (work->mutex || (work->beads.repairs && request->last != 0))
		return floor;
	if (request->last == 0)
		return seconds;
	snprintf(text, sizeof(text),
	    "the clock of this host is %" PRIu64 " days ahead of the newest epoch; if it is right, "
	    "repeat with force",
	    (seconds - floor) / EPOCH_STRIDE);
	work->verdict = work_fail(work, REASON_INVALID_PARAMS, text);
	return 0;
}

/*
 * Slots above the recorded size may have been found, as removed ones stay while they are held. They are
 * made, too: that takes the removals out, or says that they are held. Missing ones below are made all the same.
 */
static void
make_removed(struct work *work, const struct broker_record *old)
{
	struct work_request *request = &work->list[work->at];
	int size = request->slot, first;

	if (request->kind != WORK_RECORD || work->beads.repairs || old == NULL ||
	    (int)old->size >= size)
		return;
	first = (int)old->size + 1;
	if (request->last > 0 && request->last < first)
		return;
	request->last = first;
	if (work->at + 1 == work->count || request[1].kind != WORK_MAKE_BEADS)
		work_insert(work, work->at + 1, WORK_MAKE_BEADS, 0)->last = size;
	work->list[work->at + 1].slot = first;
}

static void
on_records(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct work *work = work_find(engine, id);
	const struct work_request *request = &work->list[work->at];
	struct broker_done done = {on_recorded, engine, id};
	const struct broker_record *old;
	uint64_t seconds, floor;
	struct broker_record record = {0};

	if (reply->answer != BROKER_OK) {
		work->records = 0;
		work_answered(engine, work, reply);
		return;
	}
	if (request->kind == WORK_READ_RECORD) {
		read_record(engine, work);
		work_answered(engine, work, reply);
		return;
	}
	old = work->mutex ? NULL : broker_records_find(engine->broker, work->records, work->name);
	if (work_pauses(engine, work, request, old))
		return;
	/* The fences of missing slots are not known. */
	floor = broker_records_floor(engine->broker, work->records);
	if (work->has_paused && work->epoch_below < floor + EPOCH_STRIDE)
		work->epoch_below = floor + EPOCH_STRIDE;
	make_removed(work, old);
	request = &work->list[work->at];
	seconds = seconds_now(engine, work, request, floor);
	if (seconds == 0) {
		on_recorded(engine, id, reply);
		return;
	}
	decide_beads(work, request, seconds, old, floor);
	if (work->epoch_below > BEAD_EPOCH_MOST || work->beads.epoch > BEAD_EPOCH_MOST) {
		refuse_epoch(engine, work);
		return;
	}
	if (request->kind == WORK_FORGET_RECORD || request->slot < 0) {
		broker_records_remove(
		    engine->broker, work->records, work->name, work->epoch_below, done);
		return;
	}
	if (request->kind == WORK_RESERVE_EPOCH) {
		broker_records_set(engine->broker, work->records, NULL,
		    work->mutex          ? work->beads.epoch + FENCE_EPOCHS
		    : request->last == 0 ? work->epoch_below
					 : work->beads.epoch,
		    done);
		return;
	}
	record.size = (unsigned)request->slot;
	snprintf(record.name, sizeof(record.name), "%s", work->name);
	record.epoch = request->last > 0 || old == NULL ? work->beads.epoch : old->epoch;
	record.grace = work->beads.grace > work->grace_seen ? work->beads.grace : work->grace_seen;
	if (old != NULL && old->grace > record.grace)
		record.grace = old->grace;
	broker_records_set(engine->broker, work->records, &record, work->epoch_below, done);
}

/* Opens the records, unless there are none: an open would make their queue. */
static void
on_records_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct work *work = work_find(engine, id);

	if (work == NULL)
		return;
	if (seen->answers[0] == BROKER_ABSENT || seen->answers[0] == BROKER_UNKNOWN)
		work_on_probed(ctx, id, seen);
	else
		open_records(engine, work);
}

/* ---- slots by quorum ---- */

/* Slots that are made at once, and those of them that mostly wait. Each has a channel. */
#define MAKING_MOST 16
#define WAITING_MOST 128

/* How often slots are made again, because no answer came. */
#define DECIDES_MOST 3

/* The number of a slot in the making: that of the op, and the slot. METHODS_SLOTS_MAX is smaller. */
#define MAKING_SLOTS 16384

static void make_more(struct lock_engine *engine, struct work *work);

static void
on_made(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct work *work = work_find(engine, id / MAKING_SLOTS);
	struct broker_reply outcome = *reply;
	const struct work_request *request;
	int slot = (int)(id % MAKING_SLOTS);
	bool taken;

	if (work == NULL)
		return;
	request = &work->list[work->at];
	work->making.open--;
	work_be_patient(engine, work);
	/* Without the connection there is no mutex, and the owner ends. */
	if (request->kind == WORK_DELETE_BEADS) {
		work_saw_fence(work, reply->fence);
		/* It is gone, or nobody else will get it. */
		taken =
		    reply->answer == BROKER_OK || reply->answer == BROKER_ABSENT || reply->removed;
	} else if (work->saw != NULL && broker_auxiliary_is_up(engine->broker)) {
		taken = work->saw(engine, work, request->kind, slot, reply);
	} else {
		taken = reply->answer == BROKER_OK;
	}
	if (request->kind == WORK_DELETE_BEADS ? taken : reply->answer == BROKER_OK)
		work->making.done++;
	if (!taken && work->making.failure == BROKER_OK) {
		work->making.failure = reply->answer;
		if (work->mutex || strcmp(reply->text, BROKER_ALARM_WORDS) == 0)
			snprintf(work->making.text, sizeof(work->making.text), "%s", reply->text);
		else
			snprintf(work->making.text, sizeof(work->making.text), "slot %d: %s", slot,
			    reply->text);
	}
	make_more(engine, work);
	if (work->making.open > 0)
		return;
	outcome.answer = work->making.failure;
	outcome.text = work->making.text;
	work_answered(engine, work, &outcome);
}

static enum work_want
work_wants_slot(const struct lock_engine *engine, const struct work *work,
    const struct work_request *request, int slot)
{
	return work->wants != NULL ? work->wants(engine, work, request->kind, slot) : WORK_WANTED;
}

/* Slots are made upwards, and removed downwards. */
static int
work_direction(const struct work_request *request)
{
	return request->slot <= request->last ? 1 : -1;
}

/* The first wanted slot, from `slot` on; 0: there is none. */
static int
next_wanted(const struct lock_engine *engine, const struct work *work,
    const struct work_request *request, int slot)
{
	int end = request->last + work_direction(request);

	while (slot != end && work_wants_slot(engine, work, request, slot) == WORK_UNWANTED)
		slot += work_direction(request);
	return slot != end ? slot : 0;
}

static void
make_one(
    struct lock_engine *engine, struct work *work, const struct work_request *request, int slot)
{
	struct queue_name queue = queue_name_quorum(work->name, work->mutex ? 0 : slot);
	struct broker_done done = {on_made, engine, work->op * MAKING_SLOTS + (uint64_t)slot};

	if (request->kind == WORK_LOOK_AT_BEADS)
		broker_look_at_beads(engine->broker, queue.text, done);
	else if (request->kind == WORK_CLEAR_BEADS)
		broker_clear_beads(engine->broker, queue.text,
		    work_wants_slot(engine, work, request, slot) == WORK_WANTED_CLASSIC, done);
	else if (request->kind == WORK_DELETE_BEADS)
		broker_remove_beads(engine->broker, queue.text, done);
	else if (request->kind == WORK_CONVERT_BEADS)
		broker_delete_beads(engine->broker, queue.text, done);
	else
		broker_make_beads(engine->broker, queue.text, &work->beads, done);
}

static void
make_more(struct lock_engine *engine, struct work *work)
{
	const struct work_request *request = &work->list[work->at];
	int slot, most = work->beads.wait > 0 ? WAITING_MOST : MAKING_MOST;

	while (work->making.failure == BROKER_OK && work->making.open < most &&
	       (slot = next_wanted(engine, work, request, work->making.next)) > 0) {
		work->making.next = slot + work_direction(request);
		work->making.open++;
		make_one(engine, work, request, slot);
	}
}

static void
send_quorum(struct lock_engine *engine, struct work *work, const struct work_request *request)
{
	struct queue_name queue;

	if (request->kind == WORK_RECORD || request->kind == WORK_RESERVE_EPOCH) {
		open_records(engine, work);
	} else if (request->kind == WORK_READ_RECORD || request->kind == WORK_FORGET_RECORD) {
		snprintf(queue.text, sizeof(queue.text), "%s", AMQP_RECORDS_QUEUE);
		probe_one(engine, queue, BROKER_ASK_BEADS, on_records_probed, work->op);
	} else {
		work->making.next = request->slot;
		work->making.done = 0;
		work->making.failure = BROKER_OK;
		work->making.text[0] = '\0';
		make_more(engine, work);
	}
}

static void
work_send(struct lock_engine *engine, struct work *work, const struct work_request *request)
{
	const struct queue_naming *naming = engine->settings.naming;
	struct queue_name queue;
	ask_fn *ask = NULL;

	work->unanswered++;
	FAULT_IF(MUTEX_DROPPED_EARLY,
	    request->kind == WORK_DELETE_SLOT &&
		(work->sent == work->count || work->list[work->sent].kind != WORK_DELETE_SLOT),
	    mutex_drop(engine, work->op));
	switch (request->kind) {
	case WORK_ENTER:
		directory_enter(engine, work->name, work_on_directory, work->op);
		return;
	case WORK_LEAVE:
		directory_leave(engine, work->name, work_on_directory, work->op);
		return;
	case WORK_DECLARE_POST:
		queue = queue_name_mutex(naming, work->name);
		ask = broker_declare_post;
		break;
	case WORK_DECLARE_GATE:
	case WORK_DELETE_GATE:
		queue = queue_name_gate(naming, work->name);
		ask =
		    request->kind == WORK_DECLARE_GATE ? broker_declare_marker : broker_delete_slot;
		break;
	case WORK_DECLARE_UNLIMITED:
	case WORK_DELETE_UNLIMITED:
		queue = queue_name_unlimited(naming, work->name);
		ask = request->kind == WORK_DECLARE_UNLIMITED ? broker_declare_marker
							      : broker_delete_slot;
		break;
	case WORK_SWEEP:
	case WORK_SWEEP_BEADS:
		abort(); /* sweep_on() sends it */
	case WORK_DECLARE_SLOT:
	case WORK_DELETE_SLOT:
	case WORK_DELETE_UNCOUNTED:
		queue = queue_name_a(naming, work->name, request->slot);
		ask = request->kind == WORK_DECLARE_SLOT ? broker_declare_slot : broker_delete_slot;
		break;
	case WORK_RECORD:
	case WORK_RESERVE_EPOCH:
	case WORK_READ_RECORD:
	case WORK_FORGET_RECORD:
	case WORK_MAKE_BEADS:
	case WORK_LOOK_AT_BEADS:
	case WORK_CLEAR_BEADS:
	case WORK_DELETE_BEADS:
	case WORK_CONVERT_BEADS:
		send_quorum(engine, work, request);
		return;
	case WORK_MAKE_HOLDER:
	case WORK_DELETE_HOLDER:
	case WORK_CHECK_HOLDER:
		queue = queue_name_b(naming, work->name, request->slot);
		ask = request->kind == WORK_MAKE_HOLDER     ? broker_declare_holder
		      : request->kind == WORK_DELETE_HOLDER ? broker_delete_holder
							    : broker_check;
		break;
	case WORK_CLAIM_HOLDER:
		queue = queue_name_b(naming, work->name, request->slot);
		broker_claim(engine->broker, mutex_channel(engine, work->op), BROKER_BY_QUEUE,
		    queue.text, (struct broker_done){work_on_answer, engine, work->op});
		return;
	case WORK_DROP_HOLDER:
		queue = queue_name_b(naming, work->name, request->slot);
		broker_drop(engine->broker, mutex_channel(engine, work->op), BROKER_BY_QUEUE,
		    queue.text, true, (struct broker_done){work_on_answer, engine, work->op});
		return;
	case WORK_ASK_HOLDER:
		probe_one(engine, queue_name_b(naming, work->name, request->slot),
		    BROKER_ASK_HOLDER, work_on_probed, work->op);
		return;
	}
	ask(engine->broker, mutex_channel(engine, work->op), queue.text,
	    (struct broker_done){work_on_answer, engine, work->op});
}

static void
work_send_more(struct lock_engine *engine, struct work *work)
{
	while (work->sent < work->count) {
		const struct work_request *request = &work->list[work->sent];

		if (work->unanswered > 0 &&
		    (!request->flows || (work->unanswered >= work->window && !request->depends)))
			return;
		if (request->kind >= WORK_OF_MANY &&
		    next_wanted(engine, work, request, request->slot) == 0) {
			work->sent = ++work->at;
		} else if (request->kind != WORK_SWEEP && request->kind != WORK_SWEEP_BEADS) {
			work->sent++;
			work_send(engine, work, request);
		} else if (sweep_on(engine, work)) {
			return;
		}
	}
}

/* ---- answers ---- */

static void
work_answered(struct lock_engine *engine, struct work *work, const struct broker_reply *reply)
{
	assert(work->unanswered > 0);
	work->unanswered--;
	work->channel_gone |= !reply->channel_open;
	if (reply->answer == BROKER_UNKNOWN && !broker_auxiliary_is_up(engine->broker))
		return; /* the mutex died with the connection: MUTEX_LOST comes */
	/* A failure closed the channel: the requests behind it are answered as skipped. */
	if (work->verdict == WORK_DONE) {
		work->verdict = work->judge(engine, work, &work->list[work->at], reply);
		if (work->verdict == WORK_DONE) {
			work->at++;
			work->again = 0;
			work->window = !reply->channel_open           ? 1
				       : work->window < DECLARES_MOST ? 2 * work->window
								      : work->window;
		}
	}
	if (work->unanswered == 0 || (work->verdict == WORK_DONE && !work->channel_gone))
		work_on(engine, work);
}

/* The request before it decides about the epoch and the wait. False: that was done too often. */
static bool
decide_again(struct work *work)
{
	FAULT(MADE_AGAIN_AT_ONCE, return true);
	if (++work->making.again > DECIDES_MOST) {
		(void)work_fail(work, REASON_BROKER_UNAVAILABLE,
		    "the broker did not say whether all slots are made");
		return false;
	}
	assert(work->at > 0);
	work->at--;
	return true;
}

/* All that was sent is answered. False: the work failed. */
static bool
work_settle(struct lock_engine *engine, struct work *work)
{
	enum work_verdict verdict = work->verdict;

	if (work->channel_gone)
		mutex_channel_gone(engine, work->op);
	work->channel_gone = false;
	work->verdict = WORK_DONE;
	switch (verdict) {
	case WORK_DONE:
		break;
	case WORK_LEFT:
		work->again = 0;
		do
			work->at++;
		while (work->at < work->count && work->list[work->at].depends);
		break;
	case WORK_AGAIN:
		work->again++;
		/* Slots that were made have perhaps had holders, and lost their beads since. */
		if (work->list[work->at].kind == WORK_MAKE_BEADS && !decide_again(work))
			return false;
		break;
	case WORK_FAILED:
		return false;
	}
	work->sent = work->at;
	return true;
}

static void
work_on(struct lock_engine *engine, struct work *work)
{
	struct op *op = engine_op_find(engine, work->op);

	/* A deadline has answered the request: no further one is begun. */
	if (op == NULL && work->unanswered == 0)
		work->verdict =
		    work_fail(work, REASON_BROKER_UNAVAILABLE, "the broker did not answer in time");
	if (work->unanswered == 0 && !work_settle(engine, work)) {
		work->ended(engine, work, work->reason, work->text);
		return;
	}
	if (op == NULL)
		return;
	work_send_more(engine, work);
	/* Later than its own requests: the directory's deadline comes first, and says more. */
	work_be_patient(engine, work);
	if (work->unanswered == 0)
		work->ended(engine, work, REASON_NONE, NULL);
}

/* ---- outside ---- */

void
work_clear(struct lock_engine *engine, struct work *work)
{
	if (work_find(engine, work->op) == work)
		HASH_DELETE(by_op, engine->works, work);
	if (work->records != 0)
		broker_records_close(engine->broker, work->records);
	work->records = 0;
	if (work->pause.fire != NULL)
		timers_cancel(engine->timers, &work->pause);
	work->has_paused = false;
	work->making.again = 0;
	free(work->list);
	sweep_done(&work->sweep);
	work->list = NULL;
	work->count = work->room = work->at = work->sent = 0;
	work->unanswered = work->again = 0;
	work->verdict = WORK_DONE;
	work->channel_gone = false;
}

void
work_start(struct lock_engine *engine, struct work *work)
{
	HASH_ADD(by_op, engine->works, op, sizeof(work->op), work);
	work->window = DECLARES_MOST;
	work_on(engine, work);
}

enum work_verdict
work_fail(struct work *work, enum reason reason, const char *text)
{
	work->reason = reason;
	snprintf(work->text, sizeof(work->text), "%s", text);
	return WORK_FAILED;
}

void
work_saw_fence(struct work *work, uint64_t fence)
{
	uint64_t epoch = bead_fence_epoch(fence);

	/* A slot without beads says nothing. */
	if (fence != 0 && work->epoch_below <= epoch)
		work->epoch_below = epoch + 1;
}

enum work_verdict
work_again(const struct lock_engine *engine, struct work *work)
{
	if (work->again < engine->settings.max_races)
		return WORK_AGAIN;
	return work_fail(
	    work, REASON_BROKER_UNAVAILABLE, "the broker closed every channel too soon");
}
