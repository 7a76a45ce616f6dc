/*
 * Work under an administration mutex: a list of requests to the broker, which are performed in order.
 * Each is about one queue, or about the name in the directory or in the records. This is the one
 * interpreter of such lists. admin.c and fsck.c make the lists, and judge the answers.
 *
 * A request waits until all before it are answered, unless it `flows`. One that was not performed,
 * because its channel died, is sent again. If its channel dies too often, the work fails. The end of
 * the auxiliary connection ends the mutex, and the owner of the work with it.
 */
#ifndef LOCK_WORK_H
#define LOCK_WORK_H

#include "daemon/lock/engine.h"

enum work_kind {
	WORK_ENTER,        /* the name into the directory. OK */
	WORK_LEAVE,        /* the name out of it. OK, or ABSENT: it was not there */
	WORK_DECLARE_POST, /* of a mutex by quorum */
	WORK_DECLARE_GATE,
	WORK_DELETE_GATE,
	WORK_DECLARE_UNLIMITED,
	WORK_DELETE_UNLIMITED,
	/*
	 * Probes `slot` to `last`, and on while any exists. Each that exists is deleted, the highest
	 * first, and its B after it: requests that are put behind this one. It is not judged.
	 */
	WORK_SWEEP,
	/* The same of slots by quorum, with DELETE_BEADS. The floor then rises above their fences. */
	WORK_SWEEP_BEADS,
	WORK_DECLARE_SLOT,     /* A */
	WORK_DELETE_SLOT,      /* A */
	WORK_DELETE_UNCOUNTED, /* A of a slot above the size */
	WORK_MAKE_HOLDER,      /* a durable B */
	WORK_DELETE_HOLDER,    /* a durable B, unless it is held */
	WORK_CHECK_HOLDER,     /* B, without a declare */
	WORK_CLAIM_HOLDER, /* B becomes an exclusive queue of the auxiliary connection, so nobody holds it */
	WORK_DROP_HOLDER, /* such a B */
	WORK_ASK_HOLDER,  /* whether B is held: OK, ABSENT, UNREACHABLE or UNKNOWN */

	/* From here on: the records of slots by quorum. Then these slots, several at once. */

	/*
	 * The record of a name by quorum: opens the records, writes this one, and closes them. slot: the size,
	 * -1: the record is removed. last: the first slot that will be made, 0: none. Decides about work.beads.
	 */
	WORK_RECORD,
	/*
	 * The same about work.beads, and the floor alone rises: for a repair. The record stays. last: 0: above the
	 * slots that were deleted, and nothing will be made.
	 */
	WORK_RESERVE_EPOCH,
	WORK_READ_RECORD, /* OK: work.record has it, if there is one; ABSENT: nothing was ever recorded */
	WORK_FORGET_RECORD, /* removes the record, if there are records. OK or ABSENT */
	/* The Bs of the slots by quorum slot..last, in any order: see work.beads. It can take seconds. */
	WORK_MAKE_BEADS,
	WORK_LOOK_AT_BEADS, /* the same slots, and all free ones stay as they are: see work.saw */
	WORK_CLEAR_BEADS, /* the same slots: those that are not as this way makes them are deleted */
	/* Downwards from slot to last. One that is held stays, as a removed slot. It can take a grace */
	WORK_DELETE_BEADS,
	WORK_CONVERT_BEADS, /* of a slot by quorum: claimed and deleted. One that is held stays as it is */

	WORK_BY_QUORUM = WORK_RECORD, /* this kind, and those behind it */
	WORK_OF_MANY = WORK_MAKE_BEADS
};

struct work_request {
	enum work_kind kind;
	int slot, last; /* slot 0: of no slot. last: of a sweep */
	bool flows;     /* it is sent while those before it are unanswered, in windows */
	bool
	    depends; /* it is left out if the one before it was left. If it flows: no window divides them */
};

/* The search for uncounted slots above a size, window by window. Zeroed: nothing was probed. */
struct sweep {
	int probed; /* the last probed slot; 0: none yet */
	bool clean; /* the last window had no uncounted slots */
	int *slots; /* owned; the slots found, ascending */
	size_t count;
};

