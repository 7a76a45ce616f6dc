/*
 * One schedule: some daemons' lock engines over one memory_world in virtual time, their peers, and
 * what befalls them, all drawn from a seed. The parts, from the bottom up:
 *	dice, queues, trace	chance, names, words
 *	truth			what the world knows: who claimed, checked, dropped what, and when
 *	waits, tap		what daemons say and hear of who waits
 *	probes			what a daemon saw of holders
 *	book			what the peers know: requests unanswered, locks they believe they hold
 *	check			the invariants
 *	daemons, ways, daemon messages, clients, admins, fuse, trouble, crowd, calm	who acts
 *	schedule		from a seed to a verdict
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/queue.h"
#include "daemon/lock/lock.h"
#include "tests/sim/book.h"
#include "tests/sim/dice.h"
#include "tests/sim/trace.h"
#include "tests/sim/truth.h"
#include "tests/sim/waits.h"

#define DAEMONS_MAX 4
#define PEERS_MAX 4
#define LINKS 2
#define FOREIGN_MAX 4
/* A limit on what one peer may have, where it has one. */
#define PLAN_FEW 2
/* A limit that nobody comes near. */
#define PLAN_MANY 1000
/* Locks' numbers above that are not looked at. */
#define GIVEN_MOST 4096

/* The server drops a silent peer after two to three of these. */
#define HEARTBEAT (1 * NSEC_PER_SEC)
#define MARGIN (HEARTBEAT / 5)
#define LEASE (2 * HEARTBEAT - MARGIN)

enum trouble {
	TROUBLE_CUT,     /* a link dies, the daemon knows first */
	TROUBLE_FORSAKE, /* a link dies, the broker knows first */
	TROUBLE_FREEZE, /* nothing arrives on a link, in one direction or both, for a while or ever */
	TROUBLE_STOP,   /* a daemon is stopped, and goes on later */
	TROUBLE_SUSPEND,      /* a daemon's timers are late, what it hears is not */
	TROUBLE_RESTART,      /* of the broker */
	TROUBLE_ALARM,        /* probes are held back */
	TROUBLE_DENY,         /* wrong credentials, then right ones again */
	TROUBLE_SILENCE,      /* channels fall silent */
	TROUBLE_NACK,         /* probes of single queues are nacked */
	TROUBLE_REFUSE,       /* 403 */
	TROUBLE_LATE,         /* answers that take longer than anybody waits */
	TROUBLE_CLOSE,        /* channels are closed with 406 */
	TROUBLE_LOSE_B,       /* a B is deleted behind its holder's back */
	TROUBLE_LOSE_A,       /* As are deleted and brought back behind everybody's back */
	TROUBLE_CANCEL,       /* watches end though nothing was deleted */
	TROUBLE_UNHEARD,      /* watches do not hear of deletions */
	TROUBLE_FOREIGN,      /* foreign clients take and leave Bs, mutexes, admin mutexes */
	TROUBLE_BY_NAME,      /* the known server bug */
	TROUBLE_KILL,         /* a daemon is killed and started again */
	TROUBLE_DRAIN,        /* a daemon is stopped in order and started again */
	TROUBLE_FEW_CHANNELS, /* the broker allows few channels */
	TROUBLE_LINES,        /* hints are lost, or are none; lines are deleted */
	TROUBLE_FUSE, /* a daemon is killed, or its auxiliary connection, just after a step of administration */
	TROUBLES
};

/* The troubles that hold up what a watch has to say, or the look that follows. */
#define NEWS_MAY_BE_LATE                                                                           \
	(~(1U << TROUBLE_CANCEL | 1U << TROUBLE_UNHEARD | 1U << TROUBLE_KILL | 1U << TROUBLE_LINES))

/* The troubles by which a daemon does not hear what it was told. */
#define NEWS_MAY_BE_HELD_UP                                                                        \
	(1U << TROUBLE_FORSAKE | 1U << TROUBLE_FREEZE | 1U << TROUBLE_STOP |                       \
	    1U << TROUBLE_SUSPEND | 1U << TROUBLE_RESTART)

/* What is fixed for the whole schedule. */
struct plan {
	int daemons, names, peers;
	unsigned troubles;     /* bits */
	unsigned loudness;     /* per cent of the steps that are troubles */
	int64_t usual;         /* ns: most answers take up to so long */
	unsigned channels_max; /* of a lock connection */
	bool crowd;            /* most wait, for few names */
	bool python;           /* the names of amqp-locks-python */
	bool messages;         /* daemons ask each other */
	struct lock_settings settings;
};

/* Of the lock connection's channels one user may have so many. */
static inline size_t
plan_most_of_user(const struct plan *plan)
{
	size_t most = plan->channels_max, reserve = plan->settings.channels_reserve;

	return most - (reserve > most / 2 ? most / 2 : reserve);
}

struct sim_peer {
	uint64_t id;
	uid_t uid;
	int64_t safe_until; /* as it was told last */
};

