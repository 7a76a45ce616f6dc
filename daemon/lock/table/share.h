/*
 * What one user has of the channels of the lock connection, and the names whose waiters lack one. Plain data:
 * the rules are in channels.h. Knows no engine.
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

/* Holds whose claim or delete is not sent yet (flight.h). */
TAILQ_HEAD(unsent_line, hold);

/* A name in a line of those that lack a channel. */
struct starved {
	bool listed;
	bool woken;                  /* listed, and first: it is being served */
	bool had_one;                /* woken: a channel was taken for it since then */
	uint64_t scan;               /* woken: the number of the name's look at that time */
	struct semaphore *semaphore; /* borrowed; outlives its place in the line */
	TAILQ_ENTRY(starved) of_line;
};

TAILQ_HEAD(starved_line, starved);

/* A user, for as long as it waits or a channel is taken for it. */
struct share {
	uid_t uid;    /* the key */
	size_t taken; /* holds that are charged to it */
	size_t most;  /* so many it may have */
	size_t waiters;
	size_t flights; /* claims and deletes that were sent and are not answered */
	struct unsent_line drops, claims; /* those that wait for one of these to be answered */
	struct starved_line starved;      /* names for which it lacks a channel of its own share */
	UT_hash_handle by_uid;
};

/* Whether one more hold may be charged to it. NULL: nobody's share, which has no limit. */
static inline bool
share_has_room(const struct share *share)
{
	FAULT(CHANNELS_OF_ONE, return true);
	return share == NULL || share->taken < share->most;
}

/* All channels, and all users. */
struct channels {
	size_t most, most_of_user;   /* of holds; 0: the link was never up */
	struct share *shares;        /* owned; by uid */
	struct starved_line starved; /* names for which there is no channel at all */
	struct timer again; /* set: the broker's side gave none, though there should be one */
	unsigned not_given; /* so often in a row */
};

#endif
