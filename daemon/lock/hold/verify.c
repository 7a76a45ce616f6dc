#include "daemon/lock/hold/verify.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/hold/keep.h"
#include "daemon/lock/hold/lease.h"
#include "daemon/lock/hold/pulse.h"

/* How often a channel may die under one verify before it gives up. */
#define TRIES 4

enum verify_state {
	VERIFY_NEXT, /* another flight for the hold is out: who asks meanwhile is answered by this one */
	VERIFY_ASKED, /* it is out, on `channel` */
	VERIFY_AGAIN  /* `channel` is closing: it goes again on the next */
};

/* One flight. It answers those who asked before it was sent. */
struct verify {
	uint64_t id; /* the key */
	enum verify_state state;
	uint64_t hold, lock;
	uint64_t channel;
	unsigned tries;
	bool b_ours;
	bool asks_a;   /* ASKED: A, too. A true mutex has none */
	uint64_t next; /* the flight that follows when this one is over; 0 = none */
	uint64_t *ops; /* owned; the requests, some of which their deadline may have answered */
	size_t count, room;
	UT_hash_handle by_id;
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
	HASH_DELETE(by_id, engine->verifies, verify);
	free(verify->ops);
	free(verify);
}

static void
verify_set_state(struct verify *verify, enum verify_state state)
{
	assert(state != VERIFY_NEXT && state != verify->state);
	verify->state = state;
}

static void
verify_add(const struct lock_engine *engine, struct verify *verify, uint64_t op)
{
	size_t count = verify->count;

	if (count == verify->room) {
		/* Those that were answered by their deadline go: on a stuck channel nothing else would end them. */
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

/* The flight before it is over, after that reply (NULL: after none). */
static void
follow(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);

	if (reply != NULL && reply->answer == BROKER_UNKNOWN) {
		finish(engine, verify, reply, REASON_LOST, link_lost);
	} else if (hold != NULL && reply != NULL && !reply->channel_open) {
		verify->channel = hold->channel;
		verify_set_state(verify, VERIFY_AGAIN);
	} else {
		go(engine, verify);
	}
}

/* Answers those who asked; reply: the broker's, after which it is over; NULL: none. */
static void
finish(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply,
    enum reason reason, const char *text)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);
	struct lock_answer answer = engine_refusal(reason, text);
	struct verify *next = verify_find(engine, verify->next);

	answer.lock = verify->lock;
	answer.safe_until = lease_until(engine);
	if (hold != NULL) {
		answer.name = hold->name;
		answer.kind = hold->kind;
		answer.slot = hold->slot;
		if (hold->verify == verify->id)
			hold->verify = 0;
	}
	for (size_t i = 0; i < verify->count; i++)
		engine_op_end(engine, verify->ops[i], &answer);
	verify_free(engine, verify);
	if (next != NULL && next->state == VERIFY_NEXT)
		follow(engine, next, reply);
}

/* It stays so though A comes back (invariant 5). */
static bool
is_revoked(const struct hold *hold)
{
	FAULT(VERIFY_UNREVOKES, return false);
	FAULT(REVOKED_ENDS, return false);
	return hold->revoked;
}

/*
 * The broker has said yes to all: it is held, if its lease is still there. The hold is: it ends after the
 * answers to all that was asked on its channel, or with the link, of which nothing is read any more.
 */
static void
finish_held(struct lock_engine *engine, struct verify *verify, const struct hold *hold,
    const struct broker_reply *reply)
{
	bool good = lease_is_good(engine);

	FAULT(VERIFY_BY_TIMER, good = true);
	assert(hold != NULL);
	if (!good) {
		finish(engine, verify, reply, REASON_LOST, NULL);
		pulse_run_out(engine);
	} else if (is_revoked(hold)) {
		/* Another verify saw A gone meanwhile; it came back (invariant 5). */
		finish(engine, verify, reply, REASON_REVOKED, NULL);
	} else {
		finish(engine, verify, reply, REASON_NONE, NULL);
	}
}

/* Not performed: asked again on the next channel, unless there is nothing left to ask about. */
static void
ask_again(struct lock_engine *engine, struct verify *verify, const struct broker_reply *reply)
{
	if (hold_find(&engine->holds, verify->hold) == NULL)
		finish(engine, verify, reply, REASON_LOST, NULL);
	else
		verify_set_state(verify, VERIFY_AGAIN);
}

/* Whether the queue is there, B or A, is not known; on_b() and on_a() know what it means when it is. */
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
	case BROKER_LOCKED: /* of A, which is nobody's: another program has made it exclusive */
	case BROKER_REFUSED:
		finish(engine, verify, reply, REASON_BROKER_REFUSED, reply->text);
		break;
	case BROKER_OK:
	case BROKER_ABSENT:
		abort();
	}
}

