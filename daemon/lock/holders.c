#include "daemon/lock/holders.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/registry.h"
#include "daemon/state/state.h"
#include "protocol/duration.h"

/*
 * Contents:
 *	1. Users take turns: turns_enter(), turns_leave() and turns_next().
 *	2. The waits. Targets: awaits of one slot share a probe. target_join(), target_leave().
 *	   The end: holder_wait_finish() answers, in one of the ways of the functions after it.
 *	   Probes: take_answer() keeps what a B said. round_is_over() rests, longer each time.
 *	   send_batch() sends probes of users in turn, and holder_probes_answered() gives out the answers.
 *	   The doors: holder_wait_start(), lock_await(), and how a wait is cancelled.
 *	   The successor: holder_wait_save_all() and holder_wait_restore_all().
 */

/* 1. Users that take turns. */

/*
 * Each has a line of entries; a user with an empty line is forgotten. This is plain data, which knows no
 * engine and no time.
 */

/* A member of the record of its owner. Zeroed: in no line. */
struct turn {
	void *owner;            /* the record, of the caller */
	struct turn_user *user; /* borrowed; NULL: in no line */
	TAILQ_ENTRY(turn) of_user;
};

struct turns {
	struct turn_user *by_uid;                  /* owned */
	TAILQ_HEAD(turn_users, turn_user) in_turn; /* the same; the next one first */
};

static void turns_leave(struct turns *turns, struct turn *turn);

struct turn_user {
	uid_t uid; /* the key */
	size_t count;
	TAILQ_HEAD(, turn) line; /* borrowed; not empty */
	TAILQ_ENTRY(turn_user) of_turns;
	UT_hash_handle by_uid;
};

/*
 * Enters the line of the user: as the first, or as the last. An entry that is in line already moves
 * if that line is shorter, so that no user waits for another's ten thousand.
 */
static void
turns_enter(struct turns *turns, struct turn *turn, uid_t uid, bool first)
{
	struct turn_user *user;

	HASH_FIND(by_uid, turns->by_uid, &uid, sizeof(uid), user);
	if (turn->user != NULL) {
		if ((user == NULL ? 0 : user->count) >= turn->user->count &&
		    !(first && user == turn->user && user->count > 1))
			return;
		turns_leave(turns, turn);
	}
	if (user == NULL) {
		user = mem_alloc(sizeof(*user));
		user->uid = uid;
		TAILQ_INIT(&user->line);
		HASH_ADD(by_uid, turns->by_uid, uid, sizeof(user->uid), user);
		TAILQ_INSERT_TAIL(&turns->in_turn, user, of_turns);
	}
	turn->user = user;
	user->count++;
	if (first)
		TAILQ_INSERT_HEAD(&user->line, turn, of_user);
	else
		TAILQ_INSERT_TAIL(&user->line, turn, of_user);
}

/* Leaves its line. */
static void
turns_leave(struct turns *turns, struct turn *turn)
{
	struct turn_user *user = turn->user;

	assert(user != NULL && user->count > 0);
	turn->user = NULL;
	TAILQ_REMOVE(&user->line, turn, of_user);
	if (--user->count > 0)
		return;
	TAILQ_REMOVE(&turns->in_turn, user, of_turns);
	HASH_DELETE(by_uid, turns->by_uid, user);
	free(user);
}

/* The first entry in line of the user whose turn it is; the turn is over. NULL: nobody is in line. */
static struct turn *
turns_next(struct turns *turns)
{
	struct turn_user *user = TAILQ_FIRST(&turns->in_turn);

	if (user == NULL)
		return NULL;
	TAILQ_REMOVE(&turns->in_turn, user, of_turns);
	TAILQ_INSERT_TAIL(&turns->in_turn, user, of_turns);
	return TAILQ_FIRST(&user->line);
}

/* 2. The waits for holders. */

enum holder_wait_kind {
	HOLDER_WAIT_REMOVED, /* removed slots: until they have no holders */
	HOLDER_WAIT_FREE,    /* one slot: until it has no holder */
	HOLDER_WAIT_BUSY     /* one slot: until it has a holder */
};

enum slot_state {
	SLOT_UNSEEN, /* not known */
	SLOT_HELD,
	SLOT_ABSENT, /* absent in the last probe, and not in the one before */
	SLOT_GONE    /* absent in two probes in a row: it leaves the list */
};

struct holder_wait_slot {
	int slot;
	enum slot_state state;
};

struct holder_wait {
	uint64_t id;
	uint64_t peer, request;
	uid_t uid;
	enum holder_wait_kind kind;
	bool by_quorum;         /* the slots were held so; or, if they are awaited, perhaps are */
	struct awaited awaited; /* its name, its slots, and its rest between rounds */
	struct holder_target *target; /* its probes */
	bool late;                    /* it came after the question in flight was sent */
	struct holder_wait_slot *left;
	size_t left_count, held; /* all, and those in HELD */
	size_t answered;         /* of those, in the round of probes that is on */
	bool known;              /* a probe has had an answer */
	bool unknown;            /* an answer of the current or last round was unknown */
	int unreachable;         /* a slot of that round whose B cannot be reached; 0: none */
	bool changed;            /* the slots with holders changed since the last notice */
	int64_t timeout;         /* 0: it ends with the next round that leaves no slot ABSENT */
	int64_t rest;
	int64_t confirm_from; /* clock time before which no probe of an ABSENT slot is the second */
	bool progress;
	/* REMOVED: the answer when they are gone; owns its text and warning */
	struct lock_answer answer;
	struct timer deadline;
	UT_hash_handle by_id;
	TAILQ_ENTRY(holder_wait) of_peer;
	TAILQ_ENTRY(holder_wait) of_target;
};

