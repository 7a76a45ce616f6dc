#include "daemon/lock/claim.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/broker/setup.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/keepalive.h"
#include "daemon/lock/lease.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/registry.h"

/*
 * Contents:
 *	1. Grants: grant_claimed(), grant_passed() and grant_slotless() answer. grant_has_room() is the limit.
 *	2. Claims. The result for the waiter: claim_go_on(), of a lost race claim_lose_race(), while probes fail
 *	   claim_go_on_unseen().
 *	   The result for the hold: claim_fail() ends the reservation, claim_win() grants the slot to a waiter
 *	     here.
 *	   claim_learn_way() and claim_learn_post(): the answer says how the slot is held.
 *	   claim_on_claimed() is the answer about B, claim_on_checked() the answer about A.
 *	   claim_unclean(): a grace begins. claim_crowd_out(): there are too many.
 *	   claim_send() sends the flight: B, then A. claim_due() is the timer of the hold.
 *	   claim_start() reserves the slot and takes a channel.
 */

/* 1. Grants. */

const char grant_peer_is_full[] = "this connection holds as many locks as it may hold";

bool
grant_has_room(struct lock_engine *engine, struct waiter *waiter, enum broker_way way)
{
	const struct lock_peer *peer = engine_peer_find(engine, waiter->peer);
	const char *why = NULL;
	char text[LOCK_LACKING_MAX];

	if (peer->hold_count + peer->claim_count >= engine->settings.max_locks_per_connection)
		why = grant_peer_is_full;
	else if (waiter->kind == LOCK_KIND_MUTEX && way_row(way)->leaves_b > 0)
		why = used_mutexes_lacking(engine, waiter->share, waiter->semaphore->name, text);
	if (why != NULL)
		registry_waiter_refuse(engine, waiter, REASON_TOO_MANY_LOCKS, why);
	return why == NULL;
}

static void
grant_tell(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	struct lock_answer answer = engine_refusal(REASON_NONE, NULL);

	hold_sane(hold);
	rows_pass(engine, waiter, hold);
	fence_floor_granted(engine, hold);
	mutex_post_granted(engine, hold);
	answer.safe_until = hold->state == HOLD_SLOTLESS ? 0 : lease_until(engine, hold);
	answer.lock = hold->lock;
	answer.name = hold->name;
	answer.kind = hold->kind;
	answer.slot = hold->slot;
	answer.fence = hold_fence(hold);
	answer.grace = hold->grace;
	answer.lease = hold->grace == 0 ? 0 : lease_length(engine, hold);
	answer.waited = engine_now(engine) - waiter->started;
	registry_waiter_end(engine, waiter, &answer);
}

/*
 * Grants the claimed slot: this daemon has B, and A was seen after it. If the lease of the
 * connection is over, the lock connection is closed instead, and the waiter waits on. False: only
 * the lease of the hold is over, because the answers came late. The caller drops it.
 */
static bool
grant_claimed(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	if (!FAULT_ELSE(GRANT_BY_TIMER, true, lease_is_good(engine, hold))) {
		/* The broker may have freed B since. */
		if (hold_lease(hold) == HOLD_LEASE_TIMED || lease_is_good(engine, NULL))
			return false;
		/* The end of the connection makes the waiter NEW. */
		keepalive_run_out(engine);
		return true;
	}
	hold->acquire = 0;
	hold->asked = 0;
	hold->wants_lease = waiter->lease;
	registry_hold_attach(engine, hold, waiter->peer);
	hold_set_state(&engine->holds, hold, HOLD_HELD);
	lifecycle_start(engine, hold);
	keepalive_granted(engine, hold);
	watch_start(engine, hold);
	waiter->hold = 0;
	grant_tell(engine, waiter, hold);
	return true;
}

bool
grant_passed(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	assert(hold->peer == 0);
	if (!grant_has_room(
		engine, waiter, FAULT_ELSE(PASSED_MUTEX_UNLIMITED, BROKER_BY_QUEUE, hold->way)))
		return false;
	hold_renumber(&engine->holds, hold,
	    FAULT_ELSE(PASSED_UNDER_OLD_NUMBER, hold->lock, engine_id(engine)));
	channels_charge(engine, hold, FAULT_ELSE(PASSED_UNCOUNTED, hold->share, waiter->share));
	hold->kind = waiter->kind;
	hold->hand_offs++;
	FAULT(FENCE_KEPT, hold->hand_offs--);
	hold->wants_lease = waiter->lease;
	hold->suspect = hold->stuck = false;
	requester_free(hold->requester);
	hold->requester = NULL;
	registry_hold_attach(engine, hold, waiter->peer);
	if (hold->state != HOLD_HELD) {
		hold_set_state(&engine->holds, hold, HOLD_HELD);
		lifecycle_resume(engine, hold);
	}
	keepalive_granted(engine, hold);
	grant_tell(engine, waiter, hold);
	return true;
}