static void
on_b(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct verify *verify = verify_find(engine, id);

	keep_b_answered(
	    engine, verify == NULL ? NULL : hold_find(&engine->holds, verify->hold), reply);
	if (verify == NULL)
		return;
	if (reply->answer == BROKER_OK) {
		struct hold *hold = hold_find(&engine->holds, verify->hold);

		verify->b_ours = true;
		FAULT(VERIFY_B_ONLY, finish_held(engine, verify, hold, reply); return;);
		if (!verify->asks_a)
			finish_held(engine, verify, hold, reply);
	} else if (reply->answer == BROKER_ABSENT) {
		ask_again(engine, verify, reply);
	} else if (reply->answer == BROKER_LOCKED) {
		finish(engine, verify, reply, REASON_LOST, NULL);
	} else {
		not_seen(engine, verify, reply);
	}
}

static void
on_a(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct verify *verify = verify_find(engine, id);
	struct hold *hold;

	lease_answered(engine, reply);
	if (verify == NULL || verify->state != VERIFY_ASKED)
		return;
	hold = hold_find(&engine->holds, verify->hold);
	if (reply->answer == BROKER_OK) {
		assert(verify->b_ours);
		finish_held(engine, verify, hold, reply);
	} else if (reply->answer == BROKER_ABSENT) {
		assert(hold != NULL);
		keep_revoke(engine, hold);
		finish(engine, verify, reply, REASON_REVOKED, NULL);
	} else {
		not_seen(engine, verify, reply);
	}
}

static void
ask(struct lock_engine *engine, struct verify *verify, struct hold *hold)
{
	verify_set_state(verify, VERIFY_ASKED);
	verify->b_ours = false;
	verify->channel = keep_channel(engine, hold);
	if (verify->channel == 0 || ++verify->tries > TRIES) {
		finish(engine, verify, NULL, REASON_BROKER_UNAVAILABLE,
		    "the broker closed every channel too soon");
		return;
	}
	verify->asks_a = hold->kind != LOCK_KIND_MUTEX;
	FAULT(VERIFY_A_ONLY, verify->b_ours = verify->asks_a);
	if (!verify->b_ours)
		broker_check(engine->broker, verify->channel, hold->b.text,
		    (struct broker_done){on_b, engine, verify->id});
	if (verify->asks_a) {
		struct queue_name a = queue_name_a(engine->settings.naming, hold->name, hold->slot);

		broker_check(engine->broker, verify->channel, a.text,
		    (struct broker_done){on_a, engine, verify->id});
	}
}

static bool
is_granted(const struct hold *hold)
{
	return hold->state == HOLD_HELD || hold->state == HOLD_RECLAIMING ||
	       hold->state == HOLD_SLOTLESS;
}

/* Asks, unless there is nothing to ask about any more. */
static void
go(struct lock_engine *engine, struct verify *verify)
{
	struct hold *hold = hold_find(&engine->holds, verify->hold);

	if (hold == NULL)
		finish(engine, verify, NULL, REASON_LOST, NULL);
	else if (!is_granted(hold) || hold->lock != verify->lock)
		finish(engine, verify, NULL, REASON_NOT_HELD, NULL);
	else if (is_revoked(hold))
		finish(engine, verify, NULL, REASON_REVOKED, NULL);
	else
		ask(engine, verify, hold);
}

/* What is known here is all that there is to know. */
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
	bool revoked, joins;

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
	revoked = hold->revoked;
	FAULT(REVOKED_ENDS, revoked = false);
	if (revoked) {
		/* It stays revoked though A may have come back (invariant 5). */
		answer_at_once(engine, peer, request, REASON_REVOKED, hold);
		return;
	}
	before = verify_find(engine, hold->verify);
	joins = before != NULL && before->state == VERIFY_NEXT;
	FAULT(VERIFY_JOINS_FLIGHT, joins = before != NULL);
	verify = joins ? before : verify_new(engine, hold);
	verify_add(engine, verify, engine_op_new(engine, peer, request)->id);
	if (before == NULL)
		go(engine, verify);
	else if (before != verify)
		before->next = verify->id;
}

void
verify_send(struct lock_engine *engine, struct hold *hold)
{
	struct verify *verify = verify_find(engine, hold->verify);

	if (verify != NULL && verify->state == VERIFY_NEXT)
		go(engine, verify);
}

void
verify_channel_closed(struct lock_engine *engine, uint64_t channel)
{
	struct verify *verify = engine->verifies;

	while (verify != NULL) {
		if (verify->state != VERIFY_AGAIN || verify->channel != channel) {
			verify = verify->by_id.next;
			continue;
		}
		go(engine, verify);
		/* From the start: one that ends may take the one that follows it along. */
		verify = engine->verifies;
	}
}

void
verify_free_all(struct lock_engine *engine)
{
	struct verify *verify, *next;

	HASH_ITER (by_id, engine->verifies, verify, next)
		verify_free(engine, verify);
}
