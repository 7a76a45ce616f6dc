#include "tests/sim/crowd.h"

#include "protocol/duration.h"
#include "tests/sim/admins.h"
#include "tests/sim/check.h"
#include "tests/sim/clients.h"
#include "tests/sim/replace.h"
#include "tests/sim/ways.h"

/* The most grants to others before a daemon with a waiter gets one, and the grants in all. */
#define TURNS_OF_OTHERS(sim) (240 + 40 * (sim)->plan.settings.max_local_handoffs)
#define TURNS(sim) (TURNS_OF_OTHERS(sim) + 60)
/* The number of waiters that come during a release. */
#define MEETINGS 4
/* A crowd gathers about few slots. */
#define CROWD_SLOTS 3
/* The number of waiters that leave the wait queue during a release. */
#define WAVERS 20
/* The number of waiters, and of newcomers, in races for a mutex. */
#define NEWCOMERS 20
/* The number of clients that come while an unlimited semaphore gets a limit. */
#define LATECOMERS 60
/* The waiters at each daemon, and the waiters if one daemon alone has any. */
#define WAITERS 2
#define WAITERS_ALONE 6
/* If one daemon alone hands a slot off for so long, it withholds the slot for clients that poll. */
#define ALONE_MOST (250 * NSEC_PER_MSEC)
/* A daemon watches its slots then. */
#define WATCHED (500 * NSEC_PER_MSEC)
/* A place in the wait queue is kept for so long. */
#define LINGER (200 * NSEC_PER_MSEC)

static bool
is_over(const struct sim *sim)
{
	return sim->violation[0] != '\0';
}

static struct sim_daemon *
any_daemon(struct sim *sim)
{
	return &sim->daemons[dice_below(&sim->dice, (uint64_t)sim->plan.daemons)];
}

void
crowd_waits(struct sim *sim)
{
	int64_t time = 4 * sim->plan.settings.rescan_interval;
	uint64_t before[DAEMONS_MAX];
	bool waits = false, asks = false;

	for (size_t i = 0; i < sim->book.ask_count; i++) {
		waits |= sim->book.asks[i].what == ASK_ACQUIRE;
		asks |=
		    sim->book.asks[i].what != ASK_ACQUIRE; /* it probes holders again and again */
	}
	if (!waits || asks || !dice_percent(&sim->dice, 30))
		return;
	/* Daemons scan for a slot that was just repaired. */
	sim_pass(sim, sim->plan.settings.rescan_interval * 5 / 4);
	for (int i = 0; i < DAEMONS_MAX; i++)
		before[i] = sim->waits.published[i];
	sim_pass(sim, time);
	if (!is_over(sim))
		check_idle(sim, before, time);
}

/* ---- in turn ---- */

struct round_robin {
	int name, daemons;
	unsigned grants, of_others[DAEMONS_MAX];
};

static unsigned
waiting_at(const struct sim *sim, int daemon)
{
	unsigned waiting = 0;

	for (size_t i = 0; i < sim->book.ask_count; i++)
		waiting +=
		    sim->book.asks[i].what == ASK_ACQUIRE && sim->book.asks[i].daemon == daemon;
	return waiting;
}

static void
queue_up_at(struct sim *sim, struct sim_daemon *daemon, int name, unsigned waiters)
{
	while (!daemon->draining && waiting_at(sim, daemon->number) < waiters &&
	       client_acquire(sim, daemon, name, LOCK_KIND_SEMAPHORE, DURATION_FOREVER, 0))
		continue;
}

static void
queue_up(struct sim *sim, const struct round_robin *turns)
{
	for (int i = 0; i < sim->plan.daemons; i++)
		queue_up_at(sim, &sim->daemons[i], turns->name, WAITERS);
}

