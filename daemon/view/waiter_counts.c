#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/view/internal.h"
#include "protocol/json.h"

/* One lock of the result, and the sums of what all hosts have said of it. */
struct tally {
	char *name; /* owned */
	uint64_t waiting, busy, extra;
	/* A semaphore: the broker has counted the holders of its slots up to here. */
	int asked;
	bool is_known;     /* it is a mutex, or the broker was asked */
	UT_hash_handle hh; /* by name */
};

/*
 * Mutexes in one list, and semaphores that are in no directory and have holders. Other daemons can
 * invent names. With RESULT_ROWS_MAX they fit a line.
 */
#define MUTEXES_MAX 1000
#define UNLISTED_MAX 1000
/* Bytes that one lock of a list takes in memory, about. */
#define ROW_KEPT 600

/* The result of a `list`: its semaphores get their waiters, and the mutexes are added. */
struct waiter_counts {
	struct view_request request;
	struct view *view;        /* borrowed: its owner */
	struct cJSON *list;       /* owned, as the next two */
	struct tally *semaphores; /* those of the directory */
	struct tally *unlisted;   /* others that have holders; at most UNLISTED_MAX */
	struct tally *mutexes;    /* at most MUTEXES_MAX */
	uint64_t more;            /* locks that are left out; a mutex once for each mention */
};

/* ---- tallies ---- */

static struct tally *
tally_find(struct tally *tallies, const char *name)
{
	struct tally *tally;

	HASH_FIND(hh, tallies, name, strlen(name), tally);
	return tally;
}

static struct tally *
tally_add(struct tally **tallies, const char *name)
{
	struct tally *tally = mem_alloc(sizeof(*tally));

	tally->name = mem_strdup(name);
	HASH_ADD_KEYPTR(hh, *tallies, tally->name, strlen(tally->name), tally);
	return tally;
}

static void
tallies_free(struct tally **tallies)
{
	struct tally *tally, *next;

	HASH_ITER (hh, *tallies, tally, next) {
		HASH_DELETE(hh, *tallies, tally);
		free(tally->name);
		free(tally);
	}
}

static int
by_name(const struct tally *a, const struct tally *b)
{
	return strcmp(a->name, b->name);
}

/* NULL: there is no room for it, or the client may not see it. */
static struct tally *
name_add(struct waiter_counts *waiter_counts, struct tally **tallies, size_t most, const char *name)
{
	const struct view_request *request = &waiter_counts->request;
	const struct view_events *events = &waiter_counts->view->events;

	if (HASH_CNT(hh, *tallies) >= most ||
	    view_peer(waiter_counts->view, request->peer).room == 0) {
		waiter_counts->more++;
		return NULL;
	}
	if (!events->sees(events->ctx, request->peer, request->number, name))
		return NULL;
	events->keep(events->ctx, request->peer, request->number, ROW_KEPT);
	return tally_add(tallies, name);
}

/* NULL: it is left out. A semaphore that is in no directory is of interest only if it is held. */
static struct tally *
tally_of(struct waiter_counts *waiter_counts, const struct lock_use *use)
{
	struct tally **others = use->mutex ? &waiter_counts->mutexes : &waiter_counts->unlisted;
	struct tally *tally = use->mutex ? NULL : tally_find(waiter_counts->semaphores, use->name);

	if (tally == NULL)
		tally = tally_find(*others, use->name);
	if (tally == NULL && (use->mutex || use->extra > 0))
		tally = name_add(
		    waiter_counts, others, use->mutex ? MUTEXES_MAX : UNLISTED_MAX, use->name);
	return tally;
}

static void
count(void *ctx, const struct lock_use *use)
{
	struct tally *tally = tally_of(ctx, use);

	if (tally == NULL)
		return;
	tally->waiting += use->waiting;
	tally->busy += use->busy;
	/* Holders of the slots up to `asked` are in the broker's count already. */
	if (use->slot == 0 || use->slot > tally->asked)
		tally->extra += use->extra;
}

/* ---- the request ---- */

static void
waiter_counts_free(struct view *view, struct view_request *request)
{
	struct waiter_counts *waiter_counts = (struct waiter_counts *)request;

	view_request_end(view, request);
	tallies_free(&waiter_counts->semaphores);
	tallies_free(&waiter_counts->unlisted);
	tallies_free(&waiter_counts->mutexes);
	json_free(waiter_counts->list);
	free(waiter_counts);
}

static struct cJSON *
mutex_rows(struct waiter_counts *waiter_counts)
{
	struct cJSON *rows = json_new_array(), *row;

	HASH_SRT(hh, waiter_counts->mutexes, by_name);
	for (const struct tally *tally = waiter_counts->mutexes; tally != NULL;
	     tally = tally->hh.next) {
		row = json_new_object();
		json_add_string(row, "name", tally->name);
		json_add_string(row, "kind", lock_kind_word(LOCK_KIND_MUTEX));
		json_add_integer(row, "busy", (int64_t)tally->busy);
		json_add_integer(row, "waiting", (int64_t)tally->waiting);
		json_add_integer(row, "extra", (int64_t)tally->extra);
		json_append(rows, row);
	}
	return rows;
}

/* They were destroyed, or another program has created them: their size is not known. */
static void
add_unlisted(struct waiter_counts *waiter_counts, struct cJSON *semaphores)
{
	struct cJSON *row;

	HASH_SRT(hh, waiter_counts->unlisted, by_name);
	for (const struct tally *tally = waiter_counts->unlisted; tally != NULL;
	     tally = tally->hh.next) {
		row = json_new_object();
		json_add_string(row, "name", tally->name);
		json_add_null(row, "slots");
		json_add_null(row, "busy");
		json_add_bool(row, "exists", false);
		json_add_null(row, "claim");
		json_add_integer(row, "waiting", (int64_t)tally->waiting);
		json_add_integer(row, "extra", (int64_t)tally->extra);
		json_append(semaphores, row);
	}
}

