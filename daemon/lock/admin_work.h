/*
 * What an administrator does under the administration mutex: declaring the As of a semaphore, ascending,
 * or deleting them, descending, each after the delete-ok of the one before. admin.c, which shares the
 * record of the request with this, gets the mutex before and lets it go after.
 */
#ifndef LOCK_ADMIN_WORK_H
#define LOCK_ADMIN_WORK_H

#include "daemon/lock/engine.h"

enum admin_work { ADMIN_CREATE, ADMIN_DESTROY, ADMIN_SIZE };

enum admin_state {
	ADMIN_QUEUED,    /* behind an older one of the name here; it goes on when that is done */
	ADMIN_BUSY,      /* an administrator elsewhere has the mutex: the timer tries again */
	ADMIN_LOCKING,   /* the mutex is being claimed */
	ADMIN_COUNTING,  /* it is ours, or not needed; the maximum is being determined */
	ADMIN_DECLARING, /* A[1..confirmed] of `target` are there, `unanswered` more asked for */
	ADMIN_DELETING,  /* A[left] is being deleted, those above it are gone */
	ADMIN_UNLOCKING  /* the mutex is being dropped, then the outcome is told */
};

struct admin {
	uint64_t op; /* the request, which may have been answered by its deadline; the key */
	enum admin_work work;
	enum admin_state state;
	uint64_t peer;
	char *name; /* owned */
	bool exist_ok;
	enum lock_kind kind;             /* create: as asked */
	int target;                      /* create: slots wanted */
	int found;                       /* slots that there were */
	int confirmed, unanswered, left; /* see the states */
	uint64_t lane;                   /* of the side link; 0 = none, or it died */
	enum reason outcome;
	char text[256];     /* of the outcome; "" = the reason's own */
	struct timer again; /* BUSY */
	UT_hash_handle by_op;
	TAILQ_ENTRY(admin) of_line;
};

/* Of admin.c. */
struct admin *admin_find(const struct lock_engine *engine, uint64_t op); /* or NULL */
/* The lane of the work, replaced when it died. */
uint64_t admin_lane(struct lock_engine *engine, struct admin *admin);
/* Lets the mutex go, then tells the outcome. */
void admin_unlock(
    struct lock_engine *engine, struct admin *admin, enum reason reason, const char *text);
/* The link died under the work: the mutex went with it. */
void admin_abandon(struct lock_engine *engine, struct admin *admin);

/* DECLARING, DELETING: the next step of the work, or its end. Also when its lane died. */
void admin_work_go_on(struct lock_engine *engine, struct admin *admin);

#endif
