/*
 * What the world does to everybody, by chance; and its behaviour (memory_behaviour) in the meantime.
 */
#ifndef TESTS_SIM_TROUBLE_H
#define TESTS_SIM_TROUBLE_H

#include "tests/sim/sim.h"

/* In request timeouts: the latest answer. */
#define TROUBLE_LATEST 3

void trouble_init(struct sim *sim, struct memory_behaviour *ret_mode);
/* One of the troubles that the schedule has. */
void trouble_step(struct sim *sim);
/* Ends them all; what only time can end is over after three heartbeats. */
void trouble_end(struct sim *sim);

#endif
