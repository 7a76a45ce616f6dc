/*
 * The daemon as a whole: event loop, wiring of the folders, signals, and the order in which the
 * parts stop. Owns one object of each folder. All other work is done in the folders.
 *
 * After each pass of the loop the server runs the timers that are due, and then visits the peers.
 * Dead peers are freed only there, so no function on the stack refers to a freed peer.
 */
#ifndef SERVER_H
#define SERVER_H

#include "daemon/config/config.h"

/* Forbids core dumps of this process. Call it before the process reads a password. */
void server_limit_core(void);
/*
 * The configuration is wrong: ends what an earlier daemon left with the service manager, and
 * disconnects the clients that wait (listener.h).
 */
void server_turn_away(void);
/* Runs until a signal stops it; takes config. Returns the exit status of the process. */
int server_run(struct config *config);

#endif
