/*
 * lockbroker acquire: holds a lock for a program that cannot be its child. With --for-pid it forks, and the
 * child holds the lock in the background.
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
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/process.h"
#include "client/tool/output.h"
#include "client/tool/waiting.h"
#include "client/tool/watch.h"
#include "daemon/base/notify.h"

#define RELEASE_TIMEOUT_MS 5000

enum { GOING_ON = -1 };

/* As ssh-agent(1) -s: for any shell, and for what it starts. */
static void
print_assignment(const char *variable, const char *text, const char *end)
{
	printf("%s='", variable);
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	}
	printf("'; export %s;%s", variable, end);
}

/* On one line, so that a script that goes on reading knows when it has all. */
static void
print_assignments(const struct lb *lb, const struct lb_lock *lock)
{
	const char *path = lb_socket_path(lb);
	char slot[16] = "", fence[24], whole[PATH_MAX];

	if (lb_lock_slot(lock) > 0)
		snprintf(slot, sizeof(slot), "%d", lb_lock_slot(lock));
	/* The shell may go elsewhere. */
	if (path[0] != '/' && realpath(path, whole) != NULL)
		path = whole;
	print_assignment("LOCKBROKER_NAME", lb_lock_name(lock), " ");
	print_assignment("LOCKBROKER_SLOT", slot, " ");
	print_assignment("LOCKBROKER_LOCK", lb_lock_id(lock), " ");
	snprintf(fence, sizeof(fence), "%" PRIu64, lb_lock_fence(lock));
	if (lb_lock_fence(lock) != 0)
		print_assignment("LOCKBROKER_FENCE", fence, " ");
	else /* the shell may have that of another lock */
		printf("unset LOCKBROKER_FENCE; ");
	print_assignment("LOCKBROKER_SOCKET", path, "\n");
}

static void
print_grant(const struct lb *lb, const struct lb_lock *lock, const struct tool_options *options)
{
	/* A script that is run by hand has its user's terminal, and reads nothing from it. */
	bool unread = options->for_pid != 0 && !options->json && isatty(STDOUT_FILENO);

	if (options->shell)
		print_assignments(lb, lock);
	else if (!options->quiet && !unread)
		print_json(lb_lock_json(lock));
}

/* Handles the daemon's events. Returns an exit status, or GOING_ON. */
static int
heed(struct lb *lb, const struct tool_options *options, const char *name)
{
	const struct lb_event *event;

	while ((event = lb_event_next(lb)) != NULL) {
		bool silent = event->type == LB_EVENT_SUSPECT;

		if (event->type == LB_EVENT_LOST && event->lock != NULL) {
			say_lost(name, event);
			return EXIT_STATUS_LOST;
		}
		if (event->type == LB_EVENT_DRAINING) {
			say_in_passing("%s: lockbrokerd is stopping", name);
			return EXIT_STATUS_UNREACHABLE;
		}
		if (event->type == LB_EVENT_EVICTED)
			say_evicted(name, event, "");
		if (event->type == LB_EVENT_REVOKED)
			say_in_passing(
			    "%s: the slot was removed, and is kept until the lock is released",
			    name);
		if (!silent && event->type != LB_EVENT_RESTORED)
			continue;
		say_holding(name, silent);
		if (options->verbose)
			say("%s: the broker %s", name,
			    silent ? "does not answer" : "answers again");
	}
	return GOING_ON;
}

static bool
asked_to_end(const struct signals *signals)
{
	bool terminal;
	int signo;

	while ((signo = signals_next(signals, &terminal)) != 0) {
		if (signal_ends(signo))
			return true;
		if (signo == SIGTSTP)
			signals_stop();
	}
	return false;
}

/* Reads away what came. True at the end. */
static bool
input_ended(void)
{
	char bytes[4096];
	ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));

	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/*
 * The reason why the end of standard input cannot release the lock, or NULL. NULL: standard input
 * is an open pipe, socket or terminal. Any other input ends at once, or never.
 */
static const char *
why_input_holds_nothing(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	int flags = fcntl(STDIN_FILENO, F_GETFL), unread = 0;
	struct stat status;

	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || fstat(STDIN_FILENO, &status) != 0)
		return "is not open for reading";
	if (S_ISREG(status.st_mode))
		return "is a file";
	if (S_ISDIR(status.st_mode))
		return "is a directory";
	if (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3))
		return "is /dev/null";
	if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode) && isatty(STDIN_FILENO) != 1)
		return "is a device";
	if (poll(&input, 1, 0) == 1 && (ioctl(STDIN_FILENO, FIONREAD, &unread) != 0 || unread == 0))
		return "has ended already";
	return NULL;
}