void
grant_slotless(struct lock_engine *engine, struct waiter *waiter, bool admitted)
{
	struct hold *hold;

	/* lock_admit() has checked this, and reports it to the administrator. */
	if (!admitted && !grant_has_room(engine, waiter, BROKER_BY_QUEUE))
		return;
	hold = hold_new_slotless(
	    &engine->holds, engine_id(engine), waiter->semaphore->name, waiter->kind);
	hold->admitted = admitted;
	FAULT(GRANTED_TAKES_SLOT, hold->slot = admitted);
	registry_hold_attach(engine, hold, waiter->peer);
	grant_tell(engine, waiter, hold);
}

/* 2. Claims. */

/*
 * Maximum of the random rest after a lost race. Each race doubles it, from the first to the last.
 */
#define REST_FIRST (2 * NSEC_PER_MSEC)
#define REST_MOST (256 * NSEC_PER_MSEC)

/* Claims of a slot in a row, each in the other way than the one before, at most. */
#define TURNS_MOST 2

/* A slot that would be one grace too many is tried again no sooner. */
#define CROWDED_REST (250 * NSEC_PER_MSEC)

enum claim_outcome {
	CLAIM_LOST,      /* another connection was faster, or the broker cannot tell */
	CLAIM_OTHERWISE, /* the slot is held in the other way, which is known now */
	CLAIM_NO_SLOT,   /* A does not exist; B is dropped */
	CLAIM_REFUSED,   /* the broker refused it: see the reply */
	CLAIM_AGAIN,     /* not performed: the channel died before its turn */
	CLAIM_LATE       /* no answer in time */
};

/* ---- the result for the waiter ---- */

static void
claim_rest(struct lock_engine *engine, struct waiter *waiter)
{
	int64_t ceiling = REST_FIRST;

	for (unsigned i = 1; i < waiter->races + waiter->skips && ceiling < REST_MOST; i++)
		ceiling *= 2;
	registry_waiter_rest(engine, waiter, jitter_below(&engine->jitter, ceiling));
}

/*
 * The slot went to another connection, or does not exist: the waiter tries again, up to max_races
 * times.
 */
static void
claim_lose_race(struct lock_engine *engine, struct waiter *waiter, enum claim_outcome outcome)
{
	bool over = registry_waiter_is_over(engine, waiter);

	/*
	 * A waiter with a consumer in the wait queue usually loses to the receiver of a hint. A
	 * scan at once would take the next slot from the receiver of the next hint.
	 */
	if (waiter->member != NULL && outcome == CLAIM_LOST && !over) {
		registry_waiter_set_state(engine, waiter, WAITER_WAITING);
		return;
	}
	if (++waiter->races > engine->settings.max_races) {
		registry_waiter_refuse(engine, waiter, REASON_CONTENDED, NULL);
		return;
	}
	/* A waiter without hints would never be as fast as others with hints. */
	if (!over)
		wait_queue_add(engine, waiter);
	claim_rest(engine, waiter);
}

static bool
may_be_by_quorum(const struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;

	return !semaphore->by_quorum && (!semaphore->mutex || semaphore->asks_quorum) &&
	       queue_naming_has_quorum(semaphore->engine->settings.naming);
}

/*
 * The same for slots that are claimed unseen. Each is tried once, up to the first that does not
 * exist. A missing slot 1 does not prove that the lock does not exist, as its markers cannot be
 * seen.
 */
