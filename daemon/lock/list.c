#include "daemon/lock/list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/registry.h"
#include "daemon/lock/scan.h"

/*
 * Contents:
 *	1. The directory: directory_finish_read() sorts the names, and directory_finish() tells the caller.
 *	   directory_begin() reads, enters or leaves, and directory_start() takes the mutex for that.
 *	   directory_read(), directory_enter(), directory_leave() and directory_forget() are its calls.
 *	2. list: list_scan_rows() scans some names at once, and lock_list() reads the directory before.
 *	   explain: lock_explain() probes a mutex first, or scans, and explain_tell() tells the state.
 *	   lock_busy(): the busy slots of one semaphore.
 *	   lock_verdict_word() has the words of the states.
 */

/* 1. The directory of names. */

/* Maximum attempts, if the channel is closed before the answer. */
#define DIRECTORY_TRIES_MOST 3

enum directory_state {
	DIRECTORY_LOCKING,  /* waits for the mutex */
	DIRECTORY_READING,  /* reads all names */
	DIRECTORY_ENTERING, /* the name was not listed */
	DIRECTORY_LEAVING,
	DIRECTORY_UNLOCKING /* `done` was called; the mutex is being dropped */
};

enum directory_work { DIRECTORY_READ, DIRECTORY_ENTER, DIRECTORY_LEAVE };

struct directory {
	uint64_t id;
	enum directory_work work;
	enum directory_state state;
	char *name;              /* owned; NULL: read */
	directory_done_fn *done; /* NULL: it was called */
	uint64_t whose;
	unsigned tries;
	struct timer deadline;
	UT_hash_handle by_id;
};

ENGINE_FIND(directory_find, struct directory, directories, by_id)

/* From each state, those that may be next. */
static const unsigned directory_changes[] = {
    [DIRECTORY_LOCKING] = 1U << DIRECTORY_READING | 1U << DIRECTORY_LEAVING,
    [DIRECTORY_READING] =
	1U << DIRECTORY_READING | 1U << DIRECTORY_ENTERING | 1U << DIRECTORY_UNLOCKING,
    [DIRECTORY_ENTERING] =
	1U << DIRECTORY_UNLOCKING | 1U << DIRECTORY_READING, /* READING: again from the beginning */
    [DIRECTORY_LEAVING] = 1U << DIRECTORY_UNLOCKING | 1U << DIRECTORY_LEAVING,
    [DIRECTORY_UNLOCKING] = 0,
};

static void
directory_set_state(struct directory *directory, enum directory_state state)
{
	assert((directory_changes[directory->state] & 1U << state) != 0);
	directory->state = state;
}

static void
directory_free(struct lock_engine *engine, struct directory *directory)
{
	timers_cancel(engine->timers, &directory->deadline);
	HASH_DELETE(by_id, engine->directories, directory);
	free(directory->name);
	free(directory);
}

/* Calls `done`, once: at the deadline or at the end. */
static void
directory_tell(struct lock_engine *engine, struct directory *directory, enum reason reason,
    const char *text, const char *const *names, size_t count)
{
	directory_done_fn *done = directory->done;

	timers_cancel(engine->timers, &directory->deadline);
	directory->done = NULL;
	if (done != NULL)
		done(engine, directory->whose, reason, text, names, count);
}

static void
directory_refuse(
    struct lock_engine *engine, struct directory *directory, enum reason reason, const char *text)
{
	char *words = mem_printf("the directory: %s", text);

	directory_tell(engine, directory, reason, words, NULL, 0);
	free(words);
}

/*
 * A late change could still be performed after the mutexes are dropped, unless they end with the
 * connection. A read without an answer would keep the mutexes as long as the connection lives.
 */
