#include "daemon/amqp/frame.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

#define HEADER_SIZE 7
#define END_SIZE 1
_Static_assert(AMQP_FRAME_AROUND == HEADER_SIZE + END_SIZE, "header and end");
/* Minimum payloads: method number; class, weight, body size and property flags. */
#define METHOD_MIN 4
#define CONTENT_HEADER_MIN 14

struct amqp_decoder {
	amqp_connection_state_t codec; /* owned */
	size_t max;                    /* bytes of a whole frame */
	bool started;                  /* the first frame was seen */
	bool bad;
	char why[160];
};

struct amqp_decoder *
amqp_decoder_new(void)
{
	struct amqp_decoder *decoder = mem_alloc(sizeof(*decoder));

	decoder->max = AMQP_FRAME_MAX_UNTUNED;
	decoder->codec = amqp_new_connection();
	if (decoder->codec == NULL) {
		decoder->bad = true;
		snprintf(decoder->why, sizeof(decoder->why), "rabbitmq-c: out of memory");
	}
	return decoder;
}

void
amqp_decoder_free(struct amqp_decoder *decoder)
{
	if (decoder == NULL)
		return;
	if (decoder->codec != NULL)
		amqp_destroy_connection(decoder->codec);
	free(decoder);
}

void
amqp_decoder_tune(struct amqp_decoder *decoder, int channel_max, int frame_max)
{
	assert(!decoder->bad && frame_max <= AMQP_FRAME_MAX);
	/* amqp_tune_connection() aborts if a part of a frame is still in use. */
	amqp_maybe_release_buffers(decoder->codec);
	assert(amqp_release_buffers_ok(decoder->codec));
	if (amqp_tune_connection(decoder->codec, channel_max, frame_max, 0) != AMQP_STATUS_OK) {
		decoder->bad = true;
		snprintf(decoder->why, sizeof(decoder->why), "rabbitmq-c: out of memory");
	}
	decoder->max = (size_t)frame_max;
}

const char *
amqp_decoder_why(const struct amqp_decoder *decoder)
{
	return decoder->why;
}

static enum amqp_decoder_status
spoil(struct amqp_decoder *decoder, const char *what, unsigned long figure)
{
	decoder->bad = true;
	snprintf(decoder->why, sizeof(decoder->why), "not AMQP 0-9-1: %s (%lu)", what, figure);
	return AMQP_DECODER_BAD;
}

static uint32_t
get_u32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static void
put_u32(uint8_t *bytes, uint32_t value)
{
	bytes[0] = (uint8_t)(value >> 24);
	bytes[1] = (uint8_t)(value >> 16);
	bytes[2] = (uint8_t)(value >> 8);
	bytes[3] = (uint8_t)value;
}

/*
 * Checks a frame's header. The codec reads the fixed part of a method or content header without a
 * check of the size. With a shorter payload it would read far beyond.
 */
static enum amqp_decoder_status
check_header(struct amqp_decoder *decoder, const uint8_t header[HEADER_SIZE])
{
	unsigned type = header[0], channel = (unsigned)header[1] << 8 | header[2];
	uint32_t size = get_u32(header + 3);

	if (memcmp(header, "AMQP", 4) == 0)
		return spoil(
		    decoder, "the other end uses another version of the protocol", header[6]);
	if (type != AMQP_FRAME_METHOD && type != AMQP_FRAME_HEADER && type != AMQP_FRAME_BODY &&
	    type != AMQP_FRAME_HEARTBEAT)
		return spoil(decoder, "a frame of unknown type", type);
	if (!decoder->started && (type != AMQP_FRAME_METHOD || channel != 0))
		return spoil(decoder, "the first frame is not connection.start but of type", type);
	if (size > decoder->max - HEADER_SIZE - END_SIZE)
		return spoil(decoder, "a frame is larger than agreed", size);
	if ((type == AMQP_FRAME_METHOD && size < METHOD_MIN) ||
	    (type == AMQP_FRAME_HEADER && size < CONTENT_HEADER_MIN))
		return spoil(decoder, "a frame is too short for its type", size);
	if (type == AMQP_FRAME_HEARTBEAT && (channel != 0 || size != 0))
		return spoil(decoder, "a heartbeat with content or channel", channel);
	return AMQP_DECODER_FRAME;
}

static enum amqp_decoder_status
decode(struct amqp_decoder *decoder, uint8_t *bytes, size_t len, struct amqp_frame *ret)
{
	amqp_bytes_t input = {.len = len, .bytes = bytes};
	amqp_frame_t decoded;
	int used;

	ret->channel = (uint16_t)(bytes[1] << 8 | bytes[2]);
	/*
	 * The codec gets every frame as one of channel 0. For each channel number it would keep a
	 * pool of frame_max bytes for ever. One frame is decoded at a time, so one pool is enough.
	 */
	bytes[1] = bytes[2] = 0;
	used = amqp_handle_input(decoder->codec, input, &decoded);
	if (used < 0)
		return spoil(decoder, amqp_error_string2(used), (unsigned long)-used);
	if ((size_t)used != len || decoded.frame_type == 0)
		return spoil(
		    decoder, "the size of a frame does not match its content", (unsigned long)used);
	ret->type = decoded.frame_type;
	ret->method = 0;
	ret->fields = NULL;
	ret->body_size = 0;
	ret->body = amqp_empty_bytes;
	if (ret->type == AMQP_FRAME_METHOD) {
		ret->method = decoded.payload.method.id;
		ret->fields = decoded.payload.method.decoded;
	} else if (ret->type == AMQP_FRAME_HEADER) {
		if (decoded.payload.properties.class_id != AMQP_BASIC_CLASS)
			return spoil(
			    decoder, "content of class", decoded.payload.properties.class_id);
		ret->fields = decoded.payload.properties.decoded;
		ret->body_size = decoded.payload.properties.body_size;
	} else if (ret->type == AMQP_FRAME_BODY) {
		ret->body = decoded.payload.body_fragment;
	}
	if (!decoder->started && ret->method != AMQP_CONNECTION_START_METHOD)
		return spoil(decoder, "the first frame is not connection.start but", ret->method);
	decoder->started = true;
	return AMQP_DECODER_FRAME;
}

