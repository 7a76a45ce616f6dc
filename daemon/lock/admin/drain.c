#include "daemon/lock/admin/drain.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin/shared_probe.h"
#include "daemon/lock/core/awaited.h"
#include "daemon/lock/core/probe.h"
#include "daemon/lock/core/registry.h"
#include "protocol/duration.h"

enum drain_kind {
	DRAIN_REMOVED, /* slots that are no more: until nobody holds them */
	DRAIN_FREE,    /* one slot: until nobody holds it */
	DRAIN_BUSY     /* one slot: until somebody does */
};

enum drain_state {
	DRAIN_RESTING, /* the timer is set; or its shared probe is to be answered */
	DRAIN_LOOKING  /* a probe of slots left[at .. at + count - 1] is in flight */
};

enum slot_state {
	SLOT_UNSEEN, /* nothing is known */
	SLOT_HELD,
	SLOT_ABSENT, /* in the last look at it, and not in the one before */
	SLOT_GONE    /* in two looks in a row: it leaves */
};

struct drain_slot {
	int slot;
	enum slot_state state;
};

struct drain {
	uint64_t id;
	uint64_t peer, request;
	enum drain_kind kind;
	enum drain_state state;
	struct awaited awaited;    /* its name, its slots, and its rest between looks */
	struct shared_asker asker; /* FREE, BUSY: its looks */
	struct drain_slot *left;
	size_t left_count, at, count;
	bool known;      /* something was ever learned of a slot */
	bool unknown;    /* of the look in progress or last: some answer was */
	bool changed;    /* of what was told: who is left */
	int64_t timeout; /* 0: it ends with a look that leaves nothing to be confirmed */
	int64_t rest;
	int64_t confirm_from; /* clock time before which no look is the second at what is ABSENT */
	bool progress;
	struct lock_answer answer; /* REMOVED: when they are gone; owns its text and warning */
	struct timer deadline;
	UT_hash_handle by_id;
	TAILQ_ENTRY(drain) of_peer;
};

/* How much later than its deadline a wait may end, for a second look at what was absent in the first. */
#define CONFIRM_MOST (1 * NSEC_PER_SEC)

/* Rests between looks: doubled with each, from the first to the last; each is half of it to once and a half. */
#define REST_FIRST (20 * NSEC_PER_MSEC)
#define REST_MOST (500 * NSEC_PER_MSEC)
/* Until the second look at an absent B where it may be claimed again: holders look after 5 and 50 ms. */
#define REST_RECLAIMED (100 * NSEC_PER_MSEC)

ENGINE_FIND(drain_find, struct drain, drains, by_id)

static void
drain_free(struct lock_engine *engine, struct drain *drain)
{
	struct lock_peer *peer = engine_peer_find(engine, drain->peer);

	timers_cancel(engine->timers, &drain->deadline);
	HASH_DELETE(by_id, engine->drains, drain);
	shared_probe_leave(engine, &drain->asker);
	awaited_end(engine, &drain->awaited);
	TAILQ_REMOVE(&peer->drains, drain, of_peer);
	peer->drain_count--;
	registry_peer_let_go(engine, peer);
	free(drain->left);
	free((char *)drain->answer.text);
	free((char *)drain->answer.warning);
	free(drain);
}

/* ---- the end ---- */

/* The slots that were held when they were looked at last. To be freed. */
static int *
slots_held(const struct drain *drain, size_t *ret_count)
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

/* Answers, and frees the drain; `answer` may borrow its words. */
static void
finish(struct lock_engine *engine, struct drain *drain, struct lock_answer *answer)
{
	uint64_t peer = drain->peer, request = drain->request;
	int *held = NULL;

	answer->name = awaited_name(&drain->awaited);
	if (drain->kind == DRAIN_REMOVED) {
		answer->kind = drain->answer.kind;
		answer->slots = drain->answer.slots;
		answer->target = drain->answer.target;
		answer->warning = drain->answer.warning;
		if (answer->reason != REASON_NONE)
			answer->held = held = slots_held(drain, &answer->held_count);
	} else {
		answer->slot = drain->left[0].slot;
	}
	engine_tell(engine, peer, request, answer);
	free(held);
	drain_free(engine, drain);
}

static void
finish_refused(
    struct lock_engine *engine, struct drain *drain, enum reason reason, const char *text)
{
	struct lock_answer answer = engine_refusal(reason, text);

