#include "daemon/broker/ways.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/frame.h"
#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/way.h"

/*
 * Contents:
 *	The words of broker.h: states, names and numbers.
 *	Requests: constants for slot queues, markers and posts. amqp_request_send() sends their methods.
 *	   request_usual_meaning() is the usual meaning of each refusal, by the broker's words.
 *	By queue: B is an exclusive queue.
 *	By consumer: B is durable, and has an exclusive consumer. Of a mutex the claim makes it.
 *	By quorum: B is replicated, and beads.h has its rules.
 *	All ways: the table of all rows.
 * Each block of a way has its requests, the meanings of their answers, and its row (way.h).
 */

/* ---- the words of broker.h ---- */

const char *
broker_state_word(enum broker_state state)
{
	switch (state) {
	case BROKER_DOWN:
		return "down";
	case BROKER_UP:
		return "up";
	case BROKER_LOGIN_REFUSED:
		return "refused";
	}
	return "?";
}

bool
broker_is_name(const void *body, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (((const char *)body)[i] < ' ' || ((const char *)body)[i] > '~')
			return false;
	}
	return len > 0 && len <= BROKER_NAME_MAX;
}

uint64_t
broker_number(const char *text)
{
	uint64_t number = 0;

	if (strlen(text) > 19 || strspn(text, "0123456789") != strlen(text))
		return 0;
	for (; *text != '\0'; text++)
		number = 10 * number + (uint64_t)(*text - '0');
	return number;
}

char *
broker_number_text(char room[BROKER_NUMBER_TEXT], uint64_t number)
{
	char *at = room + BROKER_NUMBER_TEXT - 1;

	*at = '\0';
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	return at;
}

int
broker_hint_slot(const char *text)
{
	int slot = 0;

	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9' || slot > 10 * 1000)
			return 0;
		slot = 10 * slot + (*text - '0');
	}
	return slot;
}

/* ---- requests ---- */

/* The consumer of a claim. A channel has one at a time. */
#define HOLDER_TAG "h"

/*
 * Whether the broker's words begin with these. Their end may be cut: RabbitMQ sends at most 255
 * bytes.
 */
static bool
request_says(const char *text, const char *words)
{
	return strncmp(text, words, strlen(words)) == 0;
}

/* A refusal of the declaration of a durable queue: OK if it exists with other arguments. */
static enum broker_answer
request_declared(int code, const char *text, enum broker_answer usual)
{
	(void)code;
	return request_says(text, "PRECONDITION_FAILED - inequivalent arg") ? BROKER_OK : usual;
}

const struct amqp_request amqp_request_check = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .passive = true,
};
/* As other clients of the scheme declare them. */
const struct amqp_request amqp_request_declare_slot = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .arguments = 1,
    .refusal = request_declared,
};
const struct amqp_request amqp_request_declare_marker = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .arguments = 2,
    .refusal = request_declared,
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
			amqp_link_send(link, channel, AMQP_BASIC_CANCEL_METHOD,
			    &(amqp_basic_cancel_t){.consumer_tag = amqp_cstring_bytes(HOLDER_TAG)});
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

	if (!request_says(words, "ACCESS_REFUSED - access to ") ||
	    request_permission(close) == NULL)
		return words;
	complete =
	    mem_printf("%s%s %s", refused, request_permission(close), words + strlen(refused));
	free(words);
	return complete;
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
		return request_says(text, "NOT_FOUND - no queue '") ? BROKER_ABSENT
								    : BROKER_UNREACHABLE;
	case AMQP_RESOURCE_LOCKED:
		return BROKER_LOCKED;
	case AMQP_ACCESS_REFUSED:
		FAULT_IF(EXCLUSIVE_USE_IS_LOST, request_says(text, "ACCESS_REFUSED - queue '"),
		    return BROKER_UNKNOWN);
		FAULT(EXCLUSIVE_USE_IS_REFUSED, return BROKER_REFUSED);
		FAULT(PERMISSION_IS_LOCKED, return BROKER_LOCKED);
		/* Other words: a permission is missing. */
		return request_says(text, "ACCESS_REFUSED - queue '") ? BROKER_LOCKED
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

/* ---- by queue ---- */

