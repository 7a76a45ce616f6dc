#include "tests/sim/schedule.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/config/keys.h"
#include "tests/sim/calm.h"
#include "tests/sim/check.h"
#include "tests/sim/clients.h"
#include "tests/sim/daemons.h"
#include "tests/sim/fuse.h"
#include "tests/sim/homes.h"
#include "tests/sim/messages.h"
#include "tests/sim/queues.h"
#include "tests/sim/sim.h"
#include "tests/sim/trouble.h"

/* Of a schedule that does not come to an end: so many things happen in none that does. */
#define EVENTS_MOST 200000

/* The one that runs; big, so not on the stack, and one is enough. */
static struct sim sim_of_schedule;

static int64_t
sim_now(void *ctx)
{
	return ((struct sim *)ctx)->now;
}

/* The next one to run. Of those due together, or late together, one is drawn at random. */
struct turn {
	struct timers *timers;
	int64_t when;
	unsigned count;
};

static void
peer_order_of(struct sim *sim, struct turn *turn, struct timers *timers)
{
	int64_t when = timers_next(timers);

	if (when < sim->now)
		when = sim->now;
	if (when > turn->when || when == INT64_MAX)
		return;
	if (when < turn->when)
		turn->count = 0;
	turn->when = when;
	if (++turn->count == 1 || dice_below(&sim->dice, turn->count) == 0)
		turn->timers = timers;
}

bool
sim_next(struct sim *sim, int64_t until)
{
	struct turn turn = {.when = INT64_MAX};
	int64_t next;

	assert(until >= sim->now);
	peer_order_of(sim, &turn, sim->timers);
	for (int i = 0; i < sim->plan.daemons; i++) {
		const struct sim_daemon *daemon = &sim->daemons[i];

		if (!daemon->stopped)
			peer_order_of(sim, &turn, daemon->heard);
		if (!daemon->stopped && !daemon->late)
			peer_order_of(sim, &turn, daemon->own);
	}
	next = turn.when;
	if (next > until) {
		sim->now = until;
		return false;
	}
	if (next > sim->now)
		sim->now = next;
	sim->truth.moment++;
	timers_run(turn.timers);
	check_step(sim);
	if (sim->truth.moment > EVENTS_MOST)
		check_fail(sim, 0, "the schedule does not end");
	return true;
}

void
sim_pass(struct sim *sim, int64_t ns)
{
	int64_t until = sim->now + ns;

	while (sim->violation[0] == '\0' && sim_next(sim, until))
		continue;
}

/* ---- the plan ---- */

static unsigned
any_troubles(struct dice *dice)
{
	unsigned roll = (unsigned)dice_below(dice, 100), troubles = 0;

	if (roll < 15)
		return 0;
	if (roll < 40)
		return 1U << dice_below(dice, TROUBLES);
	for (int i = 0; i < TROUBLES; i++) {
		if (dice_percent(dice, roll < 80 ? 20 : 50))
			troubles |= 1U << i;
	}
	return troubles;
}

/* Few, none, or the default. */
static unsigned
any_passes(struct dice *dice)
{
	unsigned passes = (unsigned)dice_below(dice, 5);

	return passes < 4 ? passes
			  : (unsigned)strtoul(key_find("max-local-handoffs")->fallback, NULL, 10);
}

