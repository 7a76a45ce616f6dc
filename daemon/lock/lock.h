/*
 * The lock engine as its callers see it. Clients' requests go in. Each gets exactly one answer, and
 * clients get notices about their holds. The engine owns the registry, the local queues and the
 * broker's channels in use. It knows no sockets, no JSON and no AMQP. Broker (broker.h), timers and
 * seed are passed in, so that the simulation runs the shipped code.
 *
 * A peer is one connection of a client. The caller chooses the numbers of peers and requests. The
 * engine chooses the numbers of locks, and uses none twice. A number that is gone is normal, not an
 * error.
 */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "daemon/lock/names.h"
#include "protocol/lockname.h"
#include "protocol/reason.h"

struct lock_engine;
struct state_reader;
struct state_writer;

/* All but naming can change while the engine runs (reload). */
struct lock_settings {
	const struct queue_naming *naming; /* borrowed */
	const struct clock *wall_clock; /* borrowed; the epochs of slots by quorum come from it */
	/* how new slots, true mutexes, and slots about which nothing is known are held */
	enum broker_way claim;
	unsigned max_races;      /* lost races of one acquire, then `contended` */
	int64_t rescan_interval; /* maximum ns between scans of a full semaphore, jittered */
	int64_t hint_grace;      /* ns for which a freed slot is withheld */
	/* Hand-offs in a row, while clients of other daemons may wait. 0: no hand-off */
	unsigned max_local_handoffs;
	int64_t margin;          /* as configured (margin.h); 0: a fifth of the heartbeat */
	int64_t request_timeout; /* ns until a request that does not wait is given up */
	size_t max_locks_per_connection;
	size_t max_waits_per_connection;
	/*
	 * Channels of the lock connection that one user leaves to the others; at most half of them.
	 */
	size_t channels_reserve;
	/* True mutexes by consumer that one user has at the broker (engine.h). */
	size_t max_mutexes_per_uid;
	/* Slots by quorum may be made at RabbitMQ before 4.0, too. */
	bool quorum_untested;
	/* Maximum slots of a semaphore. 0: METHODS_SLOTS_MAX. The simulation has few. */
	int slots_most;
	/*
	 * Claims and drops by consumer that one user has at the broker at once. One by queue counts
	 * as FLIGHT_BY_QUEUE of them, and at most as all. 0: FLIGHTS_MOST by queue (engine.h).
	 */
	size_t flights_most;
};

/* As a number of slots: the semaphore is unlimited. */
#define LOCK_UNLIMITED (-2)

/* How the slots of a semaphore are held. */
enum lock_claim {
	LOCK_CLAIM_UNKNOWN,  /* not known, or there are no slots; of a request: it does not say */
	LOCK_CLAIM_BY_QUEUE, /* from here on 1 + enum method_claim */
	LOCK_CLAIM_BY_CONSUMER,
	LOCK_CLAIM_BY_QUORUM,
	LOCK_CLAIM_MIXED /* its slots differ: see fsck */
};
/* "exclusive-queue", "consumer", "quorum", "mixed"; NULL for UNKNOWN. Static. */
const char *lock_claim_word(enum lock_claim claim);
/* "by exclusive queues", "by consumers", "in different ways"; NULL for UNKNOWN. Static. */
const char *lock_claim_how(enum lock_claim claim);
/* That of a word of a request. */
static inline enum lock_claim
lock_claim_of(int method_claim)
{
	return (enum lock_claim)(method_claim + 1);
}

struct lock_acquire {
	const char *name;
	enum lock_kind kind;
	int64_t timeout; /* ns; 0 = try; DURATION_FOREVER */
	int priority;    /* from -METHODS_PRIORITY_MOST to METHODS_PRIORITY_MOST */
	bool progress;   /* the client wants LOCK_NOTICE_WAITING */
	bool lease;      /* the client wants LOCK_NOTICE_LEASE */
	int create; /* slots to create the semaphore with, if it does not exist; 0: no create */
	/* The refusal of an acquire whose user may not create what does not exist. NULL: may create. */
	const char *may_not_create;
	uid_t uid;   /* only this user, and root, may verify the hold */
	bool exempt; /* the limit channels_reserve does not apply */
	pid_t pid;
	const char *who, *why, *command; /* the client's own words, for rows; NULL: none */
};

