#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/settings.h"
#include "daemon/base/mem.h"
#include "daemon/broker/lane.h"
#include "daemon/broker/setup.h"
#include "daemon/memory/inside.h"

/* A decoder that has read what a connection begins with. */
static struct amqp_decoder *
decoder_new(void)
{
	struct amqp_decoder *decoder = amqp_decoder_new();
	amqp_connection_start_t start = {.version_minor = 9};
	uint8_t bytes[AMQP_FRAME_MAX];
	size_t size = amqp_frame_method(bytes, 0, AMQP_CONNECTION_START_METHOD, &start);
	struct amqp_frame frame;
	enum amqp_decoder_status status = amqp_decoder_take(decoder, bytes, size, &frame);

	assert(status == AMQP_DECODER_FRAME);
	amqp_decoder_tune(decoder, UINT16_MAX, AMQP_FRAME_MAX);
	return decoder;
}

uint8_t *
memory_scratch(struct memory_world *world, size_t body)
{
	size_t size = (4 + 2 * (body / (AMQP_FRAME_MAX - AMQP_FRAME_AROUND))) * AMQP_FRAME_MAX;

	if (size > world->scratch_size) {
		world->scratch = mem_grow(world->scratch, size, 1);
		world->scratch_size = size;
	}
	return world->scratch;
}

struct memory_world *
memory_world_new(struct timers *timers, const struct memory_nature *nature)
{
	struct memory_world *world = mem_alloc(sizeof(*world));

	world->timers = timers;
	if (nature != NULL)
		world->nature = *nature;
	world->decoder = decoder_new();
	TAILQ_INIT(&world->connections);
	TAILQ_INIT(&world->clients);
	memory_connection_init(&world->foreign, world);
	return world;
}

void
memory_world_free(struct memory_world *world)
{
	struct memory_connection *connection, *next;
	struct memory_queue *queue, *next_queue;

	if (world == NULL)
		return;
	assert(TAILQ_EMPTY(&world->clients));
	TAILQ_FOREACH_SAFE (connection, &world->connections, entry, next) {
		if (connection != &world->foreign)
			memory_connection_free(connection);
	}
	HASH_ITER (hh, world->queues, queue, next_queue) {
		memory_queue_delete(world, queue, false);
	}
	amqp_decoder_free(world->decoder);
	free(world->scratch);
	free(world);
}

/* ---- a daemon's broker ---- */

struct broker *
memory_broker_new_at(struct memory_world *world, struct timers *timers, int heartbeat,
    unsigned lanes_max, uint64_t seed)
{
	const struct amqp_host host = {
	    .host = "memory", .vhost = "/", .user = "memory", .password = ""};
	const struct amqp_settings settings = {
	    .hosts = &host,
	    .host_count = 1,
	    .heartbeat = heartbeat,
	    .connect_timeout = MEMORY_PROBE_TIMEOUT,
	    .probe_timeout = MEMORY_PROBE_TIMEOUT,
	    .backoff_first = 1,
	    .backoff_most = 1,
	    .side_idle = INT64_MAX / 4,
	    .in_process = true,
	    .name = "memory",
	    .replays = true,
	};
	struct amqp_dialer dialer;
	struct memory_client *client = memory_client_new(world, timers, lanes_max, &dialer);

	client->broker = broker_new(timers, seed, &settings, &dialer);
	return client->broker;
}

struct broker *
memory_broker_new(struct memory_world *world, int heartbeat, unsigned lanes_max)
{
	return memory_broker_new_at(world, world->timers, heartbeat, lanes_max, ++world->last_seed);
}

static struct memory_client *
client_of(const struct broker *broker)
{
	return broker_dialer(broker)->ctx;
}

/* NULL: the link is not up. */
static struct memory_connection *
connection_of(const struct broker *broker, enum broker_link which)
{
	const struct memory_link *link = client_of(broker)->sides[which].link;

	return link != NULL ? link->connection : NULL;
}

void
memory_broker_set_lanes_max(struct broker *broker, enum broker_link which, unsigned lanes_max)
{
	client_of(broker)->sides[which].lanes_max = lanes_max;
}

void
memory_broker_cut(
    struct broker *broker, enum broker_link which, int64_t notice, int64_t back, const char *why)
{
	memory_side_cut(client_of(broker), which, notice, back, why);
}

void
memory_broker_deny(struct broker *broker, enum broker_link which, const char *why)
{
	memory_side_deny(client_of(broker), which, why);
}

void
memory_broker_restore(struct broker *broker, enum broker_link which)
{
	memory_side_restore(client_of(broker), which);
}

void
memory_broker_freeze(struct broker *broker, enum broker_link which)
{
	struct memory_connection *connection = connection_of(broker, which);

	if (connection != NULL)
		memory_connection_freeze(connection);
}

void
memory_broker_forsake(struct broker *broker, enum broker_link which)
{
	struct memory_connection *connection = connection_of(broker, which);

	if (connection != NULL)
		memory_connection_release(connection);
}

void
memory_broker_block(struct broker *broker, enum broker_link which, unsigned ways)
{
	struct memory_connection *connection = connection_of(broker, which);

	if (connection != NULL)
		memory_connection_block(connection, ways);
}

uint64_t
memory_broker_connection(const struct broker *broker, enum broker_link which)
{
	const struct memory_connection *connection = connection_of(broker, which);

	return connection != NULL ? connection->number : 0;
}

/* Channels that no lane has are numbered behind all lanes. */
#define TAPPED (UINT64_C(1) << 62)

static uint64_t
lane_of(const struct broker *broker, enum broker_link which, uint16_t channel)
{
	uint64_t lane = amqp_lanes_on_channel(broker_lanes(broker, which), channel);

	return lane != 0 ? lane : TAPPED | (uint64_t)channel << 1 | (which == BROKER_SIDE);
}

