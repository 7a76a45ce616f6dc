/*
 * Makes a broker (broker.h): two AMQP connections to one host at a time, from a list of hosts of
 * one cluster. The broker owns the links and their channels, and reconnects with full-jitter
 * backoff. It never blocks.
 */
#ifndef BROKER_SETUP_H
#define BROKER_SETUP_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"

struct amqp_counts;
struct amqp_dialer;
struct amqp_channels;
struct amqp_settings;
struct state_reader;
struct state_writer;

/*
 * timers: borrowed. dialer: owned from now on; it makes the links, over TCP or to the server in
 * memory.
 */
struct broker *broker_new(struct timers *timers, uint64_t seed,
    const struct amqp_settings *settings, const struct amqp_dialer *dialer);

/*
 * The successor (daemon/state). The lock connection is handed over, and the auxiliary connection
 * is made anew.
 */
/* Whether the lock connection is up, and all its requests are answered. */
bool broker_is_still(const struct broker *broker);
/* Whether a hint of this daemon is not sent yet. */
bool broker_owes_hints(const struct broker *broker);
/*
 * Writes the records of the lock connection, which is still and whose socket remains open. If it is
 * not up, there are none. False: it cannot be handed over.
 */
bool broker_save(struct broker *broker, struct state_writer *writer);
/*
 * Instead of broker_start(): goes on with that lock connection, or connects if there was none. The
 * event `link` comes from inside. False: the reader has the error.
 */
bool broker_resume(struct broker *broker, struct state_reader *reader)
    __attribute__((warn_unused_result));
/* The number of taken channels of the lock connection. */
size_t broker_channels_taken(const struct broker *broker);
/*
 * A restored hold goes on with the channel of the lock connection. False: the channel is not taken,
 * another hold has it, or it has a consumer and `consumes` is false, or the other way round.
 */
bool broker_restore_channel(struct broker *broker, uint64_t channel, bool consumes);

/*
 * For the next login at hosts[host] of the settings. password: borrowed, as that of the settings.
 */
void broker_set_password(struct broker *broker, size_t host, const char *password);

/* ---- for tests, metrics and the server in memory ---- */

void broker_get_counts(const struct broker *broker, enum broker_link link, struct amqp_counts *ret);
const struct amqp_dialer *broker_dialer(const struct broker *broker);
const struct amqp_channels *broker_channels(const struct broker *broker, enum broker_link link);
/* The number of watches, placed or not. */
size_t broker_watched(const struct broker *broker);

#endif
