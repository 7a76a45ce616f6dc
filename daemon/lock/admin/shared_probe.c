#include "daemon/lock/admin/shared_probe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

/*
 * Maximum slots of a batch, maximum slots in flight, and the time by which each slot delays the
 * next batch.
 */
#define BATCH_MOST 128
#define FLIGHT_MOST 512
#define EACH (NSEC_PER_MSEC * 15 / 100)

enum shared_state {
	SHARED_RESTING, /* no asker waits for an answer */
	SHARED_WAITING, /* in the list of a user, for a turn of this user */
	SHARED_SENT,    /* in a batch */
	SHARED_SEEN     /* its askers are being answered */
};

struct shared_slot {
	struct queue_name queue; /* the key */
	enum shared_state state;
	struct shared_user *user; /* borrowed; WAITING */
	/* borrowed; RESTING, WAITING: the slot is freed with the last of them */
	TAILQ_HEAD(, shared_asker) askers;
	TAILQ_ENTRY(shared_slot) of_user;
	UT_hash_handle by_queue;
};

/* A user with WAITING slots. */
struct shared_user {
	uid_t uid; /* the key */
	size_t count;
	TAILQ_HEAD(, shared_slot) slots; /* borrowed */
	TAILQ_ENTRY(shared_user) of_turns;
	UT_hash_handle by_uid;
};

struct batch {
	struct shared_probes *probes; /* borrowed */
	int64_t sent;                 /* clock time */
	size_t count;
	struct shared_slot *slots[BATCH_MOST]; /* borrowed */
	TAILQ_ENTRY(batch) entry;
};

/* One for each engine, made when the first asker comes. */
struct shared_probes {
	struct lock_engine *engine;      /* borrowed */
	struct shared_slot *slots;       /* owned; by queue */
	struct shared_user *users;       /* owned */
	TAILQ_HEAD(, shared_user) turns; /* the same; the next one first */
	TAILQ_HEAD(, batch) batches;     /* owned; in flight */
	size_t in_flight;                /* slots of those */
	struct timer next;               /* set: no batch is sent before */
};

/* ---- turns ---- */

/* NULL: none of its slots is WAITING. */
static struct shared_user *
user_find(const struct shared_probes *probes, uid_t uid)
{
	struct shared_user *user;

	HASH_FIND(by_uid, probes->users, &uid, sizeof(uid), user);
	return user;
}

static size_t
user_count(const struct shared_probes *probes, uid_t uid)
{
	const struct shared_user *user = user_find(probes, uid);

	return user == NULL ? 0 : user->count;
}

/* first: before the slots that the user asks for again. */
static void
slot_wait(struct shared_probes *probes, struct shared_slot *slot, uid_t uid, bool first)
{
	struct shared_user *user = user_find(probes, uid);

	assert(slot->state == SHARED_RESTING);
	slot->state = SHARED_WAITING;
	if (user == NULL) {
		user = mem_alloc(sizeof(*user));
		user->uid = uid;
		TAILQ_INIT(&user->slots);
		HASH_ADD(by_uid, probes->users, uid, sizeof(user->uid), user);
		TAILQ_INSERT_TAIL(&probes->turns, user, of_turns);
	}
	slot->user = user;
	user->count++;
	if (first)
		TAILQ_INSERT_HEAD(&user->slots, slot, of_user);
	else
		TAILQ_INSERT_TAIL(&user->slots, slot, of_user);
}

static void
slot_wait_no_more(struct shared_probes *probes, struct shared_slot *slot, enum shared_state state)
{
	struct shared_user *user = slot->user;

	assert(slot->state == SHARED_WAITING);
	slot->state = state;
	slot->user = NULL;
	TAILQ_REMOVE(&user->slots, slot, of_user);
	if (--user->count > 0)
		return;
	TAILQ_REMOVE(&probes->turns, user, of_turns);
	HASH_DELETE(by_uid, probes->users, user);
	free(user);
}

static void
slot_free(struct shared_probes *probes, struct shared_slot *slot)
{
	if (slot->state == SHARED_WAITING)
		slot_wait_no_more(probes, slot, SHARED_RESTING);
	HASH_DELETE(by_queue, probes->slots, slot);
	free(slot);
}

/* ---- probes ---- */

static void send_batch(struct shared_probes *probes);

static void
slot_seen(
    struct shared_probes *probes, struct shared_slot *slot, enum broker_answer answer, int64_t sent)
{
	struct shared_asker *asker, *next, *late = NULL;

	slot->state = SHARED_SEEN;
	/* Each asker may leave in its callback, and no other may. */
	TAILQ_FOREACH_SAFE (asker, &slot->askers, of_slot, next) {
		if (!asker->late) {
			asker->seen(probes->engine, asker->id, answer, sent);
			continue;
		}
		asker->late = false;
		late = asker;
	}
	slot->state = SHARED_RESTING;
	if (TAILQ_EMPTY(&slot->askers))
		slot_free(probes, slot);
	else if (late != NULL)
		slot_wait(probes, slot, late->uid, true);
}

