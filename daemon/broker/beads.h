/*
 * The beads of a slot that is held by quorum. One consumer sees them delivery by delivery, and a look sees all
 * of them. The module is pure: it owns a struct beads, and knows no channel, no timer and no client.
 * Of the time it knows only what it is told.
 */
#ifndef BROKER_BEADS_H
#define BROKER_BEADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/clock.h"
#include "daemon/broker/broker.h"

/*
 * The rules of a claim, a hold and a release (docs/QUORUM.md). Deliveries and decisions go in, and rejects and
 * news come out. A struct beads is the view of one channel, from its consume to its end.
 *
 *	GATHERING
 *	    |  a set is complete
 *	    v                clean: flip             answered
 *	CHECKING -----------------------> CLAIMING ----------> HELD <------> RENEWING
 *	    |  ^                             ^                   |     answered
 *	    |  | a newer set is complete     | the grace is      | flip
 *	    v  |                             | over: prove       v         answered
 *	   IN_GRACE -------------------------+               RELEASING ---------------> RELEASED
 *
 * After a renewal, a hold can go HELD -> ROTATING -> BARRIER -> RENEWING (rule 5, rotations).
 * Each state but RELEASED can go to OVER. Then the channel must be closed, and nothing is held. A
 * reclaim (rule 8) claims nothing. It goes from CHECKING to RELEASING if the holder has stopped, to RENEWING if
 * the hold goes on, or to OVER.
 */

/* The beads of a set. */
#define BEADS 3
/* The prefetch of a claim: the beads of three sets, and a mark. With 6, a slot can be lost for ever. */
#define BEADS_PREFETCH 10
/* T, ns: how long the next holder waits after a hold that did not end cleanly. */
#define BEAD_GRACE_LEAST (5 * NSEC_PER_SEC)
#define BEAD_GRACE_MOST (300 * NSEC_PER_SEC)
/* Larger epochs are foreign, so that a fence stays below 2^53. */
#define BEAD_EPOCH_MOST (UINT64_C(1) << 33)
/* Larger counts are foreign, too. */
#define BEAD_COUNT_MOST (UINT64_C(1) << 40)

/* One delivery of a bead. */
struct bead {
	unsigned number;    /* 1 to BEADS */
	uint64_t epoch;     /* of its set */
	uint64_t publisher; /* a random number, of its set */
	int64_t grace;      /* T of its set, ns */
	unsigned major;     /* the major version of the server that it was published to */
	uint64_t count;     /* how often the bead was rejected or returned, as the server says */
	uint64_t tag;       /* the delivery tag */
};

/* Bytes of the text of a bead, with a NUL. */
#define BEAD_TEXT 96
/* The body of the message. count and tag are not a part of it. Returns text. */
char *bead_print(char text[BEAD_TEXT], const struct bead *bead);
/* False: the message is foreign. text: of len bytes, with a NUL behind them. */
bool bead_read(const char *text, size_t len, struct bead *ret) __attribute__((warn_unused_result));

/* How long a hold is valid after its last proof was sent, ns. The rest of T is for the clocks' drift. */
static inline int64_t
bead_lease(int64_t grace)
{
	return grace - grace / 10;
}

/* The bits of a fencing number below the epoch. The counts of a slot that is used much carry into the epoch. */
#define BEAD_FENCE_BITS 20
static inline uint64_t
bead_fence_epoch(uint64_t fence)
{
	return fence >> BEAD_FENCE_BITS;
}

enum beads_state {
	BEADS_GATHERING, /* no set is complete */
	BEADS_CHECKING,  /* basic.qos is sent after a set was complete, and is not answered */
	BEADS_IN_GRACE,  /* the order is dirty: the last holder may still hold, until `until` */
	BEADS_CLAIMING,  /* the reject that proves the claim is not answered */
	BEADS_HELD,      /* nothing is unanswered */
	BEADS_RENEWING,  /* the reject of a renewal is not answered */
	BEADS_ROTATING,  /* the reject of a rotation is not answered */
	BEADS_BARRIER,   /* basic.qos is sent after its answer, and is not answered */
	BEADS_RELEASING, /* the reject of a release is not answered */
	BEADS_RELEASED,  /* the order is clean, and that is proved */
	BEADS_OVER       /* see `end` */
};

