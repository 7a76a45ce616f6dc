#include "tests/conformance/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/link.h"
#include "daemon/base/mem.h"
#include "tests/conformance/server.h"

#define CHANNELS 3
/* The tag of the one consumer of a channel. */
#define TAG "h"

/* A message that was delivered. */
struct delivery {
	char body[64], words[96], header[32];
	uint64_t tag;
	int64_t failures;
};

struct connection {
	struct rig_broker *lender; /* it is never started, and lends its dialer */
	struct amqp_host host;
	struct amqp_settings settings;
	struct amqp_counts counts;
	struct amqp_link *link; /* NULL: it ended */
	bool up;
	unsigned version;
	char why[300];
	struct client *channels[CHANNELS]; /* owned */
	unsigned channel_count;
};

struct client {
	struct connection *connection; /* borrowed */
	uint16_t number;
	bool open, confirms, returned;
	uint64_t published, confirmed; /* since confirm.select */
	bool answered;
	char answer[400];
	char body[64]; /* the beginning of the message that arrives */
	uint64_t to_come;
	bool got;       /* the message answers a get */
	bool delivered; /* it is a delivery: the last one of these */
	struct delivery arrived[64];
	unsigned cancels, deliveries;
	unsigned complete, taken; /* of the deliveries; taken by client_next() */
};

static struct connection *connections[8];
static size_t connection_count;

/* ---- frames that arrive ---- */

static void
answer(struct client *client, const char *words)
{
	snprintf(client->answer, sizeof(client->answer), "%s", words);
	client->answered = true;
}

static void
on_close(struct client *client, const amqp_channel_close_t *close)
{
	char words[300];

	snprintf(words, sizeof(words), "%d %.*s", close->reply_code, (int)close->reply_text.len,
	    (const char *)close->reply_text.bytes);
	answer(client, words);
	client->open = client->confirms = false;
	amqp_link_send(client->connection->link, client->number, AMQP_CHANNEL_CLOSE_OK_METHOD,
	    &(amqp_channel_close_ok_t){0});
}

static struct delivery *
newest(struct client *client)
{
	return &client->arrived[(client->deliveries - 1) %
				(sizeof(client->arrived) / sizeof(*client->arrived))];
}

static void
on_deliver(struct client *client, const amqp_basic_deliver_t *deliver)
{
	client->deliveries++;
	client->got = false;
	client->delivered = true;
	*newest(client) = (struct delivery){.tag = deliver->delivery_tag};
	snprintf(newest(client)->words, sizeof(newest(client)->words), "%d", deliver->redelivered);
}

/* The count of a message. A server of 4.3 has both headers. */
static void
read_count(struct delivery *delivery, const amqp_table_t *headers, const char *key, int64_t *count)
{
	for (int i = 0; i < headers->num_entries; i++) {
		const amqp_table_entry_t *entry = &headers->entries[i];

		if (entry->key.len != strlen(key) ||
		    memcmp(entry->key.bytes, key, entry->key.len) != 0)
			continue;
		*count = entry->value.kind == AMQP_FIELD_KIND_I64 ? entry->value.value.i64
								  : entry->value.value.i32;
		snprintf(delivery->header, sizeof(delivery->header), "%s", key);
	}
}

static void
on_headers(struct delivery *delivery, const amqp_basic_properties_t *properties)
{
	bool redelivered = delivery->words[0] == '1';
	int64_t count = 0;

	if (properties->_flags & AMQP_BASIC_HEADERS_FLAG) {
		read_count(delivery, &properties->headers, "x-delivery-count", &count);
		delivery->failures = count;
		read_count(delivery, &properties->headers, "x-acquired-count", &count);
	}
	snprintf(delivery->words, sizeof(delivery->words), "%d %d", (int)count, redelivered);
}

