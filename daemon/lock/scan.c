#include "daemon/lock/scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/registry.h"

/*
 * Contents:
 *	1. The full scan. full_scan_take_markers() and full_scan_take_window() read the answers of a window.
 *	   full_scan_on_probed() sends the next window, or tells the caller.
 *	   full_scan_claim() and lock_claim_word() say how the slots are held.
 *	   full_scan_next(): full scans to the end of all slots go one after another.
 *	2. The scan for waiters: scan_list_queues() has the queues of a window, rescan_list_queues() of a rescan.
 *	   take_slot_answers() and take_quorum_answers() put the answers into the semaphore.
 *	   take_mutex_answer() reads that of a true mutex, rescan_take_answers() those of a rescan.
 *	   scan_start(), scan_continue() and scan_end() are the scan as the queue runner drives it.
 *	   rescan_will_do() and rescan_start() ask only whether something has changed.
 */

/* 1. The full scan of one semaphore. */

/* Maximum full scans of depth FULL_SCAN_ALL_SLOTS at once. */
#define FULL_SCANS_AT_ONCE 2

/* Queues in the first flush, markers aside (there is room for them), and in the largest. */
#define FULL_SCAN_WINDOW_FIRST 64
#define FULL_SCAN_WINDOW_MOST BROKER_PROBE_MAX

struct full_scan_job {
	uint64_t id; /* of the probe in flight */
	char *name;  /* owned */
	enum full_scan_depth depth;
	int most;          /* maximum slots of a semaphore */
	int first, window; /* slots of the probe in flight */
	bool by_quorum;    /* they are slots by quorum */
	struct full_scan found;
	enum broker_answer *a, *b; /* owned; `found` points at them, and at ways */
	enum broker_way *ways;     /* owned */
	int room;
	full_scan_done_fn *done;
	uint64_t whose;
	UT_hash_handle by_id;

	/* FULL_SCAN_ALL_SLOTS */
	uint64_t peer;
	bool is_asked; /* its probes have begun */
	UT_hash_handle by_whose;
};

static void
full_scan_job_free(struct full_scan_job *job)
{
	free(job->name);
	free(job->a);
	free(job->b);
	free(job->ways);
	free(job);
}

static void full_scans_go_on(struct lock_engine *engine);

static void
full_scan_finish(struct lock_engine *engine, struct full_scan_job *job)
{
	bool is_scan = job->depth == FULL_SCAN_ALL_SLOTS;

	if (is_scan)
		HASH_DELETE(by_whose, engine->full_scans_due, job);
	job->found.a = job->a;
	job->found.b = job->b;
	job->found.ways = job->ways;
	job->done(engine, job->whose, &job->found);
	full_scan_job_free(job);
	if (is_scan)
		full_scans_go_on(engine);
}

static size_t
queues_per_slot(const struct full_scan_job *job)
{
	return job->depth == FULL_SCAN_SIZE ? 1 : 2;
}

static bool
full_scan_is_unknown(enum broker_answer answer)
{
	FAULT(COUNT_UNKNOWN_IS_ABSENT, return false);
	return answer == BROKER_UNKNOWN || answer == BROKER_UNREACHABLE;
}

/*
 * The markers stand around the slots of the first window (scan.h). False: a marker's answer is
 * unknown.
 */
static bool
full_scan_take_markers(struct full_scan_job *job, const enum broker_answer *answers, size_t count)
{
	struct full_scan *found = &job->found;

	if (full_scan_is_unknown(answers[0]) || full_scan_is_unknown(answers[1]) ||
	    full_scan_is_unknown(answers[count - 1])) {
		found->unknown = 0;
		return false;
	}
	found->gate = answers[0] == BROKER_OK || answers[count - 1] == BROKER_OK;
	found->unlimited = answers[1] == BROKER_OK;
	return true;
}

/*
 * The Bs of the window from that slot on, where the slots do not count. False: no more windows are
 * needed.
 */
static bool
full_scan_take_above(struct full_scan_job *job, const struct broker_seen *seen, size_t at, int slot)
{
	struct full_scan *found = &job->found;
	int last = job->first + job->window - 1;

	for (; slot <= last; slot++) {
		job->b[slot - 1] = seen->answers[at + 1];
		job->ways[slot - 1] = seen->ways[at + 1];
		at += 2;
	}
	found->asked = last;
	return last < job->most && last - found->slots < FULL_SCAN_ABOVE;
}

