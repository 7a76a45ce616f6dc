/*
 * Holds a lock until stdin ends, and says at once when it is lost: liblockbroker in a poll loop of
 * the program's own. Valid C and C++.
 *
 *	cc -o hold hold.c $(pkg-config --cflags --libs lockbroker)
 *	./hold NAME [SECONDS]
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <lockbroker.h>

static int
fail(struct lb *lb, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, lb_message(lb));
	lb_free(lb);
	return 1;
}

/* 1 when stdin has ended, 0 when something else came. */
static int
wait_for_something(struct lb *lb)
{
	struct pollfd fds[2];
	char bytes[256];

	fds[0].fd = lb_fd(lb);
	fds[0].events = lb_poll_events(lb);
	fds[1].fd = STDIN_FILENO;
	fds[1].events = POLLIN;
	if (poll(fds, 2, lb_timeout(lb)) < 0)
		return 0;
	/* Called even without input, because the lease may be over. Errors become events. */
	(void)lb_dispatch(lb);
	return fds[1].revents != 0 && read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0;
}

int
main(int argc, char *argv[])
{
	struct lb_options options = LB_OPTIONS_INIT;
	const struct lb_event *event;
	struct lb_lock *lock;
	struct lb *lb;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: hold NAME [SECONDS]\n");
		return 64;
	}
	options.why = "an example";
	if (argc == 3)
		options.timeout_ms = atoi(argv[2]) * 1000;
	lb = lb_new();
	if (lb == NULL || lb_connect(lb, NULL, 5000) != LB_OK)
		return fail(lb, "connect");
	if (lb_acquire(lb, argv[1], &options, &lock) != LB_OK)
		return fail(lb, argv[1]);
	printf("holding slot %d of %s\n", lb_lock_slot(lock), lb_lock_name(lock));
	fflush(stdout);
	while (!wait_for_something(lb)) {
		while ((event = lb_event_next(lb)) != NULL) {
			if (event->type == LB_EVENT_LOST) {
				printf("lost: %s\n", event->reason);
				fflush(stdout);
				lb_free(lb);
				return 2;
			}
		}
	}
	if (lb_release(lock, 5000) != LB_OK)
		return fail(lb, "release");
	printf("released\n");
	lb_free(lb);
	return 0;
}
