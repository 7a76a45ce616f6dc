/*
 * A stream of bytes to a host. It looks up the name, and tries each address in turn until one
 * accepts the connection. TLS comes on top if it is wanted. The result is a bufferevent that the
 * owner reads and writes, or a text that says what failed. Another stream can then try the
 * remaining addresses. The stream owns lookup, socket and bufferevent. It knows no AMQP, and of
 * deadlines only its patience. SIGPIPE must be ignored.
 */
#ifndef AMQP_STREAM_H
#define AMQP_STREAM_H

#include <stdint.h>

#include <openssl/ssl.h>

#include "daemon/state/state.h"

struct addrinfo;
struct bufferevent;
struct evbuffer;
struct event_base;

enum amqp_stream_state {
	AMQP_STREAM_RESOLVING,  /* the lookup is running */
	AMQP_STREAM_CONNECTING, /* the socket of the current address is connecting */
	AMQP_STREAM_TLS,        /* connected; the TLS handshake is running */
	AMQP_STREAM_READY,      /* bytes flow both ways */
	AMQP_STREAM_DEAD        /* failed or shut down; no callback comes */
};

struct amqp_stream_events {
	void (*ready)(void *ctx);
	/*
	 * More bytes are in `in`; the callback removes those it can use. It may shut the stream
	 * down, but not free it.
	 */
	void (*bytes)(void *ctx, struct evbuffer *in);
	void (*failed)(void *ctx, const char *why);
	void *ctx; /* borrowed */
};

struct amqp_stream;

/*
 * host: borrowed for the life of the stream. addresses: the remaining ones of an earlier stream,
 * owned from now on; NULL: host is looked up. tls: borrowed; NULL: plain TCP. patience: ns, divided
 * among the addresses, so that one that never answers leaves time for the next. No callback comes
 * from inside this call.
 */
struct amqp_stream *amqp_stream_new(struct event_base *base, const char *host, int port,
    struct addrinfo *addresses, SSL_CTX *tls, int64_t patience,
    const struct amqp_stream_events *events);
/*
 * A stream whose socket was connected by an earlier program, without TLS. It is READY, and the event
 * `ready` does not come. In another state: memory ran out, and the event `failed` does not come.
 * fd: owned from now on. input: bytes that had arrived.
 */
struct amqp_stream *amqp_stream_resume(struct event_base *base, const char *host, int fd,
    const struct state_bytes *input, const struct amqp_stream_events *events);
/*
 * The socket of a stream that is READY, after a flush. *ret_input and *ret_output are the bytes that
 * nobody has taken, borrowed until the next call. -1: the stream is not READY, or is over TLS.
 */
int amqp_stream_save(
    struct amqp_stream *stream, struct state_bytes *ret_input, struct state_bytes *ret_output);
/* Not from inside a callback. */
void amqp_stream_free(struct amqp_stream *stream);
/*
 * Returns the addresses after the present or last one; the caller owns them. NULL: there is none.
 */
struct addrinfo *amqp_stream_take_rest(struct amqp_stream *stream);
enum amqp_stream_state amqp_stream_state(const struct amqp_stream *stream);
const char *amqp_stream_state_name(enum amqp_stream_state state); /* static */
/* While READY. Appended bytes go out with amqp_stream_flush(); over TLS the loop sends them. */
struct evbuffer *amqp_stream_output(struct amqp_stream *stream);
/* Writes all output at once, for the end of a pass. The loop writes what the socket does not take. */
void amqp_stream_flush(struct amqp_stream *stream);
/* Writes the bytes that the socket takes at once, then shuts it down. */
void amqp_stream_shutdown(struct amqp_stream *stream);

#endif
