/*
 * The lanes (channels) of one of the broker's links: their numbers, the pool of idle open ones, and on
 * each lane the requests that are not answered yet, in the order in which they were sent. Outlives the
 * links that carry it: with each link that dies all lanes are gone. Knows queues and answers; knows
 * nothing of hosts and connections.
 */
#ifndef BROKER_LANE_H
#define BROKER_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/amqp/link.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/request.h"

/* Open lanes that nobody uses, kept for the next who does. */
#define AMQP_LANES_IDLE 8

struct amqp_lanes;

struct amqp_lanes_config {
	struct timers *timers; /* borrowed */
	enum broker_link which;
	struct amqp_counts *counts; /* borrowed */
	/* broker.h, lane_closed */
	void (*closed)(void *ctx, uint64_t lane, int code, const char *text);
	void *ctx; /* borrowed */
};

struct amqp_lanes *amqp_lanes_new(const struct amqp_lanes_config *config);
void amqp_lanes_free(struct amqp_lanes *lanes); /* NULL is fine */
/* From now on nobody is answered or told anything. */
void amqp_lanes_silence(struct amqp_lanes *lanes);

/* The link is up (borrowed until amqp_lanes_fail): what waited for it is sent. */
void amqp_lanes_attach(struct amqp_lanes *lanes, struct amqp_link *link);
/* NULL while there is none. */
struct amqp_link *amqp_lanes_link(const struct amqp_lanes *lanes);
/*
 * The link died, or will not come up: every lane is gone, what was not answered is answered
 * BROKER_UNKNOWN, in the order in which it was sent. Not from inside amqp_lanes_frame.
 */
void amqp_lanes_fail(struct amqp_lanes *lanes);
/*
 * The link ended with 530, which names no method: when a channel was being opened, that was one too
 * many (a limit of the user's or the node's), and so many are never tried again (the auxiliary connection: two at
 * least).
 */
void amqp_lanes_learn_limit(struct amqp_lanes *lanes);
/* A frame of any channel but 0. */
void amqp_lanes_frame(struct amqp_lanes *lanes, const struct amqp_frame *frame);

/* As in broker.h. */
uint64_t amqp_lanes_take(struct amqp_lanes *lanes);
void amqp_lanes_put(struct amqp_lanes *lanes, uint64_t id);
void amqp_lanes_request(struct amqp_lanes *lanes, uint64_t id, enum amqp_request what,
    const char *queue, struct broker_done done);

bool amqp_lanes_in_use(const struct amqp_lanes *lanes); /* any lane is taken */
unsigned amqp_lanes_open(const struct amqp_lanes *lanes);
unsigned amqp_lanes_max(const struct amqp_lanes *lanes); /* 0 while there is no link */

/* The channel of a lane, 0 = it has none; the lane on a channel, 0 = it is nobody's, or tapped. */
uint16_t amqp_lanes_channel(const struct amqp_lanes *lanes, uint64_t id);
uint64_t amqp_lanes_on_channel(const struct amqp_lanes *lanes, uint16_t channel);

/* A lane for another protocol than request and answer (tapped.h). */
struct amqp_tap {
	/* A method, content header or body. False: it must not come, which ends the link. */
	bool (*frame)(void *ctx, const struct amqp_frame *frame);
	/*
	 * Closed by the broker, for a method that failed (blames) or another cause; code 0: after
	 * amqp_lanes_close_tap. Not called when the link dies.
	 */
	void (*closed)(void *ctx, int code, bool blames, const char *text);
	void *ctx; /* borrowed */
};

/* Opens a channel; its number, 0 when there is none left. While attached. */
uint16_t amqp_lanes_tap(struct amqp_lanes *lanes, const struct amqp_tap *tap);
/* Closes it; the tap hears no more. */
void amqp_lanes_untap(struct amqp_lanes *lanes, uint16_t channel);
/* Closes it; the tap hears nothing but `closed`, when that is done. */
void amqp_lanes_close_tap(struct amqp_lanes *lanes, uint16_t channel);

#endif
