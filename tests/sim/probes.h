/*
 * The probes of a daemon that wait for holders: the answers to probes of Bs alone.
 */
#ifndef TESTS_SIM_PROBES_H
#define TESTS_SIM_PROBES_H

#include "tests/sim/sim.h"

void probes_init(struct sim_daemon *daemon);
/* Call it after the daemon's broker was freed. */
void probes_done(struct sim_daemon *daemon);
/* The daemon probes. Returns the callback that hears the answer before its engine. */
struct broker_probe_done probes_ask(struct sim_daemon *daemon,
    const struct broker_question *questions, size_t count, struct broker_probe_done done);
/*
 * Whether waits of the daemon have seen each slot in `wanted` absent in two consecutive probes since
 * that moment. `wanted` is indexed by slot.
 */
bool probes_saw_gone(const struct sim_daemon *daemon, int name, const bool *wanted, uint64_t since);
/* Whether two consecutive probes of that awaited slot, sent since that moment, saw it absent. */
bool probes_saw_free(const struct sim_daemon *daemon, int name, int slot, uint64_t since);

#endif
