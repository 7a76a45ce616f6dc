#include "daemon/lock/hint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/acquire.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/look.h"
#include "daemon/lock/waitline.h"

/* At most one hint of a name is passed on in so long. */
#define PASS_ON_AGAIN (50 * NSEC_PER_MSEC)
/* Hints for one change of a semaphore; a line holds no more (broker.h). */
#define HINTS_MOST 64

/* A line, and a slot: what a hint says. */
struct hint_key {
	char text[QUEUE_NAME_SIZE + 16];
};

enum spared_for {
	SPARED_FOR_LINE,   /* somebody in it was told */
	SPARED_FOR_POLLERS /* nobody was: whoever looks by himself may have it */
};

/* A slot that is left alone. */
struct spared {
	enum spared_for whom;
	struct queue_name b;         /* a key */
	struct hint_key key;         /* another */
	struct semaphore *semaphore; /* borrowed; stays while a slot of it is spared */
	int slot;                    /* of a mutex 1 */
	struct timer end;
	UT_hash_handle by_b, by_hint;
};

/* What is asked before hints are sent. */
struct hint_question {
	uint64_t id;     /* the key */
	char *name;      /* owned */
	int first, last; /* slots; 0: all are to look */
	UT_hash_handle by_id;
};

static struct queue_name
line_of(const struct lock_engine *engine, const char *name, bool mutex)
{
	return mutex ? queue_name_mutex_line(engine->settings.naming, name)
		     : queue_name_line(engine->settings.naming, name);
}

static struct hint_key
key_of(const char *queue, int slot)
{
	struct hint_key key;

	snprintf(key.text, sizeof(key.text), "%d %s", slot, queue);
	return key;
}

void
hint_look(struct lock_engine *engine, struct semaphore *semaphore)
{
	semaphore->look.overtaken = true;
	timers_cancel(engine->timers, &semaphore->reprobe);
	engine_poke(engine, semaphore);
}

/* ---- slots that are left alone ---- */

static void
spared_end(struct lock_engine *engine, struct spared *spared)
{
	spared->semaphore->spared--;
	timers_cancel(engine->timers, &spared->end);
	HASH_DELETE(by_b, engine->spared, spared);
	HASH_DELETE(by_hint, engine->spared_by_hint, spared);
	free(spared);
}

/* Nobody was told of it who wants it: it is anybody's. */
static void
spared_to_nobody(struct lock_engine *engine, struct spared *spared)
{
	int slot = spared->slot;
	struct semaphore *semaphore = spared->semaphore;

	spared_end(engine, spared);
	semaphore_saw_slot(semaphore, slot, false);
	semaphore->look.overtaken = true;
	/* It was claimed because of a hint: what is known is older. */
	if (slot > semaphore->size)
		hint_look(engine, semaphore);
	acquire_rests_end(engine, semaphore);
	engine_poke(engine, semaphore);
}

/*
 * Whoever was told of it had the time: who came meanwhile looks what became of it. Not who waits in the
 * line: a look every time a slot went elsewhere would now and then find the next one first, of which
 * somebody else is told.
 */
static void
spared_enough(void *ctx, uint64_t id)
{
	struct spared *spared = ctx;
	struct semaphore *semaphore = spared->semaphore;

	(void)id;
	if (spared->whom == SPARED_FOR_POLLERS) {
		spared_to_nobody(semaphore->engine, spared);
		return;
	}
	spared_end(semaphore->engine, spared);
	/* Who looked meanwhile, as he joined the line, left it to whoever was told; it may have been nobody. */
	if (semaphore->look.spared)
		hint_look(semaphore->engine, semaphore);
	else
		engine_poke(semaphore->engine, semaphore);
}

static struct spared *
spared_find(const struct lock_engine *engine, const char *queue, int slot)
{
	struct hint_key key = key_of(queue, slot);
	struct spared *spared;

	HASH_FIND(by_hint, engine->spared_by_hint, key.text, strlen(key.text), spared);
	return spared;
}

static void
spare(struct lock_engine *engine, const char *name, enum lock_kind kind, int slot,
    enum spared_for whom)
{
	bool mutex = kind == LOCK_KIND_MUTEX;
	struct queue_name queue = line_of(engine, name, mutex);
	struct spared *spared = spared_find(engine, queue.text, slot);

	if (spared == NULL) {
		spared = mem_alloc(sizeof(*spared));
		spared->b = claim_queue(engine, name, kind, slot);
		spared->key = key_of(queue.text, slot);
		spared->semaphore = engine_semaphore(engine, name, mutex);
		spared->semaphore->spared++;
		spared->slot = slot;
		timer_init(&spared->end, spared_enough, spared, 0);
		HASH_ADD_KEYPTR(
		    by_b, engine->spared, spared->b.text, strlen(spared->b.text), spared);
		HASH_ADD_KEYPTR(by_hint, engine->spared_by_hint, spared->key.text,
		    strlen(spared->key.text), spared);
	}
	spared->whom = whom;
	timers_set(engine->timers, &spared->end, engine_now(engine) + engine->settings.hint_grace);
}

