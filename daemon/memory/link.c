#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/memory/inside.h"

static struct memory_link *
memory_of(struct amqp_link *link)
{
	return (struct memory_link *)link;
}

static struct memory_side *
side_of(const struct memory_link *link)
{
	return &link->client->sides[memory_link_which(link)];
}

/* ---- sending ---- */

static bool
link_send(struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields)
{
	uint8_t bytes[AMQP_FRAME_MAX];
	size_t len = amqp_frame_method(bytes, channel, method, fields);
	amqp_bytes_t cancelled = amqp_empty_bytes;

	if (len == 0)
		return false;
	if (method == AMQP_BASIC_CANCEL_METHOD)
		cancelled = ((const amqp_basic_cancel_t *)fields)->consumer_tag;
	if (memory_of(link)->connection != NULL)
		memory_connection_send(
		    memory_of(link)->connection, channel, method, bytes, len, cancelled);
	return true;
}

static bool
link_publish(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body)
{
	const size_t most = AMQP_FRAME_MAX - AMQP_FRAME_AROUND;
	uint8_t *bytes = memory_scratch(memory_of(link)->client->world, body.len), *at = bytes;
	size_t method, header;

	at += method = amqp_frame_method(at, channel, AMQP_BASIC_PUBLISH_METHOD, fields);
	at += header = amqp_frame_header(at, channel, body.len, properties);
	for (size_t done = 0, len; done < body.len; done += len) {
		len = body.len - done < most ? body.len - done : most;
		at += amqp_frame_body(at, channel, (const char *)body.bytes + done, len);
	}
	if (method > 0 && header > 0 && memory_of(link)->connection != NULL)
		memory_connection_send(memory_of(link)->connection, channel,
		    AMQP_BASIC_PUBLISH_METHOD, bytes, (size_t)(at - bytes), amqp_empty_bytes);
	return method > 0 && header > 0;
}

/* ---- receiving ---- */

/* RabbitMQ's channel crashes when a client cancels a consumer before consume-ok came (consumers.c). */
static void
note_told(struct memory_link *link, const struct amqp_frame *frame)
{
	const amqp_basic_consume_ok_t *ok = frame->fields;
	struct memory_consumer *consumer = memory_consumer_find(
	    memory_connection_channel(link->connection, frame->channel), ok->consumer_tag);

	if (consumer != NULL)
		consumer->told = true;
}

void
memory_link_took(struct memory_link *link, uint8_t *bytes, size_t len)
{
	struct amqp_decoder *decoder = link->client->world->decoder;
	struct amqp_frame frame;
	size_t size;

	link->client->reading = link;
	for (size_t at = 0; at < len && link->base.state != AMQP_LINK_DEAD; at += size) {
		enum amqp_decoder_status status =
		    amqp_decoder_size(decoder, bytes + at, len - at, &size);

		assert(status == AMQP_DECODER_FRAME && size <= len - at);
		status = amqp_decoder_take(decoder, bytes + at, size, &frame);
		assert(status == AMQP_DECODER_FRAME);
		if (frame.method == AMQP_BASIC_CONSUME_OK_METHOD)
			note_told(link, &frame);
		if (frame.method == AMQP_CONNECTION_BLOCKED_METHOD)
			link->alarmed = true;
		if (frame.method == AMQP_CONNECTION_UNBLOCKED_METHOD)
			link->alarmed = false;
		amqp_link_take(&link->base, &frame);
	}
	link->client->reading = NULL;
}

/* The server in memory asks for no login. */
static bool
link_handshake(struct amqp_link *link, const struct amqp_frame *frame)
{
	(void)link;
	(void)frame;
	return false;
}

/* ---- life ---- */

static int64_t
notice_of(const struct memory_link *link)
{
	const struct memory_world *world = link->client->world;
	int64_t notice = side_of(link)->notice;

	if (notice >= 0)
		return notice;
	if (world->nature.notice == NULL || link->base.state != AMQP_LINK_DEAD)
		return 0;
	return world->nature.notice(
	    world->nature.ctx, link->client->broker, memory_link_which(link));
}

static void
link_shut_down(struct amqp_link *link)
{
	struct memory_link *memory = memory_of(link);
	struct memory_connection *connection = memory->connection;

	timers_cancel(memory->client->timers, &memory->connect);
	memory->connection = NULL;
	if (connection != NULL)
		memory_connection_lose(connection, notice_of(memory));
}

static bool
link_try_again(struct amqp_link *link)
{
	(void)link;
	return false;
}

static void
link_free(struct amqp_link *link)
{
	struct memory_link *memory = memory_of(link);

	link_shut_down(link);
	if (side_of(memory)->link == memory)
		side_of(memory)->link = NULL;
	amqp_link_done(link);
	free(memory);
}

