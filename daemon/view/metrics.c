#include "daemon/view/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "daemon/base/mem.h"

const enum reason metrics_reasons[METRICS_REASONS] = {REASON_WOULD_BLOCK, REASON_TIMEOUT,
    REASON_CONTENDED, REASON_CANCELLED, REASON_NO_SUCH_LOCK, REASON_ALREADY_EXISTS,
    REASON_PERMISSION_DENIED, REASON_TOO_MANY_LOCKS, REASON_TOO_MANY_WAITERS, REASON_DRAINING,
    REASON_BROKER_UNAVAILABLE, REASON_BROKER_BLOCKED, REASON_BROKER_REFUSED, REASON_INVALID_PARAMS,
    REASON_INTERNAL};

struct entry {
	struct metrics_place place;
	UT_hash_handle hh; /* by place.name */
};

struct metrics {
	const struct lock_engine *engine; /* borrowed */
	struct entry entries[METRICS_NAMES + 1];
	struct entry *by_name; /* entries with a name; borrowed */
	size_t used;           /* the first of `entries` have names */
	int64_t full_until;    /* clock time before which no name gives up its place */
};

struct metrics *
metrics_new(const struct lock_engine *engine)
{
	struct metrics *metrics = mem_alloc(sizeof(*metrics));

	metrics->engine = engine;
	metrics->full_until = INT64_MIN;
	return metrics;
}

void
metrics_free(struct metrics *metrics)
{
	HASH_CLEAR(hh, metrics->by_name);
	free(metrics);
}

/* ---- places ---- */

static struct entry *
find(const struct metrics *metrics, const char *name)
{
	struct entry *entry = NULL;

	if (name != NULL)
		HASH_FIND(hh, metrics->by_name, name, strlen(name), entry);
	return entry;
}

size_t
metrics_find(const struct metrics *metrics, const char *name)
{
	const struct entry *entry = find(metrics, name);

	return entry == NULL ? METRICS_OTHERS : (size_t)(entry - metrics->entries);
}

const struct metrics_place *
metrics_at(const struct metrics *metrics, size_t place)
{
	return &metrics->entries[place].place;
}

static struct metrics_place *
place_of(struct metrics *metrics, const char *name)
{
	return &metrics->entries[metrics_find(metrics, name)].place;
}

static void
note_row(void *ctx, const struct lock_row *row)
{
	(void)row;
	*(bool *)ctx = true;
}

/* The place that a name gives up. NULL: none does. */
static struct entry *
give_up(struct metrics *metrics, int64_t now)
{
	struct entry *oldest = metrics->entries;
	bool in_use = false;

	if (now < metrics->full_until)
		return NULL;
	for (size_t i = 1; i < METRICS_NAMES; i++) {
		if (metrics->entries[i].place.used < oldest->place.used)
			oldest = &metrics->entries[i];
	}
	metrics->full_until = oldest->place.used + METRICS_IDLE;
	if (now < metrics->full_until)
		return NULL;
	lock_each(metrics->engine, oldest->place.name, note_row, &in_use);
	if (in_use) {
		oldest->place.used = now;
		return NULL;
	}
	HASH_DEL(metrics->by_name, oldest);
	*oldest = (struct entry){.place.used = now};
	return oldest;
}

/* The place of a name that a client uses now. */
static struct metrics_place *
use(struct metrics *metrics, int64_t now, const char *name)
{
	struct entry *entry = find(metrics, name);

	if (entry == NULL) {
		entry = metrics->used < METRICS_NAMES ? &metrics->entries[metrics->used++]
						      : give_up(metrics, now);
		if (entry == NULL)
			return &metrics->entries[METRICS_OTHERS].place;
		snprintf(entry->place.name, sizeof(entry->place.name), "%s", name);
		HASH_ADD_KEYPTR(
		    hh, metrics->by_name, entry->place.name, strlen(entry->place.name), entry);
	}
	entry->place.used = now;
	return &entry->place;
}

void
metrics_place_merge(struct metrics_place *place, const struct metrics_place *from)
{
	place->granted += from->granted;
	place->lost += from->lost;
	place->revoked += from->revoked;
	for (size_t i = 0; i < METRICS_REASONS; i++)
		place->refused[i] += from->refused[i];
	histogram_merge(&place->waits, &from->waits);
	histogram_merge(&place->holds, &from->holds);
}

/* ---- events ---- */

void
metrics_acquired(
    struct metrics *metrics, int64_t now, const char *name, const struct lock_answer *answer)
{
	struct metrics_place *place;
	size_t i = 0;

	if (answer->reason == REASON_NONE) {
		place = use(metrics, now, name);
		place->granted++;
		histogram_add(&place->waits, &histogram_clients, answer->waited);
		return;
	}
	while (i < METRICS_REASONS - 1 && metrics_reasons[i] != answer->reason)
		i++;
	place_of(metrics, name)->refused[i]++;
}

void
metrics_noticed(struct metrics *metrics, int64_t now, const struct lock_notice *notice)
{
	if (notice->kind == LOCK_NOTICE_LOST)
		use(metrics, now, notice->name)->lost++;
	else if (notice->kind == LOCK_NOTICE_REVOKED)
		use(metrics, now, notice->name)->revoked++;
}

void
metrics_hold_ended(struct metrics *metrics, int64_t now, const struct lock_row *hold)
{
	histogram_add(&use(metrics, now, hold->name)->holds, &histogram_clients, now - hold->since);
}
