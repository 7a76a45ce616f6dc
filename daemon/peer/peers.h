/*
 * All local peers: found by id, and visited and freed after each pass of the loop. Users take
 * turns, so a user with many conns gets no more turns than a user with one. Owns the conns, their
 * room and the users' accounts.
 */
#ifndef PEER_PEERS_H
#define PEER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/peer/conn.h"

/* The minimum for peers_set_descriptors(). */
#define PEERS_DESCRIPTORS_MIN 128

struct peers;

struct peers *peers_new(struct event_base *base, const struct conn_handler *handler);
/* Calls `gone` for each peer that is left. */
void peers_free(struct peers *peers);
/*
 * The limits also apply to present peers; the limit of connections only to new ones. max_requests:
 * of each peer.
 */
void peers_set_limits(
    struct peers *peers, size_t max_requests, const struct account_limits *limits);

/*
 * The number of descriptors that the process may have. The daemon keeps some for administrators (by
 * rules, borrowed) and some for itself. One user has at most half of the others.
 */
void peers_set_descriptors(
    struct peers *peers, size_t descriptors, const struct access_rules *rules);

/* Takes fd, which is non-blocking. A peer over the limit gets an error and is closed. */
void peers_add(struct peers *peers, int fd);
/* NULL: the peer is gone, or about to be freed. */
struct conn *peers_find(const struct peers *peers, uint64_t id);
/*
 * The scan of a request is over: the broker has answered, or it was given up. The peer may be gone.
 */
void peers_scanned(struct peers *peers, uint64_t id, uint64_t request);
void peers_each(struct peers *peers, void (*fn)(void *ctx, struct conn *conn), void *ctx);
/* The peers that are dead, and for which `left` was not called yet. */
void peers_each_leaving(struct peers *peers, void (*fn)(void *ctx, struct conn *conn), void *ctx);
size_t peers_count(const struct peers *peers);

/*
 * Visits the due peers after each pass of the loop, for a limited time: reads, takes lines, writes,
 * frees the dead.
 */
void peers_visit(struct peers *peers);
/* True: the next pass must not wait. */
bool peers_are_due(const struct peers *peers);
/* The number of the newest conn so far. */
uint64_t peers_last(const struct peers *peers);
/* The number of an earlier program's newest conn. Call it before peers_resume(). */
void peers_set_last(struct peers *peers, uint64_t last);
/* A conn of an earlier program. NULL: it is not possible, and its socket is closed. */
struct conn *peers_resume(struct peers *peers, const struct conn_saved *saved);
/* Reads no peer, and takes no line, until it is called with false. */
void peers_pause(struct peers *peers, bool pauses);
/*
 * Until it is called with false, a line that the handler does not take is held. Its peer is not
 * read meanwhile.
 */
void peers_hold(struct peers *peers, bool holds);
/* Stops reading all peers, and takes no more lines. Open requests are still answered. */
void peers_stop_reading(struct peers *peers);
/* Writes output as far as the sockets take it. */
void peers_push(struct peers *peers);

#endif
