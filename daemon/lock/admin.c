#include "daemon/lock/admin.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/acquire.h"
#include "daemon/lock/admin_work.h"
#include "daemon/lock/survey.h"
#include "protocol/methods.h"

/* How long to wait for another administrator before asking again; up to twice that, by chance. */
#define BUSY_AGAIN (50 * NSEC_PER_MSEC)

static void begin(struct lock_engine *engine, struct admin *admin);

struct admin *
admin_find(const struct lock_engine *engine, uint64_t op)
{
	struct admin *admin;

	HASH_FIND(by_op, engine->admins, &op, sizeof(op), admin);
	return admin;
}

static bool
change_is_allowed(enum admin_state from, enum admin_state to)
{
	switch (from) {
	case ADMIN_QUEUED:
		return to == ADMIN_LOCKING || to == ADMIN_COUNTING;
	case ADMIN_BUSY:
		return to == ADMIN_LOCKING;
	case ADMIN_LOCKING:
		return to == ADMIN_BUSY || to == ADMIN_COUNTING || to == ADMIN_UNLOCKING;
	case ADMIN_COUNTING:
		return to == ADMIN_DECLARING || to == ADMIN_DELETING || to == ADMIN_UNLOCKING;
	case ADMIN_DECLARING:
	case ADMIN_DELETING:
		return to == ADMIN_UNLOCKING;
	case ADMIN_UNLOCKING:
		return false;
	}
	return false;
}

static void
admin_set_state(struct admin *admin, enum admin_state state)
{
	assert(change_is_allowed(admin->state, state));
	admin->state = state;
}

/* In the line are those that others may have to stand behind for long, and all who stand behind one. */
static bool
is_in_line(const struct admin *admin)
{
	return admin->work != ADMIN_SIZE || admin->state == ADMIN_QUEUED;
}

static void
admin_free(struct lock_engine *engine, struct admin *admin)
{
	timers_cancel(engine->timers, &admin->again);
	if (is_in_line(admin))
		TAILQ_REMOVE(&engine->admin_line, admin, of_line);
	HASH_DELETE(by_op, engine->admins, admin);
	free(admin->name);
	free(admin);
}

/*
 * Whether an older request on the name comes first: those that change it go one by one, and those of
 * one peer keep their order, but for sizes among themselves.
 */
static bool
stands_behind(const struct lock_engine *engine, const struct admin *admin)
{
	const struct admin *other;
	bool change = admin->work != ADMIN_SIZE;

	if (FAULT(ADMINS_TOGETHER))
		return false;
	TAILQ_FOREACH (other, &engine->admin_line, of_line) {
		if (other->op < admin->op && other->work != ADMIN_SIZE &&
		    (change || other->peer == admin->peer) && strcmp(other->name, admin->name) == 0)
			return true;
	}
	if (!change)
		return false;
	for (other = engine->admins; other != NULL; other = other->by_op.next) {
		if (other->op < admin->op && other->peer == admin->peer &&
		    strcmp(other->name, admin->name) == 0)
			return true;
	}
	return false;
}

/* Those whose turn has come, in the order in which they came. */
static void
begin_queued(struct lock_engine *engine)
{
	struct admin *admin, *next;

	TAILQ_FOREACH_SAFE (admin, &engine->admin_line, of_line, next) {
		if (admin->state == ADMIN_QUEUED && !stands_behind(engine, admin))
			begin(engine, admin); /* it may leave the line, nobody else does */
	}
}

/* Once; the answer borrows the words of the admin. */
static void
tell_outcome(struct lock_engine *engine, const struct admin *admin)
{
	struct lock_answer answer = engine_refusal(admin->outcome, NULL);

	if (admin->text[0] != '\0')
		answer.text = admin->text;
	answer.name = admin->name;
	answer.kind = admin->kind;
	answer.slots = admin->outcome == REASON_NONE ? admin->target : admin->found;
	engine_op_end(engine, admin->op, &answer);
}

