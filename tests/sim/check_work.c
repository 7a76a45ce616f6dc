/*
 * The requests of a daemon to the broker while nothing happens that causes work.
 */
#include "tests/sim/check.h"

/*
 * Limits of methods: of work that had begun, and of steady work in each second. A flush of probes
 * is one method.
 */
#define METHODS_BEGUN 200
#define METHODS_PER_SECOND 60

void
check_is_caused(struct sim *sim)
{
	sim->waits.caused_at = sim->now;
	for (int i = 0; i < sim->plan.daemons; i++)
		sim->waits.methods[i] = 0;
}

void
check_method(struct sim *sim, int daemon)
{
	int64_t time = sim->now - sim->waits.caused_at;
	int64_t most = METHODS_BEGUN + METHODS_PER_SECOND * time / NSEC_PER_SEC;

	if ((int64_t)++sim->waits.methods[daemon] > most)
		check_fail(sim, 16, "daemon %d sent %d requests in %.1f ms without a cause",
		    daemon + 1, (int)sim->waits.methods[daemon], (double)time / 1e6);
}
