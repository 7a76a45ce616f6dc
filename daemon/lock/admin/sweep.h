/*
 * A sweep: the search for uncounted slots above a size, window by window. Knows no broker and
 * changes nothing.
 */
#ifndef LOCK_SWEEP_H
#define LOCK_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/broker/broker.h"

/* Zeroed: nothing was probed. */
struct sweep {
	int probed; /* the last probed slot; 0: none yet */
	bool clean; /* the last window had no uncounted slots */
	int *slots; /* owned; the slots found, ascending; `count` of them are not deleted yet */
	size_t count;
};

/*
 * The first slot of the next window; 0: the sweep has probed enough. It probes first to last, and on
 * while any slot exists, at most up to `most`.
 */
int sweep_window(const struct sweep *sweep, int first, int last, int most, int *ret_count);
/* The answers for that window; `first` as there. Returns the slot whose answer is not known; 0: none. */
int sweep_take(struct sweep *sweep, int first, const struct broker_seen *seen);
/* Zeroes it. */
void sweep_done(struct sweep *sweep);

#endif
