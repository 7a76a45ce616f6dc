#include "daemon/lock/admin/survey.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/core/probe.h"

/* Queues in the first flush, markers aside (there is room for them), and in the largest. */
#define WINDOW_FIRST 64
#define WINDOW_MOST BROKER_PROBE_MAX

struct surveying {
	uint64_t id; /* of the probe in flight */
	char *name;  /* owned */
	enum survey_depth depth;
	int most;          /* slots that there may be */
	int first, window; /* slots of the probe in flight */
	struct survey found;
	enum broker_answer *a, *b; /* owned; what `found` shows */
	int room;
	survey_done_fn *done;
	uint64_t whose;
	UT_hash_handle by_id;

	/* SURVEY_WHOLE */
	uint64_t peer;
	bool is_asked; /* its turn has come */
	UT_hash_handle by_whose;
};

static void
surveying_free(struct surveying *surveying)
{
	free(surveying->name);
	free(surveying->a);
	free(surveying->b);
	free(surveying);
}

static void scans_go_on(struct lock_engine *engine);

static void
finish(struct lock_engine *engine, struct surveying *surveying)
{
	bool is_scan = surveying->depth == SURVEY_WHOLE;

	if (is_scan)
		HASH_DELETE(by_whose, engine->scans, surveying);
	surveying->found.a = surveying->a;
	surveying->found.b = surveying->b;
	surveying->done(engine, surveying->whose, &surveying->found);
	surveying_free(surveying);
	if (is_scan)
		scans_go_on(engine);
}

static size_t
queues_per_slot(const struct surveying *surveying)
{
	return surveying->depth == SURVEY_SIZE ? 1 : 2;
}

static bool
is_unknown(enum broker_answer answer)
{
	FAULT(COUNT_UNKNOWN_IS_ABSENT, return false);
	return answer == BROKER_UNKNOWN;
}

/*
 * The markers stand around the slots of the first window (survey.h). Returns the answers of the slots;
 * NULL: a marker's is unknown.
 */
static const enum broker_answer *
take_markers(struct surveying *surveying, const enum broker_answer *answers, size_t count)
{
	struct survey *found = &surveying->found;

	if (surveying->first > 1)
		return answers;
	if (is_unknown(answers[0]) || is_unknown(answers[1]) || is_unknown(answers[count - 1])) {
		found->unknown = 0;
		return NULL;
	}
	found->gate = answers[0] == BROKER_OK || answers[count - 1] == BROKER_OK;
	found->unlimited = answers[1] == BROKER_OK;
	return answers + 2;
}

/* False: there is nothing more to be asked. */
static bool
take_window(struct surveying *surveying, const enum broker_answer *answers)
{
	struct survey *found = &surveying->found;
	bool asks_b = surveying->depth != SURVEY_SIZE;

	for (int i = 0; i < surveying->window; i++) {
		int slot = surveying->first + i;
		enum broker_answer a = *answers++, b = asks_b ? *answers++ : BROKER_ABSENT;

		if (is_unknown(a) || is_unknown(b)) {
			found->unknown = slot;
			return false;
		}
		surveying->a[slot - 1] = a;
		if (asks_b)
			surveying->b[slot - 1] = b;
		found->seen = slot;
		if (a == BROKER_OK && found->slots == slot - 1)
			found->slots = slot;
		if (slot == surveying->most ||
		    (surveying->depth != SURVEY_WHOLE && found->slots < slot))
			return false;
	}
	return true;
}

static void probe_window(struct lock_engine *engine, struct surveying *surveying);

static void
on_probed(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	struct lock_engine *engine = ctx;
	struct surveying *surveying;
	int most;

	HASH_FIND(by_id, engine->surveys, &id, sizeof(id), surveying);
	assert(surveying != NULL);
	HASH_DELETE(by_id, engine->surveys, surveying);
	answers = take_markers(surveying, answers, count);
	if (answers == NULL || !take_window(surveying, answers)) {
		finish(engine, surveying);
		return;
	}
	most = WINDOW_MOST / (int)queues_per_slot(surveying);
	surveying->first += surveying->window;
	surveying->window *= 4;
	if (surveying->window > most)
		surveying->window = most;
	probe_window(engine, surveying);
}