/* A target of probes: one slot, for all its awaits, or the removed slots of one wait. */
struct holder_target {
	struct target_key {
		const struct awaited_name *name; /* borrowed from its waits */
		int64_t part; /* the awaited slot, or minus the number of the only wait */
	} key;
	TAILQ_HEAD(, holder_wait) waits; /* borrowed; empty: it is in no table any more */
	struct turn turn;                /* in line: it has questions to ask in this round */
	bool otherwise;                  /* an awaited slot: there is no B of a slot by quorum */
	size_t next;                     /* the next one is about left[next] */
	size_t in_flight;                /* its unanswered questions */
	UT_hash_handle by_key;
};

/* Maximum questions of a batch, and in flight; the time by which each one delays the next batch. */
#define BATCH_MOST 128
#define FLIGHT_MOST 512
#define EACH (NSEC_PER_MSEC * 15 / 100)

/* Questions that were sent together. */
struct holder_batch {
	struct lock_engine *engine; /* borrowed */
	int64_t sent;               /* clock time */
	size_t count;
	struct holder_question {
		struct holder_target *target;
		size_t index; /* in left[] of its waits */
		enum { ABOUT_HOLDER, ABOUT_BEADS, ABOUT_GATE } about;
	} questions[BATCH_MOST];
	TAILQ_ENTRY(holder_batch) entry;
};

struct holder_probes {
	struct holder_target *targets; /* owned; those with waits */
	struct turns turns;            /* of the targets in line */
	/* owned; in flight, with their targets that have no waits */
	TAILQ_HEAD(, holder_batch) batches;
	size_t in_flight;  /* questions of those */
	struct timer next; /* set: no batch is sent before */
};

/*
 * How much later than its deadline a wait may end, for the second probe of an absent B. The time to
 * send two rounds is added. A successor needs that time for its first round, too.
 */
#define CONFIRM_MOST (1 * NSEC_PER_SEC)

/* Until the second probe of an absent B that may be claimed again: holders check it after 5 and 50 ms. */
#define REST_RECLAIMED (100 * NSEC_PER_MSEC)

ENGINE_FIND(holder_wait_find, struct holder_wait, holder_waits, by_id)

static int64_t
confirmed_by(const struct lock_engine *engine, const struct holder_wait *holder_wait)
{
	return engine_now(engine) + CONFIRM_MOST + 2 * (int64_t)holder_wait->left_count * EACH;
}

/* ---- targets ---- */

static void
target_join(struct lock_engine *engine, struct holder_wait *holder_wait)
{
	struct holder_probes *probes = engine->holder_probes;
	struct target_key key = {holder_wait->awaited.name, holder_wait->kind == HOLDER_WAIT_REMOVED
								? -(int64_t)holder_wait->id
								: holder_wait->left[0].slot};
	struct holder_target *target;

	HASH_FIND(by_key, probes->targets, &key, sizeof(key), target);
	if (target == NULL) {
		target = mem_alloc(sizeof(*target));
		target->key = key;
		target->turn.owner = target;
		target->otherwise = !holder_wait->by_quorum;
		TAILQ_INIT(&target->waits);
		HASH_ADD(by_key, probes->targets, key, sizeof(target->key), target);
	}
	holder_wait->target = target;
	holder_wait->late = target->in_flight > 0;
	TAILQ_INSERT_TAIL(&target->waits, holder_wait, of_target);
}

/* A target without waits lives until its questions are answered. */
static void
target_leave(struct holder_probes *probes, struct holder_wait *holder_wait)
{
	struct holder_target *target = holder_wait->target;

	TAILQ_REMOVE(&target->waits, holder_wait, of_target);
	if (!TAILQ_EMPTY(&target->waits))
		return;
	HASH_DELETE(by_key, probes->targets, target);
	if (target->turn.user != NULL)
		turns_leave(&probes->turns, &target->turn);
	if (target->in_flight == 0)
		free(target);
}

static void
holder_wait_free(struct lock_engine *engine, struct holder_wait *holder_wait)
{
	struct lock_peer *peer = engine_peer_find(engine, holder_wait->peer);

	timers_cancel(engine->timers, &holder_wait->deadline);
	HASH_DELETE(by_id, engine->holder_waits, holder_wait);
	target_leave(engine->holder_probes, holder_wait);
	awaited_end(engine, &holder_wait->awaited);
	TAILQ_REMOVE(&peer->holder_waits, holder_wait, of_peer);
	peer->holder_wait_count--;
	registry_peer_let_go(engine, peer);
	free(holder_wait->left);
	free((char *)holder_wait->answer.text);
	free((char *)holder_wait->answer.warning);
	free(holder_wait);
}

/* ---- the end ---- */

/* The slots that were held in the last probe. The caller frees the list. */
static int *
slots_held(const struct holder_wait *holder_wait)
{
	int *slots = mem_alloc((holder_wait->held + 1) * sizeof(*slots));
	size_t count = 0;

	for (size_t i = 0; i < holder_wait->left_count; i++) {
		if (holder_wait->left[i].state == SLOT_HELD)
			slots[count++] = holder_wait->left[i].slot;
	}
	assert(count == holder_wait->held);
	return slots;
}

