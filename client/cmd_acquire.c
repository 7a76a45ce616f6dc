/*
 * lockbroker acquire: holds a lock for a program that cannot be its child.
 */
#include "client/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/exit_status.h"
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
	char slot[16] = "", whole[PATH_MAX];

	if (lb_lock_slot(lock) > 0)
		snprintf(slot, sizeof(slot), "%d", lb_lock_slot(lock));
	/* The shell may go elsewhere. */
	if (path[0] != '/' && realpath(path, whole) != NULL)
		path = whole;
	print_assignment("LOCKBROKER_NAME", lb_lock_name(lock), " ");
	print_assignment("LOCKBROKER_SLOT", slot, " ");
	print_assignment("LOCKBROKER_LOCK", lb_lock_id(lock), " ");
	print_assignment("LOCKBROKER_SOCKET", path, "\n");
}

/* Handles the daemon's events. Returns an exit status, or GOING_ON. */
static int
heed(struct lb *lb, const struct options *options, const char *name)
{
	const struct lb_event *event;

	while ((event = lb_event_next(lb)) != NULL) {
		bool silent = event->type == LB_EVENT_SUSPECT;

		if (event->type == LB_EVENT_LOST && event->lock != NULL) {
			say_lost(name, event);
			return EXIT_STATUS_LOST;
		}
		if (event->type == LB_EVENT_DRAINING) {
			say("%s: lockbrokerd is stopping", name);
			return EXIT_STATUS_UNREACHABLE;
		}
		if (event->type == LB_EVENT_REVOKED)
			say("%s: the slot was removed, and is kept until the lock is released",
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
			kill(getpid(), SIGSTOP);
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
hold(struct lb *lb, const struct options *options, const char *name, const struct signals *signals)
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
hold_and_release(struct lb *lb, struct lb_lock *lock, const struct options *options,
    const struct signals *signals)
{
	const char *name = lb_lock_name(lock);
	int status = EXIT_STATUS_IO, code;

	say_holding(name, false);
	notify_ready();
	if (options->shell)
		print_assignments(lb, lock);
	else
		print_json(lb_lock_json(lock));
	/* Where nobody could be told nobody needs it. */
	if (print_done())
		status = hold(lb, options, name, signals);
	if (status == EXIT_STATUS_LOST)
		return status;
	code = lb_release(lock, RELEASE_TIMEOUT_MS);
	return code == LB_OK ? status : say_failure(lb, code, options, name);
}

int
cmd_acquire(const struct options *options, char *operands[])
{
	const char *why = is_service() ? NULL : why_input_holds_nothing();
	const char *name = operands[0];
	struct signals signals;
	struct lb_lock *lock;
	struct lb *lb;
	int status;

	if (why != NULL) {
		say("acquire: standard input %s; it must be a pipe, a socket or a terminal, "
		    "because its end releases the lock",
		    why);
		return EXIT_STATUS_USAGE;
	}
	lb = lb_new();
	if (lb == NULL)
		return say_failure(NULL, LB_NO_MEMORY, options, name);
	status = waiting_acquire(lb, options, name, NULL, &signals, &lock);
	if (lock != NULL)
		status = hold_and_release(lb, lock, options, &signals);
	lb_free(lb);
	return status;
}
