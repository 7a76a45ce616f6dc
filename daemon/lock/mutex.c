#include "daemon/lock/mutex.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/broker/beads.h"
#include "daemon/lock/engine.h"

/*
 * Contents:
 *	1. The administration mutex: mutex_go_on() claims its queue for the first taker.
 *	   mutex_claim_won(), mutex_claim_lost() and mutex_claim_failed() are the results. mutex_on_dropped():
 *	     the next one has its turn.
 *	   mutex_take(), mutex_drop() and mutex_leave() are the calls of a taker, mutex_channel() its channel.
 *	   mutex_link_died() tells the owners that the mutex is lost.
 *	2. The floor of the fences: fence_floor_granted() tells the need, and fence_floor_raise() has it written.
 *	3. The Bs of removed slots: removed_delete_holder() and removed_holder_in_use() lead to a check of A.
 *	   removed_work() deletes B under the mutex. removed_delete_beads() needs no mutex.
 *	4. The posts of held mutexes by quorum: mutex_post_next_round() declares them again, one after another.
 */

/* 1. The administration mutex. */

/*
 * The rest before another claim, while another administrator has the mutex. Random, up to twice
 * that.
 */
#define BUSY_AGAIN (50 * NSEC_PER_MSEC)

struct mutex_taker {
	struct mutex_order order;
	struct mutex *mutex; /* borrowed; outlives its takers */
	UT_hash_handle by_id;
	TAILQ_ENTRY(mutex_taker) of_queue;
};

enum mutex_state {
	MUTEX_CLAIMING, /* the declare is sent and not answered */
	MUTEX_BUSY,     /* another daemon has it; the timer claims again */
	MUTEX_OWNED,    /* this daemon has it, for `owner` */
	MUTEX_DROPPING  /* the delete is sent and not answered, or was not performed: the timer */
};

struct mutex {
	uint64_t id;
	char *queue; /* owned; the key */
	enum mutex_state state;
	uint64_t channel;          /* of the auxiliary connection; 0 = none, or it was closed */
	struct mutex_taker *owner; /* OWNED, DROPPING: the owner; NULL: it left, or there is none */
	TAILQ_HEAD(, mutex_taker) takers;
	struct timer again; /* BUSY; DROPPING after a delete that was perhaps not performed */
	struct timer late;  /* CLAIMING, DROPPING: no answer in time; OWNED: mutex_drop_by() */
	UT_hash_handle by_queue, by_id;
};

/* From each state, those that may be next. */
static const unsigned mutex_changes[] = {
    [MUTEX_CLAIMING] = 1U << MUTEX_CLAIMING | 1U << MUTEX_BUSY | 1U << MUTEX_OWNED |
		       1U << MUTEX_DROPPING, /* itself: for the next taker */
    [MUTEX_BUSY] = 1U << MUTEX_CLAIMING,
    [MUTEX_OWNED] = 1U << MUTEX_DROPPING | 1U << MUTEX_CLAIMING, /* CLAIMING: lost, for the next */
    [MUTEX_DROPPING] = 1U << MUTEX_CLAIMING,
};

static void
mutex_set_state(struct mutex *mutex, enum mutex_state state)
{
	assert((mutex_changes[mutex->state] & 1U << state) != 0);
	mutex->state = state;
}

ENGINE_FIND(taker_find, struct mutex_taker, mutex_takers, by_id)

/* The taker must not wait, and must own no mutex. */
static void
taker_free(struct lock_engine *engine, struct mutex_taker *taker)
{
	HASH_DELETE(by_id, engine->mutex_takers, taker);
	free(taker);
}

ENGINE_FIND(mutex_find, struct mutex, mutexes, by_id)

static void
mutex_channel_put(struct lock_engine *engine, struct mutex *mutex)
{
	if (mutex->channel != 0)
		broker_channel_put(engine->broker, mutex->channel);
	mutex->channel = 0;
}

