#include "daemon/lock/keepalive.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/setup.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/lease.h"
#include "daemon/lock/registry.h"
#include "protocol/duration.h"

/*
 * Contents:
 *	1. Checks of A: slot_check_ask() sends one, on the channel of the hold or on a shared one.
 *	2. The watch on A: watch_start(), and watch_news(), after which A is checked.
 *	3. The keepalive: ask_oldest() asks about the Bs in turn, and keepalive_due() is its timer.
 *	   By quorum: schedule_renewal() and renewal_due() are the timer of each hold.
 *	   The end: keepalive_watch_holds() ends single holds, keepalive_run_out() all of the connection.
 *	   keepalive_granted() starts the timers.
 *	4. Verify: verify_finish() answers. verify_on_b() and verify_on_a() judge the answers of the broker.
 *	   verify_ask() asks about B and A. lock_verify() joins or begins a verify.
 */

/* 1. Checks of A. */

/*
 * The maximum of channels besides the shared one. Each has an overdue answer: the node of an A may
 * be silent, and then holds up the questions behind it.
 */
#define OTHERS_MOST 4
/*
 * The maximum of unanswered questions on the shared channel. The limit is one after a 404, and
 * doubles with each success, because questions behind a 404 are sent again.
 */
#define WINDOW_MOST 1024

struct slot_question {
	struct lock_engine *engine; /* borrowed */
	uint64_t channel;           /* of a sent one */
	bool shared;                /* the channel is not the hold's */
	int64_t asked;              /* clock time of sending */
	struct queue_name a;
	struct broker_done done;
	TAILQ_ENTRY(slot_question) entry;
};

/* The oldest question on a channel. NULL: it has none. */
static struct slot_question *
slot_check_oldest_on(const struct slot_checks *checks, uint64_t channel)
{
	struct slot_question *question;

	TAILQ_FOREACH (question, &checks->questions, entry) {
		if (question->channel == channel)
			return question;
	}
	return NULL;
}

/* The reply to a question on that shared channel, which was taken out. */
static void
slot_check_channel_answered(
    struct lock_engine *engine, uint64_t channel, const struct broker_reply *reply)
{
	struct slot_checks *checks = &engine->slot_checks;
	bool is_current = checks->channel == channel,
	     is_idle = slot_check_oldest_on(checks, channel) == NULL;

	if (is_current && reply->channel_open && checks->window < WINDOW_MOST)
		checks->window *= 2;
	if (is_current)
		checks->unanswered--;
	if (is_idle && reply->channel_open)
		broker_channel_put(engine->broker, channel);
	if (is_current && (is_idle || !reply->channel_open)) {
		checks->channel = 0;
		checks->unanswered = 0;
		checks->others += !is_idle; /* the others on it are answered next */
	} else if (is_idle) {
		checks->others--;
	}
	if (is_current && !reply->channel_open)
		checks->window = 1;
}

/* 0: none is free now. */
static uint64_t
slot_check_shared_channel(struct lock_engine *engine)
{
	struct slot_checks *checks = &engine->slot_checks;
	const struct slot_question *oldest =
	    checks->channel == 0 ? NULL : slot_check_oldest_on(checks, checks->channel);

	if (oldest != NULL && checks->others < OTHERS_MOST &&
	    engine_now(engine) - oldest->asked > engine->settings.request_timeout) {
		checks->channel = 0;
		checks->unanswered = 0;
		checks->others++;
	}
	if (checks->channel == 0)
		checks->channel = broker_channel_take(engine->broker, BROKER_LOCKS);
	return checks->channel;
}

static void slot_check_on_answered(void *ctx, uint64_t id, const struct broker_reply *reply);

static void
slot_check_send(struct slot_question *question, uint64_t channel)
{
	struct lock_engine *engine = question->engine;

	question->channel = channel;
	question->asked = engine_now(engine);
	TAILQ_INSERT_TAIL(&engine->slot_checks.questions, question, entry);
	broker_check(engine->broker, channel, question->a.text,
	    (struct broker_done){slot_check_on_answered, question, 0});
}

/* otherwise: the answer if no channel is free. */
static void
slot_check_send_waiting(struct lock_engine *engine, enum broker_answer otherwise)
{
	struct slot_checks *checks = &engine->slot_checks;
	struct slot_question *question;

	while ((question = TAILQ_FIRST(&checks->waiting)) != NULL) {
		uint64_t channel = slot_check_shared_channel(engine);
		struct broker_done done = question->done;

		if (channel != 0 && checks->unanswered >= checks->window)
			return;
		TAILQ_REMOVE(&checks->waiting, question, entry);
		if (channel != 0) {
			checks->unanswered++;
			slot_check_send(question, channel);
			continue;
		}
		free(question);
		done.fn(done.ctx, done.id, &(struct broker_reply){.answer = otherwise, .text = ""});
	}
}

