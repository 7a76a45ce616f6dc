#include "daemon/broker/raw_channel.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- receiving ---- */

static bool
raw_channel_on_frame(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_raw_channel *raw = ctx;

	if (frame->type == AMQP_FRAME_METHOD)
		return raw->events.method(raw->ctx, frame);
	switch (amqp_content_take(&raw->content, frame)) {
	case AMQP_CONTENT_MORE:
		return true;
	case AMQP_CONTENT_WHOLE:
		return raw->events.message == NULL || raw->events.message(raw->ctx);
	case AMQP_CONTENT_BAD:
		return false;
	}
	abort();
}

static void
raw_channel_on_closed(void *ctx, int code, bool blames, const char *text)
{
	struct amqp_raw_channel *raw = ctx;

	raw->blames = blames;
	amqp_raw_channel_forget(raw);
	raw->events.closed(raw->ctx, code, text);
}

bool
amqp_raw_channel_announce(struct amqp_raw_channel *raw, uint64_t delivery)
{
	raw->delivery = delivery;
	return amqp_content_announce(&raw->content);
}

/* ---- opening and closing ---- */

void
amqp_raw_channel_init(struct amqp_raw_channel *raw, struct amqp_channels *channels,
    const struct amqp_raw_channel_events *events, void *ctx)
{
	*raw = (struct amqp_raw_channel){
	    .channels = channels,
	    .handler = {.frame = raw_channel_on_frame, .closed = raw_channel_on_closed, .ctx = raw},
	    .events = *events,
	    .ctx = ctx,
	};
}

bool
amqp_raw_channel_open(struct amqp_raw_channel *raw, size_t body_max)
{
	assert(raw->number == 0);
	raw->number = amqp_channels_open_raw(raw->channels, &raw->handler);
	if (raw->number == 0)
		return false;
	amqp_content_init(&raw->content, body_max);
	return true;
}

bool
amqp_raw_channel_resume(struct amqp_raw_channel *raw, uint16_t number, size_t body_max)
{
	assert(raw->number == 0);
	if (!amqp_channels_resume_raw(raw->channels, number, &raw->handler))
		return false;
	raw->number = number;
	amqp_content_init(&raw->content, body_max);
	return true;
}

bool
amqp_raw_channel_is_still(const struct amqp_raw_channel *raw)
{
	return raw->content.state == AMQP_CONTENT_IDLE;
}

void
amqp_raw_channel_forget(struct amqp_raw_channel *raw)
{
	if (raw->number == 0)
		return;
	raw->number = 0;
	amqp_content_done(&raw->content);
}

void
amqp_raw_channel_close(struct amqp_raw_channel *raw)
{
	if (raw->number != 0 && amqp_channels_link(raw->channels) != NULL)
		amqp_channels_drop_raw(raw->channels, raw->number);
	amqp_raw_channel_forget(raw);
}

/* ---- sending ---- */

void
amqp_raw_channel_send(const struct amqp_raw_channel *raw, amqp_method_number_t method, void *fields)
{
	struct amqp_link *link = amqp_channels_link(raw->channels);

	if (link != NULL)
		amqp_link_send(link, raw->number, method, fields);
}

void
amqp_raw_channel_publish(const struct amqp_raw_channel *raw, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body)
{
	struct amqp_link *link = amqp_channels_link(raw->channels);

	if (link != NULL)
		amqp_link_publish(link, raw->number, fields, properties, body);
}

void
amqp_raw_channel_ack(const struct amqp_raw_channel *raw, uint64_t delivery)
{
	amqp_basic_ack_t ack = {.delivery_tag = delivery};

	amqp_raw_channel_send(raw, AMQP_BASIC_ACK_METHOD, &ack);
}

void
amqp_raw_channel_reject(const struct amqp_raw_channel *raw, uint64_t delivery)
{
	amqp_basic_reject_t reject = {.delivery_tag = delivery, .requeue = 1};

	amqp_raw_channel_send(raw, AMQP_BASIC_REJECT_METHOD, &reject);
}

/* ---- consumers ---- */

struct amqp_raw_channel_tag
amqp_raw_channel_tag(char letter, uint64_t consumer)
{
	struct amqp_raw_channel_tag tag;

	snprintf(tag.text, sizeof(tag.text), "%c%" PRIu64, letter, consumer);
	return tag;
}

uint64_t
amqp_raw_channel_consumer(char letter, amqp_bytes_t tag)
{
	const char *text = tag.bytes;
	uint64_t consumer = 0;

	if (tag.len < 2 || tag.len > 20 || text[0] != letter)
		return 0;
	for (size_t i = 1; i < tag.len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		consumer = consumer * 10 + (uint64_t)(text[i] - '0');
	}
	return consumer;
}

void
amqp_raw_channel_cancel(const struct amqp_raw_channel *raw, char letter, uint64_t consumer)
{
	struct amqp_raw_channel_tag tag = amqp_raw_channel_tag(letter, consumer);
	amqp_basic_cancel_t cancel = {
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	    .nowait = 1,
	};

	amqp_raw_channel_send(raw, AMQP_BASIC_CANCEL_METHOD, &cancel);
}
