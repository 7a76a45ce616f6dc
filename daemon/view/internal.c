#include "daemon/view/internal.h"

#include <stdlib.h>
#include <time.h>

#include "daemon/base/mem.h"
#include "protocol/json.h"

/* Jobs have so much time, and rest for so long, so that they do not delay holders. */
#define JOB_SLICE (NSEC_PER_MSEC / 4)
#define JOB_REST NSEC_PER_MSEC

int64_t
view_now(const struct view *view)
{
	return clock_now(timers_clock(view->timers));
}

struct row_facts
view_facts(const struct view *view)
{
	return (struct row_facts){.run = view->run,
	    .host = view->host,
	    .now = view_now(view),
	    .wall = clock_now(&clock_wall)};
}

char *
view_row(const struct view *view, const struct lock_row *source)
{
	const struct row_facts facts = view_facts(view);
	struct cJSON *row = row_new(&facts, source);
	char *text = json_print(row);

	json_free(row);
	return text;
}

struct view_peer
view_peer(const struct view *view, uint64_t peer)
{
	return view->events.peer(view->events.ctx, peer);
}

void
view_done(struct view *view, uint64_t peer, uint64_t request, struct cJSON *result)
{
	view->events.done(view->events.ctx, peer, request, REASON_NONE, NULL, result);
}

void
view_refuse(
    struct view *view, uint64_t peer, uint64_t request, enum reason reason, const char *text)
{
	view->events.done(view->events.ctx, peer, request, reason, text, NULL);
}

/* ---- jobs ---- */

static void
schedule(struct view *view, int64_t wait)
{
	if (round_robin_first(&view->jobs) != NULL && !timer_is_set(&view->work))
		timers_set(view->timers, &view->work, view_now(view) + wait);
}

static void
work(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	int64_t end = view_now(view) + JOB_SLICE;
	struct job *job;

	(void)id;
	while ((job = round_robin_first(&view->jobs)) != NULL) {
		/* Before the step, which may free the job. */
		round_robin_pass(&view->jobs);
		job->step(view, job, end);
		if (view_is_over(view, end))
			break;
	}
	schedule(view, JOB_REST);
}

void
view_jobs_init(struct view *view)
{
	round_robin_init(&view->jobs);
	timer_init(&view->work, work, view, 0);
}

void
view_job_begin(struct view *view, struct job *job, int64_t user)
{
	round_robin_add(&view->jobs, &job->turn, user, job);
	schedule(view, 0);
}

void
view_job_end(struct view *view, struct job *job)
{
	round_robin_remove(&view->jobs, &job->turn);
}

bool
view_is_over(const struct view *view, int64_t end)
{
	return view_now(view) >= end;
}

/* ---- requests ---- */

void
view_request_begin(struct view *view, struct view_request *request, uint64_t peer, uint64_t number)
{
	request->id = ++view->last_id;
	request->peer = peer;
	request->number = number;
	request->user = view_peer(view, peer).user;
	HASH_ADD(hh, view->requests, id, sizeof(request->id), request);
}

void *
view_request_find(const struct view *view, uint64_t id)
{
	struct view_request *request;

	HASH_FIND(hh, view->requests, &id, sizeof(id), request);
	return request;
}

void
view_request_end(struct view *view, struct view_request *request)
{
	queries_end(view->queries, request->query);
	HASH_DELETE(hh, view->requests, request);
}

/* ---- a walk ---- */

struct walk_row {
	uint64_t waiter, lock;
};

static void
note(void *ctx, const struct lock_row *row)
{
	struct walk *walk = ctx;

	if (walk->count == walk->room) {
		walk->room *= 2;
		walk->rows = mem_grow(walk->rows, walk->room, sizeof(*walk->rows));
	}
	walk->rows[walk->count++] = (struct walk_row){row->waiter, row->lock};
}

void
walk_begin(struct walk *walk, const struct lock_engine *engine, const char *name)
{
	*walk = (struct walk){.name = name, .room = 16};
	walk->rows = mem_grow(NULL, walk->room, sizeof(*walk->rows));
	if (name == NULL)
		lock_each(engine, NULL, note, walk);
	else
		lock_each_holding(engine, name, note, walk);
}

size_t
walk_size(const struct walk *walk)
{
	return walk->room * sizeof(*walk->rows);
}

bool
walk_next(struct walk *walk, const struct lock_engine *engine, struct lock_row *ret)
{
	while (walk->next < walk->count) {
		const struct walk_row *row = &walk->rows[walk->next++];

		if (lock_row_find(engine, row->waiter, row->lock, ret))
			return true;
	}
	return walk->name != NULL && lock_next_waiting(engine, walk->name, &walk->place, ret);
}

void
walk_end(struct walk *walk)
{
	free(walk->rows);
	*walk = (struct walk){.count = 0};
}
