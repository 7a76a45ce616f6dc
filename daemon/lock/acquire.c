#include "daemon/lock/acquire.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/keep.h"
#include "daemon/lock/lease.h"
#include "daemon/lock/look.h"
#include "daemon/lock/pulse.h"
#include "daemon/lock/watch.h"
#include "protocol/duration.h"
#include "protocol/methods.h"

/* Ceilings of the random rest after a lost race: doubled with each, from the first to the last. */
#define REST_FIRST (2 * NSEC_PER_MSEC)
#define REST_MOST (256 * NSEC_PER_MSEC)

static bool
waiter_change_is_allowed(enum waiter_state from, enum waiter_state to)
{
	switch (from) {
	case WAITER_QUEUED:
		return to == WAITER_CLAIMING;
	case WAITER_CLAIMING:
		return to == WAITER_QUEUED || to == WAITER_RESTING;
	case WAITER_RESTING:
		return to == WAITER_QUEUED;
	}
	return false;
}

static void
waiter_set_state(struct waiter *waiter, enum waiter_state state)
{
	struct lock_peer *peer = engine_peer_find(waiter->semaphore->engine, waiter->peer);

	assert(waiter_change_is_allowed(waiter->state, state));
	if (waiter->state == WAITER_CLAIMING)
		peer->claim_count--;
	if (state == WAITER_CLAIMING)
		peer->claim_count++;
	waiter->state = state;
	if (state != WAITER_CLAIMING)
		waiter->hold = 0;
}

/* Back to its place in the line, from which it wants another look. */
static void
send_back(struct waiter *waiter)
{
	waiter_set_state(waiter, WAITER_QUEUED);
	waiter->joined = waiter->semaphore->look.number;
}

static void
refuse(struct lock_engine *engine, struct waiter *waiter, enum reason reason, const char *text)
{
	struct lock_answer answer = engine_refusal(reason, text);

	answer.name = waiter->semaphore->name;
	engine_waiter_end(engine, waiter, &answer);
}

/* What a request that cannot reach the broker is told; the words are the broker's or the system's. */
static void
refuse_for_link(struct lock_engine *engine, struct waiter *waiter)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	refuse(engine, waiter,
	    info.hold == BROKER_DENIED ? REASON_BROKER_DENIED : REASON_BROKER_UNAVAILABLE,
	    info.why);
}

/* ---- the beginning, and the end by time ---- */

static void
deadline_passed(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct waiter *waiter = engine_waiter_find(engine, id);

	assert(waiter != NULL);
	if (engine->link != BROKER_UP) {
		refuse_for_link(engine, waiter);
	} else if (waiter->timeout == 0) {
		refuse(
		    engine, waiter, REASON_BROKER_UNAVAILABLE, "the broker did not answer in time");
	} else {
		struct lock_answer answer = engine_full(waiter->semaphore, REASON_TIMEOUT);

		engine_waiter_end(engine, waiter, &answer);
	}
}

/* A wait that begins while the broker is away: the peer is told why nothing comes of it. */
static void
tell_broker(struct lock_engine *engine, uint64_t peer)
{
	struct broker_info info;
	struct lock_notice notice = {.kind = LOCK_NOTICE_BROKER};

	broker_get_info(engine->broker, &info);
	notice.state = info.hold;
	notice.text = info.why;
	engine_notice(engine, peer, &notice);
}

static void
rest_is_over(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct waiter *waiter = engine_waiter_find(engine, id);

	assert(waiter != NULL);
	send_back(waiter);
	engine_poke(engine, waiter->semaphore);
}

static const char peer_is_full[] = "this connection holds as many locks as it may";

