/*
 * By queue: the holder declares B as an exclusive queue, which RabbitMQ deletes when the connection
 * ends. RabbitMQ lets a connection declare its own exclusive queue again.
 */
#include "daemon/base/fault.h"
#include "daemon/broker/request.h"
#include "daemon/broker/way.h"

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
	return usual == BROKER_UNREACHABLE && amqp_request_says(text, "NOT_FOUND - home node '")
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
