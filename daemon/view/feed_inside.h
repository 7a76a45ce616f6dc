/*
 * The inside of watches, shared by feed (their lives, and the rounds in which the other daemons are asked)
 * and feed_tell (what they are told).
 *
 * Watches: what there is, then what changes. Changes are noted when they come, and told together a moment
 * later: each row once, in its newest state, as text that all watches share. While somebody watches, the
 * other daemons are asked for their rows every second, and what they say is compared with what they said
 * before (the mirror).
 *
 *	NEW		it has its turn to begin soon: watches begin one after another, and users take turns
 *	OWN		it is being told what there is here, and what of that changes meanwhile
 *	ROUND		what there is elsewhere follows when the next round is over
 *	OTHERS		it is being told that
 *	LIVE		`synced` was sent: it is sent changes
 *	BEHIND		it has not read what it was sent: it is sent nothing, until it has read all of it;
 *			then `resync`, and it is NEW
 *
 * All of that is done in slices of time, with rests between them, as holders must not feel who looks on.
 */
#ifndef VIEW_FEED_INSIDE_H
#define VIEW_FEED_INSIDE_H

#include "daemon/view/changes.h"
#include "daemon/view/inside.h"
#include "daemon/view/mirror.h"

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
 * For a watch that begins, a round begins early: so long after the last one. Each user has one early round in
 * ROUND_EVERY.
 */
#define ROUND_GAP (100 * NSEC_PER_MSEC)
#define EARLY_ROUNDS (ROUND_EVERY / ROUND_GAP)

/* A round that began early. */
struct early_round {
	int64_t user, at;
};

struct watcher {
	uint64_t peer, request;
	int64_t user;
	char *name; /* owned; NULL: all */
	enum watcher_state state;
	uint64_t seen;      /* OWN to LIVE: changes up to this order are told */
	uint64_t round;     /* ROUND: with which that ends, or a later one */
	size_t bytes;       /* OWN to OTHERS: of rows sent */
	uint64_t more;      /* OWN to OTHERS: rows left out */
	struct turn begins; /* to be told what there is: NEW, OWN, OTHERS; or fell BEHIND there */
	TAILQ_ENTRY(watcher) next;
};

struct feed {
	struct view *view;              /* borrowed: its owner */
	TAILQ_HEAD(, watcher) watchers; /* who was told of changes longest ago comes first */
	struct turns begin;    /* watchers that are to be told what there is; one after another */
	struct watcher *begun; /* the one of them that is being told; NULL: none is */
	struct walk walk;      /* of that, while it is OWN */
	struct changes changes;
	size_t count;        /* of watchers */
	size_t turns;        /* watchers that are still to be told in this turn */
	uint64_t turn_seen;  /* changes up to this order are told to all when the turn is over */
	struct timer work;   /* set while there is something to tell */
	int64_t round_began; /* the last one */
	struct mirror mirror;
	uint64_t round;                         /* the one in progress, or the last */
	uint64_t inquiry;                       /* 0: none is in progress */
	struct cJSON *missing;                  /* owned: who did not answer in the last round */
	struct timer next_round;                /* set between rounds, while somebody watches */
	bool is_early;                          /* next_round is */
	struct early_round early[EARLY_ROUNDS]; /* the last ones */
	size_t next_early;                      /* the oldest of them */
	bool draining; /* nobody may watch any more: the daemon waits for who is owed */
};

/* feed.c. For a watch of that user a round is to begin early, if it may and none goes on. */
void feed_want_round(struct feed *feed, int64_t user);

/* feed_tell.c. A notification. */
void feed_tell(const struct feed *feed, const struct watcher *watcher, const char *method,
    struct cJSON *params);
/* There is something to do that is done in slices. */
void feed_work_soon(struct feed *feed);
/* Something was added to the changes, perhaps. */
void feed_tell_soon(struct feed *feed);
/* The watcher is to be told what there is, when its turn comes. */
void feed_begin(struct feed *feed, struct watcher *watcher, enum watcher_state state);
/* It is not, any more. */
void feed_end_begin(struct feed *feed, struct watcher *watcher);
/* Of the timer `work`. */
void feed_work(void *ctx, uint64_t id);

#endif