/* Why a new acquire is not even begun; REASON_NONE when it is. */
static enum reason
refusal_at_the_door(const struct lock_engine *engine, uint64_t peer, const char **ret_text)
{
	const struct lock_peer *entry = engine_peer_find(engine, peer);

	*ret_text = NULL;
	if (engine->draining && !FAULT(DRAIN_LETS_IN))
		return REASON_DRAINING;
	if (entry == NULL)
		return REASON_NONE;
	if (entry->hold_count >= engine->settings.max_locks_per_peer) {
		*ret_text = peer_is_full;
		return REASON_TOO_MANY_LOCKS;
	}
	if (entry->waiter_count >= engine->settings.max_waits_per_peer) {
		*ret_text = "this connection waits for as many locks as it may";
		return REASON_TOO_MANY_WAITERS;
	}
	return REASON_NONE;
}

void
acquire_start(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_acquire *acquire)
{
	const char *text;
	enum reason reason = refusal_at_the_door(engine, peer, &text);
	int64_t now = engine_now(engine), patience = acquire->timeout;
	struct waiter *waiter;

	if (reason != REASON_NONE) {
		struct lock_answer answer = engine_refusal(reason, text);

		engine->total.refused++;
		engine_tell(engine, peer, request, &answer);
		return;
	}
	waiter = mem_alloc(sizeof(*waiter));
	waiter->id = engine_id(engine);
	waiter->peer = peer;
	waiter->request = request;
	waiter->kind = acquire->kind;
	waiter->semaphore =
	    engine_semaphore(engine, acquire->name, acquire->kind == LOCK_KIND_MUTEX);
	waiter->priority = acquire->priority;
	waiter->timeout = acquire->timeout;
	waiter->started = now;
	waiter->progress = acquire->progress;
	waiter->lease = acquire->lease;
	waiter->uid = acquire->uid;
	waiter->joined = waiter->semaphore->look.number;
	if (acquire->kind != LOCK_KIND_MUTEX)
		waiter->behind = admin_of_peer(engine, peer, acquire->name);
	timer_init(&waiter->deadline, deadline_passed, engine, waiter->id);
	timer_init(&waiter->rest, rest_is_over, engine, waiter->id);
	engine_waiter_attach(engine, waiter);
	if (patience == 0)
		patience = engine->settings.request_timeout;
	if (patience != DURATION_FOREVER && !FAULT(WAIT_WITHOUT_END))
		timers_set(engine->timers, &waiter->deadline, now + patience);
	if (engine->link == BROKER_UP)
		engine_poke(engine, waiter->semaphore);
	else if (engine->link == BROKER_DENIED || acquire->timeout == 0)
		refuse_for_link(engine, waiter);
	else
		tell_broker(engine, peer);
}

void
acquire_end_all(struct lock_engine *engine, const struct lock_answer *answer)
{
	struct waiter *waiter;

	while ((waiter = engine->waiters) != NULL) {
		struct lock_answer its = *answer;

		its.name = waiter->semaphore->name;
		engine_waiter_end(engine, waiter, &its);
	}
}

void
acquire_admin_done(struct lock_engine *engine, const char *name, uint64_t admin, enum reason reason,
    const char *text)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, name, false);

	(void)reason;
	(void)text;
	if (semaphore == NULL)
		return;
	/* What was known of its slots is old news. */
	semaphore_forget(semaphore);
	semaphore_line_let_on(semaphore, admin);
	engine_poke(engine, semaphore);
}

void
acquire_link_changed(struct lock_engine *engine, const char *why)
{
	struct waiter *waiter, *next;

	HASH_ITER (by_id, engine->waiters, waiter, next) {
		if (waiter->state == WAITER_CLAIMING && engine->link != BROKER_UP &&
		    !FAULT(LINK_FORGETS_WAITER))
			waiter_set_state(waiter, WAITER_QUEUED);
		waiter->direct = 0;
		waiter->joined = waiter->semaphore->look.number;
		if (engine->link == BROKER_DENIED)
			refuse(engine, waiter, REASON_BROKER_DENIED, why);
		else if (engine->link == BROKER_DOWN && waiter->timeout == 0)
			refuse(engine, waiter, REASON_BROKER_UNAVAILABLE, why);
	}
	for (struct semaphore *s = engine->semaphores; s != NULL; s = s->by_key.next) {
		semaphore_forget(s);
		engine_poke(engine, s);
	}
}

/* ---- one claim ---- */

