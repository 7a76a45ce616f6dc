#include "tests/sim/daemons.h"

#include <assert.h>

#include "tests/sim/admins.h"
#include "tests/sim/check.h"
#include "tests/sim/messages.h"
#include "tests/sim/probes.h"
#include "tests/sim/replace.h"
#include "tests/sim/tap.h"
#include "tests/sim/ways.h"

/*
 * More than are needed: a daemon without one would wait for longer than the invariants allow.
 */
#define AUXILIARY_CHANNELS_MAX 100

/* ---- the ear ---- */

static void
believe(struct sim_daemon *daemon, const struct ask *ask, const struct lock_answer *answer)
{
	struct sim *sim = daemon->sim;
	struct belief belief = {
	    .daemon = daemon->number,
	    .peer = ask->peer,
	    .lock = answer->lock,
	    .name = ask->name,
	    .slot = answer->slot,
	    .kind = ask->kind,
	    .connection = memory_broker_connection(daemon->broker, BROKER_LOCKS),
	    .slotless = answer->slot == 0 && answer->safe_until == 0,
	    .heeds = ask->lease,
	    .uid = ask->uid,
	    .exempt = ask->exempt,
	    .safe_until = answer->safe_until,
	    .granted_at = sim->now,
	};

	belief.heeds &= !belief.slotless;
	belief.with_a = sim->plan.quorum && !belief.slotless && answer->fence == 0;
	belief.by_consumer = !belief.slotless &&
			     truth_deeds(sim, daemon->number, ask->name, belief.slot)->by_consumer;
	for (int i = 0; i < PEERS_MAX; i++) {
		struct sim_peer *peer = &daemon->peers[i];

		if (peer->id != ask->peer)
			continue;
		/*
		 * The last safe_until that the client was told holds for all its locks. Holds by
		 * consumer have leases of their own, and the client is told of the earliest.
		 */
		if (sim->plan.consumers || sim->plan.quorum)
			break;
		if (belief.heeds && peer->safe_until > belief.safe_until)
			belief.safe_until = peer->safe_until;
		if (belief.heeds)
			peer->safe_until = belief.safe_until;
	}
	daemon->granted++;
	if (!belief.slotless) {
		struct wait_seen *seen =
		    &sim->waits.names[ask->name].slots[belief.slot].seen[daemon->number];

		seen->granted = ++sim->truth.moment;
		seen->connection = belief.connection;
		seen->uid = belief.exempt ? 0 : belief.uid;
	}
	book_believe(&sim->book, &belief);
	check_believers(sim, &belief);
	if (!sim->plan.quorum)
		check_charged(sim, daemon, &belief);
}

static void
on_answer(void *ctx, uint64_t peer, uint64_t request, const struct lock_answer *answer)
{
	struct sim_daemon *daemon = ctx;
	struct sim *sim = daemon->sim;
	struct ask *ask = book_find_ask(&sim->book, daemon->number, peer, request);

	NOTE(sim, .text = "{d} answers {p}, request {n}: {w} (lock {m})", .daemon = daemon->number,
	    .peer = peer, .n = (int64_t)request,
	    .word = answer->reason == REASON_NONE ? "yes" : reason_word(answer->reason),
	    .m = (int64_t)answer->lock);
	check_answer(sim, daemon, ask, answer);
	if (ask == NULL)
		return;
	if (ask->what == ASK_ACQUIRE && answer->reason == REASON_NONE)
		believe(daemon, ask, answer);
	admins_heard(sim, ask, answer->reason);
	if (ask->order.what != ASK_ACQUIRE)
		sim->waits.names[ask->name].ordered_at[daemon->number] = sim->now;
	for (size_t i = 0; i < sim->book.ask_count && ask->order.what != ASK_ACQUIRE; i++) {
		struct ask *other = &sim->book.asks[i];

		if (other->daemon != ask->daemon || other->peer != peer ||
		    other->name != ask->name || other->since < ask->since)
			continue;
		other->ready = ++sim->truth.moment;
		other->ready_at = sim->now;
	}
	book_end_ask(&sim->book, ask);
}