/* A service's stdin is /dev/null, which ends at once: there only signals end the hold. */
static bool
is_service(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

/* Until stdin ends, a signal, or the end of the hold. */
static int
hold(struct lb *lb, const struct tool_options *options, const char *name,
    const struct signals *signals)
{
	bool service = is_service();
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	const struct watch watch = {
	    .lb = lb, .signals = signals, .input = service ? -1 : STDIN_FILENO};
	int status = heed(lb, options, name);

	/* It may have ended while the lock was waited for. */
	if (!service && poll(&input, 1, 0) == 1 && input_ended()) {
		say("%s: standard input has ended: the lock is released at once", name);
		return status == GOING_ON ? EXIT_STATUS_OK : status;
	}
	while (status == GOING_ON) {
		bool readable = watch_sleep(&watch, WATCH_NEVER);

		status = heed(lb, options, name);
		if (status == GOING_ON && (asked_to_end(signals) || (readable && input_ended())))
			status = EXIT_STATUS_OK;
	}
	return status;
}

static int
hold_and_release(struct lb *lb, struct lb_lock *lock, const struct tool_options *options,
    const struct signals *signals)
{
	const char *name = lb_lock_name(lock);
	int status = EXIT_STATUS_IO, code;

	say_holding(name, false);
	notify_ready();
	print_grant(lb, lock, options);
	/* Where nobody could be told nobody needs it. */
	if (print_done())
		status = hold(lb, options, name, signals);
	if (status == EXIT_STATUS_LOST)
		return status;
	code = lb_release(lock, RELEASE_TIMEOUT_MS);
	return code == LB_OK ? status : say_failure(lb, code, options, name);
}

/* ---- --for-pid ---- */

/* Bytes of a process's name (comm in proc(5)). */
#define NAME_SIZE 32
/* The only descriptor that the child keeps, besides the standard ones: where it says that the lock is held. */
#define NEWS_FD 3

struct holder {
	const struct tool_options *options; /* borrowed */
	const char *name;                   /* borrowed */
	int process;                        /* a pidfd; owned */
	bool told;                          /* the process got its signal */
};

/* A stopped process cannot handle TERM, so it is continued. */
static void
signal_process(struct holder *holder)
{
	if (holder->told || holder->options->lost_signal == 0)
		return;
	holder->told = true;
	if (pidfd_send_signal(holder->process, holder->options->lost_signal, NULL, 0) != 0)
		say_in_passing(
		    "%s: process %d was not signalled: %m", holder->name, holder->options->for_pid);
	(void)pidfd_send_signal(holder->process, SIGCONT, NULL, 0);
}

/*
 * Until the process ends, `lockbroker release` sends SIGUSR1, or the lock is lost. Other signals do nothing:
 * those to a whole control group would release the lock while the process still ends. True: it was lost.
 */
static bool
hold_for_process(struct lb *lb, struct holder *holder, const struct signals *signals)
{
	const struct watch watch = {.lb = lb, .signals = signals, .input = holder->process};
	bool terminal;
	int signo;

	for (;;) {
		int status = heed(lb, holder->options, holder->name);

		if (status != GOING_ON)
			signal_process(holder);
		if (status == EXIT_STATUS_LOST)
			return true;
		while ((signo = signals_next(signals, &terminal)) != 0)
			if (signo == SIGUSR1)
				return false;
		if (watch_sleep(&watch, WATCH_NEVER))
			return false;
	}
}

/* Whether stderr is that of the process, and so is not kept open for longer. */
static bool
shares_stderr(pid_t pid)
{
	struct stat own, other;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)pid);
	return fstat(STDERR_FILENO, &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* Leaves the terminal and the folder, and the pipes that others read to the end. */
static bool
detach(pid_t pid)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool quiet = !shares_stderr(pid);

	return null >= 0 && setsid() >= 0 && chdir("/") == 0 && dup2(null, STDIN_FILENO) >= 0 &&
	       dup2(null, STDOUT_FILENO) >= 0 && (!quiet || dup2(null, STDERR_FILENO) >= 0) &&
	       prctl(PR_SET_PDEATHSIG, 0) == 0 && prctl(PR_SET_NAME, PROCESS_HOLDER_NAME) == 0;
}

