/* Shared by classic and quorum queues: messages, names, expiry and consumers. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/memory/internal.h"

struct memory_headers *
memory_headers_new(const amqp_table_t *table)
{
	struct memory_headers *headers = mem_alloc(sizeof(*headers));
	int status;

	init_amqp_pool(&headers->pool, 512);
	status = amqp_table_clone(table, &headers->table, &headers->pool);
	assert(status == AMQP_STATUS_OK);
	return headers;
}

void
memory_headers_free(struct memory_headers *headers)
{
	if (headers != NULL)
		empty_amqp_pool(&headers->pool);
	free(headers);
}

struct memory_message *
memory_message_copy(const struct memory_message *message)
{
	struct memory_message *copy = mem_alloc(sizeof(*copy));

	*copy = *message;
	copy->body = mem_alloc(message->len + 1);
	memcpy(copy->body, message->body, message->len);
	copy->correlation_id = mem_strdup(message->correlation_id);
	copy->reply_to = mem_strdup(message->reply_to);
	copy->user_id = mem_strdup(message->user_id);
	copy->exchange = mem_strdup(message->exchange);
	copy->routing_key = mem_strdup(message->routing_key);
	if (message->headers != NULL)
		copy->headers = memory_headers_new(&message->headers->table);
	return copy;
}

void
memory_message_free(struct memory_message *message)
{
	free(message->body);
	free(message->correlation_id);
	free(message->reply_to);
	free(message->user_id);
	free(message->exchange);
	free(message->routing_key);
	memory_headers_free(message->headers);
	free(message);
}

struct memory_queue *
memory_queue_find(const struct memory_world *world, const char *name)
{
	struct memory_queue *queue;

	HASH_FIND_STR(world->queues, name, queue);
	return queue;
}

/* RabbitMQ: rabbit_amqqueue_process, ensure_expiry_timer. The end of a consumer is a use, too. */
void
memory_queue_used(struct memory_queue *queue)
{
	if (queue->expires >= 0)
		timers_set(queue->world->timers, &queue->expiry,
		    memory_now(queue->world) + queue->expires * NSEC_PER_MSEC);
}

size_t
memory_queue_length(const struct memory_queue *queue)
{
	const struct memory_message *message;
	size_t count = 0;

	TAILQ_FOREACH (message, &queue->ready, of_queue)
		count++;
	return count;
}

void
memory_consumer_free(struct memory_consumer *consumer)
{
	struct memory_message *message;

	TAILQ_FOREACH (message, &consumer->channel->delivered, of_channel)
		if (message->consumer == consumer)
			message->consumer = NULL;
	TAILQ_REMOVE(&consumer->queue->consumers, consumer, of_queue);
	TAILQ_REMOVE(&consumer->channel->consumers, consumer, of_channel);
	free(consumer->tag);
	free(consumer);
}

struct memory_consumer *
memory_consumer_find(const struct memory_channel *channel, amqp_bytes_t tag)
{
	struct memory_consumer *consumer;

	TAILQ_FOREACH (consumer, &channel->consumers, of_channel)
		if (strlen(consumer->tag) == tag.len &&
		    memcmp(consumer->tag, tag.bytes, tag.len) == 0)
			break;
	return consumer;
}

void
memory_consumer_send_cancel(const struct memory_consumer *consumer)
{
	amqp_basic_cancel_t cancel = {
	    .consumer_tag = amqp_cstring_bytes(consumer->tag), .nowait = 1};

	memory_channel_send(consumer->channel, false, AMQP_BASIC_CANCEL_METHOD, &cancel);
}
