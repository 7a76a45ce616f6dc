/*
 * Random requests of clients and administrators.
 */
#ifndef TESTS_SIM_CLIENTS_H
#define TESTS_SIM_CLIENTS_H

#include "tests/sim/sim.h"

/* One action of one client of one daemon. */
void client_step(struct sim *sim);

/*
 * Records the next request and numbers it. Call it before the request, because the answer may come
 * at once.
 */
uint64_t client_ask(struct sim *sim, struct sim_daemon *daemon, uint64_t peer, struct ask what);
void client_cancel(struct sim *sim, const struct ask *meant);
void client_verify(struct sim *sim, const struct belief *belief);
void client_release(struct sim *sim, const struct belief *belief);
/* False: too many requests are unanswered. */
bool client_acquire(struct sim *sim, struct sim_daemon *daemon, int name, enum lock_kind kind,
    int64_t timeout, int priority);

#endif