/* Each holder releases while there are waiters. */
static void
count_and_release(struct sim *sim, struct round_robin *turns)
{
	while (sim->book.belief_count > 0 && !is_over(sim)) {
		int holder = sim->book.beliefs[0].daemon;

		turns->grants++;
		for (int i = 0; i < sim->plan.daemons; i++) {
			if (i == holder || waiting_at(sim, i) == 0)
				turns->of_others[i] = 0;
			else if (++turns->of_others[i] > TURNS_OF_OTHERS(sim))
				check_fail(sim, 18, "%u turns, and none for daemon %d",
				    TURNS_OF_OTHERS(sim), i + 1);
		}
		queue_up(sim, turns);
		client_release(sim, &sim->book.beliefs[0]);
	}
}

/* Whether no limit of a connection and no permission keeps clients out. */
static bool
is_open(const struct sim *sim)
{
	return sim->plan.settings.max_locks_per_connection > PLAN_FEW &&
	       sim->plan.settings.max_waits_per_connection > PLAN_FEW &&
	       (sim->plan.troubles & 1U << TROUBLE_REFUSE) == 0;
}

static bool
is_small(const struct sim *sim, int name)
{
	int size = truth_size(&sim->truth, name);

	return size >= 1 && size <= CROWD_SLOTS && !sim->truth.names[name].unlimited;
}

/* Whether a crowd can gather about it: with few slots, and nothing that keeps it out. */
static bool
is_fit(const struct sim *sim, int name)
{
	return is_small(sim, name) && is_open(sim) && !sim_is_short(sim);
}

static void
release_all(struct sim *sim)
{
	while (sim->book.belief_count > 0 && !is_over(sim))
		client_release(sim, &sim->book.beliefs[0]);
}

/* Ends all waiters and holders. */
static void
disperse(struct sim *sim)
{
	while (sim->book.ask_count + sim->book.belief_count > 0 && !is_over(sim)) {
		for (size_t i = sim->book.ask_count; i-- > 0;) {
			if (sim->book.asks[i].what == ASK_ACQUIRE)
				client_cancel(sim, &sim->book.asks[i]);
		}
		sim_pass(sim, 10 * NSEC_PER_MSEC);
		release_all(sim);
	}
}

void
crowd_takes_turns(struct sim *sim)
{
	struct round_robin turns = {.name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names)};
	int64_t until = sim->now + 60 * NSEC_PER_SEC;

	if (!is_fit(sim, turns.name) || !dice_percent(&sim->dice, 20))
		return;
	queue_up(sim, &turns);
	if (sim->book.ask_count == 0)
		return; /* all are being stopped */
	while (turns.grants < TURNS(sim) && !is_over(sim) && sim->now < until) {
		queue_up(sim, &turns);
		if (!sim_next(sim, until))
			break;
		count_and_release(sim, &turns);
	}
	if (!is_over(sim) && turns.grants == 0)
		check_fail(sim, 16, "a slot is free, and no waiter gets it");
	disperse(sim);
}

/* A waiter that comes while all holders release gets a hint, or sees the free slot itself. */
void
crowd_meets(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	struct sim_daemon *holder = any_daemon(sim), *other = any_daemon(sim);

	if (!is_fit(sim, name) || holder->draining || other->draining ||
	    !dice_percent(&sim->dice, 30))
		return;
	for (int i = 0; i < MEETINGS && !is_over(sim); i++) {
		for (int slot = truth_size(&sim->truth, name); slot > 0; slot--)
			client_acquire(sim, holder, name, LOCK_KIND_SEMAPHORE, 0, 0);
		sim_pass(sim, 20 * NSEC_PER_MSEC);
		client_acquire(sim, other, name, LOCK_KIND_SEMAPHORE, DURATION_FOREVER, 0);
		sim_pass(sim, (int64_t)dice_below(&sim->dice, 4 * NSEC_PER_MSEC));
		release_all(sim);
		/* Nobody has a place in the wait queue after this. */
		sim_pass(sim, NSEC_PER_SEC);
		release_all(sim);
		sim_pass(sim, NSEC_PER_SEC / 4);
	}
	disperse(sim);
}

