#include "daemon/lock/acquire.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/keep.h"
#include "daemon/lock/lease.h"
#include "daemon/lock/pulse.h"
#include "daemon/lock/rows.h"
#include "daemon/lock/turn.h"
#include "daemon/lock/waitline.h"
#include "daemon/lock/watch.h"
#include "protocol/duration.h"

#define BEHIND LINE_OF(WAITER_BEHIND)

/* Ceilings of the random rest after a lost race: doubled with each, from the first to the last. */
#define REST_FIRST (2 * NSEC_PER_MSEC)
#define REST_MOST (256 * NSEC_PER_MSEC)

void
acquire_refuse(
    struct lock_engine *engine, struct waiter *waiter, enum reason reason, const char *text)
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
	acquire_refuse(engine, waiter,
	    info.hold == BROKER_DENIED ? REASON_BROKER_DENIED : REASON_BROKER_UNAVAILABLE,
	    info.why);
}

/* ---- the beginning, and the end by time ---- */

/*
 * Whether a look or a claim for it is unanswered since half of its time or longer, so that nobody knows
 * whether a slot is free. Once its wait has begun, all was taken.
 */
static bool
is_unanswered(const struct lock_engine *engine, const struct waiter *waiter)
{
	const struct look *look = &waiter->semaphore->look;
	const struct hold *hold = NULL;
	int64_t since = engine_now(engine);

	if (waiter->timeout == 0)
		return true;
	if (waiter->member != NULL)
		return false;
	if (waiter->state == WAITER_CLAIMING)
		hold = hold_find(&engine->holds, waiter->hold);
	/* One that is not sent is not unanswered (flight.h). */
	if (hold != NULL && hold->flight != FLIGHT_UNSENT)
		since = hold->asked;
	else if (look->state == LOOK_PROBING)
		since = look->started;
	return engine_now(engine) - since >= waiter->timeout / 2;
}

static void
deadline_passed(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct waiter *waiter = engine_waiter_find(engine, id);
	char text[LOCK_LACKING_MAX];

	assert(waiter != NULL);
	if (engine->link != BROKER_UP) {
		refuse_for_link(engine, waiter);
	} else if (is_unanswered(engine, waiter)) {
		acquire_refuse(
		    engine, waiter, REASON_BROKER_UNAVAILABLE, "the broker did not answer in time");
	} else {
		struct lock_answer answer = engine_full(waiter->semaphore, REASON_TIMEOUT);

		if (channels_is_starving(waiter) &&
		    channels_lacking(engine, waiter->share, text) != NULL)
			answer.text = text;
		engine_waiter_end(engine, waiter, &answer);
	}
}

void
acquire_rest_ends(struct lock_engine *engine, struct waiter *waiter)
{
	if (waiter->state != WAITER_RESTING)
		return;
	timers_cancel(engine->timers, &waiter->rest);
	engine_waiter_set_state(engine, waiter, WAITER_NEW);
	engine_poke(engine, waiter->semaphore);
}

void
acquire_rests_end(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct waiter *waiter;

	while ((waiter = line_first(&semaphore->line, LINE_OF(WAITER_RESTING))) != NULL)
		acquire_rest_ends(engine, waiter);
}

