#include "tests/sim/trouble.h"

#include "tests/sim/check.h"
#include "tests/sim/clients.h"
#include "tests/sim/daemons.h"
#include "tests/sim/fuse.h"
#include "tests/sim/homes.h"
#include "tests/sim/meddle.h"
#include "tests/sim/replace.h"
#include "tests/sim/ways.h"

/* ---- behaviour ---- */

/* A hold is watched from this time after its grant on. */
#define WATCH_AFTER (100 * NSEC_PER_MSEC)

static int64_t
delay(void *ctx)
{
	struct sim *sim = ctx;
	int64_t usual = sim->plan.usual;

	if (sim->quorum.slow != 0)
		return sim->quorum.slow;
	if (sim->calm)
		return (int64_t)dice_below(&sim->dice, NSEC_PER_MSEC);
	if (sim_has(sim, TROUBLE_LATE) && dice_percent(&sim->dice, 3))
		usual = TROUBLE_LATEST * sim->plan.settings.request_timeout;
	else if (dice_percent(&sim->dice, 5))
		usual *= 10;
	return (int64_t)dice_below(&sim->dice, (uint64_t)usual);
}

static bool
silent(void *ctx)
{
	struct sim *sim = ctx;

	if (sim->stuck > 0 && --sim->stuck == 0)
		return true;
	return sim_has(sim, TROUBLE_SILENCE) && dice_percent(&sim->dice, 1);
}

static bool
nacks(void *ctx)
{
	struct sim *sim = ctx;

	return sim_has(sim, TROUBLE_NACK) && dice_percent(&sim->dice, 3);
}

/* So that many are confirmed by one ack. */
static bool
holds_acks(void *ctx)
{
	return dice_percent(&((struct sim *)ctx)->dice, 70);
}

static bool
refuses(void *ctx)
{
	struct sim *sim = ctx;

	sim->truth.refuses = sim_has(sim, TROUBLE_REFUSE) && dice_percent(&sim->dice, 2);
	return sim->truth.refuses;
}

/* Whether a watch misses a deletion. A deletion that it reports must be told. */
static bool
unheard(void *ctx, const struct broker *broker, const char *queue)
{
	struct sim *sim = ctx;
	struct queue_id id = queue_find(queue);
	struct wait_seen *sees;
	int seen = 0;

	if (id.part != QUEUE_A)
		return false;
	while (sim->daemons[seen].broker != broker)
		seen++;
	sees = &sim->waits.names[id.name].slots[id.slot].seen[seen];
	if (sim_has(sim, TROUBLE_UNHEARD) && dice_percent(&sim->dice, 50)) {
		sees->unheard = sim->truth.moment + 1;
		NOTE(sim, .text = "a watch of {q} does not hear of its deletion",
		    .queue = queue_text(id));
		return true;
	}
	sees->heard = sim->truth.moment + 1;
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		struct belief *belief = &sim->book.beliefs[i];

		if (belief->daemon != seen || id.part != QUEUE_A || belief->name != id.name ||
		    belief->slot != id.slot)
			continue;
		/* A consumer on a channel that is stuck hears nothing. */
		if ((sim->plan.troubles & 1U << TROUBLE_SILENCE) == 0)
			belief->heard = sim->truth.moment;
		/*
		 * The cancel is delivered. Then A is checked, after the earlier requests. It may be
		 * the cancel of an earlier hold's watch: that of a new hold is placed later.
		 */
		if ((sim->plan.troubles & NEWS_MAY_BE_LATE) == 0)
			belief->heard_due = sim->now + WATCH_AFTER + 3 * 10 * sim->plan.usual;
	}
	return false;
}

/* ---- links ---- */

static struct sim_daemon *
any_daemon(struct sim *sim)
{
	return &sim->daemons[dice_below(&sim->dice, (uint64_t)sim->plan.daemons)];
}

static enum broker_link
any_link(struct sim *sim)
{
	if (sim->plan.quorum && dice_percent(&sim->dice, 60))
		return BROKER_QUORUM + (unsigned)dice_below(&sim->dice, LINKS - BROKER_QUORUM);
	return dice_percent(&sim->dice, 65) ? BROKER_LOCKS : BROKER_AUXILIARY;
}

static int64_t
any_time(struct sim *sim, int64_t most)
{
	return (int64_t)dice_below(&sim->dice, (uint64_t)most);
}

