/*
 * What the broker says of a semaphore at one time: its markers, how many slots it has, which are busy.
 * Determining the maximum (seeds/000) is the shallow form: the A queues are probed in order, in windows,
 * each in one flush on the auxiliary connection; the first that is absent ends it. Slots above a gap do not count,
 * nor do those above the most there may be (lock_settings).
 *
 * The first window is asked about in the order N-G, N-U, A[1] ..., N-G once more: whatever step of an
 * administrator's work falls between two of them (admin_plan.h), one of them is there.
 *
 * Acquires look for themselves (scan.h): a window at a time, and no further than they must. They share the
 * auxiliary connection with full scans, so those that ask about every slot there may be, for whoever wants to
 * know, go one after another: FULL_SCANS_AT_ONCE at once, one for each peer; the deadline of who asked begins
 * anew with it.
 */
#ifndef LOCK_FULL_SCAN_H
#define LOCK_FULL_SCAN_H

#include "daemon/lock/core/engine.h"

enum full_scan_depth {
	FULL_SCAN_SIZE,     /* markers, and As up to the first gap */
	FULL_SCAN_BUSY,     /* and their Bs */
	FULL_SCAN_ALL_SLOTS /* As and Bs of every slot that there may be, gaps or not */
};

/* Full scans of depth FULL_SCAN_ALL_SLOTS that are asked for at once. */
#define FULL_SCANS_AT_ONCE 2

struct full_scan {
	bool unlimited, gate; /* N-U, N-G */
	int slots;            /* without a gap, from 1 */
	/* An answer was unknown, and ended the full scan: of a slot; 0 = of a marker; -1 = none was */
	int unknown;
	int seen; /* a and b tell of the slots 1..seen */
	/* by slot - 1: BROKER_OK, BROKER_ABSENT or BROKER_UNKNOWN; b: NULL for FULL_SCAN_SIZE */
	const enum broker_answer *a, *b;
};

/* Whether there is such a semaphore at all. */
static inline bool
full_scan_exists(const struct full_scan *full_scan)
{
	return full_scan->slots > 0 || full_scan->unlimited || full_scan->gate;
}

/* What an acquire finds there (design: N-U, then A[1], then N-G): LOCK_UNLIMITED, or the number. */
static inline int
full_scan_size(const struct full_scan *full_scan)
{
	return full_scan->unlimited ? LOCK_UNLIMITED : full_scan->slots;
}

/* found: borrowed for the call. */
typedef void full_scan_done_fn(
    struct lock_engine *engine, uint64_t id, const struct full_scan *found);

/*
 * `done` is called once, later, with `id`. FULL_SCAN_ALL_SLOTS: that of an op (engine.h); when that has ended
 * before its turn has come, it is not called.
 */
void full_scan_start(struct lock_engine *engine, const char *name, enum full_scan_depth depth,
    full_scan_done_fn *done, uint64_t id);
/* Frees what is left; the engine goes. */
void full_scan_free_all(struct lock_engine *engine);

#endif
