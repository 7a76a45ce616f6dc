#include "daemon/lock/hold/mutex_post.h"

#include "daemon/base/fault.h"
#include "daemon/base/log.h"

/* Declares that the broker does not perform are repeated so often before a post ends. */
#define ROUNDS 12

static void
next_round(struct lock_engine *engine)
{
	timers_set(engine->timers, &engine->mutex_post.round,
	    engine_now(engine) + BROKER_POST_EXPIRES / ROUNDS);
}

/* The first one after that number; NULL: there is none. Holds have no order, so this searches. */
static const struct hold *
next_hold(const struct lock_engine *engine, uint64_t after)
{
	const struct hold *hold, *next = NULL;

	for (hold = engine->holds.by_id; hold != NULL; hold = hold->by_id.next) {
		if (hold->kind == LOCK_KIND_MUTEX && hold->id > after &&
		    hold->state != HOLD_SLOTLESS && way_row(hold->way)->by_beads &&
		    (next == NULL || hold->id < next->id))
			next = hold;
	}
	return next;
}

static void on_declared(void *ctx, uint64_t id, const struct broker_reply *reply);

/* One after the other, so that a refusal does not concern the others. */
static void
declare_next(struct lock_engine *engine, uint64_t after)
{
	const struct hold *hold = next_hold(engine, after);

	if (hold == NULL) {
		if (after != 0)
			next_round(engine);
		return;
	}
	engine->mutex_post.channel = broker_channel_take(engine->broker, BROKER_AUXILIARY);
	broker_declare_post(engine->broker, engine->mutex_post.channel,
	    queue_name_mutex(engine->settings.naming, hold->name).text,
	    (struct broker_done){on_declared, engine, hold->id});
}

static void
on_declared(void *ctx, uint64_t id, const struct broker_reply *reply)
{
	struct lock_engine *engine = ctx;
	const struct hold *hold = hold_find(&engine->holds, id);

	if (reply->channel_open)
		broker_channel_put(engine->broker, engine->mutex_post.channel);
	engine->mutex_post.channel = 0;
	if (hold != NULL && (reply->answer == BROKER_LOCKED || reply->answer == BROKER_REFUSED))
		log_warning("%s: the post %s of this held mutex cannot be declared; other programs "
			    "may hold the mutex, "
			    "too: %s",
		    hold->name, queue_name_mutex(engine->settings.naming, hold->name).text,
		    reply->text);
	if (reply->answer == BROKER_UNKNOWN || reply->answer == BROKER_SKIPPED)
		next_round(engine);
	else
		declare_next(engine, id);
}

static void
round_due(void *ctx, uint64_t id)
{
	(void)id;
	FAULT(POST_EXPIRES, return );
	declare_next(ctx, 0);
}

void
mutex_post_init(struct lock_engine *engine)
{
	timer_init(&engine->mutex_post.round, round_due, engine, 0);
}

void
mutex_post_granted(struct lock_engine *engine, const struct hold *hold)
{
	if (hold->kind == LOCK_KIND_MUTEX && way_row(hold->way)->by_beads &&
	    !timer_is_set(&engine->mutex_post.round) && engine->mutex_post.channel == 0)
		next_round(engine);
}

void
mutex_post_done(struct lock_engine *engine)
{
	timers_cancel(engine->timers, &engine->mutex_post.round);
}
