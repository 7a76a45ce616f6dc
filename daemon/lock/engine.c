#include "daemon/lock/engine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "protocol/duration.h"

/*
 * Contents:
 *	1. Objects by number, answers and marks. engine_tell() answers, and engine_notice() tells an event.
 *	   engine_refusal*() and engine_full() make refusals. engine_op_*() keep requests with a deadline.
 *	   engine_mark_dirty() and engine_scan() make the queue runner visit a semaphore.
 *	2. Batches of probes: probe_add() collects them, and probe_send() sends all in one flush.
 *	3. Flights: flight_start() and flight_end() limit the claims and drops of a user at the broker.
 *	4. Awaited slots: awaited_freed() wakes a wait for holders.
 *	5. Withheld slots: withheld_begin() leaves a freed slot to other daemons for a time.
 *	6. The mutexes of each user: used_mutexes_lacking() is the limit.
 *	7. Progress: progress_tell() tells waiters their position.
 *	8. The order of a peer's requests on one name: peer_order_take() and peer_order_end().
 */

/* 1. Objects by number, answers, dirty marks. */

uint64_t
engine_id(struct lock_engine *engine)
{
	return ++engine->last_id;
}

enum broker_way
engine_way_unseen(const struct lock_engine *engine)
{
	enum broker_way way = engine->settings.claim;

	return way_row(way)->by_beads ? BROKER_BY_QUEUE : way;
}

int64_t
engine_now(const struct lock_engine *engine)
{
	return clock_now(timers_clock(engine->timers));
}

/* ---- objects by number ---- */

struct lock_peer *
engine_peer_find(const struct lock_engine *engine, uint64_t id)
{
	struct lock_peer *peer;

	HASH_FIND(by_id, engine->peers, &id, sizeof(id), peer);
	return peer;
}

struct waiter *
engine_waiter_find(const struct lock_engine *engine, uint64_t id)
{
	struct waiter *waiter;

	HASH_FIND(by_id, engine->waiters, &id, sizeof(id), waiter);
	return waiter;
}

struct semaphore *
engine_semaphore_find(const struct lock_engine *engine, const char *name, bool mutex)
{
	struct semaphore_key key = semaphore_key(name, mutex);
	struct semaphore *semaphore;

	HASH_FIND(by_key, engine->semaphores, key.text, strlen(key.text), semaphore);
	return semaphore;
}

/* ---- answers and notices ---- */

void
engine_tell(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	assert(!engine->telling);
	engine->telling = true;
	engine->events.answer(engine->events.ctx, peer, request, answer);
	engine->telling = false;
}

void
engine_notice(struct lock_engine *engine, uint64_t peer, const struct lock_notice *notice)
{
	assert(!engine->telling);
	FAULT_IF(NOT_TOLD, notice->kind == LOCK_NOTICE_LOST, return;);
	engine->telling = true;
	engine->events.notice(engine->events.ctx, peer, notice);
	engine->telling = false;
}

void
engine_tell_broker(struct lock_engine *engine, uint64_t peer)
{
	struct broker_info info;
	struct lock_notice notice = {.kind = LOCK_NOTICE_BROKER};

	broker_get_info(engine->broker, &info);
	notice.state = info.locks;
	notice.text = info.why;
	engine_notice(engine, peer, &notice);
}

struct lock_answer
engine_refusal(enum reason reason, const char *text)
{
	return (struct lock_answer){
	    .reason = reason, .text = text, .slots = -1, .target = -1, .busy = -1, .waiting = -1};
}

struct lock_answer
engine_refusal_unknown(const struct lock_engine *engine, const char *text)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	if (info.probes_refused[0] != '\0')
		return engine_refusal(REASON_BROKER_REFUSED, info.probes_refused);
	return engine_refusal(
	    info.auxiliary_blocked ? REASON_BROKER_BLOCKED : REASON_BROKER_UNAVAILABLE, text);
}

bool
engine_refusal_for_link(const struct lock_engine *engine, struct lock_answer *ret_refusal)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	if (engine->link != BROKER_UP)
		*ret_refusal =
		    engine_refusal(info.locks == BROKER_LOGIN_REFUSED ? REASON_BROKER_REFUSED
								      : REASON_BROKER_UNAVAILABLE,
			info.why);
	else if (info.auxiliary_blocked)
		*ret_refusal = engine_refusal(REASON_BROKER_BLOCKED, NULL);
	else
		return false;
	return true;
}

