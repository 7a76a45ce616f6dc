#include "daemon/lock/wait/queue_runner.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/lock/admin/admin.h"
#include "daemon/lock/admin/make_mutex.h"
#include "daemon/lock/core/channels.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/progress.h"
#include "daemon/lock/core/wait_queue.h"
#include "daemon/lock/core/withheld.h"
#include "daemon/lock/hold/claim.h"
#include "daemon/lock/hold/grant.h"
#include "daemon/lock/wait/acquire.h"
#include "daemon/lock/wait/hint_receive.h"
#include "daemon/lock/wait/scan.h"

#define NEW LOCAL_QUEUE_OF(WAITER_NEW)
#define SCANNED LOCAL_QUEUE_OF(WAITER_SCANNED)
#define UNSEEN LOCAL_QUEUE_OF(WAITER_UNSEEN)

/* ---- slots that may be claimed ---- */

/* A hold of this daemon reserves the slot, or it is withheld. */
static bool
is_withheld(const struct lock_engine *engine, const struct waiter *waiter, int slot)
{
	struct queue_name b = registry_slot_queue(waiter->semaphore, slot);

	return hold_find_queue(&engine->holds, b.text) != NULL ||
	       withheld_has(waiter->semaphore, slot);
}

/* A slot that is known to be free, for the waiter to claim; 0: none. */
static int
known_free_slot(struct lock_engine *engine, const struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	int count = waiter->kind == LOCK_KIND_SEMAPHORE ? semaphore->size : 1, first = 0;

	FAULT(ANY_SLOT_WILL_DO, count = semaphore->size);
	if (count > semaphore->size || !semaphore_has_free(semaphore))
		return 0;
	/*
	 * From slot 1 up (seeds/000: 1 makes the most sense); after a lost race from a random slot.
	 */
	if (waiter->races > 0)
		first = (int)jitter_below(&engine->jitter, count);
	for (int i = 0; i < count; i++) {
		int slot = 1 + (first + i) % count;

		if (!semaphore->busy[slot - 1] && !is_withheld(engine, waiter, slot))
			return slot;
	}
	return 0;
}

/* The next slot to claim unseen; 0: none is known. */
static int
unseen_slot(struct lock_engine *engine, const struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	int last = waiter->kind == LOCK_KIND_SEMAPHORE
		       ? (semaphore->complete ? semaphore->size : engine->settings.slots_most)
		       : 1;

	for (int slot = semaphore->scan.direct; slot <= last; slot++) {
		if (!is_withheld(engine, waiter, slot))
			return slot;
	}
	return 0;
}

/* ---- the result of a scan ---- */

static void
begin_wait(struct lock_engine *engine, struct waiter *waiter)
{
	registry_waiter_set_state(engine, waiter, WAITER_WAITING);
	wait_queue_add(engine, waiter);
	waiter->begun = true;
	waiter->races = 0;
	progress_begin(engine, waiter);
}

static const char *
what_is_unknown(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (scan_is_guarded(engine, semaphore))
		return "the broker did not say whether a semaphore has that name";
	if (semaphore->mode == SEMAPHORE_UNMADE)
		return "the mutex has not been used for an hour, and its queue cannot be made now";
	if (semaphore->mode == SEMAPHORE_UNKNOWN)
		return "slot 1 does not exist, and the broker did not say whether the lock is a "
		       "gate";
	return "the broker did not say which slots are busy";
}

/* Whether the waiter lacks only a channel: a slot is free, or could not be tried. */
static bool
starves(struct lock_engine *engine, const struct waiter *waiter, char text[LOCK_LACKING_MAX])
{
	return channels_lacking(engine, waiter->share, text) != NULL &&
	       (waiter->state == WAITER_UNSEEN || known_free_slot(engine, waiter) != 0);
}

