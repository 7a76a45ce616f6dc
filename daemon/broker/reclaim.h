/*
 * The connections of holds by quorum, and the reclaims of those that did not end cleanly. It owns
 * both. It knows no claims: quorum.c has them.
 */
#ifndef BROKER_RECLAIM_H
#define BROKER_RECLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/beads.h"
#include "daemon/broker/broker.h"

struct amqp_channels;
struct amqp_link;
struct amqp_quorum_link;
struct amqp_quorum_links;
struct amqp_reclaims;
struct amqp_reconnector;
struct amqp_server;
struct broker;
struct state_reader;
struct state_writer;

/*
 * Holds by quorum that did not end cleanly, or that go on without their channel (rule 8). Of each, this module
 * keeps what is known of its beads, and whether its holder has stopped. It says when a reclaim is tried, and
 * tries again after a failure. Before each attempt it looks whether the beads are ready (rule 3): RabbitMQ can
 * end a connection that consumes from a queue without a leader. It knows no channel: quorum.c makes the attempts.
 *
 *	WORKING ----------> READY ---------> TRYING ---> gone: the slot is clean or held, or was used
 *	    has stopped,      ^                |
 *	    or the hold goes on                |
 *	                      +--- RESTING <---+ nothing was seen
 *
 * The table has one hold for each queue, the newest. Each is forgotten after AMQP_RECLAIM_KEPT: then the next
 * holder waits for T. An attempt of a hold that is forgotten has no effect on the table.
 */

#define AMQP_RECLAIM_KEPT (600 * NSEC_PER_SEC)

/* Makes an attempt, whose end is reported by amqp_reclaims_tried(). Strings are borrowed. */
typedef void amqp_reclaims_try(
    void *ctx, uint64_t id, const char *queue, const struct beads_memory *memory);

struct amqp_reclaims *amqp_reclaims_new(
    struct broker *broker, amqp_reclaims_try *try_one, void *ctx); /* broker: borrowed */
void amqp_reclaims_free(struct amqp_reclaims *reclaims);           /* NULL is fine */

/*
 * id: of the hold. stopped: its holder uses the slot no more, or there was none. If the memory says that the
 * hold goes on, `stopped` is ignored. The same hold can be added again.
 */
void amqp_reclaims_add(struct amqp_reclaims *reclaims, uint64_t id, const char *queue,
    const struct beads_memory *memory, bool stopped);
/* Its holder has stopped. Returns the queue (valid until the next call), or NULL: it is not known. */
const char *amqp_reclaims_stopped(struct amqp_reclaims *reclaims, uint64_t id);
/* The memory of the last hold of that queue, if its holder has stopped; or NULL. */
const struct beads_memory *amqp_reclaims_find(
    const struct amqp_reclaims *reclaims, const char *queue);
/* The slot is granted, or is clean. */
void amqp_reclaims_forget(struct amqp_reclaims *reclaims, const char *queue);
enum amqp_reclaim_result {
	AMQP_RECLAIM_OVER,     /* there will be no other attempt */
	AMQP_RECLAIM_BUSY,     /* no beads came */
	AMQP_RECLAIM_UNREACHED /* there was no connection, or it ended */
};
/* An attempt has ended. */
void amqp_reclaims_tried(
    struct amqp_reclaims *reclaims, uint64_t id, enum amqp_reclaim_result result);
/* A connection is back: those that rest are tried now. */
void amqp_reclaims_wake(struct amqp_reclaims *reclaims);
/* Those that are tried for the first time, or will be at once. */
size_t amqp_reclaims_fresh(const struct amqp_reclaims *reclaims);

/* The successor tries all whose holders have stopped. Holds that go on are not saved here. */
bool amqp_reclaims_any(const struct amqp_reclaims *reclaims);
void amqp_reclaims_save(const struct amqp_reclaims *reclaims, struct state_writer *writer);
/* A claim that ends with this program. It was not answered, so it has no holder. */
void amqp_reclaims_save_claim(const struct amqp_reclaims *reclaims, struct state_writer *writer,
    uint64_t id, const char *queue, const struct beads_memory *memory);
/* False: the reader has the error. */
bool amqp_reclaims_restore(struct amqp_reclaims *reclaims, struct state_reader *reader)
    __attribute__((warn_unused_result));

/*
 * The connections of claims and holds by quorum. RabbitMQ can end one for one refused consume, with all its
 * holds, so holds are spread over several. This module owns them, counts the claims of each, and lets a
 * connection rest that nobody uses. It knows no beads.
 *
 * A channel that was closed keeps its consumer, and with it the slot, until RabbitMQ has closed it. If it is
 * silent for two heartbeats, its connection takes no more claims, and ends when no claim is left there. It ends
 * in any case after AMQP_QUORUM_STUCK_MOST, as the slot could not be had before.
 */

#define AMQP_QUORUM_STUCK_MOST (300 * NSEC_PER_SEC)

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
