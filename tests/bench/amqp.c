/*
 * rabbitmq-c encodes and decodes, and logs in. A flight is sent with one write(), which rabbitmq-c's
 * own functions cannot do: they send each method for itself.
 */
#include "tests/bench/bench.h"

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <amqp.h>
#if __has_include(<rabbitmq-c/tcp_socket.h>) /* since 0.12 */
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp_tcp_socket.h>
#endif

#define FLIGHT_SIZE (1 << 20)
/* More than the probes of one flight. */
#define TAGS 4096
#define TAG "c"
#define CHANNELS 2048
/* As that of the daemon (beads.h). */
#define BEADS_PREFETCH 10

struct link {
	amqp_connection_state_t state;
	unsigned char flight[FLIGHT_SIZE];
	size_t len;
	amqp_channel_t read;    /* from last */
	uint64_t next_tag;      /* of a probe */
	bool closing[CHANNELS]; /* channels whose close is not answered */
	bool unconfirmed[TAGS];
};

static void
want(amqp_rpc_reply_t reply, const char *what)
{
	if (reply.reply_type != AMQP_RESPONSE_NORMAL)
		errx(1, "%s: %s", what,
		    reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
			? amqp_error_string2(reply.library_error)
			: "refused by the broker");
}

static void
want_status(int status, const char *what)
{
	if (status < 0)
		errx(1, "%s: %s", what, amqp_error_string2(status));
}

struct link *
link_open(const char *url, unsigned channels)
{
	struct link *link = checked_alloc(1, sizeof(*link));
	char *copy = strdup(url); /* amqp_parse_url() writes into it */
	struct amqp_connection_info info;
	amqp_socket_t *sock;

	if (copy == NULL)
		err(1, "memory");
	link->state = amqp_new_connection();
	want_status(amqp_parse_url(copy, &info), "the URL");
	if (link->state == NULL || (sock = amqp_tcp_socket_new(link->state)) == NULL)
		errx(1, "no memory");
	want_status(amqp_socket_open(sock, info.host, info.port), "connecting");
	want(amqp_login(link->state, info.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0,
		 AMQP_SASL_METHOD_PLAIN, info.user, info.password),
	    "login");
	for (unsigned channel = 1; channel <= channels; channel++) {
		amqp_channel_open(link->state, (amqp_channel_t)channel);
		want(amqp_get_rpc_reply(link->state), "channel.open");
	}
	free(copy);
	link->next_tag = 1;
	return link;
}

/* ---- a flight ---- */

static void
put_number(struct link *link, uint64_t number, size_t bytes)
{
	while (bytes-- > 0)
		link->flight[link->len++] = (unsigned char)(number >> (8 * bytes));
}

/* Begins a frame, whose encoded part follows at the result. */
static amqp_bytes_t
put_head(struct link *link, unsigned char type, unsigned channel, size_t fixed)
{
	if (FLIGHT_SIZE - link->len < 1024)
		errx(1, "the flight is too large");
	put_number(link, type, 1);
	put_number(link, channel, 2);
	link->len += 4 + fixed;
	return (amqp_bytes_t){
	    .len = FLIGHT_SIZE - link->len - 1, .bytes = link->flight + link->len};
}

static void
put_end(struct link *link, size_t fixed, int encoded)
{
	size_t size = fixed + (size_t)encoded;

	want_status(encoded, "encoding");
	link->len -= fixed + 4;
	put_number(link, size, 4);
	link->len += size;
	put_number(link, AMQP_FRAME_END, 1);
}

static void
put_method(struct link *link, unsigned channel, amqp_method_number_t method, void *fields)
{
	amqp_bytes_t room = put_head(link, AMQP_FRAME_METHOD, channel, 4);

	link->len -= 4;
	put_number(link, method, 4);
	put_end(link, 4, amqp_encode_method(method, fields, room));
}

/* No expiration: NULL. */
static void
put_message(struct link *link, unsigned channel, const char *queue, bool mandatory,
    const char *expiration, const char *text)
{
	amqp_basic_publish_t publish = {
	    .routing_key = amqp_cstring_bytes(queue), .mandatory = mandatory};
	amqp_basic_properties_t properties = {0};
	size_t len = strlen(text);
	amqp_bytes_t room;

	if (expiration != NULL) {
		properties._flags = AMQP_BASIC_EXPIRATION_FLAG;
		properties.expiration = amqp_cstring_bytes(expiration);
	}
	put_method(link, channel, AMQP_BASIC_PUBLISH_METHOD, &publish);
	room = put_head(link, AMQP_FRAME_HEADER, channel, 12);
	link->len -= 12;
	put_number(link, AMQP_BASIC_CLASS, 2);
	put_number(link, 0, 2);
	put_number(link, len, 8);
	put_end(link, 12, amqp_encode_properties(AMQP_BASIC_CLASS, &properties, room));
	if (len > 0) {
		room = put_head(link, AMQP_FRAME_BODY, channel, 0);
		memcpy(room.bytes, text, len);
		put_end(link, 0, (int)len);
	}
}

