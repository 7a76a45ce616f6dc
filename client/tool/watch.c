#include "client/tool/watch.h"

#include <poll.h>
#include <time.h>

/* poll() does not count time asleep: one look a minute bounds how late the deadline is seen. */
#define SLEEP_LONGEST_MS 60000

int64_t
watch_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t
watch_in(int64_t ms)
{
	int64_t until;

	if (ms < 0 || __builtin_add_overflow(watch_now(), ms, &until))
		return WATCH_NEVER;
	return until;
}

bool
watch_sleep(const struct watch *watch, int64_t until)
{
	/* poll() leaves out negative descriptors: no connection, no input. */
	struct pollfd fds[] = {
	    {.fd = watch->signals->fd, .events = POLLIN},
	    {.fd = lb_fd(watch->lb), .events = lb_poll_events(watch->lb)},
	    {.fd = watch->input, .events = POLLIN},
	};
	int due = lb_timeout(watch->lb);
	int64_t left = due >= 0 && due < SLEEP_LONGEST_MS ? due : SLEEP_LONGEST_MS;

	if (until != WATCH_NEVER && until - watch_now() < left)
		left = until > watch_now() ? until - watch_now() : 0;
	if (poll(fds, 3, (int)left) <= 0)
		return false; /* lb_event_next() does the work of lb_timeout() */
	/* Its error comes again as LB_EVENT_CLOSED. */
	if (fds[1].revents != 0)
		(void)lb_dispatch(watch->lb);
	return fds[2].revents != 0;
}
