/*
 * Slots that are awaited, whose Bs are probed now and then. A probe of a slot answers all who await it;
 * slots are probed many at once, and no more than so many a second, whoever awaits them: what ten
 * thousand awaits cost the broker must not keep others from it. Users take turns, slot by slot. Knows no
 * waits: drain_look.c says when each of them wants to look again.
 *
 *	RESTING --- the first of those who await it wants to look ---> WAITING --- its turn ---> SENT
 *	   ^                                                              ^                       |
 *	   |                                                              +--- somebody came      |
 *	   +-------------------------------------------------------------------+--- SEEN <-------+
 */
#ifndef LOCK_AWAITED_H
#define LOCK_AWAITED_H

#include "daemon/lock/engine.h"

struct awaited;

/* Part of the record of a wait. */
struct awaiter {
	struct awaited *slot; /* borrowed; NULL: it awaits none */
	uint64_t id;          /* the wait's */
	uid_t uid;
	bool late; /* it came after the probe that is in flight */
	/* Called with each answer, not from inside. It leaves, or asks again. */
	void (*seen)(struct lock_engine *engine, uint64_t id, enum broker_answer answer);
	TAILQ_ENTRY(awaiter) of_slot;
};

/* From now on it awaits the slot with that B, which is probed as soon as can be. */
void awaited_join(
    struct lock_engine *engine, struct awaiter *awaiter, const struct queue_name *queue);
/* It wants an answer that is asked for at that time, or earlier. */
void awaited_again(struct lock_engine *engine, struct awaiter *awaiter, int64_t when);
/* It awaits nothing any more, if it did. */
void awaited_leave(struct lock_engine *engine, struct awaiter *awaiter);
/* Frees what is left; the engine goes, and nobody awaits anything. */
void awaited_free_all(struct lock_engine *engine);

#endif
