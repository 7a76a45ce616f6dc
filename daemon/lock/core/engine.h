/*
 * The inside of the lock engine, shared by the files of daemon/lock/. It owns the tables and the
 * requests, sends all answers and notices, and keeps the dirty marks. A lower file marks a
 * semaphore dirty (engine_mark_dirty), and the queue runner above serves it later. Files outside
 * daemon/lock/ include lock.h.
 */
#ifndef LOCK_ENGINE_H
#define LOCK_ENGINE_H

#include "daemon/base/backoff.h"
#include "daemon/lock/lock.h"
#include "daemon/lock/table/hold.h"
#include "daemon/lock/table/semaphore.h"

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

/* Of slot_check.c. */
struct slot_checks {
	uint64_t channel;                /* of the lock connection, for new questions; 0: none */
	unsigned unanswered;             /* on that channel */
	unsigned window;                 /* the maximum of `unanswered` */
	unsigned others;                 /* further channels, which take no new questions */
	struct slot_questions waiting;   /* owned; unsent, in order */
	struct slot_questions questions; /* owned; unanswered, in order of sending */
};

/* Of mutex_post.c. */
struct mutex_post {
	struct timer round;
	uint64_t channel; /* during a declare; else 0 */
};

/* Of fence_floor.c. */
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
	struct channels channels;             /* of channels.c */
	struct mutex_user *mutex_users;       /* of used_mutexes.c: by uid */
	struct hold *watched;                 /* by the name of A: holds with a watch */
	struct waiter *waiters;               /* by id */
	struct semaphore *scans;              /* by probe: with a scan in progress */
	struct lock_peer *peers;              /* by id */
	struct semaphore *semaphores;         /* by key */
	struct semaphore *by_wait_queue;      /* by the name of the wait queue */
	struct op *ops;                       /* by id */
	struct op *targeted_ops;              /* by request: those with leads_to */
	struct verify *verifies;              /* of verify.c */
	struct verify_list verifies_again;    /* of verify.c: those that wait for a channel's end */
	struct peer_order_queue *peer_orders; /* of peer_order.c */
	struct mutex *mutexes, *mutexes_by_queue;          /* of mutex.c */
	struct mutex_taker *mutex_takers;                  /* of mutex.c */
	struct full_scan_job *full_scans, *full_scans_due; /* of full_scan.c */
	struct holder_wait *holder_waits;                  /* of holder_wait.c */
	struct holder_probes *holder_probes;               /* of holder_wait.c */
	struct awaited_name *awaited;                      /* of awaited.c: by name */
	struct fsck *fscks;                                /* of fsck.c */
	struct listing *listings;                          /* of list.c */
	struct admin *admins;                              /* of admin.c */
	struct work *works;                                /* of work.c */
	struct directory *directories;                     /* of directory.c */
	struct hint_question *hint_questions;              /* of hint_send.c */
	struct removed_slot *removed_slots;                /* of removed.c */
	struct late_hint *late_hints;                      /* of hint_send.c */
	struct lost_list lost_holds;                       /* of lost.c: the oldest first */
	struct making *mutex_makings;                      /* of make_mutex.c */
	int64_t
	    unled_until; /* of make_mutex.c: no queue that perhaps has no leader is made before */
	struct mutex_post mutex_post;   /* of mutex_post.c */
	struct fence_floor fence_floor; /* of fence_floor.c */
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

#endif
