#include "tests/sim/homes.h"

/* Silence, after which a node may be given up. */
#define GIVEN_UP_AFTER (2 * HEARTBEAT)

static int64_t
any_time(struct sim *sim, int64_t most)
{
	return (int64_t)dice_below(&sim->dice, (uint64_t)most);
}

static const char *
reach_word(enum memory_reach reach)
{
	static const char *const words[] = {
	    [MEMORY_REACHED] = "reached",
	    [MEMORY_SILENT] = "silent",
	    [MEMORY_PARTED] = "silent, and has given up that node",
	    [MEMORY_TIMED_OUT] = "parted from it by a reset",
	    [MEMORY_DOWN] = "down",
	};

	return words[reach];
}

static void
set(struct sim *sim, unsigned from, enum memory_reach reach)
{
	struct home_way *way = &sim->homes[from];

	if (way->reach == reach)
		return;
	NOTE(sim, .text = "from node {n} the home is {w}", .n = (int64_t)from,
	    .word = reach_word(reach));
	sim->truth.moment++;
	way->reach = reach;
	way->changed_at = sim->now;
	memory_world_set_reach(sim->world, from, HOME, reach);
	truth_find_freed(sim, reach != MEMORY_PARTED);
}

/* A node that is down is down for all. */
static void
set_down(struct sim *sim, bool down)
{
	NOTE(sim, .text = "the home goes {w}", .word = down ? "down" : "up");
	memory_world_set_reach(sim->world, HOME, HOME, down ? MEMORY_DOWN : MEMORY_REACHED);
	for (unsigned from = 0; from < HOME; from++) {
		timers_cancel(sim->timers, &sim->homes[from].timer);
		set(sim, from, down ? MEMORY_DOWN : MEMORY_REACHED);
	}
}

static void
change_in(struct sim *sim, unsigned from, int64_t time)
{
	timers_set(sim->timers, &sim->homes[from].timer, sim->now + time);
}

/* From silence or a partition on. */
static void
go_on(struct sim *sim, unsigned from)
{
	struct home_way *way = &sim->homes[from];
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);

	if (way->reach == MEMORY_DOWN) {
		set_down(sim, false);
	} else if (way->reach == MEMORY_SILENT && roll < 50 &&
		   sim->now - way->changed_at >= GIVEN_UP_AFTER) {
		set(sim, from, MEMORY_PARTED);
		change_in(sim, from, any_time(sim, 2 * HEARTBEAT));
	} else if (way->reach != MEMORY_TIMED_OUT && roll < 70) {
		set(sim, from, MEMORY_TIMED_OUT);
		change_in(sim, from, any_time(sim, HEARTBEAT));
	} else {
		set(sim, from, MEMORY_REACHED);
	}
}

static void
on_change(void *ctx, uint64_t from)
{
	go_on(ctx, (unsigned)from);
}

void
homes_step(struct sim *sim)
{
	unsigned from = (unsigned)dice_below(&sim->dice, HOME);
	unsigned roll = (unsigned)dice_below(&sim->dice, 100);

	if (sim->homes[from].reach != MEMORY_REACHED) {
		go_on(sim, from);
	} else if (roll < 30) {
		set(sim, from, MEMORY_SILENT);
		change_in(sim, from, any_time(sim, GIVEN_UP_AFTER));
	} else if (roll < 70) {
		set(sim, from, MEMORY_SILENT);
		change_in(sim, from, GIVEN_UP_AFTER + any_time(sim, HEARTBEAT));
	} else if (roll < 85) {
		set(sim, from, MEMORY_TIMED_OUT);
		change_in(sim, from, any_time(sim, HEARTBEAT));
	} else {
		set_down(sim, true);
		change_in(sim, from, any_time(sim, HEARTBEAT));
	}
}

void
homes_init(struct sim *sim)
{
	for (unsigned from = 0; from < HOME; from++)
		timer_init(&sim->homes[from].timer, on_change, sim, from);
}

void
homes_end(struct sim *sim)
{
	for (unsigned from = 0; from < HOME; from++)
		timers_cancel(sim->timers, &sim->homes[from].timer);
	if (sim->homes[0].reach == MEMORY_DOWN)
		set_down(sim, false);
	for (unsigned from = 0; from < HOME; from++)
		set(sim, from, MEMORY_REACHED);
}
