#include "daemon/lock/hold/removed.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/beads.h"
#include "daemon/lock/core/mutex.h"
#include "daemon/lock/core/probe.h"
#include "daemon/lock/hold/fence_floor.h"

/* The maximum in work at once. Each takes a channel of the auxiliary connection. */
#define WORK_MOST 8
/* The maximum for one mutex, so that administrators do not wait for long. */
#define SLOTS_MOST 64
/* A daemon watches the A of a hold after a tenth of a second (watch.c), and then knows. */
#define IN_USE_REST (300 * NSEC_PER_MSEC)
/* The maximum wait for the mutex. Another daemon has it for many requests, one for each slot. */
#define MUTEX_WAIT (30 * NSEC_PER_SEC)

struct removed_slot {
	uint64_t id; /* of its mutex order, too */
	char *name;  /* owned */
	int slot;
	enum {
		REMOVED_WAITS,  /* until its holder knows of the removal */
		REMOVED_DUE,    /* waits for its turn */
		REMOVED_CLAIMS, /* waits for the mutex */
		REMOVED_WORKS,  /* holds the mutex, or drops it */
		REMOVED_BEADS   /* by quorum: it is deleted */
	} state;
	int done;           /* WORKS: slots before this one */
	struct timer timer; /* the end of WAITS or CLAIMS */
	UT_hash_handle by_id;
};

ENGINE_FIND(removed_find, struct removed_slot, removed_slots, by_id)

static void
removed_free(struct lock_engine *engine, struct removed_slot *removed)
{
	timers_cancel(engine->timers, &removed->timer);
	HASH_DELETE(by_id, engine->removed_slots, removed);
	free(removed->name);
	free(removed);
}

/* False: the mutex was lost, and its news ended the work, or will end it. */
static bool
still_held(const struct lock_engine *engine, const struct removed_slot *removed)
{
	return removed != NULL && mutex_is_held(engine, removed->id);
}

static void work(struct lock_engine *engine, struct removed_slot *removed);

/* The slot is done. The mutex goes on with the next slot of that name, or is dropped. */
static void
slot_done(struct lock_engine *engine, struct removed_slot *removed)
{
	struct removed_slot *other, *next;

	HASH_ITER (by_id, engine->removed_slots, other, next) {
		if (removed->done >= SLOTS_MOST - 1)
			break;
		if (other->state != REMOVED_DUE || strcmp(other->name, removed->name) != 0)
			continue;
		removed->slot = other->slot;
		removed->done++;
		removed_free(engine, other);
		work(engine, removed);
		return;
	}
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
	slot_done(engine, removed);
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
		slot_done(engine, removed);
}

static void
work(struct lock_engine *engine, struct removed_slot *removed)
{
	mutex_drop_by(engine, removed->id, engine_now(engine) + engine->settings.request_timeout);
	probe_one(engine, queue_name_a(engine->settings.naming, removed->name, removed->slot),
	    BROKER_ASK_SLOT, on_a_probed, removed->id);
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
	timers_cancel(engine->timers, &removed->timer);
	removed->state = REMOVED_WORKS;
	work(engine, removed);
}

/* If another program keeps the mutex, fsck finds the B. */
static void
begin(struct lock_engine *engine, struct removed_slot *removed)
{
	struct queue_name mutex = queue_name_admin(engine->settings.naming, removed->name);

	removed->state = REMOVED_CLAIMS;
	timers_set(engine->timers, &removed->timer, engine_now(engine) + MUTEX_WAIT);
	FAULT(REMOVED_UNGUARDED, mutex = queue_name_directory_mutex(engine->settings.naming));
	mutex_take(engine, mutex.text,
	    &(struct mutex_order){removed->id, "the end of a removed slot", on_mutex});
}

static bool
is_in_work(const struct removed_slot *removed)
{
	return removed->state == REMOVED_CLAIMS || removed->state == REMOVED_WORKS;
}

