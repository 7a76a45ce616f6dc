/*
 * A raw channel, for a protocol of its own (channel.h, struct amqp_raw_handler). While there is a
 * link, the owner opens and closes it, sends methods, and receives methods and whole messages. It
 * owns the parts of the message that is arriving, and knows no protocol. If the link died and the
 * owner does not know yet, sent methods are discarded.
 */
#ifndef BROKER_RAW_CHANNEL_H
#define BROKER_RAW_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/amqp/content.h"
#include "daemon/broker/channel.h"

/* The channel may be closed, or freed with its owner, from inside each callback. */
struct amqp_raw_channel_events {
	/* A method. False: it must not come, and the link ends. */
	bool (*method)(void *ctx, const struct amqp_frame *frame);
	/*
	 * An announced message is whole, in `content`. False as above. NULL: messages are ignored.
	 */
	bool (*message)(void *ctx);
	/*
	 * The broker closed the channel, which is forgotten already. Code 0: after
	 * amqp_channels_close_raw().
	 */
	void (*closed)(void *ctx, int code, const char *text);
};

struct amqp_raw_channel {
	struct amqp_channels *channels; /* borrowed */
	struct amqp_raw_handler handler;
	struct amqp_raw_channel_events events;
	void *ctx;       /* borrowed */
	uint16_t number; /* 0 = none open */
	/* of an open channel: the message that is arriving, or the last one */
	struct amqp_content content;
	uint64_t delivery; /* delivery tag of that message */
	/*
	 * During `closed`: the channel was closed for a method that failed. A close for another
	 * cause, as a timeout or an administrator, refuses nothing. The owner then asks again, or
	 * reports that the answer is unknown.
	 */
	bool blames;
};

void amqp_raw_channel_init(struct amqp_raw_channel *raw, struct amqp_channels *channels,
    const struct amqp_raw_channel_events *events, void *ctx);
/*
 * While there is a link and the channel is not open. body_max: see daemon/amqp/content.h. False: no
 * channel number is left.
 */
bool amqp_raw_channel_open(struct amqp_raw_channel *raw, size_t body_max)
    __attribute__((warn_unused_result));
/*
 * The successor: instead, goes on with a channel of the earlier program (amqp_channels_restore()). False: there is
 * no such channel. The earlier one was still: no message was arriving.
 */
bool amqp_raw_channel_resume(struct amqp_raw_channel *raw, uint16_t number, size_t body_max)
    __attribute__((warn_unused_result));
bool amqp_raw_channel_is_still(const struct amqp_raw_channel *raw);
/* Closes the channel if it is open. No callback is called after this. */
void amqp_raw_channel_close(struct amqp_raw_channel *raw);
/* The link died, and the channel with it. */
void amqp_raw_channel_forget(struct amqp_raw_channel *raw);

void amqp_raw_channel_send(
    const struct amqp_raw_channel *raw, amqp_method_number_t method, void *fields);
void amqp_raw_channel_publish(const struct amqp_raw_channel *raw, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body);
void amqp_raw_channel_ack(const struct amqp_raw_channel *raw, uint64_t delivery);
/* The message goes back to its queue, for other consumers. */
void amqp_raw_channel_reject(const struct amqp_raw_channel *raw, uint64_t delivery);
/*
 * A method announced a message. delivery: its tag, 0 = none. False: the last message is not whole
 * yet.
 */
bool amqp_raw_channel_announce(struct amqp_raw_channel *raw, uint64_t delivery)
    __attribute__((warn_unused_result));

/*
 * Consumers have numbers from 1 on. A tag is a letter, which tells the kinds of consumers apart,
 * and the number.
 */
struct amqp_raw_channel_tag {
	char text[24];
};
struct amqp_raw_channel_tag amqp_raw_channel_tag(char letter, uint64_t consumer);
uint64_t amqp_raw_channel_consumer(char letter, amqp_bytes_t tag); /* 0: not ours */
/* basic.cancel without an answer. */
void amqp_raw_channel_cancel(const struct amqp_raw_channel *raw, char letter, uint64_t consumer);

#endif
