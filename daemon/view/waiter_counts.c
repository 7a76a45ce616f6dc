#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/view/internal.h"
#include "protocol/json.h"

/* How many wait for one name, on all hosts that have said so. */
struct tally {
	char *name; /* owned */
	uint64_t waiting;
	UT_hash_handle hh;
};

/* Names that are counted. A list has fewer, unless another daemon invents names. */
#define TALLIES_MAX 100000
/* Bytes that one name of a list takes in memory, about. */
#define ROW_KEPT 600

/* The result of a `list` that is to say who waits. */
struct waiter_counts {
	struct view_request request;
	struct cJSON *list;    /* owned */
	struct tally *tallies; /* owned */
};

static struct tally *
tally_find(const struct waiter_counts *waiter_counts, const char *name)
{
	struct tally *tally;

	HASH_FIND(hh, waiter_counts->tallies, name, strlen(name), tally);
	return tally;
}

static void
count(void *ctx, const char *name, size_t waiting)
{
	struct waiter_counts *waiter_counts = ctx;
	struct tally *tally = tally_find(waiter_counts, name);

	if (tally == NULL) {
		if (HASH_CNT(hh, waiter_counts->tallies) >= TALLIES_MAX)
			return;
		tally = mem_alloc(sizeof(*tally));
		tally->name = mem_strdup(name);
		HASH_ADD_KEYPTR(
		    hh, waiter_counts->tallies, tally->name, strlen(tally->name), tally);
	}
	tally->waiting += waiting;
}

static void
waiter_counts_free(struct view *view, struct view_request *request)
{
	struct waiter_counts *waiter_counts = (struct waiter_counts *)request;
	struct tally *tally, *next;

	view_request_end(view, request);
	HASH_ITER (hh, waiter_counts->tallies, tally, next) {
		HASH_DELETE(hh, waiter_counts->tallies, tally);
		free(tally->name);
		free(tally);
	}
	json_free(waiter_counts->list);
	free(waiter_counts);
}

static void
finish(struct view *view, struct waiter_counts *waiter_counts)
{
	struct cJSON *list = waiter_counts->list;
	const struct cJSON *row;
	const struct tally *tally;
	const char *name;

	for (row = json_first(json_get(list, "semaphores")); row != NULL; row = json_next(row)) {
		tally = json_string(json_get(row, "name"), &name) ? tally_find(waiter_counts, name)
								  : NULL;
		/* A part of our own list. */
		json_add_integer(
		    (struct cJSON *)row, "waiting", tally == NULL ? 0 : (int64_t)tally->waiting);
	}
	json_add(
	    list, "silent_hosts", queries_missing(view->queries, waiter_counts->request.query));
	waiter_counts->list = NULL;
	view_done(view, waiter_counts->request.peer, waiter_counts->request.number, list);
	waiter_counts_free(view, &waiter_counts->request);
}

static void
heard(void *ctx, uint64_t id, const struct daemon_message *answer)
{
	struct view *view = ctx;
	struct waiter_counts *waiter_counts = view_request_find(view, id);
	const char *name;
	int64_t waiting;

	for (const struct cJSON *pair = json_first(answer->counts); pair != NULL;
	     pair = json_next(pair)) {
		if (json_string(json_first(pair), &name) &&
		    json_integer(json_next(json_first(pair)), &waiting))
			count(waiter_counts, name, (size_t)waiting);
	}
	if (queries_is_whole(view->queries, waiter_counts->request.query))
		finish(view, waiter_counts);
}

static void
over(void *ctx, uint64_t id)
{
	finish(ctx, view_request_find(ctx, id));
}

void
view_count(struct view *view, uint64_t peer, uint64_t request, struct cJSON *list)
{
	struct waiter_counts *waiter_counts = mem_alloc(sizeof(*waiter_counts));
	const struct cJSON *row;
	size_t rows = 0;

	waiter_counts->request.free = waiter_counts->request.left = waiter_counts_free;
	view_request_begin(view, &waiter_counts->request, peer, request);
	waiter_counts->list = list;
	for (row = json_first(json_get(list, "semaphores")); row != NULL; row = json_next(row))
		rows++;
	view->events.keep(view->events.ctx, peer, request, rows * ROW_KEPT);
	view->events.scanned(view->events.ctx, peer, request);
	lock_each_waiting(view->engine, count, waiter_counts);
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
