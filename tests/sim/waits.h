/*
 * The world's knowledge of waiters: free slots, hints and claims. Part of the sim. tap (messages of
 * daemons) and truth fill it, check_wait_safety and check_wait_policy read it.
 */
#ifndef TESTS_SIM_WAITS_H
#define TESTS_SIM_WAITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "daemon/broker/broker.h"
#include "tests/sim/queues.h"

#define WAITS_DAEMONS 4

/* One slot, or true mutex, from the view of one daemon. Moments and times; 0: never. */
struct wait_seen {
	uint64_t claim_sent;             /* moment */
	uint64_t claim_connection;       /* on which that was */
	enum broker_answer claim_answer; /* as the world performed the last claim */
	bool claiming;                   /* a claim is not answered yet */
	int64_t hinted_at; /* time: freed here, and a hint was sent: others go first for a while */
	uint64_t hinted;   /* moment of that hint */
	uint64_t granted;  /* moment of the last grant; 0: none since the claim */
	uint64_t connection; /* the lock connection of that grant */
	uid_t uid;           /* user of that grant; 0: exempt from the limit of channels */
	bool vanished;    /* the holder queue was lost and its holder told; it is claimed again */
	uint64_t revoked; /* moment: its holder was told so */
	/*
	 * A was deleted: moment of the last time that the daemon's watch reported it, or missed it.
	 */
	uint64_t heard, unheard;
	int64_t held_at; /* time: last seen to be held here while a waiter was here */
};

struct wait_slot {
	struct wait_seen seen[WAITS_DAEMONS];
	int64_t free_since; /* as of the last check; INT64_MAX: not free */
	int64_t freed_at;   /* time: a daemon last deleted its B, or declared its A */
	int64_t gone_at;    /* time: A was last deleted */
};

struct wait_name {
	struct wait_slot slots[SLOTS_KNOWN + 1];
	int64_t unlimited_since;           /* INT64_MAX: not unlimited */
	int64_t failed_at[WAITS_DAEMONS];  /* time of the last claim that failed */
	int64_t ordered_at[WAITS_DAEMONS]; /* last answer to an order, or drop of its mutex */
	/*
	 * Time of the last count of consumers that found more than there are places. A daemon adds
	 * the new consumer before it removes the old one.
	 */
	int64_t overcounted_at;
	/*
	 * Times: a hint was last forwarded, and was last not forwarded, because that had just
	 * happened.
	 */
	int64_t passed_on_at[WAITS_DAEMONS];
	int64_t lapsed_at;
	/*
	 * Bits, by priority: the places that a daemon has in the wait queues of the semaphore and
	 * of the mutex.
	 */
	unsigned places[WAITS_DAEMONS][2];
};

/* A release was answered, but the slot was not deleted: another waiter must get it. */
struct wait_pass {
	bool owed;
	int daemon, name, slot;
};

struct waits {
	struct wait_name names[NAMES];
	struct wait_pass pass;
	int64_t next_sample;
	int64_t fit_since[WAITS_DAEMONS]; /* the daemon can serve waiters; INT64_MAX: it cannot */
	/* it can also probe markers on an auxiliary connection */
	int64_t let_see_since[WAITS_DAEMONS];
	/*
	 * Since when there is a channel for the users of even and odd clients, and for exempt ones.
	 */
	int64_t channel_since[WAITS_DAEMONS][3];
	int64_t settled; /* since then no effect of a trouble is left; INT64_MAX */
	uint64_t published[WAITS_DAEMONS]; /* messages: probes and hints */
	int64_t alarm_began;
	int64_t caused_at;               /* time of the last request or trouble */
	uint64_t methods[WAITS_DAEMONS]; /* requests of each to the broker since then */
};

/* The daemon is gone: forgets its part of the name. */
static inline void
waits_forget(struct waits *waits, int daemon, int name)
{
	for (int slot = 0; slot <= SLOTS_KNOWN; slot++)
		waits->names[name].slots[slot].seen[daemon] = (struct wait_seen){0};
	memset(waits->names[name].places[daemon], 0, sizeof(waits->names[name].places[daemon]));
}

#endif