/* In the child, once the lock is held. */
static int
hold_in_background(
    struct lb *lb, struct lb_lock *lock, struct holder *holder, const struct signals *signals)
{
	bool lost = false;

	print_grant(lb, lock, holder->options);
	if (!print_done())
		return EXIT_STATUS_IO;
	if (!detach(holder->options->for_pid)) {
		say("%s: %m", holder->name);
		return EXIT_STATUS_INTERNAL;
	}
	/* It fails if the command was ended meanwhile: nobody has heard of this hold. */
	if (write(NEWS_FD, "", 1) == 1) {
		close(NEWS_FD);
		lost = hold_for_process(lb, holder, signals);
	}
	if (!lost)
		(void)lb_release(lock, RELEASE_TIMEOUT_MS);
	return EXIT_STATUS_OK;
}

static int
say_no_process(int pid, int error)
{
	if (error == EPERM)
		say("acquire: process %d belongs to another user", pid);
	else if (error == ESRCH)
		say("acquire: there is no process %d", pid);
	else
		say("acquire: process %d: %s", pid, strerror(error));
	return error == EPERM ? EXIT_STATUS_DENIED : EXIT_STATUS_USAGE;
}

static int
hold_as_child(const struct tool_options *options, const char *name)
{
	struct holder holder = {.options = options, .name = name};
	char command[NAME_SIZE] = "";
	struct signals signals = {.fd = -1};
	struct lb_lock *lock;
	struct lb *lb;
	int status;

	holder.process = process_open(options->for_pid);
	if (holder.process < 0)
		return say_no_process(options->for_pid, errno);
	/* The service manager waits for the process, not for its lock. */
	unsetenv("NOTIFY_SOCKET");
	(void)process_read(options->for_pid, "comm", command, sizeof(command));
	command[strcspn(command, "\n")] = '\0';
	lb = lb_new();
	if (lb == NULL)
		return say_failure(NULL, LB_NO_MEMORY, options, name);
	status = waiting_acquire(lb, options, name, command, holder.process, &signals, &lock);
	if (lock != NULL)
		status = hold_in_background(lb, lock, &holder, &signals);
	lb_free(lb);
	close(holder.process);
	return status;
}

/* Until the child holds the lock, or has ended. */
static int
await_child(pid_t child, int news)
{
	char byte;
	ssize_t got;
	int status;

	do
		got = read(news, &byte, 1);
	while (got < 0 && errno == EINTR);
	if (got == 1)
		return EXIT_STATUS_OK;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_STATUS_INTERNAL;
	return WIFSIGNALED(status) ? EXIT_STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static int
acquire_for_process(const struct tool_options *options, const char *name)
{
	pid_t parent = getpid(), child;
	int news[2];

	/* Inherited as ignored, it would keep the child's status from us (wait(2)). */
	signal(SIGCHLD, SIG_DFL);
	if (pipe2(news, O_CLOEXEC) != 0 || (child = fork()) < 0) {
		say("acquire: %m");
		return EXIT_STATUS_INTERNAL;
	}
	if (child > 0) {
		close(news[1]);
		return await_child(child, news[0]);
	}
	/*
	 * A signal that ends the command ends the wait. The child closes all that the script has open.
	 */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent ||
	    dup2(news[1], NEWS_FD) < 0)
		return EXIT_STATUS_INTERNAL;
	close_range(NEWS_FD + 1, ~0U, 0);
	return hold_as_child(options, name);
}

int
cmd_acquire(const struct tool_options *options, char *operands[])
{
	const char *why = is_service() ? NULL : why_input_holds_nothing();
	const char *name = operands[0];
	struct signals signals = {.fd = -1};
	struct lb_lock *lock;
	struct lb *lb;
	int status;

	if (options->for_pid != 0)
		return acquire_for_process(options, name);
	if (why != NULL) {
		say("acquire: standard input %s; it must be a pipe, a socket or a terminal, "
		    "because its end releases the lock",
		    why);
		return EXIT_STATUS_USAGE;
	}
	lb = lb_new();
	if (lb == NULL)
		return say_failure(NULL, LB_NO_MEMORY, options, name);
	status = waiting_acquire(lb, options, name, NULL, -1, &signals, &lock);
	if (lock != NULL)
		status = hold_and_release(lb, lock, options, &signals);
	lb_free(lb);
	return signals_exit(&signals, status);
}