void
memory_broker_each_lane(const struct broker *broker, enum broker_link which,
    void (*fn)(void *ctx, uint64_t lane, bool silent), void *ctx)
{
	const struct memory_connection *connection = connection_of(broker, which);
	const struct memory_channel *channel;

	if (connection == NULL)
		return;
	for (channel = connection->channels; channel != NULL; channel = channel->hh.next) {
		/* RabbitMQ closes those that read, or were asked something that it refuses. */
		if (channel->number != 0 &&
		    (channel->silenced || (channel->state == MEMORY_CHANNEL_OPEN &&
					      (!TAILQ_EMPTY(&channel->consumers) ||
						  amqp_lanes_on_channel(broker_lanes(broker, which),
						      channel->number) != 0))))
			fn(ctx, lane_of(broker, which, channel->number),
			    channel->silenced || connection->frozen);
	}
}

unsigned
memory_broker_lanes_taken(const struct broker *broker, enum broker_link which)
{
	const struct amqp_lanes *lanes = broker_lanes(broker, which);
	unsigned taken = 0;

	for (unsigned channel = 1; channel <= amqp_lanes_max(lanes); channel++)
		taken += amqp_lanes_on_channel(lanes, (uint16_t)channel) != 0;
	return taken;
}

void
memory_broker_close_lane(struct broker *broker, uint64_t lane, int code, const char *text)
{
	enum broker_link which = lane & 1 ? BROKER_SIDE : BROKER_HOLD;
	struct memory_connection *connection = connection_of(broker, which);
	uint16_t channel = lane & TAPPED ? (uint16_t)(lane >> 1)
					 : amqp_lanes_channel(broker_lanes(broker, which), lane);

	if (connection != NULL && !connection->frozen && channel != 0)
		memory_channel_close(memory_connection_channel(connection, channel), code, text);
}

static bool
has_watches(const struct memory_channel *channel)
{
	const struct memory_consumer *consumer = TAILQ_FIRST(&channel->consumers);

	return consumer != NULL && consumer->tag[0] == 'w';
}

void
memory_broker_close_watches(struct broker *broker)
{
	struct memory_connection *connection = connection_of(broker, BROKER_SIDE);
	struct memory_channel *channel;

	if (connection == NULL || connection->frozen)
		return;
	for (channel = connection->channels; channel != NULL; channel = channel->hh.next) {
		if (has_watches(channel))
			memory_channel_close(channel, AMQP_PRECONDITION_FAILED,
			    "PRECONDITION_FAILED - consumer timeout");
	}
}

size_t
memory_broker_watched(const struct broker *broker)
{
	return broker_watched(broker);
}

size_t
memory_broker_joined(const struct broker *broker)
{
	return broker_joined(broker);
}

/* ---- queues, behind everybody's back ---- */

/* Not NULL, and no broker's address: a connection that is not (or no longer) ours has it. */
static const struct broker *
owner_seen(const struct memory_world *world, const struct memory_queue *queue)
{
	if (queue->owner == NULL)
		return NULL;
	if (queue->owner->broker == NULL)
		return (const struct broker *)(const void *)&world->foreign;
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

void
memory_world_each(const struct memory_world *world,
    void (*fn)(void *ctx, const char *queue, const struct broker *owner), void *ctx)
{
	const struct memory_queue *queue;

	for (queue = world->queues; queue != NULL; queue = queue->hh.next)
		fn(ctx, queue->name, owner_seen(world, queue));
}

/* NULL: there is one of that name. */
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
	return put(world, name, exclusive ? &world->foreign : NULL) != NULL;
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

void
memory_world_publish(struct memory_world *world, const char *name, const char *body)
{
	struct memory_queue *queue = memory_queue_find(world, name);
	struct memory_message *message;

	if (queue == NULL) {
		queue = put(world, name, NULL);
		queue->length_max = -1;
	}
	message = memory_message_new(
	    queue->auto_delete ? "" : body, queue->auto_delete ? 0 : strlen(body));
	message->persistent = true;
	if (queue->auto_delete)
		message->correlation_id = mem_strdup(body);
	memory_queue_add(world, queue, message);
	memory_message_free(message);
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

size_t
memory_world_hints(const struct memory_world *world, const char *name)
{
	struct memory_queue *queue = memory_queue_find(world, name);

	if (queue == NULL)
		return 0;
	memory_queue_expire(world, queue);
	return memory_queue_length(queue);
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
	const struct memory_queue *queue = memory_queue_find(world, name);
	struct memory_consumer *consumer;
	bool any = false;

	while (queue != NULL && (consumer = TAILQ_FIRST(&queue->consumers)) != NULL) {
		struct memory_channel *channel = consumer->channel;
		char *tag = mem_strdup(consumer->tag);
		bool last = queue->auto_delete && TAILQ_NEXT(consumer, of_queue) == NULL;

		memory_consumer_end(world, consumer);
		memory_channel_send_cancel(channel, tag);
		free(tag);
		any = true;
		if (last)
			break;
	}
	return any;
}

/* ---- the node ---- */

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
	world->foreign.state = MEMORY_CONNECTION_UP;
	world->foreign.frozen = false;
	HASH_ITER (hh, world->queues, queue, next_queue) {
		struct memory_message *message, *next_message;

		if (!queue->durable) {
			memory_queue_delete(world, queue, false);
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

void
memory_world_set_deletes_by_name(struct memory_world *world, bool does)
{
	struct memory_client *client;

	world->deletes_by_name = does;
	TAILQ_FOREACH (client, &world->clients, entry)
		if (client->sides[BROKER_HOLD].link != NULL)
			client->sides[BROKER_HOLD].link->base.server.deletes_by_name = does;
}