static void
mutex_free(struct lock_engine *engine, struct mutex *mutex)
{
	timers_cancel(engine->timers, &mutex->again);
	timers_cancel(engine->timers, &mutex->late);
	HASH_DELETE(by_id, engine->mutexes, mutex);
	HASH_DELETE(by_queue, engine->mutexes_by_queue, mutex);
	free(mutex->queue);
	free(mutex);
}

/*
 * If the deadline of the op passes, the refusal names another administrator's work. `owner`: that
 * one, if of this daemon.
 */
static void
mutex_blame(struct lock_engine *engine, uint64_t id, const struct mutex_taker *owner)
{
	struct op *op = engine_op_find(engine, id), *other;

	if (op == NULL)
		return;
	op->late = REASON_TIMEOUT;
	op->late_text = op->words;
	snprintf(op->words, sizeof(op->words), "another administrator changes it");
	other = owner == NULL ? NULL : engine_op_find(engine, owner->order.id);
	if (other != NULL && other->peer == 0)
		snprintf(op->words, sizeof(op->words),
		    "another administrator changes it: %s, by this daemon", owner->order.what);
	else if (other != NULL)
		snprintf(op->words, sizeof(op->words),
		    "another administrator changes it: %s, for client %llu of this daemon",
		    owner->order.what, (unsigned long long)other->peer);
}

static void mutex_on_claimed(void *ctx, uint64_t id, const struct broker_reply *reply);
static void mutex_on_dropped(void *ctx, uint64_t id, const struct broker_reply *reply);

static uint64_t
mutex_channel_of(struct lock_engine *engine, struct mutex *mutex)
{
	if (mutex->channel == 0)
		mutex->channel = broker_channel_take(engine->broker, BROKER_AUXILIARY);
	return mutex->channel;
}

static void
mutex_set_late(struct lock_engine *engine, struct mutex *mutex)
{
	timers_set(
	    engine->timers, &mutex->late, engine_now(engine) + engine->settings.request_timeout);
}

/*
 * Without an answer no client of this daemon can have the mutex. The connection is therefore reset.
 * During an alarm it is not: the broker does not answer on a new connection, either.
 */
static void
mutex_too_late(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	mutex_set_late(engine, mutex_find(engine, id));
	if (broker_takes_messages(engine->broker))
		broker_reset(engine->broker, BROKER_AUXILIARY,
		    "no answer to a request for an administration mutex, or under one");
}

static void
mutex_send_claim(struct lock_engine *engine, struct mutex *mutex)
{
	mutex_set_late(engine, mutex);
	broker_claim(engine->broker, mutex_channel_of(engine, mutex), BROKER_BY_QUEUE, mutex->queue,
	    (struct broker_done){mutex_on_claimed, engine, mutex->id});
}

static void
mutex_send_drop(struct lock_engine *engine, struct mutex *mutex)
{
	mutex_set_late(engine, mutex);
	broker_drop(engine->broker, mutex_channel_of(engine, mutex), BROKER_BY_QUEUE, mutex->queue,
	    true, (struct broker_done){mutex_on_dropped, engine, mutex->id});
}

static void
mutex_again_due(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct mutex *mutex = mutex_find(engine, id);

	if (mutex->state == MUTEX_DROPPING) {
		mutex_send_drop(engine, mutex);
		return;
	}
	mutex_set_state(mutex, MUTEX_CLAIMING);
	mutex_send_claim(engine, mutex);
}

static void
mutex_set_again(struct lock_engine *engine, struct mutex *mutex)
{
	timers_set(engine->timers, &mutex->again,
	    engine_now(engine) + BUSY_AGAIN + jitter_below(&engine->jitter, BUSY_AGAIN));
}

/* The mutex has no owner here: it is claimed for the next taker, if there is one. */
static void
mutex_go_on(struct lock_engine *engine, struct mutex *mutex)
{
	if (TAILQ_EMPTY(&mutex->takers)) {
		mutex_channel_put(engine, mutex);
		mutex_free(engine, mutex);
		return;
	}
	mutex_set_state(mutex, MUTEX_CLAIMING);
	mutex_send_claim(engine, mutex);
}

