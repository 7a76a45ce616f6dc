/*
 * One connection to the in-memory broker, from its opening until the broker side has noticed its end:
 * its lanes, and the requests on their way. When a request is performed and when it is answered are
 * two things: half of the delay lies before, half behind, and a connection that the client has lost
 * goes on performing what had been sent until the world notices.
 *
 * Owns lanes and requests. Knows nothing of links that come back: that is memory_broker.c.
 */
#ifndef BROKER_MEMORY_CONNECTION_H
#define BROKER_MEMORY_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/broker.h"
#include "daemon/broker/memory_world.h"

struct memory_connection;

/*
 * Not up yet: requests wait. broker: borrowed, starts with struct broker_base, hears of lanes. timers:
 * borrowed until lost; what the client hears comes by them, what the world does by the world's.
 */
struct memory_connection *memory_connection_new(
    struct memory_world *world, struct timers *timers, struct broker *broker);
/* An orderly close: queues are freed now, nobody is answered. May be called from an answer. NULL is fine. */
void memory_connection_free(struct memory_connection *connection);
/* Sends what has waited. */
void memory_connection_up(struct memory_connection *connection);
/*
 * The client has lost it: answers all that is unanswered with UNKNOWN. From then on it belongs to the
 * world, which notices after `notice` ns.
 */
void memory_connection_lose(struct memory_connection *connection, int64_t notice);

/* Up, but nothing is performed or answered any more. */
void memory_connection_freeze(struct memory_connection *connection);
/* See memory_broker_block(). */
void memory_connection_block(struct memory_connection *connection, unsigned ways);
/* Nothing more is performed: the world has given it up, its exclusive queues are gone. */
void memory_connection_forsake(struct memory_connection *connection);
bool memory_connection_is_frozen(const struct memory_connection *connection);
uint64_t memory_connection_number(const struct memory_connection *connection);

void memory_connection_each_lane(const struct memory_connection *connection,
    void (*fn)(void *ctx, uint64_t lane, bool silent), void *ctx);
/* Lanes that can be used. */
unsigned memory_connection_lanes(const struct memory_connection *connection);
void memory_connection_lane_open(struct memory_connection *connection, uint64_t lane);
/* An id that is gone is fine. */
void memory_connection_lane_put(struct memory_connection *connection, uint64_t lane);
void memory_connection_lane_close(
    struct memory_connection *connection, uint64_t lane, int code, const char *text);

/* Who reads what is delivered on a lane, and hears of the lane's end in the engine's place. */
struct memory_hearer {
	void (*arrived)(void *ctx, uint64_t lane, const struct memory_message *message);
	/* basic.cancel */
	void (*cancelled)(void *ctx, uint64_t lane);
	/* The broker has closed the lane; it is to be put back. */
	void (*closed)(void *ctx, uint64_t lane);
	void *ctx;
};
/* NULL: nobody does any more. Borrowed while the lane is there. */
void memory_connection_lane_hear(
    struct memory_connection *connection, uint64_t lane, const struct memory_hearer *hearer);

/* On call->lane; the call's texts are copied. False: there is no such lane. */
bool memory_connection_request(
    struct memory_connection *connection, const struct memory_call *call, struct broker_done done);
/* A directory's, on a new lane of that number, which is gone with the answer. */
void memory_connection_directory(struct memory_connection *connection,
    const struct memory_call *call, struct broker_names_done done);
/* The same, of how many consumers a queue has. */
void memory_connection_count(struct memory_connection *connection, const struct memory_call *call,
    struct broker_count_done done);
void memory_connection_probe(struct memory_connection *connection, const char *const *queues,
    size_t count, struct broker_probe_done done);

#endif
