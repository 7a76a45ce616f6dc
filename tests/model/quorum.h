/*
 * A model of the way `quorum`: clients that hold one slot by the beads of a quorum queue. rules.c
 * has the rules, and search.c visits all states that they reach. It owns nothing: a world is a
 * value. It must not know how worlds are kept.
 *
 * The model has no counts. A delivery has an age instead: by how much the count of its bead has
 * grown since. So two worlds that differ only in their past are one. Every member is a byte, and
 * an unused one is 0.
 */
#ifndef TESTS_MODEL_QUORUM_H
#define TESTS_MODEL_QUORUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLIENTS_MAX = 3,
	/* Each client has a channel, and one that it has closed. */
	CHANNELS_MAX = 2 * CLIENTS_MAX,
	/* The first set, and those that are published later. */
	SETS_MAX = 3,
	/* The beads of all sets, and a mark of each client. */
	MESSAGES_MAX = 3 * SETS_MAX + CLIENTS_MAX,
	/* More are dropped with the step that sends them: quorum_dropped_steps. */
	TRANSIT_MAX = 20,
	SENT_MAX = 10,
	OUT_MAX = 2,
	/* A claim attaches anew so often: an acknowledgement can be lost with its channel. */
	ATTACHES_MAX = 2
};

/* One mistake at a time is made. mutations.c has their names. */
enum mistake {
	NO_MISTAKE,
	/* Claims (rule 4). */
	GRANT_ON_DELIVERY,
	COUNTS_NOT_COMPARED,
	FLIP_BEFORE_ORDER,
	NO_GRACE,
	GRACE_FROM_ATTACH,
	ABANDON_WITH_FLIP,
	CONSUMER_TIMEOUT,
	ORDER_NOT_CHECKED,
	DISTURBANCE_IGNORED,
	NEW_BEADS_TRUSTED,
	/* Holds (rules 5 and 7). */
	RENEW_BY_HEAD,
	LEASE_FROM_ANSWER,
	TWO_BEADS,
	TWO_IN_FLIGHT,
	REJECT_AGAIN,
	ROTATE_WITHOUT_BARRIER,
	ROTATE_AND_EXTEND,
	REFRESH_HEAD_AND_LAST,
	ABSORB_ODD,
	/* Releases (rule 6). */
	FLIP_BEFORE_STOP,
	/* Publishers (rules 1, 2 and 12). */
	PUBLISH_CLEAN,
	TRUST_CONSUME_OK,
	BEADS_BEFORE_MARK_IGNORED,
	RETURNED_MARK_TRUSTED,
	NO_WAIT_FOR_RECORD,
	WAIT_AFTER_PUBLISHING,
	TOUCHED_SET_FLIPPED,
	/* Reclaims (rule 8). */
	RECLAIM_ANY_SUM,
	RECLAIM_SEVEN,
	RECLAIM_BEFORE_STOP,
	REGAIN_OF_CLEAN,
	REGAIN_ANY_SUM,
	REGAIN_LATE,
	/* Sets (rule 12). */
	ACKNOWLEDGE_EARLY,
	EQUAL_EPOCHS_ACCEPTED,
	SMALLER_GRACE,
	GRACE_NOT_AGAIN,
};

/* The limits of one search. A budget of 0: it never happens. */
struct setup {
	enum mistake mistake;
	/* 0: two. */
	uint8_t clients;
	/* Claims of each client. */
	uint8_t claims;
	/* Shared by all clients and the server. */
	uint8_t faults, renewals, rotations, refreshes;
	/* 4.3 and later: only 1-2-3 is clean, nobody rotates, and a suspended consumer may keep its beads. */
	bool since_4_3;
	/* A reject can be lost though its channel lives. That is a fault. */
	bool losses;
	/* Requests that the server missed are sent to it again in reversed order, as 3.11 to 4.2 do. */
	bool reversed;
	/*
	 * Deliveries to a consumer can be lost. With the next one that comes they come again, in reversed order, as
	 * from 3.11 to 4.2. That is a fault. Orders that are read can then differ from those in the queue.
	 */
	bool fetches;
	/* A stranger publishes a foreign message once. */
	bool stranger;
	/* A clock can be ahead of another one by a tick. */
	bool drift;
	/* Rule 8b. */
	bool reclaims;
	/* So often, a reclaim that has seen no beads, or whose flip was not answered, is tried again. */
	uint8_t retries;
	/* A client that hears of its loss can go on, up to the end of its lease. */
	bool lingers;
	/* Rule 8a, with `reclaims` and `lingers`. Its daemon can then lose a channel that lives: a fault. */
	bool regains;
	/*
	 * A hold can go on after its lease. Its client pauses meanwhile. No daemon does so. It shows what the sums
	 * are good for: in the lease no rival can be granted.
	 */
	bool pauses;
	/* The first set exists, in dirty order. */
	bool dirty;
	/* There is no first set. */
	bool empty;
	/* There is a second set, too, in dirty order. */
	bool second;
	/* So many clients can be the administrator once. */
	uint8_t admins;
	/* The queue can be deleted. That is a fault. */
	bool deletes;
	/* The name has no record, as that of a mutex. */
	bool no_record;
	/* The queue expires after so many ticks without a consumer. */
	uint8_t expires;
	/* So many sets are published by an administrator that asks nobody. */
	uint8_t unasked;
	/* 0: 10. */
	uint8_t prefetch;
	/*
	 * Of each set: its epoch, T, and L. 0: its number as the epoch, T and L of the set
	 * before, 3 for the first.
	 */
	uint8_t epoch[SETS_MAX], grace[SETS_MAX], lease[SETS_MAX];
	/* From each world that has so many claims left a grant can be reached. 0: this is not judged. */
	uint8_t live;
	/* This set can be granted: its number + 1. 0: this is not judged. */
	uint8_t grants_set;
};

