#include "daemon/broker/memory_world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/broker/memory_post.h"
#include "daemon/broker/memory_world_inside.h"

struct memory_world *
memory_world_new(struct timers *timers, const struct memory_nature *nature)
{
	struct memory_world *world = mem_alloc(sizeof(*world));

	world->timers = timers;
	if (nature != NULL)
		world->nature = *nature;
	TAILQ_INIT(&world->owners);
	TAILQ_INIT(&world->alarms);
	memory_owner_init(&world->foreign, world, NULL);
	return world;
}

void
memory_world_free(struct memory_world *world)
{
	struct memory_owner *owner, *next_owner;
	struct memory_queue *queue, *next;

	if (world == NULL)
		return;
	/* Lost connections whose end the world was still to notice. An owner's end touches no other. */
	TAILQ_FOREACH_SAFE (owner, &world->owners, entry, next_owner) {
		if (owner->free != NULL)
			owner->free(owner);
	}
	memory_owner_done(&world->foreign);
	assert(TAILQ_EMPTY(&world->owners));
	HASH_ITER (hh, world->queues, queue, next) {
		HASH_DEL(world->queues, queue);
		memory_post_clear(queue, false);
		name_list_done(&queue->messages);
		free(queue->name);
		free(queue);
	}
	free(world);
}

struct timers *
memory_world_timers(const struct memory_world *world)
{
	return world->timers;
}

bool
memory_world_blocked(const struct memory_world *world)
{
	return world->blocked;
}

bool
memory_world_deletes_by_name(const struct memory_world *world)
{
	return world->deletes_by_name;
}

void
memory_world_set_deletes_by_name(struct memory_world *world, bool does)
{
	world->deletes_by_name = does;
}

int64_t
memory_world_delay(const struct memory_world *world)
{
	return world->nature.delay == NULL ? 0 : world->nature.delay(world->nature.ctx);
}

bool
memory_world_silent(const struct memory_world *world)
{
	return world->nature.silent != NULL && world->nature.silent(world->nature.ctx);
}

bool
memory_world_nacks(const struct memory_world *world)
{
	return world->nature.nacks != NULL && world->nature.nacks(world->nature.ctx);
}

int64_t
memory_world_notice(
    const struct memory_world *world, const struct broker *broker, enum broker_link link)
{
	return world->nature.notice == NULL ? 0
					    : world->nature.notice(world->nature.ctx, broker, link);
}

static bool
is_delivered_from(const struct memory_queue *queue)
{
	return queue->kind == MEMORY_QUEUE_LINE || queue->kind == MEMORY_QUEUE_INBOX;
}

void
memory_world_restart(struct memory_world *world)
{
	struct memory_owner *owner, *next;
	struct memory_queue *queue, *next_queue;

	HASH_ITER (hh, world->queues, queue, next_queue) {
		if (is_delivered_from(queue))
			memory_post_clear(queue, false);
		if (is_delivered_from(queue) || queue->kind == MEMORY_QUEUE_TRANSIENT)
			memory_queue_free(world, queue);
	}
	/* An owner's end touches no other. */
	TAILQ_FOREACH_SAFE (owner, &world->owners, entry, next) {
		memory_owner_release(owner);
		if (owner->restarted != NULL)
			owner->restarted(owner);
	}
}

void
memory_world_block(struct memory_world *world, bool blocked)
{
	struct memory_alarm *alarm;
	struct memory_owner *owner;

	world->blocked = blocked;
	if (blocked)
		return;
	TAILQ_FOREACH (owner, &world->owners, entry) {
		if (owner->unblocked != NULL)
			owner->unblocked(owner);
	}
	TAILQ_FOREACH (alarm, &world->alarms, entry)
		alarm->over(alarm);
}

void
memory_alarm_heed(struct memory_world *world, struct memory_alarm *alarm)
{
	TAILQ_INSERT_TAIL(&world->alarms, alarm, entry);
}

void
memory_alarm_ignore(struct memory_world *world, struct memory_alarm *alarm)
{
	TAILQ_REMOVE(&world->alarms, alarm, entry);
}

void
memory_world_forget(struct memory_world *world, const struct broker *broker)
{
	struct memory_owner *owner;

	TAILQ_FOREACH (owner, &world->owners, entry) {
		if (owner->broker == broker)
			owner->broker = NULL;
	}
}

/* ---- queues ---- */

struct memory_queue *
memory_queue_find(const struct memory_world *world, const char *name)
{
	struct memory_queue *queue;

	HASH_FIND_STR(world->queues, name, queue);
	return queue;
}

struct memory_queue *
memory_queue_new(
    struct memory_world *world, const char *name, enum memory_kind kind, struct memory_owner *owner)
{
	struct memory_queue *queue = mem_alloc(sizeof(*queue));

	assert((kind == MEMORY_QUEUE_EXCLUSIVE) == (owner != NULL));
	queue->kind = kind;
	queue->name = mem_strdup(name);
	queue->owner = owner;
	TAILQ_INIT(&queue->consumers);
	TAILQ_INIT(&queue->ready);
	TAILQ_INIT(&queue->readers);
	if (owner != NULL)
		TAILQ_INSERT_TAIL(&owner->queues, queue, of_owner);
	HASH_ADD_KEYPTR(hh, world->queues, queue->name, strlen(queue->name), queue);
	return queue;
}

static void
cancel_consumers(struct memory_queue *queue)
{
	struct memory_consumer *consumer;

	while ((consumer = TAILQ_FIRST(&queue->consumers)) != NULL) {
		memory_consumer_leave(consumer);
		consumer->cancelled(consumer);
	}
}