static void
on_method(struct client *client, const struct amqp_frame *frame)
{
	const amqp_queue_declare_ok_t *ok = frame->fields;
	char words[64];

	switch (frame->method) {
	case AMQP_QUEUE_DECLARE_OK_METHOD:
		snprintf(words, sizeof(words), "ok %d %d", (int)ok->message_count,
		    (int)ok->consumer_count);
		answer(client, words);
		break;
	case AMQP_BASIC_CONSUME_OK_METHOD:
	case AMQP_BASIC_CANCEL_OK_METHOD:
	case AMQP_QUEUE_DELETE_OK_METHOD:
	case AMQP_CONFIRM_SELECT_OK_METHOD:
	case AMQP_BASIC_QOS_OK_METHOD:
	case AMQP_CHANNEL_CLOSE_OK_METHOD:
		answer(client, "ok");
		break;
	case AMQP_QUEUE_PURGE_OK_METHOD:
		snprintf(words, sizeof(words), "ok %d",
		    (int)((const amqp_queue_purge_ok_t *)frame->fields)->message_count);
		answer(client, words);
		break;
	case AMQP_BASIC_GET_EMPTY_METHOD:
		answer(client, "empty");
		break;
	case AMQP_BASIC_ACK_METHOD:
		client->confirmed = ((const amqp_basic_ack_t *)frame->fields)->delivery_tag;
		answer(client, client->returned ? "returned" : "ok");
		break;
	case AMQP_BASIC_NACK_METHOD:
		answer(client, "nack");
		break;
	case AMQP_BASIC_CANCEL_METHOD:
		client->cancels++;
		break;
	case AMQP_BASIC_GET_OK_METHOD:
		client->got = true;
		client->delivered = false;
		break;
	case AMQP_BASIC_DELIVER_METHOD:
		on_deliver(client, frame->fields);
		break;
	case AMQP_BASIC_RETURN_METHOD:
		client->returned = true;
		client->got = client->delivered = false;
		break;
	case AMQP_CHANNEL_CLOSE_METHOD:
		on_close(client, frame->fields);
		break;
	}
}

static void
on_content(struct client *client, const struct amqp_frame *frame)
{
	size_t used = strlen(client->body);

	if (frame->type == AMQP_FRAME_HEADER) {
		client->body[0] = '\0';
		client->to_come = frame->body_size;
		if (client->delivered)
			on_headers(newest(client), frame->fields);
	} else {
		snprintf(client->body + used, sizeof(client->body) - used, "%.*s",
		    (int)frame->body.len, (const char *)frame->body.bytes);
		client->to_come -= frame->body.len;
	}
	if (client->to_come == 0 && client->got) {
		char words[sizeof(client->body) + 8];

		snprintf(words, sizeof(words), "got %s", client->body);
		answer(client, words);
		client->got = false;
	}
	if (client->to_come == 0 && client->delivered) {
		struct delivery *delivery = newest(client);
		char words[sizeof(delivery->words)];

		snprintf(words, sizeof(words), "%s", delivery->words);
		snprintf(delivery->body, sizeof(delivery->body), "%.20s", client->body);
		snprintf(
		    delivery->words, sizeof(delivery->words), "%.20s %.60s", client->body, words);
		client->delivered = false;
		client->complete++;
	}
}

static void
on_frame(void *ctx, const struct amqp_frame *frame)
{
	struct connection *connection = ctx;
	struct client *client = connection->channels[frame->channel - 1];

	ck_assert_uint_le(frame->channel, connection->channel_count);
	if (frame->type == AMQP_FRAME_METHOD)
		on_method(client, frame);
	else
		on_content(client, frame);
}

static char *
on_vet(void *ctx, const struct amqp_server *told)
{
	struct connection *connection = ctx;
	unsigned major = 0, minor = 0;

	ck_assert_int_eq(sscanf(told->version, "%u.%u", &major, &minor), 2);
	connection->version = major * 1000 + minor;
	return NULL;
}

static void
on_up(void *ctx)
{
	((struct connection *)ctx)->up = true;
}

static void
on_blocked(void *ctx, bool blocked, const char *why)
{
	(void)ctx;
	(void)blocked;
	(void)why;
}

static void
on_dead(void *ctx, struct amqp_link *link, bool was_refused, int code, const char *why)
{
	struct connection *connection = ctx;

	(void)was_refused;
	(void)code;
	snprintf(connection->why, sizeof(connection->why), "dead %s", why);
	connection->link = NULL;
	amqp_link_free(link);
	for (unsigned i = 0; i < connection->channel_count; i++)
		answer(connection->channels[i], connection->why);
}

/* ---- its life ---- */

