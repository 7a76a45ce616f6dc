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
#define CONFIG_PATH "/proc/self/fd/4"

/* ---- the URL ---- */

static bool
read_file(const char *path, char url[URL_SIZE])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = -1;
	struct stat status;
	size_t len = 0;

	while (fd >= 0 && len < URL_SIZE - 1 &&
	       ((got = read(fd, url + len, URL_SIZE - 1 - len)) > 0 || (got < 0 && errno == EINTR)))
		len += got > 0 ? (size_t)got : 0;
	url[len] = '\0';
	if (fd < 0 || got < 0)
		say("%s: %m", path);
	else if (strchr(url, '@') != NULL && fstat(fd, &status) == 0 &&
		 (status.st_mode & S_IROTH) != 0)
		say("%s: every user of this host can read the password in this file; to close it: "
		    "chmod 600 %s",
		    path, path);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && got >= 0;
}

/* Neither the daemon nor COMMAND inherits the variable with the password. */
static bool
take_variable(const char *name, char url[URL_SIZE])
{
	const char *value = getenv(name);

	if (value == NULL) {
		say("%s: this environment variable is not set", name);
		return false;
	}
	snprintf(url, URL_SIZE, "%s", value);
	unsetenv(name);
	return true;
}

/* Where the URL comes from, for messages. */
static const char *
url_source(const struct tool_options *options)
{
	return options->broker_file != NULL ? options->broker_file : options->broker_env;
}

/* The URLs on one line. The daemon checks them. */
static bool
get_url(const struct tool_options *options, char url[URL_SIZE])
{
	size_t len;

	if (options->broker_file != NULL ? !read_file(options->broker_file, url)
					 : !take_variable(options->broker_env, url))
		return false;
	len = strlen(url);
	while (len > 0 && strchr(" \t\r\n", url[len - 1]) != NULL)
		url[--len] = '\0';
	if (len == 0 || len == URL_SIZE - 1 || strpbrk(url, "\r\n") != NULL) {
		say("%s: expected the URL of a broker, on one line of less than %d bytes",
		    url_source(options), URL_SIZE - 1);
		return false;
	}
	return true;
}

/* A file without a name: the URL has a password, and other users can read a command line. */
static bool
make_config(const struct tool_options *options, int *ret_fd)
{
	char url[URL_SIZE];
	bool ok = false;

	if (get_url(options, url)) {
		*ret_fd = memfd_create("lockbrokerd.conf", MFD_CLOEXEC);
		ok = *ret_fd >= 0 && fchmod(*ret_fd, S_IRUSR | S_IWUSR) == 0 &&
		     dprintf(*ret_fd, "broker = %s\n", url) > 0;
		if (!ok)
			say("the configuration of lockbrokerd: %m");
	}
	explicit_bzero(url, sizeof(url));
	return ok;
}

/* ---- the daemon ---- */

/* The socket listens before the daemon runs, as that of a socket unit: nobody has to wait for it. */
static bool
make_socket(struct private_daemon *daemon)
{
	static const char name[] = "/lockbroker-XXXXXX";
	const char *parent = getenv("XDG_RUNTIME_DIR");

	/* In a longer path, the socket would not fit into its address. */
	if (parent == NULL || *parent != '/' || access(parent, W_OK) != 0 ||
	    strlen(parent) > sizeof(daemon->folder) - sizeof(name) - strlen("/s"))
		parent = "/tmp";
	daemon->address.sun_family = AF_UNIX;
	snprintf(daemon->folder, sizeof(daemon->folder), "%s%s", parent, name);
	if (mkdtemp(daemon->folder) == NULL) {
		say("%s: %m", daemon->folder);
		daemon->folder[0] = '\0';
		return false;
	}
	snprintf(daemon->address.sun_path, sizeof(daemon->address.sun_path), "%.*s/s",
	    (int)sizeof(daemon->address.sun_path) - 3, daemon->folder);
	daemon->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (daemon->listener >= 0 &&
	    bind(daemon->listener, (struct sockaddr *)&daemon->address, sizeof(daemon->address)) ==
		0 &&
	    listen(daemon->listener, SOMAXCONN) == 0)
		return true;
	say("%s: %m", daemon->address.sun_path);
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

/*
 * In the daemon's process. It ends with this command, even if that is killed. messages: a descriptor for
 * its standard error.
 */
static _Noreturn void
become_daemon(const struct private_daemon *daemon, pid_t parent, const struct signals *signals,
    char *argv[], int messages)
{
	char pid[16];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* Both are moved away first: each may have the number of the other. */
	int listener = fcntl(daemon->listener, F_DUPFD, CONFIG_FD + 1);
	int config = fcntl(daemon->config, F_DUPFD, CONFIG_FD + 1);

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent && setsid() >= 0 &&
	    dup2(null, STDIN_FILENO) == STDIN_FILENO &&
	    dup2(messages, STDERR_FILENO) == STDERR_FILENO &&
	    dup2(listener, LISTEN_FD) == LISTEN_FD && dup2(config, CONFIG_FD) == CONFIG_FD &&
	    setenv("LISTEN_FDS", "1", 1) == 0 && setenv("LISTEN_PID", pid, 1) == 0 &&
	    unsetenv("LISTEN_FDNAMES") == 0 && unsetenv("NOTIFY_SOCKET") == 0 &&
	    unsetenv("WATCHDOG_USEC") == 0) {
		close_range(CONFIG_FD + 1, ~0U, 0);
		signals_restore(signals);
		execute(argv);
	}
	dprintf(STDERR_FILENO, "lockbrokerd: %s\n", strerror(errno));
	_exit(EXIT_STATUS_NOT_FOUND);
}

