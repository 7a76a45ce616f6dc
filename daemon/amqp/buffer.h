/* Frames in the evbuffers of a socket, by the codec of frame.h. */
#ifndef AMQP_BUFFER_H
#define AMQP_BUFFER_H

#include "daemon/amqp/frame.h"

struct evbuffer;

/* Removes one frame from the front of `in`, and decodes it. */
enum amqp_decoder_status amqp_decoder_next(struct amqp_decoder *decoder, struct evbuffer *in,
    struct amqp_frame *ret) __attribute__((warn_unused_result));

/* Append one frame. False: a string is too long for AMQP, and nothing is appended. */
bool amqp_frame_put_method(struct evbuffer *out, uint16_t channel, amqp_method_number_t method,
    void *fields) __attribute__((warn_unused_result));
/* The same for fields with a password: no copy of the frame remains after it is sent. */
bool amqp_frame_put_secret(struct evbuffer *out, uint16_t channel, amqp_method_number_t method,
    void *fields) __attribute__((warn_unused_result));
bool amqp_frame_put_header(struct evbuffer *out, uint16_t channel, uint64_t body_size,
    amqp_basic_properties_t *properties) __attribute__((warn_unused_result));
/* Appends the body in frames of at most `max` bytes each. An empty body has no frame. */
bool amqp_frame_put_body(struct evbuffer *out, uint16_t channel, amqp_bytes_t body, size_t max)
    __attribute__((warn_unused_result));
void amqp_frame_put_heartbeat(struct evbuffer *out);

#endif
