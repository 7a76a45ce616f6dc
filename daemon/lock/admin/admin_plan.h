/*
 * Plans a change: from the order and the state found, it makes the list of steps. Pure functions:
 * they know no broker and change nothing.
 *
 * The state found is the markers N-U and N-G, and the number of slots without a gap. An acquire
 * decides by N-U first, then A[1], then N-G (design: "Precedence"). During a change an acquire sees
 * the size before, the size after, or a number of slots between them. A change can be cut after any
 * step. The same command, given again, completes it.
 */
#ifndef LOCK_ADMIN_PLAN_H
#define LOCK_ADMIN_PLAN_H

#include "daemon/lock/lock.h"

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

#endif
