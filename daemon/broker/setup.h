/*
 * How a broker (broker.h) is made: over two AMQP connections (links), to one host at a time of a list of
 * hosts of one cluster. Owns the links and their channels; reconnects with full-jitter backoff. Never blocks.
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

/* timers: borrowed. Takes the dialer, which says over what it is spoken to. */
struct broker *broker_new(struct timers *timers, uint64_t seed,
    const struct amqp_settings *settings, const struct amqp_dialer *dialer);

/* ---- for tests, metrics and the server in memory ---- */

void broker_get_counts(const struct broker *broker, enum broker_link link, struct amqp_counts *ret);
const struct amqp_dialer *broker_dialer(const struct broker *broker);
const struct amqp_channels *broker_channels(const struct broker *broker, enum broker_link link);
/* Queues that are being watched, or are to be; wait queues that are joined, or to be, each priority counted. */
size_t broker_watched(const struct broker *broker);
size_t broker_joined(const struct broker *broker);

#endif