/* A delivery as a client knows it. */
struct seen {
	uint8_t message;
	uint8_t age : 6;
	/* The rest of its batch is directly behind it. */
	uint8_t more : 1;
	/* Its count was 0. */
	uint8_t unused : 1;
};

enum why { WHY_NONE, CLAIM_FLIP, CONFIRM, REFRESH, RENEW, ROTATE, RELEASE_FLIP };

/* A reject that is not answered yet. */
struct out {
	struct seen bead;
	uint8_t why;
	/* Of the lease that it gives. */
	uint8_t left;
};

enum mode {
	IDLE,
	WAITING,
	CHECKING,
	FLIPPING,
	IN_GRACE,
	CONFIRMING,
	HELD,
	REGAINING,
	RELEASING,
	MARKING,
	PREPARING,
	CLOSING
};

struct client {
	uint8_t mode, claims, jobs;
	/* The set that is claimed, or that the administrator has published: its number + 1. */
	uint8_t set, made;
	/* The deliveries in their order, without those that are out. */
	uint8_t n_seen;
	struct seen seen[3 * SETS_MAX];
	uint8_t n_out;
	struct out out[OUT_MAX];
	/* Ticks until the end of the lease, of the grace. */
	uint8_t lease, grace;
	/* The largest T of a set that it has seen in this claim. */
	uint8_t largest_t;
	/* The answer that came last, and whether more of the batch of the last delivery is behind it. */
	uint8_t last_why, more;
	/* It has acknowledged something. Now a later batch may come. */
	uint8_t freed;
	/* So often it has attached anew in this claim. */
	uint8_t attaches;
	/* It cleans up after its own hold (rule 8b), or gets it back (rule 8a). */
	uint8_t reclaiming;
	/* It is the administrator. */
	uint8_t job;
	/* The client still uses the lock while it is released (a mistake). */
	uint8_t still_uses;
	/*
	 * For the reclaim: the set of the lost hold + 1, how far its beads are behind, and the
	 * rejects that were out.
	 */
	uint8_t memory_set, memory_behind, memory_out;
	/* Ticks for which the client of a lost hold goes on, at most. */
	uint8_t lingering;
	/* That client is not told of the loss at the end of its lease. */
	uint8_t pausing;
	/* Its clock is ahead by a tick. */
	uint8_t ahead;
	uint8_t n_transit;
	struct seen transit[TRANSIT_MAX];
};

enum life { NO_CHANNEL, ATTACHED, SUSPENDED, TIMED_OUT };

struct channel {
	uint8_t life, attach_sent;
	/* Rejects and acknowledgements that would have an effect, in the order in which they were sent. */
	uint8_t n_sent;
	uint8_t sent[SENT_MAX];
};

/* owner is a channel's number + 1, or 0 if the message is ready. unused: it was never returned. */
struct message {
	uint8_t id, owner, unused;
};

struct world {
	/*
	 * The messages of consumers in the order of delivery; then ready ones that were returned;
	 * then other ready ones.
	 */
	uint8_t n_messages;
	struct message queue[MESSAGES_MAX];
	/* The active consumer: a channel's number + 1. */
	uint8_t active;
	/* It is suspended, and keeps its beads. */
	uint8_t paused;
	uint8_t faults, renewals, rotations, refreshes;
	/* Reclaims that can be tried again. */
	uint8_t retries;
	/* The sets that were begun, and of each: the beads that are published, or a publisher that died. */
	uint8_t sets;
	uint8_t published[SETS_MAX];
	/* Marks under way: a bit for each client. */
	uint8_t marks;
	/* The stranger's message is under way. */
	uint8_t stranger;
	/* The sets that were whole when the mark of a client arrived: a bit for each. */
	uint8_t whole_at_mark[CLIENTS_MAX];
	/* Ticks without a consumer. */
	uint8_t idle;
	/* The grant with the largest fence: its set + 1, and how far it is behind the counts of now. */
	uint8_t fence_set, fence_behind;
	/* The client of that grant + 1, if holds can be regained. */
	uint8_t fence_of;
	struct channel channels[CHANNELS_MAX];
	struct client clients[CLIENTS_MAX];
};

struct step {
	struct world after;
	bool is_fault, is_grant;
	/* The property that it violates, or NULL. */
	const char *broken;
	char text[200];
};

extern const char property_exclusion[], property_fences[], property_release[], property_order[],
    property_sets[], property_live[];

/* Steps that were not taken because a queue of the model was full. 0, or the search is not exhaustive. */
extern unsigned long quorum_dropped_steps;

void quorum_start(const struct setup *setup, struct world *ret_world);

/* The steps out of a world; valid until the next call. With tell they have texts. */
size_t quorum_steps(
    const struct setup *setup, const struct world *world, bool tell, const struct step **ret_steps);

/* The property that a world violates, or NULL. */
const char *quorum_judge(const struct world *world);

unsigned quorum_claims_left(const struct world *world);
void quorum_print(const struct setup *setup, const struct world *world);

#endif