/* No slot or no channel is free for the waiter: it is refused, or its wait begins. */
static void
find_nothing(struct lock_engine *engine, struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	char text[LOCK_LACKING_MAX];
	struct lock_answer answer;
	bool starving;

	FAULT_IF(STARVED_IS_REFUSED, starves(engine, waiter, text), waiter->timeout = 0);
	if (!registry_waiter_is_over(engine, waiter)) {
		begin_wait(engine, waiter);
		return;
	}
	if (semaphore->scan.withheld && !waiter->yielded && waiter->state == WAITER_SCANNED) {
		waiter->yielded = true;
		registry_waiter_rest(engine, waiter, engine->settings.hint_grace);
		return;
	}
	starving = starves(engine, waiter, text);
	if (waiter->timeout != 0 && (starving || semaphore->complete || waiter->begun)) {
		acquire_time_out(engine, waiter);
		return;
	}
	if (starving)
		answer = engine_refusal(REASON_TOO_MANY_LOCKS, text);
	else if (semaphore->complete)
		answer = engine_full(semaphore, REASON_WOULD_BLOCK);
	else
		answer = engine_refusal_unknown(engine, what_is_unknown(engine, semaphore));
	answer.name = semaphore->name;
	registry_waiter_end(engine, waiter, &answer);
}

enum verdict {
	VERDICT_NOTHING,   /* no slot is free */
	VERDICT_UNLIMITED, /* its holds take no slot */
	VERDICT_MISSING,   /* the lock does not exist */
	VERDICT_NO_MUTEX,  /* the mutex is the administration mutex of a semaphore */
	VERDICT_UNMADE,    /* the mutex has no queue by quorum, or no post */
	VERDICT_OLD,       /* the findings are outdated */
	VERDICT_UNSEEN     /* probes failed: slots are claimed unseen */
};

/* The verdict of a scan that is over, for waiters without a slot. */
static enum verdict
find_verdict(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (semaphore->scan.forgotten)
		return VERDICT_OLD;
	if (semaphore->mode == SEMAPHORE_UNLIMITED)
		return VERDICT_UNLIMITED;
	if (semaphore->mode == SEMAPHORE_NO_MUTEX)
		return VERDICT_NO_MUTEX;
	if (semaphore->mode == SEMAPHORE_UNMADE)
		return VERDICT_UNMADE;
	if (semaphore->mode == SEMAPHORE_PLAIN && semaphore->complete && semaphore->size == 0)
		return VERDICT_MISSING;
	/*
	 * Before `overtaken`: a claim unseen finds slots that are free now, so nothing is outdated.
	 */
	if (semaphore->scan.unknown && !scan_is_guarded(engine, semaphore))
		return VERDICT_UNSEEN;
	return semaphore->scan.overtaken ? VERDICT_OLD : VERDICT_NOTHING;
}

static void
judge(struct lock_engine *engine, struct waiter *waiter, enum verdict verdict)
{
	struct semaphore *semaphore = waiter->semaphore;
	char *words;

	switch (verdict) {
	case VERDICT_NOTHING:
		find_nothing(engine, waiter);
		break;
	case VERDICT_UNLIMITED:
		grant_slotless(engine, waiter, false);
		break;
	case VERDICT_MISSING:
		if (waiter->create == 0) {
			registry_waiter_refuse(engine, waiter, REASON_NO_SUCH_LOCK, NULL);
			break;
		}
		if (semaphore->creating == 0 && waiter->may_not_create != NULL) {
			/* The answer borrows the words, and the waiter is freed before it. */
			words = waiter->may_not_create;
			waiter->may_not_create = NULL;
			registry_waiter_refuse(engine, waiter, REASON_PERMISSION_DENIED, words);
			free(words);
			break;
		}
		if (semaphore->creating == 0)
			semaphore->creating =
			    admin_create_missing(engine, semaphore->name, waiter->create);
		registry_waiter_set_state(engine, waiter, WAITER_BEHIND);
		waiter->behind = semaphore->creating;
		break;
	case VERDICT_UNMADE:
		if (!grant_has_room(engine, waiter, BROKER_BY_QUORUM))
			break;
		if (semaphore->creating == 0)
			semaphore->creating = make_mutex(engine, semaphore->name, semaphore->beads);
		registry_waiter_set_state(engine, waiter, WAITER_BEHIND);
		waiter->behind = semaphore->creating;
		break;
	case VERDICT_NO_MUTEX:
		registry_waiter_refuse(engine, waiter, REASON_ALREADY_EXISTS,
		    "a semaphore has this name and uses the same queue");
		break;
	case VERDICT_OLD:
		registry_waiter_set_state(engine, waiter, WAITER_NEW);
		break;
	case VERDICT_UNSEEN:
		registry_waiter_set_state(engine, waiter, WAITER_UNSEEN);
		break;
	}
}

