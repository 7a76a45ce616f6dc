#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/memory/quorum.h"

/* ---- messages ---- */

void
memory_message_hand_over(struct memory_message *message, struct memory_queue *queue,
    struct memory_channel *channel, struct memory_consumer *consumer)
{
	message->queue = queue;
	message->consumer = consumer;
	message->tag = ++channel->last_tag;
	TAILQ_INSERT_TAIL(&queue->delivered, message, of_queue);
	TAILQ_INSERT_TAIL(&channel->delivered, message, of_channel);
	if (consumer != NULL)
		consumer->unread++;
}

void
memory_message_take_back(struct memory_message *message, struct memory_channel *channel)
{
	TAILQ_REMOVE(&channel->delivered, message, of_channel);
	if (message->queue != NULL)
		TAILQ_REMOVE(&message->queue->delivered, message, of_queue);
	if (message->consumer != NULL)
		message->consumer->unread--;
	message->consumer = NULL;
}

void
memory_message_requeue(struct memory_world *world, struct memory_message *message)
{
	struct memory_queue *queue = message->queue;
	struct memory_message *behind;

	if (queue == NULL) {
		memory_message_free(message);
		return;
	}
	message->redelivered = true;
	TAILQ_FOREACH (behind, &queue->ready, of_queue)
		if (behind->order > message->order)
			break;
	if (behind == NULL)
		TAILQ_INSERT_TAIL(&queue->ready, message, of_queue);
	else
		TAILQ_INSERT_BEFORE(behind, message, of_queue);
	memory_queue_deliver(world, queue);
}

/* ---- queues ---- */

static void
on_expiry(void *ctx, uint64_t id)
{
	struct memory_queue *queue = ctx;

	(void)id;
	if (queue->world->reach[queue->home][queue->home] == MEMORY_DOWN)
		memory_queue_used(queue);
	else if (memory_queue_members(queue) == 0)
		memory_queue_delete(queue->world, queue, true);
}

struct memory_queue *
memory_queue_new(struct memory_world *world, const char *name, struct memory_connection *owner)
{
	struct memory_queue *queue = mem_alloc(sizeof(*queue));

	queue->name = mem_strdup(name);
	queue->world = world;
	queue->owner = owner;
	queue->length_max = queue->expires = -1;
	timer_init(&queue->expiry, on_expiry, queue, 0);
	TAILQ_INIT(&queue->ready);
	TAILQ_INIT(&queue->delivered);
	TAILQ_INIT(&queue->consumers);
	if (owner != NULL)
		TAILQ_INSERT_TAIL(&owner->queues, queue, of_owner);
	HASH_ADD_KEYPTR(hh, world->queues, queue->name, strlen(queue->name), queue);
	return queue;
}

/* A daemon that ended a connection gets nothing over it, even before the server notices. */
static bool
hears(const struct memory_world *world, const struct memory_consumer *consumer)
{
	const struct memory_connection *connection = consumer->channel->connection;

	return world->behaviour.unheard == NULL || connection->link == NULL ||
	       !world->behaviour.unheard(
		   world->behaviour.ctx, connection->broker, consumer->queue->name);
}

void
memory_queue_delete(struct memory_world *world, struct memory_queue *queue, bool told)
{
	struct memory_consumer *consumer;
	struct memory_message *message;

	HASH_DEL(world->queues, queue);
	timers_cancel(world->timers, &queue->expiry);
	if (queue->quorum != NULL)
		memory_quorum_free(queue);
	while ((consumer = TAILQ_FIRST(&queue->consumers)) != NULL) {
		if (told && !consumer->lost && hears(world, consumer))
			memory_consumer_send_cancel(consumer);
		memory_consumer_free(consumer);
	}
	while ((message = TAILQ_FIRST(&queue->ready)) != NULL) {
		TAILQ_REMOVE(&queue->ready, message, of_queue);
		memory_message_free(message);
	}
	while ((message = TAILQ_FIRST(&queue->delivered)) != NULL) {
		TAILQ_REMOVE(&queue->delivered, message, of_queue);
		message->queue = NULL;
	}
	if (queue->owner != NULL)
		TAILQ_REMOVE(&queue->owner->queues, queue, of_owner);
	free(queue->exchange);
	free(queue->name);
	free(queue);
}

size_t
memory_queue_members(const struct memory_queue *queue)
{
	const struct memory_consumer *consumer;
	size_t count = 0;

	if (queue->quorum != NULL)
		return memory_fifo_members(queue);
	TAILQ_FOREACH (consumer, &queue->consumers, of_queue)
		count += !consumer->lost;
	return count;
}

/* ---- delivering ---- */

void
memory_queue_expire(const struct memory_world *world, struct memory_queue *queue)
{
	struct memory_message *message, *next;

	if (!queue->mortal)
		return;
	TAILQ_FOREACH_SAFE (message, &queue->ready, of_queue, next) {
		if (message->expires > memory_now(world))
			continue;
		TAILQ_REMOVE(&queue->ready, message, of_queue);
		memory_message_free(message);
	}
}

static bool
has_room(const struct memory_consumer *consumer)
{
	return !consumer->lost &&
	       (consumer->prefetch == 0 || consumer->unread < consumer->prefetch);
}

static struct memory_consumer *
next_consumer(const struct memory_queue *queue)
{
	struct memory_consumer *consumer, *next = NULL;

	TAILQ_FOREACH (consumer, &queue->consumers, of_queue) {
		if (has_room(consumer) && (next == NULL || consumer->priority > next->priority))
			next = consumer;
	}
	return next;
}

/*
 * Delivers a message. The consumer is then the last of its queue, as in RabbitMQ
 * (rabbit_queue_consumers).
 */