static void
slot_check_on_answered(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct slot_question *question = ctx;
	struct lock_engine *engine = question->engine;
	struct slot_checks *checks = &engine->slot_checks;
	struct broker_done done = question->done;
	bool shared = question->shared;

	(void)id;
	TAILQ_REMOVE(&checks->questions, question, entry);
	if (shared)
		slot_check_channel_answered(engine, question->channel, reply);
	if (shared && reply->answer == BROKER_SKIPPED) {
		TAILQ_INSERT_TAIL(&checks->waiting, question, entry);
		slot_check_send_waiting(engine, BROKER_SKIPPED);
		return;
	}
	free(question);
	lease_answered(engine, reply);
	done.fn(done.ctx, done.id, reply);
	if (shared)
		slot_check_send_waiting(
		    engine, reply->answer == BROKER_UNKNOWN ? BROKER_UNKNOWN : BROKER_SKIPPED);
}

bool
slot_check_ask(struct lock_engine *engine, struct hold *hold, struct broker_done done)
{
	struct slot_question *question;
	bool shared = way_row(hold->way)->is_channel;
	uint64_t channel =
	    shared ? slot_check_shared_channel(engine) : lifecycle_channel(engine, hold);

	if (channel == 0)
		return false;
	question = mem_alloc(sizeof(*question));
	question->engine = engine;
	question->shared = shared;
	question->a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	question->done = done;
	if (shared) {
		TAILQ_INSERT_TAIL(&engine->slot_checks.waiting, question, entry);
		slot_check_send_waiting(engine, BROKER_SKIPPED);
	} else {
		slot_check_send(question, channel);
	}
	return true;
}

/* 2. The watch on A. */

/* Holds that end before this cost the broker no consumer. */
#define WATCH_AFTER (100 * NSEC_PER_MSEC)
/* A watch that ended while its queue exists is not requested again at once. */
#define WATCH_AGAIN (1 * NSEC_PER_SEC)

static void
watch_in(struct lock_engine *engine, struct hold *hold, int64_t wait)
{
	timers_set(engine->timers, &hold->watch_timer, engine_now(engine) + wait);
}

/* ---- the watch checks A ---- */

static void
watch_on_checked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	if (hold == NULL || hold->state == HOLD_DROPPING)
		return;
	switch (reply->answer) {
	case BROKER_ABSENT:
		lifecycle_revoke(engine, hold);
		break;
	case BROKER_SKIPPED: /* the channel died before its turn */
		watch_in(engine, hold, WATCH_AFTER);
		break;
	case BROKER_OK:
	case BROKER_LOCKED:
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
	case BROKER_UNKNOWN:
		break;
	}
}

static void
watch_check(struct lock_engine *engine, struct hold *hold)
{
	if (FAULT_ELSE(REVOKED_TWICE, false, hold->revoked))
		return;
	if (engine->frozen) {
		hold->reclaimed = true; /* A was not seen since: it is checked before a hand-off */
		watch_in(engine, hold, WATCH_AFTER);
	} else if (!slot_check_ask(
		       engine, hold, (struct broker_done){watch_on_checked, engine, hold->id})) {
		watch_in(engine, hold, WATCH_AGAIN);
	}
}

static void
watch_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	assert(hold != NULL);
	if (hold->watch != HOLD_WATCH_NONE) {
		watch_check(engine, hold);
	} else if (!hold->revoked) {
		registry_hold_watch(engine, hold, HOLD_WATCH_PLACED);
		broker_watch(engine->broker, hold->a.text);
	}
}

/* ---- the doors ---- */

void
watch_start(struct lock_engine *engine, struct hold *hold)
{
	if (!hold_has_a(hold))
		return;
	hold->a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	timer_init(&hold->watch_timer, watch_due, engine, hold->id);
	watch_in(engine, hold, WATCH_AFTER);
}

void
watch_news(void *ctx, const char *queue, enum broker_news news)
{
	struct lock_engine *engine = ctx;
	struct hold *hold;

	HASH_FIND(by_watch, engine->watched, queue, strlen(queue), hold);
	if (hold == NULL)
		return;
	switch (news) {
	case BROKER_WATCHED:
		registry_hold_watch(engine, hold, HOLD_WATCH_ON);
		watch_check(engine, hold);
		break;
	case BROKER_UNWATCHED:
		registry_hold_watch(engine, hold, HOLD_WATCH_PLACED);
		break;
	case BROKER_HINT:
		registry_hold_watch(engine, hold, HOLD_WATCH_NONE);
		watch_in(engine, hold, WATCH_AGAIN);
		FAULT(WATCH_NOT_PLACED_AGAIN, timers_cancel(engine->timers, &hold->watch_timer));
		FAULT(CANCEL_IS_REVOKED, lifecycle_revoke(engine, hold); return;);
		FAULT(HINT_NOT_LOOKED_INTO, break);
		watch_check(engine, hold);
		break;
	}
}

/* 3. Keepalive, and the end of the lease. */

/* Questions of one pass, and one more if both kinds of leases are rounded up. */
#define ASK_MOST 64

