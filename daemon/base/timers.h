/*
 * Timers over a clock: the daemon's folders use them to be called back at a time. The module owns
 * only its heap. A timer is a part of the object that it serves, which cancels it before it is
 * freed. The module knows no event loop. The server asks for the next deadline and runs due timers.
 * A simulation does the same in virtual time.
 */
#ifndef BASE_TIMERS_H
#define BASE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/clock.h"

struct timer {
	void (*fire)(void *ctx, uint64_t id);
	void *ctx;      /* borrowed */
	uint64_t id;    /* passed to fire */
	int64_t when;   /* clock time; meaningful while set */
	uint64_t order; /* timers of the same time fire in the order in which they were set */
	size_t place;   /* its place in the heap; 0 = not set */
};

struct timers;

struct timers *timers_new(const struct clock *clock);
/* No timer may be set. */
void timers_free(struct timers *timers);
const struct clock *timers_clock(const struct timers *timers);

void timer_init(struct timer *timer, void (*fire)(void *ctx, uint64_t id), void *ctx, uint64_t id);
/* Sets a timer, or moves it. A time in the past fires in the next run. */
void timers_set(struct timers *timers, struct timer *timer, int64_t when);
/* A timer that is not set is ignored. */
void timers_cancel(struct timers *timers, struct timer *timer);
static inline int
timer_is_set(const struct timer *timer)
{
	return timer->place != 0;
}

/* Returns the clock time of the next timer; INT64_MAX if none is set. */
int64_t timers_next(const struct timers *timers);
/*
 * Fires the timers that are due. A timer that is set by one of them fires in the next run at the
 * earliest, so each run ends.
 */
void timers_run(struct timers *timers);

#endif
