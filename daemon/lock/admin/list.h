/*
 * list: every semaphore of the directory, as it is now; and one of them: explain, in detail, as an
 * acquire would find it, and which of its slots are busy. All look without any mutex (but for the
 * directory's own).
 */
#ifndef LOCK_LIST_H
#define LOCK_LIST_H

#include "daemon/lock/core/engine.h"

void list_free_all(struct lock_engine *engine);

#endif
