#include "daemon/broker/request.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/frame.h"
#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

/* The consumer of a claim. A channel has one at a time. */
#define HOLDER_TAG "h"

const struct amqp_request amqp_request_check = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .passive = true,
};
/* As other clients of the scheme declare them. */
const struct amqp_request amqp_request_declare_slot = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .arguments = 1,
    .refusal = amqp_request_declared,
};
const struct amqp_request amqp_request_declare_marker = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .arguments = 2,
    .refusal = amqp_request_declared,
};
const struct amqp_request amqp_request_declare_post = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .arguments = 5,
    .expires = BROKER_POST_EXPIRES,
};
const struct amqp_request amqp_request_delete_slot = {
    .methods = {AMQP_QUEUE_DELETE_METHOD},
};

amqp_method_number_t
amqp_request_method(const struct amqp_request *kind, unsigned done)
{
	FAULT_IF(HOLDER_NOT_ASKED_FOR, kind->if_empty, done++);
	return done < 2 ? kind->methods[done] : 0;
}

bool
amqp_request_has(const struct amqp_request *kind, amqp_method_number_t method)
{
	return kind->methods[0] == method || kind->methods[1] == method;
}

static void
request_send_declare(
    struct amqp_link *link, uint16_t channel, const struct amqp_request *kind, const char *queue)
{
	/*
	 * Without x-overflow, RabbitMQ 3.10.8 delivers a message to the consumer even if
	 * x-max-length is 0.
	 */
	amqp_table_entry_t arguments[] = {
	    amqp_entry_number("x-max-length", 0),
	    amqp_entry_text("x-queue-type", "classic"),
	    amqp_entry_text("x-overflow", "reject-publish"),
	    amqp_entry_number("x-expires", kind->expires / NSEC_PER_MSEC),
	    /* An exclusive consumer of such a queue is refused. */
	    {.key = amqp_cstring_bytes("x-single-active-consumer"),
		.value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}},
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .passive = kind->passive,
	    .exclusive = kind->exclusive,
	    .durable = kind->arguments > 0,
	    .arguments = {.num_entries = kind->arguments, .entries = arguments},
	};

	amqp_link_send(link, channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

static void
request_send_consume(struct amqp_link *link, uint16_t channel, const char *queue)
{
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(HOLDER_TAG),
	    .no_ack = 1, /* consumer_timeout does not end it */
	    .exclusive = 1,
	};

	amqp_link_send(link, channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

static void
request_send_cancel(struct amqp_link *link, uint16_t channel)
{
	amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes(HOLDER_TAG)};

	amqp_link_send(link, channel, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

static void
request_send_delete(
    struct amqp_link *link, uint16_t channel, const struct amqp_request *kind, const char *queue)
{
	amqp_queue_delete_t delete = {
	    .queue = amqp_cstring_bytes(queue),
	    .if_unused = kind->if_unused,
	    .if_empty = kind->if_empty,
	};

	FAULT_IF(HOLDER_IN_USE_DELETED, kind->if_empty, delete.if_unused = 0);
	FAULT_IF(OTHERS_HOLDER_DELETED, !kind->if_empty, delete.if_unused = 0);
	FAULT(HOLDER_FORCED, delete.if_empty = 0);
	amqp_link_send(link, channel, AMQP_QUEUE_DELETE_METHOD, &delete);
}

void
amqp_request_send(
    struct amqp_link *link, uint16_t channel, const struct amqp_request *kind, const char *queue)
{
	amqp_method_number_t method;

	for (unsigned done = 0; (method = amqp_request_method(kind, done)) != 0; done++) {
		if (method == AMQP_QUEUE_DECLARE_METHOD)
			request_send_declare(link, channel, kind, queue);
		else if (method == AMQP_BASIC_CONSUME_METHOD)
			request_send_consume(link, channel, queue);
		else if (method == AMQP_BASIC_CANCEL_METHOD)
			request_send_cancel(link, channel);
		else
			request_send_delete(link, channel, kind, queue);
	}
}

enum broker_answer
amqp_request_success(const struct amqp_request *kind, const struct amqp_frame *ok)
{
	const amqp_queue_declare_ok_t *declared = ok->fields;

	return kind->success != NULL ? kind->success(declared->consumer_count) : BROKER_OK;
}

bool
amqp_request_is_blamed(const amqp_channel_close_t *close)
{
	/* Only a request causes these two. */
	return close->class_id != 0 || close->method_id != 0 ||
	       close->reply_code == AMQP_NOT_FOUND || close->reply_code == AMQP_RESOURCE_LOCKED;
}

bool
amqp_request_is_refused_by(amqp_method_number_t method, const amqp_channel_close_t *close)
{
	amqp_method_number_t blamed =
	    (amqp_method_number_t)close->class_id << 16 | close->method_id;

	return amqp_request_is_blamed(close) && (blamed == 0 || blamed == method);
}

bool
amqp_request_says(const char *text, const char *words)
{
	return strncmp(text, words, strlen(words)) == 0;
}

/* The permission that the method of a channel.close needs. NULL: one of several, or none. */
static const char *
request_permission(const amqp_channel_close_t *close)
{
	switch ((amqp_method_number_t)close->class_id << 16 | close->method_id) {
	case AMQP_QUEUE_DECLARE_METHOD:
	case AMQP_QUEUE_DELETE_METHOD:
	case AMQP_EXCHANGE_DECLARE_METHOD:
		return "configure";
	case AMQP_BASIC_PUBLISH_METHOD:
		return "write";
	case AMQP_BASIC_CONSUME_METHOD:
	case AMQP_BASIC_GET_METHOD:
		return "read";
	default:
		return NULL;
	}
}

char *
amqp_request_words(const amqp_channel_close_t *close)
{
	static const char refused[] = "ACCESS_REFUSED - ";
	char *words = amqp_frame_words(close->reply_text), *complete;

	if (!amqp_request_says(words, "ACCESS_REFUSED - access to ") ||
	    request_permission(close) == NULL)
		return words;
	complete =
	    mem_printf("%s%s %s", refused, request_permission(close), words + strlen(refused));
	free(words);
	return complete;
}

enum broker_answer
amqp_request_declared(int code, const char *text, enum broker_answer usual)
{
	(void)code;
	return amqp_request_says(text, "PRECONDITION_FAILED - inequivalent arg") ? BROKER_OK
										 : usual;
}

/*
 * The words of RabbitMQ 3.10.8, 4.0.5 (Mnesia and Khepri) and 4.3.6. Those of nodes that are down
 * or silent are in their programs, the others were seen. Before each stands the name of its code,
 * as in "NOT_FOUND - ":
 *
 *	403	queue 'B' in vhost '/' in exclusive use
 *	403	access to queue 'B' in vhost '/' refused for user 'u'		3.10.8
 *	403	read access to queue 'B' in vhost '/' refused for user 'u'	since 4.0.5
 *	404	no queue 'B' in vhost '/'
 *	404	home node 'N' of durable queue 'B' in vhost '/' is down or inaccessible
 *	404	failed to perform operation on queue 'B' in vhost '/' due to timeout
 *	404	queue 'B' in vhost '/' process is stopped by supervisor
 *	405	cannot obtain exclusive access to locked queue 'B' in vhost '/'. It could ...
 *	406	inequivalent arg 'x-expires' for queue 'B' in vhost '/': received ...
 *	406	queue 'B' in vhost '/' in use
 *	406	queue 'B' in vhost '/' not empty
 */
static enum broker_answer
request_usual_meaning(int code, const char *text)
{
	switch (code) {
	case AMQP_NOT_FOUND:
		FAULT(UNREACHABLE_IS_ABSENT, return BROKER_ABSENT);
		return amqp_request_says(text, "NOT_FOUND - no queue '") ? BROKER_ABSENT
									 : BROKER_UNREACHABLE;
	case AMQP_RESOURCE_LOCKED:
		return BROKER_LOCKED;
	case AMQP_ACCESS_REFUSED:
		FAULT_IF(EXCLUSIVE_USE_IS_LOST, amqp_request_says(text, "ACCESS_REFUSED - queue '"),
		    return BROKER_UNKNOWN);
		FAULT(EXCLUSIVE_USE_IS_REFUSED, return BROKER_REFUSED);
		FAULT(PERMISSION_IS_LOCKED, return BROKER_LOCKED);
		/* Other words: a permission is missing. */
		return amqp_request_says(text, "ACCESS_REFUSED - queue '") ? BROKER_LOCKED
									   : BROKER_REFUSED;
	default:
		return BROKER_REFUSED;
	}
}

enum broker_answer
amqp_request_refusal(const struct amqp_request *kind, int code, const char *text)
{
	enum broker_answer usual = request_usual_meaning(code, text);

	return kind->refusal != NULL ? kind->refusal(code, text, usual) : usual;
}