/* at: the place of the first slot's answer. False: no more windows are needed. */
static bool
full_scan_take_window(struct full_scan_job *job, const struct broker_seen *seen, size_t at)
{
	struct full_scan *found = &job->found;
	bool asks_b = job->depth != FULL_SCAN_SIZE, counts = found->slots == job->first - 1;

	if (!counts && job->depth != FULL_SCAN_ALL_SLOTS)
		return full_scan_take_above(job, seen, at, job->first);
	for (int i = 0; i < job->window; i++) {
		int slot = job->first + i;
		enum broker_answer a = seen->answers[at++];

		if (full_scan_is_unknown(a) || (asks_b && seen->answers[at] != BROKER_UNREACHABLE &&
						   full_scan_is_unknown(seen->answers[at]))) {
			found->unknown = slot;
			return false;
		}
		job->a[slot - 1] = a;
		if (asks_b) {
			job->b[slot - 1] = seen->answers[at];
			job->ways[slot - 1] = seen->ways[at++];
			found->asked = slot;
		}
		found->seen = slot;
		if (a == BROKER_OK && found->slots == slot - 1)
			found->slots = slot;
		if (slot == job->most || (!asks_b && found->slots < slot))
			return false;
		if (job->depth != FULL_SCAN_ALL_SLOTS && found->slots < slot)
			return full_scan_take_above(job, seen, at, slot + 1);
	}
	return true;
}

/* A gate: there may be slots by quorum behind it. If there are As, too, only the first one is asked for. */
static bool
full_scan_goes_on_by_quorum(const struct lock_engine *engine, const struct full_scan_job *job)
{
	const struct full_scan *found = &job->found;

	return !job->by_quorum && found->unknown < 0 && found->gate && !found->unlimited &&
	       queue_naming_has_quorum(engine->settings.naming);
}

/* Of slots by quorum, B alone is the slot. False: no more windows are needed. */
static bool
full_scan_take_quorum_window(struct full_scan_job *job, const struct broker_seen *seen)
{
	struct full_scan *found = &job->found;

	if (job->first == 1 && found->slots > 0) {
		if (seen->answers[0] == BROKER_UNKNOWN)
			found->unknown = 1;
		found->beside = found->unknown < 0 && seen->answers[0] != BROKER_ABSENT;
		return false;
	}
	for (int i = 0; i < job->window; i++) {
		int slot = job->first + i;
		enum broker_answer b = seen->answers[i];

		if (b == BROKER_UNKNOWN)
			found->unknown = slot;
		if (b == BROKER_UNKNOWN || b == BROKER_ABSENT)
			return false;
		job->a[slot - 1] = BROKER_OK;
		if (job->depth != FULL_SCAN_SIZE) {
			job->b[slot - 1] = b == BROKER_OK       ? BROKER_ABSENT
					   : b == BROKER_LOCKED ? BROKER_OK
								: BROKER_UNREACHABLE;
			job->ways[slot - 1] = BROKER_BY_QUORUM;
		}
		found->slots = found->seen = found->asked = slot;
	}
	return found->slots < job->most;
}

enum lock_claim
full_scan_claim(const struct full_scan *full_scan)
{
	enum lock_claim claim = LOCK_CLAIM_UNKNOWN;

	for (int i = 0; i < full_scan->slots; i++) {
		enum lock_claim of_slot = full_scan_claim_of(full_scan->ways[i]);

		if (claim != LOCK_CLAIM_UNKNOWN && claim != of_slot)
			return LOCK_CLAIM_MIXED;
		claim = of_slot;
	}
	return claim;
}

const char *
lock_claim_word(enum lock_claim claim)
{
	if (claim == LOCK_CLAIM_UNKNOWN)
		return NULL;
	return claim == LOCK_CLAIM_MIXED ? "mixed" : method_claim_words[claim - 1];
}

const char *
lock_claim_how(enum lock_claim claim)
{
	if (claim == LOCK_CLAIM_UNKNOWN)
		return NULL;
	return claim == LOCK_CLAIM_MIXED ? "in different ways" : full_scan_way(claim)->how;
}

bool
full_scan_has_durable(const struct full_scan *full_scan)
{
	for (int i = 0; i < full_scan->slots; i++) {
		if (way_is_durable(full_scan->ways[i]))
			return true;
	}
	return false;
}

static void full_scan_probe_window(struct lock_engine *engine, struct full_scan_job *job);

static void
full_scan_on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct full_scan_job *job;
	bool begins;
	int most;

	HASH_FIND(by_id, engine->full_scans, &id, sizeof(id), job);
	assert(job != NULL);
	HASH_DELETE(by_id, engine->full_scans, job);
	if (job->by_quorum) {
		if (!full_scan_take_quorum_window(job, seen)) {
			full_scan_finish(engine, job);
			return;
		}
		job->first += job->window;
		/* Each queue that does not exist costs a channel. */
		if (job->window < FULL_SCAN_WINDOW_FIRST)
			job->window *= 2;
		full_scan_probe_window(engine, job);
		return;
	}
	begins = job->first == 1;
	if ((begins && !full_scan_take_markers(job, seen->answers, seen->count)) ||
	    !full_scan_take_window(job, seen, begins ? 2 : 0)) {
		if (!full_scan_goes_on_by_quorum(engine, job)) {
			full_scan_finish(engine, job);
			return;
		}
		job->by_quorum = true;
		job->first = 1;
		job->window = 1;
		full_scan_probe_window(engine, job);
		return;
	}
	most = FULL_SCAN_WINDOW_MOST / (int)queues_per_slot(job);
	job->first += job->window;
	job->window *= 4;
	if (job->window > most)
		job->window = most;
	full_scan_probe_window(engine, job);
}