static void
probe_window(struct lock_engine *engine, struct surveying *surveying)
{
	const struct queue_naming *naming = engine->settings.naming;
	struct probe probe = {.count = 0};
	int last;

	if (surveying->window > surveying->most - surveying->first + 1)
		surveying->window = surveying->most - surveying->first + 1;
	last = surveying->first + surveying->window - 1;
	if (last > surveying->room) {
		surveying->a = mem_grow(surveying->a, (size_t)last, sizeof(*surveying->a));
		if (surveying->depth != SURVEY_SIZE)
			surveying->b = mem_grow(surveying->b, (size_t)last, sizeof(*surveying->b));
		surveying->room = last;
	}
	if (surveying->first == 1) {
		probe_add(&probe, queue_name_gate(naming, surveying->name));
		probe_add(&probe, queue_name_unlimited(naming, surveying->name));
	}
	for (int slot = surveying->first; slot <= last; slot++) {
		probe_add(&probe, queue_name_a(naming, surveying->name, slot));
		if (surveying->depth != SURVEY_SIZE)
			probe_add(&probe, queue_name_b(naming, surveying->name, slot));
	}
	if (surveying->first == 1)
		probe_add(&probe, queue_name_gate(naming, surveying->name));
	surveying->id = engine_id(engine);
	HASH_ADD(by_id, engine->surveys, id, sizeof(surveying->id), surveying);
	probe_send(engine, &probe, on_probed, surveying->id);
}

/* ---- those that ask about all: one after another ---- */

/* Whose turn it is, in the order in which they came; NULL: nobody's, for now. */
static struct surveying *
next_scan(const struct lock_engine *engine)
{
	uint64_t asking[SURVEY_SCANS];
	struct surveying *scan;
	size_t count = 0, i;

	for (scan = engine->scans; scan != NULL; scan = scan->by_whose.next) {
		if (scan->is_asked)
			asking[count++] = scan->peer;
	}
	for (scan = engine->scans; count < SURVEY_SCANS && scan != NULL;
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
	struct surveying *scan;
	struct op *op;

	while ((scan = next_scan(engine)) != NULL) {
		op = engine_op_find(engine, scan->whose);
		if (op == NULL) {
			HASH_DELETE(by_whose, engine->scans, scan);
			surveying_free(scan);
			continue;
		}
		engine_op_progress(engine, op);
		scan->is_asked = true;
		probe_window(engine, scan);
	}
}

void
survey_start(struct lock_engine *engine, const char *name, enum survey_depth depth,
    survey_done_fn *done, uint64_t id)
{
	struct surveying *surveying = mem_alloc(sizeof(*surveying));

	surveying->name = mem_strdup(name);
	surveying->depth = depth;
	surveying->most = engine->settings.slots_most;
	surveying->first = 1;
	surveying->window = WINDOW_FIRST / (int)queues_per_slot(surveying);
	surveying->found.unknown = -1;
	surveying->done = done;
	surveying->whose = id;
	if (depth != SURVEY_WHOLE) {
		probe_window(engine, surveying);
		return;
	}
	surveying->peer = engine_op_find(engine, id)->peer;
	HASH_ADD(by_whose, engine->scans, whose, sizeof(surveying->whose), surveying);
	scans_go_on(engine);
}

void
lock_peer_left(struct lock_engine *engine, uint64_t peer)
{
	struct surveying *scan = engine->scans;
	struct lock_answer answer = engine_refusal(REASON_CANCELLED, "its connection has ended");
	uint64_t op;

	assert(!engine->telling);
	while (scan != NULL) {
		if (scan->is_asked || scan->peer != peer) {
			scan = scan->by_whose.next;
			continue;
		}
		op = scan->whose;
		HASH_DELETE(by_whose, engine->scans, scan);
		surveying_free(scan);
		engine_op_give_up(engine, op, &answer);
		scan = engine->scans; /* the end of one may have begun another */
	}
}

void
survey_free_all(struct lock_engine *engine)
{
	struct surveying *surveying, *next;

	HASH_ITER (by_id, engine->surveys, surveying, next) {
		HASH_DELETE(by_id, engine->surveys, surveying);
		if (surveying->depth == SURVEY_WHOLE)
			HASH_DELETE(by_whose, engine->scans, surveying);
		surveying_free(surveying);
	}
	HASH_ITER (by_whose, engine->scans, surveying, next) {
		HASH_DELETE(by_whose, engine->scans, surveying);
		surveying_free(surveying);
	}
}
