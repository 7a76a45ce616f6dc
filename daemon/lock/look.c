#include "daemon/lock/look.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/claim.h"

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
	return semaphore->complete || semaphore->look.unknown;
}

/* A slot that is reserved here is taken, whatever the broker says of its B. */
static bool
is_reserved(struct lock_engine *engine, const struct semaphore *semaphore, int slot)
{
	enum lock_kind kind = semaphore->mutex ? LOCK_KIND_MUTEX : LOCK_KIND_SEMAPHORE;
	struct queue_name b = claim_queue(engine, semaphore->name, kind, slot);

	return hold_find_queue(&engine->holds, b.text) != NULL;
}

static void
take_mutex_answer(
    struct lock_engine *engine, struct semaphore *semaphore, enum broker_answer answer)
{
	semaphore_saw_size(semaphore, 1, true);
	semaphore_saw_slot(
	    semaphore, 1, answer != BROKER_ABSENT || is_reserved(engine, semaphore, 1));
	semaphore->look.unknown = answer == BROKER_UNKNOWN;
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

		if (slot > engine->settings.slots_most ||
		    (FAULT(PROBE_UNKNOWN_IS_ABSENT) && a == BROKER_UNKNOWN))
			a = BROKER_ABSENT;
		switch (a) {
		case BROKER_ABSENT:
			semaphore_saw_size(semaphore, slot - 1, true);
			return;
		case BROKER_OK:
			semaphore_saw_size(semaphore, slot, false);
			semaphore_saw_slot(semaphore, slot,
			    b != BROKER_ABSENT || is_reserved(engine, semaphore, slot));
			look->unknown |= b == BROKER_UNKNOWN;
			break;
		default:
			semaphore_saw_size(semaphore, slot - 1, false);
			look->unknown = true;
			return;
		}
	}
}

static void
on_probed(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	struct lock_engine *engine = ctx;
	struct semaphore *semaphore;

	HASH_FIND(by_probe, engine->looks, &id, sizeof(id), semaphore);
	assert(semaphore != NULL &&
	       count == (size_t)semaphore->look.count * (semaphore->mutex ? 1 : 2));
	HASH_DELETE(by_probe, engine->looks, semaphore);
	look_set_state(semaphore, LOOK_SEEN);
	semaphore->seen = semaphore->look.started;
	if (semaphore->mutex)
		take_mutex_answer(engine, semaphore, answers[0]);
	else
		take_slot_answers(engine, semaphore, answers);
	engine_poke(engine, semaphore);
}

static void
probe_window(struct lock_engine *engine, struct semaphore *semaphore, int first, int count)
{
	size_t per_slot = semaphore->mutex ? 1 : 2, queues = (size_t)count * per_slot;
	struct queue_name *names = mem_alloc(queues * sizeof(*names));
	const char **texts = mem_alloc(queues * sizeof(*texts));

	for (int i = 0; i < count; i++) {
		if (semaphore->mutex) {
			names[i] = queue_name_mutex(engine->settings.naming, semaphore->name);
			continue;
		}
		names[2 * i] = queue_name_a(engine->settings.naming, semaphore->name, first + i);
		names[2 * i + 1] =
		    queue_name_b(engine->settings.naming, semaphore->name, first + i);
	}
	for (size_t i = 0; i < queues; i++)
		texts[i] = names[i].text;
	semaphore->look.first = first;
	semaphore->look.count = count;
	semaphore->look.probe = engine_id(engine);
	look_set_state(semaphore, LOOK_PROBING);
	HASH_ADD(by_probe, engine->looks, look.probe, sizeof(semaphore->look.probe), semaphore);
	broker_probe(engine->broker, texts, queues,
	    (struct broker_probe_done){on_probed, engine, semaphore->look.probe});
	free(texts);
	free(names);
}

void
look_start(struct lock_engine *engine, struct semaphore *semaphore)
{
	/* One more than there were shows the gap, so that a full semaphore costs one flush. */
	int window = semaphore->size + 1;

	assert(semaphore->look.state == LOOK_OVER);
	if (window < WINDOW_FIRST)
		window = WINDOW_FIRST;
	if (window > WINDOW_MOST)
		window = WINDOW_MOST;
	semaphore->look.number++;
	semaphore->look.unknown = false;
	semaphore->look.overtaken = false;
	semaphore->look.started = engine_now(engine);
	probe_window(engine, semaphore, 1, semaphore->mutex ? 1 : window);
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
