#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/view/inside.h"
#include "protocol/json.h"

/*
 * Watches: what there is, then what changes. What the engine says of its rows is passed on at once.
 * While somebody watches, the others are asked for theirs every second, and what they say is compared
 * with what they said before (the mirror).
 *
 *	BEGINNING	it was sent what there is here; what there is elsewhere follows with the next round
 *	LIVE		`synced` was sent: it is sent changes
 *	BEHIND		it has not read what it was sent: it is sent nothing, until it has read all of it;
 *			then `resync`, and it begins anew
 */
enum watcher_state { WATCHER_BEGINNING, WATCHER_LIVE, WATCHER_BEHIND };

#define ROUND_EVERY NSEC_PER_SEC
/* Bytes of rows of a beginning; what is left out is counted. */
#define BEGIN_MAX ((size_t)1024 * 1024)
/* Bytes left unread with which a watcher is behind: more than a beginning has. */
#define UNREAD_MAX ((size_t)2 * 1024 * 1024)
/* Rounds that a daemon may miss in a row before its rows are gone. */
#define ROUNDS_MISSED_MAX 5
/* Rows of other daemons that are kept in mind; more are not told of. */
#define MIRROR_MAX 50000

struct watcher {
	uint64_t peer, request;
	char *name; /* owned; NULL: all */
	enum watcher_state state;
	uint64_t round; /* BEGINNING: the round with which that ends, or a later one */
	size_t bytes;   /* BEGINNING: of rows sent */
	uint64_t more;  /* BEGINNING: rows left out */
	TAILQ_ENTRY(watcher) next;
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
struct teller {
	uint32_t run;
	uint64_t more;   /* rows that it left out, in the round that it was heard in last */
	unsigned missed; /* rounds since then */
	UT_hash_handle hh;
};

struct feed {
	struct view *view; /* borrowed: its owner */
	TAILQ_HEAD(, watcher) watchers;
	struct mirrored *mirror; /* owned */
	struct teller *tellers;  /* owned */
	uint64_t round;          /* the one in progress, or the last */
	uint64_t inquiry;        /* 0: none is in progress */
	struct timer next_round; /* set between rounds, while somebody watches */
	bool draining;           /* nobody may watch any more: the daemon waits for who is owed */
};

/* ---- telling ---- */

static void
tell(const struct feed *feed, const struct watcher *watcher, const char *method,
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

static void
tell_row(const struct feed *feed, struct watcher *watcher, const struct cJSON *row)
{
	struct cJSON *params;

	if (!is_about(feed, watcher, row_name(row)) || falls_behind(feed, watcher))
		return;
	params = json_new_object();
	json_add(params, "row", json_copy(row));
	tell(feed, watcher, "row", params);
}

static void
tell_gone(const struct feed *feed, struct watcher *watcher, const char *name, const char *waiter)
{
	struct cJSON *params;

	if (!is_about(feed, watcher, name) || falls_behind(feed, watcher))
		return;
	params = json_new_object();
	json_add_string(params, "waiter", waiter);
	tell(feed, watcher, "gone", params);
}

/* As a part of what there is: there may be too much of that. */
static void
tell_first(const struct feed *feed, struct watcher *watcher, const struct cJSON *row)
{
	size_t size;

	if (!is_about(feed, watcher, row_name(row)))
		return;
	size = row_size(row);
	if (watcher->bytes + size > BEGIN_MAX) {
		watcher->more++;
		return;
	}
	watcher->bytes += size;
	tell_row(feed, watcher, row);
}

/* ---- our own rows ---- */

void
feed_changed(struct feed *feed, const struct lock_party *party)
{
	struct row_facts facts;
	struct watcher *watcher;
	struct cJSON *row;

	if (TAILQ_EMPTY(&feed->watchers))
		return;
	facts = view_facts(feed->view);
	row = row_new(&facts, party);
	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (party->state == LOCK_PARTY_GONE)
			tell_gone(feed, watcher, party->name, row_waiter(row));
		else
			tell_row(feed, watcher, row);
	}
	json_free(row);
}

struct beginner {
	const struct feed *feed;
	struct watcher *watcher;
	struct row_facts facts;
};

static void
tell_own(void *ctx, const struct lock_party *party)
{
	const struct beginner *beginner = ctx;
	struct cJSON *row;

	/* It begins anew when it has read. */
	if (beginner->watcher->state == WATCHER_BEHIND)
		return;
	if (beginner->watcher->more > 0) {
		beginner->watcher->more += is_about(beginner->feed, beginner->watcher, party->name);
		return;
	}
	row = row_new(&beginner->facts, party);
	tell_first(beginner->feed, beginner->watcher, row);
	json_free(row);
}

static void
begin(struct feed *feed, struct watcher *watcher)
{
	struct beginner beginner = {
	    .feed = feed, .watcher = watcher, .facts = view_facts(feed->view)};

	watcher->state = WATCHER_BEGINNING;
	/* One that is in progress may be about another name. */
	watcher->round = feed->round + 1;
	watcher->bytes = 0;
	watcher->more = 0;
	lock_each(feed->view->engine, watcher->name, tell_own, &beginner);
}

/* ---- those of others ---- */

static void
mirrored_forget(struct feed *feed, struct mirrored *mirrored)
{
	HASH_DELETE(hh, feed->mirror, mirrored);
	json_free(mirrored->row);
	free(mirrored->waiter);
	free(mirrored);
}

static struct teller *
teller_find(const struct feed *feed, uint32_t run)
{
	struct teller *teller;

	HASH_FIND(hh, feed->tellers, &run, sizeof(run), teller);
	return teller;
}

static void
teller_forget(struct feed *feed, struct teller *teller)
{
	HASH_DELETE(hh, feed->tellers, teller);
	free(teller);
}

/* Who began gets it with the rest, when the round is over. */
static void
tell_live_row(const struct feed *feed, const struct cJSON *row)
{
	struct watcher *watcher;

	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		if (watcher->state == WATCHER_LIVE)
			tell_row(feed, watcher, row);
	}
}

