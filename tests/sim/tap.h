/*
 * Listens between an engine and its broker: claims and hints that are sent, and hints that are
 * received. Drops hints if the schedule has that trouble.
 */
#ifndef TESTS_SIM_TAP_H
#define TESTS_SIM_TAP_H

#include "tests/sim/sim.h"

/* Call it before the daemon's engine is made. */
void tap_init(struct sim_daemon *daemon);
/* Call it after the daemon's broker was freed. */
void tap_done(struct sim_daemon *daemon);

#endif
