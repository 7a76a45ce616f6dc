/*
 * The daemons of a schedule: an engine over a memory_broker each, and the ear that hears what they say
 * to their peers.
 */
#ifndef TESTS_SIM_DAEMONS_H
#define TESTS_SIM_DAEMONS_H

#include "tests/sim/sim.h"

void daemon_start(struct sim *sim, int number);
/* It is gone, and its peers with it. */
void daemon_kill(struct sim_daemon *daemon);
/* The peer's connection ends; another peer comes in its place. */
void daemon_hang_up(struct sim_daemon *daemon, int peer);
/* It is stopped, or has not yet done what was to be done by now. */
bool daemon_is_behind(const struct sim_daemon *daemon);

#endif
