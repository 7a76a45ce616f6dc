#include "daemon/view/view.h"

#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/view/queries.h"
#include "daemon/view/responder.h"
#include "daemon/view/scrape.h"
#include "daemon/view/watch.h"

/*
 * Contents:
 *	Whether others are answered: view_changed(), view_settle(): it has rows. view_acquired(),
 *	   view_noticed(): counts for metrics.
 *	A peer has left: view_peer_left(): its requests end.
 *	Lifecycle: view_new(), view_free().
 */

/*
 * Time after a row ends until the view checks whether rows are left. This daemon answers others
 * until then, so that short holds do not open and close the inbox all the time.
 */
#define STAY_IDLE (60 * NSEC_PER_SEC)

/* ---- whether others are answered ---- */

static void
view_settle(void *ctx, uint64_t id)
{
	struct view *view = ctx;
	struct lock_counts counts;

	(void)id;
	lock_get_counts(view->engine, &counts);
	queries_stay(view->queries, counts.holds + counts.waiting > 0);
}

void
view_changed(struct view *view, const struct lock_row *row)
{
	int64_t now = view_now(view);

	/* In a pass of its own: this is inside the engine. */
	if (row->state == LOCK_ROW_WAITING && !queries_stays(view->queries))
		timers_set(view->timers, &view->settle, now);
	else if (row->state == LOCK_ROW_GONE && !timer_is_set(&view->settle))
		timers_set(view->timers, &view->settle, now + STAY_IDLE);
	if (row->state == LOCK_ROW_GONE && row->lock != 0)
		metrics_hold_ended(view->metrics, now, row);
	feed_changed(view->feed, row);
}

void
view_acquired(struct view *view, const char *name, const struct lock_answer *answer)
{
	metrics_acquired(view->metrics, view_now(view), name, answer);
}

void
view_noticed(struct view *view, const struct lock_notice *notice)
{
	metrics_noticed(view->metrics, view_now(view), notice);
}

/* ---- a peer has left ---- */

void
view_peer_left(struct view *view, uint64_t peer)
{
	struct view_request *request, *next;

	HASH_ITER (hh, view->requests, request, next) {
		if (request->peer != peer || request->left == NULL)
			continue;
		view_ask_leave(view, &request->ask);
		request->left(view, request);
	}
}

/* ---- lifecycle ---- */

struct view *
view_new(struct lock_engine *engine, struct broker *broker, struct timers *timers,
    const struct view_settings *settings, const struct view_events *events)
{
	struct view *view = mem_alloc(sizeof(*view));
	const struct daemon_message_head head = {.run = settings->run,
	    .host = mem_strdup(settings->host),
	    .naming = mem_strdup(settings->naming)};

	view->engine = engine;
	view->broker = broker;
	view->timers = timers;
	view->run = head.run;
	view->host = head.host;
	view->naming = head.naming;
	view->events = *events;
	view->queries = queries_new(view, &head, settings->timeout, responder_asked);
	view->feed = feed_new(view);
	view->metrics = metrics_new(engine);
	timer_init(&view->settle, view_settle, view, 0);
	view_jobs_init(view);
	round_robin_init(&view->counts);
	TAILQ_INIT(&view->asked);
	return view;
}

void
view_free(struct view *view)
{
	struct view_request *request, *next;

	if (view == NULL)
		return;
	timers_cancel(view->timers, &view->settle);
	timers_cancel(view->timers, &view->work);
	feed_free(view->feed);
	responder_free_all(view);
	HASH_ITER (hh, view->requests, request, next)
		request->free(view, request);
	queries_free(view->queries);
	metrics_free(view->metrics);
	free((char *)view->host);
	free((char *)view->naming);
	free(view);
}
