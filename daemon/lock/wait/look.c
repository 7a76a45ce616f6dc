#include "daemon/lock/wait/look.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/lock/core/probe.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/withheld.h"

/* The first window when nothing is known, and the largest; in slots, each of which costs two probes. */
#define WINDOW_FIRST 8
#define WINDOW_MOST 256

static void
look_set_state(struct semaphore *semaphore, enum look_state state)
{
	struct look *look = &semaphore->look;

	switch (state) {
	case LOOK_PROBING:
		assert(look->state != LOOK_PROBING && look->probe != 0);
		break;
	case LOOK_SEEN:
		assert(look->state == LOOK_PROBING);
		look->probe = 0;
		break;
	case LOOK_OVER:
		assert(look->state == LOOK_SEEN);
		break;
	}
	look->state = state;
}

bool
look_is_whole(const struct semaphore *semaphore)
{
	bool forgotten = semaphore->seen == INT64_MIN;

	return forgotten || semaphore->complete || semaphore->look.unknown ||
	       semaphore->look.again || semaphore->nature == SEMAPHORE_UNLIMITED;
}

static struct queue_name
b_of(const struct lock_engine *engine, const struct semaphore *semaphore, int slot)
{
	return registry_slot_queue(engine, semaphore->name,
	    semaphore->mutex ? LOCK_KIND_MUTEX : LOCK_KIND_SEMAPHORE, slot);
}

/*
 * What the broker said of a slot's B. One that is reserved here is busy, whatever that was; and so, for
 * the time being, is one that is left to those who were told of it.
 */
static void
take_b_answer(
    struct lock_engine *engine, struct semaphore *semaphore, int slot, enum broker_answer answer)
{
	struct queue_name b = b_of(engine, semaphore, slot);
	bool busy = answer != BROKER_ABSENT || hold_find_queue(&engine->holds, b.text) != NULL;
	bool spared = !busy && withheld_has(semaphore, slot);

	semaphore->look.spared |= spared;
	semaphore->look.unknown |= answer == BROKER_UNKNOWN;
	semaphore_saw_slot(semaphore, slot, busy || spared);
}

bool
look_is_guarded(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	return semaphore->mutex && queue_naming_mutex_is_admin(engine->settings.naming);
}

static bool
asks_for_markers(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	return semaphore->look.first == 1 &&
	       (!semaphore->mutex || look_is_guarded(engine, semaphore));
}

/* ---- what is asked ---- */

/* The queues of a window, in order. */
static void
list_queues(
    const struct lock_engine *engine, const struct semaphore *semaphore, struct probe *probe)
{
	const struct queue_naming *naming = engine->settings.naming;
	const struct look *look = &semaphore->look;
	const char *name = semaphore->name;
	bool markers = asks_for_markers(engine, semaphore);

	if (markers) {
		probe_add(probe, queue_name_gate(naming, name));
		probe_add(probe, queue_name_unlimited(naming, name));
	}
	for (int slot = look->first; !semaphore->mutex && slot < look->first + look->count;
	     slot++) {
		probe_add(probe, queue_name_a(naming, name, slot));
		probe_add(probe, queue_name_b(naming, name, slot));
	}
	if (look_is_guarded(engine, semaphore))
		probe_add(probe, queue_name_a(naming, name, 1));
	if (semaphore->mutex)
		probe_add(probe, queue_name_mutex(naming, name));
	if (markers)
		probe_add(probe, queue_name_gate(naming, name));
}

/* The slot whose B is the i-th that a rescan asks for. */
static int
again_slot(const struct semaphore *semaphore, int i)
{
	return 1 + (semaphore->look.first - 1 + i) % semaphore->size;
}

/* Of a rescan: first what would be news, then the Bs. */
static void
list_again(const struct lock_engine *engine, const struct semaphore *semaphore, struct probe *probe)
{
	const struct queue_naming *naming = engine->settings.naming;
	bool guarded = look_is_guarded(engine, semaphore);

	if (!semaphore->mutex || guarded) {
		int next = semaphore->mutex ? 1 : semaphore->size + 1;

		probe_add(probe, queue_name_unlimited(naming, semaphore->name));
		probe_add(probe, queue_name_a(naming, semaphore->name, next));
	}
	if (semaphore->nature == SEMAPHORE_GATE || guarded)
		probe_add(probe, queue_name_gate(naming, semaphore->name));
	for (int i = 0; i < semaphore->look.count; i++)
		probe_add(probe, b_of(engine, semaphore, again_slot(semaphore, i)));
}

/* ---- what was answered ---- */