/*
 * Judges the waiters of the scan. Waiters whose wait had begun before stay as they are, unless the
 * verdict is more than that no slot is free.
 */
static void
end_scan(struct lock_engine *engine, struct semaphore *semaphore)
{
	enum verdict verdict = find_verdict(engine, semaphore);
	unsigned who = SCANNED;
	struct waiter *waiter, *next;

	scan_end(semaphore);
	if (verdict == VERDICT_UNSEEN)
		semaphore->scan.direct = 1;
	else if (verdict != VERDICT_NOTHING && verdict != VERDICT_OLD)
		who |= LOCAL_QUEUE_OF(WAITER_WAITING);
	FAULT_IF(LATECOMER_IS_UNLIMITED, verdict == VERDICT_UNLIMITED, who |= NEW);
	/* The next free channel wakes the name. The daemon then joins the wait queue again. */
	if (verdict == VERDICT_NOTHING && semaphore->out)
		channels_starve(engine, semaphore, LOCAL_QUEUE_WANTS);
	for (waiter = local_queue_first(&semaphore->local_queue, who); waiter != NULL;
	     waiter = next) {
		next = local_queue_next(&semaphore->local_queue, waiter, who);
		judge(engine, waiter, verdict);
	}
}

/* ---- while probes fail ---- */

/*
 * Claims the next slot for the first waiter that can use it. True: an answer is awaited. No scan
 * begins until all slots have been tried.
 */
static bool
claim_unseen(struct lock_engine *engine, struct semaphore *semaphore)
{
	unsigned who = UNSEEN | LOCAL_QUEUE_OF(WAITER_WAITING);
	struct waiter *waiter;
	uint64_t id;
	int slot;

	if (semaphore->scan.direct == 0 && local_queue_count(&semaphore->local_queue, UNSEEN) > 0)
		semaphore->scan.direct = 1; /* earlier results are outdated */
	while (semaphore->scan.direct != 0) {
		waiter = engine_waiter_find(engine, semaphore->scan.claimer);
		if (waiter != NULL && waiter->state == WAITER_CLAIMING && waiter->direct != 0)
			return true;
		waiter = channels_are_left(engine)
			     ? local_queue_first_able(&semaphore->local_queue, who, NULL)
			     : NULL;
		slot = waiter == NULL ? 0 : unseen_slot(engine, waiter);
		/* A persistent mutex needs slot 1; the waiters behind it may use other slots. */
		while (slot == 0 && waiter != NULL && waiter->kind == LOCK_KIND_PERSISTENT_MUTEX) {
			waiter = local_queue_next_able(&semaphore->local_queue, waiter, who, NULL);
			slot = waiter == NULL ? 0 : unseen_slot(engine, waiter);
		}
		if (slot != 0) {
			id = waiter->id;
			semaphore->scan.direct = slot + 1;
			claim_start(engine, waiter, slot);
			waiter = engine_waiter_find(engine, id);
			if (waiter == NULL || waiter->state != WAITER_CLAIMING)
				continue; /* too many holds of its peer, or no channel */
			semaphore->scan.claimer = id;
			waiter->direct = slot;
			return true;
		}
		/*
		 * All slots have been tried, or no waiter is left that wants one and can have a
		 * channel. Waiters without a channel are not woken for this. A failed claim takes a
		 * channel and gives it back, so names would wake each other without end.
		 */
		semaphore->scan.direct = 0;
		while ((waiter = local_queue_first(&semaphore->local_queue, UNSEEN)) != NULL)
			find_nothing(engine, waiter);
	}
	return false;
}

/* ---- the queue ---- */

