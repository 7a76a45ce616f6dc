#include "client/private_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/exit_status.h"
#include "client/tool/output.h"
#include "client/tool/signals.h"

/* Bytes of the URLs, with the NUL. */
#define URL_SIZE 4096
/* sd_listen_fds(3): the first descriptor of a socket unit. The configuration follows. */
#define LISTEN_FD 3
#define CONFIG_FD 4

/* ---- the URL ---- */

static bool
read_file(const char *path, char url[URL_SIZE])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = -1;
	size_t len = 0;

	while (fd >= 0 && len < URL_SIZE - 1 &&
	       ((got = read(fd, url + len, URL_SIZE - 1 - len)) > 0 || (got < 0 && errno == EINTR)))
		len += got > 0 ? (size_t)got : 0;
	url[len] = '\0';
	if (fd < 0 || got < 0)
		say("run: %s: %m", path);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && got >= 0;
}

/* The URLs on one line. The daemon checks them. */
static bool
get_url(const struct options *options, char url[URL_SIZE])
{
	const char *source = options->broker_file, *value;
	size_t len;

	if (source != NULL) {
		if (!read_file(source, url))
			return false;
	} else {
		source = options->broker_env;
		value = getenv(source);
		snprintf(url, URL_SIZE, "%s", value != NULL ? value : "");
	}
	len = strlen(url);
	while (len > 0 && strchr(" \t\r\n", url[len - 1]) != NULL)
		url[--len] = '\0';
	if (len == 0 || len == URL_SIZE - 1 || strpbrk(url, "\r\n") != NULL) {
		say("run: %s: expected the URL of a broker, on one line of less than %d bytes",
		    source, URL_SIZE - 1);
		return false;
	}
	return true;
}

/* A file without a name: the URL has a password, and other users can read a command line. */
static bool
make_config(const struct options *options, int *ret_fd)
{
	char url[URL_SIZE];
	bool ok = false;

	if (get_url(options, url)) {
		*ret_fd = memfd_create("lockbrokerd.conf", MFD_CLOEXEC);
		ok = *ret_fd >= 0 && fchmod(*ret_fd, S_IRUSR | S_IWUSR) == 0 &&
		     dprintf(*ret_fd, "broker = %s\n", url) > 0;
		if (!ok)
			say("run: %m");
	}
	explicit_bzero(url, sizeof(url));
	return ok;
}

/* ---- the daemon ---- */

/* The socket listens before the daemon runs, as that of a socket unit: nobody has to wait for it. */
static bool
make_socket(struct private_daemon *daemon)
{
	const char *parent = getenv("XDG_RUNTIME_DIR");

	if (parent == NULL || *parent != '/' || access(parent, W_OK) != 0)
		parent = "/tmp";
	daemon->address.sun_family = AF_UNIX;
	snprintf(daemon->folder, sizeof(daemon->folder) - 2, "%.80s/lockbroker-XXXXXX", parent);
	if (mkdtemp(daemon->folder) == NULL) {
		say("run: %s: %m", daemon->folder);
		daemon->folder[0] = '\0';
		return false;
	}
	snprintf(
	    daemon->address.sun_path, sizeof(daemon->address.sun_path), "%.100s/s", daemon->folder);
	daemon->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (daemon->listener >= 0 &&
	    bind(daemon->listener, (struct sockaddr *)&daemon->address, sizeof(daemon->address)) ==
		0 &&
	    listen(daemon->listener, SOMAXCONN) == 0)
		return true;
	say("run: %s: %m", daemon->address.sun_path);
	return false;
}

/* Beside this program, in ../sbin, or in $PATH. */
static void
execute(char *argv[])
{
	static const char *const places[] = {"lockbrokerd", "../sbin/lockbrokerd"};
	char self[PATH_MAX], path[PATH_MAX + 32];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len > 0) {
		self[len] = '\0';
		*(strrchr(self, '/') + 1) = '\0';
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			snprintf(path, sizeof(path), "%s%s", self, places[i]);
			execv(path, argv);
		}
	}
	execvp(argv[0], argv);
}

/* In the daemon's process. It ends with this command, even if that is killed. */
static _Noreturn void
become_daemon(const struct private_daemon *daemon, pid_t parent, const struct signals *signals)
{
	char *argv[] = {
	    "lockbrokerd", "--config", "/proc/self/fd/4", "--log-level", "warning", NULL};
	char pid[16];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* Both are moved away first: each may have the number of the other. */
	int listener = fcntl(daemon->listener, F_DUPFD, CONFIG_FD + 1);
	int config = fcntl(daemon->config, F_DUPFD, CONFIG_FD + 1);

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent && setsid() >= 0 &&
	    dup2(null, STDIN_FILENO) == STDIN_FILENO && dup2(listener, LISTEN_FD) == LISTEN_FD &&
	    dup2(config, CONFIG_FD) == CONFIG_FD && setenv("LISTEN_FDS", "1", 1) == 0 &&
	    setenv("LISTEN_PID", pid, 1) == 0 && unsetenv("LISTEN_FDNAMES") == 0 &&
	    unsetenv("NOTIFY_SOCKET") == 0 && unsetenv("WATCHDOG_USEC") == 0) {
		close_range(CONFIG_FD + 1, ~0U, 0);
		signals_restore(signals);
		execute(argv);
	}
	say("lockbrokerd: %m");
	_exit(EXIT_STATUS_NOT_FOUND);
}

/* ---- outside ---- */

int
private_daemon_start(
    struct private_daemon *daemon, struct options *options, struct signals *signals)
{
	pid_t parent = getpid();

	daemon->listener = daemon->config = -1;
	if (!make_config(options, &daemon->config))
		return EXIT_STATUS_USAGE;
	/* From here on a signal must not keep this process from tidying up. */
	if (!signals_hold(signals))
		say("signals: %m");
	else if (make_socket(daemon) && (daemon->pid = fork()) == 0)
		become_daemon(daemon, parent, signals);
	else if (daemon->pid < 0)
		say("fork: %m");
	/* If the daemon ends, the socket ends with it. */
	close(daemon->listener);
	close(daemon->config);
	options->socket = daemon->address.sun_path;
	if (daemon->pid > 0)
		return EXIT_STATUS_OK;
	private_daemon_stop(daemon);
	return EXIT_STATUS_INTERNAL;
}

void
private_daemon_stop(struct private_daemon *daemon)
{
	if (daemon->pid > 0) {
		kill(daemon->pid, SIGTERM);
		while (waitpid(daemon->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	if (daemon->folder[0] != '\0') {
		unlink(daemon->address.sun_path);
		rmdir(daemon->folder);
	}
}
