/*
 * Holds: each slot that this daemon has, may have, or gives back. A hold exists from before its
 * claim is sent until its B is *known* to be free. The proof is a refused claim (403, 404, 405),
 * delete-ok or cancel-ok, or the death of the lock connection. By consumer, it is also the end of
 * the channel. As long as a hold exists its B is reserved, and the daemon does not claim it again.
 *
 * This is invariant 1. RabbitMQ lets a connection declare its own exclusive queue again, so only
 * this table arbitrates between the clients of one daemon. An exclusive consumer is refused to a
 * second channel of the connection, too.
 *
 *	          claim ok            A seen                 release, peer gone
 *	CLAIMING ---------> CHECKING --------> HELD ----------------------------> DROPPING ---> gone
 *	   |                   |               |  ^                                  ^    delete-ok
 *	   | 403, 405,         | A is gone,    |  | claimed again                    |
 *	   v connection died   | or no waiter  v  |                                  |
 *	  gone                 | is left    RECLAIMING --- 405: lost --> gone         |
 *	                       +-----------------------------------------------------+
 *
 * If a holder releases or hangs up while others wait here, the daemon hands the slot off
 * (release.h). The hold stays HELD, with another peer and another number. The hand-off may first
 * ask the broker:
 *
 *	HELD ---> COUNTING ---> PASSING ---> HELD		and from each of them DROPPING
 *	  |           |            ^
 *	  +-----------|------------+
 *	              +-------------------> HELD
 *
 * The death of the lock connection ends a hold in each of these states.
 *
 * SLOTLESS is a hold without a slot. The broker has no queue of it, so it ends only when its client
 * releases it or hangs up.
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
#include "daemon/broker/way.h"
#include "daemon/lock/lock.h"
#include "daemon/lock/table/names.h"
#include "daemon/lock/table/requester.h"
#include "daemon/lock/table/share.h"

enum hold_state {
	HOLD_CLAIMING,   /* B's claim is unsent or not answered; no client was told */
	HOLD_CHECKING,   /* B is this daemon's, A not seen since; no client was told */
	HOLD_HELD,       /* B is this daemon's, A was seen after it, the client was told */
	HOLD_RECLAIMING, /* as HELD, but B was gone and is declared again */
	HOLD_COUNTING, /* in hand-off, without a peer: the broker counts other daemons' consumers */
	HOLD_PASSING,  /* in hand-off, without a peer: A is checked (of a true mutex B) */
	HOLD_DROPPING, /* B's drop is unsent or not answered; no peer, still reserved */
	HOLD_SLOTLESS  /* the client was told; no B, channel, watch or lease */
};
#define HOLD_STATES (HOLD_SLOTLESS + 1)

/* Why B is dropped. This decides about the hint (hint_send.h). */
enum hold_drop {
	HOLD_DROP_RELEASED,   /* the hold ended: a hint goes to the wait queue */
	HOLD_DROP_NO_SLOT,    /* A was seen gone: no hint, unless A has come back */
	HOLD_DROP_FOR_POLLERS /* no hint: clients that poll have a turn before waiters here */
};

/* The watch on A; see watch.h. */
enum hold_watch {
	HOLD_WATCH_NONE,   /* the broker was not asked */
	HOLD_WATCH_PLACED, /* the broker was asked; there is no watch yet, or not now */
	HOLD_WATCH_ON      /* the broker tells if A is deleted */
};

/* The flight of its claim or its drop; see flight.h. */
enum hold_flight {
	FLIGHT_NONE,   /* there is none, or it is answered, or its answer is overdue */
	FLIGHT_UNSENT, /* it is in the share's queue of unsent flights */
	FLIGHT_DUE,    /* counted; the hold's timer sends it, or the caller of flight_start() */
	FLIGHT_SENT    /* counted */
};

