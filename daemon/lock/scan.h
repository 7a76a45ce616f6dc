/*
 * The state of a semaphore at the broker, by probes in windows. The scan for waiters goes as far as they need
 * it (scan_*, rescan_*). The full scan goes to the end, for administration (full_scan_*). Both change nothing
 * at the broker. The module must not know how its caller uses the results.
 */
#ifndef LOCK_SCAN_H
#define LOCK_SCAN_H

#include "daemon/broker/way.h"
#include "daemon/lock/engine.h"

/*
 * A scan of a semaphore finds the slots that exist, and the busy ones. It probes windows that
 * double, each in one flush on the auxiliary connection. Slots above a gap do not exist. The
 * results go into the semaphore, which is marked dirty after each window. queue.c then asks
 * for another window, or ends the scan.
 *
 * The first window also has the markers. An administrator makes the new state before it ends the
 * old one. In this order of probes no name can therefore look missing while it is changed:
 *
 *	N-G, N-U, A[1] B[1] A[2] ..., N-G once more
 *
 * Unlimited is decided first, then A[1], then the gate. A true mutex has one queue to probe. If
 * that queue is also the administration mutex of the name (names.h), markers and A[1] are probed
 * too. A name with any of them is a semaphore.
 */

/* Whether this mutex is also an administration mutex. Such a mutex is never claimed unseen. */
bool scan_is_guarded(const struct lock_engine *engine, const struct semaphore *semaphore);
/* Whether the scan is over: a gap, an unknown answer, unlimited, a rescan, or forgotten results. */
bool scan_is_whole(const struct semaphore *semaphore);
/*
 * A rescan costs the broker little. One window, in one flush,
 * asks whether the known state of a full semaphore has changed. If more than a B has changed, the
 * knowledge of the semaphore is dropped, and a scan is due. The window has these queues:
 *
 *	slots		N-U, the A above the last slot, the Bs (of more than 256 a part, from a random
 *			one); for new waiters all Bs, and also the last A
 *	gate		N-U, A[1], N-G
 *	true mutex	its queue; if that may be an administration mutex, also N-U, A[1] and N-G
 */
void rescan_start(struct lock_engine *engine, struct semaphore *semaphore, bool for_new);
/* Whether enough is known for a rescan. */
bool rescan_will_do(const struct semaphore *semaphore);
/* Whether a rescan would ask for each slot: it can then decide that none is free. */
bool rescan_sees_all(const struct semaphore *semaphore);
/* Begins a scan at slot 1. The scan before must be over. */
void scan_start(struct lock_engine *engine, struct semaphore *semaphore);
/* Probes the next window of a scan that is SEEN and not whole. */
void scan_continue(struct lock_engine *engine, struct semaphore *semaphore);
/* The results of the scan have been used. */
void scan_end(struct semaphore *semaphore);

/*
 * A full scan: the broker's state of a semaphore at one time. It has the markers, the number of
 * slots, and the busy ones. Its shallow form determines the maximum (seeds/000): the A queues are
 * probed in order, in windows, each in one flush on the auxiliary connection. The first A that is
 * absent ends it. Slots above a gap do not count, nor do slots above the maximum (lock_settings).
 * Removed slots may still have holders: the Bs above are asked for to the end of the window, and at
 * least of FULL_SCAN_ABOVE slots.
 *
 * The first window is in the order N-G, N-U, A[1] ..., N-G once more. If a step of an
 * administrator's work (plan.h) falls between two probes, one of these still exists.
 *
 * Acquires use the scan above, which probes no further than they need. They share the auxiliary connection
 * with full scans. Full scans of all slots therefore take turns: FULL_SCANS_AT_ONCE at once, and
 * one for each peer. When its turn comes, the deadline of the request begins anew.
 */

enum full_scan_depth {
	FULL_SCAN_SIZE,     /* markers, and As up to the first gap */
	FULL_SCAN_BUSY,     /* and their Bs */
	FULL_SCAN_GLANCE,   /* the same, but a slot whose node is down may look missing */
	FULL_SCAN_ALL_SLOTS /* As and Bs of all slots up to the maximum, gaps or not */
};

#define FULL_SCAN_ABOVE 16

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
 * The size for an acquire (N-U first, then A[1], then N-G): LOCK_UNLIMITED, or a number of slots.
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

/* Frees all full scans at the engine's end, and ends all scans in progress. */
void scan_done(struct lock_engine *engine);

#endif
