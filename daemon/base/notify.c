#include "daemon/base/notify.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/fd_pass.h"
#include "daemon/base/log.h"

/* The maximum of a status text in `systemctl status`. */
#define STATUS_MAX 512

/* ms that a change of the service's state waits for room. */
#define PATIENCE 200

/*
 * Returns a datagram socket to the service manager; -1: there is none. "@" starts an abstract name.
 */
static int
manager_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path == NULL ? 0 : strlen(path);
	int fd;

	if ((len > 0 && path[0] != '/' && path[0] != '@') || len < 2 ||
	    len >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, path, len);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&address,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Without a service manager, or without room in its socket, the message is dropped, and the answer
 * is false. sd_notify(3) would wait for room for ever. The daemon would then lose all locks, and
 * `run` would outlive its lease.
 */
static bool
say_with(const char *text, const int *fds, size_t count, int patience)
{
	int manager = manager_connect();
	bool said = manager >= 0 && fd_pass_send(manager, text, fds, count, patience);

	if (manager >= 0)
		close(manager);
	return said;
}

static void
say(const char *text, int patience)
{
	(void)say_with(text, NULL, 0, patience);
}

void
notify_ready(void)
{
	say("READY=1", PATIENCE);
}

void
notify_stopping(void)
{
	say("STOPPING=1", PATIENCE);
}

void
notify_reloading(void)
{
	struct timespec now;
	char text[80];

	/* systemd expects the time with it, by CLOCK_MONOTONIC (sd_notify(3), MONOTONIC_USEC). */
	if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
		return;
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
	    (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	say(text, PATIENCE);
}

void
notify_status(const char *format, ...)
{
	char text[STATUS_MAX] = "STATUS=";
	const size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - used, format, args);
	va_end(args);
	/* A line end would start another assignment, and the broker's words may contain one. */
	for (char *c = text; *c != '\0'; c++) {
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	}
	say(text, 0);
}

int64_t
notify_watchdog_interval(void)
{
	uint64_t usec;

	if (sd_watchdog_enabled(0, &usec) <= 0)
		return 0;
	return usec > INT64_MAX / 500 ? INT64_MAX : (int64_t)usec * 500;
}

void
notify_watchdog(void)
{
	say("WATCHDOG=1", 0);
}

/* ---- the store of descriptors ---- */

#define BUS_PATIENCE 2000   /* ms, for the whole conversation */
#define STORE_PATIENCE 1000 /* ms */
#define MANAGER "org.freedesktop.systemd1"

/* Whether the job of the unit at `path` is a restart. */
static bool
job_is_restart(sd_bus *bus, const char *path)
{
	sd_bus_message *reply = NULL;
	const char *job = NULL;
	char *type = NULL;
	uint32_t number;
	bool restart;

	restart = sd_bus_get_property(
		      bus, MANAGER, path, MANAGER ".Unit", "Job", NULL, &reply, "(uo)") >= 0 &&
		  sd_bus_message_read(reply, "(uo)", &number, &job) > 0 && number != 0 &&
		  sd_bus_get_property_string(
		      bus, MANAGER, job, MANAGER ".Job", "JobType", NULL, &type) >= 0 &&
		  strcmp(type, "restart") == 0;
	free(type);
	sd_bus_message_unref(reply);
	return restart;
}

/*
 * Whether the service manager restarts the unit of this process, and keeps descriptors for it. Frees
 * nothing, as the process ends then.
 */
static bool
ask_manager(void)
{
	sd_bus_message *reply = NULL;
	sd_bus *bus = NULL;
	const char *path;
	uint32_t most = 0;
	int answer;

	if (sd_bus_open_system(&bus) < 0)
		return false;
	/* 0: the process that asks. */
	answer = sd_bus_call_method(bus, MANAGER, "/org/freedesktop/systemd1", MANAGER ".Manager",
	    "GetUnitByPID", NULL, &reply, "u", (uint32_t)0);
	if (answer < 0)
		log_warning("the service manager does not tell whether it restarts the daemon: %s",
		    strerror(-answer));
	return answer >= 0 && sd_bus_message_read(reply, "o", &path) > 0 &&
	       sd_bus_get_property_trivial(bus, MANAGER, path, MANAGER ".Service",
		   "FileDescriptorStoreMax", NULL, 'u', &most) >= 0 &&
	       most > 0 && job_is_restart(bus, path);
}

/*
 * A process of its own asks, and is ended if it takes too long. sd_bus_open_system(3) waits up to
 * 90 s for a bus that does not answer, and no setting shortens that. If it cannot go on, because a
 * thread of the resolver held a lock at the fork, it is ended, too.
 */
bool
notify_is_restarted(void)
{
	struct pollfd end = {.events = POLLIN};
	int ends[2], status = 0, ended;
	sigset_t all, before;
	pid_t asker;

	if (getenv("NOTIFY_SOCKET") == NULL)
		return false;
	if (pipe2(ends, O_CLOEXEC) != 0) {
		log_warning("the service manager cannot be asked: %s", strerror(errno));
		return false;
	}
	/* The asker has the handlers of the daemon, which would act on the daemon's pipes. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	log_flush(); /* the asker would write these lines, too */
	asker = fork();
	if (asker == 0)
		_exit(ask_manager() ? EX_OK : EX_UNAVAILABLE);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	end.fd = ends[0];
	do
		ended = asker < 0 ? 1 : poll(&end, 1, BUS_PATIENCE);
	while (ended < 0 && errno == EINTR);
	close(ends[0]);
	if (ended == 0)
		log_warning("the service manager does not tell within 2 s whether it restarts the "
			    "daemon");
	if (asker < 0) {
		log_warning("the service manager cannot be asked: %s", strerror(errno));
		return false;
	}
	kill(asker, SIGKILL); /* without an effect if it has exited */
	return waitpid(asker, &status, 0) == asker && WIFEXITED(status) &&
	       WEXITSTATUS(status) == EX_OK;
}

/*
 * Waits until the service manager has handled all earlier messages: it closes the descriptor then
 * (BARRIER=1 in sd_notify(3)). sd_notify_barrier(3) can wait for ever.
 */
static bool
is_handled(void)
{
	struct pollfd closed;
	int ends[2];
	bool said;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	said = say_with("BARRIER=1", &ends[1], 1, STORE_PATIENCE);
	close(ends[1]);
	closed = (struct pollfd){.fd = ends[0]};
	said = said && poll(&closed, 1, STORE_PATIENCE) == 1;
	close(ends[0]);
	return said;
}

bool
notify_store(const char *name, int fd)
{
	char text[128];

	/* Since version 246. Without it, systemd drops a descriptor whose other end is closed. */
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	return say_with(text, &fd, 1, STORE_PATIENCE) && is_handled();
}

void
notify_forget(const char *name)
{
	char text[128];

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	say(text, PATIENCE);
}
