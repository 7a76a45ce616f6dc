/*
 * Rows as on the wire (PROTOCOL.md, "show"): made of the engine's rows, and checked if another
 * daemon sent them. Also a walk through the rows of this daemon. The caller owns the trees.
 */
#ifndef VIEW_ROW_H
#define VIEW_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/lock/lock.h"

struct cJSON;
struct view;

/* Facts that a row shows besides the engine's own. */
struct row_facts {
	uint32_t run;
	const char *host;
	int64_t now;  /* clock time */
	int64_t wall; /* the same time in ns since 1970 */
};

struct cJSON *row_new(const struct row_facts *facts, const struct lock_row *source);
/* A busy slot whose holder no daemon names. slot 0: the true mutex. */
struct cJSON *row_unknown(const char *name, int slot);
/*
 * Whether the daemon of that run could have made this row with row_new(). The row is neither gone
 * nor cancelled. Members that this daemon does not know are allowed: a newer daemon may send them.
 */
bool row_is_sane(const struct cJSON *row, uint32_t run, const char *host);
/* Copies a sane row without unknown members. */
struct cJSON *row_copy(const struct cJSON *row);

/* The row must be sane. */
const char *row_waiter(const struct cJSON *row);
const char *row_name(const struct cJSON *row);
int row_slot(const struct cJSON *row); /* 0: none */
/* The slot that the row takes exclusively. 0: the true mutex; -1: none. */
int row_takes(const struct cJSON *row);
bool row_waits(const struct cJSON *row);
/* Whether both are equal apart from position and age, which change without an event. */
bool row_same(const struct cJSON *a, const struct cJSON *b);

/* ---- our own rows ---- */

/* A row of this daemon. From here on rows of all daemons take one path. */
struct cJSON *view_row(const struct view *view, const struct lock_row *source);

/*
 * A walk through the rows of this daemon, in steps. Rows change between two steps. The walk returns
 * each row that existed at its beginning, unless the row is gone or its waiter became a holder
 * before its step.
 */
struct walk {
	const char *name;      /* borrowed; NULL: all names */
	struct walk_row *rows; /* owned; of one name the holders alone; NULL: not begun */
	size_t count, room, next;
	struct lock_place place; /* for one name: where the walk is in its local queue */
};

/* Notes the rows of all names, or the holders of one name. name is borrowed; NULL: all names. */
void walk_begin(struct walk *walk, const struct lock_engine *engine, const char *name);
/* The memory of the walk, in bytes. */
size_t walk_size(const struct walk *walk);
/* The next row. False: the walk is over. */
bool walk_next(struct walk *walk, const struct lock_engine *engine, struct lock_row *ret);
/* Frees the walk. A zeroed walk that never began is allowed. */
void walk_end(struct walk *walk);

#endif
