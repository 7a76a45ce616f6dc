#include "tests/sim/daemons.h"

#include <assert.h>

#include "tests/sim/check.h"

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
	    .connection = memory_broker_connection(daemon->broker, BROKER_HOLD),
	};

	for (int i = 0; i < PEERS_MAX; i++) {
		if (daemon->peers[i].id == ask->peer)
			belief.uid = daemon->peers[i].uid;
	}
	daemon->granted++;
	book_believe(&sim->book, &belief);
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
	    [LOCK_NOTICE_VANISHED] = "vanished, claimed again",
	    [LOCK_NOTICE_WAITING] = "waiting",
	    [LOCK_NOTICE_BROKER] = "the broker's state",
	};
	struct belief *belief;

	NOTE(sim, .text = "{d} tells {p}: {w} (lock {n})", .daemon = daemon->number, .peer = peer,
	    .word = words[notice->kind], .n = (int64_t)notice->lock);
	check_peer(sim, daemon, peer);
	if (notice->kind == LOCK_NOTICE_WAITING)
		check_waiting(
		    sim, book_find_ask(&sim->book, daemon->number, peer, notice->request));
	if (notice->kind == LOCK_NOTICE_BROKER || notice->kind == LOCK_NOTICE_WAITING)
		return;
	belief = book_find_belief(&sim->book, daemon->number, notice->lock);
	if (belief != NULL && belief->peer != peer)
		belief = NULL;
	check_notice(sim, daemon, belief, notice);
	if (belief == NULL)
		return;
	if (notice->kind == LOCK_NOTICE_REVOKED) {
		belief->revoked = true;
		for (size_t i = 0; i < sim->book.ask_count; i++) {
			struct ask *ask = &sim->book.asks[i];

			if (ask->daemon == daemon->number && ask->lock == notice->lock)
				ask->revoked = true;
		}
	}
	if (notice->kind == LOCK_NOTICE_LOST)
		book_end_belief(&sim->book, belief);
}

/* ---- links ---- */

void
daemon_cut(struct sim_daemon *daemon, enum broker_link link, int64_t notice, int64_t back)
{
	struct sim *sim = daemon->sim;

	timers_cancel(sim->timers, &daemon->cut[link]);
	timers_cancel(sim->timers, &daemon->forsake[link]);
	NOTE(sim, .text = "{d} notices that its {w} link is dead; the broker after {t}",
	    .daemon = daemon->number, .word = link == BROKER_HOLD ? "hold" : "side",
	    .time = notice);
	if (!daemon->denied[link])
		memory_broker_cut(daemon->broker, link, notice, back, "cut");
}

static void
on_cut_hold(void *ctx, uint64_t id)
{
	(void)id;
	daemon_cut(ctx, BROKER_HOLD, 0, 10 * NSEC_PER_MSEC);
}

static void
on_cut_side(void *ctx, uint64_t id)
{
	(void)id;
	daemon_cut(ctx, BROKER_SIDE, 0, 10 * NSEC_PER_MSEC);
}

static void
on_forsake_hold(void *ctx, uint64_t id)
{
	(void)id;
	daemon_forsake(ctx, BROKER_HOLD);
}

static void
on_forsake_side(void *ctx, uint64_t id)
{
	(void)id;
	daemon_forsake(ctx, BROKER_SIDE);
}

void
daemon_is_forsaken(struct sim_daemon *daemon)
{
	uint64_t connection = memory_broker_connection(daemon->broker, BROKER_HOLD);

	if (connection != 0)
		daemon->sim->truth.forsaken[daemon->number] = connection;
}

void
daemon_forsake(struct sim_daemon *daemon, enum broker_link link)
{
	struct sim *sim = daemon->sim;

	NOTE(sim, .text = "the broker gives up the {w} link of {d}, which does not notice",
	    .daemon = daemon->number, .word = link == BROKER_HOLD ? "hold" : "side");
	if (link == BROKER_HOLD)
		daemon_is_forsaken(daemon);
	memory_broker_forsake(daemon->broker, link);
}

void
daemon_freeze(struct sim_daemon *daemon, enum broker_link link)
{
	NOTE(daemon->sim, .text = "the {w} link of {d} falls silent", .daemon = daemon->number,
	    .word = link == BROKER_HOLD ? "hold" : "side");
	memory_broker_freeze(daemon->broker, link);
}

/* ---- life and death ---- */

static void
peer_come(struct sim_daemon *daemon, int peer)
{
	daemon->peers[peer] =
	    (struct sim_peer){.id = ++daemon->last_peer, .uid = 1000 + (uid_t)peer % 2};
}

void
daemon_start(struct sim *sim, int number)
{
	struct sim_daemon *daemon = &sim->daemons[number];
	struct lock_listener listener = {on_answer, on_notice, daemon};

	*daemon = (struct sim_daemon){.sim = sim, .number = number};
	daemon->broker =
	    memory_broker_new(sim->world, HEARTBEAT / NSEC_PER_SEC, sim->plan.lanes_max);
	daemon->engine = lock_engine_new(
	    daemon->broker, sim->timers, dice_next(&sim->dice), &sim->plan.settings, &listener);
	timer_init(&daemon->cut[BROKER_HOLD], on_cut_hold, daemon, 0);
	timer_init(&daemon->cut[BROKER_SIDE], on_cut_side, daemon, 0);
	timer_init(&daemon->forsake[BROKER_HOLD], on_forsake_hold, daemon, 0);
	timer_init(&daemon->forsake[BROKER_SIDE], on_forsake_side, daemon, 0);
	for (int i = 0; i < PEERS_MAX; i++)
		peer_come(daemon, i);
	broker_start(daemon->broker);
}

void
daemon_kill(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;

	for (int link = 0; link < LINKS; link++) {
		timers_cancel(sim->timers, &daemon->cut[link]);
		timers_cancel(sim->timers, &daemon->forsake[link]);
	}
	book_peer_gone(&sim->book, daemon->number, 0);
	broker_stop(daemon->broker);
	lock_engine_free(daemon->engine);
	broker_free(daemon->broker);
	daemon->broker = NULL;
}

void
daemon_hang_up(struct sim_daemon *daemon, int peer)
{
	uint64_t id = daemon->peers[peer].id;

	book_peer_gone(&daemon->sim->book, daemon->number, id);
	lock_peer_gone(daemon->engine, id);
	peer_come(daemon, peer);
}