static struct plan
any_plan(struct dice *dice)
{
	struct plan plan = {
	    .daemons = 2 + (int)dice_below(dice, DAEMONS_MAX - 1),
	    .names = 1 + (int)dice_below(dice, NAMES),
	    .peers = 2 + (int)dice_below(dice, PEERS_MAX - 1),
	    .troubles = any_troubles(dice),
	    .loudness = 2 + (unsigned)dice_below(dice, 15),
	    .usual = NSEC_PER_MSEC << dice_below(dice, 4),
	    .channels_max = 1000,
	    .settings =
		{
		    .naming = &queue_naming_amqp_locks,
		    .max_races = 16,
		    .rescan_interval = (int64_t)(200 + dice_below(dice, 800)) * NSEC_PER_MSEC,
		    .hint_grace = 5 * NSEC_PER_MSEC,
		    .max_local_handoffs = any_passes(dice),
		    .request_timeout = (int64_t)(50 + dice_below(dice, 1000)) * NSEC_PER_MSEC,
		    .max_locks_per_connection = 1000,
		    .max_waits_per_connection = 1000,
		    .max_mutexes_per_uid = 1000,
		    .slots_most = SLOTS_KNOWN,
		    .flights_most = PLAN_MANY,
		},
	};

	if (dice_percent(dice, 25)) /* a claim may be answered while the lease is suspect */
		plan.settings.request_timeout += LEASE;
	if (dice_percent(dice, 10)) /* longer than a probe takes at most */
		plan.settings.request_timeout = MEMORY_PROBE_TIMEOUT + NSEC_PER_SEC;
	if (dice_percent(dice, 20))
		plan.settings.max_races = 1;
	if (dice_percent(dice, 5))
		plan.settings.max_locks_per_connection = PLAN_FEW;
	if (dice_percent(dice, 5))
		plan.settings.max_waits_per_connection = PLAN_FEW;
	if (dice_percent(dice, 30)) /* the default: without hints it takes long */
		plan.settings.rescan_interval = 5 * NSEC_PER_SEC;
	if (dice_percent(dice, 20)) /* besides the others */
		plan.troubles |= 1U << TROUBLE_REPLACE;
	plan.crowd = dice_percent(dice, 35);
	if (plan.crowd)
		plan.names = 1;
	plan.messages = dice_percent(dice, 25);
	plan.python = dice_percent(dice, 15);
	if (plan.python)
		plan.settings.naming = &queue_naming_amqp_locks_python;
	if (plan.troubles & 1U << TROUBLE_FEW_CHANNELS)
		plan.channels_max = 1 + (unsigned)dice_below(dice, 6);
	/* More than half of them are never left to others. */
	if (plan.troubles & 1U << TROUBLE_FEW_CHANNELS && dice_percent(dice, 80))
		plan.settings.channels_reserve = dice_below(dice, plan.channels_max);
	plan.consumers = dice_percent(dice, 50);
	if (plan.troubles & (1U << TROUBLE_HOMES | 1U << TROUBLE_CONVERT))
		plan.consumers = true;
	if (plan.consumers && dice_percent(dice, 50))
		plan.settings.claim = BROKER_BY_CONSUMER;
	if (dice_percent(dice, 40))
		plan.settings.flights_most = 1 + dice_below(dice, 3);
	return plan;
}

static void
put_slots(struct sim *sim)
{
	for (int name = 0; name < sim->plan.names; name++) {
		int slots = (int)dice_below(&sim->dice, 4);
		unsigned roll = sim->plan.consumers ? (unsigned)dice_below(&sim->dice, 100) : 0;

		if (dice_percent(&sim->dice, 4))
			slots = SLOTS_MAX;
		truth_begin(sim, name, slots, roll < 30 ? 0 : roll < 75 ? 100 : 50);
	}
}

/* If wanted, the daemons' log is part of the trace. */
static void
on_log(void *ctx, enum log_level level, const char *line)
{
	const struct sim *sim = ctx;

	(void)level;
	if (sim->trace.aloud)
		printf("# %13.6f ms  log: %s\n", (double)(sim->now - sim->trace.began) / 1e6, line);
}

#define OTHER_DICE (UINT64_C(1) << 40)

static void
start(struct sim *sim, uint64_t seed, bool by_quorum, bool evicts, bool aloud)
{
	struct memory_behaviour behaviour;

	log_set_level(aloud ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR);
	log_set_sink(on_log, sim);
	memset(sim, 0, sizeof(*sim));
	sim->seed = seed;
	sim->dice.state = (by_quorum ? ~seed : seed) ^ (evicts ? OTHER_DICE : 0);
	sim->plan = by_quorum ? quorum_plan(&sim->dice) : any_plan(&sim->dice);
	sim->plan.evicts = evicts;
	sim->now = 1000 * NSEC_PER_SEC;
	sim->clock = (struct clock){sim_now, sim};
	sim->timers = timers_new(&sim->clock);
	sim->waits.settled = INT64_MAX;
	sim->book.next_due = INT64_MAX;
	trace_start(&sim->trace, sim->now, aloud);
	trouble_init(sim, &behaviour);
	/* Then daemons are replaced whose locks are all by quorum. */
	behaviour.tls = by_quorum && seed % 4 == 0;
	sim->world = memory_world_new(sim->timers, &behaviour);
	memory_world_set_deletes_by_name(sim->world, sim_has(sim, TROUBLE_BY_NAME));
	NOTE(sim, .text = "the plan: troubles {n}, channels {m}, {w}",
	    .n = (int64_t)sim->plan.troubles, .m = (int64_t)sim->plan.channels_max,
	    .word = by_quorum              ? "by quorum"
		    : !sim->plan.consumers ? "exclusive queues"
		    : sim->plan.settings.claim == BROKER_BY_CONSUMER
			? "both ways, mutexes by consumer"
			: "both ways, mutexes by queue");
	queues_use(sim->plan.python);
	quorum_init(sim);
	if (!by_quorum)
		put_slots(sim);
	else
		memory_world_set_version(sim->world, sim->plan.major, sim->plan.minor);
	for (int i = 0; i < sim->plan.daemons; i++)
		daemon_start(sim, i);
	if (by_quorum)
		quorum_begin(sim);
}