enum amqp_decoder_status
amqp_decoder_size(struct amqp_decoder *decoder, const uint8_t *bytes, size_t len, size_t *ret_size)
{
	if (decoder->bad)
		return AMQP_DECODER_BAD;
	if (len < HEADER_SIZE)
		return AMQP_DECODER_MORE;
	if (check_header(decoder, bytes) == AMQP_DECODER_BAD)
		return AMQP_DECODER_BAD;
	*ret_size = HEADER_SIZE + get_u32(bytes + 3) + END_SIZE;
	return AMQP_DECODER_FRAME;
}

enum amqp_decoder_status
amqp_decoder_take(struct amqp_decoder *decoder, uint8_t *bytes, size_t size, struct amqp_frame *ret)
{
	/* Frees the memory that the last frame borrowed. */
	amqp_maybe_release_buffers_on_channel(decoder->codec, 0);
	return decode(decoder, bytes, size, ret);
}

enum amqp_decoder_status
amqp_decoder_spoil(struct amqp_decoder *decoder, const char *what, size_t figure)
{
	return spoil(decoder, what, figure);
}

/* Writes header and end around a payload at bytes + HEADER_SIZE. Returns the frame's size. */
static size_t
close_frame(int type, uint16_t channel, uint8_t *bytes, size_t payload)
{
	bytes[0] = (uint8_t)type;
	bytes[1] = (uint8_t)(channel >> 8);
	bytes[2] = (uint8_t)channel;
	put_u32(bytes + 3, (uint32_t)payload);
	bytes[HEADER_SIZE + payload] = AMQP_FRAME_END;
	return HEADER_SIZE + payload + END_SIZE;
}

size_t
amqp_frame_method(
    uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel, amqp_method_number_t method, void *fields)
{
	amqp_bytes_t room = {
	    .len = AMQP_FRAME_MAX - HEADER_SIZE - METHOD_MIN - END_SIZE,
	    .bytes = bytes + HEADER_SIZE + METHOD_MIN,
	};
	int len = amqp_encode_method(method, fields, room);

	if (len < 0)
		return 0;
	put_u32(bytes + HEADER_SIZE, method);
	return close_frame(AMQP_FRAME_METHOD, channel, bytes, METHOD_MIN + (size_t)len);
}

/*
 * The codec takes new limits only after a first frame, which must be a method (rabbitmq-c 0.11).
 * connection.close-ok is that frame.
 */
void
amqp_decoder_resume(struct amqp_decoder *decoder, int channel_max, int frame_max)
{
	amqp_connection_close_ok_t close_ok = {0};
	uint8_t bytes[AMQP_FRAME_MAX];
	size_t size = amqp_frame_method(bytes, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &close_ok);
	struct amqp_frame frame;

	decoder->started = true;
	if (!decoder->bad && decode(decoder, bytes, size, &frame) == AMQP_DECODER_FRAME)
		amqp_decoder_tune(decoder, channel_max, frame_max);
}

size_t
amqp_frame_header(uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel, uint64_t body_size,
    amqp_basic_properties_t *properties)
{
	uint8_t *payload = bytes + HEADER_SIZE;
	const size_t fixed = 12; /* class, weight, body size; encode_properties writes the flags */
	amqp_bytes_t room = {
	    .len = AMQP_FRAME_MAX - HEADER_SIZE - fixed - END_SIZE,
	    .bytes = payload + fixed,
	};
	int len = amqp_encode_properties(AMQP_BASIC_CLASS, properties, room);

	if (len < 0)
		return 0;
	put_u32(payload, (uint32_t)AMQP_BASIC_CLASS << 16);
	put_u32(payload + 4, (uint32_t)(body_size >> 32));
	put_u32(payload + 8, (uint32_t)body_size);
	return close_frame(AMQP_FRAME_HEADER, channel, bytes, fixed + (size_t)len);
}

size_t
amqp_frame_body(uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel, const void *body, size_t len)
{
	assert(len <= AMQP_FRAME_MAX - AMQP_FRAME_AROUND);
	memcpy(bytes + HEADER_SIZE, body, len);
	return close_frame(AMQP_FRAME_BODY, channel, bytes, len);
}

size_t
amqp_frame_heartbeat(uint8_t bytes[AMQP_FRAME_AROUND])
{
	return close_frame(AMQP_FRAME_HEARTBEAT, 0, bytes, 0);
}

amqp_table_entry_t
amqp_entry_text(const char *key, const char *value)
{
	return (amqp_table_entry_t){
	    .key = amqp_cstring_bytes(key),
	    .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value)},
	};
}

amqp_table_entry_t
amqp_entry_number(const char *key, int value)
{
	return (amqp_table_entry_t){
	    .key = amqp_cstring_bytes(key),
	    .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = value},
	};
}

amqp_table_entry_t
amqp_entry_true(const char *key)
{
	return (amqp_table_entry_t){
	    .key = amqp_cstring_bytes(key),
	    .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
	};
}

char *
amqp_frame_words(amqp_bytes_t bytes)
{
	char *words = mem_alloc(bytes.len + 1);

	for (size_t i = 0; i < bytes.len; i++) {
		char c = ((const char *)bytes.bytes)[i];

		words[i] = c >= ' ' && c <= '~' ? c : '?';
	}
	return words;
}
