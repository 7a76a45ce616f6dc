#include "daemon/lock/core/rows.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

static struct lock_row
row_of(const struct requester *requester, enum lock_row_state state)
{
	return (struct lock_row){.state = state,
	    .waiter = requester->waiter,
	    .uid = requester->uid,
	    .pid = requester->pid,
	    .who = requester->who,
	    .why = requester->why,
	    .command = requester->command};
}

static struct lock_row
row_of_waiter(const struct waiter *waiter, enum lock_row_state state, int position)
{
	struct lock_row row = row_of(waiter->requester, state);

	row.name = waiter->semaphore->name;
	row.kind = waiter->kind;
	row.priority = waiter->priority;
	row.position = position;
	row.since = waiter->started;
	return row;
}

static struct lock_row
row_of_hold(const struct hold *hold, enum lock_row_state state)
{
	struct lock_row row = row_of(hold->requester, state);

	row.lock = hold->lock;
	row.name = hold->name;
	row.kind = hold->kind;
	row.slot = hold->slot;
	row.since = hold->since;
	row.revoked = hold->revoked;
	row.fence = hold->granted_fence;
	return row;
}

/* Whether the hold is a row: its client was told, and has not gone. */
static bool
is_row(const struct hold *hold)
{
	return hold->peer != 0 && hold->requester != NULL;
}

static enum lock_row_state
state_of(const struct hold *hold)
{
	return hold->admitted ? LOCK_ROW_ADMITTED : LOCK_ROW_BUSY;
}

/* ---- as they change ---- */

static void
tell(struct lock_engine *engine, const struct lock_row *row)
{
	bool telling = engine->telling;

	if (engine->events.changed == NULL)
		return;
	engine->telling = true;
	engine->events.changed(engine->events.ctx, row);
	engine->telling = telling;
}

void
rows_waits(struct lock_engine *engine, const struct waiter *waiter)
{
	struct lock_row row;

	if (engine->events.changed == NULL)
		return;
	row = row_of_waiter(waiter, LOCK_ROW_WAITING,
	    local_queue_position(&waiter->semaphore->local_queue, waiter));
	tell(engine, &row);
}

void
rows_cancelled(struct lock_engine *engine, const struct waiter *waiter)
{
	struct lock_row row;

	if (waiter->requester == NULL)
		return; /* it holds */
	row = row_of_waiter(waiter, LOCK_ROW_CANCELLED, 0);
	tell(engine, &row);
	row.state = LOCK_ROW_GONE;
	tell(engine, &row);
}

void
rows_pass(struct lock_engine *engine, struct waiter *waiter, struct hold *hold)
{
	assert(waiter->requester != NULL && hold->requester == NULL && hold->peer != 0);
	hold->requester = waiter->requester;
	waiter->requester = NULL;
	hold->since = engine_now(engine);
	hold->granted_fence = hold_fence(hold);
	rows_holds(engine, hold);
}

void
rows_holds(struct lock_engine *engine, const struct hold *hold)
{
	struct lock_row row;

	if (!is_row(hold))
		return;
	row = row_of_hold(hold, state_of(hold));
	tell(engine, &row);
}

void
rows_gone(struct lock_engine *engine, const struct hold *hold)
{
	struct lock_row row;

	if (!is_row(hold))
		return;
	row = row_of_hold(hold, LOCK_ROW_GONE);
	tell(engine, &row);
}

/* ---- all of them ---- */

/* semaphore: NULL: there are no waiters. */
static void
each_waiter_of(
    const struct semaphore *semaphore, void (*fn)(void *ctx, const struct lock_row *row), void *ctx)
{
	const struct local_queue *line = semaphore == NULL ? NULL : &semaphore->local_queue;
	const struct waiter *waiter =
	    line == NULL ? NULL : local_queue_first(line, LOCAL_QUEUE_ALL);
	struct lock_row row;
	int position = 0;

	for (; waiter != NULL; waiter = local_queue_next(line, waiter, LOCAL_QUEUE_ALL)) {
		row = row_of_waiter(waiter, LOCK_ROW_WAITING, ++position);
		fn(ctx, &row);
	}
}

void
lock_each_holding(const struct lock_engine *engine, const char *name,
    void (*fn)(void *ctx, const struct lock_row *row), void *ctx)
{
	const struct hold *hold;
	struct lock_row row;

	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (!is_row(hold) || (name != NULL && strcmp(name, hold->name) != 0))
			continue;
		row = row_of_hold(hold, state_of(hold));
		fn(ctx, &row);
	}
}

/* The next waiter of a semaphore, or mutex, that had come when the walk began. */
static const struct waiter *
next_in_queue(
    const struct lock_engine *engine, const char *name, bool mutex, const struct lock_place *place)
{
	const struct semaphore *semaphore = engine_semaphore_find(engine, name, mutex);
	/* The last waiter may have left the queue since. */
	const struct waiter last = {.priority = place->priority, .id = place->waiter};
	const struct waiter *next =
	    semaphore == NULL ? NULL
			      : local_queue_next(&semaphore->local_queue, &last, LOCAL_QUEUE_ALL);

	while (next != NULL && next->id > place->newest)
		next = local_queue_next(&semaphore->local_queue, next, LOCAL_QUEUE_ALL);
	return next;
}

bool
lock_next_waiting(const struct lock_engine *engine, const char *name, struct lock_place *place,
    struct lock_row *ret)
{
	const struct waiter *next;

