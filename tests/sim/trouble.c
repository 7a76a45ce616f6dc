#include "tests/sim/trouble.h"

#include "tests/sim/check.h"
#include "tests/sim/clients.h"
#include "tests/sim/daemons.h"
#include "tests/sim/fuse.h"
#include "tests/sim/ways.h"

/* A B that the server's bug deletes is deleted so soon after its declare. */
#define BY_NAME_WITHIN (30 * NSEC_PER_MSEC)
#define BY_NAME_SLOTS 4

/* The troubles that hold up what a watch has to say, or the look that follows. */
#define NEWS_MAY_BE_LATE (~(1U << TROUBLE_CANCEL | 1U << TROUBLE_UNHEARD | 1U << TROUBLE_KILL))

/* ---- nature ---- */

static int64_t
delay(void *ctx)
{
	struct sim *sim = ctx;
	int64_t usual = sim->plan.usual;

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

	return sim_has(sim, TROUBLE_SILENCE) && dice_percent(&sim->dice, 1);
}

static bool
nacks(void *ctx)
{
	struct sim *sim = ctx;

	return sim_has(sim, TROUBLE_NACK) && dice_percent(&sim->dice, 3);
}

static bool
refuses(void *ctx)
{
	struct sim *sim = ctx;

	return sim_has(sim, TROUBLE_REFUSE) && dice_percent(&sim->dice, 2);
}

/* Of all that is deleted while a watch is there; what is heard has to be told. */
static bool
unheard(void *ctx, const struct broker *broker, const char *queue)
{
	struct sim *sim = ctx;
	struct queue_id id = queue_find(queue);

	if (sim_has(sim, TROUBLE_UNHEARD) && dice_percent(&sim->dice, 50)) {
		NOTE(sim, .text = "a watch of {q} does not hear of its deletion",
		    .queue = queue_text(id));
		return true;
	}
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		struct belief *belief = &sim->book.beliefs[i];

		if (sim->daemons[belief->daemon].broker != broker || id.part != QUEUE_A ||
		    belief->name != id.name || belief->slot != id.slot)
			continue;
		/* A consumer on a lane that is stuck hears nothing. */
		if ((sim->plan.troubles & 1U << TROUBLE_SILENCE) == 0)
			belief->heard = sim->truth.moment;
		/* The cancel is delivered, then A is looked at behind what was asked before. */
		if ((sim->plan.troubles & NEWS_MAY_BE_LATE) == 0)
			belief->heard_due = sim->now + 3 * 10 * sim->plan.usual;
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
	return dice_percent(&sim->dice, 65) ? BROKER_HOLD : BROKER_SIDE;
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

/* The end of a link that the daemon sees first: the world keeps its Bs for up to three heartbeats. */
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

	if (any_link(sim) == BROKER_SIDE)
		ways_freeze_side(daemon);
	else
		ways_block(daemon, ways, dice_percent(&sim->dice, 70) ? any_pause(sim) : INT64_MAX);
}

/* Mostly while something is asked, whose answer it finds when it goes on. */
static void
stop_daemon(struct sim *sim, struct sim_daemon *daemon)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);
	const struct belief *belief;

	if (sim->book.belief_count > 0 && roll < 50) {
		belief = &sim->book.beliefs[dice_below(&sim->dice, sim->book.belief_count)];
		daemon = &sim->daemons[belief->daemon];
		client_verify(sim, belief);
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
		for (int link = 0; link < LINKS; link++)
			timers_set(daemon->heard, &daemon->cut[link],
			    sim->now + any_time(sim, 20 * NSEC_PER_MSEC));
	}
	memory_world_restart(sim->world);
}

static void
deny(struct sim *sim, struct sim_daemon *daemon)
{
	enum broker_link link = any_link(sim);

	if (link == BROKER_HOLD && daemon->blocked != 0)
		return; /* it would not hear of it */
	NOTE(sim, .text = "{d} is {w}", .daemon = daemon->number,
	    .word = daemon->denied[link] ? "let in again" : "denied");
	sim->truth.denials++;
	timers_cancel(daemon->heard, &daemon->cut[link]);
	if (link == BROKER_HOLD)
		daemon->safe_until = 0;
	if (daemon->denied[link])
		memory_broker_restore(daemon->broker, link);
	else
		memory_broker_deny(daemon->broker, link, "ACCESS_REFUSED");
	daemon->denied[link] = !daemon->denied[link];
}

/* ---- lanes ---- */

struct pick {
	struct dice *dice;
	bool silent; /* of this sort */
	uint64_t lane;
	unsigned seen;
};

static void
pick_lane(void *ctx, uint64_t lane, bool is_silent)
{
	struct pick *pick = ctx;

	if (is_silent == pick->silent && dice_below(pick->dice, ++pick->seen) == 0)
		pick->lane = lane;
}

static uint64_t
any_lane(struct sim *sim, const struct sim_daemon *daemon, enum broker_link link, bool is_silent)
{
	struct pick pick = {.dice = &sim->dice, .silent = is_silent};

	memory_broker_each_lane(daemon->broker, link, pick_lane, &pick);
	return pick.lane;
}

