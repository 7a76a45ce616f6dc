/*
 * lockbroker run: a command under a lock. `run` is the process that the caller started. It waits
 * for the lock, and then starts the guard (run_guard.h). The guard starts COMMAND in the process
 * group of `run`, as flock(1) does, and has a session of its own. No process takes the terminal
 * from a living one.
 *
 *	event               run                        guard            COMMAND
 *	INT, QUIT, no lock  dies of it                 -                -
 *	Ctrl-C, Ctrl-\      dies of it if COMMAND did  -                gets it from the terminal
 *	Ctrl-Z, TTIN, TTOU  stops                      keeps the lock   gets it from the terminal
 *	fg, bg              continues                  -                continues, by the shell
 *	hangup, kill of run passes it on               passes it on     gets it, with its group
 *	loss                exits with 79              TERM, then KILL  ends, with all descendants
 *	eviction            -                          TERM, then KILL  ends, with all descendants
 *	KILL of run         -                          KILL             ends, with all descendants
 *	KILL of the guard   KILL                       -                ends, with all descendants
 *
 * The guard passes a key on if COMMAND has a process group of its own. In the background, or without
 * a terminal, keys reach no process of these three. A signal to the whole process group, as
 * `kill %1` sends it, comes to COMMAND twice. The rows of a loss and of an eviction are those of
 * --on-lost=kill.
 */
#include "client/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/private_daemon.h"
#include "client/process.h"
#include "client/run_guard.h"
#include "client/run_lease.h"
#include "client/run_tree.h"
#include "client/tool/output.h"
#include "client/tool/waiting.h"
#include "daemon/base/notify.h"

struct run {
	struct guard_task task; /* lb is owned; the rest is borrowed */
	struct private_daemon daemon;
	struct signals signals;
	bool passed_stop; /* COMMAND may be stopped alone, so it has to be continued */
	int terminal;     /* the controlling terminal; owned; -1: none */
	bool saved;       /* its modes are in `modes` */
	struct termios modes;
};

/* ---- the terminal ---- */

static bool
is_foreground(const struct run *run)
{
	return run->terminal >= 0 && tcgetpgrp(run->terminal) == getpgrp();
}

/* In the background the modes are those of somebody else. */
static void
save_terminal(struct run *run)
{
	run->terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	run->saved = is_foreground(run) && tcgetattr(run->terminal, &run->modes) == 0;
}

/* A shell that was COMMAND may have died with the foreground: then nobody has it. */
static void
restore_terminal(const struct run *run)
{
	pid_t owner = tcgetpgrp(run->terminal);

	if (owner > 0 && kill(-owner, 0) != 0 && errno == ESRCH)
		tcsetpgrp(run->terminal, getpgrp());
	if (is_foreground(run))
		(void)tcsetattr(run->terminal, TCSANOW, &run->modes);
}

/* ---- while the guard runs ---- */

/*
 * The terminal sends its signals to the whole group. Only a hangup comes to the leader of the
 * session alone. early: COMMAND may have been started after the signal. SIGCONT comes to the whole
 * group from the shell. True: this process was continued.
 */
static bool
pass_signals(struct run *run, int guard, bool early)
{
	bool terminal, continued = false;
	int signo;

	while ((signo = signals_next(&run->signals, &terminal)) != 0) {
		unsigned char byte = (unsigned char)signo;

		if (terminal && !early && signo != SIGHUP)
			byte |= GUARD_FROM_TERMINAL;
		if (signo != SIGCHLD && (signo != SIGCONT || run->passed_stop))
			(void)send(guard, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		continued |= signo == SIGCONT;
		if (signo == SIGCONT || signo == SIGTSTP)
			run->passed_stop = signo == SIGTSTP && !terminal;
		if (signo == SIGTSTP)
			signals_stop();
	}
	return continued;
}

/* As process 1 of a container, `run` gets orphans that are not the guard's. */
static void
reap(struct run *run)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == run->daemon.pid)
			run->daemon.pid = 0;
}

