/*
 * One fsck, as a struct with its state and outcome (fsck_*). Its work on slots by quorum is here
 * (fsck_quorum_*), and the conversion to and from them (fsck_convert_*). fsck.c owns the request and the order
 * of its passes, and uses this module.
 */
#ifndef LOCK_FSCK_QUORUM_H
#define LOCK_FSCK_QUORUM_H

#include "daemon/lock/engine.h"
#include "daemon/lock/plan.h"
#include "daemon/lock/work.h"

/*
 * fsck of slots that are held by quorum: looks into their queues, finds the problems, and repairs them
 * (docs/QUORUM.md, "Repairs").
 *
 *	read the record		(if there are records)
 *	find the queues		(passive declares, also above the record's size)
 *	look into each		(broker_look_at_beads(): only into those that are free)
 *	repair			write the record; delete queues with other arguments; make slots that
 *				are missing or damaged (broker_make_beads()); declare the gate
 *	scan again, and		delete As that are beside these slots, as in a conversion
 *
 * The record says how many slots there should be. If more are there without a gap, these count, too.
 * A slot that is in use is not looked into, and not repaired. As are there if a conversion was cut,
 * or after a resize by a daemon of version 0.1, which takes the slots for a gate.
 */

struct fsck;
/* A step of an fsck. */
typedef void fsck_step(struct lock_engine *engine, struct fsck *fsck);

/* A slot that was asked for. */
struct fsck_slot {
	bool exists;
	enum broker_answer answer; /* of the look, if it exists; LOCKED: it is in use */
	int code;                  /* of REFUSED; 0: it has too many messages */
	bool classic;              /* its queue is no quorum queue */
	bool removed;              /* a removal is there */
	struct broker_beads_seen beads;
	/* The repair left it. Then the rest is as before, unless it can be seen again. */
	bool left;
};

/* All that one scan has seen. */
struct fsck_quorum {
	bool is_meant; /* the slots are held so, or a record says it */
	bool gate;
	bool has_records;            /* of any name */
	struct fsck_slot *slots;     /* owned; by slot - 1 */
	int asked, room;             /* their number in this scan, and in all */
	int counted;                 /* slots without a gap, from 1 */
	struct broker_record record; /* epoch 0: there is none */
	uint64_t floor;              /* of all epochs */
	uint64_t epoch;              /* the largest that was seen */
	int64_t grace;               /* the same, ns */
	fsck_step *then;             /* after the looks */
};

/* Whether a full scan has seen such slots, or nothing that excludes them. */
bool fsck_quorum_may_be(const struct lock_engine *engine, const struct fsck_seen *seen);
/* Asks and looks. `then` goes on, and is_meant tells whether they are such slots. */
void fsck_quorum_examine(struct lock_engine *engine, struct fsck *fsck, fsck_step *then);
/* The scan has seen As. */
bool fsck_quorum_has_as(const struct fsck_seen *seen);
/* tells_as: As beside slots by quorum are findings. */
void fsck_quorum_findings(struct fsck_findings *findings, const struct fsck_seen *seen,
    const struct fsck_quorum *quorum, bool tells_as);
bool fsck_quorum_repairable(const struct fsck_findings *findings);
/* Repairs all that can be repaired. `then` goes on. */
void fsck_quorum_repair(struct lock_engine *engine, struct fsck *fsck, fsck_step *then);
/* Judges the work of a repair, and of a conversion. */
enum work_verdict fsck_quorum_judge(struct lock_engine *engine, struct work *work,
    const struct work_request *request, const struct broker_reply *reply);
/* Slots that were free were in use for a moment: daemons with waiters are told. */
void fsck_quorum_tell(struct lock_engine *engine, const struct fsck *fsck);
void fsck_quorum_done(struct fsck_quorum *quorum);

/*
 * One fsck: its state, its outcome, and the work that it does under the mutex. fsck.c has the order of its
 * passes.
 */

enum fsck_state {
	FSCK_QUEUED,    /* behind an older request of its peer on the name (engine.h) */
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

/*
 * Conversion of a semaphore from slots with As to slots by quorum, and back. A part of fsck.c, which owns the
 * request, the mutex and the wait for busy slots. The two other ways differ in B alone: fsck.c.
 *
 *	to quorum		write the record; make all slots; declare the gate; claim each slot with an
 *				A, and delete A, from the highest down
 *	to As			claim and delete each slot, from the highest down; declare the As that the
 *				record counts; remove the record; delete the gate
 *
 * At each time clients find slots of one kind: As come first, and slots by quorum are behind the gate. A slot is
 * claimed before it goes, and those of the other kind are found when all are gone. So there are never more
 * holders than slots. A daemon of version 0.1 sees the As, or a gate. A slot in use stays, and with it those
 * below, so that there is no gap. Meanwhile the semaphore has fewer slots.
 *
 * The next fsck finds a conversion that was cut, and a repair completes it. As beside slots by
 * quorum go. Slots by quorum that the record counts are made again. A record beside As alone goes, after the As
 * that it counts have been declared.
 */

/* One pass. `then` goes on. Nothing was done, unless fsck->changed is true. */
void fsck_convert_to_quorum(struct lock_engine *engine, struct fsck *fsck, fsck_step *then);
/* Whether the slots seen are converted by the next function. */
bool fsck_convert_is_from_quorum(const struct fsck *fsck);
void fsck_convert_from_quorum(struct lock_engine *engine, struct fsck *fsck, fsck_step *then);

/*
 * A record alone beside As: a conversion to As was cut, if its gate is there, too. Adds the requests that
 * complete it, in front of those of a repair of As.
 */
bool fsck_convert_is_record_left(const struct fsck *fsck);
void fsck_convert_add_record_left(struct fsck *fsck);

#endif