static void
directory_too_late(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct directory *directory = directory_find(engine, id);
	struct lock_answer unknown =
	    engine_refusal_unknown(engine, "the broker did not answer in time");

	if (directory->state != DIRECTORY_LOCKING) {
		if (directory->state != DIRECTORY_UNLOCKING &&
		    broker_auxiliary_is_up(engine->broker))
			broker_reset(engine->broker, BROKER_AUXILIARY,
			    "the broker did not answer about the directory");
		/* Before the connection ends, because the alarm is then no longer known. */
		directory_refuse(engine, directory, unknown.reason, unknown.text);
		return; /* requests in flight are answered first */
	}
	mutex_leave(engine, id);
	directory_refuse(engine, directory, REASON_TIMEOUT, "another administrator changes it");
	directory_free(engine, directory);
}

/* ---- the work ---- */

/* The mutex is dropped first: the next request of the caller goes behind that. */
static void
directory_finish(
    struct lock_engine *engine, struct directory *directory, const char *const *names, size_t count)
{
	directory_set_state(directory, DIRECTORY_UNLOCKING);
	mutex_drop(engine, directory->id);
	directory_tell(engine, directory, REASON_NONE, NULL, names, count);
}

static int
directory_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void
directory_finish_read(
    struct lock_engine *engine, struct directory *directory, const char *const *names, size_t count)
{
	const char **sorted = mem_grow(NULL, count + 1, sizeof(*sorted));
	size_t allowed = 0, unique = 0;

	/* Other programs can publish there, too. */
	for (size_t i = 0; i < count; i++) {
		if (lockname_error(names[i], strlen(names[i])) == NULL &&
		    queue_name_refusal(engine->settings.naming, names[i]) == NULL)
			sorted[allowed++] = names[i];
	}
	qsort(sorted, allowed, sizeof(*sorted), directory_compare);
	for (size_t i = 0; i < allowed; i++) {
		if (unique == 0 || strcmp(sorted[unique - 1], sorted[i]) != 0)
			sorted[unique++] = sorted[i];
	}
	directory_finish(engine, directory, sorted, unique);
	free(sorted);
}

static void directory_begin(struct lock_engine *engine, struct directory *directory);

static void
directory_on_answer(void *ctx, uint64_t id, const struct broker_reply *reply,
    const char *const *names, size_t count)
{
	struct lock_engine *engine = ctx;
	struct directory *directory = directory_find(engine, id);
	struct queue_name queue = queue_name_directory(engine->settings.naming);
	struct lock_answer unknown = engine_refusal_unknown(engine, reply->text);
	bool found = false;

	if (directory == NULL)
		return; /* the mutex is gone with the connection */
	if (reply->answer != BROKER_OK) {
		/*
		 * The broker may have closed the channel for another request. The work begins again,
		 * because it is unknown how far it came.
		 */
		if (directory->done != NULL && directory->tries < DIRECTORY_TRIES_MOST &&
		    broker_takes_messages(engine->broker)) {
			directory_begin(engine, directory);
			return;
		}
		if (reply->answer == BROKER_REFUSED)
			unknown = engine_refusal(REASON_BROKER_REFUSED, reply->text);
		directory_set_state(directory, DIRECTORY_UNLOCKING);
		mutex_drop(engine, id);
		directory_refuse(engine, directory, unknown.reason, unknown.text);
		return;
	}
	for (size_t i = 0; directory->work == DIRECTORY_ENTER && i < count && !found; i++)
		found = strcmp(names[i], directory->name) == 0;
	if (directory->work == DIRECTORY_READ) {
		directory_finish_read(engine, directory, names, count);
	} else if (directory->done == NULL) {
		directory_finish(engine, directory, NULL,
		    0); /* no caller waits for it: no further step is begun */
	} else if (directory->state == DIRECTORY_READING && !found) {
		directory_set_state(directory, DIRECTORY_ENTERING);
		broker_directory_enter(engine->broker, queue.text, directory->name,
		    (struct broker_names_done){directory_on_answer, engine, id});
	} else if (directory->work == DIRECTORY_ENTER) {
		directory_finish(engine, directory, (const char *const[]){directory->name}, 1);
	} else {
		directory_finish(engine, directory, names, count);
	}
}

