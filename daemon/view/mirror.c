#include "daemon/view/mirror.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/mem.h"
#include "daemon/view/row.h"
#include "protocol/json.h"

/* Rounds that a daemon may miss in a row before its rows are gone. */
#define ROUNDS_MISSED_MAX 5
/* Rows of other daemons that are kept in mind; more are not told of. */
#define ROWS_MAX 50000

/* A row of another daemon. */
struct mirrored {
	char *waiter;      /* owned */
	struct cJSON *row; /* owned */
	uint32_t run;
	uint64_t round; /* in which it was said last */
	UT_hash_handle hh;
};

/* A daemon that has been heard in a round. */
struct teller {
	uint32_t run;
	uint64_t more;   /* rows that it left out, in the round that it was heard in last */
	unsigned missed; /* rounds since then */
	UT_hash_handle hh;
};

static void
mirrored_forget(struct mirror *mirror, struct mirrored *mirrored)
{
	if (mirror->next == mirrored)
		mirror->next = mirrored->hh.next;
	if (mirror->sweep == mirrored)
		mirror->sweep = mirrored->hh.next;
	HASH_DELETE(hh, mirror->rows, mirrored);
	json_free(mirrored->row);
	free(mirrored->waiter);
	free(mirrored);
}

static struct teller *
teller_find(const struct mirror *mirror, uint32_t run)
{
	struct teller *teller;

	HASH_FIND(hh, mirror->tellers, &run, sizeof(run), teller);
	return teller;
}

static void
teller_forget(struct mirror *mirror, struct teller *teller)
{
	HASH_DELETE(hh, mirror->tellers, teller);
	free(teller);
}

/* Takes the row. */
static void
take_row(
    struct mirror *mirror, struct changes *changes, uint32_t run, uint64_t round, struct cJSON *row)
{
	const char *waiter = row_waiter(row);
	struct mirrored *mirrored;

	HASH_FIND(hh, mirror->rows, waiter, strlen(waiter), mirrored);
	if (mirrored == NULL) {
		if (HASH_CNT(hh, mirror->rows) >= ROWS_MAX) {
			json_free(row);
			return;
		}
		mirrored = mem_alloc(sizeof(*mirrored));
		mirrored->waiter = mem_strdup(waiter);
		mirrored->run = run;
		HASH_ADD_KEYPTR(
		    hh, mirror->rows, mirrored->waiter, strlen(mirrored->waiter), mirrored);
	}
	mirrored->round = round;
	if (mirrored->row == NULL || !row_same(mirrored->row, row))
		changes_row(changes, waiter, row_name(row), true, json_print(row));
	json_free(mirrored->row);
	mirrored->row = row;
}

static void
take_teller(struct mirror *mirror, const struct letter *answer)
{
	struct teller *teller = teller_find(mirror, answer->run);

	if (teller == NULL) {
		if (HASH_CNT(hh, mirror->tellers) >= INSPECT_HOSTS_MAX)
			return;
		teller = mem_alloc(sizeof(*teller));
		teller->run = answer->run;
		HASH_ADD(hh, mirror->tellers, run, sizeof(teller->run), teller);
	}
	if (answer->last)
		teller->more = answer->more;
}

void
mirror_take(
    struct mirror *mirror, struct changes *changes, const struct letter *answer, uint64_t round)
{
	for (const struct cJSON *row = json_first(answer->rows); row != NULL;
	     row = json_next(row)) {
		if (row_is_sane(row, answer->run, answer->host))
			take_row(mirror, changes, answer->run, round, row_copy(row));
	}
	take_teller(mirror, answer);
}

static void
forget_the_silent(struct mirror *mirror, const struct inspect *inspect, uint64_t inquiry)
{
	struct teller *teller, *next;

	HASH_ITER (hh, mirror->tellers, teller, next) {
		if (inspect_has_answered(inspect, inquiry, teller->run))
			teller->missed = 0;
		else if (++teller->missed > ROUNDS_MISSED_MAX)
			teller_forget(mirror, teller);
	}
}

void
mirror_end_round(
    struct mirror *mirror, const struct inspect *inspect, uint64_t inquiry, uint64_t round)
{
	forget_the_silent(mirror, inspect, inquiry);
	mirror->sweep = mirror->rows;
	mirror->swept = round;
}

void
mirror_forget(struct mirror *mirror, uint64_t round)
{
	struct teller *teller, *next;

	HASH_ITER (hh, mirror->tellers, teller, next)
		teller_forget(mirror, teller);
	mirror->sweep = mirror->rows;
	mirror->swept = round + 1;
}

bool
mirror_sweep(struct mirror *mirror, struct changes *changes)
{
	struct mirrored *mirrored = mirror->sweep;
	const struct teller *teller;

	if (mirrored == NULL)
		return false;
	mirror->sweep = mirrored->hh.next;
	teller = teller_find(mirror, mirrored->run);
	if (mirrored->round < mirror->swept && (teller == NULL || teller->missed == 0)) {
		changes_gone(changes, mirrored->waiter, row_name(mirrored->row), true);
		mirrored_forget(mirror, mirrored);
	}
	return true;
}

void
mirror_walk(struct mirror *mirror)
{
	mirror->next = mirror->rows;
}

const struct cJSON *
mirror_next(struct mirror *mirror)
{
	const struct mirrored *mirrored = mirror->next;

	if (mirrored == NULL)
		return NULL;
	mirror->next = mirrored->hh.next;
	return mirrored->row;
}

uint64_t
mirror_more(const struct mirror *mirror)
{
	uint64_t more = 0;

	for (const struct teller *teller = mirror->tellers; teller != NULL;
	     teller = teller->hh.next)
		more += teller->more;
	return more;
}
