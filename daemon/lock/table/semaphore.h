/*
 * What this daemon knows of one name: its slots as last seen, and the line (line.h) of those who wait
 * for one of them here. A true mutex is kept in the same way: one slot, no A.
 *
 * The knowledge is a hint that saves round trips, never a grant: a claim and a scan at A decide. It is
 * fresh for one rescan interval after it was looked at, and dropped when the links change.
 */
#ifndef LOCK_SEMAPHORE_H
#define LOCK_SEMAPHORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/lock/table/line.h"
#include "daemon/lock/table/names.h"
#include "protocol/lockname.h"

struct member;
struct withheld;

struct semaphore_key {
	char text[LOCKNAME_MAX + sizeof("=M")];
};

/* A scan: probes of a growing window, until a gap, or until everybody in the line has a slot. */
enum scan_state {
	SCAN_OVER,    /* none yet, or the last one was made use of */
	SCAN_PROBING, /* a window is being probed */
	SCAN_SEEN     /* the window's answers are in; the queue runner has not used them */
};

/* What the name is by its markers (names.h), as last looked at. */
enum semaphore_nature {
	SEMAPHORE_PLAIN,     /* it has the slots that were seen, if any */
	SEMAPHORE_GATE,      /* it has none for the time being: all wait */
	SEMAPHORE_UNLIMITED, /* it is held without a slot; those that it has do not count */
	SEMAPHORE_DARK,      /* there is no slot 1; whether that means anything could not be seen */
	/* Of a true mutex whose queue is an administration mutex, too: that of a semaphore. */
	SEMAPHORE_NO_MUTEX
};

struct scan {
	enum scan_state state;
	uint64_t number;  /* of the scan in progress, or of the last one */
	uint64_t probe;   /* PROBING: its number; else 0 */
	int first, count; /* its window */
	int64_t started;  /* clock time just before the first window was sent */
	bool again;       /* it is a rescan (scan.h), not a scan from slot 1 on */
	bool unknown;     /* some answer was unknown: "full" cannot be said */
	bool overtaken;   /* a slot was freed here meanwhile: "full" may be old news */
	bool forgotten;   /* it may be another lock by now: all that the scan finds is old news */
	bool withheld;    /* a slot was seen free that is left to those who were told of it */
	/* While probes cannot be had: the next slot to claim unseen; 0: that is over, or has not begun */
	int direct;
	uint64_t claimer; /* the waiter for whom one is claimed so; it may be gone */
};

struct semaphore {
	char *name;                 /* owned */
	struct lock_engine *engine; /* borrowed: whose table it is in */
	bool mutex;                 /* true mutex: one slot, no A */
	enum semaphore_nature nature;
	int size;      /* contiguous slots seen; of a mutex 1 */
	bool complete; /* a gap was seen above `size`; else there may be more */
	int64_t seen;  /* when the last contiguous probe was sent; INT64_MIN = never */
	unsigned char
	    *busy; /* owned; busy[slot - 1]: seen busy, or lost to somebody; `room` of them */
	int room;
	int busy_count; /* how many of the slots 1..size are busy */
	struct scan scan;
	struct line line;
	struct queue_name line_queue; /* of its wait line */
	struct member *members;       /* of waitline.c: our places in it, by priority */
	int64_t pass_on_from;         /* clock time before which no hint is passed on */
	struct withheld *withheld;    /* of withheld.c: slots left alone for the moment */
	bool rests_over; /* a mark for queue_runner.c: those who rest are back in the line */
	int *
	    hinted; /* owned; the same: slots of which a hint came while they were claimed in vain */
	size_t hinted_count;
	struct waiter_list told; /* of standing.c: who hears where he stands */
	uint64_t told_turn;      /* of standing.c: in which each of them is told once */
	bool told_old;           /* of standing.c: something has changed since that began */
	struct timer standing;   /* set when those behind the first are still to hear of it */
	uint64_t creating;       /* an admin at work for those who wanted it made; 0: none is */
	struct starved starved;  /* of channels.c: in the line for any channel */
	bool out;                /* of waitline.c: no places, as nothing could be claimed */
	struct timer rescan;     /* not set: another scan is due, as soon as somebody wants one */
	bool dirty;
	TAILQ_ENTRY(semaphore) of_dirty;
	struct semaphore_key key;
	UT_hash_handle by_key, by_probe, by_line;
};

TAILQ_HEAD(semaphore_list, semaphore);

struct semaphore *semaphore_new(const char *name, bool mutex);
/* Nobody may wait, nothing may be set. */
void semaphore_free(struct semaphore *semaphore);
/* The key under which a name is kept. */
struct semaphore_key semaphore_key(const char *name, bool mutex);

/* Whether what is known was seen less than `interval` ns ago. */
bool semaphore_is_fresh(const struct semaphore *semaphore, int64_t now, int64_t interval);
void semaphore_forget(struct semaphore *semaphore);
/* Says that slots 1..size exist, and whether there is certainly none above. */
void semaphore_saw_size(struct semaphore *semaphore, int size, bool complete);
/* Slots outside 1..size are ignored. */
void semaphore_saw_slot(struct semaphore *semaphore, int slot, bool busy);
/* A hint of the slot came before. */
void semaphore_hinted(struct semaphore *semaphore, int slot);
/* Whether any of the known slots may be free. */
bool semaphore_has_free(const struct semaphore *semaphore);
/* How many of the known slots were seen busy; -1 when the size is not known whole. */
int semaphore_busy_count(const struct semaphore *semaphore);

#endif