static void
full_scan_probe_window(struct lock_engine *engine, struct full_scan_job *job)
{
	const struct queue_naming *naming = engine->settings.naming;
	struct probe_batch batch = {.count = 0};
	/* Lists are asked for again and again, and each such answer costs a channel. */
	enum broker_question_kind a =
	    job->depth == FULL_SCAN_GLANCE ? BROKER_ASK_EXISTENCE : BROKER_ASK_SLOT;
	int last;

	if (job->window > job->most - job->first + 1)
		job->window = job->most - job->first + 1;
	last = job->first + job->window - 1;
	if (last > job->room) {
		job->a = mem_grow(job->a, (size_t)last, sizeof(*job->a));
		if (job->depth != FULL_SCAN_SIZE) {
			job->b = mem_grow(job->b, (size_t)last, sizeof(*job->b));
			job->ways = mem_grow(job->ways, (size_t)last, sizeof(*job->ways));
		}
		job->room = last;
	}
	for (int slot = job->first; job->by_quorum && slot <= last; slot++)
		probe_add(&batch, queue_name_quorum(job->name, slot), BROKER_ASK_BEADS);
	if (job->first == 1 && !job->by_quorum) {
		probe_add(&batch, queue_name_gate(naming, job->name), BROKER_ASK_EXISTENCE);
		probe_add(&batch, queue_name_unlimited(naming, job->name), BROKER_ASK_EXISTENCE);
	}
	for (int slot = job->first; !job->by_quorum && slot <= last; slot++) {
		probe_add(&batch, queue_name_a(naming, job->name, slot), a);
		if (job->depth != FULL_SCAN_SIZE)
			probe_add(&batch, queue_name_b(naming, job->name, slot), BROKER_ASK_HOLDER);
	}
	if (job->first == 1 && !job->by_quorum)
		probe_add(&batch, queue_name_gate(naming, job->name), BROKER_ASK_EXISTENCE);
	job->id = engine_id(engine);
	HASH_ADD(by_id, engine->full_scans, id, sizeof(job->id), job);
	probe_send(engine, &batch, full_scan_on_probed, job->id);
}

/* ---- those that ask about all: one after another ---- */

/* The next full scan to begin, in the order of arrival; NULL: none now. */
static struct full_scan_job *
full_scan_next(const struct lock_engine *engine)
{
	uint64_t asking[FULL_SCANS_AT_ONCE];
	struct full_scan_job *scan;
	size_t count = 0, i;

	for (scan = engine->full_scans_due; scan != NULL; scan = scan->by_whose.next) {
		if (scan->is_asked)
			asking[count++] = scan->peer;
	}
	for (scan = engine->full_scans_due; count < FULL_SCANS_AT_ONCE && scan != NULL;
	     scan = scan->by_whose.next) {
		for (i = 0; i < count && asking[i] != scan->peer; i++)
			;
		if (!scan->is_asked && i == count)
			return scan;
	}
	return NULL;
}

static void
full_scans_go_on(struct lock_engine *engine)
{
	struct full_scan_job *scan;
	struct op *op;

	while ((scan = full_scan_next(engine)) != NULL) {
		op = engine_op_find(engine, scan->whose);
		if (op == NULL) {
			HASH_DELETE(by_whose, engine->full_scans_due, scan);
			full_scan_job_free(scan);
			continue;
		}
		engine_op_progress(engine, op);
		scan->is_asked = true;
		full_scan_probe_window(engine, scan);
	}
}

void
full_scan_start(struct lock_engine *engine, const char *name, enum full_scan_depth depth,
    full_scan_done_fn *done, uint64_t id)
{
	struct full_scan_job *job = mem_alloc(sizeof(*job));

	job->name = mem_strdup(name);
	job->depth = depth;
	job->most = engine->settings.slots_most;
	job->first = 1;
	job->window = FULL_SCAN_WINDOW_FIRST / (int)queues_per_slot(job);
	job->found.unknown = -1;
	job->done = done;
	job->whose = id;
	if (depth != FULL_SCAN_ALL_SLOTS) {
		full_scan_probe_window(engine, job);
		return;
	}
	job->peer = engine_op_find(engine, id)->peer;
	HASH_ADD(by_whose, engine->full_scans_due, whose, sizeof(job->whose), job);
	full_scans_go_on(engine);
}

void
lock_peer_left(struct lock_engine *engine, uint64_t peer)
{
	struct full_scan_job *scan = engine->full_scans_due;
	struct lock_answer answer = engine_refusal(REASON_CANCELLED, "its connection has ended");
	uint64_t op;

	assert(!engine->telling);
	while (scan != NULL) {
		if (scan->is_asked || scan->peer != peer) {
			scan = scan->by_whose.next;
			continue;
		}
		op = scan->whose;
		HASH_DELETE(by_whose, engine->full_scans_due, scan);
		full_scan_job_free(scan);
		engine_op_give_up(engine, op, &answer);
		scan = engine->full_scans_due; /* the end of one may have begun another */
	}
}

/* 2. The scan for waiters, and the rescan. */

/*
 * The first window of an unknown semaphore, and the largest one, in slots. Each slot costs two
 * probes.
 */
