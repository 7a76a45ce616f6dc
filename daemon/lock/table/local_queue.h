/*
 * The local queue: the waiters of one name at this daemon, by priority, then by arrival. It owns
 * its per-user trees; it knows no engine and no broker.
 *
 * The waiters of each user are a search tree (a treap). Each node counts the waiters below it by
 * state. To find the first waiter in some states, or a waiter's position, therefore needs no walk
 * along the queue. One check passes over all waiters of a user that may not take another channel
 * (share.h).
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
#ifndef LOCK_LOCAL_QUEUE_H
#define LOCK_LOCAL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/base/timers.h"
#include "daemon/lock/lock.h"
#include "daemon/lock/table/requester.h"
#include "daemon/lock/table/share.h"

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

struct semaphore;
struct member;
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
	/* of progress.c: as last told; position 0: not told yet */
	int told_position, told_busy, told_extra;
	uint64_t told_turn;          /* of progress.c: the round in which it was last told */
	struct requester *requester; /* owned; NULL: it passed to a hold */
	struct share *share;         /* borrowed; NULL: exempt from the limit of channels */
	bool yielded;                /* it has rested once for a withheld slot */
	bool begun;            /* its wait has begun: a scan, or the waiters here, left no slot */
	struct member *member; /* of wait_queue.c, from the beginning of its wait; else NULL */
	unsigned races;        /* lost races */
	unsigned skips;        /* claims that were not performed, because their channel died */
	unsigned turns;        /* claims in a row whose slot is held in the other way */
	int direct;            /* CLAIMING: the slot, if it is claimed unseen; else 0 */
	uint64_t hold;         /* CLAIMING; else 0 */
	struct timer deadline, rest;
	UT_hash_handle by_id;
	TAILQ_ENTRY(waiter) of_peer, of_told;
	/*
	 * of local_queue.c: the user's tree; below[] counts its part from here down, this one
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

#endif
