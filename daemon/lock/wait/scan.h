/*
 * A scan at a semaphore: which of its slots exist, which are busy. Probes go out in windows that
 * double, each in one flush on the auxiliary connection; slots above a gap do not exist. What was seen goes into
 * the semaphore, and its line is marked dirty after each window: queue_runner.c says whether it wants another.
 *
 * The first window asks for the markers, too, in an order in which no administrator at work (each of
 * whom makes the new state before ending the old one) can make the name look as if it were not there:
 *
 *	N-G, N-U, A[1] B[1] A[2] ..., N-G once more
 *
 * They count as unlimited, then A[1], then the gate. Of a true mutex there is its one queue to look at;
 * where that is the administration mutex of the name (names.h), markers and A[1] are asked for as well:
 * a name that has any of them is a semaphore.
 */
#ifndef LOCK_SCAN_H
#define LOCK_SCAN_H

#include "daemon/lock/core/engine.h"

/* Whether the mutex of the name is also what its administrators claim: it is never claimed unseen. */
bool scan_is_guarded(const struct lock_engine *engine, const struct semaphore *semaphore);
/* Whether the scan has come to its end: a gap, an answer that is unknown, or what it saw was forgotten. */
bool scan_is_whole(const struct semaphore *semaphore);
/*
 * A rescan (design: "Waiting, without polling"), which costs the broker little while nothing happens:
 * one window, in one flush, that asks whether what is known of a semaphore in which all is busy has
 * changed. N-U, the A behind the last, and the Bs of its slots (of many a part, from a random one on); at
 * the gate N-U, A[1] and N-G; of a true mutex its queue, and those three where it may be a semaphore's.
 * If more has changed than a B, the semaphore is
 * forgotten, and a scan is due.
 */
void rescan_start(struct lock_engine *engine, struct semaphore *semaphore);
/* Whether enough is known for that. */
bool rescan_will_do(const struct semaphore *semaphore);
/* Begins a scan at slot 1. The last one must be over. */
void scan_start(struct lock_engine *engine, struct semaphore *semaphore);
/* Probes the next window of a scan that was seen and is not whole. */
void scan_continue(struct lock_engine *engine, struct semaphore *semaphore);
/* What was seen has been made use of. */
void scan_end(struct semaphore *semaphore);
/* Ends those in progress, whose answers do not come any more: the engine goes. */
void scan_end_all(struct lock_engine *engine);

#endif
