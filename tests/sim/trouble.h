/*
 * Random troubles of the world, and its behaviour (memory_behaviour) in the meantime.
 */
#ifndef TESTS_SIM_TROUBLE_H
#define TESTS_SIM_TROUBLE_H

#include "tests/sim/sim.h"

/* The latest answer, in request timeouts. */
#define TROUBLE_LATEST 3

void trouble_init(struct sim *sim, struct memory_behaviour *ret_mode);
/* Causes one of the schedule's troubles. */
void trouble_step(struct sim *sim);
/* Ends all troubles. Their effects are over after three heartbeats. */
void trouble_end(struct sim *sim);

#endif
