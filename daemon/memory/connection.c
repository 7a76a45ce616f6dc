#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/settings.h"
#include "daemon/base/mem.h"
#include "daemon/broker/channel.h"
#include "daemon/broker/setup.h"
#include "daemon/memory/internal.h"

/*
 * Parcels of a channel that are taken before other channels have their turn. So an answer does not
 * wait for the hundreds of probes on another channel: RabbitMQ's channels are concurrent processes.
 */
#define PARCELS_A_TURN 64

/* ---- frames that arrive ---- */

/*
 * Takes the first parcel of a list. NULL: it has not arrived, or so many were taken that others
 * have their turn; the timer is set for it.
 */
static struct memory_parcel *
take_first(
    struct memory_parcels *parcels, struct timers *timers, struct timer *timer, unsigned taken)
{
	struct memory_parcel *parcel = TAILQ_FIRST(parcels);

	if (parcel == NULL)
		return NULL;
	if (taken == PARCELS_A_TURN || parcel->when > clock_now(timers_clock(timers))) {
		timers_set(timers, timer, parcel->when);
		return NULL;
	}
	TAILQ_REMOVE(parcels, parcel, entry);
	return parcel;
}

static void
parcels_clear(struct memory_parcels *parcels)
{
	struct memory_parcel *parcel;

	while ((parcel = TAILQ_FIRST(parcels)) != NULL) {
		TAILQ_REMOVE(parcels, parcel, entry);
		free(parcel);
	}
}

/* Decodes the first of these whole frames. Returns its size in bytes. */
static size_t
read_frame(struct amqp_decoder *decoder, uint8_t *bytes, size_t len, struct amqp_frame *ret_frame)
{
	size_t size;
	enum amqp_decoder_status status = amqp_decoder_size(decoder, bytes, len, &size);

	assert(status == AMQP_DECODER_FRAME && size <= len);
	status = amqp_decoder_take(decoder, bytes, size, ret_frame);
	assert(status == AMQP_DECODER_FRAME);
	return size;
}

/* False: the parcel waits. */
static bool
perform_parcel(struct memory_channel *channel, struct memory_parcel *parcel)
{
	struct amqp_frame frame;

	channel->reply_at = parcel->replies;
	channel->confirms_not = parcel->unconfirmed;
	channel->alarmed = parcel->alarmed;
	for (size_t at = 0; at < parcel->len;) {
		at += read_frame(channel->connection->world->decoder, parcel->bytes + at,
		    parcel->len - at, &frame);
		/* A frame that waits is the only one of its parcel. */
		if (!memory_perform(channel, &frame, parcel->crashes))
			return false;
	}
	return true;
}

static bool
reads(const struct memory_connection *connection)
{
	return connection->state != MEMORY_CONNECTION_OVER && !connection->frozen &&
	       !connection->halted && (connection->blocked & MEMORY_OUT) == 0;
}

/*
 * Whether the channel is stalled. Parcels sent together with the unanswered method are still
 * performed.
 */
static bool
is_stuck(const struct memory_channel *channel)
{
	const struct memory_parcel *first = TAILQ_FIRST(&channel->in);

	return channel->waits || channel->asks != NULL ||
	       (channel->stalled && (first == NULL || !first->silent));
}

static void
on_arrive(void *ctx, uint64_t id)
{
	struct memory_channel *channel = ctx;
	struct memory_connection *connection = channel->connection;
	struct memory_world *world = connection->world;
	struct memory_parcel *parcel;
	unsigned taken = 0;

	(void)id;
	if (channel->broken && connection->state != MEMORY_CONNECTION_OVER)
		memory_connection_close(connection, AMQP_INTERNAL_ERROR, "INTERNAL_ERROR");
	while (
	    reads(connection) && !is_stuck(channel) &&
	    (parcel = take_first(&channel->in, world->timers, &channel->arrive, taken++)) != NULL) {
		/* A channel that is being closed ignores parcels, so they hold up nothing. */
		if (channel->state == MEMORY_CHANNEL_OPEN)
			channel->stalled |= parcel->silent;
		else if (parcel->silent)
			channel->silenced = false;
		channel->waits = !perform_parcel(channel, parcel);
		if (channel->waits)
			TAILQ_INSERT_HEAD(&channel->in, parcel, entry);
		else
			free(parcel);
	}
	memory_channel_confirm(channel);
}

/*
 * RabbitMQ's channel crashes if a consumer is cancelled before its consume-ok
 * (daemon/broker/consumers.c).
 */
