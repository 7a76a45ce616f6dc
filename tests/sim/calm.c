#include "tests/sim/calm.h"

#include "tests/sim/admins.h"
#include "tests/sim/check.h"
#include "tests/sim/clients.h"
#include "tests/sim/crowd.h"
#include "tests/sim/messages.h"
#include "tests/sim/trouble.h"

static bool
is_over(const struct sim *sim)
{
	return sim->violation[0] != '\0';
}

void
calm_until_answered(struct sim *sim)
{
	for (;;) {
		int64_t last = 0;

		for (size_t i = 0; i < sim->book.ask_count; i++) {
			int64_t due = sim->book.asks[i].due;

			if (due != INT64_MAX && due > last)
				last = due;
		}
		if (last == 0 || is_over(sim) || !sim_next(sim, last + 1))
			break;
	}
}

/* ---- administration ---- */

static struct sim_daemon *
any_willing(struct sim *sim)
{
	return &sim->daemons[dice_below(&sim->dice, (uint64_t)sim->plan.daemons)];
}

/* Its answer is checked when it comes. */
static void
administer(struct sim *sim, const struct order *order)
{
	if (!admins_ask(sim, any_willing(sim), order))
		return;
	calm_until_answered(sim);
	for (size_t i = 0; i < sim->book.ask_count; i++) {
		if (sim->book.asks[i].order.what == order->what &&
		    sim->book.asks[i].order.wait == 0)
			check_fail(sim, 3, "an administrator got no answer, and no event is due");
	}
}

/* An order that failed is given again, or the name is repaired. Either completes it. */
static void
repair(struct sim *sim, int name)
{
	struct truth_name *of = &sim->truth.names[name];
	struct order again = sim->unfinished[name];
	struct order repair = {.what = ASK_FSCK, .name = name, .repair = true};
	struct order fsck = {.what = ASK_FSCK, .name = name};
	struct order open = {.what = ASK_RESIZE, .name = name, .slots = 1};

	again.exist_ok = again.what == ASK_CREATE;
	again.wait = 0;
	if (again.what != ASK_ACQUIRE && again.by == ORDER_TO && dice_percent(&sim->dice, 50))
		administer(sim, &again);
	if (!check_is_clean(sim, name) || dice_percent(&sim->dice, 10))
		administer(sim, &repair);
	if (!is_over(sim) && dice_percent(&sim->dice, 5))
		administer(sim, &fsck);
	/* A waiter that was to create it was refused meanwhile, and left its entry. */
	if (!is_over(sim) && sim->plan.consumers && !check_is_clean(sim, name))
		administer(sim, &repair);
	of->meddled = of->ascending = false;
	if (!is_over(sim))
		check_repaired(sim, name);
	/* A waiter at a gate would wait for ever. */
	if (!is_over(sim) && of->gate && truth_size(&sim->truth, name) == 0)
		administer(sim, &open);
	/* The holder of a slot that was removed has an exclusive queue: no durable one can be made. */
	open.claim = LOCK_CLAIM_BY_QUEUE;
	if (!is_over(sim) && of->gate && truth_size(&sim->truth, name) == 0)
		administer(sim, &open);
}

/* If a true mutex is the administration mutex, too, its holder or waiter blocks administration. */
static void
give_up_mutexes(struct sim *sim)
{
	for (size_t i = sim->book.ask_count; i-- > 0;) {
		if (sim->book.asks[i].what == ASK_ACQUIRE &&
		    sim->book.asks[i].kind == LOCK_KIND_MUTEX)
			client_cancel(sim, &sim->book.asks[i]);
	}
	for (size_t i = sim->book.belief_count; i-- > 0;) {
		if (sim->book.beliefs[i].kind == LOCK_KIND_MUTEX && !book_is_full(&sim->book))
			client_release(sim, &sim->book.beliefs[i]);
	}
	calm_until_answered(sim);
	/* Each waiter for it, even if its client is gone, has it by now or gives up. */
	sim_pass(sim, sim->plan.settings.request_timeout);
}

static void
repair_all(struct sim *sim)
{
	if (sim->plan.python)
		give_up_mutexes(sim);
	/* Requests that may never end. */
	for (size_t i = sim->book.ask_count; i-- > 0;) {
		if (sim->book.asks[i].gone)
			book_end_ask(&sim->book, &sim->book.asks[i]);
		else if (sim->book.asks[i].what == ASK_AWAIT)
			client_cancel(sim, &sim->book.asks[i]);
	}
	for (int name = 0; name < sim->plan.names && !is_over(sim); name++)
		repair(sim, name);
}

/* ---- locks ---- */

static void
verify_all(struct sim *sim)
{
	/* A verify that is answered at once may end the belief: backwards. */
	for (size_t i = sim->book.belief_count; i-- > 0;) {
		if (i < sim->book.belief_count)
			client_verify(sim, &sim->book.beliefs[i]);
	}
	calm_until_answered(sim);
	if (!is_over(sim))
		check_verified(sim);
}

static void
release_all(struct sim *sim)
{
	while (sim->book.belief_count > 0 && !book_is_full(&sim->book))
		client_release(sim, &sim->book.beliefs[0]);
}

