/*
 * How long a slot takes from its holder's release to the grant of who waits, as the two of them see it
 * on their sockets; and what an echo of as many bytes takes. Prints the median, in seconds.
 *
 *	handoff NAME ROUNDS SOCKET SOCKET	peers of two daemons, or of one (the same socket twice)
 *	handoff echo ROUNDS BYTES		a Unix stream socket and a process that sends back
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_SIZE 8192
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

/* Between rounds: who waits is known to the broker by then. The echo rests as long: it wakes as cold. */
static void
rest(void)
{
	struct timespec moment = {.tv_nsec = 20000000};

	nanosleep(&moment, NULL);
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

/* The next line that is the answer to a request, whatever was told before it. */
static void
read_answer(struct peer *peer, char ret_line[LINE_SIZE])
{
	for (;;) {
		char *end = memchr(peer->rest, '\n', peer->len);
		ssize_t got;

		if (end == NULL) {
			got =
			    read(peer->fd, peer->rest + peer->len, sizeof(peer->rest) - peer->len);
			if (got <= 0)
				err(1, "read");
			peer->len += (size_t)got;
			continue;
		}
		snprintf(ret_line, LINE_SIZE, "%.*s", (int)(end - peer->rest), peer->rest);
		peer->len -= (size_t)(end + 1 - peer->rest);
		memmove(peer->rest, end + 1, peer->len);
		if (strstr(ret_line, "\"error\"") != NULL)
			errx(1, "%s", ret_line);
		if (strstr(ret_line, "\"id\"") != NULL && strstr(ret_line, "\"result\"") != NULL)
			return;
	}
}

static void
read_grant(struct peer *peer)
{
	static const char key[] = "\"lock\":\"";
	char line[LINE_SIZE];
	const char *lock;

	read_answer(peer, line);
	lock = strstr(line, key);
	if (lock == NULL)
		errx(1, "no grant: %s", line);
	lock += strlen(key);
	snprintf(peer->lock, sizeof(peer->lock), "%.*s", (int)strcspn(lock, "\""), lock);
}

/* Returns when the peer stands in the daemon's line: what it asks next is answered behind it. */
static void
wait_in_line(struct peer *peer, const char *acquire)
{
	char line[LINE_SIZE];

	ask(peer, "acquire", acquire);
	/* Answered at once, as nothing waits for it; the acquire's own answer cannot come before. */
	send_all(peer->fd, "{\"id\":2,\"method\":\"ping\"}\n",
	    strlen("{\"id\":2,\"method\":\"ping\"}\n"));
	read_answer(peer, line);
}

static void
measure_handoff(const char *name, size_t rounds, const char *first, const char *second)
{
	double *took = calloc(rounds, sizeof(*took));
	struct peer *peers = calloc(2, sizeof(*peers)), *holder = &peers[0], *other = &peers[1];
	char acquire[LINE_SIZE], release[128], line[LINE_SIZE];

	if (took == NULL || peers == NULL)
		err(1, "memory");
	snprintf(acquire, sizeof(acquire), "\"name\":\"%s\"", name);
	peer_open(holder, first);
	peer_open(other, second);
	ask(holder, "acquire", acquire);
	read_grant(holder);
	for (size_t i = 0; i < rounds; i++) {
		struct peer *swap = holder;
		double began;

		wait_in_line(other, acquire);
		rest();
		snprintf(release, sizeof(release), "\"lock\":\"%s\"", holder->lock);
		began = now();
		ask(holder, "release", release);
		read_grant(other);
		took[i] = now() - began;
		read_answer(holder, line);
		holder = other;
		other = swap;
	}
	print_median(took, rounds);
	free(took);
	free(peers);
}

static void
send_back(int fd, size_t bytes)
{
	char buf[LINE_SIZE];

	for (;;) {
		for (size_t len = 0; len < bytes;) {
			ssize_t got = read(fd, buf + len, bytes - len);

			if (got <= 0)
				_exit(0);
			len += (size_t)got;
		}
		send_all(fd, buf, bytes);
	}
}

static void
measure_echo(size_t rounds, size_t bytes)
{
	double *took = calloc(rounds, sizeof(*took));
	char buf[LINE_SIZE] = "";
	int ends[2];
	pid_t child;

	if (took == NULL || bytes > sizeof(buf) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		err(1, "echo");
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (child == 0) {
		close(ends[0]);
		send_back(ends[1], bytes);
	}
	close(ends[1]);
	for (size_t i = 0; i < rounds; i++) {
		double began;

		rest();
		began = now();
		send_all(ends[0], buf, bytes);
		for (size_t len = 0; len < bytes;) {
			ssize_t got = read(ends[0], buf + len, bytes - len);

			if (got <= 0)
				err(1, "read");
			len += (size_t)got;
		}
		took[i] = now() - began;
	}
	close(ends[0]);
	waitpid(child, NULL, 0);
	print_median(took, rounds);
	free(took);
}

int
main(int argc, char *argv[])
{
	alarm(PATIENCE + (argc > 2 ? (unsigned)atoi(argv[2]) / 10 : 0)); /* a hang ends by itself */
	if (argc == 4 && strcmp(argv[1], "echo") == 0)
		measure_echo((size_t)atoi(argv[2]), (size_t)atoi(argv[3]));
	else if (argc == 5)
		measure_handoff(argv[1], (size_t)atoi(argv[2]), argv[3], argv[4]);
	else
		errx(64, "usage: handoff NAME ROUNDS SOCKET SOCKET | handoff echo ROUNDS BYTES");
	return 0;
}
