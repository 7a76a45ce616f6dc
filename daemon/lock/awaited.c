#include "daemon/lock/awaited.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

/* Slots in one probe, those in flight in all, and the time that each of them puts off the next probe by. */
#define BATCH_MOST 128
#define FLIGHT_MOST 512
#define EACH (NSEC_PER_MSEC * 15 / 100)

enum awaited_state {
	AWAITED_RESTING, /* the timer is set, or nobody wants to look */
	AWAITED_WAITING, /* among the slots of a user whose turn it takes */
	AWAITED_SENT,    /* in a batch */
	AWAITED_SEEN     /* those who await it are being answered */
};

struct awaited {
	struct queue_name queue; /* the key */
	enum awaited_state state;
	struct awaits *awaits;     /* borrowed */
	struct awaited_user *user; /* borrowed; WAITING */
	struct timer again;        /* RESTING, SEEN */
	TAILQ_HEAD(, awaiter)
	awaiters; /* borrowed; it goes with the last, when RESTING or WAITING */
	TAILQ_ENTRY(awaited) of_user;
	UT_hash_handle by_queue;
};

/* A user of whose slots some are WAITING. */
struct awaited_user {
	uid_t uid; /* the key */
	size_t count;
	TAILQ_HEAD(, awaited) slots; /* borrowed */
	TAILQ_ENTRY(awaited_user) of_turns;
	UT_hash_handle by_uid;
};

struct batch {
	struct awaits *awaits; /* borrowed */
	size_t count;
	struct awaited *slots[BATCH_MOST]; /* borrowed */
	TAILQ_ENTRY(batch) entry;
};

/* Of an engine, from the first await on. */
struct awaits {
	struct lock_engine *engine;       /* borrowed */
	struct awaited *slots;            /* owned; by queue */
	struct awaited_user *users;       /* owned */
	TAILQ_HEAD(, awaited_user) turns; /* the same; the next one first */
	TAILQ_HEAD(, batch) batches;      /* owned; in flight */
	size_t in_flight;                 /* slots of those */
	struct timer next;                /* set: no probe goes before */
};

/* ---- turns ---- */

/* NULL: none of its slots is WAITING. */
static struct awaited_user *
user_find(const struct awaits *awaits, uid_t uid)
{
	struct awaited_user *user;

	HASH_FIND(by_uid, awaits->users, &uid, sizeof(uid), user);
	return user;
}

static size_t
user_count(const struct awaits *awaits, uid_t uid)
{
	const struct awaited_user *user = user_find(awaits, uid);

	return user == NULL ? 0 : user->count;
}

/*
 * Of those who await the slot, one of the user with the fewest that are WAITING: so nobody has to wait for
 * the ten thousand of another.
 */
static uid_t
slot_uid(const struct awaits *awaits, const struct awaited *slot)
{
	const struct awaiter *best = TAILQ_FIRST(&slot->awaiters), *other;
	size_t fewest = user_count(awaits, best->uid), count;

	TAILQ_FOREACH (other, &slot->awaiters, of_slot) {
		if (fewest == 0)
			break;
		count = user_count(awaits, other->uid);
		if (count < fewest) {
			best = other;
			fewest = count;
		}
	}
	return best->uid;
}

/* first: before the slots that the user looks at again. */
static void
slot_wait(struct awaits *awaits, struct awaited *slot, uid_t uid, bool first)
{
	struct awaited_user *user = user_find(awaits, uid);

	assert(slot->state == AWAITED_RESTING);
	slot->state = AWAITED_WAITING;
	timers_cancel(awaits->engine->timers, &slot->again);
	if (user == NULL) {
		user = mem_alloc(sizeof(*user));
		user->uid = uid;
		TAILQ_INIT(&user->slots);
		HASH_ADD(by_uid, awaits->users, uid, sizeof(user->uid), user);
		TAILQ_INSERT_TAIL(&awaits->turns, user, of_turns);
	}
	slot->user = user;
	user->count++;
	if (first)
		TAILQ_INSERT_HEAD(&user->slots, slot, of_user);
	else
		TAILQ_INSERT_TAIL(&user->slots, slot, of_user);
}

static void
slot_wait_no_more(struct awaits *awaits, struct awaited *slot, enum awaited_state state)
{
	struct awaited_user *user = slot->user;

	assert(slot->state == AWAITED_WAITING);
	slot->state = state;
	slot->user = NULL;
	TAILQ_REMOVE(&user->slots, slot, of_user);
	if (--user->count > 0)
		return;
	TAILQ_REMOVE(&awaits->turns, user, of_turns);
	HASH_DELETE(by_uid, awaits->users, user);
	free(user);
}

static void
slot_free(struct awaits *awaits, struct awaited *slot)
{
	timers_cancel(awaits->engine->timers, &slot->again);
	if (slot->state == AWAITED_WAITING)
		slot_wait_no_more(awaits, slot, AWAITED_RESTING);
	HASH_DELETE(by_queue, awaits->slots, slot);
	free(slot);
}

/* ---- probes ---- */

static void send_batch(struct awaits *awaits);

static void
slot_seen(struct awaits *awaits, struct awaited *slot, enum broker_answer answer)
{
	struct awaiter *awaiter, *next;
	bool late = false;

	slot->state = AWAITED_SEEN;
	/* Each of them may leave, and its wait with it: no other. */
	TAILQ_FOREACH_SAFE (awaiter, &slot->awaiters, of_slot, next) {
		if (awaiter->late)
			late = true;
		else
			awaiter->seen(awaits->engine, awaiter->id, answer);
		awaiter->late = false;
	}
	slot->state = AWAITED_RESTING;
	if (TAILQ_EMPTY(&slot->awaiters))
		slot_free(awaits, slot);
	else if (late)
		slot_wait(awaits, slot, slot_uid(awaits, slot), true);
}

