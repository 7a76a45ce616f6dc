#include "daemon/view/watch.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/view/queries.h"
#include "daemon/view/row.h"
#include "daemon/view/wire.h"
#include "protocol/json.h"

/*
 * Contents:
 *	Changes: changes_*(): rows that some watch was not told of yet.
 *	Rows of other daemons: mirror_*(): their rows as of the last round; a sweep ends old ones.
 *	When the feed goes on: feed_schedule(), and round_want(), which begins a round early.
 *	Telling: a notification to one watch, unless it is behind.
 *	Changes are told: feed_changed(), feed_tell_all(): each watch in turn.
 *	The first rows of a watch: feed_begin_all(): own rows, then those of other daemons. feed_work(): a slice
 *	   of all this.
 *	Rounds: round_begin(), round_over(): asks the other daemons for their rows.
 *	Watchers: view_watch(), view_cancel(), view_drain(): watches begin and end.
 *	Lifecycle: the feed begins and ends.
 */

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
/* Rounds that a daemon may miss in a row before its rows are gone. */
#define ROUNDS_MISSED_MAX 5
/* Rows of other daemons that are kept in mind; more are not told of. */
#define ROWS_MAX 50000

/*
 * A changed row that some watch was not notified of yet. Only its newest state is kept, as text
 * that all watches share.
 */
struct change {
	char *waiter, *name; /* owned */
	char *row;           /* owned: JSON; NULL: only the end of the row is left to tell */
	bool gone;           /* the row ended after that */
	bool elsewhere;      /* the row belongs to another daemon */
	uint64_t row_order;  /* of the last change that had a row */
	uint64_t order;      /* of the last change */
	TAILQ_ENTRY(change) next;
	UT_hash_handle hh;
};

struct changes {
	TAILQ_HEAD(change_list, change) list; /* by order */
	struct change *by_waiter;             /* owned */
	uint64_t last;                        /* order of the newest change so far */
};

/* A row of another daemon. */
struct mirrored {
	char *waiter;      /* owned */
	struct cJSON *row; /* owned */
	uint32_t run;
	uint64_t round; /* in which it was said last */
	UT_hash_handle hh;
};

/* A daemon that has been heard in a round. */
struct mirror_teller {
	uint32_t run;
	uint64_t more;     /* rows that it left out, in the round that it was heard in last */
	uint64_t answered; /* the last round to which it gave its whole answer */
	unsigned missed;   /* rounds since then */
	UT_hash_handle hh;
};

/* The rows of other daemons as of their last round, and the changes of all rows. */
struct mirror {
	struct mirrored *rows;         /* owned */
	struct mirrored *next;         /* the next row of a walk */
	struct mirrored *sweep;        /* the next row of a sweep; NULL: none runs */
	uint64_t swept;                /* the sweep removes rows older than this round */
	struct mirror_teller *tellers; /* owned */
	struct changes changes;        /* of the rows above and of our own rows */
};

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
	struct view_ask ask;            /* of the round in progress */
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
	struct cJSON *missing;                  /* owned: silent hosts of the last round */
	struct timer next_round;                /* set between rounds, while somebody watches */
	bool is_early;                          /* next_round is */
	struct early_round early[EARLY_ROUNDS]; /* the last ones */
	size_t next_early;                      /* the oldest of them */
	bool draining; /* no new watches: the daemon stops and still answers requests */
};

/* ---- changes ---- */

/* That of a row, which is the newest now; made when it has none. */
static struct change *
change_touch(struct changes *changes, const char *waiter, const char *name, bool elsewhere)
{
	struct change *change;

	HASH_FIND(hh, changes->by_waiter, waiter, strlen(waiter), change);
	if (change == NULL) {
		change = mem_alloc(sizeof(*change));
		change->waiter = mem_strdup(waiter);
		change->name = mem_strdup(name);
		change->elsewhere = elsewhere;
		HASH_ADD_KEYPTR(
		    hh, changes->by_waiter, change->waiter, strlen(change->waiter), change);
	} else {
		TAILQ_REMOVE(&changes->list, change, next);
	}
	TAILQ_INSERT_TAIL(&changes->list, change, next);
	change->order = ++changes->last;
	return change;
}

/* Notes a new or changed row. */
static void
changes_row(struct changes *changes, const struct cJSON *row, bool elsewhere)
{
	struct change *change = change_touch(changes, row_waiter(row), row_name(row), elsewhere);

	free(change->row);
	change->row = json_print(row);
	change->row_order = change->order;
	change->gone = false;
}

