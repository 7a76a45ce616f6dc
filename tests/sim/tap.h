/*
 * Listens between an engine and its broker: claims as they are sent, hints as they are sent and heard.
 * Loses hints, where the schedule has that trouble.
 */
#ifndef TESTS_SIM_TAP_H
#define TESTS_SIM_TAP_H

#include "tests/sim/sim.h"

/* After its broker was made, and watched by probes; before its engine is. */
void tap_broker(struct sim_daemon *daemon);
/* After its broker was freed. */
void tap_done(struct sim_daemon *daemon);
/* After its engine was made. */
void tap_engine(struct sim_daemon *daemon);

#endif