/* The facts in each answer of a wait for removed slots. Words borrowed. */
static void
take_facts(struct lock_answer *answer, const struct lock_answer *of)
{
	answer->kind = of->kind;
	answer->slots = of->slots;
	answer->target = of->target;
	answer->warning = of->warning;
}

/* Answers, and frees the wait; `answer` may borrow its words. */
static void
holder_wait_finish(
    struct lock_engine *engine, struct holder_wait *holder_wait, struct lock_answer *answer)
{
	uint64_t peer = holder_wait->peer, request = holder_wait->request;
	int *held = NULL;

	answer->name = awaited_name(&holder_wait->awaited);
	if (holder_wait->kind == HOLDER_WAIT_REMOVED) {
		take_facts(answer, &holder_wait->answer);
		if (answer->reason != REASON_NONE) {
			answer->held = held = slots_held(holder_wait);
			answer->held_count = holder_wait->held;
		}
	} else {
		answer->slot = holder_wait->left[0].slot;
	}
	engine_tell(engine, peer, request, answer);
	free(held);
	holder_wait_free(engine, holder_wait);
}

static void
holder_wait_finish_refused(struct lock_engine *engine, struct holder_wait *holder_wait,
    enum reason reason, const char *text)
{
	struct lock_answer answer = engine_refusal(reason, text);

	holder_wait_finish(engine, holder_wait, &answer);
}

static void
holder_wait_finish_done(struct lock_engine *engine, struct holder_wait *holder_wait)
{
	struct lock_answer answer = holder_wait->kind == HOLDER_WAIT_REMOVED
					? holder_wait->answer
					: engine_refusal(REASON_NONE, NULL);

	holder_wait_finish(engine, holder_wait, &answer);
}

/* The broker did not answer. */
static void
holder_wait_finish_unknown(struct lock_engine *engine, struct holder_wait *holder_wait)
{
	struct lock_answer answer =
	    engine_refusal_unknown(engine, "the broker did not say whether the slot is held");
	char text[112];

	if (holder_wait->unreachable > 0) {
		snprintf(text, sizeof(text),
		    "the node of the holder queue of slot %d cannot be reached, so it is not known "
		    "whether it is held",
		    holder_wait->unreachable);
		answer = engine_refusal(REASON_BROKER_UNAVAILABLE, text);
	} else if (holder_wait->kind == HOLDER_WAIT_REMOVED &&
		   answer.reason == REASON_BROKER_UNAVAILABLE) {
		answer.text = "the broker did not say whether the removed slots are held";
	}
	holder_wait_finish(engine, holder_wait, &answer);
}

static void
holder_wait_finish_timeout(struct lock_engine *engine, struct holder_wait *holder_wait)
{
	static const char *const of_one[] = {"", "it is still busy", "it is still free"};
	char text[96];

	snprintf(text, sizeof(text), "%s", of_one[holder_wait->kind]);
	if (holder_wait->kind == HOLDER_WAIT_REMOVED)
		snprintf(text, sizeof(text), "%zu of the removed slots %s still busy",
		    holder_wait->held, holder_wait->held == 1 ? "is" : "are");
	holder_wait_finish_refused(engine, holder_wait, REASON_TIMEOUT, text);
}

static void
holder_wait_deadline_passed(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct holder_wait *holder_wait = holder_wait_find(engine, id);

	if (!holder_wait->known || holder_wait->timeout == 0) {
		holder_wait_finish_unknown(engine, holder_wait);
	} else if (holder_wait->held > 0 || holder_wait->kind == HOLDER_WAIT_BUSY) {
		holder_wait_finish_timeout(engine, holder_wait);
	} else {
		/* The remaining slots have no known holders: the next probes confirm this, or not. */
		holder_wait->timeout = 0;
		timers_set(
		    engine->timers, &holder_wait->deadline, confirmed_by(engine, holder_wait));
	}
}

/* ---- probes of the Bs ---- */

static void
holder_wait_tell_progress(struct lock_engine *engine, struct holder_wait *holder_wait)
{
	int *held;

	if (!holder_wait->progress || !holder_wait->changed)
		return;
	held = slots_held(holder_wait);
	if (holder_wait->held > 0)
		engine_notice(engine, holder_wait->peer,
		    &(struct lock_notice){.kind = LOCK_NOTICE_HOLDERS,
			.request = holder_wait->request,
			.name = awaited_name(&holder_wait->awaited),
			.held = held,
			.held_count = holder_wait->held});
	holder_wait->changed = false;
	free(held);
}

static void
take_answer(const struct lock_engine *engine, struct holder_wait *holder_wait,
    struct holder_wait_slot *slot, enum broker_answer answer)
{
	enum slot_state before = slot->state;

