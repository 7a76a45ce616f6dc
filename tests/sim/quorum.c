#include "tests/sim/quorum.h"

#include "daemon/broker/beads.h"
#include "daemon/broker/way.h"
#include "protocol/duration.h"
#include "tests/sim/admins.h"
#include "tests/sim/calm.h"
#include "tests/sim/check.h"
#include "tests/sim/clients.h"
#include "tests/sim/daemons.h"
#include "tests/sim/trouble.h"
#include "tests/sim/ways.h"

/* The slots of a name when the schedule begins, at most. */
#define SLOTS_FIRST 3
/*
 * So long after the last trouble, each slot can be acquired. One that is removed, and could not be deleted, is
 * left alone for 30 s (daemon/lock/mutex.c).
 */
#define PEACE (3 * QUORUM_GRACE + 30 * NSEC_PER_SEC)
/* Attempts of a repair. */
#define REPAIRS 4

/* The troubles of a daemon and its connections that such a schedule may have. */
#define QUORUM_TROUBLES                                                                            \
	(1U << TROUBLE_CUT | 1U << TROUBLE_FORSAKE | 1U << TROUBLE_FREEZE | 1U << TROUBLE_STOP |   \
	    1U << TROUBLE_SUSPEND | 1U << TROUBLE_RESTART | 1U << TROUBLE_ALARM |                  \
	    1U << TROUBLE_SILENCE | 1U << TROUBLE_CLOSE | 1U << TROUBLE_LATE |                     \
	    1U << TROUBLE_KILL | 1U << TROUBLE_DRAIN | 1U << TROUBLE_HINTS | 1U << TROUBLE_HOMES | \
	    1U << TROUBLE_REPLACE)

/* ---- the plan ---- */

static unsigned
any_bits(struct dice *dice, unsigned among, unsigned percent)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < 32; i++) {
		if ((among >> i & 1) != 0 && dice_percent(dice, percent))
			bits |= 1U << i;
	}
	return bits;
}

struct plan
quorum_plan(struct dice *dice)
{
	static const unsigned versions[][2] = {{3, 10}, {4, 0}, {4, 3}};
	unsigned roll = (unsigned)dice_below(dice, 100), version = (unsigned)dice_below(dice, 3);
	unsigned percent = roll < 10 ? 0 : roll < 60 ? 15 : 40;
	struct plan plan = {
	    .quorum = true,
	    .major = versions[version][0],
	    .minor = versions[version][1],
	    .daemons = 2 + (int)dice_below(dice, DAEMONS_MAX - 1),
	    .names = 1 + (int)dice_below(dice, 2),
	    .peers = 2 + (int)dice_below(dice, PEERS_MAX - 1),
	    .troubles = any_bits(dice, QUORUM_TROUBLES, percent),
	    .beads_troubles = any_bits(dice, (1U << BEADS_TROUBLES) - 1, percent),
	    .loudness = 2 + (unsigned)dice_below(dice, 15),
	    .usual = NSEC_PER_MSEC << dice_below(dice, 4),
	    .channels_max = 1000,
	    .settings =
		{
		    .naming = &queue_naming_amqp_locks,
		    .max_races = 16,
		    .rescan_interval = (int64_t)(200 + dice_below(dice, 800)) * NSEC_PER_MSEC,
		    .hint_grace = 5 * NSEC_PER_MSEC,
		    .max_local_handoffs = (unsigned)dice_below(dice, 4),
		    .request_timeout = (int64_t)(1000 + dice_below(dice, 2000)) * NSEC_PER_MSEC,
		    .max_locks_per_connection = 1000,
		    .max_waits_per_connection = 1000,
		    .max_mutexes_per_uid = 1000,
		    .slots_most = SLOTS_KNOWN,
		    .flights_most = PLAN_MANY,
		    .quorum_untested = true,
		},
	};

	/* Without this setting, mutexes would be held in ways that excuse more. */
	if (dice_percent(dice, 60))
		plan.settings.claim = BROKER_BY_QUORUM;
	if (dice_percent(dice, 20)) /* besides the others */
		plan.troubles |= 1U << TROUBLE_REPLACE;
	/* Only 4.3 ends a consumer and keeps some of its messages. */
	if (version < 2 || (plan.troubles & 1U << TROUBLE_LATE) != 0)
		plan.beads_troubles &= ~(1U << BEADS_TIMED_OUT);
	return plan;
}

