/*
 * How many consumers a queue has: passive declares on a channel of the auxiliary connection's that is there for
 * nothing else, answered in order. A 404 is the answer 0 and closes the channel: those behind it are
 * asked again on another.
 */
#ifndef BROKER_COUNT_H
#define BROKER_COUNT_H

#include <stdbool.h>

#include "daemon/broker/channel.h"

struct amqp_counters;

/* channels: the auxiliary connection's, borrowed. */
struct amqp_counters *amqp_counters_new(struct timers *timers, struct amqp_channels *channels);
void amqp_counters_free(struct amqp_counters *counters); /* before channels; NULL is fine */
/* From now on nobody is answered. */
void amqp_counters_silence(struct amqp_counters *counters);

/* As broker_wait_queue_count. Sent at once when attached, else when that happens. */
void amqp_counters_ask(
    struct amqp_counters *counters, const char *queue, struct broker_count_done done);
bool amqp_counters_in_use(const struct amqp_counters *counters); /* somebody waits for an answer */

/* After amqp_channels_attach: sends what waits. */
void amqp_counters_go(struct amqp_counters *counters);
/* After amqp_channels_fail: nobody knows. */
void amqp_counters_fail(struct amqp_counters *counters);

#endif
