/*
 * Rows as on the wire (PROTOCOL.md, "show"). They are made of the engine's rows, and checked if
 * another daemon sent them. Pure: values in, JSON trees out. The caller owns the trees.
 */
#ifndef VIEW_ROW_H
#define VIEW_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/lock/lock.h"

struct cJSON;

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

#endif
