/*
 * Slots by quorum. Some seeds have a second schedule, in which all slots are held so. This is the world's
 * knowledge of such slots, their troubles, and the end of such a schedule. check_quorum.c judges.
 *
 * Each client honours its lease: it stops at the moment that its daemon told it last. It stops no sooner if
 * it hears that its lock is lost, or if its daemon dies. A client that hangs up with a lock has
 * stopped. One that hangs up after a loss has not.
 */
#ifndef TESTS_SIM_QUORUM_H
#define TESTS_SIM_QUORUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/broker.h"
#include "daemon/lock/lock.h"
#include "tests/memory/controls.h"
#include "tests/sim/queues.h"

/* T */
#define QUORUM_GRACE (5 * INT64_C(1000000000))
/* Clients that go on for a while after their hold, at most. */
#define GHOSTS_MAX 128

/* The troubles of the B of a slot by quorum. Each one that begins has an end. */
enum beads_trouble {
	BEADS_SUSPENDED, /* the node of its active consumer is down */
	BEADS_LATE,      /* deliveries are held back */
	BEADS_LOSES,     /* rejects are lost */
	BEADS_DELAYS,    /* rejects are lost, and sent again later, the last one first */
	BEADS_STARVED,   /* the active consumer gets nothing */
	BEADS_REFUSES,   /* a consume ends its connection */
	BEADS_TIMED_OUT, /* the consumer timeout of 4.3, which has no end */
	BEADS_FLAPS,     /* a node goes down and up: deliveries to its consumer are late. No end */
	BEADS_PURGED,    /* the beads are lost. Its end is a repair */
	BEADS_DELETED,   /* the same of the queue */
	BEADS_TROUBLES
};

struct quorum_slot {
	uint64_t fence; /* of its last grant; 0: none since its queue was made */
	/*
	 * The end of a hold is proved. So the order is clean, unless a rival has made it dirty since.
	 * Rivals are claims, and works of administrators. They were unanswered when the end began, or
	 * began later.
	 */
	bool clean;
	unsigned rivals;
	unsigned claims;   /* those that ever began */
	unsigned claiming; /* those that are not answered */
	unsigned asking;   /* the same, and renewals and ends of holds */
	int64_t asked_at;  /* time of the last answer to those, or of a daemon's death */
	bool removed;      /* an administrator published a removal since it was made */
	bool remade;       /* it was declared again since */
	uint64_t maker;    /* the channel that declared it last */
	int64_t lost_at;   /* time at which it lost its messages; 0: never */
	bool sure; /* a daemon heard that it is there, and the slot was not declared again */
	bool made; /* an administrator made it, and nobody purged it */
	/* The channel that published its set, and has rejected no bead. 0: none. */
	uint64_t publisher;
	bool graced;          /* a grace began since then */
	unsigned troubles;    /* bits: those that have begun */
	int64_t timed_out_at; /* of its consumer; 0: never */
};

/* A client that believes in a hold after its daemon does not. */
struct quorum_ghost {
	int name, slot, daemon;
	uint64_t lock;
	int64_t until;
};

struct quorum {
	struct quorum_slot slots[NAMES][SLOTS_KNOWN + 1];
	struct quorum_ghost ghosts[GHOSTS_MAX];
	size_t ghost_count;
	int64_t changed_at[NAMES]; /* when a change of a name was asked for or answered last */
	int64_t slow;              /* how late a delivery is that is sent now; 0: as usual */
	/* A daemon that has just published a set is killed now and then. */
	struct timer fuse;
	int fuse_daemon;
};

struct sim;
struct sim_daemon;
struct ask;
struct belief;
struct plan;
struct dice;

static inline struct quorum_slot *
quorum_slot(struct quorum *quorum, struct queue_id id)
{
	return &quorum->slots[id.name][id.slot];
}

/* ---- the schedule (quorum.c) ---- */

struct plan quorum_plan(struct dice *dice);
void quorum_init(struct sim *sim);
/* Makes the first slots. */
void quorum_begin(struct sim *sim);
/* A trouble of one slot begins or ends. */
void quorum_trouble(struct sim *sim);
void quorum_trouble_end(struct sim *sim);
/* The daemon may not have heard yet that its consumer timed out. It must not be asked for a reject. */
bool quorum_times_out(const struct sim *sim, int name, int slot);
/* Instead of calm_down(). */
void quorum_calm_down(struct sim *sim);
/* The slots from 1 on whose queues exist. */
int quorum_size(const struct sim *sim, int name);
/* Lets time pass as far as the next event, or for some seconds at most. */
void quorum_pass_time(struct sim *sim);

/* ---- events, and the judge (check_quorum.c) ---- */

/* The world performed a request. */
void quorum_performed(struct sim *sim, const struct memory_performed *what);
/*
 * A request is sent, and is over. rival: a claim, or the work of an administrator. Returns what its proof
 * needs to know.
 */
unsigned quorum_asks(struct sim *sim, struct queue_id id, bool rival);
void quorum_answered(struct sim *sim, struct queue_id id, bool rival);
/* The end of a hold is proved. An administrator's work is done. */
void quorum_proved(struct sim *sim, struct queue_id id, unsigned since);
/* The same, long after the end. */
void quorum_reclaimed(struct sim *sim, struct queue_id id);
void quorum_made(struct sim *sim, struct queue_id id);
/* A removal is there, and somebody holds the slot. */
void quorum_removed(struct sim *sim, struct queue_id id);
/* A claim of that slot waits for the end of a grace. */
void check_unclean(struct sim *sim, struct queue_id id);
/* All is calm: each holder of a removed slot was told. */
void check_removals(struct sim *sim);
/* A client was told of its slot. */
void check_quorum_grant(struct sim *sim, const struct ask *ask, const struct lock_answer *answer);
/*
 * A slot of that name is granted: one by quorum, or one with an A. Nobody holds one of the other kind, as a
 * conversion claims each slot. Removed slots can have holders.
 */
void check_converted(struct sim *sim, int name, bool by_quorum);
/* Whether such a slot was perhaps removed since its grant. */
bool quorum_was_shrunk(const struct sim *sim, const struct belief *belief);
/* A lease was told, or extended. */
void check_believers(struct sim *sim, const struct belief *belief);
/* A request was answered that is no acquire. */
void check_quorum_answer(struct sim *sim, const struct ask *ask, enum reason reason);
/* The daemon does not know of the hold any more, but its client has not stopped. */
void quorum_haunt(struct sim *sim, const struct belief *belief);

#endif