/* How a semaphore is created, resized or destroyed (seeds/000, "Lock Administration"). */
struct lock_change {
	const char *name;
	enum lock_kind kind;                                          /* create */
	enum { LOCK_SLOTS_TO, LOCK_SLOTS_ADD, LOCK_SLOTS_REMOVE } by; /* resize */
	int slots; /* create, resize: 0 = gate; create, TO: LOCK_UNLIMITED is possible */
	enum lock_claim
	    claim; /* create, resize: of the first slots; UNKNOWN: as the setting says */
	/* create, resize: T of slots by quorum, ns, from 5 s to 5 min; 0: 20 s */
	int64_t takeover_grace;
	bool force;    /* create, resize: by quorum, the clock may be a year ahead of the records */
	bool exist_ok; /* create: success if the semaphore exists with the same size */
	bool ascending; /* resize, destroy: remove the lowest slot first (seeds/000) */
	int overshoot;  /* search for uncounted slots at least so far above the size */
	/* resize, destroy: ns to wait for the holders of removed slots; 0; DURATION_FOREVER */
	int64_t wait;
	bool progress; /* the client wants LOCK_NOTICE_HOLDERS during that wait */
	uid_t uid;     /* users take turns at the probes of that wait */
};

/* Waits until a slot is busy, or until it is free. Whether the slot exists is not checked. */
struct lock_await {
	uid_t uid; /* users take turns at the probes */
	const char *name;
	int slot; /* from 1 */
	bool busy;
	int64_t timeout; /* ns; 0 = probe once; DURATION_FOREVER */
};

/* How a semaphore is checked. */
struct lock_check {
	const char *name;
	bool repair;
	/* With repair: how all slots are to be held. UNKNOWN: they stay as they are */
	enum lock_claim convert;
	/* With repair: ns to wait for busy slots that are to be held otherwise; DURATION_FOREVER */
	int64_t wait;
	int64_t takeover_grace; /* of slots that are to be held by quorum: see struct lock_change */
	bool progress;          /* the client wants LOCK_NOTICE_HOLDERS during that wait */
};

/* The findings of fsck. */
enum lock_problem {
	LOCK_PROBLEM_GAP,        /* a slot is missing below one that exists */
	LOCK_PROBLEM_UNCOUNTED,  /* a slot above the gap */
	LOCK_PROBLEM_ORPHAN,     /* a holder of a slot that was removed, or never declared */
	LOCK_PROBLEM_ARGUMENTS,  /* a slot was declared with other arguments; it is used as it is */
	LOCK_PROBLEM_TRANSIENT,  /* a slot is not durable: it is gone when the broker restarts */
	LOCK_PROBLEM_MARKERS,    /* markers contradict each other, or the slots */
	LOCK_PROBLEM_NOT_LISTED, /* the semaphore exists, but is not in the directory */
	LOCK_PROBLEM_LISTED_MISSING, /* the semaphore is in the directory, but does not exist */
	LOCK_PROBLEM_LEFTOVER,       /* a durable B of a slot that was removed, without a holder */
	LOCK_PROBLEM_CLAIM,       /* a slot is held otherwise than slot 1, or than was asked for */
	LOCK_PROBLEM_UNREACHABLE, /* the node of a B is down, or does not answer */
	/* of slots by quorum: */
	LOCK_PROBLEM_NO_BEADS,        /* its beads are gone, or no set is complete */
	LOCK_PROBLEM_ODD_BEADS,       /* a bead is there twice, or beads of other sets are */
	LOCK_PROBLEM_TWO_SETS,        /* two complete sets have one epoch */
	LOCK_PROBLEM_VERSION,         /* its beads are of another major version of the server */
	LOCK_PROBLEM_FOREIGN,         /* other messages are in its queue */
	LOCK_PROBLEM_QUEUE_TYPE,      /* its queue is no quorum queue */
	LOCK_PROBLEM_QUEUE_ARGUMENTS, /* its queue was declared with other arguments */
	LOCK_PROBLEM_RECORD,          /* the record contradicts the queues */
	LOCK_PROBLEM_NO_RECORD,       /* the record is missing */
	LOCK_PROBLEM_STALE_RECORD     /* there is a record, and nothing else */
};
/* "gap", "not-listed" and so on. Static. */
const char *lock_problem_word(enum lock_problem problem);

