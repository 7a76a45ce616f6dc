/*
 * Checks queues and counts their consumers, by passive declares on a raw channel of the auxiliary
 * connection, which are answered in order. A refusal (404, 405) is an answer, and closes the
 * channel. The requests behind it are sent again on another channel.
 *
 * A queue whose node is silent holds up the requests behind it. After a second a count is answered
 * -1, and a check gets a channel of its own, so that the others go on. A limited number of checks
 * may have one.
 */
#ifndef BROKER_COUNT_H
#define BROKER_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/broker.h"

struct amqp_counters;

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
/*
 * Ends the checks with that ctx, without callbacks, and returns their number. One that is unanswered
 * may have stopped the channel for long, so that the channel is replaced.
 */
size_t amqp_counters_forget(struct amqp_counters *counters, const void *ctx);
bool amqp_counters_in_use(const struct amqp_counters *counters); /* a request is unanswered */

/* After amqp_channels_attach(): sends the waiting requests. */
void amqp_counters_go(struct amqp_counters *counters);
/* After amqp_channels_fail(): answers all requests, with -1 or UNKNOWN. */
void amqp_counters_fail(struct amqp_counters *counters);

#endif
