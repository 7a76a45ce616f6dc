/*
 * The data of the engine: share, requester, hold, waiter and semaphore. Each struct has its states here, and
 * the one function that changes them. This module sends nothing to the broker, reads no clock, and knows no
 * engine. Of the timers it only cancels those of its objects. registry.h keeps
 * the tables of the engine and these objects in step.
 */
#ifndef LOCK_OBJECTS_H
#define LOCK_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/broker/way.h"
#include "daemon/lock/lock.h"
#include "daemon/lock/names.h"
#include "protocol/lockname.h"

/*
 * The share of one user in the channels of the lock connection, and the names with waiters that
 * lack a channel. Plain data: the rules are in channels.h. Knows no engine.
 */

struct semaphore;
struct hold;

/* Holds whose claim or drop is not sent yet (engine.h). */
TAILQ_HEAD(unsent_list, hold);

/* The place of a name in a queue of names that lack a channel. */
struct starved {
	bool listed;
	bool woken;                  /* listed and first: it is being served */
	bool had_one;                /* woken, and a channel was taken for it since then */
	uint64_t scan;               /* woken: the number of the name's scan at that time */
	struct semaphore *semaphore; /* borrowed; outlives this place */
	TAILQ_ENTRY(starved) of_list;
};

TAILQ_HEAD(starved_list, starved);

/* A user that has waiters or charged holds. */
struct share {
	uid_t uid;    /* the key */
	size_t taken; /* charged holds */
	size_t most;  /* its maximum of `taken` */
	size_t waiters;
	size_t flights;                   /* of its claims and drops (engine.h) */
	size_t graces;                    /* charged holds with `free_at` */
	struct unsent_list drops, claims; /* not sent yet */
	struct starved_list starved;      /* names for which this share has no room */
	UT_hash_handle by_uid;
};

/* Whether one more hold may be charged to the share. NULL: exempt, without a limit. */
static inline bool
share_has_room(const struct share *share)
{
	FAULT(CHANNELS_OF_ONE, return true);
	return share == NULL || share->taken < share->most;
}

/* All channels and all shares. */
struct channels {
	size_t most, most_of_user;   /* maximum of holds; 0: the connection was never up */
	struct share *shares;        /* owned; by uid */
	struct starved_list starved; /* names for which no channel is free */
	struct timer again; /* set: the broker layer gave no channel, though one should be free */
	unsigned not_given; /* how often in a row */
};

/*
 * The requester of an acquire: the facts of its row besides its place. It is made with the acquire,
 * and moved to the hold that the acquire becomes. The acquire or the hold owns it. Knows no engine.
 */

struct lock_acquire;

struct requester {
	uint64_t waiter; /* the acquire's number, also of a hold */
	uid_t uid;
	pid_t pid;
	char *who, *why, *command; /* owned; NULL: none */
};

/* Copies the strings. */
struct requester *requester_new(uint64_t waiter, const struct lock_acquire *acquire);
void requester_free(struct requester *requester); /* NULL is fine */

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

/* Why B is dropped. This decides about the hint (hold.h). */
enum hold_drop {
	HOLD_DROP_RELEASED,   /* the hold ended: a hint goes to the wait queue */
	HOLD_DROP_NO_SLOT,    /* A was seen gone: no hint, unless A has come back */
	HOLD_DROP_FOR_POLLERS /* no hint: clients that poll have a turn before waiters here */
};

/* The watch on A; see keepalive.h. */
enum hold_watch {
	HOLD_WATCH_NONE,   /* the broker was not asked */
	HOLD_WATCH_PLACED, /* the broker was asked; there is no watch yet, or not now */
	HOLD_WATCH_ON      /* the broker tells if A is deleted */
};

/* The flight of its claim or its drop; see engine.h. */
enum hold_flight {
	FLIGHT_NONE,   /* there is none, or it is answered, or its answer is overdue */
	FLIGHT_UNSENT, /* it is in the share's queue of unsent flights */
	FLIGHT_DUE,    /* counted; the hold's timer sends it, or the caller of flight_start() */
	FLIGHT_SENT    /* counted */
};

