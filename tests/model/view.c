#include "tests/model/view.h"
#include <string.h>

struct seen
view_take_seen(struct client *k, unsigned at)
{
	struct seen taken = k->seen[at];
	k->n_seen--;
	memmove(&k->seen[at], &k->seen[at + 1], (k->n_seen - at) * sizeof k->seen[0]);
	memset(&k->seen[k->n_seen], 0, sizeof k->seen[0]);
	return taken;
}

struct out
view_take_out(struct client *k)
{
	struct out taken = k->out[0];
	k->n_out--;
	memmove(&k->out[0], &k->out[1], k->n_out * sizeof k->out[0]);
	memset(&k->out[k->n_out], 0, sizeof k->out[0]);
	return taken;
}

static bool
is_of_set(struct seen delivery, unsigned set)
{
	return !is_mark(delivery.message) && set_of(delivery.message) == set;
}

/* The positions of the beads of a set. */
unsigned
view_find_set(const struct client *k, unsigned set, uint8_t ret_at[BEADS])
{
	unsigned n = 0;
	for (unsigned at = 0; at < k->n_seen && n < BEADS; at++)
		if (is_of_set(k->seen[at], set))
			ret_at[n++] = (uint8_t)at;
	return n;
}

/* The order of the claimed set after all rejects that are out. Each goes to the end. */
unsigned
view_order_after(const struct client *k, uint8_t ret_beads[BEADS])
{
	uint8_t at[BEADS];
	unsigned n = view_find_set(k, k->set - 1u, at);
	for (unsigned i = 0; i < n; i++)
		ret_beads[i] = (uint8_t)bead_of(k->seen[at[i]].message);
	for (unsigned i = 0; i < k->n_out && n < BEADS; i++)
		ret_beads[n++] = (uint8_t)bead_of(k->out[i].bead.message);
	return n;
}

/* How far the three counts that it knows are behind the counts of now. */
unsigned
view_behind(const struct client *k)
{
	unsigned sum = 0;
	for (unsigned at = 0; at < k->n_seen; at++)
		if (is_of_set(k->seen[at], k->set - 1u))
			sum += k->seen[at].age;
	for (unsigned at = 0; at < k->n_out; at++)
		sum += k->out[at].bead.age;
	return sum;
}