static void
note_told(const struct memory_channel *channel, const struct amqp_frame *frame)
{
	const amqp_basic_consume_ok_t *ok = frame->fields;
	struct memory_consumer *consumer = memory_consumer_find(channel, ok->consumer_tag);

	if (consumer != NULL)
		consumer->told = true;
}

/* The link may be dead after this, and the channel gone. */
static void
tell_link(struct memory_link *link, struct memory_channel *channel, struct memory_parcel *parcel)
{
	struct amqp_frame frame;

	link->client->reading = link;
	for (size_t at = 0; at < parcel->len && link->base.state != AMQP_LINK_DEAD;) {
		at += read_frame(
		    link->client->world->decoder, parcel->bytes + at, parcel->len - at, &frame);
		if (frame.method == AMQP_BASIC_CONSUME_OK_METHOD)
			note_told(channel, &frame);
		if (frame.channel == 0)
			link->alarmed = frame.method == AMQP_CONNECTION_BLOCKED_METHOD;
		amqp_link_take(&link->base, &frame);
	}
	link->client->reading = NULL;
}

/*
 * Reads all frames that have arrived. By them the link may end its connection, which is then freed.
 */
static void
on_reply(void *ctx, uint64_t id)
{
	struct memory_channel *channel = ctx;
	struct memory_connection *connection = channel->connection;
	struct memory_link *link = connection->link;
	struct memory_parcels came = TAILQ_HEAD_INITIALIZER(came);
	struct memory_parcel *parcel;
	unsigned taken = 0;

	(void)id;
	if (link == NULL || connection->frozen || (connection->blocked & MEMORY_IN) != 0)
		return;
	while ((parcel = take_first(&channel->out, connection->client, &channel->reply, taken++)) !=
	       NULL)
		TAILQ_INSERT_TAIL(&came, parcel, entry);
	while ((parcel = TAILQ_FIRST(&came)) != NULL) {
		TAILQ_REMOVE(&came, parcel, entry);
		tell_link(link, channel, parcel);
		free(parcel);
	}
}

/* ---- life ---- */

struct memory_channel *
memory_channel_of(struct memory_connection *connection, uint16_t number)
{
	struct memory_channel *channel;

	HASH_FIND(hh, connection->channels, &number, sizeof(number), channel);
	if (channel != NULL)
		return channel;
	channel = mem_alloc(sizeof(*channel));
	channel->number = number;
	channel->connection = connection;
	TAILQ_INIT(&channel->consumers);
	TAILQ_INIT(&channel->delivered);
	TAILQ_INIT(&channel->handed);
	TAILQ_INIT(&channel->in);
	TAILQ_INIT(&channel->out);
	timer_init(&channel->arrive, on_arrive, channel, 0);
	timer_init(&channel->reply, on_reply, channel, 0);
	HASH_ADD(hh, connection->channels, number, sizeof(channel->number), channel);
	return channel;
}

static void
channel_free(struct memory_channel *channel)
{
	struct memory_connection *connection = channel->connection;

	memory_channel_end(channel);
	timers_cancel(connection->world->timers, &channel->arrive);
	if (connection->client != NULL)
		timers_cancel(connection->client, &channel->reply);
	parcels_clear(&channel->in);
	parcels_clear(&channel->out);
	if (channel->coming != NULL) {
		memory_headers_free(channel->coming->message.headers);
		free(channel->coming->body);
	}
	free(channel->coming);
	HASH_DEL(connection->channels, channel);
	free(channel);
}

static enum broker_link
which_of(const struct memory_link *link)
{
	const struct amqp_link_config *config = &link->base.config;

	return config->role == AMQP_LINK_LOCKS       ? BROKER_LOCKS
	       : config->role == AMQP_LINK_AUXILIARY ? BROKER_AUXILIARY
						     : BROKER_QUORUM + config->number;
}

static void
on_notice(void *ctx, uint64_t id)
{
	(void)id;
	memory_connection_free(ctx);
}

struct memory_connection *
memory_connection_new(struct memory_world *world)
{
	struct memory_connection *connection = mem_alloc(sizeof(*connection));

	connection->world = world;
	connection->number = ++world->last_connection;
	TAILQ_INIT(&connection->queues);
	timer_init(&connection->notice, on_notice, connection, 0);
	TAILQ_INSERT_TAIL(&world->connections, connection, entry);
	return connection;
}

