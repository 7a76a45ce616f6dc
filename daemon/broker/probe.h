/*
 * Finds out which queues exist, without the loss of a channel for each absent queue. To each queue
 * a mandatory message is published with confirm, through the default exchange. This takes one raw
 * channel of the auxiliary connection.
 *
 *	us:      confirm.select  publish 1  publish 2  publish 3 ...          (one flush)
 *	broker:  select-ok  return of 2  ack 1..2 (multiple)  nack 3 ...
 *
 * A return comes before its ack. Return and ack: absent. Ack alone: present. Nack or silence:
 * unknown.
 *
 * A durable holder queue takes no message, and its nack makes this module count its consumers
 * (count.h). It checks an absent slot queue, too, if the server hides queues (broker.h).
 */
#ifndef BROKER_PROBE_H
#define BROKER_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/broker/channel.h"

struct amqp_counters;
struct amqp_probes;

/*
 * channels: of the auxiliary connection, borrowed, as counters. timeout: ns from the request on.
 */
struct amqp_probes *amqp_probes_new(struct timers *timers, struct amqp_channels *channels,
    struct amqp_counters *counters, int64_t timeout);
/* Before its channels and counters; NULL is fine. */
void amqp_probes_free(struct amqp_probes *probes);
/* No callback is called after this. */
void amqp_probes_silence(struct amqp_probes *probes);

/*
 * As broker_probe(). Sent at once if there is a link, else when there is one. hopeless: there is an
 * alarm, so the broker does not read a publish. The answer is then BROKER_UNKNOWN at once.
 */
void amqp_probes_ask(struct amqp_probes *probes, const struct broker_question *questions,
    size_t count, bool hopeless, struct broker_probe_done done);
bool amqp_probes_in_use(const struct amqp_probes *probes); /* a request is unanswered */
/* The broker's words if it has refused probes on this link, else "". Borrowed. */
const char *amqp_probes_refused(const struct amqp_probes *probes);

/* After amqp_channels_attach(): sends the waiting requests. */
void amqp_probes_go(struct amqp_probes *probes);
/* After amqp_channels_fail(), before amqp_counters_fail(): answers all requests BROKER_UNKNOWN. */
void amqp_probes_fail(struct amqp_probes *probes);

#endif
