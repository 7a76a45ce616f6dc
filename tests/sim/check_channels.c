#include "tests/sim/check.h"

/* ---- invariant 19 ---- */

/* A B stays its last holder's, and its user's channel, until it is deleted. */
static size_t
charged_to(const struct sim *sim, const struct sim_daemon *daemon, uid_t uid)
{
	size_t charged = 0;

	for (int name = 0; name < sim->plan.names; name++) {
		for (int slot = 0; slot <= SLOTS_KNOWN; slot++) {
			const struct wait_seen *seen =
			    &sim->waits.names[name].slots[slot].seen[daemon->number];

			charged += seen->uid == uid &&
				   truth_is_ours(sim, daemon->number, name, slot) &&
				   check_has_passed(sim, daemon->number, name, slot);
		}
	}
	return charged;
}

void
check_charged(struct sim *sim, const struct sim_daemon *daemon, const struct belief *belief)
{
	size_t charged, most = plan_most_of_user(&sim->plan);

	if (belief->slotless || belief->exempt || !sim_is_short(sim))
		return;
	check_judged(sim, 19);
	charged = charged_to(sim, daemon, belief->uid);
	if (charged > most)
		check_fail(sim, 19, "user %d has %zu channels of daemon %d, and may have %zu",
		    (int)belief->uid, charged, daemon->number + 1, most);
}

/* ---- users and their channels ---- */

/*
 * As far as can be said from outside: whatever is in flight is charged to the user, and no channel
 * is being closed.
 */
static void
sample_user(struct sim *sim, const struct sim_daemon *daemon, int user)
{
	int64_t *since = &sim->waits.channel_since[daemon->number][user];
	size_t others = 0, slotless = 0, taken;
	struct lock_counts counts;
	bool there_is;

	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		if (belief->daemon != daemon->number)
			continue;
		slotless += belief->slotless;
		others +=
		    !belief->slotless && (belief->exempt || belief->uid % 2 != (uid_t)user % 2);
	}
	lock_get_counts(daemon->engine, &counts);
	taken = counts.holds + counts.in_flight - slotless;
	there_is =
	    /* A daemon that holds by consumer leaves one for the checks of slot queues. */
	    taken + sim->plan.consumers < sim->plan.channels_max &&
	    memory_broker_channels_taken(daemon->broker, BROKER_LOCKS) < sim->plan.channels_max &&
	    (user == 2 || taken - others < plan_most_of_user(&sim->plan));
	if (!there_is)
		*since = INT64_MAX;
	else if (*since == INT64_MAX)
		*since = sim->now;
}

void
check_channels(struct sim *sim)
{
	for (int i = 0; i < sim->plan.daemons && sim_is_short(sim); i++) {
		for (int user = 0; user < 3; user++)
			sample_user(sim, &sim->daemons[i], user);
	}
}

int64_t
check_channel_since(const struct sim *sim, const struct ask *ask)
{
	return sim->waits.channel_since[ask->daemon][ask->exempt ? 2 : ask->uid % 2];
}
