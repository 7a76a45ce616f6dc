/*
 * One fsck: its state, its outcome, and the work that it does under the mutex. It knows no step of an fsck:
 * these are in fsck.c and fsck_quorum.c.
 */
#ifndef LOCK_FSCK_CORE_H
#define LOCK_FSCK_CORE_H

#include "daemon/lock/admin/fsck_quorum.h"
#include "daemon/lock/admin/peer_order.h"
#include "daemon/lock/admin/work.h"
#include "daemon/lock/core/awaited.h"

enum fsck_state {
	FSCK_QUEUED,    /* behind an older request of its peer on the name (peer_order.h) */
	FSCK_LOCKING,   /* waits for the mutex */
	FSCK_SCANNING,  /* owns the mutex; all slots are being probed */
	FSCK_READING,   /* the directory is being read */
	FSCK_WORKING,   /* `work` is performed: it examines, repairs or converts; then `next` */
	FSCK_UNLOCKING, /* the mutex is being dropped, then the outcome is answered */
	FSCK_RESTING    /* without the mutex, until busy slots are tried again */
};

struct fsck {
	uint64_t op; /* the request; the key. The fsck goes when its deadline answers it */
	struct peer_order peer_order;
	enum fsck_state state;
	char *name; /* owned */
	bool repair;
	unsigned scans; /* scans begun: 2 = the one after the repair */
	struct fsck_seen seen;
	struct fsck_quorum quorum;
	struct fsck_findings findings;
	struct work work;
	fsck_step *next;
	enum reason outcome;
	char text[256]; /* of the outcome; "" = the reason's own */

	enum lock_claim convert; /* as requested; UNKNOWN: the slots stay as they are */
	int *left;               /* owned; the slots that are held otherwise, ascending */
	size_t left_count;
	size_t left_told; /* `left_count` in the last notice */
	int converted;
	int whole;        /* slots by quorum when their conversion began */
	int quorum_left;  /* those of them that are left */
	fsck_step *after; /* that conversion */
	bool as_tried;    /* a repair has tried to delete the As beside slots by quorum */
	bool
	    settles; /* a pass changed slots by quorum, and the scan that tells the outcome has begun */
	bool changed; /* slots by quorum, or those beside them, came or went in this pass */
	/* This connection has B of that slot, and perhaps A cannot be deleted; 0: none */
	int claimed;
	enum broker_answer stuck; /* the answer about that A; OK: it is gone */
	int tries;                /* of a conversion: how many busy slots may still be tried */
	int tries_most;           /* `tries` at the beginning of a pass */
	int tried; /* the last busy slot of the pass before, which tried as many as it could; or 0 */

	int64_t takeover_grace; /* as requested */
	int64_t wait;           /* as requested; 0: it ends with this pass */
	int64_t until;          /* clock time of the end of that wait; INT64_MAX: none */
	int64_t rest;
	bool progress;
	bool waiting; /* the first pass is over; `awaited` is in use, and `peer_order` is not */
	bool is_cancelled;
	struct awaited awaited;
	UT_hash_handle by_op;
};

/* NULL: it has ended. */
struct fsck *fsck_find(const struct lock_engine *engine, uint64_t op);
void fsck_set_state(struct fsck *fsck, enum fsck_state state);
/* text: copied; NULL: the reason's own. */
void fsck_set_outcome(struct fsck *fsck, enum reason reason, const char *text);
void fsck_tell_outcome(struct lock_engine *engine, struct fsck *fsck);
/* The list of another work begins. `next` goes on when all is done. */
void fsck_work_new(struct lock_engine *engine, struct fsck *fsck,
    enum work_verdict (*judge)(struct lock_engine *engine, struct work *work,
	const struct work_request *request, const struct broker_reply *reply),
    fsck_step *next);
/* Of struct work. */
void fsck_work_ended(
    struct lock_engine *engine, struct work *work, enum reason reason, const char *text);
/* Ends the work with this outcome, and drops the mutex. */
void fsck_unlock(
    struct lock_engine *engine, struct fsck *fsck, enum reason reason, const char *text);
/* The same: the broker did not say whether... */
void fsck_unlock_unknown(struct lock_engine *engine, struct fsck *fsck, const char *of_what);

#endif
