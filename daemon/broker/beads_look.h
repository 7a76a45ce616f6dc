/*
 * Judges the messages in the B of a slot by quorum, all at once, as its only consumer sees them. It is pure: it
 * knows no channel, no time, and no rules of a claim or a hold (beads.h). It tells whether a claim could use
 * them.
 */
#ifndef BROKER_BEADS_LOOK_H
#define BROKER_BEADS_LOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/broker/beads.h"
#include "daemon/broker/broker.h"

/* beads: all that are there, in any order. major: the version of the server. ret->foreign stays 0. */
void beads_look(
    const struct bead *beads, size_t count, unsigned major, struct broker_beads_seen *ret);
/* Whether a claimant can hold the slot: then no set may be published beside it. */
bool beads_look_claimable(const struct broker_beads_seen *seen);

#endif