struct lock_finding {
	enum lock_problem problem;
	int slot;         /* 0: no particular one */
	const char *text; /* in words */
	bool repaired;
};

enum lock_row_state {
	LOCK_ROW_WAITING,
	LOCK_ROW_BUSY,      /* a hold */
	LOCK_ROW_ADMITTED,  /* a hold that an administrator granted: lock_admit() */
	LOCK_ROW_CANCELLED, /* only as a change: the acquire ended without a hold; GONE follows */
	LOCK_ROW_GONE       /* only as a change: the row ended */
};
/* "waiting", "busy", "granted", "cancelled", "gone". Static. */
const char *lock_row_word(enum lock_row_state state);

/* A holder or a waiter of this daemon. Strings are borrowed for the call. */
struct lock_row {
	enum lock_row_state state;
	uint64_t waiter; /* the number of its acquire, also of a hold: identifies the row */
	uint64_t lock;   /* the hold; 0: it waits */
	const char *name;
	enum lock_kind kind;
	int slot;               /* from 1; 0: none */
	int position, priority; /* of a waiter; position from 1 */
	uid_t uid;
	pid_t pid;
	const char *who, *why, *command; /* NULL: none */
	int64_t since;                   /* clock time: start of the wait, or of the hold */
	bool revoked;
	bool evicted;   /* an administrator ends it: lock_evict() */
	uint64_t fence; /* the fencing number of its grant; 0: none */
};

/* A semaphore of the directory. */
struct lock_listed {
	const char *name;
	int slots; /* LOCK_UNLIMITED; -1: not known; 0: a gate, or it does not exist */
	bool exists;
	int busy; /* number of busy slots; -1: not known */
	/* Holders of slots above the size, of the slots 1..asked; -1: not known */
	int extra, asked;
	enum lock_claim claim;
};

/* Whether an acquire would succeed now. */
enum lock_verdict {
	LOCK_VERDICT_FREE,      /* a slot is free */
	LOCK_VERDICT_UNLIMITED, /* no slot is needed */
	LOCK_VERDICT_FULL,      /* all slots are busy: the acquire would wait */
	LOCK_VERDICT_GATE,      /* the size is 0: the acquire would wait */
	LOCK_VERDICT_NO_SUCH_LOCK,
	/*
	 * The queue of this mutex is the administration mutex of an existing semaphore (names.h).
	 */
	LOCK_VERDICT_ALREADY_EXISTS,
	LOCK_VERDICT_UNKNOWN /* the broker gave no answer */
};
/* "free", "unlimited", "full", "gate", "no-such-lock", "already-exists", "unknown". Static. */
const char *lock_verdict_word(enum lock_verdict verdict);

struct lock_explanation {
	enum lock_verdict verdict;
	int slots, busy;   /* as in struct lock_listed */
	int here, waiting; /* busy slots that this daemon has; its waiters */
	int uncounted;     /* slots above a gap: see fsck */
	/* holders of slots above the size, and holders without a slot at this daemon; -1: not known */
	int extra;
	/* of the busy slots: those whose B cannot be reached, so that they may be free */
	int unreachable;
	enum lock_claim claim;
};