/*
 * The last news of a taker, which does not wait any more. Called last: it may take a mutex again.
 */
static void
taker_tell_end(struct lock_engine *engine, struct mutex_taker *taker, enum mutex_news news,
    enum reason reason, const char *text)
{
	struct mutex_order order = taker->order;

	taker_free(engine, taker);
	order.told(engine, order.id, news, reason, text);
}

static struct mutex_taker *
mutex_take_first(struct mutex *mutex)
{
	struct mutex_taker *first = TAILQ_FIRST(&mutex->takers);

	if (first != NULL)
		TAILQ_REMOVE(&mutex->takers, first, of_queue);
	return first;
}

static void
mutex_claim_won(struct lock_engine *engine, struct mutex *mutex)
{
	struct op *op;

	mutex->owner = mutex_take_first(mutex);
	if (mutex->owner == NULL) {
		mutex_set_state(mutex, MUTEX_DROPPING); /* no taker is left */
		mutex_send_drop(engine, mutex);
		return;
	}
	mutex_set_state(mutex, MUTEX_OWNED);
	/* The work of the op begins: from now on the broker is the reason if it is late. */
	op = engine_op_find(engine, mutex->owner->order.id);
	if (op != NULL) {
		op->late = REASON_BROKER_UNAVAILABLE;
		op->late_text = NULL;
		engine_op_progress(engine, op);
	}
	mutex->owner->order.told(engine, mutex->owner->order.id, MUTEX_HELD, REASON_NONE, NULL);
}

/* Another daemon has it, or the claim was not performed. */
static void
mutex_claim_lost(struct lock_engine *engine, struct mutex *mutex)
{
	if (TAILQ_EMPTY(&mutex->takers)) {
		mutex_go_on(engine, mutex);
		return;
	}
	mutex_set_state(mutex, MUTEX_BUSY);
	mutex_set_again(engine, mutex);
}

static void
mutex_claim_failed(
    struct lock_engine *engine, struct mutex *mutex, enum reason reason, const char *text)
{
	struct mutex_taker *first = mutex_take_first(mutex);

	mutex_go_on(engine, mutex);
	if (first != NULL)
		taker_tell_end(engine, first, MUTEX_REFUSED, reason, text);
}

/* The server closed only the channel. The connection lives, and so do its queues. */
static bool
channel_alone_died(const struct lock_engine *engine, enum broker_answer answer)
{
	return answer == BROKER_SKIPPED ||
	       (answer == BROKER_UNKNOWN && broker_auxiliary_is_up(engine->broker));
}

static void
mutex_on_claimed(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct mutex *mutex = mutex_find(engine, id);

	assert(mutex != NULL && mutex->state == MUTEX_CLAIMING);
	timers_cancel(engine->timers, &mutex->late);
	if (!reply->channel_open)
		mutex_channel_put(engine, mutex);
	switch (reply->answer) {
	case BROKER_OK:
		mutex_claim_won(engine, mutex);
		break;
	case BROKER_LOCKED:
		FAULT(ADMIN_WITHOUT_MUTEX, mutex_claim_won(engine, mutex); return;);
		if (!TAILQ_EMPTY(&mutex->takers))
			mutex_blame(engine, TAILQ_FIRST(&mutex->takers)->order.id, NULL);
		mutex_claim_lost(engine, mutex);
		break;
	case BROKER_ABSENT:
	case BROKER_UNREACHABLE:
	case BROKER_REFUSED:
		mutex_claim_failed(engine, mutex, REASON_BROKER_REFUSED, reply->text);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		/*
		 * Perhaps declared: it is claimed again, which this connection may do, or dropped
		 * if no taker is left.
		 */
		if (!channel_alone_died(engine, reply->answer)) {
			mutex_claim_failed(engine, mutex, REASON_BROKER_UNAVAILABLE, reply->text);
		} else if (!TAILQ_EMPTY(&mutex->takers)) {
			mutex_claim_lost(engine, mutex);
		} else {
			mutex_set_state(mutex, MUTEX_DROPPING);
			mutex_send_drop(engine, mutex);
		}
		break;
	}
}

