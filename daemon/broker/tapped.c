#include "daemon/broker/tapped.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what comes ---- */

static bool
on_frame(void *ctx, const struct amqp_frame *frame)
{
	struct amqp_tapped *tapped = ctx;

	if (frame->type == AMQP_FRAME_METHOD)
		return tapped->events.method(tapped->ctx, frame);
	switch (amqp_content_take(&tapped->content, frame)) {
	case AMQP_CONTENT_MORE:
		return true;
	case AMQP_CONTENT_WHOLE:
		return tapped->events.message == NULL || tapped->events.message(tapped->ctx);
	case AMQP_CONTENT_BAD:
		return false;
	}
	abort();
}

static void
on_closed(void *ctx, int code, bool blames, const char *text)
{
	struct amqp_tapped *tapped = ctx;

	tapped->blames = blames;
	amqp_tapped_forget(tapped);
	tapped->events.closed(tapped->ctx, code, text);
}

bool
amqp_tapped_announce(struct amqp_tapped *tapped, uint64_t delivery)
{
	tapped->delivery = delivery;
	return amqp_content_announce(&tapped->content);
}

/* ---- opening and closing ---- */

void
amqp_tapped_init(struct amqp_tapped *tapped, struct amqp_channels *channels,
    const struct amqp_tapped_events *events, void *ctx)
{
	*tapped = (struct amqp_tapped){
	    .channels = channels,
	    .tap = {.frame = on_frame, .closed = on_closed, .ctx = tapped},
	    .events = *events,
	    .ctx = ctx,
	};
}

bool
amqp_tapped_open(struct amqp_tapped *tapped, size_t body_max)
{
	assert(tapped->number == 0);
	tapped->number = amqp_channels_tap(tapped->channels, &tapped->tap);
	if (tapped->number == 0)
		return false;
	amqp_content_init(&tapped->content, body_max);
	return true;
}

void
amqp_tapped_forget(struct amqp_tapped *tapped)
{
	if (tapped->number == 0)
		return;
	tapped->number = 0;
	amqp_content_done(&tapped->content);
}

void
amqp_tapped_close(struct amqp_tapped *tapped)
{
	if (tapped->number != 0 && amqp_channels_link(tapped->channels) != NULL)
		amqp_channels_untap(tapped->channels, tapped->number);
	amqp_tapped_forget(tapped);
}

/* ---- sending ---- */

void
amqp_tapped_send(const struct amqp_tapped *tapped, amqp_method_number_t method, void *fields)
{
	struct amqp_link *link = amqp_channels_link(tapped->channels);

	if (link != NULL)
		amqp_link_send(link, tapped->number, method, fields);
}

void
amqp_tapped_publish(const struct amqp_tapped *tapped, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body)
{
	struct amqp_link *link = amqp_channels_link(tapped->channels);

	if (link != NULL)
		amqp_link_publish(link, tapped->number, fields, properties, body);
}

void
amqp_tapped_ack(const struct amqp_tapped *tapped, uint64_t delivery)
{
	amqp_basic_ack_t ack = {.delivery_tag = delivery};

	amqp_tapped_send(tapped, AMQP_BASIC_ACK_METHOD, &ack);
}

void
amqp_tapped_reject(const struct amqp_tapped *tapped, uint64_t delivery)
{
	amqp_basic_reject_t reject = {.delivery_tag = delivery, .requeue = 1};

	amqp_tapped_send(tapped, AMQP_BASIC_REJECT_METHOD, &reject);
}

/* ---- consumers ---- */

struct amqp_tapped_tag
amqp_tapped_tag(char letter, uint64_t consumer)
{
	struct amqp_tapped_tag tag;

	snprintf(tag.text, sizeof(tag.text), "%c%" PRIu64, letter, consumer);
	return tag;
}

uint64_t
amqp_tapped_consumer(char letter, amqp_bytes_t tag)
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
amqp_tapped_cancel(const struct amqp_tapped *tapped, char letter, uint64_t consumer)
{
	struct amqp_tapped_tag tag = amqp_tapped_tag(letter, consumer);
	amqp_basic_cancel_t cancel = {
	    .consumer_tag = amqp_cstring_bytes(tag.text),
	    .nowait = 1,
	};

	amqp_tapped_send(tapped, AMQP_BASIC_CANCEL_METHOD, &cancel);
}
