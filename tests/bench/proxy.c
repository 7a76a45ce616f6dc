#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <err.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS_MAX 64
#define CHUNK 65536

/* Bytes on their way. */
struct chunk {
	struct chunk *next;
	double due;
	size_t len;
	char bytes[];
};

struct direction {
	int from, to;
	struct chunk *first, **last;
};

static int
tcp(const struct sockaddr_in *address, bool listens)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
	    (listens ? bind : connect)(fd, (const struct sockaddr *)address, sizeof(*address)) !=
		0 ||
	    (listens && listen(fd, 16) != 0))
		err(1, "the proxy");
	return fd;
}

static void
direction_open(struct direction *direction, int from, int to)
{
	*direction = (struct direction){.from = from, .to = to};
	direction->last = &direction->first;
}

static void
take_in(struct direction *direction, double delay)
{
	struct chunk *chunk = checked_alloc(1, sizeof(*chunk) + CHUNK);
	ssize_t got = read(direction->from, chunk->bytes, CHUNK);

	/* An end is passed on as late as bytes are. */
	chunk->len = got > 0 ? (size_t)got : 0;
	chunk->due = now() + delay;
	*direction->last = chunk;
	direction->last = &chunk->next;
	if (got <= 0)
		direction->from = -1;
}

/* Returns the seconds until the next chunk is due. */
static double
pass_on(struct direction *direction)
{
	struct chunk *chunk;

	while ((chunk = direction->first) != NULL && chunk->due <= now()) {
		if (chunk->len == 0)
			shutdown(direction->to, SHUT_WR);
		else if (send(direction->to, chunk->bytes, chunk->len, MSG_NOSIGNAL) < 0)
			direction->from = -1;
		if ((direction->first = chunk->next) == NULL)
			direction->last = &direction->first;
		free(chunk);
	}
	return chunk == NULL ? 1 : chunk->due - now();
}

void
proxy_run(const char *port, unsigned ms)
{
	struct sockaddr_in mine = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in broker = mine;
	socklen_t len = sizeof(mine);
	struct direction directions[2 * PAIRS_MAX];
	struct pollfd polled[1 + 2 * PAIRS_MAX];
	nfds_t count = 0;

	prctl(PR_SET_TIMERSLACK, 1UL); /* ns; 50 us is usual */
	broker.sin_port = htons((uint16_t)atoi(port));
	polled[0] = (struct pollfd){.fd = tcp(&mine, true), .events = POLLIN};
	getsockname(polled[0].fd, (struct sockaddr *)&mine, &len);
	printf("%u\n", ntohs(mine.sin_port));
	fflush(stdout);
	for (;;) {
		double wait = 1;
		struct timespec timeout = {0};

		for (nfds_t i = 0; i < count; i++) {
			double due = pass_on(&directions[i]);

			if (due < wait)
				wait = due;
			polled[1 + i] = (struct pollfd){.fd = directions[i].from, .events = POLLIN};
		}
		timeout.tv_nsec = wait <= 0 ? 0 : wait >= 1 ? 999999999 : (long)(wait * 1e9);
		if (ppoll(polled, 1 + count, &timeout, NULL) < 0)
			err(1, "poll");
		for (nfds_t i = 0; i < count; i++)
			if (polled[1 + i].revents != 0)
				take_in(&directions[i], ms / 1e3);
		if (polled[0].revents != 0 && count < 2 * PAIRS_MAX) {
			int client = accept(polled[0].fd, NULL, NULL), server = tcp(&broker, false),
			    on = 1;

			setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
			direction_open(&directions[count++], client, server);
			direction_open(&directions[count++], server, client);
		}
	}
}