/* The loser of a race, which had a hint, looks again when the winner has given the mutex back. */
void
crowd_races(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	uint64_t moment = 1 + (uint64_t)sim->plan.usual;

	if (!is_fit(sim, name) || sim->plan.python || !dice_percent(&sim->dice, 40))
		return;
	for (int i = 0; i < NEWCOMERS && !is_over(sim); i++) {
		int64_t until;

		client_acquire(sim, any_daemon(sim), name, LOCK_KIND_MUTEX, DURATION_FOREVER, 0);
		sim_pass(sim, (int64_t)dice_below(&sim->dice, moment));
		client_acquire(sim, any_daemon(sim), name, LOCK_KIND_MUTEX, 0, 0);
		until = sim->now + 2 * (int64_t)dice_below(&sim->dice, 4 * moment);
		while (!is_over(sim) && sim_next(sim, until))
			release_all(sim);
	}
	disperse(sim);
}

/* The slots of that daemon. Not those that clients get only then. */
static void
release_each_once(struct sim *sim, const struct sim_daemon *daemon)
{
	uint64_t locks[CROWD_SLOTS];
	size_t count = 0;

	for (size_t i = 0; i < sim->book.belief_count && count < CROWD_SLOTS; i++) {
		if (sim->book.beliefs[i].daemon == daemon->number)
			locks[count++] = sim->book.beliefs[i].lock;
	}
	while (count > 0 && !is_over(sim))
		client_release(sim, book_find_belief(&sim->book, daemon->number, locks[--count]));
}

/* ---- unheard ---- */

void
crowd_is_unheard(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	struct sim_daemon *daemon = any_daemon(sim);

	/* Delays by this are excused if links freeze. */
	if (!is_fit(sim, name) || daemon->draining || !dice_percent(&sim->dice, 50) ||
	    (sim->plan.troubles & 1U << TROUBLE_FREEZE) == 0)
		return;
	queue_up_at(sim, daemon, name, 1 + CROWD_SLOTS);
	sim_pass(sim, WATCHED);
	/* A slot of such a hand-off was not checked since. */
	release_each_once(sim, daemon);
	queue_up_at(sim, daemon, name, CROWD_SLOTS);
	ways_block(daemon, MEMORY_IN | MEMORY_OUT, 2 * HEARTBEAT);
	/* The lease is not over yet, but may be good for less than half a heartbeat. */
	sim_pass(sim, HEARTBEAT + (int64_t)dice_below(&sim->dice, HEARTBEAT / 2));
	release_each_once(sim, daemon);
	/* Until the broker has given up silent links. */
	sim_pass(sim, 5 * HEARTBEAT);
	disperse(sim);
}

/* ---- holder queues deleted by hand ---- */

/* The exclusive queues of the daemon's slots are deleted. durable: somebody makes durable ones. */
static void
lose_holders(struct sim *sim, const struct sim_daemon *daemon, int name, bool durable)
{
	for (int slot = truth_size(&sim->truth, name); slot > 0; slot--) {
		const char *queue = queue_b(name, slot);

		if (!truth_is_ours(sim, daemon->number, name, slot) ||
		    memory_world_durable(sim->world, queue) ||
		    !truth_remove_b(sim, name, slot, false))
			continue;
		NOTE(sim, .text = "{q} is deleted behind its holder's back", .queue = queue);
		if (durable && truth_put_holder(sim, name, slot))
			NOTE(sim, .text = "{q} is made durable by somebody", .queue = queue);
	}
}

void
crowd_loses_holders(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	struct sim_daemon *daemon = any_daemon(sim), *other = any_daemon(sim);
	bool durable = sim->plan.consumers && dice_percent(&sim->dice, 50);

	if (!is_fit(sim, name) || daemon->draining || other->draining ||
	    !dice_percent(&sim->dice, 20))
		return;
	/* A slot without a waiter is not handed off. */
	queue_up_at(
	    sim, daemon, name, durable ? (unsigned)truth_size(&sim->truth, name) : 1 + CROWD_SLOTS);
	sim_pass(sim, WATCHED);
	lose_holders(sim, daemon, name, durable);
	/* Another daemon may take the durable ones. */
	if (durable)
		queue_up_at(sim, other, name, 1 + CROWD_SLOTS);
	/* The daemon may know of it, and have claimed them again. */
	sim_pass(sim, (int64_t)dice_below(&sim->dice, HEARTBEAT / 2));
	release_each_once(sim, daemon);
	sim_pass(sim, NSEC_PER_SEC);
	disperse(sim);
}

