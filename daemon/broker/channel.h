/*
 * The channels of one of the broker's links: their numbers, the pool of idle open ones, and on
 * each channel the requests that are not answered yet, in the order in which they were sent. Outlives the
 * links that carry it: with each link that dies all channels are gone. Knows queues and answers; knows
 * nothing of hosts and connections.
 */
#ifndef BROKER_CHANNEL_H
#define BROKER_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/amqp/link.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/request.h"

/* Open channels that nobody uses, kept for the next who does. */
#define AMQP_CHANNELS_IDLE 8

struct amqp_channels;

struct amqp_channels_config {
	struct timers *timers; /* borrowed */
	enum broker_link which;
	struct amqp_counts *counts; /* borrowed */
	/* broker.h, channel_closed */
	void (*closed)(void *ctx, uint64_t channel, int code, const char *text);
	void *ctx; /* borrowed */
};

struct amqp_channels *amqp_channels_new(const struct amqp_channels_config *config);
void amqp_channels_free(struct amqp_channels *channels); /* NULL is fine */
/* From now on nobody is answered or told anything. */
void amqp_channels_silence(struct amqp_channels *channels);

/* The link is up (borrowed until amqp_channels_fail): what waited for it is sent. */
void amqp_channels_attach(struct amqp_channels *channels, struct amqp_link *link);
/* NULL while there is none. */
struct amqp_link *amqp_channels_link(const struct amqp_channels *channels);
/*
 * The link died, or will not come up: every channel is gone, what was not answered is answered
 * BROKER_UNKNOWN, in the order in which it was sent. Not from inside amqp_channels_frame.
 */
void amqp_channels_fail(struct amqp_channels *channels);
/*
 * The link ended with 530, which names no method: when a channel was being opened, that was one too
 * many (a limit of the user's or the node's), and so many are never tried again (the auxiliary connection: two at
 * least).
 */
void amqp_channels_learn_limit(struct amqp_channels *channels);
/* A frame of any channel but 0. */
void amqp_channels_frame(struct amqp_channels *channels, const struct amqp_frame *frame);

/* As in broker.h. */
uint64_t amqp_channels_take(struct amqp_channels *channels);
void amqp_channels_put(struct amqp_channels *channels, uint64_t id);
void amqp_channels_request(struct amqp_channels *channels, uint64_t id, enum amqp_request what,
    const char *queue, struct broker_done done);

bool amqp_channels_in_use(const struct amqp_channels *channels); /* any channel is taken */
unsigned amqp_channels_open(const struct amqp_channels *channels);
unsigned amqp_channels_max(const struct amqp_channels *channels); /* 0 while there is no link */

/* The number of a channel, 0 = it has none; the channel of a number, 0 = it is nobody's, or raw. */
uint16_t amqp_channels_number(const struct amqp_channels *channels, uint64_t id);
uint64_t amqp_channels_by_number(const struct amqp_channels *channels, uint16_t number);

/* A channel for another protocol than request and answer (raw_channel.h). */
struct amqp_raw_handler {
	/* A method, content header or body. False: it must not come, which ends the link. */
	bool (*frame)(void *ctx, const struct amqp_frame *frame);
	/*
	 * Closed by the broker, for a method that failed (blames) or another cause; code 0: after
	 * amqp_channels_close_raw. Not called when the link dies.
	 */
	void (*closed)(void *ctx, int code, bool blames, const char *text);
	void *ctx; /* borrowed */
};

/* Opens a channel; its number, 0 when there is none left. While attached. */
uint16_t amqp_channels_open_raw(
    struct amqp_channels *channels, const struct amqp_raw_handler *handler);
/* Closes it; the handler hears no more. */
void amqp_channels_drop_raw(struct amqp_channels *channels, uint16_t number);
/* Closes it; the handler hears nothing but `closed`, when that is done. */
void amqp_channels_close_raw(struct amqp_channels *channels, uint16_t number);

#endif
