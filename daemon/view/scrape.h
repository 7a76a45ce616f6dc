/*
 * The counts of this daemon since its start, by name of lock. A limited number of names have counts
 * of their own; all other names share one place. A name gets a place when a client is granted it.
 * If no place is free, the name that was used longest ago gives up its place and its counts. It
 * keeps them if a client used it within METRICS_IDLE, holds it or waits for it. The file
 * also writes all metrics as text (view.h). It knows no sockets.
 */
#ifndef VIEW_SCRAPE_H
#define VIEW_SCRAPE_H

#include "daemon/base/histogram.h"
#include "daemon/lock/lock.h"

/* Names with a place of their own. */
#define METRICS_NAMES 100
#define METRICS_IDLE (3600 * NSEC_PER_SEC)
/* The place of all other names. */
#define METRICS_OTHERS METRICS_NAMES

/* The reasons for which an acquire is refused; all others count as the last. */
#define METRICS_REASONS 15
extern const enum reason metrics_reasons[METRICS_REASONS];

struct metrics_place {
	char name[LOCKNAME_MAX + 1]; /* "": nobody has the place, or METRICS_OTHERS */
	int64_t used;                /* clock time of the last grant, loss or end of a hold */
	uint64_t granted, lost, revoked;
	uint64_t refused[METRICS_REASONS];
	struct histogram waits, holds; /* histogram_clients */
};

struct metrics;

/* The engine is borrowed, and outlives the metrics. */
struct metrics *metrics_new(const struct lock_engine *engine);
void metrics_free(struct metrics *metrics);

/* An acquire of that name has been answered. name NULL: not known. */
void metrics_acquired(
    struct metrics *metrics, int64_t now, const char *name, const struct lock_answer *answer);
/* Counts a loss or a revocation. Other notices are ignored. */
void metrics_noticed(struct metrics *metrics, int64_t now, const struct lock_notice *notice);
/* A hold has ended. */
void metrics_hold_ended(struct metrics *metrics, int64_t now, const struct lock_row *hold);

/* The place of a name: an index up to METRICS_OTHERS. */
size_t metrics_find(const struct metrics *metrics, const char *name);
/* Borrowed until the next change. */
const struct metrics_place *metrics_at(const struct metrics *metrics, size_t place);

#endif
