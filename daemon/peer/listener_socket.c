#include "daemon/peer/listener_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/mem.h"

#define BACKLOG 4096
#define FOLDER_LOCK_TRIES 200 /* of 10 ms */

int
listener_socket_inherit(char **ret_error)
{
	int count = sd_listen_fds(1);
	int fd = SD_LISTEN_FDS_START;

	if (count == 0)
		return -1;
	if (count < 0) {
		*ret_error = mem_printf("the service manager's sockets: %s", strerror(-count));
		return -2;
	}
	if (count > 1) {
		*ret_error =
		    mem_printf("the service manager handed over %d sockets, one is wanted", count);
		return -2;
	}
	if (sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) <= 0) {
		*ret_error = mem_printf(
		    "what the service manager handed over is no listening Unix stream socket");
		return -2;
	}
	/* sd_listen_fds has set close-on-exec; accepting must not block either. */
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
		*ret_error = mem_printf("the service manager's socket: %s", strerror(errno));
		return -2;
	}
	return fd;
}

/* Who listens there: "pid 12 (name)". */
static char *
listener_name(int fd)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);
	char name[64] = "", path[64], quoted[LOG_QUOTE_MAX];
	ssize_t len;
	int comm;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0 || cred.pid <= 0)
		return mem_strdup("another process");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)cred.pid);
	comm = open(path, O_RDONLY | O_CLOEXEC);
	len = comm < 0 ? 0 : read(comm, name, sizeof(name));
	if (comm >= 0)
		close(comm);
	if (len > 0 && name[len - 1] == '\n')
		len--;
	return len <= 0
		   ? mem_printf("pid %d", (int)cred.pid)
		   : mem_printf("pid %d (%s)", (int)cred.pid, log_quote(quoted, name, (size_t)len));
}

/*
 * Whether the socket file can be replaced: only a socket whose connect(2) is refused has nobody behind
 * it. A full backlog (EAGAIN) has.
 */
static bool
file_is_stale(const struct sockaddr_un *address, char **ret_error)
{
	struct stat found;
	bool stale = false;
	char *who;
	int fd;

	if (lstat(address->sun_path, &found) != 0) {
		if (errno == ENOENT)
			return true;
		*ret_error = mem_printf("%s: %s", address->sun_path, strerror(errno));
		return false;
	}
	if (!S_ISSOCK(found.st_mode)) {
		*ret_error = mem_printf("%s exists and is no socket", address->sun_path);
		return false;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		*ret_error = mem_printf("socket: %s", strerror(errno));
		return false;
	}
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0) {
		who = listener_name(fd);
		*ret_error = mem_printf("%s: %s listens there already", address->sun_path, who);
		free(who);
	} else if (errno == ECONNREFUSED) {
		stale = true;
	} else if (errno == EAGAIN) {
		*ret_error =
		    mem_printf("%s: another process listens there already", address->sun_path);
	} else {
		*ret_error = mem_printf("%s: %s", address->sun_path, strerror(errno));
	}
	close(fd);
	return stale;
}

/*
 * Two daemons that start at once would both find the file stale, and the second would remove the first
 * one's new one: looking, removing, binding and listening are done under a lock of the folder.
 */
static int
folder_lock(const char *path, char **ret_error)
{
	const struct timespec nap = {.tv_nsec = 10 * NSEC_PER_MSEC};
	char *copy = mem_strdup(path), *folder = dirname(copy);
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), tries = 0;

	if (fd < 0) {
		*ret_error = mem_printf("%s: %s", folder, strerror(errno));
		free(copy);
		return -1;
	}
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno == EWOULDBLOCK && ++tries < FOLDER_LOCK_TRIES) {
			nanosleep(&nap, NULL);
			continue;
		}
		*ret_error = mem_printf("%s: cannot be locked: %s", folder, strerror(errno));
		close(fd);
		fd = -1;
		break;
	}
	free(copy);
	return fd;
}

/* Nobody but us may connect before the file has its group and mode. */
static bool
file_bind(int fd, const struct sockaddr_un *address, char **ret_error)
{
	mode_t mask = umask(0177);
	bool bound = bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;

	if (!bound)
		*ret_error = mem_printf("%s: %s", address->sun_path, strerror(errno));
	umask(mask);
	return bound;
}

static bool
file_open_to(const struct listener_address *address, char **ret_error)
{
	if (address->group[0] != '\0') {
		struct group *group = getgrnam(address->group);

		if (group == NULL) {
			*ret_error =
			    mem_printf("%s: there is no group %s", address->path, address->group);
			return false;
		}
		if (lchown(address->path, (uid_t)-1, group->gr_gid) != 0) {
			*ret_error = mem_printf("%s: giving it to group %s: %s", address->path,
			    address->group, strerror(errno));
			return false;
		}
	}
	if (chmod(address->path, (mode_t)address->mode) != 0) {
		*ret_error = mem_printf("%s: %s", address->path, strerror(errno));
		return false;
	}
	return true;
}

static bool
file_remember(struct listener_file *file, const char *path, char **ret_error)
{
	struct stat made;

	if (lstat(path, &made) != 0) {
		*ret_error = mem_printf("%s: %s", path, strerror(errno));
		return false;
	}
	file->path = mem_strdup(path);
	file->device = made.st_dev;
	file->inode = made.st_ino;
	return true;
}

int
listener_socket_make(
    const struct listener_address *address, struct listener_file *file, char **ret_error)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = -1, folder;

	if (strlen(address->path) >= sizeof(name.sun_path)) {
		*ret_error = mem_printf("%s: longer than the %zu bytes of a socket's path",
		    address->path, sizeof(name.sun_path) - 1);
		return -2;
	}
	memcpy(name.sun_path, address->path, strlen(address->path));
	folder = folder_lock(address->path, ret_error);
	if (folder < 0)
		return -2;
	if (!file_is_stale(&name, ret_error))
		goto fail;
	if (unlink(address->path) != 0 && errno != ENOENT) {
		*ret_error = mem_printf("%s: %s", address->path, strerror(errno));
		goto fail;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		*ret_error = mem_printf("socket: %s", strerror(errno));
		goto fail;
	}
	if (!file_bind(fd, &name, ret_error) || !file_remember(file, address->path, ret_error) ||
	    !file_open_to(address, ret_error))
		goto fail;
	if (listen(fd, BACKLOG) != 0) {
		*ret_error = mem_printf("%s: %s", address->path, strerror(errno));
		goto fail;
	}
	close(folder);
	return fd;
fail:
	listener_file_remove(file);
	if (fd >= 0)
		close(fd);
	close(folder);
	return -2;
}

void
listener_file_remove(struct listener_file *file)
{
	struct stat found;

	if (file->path == NULL)
		return;
	if (lstat(file->path, &found) == 0 && found.st_dev == file->device &&
	    found.st_ino == file->inode && unlink(file->path) != 0)
		log_warning("%s is left behind: %s", file->path, strerror(errno));
	free(file->path);
	file->path = NULL;
}
