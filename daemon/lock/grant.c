#include "daemon/lock/grant.h"

#include "daemon/lock/acquire.h"

static bool
has_room(const struct lock_engine *engine, const struct waiter *waiter)
{
	const struct lock_peer *peer = engine_peer_find(engine, waiter->peer);

	/* Its own claim, if there is one, is given up for this. */
	return peer->hold_count + peer->claim_count - (waiter->state == WAITER_CLAIMING) <
	       engine->settings.max_locks_per_peer;
}

enum reason
grant_slotless(struct lock_engine *engine, uint64_t id)
{
	struct waiter *waiter = engine_waiter_find(engine, id);

	if (waiter == NULL)
		return REASON_NOT_HELD;
	if (!has_room(engine, waiter))
		return REASON_TOO_MANY_LOCKS;
	acquire_grant_slotless(engine, waiter, true);
	return REASON_NONE;
}

static void
deny(struct lock_engine *engine, struct waiter *waiter)
{
	struct lock_answer answer = engine_refusal(REASON_CANCELLED, "denied by an administrator");

	answer.name = waiter->semaphore->name;
	answer.denied = true;
	engine_waiter_end(engine, waiter, &answer);
}

enum reason
grant_deny(struct lock_engine *engine, uint64_t id)
{
	struct waiter *waiter = engine_waiter_find(engine, id);

	if (waiter == NULL)
		return REASON_NOT_HELD;
	deny(engine, waiter);
	return REASON_NONE;
}

static size_t
deny_line(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct waiter *waiter;
	size_t denied = 0;

	if (semaphore == NULL)
		return 0;
	for (; (waiter = line_first(&semaphore->line, LINE_ALL)) != NULL; denied++)
		deny(engine, waiter);
	return denied;
}

size_t
grant_deny_all(struct lock_engine *engine, const char *name)
{
	return deny_line(engine, engine_semaphore_find(engine, name, false)) +
	       deny_line(engine, engine_semaphore_find(engine, name, true));
}