/* The one answer to a request. Strings are borrowed for the call. */
struct lock_answer {
	enum reason reason;    /* REASON_NONE: done */
	const char *text;      /* the error in words; NULL: the reason's own */
	const char *parameter; /* invalid-params: the wrong one, as the wire names it */
	const char *name;      /* of the lock or semaphore; NULL: not known */
	enum lock_kind kind;
	uint64_t lock;  /* acquire, verify, release: the hold */
	int slot;       /* acquire, verify, await: from 1; 0: the hold takes no slot */
	int64_t waited; /* acquire: ns from request to grant */
	/*
	 * acquire, verify: clock time until which the hold certainly lasts, if no more answers
	 * come. 0: it takes no slot and has no lease.
	 */
	int64_t safe_until;
	/* acquire, verify: of a hold by quorum, ns: T, and the length of its lease. Else 0 */
	int64_t grace, lease;
	/* acquire, verify: a number that is larger for each later holder of the slot; 0: there is none */
	uint64_t fence;
	/*
	 * size, create, resize; would-block, timeout: size as last seen; LOCK_UNLIMITED; -1 = not
	 * known
	 */
	int slots;
	/* create, resize: the requested size, refused or not; LOCK_UNLIMITED; -1 = not known */
	int target;
	int busy;    /* would-block, timeout: as last seen; -1 = not known */
	int waiting; /* would-block, timeout: waiters of this daemon; -1 = not known */
	/*
	 * would-block, timeout: ns until `slot` is free, whose last holder did not end cleanly; 0: no
	 * such slot is known here
	 */
	int64_t free_in;
	/* resize, destroy: removed slots that still have holders; busy: see there; NULL: none */
	const int *held;
	size_t held_count;
	int counted;                         /* busy: the slots 1..counted count */
	const struct lock_finding *findings; /* fsck */
	size_t finding_count;
	int converted;                  /* fsck: number of slots that this request converted */
	enum lock_claim claim;          /* fsck, busy: how the slots are held */
	const struct lock_listed *rows; /* list */
	size_t row_count;
	const struct lock_explanation *explanation; /* explain; else NULL */
	const char *warning;                        /* of a success, in words; NULL: none */
	bool denied;                                /* cancelled: by lock_deny() */
	/* broker-unavailable, -blocked, -refused: the change had not begun */
	bool unchanged;
};

enum lock_notice_kind {
	LOCK_NOTICE_LOST,     /* the hold has ended */
	LOCK_NOTICE_REVOKED,  /* the slot was removed; the hold continues */
	LOCK_NOTICE_EVICTED,  /* the hold is lost at the deadline, unless it ends before */
	LOCK_NOTICE_VANISHED, /* B was gone and is claimed again; for the log, not for the client */
	/*
	 * For the log; peer is 0. The broker has not answered a claim or a delete for two
	 * heartbeats, and the daemon has other holds. The slot stays reserved. Sent once for each
	 * hold.
	 */
	LOCK_NOTICE_STUCK,
	LOCK_NOTICE_SUSPECT,  /* the broker has not answered for a heartbeat; the hold continues */
	LOCK_NOTICE_RESTORED, /* the broker has answered again */
	LOCK_NOTICE_LEASE,    /* the client's holds are safe for longer: safe_until */
	LOCK_NOTICE_WAITING,  /* request: the wait began, or position or busy changed */
	LOCK_NOTICE_HOLDERS,  /* request: the removed slots that still have holders */
	LOCK_NOTICE_BROKER    /* the lock connection's state changed; to all that wait or hold */
};

/* An administrator ends a hold. Texts are borrowed for the call. */
struct lock_eviction {
	int64_t deadline; /* clock time */
	uid_t uid;        /* of the administrator */
	const char *host; /* of the administrator */
	const char *why;  /* NULL: no reason given */
};

struct lock_notice {
	enum lock_notice_kind kind;
	uint64_t lock;    /* lost, revoked, evicted, vanished */
	const char *name; /* lost, revoked, evicted, vanished, stuck, waiting */
	int slot;         /* lost, revoked, evicted, vanished, stuck */
	/* evicted; lost: because of it; else NULL */
	const struct lock_eviction *eviction;
	enum reason reason;      /* lost: lost, draining */
	const char *text;        /* lost: the broker's words, "" when none; broker: why */
	uint64_t request;        /* waiting, holders */
	int position;            /* waiting: from 1 */
	int busy, extra;         /* waiting; -1 = not known; extra: holders of removed slots */
	const int *held;         /* holders: the slots */
	size_t held_count;       /* holders */
	enum broker_state state; /* broker */
	int64_t safe_until;      /* lease */
};

