#include "tests/sim/ways.h"

#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/daemons.h"

static const char *
link_word(enum broker_link link)
{
	static const char *const words[LINKS] = {
	    "locks", "auxiliary", "first quorum", "second quorum"};

	return words[link];
}

/*
 * ---- bytes that the world does not read ----
 */

/* Nothing is read from the daemon on that link now. */
static bool
is_mute(const struct sim_daemon *daemon, enum broker_link link)
{
	return daemon->stopped || daemon->late ||
	       (link == BROKER_LOCKS && (daemon->blocked & MEMORY_OUT) != 0);
}

/*
 * When the world gives a mute link up. A link that can speak says something every half heartbeat.
 */
static int64_t
starves_at(const struct sim_daemon *daemon, enum broker_link link)
{
	const struct truth *truth = &daemon->sim->truth;
	int64_t read_at = daemon->silent_since[link] - HEARTBEAT / 2;

	if (link == BROKER_LOCKS && truth->reading[daemon->number] == daemon->starving[link] &&
	    truth->read_at[daemon->number] > read_at)
		read_at = truth->read_at[daemon->number];
	return read_at + daemon->patience[link];
}

static void
on_starve(void *ctx, uint64_t id)
{
	struct sim_daemon *daemon = ctx;
	enum broker_link link = (enum broker_link)id;
	struct sim *sim = daemon->sim;

	if (memory_broker_connection(daemon->broker, link) != daemon->starving[link])
		return;
	if (starves_at(daemon, link) > sim->now) {
		timers_set(sim->timers, &daemon->starve[link], starves_at(daemon, link));
		return;
	}
	NOTE(sim, .text = "the broker has read nothing from {d}: it gives up its {w} link",
	    .daemon = daemon->number, .word = link_word(link));
	if (link == BROKER_LOCKS)
		sim->truth.forsaken[daemon->number] = daemon->starving[link];
	memory_broker_forsake(daemon->broker, link);
	/* Its close arrives, unless nothing does. */
	if (link != BROKER_LOCKS || (daemon->blocked & MEMORY_IN) == 0)
		timers_set(daemon->heard, &daemon->cut[link], sim->now + NSEC_PER_MSEC);
}

/* After what can be read, or not any more, has changed. */
static void
update(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;

	for (int link = 0; link < LINKS; link++) {
		uint64_t connection = memory_broker_connection(daemon->broker, link);

		if (!is_mute(daemon, link) || connection == 0) {
			timers_cancel(sim->timers, &daemon->starve[link]);
			continue;
		}
		if (timer_is_set(&daemon->starve[link]) && daemon->starving[link] == connection)
			continue;
		daemon->starving[link] = connection;
		daemon->silent_since[link] = sim->now;
		daemon->patience[link] = 2 * HEARTBEAT + (int64_t)dice_below(&sim->dice, HEARTBEAT);
		timers_set(sim->timers, &daemon->starve[link], starves_at(daemon, link));
	}
}

/* How long the world still waits for a link that the daemon has given up. -1: it notices at once. */
static int64_t
deaf_for(const struct sim_daemon *daemon, enum broker_link link)
{
	if (link != BROKER_LOCKS || (daemon->blocked & MEMORY_OUT) == 0)
		return -1;
	if (!timer_is_set(&daemon->starve[link]))
		return 0; /* it has given it up, too */
	return starves_at(daemon, link) - daemon->sim->now;
}

