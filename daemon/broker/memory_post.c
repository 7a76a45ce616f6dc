#include "daemon/broker/memory_post.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

static int64_t
now_of(const struct memory_world *world)
{
	return clock_now(timers_clock(world->timers));
}

struct memory_message *
memory_message_copy(const struct memory_message *message)
{
	struct memory_message *copy = mem_alloc(sizeof(*copy));

	*copy = *message;
	copy->body = mem_alloc(message->len + 1);
	memcpy(copy->body, message->body, message->len);
	copy->reply_to = mem_strdup(message->reply_to);
	return copy;
}

void
memory_message_free(struct memory_message *message)
{
	free(message->body);
	free(message->reply_to);
	free(message);
}

static void
messages_clear(struct memory_messages *messages)
{
	struct memory_message *message;

	while ((message = TAILQ_FIRST(messages)) != NULL) {
		TAILQ_REMOVE(messages, message, entry);
		memory_message_free(message);
	}
}

/* ---- what is ready ---- */

static void
queue_expire(const struct memory_world *world, struct memory_queue *queue)
{
	struct memory_message *message, *next;

	TAILQ_FOREACH_SAFE (message, &queue->ready, entry, next) {
		if (message->expires > now_of(world))
			continue;
		TAILQ_REMOVE(&queue->ready, message, entry);
		memory_message_free(message);
	}
}

/* Tags are given in the order of publishing: what comes back goes to its old place. */
static void
queue_put_back(struct memory_queue *queue, struct memory_message *message)
{
	struct memory_message *behind;

	TAILQ_FOREACH (behind, &queue->ready, entry) {
		if (behind->tag > message->tag)
			break;
	}
	if (behind == NULL)
		TAILQ_INSERT_TAIL(&queue->ready, message, entry);
	else
		TAILQ_INSERT_BEFORE(behind, message, entry);
}

static size_t
ready_count(const struct memory_queue *queue)
{
	const struct memory_message *message;
	size_t count = 0;

	TAILQ_FOREACH (message, &queue->ready, entry)
		count++;
	return count;
}

/* ---- delivering ---- */

static bool
has_credit(const struct memory_reader *reader)
{
	return reader->credit == 0 || reader->unread_count < reader->credit;
}

static struct memory_reader *
next_reader(const struct memory_queue *queue)
{
	struct memory_reader *reader, *next = NULL;

	TAILQ_FOREACH (reader, &queue->readers, of_queue) {
		if (has_credit(reader) && (next == NULL || reader->priority > next->priority))
			next = reader;
	}
	return next;
}

/* It is the last one again, as RabbitMQ has it (rabbit_queue_consumers): also when it has credit anew. */
static void
to_the_end(struct memory_reader *reader)
{
	TAILQ_REMOVE(&reader->queue->readers, reader, of_queue);
	TAILQ_INSERT_TAIL(&reader->queue->readers, reader, of_queue);
}

static void
queue_deliver(const struct memory_world *world, struct memory_queue *queue)
{
	struct memory_message *message;
	struct memory_reader *reader;

	queue_expire(world, queue);
	while ((message = TAILQ_FIRST(&queue->ready)) != NULL &&
	       (reader = next_reader(queue)) != NULL) {
		TAILQ_REMOVE(&queue->ready, message, entry);
		TAILQ_INSERT_TAIL(&reader->unread, message, entry);
		reader->unread_count++;
		to_the_end(reader);
		if (reader->owner->delivered != NULL)
			reader->owner->delivered(reader->owner, reader->lane, message);
	}
}

static size_t
length_max(const struct memory_queue *queue)
{
	return queue->kind == MEMORY_QUEUE_LINE ? MEMORY_LINE_LENGTH : MEMORY_INBOX_LENGTH;
}

void
memory_post_publish(
    struct memory_world *world, struct memory_queue *queue, const struct memory_message *message)
{
	struct memory_message *copy = memory_message_copy(message), *oldest;

	copy->tag = ++world->last_tag;
	TAILQ_INSERT_TAIL(&queue->ready, copy, entry);
	queue_deliver(world, queue);
	while (ready_count(queue) > length_max(queue)) {
		oldest = TAILQ_FIRST(&queue->ready);
		TAILQ_REMOVE(&queue->ready, oldest, entry);
		memory_message_free(oldest);
	}
}

