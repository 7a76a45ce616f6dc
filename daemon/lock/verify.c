#include "daemon/lock/verify.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/lock/keep.h"

/* How often a lane may die under one verify before it gives up. */
#define TRIES 4

struct verify {
	uint64_t op; /* the request; the key */
	uint64_t hold;
	uint64_t lane; /* on which it asked last */
	unsigned tries;
	bool again; /* the lane is closing: ask again on the next */
	bool b_ours;
	UT_hash_handle by_op;
};

static struct verify *
verify_find(const struct lock_engine *engine, uint64_t op)
{
	struct verify *verify;

	HASH_FIND(by_op, engine->verifies, &op, sizeof(op), verify);
	return verify;
}

static void
finish(struct lock_engine *engine, struct verify *verify, enum reason reason, const char *text)
{
	const struct hold *hold = hold_find(&engine->holds, verify->hold);
	struct lock_answer answer = engine_refusal(reason, text);
	uint64_t op = verify->op;

	answer.lock = verify->hold;
	if (hold != NULL) {
		answer.name = hold->name;
		answer.kind = hold->kind;
		answer.slot = hold->slot;
	}
	HASH_DELETE(by_op, engine->verifies, verify);
	free(verify);
	engine_op_end(engine, op, &answer);
}

/* Not performed: asked again on the next lane, unless there is nothing left to ask about. */
static void
ask_again(struct lock_engine *engine, struct verify *verify)
{
	if (hold_find(&engine->holds, verify->hold) == NULL)
		finish(engine, verify, REASON_LOST, NULL);
	else
		verify->again = true;
}

static void
on_b(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct verify *verify = verify_find(engine, id);
	struct hold *hold;

	if (verify == NULL)
		return;
	hold = hold_find(&engine->holds, verify->hold);
	switch (reply->answer) {
	case BROKER_OK:
		verify->b_ours = true;
		if (hold != NULL && hold->kind == LOCK_KIND_MUTEX)
			finish(engine, verify, REASON_NONE, NULL);
		break;
	case BROKER_ABSENT:
		if (hold != NULL)
			keep_b_vanished(engine, hold);
		ask_again(engine, verify);
		break;
	case BROKER_LOCKED:
		if (hold != NULL)
			keep_lost(engine, hold, "the slot's queue belongs to another connection");
		finish(engine, verify, REASON_LOST, NULL);
		break;
	case BROKER_REFUSED:
		finish(engine, verify, REASON_BROKER_DENIED, reply->text);
		break;
	case BROKER_SKIPPED:
		ask_again(engine, verify);
		break;
	case BROKER_UNKNOWN:
		finish(engine, verify, REASON_LOST, "the connection to the broker was lost");
		break;
	}
}

static void
on_a(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct verify *verify = verify_find(engine, id);
	struct hold *hold;

	if (verify == NULL || verify->again)
		return;
	hold = hold_find(&engine->holds, verify->hold);
	switch (reply->answer) {
	case BROKER_OK:
		assert(verify->b_ours);
		/* One that is being dropped was still held when it was asked about: in order. */
		if (hold == NULL)
			finish(engine, verify, REASON_NOT_HELD, NULL);
		else if (hold->revoked)
			/* Another verify saw A gone meanwhile; it came back (invariant 5). */
			finish(engine, verify, REASON_REVOKED, NULL);
		else
			finish(engine, verify, REASON_NONE, NULL);
		break;
	case BROKER_ABSENT:
		if (hold != NULL)
			keep_revoke(engine, hold);
		finish(engine, verify, REASON_REVOKED, NULL);
		break;
	case BROKER_LOCKED:
	case BROKER_REFUSED:
		finish(engine, verify, REASON_BROKER_DENIED, reply->text);
		break;
	case BROKER_SKIPPED:
		ask_again(engine, verify);
		break;
	case BROKER_UNKNOWN:
		finish(engine, verify, REASON_LOST, "the connection to the broker was lost");
		break;
	}
}

static void
ask(struct lock_engine *engine, struct verify *verify, struct hold *hold)
{
	verify->again = false;
	verify->b_ours = false;
	verify->lane = keep_lane(engine, hold);
	if (verify->lane == 0 || ++verify->tries > TRIES) {
		finish(engine, verify, REASON_BROKER_UNAVAILABLE,
		    "no channel to the broker stayed open long enough");
		return;
	}
	broker_check(engine->broker, verify->lane, hold->b.text,
	    (struct broker_done){on_b, engine, verify->op});
	if (hold->kind != LOCK_KIND_MUTEX) {
		struct queue_name a = queue_name_a(engine->settings.naming, hold->name, hold->slot);

		broker_check(engine->broker, verify->lane, a.text,
		    (struct broker_done){on_a, engine, verify->op});
	}
}

void
verify_start(struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock, uid_t uid)
{
	struct hold *hold = hold_find(&engine->holds, lock);
	struct lock_answer answer = engine_refusal(REASON_NOT_HELD, NULL);
	struct verify *verify;

	if (hold == NULL || (hold->state != HOLD_HELD && hold->state != HOLD_RECLAIMING) ||
	    (uid != 0 && uid != hold->uid)) {
		engine_tell(engine, peer, request, &answer);
		return;
	}
	if (hold->revoked) {
		/* It stays revoked though A may have come back (invariant 5). */
		answer = engine_refusal(REASON_REVOKED, NULL);
		answer.lock = hold->id;
		answer.name = hold->name;
		answer.slot = hold->slot;
		engine_tell(engine, peer, request, &answer);
		return;
	}
	verify = mem_alloc(sizeof(*verify));
	verify->op = engine_op_new(engine, peer, request)->id;
	verify->hold = lock;
	HASH_ADD(by_op, engine->verifies, op, sizeof(verify->op), verify);
	ask(engine, verify, hold);
}

void
verify_lane_closed(struct lock_engine *engine, uint64_t lane)
{
	struct verify *verify, *next;

	HASH_ITER (by_op, engine->verifies, verify, next) {
		struct hold *hold = hold_find(&engine->holds, verify->hold);

		if (!verify->again || verify->lane != lane)
			continue;
		if (hold == NULL)
			finish(engine, verify, REASON_LOST, NULL);
		else if (hold->state == HOLD_DROPPING)
			finish(engine, verify, REASON_NOT_HELD, NULL);
		else
			ask(engine, verify, hold);
	}
}

void
verify_free_all(struct lock_engine *engine)
{
	struct verify *verify, *next;

	HASH_ITER (by_op, engine->verifies, verify, next) {
		HASH_DELETE(by_op, engine->verifies, verify);
		free(verify);
	}
}