static void
claim_go_on_unseen(struct lock_engine *engine, struct waiter *waiter, int slot, bool no_slot)
{
	struct scan *scan = &waiter->semaphore->scan;

	bool mutex = waiter->semaphore->mutex;

	if (no_slot && (slot == 1 || mutex) && may_be_by_quorum(waiter)) {
		/* The gate at the place of its As, or the post, cannot be seen either. */
		semaphore_forget(waiter->semaphore);
		waiter->semaphore->by_quorum = true;
		scan->direct = 1;
		registry_waiter_set_state(engine, waiter, WAITER_UNSEEN);
		return;
	}
	if (no_slot && mutex && waiter->semaphore->by_quorum) {
		waiter->semaphore->by_quorum = way_row(engine->settings.claim)->by_beads;
		waiter->semaphore->mode = SEMAPHORE_UNMADE;
		semaphore_saw_size(waiter->semaphore, 0, false);
	} else if (no_slot && slot == 1) {
		waiter->semaphore->by_quorum = false;
		waiter->semaphore->mode = SEMAPHORE_UNKNOWN;
		semaphore_saw_size(waiter->semaphore, 0, false);
	} else if (no_slot && waiter->semaphore->mode != SEMAPHORE_UNKNOWN) {
		semaphore_saw_size(waiter->semaphore, slot - 1, true);
	}
	registry_waiter_set_state(engine, waiter, WAITER_UNSEEN);
	/* A true mutex has no slot number, and is tried as slot 1. */
	FAULT_IF(MUTEX_UNSEEN_AGAIN, slot == 0, scan->direct = 1);
	if (no_slot)
		scan->direct = engine->settings.slots_most + 1;
}

/* The same slot once more, the other way. That is no race. TURNS_MOST bounds it. */
static void
claim_otherwise(struct lock_engine *engine, struct waiter *waiter, int slot)
{
	if (waiter->direct != 0) {
		waiter->semaphore->scan.direct = slot;
		registry_waiter_set_state(engine, waiter, WAITER_UNSEEN);
	} else {
		semaphore_saw_slot(waiter->semaphore, slot, false);
		registry_waiter_set_state(engine, waiter, WAITER_NEW);
	}
}

static void
claim_go_on(struct lock_engine *engine, struct waiter *waiter, int slot, enum claim_outcome outcome,
    const struct broker_reply *reply)
{
	assert(waiter->state == WAITER_CLAIMING);
	engine_mark_dirty(engine, waiter->semaphore);
	/* A slot that changes each time is a lost race. */
	if (outcome == CLAIM_OTHERWISE && waiter->turns == TURNS_MOST)
		outcome = CLAIM_LOST;
	waiter->turns = outcome == CLAIM_OTHERWISE ? waiter->turns + 1 : 0;
	switch (outcome) {
	case CLAIM_OTHERWISE:
		claim_otherwise(engine, waiter, slot);
		break;
	case CLAIM_LOST:
	case CLAIM_NO_SLOT:
		if (waiter->direct != 0) {
			claim_go_on_unseen(engine, waiter, slot, outcome == CLAIM_NO_SLOT);
			break;
		}
		if (outcome == CLAIM_NO_SLOT)
			semaphore_forget(waiter->semaphore);
		claim_lose_race(engine, waiter, outcome);
		break;
	case CLAIM_REFUSED:
		registry_waiter_refuse(engine, waiter, REASON_BROKER_REFUSED, reply->text);
		break;
	case CLAIM_AGAIN:
		if (++waiter->skips > engine->settings.max_races)
			registry_waiter_refuse(engine, waiter, REASON_BROKER_UNAVAILABLE,
			    "the broker closed every channel too soon");
		else
			claim_rest(engine, waiter);
		break;
	case CLAIM_LATE: /* another slot may be free; this one stays reserved */
		registry_waiter_set_state(
		    engine, waiter, waiter->direct != 0 ? WAITER_UNSEEN : WAITER_NEW);
		break;
	}
}

/* ---- the result for the hold ---- */

