#include "daemon/lock/channels.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"
#include "daemon/lock/engine.h"

/*
 * Contents:
 *	1. The consumers in the wait queues, one for each name and priority with waiters here.
 *	   wait_queue_add() and wait_queue_remove() count the waiters of a consumer.
 *	   wait_queue_news() is an event of the broker: the consumer has joined or left.
 *	   wait_queue_out() and wait_queue_back(): all leave while no waiter can have a channel.
 *	2. Channels of the lock connection. The queues of names that starve come first.
 *	   channels_lacking() says why a waiter can have none.
 *	   channels_charge() charges a hold to the share of a user. channels_hold_ended() wakes the first names.
 *	   channels_starve() queues a name.
 */

/* 1. The consumers in the wait queues. */

/* A member stays for so long after its last waiter, so that the next one need not join again. */
#define LINGER (200 * NSEC_PER_MSEC)
/* Maximum hints on their way to one member. */
#define CREDIT_MOST 4U

enum member_state {
	MEMBER_AWAY,  /* not requested: the connection is down, frozen, or no channel is free */
	MEMBER_ASKED, /* requested; not joined yet, or not now */
	MEMBER_JOINED /* hints come */
};

struct wait_queue_member {
	enum member_state state;
	int priority;                /* the key */
	struct semaphore *semaphore; /* borrowed */
	unsigned waiters;
	unsigned credit;     /* as last requested */
	struct timer linger; /* set while it has no waiters */
	UT_hash_handle by_priority;
};

static void
member_set_state(struct wait_queue_member *member, enum member_state state)
{
	switch (state) {
	case MEMBER_AWAY:
		break;
	case MEMBER_ASKED:
		assert(member->state != MEMBER_ASKED);
		break;
	case MEMBER_JOINED:
		assert(member->state == MEMBER_ASKED);
		break;
	}
	member->state = state;
}

/* A frozen engine begins no claim. */
static bool
member_may_join(const struct lock_engine *engine)
{
	return engine->link == BROKER_UP && !FAULT_ELSE(FROZEN_TAKES_HINTS, false, engine->frozen);
}

/*
 * Credit is only raised. RabbitMQ takes another prefetch only from a new consumer, which a few
 * waiters fewer are not worth.
 */
static void
member_ask_for_place(struct lock_engine *engine, struct wait_queue_member *member)
{
	unsigned credit = member->waiters < CREDIT_MOST ? member->waiters : CREDIT_MOST;

	if (!member_may_join(engine) || member->waiters == 0 || member->semaphore->out)
		return;
	if (member->state != MEMBER_AWAY && credit <= member->credit)
		return;
	member->credit = credit;
	if (member->state == MEMBER_AWAY)
		member_set_state(member, MEMBER_ASKED);
	broker_wait_queue_join(
	    engine->broker, member->semaphore->wait_queue_name.text, member->priority, credit);
}

static void
member_give_place_up(struct lock_engine *engine, struct wait_queue_member *member)
{
	if (member->state == MEMBER_AWAY)
		return;
	member_set_state(member, MEMBER_AWAY);
	broker_wait_queue_leave(
	    engine->broker, member->semaphore->wait_queue_name.text, member->priority);
}

static void
member_free(struct lock_engine *engine, struct wait_queue_member *member)
{
	assert(member->waiters == 0);
	member_give_place_up(engine, member);
	timers_cancel(engine->timers, &member->linger);
	HASH_DELETE(by_priority, member->semaphore->members, member);
	free(member);
}

static void
member_linger_is_over(void *ctx, uint64_t id)
{
	struct wait_queue_member *member = ctx;
	struct semaphore *semaphore = member->semaphore;

	(void)id;
	member_free(semaphore->engine, member);
	engine_mark_dirty(semaphore->engine, semaphore); /* the name may be forgotten now */
}

static struct wait_queue_member *
member_find(const struct semaphore *semaphore, int priority)
{
	struct wait_queue_member *member;

	HASH_FIND(by_priority, semaphore->members, &priority, sizeof(priority), member);
	return member;
}

