/*
 * One schedule: the lock engines of some daemons over one memory_world in virtual time, their
 * clients, and their troubles, all drawn from a seed. The parts, from the bottom up:
 *
 *	dice, queues, trace	random numbers, names, notes
 *	truth			the world's knowledge: claims, checks, deletions and moments
 *	waits, tap		messages of daemons about waiters
 *	probes			a daemon's view of holders
 *	book			the clients' knowledge: unanswered requests, believed locks
 *	check			the invariants
 *	ways, daemons		connections and daemons
 *	clients, admins		the actors
 *	messages, crowd		further actors
 *	fuse, homes, replace, trouble, meddle	the troubles
 *	quorum		slots by quorum: the second schedule of some seeds
 *	calm, schedule		the end of a schedule; from a seed to a verdict
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/queue.h"
#include "tests/sim/book.h"
#include "tests/sim/dice.h"
#include "tests/sim/quorum.h"
#include "tests/sim/trace.h"
#include "tests/sim/truth.h"
#include "tests/sim/waits.h"

#define DAEMONS_MAX 4
#define PEERS_MAX 4
/* The connections of a daemon, two of them for holds by quorum. Other schedules do not use those. */
#define LINKS 4
#define FOREIGN_MAX 4
/* A low limit of a client or user, if the schedule has one. */
#define PLAN_FEW 2
/* A limit that is never reached. */
#define PLAN_MANY 1000
/* The node of the holder queues that may be out of reach. No daemon is connected to it. */
#define HOME 2
/* Locks with numbers above this are not checked. */
#define GIVEN_MOST 4096

/* The server closes the connection of a silent daemon after two to three heartbeats. */
#define HEARTBEAT (1 * NSEC_PER_SEC)
#define MARGIN (HEARTBEAT / 5)
#define LEASE (2 * HEARTBEAT - MARGIN)

enum trouble {
	TROUBLE_CUT,     /* a link ends, and the daemon notices first */
	TROUBLE_FORSAKE, /* a link ends, and the broker notices first */
	TROUBLE_FREEZE,  /* a link delivers nothing, one way or both, for a while or for ever */
	TROUBLE_STOP,    /* a daemon is stopped and continued later */
	TROUBLE_SUSPEND, /* a daemon's timers are late, but it reads */
	TROUBLE_RESTART, /* of the broker */
	TROUBLE_ALARM,   /* an alarm: probes are delayed */
	TROUBLE_DENY,    /* wrong credentials, later the right ones */
	TROUBLE_SILENCE, /* channels fall silent */
	TROUBLE_NACK,    /* probes of single queues are nacked */
	TROUBLE_REFUSE,  /* 403 */
	TROUBLE_LATE,    /* answers come after every deadline */
	TROUBLE_CLOSE,   /* channels are closed with 406 */
	TROUBLE_LOSE_B,  /* a B is deleted while it is held */
	TROUBLE_LOSE_A,  /* As are deleted and created again by no daemon */
	TROUBLE_CANCEL,  /* watches end although no queue was deleted */
	TROUBLE_UNHEARD, /* watches miss deletions */
	TROUBLE_FOREIGN, /* foreign clients take and leave Bs, mutexes, admin mutexes */
	TROUBLE_BY_NAME, /* the known server bug */
	TROUBLE_KILL,    /* a daemon is killed and started again */
	TROUBLE_DRAIN,   /* a daemon is stopped in order and started again */
	TROUBLE_FEW_CHANNELS, /* the broker allows few channels */
	TROUBLE_HINTS,        /* hints are lost or invalid; wait queues are deleted */
	TROUBLE_HOMES,        /* the home of holder queues is silent, parted or down */
	TROUBLE_CONVERT, /* slots change between the two ways to hold them, by a foreign hand */
	TROUBLE_FUSE, /* a daemon or its auxiliary connection ends after a step of administration */
	TROUBLE_REPLACE, /* a daemon is frozen, and replaced by its successor */
	TROUBLES
};

