#include "tests/sim/check.h"

#include "protocol/reason.h"
#include "tests/sim/trouble.h"

/* ---- acquire ---- */

/* Invariant 2: B declared, then A seen, on one channel of the link that is up now. */
static void
check_grant_was_claimed(struct sim *sim, int daemon, int name, const struct lock_answer *answer)
{
	int slot = answer->slot;
	const struct truth_deeds *deeds = truth_deeds(sim, daemon, name, slot);

	check_judged(sim, 2);
	if (deeds->connection != truth_hold_connection(sim, daemon) ||
	    deeds->claimed <= deeds->dropped)
		check_fail(
		    sim, 2, "granted %s, which this link has not claimed", queue_b(name, slot));
	else if (check_has_passed(sim, daemon, name, slot))
		check_hand_off(sim, daemon, name, answer);
	else if (slot != 0 && deeds->a_seen_behind < deeds->claimed)
		check_fail(sim, 2, "granted %s, and A was not seen since it was claimed",
		    queue_b(name, slot));
}

/* Invariant 1: between local peers the registry alone arbitrates, between daemons B. */
static void
check_grant_is_the_only_one(struct sim *sim, const struct ask *ask, int slot)
{
	int daemon = ask->daemon, name = ask->name;
	struct belief its = {.daemon = daemon,
	    .name = name,
	    .slot = slot,
	    .heeds = ask->lease,
	    .by_consumer = truth_deeds(sim, daemon, name, slot)->by_consumer,
	    .connection = truth_hold_connection(sim, daemon)};
	bool is_deceived = check_is_excepted(sim, &its);

	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		if (belief->slotless)
			continue;
		if (belief->daemon == daemon && belief->name == name && belief->slot == slot)
			check_fail(sim, 1, "granted %s, which lock %d of the same daemon holds",
			    queue_b(name, slot), (int)belief->lock);
		else if (belief->name == name && belief->slot == slot &&
			 book_is_believed(belief, sim->now) && !is_deceived &&
			 !check_is_excepted(sim, belief))
			check_fail(sim, 4, "granted %s, which lock %d of daemon %d holds",
			    queue_b(name, slot), (int)belief->lock, belief->daemon + 1);
	}
}

/* Invariant 8: ids are never used twice. */
static bool
was_given(struct sim_daemon *daemon, uint64_t lock)
{
	uint64_t bit = UINT64_C(1) << lock % 64;
	bool given;

	if (lock >= GIVEN_MOST)
		return false;
	given = (daemon->given[lock / 64] & bit) != 0;
	daemon->given[lock / 64] |= bit;
	return given;
}

/*
 * A grant without a slot: N-U existed, or an administrator granted it. It has no lease, and no
 * channel.
 */
static void
check_slotless(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer)
{
	const struct truth_name *of = &sim->truth.names[ask->name];

	check_judged(sim, 14);
	if (daemon->granting != ask->request && !of->unlimited && of->unlimited_until < ask->since)
		check_fail(sim, 14, "granted %s without a slot, and it was limited all the time",
		    queue_lock(ask->name));
	else if (answer->safe_until != 0)
		check_fail(sim, 14, "a hold without a slot has a lease");
}