static void
finish(struct view *view, struct waiter_counts *waiter_counts)
{
	struct cJSON *list = waiter_counts->list;
	/* A part of our own list. */
	struct cJSON *semaphores = (struct cJSON *)json_get(list, "semaphores"), *row;
	const struct tally *tally;
	const char *name = "";

	for (row = (struct cJSON *)json_first(semaphores); row != NULL;
	     row = (struct cJSON *)json_next(row)) {
		json_string(json_get(row, "name"), &name);
		tally = tally_find(waiter_counts->semaphores, name);
		json_add_integer(row, "waiting", tally == NULL ? 0 : (int64_t)tally->waiting);
		if (tally != NULL && (tally->is_known || tally->extra > 0))
			json_add_integer(row, "extra", (int64_t)tally->extra);
		else
			json_add_null(row, "extra");
	}
	add_unlisted(waiter_counts, semaphores);
	json_add(list, "mutexes", mutex_rows(waiter_counts));
	json_add_integer(list, "more", (int64_t)waiter_counts->more);
	json_add(
	    list, "silent_hosts", queries_missing(view->queries, waiter_counts->request.query));
	waiter_counts->list = NULL;
	view_done(view, waiter_counts->request.peer, waiter_counts->request.number, list);
	waiter_counts_free(view, &waiter_counts->request);
}

/* Counts [["db", mutex, slot, extra], ...]. */
static void
count_extra(struct waiter_counts *waiter_counts, const struct cJSON *extra)
{
	const struct cJSON *number;
	int64_t numbers[3];

	for (const struct cJSON *one = json_first(extra); one != NULL; one = json_next(one)) {
		struct lock_use use = {.waiting = 0};

		number = json_next(json_first(one));
		if (!json_string(json_first(one), &use.name))
			continue;
		for (size_t i = 0; i < 3; i++, number = json_next(number)) {
			if (!json_integer(number, &numbers[i]))
				return; /* daemon_message.h has checked it */
		}
		use.mutex = numbers[0] != 0;
		use.slot = (int)numbers[1];
		use.extra = (size_t)numbers[2];
		count(waiter_counts, &use);
	}
}

/* Counts [["db", waiting], ...] or, of mutexes, [["db", waiting, busy], ...]. */
static void
count_all(struct waiter_counts *waiter_counts, const struct cJSON *uses, bool mutex)
{
	struct lock_use use = {.mutex = mutex};
	const struct cJSON *waits;
	int64_t waiting, busy = 0;

	for (const struct cJSON *one = json_first(uses); one != NULL; one = json_next(one)) {
		waits = json_next(json_first(one));
		if (!json_string(json_first(one), &use.name) || !json_integer(waits, &waiting) ||
		    (mutex && !json_integer(json_next(waits), &busy)))
			continue;
		use.waiting = (size_t)waiting;
		use.busy = (size_t)busy;
		count(waiter_counts, &use);
	}
}

static void
heard(void *ctx, uint64_t id, const struct daemon_message *answer)
{
	struct view *view = ctx;
	struct waiter_counts *waiter_counts = view_request_find(view, id);

	count_all(waiter_counts, answer->counts, false);
	count_all(waiter_counts, answer->mutexes, true);
	count_extra(waiter_counts, answer->extra);
	waiter_counts->more += answer->more;
	if (queries_is_whole(view->queries, waiter_counts->request.query))
		finish(view, waiter_counts);
}

static void
over(void *ctx, uint64_t id)
{
	finish(ctx, view_request_find(ctx, id));
}

/* The semaphores of the directory, listed or not. */
static void
take_rows(struct waiter_counts *waiter_counts, const struct lock_answer *answer)
{
	const struct view_request *request = &waiter_counts->request;
	const struct view_events *events = &waiter_counts->view->events;
	struct tally *tally;

	for (size_t i = 0; i < answer->row_count; i++) {
		const struct lock_listed *row = &answer->rows[i];

		if (tally_find(waiter_counts->semaphores, row->name) != NULL)
			continue;
		tally = tally_add(&waiter_counts->semaphores, row->name);
		tally->is_known = row->extra >= 0;
		tally->extra = row->extra > 0 ? (uint64_t)row->extra : 0;
		tally->asked = row->asked;
	}
	events->keep(events->ctx, request->peer, request->number, answer->row_count * ROW_KEPT);
}

void
view_count(struct view *view, uint64_t peer, uint64_t request, const struct lock_answer *answer,
    struct cJSON *list, uint64_t more)
{
	struct waiter_counts *waiter_counts = mem_alloc(sizeof(*waiter_counts));

	waiter_counts->request.free = waiter_counts->request.left = waiter_counts_free;
	view_request_begin(view, &waiter_counts->request, peer, request);
	waiter_counts->view = view;
	waiter_counts->list = list;
	waiter_counts->more = more;
	take_rows(waiter_counts, answer);
	view->events.scanned(view->events.ctx, peer, request);
	lock_each_use(view->engine, count, waiter_counts);
	waiter_counts->request.query = queries_ask(view->queries, waiter_counts->request.user,
	    DAEMON_MESSAGE_WAITING, queries_message(view->queries, DAEMON_MESSAGE_WAITING, false),
	    (struct queries_done){.everybody = true,
		.heard = heard,
		.over = over,
		.ctx = view,
		.id = waiter_counts->request.id});
	if (queries_is_whole(view->queries, waiter_counts->request.query))
		finish(view, waiter_counts);
}
