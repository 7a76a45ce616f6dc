/*
 * Quorum queues with a single active consumer, as RabbitMQ's machine rabbit_fifo keeps them. The
 * names in parentheses are functions there.
 *
 * A request of a channel becomes a command. The queue takes commands one after another, some time
 * after the channel has sent them. It knows no channel: a consumer has a key, and each message that
 * is checked out has a number, which counts the deliveries of that consumer. So a command that comes
 * late, or twice, has no effect if its message was returned meanwhile.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/memory/internal.h"

/* The limit on deliveries of RabbitMQ 4.0 and later, if the queue has none. */
#define DELIVERY_LIMIT 20

enum member_state {
	MEMBER_WAITING,   /* it has no message, and becomes active in its turn */
	MEMBER_ACTIVE,    /* it gets the messages; at most one is */
	MEMBER_CANCELLED, /* its client cancelled it; it keeps its messages, and gets no more */
	MEMBER_TIMED_OUT, /* the same by the server */
	MEMBER_SUSPENDED  /* its node is down; it has no message */
};

/* A consumer, as the queue knows it. */
struct member {
	enum member_state state;
	uint64_t key, opening; /* its own, and its channel's */
	unsigned node;         /* its channel's */
	unsigned prefetch;     /* 0: no limit */
	unsigned unread;       /* messages that it has */
	uint64_t deliveries;
	TAILQ_ENTRY(member) entry;
};

enum command_kind {
	COMMAND_REGISTER,
	COMMAND_CANCEL,
	COMMAND_SETTLE, /* of a message */
	COMMAND_ADD,    /* only if the queue could not be reached; else it is done at once */
	COMMAND_END     /* of a channel */
};

struct command {
	enum command_kind kind;
	int64_t when; /* clock time at which the queue takes it */
	bool lost;    /* it waits until the test sends it again */
	unsigned node;
	uint64_t key, opening, id;
	enum memory_settled how;
	unsigned prefetch;
	/* borrowed; it waits for this command; NULL: it does not, or is gone */
	struct memory_channel *channel;
	struct memory_message *message; /* owned */
	TAILQ_ENTRY(command) entry;
};

/* A delivery on its way from the queue to the channel. */
struct parcel {
	struct memory_message *message; /* owned */
	unsigned node;
	TAILQ_ENTRY(parcel) entry;
};

struct memory_quorum {
	uint64_t number; /* never used twice in a server */
	bool limited;
	long limit; /* returns of a message before it is dropped */
	/* x-delivery-limit, x-consumer-timeout, x-consumer-disconnected-timeout */
	struct memory_argument {
		bool given;
		int64_t value;
	} arguments[3];
	TAILQ_HEAD(, member) members; /* owned; the first one that waits is the next */
	TAILQ_HEAD(memory_commands, command) commands; /* owned */
	TAILQ_HEAD(, parcel) parcels;                  /* owned; deliveries that are held back */
	struct timer timer;                            /* the first command that is due later */
	int64_t last; /* clock time of the newest command: no later one is sooner */
	struct memory_quorum_faults faults;
};

static const char *const names[3] = {
    "x-delivery-limit", "x-consumer-timeout", "x-consumer-disconnected-timeout"};

static enum memory_reach
reach_from(const struct memory_queue *queue, unsigned node)
{
	return queue->world->reach[node][queue->home];
}

/* ---- declaring ---- */

static bool
is_text(const amqp_field_value_t *value, const char *text)
{
	return value != NULL && value->kind == AMQP_FIELD_KIND_UTF8 &&
	       value->value.bytes.len == strlen(text) &&
	       memcmp(value->value.bytes.bytes, text, strlen(text)) == 0;
}

bool
memory_quorum_is_meant(const amqp_queue_declare_t *declare)
{
	return is_text(memory_argument(&declare->arguments, "x-queue-type"), "quorum");
}

const char *
memory_quorum_refuses(const amqp_queue_declare_t *declare)
{
	if (declare->auto_delete)
		return "auto-delete";
	if (declare->exclusive)
		return "exclusive-owner";
	return declare->durable ? NULL : "non-durable";
}