/* A wait for holders, as its probes showed: how often in a row each slot was seen absent, up to twice. */
struct seen_wait {
	uint64_t id; /* of the engine; 0: none */
	int name;
	uint64_t began; /* moment */
	unsigned absent[SLOTS_KNOWN + 1];
};

#define WAITS_SEEN 6

/* A slot that is awaited, whose probes are shared: when those were asked that saw it absent in a row. */
struct seen_slot {
	uint64_t last, before; /* moments; 0: none was */
};

struct sim_daemon {
	struct sim *sim;
	int number;
	struct broker *broker;
	struct lock_engine *engine;
	struct sim_peer peers[PEERS_MAX];
	uint64_t last_peer, last_request;
	uint64_t given[GIVEN_MOST / 64]; /* bits: the numbers of the locks granted so far */
	int64_t rescan_interval;         /* as it was told */
	bool draining, abandoned;
	bool cancelled; /* the answer being heard is that of a cancel */
	/*
	 * The same of an administrator's, who grants or denies: the acquire's request; UINT64_MAX: all of a
	 * name's; 0: none's
	 */
	uint64_t granting, denying;
	bool denied[LINKS];
	/* What it hears of the broker comes by `heard`, what it does by itself by `own`. */
	struct timers *heard, *own;
	bool stopped, late; /* neither are run; `own` are not */
	int64_t slow_since; /* stopped or late: since then */
	int64_t woke;       /* when that ended last */
	int64_t disturbed;  /* when its keepalive may have been held up or lost last */
	int64_t safe_until; /* the most that it told anybody on this lock connection */
	unsigned blocked;   /* ways of its lock connection */
	struct timer wake, heal;
	struct timer cut[LINKS];    /* `heard` */
	struct timer starve[LINKS]; /* the world has read nothing for too long */
	uint64_t starving[LINKS];   /* that connection */
	int64_t patience[LINKS];    /* ns from what it read last */
	int64_t silent_since[LINKS];
	uint64_t granted;         /* as its peers counted */
	uint64_t told_connection; /* of its lock connection, as it was told; 0: it is down */
	uint64_t last_message;    /* the number of what it asked the others last */
	int replies;              /* to that */
	struct seen_wait waits[WAITS_SEEN];
	struct seen_slot awaited[NAMES][SLOTS_KNOWN + 1];
	TAILQ_HEAD(, tap_count) counts; /* owned; members of lines being counted */
	bool hearing;                   /* it hears news of a line */
	bool
	    counting; /* the answer being heard is one of those: it is an administrator's hints that follow */
	TAILQ_HEAD(, probes_asked) asked; /* owned; probes that are not answered */
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
	struct trace trace;
	bool alarm, calm;
	/* Not answered: of the next claim the declare (1), or the look behind it (2); and so much later */
	unsigned stuck_claim, stuck;
	uint64_t alarm_ended; /* moment of the last one's end; and the time */
	int64_t alarm_ended_at;
	/* A B that is going to be deleted by name, and the moment of its claim. */
	struct timer by_name;
	struct queue_id by_name_queue;
	uint64_t by_name_claim;
	/* An A that somebody deleted and is going to bring back. */
	struct timer a_back;
	struct queue_id a_back_queue;
	/* So many steps of administration after which this daemon burns; 0: none is to. */
	unsigned fuse_steps;
	int fuse_daemon;
	bool fuse_foreign; /* until then somebody else has the directory's mutex */
	struct timer fuse;
	/* What was asked of each name last that changes it, and not done as far as anybody knows. */
	struct order unfinished[NAMES];
	/* What foreign clients have to themselves. */
	struct queue_id foreign[FOREIGN_MAX];
	size_t foreign_count;
	uint64_t steps;      /* done so far */
	unsigned number;     /* of the invariant violated; 0 = of none of the numbered ones */
	char violation[200]; /* "" = none */
};

/* Notes it, with the time. */
#define NOTE(sim, ...) trace_note(&(sim)->trace, (struct note){.at = (sim)->now, __VA_ARGS__})

_Static_assert(DAEMONS_MAX == TRUTH_DAEMONS && DAEMONS_MAX == WAITS_DAEMONS,
    "the truth is kept of every daemon");

static inline bool
sim_has(const struct sim *sim, enum trouble trouble)
{
	return !sim->calm && (sim->plan.troubles & 1U << trouble) != 0;
}

/* Whether there may be no channel for somebody. */
static inline bool
sim_is_short(const struct sim *sim)
{
	return (sim->plan.troubles & 1U << TROUBLE_FEW_CHANNELS) != 0;
}

/* Whether a claim may be sent long after it is decided upon. */
static inline bool
sim_has_few_flights(const struct sim *sim)
{
	return sim->plan.settings.flights_most < PLAN_MANY;
}

/*
 * Lets time pass, at most until `until`: the next thing that is due happens and all is checked. False:
 * nothing is due by then.
 */
bool sim_next(struct sim *sim, int64_t until);
/* The same until nothing is due by then, or an invariant is violated. */
void sim_pass(struct sim *sim, int64_t ns);

#endif
