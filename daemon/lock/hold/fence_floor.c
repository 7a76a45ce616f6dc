#include "daemon/lock/hold/fence_floor.h"

#include <assert.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/broker/beads.h"

/* A mutex that comes so close to the floor raises it, by that much. So it seldom does. */
#define NEAR 2
#define FURTHER 64

/* The rest after a failure. */
#define AGAIN (60 * NSEC_PER_SEC)

static void on_records(void *ctx, uint64_t id, const struct broker_reply *reply);
static void on_raised(void *ctx, uint64_t id, const struct broker_reply *reply);

static void
begin(struct lock_engine *engine)
{
	struct fence_floor *floor = &engine->fence_floor;

	if (floor->least > floor->known && floor->records == 0 && !timer_is_set(&floor->again))
		floor->records = broker_records_open(
		    engine->broker, (struct broker_done){on_records, engine, 0});
}

static void
close_records(struct lock_engine *engine)
{
	struct fence_floor *floor = &engine->fence_floor;

	if (floor->records != 0)
		broker_records_close(engine->broker, floor->records);
	floor->records = 0;
}

static void
fail(struct lock_engine *engine, const struct broker_reply *reply)
{
	struct fence_floor *floor = &engine->fence_floor;

	if (!floor->failed)
		log_warning("the fencing numbers of slots that are gone are not recorded yet: %s",
		    reply->text);
	floor->failed = true;
	timers_set(engine->timers, &floor->again, engine_now(engine) + AGAIN);
}

static void
on_raised(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fence_floor *floor = &engine->fence_floor;

	close_records(engine);
	if (reply->answer != BROKER_OK) {
		fail(engine, reply);
		return;
	}
	floor->failed = false;
	fence_floor_rose(engine, id);
	begin(engine);
}

static void
on_records(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	struct fence_floor *floor = &engine->fence_floor;

	(void)id;
	if (reply->answer != BROKER_OK) {
		floor->records = 0;
		fail(engine, reply);
		return;
	}
	fence_floor_rose(engine, broker_records_floor(engine->broker, floor->records));
	if (floor->least > floor->known)
		broker_records_set(engine->broker, floor->records, NULL, floor->wanted,
		    (struct broker_done){on_raised, engine, floor->wanted});
	else
		close_records(engine);
}

/* It is raised if it is below `least`: then to `wanted`. */
static void
raise_to(struct lock_engine *engine, uint64_t least, uint64_t wanted)
{
	struct fence_floor *floor = &engine->fence_floor;

	if (floor->least < least)
		floor->least = least;
	if (floor->wanted < wanted)
		floor->wanted = wanted;
	begin(engine);
}

static void
again_due(void *ctx, uint64_t id)
{
	(void)id;
	begin(ctx);
}

/* ---- the doors ---- */

void
fence_floor_raise(struct lock_engine *engine, uint64_t epoch)
{
	raise_to(engine, epoch, epoch);
}

void
fence_floor_rose(struct lock_engine *engine, uint64_t epoch)
{
	if (engine->fence_floor.known < epoch)
		engine->fence_floor.known = epoch;
}

void
fence_floor_granted(struct lock_engine *engine, const struct hold *hold)
{
	uint64_t epoch = bead_fence_epoch(hold_fence(hold));

	FAULT(MUTEX_OUTRUNS_FLOOR, return );
	if (hold->kind == LOCK_KIND_MUTEX && epoch != 0 && epoch + NEAR > engine->fence_floor.known)
		raise_to(engine, epoch + NEAR, epoch + FURTHER);
}

void
fence_floor_init(struct lock_engine *engine)
{
	timer_init(&engine->fence_floor.again, again_due, engine, 0);
}

void
fence_floor_done(struct lock_engine *engine)
{
	close_records(engine);
	timers_cancel(engine->timers, &engine->fence_floor.again);
}