/* The slot by quorum whose grace ends next. */
static void
see_graces(const struct semaphore *semaphore, struct lock_answer *answer)
{
	const struct lock_engine *engine = semaphore->engine;
	int64_t free_at = INT64_MAX;

	for (int slot = 1; semaphore->by_quorum && slot <= semaphore->size; slot++) {
		struct queue_name b =
		    queue_name_quorum(semaphore->name, semaphore->mutex ? 0 : slot);
		const struct hold *hold = hold_find_queue(&engine->holds, b.text);
		int64_t its = hold == NULL         ? 0
			      : hold->free_at != 0 ? hold->free_at
						   : hold->crowded_until;

		if (its == 0 || its >= free_at)
			continue;
		free_at = its;
		answer->slot = slot;
	}
	if (free_at == INT64_MAX)
		return;
	answer->free_in = free_at - engine_now(engine);
	if (answer->free_in < 1)
		answer->free_in = 1;
}

struct lock_answer
engine_full(const struct semaphore *semaphore, enum reason reason)
{
	struct lock_answer answer = engine_refusal(reason, NULL);

	answer.name = semaphore->name;
	answer.slots = semaphore->complete ? semaphore->size : -1;
	if (answer.slots == 0)
		answer.text =
		    "it has 0 slots; a waiter gets one after a resize"; /* not "all are busy" */
	answer.busy = semaphore_busy_count(semaphore);
	/* Without the one that is answered. */
	answer.waiting = (int)local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_ALL) - 1;
	see_graces(semaphore, &answer);
	return answer;
}

/* ---- requests that do not wait by themselves ---- */

/* peer and request */
#define OP_KEY (2 * sizeof(uint64_t))
_Static_assert(
    offsetof(struct op, request) == offsetof(struct op, peer) + sizeof(uint64_t), "OP_KEY");

void
engine_op_give_up(struct lock_engine *engine, uint64_t id, struct lock_answer *answer)
{
	const struct op *op = engine_op_find(engine, id);
	void (*expired)(struct lock_engine *, uint64_t) = op->expired;

	if (op->fill != NULL)
		op->fill(engine, id, answer);
	engine_op_end(engine, id, answer);
	if (expired != NULL)
		expired(engine, id);
}

static void
op_too_late(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	const struct op *op = engine_op_find(engine, id);
	struct lock_answer answer = engine_refusal(
	    op->late, op->late_text != NULL ? op->late_text : "the broker did not answer in time");

	engine_op_give_up(engine, id, &answer);
}

struct op *
engine_op_new(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct op *op = mem_alloc(sizeof(*op));

	op->id = engine_id(engine);
	op->peer = peer;
	op->request = request;
	op->late = REASON_BROKER_UNAVAILABLE;
	op->leads_to = -1;
	timer_init(&op->deadline, op_too_late, engine, op->id);
	HASH_ADD(by_id, engine->ops, id, sizeof(op->id), op);
	engine_op_progress(engine, op);
	return op;
}

struct op *
engine_op_find(const struct lock_engine *engine, uint64_t id)
{
	struct op *op;

	HASH_FIND(by_id, engine->ops, &id, sizeof(id), op);
	return op;
}

static void
op_forget_target(struct lock_engine *engine, struct op *op)
{
	if (op->leads_to >= 0)
		HASH_DELETE(by_request, engine->targeted_ops, op);
	op->leads_to = -1;
}

void
engine_op_leads_to(struct lock_engine *engine, uint64_t id, int size)
{
	struct op *op = engine_op_find(engine, id);

	if (op == NULL || op->peer == 0)
		return;
	op_forget_target(engine, op);
	op->leads_to = size;
	if (size >= 0)
		HASH_ADD(by_request, engine->targeted_ops, peer, OP_KEY, op);
}

const struct op *
engine_op_find_target(const struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	const uint64_t key[] = {peer, request};
	struct op *op;

	HASH_FIND(by_request, engine->targeted_ops, key, OP_KEY, op);
	return op;
}

