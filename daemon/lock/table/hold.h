/*
 * Holds: everything this daemon has, may have, or is giving back. A hold exists from before its B's
 * declare is sent until that B is *known* to be gone (delete-ok, 404 or 405 on the claim, or the death
 * of the lock connection), and while it exists its B is reserved: nobody here claims it a second time.
 *
 * That is invariant 1, and the reason is RabbitMQ's: a connection may declare its own exclusive queue
 * again, so between the peers of one daemon only this table arbitrates.
 *
 *	          claim ok            A seen                 release, peer gone
 *	CLAIMING ---------> CHECKING --------> HELD ----------------------------> DROPPING ---> gone
 *	   |                   |               |  ^                                  ^    delete-ok
 *	   | 405, link died    | A gone, or    |  | claimed again                    |
 *	   v                   | nobody wants  v  |                                  |
 *	  gone                 | it any more  RECLAIMING --- 405: lost --> gone      |
 *	                       +-----------------------------------------------------+
 *
 * Who releases, or hangs up, while others wait here hands its slot on: HELD stays HELD, of another peer
 * and under another number (release.h), at once, or after what has to be asked before:
 *
 *	HELD ---> COUNTING ---> PASSING ---> HELD		and from each of them DROPPING
 *	  |           |            ^
 *	  +-----------|------------+
 *	              +-------------------> HELD
 *
 * The link's death ends every hold, from every state.
 *
 * A hold that takes no slot is none of this: nothing of it is on the broker, so nothing but its release,
 * or its peer's hang-up, ends it (SLOTLESS).
 */
#ifndef LOCK_HOLD_H
#define LOCK_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/lock/lock.h"
#include "daemon/lock/table/names.h"
#include "daemon/lock/table/requester.h"
#include "daemon/lock/table/share.h"

enum hold_state {
	HOLD_CLAIMING, /* B's declare is sent, or owed, and not answered. Nobody was told anything */
	HOLD_CHECKING,   /* B is ours; A not yet seen since. Nobody was told anything */
	HOLD_HELD,       /* B is ours, A was seen after it, the peer was told */
	HOLD_RECLAIMING, /* as HELD, but B was found gone and its declare is sent again */
	HOLD_COUNTING,   /* nobody's, on its way to another peer: who else waits is being asked */
	HOLD_PASSING,    /* the same: A is being looked at (of a true mutex B) */
	HOLD_DROPPING, /* B's delete is sent, or owed, and not answered: nobody's, still reserved */
	HOLD_SLOTLESS  /* the peer was told; no B, no channel, no watch, no lease */
};
#define HOLD_STATES (HOLD_SLOTLESS + 1)

/* Why B goes: who is told that the slot is free (hint_send.h). */
enum hold_drop {
	HOLD_DROP_RELEASED, /* nobody here has it any more: one in the line */
	HOLD_DROP_NO_SLOT,  /* A was seen gone: nobody, unless it has come back */
	HOLD_DROP_FOR_POLLERS /* nobody: clients that stand in no line have a turn before the line here */
};

/* The watch on A; see watch.h. */
enum hold_watch {
	HOLD_WATCH_NONE,   /* not asked for */
	HOLD_WATCH_PLACED, /* asked for: not there yet, or not there now */
	HOLD_WATCH_ON      /* a deletion of A is told */
};

/* Its claim, or its delete; see flight.h. */
enum hold_flight {
	FLIGHT_NONE, /* there is none, or it is answered, or its answer is too late to be waited for */
	FLIGHT_UNSENT, /* it waits for its turn, in the line of the share */
	FLIGHT_DUE, /* its turn has come, it is counted: the hold's timer sends it, or who started it */
	FLIGHT_SENT /* it is counted */
};

