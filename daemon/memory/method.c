#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/memory/quorum.h"

#define UNANNOUNCED UINT64_MAX
/* A channel hears so late of the end of an auto-delete queue. */
#define END_HEARD (1 * NSEC_PER_MSEC)

/* The failure of a method. */
struct failure {
	int code; /* 0: no failure */
	char text[AMQP_CONTENT_WORD];
};

static const struct failure none = {0, ""};

__attribute__((format(printf, 2, 3))) static struct failure
fail(int code, const char *format, ...)
{
	struct failure failure = {.code = code};
	const size_t most = sizeof(failure.text) - 1;
	va_list values;

	va_start(values, format);
	/* RabbitMQ shortens a text of more than 255 bytes (rabbit_binary_generator). */
	if ((size_t)vsnprintf(failure.text, sizeof(failure.text), format, values) > most)
		memcpy(failure.text + most - strlen("..."), "...", strlen("..."));
	va_end(values);
	return failure;
}

static struct failure
not_found(const char *queue)
{
	return fail(AMQP_NOT_FOUND, "NOT_FOUND - no queue '%s' in vhost '/'", queue);
}

static struct failure
locked(const char *queue)
{
	return fail(AMQP_RESOURCE_LOCKED,
	    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%s' in vhost '/'. "
	    "It could be originally declared on another connection or the exclusive property value "
	    "does not match that of the original declaration.",
	    queue);
}

static struct failure
refused(const char *queue)
{
	return fail(AMQP_ACCESS_REFUSED,
	    "ACCESS_REFUSED - access to queue '%s' in vhost '/' refused for user '%s'", queue,
	    MEMORY_USER);
}

static struct failure
unknown_tag(uint64_t tag)
{
	return fail(
	    AMQP_PRECONDITION_FAILED, "PRECONDITION_FAILED - unknown delivery tag %" PRIu64, tag);
}

/* The home of the queue is MEMORY_TIMED_OUT or MEMORY_DOWN, or the queue hangs. */
static struct failure
unreachable(const struct memory_queue *queue, enum memory_reach reach)
{
	if (reach == MEMORY_TIMED_OUT)
		return fail(AMQP_NOT_FOUND,
		    "NOT_FOUND - failed to perform operation on queue '%s' in vhost '/' due to "
		    "timeout",
		    queue->name);
	return fail(AMQP_NOT_FOUND,
	    "NOT_FOUND - home node 'n%u' of durable queue '%s' in vhost '/' is down or "
	    "inaccessible",
	    queue->home, queue->name);
}

static struct memory_world *
world_of(const struct memory_channel *channel)
{
	return channel->connection->world;
}

static void
reply(struct memory_channel *channel, amqp_method_number_t method, void *fields)
{
	memory_channel_send(channel, true, method, fields);
}

/* Copies a short string of AMQP, which always fits. */
static char *
keep_word(char room[AMQP_CONTENT_WORD], amqp_bytes_t word)
{
	assert(word.len < AMQP_CONTENT_WORD);
	memcpy(room, word.bytes, word.len);
	room[word.len] = '\0';
	return room;
}

/* ---- channels ---- */

static void
send_close(
    struct memory_channel *channel, bool asked, amqp_method_number_t blamed, struct failure why)
{
	amqp_channel_close_t close = {
	    .reply_code = (uint16_t)why.code,
	    .reply_text = amqp_cstring_bytes(why.text),
	    .class_id = (uint16_t)(blamed >> 16),
	    .method_id = (uint16_t)blamed,
	};

	memory_channel_end(channel);
	channel->state = MEMORY_CHANNEL_CLOSING;
	memory_channel_send(channel, asked, AMQP_CHANNEL_CLOSE_METHOD, &close);
}

void
memory_channel_close(struct memory_channel *channel, int code, const char *text)
{
	if (channel->state != MEMORY_CHANNEL_OPEN)
		return;
	channel->stalled = channel->silenced = false;
	memory_parcels_expect(&channel->in, world_of(channel)->timers, &channel->arrive);
	send_close(channel, false, 0, fail(code, "%s", text));
}

/* ---- queues ---- */

static bool
is_others(const struct memory_channel *channel, const struct memory_queue *queue)
{
	return queue->owner != NULL && queue->owner != channel->connection;
}

