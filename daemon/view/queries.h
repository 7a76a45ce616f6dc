/*
 * The inside of the view, for the files of this folder alone. They share users that take turns,
 * long jobs, and requests. One daemon asks all others here. Owns the sent queries and the list of
 * known daemons. It does not know what the messages mean.
 *
 * A daemon that answers sends hello. A daemon that stops answering sends bye. Every message says
 * whether its sender answers later queries. A roll call is a query that ran until its deadline and
 * that every daemon answers. For QUERIES_ROLL after a roll call, a query is complete as soon as all
 * known daemons have answered. This does not hold if messages may have been missed since. A known
 * daemon that did not answer is a silent host, and is forgotten after a while.
 *
 * Every daemon has to answer every query. Each user has at most QUERIES_USER_MAX open queries.
 * Further ones are sent when those have ended.
 */
#ifndef VIEW_QUERIES_H
#define VIEW_QUERIES_H

#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "daemon/base/clock.h"
#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "daemon/view/view.h"
#include "daemon/view/wire.h"

/* ---- users take turns ---- */

/*
 * Things in a queue, in which users take turns. A user with many things delays the others by only
 * one of them. The things of one user keep their order. Owns its entries for users. The things are
 * borrowed.
 *
 * All other daemons together count as one user. Other users are uids.
 */
#define ROUND_ROBIN_DAEMONS INT64_C(-1)

struct round_robin_user;

struct round_robin {
	TAILQ_HEAD(, round_robin_user)
	users; /* owned; the users that have things; the first has the turn */
};

/* The place of a thing. Zeroed: the thing is not queued. */
struct round_robin_place {
	struct round_robin_user *user;       /* NULL: not queued */
	void *thing;                         /* borrowed */
	TAILQ_ENTRY(round_robin_place) next; /* while queued */
};

void round_robin_init(struct round_robin *turns);
/* Appends the thing to those of that user. */
void round_robin_add(
    struct round_robin *turns, struct round_robin_place *turn, int64_t user, void *thing);
/* Does nothing if the thing is not queued. */
void round_robin_remove(struct round_robin *turns, struct round_robin_place *turn);
/* The first thing of the user that has the turn. NULL: nothing is queued. */
void *round_robin_first(const struct round_robin *turns);
/* The turn goes to the next user. At least one thing must be queued. */
void round_robin_pass(struct round_robin *turns);
/* The thing of that user that has `before` things before it. NULL: there is none. */
void *round_robin_of(const struct round_robin *turns, int64_t user, size_t before);

/* ---- queries ---- */

/* ns for which a roll call counts, and after which a silent daemon is forgotten. */
#define QUERIES_ROLL (60 * NSEC_PER_SEC)
/* Limit of known daemons. Queries take the answers of further daemons, but do not wait for them. */
#define QUERIES_HOSTS_MAX 1024
/* Open queries of one user. */
#define QUERIES_USER_MAX 4
/* Messages of one daemon that count as its answer to a query. */
#define QUERIES_PARTS_MAX 8

struct queries;

/* `user` is the sender's user at the broker, which the broker has checked; "": unknown. */
typedef void queries_asked_fn(
    struct view *view, uint64_t from, const struct daemon_message *message, const char *user);

/* The strings of head are borrowed. timeout: ns until a query ends. */
struct queries *queries_new(struct view *view, const struct daemon_message_head *head,
    int64_t timeout, queries_asked_fn *asked);
/* Sends bye if it has sent hello. Ends all queries without a callback. */
void queries_free(struct queries *queries);

/* Whether this daemon answers others. If it stays, its inbox is open and it sends hello. */
void queries_stay(struct queries *queries, bool stays);
bool queries_stays(const struct queries *queries);
/* A message to which the caller adds its members. */
struct cJSON *queries_message(
    const struct queries *queries, enum daemon_message_op op, bool answer);
/* Sends an answer; takes `message`. False: the message is too long. */
bool queries_answer(struct queries *queries, uint64_t from, struct cJSON *message);
/* The caller ignored a message. Logs one such message in a while. */
void queries_pass_over(struct queries *queries, const char *user, const char *what);

/* Whether that daemon is known. */
bool queries_knows(const struct queries *queries, uint32_t run);

/* ---- the view ---- */

struct asked;
struct feed;
struct metrics;

/*
 * Work that takes long. The view calls `step` in slices of time until the job ends itself. A step
 * returns soon after `end`. Users take turns. Only the first job of each user is worked on, so only
 * that one needs memory.
 */
struct view_job {
	void (*step)(struct view *view, struct view_job *job, int64_t end);
	void *ctx; /* borrowed */
	struct round_robin_place turn;
};

/*
 * One that asks the other daemons, one thing at a time. It is the first member of a larger struct,
 * which ends the query before it is freed. Both callbacks may free that struct.
 */
struct view_ask {
	int64_t user;          /* ROUND_ROBIN_DAEMONS for the daemon's own queries */
	uint64_t query;        /* 0: none is open */
	bool is_sent;          /* the last query could be sent, or waits for its turn */
	struct cJSON *missing; /* owned; the silent hosts of a query that is over; NULL: none is */
	/* A part of a daemon's answer came. */
	void (*heard)(struct view *view, struct view_ask *ask, const struct daemon_message *answer);
	/* The query is over: nobody is waited for any more, or the deadline has passed. */
	void (*over)(struct view *view, struct view_ask *ask);
	/* Whether the answers of all known daemons are enough. NULL: they are. */
	bool (*is_enough)(struct view *view, struct view_ask *ask);
};

/* A request of a local peer. It is the first member of the file's own struct. */
struct view_request {
	struct view_ask ask;
	uint64_t id; /* no id is used twice */
	uint64_t peer, number;
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
	struct feed *feed; /* watch.c */
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
void view_job_begin(struct view *view, struct view_job *job, int64_t user);
/* Does nothing if the job has ended or never began. */
void view_job_end(struct view *view, struct view_job *job);
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
 * Begins a query; takes `message`. everybody: every daemon answers, so the query is a roll call, and
 * is over as soon as all have answered. The caller then calls view_ask_check(), once it can take
 * the end.
 */
void view_ask_begin(struct view *view, struct view_ask *ask, enum daemon_message_op op,
    struct cJSON *message, bool everybody);
/* Ends the query, and calls `over`, if nobody need be waited for, or the query was not sent. */
void view_ask_check(struct view *view, struct view_ask *ask);
/* Ends the query without a callback. */
void view_ask_end(struct view *view, struct view_ask *ask);
/*
 * The same. If the query was sent, it counts as one of its user's until it is answered or its
 * deadline passes.
 */
void view_ask_leave(struct view *view, struct view_ask *ask);

#endif