void
wait_queue_add(struct lock_engine *engine, struct waiter *waiter)
{
	struct wait_queue_member *member = waiter->member;

	if (member != NULL)
		return;
	member = member_find(waiter->semaphore, waiter->priority);
	if (member == NULL) {
		member = mem_alloc(sizeof(*member));
		member->semaphore = waiter->semaphore;
		member->priority = waiter->priority;
		timer_init(&member->linger, member_linger_is_over, member, 0);
		HASH_ADD(by_priority, waiter->semaphore->members, priority,
		    sizeof(member->priority), member);
	}
	waiter->member = member;
	member->waiters++;
	timers_cancel(engine->timers, &member->linger);
	member_ask_for_place(engine, member);
}

void
wait_queue_remove(struct lock_engine *engine, struct waiter *waiter)
{
	struct wait_queue_member *member = waiter->member;

	if (member == NULL)
		return;
	waiter->member = NULL;
	member->waiters--;
	FAULT(PLACE_KEPT, return;);
	if (member->waiters == 0)
		timers_set(engine->timers, &member->linger, engine_now(engine) + LINGER);
}

/* ---- events of the broker ---- */

bool
wait_queue_news(struct lock_engine *engine, struct semaphore *semaphore,
    const struct broker_wait_queue_event *event)
{
	struct wait_queue_member *member = member_find(semaphore, event->priority);

	if (member == NULL)
		return false;
	if (event->news == BROKER_WAIT_QUEUE_LEFT && member->state == MEMBER_JOINED)
		member_set_state(member, MEMBER_ASKED);
	if (event->news == BROKER_WAIT_QUEUE_JOINED && member->state == MEMBER_ASKED) {
		member_set_state(member, MEMBER_JOINED);
		FAULT(JOINED_WITHOUT_SCAN, return true);
		/* Hints that were sent before went to others, or were dropped. */
		engine_scan(engine, semaphore);
	}
	return true;
}

void
wait_queue_join_or_leave(struct lock_engine *engine)
{
	struct semaphore *semaphore = engine->semaphores;

	for (; semaphore != NULL; semaphore = semaphore->by_key.next) {
		struct wait_queue_member *member = semaphore->members;

		semaphore->out = false;
		for (; member != NULL; member = member->by_priority.next) {
			FAULT_IF(WAIT_QUEUE_NOT_JOINED_AGAIN, member_may_join(engine), continue);
			if (member_may_join(engine))
				member_ask_for_place(engine, member);
			else
				member_give_place_up(engine, member);
		}
	}
}

/* ---- as a whole ---- */

/* All members leave, as no waiter here can have a channel: hints go to other daemons. */
static void
wait_queue_out(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct wait_queue_member *member = semaphore->members;

	semaphore->out = true;
	for (; member != NULL; member = member->by_priority.next)
		member_give_place_up(engine, member);
}

void
wait_queue_back(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct wait_queue_member *member = semaphore->members;

	if (!semaphore->out)
		return;
	semaphore->out = false;
	for (; member != NULL; member = member->by_priority.next)
		member_ask_for_place(engine, member);
}

bool
wait_queue_has_place(const struct semaphore *semaphore)
{
	const struct wait_queue_member *member = semaphore->members;

	while (member != NULL && member->state == MEMBER_AWAY)
		member = member->by_priority.next;
	return member != NULL;
}

int
wait_queue_count(const struct semaphore *semaphore)
{
	const struct wait_queue_member *member = semaphore->members;
	int count = 0;

	for (; member != NULL; member = member->by_priority.next)
		count += member->state == MEMBER_JOINED;
	return count;
}

void
wait_queue_shrink(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct wait_queue_member *member, *next;

	HASH_ITER (by_priority, semaphore->members, member, next) {
		if (member->waiters == 0)
			member_free(engine, member);
	}
	engine_mark_dirty(engine, semaphore);
}

void
wait_queue_end(struct lock_engine *engine, struct semaphore *semaphore)
{
	while (semaphore->members != NULL)
		member_free(engine, semaphore->members);
}

/* 2. Channels of the lock connection, and names that starve. */

/*
 * After how long a channel that should be free is requested again: one that is being closed is not
 * free yet. The time is doubled from the first to the maximum.
 */
#define NOT_GIVEN_FIRST (10 * NSEC_PER_MSEC)
#define NOT_GIVEN_MOST (1280 * NSEC_PER_MSEC)

