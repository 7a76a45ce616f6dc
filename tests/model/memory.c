#include "tests/model/memory.h"
#include "tests/model/view.h"

void
memory_forget(struct client *k)
{
	k->memory_set = k->memory_behind = k->memory_out = 0;
}

/* After the end of a connection its daemon still knows the counts of its hold (rule 8). */
void
memory_remember(struct world *w, struct client *k)
{
	uint8_t beads[BEADS];
	bool known = k->mode == HELD || k->mode == REGAINING || k->mode == RELEASING ||
		     k->mode == FLIPPING || k->mode == CONFIRMING;
	bool whole = k->set != 0 && view_order_after(k, beads) == BEADS;
	bool waits = k->mode == WAITING || k->mode == CHECKING;
	bool again = k->reclaiming && w->retries != 0 && (known || waits);
	w->retries -= again;
	if (again && waits)
		return;
	memory_forget(k);
	if (!setup->reclaims || !known || !whole || (k->reclaiming && !again))
		return;
	k->memory_set = k->set;
	k->memory_behind = (uint8_t)view_behind(k);
	k->memory_out = k->n_out;
}

/*
 * Rule 8: the sum of the counts says that nobody was between the lost hold and this claim. All counts have grown
 * alike since, so this does not change.
 */
bool
memory_is_next(const struct client *k)
{
	int more = (int)k->memory_behind - (int)view_behind(k);
	if (k->memory_set == 0 || k->memory_set != k->set)
		return false;
	if (makes(RECLAIM_ANY_SUM))
		return true;
	if (makes(RECLAIM_SEVEN))
		return more >= 3 && more <= 7;
	return more == 3 || (k->memory_out != 0 && more == 4);
}

/* Rule 8a. */
bool
memory_goes_on(const struct client *k)
{
	return setup->regains && k->memory_set != 0 && (k->lingering != 0 || k->pausing);
}

/* Its client uses the lock no more. */
bool
memory_has_stopped(const struct client *k)
{
	return (k->lingering == 0 && !k->pausing) || makes(RECLAIM_BEFORE_STOP);
}
