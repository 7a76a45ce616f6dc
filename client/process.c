#include "client/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* More than the lines of /proc/PID/status up to Uid, and than /proc/PID/stat. */
#define STATUS_SIZE 1024

ssize_t
process_read(pid_t pid, const char *what, char *buf, size_t size)
{
	char path[64];
	size_t len = 0;
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while (len < size - 1 && (got = read(fd, buf + len, size - 1 - len)) > 0)
		len += (size_t)got;
	close(fd);
	buf[len] = '\0';
	return got < 0 ? -1 : (ssize_t)len;
}

bool
process_ended(int pidfd)
{
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};

	return poll(&ended, 1, 0) != 0;
}

/* By the state behind the name (proc(5)). A name may have parentheses. */
bool
process_is_stopped(pid_t pid)
{
	char stat[STATUS_SIZE];
	const char *name_end;

	if (process_read(pid, "stat", stat, sizeof(stat)) < 0 ||
	    (name_end = strrchr(stat, ')')) == NULL || strlen(name_end) < 3)
		return kill(pid, 0) == 0 || errno != ESRCH;
	return name_end[2] == 'T' || name_end[2] == 't';
}

/* By the four numbers of "Uid:" (proc(5)): the owner of the folder differs for a process without dumps. */
static bool
is_own(pid_t pid)
{
	char status[STATUS_SIZE];
	unsigned real, effective, saved;
	const char *line;

	if (process_read(pid, "status", status, sizeof(status)) < 0 ||
	    (line = strstr(status, "\nUid:")) == NULL ||
	    sscanf(line, "\nUid: %u %u %u", &real, &effective, &saved) != 3)
		return false;
	return real == getuid() && effective == geteuid() && saved == real;
}

int
process_open(pid_t pid)
{
	int pidfd = pidfd_open(pid, 0);
	int error;

	if (pidfd < 0) {
		/* EINVAL: the number of a thread. */
		if (errno == EINVAL)
			errno = ESRCH;
		return -1;
	}
	error = is_own(pid) ? 0 : EPERM;
	/* Only now is it known whose status that was. */
	if (process_ended(pidfd))
		error = ESRCH;
	if (error == 0)
		return pidfd;
	close(pidfd);
	errno = error;
	return -1;
}
