#include "daemon/lock/semaphore.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "protocol/methods.h"

struct semaphore *
semaphore_new(const char *name, bool mutex)
{
	struct semaphore *semaphore = mem_alloc(sizeof(*semaphore));

	semaphore->name = mem_strdup(name);
	semaphore->key = semaphore_key(name, mutex);
	semaphore->mutex = mutex;
	TAILQ_INIT(&semaphore->line);
	semaphore_forget(semaphore);
	return semaphore;
}

void
semaphore_free(struct semaphore *semaphore)
{
	assert(TAILQ_EMPTY(&semaphore->line) && !semaphore->poked);
	assert(!timer_is_set(&semaphore->reprobe) && semaphore->look.state != LOOK_PROBING);
	free(semaphore->name);
	free(semaphore->key);
	free(semaphore->busy);
	free(semaphore->last);
	free(semaphore);
}

char *
semaphore_key(const char *name, bool mutex)
{
	/* '=' is in no lock name */
	return mem_printf("%s%s", name, mutex ? "=M" : "");
}

bool
semaphore_is_fresh(const struct semaphore *semaphore, int64_t now, int64_t interval)
{
	return semaphore->seen != INT64_MIN && now - semaphore->seen < interval;
}

void
semaphore_forget(struct semaphore *semaphore)
{
	semaphore->seen = INT64_MIN;
	semaphore->look.overtaken = true; /* what a look in progress finds is only half of it */
	semaphore_saw_size(semaphore, 0, false);
}

void
semaphore_saw_size(struct semaphore *semaphore, int size, bool complete)
{
	if (size > semaphore->room) {
		semaphore->busy = mem_grow(semaphore->busy, (size_t)size, 1);
		semaphore->room = size;
	}
	if (size > semaphore->size)
		memset(semaphore->busy + semaphore->size, 1, (size_t)(size - semaphore->size));
	semaphore->size = size;
	semaphore->complete = complete;
}

void
semaphore_saw_slot(struct semaphore *semaphore, int slot, bool busy)
{
	if (slot >= 1 && slot <= semaphore->size)
		semaphore->busy[slot - 1] = busy;
}

int
semaphore_holders(const struct semaphore *semaphore)
{
	int holders = 0;

	if (!semaphore->complete)
		return -1;
	for (int i = 0; i < semaphore->size; i++)
		holders += semaphore->busy[i];
	return holders;
}

static size_t
rank(int priority)
{
	assert(priority >= -METHODS_PRIORITY_MOST && priority <= METHODS_PRIORITY_MOST);
	return (size_t)(priority + METHODS_PRIORITY_MOST);
}

/* The first time that somebody goes ahead of somebody else. */
static void
index_line(struct semaphore *semaphore)
{
	struct waiter *waiter;

	semaphore->last = mem_alloc((rank(METHODS_PRIORITY_MOST) + 1) * sizeof(*semaphore->last));
	TAILQ_FOREACH (waiter, &semaphore->line, of_line)
		semaphore->last[rank(waiter->priority)] = waiter;
}

/* The last of those who go before a newcomer of that priority; NULL: nobody does. */
static struct waiter *
last_before(struct semaphore *semaphore, int priority)
{
	struct waiter *last = TAILQ_LAST(&semaphore->line, waiter_list);

	if (last == NULL || last->priority >= priority)
		return last;
	if (semaphore->last == NULL)
		index_line(semaphore);
	last = NULL;
	for (size_t i = rank(priority); last == NULL && i <= rank(METHODS_PRIORITY_MOST); i++)
		last = semaphore->last[i];
	return last;
}

void
semaphore_line_join(struct semaphore *semaphore, struct waiter *waiter)
{
	struct waiter *before = last_before(semaphore, waiter->priority);

	semaphore->waiting++;
	if (before != NULL)
		TAILQ_INSERT_AFTER(&semaphore->line, before, waiter, of_line);
	else
		TAILQ_INSERT_HEAD(&semaphore->line, waiter, of_line);
	if (semaphore->last != NULL)
		semaphore->last[rank(waiter->priority)] = waiter;
}

void
semaphore_line_leave(struct semaphore *semaphore, struct waiter *waiter)
{
	struct waiter *before = TAILQ_PREV(waiter, waiter_list, of_line);

	if (semaphore->last != NULL && semaphore->last[rank(waiter->priority)] == waiter)
		semaphore->last[rank(waiter->priority)] =
		    before != NULL && before->priority == waiter->priority ? before : NULL;
	TAILQ_REMOVE(&semaphore->line, waiter, of_line);
	semaphore->waiting--;
}

void
semaphore_line_let_on(struct semaphore *semaphore, uint64_t admin)
{
	struct waiter *waiter;

	TAILQ_FOREACH (waiter, &semaphore->line, of_line) {
		if (waiter->behind != admin)
			continue;
		waiter->behind = 0;
		waiter->joined = semaphore->look.number; /* looks before this one saw too little */
	}
}