int64_t
ways_notice(void *ctx, const struct broker *broker, enum broker_link link, const char *broken)
{
	struct sim *sim = ctx;

	for (int i = 0; i < sim->plan.daemons; i++) {
		struct sim_daemon *daemon = &sim->daemons[i];
		int64_t deaf = deaf_for(daemon, link);

		if (daemon->broker != broker)
			continue;
		NOTE(sim, .text = "{d} makes its {w} link anew", .daemon = i,
		    .word = link_word(link));
		/* By quorum, a consume that is refused ends its connection. */
		if (broken != NULL &&
		    !(sim->plan.quorum && strstr(broken, "INTERNAL_ERROR") != NULL))
			check_fail(sim, 0, "the %s link of daemon %d broke: %s", link_word(link),
			    i + 1, broken);
		if (deaf < 0)
			deaf = (int64_t)dice_below(&sim->dice, 4 * NSEC_PER_MSEC);
		if (link == BROKER_LOCKS) {
			daemon->blocked = 0;
			daemon->safe_until = 0;
			timers_cancel(sim->timers, &daemon->heal);
			timers_cancel(daemon->heard, &daemon->cut[link]);
		}
		timers_cancel(sim->timers, &daemon->starve[link]);
		return deaf;
	}
	return 0;
}

/* ---- links that die ---- */

void
ways_cut(struct sim_daemon *daemon, enum broker_link link, int64_t notice, int64_t back)
{
	struct sim *sim = daemon->sim;
	int64_t deaf = deaf_for(daemon, link);

	timers_cancel(daemon->heard, &daemon->cut[link]);
	timers_cancel(sim->timers, &daemon->starve[link]);
	if (deaf >= 0)
		notice = deaf;
	if (link == BROKER_LOCKS) {
		timers_cancel(sim->timers, &daemon->heal);
		daemon->blocked = 0;
		daemon->safe_until = 0;
	}
	NOTE(sim, .text = "{d} notices that its {w} link is dead; the broker after {t}",
	    .daemon = daemon->number, .word = link_word(link), .time = notice);
	if (!daemon->denied[link])
		memory_broker_cut(daemon->broker, link, notice, back, "cut");
	update(daemon);
}

static void
on_cut(void *ctx, uint64_t id)
{
	ways_cut(ctx, (enum broker_link)id, 0, 10 * NSEC_PER_MSEC);
}

void
ways_is_torn(struct sim_daemon *daemon)
{
	struct truth *truth = &daemon->sim->truth;
	uint64_t connection = memory_broker_connection(daemon->broker, BROKER_LOCKS);

	if (connection != 0)
		truth->torn[daemon->number] = truth->forsaken[daemon->number] = connection;
}

void
ways_tear(struct sim_daemon *daemon, enum broker_link link, int64_t notice)
{
	struct sim *sim = daemon->sim;

	NOTE(sim, .text = "the broker ends the {w} link of {d}, which does not notice",
	    .daemon = daemon->number, .word = link_word(link));
	if (link == BROKER_LOCKS)
		ways_is_torn(daemon);
	memory_broker_forsake(daemon->broker, link);
	timers_set(daemon->heard, &daemon->cut[link], sim->now + notice);
}

/* ---- links on which nothing arrives ---- */

static void
heal(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;
	uint64_t connection = memory_broker_connection(daemon->broker, BROKER_LOCKS);

	NOTE(sim, .text = "the lock connection of {d} is free again", .daemon = daemon->number);
	daemon->blocked = 0;
	daemon->disturbed = sim->now;
	timers_cancel(sim->timers, &daemon->heal);
	timers_cancel(daemon->heard, &daemon->cut[BROKER_LOCKS]);
	memory_broker_block(daemon->broker, BROKER_LOCKS, 0);
	/* The world knows nothing of this connection any more, and says so. */
	if (connection != 0 && sim->truth.forsaken[daemon->number] == connection)
		timers_set(daemon->heard, &daemon->cut[BROKER_LOCKS], sim->now + NSEC_PER_MSEC);
	update(daemon);
}

static void
on_heal(void *ctx, uint64_t id)
{
	(void)id;
	heal(ctx);
}

