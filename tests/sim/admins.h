/*
 * Random requests of administrators, and random requests that read their results.
 */
#ifndef TESTS_SIM_ADMINS_H
#define TESTS_SIM_ADMINS_H

#include "tests/sim/sim.h"

/*
 * Gives one order to one daemon: a random one, or the last order on its name that did not succeed.
 */
void admins_step(struct sim *sim);
/* One client asks for a size, a list or an explanation, or waits for a state of a slot. */
void admins_read(struct sim *sim);
/* False: too many requests are unanswered. */
bool admins_ask(struct sim *sim, struct sim_daemon *daemon, const struct order *order);
/* The successor of the daemon is asked again. */
void admins_repeat(struct sim *sim, struct sim_daemon *daemon, const struct ask *ask);
/* The daemon has answered an order. */
void admins_heard(struct sim *sim, const struct ask *ask, enum reason reason);

#endif
