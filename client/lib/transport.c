#include "client/lib/transport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <fcntl.h>
#include <unistd.h>

#include "client/lib/clock.h"

int64_t
transport_deadline(int64_t timeout_ms)
{
	int64_t deadline;

	if (timeout_ms < 0 || __builtin_add_overflow(client_clock_now(), timeout_ms, &deadline))
		return TRANSPORT_NEVER;
	return deadline;
}

/* A blocking connect() to a Unix socket waits for room in the backlog, at most SO_SNDTIMEO. */
static int
connect_until(int fd, const struct sockaddr_un *address, int64_t deadline)
{
	for (;;) {
		int64_t left = deadline - client_clock_now();
		struct timeval limit = {.tv_sec = 60};

		if (deadline != TRANSPORT_NEVER && left < 60000) {
			limit.tv_sec = left > 0 ? left / 1000 : 0;
			limit.tv_usec = left > 0 ? left % 1000 * 1000 : 0;
			/* 0 would mean "no limit". */
			if (limit.tv_sec == 0 && limit.tv_usec == 0)
				limit.tv_usec = 1000;
		}
		if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0)
			return errno;
		if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
			return 0;
		if (errno != EINTR && errno != EAGAIN)
			return errno;
		if (deadline != TRANSPORT_NEVER && client_clock_now() >= deadline)
			return ETIMEDOUT;
	}
}

int
transport_connect(const char *path, int64_t deadline, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(path);
	int fd, error;

	if (len >= sizeof(address.sun_path))
		return ENAMETOOLONG;
	memcpy(address.sun_path, path, len + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	error = connect_until(fd, &address, deadline);
	if (error == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
		error = errno;
	if (error != 0) {
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

ssize_t
transport_send(int fd, const void *bytes, size_t len)
{
	ssize_t sent;

	do
		sent = send(fd, bytes, len, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

ssize_t
transport_receive(int fd, void *bytes, size_t len)
{
	ssize_t received;

	do
		received = recv(fd, bytes, len, 0);
	while (received < 0 && errno == EINTR);
	return received < 0 ? -errno : received;
}

int
transport_poll(int fd, short events, int64_t deadline)
{
	for (;;) {
		struct pollfd poll_fd = {.fd = fd, .events = events};
		int64_t left = TRANSPORT_POLL_LONGEST_MS;
		int ready;

		if (deadline != TRANSPORT_NEVER) {
			int64_t until = deadline - client_clock_now();

			if (until < left)
				left = until > 0 ? until : 0;
		}
		ready = poll(&poll_fd, 1, (int)left);
		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return errno;
		if (deadline != TRANSPORT_NEVER && client_clock_now() >= deadline)
			return ETIMEDOUT;
	}
}

void
transport_shutdown(int fd)
{
	(void)shutdown(fd, SHUT_RDWR);
}
