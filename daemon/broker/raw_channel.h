/*
 * A raw channel (channel.h, struct amqp_raw_handler) as those see it who have a protocol of their own on it:
 * opened while there is a link, methods out, methods and whole messages in, closed. Owns what is kept
 * of a message; knows no protocol. Where the link died and its owner has not been told yet, what is sent
 * goes nowhere.
 */
#ifndef BROKER_RAW_CHANNEL_H
#define BROKER_RAW_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/amqp/content.h"
#include "daemon/broker/channel.h"

/* The channel may be closed from inside each of them, and freed with its owner. */
struct amqp_raw_channel_events {
	/* A method. False: it must not come, which ends the link. */
	bool (*method)(void *ctx, const struct amqp_frame *frame);
	/* A message that was announced is in `content`, whole. False as above. NULL: nobody wants it. */
	bool (*message)(void *ctx);
	/* By the broker; code 0: after amqp_channels_close_raw. It is forgotten already. */
	void (*closed)(void *ctx, int code, const char *text);
};

struct amqp_raw_channel {
	struct amqp_channels *channels; /* borrowed */
	struct amqp_raw_handler handler;
	struct amqp_raw_channel_events events;
	void *ctx;                   /* borrowed */
	uint16_t number;             /* 0 = none open */
	struct amqp_content content; /* while one is open; the message that comes, or came last */
	uint64_t delivery;           /* its tag */
	/*
	 * While `closed` is told: for a method that failed. A close for another cause (a timeout, an administrator)
	 * is no refusal: what was asked is asked again, or is not known.
	 */
	bool blames;
};

void amqp_raw_channel_init(struct amqp_raw_channel *raw, struct amqp_channels *channels,
    const struct amqp_raw_channel_events *events, void *ctx);
/* While there is a link and none is open. body_max: as in daemon/amqp/content.h. False: no number is left. */
bool amqp_raw_channel_open(struct amqp_raw_channel *raw, size_t body_max)
    __attribute__((warn_unused_result));
/* Closes it, when it is open: nothing of it is heard any more. */
void amqp_raw_channel_close(struct amqp_raw_channel *raw);
/* Its link died, and it with that. */
void amqp_raw_channel_forget(struct amqp_raw_channel *raw);

void amqp_raw_channel_send(
    const struct amqp_raw_channel *raw, amqp_method_number_t method, void *fields);
void amqp_raw_channel_publish(const struct amqp_raw_channel *raw, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body);
void amqp_raw_channel_ack(const struct amqp_raw_channel *raw, uint64_t delivery);
/* It goes back to its queue, to be delivered to others. */
void amqp_raw_channel_reject(const struct amqp_raw_channel *raw, uint64_t delivery);
/* A method said that a message comes, and its tag (0: it has none). False: the last is not whole yet. */
bool amqp_raw_channel_announce(struct amqp_raw_channel *raw, uint64_t delivery)
    __attribute__((warn_unused_result));

/* Consumers have numbers from 1 on, which their tags say, behind a letter for who reads them. */
struct amqp_raw_channel_tag {
	char text[24];
};
struct amqp_raw_channel_tag amqp_raw_channel_tag(char letter, uint64_t consumer);
uint64_t amqp_raw_channel_consumer(char letter, amqp_bytes_t tag); /* 0: none of ours */
/* Without an answer. */
void amqp_raw_channel_cancel(const struct amqp_raw_channel *raw, char letter, uint64_t consumer);

#endif