static void
directory_begin(struct lock_engine *engine, struct directory *directory)
{
	struct queue_name queue = queue_name_directory(engine->settings.naming);
	struct broker_names_done done = {directory_on_answer, engine, directory->id};

	directory->tries++;
	switch (directory->work) {
	case DIRECTORY_READ:
	case DIRECTORY_ENTER:
		directory_set_state(directory, DIRECTORY_READING);
		broker_directory_read(engine->broker, queue.text, done);
		break;
	case DIRECTORY_LEAVE:
		directory_set_state(directory, DIRECTORY_LEAVING);
		broker_directory_leave(engine->broker, queue.text, directory->name, done);
		break;
	}
}

static void
directory_on_mutex(struct lock_engine *engine, uint64_t id, enum mutex_news news,
    enum reason reason, const char *text)
{
	struct directory *directory = directory_find(engine, id);

	switch (news) {
	case MUTEX_HELD:
		directory_begin(engine, directory);
		return;
	case MUTEX_FREE:
		break;
	case MUTEX_LOST:
	case MUTEX_REFUSED:
		directory_refuse(engine, directory, reason, text);
		break;
	}
	directory_free(engine, directory);
}

/* ---- the doors ---- */

static void
directory_start(struct lock_engine *engine, enum directory_work work, const char *name,
    directory_done_fn *done, uint64_t whose)
{
	struct directory *directory = mem_alloc(sizeof(*directory));
	struct queue_name mutex = queue_name_directory_mutex(engine->settings.naming);

	directory->id = engine_id(engine);
	directory->work = work;
	directory->state = DIRECTORY_LOCKING;
	directory->name = mem_strdup(name);
	directory->done = done;
	directory->whose = whose;
	timer_init(&directory->deadline, directory_too_late, engine, directory->id);
	timers_set(engine->timers, &directory->deadline,
	    engine_now(engine) + engine->settings.request_timeout);
	HASH_ADD(by_id, engine->directories, id, sizeof(directory->id), directory);
	mutex_take(engine, mutex.text,
	    &(struct mutex_order){directory->id, "the directory", directory_on_mutex});
}

void
directory_read(struct lock_engine *engine, directory_done_fn *done, uint64_t id)
{
	directory_start(engine, DIRECTORY_READ, NULL, done, id);
}

void
directory_enter(struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id)
{
	directory_start(engine, DIRECTORY_ENTER, name, done, id);
}

void
directory_leave(struct lock_engine *engine, const char *name, directory_done_fn *done, uint64_t id)
{
	directory_start(engine, DIRECTORY_LEAVE, name, done, id);
}

void
directory_forget(struct lock_engine *engine, uint64_t id)
{
	struct directory *directory, *next;

	HASH_ITER (by_id, engine->directories, directory, next) {
		if (directory->whose != id || directory->done == NULL)
			continue;
		directory->done = NULL;
		if (directory->state != DIRECTORY_LOCKING)
			continue; /* requests in flight are answered first */
		mutex_leave(engine, directory->id);
		directory_free(engine, directory);
	}
}

/* 2. list, explain and lock_busy(). */

/* Full scans in flight at once. */
#define FULL_SCANS_MOST 16

struct listing {
	uint64_t op;    /* the request; the key. The listing goes when its deadline answers it */
	uint64_t first; /* the number of the first row's full scan; those of the others follow */
	struct lock_listed *rows; /* owned, as are the names */
	size_t count, begun, done;
	/* explain, busy: the name; else NULL */
	char *name; /* owned */
	enum lock_kind kind;
	bool mutex_is_there; /* busy: a queue that is the mutex of that name */
	UT_hash_handle by_op;
};

ENGINE_FIND(listing_find, struct listing, listings, by_op)

