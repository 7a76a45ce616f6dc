/*
 * lockbroker run: a command under a lock. `run` is the process that the caller started. It waits
 * for the lock, and then starts the guard (run_guard.h). The guard starts COMMAND in the process
 * group of `run`, as flock(1) does, and has a session of its own. No process moves the terminal.
 *
 *	event               run                        guard            COMMAND
 *	INT, QUIT, no lock  dies of it                 -                -
 *	Ctrl-C, Ctrl-\      dies of it if COMMAND did  -                gets it from the terminal
 *	Ctrl-Z, TTIN, TTOU  stops                      keeps the lock   gets it from the terminal
 *	fg, bg              continues                  -                continues, by the shell
 *	hangup, kill of run passes it on               passes it on     gets it, with its group
 *	loss                exits with 79              TERM, then KILL  ends, with all descendants
 *	KILL of run         -                          KILL             ends, with all descendants
 *	KILL of the guard   KILL                       -                ends, with all descendants
 *
 * In the background, or without a terminal, the keys reach no process of these three. A signal to
 * the whole process group, as `kill %1` sends it, comes to COMMAND twice.
 */
#include "client/commands.h"

#include <fcntl.h>
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
#include "client/run_guard.h"
#include "client/run_lease.h"
#include "client/run_tree.h"
#include "client/tool/output.h"
#include "client/tool/waiting.h"
#include "daemon/base/notify.h"

/* Bytes of the command line that others can read; the wire takes 256. */
#define WORDS_SIZE 256
#define RELEASE_TIMEOUT_MS 5000