static void
check_grant(struct sim *sim, struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer)
{
	int name = queue_lock_find(answer->name);
	struct wait_pass *pass = &sim->waits.pass;

	if (name != ask->name || answer->kind != ask->kind)
		check_fail(sim, 3, "asked for %s, granted %s", queue_lock(ask->name), answer->name);
	else if (answer->slot < 0 || answer->slot > SLOTS_KNOWN ||
		 (ask->kind == LOCK_KIND_MUTEX && answer->slot != 0) ||
		 (ask->kind == LOCK_KIND_PERSISTENT_MUTEX && answer->slot > 1))
		check_fail(sim, 3, "granted slot %d", answer->slot);
	else if (daemon->draining)
		check_fail(sim, 3, "granted by a daemon that is being stopped");
	else if (was_given(daemon, answer->lock))
		check_fail(sim, 8, "lock %d was given twice", (int)answer->lock);
	if (sim->violation[0] != '\0')
		return;
	if (daemon->granting == ask->request && (answer->slot != 0 || answer->safe_until != 0))
		check_fail(sim, 14, "a hold granted by an administrator has a slot");
	if (sim->plan.quorum && (answer->slot != 0 || answer->safe_until != 0)) {
		if (answer->slot != 0)
			check_converted(sim, name, answer->fence != 0);
		if (answer->slot == 0 || answer->fence != 0)
			check_quorum_grant(sim, ask, answer);
		return;
	}
	if (answer->slot == 0 && (ask->kind != LOCK_KIND_MUTEX || answer->safe_until == 0)) {
		check_slotless(sim, daemon, ask, answer);
		return;
	}
	if (sim->plan.python && ask->kind == LOCK_KIND_MUTEX &&
	    !check_was_no_lock(sim, name, ask->since))
		check_fail(sim, 11,
		    "a true mutex was granted that is the administration mutex of %s",
		    queue_lock(name));
	check_judged(sim, 8);
	check_grant_was_claimed(sim, daemon->number, name, answer);
	check_grant_is_the_only_one(sim, ask, answer->slot);
	check_turn(sim, daemon, ask, answer->slot);
	if (pass->owed && pass->daemon == daemon->number && pass->name == name &&
	    pass->slot == answer->slot)
		pass->owed = false;
	check_safe_until(sim, daemon, name, answer->slot, answer->safe_until);
}

bool
check_was_no_lock(const struct sim *sim, int name, uint64_t since)
{
	return !truth_exists(&sim->truth, name) || sim->truth.names[name].came >= since;
}

/* A nack or silence is unknown, never absent. */
static void
check_no_such_lock(struct sim *sim, const struct ask *ask)
{
	if (ask->kind == LOCK_KIND_MUTEX || !check_was_no_lock(sim, ask->name, ask->since))
		check_fail(sim, 0, "no-such-lock, but %s was there all the time",
		    ask->kind == LOCK_KIND_MUTEX ? "a true mutex" : queue_lock(ask->name));
}

bool
check_was_alarm(const struct sim *sim, uint64_t since)
{
	int64_t news = 10 * sim->plan.usual; /* of its end, on their way */

	if (sim->plan.troubles & 1U << TROUBLE_LATE)
		news = TROUBLE_LATEST * sim->plan.settings.request_timeout;
	return sim->alarm || sim->alarm_ended >= since ||
	       (sim->now < sim->waits.settled && sim->alarm_ended != 0 &&
		   ((sim->plan.troubles & NEWS_MAY_BE_HELD_UP) != 0 ||
		       sim->now - sim->alarm_ended_at <= news));
}

/* At its deadline, or when the daemon could act again. */
static bool
is_due(const struct sim *sim, const struct ask *ask)
{
	return sim->now == ask->due ||
	       (sim->now > ask->due && sim->now == sim->daemons[ask->daemon].woke);
}

bool
check_is_over(const struct sim *sim, const struct ask *ask)
{
	return ask->due != INT64_MAX && sim->now >= ask->due - sim->plan.settings.request_timeout;
}

