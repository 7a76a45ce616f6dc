/*
 * The lease as `run` reckons with it. The broker certainly keeps the slot for two heartbeats after the
 * sending of the newest request that it answered, and safe_until is a margin before that. By then the
 * command must be gone, KILL included:
 *
 *	request     next one, a third of a heartbeat later     TERM         KILL     safe_until
 *	|--------------|------------- ... ----------------------|-----------|---------|-- margin --|
 *	                                                         kill-after   reserve
 *
 * What is left before TERM is the time in which a newer lease can come.
 */
#ifndef CLIENT_RUN_LEASE_H
#define CLIENT_RUN_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lockbroker.h"
#include "client/tool/options.h"

/* KILL comes so long before safe_until: for the dying, and for a machine that has much to do. */
#define RUN_LEASE_RESERVE_MS 500

/* ms: --kill-after, or the part of the heartbeat that it is by default. */
int64_t run_lease_kill_after(const struct options *options, const struct lb_lock *lock);
/* Whether that leaves time for a newer lease to come; false after telling the arithmetic. */
bool run_lease_suffices(const struct options *options, const struct lb_lock *lock);
/* Tells since when nothing was heard of the broker, and that the command is ended for it. */
void run_lease_say_over(const struct options *options, const struct lb_lock *lock, int64_t now);

#endif