static void
rest_is_over(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct waiter *waiter = engine_waiter_find(engine, id);

	assert(waiter != NULL && waiter->state == WAITER_RESTING);
	acquire_rest_ends(engine, waiter);
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
	if (entry->waiter_count + entry->drain_count >= engine->settings.max_waits_per_peer) {
		*ret_text = "this connection waits for as much as it may";
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
	waiter->create = acquire->kind == LOCK_KIND_PERSISTENT_MUTEX && acquire->create != 0
			     ? 1
			     : acquire->create;
	waiter->started = now;
	waiter->progress = acquire->progress;
	waiter->lease = acquire->lease;
	waiter->party = party_new(waiter->id, acquire);
	if (!acquire->exempt)
		waiter->share = channels_share(engine, acquire->uid);
	if (acquire->kind != LOCK_KIND_MUTEX)
		waiter->behind = turn_youngest_change(engine, peer, acquire->name);
	waiter->state = waiter->behind != 0 ? WAITER_BEHIND : WAITER_NEW;
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
		engine_tell_broker(engine, peer);
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

/*
 * Whether who waits for a semaphore to be made goes back to the line although it was not. Of what may
 * be otherwise at the next look, a deadline makes an end; a try has no time for more than one.
 */
static bool
may_be_made_yet(const struct waiter *waiter, enum reason reason)
{
	switch (reason) {
	case REASON_NONE:
	case REASON_ALREADY_EXISTS:
	case REASON_TIMEOUT: /* of another administrator, who is at work on it; not the waiter's own */
		return true;
	case REASON_BROKER_BLOCKED:
	case REASON_BROKER_UNAVAILABLE:
		return waiter->timeout != 0;
	default:
		return false;
	}
}

void
acquire_admin_done(struct lock_engine *engine, const char *name, uint64_t admin, enum reason reason,
    const char *text)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, name, false);
	struct waiter *waiter, *next;

	bool theirs;

	if (semaphore == NULL)
		return;
	theirs = semaphore->creating == admin;
	if (theirs)
		semaphore->creating = 0;
	for (waiter = line_first(&semaphore->line, BEHIND); waiter != NULL; waiter = next) {
		next = line_next(&semaphore->line, waiter, BEHIND);
		if (waiter->behind != admin)
			continue;
		if (theirs && !may_be_made_yet(waiter, reason))
			acquire_refuse(engine, waiter, reason, text);
		else
			engine_waiter_set_state(engine, waiter, WAITER_NEW);
	}
	/* What was known of it is old news: those who wait are looked for, too. */
	semaphore_forget(semaphore);
	timers_cancel(engine->timers, &semaphore->reprobe);
	engine_poke(engine, semaphore);
}

/* The link changed: what was seen, and what is in flight, is worth nothing. */
static void
begin_anew(struct lock_engine *engine, struct waiter *waiter)
{
	switch (waiter->state) {
	case WAITER_CLAIMING:
		if (engine->link == BROKER_UP || FAULT(LINK_FORGETS_WAITER))
			break;
		engine_waiter_set_state(engine, waiter, WAITER_NEW);
		break;
	case WAITER_LOOKED:
	case WAITER_WAITING:
	case WAITER_UNSEEN:
		engine_waiter_set_state(engine, waiter,
		    FAULT(LINK_DROPS_WAITER) && waiter->state == WAITER_WAITING ? WAITER_BEHIND
										: WAITER_NEW);
		break;
	case WAITER_BEHIND:
	case WAITER_NEW:
	case WAITER_RESTING:
		break;
	}
}

void
acquire_link_changed(struct lock_engine *engine, const char *why)
{
	struct waiter *waiter, *next;

	HASH_ITER (by_id, engine->waiters, waiter, next) {
		begin_anew(engine, waiter);
		if (engine->link == BROKER_DENIED)
			acquire_refuse(engine, waiter, REASON_BROKER_DENIED, why);
		else if (engine->link == BROKER_DOWN && waiter->timeout == 0)
			acquire_refuse(engine, waiter, REASON_BROKER_UNAVAILABLE, why);
	}
	for (struct semaphore *s = engine->semaphores; s != NULL; s = s->by_key.next) {
		semaphore_forget(s);
		engine_poke(engine, s);
	}
	channels_link_changed(engine);
	waitline_link_changed(engine);
}

void
acquire_create(struct lock_engine *engine, struct waiter *waiter)
{
	struct semaphore *semaphore = waiter->semaphore;

	if (semaphore->creating == 0)
		semaphore->creating = admin_create_missing(engine, semaphore->name, waiter->create);
	if (semaphore->creating == 0) {
		acquire_refuse(engine, waiter, REASON_NO_SUCH_LOCK, NULL);
		return;
	}
	engine_waiter_set_state(engine, waiter, WAITER_BEHIND);
	waiter->behind = semaphore->creating;
}

/* ---- granted ---- */

