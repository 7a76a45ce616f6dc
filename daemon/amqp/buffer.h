/*
 * Frames off and onto the bytes of a socket (frame.h).
 */
#ifndef AMQP_BUFFER_H
#define AMQP_BUFFER_H

#include "daemon/amqp/frame.h"

struct evbuffer;

/* Takes one frame off the front of `in`. */
enum amqp_decoder_status amqp_decoder_next(struct amqp_decoder *decoder, struct evbuffer *in,
    struct amqp_frame *ret) __attribute__((warn_unused_result));

/* Append one frame. False: what is to be sent does not fit AMQP (a string too long); nothing is. */
bool amqp_frame_put_method(struct evbuffer *out, uint16_t channel, amqp_method_number_t method,
    void *fields) __attribute__((warn_unused_result));
/* The same of what holds a password: no copy is left once it was sent. */
bool amqp_frame_put_secret(struct evbuffer *out, uint16_t channel, amqp_method_number_t method,
    void *fields) __attribute__((warn_unused_result));
bool amqp_frame_put_header(struct evbuffer *out, uint16_t channel, uint64_t body_size,
    amqp_basic_properties_t *properties) __attribute__((warn_unused_result));
/* As many frames, of at most `max` bytes each, as it takes; none for no bytes. */
bool amqp_frame_put_body(struct evbuffer *out, uint16_t channel, amqp_bytes_t body, size_t max)
    __attribute__((warn_unused_result));
void amqp_frame_put_heartbeat(struct evbuffer *out);

#endif