/* How the connection reaches the home of a queue. */
static enum memory_reach
reach_of(const struct memory_channel *channel, const struct memory_queue *queue)
{
	return memory_reach_from(queue, channel->connection->node);
}

/*
 * If a declare and the queue differ in `exclusive`, the answer is 405, even on the owner's
 * connection (RabbitMQ 3.10, check_exclusive_access, strict). Other differences are 406.
 */
static struct failure
compare(const struct memory_channel *channel, const struct memory_queue *queue,
    const amqp_queue_declare_t *declare)
{
	char difference[2 * AMQP_CONTENT_WORD];

	if (is_others(channel, queue) ||
	    (!declare->passive && declare->exclusive != (queue->owner != NULL)))
		return locked(queue->name);
	if (!declare->passive &&
	    memory_queue_differs(queue, declare, difference, sizeof(difference)))
		return fail(AMQP_PRECONDITION_FAILED, "PRECONDITION_FAILED - %s", difference);
	return none;
}

static struct memory_queue *
queue_create(
    const struct memory_channel *channel, const amqp_queue_declare_t *declare, const char *name)
{
	struct memory_queue *queue = memory_queue_new(
	    world_of(channel), name, declare->exclusive ? channel->connection : NULL);

	queue->durable = declare->durable;
	queue->auto_delete = declare->auto_delete;
	queue->length_max = memory_number_argument(&declare->arguments, "x-max-length");
	queue->expires = memory_number_argument(&declare->arguments, "x-expires");
	queue->rejects = memory_argument(&declare->arguments, "x-overflow") != NULL;
	queue->single = memory_argument(&declare->arguments, "x-single-active-consumer") != NULL;
	queue->home = channel->connection->node;
	if (memory_quorum_is_meant(declare))
		memory_quorum_new(queue, declare);
	memory_queue_used(queue);
	return queue;
}

static struct failure
queue_declare(struct memory_channel *channel, const amqp_queue_declare_t *declare, const char *name)
{
	struct memory_world *world = world_of(channel);
	struct memory_queue *queue = memory_queue_find(world, name);
	amqp_queue_declare_ok_t ok = {.queue = declare->queue};
	bool knows = true; /* the counts of the queue */
	struct failure failure;

	if (memory_chance(world, world->behaviour.refuses))
		return refused(name);
	if (!declare->passive && strncmp(name, "amq.", strlen("amq.")) == 0)
		return fail(AMQP_ACCESS_REFUSED,
		    "ACCESS_REFUSED - queue name '%s' contains reserved prefix 'amq.*'", name);
	if (queue == NULL && declare->passive)
		return not_found(name);
	if (queue == NULL && memory_quorum_is_meant(declare) &&
	    memory_quorum_refuses(declare) != NULL)
		return fail(AMQP_PRECONDITION_FAILED,
		    "PRECONDITION_FAILED - invalid property '%s' for queue '%s' in vhost '/'",
		    memory_quorum_refuses(declare), name);
	if (queue == NULL) {
		queue = queue_create(channel, declare, name);
	} else if (queue->quorum != NULL) {
		failure = compare(channel, queue, declare);
		if (failure.code != 0)
			return failure;
		knows = reach_of(channel, queue) == MEMORY_REACHED;
	} else if (reach_of(channel, queue) == MEMORY_DOWN) {
		return unreachable(queue, MEMORY_DOWN);
	} else {
		/* The declare is compared before the home is asked (rabbit_channel). */
		failure = compare(channel, queue, declare);
		if (failure.code != 0)
			return failure;
		if (reach_of(channel, queue) == MEMORY_TIMED_OUT)
			return unreachable(queue, MEMORY_TIMED_OUT);
	}
	if (queue->quorum == NULL) {
		memory_queue_expire(world, queue);
		memory_queue_used(queue);
	}
	ok.message_count = knows ? (uint32_t)memory_queue_length(queue) : 0;
	ok.consumer_count = knows ? (uint32_t)memory_queue_members(queue) : 0;
	reply(channel, AMQP_QUEUE_DECLARE_OK_METHOD, &ok);
	return none;
}

