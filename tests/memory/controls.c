#include "tests/memory/controls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/setup.h"
#include "daemon/memory/quorum.h"

/* ---- changes to queues from outside ---- */

/*
 * For a foreign connection, or one of a freed broker: an address that is not NULL, and of no
 * broker.
 */
static const struct broker *
owner_seen(const struct memory_world *world, const struct memory_queue *queue)
{
	if (queue->owner == NULL)
		return NULL;
	if (queue->owner->broker == NULL)
		return (const struct broker *)(const void *)world->foreign;
	return queue->owner->broker;
}

bool
memory_world_has(
    const struct memory_world *world, const char *name, const struct broker **ret_owner)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	if (queue != NULL && ret_owner != NULL)
		*ret_owner = owner_seen(world, queue);
	return queue != NULL;
}

uint64_t
memory_world_owner(const struct memory_world *world, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	return queue == NULL || queue->owner == NULL ? 0 : queue->owner->number;
}

bool
memory_world_durable(const struct memory_world *world, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	return queue != NULL && queue->durable;
}

uint64_t
memory_world_holder(const struct memory_world *world, const char *name, uint64_t *ret_channel)
{
	const struct memory_queue *queue = memory_queue_find(world, name);
	const struct memory_consumer *consumer;

	if (queue == NULL)
		return 0;
	TAILQ_FOREACH (consumer, &queue->consumers, of_queue) {
		if (!consumer->exclusive || consumer->lost)
			continue;
		if (ret_channel != NULL)
			*ret_channel = consumer->channel->opening;
		return consumer->channel->connection->number;
	}
	return 0;
}

void
memory_world_each(const struct memory_world *world,
    void (*fn)(void *ctx, const char *queue, const struct broker *owner), void *ctx)
{
	const struct memory_queue *queue;

	for (queue = world->queues; queue != NULL; queue = queue->hh.next)
		fn(ctx, queue->name, owner_seen(world, queue));
}

/* NULL: a queue of that name exists. */
static struct memory_queue *
put(struct memory_world *world, const char *name, struct memory_connection *owner)
{
	struct memory_queue *queue;

	if (memory_queue_find(world, name) != NULL)
		return NULL;
	queue = memory_queue_new(world, name, owner);
	queue->durable = owner == NULL;
	queue->length_max = owner == NULL ? 0 : -1;
	return queue;
}

bool
memory_world_put(struct memory_world *world, const char *name, bool exclusive)
{
	return put(world, name, exclusive ? world->foreign : NULL) != NULL;
}

bool
memory_world_put_otherwise(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = put(world, name, NULL);

	if (queue != NULL)
		queue->odd = true;
	return queue != NULL;
}

bool
memory_world_put_transient(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = put(world, name, NULL);

	if (queue != NULL)
		queue->durable = false;
	return queue != NULL;
}

bool
memory_world_put_holder(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = put(world, name, NULL);

	if (queue != NULL)
		queue->rejects = true;
	return queue != NULL;
}

/* The channel of foreign consumers. */
static struct memory_channel *
foreign_channel(struct memory_world *world)
{
	return memory_channel_of(world->foreign, 1);
}

bool
memory_world_hold(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world, name);
	struct memory_consumer *consumer;

	if (queue == NULL || memory_queue_members(queue) > 0)
		return false;
	consumer = memory_consumer_new(foreign_channel(world), queue, name, 0);
	consumer->exclusive = consumer->no_ack = true;
	return true;
}

bool
memory_world_let_go(struct memory_world *world, const char *name)
{
	struct memory_consumer *consumer =
	    memory_consumer_find(foreign_channel(world), amqp_cstring_bytes(name));

	if (consumer != NULL)
		memory_consumer_end(world, consumer);
	return consumer != NULL;
}

void
memory_world_publish(struct memory_world *world, const char *name, const char *body)
{
	struct memory_queue *queue = memory_queue_find(world, name);
	struct memory_message message = {.expires = INT64_MAX, .persistent = true};
	char none[] = "", *text = mem_strdup(body);

	if (queue == NULL) {
		queue = put(world, name, NULL);
		queue->length_max = -1;
	}
	message.exchange = message.routing_key = none;
	message.body = queue->auto_delete ? none : text;
	message.len = strlen(message.body);
	message.correlation_id = queue->auto_delete ? text : NULL;
	memory_queue_add(world, queue, &message);
	free(text);
}

