/*
 * One AMQP connection, as the users of its channels see it: methods out, frames in, and its end.
 * There are two kinds: over TCP (tcp.h), and to the server in memory (daemon/memory). A link lives
 * once: a dead link is freed, and a new one is made. It owns the connection and its state. It knows
 * no queues, and leaves the use of channels to daemon/broker.
 */
#ifndef AMQP_LINK_H
#define AMQP_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/amqp/frame.h"
#include "daemon/amqp/settings.h"
#include "daemon/base/timers.h"
#include "daemon/state/state.h"

/* Counts of frames that links sent and received, by kind, for tests and metrics. */
struct amqp_counts {
	uint64_t sent_methods, sent_publishes, sent_consumes, received_methods;
	uint64_t flushes;    /* writes that began on an idle link */
	uint64_t deliveries; /* basic.deliver */
	uint64_t channels_opened, channels_closed_by_broker;
};

enum amqp_link_state {
	AMQP_LINK_STREAM, /* lookup, TCP, TLS (stream.h) */
	AMQP_LINK_START,  /* protocol header sent, waiting for connection.start */
	AMQP_LINK_TUNE,   /* start-ok sent, waiting for connection.tune */
	AMQP_LINK_OPEN,   /* tune-ok and connection.open sent, waiting for open-ok */
	AMQP_LINK_UP,     /* its channels can be used */
	/* connection.close sent, waiting for close-ok; other frames are ignored */
	AMQP_LINK_CLOSING,
	AMQP_LINK_DEAD /* nothing is sent or received; `dead` will be called, or was */
};

/* The server's description of itself. A missing text is "". */
struct amqp_server {
	char *product, *version, *cluster; /* owned */
	bool persistent;                   /* its durable queues outlive it */
	/* the server may delete a new exclusive queue for an old one of its name (broker.h) */
	bool deletes_by_name;
	/* the server returns messages to a durable queue whose node is down, as if it did not exist */
	bool hides_queues;
};

struct amqp_link;

/*
 * The event loop calls them, never a function below. The link may be freed only in `dead`, and
 * outside of these callbacks.
 */
struct amqp_link_events {
	/*
	 * The server described itself, and the login is not sent yet. Returns NULL to continue, or
	 * the reason against it (malloc'ed).
	 */
	char *(*vet)(void *ctx, const struct amqp_server *server);
	void (*up)(void *ctx);
	/* A frame of a channel other than 0. */
	void (*frame)(void *ctx, const struct amqp_frame *frame);
	void (*blocked)(void *ctx, bool blocked, const char *why);
	/*
	 * The link ended, and is not tried again. refused: the broker refused the login in words
	 * (user, vhost, permission). code: of connection.close, 0 = there was none.
	 */
	void (*dead)(void *ctx, struct amqp_link *link, bool refused, int code, const char *why);
	void *ctx;
};

/* The purpose of the link decides which methods it may send. */
enum amqp_link_role {
	AMQP_LINK_AUXILIARY, /* everything */
	AMQP_LINK_LOCKS, /* it declares, deletes and consumes from queues, and never publishes */
	AMQP_LINK_QUORUM /* it consumes, and acknowledges and rejects messages */
};

struct amqp_link_config {
	struct timers *timers; /* borrowed for the life of the link, as all here */
	const struct amqp_settings *settings;
	const struct amqp_host *host;
	int64_t until;    /* clock time: no address is tried after it; 0: there is no limit */
	const char *name; /* in the log: "lock connection" */
	enum amqp_link_role role;
	unsigned number; /* among the links of its role, from 0 on */
	struct amqp_counts *counts;
};

/* A link that is UP, as its successor in the next program takes it over. */
struct amqp_link_saved {
	int fd;              /* over TCP: the socket, which the link keeps; else -1 */
	uint64_t connection; /* to the server in memory: its number; else 0 */
	int channel_max, frame_max, heartbeat;
	/* Part of a frame that has arrived, and bytes that the socket has not taken. Borrowed. */
	struct state_bytes input, output;
};

/* The operations of a kind of link. Only link.c calls them, and only in a state that allows it. */
struct amqp_link_ops {
	/* Sends a method. False: a string is too long for AMQP. */
	bool (*send)(
	    struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields);
	/* Sends basic.publish with header and body. False as above. */
	bool (*publish)(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
	    amqp_basic_properties_t *properties, amqp_bytes_t body);
	/* Takes a method of the handshake. False: it must not come now. */
	bool (*handshake)(struct amqp_link *link, const struct amqp_frame *frame);
	/* The link is DEAD: the kind sends only the bytes that its transport takes at once. */
	void (*shut_down)(struct amqp_link *link);
	/*
	 * Before `dead`. True: another address of the host is tried (state STREAM). A link that was
	 * dropped or refused is not tried again.
	 */
	bool (*try_again)(struct amqp_link *link);
	/* The link is UP. False: it cannot be taken over, as it is over TLS. */
	bool (*save)(struct amqp_link *link, struct amqp_link_saved *ret);
	void (*free)(struct amqp_link *link);
};

