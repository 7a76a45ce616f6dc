/*
 * The daemon's knowledge of one name: its slots as last seen, and its local queue. A true mutex is
 * kept in the same way, as one slot without an A.
 *
 * The knowledge saves round trips and grants nothing: a claim and a check of A decide. It is fresh
 * for one rescan interval after a scan, and is dropped when a connection changes.
 */
#ifndef LOCK_SEMAPHORE_H
#define LOCK_SEMAPHORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/lock/table/local_queue.h"
#include "daemon/lock/table/names.h"
#include "protocol/lockname.h"

struct member;
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
	struct member *members; /* of wait_queue.c: this daemon's consumers in it, by priority */
	int64_t pass_on_from; /* of hint_receive.c: clock time before which no hint is passed on */
	struct withheld *withheld; /* of withheld.c */
	/* of hint_send.c: clock time when the last hint came back; 0: it has not, or none was sent */
	int64_t returned_at;
	bool rests_over; /* a mark for queue_runner.c: waiters that rest become NEW */
	/* a mark for queue_runner.c: slots that were hinted while a claim of them failed; owned */
	int *hinted;
	size_t hinted_count;
	struct waiter_list told; /* of progress.c: waiters that are told their progress */
	uint64_t told_turn;      /* of progress.c: the round, in which each of them is told once */
	bool told_old;           /* of progress.c: a fact has changed since the round began */
	struct timer progress;   /* set while waiters behind the first ones are not told yet */
	uint64_t creating;       /* the create in progress for acquires that want one; 0: none */
	char *not_created;       /* owned; why the last one failed, in words; NULL: it did not */
	struct starved starved;  /* of channels.c: the place in the queue for any channel */
	bool out; /* of wait_queue.c: its consumers have left, as no channel can be had */
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
/* A hint came while a claim of the slot failed: a mark for queue_runner.c. */
void semaphore_hinted(struct semaphore *semaphore, int slot);
/* Whether a known slot may be free. */
bool semaphore_has_free(const struct semaphore *semaphore);
/* The number of busy slots, as last seen; -1: the size is not known. */
int semaphore_busy_count(const struct semaphore *semaphore);

#endif