static struct memory_connection *
connection_new(struct memory_link *link)
{
	struct memory_connection *connection = memory_connection_new(link->client->world);

	connection->broker = link->client->broker;
	connection->which = which_of(link);
	connection->node = link->client->node;
	connection->link = link;
	connection->client = link->client->timers;
	connection->control = memory_channel_of(connection, 0);
	return connection;
}

void
memory_connection_free(struct memory_connection *connection)
{
	struct memory_channel *channel, *next;

	memory_connection_release(connection);
	HASH_ITER (hh, connection->channels, channel, next) {
		channel_free(channel);
	}
	timers_cancel(connection->world->timers, &connection->notice);
	TAILQ_REMOVE(&connection->world->connections, connection, entry);
	free(connection);
}

/* The daemon's end is gone: the server owns the connection, and notices after `notice` ns. */
static void
lose(struct memory_connection *connection, int64_t notice)
{
	struct memory_channel *channel;

	for (channel = connection->channels; channel != NULL; channel = channel->hh.next) {
		timers_cancel(connection->client, &channel->reply);
		parcels_clear(&channel->out);
	}
	connection->link = NULL;
	connection->client = NULL;
	if (notice <= 0 || connection->state == MEMORY_CONNECTION_OVER) {
		memory_connection_free(connection);
		return;
	}
	connection->state = MEMORY_CONNECTION_LOST;
	timers_set(
	    connection->world->timers, &connection->notice, memory_now(connection->world) + notice);
}

void
memory_connection_freeze(struct memory_connection *connection)
{
	struct memory_channel *channel;

	connection->frozen = true;
	for (channel = connection->channels; channel != NULL; channel = channel->hh.next) {
		timers_cancel(connection->world->timers, &channel->arrive);
		if (connection->client != NULL)
			timers_cancel(connection->client, &channel->reply);
	}
}

/* Frames that were held back arrive now, in their order. */
static void
set_off(struct memory_connection *connection)
{
	struct memory_channel *channel;

	for (channel = connection->channels; channel != NULL; channel = channel->hh.next) {
		memory_parcels_expect(&channel->in, connection->world->timers, &channel->arrive);
		if (connection->client != NULL)
			memory_parcels_expect(&channel->out, connection->client, &channel->reply);
	}
}

void
memory_connection_go_on(struct memory_connection *connection)
{
	connection->halted = false;
	if (!connection->frozen)
		set_off(connection);
}

void
memory_connection_try_again(struct memory_connection *connection)
{
	struct memory_channel *channel;

	for (channel = connection->channels; channel != NULL; channel = channel->hh.next)
		channel->waits = false;
	if (!connection->frozen)
		set_off(connection);
}

/* ---- the daemon's end ---- */

static struct memory_link *
memory_of(struct amqp_link *link)
{
	return (struct memory_link *)link;
}

static struct memory_side *
side_of(const struct memory_link *link)
{
	return &link->client->sides[which_of(link)];
}

/*
 * Whether a sent method has a random delay. Other methods arrive directly after the earlier ones.
 * cancel: its fields, if it is basic.cancel.
 */
static bool
is_drawn(amqp_method_number_t method, const amqp_basic_cancel_t *cancel)
{
	switch (method) {
	case AMQP_QUEUE_DECLARE_METHOD:
	case AMQP_QUEUE_DELETE_METHOD:
	case AMQP_BASIC_CONSUME_METHOD:
	case AMQP_BASIC_GET_METHOD:
	case AMQP_BASIC_PUBLISH_METHOD:
		return true;
	case AMQP_BASIC_CANCEL_METHOD:
		return !cancel->nowait;
	default:
		return false;
	}
}

/*
 * Returns the delay, and whether the method is silent. Publishes that are sent together share the
 * values of the first. A delete shares those of the method with which it is sent, as the two are in
 * one packet (broker_delete_holder()).
 */