/* Unknown goes before absent: where it counts that something is not there. */
static enum broker_answer
either(enum broker_answer one, enum broker_answer other)
{
	if (one == BROKER_OK || other == BROKER_OK)
		return BROKER_OK;
	return one == BROKER_ABSENT ? other : one;
}

static void
take_mutex_answer(
    struct lock_engine *engine, struct semaphore *semaphore, enum broker_answer answer)
{
	semaphore_saw_size(semaphore, 1, true);
	take_b_answer(engine, semaphore, 1, answer);
}

/*
 * answers: A and B of each slot of the window, in turn. Slots above the most there may be do not exist:
 * a broker that says yes to everything is not asked for ever.
 */
static void
take_slot_answers(
    struct lock_engine *engine, struct semaphore *semaphore, const enum broker_answer *answers)
{
	struct look *look = &semaphore->look;

	for (int i = 0; i < look->count; i++) {
		int slot = look->first + i;
		enum broker_answer a = answers[2 * i], b = answers[2 * i + 1];

		if (slot > engine->settings.slots_most)
			a = BROKER_ABSENT;
		FAULT_IF(PROBE_UNKNOWN_IS_ABSENT, a == BROKER_UNKNOWN, a = BROKER_ABSENT);
		switch (a) {
		case BROKER_ABSENT:
			semaphore_saw_size(semaphore, slot - 1, true);
			return;
		case BROKER_OK:
			semaphore_saw_size(semaphore, slot, false);
			take_b_answer(engine, semaphore, slot, b);
			break;
		default:
			semaphore_saw_size(semaphore, slot - 1, false);
			look->unknown = true;
			return;
		}
	}
}

/* A name that has any of `others` is a semaphore; what is not known to be none is not claimed. */
static void
take_guarded_answers(struct lock_engine *engine, struct semaphore *semaphore,
    enum broker_answer others, enum broker_answer mutex)
{
	switch (others) {
	case BROKER_OK:
		semaphore->nature = SEMAPHORE_NO_MUTEX;
		semaphore_saw_size(semaphore, 0, true);
		break;
	case BROKER_ABSENT:
		take_mutex_answer(engine, semaphore, mutex);
		break;
	default:
		semaphore->look.unknown = true;
		semaphore_saw_size(semaphore, 0, false);
		break;
	}
}

static void
take_first_window(struct lock_engine *engine, struct semaphore *semaphore,
    const enum broker_answer *answers, size_t count)
{
	enum broker_answer gate = either(answers[0], answers[count - 1]), unlimited = answers[1];
	const enum broker_answer *slots = answers + 2;

	FAULT_IF(PROBE_UNKNOWN_IS_ABSENT, gate != BROKER_OK, gate = BROKER_ABSENT);
	FAULT_IF(PROBE_UNKNOWN_IS_ABSENT, unlimited != BROKER_OK, unlimited = BROKER_ABSENT);
	if (semaphore->mutex) {
		enum broker_answer others = either(either(gate, unlimited), slots[0]);

		FAULT(MUTEX_TAKES_ADMIN, others = BROKER_ABSENT);
		take_guarded_answers(engine, semaphore, others, slots[1]);
		return;
	}
	FAULT_IF(GATE_IS_UNLIMITED, gate == BROKER_OK, unlimited = BROKER_OK);
	if (unlimited == BROKER_OK) {
		semaphore->nature = SEMAPHORE_UNLIMITED;
		semaphore_saw_size(semaphore, 0, false);
		return;
	}
	take_slot_answers(engine, semaphore, slots);
	semaphore->look.unknown |= unlimited != BROKER_ABSENT;
	if (semaphore->size > 0)
		return;
	if (gate == BROKER_OK)
		semaphore->nature = SEMAPHORE_GATE;
	FAULT(GATE_UNHEEDED, semaphore->nature = SEMAPHORE_PLAIN);
	semaphore->look.unknown |= gate != BROKER_OK && gate != BROKER_ABSENT;
	if (semaphore->look.unknown)
		semaphore_saw_size(semaphore, 0, false);
}

/* A rescan: whatever is there that was not, or the other way round, is found by a look. */
static void
take_again_answers(struct lock_engine *engine, struct semaphore *semaphore,
    const enum broker_answer *answers, size_t count)
{
	struct look *look = &semaphore->look;
	size_t others = count - (size_t)look->count;
	bool changed = look_is_guarded(engine, semaphore) && answers[others] == BROKER_ABSENT;

	for (size_t i = 0; i < others; i++) {
		bool was_there = semaphore->nature == SEMAPHORE_GATE && i == others - 1;

		look->unknown |= answers[i] == BROKER_UNKNOWN;
		changed |= answers[i] == (was_there ? BROKER_ABSENT : BROKER_OK);
	}
	if (changed) {
		semaphore_forget(semaphore);
		return;
	}
	for (int i = 0; i < look->count; i++)
		take_b_answer(
		    engine, semaphore, again_slot(semaphore, i), answers[others + (size_t)i]);
}

