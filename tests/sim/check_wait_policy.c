/*
 * Policy of waiting: the order and the delay in which waiters are served, and the cost. Some troubles
 * excuse a delay. A schedule with such troubles does not judge these invariants.
 */
#include "tests/sim/check.h"

#include "tests/sim/daemons.h"

/*
 * The longest rest after a lost race.
 */
#define REST_MOST (256 * NSEC_PER_MSEC)
/* At most one hint of a name is passed on in so long. */
#define PASS_ON_AGAIN (50 * NSEC_PER_MSEC)
/* A hint after one that came back is sent so much later. */
#define RETURNED_REST (20 * NSEC_PER_MSEC)
/* In a world without troubles a waiter gets a freed slot within this time, without a rescan. */
#define PROMPTLY (RETURNED_REST + 150 * NSEC_PER_MSEC + 2 * REST_MOST)
/* A daemon does not rely on older news. */
#define FRESH (1 * NSEC_PER_SEC)
/*
 * So many later waiters may get it first, one after the other, each while this one was busy. There
 * are more if slots are handed off more often in a row, which takes no time.
 */
#define OVERTAKEN_MOST(sim) (24 * (1 + (sim)->plan.settings.max_local_handoffs / 4))

/* With these nothing says when somebody gets what is free: channels are stuck; all is refused. */
#define WAITS_MAY_FAIL (1U << TROUBLE_SILENCE | 1U << TROUBLE_LATE | 1U << TROUBLE_REFUSE)
/*
 * With these nobody knows when it was heard that a claim failed, or one did without being
 * performed.
 */
#define ANSWERS_ARE_LATE                                                                           \
	(1U << TROUBLE_FREEZE | 1U << TROUBLE_STOP | 1U << TROUBLE_SUSPEND | 1U << TROUBLE_CLOSE | \
	    1U << TROUBLE_NACK)
/* With these a probe may have no answer before its deadline. */
#define PROBES_MAY_HANG                                                                            \
	(1U << TROUBLE_CUT | 1U << TROUBLE_FORSAKE | 1U << TROUBLE_FREEZE | 1U << TROUBLE_STOP |   \
	    1U << TROUBLE_SUSPEND | 1U << TROUBLE_RESTART | 1U << TROUBLE_DENY |                   \
	    1U << TROUBLE_CLOSE | 1U << TROUBLE_FUSE | 1U << TROUBLE_ALARM | 1U << TROUBLE_HOMES)
/* With these a daemon may believe in a watch that is none. */
#define WATCHES_MAY_DECEIVE                                                                        \
	(1U << TROUBLE_FORSAKE | 1U << TROUBLE_FREEZE | 1U << TROUBLE_STOP |                       \
	    1U << TROUBLE_SUSPEND | 1U << TROUBLE_RESTART | 1U << TROUBLE_SILENCE |                \
	    1U << TROUBLE_LATE)

/* The longest time until a request is sent and answered. */
static int64_t
answer_time(const struct sim *sim)
{
	return 10 * sim->plan.usual;
}

static bool
is_few(const struct sim *sim)
{
	return sim->plan.settings.max_locks_per_connection <= PLAN_FEW ||
	       sim->plan.settings.max_waits_per_connection <= PLAN_FEW;
}

/* ---- claims and hints ---- */

/*
 * Invariant 18: a daemon that sent a hint leaves the slot to others for a moment, unless there is
 * no waiter for it.
 */
void
check_claim_sent(struct sim *sim, const struct sim_daemon *daemon, struct queue_id id)
{
	const struct wait_seen *seen =
	    &sim->waits.names[id.name].slots[id.slot].seen[daemon->number];

	if (seen->hinted_at != 0 && sim->now - seen->hinted_at < sim->plan.settings.hint_grace)
		check_fail(sim, 18, "daemon %d claims %s %.1f ms after its hint of it",
		    daemon->number + 1, queue_text(id), (double)(sim->now - seen->hinted_at) / 1e6);
}