static void
check_refused(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer)
{
	enum reason reason = answer->reason;
	bool right = true;

	switch (reason) {
	case REASON_WOULD_BLOCK:
		right = ask->timeout == 0 || (ask->create && sim->truth.refusals > 0);
		break;
	case REASON_TIMEOUT: /* a try: another administrator was at work for as long as it waits */
		right =
		    ask->timeout == 0 ? is_due(sim, ask) && ask->create : check_is_over(sim, ask);
		if (!sim->plan.quorum)
			check_timed_out(sim, daemon, ask);
		break;
	case REASON_CANCELLED:
		right = answer->denied
			    ? daemon->denying == ask->request || daemon->denying == UINT64_MAX
			    : daemon->cancelled;
		break;
	case REASON_NO_SUCH_LOCK:
		if (!sim->plan.quorum)
			check_no_such_lock(sim, ask);
		break;
	case REASON_ALREADY_EXISTS: /* as a semaphore, whose administration mutex that is */
		right = ask->kind == LOCK_KIND_MUTEX && sim->plan.python &&
			check_was_there(sim, ask->name, ask->since);
		break;
	case REASON_DRAINING:
		right = daemon->draining;
		break;
	case REASON_BROKER_REFUSED:
		right = sim->truth.refusals + sim->truth.denials > 0;
		break;
	case REASON_BROKER_BLOCKED:
		right = check_is_over(sim, ask) && check_was_alarm(sim, ask->since);
		break;
	case REASON_BROKER_UNAVAILABLE:
	case REASON_CONTENDED:
		break;
	case REASON_TOO_MANY_WAITERS:
		right = sim->plan.settings.max_waits_per_connection <= PLAN_FEW;
		break;
	case REASON_TOO_MANY_LOCKS:
		right = sim->plan.settings.max_locks_per_connection <= PLAN_FEW ||
			(ask->timeout == 0 && sim_is_short(sim));
		break;
	default:
		right = false;
	}
	if (!right)
		check_fail(sim, 3, "acquire was answered %s", reason_word(reason));
}

/* ---- release, verify ---- */

/*
 * The slot was not deleted, so it was handed off. Its new holder is told before or just afterwards.
 * A revoked slot is never handed off.
 */
static bool
is_handed_off(struct sim *sim, const struct ask *ask)
{
	const struct wait_slot *slot = &sim->waits.names[ask->name].slots[ask->slot];
	struct wait_pass *pass = &sim->waits.pass;

	if (ask->revoked)
		return false;
	if (slot->seen[ask->daemon].granted < ask->since) {
		if (pass->owed)
			return false;
		*pass = (struct wait_pass){true, ask->daemon, ask->name, ask->slot};
	}
	return true;
}

/* The broker had ended the consumer, or its channel, before it was asked to. */
static bool
is_freed(const struct sim *sim, const struct ask *ask)
{
	const struct truth_slot *slot = &sim->truth.names[ask->name].slots[ask->slot];
	uint64_t claimed = slot->deeds[ask->daemon].claimed;

	return (slot->freed > claimed || slot->parted > claimed || slot->removed > claimed) &&
	       !truth_is_ours(sim, ask->daemon, ask->name, ask->slot);
}

/* The daemon's own request freed B, and its link was up all the time. */
static bool
is_dropped(const struct sim *sim, const struct ask *ask)
{
	const struct truth_deeds *deeds = truth_deeds(sim, ask->daemon, ask->name, ask->slot);

	return deeds->connection == truth_hold_connection(sim, ask->daemon) &&
	       deeds->connection == ask->connection && deeds->dropped > ask->since &&
	       sim->truth.forsaken[ask->daemon] != ask->connection;
}

/* Invariant 6: "released" is never said before the delete was performed, or the slot was handed off. */
static void
check_released(struct sim *sim, const struct ask *ask, enum reason reason)
{
	const struct truth_deeds *deeds = truth_deeds(sim, ask->daemon, ask->name, ask->slot);
	bool right = false;

	switch (reason) {
	case REASON_NONE:
		if (ask->slotless)
			right = ask->held;
		else
			right = ask->held && deeds->connection == ask->connection &&
				(deeds->dropped > ask->since || is_freed(sim, ask) ||
				    is_handed_off(sim, ask));
		break;
	case REASON_NOT_HELD:
		right = !ask->held;
		break;
	case REASON_LOST:
		right =
		    ask->held && !ask->slotless && !is_dropped(sim, ask) &&
		    (!truth_is_ours(sim, ask->daemon, ask->name, ask->slot) ||
			check_lease_is_over(sim, &sim->daemons[ask->daemon], ask->name, ask->slot));
		break;
	case REASON_BROKER_REFUSED:
		right = sim->truth.refusals > 0 && !ask->slotless;
		break;
	case REASON_BROKER_UNAVAILABLE:
		right = is_due(sim, ask) && !ask->slotless;
		break;
	default:
		break;
	}
	check_judged(sim, 6);
	if (!right)
		check_fail(sim, 6, "release of %s was answered %s", queue_b(ask->name, ask->slot),
		    reason_word(reason));
}