	if (place->newest == 0)
		*place = (struct lock_place){.newest = engine->last_id, .priority = INT_MAX};
	next = next_in_queue(engine, name, place->mutex, place);
	if (next == NULL && !place->mutex) {
		place->mutex = true;
		place->priority = INT_MAX;
		next = next_in_queue(engine, name, true, place);
	}
	if (next == NULL)
		return false;
	place->priority = next->priority;
	place->waiter = next->id;
	*ret = row_of_waiter(
	    next, LOCK_ROW_WAITING, local_queue_position(&next->semaphore->local_queue, next));
	return true;
}

void
lock_each(const struct lock_engine *engine, const char *name,
    void (*fn)(void *ctx, const struct lock_row *row), void *ctx)
{
	const struct semaphore *semaphore;

	lock_each_holding(engine, name, fn, ctx);
	if (name != NULL) {
		each_waiter_of(engine_semaphore_find(engine, name, false), fn, ctx);
		each_waiter_of(engine_semaphore_find(engine, name, true), fn, ctx);
		return;
	}
	for (semaphore = engine->semaphores; semaphore != NULL; semaphore = semaphore->by_key.next)
		each_waiter_of(semaphore, fn, ctx);
}

bool
lock_row_find(
    const struct lock_engine *engine, uint64_t waiter, uint64_t lock, struct lock_row *ret)
{
	const struct hold *hold = lock == 0 ? NULL : hold_find_lock(&engine->holds, lock);
	const struct waiter *waits = lock == 0 ? engine_waiter_find(engine, waiter) : NULL;

	if (hold != NULL && is_row(hold)) {
		*ret = row_of_hold(hold, state_of(hold));
		return true;
	}
	if (waits == NULL || waits->requester == NULL)
		return false;
	*ret = row_of_waiter(
	    waits, LOCK_ROW_WAITING, local_queue_position(&waits->semaphore->local_queue, waits));
	return true;
}

void
lock_each_busy(
    const struct lock_engine *engine, const char *name, void (*fn)(void *ctx, int slot), void *ctx)
{
	for (const struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->state != HOLD_SLOTLESS && strcmp(name, hold->name) == 0)
			fn(ctx, hold->slot);
	}
}

const char *
lock_waits_for(const struct lock_engine *engine, uint64_t id)
{
	const struct waiter *waiter = engine_waiter_find(engine, id);

	return waiter == NULL ? NULL : waiter->semaphore->name;
}

void
lock_each_passing(
    const struct lock_engine *engine, const char *name, void (*fn)(void *ctx, int slot), void *ctx)
{
	for (const struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (!is_row(hold) && hold->state != HOLD_SLOTLESS && strcmp(name, hold->name) == 0)
			fn(ctx, hold->slot);
	}
}

/* Whether clients have the mutex, or hand it off. A hold without a slot leaves it free. */
static bool
is_busy_mutex(const struct hold *hold)
{
	return hold->kind == LOCK_KIND_MUTEX &&
	       (hold->state == HOLD_HELD || hold->state == HOLD_RECLAIMING ||
		   hold->state == HOLD_COUNTING || hold->state == HOLD_PASSING);
}

/* The holds without a slot of one lock. */
struct slotless {
	struct lock_use use;
	struct semaphore_key key;
	UT_hash_handle by_key;
};

/* By lock, as an unlimited semaphore may have thousands of them. */
static void
each_slotless(
    const struct lock_engine *engine, void (*fn)(void *ctx, const struct lock_use *use), void *ctx)
{
	struct slotless *all = NULL, *one, *next;
	const struct hold *hold;

	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		bool mutex = hold->kind == LOCK_KIND_MUTEX;
		struct semaphore_key key;

		if (hold->state != HOLD_SLOTLESS)
			continue;
		key = semaphore_key(hold->name, mutex);
		HASH_FIND(by_key, all, key.text, strlen(key.text), one);
		if (one == NULL) {
			one = mem_alloc(sizeof(*one));
			one->use = (struct lock_use){.name = hold->name, .mutex = mutex};
			one->key = key;
			HASH_ADD_KEYPTR(by_key, all, one->key.text, strlen(one->key.text), one);
		}
		one->use.extra++;
	}
	HASH_ITER (by_key, all, one, next) {
		fn(ctx, &one->use);
		HASH_DELETE(by_key, all, one);
		free(one);
	}
}

void
lock_each_use(
    const struct lock_engine *engine, void (*fn)(void *ctx, const struct lock_use *use), void *ctx)
{
	const struct semaphore *semaphore;
	const struct hold *hold;
	struct lock_use use;

	for (int mutex = 0; mutex <= 1; mutex++) {
		for (semaphore = engine->semaphores; semaphore != NULL;
		     semaphore = semaphore->by_key.next) {
			use = (struct lock_use){.name = semaphore->name, .mutex = mutex != 0};
			use.waiting = local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_ALL);
			if (semaphore->mutex == use.mutex && use.waiting > 0)
				fn(ctx, &use);
		}
	}
	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		use = (struct lock_use){.name = hold->name, .mutex = true, .busy = 1};
		if (is_busy_mutex(hold))
			fn(ctx, &use);
		use = (struct lock_use){.name = hold->name, .extra = 1, .slot = hold->slot};
		if (is_row(hold) && hold->revoked)
			fn(ctx, &use);
	}
	each_slotless(engine, fn, ctx);
}