static void
take_answers(struct lock_engine *engine, struct semaphore *semaphore,
    const enum broker_answer *answers, size_t count)
{
	if (semaphore->look.forgotten || (semaphore->look.again && !look_again_will_do(semaphore)))
		return;
	semaphore->seen = semaphore->look.started;
	if (semaphore->look.again) {
		take_again_answers(engine, semaphore, answers, count);
		return;
	}
	if (semaphore->look.first == 1)
		semaphore->nature = SEMAPHORE_PLAIN;
	if (asks_for_markers(engine, semaphore))
		take_first_window(engine, semaphore, answers, count);
	else if (semaphore->mutex)
		take_mutex_answer(engine, semaphore, answers[0]);
	else
		take_slot_answers(engine, semaphore, answers);
}

static void
on_probed(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	struct lock_engine *engine = ctx;
	struct semaphore *semaphore;

	HASH_FIND(by_probe, engine->looks, &id, sizeof(id), semaphore);
	assert(semaphore != NULL);
	HASH_DELETE(by_probe, engine->looks, semaphore);
	look_set_state(semaphore, LOOK_SEEN);
	take_answers(engine, semaphore, answers, count);
	engine_poke(engine, semaphore);
}

static void
probe_window(struct lock_engine *engine, struct semaphore *semaphore, int first, int count)
{
	struct probe probe = {.count = 0};

	semaphore->look.first = first;
	semaphore->look.count = count;
	semaphore->look.probe = engine_id(engine);
	look_set_state(semaphore, LOOK_PROBING);
	HASH_ADD(by_probe, engine->looks, look.probe, sizeof(semaphore->look.probe), semaphore);
	if (semaphore->look.again)
		list_again(engine, semaphore, &probe);
	else
		list_queues(engine, semaphore, &probe);
	probe_send(engine, &probe, on_probed, semaphore->look.probe);
}

static void
begin(struct lock_engine *engine, struct semaphore *semaphore, bool again)
{
	struct look *look = &semaphore->look;

	assert(look->state == LOOK_OVER);
	look->number++;
	look->again = again;
	look->unknown = look->overtaken = look->forgotten = look->spared = false;
	look->started = engine_now(engine);
}

void
look_start(struct lock_engine *engine, struct semaphore *semaphore)
{
	/* One more than there were shows the gap, so that a full semaphore costs one flush. */
	int window = semaphore->size + 1;

	if (window < WINDOW_FIRST)
		window = WINDOW_FIRST;
	if (window > WINDOW_MOST)
		window = WINDOW_MOST;
	begin(engine, semaphore, false);
	probe_window(engine, semaphore, 1, semaphore->mutex ? 1 : window);
}

bool
look_again_will_do(const struct semaphore *semaphore)
{
	return semaphore->complete && semaphore->seen != INT64_MIN &&
	       (semaphore->nature == SEMAPHORE_GATE ||
		   (semaphore->nature == SEMAPHORE_PLAIN && semaphore->size > 0));
}

void
look_again(struct lock_engine *engine, struct semaphore *semaphore)
{
	int first = 1, count = semaphore->size;

	assert(look_again_will_do(semaphore));
	begin(engine, semaphore, true);
	if (count > WINDOW_MOST) {
		first += (int)jitter_below(&engine->jitter, count);
		count = WINDOW_MOST;
	}
	probe_window(engine, semaphore, first, count);
}

void
look_continue(struct lock_engine *engine, struct semaphore *semaphore)
{
	int window = 2 * semaphore->look.count;

	assert(semaphore->look.state == LOOK_SEEN && !look_is_whole(semaphore));
	probe_window(engine, semaphore, semaphore->look.first + semaphore->look.count,
	    window > WINDOW_MOST ? WINDOW_MOST : window);
}

void
look_end_all(struct lock_engine *engine)
{
	struct semaphore *semaphore, *next;

	HASH_ITER (by_probe, engine->looks, semaphore, next) {
		HASH_DELETE(by_probe, engine->looks, semaphore);
		look_set_state(semaphore, LOOK_SEEN);
	}
}

void
look_end(struct semaphore *semaphore)
{
	look_set_state(semaphore, LOOK_OVER);
}