static void
mutex_on_dropped(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct mutex *mutex = mutex_find(engine, id);
	struct mutex_taker *owner = mutex->owner;
	bool stays = reply->answer == BROKER_REFUSED || reply->answer == BROKER_UNREACHABLE;

	assert(mutex->state == MUTEX_DROPPING);
	timers_cancel(engine->timers, &mutex->late);
	if (!reply->channel_open)
		mutex_channel_put(engine, mutex);
	/*
	 * After a refusal the mutex would last as long as the connection, which other work may keep
	 * up.
	 */
	if (stays)
		broker_reset(engine->broker, BROKER_AUXILIARY,
		    "an administration mutex could not be released");
	if (stays || channel_alone_died(engine, reply->answer)) {
		mutex_set_again(engine, mutex); /* unless the connection's end is reported before */
		return;
	}
	/* Dropped, or gone with the auxiliary connection, perhaps to another daemon. */
	mutex->owner = NULL;
	mutex_go_on(engine, mutex);
	if (owner != NULL)
		taker_tell_end(engine, owner, MUTEX_FREE, REASON_NONE, NULL);
}

/* ---- the doors of the mutex ---- */

static struct mutex *
mutex_of_queue(struct lock_engine *engine, const char *queue)
{
	struct mutex *mutex;

	HASH_FIND(by_queue, engine->mutexes_by_queue, queue, strlen(queue), mutex);
	FAULT(ADMINS_TOGETHER, mutex = NULL);
	if (mutex != NULL)
		return mutex;
	mutex = mem_alloc(sizeof(*mutex));
	mutex->id = engine_id(engine);
	mutex->queue = mem_strdup(queue);
	mutex->state = MUTEX_CLAIMING;
	TAILQ_INIT(&mutex->takers);
	timer_init(&mutex->again, mutex_again_due, engine, mutex->id);
	timer_init(&mutex->late, mutex_too_late, engine, mutex->id);
	HASH_ADD(by_id, engine->mutexes, id, sizeof(mutex->id), mutex);
	HASH_ADD_KEYPTR(
	    by_queue, engine->mutexes_by_queue, mutex->queue, strlen(mutex->queue), mutex);
	mutex_send_claim(engine, mutex);
	return mutex;
}

void
mutex_take(struct lock_engine *engine, const char *queue, const struct mutex_order *order)
{
	struct mutex *mutex = mutex_of_queue(engine, queue);
	struct mutex_taker *taker = mem_alloc(sizeof(*taker));
	const struct mutex_taker *before =
	    mutex->owner != NULL ? mutex->owner : TAILQ_FIRST(&mutex->takers);

	assert(taker_find(engine, order->id) == NULL);
	taker->order = *order;
	taker->mutex = mutex;
	HASH_ADD(by_id, engine->mutex_takers, order.id, sizeof(taker->order.id), taker);
	TAILQ_INSERT_TAIL(&mutex->takers, taker, of_queue);
	if (before != NULL)
		mutex_blame(engine, order->id, before);
}

void
mutex_drop(struct lock_engine *engine, uint64_t id)
{
	struct mutex_taker *taker = taker_find(engine, id);

	assert(taker != NULL && taker->mutex->owner == taker);
	mutex_set_state(taker->mutex, MUTEX_DROPPING);
	mutex_send_drop(engine, taker->mutex);
}

void
mutex_leave(struct lock_engine *engine, uint64_t id)
{
	struct mutex_taker *taker = taker_find(engine, id);
	struct mutex *mutex;

	if (taker == NULL)
		return;
	mutex = taker->mutex;
	if (mutex->owner == taker) {
		if (mutex->state == MUTEX_OWNED)
			mutex_drop(engine, id);
		mutex->owner = NULL;
	} else {
		TAILQ_REMOVE(&mutex->takers, taker, of_queue);
	}
	taker_free(engine, taker);
	/* A claim in flight is answered first, and then dropped. */
	if (mutex->state == MUTEX_BUSY && TAILQ_EMPTY(&mutex->takers))
		mutex_free(engine, mutex);
}