#define SCAN_WINDOW_FIRST 8
#define SCAN_WINDOW_MOST 256
/* The most slots that one flush of a rescan has room for, beside the other questions. */
#define FLUSH_MOST (BROKER_PROBE_MAX - 3 - SEMAPHORE_ABOVE_MOST)

static void
scan_set_state(struct semaphore *semaphore, enum scan_state state)
{
	struct scan *scan = &semaphore->scan;

	switch (state) {
	case SCAN_PROBING:
		assert(scan->state != SCAN_PROBING && scan->probe != 0);
		break;
	case SCAN_SEEN:
		assert(scan->state == SCAN_PROBING);
		scan->probe = 0;
		break;
	case SCAN_OVER:
		assert(scan->state == SCAN_SEEN);
		break;
	}
	scan->state = state;
}

bool
scan_is_whole(const struct semaphore *semaphore)
{
	bool forgotten = semaphore->seen == INT64_MIN;

	if (semaphore->scan.to_quorum)
		return false;
	return forgotten || semaphore->complete || semaphore->scan.unknown ||
	       semaphore->scan.again || semaphore->mode == SEMAPHORE_UNLIMITED;
}

/* The question about a slot's B. One that was durable when last seen is asked in one step. */
static void
scan_add_b(const struct semaphore *semaphore, struct probe_batch *batch, int slot)
{
	enum broker_way way = BROKER_BY_QUEUE;

	(void)semaphore_way(semaphore, slot, &way);
	if (semaphore->by_quorum)
		way = BROKER_BY_QUORUM;
	probe_add(batch, registry_slot_queue(semaphore, slot), way_row(way)->question);
}

/*
 * Takes the broker's answer for a slot's B, the i-th one. A slot that is reserved here is busy,
 * whatever the answer. A withheld slot counts as busy, too. So does one whose node is down: it may
 * be held.
 */
static void
take_b_answer(struct lock_engine *engine, struct semaphore *semaphore, int slot,
    const struct broker_seen *seen, size_t i)
{
	struct queue_name b = registry_slot_queue(semaphore, slot);
	enum broker_answer answer = seen->answers[i];
	bool is_free = answer == (semaphore->by_quorum ? BROKER_OK : BROKER_ABSENT);
	bool busy = !is_free || hold_find_queue(&engine->holds, b.text) != NULL;
	bool withheld = !busy && withheld_has(semaphore, slot);

	semaphore->scan.withheld |= withheld;
	semaphore->scan.unknown |= answer == BROKER_UNKNOWN;
	semaphore_saw_slot(semaphore, slot, busy || withheld);
	if (semaphore->by_quorum)
		return;
	/* Of a mutex that does not exist the setting decides. */
	if (answer == BROKER_ABSENT && semaphore->mutex && !way_is_durable(seen->ways[i]))
		semaphore_saw_way(semaphore, slot, engine_way_unseen(engine));
	else if (answer == BROKER_OK || answer == BROKER_ABSENT)
		semaphore_saw_way(semaphore, slot, seen->ways[i]);
}

bool
scan_is_guarded(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	return semaphore->mutex && queue_naming_mutex_is_admin(engine->settings.naming);
}

static bool
asks_for_markers(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	return semaphore->scan.first == 1 &&
	       (!semaphore->mutex || scan_is_guarded(engine, semaphore));
}

/* ---- the probes ---- */

/* Of slots by quorum: first the gate at the place of their As, without which there are none. */
static void
scan_list_quorum_slots(
    const struct lock_engine *engine, const struct semaphore *semaphore, struct probe_batch *batch)
{
	const struct scan *scan = &semaphore->scan;

	probe_add(
	    batch, queue_name_gate(engine->settings.naming, semaphore->name), BROKER_ASK_EXISTENCE);
	for (int slot = scan->first; slot < scan->first + scan->count; slot++)
		probe_add(batch, queue_name_quorum(semaphore->name, slot), BROKER_ASK_BEADS);
}

/* Of a mutex that may be held by quorum: its queue by the other ways, or the post; and its queue by quorum. */
static void
scan_list_quorum_mutex(
    const struct lock_engine *engine, const struct semaphore *semaphore, struct probe_batch *batch)
{
	probe_add(
	    batch, queue_name_mutex(engine->settings.naming, semaphore->name), BROKER_ASK_CONSUMER);
	probe_add(batch, queue_name_quorum(semaphore->name, 0), BROKER_ASK_BEADS);
}

