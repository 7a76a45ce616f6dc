#include "tests/sim/check.h"

#include "tests/sim/daemons.h"

/*
 * The longest time for which a keepalive is on its way. It can wait as long behind earlier requests
 * on its channel.
 */
#define KEEPALIVE_SLACK(sim) (2 * 10 * (sim)->plan.usual + 2 * NSEC_PER_MSEC)

/* Channels may be silent, late, closed again and again, or too few: B can be checked late. */
#define KEEPALIVE_MAY_FAIL                                                                         \
	(1U << TROUBLE_SILENCE | 1U << TROUBLE_LATE | 1U << TROUBLE_FEW_CHANNELS |                 \
	    1U << TROUBLE_REFUSE | 1U << TROUBLE_HOMES)

/* The troubles that delay neither a check of B nor its answer. */
#define KEEPALIVE_IS_PUNCTUAL                                                                      \
	(1U << TROUBLE_BY_NAME | 1U << TROUBLE_FOREIGN | 1U << TROUBLE_CANCEL |                    \
	    1U << TROUBLE_UNHEARD | 1U << TROUBLE_KILL | 1U << TROUBLE_NACK)
/* Invariant 10: the last check of B after its claim, with the time that it takes. */
#define RECHECKED_AFTER (50 * NSEC_PER_MSEC)

static bool
may_be_silent(const struct sim *sim)
{
	return (sim->plan.troubles & (1U << TROUBLE_SILENCE | 1U << TROUBLE_LATE)) != 0;
}

/*
 * Invariant 7: no lease lasts beyond what the world can guarantee, and nothing is said to be held
 * when it is over.
 */
void
check_safe_until(struct sim *sim, struct sim_daemon *daemon, int name, int slot, int64_t safe_until)
{
	int64_t lease =
	    sim->plan.quorum ? INT64_MAX : truth_lease_of(sim, daemon->number, name, slot);

	check_judged(sim, 7);
	if (safe_until > lease)
		check_fail(sim, 7, "daemon %d says safe for %.1f ms, and %s is for %.1f ms",
		    daemon->number + 1, (double)(safe_until - sim->now) / 1e6, queue_b(name, slot),
		    (double)(lease - sim->now) / 1e6);
	else if (safe_until <= sim->now)
		check_fail(sim, 7, "daemon %d says safe %.1f ms after the lease's end",
		    daemon->number + 1, (double)(sim->now - safe_until) / 1e6);
	if (safe_until > daemon->safe_until)
		daemon->safe_until = safe_until;
}

static bool
have_own_leases(const struct sim *sim)
{
	return sim->plan.consumers || sim->plan.quorum;
}

void
check_lease_notice(struct sim *sim, struct sim_daemon *daemon, struct sim_peer *peer,
    const struct lock_notice *notice)
{
	bool asked = false;

	for (size_t i = 0; i < sim->book.belief_count; i++) {
		struct belief *belief = &sim->book.beliefs[i];

		/* The client extends each of its locks that it does not know to be suspect. */
		if (belief->daemon != daemon->number || belief->peer != peer->id ||
		    belief->slotless || belief->suspect)
			continue;
		check_safe_until(sim, daemon, belief->name, belief->slot, notice->safe_until);
		if (!belief->heeds)
			continue;
		asked = true;
		/* A newer time only extends the lease of a hold that has one of its own. */
		if (!have_own_leases(sim) || notice->safe_until > belief->safe_until)
			belief->safe_until = notice->safe_until;
		check_believers(sim, belief);
	}
	if (!asked)
		check_fail(sim, 7, "client %d got an unwanted lease notice", (int)peer->id);
	/* A newer hold by consumer may have an older lease. */
	if (notice->safe_until <= peer->safe_until && !have_own_leases(sim))
		check_fail(sim, 7, "the lease of client %d went back", (int)peer->id);
	peer->safe_until = notice->safe_until;
}