struct hold {
	uint64_t id;   /* of the B; requests to the broker refer to it */
	uint64_t lock; /* the number that its client knows; a hand-off changes it */
	enum hold_state state;
	struct queue_name b; /* B[slot], or the queue of a true mutex; SLOTLESS: empty */
	char *name;          /* owned */
	enum lock_kind kind;
	int slot;            /* 0 for a true mutex, and SLOTLESS */
	enum broker_way way; /* how B is held */
	/* 0: it died; by queue: and is not replaced yet. Only hold_set_channel() changes it */
	uint64_t channel;
	uint64_t ended;      /* by beads: the channel that it had, if that is gone */
	struct share *share; /* borrowed; charged with its channel (channels.h); NULL: none */
	uint64_t peer;       /* 0: none */
	uint64_t acquire;    /* CLAIMING, CHECKING: the waiter; 0 = it is gone */
	bool by_hint;        /* CLAIMING: a hint led to the claim, and no scan */
	bool hinted; /* CLAIMING: a hint of the slot came meanwhile: its holder may be gone */
	enum hold_flight flight; /* CLAIMING, DROPPING */
	TAILQ_ENTRY(hold) of_unsent;
	uint64_t verify;     /* its newest flight of verify.c; 0 = none */
	uint64_t releasing;  /* COUNTING, PASSING, DROPPING: the unanswered release; 0 = none */
	int64_t ours_since;  /* clock time of its grant, the same after a hand-off; 0: none yet */
	enum hold_drop drop; /* DROPPING: why */
	bool lost;           /* its client was told `lost`; DROPPING: only its drop is left */
	unsigned passes;     /* hand-offs in a row without a question about waiters elsewhere */
	int others;          /* consumers elsewhere in its wait queue; 0 or less: none known */
	int64_t others_asked,
	    others_at;    /* clock time of that count's request and answer; 0: none */
	bool wants_lease; /* its client asked for notices of the lease */
	bool suspect;     /* its client was told so */
	/* HELD, by beads: its channel is gone, and the broker layer claims the slot anew. It is not handed off. */
	bool suspended;
	/* clock time of sending of the newest answered question about B; 0: not claimed yet */
	int64_t from;
	/*
	 * CLAIMING, by beads: clock time of the end of a grace; 0: there is none. Only
	 * hold_set_grace() changes it.
	 */
	int64_t free_at;
	/*
	 * CLAIMING, by beads: there were too many graces, so that its claim has ended. It only reserves
	 * the slot, until one of them ends. Clock time at which the slot could be free; else 0.
	 */
	int64_t crowded_until;
	int64_t grace;      /* by beads: T of its slot, ns */
	uint64_t fence;     /* by beads: the fencing number of its newest proof; 0: there is none */
	unsigned hand_offs; /* since that proof; a part of the number that a client gets */
	bool aged;          /* it is in hold_table.ages */
	int64_t asked;      /* clock time of an unanswered claim, keepalive or drop; 0: none */
	bool stuck;         /* LOCK_NOTICE_STUCK was sent */
	enum hold_watch watch;
	struct queue_name a;      /* HELD: the slot's A; not of a true mutex */
	struct timer watch_timer; /* places the watch, or checks A again */
	bool revoked;             /* A was seen gone (invariant 5) */
	/* since A was last seen, B was declared again, or a frozen engine put a check off */
	bool reclaimed;
	unsigned rechecks; /* checks of B since it was declared (invariant 10) */
	/*
	 * It belongs to the state, whose end cancels it. CLAIMING, CHECKING: the answer is late.
	 * HELD: the next check of B. RECLAIMING: the claim is sent again. COUNTING: no answer will
	 * come. DROPPING: the answer is late, or the drop is sent again. CLAIMING, DROPPING, unsent:
	 * it may be sent, or its waiter is gone.
	 */
	struct timer timer;
	struct requester *requester; /* owned; of its row; NULL: no client was told yet */
	int64_t since;               /* clock time when its client was told */
	uint64_t granted_fence;      /* the fencing number that its client was told; 0: none */
	bool admitted;               /* SLOTLESS: an administrator granted it */
	UT_hash_handle by_id, by_lock, by_queue, by_channel, by_watch;
	TAILQ_ENTRY(hold) of_peer, of_ages;
};