static struct client *
channel_new(struct connection *connection)
{
	struct client *client = mem_alloc(sizeof(*client));

	ck_assert_uint_lt(connection->channel_count, CHANNELS);
	client->connection = connection;
	connection->channels[connection->channel_count++] = client;
	client->number = (uint16_t)connection->channel_count;
	return client;
}

struct client *
client_new(void)
{
	static const struct amqp_link_events events = {
	    .vet = on_vet,
	    .up = on_up,
	    .frame = on_frame,
	    .blocked = on_blocked,
	    .dead = on_dead,
	};
	struct connection *connection = mem_alloc(sizeof(*connection));
	struct amqp_link_events own = events;
	struct amqp_link_config config;
	const struct amqp_dialer *dialer;

	connection->host = rig_host();
	connection->settings = rig_settings(&connection->host, 1);
	connection->lender = rig_new(&connection->settings);
	config = (struct amqp_link_config){
	    .timers = rig_timers,
	    .settings = &connection->settings,
	    .host = &connection->host,
	    .name = "client",
	    .counts = &connection->counts,
	};
	own.ctx = connection;
	dialer = broker_dialer(connection->lender->broker);
	connection->link = dialer->connect(dialer->ctx, &config, &own);
	ck_assert_uint_lt(connection_count, sizeof(connections) / sizeof(*connections));
	connections[connection_count++] = connection;
	rig_wait(connection->up);
	return channel_new(connection);
}

struct client *
client_twin(const struct client *client)
{
	return channel_new(client->connection);
}

static void
connection_end(struct connection *connection)
{
	amqp_link_free(connection->link);
	for (unsigned i = 0; i < connection->channel_count; i++)
		free(connection->channels[i]);
	free(connection);
}

void
client_end(struct client *client)
{
	for (size_t i = 0; i < connection_count; i++) {
		if (connections[i] != client->connection)
			continue;
		connection_end(connections[i]);
		connections[i] = connections[--connection_count];
		return;
	}
}

void
client_end_all(void)
{
	while (connection_count > 0)
		connection_end(connections[--connection_count]);
}

/* ---- requests ---- */

static void
prepare(struct client *client)
{
	amqp_channel_open_t open = {.out_of_band = amqp_empty_bytes};

	client->answered = client->returned = false;
	if (!client->open && client->connection->link != NULL)
		amqp_link_send(
		    client->connection->link, client->number, AMQP_CHANNEL_OPEN_METHOD, &open);
	client->open = true;
}

static const char *
wait_for_answer(struct client *client)
{
	if (client->connection->link == NULL)
		return client->connection->why;
	rig_wait(client->answered);
	return client->answer;
}

static const char *
ask(struct client *client, amqp_method_number_t method, void *fields)
{
	prepare(client);
	if (client->connection->link != NULL)
		amqp_link_send(client->connection->link, client->number, method, fields);
	return wait_for_answer(client);
}

void
client_close(struct client *client)
{
	amqp_channel_close_t close = {.reply_code = AMQP_REPLY_SUCCESS};

	(void)ask(client, AMQP_CHANNEL_CLOSE_METHOD, &close);
	client->deliveries = client->complete = client->taken = 0;
	client->open = client->confirms = false;
}

static int
arguments_of(enum client_queue how, amqp_table_entry_t entries[4])
{
	int count = 0;

	switch (how) {
	case CLIENT_PASSIVE:
	case CLIENT_EXCLUSIVE:
	case CLIENT_TRANSIENT:
		return 0;
	case CLIENT_BRIEF:
		entries[count++] = amqp_entry_text("x-queue-type", "classic");
		entries[count++] =
		    amqp_entry_number("x-expires", (int)(CLIENT_BRIEF_TIME / NSEC_PER_MSEC));
		return count;
	case CLIENT_PLAIN:
	case CLIENT_DIRECTORY:
		entries[count++] = amqp_entry_text("x-queue-type", "classic");
		return count;
	case CLIENT_SLOT:
		entries[count++] = amqp_entry_number("x-max-length", 0);
		return count;
	case CLIENT_QUORUM:
		entries[count++] = amqp_entry_number("x-max-length", 0);
		entries[count++] = amqp_entry_text("x-queue-type", "quorum");
		return count;
	case CLIENT_WAIT_QUEUE:
		entries[count++] = amqp_entry_number("x-max-length", 64);
		entries[count++] = amqp_entry_text("x-queue-type", "classic");
		return count;
	case CLIENT_HOLDER:
	case CLIENT_MUTEX:
		entries[count++] = amqp_entry_number("x-max-length", 0);
		entries[count++] = amqp_entry_text("x-queue-type", "classic");
		entries[count++] = amqp_entry_text("x-overflow", "reject-publish");
		if (how == CLIENT_MUTEX)
			entries[count++] = amqp_entry_number("x-expires", 60 * 1000);
		return count;
	}
	return count;
}