	if (answer == BROKER_UNKNOWN || answer == BROKER_UNREACHABLE) {
		holder_wait->unknown = true;
		if (answer == BROKER_UNREACHABLE)
			holder_wait->unreachable = slot->slot;
		return;
	}
	holder_wait->known = true;
	if (answer == BROKER_OK ||
	    (holder_wait->kind != HOLDER_WAIT_BUSY &&
		registry_is_reserved(
		    engine, awaited_name(&holder_wait->awaited), LOCK_KIND_SEMAPHORE, slot->slot)))
		slot->state = SLOT_HELD;
	else if (before == SLOT_ABSENT)
		slot->state = SLOT_GONE;
	else
		slot->state = SLOT_ABSENT;
	FAULT_IF(ABSENT_ONCE_IS_GONE, slot->state == SLOT_ABSENT, slot->state = SLOT_GONE);
	if ((before == SLOT_HELD) != (slot->state == SLOT_HELD))
		holder_wait->changed = true;
	holder_wait->held -= before == SLOT_HELD;
	holder_wait->held += slot->state == SLOT_HELD;
}

/* Removes gone slots from the list. Returns how many are absent for the first time. */
static size_t
holder_wait_sort_out(struct holder_wait *holder_wait)
{
	size_t kept = 0, absent = 0;

	for (size_t i = 0; i < holder_wait->left_count; i++) {
		if (holder_wait->left[i].state == SLOT_GONE)
			continue;
		absent += holder_wait->left[i].state == SLOT_ABSENT;
		holder_wait->left[kept++] = holder_wait->left[i];
	}
	holder_wait->left_count = kept;
	return absent;
}

static void
holder_wait_rest(struct lock_engine *engine, struct holder_wait *holder_wait, bool confirms)
{
	struct broker_info info;
	int64_t ns;

	if (holder_wait->awaited.freed)
		holder_wait->rest = AWAITED_REST_FIRST;
	holder_wait->awaited.freed = false;
	ns = holder_wait->rest / 2 + jitter_below(&engine->jitter, holder_wait->rest);
	if (confirms) {
		broker_get_info(engine->broker, &info);
		ns = info.deletes_by_name ? REST_RECLAIMED : AWAITED_REST_FIRST;
	} else {
		holder_wait->rest = holder_wait->rest > AWAITED_REST_MOST / 2
					? AWAITED_REST_MOST
					: 2 * holder_wait->rest;
	}
	holder_wait->confirm_from = engine_now(engine) + ns;
	timers_set(engine->timers, &holder_wait->awaited.rest, engine_now(engine) + ns);
}

static void
round_is_over(struct lock_engine *engine, struct holder_wait *holder_wait)
{
	bool is_try = holder_wait->timeout == 0, confirms;
	struct broker_info info;

	confirms = holder_wait->kind != HOLDER_WAIT_BUSY && holder_wait_sort_out(holder_wait) > 0;
	broker_get_info(engine->broker, &info);
	/* A wait for a busy slot ends when the slot is held. Other waits end when no slot is left. */
	if (holder_wait->kind == HOLDER_WAIT_BUSY ? holder_wait->left[0].state == SLOT_HELD
						  : holder_wait->left_count == 0)
		holder_wait_finish_done(engine, holder_wait);
	else if (holder_wait->unknown && (is_try || info.probes_refused[0] != '\0'))
		holder_wait_finish_unknown(engine, holder_wait);
	else if (is_try && !confirms)
		holder_wait_finish_timeout(engine, holder_wait);
	else {
		holder_wait_tell_progress(engine, holder_wait);
		holder_wait_rest(engine, holder_wait, confirms);
	}
}

/* The answer about left[index]. It may end the wait. */
static void
holder_wait_on_seen(struct lock_engine *engine, struct holder_wait *holder_wait, size_t index,
    int64_t sent, enum broker_answer answer, enum broker_way way)
{
	struct holder_wait_slot *slot = &holder_wait->left[index];

	assert(index < holder_wait->left_count);
	if (holder_wait->kind == HOLDER_WAIT_FREE && slot->state == SLOT_ABSENT &&
	    answer == BROKER_ABSENT && sent < holder_wait->confirm_from) {
		/* The probe of another wait, too soon to count as the second one. */
		if (!timer_is_set(&holder_wait->awaited.rest))
			timers_set(
			    engine->timers, &holder_wait->awaited.rest, holder_wait->confirm_from);
		return;
	}
	if (holder_wait->answered == 0) {
		holder_wait->unknown = false;
		holder_wait->unreachable = 0;
	}
	take_answer(engine, holder_wait, slot, answer);
	/* Its holder may have died, and cannot delete the durable B. */
	if (holder_wait->kind == HOLDER_WAIT_REMOVED && slot->state == SLOT_GONE) {
		if (holder_wait->by_quorum)
			removed_delete_beads(
			    engine, awaited_name(&holder_wait->awaited), slot->slot);
		else if (way_is_durable(way))
			hint_removed(engine, awaited_name(&holder_wait->awaited), slot->slot, way);
	}
	if (++holder_wait->answered < holder_wait->left_count)
		return;
	holder_wait->answered = 0;
	round_is_over(engine, holder_wait);
}

/* The question did not decide: the target asks the next one at once. */
static void
target_ask_again(struct lock_engine *engine, struct holder_target *target)
{
	struct holder_wait *holder_wait, *any = TAILQ_FIRST(&target->waits);

	TAILQ_FOREACH (holder_wait, &target->waits, of_target)
		holder_wait->late = false;
	target->in_flight--;
	if (any != NULL)
		turns_enter(&engine->holder_probes->turns, &target->turn, any->uid, true);
	else if (target->in_flight == 0)
		free(target);
}