/* The queues of a window, in order. */
static void
scan_list_queues(
    const struct lock_engine *engine, const struct semaphore *semaphore, struct probe_batch *batch)
{
	const struct queue_naming *naming = engine->settings.naming;
	const struct scan *scan = &semaphore->scan;
	const char *name = semaphore->name;
	bool markers = asks_for_markers(engine, semaphore);

	if (markers) {
		probe_add(batch, queue_name_gate(naming, name), BROKER_ASK_MARKER);
		probe_add(batch, queue_name_unlimited(naming, name), BROKER_ASK_MARKER);
	}
	for (int slot = scan->first; !semaphore->mutex && slot < scan->first + scan->count;
	     slot++) {
		/* Only the absence of the first slot is told to a client. */
		probe_add(batch, queue_name_a(naming, name, slot),
		    slot == 1 ? BROKER_ASK_SLOT : BROKER_ASK_EXISTENCE);
		scan_add_b(semaphore, batch, slot);
	}
	if (scan_is_guarded(engine, semaphore))
		probe_add(batch, queue_name_a(naming, name, 1), BROKER_ASK_EXISTENCE);
	if (semaphore->mutex)
		scan_add_b(semaphore, batch, 1);
	if (markers)
		probe_add(batch, queue_name_gate(naming, name), BROKER_ASK_MARKER);
}

/* The slot whose B is the i-th that a rescan asks for. */
static int
rescan_slot(const struct semaphore *semaphore, int i)
{
	return 1 + (semaphore->scan.first - 1 + i) % semaphore->size;
}

/* Of a rescan: first the queues whose change ends it, then the Bs. */
static void
rescan_list_queues(
    const struct lock_engine *engine, const struct semaphore *semaphore, struct probe_batch *batch)
{
	const struct queue_naming *naming = engine->settings.naming;
	bool guarded = scan_is_guarded(engine, semaphore);

	if (semaphore->by_quorum) {
		probe_add(batch, queue_name_quorum(semaphore->name, semaphore->size + 1),
		    BROKER_ASK_BEADS);
		if (semaphore->scan.for_new)
			probe_add(batch, queue_name_quorum(semaphore->name, semaphore->size),
			    BROKER_ASK_BEADS);
	} else if (!semaphore->mutex || guarded) {
		int next = semaphore->mutex ? 1 : semaphore->size + 1;

		probe_add(
		    batch, queue_name_unlimited(naming, semaphore->name), BROKER_ASK_EXISTENCE);
		probe_add(batch, queue_name_a(naming, semaphore->name, next), BROKER_ASK_EXISTENCE);
		if (semaphore->scan.for_new)
			probe_add(batch, queue_name_a(naming, semaphore->name, semaphore->size),
			    BROKER_ASK_EXISTENCE);
	}
	if (semaphore->mode == SEMAPHORE_GATE && queue_naming_has_quorum(naming))
		probe_add(batch, queue_name_quorum(semaphore->name, 1), BROKER_ASK_BEADS);
	if (semaphore->mode == SEMAPHORE_GATE || guarded)
		probe_add(batch, queue_name_gate(naming, semaphore->name), BROKER_ASK_EXISTENCE);
	for (int i = 0; i < semaphore->above_count; i++)
		scan_add_b(semaphore, batch, semaphore->above[i]);
	for (int i = 0; i < semaphore->scan.count; i++)
		scan_add_b(semaphore, batch, rescan_slot(semaphore, i));
}

/* ---- the answers ---- */

/* OK if one of them is, else unknown if one of them is, else absent. */
static enum broker_answer
scan_either(enum broker_answer one, enum broker_answer other)
{
	if (one == BROKER_OK || other == BROKER_OK)
		return BROKER_OK;
	return one == BROKER_ABSENT ? other : one;
}

static void
take_mutex_answer(struct lock_engine *engine, struct semaphore *semaphore,
    const struct broker_seen *seen, size_t i)
{
	semaphore_saw_size(semaphore, 1, true);
	take_b_answer(engine, semaphore, 1, seen, i);
}

/*
 * Of a mutex that may be held by quorum. A post looks like a durable B that nobody holds. Without it, other
 * programs would not see the holder by quorum. It is declared together with the queue by quorum, and a declare
 * tells a post from the B of a mutex by consumer.
 */
static void
take_quorum_mutex_answers(
    struct lock_engine *engine, struct semaphore *semaphore, const struct broker_seen *seen)
{
	const enum broker_answer other = seen->answers[0];
	enum broker_answer queue = seen->answers[1];
	bool is_there = other != BROKER_ABSENT || way_is_durable(seen->ways[0]);
	bool is_free = other == BROKER_ABSENT || other == BROKER_UNREACHABLE;

	semaphore->mode = SEMAPHORE_PLAIN;
	semaphore->held_otherwise &= is_there;
	if (!is_free)
		semaphore->refusals = 0;
	semaphore_saw_size(semaphore, 1, true);
	if (other == BROKER_UNKNOWN || queue == BROKER_UNKNOWN) {
		semaphore->scan.unknown = true;
		semaphore->by_quorum |=
		    way_row(engine->settings.claim)->by_beads && !semaphore->held_otherwise;
		semaphore_saw_slot(semaphore, 1, true);
		return;
	}
	semaphore->by_quorum = is_free && queue != BROKER_ABSENT;
	/* LOCKED: perhaps the claim of another daemon, which has not found out yet. */
	if (queue != BROKER_OK && queue != BROKER_LOCKED)
		semaphore->incomplete_until = 0;
	if (semaphore->incomplete_until != 0 && queue == BROKER_OK)
		queue = BROKER_UNREACHABLE;
	semaphore->beads = queue;
	/* Its maker has died before it published, or no node leads it. Only a maker finds out. */
	if (semaphore->by_quorum && queue == BROKER_UNREACHABLE &&
	    engine_now(engine) >= engine->unled_until) {
		semaphore->mode = SEMAPHORE_UNMADE;
	} else if (semaphore->by_quorum && (is_there || queue == BROKER_UNREACHABLE)) {
		take_b_answer(engine, semaphore, 1, seen, 1);
	} else if (is_free && other != BROKER_UNREACHABLE && !semaphore->held_otherwise &&
		   (semaphore->by_quorum || way_row(engine->settings.claim)->by_beads ||
		       (is_there && semaphore->refusals >= SEMAPHORE_REFUSALS))) {
		semaphore->mode = SEMAPHORE_UNMADE;
	} else {
		semaphore->by_quorum = false;
		take_b_answer(engine, semaphore, 1, seen, 0);
	}
}