static int64_t
draw(struct memory_channel *channel, amqp_method_number_t method, const amqp_basic_cancel_t *cancel,
    bool *ret_silent)
{
	const struct memory_world *world = channel->connection->world;
	int64_t now = memory_now(world);

	*ret_silent = false;
	if (!is_drawn(method, cancel)) {
		channel->burst = 0;
		return 0;
	}
	if (channel->burst_at == now &&
	    ((method == AMQP_BASIC_PUBLISH_METHOD && channel->burst > 0) ||
		method == AMQP_QUEUE_DELETE_METHOD)) {
		channel->burst += method == AMQP_BASIC_PUBLISH_METHOD;
		*ret_silent = channel->burst_silent;
		return channel->burst_delay;
	}
	channel->burst_delay = memory_delay(world);
	/* A publish without a confirm has no answer, so silence would mean nothing. */
	channel->burst_silent = !channel->silenced &&
				(method != AMQP_BASIC_PUBLISH_METHOD || channel->confirms) &&
				memory_chance(world, world->behaviour.silent);
	channel->silenced |= channel->burst_silent && method != AMQP_BASIC_PUBLISH_METHOD;
	channel->burst_at = now;
	channel->burst = method == AMQP_BASIC_PUBLISH_METHOD ? 1 : 0;
	*ret_silent = channel->burst_silent;
	return channel->burst_delay;
}

/* Sends the frames of one method. cancel: its fields, if it is basic.cancel. */
static void
send_parcel(struct memory_link *link, uint16_t number, amqp_method_number_t method,
    const uint8_t *bytes, size_t len, const amqp_basic_cancel_t *cancel)
{
	struct memory_connection *connection = link->connection;
	struct memory_channel *channel;
	int64_t now = memory_now(link->client->world), delay;
	struct memory_parcel *parcel;
	const struct memory_consumer *consumer;
	bool silent;

	if (connection == NULL || connection->frozen || connection->state != MEMORY_CONNECTION_UP)
		return;
	channel = memory_channel_of(connection, number);
	delay = draw(channel, method, cancel, &silent);
	/* The first two of a burst arrive before the others, so that a cut can separate them. */
	channel->last_in = memory_later(channel->last_in,
	    now + (channel->burst > 0 && channel->burst <= 2 ? delay / 4 : delay / 2));
	parcel = memory_parcel_add(&channel->in, bytes, len, channel->last_in);
	parcel->replies = now + delay;
	parcel->silent = silent && method != AMQP_BASIC_PUBLISH_METHOD;
	parcel->alarmed = link->alarmed;
	parcel->unconfirmed = silent && method == AMQP_BASIC_PUBLISH_METHOD;
	if (cancel != NULL) {
		consumer = memory_consumer_find(channel, cancel->consumer_tag);
		parcel->crashes = consumer != NULL && !consumer->told;
	}
	memory_parcels_expect(&channel->in, connection->world->timers, &channel->arrive);
}

static bool
link_send(struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields)
{
	uint8_t bytes[AMQP_FRAME_MAX];
	size_t len = amqp_frame_method(bytes, channel, method, fields);

	if (len == 0)
		return false;
	send_parcel(memory_of(link), channel, method, bytes, len,
	    method == AMQP_BASIC_CANCEL_METHOD ? fields : NULL);
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
	if (method > 0 && header > 0)
		send_parcel(memory_of(link), channel, AMQP_BASIC_PUBLISH_METHOD, bytes,
		    (size_t)(at - bytes), NULL);
	return method > 0 && header > 0;
}

/* The server in memory asks for no login. */
static bool
link_handshake(struct amqp_link *link, const struct amqp_frame *frame)
{
	(void)link;
	(void)frame;
	return false;
}

static int64_t
notice_of(const struct memory_link *link)
{
	const struct memory_world *world = link->client->world;
	int64_t notice = side_of(link)->notice;

	if (notice >= 0)
		return notice;
	if (world->behaviour.notice == NULL || link->base.state != AMQP_LINK_DEAD)
		return 0;
	return world->behaviour.notice(world->behaviour.ctx, link->client->broker, which_of(link),
	    link->base.dropped ? NULL : link->base.why);
}

static void
link_shut_down(struct amqp_link *link)
{
	struct memory_link *memory = memory_of(link);
	struct memory_connection *connection = memory->connection;

	timers_cancel(memory->client->timers, &memory->connect);
	memory->connection = NULL;
	if (connection != NULL)
		lose(connection, notice_of(memory));
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
	int64_t now = clock_now(timers_clock(link->client->timers)), when = side->earliest;

	if (link->base.state != AMQP_LINK_STREAM)
		return;
	/*
	 * The first try of a held connection fails at once, and each later one after the timeout.
	 */
	if (side->held)
		when = side->told ? now + MEMORY_PROBE_TIMEOUT : now;
	timers_set(link->client->timers, &link->connect, memory_later(when, now));
}

