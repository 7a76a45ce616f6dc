/*
 * Frames of AMQP 0-9-1 as bytes. rabbitmq-c is the codec of their payloads. This module finds the
 * bounds of a frame and checks its size, before a byte of it reaches the codec. It owns the state
 * of the codec. It knows no sockets, and of the states of a connection only one: the first frame
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

/*
 * The frame size that the daemon asks for. No method of the daemon needs nearly as much, and it is
 * small enough for many channels.
 */
#define AMQP_FRAME_MAX 8192
/*
 * The limit before connection.tune. rabbitmq-c 0.11 recurses into nested tables without a limit of
 * its own.
 */
#define AMQP_FRAME_MAX_UNTUNED 16384

struct amqp_frame {
	int type; /* AMQP_FRAME_METHOD, _HEADER, _BODY, _HEARTBEAT */
	uint16_t channel;
	amqp_method_number_t method; /* AMQP_FRAME_METHOD */
	/*
	 * Decoded: the struct of a method, or the amqp_basic_properties_t of a header. Valid until
	 * the next frame.
	 */
	const void *fields;
	uint64_t body_size; /* _HEADER: bytes that the _BODY frames will have */
	amqp_bytes_t body;  /* _BODY; valid until the next frame */
};

enum amqp_decoder_status {
	AMQP_DECODER_MORE, /* the frame is not complete yet */
	AMQP_DECODER_FRAME,
	AMQP_DECODER_BAD /* not AMQP, or not acceptable: final. See amqp_decoder_why() */
};

struct amqp_decoder;

struct amqp_decoder *amqp_decoder_new(void);
void amqp_decoder_free(struct amqp_decoder *decoder); /* NULL is fine */
/* Sets the limits of connection.tune, in channels and bytes. It invalidates the last frame. */
void amqp_decoder_tune(struct amqp_decoder *decoder, int channel_max, int frame_max);
/* The first frame came in an earlier program, with these limits. Before the first frame here. */
void amqp_decoder_resume(struct amqp_decoder *decoder, int channel_max, int frame_max);
/* FRAME: the frame at `bytes` has *ret_size bytes in all. MORE: `len` bytes are too few to know. */
enum amqp_decoder_status amqp_decoder_size(struct amqp_decoder *decoder, const uint8_t *bytes,
    size_t len, size_t *ret_size) __attribute__((warn_unused_result));
/*
 * Decodes one whole frame of `size` bytes: FRAME or BAD. It overwrites the channel number in
 * `bytes`.
 */
enum amqp_decoder_status amqp_decoder_take(struct amqp_decoder *decoder, uint8_t *bytes,
    size_t size, struct amqp_frame *ret) __attribute__((warn_unused_result));
/* Makes the decoder BAD for good. The reason is a static text and a figure. Returns BAD. */
enum amqp_decoder_status amqp_decoder_spoil(
    struct amqp_decoder *decoder, const char *what, size_t figure);
const char *amqp_decoder_why(const struct amqp_decoder *decoder);

/* Bytes of a frame besides its payload. */
#define AMQP_FRAME_AROUND 8

/* Write one whole frame. Return its size in bytes; 0: a string is too long for AMQP. */
size_t amqp_frame_method(uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel,
    amqp_method_number_t method, void *fields) __attribute__((warn_unused_result));
size_t amqp_frame_header(uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel, uint64_t body_size,
    amqp_basic_properties_t *properties) __attribute__((warn_unused_result));
/* len: at most AMQP_FRAME_MAX - AMQP_FRAME_AROUND. */
size_t amqp_frame_body(uint8_t bytes[AMQP_FRAME_MAX], uint16_t channel, const void *body,
    size_t len) __attribute__((warn_unused_result));
size_t amqp_frame_heartbeat(uint8_t bytes[AMQP_FRAME_AROUND]);

/* Make one entry of a table. key and value are borrowed. */
amqp_table_entry_t amqp_entry_text(const char *key, const char *value);
amqp_table_entry_t amqp_entry_number(const char *key, int value);
amqp_table_entry_t amqp_entry_true(const char *key);

/* The broker's words as a malloc'ed string. Each byte that is not printable ASCII becomes '?'. */
char *amqp_frame_words(amqp_bytes_t bytes);

#endif