/*
 * Slots that were removed may still have holders. The broker shows those from that slot to the end
 * of the window. Above, only this daemon's are known.
 */
static void
scan_take_above(struct lock_engine *engine, struct semaphore *semaphore,
    const struct broker_seen *seen, size_t at, int slot)
{
	const struct scan *scan = &semaphore->scan;
	int end = scan->first + scan->count;

	semaphore->extra = semaphore->above_count = 0;
	for (; slot < end; slot++, at += 2) {
		if (seen->answers[at + 1] != BROKER_OK)
			continue;
		if (semaphore->extra++ < SEMAPHORE_ABOVE_MOST)
			semaphore->above[semaphore->above_count++] = slot;
	}
	if (engine->holds.revoked == 0)
		return;
	for (const struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next)
		semaphore->extra += hold->revoked && hold->peer != 0 && hold->slot >= end &&
				    strcmp(hold->name, semaphore->name) == 0;
}

/*
 * From `at` on: A and B of each slot of the window, in turn. Slots above slots_most count as
 * absent, so that a broker that says yes to everything is not asked for ever.
 */
static void
take_slot_answers(struct lock_engine *engine, struct semaphore *semaphore,
    const struct broker_seen *seen, size_t at)
{
	struct scan *scan = &semaphore->scan;

	for (int i = 0; i < scan->count; i++, at += 2) {
		int slot = scan->first + i;
		enum broker_answer a = seen->answers[at];

		if (slot > engine->settings.slots_most)
			a = BROKER_ABSENT;
		FAULT_IF(PROBE_UNKNOWN_IS_ABSENT, a == BROKER_UNKNOWN, a = BROKER_ABSENT);
		switch (a) {
		case BROKER_ABSENT:
			semaphore_saw_size(semaphore, slot - 1, true);
			scan_take_above(engine, semaphore, seen, at, slot);
			return;
		case BROKER_OK:
			semaphore_saw_size(semaphore, slot, false);
			take_b_answer(engine, semaphore, slot, seen, at + 1);
			break;
		default:
			semaphore_saw_size(semaphore, slot - 1, false);
			scan->unknown = true;
			return;
		}
	}
}

/*
 * Of slots by quorum: the gate, and each slot of the window. A slot that is not led by any node exists, and
 * is not free.
 */
static void
take_quorum_answers(
    struct lock_engine *engine, struct semaphore *semaphore, const struct broker_seen *seen)
{
	struct scan *scan = &semaphore->scan;

	if (seen->answers[0] == BROKER_ABSENT) {
		/* All was removed, or converted. */
		semaphore->by_quorum = false;
		semaphore_forget(semaphore);
		return;
	}
	scan->unknown |= seen->answers[0] != BROKER_OK;
	for (int i = 0; i < scan->count; i++) {
		int slot = scan->first + i;
		enum broker_answer answer = seen->answers[1 + i];

		if (answer == BROKER_UNKNOWN) {
			semaphore_saw_size(semaphore, slot - 1, false);
			scan->unknown = true;
			return;
		}
		if (answer == BROKER_ABSENT || slot > engine->settings.slots_most) {
			semaphore_saw_size(semaphore, slot - 1, true);
			semaphore->by_quorum = slot > 1;
			if (slot == 1)
				semaphore->mode = SEMAPHORE_GATE;
			return;
		}
		semaphore->by_quorum = true;
		semaphore_saw_size(semaphore, slot, false);
		take_b_answer(engine, semaphore, slot, seen, 1 + (size_t)i);
	}
}

/* A name with any of `others` is a semaphore. If this is unknown, the mutex is not claimed. */
static void
take_guarded_answers(struct lock_engine *engine, struct semaphore *semaphore,
    enum broker_answer others, const struct broker_seen *seen, size_t mutex)
{
	switch (others) {
	case BROKER_OK:
		semaphore->mode = SEMAPHORE_NO_MUTEX;
		semaphore_saw_size(semaphore, 0, true);
		break;
	case BROKER_ABSENT:
		take_mutex_answer(engine, semaphore, seen, mutex);
		break;
	default:
		semaphore->scan.unknown = true;
		semaphore_saw_size(semaphore, 0, false);
		break;
	}
}

