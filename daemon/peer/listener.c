#include "daemon/peer/listener.h"

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

#include <event2/event.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/log.h"
#include "daemon/base/mem.h"

/*
 * Contents:
 *	The socket: socket_inherit(): a socket of the service manager. socket_file_is_stale(): whether an old
 *	   socket file may be replaced. listener_socket_make(): a new file, its group and its mode.
 *	Accepting: listener_accept(): new clients, and a pause without descriptors. listener_open(),
 *	   listener_restore(): from a socket to a listener. listener_close(), listener_turn_away(): its end.
 */

/*
 * Limit of one pass, so that present peers have their turn, too.
 */
#define ACCEPTS_A_PASS 64
/* Out of file descriptors: the backlog waits so long before the next try. */
#define PAUSE (100 * NSEC_PER_MSEC)
#define BACKLOG 4096
#define LOCK_TRIES 200 /* of 10 ms */

struct listener {
	struct event_base *base; /* borrowed */
	struct timers *timers;   /* borrowed */
	void (*accepted)(void *ctx, int fd);
	void *ctx; /* borrowed */

	int fd;              /* -1 = closed */
	struct event *event; /* owned; NULL when closed */
	struct timer resume; /* set while pausing */
	bool complained;     /* of a shortage that is not over yet */
	struct listener_file file;
};

/* ---- the socket ---- */

/*
 * Accepting must not block. systemd clears O_NONBLOCK of a unit's sockets at each start of its
 * service. False and *ret_error.
 */
static bool
socket_accept_at_once(int fd, char **ret_error)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0)
		return true;
	*ret_error = mem_printf("the socket for clients: %s", strerror(errno));
	return false;
}

/*
 * Returns the socket that the service manager passed, or -1 if it passed none. Returns -2 and sets
 * *ret_error if it passed something else than one listening Unix stream socket.
 */
static int
socket_inherit(char **ret_error)
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
		    mem_printf("the service manager handed over %d sockets, expected one", count);
		return -2;
	}
	if (sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) <= 0) {
		*ret_error = mem_printf(
		    "the service manager did not hand over a listening Unix stream socket");
		return -2;
	}
	/* sd_listen_fds has set close-on-exec. */
	return socket_accept_at_once(fd, ret_error) ? fd : -2;
}

/* The process that listens: "pid 12 (name)". */
static char *
socket_listener_name(int fd)
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
 * Whether the socket file can be replaced: only a socket whose connect(2) is refused has nobody
 * behind it. A full backlog (EAGAIN) has.
 */
