#include "tests/sim/fuse.h"

#include "tests/sim/admins.h"
#include "tests/sim/daemons.h"
#include "tests/sim/ways.h"

/* More than nearly all that an administrator does. */
#define STEPS_MOST 25
/* If another administrator is at work, the daemon waits to ask again after this time. */
#define WHILE_STUCK (25 * NSEC_PER_MSEC)

/* Meanwhile another daemon creates the lock that this one was to destroy. */
static void
create_elsewhere(struct sim *sim, int daemon)
{
	struct order create = {.what = ASK_CREATE, .slots = 1, .exist_ok = true};
	int other = (daemon + 1) % sim->plan.daemons;

	for (create.name = 0; create.name < sim->plan.names; create.name++) {
		if (sim->unfinished[create.name].what == ASK_DESTROY &&
		    dice_percent(&sim->dice, 50))
			admins_ask(sim, &sim->daemons[other], &create);
	}
}

/*
 * After the step was performed, and before its answer; or while the daemon waits to repeat it.
 */
static void
on_fuse(void *ctx, uint64_t id)
{
	struct sim *sim = ctx;
	struct sim_daemon *daemon = &sim->daemons[sim->fuse_daemon];
	int64_t away = dice_percent(&sim->dice, 50) ? 20 * NSEC_PER_MSEC : 300 * NSEC_PER_MSEC;

	(void)id;
	fuse_out(sim);
	if (sim->calm)
		return;
	if (dice_percent(&sim->dice, 40) && !daemon->stopped) {
		ways_cut(daemon, BROKER_AUXILIARY, (int64_t)dice_below(&sim->dice, 2 * HEARTBEAT),
		    (int64_t)dice_below(&sim->dice, (uint64_t)away));
	} else {
		NOTE(sim, .text = "{d} is killed by an administrator's step, and started again",
		    .daemon = daemon->number);
		daemon_kill(daemon);
		daemon_start(sim, daemon->number);
	}
	create_elsewhere(sim, sim->fuse_daemon);
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
	if (dice_percent(&sim->dice, 30))
		sim->fuse_foreign =
		    truth_put_foreign(sim, (struct queue_id){.part = QUEUE_DIRECTORY_MUTEX});
}

void
fuse_step(struct sim *sim, int daemon, bool stuck)
{
	if (sim->fuse_steps == 0 || daemon != sim->fuse_daemon)
		return;
	stuck = stuck && dice_percent(&sim->dice, 50);
	if (stuck)
		sim->fuse_steps = 1;
	if (--sim->fuse_steps == 0)
		timers_set(sim->timers, &sim->fuse, sim->now + (stuck ? WHILE_STUCK : 0));
}

void
fuse_out(struct sim *sim)
{
	timers_cancel(sim->timers, &sim->fuse);
	sim->fuse_steps = 0;
	if (sim->fuse_foreign)
		memory_world_remove(sim->world, queue_directory_mutex());
	sim->fuse_foreign = false;
}