const char *
client_declare(struct client *client, const char *queue, enum client_queue how)
{
	amqp_table_entry_t entries[4];
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .passive = how == CLIENT_PASSIVE,
	    .exclusive = how == CLIENT_EXCLUSIVE,
	    .durable = how >= CLIENT_PLAIN,
	    .auto_delete = how == CLIENT_WAIT_QUEUE,
	    .arguments = {.num_entries = arguments_of(how, entries), .entries = entries},
	};

	return ask(client, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

const char *
client_consume(struct client *client, const char *queue, unsigned how, int priority)
{
	amqp_table_entry_t entry = amqp_entry_number("x-priority", priority);
	amqp_basic_qos_t qos = {.prefetch_count = 1};
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(TAG),
	    .no_ack = (how & CLIENT_UNREAD) == 0,
	    .exclusive = (how & CLIENT_ALONE) != 0,
	    .arguments = {.num_entries = priority != 0, .entries = &entry},
	};

	if (how & CLIENT_UNREAD)
		(void)ask(client, AMQP_BASIC_QOS_METHOD, &qos);
	return ask(client, AMQP_BASIC_CONSUME_METHOD, &consume);
}

const char *
client_declare_quorum(struct client *client, const char *queue, const struct client_quorum *how)
{
	/* Before 4.0, a limit of -1 drops a message at its first return. */
	const bool limited = how->limited || (!how->no_limit && client_version(client) >= 4000);
	const amqp_table_entry_t timeout = {
	    .key = amqp_cstring_bytes("x-consumer-timeout"),
	    .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = 2592000000},
	};
	amqp_table_entry_t entries[5] = {amqp_entry_text("x-queue-type", "quorum"),
	    amqp_entry_true("x-single-active-consumer"), timeout};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .exclusive = how->exclusive,
	    .durable = !how->transient,
	    .auto_delete = how->auto_delete,
	    .arguments = {.num_entries = 3, .entries = entries},
	};

	if (limited)
		entries[declare.arguments.num_entries++] =
		    amqp_entry_number("x-delivery-limit", how->limited ? how->limit : -1);
	if (how->expires != 0)
		entries[declare.arguments.num_entries++] =
		    amqp_entry_number("x-expires", how->expires);
	return ask(client, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

const char *
client_qos(struct client *client, unsigned prefetch)
{
	amqp_basic_qos_t qos = {.prefetch_count = (uint16_t)prefetch};

	return ask(client, AMQP_BASIC_QOS_METHOD, &qos);
}

const char *
client_attach(struct client *client, const char *queue, unsigned prefetch)
{
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(TAG),
	};

	(void)client_qos(client, prefetch);
	return ask(client, AMQP_BASIC_CONSUME_METHOD, &consume);
}

const char *
client_next(struct client *client)
{
	if (client->connection->link == NULL)
		return client->connection->why;
	rig_wait(client->complete > client->taken);
	ck_assert_uint_le(client->complete, sizeof(client->arrived) / sizeof(*client->arrived));
	return client->arrived[client->taken++].words;
}

const char *
client_count_header(const struct client *client)
{
	return client->taken == 0 ? "" : client->arrived[client->taken - 1].header;
}

int
client_failures(const struct client *client)
{
	return client->taken == 0 ? 0 : (int)client->arrived[client->taken - 1].failures;
}

/* Of the newest delivery with that body. */
static uint64_t
tag_of(const struct client *client, const char *body)
{
	for (unsigned i = client->taken; i-- > 0;)
		if (strcmp(client->arrived[i].body, body) == 0)
			return client->arrived[i].tag;
	ck_abort_msg("%s was not delivered", body);
}

