/*
 * The data of the watches: changed rows, and the rows of other daemons as of their last round. Owns
 * both. It does not know which watches there are.
 */
#ifndef VIEW_MIRROR_H
#define VIEW_MIRROR_H

#include <uthash.h>

#include "daemon/base/queue.h"
#include "daemon/view/queries.h"

struct cJSON;
struct mirrored;
struct teller;

/*
 * A changed row that some watch was not notified of yet. Only its newest state is kept, as text
 * that all watches share.
 */
struct change {
	char *waiter, *name; /* owned */
	char *row;           /* owned: JSON; NULL: only the end of the row is left to tell */
	bool gone;           /* the row ended after that */
	bool elsewhere;      /* the row belongs to another daemon */
	uint64_t row_order;  /* of the last change that had a row */
	uint64_t order;      /* of the last change */
	TAILQ_ENTRY(change) next;
	UT_hash_handle hh;
};

struct changes {
	TAILQ_HEAD(change_list, change) list; /* by order */
	struct change *by_waiter;             /* owned */
	uint64_t last;                        /* order of the newest change so far */
};

/* Notes a new or changed row; takes `row`. */
void changes_row(
    struct changes *changes, const char *waiter, const char *name, bool elsewhere, char *row);
/* Notes the end of a row. */
void changes_gone(struct changes *changes, const char *waiter, const char *name, bool elsewhere);
size_t changes_count(const struct changes *changes);
/* Every watch was notified of the changes up to that order: forgets them. */
void changes_forget(struct changes *changes, uint64_t order);

struct mirror {
	struct mirrored *rows;  /* owned */
	struct mirrored *next;  /* the next row of a walk */
	struct mirrored *sweep; /* the next row of a sweep; NULL: none runs */
	uint64_t swept;         /* the sweep removes rows older than this round */
	struct teller *tellers; /* owned */
	struct changes changes; /* of the rows above and of our own rows */
};

void mirror_init(struct mirror *mirror);
/* Takes the rows of a daemon's answer in a round. */
void mirror_take(struct mirror *mirror, const struct daemon_message *answer, uint64_t round);
/*
 * Begins a sweep. It ends the rows that this round did not have. A daemon that has missed only a
 * few rounds keeps its rows.
 */
void mirror_end_round(
    struct mirror *mirror, const struct queries *queries, uint64_t query, uint64_t round);
/* Begins a sweep that ends all rows up to that round. */
void mirror_forget(struct mirror *mirror, uint64_t round);
/* Sweeps one row. False: the sweep is over. */
bool mirror_sweep(struct mirror *mirror);
/*
 * Begins a walk through all rows. Rows may change between its steps. There is one walk at a time.
 */
void mirror_walk(struct mirror *mirror);
const struct cJSON *mirror_next(struct mirror *mirror); /* borrowed; NULL: the walk is over */
/* The number of rows that other daemons left out of their answers. */
uint64_t mirror_more(const struct mirror *mirror);

#endif
