/*
 * Counts the consumers of queues, by passive declares on a raw channel of the auxiliary connection,
 * which are answered in order. A 404 is the answer 0, and closes the channel. The requests behind
 * it are sent again on another channel.
 */
#ifndef BROKER_COUNT_H
#define BROKER_COUNT_H

#include <stdbool.h>

#include "daemon/broker/channel.h"

struct amqp_counters;

/* channels: of the auxiliary connection, borrowed. */
struct amqp_counters *amqp_counters_new(struct timers *timers, struct amqp_channels *channels);
void amqp_counters_free(struct amqp_counters *counters); /* before its channels; NULL is fine */
/* No callback is called after this. */
void amqp_counters_silence(struct amqp_counters *counters);

/* As broker_wait_queue_count(). Sent at once if there is a link, else when there is one. */
void amqp_counters_ask(
    struct amqp_counters *counters, const char *queue, struct broker_count_done done);
bool amqp_counters_in_use(const struct amqp_counters *counters); /* a request is unanswered */

/* After amqp_channels_attach(): sends the waiting requests. */
void amqp_counters_go(struct amqp_counters *counters);
/* After amqp_channels_fail(): answers all requests with -1. */
void amqp_counters_fail(struct amqp_counters *counters);

#endif
