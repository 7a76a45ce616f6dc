/*
 * The inside of the view, shared by the files of this folder; who is outside includes view.h.
 *
 *	wire_id, row, letter	ids, rows and letters: pure
 *	inspect			asking the other daemons
 *	answers			answering them
 *	show, census, steer	a request each: rows of one name; who waits, by name; grant and deny
 *	feed, feed_tell		watches; changes, mirror, walk: what they know
 *	view			the door, and whether this daemon answers others
 *	turns			users take turns
 */
#ifndef VIEW_INSIDE_H
#define VIEW_INSIDE_H

#include "daemon/base/queue.h"
#include "daemon/view/inspect.h"
#include "daemon/view/row.h"
#include "daemon/view/turns.h"
#include "daemon/view/view.h"

struct asked;
struct census;
struct feed;
struct showing;
struct steering;

/*
 * Something that takes long: `step` is called in slices of time until the job ends itself. A step returns soon
 * after `end`. Users take turns. Of one user only the first job is worked on, so that only that one needs memory
 * for its work.
 */
struct job {
	void (*step)(struct view *view, struct job *job, int64_t end);
	void *ctx; /* borrowed */
	struct turn turn;
};

struct view {
	struct lock_engine *engine; /* borrowed, as the next two */
	struct timers *timers;
	struct view_settings settings;
	struct view_listener listener;
	struct inspect *inspect;    /* owned, as all that follow */
	struct showing *showings;   /* of show.c */
	struct census *censuses;    /* of census.c */
	struct steering *steerings; /* of steer.c */
	struct feed *feed;          /* of feed.c */
	TAILQ_HEAD(, asked) asked;  /* of answers.c */
	size_t asked_count;
	struct turns jobs;
	struct timer work;   /* set while there are some */
	struct turns counts; /* showings that want a second count: one of each user is counted */
	uint64_t last_id;
	struct timer settle; /* set when it is to be seen whether others are to be answered */
};

/* A number never given before. */
uint64_t view_id(struct view *view);
struct row_facts view_facts(const struct view *view);
/* Whether a slice of time has ended. */
bool view_is_over(const struct view *view, int64_t end);
/* The user who makes that request now. */
int64_t view_user(const struct view *view, uint64_t peer);
/* The last job of that user, which may be TURNS_DAEMONS. */
void view_job_begin(struct view *view, struct job *job, int64_t user);
/* One that has ended, or never began, is fine. */
void view_job_end(struct view *view, struct job *job);
/* The answer to a request: a refusal; text NULL = the reason's own. */
void view_refuse(
    struct view *view, uint64_t peer, uint64_t request, enum reason reason, const char *text);

/* answers.c: what other daemons ask; an inspect_asked_fn. */
void answers_asked(void *ctx, uint64_t from, const struct letter *letter, const char *user);
/* Acting on who waits here, and the log line about it; `host`: whose uid that is. */
enum reason answers_grant(struct view *view, uint64_t waiter, uid_t uid, const char *host);
enum reason answers_deny(struct view *view, uint64_t waiter, uid_t uid, const char *host);
size_t answers_deny_all(struct view *view, const char *name, uid_t uid, const char *host);

/* show.c: the engine's answer to what it asked under that number. */
void show_answered(struct view *view, uint64_t id, const struct lock_answer *answer);
void show_free_all(struct view *view);
void answers_free_all(struct view *view);
/* Nobody is left to answer. */
void show_peer_left(struct view *view, uint64_t peer);
void census_peer_left(struct view *view, uint64_t peer);
void census_free_all(struct view *view);
void steer_free_all(struct view *view);

/* feed.c */
struct feed *feed_new(struct view *view);
void feed_free(struct feed *feed);
void feed_changed(struct feed *feed, const struct lock_party *row);

#endif
