/*
 * The requests of the lock scheme as AMQP methods: the methods of each request, and the meaning of
 * each answer. Those about slot queues and markers are here. Those about holder queues have
 * their names in way.h. It has no state. Other folders include way.h.
 */
#ifndef BROKER_WAYS_H
#define BROKER_WAYS_H

#include <stdint.h>

#include "daemon/amqp/link.h"
#include "daemon/broker/broker.h"

/* One kind of request. Each is constant, and has its name below or in way.h. */
struct amqp_request {
	/* They are sent together, each about the same queue. The second is 0 if there is one alone. */
	amqp_method_number_t methods[2];
	bool passive, exclusive; /* queue.declare */
	/*
	 * queue.declare: how many arguments of ways.c a durable queue gets. 0: it is not durable.
	 * Holder queues have 3, those of mutexes 4, posts 5.
	 */
	int arguments;
	int64_t expires;          /* the same: ns after its last use; if it has 4 or more */
	bool if_unused, if_empty; /* queue.delete */
	/* The meaning of a queue.declare-ok. NULL: BROKER_OK. */
	enum broker_answer (*success)(uint32_t consumers);
	/*
	 * The meaning of a refusal. usual: its meaning for most requests. text: the broker's words.
	 * NULL: the usual.
	 */
	enum broker_answer (*refusal)(int code, const char *text, enum broker_answer usual);
};

extern const struct amqp_request amqp_request_check; /* a passive declare */
extern const struct amqp_request amqp_request_declare_slot, amqp_request_declare_marker;
extern const struct amqp_request amqp_request_declare_post;
extern const struct amqp_request amqp_request_delete_slot;

/* Whether one of its methods is this one. */
bool amqp_request_has(const struct amqp_request *kind, amqp_method_number_t method);
/* Sends all methods of a request. */
void amqp_request_send(
    struct amqp_link *link, uint16_t channel, const struct amqp_request *kind, const char *queue);
/* The method of a request after `done` answered ones. 0: the request is done. */
amqp_method_number_t amqp_request_method(const struct amqp_request *kind, unsigned done);
/* The answer that this method, the last "-ok" of a request, means. */
enum broker_answer amqp_request_success(
    const struct amqp_request *kind, const struct amqp_frame *ok);
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
/* The meaning of a refusal. text: the broker's words. */
enum broker_answer amqp_request_refusal(
    const struct amqp_request *kind, int code, const char *text);

#endif
