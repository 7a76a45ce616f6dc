/*
 * What is wrong with a semaphore, worked out from what was seen of it. Knows no broker and no requests.
 */
#ifndef LOCK_FSCK_FINDINGS_H
#define LOCK_FSCK_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/lock/admin/full_scan.h"
#include "daemon/lock/lock.h"

/* How a slot was declared, by whomever. */
enum fsck_make {
	FSCK_MAKE_OURS, /* or it is not there */
	FSCK_MAKE_OTHERWISE,
	FSCK_MAKE_TRANSIENT,
	FSCK_MAKE_EXCLUSIVE /* it is some connection's own */
};

/* One scan at it all. */
struct fsck_seen {
	struct full_scan full_scan; /* a and b are owned: see fsck_seen_take() */
	enum fsck_make *make;       /* owned; by slot - 1 */
	bool listed;                /* in the directory */
};

/* Takes what a whole full scan found, which it copies; nothing else is known yet. */
void fsck_seen_take(struct fsck_seen *seen, const struct full_scan *found);
void fsck_seen_done(struct fsck_seen *seen);
/* The highest slot that is there; 0: none is. */
int fsck_seen_highest(const struct fsck_seen *seen);
static inline bool
fsck_seen_slot(const struct fsck_seen *seen, int slot)
{
	return seen->full_scan.a[slot - 1] == BROKER_OK;
}

/* By slot, then by problem. */
struct fsck_findings {
	struct lock_finding *list; /* owned, as are the texts */
	size_t count, room;
};

void fsck_findings_make(struct fsck_findings *findings, const struct fsck_seen *seen);
void fsck_findings_done(struct fsck_findings *findings);
/* Whether anything is among them that can be repaired. */
bool fsck_findings_repairable(const struct fsck_findings *findings);
/* Marks those of `before` that are not among `after` as repaired, and takes over what is new there. */
void fsck_findings_compare(struct fsck_findings *before, struct fsck_findings *after);

#endif