/* ---- a daemon without a channel ---- */

/*
 * Takes all locks except the mutex of that name, as far as there are channels. -1: all locks. No
 * client waits.
 */
static void
take_all_but(struct sim *sim, struct sim_daemon *daemon, int name)
{
	for (int i = 0; i < sim->plan.names; i++) {
		if (i != name)
			client_acquire(sim, daemon, i, LOCK_KIND_MUTEX, 0, 0);
		for (int slot = truth_size(&sim->truth, i); slot > 0; slot--)
			client_acquire(sim, daemon, i, LOCK_KIND_SEMAPHORE, 0, 0);
	}
	sim_pass(sim, 200 * NSEC_PER_MSEC);
}

static void
release_at(struct sim *sim, const struct sim_daemon *daemon)
{
	for (size_t i = sim->book.belief_count; i-- > 0;) {
		if (sim->book.beliefs[i].daemon == daemon->number && !book_is_full(&sim->book))
			client_release(sim, &sim->book.beliefs[i]);
	}
}

void
crowd_starves(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	struct sim_daemon *poor = any_daemon(sim), *other = any_daemon(sim);

	if (!sim_is_short(sim) || sim->plan.python || poor == other || poor->draining ||
	    other->draining || !is_open(sim))
		return;
	take_all_but(sim, poor, name);
	for (int i = 0; i < MEETINGS && !is_over(sim); i++) {
		struct sim_daemon *third = any_daemon(sim);

		client_acquire(sim, other, name, LOCK_KIND_MUTEX, 0, 0);
		sim_pass(sim, 200 * NSEC_PER_MSEC);
		client_acquire(sim, poor, name, LOCK_KIND_MUTEX, DURATION_FOREVER, 0);
		sim_pass(sim, 200 * NSEC_PER_MSEC);
		if (!third->draining)
			client_acquire(sim, third, name, LOCK_KIND_MUTEX, DURATION_FOREVER, 0);
		sim_pass(sim, 200 * NSEC_PER_MSEC);
		/*
		 * A waiter there gets it within a moment, although the poor daemon may get the hint
		 * first.
		 */
		for (int j = 0; j < 2; j++) {
			release_at(sim, other);
			sim_pass(sim, NSEC_PER_SEC);
			release_at(sim, third);
			sim_pass(sim, NSEC_PER_SEC);
		}
	}
	/* And poor, when it has a channel again. */
	while (sim->book.belief_count > 0 && !is_over(sim)) {
		for (int i = 0; i < sim->plan.daemons; i++)
			release_at(sim, &sim->daemons[i]);
		sim_pass(sim, NSEC_PER_SEC);
	}
	if (!is_over(sim))
		disperse(sim);
}

void
crowd_hands_over(struct sim *sim)
{
	struct sim_daemon *daemon;
	int name;

	if (!sim_is_short(sim))
		return;
	name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	daemon = any_daemon(sim);
	if (sim->plan.python || daemon->draining || !is_open(sim) || !is_small(sim, name))
		return;
	for (int i = 0; i < MEETINGS && !is_over(sim); i++) {
		queue_up_at(sim, daemon, name, WAITERS_ALONE);
		sim_pass(sim, 100 * NSEC_PER_MSEC);
		release_each_once(sim, daemon);
		sim_pass(sim, 100 * NSEC_PER_MSEC);
		take_all_but(sim, daemon, -1);
		disperse(sim);
	}
}

/* ---- alone ---- */

