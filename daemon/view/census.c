#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/view/inside.h"
#include "protocol/json.h"

/* How many wait for one name, on all hosts that have said so. */
struct tally {
	char *name; /* owned */
	uint64_t waiting;
	UT_hash_handle hh;
};

/* Names that are counted: a list has no more, but for what others make up. */
#define TALLIES_MAX 100000
/* Bytes that one name of a list takes in memory, about. */
#define ROW_KEPT 600

/* The result of a `list` that is to say who waits. */
struct census {
	struct view_request request;
	struct cJSON *list;    /* owned */
	struct tally *tallies; /* owned */
};

static struct tally *
tally_find(const struct census *census, const char *name)
{
	struct tally *tally;

	HASH_FIND(hh, census->tallies, name, strlen(name), tally);
	return tally;
}

static void
count(void *ctx, const char *name, size_t waiting)
{
	struct census *census = ctx;
	struct tally *tally = tally_find(census, name);

	if (tally == NULL) {
		if (HASH_CNT(hh, census->tallies) >= TALLIES_MAX)
			return;
		tally = mem_alloc(sizeof(*tally));
		tally->name = mem_strdup(name);
		HASH_ADD_KEYPTR(hh, census->tallies, tally->name, strlen(tally->name), tally);
	}
	tally->waiting += waiting;
}

static void
census_free(struct view *view, struct view_request *request)
{
	struct census *census = (struct census *)request;
	struct tally *tally, *next;

	view_request_end(view, request);
	HASH_ITER (hh, census->tallies, tally, next) {
		HASH_DELETE(hh, census->tallies, tally);
		free(tally->name);
		free(tally);
	}
	json_free(census->list);
	free(census);
}

static void
finish(struct view *view, struct census *census)
{
	struct cJSON *list = census->list;
	const struct cJSON *row;
	const struct tally *tally;
	const char *name;

	for (row = json_first(json_get(list, "semaphores")); row != NULL; row = json_next(row)) {
		tally = json_string(json_get(row, "name"), &name) ? tally_find(census, name) : NULL;
		/* A part of our own list. */
		json_add_integer(
		    (struct cJSON *)row, "waiting", tally == NULL ? 0 : (int64_t)tally->waiting);
	}
	json_add(list, "silent_hosts", inspect_missing(view->inspect, census->request.inquiry));
	census->list = NULL;
	view_done(view, census->request.peer, census->request.number, list);
	census_free(view, &census->request);
}

static void
heard(void *ctx, uint64_t id, const struct letter *answer)
{
	struct view *view = ctx;
	struct census *census = view_request_find(view, id);
	const char *name;
	int64_t waiting;

	for (const struct cJSON *pair = json_first(answer->counts); pair != NULL;
	     pair = json_next(pair)) {
		if (json_string(json_first(pair), &name) &&
		    json_integer(json_next(json_first(pair)), &waiting))
			count(census, name, (size_t)waiting);
	}
	if (inspect_is_whole(view->inspect, census->request.inquiry))
		finish(view, census);
}

static void
over(void *ctx, uint64_t id)
{
	finish(ctx, view_request_find(ctx, id));
}

void
view_count(struct view *view, uint64_t peer, uint64_t request, struct cJSON *list)
{
	struct census *census = mem_alloc(sizeof(*census));
	const struct cJSON *row;
	size_t rows = 0;

	census->request.free = census->request.left = census_free;
	view_request_begin(view, &census->request, peer, request);
	census->list = list;
	for (row = json_first(json_get(list, "semaphores")); row != NULL; row = json_next(row))
		rows++;
	view->listener.keep(view->listener.ctx, peer, request, rows * ROW_KEPT);
	view->listener.looked(view->listener.ctx, peer, request);
	lock_each_waiting(view->engine, count, census);
	census->request.inquiry = inspect_ask(view->inspect, census->request.user, LETTER_WAITING,
	    inspect_letter(view->inspect, LETTER_WAITING, false),
	    (struct inspect_done){.everybody = true,
		.heard = heard,
		.over = over,
		.ctx = view,
		.id = census->request.id});
	if (inspect_is_whole(view->inspect, census->request.inquiry))
		finish(view, census);
}
