/*
 * A lockbrokerd for one command, where none is installed: --broker-file and --broker-env. Owns the daemon, its
 * socket and their folder. The daemon is a child of the command, and ends with it.
 */
#ifndef CLIENT_PRIVATE_DAEMON_H
#define CLIENT_PRIVATE_DAEMON_H

#include <sys/types.h>
#include <sys/un.h>

#include "client/tool/options.h"
#include "client/tool/signals.h"

/* All zero: there is none. */
struct private_daemon {
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	struct sockaddr_un address;
	int listener, config;
	pid_t pid; /* 0: it was not started */
};

/*
 * Starts the daemon, whose socket accepts connections when this returns, and sets it in the options. The
 * variable of --broker-env is no longer set then. Handles the signals as in signals.h from then on. Returns an
 * exit status, and has said what is wrong.
 */
int private_daemon_start(
    struct private_daemon *daemon, struct tool_options *options, struct signals *signals);
/* Removes the socket, when nobody else is to connect. */
void private_daemon_hide(struct private_daemon *daemon);
/* Ends the daemon, if there is one, and waits for its end. */
void private_daemon_stop(struct private_daemon *daemon);

#endif
