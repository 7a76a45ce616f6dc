/*
 * From a name to a lock, as `run` and `acquire` have it in common: connects, asks, waits in a way
 * that any signal ends at once, tells how it stands, creates the lock if that was asked for.
 */
#ifndef CLIENT_TOOL_WAITING_H
#define CLIENT_TOOL_WAITING_H

#include "client/lockbroker.h"
#include "client/tool/options.h"
#include "client/tool/signals.h"

/*
 * The lock in *ret, or NULL there and the exit status after telling why (which -E may have made 0).
 * `command` (NULL = none) is for others to read. From the connection on, the signals are held.
 */
int waiting_acquire(struct lb *lb, const struct options *options, const char *name,
    const char *command, struct signals *signals, struct lb_lock **ret);

#endif
