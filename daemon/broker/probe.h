/*
 * Which queues exist, without closing a channel for each that does not: mandatory publish with confirm
 * to each through the default exchange, on a channel of the auxiliary connection's that is there for nothing else.
 *
 *	us:      confirm.select  publish 1  publish 2  publish 3 ...          (one flush)
 *	broker:  select-ok  return of 2  ack 1..2 (multiple)  nack 3 ...
 *
 * A return comes before its ack. Ack after return: absent. Ack alone: present. Nack, silence: unknown.
 */
#ifndef BROKER_PROBE_H
#define BROKER_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/broker/channel.h"

struct amqp_probes;

/* channels: the auxiliary connection's, borrowed; timeout: ns from the asking on. */
struct amqp_probes *amqp_probes_new(
    struct timers *timers, struct amqp_channels *channels, int64_t timeout);
void amqp_probes_free(struct amqp_probes *probes); /* before channels; NULL is fine */
/* From now on nobody is answered. */
void amqp_probes_silence(struct amqp_probes *probes);

/*
 * As broker_probe. Sent at once when attached, else when that happens. hopeless: the broker is known
 * not to read what is published: unknown, at once.
 */
void amqp_probes_ask(struct amqp_probes *probes, const char *const *queues, size_t count,
    bool hopeless, struct broker_probe_done done);
bool amqp_probes_in_use(const struct amqp_probes *probes); /* somebody waits for an answer */
/* The broker's words where it has refused probes on this link; "" = it has not. Borrowed. */
const char *amqp_probes_refused(const struct amqp_probes *probes);

/* After amqp_channels_attach: sends what waits. */
void amqp_probes_go(struct amqp_probes *probes);
/* After amqp_channels_fail: answers all, unknown. */
void amqp_probes_fail(struct amqp_probes *probes);

#endif
