#include "daemon/lock/core/channels.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/mem.h"
#include "daemon/lock/core/used_mutexes.h"
#include "daemon/lock/core/wait_queue.h"

/*
 * After how long a channel that should be free is requested again: one that is being closed is not
 * free yet. The time is doubled from the first to the maximum.
 */
#define NOT_GIVEN_FIRST (10 * NSEC_PER_MSEC)
#define NOT_GIVEN_MOST (1280 * NSEC_PER_MSEC)

/* ---- the queues of names that starve ---- */

static void
leave(struct starved_list *line, struct starved *starved)
{
	if (!starved->listed)
		return;
	starved->listed = starved->woken = starved->had_one = false;
	TAILQ_REMOVE(line, starved, of_list);
}

static void
join(struct starved_list *line, struct starved *starved)
{
	if (starved->had_one)
		leave(line, starved);
	/* A name that was woken and got no channel keeps its place. */
	starved->woken = starved->had_one = false;
	if (starved->listed)
		return;
	starved->listed = true;
	TAILQ_INSERT_TAIL(line, starved, of_list);
}

static void
leave_all(struct starved_list *line)
{
	struct starved *first;

	while ((first = TAILQ_FIRST(line)) != NULL)
		leave(line, first);
}

static void
wake_first(struct lock_engine *engine, struct starved_list *line)
{
	struct starved *first = TAILQ_FIRST(line);

	FAULT(STARVED_NOT_WOKEN, return;);
	if (first == NULL || first->woken)
		return;
	first->woken = true;
	first->scan = first->semaphore->scan.number;
	/* The free slot may be busy again by now. */
	engine_scan(engine, first->semaphore);
}

static void
wake_all_local_queues(struct lock_engine *engine)
{
	struct share *share;

	if (channels_are_left(engine))
		wake_first(engine, &engine->channels.starved);
	for (share = engine->channels.shares; share != NULL; share = share->by_uid.next) {
		if (share_has_room(share))
			wake_first(engine, &share->starved);
	}
}

void
channels_claimed(struct waiter *waiter)
{
	waiter->user->starved.had_one = waiter->user->starved.woken;
	waiter->semaphore->starved.had_one = waiter->semaphore->starved.woken;
}

/* ---- how many there are ---- */

static void
set_most(struct lock_engine *engine)
{
	struct channels *channels = &engine->channels;
	size_t reserve = engine->settings.channels_reserve;
	struct broker_info info;
	struct share *share;

	broker_get_info(engine->broker, &info);
	channels->most = info.channels_max;
	if (reserve > channels->most / 2)
		reserve = channels->most / 2;
	channels->most_of_user = channels->most - reserve;
	for (share = channels->shares; share != NULL; share = share->by_uid.next)
		share->most = channels->most_of_user;
}

bool
channels_are_left(const struct lock_engine *engine)
{
	/* One is left for the checks of slot_check.c. Claims count, too: many are sent at once. */
	size_t checks = engine->holds.consumers > 0;

	return hold_count_on_link(&engine->holds) + checks < engine->channels.most &&
	       !timer_is_set(&engine->channels.again);
}

static void
again_due(void *ctx, uint64_t id)
{
	(void)id;
	wake_all_local_queues(ctx);
}

void
channels_not_given(struct lock_engine *engine)
{
	struct channels *channels = &engine->channels;
	int64_t wait = NOT_GIVEN_FIRST;

	for (unsigned i = 0; i < channels->not_given && wait < NOT_GIVEN_MOST; i++)
		wait *= 2;
	channels->not_given++;
	timers_set(engine->timers, &channels->again, engine_now(engine) + wait);
}

/* NULL: the user has none, as it neither waits nor holds. */
static struct share *
share_find(const struct lock_engine *engine, uid_t uid)
{
	struct share *share;

	HASH_FIND(by_uid, engine->channels.shares, &uid, sizeof(uid), share);
	return share;
}

const char *
channels_lacking(
    const struct lock_engine *engine, const struct share *share, char text[LOCK_LACKING_MAX])
{
	if (!share_has_room(share))
		snprintf(text, LOCK_LACKING_MAX,
		    "user %lu uses %zu channels to the broker, and may use %zu",
		    (unsigned long)share->uid, share->taken, share->most);
	else if (timer_is_set(&engine->channels.again))
		snprintf(
		    text, LOCK_LACKING_MAX, "the connection to the broker has no free channel now");
	else if (!channels_are_left(engine))
		snprintf(text, LOCK_LACKING_MAX,
		    "all %zu channels of the connection to the broker are in use",
		    engine->channels.most);
	else
		return NULL;
	return text;
}

const char *
lock_lacking(const struct lock_engine *engine, uid_t uid, bool exempt, char text[LOCK_LACKING_MAX])
{
	return channels_lacking(engine, exempt ? NULL : share_find(engine, uid), text);
}

/* ---- shares ---- */

static struct share *
share_of(struct lock_engine *engine, uid_t uid)
{
	struct share *share = share_find(engine, uid);

	if (share == NULL) {
		share = mem_alloc(sizeof(*share));
		share->uid = uid;
		share->most = engine->channels.most_of_user;
		TAILQ_INIT(&share->starved);
		TAILQ_INIT(&share->drops);
		TAILQ_INIT(&share->claims);
		HASH_ADD(by_uid, engine->channels.shares, uid, sizeof(share->uid), share);
	}
	return share;
}