static void
grant(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	struct lock_answer answer = engine_refusal(REASON_NONE, NULL);

	if (!lease_is_good(engine) && !FAULT(GRANT_BY_TIMER)) {
		/* B may have been freed since. The link's end sends this acquire back to the line. */
		pulse_run_out(engine);
		return;
	}
	hold->acquire = 0;
	hold->asked = 0;
	hold->wants_lease = waiter->lease;
	hold->uid = waiter->uid;
	engine_hold_attach(engine, hold, waiter->peer);
	hold_set_state(&engine->holds, hold, HOLD_HELD);
	keep_start(engine, hold);
	pulse_granted(engine, hold);
	watch_start(engine, hold);
	answer.safe_until = lease_until(engine);
	answer.lock = hold->id;
	answer.name = hold->name;
	answer.kind = hold->kind;
	answer.slot = hold->slot;
	answer.waited = engine_now(engine) - waiter->started;
	waiter->hold = 0;
	engine_waiter_end(engine, waiter, &answer);
}

static void
rest(struct lock_engine *engine, struct waiter *waiter)
{
	int64_t ceiling = REST_FIRST;

	for (unsigned i = 1; i < waiter->races + waiter->skips && ceiling < REST_MOST; i++)
		ceiling *= 2;
	waiter_set_state(waiter, WAITER_RESTING);
	timers_set(engine->timers, &waiter->rest,
	    engine_now(engine) + jitter_below(&engine->jitter, ceiling));
}

/* The slot went to somebody else, or was not there: another try, unless there were too many. */
static void
lose_race(struct lock_engine *engine, struct waiter *waiter)
{
	if (++waiter->races > engine->settings.max_races)
		refuse(engine, waiter, REASON_CONTENDED, NULL);
	else
		rest(engine, waiter);
}

/* The same where slots are claimed unseen: each is tried once, up to the first that is not there. */
static void
go_on_unseen(struct lock_engine *engine, struct waiter *waiter, int slot, bool no_slot)
{
	if (no_slot && slot == 1) {
		refuse(engine, waiter, REASON_NO_SUCH_LOCK, NULL);
		return;
	}
	if (no_slot)
		semaphore_saw_size(waiter->semaphore, slot - 1, true);
	/* A true mutex has no number, and is tried as the first. */
	waiter->direct = slot + (slot == 0 && !FAULT(MUTEX_UNSEEN_AGAIN) ? 2 : 1);
	waiter_set_state(waiter, WAITER_QUEUED);
}

static void
on_claimed(struct lock_engine *engine, uint64_t acquire, int slot, enum claim_outcome outcome,
    struct hold *hold, const struct broker_reply *reply)
{
	struct waiter *waiter = engine_waiter_find(engine, acquire);

	assert(waiter != NULL && waiter->state == WAITER_CLAIMING);
	engine_poke(engine, waiter->semaphore);
	switch (outcome) {
	case CLAIM_WON:
		grant(engine, waiter, hold);
		break;
	case CLAIM_LOST:
	case CLAIM_NO_SLOT:
		if (waiter->direct != 0) {
			go_on_unseen(engine, waiter, slot, outcome == CLAIM_NO_SLOT);
			break;
		}
		if (outcome == CLAIM_NO_SLOT)
			semaphore_forget(waiter->semaphore);
		lose_race(engine, waiter);
		break;
	case CLAIM_REFUSED:
		refuse(engine, waiter, REASON_BROKER_DENIED, reply->text);
		break;
	case CLAIM_AGAIN:
		if (++waiter->skips > engine->settings.max_races)
			refuse(engine, waiter, REASON_BROKER_UNAVAILABLE,
			    "no channel to the broker stayed open long enough");
		else
			rest(engine, waiter);
		break;
	}
}

