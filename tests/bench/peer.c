#include "tests/bench/bench.h"

#include <err.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Half of the requests that a connection may have in progress. */
#define AT_ONCE 32

void
peer_open(struct peer *peer, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path))
		errx(1, "%s: too long", path);
	memcpy(address.sun_path, path, strlen(path));
	*peer = (struct peer){0};
	peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (peer->fd < 0 || connect(peer->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		err(1, "%s", path);
}

pid_t
peer_pid(const struct peer *peer)
{
	struct ucred credentials;
	socklen_t len = sizeof(credentials);

	if (getsockopt(peer->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) != 0)
		err(1, "SO_PEERCRED");
	return credentials.pid;
}

static void
send_all(int fd, const char *text, size_t len)
{
	if (write(fd, text, len) != (ssize_t)len)
		err(1, "write");
}

void
peer_ask(struct peer *peer, const char *method, const char *format, ...)
{
	char params[LINE_SIZE - 64], line[LINE_SIZE];
	va_list arguments;
	int len;

	va_start(arguments, format);
	vsnprintf(params, sizeof(params), format, arguments);
	va_end(arguments);
	len = snprintf(line, sizeof(line), "{\"id\":%u,\"method\":\"%s\",\"params\":{%s}}\n",
	    ++peer->asked, method, params);
	send_all(peer->fd, line, (size_t)len);
}

void
peer_read(struct peer *peer)
{
	ssize_t got = read(peer->fd, peer->rest + peer->len, sizeof(peer->rest) - peer->len);

	if (got <= 0)
		err(1, "the daemon closed the connection");
	peer->len += (size_t)got;
}

bool
peer_next(struct peer *peer, char ret_line[LINE_SIZE])
{
	char *end = memchr(peer->rest, '\n', peer->len);

	if (end == NULL)
		return false;
	snprintf(ret_line, LINE_SIZE, "%.*s", (int)(end - peer->rest), peer->rest);
	peer->len -= (size_t)(end + 1 - peer->rest);
	memmove(peer->rest, end + 1, peer->len);
	return true;
}

void
peer_until(struct peer *peer, const char *text, char ret_line[LINE_SIZE])
{
	do {
		while (!peer_next(peer, ret_line))
			peer_read(peer);
		if (strstr(ret_line, "\"error\"") != NULL && strstr(ret_line, text) == NULL)
			errx(1, "%s", ret_line);
	} while (strstr(ret_line, text) == NULL);
}

void
lock_of(const char *line, char ret_lock[64])
{
	static const char key[] = "\"lock\":\"";
	const char *lock = strstr(line, key);

	if (lock == NULL)
		errx(1, "no lock: %s", line);
	lock += strlen(key);
	snprintf(ret_lock, 64, "%.*s", (int)strcspn(lock, "\""), lock);
}

void
peer_create_ask(struct peer *peer, const char *name, size_t slots, enum way way)
{
	static const char *const claims[] = {
	    [BY_DEFAULT] = "",
	    [BY_QUEUE] = ",\"claim\":\"exclusive-queue\"",
	    [BY_CONSUMER] = ",\"claim\":\"consumer\"",
	    [BY_QUORUM] = ",\"claim\":\"quorum\"",
	};

	peer_ask(peer, "create", "\"name\":\"%s\",\"slots\":%zu,\"exist_ok\":true%s", name, slots,
	    claims[way]);
}

void
peer_created(struct peer *peer)
{
	char line[LINE_SIZE];

	peer_until(peer, "\"result\"", line);
}

void
peer_create(struct peer *peer, const char *name, size_t slots, enum way way)
{
	peer_create_ask(peer, name, slots, way);
	peer_created(peer);
}

void
peer_acquire(struct peer *peer, const char *name)
{
	peer_ask(peer, "acquire", "\"name\":\"%s\"", name);
}

void
peer_granted(struct peer *peer)
{
	char line[LINE_SIZE];

	peer_until(peer, "\"lock\":", line);
	lock_of(line, peer->lock);
}

void
peer_release(struct peer *peer, const char *lock)
{
	char line[LINE_SIZE];

	peer_ask(peer, "release", "\"lock\":\"%s\"", lock);
	peer_until(peer, "\"result\"", line);
}

void
peer_acquire_many(struct peer *peer, const char *name, char (*ret_locks)[64], size_t count)
{
	for (size_t asked = 0, got = 0; got < count; got++) {
		for (; asked < count && asked < got + AT_ONCE; asked++)
			peer_acquire(peer, name);
		peer_granted(peer);
		memcpy(ret_locks[got], peer->lock, sizeof(peer->lock));
	}
}

/* ---- an echo ---- */

/* False: the other end is closed. */
static bool
read_all(int fd, size_t bytes)
{
	char buf[LINE_SIZE];
	ssize_t got = 1;

	for (size_t len = 0; len < bytes && got > 0; len += (size_t)got) {
		got = read(fd, buf, bytes - len);
		if (got < 0)
			err(1, "read");
	}
	return got > 0;
}

int
echo_open(size_t asked, size_t answered)
{
	static const char buf[LINE_SIZE];
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || (child = fork()) < 0)
		err(1, "echo");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		while (read_all(ends[1], asked))
			send_all(ends[1], buf, answered);
		_exit(0);
	}
	close(ends[1]);
	return ends[0];
}

void
echo(int fd, size_t asked, size_t answered)
{
	static const char buf[LINE_SIZE];

	send_all(fd, buf, asked);
	if (!read_all(fd, answered))
		errx(1, "no echo");
}