/* Takes the row. */
static void
take_row(struct feed *feed, uint32_t run, struct cJSON *row)
{
	const char *waiter = row_waiter(row);
	struct mirrored *mirrored;

	HASH_FIND(hh, feed->mirror, waiter, strlen(waiter), mirrored);
	if (mirrored == NULL) {
		if (HASH_CNT(hh, feed->mirror) >= MIRROR_MAX) {
			json_free(row);
			return;
		}
		mirrored = mem_alloc(sizeof(*mirrored));
		mirrored->waiter = mem_strdup(waiter);
		mirrored->run = run;
		HASH_ADD_KEYPTR(
		    hh, feed->mirror, mirrored->waiter, strlen(mirrored->waiter), mirrored);
	}
	mirrored->round = feed->round;
	if (mirrored->row == NULL || !row_same(mirrored->row, row))
		tell_live_row(feed, row);
	json_free(mirrored->row);
	mirrored->row = row;
}

static void
take_teller(struct feed *feed, const struct letter *answer)
{
	struct teller *teller = teller_find(feed, answer->run);

	if (teller == NULL) {
		if (HASH_CNT(hh, feed->tellers) >= INSPECT_HOSTS_MAX)
			return;
		teller = mem_alloc(sizeof(*teller));
		teller->run = answer->run;
		HASH_ADD(hh, feed->tellers, run, sizeof(teller->run), teller);
	}
	if (answer->last)
		teller->more = answer->more;
}

/* Whether what that daemon does not say any more is gone. */
static bool
has_spoken(const struct feed *feed, uint32_t run)
{
	return inspect_has_answered(feed->view->inspect, feed->inquiry, run) ||
	       teller_find(feed, run) == NULL;
}

static void
forget_the_silent(struct feed *feed)
{
	struct teller *teller, *next;

	HASH_ITER (hh, feed->tellers, teller, next) {
		if (inspect_has_answered(feed->view->inspect, feed->inquiry, teller->run))
			teller->missed = 0;
		else if (++teller->missed > ROUNDS_MISSED_MAX)
			teller_forget(feed, teller);
	}
}