/* The states of waiters that may claim a slot that is known to be free. */
static unsigned
served_by_knowledge(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (!semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.rescan_interval))
		return 0;
	if (!scan_is_guarded(engine, semaphore))
		return LOCAL_QUEUE_READY;
	/* Without a scan since the waiter came, the name may be a semaphore by now. */
	return semaphore->scan.state == SCAN_PROBING ? 0 : SCANNED | LOCAL_QUEUE_OF(WAITER_WAITING);
}

/* Claims free slots for waiters that can have a channel, in the order of the queue. */
static void
claim_for(struct lock_engine *engine, struct semaphore *semaphore, unsigned who)
{
	struct waiter *waiter = local_queue_first_able(&semaphore->local_queue, who, NULL), *next;

	for (; waiter != NULL && channels_are_left(engine); waiter = next) {
		int slot = known_free_slot(engine, waiter);

		next = local_queue_next_able(&semaphore->local_queue, waiter, who, NULL);
		if (!share_has_room(waiter->share))
			continue; /* the waiter before it took the last channel */
		if (slot != 0)
			claim_start(engine, waiter, slot);
		else if (waiter->kind != LOCK_KIND_PERSISTENT_MUTEX || semaphore->size <= 1)
			return; /* if this waiter finds no slot, the others find none */
	}
}

static void
schedule_rescan(struct lock_engine *engine, struct semaphore *semaphore)
{
	int64_t most = engine->settings.rescan_interval, least = most / 10 * 7;

	FAULT(NO_RESCAN, most = (least = 3600 * NSEC_PER_SEC) + 1);
	FAULT(POLLING, most = (least /= 10) + 1);
	if (semaphore->scan.overtaken)
		timers_cancel(engine->timers, &semaphore->rescan);
	else
		timers_set(engine->timers, &semaphore->rescan,
		    engine_now(engine) + least + jitter_below(&engine->jitter, most - least));
}

/*
 * A slot that was freed here just now is withheld. It is soon known whether its hint reached a
 * waiter. A waiter that has just come waits for that instead of scanning.
 */
static bool
is_about_to_know(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	const struct waiter *waiter = local_queue_first(&semaphore->local_queue, NEW);

	return waiter != NULL && semaphore->withheld != NULL &&
	       engine_now(engine) - waiter->started < engine->settings.hint_grace &&
	       semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.rescan_interval);
}

/*
 * A consumer in the wait queue keeps the auxiliary connection up. If it is down nevertheless, it
 * cannot be connected.
 */
static bool
cannot_probe(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	struct broker_info info;

	broker_get_info(engine->broker, &info);
	return (info.auxiliary_blocked ||
		   (info.auxiliary != BROKER_UP && wait_queue_has_place(semaphore))) &&
	       !scan_is_guarded(engine, semaphore);
}

/*
 * If a client waits here already, all slots were busy, and this daemon gets hints of freed slots. A
 * newcomer therefore waits behind it without a scan. A scan would only find slots whose hints went
 * to others.
 */
static void
join_who_wait(struct lock_engine *engine, struct semaphore *semaphore)
{
	const struct waiter *first =
	    local_queue_first(&semaphore->local_queue, LOCAL_QUEUE_OF(WAITER_WAITING));
	struct waiter *waiter, *next;

	if (first == NULL || !rescan_will_do(semaphore) || semaphore->scan.overtaken ||
	    !timer_is_set(&semaphore->rescan) || wait_queue_count(semaphore) == 0)
		return;
	for (waiter = local_queue_first(&semaphore->local_queue, NEW); waiter != NULL;
	     waiter = next) {
		next = local_queue_next(&semaphore->local_queue, waiter, NEW);
		/* A waiter for slot 1 alone says nothing about the other slots. */
		if (!registry_waiter_is_over(engine, waiter) &&
		    (first->kind != LOCK_KIND_PERSISTENT_MUTEX ||
			waiter->kind == LOCK_KIND_PERSISTENT_MUTEX))
			begin_wait(engine, waiter);
	}
}