/* One slot of a name at a time has the mutex, or waits for it. */
static void
begin_next(struct lock_engine *engine)
{
	struct removed_slot *removed, *next, *in_work[WORK_MOST];
	size_t count = 0, i;

	HASH_ITER (by_id, engine->removed_slots, removed, next) {
		if (is_in_work(removed))
			in_work[count++] = removed;
	}
	HASH_ITER (by_id, engine->removed_slots, removed, next) {
		if (count == WORK_MOST)
			return;
		for (i = 0; i < count && strcmp(in_work[i]->name, removed->name) != 0;)
			i++;
		if (i == count && removed->state == REMOVED_DUE) {
			begin(engine, removed);
			in_work[count++] = removed;
		}
	}
}

static void
on_time(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct removed_slot *removed = removed_find(engine, id);

	if (removed->state == REMOVED_BEADS) {
		removed_free(engine, removed);
	} else if (removed->state == REMOVED_CLAIMS) {
		mutex_leave(engine, id);
		removed_free(engine, removed);
	} else {
		removed->state = REMOVED_DUE;
	}
	begin_next(engine);
}

/* ---- slots by quorum ---- */

/* A slot that could not be deleted, as its messages are gone, is left alone for so long. */
#define BEADS_REST (30 * NSEC_PER_SEC)

/* A later slot of this name has a larger fencing number. */
static void
on_beads_deleted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct removed_slot *removed = removed_find(engine, id);

	/* The next claims would find the same for a while. Nobody else could look into the slot then. */
	if (reply->answer == BROKER_LOCKED && reply->removed) {
		timers_set(engine->timers, &removed->timer, engine_now(engine) + BEADS_REST);
		return;
	}
	if (reply->answer == BROKER_OK)
		fence_floor_raise(engine, bead_fence_epoch(reply->fence) + 1);
	removed_free(engine, removed);
}

/* ---- the doors ---- */

static struct removed_slot *
removed_new(struct lock_engine *engine, const char *name, int slot)
{
	struct removed_slot *removed = mem_alloc(sizeof(*removed));

	removed->id = engine_id(engine);
	removed->name = mem_strdup(name);
	removed->slot = slot;
	removed->state = REMOVED_DUE;
	timer_init(&removed->timer, on_time, engine, removed->id);
	HASH_ADD(by_id, engine->removed_slots, id, sizeof(removed->id), removed);
	return removed;
}

void
removed_delete_holder(struct lock_engine *engine, const char *name, int slot)
{
	removed_new(engine, name, slot);
	begin_next(engine);
}

void
removed_holder_in_use(struct lock_engine *engine, const char *name, int slot)
{
	struct removed_slot *removed = removed_new(engine, name, slot);

	removed->state = REMOVED_WAITS;
	timers_set(engine->timers, &removed->timer, engine_now(engine) + IN_USE_REST);
}

/* Each has a channel. If there are more, the next claim finds a slot that stays. */
#define BEADS_MOST 64

void
removed_delete_beads(struct lock_engine *engine, const char *name, int slot)
{
	struct queue_name queue = queue_name_quorum(name, slot);
	struct removed_slot *removed, *next;
	int count = 0;

	HASH_ITER (by_id, engine->removed_slots, removed, next) {
		if (removed->state != REMOVED_BEADS)
			continue;
		if (++count == BEADS_MOST ||
		    (removed->slot == slot && strcmp(removed->name, name) == 0))
			return;
	}
	removed = removed_new(engine, name, slot);
	removed->state = REMOVED_BEADS;
	broker_delete_removed(engine->broker, queue.text,
	    (struct broker_done){on_beads_deleted, engine, removed->id});
}

bool
removed_is_quiet(const struct lock_engine *engine)
{
	const struct removed_slot *removed;

	for (removed = engine->removed_slots; removed != NULL; removed = removed->by_id.next) {
		if (removed->state != REMOVED_BEADS || !timer_is_set(&removed->timer))
			return false;
	}
	return true;
}

void
removed_free_all(struct lock_engine *engine)
{
	struct removed_slot *removed, *next;

	HASH_ITER (by_id, engine->removed_slots, removed, next)
		removed_free(engine, removed);
}
