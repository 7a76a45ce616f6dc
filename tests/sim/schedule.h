/*
 * Runs the schedule of a seed and returns its verdict.
 */
#ifndef TESTS_SIM_SCHEDULE_H
#define TESTS_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* Number of steps before the schedule calms down. */
#define SCHEDULE_STEPS 200
/* Each seed that this divides has a second schedule, with slots by quorum. */
#define SCHEDULE_QUORUM 3
/* Each seed that is a multiple of this has a schedule with evictions, which are by quorum for every second one. */
#define SCHEDULE_EVICTS 5

struct verdict {
	const char *violation; /* "": none; valid until the next run */
	unsigned number;       /* of the invariant; 0: not a numbered one */
	uint32_t judged;       /* bits: the invariants that were judged */
	uint64_t steps;
	uint64_t digest; /* of all events */
};

/* Before the first run. */
void schedule_init(void);
/* Prints nothing. aloud: prints every note. */
struct verdict schedule_run(uint64_t seed, bool aloud);
/*
 * Prints the violation of the last schedule and its last notes. `why` is not NULL if a signal
 * handler calls it, because the schedule does not return.
 */
void schedule_print(const char *why);

#endif