void
memory_world_each_message(const struct memory_world *world, const char *name,
    void (*fn)(void *ctx, const char *body), void *ctx)
{
	const struct memory_queue *queue = memory_queue_find(world, name);
	const struct memory_message *message;

	if (queue == NULL)
		return;
	TAILQ_FOREACH (message, &queue->ready, of_queue)
		fn(ctx, message->body);
}

size_t
memory_world_copies(const struct memory_world *world, const char *name, const char *body)
{
	const struct memory_queue *queue = memory_queue_find(world, name);
	const struct memory_message *message;
	size_t copies = 0;

	if (queue == NULL)
		return 0;
	TAILQ_FOREACH (message, &queue->ready, of_queue)
		copies += strcmp(message->body, body) == 0;
	TAILQ_FOREACH (message, &queue->delivered, of_queue)
		copies += strcmp(message->body, body) == 0;
	return copies;
}

size_t
memory_world_members(const struct memory_world *world, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	return queue == NULL ? 0 : memory_queue_members(queue);
}

bool
memory_world_remove(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	if (queue == NULL)
		return false;
	memory_queue_delete(world, queue, true);
	return true;
}

bool
memory_world_cancel(struct memory_world *world, const char *name)
{
	struct memory_queue *queue;
	struct memory_consumer *consumer;
	bool any = false;

	/* An auto-delete queue ends with its last consumer. */
	while ((queue = memory_queue_find(world, name)) != NULL &&
	       (consumer = TAILQ_FIRST(&queue->consumers)) != NULL) {
		memory_consumer_send_cancel(consumer);
		memory_consumer_end(world, consumer);
		any = true;
	}
	return any;
}

/* ---- quorum queues ---- */

/* NULL: there is no such queue, or it is a classic one. */
static struct memory_queue *
quorum(const struct memory_world *world, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	return queue != NULL && queue->quorum != NULL ? queue : NULL;
}

bool
memory_world_put_quorum(struct memory_world *world, const char *name)
{
	amqp_table_entry_t single = {
	    .key = amqp_cstring_bytes("x-single-active-consumer"),
	    .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
	};
	const amqp_queue_declare_t declare = {.arguments = {.num_entries = 1, .entries = &single}};
	struct memory_queue *queue = put(world, name, NULL);

	if (queue == NULL)
		return false;
	queue->length_max = -1;
	memory_quorum_new(queue, &declare);
	return true;
}

uint64_t
memory_world_active(const struct memory_world *world, const char *name, unsigned *ret_messages)
{
	const struct memory_queue *queue = quorum(world, name);

	return queue == NULL ? 0 : memory_fifo_active(queue, ret_messages);
}

bool
memory_world_suspend(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = quorum(world, name);

	return queue != NULL && memory_fifo_suspend_active(queue);
}

bool
memory_world_resume(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue != NULL)
		memory_fifo_resume(queue, MEMORY_NODES);
	return queue != NULL;
}

bool
memory_world_delay_deliveries(struct memory_world *world, const char *name, bool delay)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue == NULL)
		return false;
	queue->quorum->late = delay;
	if (!delay)
		memory_fifo_release(queue, MEMORY_NODES, true);
	return true;
}

bool
memory_world_fetch_deliveries(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue == NULL)
		return false;
	queue->quorum->late = false;
	memory_fifo_fetch(queue);
	return true;
}

bool
memory_world_set_rejects(struct memory_world *world, const char *name, enum memory_rejects what)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue == NULL)
		return false;
	queue->quorum->loses = what == MEMORY_REJECTS_LOST;
	queue->quorum->delays = what == MEMORY_REJECTS_DELAYED;
	return true;
}

bool
memory_world_resend(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue != NULL)
		memory_quorum_resend(queue);
	return queue != NULL;
}

bool
memory_world_starve(struct memory_world *world, const char *name, bool starve)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue == NULL)
		return false;
	queue->quorum->starved = starve;
	memory_fifo_go_on(queue);
	return true;
}

bool
memory_world_set_lingers(struct memory_world *world, const char *name, bool lingers)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue != NULL)
		queue->quorum->lingers = lingers;
	return queue != NULL;
}

size_t
memory_world_purge(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = quorum(world, name);

	return queue != NULL ? memory_fifo_purge(queue, false) : 0;
}

bool
memory_world_lose(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue != NULL)
		(void)memory_fifo_purge(queue, true);
	return queue != NULL;
}

