#include "daemon/base/histogram.h"

#define MINUTE (60 * NSEC_PER_SEC)

const struct histogram_bounds histogram_round_trips = {.count = 11,
    .bound = {NSEC_PER_MSEC / 2, NSEC_PER_MSEC, 2 * NSEC_PER_MSEC, 5 * NSEC_PER_MSEC,
	10 * NSEC_PER_MSEC, 20 * NSEC_PER_MSEC, 50 * NSEC_PER_MSEC, 100 * NSEC_PER_MSEC,
	500 * NSEC_PER_MSEC, NSEC_PER_SEC, 5 * NSEC_PER_SEC}};

const struct histogram_bounds histogram_clients = {.count = 10,
    .bound = {NSEC_PER_MSEC, 10 * NSEC_PER_MSEC, 100 * NSEC_PER_MSEC, NSEC_PER_SEC,
	10 * NSEC_PER_SEC, MINUTE, 10 * MINUTE, 60 * MINUTE, 360 * MINUTE, 1440 * MINUTE}};

void
histogram_add(struct histogram *histogram, const struct histogram_bounds *bounds, int64_t time)
{
	size_t i = 0;

	while (i < bounds->count && time > bounds->bound[i])
		i++;
	histogram->counts[i]++;
	histogram->sum += time;
}

void
histogram_merge(struct histogram *histogram, const struct histogram *from)
{
	for (size_t i = 0; i <= HISTOGRAM_BOUNDS_MAX; i++)
		histogram->counts[i] += from->counts[i];
	histogram->sum += from->sum;
}
