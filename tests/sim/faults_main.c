/*
 * The proof of the simulation itself: each deliberate fault of daemon/base/fault.h is put into the
 * engine in turn, and schedules run until it is found.
 *
 *	sim-faults known FILE BUDGET	a test, which says TAP. FILE has the seed that found each
 *					fault last. It is tried first, and then BUDGET others. A
 *					fault that none of them finds is skipped.
 *	sim-faults search FILE		also a test. It tries many seeds, skips nothing, and writes
 *					FILE anew.
 *	sim-faults table [FROM]		prints how many seeds each took, from that one on
 *	sim-faults -v FAULT		shows one and its trace
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "tests/sim/schedule.h"

#define SEEDS_MOST 20000
/* A schedule of an engine with a fault may not come to an end at all. */
#define SECONDS_MOST 20

#define FAULT_ROW(name, words) {#name, words},
static const struct {
	const char *name, *words;
} rows[] = {FAULTS(FAULT_ROW)};
#undef FAULT_ROW

enum fault fault_active = FAULT_NONE;

/* The search for a fault, by a child. */
struct search {
	pid_t child; /* 0: not started */
	bool is_over;
	int status; /* of the child */
	/* The data that the child left when it died or ended. */
	uint64_t seed;
	char violation[200];
};

static struct search *searches;             /* shared with the children */
static uint64_t last_seeds[FAULT_NONE + 1]; /* 0: unknown */
static uint64_t budget = SEEDS_MOST;
static bool may_skip;

/* Ends the process if that seed finds the fault. */
static void
try(struct search *found, uint64_t seed, bool trace)
{
	struct verdict verdict;

	found->seed = seed;
	alarm(SECONDS_MOST);
	verdict = schedule_run(seed, false);
	if (verdict.violation[0] == '\0')
		return;
	snprintf(found->violation, sizeof(found->violation), "%s%.*u%s%s",
	    verdict.number != 0 ? "invariant " : "", verdict.number != 0, verdict.number,
	    verdict.number != 0 ? ": " : "", verdict.violation);
	if (trace)
		schedule_print(NULL);
	_exit(EXIT_FAILURE);
}

static void
find(enum fault fault, uint64_t from, bool trace)
{
	fault_active = fault;
	if (last_seeds[fault] != 0)
		try(&searches[fault], last_seeds[fault], trace);
	for (uint64_t seed = from; seed < from + budget; seed++)
		try(&searches[fault], seed, trace);
	_exit(EXIT_SUCCESS);
}

/* In a process of its own: an assertion of the engine is as good as an invariant. */
static void
start(enum fault fault, uint64_t from, bool trace)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		find(fault, from, trace);
	if (child < 0) {
		perror("fork");
		exit(EXIT_FAILURE);
	}
	searches[fault].child = child;
}

/* Waits for a child to end. */
static void
wait_for_one(void)
{
	int status;
	pid_t child = wait(&status);

	for (int fault = 0; fault < (int)FAULT_NONE; fault++) {
		if (searches[fault].child == child) {
			searches[fault].is_over = true;
			searches[fault].status = status;
		}
	}
}

static bool
is_found(struct search *search)
{
	if (WIFSIGNALED(search->status))
		snprintf(search->violation, sizeof(search->violation), "signal: %s",
		    strsignal(WTERMSIG(search->status)));
	return !WIFEXITED(search->status) || WEXITSTATUS(search->status) != EXIT_SUCCESS;
}

/* comment: in front of a line that is not for a TAP reader. */
static bool
print(enum fault fault, int number, uint64_t from, const char *comment)
{
	struct search *search = &searches[fault];
	bool is = is_found(search);

	if (comment[0] != '\0')
		printf("%sok %d - %s%s\n", is || may_skip ? "" : "not ", number, rows[fault].words,
		    is || !may_skip ? "" : " # SKIP make sim-faults-search tries more seeds");
	if (is)
		printf("%s%-64s %6" PRIu64 "  %s\n", comment, rows[fault].words,
		    search->seed - from + 1, search->violation);
	else
		printf("%s%-64s  never\n", comment, rows[fault].words);
	return is;
}

/* As many at once as there are processors. Prints them in their order. Returns how many were found. */
static int
find_all(uint64_t from, const char *comment)
{
	long free_processors = sysconf(_SC_NPROCESSORS_ONLN);
	int printed = 0, count = 0;

	for (int fault = 0; fault < (int)FAULT_NONE; fault++) {
		if (free_processors > 0)
			free_processors--;
		else
			wait_for_one();
		start((enum fault)fault, from, false);
		for (; searches[printed].is_over; printed++)
			count += print((enum fault)printed, printed + 1, from, comment);
	}
	for (; printed < (int)FAULT_NONE; printed++) {
		while (!searches[printed].is_over)
			wait_for_one();
		count += print((enum fault)printed, printed + 1, from, comment);
	}
	return count;
}

/* Shows one, with its trace. Returns 1 if it was found. */
static int
find_one(const char *name)
{
	for (int fault = 0; fault < (int)FAULT_NONE; fault++) {
		if (strcmp(name, rows[fault].name) == 0) {
			start((enum fault)fault, 1, true);
			wait_for_one();
			return print((enum fault)fault, 1, 1, "");
		}
	}
	return 0;
}

/* Faults that are no more are passed over. */
static void
read_seeds(const char *path)
{
	FILE *file = fopen(path, "r");
	char name[64];
	uint64_t seed;

	if (file == NULL) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	while (fscanf(file, "%63s %" SCNu64, name, &seed) == 2) {
		for (int fault = 0; fault < (int)FAULT_NONE; fault++) {
			if (strcmp(name, rows[fault].name) == 0)
				last_seeds[fault] = seed;
		}
	}
	fclose(file);
}

static void
write_seeds(const char *path)
{
	FILE *file = fopen(path, "w");

	if (file == NULL) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	for (int fault = 0; fault < (int)FAULT_NONE; fault++) {
		if (is_found(&searches[fault]))
			fprintf(file, "%s %" PRIu64 "\n", rows[fault].name, searches[fault].seed);
	}
	fclose(file);
}

int
main(int argc, char **argv)
{
	bool one = argc == 3 && strcmp(argv[1], "-v") == 0;
	bool known = argc == 4 && strcmp(argv[1], "known") == 0;
	bool search = argc == 3 && strcmp(argv[1], "search") == 0;
	const char *comment = known || search ? "# " : "";
	int count, all = one ? 1 : (int)FAULT_NONE;

	if (known || search)
		read_seeds(argv[2]);
	if (known) {
		budget = strtoull(argv[3], NULL, 10);
		may_skip = true;
	}
	searches = mmap(NULL, FAULT_NONE * sizeof(*searches), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (searches == MAP_FAILED)
		return EXIT_FAILURE;
	schedule_init();
	count = one ? find_one(argv[2])
		    : find_all(argc == 3 && !search ? strtoull(argv[2], NULL, 10) : 1, comment);
	if (search)
		write_seeds(argv[2]);
	if (known || search)
		printf("1..%d\n", all);
	printf("%ssim-faults: %d of %d found\n", comment, count, all);
	return count == all || may_skip ? EXIT_SUCCESS : EXIT_FAILURE;
}
