/*
 * Fuzz target: the bytes of a broker, from the socket to decoded frames and the login. The first
 * byte decides into which pieces the rest is cut.
 *
 *	make fuzz FUZZ=amqp
 */
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "daemon/amqp/buffer.h"
#include "daemon/amqp/content.h"
#include "daemon/amqp/login.h"
#include "tests/fuzz/fuzz.h"

/* Of a message, are kept. */
#define BODY_MAX 8

static void
log_in(const amqp_connection_start_t *start)
{
	const struct amqp_login login = {.name = "fuzz", .user = "guest", .password = "guest"};
	struct evbuffer *out = evbuffer_new();
	struct amqp_server server;

	amqp_server_init(&server, start);
	amqp_server_done(&server);
	free(amqp_login_put(out, start, &login));
	evbuffer_free(out);
}

/* As a channel that expects messages. An unexpected frame ends it, and another one begins. */
static void
assemble(struct amqp_content *content, const struct amqp_frame *frame)
{
	bool good = true;

	if (frame->type == AMQP_FRAME_HEADER || frame->type == AMQP_FRAME_BODY)
		good = amqp_content_take(content, frame) != AMQP_CONTENT_BAD;
	else if (frame->method == AMQP_BASIC_DELIVER_METHOD ||
		 frame->method == AMQP_BASIC_GET_OK_METHOD ||
		 frame->method == AMQP_BASIC_RETURN_METHOD)
		good = amqp_content_announce(content);
	if (!good) {
		amqp_content_done(content);
		amqp_content_init(content, BODY_MAX);
	}
}

/* Reads all that the daemon reads of a frame. */
static void
use(struct amqp_decoder *decoder, const struct amqp_frame *frame)
{
	const amqp_channel_close_t *channel_close = frame->fields;
	const amqp_connection_close_t *close = frame->fields;

	switch (frame->method) {
	case AMQP_BASIC_DELIVER_METHOD:
		free(amqp_frame_words(((const amqp_basic_deliver_t *)frame->fields)->consumer_tag));
		break;
	case AMQP_BASIC_CANCEL_METHOD:
		free(amqp_frame_words(((const amqp_basic_cancel_t *)frame->fields)->consumer_tag));
		break;
	case AMQP_BASIC_CONSUME_OK_METHOD:
		free(amqp_frame_words(
		    ((const amqp_basic_consume_ok_t *)frame->fields)->consumer_tag));
		break;
	case AMQP_CONNECTION_START_METHOD:
		log_in(frame->fields);
		break;
	case AMQP_CONNECTION_TUNE_METHOD:
		amqp_decoder_tune(decoder, 2047, AMQP_FRAME_MAX);
		break;
	case AMQP_CONNECTION_CLOSE_METHOD:
		free(amqp_frame_words(close->reply_text));
		break;
	case AMQP_CHANNEL_CLOSE_METHOD:
		free(amqp_frame_words(channel_close->reply_text));
		break;
	default:
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct amqp_decoder *decoder = amqp_decoder_new();
	struct evbuffer *in = evbuffer_new();
	struct amqp_content content;
	size_t piece = size > 0 && data[0] > 0 ? data[0] : size;

	amqp_content_init(&content, BODY_MAX);
	for (size_t at = 1; at < size; at += piece) {
		struct amqp_frame frame;

		evbuffer_add(in, data + at, size - at < piece ? size - at : piece);
		while (amqp_decoder_next(decoder, in, &frame) == AMQP_DECODER_FRAME) {
			assemble(&content, &frame);
			use(decoder, &frame);
		}
	}
	amqp_content_done(&content);
	evbuffer_free(in);
	amqp_decoder_free(decoder);
	return 0;
}
