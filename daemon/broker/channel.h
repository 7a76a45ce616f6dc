/*
 * The channels of one connection to the broker: those of requests and answers, and raw ones for protocols of
 * their own. It owns their numbers, the pool of idle open channels, and the unanswered requests of each
 * channel, in the order of sending. It outlives its links: all channels end with the link that carries them. It
 * knows queues and answers, and no hosts and no handshake.
 */
#ifndef BROKER_CHANNEL_H
#define BROKER_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/amqp/content.h"
#include "daemon/amqp/link.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/ways.h"

struct amqp_channels;

/*
 * RabbitMQ answers the methods of a channel in order, except basic.consume: the queue's process
 * sends consume-ok, and the answers to later methods can overtake it. Requests are answered in the
 * order of sending nevertheless.
 *
 *	us:      consume B  declare A (passive)
 *	broker:  declare-ok  consume-ok
 */

/* The maximum number of idle channels that stay open. To open one takes as long as some claims. */
#define AMQP_CHANNELS_IDLE 64

/*
 * broker: borrowed; its listener gets channel_closed and cancelled. counts: borrowed. No callback is
 * called after broker_stop().
 */
struct amqp_channels *amqp_channels_new(
    const struct broker *broker, enum broker_link which, struct amqp_counts *counts);
void amqp_channels_free(struct amqp_channels *channels); /* NULL is fine */

/* The link is up: sends the waiting requests. The link is borrowed until amqp_channels_fail(). */
void amqp_channels_attach(struct amqp_channels *channels, struct amqp_link *link);
/* NULL while there is none. */
struct amqp_link *amqp_channels_link(const struct amqp_channels *channels);
/*
 * The link died, or does not come up. All channels are gone. The unanswered requests are answered
 * BROKER_UNKNOWN, in the order of sending. Not from inside amqp_channels_frame().
 */
void amqp_channels_fail(struct amqp_channels *channels);
/*
 * The link ended with 530, which names no method. If a channel was being opened, it exceeded a
 * limit of the user or the node. The channels that were open are then the maximum from now on. The
 * auxiliary connection keeps a maximum of at least two.
 */
void amqp_channels_learn_limit(struct amqp_channels *channels);
/* Takes a frame of a channel other than 0. A frame that must not come ends the link. */
void amqp_channels_frame(struct amqp_channels *channels, const struct amqp_frame *frame);

/* As in broker.h. */
uint64_t amqp_channels_take(struct amqp_channels *channels);
void amqp_channels_put(struct amqp_channels *channels, uint64_t id);
void amqp_channels_request(struct amqp_channels *channels, uint64_t id,
    const struct amqp_request *kind, const char *queue, struct broker_done done);

/* The broker answered what was sent at that clock time, on a channel of requests or a raw one. */
void amqp_channels_answered(struct amqp_channels *channels, int64_t sent_at);
const struct histogram *amqp_channels_round_trips(const struct amqp_channels *channels);

bool amqp_channels_in_use(const struct amqp_channels *channels); /* a channel is taken */
unsigned amqp_channels_open(const struct amqp_channels *channels);
/* The same without the idle ones. */
unsigned amqp_channels_busy(const struct amqp_channels *channels);
unsigned amqp_channels_max(const struct amqp_channels *channels); /* 0 while there is no link */

/* The number of a channel, 0 = it has none. The channel with a number, 0 = none, idle or raw. */
uint16_t amqp_channels_number(const struct amqp_channels *channels, uint64_t id);
uint64_t amqp_channels_by_number(const struct amqp_channels *channels, uint16_t number);

/* The number of taken channels. */
size_t amqp_channels_taken(const struct amqp_channels *channels);
/*
 * A restored hold goes on with the channel. False: the channel is not taken, another hold has it, or it
 * has a consumer and `consumes` is false, or the other way round.
 */
bool amqp_channels_restore_to_hold(struct amqp_channels *channels, uint64_t id, bool consumes);

/* Clock time since which the oldest channel waits for close-ok; 0: none waits. */
int64_t amqp_channels_closing_since(const struct amqp_channels *channels);
/* After the channels of a quorum connection are restored: closes those that no raw channel goes on with. */
void amqp_channels_drop_unused(struct amqp_channels *channels);

/*
 * A raw channel, for a protocol other than request and answer. While there is a
 * link, the owner opens and closes it, sends methods, and receives methods and whole messages. It
 * owns the parts of the message that is arriving, and knows no protocol. If the link died and the
 * owner does not know yet, sent methods are discarded.
 */

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
	 * amqp_raw_channel_end().
	 */
	void (*closed)(void *ctx, int code, const char *text);
};

struct amqp_raw_channel {
	struct amqp_channels *channels; /* borrowed */
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
 * The successor: instead, goes on with a channel of the earlier program (channels_restore()). False: there is
 * no such channel. The earlier one was still: no message was arriving.
 */
bool amqp_raw_channel_resume(struct amqp_raw_channel *raw, uint16_t number, size_t body_max)
    __attribute__((warn_unused_result));
bool amqp_raw_channel_is_still(const struct amqp_raw_channel *raw);
/* Closes the channel if it is open. No callback is called after this. */
void amqp_raw_channel_close(struct amqp_raw_channel *raw);
/* Closes the open channel. Then only `closed` is called, when the broker has closed it. */
void amqp_raw_channel_end(struct amqp_raw_channel *raw);
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
