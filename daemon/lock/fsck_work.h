/*
 * The steps of fsck that ask something of the lane on which the admin mutex is held: how each slot was
 * declared, and mending. fsck.c, which shares the record of the request with this, does the rest.
 */
#ifndef LOCK_FSCK_WORK_H
#define LOCK_FSCK_WORK_H

#include "daemon/lock/engine.h"
#include "daemon/lock/fsck_findings.h"
#include "daemon/lock/turn.h"

enum fsck_state {
	FSCK_QUEUED,    /* behind an older request of its peer on the name (turn.h) */
	FSCK_LOCKING,   /* in the line of the mutex */
	FSCK_SURVEYING, /* it is ours; all slots are being probed */
	FSCK_READING,   /* the directory is being read */
	FSCK_DECLARING, /* slots below `slot` were declared, or are not there; `unanswered` are asked */
	FSCK_DELETING, /* strays: those above `slot` are gone, it is being deleted */
	FSCK_ASKING,   /* whether transient `slot` is held, by a probe */
	FSCK_RENEWING, /* it is being deleted and declared: `unanswered` of the two */
	FSCK_OPENING,  /* the gate is being deleted */
	FSCK_LISTING,  /* the directory is being changed */
	FSCK_UNLOCKING /* the mutex is being dropped, then the outcome is told */
};

struct fsck {
	uint64_t op; /* the request; the key. The fsck goes when its deadline answers it */
	struct turn turn;
	enum fsck_state state;
	char *name; /* owned */
	bool repair;
	unsigned looks; /* begun: 2 = that after mending */
	struct fsck_seen seen;
	struct fsck_findings findings;
	int slot;
	int unanswered;
	int window;     /* DECLARING: most that may be unanswered */
	bool deleted;   /* RENEWING: it is gone, and owed a declare */
	bool lane_gone; /* an answer said so */
	enum reason outcome;
	char text[256]; /* of the outcome; "" = the reason's own */
	UT_hash_handle by_op;
};

/* Of fsck.c. */
struct fsck *fsck_find(const struct lock_engine *engine, uint64_t op); /* or NULL */
void fsck_set_state(struct fsck *fsck, enum fsck_state state);
/* Lets the mutex go, then tells the outcome. Comes last, as do all that may end it. */
void fsck_unlock(
    struct lock_engine *engine, struct fsck *fsck, enum reason reason, const char *text);
/* All slots were declared. */
void fsck_looked(struct lock_engine *engine, struct fsck *fsck);
/* All queues were mended: the directory is next. */
void fsck_mended(struct lock_engine *engine, struct fsck *fsck);

/* Begins DECLARING; ends with fsck_looked(). */
void fsck_work_declare(struct lock_engine *engine, struct fsck *fsck);
/* Begins DELETING and what follows; ends with fsck_mended(). */
void fsck_work_mend(struct lock_engine *engine, struct fsck *fsck);

#endif