/* ---- the world ---- */

int
quorum_size(const struct sim *sim, int name)
{
	int size = 0;

	while (
	    size < SLOTS_KNOWN && memory_world_has(sim->world, queue_beads(name, size + 1), NULL))
		size++;
	return size;
}

static struct sim_daemon *
any_daemon(struct sim *sim)
{
	return &sim->daemons[dice_below(&sim->dice, (uint64_t)sim->plan.daemons)];
}

static bool
is_over(const struct sim *sim)
{
	return sim->violation[0] != '\0';
}

void
quorum_begin(struct sim *sim)
{
	sim_pass(sim, NSEC_PER_SEC);
	for (int name = 0; name < sim->plan.names; name++)
		admins_ask(sim, any_daemon(sim),
		    &(struct order){
			.what = ASK_CREATE,
			.name = name,
			.slots = 1 + (int)dice_below(&sim->dice, SLOTS_FIRST),
			.claim = LOCK_CLAIM_BY_QUORUM,
		    });
	sim_pass(sim, 4 * NSEC_PER_SEC);
}

void
quorum_pass_time(struct sim *sim)
{
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);
	int64_t ns = NSEC_PER_MSEC;

	if (roll < 30) {
		sim_next(sim, sim->now + NSEC_PER_SEC);
		return;
	}
	if (roll >= 92)
		ns = QUORUM_GRACE + NSEC_PER_SEC;
	else if (roll >= 75)
		ns = NSEC_PER_SEC;
	else if (roll >= 50)
		ns = 20 * NSEC_PER_MSEC;
	sim_pass(sim, (int64_t)dice_below(&sim->dice, (uint64_t)ns));
}

/* ---- repairs ---- */

/* A slot without beads, or one that was made in part. */
static void
repair(struct sim *sim, int name)
{
	admins_ask(sim, any_daemon(sim),
	    &(struct order){.what = ASK_FSCK,
		.name = name,
		.repair = true,
		.claim = sim->calm ? LOCK_CLAIM_BY_QUORUM : LOCK_CLAIM_UNKNOWN});
}

/* ---- troubles ---- */

static const char *
trouble_word(enum beads_trouble trouble)
{
	static const char *const words[BEADS_TROUBLES] = {
	    [BEADS_SUSPENDED] = "loses its active consumer",
	    [BEADS_LATE] = "holds its deliveries back",
	    [BEADS_LOSES] = "loses rejects",
	    [BEADS_DELAYS] = "gets rejects late",
	    [BEADS_STARVED] = "serves nobody",
	    [BEADS_REFUSES] = "ends connections",
	    [BEADS_TIMED_OUT] = "times its consumer out",
	    [BEADS_FLAPS] = "loses its active consumer for a moment",
	    [BEADS_PURGED] = "loses its messages",
	    [BEADS_DELETED] = "is deleted by hand",
	};

	return words[trouble];
}

