#include <stdlib.h>
#include <string.h>

#include "daemon/view/feed_inside.h"
#include "daemon/view/wire_id.h"
#include "protocol/json.h"

/* Changes are collected for so long. */
#define TELL_EVERY (25 * NSEC_PER_MSEC)
/* Work goes on for so long, half of it for changes, and rests for so long if it is not done. */
#define SLICE NSEC_PER_MSEC
#define REST (4 * NSEC_PER_MSEC)
/* Changes that are kept for watches that are slow to be told; with more all begin anew. */
#define CHANGES_MAX 10000
/* Bytes of rows of a beginning; what is left out is counted. */
#define BEGIN_MAX ((size_t)1024 * 1024)
/* Bytes left unread with which a watcher is behind: more than a beginning has. */
#define UNREAD_MAX ((size_t)2 * 1024 * 1024)

/* ---- telling ---- */

void
feed_tell(const struct feed *feed, const struct watcher *watcher, const char *method,
    struct cJSON *params)
{
	const struct view_listener *listener = &feed->view->listener;

	listener->tell(listener->ctx, watcher->peer, watcher->request, method, params);
}

static bool
is_about(const struct feed *feed, const struct watcher *watcher, const char *name)
{
	const struct view_listener *listener = &feed->view->listener;

	if (watcher->name != NULL)
		return strcmp(watcher->name, name) == 0;
	return listener->sees(listener->ctx, watcher->peer, watcher->request, name);
}

/* Whether it has too much to read already; it is behind then. */
static bool
falls_behind(const struct feed *feed, struct watcher *watcher)
{
	const struct view_listener *listener = &feed->view->listener;

	if (watcher->state != WATCHER_BEHIND &&
	    (listener->unread(listener->ctx, watcher->peer) > UNREAD_MAX ||
		listener->room(listener->ctx, watcher->peer) == 0))
		watcher->state = WATCHER_BEHIND;
	return watcher->state == WATCHER_BEHIND;
}

/* There is something to tell, a while from now at the latest. */
static void
schedule(struct feed *feed, int64_t wait)
{
	struct timers *timers = feed->view->timers;

	if (!timer_is_set(&feed->work))
		timers_set(timers, &feed->work, clock_now(timers_clock(timers)) + wait);
}

static void
tell_row(const struct feed *feed, struct watcher *watcher, const char *row)
{
	struct cJSON *params;

	if (falls_behind(feed, watcher))
		return;
	params = json_new_object();
	json_add(params, "row", json_new_text(row));
	feed_tell(feed, watcher, "row", params);
}

static void
tell_gone(const struct feed *feed, struct watcher *watcher, const char *waiter)
{
	struct cJSON *params;

	if (falls_behind(feed, watcher))
		return;
	params = json_new_object();
	json_add_string(params, "waiter", waiter);
	feed_tell(feed, watcher, "gone", params);
}

/* ---- changes ---- */

/* Whether it is the one that is being told what there is. */
static bool
is_begun(const struct feed *feed, const struct watcher *watcher)
{
	return feed->begun == watcher;
}

static bool
heeds_changes(const struct watcher *watcher)
{
	return watcher->state != WATCHER_NEW && watcher->state != WATCHER_BEHIND;
}

static void
tell_change(const struct feed *feed, struct watcher *watcher, const struct change *change)
{
	/* What there is elsewhere it is told when its turn comes. */
	if (change->elsewhere && watcher->state != WATCHER_LIVE &&
	    (watcher->state != WATCHER_OTHERS || !is_begun(feed, watcher)))
		return;
	if (!is_about(feed, watcher, change->name))
		return;
	if (change->row != NULL && change->row_order > watcher->seen)
		tell_row(feed, watcher, change->row);
	if (change->gone)
		tell_gone(feed, watcher, change->waiter);
}

/* Tells one watcher what it does not know yet. False: the time is over. */
static bool
tell_news(struct feed *feed, struct watcher *watcher, int64_t end)
{
	const struct change *change;

	TAILQ_FOREACH (change, &feed->changes.list, next) {
		if (!heeds_changes(watcher))
			return true;
		if (change->order <= watcher->seen)
			continue;
		tell_change(feed, watcher, change);
		watcher->seen = change->order;
		if (view_is_over(feed->view, end))
			return false;
	}
	return true;
}

/* A turn: every watcher is told, one after another. False: the time is over. */
static bool
tell_all(struct feed *feed, int64_t end)
{
	struct watcher *watcher;

	if (feed->turns == 0) {
		feed->turns = feed->count;
		feed->turn_seen = feed->changes.last;
	}
	for (; feed->turns > 0; feed->turns--) {
		if (view_is_over(feed->view, end))
			return false;
		watcher = TAILQ_FIRST(&feed->watchers);
		if (!tell_news(feed, watcher, end))
			return false;
		TAILQ_REMOVE(&feed->watchers, watcher, next);
		TAILQ_INSERT_TAIL(&feed->watchers, watcher, next);
	}
	changes_forget(&feed->changes, feed->turn_seen);
	return true;
}

/* There are too many changes for those that were not told of them yet. */
static void
forget_changes(struct feed *feed)
{
	struct watcher *watcher;

	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (heeds_changes(watcher) && watcher->seen < feed->changes.last)
			watcher->state = WATCHER_BEHIND;
	}
	changes_forget(&feed->changes, feed->changes.last);
}

void
feed_work_soon(struct feed *feed)
{
	schedule(feed, 0);
}

void
feed_tell_soon(struct feed *feed)
{
	size_t count = changes_count(&feed->changes);

	if (count > CHANGES_MAX)
		forget_changes(feed);
	else if (count > 0)
		schedule(feed, TELL_EVERY);
}

