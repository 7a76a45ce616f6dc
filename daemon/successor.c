#include "daemon/successor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <event2/event.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/fault.h"
#include "daemon/base/fd_pass.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"
#include "daemon/base/notify.h"

extern char **environ;

/* The descriptor of the state, and what to do with it. */
#define STATE_VARIABLE "LOCKBROKERD_STATE"
#define REHEARSAL_VARIABLE "LOCKBROKERD_REHEARSAL"
/* The name of the stash in the store of the service manager. */
#define STASH_NAME "lockbrokerd-state"
#define PATIENCE (5 * NSEC_PER_SEC)
#define STATE_MAX ((size_t)1024 * 1024 * 1024)

const int successor_signals[SUCCESSOR_SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};

static struct {
	char **argv; /* borrowed */
	char *path;  /* owned; of the program's file, also after it is replaced */
} program;

void
successor_remember(char *argv[])
{
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	program.argv = argv;
	free(program.path);
	program.path = NULL;
	if (len <= 0)
		return;
	path[len] = '\0';
	program.path = mem_strdup(path);
}

/* A sealed file in memory; -1: there can be none, and errno says why. */
static int
state_file(const struct state_text *text)
{
	ssize_t written;
	int fd;

	if (text->len > STATE_MAX) {
		errno = EFBIG;
		return -1;
	}
	fd = memfd_create("lockbrokerd-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	for (size_t at = 0; fd >= 0 && at < text->len; at += (size_t)written) {
		written = write(fd, text->text + at, text->len - at);
		if (written <= 0) {
			close(fd);
			return -1;
		}
	}
	FAULT(STATE_UNSEALED, return fd);
	if (fd >= 0)
		(void)fcntl(
		    fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return fd;
}

static sigset_t
signals(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < SUCCESSOR_SIGNALS; i++)
		sigaddset(&mask, successor_signals[i]);
	return mask;
}

/* ---- the rehearsal ---- */

struct successor {
	struct event_base *base; /* borrowed */
	struct timers *timers;   /* borrowed */
	void (*rehearsed)(void *ctx, const char *why);
	void *ctx;
	pid_t pid;           /* 0: there is no rehearsal */
	int end;             /* owned; readable when the rehearsal has ended */
	struct event *event; /* owned */
	struct timer deadline;
};

/*
 * Ends the rehearsal. Returns its wait status: a program that closed the pipe and lives on is killed.
 */