/* How long a link stays away: mostly a moment. */
static int64_t
any_back(struct sim *sim)
{
	return any_time(sim, dice_percent(&sim->dice, 80) ? 20 * NSEC_PER_MSEC : 2 * NSEC_PER_SEC);
}

/*
 * The end of a link that the daemon sees first: the world keeps its Bs for up to three heartbeats.
 */
static void
cut(struct sim *sim, struct sim_daemon *daemon)
{
	int64_t notice = 0;

	if (dice_percent(&sim->dice, 60))
		notice =
		    any_time(sim, dice_percent(&sim->dice, 50) ? 5 * NSEC_PER_MSEC : 3 * HEARTBEAT);
	ways_cut(daemon, any_link(sim), notice, any_back(sim));
}

/* Mostly shorter than a lease, sometimes much longer. */
static int64_t
any_pause(struct sim *sim)
{
	return any_time(sim, dice_percent(&sim->dice, 50) ? LEASE : 4 * HEARTBEAT);
}

static void
freeze(struct sim *sim, struct sim_daemon *daemon)
{
	unsigned ways = 1 + (unsigned)dice_below(&sim->dice, MEMORY_OUT | MEMORY_IN);
	enum broker_link link = any_link(sim);

	if (link != BROKER_LOCKS)
		ways_freeze(daemon, link);
	else
		ways_block(daemon, ways, dice_percent(&sim->dice, 70) ? any_pause(sim) : INT64_MAX);
}

/* One that is answered at once may end the belief: backwards. */
static void
verify_all_of(struct sim *sim, const struct sim_daemon *daemon)
{
	for (size_t i = sim->book.belief_count; i-- > 0;) {
		if (i < sim->book.belief_count && sim->book.beliefs[i].daemon == daemon->number)
			client_verify(sim, &sim->book.beliefs[i]);
	}
}

/* Mostly while it is asked for what it holds, so that it finds the answers when it goes on. */
static void
stop_daemon(struct sim *sim, struct sim_daemon *daemon)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);
	const struct belief *belief;

	if (sim->book.belief_count > 0 && roll < 50) {
		belief = &sim->book.beliefs[dice_below(&sim->dice, sim->book.belief_count)];
		daemon = &sim->daemons[belief->daemon];
		verify_all_of(sim, daemon);
	}
	if (!daemon->stopped && !daemon->late)
		ways_stop(daemon, any_pause(sim));
}

static void
restart(struct sim *sim)
{
	NOTE(sim, .text = "the broker restarts");
	sim->foreign_count = 0;
	sim->fuse_foreign = false;
	for (int i = 0; i < sim->plan.daemons; i++) {
		struct sim_daemon *daemon = &sim->daemons[i];

		ways_is_torn(daemon);
		for (int link = 0; link < LINKS && (link < BROKER_QUORUM || sim->plan.quorum);
		     link++)
			timers_set(daemon->heard, &daemon->cut[link],
			    sim->now + any_time(sim, 20 * NSEC_PER_MSEC));
	}
	memory_world_restart(sim->world);
}

static void
deny(struct sim *sim, struct sim_daemon *daemon)
{
	enum broker_link link = any_link(sim);

	if (link == BROKER_LOCKS && daemon->blocked != 0)
		return; /* it would not hear of it */
	NOTE(sim, .text = "{d} is {w}", .daemon = daemon->number,
	    .word = daemon->denied[link] ? "let in again" : "denied");
	sim->truth.denials++;
	timers_cancel(daemon->heard, &daemon->cut[link]);
	if (link == BROKER_LOCKS)
		daemon->safe_until = 0;
	if (daemon->denied[link])
		memory_broker_restore(daemon->broker, link);
	else
		memory_broker_deny(daemon->broker, link, "ACCESS_REFUSED");
	daemon->denied[link] = !daemon->denied[link];
}

/* ---- channels ---- */

struct pick {
	struct dice *dice;
	bool silent; /* of this sort */
	uint64_t channel;
	unsigned seen;
};

static void
pick_channel(void *ctx, uint64_t channel, bool is_silent)
{
	struct pick *pick = ctx;

	if (is_silent == pick->silent && dice_below(pick->dice, ++pick->seen) == 0)
		pick->channel = channel;
}

static uint64_t
any_channel(struct sim *sim, const struct sim_daemon *daemon, enum broker_link link, bool is_silent)
{
	struct pick pick = {.dice = &sim->dice, .silent = is_silent};

	memory_broker_each_channel(daemon->broker, link, pick_channel, &pick);
	return pick.channel;
}

