/*
 * By consumer: B is a durable queue, and its holder is its exclusive consumer. Administration makes B
 * with the slot. Of a true mutex, the claim makes it.
 */
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/broker/request.h"
#include "daemon/broker/way.h"

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
    .refusal = amqp_request_declared,
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

enum broker_way
way_of_word(enum method_claim word)
{
	enum broker_way way = 0;

	while (way_row(way)->claim_word != word)
		way++;
	return way;
}
