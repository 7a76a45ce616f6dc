/*
 * The proof of the simulation itself: each deliberate fault of daemon/base/fault.h is put into the
 * engine in turn, and schedules run until it is found. `sim-faults table [FROM]` says how many that
 * took, from that seed on; `sim-faults -v FAULT` shows one and its trace; without arguments it is a
 * test and says TAP.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "tests/sim/queues.h"
#include "tests/sim/schedule.h"

#define SEEDS_MOST 10000
/* A schedule of an engine with a fault may not come to an end at all. */
#define SECONDS_MOST 20

#define FAULT_ROW(name, words) {#name, words},
static const struct {
	const char *name, *words;
} rows[] = {FAULTS(FAULT_ROW)};
#undef FAULT_ROW

enum fault fault_active = FAULT_NONE;

/* The data that a child with a planted fault left when it died or ended. */
struct found {
	uint64_t seed;
	char violation[200];
};

static void
find(enum fault fault, uint64_t from, struct found *found, int trace)
{
	fault_active = fault;
	for (found->seed = from; found->seed < from + SEEDS_MOST; found->seed++) {
		struct verdict verdict;

		alarm(SECONDS_MOST);
		verdict = schedule_run(found->seed, false);
		if (verdict.violation[0] == '\0')
			continue;
		snprintf(found->violation, sizeof(found->violation), "%s%.*u%s%s",
		    verdict.number != 0 ? "invariant " : "", verdict.number != 0, verdict.number,
		    verdict.number != 0 ? ": " : "", verdict.violation);
		if (trace)
			schedule_print(NULL);
		_exit(EXIT_FAILURE);
	}
	_exit(EXIT_SUCCESS);
}

/* Runs in a process of its own: an assertion of the engine is as good as an invariant. */
static int
is_found(enum fault fault, uint64_t from, struct found *found, int trace)
{
	pid_t child;
	int status;

	memset(found, 0, sizeof(*found));
	fflush(stdout);
	child = fork();
	if (child == 0)
		find(fault, from, found, trace);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 0;
	if (WIFSIGNALED(status))
		snprintf(found->violation, sizeof(found->violation), "signal: %s",
		    strsignal(WTERMSIG(status)));
	return !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
	struct found *found =
	    mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *only = argc == 3 && strcmp(argv[1], "-v") == 0 ? argv[2] : NULL;
	const char *comment = argc == 1 ? "# " : "";
	uint64_t from = argc == 3 && only == NULL ? strtoull(argv[2], NULL, 10) : 1;
	int count = 0, all = 0;

	if (found == MAP_FAILED)
		return EXIT_FAILURE;
	queues_init();
	for (int fault = 0; fault < (int)FAULT_NONE; fault++) {
		int is;

		if (only != NULL && strcmp(only, rows[fault].name) != 0)
			continue;
		all++;
		is = is_found((enum fault)fault, from, found, only != NULL);
		count += is;
		if (argc == 1)
			printf("%sok %d - %s\n", is ? "" : "not ", all, rows[fault].words);
		if (is)
			printf("%s%-64s %6" PRIu64 "  %s\n", comment, rows[fault].words,
			    found->seed - from + 1, found->violation);
		else
			printf("%s%-64s  never\n", comment, rows[fault].words);
	}
	if (argc == 1)
		printf("1..%d\n", all);
	printf("%ssim-faults: %d of %d found\n", comment, count, all);
	return count == all ? EXIT_SUCCESS : EXIT_FAILURE;
}