static void
on_notice(void *ctx, uint64_t peer, const struct lock_notice *notice)
{
	struct sim_daemon *daemon = ctx;
	struct sim *sim = daemon->sim;
	static const char *const words[] = {
	    [LOCK_NOTICE_LOST] = "lost",
	    [LOCK_NOTICE_REVOKED] = "revoked",
	    [LOCK_NOTICE_EVICTED] = "evicted",
	    [LOCK_NOTICE_VANISHED] = "vanished, claimed again",
	    [LOCK_NOTICE_STUCK] = "stuck",
	    [LOCK_NOTICE_SUSPECT] = "suspect",
	    [LOCK_NOTICE_RESTORED] = "restored",
	    [LOCK_NOTICE_LEASE] = "its lease",
	    [LOCK_NOTICE_WAITING] = "waiting",
	    [LOCK_NOTICE_HOLDERS] = "holders",
	    [LOCK_NOTICE_BROKER] = "the broker's state",
	};
	struct belief *belief;

	NOTE(sim, .text = "{d} tells {p}: {w} (lock {n})", .daemon = daemon->number, .peer = peer,
	    .word = words[notice->kind], .n = (int64_t)notice->lock);
	if (notice->kind == LOCK_NOTICE_STUCK)
		return;
	check_peer(sim, daemon, peer);
	if (notice->kind == LOCK_NOTICE_WAITING)
		check_waiting(
		    sim, book_find_ask(&sim->book, daemon->number, peer, notice->request));
	if (notice->kind == LOCK_NOTICE_HOLDERS)
		check_holder_wait(
		    sim, book_find_ask(&sim->book, daemon->number, peer, notice->request));
	for (int i = 0; i < PEERS_MAX && notice->kind == LOCK_NOTICE_LEASE; i++) {
		if (daemon->peers[i].id == peer)
			check_lease_notice(sim, daemon, &daemon->peers[i], notice);
	}
	/* The connection may be back before the next check. The daemon scans anew then. */
	if (notice->kind == LOCK_NOTICE_BROKER)
		sim->waits.fit_since[daemon->number] = sim->now;
	if (notice->kind == LOCK_NOTICE_LEASE || notice->kind == LOCK_NOTICE_BROKER ||
	    notice->kind == LOCK_NOTICE_WAITING || notice->kind == LOCK_NOTICE_HOLDERS)
		return;
	belief = book_find_belief(&sim->book, daemon->number, notice->lock);
	if (belief != NULL && belief->peer != peer)
		belief = NULL;
	check_notice(sim, daemon, belief, notice);
	if (belief == NULL)
		return;
	if (notice->kind == LOCK_NOTICE_SUSPECT || notice->kind == LOCK_NOTICE_RESTORED)
		belief->suspect = notice->kind == LOCK_NOTICE_SUSPECT;
	if (notice->kind == LOCK_NOTICE_REVOKED) {
		belief->revoked = true;
		sim->waits.names[belief->name].slots[belief->slot].seen[daemon->number].revoked =
		    ++sim->truth.moment;
		for (size_t i = 0; i < sim->book.ask_count; i++) {
			struct ask *ask = &sim->book.asks[i];

			if (ask->daemon == daemon->number && ask->lock == notice->lock)
				ask->revoked = true;
		}
	}
	if (notice->kind == LOCK_NOTICE_VANISHED || notice->kind == LOCK_NOTICE_LOST)
		sim->waits.names[belief->name].slots[belief->slot].seen[daemon->number].vanished =
		    notice->kind == LOCK_NOTICE_VANISHED;
	for (size_t i = 0; i < sim->book.ask_count && notice->kind == LOCK_NOTICE_LOST; i++) {
		if (sim->book.asks[i].daemon == daemon->number &&
		    sim->book.asks[i].what == ASK_VERIFY && sim->book.asks[i].lock == notice->lock)
			sim->book.asks[i].lost_at = sim->now;
	}
	if (notice->kind != LOCK_NOTICE_LOST)
		return;
	daemon->lost++;
	quorum_haunt(sim, belief);
	book_end_belief(&sim->book, belief);
}