static void
send_reject(struct client *client, const char *body, bool requeue)
{
	amqp_basic_reject_t reject = {.delivery_tag = tag_of(client, body), .requeue = requeue};

	amqp_link_send(client->connection->link, client->number, AMQP_BASIC_REJECT_METHOD, &reject);
}

void
client_reject(struct client *client, const char *body)
{
	send_reject(client, body, true);
}

void
client_drop(struct client *client, const char *body)
{
	send_reject(client, body, false);
}

void
client_nack(struct client *client, const char *body)
{
	amqp_basic_nack_t nack = {.delivery_tag = tag_of(client, body), .requeue = true};

	amqp_link_send(client->connection->link, client->number, AMQP_BASIC_NACK_METHOD, &nack);
}

void
client_ack(struct client *client, const char *body)
{
	amqp_basic_ack_t ack = {.delivery_tag = tag_of(client, body)};

	amqp_link_send(client->connection->link, client->number, AMQP_BASIC_ACK_METHOD, &ack);
}

const char *
client_purge(struct client *client, const char *queue)
{
	amqp_queue_purge_t purge = {.queue = amqp_cstring_bytes(queue)};

	return ask(client, AMQP_QUEUE_PURGE_METHOD, &purge);
}

unsigned
client_version(const struct client *client)
{
	return client->connection->version;
}

const char *
client_cancel(struct client *client)
{
	amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes(TAG)};

	return ask(client, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

const char *
client_delete(struct client *client, const char *queue, unsigned conditions)
{
	amqp_queue_delete_t delete = {
	    .queue = amqp_cstring_bytes(queue),
	    .if_unused = (conditions & CLIENT_IF_UNUSED) != 0,
	    .if_empty = (conditions & CLIENT_IF_EMPTY) != 0,
	};

	return ask(client, AMQP_QUEUE_DELETE_METHOD, &delete);
}

const char *
client_get(struct client *client, const char *queue)
{
	amqp_basic_get_t get = {.queue = amqp_cstring_bytes(queue)};

	return ask(client, AMQP_BASIC_GET_METHOD, &get);
}

static amqp_bytes_t
property(amqp_basic_properties_t *properties, amqp_flags_t flag, const char *value)
{
	if (value == NULL)
		return amqp_empty_bytes;
	properties->_flags |= flag;
	return amqp_cstring_bytes(value);
}

static void
put(struct client *client, const struct client_message *message)
{
	amqp_basic_publish_t publish = {
	    .exchange = amqp_cstring_bytes(message->exchange != NULL ? message->exchange : ""),
	    .routing_key = amqp_cstring_bytes(message->queue != NULL ? message->queue : ""),
	    .mandatory = 1,
	};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = AMQP_DELIVERY_PERSISTENT};
	amqp_confirm_select_t select = {0};

	properties.correlation_id =
	    property(&properties, AMQP_BASIC_CORRELATION_ID_FLAG, message->number);
	properties.reply_to = property(&properties, AMQP_BASIC_REPLY_TO_FLAG, message->reply_to);
	properties.user_id = property(&properties, AMQP_BASIC_USER_ID_FLAG, message->user);
	if (!client->confirms) {
		(void)ask(client, AMQP_CONFIRM_SELECT_METHOD, &select);
		client->published = client->confirmed = 0;
	}
	client->confirms = true;
	prepare(client);
	client->published++;
	if (client->connection->link != NULL)
		amqp_link_publish(client->connection->link, client->number, &publish, &properties,
		    (amqp_bytes_t){.len = message->len, .bytes = (void *)message->body});
}

const char *
client_send(struct client *client, const struct client_message *message)
{
	put(client, message);
	return wait_for_answer(client);
}

void
client_put(struct client *client, const char *queue, const char *text)
{
	const struct client_message message = {.queue = queue, .body = text, .len = strlen(text)};

	put(client, &message);
	if (client->published % 500 == 0)
		rig_wait(client->confirmed == client->published);
}

const char *
client_publish(struct client *client, const char *queue, const char *text)
{
	const struct client_message message = {.queue = queue, .body = text, .len = strlen(text)};

	return client_send(client, &message);
}

unsigned
client_cancels(const struct client *client)
{
	return client->cancels;
}

unsigned
client_deliveries(const struct client *client)
{
	return client->deliveries;
}
