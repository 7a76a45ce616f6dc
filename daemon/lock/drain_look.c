#include "daemon/lock/drain_look.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/registry.h"

/* Rests between looks: doubled with each, from the first to the last; each is half of it to once and a half. */
#define REST_FIRST (20 * NSEC_PER_MSEC)
#define REST_MOST (500 * NSEC_PER_MSEC)
/* Until the second look at an absent B where it may be claimed again: holders look after 5 and 50 ms. */
#define REST_RECLAIMED (100 * NSEC_PER_MSEC)

static void
drain_set_state(struct drain *drain, enum drain_state state)
{
	assert(drain->state != state);
	drain->state = state;
}

int *
drain_slots_held(const struct drain *drain, size_t *ret_count)
{
	int *slots = mem_alloc((drain->left_count + 1) * sizeof(*slots));
	size_t count = 0;

	for (size_t i = 0; i < drain->left_count; i++) {
		if (drain->left[i].state == SLOT_HELD)
			slots[count++] = drain->left[i].slot;
	}
	*ret_count = count;
	return slots;
}

static void
tell_progress(struct lock_engine *engine, struct drain *drain)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_DRAIN, .request = drain->request};
	int *held;

	if (!drain->progress || !drain->changed)
		return;
	drain->changed = false;
	notice.name = awaited_name(&drain->awaited);
	notice.held = held = drain_slots_held(drain, &notice.held_count);
	if (notice.held_count > 0)
		engine_notice(engine, drain->peer, &notice);
	free(held);
}

static void probe_next(struct lock_engine *engine, struct drain *drain);

static void
take_answer(const struct lock_engine *engine, struct drain *drain, struct drain_slot *slot,
    enum broker_answer answer)
{
	enum slot_state before = slot->state;

	if (answer == BROKER_UNKNOWN) {
		drain->unknown = true;
		return;
	}
	drain->known = true;
	if (answer == BROKER_OK ||
	    (drain->kind != DRAIN_TAKEN &&
		registry_is_reserved(engine, awaited_name(&drain->awaited), LOCK_KIND_SEMAPHORE, slot->slot)))
		slot->state = SLOT_HELD;
	else if (before == SLOT_ABSENT || FAULT(ABSENT_ONCE_IS_GONE))
		slot->state = SLOT_GONE;
	else
		slot->state = SLOT_ABSENT;
	if ((before == SLOT_HELD) != (slot->state == SLOT_HELD))
		drain->changed = true;
}

/* Those that are gone leave. Returns how many are absent for the first time. */
static size_t
sort_out(struct drain *drain)
{
	size_t kept = 0, absent = 0;

	for (size_t i = 0; i < drain->left_count; i++) {
		if (drain->left[i].state == SLOT_GONE)
			continue;
		absent += drain->left[i].state == SLOT_ABSENT;
		drain->left[kept++] = drain->left[i];
	}
	drain->left_count = kept;
	return absent;
}

static void
rest(struct lock_engine *engine, struct drain *drain, bool confirms)
{
	struct broker_info info;
	int64_t ns;

	if (drain->awaited.freed)
		drain->rest = REST_FIRST;
	drain->awaited.freed = false;
	ns = drain->rest / 2 + jitter_below(&engine->jitter, drain->rest);
	if (confirms) {
		broker_get_info(engine->broker, &info);
		ns = info.deletes_by_name ? REST_RECLAIMED : REST_FIRST;
	} else {
		drain->rest = drain->rest > REST_MOST / 2 ? REST_MOST : 2 * drain->rest;
	}
	drain_set_state(drain, DRAIN_RESTING);
	timers_set(engine->timers, &drain->awaited.rest, engine_now(engine) + ns);
}

/* A wait for a slot that is taken has it when it is held; one for others, when none is left. */
static bool
is_over(const struct drain *drain)
{
	return drain->kind == DRAIN_TAKEN ? drain->left[0].state == SLOT_HELD
					  : drain->left_count == 0;
}

static void
look_is_done(struct lock_engine *engine, struct drain *drain)
{
	bool is_try = drain->timeout == 0, confirms;
	struct broker_info info;

	confirms = drain->kind != DRAIN_TAKEN && sort_out(drain) > 0;
	broker_get_info(engine->broker, &info);
	if (is_over(drain))
		drain_finish_done(engine, drain);
	else if (drain->unknown && (is_try || info.probes_refused[0] != '\0'))
		drain_finish_unknown(engine, drain);
	else if (is_try && !confirms)
		drain_finish_timeout(engine, drain);
	else {
		tell_progress(engine, drain);
		rest(engine, drain, confirms);
	}
}

static void
on_probed(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	struct lock_engine *engine = ctx;
	struct drain *drain = drain_find(engine, id);

	if (drain == NULL)
		return; /* answered meanwhile */
	assert(drain->state == DRAIN_LOOKING && count == drain->count);
	for (size_t i = 0; i < count; i++)
		take_answer(engine, drain, &drain->left[drain->at + i], answers[i]);
	drain->at += count;
	if (drain->at < drain->left_count)
		probe_next(engine, drain);
	else
		look_is_done(engine, drain);
}

static void
probe_next(struct lock_engine *engine, struct drain *drain)
{
	size_t count = drain->left_count - drain->at;
	struct queue_name *names;
	const char **texts;

	if (count > BROKER_PROBE_MAX)
		count = BROKER_PROBE_MAX;
	names = mem_alloc(count * sizeof(*names));
	texts = mem_alloc(count * sizeof(*texts));
	for (size_t i = 0; i < count; i++) {
		names[i] = (FAULT(HOLDERS_BY_A) ? queue_name_a : queue_name_b)(
		    engine->settings.naming, awaited_name(&drain->awaited), drain->left[drain->at + i].slot);
		texts[i] = names[i].text;
	}
	drain->count = count;
	broker_probe(
	    engine->broker, texts, count, (struct broker_probe_done){on_probed, engine, drain->id});
	free(texts);
	free(names);
}

void
drain_look(struct lock_engine *engine, struct drain *drain)
{
	drain_set_state(drain, DRAIN_LOOKING);
	drain->at = 0;
	drain->unknown = false;
	probe_next(engine, drain);
}

static void
rest_is_over(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	drain_look(engine, drain_find(engine, id));
}

void
drain_look_init(struct lock_engine *engine, struct drain *drain)
{
	drain->state = DRAIN_RESTING;
	drain->rest = REST_FIRST;
	timer_init(&drain->awaited.rest, rest_is_over, engine, drain->id);
}