/* An administrator ends a hold: lock_evict(). */
struct eviction {
	struct timer due;
	struct lock_eviction by;
	char *host, *why; /* owned: the texts of `by` */
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
	uint64_t verify;     /* its newest flight of keepalive.c; 0 = none */
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
	struct eviction *eviction;   /* owned; NULL: nobody evicts it */
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

/*
 * The local queue: the waiters of one name at this daemon, by priority, then by arrival. It owns
 * its per-user trees; it knows no engine and no broker.
 *
 * The waiters of each user are a search tree (a treap). Each node counts the waiters below it by
 * state. To find the first waiter in some states, or a waiter's position, therefore needs no walk
 * along the queue. One check passes over all waiters of a user that may not take another channel
 * (struct share).
 *
 *	BEHIND --- the create, change or destroy is done ---> NEW
 *	NEW --- a scan begins ---> SCANNED --- it found nothing ---> WAITING
 *	NEW, SCANNED, WAITING --- a slot is seen free ---> CLAIMING ---> granted
 *	NEW --- others wait here, and nothing has changed ---> WAITING
 *	CLAIMING --- lost the race ---> RESTING --- a random moment later ---> NEW
 *	CLAIMING --- the same, as a consumer of the wait queue ---> WAITING
 *	CLAIMING --- the broker does not answer ---> NEW; UNSEEN if it was claimed unseen
 *	SCANNED --- the free slots are withheld ---> RESTING
 *	SCANNED --- probes failed ---> UNSEEN <--> CLAIMING; and WAITING in the end
 *	WAITING --- claimed for unseen, in vain ---> CLAIMING ---> UNSEEN
 *	SCANNED, WAITING --- there is no such lock, and it is created ---> BEHIND
 *
 * When a connection changes, all waiters but BEHIND and RESTING become NEW.
 */

enum waiter_state {
	WAITER_BEHIND,   /* a change or create, `behind`, comes first */
	WAITER_NEW,      /* no scan has begun since it became NEW */
	WAITER_SCANNED,  /* such a scan is in progress */
	WAITER_WAITING,  /* such a scan is over and found no slot for it */
	WAITER_UNSEEN,   /* probes fail: the daemon claims slots unseen, one by one */
	WAITER_CLAIMING, /* `hold` is claimed for it; it keeps its place in the queue */
	WAITER_RESTING   /* it lost a race, or the slot is withheld; its timer makes it NEW */
};
#define WAITER_STATES (WAITER_RESTING + 1)

/* Sets of states. */
#define LOCAL_QUEUE_OF(state) (1U << (state))
#define LOCAL_QUEUE_ALL (LOCAL_QUEUE_OF(WAITER_STATES) - 1)
/* States in which a slot that is seen free may be claimed for the waiter. */
#define LOCAL_QUEUE_READY                                                                          \
	(LOCAL_QUEUE_OF(WAITER_NEW) | LOCAL_QUEUE_OF(WAITER_SCANNED) |                             \
	    LOCAL_QUEUE_OF(WAITER_WAITING))
/* States in which the waiter may be given a slot: by a hint or a hand-off. */
#define LOCAL_QUEUE_WANTS                                                                          \
	(LOCAL_QUEUE_READY | LOCAL_QUEUE_OF(WAITER_UNSEEN) | LOCAL_QUEUE_OF(WAITER_RESTING))
struct wait_queue_member;
struct local_queue_user;

/* One acquire that is not answered yet. */
struct waiter {
	uint64_t id; /* by arrival */
	enum waiter_state state;
	uint64_t peer, request;
	struct semaphore *semaphore; /* borrowed; outlives its waiters */
	enum lock_kind kind;
	int priority;
	uint64_t behind; /* BEHIND: a change by its peer, or the create of the semaphore; else 0 */
	int64_t timeout; /* ns, as requested; 0 = try */
	int create;      /* size to create the semaphore with, if it does not exist; 0: no create */
	char *may_not_create; /* owned; the refusal if that is not allowed; NULL: it is allowed */
	int64_t started;      /* clock time */
	bool progress, lease; /* as requested */
	/* of engine.c: as last told; position 0: not told yet */
	int told_position, told_busy, told_extra;
	uint64_t told_turn;          /* of engine.c: the round in which it was last told */
	struct requester *requester; /* owned; NULL: it passed to a hold */
	struct share *share;         /* borrowed; NULL: exempt from the limit of channels */
	bool yielded;                /* it has rested once for a withheld slot */
	bool begun; /* its wait has begun: a scan, or the waiters here, left no slot */
	struct wait_queue_member
	    *member;    /* of channels.c, from the beginning of its wait; else NULL */
	unsigned races; /* lost races */
	unsigned skips; /* claims that were not performed, because their channel died */
	unsigned turns; /* claims in a row whose slot is held in the other way */
	int direct;     /* CLAIMING: the slot, if it is claimed unseen; else 0 */
	uint64_t hold;  /* CLAIMING; else 0 */
	struct timer deadline, rest;
	UT_hash_handle by_id;
	TAILQ_ENTRY(waiter) of_peer, of_told;
	/*
	 * of objects.c: the user's tree; below[] counts its part from here down, this one
	 * included
	 */
	struct local_queue_user *user;
	struct waiter *left, *right;
	unsigned below[WAITER_STATES];
};

TAILQ_HEAD(waiter_list, waiter);

/* The waiters of one user in one queue. */
struct local_queue_user {
	struct share *share;    /* borrowed; NULL: all exempt waiters */
	struct waiter *root;    /* borrowed; never NULL between calls */
	struct starved starved; /* of channels.c: the place in the share's queue */
	LIST_ENTRY(local_queue_user) of_list;
};

struct local_queue {
	LIST_HEAD(, local_queue_user) users; /* owned */
};

/* Joins behind all waiters of the same or a higher priority. */
void local_queue_join(struct local_queue *queue, struct waiter *waiter);
void local_queue_leave(struct waiter *waiter);
/* Changes the state of a waiter in the queue. Asserts that the change is in the diagram above. */
void local_queue_set_state(struct waiter *waiter, enum waiter_state state);
/* The number of waiters in one of `states`. */
unsigned local_queue_count(const struct local_queue *queue, unsigned states);
/* The first waiter in one of `states`, and the next one behind `waiter`; NULL: none. */
struct waiter *local_queue_first(const struct local_queue *queue, unsigned states);
struct waiter *local_queue_next(
    const struct local_queue *queue, const struct waiter *waiter, unsigned states);
/*
 * The same, only of users that may take another channel, and of `giver`: a hold of that share is
 * being handed off.
 */
struct waiter *local_queue_first_able(
    const struct local_queue *queue, unsigned states, const struct share *giver);
struct waiter *local_queue_next_able(const struct local_queue *queue, const struct waiter *waiter,
    unsigned states, const struct share *giver);
/*
 * The waiter that may be given this slot: the first in LOCAL_QUEUE_WANTS whose user may take
 * another channel, or is `giver`. NULL: none.
 */
struct waiter *local_queue_who_wants(
    const struct local_queue *queue, int slot, const struct share *giver);
/* The number of waiters of one user in one of `states`. */
unsigned local_queue_user_count(const struct local_queue_user *user, unsigned states);
/* The waiter's position in the queue, from 1. */
int local_queue_position(const struct local_queue *queue, const struct waiter *waiter);

/*
 * The daemon's knowledge of one name: its slots as last seen, and its local queue. A true mutex is
 * kept in the same way, as one slot without an A.
 *
 * The knowledge saves round trips and grants nothing: a claim and a check of A decide. It is fresh
 * for one rescan interval after a scan, and is dropped when a connection changes.
 */
struct withheld;

struct semaphore_key {
	char text[LOCKNAME_MAX + sizeof("=M")];
};

/* A scan probes growing windows, until a gap, or until each waiter has a slot. */
enum scan_state {
	SCAN_OVER,    /* none yet, or the queue runner has used the last one */
	SCAN_PROBING, /* a window is being probed */
	SCAN_SEEN     /* the window's answers are in; the queue runner has not used them */
};

/* The kind of semaphore, by its markers (names.h) as last seen. */
enum semaphore_mode {
	SEMAPHORE_PLAIN,     /* it has the slots that were seen, or none */
	SEMAPHORE_GATE,      /* its size is 0: all clients wait */
	SEMAPHORE_UNLIMITED, /* its holds take no slot; slots that exist do not count */
	SEMAPHORE_UNKNOWN,   /* slot 1 does not exist, and the markers could not be seen */
	/* Of a true mutex: its queue is the administration mutex of an existing semaphore. */
	SEMAPHORE_NO_MUTEX,
	/* The same: it is to be held by quorum, and its queue or its post does not exist. */
	SEMAPHORE_UNMADE
};

struct scan {
	enum scan_state state;
	uint64_t number;  /* of this scan, or of the last one */
	uint64_t probe;   /* PROBING: the number of the probe; else 0 */
	int first, count; /* the window */
	int64_t started;  /* clock time just before the first window was sent */
	bool again;       /* a rescan (scan.h), not a scan from slot 1 on */
	bool for_new;     /* a rescan for new waiters: it asks for the last slot, too */
	bool unknown;     /* an answer was unknown, so the scan cannot say "full" */
	bool overtaken;   /* a slot was freed here meanwhile, so "full" may be outdated */
	bool forgotten;   /* the lock may be another by now: all findings are outdated */
	bool withheld;    /* a free slot was seen that is withheld */
	bool by_quorum;   /* the window is of slots by quorum */
	bool to_quorum;   /* a gate was seen, and the next window is of slots by quorum */
	/* While probes fail: the next slot to claim unseen; 0: this is over, or has not begun */
	int direct;
	uint64_t claimer; /* the waiter of that claim; it may be gone */
};

#define SEMAPHORE_ABOVE_MOST 4
/* After so many refusals a post stands there, although there is no queue by quorum. */
#define SEMAPHORE_REFUSALS 3

struct semaphore {
	char *name;                 /* owned */
	struct lock_engine *engine; /* borrowed */
	bool mutex;                 /* true mutex: one slot, no A */
	/* A gate or a post stands at the old place, and its slots are quorum queues. */
	bool by_quorum;
	/* Of a true mutex: scans ask for its queue by quorum, too. */
	bool asks_quorum;
	/* Of a true mutex: its queue has messages, and no set of beads. Kept until then; 0: it is not so. */
	int64_t incomplete_until;
	unsigned refusals;        /* claims in a row that were refused although it looked free */
	enum broker_answer beads; /* about its queue by quorum, as last seen */
	bool held_otherwise;      /* no post can be declared, until B of the other way is gone */
	enum semaphore_mode mode;
	int size;      /* slots seen without a gap; of a mutex 1 */
	bool complete; /* the slot above `size` does not exist; else there may be more */
	int64_t seen;  /* clock time of sending of the last scan; INT64_MIN = never */
	/* owned; busy[slot - 1]: seen busy, or a race for it was lost; `room` entries */
	unsigned char *busy;
	/* owned; ways[slot - 1]: 1 + enum broker_way, as last seen; 0: never; `ways_room` entries */
	unsigned char *ways;
	int ways_room;
	int room;
	int busy_count; /* busy slots of 1..size */
	int extra;      /* holders of slots above `size`, as the last scan saw them */
	int above[SEMAPHORE_ABOVE_MOST]; /* the first of these slots; a rescan asks for them */
	int above_count;
	struct scan scan;
	struct local_queue local_queue;
	struct queue_name wait_queue_name; /* at the broker */
	struct wait_queue_member
	    *members;              /* of channels.c: this daemon's consumers in it, by priority */
	int64_t pass_on_from;      /* of queue.c: clock time before which no hint is passed on */
	struct withheld *withheld; /* of engine.c */
	/* of hold.c: clock time when the last hint came back; 0: it has not, or none was sent */
	int64_t returned_at;
	bool rests_over; /* a mark for queue.c: waiters that rest become NEW */
	/* a mark for queue.c: slots that were hinted while a claim of them failed; owned */
	int *hinted;
	size_t hinted_count;
	struct waiter_list told; /* of engine.c: waiters that are told their progress */
	uint64_t told_turn;      /* of engine.c: the round, in which each of them is told once */
	bool told_old;           /* of engine.c: a fact has changed since the round began */
	struct timer progress;   /* set while waiters behind the first ones are not told yet */
	uint64_t creating;       /* the create in progress for acquires that want one; 0: none */
	char *not_created;       /* owned; why the last one failed, in words; NULL: it did not */
	struct starved starved;  /* of channels.c: the place in the queue for any channel */
	bool out;            /* of channels.c: its consumers have left, as no channel can be had */
	struct timer rescan; /* not set: a scan is due, as soon as a waiter wants one */
	bool dirty;
	TAILQ_ENTRY(semaphore) of_dirty;
	struct semaphore_key key;
	UT_hash_handle by_key, by_probe, by_wait_queue;
};

TAILQ_HEAD(semaphore_list, semaphore);

struct semaphore *semaphore_new(const char *name, bool mutex);
/* It must have no waiters, and its timers must not be set. */
void semaphore_free(struct semaphore *semaphore);
/* The key of a name in the engine's table. */
struct semaphore_key semaphore_key(const char *name, bool mutex);

/* Whether the knowledge is less than `interval` ns old. */
bool semaphore_is_fresh(const struct semaphore *semaphore, int64_t now, int64_t interval);
/* Drops the knowledge, of a scan in progress too. */
void semaphore_forget(struct semaphore *semaphore);
/* Slots 1..size exist; `complete`: certainly none above. New slots count as busy. */
void semaphore_saw_size(struct semaphore *semaphore, int size, bool complete);
/* Slots outside 1..size are ignored. */
void semaphore_saw_slot(struct semaphore *semaphore, int slot, bool busy);
/* How the slot is held, as last seen: survives semaphore_forget(). False: it was never seen. */
bool semaphore_way(const struct semaphore *semaphore, int slot, enum broker_way *ret_way);
void semaphore_saw_way(struct semaphore *semaphore, int slot, enum broker_way way);
/* A hint came while a claim of the slot failed: a mark for queue.c. */
void semaphore_hinted(struct semaphore *semaphore, int slot);
/* Whether a known slot may be free. */
bool semaphore_has_free(const struct semaphore *semaphore);
/* The number of busy slots, as last seen; -1: the size is not known. */
int semaphore_busy_count(const struct semaphore *semaphore);

#endif
