/*
 * What an administrator does, step by step: from what is wanted of a semaphore and what was found of it,
 * to the list of steps. Pure: asks nobody, changes nothing.
 *
 * Found are the markers N-U and N-G, and the number of slots without a gap. An acquire heeds N-U first,
 * then A[1], then N-G (design: "Precedence"); each list is such that what it finds meanwhile is the size
 * before or the size after, or a number of slots between them. And each can be cut after any step: the
 * same command, given again, finds what the cut left and completes it.
 */
#ifndef LOCK_ADMIN_PLAN_H
#define LOCK_ADMIN_PLAN_H

#include "daemon/lock/lock.h"

/* Slots above the size that are looked at for uncounted slots, at least; and for holders that are waited for. */
#define PLAN_SWEEP_LEAST 256

enum plan_work {
	PLAN_CREATE,
	PLAN_CREATE_MISSING, /* for an acquire: what is there is left as it is */
	PLAN_RESIZE,
	PLAN_DESTROY
};

struct plan_order {
	enum plan_work work;
	enum { PLAN_TO, PLAN_ADD, PLAN_REMOVE } by; /* resize */
	int slots;                                  /* as asked; LOCK_UNLIMITED. Destroy: 0 */
	bool exist_ok, ascending;
	int overshoot;
	int most; /* slots that there may be */
};

struct plan_found {
	bool unlimited, gate;
	int slots;
};

enum step_kind {
	STEP_SWEEP, /* probes `first` to `last`, and on while any is there; deletes those, from the top */
	STEP_ENTER, /* the name goes into the directory */
	STEP_LEAVE, /* and out of it */
	STEP_DECLARE_GATE,
	STEP_DELETE_GATE,
	STEP_DECLARE_UNLIMITED,
	STEP_DELETE_UNLIMITED,
	STEP_DECLARE_SLOTS, /* A[first] to A[last], ascending */
	STEP_DELETE_SLOTS /* A[first] to A[last], either way, each after the delete-ok before it */
};

struct step {
	enum step_kind kind;
	int first, last;
};

#define PLAN_STEPS_MAX 8

struct plan {
	enum reason refusal;   /* REASON_NONE; else there are no steps */
	char text[96];         /* of the refusal; "" = the reason's own */
	const char *parameter; /* of invalid-params; static */
	int target;            /* the size that it is to get, refused or not; -1 = not known */
	bool vain;             /* it is not there: when no step removes anything, no-such-lock */
	struct step steps[PLAN_STEPS_MAX];
	size_t count;
};

/* The order that a change is; `most`: see it. */
struct plan_order plan_order(enum plan_work work, const struct lock_change *change, int most);
/* Why it makes no sense whatever is found, and which parameter (both static); NULL: it does. */
const char *plan_nonsense(
    const struct plan_order *order, enum lock_kind kind, const char **ret_parameter);
/* "a resize to 5": for those who stand behind it. */
void plan_words(const struct plan_order *order, char *ret_text, size_t size);

struct plan plan_make(const struct plan_order *order, const struct plan_found *found);
/* Slots that the steps of a kind declare or delete in all. */
int plan_slots(const struct plan *plan, enum step_kind kind);
/* How many a step is about; 1 for one that is about none. */
int plan_step_slots(const struct step *step);

#endif
