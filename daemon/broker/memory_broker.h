/*
 * The broker's semantics in memory: `--broker memory:` for developing without RabbitMQ, unit tests,
 * and the world of the simulation. One memory_world holds the queues; each memory_broker is one
 * daemon's pair of links to it. Answers come through timers, in order on a lane.
 *
 * What it keeps of RabbitMQ: exclusive queues belong to the link, and the link that has one may
 * declare it again; 404, 405 and 403 close the lane; closing a lane frees nothing; a link's death
 * frees its exclusive queues (at once, or later when the world is told to notice late).
 */
#ifndef BROKER_MEMORY_BROKER_H
#define BROKER_MEMORY_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"

struct memory_world;

enum memory_method {
	MEMORY_CLAIM,
	MEMORY_CHECK,
	MEMORY_DROP,
	MEMORY_DECLARE_SLOT,
	MEMORY_DELETE_SLOT,
	MEMORY_DECLARE_MARKER,
	MEMORY_DIRECTORY_READ,
	MEMORY_DIRECTORY_ENTER,
	MEMORY_DIRECTORY_LEAVE,
	MEMORY_LINE_JOIN,   /* declares the line and consumes */
	MEMORY_LINE_CREDIT, /* of one that joined */
	MEMORY_LINE_LEAVE,
	MEMORY_LINE_WAKE, /* ABSENT: there is no such line */
	MEMORY_LINE_COUNT,
	MEMORY_INBOX_OPEN,
	MEMORY_INBOX_CLOSE,
	MEMORY_LETTER_ASK,  /* queue: the inbox of who asks */
	MEMORY_LETTER_REPLY /* queue: the same. OK, too, when it is gone */
};

/* From a daemon to the world, and back. */
enum memory_way { MEMORY_OUT = 1, MEMORY_IN = 2 };

/* A request as the world performed it. */
struct memory_performed {
	const struct broker *broker; /* NULL: it is gone */
	uint64_t connection;         /* see memory_broker_connection() */
	uint64_t lane;
	enum memory_method method;
	const char *queue; /* borrowed */
	/* borrowed; entered into or removed from a directory, or the letter's text; NULL: none */
	const char *name;
	int priority;    /* LINE_JOIN */
	unsigned credit; /* LINE_JOIN, LINE_CREDIT */
	int slot;        /* LINE_WAKE */
	uint64_t number; /* LETTER_ASK, LETTER_REPLY */
	enum broker_answer answer;
};

/*
 * How the world behaves; the simulation and tests bring their own. A NULL hook is the plain one.
 * Every random choice is the hook's, so that a seed replays.
 */
struct memory_nature {
	/* ns that an answer takes; called once a request. Plain: 0 (the next pass of the loop). */
	int64_t (*delay)(void *ctx);
	/*
	 * Whether a request is performed but never answered; what comes behind it on its lane is then
	 * neither. Called once a request. Plain: no.
	 */
	bool (*silent)(void *ctx);
	/* Whether the publish that looks for one queue is nacked. Plain: no. */
	bool (*nacks)(void *ctx);
	/* Whether a request is refused with 403. Called when it is performed. Plain: no. */
	bool (*refuses)(void *ctx);
	/* Hears of every request (but probes) just after it was performed. Plain: nobody does. */
	void (*performed)(void *ctx, const struct memory_performed *what);
	/* Whether a broker's watch does not hear of the deletion that it waits for. Plain: no. */
	bool (*unheard)(void *ctx, const struct broker *broker, const char *queue);
	/* ns until the world notices that a broker made a link anew by itself. Plain: 0. */
	int64_t (*notice)(void *ctx, const struct broker *broker, enum broker_link link);
	void *ctx;
};

/* A probe is UNKNOWN after so long, and so is what waits for a side link that does not come up. */
#define MEMORY_PROBE_TIMEOUT (5 * NSEC_PER_SEC)

struct memory_world *memory_world_new(struct timers *timers, const struct memory_nature *nature);
void memory_world_free(struct memory_world *world); /* after its brokers */

/* heartbeat in seconds, as info shows it. lanes_max: most lanes of the hold link (2047 on RabbitMQ). */
struct broker *memory_broker_new(struct memory_world *world, int heartbeat, unsigned lanes_max);

/* ---- for tests and the simulation ---- */

/* Before start: what this daemon hears comes by these (borrowed), so that it can be late or stopped. */
void memory_broker_set_timers(struct broker *broker, struct timers *timers);

/*
 * Whether a queue exists, and whose link has it (NULL: nobody's, a plain queue; for one of a foreign
 * connection, or of a broker that was freed, an address that is no broker's).
 */