/* The claim failed. CHECKING: this daemon has B, and drops it. */
static void
claim_fail(struct lock_engine *engine, struct hold *hold, enum claim_outcome outcome,
    const struct broker_reply *reply)
{
	struct waiter *waiter = engine_waiter_find(engine, hold->acquire);
	bool mutex = hold->kind == LOCK_KIND_MUTEX;
	struct semaphore *semaphore = engine_semaphore_find(engine, hold->name, mutex);
	int slot = hold->slot;

	hold->acquire = 0;
	if (hold->state == HOLD_CHECKING) {
		lifecycle_drop_for(engine, hold,
		    outcome == CLAIM_NO_SLOT ? HOLD_DROP_NO_SLOT : HOLD_DROP_RELEASED);
	} else {
		/*
		 * A hint of the slot came meanwhile, or led to this claim, which must be repeated
		 * the other way. A slot that is dropped gets a hint when it is free.
		 */
		if (hold->hinted || (hold->by_hint && outcome == CLAIM_OTHERWISE)) {
			semaphore = registry_semaphore(engine, hold->name, mutex);
			semaphore_hinted(semaphore, mutex ? 1 : slot);
			engine_mark_dirty(engine, semaphore);
		}
		registry_hold_end(engine, hold, outcome == CLAIM_OTHERWISE);
	}
	if (waiter != NULL) {
		claim_go_on(engine, waiter, slot, outcome, reply);
	} else if (outcome == CLAIM_NO_SLOT && semaphore != NULL) {
		/* No waiter is left for this answer: a new scan is due. */
		semaphore_forget(semaphore);
		engine_scan(engine, semaphore);
	}
}

/*
 * A claim that went on without its waiter goes to another one of this daemon. After the end of a daemon with many
 * holds, many graces end at once. Then hints would be lost, as a wait queue keeps few.
 */
static bool
grant_to_another(struct lock_engine *engine, struct hold *hold)
{
	const struct semaphore *semaphore =
	    engine_semaphore_find(engine, hold->name, hold->kind == LOCK_KIND_MUTEX);
	struct waiter *waiter;

	if (!way_row(hold->way)->by_beads || semaphore == NULL || engine->draining ||
	    !lease_is_good(engine, hold))
		return false;
	hold->ours_since = engine_now(engine);
	/* A waiter whose peer may have no more holds is refused. The next one is tried. */
	do {
		waiter = local_queue_who_wants(&semaphore->local_queue, hold->slot, hold->share);
	} while (waiter != NULL && !grant_passed(engine, waiter, hold));
	return waiter != NULL;
}

static void
claim_win(struct lock_engine *engine, struct hold *hold)
{
	struct waiter *waiter = engine_waiter_find(engine, hold->acquire);
	int slot = hold->slot;

	if (waiter == NULL) {
		/* Without the channel, which the check of A uses. */
		FAULT(CLAIM_FORGOTTEN, hold_set_channel(&engine->holds, hold, 0);
		      registry_hold_end(engine, hold, true); return;);
		if (!grant_to_another(engine, hold))
			lifecycle_drop(engine, hold);
		return;
	}
	assert(waiter->state == WAITER_CLAIMING);
	engine_mark_dirty(engine, waiter->semaphore);
	if (!grant_claimed(engine, waiter, hold)) {
		lifecycle_drop(engine, hold);
		claim_go_on(engine, waiter, slot, CLAIM_LATE, NULL);
	}
}

/*
 * The reply to a claim tells how the slot is held. True: in another way than it was claimed, so that
 * the claim is worth another attempt.
 */
static bool
claim_learn_way(
    struct lock_engine *engine, const struct hold *hold, const struct broker_reply *reply)
{
	bool mutex = hold->kind == LOCK_KIND_MUTEX;
	struct semaphore *semaphore = engine_semaphore_find(engine, hold->name, mutex);
	int slot = mutex ? 1 : hold->slot;
	enum broker_way known;
	struct way_lesson lesson;

	if (semaphore == NULL || (mutex && queue_naming_mutex_is_admin(engine->settings.naming)))
		return false;
	/* A hint can be newer than what was seen of the slot. */
	lesson = way_row(hold->way)->learn(
	    reply, hold->by_hint || !semaphore_way(semaphore, slot, &known));
	if (lesson.known)
		semaphore_saw_way(semaphore, slot, lesson.way);
	return lesson.otherwise;
}

/*
 * The claim of a mutex by consumer was refused, perhaps by the post of a mutex by quorum. A holder by
 * consumer refuses it in the same words, unless the claim declares the queue. True: from now on scans ask
 * for its queue by quorum, too.
 */
static bool
claim_learn_post(
    const struct lock_engine *engine, const struct hold *hold, const struct broker_reply *reply)
{
	struct semaphore *semaphore = engine_semaphore_find(engine, hold->name, true);
	const struct way *way = way_row(hold->way);
	bool differs = reply->answer == BROKER_REFUSED && reply->code == BROKER_DIFFERS, asked;

	if (hold->kind != LOCK_KIND_MUTEX || semaphore == NULL || !way->is_channel ||
	    way->by_beads || !queue_naming_has_quorum(engine->settings.naming) ||
	    (reply->answer != BROKER_LOCKED && !differs))
		return false;
	FAULT(POST_UNKNOWN, return false);
	asked = semaphore->asks_quorum;
	semaphore->asks_quorum = true;
	semaphore->refusals = differs ? SEMAPHORE_REFUSALS : semaphore->refusals + 1;
	return !asked || (differs && !semaphore->held_otherwise);
}