static struct memory_argument
argument_of(const amqp_queue_declare_t *declare, const char *name)
{
	return (struct memory_argument){
	    .given = memory_argument(&declare->arguments, name) != NULL,
	    .value = memory_number_argument(&declare->arguments, name),
	};
}

static bool
is_single(const amqp_queue_declare_t *declare)
{
	const amqp_field_value_t *value =
	    memory_argument(&declare->arguments, "x-single-active-consumer");

	return value != NULL && value->kind == AMQP_FIELD_KIND_BOOLEAN && value->value.boolean;
}

/* -1 means no limit, but before RabbitMQ 4.0 it means that no message returns. */
static void
set_limit(struct memory_quorum *quorum, unsigned version)
{
	const struct memory_argument *given = &quorum->arguments[0];

	quorum->limit = given->given ? given->value : DELIVERY_LIMIT;
	quorum->limited =
	    version < MEMORY_VERSION(4, 0) ? given->given : !given->given || given->value >= 0;
}

/* In RabbitMQ's words (rabbit_misc, val). both: the other one is given, too. */
static const char *
number_words(char room[64], struct memory_argument argument, bool both)
{
	if (!argument.given)
		return "none";
	if (both)
		snprintf(room, 64, "'%" PRId64 "'", argument.value);
	else
		snprintf(room, 64, "the value '%" PRId64 "' of type '%s'", argument.value,
		    argument.value > INT32_MAX ? "long" : "signedint");
	return room;
}

bool
memory_quorum_differs(
    const struct memory_queue *queue, const amqp_queue_declare_t *declare, char *words, size_t size)
{
	const struct memory_quorum *quorum = queue->quorum;
	/* The two timeouts are arguments from 4.3 on; servers before ignore them. */
	const int count = queue->world->version >= MEMORY_VERSION(4, 3) ? 3 : 1;
	char room[64], other[64];

	if (!is_single(declare)) {
		snprintf(words, size,
		    "'x-single-active-consumer' for queue '%s' in vhost '/': received none but "
		    "current is the value 'true' of type 'bool'",
		    queue->name);
		return true;
	}
	if (!memory_quorum_is_meant(declare)) {
		snprintf(words, size,
		    "'x-queue-type' for queue '%s' in vhost '/': received none but current is the "
		    "value 'quorum' of type 'longstr'",
		    queue->name);
		return true;
	}
	for (int i = 0; i < count; i++) {
		struct memory_argument argument = argument_of(declare, names[i]),
				       current = quorum->arguments[i];
		bool both = argument.given && current.given;

		if (argument.given == current.given && argument.value == current.value)
			continue;
		snprintf(words, size,
		    "'%s' for queue '%s' in vhost '/': received %s but current is %s", names[i],
		    queue->name, number_words(room, argument, both),
		    number_words(other, current, both));
		return true;
	}
	return false;
}

static void on_timer(void *ctx, uint64_t id);

void
memory_quorum_new(struct memory_queue *queue, const amqp_queue_declare_t *declare)
{
	struct memory_quorum *quorum = mem_alloc(sizeof(*quorum));

	assert(is_single(declare));
	quorum->number = ++queue->world->last_message;
	for (int i = 0; i < 3; i++)
		quorum->arguments[i] = argument_of(declare, names[i]);
	set_limit(quorum, queue->world->version);
	TAILQ_INIT(&quorum->members);
	TAILQ_INIT(&quorum->commands);
	TAILQ_INIT(&quorum->parcels);
	timer_init(&quorum->timer, on_timer, queue, 0);
	queue->quorum = quorum;
}

/* ---- members ---- */

static struct member *
member_of(const struct memory_quorum *quorum, uint64_t key)
{
	struct member *member;

	TAILQ_FOREACH (member, &quorum->members, entry)
		if (member->key == key)
			break;
	return member;
}

