/*
 * Rows that have changed and that not every watch has been told of: of each the newest state alone, as text
 * that all watches share, in the order of their last changes. Pure; owns its texts.
 */
#ifndef VIEW_CHANGES_H
#define VIEW_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "daemon/base/queue.h"

struct change {
	char *waiter, *name; /* owned */
	char *row;           /* owned: JSON; NULL: only its end is to be told */
	bool gone;           /* after that */
	bool elsewhere;      /* it is another daemon's */
	uint64_t row_order;  /* of its last row */
	uint64_t order;      /* of its last change */
	TAILQ_ENTRY(change) next;
	UT_hash_handle hh;
};

struct changes {
	TAILQ_HEAD(change_list, change) list; /* by order */
	struct change *by_waiter;             /* owned */
	uint64_t last;                        /* order of the newest change there ever was */
};

void changes_init(struct changes *changes);
/* A row is new or another one; takes row. */
void changes_row(
    struct changes *changes, const char *waiter, const char *name, bool elsewhere, char *row);
/* A row is no more. */
void changes_gone(struct changes *changes, const char *waiter, const char *name, bool elsewhere);
size_t changes_count(const struct changes *changes);
/* Those up to that order have been told to all. */
void changes_forget(struct changes *changes, uint64_t order);

#endif
