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
/* The daemon notices that a link is dead; the world `notice` ns later. It is up after `back` ns. */
void daemon_cut(struct sim_daemon *daemon, enum broker_link link, int64_t notice, int64_t back);
/* The world gives the link up, or only falls silent; the daemon does not notice. */
void daemon_forsake(struct sim_daemon *daemon, enum broker_link link);
void daemon_freeze(struct sim_daemon *daemon, enum broker_link link);
/* The world gave it up when its node went down. */
void daemon_is_forsaken(struct sim_daemon *daemon);

#endif
