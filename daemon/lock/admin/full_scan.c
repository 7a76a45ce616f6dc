#include "daemon/lock/admin/full_scan.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/core/probe.h"

/* Queues in the first flush, markers aside (there is room for them), and in the largest. */
#define WINDOW_FIRST 64
#define WINDOW_MOST BROKER_PROBE_MAX

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

static void scans_go_on(struct lock_engine *engine);

static void
finish(struct lock_engine *engine, struct full_scan_job *job)
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
		scans_go_on(engine);
}

static size_t
queues_per_slot(const struct full_scan_job *job)
{
	return job->depth == FULL_SCAN_SIZE ? 1 : 2;
}

static bool
is_unknown(enum broker_answer answer)
{
	FAULT(COUNT_UNKNOWN_IS_ABSENT, return false);
	return answer == BROKER_UNKNOWN || answer == BROKER_UNREACHABLE;
}

/*
 * The markers stand around the slots of the first window (full_scan.h). False: a marker's answer is
 * unknown.
 */
static bool
take_markers(struct full_scan_job *job, const enum broker_answer *answers, size_t count)
{
	struct full_scan *found = &job->found;

	if (is_unknown(answers[0]) || is_unknown(answers[1]) || is_unknown(answers[count - 1])) {
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
take_above(struct full_scan_job *job, const struct broker_seen *seen, size_t at, int slot)
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
take_window(struct full_scan_job *job, const struct broker_seen *seen, size_t at)
{
	struct full_scan *found = &job->found;
	bool asks_b = job->depth != FULL_SCAN_SIZE, counts = found->slots == job->first - 1;

	if (!counts && job->depth != FULL_SCAN_ALL_SLOTS)
		return take_above(job, seen, at, job->first);
	for (int i = 0; i < job->window; i++) {
		int slot = job->first + i;
		enum broker_answer a = seen->answers[at++];

		if (is_unknown(a) || (asks_b && seen->answers[at] != BROKER_UNREACHABLE &&
					 is_unknown(seen->answers[at]))) {
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
			return take_above(job, seen, at, slot + 1);
	}
	return true;
}

/* A gate: there may be slots by quorum behind it. If there are As, too, only the first one is asked for. */
static bool
goes_on_by_quorum(const struct lock_engine *engine, const struct full_scan_job *job)
{
	const struct full_scan *found = &job->found;

	return !job->by_quorum && found->unknown < 0 && found->gate && !found->unlimited &&
	       queue_naming_has_quorum(engine->settings.naming);
}

/* Of slots by quorum, B alone is the slot. False: no more windows are needed. */
static bool
take_quorum_window(struct full_scan_job *job, const struct broker_seen *seen)
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

static void probe_window(struct lock_engine *engine, struct full_scan_job *job);

static void
on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct full_scan_job *job;
	bool begins;
	int most;

	HASH_FIND(by_id, engine->full_scans, &id, sizeof(id), job);
	assert(job != NULL);
	HASH_DELETE(by_id, engine->full_scans, job);
	if (job->by_quorum) {
		if (!take_quorum_window(job, seen)) {
			finish(engine, job);
			return;
		}
		job->first += job->window;
		/* Each queue that does not exist costs a channel. */
		if (job->window < WINDOW_FIRST)
			job->window *= 2;
		probe_window(engine, job);
		return;
	}
	begins = job->first == 1;
	if ((begins && !take_markers(job, seen->answers, seen->count)) ||
	    !take_window(job, seen, begins ? 2 : 0)) {
		if (!goes_on_by_quorum(engine, job)) {
			finish(engine, job);
			return;
		}
		job->by_quorum = true;
		job->first = 1;
		job->window = 1;
		probe_window(engine, job);
		return;
	}
	most = WINDOW_MOST / (int)queues_per_slot(job);
	job->first += job->window;
	job->window *= 4;
	if (job->window > most)
		job->window = most;
	probe_window(engine, job);
}

static void
probe_window(struct lock_engine *engine, struct full_scan_job *job)
{
	const struct queue_naming *naming = engine->settings.naming;
	struct probe probe = {.count = 0};
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
		probe_add(&probe, queue_name_quorum(job->name, slot), BROKER_ASK_BEADS);
	if (job->first == 1 && !job->by_quorum) {
		probe_add(&probe, queue_name_gate(naming, job->name), BROKER_ASK_EXISTENCE);
		probe_add(&probe, queue_name_unlimited(naming, job->name), BROKER_ASK_EXISTENCE);
	}
	for (int slot = job->first; !job->by_quorum && slot <= last; slot++) {
		probe_add(&probe, queue_name_a(naming, job->name, slot), a);
		if (job->depth != FULL_SCAN_SIZE)
			probe_add(&probe, queue_name_b(naming, job->name, slot), BROKER_ASK_HOLDER);
	}
	if (job->first == 1 && !job->by_quorum)
		probe_add(&probe, queue_name_gate(naming, job->name), BROKER_ASK_EXISTENCE);
	job->id = engine_id(engine);
	HASH_ADD(by_id, engine->full_scans, id, sizeof(job->id), job);
	probe_send(engine, &probe, on_probed, job->id);
}

/* ---- those that ask about all: one after another ---- */

/* The next full scan to begin, in the order of arrival; NULL: none now. */
static struct full_scan_job *
next_scan(const struct lock_engine *engine)
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
scans_go_on(struct lock_engine *engine)
{
	struct full_scan_job *scan;
	struct op *op;

	while ((scan = next_scan(engine)) != NULL) {
		op = engine_op_find(engine, scan->whose);
		if (op == NULL) {
			HASH_DELETE(by_whose, engine->full_scans_due, scan);
			full_scan_job_free(scan);
			continue;
		}
		engine_op_progress(engine, op);
		scan->is_asked = true;
		probe_window(engine, scan);
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
	job->window = WINDOW_FIRST / (int)queues_per_slot(job);
	job->found.unknown = -1;
	job->done = done;
	job->whose = id;
	if (depth != FULL_SCAN_ALL_SLOTS) {
		probe_window(engine, job);
		return;
	}
	job->peer = engine_op_find(engine, id)->peer;
	HASH_ADD(by_whose, engine->full_scans_due, whose, sizeof(job->whose), job);
	scans_go_on(engine);
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

void
full_scan_free_all(struct lock_engine *engine)
{
	struct full_scan_job *job, *next;

	HASH_ITER (by_id, engine->full_scans, job, next) {
		HASH_DELETE(by_id, engine->full_scans, job);
		if (job->depth == FULL_SCAN_ALL_SLOTS)
			HASH_DELETE(by_whose, engine->full_scans_due, job);
		full_scan_job_free(job);
	}
	HASH_ITER (by_whose, engine->full_scans_due, job, next) {
		HASH_DELETE(by_whose, engine->full_scans_due, job);
		full_scan_job_free(job);
	}
}