/* Until the guard has ended. False: it was killed. */
static bool
await_guard(struct run *run, int guard, struct guard_word *ret_end)
{
	struct pollfd fds[] = {
	    {.fd = run->signals.fd, .events = POLLIN}, {.fd = guard, .events = POLLIN}};

	(void)pass_signals(run, guard, true);
	for (;;) {
		bool continued;
		ssize_t got;

		(void)poll(fds, 2, -1);
		continued = pass_signals(run, guard, false);
		reap(run);
		while ((got = recv(guard, ret_end, sizeof(*ret_end), MSG_DONTWAIT)) > 0) {
			if (ret_end->kind == GUARD_END)
				return true;
			if (ret_end->kind != GUARD_STOPPED) {
				say_holding(run->task.name, ret_end->kind == GUARD_SILENT);
			} else if (!continued && process_is_stopped(ret_end->command)) {
				/*
				 * Else the shell has stopped and continued all since. The guard may be
				 * so slow that its word comes long after that.
				 */
				run->passed_stop = true;
				signals_stop();
			}
		}
		if (got == 0)
			return false;
	}
}

/* Returns the exit status, and notes a signal that this process is to die of. */
static int
run_guarded(struct run *run)
{
	struct guard_word end;
	int guard;

	save_terminal(run);
	if (!tree_adopt() || guard_start(&run->task, &guard) < 0)
		return EXIT_STATUS_INTERNAL;
	if (!await_guard(run, guard, &end)) {
		/* Its descendants are this process's now, which has the lock until they are gone. */
		say_in_passing(
		    "%s: the process that guards the command was killed", run->task.name);
		tree_end(0, &run->daemon.pid, &run->signals);
		end =
		    (struct guard_word){.status = EXIT_STATUS_SIGNAL + SIGKILL, .disturbed = true};
	}
	close(guard);
	if (end.disturbed && run->saved)
		restore_terminal(run);
	if ((end.signo == SIGINT || end.signo == SIGQUIT) && is_foreground(run))
		run->signals.deadly = end.signo;
	return end.status;
}

/* ---- before ---- */

/*
 * The locks of all runs around this command, as in "semaphore:nightly mutex:deploy". A persistent mutex is
 * a semaphore.
 */
#define HELD "LOCKBROKER_HELD"

/* The word for this lock in that list. The caller frees it; NULL: no memory. */
static char *
held_word(const struct run *run)
{
	const char *kind = run->task.options->kind == LB_MUTEX ? "mutex" : "semaphore";
	char *word;

	return asprintf(&word, "%s:%s", kind, run->task.name) >= 0 ? word : NULL;
}

static bool
add_to_held(const struct run *run)
{
	const char *outer = getenv(HELD);
	char *word = held_word(run), *all = NULL;
	bool ok = false;

	if (word != NULL && asprintf(&all, "%s%s%s", outer != NULL ? outer : "",
				outer != NULL ? " " : "", word) >= 0)
		ok = setenv(HELD, all, 1) == 0;
	free(word);
	free(all);
	return ok;
}

/* A number that an outer run has set is of another lock. */
static bool
set_fence(const struct lb_lock *lock)
{
	char fence[24];

	if (lb_lock_fence(lock) == 0)
		return unsetenv("LOCKBROKER_FENCE") == 0;
	snprintf(fence, sizeof(fence), "%" PRIu64, lb_lock_fence(lock));
	return setenv("LOCKBROKER_FENCE", fence, 1) == 0;
}

static bool
set_environment(const struct run *run)
{
	const char *path = lb_socket_path(run->task.lb);
	char slot[16] = "", whole[PATH_MAX];

	if (lb_lock_slot(run->task.lock) > 0)
		snprintf(slot, sizeof(slot), "%d", lb_lock_slot(run->task.lock));
	/* The child may go elsewhere. */
	if (realpath(path, whole) != NULL)
		path = whole;
	return setenv("LOCKBROKER_NAME", run->task.name, 1) == 0 &&
	       setenv("LOCKBROKER_SLOT", slot, 1) == 0 &&
	       setenv("LOCKBROKER_LOCK", lb_lock_id(run->task.lock), 1) == 0 &&
	       setenv("LOCKBROKER_SOCKET", path, 1) == 0 && set_fence(run->task.lock) &&
	       add_to_held(run);
}

