#include "daemon/lock/wait/queue_runner.h"

#include "daemon/base/fault.h"
#include "daemon/lock/admin/admin.h"
#include "daemon/lock/core/channels.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/progress.h"
#include "daemon/lock/core/wait_queue.h"
#include "daemon/lock/core/withheld.h"
#include "daemon/lock/hold/claim.h"
#include "daemon/lock/hold/grant.h"
#include "daemon/lock/wait/hint_receive.h"
#include "daemon/lock/wait/scan.h"

#define NEW LOCAL_QUEUE_OF(WAITER_NEW)
#define SCANNED LOCAL_QUEUE_OF(WAITER_SCANNED)
#define UNSEEN LOCAL_QUEUE_OF(WAITER_UNSEEN)

/* ---- slots that may be claimed ---- */

/* Somebody here has it, or it is left to others. */
static bool
is_withheld(const struct lock_engine *engine, const struct waiter *waiter, int slot)
{
	return registry_is_reserved(engine, waiter->semaphore->name, waiter->kind, slot) ||
	       withheld_has(waiter->semaphore, slot);
}

/* A slot that the waiter may claim by what is known; 0: none. */
static int
known_free_slot(struct lock_engine *engine, const struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	int count = waiter->kind == LOCK_KIND_SEMAPHORE ? semaphore->size : 1, first = 0;

	FAULT(ANY_SLOT_WILL_DO, count = semaphore->size);
	if (count > semaphore->size || !semaphore_has_free(semaphore))
		return 0;
	/* From the bottom (seeds/000: 1 makes the most sense); once that lost a race, from anywhere. */
	if (waiter->races > 0)
		first = (int)jitter_below(&engine->jitter, count);
	for (int i = 0; i < count; i++) {
		int slot = 1 + (first + i) % count;

		if (!semaphore->busy[slot - 1] && !is_withheld(engine, waiter, slot))
			return slot;
	}
	return 0;
}

/* The next slot to claim unseen, as probes cannot be had; 0: there is none, as far as is known. */
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

/* ---- what a scan found ---- */

static void
begin_wait(struct lock_engine *engine, struct waiter *waiter)
{
	registry_waiter_set_state(engine, waiter, WAITER_WAITING);
	wait_queue_add(engine, waiter);
	waiter->races = 0;
	progress_begin(engine, waiter);
}

static const char *
what_is_unknown(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (scan_is_guarded(engine, semaphore))
		return "the broker did not say whether a semaphore has that name";
	if (semaphore->mode == SEMAPHORE_UNKNOWN)
		return "slot 1 does not exist, and the broker did not say whether the lock is a "
		       "gate";
	return "the broker did not say which slots are busy";
}

/* Whether it has nothing because there is no channel for it: a slot is free, or could not be tried. */
static bool
starves(struct lock_engine *engine, const struct waiter *waiter, char text[LOCK_LACKING_MAX])
{
	return channels_lacking(engine, waiter->share, text) != NULL &&
	       (waiter->state == WAITER_UNSEEN || known_free_slot(engine, waiter) != 0);
}

/* Nothing is free for the waiter, or no channel: it is told, or its wait begins. */
static void
find_nothing(struct lock_engine *engine, struct waiter *waiter)
{
	const struct semaphore *semaphore = waiter->semaphore;
	char text[LOCK_LACKING_MAX];
	struct lock_answer answer;

	FAULT_IF(STARVED_IS_REFUSED, starves(engine, waiter, text), waiter->timeout = 0);
	if (waiter->timeout != 0) {
		begin_wait(engine, waiter);
		return;
	}
	if (semaphore->scan.withheld && !waiter->yielded && waiter->state == WAITER_SCANNED) {
		waiter->yielded = true;
		registry_waiter_rest(engine, waiter, engine->settings.hint_grace);
		return;
	}
	if (starves(engine, waiter, text))
		answer = engine_refusal(REASON_TOO_MANY_LOCKS, text);
	else if (semaphore->complete)
		answer = engine_full(semaphore, REASON_WOULD_BLOCK);
	else
		answer = engine_refusal_unknown(engine, what_is_unknown(engine, semaphore));
	answer.name = semaphore->name;
	registry_waiter_end(engine, waiter, &answer);
}

