#include "client/run_child.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/tool/output.h"

/* ---- starting ---- */

/*
 * Whether there is such a program, if one that cannot be executed. execvp(3) says EACCES also when
 * a folder of $PATH cannot be searched, where a shell goes on and says "not found".
 */
static bool
exists(const char *name)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	if (path == NULL || strchr(name, '/') != NULL)
		return true;
	for (const char *end; *path != '\0'; path = *end == ':' ? end + 1 : end) {
		end = strchrnul(path, ':');
		snprintf(file, sizeof(file), "%.*s/%s", (int)(end - path), path, name);
		if (access(file, F_OK) == 0)
			return true;
	}
	return false;
}

/* In the child: never returns. */
static _Noreturn void
become(char *argv[], pid_t parent, const struct signals *signals)
{
	int error;

	/* A parent that died before the prctl would be missed: then somebody else is the parent. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(EXIT_STATUS_INTERNAL);
	signals_restore(signals);
	execvp(argv[0], argv);
	error = errno;
	if (error == EACCES && !exists(argv[0]))
		error = ENOENT;
	say("%s: %s", argv[0], strerror(error));
	_exit(error == ENOENT ? EXIT_STATUS_NOT_FOUND : EXIT_STATUS_NOT_EXECUTABLE);
}

/* The terminal is ours to give when we have its foreground and are not a part of a pipeline. */
static bool
has_terminal(void)
{
	return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 &&
	       tcgetpgrp(STDIN_FILENO) == getpgrp();
}

bool
child_start(struct child *child, char *argv[], bool foreground, const struct signals *signals)
{
	pid_t parent = getpid();

	*child =
	    (struct child){.own_group = !foreground, .terminal = !foreground && has_terminal()};
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
		say("prctl: %m");
		return false;
	}
	child->pid = fork();
	if (child->pid < 0) {
		say("fork: %m");
		return false;
	}
	/* Parent and child both call it, so the order does not matter. */
	if (child->own_group)
		setpgid(child->pid, child->pid);
	if (child->pid > 0)
		return true;
	if (child->terminal)
		tcsetpgrp(STDIN_FILENO, getpgrp());
	become(argv, parent, signals);
}

void
child_shell(const char *string, const struct signals *signals)
{
	char *argv[] = {"/bin/sh", "-c", (char *)string, NULL};
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0) {
		say_in_passing("fork: %m");
		return;
	}
	setpgid(pid, pid);
	if (pid == 0)
		become(argv, parent, signals);
}

/* ---- signals ---- */

/*
 * Signals all children, adopted orphans included, except the group `except`. /proc names the
 * children. Without it (hidepid, a chroot) the signal reaches only the group.
 */
static void
signal_children(int signo, pid_t except)
{
	FILE *file = fopen("/proc/thread-self/children", "re");
	int pid;

	if (file == NULL)
		return;
	while (fscanf(file, "%d", &pid) == 1)
		if (except == 0 || getpgid(pid) != except)
			kill(pid, signo);
	fclose(file);
}

/* The group's number is safe to use only while the child that leads it is not reaped. */
static void
signal_group(const struct child *child, int signo)
{
	if (child->pid != 0)
		kill(child->own_group ? -child->pid : child->pid, signo);
}

static void
signal_outside(const struct child *child, int signo)
{
	signal_children(signo, child->own_group ? child->pid : 0);
}

/*
 * Reaped, or a zombie that is not reaped yet: its orphans have become our children before it was
 * one.
 */
static bool
has_ended(const struct child *child)
{
	siginfo_t info = {.si_pid = 0};

	return child->pid == 0 ||
	       (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		   info.si_pid != 0);
}

void
child_signal(const struct child *child, int signo)
{
	signal_group(child, signo);
	/* Looked at after that: a child that lives now has had the signal alive. */
	if (has_ended(child))
		signal_outside(child, signo);
}

void
child_signal_all(const struct child *child, int signo)
{
	signal_group(child, signo);
	signal_outside(child, signo);
}

/* ---- the end ---- */

int
child_left_behind(const struct child *child)
{
	FILE *file = fopen("/proc/thread-self/children", "re");
	int pid, count = 0;

	if (file == NULL)
		return 0;
	while (fscanf(file, "%d", &pid) == 1)
		count += pid != child->pid;
	fclose(file);
	return count;
}

static bool
is_job_control(int signo)
{
	return signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
}

enum child_news
child_reap(struct child *child)
{
	enum child_news news = CHILD_NOTHING;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != child->pid)
			continue;
		if (WIFSTOPPED(status)) {
			/*
			 * A plain SIGSTOP is between the child and who sent it: we go on watching.
			 */
			if (is_job_control(WSTOPSIG(status)))
				news = CHILD_STOPPED;
			continue;
		}
		child->pid = 0;
		child->status = WIFSIGNALED(status) ? EXIT_STATUS_SIGNAL + WTERMSIG(status)
						    : WEXITSTATUS(status);
	}
	return pid < 0 && errno == ECHILD ? CHILD_ALL_GONE : news;
}

void
child_stop_with(struct child *child)
{
	if (child->terminal)
		tcsetpgrp(STDIN_FILENO, getpgrp());
	kill(getpid(), SIGSTOP);
}

void
child_go_on(struct child *child)
{
	/* In the foreground by fg, or in the background by bg. */
	if (child->terminal && tcgetpgrp(STDIN_FILENO) == getpgrp())
		tcsetpgrp(STDIN_FILENO, child->pid);
	child_signal(child, SIGCONT);
}

void
child_done(struct child *child)
{
	if (child->terminal)
		tcsetpgrp(STDIN_FILENO, getpgrp());
}
