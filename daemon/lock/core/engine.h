/*
 * The inside of the lock engine, shared by the files of daemon/lock/: its tables, answers, and the marks by
 * which a fact that was learned below is taken up above (engine_mark_dirty). Who includes this sees everything;
 * who is outside lock/ includes lock.h.
 */
#ifndef LOCK_ENGINE_H
#define LOCK_ENGINE_H

#include "daemon/base/backoff.h"
#include "daemon/lock/lock.h"
#include "daemon/lock/table/hold.h"
#include "daemon/lock/table/semaphore.h"

TAILQ_HEAD(holder_wait_list, holder_wait);

/* A local peer that holds or waits; there is one only while it does. */
struct lock_peer {
	uint64_t id;
	struct hold_list holds;
	struct waiter_list waiters;
	struct holder_wait_list holder_waits; /* its waits for holders, and for slots */
	size_t hold_count, waiter_count, holder_wait_count;
	size_t claim_count; /* of the waiters, those that are CLAIMING */
	UT_hash_handle by_id;
};

/* A request that does not wait by itself: all but acquire, and waits for holders and slots. */
struct op {
	uint64_t id;
	uint64_t peer, request; /* peer 0: the engine's own, answered to nobody */
	struct timer deadline;
	enum reason late;      /* what it is answered when the deadline passes */
	const char *late_text; /* static, or `words`; NULL: that the broker did not answer */
	char words[128];
	/* Adds what is known to the answer when it is given up; NULL: nothing is. */
	void (*fill)(const struct lock_engine *engine, uint64_t op, struct lock_answer *answer);
	/* Told when it was given up, by its deadline or otherwise; NULL: nobody. */
	void (*expired)(struct lock_engine *engine, uint64_t op);
	UT_hash_handle by_id;
};

enum lease_state {
	LEASE_NONE,   /* nothing has been answered on this link */
	LEASE_GOOD,   /* something sent less than a heartbeat ago has been answered */
	LEASE_SUSPECT /* not so; the holders were told */
};

struct lease {
	enum lease_state state;
	int64_t from; /* clock time at which the newest answered question was sent; 0 = none was */
	int64_t told; /* `from`, when those who asked to were told of it last */
	int64_t recovered; /* clock time until which Bs of a dead link may be there */
	struct timer pulse, watch;
};

struct lock_engine {
	struct broker *broker; /* borrowed */
	struct timers *timers; /* borrowed */
	struct lock_settings settings;
	struct lock_events events;
	struct jitter jitter;
	uint64_t last_id;       /* holds, waiters, ops, probes: all from one series */
	enum broker_state link; /* of the lock connection, as the last event said */
	bool draining;
	bool telling; /* the caller is being called: it must not call back */
	struct lease lease;
	struct hold_table holds;
	struct channels channels;             /* of channels.c */
	struct hold *watched;                 /* by the name of A: those whose watch is asked for */
	struct waiter *waiters;               /* by id */
	struct semaphore *scans;              /* by probe: those with a scan in progress */
	struct lock_peer *peers;              /* by id */
	struct semaphore *semaphores;         /* by key */
	struct semaphore *lines;              /* by wait line: the same */
	struct op *ops;                       /* by id */
	struct verify *verifies;              /* of verify.c */
	struct peer_order_queue *peer_orders; /* of peer_order.c */
	struct mutex *mutexes, *mutexes_by_queue;          /* of mutex.c */
	struct mutex_taker *mutex_takers;                  /* of mutex.c */
	struct full_scan_job *full_scans, *full_scans_due; /* of full_scan.c */
	struct holder_wait *holder_waits;                  /* of holder_wait.c */
	struct shared_probes *probes;                      /* of shared_probe.c */
	struct awaited_name *awaited;                      /* of awaited.c: by name */
	struct fsck *fscks;                                /* of fsck.c */
	struct listing *listings;                          /* of list.c */
	struct admin *admins;                              /* of admin.c */
	struct directory *directories;                     /* of directory.c */
	struct hint_question *hint_questions;              /* of hint_send.c */
	struct semaphore_list dirty;
	struct timer run_queues;  /* set while a semaphore is dirty */
	struct lock_counts total; /* the counters of the past; the present is counted */
};

/* Defines type *name(engine, id): what is in that table of the engine under that number, or NULL. */
#define ENGINE_FIND(name, type, table, handle)                                                     \
	static type *name(const struct lock_engine *engine, uint64_t id)                           \
	{                                                                                          \
		type *found;                                                                       \
                                                                                                   \
		HASH_FIND(handle, engine->table, &id, sizeof(id), found);                          \
		return found;                                                                      \
	}

/* A number never given before. */
uint64_t engine_id(struct lock_engine *engine);
int64_t engine_now(const struct lock_engine *engine);

/* The one door for answers to the rest: ends the op. An op that is gone is fine. */
void engine_op_end(struct lock_engine *engine, uint64_t op, const struct lock_answer *answer);
/* Ends the op unanswered: from now on the request is somebody else's to answer. */
void engine_op_leave(struct lock_engine *engine, struct op *op);
struct op *engine_op_new(struct lock_engine *engine, uint64_t peer, uint64_t request);
struct op *engine_op_find(const struct lock_engine *engine, uint64_t id); /* or NULL */
/* Ends it with that refusal, with what is known added, and what it stands for: as its deadline does. */
void engine_op_give_up(struct lock_engine *engine, uint64_t id, struct lock_answer *answer);
/* Progress was made: the deadline starts anew. */
void engine_op_progress(struct lock_engine *engine, struct op *op);
struct waiter *engine_waiter_find(const struct lock_engine *engine, uint64_t id); /* or NULL */
/* An answer without either. */
void engine_tell(
    struct lock_engine *engine, uint64_t peer, uint64_t request, const struct lock_answer *answer);
void engine_notice(struct lock_engine *engine, uint64_t peer, const struct lock_notice *notice);

/* An answer that says no: the reason, and words about it (borrowed; NULL = the reason's own). */
struct lock_answer engine_refusal(enum reason reason, const char *text);
/* The same, with what is known of the semaphore: for would-block and timeout. */
struct lock_answer engine_full(const struct semaphore *semaphore, enum reason reason);

/*
 * The refusal where the broker did not say whether a queue exists: an alarm, probes refused in its own
 * words, or something unknown, of which `text` (borrowed) says what it was about.
 */
struct lock_answer engine_refusal_unknown(const struct lock_engine *engine, const char *text);

/* Of a wait that begins while the broker is away: the peer is told why nothing comes of it. */
void engine_tell_broker(struct lock_engine *engine, uint64_t peer);

/*
 * Administration and looking need the broker, and one that takes messages: false when it is there. Else
 * the refusal that says so; its words are borrowed from the broker.
 */
bool engine_refusal_for_link(const struct lock_engine *engine, struct lock_answer *ret_refusal);

struct lock_peer *engine_peer_find(const struct lock_engine *engine, uint64_t id); /* or NULL */
/* The semaphore (or mutex) of a name; or NULL. */
struct semaphore *engine_semaphore_find(
    const struct lock_engine *engine, const char *name, bool mutex);

/* Something changed that may let its line move: it is served in the next pass of the timers. */
void engine_mark_dirty(struct lock_engine *engine, struct semaphore *semaphore);
/* The same: whoever waits is looked for, whatever a scan in progress finds. */
void engine_scan(struct lock_engine *engine, struct semaphore *semaphore);

#endif