/* Scans if a waiter came after the last scan began, or if a waiter waits and a rescan is due. */
static void
scan_if_wanted(struct lock_engine *engine, struct semaphore *semaphore)
{
	unsigned who = timer_is_set(&semaphore->rescan) ? NEW : LOCAL_QUEUE_READY;
	struct waiter *waiter;
	bool for_new;

	if (local_queue_count(&semaphore->local_queue, who) == 0 ||
	    is_about_to_know(engine, semaphore))
		return;
	if (local_queue_count(&semaphore->local_queue, NEW) == 0 &&
	    cannot_probe(engine, semaphore)) {
		/* Probes would fail, as is known before they are sent. */
		semaphore->scan.overtaken = false;
		semaphore->scan.direct = 1;
		schedule_rescan(engine, semaphore);
		claim_unseen(engine, semaphore);
		return;
	}
	for_new = local_queue_count(&semaphore->local_queue, NEW) > 0;
	while ((waiter = local_queue_first(&semaphore->local_queue, NEW)) != NULL)
		registry_waiter_set_state(engine, waiter, WAITER_SCANNED);
	if (for_new ? rescan_sees_all(semaphore) : rescan_will_do(semaphore))
		rescan_start(engine, semaphore, for_new);
	else
		scan_start(engine, semaphore);
}

/* The name has no waiters: it is kept while its knowledge is fresh, then forgotten. */
static void
rest_in_peace(struct lock_engine *engine, struct semaphore *semaphore)
{
	int64_t now = engine_now(engine);

	if (semaphore->scan.state == SCAN_SEEN)
		scan_end(semaphore);
	semaphore->scan.direct = 0;
	if (semaphore->scan.state != SCAN_OVER || semaphore->members != NULL ||
	    semaphore->withheld != NULL)
		return; /* it is marked dirty when that is over */
	if (semaphore->size > 0 &&
	    semaphore_is_fresh(semaphore, now, engine->settings.rescan_interval))
		timers_set(engine->timers, &semaphore->rescan,
		    semaphore->seen + engine->settings.rescan_interval);
	else if (now < semaphore->incomplete_until)
		timers_set(
		    engine->timers, &semaphore->rescan, now + engine->settings.rescan_interval);
	else
		registry_semaphore_end(engine, semaphore);
}

static void
move(struct lock_engine *engine, struct semaphore *semaphore)
{
	unsigned who = served_by_knowledge(engine, semaphore);

	claim_for(engine, semaphore, who);
	if (semaphore_has_free(semaphore))
		channels_starve(engine, semaphore, who);
	switch (semaphore->scan.state) {
	case SCAN_PROBING:
		return;
	case SCAN_SEEN:
		if (local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_READY) > 0 &&
		    !scan_is_whole(semaphore)) {
			scan_continue(engine, semaphore);
			return;
		}
		end_scan(engine, semaphore);
		schedule_rescan(engine, semaphore);
		break;
	case SCAN_OVER:
		break;
	}
	join_who_wait(engine, semaphore);
	if (!claim_unseen(engine, semaphore))
		scan_if_wanted(engine, semaphore);
}

void
queue_runner_run(struct lock_engine *engine, struct semaphore *semaphore)
{
	struct waiter *waiter;

	/* The marks of lower files (semaphore.h). */
	while (semaphore->hinted_count > 0)
		hint_came(engine, semaphore, semaphore->hinted[--semaphore->hinted_count]);
	if (semaphore->rests_over) {
		semaphore->rests_over = false;
		while ((waiter = local_queue_first(
			    &semaphore->local_queue, LOCAL_QUEUE_OF(WAITER_RESTING))) != NULL)
			registry_waiter_wake(engine, waiter);
	}
	semaphore->dirty = false;
	if (local_queue_count(&semaphore->local_queue, LOCAL_QUEUE_ALL) == 0) {
		channels_forget(engine, semaphore);
		wait_queue_back(engine, semaphore);
		rest_in_peace(engine, semaphore);
		return;
	}
	if (semaphore->out && channels_can_serve(engine, semaphore))
		wait_queue_back(engine, semaphore);
	if (engine->link == BROKER_UP)
		move(engine, semaphore);
	channels_served(engine, semaphore);
	progress_tell(engine, semaphore);
}