/*
 * By queue: the holder declares B as an exclusive queue, which RabbitMQ deletes when the connection
 * ends. RabbitMQ lets a connection declare its own exclusive queue again.
 */

static const struct amqp_request by_queue_claim = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .exclusive = true,
};

/* An exclusive queue of a claim has no consumer: another holds this durable one. */
static enum broker_answer
by_queue_checked(uint32_t consumers)
{
	FAULT(OTHERS_CONSUMER_IGNORED, return BROKER_OK);
	return consumers > 0 ? BROKER_LOCKED : BROKER_OK;
}

/*
 * An exclusive queue is on the node of its connection, so one with another home is not ours. Other
 * words are about any queue. Then the hold ends for safety.
 */
static enum broker_answer
by_queue_check_refused(int code, const char *text, enum broker_answer usual)
{
	(void)code;
	(void)text;
	return usual == BROKER_UNREACHABLE ? BROKER_LOCKED : usual;
}

static const struct amqp_request by_queue_check = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .passive = true,
    .success = by_queue_checked,
    .refusal = by_queue_check_refused,
};

/* With words about any queue the drop must be sent again, as B may be ours. */
static enum broker_answer
by_queue_drop_refused(int code, const char *text, enum broker_answer usual)
{
	if (code == AMQP_PRECONDITION_FAILED) /* the condition was if-unused */
		return BROKER_LOCKED;
	return usual == BROKER_UNREACHABLE && request_says(text, "NOT_FOUND - home node '")
		   ? BROKER_LOCKED
		   : usual;
}

/* A durable queue may have replaced the exclusive one of a claim. B is deleted with its messages. */
static const struct amqp_request by_queue_drop = {
    .methods = {AMQP_QUEUE_DELETE_METHOD},
    .if_unused = true,
    .refusal = by_queue_drop_refused,
};

/*
 * LOCKED: an exclusive queue, or a durable one that may be free, as the slot may be converted since
 * its way was seen. A claim by consumer tells. The next scan would see it too late for a hint.
 */
static struct way_lesson
by_queue_learn(const struct broker_reply *reply, bool unsure)
{
	struct way_lesson lesson = {.way = BROKER_BY_QUEUE};

	lesson.known = reply->answer == BROKER_OK || reply->answer == BROKER_LOCKED;
	if (reply->answer == BROKER_LOCKED && unsure) {
		lesson.way = BROKER_BY_CONSUMER;
		lesson.otherwise = true;
	}
	return lesson;
}

const struct way way_queue = {
    .claim_word = METHOD_CLAIM_BY_QUEUE,
    .by_what = "an exclusive queue",
    .how = "by exclusive queues",
    .of_mutex = BROKER_BY_QUEUE,
    .question = BROKER_ASK_HOLDER,
    .claim = &by_queue_claim,
    .check = &by_queue_check,
    .drop = &by_queue_drop,
    .learn = by_queue_learn,
    .reclaims = true,
};

/* ---- by consumer ---- */

/*
 * By consumer: B is a durable queue, and its holder is its exclusive consumer. Administration makes B
 * with the slot. Of a true mutex, the claim makes it.
 */

static const struct amqp_request by_consumer_claim = {
    .methods = {AMQP_BASIC_CONSUME_METHOD},
};

static const struct amqp_request by_consumer_claim_mutex = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD, AMQP_BASIC_CONSUME_METHOD},
    .arguments = 4,
    .expires = BROKER_MUTEX_EXPIRES,
};

static enum broker_answer
by_consumer_checked(uint32_t consumers)
{
	FAULT(NO_CONSUMER_IGNORED, return BROKER_OK);
	return consumers == 0 ? BROKER_ABSENT : BROKER_OK;
}

static const struct amqp_request by_consumer_check = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .passive = true,
    .success = by_consumer_checked,
};

static const struct amqp_request by_consumer_drop = {
    .methods = {AMQP_BASIC_CANCEL_METHOD},
};

static const struct amqp_request by_consumer_make = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD},
    .arguments = 3,
    .refusal = request_declared,
};

/*
 * 406. "not empty": the process of B is down, or B has messages of another program. Else "in use", or
 * a long name left no room for these words.
 */
