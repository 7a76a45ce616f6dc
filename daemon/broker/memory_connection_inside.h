/*
 * The inside of memory_connection, shared by its files: its life, what is delivered, and what befalls it.
 */
#ifndef BROKER_MEMORY_CONNECTION_INSIDE_H
#define BROKER_MEMORY_CONNECTION_INSIDE_H

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/broker/memory_connection.h"

struct delivery;
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
	bool frozen;                       /* UP: nothing is performed or answered any more */
	unsigned blocked;                  /* ways (enum memory_way) on which nothing arrives now */
	unsigned busy;                     /* calls in progress that may call back */
	struct lane *lanes;                /* owned; hash by id */
	unsigned usable;                   /* lanes that are OPEN or FAILED */
	TAILQ_HEAD(, request) requests;    /* owned; in order of sending */
	TAILQ_HEAD(, delivery) deliveries; /* owned; in order of sending */
	struct timer notice;               /* LOST: when the world notices */
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
	char *close_text;                   /* owned */
	const struct memory_hearer *hearer; /* borrowed; NULL: what is delivered is not read */
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
	bool reaches, returns;   /* SENT: it is to be performed; and answered */
	struct memory_call call; /* its texts: */
	char *queue, *name;      /* owned; name: of a directory's request, may be NULL */
	struct broker_done done;
	struct broker_names_done names_done; /* fn not NULL: of a directory, on a lane of its own */
	struct broker_count_done count_done; /* fn not NULL: a count, on a lane of its own */
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

void memory_connection_delivered(
    struct memory_owner *owner, uint64_t lane, const struct memory_message *message);
void memory_connection_cancelled(struct memory_owner *owner, uint64_t lane);
/* Nothing more arrives; what was held back arrives now; forgets them. */
void memory_connection_deliveries_halt(struct memory_connection *connection);
void memory_connection_deliveries_go_on(struct memory_connection *connection);
void memory_connection_deliveries_clear(struct memory_connection *connection);

static inline struct lane *
lane_find(const struct memory_connection *connection, uint64_t id)
{
	struct lane *lane;

	HASH_FIND(hh, connection->lanes, &id, sizeof(id), lane);
	return lane;
}

static inline int64_t
later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline bool
is_up(const struct memory_connection *connection)
{
	return connection->state == CONNECTION_UP;
}

#endif