static void
end(struct sim *sim)
{
	timers_cancel(sim->timers, &sim->by_name);
	timers_cancel(sim->timers, &sim->a_back);
	timers_cancel(sim->timers, &sim->quorum.fuse);
	homes_end(sim);
	fuse_out(sim);
	for (int i = 0; i < sim->plan.daemons; i++)
		daemon_kill(&sim->daemons[i]);
	memory_world_free(sim->world);
	timers_free(sim->timers);
}

/* ---- the steps ---- */

/* Mostly so little that much is in flight at the next step. */
static void
pass_time(struct sim *sim)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);
	int64_t ns = NSEC_PER_MSEC;

	if (roll < 50) {
		sim_next(sim, sim->now + NSEC_PER_SEC);
		return;
	}
	if (roll >= 97)
		ns = 2 * HEARTBEAT;
	else if (roll >= 92)
		ns = 200 * NSEC_PER_MSEC;
	else if (roll >= 75)
		ns = 20 * NSEC_PER_MSEC;
	sim_pass(sim, (int64_t)dice_below(&sim->dice, (uint64_t)ns));
}

static void
step(struct sim *sim)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);

	sim->steps++;
	if (roll < 50)
		sim->plan.quorum ? quorum_pass_time(sim) : pass_time(sim);
	else if (roll < 50 + sim->plan.loudness / 2 && sim->plan.quorum)
		quorum_trouble(sim);
	else if (roll < 50 + sim->plan.loudness)
		trouble_step(sim);
	else
		client_step(sim);
	messages_step(sim);
	check_step(sim);
}

void
schedule_init(void)
{
	queues_init();
	/*
	 * The memory of a schedule is used again by the next one. To return it took a fifth of the
	 * time.
	 */
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

static struct verdict
run(uint64_t seed, bool by_quorum, bool evicts, bool aloud)
{
	struct sim *sim = &sim_of_schedule;

	start(sim, seed, by_quorum, evicts, aloud);
	while (sim->violation[0] == '\0' && sim->steps < SCHEDULE_STEPS)
		step(sim);
	if (sim->violation[0] == '\0')
		by_quorum ? quorum_calm_down(sim) : calm_down(sim);
	end(sim);
	return (struct verdict){
	    .violation = sim->violation,
	    .number = sim->number,
	    .judged = sim->judged,
	    .steps = sim->steps,
	    .digest = sim->trace.digest,
	};
}

static struct verdict
both(struct verdict first, struct verdict second)
{
	second.judged |= first.judged;
	second.steps += first.steps;
	second.digest ^= first.digest;
	return second;
}

struct verdict
schedule_run(uint64_t seed, bool aloud)
{
	struct verdict verdict = run(seed, false, false, aloud);

	if (verdict.violation[0] == '\0' && seed % SCHEDULE_QUORUM == 0)
		verdict = both(verdict, run(seed, true, false, aloud));
	if (verdict.violation[0] == '\0' && seed % SCHEDULE_EVICTS == 0)
		verdict = both(verdict, run(seed, seed % (2 * SCHEDULE_EVICTS) == 0, true, aloud));
	return verdict;
}

void
schedule_print(const char *why)
{
	const struct sim *sim = &sim_of_schedule;

	trace_print(&sim->trace, stdout);
	printf("# seed %" PRIu64 ": ", sim->seed);
	if (why == NULL && sim->number != 0)
		printf("invariant %u: ", sim->number);
	printf("%s\n# all of it: make sim SEEDS=1 VERBOSE=1 FROM=%" PRIu64 "\n",
	    why != NULL ? why : sim->violation, sim->seed);
	fflush(stdout);
}
