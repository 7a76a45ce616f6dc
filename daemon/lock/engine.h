/*
 * The inside of the lock engine, shared by the files of daemon/lock/. It owns the tables and the requests,
 * sends all answers and notices, and keeps the dirty marks. A lower file marks a semaphore dirty
 * (engine_mark_dirty). The queue runner (queue.h) serves it later. Files outside daemon/lock/ include lock.h.
 *
 * The module also has what many files use: batches of probes, flights, awaited and withheld slots. It counts
 * the mutexes of each user, tells progress, and keeps the order of a peer's requests. It must not know claims,
 * releases or changes.
 */
#ifndef LOCK_ENGINE_H
#define LOCK_ENGINE_H

#include "daemon/base/backoff.h"
#include "daemon/lock/lock.h"
#include "daemon/lock/objects.h"

TAILQ_HEAD(holder_wait_list, holder_wait);

/* A peer that holds or waits; it is freed when it does neither. */
struct lock_peer {
	uint64_t id;
	struct hold_list holds;
	struct waiter_list waiters;
	struct holder_wait_list holder_waits; /* for holders, and of lock_await() */
	size_t hold_count, waiter_count, holder_wait_count;
	size_t claim_count; /* of its waiters, in CLAIMING */
	int64_t lease_told; /* of lease.c: hold.from of the lease that it was told last; 0: none */
	UT_hash_handle by_id;
};

/* A request with a deadline of the engine's: all but acquires, waits for holders and awaits. */
struct op {
	uint64_t id;
	/* peer 0: the engine's own, never answered. Both are one key */
	uint64_t peer, request;
	struct timer deadline;
	enum reason late;      /* the answer when the deadline passes */
	const char *late_text; /* static, or `words`; NULL: the broker did not answer */
	char words[128];
	int leads_to; /* of a change by a number of slots: the size; -1: not known, or none */
	/* Adds known facts to the answer when the op is given up. May be NULL. */
	void (*fill)(const struct lock_engine *engine, uint64_t op, struct lock_answer *answer);
	/* Called after the op was given up, by its deadline or otherwise. May be NULL. */
	void (*expired)(struct lock_engine *engine, uint64_t op);
	UT_hash_handle by_id, by_request;
};

enum lease_state {
	LEASE_NONE,   /* the broker has answered nothing on this connection */
	LEASE_GOOD,   /* it has answered a request that was sent less than a heartbeat ago */
	LEASE_SUSPECT /* it has not; the holders were told */
};

/* Of the lock connection. */
struct lease {
	enum lease_state state;
	int64_t from;      /* clock time of sending of the newest answered request; 0 = none */
	int64_t told;      /* `from`, when clients were last told of the lease */
	int64_t stuck_at;  /* of keepalive.c: clock time of the next search for stuck channels */
	int64_t recovered; /* clock time until which Bs of a dead connection may exist */
	struct timer keepalive, watch;
};

TAILQ_HEAD(slot_questions, slot_question);
TAILQ_HEAD(verify_list, verify);
TAILQ_HEAD(lost_list, lost_hold);

/* Of keepalive.c. */
struct slot_checks {
	uint64_t channel;                /* of the lock connection, for new questions; 0: none */
	unsigned unanswered;             /* on that channel */
	unsigned window;                 /* the maximum of `unanswered` */
	unsigned others;                 /* further channels, which take no new questions */
	struct slot_questions waiting;   /* owned; unsent, in order */
	struct slot_questions questions; /* owned; unanswered, in order of sending */
};

/* Of mutex.c. */
struct mutex_post {
	struct timer round;
	uint64_t channel; /* during a declare; else 0 */
};

/* Of mutex.c. */
struct fence_floor {
	uint64_t known;         /* as last seen, or raised; 0: not known */
	uint64_t least, wanted; /* if it is below `least`, it is raised to `wanted` */
	uint64_t records;       /* the session; 0: none */
	struct timer again;     /* after a failure */
	bool failed;            /* the last attempt */
};

