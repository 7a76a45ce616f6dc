/*
 * Requests of one peer on one name keep their order, whatever they are (PROTOCOL.md). Those that
 * administer it or ask its size stand in a line for each peer and name: whoever changes something goes
 * when all before it are done, whoever looks when all changes before it are. Acquires are not in it:
 * they stand behind its youngest change (acquire.h).
 */
#ifndef LOCK_PEER_ORDER_H
#define LOCK_PEER_ORDER_H

#include "daemon/lock/core/engine.h"

enum peer_order_work { PEER_ORDER_READS, PEER_ORDER_CHANGES };

struct peer_order_queue;

/* Part of the record of the request. */
struct peer_order {
	uint64_t op; /* the request */
	enum peer_order_work work;
	/* Its turn has come, and not in peer_order_take(); NULL: it has begun */
	void (*begin)(struct lock_engine *engine, uint64_t op);
	struct peer_order_queue *line; /* borrowed; NULL: it is in none */
	TAILQ_ENTRY(peer_order) of_line;
};

/* True: go on at once. False: `begin` is called later; until then its deadline says why. */
bool peer_order_take(
    struct lock_engine *engine, struct peer_order *peer_order, uint64_t peer, const char *name);
/* It is done: those whose turn has come begin. */
void peer_order_end(struct lock_engine *engine, struct peer_order *peer_order);
/* The youngest of the peer's changes of the name that is not done; 0: none. */
uint64_t peer_order_youngest_change(
    const struct lock_engine *engine, uint64_t peer, const char *name);
/* Frees what is left; the engine goes. */
void peer_order_free_all(struct lock_engine *engine);

#endif