bool memory_world_has(
    const struct memory_world *world, const char *queue, const struct broker **ret_owner);
/* The number of the connection that has a queue to itself; 0: there is none such. */
uint64_t memory_world_owner(const struct memory_world *world, const char *queue);
/* Every queue, in no order. */
void memory_world_each(const struct memory_world *world,
    void (*fn)(void *ctx, const char *queue, const struct broker *owner), void *ctx);
/* A foreign client's doing: a plain queue or one held by a foreign connection; false when it exists. */
bool memory_world_put(struct memory_world *world, const char *queue, bool exclusive);
/* The same, a plain queue that declare_slot uses as it is, at the price of its lane. */
bool memory_world_put_otherwise(struct memory_world *world, const char *queue);
/* The same, and it is gone when the node restarts. */
bool memory_world_put_transient(struct memory_world *world, const char *queue);
/*
 * A message, whoever wrote it, at the end of a queue; a directory is made where there is none. One of a
 * wait line is delivered, and never over its time.
 */
void memory_world_publish(struct memory_world *world, const char *queue, const char *body);
/* The messages of a queue, in order. */
void memory_world_each_message(const struct memory_world *world, const char *queue,
    void (*fn)(void *ctx, const char *body), void *ctx);
/* The members of a wait line, as the world sees them: those whose death it has not noticed, too. */
size_t memory_world_members(const struct memory_world *world, const char *queue);
/* The hints in it that were delivered to nobody yet. */
size_t memory_world_hints(const struct memory_world *world, const char *queue);
/* Deletes behind everybody's back; false when there was none. */
bool memory_world_remove(struct memory_world *world, const char *queue);
/* Ends every watch of a queue with a hint although it is there; false when there was none. */
bool memory_world_cancel(struct memory_world *world, const char *queue);
/*
 * The link dies. The daemon notices now; the world after `notice` ns (0 = at once): until then it
 * performs what had been sent, and only then frees the exclusive queues. The link is up again after
 * `back` ns (the side link when it is next used); negative: not until memory_broker_restore(). Of a
 * link that is not up only the way back changes: so a test begins with a broker out of reach.
 */
void memory_broker_cut(
    struct broker *broker, enum broker_link link, int64_t notice, int64_t back, const char *why);
/* As a cut without a way back, by a broker that says why: BROKER_DENIED until restored. */
void memory_broker_deny(struct broker *broker, enum broker_link link, const char *why);
void memory_broker_restore(struct broker *broker, enum broker_link link);
/*
 * The two ends of a link that is up part without the daemon's noticing, until it is cut: nothing that
 * it sends or has sent is performed any more. Frozen, no answer comes, and the world keeps its exclusive
 * queues; forsaken, what it has answered still comes, and it has given the connection up and freed them.
 */
void memory_broker_freeze(struct broker *broker, enum broker_link link);
void memory_broker_forsake(struct broker *broker, enum broker_link link);
/*
 * Nothing arrives on these ways of a link that is up; what is sent meanwhile does when they are free
 * again (0), in its order, but for probes. The world does not find out by itself.
 */
void memory_broker_block(struct broker *broker, enum broker_link link, unsigned ways);
/* The number of the link's connection, never used twice; 0: the link is not up. */
uint64_t memory_broker_connection(const struct broker *broker, enum broker_link link);
/* Every lane that can be used. silent: what is asked on it stays unanswered. */
void memory_broker_each_lane(const struct broker *broker, enum broker_link link,
    void (*fn)(void *ctx, uint64_t lane, bool silent), void *ctx);
/* Closes a lane as the server would, e.g. 406 at consumer timeout. */
void memory_broker_close_lane(struct broker *broker, uint64_t lane, int code, const char *text);
/*
 * The broker's node goes down and comes up at once: plain queues stay with their messages, exclusive and
 * transient ones and wait lines and inboxes are gone, nothing more is performed or answered on any connection. The
 * daemons notice when they are cut.
 */
void memory_world_restart(struct memory_world *world);
/* The same for the lane of the watches: they are told so, and placed anew. */
void memory_broker_close_watches(struct broker *broker);
/* An alarm: what publishes (probes, entries of a directory) is held back while it lasts. */
void memory_world_block(struct memory_world *world, bool blocked);
/* Queues that are being watched, or are to be. */
size_t memory_broker_watched(const struct broker *broker);
/* Lines that it has joined, or is to join, each priority counted. */
size_t memory_broker_joined(const struct broker *broker);
/* Whether info says deletes_by_name. */
void memory_world_set_deletes_by_name(struct memory_world *world, bool does);

#endif
