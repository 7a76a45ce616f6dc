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
	void *ctx;
};

/* A probe is UNKNOWN after so long, and so is what waits for a side link that does not come up. */
#define MEMORY_PROBE_TIMEOUT (5 * NSEC_PER_SEC)

struct memory_world *memory_world_new(struct timers *timers, const struct memory_nature *nature);
void memory_world_free(struct memory_world *world); /* after its brokers */

/* heartbeat in seconds, as info shows it. lanes_max: most lanes of the hold link (2047 on RabbitMQ). */
struct broker *memory_broker_new(struct memory_world *world, int heartbeat, unsigned lanes_max);

/* ---- for tests and the simulation ---- */

/*
 * Whether a queue exists, and whose link has it (NULL: nobody's, a plain queue; for one of a foreign
 * connection, or of a broker that was freed, an address that is no broker's).
 */
bool memory_world_has(
    const struct memory_world *world, const char *queue, const struct broker **ret_owner);
/* Every queue, in no order. */
void memory_world_each(const struct memory_world *world,
    void (*fn)(void *ctx, const char *queue, const struct broker *owner), void *ctx);
/* A foreign client's doing: a plain queue or one held by a foreign connection; false when it exists. */
bool memory_world_put(struct memory_world *world, const char *queue, bool exclusive);
/* The same, a plain queue that declare_slot uses as it is, at the price of its lane. */
bool memory_world_put_otherwise(struct memory_world *world, const char *queue);
/* Deletes behind everybody's back; false when there was none. */
bool memory_world_remove(struct memory_world *world, const char *queue);
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
/* Closes a lane as the server would, e.g. 406 at consumer timeout. */
void memory_broker_close_lane(struct broker *broker, uint64_t lane, int code, const char *text);
/* An alarm: probes are held back (unanswered until the probe deadline) while it lasts. */
void memory_world_block(struct memory_world *world, bool blocked);
/* Whether info says deletes_by_name. */
void memory_world_set_deletes_by_name(struct memory_world *world, bool does);

#endif