enum beads_end {
	BEADS_END_NONE,
	BEADS_END_UNSURE,   /* the order is not certain, but will be on a new channel */
	BEADS_END_ODD,      /* another consumer was active meanwhile, or may have been */
	BEADS_END_LATE,     /* the proof came after its lease */
	BEADS_END_TWO_SETS, /* two complete sets of one epoch: an administrator must decide */
	BEADS_END_VERSION,  /* a set of another major version: the counts may have begun again */
	BEADS_END_FOLLOWED  /* a reclaim: another consumer was active, or the order is clean */
};
const char *beads_end_words(enum beads_end end); /* static */

/* The change that one input has made. */
enum beads_news {
	BEADS_NO_NEWS,
	BEADS_UNCLEAN, /* a grace began, or began again: see `until` */
	BEADS_NOW_HELD,
	BEADS_RENEWED,
	BEADS_NOW_RELEASED,
	BEADS_NOW_OVER
};

/* The caller must do this: acknowledgements first. */
struct beads_acts {
	enum beads_news news;
	uint64_t reject; /* the tag of a delivery to reject with requeue; 0: none */
	bool barrier;    /* send basic.qos. Its answer goes to beads_barrier() */
	uint64_t acks[BEADS + BEADS_PREFETCH]; /* tags of deliveries to acknowledge */
	unsigned ack_count;
};

/* The facts that outlive the channel of a hold, or of a claim that has sent its proof. */
struct beads_memory {
	uint64_t epoch, publisher;
	uint64_t sum; /* as beads_sum() */
	bool asked;   /* a reject was unanswered */
	/* Clock time of the newest proof of a hold that goes on; 0: its holder has stopped, or there was none. */
	int64_t proved_at;
};

/* Callers read it, and change it with the functions below alone. */
struct beads {
	enum beads_state state;
	enum beads_end end;
	unsigned major;
	bool reclaims;              /* see beads_reclaim() */
	struct beads_memory memory; /* of a reclaim */
	bool strict;                /* only 1-2-3 is clean (servers since 4.3) */
	unsigned untouched; /* beads of the claimed set that were never returned or rejected */
	uint64_t own;       /* see beads_own() */
	unsigned barriers;  /* that are sent, and not answered */
	bool freed;         /* a message was acknowledged */
	bool disturbed;     /* CHECKING: something came that the order of the beads may depend on */
	struct bead mine[BEADS]; /* the claimed set, in the order of delivery */
	struct bead asked;       /* the one whose reject is unanswered; else its number is 0 */
	struct bead others[BEADS_PREFETCH]; /* of sets that are not complete, not acknowledged */
	unsigned other_count;
	int64_t grace;    /* the largest T of the sets that were seen */
	int64_t until;    /* CHECKING, IN_GRACE: clock time of its end */
	int64_t asked_at; /* clock time of the newest reject */
	int64_t
	    proved_at; /* clock time of the newest answered reject that proves the hold; 0: none */
};

/* major, minor: the version of the server. */
void beads_init(struct beads *beads, unsigned major, unsigned minor);
/* A bead was delivered. */
struct beads_acts beads_take(struct beads *beads, const struct bead *bead, int64_t now);
/*
 * Another message was delivered. count: as that of a bead. kept: it is not acknowledged.
 *
 * Before 4.2.6, deliveries that were lost between two nodes come with a later one, in reversed order. That one was
 * published meanwhile, or could be delivered only after an acknowledgement. It is directly behind them. An order is
 * certain if all its beads had been returned before, and nothing was acknowledged on this channel. Then the caller
 * sends basic.qos, and nothing that was never returned may come before the answer. On a new channel all beads have
 * been returned.
 */