/* ---- readers ---- */

static struct memory_reader *
reader_find(const struct memory_owner *owner, uint64_t lane)
{
	struct memory_reader *reader;

	TAILQ_FOREACH (reader, &owner->readers, of_owner) {
		if (reader->lane == lane)
			break;
	}
	return reader;
}

static void
reader_free(struct memory_reader *reader)
{
	TAILQ_REMOVE(&reader->queue->readers, reader, of_queue);
	TAILQ_REMOVE(&reader->owner->readers, reader, of_owner);
	messages_clear(&reader->unread);
	free(reader);
}

static void
reader_leave(struct memory_reader *reader)
{
	struct memory_world *world = reader->owner->world;
	struct memory_queue *queue = reader->queue;
	struct memory_message *message;

	while ((message = TAILQ_FIRST(&reader->unread)) != NULL) {
		TAILQ_REMOVE(&reader->unread, message, entry);
		queue_put_back(queue, message);
	}
	reader_free(reader);
	if (TAILQ_EMPTY(&queue->readers))
		memory_queue_free(world, queue);
	else
		queue_deliver(world, queue);
}

void
memory_post_read(struct memory_queue *queue, struct memory_owner *owner, uint64_t lane,
    int priority, unsigned credit)
{
	struct memory_reader *reader = mem_alloc(sizeof(*reader));

	reader->owner = owner;
	reader->lane = lane;
	reader->queue = queue;
	reader->priority = priority;
	reader->credit = credit;
	TAILQ_INIT(&reader->unread);
	TAILQ_INSERT_TAIL(&queue->readers, reader, of_queue);
	TAILQ_INSERT_TAIL(&owner->readers, reader, of_owner);
	queue_deliver(owner->world, queue);
}

void
memory_post_set_credit(struct memory_owner *owner, uint64_t lane, unsigned credit)
{
	struct memory_reader *reader = reader_find(owner, lane);

	if (reader == NULL)
		return;
	reader->credit = credit;
	queue_deliver(owner->world, reader->queue);
}

void
memory_post_leave(struct memory_owner *owner, uint64_t lane)
{
	struct memory_reader *reader = reader_find(owner, lane);

	if (reader != NULL)
		reader_leave(reader);
}

void
memory_post_leave_all(struct memory_owner *owner)
{
	struct memory_reader *reader;

	while ((reader = TAILQ_FIRST(&owner->readers)) != NULL)
		reader_leave(reader);
}

void
memory_post_acknowledge(struct memory_owner *owner, uint64_t lane, uint64_t tag)
{
	struct memory_reader *reader = reader_find(owner, lane);
	struct memory_message *message = NULL;
	bool had_credit;

	if (reader != NULL) {
		TAILQ_FOREACH (message, &reader->unread, entry) {
			if (message->tag == tag)
				break;
		}
	}
	if (message == NULL)
		return; /* its queue went */
	had_credit = has_credit(reader);
	TAILQ_REMOVE(&reader->unread, message, entry);
	memory_message_free(message);
	reader->unread_count--;
	if (!had_credit)
		to_the_end(reader);
	queue_deliver(owner->world, reader->queue);
}

size_t
memory_post_readers(const struct memory_queue *queue)
{
	const struct memory_reader *reader;
	size_t count = 0;

	TAILQ_FOREACH (reader, &queue->readers, of_queue)
		count++;
	return count;
}

size_t
memory_post_messages(const struct memory_world *world, const struct memory_queue *queue)
{
	const struct memory_message *message;
	size_t count = 0;

	TAILQ_FOREACH (message, &queue->ready, entry)
		count += message->expires > now_of(world);
	return count;
}

void
memory_post_clear(struct memory_queue *queue, bool told)
{
	struct memory_reader *reader;

	while ((reader = TAILQ_FIRST(&queue->readers)) != NULL) {
		struct memory_owner *owner = reader->owner;
		uint64_t lane = reader->lane;

		reader_free(reader);
		if (told && owner->cancelled != NULL)
			owner->cancelled(owner, lane);
	}
	messages_clear(&queue->ready);
}