static struct member *
first_in(const struct memory_quorum *quorum, enum member_state state)
{
	struct member *member;

	TAILQ_FOREACH (member, &quorum->members, entry)
		if (member->state == state)
			break;
	return member;
}

/* Of the channel that it is of. NULL: it was cancelled, or its channel ended. */
static struct memory_consumer *
consumer_of(const struct memory_queue *queue, uint64_t key)
{
	struct memory_consumer *consumer;

	TAILQ_FOREACH (consumer, &queue->consumers, of_queue)
		if (consumer->key == key)
			break;
	return consumer;
}

static void
member_remove(struct memory_queue *queue, struct member *member)
{
	assert(member->unread == 0);
	if (member->state != MEMBER_WAITING)
		memory_queue_used(queue);
	TAILQ_REMOVE(&queue->quorum->members, member, entry);
	free(member);
}

/* Those that wait, and those that are suspended, do not count (query_stat, is_expired). */
size_t
memory_quorum_members(const struct memory_queue *queue)
{
	const struct member *member;
	size_t count = 0;

	TAILQ_FOREACH (member, &queue->quorum->members, entry)
		count += member->state != MEMBER_WAITING && member->state != MEMBER_SUSPENDED;
	return count;
}

uint64_t
memory_quorum_active(const struct memory_queue *queue, unsigned *ret_unread)
{
	const struct member *member = first_in(queue->quorum, MEMBER_ACTIVE);

	if (ret_unread != NULL)
		*ret_unread = member != NULL ? member->unread : 0;
	return member != NULL ? member->opening : 0;
}

/* ---- delivering ---- */

/*
 * The delivery arrives at its channel, which gives it a tag. A channel whose consumer is cancelled
 * drops it.
 */
static void
hand_over(const struct memory_queue *queue, const struct memory_message *message)
{
	const struct memory_consumer *consumer = consumer_of(queue, message->key);
	struct memory_handed *handed;
	amqp_basic_deliver_t deliver;

	if (consumer == NULL)
		return;
	handed = mem_alloc(sizeof(*handed));
	handed->tag = ++consumer->channel->last_tag;
	handed->queue = mem_strdup(queue->name);
	handed->number = queue->quorum->number;
	handed->key = message->key;
	handed->id = message->id;
	TAILQ_INSERT_TAIL(&consumer->channel->handed, handed, entry);
	deliver = (amqp_basic_deliver_t){
	    .consumer_tag = amqp_cstring_bytes(consumer->tag),
	    .delivery_tag = handed->tag,
	    .redelivered = message->acquired > 0,
	    .exchange = amqp_cstring_bytes(message->exchange),
	    .routing_key = amqp_cstring_bytes(message->routing_key),
	};
	memory_channel_send_message(
	    consumer->channel, false, AMQP_BASIC_DELIVER_METHOD, &deliver, message);
}

static void
parcel_free(struct memory_quorum *quorum, struct parcel *parcel)
{
	TAILQ_REMOVE(&quorum->parcels, parcel, entry);
	memory_message_free(parcel->message);
	free(parcel);
}

static void
send_delivery(
    struct memory_queue *queue, const struct member *member, const struct memory_message *message)
{
	struct memory_quorum *quorum = queue->quorum;
	struct parcel *parcel;

	if (!quorum->faults.late && reach_from(queue, member->node) == MEMORY_REACHED) {
		hand_over(queue, message);
		return;
	}
	parcel = mem_alloc(sizeof(*parcel));
	parcel->message = memory_message_copy(message);
	parcel->node = member->node;
	TAILQ_INSERT_TAIL(&quorum->parcels, parcel, entry);
}