static struct failure
queue_delete(struct memory_channel *channel, const amqp_queue_delete_t *delete, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world_of(channel), name);
	enum memory_reach reach;

	if (memory_chance(world_of(channel), world_of(channel)->behaviour.refuses))
		return refused(name);
	if (queue != NULL) {
		reach = reach_of(channel, queue);
		if (is_others(channel, queue))
			return locked(name);
		if (queue->quorum != NULL && (delete->if_unused || delete->if_empty))
			return fail(AMQP_NOT_IMPLEMENTED,
			    "NOT_IMPLEMENTED - cannot delete queue '%s' in vhost '/'. queue.delete "
			    "operations with %s flag set are not supported by quorum queues",
			    name, delete->if_unused ? "if-unused" : "if-empty");
		if (queue->quorum == NULL && (reach == MEMORY_DOWN || queue->hangs))
			return unreachable(queue, reach);
		/*
		 * The home of one that has timed out is not asked: if-empty refuses, and without it
		 * the deletion is forced, whatever if-unused says (rabbit_classic_queue).
		 */
		if (delete->if_empty &&
		    (reach == MEMORY_TIMED_OUT || memory_queue_length(queue) > 0))
			return fail(AMQP_PRECONDITION_FAILED,
			    "PRECONDITION_FAILED - queue '%s' in vhost '/' not empty", name);
		if (reach != MEMORY_TIMED_OUT && delete->if_unused &&
		    memory_queue_members(queue) > 0)
			return fail(AMQP_PRECONDITION_FAILED,
			    "PRECONDITION_FAILED - queue '%s' in vhost '/' in use", name);
		memory_queue_delete(world_of(channel), queue, reach != MEMORY_TIMED_OUT);
	}
	reply(channel, AMQP_QUEUE_DELETE_OK_METHOD, &(amqp_queue_delete_ok_t){0});
	return none;
}

/* Of quorum queues alone. */
static struct failure
queue_purge(struct memory_channel *channel, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world_of(channel), name);
	amqp_queue_purge_ok_t ok;

	if (queue == NULL)
		return not_found(name);
	assert(queue->quorum != NULL);
	ok.message_count = (uint32_t)memory_fifo_purge(queue, false);
	reply(channel, AMQP_QUEUE_PURGE_OK_METHOD, &ok);
	return none;
}

static struct failure
queue_bind(struct memory_channel *channel, const amqp_queue_bind_t *bind, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world_of(channel), name);
	char exchange[AMQP_CONTENT_WORD];

	if (queue == NULL)
		return not_found(name);
	free(queue->exchange);
	queue->exchange = mem_strdup(keep_word(exchange, bind->exchange));
	reply(channel, AMQP_QUEUE_BIND_OK_METHOD, &(amqp_queue_bind_ok_t){0});
	return none;
}

/* ---- reading ---- */

static int
priority_of(const amqp_table_t *arguments)
{
	return arguments->num_entries == 0 ? 0 : arguments->entries[0].value.value.i32;
}

static bool
is_in_use(const struct memory_queue *queue, bool exclusive)
{
	const struct memory_consumer *consumer;

	TAILQ_FOREACH (consumer, &queue->consumers, of_queue)
		if (!consumer->lost && (exclusive || consumer->exclusive))
			return true;
	return false;
}

