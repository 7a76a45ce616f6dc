#include "daemon/peer/listener_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
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
#define LOCK_TRIES 200 /* of 10 ms */

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
 * one's new one: looking, removing, binding and listening are done under a lock. The lock is a file that
 * no other user can open: any process that can read the folder itself could lock that, and keep the lock.
 * The daemon removes the file before it lets go, so a lock on a file without a name is void.
 */
static int
start_lock(const char *path, char **ret_error)
{
	const struct timespec nap = {.tv_nsec = 10 * NSEC_PER_MSEC};
	struct stat found = {0};
	bool locked;
	int fd;

	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0) {
			*ret_error = mem_printf("%s: %s", path, strerror(errno));
			return -1;
		}
		locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
		if (fstat(fd, &found) == 0 && found.st_uid != geteuid()) {
			*ret_error =
			    mem_printf("%s: belongs to uid %u", path, (unsigned)found.st_uid);
			close(fd);
			return -1;
		}
		if (locked && found.st_nlink > 0)
			return fd;
		close(fd);
		nanosleep(&nap, NULL);
	}
	*ret_error = mem_printf("%s: another process keeps it locked", path);
	return -1;
}

/* The file has its mode from the start. Its group comes later: before listen(2) nobody can connect. */
static bool
file_bind(
    int fd, const struct sockaddr_un *address, const struct listener_address *to, char **ret_error)
{
	mode_t mask = umask(0777 & ~(mode_t)to->mode);
	bool bound = bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;

	if (!bound)
		*ret_error = mem_printf("%s: %s", address->sun_path, strerror(errno));
	umask(mask);
	return bound;
}

static bool
file_give(int file, const struct listener_address *address, char **ret_error)
{
	struct group *group;

	if (address->group[0] == '\0')
		return true;
	group = getgrnam(address->group);
	if (group == NULL) {
		*ret_error = mem_printf("%s: there is no group %s", address->path, address->group);
		return false;
	}
	if (fchownat(file, "", (uid_t)-1, group->gr_gid, AT_EMPTY_PATH) != 0) {
		*ret_error = mem_printf("%s: giving it to group %s: %s", address->path,
		    address->group, strerror(errno));
		return false;
	}
	return true;
}

/*
 * By a descriptor, which stays with the file: a process that may write to the folder can put another one
 * in its place at any time.
 */
static bool
file_take(struct listener_file *file, const struct listener_address *address, char **ret_error)
{
	int fd = open(address->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat made;
	bool given;

	if (fd < 0 || fstat(fd, &made) != 0 || !S_ISSOCK(made.st_mode) ||
	    made.st_uid != geteuid() || made.st_nlink != 1) {
		*ret_error = mem_printf("%s is not the socket that was made", address->path);
		if (fd >= 0)
			close(fd);
		return false;
	}
	file->path = mem_strdup(address->path);
	file->device = made.st_dev;
	file->inode = made.st_ino;
	given = file_give(fd, address, ret_error);
	close(fd);
	return given;
}

/* Under the lock. */
static int
make_alone(const struct sockaddr_un *name, const struct listener_address *address,
    struct listener_file *file, char **ret_error)
{
	int fd;

	if (!file_is_stale(name, ret_error))
		return -2;
	if (unlink(address->path) != 0 && errno != ENOENT) {
		*ret_error = mem_printf("%s: %s", address->path, strerror(errno));
		return -2;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		*ret_error = mem_printf("socket: %s", strerror(errno));
		return -2;
	}
	if (file_bind(fd, name, address, ret_error) && file_take(file, address, ret_error)) {
		if (listen(fd, BACKLOG) == 0)
			return fd;
		*ret_error = mem_printf("%s: %s", address->path, strerror(errno));
	}
	listener_file_remove(file);
	close(fd);
	return -2;
}

int
listener_socket_make(
    const struct listener_address *address, struct listener_file *file, char **ret_error)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = -2, lock;
	char *lock_path;

	if (strlen(address->path) >= sizeof(name.sun_path)) {
		*ret_error = mem_printf("%s: longer than the %zu bytes of a socket's path",
		    address->path, sizeof(name.sun_path) - 1);
		return -2;
	}
	memcpy(name.sun_path, address->path, strlen(address->path));
	lock_path = mem_printf("%s.lock", address->path);
	lock = start_lock(lock_path, ret_error);
	if (lock >= 0) {
		fd = make_alone(&name, address, file, ret_error);
		unlink(lock_path);
		close(lock);
	}
	free(lock_path);
	return fd;
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