/* Without an active consumer the next one becomes it, and gets what is ready. */
static void
go_on(struct memory_queue *queue)
{
	struct memory_quorum *quorum = queue->quorum;
	struct member *active = first_in(quorum, MEMBER_ACTIVE);
	struct memory_message *message;

	if (active == NULL)
		active = first_in(quorum, MEMBER_WAITING);
	if (active == NULL)
		return;
	active->state = MEMBER_ACTIVE;
	while (!quorum->faults.starved &&
	       (active->prefetch == 0 || active->unread < active->prefetch) &&
	       (message = TAILQ_FIRST(&queue->ready)) != NULL) {
		TAILQ_REMOVE(&queue->ready, message, of_queue);
		TAILQ_INSERT_TAIL(&queue->delivered, message, of_queue);
		message->key = active->key;
		message->id = active->deliveries++;
		active->unread++;
		send_delivery(queue, active, message);
	}
}

/* ---- returning ---- */

static struct memory_message *
find_delivered(const struct memory_queue *queue, uint64_t key, uint64_t id)
{
	struct memory_message *message;

	TAILQ_FOREACH (message, &queue->delivered, of_queue)
		if (message->key == key && message->id == id)
			break;
	return message;
}

static void
take_from(struct memory_queue *queue, struct member *member, struct memory_message *message)
{
	TAILQ_REMOVE(&queue->delivered, message, of_queue);
	member->unread--;
}

/* Behind the last one that was returned. Those are served before all others (take_next_msg). */
static void
insert_returned(struct memory_queue *queue, struct memory_message *message)
{
	struct memory_message *behind;

	message->returned = true;
	TAILQ_FOREACH (behind, &queue->ready, of_queue)
		if (!behind->returned)
			break;
	if (behind == NULL)
		TAILQ_INSERT_TAIL(&queue->ready, message, of_queue);
	else
		TAILQ_INSERT_BEFORE(behind, message, of_queue);
}

enum cause { CAUSE_NACK, CAUSE_REJECT, CAUSE_END, CAUSE_NODE };

/* From 4.3 on, x-delivery-count and the limit count these alone (rabbit_channel, settle). */
static bool
is_failure(enum cause cause)
{
	return cause == CAUSE_REJECT || cause == CAUSE_END;
}

/*
 * Whether the message is appended as a new one (handle_aux, requeue). Others are returned
 * (return_one). From 4.3 on, no message is appended.
 */
static bool
is_appended(const struct memory_queue *queue, enum cause cause)
{
	return !queue->quorum->limited && queue->world->version < MEMORY_VERSION(4, 3) &&
	       (cause == CAUSE_NACK || cause == CAUSE_REJECT);
}

static void
put_back(struct memory_queue *queue, struct member *member, struct memory_message *message,
    enum cause cause)
{
	const struct memory_quorum *quorum = queue->quorum;
	unsigned counted;

	take_from(queue, member, message);
	message->acquired++;
	message->failed += is_failure(cause);
	counted =
	    queue->world->version >= MEMORY_VERSION(4, 3) ? message->failed : message->acquired;
	if (quorum->limited && (long)counted > quorum->limit) {
		memory_message_free(message);
	} else if (is_appended(queue, cause)) {
		message->returned = false;
		TAILQ_INSERT_TAIL(&queue->ready, message, of_queue);
	} else {
		insert_returned(queue, message);
	}
}

/* In the order in which they were delivered (return_all). */
static void
put_all_back(struct memory_queue *queue, struct member *member, enum cause cause)
{
	struct memory_message *message, *next;

	TAILQ_FOREACH_SAFE (message, &queue->delivered, of_queue, next) {
		if (message->key == member->key)
			put_back(queue, member, message, cause);
	}
}

/* ---- the effect of commands ---- */

static void
apply_register(struct memory_quorum *quorum, const struct command *command)
{
	struct member *member = mem_alloc(sizeof(*member));

	member->state = MEMBER_WAITING;
	member->key = command->key;
	member->opening = command->opening;
	member->node = command->node;
	member->prefetch = command->prefetch;
	TAILQ_INSERT_TAIL(&quorum->members, member, entry);
}

static void
remove_if_done(struct memory_queue *queue, struct member *member)
{
	if (member->state == MEMBER_CANCELLED && member->unread == 0)
		member_remove(queue, member);
}