/* A channel that is stuck closes nothing, so only one that is not. */
static void
close_lane(struct sim *sim)
{
	struct sim_daemon *daemon = any_daemon(sim);
	enum broker_link link = any_link(sim);
	uint64_t lane = any_lane(sim, daemon, link, false);

	if (lane == 0)
		return;
	NOTE(sim, .text = "the broker closes lane {n} of {d}: 406", .daemon = daemon->number,
	    .n = (int64_t)lane);
	daemon->disturbed = sim->now;
	memory_broker_close_lane(daemon->broker, lane, 406, "PRECONDITION_FAILED - timeout");
}

/* What a silent lane comes to at last: its link's end. */
static void
end_silence(struct sim *sim, struct sim_daemon *daemon, enum broker_link link)
{
	if (any_lane(sim, daemon, link, true) != 0)
		ways_cut(daemon, link, 0, 0);
}

/* ---- queues ---- */

static int
any_name(struct sim *sim)
{
	return (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
}

static void
put_foreign(struct sim *sim, struct queue_id id)
{
	if (sim->foreign_count == FOREIGN_MAX || !truth_put_foreign(sim, id))
		return;
	NOTE(sim, .text = "a foreign client takes {q}", .queue = queue_text(id));
	sim->foreign[sim->foreign_count++] = id;
}

static void
end_foreign(struct sim *sim, size_t which)
{
	NOTE(sim, .text = "a foreign client leaves {q}", .queue = queue_text(sim->foreign[which]));
	memory_world_remove(sim->world, queue_text(sim->foreign[which]));
	sim->foreign[which] = sim->foreign[--sim->foreign_count];
}

static void
foreign(struct sim *sim)
{
	struct queue_id id = {.part = QUEUE_B, .name = any_name(sim)};

	if (sim->foreign_count > 0 && dice_percent(&sim->dice, 50)) {
		end_foreign(sim, dice_below(&sim->dice, sim->foreign_count));
		return;
	}
	if (dice_percent(&sim->dice, 15))
		id.part = QUEUE_ADMIN;
	else if (dice_percent(&sim->dice, 15))
		id = (struct queue_id){.part = QUEUE_DIRECTORY_MUTEX};
	else
		id.slot = (sim->plan.python ? 1 : 0) + (int)dice_below(&sim->dice, 3);
	put_foreign(sim, id);
}

static bool
is_foreign(const struct sim *sim, int name, int slot)
{
	for (size_t i = 0; i < sim->foreign_count; i++) {
		const struct queue_id *id = &sim->foreign[i];

		if (id->part == QUEUE_B && id->name == name && id->slot == slot)
			return true;
	}
	return false;
}

static void
lose_b(struct sim *sim)
{
	const struct belief *belief;
	int name, slot;

	if (sim->book.belief_count == 0)
		return;
	belief = &sim->book.beliefs[dice_below(&sim->dice, sim->book.belief_count)];
	name = belief->name;
	slot = belief->slot;
	if (belief->slotless || !truth_is_ours(sim, belief->daemon, name, slot) ||
	    is_foreign(sim, name, slot) || !truth_remove_b(sim, name, slot, false))
		return;
	NOTE(sim, .text = "{q} is deleted behind its holder's back", .queue = queue_b(name, slot));
	if (dice_percent(&sim->dice, 30))
		put_foreign(sim, (struct queue_id){QUEUE_B, name, slot});
}

static void
bring_back_a(struct sim *sim, int name, int slot, bool otherwise)
{
	if (truth_put_a(sim, name, slot, otherwise))
		NOTE(sim, .text = "{q} is declared by somebody", .queue = queue_a(name, slot));
}

static void
on_a_back(void *ctx, uint64_t id)
{
	struct sim *sim = ctx;

	(void)id;
	bring_back_a(sim, sim->a_back_queue.name, sim->a_back_queue.slot, false);
}

static void
lose_a(struct sim *sim)
{
	int name = any_name(sim), slot = 1 + (int)dice_below(&sim->dice, 3);
	bool otherwise = dice_percent(&sim->dice, 20);
	const struct belief *belief;

	if (sim->book.belief_count > 0 && dice_percent(&sim->dice, 60)) {
		belief = &sim->book.beliefs[dice_below(&sim->dice, sim->book.belief_count)];
		name = belief->name;
		slot = belief->slot == 0 ? slot : belief->slot;
	}
	if (!truth_remove_a(sim, name, slot)) {
		bring_back_a(sim, name, slot, otherwise);
		return;
	}
	NOTE(sim, .text = "{q} is deleted by somebody", .queue = queue_a(name, slot));
	if (!timer_is_set(&sim->a_back) && dice_percent(&sim->dice, 50)) {
		sim->a_back_queue = (struct queue_id){QUEUE_A, name, slot};
		timers_set(
		    sim->timers, &sim->a_back, sim->now + any_time(sim, 4 * sim->plan.usual));
	}
}

/* ---- the server's bug ---- */

static void
on_by_name(void *ctx, uint64_t id)
{
	struct sim *sim = ctx;
	const struct queue_id *queue = &sim->by_name_queue;
	const struct truth_slot *slot = &sim->truth.names[queue->name].slots[queue->slot];

	(void)id;
	if (slot->claimed != sim->by_name_claim || slot->owner == 0 ||
	    memory_world_owner(sim->world, queue_text(*queue)) != slot->owner)
		return;
	NOTE(sim, .text = "{q} is deleted by name", .queue = queue_text(*queue));
	truth_remove_b(sim, queue->name, queue->slot, true);
	if (!sim->calm && dice_percent(&sim->dice, 30))
		put_foreign(sim, *queue);
}

/* A B that was declared just now is to be deleted: whichever comes first, from a random one on. */
static void
delete_by_name(struct sim *sim)
{
	int name = any_name(sim), first = (int)dice_below(&sim->dice, BY_NAME_SLOTS);

	for (int i = 0; i < BY_NAME_SLOTS; i++) {
		int slot = (first + i) % BY_NAME_SLOTS;
		const struct truth_slot *of = &sim->truth.names[name].slots[slot];
		int64_t when = of->claimed_at + any_time(sim, BY_NAME_WITHIN);

		if (of->owner == 0 || when < sim->now || timer_is_set(&sim->by_name))
			continue;
		sim->by_name_queue = (struct queue_id){QUEUE_B, name, slot};
		sim->by_name_claim = of->claimed;
		timers_set(sim->timers, &sim->by_name, when);
	}
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
		lock_abandon(daemon->engine);
		for (size_t i = 0; i < sim->book.belief_count; i++) {
			if (sim->book.beliefs[i].daemon == daemon->number)
				check_fail(sim, 4, "lock %d was not taken away",
				    (int)sim->book.beliefs[i].lock);
		}
	} else {
		check_stopped(sim, daemon);
		kill_daemon(sim, daemon);
	}
}

