/*
 * The simulation's program: `sim [[-v] FROM SEEDS]` runs schedules and says how it went; -v: and
 * all that happens. Without numbers it is a test, as long as a test may take, and says TAP. A table
 * at the end has the number of schedules in which each invariant was judged: troubles may excuse one.
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

/* The invariants of docs/ARCHITECTURE.md that the simulation judges. */
static const struct {
	unsigned number;
	const char *name;
} invariants[] = {
    {1, "reservation"},
    {2, "grant"},
    {3, "one answer"},
    {4, "one end"},
    {5, "revoked"},
    {6, "released"},
    {7, "lease"},
    {8, "numbers"},
    {10, "servers that delete by name"},
    {11, "administration mutex"},
    {12, "administration"},
    {13, "gone holders"},
    {14, "holds without a slot"},
    {15, "hints"},
    {16, "waiting"},
    {17, "hand-off"},
    {18, "order"},
    {19, "channels"},
    {21, "ways"},
    {22, "one believer by quorum"},
    {23, "fences"},
    {24, "no grace after a proved end"},
    {25, "slots by quorum that can be acquired"},
};
#define INVARIANTS (sizeof(invariants) / sizeof(invariants[0]))

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

static void
say_judged(const uint64_t *judged, uint64_t seeds, const char *comment)
{
	for (size_t i = 0; i < INVARIANTS; i++)
		printf("%ssim: invariant %2u (%s) was judged in %" PRIu64 " of %" PRIu64
		       " schedules\n",
		    comment, invariants[i].number, invariants[i].name, judged[i], seeds);
}

/* Runs them, and says what went wrong. comment: in front of lines that are not for a TAP reader. */
static int
run(uint64_t from, uint64_t seeds, bool aloud, const char *comment)
{
	uint64_t steps = 0, violations = 0, judged[INVARIANTS] = {0};
	double began = seconds();

	for (uint64_t seed = from; seed < from + seeds; seed++) {
		struct verdict verdict = schedule_run(seed, aloud);

		steps += verdict.steps;
		for (size_t i = 0; i < INVARIANTS; i++)
			judged[i] += verdict.judged >> invariants[i].number & 1;
		if (verdict.violation[0] == '\0')
			continue;
		violations++;
		schedule_print(NULL);
	}
	say_judged(judged, seeds, comment);
	printf("%s", comment);
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

	printf("1..2\n%sok 1 - a seed replays exactly\n", same ? "" : "not ");
	right = run(1, SEEDS_OF_A_TEST, false, "# ") == EXIT_SUCCESS;
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
		    aloud, "");
	fputs("usage: sim [[-v] FROM SEEDS]\n", stderr);
	return 64;
}