static void
set(struct sim *sim, const char *queue, enum beads_trouble trouble, bool on)
{
	switch (trouble) {
	case BEADS_SUSPENDED:
		(void)(on ? memory_world_suspend(sim->world, queue)
			  : memory_world_resume(sim->world, queue));
		break;
	case BEADS_LATE:
		memory_world_delay_deliveries(sim->world, queue, on);
		break;
	case BEADS_LOSES:
		memory_world_set_rejects(
		    sim->world, queue, on ? MEMORY_REJECTS_LOST : MEMORY_REJECTS_TAKEN);
		break;
	case BEADS_DELAYS:
		memory_world_set_rejects(
		    sim->world, queue, on ? MEMORY_REJECTS_DELAYED : MEMORY_REJECTS_TAKEN);
		if (!on)
			memory_world_resend(sim->world, queue);
		break;
	case BEADS_STARVED:
		memory_world_starve(sim->world, queue, on);
		break;
	case BEADS_REFUSES:
		memory_world_refuse_consumers(sim->world, queue, on);
		break;
	case BEADS_TIMED_OUT:
		memory_world_time_out(sim->world, queue);
		break;
	case BEADS_FLAPS:
		if (!memory_world_suspend(sim->world, queue))
			break;
		sim->quorum.slow = 1 + (int64_t)dice_below(&sim->dice, 3 * NSEC_PER_SEC);
		memory_world_resume(sim->world, queue);
		sim->quorum.slow = 0;
		break;
	case BEADS_PURGED:
		if (on)
			memory_world_lose(sim->world, queue);
		break;
	case BEADS_DELETED:
		if (on)
			memory_world_remove(sim->world, queue);
		if (on)
			quorum_slot(&sim->quorum, queue_find(queue))->clean = false;
		break;
	case BEADS_TROUBLES:
		break;
	}
}

/*
 * Whether a reject can be on its way, or is due at a daemon that has just been continued. The server
 * would take it after the first bead alone has returned, and before the others return with their
 * channel. Then the order can be clean while the slot is held. No hold lasts as long as the consumer
 * timeout of 30 days, so this does not happen.
 */
static bool
is_asked(const struct sim *sim, const struct quorum_slot *slot)
{
	for (int i = 0; i < sim->plan.daemons; i++) {
		if (daemon_is_behind(&sim->daemons[i]))
			return true;
	}
	return slot->asking > 0 || sim->now - slot->asked_at < NSEC_PER_SEC;
}

bool
quorum_times_out(const struct sim *sim, int name, int slot)
{
	int64_t at = sim->quorum.slots[name][slot].timed_out_at;

	return at != 0 && sim->now - at < NSEC_PER_SEC;
}

static void
change(struct sim *sim, int name, int slot, enum beads_trouble trouble)
{
	struct quorum_slot *of = &sim->quorum.slots[name][slot];
	const char *queue = queue_beads(name, slot);
	bool on = (of->troubles & 1U << trouble) == 0;

	if (trouble == BEADS_TIMED_OUT && is_asked(sim, of))
		return;
	NOTE(sim, .text = on ? "{q} {w}" : "{q} {w} no more", .queue = queue,
	    .word = trouble_word(trouble));
	set(sim, queue, trouble, on);
	if (trouble == BEADS_TIMED_OUT)
		of->timed_out_at = sim->now;
	if (trouble != BEADS_TIMED_OUT && trouble != BEADS_FLAPS)
		of->troubles ^= 1U << trouble;
	if (trouble >= BEADS_PURGED)
		of->lost_at = sim->now;
	if (trouble >= BEADS_PURGED && on)
		of->made = false;
	else if (trouble >= BEADS_PURGED && slot > 0)
		repair(sim, name);
}

/* The daemon that holds the slot, if any. */
static struct sim_daemon *
holder(struct sim *sim, int name, int slot)
{
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		const struct belief *belief = &sim->book.beliefs[i];

		if (belief->name == name && belief->slot == slot)
			return &sim->daemons[belief->daemon];
	}
	return NULL;
}

/* Makes a trouble worse. While deliveries are late, another consumer becomes active. */
static void
aggravate(struct sim *sim, int name, int slot, enum beads_trouble trouble)
{
	struct quorum_slot *of = &sim->quorum.slots[name][slot];
	struct sim_daemon *daemon = holder(sim, name, slot);

	if (trouble == BEADS_FLAPS && (of->troubles & 1U << BEADS_SUSPENDED) == 0) {
		client_acquire(
		    sim, any_daemon(sim), name, LOCK_KIND_SEMAPHORE, DURATION_FOREVER, 0);
		sim_pass(sim, (int64_t)dice_below(&sim->dice, NSEC_PER_SEC / 2));
		change(sim, name, slot, BEADS_SUSPENDED);
	}
	if (trouble >= BEADS_PURGED && daemon != NULL && (of->troubles & 1U << trouble) != 0) {
		for (int link = BROKER_QUORUM; link < LINKS; link++)
			ways_cut(daemon, link, 0, 0);
		change(sim, name, slot, trouble);
	}
}

