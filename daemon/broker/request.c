#include "daemon/broker/request.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/frame.h"
#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

/* The consumer of a claim. A channel has one at a time. */
#define TAG "h"

amqp_method_number_t
amqp_request_method(enum amqp_request what, unsigned done)
{
	FAULT_IF(HOLDER_NOT_ASKED_FOR, what == AMQP_REQUEST_DELETE_HOLDER, done++);
	if (what == AMQP_REQUEST_CLAIM_MUTEX && done > 0) {
		what = AMQP_REQUEST_CONSUME;
		done--;
	} else if (what == AMQP_REQUEST_DELETE_HOLDER && done > 0) {
		what = AMQP_REQUEST_DELETE_SLOT;
		done--;
	}
	if (done > 0)
		return 0;
	switch (what) {
	case AMQP_REQUEST_CLAIM:
	case AMQP_REQUEST_CLAIM_MUTEX:
	case AMQP_REQUEST_CHECK:
	case AMQP_REQUEST_CHECK_QUEUE:
	case AMQP_REQUEST_CHECK_CONSUMER:
	case AMQP_REQUEST_DECLARE_SLOT:
	case AMQP_REQUEST_DECLARE_MARKER:
	case AMQP_REQUEST_DECLARE_HOLDER:
	case AMQP_REQUEST_DELETE_HOLDER:
		return AMQP_QUEUE_DECLARE_METHOD;
	case AMQP_REQUEST_CONSUME:
		return AMQP_BASIC_CONSUME_METHOD;
	case AMQP_REQUEST_CANCEL:
		return AMQP_BASIC_CANCEL_METHOD;
	case AMQP_REQUEST_DROP:
	case AMQP_REQUEST_DELETE_SLOT:
		return AMQP_QUEUE_DELETE_METHOD;
	}
	return 0;
}

bool
amqp_request_consumes(enum amqp_request what)
{
	return what == AMQP_REQUEST_CONSUME || what == AMQP_REQUEST_CLAIM_MUTEX;
}

/* Of the durable queues, which keep no message: the number of their arguments. 0: not durable. */
static int
argument_count(enum amqp_request what)
{
	switch (what) {
	case AMQP_REQUEST_DECLARE_SLOT: /* as other clients of the scheme declare them */
		return 1;
	case AMQP_REQUEST_DECLARE_MARKER:
		return 2;
	case AMQP_REQUEST_DECLARE_HOLDER:
		return 3;
	case AMQP_REQUEST_CLAIM_MUTEX:
		return 4;
	default:
		return 0;
	}
}