/* Of a slot. CLASSIC: it is wanted, and its B is no quorum queue. */
enum work_want { WORK_UNWANTED, WORK_WANTED, WORK_WANTED_CLASSIC };

enum work_verdict {
	WORK_DONE,  /* go on with the next request */
	WORK_LEFT,  /* go on, but without those that depend on this one */
	WORK_AGAIN, /* send it again */
	WORK_FAILED /* nothing more is sent: work_fail() was called */
};

struct work {
	uint64_t op; /* of the owner, and of its mutex; the key */
	const char *name;
	/* The slot is that of the true mutex of this name: slot 1 of a request. It has no record. */
	bool mutex;
	/* Judges the answer to a request. */
	enum work_verdict (*judge)(struct lock_engine *engine, struct work *work,
	    const struct work_request *request, const struct broker_reply *reply);
	/*
	 * All is done (REASON_NONE), or the work failed. No request is in flight. The owner begins other
	 * work, or drops the mutex. text: borrowed; NULL: the reason's own.
	 */
	void (*ended)(
	    struct lock_engine *engine, struct work *work, enum reason reason, const char *text);
	/*
	 * Of MAKE_BEADS, LOOK_AT_BEADS and CLEAR_BEADS: whether a slot is wanted, and its answer. False: that is
	 * a failure; `judge` hears of the first one. NULL: all are wanted, and all answers but OK are failures.
	 */
	enum work_want (*wants)(const struct lock_engine *engine, const struct work *work,
	    enum work_kind kind, int slot);
	bool (*saw)(struct lock_engine *engine, struct work *work, enum work_kind kind, int slot,
	    const struct broker_reply *reply);
	int most_slots;            /* of a sweep: it goes on up to this slot */
	struct broker_beads beads; /* of slots by quorum; grace 0: that of the record, or 20 s */
	bool force; /* of slots by quorum: the clock may be far ahead of the records */
	int counted; /* slots without a gap, before the work: a record that shrinks may count missing ones */
	uint64_t epoch_below; /* the epochs of slots that were deleted, or seen, are below it */
	int64_t grace_seen;   /* the same of T, ns */
	struct broker_record record; /* of READ_RECORD; epoch 0: there is none */
	uint64_t floor;              /* the same: of all epochs */

	/* The rest is of work.c. */
	uint64_t records;   /* the session; 0: none is open */
	struct timer pause; /* of RECORD and FORGET_RECORD: holders of missing slots stop */
	bool has_paused;
	struct {
		int next, open, done;       /* the next slot; slots in work; those that succeeded */
		int again;                  /* how often all were made again */
		enum broker_answer failure; /* of the first one that failed; OK: none */
		char text[300];
	} making;                  /* of WORK_MAKE_BEADS and its likes */
	struct work_request *list; /* owned */
	size_t count, room;
	size_t at;           /* those before it are done or left */
	size_t sent;         /* those before it are sent */
	size_t window;       /* maximum in flight */
	unsigned unanswered; /* requests in flight */
	enum work_verdict verdict;
	bool channel_gone; /* an answer said so */
	unsigned again;    /* answers AGAIN since the last DONE */
	struct sweep sweep;
	enum reason reason; /* FAILED */
	char text[256];
	UT_hash_handle by_op;
};

/* Forgets the list and its state. The facts about the owner stay. */
void work_clear(struct lock_engine *engine, struct work *work);
/* Adds a request to the end. Borrowed until the next one is added. */
struct work_request *work_add(struct work *work, enum work_kind kind, int slot);
/* Performs the list. The mutex is held. `ended` may be called from inside. */
void work_start(struct lock_engine *engine, struct work *work);
/* In a judgement: the work fails. text: copied. */
enum work_verdict work_fail(struct work *work, enum reason reason, const char *text);
/* A slot was claimed with that fence (0: it was not), and goes. Later sets are above it. */
void work_saw_fence(struct work *work, uint64_t fence);
/* In a judgement: it was not performed, or perhaps not. AGAIN; FAILED if that came too often. */
enum work_verdict work_again(const struct lock_engine *engine, struct work *work);
/* The request whose answer is awaited. NULL: none. */
const struct work_request *work_awaited(const struct work *work);

#endif