/* Whether somebody relies on the lock connection. */
static bool
keepalive_is_needed(const struct lock_engine *engine)
{
	return engine->holds.aged[HOLD_LEASE_SHARED] + engine->holds.aged[HOLD_LEASE_OWN] > 0;
}

/* All granted holds with a slot are lost now, and the lock connection is made anew. */
static void
keepalive_give_up(struct lock_engine *engine, const char *why)
{
	engine->link = BROKER_DOWN; /* no request goes out on it any more */
	lease_recover(engine);      /* when its event comes, no hold is left */
	lifecycle_all_lost(engine, why, true);
	FAULT(LEASE_END_KEEPS_LINK, return;);
	broker_reset(engine->broker, BROKER_LOCKS, why);
}

/* ---- the keepalive ---- */

/* The passes in which all held Bs are asked about once. */
static size_t
keepalive_passes(const struct lock_engine *engine)
{
	size_t aged = engine->holds.aged[HOLD_LEASE_OWN] + engine->holds.aged[HOLD_LEASE_SHARED];

	return aged == 0 ? 1 : (aged + ASK_MOST - 1) / ASK_MOST;
}

static void
schedule_keepalive(struct lock_engine *engine)
{
	timers_set(engine->timers, &engine->lease.keepalive,
	    engine_now(engine) + lease_heartbeat(engine) / 3 / (int64_t)keepalive_passes(engine));
}

static void
on_keepalive(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);

	/* In other states it is the time of another request. */
	if (hold != NULL && (hold->state == HOLD_HELD || hold->state == HOLD_COUNTING))
		hold->asked = 0;
	lifecycle_b_answered(engine, hold, reply);
}

/*
 * A frozen engine asks only where the lease would become suspect. Then fewer requests are
 * unanswered.
 */
static bool
keepalive_may_wait(const struct lock_engine *engine, const struct hold *hold)
{
	FAULT_IF(FROZEN_ASKS_NOTHING, engine->frozen, return true);
	return engine->frozen && engine_now(engine) - hold->from < lease_heartbeat(engine) / 2;
}

/*
 * Asks about the Bs with a lease of that kind, the oldest first. Without an order, and if locks
 * come and go faster than the keepalive, always young ones would be asked about.
 */
static void
ask_oldest(struct lock_engine *engine, enum hold_lease lease)
{
	size_t most =
	    (engine->holds.aged[lease] + keepalive_passes(engine) - 1) / keepalive_passes(engine);
	struct hold *hold;

	FAULT_IF(KEEPALIVE_OF_ONE, most > 1, most = 1);
	TAILQ_FOREACH (hold, &engine->holds.ages[lease], of_ages) {
		if (most == 0 || keepalive_may_wait(engine, hold))
			return;
		if (hold->state != HOLD_HELD || hold->asked != 0 ||
		    lifecycle_channel(engine, hold) == 0)
			continue;
		most--;
		hold->asked = engine_now(engine);
		broker_check_holder(engine->broker, hold->channel, hold->way, hold->b.text,
		    (struct broker_done){on_keepalive, engine, hold->id});
	}
}

/*
 * A claim or a delete may be performed late, or its channel may be stuck. Its slot stays reserved
 * until this is known (invariant 1), and the end of the connection is the only other way to
 * know. Held locks are worth more than one slot, so the connection is closed only if nothing is
 * held. Else LOCK_NOTICE_STUCK tells the operator why the slot cannot be had.
 */
static bool
is_stuck_for_nothing(struct lock_engine *engine)
{
	int64_t long_ago = engine_now(engine) - 2 * lease_heartbeat(engine);
	bool needed = keepalive_is_needed(engine);

	if (engine_now(engine) < engine->lease.stuck_at)
		return false; /* it was searched for in this third of a heartbeat */
	engine->lease.stuck_at = engine_now(engine) + lease_heartbeat(engine) / 3;
	FAULT(STUCK_CHANNEL_IGNORED, needed = true);
	for (struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		const struct lock_notice notice = {
		    .kind = LOCK_NOTICE_STUCK, .name = hold->name, .slot = hold->slot};

		if (hold->asked == 0 || hold->asked > long_ago || hold->suspended)
			continue;
		if (!needed)
			return true;
		if (hold->peer != 0 || hold->stuck)
			continue;
		hold->stuck = true;
		engine_notice(engine, 0, &notice);
	}
	return false;
}

static void
keepalive_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	(void)id;
	if (hold_count_on_link(&engine->holds) == 0 || engine->link != BROKER_UP)
		return;
	schedule_keepalive(engine);
	if (is_stuck_for_nothing(engine)) {
		keepalive_give_up(
		    engine, "a channel to the broker is stuck: no answer for two heartbeats");
		return;
	}
	ask_oldest(engine, HOLD_LEASE_OWN);
	ask_oldest(engine, HOLD_LEASE_SHARED);
}

