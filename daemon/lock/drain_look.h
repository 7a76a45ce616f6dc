/*
 * One wait for holders, or for a slot, and its looks at the Bs that are left of it. drain.c, which
 * shares the record with this, begins and ends it.
 */
#ifndef LOCK_DRAIN_LOOK_H
#define LOCK_DRAIN_LOOK_H

#include "daemon/lock/awaited.h"
#include "daemon/lock/engine.h"

enum drain_kind {
	DRAIN_REMOVED, /* slots that are no more: until nobody holds them */
	DRAIN_FREE,    /* one slot: until nobody holds it */
	DRAIN_TAKEN    /* one slot: until somebody does */
};

enum drain_state {
	DRAIN_RESTING, /* the timer is set */
	DRAIN_LOOKING  /* a probe of slots left[at .. at + count - 1] is in flight */
};

enum slot_state {
	SLOT_UNSEEN, /* nothing is known */
	SLOT_HELD,
	SLOT_ABSENT, /* in the last look at it, and not in the one before */
	SLOT_GONE    /* in two looks in a row: it leaves */
};

struct drain_slot {
	int slot;
	enum slot_state state;
};

struct drain {
	uint64_t id;
	uint64_t peer, request;
	enum drain_kind kind;
	enum drain_state state;
	struct awaited awaited; /* its name, its slots, and its rest between looks */
	struct drain_slot *left;
	size_t left_count, at, count;
	bool known;      /* something was ever learned of a slot */
	bool unknown;    /* of the look in progress or last: some answer was */
	bool changed;    /* of what was told: who is left */
	int64_t timeout; /* 0: it ends with a look that leaves nothing to be confirmed */
	int64_t rest;
	bool progress;
	struct lock_answer answer; /* REMOVED: when they are gone; owns its text and warning */
	struct timer deadline;
	UT_hash_handle by_id;
	TAILQ_ENTRY(drain) of_peer;
};

/* Of drain.c: the ends, each of which answers and frees it. */
struct drain *drain_find(const struct lock_engine *engine, uint64_t id); /* or NULL */
void drain_finish_done(struct lock_engine *engine, struct drain *drain);
void drain_finish_timeout(struct lock_engine *engine, struct drain *drain);
/* The broker did not say. */
void drain_finish_unknown(struct lock_engine *engine, struct drain *drain);

/* The slots that were held when they were looked at last. To be freed. */
int *drain_slots_held(const struct drain *drain, size_t *ret_count);
/* A new drain is resting. */
void drain_look_init(struct lock_engine *engine, struct drain *drain);
/* Looks, and again after rests, until it is over. It must be resting. */
void drain_look(struct lock_engine *engine, struct drain *drain);
#endif
