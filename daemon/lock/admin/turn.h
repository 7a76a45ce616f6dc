/*
 * Requests of one peer on one name keep their order, whatever they are (PROTOCOL.md). Those that
 * administer it or ask its size stand in a line for each peer and name: whoever changes something goes
 * when all before it are done, whoever looks when all changes before it are. Acquires are not in it:
 * they stand behind its youngest change (acquire.h).
 */
#ifndef LOCK_TURN_H
#define LOCK_TURN_H

#include "daemon/lock/core/engine.h"

enum turn_work { TURN_LOOKS, TURN_CHANGES };

struct turn_line;

/* Part of the record of the request. */
struct turn {
	uint64_t op; /* the request */
	enum turn_work work;
	/* Its turn has come, and not in turn_take(); NULL: it has begun */
	void (*begin)(struct lock_engine *engine, uint64_t op);
	struct turn_line *line; /* borrowed; NULL: it is in none */
	TAILQ_ENTRY(turn) of_line;
};

/* True: go on at once. False: `begin` is called later; until then its deadline says why. */
bool turn_take(struct lock_engine *engine, struct turn *turn, uint64_t peer, const char *name);
/* It is done: those whose turn has come begin. */
void turn_end(struct lock_engine *engine, struct turn *turn);
/* The youngest of the peer's changes of the name that is not done; 0: none. */
uint64_t turn_youngest_change(const struct lock_engine *engine, uint64_t peer, const char *name);
/* Frees what is left; the engine goes. */
void turn_free_all(struct lock_engine *engine);

#endif
