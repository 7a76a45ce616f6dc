#include "daemon/lock/admin/sweep.h"

#include <stdlib.h>

#include "daemon/base/mem.h"

/* Slots of a further window, after one with uncounted slots. */
#define SWEEP_MORE 256

int
sweep_window(const struct sweep *sweep, int first, int last, int most, int *ret_count)
{
	if (sweep->probed > 0)
		first = sweep->probed + 1;
	if (first > last) {
		last = sweep->probed + SWEEP_MORE;
		if (last > most)
			last = most;
		if (sweep->clean || first > last)
			return 0;
	}
	*ret_count = last - first + 1;
	if (*ret_count > BROKER_PROBE_MAX)
		*ret_count = BROKER_PROBE_MAX;
	return first;
}

int
sweep_take(struct sweep *sweep, int first, const struct broker_seen *seen)
{
	if (sweep->probed > 0)
		first = sweep->probed + 1;
	sweep->clean = true;
	sweep->slots = mem_grow(sweep->slots, sweep->count + seen->count, sizeof(*sweep->slots));
	for (size_t i = 0; i < seen->count; i++) {
		int slot = first + (int)i;

		if (seen->answers[i] != BROKER_OK && seen->answers[i] != BROKER_ABSENT)
			return slot;
		if (seen->answers[i] == BROKER_OK) {
			sweep->slots[sweep->count++] = slot;
			sweep->clean = false;
		}
	}
	sweep->probed = first + (int)seen->count - 1;
	return 0;
}

void
sweep_done(struct sweep *sweep)
{
	free(sweep->slots);
	*sweep = (struct sweep){.probed = 0};
}