void
quorum_trouble(struct sim *sim)
{
	int name = (int)dice_below(&sim->dice, (uint64_t)sim->plan.names);
	int size = quorum_size(sim, name), slot;
	unsigned trouble = (unsigned)dice_below(&sim->dice, BEADS_TROUBLES);

	if (size == 0)
		return;
	slot = 1 + (int)dice_below(&sim->dice, (uint64_t)size);
	if (memory_world_has(sim->world, queue_beads(name, 0), NULL) &&
	    dice_percent(&sim->dice, 30))
		slot = 0;
	/*
	 * Of a mutex or a removed slot that is deleted by hand while its holder is cut off, nothing says that
	 * somebody holds it.
	 */
	if (trouble == BEADS_DELETED && (slot == 0 || sim->quorum.slots[name][slot].removed))
		return;
	/* Mostly one that has begun ends. */
	for (unsigned i = 0; i < BEADS_TROUBLES && dice_percent(&sim->dice, 95); i++) {
		if ((sim->quorum.slots[name][slot].troubles & 1U << i) != 0 &&
		    dice_percent(&sim->dice, 40))
			trouble = i;
	}
	if ((sim->plan.beads_troubles & 1U << trouble) == 0)
		return;
	change(sim, name, slot, (enum beads_trouble)trouble);
	if (dice_percent(&sim->dice, 60))
		aggravate(sim, name, slot, (enum beads_trouble)trouble);
}

void
quorum_trouble_end(struct sim *sim)
{
	for (int name = 0; name < sim->plan.names; name++) {
		for (int slot = 0; slot <= SLOTS_KNOWN; slot++) {
			for (int trouble = 0; trouble < BEADS_PURGED; trouble++) {
				if ((sim->quorum.slots[name][slot].troubles & 1U << trouble) != 0)
					change(sim, name, slot, (enum beads_trouble)trouble);
			}
		}
	}
}

/* The publisher of a set dies. */
static void
on_fuse(void *ctx, uint64_t id)
{
	struct sim *sim = ctx;
	int number = sim->quorum.fuse_daemon;

	(void)id;
	NOTE(sim, .text = "{d} is killed after its publish", .daemon = number);
	daemon_kill(&sim->daemons[number]);
	daemon_start(sim, number);
}

void
quorum_init(struct sim *sim)
{
	timer_init(&sim->quorum.fuse, on_fuse, sim, 0);
}

/* ---- the end ---- */

static void
count_message(void *ctx, const char *body)
{
	(void)body;
	++*(int *)ctx;
}

/* Or no queue. Nobody holds the slot. */
static bool
has_beads(const struct sim *sim, const char *queue)
{
	int ready = 0;

	if (!memory_world_has(sim->world, queue, NULL))
		return true;
	memory_world_each_message(sim->world, queue, count_message, &ready);
	return ready >= BEADS;
}

static bool
is_made(const struct sim *sim, int name, int slot)
{
	return sim->quorum.slots[name][slot].made ||
	       !memory_world_has(sim->world, queue_beads(name, slot), NULL);
}

/* Orders that failed are given again. Slots that were made in part, or purged, are repaired. */
static void
repair_all(struct sim *sim)
{
	for (int name = 0; name < sim->plan.names && !is_over(sim); name++) {
		struct order again = sim->unfinished[name];

		again.exist_ok = again.what == ASK_CREATE;
		again.wait = 0;
		if (again.what != ASK_ACQUIRE && again.by == ORDER_TO &&
		    admins_ask(sim, any_daemon(sim), &again))
			calm_until_answered(sim);
	}
	/* A client may be attached to what has no beads, until it gives up. */
	for (int round = 0; round < REPAIRS && !is_over(sim); round++) {
		bool made = true;

		for (int name = 0; name < sim->plan.names; name++) {
			bool sound = true;

			for (int slot = 1; slot <= SLOTS_KNOWN; slot++)
				sound &= (round < 2 ? is_made(sim, name, slot)
						    : has_beads(sim, queue_beads(name, slot))) &&
					 !memory_world_has(sim->world, queue_a(name, slot), NULL);
			if (!sound)
				repair(sim, name);
			made = made && sound;
		}
		calm_until_answered(sim);
		if (made)
			return;
		sim_pass(sim, 4 * QUORUM_GRACE);
	}
	if (!is_over(sim))
		check_fail(sim, 25, "fsck does not repair all slots");
}

