#include "daemon/lock/hold/verify.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/hold/lifecycle.h"
#include "daemon/lock/hold/lease.h"
#include "daemon/lock/hold/keepalive.h"
#include "daemon/lock/hold/slot_check.h"

/* A verify gives up after so many dead channels. */
#define TRIES 4

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

static void go(struct lock_engine *engine, struct verify *verify);

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

static void finish(struct lock_engine *engine, struct verify *verify,
    const struct broker_reply *reply, enum reason reason, const char *text);

/* The flight before is over. reply: its last one, or NULL. */
static void
follow(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);

	if (reply != NULL && reply->answer == BROKER_UNKNOWN) {
		finish(engine, verify, reply, REASON_LOST, link_lost);
	} else if (hold != NULL && !way_row(hold->way)->is_channel && reply != NULL &&
		   !reply->channel_open) {
		/* If the channel is the hold, A is asked about on another one. */
		verify->channel = hold->channel;
		verify_set_state(engine, verify, VERIFY_AGAIN);
	} else {
		go(engine, verify);
	}
}

/* It stays revoked, even if A comes back (invariant 5). */
static bool
is_revoked(const struct hold *hold)
{
	FAULT(VERIFY_UNREVOKES, return false);
	FAULT(REVOKED_ENDS, return false);
	return hold->revoked;
}

static bool
is_over(const struct hold *hold)
{
	return hold == NULL || hold->lost;
}

/* The flight that follows begins. reply: the broker's last one, or NULL. */
static void
let_next_go(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);
	struct verify *next = verify_find(engine, verify->next);

	if (hold != NULL && hold->verify == verify->id)
		hold->verify = 0;
	verify->next = 0;
	if (!verify->b_asked)
		verify_free(engine, verify);
	if (next != NULL && next->state == VERIFY_NEXT)
		follow(engine, next, reply);
}

/* Answers the requests. reply: the broker's last one, or NULL. */
static void
finish(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply,
    enum reason reason, const char *text)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);
	struct lock_answer answer = engine_refusal(reason, text);

	answer.lock = verify->lock;
	answer.safe_until = lease_until(engine, hold);
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
	if (!verify->b_asked || is_over(hold) || is_revoked(hold))
		let_next_go(engine, verify, reply);
}

static void
finish_over(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	finish(engine, verify, reply, verify->released ? REASON_NOT_HELD : REASON_LOST, NULL);
}

/* B and A exist: the lock is held if its lease is not over. */
static void
finish_held(struct lock_engine *engine, struct verify *verify, struct hold *hold,
    const struct broker_reply *reply)
{
	if (is_over(hold)) {
		finish_over(engine, verify, reply);
	} else if (!FAULT_ELSE(VERIFY_BY_TIMER, true, lease_is_good(engine, hold))) {
		finish(engine, verify, reply, REASON_LOST, NULL);
		keepalive_check(engine);
	} else if (is_revoked(hold)) {
		/* Another verify saw A gone meanwhile, and A came back (invariant 5). */
		finish(engine, verify, reply, REASON_REVOKED, NULL);
	} else {
		finish(engine, verify, reply, REASON_NONE, NULL);
	}
}

/* Not performed: sent again on the next channel, unless the hold is gone. */
static void
ask_again(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	if (hold_find(&engine->holds, verify->hold) == NULL)
		finish_over(engine, verify, reply);
	else
		verify_set_state(engine, verify, VERIFY_AGAIN);
}

/* For replies that do not tell whether B or A exists. on_b() and on_a() take the others. */
static void
not_seen(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	switch (reply->answer) {
	case BROKER_SKIPPED:
		ask_again(engine, verify, reply);
		break;
	case BROKER_UNKNOWN:
		finish(engine, verify, reply, REASON_LOST, link_lost);
		break;
	case BROKER_LOCKED: /* of A: another program has made it exclusive */
	case BROKER_REFUSED:
		finish(engine, verify, reply, REASON_BROKER_REFUSED, reply->text);
		break;
	case BROKER_UNREACHABLE:
		finish(engine, verify, reply, REASON_BROKER_UNAVAILABLE, reply->text);
		break;
	case BROKER_OK:
	case BROKER_ABSENT:
		abort();
	}
}

/* Both answers are in, or one of them is still to come. */
static void
finish_seen(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	if (verify->b_ours && verify->a_seen)
		finish_held(engine, verify, hold_find(&engine->holds, verify->hold), reply);
}