void
engine_op_progress_in(struct lock_engine *engine, struct op *op, int64_t more)
{
	FAULT(NO_DEADLINE, return;);
	timers_set(engine->timers, &op->deadline,
	    engine_now(engine) + engine->settings.request_timeout + more);
}

void
engine_op_progress(struct lock_engine *engine, struct op *op)
{
	engine_op_progress_in(engine, op, 0);
}

static void
op_forget(struct lock_engine *engine, struct op *op)
{
	timers_cancel(engine->timers, &op->deadline);
	op_forget_target(engine, op);
	HASH_DELETE(by_id, engine->ops, op);
}

void
engine_op_leave(struct lock_engine *engine, struct op *op)
{
	op_forget(engine, op);
	free(op);
}

void
engine_op_end(struct lock_engine *engine, uint64_t id, const struct lock_answer *answer)
{
	struct op *op = engine_op_find(engine, id);

	if (op == NULL)
		return;
	op_forget(engine, op);
	if (op->peer != 0)
		engine_tell(engine, op->peer, op->request, answer);
	free(op); /* after the answer, which may borrow its words */
}

/* ---- marks ---- */

void
engine_mark_dirty(struct lock_engine *engine, struct semaphore *semaphore)
{
	if (semaphore->dirty)
		return;
	semaphore->dirty = true;
	TAILQ_INSERT_TAIL(&engine->dirty, semaphore, of_dirty);
	if (!timer_is_set(&engine->run_queues))
		timers_set(engine->timers, &engine->run_queues, engine_now(engine));
}

void
engine_scan(struct lock_engine *engine, struct semaphore *semaphore)
{
	semaphore->scan.overtaken = true;
	timers_cancel(engine->timers, &semaphore->rescan);
	engine_mark_dirty(engine, semaphore);
}

/* 2. Batches of probes. */

/* Of an empty list, in bytes: more than one question. */
#define PROBE_FIRST_ROOM 1024

void
probe_add(struct probe_batch *batch, struct queue_name queue, enum broker_question_kind kind)
{
	size_t size = strlen(queue.text) + 1;

	_Static_assert(PROBE_FIRST_ROOM > sizeof(queue), "one question has room");
	if (batch->length + 1 + size > batch->room) {
		batch->room = 2 * batch->room + PROBE_FIRST_ROOM;
		batch->questions = mem_grow(batch->questions, batch->room, 1);
	}
	batch->questions[batch->length] = (char)kind;
	memcpy(&batch->questions[batch->length + 1], queue.text, size);
	batch->length += 1 + size;
	batch->count++;
}

void
probe_send(struct lock_engine *engine, struct probe_batch *batch, probe_done_fn *done, uint64_t id)
{
	struct broker_question *questions = mem_alloc(batch->count * sizeof(*questions));
	const char *next = batch->questions;

	for (size_t i = 0; i < batch->count; i++) {
		questions[i].kind = (unsigned char)*next++;
		questions[i].queue = next;
		next += strlen(next) + 1;
	}
	broker_probe(
	    engine->broker, questions, batch->count, (struct broker_probe_done){done, engine, id});
	free(questions);
	free(batch->questions);
}

void
probe_one(struct lock_engine *engine, struct queue_name queue, enum broker_question_kind kind,
    probe_done_fn *done, uint64_t id)
{
	const struct broker_question question = {queue.text, kind};

	broker_probe(engine->broker, &question, 1, (struct broker_probe_done){done, engine, id});
}

/* 3. Flights. */

static struct unsent_list *
flight_unsent_of(const struct hold *hold)
{
	return hold->state == HOLD_DROPPING ? &hold->share->drops : &hold->share->claims;
}

/* The hold's part of flights_most, which is at most all of it. */
static size_t
flight_cost(const struct lock_engine *engine, const struct hold *hold)
{
	const struct way *way = way_row(hold->way);
	bool is_cheap = hold->state == HOLD_DROPPING ? way->drop_is_cheap : way->claim_is_cheap;
	size_t most = engine->settings.flights_most, cost = is_cheap ? 1 : FLIGHT_BY_QUEUE;

	return cost < most ? cost : most;
}

static bool
flight_has_room(const struct lock_engine *engine, const struct hold *hold)
{
	return hold->share->flights + flight_cost(engine, hold) <= engine->settings.flights_most;
}