/* A channel that is stuck closes nothing, so only one that is not. */
static void
close_channel(struct sim *sim)
{
	struct sim_daemon *daemon = any_daemon(sim);
	enum broker_link link = any_link(sim);
	uint64_t channel = any_channel(sim, daemon, link, false);

	if (channel == 0)
		return;
	NOTE(sim, .text = "the broker closes channel {n} of {d}: 406", .daemon = daemon->number,
	    .n = (int64_t)channel);
	daemon->disturbed = sim->now;
	memory_broker_close_channel(daemon->broker, channel, 406, "PRECONDITION_FAILED - timeout");
	truth_find_freed(sim, true);
}

/* The end of a silent channel: its link ends. */
static void
end_silence(struct sim *sim, struct sim_daemon *daemon, enum broker_link link)
{
	if (any_channel(sim, daemon, link, true) != 0)
		ways_cut(daemon, link, 0, 0);
}

/* ---- daemons ---- */

static void
kill_daemon(struct sim *sim, struct sim_daemon *daemon)
{
	NOTE(sim, .text = "{d} is killed and started again", .daemon = daemon->number);
	daemon_kill(daemon);
	daemon_start(sim, daemon->number);
}

static void
end_daemon(struct sim *sim, struct sim_daemon *daemon)
{
	sim->truth.moment++;
	replace_give_up(daemon);
	if (!daemon->draining) {
		NOTE(sim, .text = "{d} is told to stop", .daemon = daemon->number);
		daemon->draining = true;
		lock_drain(daemon->engine);
		for (size_t i = 0; i < sim->book.ask_count; i++) {
			if (sim->book.asks[i].daemon == daemon->number &&
			    sim->book.asks[i].what == ASK_ACQUIRE)
				check_fail(sim, 3, "a draining daemon lets an acquire wait");
		}
	} else if (!daemon->abandoned) {
		NOTE(sim, .text = "{d} takes away what is left", .daemon = daemon->number);
		daemon->abandoned = true;
		if (dice_percent(&sim->dice, 50))
			verify_all_of(sim, daemon);
		lock_abandon(daemon->engine);
		for (size_t i = 0; i < sim->book.belief_count; i++) {
			if (sim->book.beliefs[i].daemon == daemon->number)
				check_fail(sim, 4, "lock %d outlives the stop of its daemon",
				    (int)sim->book.beliefs[i].lock);
		}
	} else {
		check_stopped(sim, daemon);
		kill_daemon(sim, daemon);
	}
}

/* ---- all of them ---- */

void
trouble_init(struct sim *sim, struct memory_behaviour *ret_mode)
{
	meddle_init(sim);
	fuse_init(sim);
	homes_init(sim);
	*ret_mode = (struct memory_behaviour){
	    .delay = delay,
	    .silent = silent,
	    .nacks = nacks,
	    .refuses = refuses,
	    .holds_acks = holds_acks,
	    .performed = truth_performed,
	    .unheard = unheard,
	    .notice = ways_notice,
	    .ctx = sim,
	};
}

/* The watches of one A are cancelled, or those of a daemon end with their channel. */
static void
cancel_watches(struct sim *sim, struct sim_daemon *daemon)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names),
	    slot = 1 + (int)dice_below(&sim->dice, 3);

	if (sim->plan.consumers && dice_percent(&sim->dice, 30)) {
		meddle_cancel_b(sim);
		return;
	}
	if (dice_percent(&sim->dice, 20) && !daemon->stopped) {
		NOTE(sim, .text = "the watches of {d} end with their channel",
		    .daemon = daemon->number);
		memory_broker_close_watches(daemon->broker);
	} else if (memory_world_cancel(sim->world, queue_a(name, slot))) {
		NOTE(sim, .text = "the watches of {q} are cancelled", .queue = queue_a(name, slot));
	}
}

static void
alarm_changes(struct sim *sim)
{
	NOTE(sim, .text = "an alarm {w}", .word = sim->alarm ? "ends" : "begins");
	if (sim->alarm) {
		sim->alarm_ended = sim->truth.moment;
		sim->alarm_ended_at = sim->now;
	} else {
		sim->waits.alarm_began = sim->now;
	}
	sim->alarm = !sim->alarm;
	memory_world_block(sim->world, sim->alarm);
}

