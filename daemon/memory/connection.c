#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/memory/inside.h"

int64_t
memory_delay(const struct memory_world *world)
{
	int64_t delay = world->nature.delay != NULL ? world->nature.delay(world->nature.ctx) : 0;

	assert(delay >= 0);
	return delay;
}

static bool
is_silent(const struct memory_world *world)
{
	return world->nature.silent != NULL && world->nature.silent(world->nature.ctx);
}

static int64_t
later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* ---- frames on their way ---- */

/* The first of a list that has come; else the timer is set for it. NULL: none yet. */
static struct memory_parcel *
take_first(struct memory_parcels *parcels, struct timers *timers, struct timer *timer)
{
	struct memory_parcel *parcel = TAILQ_FIRST(parcels);

	if (parcel == NULL)
		return NULL;
	if (parcel->when > clock_now(timers_clock(timers))) {
		timers_set(timers, timer, parcel->when);
		return NULL;
	}
	TAILQ_REMOVE(parcels, parcel, entry);
	return parcel;
}

static struct memory_parcel *
parcel_new(const uint8_t *bytes, size_t len, int64_t when)
{
	struct memory_parcel *parcel = mem_grow(NULL, 1, sizeof(*parcel) + len);

	*parcel = (struct memory_parcel){.when = when, .len = len};
	memcpy(parcel->bytes, bytes, len);
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

/* Reads the frames of a parcel one after another. */
static void
perform_parcel(struct memory_channel *channel, struct memory_parcel *parcel)
{
	struct amqp_decoder *decoder = channel->connection->world->decoder;
	struct amqp_frame frame;
	size_t size;

	channel->reply_at = parcel->replies;
	channel->confirms_not = parcel->unconfirmed;
	channel->alarmed = parcel->alarmed;
	for (size_t at = 0; at < parcel->len; at += size) {
		enum amqp_decoder_status status =
		    amqp_decoder_size(decoder, parcel->bytes + at, parcel->len - at, &size);

		assert(status == AMQP_DECODER_FRAME && size <= parcel->len - at);
		status = amqp_decoder_take(decoder, parcel->bytes + at, size, &frame);
		assert(status == AMQP_DECODER_FRAME);
		memory_perform(channel, &frame, parcel->crashes);
	}
}

static bool
reads(const struct memory_connection *connection)
{
	return connection->state != MEMORY_CONNECTION_OVER && !connection->frozen &&
	       !connection->halted && (connection->blocked & MEMORY_OUT) == 0;
}

/* What was sent with the method that is not answered is performed, what is behind it is not. */
static bool
is_stuck(const struct memory_channel *channel)
{
	const struct memory_parcel *first = TAILQ_FIRST(&channel->in);

	return channel->stalled && (first == NULL || !first->silent);
}

static void
on_arrive(void *ctx, uint64_t id)
{
	struct memory_channel *channel = ctx;
	struct memory_connection *connection = channel->connection;
	struct memory_world *world = connection->world;
	struct memory_parcel *parcel;

	(void)id;
	while (reads(connection) && !is_stuck(channel) &&
	       (parcel = take_first(&channel->in, world->timers, &channel->arrive)) != NULL) {
		/* What comes to a channel that is being closed is ignored, and holds nothing up. */
		if (channel->state == MEMORY_CHANNEL_OPEN)
			channel->stalled |= parcel->silent;
		else if (parcel->silent)
			channel->silenced = false;
		perform_parcel(channel, parcel);
		free(parcel);
	}
	memory_channel_confirm(channel);
}

/* All that has come is read at once. The link may end its connection by what it hears, and that be freed. */
static void
on_reply(void *ctx, uint64_t id)
{
	struct memory_channel *channel = ctx;
	struct memory_connection *connection = channel->connection;
	struct memory_link *link = connection->link;
	struct memory_parcels came = TAILQ_HEAD_INITIALIZER(came);
	struct memory_parcel *parcel;

	(void)id;
	if (link == NULL || connection->frozen || (connection->blocked & MEMORY_IN) != 0)
		return;
	while ((parcel = take_first(&channel->out, connection->client, &channel->reply)) != NULL)
		TAILQ_INSERT_TAIL(&came, parcel, entry);
	while ((parcel = TAILQ_FIRST(&came)) != NULL) {
		TAILQ_REMOVE(&came, parcel, entry);
		memory_link_took(link, parcel->bytes, parcel->len);
		free(parcel);
	}
}

/* What is drawn of a method that is sent; the rest comes right behind what was sent before. */
static bool
is_drawn(amqp_method_number_t method)
{
	switch (method) {
	case AMQP_QUEUE_DECLARE_METHOD:
	case AMQP_QUEUE_DELETE_METHOD:
	case AMQP_BASIC_CONSUME_METHOD:
	case AMQP_BASIC_GET_METHOD:
	case AMQP_BASIC_PUBLISH_METHOD:
		return true;
	default:
		return false;
	}
}

/* The delay, and whether nothing is answered: of publishes that are sent together, the first one's. */
static int64_t
draw(struct memory_channel *channel, amqp_method_number_t method, bool *ret_silent)
{
	const struct memory_world *world = channel->connection->world;
	int64_t now = memory_now(world);

	*ret_silent = false;
	if (!is_drawn(method)) {
		channel->burst = 0;
		return 0;
	}
	if (method == AMQP_BASIC_PUBLISH_METHOD && channel->burst > 0 && channel->burst_at == now) {
		channel->burst++;
		*ret_silent = channel->burst_silent;
		return channel->burst_delay;
	}
	channel->burst_delay = memory_delay(world);
	/* A publish without a confirm is answered by nobody: it cannot be found out to be silent. */
	channel->burst_silent = !channel->silenced &&
				(method != AMQP_BASIC_PUBLISH_METHOD || channel->confirms) &&
				is_silent(world);
	channel->silenced |= channel->burst_silent && method != AMQP_BASIC_PUBLISH_METHOD;
	channel->burst_at = now;
	channel->burst = method == AMQP_BASIC_PUBLISH_METHOD ? 1 : 0;
	*ret_silent = channel->burst_silent;
	return channel->burst_delay;
}

void
memory_connection_send(struct memory_connection *connection, uint16_t number,
    amqp_method_number_t method, const uint8_t *bytes, size_t len, amqp_bytes_t cancelled)
{
	struct memory_channel *channel = memory_connection_channel(connection, number);
	int64_t now = memory_now(connection->world), delay;
	struct memory_parcel *parcel;
	const struct memory_consumer *consumer;
	bool silent;

	if (connection->frozen || connection->state != MEMORY_CONNECTION_UP)
		return;
	delay = draw(channel, method, &silent);
	/* The first few of a burst before the others: so it is cut where it may be. */
	channel->last_in = later_of(channel->last_in,
	    now + (channel->burst > 0 && channel->burst <= 2 ? delay / 4 : delay / 2));
	parcel = parcel_new(bytes, len, channel->last_in);
	parcel->replies = now + delay;
	parcel->silent = silent && method != AMQP_BASIC_PUBLISH_METHOD;
	parcel->alarmed = connection->link->alarmed;
	parcel->unconfirmed = silent && method == AMQP_BASIC_PUBLISH_METHOD;
	if (method == AMQP_BASIC_CANCEL_METHOD) {
		consumer = memory_consumer_find(channel, cancelled);
		parcel->crashes = consumer != NULL && !consumer->told;
	}
	TAILQ_INSERT_TAIL(&channel->in, parcel, entry);
	if (!timer_is_set(&channel->arrive))
		timers_set(
		    connection->world->timers, &channel->arrive, TAILQ_FIRST(&channel->in)->when);
}

void
memory_channel_put(struct memory_channel *channel, bool asked, const uint8_t *bytes, size_t len)
{
	struct memory_connection *connection = channel->connection;
	int64_t when = asked ? channel->reply_at : 0, now;
	struct memory_parcel *parcel;

	if (connection->link == NULL || connection->frozen || channel->stalled)
		return;
	now = memory_now(connection->world);
	if (!asked)
		when = now + memory_delay(connection->world);
	channel->last_out = later_of(channel->last_out, later_of(when, now));
	parcel = parcel_new(bytes, len, channel->last_out);
	TAILQ_INSERT_TAIL(&channel->out, parcel, entry);
	if (!timer_is_set(&channel->reply))
		timers_set(connection->client, &channel->reply, TAILQ_FIRST(&channel->out)->when);
}

void
memory_channel_unstall(struct memory_channel *channel)
{
	const struct memory_parcel *first = TAILQ_FIRST(&channel->in);

	channel->stalled = channel->silenced = false;
	if (first != NULL && !timer_is_set(&channel->arrive))
		timers_set(channel->connection->world->timers, &channel->arrive, first->when);
}

/* ---- channels ---- */

struct memory_channel *
memory_connection_channel(struct memory_connection *connection, uint16_t number)
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
	if (channel->coming != NULL)
		free(channel->coming->body);
	free(channel->coming);
	HASH_DEL(connection->channels, channel);
	free(channel);
}