static void
claim(struct lock_engine *engine, struct waiter *waiter, int slot)
{
	const struct lock_peer *peer = engine_peer_find(engine, waiter->peer);
	uint64_t hold;

	/* Asked for one by one, it was below its limit each time. */
	if (peer->hold_count + peer->claim_count >= engine->settings.max_locks_per_peer) {
		refuse(engine, waiter, REASON_TOO_MANY_LOCKS, peer_is_full);
		return;
	}
	hold = claim_start(
	    engine, waiter->id, waiter->semaphore->name, waiter->kind, slot, on_claimed);
	if (hold == 0) {
		refuse(engine, waiter, REASON_TOO_MANY_LOCKS,
		    "the daemon holds as many locks as the broker allows channels");
		return;
	}
	waiter_set_state(waiter, WAITER_CLAIMING);
	waiter->hold = hold;
	semaphore_saw_slot(waiter->semaphore, slot, true);
}

/* ---- the line ---- */

static bool
is_reserved(const struct lock_engine *engine, const struct waiter *waiter, int slot)
{
	struct queue_name b = claim_queue(engine, waiter->semaphore->name, waiter->kind, slot);

	return hold_find_queue(&engine->holds, b.text) != NULL;
}

/* A slot that the waiter may claim by what is known; 0: none. */
static int
known_free_slot(struct lock_engine *engine, const struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	int count = waiter->kind == LOCK_KIND_SEMAPHORE ? semaphore->size : 1, first = 0;

	if (FAULT(ANY_SLOT_WILL_DO))
		count = semaphore->size;
	if (count > semaphore->size ||
	    !semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.reprobe))
		return 0;
	/* From the bottom (seeds/000: 1 makes the most sense); once that lost a race, from anywhere. */
	if (waiter->races > 0)
		first = (int)jitter_below(&engine->jitter, count);
	for (int i = 0; i < count; i++) {
		int slot = 1 + (first + i) % count;

		if (!semaphore->busy[slot - 1] && !is_reserved(engine, waiter, slot))
			return slot;
	}
	return 0;
}

/* The next slot to claim unseen, as probes cannot be had; 0: there is none, as far as is known. */
static int
unseen_slot(struct lock_engine *engine, const struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	int last = waiter->kind == LOCK_KIND_SEMAPHORE
		       ? (semaphore->complete ? semaphore->size : METHODS_SLOTS_MAX)
		       : 1;

	for (int slot = waiter->direct; slot <= last; slot++) {
		if (!is_reserved(engine, waiter, slot))
			return slot;
	}
	return 0;
}

static void
begin_wait(struct lock_engine *engine, struct waiter *waiter, int position)
{
	struct lock_notice notice = {.kind = LOCK_NOTICE_WAITING,
	    .name = waiter->semaphore->name,
	    .request = waiter->request,
	    .position = position};

	waiter->direct = 0;
	waiter->races = 0;
	if (!waiter->waiting && waiter->progress) {
		notice.holders = semaphore_holders(waiter->semaphore);
		engine_notice(engine, waiter->peer, &notice);
	}
	waiter->waiting = true;
}

/* Nothing is free for the waiter: it is told, or its wait begins. */
static void
find_nothing(struct lock_engine *engine, struct waiter *waiter, int position)
{
	struct semaphore *semaphore = waiter->semaphore;
	struct lock_answer answer;

	if (waiter->timeout != 0) {
		begin_wait(engine, waiter, position);
		return;
	}
	if (!semaphore->look.unknown || semaphore->complete)
		answer = engine_full(semaphore, REASON_WOULD_BLOCK);
	else
		answer =
		    engine_refusal_unknown(engine, "the broker did not say which slots are taken");
	answer.name = semaphore->name;
	engine_waiter_end(engine, waiter, &answer);
}

/* A look is over; it began after the waiter came, and left it with nothing. */
static void
judge_look(struct lock_engine *engine, struct waiter *waiter, int position)
{
	struct semaphore *semaphore = waiter->semaphore;

	if (semaphore->complete && semaphore->size == 0) {
		refuse(engine, waiter, REASON_NO_SUCH_LOCK, NULL);
	} else if (semaphore->look.overtaken) {
		waiter->joined = semaphore->look.number; /* look again */
	} else if (semaphore->look.unknown) {
		waiter->direct = 1;
		engine_poke(engine, semaphore);
	} else {
		find_nothing(engine, waiter, position);
	}
}