/* "held" means that B and A were both seen since it was asked, and that it is not revoked. */
static bool
verify_may_say_held(const struct sim *sim, const struct ask *ask, const struct belief *belief)
{
	const struct truth_deeds *deeds = truth_deeds(sim, ask->daemon, ask->name, ask->slot);

	return ask->held && !ask->revoked && (belief == NULL || !belief->revoked) &&
	       deeds->connection == ask->connection && deeds->b_seen > ask->since &&
	       (ask->slot == 0 || deeds->a_seen > ask->since);
}

/* A hold without a slot lasts until it is released. */
static void
check_verify_slotless(struct sim *sim, const struct ask *ask, const struct lock_answer *answer)
{
	const struct belief *belief = book_find_belief(&sim->book, ask->daemon, ask->lock);

	if (answer->reason == REASON_NONE
		? !ask->held || answer->slot != 0 || answer->safe_until != 0
		: answer->reason != REASON_NOT_HELD || (ask->held && belief != NULL))
		check_fail(sim, 14, "verify of a hold without a slot was answered %s",
		    reason_word(answer->reason));
}

static void
check_verify(struct sim *sim, struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer)
{
	enum reason reason = answer->reason;
	const struct belief *belief = book_find_belief(&sim->book, ask->daemon, ask->lock);
	const struct truth_deeds *deeds = truth_deeds(sim, ask->daemon, ask->name, ask->slot);
	bool right = false;

	switch (reason) {
	case REASON_NONE:
		right = verify_may_say_held(sim, ask, belief);
		check_safe_until(sim, daemon, ask->name, ask->slot, answer->safe_until);
		break;
	case REASON_NOT_HELD:
		right = !ask->held || belief == NULL;
		break;
	case REASON_REVOKED:
		right = ask->held && ask->slot != 0 &&
			(ask->revoked || (belief != NULL && belief->revoked) ||
			    deeds->a_absent > ask->since);
		break;
	case REASON_LOST:
		right = ask->held &&
			(belief == NULL || !truth_is_ours(sim, ask->daemon, ask->name, ask->slot) ||
			    check_lease_is_over(sim, daemon, ask->name, ask->slot));
		break;
	case REASON_BROKER_REFUSED:
		right = sim->truth.refusals > 0;
		break;
	case REASON_BROKER_UNAVAILABLE:
		right = ask->held;
		break;
	default:
		break;
	}
	check_judged(sim, reason == REASON_NONE ? 5 : 4);
	if (!right)
		check_fail(sim, reason == REASON_NONE ? 5 : 4, "verify of %s was answered %s",
		    ask->lock == 0 ? "nothing" : queue_b(ask->name, ask->slot),
		    reason_word(reason));
}

/* Invariants 3, 4: every request is answered once, with a fitting answer. */
void
check_answer(struct sim *sim, struct sim_daemon *daemon, const struct ask *ask,
    const struct lock_answer *answer)
{
	if (ask == NULL) {
		check_fail(sim, 3, "an answer without a request: %s", reason_word(answer->reason));
		return;
	}
	check_judged(sim, 3);
	if (sim->plan.quorum && ask->what != ASK_ACQUIRE) {
		check_quorum_answer(sim, ask, answer->reason);
		return;
	}
	switch (ask->what) {
	case ASK_ACQUIRE:
		if (answer->reason == REASON_NONE)
			check_grant(sim, daemon, ask, answer);
		else
			check_refused(sim, daemon, ask, answer);
		break;
	case ASK_RELEASE:
		check_released(sim, ask, answer->reason);
		break;
	case ASK_VERIFY:
		if (ask->slotless)
			check_verify_slotless(sim, ask, answer);
		else
			check_verify(sim, daemon, ask, answer);
		break;
	case ASK_CREATE:
	case ASK_RESIZE:
	case ASK_DESTROY:
	case ASK_FSCK:
	case ASK_SIZE:
	case ASK_AWAIT:
	case ASK_LIST:
	case ASK_EXPLAIN:
		check_admin(sim, daemon, ask, answer);
		break;
	}
}

/* ---- notices ---- */

