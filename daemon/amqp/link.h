/*
 * One AMQP connection, as the users of its channels see it: methods out, frames in, and its end. There
 * are two kinds: over TCP (tcp.h), and to a server in memory (daemon/memory). Lives once: a link that
 * died is freed and a new one made. Knows no queues; what channels carry is daemon/broker's business.
 */
#ifndef AMQP_LINK_H
#define AMQP_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/amqp/frame.h"
#include "daemon/amqp/settings.h"
#include "daemon/base/timers.h"

/* Frames that links have sent and received, by kind: what tests and metrics read. */
struct amqp_counts {
	uint64_t sent_methods, sent_publishes, sent_consumes, received_methods;
	uint64_t flushes;    /* writes begun on an idle link */
	uint64_t deliveries; /* basic.deliver */
	uint64_t channels_opened, channels_closed_by_broker;
};

enum amqp_link_state {
	AMQP_LINK_STREAM,  /* lookup, TCP, TLS (stream.h) */
	AMQP_LINK_START,   /* protocol header sent, connection.start awaited */
	AMQP_LINK_TUNE,    /* start-ok sent, connection.tune awaited */
	AMQP_LINK_OPEN,    /* tune-ok and connection.open sent, open-ok awaited */
	AMQP_LINK_UP,      /* channels can be used */
	AMQP_LINK_CLOSING, /* connection.close sent, close-ok awaited; frames are ignored */
	AMQP_LINK_DEAD     /* nothing is sent or received any more; `dead` comes or came */
};

/* What the server says of itself; "" where it says nothing. */
struct amqp_server {
	char *product, *version, *cluster; /* owned */
	bool persistent;                   /* its durable queues outlive it */
	/* The server may delete an exclusive queue for an earlier one of its name (broker.h). */
	bool deletes_by_name;
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
	 * refused: the broker refused us in words (user, vhost, permission). code: of connection.close,
	 * 0 = there was none.
	 */
	void (*dead)(void *ctx, struct amqp_link *link, bool refused, int code, const char *why);
	void *ctx;
};

struct amqp_link_config {
	struct timers *timers; /* borrowed, as all here, for as long as the link lives */
	const struct amqp_settings *settings;
	const struct amqp_host *host;
	const char *name;  /* in the log: "lock connection" */
	bool queues_alone; /* it opens channels, declares and deletes queues, and nothing else */
	struct amqp_counts *counts;
};

/* What the two kinds do differently; called by this file alone, while the state allows it. */
struct amqp_link_ops {
	/* A method; false: it does not fit AMQP. */
	bool (*send)(
	    struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields);
	/* basic.publish with header and body; the same. */
	bool (*publish)(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
	    amqp_basic_properties_t *properties, amqp_bytes_t body);
	/* A method of the handshake came. False: it must not come now. */
	bool (*handshake)(struct amqp_link *link, const struct amqp_frame *frame);
	/* DEAD: nothing more goes out but what the way takes at once. */
	void (*shut_down)(struct amqp_link *link);
	/*
	 * `dead` is due. True: there is another way to the host, which is tried (state STREAM); never of a
	 * link that was dropped or refused.
	 */
	bool (*try_again)(struct amqp_link *link);
	void (*free)(struct amqp_link *link);
};

/* Each kind embeds it as its first member. */
struct amqp_link {
	const struct amqp_link_ops *ops;
	enum amqp_link_state state;
	struct amqp_link_config config;
	struct amqp_link_events events;
	struct amqp_server server;
	unsigned channel_max; /* while UP, as the next */
	int heartbeat;        /* seconds, negotiated */
	struct timer closing; /* CLOSING: it has lasted long enough */
	struct timer death;   /* at once, while `dead` is still to be told */
	bool dropped;         /* by its owner: nothing is tried again */
	bool refused;
	int code;
	char *why; /* owned; DEAD */
};

/* How links are made: the reconnector's way to either kind. */
struct amqp_dialer {
	/* Begins to connect. */
	struct amqp_link *(*connect)(void *ctx, const struct amqp_link_config *config,
	    const struct amqp_link_events *events);
	/* After its links. */
	void (*free)(void *ctx);
	void *ctx;
};

/* Ends it without a word to events, and frees it. NULL is fine. */
void amqp_link_free(struct amqp_link *link);

/* While UP, else nothing happens. A method that cannot be encoded kills the link. */
void amqp_link_send(
    struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields);
/* basic.publish, header and body. */
void amqp_link_publish(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body);

/* The broker did what it must not: ends the link. */
void amqp_link_fail(struct amqp_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Its owner does not want it any more; `dead` comes. */
void amqp_link_drop(struct amqp_link *link, const char *why);
/* Politely: connection.close, and `dead` after close-ok or a second. */
void amqp_link_close(struct amqp_link *link);
/* At once: connection.close is put on the wire if it takes it, `dead` does not come. */
void amqp_link_quit(struct amqp_link *link);

/* ---- for the two kinds ---- */

/* Its owner has zeroed it. */
void amqp_link_init(struct amqp_link *link, const struct amqp_link_ops *ops,
    const struct amqp_link_config *config, const struct amqp_link_events *events);
void amqp_link_done(struct amqp_link *link);
/* Step by step up to CLOSING. Any state may die; where there is another way, STREAM follows DEAD. */
void amqp_link_set_state(struct amqp_link *link, enum amqp_link_state state);
const char *amqp_link_state_word(enum amqp_link_state state); /* static */
/* UP, and told so. */
void amqp_link_is_up(struct amqp_link *link);
/* DEAD: `dead` is told now and not from the loop. The link may be gone after. */
void amqp_link_tell_death(struct amqp_link *link);
/* Takes why. */
void amqp_link_die(struct amqp_link *link, char *why);
/* A frame came. */
void amqp_link_take(struct amqp_link *link, const struct amqp_frame *frame);
void amqp_server_done(struct amqp_server *server); /* zeroed is fine */

#endif
