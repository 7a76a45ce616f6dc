/*
 * One AMQP connection: stream, handshake, heartbeat, close; methods of its channels out, frames of its
 * channels in. Lives once: a link that died is freed and a new one made. Knows no queues; what channels
 * carry is amqp_lane's business.
 */
#ifndef BROKER_AMQP_LINK_H
#define BROKER_AMQP_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "daemon/base/timers.h"
#include "daemon/broker/amqp_broker.h"
#include "daemon/broker/amqp_frame.h"
#include "daemon/broker/amqp_login.h"

struct addrinfo;

enum amqp_link_state {
	AMQP_LINK_STREAM,  /* lookup, TCP, TLS (amqp_stream) */
	AMQP_LINK_START,   /* protocol header sent, connection.start awaited */
	AMQP_LINK_TUNE,    /* start-ok sent, connection.tune awaited */
	AMQP_LINK_OPEN,    /* tune-ok and connection.open sent, open-ok awaited */
	AMQP_LINK_UP,      /* channels can be used */
	AMQP_LINK_CLOSING, /* connection.close sent, close-ok awaited; frames are ignored */
	AMQP_LINK_DEAD     /* nothing is sent or received any more; `dead` comes or came */
};

struct amqp_link;

/* All from the loop, never from inside a call. The link may be freed only in `dead` and outside. */
struct amqp_link_events {
	/* The server has said who it is, login not sent yet. NULL, or why not to go on (malloc'ed). */
	char *(*vet)(void *ctx, const struct amqp_server *server);
	void (*up)(void *ctx);
	/* Not of channel 0. */
	void (*frame)(void *ctx, const struct amqp_frame *frame);
	void (*blocked)(void *ctx, bool blocked, const char *why);
	/*
	 * denied: the broker refused us in words (user, vhost, permission). code: of connection.close,
	 * 0 = there was none.
	 */
	void (*dead)(void *ctx, struct amqp_link *link, bool denied, int code, const char *why);
	void *ctx;
};

struct amqp_link_config {
	struct event_base *base; /* borrowed, as all here, for as long as the link lives */
	struct timers *timers;
	const struct amqp_settings *settings;
	const struct amqp_host *host;
	struct addrinfo *addresses; /* taken; of the host; NULL: they are looked up */
	SSL_CTX *tls;               /* NULL = plain */
	enum broker_link which;     /* the hold link refuses to publish and consume */
	struct amqp_counts *counts;
};

/* Begins to connect. */
struct amqp_link *amqp_link_new(
    const struct amqp_link_config *config, const struct amqp_link_events *events);
/* Writes what the socket takes and closes it, without a word to events. NULL is fine. */
void amqp_link_free(struct amqp_link *link);

/* The host's addresses that were not tried: the caller's. NULL: there is none. */
struct addrinfo *amqp_link_take_rest(struct amqp_link *link);

enum amqp_link_state amqp_link_state(const struct amqp_link *link);
const struct amqp_server *amqp_link_server(const struct amqp_link *link);
unsigned amqp_link_channel_max(const struct amqp_link *link); /* while UP */
int amqp_link_heartbeat(const struct amqp_link *link);        /* seconds, negotiated; while UP */

/* While UP, else nothing happens. A method that cannot be encoded kills the link. */
void amqp_link_send(
    struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields);
/* basic.publish, header and body. */
void amqp_link_publish(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body);

/* The broker did what it must not: ends the link. */
void amqp_link_fail(struct amqp_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Politely: connection.close, and `dead` after close-ok or a second. */
void amqp_link_close(struct amqp_link *link);
/* At once: connection.close is put on the wire if it takes it, `dead` does not come. */
void amqp_link_quit(struct amqp_link *link);

#endif