/* A peer that has hung up gets no message. */
void
check_peer(struct sim *sim, const struct sim_daemon *daemon, uint64_t peer)
{
	for (int i = 0; i < PEERS_MAX; i++) {
		if (daemon->peers[i].id == peer)
			return;
	}
	check_fail(sim, 3, "client %d of daemon %d hung up and got a message", (int)peer,
	    daemon->number + 1);
}

void
check_waiting(struct sim *sim, const struct ask *ask)
{
	if (ask == NULL || ask->what != ASK_ACQUIRE || ask->timeout == 0)
		check_fail(sim, 3, "a request that does not wait got a notice");
}

/* Invariant 4: a hold ends once, and not for nothing. */
static void
check_lost(struct sim *sim, const struct sim_daemon *daemon, const struct belief *belief,
    const struct lock_notice *notice)
{
	enum reason reason = notice->reason;

	if (notice->eviction != NULL) {
		if (belief->evict_at == 0 || sim->now < belief->evict_at)
			check_fail(
			    sim, 4, "lock %d was evicted before its deadline", (int)belief->lock);
		return;
	}
	if (reason == REASON_DRAINING && !daemon->abandoned)
		check_fail(sim, 4, "a hold ended by a stop, but there was none");
	else if (reason == REASON_LOST &&
		 truth_is_ours(sim, daemon->number, belief->name, belief->slot) &&
		 !check_lease_is_over(sim, daemon, belief->name, belief->slot))
		check_fail(sim, 4, "%s was reported lost, but is still held",
		    queue_b(belief->name, belief->slot));
}

void
check_notice(struct sim *sim, struct sim_daemon *daemon, const struct belief *belief,
    const struct lock_notice *notice)
{
	const struct truth_slot *slot;
	bool right;

	if (belief == NULL) {
		check_fail(sim, 4, "a notice about lock %d, which nobody holds", (int)notice->lock);
		return;
	}
	if (notice->kind == LOCK_NOTICE_EVICTED) {
		if (belief->evict_at == 0 || notice->eviction->deadline != belief->evict_at)
			check_fail(sim, 4, "lock %d was told another deadline", (int)belief->lock);
		return;
	}
	if (belief->slotless && notice->eviction == NULL) {
		if (notice->reason != REASON_DRAINING || !daemon->abandoned)
			check_fail(sim, 14, "a hold without a slot was reported lost");
		return;
	}
	slot = &sim->truth.names[belief->name].slots[belief->slot];
	switch (notice->kind) {
	case LOCK_NOTICE_LOST:
		check_lost(sim, daemon, belief, notice);
		break;
	case LOCK_NOTICE_REVOKED: /* invariant 5: once, and when A was seen gone */
		right = belief->with_a     ? quorum_was_shrunk(sim, belief)
			: sim->plan.quorum ? sim->quorum.slots[belief->name][belief->slot].removed
					   : slot->deeds[daemon->number].a_absent >
						 slot->deeds[daemon->number].claimed;
		if (belief->revoked || !right)
			check_fail(sim, 5, "%s was reported revoked, but is not",
			    queue_b(belief->name, belief->slot));
		break;
	case LOCK_NOTICE_VANISHED:
		check_judged(sim, 10);
		if (slot->removed <= slot->deeds[daemon->number].claimed)
			check_fail(sim, 10, "%s was reported vanished, but is not",
			    queue_b(belief->name, belief->slot));
		break;
	case LOCK_NOTICE_SUSPECT:
	case LOCK_NOTICE_RESTORED: /* in turn */
		if (belief->suspect == (notice->kind == LOCK_NOTICE_SUSPECT))
			check_fail(sim, 7, "twice reported: lock %d is %s", (int)belief->lock,
			    belief->suspect ? "suspect" : "restored");
		break;
	case LOCK_NOTICE_EVICTED:
	case LOCK_NOTICE_STUCK:
	case LOCK_NOTICE_LEASE:
	case LOCK_NOTICE_WAITING:
	case LOCK_NOTICE_HOLDERS:
	case LOCK_NOTICE_BROKER:
		break;
	}
}
