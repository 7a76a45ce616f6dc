/*
 * fsck: what is wrong with a semaphore's queues, and mending it. Both under the admin mutex, so that
 * what is seen is no administrator's work half done.
 */
#ifndef LOCK_FSCK_H
#define LOCK_FSCK_H

#include "daemon/lock/engine.h"

void fsck_start(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name, bool repair);
void fsck_free_all(struct lock_engine *engine);

#endif