/* Waiting for what an outer run holds may take for ever. False: --replace could evict that run. */
static bool
good_when_inside(const struct run *run)
{
	const char *at = getenv(HELD);
	char *word = held_word(run);
	size_t len = word != NULL ? strlen(word) : 0;
	bool replace = run->task.options->replace, good = true;

	while (word != NULL && at != NULL && *at != '\0' && run->task.options->wait_ms != 0) {
		size_t next = strcspn(at, " ");

		if (next == len && strncmp(at, word, len) == 0) {
			say("%s: this command runs under a lockbroker run that holds a slot of the "
			    "same lock%s",
			    run->task.name, replace ? ": with --replace it would end itself" : "");
			good = !replace;
			break;
		}
		at += next + (at[next] == ' ');
	}
	free(word);
	return good;
}

/* After the lock is granted, and before the guard has it. Returns an exit status; 0: go on. */
static int
prepare(struct run *run)
{
	status_line(run->task.options, "granted", lb_lock_json(run->task.lock));
	if (!run_lease_suffices(run->task.options, run->task.lock))
		return EXIT_STATUS_USAGE;
	say_holding(run->task.name, false);
	/*
	 * It may wait for room, so it is said while nothing runs yet that could have to be ended.
	 */
	notify_ready();
	if (run->task.options->verbose)
		say_in_passing("%s: granted after %.3f s", run->task.name,
		    (double)lb_lock_waited(run->task.lock) / 1000);
	if (!set_environment(run))
		return EXIT_STATUS_INTERNAL;
	/* Where the lock got lost on the way here, nothing is started. */
	if (lb_lock_state(run->task.lock) == LB_LOCK_LOST) {
		say("%s: lost before the command was started", run->task.name);
		return EXIT_STATUS_LOST;
	}
	return EXIT_STATUS_OK;
}

static int
run_locked(struct run *run)
{
	int status;

	if (!good_when_inside(run))
		return EXIT_STATUS_USAGE;
	status = waiting_acquire(run->task.lb, run->task.options, run->task.name,
	    basename(run->task.argv[0]), -1, &run->signals, &run->task.lock);
	if (run->task.lock == NULL)
		return status;
	status = prepare(run);
	return status == EXIT_STATUS_OK ? run_guarded(run) : status;
}

/* COMMAND and its arguments, or the shell with -c; NULL after telling what is wrong. */
static char **
choose_command(const struct tool_options *options, char *operands[], char *shell[4])
{
	char **command = operands + 1;

	if (*command != NULL && strcmp(*command, "--") == 0)
		command++;
	if (options->shell_command != NULL) {
		if (*command != NULL) {
			say("run: -c STRING and COMMAND exclude each other");
			return NULL;
		}
		shell[0] = "/bin/sh";
		shell[1] = "-c";
		shell[2] = (char *)options->shell_command;
		shell[3] = NULL;
		return shell;
	}
	if (*command == NULL) {
		say("run: missing COMMAND (see lockbroker run --help)");
		return NULL;
	}
	return command;
}

int
cmd_run(const struct tool_options *options, char *operands[])
{
	struct tool_options own = *options;
	struct run run = {
	    .task = {.options = &own, .name = operands[0], .signals = &run.signals},
	    .signals.fd = -1,
	    .terminal = -1,
	};
	int status = EXIT_STATUS_OK;
	char *shell[4], exit_json[32];

	run.task.argv = choose_command(options, operands, shell);
	if (run.task.argv == NULL)
		return EXIT_STATUS_USAGE;
	if (options_want_private(options))
		status = private_daemon_start(&run.daemon, &own, &run.signals);
	if (status != EXIT_STATUS_OK)
		return status;
	run.task.lb = lb_new();
	status = run.task.lb != NULL ? run_locked(&run)
				     : say_failure(NULL, LB_NO_MEMORY, options, run.task.name);
	snprintf(exit_json, sizeof(exit_json), "{\"status\":%d}", status);
	status_line(options, "exit", exit_json);
	lb_free(run.task.lb);
	private_daemon_stop(&run.daemon);
	return signals_exit(&run.signals, status);
}
