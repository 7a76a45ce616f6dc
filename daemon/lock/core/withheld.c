#include "daemon/lock/core/withheld.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/mem.h"

struct withheld {
	int slot; /* the key */
	enum withheld_for whom;
	struct semaphore *semaphore; /* borrowed */
	struct timer end;
	UT_hash_handle by_slot;
};

static struct withheld *
find(const struct semaphore *semaphore, int slot)
{
	struct withheld *withheld;

	HASH_FIND(by_slot, semaphore->withheld, &slot, sizeof(slot), withheld);
	return withheld;
}

static void
end(struct lock_engine *engine, struct withheld *withheld)
{
	timers_cancel(engine->timers, &withheld->end);
	HASH_DELETE(by_slot, withheld->semaphore->withheld, withheld);
	free(withheld);
}

void
withheld_to_nobody(struct lock_engine *engine, struct semaphore *semaphore, int slot)
{
	struct withheld *withheld = find(semaphore, slot);

	if (withheld == NULL)
		return;
	end(engine, withheld);
	semaphore_saw_slot(semaphore, slot, false);
	semaphore->scan.overtaken = true;
	/* The slot was claimed after a hint, and is newer than the known size. */
	if (slot > semaphore->size)
		engine_scan(engine, semaphore);
	semaphore->rests_over = true;
	engine_mark_dirty(engine, semaphore);
}

/*
 * The time is over. Waiters that came meanwhile scan for the slot. Waiters whose wait had begun do
 * not. A scan for each slot that went elsewhere would sometimes find the next slot first, before
 * the daemon that gets its hint.
 */
static void
enough(void *ctx, uint64_t id)
{
	struct withheld *withheld = ctx;
	struct semaphore *semaphore = withheld->semaphore;

	(void)id;
	if (withheld->whom == WITHHELD_FOR_POLLERS) {
		withheld_to_nobody(semaphore->engine, semaphore, withheld->slot);
		return;
	}
	end(semaphore->engine, withheld);
	/* A scan has left the slot to other daemons, but perhaps none of them wanted it. */
	if (semaphore->scan.withheld)
		engine_scan(semaphore->engine, semaphore);
	else
		engine_mark_dirty(semaphore->engine, semaphore);
}

void
withheld_begin(
    struct lock_engine *engine, struct semaphore *semaphore, int slot, enum withheld_for whom)
{
	struct withheld *withheld = find(semaphore, slot);

	if (withheld == NULL) {
		withheld = mem_alloc(sizeof(*withheld));
		withheld->slot = slot;
		withheld->semaphore = semaphore;
		timer_init(&withheld->end, enough, withheld, 0);
		HASH_ADD(by_slot, semaphore->withheld, slot, sizeof(withheld->slot), withheld);
	}
	withheld->whom = whom;
	timers_set(
	    engine->timers, &withheld->end, engine_now(engine) + engine->settings.hint_grace);
}

bool
withheld_has(const struct semaphore *semaphore, int slot)
{
	FAULT(NEWCOMER_FIRST, return false);
	return find(semaphore, slot) != NULL;
}

void
withheld_end_all(struct lock_engine *engine, struct semaphore *semaphore)
{
	while (semaphore->withheld != NULL)
		end(engine, semaphore->withheld);
}
