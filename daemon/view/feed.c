#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/view/internal.h"
#include "daemon/view/mirror.h"
#include "daemon/view/wire_id.h"
#include "protocol/json.h"

/*
 * Watches: first the present rows, then their changes. A change is noted at once. Shortly
 * afterwards all changes are sent together: each row once, in its newest state, as text that all
 * watches share. While there is a watch, the other daemons are asked for their rows every second.
 * Their answers are compared with the last ones (the mirror).
 *
 *	NEW		waits for its turn: watches begin one by one, and users take turns
 *	OWN		gets the rows of this daemon, and their changes meanwhile
 *	ROUND		waits for the end of the next round to get the rows of other daemons
 *	OTHERS		gets those rows
 *	LIVE		`synced` was sent: it gets changes
 *	BEHIND		has not read its output: it gets nothing until it has read all;
 *			then it gets `resync`, and is NEW
 *
 * All of this is done in slices of time with pauses between them, because watches must not delay
 * holders.
 */
enum watcher_state {
	WATCHER_NEW,
	WATCHER_OWN,
	WATCHER_ROUND,
	WATCHER_OTHERS,
	WATCHER_LIVE,
	WATCHER_BEHIND
};

/* Every daemon has to answer every round. */
#define ROUND_EVERY NSEC_PER_SEC
/*
 * For a watch that begins, a round begins early: so long after the last one. Each user has one
 * early round in ROUND_EVERY.
 */
#define ROUND_GAP (100 * NSEC_PER_MSEC)
#define EARLY_ROUNDS (ROUND_EVERY / ROUND_GAP)

/* Changes are collected for so long. */
#define TELL_EVERY (25 * NSEC_PER_MSEC)
/* Work goes on for so long, half of it for changes, and rests for so long if it is not done. */
#define SLICE NSEC_PER_MSEC
#define REST (4 * NSEC_PER_MSEC)
/* Changes that are kept for watches that are slow to be told; with more all begin anew. */
#define CHANGES_MAX 10000
/* Bytes of the first rows of a watch; rows beyond that are only counted. */
#define BEGIN_MAX ((size_t)1024 * 1024)
/* Bytes left unread with which a watcher is behind: more than a beginning has. */
#define UNREAD_MAX ((size_t)2 * 1024 * 1024)

/* A round that began early. */
struct early_round {
	int64_t user, at;
};

struct watcher {
	uint64_t peer, request;
	int64_t user;
	char *name; /* owned; NULL: all */
	enum watcher_state state;
	uint64_t seen;  /* OWN to LIVE: changes up to this order are told */
	uint64_t round; /* ROUND: with which that ends, or a later one */
	size_t bytes;   /* OWN to OTHERS: of rows sent */
	uint64_t more;  /* OWN to OTHERS: rows left out */
	/* to be told what there is: NEW, OWN, OTHERS; or fell BEHIND there */
	struct round_robin_place begins;
	TAILQ_ENTRY(watcher) next;
};

struct feed {
	struct view *view;              /* borrowed: its owner */
	TAILQ_HEAD(, watcher) watchers; /* the one whose last changes are the oldest is first */
	/* watchers that are to be told what there is; one after another */
	struct round_robin begin;
	struct watcher *begun; /* the one of them that is being told; NULL: none is */
	struct walk walk;      /* of that, while it is OWN */
	size_t count;          /* of watchers */
	size_t turns;          /* watchers that are still to be told in this turn */
	uint64_t turn_seen;    /* changes up to this order are told to all when the turn is over */
	struct timer work;     /* set while there is something to tell */
	int64_t round_began;   /* the last one */
	struct mirror mirror;
	uint64_t round;                         /* the one in progress, or the last */
	uint64_t query;                         /* 0: none is in progress */
	struct cJSON *missing;                  /* owned: silent hosts of the last round */
	struct timer next_round;                /* set between rounds, while somebody watches */
	bool is_early;                          /* next_round is */
	struct early_round early[EARLY_ROUNDS]; /* the last ones */
	size_t next_early;                      /* the oldest of them */
	bool draining; /* no new watches: the daemon stops and still answers requests */
};

static int64_t
now_of(const struct feed *feed)
{
	return view_now(feed->view);
}