void
mutex_drop_by(struct lock_engine *engine, uint64_t id, int64_t time)
{
	const struct mutex_taker *taker = taker_find(engine, id);

	assert(taker != NULL && taker->mutex->state == MUTEX_OWNED);
	timers_set(engine->timers, &taker->mutex->late, time);
}

bool
mutex_is_held(const struct lock_engine *engine, uint64_t id)
{
	const struct mutex_taker *taker = taker_find(engine, id);

	return taker != NULL && taker->mutex->owner == taker &&
	       taker->mutex->state == MUTEX_OWNED && broker_auxiliary_is_up(engine->broker);
}

uint64_t
mutex_channel(struct lock_engine *engine, uint64_t id)
{
	struct mutex_taker *taker = taker_find(engine, id);

	assert(taker != NULL && taker->mutex->state == MUTEX_OWNED);
	return mutex_channel_of(engine, taker->mutex);
}

void
mutex_channel_gone(struct lock_engine *engine, uint64_t id)
{
	const struct mutex_taker *taker = taker_find(engine, id);

	assert(taker != NULL && taker->mutex->state == MUTEX_OWNED);
	mutex_channel_put(engine, taker->mutex);
}

void
mutex_channel_closed(struct lock_engine *engine, uint64_t channel)
{
	struct mutex *mutex;

	for (mutex = engine->mutexes; mutex != NULL; mutex = mutex->by_id.next) {
		if (mutex->channel == channel)
			mutex->channel = 0; /* the queue belongs to the connection: it stays */
	}
}

/*
 * One that is OWNED, or waits for another delete: claims and deletes in flight have been answered.
 */
static struct mutex *
mutex_find_on_dead_link(const struct lock_engine *engine)
{
	struct mutex *mutex;

	for (mutex = engine->mutexes; mutex != NULL; mutex = mutex->by_id.next) {
		if (mutex->state == MUTEX_OWNED ||
		    (mutex->state == MUTEX_DROPPING && timer_is_set(&mutex->again)))
			return mutex;
	}
	return NULL;
}

void
mutex_link_died(struct lock_engine *engine, const char *why)
{
	struct mutex *mutex;
	struct mutex_taker *owner;
	enum mutex_news news;

	/* A taker that is told may take a mutex again: that one is not on the dead connection. */
	while ((mutex = mutex_find_on_dead_link(engine)) != NULL) {
		news = mutex->state == MUTEX_OWNED ? MUTEX_LOST : MUTEX_FREE;
		owner = mutex->owner;
		mutex->owner = NULL;
		mutex->channel = 0;
		timers_cancel(engine->timers, &mutex->again);
		timers_cancel(engine->timers, &mutex->late);
		mutex_go_on(engine, mutex);
		if (owner != NULL)
			taker_tell_end(engine, owner, news, REASON_BROKER_UNAVAILABLE, why);
	}
}

/* 2. The floor of the fences. */

/* A mutex that comes so close to the floor raises it, by that much. So it seldom does. */
#define FENCE_FLOOR_NEAR 2
#define FENCE_FLOOR_FURTHER 64

/* The rest after a failure. */
#define FENCE_FLOOR_AGAIN (60 * NSEC_PER_SEC)

static void fence_floor_on_records(void *ctx, uint64_t id, const struct broker_reply *reply);

static void
fence_floor_begin(struct lock_engine *engine)
{
	struct fence_floor *floor = &engine->fence_floor;

	if (floor->least > floor->known && floor->records == 0 && !timer_is_set(&floor->again))
		floor->records = broker_records_open(
		    engine->broker, (struct broker_done){fence_floor_on_records, engine, 0});
}

static void
fence_floor_close_records(struct lock_engine *engine)
{
	struct fence_floor *floor = &engine->fence_floor;

	if (floor->records != 0)
		broker_records_close(engine->broker, floor->records);
	floor->records = 0;
}