/* ---- all of them ---- */

void
trouble_init(struct sim *sim, struct memory_nature *ret_nature)
{
	timer_init(&sim->by_name, on_by_name, sim, 0);
	timer_init(&sim->a_back, on_a_back, sim, 0);
	fuse_init(sim);
	*ret_nature = (struct memory_nature){
	    .delay = delay,
	    .silent = silent,
	    .nacks = nacks,
	    .refuses = refuses,
	    .performed = truth_performed,
	    .unheard = unheard,
	    .notice = ways_notice,
	    .ctx = sim,
	};
}

/* The watches of one A are cancelled, or those of a daemon end with their lane. */
static void
cancel_watches(struct sim *sim, struct sim_daemon *daemon)
{
	int name = any_name(sim), slot = 1 + (int)dice_below(&sim->dice, 3);

	if (dice_percent(&sim->dice, 20) && !daemon->stopped) {
		NOTE(sim, .text = "the watches of {d} end with their lane",
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
	if (sim->alarm)
		sim->alarm_ended = sim->truth.moment;
	sim->alarm = !sim->alarm;
	memory_world_block(sim->world, sim->alarm);
}

static void
make(struct sim *sim, enum trouble trouble)
{
	struct sim_daemon *daemon = any_daemon(sim);

	/* What a stopped daemon would have to hear or to do. */
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
		close_lane(sim);
		break;
	case TROUBLE_LOSE_B:
		lose_b(sim);
		break;
	case TROUBLE_LOSE_A:
		lose_a(sim);
		break;
	case TROUBLE_CANCEL:
		cancel_watches(sim, daemon);
		break;
	case TROUBLE_FOREIGN:
		foreign(sim);
		break;
	case TROUBLE_BY_NAME:
		delete_by_name(sim);
		break;
	case TROUBLE_KILL:
		if (dice_percent(&sim->dice, 40))
			kill_daemon(sim, daemon);
		break;
	case TROUBLE_DRAIN:
		end_daemon(sim, daemon);
		break;
	case TROUBLE_FUSE:
		fuse_light(sim);
		break;
	case TROUBLE_NACK: /* these are in nature and in the plan */
	case TROUBLE_UNHEARD:
	case TROUBLE_REFUSE:
	case TROUBLE_LATE:
	case TROUBLE_FEW_LANES:
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
	while (sim->foreign_count > 0)
		end_foreign(sim, 0);
	for (int i = 0; i < sim->plan.daemons; i++) {
		struct sim_daemon *daemon = &sim->daemons[i];

		ways_free(daemon);
		for (int link = 0; link < LINKS; link++) {
			daemon->denied[link] = false;
			memory_broker_restore(daemon->broker, link);
		}
		end_silence(sim, daemon, BROKER_SIDE);
		/* A mutex that the broker would not delete goes with its link, as when that is idle. */
		if (sim->truth.mutex_stayed)
			ways_cut(daemon, BROKER_SIDE, 0, 0);
		/* The engine sees to this itself where nothing is held, nor going to be. */
		lock_get_counts(daemon->engine, &counts);
		if (counts.holds + counts.waiting > 0)
			end_silence(sim, daemon, BROKER_HOLD);
	}
}