static void
flight_add(const struct lock_engine *engine, struct hold *hold)
{
	hold->flight = FLIGHT_DUE;
	hold->share->flights += flight_cost(engine, hold);
}

bool
flight_start(struct lock_engine *engine, struct hold *hold)
{
	assert(hold->flight == FLIGHT_NONE);
	if (hold->share == NULL) {
		hold->flight = FLIGHT_DUE;
		return true;
	}
	/* There may be room for a cheap flight behind one that waits, but drops come first. */
	if (!TAILQ_EMPTY(&hold->share->drops) || !TAILQ_EMPTY(flight_unsent_of(hold)) ||
	    !flight_has_room(engine, hold)) {
		hold->flight = FLIGHT_UNSENT;
		TAILQ_INSERT_TAIL(flight_unsent_of(hold), hold, of_unsent);
		return false;
	}
	flight_add(engine, hold);
	return true;
}

void
flight_end(struct lock_engine *engine, struct hold *hold)
{
	struct share *share = hold->share;
	enum hold_flight flight = hold->flight;
	struct hold *next;

	hold->flight = FLIGHT_NONE;
	if (share == NULL || flight == FLIGHT_NONE)
		return;
	if (flight == FLIGHT_UNSENT) {
		TAILQ_REMOVE(flight_unsent_of(hold), hold, of_unsent);
		return;
	}
	share->flights -= flight_cost(engine, hold);
	FAULT(FLIGHT_UNCOUNTED, share->flights += flight_cost(engine, hold));
	while (engine->link == BROKER_UP) {
		next = TAILQ_FIRST(&share->drops);
		if (next == NULL)
			next = TAILQ_FIRST(&share->claims);
		if (next == NULL || !flight_has_room(engine, next))
			return;
		TAILQ_REMOVE(flight_unsent_of(next), next, of_unsent);
		flight_add(engine, next);
		timers_set(engine->timers, &next->timer, engine_now(engine));
	}
}

/* 4. Slots whose holders are waited for. */

struct awaited_name {
	char *text; /* owned; the key */
	enum broker_answer gate;
	int64_t gate_until; /* clock time until which `gate` is known */
	TAILQ_HEAD(, awaited) list;
	UT_hash_handle by_name;
};

static struct awaited_name *
awaited_find(const struct lock_engine *engine, const char *text)
{
	struct awaited_name *name;

	HASH_FIND(by_name, engine->awaited, text, strlen(text), name);
	return name;
}

void
awaited_begin(struct lock_engine *engine, struct awaited *awaited, const char *text)
{
	struct awaited_name *name = awaited_find(engine, text);

	if (name == NULL) {
		name = mem_alloc(sizeof(*name));
		name->text = mem_strdup(text);
		TAILQ_INIT(&name->list);
		HASH_ADD_KEYPTR(by_name, engine->awaited, name->text, strlen(name->text), name);
	}
	awaited->name = name;
	TAILQ_INSERT_TAIL(&name->list, awaited, of_name);
}

void
awaited_end(struct lock_engine *engine, struct awaited *awaited)
{
	struct awaited_name *name = awaited->name;

	timers_cancel(engine->timers, &awaited->rest);
	TAILQ_REMOVE(&name->list, awaited, of_name);
	if (!TAILQ_EMPTY(&name->list))
		return;
	HASH_DELETE(by_name, engine->awaited, name);
	free(name->text);
	free(name);
}

const char *
awaited_name(const struct awaited *awaited)
{
	return awaited->name->text;
}

enum broker_answer
awaited_gate(const struct lock_engine *engine, const struct awaited *awaited)
{
	if (!queue_naming_has_quorum(engine->settings.naming))
		return BROKER_ABSENT;
	return engine_now(engine) < awaited->name->gate_until ? awaited->name->gate
							      : BROKER_UNKNOWN;
}

void
awaited_saw_gate(
    const struct lock_engine *engine, const struct awaited *awaited, enum broker_answer gate)
{
	awaited->name->gate = gate;
	awaited->name->gate_until = engine_now(engine) + engine->settings.rescan_interval;
}

