/*
 * Keeps one of the two links: connects it, tries again with full-jitter backoff, and hands what it
 * carries to its channels. One try is a host. The lock connection is kept up from amqp_reconnector_start on,
 * going round the list of hosts; the auxiliary connection is connected when needed, to the host that it is told.
 */
#ifndef BROKER_RECONNECTOR_H
#define BROKER_RECONNECTOR_H

#include <stddef.h>

#include "daemon/base/backoff.h"
#include "daemon/broker/channel.h"

struct amqp_reconnector_events {
	/* As in daemon/amqp/link.h. */
	char *(*vet)(void *ctx, const struct amqp_server *server);
	void (*blocked)(void *ctx, enum broker_link which, bool blocked, const char *why);
	/* The channels have their link; state is set, not told yet. */
	void (*up)(void *ctx, enum broker_link which);
	/* State is set, not told yet; the channels' requests have been answered. */
	void (*down)(void *ctx, enum broker_link which);
	/* The state, or its reason, changed. */
	void (*changed)(
	    void *ctx, enum broker_link which, enum broker_state state, const char *why);
	/* broker.h, channel_closed */
	void (*channel_closed)(void *ctx, uint64_t channel, int code, const char *text);
	void *ctx;
};

struct amqp_reconnector_config {
	struct timers *timers; /* borrowed, as all here */
	const struct amqp_settings *settings;
	const struct amqp_dialer *dialer;
	struct jitter *jitter;
	enum broker_link which;
};

struct amqp_reconnector;

struct amqp_reconnector *amqp_reconnector_new(
    const struct amqp_reconnector_config *config, const struct amqp_reconnector_events *events);
void amqp_reconnector_free(struct amqp_reconnector *reconnector); /* NULL is fine */
/* Closes the link for good and calls nobody any more. */
void amqp_reconnector_quit(struct amqp_reconnector *reconnector);

/* Lock connection: connects, and keeps connected. */
void amqp_reconnector_start(struct amqp_reconnector *reconnector);
/* Auxiliary connection: connects when it is not, to the host of that place in the list. */
void amqp_reconnector_need(struct amqp_reconnector *reconnector, size_t host);
/* Auxiliary connection, up and unused: closes it politely. */
void amqp_reconnector_rest(struct amqp_reconnector *reconnector, const char *why);
/*
 * Ends the link, if there is one, and (auxiliary connection) any try to make one; `down` comes from the loop.
 * The lock connection is made anew after that.
 */
void amqp_reconnector_drop(struct amqp_reconnector *reconnector, const char *why);

struct amqp_channels *amqp_reconnector_channels(const struct amqp_reconnector *reconnector);
enum broker_state amqp_reconnector_state(const struct amqp_reconnector *reconnector);
const char *amqp_reconnector_why(const struct amqp_reconnector *reconnector); /* "" while UP */
/* Of the connection.close that ended the last link; 0 = there was none. */
int amqp_reconnector_code(const struct amqp_reconnector *reconnector);
size_t amqp_reconnector_host(
    const struct amqp_reconnector *reconnector); /* connected, or tried next */
bool amqp_reconnector_is_idle(
    const struct amqp_reconnector *reconnector); /* no link, and none is being made */
/* Of that host: host:port, as in a URL. Borrowed until the next call. */
const char *amqp_reconnector_host_text(struct amqp_reconnector *reconnector);
/* NULL unless UP. */
const struct amqp_link *amqp_reconnector_link(const struct amqp_reconnector *reconnector);
const struct amqp_counts *amqp_reconnector_counts(const struct amqp_reconnector *reconnector);

#endif