static void
take_first_window(
    struct lock_engine *engine, struct semaphore *semaphore, const struct broker_seen *seen)
{
	const enum broker_answer *answers = seen->answers;
	enum broker_answer gate = scan_either(answers[0], answers[seen->count - 1]),
			   unlimited = answers[1];
	const size_t slots = 2;

	FAULT_IF(PROBE_UNKNOWN_IS_ABSENT, gate != BROKER_OK, gate = BROKER_ABSENT);
	FAULT_IF(PROBE_UNKNOWN_IS_ABSENT, unlimited != BROKER_OK, unlimited = BROKER_ABSENT);
	if (semaphore->mutex) {
		enum broker_answer others =
		    scan_either(scan_either(gate, unlimited), answers[slots]);

		take_guarded_answers(engine, semaphore,
		    FAULT_ELSE(MUTEX_TAKES_ADMIN, BROKER_ABSENT, others), seen, slots + 1);
		return;
	}
	FAULT_IF(GATE_IS_UNLIMITED, gate == BROKER_OK, unlimited = BROKER_OK);
	if (unlimited == BROKER_OK) {
		semaphore->mode = SEMAPHORE_UNLIMITED;
		semaphore_saw_size(semaphore, 0, false);
		return;
	}
	take_slot_answers(engine, semaphore, seen, slots);
	semaphore->scan.unknown |= unlimited != BROKER_ABSENT;
	if (semaphore->size > 0)
		return;
	if (gate == BROKER_OK) {
		semaphore->mode = SEMAPHORE_GATE;
		semaphore->scan.to_quorum = queue_naming_has_quorum(engine->settings.naming);
	}
	FAULT(GATE_UNHEEDED, semaphore->mode = SEMAPHORE_PLAIN);
	semaphore->scan.unknown |= gate != BROKER_OK && gate != BROKER_ABSENT;
	if (semaphore->scan.unknown)
		semaphore_saw_size(semaphore, 0, false);
}

/* Of a rescan. If a queue has come or gone, a scan must follow. */
static void
rescan_take_answers(
    struct lock_engine *engine, struct semaphore *semaphore, const struct broker_seen *seen)
{
	struct scan *scan = &semaphore->scan;
	const enum broker_answer *answers = seen->answers;
	size_t others = seen->count - (size_t)scan->count;
	size_t above = others - (size_t)semaphore->above_count;
	bool changed = scan_is_guarded(engine, semaphore) && answers[others] == BROKER_ABSENT;

	for (size_t i = 0; i < others; i++) {
		/* The gate, or the A of the last slot. Or a B of a removed slot. */
		bool was_there =
		    i >= above ||
		    (i == above - 1 && (semaphore->mode == SEMAPHORE_GATE || scan->for_new));

		scan->unknown |= i < above && answers[i] == BROKER_UNKNOWN;
		changed |= was_there ? answers[i] == BROKER_ABSENT
				     : answers[i] != BROKER_ABSENT && answers[i] != BROKER_UNKNOWN;
	}
	/* Of slots by quorum, B is the slot. */
	for (size_t i = others; semaphore->by_quorum && i < seen->count; i++)
		changed |= answers[i] == BROKER_ABSENT;
	if (changed) {
		semaphore_forget(semaphore);
		return;
	}
	for (int i = 0; i < scan->count; i++)
		take_b_answer(
		    engine, semaphore, rescan_slot(semaphore, i), seen, others + (size_t)i);
}

static void
scan_take_answers(
    struct lock_engine *engine, struct semaphore *semaphore, const struct broker_seen *seen)
{
	if (semaphore->scan.forgotten || (semaphore->scan.again && !rescan_will_do(semaphore)))
		return;
	semaphore->seen = semaphore->scan.started;
	if (semaphore->mutex && semaphore->scan.by_quorum) {
		take_quorum_mutex_answers(engine, semaphore, seen);
		return;
	}
	if (semaphore->scan.again) {
		rescan_take_answers(engine, semaphore, seen);
		return;
	}
	if (semaphore->scan.by_quorum) {
		semaphore->mode = SEMAPHORE_PLAIN;
		take_quorum_answers(engine, semaphore, seen);
		return;
	}
	if (semaphore->scan.first == 1)
		semaphore->mode = SEMAPHORE_PLAIN;
	if (asks_for_markers(engine, semaphore))
		take_first_window(engine, semaphore, seen);
	else if (semaphore->mutex)
		take_mutex_answer(engine, semaphore, seen, 0);
	else
		take_slot_answers(engine, semaphore, seen, 0);
}

static void
scan_on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct semaphore *semaphore;

	HASH_FIND(by_probe, engine->scans, &id, sizeof(id), semaphore);
	assert(semaphore != NULL);
	HASH_DELETE(by_probe, engine->scans, semaphore);
	scan_set_state(semaphore, SCAN_SEEN);
	scan_take_answers(engine, semaphore, seen);
	engine_mark_dirty(engine, semaphore);
}