static struct failure
basic_consume(struct memory_channel *channel, const amqp_basic_consume_t *consume, const char *name)
{
	struct memory_world *world = world_of(channel);
	struct memory_queue *queue = memory_queue_find(world, name);
	struct memory_consumer *consumer;
	amqp_basic_consume_ok_t ok;
	char tag[AMQP_CONTENT_WORD];

	keep_word(tag, consume->consumer_tag);
	if (memory_consumer_find(channel, consume->consumer_tag) != NULL)
		return fail(
		    AMQP_NOT_ALLOWED, "NOT_ALLOWED - attempt to reuse consumer tag '%s'", tag);
	if (memory_chance(world, world->behaviour.refuses))
		return refused(name);
	if (queue == NULL)
		return not_found(name);
	if (is_others(channel, queue))
		return locked(name);
	if (queue->quorum == NULL && reach_of(channel, queue) != MEMORY_REACHED)
		return unreachable(queue, reach_of(channel, queue));
	/*
	 * A quorum queue takes an exclusive consumer beside others. A classic queue with a single active consumer
	 * takes none (rabbit_amqqueue_process, exclusive_consume_unavailable).
	 */
	if (queue->quorum == NULL &&
	    (is_in_use(queue, consume->exclusive) || (queue->single && consume->exclusive)))
		return fail(AMQP_ACCESS_REFUSED,
		    "ACCESS_REFUSED - queue '%s' in vhost '/' in exclusive use", name);
	if (tag[0] == '\0')
		snprintf(tag, sizeof(tag), "amq.ctag-%" PRIu64, ++world->last_message);
	consumer = memory_consumer_new(channel, queue, tag, priority_of(&consume->arguments));
	consumer->exclusive = consume->exclusive;
	consumer->no_ack = consume->no_ack;
	/* It hears of the old queue's end later, and forgets the new one (broker/consumers.c). */
	consumer->deaf = channel->ended != NULL && strcmp(channel->ended, name) == 0 &&
			 memory_now(world) - channel->ended_at < END_HEARD;
	ok.consumer_tag = amqp_cstring_bytes(tag);
	reply(channel, AMQP_BASIC_CONSUME_OK_METHOD, &ok);
	if (queue->quorum == NULL)
		memory_queue_deliver(world, queue);
	else if (!memory_quorum_register(consumer))
		return fail(AMQP_INTERNAL_ERROR, "INTERNAL_ERROR");
	return none;
}

/* room: for the name of the consumer's queue. An unknown tag is no failure. */
static struct failure
basic_cancel(struct memory_channel *channel, const amqp_basic_cancel_t *cancel,
    char room[AMQP_CONTENT_WORD], char **ret_queue)
{
	struct memory_consumer *consumer = memory_consumer_find(channel, cancel->consumer_tag);
	amqp_basic_cancel_ok_t ok = {.consumer_tag = cancel->consumer_tag};

	if (!cancel->nowait)
		reply(channel, AMQP_BASIC_CANCEL_OK_METHOD, &ok);
	if (consumer != NULL) {
		*ret_queue = strcpy(room, consumer->queue->name);
		memory_consumer_end(world_of(channel), consumer);
	}
	return none;
}

static struct failure
basic_get(struct memory_channel *channel, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world_of(channel), name);
	struct memory_message *message;
	amqp_basic_get_empty_t empty = {.cluster_id = amqp_empty_bytes};
	amqp_basic_get_ok_t ok = {.delivery_tag = 0};

	if (queue == NULL)
		return not_found(name);
	if (is_others(channel, queue))
		return locked(name);
	if (queue->quorum != NULL)
		return fail(AMQP_RESOURCE_LOCKED,
		    "RESOURCE_LOCKED - cannot obtain access to locked queue '%s' in vhost '/'. "
		    "basic.get operations are not supported by quorum queues with single active "
		    "consumer",
		    name);
	if (reach_of(channel, queue) != MEMORY_REACHED)
		return unreachable(queue, reach_of(channel, queue));
	memory_queue_expire(world_of(channel), queue);
	memory_queue_used(queue);
	message = TAILQ_FIRST(&queue->ready);
	if (message == NULL) {
		reply(channel, AMQP_BASIC_GET_EMPTY_METHOD, &empty);
		return none;
	}
	TAILQ_REMOVE(&queue->ready, message, of_queue);
	memory_message_hand_over(message, queue, channel, NULL);
	ok.delivery_tag = message->tag;
	ok.redelivered = message->redelivered;
	ok.exchange = amqp_cstring_bytes(message->exchange);
	ok.routing_key = amqp_cstring_bytes(message->routing_key);
	ok.message_count = (uint32_t)memory_queue_length(queue);
	memory_channel_send_message(channel, true, AMQP_BASIC_GET_OK_METHOD, &ok, message);
	return none;
}

static struct memory_message *
find_delivered(const struct memory_channel *channel, uint64_t tag)
{
	struct memory_message *message;

	TAILQ_FOREACH (message, &channel->delivered, of_channel)
		if (message->tag == tag)
			break;
	return message;
}

/*
 * queue: room for a name. ret_body: the removed message (malloc'ed). Both NULL: there was no
 * message.
 */
