/*
 * The channels of one of the broker's two connections. It owns their numbers, the pool of idle open
 * channels, and the unanswered requests of each channel, in the order of sending. It outlives its
 * links: all channels end with the link that carries them. It knows queues and answers, and no
 * hosts and no handshake.
 *
 * RabbitMQ answers the methods of a channel in order, except basic.consume: the queue's process
 * sends consume-ok, and the answers to later methods can overtake it. Requests are answered in the
 * order of sending nevertheless.
 *
 *	us:      consume B  declare A (passive)
 *	broker:  declare-ok  consume-ok
 */
#ifndef BROKER_CHANNEL_H
#define BROKER_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/amqp/link.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/request.h"

/* The maximum number of idle channels that stay open. To open one takes as long as some claims. */
#define AMQP_CHANNELS_IDLE 64

struct amqp_channels;
struct state_reader;
struct state_writer;

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

/*
 * Whether no request of a channel is unanswered and no channel is being opened or closed, so that
 * the channels can be saved. A raw channel of a quorum connection may be closing.
 */
bool amqp_channels_are_still(const struct amqp_channels *channels);
/* Writes a record for each channel. They are still. */
void amqp_channels_save(const struct amqp_channels *channels, struct state_writer *writer);
/*
 * After amqp_channels_attach(), with no channel yet: reads these records. False: the reader has the
 * error.
 */
bool amqp_channels_restore(struct amqp_channels *channels, struct state_reader *reader);
/* The number of taken channels. */
size_t amqp_channels_taken(const struct amqp_channels *channels);
/*
 * A restored hold goes on with the channel. False: the channel is not taken, another hold has it, or it
 * has a consumer and `consumes` is false, or the other way round.
 */
bool amqp_channels_restore_to_hold(struct amqp_channels *channels, uint64_t id, bool consumes);

/* A raw channel: for a protocol other than request and answer (raw_channel.h). */
struct amqp_raw_handler {
	/* A method, content header or body. False: it must not come, and the link ends. */
	bool (*frame)(void *ctx, const struct amqp_frame *frame);
	/*
	 * The broker closed the channel. blames: for a method that failed, else for another cause.
	 * After amqp_channels_close_raw() the code is 0. Not called when the link dies.
	 */
	void (*closed)(void *ctx, int code, bool blames, const char *text);
	void *ctx; /* borrowed */
};

/*
 * Opens a channel, or uses an idle one if no number is left. Returns its number; 0: there is none,
 * or no link. Of the auxiliary connection only, as no channel there had the consumer of a claim.
 */
uint16_t amqp_channels_open_raw(
    struct amqp_channels *channels, const struct amqp_raw_handler *handler);
/* Closes the channel. The handler is not called again. */
void amqp_channels_drop_raw(struct amqp_channels *channels, uint16_t number);
/* Clock time since which the oldest channel waits for close-ok; 0: none waits. */
int64_t amqp_channels_closing_since(const struct amqp_channels *channels);
/* Closes the channel. The handler gets only `closed`, when the channel is closed. */
void amqp_channels_close_raw(struct amqp_channels *channels, uint16_t number);
/*
 * After amqp_channels_restore() of a quorum connection: an open channel goes on with the handler. False: it is
 * not open, or has one.
 */
bool amqp_channels_resume_raw(
    struct amqp_channels *channels, uint16_t number, const struct amqp_raw_handler *handler);
/* Closes the open channels that have no handler then. */
void amqp_channels_drop_unused(struct amqp_channels *channels);

#endif
