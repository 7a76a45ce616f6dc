/*
 * Counts of times by size, as Prometheus reads them. A histogram is a value without memory of its
 * own: zeroed, it is empty. The bounds belong to the place that adds and shows it. Pure.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/clock.h"

#define HISTOGRAM_BOUNDS_MAX 12

/* Upper bounds in ns, in ascending order. */
struct histogram_bounds {
	size_t count;
	int64_t bound[HISTOGRAM_BOUNDS_MAX];
};

struct histogram {
	/* counts[i]: times up to bound[i], and above the bound before; the last: all above */
	uint64_t counts[HISTOGRAM_BOUNDS_MAX + 1];
	int64_t sum; /* ns */
};

/* Of round trips to the broker: from half a millisecond to five seconds. */
extern const struct histogram_bounds histogram_round_trips;
/* Of waits and holds of clients: from a millisecond to a day. */
extern const struct histogram_bounds histogram_clients;

void histogram_add(
    struct histogram *histogram, const struct histogram_bounds *bounds, int64_t time);
/* Adds all of `from`, which has the same bounds. */
void histogram_merge(struct histogram *histogram, const struct histogram *from);

#endif