/* The end: the lane goes back, the peer is told. */
static void
finish(struct lock_engine *engine, struct admin *admin)
{
	if (admin->work != ADMIN_SIZE)
		acquire_admin_done(engine, admin->name, admin->op, admin->outcome, admin->text);
	if (admin->lane != 0)
		broker_lane_put(engine->broker, admin->lane);
	tell_outcome(engine, admin);
	admin_free(engine, admin);
	begin_queued(engine);
}

static void
set_outcome(struct admin *admin, enum reason reason, const char *text)
{
	admin->outcome = reason;
	snprintf(admin->text, sizeof(admin->text), "%s", text != NULL ? text : "");
}

/* ---- the mutex ---- */

uint64_t
admin_lane(struct lock_engine *engine, struct admin *admin)
{
	if (admin->lane == 0)
		admin->lane = broker_lane_take(engine->broker, BROKER_SIDE);
	return admin->lane;
}

static void
on_unlocked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);

	/* Skipped: admin_lane_closed() sends it again, or did, and the link's death ended both. */
	if (admin == NULL || reply->answer == BROKER_SKIPPED)
		return;
	assert(admin->state == ADMIN_UNLOCKING);
	/* Dropped, or gone with the side link, or refused: then the link's idle end frees it. */
	finish(engine, admin);
}

static void
send_unlock(struct lock_engine *engine, struct admin *admin)
{
	struct queue_name mutex = queue_name_admin(engine->settings.naming, admin->name);

	broker_drop(engine->broker, admin_lane(engine, admin), mutex.text,
	    (struct broker_done){on_unlocked, engine, admin->op});
}

void
admin_unlock(struct lock_engine *engine, struct admin *admin, enum reason reason, const char *text)
{
	set_outcome(admin, reason, text);
	admin_set_state(admin, ADMIN_UNLOCKING);
	/* RabbitMQ does not read the delete before the alarm is over; the peer need not wait for that. */
	if (reason == REASON_BROKER_BLOCKED)
		tell_outcome(engine, admin);
	send_unlock(engine, admin);
}

void
admin_abandon(struct lock_engine *engine, struct admin *admin)
{
	set_outcome(admin, REASON_BROKER_UNAVAILABLE,
	    "the connection to the broker was lost before all was done");
	finish(engine, admin);
}

static void
try_again(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);

	assert(admin != NULL && admin->state == ADMIN_BUSY);
	begin(engine, admin);
}

/* From now on it is another administrator that keeps the peer waiting. */
static void
blame_other(struct lock_engine *engine, const struct admin *admin)
{
	struct op *op = engine_op_find(engine, admin->op);

	if (op != NULL) {
		op->late = REASON_TIMEOUT;
		op->late_text = "another administrator is at work on it";
	}
}

/* The size is all that was asked for. */
static void
tell_size(struct lock_engine *engine, struct admin *admin, int slots)
{
	admin->target = slots;
	if (slots == 0)
		set_outcome(admin, REASON_NO_SUCH_LOCK, NULL);
	finish(engine, admin);
}

static void
tell_unknown(struct lock_engine *engine, struct admin *admin, int slot)
{
	char text[sizeof(admin->text)];
	struct lock_answer unknown = engine_refusal_unknown(engine, text);

	snprintf(text, sizeof(text),
	    "the broker did not say whether slot %d exists; nothing was changed", slot);
	if (admin->work == ADMIN_SIZE) {
		set_outcome(admin, unknown.reason, unknown.text);
		finish(engine, admin);
		return;
	}
	admin_unlock(engine, admin, unknown.reason, unknown.text);
}

