/*
 * The messages that come on a channel, one after another: a method that announces one (basic.deliver,
 * get-ok, return), its header, and as many body frames as its header says. Frames of other channels
 * come in between; a method of the same channel must not.
 */
#ifndef AMQP_CONTENT_H
#define AMQP_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/amqp/frame.h"

/* A short string of AMQP, and its end. */
#define AMQP_CONTENT_WORD 256

enum amqp_content_state {
	AMQP_CONTENT_IDLE,
	AMQP_CONTENT_ANNOUNCED, /* its header is to come */
	AMQP_CONTENT_BODY       /* more of its body is to come */
};

enum amqp_content_status {
	AMQP_CONTENT_MORE,
	AMQP_CONTENT_WHOLE, /* the message is there, until the next is announced */
	AMQP_CONTENT_BAD    /* nothing that may come now */
};

struct amqp_content {
	enum amqp_content_state state;
	size_t body_max;  /* bytes of a body that are kept: the rest is counted alone */
	uint64_t size;    /* of the body, as its header says */
	uint64_t arrived; /* of that */
	char *body;       /* owned; what is kept of it, and a NUL; NULL where body_max is 0 */
	/* "" = it has none. Up to a NUL, if there is one in it. */
	char correlation_id[AMQP_CONTENT_WORD], reply_to[AMQP_CONTENT_WORD];
	char user_id[AMQP_CONTENT_WORD];
};

void amqp_content_init(struct amqp_content *content, size_t body_max);
void amqp_content_done(struct amqp_content *content);
/* The method came. False: the last message is not whole yet. */
bool amqp_content_announce(struct amqp_content *content) __attribute__((warn_unused_result));
/* A header or body. */
enum amqp_content_status amqp_content_take(struct amqp_content *content,
    const struct amqp_frame *frame) __attribute__((warn_unused_result));

#endif