static bool
socket_file_is_stale(const struct sockaddr_un *address, char **ret_error)
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
		*ret_error = mem_printf("%s exists and is not a socket", address->sun_path);
		return false;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		*ret_error = mem_printf("socket: %s", strerror(errno));
		return false;
	}
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0) {
		who = socket_listener_name(fd);
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
 * Two daemons that start at once would both find the file stale. The second would then remove the
 * first one's new file. Therefore one lock covers the check, the removal, the bind and the listen.
 * The lock is a file that no other user can open. Any process that can read the folder could lock
 * the folder itself, and keep the lock. The daemon removes the file before it releases the lock, so
 * a lock on a file without a name is void.
 */
static int
socket_start_lock(const char *path, char **ret_error)
{
	const struct timespec nap = {.tv_nsec = 10 * NSEC_PER_MSEC};
	struct stat found = {0};
	bool locked;
	int fd;

	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno == ENOENT)
			*ret_error = mem_printf("%.*s: there is no such folder for the socket",
			    (int)(strrchr(path, '/') - path), path);
		else if (fd < 0)
			*ret_error = mem_printf("%s: %s", path, strerror(errno));
		if (fd < 0)
			return -1;
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

/*
 * Uses a descriptor, which stays with the file. A process that may write to the folder can replace
 * the file at any time.
 */
static bool
socket_file_take(
    struct listener_file *file, const struct listener_address *address, char **ret_error)
{
	int fd = open(address->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	const struct group *group = NULL;
	bool given = false;
	struct stat made;

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
	if (address->group[0] != '\0')
		group = getgrnam(address->group);
	if (address->group[0] != '\0' && group == NULL)
		*ret_error =
		    mem_printf("%s: group %s does not exist", address->path, address->group);
	else if (group != NULL && fchownat(fd, "", (uid_t)-1, group->gr_gid, AT_EMPTY_PATH) != 0)
		*ret_error = mem_printf("%s: cannot change the group to %s: %s", address->path,
		    address->group, strerror(errno));
	else
		given = true;
	close(fd);
	return given;
}

void
listener_file_remove(struct listener_file *file)
{
	struct stat found;

	if (file->path == NULL)
		return;
	if (lstat(file->path, &found) == 0 && found.st_dev == file->device &&
	    found.st_ino == file->inode && unlink(file->path) != 0)
		log_warning("%s is not removed: %s", file->path, strerror(errno));
	free(file->path);
	file->path = NULL;
}

/* Under the lock. */
static int
socket_make_alone(const struct sockaddr_un *name, const struct listener_address *address,
    struct listener_file *file, char **ret_error)
{
	mode_t mask;
	bool bound;
	int fd;

	if (!socket_file_is_stale(name, ret_error))
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
	/*
	 * The file has its mode from the start. Its group comes later: before listen(2) nobody can
	 * connect.
	 */
	mask = umask(0777 & ~(mode_t)address->mode);
	bound = bind(fd, (const struct sockaddr *)name, sizeof(*name)) == 0;
	if (!bound)
		*ret_error = mem_printf("%s: %s", address->path, strerror(errno));
	umask(mask);
	if (bound && socket_file_take(file, address, ret_error)) {
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
		*ret_error = mem_printf("%s: longer than the %zu bytes of a socket path",
		    address->path, sizeof(name.sun_path) - 1);
		return -2;
	}
	memcpy(name.sun_path, address->path, strlen(address->path));
	lock_path = mem_printf("%s.lock", address->path);
	lock = socket_start_lock(lock_path, ret_error);
	if (lock >= 0) {
		fd = socket_make_alone(&name, address, file, ret_error);
		unlink(lock_path);
		close(lock);
	}
	free(lock_path);
	return fd;
}

/* ---- accepting ---- */

static void
listener_resume(void *ctx, uint64_t id)
{
	struct listener *listener = ctx;

	(void)id;
	event_add(listener->event, NULL);
}

struct listener *
listener_new(
    struct event_base *base, struct timers *timers, void (*accepted)(void *ctx, int fd), void *ctx)
{
	struct listener *listener = mem_alloc(sizeof(*listener));

	listener->base = base;
	listener->timers = timers;
	listener->accepted = accepted;
	listener->ctx = ctx;
	listener->fd = -1;
	timer_init(&listener->resume, listener_resume, listener, 0);
	return listener;
}

/* A shortage of file descriptors or memory: the socket stays readable, so looking must stop. */
static void
listener_pause(struct listener *listener, int why)
{
	if (!listener->complained)
		log_warning("no client can be accepted now: %s", strerror(why));
	listener->complained = true;
	event_del(listener->event);
	timers_set(
	    listener->timers, &listener->resume, clock_now(timers_clock(listener->timers)) + PAUSE);
}

static void
listener_accept(evutil_socket_t fd, short what, void *ctx)
{
	struct listener *listener = ctx;

	(void)what;
	for (int taken = 0; taken < ACCEPTS_A_PASS; taken++) {
		int peer = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (peer >= 0) {
			if (listener->complained)
				log_info("clients are accepted again");
			listener->complained = false;
			listener->accepted(listener->ctx, peer);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN)
			return;
		listener_pause(listener, errno);
		return;
	}
}

/* Its own name: one that was handed over need not be the configuration's. */
static void
listener_tell_socket(int fd, bool inherited)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(name);
	char quoted[LOG_QUOTE_MAX];

	if (getsockname(fd, (struct sockaddr *)&name, &size) != 0)
		return;
	log_info("listening at %s%s",
	    log_quote(quoted, name.sun_path, strnlen(name.sun_path, sizeof(name.sun_path))),
	    inherited ? ", the service manager's socket" : "");
}

static bool
listener_watch_socket(struct listener *listener, int fd, char **ret_error)
{
	listener->fd = fd;
	listener->event =
	    event_new(listener->base, fd, EV_READ | EV_PERSIST, listener_accept, listener);
	if (listener->event != NULL && event_add(listener->event, NULL) == 0)
		return true;
	*ret_error = mem_printf("the event loop does not accept the socket");
	listener_close(listener);
	return false;
}

bool
listener_open(struct listener *listener, const struct listener_address *address, char **ret_error)
{
	int fd = socket_inherit(ret_error);
	bool inherited = fd >= 0;

	if (fd == -1)
		fd = listener_socket_make(address, &listener->file, ret_error);
	if (fd < 0 || !listener_watch_socket(listener, fd, ret_error))
		return false;
	listener_tell_socket(fd, inherited);
	return true;
}

int
listener_save(const struct listener *listener, struct listener_file *ret_file)
{
	*ret_file = listener->file;
	return listener->fd;
}

bool
listener_restore(
    struct listener *listener, int fd, const struct listener_file *file, char **ret_error)
{
	int passed = socket_inherit(ret_error);

	if (passed >= 0) {
		close(fd);
		return listener_watch_socket(listener, passed, ret_error);
	}
	listener->file = *file;
	listener->file.path = mem_strdup(file->path);
	return passed == -1 && socket_accept_at_once(fd, ret_error) &&
	       listener_watch_socket(listener, fd, ret_error);
}

void
listener_close(struct listener *listener)
{
	if (listener->fd < 0)
		return;
	timers_cancel(listener->timers, &listener->resume);
	if (listener->event != NULL)
		event_free(listener->event);
	listener->event = NULL;
	/* Removes the file first: a client that finds the file must find a listener. */
	listener_file_remove(&listener->file);
	close(listener->fd);
	listener->fd = -1;
}

void
listener_turn_away(void)
{
	char *error = NULL;
	int fd = socket_inherit(&error);

	free(error);
	for (int taken = 0; fd >= 0 && taken < BACKLOG; taken++) {
		int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (peer < 0)
			return;
		close(peer);
	}
}

void
listener_free(struct listener *listener)
{
	if (listener == NULL)
		return;
	listener_close(listener);
	free(listener);
}
