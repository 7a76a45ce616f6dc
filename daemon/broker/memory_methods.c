#include "daemon/broker/memory_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/broker/memory_post.h"
#include "daemon/broker/memory_world_inside.h"

static const struct memory_verdict done = {.answer = BROKER_OK, .text = ""};
static const struct memory_verdict not_found = {
    .answer = BROKER_ABSENT, .code = 404, .text = "NOT_FOUND - no such queue"};
static const struct memory_verdict locked = {.answer = BROKER_LOCKED,
    .code = 405,
    .text = "RESOURCE_LOCKED - exclusive to another connection, or declared otherwise"};
static const struct memory_verdict reserved = {
    .answer = BROKER_REFUSED, .code = 403, .text = "ACCESS_REFUSED - reserved queue name"};
/* What broker.h makes of these 406: the queue is there, the lane is not. */
static const struct memory_verdict otherwise = {.answer = BROKER_OK,
    .code = 406,
    .text = "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue in vhost '/'"};
static const struct memory_verdict transient = {.answer = BROKER_OK,
    .code = 406,
    .text = "PRECONDITION_FAILED - inequivalent arg 'durable' for queue in vhost '/': "
	    "received 'true' but current is 'false'"};

static const struct memory_verdict overfull = {
    .answer = BROKER_REFUSED, .code = 406, .text = "more messages than a directory may have"};
static const struct memory_verdict alarmed = {.answer = BROKER_UNKNOWN, .text = BROKER_ALARM_WORDS};
/* A mandatory publish to nobody: that closes no lane. */
static const struct memory_verdict returned = {.answer = BROKER_ABSENT, .text = ""};
static const struct memory_verdict refused = {
    .answer = BROKER_REFUSED, .code = 403, .text = "ACCESS_REFUSED - access to queue refused"};

static bool
is_reserved(const char *name)
{
	return strncmp(name, "amq.", strlen("amq.")) == 0;
}

/*
 * A declare that says exclusive meets a queue that is not, or the other way round: 405, even of the
 * own connection (RabbitMQ 3.10, check_exclusive_access, strict).
 */
static struct memory_verdict
claim(struct memory_owner *owner, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(owner->world, name);

	if (is_reserved(name))
		return reserved;
	if (queue == NULL)
		memory_queue_new(owner->world, name, MEMORY_QUEUE_EXCLUSIVE, owner);
	else if (queue->owner != owner)
		return locked;
	return done;
}

static struct memory_verdict
declare(struct memory_owner *owner, const char *name, enum memory_kind kind)
{
	const struct memory_queue *queue = memory_queue_find(owner->world, name);

	if (is_reserved(name))
		return reserved;
	if (queue == NULL)
		memory_queue_new(owner->world, name, kind, NULL);
	else if (queue->owner != NULL)
		return locked;
	else if (queue->kind == MEMORY_QUEUE_TRANSIENT)
		return transient;
	else if (queue->kind != kind)
		return otherwise;
	return done;
}

static struct memory_verdict
check(struct memory_owner *owner, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(owner->world, name);

	if (queue == NULL)
		return not_found;
	if (queue->owner != NULL && queue->owner != owner)
		return locked;
	return done;
}

static struct memory_verdict delete (struct memory_owner *owner, const char *name)
{
	struct memory_queue *queue = memory_queue_find(owner->world, name);

	if (queue != NULL && queue->owner != NULL && queue->owner != owner)
		return locked;
	if (queue != NULL)
		memory_queue_free(owner->world, queue);
	return done;
}

/* ---- a directory ---- */

/* What broker.h makes of a refusal. */
static struct memory_verdict
refusal(struct memory_verdict verdict)
{
	if (verdict.code != 0)
		verdict.answer = BROKER_REFUSED;
	return verdict;
}

static struct memory_verdict
directory_enter(struct memory_owner *owner, const struct memory_call *call)
{
	struct memory_verdict verdict;

	if (memory_world_blocked(owner->world))
		return alarmed;
	verdict = declare(owner, call->queue, MEMORY_QUEUE_DIRECTORY);
	if (verdict.code != 0)
		return refusal(verdict);
	name_list_add(&memory_queue_find(owner->world, call->queue)->messages, call->name);
	name_list_add(&verdict.names, call->name);
	return verdict;
}

/* Reads the names, or takes those that are `call->name` out. */
static struct memory_verdict
directory_go_through(struct memory_owner *owner, const struct memory_call *call)
{
	struct memory_queue *queue = memory_queue_find(owner->world, call->queue);
	struct memory_verdict verdict = done;
	struct name_list *messages;
	size_t left = 0;

	if (queue == NULL)
		return done;
	if (queue->owner != NULL)
		return refusal(locked);
	messages = &queue->messages;
	if (messages->count > BROKER_DIRECTORY_MAX)
		return overfull;
	for (size_t i = 0; i < messages->count; i++) {
		char *body = messages->all[i];

		if (call->name == NULL ? broker_is_name(body, strlen(body))
				       : strcmp(body, call->name) == 0)
			name_list_add(&verdict.names, body);
		if (call->name != NULL && strcmp(body, call->name) == 0)
			free(body);
		else
			messages->all[left++] = body;
	}
	messages->count = left;
	return verdict;
}

/* ---- a wait line ---- */