static void
end_all(struct sim *sim)
{
	for (size_t i = sim->book.ask_count; i-- > 0;) {
		if (i >= sim->book.ask_count)
			continue;
		if (sim->book.asks[i].what == ASK_ACQUIRE)
			client_cancel(sim, &sim->book.asks[i]);
	}
	while (sim->book.belief_count > 0 && !book_is_full(&sim->book) && !is_over(sim))
		client_release(sim, &sim->book.beliefs[0]);
	calm_until_answered(sim);
}

static int
held(const struct sim *sim, int name)
{
	int count = 0;

	for (size_t i = 0; i < sim->book.belief_count; i++)
		count += sim->book.beliefs[i].name == name && sim->book.beliefs[i].slot > 0;
	return count;
}

/*
 * Invariant 25: clients that only try, once a second, get all slots. An administrator may still be at work
 * who waits for holders. Without its gate, a semaphore is destroyed, and removed slots can be left.
 */
static void
acquire_all(struct sim *sim, int name)
{
	int64_t until = sim->now + PEACE;
	int size = quorum_size(sim, name), last = size;

	if (!memory_world_has(sim->world, queue_gate(name), NULL))
		return;
	while (held(sim, name) < size && !is_over(sim)) {
		for (int i = held(sim, name); i < size; i++)
			client_acquire(sim, any_daemon(sim), name, LOCK_KIND_SEMAPHORE, 0, 0);
		sim_pass(sim, NSEC_PER_SEC);
		calm_until_answered(sim);
		size = quorum_size(sim, name);
		if (size != last)
			until = sim->now + PEACE;
		last = size;
		if (sim->now > until && held(sim, name) < size)
			check_fail(sim, 25, "%d of %d slots of %s can be acquired", held(sim, name),
			    size, queue_lock(name));
	}
	if (size > 0)
		check_judged(sim, 25);
}

/* The same of the mutex of that name. */
static void
acquire_mutex(struct sim *sim, int name)
{
	/* It may be made anew, which takes a grace of 20 s and is not begun at once. */
	int64_t until = sim->now + PEACE + 60 * NSEC_PER_SEC;

	if (!way_row(sim->plan.settings.claim)->by_beads)
		return;
	while (holder(sim, name, 0) == NULL && !is_over(sim)) {
		client_acquire(sim, any_daemon(sim), name, LOCK_KIND_MUTEX, 0, 0);
		sim_pass(sim, NSEC_PER_SEC);
		calm_until_answered(sim);
		if (sim->now > until && holder(sim, name, 0) == NULL)
			check_fail(sim, 25, "the mutex %s cannot be acquired", queue_lock(name));
	}
	check_judged(sim, 25);
}

void
quorum_calm_down(struct sim *sim)
{
	trouble_end(sim);
	quorum_trouble_end(sim);
	for (int i = 0; i < sim->plan.daemons; i++) {
		if (!sim->daemons[i].draining)
			continue;
		daemon_kill(&sim->daemons[i]);
		daemon_start(sim, i);
	}
	sim_pass(sim, 4 * HEARTBEAT);
	calm_until_answered(sim);
	check_removals(sim);
	end_all(sim);
	if (!is_over(sim))
		repair_all(sim);
	for (int round = 0; round < 2 && !is_over(sim); round++) {
		end_all(sim);
		for (int name = 0; name < sim->plan.names && !is_over(sim); name++)
			acquire_all(sim, name);
		for (int name = 0; name < sim->plan.names && !is_over(sim); name++)
			acquire_mutex(sim, name);
	}
}