/* Invariant 17: a freed slot was left to clients that poll, for a moment. */
static void
check_was_left(struct sim *sim, int name, int slot, int64_t began)
{
	int64_t freed = sim->waits.names[name].slots[slot].freed_at;
	int64_t claimed = sim->truth.names[name].slots[slot].claimed_at;

	/* It took its own consumer for that of another daemon. */
	if (freed - sim->waits.names[name].overcounted_at < NSEC_PER_SEC)
		return;
	if (freed >= began && claimed >= freed && claimed - freed < sim->plan.settings.hint_grace)
		check_fail(sim, 17, "%s was withheld, and claimed again %.1f ms later",
		    queue_b(name, slot), (double)(claimed - freed) / 1e6);
}

void
crowd_is_alone(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names), rounds = 0;
	int size = truth_size(&sim->truth, name);
	struct sim_daemon *daemon = any_daemon(sim);
	int64_t began;

	if (!is_fit(sim, name) || daemon->draining || sim->plan.settings.max_local_handoffs == 0 ||
	    !dice_percent(&sim->dice, 20))
		return;
	sim_pass(sim, LINGER + 20 * NSEC_PER_MSEC);
	queue_up_at(sim, daemon, name, WAITERS_ALONE);
	sim_pass(sim, ALONE_MOST);
	began = sim->now;
	/* It is let go where a row ends. */
	while (!is_over(sim) && (sim->now - began < ALONE_MOST ||
				    rounds <= 2 * (int)sim->plan.settings.max_local_handoffs + 2)) {
		queue_up_at(sim, daemon, name, WAITERS_ALONE);
		release_each_once(sim, daemon);
		sim_pass(sim,
		    NSEC_PER_MSEC + (int64_t)dice_below(&sim->dice, 4 * (uint64_t)sim->plan.usual));
		for (int slot = 1; slot <= size; slot++)
			check_was_left(sim, name, slot, began);
		rounds++;
	}
	for (int slot = 1; slot <= size; slot++) {
		if (sim->waits.names[name].slots[slot].freed_at < began)
			check_fail(sim, 17, "%s was handed off for %.1f ms, and never withheld",
			    queue_b(name, slot), (double)(sim->now - began) / 1e6);
	}
	if (!is_over(sim))
		disperse(sim);
}

/* ---- waiters that leave ---- */

static void
cancel_all_at(struct sim *sim, const struct sim_daemon *daemon)
{
	for (size_t i = sim->book.ask_count; i-- > 0;) {
		if (sim->book.asks[i].what == ASK_ACQUIRE &&
		    sim->book.asks[i].daemon == daemon->number)
			client_cancel(sim, &sim->book.asks[i]);
	}
}

void
crowd_wavers(struct sim *sim)
{
	struct round_robin turns = {.name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names)};
	uint64_t moment = 1 + (uint64_t)sim->plan.usual;

	if (!is_fit(sim, turns.name) || !dice_percent(&sim->dice, 20))
		return;
	for (int i = 0; i < WAVERS && !is_over(sim); i++) {
		for (int j = 0; j < 2; j++) {
			queue_up_at(sim, any_daemon(sim), turns.name, 1);
			sim_pass(sim, 2 * (int64_t)dice_below(&sim->dice, 4 * moment));
		}
		cancel_all_at(sim, any_daemon(sim));
		release_all(sim);
		sim_pass(sim, (int64_t)dice_below(&sim->dice, 4 * moment));
		/* A waiter gets a hint: no newcomer scans. */
		if (sim->book.belief_count == 0 && sim->book.ask_count > 0)
			sim_pass(sim, NSEC_PER_SEC);
	}
	if (!is_over(sim))
		disperse(sim);
}

/* ---- one daemon, and troubles of its lock connection ---- */