static struct memory_verdict
line_join(struct memory_owner *owner, const struct memory_call *call)
{
	struct memory_verdict verdict = declare(owner, call->queue, MEMORY_QUEUE_LINE);

	if (verdict.code != 0)
		return refusal(verdict);
	memory_post_read(memory_queue_find(owner->world, call->queue), owner, call->lane,
	    call->priority, call->credit);
	return verdict;
}

/* Mandatory. What is no line keeps no messages (x-max-length 0). */
static struct memory_verdict
line_wake(struct memory_owner *owner, const struct memory_call *call)
{
	struct memory_queue *queue = memory_queue_find(owner->world, call->queue);
	int64_t now = clock_now(timers_clock(owner->world->timers));
	char body[16];
	struct memory_message hint = {.body = body, .expires = now + BROKER_HINT_TTL};

	hint.len = (size_t)snprintf(body, sizeof(body), "%d", call->slot);
	if (queue == NULL)
		return returned;
	if (queue->kind == MEMORY_QUEUE_LINE)
		memory_post_publish(owner->world, queue, &hint);
	return done;
}

static struct memory_verdict
line_count(struct memory_owner *owner, const struct memory_call *call)
{
	struct memory_verdict verdict = check(owner, call->queue);

	if (verdict.code == 0)
		verdict.consumers =
		    (int)memory_post_readers(memory_queue_find(owner->world, call->queue));
	return verdict;
}

/* ---- letters ---- */

static struct memory_verdict
inbox_open(struct memory_owner *owner, const struct memory_call *call)
{
	struct memory_verdict verdict = declare(owner, call->queue, MEMORY_QUEUE_INBOX);

	if (verdict.code != 0)
		return refusal(verdict);
	memory_post_read(memory_queue_find(owner->world, call->queue), owner, call->lane, 0, 0);
	return verdict;
}

static struct memory_message
letter_of(const struct memory_owner *owner, const struct memory_call *call)
{
	int64_t now = clock_now(timers_clock(owner->world->timers));

	return (struct memory_message){
	    .body = (char *)call->name,
	    .len = strlen(call->name),
	    .number = call->number,
	    .expires = now + BROKER_LETTER_TTL,
	};
}

/* A fanout exchange: all inboxes, that of who asks too. */
static struct memory_verdict
letter_ask(struct memory_owner *owner, const struct memory_call *call)
{
	struct memory_message letter = letter_of(owner, call);
	struct memory_queue *queue;

	letter.reply_to = (char *)call->queue;
	for (queue = owner->world->queues; queue != NULL; queue = queue->hh.next) {
		if (queue->kind == MEMORY_QUEUE_INBOX)
			memory_post_publish(owner->world, queue, &letter);
	}
	return done;
}

static struct memory_verdict
letter_reply(struct memory_owner *owner, const struct memory_call *call)
{
	struct memory_queue *queue = memory_queue_find(owner->world, call->queue);
	struct memory_message letter = letter_of(owner, call);

	if (queue != NULL && queue->kind == MEMORY_QUEUE_INBOX)
		memory_post_publish(owner->world, queue, &letter);
	return done;
}

/* ---- all ---- */

static struct memory_verdict
perform(struct memory_owner *owner, const struct memory_call *call)
{
	switch (call->method) {
	case MEMORY_CLAIM:
		return claim(owner, call->queue);
	case MEMORY_CHECK:
		return check(owner, call->queue);
	case MEMORY_DROP:
	case MEMORY_DELETE_SLOT:
		return delete (owner, call->queue);
	case MEMORY_DECLARE_SLOT:
	case MEMORY_DECLARE_MARKER:
		return declare(owner, call->queue, MEMORY_QUEUE_SLOT);
	case MEMORY_DIRECTORY_ENTER:
		return directory_enter(owner, call);
	case MEMORY_DIRECTORY_READ:
	case MEMORY_DIRECTORY_LEAVE:
		return directory_go_through(owner, call);
	case MEMORY_LINE_JOIN:
		return line_join(owner, call);
	case MEMORY_LINE_CREDIT:
		memory_post_set_credit(owner, call->lane, call->credit);
		return done;
	case MEMORY_LINE_LEAVE:
	case MEMORY_INBOX_CLOSE:
		memory_post_leave(owner, call->lane);
		return done;
	case MEMORY_LINE_WAKE:
		return line_wake(owner, call);
	case MEMORY_LINE_COUNT:
		return line_count(owner, call);
	case MEMORY_INBOX_OPEN:
		return inbox_open(owner, call);
	case MEMORY_LETTER_ASK:
		return letter_ask(owner, call);
	case MEMORY_LETTER_REPLY:
		return letter_reply(owner, call);
	}
	abort();
}

struct memory_verdict
memory_owner_perform(struct memory_owner *owner, const struct memory_call *call)
{
	const struct memory_nature *nature = &owner->world->nature;
	bool refuses = nature->refuses != NULL && nature->refuses(nature->ctx);
	struct memory_verdict verdict = refuses ? refused : perform(owner, call);
	struct memory_performed what = {
	    .broker = owner->broker,
	    .connection = owner->number,
	    .lane = call->lane,
	    .method = call->method,
	    .queue = call->queue,
	    .name = call->name,
	    .priority = call->priority,
	    .credit = call->credit,
	    .slot = call->slot,
	    .number = call->number,
	    .answer = verdict.answer,
	};

	if (nature->performed != NULL)
		nature->performed(nature->ctx, &what);
	return verdict;
}
