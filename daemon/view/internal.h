/*
 * The inside of the view, for the files of this folder alone. Other folders include view.h. The
 * files, from below:
 *
 *	wire_id, row, daemon_message	ids, rows and messages: pure
 *	round_robin			users take turns
 *	queries				asks the other daemons
 *	internal			jobs, requests, a walk through our own rows
 *	responder			answers the other daemons
 *	show				rows of one name
 *	waiter_counts			waiters by name, and mutexes
 *	grant_deny			grant and deny
 *	metrics, scrape			counts of this daemon; their text
 *	mirror, feed			watches: their data, and their notifications
 *	view				the interface, and whether this daemon answers others
 */
#ifndef VIEW_INTERNAL_H
#define VIEW_INTERNAL_H

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/view/queries.h"
#include "daemon/view/row.h"
#include "daemon/view/round_robin.h"
#include "daemon/view/view.h"

struct asked;
struct feed;
struct metrics;

/*
 * Work that takes long. The view calls `step` in slices of time until the job ends itself. A step
 * returns soon after `end`. Users take turns. Only the first job of each user is worked on, so only
 * that one needs memory.
 */
struct job {
	void (*step)(struct view *view, struct job *job, int64_t end);
	void *ctx; /* borrowed */
	struct round_robin_place turn;
};

/*
 * A request of a local peer that asks other daemons. It is the first member of the file's own
 * struct.
 */
struct view_request {
	uint64_t id; /* no id is used twice */
	uint64_t peer, number;
	int64_t user;
	uint64_t query; /* 0: none is open */
	void (*free)(struct view *view, struct view_request *request);
	/* The peer is gone and the query is over. NULL: the request continues. */
	void (*left)(struct view *view, struct view_request *request);
	UT_hash_handle hh;
};

struct view {
	struct lock_engine *engine; /* borrowed, as the next two */
	struct broker *broker;
	struct timers *timers;
	uint32_t run;              /* of this daemon */
	const char *host, *naming; /* owned */
	struct view_events events;
	struct queries *queries;       /* owned, as all below */
	struct view_request *requests; /* by id */
	uint64_t last_id;
	struct feed *feed; /* feed.c */
	struct metrics *metrics;
	TAILQ_HEAD(, asked) asked; /* responder.c */
	size_t asked_count;
	struct round_robin jobs;
	struct timer work; /* set while there are jobs */
	/* showings that need a second count: one of each user is counted */
	struct round_robin counts;
	struct timer settle; /* set while it is open whether this daemon answers others */
};

int64_t view_now(const struct view *view);
struct row_facts view_facts(const struct view *view);
/* One row of this daemon as JSON; malloc'ed. */
char *view_row(const struct view *view, const struct lock_row *source);
struct view_peer view_peer(const struct view *view, uint64_t peer);
/*
 * Each answers a request. view_done() takes the result. text NULL: the default text of the reason.
 */
void view_done(struct view *view, uint64_t peer, uint64_t request, struct cJSON *result);
void view_refuse(
    struct view *view, uint64_t peer, uint64_t request, enum reason reason, const char *text);

/* Call it before the first job. */
void view_jobs_init(struct view *view);
/* Appends the job to those of the user. The user may be ROUND_ROBIN_DAEMONS. */
void view_job_begin(struct view *view, struct job *job, int64_t user);
/* Does nothing if the job has ended or never began. */
void view_job_end(struct view *view, struct job *job);
/* Whether the slice of time that ends at `end` is over. */
bool view_is_over(const struct view *view, int64_t end);

/* Registers a request. The caller has set its `free` and `left`. */
void view_request_begin(
    struct view *view, struct view_request *request, uint64_t peer, uint64_t number);
/* NULL: the request has ended. */
void *view_request_find(const struct view *view, uint64_t id);
/* Called by the request's free(): removes the request and ends its query. */
void view_request_end(struct view *view, struct view_request *request);

/*
 * A walk through the rows of this daemon, in steps. Rows change between two steps. The walk returns
 * each row that existed at its beginning, unless the row is gone or its waiter became a holder
 * before its step.
 */
struct walk {
	const char *name;      /* borrowed; NULL: all names */
	struct walk_row *rows; /* owned; of one name the holders alone; NULL: not begun */
	size_t count, room, next;
	struct lock_place place; /* for one name: where the walk is in its local queue */
};

/* Notes the rows of all names, or the holders of one name. name is borrowed; NULL: all names. */
void walk_begin(struct walk *walk, const struct lock_engine *engine, const char *name);
/* The memory of the walk, in bytes. */
size_t walk_size(const struct walk *walk);
/* The next row. False: the walk is over. */
bool walk_next(struct walk *walk, const struct lock_engine *engine, struct lock_row *ret);
/* Frees the walk. A zeroed walk that never began is allowed. */
void walk_end(struct walk *walk);

/* responder.c answers the questions of other daemons. responder_asked() is a queries_asked_fn. */
void responder_asked(
    void *ctx, uint64_t from, const struct daemon_message *message, const char *user);
void responder_free_all(struct view *view);
/* Grants or denies a waiter of this daemon, and logs it. `host` is the host of `uid`. */
enum reason responder_act(
    struct view *view, enum daemon_message_op op, uint64_t waiter, uid_t uid, const char *host);
/* Denies all waiters of that name at this daemon. Returns their number. */
size_t responder_deny_all(struct view *view, const char *name, uid_t uid, const char *host);

/* feed.c */
struct feed *feed_new(struct view *view);
void feed_free(struct feed *feed);
void feed_changed(struct feed *feed, const struct lock_row *row);

#endif
