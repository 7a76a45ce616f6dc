#include "daemon/lock/wait/hint_receive.h"

#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/lock/core/channels.h"
#include "daemon/lock/core/registry.h"
#include "daemon/lock/core/waitline.h"
#include "daemon/lock/core/withheld.h"
#include "daemon/lock/hold/claim.h"
#include "daemon/lock/wait/scan.h"

/* At most one hint of a name is passed on in so long. */
#define PASS_ON_AGAIN (50 * NSEC_PER_MSEC)

static void
pass_on(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	int64_t now = engine_now(engine);
	bool comes_back;

	/* Places for which nobody waits here would get it again. Where none is left it cannot come back. */
	waitline_shrink(engine, semaphore);
	comes_back = waitline_has_place(semaphore);
	FAULT(HINT_LAPSES, comes_back = true);
	FAULT(HINT_NOT_PASSED_ON, return;);
	if (comes_back && now < semaphore->pass_on_from)
		return;
	semaphore->pass_on_from = now + PASS_ON_AGAIN;
	broker_line_wake(engine->broker, semaphore->line_queue.text, slot);
}

/* Who wants the slot and can have a channel for it; or NULL. */
static struct waiter *
who_claims(const struct lock_engine *engine, const struct semaphore *semaphore, int slot)
{
	if (engine->link != BROKER_UP || !channels_are_left(engine))
		return NULL;
	return line_who_wants(&semaphore->line, slot, NULL);
}

/* Nobody here can use it: it is somebody else's, and so is what comes until somebody can. */
static void
turn_down(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	if (line_count(&semaphore->line, LINE_WANTS) > 0 && engine->link == BROKER_UP) {
		FAULT(STARVED_KEEPS_HINT, return;);
		channels_starve(engine, semaphore, LINE_WANTS);
	}
	pass_on(engine, semaphore, slot);
}

void
hint_came(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	enum lock_kind kind = semaphore->mutex ? LOCK_KIND_MUTEX : LOCK_KIND_SEMAPHORE;
	struct queue_name b;
	struct waiter *waiter;
	struct hold *hold;

	withheld_to_nobody(engine, semaphore, slot);
	if (slot < 1 || slot > engine->settings.slots_most || scan_is_guarded(engine, semaphore)) {
		if (line_count(&semaphore->line, LINE_WANTS) == 0 ||
		    (slot != 0 && who_claims(engine, semaphore, 1) == NULL)) {
			turn_down(engine, semaphore, slot);
			return;
		}
		/* It may be something else by now than what is known. */
		semaphore_forget(semaphore);
		engine_scan(engine, semaphore);
		return;
	}
	b = registry_slot_queue(engine, semaphore->name, kind, slot);
	hold = hold_find_queue(&engine->holds, b.text);
	if (hold != NULL) {
		/* It is ours, and who had it before told of it; unless it is claimed in vain just now. */
		hold->hinted = true;
		/* The answer of that claim came too late for its waiter, and may never come. */
		if (hold->state == HOLD_CLAIMING && hold->acquire == 0)
			pass_on(engine, semaphore, slot);
		return;
	}
	/* Who has no room for it is refused, and the next one asked. */
	while (!registry_is_reserved(engine, semaphore->name, kind, slot)) {
		waiter = who_claims(engine, semaphore, slot);
		if (waiter == NULL) {
			turn_down(engine, semaphore, slot);
			return;
		}
		registry_waiter_wake(engine, waiter);
		claim_start(engine, waiter, slot);
	}
}

void
hint_news(void *ctx, const struct broker_line_event *event)
{
	struct lock_engine *engine = ctx;
	struct semaphore *semaphore;

	HASH_FIND(by_line, engine->lines, event->queue, strlen(event->queue), semaphore);
	if (semaphore == NULL)
		return;
	if (event->news == BROKER_LINE_NOBODY)
		withheld_to_nobody(engine, semaphore, event->slot);
	else if (waitline_news(engine, semaphore, event) && event->news == BROKER_LINE_HINT)
		hint_came(engine, semaphore, event->slot);
}