static void
on_counted(struct lock_engine *engine, uint64_t id, const struct survey *survey)
{
	struct admin *admin = admin_find(engine, id);
	int slots = survey->unknown < 0 ? survey->slots : -1;
	char text[sizeof(admin->text)];

	assert(admin != NULL && admin->state == ADMIN_COUNTING);
	admin->found = slots;
	if (slots < 0) {
		tell_unknown(engine, admin, survey->unknown);
	} else if (admin->work == ADMIN_SIZE) {
		tell_size(engine, admin, slots);
	} else if (admin->work == ADMIN_DESTROY && slots == 0) {
		admin_unlock(engine, admin, REASON_NO_SUCH_LOCK, NULL);
	} else if (admin->work == ADMIN_DESTROY) {
		admin->left = slots;
		admin_set_state(admin, ADMIN_DELETING);
		admin_work_go_on(engine, admin);
	} else if (slots > 0 && !(admin->exist_ok && slots == admin->target)) {
		snprintf(text, sizeof(text), "it exists already, with %d slot%s", slots,
		    slots == 1 ? "" : "s");
		admin_unlock(engine, admin, REASON_ALREADY_EXISTS, text);
	} else if (slots > 0) {
		admin_unlock(engine, admin, REASON_NONE, NULL);
	} else {
		admin_set_state(admin, ADMIN_DECLARING);
		admin_work_go_on(engine, admin);
	}
}

static void
on_locked(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct admin *admin = admin_find(engine, id);

	assert(admin != NULL && admin->state == ADMIN_LOCKING);
	switch (reply->answer) {
	case BROKER_OK:
		if (engine_op_find(engine, admin->op) == NULL) {
			/* Answered by its deadline meanwhile: nothing is done. */
			admin_unlock(engine, admin, REASON_BROKER_UNAVAILABLE, NULL);
			break;
		}
		admin_set_state(admin, ADMIN_COUNTING);
		survey_start(engine, admin->name, SURVEY_SIZE, on_counted, admin->op);
		break;
	case BROKER_LOCKED:
		broker_lane_put(engine->broker, admin->lane);
		admin->lane = 0;
		if (engine_op_find(engine, admin->op) == NULL) {
			finish(engine, admin); /* as above */
			break;
		}
		admin_set_state(admin, ADMIN_BUSY);
		blame_other(engine, admin);
		timers_set(engine->timers, &admin->again,
		    engine_now(engine) + BUSY_AGAIN + jitter_below(&engine->jitter, BUSY_AGAIN));
		break;
	case BROKER_ABSENT:
	case BROKER_REFUSED:
		set_outcome(admin, REASON_BROKER_DENIED, reply->text);
		finish(engine, admin);
		break;
	case BROKER_SKIPPED:
	case BROKER_UNKNOWN:
		set_outcome(admin, REASON_BROKER_UNAVAILABLE, reply->text);
		finish(engine, admin);
		break;
	}
}

static void
begin(struct lock_engine *engine, struct admin *admin)
{
	struct queue_name mutex = queue_name_admin(engine->settings.naming, admin->name);

	if (stands_behind(engine, admin)) {
		blame_other(engine, admin);
	} else if (admin->work == ADMIN_SIZE) {
		TAILQ_REMOVE(&engine->admin_line, admin, of_line);
		admin_set_state(admin, ADMIN_COUNTING);
		survey_start(engine, admin->name, SURVEY_SIZE, on_counted, admin->op);
	} else {
		admin_set_state(admin, ADMIN_LOCKING);
		admin->lane = broker_lane_take(engine->broker, BROKER_SIDE);
		if (FAULT(ADMIN_WITHOUT_MUTEX)) {
			admin_set_state(admin, ADMIN_COUNTING);
			survey_start(engine, admin->name, SURVEY_SIZE, on_counted, admin->op);
			return;
		}
		broker_claim(engine->broker, admin->lane, mutex.text,
		    (struct broker_done){on_locked, engine, admin->op});
	}
}

/* ---- the doors ---- */

/* Answered by its deadline before anything was done: then nothing is. */
static void
on_expired(struct lock_engine *engine, uint64_t op)
{
	struct admin *admin = admin_find(engine, op);

	if (admin != NULL && (admin->state == ADMIN_QUEUED || admin->state == ADMIN_BUSY))
		finish(engine, admin);
}