void
ways_block(struct sim_daemon *daemon, unsigned ways, int64_t time)
{
	struct sim *sim = daemon->sim;

	if (memory_broker_connection(daemon->broker, BROKER_LOCKS) == 0)
		return;
	NOTE(sim, .text = "nothing arrives on the lock connection of {d}, {w}, for {t}",
	    .daemon = daemon->number,
	    .word = ways == MEMORY_OUT  ? "to the broker"
		    : ways == MEMORY_IN ? "from the broker"
					: "either way",
	    .time = time);
	daemon->blocked = ways;
	memory_broker_block(daemon->broker, BROKER_LOCKS, ways);
	if (time != INT64_MAX)
		timers_set(sim->timers, &daemon->heal, sim->now + time);
	/* It misses the broker's heartbeats. */
	if (ways & MEMORY_IN)
		timers_set(daemon->heard, &daemon->cut[BROKER_LOCKS],
		    sim->now + 2 * HEARTBEAT + (int64_t)dice_below(&sim->dice, 2 * HEARTBEAT));
	update(daemon);
}

void
ways_freeze(struct sim_daemon *daemon, enum broker_link link)
{
	struct sim *sim = daemon->sim;

	NOTE(sim, .text = "the {w} link of {d} falls silent", .daemon = daemon->number,
	    .word = link_word(link));
	memory_broker_freeze(daemon->broker, link);
	timers_set(daemon->heard, &daemon->cut[link],
	    sim->now + 2 * HEARTBEAT + (int64_t)dice_below(&sim->dice, 2 * HEARTBEAT));
}

/* ---- daemons that do nothing ---- */

static void
wake(struct sim_daemon *daemon)
{
	struct sim *sim = daemon->sim;

	NOTE(sim, .text = "{d} goes on", .daemon = daemon->number);
	timers_cancel(sim->timers, &daemon->wake);
	daemon->stopped = daemon->late = false;
	daemon->woke = daemon->disturbed = sim->now;
	/* An administrator's request has a deadline for each step, and these steps were late. */
	for (size_t i = 0; i < sim->book.ask_count; i++) {
		struct ask *ask = &sim->book.asks[i];

		if (ask->daemon == daemon->number && ask->what >= ASK_CREATE &&
		    ask->due != INT64_MAX)
			ask->due += sim->now - daemon->slow_since;
	}
	update(daemon);
}

static void
on_wake(void *ctx, uint64_t id)
{
	(void)id;
	wake(ctx);
}

static void
slow(struct sim_daemon *daemon, int64_t time)
{
	daemon->slow_since = daemon->sim->now;
	timers_set(daemon->sim->timers, &daemon->wake, daemon->sim->now + time);
	update(daemon);
}

void
ways_stop(struct sim_daemon *daemon, int64_t time)
{
	NOTE(daemon->sim, .text = "{d} is stopped for {t}", .daemon = daemon->number, .time = time);
	daemon->stopped = true;
	slow(daemon, time);
}

void
ways_suspend(struct sim_daemon *daemon, int64_t time)
{
	NOTE(daemon->sim, .text = "the timers of {d} are late by {t}", .daemon = daemon->number,
	    .time = time);
	daemon->late = true;
	slow(daemon, time);
}

/* ---- all of them ---- */

void
ways_free(struct sim_daemon *daemon)
{
	if (daemon->stopped || daemon->late)
		wake(daemon);
	if (daemon->blocked != 0)
		heal(daemon);
	for (int link = 0; link < LINKS; link++) {
		if (timer_is_set(&daemon->cut[link]))
			ways_cut(daemon, link, 0, 0);
	}
}

void
ways_init(struct sim_daemon *daemon)
{
	for (unsigned link = 0; link < LINKS; link++) {
		timer_init(&daemon->cut[link], on_cut, daemon, link);
		timer_init(&daemon->starve[link], on_starve, daemon, link);
	}
	timer_init(&daemon->wake, on_wake, daemon, 0);
	timer_init(&daemon->heal, on_heal, daemon, 0);
}

void
ways_done(struct sim_daemon *daemon)
{
	struct timers *world = daemon->sim->timers;

	for (int link = 0; link < LINKS; link++) {
		timers_cancel(daemon->heard, &daemon->cut[link]);
		timers_cancel(world, &daemon->starve[link]);
	}
	timers_cancel(world, &daemon->wake);
	timers_cancel(world, &daemon->heal);
}