void
link_send(struct link *link)
{
	int fd = amqp_get_sockfd(link->state);
	struct pollfd ready = {.fd = fd, .events = POLLOUT};

	for (size_t sent = 0; sent < link->len;) {
		ssize_t put = write(fd, link->flight + sent, link->len - sent);

		if (put >= 0)
			sent += (size_t)put;
		else if (errno != EAGAIN || poll(&ready, 1, -1) < 0)
			err(1, "write");
	}
	link->len = 0;
}

/* ---- requests ---- */

static amqp_table_entry_t
argument(const char *key, const char *text, int32_t number)
{
	amqp_table_entry_t entry = {.key = amqp_cstring_bytes(key)};

	if (text != NULL) {
		entry.value.kind = AMQP_FIELD_KIND_UTF8;
		entry.value.value.bytes = amqp_cstring_bytes(text);
	} else {
		entry.value.kind = AMQP_FIELD_KIND_I32;
		entry.value.value.i32 = number;
	}
	return entry;
}

static void
put_durable(struct link *link, const char *queue, int arguments)
{
	amqp_table_entry_t entries[] = {
	    argument("x-max-length", NULL, 0),
	    argument("x-queue-type", "classic", 0),
	    argument("x-overflow", "reject-publish", 0),
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .durable = true,
	    .arguments = {.num_entries = arguments, .entries = entries},
	};

	put_method(link, 1, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

void
put_slot_queue(struct link *link, const char *queue)
{
	put_durable(link, queue, 1);
}

void
put_holder_queue(struct link *link, const char *queue)
{
	put_durable(link, queue, 3);
}

void
put_delete(struct link *link, unsigned channel, const char *queue)
{
	amqp_queue_delete_t delete = {.queue = amqp_cstring_bytes(queue)};

	put_method(link, channel, AMQP_QUEUE_DELETE_METHOD, &delete);
}

void
put_passive(struct link *link, unsigned channel, const char *queue)
{
	amqp_queue_declare_t check = {.queue = amqp_cstring_bytes(queue), .passive = true};

	put_method(link, channel, AMQP_QUEUE_DECLARE_METHOD, &check);
}

void
put_exclusive(struct link *link, unsigned channel, const char *queue)
{
	amqp_queue_declare_t claim = {.queue = amqp_cstring_bytes(queue), .exclusive = true};

	put_method(link, channel, AMQP_QUEUE_DECLARE_METHOD, &claim);
}

void
put_claim(struct link *link, unsigned channel, enum way way, const char *b, const char *a)
{
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(b),
	    .consumer_tag = amqp_cstring_bytes(TAG),
	    .no_ack = true,
	    .exclusive = true,
	};

	if (way != BY_CONSUMER)
		put_exclusive(link, channel, b);
	else
		put_method(link, channel, AMQP_BASIC_CONSUME_METHOD, &consume);
	put_passive(link, channel, a);
}

void
put_drop(struct link *link, unsigned channel, enum way way, const char *b)
{
	amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes(TAG)};

	if (way != BY_CONSUMER)
		put_delete(link, channel, b);
	else
		put_method(link, channel, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

void
put_probe(struct link *link, unsigned channel, const char *queue)
{
	link->unconfirmed[link->next_tag++ % TAGS] = true;
	put_message(link, channel, queue, true, "0", "");
}

void
put_text(struct link *link, unsigned channel, const char *queue, const char *expiration,
    const char *text)
{
	put_message(link, channel, queue, false, expiration, text);
}

void
put_reject(struct link *link, unsigned channel, uint64_t tag)
{
	amqp_basic_reject_t reject = {.delivery_tag = tag, .requeue = true};

	put_method(link, channel, AMQP_BASIC_REJECT_METHOD, &reject);
}

void
put_attach(struct link *link, unsigned channel, const char *queue)
{
	amqp_channel_open_t open = {0};
	amqp_basic_qos_t qos = {.prefetch_count = BEADS_PREFETCH};
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes(TAG),
	};

	if (link->closing[channel])
		errx(1, "channel %u is not closed yet", channel);
	put_method(link, channel, AMQP_CHANNEL_OPEN_METHOD, &open);
	put_method(link, channel, AMQP_BASIC_QOS_METHOD, &qos);
	put_method(link, channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

void
put_close(struct link *link, unsigned channel)
{
	amqp_channel_close_t close = {.reply_code = AMQP_REPLY_SUCCESS};

	link->closing[channel] = true;
	put_method(link, channel, AMQP_CHANNEL_CLOSE_METHOD, &close);
}

void
link_confirms(struct link *link, unsigned channel)
{
	amqp_confirm_select(link->state, (amqp_channel_t)channel);
	want(amqp_get_rpc_reply(link->state), "confirm.select");
}

void
link_consume(struct link *link, const char *queue, bool acks, bool durable)
{
	amqp_bytes_t name = amqp_cstring_bytes(queue);

	amqp_queue_declare(link->state, 1, name, false, true, false, !durable, amqp_empty_table);
	want(amqp_get_rpc_reply(link->state), "queue.declare");
	amqp_basic_qos(link->state, 1, 0, 1, false);
	want(amqp_get_rpc_reply(link->state), "basic.qos");
	amqp_basic_consume(
	    link->state, 1, name, amqp_cstring_bytes(TAG), false, !acks, false, amqp_empty_table);
	want(amqp_get_rpc_reply(link->state), "basic.consume");
}

/* ---- answers ---- */

static void
read_frame(struct link *link, amqp_frame_t *ret_frame)
{
	/* For all channels it takes as long as there are channels. */
	amqp_maybe_release_buffers_on_channel(link->state, link->read);
	want_status(amqp_simple_wait_frame(link->state, ret_frame), "an answer");
	link->read = ret_frame->channel;
	if (ret_frame->frame_type == AMQP_FRAME_METHOD &&
	    (ret_frame->payload.method.id == AMQP_CHANNEL_CLOSE_METHOD ||
		ret_frame->payload.method.id == AMQP_CONNECTION_CLOSE_METHOD)) {
		amqp_channel_close_t *why = ret_frame->payload.method.decoded;

		errx(1, "the broker refused: %.*s", (int)why->reply_text.len,
		    (const char *)why->reply_text.bytes);
	}
}

unsigned
link_answers(struct link *link, size_t count)
{
	amqp_frame_t frame = {0};

	while (count > 0) {
		read_frame(link, &frame);
		count -= frame.frame_type == AMQP_FRAME_METHOD;
	}
	return frame.channel;
}

static size_t
confirm(struct link *link, uint64_t tag)
{
	bool *unconfirmed = &link->unconfirmed[tag % TAGS];
	size_t confirmed = *unconfirmed;

	*unconfirmed = false;
	return confirmed;
}

size_t
link_confirmed(struct link *link, size_t count)
{
	uint64_t first = link->next_tag - count;
	size_t returned = 0;

	while (count > 0) {
		amqp_frame_t frame;
		amqp_basic_ack_t *ack;

		read_frame(link, &frame);
		if (frame.frame_type != AMQP_FRAME_METHOD)
			continue;
		ack = frame.payload.method.decoded;
		if (frame.payload.method.id == AMQP_BASIC_RETURN_METHOD)
			returned++;
		else if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
			errx(1, "not confirmed: %s", amqp_method_name(frame.payload.method.id));
		else if (!ack->multiple)
			count -= confirm(link, ack->delivery_tag);
		else
			for (uint64_t tag = first; tag <= ack->delivery_tag; tag++)
				count -= confirm(link, tag);
	}
	return returned;
}

uint64_t
link_delivery(struct link *link)
{
	uint64_t tag = 0;
	amqp_frame_t frame;

	do {
		read_frame(link, &frame);
		if (frame.frame_type == AMQP_FRAME_METHOD &&
		    frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD)
			tag = ((amqp_basic_deliver_t *)frame.payload.method.decoded)->delivery_tag;
	} while (tag == 0 || frame.frame_type != AMQP_FRAME_BODY);
	return tag;
}

static bool
has_key(const amqp_table_entry_t *entry, const char *key)
{
	return entry->key.len == strlen(key) && memcmp(entry->key.bytes, key, entry->key.len) == 0;
}

/* RabbitMQ sends integers as longs. 4.3 has a header of its own for it. The first delivery has none. */
static uint64_t
count_of(const amqp_basic_properties_t *properties)
{
	uint64_t count = 0;

	for (int i = 0; i < properties->headers.num_entries; i++) {
		const amqp_table_entry_t *entry = &properties->headers.entries[i];

		if (entry->value.kind != AMQP_FIELD_KIND_I64)
			continue;
		if (has_key(entry, "x-acquired-count"))
			return (uint64_t)entry->value.value.i64;
		if (has_key(entry, "x-delivery-count"))
			count = (uint64_t)entry->value.value.i64;
	}
	return count;
}

struct delivery
link_deliver(struct link *link)
{
	struct delivery delivery = {0};
	amqp_frame_t frame;

	do {
		/* The frames that are here can have no delivery. */
		if (link_is_dry(link))
			link_send(link);
		read_frame(link, &frame);
		if (frame.frame_type == AMQP_FRAME_HEADER)
			delivery.count = count_of(frame.payload.properties.decoded);
		if (frame.frame_type != AMQP_FRAME_METHOD)
			continue;
		if (frame.payload.method.id == AMQP_CHANNEL_CLOSE_OK_METHOD)
			link->closing[frame.channel] = false;
		if (frame.payload.method.id != AMQP_BASIC_DELIVER_METHOD)
			continue;
		delivery.channel = frame.channel;
		delivery.tag = ((amqp_basic_deliver_t *)frame.payload.method.decoded)->delivery_tag;
	} while (delivery.tag == 0 || frame.frame_type != AMQP_FRAME_BODY);
	return delivery;
}

int
link_fd(const struct link *link)
{
	return amqp_get_sockfd(link->state);
}

bool
link_is_dry(struct link *link)
{
	return !amqp_frames_enqueued(link->state) && !amqp_data_in_buffer(link->state);
}
