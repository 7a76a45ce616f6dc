/*
 * The inside of memory_connection, shared by its two files: its life, and what befalls it.
 */
#ifndef BROKER_MEMORY_CONNECTION_INSIDE_H
#define BROKER_MEMORY_CONNECTION_INSIDE_H

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/broker/memory_connection.h"

struct memory_probe;

enum connection_state {
	CONNECTION_OPENING, /* requests wait unsent */
	CONNECTION_UP,
	CONNECTION_LOST, /* the client is gone, the world has not noticed: all is answered */
	CONNECTION_DEAD  /* freed when the calls that are in progress have returned */
};

struct memory_connection {
	struct memory_owner owner; /* first: the world's view */
	struct broker *broker;     /* borrowed; until lost */
	struct timers *client;     /* borrowed; until lost */
	enum connection_state state;
	bool frozen;                    /* UP: nothing is performed or answered any more */
	unsigned blocked;               /* ways (enum memory_way) on which nothing arrives now */
	unsigned busy;                  /* calls in progress that may call back */
	struct lane *lanes;             /* owned; hash by id */
	unsigned usable;                /* lanes that are OPEN or FAILED */
	TAILQ_HEAD(, request) requests; /* owned; in order of sending */
	struct timer notice;            /* LOST: when the world notices */
};

enum lane_state {
	LANE_OPEN,
	LANE_FAILED, /* the broker has closed it, the client does not know yet: nothing is performed */
	LANE_CLOSED, /* the client is being told: out of use */
	LANE_PUT     /* the same, and given back meanwhile: no event is owed */
};

struct lane {
	uint64_t id;
	struct memory_connection *connection; /* borrowed */
	enum lane_state state;
	bool stalled;       /* a silent request is on it: what comes behind is not performed */
	int64_t perform_at; /* of the last request sent: none behind it comes sooner */
	int64_t answer_at;  /* the same for answers */
	TAILQ_HEAD(, request) requests; /* borrowed; unanswered, in order */
	struct timer close; /* FAILED by the broker's own doing: when the client hears of it */
	int close_code;
	char *close_text; /* owned */
	UT_hash_handle hh;
};

enum request_state {
	REQUEST_WAITING, /* the connection is not up */
	REQUEST_SENT,
	REQUEST_PERFORMED
};

/* A method on a lane, or a probe. Once answered it lives on only in a connection that is LOST. */
struct request {
	struct memory_connection *connection; /* borrowed */
	struct lane *lane;                    /* borrowed; NULL: a probe */
	enum request_state state;
	int64_t sent_at;
	bool reaches, returns; /* SENT: it is to be performed; and answered */
	enum memory_method method;
	char *queue; /* owned */
	char *name;  /* owned; of a directory's request, may be NULL */
	struct broker_done done;
	struct broker_names_done names_done; /* fn not NULL: of a directory, on a lane of its own */
	struct memory_verdict verdict;       /* PERFORMED; its names owned */
	struct memory_probe *probe;          /* owned; NULL: a method */
	struct timer perform, answer;
	TAILQ_ENTRY(request) of_connection, of_lane;
};

static inline struct timers *
timers_of(const struct memory_connection *connection)
{
	return memory_world_timers(connection->owner.world);
}

static inline int64_t
now_of(const struct memory_connection *connection)
{
	return clock_now(timers_clock(timers_of(connection)));
}

static inline bool
is_up(const struct memory_connection *connection)
{
	return connection->state == CONNECTION_UP;
}

#endif