static void
apply_cancel(struct memory_queue *queue, uint64_t key)
{
	struct member *member = member_of(queue->quorum, key);

	if (member == NULL)
		return;
	if (member->unread == 0) {
		member_remove(queue, member);
		return;
	}
	member->state = MEMBER_CANCELLED;
}

static void
apply_settle(struct memory_queue *queue, const struct command *command)
{
	struct memory_message *message = find_delivered(queue, command->key, command->id);
	struct member *member = member_of(queue->quorum, command->key);

	if (message == NULL)
		return;
	switch (command->how) {
	case MEMORY_GONE:
		take_from(queue, member, message);
		memory_message_free(message);
		break;
	case MEMORY_NACKED:
		put_back(queue, member, message, CAUSE_NACK);
		break;
	case MEMORY_REJECTED:
		put_back(queue, member, message, CAUSE_REJECT);
		break;
	}
	remove_if_done(queue, member);
}

static void
apply_end(struct memory_queue *queue, uint64_t opening)
{
	struct member *member, *next;

	TAILQ_FOREACH_SAFE (member, &queue->quorum->members, entry, next) {
		if (member->opening != opening)
			continue;
		put_all_back(queue, member, CAUSE_END);
		member_remove(queue, member);
	}
}

static void
add(struct memory_queue *queue, struct memory_message *message)
{
	message->order = ++queue->world->last_message;
	message->returned = false;
	message->acquired = message->failed = 0;
	TAILQ_INSERT_TAIL(&queue->ready, message, of_queue);
}

static void
apply(struct memory_queue *queue, struct command *command)
{
	switch (command->kind) {
	case COMMAND_REGISTER:
		apply_register(queue->quorum, command);
		break;
	case COMMAND_CANCEL:
		apply_cancel(queue, command->key);
		break;
	case COMMAND_SETTLE:
		apply_settle(queue, command);
		break;
	case COMMAND_ADD:
		add(queue, command->message);
		command->message = NULL;
		break;
	case COMMAND_END:
		apply_end(queue, command->opening);
		break;
	}
	go_on(queue);
}

/* ---- commands ---- */

/* The channel that waited for the command goes on. */
static void
command_free(struct command *command)
{
	struct memory_channel *channel = command->channel;

	if (channel != NULL) {
		channel->asks = NULL;
		memory_parcels_expect(
		    &channel->in, channel->connection->world->timers, &channel->arrive);
	}
	if (command->message != NULL)
		memory_message_free(command->message);
	free(command);
}

/* It fails to reach the queue, and is not tried again. */
static bool
fails(const struct memory_queue *queue, const struct command *command)
{
	enum memory_reach reach = reach_from(queue, command->node);

	return command->kind == COMMAND_REGISTER &&
	       (reach == MEMORY_TIMED_OUT || reach == MEMORY_DOWN);
}

/* The first command that the queue takes now. NULL: none; the timer is set for a later one. */
static struct command *
next_command(struct memory_queue *queue)
{
	struct command *command;

	TAILQ_FOREACH (command, &queue->quorum->commands, entry) {
		if (command->lost ||
		    (reach_from(queue, command->node) != MEMORY_REACHED && !fails(queue, command)))
			continue;
		if (command->when <= memory_now(queue->world))
			return command;
		timers_set(queue->world->timers, &queue->quorum->timer, command->when);
		return NULL;
	}
	return NULL;
}

/* Takes the commands that are due. A connection may end by that. */
static void
run(struct memory_queue *queue)
{
	struct memory_channel *channel;
	struct command *command;

	while ((command = next_command(queue)) != NULL) {
		channel = command->channel;
		TAILQ_REMOVE(&queue->quorum->commands, command, entry);
		if (!fails(queue, command)) {
			apply(queue, command);
			command_free(command);
			continue;
		}
		command_free(command);
		if (channel != NULL)
			memory_connection_close(
			    channel->connection, AMQP_INTERNAL_ERROR, "INTERNAL_ERROR");
	}
}

static void
on_timer(void *ctx, uint64_t id)
{
	(void)id;
	run(ctx);
}

