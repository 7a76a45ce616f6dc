/*
 * The end of a schedule. The troubles end, and everything must come to rest. Each waiter for a free
 * slot gets it, each holder releases its lock, and nothing is left behind.
 */
#ifndef TESTS_SIM_CALM_H
#define TESTS_SIM_CALM_H

#include "tests/sim/sim.h"

void calm_down(struct sim *sim);
/* Until every request that has a deadline is answered. */
void calm_until_answered(struct sim *sim);

#endif