bool
memory_world_time_out(struct memory_world *world, const char *name)
{
	struct memory_queue *queue = quorum(world, name);

	return queue != NULL && memory_fifo_time_out(queue);
}

bool
memory_world_refuse_consumers(struct memory_world *world, const char *name, bool refuse)
{
	struct memory_queue *queue = quorum(world, name);

	if (queue != NULL)
		queue->quorum->refuses = refuse;
	return queue != NULL;
}

/* ---- nodes ---- */

int
memory_world_home(const struct memory_world *world, const char *name)
{
	const struct memory_queue *queue = memory_queue_find(world, name);

	return queue == NULL ? -1 : (int)queue->home;
}

bool
memory_world_hang(struct memory_world *world, const char *name, bool hangs)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	if (queue != NULL)
		queue->hangs = hangs;
	return queue != NULL;
}

bool
memory_world_set_home(struct memory_world *world, const char *name, unsigned node)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	assert(node < MEMORY_NODES);
	if (queue != NULL)
		queue->home = node;
	return queue != NULL;
}

/* The state changed for the consumers of node `from`. */
static void
part(struct memory_queue *queue, unsigned from, enum memory_reach reach)
{
	struct memory_consumer *consumer, *next;
	bool used = from == queue->home; /* a node that is back starts each x-expires anew */

	TAILQ_FOREACH_SAFE (consumer, &queue->consumers, of_queue, next) {
		if (consumer->channel->connection->node != from || reach == MEMORY_SILENT ||
		    (reach == MEMORY_REACHED && !consumer->lost))
			continue;
		used |= !consumer->lost;
		if (reach == MEMORY_PARTED) {
			consumer->lost = true;
			continue;
		}
		memory_consumer_send_cancel(consumer);
		memory_consumer_free(consumer);
	}
	if (used)
		memory_queue_used(queue);
}

void
memory_world_set_reach(
    struct memory_world *world, unsigned from, unsigned home, enum memory_reach reach)
{
	struct memory_connection *connection;
	struct memory_queue *queue;

	assert(from < MEMORY_NODES && home < MEMORY_NODES);
	world->reach[from][home] = reach;
	for (queue = world->queues; queue != NULL; queue = queue->hh.next)
		if (queue->quorum != NULL && queue->home == home)
			memory_quorum_part(queue, from, reach);
		else if (queue->durable && queue->home == home)
			part(queue, from, reach);
	TAILQ_FOREACH (connection, &world->connections, entry)
		if (connection->node == from)
			memory_connection_try_again(connection);
}

/* ---- all nodes ---- */

void
memory_world_restart(struct memory_world *world)
{
	struct memory_connection *connection, *next;
	struct memory_queue *queue, *next_queue;

	TAILQ_FOREACH_SAFE (connection, &world->connections, entry, next) {
		if (connection->state == MEMORY_CONNECTION_LOST) {
			memory_connection_free(connection);
			continue;
		}
		memory_connection_freeze(connection);
		memory_connection_release(connection);
	}
	world->foreign->state = MEMORY_CONNECTION_UP;
	world->foreign->frozen = false;
	HASH_ITER (hh, world->queues, queue, next_queue) {
		struct memory_message *message, *next_message;

		if (!queue->durable) {
			memory_queue_delete(world, queue, false);
			continue;
		}
		if (queue->quorum != NULL) {
			memory_quorum_restart(queue);
			continue;
		}
		TAILQ_FOREACH_SAFE (message, &queue->ready, of_queue, next_message) {
			if (message->persistent)
				continue;
			TAILQ_REMOVE(&queue->ready, message, of_queue);
			memory_message_free(message);
		}
	}
}

void
memory_world_close_connections(struct memory_world *world, const char *words)
{
	char *text = mem_printf("CONNECTION_FORCED - %s", words);
	struct memory_connection *connection;

	TAILQ_FOREACH (connection, &world->connections, entry)
		if (connection->state == MEMORY_CONNECTION_UP && connection->link != NULL)
			memory_connection_close(connection, AMQP_CONNECTION_FORCED, text);
	free(text);
}

void
memory_world_block(struct memory_world *world, bool blocked)
{
	struct memory_connection *connection;

	if (world->alarm == blocked)
		return;
	world->alarm = blocked;
	TAILQ_FOREACH (connection, &world->connections, entry) {
		if (connection->state != MEMORY_CONNECTION_UP || connection->frozen ||
		    !connection->publishes)
			continue;
		memory_connection_send_blocked(connection, blocked);
		if (!blocked)
			memory_connection_go_on(connection);
	}
}

