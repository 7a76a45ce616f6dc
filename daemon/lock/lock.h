/*
 * The lock engine as its callers see it: requests of local peers in, exactly one answer each out, and
 * notices about what peers hold. Owns the registry, the queues of waiting requests and the broker's
 * channels in use. Knows no sockets, no JSON, no AMQP: a broker (broker.h), timers and a seed go in, so
 * that a simulation runs the very same code.
 *
 * Peers and their requests are numbers that the caller chose; locks are numbers that the engine
 * chooses and never uses twice. A number that is gone is a normal thing, not an error.
 */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/timers.h"
#include "daemon/broker/broker.h"
#include "daemon/lock/table/names.h"
#include "protocol/lockname.h"
#include "protocol/reason.h"

struct lock_engine;

/* What can be changed while the engine runs (reload), but for naming. */
struct lock_settings {
	const struct queue_naming *naming; /* borrowed */
	unsigned max_races;                /* lost races of one acquire, then `contended` */
	int64_t rescan_interval; /* most ns between looks at a full semaphore; each is jittered */
	int64_t hint_grace; /* ns for which a slot is left to those who were told that it is free */
	/* peers here that a slot is handed to in a row while others may wait elsewhere; 0: none is */
	unsigned max_local_handoffs;
	int64_t margin;          /* as wanted (margin.h); 0: a fifth of the heartbeat */
	int64_t request_timeout; /* ns until a request that does not wait by itself gives up */
	size_t max_locks_per_connection;
	size_t max_waits_per_connection;
	/* Channels of the lock connection that one user leaves to the others; at most half of them. */
	size_t channels_reserve;
	/* Slots of a semaphore; none above is looked for. 0: METHODS_SLOTS_MAX. The simulation has few. */
	int slots_most;
	/* Claims and deletes that one user has at the broker at once. 0: FLIGHTS_MOST (flight.h). */
	size_t flights_most;
};

/* Of slots: there are no slots to wait for. */
#define LOCK_UNLIMITED (-2)

struct lock_acquire {
	const char *name;
	enum lock_kind kind;
	int64_t timeout; /* ns; 0 = try; DURATION_FOREVER */
	int priority;    /* at most METHODS_PRIORITY_MOST, either way */
	bool progress;   /* wants LOCK_NOTICE_WAITING */
	bool lease;      /* wants LOCK_NOTICE_LEASE */
	int create;  /* how many slots it gets when there is no such semaphore; 0 = it stays so */
	uid_t uid;   /* whose holds these are: decides who may verify them */
	bool exempt; /* of the limit of channels that one user may take (channels_reserve) */
	pid_t pid;
	const char *who, *why, *command; /* the peer's own words, for who looks on; NULL: none */
};

/* How a semaphore is created, changed, removed (seeds/000, "Lock Administration"). */
struct lock_change {
	const char *name;
	enum lock_kind kind;                                          /* create */
	enum { LOCK_SLOTS_TO, LOCK_SLOTS_ADD, LOCK_SLOTS_REMOVE } by; /* resize */
	int slots;     /* create, resize: 0 = the gate, at which all wait; TO: or LOCK_UNLIMITED */
	bool exist_ok; /* create: fine when it is there already with that many */
	bool
	    ascending; /* resize, destroy: slots go from the lowest up (seeds/000, "Swiss Cheese") */
	int overshoot; /* how far above the size uncounted slots are looked for at least (seeds/000) */
	/* resize, destroy: ns to wait for the holders of removed slots; 0; DURATION_FOREVER */
	int64_t wait;
	bool progress; /* wants LOCK_NOTICE_HOLDERS while it waits for them */
};

/* Waits until somebody holds a slot, or nobody does; whether the slot exists is not asked. */
struct lock_await {
	uid_t uid; /* users that await much take turns */
	const char *name;
	int slot; /* from 1 */
	bool busy;
	int64_t timeout; /* ns; 0 = look once; DURATION_FOREVER */
};

/* What fsck looks for. */
enum lock_problem {
	LOCK_PROBLEM_GAP, /* a slot is missing below one that is there: those above do not count */
	LOCK_PROBLEM_UNCOUNTED, /* a slot above the gap */
	LOCK_PROBLEM_ORPHAN, /* a holder of a slot that is not there: removed, or never declared */
	LOCK_PROBLEM_ARGUMENTS,     /* declared with other arguments; used as it is */
	LOCK_PROBLEM_TRANSIENT,     /* not durable: gone when the broker restarts */
	LOCK_PROBLEM_MARKERS,       /* markers that contradict each other, or the slots */
	LOCK_PROBLEM_NOT_LISTED,    /* it exists, and is not in the directory */
	LOCK_PROBLEM_LISTED_MISSING /* it is in the directory, and does not exist */
};
/* "gap", "uncounted", "orphan", "arguments", "transient", "markers", "not-listed", "listed-missing". Static. */
const char *lock_problem_word(enum lock_problem problem);

