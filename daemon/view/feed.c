#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/view/feed_inside.h"
#include "protocol/json.h"

#define ROUND_EVERY NSEC_PER_SEC

/* ---- rounds ---- */

/* Whoever has read all that it was sent may begin anew. */
static void
resync(struct feed *feed, struct watcher *watcher)
{
	const struct view_listener *listener = &feed->view->listener;

	if (listener->unread(listener->ctx, watcher->peer) > 0 ||
	    listener->room(listener->ctx, watcher->peer) == 0)
		return;
	feed_tell(feed, watcher, "resync", json_new_object());
	feed_begin(feed, watcher, WATCHER_NEW);
}

static void
end_round(struct feed *feed)
{
	int64_t next = clock_now(timers_clock(feed->view->timers)) + ROUND_EVERY;
	struct watcher *watcher;

	if (feed->inquiry != 0)
		mirror_end_round(
		    &feed->mirror, &feed->changes, feed->view->inspect, feed->inquiry, feed->round);
	feed_tell_soon(feed);
	json_free(feed->missing);
	feed->missing = inspect_missing(feed->view->inspect, feed->inquiry);
	inspect_end(feed->view->inspect, feed->inquiry);
	feed->inquiry = 0;
	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (watcher->state == WATCHER_BEHIND && !watcher->is_queued)
			resync(feed, watcher);
		else if (watcher->state == WATCHER_ROUND && watcher->round <= feed->round)
			feed_begin(feed, watcher, WATCHER_OTHERS);
		else if (watcher->state == WATCHER_ROUND)
			next = feed->round_began + ROUND_GAP;
	}
	timers_set(feed->view->timers, &feed->next_round, next);
}

static void
heard(void *ctx, uint64_t id, const struct letter *answer)
{
	struct feed *feed = ctx;

	(void)id;
	mirror_take(&feed->mirror, &feed->changes, answer, feed->round);
	feed_tell_soon(feed);
	if (inspect_is_whole(feed->view->inspect, feed->inquiry))
		end_round(feed);
}

static void
over(void *ctx, uint64_t id)
{
	(void)id;
	end_round(ctx);
}

/* The one name that all watch; NULL: there is none such. */
static const char *
common_name(const struct feed *feed)
{
	const struct watcher *first = TAILQ_FIRST(&feed->watchers), *watcher;

	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (watcher->name == NULL || first->name == NULL ||
		    strcmp(watcher->name, first->name) != 0)
			return NULL;
	}
	return first->name;
}

static void
begin_round(void *ctx, uint64_t id)
{
	struct feed *feed = ctx;
	struct cJSON *letter = inspect_letter(feed->view->inspect, LETTER_ROWS, false);
	const char *name = common_name(feed);

	(void)id;
	feed->round_began = clock_now(timers_clock(feed->view->timers));
	if (name != NULL)
		json_add_string(letter, "name", name);
	feed->round++;
	feed->inquiry = inspect_ask(feed->view->inspect, TURNS_DAEMONS, LETTER_ROWS, letter,
	    (struct inspect_done){.everybody = true, .heard = heard, .over = over, .ctx = feed});
	if (inspect_is_whole(feed->view->inspect, feed->inquiry))
		end_round(feed);
}

/* Nobody watches any more: what others said is forgotten. */
static void
stop(struct feed *feed)
{
	inspect_end(feed->view->inspect, feed->inquiry);
	feed->inquiry = 0;
	timers_cancel(feed->view->timers, &feed->next_round);
	timers_cancel(feed->view->timers, &feed->work);
	changes_forget(&feed->changes, feed->changes.last);
	feed->turns = 0;
	mirror_clear(&feed->mirror);
}

/* ---- watchers ---- */

void
view_watch(struct view *view, uint64_t peer, uint64_t request, const char *name)
{
	struct feed *feed = view->feed;
	struct watcher *watcher;

	if (feed->draining) {
		view_refuse(view, peer, request, REASON_DRAINING, NULL);
		return;
	}
	watcher = mem_alloc(sizeof(*watcher));
	watcher->peer = peer;
	watcher->request = request;
	watcher->name = name == NULL ? NULL : mem_strdup(name);
	TAILQ_INSERT_TAIL(&feed->watchers, watcher, next);
	feed->count++;
	feed_begin(feed, watcher, WATCHER_NEW);
	if (feed->inquiry == 0 && !timer_is_set(&feed->next_round))
		timers_set(view->timers, &feed->next_round,
		    clock_now(timers_clock(view->timers)) + ROUND_EVERY);
}

static void
watcher_end(struct feed *feed, struct watcher *watcher)
{
	feed_end_begin(feed, watcher);
	TAILQ_REMOVE(&feed->watchers, watcher, next);
	if (feed->turns > --feed->count)
		feed->turns = feed->count;
	free(watcher->name);
	free(watcher);
	if (TAILQ_EMPTY(&feed->watchers))
		stop(feed);
}

bool
view_cancel(struct view *view, uint64_t peer, uint64_t request)
{
	struct watcher *watcher;

	TAILQ_FOREACH (watcher, &view->feed->watchers, next) {
		if (watcher->peer == peer && watcher->request == request)
			break;
	}
	if (watcher == NULL)
		return false;
	watcher_end(view->feed, watcher);
	view_refuse(view, peer, request, REASON_CANCELLED, NULL);
	return true;
}

void
view_peer_gone(struct view *view, uint64_t peer)
{
	struct watcher *watcher = TAILQ_FIRST(&view->feed->watchers), *next;

	/* Only the one at hand is freed. */
	for (; watcher != NULL; watcher = next) {
		next = TAILQ_NEXT(watcher, next);
		if (watcher->peer == peer)
			watcher_end(view->feed, watcher);
	}
}

void
view_drain(struct view *view)
{
	struct watcher *watcher;

	view->feed->draining = true;
	while ((watcher = TAILQ_FIRST(&view->feed->watchers)) != NULL) {
		view_refuse(view, watcher->peer, watcher->request, REASON_DRAINING, NULL);
		watcher_end(view->feed, watcher);
	}
}

/* ---- lifecycle ---- */

struct feed *
feed_new(struct view *view)
{
	struct feed *feed = mem_alloc(sizeof(*feed));

	feed->view = view;
	TAILQ_INIT(&feed->watchers);
	TAILQ_INIT(&feed->begin);
	changes_init(&feed->changes);
	timer_init(&feed->work, feed_work, feed, 0);
	timer_init(&feed->next_round, begin_round, feed, 0);
	return feed;
}

void
feed_free(struct feed *feed)
{
	struct watcher *watcher;

	while ((watcher = TAILQ_FIRST(&feed->watchers)) != NULL)
		watcher_end(feed, watcher);
	stop(feed);
	json_free(feed->missing);
	free(feed);
}