/* The waiters get the slots that the holders release, each within two scans. */
static void
serve_all(struct sim *sim)
{
	int64_t round = sim->plan.settings.rescan_interval / 4 + 4 * NSEC_PER_MSEC;
	int rounds = 0;

	release_all(sim);
	calm_until_answered(sim);
	while (!is_over(sim) && sim->book.ask_count + sim->book.belief_count > 0) {
		size_t waiting = sim->book.ask_count;

		sim_pass(sim, round);
		release_all(sim);
		if (sim->book.ask_count < waiting)
			rounds = 0;
		else if (++rounds > 16)
			check_fail(sim, 0, "a client waits for a slot that is free");
	}
}

/* A delete that was refused, or for which there was no channel, is sent again after a second. */
static void
pass_until_quiet(struct sim *sim)
{
	int64_t until = sim->now + 2 * NSEC_PER_SEC;
	bool quiet = false;

	while (!quiet && !is_over(sim) && sim->now < until) {
		sim_pass(sim, 50 * NSEC_PER_MSEC);
		quiet = true;
		for (int i = 0; i < sim->plan.daemons; i++)
			quiet &= lock_quiet(sim->daemons[i].engine);
	}
}

/* A try is granted at once now: no slot is reserved without a holder. */
static void
try_all(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	int slots = truth_size(&sim->truth, name);
	struct sim_daemon *daemon =
	    &sim->daemons[dice_below(&sim->dice, (uint64_t)sim->plan.daemons)];

	if (daemon->draining || (size_t)slots >= plan_most_of_user(&sim->plan) ||
	    sim->plan.settings.max_locks_per_connection <= PLAN_FEW ||
	    sim->plan.settings.max_waits_per_connection <= PLAN_FEW)
		return;
	for (int i = 0; i < slots; i++)
		client_acquire(sim, daemon, name, LOCK_KIND_SEMAPHORE, 0, 0);
	calm_until_answered(sim);
	if (!is_over(sim) && sim->book.belief_count != (size_t)slots)
		check_fail(sim, 0, "of %d free slots of %s %zu were granted", slots,
		    queue_lock(name), sim->book.belief_count);
	release_all(sim);
	calm_until_answered(sim);
}

/*
 * After that time the Bs of dead links are gone and the living links are up. Late answers have come, and
 * Bs were checked again.
 */
static int64_t
settling_time(const struct sim *sim)
{
	int64_t time = 3 * HEARTBEAT + 100 * NSEC_PER_MSEC;

	if (sim->plan.troubles & 1U << TROUBLE_LATE)
		time += TROUBLE_LATEST * sim->plan.settings.request_timeout;
	if (sim->plan.troubles & 1U << TROUBLE_HOMES)
		time += MEMORY_PROBE_TIMEOUT;
	if (sim->plan.troubles & 1U << TROUBLE_SILENCE)
		time += MEMORY_PROBE_TIMEOUT + (int64_t)sim->book.belief_count * (HEARTBEAT / 3);
	/* A daemon that scanned before it heard of the alarm's end scans again. */
	if (sim->plan.troubles & 1U << TROUBLE_ALARM)
		time += sim->plan.settings.rescan_interval + sim->plan.settings.rescan_interval / 8;
	return time;
}

void
calm_down(struct sim *sim)
{
	trouble_end(sim);
	sim_pass(sim, settling_time(sim));
	if (!is_over(sim))
		check_healed(sim);
	if (!is_over(sim))
		check_watches(sim);
	if (!is_over(sim))
		calm_until_answered(sim);
	sim->waits.settled = sim->now;
	if (!is_over(sim))
		repair_all(sim);
	if (!is_over(sim))
		verify_all(sim);
	if (!is_over(sim))
		crowd_waits(sim);
	if (!is_over(sim))
		serve_all(sim);
	pass_until_quiet(sim);
	if (!is_over(sim))
		try_all(sim);
	if (!is_over(sim))
		crowd_takes_turns(sim);
	if (!is_over(sim))
		crowd_is_alone(sim);
	if (!is_over(sim))
		crowd_meets(sim);
	if (!is_over(sim))
		crowd_races(sim);
	if (!is_over(sim))
		crowd_is_unheard(sim);
	if (!is_over(sim))
		crowd_loses_holders(sim);
	if (!is_over(sim))
		crowd_starves(sim);
	if (!is_over(sim))
		crowd_hands_over(sim);
	if (!is_over(sim))
		crowd_wavers(sim);
	if (!is_over(sim))
		crowd_is_replaced(sim);
	if (!is_over(sim))
		crowd_is_short(sim);
	if (!is_over(sim))
		crowd_is_frozen(sim);
	if (!is_over(sim))
		crowd_is_suspect(sim);
	if (!is_over(sim))
		crowd_is_stuck(sim);
	if (!is_over(sim))
		crowd_is_limited(sim);
	pass_until_quiet(sim);
	/* Places in wait queues are kept for a moment. */
	if (!is_over(sim))
		sim_pass(sim, 300 * NSEC_PER_MSEC);
	if (!is_over(sim))
		check_quiet(sim);
	if (!is_over(sim))
		messages_meet(sim);
}
