/*
 * The steps of a change (plan_*), and the findings of fsck (fsck_findings_*). These are pure functions: they
 * know no broker and change nothing.
 */
#ifndef LOCK_PLAN_H
#define LOCK_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/lock/lock.h"
#include "daemon/lock/scan.h"

/*
 * Plans a change: from the order and the state found, it makes the list of steps.
 *
 * The state found is the markers N-U and N-G, and the number of slots without a gap. An acquire
 * decides by N-U first, then A[1], then N-G. During a change an acquire sees
 * the size before, the size after, or a number of slots between them. A change can be cut after any
 * step. The same command, given again, completes it.
 */

/*
 * At least so many slots above the size are searched for uncounted slots, and for holders to wait
 * for.
 */
#define PLAN_SWEEP_LEAST 256

enum plan_work {
	PLAN_CREATE,
	PLAN_CREATE_MISSING, /* for an acquire: an existing semaphore stays as it is */
	PLAN_RESIZE,
	PLAN_DESTROY
};

struct plan_order {
	enum plan_work work;
	enum { PLAN_TO, PLAN_ADD, PLAN_REMOVE } by; /* resize */
	int slots;                                  /* as requested; LOCK_UNLIMITED. Destroy: 0 */
	enum lock_claim claim;   /* of the first slots; UNKNOWN: as the setting says */
	enum lock_claim setting; /* not UNKNOWN */
	bool exist_ok, ascending;
	int overshoot;
	int most; /* maximum slots of a semaphore */
};

struct plan_found {
	bool unlimited, gate;
	int slots;
	enum lock_claim claim; /* of the slots; UNKNOWN: there are none */
	bool has_records;      /* slots can be held by quorum */
	bool beside;           /* such slots are there, too: a conversion is not complete */
};

enum step_kind {
	STEP_SWEEP, /* probes first to last, and on while any exists; deletes these from the top */
	STEP_SWEEP_BEADS, /* the same of slots by quorum */
	STEP_ENTER,       /* enters the name into the directory */
	STEP_LEAVE,       /* removes it from the directory */
	STEP_RECORD, /* by quorum: the size becomes first (-1: no record); last: see WORK_RECORD */
	STEP_FORGET_RECORD, /* of a gate, whose slots were perhaps held by quorum */
	STEP_DECLARE_GATE,
	STEP_DELETE_GATE,
	STEP_DECLARE_UNLIMITED,
	STEP_DELETE_UNLIMITED,
	STEP_MAKE_SLOTS,    /* by quorum: makes the slots first to last */
	STEP_DECLARE_SLOTS, /* A[first] to A[last], ascending; by consumer each B before its A */
	STEP_REMOVE_SLOTS,  /* by quorum: claims and deletes the slots first to last, downwards */
	STEP_DELETE_SLOTS /* A[first] to A[last], up or down, one by one; a durable B after its A */
};

struct step {
	enum step_kind kind;
	int first, last;
};

#define PLAN_STEPS_MAX 8

struct plan {
	enum reason refusal;   /* if not REASON_NONE, there are no steps */
	char text[96];         /* of the refusal; "" = the reason's own */
	const char *parameter; /* of invalid-params; static */
	int target;            /* the requested size, refused or not; -1 = not known */
	enum lock_claim claim; /* of slots that are declared; UNKNOWN: there are none */
	bool is_new;           /* it makes the semaphore, and enters its name before */
	bool vain; /* the semaphore does not exist: no-such-lock, unless a step removes something */
	struct step steps[PLAN_STEPS_MAX];
	size_t count;
};

/* The order for a change; `setting` and `most`: see struct plan_order. */
struct plan_order plan_order(
    enum plan_work work, const struct lock_change *change, enum lock_claim setting, int most);
/* Why no state found can allow the order, and the wrong parameter (both static); NULL: one can. */
const char *plan_nonsense(
    const struct plan_order *order, enum lock_kind kind, const char **ret_parameter);
/* "a resize to 5": for refusals of requests that had to wait behind it. */
void plan_words(const struct plan_order *order, char *ret_text, size_t size);

/* A warning for its success; static; NULL: none. */
const char *plan_warning(const struct plan_order *order, const struct plan_found *found);

struct plan plan_make(const struct plan_order *order, const struct plan_found *found);
/*
 * After the broker refused a declare. If that leaves an entry without a semaphore in the directory,
 * the plan becomes one that removes it. False: there is nothing to undo.
 */
bool plan_undo(struct plan *plan);
/* The number of slots that all steps of a kind declare or delete. */
int plan_slots(const struct plan *plan, enum step_kind kind);
/* The number of slots of a step; 1 for a step without slots. */
int plan_step_slots(const struct step *step);
/* The slot of a step after `count` others, upwards or downwards. */
int plan_step_slot(const struct step *step, int count);

/*
 * The findings of fsck, from what its scan has seen. Knows no broker and no requests.
 */

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