/* How the slots of an awaited name are held, as far as this answer tells. True: more is to be asked. */
static bool
target_learn_way(
    struct lock_engine *engine, const struct holder_question *question, enum broker_answer answer)
{
	struct holder_target *target = question->target;
	const struct holder_wait *any = TAILQ_FIRST(&target->waits);

	if (question->about == ABOUT_GATE && answer != BROKER_UNKNOWN) {
		if (any != NULL)
			awaited_saw_gate(engine, &any->awaited, answer);
		target->otherwise = answer == BROKER_ABSENT;
		return true;
	}
	if (question->about == ABOUT_BEADS && answer == BROKER_ABSENT && target->key.part > 0) {
		target->otherwise = true;
		return true;
	}
	/* A slot that is not there may be made by quorum. */
	if (question->about == ABOUT_HOLDER && answer == BROKER_ABSENT && any != NULL &&
	    any->kind == HOLDER_WAIT_BUSY)
		target->otherwise = false;
	return false;
}

static void
target_answered(struct lock_engine *engine, const struct holder_question *question, int64_t sent,
    enum broker_answer answer, enum broker_way way)
{
	struct holder_target *target = question->target;
	struct holder_wait *holder_wait, *next, *late = NULL;

	if (target_learn_way(engine, question, answer)) {
		target_ask_again(engine, target);
		return;
	}
	if (question->about == ABOUT_BEADS) /* as if it was about a B of another way */
		answer = answer == BROKER_LOCKED ? BROKER_OK
			 : answer == BROKER_OK   ? BROKER_ABSENT
						 : answer;
	/* Each wait may end in its call, and no other may. */
	TAILQ_FOREACH_SAFE (holder_wait, &target->waits, of_target, next) {
		if (!holder_wait->late) {
			holder_wait_on_seen(
			    engine, holder_wait, question->index, sent, answer, way);
			continue;
		}
		holder_wait->late = false;
		late = holder_wait;
	}
	assert(target->in_flight > 0);
	target->in_flight--;
	if (late != NULL)
		turns_enter(&engine->holder_probes->turns, &target->turn, late->uid, true);
	else if (TAILQ_EMPTY(&target->waits) && target->in_flight == 0)
		free(target);
}

static void send_batch(struct lock_engine *engine);

static void
holder_probes_answered(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct holder_batch *batch = ctx;
	struct lock_engine *engine = batch->engine;

	(void)id;
	assert(seen->count == batch->count);
	for (size_t i = 0; i < seen->count; i++)
		target_answered(
		    engine, &batch->questions[i], batch->sent, seen->answers[i], seen->ways[i]);
	engine->holder_probes->in_flight -= seen->count;
	TAILQ_REMOVE(&engine->holder_probes->batches, batch, entry);
	free(batch);
	send_batch(engine);
}

/* The next question. An awaited slot is held by quorum only if its name has a gate. */
static int
target_next_about(const struct lock_engine *engine, const struct holder_target *target)
{
	const struct holder_wait *any = TAILQ_FIRST(&target->waits);
	enum broker_answer gate =
	    any->kind == HOLDER_WAIT_REMOVED ? BROKER_OK : awaited_gate(engine, &any->awaited);

	if (target->otherwise || gate == BROKER_ABSENT)
		return ABOUT_HOLDER;
	return gate == BROKER_OK ? ABOUT_BEADS : ABOUT_GATE;
}

static struct broker_question
question_about(const struct lock_engine *engine, const char *name, int slot, int about,
    struct queue_name *ret_queue)
{
	static const enum broker_question_kind kinds[] = {
	    [ABOUT_HOLDER] = BROKER_ASK_HOLDER,
	    [ABOUT_BEADS] = BROKER_ASK_BEADS,
	    [ABOUT_GATE] = BROKER_ASK_EXISTENCE,
	};
	const struct queue_naming *naming = engine->settings.naming;

	*ret_queue = about == ABOUT_BEADS  ? queue_name_quorum(name, slot)
		     : about == ABOUT_GATE ? queue_name_gate(naming, name)
					   : queue_name_b(naming, name, slot);
	FAULT(HOLDERS_BY_A, *ret_queue = queue_name_a(naming, name, slot));
	return (struct broker_question){ret_queue->text, kinds[about]};
}

/* Takes a question of each user in turn, until the batch is full. */
static void
send_batch(struct lock_engine *engine)
{
	struct holder_probes *probes = engine->holder_probes;
	struct broker_question questions[BATCH_MOST];
	struct queue_name queues[BATCH_MOST];
	struct holder_batch *batch;
	struct turn *turn;

	if (TAILQ_EMPTY(&probes->turns.in_turn) || timer_is_set(&probes->next) ||
	    probes->in_flight + BATCH_MOST > FLIGHT_MOST)
		return;
	batch = mem_alloc(sizeof(*batch));
	batch->engine = engine;
	batch->sent = engine_now(engine);
	while (batch->count < BATCH_MOST && (turn = turns_next(&probes->turns)) != NULL) {
		struct holder_target *target = turn->owner;
		const struct holder_wait *any = TAILQ_FIRST(&target->waits);
		const char *name = awaited_name(&any->awaited);
		size_t at = batch->count++, index = target->next++;
		int slot = any->left[index].slot;

		if (target->next == any->left_count) {
			turns_leave(&probes->turns, turn);
			target->next = 0;
		}
		target->in_flight++;
		batch->questions[at] =
		    (struct holder_question){target, index, target_next_about(engine, target)};
		questions[at] =
		    question_about(engine, name, slot, batch->questions[at].about, &queues[at]);
	}
	TAILQ_INSERT_TAIL(&probes->batches, batch, entry);
	probes->in_flight += batch->count;
	timers_set(engine->timers, &probes->next, batch->sent + (int64_t)batch->count * EACH);
	broker_probe(engine->broker, questions, batch->count,
	    (struct broker_probe_done){holder_probes_answered, batch, 0});
}

