/*
 * The hints that come to this daemon's consumers in a wait queue (wait_queue.h). The slot is
 * claimed for the first waiter that can use it. A hint alone grants nothing: the claim decides
 * (invariant 15).
 *
 * If no waiter here can use the slot, the daemon passes the hint on. While it has consumers in that
 * wait queue, the hint may come back at once. It therefore passes on only one hint in a time for
 * each name. A rescan finds a slot whose hint is dropped for that reason.
 */
#ifndef LOCK_HINT_RECEIVE_H
#define LOCK_HINT_RECEIVE_H

#include "daemon/lock/core/engine.h"

/* The broker's event of a wait queue; ctx: the engine. */
void hint_news(void *ctx, const struct broker_wait_queue_event *event);
/* A hint. slot: from 1; 0 = no particular one. */
void hint_came(struct lock_engine *engine, struct semaphore *semaphore, int slot);

#endif
