/*
 * The share of one user in the channels of the lock connection, and the names with waiters that
 * lack a channel. Plain data: the rules are in channels.h. Knows no engine.
 */
#ifndef LOCK_SHARE_H
#define LOCK_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "daemon/base/fault.h"
#include "daemon/base/queue.h"
#include "daemon/base/timers.h"

struct semaphore;
struct hold;

/* Holds whose claim or drop is not sent yet (flight.h). */
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
	size_t flights;                   /* of its claims and drops (flight.h) */
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

#endif