/* It holds the true mutex of the name. NULL: not this time. */
static struct sim_daemon *
holder_of_mutex(struct sim *sim, int name)
{
	struct sim_daemon *daemon = any_daemon(sim);

	if (!is_fit(sim, name) || sim->plan.python || daemon->draining ||
	    !dice_percent(&sim->dice, 20))
		return NULL;
	client_acquire(sim, daemon, name, LOCK_KIND_MUTEX, 0, 0);
	sim_pass(sim, 20 * NSEC_PER_MSEC);
	return daemon;
}

void
crowd_is_suspect(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	struct sim_daemon *daemon = holder_of_mutex(sim, name);

	if (daemon == NULL)
		return;
	queue_up_at(sim, daemon, name, 1);
	sim_pass(sim, (int64_t)dice_below(&sim->dice, 2 * NSEC_PER_MSEC));
	/* Free slots have no hints meanwhile. */
	sim->waits.settled = sim->now;
	ways_block(daemon, MEMORY_OUT | MEMORY_IN,
	    HEARTBEAT + (int64_t)dice_below(&sim->dice, HEARTBEAT / 2));
	sim_pass(sim, 2 * HEARTBEAT);
	disperse(sim);
}

/* All but the true mutex. */
static void
release_slots(struct sim *sim)
{
	for (size_t i = sim->book.belief_count; i-- > 0;) {
		if (sim->book.beliefs[i].kind != LOCK_KIND_MUTEX)
			client_release(sim, &sim->book.beliefs[i]);
	}
}

void
crowd_is_stuck(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	int size = truth_size(&sim->truth, name), rounds = 0;
	struct sim_daemon *daemon = size < 2 ? NULL : holder_of_mutex(sim, name);
	int64_t time =
	    2 * sim->plan.settings.request_timeout + 2 * sim->plan.settings.rescan_interval;

	if (daemon == NULL)
		return;
	/* The link is kept for the mutex. */
	sim->stuck_claim = 1 + (unsigned)dice_below(&sim->dice, 2);
	queue_up_at(sim, daemon, name, 1 + (unsigned)size);
	sim_pass(sim, time);
	while (sim->book.ask_count > 0 && !is_over(sim)) {
		release_slots(sim);
		sim_pass(sim, time);
		if (++rounds > 3 * CROWD_SLOTS)
			check_fail(sim, 16, "a client waits for ever beside a silent channel");
	}
	sim->stuck_claim = sim->stuck = 0;
	/* Then the engine gives the link up by itself. */
	release_all(sim);
	sim_pass(sim, 3 * HEARTBEAT);
	disperse(sim);
}

/* ---- a successor ---- */

/* A waiter that a hint should have woken is served within so long. */
#define SERVED (NSEC_PER_SEC)

void
crowd_is_replaced(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	struct sim_daemon *daemon = any_daemon(sim);

	if (!is_fit(sim, name) || daemon->draining || !dice_percent(&sim->dice, 30))
		return;
	for (int i = 0; i < WAITERS_ALONE; i++) {
		client_acquire(sim, daemon, name, LOCK_KIND_SEMAPHORE, DURATION_FOREVER,
		    (int)dice_below(&sim->dice, 3) - 1);
		sim_pass(sim, 10 * NSEC_PER_MSEC);
	}
	while (waiting_at(sim, daemon->number) > 0 && !is_over(sim)) {
		replace_begin(daemon);
		sim_pass(sim, 200 * NSEC_PER_MSEC);
		replace_give_up(daemon);
		release_each_once(sim, daemon);
		if (dice_percent(&sim->dice, 50))
			sim_pass(sim, 20 * NSEC_PER_MSEC);
	}
	if (!is_over(sim))
		disperse(sim);
}

/* Users of a daemon try to get so many slots of any names. */
static void
try_some(struct sim *sim, struct sim_daemon *daemon, size_t count)
{
	while (count-- > 0)
		client_acquire(sim, daemon, (int)dice_below(&sim->dice, (uint64_t)sim->plan.names),
		    LOCK_KIND_SEMAPHORE, 0, 0);
	sim_pass(sim, 200 * NSEC_PER_MSEC);
}

