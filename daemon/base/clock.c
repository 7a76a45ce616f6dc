#include "daemon/base/clock.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

static int64_t
boottime_now(void *ctx)
{
	struct timespec now;

	(void)ctx;
	/* Linux has this clock since 2.6.39. Without it no lease could be kept. */
	if (clock_gettime(CLOCK_BOOTTIME, &now) != 0)
		abort();
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static int64_t
wall_now(void *ctx)
{
	struct timespec now;

	(void)ctx;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		abort();
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

const struct clock clock_boottime = {.now = boottime_now, .ctx = NULL};
const struct clock clock_wall = {.now = wall_now, .ctx = NULL};
