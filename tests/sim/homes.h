/*
 * The node HOME, and how the other nodes reach it. A node that is silent for two to three heartbeats
 * may be given up, and its consumers with it. A node is also declared down by a reset, at once.
 */
#ifndef TESTS_SIM_HOMES_H
#define TESTS_SIM_HOMES_H

#include "tests/sim/sim.h"

void homes_init(struct sim *sim);
/* The way of some node to HOME changes. */
void homes_step(struct sim *sim);
/* All nodes reach HOME again. */
void homes_end(struct sim *sim);

#endif
