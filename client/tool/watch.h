/*
 * The only place where the command sleeps: until a signal, a message of the daemon, input, or a
 * time.
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
	int input;                     /* another descriptor to read; -1: none */
};

/* Milliseconds of CLOCK_BOOTTIME. */
int64_t watch_now(void);
int64_t watch_in(int64_t ms); /* Now plus ms. LB_FOREVER: WATCH_NEVER. */
/*
 * Sleeps until one of these, and lets the library read. The caller then calls signals_next() and
 * lb_event_next(). True: there is input. A connection that ended is not watched any more.
 */
bool watch_sleep(const struct watch *watch, int64_t until);

#endif
