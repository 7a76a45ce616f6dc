#include "daemon/lock/wait/scan.h"

#include <assert.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/lock/core/probe.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/withheld.h"

/*
 * The first window of an unknown semaphore, and the largest one, in slots. Each slot costs two
 * probes.
 */
#define WINDOW_FIRST 8
#define WINDOW_MOST 256
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
add_b(const struct semaphore *semaphore, struct probe *probe, int slot)
{
	enum broker_way way = BROKER_BY_QUEUE;

	(void)semaphore_way(semaphore, slot, &way);
	if (semaphore->by_quorum)
		way = BROKER_BY_QUORUM;
	probe_add(probe, registry_slot_queue(semaphore, slot), way_row(way)->question);
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
list_quorum_slots(
    const struct lock_engine *engine, const struct semaphore *semaphore, struct probe *probe)
{
	const struct scan *scan = &semaphore->scan;

	probe_add(
	    probe, queue_name_gate(engine->settings.naming, semaphore->name), BROKER_ASK_EXISTENCE);
	for (int slot = scan->first; slot < scan->first + scan->count; slot++)
		probe_add(probe, queue_name_quorum(semaphore->name, slot), BROKER_ASK_BEADS);
}

/* Of a mutex that may be held by quorum: its queue by the other ways, or the post; and its queue by quorum. */
static void
list_quorum_mutex(
    const struct lock_engine *engine, const struct semaphore *semaphore, struct probe *probe)
{
	probe_add(
	    probe, queue_name_mutex(engine->settings.naming, semaphore->name), BROKER_ASK_CONSUMER);
	probe_add(probe, queue_name_quorum(semaphore->name, 0), BROKER_ASK_BEADS);
}

/* The queues of a window, in order. */
static void
list_queues(
    const struct lock_engine *engine, const struct semaphore *semaphore, struct probe *probe)
{
	const struct queue_naming *naming = engine->settings.naming;
	const struct scan *scan = &semaphore->scan;
	const char *name = semaphore->name;
	bool markers = asks_for_markers(engine, semaphore);

	if (markers) {
		probe_add(probe, queue_name_gate(naming, name), BROKER_ASK_MARKER);
		probe_add(probe, queue_name_unlimited(naming, name), BROKER_ASK_MARKER);
	}
	for (int slot = scan->first; !semaphore->mutex && slot < scan->first + scan->count;
	     slot++) {
		/* Only the absence of the first slot is told to a client. */
		probe_add(probe, queue_name_a(naming, name, slot),
		    slot == 1 ? BROKER_ASK_SLOT : BROKER_ASK_EXISTENCE);
		add_b(semaphore, probe, slot);
	}
	if (scan_is_guarded(engine, semaphore))
		probe_add(probe, queue_name_a(naming, name, 1), BROKER_ASK_EXISTENCE);
	if (semaphore->mutex)
		add_b(semaphore, probe, 1);
	if (markers)
		probe_add(probe, queue_name_gate(naming, name), BROKER_ASK_MARKER);
}

/* The slot whose B is the i-th that a rescan asks for. */
static int
again_slot(const struct semaphore *semaphore, int i)
{
	return 1 + (semaphore->scan.first - 1 + i) % semaphore->size;
}

/* Of a rescan: first the queues whose change ends it, then the Bs. */
static void
list_again(const struct lock_engine *engine, const struct semaphore *semaphore, struct probe *probe)
{
	const struct queue_naming *naming = engine->settings.naming;
	bool guarded = scan_is_guarded(engine, semaphore);

	if (semaphore->by_quorum) {
		probe_add(probe, queue_name_quorum(semaphore->name, semaphore->size + 1),
		    BROKER_ASK_BEADS);
		if (semaphore->scan.for_new)
			probe_add(probe, queue_name_quorum(semaphore->name, semaphore->size),
			    BROKER_ASK_BEADS);
	} else if (!semaphore->mutex || guarded) {
		int next = semaphore->mutex ? 1 : semaphore->size + 1;

		probe_add(
		    probe, queue_name_unlimited(naming, semaphore->name), BROKER_ASK_EXISTENCE);
		probe_add(probe, queue_name_a(naming, semaphore->name, next), BROKER_ASK_EXISTENCE);
		if (semaphore->scan.for_new)
			probe_add(probe, queue_name_a(naming, semaphore->name, semaphore->size),
			    BROKER_ASK_EXISTENCE);
	}
	if (semaphore->mode == SEMAPHORE_GATE && queue_naming_has_quorum(naming))
		probe_add(probe, queue_name_quorum(semaphore->name, 1), BROKER_ASK_BEADS);
	if (semaphore->mode == SEMAPHORE_GATE || guarded)
		probe_add(probe, queue_name_gate(naming, semaphore->name), BROKER_ASK_EXISTENCE);
	for (int i = 0; i < semaphore->above_count; i++)
		add_b(semaphore, probe, semaphore->above[i]);
	for (int i = 0; i < semaphore->scan.count; i++)
		add_b(semaphore, probe, again_slot(semaphore, i));
}

/* ---- the answers ---- */

/* OK if one of them is, else unknown if one of them is, else absent. */
static enum broker_answer
either(enum broker_answer one, enum broker_answer other)
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
take_above(struct lock_engine *engine, struct semaphore *semaphore, const struct broker_seen *seen,
    size_t at, int slot)
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
			take_above(engine, semaphore, seen, at, slot);
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
	enum broker_answer gate = either(answers[0], answers[seen->count - 1]),
			   unlimited = answers[1];
	const size_t slots = 2;

	FAULT_IF(PROBE_UNKNOWN_IS_ABSENT, gate != BROKER_OK, gate = BROKER_ABSENT);
	FAULT_IF(PROBE_UNKNOWN_IS_ABSENT, unlimited != BROKER_OK, unlimited = BROKER_ABSENT);
	if (semaphore->mutex) {
		enum broker_answer others = either(either(gate, unlimited), answers[slots]);

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
take_again_answers(
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
		    engine, semaphore, again_slot(semaphore, i), seen, others + (size_t)i);
}

static void
take_answers(
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
		take_again_answers(engine, semaphore, seen);
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
on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct semaphore *semaphore;

	HASH_FIND(by_probe, engine->scans, &id, sizeof(id), semaphore);
	assert(semaphore != NULL);
	HASH_DELETE(by_probe, engine->scans, semaphore);
	scan_set_state(semaphore, SCAN_SEEN);
	take_answers(engine, semaphore, seen);
	engine_mark_dirty(engine, semaphore);
}

static void
probe_window(struct lock_engine *engine, struct semaphore *semaphore, int first, int count)
{
	struct probe probe = {.count = 0};

	semaphore->scan.first = first;
	semaphore->scan.count = count;
	semaphore->scan.probe = engine_id(engine);
	scan_set_state(semaphore, SCAN_PROBING);
	HASH_ADD(by_probe, engine->scans, scan.probe, sizeof(semaphore->scan.probe), semaphore);
	if (semaphore->mutex && semaphore->scan.by_quorum)
		list_quorum_mutex(engine, semaphore, &probe);
	else if (semaphore->scan.again)
		list_again(engine, semaphore, &probe);
	else if (semaphore->scan.by_quorum)
		list_quorum_slots(engine, semaphore, &probe);
	else
		list_queues(engine, semaphore, &probe);
	probe_send(engine, &probe, on_probed, semaphore->scan.probe);
}

static void
begin(struct lock_engine *engine, struct semaphore *semaphore, bool again)
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
	if (window < WINDOW_FIRST && !semaphore->by_quorum)
		window = WINDOW_FIRST;
	if (window > WINDOW_MOST)
		window = WINDOW_MOST;
	begin(engine, semaphore, false);
	probe_window(engine, semaphore, 1, semaphore->mutex ? 1 : window);
}

bool
rescan_sees_all(const struct semaphore *semaphore)
{
	/* If many slots are free, the first window of a scan finds one at less cost. */
	int most = semaphore_has_free(semaphore) ? WINDOW_MOST : FLUSH_MOST;

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
	begin(engine, semaphore, true);
	semaphore->scan.for_new = for_new;
	if (!for_new && count > WINDOW_MOST) {
		first += (int)jitter_below(&engine->jitter, count);
		FAULT(RESCAN_FROM_FIRST, first = 1);
		count = WINDOW_MOST;
	}
	probe_window(engine, semaphore, first, count);
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
		probe_window(engine, semaphore, 1, 1);
		return;
	}
	probe_window(engine, semaphore, semaphore->scan.first + semaphore->scan.count,
	    window > WINDOW_MOST ? WINDOW_MOST : window);
}

void
scan_end_all(struct lock_engine *engine)
{
	struct semaphore *semaphore, *next;

	HASH_ITER (by_probe, engine->scans, semaphore, next) {
		HASH_DELETE(by_probe, engine->scans, semaphore);
		scan_set_state(semaphore, SCAN_SEEN);
	}
}

void
scan_end(struct semaphore *semaphore)
{
	scan_set_state(semaphore, SCAN_OVER);
}