static void
listing_free(struct lock_engine *engine, struct listing *listing)
{
	HASH_DELETE(by_op, engine->listings, listing);
	for (size_t i = 0; i < listing->count; i++)
		free((char *)listing->rows[i].name);
	free(listing->rows);
	free(listing->name);
	free(listing);
}

static void
list_finish(struct lock_engine *engine, struct listing *listing, struct lock_answer *answer)
{
	answer->name = listing->name;
	answer->kind = listing->kind;
	engine_op_end(engine, listing->op, answer);
	listing_free(engine, listing);
}

/* Its deadline has answered it. Later answers have no effect. */
static void
listing_expired(struct lock_engine *engine, uint64_t op)
{
	listing_free(engine, listing_find(engine, op));
}

/* NULL: the request was refused. */
static struct listing *
listing_new(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct lock_answer refusal;
	struct listing *listing;
	struct op *op;

	if (engine_refusal_for_link(engine, &refusal)) {
		engine_tell(engine, peer, request, &refusal);
		return NULL;
	}
	op = engine_op_new(engine, peer, request);
	op->expired = listing_expired;
	listing = mem_alloc(sizeof(*listing));
	listing->op = op->id;
	HASH_ADD(by_op, engine->listings, op, sizeof(listing->op), listing);
	return listing;
}

static bool
is_taken(const struct lock_engine *engine, const char *name, int slot, enum broker_answer b)
{
	/* A claim of a slot whose B cannot be reached fails. */
	return b == BROKER_OK || b == BROKER_UNREACHABLE ||
	       registry_is_reserved(engine, name, LOCK_KIND_SEMAPHORE, slot);
}

/* Of slots 1..slots. */
static int
count_busy(
    const struct lock_engine *engine, const char *name, const struct full_scan *found, int slots)
{
	int busy = 0;

	for (int slot = 1; slot <= slots; slot++)
		busy += is_taken(engine, name, slot, found->b[slot - 1]);
	return busy;
}

/* The holders of slots above the size. */
static int
count_extra(const struct full_scan *found)
{
	int extra = 0;

	for (int slot = found->slots + 1; slot <= found->asked; slot++)
		extra += full_scan_is_extra(found, slot);
	FAULT(EXTRA_UNCOUNTED, extra = 0);
	return extra;
}

/* ---- all ---- */

static void list_scan_rows(struct lock_engine *engine, struct listing *listing);

static void
list_on_row(struct lock_engine *engine, uint64_t id, const struct full_scan *found)
{
	struct listing *listing = engine->listings;
	struct lock_listed *row;

	while (listing != NULL && (id < listing->first || id - listing->first >= listing->count))
		listing = listing->by_op.next;
	if (listing == NULL)
		return; /* answered meanwhile */
	row = &listing->rows[id - listing->first];
	if (found->unknown < 0) {
		row->exists = full_scan_exists(found);
		row->slots = full_scan_size(found);
		row->busy = count_busy(engine, row->name, found, found->slots);
		row->extra = count_extra(found);
		row->asked = found->asked;
		row->claim = full_scan_claim(found);
		engine_op_progress(engine, engine_op_find(engine, listing->op));
	}
	listing->done++;
	list_scan_rows(engine, listing);
}

/* Scans the next ones, or answers when all are done. */
static void
list_scan_rows(struct lock_engine *engine, struct listing *listing)
{
	struct lock_answer answer;

	for (; listing->begun < listing->count && listing->begun - listing->done < FULL_SCANS_MOST;
	     listing->begun++)
		full_scan_start(engine, listing->rows[listing->begun].name, FULL_SCAN_GLANCE,
		    list_on_row, listing->first + listing->begun);
	if (listing->done < listing->count)
		return;
	answer = engine_refusal(REASON_NONE, NULL);
	answer.rows = listing->rows;
	answer.row_count = listing->count;
	list_finish(engine, listing, &answer);
}