void
awaited_freed(struct lock_engine *engine, const char *text, int slot)
{
	struct awaited_name *name = awaited_find(engine, text);
	struct awaited *awaited;
	int64_t now = engine_now(engine);

	if (name == NULL)
		return;
	TAILQ_FOREACH (awaited, &name->list, of_name) {
		if (slot < awaited->first || slot > awaited->last)
			continue;
		awaited->freed = true;
		if (timer_is_set(&awaited->rest))
			timers_set(engine->timers, &awaited->rest,
			    awaited->earliest > now ? awaited->earliest : now);
	}
}

/* 5. Withheld slots. */

struct withheld {
	int slot; /* the key */
	enum withheld_for whom;
	struct semaphore *semaphore; /* borrowed */
	struct timer end;
	UT_hash_handle by_slot;
};

static struct withheld *
withheld_find(const struct semaphore *semaphore, int slot)
{
	struct withheld *withheld;

	HASH_FIND(by_slot, semaphore->withheld, &slot, sizeof(slot), withheld);
	return withheld;
}

static void
withheld_end(struct lock_engine *engine, struct withheld *withheld)
{
	timers_cancel(engine->timers, &withheld->end);
	HASH_DELETE(by_slot, withheld->semaphore->withheld, withheld);
	free(withheld);
}

void
withheld_to_nobody(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	struct withheld *withheld = withheld_find(semaphore, slot);

	if (withheld == NULL)
		return;
	withheld_end(engine, withheld);
	semaphore_saw_slot(semaphore, slot, false);
	semaphore->scan.overtaken = true;
	/* The slot was claimed after a hint, and is newer than the known size. */
	if (slot > semaphore->size)
		engine_scan(engine, semaphore);
	semaphore->rests_over = true;
	engine_mark_dirty(engine, semaphore);
}

/*
 * The time is over. Waiters that came meanwhile scan for the slot. Waiters whose wait had begun do
 * not. A scan for each slot that went elsewhere would sometimes find the next slot first, before
 * the daemon that gets its hint.
 */
static void
withheld_is_over(void *ctx, uint64_t id)
{
	struct withheld *withheld = ctx;
	struct semaphore *semaphore = withheld->semaphore;

	(void)id;
	if (withheld->whom == WITHHELD_FOR_POLLERS) {
		withheld_to_nobody(semaphore->engine, semaphore, withheld->slot);
		return;
	}
	withheld_end(semaphore->engine, withheld);
	/* A scan has left the slot to other daemons, but perhaps none of them wanted it. */
	if (semaphore->scan.withheld)
		engine_scan(semaphore->engine, semaphore);
	else
		engine_mark_dirty(semaphore->engine, semaphore);
}

void
withheld_begin(
    struct lock_engine *engine, struct semaphore *semaphore, int slot, enum withheld_for whom)
{
	struct withheld *withheld = withheld_find(semaphore, slot);

	if (withheld == NULL) {
		withheld = mem_alloc(sizeof(*withheld));
		withheld->slot = slot;
		withheld->semaphore = semaphore;
		timer_init(&withheld->end, withheld_is_over, withheld, 0);
		HASH_ADD(by_slot, semaphore->withheld, slot, sizeof(withheld->slot), withheld);
	}
	withheld->whom = whom;
	timers_set(
	    engine->timers, &withheld->end, engine_now(engine) + engine->settings.hint_grace);
}

bool
withheld_has(const struct semaphore *semaphore, int slot)
{
	FAULT(NEWCOMER_FIRST, return false);
	return withheld_find(semaphore, slot) != NULL;
}

void
withheld_end_all(struct lock_engine *engine, struct semaphore *semaphore)
{
	while (semaphore->withheld != NULL)
		withheld_end(engine, semaphore->withheld);
}

/* 6. The mutexes of each user. */

struct used_mutex {
	char *name;    /* owned; the key */
	size_t holds;  /* 0: it is in user.ended */
	int64_t until; /* ended: it counts until that clock time */
	TAILQ_ENTRY(used_mutex) of_ended;
	UT_hash_handle hh;
};

TAILQ_HEAD(used_mutex_list, used_mutex);

/* A user with such mutexes. */
struct mutex_user {
	uid_t uid;                    /* the key */
	struct used_mutex *mutexes;   /* owned; by name */
	struct used_mutex_list ended; /* in order of `until` */
	struct timer expiry;          /* of the first that ended */
	UT_hash_handle hh;
};