/* ---- a hold whose lease has a length of its own ---- */

/* How often it is extended in that time. */
#define RENEWALS 5

static void on_renewed(void *ctx, uint64_t id, const struct broker_reply *reply);

/* As keepalive_may_wait(): a frozen engine asks half as often. */
static int64_t
renew_at(const struct lock_engine *engine, const struct hold *hold)
{
	return hold->from + lease_length(engine, hold) / RENEWALS * (engine->frozen ? 2 : 1);
}

/* The next moment at which something is to be done. */
static void
schedule_renewal(struct lock_engine *engine, struct hold *hold)
{
	int64_t now = engine_now(engine), suspect_at = lease_suspect_at(engine, hold);
	int64_t when = now < suspect_at ? suspect_at : lease_until(engine, hold);

	if (hold->asked == 0 && renew_at(engine, hold) < when)
		when = renew_at(engine, hold);
	timers_set(engine->timers, &hold->timer, when);
}

static void
keepalive_ask(struct lock_engine *engine, struct hold *hold)
{
	hold->asked = engine_now(engine);
	broker_check_holder(engine->broker, hold->channel, hold->way, hold->b.text,
	    (struct broker_done){on_renewed, engine, hold->id});
}

/* The hold's timer. A renewal that is not answered is never sent again: the lease runs out. */
static void
renewal_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find(&engine->holds, id);
	int64_t now = engine_now(engine);
	char why[96];

	assert(hold->state == HOLD_HELD && hold_lease(hold) == HOLD_LEASE_TIMED);
	if (now >= lease_until(engine, hold)) {
		snprintf(why, sizeof(why), "the lease ran out: it was not confirmed for %.1f s",
		    duration_to_seconds(now - hold->from));
		lifecycle_lose(engine, hold, why);
		return;
	}
	if (now >= lease_suspect_at(engine, hold))
		lease_suspect(engine, hold);
	if (hold->asked == 0 && hold->channel != 0 && now >= renew_at(engine, hold))
		keepalive_ask(engine, hold);
	schedule_renewal(engine, hold);
}

static void
on_renewed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct hold *hold;

	on_keepalive(ctx, id, reply);
	hold = hold_find(&engine->holds, id);
	if (hold != NULL && hold->state == HOLD_HELD)
		schedule_renewal(engine, hold);
}

void
keepalive_suspended(struct lock_engine *engine, struct hold *hold)
{
	/* A hand-off ends. The slot is claimed anew. */
	if (hold->state == HOLD_COUNTING || hold->state == HOLD_PASSING)
		lifecycle_drop(engine, hold);
	if (hold->state != HOLD_HELD)
		return;
	hold->suspended = true;
	lease_suspect(engine, hold);
	if (hold->asked == 0)
		keepalive_ask(engine, hold);
	schedule_renewal(engine, hold);
}

void
keepalive_await(struct lock_engine *engine, struct hold *hold)
{
	FAULT(RESTORED_PROOF_UNHEARD, return;);
	if (broker_await_proof(
		engine->broker, hold->channel, (struct broker_done){on_renewed, engine, hold->id}))
		hold->asked = engine_now(engine);
}

/* ---- the end ---- */

/* The next moment of a hold with a lease of its own. */
static int64_t
next_moment(const struct lock_engine *engine, const struct hold *hold, int64_t now)
{
	int64_t suspect_at = lease_suspect_at(engine, hold);

	return now < suspect_at ? suspect_at : lease_until(engine, hold);
}

/* Holds have been told what is due by `now`. */
static void
keepalive_schedule_watch(struct lock_engine *engine, int64_t now)
{
	int64_t when = engine->lease.state == LEASE_GOOD ? lease_suspect_at(engine, NULL)
							 : lease_until(engine, NULL);
	const struct hold *hold;

	TAILQ_FOREACH (hold, &engine->holds.ages[HOLD_LEASE_OWN], of_ages) {
		int64_t next = next_moment(engine, hold, now);

		if (next < when)
			when = next;
		if (now < lease_suspect_at(engine, hold))
			break; /* those behind it are younger */
	}
	timers_set(engine->timers, &engine->lease.watch, when);
}

/* The leases of single holds. */
static void
keepalive_watch_holds(struct lock_engine *engine, int64_t now)
{
	struct hold *hold, *next;
	char why[96];

	TAILQ_FOREACH_SAFE (hold, &engine->holds.ages[HOLD_LEASE_OWN], of_ages, next) {
		if (now < lease_suspect_at(engine, hold))
			return;
		if (now < lease_until(engine, hold)) {
			lease_suspect(engine, hold);
			continue;
		}
		FAULT(HOLD_LEASE_END_NOT_TOLD, continue);
		snprintf(why, sizeof(why),
		    "the lease ran out: no answer about the holder queue for %.1f s",
		    duration_to_seconds(now - hold->from));
		lifecycle_lose(engine, hold, why);
	}
}