/* sync: the channel waits until the queue has taken it. */
static void
submit(struct memory_queue *queue, struct memory_channel *channel, bool sync, struct command values)
{
	struct memory_quorum *quorum = queue->quorum;
	struct command *command = mem_alloc(sizeof(*command));

	*command = values;
	command->node = channel->connection->node;
	command->opening = channel->opening;
	command->when = quorum->last =
	    memory_later(quorum->last, memory_now(queue->world) + memory_delay(queue->world));
	if (sync) {
		command->channel = channel;
		channel->asks = command;
	}
	TAILQ_INSERT_TAIL(&quorum->commands, command, entry);
	run(queue);
}

/* ---- what channels do ---- */

/*
 * From 4.0 on, a key is never used twice. Before, it is of the consumer tag and the channel: a
 * consumer of a channel has the key of the one before it, and counts from the start.
 */
static uint64_t
new_key(const struct memory_queue *queue, uint64_t opening)
{
	if (queue->world->version < MEMORY_VERSION(4, 0) &&
	    member_of(queue->quorum, opening) == NULL && consumer_of(queue, opening) == NULL)
		return opening;
	return ++queue->world->last_message;
}

bool
memory_quorum_register(struct memory_consumer *consumer)
{
	struct memory_channel *channel = consumer->channel;
	struct memory_queue *queue = consumer->queue;
	enum memory_reach reach = reach_from(queue, channel->connection->node);

	assert(!consumer->no_ack && consumer->priority == 0);
	if (queue->quorum->faults.refuses || reach == MEMORY_TIMED_OUT || reach == MEMORY_DOWN)
		return false;
	consumer->key = new_key(queue, channel->opening);
	channel->consumes_quorum = true;
	submit(queue, channel, true,
	    (struct command){
		.kind = COMMAND_REGISTER, .key = consumer->key, .prefetch = consumer->prefetch});
	return true;
}

void
memory_quorum_cancel(struct memory_consumer *consumer)
{
	struct memory_channel *channel = consumer->channel;
	struct memory_queue *queue = consumer->queue;
	uint64_t key = consumer->key;

	memory_consumer_free(consumer);
	submit(queue, channel, true, (struct command){.kind = COMMAND_CANCEL, .key = key});
}

/* Whether the channel has a consumer, or will have one. */
static bool
concerns(const struct memory_quorum *quorum, uint64_t opening)
{
	const struct command *command;
	const struct member *member;

	TAILQ_FOREACH (member, &quorum->members, entry)
		if (member->opening == opening)
			return true;
	TAILQ_FOREACH (command, &quorum->commands, entry)
		if (command->opening == opening && command->kind == COMMAND_REGISTER)
			return true;
	return false;
}

void
memory_quorum_channel_ended(struct memory_channel *channel)
{
	struct memory_queue *queue, *next;
	struct memory_handed *handed;

	if (channel->asks != NULL)
		channel->asks->channel = NULL;
	channel->asks = NULL;
	while ((handed = TAILQ_FIRST(&channel->handed)) != NULL)
		memory_handed_free(channel, handed);
	if (!channel->consumes_quorum)
		return;
	channel->consumes_quorum = false;
	HASH_ITER (hh, channel->connection->world->queues, queue, next) {
		if (queue->quorum != NULL && concerns(queue->quorum, channel->opening))
			submit(queue, channel, false, (struct command){.kind = COMMAND_END});
	}
}

struct memory_handed *
memory_handed_find(const struct memory_channel *channel, uint64_t tag)
{
	struct memory_handed *handed;

	TAILQ_FOREACH (handed, &channel->handed, entry)
		if (handed->tag == tag)
			break;
	return handed;
}

void
memory_handed_free(struct memory_channel *channel, struct memory_handed *handed)
{
	TAILQ_REMOVE(&channel->handed, handed, entry);
	free(handed->queue);
	free(handed);
}