void beads_foreign(struct beads *beads, uint64_t count, bool kept);
/*
 * The caller publishes this set now, one bead after the other. While its beads are untouched, nobody holds by them,
 * and their order needs no check. 0: beads of others came, too.
 */
void beads_own(struct beads *beads, uint64_t publisher);
/* IN_GRACE, and the grace is over. */
struct beads_acts beads_prove(struct beads *beads, int64_t now);
/* HELD. */
struct beads_acts beads_renew(struct beads *beads, int64_t now);
/*
 * HELD, by a renewal just now, and not `strict`: lets the server shorten its log. The first bead is rejected, and
 * the others move on. If they came again unasked meanwhile, the present last one would be the middle one, and the
 * next renewal a flip. So nothing may be delivered between the answer and that of basic.qos. Then the hold is
 * renewed. A rotation extends no lease.
 */
struct beads_acts beads_rotate(struct beads *beads, int64_t now);
/* basic.qos was answered. Ignored unless it was asked for, in CHECKING or BARRIER. */
struct beads_acts beads_barrier(struct beads *beads, int64_t now);
/* HELD, and the holder has stopped; or IN_GRACE, and the grace is over. */
struct beads_acts beads_release(struct beads *beads, int64_t now);
/*
 * IN_GRACE: the publisher of this set makes it clean, without a grace. It has waited for all earlier
 * holders before it published. False: somebody else may have held since then.
 */
bool beads_are_new(const struct beads *beads);
struct beads_acts beads_release_new(struct beads *beads, int64_t now);
/*
 * Rule 8. beads_remember(): false if nothing was proved or asked, or if the order is not certain. Each end of a
 * channel adds 1 to the count of each bead, and a reject that was performed adds 1. A larger sum says that
 * another consumer was active since. The memory says that the holder has stopped.
 */
bool beads_remember(const struct beads *beads, struct beads_memory *ret);
/* IN_GRACE, and nobody was active between that hold and this claim. */
bool beads_follows(const struct beads *beads, const struct beads_memory *memory);
/* The same, and that holder has stopped. So the grace is over: as beads_prove(). */
struct beads_acts beads_prove_after(
    struct beads *beads, const struct beads_memory *memory, int64_t now);
/*
 * After beads_init(), in place of a claim. If nobody was active since, and the holder has stopped, the order
 * becomes clean at once (RELEASED). If the hold goes on, it is renewed before the end of its lease (RENEWED).
 * Else the order stays as it is (OVER).
 */
void beads_reclaim(struct beads *beads, const struct beads_memory *memory);
/*
 * The successor: after beads_init(), goes on with the view of an earlier program. That was IN_GRACE, HELD or
 * RENEWING. In RENEWING the last bead of the set was rejected. saved: state, mine, others, other_count, and all
 * times. False: that cannot be.
 */
bool beads_resume(struct beads *beads, const struct beads *saved, int64_t now)
    __attribute__((warn_unused_result));
/* HELD or later. Clock time of the end of the hold, if it is not renewed. */
int64_t beads_held_until(const struct beads *beads);
/* The sum of the counts of the claimed set. With one more for each unanswered reject, it only grows. */
uint64_t beads_sum(const struct beads *beads);
/*
 * The fencing number of a grant, for the hand-offs inside the daemon since the last proof (0 to 255). A
 * later grant of the slot has a larger one.
 */
uint64_t beads_fence(const struct beads *beads, unsigned hand_offs);

/*
 * Judges the messages in the B of a slot by quorum, all at once, as its only consumer sees them. It tells
 * whether a claim could use them.
 */

/* beads: all that are there, in any order. major: the version of the server. ret->foreign stays 0. */
void beads_look(
    const struct bead *beads, size_t count, unsigned major, struct broker_beads_seen *ret);
/* Whether a claimant can hold the slot: then no set may be published beside it. */
bool beads_look_claimable(const struct broker_beads_seen *seen);

#endif