/* Ends what the leases that are over by a fresh clock say: of the connection, or of single holds. */
static void
keepalive_check(struct lock_engine *engine)
{
	int64_t now;

	if (!lease_is_good(engine, NULL)) {
		FAULT(LEASE_END_NOT_TOLD, return;);
		keepalive_run_out(engine);
		return;
	}
	/* Read once: no moment may pass between what is told and what is scheduled. */
	now = engine_now(engine);
	if (engine->lease.state == LEASE_GOOD && now >= lease_suspect_at(engine, NULL))
		lease_set_state(engine, LEASE_SUSPECT);
	keepalive_watch_holds(engine, now);
	keepalive_schedule_watch(engine, now);
}

static void
keepalive_watch_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	(void)id;
	if (keepalive_is_needed(engine))
		keepalive_check(engine);
}

void
keepalive_run_out(struct lock_engine *engine)
{
	char why[96];

	if (engine->link != BROKER_UP)
		return; /* done already, or done by the event of the connection */
	snprintf(why, sizeof(why), "the lease ran out: no answer from the broker for %.1f s",
	    duration_to_seconds(engine_now(engine) - engine->lease.from));
	keepalive_give_up(engine, why);
}

/* ---- queries ---- */

int64_t
lock_silence(const struct lock_engine *engine)
{
	const struct hold *oldest = TAILQ_FIRST(&engine->holds.ages[HOLD_LEASE_OWN]);
	int64_t from = engine->lease.from;
	struct broker_info info;

	if (engine->link != BROKER_UP)
		return -1;
	if (oldest != NULL && oldest->from < from)
		from = oldest->from;
	FAULT(SILENCE_UNSEEN, from = engine_now(engine));
	if (keepalive_is_needed(engine))
		return engine_now(engine) - from;
	broker_get_info(engine->broker, &info);
	return info.last_read == 0 ? 0 : engine_now(engine) - info.last_read;
}

/* ---- the timers begin ---- */

void
keepalive_start(struct lock_engine *engine)
{
	if (!timer_is_set(&engine->lease.keepalive))
		schedule_keepalive(engine);
}

void
keepalive_resume(struct lock_engine *engine)
{
	timers_set(engine->timers, &engine->lease.keepalive, engine_now(engine));
}

void
keepalive_granted(struct lock_engine *engine, struct hold *hold)
{
	int64_t now = engine_now(engine);

	if (hold_lease(hold) == HOLD_LEASE_TIMED) {
		struct lock_peer *peer = engine_peer_find(engine, hold->peer);

		timers_cancel(engine->timers, &hold->timer);
		timer_init(&hold->timer, renewal_due, engine, hold->id);
		schedule_renewal(engine, hold);
		/* The grant tells a lease that may end before those that were told. */
		if (lease_until(engine, hold) < peer->lease_told)
			peer->lease_told = lease_until(engine, hold);
		return;
	}
	assert(engine->lease.state != LEASE_NONE && hold->aged);
	if (!timer_is_set(&engine->lease.watch))
		keepalive_schedule_watch(engine, now);
	/* The claim of a young hold may have been sent before the newest question about another. */
	else if (hold_lease(hold) == HOLD_LEASE_OWN &&
		 next_moment(engine, hold, now) < engine->lease.watch.when)
		timers_set(engine->timers, &engine->lease.watch, next_moment(engine, hold, now));
}

/* 4. Verify. */

/* A verify gives up after so many dead channels. */
#define VERIFY_TRIES 4

enum verify_state {
	VERIFY_NEXT,  /* another flight is out; this one answers requests that come meanwhile */
	VERIFY_ASKED, /* it is sent, B on `channel` */
	VERIFY_AGAIN, /* `channel` is closing: it is sent again on the next */
	VERIFY_OVER   /* its requests are answered; the answer about B is still to come */
};

/* One flight. It answers requests that came before it was sent. */
struct verify {
	uint64_t id; /* the key */
	enum verify_state state;
	uint64_t hold, lock;
	uint64_t channel;
	unsigned tries;
	bool released; /* its hold was released meanwhile, so the end of the hold is no loss */
	bool b_asked;  /* B is not answered yet */
	bool b_ours;
	bool a_seen;           /* also of a true mutex, which has none */
	unsigned a_unanswered; /* checks of A; only the answer to the last one counts */
	uint64_t before;       /* the flight that this one follows; it may be gone; 0 = none */
	uint64_t next;         /* the flight that follows when this one is over; 0 = none */
	uint64_t *ops;         /* owned; the requests; deadlines may have answered some of them */
	size_t count, room;
	UT_hash_handle by_id;
	TAILQ_ENTRY(verify) of_again; /* AGAIN */
};

static const char link_lost[] = "the connection to the broker was lost";

static void verify_go(struct lock_engine *engine, struct verify *verify);

ENGINE_FIND(verify_find, struct verify, verifies, by_id)

