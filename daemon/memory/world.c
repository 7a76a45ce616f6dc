#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/setup.h"
#include "daemon/memory/internal.h"

/* A decoder that has read connection.start. */
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

struct memory_world *
memory_world_new(struct timers *timers, const struct memory_behaviour *behaviour)
{
	struct memory_world *world = mem_alloc(sizeof(*world));

	world->timers = timers;
	world->version = MEMORY_VERSION(4, 0);
	if (behaviour != NULL)
		world->behaviour = *behaviour;
	world->decoder = decoder_new();
	TAILQ_INIT(&world->connections);
	TAILQ_INIT(&world->clients);
	world->foreign = memory_connection_new(world);
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
		memory_connection_free(connection);
	}
	HASH_ITER (hh, world->queues, queue, next_queue) {
		memory_queue_delete(world, queue, false);
	}
	amqp_decoder_free(world->decoder);
	free(world->scratch);
	free(world);
}

/* ---- brokers of daemons ---- */

struct broker *
memory_broker_new_at(struct memory_world *world, struct timers *timers, int heartbeat,
    unsigned channels_max, uint64_t seed)
{
	const struct amqp_host host = {.host = "memory",
	    .vhost = "/",
	    .user = MEMORY_USER,
	    .password = "",
	    .tls = world->behaviour.tls};
	const struct amqp_settings settings = {
	    .hosts = &host,
	    .host_count = 1,
	    .heartbeat = heartbeat,
	    .connect_timeout = MEMORY_PROBE_TIMEOUT,
	    .probe_timeout = MEMORY_PROBE_TIMEOUT,
	    .backoff_first = 1,
	    .backoff_most = 1,
	    .auxiliary_idle = INT64_MAX / 4,
	    .in_process = true,
	    .name = "memory",
	    .replays = true,
	};

	return memory_broker_new_as(world, timers, &settings, channels_max, seed);
}

struct broker *
memory_broker_new(struct memory_world *world, int heartbeat, unsigned channels_max)
{
	return memory_broker_new_at(
	    world, world->timers, heartbeat, channels_max, ++world->last_seed);
}