static void
fence_floor_fail(struct lock_engine *engine, const struct broker_reply *reply)
{
	struct fence_floor *floor = &engine->fence_floor;

	if (!floor->failed)
		log_warning("the fencing numbers of slots that are gone are not recorded yet: %s",
		    reply->text);
	floor->failed = true;
	timers_set(engine->timers, &floor->again, engine_now(engine) + FENCE_FLOOR_AGAIN);
}

static void
fence_floor_on_raised(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fence_floor *floor = &engine->fence_floor;

	fence_floor_close_records(engine);
	if (reply->answer != BROKER_OK) {
		fence_floor_fail(engine, reply);
		return;
	}
	floor->failed = false;
	fence_floor_rose(engine, id);
	fence_floor_begin(engine);
}

static void
fence_floor_on_records(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fence_floor *floor = &engine->fence_floor;

	(void)id;
	if (reply->answer != BROKER_OK) {
		floor->records = 0;
		fence_floor_fail(engine, reply);
		return;
	}
	fence_floor_rose(engine, broker_records_floor(engine->broker, floor->records));
	if (floor->least > floor->known)
		broker_records_set(engine->broker, floor->records, NULL, floor->wanted,
		    (struct broker_done){fence_floor_on_raised, engine, floor->wanted});
	else
		fence_floor_close_records(engine);
}

/* It is raised if it is below `least`: then to `wanted`. */
static void
fence_floor_raise(struct lock_engine *engine, uint64_t least, uint64_t wanted)
{
	struct fence_floor *floor = &engine->fence_floor;

	if (floor->least < least)
		floor->least = least;
	if (floor->wanted < wanted)
		floor->wanted = wanted;
	fence_floor_begin(engine);
}

static void
fence_floor_again_due(void *ctx, uint64_t id)
{
	(void)id;
	fence_floor_begin(ctx);
}

/* ---- the doors of the floor ---- */

void
fence_floor_rose(struct lock_engine *engine, uint64_t epoch)
{
	if (engine->fence_floor.known < epoch)
		engine->fence_floor.known = epoch;
}

void
fence_floor_granted(struct lock_engine *engine, const struct hold *hold)
{
	uint64_t epoch = bead_fence_epoch(hold_fence(hold));

	FAULT(MUTEX_OUTRUNS_FLOOR, return );
	if (hold->kind == LOCK_KIND_MUTEX && epoch != 0 &&
	    epoch + FENCE_FLOOR_NEAR > engine->fence_floor.known)
		fence_floor_raise(engine, epoch + FENCE_FLOOR_NEAR, epoch + FENCE_FLOOR_FURTHER);
}

/* 3. The Bs of removed slots. */

/* The maximum in work at once. Each takes a channel of the auxiliary connection. */
#define WORK_MOST 8
/* The maximum for one mutex, so that administrators do not wait for long. */
#define SLOTS_MOST 64
/* A daemon watches the A of a hold after a tenth of a second (keepalive.c), and then knows. */
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
removed_still_held(const struct lock_engine *engine, const struct removed_slot *removed)
{
	return removed != NULL && mutex_is_held(engine, removed->id);
}

static void removed_work(struct lock_engine *engine, struct removed_slot *removed);

/* The slot is done. The mutex goes on with the next slot of that name, or is dropped. */
static void
removed_slot_done(struct lock_engine *engine, struct removed_slot *removed)
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
		removed_work(engine, removed);
		return;
	}
	mutex_drop(engine, removed->id);
}

static void
removed_on_deleted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct removed_slot *removed = removed_find(engine, id);

	if (!removed_still_held(engine, removed))
		return;
	if (!reply->channel_open)
		mutex_channel_gone(engine, id);
	removed_slot_done(engine, removed);
}

static void
removed_on_a_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct removed_slot *removed = removed_find(engine, id);

	if (!removed_still_held(engine, removed))
		return;
	if (seen->answers[0] == BROKER_ABSENT)
		broker_delete_holder(engine->broker, mutex_channel(engine, id),
		    queue_name_b(engine->settings.naming, removed->name, removed->slot).text,
		    (struct broker_done){removed_on_deleted, engine, id});
	else
		removed_slot_done(engine, removed);
}