static bool
goes_unheard(const struct memory_world *world, const struct memory_consumer *consumer)
{
	return world->nature.unheard != NULL &&
	       world->nature.unheard(world->nature.ctx, consumer->broker, consumer->queue->name);
}

void
memory_queue_free(struct memory_world *world, struct memory_queue *queue)
{
	struct memory_consumer *consumer, *next;

	TAILQ_FOREACH_SAFE (consumer, &queue->consumers, of_queue, next) {
		if (goes_unheard(world, consumer))
			memory_consumer_leave(consumer);
	}
	cancel_consumers(queue);
	memory_post_clear(queue, true);
	if (queue->owner != NULL)
		TAILQ_REMOVE(&queue->owner->queues, queue, of_owner);
	HASH_DEL(world->queues, queue);
	name_list_done(&queue->messages);
	free(queue->name);
	free(queue);
}

/* Not NULL, and no broker's address: an exclusive queue of a connection that is not (or no longer) ours. */
static const struct broker *
owner_seen(const struct memory_queue *queue)
{
	if (queue->owner == NULL)
		return NULL;
	if (queue->owner->broker == NULL)
		return (const struct broker *)(const void *)&queue->owner->world->foreign;
	return queue->owner->broker;
}

bool
memory_world_has(
    const struct memory_world *world, const char *name, const struct broker **ret_owner)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	if (queue == NULL)
		return false;
	if (ret_owner != NULL)
		*ret_owner = owner_seen(queue);
	return true;
}

uint64_t
memory_world_owner(const struct memory_world *world, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	return queue == NULL || queue->owner == NULL ? 0 : queue->owner->number;
}

void
memory_world_each(const struct memory_world *world,
    void (*fn)(void *ctx, const char *queue, const struct broker *owner), void *ctx)
{
	const struct memory_queue *queue;

	for (queue = world->queues; queue != NULL; queue = queue->hh.next)
		fn(ctx, queue->name, owner_seen(queue));
}

bool
memory_world_put(struct memory_world *world, const char *name, bool exclusive)
{
	if (memory_queue_find(world, name) != NULL)
		return false;
	if (exclusive)
		memory_queue_new(world, name, MEMORY_QUEUE_EXCLUSIVE, &world->foreign);
	else
		memory_queue_new(world, name, MEMORY_QUEUE_SLOT, NULL);
	return true;
}

static bool
put(struct memory_world *world, const char *name, enum memory_kind kind)
{
	if (memory_queue_find(world, name) != NULL)
		return false;
	memory_queue_new(world, name, kind, NULL);
	return true;
}

bool
memory_world_put_otherwise(struct memory_world *world, const char *name)
{
	return put(world, name, MEMORY_QUEUE_OTHERWISE);
}

bool
memory_world_put_transient(struct memory_world *world, const char *name)
{
	return put(world, name, MEMORY_QUEUE_TRANSIENT);
}

void
memory_world_publish(struct memory_world *world, const char *name, const char *body)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	if (queue == NULL)
		queue = memory_queue_new(world, name, MEMORY_QUEUE_DIRECTORY, NULL);
	if (is_delivered_from(queue)) {
		memory_post_publish(world, queue,
		    &(struct memory_message){
			.body = (char *)body, .len = strlen(body), .expires = INT64_MAX});
		return;
	}
	name_list_add(&queue->messages, body);
}

void
memory_world_each_message(const struct memory_world *world, const char *name,
    void (*fn)(void *ctx, const char *body), void *ctx)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	for (size_t i = 0; queue != NULL && i < queue->messages.count; i++)
		fn(ctx, queue->messages.all[i]);
}

size_t
memory_world_members(const struct memory_world *world, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	return queue == NULL ? 0 : memory_post_readers(queue);
}

size_t
memory_world_hints(const struct memory_world *world, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	return queue == NULL ? 0 : memory_post_messages(world, queue);
}

bool
memory_world_remove(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	if (queue == NULL)
		return false;
	memory_queue_free(world, queue);
	return true;
}

bool
memory_world_cancel(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	if (queue == NULL || TAILQ_EMPTY(&queue->consumers))
		return false;
	cancel_consumers(queue);
	return true;
}

/* ---- consumers ---- */

enum broker_answer
memory_consumer_join(struct memory_world *world, struct memory_consumer *consumer, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	assert(consumer->queue == NULL);
	if (queue == NULL)
		return BROKER_ABSENT;
	if (queue->owner != NULL)
		return BROKER_LOCKED;
	consumer->queue = queue;
	TAILQ_INSERT_TAIL(&queue->consumers, consumer, of_queue);
	return BROKER_OK;
}

void
memory_consumer_leave(struct memory_consumer *consumer)
{
	if (consumer->queue == NULL)
		return;
	TAILQ_REMOVE(&consumer->queue->consumers, consumer, of_queue);
	consumer->queue = NULL;
}

/* ---- owners, and what they ask for ---- */

void
memory_owner_init(
    struct memory_owner *owner, struct memory_world *world, const struct broker *broker)
{
	owner->world = world;
	owner->broker = broker;
	owner->number = ++world->last_owner;
	TAILQ_INIT(&owner->queues);
	TAILQ_INIT(&owner->readers);
	TAILQ_INSERT_TAIL(&world->owners, owner, entry);
}

void
memory_owner_release(struct memory_owner *owner)
{
	struct memory_queue *queue;

	while ((queue = TAILQ_FIRST(&owner->queues)) != NULL)
		memory_queue_free(owner->world, queue);
	memory_post_leave_all(owner);
}

void
memory_owner_done(struct memory_owner *owner)
{
	memory_owner_release(owner);
	TAILQ_REMOVE(&owner->world->owners, owner, entry);
}