static void
tell_granted(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	struct lock_answer answer = engine_refusal(REASON_NONE, NULL);

	hold_sane(hold);
	rows_pass(engine, waiter, hold);
	answer.safe_until = hold->state == HOLD_SLOTLESS ? 0 : lease_until(engine);
	answer.lock = hold->lock;
	answer.name = hold->name;
	answer.kind = hold->kind;
	answer.slot = hold->slot;
	answer.waited = engine_now(engine) - waiter->started;
	engine_waiter_end(engine, waiter, &answer);
}

/* Asked for one by one, it was below its limit each time. False: it is not, and the waiter is gone. */
static bool
peer_has_room(struct lock_engine *engine, struct waiter *waiter)
{
	const struct lock_peer *peer = engine_peer_find(engine, waiter->peer);

	if (peer->hold_count + peer->claim_count < engine->settings.max_locks_per_peer)
		return true;
	acquire_refuse(engine, waiter, REASON_TOO_MANY_LOCKS, peer_is_full);
	return false;
}

void
acquire_grant_slotless(struct lock_engine *engine, struct waiter *waiter, bool granted)
{
	struct hold *hold;

	/* Who granted has looked, and is told. */
	if (!granted && !peer_has_room(engine, waiter))
		return;
	hold = hold_new_slotless(
	    &engine->holds, engine_id(engine), waiter->semaphore->name, waiter->kind);
	hold->granted = granted;
	if (FAULT(GRANTED_TAKES_SLOT) && granted)
		hold->slot = 1;
	engine_hold_attach(engine, hold, waiter->peer);
	tell_granted(engine, waiter, hold);
}

static void
grant(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	if (!lease_is_good(engine) && !FAULT(GRANT_BY_TIMER)) {
		/* B may have been freed since. The link's end sends this acquire back to the line. */
		pulse_run_out(engine);
		return;
	}
	hold->acquire = 0;
	hold->asked = 0;
	hold->wants_lease = waiter->lease;
	engine_hold_attach(engine, hold, waiter->peer);
	hold_set_state(&engine->holds, hold, HOLD_HELD);
	keep_start(engine, hold);
	pulse_granted(engine, hold);
	watch_start(engine, hold);
	waiter->hold = 0;
	tell_granted(engine, waiter, hold);
}

bool
acquire_take_over(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	assert(hold->peer == 0);
	if (!peer_has_room(engine, waiter))
		return false;
	if (!FAULT(PASSED_UNDER_OLD_NUMBER))
		hold_renumber(&engine->holds, hold, engine_id(engine));
	if (!FAULT(PASSED_UNCOUNTED))
		channels_charge(engine, hold, waiter->share);
	hold->kind = waiter->kind;
	hold->wants_lease = waiter->lease;
	hold->suspect = hold->stuck = false;
	party_free(hold->party);
	hold->party = NULL;
	engine_hold_attach(engine, hold, waiter->peer);
	if (hold->state != HOLD_HELD) {
		hold_set_state(&engine->holds, hold, HOLD_HELD);
		keep_go_on(engine, hold);
	}
	pulse_granted(engine, hold);
	tell_granted(engine, waiter, hold);
	return true;
}

struct waiter *
acquire_who_wants(const struct semaphore *semaphore, int slot, const struct share *giver)
{
	struct waiter *waiter = line_first_able(&semaphore->line, LINE_WANTS, giver);

	while (waiter != NULL && waiter->kind == LOCK_KIND_PERSISTENT_MUTEX && slot != 1)
		waiter = line_next_able(&semaphore->line, waiter, LINE_WANTS, giver);
	return waiter;
}

/* ---- one claim ---- */

static void
rest_for(struct lock_engine *engine, struct waiter *waiter, int64_t wait)
{
	engine_waiter_set_state(engine, waiter, WAITER_RESTING);
	timers_set(engine->timers, &waiter->rest, engine_now(engine) + wait);
}

