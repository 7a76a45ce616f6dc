#include "client/web/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "client/web/note.h"

#define DEFAULT_ADDRESS "127.0.0.1:8390"
#define BACKLOG 1024

/* 1: it is there. 0: the service manager passed none. -1: it passed something else. */
static int
take_passed(struct http_listener *listener)
{
	int count = sd_listen_fds(1);

	if (count == 0)
		return 0;
	if (count != 1 || sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_STREAM, 1, NULL, 0) <= 0) {
		note("the service manager must pass one listening Unix socket");
		return -1;
	}
	listener->fd = SD_LISTEN_FDS_START;
	listener->is_unix = true;
	/* systemd clears it at each start. */
	(void)fcntl(listener->fd, F_SETFL, fcntl(listener->fd, F_GETFL) | O_NONBLOCK);
	return 1;
}

/* Removes the file of a server that is gone. Only then is connect(2) refused. */
static void
remove_stale(const struct sockaddr_un *name)
{
	struct stat found;
	int fd;

	if (lstat(name->sun_path, &found) != 0 || !S_ISSOCK(found.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)name, sizeof(*name)) != 0 && errno == ECONNREFUSED)
		unlink(name->sun_path);
	close(fd);
}

static bool
listen_at(struct http_listener *listener, const void *name, socklen_t size, const char *address)
{
	int family = ((const struct sockaddr *)name)->sa_family, on = 1;
	/* The file of a Unix socket has its mode from the start. */
	mode_t mask = umask(0117);
	bool listens;

	listener->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (family == AF_INET)
		setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	listens = listener->fd >= 0 && bind(listener->fd, name, size) == 0 &&
		  listen(listener->fd, BACKLOG) == 0;
	umask(mask);
	if (!listens)
		note("%s: %s", address, strerror(errno));
	return listens;
}

static bool
open_unix(struct http_listener *listener, const char *address, const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};

	if (*path == '\0' || strlen(path) >= sizeof(name.sun_path)) {
		note("%s: a path has 1 to %zu bytes", address, sizeof(name.sun_path) - 1);
		return false;
	}
	strcpy(name.sun_path, path);
	remove_stale(&name);
	listener->is_unix = true;
	if (!listen_at(listener, &name, sizeof(name), address))
		return false;
	listener->path = path;
	return true;
}

static bool
open_port(struct http_listener *listener, const char *address, unsigned long port)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
	    .sin_port = htons((in_port_t)port),
	    .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(name);

	if (!listen_at(listener, &name, size, address))
		return false;
	/* Port 0: the kernel chose one. */
	if (getsockname(listener->fd, (struct sockaddr *)&name, &size) != 0) {
		note("%s: %s", address, strerror(errno));
		return false;
	}
	listener->port = ntohs(name.sin_port);
	return true;
}

bool
listener_open(struct http_listener *listener, const char *address)
{
	static const char loopback[] = "127.0.0.1:", prefix[] = "unix:";
	int passed = take_passed(listener);
	char *end = NULL;
	unsigned long port;

	if (passed != 0)
		return passed > 0;
	if (address == NULL)
		address = DEFAULT_ADDRESS;
	if (strncmp(address, prefix, sizeof(prefix) - 1) == 0)
		return open_unix(listener, address, address + sizeof(prefix) - 1);
	if (strncmp(address, loopback, sizeof(loopback) - 1) == 0) {
		port = strtoul(address + sizeof(loopback) - 1, &end, 10);
		if (address[sizeof(loopback) - 1] >= '0' && address[sizeof(loopback) - 1] <= '9' &&
		    *end == '\0' && port <= 65535)
			return open_port(listener, address, port);
	}
	note("--listen: %s: expected unix:PATH or 127.0.0.1:PORT. lockbroker-web has no TLS and no "
	     "login: a proxy "
	     "in front of a Unix socket has both",
	    address);
	return false;
}

void
listener_remove(const struct http_listener *listener)
{
	if (listener->path != NULL)
		unlink(listener->path);
}
