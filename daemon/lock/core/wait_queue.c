#include "daemon/lock/core/wait_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

/* A member stays for so long after its last waiter, so that the next one need not join again. */
#define LINGER (200 * NSEC_PER_MSEC)
/* Maximum hints on their way to one member. */
#define CREDIT_MOST 4U

enum member_state {
	MEMBER_AWAY,  /* not requested: the connection is down, frozen, or no channel is free */
	MEMBER_ASKED, /* requested; not joined yet, or not now */
	MEMBER_JOINED /* hints come */
};

struct member {
	enum member_state state;
	int priority;                /* the key */
	struct semaphore *semaphore; /* borrowed */
	unsigned waiters;
	unsigned credit;     /* as last requested */
	struct timer linger; /* set while it has no waiters */
	UT_hash_handle by_priority;
};

static void
member_set_state(struct member *member, enum member_state state)
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
may_join(const struct lock_engine *engine)
{
	return engine->link == BROKER_UP && !FAULT_ELSE(FROZEN_TAKES_HINTS, false, engine->frozen);
}

/*
 * Credit is only raised. RabbitMQ takes another prefetch only from a new consumer, which a few
 * waiters fewer are not worth.
 */
static void
ask_for_place(struct lock_engine *engine, struct member *member)
{
	unsigned credit = member->waiters < CREDIT_MOST ? member->waiters : CREDIT_MOST;

	if (!may_join(engine) || member->waiters == 0 || member->semaphore->out)
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
give_place_up(struct lock_engine *engine, struct member *member)
{
	if (member->state == MEMBER_AWAY)
		return;
	member_set_state(member, MEMBER_AWAY);
	broker_wait_queue_leave(
	    engine->broker, member->semaphore->wait_queue_name.text, member->priority);
}

static void
member_free(struct lock_engine *engine, struct member *member)
{
	assert(member->waiters == 0);
	give_place_up(engine, member);
	timers_cancel(engine->timers, &member->linger);
	HASH_DELETE(by_priority, member->semaphore->members, member);
	free(member);
}

static void
linger_is_over(void *ctx, uint64_t id)
{
	struct member *member = ctx;
	struct semaphore *semaphore = member->semaphore;

	(void)id;
	member_free(semaphore->engine, member);
	engine_mark_dirty(semaphore->engine, semaphore); /* the name may be forgotten now */
}

static struct member *
member_find(const struct semaphore *semaphore, int priority)
{
	struct member *member;

	HASH_FIND(by_priority, semaphore->members, &priority, sizeof(priority), member);
	return member;
}

void
wait_queue_add(struct lock_engine *engine, struct waiter *waiter)
{
	struct member *member = waiter->member;

	if (member != NULL)
		return;
	member = member_find(waiter->semaphore, waiter->priority);
	if (member == NULL) {
		member = mem_alloc(sizeof(*member));
		member->semaphore = waiter->semaphore;
		member->priority = waiter->priority;
		timer_init(&member->linger, linger_is_over, member, 0);
		HASH_ADD(by_priority, waiter->semaphore->members, priority,
		    sizeof(member->priority), member);
	}
	waiter->member = member;
	member->waiters++;
	timers_cancel(engine->timers, &member->linger);
	ask_for_place(engine, member);
}

void
wait_queue_remove(struct lock_engine *engine, struct waiter *waiter)
{
	struct member *member = waiter->member;

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
	struct member *member = member_find(semaphore, event->priority);

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
		struct member *member = semaphore->members;

		semaphore->out = false;
		for (; member != NULL; member = member->by_priority.next) {
			FAULT_IF(WAIT_QUEUE_NOT_JOINED_AGAIN, may_join(engine), continue);
			if (may_join(engine))
				ask_for_place(engine, member);
			else
				give_place_up(engine, member);
		}
	}
}

/* ---- as a whole ---- */

void
wait_queue_out(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct member *member = semaphore->members;

	semaphore->out = true;
	for (; member != NULL; member = member->by_priority.next)
		give_place_up(engine, member);
}

void
wait_queue_back(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct member *member = semaphore->members;

	if (!semaphore->out)
		return;
	semaphore->out = false;
	for (; member != NULL; member = member->by_priority.next)
		ask_for_place(engine, member);
}

bool
wait_queue_has_place(const struct semaphore *semaphore)
{
	const struct member *member = semaphore->members;

	while (member != NULL && member->state == MEMBER_AWAY)
		member = member->by_priority.next;
	return member != NULL;
}

int
wait_queue_count(const struct semaphore *semaphore)
{
	const struct member *member = semaphore->members;
	int count = 0;

	for (; member != NULL; member = member->by_priority.next)
		count += member->state == MEMBER_JOINED;
	return count;
}

void
wait_queue_shrink(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct member *member, *next;

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
