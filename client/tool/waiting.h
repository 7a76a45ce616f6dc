/*
 * The path from a name to a lock, for `run` and `acquire`: it connects, asks and waits. Any signal
 * ends the wait at once. It shows the progress, and creates the lock if the user wants that.
 */
#ifndef CLIENT_TOOL_WAITING_H
#define CLIENT_TOOL_WAITING_H

#include "client/lockbroker.h"
#include "client/tool/options.h"
#include "client/tool/signals.h"

/*
 * Sets *ret to the lock. On failure *ret is NULL, the reason was printed, and the exit status is
 * returned (0 if -E says so). `command` is the name of the
 * holder's program, for others, unless --command-text has more; NULL: none. From the
 * connection on, the signals are handled as in signals.h; signals->fd -1: they are not yet.
 * process: a pidfd whose end ends the wait, too; -1: none.
 */
int waiting_acquire(struct lb *lb, const struct tool_options *options, const char *name,
    const char *command, int process, struct signals *signals, struct lb_lock **ret);

#endif
