#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/amqp/link.h"
#include "daemon/base/mem.h"
#include "daemon/base/queue.h"
#include "daemon/broker/setup.h"
#include "tests/unit/memory_rig.h"

struct raw {
	struct broker *broker; /* owned; it is never started, and lends its dialer */
	struct amqp_link *link;
	char name;
	char got[32];    /* the body that arrives */
	char header[32]; /* its header */
	bool wants_header;
	int64_t acquired, failed; /* its counts; -1: none */
	uint64_t to_come;
	SLIST_ENTRY(raw) entry;
};
static SLIST_HEAD(, raw) raws = SLIST_HEAD_INITIALIZER(raws);

static char *
raw_vet(void *ctx, const struct amqp_server *server)
{
	(void)ctx;
	(void)server;
	return NULL;
}

static void
raw_up(void *ctx)
{
	(void)ctx;
}

static void
raw_blocked(void *ctx, bool blocked, const char *why)
{
	(void)ctx;
	(void)blocked;
	(void)why;
}

static void
raw_dead(void *ctx, struct amqp_link *link, bool was_refused, int code, const char *why)
{
	const struct raw *raw = ctx;
	char text[64];

	(void)link;
	(void)was_refused;
	snprintf(text, sizeof(text), "%c:dead:%d", raw->name, code);
	see(text);
	snprintf(rig.text, sizeof(rig.text), "%s", why);
}

/* A channel that the server closed is open again after this. */
static void
raw_closed(struct raw *raw, uint16_t channel, const amqp_channel_close_t *close)
{
	snprintf(rig.text, sizeof(rig.text), "%.*s", (int)close->reply_text.len,
	    (const char *)close->reply_text.bytes);
	amqp_link_send(
	    raw->link, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &(amqp_channel_close_ok_t){0});
	raw_open(raw, channel);
}

/* "": not recorded. */
static const char *
raw_word(const struct amqp_frame *frame, char room[32])
{
	const amqp_queue_declare_ok_t *ok = frame->fields;

	switch (frame->method) {
	case AMQP_QUEUE_DECLARE_OK_METHOD:
		snprintf(
		    room, 32, "declared(%d,%d)", (int)ok->message_count, (int)ok->consumer_count);
		return room;
	case AMQP_CHANNEL_CLOSE_METHOD:
		snprintf(room, 32, "closed:%d",
		    ((const amqp_channel_close_t *)frame->fields)->reply_code);
		return room;
	case AMQP_BASIC_CONSUME_OK_METHOD:
		return "consuming";
	case AMQP_BASIC_CANCEL_OK_METHOD:
		return "cancelled";
	case AMQP_BASIC_CANCEL_METHOD:
		return "cancel";
	case AMQP_CHANNEL_CLOSE_OK_METHOD:
		return "close-ok";
	case AMQP_QUEUE_DELETE_OK_METHOD:
		return "deleted";
	case AMQP_BASIC_GET_EMPTY_METHOD:
		return "empty";
	case AMQP_BASIC_ACK_METHOD:
		return "ack";
	case AMQP_BASIC_NACK_METHOD:
		return "nack";
	case AMQP_BASIC_RETURN_METHOD:
		return "return";
	default:
		return "";
	}
}

static void
raw_headers(struct raw *raw, const amqp_basic_properties_t *properties)
{
	const amqp_table_t *headers = &properties->headers;

	raw->acquired = raw->failed = -1;
	raw->header[0] = '\0';
	for (int i = 0; properties->_flags & AMQP_BASIC_HEADERS_FLAG && i < headers->num_entries;
	     i++) {
		const amqp_field_value_t *value = &headers->entries[i].value;
		char key[32];

		snprintf(key, sizeof(key), "%.*s", (int)headers->entries[i].key.len,
		    (const char *)headers->entries[i].key.bytes);
		if (strcmp(key, "x-acquired-count") == 0)
			raw->acquired = value->value.i64;
		else if (strcmp(key, "x-delivery-count") == 0)
			raw->failed = value->value.i64;
		else
			snprintf(raw->header, sizeof(raw->header), "%.*s",
			    (int)value->value.bytes.len, (const char *)value->value.bytes.bytes);
	}
}