/* For connections that are up. */
static void
describe_server(const struct memory_world *world)
{
	struct memory_client *client;
	struct memory_link *link;

	TAILQ_FOREACH (client, &world->clients, entry) {
		for (int which = BROKER_LOCKS; which < BROKER_LINKS; which++) {
			link = client->sides[which].link;
			if (link == NULL)
				continue;
			link->base.server.deletes_by_name = world->deletes_by_name;
			link->base.server.hides_queues = world->hides_queues;
		}
	}
}

void
memory_world_set_version(struct memory_world *world, unsigned major, unsigned minor)
{
	world->version = MEMORY_VERSION(major, minor);
}

void
memory_world_set_deletes_by_name(struct memory_world *world, bool does)
{
	world->deletes_by_name = does;
	describe_server(world);
}

void
memory_world_set_hides_queues(struct memory_world *world, bool does)
{
	world->hides_queues = does;
	describe_server(world);
}

/* ---- the channels of a daemon ---- */

/* The numbers of raw channels come after those of the others. */
#define RAW (UINT64_C(1) << 62)

static uint64_t
channel_id(const struct broker *broker, enum broker_link which, uint16_t number)
{
	uint64_t channel = amqp_channels_by_number(broker_channels(broker, which), number);

	return channel != 0 ? channel : RAW | (uint64_t)number << 1 | (which == BROKER_AUXILIARY);
}

void
memory_broker_each_channel(const struct broker *broker, enum broker_link which,
    void (*fn)(void *ctx, uint64_t channel, bool silent), void *ctx)
{
	const struct memory_connection *connection = memory_connection_of(broker, which);
	const struct memory_channel *channel;

	if (connection == NULL)
		return;
	for (channel = connection->channels; channel != NULL; channel = channel->hh.next) {
		/* RabbitMQ only closes channels that consume, or whose request it refuses. */
		if (channel->number != 0 &&
		    (channel->silenced || channel->waits ||
			(channel->state == MEMORY_CHANNEL_OPEN &&
			    (!TAILQ_EMPTY(&channel->consumers) ||
				amqp_channels_by_number(
				    broker_channels(broker, which), channel->number) != 0))))
			fn(ctx, channel_id(broker, which, channel->number),
			    channel->silenced || channel->waits || connection->frozen);
	}
}

unsigned
memory_broker_channels_taken(const struct broker *broker, enum broker_link which)
{
	const struct amqp_channels *channels = broker_channels(broker, which);
	unsigned taken = 0;

	for (unsigned number = 1; number <= amqp_channels_max(channels); number++)
		taken += amqp_channels_by_number(channels, (uint16_t)number) != 0;
	return taken;
}

void
memory_broker_close_channel(struct broker *broker, uint64_t channel, int code, const char *text)
{
	enum broker_link which = channel & 1 ? BROKER_AUXILIARY : BROKER_LOCKS;
	struct memory_connection *connection = memory_connection_of(broker, which);
	uint16_t number = channel & RAW
			      ? (uint16_t)(channel >> 1)
			      : amqp_channels_number(broker_channels(broker, which), channel);

	if (connection != NULL && !connection->frozen && number != 0)
		memory_channel_close(memory_channel_of(connection, number), code, text);
}

static bool
has_consumer(const struct memory_channel *channel, char kind)
{
	const struct memory_consumer *consumer = TAILQ_FIRST(&channel->consumers);

	return consumer != NULL && consumer->tag[0] == kind;
}

static void
close_consumers(struct broker *broker, enum broker_link which, char kind)
{
	struct memory_connection *connection = memory_connection_of(broker, which);
	struct memory_channel *channel;

	if (connection == NULL || connection->frozen)
		return;
	for (channel = connection->channels; channel != NULL; channel = channel->hh.next) {
		if (has_consumer(channel, kind))
			memory_channel_close(channel, AMQP_PRECONDITION_FAILED,
			    "PRECONDITION_FAILED - consumer timeout");
	}
}

void
memory_broker_close_watches(struct broker *broker)
{
	close_consumers(broker, BROKER_AUXILIARY, 'w');
}

void
memory_broker_close_holds(struct broker *broker)
{
	for (enum broker_link link = BROKER_QUORUM; link < BROKER_LINKS; link++)
		close_consumers(broker, link, 'q');
}