static void
removed_work(struct lock_engine *engine, struct removed_slot *removed)
{
	mutex_drop_by(engine, removed->id, engine_now(engine) + engine->settings.request_timeout);
	probe_one(engine, queue_name_a(engine->settings.naming, removed->name, removed->slot),
	    BROKER_ASK_SLOT, removed_on_a_probed, removed->id);
}

static void removed_begin_next(struct lock_engine *engine);

static void
removed_on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct removed_slot *removed = removed_find(engine, id);

	(void)reason;
	(void)text;
	if (news != MUTEX_HELD) {
		removed_free(engine, removed);
		removed_begin_next(engine);
		return;
	}
	timers_cancel(engine->timers, &removed->timer);
	removed->state = REMOVED_WORKS;
	removed_work(engine, removed);
}

/* If another program keeps the mutex, fsck finds the B. */
static void
removed_begin(struct lock_engine *engine, struct removed_slot *removed)
{
	struct queue_name mutex = queue_name_admin(engine->settings.naming, removed->name);

	removed->state = REMOVED_CLAIMS;
	timers_set(engine->timers, &removed->timer, engine_now(engine) + MUTEX_WAIT);
	FAULT(REMOVED_UNGUARDED, mutex = queue_name_directory_mutex(engine->settings.naming));
	mutex_take(engine, mutex.text,
	    &(struct mutex_order){removed->id, "the end of a removed slot", removed_on_mutex});
}

/* One slot of a name at a time has the mutex, or waits for it. */
static void
removed_begin_next(struct lock_engine *engine)
{
	struct removed_slot *removed, *next, *in_work[WORK_MOST];
	size_t count = 0, i;

	HASH_ITER (by_id, engine->removed_slots, removed, next) {
		if (removed->state == REMOVED_CLAIMS || removed->state == REMOVED_WORKS)
			in_work[count++] = removed;
	}
	HASH_ITER (by_id, engine->removed_slots, removed, next) {
		if (count == WORK_MOST)
			return;
		for (i = 0; i < count && strcmp(in_work[i]->name, removed->name) != 0;)
			i++;
		if (i == count && removed->state == REMOVED_DUE) {
			removed_begin(engine, removed);
			in_work[count++] = removed;
		}
	}
}

static void
removed_on_time(void *ctx, uint64_t id)
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
	removed_begin_next(engine);
}

/* ---- slots by quorum ---- */

/* A slot that could not be deleted, as its messages are gone, is left alone for so long. */
#define BEADS_REST (30 * NSEC_PER_SEC)

/* A later slot of this name has a larger fencing number. */
static void
removed_on_beads_deleted(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct removed_slot *removed = removed_find(engine, id);
	uint64_t epoch;

	/* The next claims would find the same for a while. Nobody else could look into the slot then. */
	if (reply->answer == BROKER_LOCKED && reply->removed) {
		timers_set(engine->timers, &removed->timer, engine_now(engine) + BEADS_REST);
		return;
	}
	epoch = bead_fence_epoch(reply->fence) + 1;
	if (reply->answer == BROKER_OK)
		fence_floor_raise(engine, epoch, epoch);
	removed_free(engine, removed);
}

/* ---- the doors of removed slots ---- */

static struct removed_slot *
removed_new(struct lock_engine *engine, const char *name, int slot)
{
	struct removed_slot *removed = mem_alloc(sizeof(*removed));

	removed->id = engine_id(engine);
	removed->name = mem_strdup(name);
	removed->slot = slot;
	removed->state = REMOVED_DUE;
	timer_init(&removed->timer, removed_on_time, engine, removed->id);
	HASH_ADD(by_id, engine->removed_slots, id, sizeof(removed->id), removed);
	return removed;
}

void
removed_delete_holder(struct lock_engine *engine, const char *name, int slot)
{
	removed_new(engine, name, slot);
	removed_begin_next(engine);
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
	    (struct broker_done){removed_on_beads_deleted, engine, removed->id});
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