struct hold {
	uint64_t id;   /* of the B: what is asked of the broker refers to it */
	uint64_t lock; /* of who has it: another with each peer that it is handed to */
	enum hold_state state;
	struct queue_name b; /* B[slot], or a true mutex' queue; SLOTLESS: empty */
	char *name;          /* owned */
	enum lock_kind kind;
	int slot;            /* 0 for a true mutex, and SLOTLESS */
	uint64_t channel;    /* 0: it died and was not replaced yet */
	struct share *share; /* borrowed; charged with its channel (channels.h); NULL: nobody */
	uint64_t peer;       /* 0: nobody (its peer hung up) */
	uint64_t acquire;    /* CLAIMING, CHECKING: who wants it; 0 = nobody any more */
	bool hinted; /* CLAIMING: a hint of the slot came meanwhile; who has it may have left */
	enum hold_flight flight; /* CLAIMING, DROPPING */
	TAILQ_ENTRY(hold) of_unsent;
	uint64_t verify;     /* the youngest flight that verifies it; 0 = none */
	uint64_t releasing;  /* COUNTING, PASSING, DROPPING: the release to be answered; 0 = none */
	int64_t ours_since;  /* clock time of its grant; passing it on is not one */
	enum hold_drop drop; /* DROPPING: why */
	unsigned passes; /* from peer to peer here, since it was last seen that nobody else waits */
	int others;      /* members of its line elsewhere; 0 or less: none, or not known */
	int64_t others_asked, others_at; /* clock time of that question and its answer; 0: none */
	bool wants_lease;                /* its peer asked to hear of the lease */
	bool suspect;                    /* its peer was told so */
	uint64_t looked; /* a number that tells who was looked at longest ago (pulse.h) */
	int64_t asked;   /* since when a claim, pulse or delete is unanswered; 0: none is */
	bool stuck;      /* it was said that it stays reserved without an answer */
	enum hold_watch watch;
	struct queue_name a;      /* HELD: the slot's A; unused by a true mutex */
	struct timer watch_timer; /* watch is NONE: when it is to be placed */
	bool revoked;             /* A was seen gone: a mark, not an end (invariant 5) */
	bool reclaimed;           /* B was declared anew since A was seen last */
	unsigned rechecks;        /* checks of B done since it was declared (invariant 10) */
	/*
	 * CLAIMING, CHECKING: no answer in time; HELD: next check of B; COUNTING: no answer will come;
	 * DROPPING: delete to be sent again, or no answer in time. CLAIMING, DROPPING, not sent yet: its
	 * turn has come, or nobody wants it any more
	 */
	struct timer timer;
	struct requester *requester; /* owned; who was told that it holds; NULL: nobody yet */
	int64_t since;               /* clock time: when that was */
	bool admitted;               /* SLOTLESS: by an administrator */
	UT_hash_handle by_id, by_lock, by_queue, by_watch;
	TAILQ_ENTRY(hold) of_peer;
};

TAILQ_HEAD(hold_list, hold);

struct hold_table {
	struct hold *by_id, *by_lock, *by_queue;
	size_t count[HOLD_STATES]; /* by state */
};

/* Reserves B: it must not be reserved yet. The hold starts CLAIMING. */
struct hold *hold_new(struct hold_table *table, uint64_t id, const struct queue_name *b,
    const char *name, enum lock_kind kind, int slot);
/* One that takes no slot, and stays SLOTLESS; it reserves nothing. */
struct hold *hold_new_slotless(
    struct hold_table *table, uint64_t id, const char *name, enum lock_kind kind);
/* Ends the reservation. B must be known to be gone. Its timer must not be set. */
void hold_free(struct hold_table *table, struct hold *hold);
struct hold *hold_find(const struct hold_table *table, uint64_t id);              /* or NULL */
struct hold *hold_find_lock(const struct hold_table *table, uint64_t lock);       /* or NULL */
struct hold *hold_find_queue(const struct hold_table *table, const char *queue);  /* or NULL */
struct hold *hold_find_channel(const struct hold_table *table, uint64_t channel); /* or NULL */
/* How many have a B on the lock connection, or may have. */
size_t hold_count_on_link(const struct hold_table *table);
/* It is somebody else's, under a new number. */
void hold_renumber(struct hold_table *table, struct hold *hold, uint64_t lock);
/* The one way a hold's state changes: asserts that the change is in the picture above. */
void hold_set_state(struct hold_table *table, struct hold *hold, enum hold_state state);
/* Asserts what is always true of a hold. */
void hold_sane(const struct hold *hold);

#endif
