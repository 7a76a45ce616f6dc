/*
 * Time, as the whole daemon sees it: nanoseconds of CLOCK_BOOTTIME, which goes on while the machine
 * sleeps and never jumps. A clock is passed in, so that tests and the simulation bring their own.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NSEC_PER_SEC INT64_C(1000000000)
#define NSEC_PER_MSEC INT64_C(1000000)

struct clock {
	int64_t (*now)(void *ctx);
	void *ctx; /* borrowed */
};

/* The machine's own clock. */
extern const struct clock clock_boottime;

/* A fresh reading, never a cached one: leases are compared with it. */
static inline int64_t
clock_now(const struct clock *clock)
{
	return clock->now(clock->ctx);
}

#endif