struct run {
	const struct options *options; /* borrowed */
	const char *name;              /* borrowed */
	char **argv;                   /* borrowed; COMMAND */
	struct private_daemon daemon;
	struct lb *lb;        /* owned */
	struct lb_lock *lock; /* the handle's */
	struct signals signals;
	int terminal; /* the controlling terminal; owned; -1: none */
	bool saved;   /* its modes are in `modes` */
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

/* ---- while the guard runs ---- */

/*
 * The terminal sends its signals to the whole group, so COMMAND has them already. Only a hangup
 * comes to the leader of the session alone. early: COMMAND may have been started after the signal.
 */
static void
pass_signals(struct run *run, int guard, bool early)
{
	unsigned char byte;
	bool terminal;
	int signo;

	while ((signo = signals_next(&run->signals, &terminal)) != 0) {
		byte = (unsigned char)signo;
		if (signo != SIGCHLD && (!terminal || signo == SIGHUP || early))
			(void)send(guard, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (signo == SIGTSTP)
			signals_stop();
	}
}

/* Until the guard has ended. False: it was killed. */
static bool
await_guard(struct run *run, int guard, struct guard_word *ret_end)
{
	struct pollfd fds[] = {
	    {.fd = run->signals.fd, .events = POLLIN}, {.fd = guard, .events = POLLIN}};

	pass_signals(run, guard, true);
	for (;;) {
		ssize_t got;

		(void)poll(fds, 2, -1);
		pass_signals(run, guard, false);
		got = recv(guard, ret_end, sizeof(*ret_end), MSG_DONTWAIT);
		if (got == (ssize_t)sizeof(*ret_end) && ret_end->kind == GUARD_END)
			return true;
		if (got == (ssize_t)sizeof(*ret_end))
			say_holding(run->name, ret_end->kind == GUARD_SILENT);
		else if (got == 0)
			return false;
	}
}

/*
 * The guard was killed, and its descendants have become this process's. The lock is kept until they
 * are gone.
 */
static int
end_for_guard(struct run *run)
{
	struct pollfd child = {.fd = run->signals.fd, .events = POLLIN};
	pid_t foreign;
	bool terminal;

	say_in_passing("%s: the process that guards the command was killed", run->name);
	while (tree_kill(run->daemon.pid, &foreign) > 0) {
		(void)poll(&child, 1, -1);
		while (signals_next(&run->signals, &terminal) != 0)
			continue;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			continue;
	}
	return EXIT_STATUS_SIGNAL + SIGKILL;
}

/* Returns the exit status, and notes a signal that this process is to die of. */
static int
run_guarded(struct run *run)
{
	const struct guard_task task = {
	    .options = run->options,
	    .name = run->name,
	    .argv = run->argv,
	    .lb = run->lb,
	    .lock = run->lock,
	    .signals = &run->signals,
	};
	struct guard_word end;
	int guard, status;
	pid_t pid;

	save_terminal(run);
	if (!tree_adopt() || (pid = guard_start(&task, &guard)) < 0)
		return EXIT_STATUS_INTERNAL;
	if (await_guard(run, guard, &end)) {
		status = end.status;
	} else {
		end = (struct guard_word){.disturbed = true};
		status = end_for_guard(run);
	}
	close(guard);
	(void)waitpid(pid, NULL, 0);
	if (!is_foreground(run))
		return status;
	if (end.disturbed && run->saved)
		(void)tcsetattr(run->terminal, TCSANOW, &run->modes);
	if (end.signo == SIGINT || end.signo == SIGQUIT)
		run->signals.deadly = end.signo;
	return status;
}

/* ---- before ---- */

static bool
set_environment(const struct run *run)
{
	const char *path = lb_socket_path(run->lb);
	char slot[16] = "", whole[PATH_MAX];

	if (lb_lock_slot(run->lock) > 0)
		snprintf(slot, sizeof(slot), "%d", lb_lock_slot(run->lock));
	/* The child may go elsewhere. */
	if (realpath(path, whole) != NULL)
		path = whole;
	return setenv("LOCKBROKER_NAME", run->name, 1) == 0 &&
	       setenv("LOCKBROKER_SLOT", slot, 1) == 0 &&
	       setenv("LOCKBROKER_LOCK", lb_lock_id(run->lock), 1) == 0 &&
	       setenv("LOCKBROKER_SOCKET", path, 1) == 0;
}

/* The command line as one text, cut to what the wire takes. */
static void
join_words(char *const argv[], char words[WORDS_SIZE])
{
	size_t len = 0;

	for (size_t i = 0; argv[i] != NULL && len < WORDS_SIZE - 1; i++) {
		const char *space = i > 0 ? " " : "";

		len += (size_t)snprintf(words + len, WORDS_SIZE - len, "%s%s", space, argv[i]);
	}
	/* Plain ASCII: cut anywhere, it is whole, and no byte grows on its way. */
	for (char *byte = words; *byte != '\0'; byte++)
		if (*byte < ' ' || *byte > '~')
			*byte = '?';
}

/* Waiting for what the outer run holds may take for ever. */
static void
warn_when_inside(const struct run *run)
{
	const char *outer = getenv("LOCKBROKER_NAME");

	if (outer != NULL && strcmp(outer, run->name) == 0 && run->options->wait_ms != 0)
		say("%s: this command runs under a lockbroker run that holds a slot of the same "
		    "lock",
		    run->name);
}

/* After the lock is granted, and before the guard has it. Returns an exit status; 0: go on. */
static int
prepare(struct run *run)
{
	status_line(run->options, "granted", lb_lock_json(run->lock));
	if (!run_lease_suffices(run->options, run->lock)) {
		(void)lb_release(run->lock, RELEASE_TIMEOUT_MS);
		return EXIT_STATUS_USAGE;
	}
	say_holding(run->name, false);
	/*
	 * It may wait for room, so it is said while nothing runs yet that could have to be ended.
	 */
	notify_ready();
	if (run->options->verbose)
		say_in_passing("%s: granted after %.3f s", run->name,
		    (double)lb_lock_waited(run->lock) / 1000);
	if (!set_environment(run))
		return EXIT_STATUS_INTERNAL;
	/* Where the lock got lost on the way here, nothing is started. */
	if (lb_lock_state(run->lock) == LB_LOCK_LOST) {
		say("%s: lost before the command was started", run->name);
		return EXIT_STATUS_LOST;
	}
	return EXIT_STATUS_OK;
}

static int
run_locked(struct run *run)
{
	char words[WORDS_SIZE];
	int status;

	join_words(run->argv, words);
	warn_when_inside(run);
	status =
	    waiting_acquire(run->lb, run->options, run->name, words, -1, &run->signals, &run->lock);
	if (run->lock == NULL)
		return status;
	status = prepare(run);
	return status == EXIT_STATUS_OK ? run_guarded(run) : status;
}

/* COMMAND and its arguments, or the shell with -c; NULL after telling what is wrong. */
static char **
choose_command(const struct options *options, char *operands[], char *shell[4])
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
cmd_run(const struct options *options, char *operands[])
{
	struct options own = *options;
	struct run run = {.options = &own, .name = operands[0], .signals.fd = -1, .terminal = -1};
	int status = EXIT_STATUS_OK;
	char *shell[4], exit_json[32];

	run.argv = choose_command(options, operands, shell);
	if (run.argv == NULL)
		return EXIT_STATUS_USAGE;
	if (options->broker_file != NULL || options->broker_env != NULL)
		status = private_daemon_start(&run.daemon, &own, &run.signals);
	if (status != EXIT_STATUS_OK)
		return status;
	run.lb = lb_new();
	status =
	    run.lb != NULL ? run_locked(&run) : say_failure(NULL, LB_NO_MEMORY, options, run.name);
	snprintf(exit_json, sizeof(exit_json), "{\"status\":%d}", status);
	status_line(options, "exit", exit_json);
	lb_free(run.lb);
	private_daemon_stop(&run.daemon);
	return signals_exit(&run.signals, status);
}