/* There is something to do in slices, a while from now at the latest. */
static void
schedule(struct feed *feed, int64_t wait)
{
	if (!timer_is_set(&feed->work))
		timers_set(feed->view->timers, &feed->work, now_of(feed) + wait);
}

/* For a watch of that user a round begins early, if it may and none goes on. */
static void
want_round(struct feed *feed, int64_t user)
{
	int64_t now = now_of(feed);

	if (feed->query != 0 || feed->is_early)
		return;
	for (size_t i = 0; i < EARLY_ROUNDS; i++) {
		if (feed->early[i].user == user && now - feed->early[i].at < ROUND_EVERY)
			return;
	}
	feed->is_early = true;
	feed->early[feed->next_early++ % EARLY_ROUNDS] =
	    (struct early_round){.user = user, .at = now};
	timers_set(feed->view->timers, &feed->next_round, feed->round_began + ROUND_GAP);
}

/* ---- telling ---- */

/* Takes params. A watcher that has too much to read already is told nothing: it is behind then. */
static void
tell(const struct feed *feed, struct watcher *watcher, const char *method, struct cJSON *params)
{
	const struct view_events *events = &feed->view->events;
	const struct view_peer peer = view_peer(feed->view, watcher->peer);

	if (peer.unread > UNREAD_MAX || peer.room == 0)
		watcher->state = WATCHER_BEHIND;
	if (watcher->state == WATCHER_BEHIND)
		json_free(params);
	else
		events->tell(events->ctx, watcher->peer, watcher->request, method, params);
}

static void
tell_row(const struct feed *feed, struct watcher *watcher, const char *row)
{
	struct cJSON *params = json_new_object();

	json_add(params, "row", json_new_text(row));
	tell(feed, watcher, "row", params);
}

static bool
is_about(const struct feed *feed, const struct watcher *watcher, const char *name)
{
	const struct view_events *events = &feed->view->events;

	if (watcher->name != NULL)
		return strcmp(watcher->name, name) == 0;
	return events->sees(events->ctx, watcher->peer, watcher->request, name);
}

/* ---- changes ---- */

static bool
heeds_changes(const struct watcher *watcher)
{
	return watcher->state != WATCHER_NEW && watcher->state != WATCHER_BEHIND;
}

/* Tells one watcher what it does not know yet. False: the time is over. */
static bool
tell_news(struct feed *feed, struct watcher *watcher, int64_t end)
{
	const struct change *change;
	struct cJSON *params;
	bool knows_others;

	TAILQ_FOREACH (change, &feed->mirror.changes.list, next) {
		if (!heeds_changes(watcher))
			return true;
		if (change->order <= watcher->seen)
			continue;
		/* The watch gets the rows of other daemons when its turn comes. */
		knows_others = watcher->state == WATCHER_LIVE ||
			       (watcher->state == WATCHER_OTHERS && feed->begun == watcher);
		if ((knows_others || !change->elsewhere) && is_about(feed, watcher, change->name)) {
			if (change->row != NULL && change->row_order > watcher->seen)
				tell_row(feed, watcher, change->row);
			if (change->gone) {
				params = json_new_object();
				json_add_string(params, "waiter", change->waiter);
				tell(feed, watcher, "gone", params);
			}
		}
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
		feed->turn_seen = feed->mirror.changes.last;
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
	changes_forget(&feed->mirror.changes, feed->turn_seen);
	return true;
}

/*
 * Something was added to the changes, perhaps. If there are too many, watchers that were not told
 * begin anew.
 */
static void
tell_soon(struct feed *feed)
{
	struct changes *changes = &feed->mirror.changes;
	size_t count = changes_count(changes);
	struct watcher *watcher;

	if (count > 0 && count <= CHANGES_MAX)
		schedule(feed, TELL_EVERY);
	if (count <= CHANGES_MAX)
		return;
	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (heeds_changes(watcher) && watcher->seen < changes->last)
			watcher->state = WATCHER_BEHIND;
	}
	changes_forget(changes, changes->last);
}