static struct verify *
verify_new(struct lock_engine *engine, struct hold *hold)
{
	struct verify *verify = mem_alloc(sizeof(*verify));

	verify->id = engine_id(engine);
	verify->state = VERIFY_NEXT;
	verify->hold = hold->id;
	verify->lock = hold->lock;
	hold->verify = verify->id;
	HASH_ADD(by_id, engine->verifies, id, sizeof(verify->id), verify);
	return verify;
}

static void
verify_free(struct lock_engine *engine, struct verify *verify)
{
	if (verify->state == VERIFY_AGAIN)
		TAILQ_REMOVE(&engine->verifies_again, verify, of_again);
	HASH_DELETE(by_id, engine->verifies, verify);
	free(verify->ops);
	free(verify);
}

static void
verify_set_state(struct lock_engine *engine, struct verify *verify, enum verify_state state)
{
	assert(state != VERIFY_NEXT && state != verify->state);
	if (verify->state == VERIFY_AGAIN)
		TAILQ_REMOVE(&engine->verifies_again, verify, of_again);
	verify->state = state;
	if (state == VERIFY_AGAIN)
		TAILQ_INSERT_TAIL(&engine->verifies_again, verify, of_again);
}

static void
verify_add(const struct lock_engine *engine, struct verify *verify, uint64_t op)
{
	size_t count = verify->count;

	if (count == verify->room) {
		/*
		 * Drops requests that their deadline has answered. On a stuck channel nothing else
		 * would drop them.
		 */
		verify->count = 0;
		for (size_t i = 0; i < count; i++) {
			if (engine_op_find(engine, verify->ops[i]) != NULL)
				verify->ops[verify->count++] = verify->ops[i];
		}
		if (verify->count >= verify->room / 2) {
			verify->room = verify->room == 0 ? 1 : 2 * verify->room;
			verify->ops = mem_grow(verify->ops, verify->room, sizeof(*verify->ops));
		}
	}
	verify->ops[verify->count++] = op;
}

static void verify_finish(struct lock_engine *engine, struct verify *verify,
    const struct broker_reply *reply, enum reason reason, const char *text);

/* The flight before is over. reply: its last one, or NULL. */
static void
verify_follow(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);

	if (reply != NULL && reply->answer == BROKER_UNKNOWN) {
		verify_finish(engine, verify, reply, REASON_LOST, link_lost);
	} else if (hold != NULL && !way_row(hold->way)->is_channel && reply != NULL &&
		   !reply->channel_open) {
		/* If the channel is the hold, A is asked about on another one. */
		verify->channel = hold->channel;
		verify_set_state(engine, verify, VERIFY_AGAIN);
	} else {
		verify_go(engine, verify);
	}
}

/* It stays revoked, even if A comes back (invariant 5). */
static bool
verify_is_revoked(const struct hold *hold)
{
	FAULT(VERIFY_UNREVOKES, return false);
	FAULT(REVOKED_ENDS, return false);
	return hold->revoked;
}

static bool
verify_is_over(const struct hold *hold)
{
	return hold == NULL || hold->lost;
}

/* The flight that follows begins. reply: the broker's last one, or NULL. */
static void
verify_let_next_go(
    struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);
	struct verify *next = verify_find(engine, verify->next);

	if (hold != NULL && hold->verify == verify->id)
		hold->verify = 0;
	verify->next = 0;
	if (!verify->b_asked)
		verify_free(engine, verify);
	if (next != NULL && next->state == VERIFY_NEXT)
		verify_follow(engine, next, reply);
}

/* Answers the requests. reply: the broker's last one, or NULL. */
static void
verify_finish(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply,
    enum reason reason, const char *text)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);
	struct lock_answer answer = engine_refusal(reason, text);

	answer.lock = verify->lock;
	answer.safe_until = lease_safe_until(engine, hold);
	if (hold != NULL) {
		answer.name = hold->name;
		answer.kind = hold->kind;
		answer.slot = hold->slot;
		answer.fence = hold_fence(hold);
		answer.grace = hold->grace;
		answer.lease = hold->grace == 0 ? 0 : lease_length(engine, hold);
	}
	for (size_t i = 0; i < verify->count; i++)
		engine_op_end(engine, verify->ops[i], &answer);
	if (verify->b_asked)
		verify_set_state(engine, verify, VERIFY_OVER);
	/* B may be silent. The next flight asks about it again, and waits for this answer. */
	if (!verify->b_asked || verify_is_over(hold) || verify_is_revoked(hold))
		verify_let_next_go(engine, verify, reply);
}

static void
verify_finish_over(
    struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	verify_finish(
	    engine, verify, reply, verify->released ? REASON_NOT_HELD : REASON_LOST, NULL);
}