static struct failure
basic_ack(struct memory_channel *channel, const amqp_basic_ack_t *ack, char **ret_body,
    char room[AMQP_CONTENT_WORD], char **ret_queue)
{
	struct memory_message *message = find_delivered(channel, ack->delivery_tag);
	struct memory_handed *handed = memory_handed_find(channel, ack->delivery_tag);
	struct memory_queue *queue;

	assert(!ack->multiple);
	if (handed != NULL) {
		*ret_body = mem_strdup(memory_handed_body(channel, handed));
		*ret_queue = strcpy(room, handed->queue);
		memory_handed_settle(channel, handed, MEMORY_GONE);
		return none;
	}
	if (message == NULL)
		return unknown_tag(ack->delivery_tag);
	queue = message->queue;
	memory_message_take_back(message, channel);
	*ret_body = mem_strdup(message->body);
	if (queue != NULL)
		*ret_queue = strcpy(room, queue->name);
	memory_message_free(message);
	if (queue != NULL)
		memory_queue_deliver(world_of(channel), queue);
	return none;
}

/* Also of basic.nack. how: the meaning for a quorum queue. */
static struct failure
put_back(struct memory_channel *channel, uint64_t tag, enum memory_settled how)
{
	struct memory_message *message = find_delivered(channel, tag);
	struct memory_handed *handed = memory_handed_find(channel, tag);

	if (handed != NULL) {
		memory_handed_settle(channel, handed, how);
		return none;
	}
	assert(how != MEMORY_GONE);
	if (message == NULL)
		return unknown_tag(tag);
	memory_message_take_back(message, channel);
	memory_message_requeue(world_of(channel), message);
	return none;
}

/* ---- publishing ---- */

static void
tell_performed(const struct memory_channel *channel, struct memory_performed what)
{
	const struct memory_behaviour *behaviour = &world_of(channel)->behaviour;

	what.broker = channel->connection->broker;
	what.connection = channel->connection->number;
	what.link = channel->connection->which;
	what.channel = channel->opening;
	if (what.correlation_id == NULL)
		what.correlation_id = "";
	if (behaviour->performed != NULL)
		behaviour->performed(behaviour->ctx, &what);
}

/* Notifies the connection of the alarm, and stops reading it. */
static void
halt(struct memory_connection *connection)
{
	if (!connection->publishes)
		memory_connection_send_blocked(connection, true);
	connection->halted = true;
}

/* The publish is whole. */
static void
publish(struct memory_channel *channel)
{
	struct memory_world *world = world_of(channel);
	const struct memory_message *message = &channel->coming->message;
	bool nacked = channel->confirms && memory_chance(world, world->behaviour.nacks);
	struct memory_fate fate = memory_route(channel, message);
	bool returned = !fate.routed && channel->coming->mandatory && !nacked;
	amqp_basic_return_t back = {
	    .reply_code = AMQP_NO_ROUTE,
	    .reply_text = amqp_cstring_bytes("NO_ROUTE"),
	    .exchange = amqp_cstring_bytes(message->exchange),
	    .routing_key = amqp_cstring_bytes(message->routing_key),
	};

	if (returned)
		memory_channel_send_message(
		    channel, true, AMQP_BASIC_RETURN_METHOD, &back, message);
	channel->confirms_not |= fate.unanswered;
	if (channel->confirms)
		memory_channel_count(channel, nacked || fate.rejected);
	tell_performed(channel, (struct memory_performed){.method = AMQP_BASIC_PUBLISH_METHOD,
				    .queue = message->routing_key,
				    .body = message->body,
				    .correlation_id = message->correlation_id,
				    .returned = returned,
				    .alarmed = channel->alarmed});
	if (world->alarm)
		halt(channel->connection);
	channel->connection->publishes = true;
}

static char *
keep_property(char room[AMQP_CONTENT_WORD], amqp_flags_t given, amqp_bytes_t word)
{
	return given != 0 ? keep_word(room, word) : NULL;
}

