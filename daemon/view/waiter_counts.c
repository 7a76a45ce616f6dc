#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/view/internal.h"
#include "protocol/json.h"

/* One lock of the result, and the sums of what all hosts have said of it. */
struct tally {
	char *name; /* owned */
	uint64_t waiting, busy;
	UT_hash_handle hh; /* by name */
};

/* Mutexes in one list. Other daemons can invent names. With RESULT_ROWS_MAX they fit a line. */
#define MUTEXES_MAX 1000
/* Bytes that one lock of a list takes in memory, about. */
#define ROW_KEPT 600

/* The result of a `list`: its semaphores get their waiters, and the mutexes are added. */
struct waiter_counts {
	struct view_request request;
	struct view *view;        /* borrowed: its owner */
	struct cJSON *list;       /* owned, as the next two */
	struct tally *semaphores; /* those of the list */
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
mutex_add(struct waiter_counts *waiter_counts, const char *name)
{
	const struct view_request *request = &waiter_counts->request;
	const struct view_events *events = &waiter_counts->view->events;

	if (HASH_CNT(hh, waiter_counts->mutexes) >= MUTEXES_MAX ||
	    view_peer(waiter_counts->view, request->peer).room == 0) {
		waiter_counts->more++;
		return NULL;
	}
	if (!events->sees(events->ctx, request->peer, request->number, name))
		return NULL;
	events->keep(events->ctx, request->peer, request->number, ROW_KEPT);
	return tally_add(&waiter_counts->mutexes, name);
}

static void
count(void *ctx, const struct lock_use *use)
{
	struct waiter_counts *waiter_counts = ctx;
	struct tally *tally =
	    tally_find(use->mutex ? waiter_counts->mutexes : waiter_counts->semaphores, use->name);

	if (tally == NULL && use->mutex)
		tally = mutex_add(waiter_counts, use->name);
	if (tally == NULL)
		return;
	tally->waiting += use->waiting;
	tally->busy += use->busy;
}

/* ---- the request ---- */

static void
waiter_counts_free(struct view *view, struct view_request *request)
{
	struct waiter_counts *waiter_counts = (struct waiter_counts *)request;

	view_request_end(view, request);
	tallies_free(&waiter_counts->semaphores);
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
		json_append(rows, row);
	}
	return rows;
}

static void
finish(struct view *view, struct waiter_counts *waiter_counts)
{
	struct cJSON *list = waiter_counts->list;
	const struct cJSON *row;
	const struct tally *tally;
	const char *name;

	for (row = json_first(json_get(list, "semaphores")); row != NULL; row = json_next(row)) {
		tally = json_string(json_get(row, "name"), &name)
			    ? tally_find(waiter_counts->semaphores, name)
			    : NULL;
		/* A part of our own list. */
		json_add_integer(
		    (struct cJSON *)row, "waiting", tally == NULL ? 0 : (int64_t)tally->waiting);
	}
	json_add(list, "mutexes", mutex_rows(waiter_counts));
	json_add_integer(list, "more", (int64_t)waiter_counts->more);
	json_add(
	    list, "silent_hosts", queries_missing(view->queries, waiter_counts->request.query));
	waiter_counts->list = NULL;
	view_done(view, waiter_counts->request.peer, waiter_counts->request.number, list);
	waiter_counts_free(view, &waiter_counts->request);
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
	waiter_counts->more += answer->more;
	if (queries_is_whole(view->queries, waiter_counts->request.query))
		finish(view, waiter_counts);
}

static void
over(void *ctx, uint64_t id)
{
	finish(ctx, view_request_find(ctx, id));
}

void
view_count(struct view *view, uint64_t peer, uint64_t request, struct cJSON *list, uint64_t more)
{
	struct waiter_counts *waiter_counts = mem_alloc(sizeof(*waiter_counts));
	const struct cJSON *row;
	const char *name;
	size_t rows = 0;

	waiter_counts->request.free = waiter_counts->request.left = waiter_counts_free;
	view_request_begin(view, &waiter_counts->request, peer, request);
	waiter_counts->view = view;
	waiter_counts->list = list;
	waiter_counts->more = more;
	for (row = json_first(json_get(list, "semaphores")); row != NULL; row = json_next(row)) {
		rows++;
		if (json_string(json_get(row, "name"), &name) &&
		    tally_find(waiter_counts->semaphores, name) == NULL)
			tally_add(&waiter_counts->semaphores, name);
	}
	view->events.keep(view->events.ctx, peer, request, rows * ROW_KEPT);
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
