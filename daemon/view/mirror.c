#include "daemon/view/mirror.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
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

/* ---- changes ---- */

/* That of a row, which is the newest now; made when it has none. */
static struct change *
touch(struct changes *changes, const char *waiter, const char *name, bool elsewhere)
{
	struct change *change;

	HASH_FIND(hh, changes->by_waiter, waiter, strlen(waiter), change);
	if (change == NULL) {
		change = mem_alloc(sizeof(*change));
		change->waiter = mem_strdup(waiter);
		change->name = mem_strdup(name);
		change->elsewhere = elsewhere;
		HASH_ADD_KEYPTR(
		    hh, changes->by_waiter, change->waiter, strlen(change->waiter), change);
	} else {
		TAILQ_REMOVE(&changes->list, change, next);
	}
	TAILQ_INSERT_TAIL(&changes->list, change, next);
	change->order = ++changes->last;
	return change;
}

void
changes_row(
    struct changes *changes, const char *waiter, const char *name, bool elsewhere, char *row)
{
	struct change *change = touch(changes, waiter, name, elsewhere);

	free(change->row);
	change->row = row;
	change->row_order = change->order;
	change->gone = false;
}

void
changes_gone(struct changes *changes, const char *waiter, const char *name, bool elsewhere)
{
	touch(changes, waiter, name, elsewhere)->gone = true;
}

size_t
changes_count(const struct changes *changes)
{
	return HASH_CNT(hh, changes->by_waiter);
}

void
changes_forget(struct changes *changes, uint64_t order)
{
	struct change *change;

	while ((change = TAILQ_FIRST(&changes->list)) != NULL && change->order <= order) {
		TAILQ_REMOVE(&changes->list, change, next);
		HASH_DELETE(hh, changes->by_waiter, change);
		free(change->waiter);
		free(change->name);
		free(change->row);
		free(change);
	}
}

/* ---- rows of other daemons ---- */

void
mirror_init(struct mirror *mirror)
{
	*mirror = (struct mirror){0};
	TAILQ_INIT(&mirror->changes.list);
}

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
take_row(struct mirror *mirror, uint32_t run, uint64_t round, struct cJSON *row)
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
		changes_row(&mirror->changes, waiter, row_name(row), true, json_print(row));
	json_free(mirrored->row);
	mirrored->row = row;
}

void
mirror_take(struct mirror *mirror, const struct daemon_message *answer, uint64_t round)
{
	struct teller *teller = teller_find(mirror, answer->run);

	for (const struct cJSON *row = json_first(answer->rows); row != NULL;
	     row = json_next(row)) {
		if (row_is_sane(row, answer->run, answer->host))
			take_row(mirror, answer->run, round, row_copy(row));
	}
	if (teller == NULL) {
		if (HASH_CNT(hh, mirror->tellers) >= QUERIES_HOSTS_MAX)
			return;
		teller = mem_alloc(sizeof(*teller));
		teller->run = answer->run;
		HASH_ADD(hh, mirror->tellers, run, sizeof(teller->run), teller);
	}
	if (answer->last)
		teller->more = answer->more;
}

void
mirror_end_round(
    struct mirror *mirror, const struct queries *queries, uint64_t query, uint64_t round)
{
	struct teller *teller, *next;

	HASH_ITER (hh, mirror->tellers, teller, next) {
		if (queries_has_answered(queries, query, teller->run))
			teller->missed = 0;
		else if (++teller->missed > ROUNDS_MISSED_MAX)
			teller_forget(mirror, teller);
	}
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
mirror_sweep(struct mirror *mirror)
{
	struct mirrored *mirrored = mirror->sweep;
	const struct teller *teller;

	if (mirrored == NULL)
		return false;
	mirror->sweep = mirrored->hh.next;
	teller = teller_find(mirror, mirrored->run);
	FAULT(SILENT_IS_GONE, teller = NULL);
	if (mirrored->round < mirror->swept && (teller == NULL || teller->missed == 0)) {
		changes_gone(&mirror->changes, mirrored->waiter, row_name(mirrored->row), true);
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