static void
holder_probes_due(void *ctx, uint64_t id)
{
	(void)id;
	send_batch(ctx);
}

/* Begins a round of probes of the slots that are left. The first goes before others of the user. */
static void
probe_left(struct lock_engine *engine, struct holder_wait *holder_wait, bool first)
{
	struct holder_target *target = holder_wait->target;

	assert(holder_wait->answered == 0);
	if (target->in_flight == 0)
		turns_enter(&engine->holder_probes->turns, &target->turn, holder_wait->uid, first);
	send_batch(engine);
}

static void
holder_wait_rest_is_over(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;

	probe_left(engine, holder_wait_find(engine, id), false);
}

/* ---- the doors ---- */

/* Begins the wait. While the broker is away, the client is told its state. */
static void
holder_wait_begin(struct lock_engine *engine, struct holder_wait *holder_wait)
{
	if (engine->link != BROKER_UP)
		engine_tell_broker(engine, holder_wait->peer);
	probe_left(engine, holder_wait, true);
}

/* Why a wait is refused at once; REASON_NONE: it is not. */
static enum reason
holder_wait_refusal(
    const struct lock_engine *engine, uint64_t peer, int64_t timeout, struct lock_answer *ret)
{
	const struct lock_peer *entry = engine_peer_find(engine, peer);
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	if (FAULT_ELSE(DRAIN_LETS_WAIT, false, engine->draining))
		*ret = engine_refusal(REASON_DRAINING, NULL);
	else if (entry != NULL && entry->waiter_count + entry->holder_wait_count >=
				      engine->settings.max_waits_per_connection)
		*ret = engine_refusal(REASON_TOO_MANY_WAITERS,
		    "this connection has as many waiting requests as it may have");
	else if (info.locks == BROKER_LOGIN_REFUSED)
		*ret = engine_refusal(REASON_BROKER_REFUSED, info.why);
	else if (engine->link != BROKER_UP && timeout == 0)
		*ret = engine_refusal(REASON_BROKER_UNAVAILABLE, info.why);
	else
		*ret = engine_refusal(REASON_NONE, NULL);
	return ret->reason;
}

static struct holder_wait *
holder_wait_new(
    struct lock_engine *engine, const struct holder_wait_order *order, enum holder_wait_kind kind)
{
	struct holder_wait *holder_wait = mem_alloc(sizeof(*holder_wait));
	struct lock_peer *peer = registry_peer(engine, order->peer);

	holder_wait->id = engine_id(engine);
	holder_wait->peer = order->peer;
	holder_wait->request = order->request;
	holder_wait->kind = kind;
	holder_wait->by_quorum = order->by_quorum || kind != HOLDER_WAIT_REMOVED;
	holder_wait->uid = order->uid;
	holder_wait->timeout = order->timeout;
	holder_wait->progress = order->progress;
	holder_wait->left_count = (size_t)(order->last - order->first + 1);
	holder_wait->left = mem_alloc(holder_wait->left_count * sizeof(*holder_wait->left));
	for (size_t i = 0; i < holder_wait->left_count; i++)
		holder_wait->left[i].slot = order->first + (int)i;
	if (order->answer != NULL) {
		holder_wait->answer = *order->answer;
		holder_wait->answer.text = mem_strdup(order->answer->text);
		holder_wait->answer.warning = mem_strdup(order->answer->warning);
	}
	holder_wait->awaited.first = order->first;
	/* A freed slot does not matter to an await of a busy one. */
	holder_wait->awaited.last = kind == HOLDER_WAIT_BUSY ? 0 : order->last;
	awaited_begin(engine, &holder_wait->awaited, order->name);
	target_join(engine, holder_wait);
	HASH_ADD(by_id, engine->holder_waits, id, sizeof(holder_wait->id), holder_wait);
	TAILQ_INSERT_TAIL(&peer->holder_waits, holder_wait, of_peer);
	peer->holder_wait_count++;
	holder_wait->rest = AWAITED_REST_FIRST;
	timer_init(&holder_wait->awaited.rest, holder_wait_rest_is_over, engine, holder_wait->id);
	timer_init(&holder_wait->deadline, holder_wait_deadline_passed, engine, holder_wait->id);
	if (order->timeout != DURATION_FOREVER)
		timers_set(engine->timers, &holder_wait->deadline,
		    engine_now(engine) +
			(order->timeout != 0 ? order->timeout : engine->settings.request_timeout));
	return holder_wait;
}