struct lock_engine {
	struct broker *broker; /* borrowed */
	struct timers *timers; /* borrowed */
	struct lock_settings settings;
	struct lock_events events;
	struct jitter jitter;
	uint64_t last_id;       /* holds, waiters, ops, probes: all from one series */
	enum broker_state link; /* of the lock connection, by the last event */
	bool draining;
	bool grace;   /* see lock_set_grace() */
	bool frozen;  /* see lock_freeze() */
	bool telling; /* during an event of the caller, which must not call the engine */
	struct lease lease;
	struct hold_table holds;
	struct slot_checks slot_checks;
	struct channels channels;          /* of channels.c */
	struct mutex_user *mutex_users;    /* of engine.c: by uid */
	struct hold *watched;              /* by the name of A: holds with a watch */
	struct waiter *waiters;            /* by id */
	struct semaphore *scans;           /* by probe: with a scan in progress */
	struct lock_peer *peers;           /* by id */
	struct semaphore *semaphores;      /* by key */
	struct semaphore *by_wait_queue;   /* by the name of the wait queue */
	struct op *ops;                    /* by id */
	struct op *targeted_ops;           /* by request: those with leads_to */
	struct verify *verifies;           /* of keepalive.c */
	struct verify_list verifies_again; /* of keepalive.c: those that wait for a channel's end */
	struct peer_order_queue *peer_orders;              /* of engine.c */
	struct mutex *mutexes, *mutexes_by_queue;          /* of mutex.c */
	struct mutex_taker *mutex_takers;                  /* of mutex.c */
	struct full_scan_job *full_scans, *full_scans_due; /* of scan.c */
	struct holder_wait *holder_waits;                  /* of holders.c */
	struct holder_probes *holder_probes;               /* of holders.c */
	struct awaited_name *awaited;                      /* of engine.c: by name */
	struct fsck *fscks;                                /* of fsck.c */
	struct listing *listings;                          /* of list.c */
	struct admin *admins;                              /* of admin.c */
	struct work *works;                                /* of work.c */
	struct directory *directories;                     /* of list.c */
	struct hint_question *hint_questions;              /* of hold.c */
	struct removed_slot *removed_slots;                /* of mutex.c */
	struct late_hint *late_hints;                      /* of hold.c */
	struct lost_list lost_holds;                       /* of hold.c: the oldest first */
	struct making *mutex_makings;                      /* of admin.c */
	int64_t unled_until; /* of admin.c: no queue that perhaps has no leader is made before */
	struct mutex_post mutex_post;   /* of mutex.c */
	struct fence_floor fence_floor; /* of mutex.c */
	struct semaphore_list dirty;
	struct timer run_queues;  /* set while a semaphore is dirty */
	struct lock_counts total; /* only the counters since the start */
};

/* Defines type *name(engine, id): the object with that number in a table of the engine, or NULL. */
#define ENGINE_FIND(name, type, table, handle)                                                     \
	static type *name(const struct lock_engine *engine, uint64_t id)                           \
	{                                                                                          \
		type *found;                                                                       \
                                                                                                   \
		HASH_FIND(handle, engine->table, &id, sizeof(id), found);                          \
		return found;                                                                      \
	}

/* How a true mutex, or a slot with an A, is claimed if nothing is known of it. */
enum broker_way engine_way_unseen(const struct lock_engine *engine);

/* A new number, never used before. */
uint64_t engine_id(struct lock_engine *engine);
int64_t engine_now(const struct lock_engine *engine);

/* Answers and ends the op. No other function answers one. An op that is gone is fine. */
void engine_op_end(struct lock_engine *engine, uint64_t op, const struct lock_answer *answer);
/* Ends the op without an answer: the caller takes over the request. */
void engine_op_leave(struct lock_engine *engine, struct op *op);
struct op *engine_op_new(struct lock_engine *engine, uint64_t peer, uint64_t request);
struct op *engine_op_find(const struct lock_engine *engine, uint64_t id); /* or NULL */
/* The op of a change by a number of slots whose size is known; or NULL. */
const struct op *engine_op_find_target(
    const struct lock_engine *engine, uint64_t peer, uint64_t request);
/*
 * Ends the op as its deadline does: `fill` completes this refusal, and `expired` is called after
 * it.
 */
void engine_op_give_up(struct lock_engine *engine, uint64_t id, struct lock_answer *answer);
/* The size that a change by a number of slots leads to is known. -1: it is not. */
void engine_op_leads_to(struct lock_engine *engine, uint64_t op, int size);
/* The request made progress: its deadline starts anew. */
void engine_op_progress(struct lock_engine *engine, struct op *op);
/* The next step may take so much longer than others, ns. */
void engine_op_progress_in(struct lock_engine *engine, struct op *op, int64_t more);
struct waiter *engine_waiter_find(const struct lock_engine *engine, uint64_t id); /* or NULL */
/* Answers a request that has neither op nor waiter. */
void engine_tell(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_answer *answer);
void engine_notice(struct lock_engine *engine, uint64_t peer, const struct lock_notice *notice);

/* A refusal; text: borrowed; NULL = the reason's own. */
struct lock_answer engine_refusal(enum reason reason, const char *text);
/* A refusal with the known facts of the semaphore: for would-block and timeout. */
struct lock_answer engine_full(const struct semaphore *semaphore, enum reason reason);

/*
 * The refusal if the broker did not answer whether a queue exists. The reason is an alarm, or a
 * refused probe, or not known. For the last one `text` (borrowed) is the message.
 */