static struct mutex_user *
mutex_user_find(const struct lock_engine *engine, uid_t uid)
{
	struct mutex_user *user;

	HASH_FIND(hh, engine->mutex_users, &uid, sizeof(uid), user);
	return user;
}

static struct used_mutex *
used_mutex_find(const struct mutex_user *user, const char *name)
{
	struct used_mutex *mutex;

	HASH_FIND_STR(user->mutexes, name, mutex);
	return mutex;
}

/* The user goes with the last of them. */
static void
used_mutex_free(struct lock_engine *engine, struct mutex_user *user, struct used_mutex *mutex)
{
	HASH_DEL(user->mutexes, mutex);
	free(mutex->name);
	free(mutex);
	if (user->mutexes != NULL)
		return;
	timers_cancel(engine->timers, &user->expiry);
	HASH_DEL(engine->mutex_users, user);
	free(user);
}

static void
used_mutexes_expired(void *ctx, uint64_t uid)
{
	struct lock_engine *engine = ctx;
	struct mutex_user *user;
	struct used_mutex *mutex;

	while ((user = mutex_user_find(engine, (uid_t)uid)) != NULL &&
	       (mutex = TAILQ_FIRST(&user->ended)) != NULL) {
		if (mutex->until > engine_now(engine)) {
			timers_set(engine->timers, &user->expiry, mutex->until);
			return;
		}
		TAILQ_REMOVE(&user->ended, mutex, of_ended);
		used_mutex_free(engine, user, mutex);
	}
}

const char *
used_mutexes_lacking(const struct lock_engine *engine, const struct share *share, const char *name,
    char text[LOCK_LACKING_MAX])
{
	const struct mutex_user *user = share == NULL ? NULL : mutex_user_find(engine, share->uid);
	const struct used_mutex *first;
	size_t most = engine->settings.max_mutexes_per_uid;
	int used;

	if (user == NULL || HASH_COUNT(user->mutexes) < most || used_mutex_find(user, name) != NULL)
		return NULL;
	used = snprintf(text, LOCK_LACKING_MAX,
	    "user %lu uses %u mutexes, and may use %zu; each counts until %.0f s after its "
	    "release, "
	    "or %.0f s by quorum",
	    (unsigned long)user->uid, HASH_COUNT(user->mutexes), most,
	    duration_to_seconds(BROKER_MUTEX_EXPIRES),
	    duration_to_seconds(BROKER_QUORUM_MUTEX_EXPIRES));
	first = TAILQ_FIRST(&user->ended);
	if (first != NULL)
		snprintf(text + used, LOCK_LACKING_MAX - (size_t)used, ": another one in %.1f s",
		    duration_to_seconds(first->until - engine_now(engine)));
	return text;
}

static bool
used_mutexes_counts(const struct hold *hold)
{
	return hold->kind == LOCK_KIND_MUTEX && way_row(hold->way)->leaves_b > 0;
}

void
used_mutexes_begin(struct lock_engine *engine, const struct hold *hold, uid_t uid)
{
	struct mutex_user *user = mutex_user_find(engine, uid);
	struct used_mutex *mutex;

	if (!used_mutexes_counts(hold))
		return;
	if (user == NULL) {
		user = mem_alloc(sizeof(*user));
		user->uid = uid;
		TAILQ_INIT(&user->ended);
		timer_init(&user->expiry, used_mutexes_expired, engine, uid);
		HASH_ADD(hh, engine->mutex_users, uid, sizeof(user->uid), user);
	}
	mutex = used_mutex_find(user, hold->name);
	if (mutex == NULL) {
		mutex = mem_alloc(sizeof(*mutex));
		mutex->name = mem_strdup(hold->name);
		HASH_ADD_KEYPTR(hh, user->mutexes, mutex->name, strlen(mutex->name), mutex);
	} else if (mutex->holds == 0) {
		TAILQ_REMOVE(&user->ended, mutex, of_ended);
	}
	mutex->holds++;
}

