/*
 * list: every semaphore of the directory, as it is now; and one of them: explain, in detail, as an
 * acquire would find it, and which of its slots are taken. All look without any mutex (but for the
 * directory's own).
 */
#ifndef LOCK_LIST_H
#define LOCK_LIST_H

#include "daemon/lock/engine.h"

void list_start(struct lock_engine *engine, uint64_t peer, uint64_t request);
void list_explain(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name,
    enum lock_kind kind);
/* Which slots of one are taken. */
void list_busy(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name);
void list_free_all(struct lock_engine *engine);

#endif