static void
raw_got(const struct raw *raw, char room[32])
{
	if (raw->wants_header)
		ck_assert_str_eq(raw->header, raw->got);
	if (raw->acquired >= 0 && raw->failed >= 0)
		snprintf(
		    room, 32, "got(%.10s,%d/%d)", raw->got, (int)raw->acquired, (int)raw->failed);
	else if (raw->acquired >= 0 || raw->failed >= 0)
		snprintf(room, 32, "got(%.10s,%d)", raw->got,
		    (int)(raw->acquired >= 0 ? raw->acquired : raw->failed));
	else
		snprintf(room, 32, "got(%.20s)", raw->got);
}

static void
raw_frame(void *ctx, const struct amqp_frame *frame)
{
	struct raw *raw = ctx;
	char room[32], text[64];
	const char *word = "";

	if (frame->type == AMQP_FRAME_HEADER) {
		raw->got[0] = '\0';
		raw->to_come = frame->body_size;
		raw_headers(raw, frame->fields);
	} else if (frame->type == AMQP_FRAME_BODY) {
		strncat(raw->got, frame->body.bytes, frame->body.len);
		raw->to_come -= frame->body.len;
		if (raw->to_come == 0) {
			raw_got(raw, room);
			word = room;
		}
	} else {
		word = raw_word(frame, room);
	}
	if (word[0] != '\0') {
		snprintf(text, sizeof(text), "%c%d:%s", raw->name, frame->channel, word);
		see(text);
	}
	if (frame->type == AMQP_FRAME_METHOD && frame->method == AMQP_CHANNEL_CLOSE_METHOD)
		raw_closed(raw, frame->channel, frame->fields);
}

struct raw *
raw_new(unsigned node)
{
	static const struct amqp_host host = {
	    .host = "memory", .vhost = "/", .user = "raw", .password = ""};
	static const struct amqp_settings settings = {.heartbeat = 10};
	static struct amqp_counts counts;
	struct raw *raw = mem_alloc(sizeof(*raw));
	const struct amqp_link_config config = {.timers = rig.timers,
	    .settings = &settings,
	    .host = &host,
	    .name = "raw link",
	    .counts = &counts};
	const struct amqp_link_events events = {.vet = raw_vet,
	    .up = raw_up,
	    .frame = raw_frame,
	    .blocked = raw_blocked,
	    .dead = raw_dead,
	    .ctx = raw};
	const struct amqp_dialer *dialer;

	raw->name = SLIST_EMPTY(&raws) ? 'a' : (char)(SLIST_FIRST(&raws)->name + 1);
	raw->broker = rig_broker_new(2047);
	memory_broker_set_node(raw->broker, node);
	dialer = broker_dialer(raw->broker);
	raw->link = dialer->connect(dialer->ctx, &config, &events);
	SLIST_INSERT_HEAD(&raws, raw, entry);
	run();
	raw_open(raw, 1);
	run();
	return raw;
}

void
raw_end(struct raw *raw)
{
	SLIST_REMOVE(&raws, raw, raw, entry);
	amqp_link_free(raw->link);
	broker_free(raw->broker);
	free(raw);
}

void
raw_end_all(void)
{
	while (!SLIST_EMPTY(&raws))
		raw_end(SLIST_FIRST(&raws));
}

uint64_t
raw_number(const struct raw *raw)
{
	return memory_broker_connection(raw->broker, BROKER_AUXILIARY);
}

void
raw_open(struct raw *raw, uint16_t channel)
{
	amqp_channel_open_t open = {.out_of_band = amqp_empty_bytes};

	amqp_link_send(raw->link, channel, AMQP_CHANNEL_OPEN_METHOD, &open);
}

