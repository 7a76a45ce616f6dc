/*
 * The time of the daemon: nanoseconds of CLOCK_BOOTTIME, which continues while the machine sleeps
 * and never jumps. A clock is passed in, so tests and the simulation use their own.
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

/* The clock of the machine. */
extern const struct clock clock_boottime;
/* The time of day: ns since 1970. It can jump, back too. */
extern const struct clock clock_wall;

/* Reads the clock, without a cache: leases are compared with this time. */
static inline int64_t
clock_now(const struct clock *clock)
{
	return clock->now(clock->ctx);
}

#endif
