#include "tests/sim/fuse.h"

#include "tests/sim/daemons.h"
#include "tests/sim/ways.h"

/* More than nearly all that an administrator does. */
#define STEPS_MOST 25

/* After the step was performed, and before anybody hears of it. */
static void
on_fuse(void *ctx, uint64_t id)
{
	struct sim *sim = ctx;
	struct sim_daemon *daemon = &sim->daemons[sim->fuse_daemon];

	(void)id;
	if (sim->calm)
		return;
	if (dice_percent(&sim->dice, 40) && !daemon->stopped) {
		ways_cut(daemon, BROKER_SIDE, (int64_t)dice_below(&sim->dice, 2 * HEARTBEAT),
		    (int64_t)dice_below(&sim->dice, 20 * NSEC_PER_MSEC));
		return;
	}
	NOTE(sim, .text = "{d} is killed by an administrator's step, and started again",
	    .daemon = daemon->number);
	daemon_kill(daemon);
	daemon_start(sim, daemon->number);
}

void
fuse_init(struct sim *sim)
{
	timer_init(&sim->fuse, on_fuse, sim, 0);
}

void
fuse_light(struct sim *sim)
{
	if (sim->fuse_steps > 0 || timer_is_set(&sim->fuse))
		return;
	sim->fuse_daemon = (int)dice_below(&sim->dice, (uint64_t)sim->plan.daemons);
	sim->fuse_steps = 1 + (unsigned)dice_below(&sim->dice, STEPS_MOST);
}

void
fuse_step(struct sim *sim, int daemon)
{
	if (sim->fuse_steps == 0 || daemon != sim->fuse_daemon || --sim->fuse_steps > 0)
		return;
	timers_set(sim->timers, &sim->fuse, sim->now);
}

void
fuse_done(struct sim *sim)
{
	timers_cancel(sim->timers, &sim->fuse);
}