/* Notes the end of a row. */
static void
changes_gone(struct changes *changes, const char *waiter, const char *name, bool elsewhere)
{
	change_touch(changes, waiter, name, elsewhere)->gone = true;
}

/* Every watch was notified of the changes up to that order: forgets them. */
static void
changes_forget(struct changes *changes, uint64_t order)
{
	struct change *change;

	while ((change = TAILQ_FIRST(&changes->list)) != NULL && change->order <= order) {
		TAILQ_REMOVE(&changes->list, change, next);
		HASH_DELETE(hh, changes->by_waiter, change);
		free(change->waiter);
		free(change->name);
		free(change->row);
		free(change);
	}
}

/* ---- rows of other daemons ---- */

static void
mirrored_forget(struct mirror *mirror, struct mirrored *mirrored)
{
	if (mirror->next == mirrored)
		mirror->next = mirrored->hh.next;
	if (mirror->sweep == mirrored)
		mirror->sweep = mirrored->hh.next;
	HASH_DELETE(hh, mirror->rows, mirrored);
	json_free(mirrored->row);
	free(mirrored->waiter);
	free(mirrored);
}

static struct mirror_teller *
teller_find(const struct mirror *mirror, uint32_t run)
{
	struct mirror_teller *teller;

	HASH_FIND(hh, mirror->tellers, &run, sizeof(run), teller);
	return teller;
}

static void
teller_forget(struct mirror *mirror, struct mirror_teller *teller)
{
	HASH_DELETE(hh, mirror->tellers, teller);
	free(teller);
}

/* Takes the row. */
static void
mirror_take_row(struct mirror *mirror, uint32_t run, uint64_t round, struct cJSON *row)
{
	const char *waiter = row_waiter(row);
	struct mirrored *mirrored;

	HASH_FIND(hh, mirror->rows, waiter, strlen(waiter), mirrored);
	if (mirrored == NULL) {
		if (HASH_CNT(hh, mirror->rows) >= ROWS_MAX) {
			json_free(row);
			return;
		}
		mirrored = mem_alloc(sizeof(*mirrored));
		mirrored->waiter = mem_strdup(waiter);
		mirrored->run = run;
		HASH_ADD_KEYPTR(
		    hh, mirror->rows, mirrored->waiter, strlen(mirrored->waiter), mirrored);
	}
	mirrored->round = round;
	if (mirrored->row == NULL || !row_same(mirrored->row, row))
		changes_row(&mirror->changes, row, true);
	json_free(mirrored->row);
	mirrored->row = row;
}

/* Takes the rows of a daemon's answer in a round. */
static void
mirror_take(struct mirror *mirror, const struct daemon_message *answer, uint64_t round)
{
	struct mirror_teller *teller = teller_find(mirror, answer->run);

	for (const struct cJSON *row = json_first(answer->rows); row != NULL;
	     row = json_next(row)) {
		if (row_is_sane(row, answer->run, answer->host))
			mirror_take_row(mirror, answer->run, round, row_copy(row));
	}
	if (teller == NULL) {
		if (HASH_CNT(hh, mirror->tellers) >= QUERIES_HOSTS_MAX)
			return;
		teller = mem_alloc(sizeof(*teller));
		teller->run = answer->run;
		HASH_ADD(hh, mirror->tellers, run, sizeof(teller->run), teller);
	}
	if (answer->last) {
		teller->more = answer->more;
		teller->answered = round;
	}
}

/*
 * Begins a sweep. It ends the rows that this round did not have. A daemon that has missed only a
 * few rounds keeps its rows.
 */
static void
mirror_end_round(struct mirror *mirror, uint64_t round)
{
	struct mirror_teller *teller, *next;

	HASH_ITER (hh, mirror->tellers, teller, next) {
		if (teller->answered == round)
			teller->missed = 0;
		else if (++teller->missed > ROUNDS_MISSED_MAX)
			teller_forget(mirror, teller);
	}
	mirror->sweep = mirror->rows;
	mirror->swept = round;
}

/* Begins a sweep that ends all rows up to that round. */
static void
mirror_forget(struct mirror *mirror, uint64_t round)
{
	struct mirror_teller *teller, *next;

	HASH_ITER (hh, mirror->tellers, teller, next)
		teller_forget(mirror, teller);
	mirror->sweep = mirror->rows;
	mirror->swept = round + 1;
}