/*
 * The beads of its dead makers looked as if it was free. The next scan says that it is to be made. The clients may
 * have left before this is known, so it is kept until RabbitMQ deletes the queue.
 */
static void
claim_learn_incomplete(struct lock_engine *engine, const struct hold *hold, bool incomplete)
{
	struct semaphore *semaphore;

	if (hold->kind != LOCK_KIND_MUTEX || !way_row(hold->way)->by_beads)
		return;
	semaphore = registry_semaphore(engine, hold->name, true);
	semaphore->incomplete_until =
	    incomplete ? engine_now(engine) + BROKER_QUORUM_MUTEX_EXPIRES : 0;
	engine_mark_dirty(engine, semaphore);
}

/* Nothing is known of a slot by quorum. The user may have no right to such queues. */
static bool
claim_is_guess(const struct lock_engine *engine, const struct hold *hold)
{
	const struct waiter *waiter = engine_waiter_find(engine, hold->acquire);

	return way_row(hold->way)->by_beads && waiter != NULL && waiter->direct == 1 &&
	       waiter->semaphore->size == 0;
}

/*
 * The claim goes on without the waiter, which tries another slot. The claim is finished in any case: else
 * a slot after an unclean end would never be free for clients that only try.
 */
static void
claim_leave_behind(struct lock_engine *engine, struct hold *hold)
{
	struct waiter *waiter = engine_waiter_find(engine, hold->acquire);

	hold->acquire = 0;
	hold->asked = 0;
	flight_end(engine, hold);
	if (waiter != NULL)
		claim_go_on(engine, waiter, hold->slot, CLAIM_LATE, NULL);
}

static void
claim_on_claimed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	assert(hold != NULL && hold->state == HOLD_CLAIMING);
	lease_b_answered(engine, hold, reply);
	if (reply->answer != BROKER_UNKNOWN)
		flight_end(engine, hold);
	hold_set_grace(&engine->holds, hold, 0);
	if (claim_learn_way(engine, hold, reply)) {
		claim_fail(engine, hold, CLAIM_OTHERWISE, reply);
		return;
	}
	if (claim_learn_post(engine, hold, reply)) {
		claim_fail(engine, hold, CLAIM_NO_SLOT, reply);
		return;
	}
	switch (reply->answer) {
	case BROKER_OK:
		claim_learn_incomplete(engine, hold, false);
		FAULT(NO_A_CHECK, claim_win(engine, hold); return;);
		if (!hold_has_a(hold) || hold->acquire == 0)
			claim_win(engine, hold);
		else
			hold_set_state(&engine->holds, hold, HOLD_CHECKING);
		break;
	case BROKER_LOCKED:
		if (reply->removed)
			removed_delete_beads(engine, hold->name, hold->slot);
		FAULT_IF(LOCKED_IS_OURS, hold->kind == LOCK_KIND_MUTEX, claim_win(engine, hold);
			 return;);
		if (hold->crowded_until != 0)
			claim_leave_behind(engine, hold);
		else
			claim_fail(engine, hold, CLAIM_LOST, reply);
		break;
	case BROKER_UNREACHABLE:
		claim_learn_incomplete(engine, hold, true);
		claim_fail(engine, hold, CLAIM_LOST, reply);
		break;
	case BROKER_ABSENT:
		/* Without an A, B alone is the slot, and was removed. */
		claim_fail(engine, hold,
		    way_row(hold->way)->by_beads ? CLAIM_NO_SLOT : CLAIM_REFUSED, reply);
		break;
	case BROKER_REFUSED:
		claim_fail(engine, hold,
		    claim_is_guess(engine, hold) ? CLAIM_NO_SLOT : CLAIM_REFUSED, reply);
		break;
	case BROKER_SKIPPED:
		/* The check of A may have failed first, and undone the claim with its channel. */
		if (way_row(hold->way)->is_channel && hold_has_a(hold))
			hold_set_state(&engine->holds, hold, HOLD_CHECKING);
		else
			claim_fail(engine, hold, CLAIM_AGAIN, reply);
		break;
	case BROKER_UNKNOWN: /* the event of the connection ends this hold; the waiter goes on */
		break;
	}
}