/*
 * Answers and notices of the engine. Each comes from inside a call of the engine, or from the event
 * loop. `answer`, `notice` and `changed` must not call a function that changes the engine
 * (asserted). A caller that gives up a peer because of one does so later, in a pass of its own.
 */
struct lock_events {
	void (*answer)(
	    void *ctx, uint64_t peer, uint64_t request, const struct lock_answer *answer);
	void (*notice)(void *ctx, uint64_t peer, const struct lock_notice *notice);
	void *ctx;
	/* A row began, changed or ended. May be NULL. */
	void (*changed)(void *ctx, const struct lock_row *row);
	/*
	 * The broker's messages (broker.h), passed on. These two may call the engine. May be NULL.
	 */
	void (*asked)(void *ctx, const struct broker_message *message);
	void (*replied)(void *ctx, const struct broker_message *message);
	/* The auxiliary connection came or went: daemon messages may be lost. May be NULL. */
	void (*unheard)(void *ctx);
};

/* broker and timers are borrowed and outlive the engine. The engine takes the broker's events. */
struct lock_engine *lock_engine_new(struct broker *broker, struct timers *timers, uint64_t seed,
    const struct lock_settings *settings, const struct lock_events *events);
/* After broker_stop(). Sends no answers. */
void lock_engine_free(struct lock_engine *engine);
void lock_engine_set(struct lock_engine *engine, const struct lock_settings *settings);

/*
 * Why no request may name this lock, although lockname_error() accepts it. NULL: a request may.
 * Static. The caller checks this before each request that names a lock.
 */
const char *lock_name_refusal(const struct lock_engine *engine, const char *name);

/* Requests. A peer's later request has a higher number `request`. */
void lock_acquire(struct lock_engine *engine, uint64_t peer, uint64_t request,
    const struct lock_acquire *acquire);
/*
 * Ends the peer's waiting request `meant` (an acquire, an await, a wait for holders) with
 * `cancelled`. False: the peer has no such request.
 */
bool lock_cancel(struct lock_engine *engine, uint64_t peer, uint64_t meant);
/* Any peer of the holder's user may verify, and so may uid 0. Others get not-held. */
void lock_verify(
    struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock, uid_t uid);
