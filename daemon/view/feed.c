#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/view/feed_inside.h"
#include "protocol/json.h"

/* ---- rounds ---- */

/* A watch whose peer has read all that it was sent begins anew. */
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
	int64_t now = clock_now(timers_clock(feed->view->timers));
	struct watcher *watcher;

	if (feed->inquiry != 0)
		mirror_end_round(&feed->mirror, feed->view->inspect, feed->inquiry, feed->round);
	feed_work_soon(feed);
	json_free(feed->missing);
	feed->missing = inspect_missing(feed->view->inspect, feed->inquiry);
	inspect_end(feed->view->inspect, feed->inquiry);
	feed->inquiry = 0;
	timers_set(feed->view->timers, &feed->next_round, now + ROUND_EVERY);
	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (watcher->state == WATCHER_BEHIND && watcher->begins.user == NULL)
			resync(feed, watcher);
		else if (watcher->state == WATCHER_ROUND && watcher->round <= feed->round)
			feed_begin(feed, watcher, WATCHER_OTHERS);
		else if (watcher->state == WATCHER_ROUND)
			feed_want_round(feed, watcher->user);
	}
}

static bool
may_be_early(const struct feed *feed, int64_t user, int64_t now)
{
	for (size_t i = 0; i < EARLY_ROUNDS; i++) {
		if (feed->early[i].user == user && now - feed->early[i].at < ROUND_EVERY)
			return false;
	}
	return true;
}

void
feed_want_round(struct feed *feed, int64_t user)
{
	int64_t now = clock_now(timers_clock(feed->view->timers));

	if (feed->inquiry != 0 || feed->is_early || !may_be_early(feed, user, now))
		return;
	feed->is_early = true;
	feed->early[feed->next_early++ % EARLY_ROUNDS] =
	    (struct early_round){.user = user, .at = now};
	timers_set(feed->view->timers, &feed->next_round, feed->round_began + ROUND_GAP);
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
	feed->is_early = false;
	feed->round_began = clock_now(timers_clock(feed->view->timers));
	if (name != NULL)
		json_add_string(letter, "name", name);
	feed->round++;
	feed->inquiry = inspect_ask(feed->view->inspect, TURNS_DAEMONS, LETTER_ROWS, letter,
	    (struct inspect_done){.everybody = true, .heard = heard, .over = over, .ctx = feed});
	if (inspect_is_whole(feed->view->inspect, feed->inquiry))
		end_round(feed);
}

/* Nobody watches any more: what others said is forgotten, in slices. */
static void
stop(struct feed *feed)
{
	inspect_end(feed->view->inspect, feed->inquiry);
	feed->inquiry = 0;
	timers_cancel(feed->view->timers, &feed->next_round);
	feed->is_early = false;
	feed->turns = 0;
	mirror_forget(&feed->mirror, feed->round);
	feed_work_soon(feed);
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
	watcher->user = view_user(view, peer);
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
	turns_init(&feed->begin);
	for (size_t i = 0; i < EARLY_ROUNDS; i++)
		feed->early[i].user = TURNS_DAEMONS;
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
	timers_cancel(feed->view->timers, &feed->work);
	while (mirror_sweep(&feed->mirror, &feed->changes))
		continue;
	changes_forget(&feed->changes, feed->changes.last);
	json_free(feed->missing);
	free(feed);
}