enum verdict {
	VERDICT_NOTHING,   /* nothing is free */
	VERDICT_UNLIMITED, /* it is held without a slot */
	VERDICT_MISSING,   /* there is no such lock */
	VERDICT_NO_MUTEX,  /* the mutex of that name is a semaphore's */
	VERDICT_OLD,       /* what was found is old news */
	VERDICT_UNSEEN     /* there was nothing to be seen: slots are claimed all the same */
};

/* What a scan that is over says to those whom it left with nothing. */
static enum verdict
find_verdict(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (semaphore->scan.forgotten)
		return VERDICT_OLD;
	if (semaphore->mode == SEMAPHORE_UNLIMITED)
		return VERDICT_UNLIMITED;
	if (semaphore->mode == SEMAPHORE_NO_MUTEX)
		return VERDICT_NO_MUTEX;
	if (semaphore->mode == SEMAPHORE_PLAIN && semaphore->complete && semaphore->size == 0)
		return VERDICT_MISSING;
	/* Those claims see what is free now: of that, a scan that saw nothing says nothing old. */
	if (semaphore->scan.unknown && !scan_is_guarded(engine, semaphore))
		return VERDICT_UNSEEN;
	return semaphore->scan.overtaken ? VERDICT_OLD : VERDICT_NOTHING;
}

static void
judge(struct lock_engine *engine, struct waiter *waiter, enum verdict verdict)
{
	struct semaphore *semaphore = waiter->semaphore;

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
		if (semaphore->creating == 0)
			semaphore->creating =
			    admin_create_missing(engine, semaphore->name, waiter->create);
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
 * Those who were looked for are judged. Those whose wait had begun before stay as they are, unless the
 * look says more than that there is nothing for them.
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
	/* The next channel that is free wakes the name: then the daemon joins the wait queue again. */
	if (verdict == VERDICT_NOTHING && semaphore->out)
		channels_starve(engine, semaphore, LOCAL_QUEUE_WANTS);
	for (waiter = local_queue_first(&semaphore->local_queue, who); waiter != NULL;
	     waiter = next) {
		next = local_queue_next(&semaphore->local_queue, waiter, who);
		judge(engine, waiter, verdict);
	}
}

/* ---- where nothing can be seen ---- */

/*
 * Claims the next slot for the first in the queue who can use it. True: an answer is awaited, and until
 * all slots have been tried nobody is looked for in another way.
 */
static bool
claim_unseen(struct lock_engine *engine, struct semaphore *semaphore)
{
	unsigned who = UNSEEN | LOCAL_QUEUE_OF(WAITER_WAITING);
	struct waiter *waiter;
	uint64_t id;
	int slot;

	if (semaphore->scan.direct == 0 && local_queue_count(&semaphore->local_queue, UNSEEN) > 0)
		semaphore->scan.direct = 1; /* what was tried before is old news */
	while (semaphore->scan.direct != 0) {
		waiter = engine_waiter_find(engine, semaphore->scan.claimer);
		if (waiter != NULL && waiter->state == WAITER_CLAIMING && waiter->direct != 0)
			return true;
		waiter = channels_are_left(engine)
			     ? local_queue_first_able(&semaphore->local_queue, who, NULL)
			     : NULL;
		slot = waiter == NULL ? 0 : unseen_slot(engine, waiter);
		/* One who wants slot 1 alone does not stop those behind. */
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
				continue; /* its peer has no room, or there is no channel */
			semaphore->scan.claimer = id;
			waiter->direct = slot;
			return true;
		}
		/*
		 * All slots have been tried, or nobody is left who wants one and has a channel for it. Whoever
		 * has none is not woken for this: a claim in vain takes a channel and gives it back, by which
		 * names would wake each other on and on.
		 */
		semaphore->scan.direct = 0;
		while ((waiter = local_queue_first(&semaphore->local_queue, UNSEEN)) != NULL)
			find_nothing(engine, waiter);
	}
	return false;
}

/* ---- the queue ---- */

