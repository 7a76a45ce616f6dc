/*
 * Requests of one peer on one name keep their order (PROTOCOL.md). Administration and size requests
 * wait in a queue for each peer and name. A change begins when all requests before it are done. A
 * read begins when all changes before it are done. Acquires are not in this queue: they wait behind
 * the youngest change (acquire.h).
 */
#ifndef LOCK_PEER_ORDER_H
#define LOCK_PEER_ORDER_H

#include "daemon/lock/core/engine.h"

enum peer_order_work { PEER_ORDER_READS, PEER_ORDER_CHANGES };

struct peer_order_queue;

/* A member of the record of the request. */
struct peer_order {
	uint64_t op;      /* the request */
	uint64_t request; /* its number, also after it is answered: its work may still go on */
	enum peer_order_work work;
	/* Called when it may begin, never from peer_order_take(); NULL: it has begun */
	void (*begin)(struct lock_engine *engine, uint64_t op);
	struct peer_order_queue *queue; /* borrowed; NULL: it is in none */
	TAILQ_ENTRY(peer_order) of_queue;
};

/*
 * True: it begins at once. False: `begin` is called later; if its deadline passes before, the
 * refusal says why.
 */
bool peer_order_take(
    struct lock_engine *engine, struct peer_order *peer_order, uint64_t peer, const char *name);
/* It is done: the next requests begin. */
void peer_order_end(struct lock_engine *engine, struct peer_order *peer_order);
/* The youngest change of the name by the peer before that request that is not done; 0: none. */
uint64_t peer_order_youngest_change(
    const struct lock_engine *engine, uint64_t peer, const char *name, uint64_t before);
/* Frees all that is left at the engine's end. */
void peer_order_free_all(struct lock_engine *engine);

#endif