static void
claim_on_checked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	lease_answered(engine, reply);
	if (hold == NULL || hold->state != HOLD_CHECKING)
		return; /* the claim failed, or its waiter is gone */
	switch (reply->answer) {
	case BROKER_OK:
		claim_win(engine, hold);
		break;
	case BROKER_ABSENT:
		claim_fail(engine, hold, CLAIM_NO_SLOT, reply);
		break;
	case BROKER_UNREACHABLE:
		claim_fail(engine, hold, CLAIM_LOST, reply);
		break;
	case BROKER_LOCKED:
	case BROKER_REFUSED:
		claim_fail(engine, hold, CLAIM_REFUSED, reply);
		break;
	case BROKER_SKIPPED:
		claim_fail(engine, hold, CLAIM_AGAIN, reply);
		break;
	case BROKER_UNKNOWN: /* as above */
		FAULT(UNKNOWN_IS_SEEN, claim_win(engine, hold));
		break;
	}
}

void
claim_cancelled(struct lock_engine *engine, struct hold *hold)
{
	assert(hold->state == HOLD_CHECKING);
	claim_fail(engine, hold, CLAIM_LOST, NULL);
}

/* ---- graces ---- */

/*
 * A claim in a grace takes a channel for T. So all of them take at most as many as one connection has, and
 * those of a user half of that. The default is two connections.
 */
static bool
user_has_room_for_grace(const struct lock_engine *engine, const struct share *share)
{
	return share == NULL || share->graces < engine->channels.most / 2;
}

/* The claim ends. The slot is tried again when a grace has ended that makes room. */
static void
claim_crowd_out(struct lock_engine *engine, struct hold *hold, int64_t until)
{
	int64_t now = engine_now(engine), grace = until - now, first = until;
	bool any = user_has_room_for_grace(engine, hold->share);
	const struct hold *other;

	for (other = engine->holds.by_id; other != NULL; other = other->by_id.next) {
		if (other->free_at != 0 && other->free_at < first &&
		    (any || other->share == hold->share))
			first = other->free_at;
	}
	/* One that is over waits for its proof. */
	if (first < now + CROWDED_REST)
		first = now + CROWDED_REST;
	hold->crowded_until = first + grace;
	hold_set_channel(&engine->holds, hold, 0);
	timers_set(engine->timers, &hold->timer, first);
}

bool
claim_unclean(struct lock_engine *engine, struct hold *hold, int64_t until)
{
	assert(hold->state == HOLD_CLAIMING);
	if (hold->free_at == 0 && (engine->holds.graces >= engine->channels.most ||
				      !user_has_room_for_grace(engine, hold->share))) {
		claim_crowd_out(engine, hold, until);
		return false;
	}
	hold_set_grace(&engine->holds, hold, until);
	timers_cancel(engine->timers, &hold->timer);
	claim_leave_behind(engine, hold);
	return true;
}

/* ---- the flight ---- */

static void
claim_send(struct lock_engine *engine, struct hold *hold)
{
	struct broker_done claimed = {claim_on_claimed, engine, hold->id};
	struct broker_done checked = {claim_on_checked, engine, hold->id};
	struct queue_name a;

	hold->flight = FLIGHT_SENT;
	/* The channel may have died while the claim was unsent. */
	if (lifecycle_channel(engine, hold) == 0) {
		claim_fail(engine, hold, CLAIM_AGAIN, NULL);
		return;
	}
	hold->asked = engine_now(engine);
	timers_set(engine->timers, &hold->timer, hold->asked + engine->settings.request_timeout);
	FAULT(CLAIM_WITHOUT_TIMEOUT, timers_cancel(engine->timers, &hold->timer));
	if (!hold_has_a(hold)) {
		broker_claim(engine->broker, hold->channel, hold->way, hold->b.text, claimed);
		return;
	}
	a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	FAULT_IF(HINT_TRUSTED, engine_waiter_find(engine, hold->acquire)->member != NULL,
		 broker_check(engine->broker, hold->channel, a.text, claimed);
		 broker_check(engine->broker, hold->channel, a.text, checked); return;);
	broker_claim(engine->broker, hold->channel, hold->way, hold->b.text, claimed);
	broker_check(engine->broker, hold->channel, a.text, checked);
}

