/*
 * Bytes and frames of AMQP 0-9-1. rabbitmq-c is the codec of what frames carry; where a frame begins
 * and ends, and whether its size may be, is decided here, before a byte of it reaches the codec. Owns
 * the codec's state; knows no sockets and no connection states, but that a connection's first frame
 * must be connection.start.
 *
 *	| type 1 | channel 2 | size 4 | payload, `size` bytes | 0xCE |
 */
#ifndef AMQP_FRAME_H
#define AMQP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <amqp.h>

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
/* FRAME: the frame that begins there has so many bytes in all. MORE: too few to tell. */
enum amqp_decoder_status amqp_decoder_size(struct amqp_decoder *decoder, const uint8_t *bytes,
    size_t len, size_t *ret_size) __attribute__((warn_unused_result));
/* Decodes one whole frame of that size. FRAME, or BAD. Its channel number is written over. */
enum amqp_decoder_status amqp_decoder_take(struct amqp_decoder *decoder, uint8_t *bytes,
    size_t size, struct amqp_frame *ret) __attribute__((warn_unused_result));
/* BAD from now on, for that reason (static). */
enum amqp_decoder_status amqp_decoder_spoil(
    struct amqp_decoder *decoder, const char *what, size_t figure);
const char *amqp_decoder_why(const struct amqp_decoder *decoder);

/* Bytes of a frame around what it carries. */
#define AMQP_FRAME_AROUND 8

/* Write one whole frame. Return its size; 0: what is to be sent does not fit AMQP (a string too long). */
size_t amqp_frame_method(uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel,
    amqp_method_number_t method, void *fields) __attribute__((warn_unused_result));
size_t amqp_frame_header(uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel, uint64_t body_size,
    amqp_basic_properties_t *properties) __attribute__((warn_unused_result));
/* At most AMQP_FRAME_MAX - AMQP_FRAME_AROUND bytes of a body. */
size_t amqp_frame_body(uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel, const void *body,
    size_t len) __attribute__((warn_unused_result));
size_t amqp_frame_heartbeat(uint8_t bytes[AMQP_FRAME_AROUND]);

/* Entries of a table; key and value are borrowed. */
amqp_table_entry_t amqp_entry_text(const char *key, const char *value);
amqp_table_entry_t amqp_entry_number(const char *key, int value);
amqp_table_entry_t amqp_entry_true(const char *key);

/* The broker's words as a string of ours: what is not printable ASCII becomes '?'. */
char *amqp_frame_words(amqp_bytes_t bytes);

#endif