/*
 * A hint was heard, and nothing came of it. Only where another was passed on just now it may lapse:
 * the rescan finds out.
 */
void
check_hint_ignored(struct sim *sim, const struct sim_daemon *daemon, int name)
{
	struct wait_name *of = &sim->waits.names[name];

	if (sim->now - of->passed_on_at[daemon->number] <= PASS_ON_AGAIN)
		of->lapsed_at = sim->now;
}

/* ---- hand-off ---- */

static bool
news_come(const struct sim *sim)
{
	return (sim->plan.troubles & NEWS_MAY_BE_LATE) == 0;
}

static bool
watches_are_true(const struct sim *sim)
{
	return (sim->plan.troubles & WATCHES_MAY_DECEIVE) == 0;
}

/* For a queue that was not checked just now. */
static void
check_is_fresh(
    struct sim *sim, const struct lock_answer *answer, const char *queue, bool by_consumer)
{
	int64_t left = answer->safe_until - sim->now, heard = LEASE - left;

	if (left <= HEARTBEAT / 2)
		check_fail(sim, 17, "%s was handed off %.1f ms before its lease ends", queue,
		    (double)left / 1e6);
	/* By consumer it is the lease of B, and the link may have been heard since. */
	else if (heard >= FRESH && !by_consumer)
		check_fail(sim, 17, "%s was handed off, its link silent for %.1f ms", queue,
		    (double)heard / 1e6);
}

/*
 * Invariant 17: the lease is good, and A was just seen, or is watched.
 */
void
check_hand_off_in_time(struct sim *sim, int daemon, int name, const struct lock_answer *answer)
{
	const struct truth_slot *of = &sim->truth.names[name].slots[answer->slot];
	const struct wait_slot *slot = &sim->waits.names[name].slots[answer->slot];
	const struct wait_seen *seen = &slot->seen[daemon];
	const struct truth_deeds *deeds = &of->deeds[daemon];
	int64_t gone = sim->now - slot->gone_at;
	uint64_t seen_at = answer->slot == 0 ? deeds->b_seen : deeds->a_seen;
	const char *queue = queue_b(name, answer->slot);

	if (seen_at < seen->granted && (sim->plan.troubles & 1U << TROUBLE_LATE) == 0)
		check_is_fresh(sim, answer, queue, deeds->by_consumer);
	/* A watch that did not hear is none any more, whatever its daemon believes. */
	if (answer->slot == 0 || of->a || seen->unheard != 0)
		return;
	/* The daemon was notified, and then checked A. Or it checked without a notification. */
	if (seen->heard >= of->a_gone ? gone > 3 * answer_time(sim) && news_come(sim)
				      : gone > answer_time(sim) && watches_are_true(sim))
		check_fail(sim, 17, "%s was handed off %.1f ms after A was gone", queue,
		    (double)gone / 1e6);
}

/* ---- in their order ---- */

struct passing {
	int slot, count;
};

static void
count_passing(void *ctx, int slot)
{
	struct passing *passing = ctx;

	/* A mutex is none of the semaphore's slots. */
	passing->count += slot != 0 && slot != passing->slot;
}

/* An older change of its peer comes first, or it makes the semaphore. */
static bool
may_stand_behind(const struct sim *sim, const struct ask *ask)
{
	const struct truth_work *work = &sim->truth.names[ask->name].work[ask->daemon];

	/* Or one of them is answered, and still has the mutex. */
	if (ask->create || work->locked > work->unlocked)
		return true;
	for (size_t i = 0; i < sim->book.ask_count; i++) {
		const struct ask *order = &sim->book.asks[i];

		if (order->order.what != ASK_ACQUIRE && order->daemon == ask->daemon &&
		    order->peer == ask->peer && order->name == ask->name &&
		    order->since < ask->since)
			return true;
	}
	return false;
}