/* Whether questions about the B may have been unanswered for the time of a lease. */
static bool
may_be_unanswered(const struct sim *sim, const struct sim_daemon *daemon, int name, int slot)
{
	const struct truth_slot *of = &sim->truth.names[name].slots[slot];
	const struct home_way *way = &sim->homes[daemon->node];
	int64_t long_ago = sim->now - LEASE;

	return of->deeds[daemon->number].by_consumer &&
	       (way->reach != MEMORY_REACHED || way->changed_at >= long_ago ||
		   daemon->blocked != 0 || daemon->disturbed >= long_ago ||
		   of->deeds[daemon->number].b_read_at <= long_ago + KEEPALIVE_SLACK(sim));
}

bool
check_lease_is_over(const struct sim *sim, const struct sim_daemon *daemon, int name, int slot)
{
	return sim->now >= daemon->safe_until || may_be_silent(sim) ||
	       may_be_unanswered(sim, daemon, name, slot);
}

/*
 * Invariant 7: lost at its deadline though nothing is heard, and its peer is kept informed until
 * then.
 */
static void
check_lost_in_time(struct sim *sim, const struct belief *belief)
{
	int64_t late = sim->now - truth_lease_of(sim, belief->daemon, belief->name, belief->slot);
	int64_t since = belief->safe_until, disturbed = sim->daemons[belief->daemon].disturbed;

	/* Late timers ask about no B, and end no hold. */
	if (sim->plan.consumers && disturbed > since)
		since = disturbed;
	if (late > 0)
		check_fail(sim, 7, "lock %d of daemon %d outlived its lease by %.1f ms",
		    (int)belief->lock, belief->daemon + 1, (double)late / 1e6);
	/* A peer is told of the earliest lease of its holds that are not suspect. */
	else if (belief->heeds && !belief->suspect && sim->now - since > HEARTBEAT / 3)
		check_fail(sim, 7, "the holder of lock %d of daemon %d got no lease notice",
		    (int)belief->lock, belief->daemon + 1);
}

/* The keepalive asks about each B every third of a heartbeat. */
static void
check_keepalive(struct sim *sim, const struct belief *belief)
{
	const struct sim_daemon *daemon = &sim->daemons[belief->daemon];
	const struct truth_deeds *deeds =
	    truth_deeds(sim, belief->daemon, belief->name, belief->slot);
	int64_t since = deeds->checked_at;

	if (daemon->disturbed > since)
		since = daemon->disturbed;
	if (belief->granted_at > since) /* it was handed off */
		since = belief->granted_at;
	if (sim->now - since > HEARTBEAT / 3 + KEEPALIVE_SLACK(sim))
		check_fail(sim, 7, "%s was not checked for %.1f ms",
		    queue_b(belief->name, belief->slot), (double)(sim->now - since) / 1e6);
}

/* Invariant 10: on a server that deletes by name B is checked again just after the claim. */
static void
check_rechecked(struct sim *sim, const struct belief *belief)
{
	const struct truth_slot *slot = &sim->truth.names[belief->name].slots[belief->slot];
	int64_t since =
	    slot->removed_at > belief->granted_at ? slot->removed_at : belief->granted_at;

	if ((sim->plan.troubles & ~KEEPALIVE_IS_PUNCTUAL) == 0 &&
	    slot->by_name == belief->connection &&
	    slot->removed > slot->deeds[belief->daemon].claimed &&
	    sim->now - since > RECHECKED_AFTER + 2 * KEEPALIVE_SLACK(sim))
		check_fail(sim, 10, "%s was deleted by name, and not checked",
		    queue_b(belief->name, belief->slot));
}

void
check_lease(struct sim *sim, struct belief *belief)
{
	const struct sim_daemon *daemon = &sim->daemons[belief->daemon];

	if (belief->heard_due != 0 && sim->now > belief->heard_due && !belief->revoked &&
	    !check_is_unseen(sim, belief) &&
	    sim->truth.names[belief->name].slots[belief->slot].a_came < belief->heard)
		check_fail(sim, 5, "%s was deleted, and its holder not told in time",
		    queue_a(belief->name, belief->slot));
	if (daemon_is_behind(daemon))
		return;
	check_rechecked(sim, belief);
	check_lost_in_time(sim, belief);
	if (daemon->blocked == 0 && !daemon->frozen &&
	    (sim->plan.troubles & KEEPALIVE_MAY_FAIL) == 0 &&
	    sim->truth.forsaken[belief->daemon] != belief->connection)
		check_keepalive(sim, belief);
}
