#include "daemon/broker/request.h"

#include <string.h>

static amqp_method_number_t
method_of(enum amqp_request what)
{
	switch (what) {
	case AMQP_REQUEST_CLAIM:
	case AMQP_REQUEST_CHECK:
	case AMQP_REQUEST_DECLARE_SLOT:
	case AMQP_REQUEST_DECLARE_MARKER:
		return AMQP_QUEUE_DECLARE_METHOD;
	case AMQP_REQUEST_DROP:
	case AMQP_REQUEST_DELETE_SLOT:
		return AMQP_QUEUE_DELETE_METHOD;
	}
	return 0;
}

/* Slots and markers: durable queues that keep no message. */
static bool
is_administration(enum amqp_request what)
{
	return what == AMQP_REQUEST_DECLARE_SLOT || what == AMQP_REQUEST_DECLARE_MARKER;
}

static void
send_declare(struct amqp_link *link, uint16_t channel, enum amqp_request what, const char *queue)
{
	/* Slot queues have only the first one, as other clients of the scheme declare them. */
	amqp_table_entry_t arguments[] = {
	    amqp_entry_number("x-max-length", 0),
	    amqp_entry_text("x-queue-type", "classic"),
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .passive = what == AMQP_REQUEST_CHECK,
	    .exclusive = what == AMQP_REQUEST_CLAIM,
	    .durable = is_administration(what),
	};

	if (is_administration(what)) {
		declare.arguments.num_entries = what == AMQP_REQUEST_DECLARE_SLOT ? 1 : 2;
		declare.arguments.entries = arguments;
	}
	amqp_link_send(link, channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

void
amqp_request_send(
    struct amqp_link *link, uint16_t channel, enum amqp_request what, const char *queue)
{
	/* Without if-empty: a holder queue with messages must be deleted, too. */
	amqp_queue_delete_t delete = {.queue = amqp_cstring_bytes(queue)};

	if (method_of(what) == AMQP_QUEUE_DELETE_METHOD)
		amqp_link_send(link, channel, AMQP_QUEUE_DELETE_METHOD, &delete);
	else
		send_declare(link, channel, what, queue);
}

bool
amqp_request_is_done_by(enum amqp_request what, amqp_method_number_t method)
{
	/* AMQP numbers each "-ok" one above its request. */
	return method == method_of(what) + 1;
}

bool
amqp_request_is_blamed(const amqp_channel_close_t *close)
{
	/* Only a request causes these two. */
	return close->class_id != 0 || close->method_id != 0 ||
	       close->reply_code == AMQP_NOT_FOUND || close->reply_code == AMQP_RESOURCE_LOCKED;
}

bool
amqp_request_is_refused_by(enum amqp_request what, const amqp_channel_close_t *close)
{
	amqp_method_number_t blamed =
	    (amqp_method_number_t)close->class_id << 16 | close->method_id;

	return amqp_request_is_blamed(close) && (blamed == 0 || blamed == method_of(what));
}

enum broker_answer
amqp_request_refusal(enum amqp_request what, int code, const char *text)
{
	switch (code) {
	case AMQP_NOT_FOUND:
		return BROKER_ABSENT;
	case AMQP_RESOURCE_LOCKED:
		return BROKER_LOCKED;
	case AMQP_PRECONDITION_FAILED:
		/*
		 * The queue exists: "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for
		 * queue ...".
		 */
		if (is_administration(what) && strstr(text, "inequivalent arg") != NULL)
			return BROKER_OK;
		return BROKER_REFUSED;
	default:
		return BROKER_REFUSED;
	}
}
