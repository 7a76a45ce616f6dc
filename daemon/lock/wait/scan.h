/*
 * A scan of a semaphore finds the slots that exist, and the busy ones. It probes windows that
 * double, each in one flush on the auxiliary connection. Slots above a gap do not exist. The
 * results go into the semaphore, which is marked dirty after each window. queue_runner.c then asks
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
#ifndef LOCK_SCAN_H
#define LOCK_SCAN_H

#include "daemon/lock/core/engine.h"

/* Whether this mutex is also an administration mutex. Such a mutex is never claimed unseen. */
bool scan_is_guarded(const struct lock_engine *engine, const struct semaphore *semaphore);
/* Whether the scan is over: a gap, an unknown answer, unlimited, a rescan, or forgotten results. */
bool scan_is_whole(const struct semaphore *semaphore);
/*
 * A rescan (design: "Waiting, without polling") costs the broker little. One window, in one flush,
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
/* Ends all scans in progress at the engine's end: their answers will not come. */
void scan_end_all(struct lock_engine *engine);

#endif
