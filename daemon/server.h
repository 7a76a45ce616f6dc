/*
 * The daemon as a whole: the event loop, the wiring of its rooms, signals, and the order in which it
 * stops. Owns one of each room. Everything else is in the rooms.
 *
 * After each pass of the loop: timers that are due, then the peers (lines left over, output, and the
 * freeing of those that are gone), so that no object is freed while it is on the stack.
 */
#ifndef SERVER_H
#define SERVER_H

#include "daemon/config/config.h"

/* No core dump of this process, before it knows a password. */
void server_limit_core(void);
/* Runs until told to stop; takes config. Returns the exit status of the process. */
int server_run(struct config *config);

#endif
