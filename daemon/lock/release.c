#include "daemon/lock/release.h"

#include "daemon/base/fault.h"
#include "daemon/lock/handoff.h"
#include "daemon/lock/keep.h"
#include "daemon/lock/verify.h"
#include "daemon/lock/registry.h"

static void
let_go(struct lock_engine *engine, struct hold *hold)
{
	if (!handoff_start(engine, hold))
		keep_drop(engine, hold);
}

void
release_start(struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock)
{
	struct hold *hold = hold_find_lock(&engine->holds, lock);
	struct lock_answer answer = engine_refusal(REASON_NOT_HELD, NULL);

	/* Nobody's (0) while it is claimed or dropped: only what was granted can be released. */
	if (hold == NULL ||
	    (hold->peer != peer && !(FAULT(RELEASE_BY_ANYBODY) && hold->peer != 0))) {
		engine_tell(engine, peer, request, &answer);
		return;
	}
	verify_send(engine, hold);
	hold->releasing = engine_op_new(engine, peer, request)->id;
	let_go(engine, hold);
}

void
release_peer(struct lock_engine *engine, uint64_t peer)
{
	struct lock_peer *entry;

	/* The entry goes with the last of its holds and waiters. */
	while ((entry = engine_peer_find(engine, peer)) != NULL) {
		if (!TAILQ_EMPTY(&entry->waiters))
			registry_waiter_free(engine, TAILQ_FIRST(&entry->waiters));
		else
			let_go(engine, TAILQ_FIRST(&entry->holds));
	}
}

void
release_all(struct lock_engine *engine, enum reason reason)
{
	struct hold *hold, *next;

	HASH_ITER (by_id, engine->holds.by_id, hold, next) {
		struct lock_notice notice = {.kind = LOCK_NOTICE_LOST,
		    .lock = hold->lock,
		    .name = hold->name,
		    .slot = hold->slot,
		    .reason = reason};

		if (hold->peer == 0)
			continue;
		engine->total.lost++;
		engine_notice(engine, hold->peer, &notice);
		keep_drop(engine, hold);
	}
}
