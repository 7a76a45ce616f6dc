/*
 * A stream of bytes to a host: the name looked up, each of its addresses tried in turn until one takes
 * the connection, TLS on top when asked for. Ends in a bufferevent that its owner reads and writes, or in
 * words that say what failed; then the addresses behind that one are for another stream.
 * Owns lookup, socket and bufferevent; knows no AMQP and no deadlines. Relies on SIGPIPE being ignored.
 */
#ifndef AMQP_STREAM_H
#define AMQP_STREAM_H

#include <stdint.h>

#include <openssl/ssl.h>

struct addrinfo;
struct bufferevent;
struct evbuffer;
struct event_base;

enum amqp_stream_state {
	AMQP_STREAM_RESOLVING,  /* lookup is under way */
	AMQP_STREAM_CONNECTING, /* the socket of the current address is connecting */
	AMQP_STREAM_TLS,        /* connected; the bufferevent shakes hands */
	AMQP_STREAM_READY,      /* bytes go both ways */
	AMQP_STREAM_DEAD        /* failed or shut down; nothing is called any more */
};

struct amqp_stream_events {
	void (*ready)(void *ctx);
	/* There is more in `in`; takes what it can use. May shut the stream down, not free it. */
	void (*bytes)(void *ctx, struct evbuffer *in);
	void (*failed)(void *ctx, const char *why);
	void *ctx; /* borrowed */
};

struct amqp_stream;

/*
 * host: borrowed for as long as the stream lives; addresses: what an earlier stream left of its
 * addresses, taken, NULL = it is looked up; tls: borrowed, NULL = plain TCP. patience: ns, shared out
 * among the addresses, so that one that never answers leaves time for the next. No call of events from
 * here.
 */
struct amqp_stream *amqp_stream_new(struct event_base *base, const char *host, int port,
    struct addrinfo *addresses, SSL_CTX *tls, int64_t patience,
    const struct amqp_stream_events *events);
/* Not from inside a call of events. */
void amqp_stream_free(struct amqp_stream *stream);
/* Those behind the one that it is, or was, connected to: the caller's. NULL: there is none. */
struct addrinfo *amqp_stream_take_rest(struct amqp_stream *stream);
enum amqp_stream_state amqp_stream_state(const struct amqp_stream *stream);
const char *amqp_stream_state_name(enum amqp_stream_state state); /* static */
/* What is appended goes out in one write at the end of the loop's pass. Only while READY. */
struct evbuffer *amqp_stream_output(struct amqp_stream *stream);
/* Writes what the socket takes at once, then shuts it down. */
void amqp_stream_shutdown(struct amqp_stream *stream);

#endif