static bool
is_of_one_line(const struct ask *one, const struct ask *other)
{
	return other->what == ASK_ACQUIRE && one->daemon == other->daemon &&
	       one->name == other->name &&
	       (one->kind == LOCK_KIND_MUTEX) == (other->kind == LOCK_KIND_MUTEX);
}

/*
 * A newcomer rests while its daemon does not know whether another one uses a slot that was freed
 * here. If probes hang, a waiter with a higher priority may be late.
 */
static bool
is_excused(const struct sim *sim, const struct ask *ask, const struct ask *passed)
{
	const struct truth_work *work = &sim->truth.names[ask->name].work[ask->daemon];

	if (passed->priority > ask->priority && (sim->plan.troubles & PROBES_MAY_HANG) != 0)
		return true;
	/*
	 * It may have stood behind what was answered and not done, as far as its daemon had heard.
	 */
	if (work->unlocked >= passed->since ||
	    (work->unlocked != 0 && passed->ready_at - work->unlocked_at <= answer_time(sim)))
		return true;
	return check_is_over(sim, passed) &&
	       (passed->timeout != 0 || sim->now - passed->ready_at <=
					    sim->plan.settings.hint_grace + 4 * answer_time(sim));
}

/*
 * Invariant 18: by priority, then by arrival. A waiter that claims another slot keeps its place,
 * although a later one may be faster. A waiter that rests after a lost race loses it.
 */
void
check_turn(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask, int slot)
{
	const struct wait_name *of = &sim->waits.names[ask->name];
	const struct wait_seen *seen = &of->slots[slot].seen[daemon->number];
	struct passing passing = {.slot = slot};
	uint64_t given = check_has_passed(sim, daemon->number, ask->name, slot) ? sim->truth.moment
										: seen->claim_sent;
	/*
	 * A waiter that rested when a scan began waits for the next scan, and that one may hang
	 * first.
	 */
	int64_t rest = (sim->plan.troubles & PROBES_MAY_HANG) != 0 ? MEMORY_PROBE_TIMEOUT : 0;
	bool may_rest =
	    sim->now - of->failed_at[daemon->number] <= rest + REST_MOST + 4 * answer_time(sim);
	const struct ask *first = NULL;
	int passed = 0;

	for (size_t i = 0; i < sim->book.ask_count; i++) {
		struct ask *other = &sim->book.asks[i];

		if (other == ask || !is_of_one_line(ask, other) || other->ready >= given ||
		    (other->kind == LOCK_KIND_PERSISTENT_MUTEX && slot != 1) ||
		    may_stand_behind(sim, other))
			continue;
		if (other->priority < ask->priority ||
		    (other->priority == ask->priority && other->since > ask->since) ||
		    is_excused(sim, ask, other))
			continue;
		passed++;
		first = other;
		if (sim_is_short(sim))
			continue; /* there may be no channel for it */
		if (++other->overtaken > OVERTAKEN_MOST(sim))
			check_fail(sim, 18, "%u had %s before request %d", OVERTAKEN_MOST(sim),
			    queue_lock(ask->name), (int)other->request);
	}
	if (passed == 0 || may_rest || sim_is_short(sim) || sim_has_few_flights(sim) ||
	    (sim->plan.troubles & (WAITS_MAY_FAIL | ANSWERS_ARE_LATE)) != 0)
		return;
	check_judged(sim, 18);
	lock_each_passing(daemon->engine, queue_lock(ask->name), count_passing, &passing);
	if (passed > passing.count)
		check_fail(sim, 18, "request %d had %s before %d others of daemon %d, such as %d",
		    (int)ask->request, queue_b(ask->name, slot), passed, daemon->number + 1,
		    (int)first->request);
}

/* ---- free slots ---- */

static bool
is_fit(const struct sim *sim, const struct sim_daemon *daemon)
{
	uint64_t connection = truth_hold_connection(sim, daemon->number);

	return connection != 0 && !daemon->draining && !daemon->frozen && daemon->blocked == 0 &&
	       !daemon->denied[BROKER_LOCKS] && sim->truth.forsaken[daemon->number] != connection &&
	       sim->truth.torn[daemon->number] != connection && !daemon_is_behind(daemon);
}

