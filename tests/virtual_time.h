/*
 * A clock that the test sets.
 */
#ifndef TESTS_VIRTUAL_TIME_H
#define TESTS_VIRTUAL_TIME_H

#include <stdint.h>

#include "daemon/base/clock.h"
#include "daemon/base/timers.h"

static int64_t now; /* ns */

static inline int64_t
read_now(void *ctx)
{
	(void)ctx;
	return now;
}

static const struct clock virtual_clock = {.now = read_now};

/* ns pass. settle: does all that is to be done at one moment. */
static inline void
virtual_time_pass(struct timers *timers, int64_t ns, void (*settle)(void))
{
	int64_t until = now + ns;

	settle();
	while (timers_next(timers) <= until) {
		now = timers_next(timers);
		settle();
	}
	now = until;
	settle();
}

#endif