void
feed_changed(struct feed *feed, const struct lock_row *source)
{
	char waiter[WIRE_ID_SIZE];

	if (TAILQ_EMPTY(&feed->watchers))
		return;
	wire_id_write(waiter, feed->view->run, source->waiter);
	if (source->state == LOCK_ROW_GONE)
		changes_gone(&feed->mirror.changes, waiter, source->name, false);
	else
		changes_row(&feed->mirror.changes, waiter, source->name, false,
		    view_row(feed->view, source));
	tell_soon(feed);
}

/* ---- the first rows of a watch ---- */

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
	struct lock_row source;
	char *row;

	while (
	    watcher->state == WATCHER_OWN && walk_next(&feed->walk, feed->view->engine, &source)) {
		if (is_about(feed, watcher, source.name)) {
			/* After the first that found no room the others are not written in vain. */
			row = watcher->more > 0 ? NULL : view_row(feed->view, &source);
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

/* The watcher is to be told what there is, when its turn comes. */
static void
begin(struct feed *feed, struct watcher *watcher, enum watcher_state state)
{
	watcher->state = state;
	round_robin_add(&feed->begin, &watcher->begins, watcher->user, watcher);
	schedule(feed, 0);
}

/* It is not, any more. */
static void
end_begin(struct feed *feed, struct watcher *watcher)
{
	if (feed->begun == watcher) {
		feed->begun = NULL;
		walk_end(&feed->walk);
	}
	round_robin_remove(&feed->begin, &watcher->begins);
}

static void
tell_synced(struct feed *feed, struct watcher *watcher)
{
	struct cJSON *params = json_new_object();

	watcher->more += mirror_more(&feed->mirror);
	json_add_integer(params, "more", (int64_t)watcher->more);
	json_add(params, "silent_hosts", json_copy(feed->missing));
	watcher->state = WATCHER_LIVE;
	tell(feed, watcher, "synced", params);
}

/* False: the time is over. */
static bool
begin_all(struct feed *feed, int64_t end)
{
	struct watcher *watcher;

	while ((watcher = feed->begun != NULL ? feed->begun : round_robin_first(&feed->begin)) !=
	       NULL) {
		if (feed->begun == NULL) {
			/* Rows elsewhere that changed before are told with the others. */
			if (watcher->state == WATCHER_OTHERS && !tell_news(feed, watcher, end))
				return false;
			feed->begun = watcher;
			round_robin_pass(&feed->begin);
			if (watcher->state == WATCHER_OTHERS)
				mirror_walk(&feed->mirror);
			if (watcher->state == WATCHER_NEW) {
				watcher->state = WATCHER_OWN;
				watcher->seen = feed->mirror.changes.last;
				watcher->bytes = 0;
				watcher->more = 0;
				walk_begin(&feed->walk, feed->view->engine, watcher->name);
			}
		}
		if (!tell_own(feed, watcher, end) || !tell_others(feed, watcher, end))
			return false;
		end_begin(feed, watcher);
		if (watcher->state == WATCHER_OWN) {
			watcher->state = WATCHER_ROUND;
			/* One that is in progress may be about another name. */
			watcher->round = feed->round + 1;
			want_round(feed, watcher->user);
		} else if (watcher->state == WATCHER_OTHERS) {
			tell_synced(feed, watcher);
		}
	}
	return true;
}

static void
work(void *ctx, uint64_t id)
{
	struct feed *feed = ctx;
	int64_t now = now_of(feed);
	bool swept, told, begun;

	(void)id;
	do {
		swept = !mirror_sweep(&feed->mirror);
	} while (!swept && !view_is_over(feed->view, now + SLICE / 4));
	told = tell_all(feed, now + SLICE / 2);
	begun = begin_all(feed, now + SLICE);
	if (!swept || !told || !begun)
		schedule(feed, REST);
	tell_soon(feed);
}

/* ---- rounds ---- */

/* A watch whose peer has read all that it was sent begins anew. */
static void
resync(struct feed *feed, struct watcher *watcher)
{
	const struct view_peer peer = view_peer(feed->view, watcher->peer);

	if (peer.unread > 0 || peer.room == 0)
		return;
	FAULT(BEHIND_GOES_ON, watcher->state = WATCHER_LIVE; return;);
	begin(feed, watcher, WATCHER_NEW);
	tell(feed, watcher, "resync", json_new_object());
}

static void
end_round(struct feed *feed)
{
	struct watcher *watcher;

	if (feed->query != 0)
		mirror_end_round(&feed->mirror, feed->view->queries, feed->query, feed->round);
	schedule(feed, 0);
	json_free(feed->missing);
	feed->missing = queries_missing(feed->view->queries, feed->query);
	queries_end(feed->view->queries, feed->query);
	feed->query = 0;
	timers_set(feed->view->timers, &feed->next_round, now_of(feed) + ROUND_EVERY);
	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (watcher->state == WATCHER_BEHIND && watcher->begins.user == NULL)
			resync(feed, watcher);
		else if (watcher->state == WATCHER_ROUND && watcher->round <= feed->round)
			begin(feed, watcher, WATCHER_OTHERS);
		else if (watcher->state == WATCHER_ROUND)
			want_round(feed, watcher->user);
	}
}

static void
heard(void *ctx, uint64_t id, const struct daemon_message *answer)
{
	struct feed *feed = ctx;

	(void)id;
	mirror_take(&feed->mirror, answer, feed->round);
	tell_soon(feed);
	if (queries_is_whole(feed->view->queries, feed->query))
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
	struct cJSON *message = queries_message(feed->view->queries, DAEMON_MESSAGE_ROWS, false);
	const char *name = common_name(feed);

	(void)id;
	feed->is_early = false;
	feed->round_began = now_of(feed);
	if (name != NULL)
		json_add_string(message, "name", name);
	feed->round++;
	feed->query = queries_ask(feed->view->queries, ROUND_ROBIN_DAEMONS, DAEMON_MESSAGE_ROWS,
	    message,
	    (struct queries_done){.everybody = true, .heard = heard, .over = over, .ctx = feed});
	if (queries_is_whole(feed->view->queries, feed->query))
		end_round(feed);
}

/* There is no watch any more: forgets the rows of other daemons, in slices. */
static void
stop(struct feed *feed)
{
	queries_end(feed->view->queries, feed->query);
	feed->query = 0;
	timers_cancel(feed->view->timers, &feed->next_round);
	feed->is_early = false;
	feed->turns = 0;
	mirror_forget(&feed->mirror, feed->round);
	schedule(feed, 0);
}

/* ---- watchers ---- */

/* NULL: it is refused. */
static struct watcher *
watcher_new(struct view *view, uint64_t peer, uint64_t request, const char *name)
{
	struct feed *feed = view->feed;
	struct watcher *watcher;

	if (feed->draining) {
		view_refuse(view, peer, request, REASON_DRAINING, NULL);
		return NULL;
	}
	watcher = mem_alloc(sizeof(*watcher));
	watcher->peer = peer;
	watcher->request = request;
	watcher->user = view_peer(view, peer).user;
	watcher->name = name == NULL ? NULL : mem_strdup(name);
	TAILQ_INSERT_TAIL(&feed->watchers, watcher, next);
	feed->count++;
	begin(feed, watcher, WATCHER_NEW);
	if (feed->query == 0 && !timer_is_set(&feed->next_round))
		timers_set(view->timers, &feed->next_round, view_now(view) + ROUND_EVERY);
	return watcher;
}

void
view_watch(struct view *view, uint64_t peer, uint64_t request, const char *name)
{
	(void)watcher_new(view, peer, request, name);
}

/* If it cannot be told now, it is BEHIND, and is told later. */
void
view_watch_again(struct view *view, uint64_t peer, uint64_t request, const char *name)
{
	struct watcher *watcher = watcher_new(view, peer, request, name);

	if (watcher != NULL)
		tell(view->feed, watcher, "resync", json_new_object());
}

static void
watcher_end(struct feed *feed, struct watcher *watcher)
{
	end_begin(feed, watcher);
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
	round_robin_init(&feed->begin);
	for (size_t i = 0; i < EARLY_ROUNDS; i++)
		feed->early[i].user = ROUND_ROBIN_DAEMONS;
	mirror_init(&feed->mirror);
	timer_init(&feed->work, work, feed, 0);
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
	while (mirror_sweep(&feed->mirror))
		continue;
	changes_forget(&feed->mirror.changes, feed->mirror.changes.last);
	json_free(feed->missing);
	free(feed);
}
