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
	AMQP_REQUEST_CLAIM,       /* an exclusive queue */
	AMQP_REQUEST_CONSUME,     /* an exclusive consumer of a durable queue */
	AMQP_REQUEST_CLAIM_MUTEX, /* declares that queue before */
	AMQP_REQUEST_CHECK,
	AMQP_REQUEST_CHECK_CONSUMER, /* done by no consumers: ABSENT */
	AMQP_REQUEST_DROP,
	AMQP_REQUEST_CANCEL,
	AMQP_REQUEST_DECLARE_SLOT,
	AMQP_REQUEST_DECLARE_MARKER,
	AMQP_REQUEST_DECLARE_HOLDER,
	AMQP_REQUEST_DELETE_SLOT,
	AMQP_REQUEST_DELETE_HOLDER /* asks its home in front: a passive declare */
};

/* Whether the request places the consumer of its channel. */
bool amqp_request_consumes(enum amqp_request what);
/* Sends all methods of a request. */
void amqp_request_send(
    struct amqp_link *link, uint16_t channel, enum amqp_request what, const char *queue);
/* The method of a request after `done` answered ones. 0: the request is done. */
amqp_method_number_t amqp_request_method(enum amqp_request what, unsigned done);
/* The answer that this method, the last "-ok" of a request, means. */
enum broker_answer amqp_request_success(enum amqp_request what, const struct amqp_frame *ok);
/*
 * Whether a channel.close is for a failed request. RabbitMQ then names its method. It names none if
 * the close has another cause, as a timeout or an administrator.
 */
bool amqp_request_is_blamed(const amqp_channel_close_t *close);
/*
 * Whether a channel.close is the answer to `method`, which an unanswered request awaits. If it
 * names no method, the oldest request was not performed: otherwise its answer would have come
 * before.
 */
bool amqp_request_is_refused_by(amqp_method_number_t method, const amqp_channel_close_t *close);
/*
 * The broker's words for a channel.close; the caller frees them. Those of RabbitMQ 3.10 do not say
 * which permission is missing, and are completed to the words of later versions.
 */
char *amqp_request_words(const amqp_channel_close_t *close);
/* The meaning of that refusal. text: the broker's words. */
enum broker_answer amqp_request_refusal(enum amqp_request what, int code, const char *text);

#endif