/* 4. The posts of held mutexes by quorum. */

/* Declares that the broker does not perform are repeated so often before a post ends. */
#define MUTEX_POST_ROUNDS 12

static void
mutex_post_next_round(struct lock_engine *engine)
{
	timers_set(engine->timers, &engine->mutex_post.round,
	    engine_now(engine) + BROKER_POST_EXPIRES / MUTEX_POST_ROUNDS);
}

/* The first one after that number; NULL: there is none. Holds have no order, so this searches. */
static const struct hold *
mutex_post_next_hold(const struct lock_engine *engine, uint64_t after)
{
	const struct hold *hold, *next = NULL;

	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->kind == LOCK_KIND_MUTEX && hold->id > after &&
		    hold->state != HOLD_SLOTLESS && way_row(hold->way)->by_beads &&
		    (next == NULL || hold->id < next->id))
			next = hold;
	}
	return next;
}

static void mutex_post_on_declared(void *ctx, uint64_t id, const struct broker_reply *reply);

/* One after the other, so that a refusal does not concern the others. */
static void
mutex_post_declare_next(struct lock_engine *engine, uint64_t after)
{
	const struct hold *hold = mutex_post_next_hold(engine, after);

	if (hold == NULL) {
		if (after != 0)
			mutex_post_next_round(engine);
		return;
	}
	engine->mutex_post.channel = broker_channel_take(engine->broker, BROKER_AUXILIARY);
	broker_declare_post(engine->broker, engine->mutex_post.channel,
	    queue_name_mutex(engine->settings.naming, hold->name).text,
	    (struct broker_done){mutex_post_on_declared, engine, hold->id});
}

static void
mutex_post_on_declared(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	const struct hold *hold = hold_find(&engine->holds, id);

	if (reply->channel_open)
		broker_channel_put(engine->broker, engine->mutex_post.channel);
	engine->mutex_post.channel = 0;
	if (hold != NULL && (reply->answer == BROKER_LOCKED || reply->answer == BROKER_REFUSED))
		log_warning("%s: the post %s of this held mutex cannot be declared; other programs "
			    "may hold the mutex, "
			    "too: %s",
		    hold->name, queue_name_mutex(engine->settings.naming, hold->name).text,
		    reply->text);
	if (reply->answer == BROKER_UNKNOWN || reply->answer == BROKER_SKIPPED)
		mutex_post_next_round(engine);
	else
		mutex_post_declare_next(engine, id);
}

static void
mutex_post_round_due(void *ctx, uint64_t id)
{
	(void)id;
	FAULT(POST_EXPIRES, return );
	mutex_post_declare_next(ctx, 0);
}

void
mutex_post_granted(struct lock_engine *engine, const struct hold *hold)
{
	if (hold->kind == LOCK_KIND_MUTEX && way_row(hold->way)->by_beads &&
	    !timer_is_set(&engine->mutex_post.round) && engine->mutex_post.channel == 0)
		mutex_post_next_round(engine);
}

/* ---- the engine's start and end ---- */

void
mutex_init(struct lock_engine *engine)
{
	timer_init(&engine->fence_floor.again, fence_floor_again_due, engine, 0);
	timer_init(&engine->mutex_post.round, mutex_post_round_due, engine, 0);
}

void
mutex_done(struct lock_engine *engine)
{
	struct mutex_taker *taker, *next_taker;
	struct mutex *mutex, *next_mutex;
	struct removed_slot *removed, *next_removed;

	HASH_ITER (by_id, engine->mutex_takers, taker, next_taker)
		taker_free(engine, taker);
	HASH_ITER (by_id, engine->mutexes, mutex, next_mutex)
		mutex_free(engine, mutex);
	HASH_ITER (by_id, engine->removed_slots, removed, next_removed)
		removed_free(engine, removed);
	fence_floor_close_records(engine);
	timers_cancel(engine->timers, &engine->fence_floor.again);
	timers_cancel(engine->timers, &engine->mutex_post.round);
}
