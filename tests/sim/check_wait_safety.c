/*
 * Safety of what is handed from holder to waiter: these invariants are judged in every schedule.
 */
#include "tests/sim/check.h"

#include "tests/sim/daemons.h"

/* ---- hints ---- */

static bool
can_be_heard(const struct sim_daemon *daemon)
{
	struct broker_info info;

	broker_get_info(daemon->broker, &info);
	return info.auxiliary == BROKER_UP && !info.auxiliary_blocked;
}

bool
check_is_held(const struct sim *sim, int daemon, int name, int slot)
{
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		if (belief->daemon == daemon && belief->name == name && belief->slot == slot &&
		    !belief->slotless)
			return true;
	}
	return false;
}

/*
 * Invariant 15: a hint of a slot is sent only after the slot is free. A daemon that adds slots
 * sends hints of all of them.
 */
void
check_hint_sent(struct sim *sim, const struct sim_daemon *daemon, int name, int slot)
{
	const struct truth_slot *of = &sim->truth.names[name].slots[slot];
	const struct truth_deeds *deeds = &of->deeds[daemon->number];
	struct wait_seen *seen = &sim->waits.names[name].slots[slot].seen[daemon->number];

	if (daemon->counting || daemon->hearing || deeds->claimed == 0 ||
	    deeds->connection != truth_hold_connection(sim, daemon->number))
		return;
	check_judged(sim, 15);
	/*
	 * Of what was taken out of service and may have come back it is told later, when that was
	 * seen.
	 */
	if (deeds->claimed > deeds->dropped && seen->granted > deeds->claimed &&
	    truth_is_ours(sim, daemon->number, name, slot) && of->removed < deeds->claimed &&
	    seen->revoked == 0 && deeds->a_absent == 0 &&
	    !check_is_held(sim, daemon->number, name, slot))
		check_fail(sim, 15, "daemon %d sends a hint of %s, but holds it",
		    daemon->number + 1, queue_b(name, slot));
	/*
	 * The first since it was freed; of what was taken out of service only where it came back.
	 */
	if (deeds->dropped < deeds->claimed || seen->hinted > deeds->dropped ||
	    seen->revoked > seen->granted || deeds->a_absent > seen->granted)
		return;
	seen->hinted = sim->truth.moment;
	if (can_be_heard(daemon))
		seen->hinted_at = sim->now;
}

/* ---- hand-off ---- */

/*
 * B was not deleted since its last grant. It may have vanished and been claimed again for its
 * holder.
 */
bool
check_has_passed(const struct sim *sim, int daemon, int name, int slot)
{
	const struct truth_deeds *deeds = truth_deeds(sim, daemon, name, slot);
	const struct wait_seen *seen = &sim->waits.names[name].slots[slot].seen[daemon];

	return seen->connection == deeds->connection && seen->granted > deeds->dropped;
}

/*
 * Invariant 17: B belongs to this daemon all the time (checked for every holder). Its last holder
 * was not told that it is revoked. A was seen since the last declare of B. check_hand_off_in_time()
 * judges the age of what was seen.
 */
void
check_hand_off(struct sim *sim, int daemon, int name, const struct lock_answer *answer)
{
	const struct wait_seen *seen = &sim->waits.names[name].slots[answer->slot].seen[daemon];
	const struct truth_deeds *deeds = truth_deeds(sim, daemon, name, answer->slot);
	const char *queue = queue_b(name, answer->slot);

	check_judged(sim, 17);
	if (seen->revoked > seen->granted)
		check_fail(sim, 17, "%s was handed off, but is revoked", queue);
	else if (answer->slot != 0 && deeds->a_seen < deeds->claimed)
		check_fail(sim, 17, "%s was handed off, A unseen since its claim", queue);
	else
		check_hand_off_in_time(sim, daemon, name, answer);
}

/* Invariant 6: a slot that was reported released, and not dropped, was granted to a waiter. */
void
check_passed(struct sim *sim)
{
	const struct wait_pass *pass = &sim->waits.pass;

	if (pass->owed)
		check_fail(sim, 6, "%s was reported released, but is not, nor granted",
		    queue_b(pass->name, pass->slot));
}

/* ---- rows ---- */

struct row_count {
	size_t waiting, holding;
};

static void
count_row(void *ctx, const struct lock_row *row)
{
	struct row_count *count = ctx;

	count->waiting += row->state == LOCK_ROW_WAITING;
	count->holding += row->state == LOCK_ROW_BUSY || row->state == LOCK_ROW_ADMITTED;
}

void
check_rows(struct sim *sim, const struct sim_daemon *daemon)
{
	struct row_count count = {0};
	size_t waiting = 0, holding = 0;

	lock_each(daemon->engine, NULL, count_row, &count);
	for (size_t i = 0; i < sim->book.ask_count; i++)
		waiting += sim->book.asks[i].daemon == daemon->number &&
			   sim->book.asks[i].what == ASK_ACQUIRE;
	for (size_t i = 0; i < sim->book.belief_count; i++)
		holding += sim->book.beliefs[i].daemon == daemon->number;
	if (count.waiting != waiting || count.holding != holding)
		check_fail(sim, 3, "daemon %d shows %zu waiters and %zu holders, of %zu and %zu",
		    daemon->number + 1, count.waiting, count.holding, waiting, holding);
}