/* The hold's timer. */
static void
claim_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);
	struct waiter *waiter = engine_waiter_find(engine, hold->acquire);

	assert(hold->state == HOLD_CLAIMING || hold->state == HOLD_CHECKING);
	if (hold->crowded_until != 0) {
		registry_hold_end(engine, hold, true);
	} else if (hold->flight == FLIGHT_DUE && waiter != NULL) {
		if (engine->link == BROKER_UP)
			claim_send(engine, hold);
	} else if (hold->flight == FLIGHT_DUE || hold->flight == FLIGHT_UNSENT) {
		FAULT(UNSENT_IS_LOST, flight_end(engine, hold); return;);
		/*
		 * The slot was free, perhaps by a hint: another daemon gets a hint, as after a
		 * delete.
		 */
		hint_freed(engine, hold);
		registry_hold_end(engine, hold, true);
	} else {
		/*
		 * Whether this daemon has B is unknown. The waiter tries another slot, unless its
		 * time is over.
		 */
		hold->acquire = 0;
		flight_end(engine, hold);
		if (waiter != NULL && registry_waiter_is_over(engine, waiter))
			registry_waiter_refuse(engine, waiter, REASON_BROKER_UNAVAILABLE,
			    "the broker did not answer in time");
		else if (waiter != NULL)
			claim_go_on(engine, waiter, hold->slot, CLAIM_LATE, NULL);
	}
}

/*
 * How to claim the slot: as it was held when last seen, else as the setting says. The setting alone
 * decides whether the claim of a true mutex makes a durable B: else a lost race would make one.
 */
static enum broker_way
way_to_claim(const struct lock_engine *engine, const struct waiter *waiter, int slot)
{
	enum broker_way way = engine_way_unseen(engine);

	if (waiter->semaphore->by_quorum)
		return BROKER_BY_QUORUM;
	if (waiter->kind == LOCK_KIND_MUTEX) {
		/* Administrators take their mutex as an exclusive queue, as seeds/000 says. */
		if (queue_naming_mutex_is_admin(engine->settings.naming))
			return BROKER_BY_QUEUE;
		if (way_row(way)->of_mutex != way)
			return way_row(way)->of_mutex;
	}
	(void)semaphore_way(waiter->semaphore, slot, &way);
	FAULT_IF(
	    MUTEX_MADE_BY_RACE, waiter->kind == LOCK_KIND_MUTEX, return way_row(way)->of_mutex);
	return way;
}

bool
claim_resume(struct lock_engine *engine, struct hold *hold)
{
	int64_t until;

	timer_init(&hold->timer, claim_due, engine, hold->id);
	if (!broker_restore_grace(engine->broker, hold->channel, hold->b.text,
		(struct broker_done){claim_on_claimed, engine, hold->id}, &until))
		return false;
	hold_set_grace(&engine->holds, hold, until);
	return true;
}

void
claim_start(struct lock_engine *engine, struct waiter *waiter, int slot)
{
	const char *name = waiter->semaphore->name;
	enum lock_kind kind = waiter->kind;
	struct queue_name b = registry_slot_queue(waiter->semaphore, slot);
	enum broker_way way = way_to_claim(engine, waiter, slot);
	struct hold *hold;
	uint64_t channel;

	if (!grant_has_room(engine, waiter, way))
		return;
	assert(channels_are_left(engine));
	channel = broker_channel_take_for(engine->broker, way);
	if (channel == 0) {
		channels_not_given(engine);
		return;
	}
	hold = hold_new(&engine->holds, engine_id(engine), &b, name, kind,
	    kind == LOCK_KIND_MUTEX ? 0 : slot, way);
	hold_set_channel(&engine->holds, hold, channel);
	channels_charge(engine, hold, waiter->share);
	engine->channels.not_given = 0;
	channels_claimed(waiter);
	timer_init(&hold->timer, claim_due, engine, hold->id);
	hold->acquire = waiter->id;
	registry_waiter_set_state(engine, waiter, WAITER_CLAIMING);
	waiter->hold = hold->id;
	semaphore_saw_slot(waiter->semaphore, slot, true);
	keepalive_start(engine);
	if (flight_start(engine, hold))
		claim_send(engine, hold);
}