/* The troubles that delay the news of a watch, or the check that follows. */
#define NEWS_MAY_BE_LATE                                                                           \
	(~(1U << TROUBLE_CANCEL | 1U << TROUBLE_UNHEARD | 1U << TROUBLE_KILL | 1U << TROUBLE_HINTS))

/* The troubles by which a daemon misses messages sent to it. */
#define NEWS_MAY_BE_HELD_UP                                                                        \
	(1U << TROUBLE_FORSAKE | 1U << TROUBLE_FREEZE | 1U << TROUBLE_STOP |                       \
	    1U << TROUBLE_SUSPEND | 1U << TROUBLE_RESTART)

/* The constants of a schedule. */
struct plan {
	int daemons, names, peers;
	unsigned troubles;       /* bits */
	unsigned loudness;       /* per cent of the steps that cause a trouble */
	int64_t usual;           /* ns: the usual maximum of an answer's delay */
	unsigned channels_max;   /* of a lock connection */
	bool crowd;              /* many waiters for few names */
	bool python;             /* the names of amqp-locks-python */
	bool consumers;          /* slots are held by consumers, too */
	bool messages;           /* the daemons send each other queries */
	bool quorum;             /* all slots are held by quorum */
	bool evicts;             /* administrators evict holders */
	unsigned major, minor;   /* the server's version; by quorum */
	unsigned beads_troubles; /* bits */
	struct lock_settings settings;
};

/* The number of channels of the lock connection that one user may have. */
static inline size_t
plan_most_of_user(const struct plan *plan)
{
	size_t most = plan->channels_max, reserve = plan->settings.channels_reserve;

	return most - (reserve > most / 2 ? most / 2 : reserve);
}

struct sim_peer {
	uint64_t id;
	uid_t uid;
	int64_t safe_until; /* as the daemon told it last */
};

/*
 * An awaited slot: the moments of the last two consecutive probes that saw it absent. Waits share
 * them.
 */
struct seen_slot {
	uint64_t last, before; /* moments; 0: none */
	uint64_t twice;        /* `before`, also after a holder was seen again */
};

struct sim_daemon {
	struct sim *sim;
	int number;
	struct broker *broker;
	struct lock_engine *engine;
	struct sim_peer peers[PEERS_MAX];
	uint64_t last_peer, last_request;
	uint64_t given[GIVEN_MOST / 64]; /* bits: the numbers of the locks granted so far */
	int64_t rescan_interval;         /* as in its settings */
	struct clock wall;               /* the time of day of its host */
	int64_t wall_ahead;              /* ns */
	bool draining, abandoned;
	bool cancelled; /* the answer now heard is that of a cancel */
	/*
	 * The answer now heard is that of an administrator's grant or deny: the request of the
	 * acquire. UINT64_MAX: all of a name. 0: none.
	 */
	uint64_t granting, denying;
	bool denied[LINKS];
	/* Timers of `heard` are messages from the broker. Timers of `own` are the daemon's own. */
	struct timers *heard, *own;
	bool stopped, late; /* stopped: neither runs; late: `own` do not run */
	int64_t slow_since; /* time since which it is stopped or late */
	int64_t woke;       /* when that ended */
	int64_t disturbed;  /* when its keepalive may last have been delayed or lost */
	int64_t safe_until; /* the latest that it stated on this lock connection */
	unsigned blocked;   /* blocked ways of its lock connection */
	bool alone;         /* frozen: no successor comes */
	bool frozen;        /* it is about to be replaced */
	bool resuming;      /* the successor has no holds and counts yet */
	int64_t frozen_at, unfrozen_at, idle_most;
	struct timer replace;
	struct timer wake, heal;
	struct timer cut[LINKS];    /* in `heard` */
	struct timer starve[LINKS]; /* the world has read nothing for too long */
	uint64_t starving[LINKS];   /* the connection of that timer */
	int64_t patience[LINKS];    /* ns from the last byte that the world read */
	int64_t silent_since[LINKS];
	uint64_t granted, lost;   /* as counted by its clients */
	uint64_t told_connection; /* its lock connection, as it was told; 0: down */
	uint64_t last_message;    /* number of its last query */
	int replies;              /* number of answers to it */
	struct seen_slot awaited[NAMES][SLOTS_KNOWN + 1];
	TAILQ_HEAD(, tap_claim)
	claims; /* owned; unanswered claims; by quorum, also the ends of holds */
	TAILQ_HEAD(, tap_count) counts; /* owned; running counts of consumers of wait queues */
	bool hearing;                   /* it handles news of a wait queue */
	bool counting; /* it handles such a count: hints of an administrator follow */
	TAILQ_HEAD(, probes_asked) asked; /* owned; unanswered probes */
	unsigned node;
};

