/*
 * The simulation's program: `sim [[-v] FROM SEEDS]` runs schedules and says how it went; -v: and
 * all that happens. Without numbers it is a test, as long as a test may take, and says TAP.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/schedule.h"

/* Schedules of one run of `make check`. */
#define SEEDS_OF_A_TEST 300
#define REPLAYS 100

static void
on_signal(int signal_number)
{
	(void)signal_number;
	schedule_print("it ended in a signal: see the assertion above");
	_exit(1);
}

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int
say(uint64_t seeds, uint64_t steps, uint64_t violations, double took)
{
	printf("sim: %" PRIu64 " schedules, %" PRIu64 " steps, %" PRIu64
	       " violations, %.0f schedules/s\n",
	    seeds, steps, violations, (double)seeds / took);
	return violations == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Runs them, and says what went wrong. */
static int
run(uint64_t from, uint64_t seeds, bool aloud)
{
	uint64_t steps = 0, violations = 0;
	double began = seconds();

	for (uint64_t seed = from; seed < from + seeds; seed++) {
		struct verdict verdict = schedule_run(seed, aloud);

		steps += verdict.steps;
		if (verdict.violation[0] == '\0')
			continue;
		violations++;
		schedule_print(NULL);
	}
	return say(seeds, steps, violations, seconds() - began);
}

/* Whether schedules are the same when they are run again, after others. */
static bool
replays(void)
{
	uint64_t digests[REPLAYS];

	for (uint64_t i = 0; i < REPLAYS; i++)
		digests[i] = schedule_run(1 + i, false).digest;
	for (uint64_t i = REPLAYS; i-- > 0;) {
		if (schedule_run(1 + i, false).digest != digests[i])
			return false;
	}
	return true;
}

static int
test(void)
{
	bool same = replays(), right;

	printf("1..2\n%sok 1 - a seed replays exactly\n# ", same ? "" : "not ");
	right = run(1, SEEDS_OF_A_TEST, false) == EXIT_SUCCESS;
	printf("%sok 2 - no invariant is violated\n", right ? "" : "not ");
	return same && right ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
	bool aloud = argc > 1 && strcmp(argv[1], "-v") == 0;
	int numbers = aloud ? 2 : 1;

	signal(SIGABRT, on_signal);
	signal(SIGSEGV, on_signal);
	schedule_init();
	if (argc == 1)
		return test();
	if (argc == numbers + 2)
		return run(strtoull(argv[numbers], NULL, 10), strtoull(argv[numbers + 1], NULL, 10),
		    aloud);
	fputs("usage: sim [[-v] FROM SEEDS]\n", stderr);
	return 64;
}