static void
list_on_read(struct lock_engine *engine, uint64_t id, enum reason reason, const char *text,
    const char *const *names, size_t count)
{
	struct listing *listing = listing_find(engine, id);
	struct lock_answer refusal = engine_refusal(reason, text);

	if (listing == NULL)
		return;
	if (reason != REASON_NONE) {
		list_finish(engine, listing, &refusal);
		return;
	}
	listing->rows = mem_alloc((count + 1) * sizeof(*listing->rows));
	for (size_t i = 0; i < count; i++) {
		uint64_t number = engine_id(engine);

		listing->first = i == 0 ? number : listing->first;
		listing->rows[i] = (struct lock_listed){.name = mem_strdup(names[i]),
		    .slots = -1,
		    .exists = true,
		    .busy = -1,
		    .extra = -1};
	}
	listing->count = count;
	engine_op_progress(engine, engine_op_find(engine, id));
	list_scan_rows(engine, listing);
}

void
lock_list(struct lock_engine *engine, uint64_t peer, uint64_t request)
{
	struct listing *listing = listing_new(engine, peer, request);

	assert(!engine->telling);
	if (listing == NULL)
		return;
	directory_read(engine, list_on_read, listing->op);
	engine_op_progress(
	    engine, engine_op_find(engine, listing->op)); /* after that one's deadline */
}

/* ---- one ---- */

/* Counts this daemon's holds of slots 1..slots, those without a slot, and its waiters. */
static void
count_here(
    const struct lock_engine *engine, const struct listing *listing, struct lock_explanation *why)
{
	bool mutex = listing->kind == LOCK_KIND_MUTEX;
	const struct semaphore *semaphore = engine_semaphore_find(engine, listing->name, mutex);

	for (const struct hold *hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->peer == 0 || (hold->kind == LOCK_KIND_MUTEX) != mutex ||
		    hold->slot > why->slots || strcmp(hold->name, listing->name) != 0)
			continue;
		if (hold->state != HOLD_SLOTLESS)
			why->here++;
		else if (why->extra >= 0)
			why->extra++;
	}
	if (semaphore != NULL)
		why->waiting = (int)local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_ALL);
}

static void
explain_tell(struct lock_engine *engine, struct listing *listing, struct lock_explanation *why)
{
	struct lock_answer answer = engine_refusal(REASON_NONE, NULL);

	count_here(engine, listing, why);
	if (why->verdict == LOCK_VERDICT_UNLIMITED)
		why->slots = LOCK_UNLIMITED;
	answer.slots = why->slots;
	answer.explanation = why;
	list_finish(engine, listing, &answer);
}

static const struct lock_explanation nothing_known = {
    .verdict = LOCK_VERDICT_UNKNOWN, .slots = -1, .busy = -1, .uncounted = -1, .extra = -1};

static void
explain_on_scanned(struct lock_engine *engine, uint64_t id, const struct full_scan *found)
{
	struct listing *listing = listing_find(engine, id);
	struct lock_explanation why = nothing_known;

	if (listing == NULL)
		return; /* answered meanwhile */
	if (found->unknown < 0) {
		/* A persistent mutex is slot 1 alone. */
		why.slots = listing->kind == LOCK_KIND_PERSISTENT_MUTEX && found->slots > 1
				? 1
				: found->slots;
		why.busy = count_busy(engine, listing->name, found, why.slots);
		for (int slot = 1; slot <= why.slots; slot++)
			why.unreachable += found->b[slot - 1] == BROKER_UNREACHABLE;
		why.claim = full_scan_claim(found);
		why.extra = count_extra(found);
		why.uncounted = 0;
		for (int slot = found->slots + 1; slot <= found->seen; slot++)
			why.uncounted += found->a[slot - 1] == BROKER_OK;
		if (found->unlimited)
			why.verdict = LOCK_VERDICT_UNLIMITED;
		else if (found->slots > 0)
			why.verdict = why.busy < why.slots ? LOCK_VERDICT_FREE : LOCK_VERDICT_FULL;
		else
			why.verdict = found->gate ? LOCK_VERDICT_GATE : LOCK_VERDICT_NO_SUCH_LOCK;
	}
	explain_tell(engine, listing, &why);
}