static void
sample_slot(struct sim *sim, int name, int slot)
{
	const struct truth_slot *of = &sim->truth.names[name].slots[slot];
	struct wait_slot *wait = &sim->waits.names[name].slots[slot];

	if (truth_is_held(sim, name, slot))
		wait->free_since = INT64_MAX;
	else if (wait->free_since == INT64_MAX || of->claimed_at >= wait->free_since)
		wait->free_since = sim->now;
}

static void
sample_name(struct sim *sim, int name)
{
	struct wait_name *of = &sim->waits.names[name];
	int size = truth_size(&sim->truth, name);

	if (!sim->truth.names[name].unlimited)
		of->unlimited_since = INT64_MAX;
	else if (of->unlimited_since == INT64_MAX)
		of->unlimited_since = sim->now;
	for (int slot = 0; slot <= SLOTS_KNOWN; slot++) {
		if (slot <= size)
			sample_slot(sim, name, slot);
		else
			of->slots[slot].free_since = INT64_MAX;
	}
}

static int64_t
later(int64_t one, int64_t other)
{
	return one > other ? one : other;
}

/* Since when the ask could have it, whatever it is that is free since then. */
static int64_t
could_since(const struct sim *sim, const struct ask *ask, int64_t free_since)
{
	int64_t since = later(ask->ready_at, later(free_since, sim->waits.fit_since[ask->daemon]));

	if (sim->alarm && since != INT64_MAX)
		since = later(since, sim->waits.alarm_began);
	if (sim_is_short(sim))
		since = later(since, check_channel_since(sim, ask));
	/* A scan in progress is made anew then. */
	if ((sim->plan.troubles & PROBES_MAY_HANG) != 0)
		since = later(since, sim->waits.names[ask->name].ordered_at[ask->daemon]);
	return since;
}

/* Invariant 16: no slot stays free for longer than a rescan and its work. */
static void
check_not_free(
    struct sim *sim, const struct ask *ask, int64_t since, int64_t most, const char *what)
{
	if (since == INT64_MAX || sim->now <= since)
		return;
	check_judged(sim, 16);
	if (sim->now - since > most)
		check_fail(sim, 16, "%s is free for %.1f ms, and request %d of daemon %d waits",
		    what, (double)(sim->now - since) / 1e6, (int)ask->request, ask->daemon + 1);
}

/* A claim that is stuck holds up what its user asks for next. */
static int64_t
stuck_time(const struct sim *sim)
{
	return sim_has_few_flights(sim) ? sim->plan.settings.request_timeout : 0;
}

static int64_t
patience(const struct sim *sim)
{
	int64_t most = sim->plan.settings.rescan_interval + sim->plan.settings.rescan_interval / 8 +
		       10 * answer_time(sim) + 2 * REST_MOST + stuck_time(sim);

	if ((sim->plan.troubles & PROBES_MAY_HANG) != 0)
		most += 2 * MEMORY_PROBE_TIMEOUT + REST_MOST; /* that before it came, and its own */
	if (sim_is_short(sim)) /* others are woken before it, one after the other */
		most += 2 * sim->plan.names * answer_time(sim);
	return most;
}

/* When all is well it is told at once: it was freed since then, and nobody had it. */
static void
check_promptly(struct sim *sim, const struct ask *ask, int slot)
{
	const struct wait_name *of = &sim->waits.names[ask->name];
	const struct wait_slot *wait = &of->slots[slot];
	const struct truth_slot *truth = &sim->truth.names[ask->name].slots[slot];
	const struct sim_daemon *daemon = &sim->daemons[ask->daemon];
	int64_t since = later(ask->ready_at, wait->freed_at);

	/* A frozen daemon begins no claim. */
	if (daemon->frozen)
		return;
	since = later(since, daemon->unfrozen_at);
	if (sim_is_short(sim))
		since = later(since, check_channel_since(sim, ask));

	if (wait->freed_at <= sim->waits.settled || truth->claimed_at > wait->freed_at ||
	    of->lapsed_at >= wait->freed_at || wait->seen[ask->daemon].claiming)
		return;
	check_not_free(sim, ask, since, PROMPTLY + stuck_time(sim), queue_b(ask->name, slot));
}

