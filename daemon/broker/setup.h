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

/*
 * timers: borrowed. dialer: owned from now on; it makes the links, over TCP or to the server in
 * memory.
 */
struct broker *broker_new(struct timers *timers, uint64_t seed,
    const struct amqp_settings *settings, const struct amqp_dialer *dialer);

/* For the next login at hosts[host] of the settings. password: borrowed, as that of the settings. */
void broker_set_password(struct broker *broker, size_t host, const char *password);

/* ---- for tests, metrics and the server in memory ---- */

void broker_get_counts(const struct broker *broker, enum broker_link link, struct amqp_counts *ret);
const struct amqp_dialer *broker_dialer(const struct broker *broker);
const struct amqp_channels *broker_channels(const struct broker *broker, enum broker_link link);
/* The number of watches, and of members of wait queues (each priority counts), placed or not. */
size_t broker_watched(const struct broker *broker);
size_t broker_joined(const struct broker *broker);

#endif
