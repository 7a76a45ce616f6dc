/*
 * A lockbrokerd for one command, where none is installed: `run --broker-file` and `run --broker-env`. Owns the
 * daemon, its socket and their folder.
 */
#ifndef CLIENT_PRIVATE_DAEMON_H
#define CLIENT_PRIVATE_DAEMON_H

#include "client/tool/options.h"

/*
 * Starts the daemon and calls perform() in a child process, with the daemon's socket in the options. Passes
 * signals on to the child. Ends the daemon after it. Returns the exit status of the child.
 */
int private_daemon_around(const struct options *options, char *operands[],
    int (*perform)(const struct options *options, char *operands[]));

#endif
