/*
 * Slots whose holders are waited for (holder_wait.h). When this daemon frees such a slot, the wait
 * probes as soon as it may.
 */
#ifndef LOCK_AWAITED_H
#define LOCK_AWAITED_H

#include "daemon/lock/core/engine.h"

/* A member of the record of the wait, its owner. */
struct awaited {
	struct awaited_name *name; /* borrowed; NULL: it is in no table */
	int first, last;           /* the slots */
	struct timer rest;         /* the owner's: set while the wait rests */
	int64_t earliest;          /* the owner's: clock time before which it does not probe */
	bool freed;                /* this daemon freed one of the slots; cleared by the owner */
	TAILQ_ENTRY(awaited) of_name;
};

void awaited_begin(struct lock_engine *engine, struct awaited *awaited, const char *name);
void awaited_end(struct lock_engine *engine, struct awaited *awaited);
/* Borrowed. */
const char *awaited_name(const struct awaited *awaited);
/*
 * Whether there is a gate of the name, without which no slots are held by quorum. An answer is valid for a
 * while. UNKNOWN: ask the broker.
 */
enum broker_answer awaited_gate(const struct lock_engine *engine, const struct awaited *awaited);
void awaited_saw_gate(
    const struct lock_engine *engine, const struct awaited *awaited, enum broker_answer gate);
/* This daemon freed a slot of that name. */
void awaited_freed(struct lock_engine *engine, const char *name, int slot);

#endif
