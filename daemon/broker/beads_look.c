#include "daemon/broker/beads_look.h"

static bool
same_set(const struct bead *a, const struct bead *b)
{
	return a->epoch == b->epoch && a->publisher == b->publisher;
}

static bool
look_is_complete(const struct bead *beads, size_t count, const struct bead *of)
{
	unsigned numbers = 0;

	for (size_t i = 0; i < count; i++)
		if (same_set(&beads[i], of))
			numbers |= 1U << beads[i].number;
	return numbers == (1U << (BEADS + 1)) - 2;
}

/* How often this very bead is there. */
static unsigned
look_copies(const struct bead *beads, size_t count, const struct bead *of)
{
	unsigned found = 0;

	for (size_t i = 0; i < count; i++)
		found += same_set(&beads[i], of) && beads[i].number == of->number;
	return found;
}

/* Beside the newest complete set, a claimant can only use single beads of older sets. */
static bool
look_confuses(
    const struct bead *beads, size_t count, const struct bead *bead, const struct bead *newest)
{
	if (look_copies(beads, count, bead) > 1)
		return true;
	if (same_set(bead, newest))
		return false;
	return bead->epoch >= newest->epoch || look_is_complete(beads, count, bead);
}

void
beads_look(const struct bead *beads, size_t count, unsigned major, struct broker_beads_seen *ret)
{
	const struct bead *newest = NULL;
	bool two = false, odd = false;

	*ret = (struct broker_beads_seen){.beads = (unsigned)count};
	for (size_t i = 0; i < count; i++) {
		const struct bead *bead = &beads[i];

		if (bead->epoch > ret->epoch)
			ret->epoch = bead->epoch;
		if (bead->grace > ret->grace)
			ret->grace = bead->grace;
		if (!look_is_complete(beads, count, bead))
			continue;
		if (newest == NULL || bead->epoch > newest->epoch) {
			newest = bead;
			two = false;
		} else if (bead->epoch == newest->epoch) {
			two |= !same_set(bead, newest);
		}
	}
	for (size_t i = 0; newest != NULL && i < count; i++)
		odd |= look_confuses(beads, count, &beads[i], newest);
	ret->major = newest != NULL ? newest->major : 0;
	ret->found = count == 0               ? BROKER_BEADS_NONE
		     : newest == NULL         ? BROKER_BEADS_PART
		     : two                    ? BROKER_BEADS_TWO_SETS
		     : odd                    ? BROKER_BEADS_ODD
		     : newest->major != major ? BROKER_BEADS_VERSION
		     : count > BEADS          ? BROKER_BEADS_BESIDE
					      : BROKER_BEADS_SOUND;
}

bool
beads_look_claimable(const struct broker_beads_seen *seen)
{
	return seen->found == BROKER_BEADS_SOUND || seen->found == BROKER_BEADS_BESIDE;
}
