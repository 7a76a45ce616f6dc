/*
 * How long a slot takes from its holder's release to the grant of who waits, as the two of them see it
 * on their sockets. Prints medians, in seconds.
 *
 *	handoff NAME ROUNDS MS SOCKET	peers of one daemon, after a rest of MS; each time also an echo of
 *					BYTES over a Unix stream socket, after as long a rest: two medians.
 *					All run on one CPU, where the caller has put the daemon, too
 *	handoff NAME ROUNDS MS SOCKET SOCKET	peers of two daemons
 */
#include <err.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_SIZE 8192
/* Of a release, or of the grant that answers an acquire. */
#define BYTES 200
#define CPU 0
#define PATIENCE 20 /* seconds without an answer */

struct peer {
	int fd;
	char rest[2 * LINE_SIZE]; /* read and not used */
	size_t len;
	char lock[64];
};

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
rest(unsigned ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	if (ms > 0)
		nanosleep(&time, NULL);
}

static void
print_median(double *took, size_t count)
{
	qsort(took, count, sizeof(*took), compare);
	printf("%.9f\n", took[count / 2]);
}

static void
peer_open(struct peer *peer, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path))
		errx(1, "%s: too long", path);
	memcpy(address.sun_path, path, strlen(path));
	peer->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (peer->fd < 0 || connect(peer->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		err(1, "%s", path);
}

static void
send_all(int fd, const char *text, size_t len)
{
	if (write(fd, text, len) != (ssize_t)len)
		err(1, "write");
}

static void
ask(struct peer *peer, const char *method, const char *params)
{
	char line[LINE_SIZE];
	int len = snprintf(
	    line, sizeof(line), "{\"id\":1,\"method\":\"%s\",\"params\":{%s}}\n", method, params);

	send_all(peer->fd, line, (size_t)len);
}

static void
read_line(struct peer *peer, char ret_line[LINE_SIZE])
{
	char *end;
	ssize_t got;

	while ((end = memchr(peer->rest, '\n', peer->len)) == NULL) {
		got = read(peer->fd, peer->rest + peer->len, sizeof(peer->rest) - peer->len);
		if (got <= 0)
			err(1, "read");
		peer->len += (size_t)got;
	}
	snprintf(ret_line, LINE_SIZE, "%.*s", (int)(end - peer->rest), peer->rest);
	peer->len -= (size_t)(end + 1 - peer->rest);
	memmove(peer->rest, end + 1, peer->len);
	if (strstr(ret_line, "\"error\"") != NULL)
		errx(1, "%s", ret_line);
}

/* The next line that holds the text, whatever was told before it. */
static void
read_until(struct peer *peer, const char *text, char ret_line[LINE_SIZE])
{
	do
		read_line(peer, ret_line);
	while (strstr(ret_line, text) == NULL);
}

static void
read_grant(struct peer *peer)
{
	static const char key[] = "\"lock\":\"";
	char line[LINE_SIZE];
	const char *lock;

	read_until(peer, key, line);
	lock = strstr(line, key) + strlen(key);
	snprintf(peer->lock, sizeof(peer->lock), "%.*s", (int)strcspn(lock, "\""), lock);
}

static void
peers_open(struct peer *peers, const char *acquire, const char *first, const char *second)
{
	peer_open(&peers[0], first);
	peer_open(&peers[1], second);
	ask(&peers[0], "acquire", acquire);
	read_grant(&peers[0]);
}

/* The other asks for the lock, and it is told that it waits. */
static void
wait_in_line(struct peer *peer, const char *acquire)
{
	char line[LINE_SIZE];

	ask(peer, "acquire", acquire);
	read_until(peer, "\"waiting\"", line);
}

/* Seconds; the two have changed places then. */
static double
hand_over(struct peer **holder, struct peer **other)
{
	char release[128], line[LINE_SIZE];
	struct peer *swap = *holder;
	double began, took;

	snprintf(release, sizeof(release), "\"lock\":\"%s\"", swap->lock);
	began = now();
	ask(swap, "release", release);
	read_grant(*other);
	took = now() - began;
	read_until(swap, "\"result\"", line);
	*holder = *other;
	*other = swap;
	return took;
}

/* ---- an echo ---- */

/* False: the other end is closed. */
static bool
read_all(int fd, char *buf, size_t bytes)
{
	ssize_t got = 1;

	for (size_t len = 0; len < bytes && got > 0; len += (size_t)got) {
		got = read(fd, buf + len, bytes - len);
		if (got < 0)
			err(1, "read");
	}
	return got > 0;
}

/* The end of a socket at whose other end a process sends back. */
static int
echo_open(void)
{
	char buf[BYTES];
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (child = fork()) < 0)
		err(1, "echo");
	if (child == 0) {
		close(ends[0]);
		while (read_all(ends[1], buf, sizeof(buf)))
			send_all(ends[1], buf, sizeof(buf));
		_exit(0);
	}
	close(ends[1]);
	return ends[0];
}

static double
echo(int fd)
{
	char buf[BYTES] = "";
	double began = now();

	send_all(fd, buf, sizeof(buf));
	if (!read_all(fd, buf, sizeof(buf)))
		errx(1, "no echo");
	return now() - began;
}

/* ---- */

static void
measure(const char *name, size_t rounds, unsigned ms, const char *first, const char *second)
{
	double *took = calloc(rounds, sizeof(*took)), *echoes = calloc(rounds, sizeof(*echoes));
	struct peer *peers = calloc(2, sizeof(*peers)), *holder = &peers[0], *other = &peers[1];
	char acquire[LINE_SIZE];
	int fd = second == NULL ? echo_open() : -1;

	if (took == NULL || echoes == NULL || peers == NULL)
		err(1, "memory");
	snprintf(acquire, sizeof(acquire), "\"name\":\"%s\",\"progress\":true", name);
	peers_open(peers, acquire, first, second == NULL ? first : second);
	for (size_t i = 0; i < rounds; i++) {
		wait_in_line(other, acquire);
		if (fd >= 0) {
			rest(ms);
			echoes[i] = echo(fd);
		}
		rest(ms);
		took[i] = hand_over(&holder, &other);
	}
	print_median(took, rounds);
	if (fd >= 0) {
		print_median(echoes, rounds);
		close(fd);
		wait(NULL);
	}
	free(took);
	free(echoes);
	free(peers);
}

int
main(int argc, char *argv[])
{
	cpu_set_t cpu;
	size_t rounds;
	unsigned ms;

	if (argc != 5 && argc != 6)
		errx(64, "usage: handoff NAME ROUNDS MS SOCKET [SOCKET]");
	rounds = (size_t)atoi(argv[2]);
	ms = (unsigned)atoi(argv[3]);
	CPU_ZERO(&cpu);
	CPU_SET(CPU, &cpu);
	if (argc == 5 && sched_setaffinity(0, sizeof(cpu), &cpu) != 0)
		err(1, "sched_setaffinity");
	alarm(PATIENCE + (unsigned)rounds * (2 * ms + 10) / 1000); /* a hang ends by itself */
	measure(argv[1], rounds, ms, argv[4], argc == 6 ? argv[5] : NULL);
	return 0;
}