struct lock_answer engine_refusal_unknown(const struct lock_engine *engine, const char *text);

/* A wait begins while the lock connection is down: tells the peer its state. */
void engine_tell_broker(struct lock_engine *engine, uint64_t peer);

/*
 * True: requests that need the broker are refused now, because it is down or blocked by an alarm.
 * The words of the refusal are borrowed from the broker.
 */
bool engine_refusal_for_link(const struct lock_engine *engine, struct lock_answer *ret_refusal);

struct lock_peer *engine_peer_find(const struct lock_engine *engine, uint64_t id); /* or NULL */
/* The semaphore (or mutex) of a name; or NULL. */
struct semaphore *engine_semaphore_find(
    const struct lock_engine *engine, const char *name, bool mutex);

/* A fact changed that may let the local queue move: it runs in the next pass of the timers. */
void engine_mark_dirty(struct lock_engine *engine, struct semaphore *semaphore);
/* The same, and makes a new scan due, even if one is in progress. */
void engine_scan(struct lock_engine *engine, struct semaphore *semaphore);

/*
 * A batch of queues to probe (broker.h). The caller adds them one by one. One flush on the
 * auxiliary connection sends all probes.
 */

/* Zeroed: empty. */
struct probe_batch {
	char *questions;     /* owned; of each its kind, a byte, and its queue's name with NUL */
	size_t length, room; /* of `questions`, in bytes */
	size_t count;
};

typedef void probe_done_fn(void *ctx, uint64_t id, const struct broker_seen *seen);

void probe_add(struct probe_batch *batch, struct queue_name queue, enum broker_question_kind kind);
/*
 * Sends the probes and frees the list. `done` is called once, later, with the engine as `ctx`, with
 * `id`, and with one answer for each queue, in order.
 */
void probe_send(
    struct lock_engine *engine, struct probe_batch *batch, probe_done_fn *done, uint64_t id);
/* The same, for one queue. */
void probe_one(struct lock_engine *engine, struct queue_name queue, enum broker_question_kind kind,
    probe_done_fn *done, uint64_t id);

/*
 * Limits the claims and drops (deletes, cancels) that one user has at the broker at once (invariant 20). RabbitMQ
 * performs them one after the other, an exclusive declare in 1.5 ms, and a consume in 0.05 ms.
 * Without a limit, a client that asks for one lock would wait behind a user that asks for a
 * thousand. The others of a share wait here in order, drops before claims, because each drop
 * frees something.
 *
 * An unsent claim or drop keeps its reservation and its channel. One that is not answered in time
 * counts no more, because a stuck channel would otherwise stop its user. Exempt users have no
 * limit.
 */

/* Enough to keep RabbitMQ busy, with one on its way there and one on its way back. */
#define FLIGHTS_MOST 4
/* One by queue, or the claim of a mutex, counts as much as so many others by consumer. */
#define FLIGHT_BY_QUEUE 16

/*
 * Asks to send the claim (CLAIMING) or the drop (DROPPING) of the hold. True: the caller sends it
 * now. False: the hold's timer fires when it may be sent.
 */
bool flight_start(struct lock_engine *engine, struct hold *hold);
/*
 * Ends the hold's flight, if it has one, and lets the next one of the share start. The hold must
 * still be charged to its share.
 */
void flight_end(struct lock_engine *engine, struct hold *hold);

/*
 * Slots whose holders are waited for (holders.h). When this daemon frees such a slot, the wait
 * probes as soon as it may.
 */

/*
 * Rests between two probes of a wait, or between two tries of busy slots. They are doubled from the first to the
 * last. Each is jittered by half, up or down.
 */
#define AWAITED_REST_FIRST (20 * NSEC_PER_MSEC)
#define AWAITED_REST_MOST (500 * NSEC_PER_MSEC)

/* A member of the record of the wait, its owner. */
struct awaited {
	struct awaited_name *name; /* borrowed; NULL: it is in no table */
	int first, last;           /* the slots */
	struct timer rest;         /* the owner's: set while the wait rests */
	int64_t earliest;          /* the owner's: clock time before which it does not probe */
	bool freed;                /* this daemon freed one of the slots; cleared by the owner */
	TAILQ_ENTRY(awaited) of_name;
};

void awaited_begin(struct lock_engine *engine, struct awaited *awaited, const char *name);
void awaited_end(struct lock_engine *engine, struct awaited *awaited);
/* Borrowed. */
const char *awaited_name(const struct awaited *awaited);
/*
 * Whether there is a gate of the name, without which no slots are held by quorum. An answer is valid for a
 * while. UNKNOWN: ask the broker.
 */