/* Those to whom a slot may be given by what is known. */
static unsigned
served_by_knowledge(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	if (!semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.rescan_interval))
		return 0;
	if (!scan_is_guarded(engine, semaphore))
		return LOCAL_QUEUE_READY;
	/* What nobody has looked at since the waiter came may be a semaphore by now. */
	return semaphore->scan.state == SCAN_PROBING ? 0 : SCANNED | LOCAL_QUEUE_OF(WAITER_WAITING);
}

/* Claims what can be claimed by those who can have a channel, in the order of the queue. */
static void
claim_for(struct lock_engine *engine, struct semaphore *semaphore, unsigned who)
{
	struct waiter *waiter = local_queue_first_able(&semaphore->local_queue, who, NULL), *next;

	for (; waiter != NULL && channels_are_left(engine); waiter = next) {
		int slot = known_free_slot(engine, waiter);

		next = local_queue_next_able(&semaphore->local_queue, waiter, who, NULL);
		if (!share_has_room(waiter->share))
			continue; /* the one before it took the last */
		if (slot != 0)
			claim_start(engine, waiter, slot);
		else if (waiter->kind != LOCK_KIND_PERSISTENT_MUTEX || semaphore->size <= 1)
			return; /* where this one finds none, nobody does */
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
 * A slot that was freed here just now is left alone: within a moment it is known whether anybody was told
 * of it, and whoever came a moment ago waits for that rather than looks.
 */
static bool
is_about_to_know(const struct lock_engine *engine, const struct semaphore *semaphore)
{
	const struct waiter *waiter = local_queue_first(&semaphore->local_queue, NEW);

	return waiter != NULL && semaphore->withheld != NULL &&
	       engine_now(engine) - waiter->started < engine->settings.hint_grace &&
	       semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.rescan_interval);
}

/* A place in the queue keeps the auxiliary connection up: when it is not up all the same, it does not come up. */
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
 * Where somebody waits already all was busy, and whatever is freed is told to this daemon, too: who comes
 * waits behind him without a scan, by which he would only find what others were told of.
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
		/* One who wants slot 1 alone says nothing of the others. */
		if (waiter->timeout != 0 && (first->kind != LOCK_KIND_PERSISTENT_MUTEX ||
						waiter->kind == LOCK_KIND_PERSISTENT_MUTEX))
			begin_wait(engine, waiter);
	}
}

/* If somebody came after the last one began, or waits and the time for another has come. */
static void
scan_if_wanted(struct lock_engine *engine, struct semaphore *semaphore)
{
	unsigned who = timer_is_set(&semaphore->rescan) ? NEW : LOCAL_QUEUE_READY;
	struct waiter *waiter;

	if (local_queue_count(&semaphore->local_queue, who) == 0 ||
	    is_about_to_know(engine, semaphore))
		return;
	if (local_queue_count(&semaphore->local_queue, NEW) == 0 &&
	    cannot_probe(engine, semaphore)) {
		/* That nothing would be seen is known without asking. */
		semaphore->scan.overtaken = false;
		semaphore->scan.direct = 1;
		schedule_rescan(engine, semaphore);
		claim_unseen(engine, semaphore);
		return;
	}
	if (local_queue_count(&semaphore->local_queue, NEW) == 0 && rescan_will_do(semaphore)) {
		rescan_start(engine, semaphore);
		return;
	}
	while ((waiter = local_queue_first(&semaphore->local_queue, NEW)) != NULL)
		registry_waiter_set_state(engine, waiter, WAITER_SCANNED);
	scan_start(engine, semaphore);
}

/* Nobody waits: the name is kept while what is known of it is fresh, then forgotten. */
static void
rest_in_peace(struct lock_engine *engine, struct semaphore *semaphore)
{
	if (semaphore->scan.state == SCAN_SEEN)
		scan_end(semaphore);
	semaphore->scan.direct = 0;
	if (semaphore->scan.state != SCAN_OVER || semaphore->members != NULL ||
	    semaphore->withheld != NULL)
		return; /* it is marked dirty when that is over */
	if (semaphore->size > 0 &&
	    semaphore_is_fresh(semaphore, engine_now(engine), engine->settings.rescan_interval))
		timers_set(engine->timers, &semaphore->rescan,
		    semaphore->seen + engine->settings.rescan_interval);
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

	/* What was marked since (semaphore.h). */
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
