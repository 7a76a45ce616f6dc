/*
 * Slots whose holders are waited for (holder_wait.h): when a hold of one ends here, whoever waits for that scans at
 * once instead of resting on.
 */
#ifndef LOCK_AWAITED_H
#define LOCK_AWAITED_H

#include "daemon/lock/core/engine.h"

/* Part of the record of who waits. */
struct awaited {
	struct awaited_name *name; /* borrowed; NULL: it is in no table */
	int first, last;           /* the slots */
	struct timer rest;         /* its owner's: while it is set, it looks when it fires */
	bool freed;                /* one of the slots was freed here; cleared by its owner */
	TAILQ_ENTRY(awaited) of_name;
};

void awaited_begin(struct lock_engine *engine, struct awaited *awaited, const char *name);
void awaited_end(struct lock_engine *engine, struct awaited *awaited);
/* Borrowed. */
const char *awaited_name(const struct awaited *awaited);
/* A slot of that name was freed by this daemon. */
void awaited_freed(struct lock_engine *engine, const char *name, int slot);

#endif