enum broker_answer awaited_gate(const struct lock_engine *engine, const struct awaited *awaited);
void awaited_saw_gate(
    const struct lock_engine *engine, const struct awaited *awaited, enum broker_answer gate);
/* This daemon freed a slot of that name. */
void awaited_freed(struct lock_engine *engine, const char *name, int slot);

/*
 * Withheld slots: freed here, and not claimed here for `hint_grace`. Waiters of other daemons that
 * got the hint, or clients that poll, have a turn before waiters and newcomers of this daemon. The
 * semaphore owns the records, and is not forgotten while it has any.
 */

enum withheld_for {
	WITHHELD_FOR_WAIT_QUEUE, /* a hint went to the wait queue */
	WITHHELD_FOR_POLLERS     /* no hint was sent: a client that polls may get the slot */
};

/* slot: of a mutex 1. If the slot is withheld already, the time begins anew. */
void withheld_begin(
    struct lock_engine *engine, struct semaphore *semaphore, int slot, enum withheld_for whom);
bool withheld_has(const struct semaphore *semaphore, int slot);
/*
 * No other daemon wants the slot: it may be claimed here at once. One that is not withheld is fine.
 */
void withheld_to_nobody(struct lock_engine *engine, struct semaphore *semaphore, int slot);
void withheld_end_all(struct lock_engine *engine, struct semaphore *semaphore);

/*
 * The true mutexes that each user has at the broker, if they are held by consumer or by quorum. Their Bs
 * are durable queues, which the broker must keep for some time after their last use (way.h, leaves_b). So
 * a user may use only `max_mutexes_per_uid` of them.
 *
 * A mutex counts for each user that holds it here, from its claim until its B has ended at the latest.
 * A user can acquire it again in that time, and it then counts on. It makes no difference who has made
 * the B: otherwise two users could keep the Bs of each other. Exempt clients are not counted.
 */

/*
 * Why the user may not use that mutex now, in words; NULL: it may. share: NULL is an exempt client's.
 */
const char *used_mutexes_lacking(const struct lock_engine *engine, const struct share *share,
    const char *name, char text[LOCK_LACKING_MAX]);
/* The hold is charged to the user, or not any more. Holds of another way do not count. */
void used_mutexes_begin(struct lock_engine *engine, const struct hold *hold, uid_t uid);
void used_mutexes_end(struct lock_engine *engine, const struct hold *hold, uid_t uid);
void used_mutexes_done(struct lock_engine *engine);

/*
 * Tells waiters their position and the number of busy slots, if their client asked for it
 * (`progress`). A waiter is told when its wait begins, and when one of the two changes. The first
 * waiters of a queue are told at once. The others are told at most once a second, because one
 * change at the head moves the whole queue. If no waiter asked, it costs nothing.
 */

/* The waiter's wait has begun. Calls after the first do nothing. */
void progress_begin(struct lock_engine *engine, struct waiter *waiter);
/* The queue may have moved. */
void progress_tell(struct lock_engine *engine, struct semaphore *semaphore);
/* The waiter ends. Before it is freed. */
void progress_end(struct waiter *waiter);
/* Tells the other waiters; fired by the timer of the semaphore, which is ctx. */
void progress_due(void *ctx, uint64_t id);

/*
 * Requests of one peer on one name keep their order (PROTOCOL.md). Administration and size requests
 * wait in a queue for each peer and name. A change begins when all requests before it are done. A
 * read begins when all changes before it are done. Acquires are not in this queue: they wait behind
 * the youngest change (queue.h).
 */

enum peer_order_work { PEER_ORDER_READS, PEER_ORDER_CHANGES };

struct peer_order_queue;

/* A member of the record of the request. */
struct peer_order {
	uint64_t op;      /* the request */
	uint64_t request; /* its number, also after it is answered: its work may still go on */
	enum peer_order_work work;
	/* Called when it may begin, never from peer_order_take(); NULL: it has begun */
	void (*begin)(struct lock_engine *engine, uint64_t op);
	struct peer_order_queue *queue; /* borrowed; NULL: it is in none */
	TAILQ_ENTRY(peer_order) of_queue;
};

/*
 * True: it begins at once. False: `begin` is called later; if its deadline passes before, the
 * refusal says why.
 */
bool peer_order_take(
    struct lock_engine *engine, struct peer_order *peer_order, uint64_t peer, const char *name);
/* It is done: the next requests begin. */
void peer_order_end(struct lock_engine *engine, struct peer_order *peer_order);
/* The youngest change of the name by the peer before that request that is not done; 0: none. */
uint64_t peer_order_youngest_change(
    const struct lock_engine *engine, uint64_t peer, const char *name, uint64_t before);
/* Frees all that is left at the engine's end. */
void peer_order_free_all(struct lock_engine *engine);

#endif
