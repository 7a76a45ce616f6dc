/*
 * Doing what was planned, step by step, under the administration mutex: each step begins when all of the
 * one before it was answered. Declares of slots go out many at a time, on one lane; all else is awaited
 * one by one. admin.c, which shares the record of the request with this, gets the mutex before and lets
 * it go after.
 */
#ifndef LOCK_ADMIN_WORK_H
#define LOCK_ADMIN_WORK_H

#include "daemon/lock/admin_plan.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/turn.h"

enum admin_state {
	ADMIN_QUEUED,   /* behind an older request of its peer on the name (turn.h) */
	ADMIN_LOCKING,  /* in the line of the mutex */
	ADMIN_COUNTING, /* it is ours, or not needed; the maximum is being determined */
	ADMIN_WORKING,  /* at `step` of the plan */
	ADMIN_UNLOCKING /* the mutex is being dropped, then the outcome is told */
};

/* What a sweep has seen: first it looks, window by window, then it deletes. */
struct admin_sweep {
	int looked; /* the last slot that was looked at; 0: none yet */
	bool clean; /* the last window had none */
	int *slots; /* owned; those there, ascending; `count` of them are still to go */
	size_t count;
};

struct admin {
	uint64_t op; /* the request, which may have been answered by its deadline; the key */
	enum admin_state state;
	bool size_only; /* its size is all that is asked: no mutex, no plan */
	struct plan_order order;
	uint64_t peer;
	char *name;          /* owned */
	char what[48];       /* in words: "a resize to 5" */
	enum lock_kind kind; /* create: as asked */
	int64_t wait;        /* for the holders of removed slots; see lock_change */
	bool progress;
	int found;  /* the size that there was; -1: not known */
	int target; /* the size that it is to get; -1: not known, or none */
	struct plan plan;
	size_t step;              /* of plan.steps */
	int done;                 /* of the step: answered with yes */
	int unanswered;           /* of the step: asked for, and not answered */
	enum broker_answer wrong; /* the first answer of the step that was not yes; OK: none yet */
	char wrong_text[160];     /* its words */
	bool lane_gone;           /* an answer of the step said so */
	unsigned skips;           /* lanes that died since the last yes */
	struct admin_sweep sweep; /* of the step */
	int declared, deleted;    /* slots, so far */
	bool removed;             /* something was */
	int highest;              /* slot that was removed; 0: none */
	enum reason outcome;
	char text[256]; /* of the outcome; "" = the reason's own */
	UT_hash_handle by_op;
	struct turn turn;
};

/* Of admin.c. */
struct admin *admin_find(const struct lock_engine *engine, uint64_t op); /* or NULL */
/* Lets the mutex go, then tells the outcome. Comes last: the admin may be gone after it. */
void admin_unlock(
    struct lock_engine *engine, struct admin *admin, enum reason reason, const char *text);

/* WORKING: does the next step, or ends it all. Comes last, too. */
void admin_work_go_on(struct lock_engine *engine, struct admin *admin);
/* Puts what was done so far in front of `why`. */
void admin_work_say(const struct admin *admin, const char *why, char *ret_text, size_t size);

#endif
