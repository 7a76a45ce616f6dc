#include "daemon/base/notify.h"

#include <ctype.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

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
 * Without a service manager, or without room in its socket, the message is dropped silently.
 * sd_notify(3) would wait for room for ever. The daemon would then lose all locks, and `run` would
 * outlive its lease.
 */
static void
say(const char *text, int patience)
{
	int fd = manager_connect();
	struct pollfd room = {.fd = fd, .events = POLLOUT};

	if (fd < 0)
		return;
	if (poll(&room, 1, patience) == 1)
		(void)send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
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