/* B and A exist: the lock is held if its lease is not over. */
static void
verify_finish_held(struct lock_engine *engine, struct verify *verify, struct hold *hold,
    const struct broker_reply *reply)
{
	if (verify_is_over(hold)) {
		verify_finish_over(engine, verify, reply);
	} else if (!FAULT_ELSE(VERIFY_BY_TIMER, true, lease_is_good(engine, hold))) {
		verify_finish(engine, verify, reply, REASON_LOST, NULL);
		keepalive_check(engine);
	} else if (verify_is_revoked(hold)) {
		/* Another verify saw A gone meanwhile, and A came back (invariant 5). */
		verify_finish(engine, verify, reply, REASON_REVOKED, NULL);
	} else {
		verify_finish(engine, verify, reply, REASON_NONE, NULL);
	}
}

/* Not performed: sent again on the next channel, unless the hold is gone. */
static void
verify_ask_again(
    struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	if (hold_find(&engine->holds, verify->hold) == NULL)
		verify_finish_over(engine, verify, reply);
	else
		verify_set_state(engine, verify, VERIFY_AGAIN);
}

/* For replies that do not tell whether B or A exists. verify_on_b() and verify_on_a() take the others. */
static void
verify_not_seen(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	switch (reply->answer) {
	case BROKER_SKIPPED:
		verify_ask_again(engine, verify, reply);
		break;
	case BROKER_UNKNOWN:
		verify_finish(engine, verify, reply, REASON_LOST, link_lost);
		break;
	case BROKER_LOCKED: /* of A: another program has made it exclusive */
	case BROKER_REFUSED:
		verify_finish(engine, verify, reply, REASON_BROKER_REFUSED, reply->text);
		break;
	case BROKER_UNREACHABLE:
		verify_finish(engine, verify, reply, REASON_BROKER_UNAVAILABLE, reply->text);
		break;
	case BROKER_OK:
	case BROKER_ABSENT:
		abort();
	}
}

/* Both answers are in, or one of them is still to come. */
static void
verify_finish_seen(
    struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	if (verify->b_ours && verify->a_seen)
		verify_finish_held(engine, verify, hold_find(&engine->holds, verify->hold), reply);
}

static void
verify_on_b(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct verify *verify = verify_find(engine, id);
	struct hold *hold;

	lifecycle_b_answered(
	    engine, verify == NULL ? NULL : hold_find(&engine->holds, verify->hold), reply);
	if (verify == NULL)
		return;
	verify->b_asked = false;
	if (verify->state == VERIFY_OVER) {
		verify_let_next_go(engine, verify, reply);
		return;
	}
	hold = hold_find(&engine->holds, verify->hold);
	if (reply->answer == BROKER_OK) {
		verify->b_ours = true;
		FAULT(VERIFY_B_ONLY, verify->a_seen = true);
		verify_finish_seen(engine, verify, reply);
	} else if (reply->answer == BROKER_LOCKED ||
		   (reply->answer == BROKER_ABSENT && hold != NULL &&
		       !way_row(hold->way)->reclaims)) {
		verify_finish(engine, verify, reply, REASON_LOST, NULL);
	} else if (verify_is_over(hold)) {
		verify_finish_over(engine, verify, reply);
	} else if (reply->answer == BROKER_ABSENT) {
		verify_ask_again(engine, verify, reply);
	} else {
		verify_not_seen(engine, verify, reply);
	}
}

static const char no_channel[] = "the broker closed every channel too soon";

static void
verify_on_a(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct verify *verify = verify_find(engine, id);
	struct hold *hold;

	if (verify == NULL || --verify->a_unanswered > 0 || verify->state != VERIFY_ASKED)
		return;
	hold = hold_find(&engine->holds, verify->hold);
	if (reply->answer == BROKER_OK) {
		verify->a_seen = true;
		verify_finish_seen(engine, verify, reply);
	} else if (verify_is_over(hold)) {
		verify_finish_over(engine, verify, reply);
	} else if (reply->answer == BROKER_ABSENT) {
		lifecycle_revoke(engine, hold);
		verify_finish(engine, verify, reply, REASON_REVOKED, NULL);
	} else if (reply->answer == BROKER_SKIPPED && way_row(hold->way)->is_channel) {
		verify_finish(engine, verify, reply, REASON_BROKER_UNAVAILABLE, no_channel);
	} else {
		verify_not_seen(engine, verify, reply);
	}
}

static void
verify_ask(struct lock_engine *engine, struct verify *verify, struct hold *hold)
{
	verify_set_state(engine, verify, VERIFY_ASKED);
	verify->b_ours = false;
	verify->a_seen = !hold_has_a(hold);
	verify->channel = lifecycle_channel(engine, hold);
	if (verify->channel == 0 || ++verify->tries > VERIFY_TRIES) {
		verify_finish(engine, verify, NULL, REASON_BROKER_UNAVAILABLE, no_channel);
		return;
	}
	FAULT(VERIFY_A_ONLY, verify->b_ours = !verify->a_seen);
	verify->b_asked = !verify->b_ours;
	if (verify->b_asked)
		broker_check_holder(engine->broker, verify->channel, hold->way, hold->b.text,
		    (struct broker_done){verify_on_b, engine, verify->id});
	if (verify->a_seen)
		return;
	if (slot_check_ask(engine, hold, (struct broker_done){verify_on_a, engine, verify->id}))
		verify->a_unanswered++;
	else
		verify_finish(engine, verify, NULL, REASON_BROKER_UNAVAILABLE, no_channel);
}

