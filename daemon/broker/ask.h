/*
 * Questions about queues: whether they exist, whether they are held, and how many consumers they have. Counters
 * ask by passive declares, and probes by messages, on raw channels of the auxiliary connection. It owns the
 * questions and their deadlines. It knows no slots, and no use of an answer.
 */
#ifndef BROKER_ASK_H
#define BROKER_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/broker.h"

struct amqp_counters;
struct amqp_probes;

/*
 * Checks queues and counts their consumers, by passive declares on a raw channel of the auxiliary
 * connection, which are answered in order. A refusal (404, 405) is an answer, and closes the
 * channel. The requests behind it are sent again on another channel.
 *
 * A queue whose node is silent holds up the requests behind it. After a second a count is answered
 * -1, and a check gets a channel of its own, so that the others go on. A limited number of checks
 * may have one.
 */

struct amqp_counters *amqp_counters_new(struct broker *broker); /* broker: borrowed */
void amqp_counters_free(struct amqp_counters *counters);        /* before its channels */

/* answer: as of broker_check(), or UNKNOWN. messages: ready ones. Both are 0 unless OK. */
struct amqp_check_done {
	void (*fn)(void *ctx, uint64_t id, enum broker_answer answer, int messages, int consumers);
	void *ctx;
	uint64_t id;
};
/* Sent at once if there is a link, else when there is one. */
void amqp_counters_check(
    struct amqp_counters *counters, const char *queue, struct amqp_check_done done);
bool amqp_counters_in_use(const struct amqp_counters *counters); /* a request is unanswered */

/* After amqp_channels_attach(): sends the waiting requests. */
void amqp_counters_send_waiting(struct amqp_counters *counters);
/* After amqp_channels_fail(): answers all requests, with -1 or UNKNOWN. */
void amqp_counters_fail(struct amqp_counters *counters);

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
 * A durable holder queue takes no message, and its nack makes the counters count its
 * consumers. It checks an absent slot queue, too, if the server hides queues (broker.h).
 */

struct amqp_probes *amqp_probes_new(struct broker *broker); /* broker: borrowed */
void amqp_probes_free(struct amqp_probes *probes);          /* before its channels and counters */
bool amqp_probes_in_use(const struct amqp_probes *probes);  /* a request is unanswered */
/* The broker's words if it has refused probes on this link, else "". Borrowed. */
const char *amqp_probes_refused(const struct amqp_probes *probes);

/* After amqp_channels_attach(): sends the waiting requests. */
void amqp_probes_send_waiting(struct amqp_probes *probes);
/* After amqp_channels_fail(), before amqp_counters_fail(): answers all requests BROKER_UNKNOWN. */
void amqp_probes_fail(struct amqp_probes *probes);

#endif
