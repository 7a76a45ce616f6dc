/*
 * What administrators do, by chance, and those who look at what they did.
 */
#ifndef TESTS_SIM_ADMINS_H
#define TESTS_SIM_ADMINS_H

#include "tests/sim/sim.h"

/* One order, to one daemon: one of chance, or the last of its name that came to no good end. */
void admins_step(struct sim *sim);
/* Somebody asks for a size, a list, an explanation; or waits until a slot is free, or busy. */
void admins_look(struct sim *sim);
/* False: there is too much going on to ask. */
bool admins_ask(struct sim *sim, struct sim_daemon *daemon, const struct order *order);
/* What was asked is answered. */
void admins_heard(struct sim *sim, const struct ask *ask, enum reason reason);

#endif