TAILQ_HEAD(hold_list, hold);

/* Hand-offs after one proof, at most. */
#define HOLD_HAND_OFFS_MOST 255

/* The fencing number of its holder. 0: there is none. */
static inline uint64_t
hold_fence(const struct hold *hold)
{
	return hold->fence == 0 ? 0 : hold->fence + hold->hand_offs;
}

/*
 * Holds with a lease of the connection, with a lease of their own, and with one whose length is their own,
 * too (lease.h).
 */
enum hold_lease { HOLD_LEASE_SHARED, HOLD_LEASE_OWN, HOLD_LEASE_TIMED };

struct hold_table {
	struct timers *timers; /* borrowed */
	struct hold *by_id, *by_lock, *by_queue, *by_channel;
	size_t count[HOLD_STATES]; /* by state */
	size_t consumers;          /* of slots, claims included; true mutexes have no A to check */
	size_t revoked;
	/* by enum hold_lease: holds that were granted and are not dropped, the oldest `from` first */
	struct hold_list ages[3];
	size_t aged[3];
	size_t elsewhere; /* holds on other connections, claims included */
	size_t graces;    /* holds with `free_at` */
};

void hold_table_init(struct hold_table *table, struct timers *timers);

/* Reserves B, which must not be reserved yet. The hold is CLAIMING. */
struct hold *hold_new(struct hold_table *table, uint64_t id, const struct queue_name *b,
    const char *name, enum lock_kind kind, int slot, enum broker_way way);
/* A hold without a slot: it is SLOTLESS and reserves nothing. */
struct hold *hold_new_slotless(
    struct hold_table *table, uint64_t id, const char *name, enum lock_kind kind);
/* Ends the reservation. B must be known to be gone. */
void hold_free(struct hold_table *table, struct hold *hold);
struct hold *hold_find(const struct hold_table *table, uint64_t id);              /* or NULL */
struct hold *hold_find_lock(const struct hold_table *table, uint64_t lock);       /* or NULL */
struct hold *hold_find_queue(const struct hold_table *table, const char *queue);  /* or NULL */
struct hold *hold_find_channel(const struct hold_table *table, uint64_t channel); /* or NULL */
/* 0: it has none. */
void hold_set_channel(struct hold_table *table, struct hold *hold, uint64_t channel);
void hold_set_grace(struct hold_table *table, struct hold *hold, int64_t free_at);
/* The number of holds that have, or may have, a B. */
size_t hold_count_on_link(const struct hold_table *table);
/* The hold gets a new number, for another client. */
void hold_renumber(struct hold_table *table, struct hold *hold, uint64_t lock);
static inline enum hold_lease
hold_lease(const struct hold *hold)
{
	const struct way *way = way_row(hold->way);

	return way->by_beads    ? HOLD_LEASE_TIMED
	       : way->own_lease ? HOLD_LEASE_OWN
				: HOLD_LEASE_SHARED;
}
/* Whether its slot has an A, which can be removed under it. */
static inline bool
hold_has_a(const struct hold *hold)
{
	return hold->slot > 0 && !way_row(hold->way)->by_beads;
}
/* A question about B was answered OK: it is held. */
void hold_answered(struct hold_table *table, struct hold *hold, const struct broker_reply *reply);
/*
 * The one way in which a hold's state changes. Asserts that the change is in the diagram above, and
 * cancels the timer. From CLAIMING to CHECKING the timer goes on, as both are one flight.
 */
void hold_set_state(struct hold_table *table, struct hold *hold, enum hold_state state);
/* Its slot was removed: a mark that stays (invariant 5). */
void hold_revoke(struct hold_table *table, struct hold *hold);
/* Asserts the invariants of the hold's state. */
void hold_sane(const struct hold *hold);

#endif