static void
send_declare(struct amqp_link *link, uint16_t channel, enum amqp_request what, const char *queue)
{
	/*
	 * Without x-overflow, RabbitMQ 3.10.8 delivers a message to the consumer even if
	 * x-max-length is 0.
	 */
	amqp_table_entry_t arguments[] = {
	    amqp_entry_number("x-max-length", 0),
	    amqp_entry_text("x-queue-type", "classic"),
	    amqp_entry_text("x-overflow", "reject-publish"),
	    amqp_entry_number("x-expires", BROKER_MUTEX_EXPIRES / NSEC_PER_MSEC),
	};
	int count = argument_count(what);
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .passive = what == AMQP_REQUEST_CHECK || what == AMQP_REQUEST_CHECK_QUEUE ||
		       what == AMQP_REQUEST_CHECK_CONSUMER || what == AMQP_REQUEST_DELETE_HOLDER,
	    .exclusive = what == AMQP_REQUEST_CLAIM,
	    .durable = count > 0,
	    .arguments = {.num_entries = count, .entries = arguments},
	};

	amqp_link_send(link, channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

static void
send_consume(struct amqp_link *link, uint16_t channel, const char *queue)
{
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(TAG),
	    .no_ack = 1, /* consumer_timeout does not end it */
	    .exclusive = 1,
	};

	amqp_link_send(link, channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

static void
send_cancel(struct amqp_link *link, uint16_t channel)
{
	amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes(TAG)};

	amqp_link_send(link, channel, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

static void
send_delete(struct amqp_link *link, uint16_t channel, enum amqp_request what, const char *queue)
{
	/*
	 * If the queue's process is down, RabbitMQ ignores if-unused and forces the deletion. With
	 * if-empty it refuses (rabbit_classic_queue of 3.10.8, 4.0.5 and 4.3.6). A holder queue of
	 * ours is always empty. One by queue is deleted with its messages.
	 */
	amqp_queue_delete_t delete = {
	    .queue = amqp_cstring_bytes(queue),
	    /* A durable queue may have replaced the exclusive one of a claim. */
	    .if_unused = what == AMQP_REQUEST_DELETE_HOLDER || what == AMQP_REQUEST_DROP,
	    .if_empty = what == AMQP_REQUEST_DELETE_HOLDER,
	};

	FAULT_IF(HOLDER_IN_USE_DELETED, what == AMQP_REQUEST_DELETE_HOLDER, delete.if_unused = 0);
	FAULT_IF(OTHERS_HOLDER_DELETED, what == AMQP_REQUEST_DROP, delete.if_unused = 0);
	FAULT(HOLDER_FORCED, delete.if_empty = 0);
	amqp_link_send(link, channel, AMQP_QUEUE_DELETE_METHOD, &delete);
}

void
amqp_request_send(
    struct amqp_link *link, uint16_t channel, enum amqp_request what, const char *queue)
{
	amqp_method_number_t method;

	for (unsigned done = 0; (method = amqp_request_method(what, done)) != 0; done++) {
		if (method == AMQP_QUEUE_DECLARE_METHOD)
			send_declare(link, channel, what, queue);
		else if (method == AMQP_BASIC_CONSUME_METHOD)
			send_consume(link, channel, queue);
		else if (method == AMQP_BASIC_CANCEL_METHOD)
			send_cancel(link, channel);
		else
			send_delete(link, channel, what, queue);
	}
}

enum broker_answer
amqp_request_success(enum amqp_request what, const struct amqp_frame *ok)
{
	const amqp_queue_declare_ok_t *declared = ok->fields;

	FAULT(NO_CONSUMER_IGNORED, return BROKER_OK);
	if (what == AMQP_REQUEST_CHECK_CONSUMER && declared->consumer_count == 0)
		return BROKER_ABSENT;
	/* An exclusive queue of a claim has no consumer: another holds this durable one. */
	FAULT(OTHERS_CONSUMER_IGNORED, return BROKER_OK);
	if (what == AMQP_REQUEST_CHECK_QUEUE && declared->consumer_count > 0)
		return BROKER_LOCKED;
	return BROKER_OK;
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

/* The end of a text may be cut: RabbitMQ sends at most 255 bytes of it. */
static bool
begins(const char *text, const char *words)
{
	return strncmp(text, words, strlen(words)) == 0;
}

/* The permission that the method of a channel.close needs. NULL: one of several, or none. */
static const char *
permission(const amqp_channel_close_t *close)
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

	if (!begins(words, "ACCESS_REFUSED - access to ") || permission(close) == NULL)
		return words;
	complete = mem_printf("%s%s %s", refused, permission(close), words + strlen(refused));
	free(words);
	return complete;
}

/* 406. The queue exists if the declaration of a durable queue is refused for its arguments. */
static enum broker_answer
precondition(enum amqp_request what, const char *text)
{
	switch (what) {
	case AMQP_REQUEST_DECLARE_SLOT:
	case AMQP_REQUEST_DECLARE_MARKER:
	case AMQP_REQUEST_DECLARE_HOLDER:
		return begins(text, "PRECONDITION_FAILED - inequivalent arg") ? BROKER_OK
									      : BROKER_REFUSED;
	case AMQP_REQUEST_DELETE_HOLDER:
		/*
		 * Its process is down; or it has messages, of another program. Else "in use", or a
		 * long name left no room for these words.
		 */
		return strstr(text, "' not empty") != NULL ? BROKER_UNREACHABLE : BROKER_LOCKED;
	case AMQP_REQUEST_DROP:
		return BROKER_LOCKED; /* the condition was if-unused */
	default:
		return BROKER_REFUSED;
	}
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
enum broker_answer
amqp_request_refusal(enum amqp_request what, int code, const char *text)
{
	switch (code) {
	case AMQP_NOT_FOUND:
		FAULT(UNREACHABLE_IS_ABSENT, return BROKER_ABSENT);
		if (begins(text, "NOT_FOUND - no queue '"))
			return BROKER_ABSENT;
		/*
		 * An exclusive queue is on the node of its connection, so one with another home is
		 * not ours. Other words are about any queue. Then the hold ends for safety, but a
		 * drop must be sent again, as B may be ours.
		 */
		if (what == AMQP_REQUEST_CHECK_QUEUE ||
		    (what == AMQP_REQUEST_DROP && begins(text, "NOT_FOUND - home node '")))
			return BROKER_LOCKED;
		return BROKER_UNREACHABLE;
	case AMQP_RESOURCE_LOCKED:
		return BROKER_LOCKED;
	case AMQP_ACCESS_REFUSED:
		FAULT_IF(EXCLUSIVE_USE_IS_LOST, begins(text, "ACCESS_REFUSED - queue '"),
		    return BROKER_UNKNOWN);
		FAULT(EXCLUSIVE_USE_IS_REFUSED, return BROKER_REFUSED);
		FAULT(PERMISSION_IS_LOCKED, return BROKER_LOCKED);
		/* Other words: a permission is missing. */
		return begins(text, "ACCESS_REFUSED - queue '") ? BROKER_LOCKED : BROKER_REFUSED;
	case AMQP_PRECONDITION_FAILED:
		return precondition(what, text);
	default:
		return BROKER_REFUSED;
	}
}
