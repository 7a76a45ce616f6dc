#include "daemon/view/changes.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"

void
changes_init(struct changes *changes)
{
	*changes = (struct changes){.last = 0};
	TAILQ_INIT(&changes->list);
}

/* That of a row, which is the newest now; made when it has none. */
static struct change *
touch(struct changes *changes, const char *waiter, const char *name, bool elsewhere)
{
	struct change *change;

	HASH_FIND(hh, changes->by_waiter, waiter, strlen(waiter), change);
	if (change == NULL) {
		change = mem_alloc(sizeof(*change));
		change->waiter = mem_strdup(waiter);
		change->name = mem_strdup(name);
		change->elsewhere = elsewhere;
		HASH_ADD_KEYPTR(
		    hh, changes->by_waiter, change->waiter, strlen(change->waiter), change);
	} else {
		TAILQ_REMOVE(&changes->list, change, next);
	}
	TAILQ_INSERT_TAIL(&changes->list, change, next);
	change->order = ++changes->last;
	return change;
}

void
changes_row(
    struct changes *changes, const char *waiter, const char *name, bool elsewhere, char *row)
{
	struct change *change = touch(changes, waiter, name, elsewhere);

	free(change->row);
	change->row = row;
	change->row_order = change->order;
	change->gone = false;
}

void
changes_gone(struct changes *changes, const char *waiter, const char *name, bool elsewhere)
{
	touch(changes, waiter, name, elsewhere)->gone = true;
}

size_t
changes_count(const struct changes *changes)
{
	return HASH_CNT(hh, changes->by_waiter);
}

void
changes_forget(struct changes *changes, uint64_t order)
{
	struct change *change;

	while ((change = TAILQ_FIRST(&changes->list)) != NULL && change->order <= order) {
		TAILQ_REMOVE(&changes->list, change, next);
		HASH_DELETE(hh, changes->by_waiter, change);
		free(change->waiter);
		free(change->name);
		free(change->row);
		free(change);
	}
}