/* Asks for the queue of a mutex, and for that by quorum, if there can be one. */
static void
listing_probe_mutex(struct lock_engine *engine, const struct listing *listing,
    enum broker_question_kind kind,
    void (*done)(void *ctx, uint64_t id, const struct broker_seen *seen))
{
	const struct queue_naming *naming = engine->settings.naming;
	struct probe_batch batch = {.count = 0};

	probe_add(&batch, queue_name_mutex(naming, listing->name), kind);
	if (queue_naming_has_quorum(naming))
		probe_add(&batch, queue_name_quorum(listing->name, 0), BROKER_ASK_BEADS);
	probe_send(engine, &batch, done, listing->op);
}

/* The answers to that. If the other queue is held, the mutex is held in that way. */
static bool
mutex_is_by_quorum(const struct broker_seen *seen)
{
	return seen->count > 1 && seen->answers[1] != BROKER_ABSENT &&
	       seen->answers[1] != BROKER_UNKNOWN && seen->answers[0] != BROKER_OK;
}

static void
explain_on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct listing *listing = listing_find(engine, id);
	struct lock_explanation why = nothing_known;
	enum broker_answer answer = seen->answers[0];

	if (listing == NULL)
		return; /* answered meanwhile */
	why.slots = 1;
	/* A mutex that has no queue may be held in each way. */
	if (mutex_is_by_quorum(seen)) {
		why.claim = LOCK_CLAIM_BY_QUORUM;
		answer = seen->answers[1] == BROKER_OK       ? BROKER_ABSENT
			 : seen->answers[1] == BROKER_LOCKED ? BROKER_OK
							     : seen->answers[1];
	} else if (seen->answers[0] == BROKER_OK || way_is_durable(seen->ways[0]))
		why.claim = full_scan_claim_of(seen->ways[0]);
	why.unreachable = answer == BROKER_UNREACHABLE;
	if (registry_is_reserved(engine, listing->name, LOCK_KIND_MUTEX, 0) ||
	    answer == BROKER_OK) {
		why.verdict = LOCK_VERDICT_FULL;
		why.busy = 1;
	} else if (answer == BROKER_ABSENT) {
		why.verdict = LOCK_VERDICT_FREE;
		why.busy = 0;
	}
	why.uncounted = why.extra = 0;
	explain_tell(engine, listing, &why);
}

/* For a mutex whose queue may be the administration mutex of a semaphore. */
static void
explain_on_guard_scanned(struct lock_engine *engine, uint64_t id, const struct full_scan *found)
{
	struct listing *listing = listing_find(engine, id);
	struct lock_explanation why = nothing_known;

	if (listing == NULL)
		return; /* answered meanwhile */
	if (found->unknown < 0 && !full_scan_exists(found)) {
		listing_probe_mutex(engine, listing, BROKER_ASK_CONSUMER, explain_on_probed);
		return;
	}
	if (found->unknown < 0)
		why = (struct lock_explanation){.verdict = LOCK_VERDICT_ALREADY_EXISTS};
	explain_tell(engine, listing, &why);
}

void
lock_explain(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name,
    enum lock_kind kind)
{
	struct listing *listing = listing_new(engine, peer, request);

	assert(!engine->telling);
	if (listing == NULL)
		return;
	listing->name = mem_strdup(name);
	listing->kind = kind;
	if (kind != LOCK_KIND_MUTEX)
		full_scan_start(engine, name, FULL_SCAN_ALL_SLOTS, explain_on_scanned, listing->op);
	else if (queue_naming_mutex_is_admin(engine->settings.naming))
		full_scan_start(
		    engine, name, FULL_SCAN_SIZE, explain_on_guard_scanned, listing->op);
	else
		listing_probe_mutex(engine, listing, BROKER_ASK_CONSUMER, explain_on_probed);
}

