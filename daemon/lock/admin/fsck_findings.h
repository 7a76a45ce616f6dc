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
	struct full_scan full_scan; /* its arrays are b and ways below, and a, which is owned */
	enum broker_answer *b;      /* owned; by slot - 1, as the following */
	enum broker_way *ways;      /* owned */
	enum fsck_make *make;       /* owned */
	bool *odd;                  /* owned; the durable B was declared with other arguments */
	bool listed;                /* in the directory */
};

/*
 * Begins with a copy of a full scan of all slots. The rest is not known yet. keeps_odd: Bs that are
 * still busy stay `odd`, as no queue will be declared.
 */
void fsck_seen_take(struct fsck_seen *seen, const struct full_scan *found, bool keeps_odd);
void fsck_seen_done(struct fsck_seen *seen);
/* Its slots are so many by quorum, all of them busy. */
void fsck_seen_put_quorum(struct fsck_seen *seen, int slots);
/* The highest slot that exists; 0: none does. */
int fsck_seen_highest(const struct fsck_seen *seen);
static inline bool
fsck_seen_slot(const struct fsck_seen *seen, int slot)
{
	return seen->full_scan.a[slot - 1] == BROKER_OK;
}
static inline enum lock_claim
fsck_seen_claim(const struct fsck_seen *seen, int slot)
{
	return full_scan_claim_of(seen->ways[slot - 1]);
}
/* A durable B that nobody holds, above the slots that count. */
static inline bool
fsck_seen_leftover(const struct fsck_seen *seen, int slot)
{
	return slot > seen->full_scan.slots && seen->b[slot - 1] == BROKER_ABSENT &&
	       way_is_durable(seen->ways[slot - 1]);
}

/* In the order of slots, then of problems. */
struct fsck_findings {
	struct lock_finding *list; /* owned, as are the texts */
	size_t count, room;
};

/*
 * wanted: how the slots are to be held; UNKNOWN: that is no matter. has_record: there is a record of slots by
 * quorum.
 */
void fsck_findings_make(struct fsck_findings *findings, const struct fsck_seen *seen,
    enum lock_claim wanted, bool has_record);
/* Takes the text. */
void fsck_findings_add(
    struct fsck_findings *findings, enum lock_problem problem, int slot, char *text);
/* Whether the directory and the broker agree about the semaphore. */
void fsck_findings_add_listing(struct fsck_findings *findings, bool exists, bool listed);
void fsck_findings_done(struct fsck_findings *findings);
/* Whether a finding can be repaired. */
bool fsck_findings_repairable(const struct fsck_findings *findings, const struct fsck_seen *seen);
/*
 * Marks findings of `before` that are not in `after` as repaired, and moves new ones of `after` to
 * it.
 */
void fsck_findings_compare(struct fsck_findings *before, struct fsck_findings *after);
/*
 * After a conversion: each of the slots `left`, ascending, is a finding. Findings of other problems
 * stay.
 */
void fsck_findings_converted(struct fsck_findings *findings, const struct fsck_seen *seen,
    enum lock_claim wanted, const int *left, size_t left_count);

#endif
