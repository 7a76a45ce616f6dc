/*
 * The connections of claims and holds by quorum. RabbitMQ can end one for one refused consume, with all its
 * holds, so holds are spread over several. This module owns them, counts the claims of each, and lets a
 * connection rest that nobody uses. It knows no beads.
 *
 * A channel that was closed keeps its consumer, and with it the slot, until RabbitMQ has closed it. If it is
 * silent for two heartbeats, its connection takes no more claims, and ends when no claim is left there. It ends
 * in any case after AMQP_QUORUM_STUCK_MOST, as the slot could not be had before.
 */
#ifndef BROKER_QUORUM_LINKS_H
#define BROKER_QUORUM_LINKS_H

#include "daemon/broker/broker.h"

#define AMQP_QUORUM_STUCK_MOST (300 * NSEC_PER_SEC)

struct amqp_channels;
struct amqp_link;
struct amqp_quorum_link;
struct amqp_quorum_links;
struct amqp_reconnector;
struct amqp_server;
struct state_reader;
struct state_writer;

struct amqp_quorum_links_events {
	/* As that of a link (link.h), with the broker. */
	char *(*vet)(void *ctx, const struct amqp_server *server);
	/* The connection is up. */
	void (*up)(void *ctx, const struct amqp_quorum_link *link);
	/* It ended, with its channels. Returns whether somebody waits for it. */
	bool (*down)(void *ctx, const struct amqp_quorum_link *link, const char *why);
	void *ctx;
};

struct amqp_quorum_links *amqp_quorum_links_new(
    struct broker *broker, const struct amqp_quorum_links_events *events); /* broker: borrowed */
/* Closes the connections for good. No event comes after this. */
void amqp_quorum_links_quit(struct amqp_quorum_links *links);
void amqp_quorum_links_free(struct amqp_quorum_links *links);
unsigned amqp_quorum_links_count(const struct amqp_quorum_links *links);
struct amqp_reconnector *amqp_quorum_links_reconnector(
    const struct amqp_quorum_links *links, enum broker_link which);

/* A new claim: the connection with the fewest. at_once: of those that are up, if one is. */
struct amqp_quorum_link *amqp_quorum_links_take(struct amqp_quorum_links *links, bool at_once);
/* A claim of an earlier program goes on at that connection. */
void amqp_quorum_link_enter(struct amqp_quorum_link *link);
/* The claim has closed its channel, and ends. */
void amqp_quorum_link_leave(struct amqp_quorum_link *link);
/* The connection is wanted up, at the host of the lock connection. */
void amqp_quorum_link_need(struct amqp_quorum_link *link);
struct amqp_channels *amqp_quorum_link_channels(const struct amqp_quorum_link *link);
/* NULL: it is not up. */
const struct amqp_link *amqp_quorum_link_up(const struct amqp_quorum_link *link);
unsigned amqp_quorum_link_number(const struct amqp_quorum_link *link); /* from 0 */
struct amqp_quorum_link *amqp_quorum_links_get(struct amqp_quorum_links *links, unsigned number);

/* The successor, as in reconnector.h: whether each connection that is up, and not over TLS, can be saved. */
bool amqp_quorum_link_is_tls(const struct amqp_quorum_link *link);
bool amqp_quorum_links_are_still(const struct amqp_quorum_links *links);
/* It is up. */
bool amqp_quorum_link_save(const struct amqp_quorum_link *link, struct state_writer *writer);
/*
 * number: below BROKER_QUORUM_MOST. The connection takes no new claims if the settings have fewer, and ends when it
 * is idle. NULL: the reader has the error.
 */
struct amqp_quorum_link *amqp_quorum_links_resume(
    struct amqp_quorum_links *links, unsigned number, struct state_reader *reader);

#endif