static bool
is_granted(const struct hold *hold)
{
	return hold->state == HOLD_HELD || hold->state == HOLD_RECLAIMING ||
	       hold->state == HOLD_SLOTLESS;
}

/* Sends the checks, unless the hold is over. */
static void
verify_go(struct lock_engine *engine, struct verify *verify)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);

	if (verify_is_over(hold))
		verify_finish_over(engine, verify, NULL);
	else if (!is_granted(hold) || hold->lock != verify->lock)
		verify_finish(engine, verify, NULL, REASON_NOT_HELD, NULL);
	else if (verify_is_revoked(hold))
		verify_finish(engine, verify, NULL, REASON_REVOKED, NULL);
	else
		verify_ask(engine, verify, hold);
}

/* The engine alone knows the answer. */
static void
verify_answer_at_once(struct lock_engine *engine, uint64_t peer, uint64_t request,
    enum reason reason, const struct hold *hold)
{
	struct lock_answer answer = engine_refusal(reason, NULL);

	answer.lock = hold->lock;
	answer.name = hold->name;
	answer.kind = hold->kind;
	answer.slot = hold->slot;
	engine_tell(engine, peer, request, &answer);
}

void
lock_verify(struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock, uid_t uid)
{
	struct hold *hold = hold_find_lock(&engine->holds, lock);
	struct lock_answer answer = engine_refusal(REASON_NOT_HELD, NULL);
	struct verify *verify, *before;
	bool joins;

	assert(!engine->telling);
	FAULT(VERIFY_FOR_ANYBODY, uid = 0);
	if (hold == NULL || !is_granted(hold) || (uid != 0 && uid != hold->requester->uid)) {
		engine_tell(engine, peer, request, &answer);
		return;
	}
	if (hold->state == HOLD_SLOTLESS) {
		verify_answer_at_once(engine, peer, request, REASON_NONE, hold);
		return;
	}
	if (FAULT_ELSE(REVOKED_ENDS, false, hold->revoked)) {
		/* It stays revoked, even if A came back (invariant 5). */
		verify_answer_at_once(engine, peer, request, REASON_REVOKED, hold);
		return;
	}
	before = verify_find(engine, hold->verify);
	joins =
	    before != NULL && FAULT_ELSE(VERIFY_JOINS_FLIGHT, true, before->state == VERIFY_NEXT);
	verify = joins ? before : verify_new(engine, hold);
	verify_add(engine, verify, engine_op_new(engine, peer, request)->id);
	if (before == NULL) {
		verify_go(engine, verify);
	} else if (before != verify) {
		before->next = verify->id;
		verify->before = before->id;
	}
}

void
verify_send(struct lock_engine *engine, struct hold *hold)
{
	struct verify *newest = verify_find(engine, hold->verify);

	for (struct verify *verify = newest; verify != NULL;
	     verify = verify_find(engine, verify->before))
		verify->released = true;
	if (newest != NULL && newest->state == VERIFY_NEXT)
		verify_go(engine, newest);
}

void
verify_channel_closed(struct lock_engine *engine, uint64_t channel)
{
	struct verify *verify = TAILQ_FIRST(&engine->verifies_again);

	while (verify != NULL) {
		if (verify->channel != channel) {
			verify = TAILQ_NEXT(verify, of_again);
			continue;
		}
		verify_go(engine, verify);
		/* From the start: the end of one may free the one that follows it. */
		verify = TAILQ_FIRST(&engine->verifies_again);
	}
}

/* ---- the engine's start and end ---- */

void
keepalive_init(struct lock_engine *engine)
{
	struct slot_checks *checks = &engine->slot_checks;

	checks->window = WINDOW_MOST;
	TAILQ_INIT(&checks->waiting);
	TAILQ_INIT(&checks->questions);
	TAILQ_INIT(&engine->verifies_again);
	timer_init(&engine->lease.keepalive, keepalive_due, engine, 0);
	timer_init(&engine->lease.watch, keepalive_watch_due, engine, 0);
}

void
keepalive_done(struct lock_engine *engine)
{
	struct slot_checks *checks = &engine->slot_checks;
	struct slot_question *question;
	struct verify *verify, *next;

	timers_cancel(engine->timers, &engine->lease.keepalive);
	timers_cancel(engine->timers, &engine->lease.watch);
	TAILQ_CONCAT(&checks->questions, &checks->waiting, entry);
	while ((question = TAILQ_FIRST(&checks->questions)) != NULL) {
		TAILQ_REMOVE(&checks->questions, question, entry);
		free(question);
	}
	HASH_ITER (by_id, engine->verifies, verify, next)
		verify_free(engine, verify);
}