static struct failure
basic_publish(struct memory_channel *channel, const amqp_basic_publish_t *fields)
{
	struct memory_coming *coming = channel->coming;

	if (coming == NULL)
		channel->coming = coming = mem_alloc(sizeof(*coming));
	memory_headers_free(coming->message.headers);
	coming->message = (struct memory_message){
	    .exchange = keep_word(coming->exchange, fields->exchange),
	    .routing_key = keep_word(coming->routing_key, fields->routing_key),
	    .expires = INT64_MAX,
	};
	coming->mandatory = fields->mandatory;
	coming->to_come = UNANNOUNCED;
	return none;
}

static void
take_header(struct memory_channel *channel, const struct amqp_frame *frame)
{
	const amqp_basic_properties_t *properties = frame->fields;
	struct memory_coming *coming = channel->coming;
	struct memory_message *message = &coming->message;
	amqp_flags_t flags = properties->_flags;
	char expiration[AMQP_CONTENT_WORD];

	message->correlation_id = keep_property(coming->correlation_id,
	    flags & AMQP_BASIC_CORRELATION_ID_FLAG, properties->correlation_id);
	message->reply_to =
	    keep_property(coming->reply_to, flags & AMQP_BASIC_REPLY_TO_FLAG, properties->reply_to);
	message->user_id =
	    keep_property(coming->user_id, flags & AMQP_BASIC_USER_ID_FLAG, properties->user_id);
	if (flags & AMQP_BASIC_HEADERS_FLAG)
		message->headers = memory_headers_new(&properties->headers);
	message->persistent = properties->delivery_mode == AMQP_DELIVERY_PERSISTENT;
	if (flags & AMQP_BASIC_EXPIRATION_FLAG)
		message->expires =
		    memory_now(world_of(channel)) +
		    strtoll(keep_word(expiration, properties->expiration), NULL, 10) *
			NSEC_PER_MSEC;
	coming->to_come = frame->body_size;
	if (coming->room <= frame->body_size) {
		coming->room = (size_t)frame->body_size + 1;
		coming->body = mem_grow(coming->body, coming->room, 1);
	}
	message->body = coming->body;
	message->body[0] = '\0';
}

static void
take_body(struct memory_coming *coming, amqp_bytes_t body)
{
	struct memory_message *message = &coming->message;

	memcpy(message->body + message->len, body.bytes, body.len);
	message->len += body.len;
	message->body[message->len] = '\0';
	coming->to_come -= body.len;
}

static void
take_content(struct memory_channel *channel, const struct amqp_frame *frame)
{
	const char *user;

	assert(channel->coming != NULL && channel->coming->to_come > 0);
	if (frame->type == AMQP_FRAME_HEADER)
		take_header(channel, frame);
	else
		take_body(channel->coming, frame->body);
	if (channel->coming->to_come > 0)
		return;
	user = channel->coming->message.user_id;
	if (user == NULL || strcmp(user, MEMORY_USER) == 0)
		publish(channel);
	else
		send_close(channel, true, AMQP_BASIC_PUBLISH_METHOD,
		    fail(AMQP_PRECONDITION_FAILED,
			"PRECONDITION_FAILED - user_id property set to '%s' but authenticated "
			"user was '%s'",
			user, MEMORY_USER));
}

/* ---- all ---- */

/* The name of the method's queue, in room. NULL: none. */
static char *
queue_of(const struct amqp_frame *frame, char room[AMQP_CONTENT_WORD])
{
	switch (frame->method) {
	case AMQP_QUEUE_DECLARE_METHOD:
		return keep_word(room, ((const amqp_queue_declare_t *)frame->fields)->queue);
	case AMQP_QUEUE_DELETE_METHOD:
		return keep_word(room, ((const amqp_queue_delete_t *)frame->fields)->queue);
	case AMQP_QUEUE_PURGE_METHOD:
		return keep_word(room, ((const amqp_queue_purge_t *)frame->fields)->queue);
	case AMQP_QUEUE_BIND_METHOD:
		return keep_word(room, ((const amqp_queue_bind_t *)frame->fields)->queue);
	case AMQP_BASIC_CONSUME_METHOD:
		return keep_word(room, ((const amqp_basic_consume_t *)frame->fields)->queue);
	case AMQP_BASIC_GET_METHOD:
		return keep_word(room, ((const amqp_basic_get_t *)frame->fields)->queue);
	default:
		return NULL;
	}
}