struct share *
channels_share(struct lock_engine *engine, uid_t uid)
{
	struct share *share = share_of(engine, uid);

	share->waiters++;
	return share;
}

static void
let_go(struct lock_engine *engine, struct share *share)
{
	if (share->waiters > 0 || share->taken > 0)
		return;
	assert(TAILQ_EMPTY(&share->starved) && share->flights == 0);
	HASH_DELETE(by_uid, engine->channels.shares, share);
	free(share);
}

void
channels_waiter_gone(struct lock_engine *engine, struct share *share)
{
	if (share == NULL)
		return;
	share->waiters--;
	/* The waiter may have been the last one of a woken name. */
	if (share_has_room(share))
		wake_first(engine, &share->starved);
	let_go(engine, share);
}

void
channels_charge(struct lock_engine *engine, struct hold *hold, struct share *share)
{
	struct share *before = hold->share;

	if (before == share)
		return;
	assert(hold->state != HOLD_SLOTLESS && hold->flight == FLIGHT_NONE);
	assert(share_has_room(share));
	if (share != NULL) {
		share->taken++;
		used_mutexes_begin(engine, hold, share->uid);
	}
	hold->share = share;
	if (before == NULL)
		return;
	used_mutexes_end(engine, hold, before->uid);
	assert(before->taken > 0);
	before->taken--;
	if (share_has_room(before))
		wake_first(engine, &before->starved);
	let_go(engine, before);
}

void
channels_charge_again(struct lock_engine *engine, struct hold *hold, uid_t uid)
{
	assert(hold->share == NULL && hold->state != HOLD_SLOTLESS);
	hold->share = share_of(engine, uid);
	hold->share->taken++;
	used_mutexes_begin(engine, hold, uid);
}

void
channels_hold_ended(struct lock_engine *engine)
{
	const struct share *share = engine->channels.shares;

	if (channels_are_left(engine))
		wake_first(engine, &engine->channels.starved);
	for (; engine->holds.by_id == NULL && share != NULL; share = share->by_uid.next)
		assert(share->taken == 0);
}

/* ---- names ---- */

void
channels_starve(struct lock_engine *engine, struct semaphore *semaphore, unsigned states)
{
	struct local_queue_user *user;
	bool starves = false;

	LIST_FOREACH (user, &semaphore->local_queue.users, of_list) {
		if (local_queue_user_count(user, states) == 0)
			continue;
		starves = true;
		if (!share_has_room(user->share))
			join(&user->share->starved, &user->starved);
		else if (!channels_are_left(engine))
			join(&engine->channels.starved, &semaphore->starved);
	}
	if (starves && !channels_can_serve(engine, semaphore))
		wait_queue_out(engine, semaphore);
}

bool
channels_can_serve(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	return channels_are_left(engine) &&
	       local_queue_first_able(&semaphore->local_queue, LOCAL_QUEUE_WANTS, NULL) != NULL;
}

bool
channels_is_starving(const struct waiter *waiter)
{
	return waiter->user->starved.listed || waiter->semaphore->starved.listed;
}

/* Whether the name was scanned since it was woken: then it needs no more channels now. */
static bool
is_served(const struct semaphore *semaphore, const struct starved *starved)
{
	const struct scan *scan = &semaphore->scan;

	return starved->woken && (scan->state == SCAN_OVER || scan->number > starved->scan + 1);
}

void
channels_served(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct local_queue_user *user;

	LIST_FOREACH (user, &semaphore->local_queue.users, of_list) {
		if (!is_served(semaphore, &user->starved))
			continue;
		leave(&user->share->starved, &user->starved);
		if (share_has_room(user->share))
			wake_first(engine, &user->share->starved);
	}
	if (is_served(semaphore, &semaphore->starved))
		channels_forget(engine, semaphore);
}

void
channels_forget(struct lock_engine *engine, struct semaphore *semaphore)
{
	leave(&engine->channels.starved, &semaphore->starved);
	if (channels_are_left(engine))
		wake_first(engine, &engine->channels.starved);
}

/* ---- life ---- */

static void
none_starves(struct lock_engine *engine)
{
	struct share *share = engine->channels.shares;

	timers_cancel(engine->timers, &engine->channels.again);
	engine->channels.not_given = 0;
	leave_all(&engine->channels.starved);
	for (; share != NULL; share = share->by_uid.next)
		leave_all(&share->starved);
}

void
channels_settings_changed(struct lock_engine *engine)
{
	set_most(engine);
	wake_all_local_queues(engine);
}

void
channels_link_changed(struct lock_engine *engine)
{
	none_starves(engine);
	set_most(engine);
}

void
channels_init(struct lock_engine *engine)
{
	TAILQ_INIT(&engine->channels.starved);
	timer_init(&engine->channels.again, again_due, engine, 0);
}

void
channels_done(struct lock_engine *engine)
{
	assert(engine->channels.shares == NULL);
	none_starves(engine);
	used_mutexes_done(engine);
}
