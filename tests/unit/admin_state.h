/*
 * What there is of a semaphore in the memory world, behind everybody's back, for tests of administration.
 */
#ifndef TESTS_UNIT_ADMIN_STATE_H
#define TESTS_UNIT_ADMIN_STATE_H

#include "tests/unit/lock_world.h"

/*
 * In short: how many slots there are without a gap, those above it, the markers, whether it is in the
 * directory: "3 7 9 U G listed". Slots up to 400 are looked at. Static.
 */
const char *admin_state(const struct lock_world *world, const char *name);
/* Makes it so, from nothing. */
void admin_make(struct lock_world *world, const char *name, const char *state);

#endif
