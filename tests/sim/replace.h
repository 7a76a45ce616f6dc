/*
 * Replaces a daemon by its successor, which goes on from the serialised state of its engine. First
 * the engine is frozen. If it is not still in time, it goes on itself.
 */
#ifndef TESTS_SIM_REPLACE_H
#define TESTS_SIM_REPLACE_H

#include "tests/sim/sim.h"

void replace_init(struct sim_daemon *daemon);
/* The daemon is gone. */
void replace_done(struct sim_daemon *daemon);
/* Freezes the daemon, which runs. The successor comes at a random moment at which it is still. */
void replace_begin(struct sim_daemon *daemon);
/* The same, but no successor comes: the daemon goes on itself after that time. */
void replace_freeze(struct sim_daemon *daemon, int64_t time);
/* The daemon goes on itself, if it is frozen. */
void replace_give_up(struct sim_daemon *daemon);

#endif