static bool
start(struct private_daemon *daemon, const struct signals *signals, char *argv[], int messages)
{
	pid_t parent = getpid();

	daemon->pid = fork();
	if (daemon->pid == 0)
		become_daemon(daemon, parent, signals, argv, messages);
	if (daemon->pid < 0)
		say("fork: %m");
	return daemon->pid > 0;
}

/* Waits for its end. Returns its exit status; -1: it was killed, or there is none. */
static int
reap(struct private_daemon *daemon)
{
	int status = -1;

	while (waitpid(daemon->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	daemon->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The daemon's messages, but with the source of the URL instead of the file that only the daemon has. */
static void
say_refusal_of_url(char *text, const char *source)
{
	static const char place[] = "lockbrokerd: " CONFIG_PATH ":1: broker: ";
	char *rest = text;

	for (char *line; (line = strsep(&rest, "\n")) != NULL;)
		if (strncmp(line, place, strlen(place)) == 0)
			say("%s: %s", source, line + strlen(place));
		else if (*line != '\0')
			say("%s", line);
}

/* Has a first daemon check the URL, as only the daemon can. Returns an exit status. */
static int
check_url(struct private_daemon *daemon, const struct signals *signals, const char *source)
{
	char *argv[] = {"lockbrokerd", "--config", CONFIG_PATH, "--check-config", NULL};
	char text[4096];
	size_t len = 0;
	ssize_t got = 1;
	int ends[2], status = -1;

	if (pipe2(ends, O_CLOEXEC) != 0) {
		say("pipe: %m");
		return EXIT_STATUS_INTERNAL;
	}
	if (start(daemon, signals, argv, ends[1])) {
		close(ends[1]);
		ends[1] = -1;
		while (len < sizeof(text) - 1 && got > 0 &&
		       (got = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0)
			len += (size_t)got;
		status = reap(daemon);
		if (status < 0)
			say("lockbrokerd was killed while it checked the URL");
	}
	text[len] = '\0';
	if (status != EXIT_STATUS_OK)
		say_refusal_of_url(text, source);
	close(ends[0]);
	close(ends[1]);
	return status >= 0 ? status : EXIT_STATUS_INTERNAL;
}

/* ---- outside ---- */

int
private_daemon_start(
    struct private_daemon *daemon, struct tool_options *options, struct signals *signals)
{
	char *argv[] = {"lockbrokerd", "--config", CONFIG_PATH, "--log-level", "warning", NULL};
	int status = EXIT_STATUS_INTERNAL;

	daemon->listener = daemon->config = -1;
	if (!make_config(options, &daemon->config))
		return EXIT_STATUS_USAGE;
	/* From here on a signal must not keep this process from tidying up. */
	if (!signals_hold(signals))
		say("signals: %m");
	else if (make_socket(daemon) &&
		 (status = check_url(daemon, signals, url_source(options))) == EXIT_STATUS_OK)
		status = start(daemon, signals, argv, STDERR_FILENO) ? EXIT_STATUS_OK
								     : EXIT_STATUS_INTERNAL;
	/* If the daemon ends, the socket ends with it. */
	close(daemon->listener);
	close(daemon->config);
	options->socket = daemon->address.sun_path;
	if (status != EXIT_STATUS_OK)
		private_daemon_stop(daemon);
	return status;
}

void
private_daemon_hide(struct private_daemon *daemon)
{
	if (daemon->folder[0] == '\0')
		return;
	unlink(daemon->address.sun_path);
	rmdir(daemon->folder);
	daemon->folder[0] = '\0';
}

void
private_daemon_stop(struct private_daemon *daemon)
{
	if (daemon->pid > 0) {
		kill(daemon->pid, SIGTERM);
		(void)reap(daemon);
	}
	private_daemon_hide(daemon);
}