bool
hint_is_spared(const struct lock_engine *engine, const char *b)
{
	struct spared *spared;

	HASH_FIND(by_b, engine->spared, b, strlen(b), spared);
	return spared != NULL && !FAULT(NEWCOMER_FIRST);
}

/* ---- sent ---- */

bool
hint_can_be_heard(const struct lock_engine *engine)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	return info.side == BROKER_UP && !info.side_blocked;
}

static struct hint_question *
question_new(struct lock_engine *engine, const char *name, int first, int last)
{
	struct hint_question *question = mem_alloc(sizeof(*question));

	question->id = engine_id(engine);
	question->name = mem_strdup(name);
	question->first = first;
	question->last = last;
	HASH_ADD(by_id, engine->hint_questions, id, sizeof(question->id), question);
	return question;
}

static void
question_free(struct lock_engine *engine, struct hint_question *question)
{
	HASH_DELETE(by_id, engine->hint_questions, question);
	free(question->name);
	free(question);
}

static struct hint_question *
question_find(const struct lock_engine *engine, uint64_t id)
{
	struct hint_question *question;

	HASH_FIND(by_id, engine->hint_questions, &id, sizeof(id), question);
	return question;
}

static void
wake(struct lock_engine *engine, const struct hint_question *question, int slot)
{
	struct queue_name queue = line_of(engine, question->name, false);

	broker_line_wake(engine->broker, queue.text, slot);
}

static void
tell_line(struct lock_engine *engine, const char *name, enum lock_kind kind, int slot)
{
	bool mutex = kind == LOCK_KIND_MUTEX;
	struct queue_name queue = line_of(engine, name, mutex);
	struct semaphore *semaphore = engine_semaphore_find(engine, name, mutex);

	/* Else every second hint would come back to a place here for which nobody waits. */
	if (semaphore != NULL)
		waitline_shrink(engine, semaphore);
	broker_line_wake(engine->broker, queue.text, slot);
	if (engine->settings.hint_grace > 0 && hint_can_be_heard(engine))
		spare(engine, name, kind, slot, SPARED_FOR_LINE);
}

static void
on_a_probed(void *ctx, uint64_t id, const enum broker_answer *answers, size_t count)
{
	struct lock_engine *engine = ctx;
	struct hint_question *question = question_find(engine, id);

	(void)count;
	if (question == NULL)
		return;
	/* Somebody here may have been faster. */
	if (answers[0] != BROKER_ABSENT &&
	    !claim_is_reserved(engine, question->name, LOCK_KIND_SEMAPHORE, question->first))
		tell_line(engine, question->name, LOCK_KIND_SEMAPHORE, question->first);
	question_free(engine, question);
}

/* A slot that was taken out of service helps nobody, unless it has come back. */
static void
wake_if_there(struct lock_engine *engine, const struct hold *hold)
{
	struct hint_question *question = question_new(engine, hold->name, hold->slot, hold->slot);
	struct queue_name a = queue_name_a(engine->settings.naming, hold->name, hold->slot);
	const char *queue = a.text;

	broker_probe(engine->broker, &queue, 1,
	    (struct broker_probe_done){on_a_probed, engine, question->id});
}

void
hint_freed(struct lock_engine *engine, const struct hold *hold)
{
	bool mutex = hold->kind == LOCK_KIND_MUTEX;
	int slot = mutex ? 1 : hold->slot;

	if (FAULT(NOBODY_TOLD))
		return;
	switch (hold->drop) {
	case HOLD_DROP_RELEASED:
		tell_line(engine, hold->name, hold->kind, slot);
		break;
	case HOLD_DROP_NO_SLOT:
		wake_if_there(engine, hold);
		break;
	case HOLD_DROP_FOR_POLLERS:
		if (!FAULT(POLLERS_BEATEN))
			spare(engine, hold->name, hold->kind, slot, SPARED_FOR_POLLERS);
		if (FAULT(POLLERS_OVERHEARD))
			broker_line_wake(
			    engine->broker, line_of(engine, hold->name, mutex).text, slot);
		break;
	}
}

void
hint_unheard(struct lock_engine *engine, const char *queue, int slot)
{
	struct spared *spared = spared_find(engine, queue, slot);

	if (spared != NULL)
		spared_to_nobody(engine, spared);
}

/* ---- administrators ---- */

