/*
 * The requests of the lock scheme as AMQP methods: the method for each request, and the meaning of
 * each refusal. It has no state.
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
/* Whether this method is the success of the request. */
bool amqp_request_is_done_by(enum amqp_request what, amqp_method_number_t method);
/*
 * Whether a channel.close is for a failed request. RabbitMQ then names its method. It names none if
 * the close has another cause, as a timeout or an administrator.
 */
bool amqp_request_is_blamed(const amqp_channel_close_t *close);
/*
 * Whether a channel.close is the answer to `what`, the oldest unanswered request. If it names no
 * method, that request was not performed: otherwise its answer would have come before.
 */
bool amqp_request_is_refused_by(enum amqp_request what, const amqp_channel_close_t *close);
/* The meaning of that refusal. text: the broker's words. */
enum broker_answer amqp_request_refusal(enum amqp_request what, int code, const char *text);

#endif
