/*
 * What the world knows of those who wait: which slots are free, who told whom of it, who claims them. A
 * part of the sim; filled by tap (what daemons say and hear) and truth, read by check_wait.
 */
#ifndef TESTS_SIM_WAITS_H
#define TESTS_SIM_WAITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "tests/sim/queues.h"

#define WAITS_DAEMONS 4

/* Of one slot, or of a true mutex, as one daemon has to do with it. Moments and times; 0 = never. */
struct wait_seen {
	uint64_t claim_sent; /* moment */
	int64_t
	    hinted_at;   /* it was freed here and the line was told: others go first for a while */
	uint64_t hinted; /* moment of that */
	uint64_t
	    granted; /* moment: somebody was told that he holds it; 0: not since it was claimed */
	uint64_t connection; /* of the lock connection, then */
	uid_t uid;           /* of whoever was told; 0: it is exempt from the limit of channels */
	bool vanished;       /* its holder was told so: it is claimed again, for him */
	uint64_t revoked;    /* moment: its holder was told so */
	/* A was deleted: the moment of the last time that the daemon's watch heard of it, or did not */
	uint64_t heard, unheard;
};

struct wait_slot {
	struct wait_seen seen[WAITS_DAEMONS];
	int64_t free_since; /* as looked at now and then; INT64_MAX: it is not */
	int64_t freed_at;   /* a daemon deleted its B last, or declared its A */
	int64_t gone_at;    /* A was deleted last */
};

struct wait_name {
	struct wait_slot slots[SLOTS_KNOWN + 1];
	int64_t unlimited_since;           /* INT64_MAX: it is not */
	int64_t failed_at[WAITS_DAEMONS];  /* a claim came to nothing last */
	int64_t ordered_at[WAITS_DAEMONS]; /* an order was answered, or its mutex dropped, last */
	/*
	 * A daemon counted consumers last, and there were more than places: one is placed anew before the old
	 * one goes.
	 */
	int64_t overcounted_at;
	/* A hint was passed on last; and one was not, as that was just now */
	int64_t passed_on_at[WAITS_DAEMONS];
	int64_t lapsed_at;
	/* Bits, by priority: the places that a daemon asked for, in the semaphore's line and the mutex's */
	unsigned places[WAITS_DAEMONS][2];
};

/* "Released" was said of a slot that was not deleted: somebody else is to be told that he has it. */
struct wait_pass {
	bool owed;
	int daemon, name, slot;
};

struct waits {
	struct wait_name names[NAMES];
	struct wait_pass pass;
	int64_t next_look;
	int64_t fit_since[WAITS_DAEMONS]; /* it can serve who waits; INT64_MAX: it cannot */
	int64_t let_see_since
	    [WAITS_DAEMONS]; /* and may have an auxiliary connection, to look for markers */
	/* There is a channel for the users of even and odd peers, and for those that are exempt. */
	int64_t channel_since[WAITS_DAEMONS][3];
	int64_t settled; /* nothing is left of the troubles since then; INT64_MAX */
	uint64_t published[WAITS_DAEMONS]; /* messages: probes and hints */
	int64_t alarm_began;
	int64_t caused_at;               /* somebody asked for something last, or was in trouble */
	uint64_t methods[WAITS_DAEMONS]; /* since then: what each asked of the broker */
};

/* The daemon is gone, and what it did with the name. */
static inline void
waits_forget(struct waits *waits, int daemon, int name)
{
	for (int slot = 0; slot <= SLOTS_KNOWN; slot++)
		waits->names[name].slots[slot].seen[daemon] = (struct wait_seen){0};
	memset(waits->names[name].places[daemon], 0, sizeof(waits->names[name].places[daemon]));
}

#endif
