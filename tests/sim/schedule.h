/*
 * From a seed to a verdict.
 */
#ifndef TESTS_SIM_SCHEDULE_H
#define TESTS_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* Steps of a schedule, before it calms down. */
#define SCHEDULE_STEPS 200

struct verdict {
	const char *violation; /* "" = none; until the next one runs */
	unsigned number;       /* of the invariant; 0 = none of the numbered ones */
	uint64_t steps;
	uint64_t digest; /* of all that happened */
};

/* Says nothing; aloud: prints every note. */
struct verdict schedule_run(uint64_t seed, bool aloud);
/*
 * What was wrong with the schedule that ran last, or runs and does not come back (then from a signal
 * handler, and why is not NULL), and the last notes before it.
 */
void schedule_print(const char *why);

#endif