static enum broker_answer
by_consumer_remove_refused(int code, const char *text, enum broker_answer usual)
{
	if (code != AMQP_PRECONDITION_FAILED)
		return usual;
	return strstr(text, "' not empty") != NULL ? BROKER_UNREACHABLE : BROKER_LOCKED;
}

/*
 * Asks the home of B in front, by a passive declare. If the process of B is down, RabbitMQ ignores
 * if-unused and forces the deletion. With if-empty it refuses (rabbit_classic_queue of 3.10.8, 4.0.5
 * and 4.3.6). B is always empty.
 */
static const struct amqp_request by_consumer_remove = {
    .methods = {AMQP_QUEUE_DECLARE_METHOD, AMQP_QUEUE_DELETE_METHOD},
    .passive = true,
    .if_unused = true,
    .if_empty = true,
    .refusal = by_consumer_remove_refused,
};

static struct way_lesson
by_consumer_learn(const struct broker_reply *reply, bool unsure)
{
	struct way_lesson lesson = {.way = BROKER_BY_CONSUMER};

	(void)unsure;
	lesson.otherwise = reply->answer == BROKER_ABSENT;
	lesson.known =
	    lesson.otherwise || reply->answer == BROKER_OK || reply->answer == BROKER_LOCKED;
	if (lesson.otherwise || reply->code == AMQP_RESOURCE_LOCKED)
		lesson.way = BROKER_BY_QUEUE;
	return lesson;
}

const struct way way_consumer = {
    .claim_word = METHOD_CLAIM_BY_CONSUMER,
    .by_what = "a consumer",
    .how = "by consumers",
    .of_mutex = BROKER_BY_MUTEX_CONSUMER,
    .question = BROKER_ASK_CONSUMER,
    .claim = &by_consumer_claim,
    .check = &by_consumer_check,
    .drop = &by_consumer_drop,
    .learn = by_consumer_learn,
    .claim_is_cheap = true,
    .drop_is_cheap = true,
    .make = &by_consumer_make,
    .remove = &by_consumer_remove,
    .is_channel = true,
    .own_lease = true,
};

/* Of a true mutex. Its claim makes B, which ends a minute after its last use. */
const struct way way_mutex_consumer = {
    .claim_word = METHOD_CLAIM_BY_CONSUMER,
    .by_what = "a consumer",
    .how = "by consumers",
    .of_mutex = BROKER_BY_MUTEX_CONSUMER,
    .question = BROKER_ASK_CONSUMER,
    .claim = &by_consumer_claim_mutex,
    .check = &by_consumer_check,
    .drop = &by_consumer_drop,
    .learn = by_consumer_learn,
    .drop_is_cheap = true,
    .make = &by_consumer_make,
    .remove = &by_consumer_remove,
    .is_channel = true,
    .own_lease = true,
    .leaves_b = BROKER_MUTEX_EXPIRES,
};

/* ---- by quorum ---- */

/*
 * By quorum: B is a replicated queue with three messages, and its holder is the active consumer. The
 * next holder sees in their order whether the last hold ended cleanly, and waits if it did not. Their
 * counts give a fencing number. There is no A: B alone is the slot. See docs/QUORUM.md.
 */

/* B has a name that only this way uses: nothing is to be learned about others. */
static struct way_lesson
by_quorum_learn(const struct broker_reply *reply, bool unsure)
{
	(void)reply;
	(void)unsure;
	return (struct way_lesson){0};
}

const struct way way_quorum = {
    .claim_word = METHOD_CLAIM_BY_QUORUM,
    .by_what = "a quorum queue",
    .how = "by quorum queues",
    .of_mutex = BROKER_BY_QUORUM,
    .question = BROKER_ASK_BEADS,
    .by_beads = true,
    .learn = by_quorum_learn,
    .claim_is_cheap = true,
    .drop_is_cheap = true,
    .is_channel = true,
    .own_lease = true,
    .leaves_b = BROKER_QUORUM_MUTEX_EXPIRES,
};

/* ---- all ways ---- */

enum broker_way
way_of_word(enum method_claim word)
{
	enum broker_way way = 0;

	while (way_row(way)->claim_word != word)
		way++;
	return way;
}
