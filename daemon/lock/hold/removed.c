#include "daemon/lock/hold/removed.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/core/mutex.h"
#include "daemon/lock/core/probe.h"

/* The maximum in work at once. Each takes a channel of the auxiliary connection. */
#define WORK_MOST 8

struct removed_slot {
	uint64_t id; /* of its mutex order, too */
	char *name;  /* owned */
	int slot;
	bool in_work;
	struct timer late; /* the mutex is held, and the broker does not answer */
	UT_hash_handle by_id;
};

ENGINE_FIND(removed_find, struct removed_slot, removed_slots, by_id)

static void
removed_free(struct lock_engine *engine, struct removed_slot *removed)
{
	timers_cancel(engine->timers, &removed->late);
	HASH_DELETE(by_id, engine->removed_slots, removed);
	free(removed->name);
	free(removed);
}

/* False: the mutex was lost, and its news ended the work, or will end it. */
static bool
still_held(const struct lock_engine *engine, const struct removed_slot *removed)
{
	return removed != NULL && mutex_is_held(engine);
}

static void
let_go(struct lock_engine *engine, struct removed_slot *removed)
{
	timers_cancel(engine->timers, &removed->late);
	mutex_drop(engine, removed->id);
}

static void
on_deleted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct removed_slot *removed = removed_find(engine, id);

	if (!still_held(engine, removed))
		return;
	if (!reply->channel_open)
		mutex_channel_gone(engine, id);
	let_go(engine, removed);
}

static void
on_a_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct removed_slot *removed = removed_find(engine, id);

	if (!still_held(engine, removed))
		return;
	if (seen->answers[0] == BROKER_ABSENT)
		broker_delete_holder(engine->broker, mutex_channel(engine, id),
		    queue_name_b(engine->settings.naming, removed->name, removed->slot).text,
		    (struct broker_done){on_deleted, engine, id});
	else
		let_go(engine, removed);
}

static void
too_late(void *ctx, uint64_t id)
{
	mutex_overdue(ctx, id);
}

static void begin_next(struct lock_engine *engine);

static void
on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct removed_slot *removed = removed_find(engine, id);

	(void)reason;
	(void)text;
	if (news != MUTEX_HELD) {
		removed_free(engine, removed);
		begin_next(engine);
		return;
	}
	timers_set(
	    engine->timers, &removed->late, engine_now(engine) + engine->settings.request_timeout);
	probe_one(engine, queue_name_a(engine->settings.naming, removed->name, removed->slot),
	    BROKER_ASK_SLOT, on_a_probed, id);
}

static void
begin_next(struct lock_engine *engine)
{
	struct removed_slot *removed, *next;
	struct queue_name mutex;
	int in_work = 0;

	/* In the order of the calls, so that those in work are the first. */
	HASH_ITER (by_id, engine->removed_slots, removed, next) {
		if (++in_work > WORK_MOST)
			return;
		if (removed->in_work)
			continue;
		removed->in_work = true;
		mutex = queue_name_admin(engine->settings.naming, removed->name);
		FAULT(
		    REMOVED_UNGUARDED, mutex = queue_name_directory_mutex(engine->settings.naming));
		mutex_take(engine, mutex.text,
		    &(struct mutex_order){removed->id, "the end of a removed slot", on_mutex});
	}
}

void
removed_delete_holder(struct lock_engine *engine, const char *name, int slot)
{
	struct removed_slot *removed = mem_alloc(sizeof(*removed));

	removed->id = engine_id(engine);
	removed->name = mem_strdup(name);
	removed->slot = slot;
	timer_init(&removed->late, too_late, engine, removed->id);
	HASH_ADD(by_id, engine->removed_slots, id, sizeof(removed->id), removed);
	begin_next(engine);
}

void
removed_free_all(struct lock_engine *engine)
{
	struct removed_slot *removed, *next;

	HASH_ITER (by_id, engine->removed_slots, removed, next)
		removed_free(engine, removed);
}
