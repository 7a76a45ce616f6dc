/*
 * Rows as the wire has them (PROTOCOL.md, "show"): made of what the engine says of its own, and checked
 * when another daemon sends them. Pure: values in, trees out, which the caller owns.
 */
#ifndef VIEW_ROW_H
#define VIEW_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/lock/lock.h"

struct cJSON;

/* What a row shows besides the party itself. */
struct row_facts {
	uint32_t run;
	const char *host;
	int64_t now;  /* clock time */
	int64_t wall; /* ns since 1970, at that time */
};

struct cJSON *row_new(const struct row_facts *facts, const struct lock_row *source);
/* A slot that is busy, nobody says by whom; 0: the true mutex. */
struct cJSON *row_unknown(const char *name, int slot);
/*
 * Whether it is what row_new() of the daemon of that run would make, not gone and not cancelled. It may
 * have members that are not known here: those of a newer daemon have.
 */
bool row_is_sane(const struct cJSON *row, uint32_t run, const char *host);
/* A sane row without such members. */
struct cJSON *row_copy(const struct cJSON *row);

/* Of a sane row. */
const char *row_waiter(const struct cJSON *row);
const char *row_name(const struct cJSON *row);
int row_slot(const struct cJSON *row); /* 0: none */
/* What nobody else can have as long as it does: its slot; 0: the true mutex; -1: nothing. */
int row_takes(const struct cJSON *row);
bool row_waits(const struct cJSON *row);
/* Whether both say the same, but for what moves by itself: place in the line, and age. */
bool row_same(const struct cJSON *a, const struct cJSON *b);

#endif