static void
make(struct sim *sim, enum trouble trouble)
{
	struct sim_daemon *daemon = any_daemon(sim);

	/* Troubles that need a running daemon. */
	if (daemon->stopped && (trouble == TROUBLE_CUT || trouble == TROUBLE_DENY ||
				   trouble == TROUBLE_SILENCE || trouble == TROUBLE_DRAIN))
		return;
	switch (trouble) {
	case TROUBLE_CUT:
		cut(sim, daemon);
		break;
	case TROUBLE_FORSAKE:
		ways_tear(daemon, any_link(sim), any_time(sim, 3 * HEARTBEAT));
		break;
	case TROUBLE_FREEZE:
		freeze(sim, daemon);
		break;
	case TROUBLE_STOP:
		stop_daemon(sim, daemon);
		break;
	case TROUBLE_SUSPEND:
		if (!daemon->stopped && !daemon->late)
			ways_suspend(daemon, any_pause(sim));
		break;
	case TROUBLE_RESTART:
		restart(sim);
		break;
	case TROUBLE_ALARM:
		alarm_changes(sim);
		break;
	case TROUBLE_DENY:
		deny(sim, daemon);
		break;
	case TROUBLE_SILENCE:
		end_silence(sim, daemon, any_link(sim));
		break;
	case TROUBLE_CLOSE:
		close_channel(sim);
		break;
	case TROUBLE_LOSE_B:
		meddle_lose_b(sim);
		break;
	case TROUBLE_LOSE_A:
		meddle_lose_a(sim);
		break;
	case TROUBLE_CANCEL:
		cancel_watches(sim, daemon);
		break;
	case TROUBLE_FOREIGN:
		meddle_foreign(sim);
		break;
	case TROUBLE_BY_NAME:
		meddle_by_name(sim);
		break;
	case TROUBLE_KILL:
		if (dice_percent(&sim->dice, 40))
			kill_daemon(sim, daemon);
		break;
	case TROUBLE_DRAIN:
		end_daemon(sim, daemon);
		break;
	case TROUBLE_HINTS:
		meddle_wait_queues(sim);
		break;
	case TROUBLE_HOMES:
		homes_step(sim);
		break;
	case TROUBLE_CONVERT:
		meddle_convert(sim);
		break;
	case TROUBLE_FUSE:
		fuse_light(sim);
		break;
	case TROUBLE_REPLACE:
		if (!sim_is_deaf(daemon) && !daemon->late && !daemon->draining)
			replace_begin(daemon);
		break;
	case TROUBLE_NACK: /* these are in behaviour and in the plan */
	case TROUBLE_UNHEARD:
	case TROUBLE_REFUSE:
	case TROUBLE_LATE:
	case TROUBLE_FEW_CHANNELS:
	case TROUBLES:
		break;
	}
}

void
trouble_step(struct sim *sim)
{
	enum trouble trouble = (enum trouble)dice_below(&sim->dice, TROUBLES);

	/* The next one that the schedule has, going round. */
	for (int i = 0; i < TROUBLES && !sim_has(sim, trouble); i++)
		trouble = (trouble + 1) % TROUBLES;
	if (!sim_has(sim, trouble))
		return;
	sim->truth.moment++;
	check_is_caused(sim);
	make(sim, trouble);
}

void
trouble_end(struct sim *sim)
{
	struct lock_counts counts;

	NOTE(sim, .text = "the troubles are over");
	sim->calm = true;
	fuse_out(sim);
	if (sim->alarm)
		alarm_changes(sim);
	meddle_end(sim);
	homes_end(sim);
	for (int i = 0; i < sim->plan.daemons; i++) {
		struct sim_daemon *daemon = &sim->daemons[i];

		ways_free(daemon);
		replace_give_up(daemon);
		for (int link = 0; link < LINKS; link++) {
			daemon->denied[link] = false;
			memory_broker_restore(daemon->broker, link);
		}
		for (int link = BROKER_AUXILIARY; link < LINKS; link++)
			end_silence(sim, daemon, link);
		/*
		 * A mutex that the broker would not delete goes with its link, as when that is
		 * idle.
		 */
		if (sim->truth.mutex_stayed)
			ways_cut(daemon, BROKER_AUXILIARY, 0, 0);
		/* The engine sees to this itself where nothing is held, nor going to be. */
		lock_get_counts(daemon->engine, &counts);
		if (counts.holds + counts.waiting > 0 || sim->plan.consumers)
			end_silence(sim, daemon, BROKER_LOCKS);
	}
}
