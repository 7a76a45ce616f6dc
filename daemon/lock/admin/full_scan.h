/*
 * A full scan: the broker's state of a semaphore at one time. It has the markers, the number of
 * slots, and the busy ones. Its shallow form determines the maximum (seeds/000): the A queues are
 * probed in order, in windows, each in one flush on the auxiliary connection. The first A that is
 * absent ends it. Slots above a gap do not count, nor do slots above the maximum (lock_settings).
 * Removed slots may still have holders: the Bs above are asked for to the end of the window, and at
 * least of FULL_SCAN_ABOVE slots.
 *
 * The first window is in the order N-G, N-U, A[1] ..., N-G once more. If a step of an
 * administrator's work (admin_plan.h) falls between two probes, one of these still exists.
 *
 * Acquires use scan.h, which probes no further than they need. They share the auxiliary connection
 * with full scans. Full scans of all slots therefore take turns: FULL_SCANS_AT_ONCE at once, and
 * one for each peer. When its turn comes, the deadline of the request begins anew.
 */
#ifndef LOCK_FULL_SCAN_H
#define LOCK_FULL_SCAN_H

#include "daemon/broker/way.h"
#include "daemon/lock/core/engine.h"

enum full_scan_depth {
	FULL_SCAN_SIZE,     /* markers, and As up to the first gap */
	FULL_SCAN_BUSY,     /* and their Bs */
	FULL_SCAN_GLANCE,   /* the same, but a slot whose node is down may look missing */
	FULL_SCAN_ALL_SLOTS /* As and Bs of all slots up to the maximum, gaps or not */
};

#define FULL_SCAN_ABOVE 16

/* Maximum full scans of depth FULL_SCAN_ALL_SLOTS at once. */
#define FULL_SCANS_AT_ONCE 2

struct full_scan {
	bool unlimited, gate; /* N-U, N-G */
	/* There are As, and behind a gate slots by quorum: a conversion was cut, or goes on. */
	bool beside;
	int slots; /* without a gap, from 1 */
	/* The slot whose unknown answer ended the full scan; 0 = a marker; -1 = none */
	int unknown;
	int seen; /* a and b have the slots 1..seen */
	/*
	 * b has the slots 1..asked. Those above `seen` do not exist for certain, and their answers may
	 * be unknown.
	 */
	int asked;
	/*
	 * By slot - 1. a: BROKER_OK or BROKER_ABSENT. b: also BROKER_UNREACHABLE, which is neither
	 * busy nor free; NULL for FULL_SCAN_SIZE.
	 */
	const enum broker_answer *a, *b;
	const enum broker_way *ways; /* of b: BY_CONSUMER if it is durable, else BY_QUEUE */
};

/* Whether a slot above the size has a holder, as one that was removed may have. */
static inline bool
full_scan_is_extra(const struct full_scan *full_scan, int slot)
{
	return slot > full_scan->slots && full_scan->b[slot - 1] == BROKER_OK;
}

/* Whether the semaphore exists. */
static inline bool
full_scan_exists(const struct full_scan *full_scan)
{
	return full_scan->slots > 0 || full_scan->unlimited || full_scan->gate;
}

/*
 * The size for an acquire (design: N-U, then A[1], then N-G): LOCK_UNLIMITED, or a number of slots.
 */
static inline int
full_scan_size(const struct full_scan *full_scan)
{
	return full_scan->unlimited ? LOCK_UNLIMITED : full_scan->slots;
}

static inline enum lock_claim
full_scan_claim_of(enum broker_way way)
{
	return lock_claim_of(way_row(way)->claim_word);
}

/* claim: neither UNKNOWN nor MIXED. */
static inline const struct way *
full_scan_way(enum lock_claim claim)
{
	return way_row(way_of_word((enum method_claim)(claim - 1)));
}

/* Whether such slots have no A, and a gate stands in its place. */
static inline bool
full_scan_is_by_beads(enum lock_claim claim)
{
	return claim != LOCK_CLAIM_UNKNOWN && claim != LOCK_CLAIM_MIXED &&
	       full_scan_way(claim)->by_beads;
}

/* How its slots are held. Not for FULL_SCAN_SIZE. */
enum lock_claim full_scan_claim(const struct full_scan *full_scan);
/* Whether a slot has a durable B. Not for FULL_SCAN_SIZE. */
bool full_scan_has_durable(const struct full_scan *full_scan);

/* found: borrowed for the call. */
typedef void full_scan_done_fn(
    struct lock_engine *engine, uint64_t id, const struct full_scan *found);

/*
 * `done` is called once, later, with `id`. For FULL_SCAN_ALL_SLOTS, `id` is that of an op
 * (engine.h). If the op ends before its turn comes, `done` is not called.
 */
void full_scan_start(struct lock_engine *engine, const char *name, enum full_scan_depth depth,
    full_scan_done_fn *done, uint64_t id);
/* Frees all that is left at the engine's end. */
void full_scan_free_all(struct lock_engine *engine);

#endif