static void
check_ask(struct sim *sim, const struct ask *ask)
{
	struct wait_name *of = &sim->waits.names[ask->name];
	unsigned node = sim->daemons[ask->daemon].node;
	int first = ask->kind == LOCK_KIND_MUTEX ? 0 : 1;
	int last = ask->kind == LOCK_KIND_MUTEX              ? 0
		   : ask->kind == LOCK_KIND_PERSISTENT_MUTEX ? 1
							     : SLOTS_KNOWN;

	if (ask->kind == LOCK_KIND_MUTEX ? sim->plan.python : may_stand_behind(sim, ask))
		return;
	/* A marker is seen by probes alone. */
	if (ask->kind != LOCK_KIND_MUTEX)
		check_not_free(sim, ask,
		    later(could_since(sim, ask, of->unlimited_since),
			sim->waits.let_see_since[ask->daemon]),
		    patience(sim), queue_unlimited(ask->name));
	for (int slot = first; slot <= last; slot++) {
		/*
		 * A B that was deleted while it was held belongs to its daemon until that daemon
		 * verifies it. That takes longer if it has many holds (check_lease.c). Waiters
		 * elsewhere can have it at once. A claim that is not answered reserves its slot,
		 * even if it was performed in vain.
		 */
		if (check_is_held(sim, ask->daemon, ask->name, slot) ||
		    of->slots[slot].seen[ask->daemon].claiming)
			of->slots[slot].seen[ask->daemon].held_at = sim->now;
		if (of->slots[slot].free_since == INT64_MAX ||
		    sim_is_cut_off(sim, node, queue_b(ask->name, slot)))
			continue;
		check_not_free(sim, ask,
		    later(later(could_since(sim, ask, of->slots[slot].free_since),
			      sim->homes[node].changed_at),
			of->slots[slot].seen[ask->daemon].held_at),
		    patience(sim), queue_b(ask->name, slot));
		check_promptly(sim, ask, slot);
	}
}

/* Whether another client of the daemon waits for the name. */
static bool
is_in_company(const struct sim *sim, const struct ask *ask)
{
	for (size_t i = 0; i < sim->book.ask_count; i++) {
		const struct ask *other = &sim->book.asks[i];

		if (other != ask && is_of_one_line(ask, other))
			return true;
	}
	return false;
}

/* A client of that daemon has the slot, as far as it knows. B may have been deleted by name. */
static bool
is_believed(const struct sim *sim, const struct sim_daemon *daemon, int name, int slot)
{
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		if (belief->daemon == daemon->number && belief->name == name &&
		    belief->slot == slot)
			return true;
	}
	return false;
}

/*
 * A wait is never worse than a try: a slot that was free all the time, as its daemon could see, is
 * not called busy. A newcomer that finds others waiting here does not look by itself.
 */