/* Only for the holder's peer. Answered after delete-ok, or after a hand-off. */
void lock_release(struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock);
/* Administration, under the administration mutex of the name. */
void lock_create(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
void lock_resize(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
void lock_destroy(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
void lock_fsck(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_check *check);
/* Requests that change nothing. */
void lock_await(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_await *await);
void lock_explain(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name,
    enum lock_kind kind);
void lock_list(struct lock_engine *engine, uint64_t peer, uint64_t request);
void lock_size(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name);
/*
 * Which slots of a semaphore are busy, by probes. The answer has slots, and in `held` each slot
 * that has a holder, this daemon's included, or whose B cannot be reached. Slots that were removed
 * and still have a holder follow, even in a refusal with no-such-lock. If the true mutex of that name
 * is busy, `held` begins with 0, even in such a refusal.
 */
void lock_busy(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name);

/*
 * Calls fn for each row of one name, or of all names (NULL). Holders come first, in no order.
 * Waiters follow, name by name, in the order of the local queue. It changes nothing, so that an
 * event may call it.
 */
void lock_each(const struct lock_engine *engine, const char *name,
    void (*fn)(void *ctx, const struct lock_row *row), void *ctx);
/* As lock_each(), for holders only. */
void lock_each_holding(const struct lock_engine *engine, const char *name,
    void (*fn)(void *ctx, const struct lock_row *row), void *ctx);
/* The place of a walk through the waiters of a name. Zeroed: the walk has not begun. */
struct lock_place {
	uint64_t newest; /* the number of the newest waiter when the walk began */
	bool mutex;      /* the walk is done with the semaphore's waiters */
	int priority;    /* of the last waiter of the walk */
	uint64_t waiter;
};
/*
 * The next waiter of the name, in the order of lock_each(). Waiters that came after the walk began
 * are left out. The engine may change between two steps. False: the walk is over.
 */
bool lock_next_waiting(const struct lock_engine *engine, const char *name, struct lock_place *place,
    struct lock_row *ret);
/*
 * The row that had these numbers. False: it ended, or its acquire became a hold. As lock_each(), at
 * the cost of one hash table lookup.
 */
bool lock_row_find(
    const struct lock_engine *engine, uint64_t waiter, uint64_t lock, struct lock_row *ret);
/*
 * Slots that are busy because of this daemon, but have no row: they are being claimed or given
 * back. 0: the true mutex. As lock_each().
 */
void lock_each_passing(
    const struct lock_engine *engine, const char *name, void (*fn)(void *ctx, int slot), void *ctx);
/* All slots that are busy because of this daemon, with a row or without. As lock_each(). */
void lock_each_busy(
    const struct lock_engine *engine, const char *name, void (*fn)(void *ctx, int slot), void *ctx);
/* The use that clients of this daemon make of a lock. */
struct lock_use {
	const char *name;
	bool mutex;     /* a true mutex; else a semaphore or a persistent mutex */
	size_t waiting; /* waiters */
	size_t busy;    /* of a mutex: holders; of a semaphore 0 */
	size_t extra;   /* holders whose slot was removed, or that take none */
	int slot;       /* of a holder whose slot was removed; else 0 */
};
/*
 * Each lock that clients of this daemon wait for, each mutex that one holds, and each lock that one
 * holds beyond its slots. A lock can come several times: the numbers are to be added. As lock_each().
 */
void lock_each_use(
    const struct lock_engine *engine, void (*fn)(void *ctx, const struct lock_use *use), void *ctx);

/*
 * Why the user, exempt or not, could claim no slot now: the limit of channels, in words. NULL: the
 * user could.
 */
#define LOCK_LACKING_MAX 128
const char *lock_lacking(
    const struct lock_engine *engine, uid_t uid, bool exempt, char text[LOCK_LACKING_MAX]);

/*
 * The name that the waiter with this number waits for; NULL: there is none. Borrowed for the call.
 */
const char *lock_waits_for(const struct lock_engine *engine, uint64_t waiter);
/*
 * Administration of waiters; `waiter` is the number in its row. NOT_HELD: there is no such waiter.
 * The engine answers the acquire before these return.
 */
/*
 * Grants a hold without a slot, in any state of the waiter. TOO_MANY_LOCKS of its peer: it waits
 * on.
 */
enum reason lock_admit(struct lock_engine *engine, uint64_t waiter);
/* Ends the acquire with `cancelled` (answer.denied). */
enum reason lock_deny(struct lock_engine *engine, uint64_t waiter);
/* The same for all waiters of a name; returns their number. */
size_t lock_deny_all(struct lock_engine *engine, const char *name);

/*
 * Administration of holders; `waiter` is the number in its row. The client is told, and has until the
 * deadline to end. Then the hold is lost, and not before. A later eviction of the same hold never
 * puts its deadline off, and tells its client only of an earlier one.
 */
/* The name of the lock that it holds; NULL: there is no such holder. Borrowed for the call. */
const char *lock_holds(const struct lock_engine *engine, uint64_t waiter);
/* NOT_HELD: there is no such holder, or it has released the lock. */
enum reason lock_evict(
    struct lock_engine *engine, uint64_t waiter, const struct lock_eviction *eviction);
/* The same for all holders of a name; returns their number. */
size_t lock_evict_all(
    struct lock_engine *engine, const char *name, const struct lock_eviction *eviction);

/*
 * The peer hung up. Its holds are released, and its claims in flight are released if they succeed.
 * Its acquires end unanswered. Its other requests are still answered.
 */
void lock_peer_gone(struct lock_engine *engine, uint64_t peer);
/*
 * After lock_peer_gone(): the peer no longer receives answers. Its requests (explain, fsck) that
 * have not begun are given up.
 */
void lock_peer_left(struct lock_engine *engine, uint64_t peer);

/*
 * The successor (docs/ARCHITECTURE.md): another engine goes on with the holds and the waiting
 * requests of this one.
 *
 * Frozen: no claim and no scan begins, and hints go to other daemons. Claims that wait for a flight
 * are still sent. A hold is asked about only for a hand-off, or if its lease is half a heartbeat
 * old. Requests in flight end. The caller passes no requests meanwhile. Not frozen again: everything
 * goes on.
 */
void lock_freeze(struct lock_engine *engine, bool frozen);
/* Frozen: whether all holds are at rest, and the lock connection has no unanswered request. */
bool lock_is_still(const struct lock_engine *engine);
/* Whether a hold, or a claim, ends with the lock connection. */
bool lock_needs_link(const struct lock_engine *engine);
/*
 * Frozen: whether no requests are left besides those that wait, all hints are sent, and no B of a
 * removed slot is left to delete.
 */
bool lock_is_idle(const struct lock_engine *engine);
/*
 * Whether the request waits, and is saved. The caller repeats each other unanswered request at the
 * successor.
 */
bool lock_saves(const struct lock_engine *engine, uint64_t peer, uint64_t request);
/*
 * A change by a number of slots may be performed in part: the size to which it is repeated. -1: it
 * is no such change, or has changed nothing.
 */
int lock_leads_to(const struct lock_engine *engine, uint64_t peer, uint64_t request);
/* The oldest version of the state that has all records of this engine and its broker. */
int lock_state_version(const struct lock_engine *engine);
/* It is still: writes its holds. */
void lock_save_holds(const struct lock_engine *engine, struct state_writer *writer);
/* The same for its waiting requests. */
void lock_save_waits(struct lock_engine *engine, struct state_writer *writer);
/*
 * After broker_resume(), to an engine that has nothing yet: the holds of the other engine. False:
 * the reader has the error, and the engine can only be freed.
 */
bool lock_restore_holds(struct lock_engine *engine, struct state_reader *reader)
    __attribute__((warn_unused_result));
/* The same for its waiting requests, after the requests that the caller repeats. */
bool lock_restore_waits(struct lock_engine *engine, struct state_reader *reader)
    __attribute__((warn_unused_result));

/*
 * While the grace lasts, a login that the broker refuses does not refuse acquires that wait. A
 * daemon that makes its first connection may try another host. The end of the grace refuses them.
 */
void lock_set_grace(struct lock_engine *engine, bool grace);
/* Orderly stop: refuses new acquires and ends waiting ones with `draining`. Holds stay. */
void lock_drain(struct lock_engine *engine);
/* Ends all remaining holds: each holder is told `lost` (draining), then its slot is released. */
void lock_abandon(struct lock_engine *engine);
/*
 * True if nothing is held or in flight: the broker has answered every claim and every delete. The
 * Bs of removed slots are deleted, or the daemon has given that up.
 */
bool lock_quiet(const struct lock_engine *engine);

/*
 * Maximum ns from the silent death of a holder's host until a waiter of another host has the slot.
 */
int64_t lock_takeover(const struct lock_engine *engine);
/*
 * Whether the broker may still have Bs of a lock connection that died. Until it notices the death,
 * these Bs look like other holders.
 */
bool lock_is_recovering(const struct lock_engine *engine);
/*
 * ns since the sending of the newest request on the lock connection that was answered. Of holds with
 * leases of their own, the oldest counts. If nothing is held: ns since the last byte. From a
 * heartbeat on, holds are suspect. -1: the connection is not up.
 */
int64_t lock_silence(const struct lock_engine *engine);
/* ns by which a hold is lost before the broker can free it (margin.h), for the agreed heartbeat. */
int64_t lock_margin(const struct lock_engine *engine);

struct lock_counts {
	size_t holds;     /* held now, revoked ones included */
	size_t waiting;   /* acquires not answered yet */
	size_t in_flight; /* claims and deletes not answered yet */
	/*
	 * Since the start. A hold is released or lost when its client has it no longer, even if B
	 * is not free yet. At any time granted = released + lost + holds.
	 */
	uint64_t granted, refused, released, lost;
	/* Bs that a second check found gone (broker.h, deletes_by_name) */
	uint64_t holder_queues_lost;
};
void lock_get_counts(const struct lock_engine *engine, struct lock_counts *ret);

#endif