void
used_mutexes_end(struct lock_engine *engine, const struct hold *hold, uid_t uid)
{
	struct mutex_user *user;
	struct used_mutex *mutex, *later;

	if (!used_mutexes_counts(hold))
		return;
	user = mutex_user_find(engine, uid);
	mutex = used_mutex_find(user, hold->name);
	assert(mutex->holds > 0);
	if (--mutex->holds > 0)
		return;
	FAULT(RELEASED_MUTEX_UNCOUNTED, used_mutex_free(engine, user, mutex); return;);
	mutex->until = engine_now(engine) + way_row(hold->way)->leaves_b;
	later = TAILQ_FIRST(&user->ended);
	while (later != NULL && later->until <= mutex->until)
		later = TAILQ_NEXT(later, of_ended);
	if (later != NULL)
		TAILQ_INSERT_BEFORE(later, mutex, of_ended);
	else
		TAILQ_INSERT_TAIL(&user->ended, mutex, of_ended);
	timers_set(engine->timers, &user->expiry, TAILQ_FIRST(&user->ended)->until);
}

void
used_mutexes_done(struct lock_engine *engine)
{
	struct mutex_user *user, *next_user;
	struct used_mutex *mutex, *next;

	HASH_ITER (hh, engine->mutex_users, user, next_user) {
		HASH_ITER (hh, user->mutexes, mutex, next)
			used_mutex_free(engine, user, mutex);
	}
}

/* 7. Progress, as waiters are told it. */

/* So many waiters are told at once that their position changed. */
#define PROGRESS_FIRST 16
/* The minimum time between two rounds for the others. */
#define PROGRESS_EVERY (1 * NSEC_PER_SEC)
/*
 * There may be thousands of them. They are told in slices of time, between which other work runs.
 */
#define PROGRESS_SLICE (NSEC_PER_MSEC / 4)
#define PROGRESS_SLICE_REST NSEC_PER_MSEC

static void
progress_tell_one(struct lock_engine *engine, struct waiter *waiter, int position)
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
progress_tell_news(struct lock_engine *engine, struct waiter *waiter, int position)
{
	int busy = semaphore_busy_count(waiter->semaphore);

	if (waiter->told_position == 0)
		return; /* its client did not ask, or its wait has not begun */
	if (position != waiter->told_position || (busy >= 0 && busy != waiter->told_busy) ||
	    (busy >= 0 && waiter->semaphore->extra != waiter->told_extra))
		progress_tell_one(engine, waiter, position);
}

void
progress_begin(struct lock_engine *engine, struct waiter *waiter)
{
	struct semaphore *semaphore = waiter->semaphore;

	if (!waiter->progress || waiter->told_position != 0)
		return;
	waiter->told_turn = semaphore->told_turn;
	TAILQ_INSERT_TAIL(&semaphore->told, waiter, of_told);
	progress_tell_one(engine, waiter, local_queue_position(&semaphore->local_queue, waiter));
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
	for (int position = 1; waiter != NULL && position <= PROGRESS_FIRST; position++) {
		progress_tell_news(engine, waiter, position);
		waiter = local_queue_next(&semaphore->local_queue, waiter, LOCAL_QUEUE_ALL);
	}
	semaphore->told_old |= waiter != NULL;
	if (waiter != NULL && !timer_is_set(&semaphore->progress))
		timers_set(
		    engine->timers, &semaphore->progress, engine_now(engine) + PROGRESS_EVERY);
}

/* The next waiter to be told in this round; NULL: all were told. */
static struct waiter *
progress_next(const struct semaphore *semaphore)
{
	struct waiter *first = TAILQ_FIRST(&semaphore->told);

	return first == NULL || first->told_turn == semaphore->told_turn ? NULL : first;
}

void
progress_due(void *ctx, uint64_t id)
{
	struct semaphore *semaphore = ctx;
	struct lock_engine *engine = semaphore->engine;
	int64_t now = engine_now(engine), end = now + PROGRESS_SLICE;
	struct waiter *waiter;

	(void)id;
	if (progress_next(semaphore) == NULL) {
		semaphore->told_turn++;
		semaphore->told_old = false;
	}
	while ((waiter = progress_next(semaphore)) != NULL && now < end) {
		waiter->told_turn = semaphore->told_turn;
		TAILQ_REMOVE(&semaphore->told, waiter, of_told);
		TAILQ_INSERT_TAIL(&semaphore->told, waiter, of_told);
		progress_tell_news(
		    engine, waiter, local_queue_position(&semaphore->local_queue, waiter));
		now = engine_now(engine);
	}
	if (waiter != NULL)
		timers_set(engine->timers, &semaphore->progress, now + PROGRESS_SLICE_REST);
	else if (semaphore->told_old)
		timers_set(engine->timers, &semaphore->progress, now + PROGRESS_EVERY);
}

