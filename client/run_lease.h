/*
 * The lease as `run` uses it. The broker certainly keeps the slot for two heartbeats after the
 * newest request that it answered was sent. safe_until is that time less the margin. By then the
 * child must be gone, even if it needs KILL:
 *
 *	request     the next, a third of a heartbeat later   TERM         KILL     safe_until
 *	|--------------|----------- ... ----------------------|-----------|---------|-- margin --|
 *	                                                       kill-after   reserve
 *
 * The time before TERM is left for a newer lease to come.
 */
#ifndef CLIENT_RUN_LEASE_H
#define CLIENT_RUN_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lockbroker.h"
#include "client/tool/options.h"

/* KILL comes this long before safe_until: time for the child to die, on a busy machine, too. */
#define RUN_LEASE_RESERVE_MS 500

/* --kill-after in ms. Default: a part of the heartbeat. */
int64_t run_lease_kill_after(const struct tool_options *options, const struct lb_lock *lock);
/* Whether there is time left for a newer lease. False: it has printed the arithmetic. */
bool run_lease_suffices(const struct tool_options *options, const struct lb_lock *lock);
/*
 * Says since when there has been no answer, and that the child is ended because of it. suspect: the daemon
 * said that it is the broker's.
 */
void run_lease_say_over(
    const struct tool_options *options, const struct lb_lock *lock, bool suspect, int64_t now);

#endif