struct lock_finding {
	enum lock_problem problem;
	int slot;         /* 0: of none in particular */
	const char *text; /* in words */
	bool repaired;
};

enum lock_row_state {
	LOCK_ROW_WAITING,
	LOCK_ROW_BUSY,      /* it holds */
	LOCK_ROW_ADMITTED,  /* it holds, let in by lock_admit() */
	LOCK_ROW_CANCELLED, /* a change alone: it waited, and ended without a hold; GONE is next */
	LOCK_ROW_GONE       /* a change alone: it neither holds nor waits any more */
};
/* "waiting", "busy", "granted", "cancelled", "gone". Static. */
const char *lock_row_word(enum lock_row_state state);

/* Somebody who holds or waits here. Strings are borrowed for the call. */
struct lock_row {
	enum lock_row_state state;
	uint64_t waiter; /* the number of its acquire, also when it holds: identifies the row */
	uint64_t lock;   /* the hold; 0: it waits */
	const char *name;
	enum lock_kind kind;
	int slot;               /* from 1; 0: none is taken */
	int position, priority; /* while it waits; from 1 */
	uid_t uid;
	pid_t pid;
	const char *who, *why, *command; /* NULL: none */
	int64_t since;                   /* clock time: waits or holds since then */
	bool revoked;
};

/* A semaphore of the directory. */
struct lock_listed {
	const char *name;
	int slots; /* LOCK_UNLIMITED; -1: not known; 0 without a gate: it is listed and does not exist */
	bool exists;
	int busy; /* slots that are busy; -1: not known */
};

/* Why an acquire would succeed now, or not. */
enum lock_verdict {
	LOCK_VERDICT_FREE,      /* a slot is free */
	LOCK_VERDICT_UNLIMITED, /* it needs none */
	LOCK_VERDICT_FULL,      /* all slots are busy: it would wait */
	LOCK_VERDICT_GATE,      /* there are none for the time being: it would wait */
	LOCK_VERDICT_NO_SUCH_LOCK,
	/* A mutex that cannot be: its queue is the administration mutex of a semaphore (names.h) */
	LOCK_VERDICT_ALREADY_EXISTS,
	LOCK_VERDICT_UNKNOWN /* the broker did not say */
};
/* "free", "unlimited", "full", "gate", "no-such-lock", "already-exists", "unknown". Static. */
const char *lock_verdict_word(enum lock_verdict verdict);

struct lock_explanation {
	enum lock_verdict verdict;
	int slots, busy;   /* as lock_row */
	int here, waiting; /* of the busy ones: held by this daemon; acquires that wait here */
	int uncounted;     /* slots above a gap, which do not count: see fsck */
};

/* The one answer to a request. Strings are borrowed for the call. */
struct lock_answer {
	enum reason reason;    /* REASON_NONE: done */
	const char *text;      /* what went wrong, in words; NULL: the reason's own */
	const char *parameter; /* invalid-params: which is wrong, as the wire names it */
	const char *name;      /* of the lock or semaphore; NULL: not known */
	enum lock_kind kind;
	uint64_t lock;  /* acquire, verify, release: the hold */
	int slot;       /* acquire, verify, await: from 1; 0 = takes none */
	int64_t waited; /* acquire: ns from request to grant */
	/* acquire, verify: clock time until which the hold is certainly there, if nothing more is heard */
	/* 0: it takes no slot and has no lease */
	int64_t safe_until;
	/* size, create, resize; would-block, timeout: size as last seen; LOCK_UNLIMITED; -1 = not known */
	int slots;
	/* create, resize: the size it was to get, refused or not; LOCK_UNLIMITED; -1 = not known */
	int target;
	int busy;    /* would-block, timeout: as last seen; -1 = not known */
	int waiting; /* would-block, timeout: requests waiting here; -1 = not known */
	/* resize, destroy: slots removed whose holders are still there; NULL: none */
	const int *held;
	size_t held_count;
	const struct lock_finding *findings; /* fsck */
	size_t finding_count;
	const struct lock_listed *rows; /* list */
	size_t row_count;
	const struct lock_explanation *explanation; /* explain; else NULL */
	const char *warning;                        /* done, but: in words; NULL: nothing to say */
	bool denied;                                /* cancelled: by lock_deny() */
};