/* 8. The order of a peer's requests on one name. */

struct peer_order_queue {
	char *key; /* owned: the peer, and the name */
	TAILQ_HEAD(, peer_order) turns;
	UT_hash_handle by_key;
};

/* The caller frees it. */
static char *
peer_order_key(uint64_t peer, const char *name)
{
	return mem_printf("%llu %s", (unsigned long long)peer, name);
}

static struct peer_order_queue *
peer_order_queue_find(const struct lock_engine *engine, uint64_t peer, const char *name)
{
	char *key = peer_order_key(peer, name);
	struct peer_order_queue *queue;

	HASH_FIND(by_key, engine->peer_orders, key, strlen(key), queue);
	free(key);
	return queue;
}

static void
peer_order_queue_free(struct lock_engine *engine, struct peer_order_queue *queue)
{
	HASH_DELETE(by_key, engine->peer_orders, queue);
	free(queue->key);
	free(queue);
}

bool
peer_order_take(
    struct lock_engine *engine, struct peer_order *peer_order, uint64_t peer, const char *name)
{
	struct peer_order_queue *queue = peer_order_queue_find(engine, peer, name);
	const struct peer_order *other;
	struct op *op = engine_op_find(engine, peer_order->op);
	bool waits = false;

	if (queue == NULL) {
		queue = mem_alloc(sizeof(*queue));
		queue->key = peer_order_key(peer, name);
		TAILQ_INIT(&queue->turns);
		HASH_ADD_KEYPTR(by_key, engine->peer_orders, queue->key, strlen(queue->key), queue);
	}
	peer_order->request = op->request;
	peer_order->queue = queue;
	TAILQ_FOREACH (other, &peer_order->queue->turns, of_queue)
		waits |=
		    other->work == PEER_ORDER_CHANGES || peer_order->work == PEER_ORDER_CHANGES;
	TAILQ_INSERT_TAIL(&peer_order->queue->turns, peer_order, of_queue);
	if (waits) {
		op->late = REASON_TIMEOUT;
		op->late_text = "an older request of this connection about it is in progress";
		return false;
	}
	peer_order->begin = NULL;
	return true;
}

/* Reads begin together, a change alone. */
static void
peer_order_begin_next(struct lock_engine *engine, const struct peer_order_queue *queue)
{
	void (*begin)(struct lock_engine *, uint64_t);
	struct peer_order *peer_order;

	/* A request that begins asks the broker, and so does not end during this loop. */
	TAILQ_FOREACH (peer_order, &queue->turns, of_queue) {
		if (peer_order->work == PEER_ORDER_CHANGES &&
		    peer_order != TAILQ_FIRST(&queue->turns))
			return;
		begin = peer_order->begin;
		peer_order->begin = NULL;
		if (begin != NULL)
			begin(engine, peer_order->op);
		if (peer_order->work == PEER_ORDER_CHANGES)
			return;
	}
}

void
peer_order_end(struct lock_engine *engine, struct peer_order *peer_order)
{
	struct peer_order_queue *queue = peer_order->queue;

	assert(queue != NULL);
	TAILQ_REMOVE(&queue->turns, peer_order, of_queue);
	peer_order->queue = NULL;
	if (TAILQ_EMPTY(&queue->turns))
		peer_order_queue_free(engine, queue);
	else
		peer_order_begin_next(engine, queue);
}

uint64_t
peer_order_youngest_change(
    const struct lock_engine *engine, uint64_t peer, const char *name, uint64_t before)
{
	const struct peer_order_queue *queue = peer_order_queue_find(engine, peer, name);
	const struct peer_order *peer_order;
	uint64_t youngest = 0;

	if (queue == NULL)
		return 0;
	TAILQ_FOREACH (peer_order, &queue->turns, of_queue) {
		if (peer_order->work == PEER_ORDER_CHANGES && peer_order->request < before)
			youngest = peer_order->op;
	}
	return youngest;
}

void
peer_order_free_all(struct lock_engine *engine)
{
	struct peer_order_queue *queue, *next;

	HASH_ITER (by_key, engine->peer_orders, queue, next)
		peer_order_queue_free(engine, queue);
}
