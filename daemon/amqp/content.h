/*
 * The messages that arrive on a channel, one after another. A method announces a message
 * (basic.deliver, get-ok, return). Its header follows, and as many body frames as the header says.
 * Frames of other channels may come in between, but no method of the same channel. The module owns
 * the newest message, and knows no connection.
 */
#ifndef AMQP_CONTENT_H
#define AMQP_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/amqp/frame.h"

/* Bytes of a short string of AMQP, with a NUL. */
#define AMQP_CONTENT_WORD 256

enum amqp_content_state {
	AMQP_CONTENT_IDLE,
	AMQP_CONTENT_ANNOUNCED, /* its header is missing */
	AMQP_CONTENT_BODY       /* a part of its body is missing */
};

enum amqp_content_status {
	AMQP_CONTENT_MORE,
	AMQP_CONTENT_WHOLE, /* the message is complete; it stays until the next is announced */
	AMQP_CONTENT_BAD    /* this frame must not come now */
};

struct amqp_content {
	enum amqp_content_state state;
	size_t body_max;  /* bytes of a body to keep; the rest is only counted */
	uint64_t size;    /* bytes of the body, as the header says */
	uint64_t arrived; /* bytes of it so far */
	char *body;       /* owned; the kept bytes and a NUL; NULL if body_max is 0 */
	/* "" = absent. They end at a NUL, if they contain one. */
	char correlation_id[AMQP_CONTENT_WORD], reply_to[AMQP_CONTENT_WORD];
	char user_id[AMQP_CONTENT_WORD];
	/*
	 * Of a quorum queue: how often the message came back from a consumer, in the header
	 * x-acquired-count (RabbitMQ 4.3 and later), else x-delivery-count. 0 = absent.
	 */
	uint64_t returned;
};

void amqp_content_init(struct amqp_content *content, size_t body_max);
void amqp_content_done(struct amqp_content *content);
/* A method announced a message. False: the last message is not complete yet. */
bool amqp_content_announce(struct amqp_content *content) __attribute__((warn_unused_result));
/* Takes a header frame or a body frame. */
enum amqp_content_status amqp_content_take(struct amqp_content *content,
    const struct amqp_frame *frame) __attribute__((warn_unused_result));

#endif