void
holder_wait_start(struct lock_engine *engine, const struct holder_wait_order *order)
{
	struct holder_wait_order possible = *order;
	struct lock_answer answer;

	assert(order->first >= 1 && order->last >= order->first);
	if (possible.last > engine->settings.slots_most)
		possible.last = engine->settings.slots_most;
	if (possible.last < possible.first) {
		engine_tell(engine, order->peer, order->request, order->answer);
		return; /* there can be no such holders */
	}
	if (holder_wait_refusal(engine, order->peer, order->timeout, &answer) == REASON_NONE) {
		holder_wait_begin(engine, holder_wait_new(engine, &possible, HOLDER_WAIT_REMOVED));
		return;
	}
	answer.name = order->name;
	take_facts(&answer, order->answer);
	engine_tell(engine, order->peer, order->request, &answer);
}

void
lock_await(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_await *await)
{
	struct holder_wait_order order = {.peer = peer,
	    .request = request,
	    .uid = await->uid,
	    .name = await->name,
	    .first = await->slot,
	    .last = await->slot,
	    .timeout = await->timeout};
	struct lock_answer answer;

	assert(!engine->telling && peer != 0);
	if (await->slot < 1 || await->slot > engine->settings.slots_most) {
		answer = engine_refusal(REASON_INVALID_PARAMS, "slot: no such slot");
		answer.parameter = "slot";
	} else if (holder_wait_refusal(engine, peer, await->timeout, &answer) == REASON_NONE) {
		holder_wait_begin(engine, holder_wait_new(engine, &order,
					      await->busy ? HOLDER_WAIT_BUSY : HOLDER_WAIT_FREE));
		return;
	}
	answer.name = await->name;
	engine_tell(engine, peer, request, &answer);
}

/* NULL: the peer has no such wait. */
static struct holder_wait *
holder_wait_find_request(const struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	const struct lock_peer *entry = engine_peer_find(engine, peer);
	struct holder_wait *holder_wait;

	if (entry == NULL)
		return NULL;
	TAILQ_FOREACH (holder_wait, &entry->holder_waits, of_peer) {
		if (holder_wait->request == request)
			return holder_wait;
	}
	return NULL;
}

bool
holder_wait_is_of(const struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	return holder_wait_find_request(engine, peer, request) != NULL;
}

bool
holder_wait_cancel(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct holder_wait *holder_wait = holder_wait_find_request(engine, peer, request);

	if (holder_wait == NULL)
		return false;
	holder_wait_finish_refused(engine, holder_wait, REASON_CANCELLED, NULL);
	return true;
}

void
holder_wait_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	struct lock_peer *entry;

	/* The peer's entry is freed with its last hold, waiter or wait. */
	while (
	    (entry = engine_peer_find(engine, peer)) != NULL && !TAILQ_EMPTY(&entry->holder_waits))
		holder_wait_free(engine, TAILQ_FIRST(&entry->holder_waits));
}

void
holder_wait_end_all(struct lock_engine *engine, const struct lock_answer *answer)
{
	struct holder_wait *holder_wait, *next;

	/* An answer does not call back into the engine, so no other wait ends meanwhile. */
	HASH_ITER (by_id, engine->holder_waits, holder_wait, next)
		holder_wait_finish_refused(engine, holder_wait, answer->reason, answer->text);
}

void
holder_wait_link_changed(struct lock_engine *engine, const char *why)
{
	struct holder_wait *holder_wait, *next;

	HASH_ITER (by_id, engine->holder_waits, holder_wait, next) {
		if (engine->link == BROKER_LOGIN_REFUSED)
			holder_wait_finish_refused(engine, holder_wait, REASON_BROKER_REFUSED, why);
		else if (engine->link == BROKER_DOWN && holder_wait->timeout == 0)
			holder_wait_finish_refused(
			    engine, holder_wait, REASON_BROKER_UNAVAILABLE, why);
	}
}

/* ---- the successor ---- */

/* In a record: REMOVED, by quorum. Version 0.1.0 refuses it before it takes over. */
#define KIND_REMOVED_BY_QUORUM (HOLDER_WAIT_BUSY + 1)

struct holder_wait_record {
	uint64_t peer, request;
	int64_t uid;
	int kind;
	const char *name;
	int first, last;
	int64_t timeout, deadline; /* as requested, ns; clock time, INT64_MAX: none */
	bool progress;
	/* REMOVED: of the answer */
	int answer_kind, slots, target;
	const char *warning;
};

static const struct state_field holder_wait_fields[] = {
    STATE_FIELD(holder_wait_record, peer, STATE_NUMBER),
    STATE_FIELD(holder_wait_record, request, STATE_NUMBER),
    STATE_FIELD(holder_wait_record, uid, STATE_SIGNED),
    STATE_RANGE(holder_wait_record, kind, HOLDER_WAIT_REMOVED, KIND_REMOVED_BY_QUORUM),
    STATE_FIELD(holder_wait_record, name, STATE_TEXT),
    STATE_RANGE(holder_wait_record, first, 1, INT32_MAX),
    STATE_RANGE(holder_wait_record, last, 1, INT32_MAX),
    STATE_FIELD(holder_wait_record, timeout, STATE_SIGNED),
    STATE_FIELD(holder_wait_record, deadline, STATE_SIGNED),
    STATE_FIELD(holder_wait_record, progress, STATE_BOOL),
    STATE_RANGE(holder_wait_record, answer_kind, 0, LOCK_KIND_PERSISTENT_MUTEX),
    STATE_RANGE(holder_wait_record, slots, LOCK_UNLIMITED, INT32_MAX),
    STATE_RANGE(holder_wait_record, target, LOCK_UNLIMITED, INT32_MAX),
    STATE_FIELD(holder_wait_record, warning, STATE_TEXT),
    {0},
};

