/*
 * The inside of the view, shared by the files of this folder; who is outside includes view.h. From below:
 *
 *	wire_id, row, message	ids, rows and messages: pure
 *	round_robin			users take turns
 *	queries			asking the other daemons
 *	internal			jobs, requests that ask them, a walk through our own rows
 *	responder			answering them
 *	show, waiter_counts, grant_deny	a request each: rows of one name; who waits, by name; grant and deny
 *	mirror, feed		watches: what they know, and what they are told
 *	view			the door, and whether this daemon answers others
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

/*
 * Something that takes long: `step` is called in slices of time until the job ends itself. A step returns soon
 * after `end`. Users take turns. Of one user only the first job is worked on, so that only that one needs memory
 * for its work.
 */
struct job {
	void (*step)(struct view *view, struct job *job, int64_t end);
	void *ctx; /* borrowed */
	struct round_robin_place turn;
};

/* A request of a local peer for which other daemons are asked: the first member of what its file keeps of it. */
struct view_request {
	uint64_t id; /* never used twice */
	uint64_t peer, number;
	int64_t user;
	uint64_t query; /* 0: none is in progress */
	void (*free)(struct view *view, struct view_request *request);
	/* Its peer has left, and its query is over. NULL: it goes on. */
	void (*left)(struct view *view, struct view_request *request);
	UT_hash_handle hh;
};

struct view {
	struct lock_engine *engine; /* borrowed, as the next two */
	struct timers *timers;
	uint32_t run;              /* of this daemon */
	const char *host, *naming; /* owned */
	struct view_events events;
	struct queries *queries;       /* owned, as all that follow */
	struct view_request *requests; /* by id */
	uint64_t last_id;
	struct feed *feed;         /* of feed.c */
	TAILQ_HEAD(, asked) asked; /* of responder.c */
	size_t asked_count;
	struct round_robin jobs;
	struct timer work; /* set while there are some */
	struct round_robin
	    counts;          /* showings that want a second count: one of each user is counted */
	struct timer settle; /* set when it is to be seen whether others are to be answered */
};

int64_t view_now(const struct view *view);
struct row_facts view_facts(const struct view *view);
/* One of our own rows as JSON; malloc'ed. */
char *view_row(const struct view *view, const struct lock_row *source);
struct view_peer view_peer(const struct view *view, uint64_t peer);
/* The answer to a request: a result, which is taken; or a refusal, text NULL = the reason's own. */
void view_done(struct view *view, uint64_t peer, uint64_t request, struct cJSON *result);
void view_refuse(
    struct view *view, uint64_t peer, uint64_t request, enum reason reason, const char *text);

/* Before the first job. */
void view_jobs_init(struct view *view);
/* The last job of that user, which may be ROUND_ROBIN_DAEMONS. */
void view_job_begin(struct view *view, struct job *job, int64_t user);
/* One that has ended, or never began, is fine. */
void view_job_end(struct view *view, struct job *job);
/* Whether a slice of time has ended. */
bool view_is_over(const struct view *view, int64_t end);

/* A request begins; `free` and `left` are set. */
void view_request_begin(
    struct view *view, struct view_request *request, uint64_t peer, uint64_t number);
/* NULL: it has ended. */
void *view_request_find(const struct view *view, uint64_t id);
/* For its free(): it is none any more, and its query ends. */
void view_request_end(struct view *view, struct view_request *request);

/*
 * A walk through the rows of this daemon in steps, between which they change: those that were there when it
 * began are met, but for those that are gone, or hold instead of waiting, when their turn comes.
 */
struct walk {
	const char *name;      /* borrowed; NULL: all */
	struct walk_row *rows; /* owned; of one name those who hold; NULL: it has not begun */
	size_t count, room, next;
	struct lock_place place; /* of one name */
};

/* name (borrowed) NULL: all. As lock_each(). */
void walk_begin(struct walk *walk, const struct lock_engine *engine, const char *name);
/* Bytes that it needs. */
size_t walk_size(const struct walk *walk);
/* The next row; false: there is none. */
bool walk_next(struct walk *walk, const struct lock_engine *engine, struct lock_row *ret);
/* Also for one that was zeroed and never began. */
void walk_end(struct walk *walk);

/* responder.c: what other daemons ask; an queries_asked_fn. */
void responder_asked(
    void *ctx, uint64_t from, const struct daemon_message *message, const char *user);
void responder_free_all(struct view *view);
/* Grants or denies who waits here, with a log line about it; `host`: whose uid that is. */
enum reason responder_act(
    struct view *view, enum daemon_message_op op, uint64_t waiter, uid_t uid, const char *host);
/* Denies all who wait here for that name; returns how many. */
size_t responder_deny_all(struct view *view, const char *name, uid_t uid, const char *host);

/* feed.c */
struct feed *feed_new(struct view *view);
void feed_free(struct feed *feed);
void feed_changed(struct feed *feed, const struct lock_row *row);

#endif
