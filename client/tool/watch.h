/*
 * The one place where the command sleeps: until a signal, the daemon, one more descriptor, or a time.
 */
#ifndef CLIENT_TOOL_WATCH_H
#define CLIENT_TOOL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lockbroker.h"
#include "client/tool/signals.h"

#define WATCH_NEVER INT64_MAX

struct watch {
	struct lb *lb;                 /* borrowed */
	const struct signals *signals; /* borrowed */
	int input;                     /* watched for reading too; -1 = none */
};

/* Milliseconds of CLOCK_BOOTTIME. */
int64_t watch_now(void);
int64_t watch_in(int64_t ms); /* now + ms; LB_FOREVER: WATCH_NEVER */
/*
 * Sleeps, and lets the library read; what came is to be asked for: signals_next(), lb_event_next().
 * True when input can be read. A connection that is gone is no longer watched.
 */
bool watch_sleep(const struct watch *watch, int64_t until);

#endif