void
check_timed_out(struct sim *sim, const struct sim_daemon *daemon, const struct ask *ask)
{
	int first = ask->kind == LOCK_KIND_MUTEX ? 0 : 1;
	int last = ask->kind == LOCK_KIND_SEMAPHORE ? truth_size(&sim->truth, ask->name) : first;
	int64_t known = sim->plan.settings.hint_grace + RETURNED_REST + answer_time(sim);

	if (is_few(sim) || sim_is_short(sim) || sim_has_few_flights(sim) || !is_fit(sim, daemon) ||
	    !TAILQ_EMPTY(&daemon->claims) || is_in_company(sim, ask) || sim->alarm ||
	    sim->truth.names[ask->name].changed >= ask->since ||
	    (ask->kind == LOCK_KIND_MUTEX ? sim->plan.python : may_stand_behind(sim, ask)) ||
	    (sim->plan.troubles & (WAITS_MAY_FAIL | ANSWERS_ARE_LATE | PROBES_MAY_HANG)) != 0)
		return;
	for (int slot = first; slot <= last; slot++) {
		const struct truth_slot *of = &sim->truth.names[ask->name].slots[slot];
		int64_t since = sim->waits.names[ask->name].slots[slot].free_since;

		if (since != INT64_MAX && of->claimed_at < since &&
		    since + known <= ask->ready_at && !truth_is_held(sim, ask->name, slot) &&
		    !is_believed(sim, daemon, ask->name, slot))
			check_fail(sim, 16, "%s is free for %.1f ms, and request %d timed out",
			    queue_b(ask->name, slot), (double)(sim->now - since) / 1e6,
			    (int)ask->request);
	}
}

/* Since when something is so. */
static void
keep_since(const struct sim *sim, int64_t *since, bool is_so)
{
	if (!is_so)
		*since = INT64_MAX;
	else if (*since == INT64_MAX)
		*since = sim->now;
}

static void
take_samples(struct sim *sim)
{
	sim->waits.next_sample = sim->now + 16 * NSEC_PER_MSEC;
	for (int i = 0; i < sim->plan.daemons; i++) {
		const struct sim_daemon *daemon = &sim->daemons[i];
		bool fit = is_fit(sim, daemon);

		keep_since(sim, &sim->waits.fit_since[i], fit);
		keep_since(
		    sim, &sim->waits.let_see_since[i], fit && !daemon->denied[BROKER_AUXILIARY]);
	}
	for (int name = 0; name < sim->plan.names; name++)
		sample_name(sim, name);
	for (size_t i = 0; i < sim->book.ask_count; i++) {
		const struct ask *ask = &sim->book.asks[i];

		if (ask->what == ASK_ACQUIRE && ask->timeout != 0)
			check_ask(sim, ask);
	}
}

void
check_waits(struct sim *sim)
{
	if (sim->now < sim->waits.next_sample || is_few(sim) ||
	    (sim->plan.troubles & WAITS_MAY_FAIL) != 0)
		return;
	take_samples(sim);
}

/* ---- when nothing happens ---- */

/*
 * The number of slots that a daemon may know. It includes removed slots that are still held. It
 * also includes removed slots without a waiter here, because their absence was not noticed.
 */
static int
known_slots(const struct sim *sim, int name)
{
	int slot = SLOTS_KNOWN;

	/* Nor does a daemon find that out that has no channel to claim them. */
	if (sim_is_short(sim))
		return SLOTS_KNOWN;
	for (size_t i = 0; i < sim->book.ask_count; i++) {
		const struct ask *ask = &sim->book.asks[i];

		if (ask->name == name && ask->kind == LOCK_KIND_PERSISTENT_MUTEX)
			return SLOTS_KNOWN;
	}
	while (slot > 0 && !sim->truth.names[name].slots[slot].a && !truth_is_held(sim, name, slot))
		slot--;
	return slot;
}

/*
 * A rescan asks for a name's slots, and two more; all its queues at the gate. Nothing else is sent.
 */
void
check_idle(struct sim *sim, const uint64_t *before, int64_t time)
{
	uint64_t each = 0, most;

	for (int name = 0; name < sim->plan.names; name++)
		each += (uint64_t)known_slots(sim, name) + 3;
	/* Each name's semaphore, and mutex; once more, as the first may come at once. */
	each += (uint64_t)sim->plan.names;
	for (int i = 0; i < sim->plan.daemons; i++) {
		most = each * (uint64_t)(time / (sim->daemons[i].rescan_interval / 10 * 7) + 2);
		if (sim->waits.published[i] - before[i] > most)
			check_fail(sim, 16,
			    "daemon %d sent %d messages in %.0f ms, and nothing happened", i + 1,
			    (int)(sim->waits.published[i] - before[i]), (double)time / 1e6);
	}
}
