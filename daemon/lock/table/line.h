/*
 * The acquires that wait for one name here: a line by priority, then arrival. It is a search tree (a
 * treap, each node with the number of waiters below it by state), so that who is first of those that
 * can go on, and how many stand before one, costs no walk, however long the line is. Each user has a tree
 * of its own: all waiters of a user that may not take another channel (share.h) are passed over at once.
 *
 *	BEHIND --- the create, change or destroy is done ---> NEW
 *	NEW --- a scan begins ---> SCANNED --- it found nothing ---> WAITING
 *	NEW, SCANNED, WAITING --- a slot is seen free ---> CLAIMING ---> granted
 *	NEW --- others wait here, and nothing has changed ---> WAITING
 *	CLAIMING --- lost the race ---> RESTING --- a random moment later ---> NEW
 *	CLAIMING --- the same, with a place in the wait line ---> WAITING
 *	CLAIMING --- the broker does not answer ---> NEW; UNSEEN where it was claimed unseen
 *	SCANNED --- what is free is left to those who were told of it ---> RESTING
 *	SCANNED --- the scan could not see ---> UNSEEN <--> CLAIMING; and WAITING in the end
 *	WAITING --- claimed for unseen, in vain ---> CLAIMING ---> UNSEEN
 *	SCANNED, WAITING --- there is no such lock, and it is made ---> BEHIND
 *
 * When the links change, all but BEHIND and RESTING are NEW again.
 */
#ifndef LOCK_LINE_H
#define LOCK_LINE_H

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
	WAITER_BEHIND,  /* an administrator, `behind`, comes first */
	WAITER_NEW,     /* no scan has begun since it came, or was sent back */
	WAITER_SCANNED, /* a scan that began after that is in progress */
	WAITER_WAITING, /* such a scan is over and found nothing for it */
	WAITER_UNSEEN, /* probes cannot be had: slots are claimed for the line unseen, one by one */
	WAITER_CLAIMING, /* `hold` is being claimed for it; it keeps its place in the line */
	WAITER_RESTING   /* lost a race, or left a slot to others; its timer sends it back */
};
#define WAITER_STATES (WAITER_RESTING + 1)

/* Sets of states. */
#define LINE_OF(state) (1U << (state))
#define LINE_ALL (LINE_OF(WAITER_STATES) - 1)
/* A slot that is seen free may be claimed for it. */
#define LINE_READY (LINE_OF(WAITER_NEW) | LINE_OF(WAITER_SCANNED) | LINE_OF(WAITER_WAITING))
/* The same, or it may be given one. */
#define LINE_WANTS (LINE_READY | LINE_OF(WAITER_UNSEEN) | LINE_OF(WAITER_RESTING))

struct semaphore;
struct member;
struct line_user;

/* One acquire that is not answered yet. */
struct waiter {
	uint64_t id; /* by arrival */
	enum waiter_state state;
	uint64_t peer, request;
	struct semaphore *semaphore; /* borrowed; outlives its waiters */
	enum lock_kind kind;
	int priority;
	uint64_t behind;      /* BEHIND: one of the peer, or one that makes the semaphore; else 0 */
	int64_t timeout;      /* ns as asked; 0 = try */
	int create;           /* slots to make it with when there is no such lock; 0 = not */
	int64_t started;      /* clock time */
	bool progress, lease; /* as asked */
	int told_position, told_busy; /* of standing.c: as it heard last; 0: nothing yet */
	uint64_t told_turn;           /* of standing.c: the semaphore's, when it had its own last */
	struct requester *requester;  /* owned; NULL: a hold has come of it */
	struct share *share;          /* borrowed; NULL: it is exempt from limits of channels */
	bool yielded;          /* it has left a slot to those who were told of it, for a moment */
	struct member *member; /* of waitline.c, from when its wait began; else NULL */
	unsigned races;        /* lost so far */
	unsigned skips;        /* claims that were not performed: their channel died */
	int direct;            /* CLAIMING: the slot, when it is claimed unseen; else 0 */
	uint64_t hold;         /* CLAIMING; else 0 */
	struct timer deadline, rest;
	UT_hash_handle by_id;
	TAILQ_ENTRY(waiter) of_peer, of_told;
	/* of line.c: the user's tree; below[]: how many it holds from here down, itself among them */
	struct line_user *user;
	struct waiter *left, *right;
	unsigned below[WAITER_STATES];
};

TAILQ_HEAD(waiter_list, waiter);

/* Those of one user in one line. */
struct line_user {
	struct share *share;    /* borrowed; NULL: all those that are exempt */
	struct waiter *root;    /* borrowed; somebody waits, as long as there is this */
	struct starved starved; /* of channels.c: in the share's line */
	LIST_ENTRY(line_user) of_line;
};

struct line {
	LIST_HEAD(, line_user) users; /* owned */
};

/* Behind everybody of the same or a higher priority. */
void line_join(struct line *line, struct waiter *waiter);
void line_leave(struct waiter *waiter);
/* The one way in which the state of a waiter in the line changes: asserts that it is in the picture. */
void line_set_state(struct waiter *waiter, enum waiter_state state);
/* How many are in one of `states`. */
unsigned line_count(const struct line *line, unsigned states);
/* The first of those, and the next one behind `waiter`, which is in the line; NULL: there is none. */
struct waiter *line_first(const struct line *line, unsigned states);
struct waiter *line_next(const struct line *line, const struct waiter *waiter, unsigned states);
/*
 * The same, but only of users that may take another channel. `giver` may, too: a hold of that share is
 * being handed on.
 */
struct waiter *line_first_able(const struct line *line, unsigned states, const struct share *giver);
struct waiter *line_next_able(const struct line *line, const struct waiter *waiter, unsigned states,
    const struct share *giver);
/*
 * Who may be given that slot: the first of LINE_WANTS whose user may take another channel, or is `giver`. NULL:
 * nobody.
 */
struct waiter *line_who_wants(const struct line *line, int slot, const struct share *giver);
/* How many of one user are in one of `states`. */
unsigned line_user_count(const struct line_user *user, unsigned states);
/* The waiter's place in the line, from 1. */
int line_position(const struct line *line, const struct waiter *waiter);

#endif
