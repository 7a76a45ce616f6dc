#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/memory/internal.h"

int64_t
memory_delay(const struct memory_world *world)
{
	int64_t delay =
	    world->behaviour.delay != NULL ? world->behaviour.delay(world->behaviour.ctx) : 0;

	assert(delay >= 0);
	return delay;
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

void
memory_parcels_expect(
    const struct memory_parcels *parcels, struct timers *timers, struct timer *timer)
{
	if (!TAILQ_EMPTY(parcels) && !timer_is_set(timer))
		timers_set(timers, timer, TAILQ_FIRST(parcels)->when);
}

struct memory_parcel *
memory_parcel_add(struct memory_parcels *parcels, const uint8_t *bytes, size_t len, int64_t when)
{
	struct memory_parcel *parcel = mem_grow(NULL, 1, sizeof(*parcel) + len);

	*parcel = (struct memory_parcel){.when = when, .len = len};
	memcpy(parcel->bytes, bytes, len);
	TAILQ_INSERT_TAIL(parcels, parcel, entry);
	return parcel;
}

/* Sends frames to the daemon. They do not arrive before earlier ones. */
static void
put(struct memory_channel *channel, bool asked, const uint8_t *bytes, size_t len)
{
	struct memory_connection *connection = channel->connection;
	int64_t now, when;

	if (connection->link == NULL || connection->frozen || channel->stalled)
		return;
	now = memory_now(connection->world);
	when = asked ? channel->reply_at : now + memory_delay(connection->world);
	channel->last_out = memory_later(channel->last_out, memory_later(when, now));
	memory_parcel_add(&channel->out, bytes, len, channel->last_out);
	memory_parcels_expect(&channel->out, connection->client, &channel->reply);
}

void
memory_channel_send(
    struct memory_channel *channel, bool asked, amqp_method_number_t method, void *fields)
{
	uint8_t bytes[AMQP_FRAME_MAX];

	put(channel, asked, bytes, amqp_frame_method(bytes, channel->number, method, fields));
}

static amqp_bytes_t
bytes_of(const char *text)
{
	return text != NULL ? amqp_cstring_bytes(text) : amqp_empty_bytes;
}

static amqp_table_entry_t
count_header(const char *key, unsigned count)
{
	return (amqp_table_entry_t){
	    .key = amqp_cstring_bytes(key),
	    .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = count},
	};
}

/* A message that has returned has its counts in headers of these names, behind its own. */
static amqp_table_t
headers_of(const struct memory_world *world, const struct memory_message *message)
{
	const int own = message->headers != NULL ? message->headers->table.num_entries : 0;
	amqp_table_t table = {.entries = mem_alloc((size_t)(own + 2) * sizeof(*table.entries))};
	const bool new = world->version >= MEMORY_VERSION(4, 3);

	for (; table.num_entries < own; table.num_entries++)
		table.entries[table.num_entries] =
		    message->headers->table.entries[table.num_entries];
	if (message->acquired > 0)
		table.entries[table.num_entries++] =
		    count_header(new ? "x-acquired-count" : "x-delivery-count", message->acquired);
	if (new && message->failed > 0)
		table.entries[table.num_entries++] =
		    count_header("x-delivery-count", message->failed);
	return table;
}

void
memory_channel_send_message(struct memory_channel *channel, bool asked, amqp_method_number_t method,
    void *fields, const struct memory_message *message)
{
	uint8_t *bytes = memory_scratch(channel->connection->world, message->len), *at = bytes;
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG |
		      (message->correlation_id != NULL ? AMQP_BASIC_CORRELATION_ID_FLAG : 0) |
		      (message->reply_to != NULL ? AMQP_BASIC_REPLY_TO_FLAG : 0) |
		      (message->user_id != NULL ? AMQP_BASIC_USER_ID_FLAG : 0),
	    .delivery_mode =
		message->persistent ? AMQP_DELIVERY_PERSISTENT : AMQP_DELIVERY_NONPERSISTENT,
	    .correlation_id = bytes_of(message->correlation_id),
	    .reply_to = bytes_of(message->reply_to),
	    .user_id = bytes_of(message->user_id),
	};
	const size_t most = AMQP_FRAME_MAX - AMQP_FRAME_AROUND;

	properties.headers = headers_of(channel->connection->world, message);
	if (properties.headers.num_entries > 0)
		properties._flags |= AMQP_BASIC_HEADERS_FLAG;
	at += amqp_frame_method(at, channel->number, method, fields);
	at += amqp_frame_header(at, channel->number, message->len, &properties);
	free(properties.headers.entries);
	for (size_t done = 0, len; done < message->len; done += len) {
		len = message->len - done;
		if (done == 0 && len > 1)
			len /= 2;
		if (len > most)
			len = most;
		at += amqp_frame_body(at, channel->number, message->body + done, len);
	}
	put(channel, asked, bytes, (size_t)(at - bytes));
}

void
memory_connection_send_blocked(struct memory_connection *connection, bool blocked)
{
	amqp_connection_blocked_t why = {.reason = amqp_cstring_bytes("low on memory")};
	amqp_connection_unblocked_t over = {0};

	if (blocked)
		memory_channel_send(
		    connection->control, false, AMQP_CONNECTION_BLOCKED_METHOD, &why);
	else
		memory_channel_send(
		    connection->control, false, AMQP_CONNECTION_UNBLOCKED_METHOD, &over);
}