static struct failure
perform(struct memory_channel *channel, const struct amqp_frame *frame,
    char room[AMQP_CONTENT_WORD], char **queue, char **ret_body)
{
	const amqp_basic_reject_t *reject = frame->fields;
	const amqp_basic_nack_t *nack = frame->fields;

	switch (frame->method) {
	case AMQP_QUEUE_DECLARE_METHOD:
		return queue_declare(channel, frame->fields, *queue);
	case AMQP_QUEUE_DELETE_METHOD:
		return queue_delete(channel, frame->fields, *queue);
	case AMQP_QUEUE_PURGE_METHOD:
		return queue_purge(channel, *queue);
	case AMQP_QUEUE_BIND_METHOD:
		return queue_bind(channel, frame->fields, *queue);
	case AMQP_BASIC_CONSUME_METHOD:
		return basic_consume(channel, frame->fields, *queue);
	case AMQP_BASIC_GET_METHOD:
		return basic_get(channel, *queue);
	case AMQP_BASIC_ACK_METHOD:
		return basic_ack(channel, frame->fields, ret_body, room, queue);
	case AMQP_BASIC_REJECT_METHOD:
		return put_back(
		    channel, reject->delivery_tag, reject->requeue ? MEMORY_REJECTED : MEMORY_GONE);
	case AMQP_BASIC_NACK_METHOD:
		assert(!nack->multiple);
		return put_back(
		    channel, nack->delivery_tag, nack->requeue ? MEMORY_NACKED : MEMORY_GONE);
	case AMQP_BASIC_PUBLISH_METHOD:
		return basic_publish(channel, frame->fields);
	case AMQP_BASIC_CANCEL_METHOD:
		return basic_cancel(channel, frame->fields, room, queue);
	case AMQP_CONFIRM_SELECT_METHOD:
		channel->confirms = true;
		reply(channel, AMQP_CONFIRM_SELECT_OK_METHOD, &(amqp_confirm_select_ok_t){0});
		return none;
	case AMQP_BASIC_QOS_METHOD:
		channel->prefetch = ((const amqp_basic_qos_t *)frame->fields)->prefetch_count;
		reply(channel, AMQP_BASIC_QOS_OK_METHOD, &(amqp_basic_qos_ok_t){0});
		return none;
	default:
		assert(frame->method == AMQP_EXCHANGE_DECLARE_METHOD);
		reply(channel, AMQP_EXCHANGE_DECLARE_OK_METHOD, &(amqp_exchange_declare_ok_t){0});
		return none;
	}
}

void
memory_connection_close(struct memory_connection *connection, int code, const char *text)
{
	amqp_connection_close_t close = {
	    .reply_code = (uint16_t)code, .reply_text = amqp_cstring_bytes(text)};

	memory_connection_release(connection);
	memory_channel_send(connection->control, false, AMQP_CONNECTION_CLOSE_METHOD, &close);
}

/* Ends the connection: no client may send this method now. */
static void
kill_connection(
    const struct memory_channel *channel, amqp_method_number_t method, int code, const char *text)
{
	memory_connection_close(channel->connection, code, text);
	tell_performed(channel, (struct memory_performed){.method = method, .code = code});
}

/*
 * Whether a method waits for the home of its queue, which is silent. name: of the queue; NULL: none.
 */
static bool
must_wait(const struct memory_channel *channel, const struct amqp_frame *frame, const char *name)
{
	const struct memory_consumer *consumer;
	const struct memory_queue *queue = NULL;
	enum memory_reach reach;

	if (name != NULL) {
		queue = memory_queue_find(world_of(channel), name);
	} else if (frame->method == AMQP_BASIC_CANCEL_METHOD) {
		consumer = memory_consumer_find(
		    channel, ((const amqp_basic_cancel_t *)frame->fields)->consumer_tag);
		queue = consumer != NULL ? consumer->queue : NULL;
	}
	if (queue == NULL || frame->method == AMQP_QUEUE_BIND_METHOD)
		return false;
	/* A quorum queue answers, or is not asked. */
	if (queue->quorum != NULL && frame->method != AMQP_QUEUE_DELETE_METHOD)
		return false;
	reach = reach_of(channel, queue);
	if (reach != MEMORY_SILENT && reach != MEMORY_PARTED)
		return false;
	return frame->method != AMQP_QUEUE_DECLARE_METHOD ||
	       compare(channel, queue, frame->fields).code == 0;
}

