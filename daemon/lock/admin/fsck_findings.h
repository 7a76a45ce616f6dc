/*
 * The findings of fsck, from what its scan has seen. Knows no broker and no requests.
 */
#ifndef LOCK_FSCK_FINDINGS_H
#define LOCK_FSCK_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/lock/admin/full_scan.h"
#include "daemon/lock/lock.h"

/* How a slot was declared. */
enum fsck_make {
	FSCK_MAKE_OURS, /* as this daemon declares it, or it does not exist */
	FSCK_MAKE_OTHERWISE,
	FSCK_MAKE_TRANSIENT,
	FSCK_MAKE_EXCLUSIVE /* exclusive to a connection */
};

/* All that fsck sees in one scan. */
struct fsck_seen {
	struct full_scan full_scan; /* a and b are owned: see fsck_seen_take() */
	enum fsck_make *make;       /* owned; by slot - 1 */
	bool listed;                /* in the directory */
};

/* Begins with a copy of a full scan of all slots. The rest is not known yet. */
void fsck_seen_take(struct fsck_seen *seen, const struct full_scan *found);
void fsck_seen_done(struct fsck_seen *seen);
/* The highest slot that exists; 0: none does. */
int fsck_seen_highest(const struct fsck_seen *seen);
static inline bool
fsck_seen_slot(const struct fsck_seen *seen, int slot)
{
	return seen->full_scan.a[slot - 1] == BROKER_OK;
}

/* In the order of slots, then of problems. */
struct fsck_findings {
	struct lock_finding *list; /* owned, as are the texts */
	size_t count, room;
};

void fsck_findings_make(struct fsck_findings *findings, const struct fsck_seen *seen);
void fsck_findings_done(struct fsck_findings *findings);
/* Whether a finding can be repaired. */
bool fsck_findings_repairable(const struct fsck_findings *findings);
/*
 * Marks findings of `before` that are not in `after` as repaired, and moves new ones of `after` to
 * it.
 */
void fsck_findings_compare(struct fsck_findings *before, struct fsck_findings *after);

#endif