static void
forget_the_gone(struct feed *feed)
{
	struct mirrored *mirrored, *next;
	struct watcher *watcher;

	HASH_ITER (hh, feed->mirror, mirrored, next) {
		if (mirrored->round == feed->round || !has_spoken(feed, mirrored->run))
			continue;
		TAILQ_FOREACH (watcher, &feed->watchers, next) {
			if (watcher->state == WATCHER_LIVE)
				tell_gone(feed, watcher, row_name(mirrored->row), mirrored->waiter);
		}
		mirrored_forget(feed, mirrored);
	}
}

/* ---- rounds ---- */

static void
end_beginning(struct feed *feed, struct watcher *watcher)
{
	const struct mirrored *mirrored;
	const struct teller *teller;
	struct cJSON *params;

	for (mirrored = feed->mirror; mirrored != NULL; mirrored = mirrored->hh.next)
		tell_first(feed, watcher, mirrored->row);
	if (watcher->state == WATCHER_BEHIND)
		return;
	params = json_new_object();
	for (teller = feed->tellers; teller != NULL; teller = teller->hh.next)
		watcher->more += teller->more;
	json_add_integer(params, "more", (int64_t)watcher->more);
	json_add(params, "unknown_hosts", inspect_missing(feed->view->inspect, feed->inquiry));
	watcher->state = WATCHER_LIVE;
	tell(feed, watcher, "synced", params);
}

/* Whoever has read all that it was sent may begin anew. */
static void
resync(struct feed *feed, struct watcher *watcher)
{
	const struct view_listener *listener = &feed->view->listener;

	if (listener->unread(listener->ctx, watcher->peer) > 0 ||
	    listener->room(listener->ctx, watcher->peer) == 0)
		return;
	tell(feed, watcher, "resync", json_new_object());
	begin(feed, watcher);
}

static void
end_round(struct feed *feed)
{
	int64_t next = clock_now(timers_clock(feed->view->timers));
	bool pending = false;
	struct watcher *watcher;

	if (feed->inquiry != 0) {
		forget_the_silent(feed);
		forget_the_gone(feed);
	}
	TAILQ_FOREACH (watcher, &feed->watchers, next) {
		switch (watcher->state) {
		case WATCHER_BEGINNING:
			if (watcher->round <= feed->round)
				end_beginning(feed, watcher);
			else
				pending = true;
			break;
		case WATCHER_LIVE:
			break;
		case WATCHER_BEHIND:
			resync(feed, watcher);
			break;
		}
	}
	inspect_end(feed->view->inspect, feed->inquiry);
	feed->inquiry = 0;
	timers_set(feed->view->timers, &feed->next_round, pending ? next : next + ROUND_EVERY);
}

static void
heard(void *ctx, uint64_t id, const struct letter *answer)
{
	struct feed *feed = ctx;

	(void)id;
	for (const struct cJSON *row = json_first(answer->rows); row != NULL;
	     row = json_next(row)) {
		if (row_is_sane(row, answer->run, answer->host))
			take_row(feed, answer->run, row_copy(row));
	}
	take_teller(feed, answer);
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
	if (name != NULL)
		json_add_string(letter, "name", name);
	feed->round++;
	feed->inquiry = inspect_ask(feed->view->inspect, LETTER_ROWS, letter,
	    (struct inspect_done){.everybody = true, .heard = heard, .over = over, .ctx = feed});
	if (inspect_is_whole(feed->view->inspect, feed->inquiry))
		end_round(feed);
}

/* Nobody watches any more: what others said is forgotten. */
static void
stop(struct feed *feed)
{
	struct mirrored *mirrored, *next;
	struct teller *teller, *next_teller;

	inspect_end(feed->view->inspect, feed->inquiry);
	feed->inquiry = 0;
	timers_cancel(feed->view->timers, &feed->next_round);
	HASH_ITER (hh, feed->mirror, mirrored, next)
		mirrored_forget(feed, mirrored);
	HASH_ITER (hh, feed->tellers, teller, next_teller)
		teller_forget(feed, teller);
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
	begin(feed, watcher);
	if (feed->inquiry == 0)
		timers_set(view->timers, &feed->next_round, clock_now(timers_clock(view->timers)));
}

static void
watcher_end(struct feed *feed, struct watcher *watcher)
{
	TAILQ_REMOVE(&feed->watchers, watcher, next);
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
	free(feed);
}