struct sim {
	uint64_t seed;
	struct dice dice;
	struct plan plan;
	int64_t now;
	struct clock clock;
	struct timers *timers;
	struct memory_world *world;
	struct sim_daemon daemons[DAEMONS_MAX];
	struct truth truth;
	struct waits waits;
	struct book book;
	struct quorum quorum;
	struct trace trace;
	bool alarm, calm;
	/*
	 * The next claim gets no answer to its declare (1) or to its check (2). `stuck` counts
	 * requests down.
	 */
	unsigned stuck_claim, stuck;
	uint64_t alarm_ended; /* moment and time of the end of the last alarm */
	int64_t alarm_ended_at;
	/* A B that will be deleted by name, and the moment of its claim. */
	struct timer by_name;
	struct queue_id by_name_queue;
	uint64_t by_name_claim;
	/* An A that was deleted and will be created again. */
	struct timer a_back;
	struct queue_id a_back_queue;
	/* This daemon ends after so many steps of administration. 0: none does. */
	unsigned fuse_steps;
	int fuse_daemon;
	bool fuse_foreign; /* until then a foreign client has the directory's mutex */
	struct timer fuse;
	/* The last order on each name that has not succeeded, as far as the clients know. */
	struct order unfinished[NAMES];
	/* How each other node reaches HOME, the next change, and the time of the last one. */
	struct home_way {
		enum memory_reach reach;
		struct timer timer;
		int64_t changed_at;
	} homes[HOME];
	/* The queues that foreign clients own, or consume, exclusively. */
	struct queue_id foreign[FOREIGN_MAX];
	size_t foreign_count;
	uint64_t steps;      /* number of steps so far */
	uint32_t judged;     /* bits: the invariants that were judged */
	unsigned number;     /* of the violated invariant; 0: not a numbered one */
	char violation[200]; /* "": none */
};

/* Adds a note with the present time. */
#define NOTE(sim, ...) trace_note(&(sim)->trace, (struct note){.at = (sim)->now, __VA_ARGS__})

_Static_assert(DAEMONS_MAX == TRUTH_DAEMONS && DAEMONS_MAX == WAITS_DAEMONS,
    "the truth is kept of every daemon");

static inline bool
sim_has(const struct sim *sim, enum trouble trouble)
{
	return !sim->calm && (sim->plan.troubles & 1U << trouble) != 0;
}

/* Whether the daemon reads no requests now. They wait in its sockets. */
static inline bool
sim_is_deaf(const struct sim_daemon *daemon)
{
	return daemon->stopped || daemon->frozen;
}

/* Whether the node cannot use the queue now. */
static inline bool
sim_is_cut_off(const struct sim *sim, unsigned node, const char *queue)
{
	return sim->homes[node].reach != MEMORY_REACHED &&
	       memory_world_durable(sim->world, queue) &&
	       memory_world_home(sim->world, queue) == HOME;
}

/* Whether there may be too few channels. */
static inline bool
sim_is_short(const struct sim *sim)
{
	return (sim->plan.troubles & 1U << TROUBLE_FEW_CHANNELS) != 0;
}

/* Whether a claim may be sent long after its decision. */
static inline bool
sim_has_few_flights(const struct sim *sim)
{
	return sim->plan.settings.flights_most < PLAN_MANY;
}

/*
 * Advances time to the next event, at most to `until`, and runs the checks. False: no event is due
 * by then.
 */
bool sim_next(struct sim *sim, int64_t until);
/* Runs all events of so many ns, or until an invariant is violated. */
void sim_pass(struct sim *sim, int64_t ns);

#endif