/* NULL: it was deleted. */
static struct memory_queue *
queue_of(const struct memory_channel *channel, const struct memory_handed *handed)
{
	struct memory_queue *queue = memory_queue_find(channel->connection->world, handed->queue);

	return queue != NULL && queue->quorum != NULL && queue->quorum->number == handed->number
		   ? queue
		   : NULL;
}

const char *
memory_quorum_body(const struct memory_channel *channel, const struct memory_handed *handed)
{
	const struct memory_queue *queue = queue_of(channel, handed);
	const struct memory_message *message =
	    queue != NULL ? find_delivered(queue, handed->key, handed->id) : NULL;

	return message != NULL ? message->body : NULL;
}

void
memory_quorum_settle(
    struct memory_channel *channel, struct memory_handed *handed, enum memory_settled how)
{
	struct memory_queue *queue = queue_of(channel, handed);
	struct command command = {
	    .kind = COMMAND_SETTLE,
	    .how = how,
	    .key = handed->key,
	    .id = handed->id,
	};

	memory_handed_free(channel, handed);
	if (queue == NULL || (how != MEMORY_GONE && queue->quorum->faults.loses))
		return;
	command.lost = how != MEMORY_GONE && queue->quorum->faults.delays;
	submit(queue, channel, false, command);
}

void
memory_quorum_add(struct memory_queue *queue, const struct memory_message *published)
{
	add(queue, memory_message_copy(published));
	go_on(queue);
}

void
memory_quorum_add_later(struct memory_queue *queue, struct memory_channel *channel,
    const struct memory_message *published)
{
	submit(queue, channel, false,
	    (struct command){.kind = COMMAND_ADD, .message = memory_message_copy(published)});
}

/* ---- nodes ---- */

static void
suspend(struct memory_queue *queue, struct member *member)
{
	struct memory_quorum *quorum = queue->quorum;

	put_all_back(queue, member, CAUSE_NODE);
	if (member->state == MEMBER_CANCELLED) {
		member_remove(queue, member);
		return;
	}
	member->state = MEMBER_SUSPENDED;
	TAILQ_REMOVE(&quorum->members, member, entry);
	TAILQ_INSERT_TAIL(&quorum->members, member, entry);
	memory_queue_used(queue);
}

/* The first one of the node that is not suspended. */
static struct member *
first_up(const struct memory_quorum *quorum, unsigned node)
{
	struct member *member;

	TAILQ_FOREACH (member, &quorum->members, entry)
		if (member->node == node && member->state != MEMBER_SUSPENDED)
			break;
	return member;
}

bool
memory_quorum_suspend_active(struct memory_queue *queue)
{
	struct member *active = first_in(queue->quorum, MEMBER_ACTIVE);

	if (active == NULL)
		return false;
	suspend(queue, active);
	go_on(queue);
	return true;
}

void
memory_quorum_resume(struct memory_queue *queue, unsigned node)
{
	struct member *member;

	TAILQ_FOREACH (member, &queue->quorum->members, entry)
		if (member->state == MEMBER_SUSPENDED &&
		    (node == MEMORY_NODES || member->node == node))
			member->state = MEMBER_WAITING;
	go_on(queue);
}

void
memory_quorum_release(struct memory_queue *queue, unsigned node, bool arrive)
{
	struct memory_quorum *quorum = queue->quorum;
	struct parcel *parcel, *next;

	TAILQ_FOREACH_SAFE (parcel, &quorum->parcels, entry, next) {
		if (node != MEMORY_NODES && parcel->node != node)
			continue;
		if (arrive)
			hand_over(queue, parcel->message);
		parcel_free(quorum, parcel);
	}
}

/*
 * The queue's leader is at its home. While the home is silent, deliveries and commands are on their
 * way. The consumers of a node that is down are active again before their ends are noticed.
 */
