/*
 * fsck of slots that are held by quorum: looks into their queues, finds the problems, and repairs them
 * (docs/QUORUM.md, "Repairs"). A part of fsck.c, which owns the request and the mutex.
 *
 *	read the record		(if there are records)
 *	find the queues		(passive declares, also above the record's size)
 *	look into each		(broker_look_at_beads(): only into those that are free)
 *	repair			write the record; delete queues with other arguments; make slots that
 *				are missing or damaged (broker_make_beads()); declare the gate
 *	scan again, and		delete As that are beside these slots, as in a conversion (fsck_convert.h)
 *
 * The record says how many slots there should be. If more are there without a gap, these count, too.
 * A slot that is in use is not looked into, and not repaired. As are there if a conversion was cut,
 * or after a resize by a daemon of version 0.1, which takes the slots for a gate.
 */
#ifndef LOCK_FSCK_QUORUM_H
#define LOCK_FSCK_QUORUM_H

#include "daemon/lock/admin/fsck_findings.h"
#include "daemon/lock/admin/work.h"
#include "daemon/lock/core/engine.h"

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
/* Whether each slot that should be there can be held. */
bool fsck_quorum_is_sound(const struct fsck_quorum *quorum);
/* The number of slots that should be there. */
int fsck_quorum_size(const struct fsck_quorum *quorum);
bool fsck_quorum_repairable(const struct fsck_findings *findings);
/* Repairs all that can be repaired. `then` goes on. */
void fsck_quorum_repair(struct lock_engine *engine, struct fsck *fsck, fsck_step *then);
/*
 * Adds the requests that delete all As to the work, from the highest down. Each slot is claimed first. One
 * that is held stays, and with it those below.
 */
void fsck_quorum_add_as(struct fsck *fsck);
/* Judges the work of a repair, and of a conversion. */
enum work_verdict fsck_quorum_judge(struct lock_engine *engine, struct work *work,
    const struct work_request *request, const struct broker_reply *reply);
/* Slots that were free were in use for a moment: daemons with waiters are told. */
void fsck_quorum_tell(struct lock_engine *engine, const struct fsck *fsck);
void fsck_quorum_done(struct fsck_quorum *quorum);

#endif
