/*
 * The end of a schedule: the troubles are over, and everything must come to rest. Who waits for a slot
 * that is free gets it, who holds one gives it back, and nothing is left behind.
 */
#ifndef TESTS_SIM_CALM_H
#define TESTS_SIM_CALM_H

#include "tests/sim/sim.h"

void calm_down(struct sim *sim);

#endif