void
memory_quorum_part(struct memory_queue *queue, unsigned from, enum memory_reach reach)
{
	struct member *member;

	if (reach == MEMORY_SILENT)
		return;
	if (reach == MEMORY_REACHED) {
		memory_quorum_release(queue, from, true);
		memory_quorum_resume(queue, from);
	} else {
		memory_quorum_release(queue, from, false);
		while ((member = first_up(queue->quorum, from)) != NULL)
			suspend(queue, member);
		go_on(queue);
	}
	timers_set(queue->world->timers, &queue->quorum->timer, memory_now(queue->world));
}

/* ---- what tests do ---- */

struct memory_quorum_faults *
memory_quorum_faults(const struct memory_queue *queue)
{
	return &queue->quorum->faults;
}

void
memory_quorum_go_on(struct memory_queue *queue)
{
	go_on(queue);
}

void
memory_quorum_resend(struct memory_queue *queue)
{
	struct memory_quorum *quorum = queue->quorum;
	struct command *command, *before;

	for (command = TAILQ_LAST(&quorum->commands, memory_commands); command != NULL;
	     command = before) {
		before = TAILQ_PREV(command, memory_commands, entry);
		if (!command->lost)
			continue;
		command->lost = false;
		command->when = quorum->last = memory_later(quorum->last, memory_now(queue->world));
		TAILQ_REMOVE(&quorum->commands, command, entry);
		TAILQ_INSERT_TAIL(&quorum->commands, command, entry);
	}
	run(queue);
}

/* Of a consumer, only the message that it was delivered first is too old (evaluate_consumer_timeout). */
bool
memory_quorum_time_out(struct memory_queue *queue)
{
	struct member *active = first_in(queue->quorum, MEMBER_ACTIVE);
	const struct memory_consumer *consumer;
	struct memory_message *message;

	if (active == NULL || active->unread == 0)
		return false;
	TAILQ_FOREACH (message, &queue->delivered, of_queue)
		if (message->key == active->key)
			break;
	active->state = MEMBER_TIMED_OUT;
	put_back(queue, active, message, CAUSE_NODE);
	consumer = consumer_of(queue, active->key);
	if (consumer != NULL)
		memory_consumer_send_cancel(consumer);
	go_on(queue);
	return true;
}

size_t
memory_quorum_purge(struct memory_queue *queue, bool all)
{
	struct memory_message *message;
	size_t count = 0;

	for (; (message = TAILQ_FIRST(&queue->ready)) != NULL; count++) {
		TAILQ_REMOVE(&queue->ready, message, of_queue);
		memory_message_free(message);
	}
	for (; all && (message = TAILQ_FIRST(&queue->delivered)) != NULL; count++) {
		take_from(queue, member_of(queue->quorum, message->key), message);
		memory_message_free(message);
	}
	return count;
}

/* ---- ends ---- */

/* ends: those of the ends of channels stay. */
static void
drop_commands(struct memory_quorum *quorum, bool ends)
{
	struct command *command, *next;

	TAILQ_FOREACH_SAFE (command, &quorum->commands, entry, next) {
		if (!ends && command->kind == COMMAND_END)
			continue;
		TAILQ_REMOVE(&quorum->commands, command, entry);
		command_free(command);
	}
}

void
memory_quorum_restart(struct memory_queue *queue)
{
	struct command *command;

	drop_commands(queue->quorum, false);
	memory_quorum_release(queue, MEMORY_NODES, false);
	while ((command = TAILQ_FIRST(&queue->quorum->commands)) != NULL) {
		TAILQ_REMOVE(&queue->quorum->commands, command, entry);
		apply(queue, command);
		command_free(command);
	}
}

void
memory_quorum_free(struct memory_queue *queue)
{
	struct memory_quorum *quorum = queue->quorum;
	struct member *member;

	(void)memory_quorum_purge(queue, true);
	drop_commands(quorum, true);
	memory_quorum_release(queue, MEMORY_NODES, false);
	while ((member = TAILQ_FIRST(&quorum->members)) != NULL) {
		TAILQ_REMOVE(&quorum->members, member, entry);
		free(member);
	}
	timers_cancel(queue->world->timers, &quorum->timer);
	free(quorum);
	queue->quorum = NULL;
}
