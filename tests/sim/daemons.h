/*
 * The daemons of a schedule: an engine and a broker in memory each. Hears the events that the
 * engines send to their clients.
 */
#ifndef TESTS_SIM_DAEMONS_H
#define TESTS_SIM_DAEMONS_H

#include "tests/sim/sim.h"

void daemon_start(struct sim *sim, int number);
/*
 * Makes the broker and the engine of a daemon, which do not connect yet. Frees them: the daemon is
 * gone, or its successor is made next.
 */
void daemon_open(struct sim_daemon *daemon);
void daemon_close(struct sim_daemon *daemon);
/* The daemon and its clients are gone. */
void daemon_kill(struct sim_daemon *daemon);
/* The client's connection ends. Another client takes its place. */
void daemon_hang_up(struct sim_daemon *daemon, int peer);
/* Whether the daemon is stopped, or has not done work that is due. */
bool daemon_is_behind(const struct sim_daemon *daemon);

#endif
