/*
 * Listens between an engine and its broker: claims as they are sent, hints as they are sent and heard.
 * Loses hints, where the schedule has that trouble.
 */
#ifndef TESTS_SIM_TAP_H
#define TESTS_SIM_TAP_H

#include "tests/sim/sim.h"

/* Before its engine is made. */
void tap_init(struct sim_daemon *daemon);
/* After its broker was freed. */
void tap_done(struct sim_daemon *daemon);

#endif
