#include "daemon/lock/core/progress.h"

/* So many waiters are told at once that their position changed. */
#define FIRST 16
/* The minimum time between two rounds for the others. */
#define REST_EVERY (1 * NSEC_PER_SEC)
/*
 * There may be thousands of them. They are told in slices of time, between which other work runs.
 */
#define SLICE (NSEC_PER_MSEC / 4)
#define SLICE_REST NSEC_PER_MSEC

static void
tell(struct lock_engine *engine, struct waiter *waiter, int position)
{
	const struct semaphore *semaphore = waiter->semaphore;
	const struct lock_notice notice = {.kind = LOCK_NOTICE_WAITING,
	    .name = semaphore->name,
	    .request = waiter->request,
	    .position = position,
	    .busy = semaphore_busy_count(semaphore),
	    .extra = semaphore->complete ? semaphore->extra : -1};

	waiter->told_position = notice.position;
	waiter->told_busy = notice.busy;
	waiter->told_extra = notice.extra;
	engine_notice(engine, waiter->peer, &notice);
}

/* Does nothing if only the number of busy slots is unknown for the moment. */
static void
tell_news(struct lock_engine *engine, struct waiter *waiter, int position)
{
	int busy = semaphore_busy_count(waiter->semaphore);

	if (waiter->told_position == 0)
		return; /* its client did not ask, or its wait has not begun */
	if (position != waiter->told_position || (busy >= 0 && busy != waiter->told_busy) ||
	    (busy >= 0 && waiter->semaphore->extra != waiter->told_extra))
		tell(engine, waiter, position);
}

void
progress_begin(struct lock_engine *engine, struct waiter *waiter)
{
	struct semaphore *semaphore = waiter->semaphore;

	if (!waiter->progress || waiter->told_position != 0)
		return;
	waiter->told_turn = semaphore->told_turn;
	TAILQ_INSERT_TAIL(&semaphore->told, waiter, of_told);
	tell(engine, waiter, local_queue_position(&semaphore->local_queue, waiter));
}

void
progress_end(struct waiter *waiter)
{
	if (waiter->told_position != 0)
		TAILQ_REMOVE(&waiter->semaphore->told, waiter, of_told);
}

void
progress_tell(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct waiter *waiter = local_queue_first(&semaphore->local_queue, LOCAL_QUEUE_ALL);

	if (TAILQ_EMPTY(&semaphore->told))
		return;
	for (int position = 1; waiter != NULL && position <= FIRST; position++) {
		tell_news(engine, waiter, position);
		waiter = local_queue_next(&semaphore->local_queue, waiter, LOCAL_QUEUE_ALL);
	}
	semaphore->told_old |= waiter != NULL;
	if (waiter != NULL && !timer_is_set(&semaphore->progress))
		timers_set(engine->timers, &semaphore->progress, engine_now(engine) + REST_EVERY);
}

/* The next waiter to be told in this round; NULL: all were told. */
static struct waiter *
next_told(const struct semaphore *semaphore)
{
	struct waiter *first = TAILQ_FIRST(&semaphore->told);

	return first == NULL || first->told_turn == semaphore->told_turn ? NULL : first;
}

void
progress_due(void *ctx, uint64_t id)
{
	struct semaphore *semaphore = ctx;
	struct lock_engine *engine = semaphore->engine;
	int64_t now = engine_now(engine), end = now + SLICE;
	struct waiter *waiter;

	(void)id;
	if (next_told(semaphore) == NULL) {
		semaphore->told_turn++;
		semaphore->told_old = false;
	}
	while ((waiter = next_told(semaphore)) != NULL && now < end) {
		waiter->told_turn = semaphore->told_turn;
		TAILQ_REMOVE(&semaphore->told, waiter, of_told);
		TAILQ_INSERT_TAIL(&semaphore->told, waiter, of_told);
		tell_news(engine, waiter, local_queue_position(&semaphore->local_queue, waiter));
		now = engine_now(engine);
	}
	if (waiter != NULL)
		timers_set(engine->timers, &semaphore->progress, now + SLICE_REST);
	else if (semaphore->told_old)
		timers_set(engine->timers, &semaphore->progress, now + REST_EVERY);
}
