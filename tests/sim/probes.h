/*
 * What a daemon sees of holders: the answers to the probes of Bs alone, which are those of waits for
 * holders. Stands between an engine and its broker.
 */
#ifndef TESTS_SIM_PROBES_H
#define TESTS_SIM_PROBES_H

#include "tests/sim/sim.h"

/* After its broker was made. */
void probes_watch(struct sim_daemon *daemon);
/* After its broker was freed. */
void probes_done(struct sim_daemon *daemon);
/*
 * Whether one and the same wait of the daemon has seen each of the slots (by number, `wanted`) absent
 * twice in a row since that moment.
 */
bool probes_saw_gone(const struct sim_daemon *daemon, int name, const bool *wanted, uint64_t since);
/* Whether two probes of that awaited slot in a row, asked since that moment, saw it absent. */
bool probes_saw_free(const struct sim_daemon *daemon, int name, int slot, uint64_t since);

#endif