enum lock_notice_kind {
	LOCK_NOTICE_LOST,    /* the hold has ended */
	LOCK_NOTICE_REVOKED, /* the slot was taken out of service; the hold goes on until released */
	LOCK_NOTICE_VANISHED, /* B was gone and is claimed again; for the log, not for the peer */
	/*
	 * For the log, peer is 0: the broker has not answered a claim or a delete for two heartbeats, and
	 * the daemon holds other locks. The slot stays reserved. It is told once for each hold.
	 */
	LOCK_NOTICE_STUCK,
	LOCK_NOTICE_SUSPECT,  /* the broker has not answered for a heartbeat; the hold goes on */
	LOCK_NOTICE_RESTORED, /* it has answered again */
	LOCK_NOTICE_LEASE,    /* the peer's holds are safe for longer: safe_until */
	LOCK_NOTICE_WAITING,  /* request: it waits now, or its position or the holders changed */
	LOCK_NOTICE_HOLDERS,  /* request: which removed slots still have holders */
	LOCK_NOTICE_BROKER /* the lock connection's state changed: to every peer that waits or holds */
};

struct lock_notice {
	enum lock_notice_kind kind;
	uint64_t lock;           /* lost, revoked, vanished */
	const char *name;        /* lost, revoked, vanished, stuck, waiting */
	int slot;                /* lost, revoked, vanished, stuck */
	enum reason reason;      /* lost: lost, draining */
	const char *text;        /* lost: the broker's words, "" when none; broker: why */
	uint64_t request;        /* waiting, holders */
	int position;            /* waiting: from 1 */
	int busy;                /* waiting; -1 = not known */
	const int *held;         /* holders: the slots */
	size_t held_count;       /* holders */
	enum broker_state state; /* broker */
	int64_t safe_until;      /* lease */
};

/*
 * Where answers and notices go. Either may come from inside a call of the engine or from the loop; the
 * listener must not call the engine from inside (asserted): a peer that it cannot serve any more is
 * given up later, in a pass of its own.
 */
struct lock_events {
	void (*answer)(
	    void *ctx, uint64_t peer, uint64_t request, const struct lock_answer *answer);
	void (*notice)(void *ctx, uint64_t peer, const struct lock_notice *notice);
	void *ctx;
	/* A row has come, has changed, or is gone. NULL: nobody cares. */
	void (*changed)(void *ctx, const struct lock_row *row);
	/* The broker's messages (broker.h), passed on: from these the engine may be called. NULL: nobody cares. */
	void (*asked)(void *ctx, const struct broker_message *message);
	void (*replied)(void *ctx, const struct broker_message *message);
	/* The auxiliary connection came or went: daemon messages may have gone unheard. NULL: nobody cares. */
	void (*unheard)(void *ctx);
};

/* broker and timers are borrowed and outlive the engine, which hears the broker's events. */
struct lock_engine *lock_engine_new(struct broker *broker, struct timers *timers, uint64_t seed,
    const struct lock_settings *settings, const struct lock_events *events);
/* After broker_stop(). Answers nobody. */
void lock_engine_free(struct lock_engine *engine);
void lock_engine_set(struct lock_engine *engine, const struct lock_settings *settings);

/*
 * Why no request may name this lock, though lockname_error() lets it; NULL: it may. Static. Asked before
 * every request that names one.
 */
const char *lock_name_refusal(const struct lock_engine *engine, const char *name);

/* Requests: `request` is unique within the peer while it is unanswered. */
void lock_acquire(struct lock_engine *engine, uint64_t peer, uint64_t request,
    const struct lock_acquire *acquire);
/*
 * Ends the peer's waiting request `meant` (an acquire, an await, a wait for holders) with `cancelled`;
 * false when there is none such.
 */
bool lock_cancel(struct lock_engine *engine, uint64_t peer, uint64_t meant);
/* To any peer of the uid that holds it (uid 0 sees all); others get not-held. */
void lock_verify(
    struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock, uid_t uid);