/* ---- the queues of names that starve ---- */

static void
channels_leave(struct starved_list *line, struct starved *starved)
{
	if (!starved->listed)
		return;
	starved->listed = starved->woken = starved->had_one = false;
	TAILQ_REMOVE(line, starved, of_list);
}

static void
channels_join(struct starved_list *line, struct starved *starved)
{
	if (starved->had_one)
		channels_leave(line, starved);
	/* A name that was woken and got no channel keeps its place. */
	starved->woken = starved->had_one = false;
	if (starved->listed)
		return;
	starved->listed = true;
	TAILQ_INSERT_TAIL(line, starved, of_list);
}

static void
channels_leave_all(struct starved_list *line)
{
	struct starved *first;

	while ((first = TAILQ_FIRST(line)) != NULL)
		channels_leave(line, first);
}

static void
channels_wake_first(struct lock_engine *engine, struct starved_list *line)
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
channels_wake_all(struct lock_engine *engine)
{
	struct share *share;

	if (channels_are_left(engine))
		channels_wake_first(engine, &engine->channels.starved);
	for (share = engine->channels.shares; share != NULL; share = share->by_uid.next) {
		if (share_has_room(share))
			channels_wake_first(engine, &share->starved);
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
channels_set_most(struct lock_engine *engine)
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
	/* One is left for the checks of keepalive.c. Claims count, too: many are sent at once. */
	size_t checks = engine->holds.consumers > 0;

	return hold_count_on_link(&engine->holds) + checks < engine->channels.most &&
	       !timer_is_set(&engine->channels.again);
}

static void
channels_again_due(void *ctx, uint64_t id)
{
	(void)id;
	channels_wake_all(ctx);
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
share_let_go(struct lock_engine *engine, struct share *share)
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
		channels_wake_first(engine, &share->starved);
	share_let_go(engine, share);
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
		channels_wake_first(engine, &before->starved);
	share_let_go(engine, before);
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
		channels_wake_first(engine, &engine->channels.starved);
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
			channels_join(&user->share->starved, &user->starved);
		else if (!channels_are_left(engine))
			channels_join(&engine->channels.starved, &semaphore->starved);
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
channels_is_served(const struct semaphore *semaphore, const struct starved *starved)
{
	const struct scan *scan = &semaphore->scan;

	return starved->woken && (scan->state == SCAN_OVER || scan->number > starved->scan + 1);
}

void
channels_served(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct local_queue_user *user;

	LIST_FOREACH (user, &semaphore->local_queue.users, of_list) {
		if (!channels_is_served(semaphore, &user->starved))
			continue;
		channels_leave(&user->share->starved, &user->starved);
		if (share_has_room(user->share))
			channels_wake_first(engine, &user->share->starved);
	}
	if (channels_is_served(semaphore, &semaphore->starved))
		channels_forget(engine, semaphore);
}

void
channels_forget(struct lock_engine *engine, struct semaphore *semaphore)
{
	channels_leave(&engine->channels.starved, &semaphore->starved);
	if (channels_are_left(engine))
		channels_wake_first(engine, &engine->channels.starved);
}

/* ---- life ---- */

static void
channels_none_starves(struct lock_engine *engine)
{
	struct share *share = engine->channels.shares;

	timers_cancel(engine->timers, &engine->channels.again);
	engine->channels.not_given = 0;
	channels_leave_all(&engine->channels.starved);
	for (; share != NULL; share = share->by_uid.next)
		channels_leave_all(&share->starved);
}

void
channels_settings_changed(struct lock_engine *engine)
{
	channels_set_most(engine);
	channels_wake_all(engine);
}

void
channels_link_changed(struct lock_engine *engine)
{
	channels_none_starves(engine);
	channels_set_most(engine);
}

void
channels_init(struct lock_engine *engine)
{
	TAILQ_INIT(&engine->channels.starved);
	timer_init(&engine->channels.again, channels_again_due, engine, 0);
}

void
channels_done(struct lock_engine *engine)
{
	assert(engine->channels.shares == NULL);
	channels_none_starves(engine);
	used_mutexes_done(engine);
}