static void
deliver_one(struct memory_queue *queue, struct memory_consumer *consumer)
{
	struct memory_message *message = TAILQ_FIRST(&queue->ready);
	amqp_basic_deliver_t deliver;

	TAILQ_REMOVE(&queue->ready, message, of_queue);
	if (consumer->no_ack)
		message->tag = ++consumer->channel->last_tag;
	else
		memory_message_hand_over(message, queue, consumer->channel, consumer);
	TAILQ_REMOVE(&queue->consumers, consumer, of_queue);
	TAILQ_INSERT_TAIL(&queue->consumers, consumer, of_queue);
	deliver = (amqp_basic_deliver_t){
	    .consumer_tag = amqp_cstring_bytes(consumer->tag),
	    .delivery_tag = message->tag,
	    .redelivered = message->redelivered,
	    .exchange = amqp_cstring_bytes(message->exchange),
	    .routing_key = amqp_cstring_bytes(message->routing_key),
	};
	if (!consumer->deaf)
		memory_channel_send_message(
		    consumer->channel, false, AMQP_BASIC_DELIVER_METHOD, &deliver, message);
	if (consumer->no_ack)
		memory_message_free(message);
}

void
memory_queue_deliver(struct memory_world *world, struct memory_queue *queue)
{
	struct memory_consumer *consumer;

	memory_queue_expire(world, queue);
	while (!TAILQ_EMPTY(&queue->ready) && (consumer = next_consumer(queue)) != NULL)
		deliver_one(queue, consumer);
}

/* A message with a time to live of 0 reaches a consumer with room, or is dropped. */
bool
memory_queue_add(
    struct memory_world *world, struct memory_queue *queue, const struct memory_message *published)
{
	struct memory_consumer *consumer;
	struct memory_message *message;

	if (queue->quorum != NULL) {
		memory_fifo_add(queue, published);
		return true;
	}
	/* RabbitMQ looks at the length before it looks for a consumer (maybe_deliver_or_enqueue). */
	if (queue->rejects && queue->length_max >= 0 &&
	    memory_queue_length(queue) >= (size_t)queue->length_max)
		return false;
	if (queue->length_max == 0 && TAILQ_EMPTY(&queue->consumers))
		return true;
	message = memory_message_copy(published);
	message->order = ++world->last_message;
	queue->mortal |= message->expires != INT64_MAX;
	TAILQ_INSERT_TAIL(&queue->ready, message, of_queue);
	if (TAILQ_FIRST(&queue->ready) == message && (consumer = next_consumer(queue)) != NULL)
		deliver_one(queue, consumer);
	memory_queue_deliver(world, queue);
	while (queue->length_max >= 0 && memory_queue_length(queue) > (size_t)queue->length_max) {
		message = TAILQ_FIRST(&queue->ready);
		TAILQ_REMOVE(&queue->ready, message, of_queue);
		memory_message_free(message);
	}
	return true;
}

/* ---- consumers ---- */

struct memory_consumer *
memory_consumer_new(
    struct memory_channel *channel, struct memory_queue *queue, const char *tag, int priority)
{
	struct memory_consumer *consumer = mem_alloc(sizeof(*consumer));

	consumer->tag = mem_strdup(tag);
	consumer->channel = channel;
	consumer->queue = queue;
	consumer->priority = priority;
	consumer->prefetch = channel->prefetch;
	TAILQ_INSERT_TAIL(&queue->consumers, consumer, of_queue);
	TAILQ_INSERT_TAIL(&channel->consumers, consumer, of_channel);
	return consumer;
}

void
memory_consumer_end(struct memory_world *world, struct memory_consumer *consumer)
{
	struct memory_queue *queue = consumer->queue;
	struct memory_channel *channel = consumer->channel;

	if (queue->quorum != NULL) {
		memory_quorum_cancel(consumer);
		return;
	}
	memory_consumer_free(consumer);
	if (!queue->auto_delete || memory_queue_members(queue) > 0) {
		memory_queue_used(queue);
		return;
	}
	free(channel->ended);
	channel->ended = mem_strdup(queue->name);
	channel->ended_at = memory_now(world);
	memory_queue_delete(world, queue, true);
}

/* ---- ends ---- */

void
memory_channel_end(struct memory_channel *channel)
{
	struct memory_world *world = channel->connection->world;
	struct memory_consumer *consumer;
	struct memory_message *message;

	while ((consumer = TAILQ_FIRST(&channel->consumers)) != NULL) {
		if (consumer->queue->quorum != NULL)
			memory_consumer_free(consumer);
		else
			memory_consumer_end(world, consumer);
	}
	memory_quorum_channel_ended(channel);
	while ((message = TAILQ_LAST(&channel->delivered, memory_messages)) != NULL) {
		memory_message_take_back(message, channel);
		memory_message_requeue(world, message);
	}
	if (channel->coming != NULL)
		channel->coming->to_come = 0;
	channel->confirms = channel->confirms_singly = false;
	channel->published = channel->confirmed = channel->last_tag = 0;
	channel->prefetch = 0;
	channel->waits = false;
	free(channel->ended);
	channel->ended = NULL;
	if (channel->state == MEMORY_CHANNEL_OPEN)
		channel->state = MEMORY_CHANNEL_CLOSED;
}

void
memory_connection_release(struct memory_connection *connection)
{
	struct memory_queue *queue;
	struct memory_channel *channel, *next;

	connection->state = MEMORY_CONNECTION_OVER;
	while ((queue = TAILQ_FIRST(&connection->queues)) != NULL)
		memory_queue_delete(connection->world, queue, true);
	HASH_ITER (hh, connection->channels, channel, next) {
		timers_cancel(connection->world->timers, &channel->arrive);
		memory_channel_end(channel);
	}
}