/* Sweeps one row. False: the sweep is over. */
static bool
mirror_sweep(struct mirror *mirror)
{
	struct mirrored *mirrored = mirror->sweep;
	const struct mirror_teller *teller;

	if (mirrored == NULL)
		return false;
	mirror->sweep = mirrored->hh.next;
	teller = teller_find(mirror, mirrored->run);
	FAULT(SILENT_IS_GONE, teller = NULL);
	if (mirrored->round < mirror->swept && (teller == NULL || teller->missed == 0)) {
		changes_gone(&mirror->changes, mirrored->waiter, row_name(mirrored->row), true);
		mirrored_forget(mirror, mirrored);
	}
	return true;
}

/* borrowed; NULL: the walk is over */
static const struct cJSON *
mirror_next(struct mirror *mirror)
{
	const struct mirrored *mirrored = mirror->next;

	if (mirrored == NULL)
		return NULL;
	mirror->next = mirrored->hh.next;
	return mirrored->row;
}

/* The number of rows that other daemons left out of their answers. */
static uint64_t
mirror_more(const struct mirror *mirror)
{
	uint64_t more = 0;

	for (const struct mirror_teller *teller = mirror->tellers; teller != NULL;
	     teller = teller->hh.next)
		more += teller->more;
	return more;
}

/* ---- when the feed goes on ---- */

/* There is something to do in slices, a while from now at the latest. */
static void
feed_schedule(struct feed *feed, int64_t wait)
{
	if (!timer_is_set(&feed->work))
		timers_set(feed->view->timers, &feed->work, view_now(feed->view) + wait);
}