static bool
perform_method(struct memory_channel *channel, const struct amqp_frame *frame)
{
	char room[AMQP_CONTENT_WORD], *queue = queue_of(frame, room), *body = NULL;
	struct failure failure;

	if (must_wait(channel, frame, queue))
		return false;
	failure = perform(channel, frame, room, &queue, &body);
	if (failure.code >= AMQP_NOT_ALLOWED) {
		kill_connection(channel, frame->method, failure.code, failure.text);
		return true;
	}
	if (failure.code != 0)
		send_close(channel, true, frame->method, failure);
	if (frame->method != AMQP_BASIC_PUBLISH_METHOD) /* when it is whole */
		tell_performed(channel, (struct memory_performed){.method = frame->method,
					    .fields = frame->fields,
					    .queue = queue,
					    .body = body,
					    .code = failure.code});
	free(body);
	return true;
}

static unsigned
open_channels(const struct memory_connection *connection)
{
	const struct memory_channel *channel;
	unsigned count = 0;

	for (channel = connection->channels; channel != NULL; channel = channel->hh.next)
		count += channel->state != MEMORY_CHANNEL_CLOSED;
	return count;
}

static void
open_channel(struct memory_channel *channel)
{
	amqp_channel_open_ok_t ok = {.channel_id = amqp_empty_bytes};

	if (channel->state == MEMORY_CHANNEL_CLOSING)
		return; /* ignored: only close-ok has an effect */
	if (channel->state == MEMORY_CHANNEL_OPEN) {
		kill_connection(channel, AMQP_CHANNEL_OPEN_METHOD, AMQP_CHANNEL_ERROR,
		    "CHANNEL_ERROR - second 'channel.open' seen");
		return;
	}
	if (channel->connection->link != NULL &&
	    open_channels(channel->connection) >= channel->connection->link->base.channel_max) {
		kill_connection(channel, AMQP_CHANNEL_OPEN_METHOD, AMQP_NOT_ALLOWED,
		    "NOT_ALLOWED - number of channels opened has reached the limit");
		return;
	}
	channel->state = MEMORY_CHANNEL_OPEN;
	channel->opening = ++channel->connection->world->last_opening;
	reply(channel, AMQP_CHANNEL_OPEN_OK_METHOD, &ok);
}

static void
close_channel(struct memory_channel *channel)
{
	memory_channel_end(channel);
	/* If both sides sent channel.close, close-ok is still to come. */
	reply(channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &(amqp_channel_close_ok_t){0});
}

static void
close_connection(struct memory_channel *control, const struct amqp_frame *frame)
{
	assert(frame->method == AMQP_CONNECTION_CLOSE_METHOD);
	memory_connection_release(control->connection);
	reply(control, AMQP_CONNECTION_CLOSE_OK_METHOD, &(amqp_connection_close_ok_t){0});
}

bool
memory_perform(struct memory_channel *channel, const struct amqp_frame *frame, bool crashes)
{
	if (channel->number == 0)
		close_connection(channel, frame);
	else if (frame->method == AMQP_CHANNEL_OPEN_METHOD)
		open_channel(channel);
	else if (frame->method == AMQP_CHANNEL_CLOSE_METHOD)
		close_channel(channel);
	else if (channel->state == MEMORY_CHANNEL_CLOSING &&
		 frame->method == AMQP_CHANNEL_CLOSE_OK_METHOD)
		channel->state = MEMORY_CHANNEL_CLOSED;
	else if (channel->state == MEMORY_CHANNEL_CLOSING)
		return true;
	else if (channel->state == MEMORY_CHANNEL_CLOSED)
		kill_connection(channel, frame->method, AMQP_CHANNEL_ERROR,
		    "CHANNEL_ERROR - expected 'channel.open'");
	else if (crashes)
		kill_connection(channel, frame->method, AMQP_INTERNAL_ERROR, "INTERNAL_ERROR");
	else if (frame->type != AMQP_FRAME_METHOD)
		take_content(channel, frame);
	else
		return perform_method(channel, frame);
	return true;
}