static void
on_counted(void *ctx, uint64_t id, int members)
{
	struct lock_engine *engine = ctx;
	struct hint_question *question = question_find(engine, id);
	int hints;

	if (question == NULL)
		return;
	if (question->first > 0)
		hints = members == 0 ? 0 : question->last - question->first + 1;
	else
		hints = members < 0 ? 1 : members;
	for (int i = 0; i < hints && i < HINTS_MOST; i++)
		wake(engine, question, question->first > 0 ? question->first + i : 0);
	question_free(engine, question);
}

void
hint_changed(struct lock_engine *engine, const char *name, int from, int to)
{
	struct queue_name queue = line_of(engine, name, false);
	struct hint_question *question;

	if (from == LOCK_UNLIMITED)
		return; /* nobody waits */
	if (FAULT(ADDED_UNTOLD))
		return;
	if (to == LOCK_UNLIMITED || to < 0)
		question = question_new(engine, name, 0, 0);
	else if (to > from)
		question = question_new(engine, name, from > 0 ? from + 1 : 1, to);
	else
		return;
	broker_line_count(engine->broker, queue.text,
	    (struct broker_count_done){on_counted, engine, question->id});
}

/* ---- received ---- */

static void
pass_on(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	struct queue_name queue = semaphore->line_queue;
	int64_t now = engine_now(engine);

	/* Places for which nobody waits here would get it again. Where none is left it cannot come back. */
	waitline_shrink(engine, semaphore);
	if (((waitline_has_place(semaphore) || FAULT(HINT_LAPSES)) &&
		now < semaphore->pass_on_from) ||
	    FAULT(HINT_NOT_PASSED_ON))
		return;
	semaphore->pass_on_from = now + PASS_ON_AGAIN;
	broker_line_wake(engine->broker, queue.text, slot);
}

/* Who wants the slot and can have a channel for it; or NULL. */
static struct waiter *
who_claims(const struct lock_engine *engine, const struct semaphore *semaphore, int slot)
{
	if (engine->link != BROKER_UP || !channels_are_left(engine))
		return NULL;
	return acquire_who_wants(semaphore, slot, NULL);
}

/* Nobody here can use it: it is somebody else's, and so is what comes until somebody can. */
static void
turn_down(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	if (line_count(&semaphore->line, LINE_WANTS) > 0 && engine->link == BROKER_UP) {
		if (FAULT(STARVED_KEEPS_HINT))
			return;
		channels_starve(engine, semaphore, LINE_WANTS);
	}
	pass_on(engine, semaphore, slot);
}

void
hint_came(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	struct spared *spared = spared_find(engine, semaphore->line_queue.text, slot);
	enum lock_kind kind = semaphore->mutex ? LOCK_KIND_MUTEX : LOCK_KIND_SEMAPHORE;
	struct queue_name b;
	struct waiter *waiter;
	struct hold *hold;

	if (spared != NULL)
		spared_to_nobody(engine, spared);
	if (slot < 1 || slot > engine->settings.slots_most || look_is_guarded(engine, semaphore)) {
		if (line_count(&semaphore->line, LINE_WANTS) == 0 ||
		    (slot != 0 && who_claims(engine, semaphore, 1) == NULL)) {
			turn_down(engine, semaphore, slot);
			return;
		}
		/* It may be something else by now than what is known. */
		semaphore_forget(semaphore);
		hint_look(engine, semaphore);
		return;
	}
	b = claim_queue(engine, semaphore->name, kind, slot);
	hold = hold_find_queue(&engine->holds, b.text);
	if (hold != NULL) {
		/* It is ours, and who had it before told of it; unless it is claimed in vain just now. */
		hold->hinted = true;
		/* The answer of that claim came too late for its waiter, and may never come. */
		if (hold->state == HOLD_CLAIMING && hold->acquire == 0)
			pass_on(engine, semaphore, slot);
		return;
	}
	/* Who has no room for it is refused, and the next one asked. */
	while (!claim_is_reserved(engine, semaphore->name, kind, slot)) {
		waiter = who_claims(engine, semaphore, slot);
		if (waiter == NULL) {
			turn_down(engine, semaphore, slot);
			return;
		}
		acquire_rest_ends(engine, waiter);
		acquire_claim(engine, waiter, slot);
	}
}

void
hint_came_before(struct lock_engine *engine, const char *name, enum lock_kind kind, int slot)
{
	bool mutex = kind == LOCK_KIND_MUTEX;
	struct semaphore *semaphore = engine_semaphore(engine, name, mutex);

	/* It may be there for this alone. */
	engine_poke(engine, semaphore);
	hint_came(engine, semaphore, mutex ? 1 : slot);
}

void
hint_free_all(struct lock_engine *engine)
{
	while (engine->spared != NULL)
		spared_end(engine, engine->spared);
	while (engine->hint_questions != NULL)
		question_free(engine, engine->hint_questions);
}
