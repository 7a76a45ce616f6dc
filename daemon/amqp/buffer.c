#include "daemon/amqp/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "daemon/base/mem.h"

enum amqp_decoder_status
amqp_decoder_next(struct amqp_decoder *decoder, struct evbuffer *in, struct amqp_frame *ret)
{
	uint8_t header[AMQP_FRAME_AROUND - 1], *bytes;
	ev_ssize_t there = evbuffer_copyout(in, header, sizeof(header));
	enum amqp_decoder_status status;
	size_t size;

	status = amqp_decoder_size(decoder, header, (size_t)there, &size);
	if (status != AMQP_DECODER_FRAME)
		return status;
	if (evbuffer_get_length(in) < size)
		return AMQP_DECODER_MORE;
	bytes = evbuffer_pullup(in, (ev_ssize_t)size);
	if (bytes == NULL)
		return amqp_decoder_spoil(decoder, "out of memory for a frame", size);
	status = amqp_decoder_take(decoder, bytes, size, ret);
	evbuffer_drain(in, size);
	return status;
}

static bool
add(struct evbuffer *out, const uint8_t *bytes, size_t size)
{
	return size > 0 && evbuffer_add(out, bytes, size) == 0;
}

bool
amqp_frame_put_method(
    struct evbuffer *out, uint16_t channel, amqp_method_number_t method, void *fields)
{
	uint8_t bytes[AMQP_FRAME_MAX];

	return add(out, bytes, amqp_frame_method(bytes, channel, method, fields));
}

static void
forget(const void *bytes, size_t len, void *ctx)
{
	(void)len;
	(void)ctx;
	explicit_bzero((void *)bytes, AMQP_FRAME_MAX);
	free((void *)bytes);
}

bool
amqp_frame_put_secret(
    struct evbuffer *out, uint16_t channel, amqp_method_number_t method, void *fields)
{
	uint8_t *bytes = mem_alloc(AMQP_FRAME_MAX);
	size_t len = amqp_frame_method(bytes, channel, method, fields);

	if (len > 0 && evbuffer_add_reference(out, bytes, len, forget, NULL) == 0)
		return true;
	forget(bytes, len, NULL);
	return false;
}

bool
amqp_frame_put_header(
    struct evbuffer *out, uint16_t channel, uint64_t body_size, amqp_basic_properties_t *properties)
{
	uint8_t bytes[AMQP_FRAME_MAX];

	return add(out, bytes, amqp_frame_header(bytes, channel, body_size, properties));
}

bool
amqp_frame_put_body(struct evbuffer *out, uint16_t channel, amqp_bytes_t body, size_t max)
{
	uint8_t bytes[AMQP_FRAME_MAX];
	const size_t most = max - AMQP_FRAME_AROUND;

	assert(max <= sizeof(bytes) && max > AMQP_FRAME_AROUND);
	for (size_t at = 0, len; at < body.len; at += len) {
		len = body.len - at < most ? body.len - at : most;
		if (!add(out, bytes,
			amqp_frame_body(bytes, channel, (const uint8_t *)body.bytes + at, len)))
			return false;
	}
	return true;
}

void
amqp_frame_put_heartbeat(struct evbuffer *out)
{
	uint8_t bytes[AMQP_FRAME_AROUND];

	/* A heartbeat that does not fit into memory is the same as one that was lost. */
	(void)add(out, bytes, amqp_frame_heartbeat(bytes));
}