void
raw_declare(struct raw *raw, uint16_t channel, const char *queue, enum raw_declare how)
{
	amqp_table_entry_t entries[] = {
	    amqp_entry_number("x-max-length", 0),
	    amqp_entry_text("x-overflow", "reject-publish"),
	    amqp_entry_number("x-expires", RAW_EXPIRES),
	};
	amqp_table_entry_t quorum[] = {
	    amqp_entry_text("x-queue-type", "quorum"),
	    amqp_entry_true("x-single-active-consumer"),
	    amqp_entry_number("x-delivery-limit", -1),
	};
	amqp_queue_declare_t declare = {
	    .queue = amqp_cstring_bytes(queue),
	    .passive = how == RAW_PASSIVE,
	    .exclusive = how == RAW_EXCLUSIVE,
	    .durable = how >= RAW_DURABLE,
	    .arguments = {.num_entries = how == RAW_MUTEX    ? 3
					 : how == RAW_HOLDER ? 2
							     : 0,
		.entries = entries},
	};

	if (how >= RAW_QUORUM)
		declare.arguments =
		    (amqp_table_t){.num_entries = how == RAW_QUORUM ? 3 : 2, .entries = quorum};
	amqp_link_send(raw->link, channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
}

void
raw_consume(struct raw *raw, uint16_t channel, const char *queue, bool exclusive)
{
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue),
	    .consumer_tag = amqp_cstring_bytes("h"),
	    .no_ack = 1,
	    .exclusive = exclusive,
	};

	amqp_link_send(raw->link, channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

void
raw_cancel(struct raw *raw, uint16_t channel, const char *tag)
{
	amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes(tag)};

	amqp_link_send(raw->link, channel, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

void
raw_delete(struct raw *raw, uint16_t channel, const char *queue, enum raw_if condition)
{
	amqp_queue_delete_t delete = {
	    .queue = amqp_cstring_bytes(queue),
	    .if_unused = (condition & RAW_IF_UNUSED) != 0,
	    .if_empty = (condition & RAW_IF_EMPTY) != 0,
	};

	amqp_link_send(raw->link, channel, AMQP_QUEUE_DELETE_METHOD, &delete);
}

void
raw_get(struct raw *raw, uint16_t channel, const char *queue)
{
	amqp_basic_get_t get = {.queue = amqp_cstring_bytes(queue)};

	amqp_link_send(raw->link, channel, AMQP_BASIC_GET_METHOD, &get);
}

void
raw_confirm(struct raw *raw, uint16_t channel)
{
	amqp_link_send(raw->link, channel, AMQP_CONFIRM_SELECT_METHOD, &(amqp_confirm_select_t){0});
}

void
raw_publish(struct raw *raw, uint16_t channel, const char *queue)
{
	amqp_basic_publish_t publish = {
	    .exchange = amqp_empty_bytes, .routing_key = amqp_cstring_bytes(queue), .mandatory = 1};
	amqp_basic_properties_t properties = {0};

	amqp_link_publish(raw->link, channel, &publish, &properties, amqp_cstring_bytes("m"));
}

void
raw_put(struct raw *raw, uint16_t channel, const char *queue, const char *body)
{
	amqp_table_entry_t header = amqp_entry_text("h", body);
	amqp_basic_publish_t publish = {
	    .exchange = amqp_empty_bytes, .routing_key = amqp_cstring_bytes(queue)};
	amqp_basic_properties_t properties = {
	    ._flags = AMQP_BASIC_HEADERS_FLAG,
	    .headers = {.num_entries = 1, .entries = &header},
	};

	amqp_link_publish(raw->link, channel, &publish, &properties, amqp_cstring_bytes(body));
}

void
raw_attach(struct raw *raw, uint16_t channel, const char *queue)
{
	amqp_basic_consume_t consume = {
	    .queue = amqp_cstring_bytes(queue), .consumer_tag = amqp_cstring_bytes("h")};

	raw->wants_header = true;
	amqp_link_send(raw->link, channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

void
raw_reject(struct raw *raw, uint16_t channel, unsigned tag)
{
	amqp_basic_reject_t reject = {.delivery_tag = tag, .requeue = true};

	amqp_link_send(raw->link, channel, AMQP_BASIC_REJECT_METHOD, &reject);
}

void
raw_ack(struct raw *raw, uint16_t channel, unsigned tag)
{
	amqp_basic_ack_t ack = {.delivery_tag = tag};

	amqp_link_send(raw->link, channel, AMQP_BASIC_ACK_METHOD, &ack);
}

void
raw_close(struct raw *raw, uint16_t channel)
{
	amqp_channel_close_t close = {.reply_code = AMQP_REPLY_SUCCESS};

	amqp_link_send(raw->link, channel, AMQP_CHANNEL_CLOSE_METHOD, &close);
}
