/*
 * All local peers: found by id, counted by uid, visited and freed after each pass of the loop. Owns
 * the conns and the room they share.
 */
#ifndef PEER_PEERS_H
#define PEER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/peer/conn.h"

struct peers;

struct peers_handler {
	void (*line)(void *ctx, struct conn *conn, const char *line, size_t len);
	void (*gone)(void *ctx, struct conn *conn);
	void *ctx; /* borrowed */
};

struct peers *peers_new(struct event_base *base, const struct peers_handler *handler);
/* `gone` is told for each that is left. */
void peers_free(struct peers *peers);
/* For those that are there too. max_per_uid: only at the door. */
void peers_set_limits(struct peers *peers, size_t max_requests, size_t max_per_uid);

/* Takes fd, which is non-blocking. A peer over its uid's limit is told so and closed. */
void peers_add(struct peers *peers, int fd);
/* NULL when it is gone, or about to be. */
struct conn *peers_find(const struct peers *peers, uint64_t id);
void peers_each(struct peers *peers, void (*fn)(void *ctx, struct conn *conn), void *ctx);
size_t peers_count(const struct peers *peers);

/*
 * After each pass of the loop: takes lines that are left, writes, frees the dead. True when there is
 * more to do, so that the next pass must not wait.
 */
bool peers_visit(struct peers *peers);

#endif
