#include "daemon/broker/memory_world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/mem.h"

struct memory_queue {
	char *name;                              /* owned */
	struct memory_owner *owner;              /* exclusive to it; NULL: a plain queue */
	bool otherwise;                          /* with arguments that no slot has */
	TAILQ_HEAD(, memory_consumer) consumers; /* borrowed */
	TAILQ_ENTRY(memory_queue) of_owner;
	UT_hash_handle hh;
};

struct memory_world {
	struct timers *timers; /* borrowed */
	struct memory_nature nature;
	struct memory_queue *queues;       /* owned; hash by name */
	TAILQ_HEAD(, memory_owner) owners; /* the living ones */
	struct memory_owner foreign;       /* a connection that no broker of ours has */
	uint64_t last_owner;               /* the number of the last one */
	bool blocked;
	bool deletes_by_name;
};

struct memory_world *
memory_world_new(struct timers *timers, const struct memory_nature *nature)
{
	struct memory_world *world = mem_alloc(sizeof(*world));

	world->timers = timers;
	if (nature != NULL)
		world->nature = *nature;
	TAILQ_INIT(&world->owners);
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

void
memory_world_restart(struct memory_world *world)
{
	struct memory_owner *owner, *next;

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
	struct memory_owner *owner;

	world->blocked = blocked;
	if (blocked)
		return;
	TAILQ_FOREACH (owner, &world->owners, entry) {
		if (owner->unblocked != NULL)
			owner->unblocked(owner);
	}
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

static struct memory_queue *
queue_find(const struct memory_world *world, const char *name)
{
	struct memory_queue *queue;

	HASH_FIND_STR(world->queues, name, queue);
	return queue;
}

static struct memory_queue *
queue_new(struct memory_world *world, const char *name, struct memory_owner *owner)
{
	struct memory_queue *queue = mem_alloc(sizeof(*queue));

	queue->name = mem_strdup(name);
	queue->owner = owner;
	TAILQ_INIT(&queue->consumers);
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

static void
queue_free(struct memory_world *world, struct memory_queue *queue)
{
	struct memory_consumer *consumer, *next;

	TAILQ_FOREACH_SAFE (consumer, &queue->consumers, of_queue, next) {
		if (goes_unheard(world, consumer))
			memory_consumer_leave(consumer);
	}
	cancel_consumers(queue);
	if (queue->owner != NULL)
		TAILQ_REMOVE(&queue->owner->queues, queue, of_owner);
	HASH_DEL(world->queues, queue);
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
	const struct memory_queue *queue = queue_find(world, name);

	if (queue == NULL)
		return false;
	if (ret_owner != NULL)
		*ret_owner = owner_seen(queue);
	return true;
}

uint64_t
memory_world_owner(const struct memory_world *world, const char *name)
{
	const struct memory_queue *queue = queue_find(world, name);

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
	if (queue_find(world, name) != NULL)
		return false;
	queue_new(world, name, exclusive ? &world->foreign : NULL);
	return true;
}

bool
memory_world_put_otherwise(struct memory_world *world, const char *name)
{
	if (queue_find(world, name) != NULL)
		return false;
	queue_new(world, name, NULL)->otherwise = true;
	return true;
}

bool
memory_world_remove(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = queue_find(world, name);

	if (queue == NULL)
		return false;
	queue_free(world, queue);
	return true;
}

bool
memory_world_cancel(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = queue_find(world, name);

	if (queue == NULL || TAILQ_EMPTY(&queue->consumers))
		return false;
	cancel_consumers(queue);
	return true;
}

/* ---- consumers ---- */

enum broker_answer
memory_consumer_join(struct memory_world *world, struct memory_consumer *consumer, const char *name)
{
	struct memory_queue *queue = queue_find(world, name);

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
	TAILQ_INSERT_TAIL(&world->owners, owner, entry);
}

void
memory_owner_release(struct memory_owner *owner)
{
	struct memory_queue *queue;

	while ((queue = TAILQ_FIRST(&owner->queues)) != NULL)
		queue_free(owner->world, queue);
}

void
memory_owner_done(struct memory_owner *owner)
{
	memory_owner_release(owner);
	TAILQ_REMOVE(&owner->world->owners, owner, entry);
}

static const struct memory_verdict done = {.answer = BROKER_OK, .text = ""};
static const struct memory_verdict not_found = {
    .answer = BROKER_ABSENT, .code = 404, .text = "NOT_FOUND - no such queue"};
static const struct memory_verdict locked = {.answer = BROKER_LOCKED,
    .code = 405,
    .text = "RESOURCE_LOCKED - exclusive to another connection, or declared otherwise"};
static const struct memory_verdict reserved = {
    .answer = BROKER_REFUSED, .code = 403, .text = "ACCESS_REFUSED - reserved queue name"};
/* What broker.h makes of the 406: the queue is there, the lane is not. */
static const struct memory_verdict otherwise = {
    .answer = BROKER_OK, .code = 406, .text = "PRECONDITION_FAILED - declared otherwise"};

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
	const struct memory_queue *queue = queue_find(owner->world, name);

	if (is_reserved(name))
		return reserved;
	if (queue == NULL)
		queue_new(owner->world, name, owner);
	else if (queue->owner != owner)
		return locked;
	return done;
}

static struct memory_verdict
declare(struct memory_owner *owner, const char *name)
{
	const struct memory_queue *queue = queue_find(owner->world, name);

	if (is_reserved(name))
		return reserved;
	if (queue == NULL)
		queue_new(owner->world, name, NULL);
	else if (queue->owner != NULL)
		return locked;
	else if (queue->otherwise)
		return otherwise;
	return done;
}

static struct memory_verdict
check(struct memory_owner *owner, const char *name)
{
	const struct memory_queue *queue = queue_find(owner->world, name);

	if (queue == NULL)
		return not_found;
	if (queue->owner != NULL && queue->owner != owner)
		return locked;
	return done;
}

static struct memory_verdict delete (struct memory_owner *owner, const char *name)
{
	struct memory_queue *queue = queue_find(owner->world, name);

	if (queue != NULL && queue->owner != NULL && queue->owner != owner)
		return locked;
	if (queue != NULL)
		queue_free(owner->world, queue);
	return done;
}

static struct memory_verdict
perform(struct memory_owner *owner, enum memory_method method, const char *name)
{
	switch (method) {
	case MEMORY_CLAIM:
		return claim(owner, name);
	case MEMORY_CHECK:
		return check(owner, name);
	case MEMORY_DROP:
	case MEMORY_DELETE_SLOT:
		return delete (owner, name);
	case MEMORY_DECLARE_SLOT:
		return declare(owner, name);
	}
	abort();
}

struct memory_verdict
memory_owner_perform(
    struct memory_owner *owner, uint64_t lane, enum memory_method method, const char *name)
{
	const struct memory_nature *nature = &owner->world->nature;
	bool refuses = nature->refuses != NULL && nature->refuses(nature->ctx);
	struct memory_verdict verdict = refuses ? refused : perform(owner, method, name);
	struct memory_performed what = {
	    .broker = owner->broker,
	    .connection = owner->number,
	    .lane = lane,
	    .method = method,
	    .queue = name,
	    .answer = verdict.answer,
	};

	if (nature->performed != NULL)
		nature->performed(nature->ctx, &what);
	return verdict;
}