/* ---- life and death ---- */

static void
peer_come(struct sim_daemon *daemon, int peer)
{
	daemon->peers[peer] =
	    (struct sim_peer){.id = ++daemon->last_peer, .uid = 1000 + (uid_t)peer % 2};
}

/* The first day of the simulation, ns since 1970. */
#define FIRST_DAY (19700 * DAY)
#define DAY (86400 * NSEC_PER_SEC)

static int64_t
wall_now(void *ctx)
{
	const struct sim_daemon *daemon = ctx;

	return FIRST_DAY + daemon->sim->now + daemon->wall_ahead;
}

/* The clocks of the hosts differ by up to a day. */
static void
set_wall(struct sim_daemon *daemon)
{
	daemon->wall = (struct clock){wall_now, daemon};
	if (daemon->sim->plan.quorum)
		daemon->wall_ahead = (int64_t)dice_below(&daemon->sim->dice, (uint64_t)DAY);
}

void
daemon_open(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;
	struct lock_settings settings = sim->plan.settings;
	struct lock_events events = {.answer = on_answer, .notice = on_notice, .ctx = daemon};

	daemon->rescan_interval = sim->plan.settings.rescan_interval;
	daemon->broker = memory_broker_new_at(sim->world, daemon->heard, HEARTBEAT / NSEC_PER_SEC,
	    sim->plan.channels_max, dice_next(&sim->dice));
	memory_broker_set_channels_max(daemon->broker, BROKER_AUXILIARY, AUXILIARY_CHANNELS_MAX);
	daemon->node =
	    sim->plan.consumers || sim->plan.quorum ? (unsigned)daemon->number % HOME : 0;
	memory_broker_set_node(daemon->broker, daemon->node);
	probes_init(daemon);
	tap_init(daemon);
	set_wall(daemon);
	settings.wall_clock = &daemon->wall;
	daemon->engine =
	    lock_engine_new(daemon->broker, daemon->own, dice_next(&sim->dice), &settings, &events);
	messages_start(daemon);
}

void
daemon_close(struct sim_daemon *daemon)
{
	broker_stop(daemon->broker);
	lock_engine_free(daemon->engine);
	broker_free(daemon->broker);
	probes_done(daemon);
	tap_done(daemon);
	daemon->broker = NULL;
	daemon->engine = NULL;
}

void
daemon_start(struct sim *sim, int number)
{
	struct sim_daemon *daemon = &sim->daemons[number];

	*daemon = (struct sim_daemon){.sim = sim, .number = number};
	daemon->heard = timers_new(&sim->clock);
	daemon->own = timers_new(&sim->clock);
	ways_init(daemon);
	replace_init(daemon);
	for (int i = 0; i < PEERS_MAX; i++)
		peer_come(daemon, i);
	daemon_open(daemon);
	broker_start(daemon->broker);
}

void
daemon_kill(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;

	ways_done(daemon);
	replace_done(daemon);
	for (size_t i = 0; i < sim->book.belief_count; i++) {
		if (sim->book.beliefs[i].daemon == daemon->number)
			quorum_haunt(sim, &sim->book.beliefs[i]);
	}
	book_peer_gone(&sim->book, daemon->number, 0);
	daemon_close(daemon);
	timers_free(daemon->own);
	timers_free(daemon->heard);
	for (int name = 0; name < NAMES; name++) {
		sim->truth.names[name].work[daemon->number] = (struct truth_work){0};
		waits_forget(&sim->waits, daemon->number, name);
	}
}

void
daemon_hang_up(struct sim_daemon *daemon, int peer)
{
	uint64_t id = daemon->peers[peer].id;

	book_peer_gone(&daemon->sim->book, daemon->number, id);
	lock_peer_gone(daemon->engine, id);
	peer_come(daemon, peer);
}

bool
daemon_is_behind(const struct sim_daemon *daemon)
{
	return daemon->stopped || daemon->late || timers_next(daemon->heard) < daemon->sim->now ||
	       timers_next(daemon->own) < daemon->sim->now;
}
