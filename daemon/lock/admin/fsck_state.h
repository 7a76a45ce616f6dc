/*
 * The state of an fsck, and the steps that fsck.c and fsck_repair.c share.
 */
#ifndef LOCK_FSCK_STATE_H
#define LOCK_FSCK_STATE_H

#include "daemon/lock/admin/fsck_findings.h"
#include "daemon/lock/admin/peer_order.h"
#include "daemon/lock/core/awaited.h"
#include "daemon/lock/core/engine.h"

enum fsck_state {
	FSCK_QUEUED,     /* behind an older request of its peer on the name (peer_order.h) */
	FSCK_LOCKING,    /* waits for the mutex */
	FSCK_SCANNING,   /* owns the mutex; all slots are being probed */
	FSCK_READING,    /* the directory is being read */
	FSCK_DECLARING,  /* queues below `item` are declared or missing; `unanswered` are sent */
	FSCK_DELETING,   /* uncounted slots: `slot` is being deleted, all above it are gone */
	FSCK_CLEARING,   /* the durable B of `slot` is being deleted, or declared again */
	FSCK_ASKING,     /* a probe asks whether transient `slot` is held */
	FSCK_RENEWING,   /* it is being deleted and declared: `unanswered` of these two */
	FSCK_OPENING,    /* the gate is being deleted */
	FSCK_LISTING,    /* the directory is being changed */
	FSCK_CONVERTING, /* the B of `slot` is being declared or deleted */
	FSCK_UNLOCKING,  /* the mutex is being dropped, then the outcome is answered */
	FSCK_RESTING     /* without the mutex, until busy slots are tried again */
};

struct fsck;
typedef void fsck_next_fn(struct lock_engine *engine, struct fsck *fsck);

struct fsck {
	uint64_t op; /* the request; the key. The fsck goes when its deadline answers it */
	struct peer_order peer_order;
	enum fsck_state state;
	char *name; /* owned */
	bool repair;
	unsigned scans; /* scans begun: 2 = the one after the repair */
	struct fsck_seen seen;
	struct fsck_findings findings;
	int slot;
	int item; /* DECLARING: 2 * slot is its A, and the number after that its B */
	int unanswered;
	int window;         /* DECLARING: maximum of `unanswered` */
	bool hides_queues;  /* DECLARING: as broker_info had it at the beginning */
	bool deleted;       /* CLEARING, RENEWING: the queue is gone, and its declare is owed */
	bool channel_gone;  /* an answer said so */
	fsck_next_fn *next; /* continues after a repair or a conversion */
	enum reason outcome;
	char text[256]; /* of the outcome; "" = the reason's own */

	enum lock_claim convert; /* as requested; UNKNOWN: the slots stay as they are */
	int *left;               /* owned; the slots that are held otherwise, ascending */
	size_t left_count;
	size_t left_told; /* `left_count` in the last notice */
	int converted;
	int tries;      /* CONVERTING: how many busy slots may still be tried */
	int tries_most; /* `tries` at the beginning of a pass */
	int tried; /* the last busy slot of the pass before, which tried as many as it could; or 0 */

	int64_t wait;  /* as requested; 0: it ends with this pass */
	int64_t until; /* clock time of the end of that wait; INT64_MAX: none */
	int64_t rest;
	bool progress;
	bool waiting; /* the first pass is over; `awaited` is in use, and `peer_order` is not */
	bool is_cancelled;
	struct awaited awaited;
	UT_hash_handle by_op;
};

void fsck_set_state(struct fsck *fsck, enum fsck_state state);
/* The request made progress. */
void fsck_progress(struct lock_engine *engine, const struct fsck *fsck);
void fsck_set_outcome(struct fsck *fsck, enum reason reason, const char *text);
/* Answers the request. */
void fsck_tell_outcome(struct lock_engine *engine, struct fsck *fsck);
/* Ends the work with this outcome, and drops the mutex. */
void fsck_unlock(
    struct lock_engine *engine, struct fsck *fsck, enum reason reason, const char *text);
/* The answer is unknown because the connection died: MUTEX_LOST follows, and ends the fsck. */
bool fsck_link_has_died(const struct lock_engine *engine, enum broker_answer answer);
/*
 * Handles the part of an answer that concerns the channel. False: the fsck has left that state, or
 * ends with the connection.
 */
bool fsck_take_reply(struct lock_engine *engine, struct fsck *fsck, enum fsck_state state,
    const struct broker_reply *reply);

#endif
