/*
 * The broker over RabbitMQ: two AMQP connections (links), to one host at a time of a list of hosts of
 * one cluster. Owns the links and their lanes; reconnects with full-jitter backoff. Never blocks.
 */
#ifndef BROKER_AMQP_BROKER_H
#define BROKER_AMQP_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/timers.h"
#include "daemon/broker/amqp_settings.h"
#include "daemon/broker/broker.h"

struct amqp_dialer;

/* timers: borrowed. Takes the dialer, which says over what it is spoken to. */
struct broker *amqp_broker_new(struct timers *timers, uint64_t seed,
    const struct amqp_settings *settings, const struct amqp_dialer *dialer);

void amqp_broker_get_counts(
    const struct broker *broker, enum broker_link link, struct amqp_counts *ret);

#endif