/* Only by the peer that holds it. Answered after delete-ok. */
void lock_release(struct lock_engine *engine, uint64_t peer, uint64_t request, uint64_t lock);
/* Administration, under the admin mutex of the name. */
void lock_create(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
void lock_resize(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
void lock_destroy(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_change *change);
void lock_fsck(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name, bool repair);
/* Looking. */
void lock_await(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_await *await);
void lock_explain(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name,
    enum lock_kind kind);
void lock_list(struct lock_engine *engine, uint64_t peer, uint64_t request);
void lock_size(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name);
/*
 * Which slots of a semaphore are busy, as the broker says: answer.slots, and .held those whose B is
 * there, ours included; and before them 0 when the true mutex of that name is busy, which is said of a
 * no-such-lock, too.
 */
void lock_busy(struct lock_engine *engine, uint64_t peer, uint64_t request, const char *name);

/*
 * Rows: of one name, or of all (NULL). Holders first, in no order; then who waits, name by name in the
 * order of the line. May be called by the caller.
 */
void lock_each(const struct lock_engine *engine, const char *name,
    void (*fn)(void *ctx, const struct lock_row *row), void *ctx);
/* Those who hold alone. As lock_each(). */
void lock_each_holding(const struct lock_engine *engine, const char *name,
    void (*fn)(void *ctx, const struct lock_row *row), void *ctx);
/* How far a walk through those who wait for a name has come. Zeroed: it has not begun. */
struct lock_place {
	uint64_t newest; /* the number of the newest waiter when it began */
	bool mutex;      /* those of the semaphore have been met */
	int priority;    /* of the last one that was met */
	uint64_t waiter;
};
/*
 * The next one who waits for the name, in the order of lock_each(): of those that had come when the walk began.
 * The engine may change between two steps. False: there is none.
 */
bool lock_next_waiting(const struct lock_engine *engine, const char *name, struct lock_place *place,
    struct lock_row *ret);
/*
 * One row, by its numbers as they were: false when it is gone, or an acquire of which a hold has come. As
 * lock_each(), and as quick as a scan into a table.
 */
bool lock_row_find(
    const struct lock_engine *engine, uint64_t waiter, uint64_t lock, struct lock_row *ret);
/*
 * Slots that are busy here though no row has them: being claimed, or given back; 0: the true mutex. As
 * lock_each().
 */
void lock_each_passing(
    const struct lock_engine *engine, const char *name, void (*fn)(void *ctx, int slot), void *ctx);
/* All slots that are busy here, those included. As lock_each(). */
void lock_each_busy(
    const struct lock_engine *engine, const char *name, void (*fn)(void *ctx, int slot), void *ctx);
/*
 * How many wait, for each name for which somebody does (twice for one that is a mutex, too). As
 * lock_each().
 */
void lock_each_waiting(const struct lock_engine *engine,
    void (*fn)(void *ctx, const char *name, size_t waiting), void *ctx);

/*
 * Why no slot could be claimed now for a user, exempt or not, whichever is free: the limit of channels, in
 * words; NULL: it could.
 */
#define LOCK_LACKING_MAX 128
const char *lock_lacking(
    const struct lock_engine *engine, uid_t uid, bool exempt, char text[LOCK_LACKING_MAX]);

/* The name that is waited for under that number; NULL: nobody waits under it. Borrowed, soon gone. */
const char *lock_waits_for(const struct lock_engine *engine, uint64_t waiter);
/*
 * Administration of who waits; `waiter` as in its row. REASON_NONE; NOT_HELD: nobody waits under that
 * number. Their acquires are answered before these return.
 * A hold without a slot at once, whatever it was doing; or TOO_MANY_LOCKS: of its peer, and it waits on.
 */
enum reason lock_admit(struct lock_engine *engine, uint64_t waiter);
/* Ends it with `cancelled` (answer.denied). */
enum reason lock_deny(struct lock_engine *engine, uint64_t waiter);
/* All who wait for a name; returns how many. */
size_t lock_deny_all(struct lock_engine *engine, const char *name);

/*
 * The peer hung up: its holds are released, what is in flight for it is released as soon as it turns
 * out to be ours. Its acquires end unanswered; its other requests are still answered.
 */
void lock_peer_gone(struct lock_engine *engine, uint64_t peer);
/*
 * After that: it does not hear of its other requests either. Those whose turn has not come (explain, fsck)
 * are given up.
 */
void lock_peer_left(struct lock_engine *engine, uint64_t peer);

/* Orderly stop: refuses new acquires and ends waiting ones with `draining`; holds stay. */
void lock_drain(struct lock_engine *engine);
/* Takes away what is left: each holder is told `lost` (draining), then its slot is released. */
void lock_abandon(struct lock_engine *engine);
/*
 * True when nothing is held and nothing in flight could still become held: every claim and every
 * delete has been answered.
 */
bool lock_quiet(const struct lock_engine *engine);

/* ns from the silent death of a holder's host until somebody elsewhere who waits has its slot, at worst. */
int64_t lock_takeover(const struct lock_engine *engine);
/*
 * Whether Bs of a lock connection that died may still be there, until the broker notices: they look like
 * other holders.
 */
bool lock_is_recovering(const struct lock_engine *engine);
/* ns by which a hold is lost before the broker could free it (margin.h), by the heartbeat agreed on. */
int64_t lock_margin(const struct lock_engine *engine);

struct lock_counts {
	size_t holds;                              /* held now, revoked ones included */
	size_t waiting;                            /* acquires not answered yet */
	size_t in_flight;                          /* claims and deletes not answered yet */
	uint64_t granted, refused, released, lost; /* since the start */
	uint64_t
	    holder_queues_lost; /* Bs that were gone when checked again (broker.h, deletes_by_name) */
};
void lock_get_counts(const struct lock_engine *engine, struct lock_counts *ret);

#endif
