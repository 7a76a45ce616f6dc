/*
 * Keeps one of the two links: connects it, tries again with full-jitter backoff, and hands what it
 * carries to its channels. One try is a host. The lock connection is kept up from amqp_keeper_keep on, going round
 * the list of hosts; the auxiliary connection is connected when needed, to the host that it is told.
 */
#ifndef BROKER_KEEPER_H
#define BROKER_KEEPER_H

#include <stddef.h>

#include "daemon/base/backoff.h"
#include "daemon/broker/channel.h"

struct amqp_keeper_events {
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

struct amqp_keeper_config {
	struct timers *timers; /* borrowed, as all here */
	const struct amqp_settings *settings;
	const struct amqp_dialer *dialer;
	struct jitter *jitter;
	enum broker_link which;
};

struct amqp_keeper;

struct amqp_keeper *amqp_keeper_new(
    const struct amqp_keeper_config *config, const struct amqp_keeper_events *events);
void amqp_keeper_free(struct amqp_keeper *keeper); /* NULL is fine */
/* Closes the link for good and calls nobody any more. */
void amqp_keeper_quit(struct amqp_keeper *keeper);

/* Lock connection: connects, and keeps connected. */
void amqp_keeper_keep(struct amqp_keeper *keeper);
/* Auxiliary connection: connects when it is not, to the host of that place in the list. */
void amqp_keeper_need(struct amqp_keeper *keeper, size_t host);
/* Auxiliary connection, up and unused: closes it politely. */
void amqp_keeper_rest(struct amqp_keeper *keeper, const char *why);
/*
 * Ends the link, if there is one, and (auxiliary connection) any try to make one; `down` comes from the loop.
 * The lock connection is made anew after that.
 */
void amqp_keeper_drop(struct amqp_keeper *keeper, const char *why);

struct amqp_channels *amqp_keeper_channels(const struct amqp_keeper *keeper);
enum broker_state amqp_keeper_state(const struct amqp_keeper *keeper);
const char *amqp_keeper_why(const struct amqp_keeper *keeper); /* "" while UP */
/* Of the connection.close that ended the last link; 0 = there was none. */
int amqp_keeper_code(const struct amqp_keeper *keeper);
size_t amqp_keeper_host(const struct amqp_keeper *keeper);  /* connected, or tried next */
bool amqp_keeper_is_idle(const struct amqp_keeper *keeper); /* no link, and none is being made */
/* Of that host: host:port, as in a URL. Borrowed until the next call. */
const char *amqp_keeper_host_text(struct amqp_keeper *keeper);
/* NULL unless UP. */
const struct amqp_link *amqp_keeper_link(const struct amqp_keeper *keeper);
const struct amqp_counts *amqp_keeper_counts(const struct amqp_keeper *keeper);

#endif
