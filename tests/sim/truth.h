/*
 * The world's knowledge, which no daemon has: the performed requests with their owners and order,
 * the existing As, and the changes that no daemon made. A moment is a number that grows with every
 * event.
 */
#ifndef TESTS_SIM_TRUTH_H
#define TESTS_SIM_TRUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/memory/controls.h"
#include "tests/sim/queues.h"

#define TRUTH_DAEMONS 4

/* Requests of a daemon's present lock connection on one slot. Moments; 0: never. */
struct truth_deeds {
	uint64_t connection;
	uint64_t claimed, claimed_channel; /* the last declare or consume that gave it B */
	bool by_consumer;                  /* that claim */
	uint64_t dropped;
	uint64_t b_seen; /* the last passive declare that was OK; by consumer: and found its hold */
	/* By consumer: last time that the process of B answered a claim or a passive declare. */
	int64_t b_read_at;
	int64_t checked_at; /* last time that B was checked, or could not be */
	uint64_t a_seen;
	uint64_t a_seen_behind; /* the last on the channel of the claim */
	uint64_t a_absent;
};

struct truth_slot {
	/* The connection that claimed B last, and the moment. 0: it deleted B, or B was removed. */
	uint64_t owner, claimed;
	int64_t claimed_at;
	bool by_consumer; /* that claim */
	/*
	 * By consumer: the moment at which the broker freed B of a claim, without a request for
	 * that, and notified the claim's channel. The holder hears of it a moment later.
	 */
	uint64_t freed;
	/* The moment at which B's home gave up the holder's node, which was silent. */
	uint64_t parted;
	int64_t left_at; /* time: a daemon that knew A to be gone last dropped B */
	/* The channel on which B's home was last asked about it, and when. 0: none. */
	uint64_t asked;
	int64_t asked_at;
	/* Moment of B's last removal by no daemon. */
	uint64_t removed;
	/* B's owner before the server's bug removed it. The engine must notice that. */
	uint64_t by_name;
	/* Lost claims of each daemon since then. */
	int64_t lost_since[TRUTH_DAEMONS];
	unsigned lost[TRUTH_DAEMONS];
	int64_t removed_at;
	/* Moment at which B appeared last. */
	uint64_t b_came;
	/* Whether A exists, since when, its last deletion, and by which daemons; -1: by none. */
	bool a;
	uint64_t a_came, a_gone;
	int a_came_by, a_gone_by;
	struct truth_deeds deeds[TRUTH_DAEMONS];
};

/* The state of a semaphore at one time. */
struct truth_shape {
	bool unlimited, gate; /* markers */
	int size, uncounted;  /* number of As before the first gap, and after it */
	bool listed;          /* in the directory */
};

/* The state of a name when a daemon got its admin mutex, and when it released it. */
struct truth_work {
	uint64_t locked, unlocked; /* moments of the last time; 0: never */
	int64_t unlocked_at;
	uint64_t connection; /* the connection that got it last */
	unsigned claims;     /* how many times it got the mutex */
	unsigned destroys;   /* unanswered orders to destroy */
	uint64_t destroyed;  /* moment of the last answer to one */
	struct truth_shape found, left;
};

struct truth_name {
	struct truth_slot slots[SLOTS_KNOWN + 1];
	bool unlimited, gate;
	uint64_t unlimited_until; /* moment of the last deletion of N-U */
	uint64_t came;    /* moment since which the lock exists, if it does: A[1] or a marker */
	unsigned entries; /* number of its entries in the directory */
	uint64_t admin;   /* connection that claimed the admin mutex and did not try to drop it */
	uint64_t changed; /* moment of the last change of As and markers */
	uint64_t listed;  /* moment of the last change of entries */
	bool meddled;     /* no administrator changed its As, and it is not repaired */
	uint64_t meddled_at; /* moment of the last such change */
	bool ascending;      /* a shrink removed the lowest slots first: gaps are possible */
	struct truth_work work[TRUTH_DAEMONS];
};

struct truth {
	uint64_t moment;
	struct truth_name names[NAMES];
	uint64_t forsaken[TRUTH_DAEMONS]; /* the lock connection that the world gave up */
	uint64_t torn[TRUTH_DAEMONS];     /* the same, without two heartbeats of silence */
	/* The last byte that the world read from a lock connection, and the connection. */
	uint64_t reading[TRUTH_DAEMONS];
	int64_t read_at[TRUTH_DAEMONS];
	bool mutex_stayed;  /* a drop of a mutex was refused: it exists until its link ends */
	uint64_t performed; /* requests so far */
	uint64_t refusals, denials; /* their numbers so far */
	bool refuses; /* the method that is performed now is refused for a missing permission */
};

struct sim;

/* The hook of the world: records a performed request and checks it. ctx: struct sim. */
void truth_performed(void *ctx, const struct memory_performed *what);
/*
 * Before the schedule: creates a semaphore of so many slots, with its entry. So many per cent of its
 * slots are held by consumers.
 */
void truth_begin(struct sim *sim, int name, int slots, unsigned by_consumer);
/* A foreign client takes a B, or another queue, exclusively: a durable B as its consumer. */
bool truth_put_foreign(struct sim *sim, struct queue_id id);
/* A foreign client makes the durable B of a slot that has none. False: a B exists. */
bool truth_put_holder(struct sim *sim, int name, int slot);
/*
 * A trouble of the world may have ended consumers just now. `told`: their channels are notified.
 * Else the home of their queues gave up a silent node.
 */
void truth_find_freed(struct sim *sim, bool told);
/*
 * Changes by no daemon. False: there was nothing to change. otherwise: with arguments that no A
 * has.
 */
bool truth_put_a(struct sim *sim, int name, int slot, bool otherwise);
bool truth_remove_a(struct sim *sim, int name, int slot);
bool truth_remove_b(struct sim *sim, int name, int slot, bool by_name);
/* The daemon's lock connection, as the daemon knows it. 0: none. */
uint64_t truth_hold_connection(const struct sim *sim, int daemon);
const struct truth_deeds *truth_deeds(const struct sim *sim, int daemon, int name, int slot);
/* Whether it is a daemon's lock connection that is up at both ends. */
bool truth_is_alive(const struct sim *sim, uint64_t connection);
/*
 * By consumer: whether the broker has ended the daemon's hold, and its word is on its way. Until it
 * comes, a question about B may find another's consumer.
 */
bool truth_has_ended(const struct truth_slot *slot, int daemon);
/* Whether somebody holds B, in either way. */
bool truth_is_held(const struct sim *sim, int name, int slot);
/* The connection that holds B, in either way. 0: none. */
uint64_t truth_holder(const struct sim *sim, int name, int slot);
/* Whether B belongs to the daemon now. */
bool truth_is_ours(const struct sim *sim, int daemon, int name, int slot);
/*
 * Until this time no B of the daemon's lock connection is freed for its silence. The margin is
 * subtracted.
 */
int64_t truth_lease(const struct sim *sim, int daemon);
/* The same for one B. By consumer it may be at home on a node that is silent. */
int64_t truth_lease_of(const struct sim *sim, int daemon, int name, int slot);
/* The number of As before the first gap. */
int truth_size(const struct truth *truth, int name);
struct truth_shape truth_shape(const struct truth *truth, int name);
/* Whether an acquire finds the lock. */
bool truth_exists(const struct truth *truth, int name);

#endif