static void
on_probed(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	struct batch *batch = ctx;
	struct awaits *awaits = batch->awaits;

	(void)id;
	assert(count == batch->count);
	for (size_t i = 0; i < count; i++)
		slot_seen(awaits, batch->slots[i], answers[i]);
	awaits->in_flight -= count;
	TAILQ_REMOVE(&awaits->batches, batch, entry);
	free(batch);
	send_batch(awaits);
}

/* A slot of each user in turn, until the probe is full. */
static void
send_batch(struct awaits *awaits)
{
	struct lock_engine *engine = awaits->engine;
	const char *queues[BATCH_MOST];
	struct awaited_user *user;
	struct awaited *slot;
	struct batch *batch;

	if (TAILQ_EMPTY(&awaits->turns) || timer_is_set(&awaits->next) ||
	    awaits->in_flight + BATCH_MOST > FLIGHT_MOST)
		return;
	batch = mem_alloc(sizeof(*batch));
	batch->awaits = awaits;
	while (batch->count < BATCH_MOST && (user = TAILQ_FIRST(&awaits->turns)) != NULL) {
		slot = TAILQ_FIRST(&user->slots);
		TAILQ_REMOVE(&awaits->turns, user, of_turns);
		TAILQ_INSERT_TAIL(&awaits->turns, user, of_turns);
		slot_wait_no_more(awaits, slot, AWAITED_SENT);
		queues[batch->count] = slot->queue.text;
		batch->slots[batch->count++] = slot;
	}
	TAILQ_INSERT_TAIL(&awaits->batches, batch, entry);
	awaits->in_flight += batch->count;
	timers_set(
	    engine->timers, &awaits->next, engine_now(engine) + (int64_t)batch->count * EACH);
	broker_probe(
	    engine->broker, queues, batch->count, (struct broker_probe_done){on_probed, batch, 0});
}

static void
on_next(void *ctx, uint64_t id)
{
	(void)id;
	send_batch(ctx);
}

static void
on_again(void *ctx, uint64_t id)
{
	struct awaited *slot = ctx;

	(void)id;
	slot_wait(slot->awaits, slot, slot_uid(slot->awaits, slot), false);
	send_batch(slot->awaits);
}

/* ---- the doors ---- */

static struct awaits *
awaits_new(struct lock_engine *engine)
{
	struct awaits *awaits = mem_alloc(sizeof(*awaits));

	awaits->engine = engine;
	TAILQ_INIT(&awaits->turns);
	TAILQ_INIT(&awaits->batches);
	timer_init(&awaits->next, on_next, awaits, 0);
	return awaits;
}

void
awaited_join(struct lock_engine *engine, struct awaiter *awaiter, const struct queue_name *queue)
{
	struct awaits *awaits;
	struct awaited *slot;

	if (engine->awaits == NULL)
		engine->awaits = awaits_new(engine);
	awaits = engine->awaits;
	HASH_FIND(by_queue, awaits->slots, queue->text, strlen(queue->text), slot);
	if (slot == NULL) {
		slot = mem_alloc(sizeof(*slot));
		slot->queue = *queue;
		slot->awaits = awaits;
		TAILQ_INIT(&slot->awaiters);
		timer_init(&slot->again, on_again, slot, 0);
		HASH_ADD_KEYPTR(
		    by_queue, awaits->slots, slot->queue.text, strlen(slot->queue.text), slot);
	}
	awaiter->slot = slot;
	awaiter->late = slot->state == AWAITED_SENT;
	TAILQ_INSERT_TAIL(&slot->awaiters, awaiter, of_slot);
	if (slot->state == AWAITED_WAITING && user_count(awaits, awaiter->uid) < slot->user->count)
		slot_wait_no_more(awaits, slot, AWAITED_RESTING);
	if (slot->state == AWAITED_RESTING)
		slot_wait(awaits, slot, awaiter->uid, true);
	send_batch(awaits);
}

void
awaited_again(struct lock_engine *engine, struct awaiter *awaiter, int64_t when)
{
	struct awaited *slot = awaiter->slot;

	if (slot->state != AWAITED_RESTING && slot->state != AWAITED_SEEN)
		return; /* it is on its way */
	if (!timer_is_set(&slot->again) || when < slot->again.when)
		timers_set(engine->timers, &slot->again, when);
}

void
awaited_leave(struct lock_engine *engine, struct awaiter *awaiter)
{
	struct awaited *slot = awaiter->slot;

	if (slot == NULL)
		return;
	awaiter->slot = NULL;
	TAILQ_REMOVE(&slot->awaiters, awaiter, of_slot);
	if (TAILQ_EMPTY(&slot->awaiters) &&
	    (slot->state == AWAITED_RESTING || slot->state == AWAITED_WAITING))
		slot_free(engine->awaits, slot);
}

void
awaited_free_all(struct lock_engine *engine)
{
	struct awaits *awaits = engine->awaits;
	struct awaited *slot, *next_slot;
	struct batch *batch;

	if (awaits == NULL)
		return;
	HASH_ITER (by_queue, awaits->slots, slot, next_slot)
		slot_free(awaits, slot);
	while ((batch = TAILQ_FIRST(&awaits->batches)) != NULL) {
		TAILQ_REMOVE(&awaits->batches, batch, entry);
		free(batch);
	}
	timers_cancel(engine->timers, &awaits->next);
	free(awaits);
}
