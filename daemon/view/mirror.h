/*
 * The rows of other daemons as they said them last, round by round, and what of that is new. Owns the rows;
 * what is new goes to the changes.
 */
#ifndef VIEW_MIRROR_H
#define VIEW_MIRROR_H

#include <stdint.h>

#include "daemon/view/changes.h"
#include "daemon/view/inspect.h"

struct cJSON;
struct mirrored;
struct teller;

struct mirror {
	struct mirrored *rows;  /* owned */
	struct mirrored *next;  /* of a walk */
	struct mirrored *sweep; /* of a sweep; NULL: it is over */
	uint64_t swept;         /* rows that were said before this round are swept */
	struct teller *tellers; /* owned */
};

/* What a daemon answers in a round. */
void mirror_take(
    struct mirror *mirror, struct changes *changes, const struct letter *answer, uint64_t round);
/* A sweep begins: rows that were not said in it are gone, unless their daemon has only missed some rounds. */
void mirror_end_round(
    struct mirror *mirror, const struct inspect *inspect, uint64_t inquiry, uint64_t round);
/* A sweep begins: all that was said up to that round is gone. */
void mirror_forget(struct mirror *mirror, uint64_t round);
/* A step of a sweep: one row. False: it is over. */
bool mirror_sweep(struct mirror *mirror, struct changes *changes);
/* A walk through all rows, between the steps of which they change; one at a time. */
void mirror_walk(struct mirror *mirror);
const struct cJSON *mirror_next(struct mirror *mirror); /* borrowed; NULL: it is over */
/* Rows that the others have left out. */
uint64_t mirror_more(const struct mirror *mirror);

#endif
