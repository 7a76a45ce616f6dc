/*
 * The repairs of an fsck, which owns the administration mutex and has scanned the semaphore. Each
 * function calls `next` when it is done. After an error it unlocks instead (fsck_state.h).
 */
#ifndef LOCK_FSCK_REPAIR_H
#define LOCK_FSCK_REPAIR_H

#include "daemon/lock/admin/fsck_state.h"

/* Repairs all findings that can be repaired. The way that slots are held stays. */
void fsck_repair_start(struct lock_engine *engine, struct fsck *fsck, fsck_next_fn *next);
/* Converts free slots that are held otherwise than wanted. The others are then in `left`. */
void fsck_convert_start(struct lock_engine *engine, struct fsck *fsck, fsck_next_fn *next);

#endif
