/*
 * Bytes and frames of AMQP 0-9-1. rabbitmq-c is the codec of what frames carry; where a frame begins
 * and ends, and whether its size may be, is decided here, before a byte of it reaches the codec. Owns
 * the codec's state; knows no sockets and no connection states, but that a connection's first frame
 * must be connection.start.
 *
 *	| type 1 | channel 2 | size 4 | payload, `size` bytes | 0xCE |
 */
#ifndef BROKER_AMQP_FRAME_H
#define BROKER_AMQP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <amqp.h>
#include <amqp_framing.h>

struct evbuffer;

/* What we ask for: far more than a method of ours needs, little enough to have many channels. */
#define AMQP_FRAME_MAX 8192
/* Before connection.tune. rabbitmq-c 0.11 recurses with the nesting of tables, without a limit. */
#define AMQP_FRAME_MAX_UNTUNED 16384

struct amqp_frame {
	int type; /* AMQP_FRAME_METHOD, _HEADER, _BODY, _HEARTBEAT */
	uint16_t channel;
	amqp_method_number_t method; /* AMQP_FRAME_METHOD */
	/* Decoded: a method's struct, or a header's amqp_basic_properties_t. Until the next frame. */
	const void *fields;
	uint64_t body_size; /* _HEADER: bytes that follow in _BODY frames */
	amqp_bytes_t body;  /* _BODY; until the next frame */
};

enum amqp_decoder_status {
	AMQP_DECODER_MORE, /* no whole frame yet */
	AMQP_DECODER_FRAME,
	AMQP_DECODER_BAD /* not AMQP, or not fit: for ever. See amqp_decoder_why */
};

struct amqp_decoder;

struct amqp_decoder *amqp_decoder_new(void);
void amqp_decoder_free(struct amqp_decoder *decoder); /* NULL is fine */
/* After connection.tune. Not while a frame is borrowed: it takes the place of one. */
void amqp_decoder_tune(struct amqp_decoder *decoder, int channel_max, int frame_max);
/* Takes one frame off the front of `in`. */
enum amqp_decoder_status amqp_decoder_next(struct amqp_decoder *decoder, struct evbuffer *in,
    struct amqp_frame *ret) __attribute__((warn_unused_result));
const char *amqp_decoder_why(const struct amqp_decoder *decoder);

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

/* Entries of a table; key and value are borrowed. */
amqp_table_entry_t amqp_entry_text(const char *key, const char *value);
amqp_table_entry_t amqp_entry_number(const char *key, int value);
amqp_table_entry_t amqp_entry_true(const char *key);

/* The broker's words as a string of ours: what is not printable ASCII becomes '?'. */
char *amqp_frame_words(amqp_bytes_t bytes);

#endif