/* Whether a look has begun since the waiter came. */
static bool
was_looked_for(const struct waiter *waiter)
{
	return waiter->joined < waiter->semaphore->look.number;
}

/* Whether a slot may be claimed for the waiter now. */
static bool
has_turn(const struct waiter *waiter)
{
	return waiter->state == WAITER_QUEUED && waiter->behind == 0;
}

/*
 * Claims what can be claimed, in the order of the line. Returns how many got nothing. Places in the
 * line are counted on the way here and in end_look: a line has room for very many.
 */
static size_t
serve_line(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct waiter *waiter, *next;
	bool none_free = false;
	size_t left = 0;
	int position = 0;

	TAILQ_FOREACH_SAFE (waiter, &semaphore->line, of_line, next) {
		bool unseen = waiter->direct != 0;
		size_t waiting = semaphore->waiting;
		int slot = 0;

		position++;
		if (!has_turn(waiter))
			continue;
		if (unseen)
			slot = unseen_slot(engine, waiter);
		else if (!none_free)
			slot = known_free_slot(engine, waiter);
		if (slot != 0) {
			claim(engine, waiter, slot);
		} else if (unseen) {
			find_nothing(engine, waiter, position);
		} else {
			left++;
			none_free |= waiter->kind != LOCK_KIND_PERSISTENT_MUTEX;
		}
		if (semaphore->waiting < waiting)
			position--; /* it was refused */
	}
	return left;
}

static void
end_look(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct waiter *waiter, *next;
	int position = 0;

	look_end(semaphore);
	TAILQ_FOREACH_SAFE (waiter, &semaphore->line, of_line, next) {
		size_t waiting = semaphore->waiting;

		position++;
		if (has_turn(waiter) && waiter->direct == 0 && was_looked_for(waiter))
			judge_look(engine, waiter, position);
		if (semaphore->waiting < waiting)
			position--; /* it was refused */
	}
}

/* Somebody came after the last look began, or waits and the time for another has come. */
static bool
wants_look(const struct semaphore *semaphore)
{
	const struct waiter *waiter;
	bool due = !timer_is_set(&semaphore->reprobe);

	TAILQ_FOREACH (waiter, &semaphore->line, of_line) {
		if (has_turn(waiter) && waiter->direct == 0 && (due || !was_looked_for(waiter)))
			return true;
	}
	return false;
}

static void
schedule_reprobe(struct lock_engine *engine, struct semaphore *semaphore)
{
	int64_t half = engine->settings.reprobe / 2;

	timers_set(engine->timers, &semaphore->reprobe,
	    engine_now(engine) + half + jitter_below(&engine->jitter, half));
}

/* Nobody waits: the name is kept while what is known of it is fresh, then forgotten. */
static void
rest_in_peace(struct lock_engine *engine, struct semaphore *semaphore)
{
	if (semaphore->look.state == LOOK_SEEN)
		look_end(semaphore);
	if (semaphore->look.state != LOOK_OVER)
		return;
	if (semaphore->size > 0 &&
	    semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.reprobe))
		timers_set(engine->timers, &semaphore->reprobe,
		    semaphore->seen + engine->settings.reprobe);
	else
		engine_semaphore_end(engine, semaphore);
}

void
acquire_serve(struct lock_engine *engine, struct semaphore *semaphore)
{
	size_t left;

	if (TAILQ_EMPTY(&semaphore->line)) {
		rest_in_peace(engine, semaphore);
		return;
	}
	if (engine->link != BROKER_UP)
		return;
	left = serve_line(engine, semaphore);
	switch (semaphore->look.state) {
	case LOOK_PROBING:
		return;
	case LOOK_SEEN:
		if (left > 0 && !look_is_whole(semaphore)) {
			look_continue(engine, semaphore);
			return;
		}
		end_look(engine, semaphore);
		schedule_reprobe(engine, semaphore);
		break;
	case LOOK_OVER:
		break;
	}
	if (wants_look(semaphore))
		look_start(engine, semaphore);
}