static void
on_b(void *ctx, uint64_t id, const struct broker_reply *reply)
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
		let_next_go(engine, verify, reply);
		return;
	}
	hold = hold_find(&engine->holds, verify->hold);
	if (reply->answer == BROKER_OK) {
		verify->b_ours = true;
		FAULT(VERIFY_B_ONLY, verify->a_seen = true);
		finish_seen(engine, verify, reply);
	} else if (reply->answer == BROKER_LOCKED ||
		   (reply->answer == BROKER_ABSENT && hold != NULL &&
		       !way_row(hold->way)->reclaims)) {
		finish(engine, verify, reply, REASON_LOST, NULL);
	} else if (is_over(hold)) {
		finish_over(engine, verify, reply);
	} else if (reply->answer == BROKER_ABSENT) {
		ask_again(engine, verify, reply);
	} else {
		not_seen(engine, verify, reply);
	}
}

static const char no_channel[] = "the broker closed every channel too soon";

static void
on_a(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct verify *verify = verify_find(engine, id);
	struct hold *hold;

	if (verify == NULL || --verify->a_unanswered > 0 || verify->state != VERIFY_ASKED)
		return;
	hold = hold_find(&engine->holds, verify->hold);
	if (reply->answer == BROKER_OK) {
		verify->a_seen = true;
		finish_seen(engine, verify, reply);
	} else if (is_over(hold)) {
		finish_over(engine, verify, reply);
	} else if (reply->answer == BROKER_ABSENT) {
		lifecycle_revoke(engine, hold);
		finish(engine, verify, reply, REASON_REVOKED, NULL);
	} else if (reply->answer == BROKER_SKIPPED && way_row(hold->way)->is_channel) {
		finish(engine, verify, reply, REASON_BROKER_UNAVAILABLE, no_channel);
	} else {
		not_seen(engine, verify, reply);
	}
}

static void
ask(struct lock_engine *engine, struct verify *verify, struct hold *hold)
{
	verify_set_state(engine, verify, VERIFY_ASKED);
	verify->b_ours = false;
	verify->a_seen = !hold_has_a(hold);
	verify->channel = lifecycle_channel(engine, hold);
	if (verify->channel == 0 || ++verify->tries > TRIES) {
		finish(engine, verify, NULL, REASON_BROKER_UNAVAILABLE, no_channel);
		return;
	}
	FAULT(VERIFY_A_ONLY, verify->b_ours = !verify->a_seen);
	verify->b_asked = !verify->b_ours;
	if (verify->b_asked)
		broker_check_holder(engine->broker, verify->channel, hold->way, hold->b.text,
		    (struct broker_done){on_b, engine, verify->id});
	if (verify->a_seen)
		return;
	if (slot_check_ask(engine, hold, (struct broker_done){on_a, engine, verify->id}))
		verify->a_unanswered++;
	else
		finish(engine, verify, NULL, REASON_BROKER_UNAVAILABLE, no_channel);
}

static bool
is_granted(const struct hold *hold)
{
	return hold->state == HOLD_HELD || hold->state == HOLD_RECLAIMING ||
	       hold->state == HOLD_SLOTLESS;
}

/* Sends the checks, unless the hold is over. */
static void
go(struct lock_engine *engine, struct verify *verify)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);

	if (is_over(hold))
		finish_over(engine, verify, NULL);
	else if (!is_granted(hold) || hold->lock != verify->lock)
		finish(engine, verify, NULL, REASON_NOT_HELD, NULL);
	else if (is_revoked(hold))
		finish(engine, verify, NULL, REASON_REVOKED, NULL);
	else
		ask(engine, verify, hold);
}

/* The engine alone knows the answer. */
static void
answer_at_once(struct lock_engine *engine, uint64_t peer, uint64_t request, enum reason reason,
    const struct hold *hold)
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
		answer_at_once(engine, peer, request, REASON_NONE, hold);
		return;
	}
	if (FAULT_ELSE(REVOKED_ENDS, false, hold->revoked)) {
		/* It stays revoked, even if A came back (invariant 5). */
		answer_at_once(engine, peer, request, REASON_REVOKED, hold);
		return;
	}
	before = verify_find(engine, hold->verify);
	joins =
	    before != NULL && FAULT_ELSE(VERIFY_JOINS_FLIGHT, true, before->state == VERIFY_NEXT);
	verify = joins ? before : verify_new(engine, hold);
	verify_add(engine, verify, engine_op_new(engine, peer, request)->id);
	if (before == NULL) {
		go(engine, verify);
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
		go(engine, newest);
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
		go(engine, verify);
		/* From the start: the end of one may free the one that follows it. */
		verify = TAILQ_FIRST(&engine->verifies_again);
	}
}

void
verify_free_all(struct lock_engine *engine)
{
	struct verify *verify, *next;

	HASH_ITER (by_id, engine->verifies, verify, next)
		verify_free(engine, verify);
}