	finish(engine, drain, &answer);
}

static void
finish_done(struct lock_engine *engine, struct drain *drain)
{
	struct lock_answer answer =
	    drain->kind == DRAIN_REMOVED ? drain->answer : engine_refusal(REASON_NONE, NULL);

	finish(engine, drain, &answer);
}

/* The broker did not say. */
static void
finish_unknown(struct lock_engine *engine, struct drain *drain)
{
	struct lock_answer answer =
	    engine_refusal_unknown(engine, "the broker did not say whether the slot is held");

	if (drain->kind == DRAIN_REMOVED && answer.reason == REASON_BROKER_UNAVAILABLE)
		answer.text = "the broker did not say whether the removed slots are held";
	finish(engine, drain, &answer);
}

static size_t
count_held(const struct drain *drain)
{
	size_t held = 0;

	for (size_t i = 0; i < drain->left_count; i++)
		held += drain->left[i].state == SLOT_HELD;
	return held;
}

static void
finish_timeout(struct lock_engine *engine, struct drain *drain)
{
	static const char *const of_one[] = {"", "it is still busy", "it is still free"};
	char text[96];
	size_t held = count_held(drain);

	snprintf(text, sizeof(text), "%s", of_one[drain->kind]);
	if (drain->kind == DRAIN_REMOVED)
		snprintf(text, sizeof(text), "%zu of the removed slots %s still busy", held,
		    held == 1 ? "is" : "are");
	finish_refused(engine, drain, REASON_TIMEOUT, text);
}

static void
deadline_passed(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct drain *drain = drain_find(engine, id);

	if (!drain->known || drain->timeout == 0) {
		finish_unknown(engine, drain);
	} else if (count_held(drain) > 0 || drain->kind == DRAIN_BUSY) {
		finish_timeout(engine, drain);
	} else {
		/* Nobody is known to hold what is left: the look that is due says so, or who does. */
		drain->timeout = 0;
		timers_set(engine->timers, &drain->deadline, engine_now(engine) + CONFIRM_MOST);
	}
}

/* ---- looking at the Bs ---- */

static void
drain_set_state(struct drain *drain, enum drain_state state)
{
	assert(drain->state != state);
	drain->state = state;
}

static void
tell_progress(struct lock_engine *engine, struct drain *drain)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_HOLDERS, .request = drain->request};
	int *held;

	if (!drain->progress || !drain->changed)
		return;
	drain->changed = false;
	notice.name = awaited_name(&drain->awaited);
	notice.held = held = slots_held(drain, &notice.held_count);
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
	if (answer == BROKER_OK || (drain->kind != DRAIN_BUSY &&
				       registry_is_reserved(engine, awaited_name(&drain->awaited),
					   LOCK_KIND_SEMAPHORE, slot->slot)))
		slot->state = SLOT_HELD;
	else if (before == SLOT_ABSENT)
		slot->state = SLOT_GONE;
	else
		slot->state = SLOT_ABSENT;
	FAULT_IF(ABSENT_ONCE_IS_GONE, slot->state == SLOT_ABSENT, slot->state = SLOT_GONE);
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
	drain->confirm_from = engine_now(engine) + ns;
	drain_set_state(drain, DRAIN_RESTING);
	timers_set(engine->timers, &drain->awaited.rest, engine_now(engine) + ns);
}

