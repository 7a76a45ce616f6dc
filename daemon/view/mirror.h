/*
 * What watches are to be told: rows that have changed, and the rows of other daemons as they said them last,
 * round by round. Owns both.
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
 * A row that has changed and that not every watch has been told of: its newest state alone, as text that all
 * watches share.
 */
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

/* A row is new or another one; takes row. */
void changes_row(
    struct changes *changes, const char *waiter, const char *name, bool elsewhere, char *row);
/* A row is no more. */
void changes_gone(struct changes *changes, const char *waiter, const char *name, bool elsewhere);
size_t changes_count(const struct changes *changes);
/* Those up to that order have been told to all. */
void changes_forget(struct changes *changes, uint64_t order);

struct mirror {
	struct mirrored *rows;  /* owned */
	struct mirrored *next;  /* of a walk */
	struct mirrored *sweep; /* of a sweep; NULL: it is over */
	uint64_t swept;         /* rows that were said before this round are swept */
	struct teller *tellers; /* owned */
	struct changes changes; /* what is new, and what is new of our own rows */
};

void mirror_init(struct mirror *mirror);
/* What a daemon answers in a round. */
void mirror_take(struct mirror *mirror, const struct daemon_message *answer, uint64_t round);
/* A sweep begins: rows that were not said in it are gone, unless their daemon has only missed some rounds. */
void mirror_end_round(
    struct mirror *mirror, const struct queries *queries, uint64_t query, uint64_t round);
/* A sweep begins: all that was said up to that round is gone. */
void mirror_forget(struct mirror *mirror, uint64_t round);
/* A step of a sweep: one row. False: it is over. */
bool mirror_sweep(struct mirror *mirror);
/* A walk through all rows, between the steps of which they change; one at a time. */
void mirror_walk(struct mirror *mirror);
const struct cJSON *mirror_next(struct mirror *mirror); /* borrowed; NULL: it is over */
/* Rows that the others have left out. */
uint64_t mirror_more(const struct mirror *mirror);

#endif
