/*
 * The common part of every unit test program: it runs suites and prints TAP.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

/* Without a process for each test (CK_FORK=no), Check has no timeout. This one is for all tests. */
#define UNIT_SECONDS_MOST 600

/* Runs the suites in order. Returns the exit status of main(): whether all tests passed. */
static inline int
unit_run(Suite *(*const makers[])(void), size_t count)
{
	SRunner *runner = srunner_create(NULL);
	int failed;

	for (size_t i = 0; i < count; i++)
		srunner_add_suite(runner, makers[i]());
	srunner_set_tap(runner, "-");
	if (srunner_fork_status(runner) == CK_NOFORK)
		alarm(UNIT_SECONDS_MOST);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