void
holder_wait_save_all(const struct lock_engine *engine, struct state_writer *writer)
{
	const struct holder_wait *holder_wait;

	for (holder_wait = engine->holder_waits; holder_wait != NULL;
	     holder_wait = holder_wait->by_id.next) {
		struct holder_wait_record record = {
		    .peer = holder_wait->peer,
		    .request = holder_wait->request,
		    .uid = (int64_t)holder_wait->uid,
		    .kind = holder_wait->kind == HOLDER_WAIT_REMOVED && holder_wait->by_quorum
				? KIND_REMOVED_BY_QUORUM
				: (int)holder_wait->kind,
		    .name = awaited_name(&holder_wait->awaited),
		    .first = holder_wait->left[0].slot,
		    .last = holder_wait->left[holder_wait->left_count - 1].slot,
		    .timeout = holder_wait->timeout,
		    .deadline = timer_is_set(&holder_wait->deadline) ? holder_wait->deadline.when
								     : INT64_MAX,
		    .progress = holder_wait->progress,
		    .answer_kind = (int)holder_wait->answer.kind,
		    .slots = holder_wait->answer.slots,
		    .target = holder_wait->answer.target,
		    .warning = holder_wait->answer.warning,
		};

		state_put(writer, "holder-wait", holder_wait_fields, &record);
	}
}

static bool
is_timeout(int64_t timeout)
{
	return timeout == DURATION_FOREVER ||
	       (timeout >= 0 && timeout <= DURATION_MAX_SECONDS * NSEC_PER_SEC);
}

/*
 * Slots that had no holder any more are probed again. If such a slot was created again, its new
 * holder is waited for, too. A wait whose deadline has passed ends after these probes only, as
 * nothing is known about the slots before.
 */
static bool
holder_wait_restore(struct lock_engine *engine, const struct holder_wait_record *record)
{
	struct lock_answer answer = engine_refusal(REASON_NONE, NULL);
	bool by_quorum = record->kind == KIND_REMOVED_BY_QUORUM;
	enum holder_wait_kind kind =
	    by_quorum ? HOLDER_WAIT_REMOVED : (enum holder_wait_kind)record->kind;
	struct holder_wait *holder_wait;
	int64_t least;
	struct holder_wait_order order = {.peer = record->peer,
	    .request = record->request,
	    .uid = (uid_t)record->uid,
	    .name = record->name,
	    .by_quorum = by_quorum,
	    .first = record->first,
	    .last = record->last,
	    .timeout = record->timeout,
	    .progress = record->progress};

	if (record->name == NULL || lockname_error(record->name, strlen(record->name)) != NULL ||
	    queue_name_refusal(engine->settings.naming, record->name) != NULL ||
	    record->peer == 0 || record->uid < 0 || record->uid > UINT32_MAX ||
	    !is_timeout(record->timeout) || record->deadline < 0 || record->last < record->first ||
	    record->last > engine->settings.slots_most ||
	    (kind != HOLDER_WAIT_REMOVED && record->last != record->first))
		return false;
	FAULT(RESTORED_HOLDER_WAIT_FORGOTTEN, return true;);
	answer.kind = (enum lock_kind)record->answer_kind;
	answer.slots = record->slots;
	answer.target = record->target;
	answer.warning = record->warning;
	order.answer = kind == HOLDER_WAIT_REMOVED ? &answer : NULL;
	holder_wait = holder_wait_new(engine, &order, kind);
	least = confirmed_by(engine, holder_wait);
	if (record->deadline != INT64_MAX)
		timers_set(engine->timers, &holder_wait->deadline,
		    record->deadline > least ? record->deadline : least);
	holder_wait_begin(engine, holder_wait);
	return true;
}

bool
holder_wait_restore_all(struct lock_engine *engine, struct state_reader *reader)
{
	struct holder_wait_record record;

	while (state_is(reader, "holder-wait")) {
		if (!state_take(reader, "holder-wait", holder_wait_fields, &record))
			return false;
		if (!holder_wait_restore(engine, &record))
			return state_spoil(reader, "invalid record of a wait for holders");
	}
	return true;
}

/* ---- the engine's start and end ---- */

void
holder_wait_init(struct lock_engine *engine)
{
	struct holder_probes *probes = mem_alloc(sizeof(*probes));

	TAILQ_INIT(&probes->turns.in_turn);
	TAILQ_INIT(&probes->batches);
	timer_init(&probes->next, holder_probes_due, engine, 0);
	engine->holder_probes = probes;
}

void
holder_wait_free_all(struct lock_engine *engine)
{
	struct holder_probes *probes = engine->holder_probes;
	struct holder_wait *holder_wait, *next;
	struct holder_batch *batch;

	HASH_ITER (by_id, engine->holder_waits, holder_wait, next)
		holder_wait_free(engine, holder_wait);
	while ((batch = TAILQ_FIRST(&probes->batches)) != NULL) {
		for (size_t i = 0; i < batch->count; i++) {
			if (--batch->questions[i].target->in_flight == 0)
				free(batch->questions[i].target);
		}
		TAILQ_REMOVE(&probes->batches, batch, entry);
		free(batch);
	}
	timers_cancel(engine->timers, &probes->next);
	free(probes);
}