static struct admin *
admin_new(struct lock_engine *engine, uint64_t peer, uint64_t request, enum admin_work work,
    const char *name)
{
	struct admin *admin = mem_alloc(sizeof(*admin));
	struct op *op = engine_op_new(engine, peer, request);

	op->expired = on_expired;
	admin->op = op->id;
	admin->work = work;
	admin->state = ADMIN_QUEUED;
	admin->peer = peer;
	admin->name = mem_strdup(name);
	timer_init(&admin->again, try_again, engine, admin->op);
	HASH_ADD(by_op, engine->admins, op, sizeof(admin->op), admin);
	TAILQ_INSERT_TAIL(&engine->admin_line, admin, of_line);
	return admin;
}

/*
 * Nothing can be administered without the broker, or while it takes no messages: true when the peer was
 * told so.
 */
static bool
refused_for_link(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct lock_answer answer;
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	if (engine->link != BROKER_UP)
		answer = engine_refusal(
		    info.hold == BROKER_DENIED ? REASON_BROKER_DENIED : REASON_BROKER_UNAVAILABLE,
		    info.why);
	else if (info.side_blocked)
		answer = engine_refusal(REASON_BROKER_BLOCKED, NULL);
	else
		return false;
	engine_tell(engine, peer, request, &answer);
	return true;
}

void
admin_create(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change)
{
	struct lock_answer answer = engine_refusal(REASON_INVALID_PARAMS, NULL);
	struct admin *admin;

	if (change->kind == LOCK_KIND_MUTEX)
		answer.text = "kind: a true mutex is there without being created";
	else if (change->kind == LOCK_KIND_PERSISTENT_MUTEX && change->slots != 1)
		answer.text = "slots: a persistent mutex has one slot";
	else if (change->slots < 1 || change->slots > METHODS_SLOTS_MAX)
		answer.text = "slots: between 1 and 10000";
	if (answer.text != NULL) {
		engine_tell(engine, peer, request, &answer);
		return;
	}
	if (refused_for_link(engine, peer, request))
		return;
	admin = admin_new(engine, peer, request, ADMIN_CREATE, change->name);
	admin->kind = change->kind;
	admin->target = change->slots;
	admin->exist_ok = change->exist_ok;
	begin(engine, admin);
}

void
admin_resize(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change)
{
	struct lock_answer answer = engine_refusal(REASON_INTERNAL, NULL);

	(void)change;
	engine_tell(engine, peer, request, &answer);
}

uint64_t
admin_create_missing(struct lock_engine *engine, const char *name, int slots)
{
	(void)engine;
	(void)name;
	(void)slots;
	return 0;
}

void
admin_destroy(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change)
{
	if (!refused_for_link(engine, peer, request))
		begin(engine, admin_new(engine, peer, request, ADMIN_DESTROY, change->name));
}

void
admin_size(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name)
{
	if (!refused_for_link(engine, peer, request))
		begin(engine, admin_new(engine, peer, request, ADMIN_SIZE, name));
}

uint64_t
admin_of_peer(const struct lock_engine *engine, uint64_t peer, const char *name)
{
	const struct admin *admin;
	uint64_t youngest = 0;

	TAILQ_FOREACH (admin, &engine->admin_line, of_line) {
		if (admin->peer == peer && admin->work != ADMIN_SIZE &&
		    strcmp(admin->name, name) == 0 && admin->op > youngest)
			youngest = admin->op;
	}
	return youngest;
}

void
admin_lane_closed(struct lock_engine *engine, uint64_t lane)
{
	struct admin *admin;

	TAILQ_FOREACH (admin, &engine->admin_line, of_line) {
		if (admin->lane == lane)
			break;
	}
	if (admin == NULL)
		return;
	admin->lane = 0;
	switch (admin->state) {
	case ADMIN_DECLARING:
	case ADMIN_DELETING:
		admin_work_go_on(engine, admin);
		break;
	case ADMIN_UNLOCKING:
		send_unlock(engine, admin);
		break;
	case ADMIN_QUEUED:
	case ADMIN_BUSY:
	case ADMIN_LOCKING:
	case ADMIN_COUNTING:
		break;
	}
}

void
admin_free_all(struct lock_engine *engine)
{
	struct admin *admin, *next;

	HASH_ITER (by_op, engine->admins, admin, next)
		admin_free(engine, admin);
}