static int
end(struct successor *successor)
{
	int status = SIGKILL; /* ended by it */

	timers_cancel(successor->timers, &successor->deadline);
	event_free(successor->event);
	successor->event = NULL;
	close(successor->end);
	kill(successor->pid, SIGKILL);
	while (waitpid(successor->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	successor->pid = 0;
	return status;
}

static void
on_end(evutil_socket_t fd, short what, void *ctx)
{
	struct successor *successor = ctx;
	int status = end(successor);
	char why[96];

	(void)fd;
	(void)what;
	if (WIFEXITED(status) && WEXITSTATUS(status) == SUCCESSOR_AGREES) {
		successor->rehearsed(successor->ctx, NULL);
		return;
	}
	if (WIFEXITED(status))
		snprintf(why, sizeof(why), "the new program refuses, with exit status %d",
		    WEXITSTATUS(status));
	else
		snprintf(why, sizeof(why), "the new program ended by signal %d", WTERMSIG(status));
	successor->rehearsed(successor->ctx, why);
}

static void
on_deadline(void *ctx, uint64_t id)
{
	struct successor *successor = ctx;

	(void)id;
	(void)end(successor);
	successor->rehearsed(successor->ctx, "the new program did not answer within 5 s");
}

struct successor *
successor_new(struct event_base *base, struct timers *timers,
    void (*rehearsed)(void *ctx, const char *why), void *ctx)
{
	struct successor *successor = mem_alloc(sizeof(*successor));

	successor->base = base;
	successor->timers = timers;
	successor->rehearsed = rehearsed;
	successor->ctx = ctx;
	timer_init(&successor->deadline, on_deadline, successor, 0);
	return successor;
}

void
successor_free(struct successor *successor)
{
	if (successor == NULL)
		return;
	if (successor->pid != 0)
		(void)end(successor);
	free(successor);
}

/* The environment with one more variable. The caller frees the list, and the variable. */
static char **
environment_with(char *variable)
{
	size_t count = 0;
	char **list;

	while (environ[count] != NULL)
		count++;
	list = mem_grow(NULL, count + 2, sizeof(*list));
	memcpy(list, environ, count * sizeof(*list));
	list[count] = variable;
	list[count + 1] = NULL;
	return list;
}

/*
 * Starts the program. It inherits the state, and a pipe that ends with it. It blocks the signals of
 * the daemon: a service manager sends SIGTERM to all processes of a unit. Returns 0 or an errno.
 */
static int
start(struct successor *successor, int state, int pipe_end)
{
	char *variable = mem_printf("%s=%d", REHEARSAL_VARIABLE, state);
	char **list = environment_with(variable);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t mask = signals();
	int error;

	FAULT(REHEARSAL_HEARS_SIGNALS, sigemptyset(&mask));
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	/* A descriptor that is its own duplicate loses its close-on-exec there. */
	posix_spawn_file_actions_adddup2(&actions, state, state);
	posix_spawn_file_actions_adddup2(&actions, pipe_end, pipe_end);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &mask);
	error =
	    posix_spawn(&successor->pid, program.path, &actions, &attributes, program.argv, list);
	if (error != 0)
		successor->pid = 0;
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	free(list);
	free(variable);
	return error;
}

/* Returns 0 or an errno. */
static int
rehearse(struct successor *successor, const struct state_text *text)
{
	int ends[2], state = state_file(text), error;

	if (state < 0)
		return errno;
	if (pipe2(ends, O_CLOEXEC) != 0) {
		error = errno;
		close(state);
		return error;
	}
	error = program.path == NULL ? ENOENT : start(successor, state, ends[1]);
	close(state);
	close(ends[1]);
	if (error != 0) {
		close(ends[0]);
		return error;
	}
	successor->end = ends[0];
	successor->event = event_new(successor->base, ends[0], EV_READ, on_end, successor);
	if (successor->event == NULL || event_add(successor->event, NULL) != 0) {
		log_error("out of memory");
		abort();
	}
	timers_set(successor->timers, &successor->deadline,
	    clock_now(timers_clock(successor->timers)) + PATIENCE);
	return 0;
}

void
successor_rehearse(struct successor *successor, const struct state_text *text)
{
	int error = rehearse(successor, text);
	char *why;

	if (error == 0)
		return;
	why = mem_printf("%s cannot be started: %s",
	    program.path != NULL ? program.path : "the program", strerror(error));
	successor->rehearsed(successor->ctx, why);
	free(why);
}

/* ---- the replacement ---- */

static void
set_inherited(int fd, bool inherited)
{
	int flags = fcntl(fd, F_GETFD);

	if (flags >= 0)
		(void)fcntl(fd, F_SETFD, inherited ? flags & ~FD_CLOEXEC : flags | FD_CLOEXEC);
}

void
successor_hold_signals(bool held)
{
	sigset_t mask = signals();

	FAULT(SIGNALS_NOT_HELD, return;);
	sigprocmask(held ? SIG_BLOCK : SIG_UNBLOCK, &mask, NULL);
}

char *
successor_exec(const struct state_text *text)
{
	int state = state_file(text), error = errno;
	char number[16];

	if (state < 0)
		return mem_printf("the state cannot be kept in memory: %s", strerror(error));
	snprintf(number, sizeof(number), "%d", state);
	set_inherited(state, true);
	for (size_t i = 0; i < text->socket_count; i++) {
		FAULT(SOCKETS_NOT_INHERITED, break);
		set_inherited(text->sockets[i], true);
	}
	if (setenv(STATE_VARIABLE, number, 1) == 0)
		execv(program.path, program.argv);
	error = errno;
	unsetenv(STATE_VARIABLE);
	for (size_t i = 0; i < text->socket_count; i++) {
		FAULT(SOCKETS_LEFT_INHERITED, break);
		set_inherited(text->sockets[i], false);
	}
	close(state);
	return mem_printf("%s: %s", program.path, strerror(error));
}

/* ---- the stash ---- */

/*
 * The state and all sockets, in one descriptor: they are on their way in a socket whose other end is
 * closed. They come out in this order, and only once. So nobody can take an old state, even if the
 * service manager keeps the socket for longer. A descriptor for each socket would be too many for
 * systemd: it compares each with all others. It passes all names in one string of at most 128 KiB.
 */
static int
stash_make(const struct state_text *text)
{
	int ends[2], state = state_file(text);
	bool sent;

	if (state < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		close(state);
		return -1;
	}
	sent = fd_pass_send(ends[1], ".", &state, 1, 0);
	for (size_t at = 0, count; sent && at < text->socket_count; at += count) {
		count = text->socket_count - at;
		if (count > FD_PASS_MAX)
			count = FD_PASS_MAX;
		sent = fd_pass_send(ends[1], ".", text->sockets + at, count, 0);
	}
	close(state);
	close(ends[1]);
	if (sent)
		return ends[0];
	close(ends[0]);
	return -1;
}

/* Takes all descriptors out of it, the state first, and closes it. The caller owns list and descriptors. */
static int *
stash_empty(int stash, size_t *ret_count)
{
	int *fds = NULL, got[FD_PASS_MAX];
	size_t count;

	*ret_count = 0;
	while (fd_pass_receive(stash, got, &count)) {
		fds = mem_grow(fds, *ret_count + count, sizeof(*fds));
		memcpy(fds + *ret_count, got, count * sizeof(*fds));
		*ret_count += count;
	}
	close(stash);
	return fds;
}

/* Closes it, and all that is in it. */
static void
stash_drop(int stash)
{
	int got[FD_PASS_MAX];
	size_t count;

	while (fd_pass_receive(stash, got, &count)) {
		while (count > 0)
			close(got[--count]);
	}
	close(stash);
}

bool
successor_store(const struct state_text *text)
{
	int stash = stash_make(text);

	if (stash < 0)
		return false;
	if (notify_store(STASH_NAME, stash)) {
		close(stash);
		return true;
	}
	stash_drop(stash);
	notify_forget(STASH_NAME);
	return false;
}

/* ---- in the new program ---- */

/* The text of the file; NULL: it cannot be read. Closes it. */
static char *
read_state(int fd, size_t *ret_len)
{
	struct stat is;
	char *text = NULL;
	size_t at = 0;
	ssize_t got = 1;

	if (fstat(fd, &is) == 0 && is.st_size >= 0 && (size_t)is.st_size <= STATE_MAX)
		text = mem_alloc((size_t)is.st_size + 1);
	while (text != NULL && got > 0 && at < (size_t)is.st_size) {
		got = pread(fd, text + at, (size_t)is.st_size - at, (off_t)at);
		at += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	*ret_len = at;
	return text;
}

/* Takes the state out of the stash, once. Returns its descriptor; -1: it is not there. */
static int
take_stash(int stash, struct state_text *ret)
{
	size_t count;
	int *fds, state;

	if (ret->sockets != NULL) {
		stash_drop(stash);
		return -1;
	}
	fds = stash_empty(stash, &count);
	if (count == 0)
		return -1;
	state = fds[0];
	ret->sockets = fds;
	ret->socket_count = count - 1;
	memmove(fds, fds + 1, ret->socket_count * sizeof(*fds));
	return state;
}

/*
 * The state that the service manager kept; -1: it kept none. It passes its stashes behind the
 * sockets of units (service_collect_fds() of systemd), which alone are left in its variables.
 */
static int
stored_state(struct state_text *ret)
{
	char **names = NULL, number[16];
	int count = sd_listen_fds_with_names(0, &names), of_units = 0, state = -1, found;

	for (int i = 0; i < count; i++) {
		found = -1;
		if (strcmp(names[i], STASH_NAME) == 0)
			found = take_stash(SD_LISTEN_FDS_START + i, ret);
		else
			of_units++;
		if (found >= 0)
			state = found;
		free(names[i]);
	}
	free(names);
	if (count <= 0 || of_units == count)
		return -1;
	notify_forget(STASH_NAME);
	(void)unsetenv("LISTEN_FDNAMES");
	snprintf(number, sizeof(number), "%d", of_units);
	if (of_units == 0)
		(void)unsetenv("LISTEN_FDS");
	else
		(void)setenv("LISTEN_FDS", number, 1);
	return state;
}

/*
 * Returns the descriptor that the variable names, and removes the variable; -1: there is none. A standard one is
 * none, either: an earlier program never left the state there.
 */
static int
state_from(const char *variable)
{
	const char *text = getenv(variable);
	char *end = NULL, quoted[LOG_QUOTE_MAX];
	long number = -1;

	if (text == NULL)
		return -1;
	if (text[0] >= '0' && text[0] <= '9')
		number = strtol(text, &end, 10);
	if (number <= STDERR_FILENO || number > INT_MAX || *end != '\0') {
		log_warning("%s is ignored: '%s' is no descriptor of a state", variable,
		    log_quote(quoted, text, strlen(text)));
		number = -1;
	}
	unsetenv(variable);
	return (int)number;
}

enum successor_role
successor_role(struct state_text *ret)
{
	enum successor_role role = SUCCESSOR_TAKES_OVER;
	int state = state_from(STATE_VARIABLE), rehearsed = state_from(REHEARSAL_VARIABLE);

	*ret = (struct state_text){.text = NULL};
	if (state < 0 && rehearsed >= 0) {
		state = rehearsed;
		role = SUCCESSOR_REHEARSES;
	}
	if (state < 0)
		state = stored_state(ret);
	if (state < 0)
		return SUCCESSOR_NONE;
	ret->text = read_state(state, &ret->len);
	if (ret->text == NULL)
		ret->text = mem_strdup("");
	return role;
}

_Noreturn void
successor_start_anew(void)
{
	/* Sockets that stay open would be those of clients that nobody serves. */
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0 && program.path != NULL)
		execv(program.path, program.argv);
	log_error("%s: %s", program.path != NULL ? program.path : "the program", strerror(errno));
	_exit(EX_OSERR);
}
