#include "daemon/lock/lock.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/admin.h"
#include "daemon/lock/channels.h"
#include "daemon/lock/claim.h"
#include "daemon/lock/engine.h"
#include "daemon/lock/fsck.h"
#include "daemon/lock/hold.h"
#include "daemon/lock/holders.h"
#include "daemon/lock/keepalive.h"
#include "daemon/lock/list.h"
#include "daemon/lock/mutex.h"
#include "daemon/lock/queue.h"
#include "daemon/lock/registry.h"
#include "daemon/lock/release.h"
#include "daemon/lock/scan.h"
#include "protocol/methods.h"

/*
 * Contents:
 *	The broker's events, each given to the files that it concerns: on_link() and on_channel_closed().
 *	on_cancelled(), on_unclean(), on_suspended() and on_removed() concern one hold.
 *	run_queues() is the timer that runs the queue runner. on_replied(): all answers pass it.
 *	lock_engine_new(), lock_engine_free() and lock_engine_set() are its life.
 *	lock_cancel() and lock_peer_gone() end the requests of a client, in all files.
 *	lock_drain() and lock_quiet(): the stop.
 */

/* ---- the broker's events ---- */

static void
on_link(void *ctx, enum broker_link link, enum broker_state state, const char *why)
{
	struct lock_engine *engine = ctx;
	struct lock_notice notice = {.kind = LOCK_NOTICE_BROKER, .state = state, .text = why};
	struct lock_peer *peer, *next;

	if (link != BROKER_LOCKS) {
		/* Each request on the auxiliary connection has been answered before. */
		if (state != BROKER_UP)
			mutex_link_died(engine, why);
		if (engine->events.unheard != NULL)
			engine->events.unheard(engine->events.ctx);
		return;
	}
	engine->link = state;
	HASH_ITER (by_id, engine->peers, peer, next)
		engine_notice(engine, peer->id, &notice);
	if (state != BROKER_UP)
		lifecycle_link_died(engine, why);
	acquire_link_changed(engine, why);
	holder_wait_link_changed(engine, why);
}

static void
on_channel_closed(void *ctx, uint64_t channel, int code, const char *text)
{
	struct lock_engine *engine = ctx;

	(void)code;
	/*
	 * In this order: verify sends its requests behind the new claim of lifecycle, on the same
	 * new channel.
	 */
	lifecycle_channel_closed(engine, channel, text);
	verify_channel_closed(engine, channel);
	mutex_channel_closed(engine, channel);
}

static void
on_cancelled(void *ctx, uint64_t channel)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find_channel(&engine->holds, channel);

	if (hold == NULL)
		return;
	if (hold->state == HOLD_CHECKING)
		claim_cancelled(engine, hold);
	else
		lifecycle_cancelled(engine, hold);
}

static bool
on_unclean(void *ctx, uint64_t channel, int64_t until)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find_channel(&engine->holds, channel);

	return hold == NULL || claim_unclean(engine, hold, until);
}

static void
on_suspended(void *ctx, uint64_t channel)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find_channel(&engine->holds, channel);

	if (hold != NULL)
		keepalive_suspended(engine, hold);
}

static void
on_removed(void *ctx, uint64_t channel)
{
	struct lock_engine *engine = ctx;
	struct hold *hold = hold_find_channel(&engine->holds, channel);

	FAULT(REMOVAL_UNHEARD, return;);
	if (hold != NULL)
		lifecycle_revoke(engine, hold);
}

/* ---- the engine ---- */

static void
run_queues(void *ctx, uint64_t id)
{
	struct lock_engine *engine = ctx;
	struct semaphore_list dirty = TAILQ_HEAD_INITIALIZER(dirty);
	struct semaphore *semaphore;

	(void)id;
	if (engine->frozen)
		return; /* lock_freeze() sets the timer again */
	/*
	 * Semaphores that become dirty meanwhile are served in the next pass, so that this one
	 * ends.
	 */
	TAILQ_CONCAT(&dirty, &engine->dirty, of_dirty);
	while ((semaphore = TAILQ_FIRST(&dirty)) != NULL) {
		TAILQ_REMOVE(&dirty, semaphore, of_dirty);
		queue_runner_run(engine, semaphore);
	}
}

static void
on_asked(void *ctx, const struct broker_message *message)
{
	const struct lock_engine *engine = ctx;

	if (engine->events.asked != NULL)
		engine->events.asked(engine->events.ctx, message);
}

static void
on_replied(void *ctx, const struct broker_message *message)
{
	const struct lock_engine *engine = ctx;

	if (engine->events.replied != NULL)
		engine->events.replied(engine->events.ctx, message);
}

static void
take_settings(struct lock_engine *engine, const struct lock_settings *settings)
{
	engine->settings = *settings;
	if (settings->slots_most == 0)
		engine->settings.slots_most = METHODS_SLOTS_MAX;
	if (settings->flights_most == 0)
		engine->settings.flights_most = FLIGHTS_MOST * FLIGHT_BY_QUEUE;
}

struct lock_engine *
lock_engine_new(struct broker *broker, struct timers *timers, uint64_t seed,
    const struct lock_settings *settings, const struct lock_events *events)
{
	struct lock_engine *engine = mem_alloc(sizeof(*engine));

	engine->broker = broker;
	engine->timers = timers;
	take_settings(engine, settings);
	engine->events = *events;
	engine->link = BROKER_DOWN;
	jitter_init(&engine->jitter, seed);
	TAILQ_INIT(&engine->dirty);
	TAILQ_INIT(&engine->lost_holds);
	holder_wait_init(engine);
	mutex_init(engine);
	hold_table_init(&engine->holds, timers);
	timer_init(&engine->run_queues, run_queues, engine, 0);
	keepalive_init(engine);
	channels_init(engine);
	broker_set_events(broker, &(struct broker_events){.link = on_link,
				      .channel_closed = on_channel_closed,
				      .cancelled = on_cancelled,
				      .unclean = on_unclean,
				      .suspended = on_suspended,
				      .removed = on_removed,
				      .reclaimed = hint_reclaimed,
				      .watch = watch_news,
				      .asked = on_asked,
				      .replied = on_replied,
				      .wait_queue = hint_news,
				      .ctx = engine});
	return engine;
}