static void
scan_probe_window(struct lock_engine *engine, struct semaphore *semaphore, int first, int count)
{
	struct probe_batch batch = {.count = 0};

	semaphore->scan.first = first;
	semaphore->scan.count = count;
	semaphore->scan.probe = engine_id(engine);
	scan_set_state(semaphore, SCAN_PROBING);
	HASH_ADD(by_probe, engine->scans, scan.probe, sizeof(semaphore->scan.probe), semaphore);
	if (semaphore->mutex && semaphore->scan.by_quorum)
		scan_list_quorum_mutex(engine, semaphore, &batch);
	else if (semaphore->scan.again)
		rescan_list_queues(engine, semaphore, &batch);
	else if (semaphore->scan.by_quorum)
		scan_list_quorum_slots(engine, semaphore, &batch);
	else
		scan_list_queues(engine, semaphore, &batch);
	probe_send(engine, &batch, scan_on_probed, semaphore->scan.probe);
}

static void
scan_begin(struct lock_engine *engine, struct semaphore *semaphore, bool again)
{
	struct scan *scan = &semaphore->scan;

	assert(scan->state == SCAN_OVER);
	scan->number++;
	scan->again = again;
	scan->unknown = scan->overtaken = scan->forgotten = scan->withheld = false;
	scan->by_quorum =
	    semaphore->mutex ? semaphore->asks_quorum : semaphore->by_quorum && !again;
	scan->to_quorum = false;
	scan->started = engine_now(engine);
}

void
scan_start(struct lock_engine *engine, struct semaphore *semaphore)
{
	/* One slot more than last seen shows the gap, so that a full semaphore costs one flush. */
	int window = semaphore->size + 1;

	/* Each passive declare of an absent queue costs a channel. */
	if (window < SCAN_WINDOW_FIRST && !semaphore->by_quorum)
		window = SCAN_WINDOW_FIRST;
	if (window > SCAN_WINDOW_MOST)
		window = SCAN_WINDOW_MOST;
	scan_begin(engine, semaphore, false);
	scan_probe_window(engine, semaphore, 1, semaphore->mutex ? 1 : window);
}

bool
rescan_sees_all(const struct semaphore *semaphore)
{
	/* If many slots are free, the first window of a scan finds one at less cost. */
	int most = semaphore_has_free(semaphore) ? SCAN_WINDOW_MOST : FLUSH_MOST;

	return rescan_will_do(semaphore) && semaphore->mode == SEMAPHORE_PLAIN &&
	       !semaphore->mutex && semaphore->size <= most;
}

bool
rescan_will_do(const struct semaphore *semaphore)
{
	return semaphore->complete && semaphore->seen != INT64_MIN &&
	       (semaphore->mode == SEMAPHORE_GATE ||
		   (semaphore->mode == SEMAPHORE_PLAIN && semaphore->size > 0));
}

void
rescan_start(struct lock_engine *engine, struct semaphore *semaphore, bool for_new)
{
	int first = 1, count = semaphore->size;

	assert(for_new ? rescan_sees_all(semaphore) : rescan_will_do(semaphore));
	scan_begin(engine, semaphore, true);
	semaphore->scan.for_new = for_new;
	if (!for_new && count > SCAN_WINDOW_MOST) {
		first += (int)jitter_below(&engine->jitter, count);
		FAULT(RESCAN_FROM_FIRST, first = 1);
		count = SCAN_WINDOW_MOST;
	}
	scan_probe_window(engine, semaphore, first, count);
}

void
scan_continue(struct lock_engine *engine, struct semaphore *semaphore)
{
	int window = 2 * semaphore->scan.count;

	assert(semaphore->scan.state == SCAN_SEEN && !scan_is_whole(semaphore));
	if (semaphore->scan.to_quorum) {
		semaphore->scan.to_quorum = false;
		semaphore->scan.by_quorum = true;
		semaphore_saw_size(semaphore, 0, false);
		scan_probe_window(engine, semaphore, 1, 1);
		return;
	}
	scan_probe_window(engine, semaphore, semaphore->scan.first + semaphore->scan.count,
	    window > SCAN_WINDOW_MOST ? SCAN_WINDOW_MOST : window);
}

void
scan_end(struct semaphore *semaphore)
{
	scan_set_state(semaphore, SCAN_OVER);
}

/* ---- the engine's end ---- */

void
scan_done(struct lock_engine *engine)
{
	struct full_scan_job *job, *next_job;
	struct semaphore *semaphore, *next;

	HASH_ITER (by_id, engine->full_scans, job, next_job) {
		HASH_DELETE(by_id, engine->full_scans, job);
		if (job->depth == FULL_SCAN_ALL_SLOTS)
			HASH_DELETE(by_whose, engine->full_scans_due, job);
		full_scan_job_free(job);
	}
	HASH_ITER (by_whose, engine->full_scans_due, job, next_job) {
		HASH_DELETE(by_whose, engine->full_scans_due, job);
		full_scan_job_free(job);
	}
	/* The answers of scans in progress will not come. */
	HASH_ITER (by_probe, engine->scans, semaphore, next) {
		HASH_DELETE(by_probe, engine->scans, semaphore);
		scan_set_state(semaphore, SCAN_SEEN);
	}
}
