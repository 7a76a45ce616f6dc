/*
 * Deadlines over a clock: the one place where the daemon's rooms ask to be called back at a time.
 * Owns nothing but its heap; a timer lives inside the object that it serves, and that object cancels
 * it before it goes. Knows no event loop: server asks for the next deadline and runs what is due, a
 * simulation does the same in virtual time.
 */
#ifndef BASE_TIMERS_H
#define BASE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/clock.h"

struct timer {
	void (*fire)(void *ctx, uint64_t id);
	void *ctx;      /* borrowed */
	uint64_t id;    /* handed to fire */
	int64_t when;   /* clock time; meaningful while set */
	uint64_t order; /* timers due at one time fire in the order in which they were set */
	size_t place;   /* where timers.c keeps it; 0 = not set */
};

struct timers;

struct timers *timers_new(const struct clock *clock);
/* No timer may be set any more. */
void timers_free(struct timers *timers);
const struct clock *timers_clock(const struct timers *timers);

void timer_init(struct timer *timer, void (*fire)(void *ctx, uint64_t id), void *ctx, uint64_t id);
/* Sets, or moves when already set. A time that has passed fires in the next run. */
void timers_set(struct timers *timers, struct timer *timer, int64_t when);
/* No-op when not set. */
void timers_cancel(struct timers *timers, struct timer *timer);
static inline int
timer_is_set(const struct timer *timer)
{
	return timer->place != 0;
}

/* When the next timer is due; INT64_MAX when none is set. */
int64_t timers_next(const struct timers *timers);
/*
 * Fires what is due now. What a firing timer sets, even at a time that has passed, waits for the
 * next run: a run always ends.
 */
void timers_run(struct timers *timers);

#endif
