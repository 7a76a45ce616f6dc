#include "daemon/lock/fsck.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/lock/directory.h"
#include "daemon/lock/fsck_work.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/registry.h"

struct fsck *
fsck_find(const struct lock_engine *engine, uint64_t op)
{
	struct fsck *fsck;

	HASH_FIND(by_op, engine->fscks, &op, sizeof(op), fsck);
	return fsck;
}

static bool
change_is_allowed(enum fsck_state from, enum fsck_state to)
{
	switch (from) {
	case FSCK_QUEUED:
		return to == FSCK_LOCKING;
	case FSCK_LOCKING:
		return to == FSCK_SURVEYING;
	case FSCK_SURVEYING:
		return to == FSCK_READING || to == FSCK_UNLOCKING;
	case FSCK_READING:
		return to == FSCK_DECLARING || to == FSCK_UNLOCKING;
	case FSCK_DECLARING:
		return to == FSCK_DELETING || to == FSCK_UNLOCKING;
	case FSCK_DELETING:
	case FSCK_ASKING:
	case FSCK_RENEWING:
		return to == FSCK_ASKING || to == FSCK_RENEWING || to == FSCK_OPENING ||
		       to == FSCK_LISTING || to == FSCK_SURVEYING || to == FSCK_UNLOCKING;
	case FSCK_OPENING:
		return to == FSCK_LISTING || to == FSCK_SURVEYING || to == FSCK_UNLOCKING;
	case FSCK_LISTING:
		return to == FSCK_SURVEYING || to == FSCK_UNLOCKING;
	case FSCK_UNLOCKING:
		return false;
	}
	return false;
}

void
fsck_set_state(struct fsck *fsck, enum fsck_state state)
{
	assert(change_is_allowed(fsck->state, state) && fsck->unanswered == 0);
	fsck->state = state;
}

static void
fsck_free(struct lock_engine *engine, struct fsck *fsck)
{
	HASH_DELETE(by_op, engine->fscks, fsck);
	fsck_seen_done(&fsck->seen);
	fsck_findings_done(&fsck->findings);
	free(fsck->name);
	free(fsck);
}

/* ---- the end ---- */

static void
set_outcome(struct fsck *fsck, enum reason reason, const char *text)
{
	fsck->outcome = reason;
	snprintf(fsck->text, sizeof(fsck->text), "%s", text != NULL ? text : "");
}

static void
tell_outcome(struct lock_engine *engine, const struct fsck *fsck)
{
	struct lock_answer answer = engine_refusal(fsck->outcome, NULL);
	const struct fsck_findings *findings = &fsck->findings;

	if (fsck->text[0] != '\0')
		answer.text = fsck->text;
	answer.name = fsck->name;
	if (fsck->outcome == REASON_NONE) {
		answer.slots = survey_size(&fsck->seen.survey);
		answer.findings = findings->list;
		answer.finding_count = findings->count;
	}
	engine_op_end(engine, fsck->op, &answer);
}

void
fsck_unlock(struct lock_engine *engine, struct fsck *fsck, enum reason reason, const char *text)
{
	set_outcome(fsck, reason, text);
	fsck->unanswered = 0; /* nothing that is answered from now on matters */
	fsck_set_state(fsck, FSCK_UNLOCKING);
	/* RabbitMQ does not read the delete before the alarm is over; the peer need not wait for that. */
	if (reason == REASON_BROKER_BLOCKED)
		tell_outcome(engine, fsck);
	mutex_drop(engine, fsck->op);
}

/* ---- a look ---- */

static void look(struct lock_engine *engine, struct fsck *fsck);

/* Before mending, nothing was changed; after it, all was. */
static void
unlock_unknown(struct lock_engine *engine, struct fsck *fsck, const char *of_what)
{
	char text[sizeof(fsck->text)];
	struct lock_answer unknown;

	if (fsck->looks == 1)
		snprintf(text, sizeof(text),
		    "the broker did not say whether %s; nothing was changed", of_what);
	else
		snprintf(text, sizeof(text),
		    "it was mended; after that the broker did not say whether %s", of_what);
	unknown = engine_refusal_unknown(engine, text);
	fsck_unlock(engine, fsck, unknown.reason, unknown.text);
}

/*
 * It is over and told. Acquires that stood behind it look anew; what it asked of the directory and has not
 * begun is not done without the mutex.
 */
static void
end(struct lock_engine *engine, struct fsck *fsck)
{
	directory_forget(engine, fsck->op);
	registry_admin_done(engine, fsck->name, fsck->op, REASON_NONE, NULL);
	turn_end(engine, &fsck->turn);
	fsck_free(engine, fsck);
}

/* What can be said now: what is wrong, or was. */
static void
report(struct lock_engine *engine, struct fsck *fsck)
{
	bool exists = survey_exists(&fsck->seen.survey);

	fsck_unlock(engine, fsck,
	    exists || fsck->findings.count > 0 ? REASON_NONE : REASON_NO_SUCH_LOCK, NULL);
}

