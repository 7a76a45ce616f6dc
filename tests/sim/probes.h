/*
 * What a daemon sees of holders: the answers to the probes of Bs alone, which are those of waits for
 * holders.
 */
#ifndef TESTS_SIM_PROBES_H
#define TESTS_SIM_PROBES_H

#include "tests/sim/sim.h"

void probes_init(struct sim_daemon *daemon);
/* After its broker was freed. */
void probes_done(struct sim_daemon *daemon);
/* It probes: who is to hear the answer in its engine's place. */
struct broker_probe_done probes_ask(struct sim_daemon *daemon, const char *const *queues,
    size_t count, struct broker_probe_done done);
/*
 * Whether one and the same wait of the daemon has seen each of the slots (by number, `wanted`) absent
 * twice in a row since that moment.
 */
bool probes_saw_gone(const struct sim_daemon *daemon, int name, const bool *wanted, uint64_t since);
/* Whether two probes of that awaited slot in a row, asked since that moment, saw it absent. */
bool probes_saw_free(const struct sim_daemon *daemon, int name, int slot, uint64_t since);

#endif
