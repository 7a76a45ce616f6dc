/*
 * All local peers: found by id, visited and freed after each pass of the loop, user by user in turn, so
 * that one with many conns has no more turns than one with a single conn. Owns the conns, the room they
 * share, and the users' accounts.
 */
#ifndef PEER_PEERS_H
#define PEER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/peer/conn.h"

/* The least that peers_set_descriptors() takes. */
#define PEERS_DESCRIPTORS_MIN 128

struct peers;

struct peers *peers_new(struct event_base *base, const struct conn_handler *handler);
/* `gone` is told for each that is left. */
void peers_free(struct peers *peers);
/* For those that are there too, but of peers only at the door. max_requests: of each peer. */
void peers_set_limits(
    struct peers *peers, size_t max_requests, const struct account_limits *limits);

/*
 * The descriptors that the process may have. Some are left to administrators (by rules, borrowed), and
 * some to the daemon itself; of the others one user has at most half.
 */
void peers_set_descriptors(
    struct peers *peers, size_t descriptors, const struct access_rules *rules);

/* Takes fd, which is non-blocking. A peer that is one too many is told so and closed. */
void peers_add(struct peers *peers, int fd);
/* NULL when it is gone, or about to be. */
struct conn *peers_find(const struct peers *peers, uint64_t id);
/* The scan of a request is over: answered by the broker, or given up. Its peer may have left. */
void peers_scanned(struct peers *peers, uint64_t id, uint64_t request);
void peers_each(struct peers *peers, void (*fn)(void *ctx, struct conn *conn), void *ctx);
size_t peers_count(const struct peers *peers);

/*
 * After each pass of the loop: reads, takes lines, writes, frees the dead, for a limited time. True when
 * there is more to do, so that the next pass must not wait.
 */
bool peers_visit(struct peers *peers);
/* No request is read from now on, nor taken of what was read; what is owed is still answered. */
void peers_stop_reading(struct peers *peers);
/* Writes what there is to be sent, as far as the sockets take it. */
void peers_push(struct peers *peers);

#endif