static void
on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct batch *batch = ctx;
	struct shared_probes *probes = batch->probes;

	(void)id;
	assert(seen->count == batch->count);
	for (size_t i = 0; i < seen->count; i++)
		slot_seen(probes, batch->slots[i], seen->answers[i], batch->sent);
	probes->in_flight -= seen->count;
	TAILQ_REMOVE(&probes->batches, batch, entry);
	free(batch);
	send_batch(probes);
}

/* Takes a slot of each user in turn, until the batch is full. */
static void
send_batch(struct shared_probes *probes)
{
	struct lock_engine *engine = probes->engine;
	struct broker_question questions[BATCH_MOST];
	struct shared_user *user;
	struct shared_slot *slot;
	struct batch *batch;

	if (TAILQ_EMPTY(&probes->turns) || timer_is_set(&probes->next) ||
	    probes->in_flight + BATCH_MOST > FLIGHT_MOST)
		return;
	batch = mem_alloc(sizeof(*batch));
	batch->probes = probes;
	batch->sent = engine_now(engine);
	while (batch->count < BATCH_MOST && (user = TAILQ_FIRST(&probes->turns)) != NULL) {
		slot = TAILQ_FIRST(&user->slots);
		TAILQ_REMOVE(&probes->turns, user, of_turns);
		TAILQ_INSERT_TAIL(&probes->turns, user, of_turns);
		slot_wait_no_more(probes, slot, SHARED_SENT);
		questions[batch->count] =
		    (struct broker_question){slot->queue.text, BROKER_ASK_HOLDER};
		batch->slots[batch->count++] = slot;
	}
	TAILQ_INSERT_TAIL(&probes->batches, batch, entry);
	probes->in_flight += batch->count;
	timers_set(engine->timers, &probes->next, batch->sent + (int64_t)batch->count * EACH);
	broker_probe(engine->broker, questions, batch->count,
	    (struct broker_probe_done){on_probed, batch, 0});
}

static void
on_next(void *ctx, uint64_t id)
{
	(void)id;
	send_batch(ctx);
}

/* ---- the doors ---- */

static struct shared_probes *
probes_new(struct lock_engine *engine)
{
	struct shared_probes *probes = mem_alloc(sizeof(*probes));

	probes->engine = engine;
	TAILQ_INIT(&probes->turns);
	TAILQ_INIT(&probes->batches);
	timer_init(&probes->next, on_next, probes, 0);
	return probes;
}

static void
join(struct shared_probes *probes, struct shared_asker *asker, const struct queue_name *queue)
{
	struct shared_slot *slot;

	HASH_FIND(by_queue, probes->slots, queue->text, strlen(queue->text), slot);
	if (slot == NULL) {
		slot = mem_alloc(sizeof(*slot));
		slot->queue = *queue;
		TAILQ_INIT(&slot->askers);
		HASH_ADD_KEYPTR(
		    by_queue, probes->slots, slot->queue.text, strlen(slot->queue.text), slot);
	}
	asker->slot = slot;
	asker->late = slot->state == SHARED_SENT;
	TAILQ_INSERT_TAIL(&slot->askers, asker, of_slot);
}

void
shared_probe_ask(
    struct lock_engine *engine, struct shared_asker *asker, const struct queue_name *queue)
{
	bool first = asker->slot == NULL;
	struct shared_slot *slot;

	if (engine->probes == NULL)
		engine->probes = probes_new(engine);
	if (first)
		join(engine->probes, asker, queue);
	slot = asker->slot;
	/*
	 * A slot waits in the list of its user with the fewest slots, so that no user waits for
	 * another's ten thousand. A first question also goes before the others of its user.
	 */
	if (slot->state == SHARED_WAITING &&
	    (user_count(engine->probes, asker->uid) < slot->user->count ||
		(first && slot->user->uid == asker->uid && slot->user->count > 1)))
		slot_wait_no_more(engine->probes, slot, SHARED_RESTING);
	if (slot->state == SHARED_RESTING)
		slot_wait(engine->probes, slot, asker->uid, first);
	send_batch(engine->probes);
}

void
shared_probe_leave(struct lock_engine *engine, struct shared_asker *asker)
{
	struct shared_slot *slot = asker->slot;

	if (slot == NULL)
		return;
	asker->slot = NULL;
	TAILQ_REMOVE(&slot->askers, asker, of_slot);
	if (TAILQ_EMPTY(&slot->askers) &&
	    (slot->state == SHARED_RESTING || slot->state == SHARED_WAITING))
		slot_free(engine->probes, slot);
}

void
shared_probe_free_all(struct lock_engine *engine)
{
	struct shared_probes *probes = engine->probes;
	struct shared_slot *slot, *next_slot;
	struct batch *batch;

	if (probes == NULL)
		return;
	HASH_ITER (by_queue, probes->slots, slot, next_slot)
		slot_free(probes, slot);
	while ((batch = TAILQ_FIRST(&probes->batches)) != NULL) {
		TAILQ_REMOVE(&probes->batches, batch, entry);
		free(batch);
	}
	timers_cancel(engine->timers, &probes->next);
	free(probes);
}