void
fsck_looked(struct lock_engine *engine, struct fsck *fsck)
{
	struct fsck_findings now = {.count = 0};

	fsck_findings_make(&now, &fsck->seen);
	if (fsck->looks == 2) {
		fsck_findings_compare(&fsck->findings, &now);
		fsck_findings_done(&now);
		report(engine, fsck);
		return;
	}
	fsck->findings = now;
	if (fsck->repair && fsck_findings_mendable(&fsck->findings))
		fsck_work_mend(engine, fsck);
	else
		report(engine, fsck);
}

static void
on_read(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct fsck *fsck = fsck_find(engine, id);

	if (fsck == NULL || fsck->state != FSCK_READING)
		return;
	if (reason != REASON_NONE) {
		fsck_unlock(engine, fsck, reason, text);
		return;
	}
	for (size_t i = 0; i < count && !fsck->seen.listed; i++)
		fsck->seen.listed = strcmp(names[i], fsck->name) == 0;
	engine_op_progress(engine, engine_op_find(engine, id));
	fsck_work_declare(engine, fsck);
}

static void
on_surveyed(struct lock_engine *engine, uint64_t id, const struct survey *found)
{
	struct fsck *fsck = fsck_find(engine, id);
	char what[64];

	if (fsck == NULL || fsck->state != FSCK_SURVEYING)
		return;
	if (found->unknown > 0) {
		snprintf(what, sizeof(what), "slot %d exists, or is held", found->unknown);
		unlock_unknown(engine, fsck, what);
		return;
	}
	if (found->unknown == 0) {
		unlock_unknown(engine, fsck, "its markers exist");
		return;
	}
	fsck_seen_take(&fsck->seen, found);
	fsck_set_state(fsck, FSCK_READING);
	directory_read(engine, on_read, id);
	engine_op_progress(engine, engine_op_find(engine, id)); /* after that one's deadline */
}

static void
look(struct lock_engine *engine, struct fsck *fsck)
{
	fsck->looks++;
	fsck_set_state(fsck, FSCK_SURVEYING);
	survey_start(engine, fsck->name, SURVEY_WHOLE, on_surveyed, fsck->op);
}

/* ---- the directory ---- */

static void
on_listed(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct fsck *fsck = fsck_find(engine, id);

	(void)names;
	(void)count;
	if (fsck == NULL || fsck->state != FSCK_LISTING)
		return;
	if (reason != REASON_NONE) {
		fsck_unlock(engine, fsck, reason, text);
		return;
	}
	engine_op_progress(engine, engine_op_find(engine, id));
	look(engine, fsck);
}

void
fsck_mended(struct lock_engine *engine, struct fsck *fsck)
{
	bool exists = survey_exists(&fsck->seen.survey); /* strays never counted */

	if (exists == fsck->seen.listed) {
		look(engine, fsck);
		return;
	}
	fsck_set_state(fsck, FSCK_LISTING);
	if (exists)
		directory_enter(engine, fsck->name, on_listed, fsck->op);
	else
		directory_leave(engine, fsck->name, on_listed, fsck->op);
	engine_op_progress(
	    engine, engine_op_find(engine, fsck->op)); /* after that one's deadline */
}

/* ---- the mutex, and the door ---- */

static void
on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news, enum reason reason,
    const char *text)
{
	struct fsck *fsck = fsck_find(engine, id);

	switch (news) {
	case MUTEX_HELD:
		look(engine, fsck);
		return;
	case MUTEX_FREE:
		break;
	case MUTEX_LOST:
		set_outcome(
		    fsck, reason, "the connection to the broker was lost before all was done");
		break;
	case MUTEX_REFUSED:
		set_outcome(fsck, reason, text);
		break;
	}
	tell_outcome(engine, fsck);
	end(engine, fsck);
}

/* Answered by its deadline: nothing more is done. */
static void
on_expired(struct lock_engine *engine, uint64_t op)
{
	mutex_leave(engine, op);
	end(engine, fsck_find(engine, op));
}

static void
begin(struct lock_engine *engine, uint64_t op)
{
	struct fsck *fsck = fsck_find(engine, op);

	fsck_set_state(fsck, FSCK_LOCKING);
	mutex_take(engine, queue_name_admin(engine->settings.naming, fsck->name).text,
	    &(struct mutex_order){
		.id = op, .what = fsck->repair ? "a repair" : "an fsck", .told = on_mutex});
}

void
fsck_start(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name, bool repair)
{
	struct lock_answer refusal;
	struct fsck *fsck;
	struct op *op;

	if (engine_refusal_for_link(engine, &refusal)) {
		engine_tell(engine, peer, request, &refusal);
		return;
	}
	op = engine_op_new(engine, peer, request);
	op->expired = on_expired;
	fsck = mem_alloc(sizeof(*fsck));
	fsck->op = op->id;
	fsck->state = FSCK_QUEUED;
	fsck->name = mem_strdup(name);
	fsck->repair = repair;
	fsck->turn = (struct turn){.op = op->id, .work = TURN_CHANGES, .begin = begin};
	HASH_ADD(by_op, engine->fscks, op, sizeof(fsck->op), fsck);
	if (turn_take(engine, &fsck->turn, peer, name))
		begin(engine, op->id);
}

void
fsck_free_all(struct lock_engine *engine)
{
	struct fsck *fsck, *next;

	HASH_ITER (by_op, engine->fscks, fsck, next)
		fsck_free(engine, fsck);
}
