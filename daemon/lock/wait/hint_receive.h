/*
 * Hints that come to this daemon's places in a wait queue (wait_queue.h): the slot is claimed for the first in
 * the queue here who can use it, and the claim decides; nothing is ever granted by a hint alone (invariant 15).
 *
 * A hint for which there is no use here is passed on; while there is a place in the queue, not more than one
 * in a while for a name, as it may come back at once. What is lost by that is found by the rescan.
 */
#ifndef LOCK_HINT_RECEIVE_H
#define LOCK_HINT_RECEIVE_H

#include "daemon/lock/core/engine.h"

/* The broker's event of a wait queue; ctx: the engine. */
void hint_news(void *ctx, const struct broker_wait_queue_event *event);
/* A hint; slot: from 1; 0 = of none in particular. */
void hint_came(struct lock_engine *engine, struct semaphore *semaphore, int slot);

#endif