/* Each kind embeds it as the first member. */
struct amqp_link {
	const struct amqp_link_ops *ops;
	enum amqp_link_state state;
	struct amqp_link_config config;
	struct amqp_link_events events;
	struct amqp_server server;
	unsigned channel_max; /* while UP, as heartbeat */
	int heartbeat;        /* seconds, negotiated */
	int64_t last_read;    /* clock time of the last received byte; 0: over memory */
	struct timer closing; /* CLOSING: the limit of its duration */
	struct timer death;   /* due at once; set until `dead` is called */
	bool dropped;         /* by its owner: no address is tried again */
	bool refused;
	int code;
	char *why; /* owned; DEAD */
};

/* Makes links of one kind, for the reconnector. */
struct amqp_dialer {
	/* Makes a link, which begins to connect. */
	struct amqp_link *(*connect)(void *ctx, const struct amqp_link_config *config,
	    const struct amqp_link_events *events);
	/*
	 * Takes over a link of an earlier program. It is UP, and the event `up` does not come. The
	 * socket is owned from now on. The link has no server yet: the caller sets it. NULL: the
	 * saved values are invalid, or the connection is gone.
	 */
	struct amqp_link *(*resume)(void *ctx, const struct amqp_link_config *config,
	    const struct amqp_link_events *events, const struct amqp_link_saved *saved);
	/* Sends what its links have put, for the end of a pass. NULL: they send at once. */
	void (*flush)(void *ctx);
	/* After all its links are freed. */
	void (*free)(void *ctx);
	void *ctx;
};

/* Ends the link without an event, and frees it. NULL is fine. */
void amqp_link_free(struct amqp_link *link);

/* Sends a method. Does nothing unless UP. A method that cannot be encoded ends the link. */
void amqp_link_send(
    struct amqp_link *link, uint16_t channel, amqp_method_number_t method, void *fields);
/* Sends basic.publish, header and body, in the same way. */
void amqp_link_publish(struct amqp_link *link, uint16_t channel, amqp_basic_publish_t *fields,
    amqp_basic_properties_t *properties, amqp_bytes_t body);

/* Ends the link, as the broker broke the protocol. `dead` comes from the loop. */
void amqp_link_fail(struct amqp_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the link for its owner. `dead` comes from the loop. */
void amqp_link_drop(struct amqp_link *link, const char *why);
/* Sends connection.close. `dead` comes after close-ok, or after one second. */
void amqp_link_close(struct amqp_link *link);
/* Ends the link at once, without `dead`. connection.close is sent if the socket takes it. */
void amqp_link_quit(struct amqp_link *link);

/* For the successor. False: the link is not UP, or is over TLS. The link goes on. */
bool amqp_link_save(struct amqp_link *link, struct amqp_link_saved *ret);

/* ---- for the two kinds ---- */

/* link: zeroed. */
void amqp_link_init(struct amqp_link *link, const struct amqp_link_ops *ops,
    const struct amqp_link_config *config, const struct amqp_link_events *events);
void amqp_link_done(struct amqp_link *link);
/* After amqp_link_init(): the link is UP, as it was in an earlier program. */
void amqp_link_resume(struct amqp_link *link, const struct amqp_link_saved *saved);
/*
 * States follow in their order up to CLOSING. DEAD may follow each. STREAM follows DEAD for another
 * address.
 */
void amqp_link_set_state(struct amqp_link *link, enum amqp_link_state state);
const char *amqp_link_state_word(enum amqp_link_state state); /* static */
/* Sets the state UP, and calls `up`. */
void amqp_link_is_up(struct amqp_link *link);
/* In state DEAD: calls `dead` now, instead of from the loop. The link may be freed after it. */
void amqp_link_tell_death(struct amqp_link *link);
/* Sets the state DEAD; `dead` comes from the loop. why: owned from now on. */
void amqp_link_die(struct amqp_link *link, char *why);
/* Takes a frame that arrived. */
void amqp_link_take(struct amqp_link *link, const struct amqp_frame *frame);
void amqp_server_done(struct amqp_server *server); /* a zeroed one is fine */

#endif