void
crowd_is_short(struct sim *sim)
{
	struct sim_daemon *daemon = any_daemon(sim);
	size_t most = plan_most_of_user(&sim->plan);

	if (!sim_is_short(sim) || daemon->draining || most == sim->plan.channels_max)
		return;
	try_some(sim, daemon, most);
	replace_begin(daemon);
	sim_pass(sim, 200 * NSEC_PER_MSEC);
	replace_give_up(daemon);
	try_some(sim, daemon, 4 * most);
	disperse(sim);
}

static bool
has_mutex(const struct sim *sim, int daemon)
{
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		if (sim->book.beliefs[i].daemon == daemon &&
		    sim->book.beliefs[i].kind == LOCK_KIND_MUTEX)
			return true;
	}
	return false;
}

static bool
is_waiting_for(const struct sim *sim, int daemon, int name)
{
	for (int slot = truth_size(&sim->truth, name); slot > 0; slot--) {
		if (truth_is_held(sim, name, slot))
			return false;
	}
	return waiting_at(sim, daemon) > 0;
}

/*
 * It holds a true mutex, and waits for a slot, which another daemon frees meanwhile. Hints come to
 * it first. Waiters of other daemons get the slot at once nevertheless (check_wait_policy.c).
 */
void
crowd_is_frozen(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	struct sim_daemon *daemon = holder_of_mutex(sim, name), *other = any_daemon(sim);
	int64_t time = 2 * NSEC_PER_SEC;

	if (daemon == NULL)
		return;
	if (!has_mutex(sim, daemon->number)) {
		disperse(sim);
		return;
	}
	if (other != daemon)
		queue_up_at(sim, other, name, (unsigned)truth_size(&sim->truth, name));
	sim_pass(sim, 200 * NSEC_PER_MSEC);
	client_acquire(sim, daemon, name, LOCK_KIND_SEMAPHORE, DURATION_FOREVER, 1);
	for (int i = 0; i < sim->plan.daemons; i++) {
		if (&sim->daemons[i] != daemon && &sim->daemons[i] != other)
			queue_up_at(sim, &sim->daemons[i], name, 1);
	}
	sim_pass(sim, 200 * NSEC_PER_MSEC);
	replace_freeze(daemon, time);
	sim_pass(sim, (int64_t)dice_below(&sim->dice, (uint64_t)time));
	release_at(sim, other);
	sim_pass(sim, time);
	if (!is_over(sim) && !has_mutex(sim, daemon->number))
		check_fail(sim, 7, "daemon %d was frozen, and lost a lock", daemon->number + 1);
	sim_pass(sim, SERVED);
	if (!is_over(sim) && is_waiting_for(sim, daemon->number, name))
		check_fail(sim, 16, "daemon %d was frozen, and its waiter does not get a free slot",
		    daemon->number + 1);
	if (!is_over(sim))
		disperse(sim);
}

/* ---- an unlimited semaphore gets a limit ---- */

static void
order_size(struct sim *sim, int name, int slots)
{
	const struct order order = {.what = ASK_RESIZE, .name = name, .slots = slots};

	admins_ask(sim, any_daemon(sim), &order);
}

void
crowd_is_limited(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	int size = truth_size(&sim->truth, name);
	struct sim_daemon *daemon = any_daemon(sim);

	if (!is_fit(sim, name) || daemon->draining || !dice_percent(&sim->dice, 20))
		return;
	order_size(sim, name, LOCK_UNLIMITED);
	sim_pass(sim, NSEC_PER_SEC);
	order_size(sim, name, size);
	/* Each one scans, or finds that the scan of another began before it came. */
	for (int i = 0; i < LATECOMERS && !is_over(sim); i++) {
		client_acquire(sim, daemon, name, LOCK_KIND_SEMAPHORE, 0, 0);
		sim_pass(sim, (int64_t)dice_below(&sim->dice, (uint64_t)sim->plan.usual));
		release_all(sim);
	}
	if (!is_over(sim))
		disperse(sim);
}
