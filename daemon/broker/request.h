/*
 * The scheme's requests in AMQP's methods: what is sent for each, and what a refusal of it means.
 */
#ifndef BROKER_REQUEST_H
#define BROKER_REQUEST_H

#include <stdint.h>

#include "daemon/amqp/link.h"
#include "daemon/broker/broker.h"

enum amqp_request {
	AMQP_REQUEST_CLAIM,
	AMQP_REQUEST_CHECK,
	AMQP_REQUEST_DROP,
	AMQP_REQUEST_DECLARE_SLOT,
	AMQP_REQUEST_DECLARE_MARKER,
	AMQP_REQUEST_DELETE_SLOT
};

void amqp_request_send(
    struct amqp_link *link, uint16_t channel, enum amqp_request what, const char *queue);
/* Whether a method says that the request was done. */
bool amqp_request_is_done_by(enum amqp_request what, amqp_method_number_t method);
/*
 * Whether a channel.close is for a request that failed. RabbitMQ names the method that did, and none when
 * the close has another cause (a timeout, an administrator).
 */
bool amqp_request_is_blamed(const amqp_channel_close_t *close);
/*
 * Whether it is the answer to the request that is the first: where it names no method that request was
 * not performed, or its answer would have come before.
 */
bool amqp_request_is_refused_by(enum amqp_request what, const amqp_channel_close_t *close);
/* What that refusal means; text: the broker's words. */
enum broker_answer amqp_request_refusal(enum amqp_request what, int code, const char *text);

#endif
