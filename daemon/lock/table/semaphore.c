#include "daemon/lock/table/semaphore.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

struct semaphore *
semaphore_new(const char *name, bool mutex)
{
	struct semaphore *semaphore = mem_alloc(sizeof(*semaphore));

	semaphore->name = mem_strdup(name);
	semaphore->key = semaphore_key(name, mutex);
	semaphore->mutex = mutex;
	TAILQ_INIT(&semaphore->told);
	semaphore->starved.semaphore = semaphore;
	semaphore_forget(semaphore);
	return semaphore;
}

void
semaphore_free(struct semaphore *semaphore)
{
	assert(LIST_EMPTY(&semaphore->local_queue.users) && !semaphore->starved.listed);
	assert(semaphore->members == NULL && !semaphore->dirty);
	assert(!timer_is_set(&semaphore->rescan) && semaphore->scan.state != SCAN_PROBING);
	assert(!timer_is_set(&semaphore->progress) && TAILQ_EMPTY(&semaphore->told));
	assert(semaphore->withheld == NULL);
	free(semaphore->name);
	free(semaphore->busy);
	free(semaphore->ways);
	free(semaphore->hinted);
	free(semaphore->not_created);
	free(semaphore);
}

struct semaphore_key
semaphore_key(const char *name, bool mutex)
{
	struct semaphore_key key;
	size_t len = strlen(name);

	assert(len <= LOCKNAME_MAX);
	memcpy(key.text, name, len);
	/* '=' is in no lock name */
	strcpy(key.text + len, mutex ? "=M" : "");
	return key;
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
	semaphore->mode = SEMAPHORE_PLAIN;
	/* A scan in progress has only a part of the new state. */
	semaphore->scan.overtaken = semaphore->scan.forgotten = true;
	semaphore->scan.direct = 0;
	semaphore->extra = semaphore->above_count = 0;
	semaphore_saw_size(semaphore, 0, false);
}

void
semaphore_saw_size(struct semaphore *semaphore, int size, bool complete)
{
	if (size > semaphore->room) {
		semaphore->busy = mem_grow(semaphore->busy, (size_t)size, 1);
		semaphore->room = size;
	}
	for (; semaphore->size < size; semaphore->size++) {
		semaphore->busy[semaphore->size] = 1;
		semaphore->busy_count++;
	}
	for (; semaphore->size > size; semaphore->size--)
		semaphore->busy_count -= semaphore->busy[semaphore->size - 1];
	semaphore->complete = complete;
}

void
semaphore_saw_slot(struct semaphore *semaphore, int slot, bool busy)
{
	if (slot < 1 || slot > semaphore->size)
		return;
	semaphore->busy_count += busy - semaphore->busy[slot - 1];
	semaphore->busy[slot - 1] = busy;
}

bool
semaphore_way(const struct semaphore *semaphore, int slot, enum broker_way *ret_way)
{
	if (slot > semaphore->ways_room || semaphore->ways[slot - 1] == 0)
		return false;
	*ret_way = semaphore->ways[slot - 1] - 1;
	return true;
}

void
semaphore_saw_way(struct semaphore *semaphore, int slot, enum broker_way way)
{
	if (slot > semaphore->ways_room) {
		semaphore->ways = mem_grow(semaphore->ways, (size_t)slot, 1);
		memset(semaphore->ways + semaphore->ways_room, 0,
		    (size_t)(slot - semaphore->ways_room));
		semaphore->ways_room = slot;
	}
	semaphore->ways[slot - 1] = (unsigned char)(1 + way);
}

void
semaphore_hinted(struct semaphore *semaphore, int slot)
{
	semaphore->hinted =
	    mem_grow(semaphore->hinted, semaphore->hinted_count + 1, sizeof(*semaphore->hinted));
	semaphore->hinted[semaphore->hinted_count++] = slot;
}

bool
semaphore_has_free(const struct semaphore *semaphore)
{
	return semaphore->busy_count < semaphore->size;
}

int
semaphore_busy_count(const struct semaphore *semaphore)
{
	return semaphore->complete ? semaphore->busy_count : -1;
}