/* ---- the connection ---- */

static void
on_notice(void *ctx, uint64_t id)
{
	(void)id;
	memory_connection_free(ctx);
}

void
memory_connection_init(struct memory_connection *connection, struct memory_world *world)
{
	connection->world = world;
	connection->number = ++world->last_connection;
	TAILQ_INIT(&connection->queues);
	timer_init(&connection->notice, on_notice, connection, 0);
	TAILQ_INSERT_TAIL(&world->connections, connection, entry);
}

struct memory_connection *
memory_connection_new(struct memory_world *world, const struct broker *broker,
    struct memory_link *link, struct timers *client)
{
	struct memory_connection *connection = mem_alloc(sizeof(*connection));

	memory_connection_init(connection, world);
	connection->broker = broker;
	connection->which = memory_link_which(link);
	connection->link = link;
	connection->client = client;
	return connection;
}

void
memory_connection_release(struct memory_connection *connection)
{
	struct memory_queue *queue;
	struct memory_channel *channel, *next;

	connection->state = MEMORY_CONNECTION_OVER;
	while ((queue = TAILQ_FIRST(&connection->queues)) != NULL)
		memory_queue_delete(connection->world, queue, true);
	HASH_ITER (hh, connection->channels, channel, next) {
		timers_cancel(connection->world->timers, &channel->arrive);
		memory_channel_end(channel);
	}
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

void
memory_connection_lose(struct memory_connection *connection, int64_t notice)
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
memory_connection_kill(struct memory_connection *connection, int code, const char *text)
{
	uint8_t bytes[AMQP_FRAME_MAX];
	amqp_connection_close_t close = {
	    .reply_code = (uint16_t)code, .reply_text = amqp_cstring_bytes(text)};
	size_t len = amqp_frame_method(bytes, 0, AMQP_CONNECTION_CLOSE_METHOD, &close);

	memory_connection_release(connection);
	memory_channel_put(memory_connection_channel(connection, 0), false, bytes, len);
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

/* What was held back arrives now, in its order. */
static void
set_off(struct memory_connection *connection)
{
	struct memory_channel *channel;

	for (channel = connection->channels; channel != NULL; channel = channel->hh.next) {
		if (!TAILQ_EMPTY(&channel->in) && !timer_is_set(&channel->arrive))
			timers_set(connection->world->timers, &channel->arrive,
			    TAILQ_FIRST(&channel->in)->when);
		if (connection->client != NULL && !TAILQ_EMPTY(&channel->out) &&
		    !timer_is_set(&channel->reply))
			timers_set(
			    connection->client, &channel->reply, TAILQ_FIRST(&channel->out)->when);
	}
}

void
memory_connection_block(struct memory_connection *connection, unsigned ways)
{
	if (connection->frozen)
		return;
	connection->blocked = ways;
	set_off(connection);
}

void
memory_connection_go_on(struct memory_connection *connection)
{
	connection->halted = false;
	if (!connection->frozen)
		set_off(connection);
}