static void
busy_refuse_unknown(struct lock_engine *engine, struct listing *listing)
{
	struct lock_answer answer =
	    engine_refusal_unknown(engine, "the broker did not say which slots are busy");

	list_finish(engine, listing, &answer);
}

static void
busy_on_scanned(struct lock_engine *engine, uint64_t id, const struct full_scan *found)
{
	struct listing *listing = listing_find(engine, id);
	struct lock_answer answer;
	int *busy;

	if (listing == NULL)
		return; /* answered meanwhile */
	if (found->unknown >= 0) {
		busy_refuse_unknown(engine, listing);
		return;
	}
	answer = engine_refusal(full_scan_exists(found) ? REASON_NONE : REASON_NO_SUCH_LOCK, NULL);
	answer.slots = full_scan_size(found);
	answer.claim = full_scan_claim(found);
	answer.counted = found->slots;
	busy = mem_alloc(((size_t)found->asked + 1) * sizeof(*busy));
	/*
	 * If that queue is also the administration mutex, it belongs to the semaphore, if there is
	 * one.
	 */
	if (listing->mutex_is_there &&
	    !(queue_naming_mutex_is_admin(engine->settings.naming) && full_scan_exists(found)))
		busy[answer.held_count++] = 0;
	for (int slot = 1; slot <= found->slots; slot++) {
		if (is_taken(engine, listing->name, slot, found->b[slot - 1]))
			busy[answer.held_count++] = slot;
	}
	for (int slot = found->slots + 1; slot <= found->asked; slot++) {
		if (full_scan_is_extra(found, slot))
			busy[answer.held_count++] = slot;
	}
	answer.held = busy;
	list_finish(engine, listing, &answer);
	free(busy);
}

static void
busy_on_probed(void *ctx, uint64_t id, const struct broker_seen *seen)
{
	struct lock_engine *engine = ctx;
	struct listing *listing = listing_find(engine, id);

	if (listing == NULL)
		return; /* answered meanwhile */
	if (seen->answers[0] == BROKER_UNKNOWN) {
		busy_refuse_unknown(engine, listing);
		return;
	}
	listing->mutex_is_there = seen->answers[0] != BROKER_ABSENT ||
				  (mutex_is_by_quorum(seen) && seen->answers[1] != BROKER_OK);
	full_scan_start(engine, listing->name, FULL_SCAN_BUSY, busy_on_scanned, id);
}

void
lock_busy(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name)
{
	struct listing *listing = listing_new(engine, peer, request);

	assert(!engine->telling);
	if (listing == NULL)
		return;
	listing->name = mem_strdup(name);
	listing_probe_mutex(engine, listing, BROKER_ASK_HOLDER, busy_on_probed);
}

const char *
lock_verdict_word(enum lock_verdict verdict)
{
	switch (verdict) {
	case LOCK_VERDICT_FREE:
		return "free";
	case LOCK_VERDICT_UNLIMITED:
		return "unlimited";
	case LOCK_VERDICT_FULL:
		return "full";
	case LOCK_VERDICT_GATE:
		return "gate";
	case LOCK_VERDICT_NO_SUCH_LOCK:
		return "no-such-lock";
	case LOCK_VERDICT_ALREADY_EXISTS:
		return "already-exists";
	case LOCK_VERDICT_UNKNOWN:
		return "unknown";
	}
	return "unknown";
}

/* ---- the engine's end ---- */

void
list_free_all(struct lock_engine *engine)
{
	struct listing *listing, *next;
	struct directory *directory, *next_directory;

	HASH_ITER (by_op, engine->listings, listing, next)
		listing_free(engine, listing);
	HASH_ITER (by_id, engine->directories, directory, next_directory)
		directory_free(engine, directory);
}
