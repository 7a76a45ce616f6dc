/*
 * What the world knows and no daemon does: which requests were performed, for whom and in which order;
 * which As there are; what was done behind everybody's back. Moments are numbers that grow with
 * everything that happens.
 */
#ifndef TESTS_SIM_TRUTH_H
#define TESTS_SIM_TRUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/memory/memory.h"
#include "tests/sim/queues.h"

#define TRUTH_DAEMONS 4

/* What one daemon's present lock connection had performed about one slot; moments, 0 = never. */
struct truth_deeds {
	uint64_t connection;
	uint64_t claimed, claimed_channel; /* the last declare of B that made it its own */
	uint64_t dropped;
	uint64_t b_seen;   /* the last passive declare that was OK */
	int64_t looked_at; /* when B was looked at last, or could not be */
	uint64_t a_seen, a_seen_channel;
	uint64_t a_absent;
};

struct truth_slot {
	/* The connection that claimed B last; 0: it dropped it, or it was removed. And when. */
	uint64_t owner, claimed;
	int64_t claimed_at;
	/* When B was removed behind everybody's back last. */
	uint64_t removed;
	/* Whose it was, if it was the server's bug, which the engine is to find out. */
	uint64_t by_name;
	/* Claims by a daemon that were lost since then. */
	int64_t lost_since[TRUTH_DAEMONS];
	unsigned lost[TRUTH_DAEMONS];
	int64_t removed_at;
	/* When B came last: before that it was absent. */
	uint64_t b_came;
	/* Whether A is there, and since when; when it was deleted last, and by which daemon, or -1. */
	bool a;
	uint64_t a_came, a_gone;
	int a_gone_by;
	struct truth_deeds deeds[TRUTH_DAEMONS];
};

/* What there is of a semaphore at one time. */
struct truth_shape {
	bool unlimited, gate; /* markers */
	int size, uncounted;  /* As without a gap, and above it */
	bool listed;          /* in the directory */
};

/* How a daemon found a name when it got its admin mutex, and left it when it let that go. */
struct truth_work {
	uint64_t locked, unlocked; /* moments of the last time; 0 = never */
	int64_t unlocked_at;
	uint64_t connection; /* that got it last */
	unsigned claims;     /* times that it got it */
	unsigned destroys;   /* orders to destroy it that are not answered */
	uint64_t destroyed;  /* moment: one was answered last */
	struct truth_shape found, left;
};

struct truth_name {
	struct truth_slot slots[SLOTS_KNOWN + 1];
	bool unlimited, gate;
	uint64_t unlimited_until; /* moment: N-U was deleted last */
	uint64_t came; /* there is such a lock since this moment, if there is: A[1] or a marker */
	unsigned entries; /* of the directory */
	uint64_t admin; /* the connection that claimed the admin mutex and did not try to drop it */
	uint64_t changed; /* moment of the last change of its As and markers */
	uint64_t listed;  /* moment of the last change of its entries */
	bool meddled; /* some change of its As was not an administrator's, and is not repaired */
	uint64_t meddled_at; /* moment of the last such */
	bool ascending; /* somebody was told to let the lowest slots go first: there may be gaps */
	struct truth_work work[TRUTH_DAEMONS];
};

struct truth {
	uint64_t moment;
	struct truth_name names[NAMES];
	uint64_t forsaken[TRUTH_DAEMONS]; /* the hold connection that the world has given up */
	uint64_t torn[TRUTH_DAEMONS]; /* the same, though it was not silent for two heartbeats */
	/* The last byte that the world has read of a hold connection, and of which. */
	uint64_t reading[TRUTH_DAEMONS];
	int64_t read_at[TRUTH_DAEMONS];
	bool mutex_stayed;          /* a drop of one was refused: it is there until its link goes */
	uint64_t performed;         /* requests so far */
	uint64_t refusals, denials; /* how often so far */
};

struct sim;

/* The hook: takes down what was performed and checks it. ctx: struct sim. */
void truth_performed(void *ctx, const struct memory_performed *what);
/* Before the schedule begins: a semaphore of so many slots, in the directory. */
void truth_begin(struct sim *sim, int name, int slots);
/* Somebody takes a B, or another queue, to himself. */
bool truth_put_foreign(struct sim *sim, struct queue_id id);
/* Behind everybody's back. False: nothing to do. otherwise: with arguments that no A has. */
bool truth_put_a(struct sim *sim, int name, int slot, bool otherwise);
bool truth_remove_a(struct sim *sim, int name, int slot);
bool truth_remove_b(struct sim *sim, int name, int slot, bool by_name);
/* Of the daemon's lock connection, as the daemon sees it; 0: it has none. */
uint64_t truth_hold_connection(const struct sim *sim, int daemon);
const struct truth_deeds *truth_deeds(const struct sim *sim, int daemon, int name, int slot);
/* Whether B is the daemon's, now. */
bool truth_is_ours(const struct sim *sim, int daemon, int name, int slot);
/* Until when no B of the daemon's lock connection is freed for its silence, less the margin. */
int64_t truth_lease(const struct sim *sim, int daemon);
/* How many As there are without a gap. */
int truth_size(const struct truth *truth, int name);
struct truth_shape truth_shape(const struct truth *truth, int name);
/* Whether an acquire finds such a lock at all. */
bool truth_exists(const struct truth *truth, int name);

#endif
