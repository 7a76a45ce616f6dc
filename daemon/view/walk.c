#include "daemon/view/walk.h"

#include <stdlib.h>

#include "daemon/base/mem.h"

struct walk_row {
	uint64_t waiter, lock;
};

static void
note(void *ctx, const struct lock_party *row)
{
	struct walk *walk = ctx;

	if (walk->count == walk->room) {
		walk->room *= 2;
		walk->rows = mem_grow(walk->rows, walk->room, sizeof(*walk->rows));
	}
	walk->rows[walk->count++] = (struct walk_row){row->waiter, row->lock};
}

void
walk_begin(struct walk *walk, const struct lock_engine *engine, const char *name)
{
	*walk = (struct walk){.name = name, .room = 16};
	walk->rows = mem_grow(NULL, walk->room, sizeof(*walk->rows));
	if (name == NULL)
		lock_each(engine, NULL, note, walk);
	else
		lock_each_holding(engine, name, note, walk);
}

size_t
walk_size(const struct walk *walk)
{
	return walk->room * sizeof(*walk->rows);
}

bool
walk_next(struct walk *walk, const struct lock_engine *engine, struct lock_party *ret)
{
	while (walk->next < walk->count) {
		const struct walk_row *row = &walk->rows[walk->next++];

		if (lock_row(engine, row->waiter, row->lock, ret))
			return true;
	}
	return walk->name != NULL && lock_next_waiting(engine, walk->name, &walk->place, ret);
}

void
walk_end(struct walk *walk)
{
	free(walk->rows);
	*walk = (struct walk){.count = 0};
}