/* For a watch of that user a round begins early, if it may and none goes on. */
static void
round_want(struct feed *feed, int64_t user)
{
	int64_t now = view_now(feed->view);

	if (feed->ask.query != 0 || feed->is_early)
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
watcher_tell(
    const struct feed *feed, struct watcher *watcher, const char *method, struct cJSON *params)
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
watcher_tell_row(const struct feed *feed, struct watcher *watcher, const char *row)
{
	struct cJSON *params = json_new_object();

	json_add(params, "row", json_new_text(row));
	watcher_tell(feed, watcher, "row", params);
}

static bool
watcher_is_about(const struct feed *feed, const struct watcher *watcher, const char *name)
{
	const struct view_events *events = &feed->view->events;

	if (watcher->name != NULL)
		return strcmp(watcher->name, name) == 0;
	return events->sees(events->ctx, watcher->peer, watcher->request, name);
}

/* ---- changes are told ---- */

static bool
watcher_heeds_changes(const struct watcher *watcher)
{
	return watcher->state != WATCHER_NEW && watcher->state != WATCHER_BEHIND;
}

/* Tells one watcher what it does not know yet. False: the time is over. */
static bool
watcher_tell_news(struct feed *feed, struct watcher *watcher, int64_t end)
{
	const struct change *change;
	struct cJSON *params;
	bool knows_others;

	TAILQ_FOREACH (change, &feed->mirror.changes.list, next) {
		if (!watcher_heeds_changes(watcher))
			return true;
		if (change->order <= watcher->seen)
			continue;
		/* The watch gets the rows of other daemons when its turn comes. */
		knows_others = watcher->state == WATCHER_LIVE ||
			       (watcher->state == WATCHER_OTHERS && feed->begun == watcher);
		if ((knows_others || !change->elsewhere) &&
		    watcher_is_about(feed, watcher, change->name)) {
			if (change->row != NULL && change->row_order > watcher->seen)
				watcher_tell_row(feed, watcher, change->row);
			if (change->gone) {
				params = json_new_object();
				json_add_string(params, "waiter", change->waiter);
				watcher_tell(feed, watcher, "gone", params);
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
feed_tell_all(struct feed *feed, int64_t end)
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
		if (!watcher_tell_news(feed, watcher, end))
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
feed_tell_soon(struct feed *feed)
{
	struct changes *changes = &feed->mirror.changes;
	size_t count = HASH_CNT(hh, changes->by_waiter);
	struct watcher *watcher;

	if (count > 0 && count <= CHANGES_MAX)
		feed_schedule(feed, TELL_EVERY);
	if (count <= CHANGES_MAX)
		return;
	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (watcher_heeds_changes(watcher) && watcher->seen < changes->last)
			watcher->state = WATCHER_BEHIND;
	}
	changes_forget(changes, changes->last);
}

void
feed_changed(struct feed *feed, const struct lock_row *source)
{
	char waiter[WIRE_ID_SIZE];
	struct cJSON *row;

	if (TAILQ_EMPTY(&feed->watchers))
		return;
	if (source->state == LOCK_ROW_GONE) {
		wire_id_write(waiter, feed->view->run, source->waiter);
		changes_gone(&feed->mirror.changes, waiter, source->name, false);
	} else {
		row = view_row(feed->view, source);
		changes_row(&feed->mirror.changes, row, false);
		json_free(row);
	}
	feed_tell_soon(feed);
}

/* ---- the first rows of a watch ---- */

/* There may be too much of that. */
static void
watcher_tell_first(const struct feed *feed, struct watcher *watcher, const struct cJSON *row)
{
	char *text = json_print(row);
	size_t size = strlen(text) + 1;

	if (watcher->bytes + size > BEGIN_MAX) {
		watcher->more++;
	} else {
		watcher->bytes += size;
		watcher_tell_row(feed, watcher, text);
	}
	free(text);
}

/* False: the time is over. */
static bool
watcher_tell_own(struct feed *feed, struct watcher *watcher, int64_t end)
{
	struct lock_row source;
	struct cJSON *row;

	while (
	    watcher->state == WATCHER_OWN && walk_next(&feed->walk, feed->view->engine, &source)) {
		if (watcher_is_about(feed, watcher, source.name)) {
			/* After the first that found no room the others are not written in vain. */
			if (watcher->more > 0) {
				watcher->more++;
			} else {
				row = view_row(feed->view, &source);
				watcher_tell_first(feed, watcher, row);
				json_free(row);
			}
		}
		if (view_is_over(feed->view, end))
			return false;
	}
	return true;
}

static bool
watcher_tell_others(struct feed *feed, struct watcher *watcher, int64_t end)
{
	const struct cJSON *row;

	while (watcher->state == WATCHER_OTHERS && (row = mirror_next(&feed->mirror)) != NULL) {
		if (watcher_is_about(feed, watcher, row_name(row)))
			watcher_tell_first(feed, watcher, row);
		if (view_is_over(feed->view, end))
			return false;
	}
	return true;
}

/* The watcher is to be told what there is, when its turn comes. */
static void
watcher_begin(struct feed *feed, struct watcher *watcher, enum watcher_state state)
{
	watcher->state = state;
	round_robin_add(&feed->begin, &watcher->begins, watcher->user, watcher);
	feed_schedule(feed, 0);
}

/* It is not, any more. */
static void
watcher_end_begin(struct feed *feed, struct watcher *watcher)
{
	if (feed->begun == watcher) {
		feed->begun = NULL;
		walk_end(&feed->walk);
	}
	round_robin_remove(&feed->begin, &watcher->begins);
}

static void
watcher_tell_synced(struct feed *feed, struct watcher *watcher)
{
	struct cJSON *params = json_new_object();

	watcher->more += mirror_more(&feed->mirror);
	json_add_integer(params, "more", (int64_t)watcher->more);
	json_add(params, "silent_hosts", json_copy(feed->missing));
	watcher->state = WATCHER_LIVE;
	watcher_tell(feed, watcher, "synced", params);
}

/* False: the time is over. */
static bool
feed_begin_all(struct feed *feed, int64_t end)
{
	struct watcher *watcher;

	while ((watcher = feed->begun != NULL ? feed->begun : round_robin_first(&feed->begin)) !=
	       NULL) {
		if (feed->begun == NULL) {
			/* Rows elsewhere that changed before are told with the others. */
			if (watcher->state == WATCHER_OTHERS &&
			    !watcher_tell_news(feed, watcher, end))
				return false;
			feed->begun = watcher;
			round_robin_pass(&feed->begin);
			if (watcher->state == WATCHER_OTHERS)
				feed->mirror.next = feed->mirror.rows;
			if (watcher->state == WATCHER_NEW) {
				watcher->state = WATCHER_OWN;
				watcher->seen = feed->mirror.changes.last;
				watcher->bytes = 0;
				watcher->more = 0;
				walk_begin(&feed->walk, feed->view->engine, watcher->name);
			}
		}
		if (!watcher_tell_own(feed, watcher, end) ||
		    !watcher_tell_others(feed, watcher, end))
			return false;
		watcher_end_begin(feed, watcher);
		if (watcher->state == WATCHER_OWN) {
			watcher->state = WATCHER_ROUND;
			/* One that is in progress may be about another name. */
			watcher->round = feed->round + 1;
			round_want(feed, watcher->user);
		} else if (watcher->state == WATCHER_OTHERS) {
			watcher_tell_synced(feed, watcher);
		}
	}
	return true;
}

static void
feed_work(void *ctx, uint64_t id)
{
	struct feed *feed = ctx;
	int64_t now = view_now(feed->view);
	bool swept, told, begun;

	(void)id;
	do {
		swept = !mirror_sweep(&feed->mirror);
	} while (!swept && !view_is_over(feed->view, now + SLICE / 4));
	told = feed_tell_all(feed, now + SLICE / 2);
	begun = feed_begin_all(feed, now + SLICE);
	if (!swept || !told || !begun)
		feed_schedule(feed, REST);
	feed_tell_soon(feed);
}

/* ---- rounds ---- */

/* A watch whose peer has read all that it was sent begins anew. */
static void
watcher_resync(struct feed *feed, struct watcher *watcher)
{
	const struct view_peer peer = view_peer(feed->view, watcher->peer);

	if (peer.unread > 0 || peer.room == 0)
		return;
	FAULT(BEHIND_GOES_ON, watcher->state = WATCHER_LIVE; return;);
	watcher_begin(feed, watcher, WATCHER_NEW);
	watcher_tell(feed, watcher, "resync", json_new_object());
}

static void
round_over(struct view *view, struct view_ask *ask)
{
	struct feed *feed = (struct feed *)ask;
	struct watcher *watcher;

	if (ask->is_sent)
		mirror_end_round(&feed->mirror, feed->round);
	feed_schedule(feed, 0);
	json_free(feed->missing);
	feed->missing = ask->missing;
	ask->missing = NULL;
	timers_set(view->timers, &feed->next_round, view_now(view) + ROUND_EVERY);
	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (watcher->state == WATCHER_BEHIND && watcher->begins.user == NULL)
			watcher_resync(feed, watcher);
		else if (watcher->state == WATCHER_ROUND && watcher->round <= feed->round)
			watcher_begin(feed, watcher, WATCHER_OTHERS);
		else if (watcher->state == WATCHER_ROUND)
			round_want(feed, watcher->user);
	}
}

static void
round_heard(struct view *view, struct view_ask *ask, const struct daemon_message *answer)
{
	struct feed *feed = (struct feed *)ask;

	(void)view;
	mirror_take(&feed->mirror, answer, feed->round);
	feed_tell_soon(feed);
}

/* The one name that all watch; NULL: there is none such. */
static const char *
feed_common_name(const struct feed *feed)
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
round_begin(void *ctx, uint64_t id)
{
	struct feed *feed = ctx;
	struct cJSON *message = queries_message(feed->view->queries, DAEMON_MESSAGE_ROWS, false);
	const char *name = feed_common_name(feed);

	(void)id;
	feed->is_early = false;
	feed->round_began = view_now(feed->view);
	if (name != NULL)
		json_add_string(message, "name", name);
	feed->round++;
	view_ask_begin(feed->view, &feed->ask, DAEMON_MESSAGE_ROWS, message, true);
	view_ask_check(feed->view, &feed->ask);
}

/* There is no watch any more: forgets the rows of other daemons, in slices. */
static void
feed_stop(struct feed *feed)
{
	view_ask_end(feed->view, &feed->ask);
	timers_cancel(feed->view->timers, &feed->next_round);
	feed->is_early = false;
	feed->turns = 0;
	mirror_forget(&feed->mirror, feed->round);
	feed_schedule(feed, 0);
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
	watcher_begin(feed, watcher, WATCHER_NEW);
	if (feed->ask.query == 0 && !timer_is_set(&feed->next_round))
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
		watcher_tell(view->feed, watcher, "resync", json_new_object());
}

static void
watcher_end(struct feed *feed, struct watcher *watcher)
{
	watcher_end_begin(feed, watcher);
	TAILQ_REMOVE(&feed->watchers, watcher, next);
	if (feed->turns > --feed->count)
		feed->turns = feed->count;
	free(watcher->name);
	free(watcher);
	if (TAILQ_EMPTY(&feed->watchers))
		feed_stop(feed);
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
	feed->ask.user = ROUND_ROBIN_DAEMONS;
	feed->ask.heard = round_heard;
	feed->ask.over = round_over;
	TAILQ_INIT(&feed->watchers);
	round_robin_init(&feed->begin);
	for (size_t i = 0; i < EARLY_ROUNDS; i++)
		feed->early[i].user = ROUND_ROBIN_DAEMONS;
	TAILQ_INIT(&feed->mirror.changes.list);
	timer_init(&feed->work, feed_work, feed, 0);
	timer_init(&feed->next_round, round_begin, feed, 0);
	return feed;
}

void
feed_free(struct feed *feed)
{
	struct watcher *watcher;

	while ((watcher = TAILQ_FIRST(&feed->watchers)) != NULL)
		watcher_end(feed, watcher);
	feed_stop(feed);
	timers_cancel(feed->view->timers, &feed->work);
	while (mirror_sweep(&feed->mirror))
		continue;
	changes_forget(&feed->mirror.changes, feed->mirror.changes.last);
	json_free(feed->missing);
	free(feed);
}
