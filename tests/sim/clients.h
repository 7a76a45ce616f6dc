/*
 * What peers and administrators do, by chance.
 */
#ifndef TESTS_SIM_CLIENTS_H
#define TESTS_SIM_CLIENTS_H

#include "tests/sim/sim.h"

/* One thing, of one peer of one daemon. */
void client_step(struct sim *sim);

/* Takes down what is about to be asked, and numbers it; the answer may come at once. */
uint64_t client_ask(struct sim *sim, struct sim_daemon *daemon, uint64_t peer, struct ask what);
void client_cancel(struct sim *sim, const struct ask *meant);
void client_verify(struct sim *sim, const struct belief *belief);
void client_release(struct sim *sim, const struct belief *belief);
/* False: there is too much going on to ask. */
bool client_acquire(struct sim *sim, struct sim_daemon *daemon, int name, enum lock_kind kind,
    int64_t timeout, int priority);

#endif