static void
come_up(struct memory_link *link)
{
	char *error;

	link->base.server = (struct amqp_server){
	    .product = mem_strdup("memory"),
	    .version = mem_printf(
		"%u.%u", link->client->world->version / 1000, link->client->world->version % 1000),
	    .cluster = mem_strdup(""),
	    .deletes_by_name = link->client->world->deletes_by_name,
	    .hides_queues = link->client->world->hides_queues,
	};
	error = link->base.events.vet(link->base.events.ctx, &link->base.server);
	if (error != NULL) {
		amqp_link_fail(&link->base, "%s", error);
		free(error);
		return;
	}
	link->base.channel_max = side_of(link)->channels_max;
	link->base.heartbeat = link->base.config.settings->heartbeat;
	link->connection = connection_new(link);
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
	link->base.refused = side->refused;
	amqp_link_fail(&link->base, "%s", side->why);
}

static bool
link_save(struct amqp_link *link, struct amqp_link_saved *ret)
{
	*ret = (struct amqp_link_saved){
	    .fd = -1,
	    .connection = memory_of(link)->connection->number,
	    .channel_max = (int)link->channel_max,
	    .heartbeat = link->heartbeat,
	};
	return true;
}

static struct memory_link *
link_new(struct memory_client *client, const struct amqp_link_config *config,
    const struct amqp_link_events *events)
{
	static const struct amqp_link_ops ops = {
	    .send = link_send,
	    .publish = link_publish,
	    .handshake = link_handshake,
	    .shut_down = link_shut_down,
	    .try_again = link_try_again,
	    .save = link_save,
	    .free = link_free,
	};
	struct memory_link *link = mem_alloc(sizeof(*link));

	link->client = client;
	amqp_link_init(&link->base, &ops, config, events);
	timer_init(&link->connect, on_connect, link, 0);
	side_of(link)->link = link;
	side_of(link)->notice = -1;
	return link;
}

static struct amqp_link *
link_connect(
    void *ctx, const struct amqp_link_config *config, const struct amqp_link_events *events)
{
	struct memory_link *link = link_new(ctx, config, events);

	set_connect(link);
	return &link->base;
}

/* The connection of that number, whose daemon's end is detached. NULL: it is gone. */
static struct memory_connection *
find_detached(const struct memory_world *world, uint64_t number)
{
	struct memory_connection *connection;

	TAILQ_FOREACH (connection, &world->connections, entry) {
		if (connection->number == number && connection->detached)
			return connection;
	}
	return NULL;
}

static struct amqp_link *
link_resume(void *ctx, const struct amqp_link_config *config, const struct amqp_link_events *events,
    const struct amqp_link_saved *saved)
{
	struct memory_client *client = ctx;
	struct memory_connection *connection = find_detached(client->world, saved->connection);
	struct memory_link *link;

	if (connection == NULL)
		return NULL;
	link = link_new(client, config, events);
	amqp_link_resume(&link->base, saved);
	link->connection = connection;
	connection->detached = false;
	connection->broker = client->broker;
	connection->link = link;
	connection->client = client->timers;
	if (!connection->frozen)
		set_off(connection);
	return &link->base;
}

/* ---- a daemon's broker ---- */

static void
client_free(void *ctx)
{
	struct memory_client *client = ctx;
	struct memory_connection *connection;

	TAILQ_FOREACH (connection, &client->world->connections, entry)
		if (connection->broker == client->broker)
			connection->broker = NULL;
	TAILQ_REMOVE(&client->world->clients, client, entry);
	for (int i = 0; i < BROKER_LINKS; i++)
		free(client->sides[i].why);
	free(client);
}

struct broker *
memory_broker_new_as(struct memory_world *world, struct timers *timers,
    const struct amqp_settings *settings, unsigned channels_max, uint64_t seed)
{
	struct memory_client *client = mem_alloc(sizeof(*client));
	const struct amqp_dialer dialer = {
	    .connect = link_connect, .resume = link_resume, .free = client_free, .ctx = client};

	client->world = world;
	client->timers = timers;
	for (int i = 0; i < BROKER_LINKS; i++) {
		client->sides[i].channels_max = channels_max;
		client->sides[i].why = mem_strdup("");
	}
	TAILQ_INSERT_TAIL(&world->clients, client, entry);
	client->broker = broker_new(timers, seed, settings, &dialer);
	return client->broker;
}

static struct memory_client *
client_of(const struct broker *broker)
{
	return broker_dialer(broker)->ctx;
}