static void
rest(struct lock_engine *engine, struct waiter *waiter)
{
	int64_t ceiling = REST_FIRST;

	for (unsigned i = 1; i < waiter->races + waiter->skips && ceiling < REST_MOST; i++)
		ceiling *= 2;
	rest_for(engine, waiter, jitter_below(&engine->jitter, ceiling));
}

void
acquire_yield(struct lock_engine *engine, struct waiter *waiter)
{
	waiter->yielded = true;
	rest_for(engine, waiter, engine->settings.hint_grace);
}

/* The slot went to somebody else, or was not there: another try, unless there were too many. */
static void
lose_race(struct lock_engine *engine, struct waiter *waiter, enum claim_outcome outcome)
{
	/*
	 * Who has a place in the wait line has lost what others were told of, as a rule: to look at once
	 * would be to take the next slot from somebody who is told of that.
	 */
	if (waiter->member != NULL && outcome == CLAIM_LOST) {
		engine_waiter_set_state(engine, waiter, WAITER_WAITING);
		return;
	}
	if (++waiter->races > engine->settings.max_races) {
		acquire_refuse(engine, waiter, REASON_CONTENDED, NULL);
		return;
	}
	/* Where others wait for hints he would never be as fast as they are. */
	if (waiter->timeout != 0)
		waitline_add(engine, waiter);
	rest(engine, waiter);
}

/*
 * The same where slots are claimed unseen: each is tried once, up to the first that is not there. That
 * there is no slot 1 does not mean that there is no such lock, as its markers cannot be seen.
 */
static void
go_on_unseen(struct lock_engine *engine, struct waiter *waiter, int slot, bool no_slot)
{
	struct look *look = &waiter->semaphore->look;

	if (no_slot && slot == 1) {
		waiter->semaphore->nature = SEMAPHORE_DARK;
		semaphore_saw_size(waiter->semaphore, 0, false);
	} else if (no_slot && waiter->semaphore->nature != SEMAPHORE_DARK) {
		semaphore_saw_size(waiter->semaphore, slot - 1, true);
	}
	engine_waiter_set_state(engine, waiter, WAITER_UNSEEN);
	/* A true mutex has no number, and is tried as the first. */
	if (FAULT(MUTEX_UNSEEN_AGAIN) && slot == 0)
		look->direct = 1;
	if (no_slot)
		look->direct = engine->settings.slots_most + 1;
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
		lose_race(engine, waiter, outcome);
		break;
	case CLAIM_REFUSED:
		acquire_refuse(engine, waiter, REASON_BROKER_DENIED, reply->text);
		break;
	case CLAIM_AGAIN:
		if (++waiter->skips > engine->settings.max_races)
			acquire_refuse(engine, waiter, REASON_BROKER_UNAVAILABLE,
			    "no channel to the broker stayed open long enough");
		else
			rest(engine, waiter);
		break;
	case CLAIM_LATE: /* another slot may be free; this one is reserved */
		engine_waiter_set_state(
		    engine, waiter, waiter->direct != 0 ? WAITER_UNSEEN : WAITER_NEW);
		break;
	}
}

void
acquire_claim(struct lock_engine *engine, struct waiter *waiter, int slot)
{
	uint64_t hold;

	if (!peer_has_room(engine, waiter))
		return;
	hold = claim_start(engine, waiter->id, waiter->share, waiter->semaphore->name, waiter->kind,
	    slot, on_claimed);
	if (hold == 0)
		return;
	channels_claimed(waiter);
	engine_waiter_set_state(engine, waiter, WAITER_CLAIMING);
	waiter->hold = hold;
	semaphore_saw_slot(waiter->semaphore, slot, true);
}

void
acquire_claim_unseen(struct lock_engine *engine, struct waiter *waiter, int slot)
{
	struct look *look = &waiter->semaphore->look;
	uint64_t id = waiter->id;

	look->direct = slot + 1;
	acquire_claim(engine, waiter, slot);
	waiter = engine_waiter_find(engine, id);
	if (waiter == NULL || waiter->state != WAITER_CLAIMING)
		return; /* its peer has no room, or there is no channel */
	look->claimer = id;
	waiter->direct = slot;
}