void
lock_engine_free(struct lock_engine *engine)
{
	struct semaphore *semaphore;
	struct hold *hold;
	struct op *op, *next;

	if (engine == NULL)
		return;
	engine->events.changed = NULL;
	engine->link = BROKER_DOWN; /* nothing more is sent */
	while (engine->waiters != NULL)
		registry_waiter_free(engine, engine->waiters);
	while ((hold = engine->holds.by_id) != NULL) {
		hold_set_channel(&engine->holds, hold, 0);
		registry_hold_end(engine, hold, false);
	}
	channels_done(engine);
	keepalive_done(engine);
	admin_free_all(engine);
	fsck_free_all(engine);
	list_free_all(engine);
	holder_wait_free_all(engine);
	mutex_done(engine);
	peer_order_free_all(engine);
	lifecycle_done(engine);
	HASH_ITER (by_id, engine->ops, op, next)
		engine_op_leave(engine, op);
	scan_done(engine);
	timers_cancel(engine->timers, &engine->run_queues);
	TAILQ_FOREACH (semaphore, &engine->dirty, of_dirty)
		semaphore->dirty = false; /* the queue runner does not run any more */
	while ((semaphore = engine->semaphores) != NULL)
		registry_semaphore_end(engine, semaphore);
	free(engine);
}

void
lock_engine_set(struct lock_engine *engine, const struct lock_settings *settings)
{
	struct semaphore *semaphore;

	assert(settings->naming == engine->settings.naming);
	take_settings(engine, settings);
	/* Rescans that were due by the old interval are due now. */
	for (semaphore = engine->semaphores; semaphore != NULL;
	     semaphore = semaphore->by_key.next) {
		timers_cancel(engine->timers, &semaphore->rescan);
		engine_mark_dirty(engine, semaphore);
	}
	channels_settings_changed(engine);
}

/* ---- requests ---- */

const char *
lock_name_refusal(const struct lock_engine *engine, const char *name)
{
	return queue_name_refusal(engine->settings.naming, name);
}

bool
lock_cancel(struct lock_engine *engine, uint64_t peer, uint64_t meant)
{
	struct lock_peer *entry = engine_peer_find(engine, peer);
	struct lock_answer answer = engine_refusal(REASON_CANCELLED, NULL);
	struct waiter *waiter;

	assert(!engine->telling);
	if (holder_wait_cancel(engine, peer, meant) || fsck_cancel(engine, peer, meant))
		return true;
	if (entry == NULL)
		return false;
	TAILQ_FOREACH (waiter, &entry->waiters, of_peer) {
		if (waiter->request == meant)
			break;
	}
	if (waiter == NULL)
		return false;
	answer.name = waiter->semaphore->name;
	FAULT(CANCELLED_IS_GRANTED, engine_tell(engine, peer, meant, &answer); return true);
	registry_waiter_end(engine, waiter, &answer);
	return true;
}

void
lock_peer_gone(struct lock_engine *engine, uint64_t peer)
{
	assert(!engine->telling);
	holder_wait_peer_gone(engine, peer);
	release_peer(engine, peer);
	lost_peer_gone(engine, peer);
	FAULT(GONE_PEER_WAITS, return;);
	admin_peer_gone(engine, peer);
	fsck_peer_gone(engine, peer);
}

/* ---- the stop ---- */

void
lock_set_grace(struct lock_engine *engine, bool grace)
{
	struct broker_info info;

	assert(!engine->telling);
	engine->grace = grace;
	broker_get_info(engine->broker, &info);
	if (!grace && engine->link == BROKER_LOGIN_REFUSED)
		acquire_link_changed(engine, info.why);
}

void
lock_drain(struct lock_engine *engine)
{
	struct lock_answer answer = engine_refusal(REASON_DRAINING, NULL);

	assert(!engine->telling);
	engine->draining = true;
	hint_send_all(engine);
	FAULT(DRAIN_LETS_WAIT, return;);
	acquire_end_all(engine, &answer);
	holder_wait_end_all(engine, &answer);
	fsck_end_waits(engine, &answer);
}

bool
lock_quiet(const struct lock_engine *engine)
{
	FAULT_IF(QUIET_EARLY, engine->holds.count[HOLD_HELD] == 0, return true);
	return engine->holds.by_id == NULL && engine->waiters == NULL && engine->admins == NULL &&
	       engine->mutexes == NULL && removed_is_quiet(engine) &&
	       !hint_asks_about_removed(engine) &&
	       /* It takes a moment, if the broker answers. */
	       (engine->link != BROKER_UP || broker_reclaims(engine->broker) == 0);
}

void
lock_get_counts(const struct lock_engine *engine, struct lock_counts *ret)
{
	const size_t *count = engine->holds.count;

	*ret = engine->total;
	ret->holds = count[HOLD_HELD] + count[HOLD_RECLAIMING] + count[HOLD_SLOTLESS];
	ret->in_flight = count[HOLD_CLAIMING] + count[HOLD_CHECKING] + count[HOLD_COUNTING] +
			 count[HOLD_PASSING] + count[HOLD_DROPPING];
	ret->waiting = HASH_CNT(by_id, engine->waiters);
}