struct memory_connection *
memory_connection_of(const struct broker *broker, enum broker_link which)
{
	const struct memory_link *link = client_of(broker)->sides[which].link;

	return link != NULL ? link->connection : NULL;
}

void
memory_broker_set_channels_max(struct broker *broker, enum broker_link which, unsigned channels_max)
{
	client_of(broker)->sides[which].channels_max = channels_max;
}

void
memory_broker_set_node(struct broker *broker, unsigned node)
{
	assert(node < MEMORY_NODES);
	client_of(broker)->node = node;
}

/* ---- failures of links ---- */

/*
 * Reports the death at once, as if from the loop. Inside of a callback of the link, the loop
 * reports it.
 */
static void
link_die(struct memory_link *link, bool refused, const char *why)
{
	link->base.refused = refused;
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
memory_broker_cut(
    struct broker *broker, enum broker_link which, int64_t notice, int64_t back, const char *why)
{
	struct memory_client *client = client_of(broker);
	struct memory_side *side = &client->sides[which];

	side->held = back < 0;
	side->refused = false;
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
memory_broker_deny(struct broker *broker, enum broker_link which, const char *why)
{
	struct memory_side *side = &client_of(broker)->sides[which];

	side->held = side->refused = true;
	free(side->why);
	side->why = mem_strdup(why);
	side->told = side->link != NULL;
	side->notice = 0;
	if (side->link != NULL && side->link->base.state < AMQP_LINK_CLOSING)
		link_die(side->link, true, why);
}

void
memory_broker_restore(struct broker *broker, enum broker_link which)
{
	struct memory_side *side = &client_of(broker)->sides[which];

	side->held = false;
	side->earliest = 0;
	if (side->link != NULL)
		set_connect(side->link);
}

/*
 * The kernel closes the socket behind the bytes that were sent, and there is no connection.close.
 * The server notices `notice` ns after the last of these bytes.
 */
static void
cut_behind(struct memory_link *link, int64_t notice)
{
	struct memory_connection *connection = link != NULL ? link->connection : NULL;
	const struct memory_channel *channel;
	int64_t now, last = 0;

	if (connection == NULL)
		return;
	link->connection = NULL;
	now = memory_now(connection->world);
	for (channel = connection->channels; channel != NULL; channel = channel->hh.next)
		last = memory_later(last, channel->last_in);
	lose(connection, memory_later(last, now) - now + notice + 1);
}

static void
link_detach(struct memory_link *link)
{
	struct memory_connection *connection = link == NULL ? NULL : link->connection;
	struct memory_channel *channel;

	if (connection == NULL)
		return;
	for (channel = connection->channels; channel != NULL; channel = channel->hh.next)
		timers_cancel(connection->client, &channel->reply);
	connection->detached = true;
	connection->link = NULL;
	connection->client = NULL;
	link->connection = NULL;
}

void
memory_broker_detach(struct broker *broker, int64_t notice)
{
	const struct memory_client *client = client_of(broker);
	bool tls = broker_is_tls(broker, BROKER_LOCKS);

	cut_behind(client->sides[BROKER_AUXILIARY].link, notice);
	if (tls)
		cut_behind(client->sides[BROKER_LOCKS].link, notice);
	else
		link_detach(client->sides[BROKER_LOCKS].link);
	for (int which = BROKER_QUORUM; which < BROKER_LINKS; which++) {
		struct memory_link *link = client->sides[which].link;

		/* Without claims the connection is not in the state. */
		if (tls || broker_state_version(broker) == 1)
			cut_behind(link, notice);
		else
			link_detach(link);
	}
}

void
memory_broker_freeze(struct broker *broker, enum broker_link which)
{
	struct memory_connection *connection = memory_connection_of(broker, which);

	if (connection != NULL)
		memory_connection_freeze(connection);
}

void
memory_broker_forsake(struct broker *broker, enum broker_link which)
{
	struct memory_connection *connection = memory_connection_of(broker, which);

	if (connection != NULL)
		memory_connection_release(connection);
}

void
memory_broker_block(struct broker *broker, enum broker_link which, unsigned ways)
{
	struct memory_connection *connection = memory_connection_of(broker, which);

	if (connection == NULL || connection->frozen)
		return;
	connection->blocked = ways;
	set_off(connection);
}

uint64_t
memory_broker_connection(const struct broker *broker, enum broker_link which)
{
	const struct memory_connection *connection = memory_connection_of(broker, which);

	return connection != NULL ? connection->number : 0;
}
