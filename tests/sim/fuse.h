/*
 * A crash just after a step of administration: the k-th request that a daemon has the world perform for
 * an administrator is its last.
 */
#ifndef TESTS_SIM_FUSE_H
#define TESTS_SIM_FUSE_H

#include "tests/sim/sim.h"

void fuse_init(struct sim *sim);
/* From now on so many steps are left to some daemon. */
void fuse_light(struct sim *sim);
/* The daemon (-1: none that lives) has made one; stuck: it was told that somebody else is at work. */
void fuse_step(struct sim *sim, int daemon, bool stuck);
/* It does not burn any more. */
void fuse_out(struct sim *sim);

#endif
