/*
 * The state of a semaphore in the memory world, for tests of administration. It is read and made
 * without a daemon.
 */
#ifndef TESTS_UNIT_ADMIN_STATE_H
#define TESTS_UNIT_ADMIN_STATE_H

#include "tests/unit/lock_world.h"

/*
 * The state in short, such as "3 7 9 U G listed": the size, the uncounted slots, the markers, and
 * its entry in the directory. It reads slots up to 400. Static.
 */
const char *admin_state(const struct lock_world *world, const char *name);
/* Creates that state. Nothing of the semaphore may exist before. */
void admin_make(struct lock_world *world, const char *name, const char *state);

#endif
