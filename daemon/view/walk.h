/*
 * A walk through the rows of this daemon in steps, between which they change: those that were there when it
 * began are met, but for those that are gone, or hold instead of waiting, when their turn comes.
 */
#ifndef VIEW_WALK_H
#define VIEW_WALK_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/lock/lock.h"

struct walk {
	const char *name;      /* borrowed; NULL: all */
	struct walk_row *rows; /* owned; of one name those who hold; NULL: it has not begun */
	size_t count, room, next;
	struct lock_place place; /* of one name */
};

/* name (borrowed) NULL: all. As lock_each(). */
void walk_begin(struct walk *walk, const struct lock_engine *engine, const char *name);
/* Bytes that it needs. */
size_t walk_size(const struct walk *walk);
/* The next row; false: there is none. */
bool walk_next(struct walk *walk, const struct lock_engine *engine, struct lock_party *ret);
/* Also for one that was zeroed and never began. */
void walk_end(struct walk *walk);

#endif
