/*
 * A crash just after a step of administration. The world performs the k-th request of an
 * administrator's daemon, and the daemon ends.
 */
#ifndef TESTS_SIM_FUSE_H
#define TESTS_SIM_FUSE_H

#include "tests/sim/sim.h"

void fuse_init(struct sim *sim);
/* From now on some daemon has so many steps left. */
void fuse_light(struct sim *sim);
/*
 * The daemon has made a step. -1: no living daemon. stuck: it was told that another administrator
 * is at work.
 */
void fuse_step(struct sim *sim, int daemon, bool stuck);
/* Cancels the crash. */
void fuse_out(struct sim *sim);

#endif
