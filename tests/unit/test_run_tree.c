/*
 * How `run` starts its command. The linker replaces prctl(). A child that asks for a signal at its
 * parent's death then finds that the parent is dead already.
 */
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/run_tree.h"
#include "tests/unit/unit.h"

int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);

static bool parent_dies; /* before the child has asked */

int
__wrap_prctl(int option, ...)
{
	pid_t parent = getppid();
	unsigned long value;
	va_list args;

	va_start(args, option);
	value = va_arg(args, unsigned long);
	va_end(args);
	if (option == PR_SET_PDEATHSIG && parent_dies) {
		kill(parent, SIGKILL);
		while (getppid() == parent)
			sched_yield();
	}
	return __real_prctl(option, value);
}

/* Starts a command that writes a byte to the pipe. Returns the bytes read until its end. */
static ssize_t
started(void)
{
	char *argv[] = {"/bin/sh", "-c", "echo", NULL};
	char bytes[8];
	int ends[2];
	ssize_t got;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct signals signals;
		pid_t child;

		close(ends[0]);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[1]);
		if (!signals_hold(&signals) || (child = tree_start(argv, &signals)) < 0)
			_exit(1);
		_exit(waitpid(child, NULL, 0) == child ? 0 : 1);
	}
	close(ends[1]);
	/* The end of the file is the end of both. */
	got = read(ends[0], bytes, sizeof(bytes));
	ck_assert_int_le(read(ends[0], bytes, sizeof(bytes)), 0);
	close(ends[0]);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	return got;
}

START_TEST(a_command_is_started)
{
	parent_dies = false;
	ck_assert_int_eq(started(), 1);
}
END_TEST

/* Its slot is free by then, and no signal will come: PR_SET_PDEATHSIG was asked for too late. */
START_TEST(a_command_whose_parent_died_first_is_not_started)
{
	parent_dies = true;
	ck_assert_int_eq(started(), 0);
}
END_TEST

static Suite *
run_tree_suite(void)
{
	Suite *suite = suite_create("run_tree");
	TCase *tcase = tcase_create("start");

	tcase_add_test(tcase, a_command_is_started);
	tcase_add_test(tcase, a_command_whose_parent_died_first_is_not_started);
	suite_add_tcase(suite, tcase);
	return suite;
}

int
main(void)
{
	Suite *(*const makers[])(void) = {run_tree_suite};

	return unit_run(makers, 1);
}