static void
set_connect(struct memory_link *link)
{
	const struct memory_side *side = side_of(link);
	int64_t now = clock_now(timers_clock(link->client->timers));

	if (link->base.state != AMQP_LINK_STREAM)
		return;
	/* Who waits for one that is held is told at once that it is, and then after each such try. */
	if (side->held)
		timers_set(link->client->timers, &link->connect,
		    side->told ? now + MEMORY_PROBE_TIMEOUT : now);
	else
		timers_set(link->client->timers, &link->connect,
		    side->earliest > now ? side->earliest : now);
}

static void
come_up(struct memory_link *link)
{
	struct memory_client *client = link->client;
	struct memory_world *world = client->world;
	char *error;

	link->base.server = (struct amqp_server){
	    .product = mem_strdup("memory"),
	    .version = mem_strdup(""),
	    .cluster = mem_strdup(""),
	    .deletes_by_name = world->deletes_by_name,
	};
	error = link->base.events.vet(link->base.events.ctx, &link->base.server);
	assert(error == NULL);
	link->base.channel_max = side_of(link)->lanes_max;
	link->base.heartbeat = link->base.config.settings->heartbeat;
	link->connection = memory_connection_new(world, client->broker, link, client->timers);
	for (enum amqp_link_state state = AMQP_LINK_START; state < AMQP_LINK_UP; state++)
		amqp_link_set_state(&link->base, state);
	amqp_link_is_up(&link->base);
}

static void
on_connect(void *ctx, uint64_t id)
{
	struct memory_link *link = ctx;
	struct memory_side *side = side_of(link);

	(void)id;
	if (!side->held) {
		come_up(link);
		return;
	}
	side->told = true;
	link->base.denied = side->denied;
	amqp_link_fail(&link->base, "%s", side->why);
}

static struct amqp_link *
link_connect(
    void *ctx, const struct amqp_link_config *config, const struct amqp_link_events *events)
{
	static const struct amqp_link_ops ops = {
	    .send = link_send,
	    .publish = link_publish,
	    .handshake = link_handshake,
	    .shut_down = link_shut_down,
	    .try_again = link_try_again,
	    .free = link_free,
	};
	struct memory_link *link = mem_alloc(sizeof(*link));

	link->client = ctx;
	amqp_link_init(&link->base, &ops, config, events);
	timer_init(&link->connect, on_connect, link, 0);
	side_of(link)->link = link;
	side_of(link)->notice = -1;
	set_connect(link);
	return &link->base;
}

/* ---- what happens to links ---- */

/* It is told at once, as if from the loop; from the loop when it happens inside of what it reads. */
static void
link_die(struct memory_link *link, bool denied, const char *why)
{
	link->base.denied = denied;
	amqp_link_fail(&link->base, "%s", why);
	if (link->client->reading != link)
		amqp_link_tell_death(&link->base);
}

static bool
is_up(const struct memory_side *side)
{
	return side->link != NULL && side->link->base.state == AMQP_LINK_UP;
}

void
memory_side_cut(struct memory_client *client, enum broker_link which, int64_t notice, int64_t back,
    const char *why)
{
	struct memory_side *side = &client->sides[which];

	side->held = back < 0;
	side->denied = false;
	side->earliest = clock_now(timers_clock(client->timers)) + (back < 0 ? 0 : back);
	free(side->why);
	side->why = mem_strdup(why);
	side->told = is_up(side);
	side->notice = notice;
	if (is_up(side))
		link_die(side->link, false, why);
	else if (side->link != NULL)
		set_connect(side->link);
}

void
memory_side_deny(struct memory_client *client, enum broker_link which, const char *why)
{
	struct memory_side *side = &client->sides[which];

	side->held = side->denied = true;
	free(side->why);
	side->why = mem_strdup(why);
	side->told = side->link != NULL;
	side->notice = 0;
	if (side->link != NULL && side->link->base.state < AMQP_LINK_CLOSING)
		link_die(side->link, true, why);
}

void
memory_side_restore(struct memory_client *client, enum broker_link which)
{
	struct memory_side *side = &client->sides[which];

	side->held = false;
	side->earliest = 0;
	if (side->link != NULL)
		set_connect(side->link);
}

/* ---- the client ---- */

static void
client_free(void *ctx)
{
	struct memory_client *client = ctx;
	struct memory_connection *connection;

	TAILQ_FOREACH (connection, &client->world->connections, entry)
		if (connection->broker == client->broker)
			connection->broker = NULL;
	TAILQ_REMOVE(&client->world->clients, client, entry);
	for (int i = 0; i < 2; i++)
		free(client->sides[i].why);
	free(client);
}

struct memory_client *
memory_client_new(struct memory_world *world, struct timers *timers, unsigned lanes_max,
    struct amqp_dialer *ret_dialer)
{
	struct memory_client *client = mem_alloc(sizeof(*client));

	client->world = world;
	client->timers = timers;
	for (int i = 0; i < 2; i++) {
		client->sides[i].lanes_max = lanes_max;
		client->sides[i].why = mem_strdup("");
	}
	TAILQ_INSERT_TAIL(&world->clients, client, entry);
	*ret_dialer =
	    (struct amqp_dialer){.connect = link_connect, .free = client_free, .ctx = client};
	return client;
}
