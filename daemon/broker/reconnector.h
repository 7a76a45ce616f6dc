/*
 * The broker's connections: each is made, and made again when it has ended. The auxiliary connection is made on
 * demand. It owns the link and the channels of each, and their records for a successor. It knows no
 * locks, no queues, and no uses of a connection.
 */
#ifndef BROKER_RECONNECTOR_H
#define BROKER_RECONNECTOR_H

#include <stddef.h>

#include "daemon/broker/channel.h"

struct amqp_reconnector;
struct broker;
struct state_reader;
struct state_writer;

/*
 * A reconnector connects one connection, and again when it ended, with full-jitter backoff. It passes the
 * link's frames to the channels. Each try is for one host. From amqp_reconnector_start() on, the lock
 * connection is kept up, on each host of the list in turn. All others are connected on request, to a given
 * host.
 */

struct amqp_reconnector_events {
	/* As in daemon/amqp/link.h, with the connection that it is about. */
	char *(*vet)(void *ctx, const struct amqp_server *server);
	/* NULL: ignored, as `changed`. */
	void (*blocked)(void *ctx, enum broker_link which, bool blocked, const char *why);
	/* The link is up, and attached to its channels. If the state is news, `changed` follows. */
	void (*up)(void *ctx, enum broker_link which);
	/*
	 * The link ended, and the requests of its channels are answered. If the state is news,
	 * `changed` follows.
	 */
	void (*down)(void *ctx, enum broker_link which);
	/* The state, or its reason, changed. */
	void (*changed)(
	    void *ctx, enum broker_link which, enum broker_state state, const char *why);
	void *ctx;
};

struct amqp_reconnector *amqp_reconnector_new(struct broker *broker, enum broker_link which,
    const struct amqp_reconnector_events *events);                /* broker: borrowed */
void amqp_reconnector_free(struct amqp_reconnector *reconnector); /* NULL is fine */
/* Closes the link for good. No event comes after this. */
void amqp_reconnector_quit(struct amqp_reconnector *reconnector);

/* Lock connection: connects, and keeps it connected. */
void amqp_reconnector_start(struct amqp_reconnector *reconnector);
/* Lock connection: whether it is up, and all its requests are answered. */
bool amqp_reconnector_is_still(const struct amqp_reconnector *reconnector);
/* It is still: writes its records. False: the link is over TLS. */
bool amqp_reconnector_save(struct amqp_reconnector *reconnector, struct state_writer *writer);
/*
 * Instead of amqp_reconnector_start(): reads these records, and goes on with the connection. `up`
 * and `changed` come from inside. False: the reader has the error.
 */
bool amqp_reconnector_resume(struct amqp_reconnector *reconnector, struct state_reader *reader);
/* Auxiliary connection: connects if it is not connected. host: index in the list of hosts. */
void amqp_reconnector_need(struct amqp_reconnector *reconnector, size_t host);
/* Auxiliary connection, up and unused: closes it with connection.close. */
void amqp_reconnector_rest(struct amqp_reconnector *reconnector, const char *why);
/*
 * Ends the link, if there is one. Of the auxiliary connection it also ends a try to connect. The lock
 * connection is then connected again. Returns whether there was a link: `down` then comes from the loop.
 */
bool amqp_reconnector_drop(struct amqp_reconnector *reconnector, const char *why);

struct amqp_channels *amqp_reconnector_channels(const struct amqp_reconnector *reconnector);
enum broker_state amqp_reconnector_state(const struct amqp_reconnector *reconnector);
const char *amqp_reconnector_why(const struct amqp_reconnector *reconnector); /* "" while UP */
/* The code of the connection.close that ended the last link; 0 = there was none. */
int amqp_reconnector_code(const struct amqp_reconnector *reconnector);
size_t amqp_reconnector_host(
    const struct amqp_reconnector *reconnector); /* index of the host: connected, or tried next */
bool amqp_reconnector_is_idle(const struct amqp_reconnector *reconnector); /* no link, and no try */
/* The link to that host is over TLS: a successor cannot take it over. */
bool amqp_reconnector_is_tls(const struct amqp_reconnector *reconnector);
/* That host as host:port, as in a URL. Borrowed until the next call. */
const char *amqp_reconnector_host_text(struct amqp_reconnector *reconnector);
/* NULL unless BROKER_UP. */
const struct amqp_link *amqp_reconnector_link(const struct amqp_reconnector *reconnector);
const struct amqp_counts *amqp_reconnector_counts(const struct amqp_reconnector *reconnector);
/* How often the link came up again after it had ended unexpectedly. */
uint64_t amqp_reconnector_count(const struct amqp_reconnector *reconnector);

/*
 * The auxiliary connection on demand. Each use of it is announced here. It is brought up to the host
 * of the lock connection, and rests when it was not used for a while (broker.c).
 */

/* Brings it up, unless the broker is stopped. */
void amqp_auxiliary_need(struct broker *broker);
/* It was used until now, so that it rests later. */
void amqp_auxiliary_use(struct broker *broker);

#endif