static void
look_is_done(struct lock_engine *engine, struct drain *drain)
{
	bool is_try = drain->timeout == 0, confirms;
	struct broker_info info;

	confirms = drain->kind != DRAIN_BUSY && sort_out(drain) > 0;
	broker_get_info(engine->broker, &info);
	/* A wait for a slot that is busy has it when it is held; one for others, when none is left. */
	if (drain->kind == DRAIN_BUSY ? drain->left[0].state == SLOT_HELD : drain->left_count == 0)
		finish_done(engine, drain);
	else if (drain->unknown && (is_try || info.probes_refused[0] != '\0'))
		finish_unknown(engine, drain);
	else if (is_try && !confirms)
		finish_timeout(engine, drain);
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

static struct queue_name
b_of(const struct lock_engine *engine, const struct drain *drain, int slot)
{
	const struct queue_naming *naming = engine->settings.naming;
	const char *name = awaited_name(&drain->awaited);
	struct queue_name queue = queue_name_b(naming, name, slot);

	FAULT(HOLDERS_BY_A, queue = queue_name_a(naming, name, slot));
	return queue;
}

static void
probe_next(struct lock_engine *engine, struct drain *drain)
{
	struct probe probe = {.count = 0};

	for (size_t i = drain->at; i < drain->left_count && probe.count < BROKER_PROBE_MAX; i++)
		probe_add(&probe, b_of(engine, drain, drain->left[i].slot));
	drain->count = probe.count;
	probe_send(engine, &probe, on_probed, drain->id);
}

/* Of a wait for one slot: a look that it shares with all who wait for that. */
static void
on_seen(struct lock_engine *engine, uint64_t id, enum broker_answer answer, int64_t sent)
{
	struct drain *drain = drain_find(engine, id);

	if (drain->kind == DRAIN_FREE && drain->left[0].state == SLOT_ABSENT &&
	    answer == BROKER_ABSENT && sent < drain->confirm_from) {
		/* Another wait asked, too soon for the second look. */
		if (!timer_is_set(&drain->awaited.rest))
			timers_set(engine->timers, &drain->awaited.rest, drain->confirm_from);
		return;
	}
	drain_set_state(drain, DRAIN_LOOKING);
	drain->unknown = false;
	take_answer(engine, drain, &drain->left[0], answer);
	look_is_done(engine, drain);
}

static void
look(struct lock_engine *engine, struct drain *drain)
{
	struct queue_name b;

	if (drain->kind != DRAIN_REMOVED) {
		b = b_of(engine, drain, drain->left[0].slot);
		shared_probe_ask(engine, &drain->asker, &b);
		return;
	}
	drain_set_state(drain, DRAIN_LOOKING);
	drain->at = 0;
	drain->unknown = false;
	probe_next(engine, drain);
}

static void
rest_is_over(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	look(engine, drain_find(engine, id));
}

/* ---- the doors ---- */

/* Begins the wait. A peer that cannot know is told why nothing comes of it. */
static void
begin(struct lock_engine *engine, struct drain *drain)
{
	if (engine->link != BROKER_UP)
		engine_tell_broker(engine, drain->peer);
	look(engine, drain);
}

/* Why a wait is not even begun; REASON_NONE when it is. */
static enum reason
refusal_at_the_door(
    const struct lock_engine *engine, uint64_t peer, int64_t timeout, struct lock_answer *ret)
{
	const struct lock_peer *entry = engine_peer_find(engine, peer);
	struct broker_info info;
	bool draining = engine->draining;

	FAULT(DRAIN_LETS_WAIT, draining = false);
	broker_get_info(engine->broker, &info);
	if (draining)
		*ret = engine_refusal(REASON_DRAINING, NULL);
	else if (entry != NULL && entry->waiter_count + entry->drain_count >=
				      engine->settings.max_waits_per_connection)
		*ret = engine_refusal(REASON_TOO_MANY_WAITERS,
		    "this connection has as many waiting requests as it may have");
	else if (info.locks == BROKER_LOGIN_REFUSED)
		*ret = engine_refusal(REASON_BROKER_REFUSED, info.why);
	else if (engine->link != BROKER_UP && timeout == 0)
		*ret = engine_refusal(REASON_BROKER_UNAVAILABLE, info.why);
	else
		*ret = engine_refusal(REASON_NONE, NULL);
	return ret->reason;
}

static struct drain *
drain_new(struct lock_engine *engine, const struct drain_order *order, enum drain_kind kind)
{
	struct drain *drain = mem_alloc(sizeof(*drain));
	struct lock_peer *peer = registry_peer(engine, order->peer);

	drain->id = engine_id(engine);
	drain->peer = order->peer;
	drain->request = order->request;
	drain->kind = kind;
	drain->asker.id = drain->id;
	drain->asker.uid = order->uid;
	drain->asker.seen = on_seen;
	drain->timeout = order->timeout;
	drain->progress = order->progress;
	drain->left_count = (size_t)(order->last - order->first + 1);
	drain->left = mem_alloc(drain->left_count * sizeof(*drain->left));
	for (size_t i = 0; i < drain->left_count; i++)
		drain->left[i].slot = order->first + (int)i;
	if (order->answer != NULL) {
		drain->answer = *order->answer;
		drain->answer.text = mem_strdup(order->answer->text);
		drain->answer.warning = mem_strdup(order->answer->warning);
	}
	drain->awaited.first = order->first;
	/* Who waits for a slot to be busy does not care. */
	drain->awaited.last = kind == DRAIN_BUSY ? 0 : order->last;
	awaited_begin(engine, &drain->awaited, order->name);
	HASH_ADD(by_id, engine->drains, id, sizeof(drain->id), drain);
	TAILQ_INSERT_TAIL(&peer->drains, drain, of_peer);
	peer->drain_count++;
	drain->state = DRAIN_RESTING;
	drain->rest = REST_FIRST;
	timer_init(&drain->awaited.rest, rest_is_over, engine, drain->id);
	timer_init(&drain->deadline, deadline_passed, engine, drain->id);
	if (order->timeout != DURATION_FOREVER)
		timers_set(engine->timers, &drain->deadline,
		    engine_now(engine) +
			(order->timeout != 0 ? order->timeout : engine->settings.request_timeout));
	return drain;
}

void
drain_start(struct lock_engine *engine, const struct drain_order *order)
{
	struct drain_order possible = *order;
	struct lock_answer answer;

	assert(order->first >= 1 && order->last >= order->first);
	if (possible.last > engine->settings.slots_most)
		possible.last = engine->settings.slots_most;
	if (possible.last < possible.first) {
		engine_tell(engine, order->peer, order->request, order->answer);
		return; /* there can be no such holders */
	}
	if (refusal_at_the_door(engine, order->peer, order->timeout, &answer) == REASON_NONE) {
		begin(engine, drain_new(engine, &possible, DRAIN_REMOVED));
		return;
	}
	answer.name = order->name;
	answer.kind = order->answer->kind;
	answer.slots = order->answer->slots;
	answer.target = order->answer->target;
	answer.warning = order->answer->warning;
	engine_tell(engine, order->peer, order->request, &answer);
}

void
lock_await(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_await *await)
{
	struct drain_order order = {.peer = peer,
	    .request = request,
	    .uid = await->uid,
	    .name = await->name,
	    .first = await->slot,
	    .last = await->slot,
	    .timeout = await->timeout};
	struct lock_answer answer;

	assert(!engine->telling && peer != 0);
	if (await->slot < 1 || await->slot > engine->settings.slots_most) {
		answer = engine_refusal(REASON_INVALID_PARAMS, "slot: no such slot");
		answer.parameter = "slot";
	} else if (refusal_at_the_door(engine, peer, await->timeout, &answer) == REASON_NONE) {
		begin(engine, drain_new(engine, &order, await->busy ? DRAIN_BUSY : DRAIN_FREE));
		return;
	}
	answer.name = await->name;
	engine_tell(engine, peer, request, &answer);
}

bool
drain_cancel(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct lock_peer *entry = engine_peer_find(engine, peer);
	struct drain *drain;

	if (entry == NULL)
		return false;
	TAILQ_FOREACH (drain, &entry->drains, of_peer) {
		if (drain->request == request) {
			finish_refused(engine, drain, REASON_CANCELLED, NULL);
			return true;
		}
	}
	return false;
}

void
drain_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	struct lock_peer *entry;

	/* The entry goes with the last of what it holds and waits for. */
	while ((entry = engine_peer_find(engine, peer)) != NULL && !TAILQ_EMPTY(&entry->drains))
		drain_free(engine, TAILQ_FIRST(&entry->drains));
}

void
drain_end_all(struct lock_engine *engine, const struct lock_answer *answer)
{
	struct drain *drain, *next;

	/* Answering calls nobody back into the engine: no other drain goes meanwhile. */
	HASH_ITER (by_id, engine->drains, drain, next)
		finish_refused(engine, drain, answer->reason, answer->text);
}

void
drain_link_changed(struct lock_engine *engine, const char *why)
{
	struct drain *drain, *next;

	HASH_ITER (by_id, engine->drains, drain, next) {
		if (engine->link == BROKER_LOGIN_REFUSED)
			finish_refused(engine, drain, REASON_BROKER_REFUSED, why);
		else if (engine->link == BROKER_DOWN && drain->timeout == 0)
			finish_refused(engine, drain, REASON_BROKER_UNAVAILABLE, why);
	}
}

void
drain_free_all(struct lock_engine *engine)
{
	struct drain *drain, *next;

	HASH_ITER (by_id, engine->drains, drain, next)
		drain_free(engine, drain);
}