static char *
text_of(const struct feed *feed, const struct lock_party *party)
{
	const struct row_facts facts = view_facts(feed->view);
	struct cJSON *row = row_new(&facts, party);
	char *text = json_print(row);

	json_free(row);
	return text;
}

void
feed_changed(struct feed *feed, const struct lock_party *party)
{
	char waiter[WIRE_ID_SIZE];

	if (TAILQ_EMPTY(&feed->watchers))
		return;
	wire_id_write(waiter, feed->view->settings.run, party->waiter);
	if (party->state == LOCK_PARTY_GONE)
		changes_gone(&feed->changes, waiter, party->name, false);
	else
		changes_row(&feed->changes, waiter, party->name, false, text_of(feed, party));
	feed_tell_soon(feed);
}

/* ---- what there is ---- */

/* There may be too much of that. */
static void
tell_first(const struct feed *feed, struct watcher *watcher, const char *row)
{
	size_t size = strlen(row) + 1;

	if (watcher->bytes + size > BEGIN_MAX) {
		watcher->more++;
		return;
	}
	watcher->bytes += size;
	tell_row(feed, watcher, row);
}

/* False: the time is over. */
static bool
tell_own(struct feed *feed, struct watcher *watcher, int64_t end)
{
	struct lock_party party;
	char *row;

	while (
	    watcher->state == WATCHER_OWN && walk_next(&feed->walk, feed->view->engine, &party)) {
		if (is_about(feed, watcher, party.name)) {
			/* After the first that found no room the others are not written in vain. */
			row = watcher->more > 0 ? NULL : text_of(feed, &party);
			if (row == NULL)
				watcher->more++;
			else
				tell_first(feed, watcher, row);
			free(row);
		}
		if (view_is_over(feed->view, end))
			return false;
	}
	return true;
}

static bool
tell_others(struct feed *feed, struct watcher *watcher, int64_t end)
{
	const struct cJSON *row;
	char *text;

	while (watcher->state == WATCHER_OTHERS && (row = mirror_next(&feed->mirror)) != NULL) {
		if (is_about(feed, watcher, row_name(row))) {
			text = json_print(row);
			tell_first(feed, watcher, text);
			free(text);
		}
		if (view_is_over(feed->view, end))
			return false;
	}
	return true;
}

static void
tell_synced(struct feed *feed, struct watcher *watcher)
{
	struct cJSON *params;

	if (falls_behind(feed, watcher))
		return;
	params = json_new_object();
	watcher->more += mirror_more(&feed->mirror);
	json_add_integer(params, "more", (int64_t)watcher->more);
	json_add(params, "unknown_hosts", json_copy(feed->missing));
	watcher->state = WATCHER_LIVE;
	feed_tell(feed, watcher, "synced", params);
}

static void
begin_first(struct feed *feed, struct watcher *watcher)
{
	feed->begun = watcher;
	turns_pass(&feed->begin);
	if (watcher->state == WATCHER_OTHERS)
		mirror_walk(&feed->mirror);
	if (watcher->state != WATCHER_NEW)
		return;
	watcher->state = WATCHER_OWN;
	watcher->seen = feed->changes.last;
	watcher->bytes = 0;
	watcher->more = 0;
	walk_begin(&feed->walk, feed->view->engine, watcher->name);
}

void
feed_begin(struct feed *feed, struct watcher *watcher, enum watcher_state state)
{
	watcher->state = state;
	turns_add(&feed->begin, &watcher->begins, watcher->user, watcher);
	schedule(feed, 0);
}

void
feed_end_begin(struct feed *feed, struct watcher *watcher)
{
	if (is_begun(feed, watcher)) {
		feed->begun = NULL;
		walk_end(&feed->walk);
	}
	turns_remove(&feed->begin, &watcher->begins);
}

/* The one that is being told what there is, or the next one; NULL: there is none. */
static struct watcher *
next_to_begin(const struct feed *feed)
{
	return feed->begun != NULL ? feed->begun : turns_first(&feed->begin);
}

/* False: the time is over. */
static bool
begin_all(struct feed *feed, int64_t end)
{
	struct watcher *watcher;

	while ((watcher = next_to_begin(feed)) != NULL) {
		if (!is_begun(feed, watcher)) {
			/* Rows elsewhere that changed before are told with the others. */
			if (watcher->state == WATCHER_OTHERS && !tell_news(feed, watcher, end))
				return false;
			begin_first(feed, watcher);
		}
		if (!tell_own(feed, watcher, end) || !tell_others(feed, watcher, end))
			return false;
		feed_end_begin(feed, watcher);
		if (watcher->state == WATCHER_OWN) {
			watcher->state = WATCHER_ROUND;
			/* One that is in progress may be about another name. */
			watcher->round = feed->round + 1;
			feed_want_round(feed, watcher->user);
		} else if (watcher->state == WATCHER_OTHERS) {
			tell_synced(feed, watcher);
		}
	}
	return true;
}

/* Rows of other daemons that are no more. False: the time is over. */
static bool
sweep(struct feed *feed, int64_t end)
{
	while (mirror_sweep(&feed->mirror, &feed->changes)) {
		if (view_is_over(feed->view, end))
			return false;
	}
	return true;
}

void
feed_work(void *ctx, uint64_t id)
{
	struct feed *feed = ctx;
	int64_t now = clock_now(timers_clock(feed->view->timers));
	bool swept = sweep(feed, now + SLICE / 4), told = tell_all(feed, now + SLICE / 2),
	     begun = begin_all(feed, now + SLICE);

	(void)id;
	if (!swept || !told || !begun)
		schedule(feed, REST);
	feed_tell_soon(feed);
}
