/*
 * The server in memory, and virtual time. Its answers take up to a millisecond, so that those on
 * several channels come in any order. Some of its acks confirm several publishes, as RabbitMQ's do.
 */
#include "daemon/base/backoff.h"
#include "tests/memory/controls.h"
#include "tests/conformance/server.h"

#define CHANNELS_MAX 2047

static int64_t now;
static struct memory_world *world;
static struct jitter chance;
static bool refused;
/* Of the next world. 0: its own. */
static unsigned major_version, minor_version;
/* Of this case, for a restart. */
static struct broker *brokers[16];
static size_t broker_count;

static int64_t
read_now(void *ctx)
{
	(void)ctx;
	return now;
}

static const struct clock virtual_clock = {.now = read_now};

static void
wait_for(int64_t ns)
{
	if (ns > 0)
		now += ns;
}

static struct amqp_host
memory_host(void)
{
	return (struct amqp_host){.host = "memory", .vhost = "/", .user = "memory", .password = ""};
}

static struct broker *
broker_in_memory(uint64_t seed, const struct amqp_settings *settings)
{
	struct amqp_settings in_process = *settings;
	struct broker *broker;

	in_process.in_process = true;
	broker = memory_broker_new_as(world, rig_timers, &in_process, CHANNELS_MAX, seed);
	ck_assert_uint_lt(broker_count, sizeof(brokers) / sizeof(*brokers));
	brokers[broker_count++] = broker;
	return broker;
}

static int64_t
any_delay(void *ctx)
{
	(void)ctx;
	return jitter_below(&chance, NSEC_PER_MSEC);
}

static bool
holds_acks(void *ctx)
{
	(void)ctx;
	return jitter_below(&chance, 2) == 0;
}

static bool
refuses(void *ctx)
{
	(void)ctx;
	return refused;
}

static void
begin(void)
{
	static const struct memory_behaviour behaviour = {
	    .delay = any_delay, .holds_acks = holds_acks, .refuses = refuses};

	now = 1000 * NSEC_PER_SEC;
	refused = false;
	broker_count = 0;
	jitter_init(&chance, 1);
	world = memory_world_new(rig_timers, &behaviour);
	if (major_version != 0)
		memory_world_set_version(world, major_version, minor_version);
	major_version = 0;
}

static void
end(void)
{
	memory_world_free(world);
}

static void
alarm_memory(bool on)
{
	memory_world_block(world, on);
}

static void
close_connections(const char *words)
{
	memory_world_close_connections(world, words);
}

static void
restart(void)
{
	memory_world_restart(world);
	for (size_t i = 0; i < broker_count; i++)
		for (int link = BROKER_LOCKS; link <= BROKER_AUXILIARY; link++)
			memory_broker_cut(
			    brokers[i], (enum broker_link)link, 0, 0, "the node restarts");
}

static void
permit(bool all)
{
	refused = !all;
}

static void
be(unsigned major, unsigned minor)
{
	major_version = major;
	minor_version = minor;
}

static const struct rig_ground ground = {
    .clock = &virtual_clock,
    .wait = wait_for,
    .host = memory_host,
    .broker_new = broker_in_memory,
    .begin = begin,
    .end = end,
};

const struct server server_memory = {
    .name = "memory",
    .ground = &ground,
    .alarm = alarm_memory,
    .close_connections = close_connections,
    .restart = restart,
    .permit = permit,
    .be = be,
};
